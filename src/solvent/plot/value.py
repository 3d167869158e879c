"""Plot of a frontier: the optimal value of every budget, the least feasible budget, and marginal values."""

from __future__ import annotations

import math
import textwrap
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, printable, quote
from solvent.model.cmdp import CMDP
from solvent.plot.labels import amount, axis_text, least_text, limit_texts, number, plot_name, title_text, varied_text
from solvent.plot.palette import GRAY
from solvent.plot.style import LEAST_BUDGET, MARGINAL, NOTHING, VALUE, faint_grid, styled_axes
from solvent.solvers.curve import Curve

#: Height of the strip of marginal values, and heights of the lowest and the highest value, as shares of the plot.
_STRIP, _LOWEST, _HIGHEST = 0.22, 0.31, 0.91
#: Marginal values beyond this multiple of the 90 % quantile are cut off.
_TALL = 4
#: Characters of a line, and most lines, of the caption that lists ignored limits.
_CAPTION_WIDTH, _CAPTION_LINES = 90, 4


def frontier(curve: Curve, ax: Axes | None = None, *, budget: Number | None = None) -> Axes:
    """Plot the optimal value against the budget; the same as `curve.plot(ax, budget=...)`.

    In the gray area on the left no policy is feasible. The strip at the bottom shows the marginal value of each
    budget, `curve.marginal(budget, curve.shown_extra)`. If the curve varies what remains of a fixed limit, that
    is the horizontal axis. A caption lists limits of the model that the curve ignores.

    Parameters
    ----------
    curve : Curve
        Result of `solvent.frontier`.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure. The strip is the last of its `child_axes`.
    budget : number, optional
        A budget to mark.

    Raises
    ------
    ModelError
        If `curve` is not a `Curve`.
    BudgetError
        If `budget` is beyond the range of the curve.

    Examples
    --------
    >>> import solvent
    >>> curve = solvent.frontier(solvent.instances.knapsack([60, 100, 120], [10, 20, 30]))
    >>> [text.get_text() for text in frontier(curve, budget=50).texts]
    ['least budget 0', '220 at 50']
    """
    if not isinstance(curve, Curve):
        hint = "solvent.frontier(model) makes one" if isinstance(curve, CMDP) else ""
        raise ModelError("curve", "a Curve", quote(curve), hint)
    mark = None if budget is None else exact(budget, "budget")
    worth = None if mark is None else curve.value(mark)
    with styled_axes(ax) as axes:
        axes.set(xlabel=axis_text(curve, plot_name(curve.resource)), ylabel="optimal value")
        left, right = _ends(curve, mark)
        pad = 0.04 * (right - left)
        axes.set_xlim(left - pad, right + pad)
        if curve.budgets:
            _draw_steps(axes, curve, right)
            _draw_least(axes, curve, left - pad)
        else:
            _draw_nothing(axes, curve)
        if mark is not None and worth is not None:
            _draw_mark(axes, mark, worth)
        if curve.ignored_limits:
            draw_caption(axes, curve.ignored_limits)
        axes.set_title(
            title_text(curve.model.name, limit_texts(curve.fixed_limits), f"optimal value by {varied_text(curve)}")
        )
    return axes


def draw_caption(axes: Axes, ignored: tuple[str, ...]) -> None:
    """Say below the plot which limits a curve or a surface does not keep."""
    listed = printable("; ".join(ignored)).replace("$", r"\$")
    lines = textwrap.wrap(f"ignored limits, which policies can break: {listed}", _CAPTION_WIDTH)
    shown = lines if len(lines) <= _CAPTION_LINES else [*lines[: _CAPTION_LINES - 1], "..."]
    axes.annotate(
        "\n".join(shown), (0.0, 0.0), xycoords="axes fraction", xytext=(0, -36), textcoords="offset points",
        va="top", ha="left", color=LEAST_BUDGET, fontsize=8, annotation_clip=False,
    )  # fmt: skip


def _ends(curve: Curve, mark: Fraction | None) -> tuple[float, float]:
    """Return the limits of the horizontal axis."""
    shown = [curve.max_budget, *curve.budgets[:1], *curve.budgets[-1:], *([] if mark is None else [mark])]
    if not curve.budgets:
        shown.append(Fraction(0))
    low, high = float(min(shown)), float(max(shown))
    if low == high:
        room = 0.5 * max(abs(low), 1.0)
        return low - room / 2, high + room
    # if the last level extends to infinity, show a part of it
    return low, high + 0.05 * (high - low) if curve.flat_beyond else high


def _draw_steps(axes: Axes, curve: Curve, right: float) -> None:
    end = right if curve.flat_beyond else float(max(curve.max_budget, curve.budgets[-1]))
    edges = [*map(float, curve.budgets), end]
    axes.stairs(curve.values, edges, baseline=None, color=VALUE, linewidth=1.8, label="optimal value")
    if edges[0] == edges[-1]:
        axes.plot(edges[:1], curve.values[:1], "o", color=VALUE, markersize=5)
    low, high = float(curve.values[0]), float(curve.values[-1])
    if low == high:
        room = 0.5 * max(abs(low), 1.0)
        axes.set_ylim(low - room, high + room)
        faint_grid(axes)
        return
    scale = (high - low) / (_HIGHEST - _LOWEST)
    axes.set_ylim(low - _LOWEST * scale, high + (1 - _HIGHEST) * scale)
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    lowest = low - (_LOWEST - _STRIP - 0.04) * scale
    axes.set_yticks([float(tick) for tick in ticks if lowest <= tick <= high + (1 - _HIGHEST) * scale])
    axes.spines["left"].set_bounds(lowest, high + (1 - _HIGHEST) * scale)
    axes.yaxis.label.set_y((_STRIP + 1) / 2 + 0.02)
    faint_grid(axes)
    _draw_marginal(axes, curve)


def _draw_marginal(axes: Axes, curve: Curve) -> None:
    extra = curve.shown_extra
    edges, worth = marginal_steps(curve, extra)
    if not len(worth):
        return
    strip = axes.inset_axes((0.0, 0.0, 1.0, _STRIP), sharex=axes)
    strip.stairs(worth, edges, fill=True, color=MARGINAL, alpha=0.85)
    strip.patch.set_visible(False)
    strip.spines[["top", "right", "bottom"]].set_visible(False)
    strip.tick_params(axis="x", bottom=False, labelbottom=False)
    strip.yaxis.set_major_locator(MaxNLocator(nbins=2, min_n_ticks=2))
    peak = int(np.argmax(worth))
    usual = _usual(worth, np.diff(edges))
    if worth[peak] > _TALL * usual > 0:
        # a few very tall steps would hide all others: cut them off, and label the tallest with its value
        top = _TALL / 2 * usual
        strip.set_ylim(0, top)
        after = peak + 1
        while after < len(worth) and worth[after] > 0.8 * top:
            after += 1
        strip.annotate(
            f"↑ {number(float(worth[peak]))}", (float(edges[after]), 1.0), xycoords=("data", "axes fraction"),
            xytext=(3, 0), textcoords="offset points", va="top", fontsize=7.5,
        )  # fmt: skip
    else:
        strip.set_ylim(0, 1.05 * float(worth[peak]) or 1.0)  # if the value rises at the last budget only, all are 0
    strip.set_ylabel(f"gain of +{number(float(extra))}", fontsize=8)


def _usual(worth: NDArray[np.float64], widths: NDArray[np.float64]) -> float:
    """Return the 90 % quantile of the marginal value over all budgets."""
    order = np.argsort(worth)
    total = np.cumsum(widths[order])
    return float(worth[order[np.searchsorted(total, 0.9 * total[-1])]])


def marginal_steps(curve: Curve, extra: Fraction) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gain from `extra` more budget as a step function: edges of shape (N + 1,) and values of shape (N,).

    The edges are computed in integers, so that rounding errors cannot produce spurious steps.

    Examples
    --------
    >>> import solvent
    >>> edges, worth = marginal_steps(solvent.frontier(solvent.instances.knapsack([3, 4], [2, 3])), Fraction(1))
    >>> edges.tolist(), worth.tolist()
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 3.0, 1.0, 0.0, 3.0])
    """
    whole = math.lcm(extra.denominator, curve.max_budget.denominator, *(budget.denominator for budget in curve.budgets))
    points = _integers([int(budget * whole) for budget in curve.budgets])
    gain, top = int(extra * whole), int(max(curve.max_budget, curve.budgets[-1]) * whole)
    last = top if curve.flat_beyond else top - gain
    begins = np.unique(np.concatenate([points, points - gain]))
    begins = begins[(begins >= points[0]) & (begins < last)]
    if not len(begins):
        return np.zeros(0), np.zeros(0)

    def value(at: NDArray[Any]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = curve.values[np.searchsorted(points, at, side="right") - 1]
        return result

    edges = np.array([float(Fraction(int(edge), whole)) for edge in (*begins.tolist(), last)])
    return edges, value(begins + gain) - value(begins)


def _integers(values: list[int]) -> NDArray[Any]:
    return np.array(values, np.int64 if max(map(abs, values)) < 2**61 else object)


def _draw_least(axes: Axes, curve: Curve, left: float) -> None:
    least = curve.budgets[0]
    at = float(least)
    axes.axvspan(left, at, color=NOTHING, zorder=0, label="infeasible")
    axes.axvline(at, color=LEAST_BUDGET, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.annotate(
        f"{least_text(curve)} {amount(least)}", (at, 1.0), xycoords=("data", "axes fraction"), xytext=(5, 0),
        textcoords="offset points", va="top", color=LEAST_BUDGET, fontsize=8.5,
    )  # fmt: skip


def _draw_nothing(axes: Axes, curve: Curve) -> None:
    left, right = axes.get_xlim()
    axes.axvspan(left, right, color=NOTHING, zorder=0, label="infeasible")
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    what = "budget" if curve.vary == "budget" else "amount"
    text = f"no feasible policy\nfor any {what} up to {amount(curve.max_budget)}"
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=LEAST_BUDGET)


def _draw_mark(axes: Axes, mark: Fraction, worth: float) -> None:
    at = float(mark)
    bottom = axes.get_ylim()[0]
    top = axes.get_ylim()[1] if worth == -math.inf else worth
    axes.plot([at, at], [bottom, top], color=GRAY, linewidth=1.0, linestyle=(0, (1, 2)))
    low, high = axes.get_xlim()
    late = at > low + 0.55 * (high - low)
    if worth == -math.inf:
        axes.annotate(
            f"infeasible at {amount(mark)}", (at, 0.12), xycoords=("data", "axes fraction"),
            xytext=(-5 if late else 5, 0), textcoords="offset points", ha="right" if late else "left", fontsize=8.5,
        )  # fmt: skip
        return
    axes.plot([at], [worth], "o", color=VALUE, markeredgecolor="white", markersize=6, zorder=3, label="marked budget")
    # the curve is nondecreasing, so there is space above it on the left and below it on the right
    axes.annotate(
        f"{number(worth)} at {amount(mark)}", (at, worth), xytext=(-6, 7) if late else (7, -7),
        textcoords="offset points", ha="right" if late else "left", va="bottom" if late else "top", fontsize=8.5,
    )  # fmt: skip
