"""Plots of learning: bounds, returns and costs by episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from solvent.errors import ModelError, quote
from solvent.plot.labels import title_text
from solvent.plot.palette import GRAY
from solvent.plot.style import NOTHING, QUANTILES, UPPER_BOUND, VALUE, faint_grid, styled_axes

#: Number of episodes over which returns are averaged, as a share of all.
_SHARE = 50


def learning(result: Any, ax: Axes | None = None) -> Axes:
    """Plot the bounds and the mean return against the number of episodes.

    The title names the model and its limits, where the result knows them.

    Parameters
    ----------
    result : LearnResult
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ModelError
        If it is not a result of learning, or has no plans.

    Examples
    --------
    >>> import solvent
    >>> axes = learning(solvent.learn(solvent.instances.markov_gap(), epsilon=0.3))
    >>> axes.get_xlabel()
    'episodes'
    """
    history, returns = getattr(result, "history", None), getattr(result, "returns", None)
    if history is None or returns is None:
        raise ModelError("result", "a LearnResult", quote(result), "solvent.learn(...) makes one")
    if not history:
        raise ModelError("result", "a result with plans", f"none, with status {str(result.status)!r}")
    episodes = np.array([each.episodes for each in history], np.float64)
    upper = np.array([each.value_upper for each in history])
    lower = np.array([each.value_lower for each in history])
    with styled_axes(ax) as axes:
        axes.set(xlabel="episodes", ylabel="value")
        axes.fill_between(episodes, lower, upper, step="post", color=NOTHING, linewidth=0)
        axes.plot(episodes, upper, color=UPPER_BOUND, drawstyle="steps-post", label="upper bound on the optimum")
        axes.plot(episodes, lower, color=VALUE, drawstyle="steps-post", label="lower bound on the policy")
        if len(returns):
            middle, mean = _averages(returns)
            axes.plot(middle, mean, color=QUANTILES, linewidth=1.0, label="mean return while learning")
        faint_grid(axes)
        axes.margins(x=0.02, y=0.08)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
        over = f"{result.violations:,} of {result.episodes:,} episodes over budget"
        name, limits = getattr(result, "model_name", ""), getattr(result, "limits", {})
        axes.set_title(title_text(name, limits, f"gap {result.gap:.4g}, {over}"), color=GRAY, fontsize=9)
    return axes


def _averages(returns: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middle and the mean return of consecutive groups of episodes."""
    size = max(len(returns) // _SHARE, 1)
    starts = np.arange(0, len(returns), size)
    sizes = np.diff(np.append(starts, len(returns)))
    return starts + sizes / 2, np.add.reduceat(returns, starts) / sizes
