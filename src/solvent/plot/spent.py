"""Plot of spending over time: quantiles of simulated episodes, exact extremes, and limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.resources import Resource
from solvent.plot.labels import amount, choose_resource, number, plot_name, title_text
from solvent.plot.palette import GRAY
from solvent.plot.style import (
    LEAST,
    LIMIT,
    MEDIAN,
    OVER,
    QUANTILES,
    WORST,
    faint_grid,
    legend_right,
    step_axis,
    styled_axes,
)
from solvent.verification.policies import PolicyLike, limits_of
from solvent.verification.report import PerStep, VerifyReport
from solvent.verification.simulate import Simulation, simulate
from solvent.verification.verify import verify

#: Lower quantile, upper quantile and opacity of each band.
_BANDS = ((0.05, 0.95, 0.30), (0.25, 0.75, 0.55))
_MOST_MARKERS = 40


def spending(
    model: CMDP,
    policy: PolicyLike,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    resource: str | None = None,
    episodes: int = 10_000,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot what a policy spends over time: quantiles of simulated episodes, the exact extremes, and the limits.

    The bands are estimates from `solvent.simulate`. The greatest and the least amount are exact, from `solvent.verify`:
    no history lies outside them. Steps at which a limit can be broken are marked. Thin lines show the floor and the
    ceiling of a resource that saturates.

    Parameters
    ----------
    model : CMDP
    policy : AugmentedPolicy, RandomizedPolicy, MarkovPolicy, array or callable
        Any policy that `solvent.verify` accepts.
    budget : number, Budget or mapping, optional
        Limits to show. Default: the policy's own, or else the model's.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: what the policy was made for.
    resource : str, optional
        Resource to show. Default: the only one, or the only one with a limit.
    episodes : int
        Number of simulated episodes.
    seed : int
        Random seed.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ModelError
        If the resource is unknown, or missing and ambiguous.
    PolicyError
        As for `solvent.verify`.

    Examples
    --------
    >>> import solvent
    >>> model = solvent.instances.fuel_grid(3)
    >>> axes = spending(model, solvent.solve(model).policy, episodes=100)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['worst case', '5–95 % of episodes', '25–75 %', 'median', 'least', 'limit']
    """
    check_model(model)
    if resource is not None or model.n_resources == 1:
        choose_resource(model.resources, resource)  # raises an error before the long computations
    report = verify(model, policy, budget, spent=spent)
    name = choose_resource(model.resources, resource, preferred=list(report.upper))
    runs = simulate(model, policy, episodes, seed, budget, spent=spent)
    with styled_axes(ax) as axes:
        step_axis(axes, model.horizon, "steps taken")
        axes.set_ylabel(f"{plot_name(name)} spent")
        _draw_extremes(axes, report, runs, name)
        _draw_ends(axes, model.resource(name))
        _draw_limits(axes, report, name)
        _draw_breaks(axes, report, name, has_goal=model.may_end is not None)
        faint_grid(axes)
        axes.margins(y=0.08)
        legend_right(axes)
        axes.set_title(title_text(model.name, limits_of(model, policy, budget, spent).texts))
    return axes


def _draw_extremes(axes: Axes, report: VerifyReport, runs: Simulation, name: str) -> None:
    first = float(report.initial[name])
    worst, least = _line(first, report.worst_spent_by_step[name]), _line(first, report.least_spent_by_step[name])
    steps = np.arange(len(worst))
    marker = "." if len(worst) <= _MOST_MARKERS else ""
    axes.plot(steps, worst, color=WORST, linewidth=1.5, marker=marker, label="worst case", zorder=3)
    for low, high, alpha in _BANDS:
        bottom, top = (np.concatenate([[first], runs.quantile(name, level)]) for level in (low, high))
        label = f"{round(100 * low)}–{round(100 * high)} %" + (" of episodes" if low == _BANDS[0][0] else "")
        axes.fill_between(steps, bottom, top, color=QUANTILES, alpha=alpha, linewidth=0, label=label)
    median = np.concatenate([[first], runs.quantile(name, 0.5)])
    axes.plot(steps, median, color=MEDIAN, linewidth=1.6, label="median", zorder=3)
    if not np.isnan(least[1:]).all():
        axes.plot(steps, least, color=LEAST, linewidth=1.2, linestyle=(0, (3, 1.5)), label="least", zorder=3)


def _line(first: float, amounts: PerStep) -> NDArray[np.float64]:
    """Return what was spent before the first step, then the amounts; NaN where an amount is unbounded."""
    return np.array([first, *(np.nan if each is None else float(each) for each in amounts)])


def _draw_ends(axes: Axes, resource: Resource) -> None:
    """Draw thin lines at the floor and the ceiling of a resource."""
    for word, end, above in (("floor", resource.floor, False), ("ceiling", resource.ceiling, True)):
        if end is not None:
            axes.axhline(float(end), color=GRAY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1.5)
            axes.annotate(
                f"{word} {amount(end)}", (0, float(end)), xytext=(0, 2 if above else -2),
                textcoords="offset points", ha="left", va="bottom" if above else "top", fontsize=8, color=GRAY,
            )  # fmt: skip


def _draw_limits(axes: Axes, report: VerifyReport, name: str) -> None:
    for side, word in ((report.upper, "limit"), (report.lower, "lower limit")):
        limits = side.get(name, ())
        style = "-" if word == "limit" else (0, (5, 2))
        for place, (first, last) in enumerate(_stretches(limits)):
            # a limit holds after a step: draw it half a step to either side
            edges = np.arange(first, last + 2) + 0.5
            heights = [float(each) for each in limits[first : last + 1] if each is not None]
            axes.stairs(
                heights, edges, baseline=None, color=LIMIT, linewidth=2.2, linestyle=style,
                label=word if place == 0 else "_nolegend_", zorder=2.5,
            )  # fmt: skip
        given = {each for each in limits if each is not None}
        if len(given) == 1:
            (only,), above = given, word == "limit"
            axes.annotate(
                f"{word} {amount(only)}", (len(limits) + 0.5, float(only)), xytext=(0, 3 if above else -3),
                textcoords="offset points", ha="right", va="bottom" if above else "top", fontsize=8.5,
            )  # fmt: skip


def _stretches(limits: PerStep) -> Iterator[tuple[int, int]]:
    """Yield the first and the last step of each range of consecutive steps with a limit."""
    first = None
    for step, limit in enumerate((*limits, None)):
        if limit is None and first is not None:
            yield first, step - 1
            first = None
        elif limit is not None and first is None:
            first = step


def _draw_breaks(axes: Axes, report: VerifyReport, name: str, *, has_goal: bool) -> None:
    """Mark the steps at which the greatest or the least amount breaks a limit, compared exactly."""
    broken = []
    for step in range(len(report.worst_spent_by_step[name])):
        worst, least = report.worst_spent_by_step[name][step], report.least_spent_by_step[name][step]
        upper = report.upper[name][step] if name in report.upper else None
        lower = report.lower[name][step] if name in report.lower else None
        if upper is not None and worst is not None and worst > upper:
            broken.append((step + 1, float(worst)))
        if lower is not None and least is not None and least < lower:
            broken.append((step + 1, float(least)))
    if broken:
        chance = report.violation_probability
        label = "breaks the limit" if chance is None else f"breaks a limit\n(probability {number(chance)})"
        if has_goal and chance is not None:
            label = f"breaks a limit\n(probability {number(chance)},\nwith missed goals)"
        axes.plot(*zip(*broken, strict=True), linestyle="", marker="X", markersize=7, color=OVER,
                  markeredgecolor="white", label=label, zorder=5)  # fmt: skip
