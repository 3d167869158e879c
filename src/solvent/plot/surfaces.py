"""Plot of a surface: the optimal value of every pair of budgets as a map, with the front of least budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.errors import BudgetError, ModelError, quote
from solvent.model.budget import Budget
from solvent.model.cmdp import CMDP
from solvent.plot.labels import amount, axis_text, limit_texts, number, plot_name, title_text, varied_text
from solvent.plot.palette import BLACK, BLUE, SKY
from solvent.plot.style import LEAST_BUDGET, MARGINAL, NOTHING, styled_axes
from solvent.plot.value import draw_caption
from solvent.solvers.surface import Surface

#: Size of the figure, in inches.
_SIZE = (6.4, 4.8)
#: Budgets of one resource that are drawn; larger tables are thinned.
_MOST_DRAWN = 400
#: Contour lines, least budgets that get a dot each, and the share of values on which lines are drawn in white.
_LEVELS, _DOTS, _DARK = 8, 40, 0.45
#: Least distance between labels of lines, what is shown beyond the last rise of the value, and the width of the strip
#: that shows the largest budget, as shares of the plot.
_APART, _BEYOND, _STRIP = 0.05, 0.08, 0.015
#: Colors from the lowest to the highest value.
_COLORS = LinearSegmentedColormap.from_list("solvent", ["#F4F9FD", SKY, BLUE, "#003A5C"])


@dataclass(frozen=True)
class _Side:
    """One of the two resources of a plot.

    Attributes
    ----------
    name : str
    at : ndarray of int64, shape (N,)
        Indices of the budgets that are drawn.
    amounts : ndarray of float64, shape (N,)
        These budgets.
    end : float
        Where the last one ends.
    """

    name: str
    at: NDArray[np.int64]
    amounts: NDArray[np.float64]
    end: float

    @classmethod
    def of(cls, surface: Surface, name: str, rises: NDArray[np.bool_], mark: Fraction | None) -> _Side:
        """Return the side of a resource, given where the value rises along it and an amount that must be shown."""
        amounts = surface.amounts(name)
        most = surface.max_budget[name]
        if not amounts:  # with any budget, nothing is feasible
            return cls(name, np.zeros(1, np.int64), np.array([float(most)]), float(most) + max(abs(float(most)), 1.0))
        # each budget is as good as the one below it, up to the next
        tick = amounts[1] - amounts[0] if len(amounts) > 1 else max(abs(amounts[0]), Fraction(1)) / 4
        count = len(amounts)
        if surface.flat_beyond[name]:  # the last value extends to infinity: show a part of it
            count = int(np.flatnonzero(rises)[-1]) + 1 if rises.any() else 1
            last = amounts[count - 1] + tick
            end = float(last) + _BEYOND * float(last - amounts[0])
            if mark is not None:
                end = max(end, float(mark) + _BEYOND * float(mark - amounts[0]))
        else:  # nothing is known beyond the largest budget, which has only a strip
            end = float(most) if most > amounts[-1] else float(most) + _STRIP * float(amounts[-1] - amounts[0] or tick)
        at = np.unique(np.linspace(0, count - 1, min(count, _MOST_DRAWN)).round().astype(np.int64))
        return cls(name, at, np.array([float(amounts[i]) for i in at.tolist()]), end)

    @property
    def edges(self) -> NDArray[np.float64]:
        return np.append(self.amounts, self.end)

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis, which begins in the infeasible region."""
        return float(self.amounts[0]) - 0.05 * (self.end - float(self.amounts[0])), self.end


def surface(
    surface: Surface,
    ax: Axes | None = None,
    *,
    at: Mapping[str, Number] | None = None,
    budget: Mapping[str, Number] | Sequence[Number] | None = None,
) -> Axes:
    """Plot the optimal value of every pair of budgets; the same as `surface.plot(ax, at=..., budget=...)`.

    Colors and contour lines show the value. In the gray area no policy is feasible; the dashed line is its border, and
    the dots on it are the least budgets. Each budget is drawn up to the next that makes a difference, the largest as a
    narrow strip, and contour lines follow the steps: below and left of a line, its value is not reached. A caption
    lists limits of the model that the surface ignores.

    Parameters
    ----------
    surface : Surface
        Result of `solvent.frontier` with several resources.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.
    at : dict of numbers by resource, optional
        Budgets of all resources but two, if the surface has more.
    budget : dict of numbers by resource, or sequence of numbers, optional
        A pair of budgets to mark; a sequence has the order of the surface's resources.

    Raises
    ------
    ModelError
        If `surface` is not a `Surface`, or `at` does not leave two resources.
    BudgetError
        If a budget is beyond the range of the surface.

    Examples
    --------
    >>> import solvent
    >>> found = solvent.frontier(solvent.instances.random(resources=2, cost_range=(0, 3), seed=2), ["r0", "r1"])
    >>> axes = surface(found)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('budget of r0', 'budget of r1')
    """
    if not isinstance(surface, Surface):
        hint = "solvent.frontier(model, [...]) makes one" if isinstance(surface, CMDP) else ""
        raise ModelError("surface", "a Surface", quote(surface), hint)
    fixed = {} if at is None else dict(at)
    names = _drawn(surface, fixed)
    values = surface.section(names, fixed)
    mark = None if budget is None else _read_mark(names, budget)
    worth = None if mark is None else surface.value({**fixed, **dict(zip(names, mark, strict=True))})
    x = _Side.of(surface, names[0], _rises(values, 0), None if mark is None else mark[0])
    y = _Side.of(surface, names[1], _rises(values, 1), None if mark is None else mark[1])
    drawn = values[np.ix_(x.at, y.at)] if values.size else np.full((len(x.at), len(y.at)), -np.inf)
    with styled_axes(ax, _SIZE) as axes:
        axes.set(xlabel=axis_text(surface, plot_name(x.name)), ylabel=axis_text(surface, plot_name(y.name)))
        axes.set_facecolor(NOTHING)
        axes.set_xlim(*x.limits)
        axes.set_ylim(*y.limits)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        if (drawn > -np.inf).any():
            _draw_values(axes, x, y, drawn)
            _draw_front(axes, surface, x, y, values)
        else:
            axes.text(
                0.5, 0.5, "no feasible policy\nfor any of these budgets", transform=axes.transAxes, ha="center",
                va="center", color=LEAST_BUDGET,
            )  # fmt: skip
        if mark is not None and worth is not None:
            _draw_mark(axes, mark, worth)
        axes.set_title(_title(surface, fixed))
        if surface.ignored_limits:
            draw_caption(axes, surface.ignored_limits)
    return axes


def _drawn(surface: Surface, fixed: dict[str, Any]) -> tuple[str, str]:
    """Return the two resources that are drawn."""
    names = [name for name in surface.resources if name not in fixed]
    if len(surface.resources) == 2 and fixed:
        raise ModelError("at", "no budgets, as two resources vary", quote(fixed))
    if len(names) != 2:
        most = len(surface.resources) - 2
        raise ModelError(
            "at", f"budgets of {most} of {', '.join(map(quote, surface.resources))}, which leaves two to draw",
            quote(fixed or None), f"pass at={{{surface.resources[-1]!r}: ...}}",
        )  # fmt: skip
    return names[0], names[1]


def _read_mark(names: tuple[str, str], budget: Any) -> tuple[Fraction, Fraction]:
    if isinstance(budget, Mapping) and set(budget) == set(names):
        budget = [budget[name] for name in names]
    if isinstance(budget, Mapping | str) or not isinstance(budget, Sequence) or len(budget) != 2:
        raise BudgetError("budget", f"a budget of {quote(names[0])} and of {quote(names[1])}", quote(budget))
    return exact(budget[0], f"budget of {names[0]}"), exact(budget[1], f"budget of {names[1]}")


def _rises(values: NDArray[np.float64], d: int) -> NDArray[np.bool_]:
    """Return where some value is larger than with less of a resource."""
    along = np.moveaxis(values, d, 0)
    rises = np.zeros(len(along), bool)
    rises[:1] = (along[:1] > -np.inf).any(1)
    rises[1:] = (along[1:] > along[:-1]).any(1)
    return rises


def _title(surface: Surface, fixed: dict[str, Any]) -> str:
    """Return the model, and what does not vary."""
    amounts = {name: exact(value, f"at, {name}") for name, value in fixed.items()}
    texts = limit_texts(surface.fixed_limits)
    if surface.vary == "budget":
        texts |= {name: Budget(each).text for name, each in amounts.items()}
    else:
        texts |= {name: f"with {amount(each)} remaining" for name, each in amounts.items()}
    return title_text(surface.model.name, texts, f"optimal value by {varied_text(surface)}")


def _draw_values(axes: Axes, x: _Side, y: _Side, drawn: NDArray[np.float64]) -> None:
    values = np.ma.masked_equal(drawn, -np.inf).T
    mesh = axes.pcolormesh(x.edges, y.edges, values, cmap=_COLORS, shading="flat", rasterized=True)
    bar = axes.figure.colorbar(mesh, ax=axes, label="optimal value", pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    low, high = float(values.min()), float(values.max())
    if low == high:
        return
    ticks = MaxNLocator(nbins=_LEVELS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    front = _lowest(y, drawn > -np.inf)
    labels: list[NDArray[np.float64]] = []
    before = np.full(len(x.at), y.end)
    for level in sorted((float(tick) for tick in ticks if low < tick <= high), reverse=True):
        lowest = _lowest(y, drawn >= level)
        if (lowest == before).all():  # the value rises beyond both levels at once
            continue
        before = lowest
        light = level > low + _DARK * (high - low)
        line = _border(x, y, lowest, front)
        axes.plot(*line.T, color="white" if light else BLACK, linewidth=0.8, label=f"value {number(level)}")
        _draw_label(axes, line, number(level), labels, light=light)


def _lowest(y: _Side, inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the lowest amount of each column that is inside; the end of the axis if there is none."""
    return np.where(inside.any(1), y.amounts[np.argmax(inside, 1)], y.end)


def _border(
    x: _Side, y: _Side, lowest: NDArray[np.float64], front: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the lower left border of a region that has all amounts above its own: points (x, y), shape (N, 2).

    Where the border is also that of what is feasible, given by `front`, it is left out: a point is NaN.
    """
    outside = np.full(len(lowest), -np.inf) if front is None else front
    points: list[tuple[float, float]] = []
    top, left = y.end, y.end if front is not None else -np.inf
    for i, (begin, end) in enumerate(zip(x.edges[:-1].tolist(), x.edges[1:].tolist(), strict=True)):
        low = float(lowest[i])
        if low < top:  # down
            until = max(low, left)
            points += [(begin, top), (begin, until)] if until < top else []
            points += [(math.nan, math.nan)] if until > low else []
        if low < y.end:  # to the right
            points += [(begin, low), (end, low)] if low > outside[i] else [(math.nan, math.nan)]
        top, left = low, float(outside[i])
    return np.array(points).reshape(-1, 2)


def _draw_label(
    axes: Axes, line: NDArray[np.float64], text: str, others: list[NDArray[np.float64]], *, light: bool
) -> None:
    """Write a value on a line, where the line is nearest to the diagonal of the plot and other labels are not near."""
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    share = ((line[:-1] + line[1:]) / 2 - low) / (high - low)
    share = share[np.isfinite(share).all(1)]
    for at in share[np.argsort(np.abs(share[:, 0] - share[:, 1]), kind="stable")]:
        if (np.abs(at - 0.5) < 0.46).all() and all(np.abs(at - other).max() > _APART for other in others):
            others.append(at)
            back = [Stroke(linewidth=2.5, foreground=BLUE if light else "white"), Normal()]
            where = low + at * (high - low)
            axes.text(
                float(where[0]), float(where[1]), text, color="white" if light else BLACK, fontsize=7.5, ha="center",
                va="center", path_effects=back,
            )  # fmt: skip
            return


def _draw_front(axes: Axes, surface: Surface, x: _Side, y: _Side, values: NDArray[np.float64]) -> None:
    """Draw the border of what is feasible, and the least budgets on it."""
    line = _border(x, y, _lowest(y, values[np.ix_(x.at, y.at)] > -np.inf))
    label = "least budgets" if surface.vary == "budget" else "least remaining"
    axes.plot(*line.T, color=LEAST_BUDGET, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
    least = values > -np.inf
    least[1:] &= values[:-1] == -np.inf
    least[:, 1:] &= values[:, :-1] == -np.inf
    at = np.argwhere(least)
    if len(at) <= _DOTS:
        across, up = surface.amounts(x.name), surface.amounts(y.name)
        dots = [float(across[i]) for i in at[:, 0].tolist()], [float(up[j]) for j in at[:, 1].tolist()]
        axes.plot(*dots, "o", color=LEAST_BUDGET, markersize=4, zorder=3)


def _draw_mark(axes: Axes, mark: tuple[Fraction, Fraction], worth: float) -> None:
    at = float(mark[0]), float(mark[1])
    axes.plot(
        *zip(at, strict=True),
        "o",
        color=MARGINAL,
        markeredgecolor="white",
        markersize=8,
        zorder=4,
        label="marked budgets",
    )
    where = f"{amount(mark[0])}, {amount(mark[1])}"
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    late, high = at[0] > left + 0.6 * (right - left), at[1] > bottom + 0.85 * (top - bottom)
    axes.annotate(
        f"infeasible at {where}" if worth == -math.inf else f"{number(worth)} at {where}", at,
        xytext=(-8 if late else 8, -8 if high else 8), textcoords="offset points", ha="right" if late else "left",
        va="top" if high else "bottom", fontsize=8.5,
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )  # fmt: skip
