"""Pictures: of curves, spending, policies and solves, on matplotlib Axes, in files and in the terminal.

Every function that draws takes Axes, or makes a figure of its own if given none, and returns the Axes. Figures are
made without pyplot: no display is needed, the user's backend and settings stay as they are, and nothing has to be
closed.

>>> import solvent
>>> curve = solvent.frontier(solvent.instances.knapsack([60, 100, 120], [10, 20, 30]))
>>> axes = solvent.show.frontier(curve, budget=50)
>>> axes.get_xlabel()
'budget of weight'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solvent.show.console import frontier_table, terminal_frontier, terminal_plot
    from solvent.show.decisions import policy
    from solvent.show.files import save
    from solvent.show.grid import arrows
    from solvent.show.progress import bounds, layers
    from solvent.show.spent import spending
    from solvent.show.value import frontier

#: Where each name lives. No module is called like a function: importing it would put it in the function's place.
_HOME = {
    "arrows": "solvent.show.grid",
    "bounds": "solvent.show.progress",
    "frontier": "solvent.show.value",
    "frontier_table": "solvent.show.console",
    "layers": "solvent.show.progress",
    "policy": "solvent.show.decisions",
    "save": "solvent.show.files",
    "spending": "solvent.show.spent",
    "terminal_frontier": "solvent.show.console",
    "terminal_plot": "solvent.show.console",
}

__all__ = [
    "arrows",
    "bounds",
    "frontier",
    "frontier_table",
    "layers",
    "policy",
    "save",
    "spending",
    "terminal_frontier",
    "terminal_plot",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'solvent.show' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
