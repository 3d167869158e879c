"""The nodes that a policy leads to, step by step, with amounts in ticks as the policy counts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks
from solvent.policy.choices import NO_ROW, find_rows, is_terminal, spread

#: Entry of `ReachedLayer.next_node` where the episode is over.
OVER = -1


class ReachedLayer(NamedTuple):
    """The M nodes of one step that a policy leads to, and what can happen there.

    Attributes
    ----------
    states : ndarray of int64, shape (M,)
    ticks_MD : ndarray of int64, shape (M, D)
    node_C, probability_C, row_C : ndarrays, shape (C,)
        The node, the probability and the row of each choice of the policy.
    choice_O, outcome_O, next_node_O : ndarrays of int64, shape (O,)
        The choice of each possible outcome, its position in the model, and the node of the next layer that it leads to;
        `OVER` where the episode ends.
    """

    states: NDArray[np.int64]
    ticks_MD: NDArray[np.int64]
    node_C: NDArray[np.int64]
    probability_C: NDArray[np.float64]
    row_C: NDArray[np.int64]
    choice_O: NDArray[np.int64]
    outcome_O: NDArray[np.int64]
    next_node_O: NDArray[np.int64]


def reached_layers(
    policy: Any, model: CMDP, cost_OD: NDArray[np.int64], accounts: AccountTicks, monitor: ResourceMonitor
) -> Iterator[ReachedLayer]:
    """Yield the layer of each step; an episode that is over is in none.

    Parameters
    ----------
    policy : AugmentedPolicy, RandomizedPolicy or MarkovPolicy
        What it does must be a function of the step, the state and the ticks.
    model : CMDP
    cost_OD : ndarray of int64, shape (O, D)
        The cost of each outcome as the policy counts it.
    accounts : AccountTicks
    monitor : ResourceMonitor

    Raises
    ------
    LimitReached
        If time or memory runs out.
    PolicyError
        If the policy takes an action that is not available.
    """
    states = model.start_states[~is_terminal(model, 0, model.start_states)]
    ticks_MD = np.tile(accounts.initial_D, (len(states), 1))
    for step in range(model.horizon):
        monitor.check_time()
        choices = policy.choices_at(step, states, ticks_MD)
        rows = find_rows(model, step, states[choices.node], choices.action)
        if (rows == NO_ROW).any():
            at = int(choices.node[np.argmax(rows == NO_ROW)])
            where = f"step {step}, state {model.states[int(states[at])]!r}"
            raise PolicyError(where, "an action of this state", "another one")
        total = int(np.diff(model.outcome_indptr)[rows].sum())
        with monitor.borrowed(6 * 8 * total * (2 + ticks_MD.shape[1]), "nodes that the policy leads to"):
            choice, outcomes = spread(model.outcome_indptr, rows)
            then = model.next_state[outcomes].astype(np.int64)
            moved = ticks_MD[choices.node[choice]] + cost_OD[outcomes]
            moved = np.minimum(np.maximum(moved, accounts.floor_D), accounts.ceiling_D)
            last = step + 1 == model.horizon
            over = np.ones(total, bool) if last else is_terminal(model, step + 1, then)
            key = np.column_stack([then[~over], moved[~over]])
            nodes, place = np.unique(key, axis=0, return_inverse=True)
            following = np.full(total, OVER, np.int64)
            following[~over] = place.ravel()
        yield ReachedLayer(
            states, ticks_MD, choices.node, choices.probability, rows, choice, outcomes, following
        )  # fmt: skip
        states, ticks_MD = np.ascontiguousarray(nodes[:, 0]), np.ascontiguousarray(nodes[:, 1:])


def layer_values(model: CMDP, layers: list[ReachedLayer]) -> list[NDArray[np.float64]]:
    """Return what the policy earns from each node of all layers on."""
    end = np.zeros(model.n_states) if model.end_reward is None else model.end_reward
    values: list[NDArray[np.float64]] = [np.zeros(0)]
    for layer in reversed(layers):
        then, later = layer.next_node_O, values[-1]
        worth = end[model.next_state[layer.outcome_O]]
        if len(later):
            worth = np.where(then == OVER, worth, later[then])
        expected = np.bincount(layer.choice_O, model.probability[layer.outcome_O] * worth, len(layer.row_C))
        earned = layer.probability_C * (model.row_reward[layer.row_C] + expected)
        values.append(np.bincount(layer.node_C, earned, len(layer.states)).astype(np.float64))
    return values[:0:-1]
