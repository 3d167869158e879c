"""Plots of frontiers, spending, policies and solver progress: on matplotlib Axes, in files and in the terminal.

Every plotting function draws on the given Axes, or on a new figure, and returns the Axes. Figures are made without
pyplot: they need no display, leave the user's backend and settings unchanged, and need not be closed.

Examples
--------
>>> import solvent
>>> curve = solvent.frontier(solvent.instances.knapsack([60, 100, 120], [10, 20, 30]))
>>> axes = solvent.plot.frontier(curve, budget=50)
>>> axes.get_xlabel()
'budget of weight'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solvent.plot.decisions import policy
    from solvent.plot.episodes import learning
    from solvent.plot.files import save
    from solvent.plot.grid import arrows
    from solvent.plot.heat import heat_map
    from solvent.plot.panels import policy_panels, spending_panels
    from solvent.plot.progress import bounds, layers
    from solvent.plot.spent import spending
    from solvent.plot.surfaces import surface
    from solvent.plot.terminal import frontier_table, terminal_frontier, terminal_plot
    from solvent.plot.value import frontier

#: The module of each name. No module has the name of a function: importing it would replace the function.
_HOME = {
    "arrows": "solvent.plot.grid",
    "bounds": "solvent.plot.progress",
    "frontier": "solvent.plot.value",
    "frontier_table": "solvent.plot.terminal",
    "heat_map": "solvent.plot.heat",
    "layers": "solvent.plot.progress",
    "learning": "solvent.plot.episodes",
    "policy": "solvent.plot.decisions",
    "policy_panels": "solvent.plot.panels",
    "save": "solvent.plot.files",
    "spending": "solvent.plot.spent",
    "spending_panels": "solvent.plot.panels",
    "surface": "solvent.plot.surfaces",
    "terminal_frontier": "solvent.plot.terminal",
    "terminal_plot": "solvent.plot.terminal",
}

__all__ = [
    "arrows",
    "bounds",
    "frontier",
    "frontier_table",
    "heat_map",
    "layers",
    "learning",
    "policy",
    "policy_panels",
    "save",
    "spending",
    "spending_panels",
    "surface",
    "terminal_frontier",
    "terminal_plot",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'solvent.plot' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
