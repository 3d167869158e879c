"""Solvent plans and learns policies that never go over budget: at no step, under no luck.

>>> import solvent
>>> b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"])
>>> b.add("home", "go", reward=1, outcomes=[(0.7, "home", {"fuel": 1}), (0.3, "away", {"fuel": "3/2"})])
>>> b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
>>> b.build()
CMDP(horizon 3, 2 states, 2 actions, 3 rows, 5 outcomes, 2 tables, resources ['fuel'])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solvent._version import __version__
from solvent.errors import BudgetError, LatticeOverflowError, ModelError, SolventError

if TYPE_CHECKING:
    from solvent.model import instances
    from solvent.model.budget import Budget
    from solvent.model.cmdp import CMDP
    from solvent.model.distributions import CostLaw, law
    from solvent.model.files import load

#: Where each public name lives; a module is imported when one of its names is first used.
_HOME = {
    "CMDP": "solvent.model.cmdp",
    "Budget": "solvent.model.budget",
    "CostLaw": "solvent.model.distributions",
    "law": "solvent.model.distributions",
    "load": "solvent.model.files",
    "instances": "solvent.model.instances",
}

__all__ = [
    "CMDP",
    "Budget",
    "BudgetError",
    "CostLaw",
    "LatticeOverflowError",
    "ModelError",
    "SolventError",
    "__version__",
    "instances",
    "law",
    "load",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'solvent' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
