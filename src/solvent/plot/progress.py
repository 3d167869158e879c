"""Plots of a solver run: bounds over time, and the sizes of layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from solvent.errors import ModelError, quote
from solvent.plot.labels import number, title_text
from solvent.plot.style import NOTHING, UPPER_BOUND, VALUE, faint_grid, step_axis, styled_axes

#: Ratios of largest to smallest value beyond which an axis is logarithmic.
_WIDE_TIMES, _WIDE_SIZES = 100, 2000


def bounds(solution: Any, ax: Axes | None = None) -> Axes:
    """Plot the lower and the upper bound after each round of `solve(gap=...)` against time.

    Parameters
    ----------
    solution : Solution
        Solution with `rounds`, each of which has `lower`, `upper`, `gap` and `seconds`.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ModelError
        If it is not a solution, or has no rounds.
    """
    rounds = tuple(getattr(solution, "rounds", None) or ())
    if not rounds:
        method = getattr(solution, "method", None)
        if method is None:
            raise ModelError("solution", "a Solution", quote(solution), "solvent.solve(model, gap=...) makes one")
        raise ModelError(
            "solution", "a solution with rounds", f"a solution of method {method!r} without rounds",
            "solve with gap=... to compute bounds in rounds",
        )  # fmt: skip
    seconds = np.array([each.seconds for each in rounds], np.float64)
    lower, upper = (_finite([getattr(each, side) for each in rounds]) for side in ("lower", "upper"))
    with styled_axes(ax) as axes:
        axes.set(xlabel="seconds", ylabel="value")
        axes.fill_between(seconds, lower, upper, step="post", color=NOTHING, linewidth=0)
        marker: dict[str, Any] = {"marker": "o", "markersize": 3.5, "drawstyle": "steps-post", "linewidth": 1.6}
        axes.plot(seconds, upper, color=UPPER_BOUND, label="upper bound", **marker)
        axes.plot(seconds, lower, color=VALUE, label="feasible value", **marker)
        positive = seconds[seconds > 0]
        if len(positive) == len(seconds) and seconds.max() > _WIDE_TIMES * seconds.min():
            axes.set_xscale("log")
        faint_grid(axes)
        axes.margins(x=0.04, y=0.1)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
        axes.set_title(_title(solution, f"gap {_percent(rounds[-1].gap)} after {_rounds(len(rounds))}"))
    return axes


def layers(solution: Any, ax: Axes | None = None) -> Axes:
    """Plot the size of each layer: the number of nodes, or of points of frontiers.

    Parameters
    ----------
    solution : Solution
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ModelError
        If it is not a solution, or has no layers.

    Examples
    --------
    >>> import solvent
    >>> solution = solvent.solve(solvent.instances.fuel_grid(3), method="reduction")
    >>> layers(solution).get_ylabel()
    'nodes'
    """
    stats = getattr(solution, "stats", None)
    if stats is None:
        raise ModelError("solution", "a Solution", quote(solution))
    sizes = [int(size) for size in stats.layer_sizes]
    if not any(sizes):
        status = getattr(solution, "status", "unknown")
        raise ModelError("solution", "a solution with layers", f"none, with status {str(status)!r}")
    unit = "points" if stats.representation == "arrays" else stats.representation
    with styled_axes(ax) as axes:
        step_axis(axes, len(sizes) - 1, "step")
        axes.set_ylabel(unit)
        edges = np.arange(len(sizes) + 1) - 0.5
        wide = max(sizes) > _WIDE_SIZES * max(1, min(size for size in sizes if size))
        base = 0.5 if wide else 0.0
        axes.stairs(sizes, edges, baseline=base, fill=True, color=VALUE, label="layer sizes")
        if wide:
            axes.set_yscale("log")
            axes.set_ylim(base, 3.0 * max(sizes))
        else:
            axes.set_ylim(0, 1.12 * max(sizes))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
            axes.yaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
        faint_grid(axes)
        largest = int(np.argmax(sizes))
        share = largest / max(len(sizes) - 1, 1)
        axes.annotate(
            f"{sizes[largest]:,}", (largest, sizes[largest]), xytext=(0, 3), textcoords="offset points",
            ha="left" if share < 0.05 and len(sizes) > 1 else "right" if share > 0.95 and len(sizes) > 1 else "center",
            fontsize=8.5,
        )  # fmt: skip
        axes.set_title(_title(solution, f"{sum(sizes):,} {unit} in total"))
    return axes


def _title(solution: Any, what: str) -> str:
    asked = getattr(solution, "asked", None)
    return what if asked is None else title_text(asked[0].name, asked[1].texts, what)


def _finite(values: list[float]) -> Any:
    array = np.array(values, np.float64)
    array[~np.isfinite(array)] = np.nan
    return array


def _percent(gap: float) -> str:
    return f"{number(100 * gap)} %" if math.isfinite(gap) else "unknown"


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"
