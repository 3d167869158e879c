"""Solvent plans and learns policies that never go over budget: at no step, under no luck.

>>> import solvent
>>> b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"])
>>> b.add("home", "go", reward=1, outcomes=[(0.7, "home", {"fuel": 1}), (0.3, "away", {"fuel": "3/2"})])
>>> b.add("home", "rest", outcomes=[(1, "home", 0)])
>>> b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
>>> solvent.solve(b.build(), budget={"fuel": 2.5})
Solution(optimal, value 1.7, worst spent fuel 2.5, frontier)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solvent._version import __version__
from solvent.core.interrupt import held_back
from solvent.errors import (
    BudgetError,
    LatticeOverflowError,
    LimitError,
    LoadLimitError,
    ModelError,
    PolicyError,
    SolventError,
    UnmodelledOutcome,
)

if TYPE_CHECKING:
    from solvent import baselines, gym, learning, show
    from solvent.baselines.compare import compare
    from solvent.check.simulate import simulate
    from solvent.check.verify import verify
    from solvent.core.loading import LoadLimits
    from solvent.learning.learn import learn
    from solvent.learning.result import Learned
    from solvent.model import instances
    from solvent.model.budget import Budget
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.model.distributions import CostLaw, law
    from solvent.model.files import load
    from solvent.plan.augment import augment
    from solvent.plan.augmented import AugmentedMDP
    from solvent.plan.curve import Curve, frontier
    from solvent.plan.solution import Solution, Status
    from solvent.plan.solve import solve
    from solvent.policy.derandomize import derandomize
    from solvent.policy.discounted import DiscountedPolicy
    from solvent.policy.files import load_policy
    from solvent.policy.markov import MarkovPolicy, RandomisedPolicy
    from solvent.policy.table import AugmentedPolicy

#: Where each public name lives; a module is imported when one of its names is first used.
_HOME = {
    "AugmentedMDP": "solvent.plan.augmented",
    "AugmentedPolicy": "solvent.policy.table",
    "Budget": "solvent.model.budget",
    "CMDP": "solvent.model.cmdp",
    "CostLaw": "solvent.model.distributions",
    "Curve": "solvent.plan.curve",
    "DiscountedCMDP": "solvent.model.discounted",
    "DiscountedPolicy": "solvent.policy.discounted",
    "Learned": "solvent.learning.result",
    "LoadLimits": "solvent.core.loading",
    "MarkovPolicy": "solvent.policy.markov",
    "RandomisedPolicy": "solvent.policy.markov",
    "Solution": "solvent.plan.solution",
    "Status": "solvent.plan.solution",
    "augment": "solvent.plan.augment",
    "baselines": "solvent.baselines",
    "compare": "solvent.baselines.compare",
    "derandomize": "solvent.policy.derandomize",
    "frontier": "solvent.plan.curve",
    "gym": "solvent.gym",
    "instances": "solvent.model.instances",
    "law": "solvent.model.distributions",
    "learn": "solvent.learning.learn",
    "learning": "solvent.learning",
    "load": "solvent.model.files",
    "load_policy": "solvent.policy.files",
    "show": "solvent.show",
    "simulate": "solvent.check.simulate",
    "solve": "solvent.plan.solve",
    "verify": "solvent.check.verify",
}

#: Names that are modules themselves.
_MODULES = ("baselines", "gym", "instances", "learning", "show")

__all__ = [
    "CMDP",
    "AugmentedMDP",
    "AugmentedPolicy",
    "Budget",
    "BudgetError",
    "CostLaw",
    "Curve",
    "DiscountedCMDP",
    "DiscountedPolicy",
    "LatticeOverflowError",
    "Learned",
    "LimitError",
    "LoadLimitError",
    "LoadLimits",
    "MarkovPolicy",
    "ModelError",
    "PolicyError",
    "RandomisedPolicy",
    "Solution",
    "SolventError",
    "Status",
    "UnmodelledOutcome",
    "__version__",
    "augment",
    "baselines",
    "compare",
    "derandomize",
    "frontier",
    "gym",
    "instances",
    "law",
    "learn",
    "learning",
    "load",
    "load_policy",
    "show",
    "simulate",
    "solve",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'solvent' has no attribute {name!r}")
    with held_back():  # an interrupted import of Numba leaves modules that cannot be imported again
        module = importlib.import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
