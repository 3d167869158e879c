"""Heat maps of a policy over the states of a model: what is done, or what it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.errors import ModelError, PolicyError, quote
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.model.lattice import AccountTicks
from solvent.plot.action_colors import MOST_LISTED, MOST_ROWS, ActionScale, corners
from solvent.plot.decisions import AmountAxis, check_policy
from solvent.plot.labels import choose_resource, plot_name, problem_text
from solvent.plot.style import NOTHING, step_axis, styled_axes
from solvent.policy.holders import HasPolicy
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.reach import OVER, ReachedLayer, layer_values, reached_layers
from solvent.policy.until_violation import UntilViolationPolicy

#: Most states that are drawn, and most seconds for following the policy.
_MOST_STATES, _SECONDS = 40, 30.0
#: Width of the figure, and heights of one state, of one entry of the legend and of the rest, in inches.
_WIDTH, _ROW, _ENTRY, _REST = 6.4, 0.2, 0.17, 1.2
#: Share of a step that is drawn, so that cells which are divided among actions can be told apart.
_GAP = 0.92
#: Cells that are less likely than this are rounding errors.
_LEAST = 1e-15
_COLORS = "viridis"


@dataclass(frozen=True)
class _Visits:
    """What a policy does in N places: a state, an amount or step, and an action, with its probability and value.

    Attributes
    ----------
    x : ndarray of float64, shape (N,)
        Step or amount.
    state, action : ndarray of int64, shape (N,)
    weight : ndarray of float64, shape (N,)
        Probability of being there and taking the action.
    value : ndarray of float64, shape (N,)
        What the policy earns from there on, whatever the action.
    """

    x: NDArray[np.float64]
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    weight: NDArray[np.float64]
    value: NDArray[np.float64]


def heat_map(
    policy: NodeTable | MarkovPolicy | HasPolicy,
    *,
    step: int | None = None,
    show: Literal["action", "value"] = "action",
    resource: str | None = None,
    model: CMDP | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot what a policy does in all states, or what it is worth there, by step or by remaining budget.

    The policy is followed from the start. A cell is divided among actions by their probabilities, given that the policy
    is there. In the gray area it never is. If there are more than 40 states, the most likely ones are shown.

    Parameters
    ----------
    policy : Solution, AugmentedPolicy, RandomizedPolicy or MarkovPolicy
        As for `solvent.plot.policy`.
    step : int, optional
        Show this step, by remaining budget (if the resource has no upper limit, by the amount spent). Default: all
        steps.
    show : {"action", "value"}
        The action, or the mean of what the policy earns from there on.
    resource : str, optional
        With `step`, the resource on the horizontal axis. Required if the policy tracks several.
    model : CMDP, optional
        Model of a policy that was loaded without it.
    ax : Axes, optional
        Axes to draw on. Default: those of a new figure, whose height depends on the number of states.

    Raises
    ------
    PolicyError
        If the policy is of another type, it never is anywhere at this step, it has too many nodes to be followed, or
        its model is not known.
    ModelError
        If an argument is not valid, or costs are continuous.

    Examples
    --------
    >>> import solvent
    >>> solution = solvent.solve(solvent.instances.fuel_grid(3))
    >>> axes = heat_map(solution)
    >>> axes.get_xlabel(), [text.get_text() for text in axes.get_legend().get_texts()]
    ('step', ['east', 'south', 'stay', 'no decision'])
    >>> heat_map(solution, step=2, show="value").get_xlabel()
    'remaining fuel'
    """
    policy = check_policy(policy)
    if isinstance(policy, UntilViolationPolicy):
        raise PolicyError("policy", "one that depends on step, state and amounts only", "an UntilViolationPolicy")
    if show not in ("action", "value"):
        raise ModelError("show", "'action' or 'value'", quote(show))
    model = _model_of(policy, model)
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < model.horizon):
        raise ModelError("step", f"a step from 0 to {model.horizon - 1}", quote(step))
    axis = _read_axis(policy, model, step, resource)
    visits = _follow(policy, model, axis, step)
    if not len(visits.x):
        when = "at any step" if step is None else f"at step {step}"
        raise PolicyError("heat_map", f"a policy that makes a decision {when}", "none")
    states, left_out = _chosen_states(visits)
    with styled_axes(ax, (_WIDTH, _height(visits, states, show))) as axes:
        axes.set_facecolor(NOTHING)
        width = 1.0 if step is None else _cell_width(visits.x)
        if show == "action":
            _draw_actions(axes, visits, states, width if step is not None else _GAP * width, model)
        else:
            _draw_values(axes, visits, states, width)
        if step is None:
            step_axis(axes, model.horizon - 1, "step")
        else:
            axes.set_xlabel(axis.label)
            axes.set_xlim(float(visits.x.min()) - width, float(visits.x.max()) + width)
        axes.set_ylim(len(states) - 0.5, -0.5)
        axes.set_yticks(range(len(states)), [plot_name(model.states[state]) for state in states])
        if left_out:
            axes.set_ylabel(f"{len(states)} of {len(states) + left_out:,} states, the most likely")
        axes.tick_params(axis="y", length=0)
        what = "actions" if show == "action" else "expected reward from there on"
        axes.set_title(problem_text(policy, what if step is None else f"{what} at step {step}"))
    return axes


def _height(visits: _Visits, states: list[int], show: str) -> float:
    """Return the height of the figure, in inches: there must be room for all states and for the legend beside them."""
    height = _REST + _ROW * max(len(states), 5)
    if show == "value":
        return height
    entries = min(len(np.unique(visits.action[np.isin(visits.state, states)])), MOST_LISTED) + 1
    return max(height, _REST + _ENTRY * min(entries, MOST_ROWS))


def _model_of(policy: NodeTable | MarkovPolicy, model: CMDP | None) -> CMDP:
    if isinstance(policy, MarkovPolicy):
        return policy.model
    if model is not None:
        check_model(model)
        policy.check_model(model)
        return model
    if policy.model is None:
        raise PolicyError("policy", "its model", "none", "pass model=..., or use load_policy(path, model)")
    return policy.model


def _read_axis(policy: NodeTable | MarkovPolicy, model: CMDP, step: int | None, resource: str | None) -> AmountAxis:
    if step is None:
        if resource is not None:
            raise ModelError("resource", "None, as the horizontal axis is the step", quote(resource), "pass step=...")
        return AmountAxis(policy, model.horizon, None)
    if not policy.resources:
        raise ModelError("step", "None, since the policy does not depend on what was spent", quote(step))
    return AmountAxis(policy, model.horizon, choose_resource(policy.resources, resource))


def _follow(policy: NodeTable | MarkovPolicy, model: CMDP, axis: AmountAxis, step: int | None) -> _Visits:
    """Return what the policy does at all steps, or at one step by amount."""
    if isinstance(policy, MarkovPolicy):
        cost_OD, accounts = np.zeros((model.n_outcomes, 0), np.int64), AccountTicks.plain(0)
    else:
        cost_OD = policy.cost_ticks(model)
        accounts = AccountTicks(policy.initial_D, policy.floor_D, policy.ceiling_D)
    try:
        with ResourceMonitor(_SECONDS) as monitor:
            layers = list(reached_layers(policy, model, cost_OD, accounts, monitor))
    except LimitReached:
        _refuse_size()
    parts = []
    known = zip(layers, layer_values(model, layers), _probabilities(model, layers), strict=True)
    for at, (layer, values, probability) in enumerate(known):
        if step is not None and at != step:
            continue
        node = layer.node_C
        if step is None:
            x = np.full(len(node), float(at))
        else:
            assert axis.d is not None
            ticks = layer.ticks_MD[:, axis.d].tolist()
            x = np.array(axis.amounts(at, ticks, ticks)[0])[node] if ticks else np.zeros(0)
        action = model.row_action[layer.row_C].astype(np.int64)
        parts.append((x, layer.states[node], action, probability[node] * layer.probability_C, values[node]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    likely = columns[3] > _LEAST
    return _Visits(*(column[likely] for column in columns))


def _refuse_size() -> NoReturn:
    raise PolicyError(
        "heat_map", f"a policy that can be followed within {_SECONDS:g} seconds", "one with more nodes",
        "solvent.plot.policy shows one state",
    ) from None  # fmt: skip


def _probabilities(model: CMDP, layers: list[ReachedLayer]) -> list[NDArray[np.float64]]:
    """Return the probability of each node of all layers."""
    found: list[NDArray[np.float64]] = []
    acting = np.isin(model.start_states, layers[0].states)
    now: NDArray[np.float64] = model.start_probability[acting]
    for i, layer in enumerate(layers):
        found.append(now)
        size = len(layers[i + 1].states) if i + 1 < len(layers) else 0
        goes_on = layer.next_node_O != OVER
        chance = (now[layer.node_C] * layer.probability_C)[layer.choice_O] * model.probability[layer.outcome_O]
        now = np.bincount(layer.next_node_O[goes_on], chance[goes_on], size).astype(np.float64)
    return found


def _chosen_states(visits: _Visits) -> tuple[list[int], int]:
    """Return the states to show, in the order of the model, and how many are left out."""
    states, place = np.unique(visits.state, return_inverse=True)
    weight = np.bincount(place, visits.weight)
    kept = np.sort(np.argsort(-weight, kind="stable")[:_MOST_STATES])
    return states[kept].tolist(), len(states) - len(kept)


def _cell_width(x: NDArray[np.float64]) -> float:
    apart = np.diff(np.unique(x))
    span = float(x.max() - x.min())
    apart = apart[apart > 1e-9 * span]
    return max(float(apart.min()), span / 150) if len(apart) else 1.0


def _cells(visits: _Visits, states: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], _Visits]:
    """Return the cell of each visit to a shown state, the row of each, and these visits."""
    row_of = {state: row for row, state in enumerate(states)}
    kept = np.isin(visits.state, states)
    chosen = _Visits(visits.x[kept], visits.state[kept], visits.action[kept], visits.weight[kept], visits.value[kept])
    row = np.array([row_of[state] for state in chosen.state.tolist()], np.int64)
    _, cell = np.unique(np.column_stack([row, chosen.x]), axis=0, return_inverse=True)
    return cell.ravel(), row, chosen


def _draw_actions(axes: Axes, visits: _Visits, states: list[int], width: float, model: CMDP) -> None:
    cell, row, chosen = _cells(visits, states)
    pairs, first, place = np.unique(
        np.column_stack([cell, chosen.action]), axis=0, return_index=True, return_inverse=True
    )
    total: Any = np.bincount(cell, chosen.weight)
    share: Any = np.bincount(place.ravel(), chosen.weight) / total[pairs[:, 0]]
    ends = np.cumsum(share)
    begins = ends - share
    start = begins[np.searchsorted(pairs[:, 0], pairs[:, 0])]
    left, right = begins - start, ends - start
    x, y = chosen.x[first], row[first]
    scale = ActionScale(model.actions, pairs[:, 1])
    scale.draw(axes, corners(x + width * (left - 0.5), x + width * (right - 0.5), y - 0.5, y + 0.5), pairs[:, 1])
    scale.legend(axes)


def _draw_values(axes: Axes, visits: _Visits, states: list[int], width: float) -> None:
    cell, row, chosen = _cells(visits, states)
    _, first = np.unique(cell, return_index=True)
    mean = np.bincount(cell, chosen.weight * chosen.value) / np.bincount(cell, chosen.weight)
    x, y = chosen.x[first], row[first]
    shape: Any = corners(x - width / 2, x + width / 2, y - 0.5, y + 0.5)
    drawn = PolyCollection(shape, array=mean, cmap=_COLORS, linewidth=0)
    axes.add_collection(drawn)
    bar = axes.figure.colorbar(drawn, ax=axes, label="expected reward", pad=0.02, aspect=30)
    bar.outline.set_visible(False)
