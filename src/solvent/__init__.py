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
    UnmodeledOutcome,
)

if TYPE_CHECKING:
    from solvent import baselines, gym, learning, plot
    from solvent.baselines.compare import compare
    from solvent.core.loading import LoadLimits
    from solvent.formats.files import load_model
    from solvent.learning.learn import learn
    from solvent.learning.result import LearnResult
    from solvent.model import instances
    from solvent.model.budget import Budget
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.model.distributions import CostDistribution, distribution
    from solvent.policy.derandomize import derandomize
    from solvent.policy.discounted import DiscountedPolicy
    from solvent.policy.files import load_policy
    from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
    from solvent.policy.table import AugmentedPolicy
    from solvent.solvers.augmentation.augment import augment
    from solvent.solvers.augmentation.mdp import AugmentedMDP
    from solvent.solvers.curve import Curve, frontier
    from solvent.solvers.solution import Solution, Status
    from solvent.solvers.solve import solve
    from solvent.verification.simulate import simulate
    from solvent.verification.verify import verify

#: Where each public name lives; a module is imported when one of its names is first used.
_HOME = {
    "AugmentedMDP": "solvent.solvers.augmentation.mdp",
    "AugmentedPolicy": "solvent.policy.table",
    "Budget": "solvent.model.budget",
    "CMDP": "solvent.model.cmdp",
    "CostDistribution": "solvent.model.distributions",
    "Curve": "solvent.solvers.curve",
    "DiscountedCMDP": "solvent.model.discounted",
    "DiscountedPolicy": "solvent.policy.discounted",
    "LearnResult": "solvent.learning.result",
    "LoadLimits": "solvent.core.loading",
    "MarkovPolicy": "solvent.policy.markov",
    "RandomizedPolicy": "solvent.policy.markov",
    "Solution": "solvent.solvers.solution",
    "Status": "solvent.solvers.solution",
    "augment": "solvent.solvers.augmentation.augment",
    "baselines": "solvent.baselines",
    "compare": "solvent.baselines.compare",
    "derandomize": "solvent.policy.derandomize",
    "frontier": "solvent.solvers.curve",
    "gym": "solvent.gym",
    "instances": "solvent.model.instances",
    "distribution": "solvent.model.distributions",
    "learn": "solvent.learning.learn",
    "learning": "solvent.learning",
    "load_model": "solvent.formats.files",
    "load_policy": "solvent.policy.files",
    "plot": "solvent.plot",
    "simulate": "solvent.verification.simulate",
    "solve": "solvent.solvers.solve",
    "verify": "solvent.verification.verify",
}

#: Names that are modules themselves.
_MODULES = ("baselines", "gym", "instances", "learning", "plot")

__all__ = [
    "CMDP",
    "AugmentedMDP",
    "AugmentedPolicy",
    "Budget",
    "BudgetError",
    "CostDistribution",
    "Curve",
    "DiscountedCMDP",
    "DiscountedPolicy",
    "LatticeOverflowError",
    "LearnResult",
    "LimitError",
    "LoadLimitError",
    "LoadLimits",
    "MarkovPolicy",
    "ModelError",
    "PolicyError",
    "RandomizedPolicy",
    "Solution",
    "SolventError",
    "Status",
    "UnmodeledOutcome",
    "__version__",
    "augment",
    "baselines",
    "compare",
    "derandomize",
    "distribution",
    "frontier",
    "gym",
    "instances",
    "learn",
    "learning",
    "load_model",
    "load_policy",
    "plot",
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
