"""Plot of a policy on a grid, for models whose states are cells: arrows for moves, letters for other actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from solvent.errors import PolicyError, quote
from solvent.model.amounts import format_amount
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.discounted import check_model
from solvent.plot.grid_states import GridLayout, arrow_direction, grid_layout, letters
from solvent.plot.labels import plot_name, problem_text
from solvent.plot.palette import BLACK, GRAY, GREEN, PURPLE, YELLOW
from solvent.plot.style import NOTHING, SQUARE, VALUE, WALL, legend_right, styled_axes
from solvent.policy.choices import NO_ROW, find_rows
from solvent.policy.holders import HasPolicy, policy_of
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.nodes import NO_NODE, NodeTable
from solvent.policy.table import AugmentedPolicy

_MOST_NUMBERED = 15
_LINES = "#C8C8C8"


@dataclass
class _Plan:
    """What to draw: arrows (column, row, across, down), letters (state, action), and the step shown for each state."""

    step: dict[int, int] = field(default_factory=dict)
    arrow: list[tuple[float, float, float, float]] = field(default_factory=list)
    letter: list[tuple[int, int]] = field(default_factory=list)


def arrows(
    model: CMDP,
    policy: NodeTable | MarkovPolicy | HasPolicy,
    *,
    step: int | None = None,
    spent: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a policy as arrows on a grid, for a model whose states are cells.

    States are cells if they are pairs of integers, text such as "2,5", or letters with numbers such as "c5". The
    orientation of the grid is inferred from actions named after directions (north, up, left, E, ...). Other actions
    point to their most likely next cell, and actions that do not move are drawn as letters. If the policy is
    randomized, the length of an arrow is proportional to its probability.

    Parameters
    ----------
    model : CMDP
    policy : Solution, AugmentedPolicy, RandomizedPolicy or MarkovPolicy
        Of a solution, or any other object with an attribute `policy`, that policy.
    step : int, optional
        Step to show. Default: for each cell the first step at which the policy can be there, shown in its corner.
    spent : number, sequence or mapping, optional
        Amount spent, as for `policy.action`. Default: the least amount possible at each cell (of the first resource,
        then of the next).
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ModelError
        If a state is not a cell.
    PolicyError
        If the policy is of another type or for another model, or makes no decision at this step with this amount spent.

    Examples
    --------
    >>> import solvent
    >>> model = solvent.instances.fuel_grid(3)
    >>> axes = arrows(model, solvent.solve(model))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['start', 'greatest reward', 'gives fuel back', 'S: stay']
    """
    check_model(model)
    policy = policy_of(policy)
    if not isinstance(policy, NodeTable | MarkovPolicy):
        raise PolicyError("policy", "an AugmentedPolicy, RandomizedPolicy or MarkovPolicy", quote(policy))
    if isinstance(policy, NodeTable):
        policy.check_model(model)
    elif policy.model is not model and policy.model.fingerprint != model.fingerprint:
        raise PolicyError("policy", "a policy for this model", "one for another")
    layout = grid_layout(model)
    plan = _Reader(model, policy, spent).read(layout, step)
    if not plan.step:
        when = "any step" if step is None else f"step {step}"
        raise PolicyError("arrows", f"a cell in which the policy makes a decision at {when}", "none, with that spent")
    with styled_axes(ax, SQUARE) as axes:
        _label_axes(axes, layout)
        ground = _draw_ground(axes, model, layout, plan)
        handles = [*_draw_marks(axes, model, layout), *ground]
        handles += _draw_plan(axes, model, layout, plan, numbered=step is None)
        axes.set_title(problem_text(policy, _title(policy, step, spent)))
        legend_right(axes, handles=handles)
    return axes


class _Reader:
    """Reads the actions of a policy for the cells of a grid."""

    def __init__(self, model: CMDP, policy: NodeTable | MarkovPolicy, spent: Any) -> None:
        self.model, self.policy = model, policy
        self.ticks: list[int] | None = None
        if spent is not None and isinstance(policy, NodeTable):
            self.ticks = [_ticks(policy, d, amount) for d, amount in enumerate(policy.read_spent(spent))]

    def read(self, layout: GridLayout, step: int | None) -> _Plan:
        horizon = self.model.horizon
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < horizon):
            raise PolicyError("step", f"a step from 0 to {horizon - 1}", quote(step))
        plan, waiting = _Plan(), sorted(layout.place)
        for now in range(horizon) if step is None else [step]:
            present = self._present(now)
            for state in [state for state in waiting if present is None or state in present]:
                chosen = self.choices(now, state)
                if chosen:
                    plan.step[state] = now
                    self._enter(plan, layout, now, state, chosen)
            waiting = [state for state in waiting if state not in plan.step]
        return plan

    def _present(self, step: int) -> set[int] | None:
        """Return the states in which the policy makes a decision at a step; None if each state must be looked up."""
        if isinstance(self.policy, MarkovPolicy):
            return None
        first, last = (int(self.policy.step_indptr[h]) for h in (step, step + 1))
        return set(self.policy.group_state[first:last].tolist())

    def choices(self, step: int, state: int) -> list[tuple[int, float]]:
        """Return the actions taken in a state (by index) with their probabilities."""
        policy = self.policy
        if isinstance(policy, MarkovPolicy):
            actions, weights = policy.choices(step, state)
            return list(zip(actions.tolist(), weights.tolist(), strict=True))
        node = self._node(policy, step, state)
        if node == NO_NODE:
            return []
        if isinstance(policy, RandomizedPolicy):
            actions, weights = policy.choices(node)
            return list(zip(actions.tolist(), weights.tolist(), strict=True))
        assert isinstance(policy, AugmentedPolicy)
        return [(int(policy.action_N[node]), 1.0)]

    def _node(self, policy: NodeTable, step: int, state: int) -> int:
        if self.ticks is not None:
            return policy.node(step, state, self.ticks)
        first = int(policy.step_indptr[step])
        states = policy.group_state[first : int(policy.step_indptr[step + 1])]
        return int(policy.node_indptr[first + int(np.searchsorted(states, state))])

    def _enter(self, plan: _Plan, layout: GridLayout, step: int, state: int, chosen: list[tuple[int, float]]) -> None:
        column, down = layout.place[state]
        for action, weight in chosen:
            row = int(find_rows(self.model, step, np.array([state]), np.array([action]))[0])
            if row == NO_ROW:
                place = f"step {step}, state {quote(self.model.states[state])}"
                raise PolicyError(place, "an action that is available", quote(self.model.actions[action]))
            way = arrow_direction(self.model, layout, row, state)
            if way is None:
                plan.letter.append((state, action))
            else:
                plan.arrow.append((column, down, way[0] * weight, way[1] * weight))


def _ticks(policy: NodeTable, d: int, spent: Fraction) -> int:
    """Return an amount in the policy's ticks, rounded if the policy applies to amounts between ticks."""
    ticks = policy.to_ticks(d, spent)
    if ticks is None:
        unit = format_amount(policy.units[d])
        raise PolicyError("spent", f"{policy.resources[d]} in whole multiples of {unit}", format_amount(spent))
    return ticks


def _draw_ground(axes: Axes, model: CMDP, layout: GridLayout, plan: _Plan) -> list[Artist]:
    """Draw the cells, white if the policy makes a decision there and gray otherwise; return the legend entries."""
    axes.set_facecolor(WALL)
    handles: list[Artist] = []
    for color, decided in (("white", True), (NOTHING, False)):
        squares = [_square(place) for state, place in layout.place.items() if (state in plan.step) == decided]
        if squares:
            axes.add_collection(PolyCollection(squares, facecolor=color, edgecolor=_LINES, linewidth=0.8))
    if len(plan.step) < len(layout.place):
        handles.append(Patch(facecolor=NOTHING, edgecolor=_LINES, label="no decision"))
    giving = {model.resources[d]: states for d, states in enumerate(_giving(model)) if states}
    for name, states in giving.items():
        squares = [_square(layout.place[state], 0.46) for state in states if state in layout.place]
        axes.add_collection(PolyCollection(squares, facecolor="none", edgecolor=GREEN, linewidth=1.6))
        label = f"gives {plot_name(name)} back"
        handles.append(Line2D([], [], linestyle="", marker="s", mfc="none", mec=GREEN, mew=1.6, ms=8, label=label))
    return handles


def _square(place: tuple[int, int], half: float = 0.5) -> list[tuple[float, float]]:
    column, row = place
    return [(column + a * half, row + b * half) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def _giving(model: CMDP) -> list[set[int]]:
    """Return for each resource the states with an action whose cost is negative under every outcome."""
    state_R = np.repeat(np.arange(model.n_tables * model.n_states), np.diff(model.row_indptr)) % model.n_states
    giving = []
    for d, column in enumerate(model.cost):
        plain = (
            column.ticks
            if model.distribution_DO is None
            else np.where(model.distribution_DO[d] == NO_DISTRIBUTION, column.ticks, 0)
        )
        largest = np.maximum.reduceat(plain, model.outcome_indptr[:-1]) if model.n_rows else np.zeros(0)
        giving.append({int(state) for state in state_R[np.flatnonzero(largest < 0)]})
    return giving


def _draw_marks(axes: Axes, model: CMDP, layout: GridLayout) -> list[Artist]:
    """Mark first states, the goal, terminal cells, and those with the greatest reward (unless more than half)."""
    state_R = np.repeat(np.arange(model.n_tables * model.n_states), np.diff(model.row_indptr)) % model.n_states
    best = set(state_R[model.row_reward == model.row_reward.max()].tolist()) if model.n_rows else set()
    has_rows = set(state_R.tolist())
    prized = best if 2 * len(best) <= len(has_rows) else set()
    goals = set() if model.may_end is None else set(np.flatnonzero(model.may_end).tolist())
    groups: list[tuple[str, set[int], float, dict[str, Any]]] = [
        ("start", set(model.start_states.tolist()), 0.95, {"marker": "o", "mfc": "none", "mec": BLACK, "mew": 1.2}),
        ("goal", goals, 0.68, {"marker": "D", "mfc": "none", "mec": PURPLE, "mew": 1.4}),
        ("terminal", set(layout.place) - has_rows, 0.55, {"marker": "s", "mfc": GRAY, "mec": GRAY}),
        ("greatest reward", prized, 0.9, {"marker": "*", "mfc": YELLOW, "mec": BLACK, "mew": 0.7}),
    ]
    handles: list[Artist] = []
    for label, states, share, style in groups:
        places = [layout.place[state] for state in sorted(states) if state in layout.place]
        if places:
            size = share * _points_per_cell(axes, layout)
            columns, rows = zip(*places, strict=True)
            axes.plot(columns, rows, linestyle="", ms=size, zorder=2, label=label, **style)
            handles.append(Line2D([], [], linestyle="", ms=8, label=label, **style))
    return handles


def _points_per_cell(axes: Axes, layout: GridLayout) -> float:
    """Return the approximate width of a cell in points, for the sizes of markers."""
    columns, rows = _extent(layout)
    box = axes.get_window_extent()
    return float(min(box.width / columns, box.height / rows) * 72 / axes.figure.dpi * 0.8)


def _draw_plan(axes: Axes, model: CMDP, layout: GridLayout, plan: _Plan, numbered: bool) -> list[Artist]:
    if plan.arrow:
        column, row, across, down = np.array(plan.arrow).T
        axes.quiver(
            column, row, 0.62 * across, 0.62 * down, angles="xy", scale_units="xy", scale=1, pivot="mid", units="xy",
            width=0.075, headwidth=4, headlength=4, headaxislength=3.6, color=VALUE, zorder=3,
        )  # fmt: skip
    size = _points_per_cell(axes, layout)
    actions = sorted({action for _, action in plan.letter})
    sign = dict(zip(actions, letters([model.actions[action] for action in actions]), strict=True))
    by_state: dict[int, list[str]] = {}
    for state, action in plan.letter:
        by_state.setdefault(state, []).append(sign[action])
    for state, signs in by_state.items():
        text = " ".join(signs)
        font = min(11.0, 0.5 * size) / max(1.0, 0.5 * len(text))
        axes.text(
            *layout.place[state], text, ha="center", va="center", weight="bold", color=BLACK, fontsize=font, zorder=4
        )
    if numbered and max(_extent(layout)) <= _MOST_NUMBERED:
        for state, step in plan.step.items():
            column, row = layout.place[state]
            axes.text(
                column + 0.41,
                row + 0.42,
                str(step),
                ha="right",
                va="bottom",
                color=GRAY,
                fontsize=min(7.0, 0.22 * size),
            )
    return [Line2D([], [], linestyle="", label=f"{sign[a]}: {plot_name(model.actions[a])}") for a in actions]


def _extent(layout: GridLayout) -> tuple[int, int]:
    columns, rows = (max(each) - min(each) + 1 for each in zip(*layout.place.values(), strict=True))
    return columns, rows


def _label_axes(axes: Axes, layout: GridLayout) -> None:
    """Label the axes with the numbers of the names, in their orientation."""
    columns, rows = zip(*layout.place.values(), strict=True)
    axes.set(xlim=(min(columns) - 0.5, max(columns) + 0.5), ylim=(max(rows) + 0.5, min(rows) - 0.5), aspect="equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=True))
    first, grows_down = layout.frame
    if not grows_down:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{0.0 - row:g}"))
    names = ("letter", "number") if layout.lettered else ("first number", "second number")
    if layout.lettered:
        sign, axis = (1, axes.xaxis) if first == 0 else (1 if grows_down else -1, axes.yaxis)
        axis.set_major_formatter(FuncFormatter(lambda place, _: _letter(sign * place)))
    axes.set(xlabel=names[first] + " of the state", ylabel=names[1 - first] + " of the state")


def _letter(place: float) -> str:
    """Return the letter of a column, "a" for 1; empty for a place that has none."""
    return chr(ord("a") - 1 + round(place)) if 1 <= round(place) <= 26 else ""


def _title(policy: NodeTable | MarkovPolicy, step: int | None, spent: Any) -> str:
    when = "actions at the first possible step" if step is None else f"actions at step {step}"
    if isinstance(policy, MarkovPolicy) or not policy.resources:
        return when
    return f"{when}, " + ("least amount spent" if spent is None else f"{plot_name(spent)} spent")
