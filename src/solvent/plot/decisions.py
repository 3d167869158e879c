"""Plot of a policy: the action that it takes in one state, by step and remaining budget."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.errors import ModelError, PolicyError, quote
from solvent.model.ends import first_states
from solvent.plot.action_colors import ActionScale, corners
from solvent.plot.labels import amount, choose_resource, plot_name, problem_text
from solvent.plot.style import NOTHING, WIDE, step_axis, styled_axes
from solvent.policy.choices import spread
from solvent.policy.holders import HasPolicy, policy_of
from solvent.policy.locate import COLLAPSED
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.runs import run_bounds
from solvent.policy.table import AugmentedPolicy

#: Ends of intervals beyond this many ticks count as infinite.
_FAR = 2**61
#: Minimum height of a cell, as a share of the height of the plot.
_LOWEST_CELL = 1 / 120
#: Sums of probabilities up to this one are rounding errors.
_LEAST_WEIGHT = 1e-9
#: Low and high ends of ranges of amounts, in ticks.
_Ranges = tuple[list[float | int], list[float | int]]


@dataclass(frozen=True)
class Cells:
    """Actions in one state, as rectangles over (step, amount), C of them.

    Attributes
    ----------
    step : ndarray of int64, shape (C,)
    low, high : ndarray of float64, shape (C,)
        Range of amounts, infinite where open; equal for a single amount.
    left, right : ndarray of float64, shape (C,)
        Range within the step, from 0 to 1: the probability of the action.
    action : ndarray of int64, shape (C,)
    """

    step: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    action: NDArray[np.int64]


def policy(
    policy: NodeTable | MarkovPolicy | HasPolicy,
    state: Hashable | None = None,
    *,
    ax: Axes | None = None,
    resource: str | None = None,
) -> Axes:
    """Plot which action a policy takes in one state, by step and remaining budget.

    If the resource has no upper limit, the vertical axis shows the amount spent instead. In the gray area the policy
    makes no decision: it never gets there, no action is safe, or the resource saturates before. If the action also
    depends on another resource, or is randomized, a cell is divided among the actions.

    Parameters
    ----------
    policy : Solution, AugmentedPolicy, RandomizedPolicy or MarkovPolicy
        Of a solution, or any other object with an attribute `policy`, that policy.
    state : hashable, optional
        Default: the start. Required if there are several first states.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure.
    resource : str, optional
        Resource on the vertical axis. Required if the policy tracks several.

    Raises
    ------
    PolicyError
        If the policy is of another type, the state is unknown, or the policy makes no decision in it.
    SolventError
        If a solution has no policy.
    ModelError
        If the resource is unknown, or missing and the policy tracks several.

    Examples
    --------
    >>> import solvent
    >>> model = solvent.instances.fuel_grid(3)
    >>> axes = policy(solvent.solve(model), (1, 1))
    >>> axes.get_ylabel(), [text.get_text() for text in axes.get_legend().get_texts()]
    ('remaining fuel', ['east', 'south', 'stay', 'no decision'])
    """
    policy = check_policy(policy)
    owner: Any = policy.model if isinstance(policy, MarkovPolicy) else policy
    starts = first_states(owner.start)
    if state is None and len(starts) > 1:
        raise PolicyError("state", f"one to show, as there are {len(starts)} first states", "none", "pass state=...")
    name = starts[0] if state is None else state
    where = choose_resource(policy.resources, resource) if policy.resources else None
    if where is None and resource is not None:
        raise ModelError("resource", "None, since the policy does not depend on what was spent", quote(resource))
    axis = AmountAxis(policy, owner.horizon, where)
    cells = state_cells(policy, name, axis)
    if not len(cells.step):
        raise PolicyError(
            f"state {quote(name)}",
            "a state in which the policy makes a decision",
            "a state that is terminal or never reached",
        )
    with styled_axes(ax, WIDE) as axes:
        scale = ActionScale(owner.actions, cells.action)
        draw_decisions(axes, cells, axis, scale, is_start=name in starts)
        axes.set_title(problem_text(policy, f"actions in state {plot_name(name)}"))
        scale.legend(axes)
    return axes


def check_policy(policy: Any) -> NodeTable | MarkovPolicy:
    """Return a policy, or that of a solution; raise a `PolicyError` if it is of another type."""
    policy = policy_of(policy)
    if not isinstance(policy, NodeTable | MarkovPolicy):
        raise PolicyError("policy", "an AugmentedPolicy, RandomizedPolicy or MarkovPolicy", quote(policy))
    return policy


def draw_decisions(axes: Axes, cells: Cells, axis: AmountAxis, scale: ActionScale, *, is_start: bool) -> None:
    """Draw what is done in one state, without a title and a legend."""
    low, high = axis.ends(cells, is_start=is_start)
    _draw_cells(axes, _close(cells, low, high), scale)
    axes.set_facecolor(NOTHING)
    axes.set_ylim(low, high)
    step_axis(axes, axis.horizon - 1, "step")
    axes.set_ylabel(axis.label)
    if axis.d is None:
        axes.set_yticks([])


class AmountAxis:
    """The vertical axis: the remaining amount of one resource, or the amount spent if it has no upper limit."""

    def __init__(self, policy: NodeTable | MarkovPolicy, horizon: int, resource: str | None) -> None:
        self.d: int | None = None
        self.horizon = horizon
        self.unit, self.remaining, self.initial = Fraction(1), False, Fraction(0)
        self.limits: list[Fraction | None] = [None] * horizon
        self.label = "any amount spent"
        if resource is None or not isinstance(policy, NodeTable):
            return
        self.d = policy.resources.index(resource)
        place = policy.limits.resources.index(resource)
        self.limits = _coming(policy.limits.upper[place])
        self.remaining = None not in self.limits
        way = policy.counting[self.d]
        counted = "" if way == "exact" else f", costs rounded {way} to multiples of {amount(policy.units[self.d])}"
        name = plot_name(resource)
        self.label = (f"remaining {name}" if self.remaining else f"{name} spent") + counted
        self.unit, self.initial = policy.units[self.d], policy.limits.initial[place]

    def amounts(self, step: int, low: list[float | int], high: list[float | int]) -> tuple[list[float], list[float]]:
        """Return intervals of spent ticks as intervals of the vertical axis."""
        limit = self.limits[step] if self.remaining else None
        if limit is None:
            return [self._amount(end) for end in low], [self._amount(end) for end in high]
        return [self._left(limit, end) for end in high], [self._left(limit, end) for end in low]

    def _amount(self, ticks: float | int) -> float:
        return float(ticks) if isinstance(ticks, float) else float(ticks * self.unit)

    def _left(self, limit: Fraction, ticks: float | int) -> float:
        return -ticks if isinstance(ticks, float) else float(limit - ticks * self.unit)

    def ends(self, cells: Cells, is_start: bool) -> tuple[float, float]:
        """Return the limits of the vertical axis."""
        if self.d is None:
            return 0.0, 1.0
        known = np.concatenate([cells.low, cells.high])
        known = known[np.isfinite(known)]
        start = (self.limits[0] or 0) - self.initial if self.remaining else self.initial
        if is_start or not len(known):
            known = np.append(known, float(start))
        low, high = float(known.min()), float(known.max())
        room = max(0.06 * (high - low), 0.5 * float(self.unit)) or 1.0
        return low - room, high + room


def _coming(limits: tuple[Fraction | None, ...]) -> list[Fraction | None]:
    """Return for each step the first limit at or after it."""
    coming: list[Fraction | None] = []
    for limit in reversed(limits):
        coming.append(limit if limit is not None else (coming[-1] if coming else None))
    return coming[::-1]


def state_cells(policy: NodeTable | MarkovPolicy, state: Hashable, axis: AmountAxis) -> Cells:
    """Return the actions of a policy in one state."""
    return _markov_cells(policy, state) if isinstance(policy, MarkovPolicy) else _node_cells(policy, state, axis)


def _markov_cells(policy: MarkovPolicy, state: Hashable) -> Cells:
    index = policy.model.state_index(state)
    parts = []
    for step in range(policy.model.horizon):
        actions, weights = policy.choices(step, index)
        ends = np.cumsum(weights)
        open_end = np.full(len(actions), math.inf)
        parts.append((np.full(len(actions), step), -open_end, open_end, ends - weights, ends, actions))
    return _join(parts)


def _node_cells(policy: NodeTable, state: Hashable, axis: AmountAxis) -> Cells:
    covered = [step for step in range(policy.horizon) if policy.covers(step, state)]
    index = policy.states.index(state)
    parts = []
    for step in covered:
        first = int(policy.step_indptr[step])
        group = first + int(np.searchsorted(policy.group_state[first : int(policy.step_indptr[step + 1])], index))
        node, action, weight = _choices(policy, group)
        if axis.d is None:
            cell, ends = np.zeros(len(node), np.int64), ([-math.inf], [math.inf])
        else:
            if policy.lookup != "equal" and axis.d == len(policy.resources) - 1:
                cell, action, weight, ranges = _runs(policy, group, node, action, weight)
            else:
                cell, ranges = _amounts(policy, group, node, axis.d)
            ends = axis.amounts(step, *_reachable(policy, axis.d, *ranges))
        owner, action, left, right = _shares(cell, action, weight, len(ends[0]))
        bottom, top = (np.array(end)[owner] for end in ends)
        kept = bottom <= top  # other amounts lie beyond the floor or the ceiling
        columns = np.full(len(owner), step), bottom, top, left, right, action
        parts.append(tuple(column[kept] for column in columns))
    return _join(parts)


def _choices(policy: NodeTable, group: int) -> tuple[Any, Any, Any]:
    """Return the node, counted from the first of the group, the action and the weight of each choice."""
    nodes = np.arange(int(policy.node_indptr[group]), int(policy.node_indptr[group + 1]))
    if isinstance(policy, AugmentedPolicy):
        return np.arange(len(nodes)), policy.action_N[nodes].astype(np.int64), np.ones(len(nodes))
    assert isinstance(policy, RandomizedPolicy)
    owner, choice = spread(policy.choice_indptr, nodes)
    return owner, policy.action_C[choice], policy.probability_C[choice]


def _amounts(policy: NodeTable, group: int, node: Any, d: int) -> tuple[Any, _Ranges]:
    """Return the position of each choice's amount among those of a group, and these amounts or settled intervals."""
    keys, cell = np.unique(policy.spent_ND[int(policy.node_indptr[group]) + node, d], return_inverse=True)
    low, high = keys.copy(), keys.copy()
    if keys[0] == COLLAPSED and policy.settled_low_GD is not None and policy.settled_high_GD is not None:
        low[0], high[0] = policy.settled_low_GD[group, d], policy.settled_high_GD[group, d]
    return cell, (_open(low), _open(high))


def _runs(policy: NodeTable, group: int, node: Any, action: Any, weight: Any) -> tuple[Any, Any, Any, _Ranges]:
    """Return cell, action and weight of all choices on runs of the last resource, and the ranges of the cells.

    Runs of nodes that differ in other amounts overlap; the cells lie between neighboring ends of any of them.
    """
    low, high = run_bounds(policy, group)
    if policy.lookup == "at_most":  # a cell begins where the one below ends
        low = np.where(low == MINUS_INFINITY, low, low - 1)
    else:
        high = np.where(high == PLUS_INFINITY, high, high + 1)
    ends = np.unique(np.concatenate([low, high]))
    begin, end = np.searchsorted(ends, low)[node], np.searchsorted(ends, high)[node]
    taken, place = np.unique(action, return_inverse=True)
    change_AK = np.zeros((len(taken), len(ends)))
    np.add.at(change_AK, (place, begin), weight)
    np.add.at(change_AK, (place, end), -weight)
    weight_AK = np.cumsum(change_AK, axis=1)
    chosen, cell = np.nonzero(weight_AK > _LEAST_WEIGHT)
    used, position = np.unique(cell, return_inverse=True)
    return position, taken[chosen], weight_AK[chosen, cell], (_open(ends[used]), _open(ends[used + 1]))


def _open(ticks: NDArray[np.int64]) -> list[float | int]:
    """Return ends of ranges, infinite where they are far away."""
    return [end if abs(end) < _FAR else math.copysign(math.inf, end) for end in ticks.tolist()]


def _reachable(
    policy: NodeTable, d: int, low: list[float | int], high: list[float | int]
) -> tuple[list[float | int], list[float | int]]:
    """Return ranges of amounts, in ticks, without what lies beyond the floor or the ceiling of the resource."""
    floor, ceiling = int(policy.floor_D[d]), int(policy.ceiling_D[d])
    bottom = -math.inf if floor == MINUS_INFINITY else floor
    top = math.inf if ceiling == PLUS_INFINITY else ceiling
    return [max(end, bottom) for end in low], [min(end, top) for end in high]


def _shares(cell: Any, action: Any, weight: Any, n_cells: int) -> tuple[Any, Any, Any, Any]:
    """Return for each (cell, action) its share of the cell's width."""
    most = int(action.max()) + 1
    pairs, place = np.unique(cell * most + action, return_inverse=True)
    owner, chosen = np.divmod(pairs, most)
    share: Any = np.bincount(place, weight, len(pairs))
    share = share / np.bincount(owner, share, n_cells)[owner]
    ends = np.cumsum(share)
    first = np.searchsorted(owner, np.arange(n_cells))
    before = (ends - share)[first][owner]
    return owner, chosen, ends - share - before, ends - before


def _join(parts: list[tuple[Any, ...]]) -> Cells:
    if not parts:
        nothing = np.zeros(0)
        return Cells(nothing.astype(np.int64), *(nothing,) * 4, nothing.astype(np.int64))
    return Cells(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _close(cells: Cells, bottom: float, top: float) -> Cells:
    """Return the cells with open ends clipped to the plot, and single amounts with a visible height."""
    single = np.isfinite(cells.low) & (cells.low == cells.high)
    apart = np.diff(np.unique(cells.low[single]))
    apart = apart[apart > 1e-9 * (top - bottom)]
    size = max(float(apart.min()) if len(apart) else 0.0, _LOWEST_CELL * (top - bottom))
    size = min(size, 0.12 * (top - bottom))
    low = np.where(single, cells.low - size / 2, np.clip(cells.low, bottom, top))
    high = np.where(single, cells.high + size / 2, np.clip(cells.high, bottom, top))
    return Cells(cells.step, low, high, cells.left, cells.right, cells.action)


def _draw_cells(axes: Axes, cells: Cells, scale: ActionScale) -> None:
    left, right = cells.step - 0.5 + cells.left, cells.step - 0.5 + cells.right
    scale.draw(axes, corners(left, right, cells.low, cells.high), cells.action)
