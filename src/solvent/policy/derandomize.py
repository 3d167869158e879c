"""Derandomization: for every randomized policy there is a deterministic one that is at least as good.

Lemma 1 of the paper (`lem: derandomization`): at each node take, among the actions that the policy takes with positive
probability, one of the greatest value. Every history of the result is a history of the policy, so that no worst case
increases, and no history ends in a state where none of the policy's does; and by induction from the last step no value
decreases. The value used here is that of the result from the next step on, which is at least the policy's; where an
episode ends, it is the end reward. The result is therefore the best policy that takes only actions which the given one
takes with positive probability.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.errors import LimitError, PolicyError, quote
from solvent.model.cmdp import CMDP
from solvent.model.lattice import AccountTicks
from solvent.policy.choices import NO_ROW, Choices, find_rows, is_terminal, spread
from solvent.policy.holders import HasPolicy, policy_of
from solvent.policy.markov import UNDECIDED, MarkovPolicy, RandomizedPolicy
from solvent.policy.nodes import NodeTable
from solvent.policy.search import compact, pack
from solvent.policy.table import AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy


class _ReachedNodes(NamedTuple):
    """The nodes of a step that the policy can lead to, with its choices and their outcomes."""

    states: NDArray[np.int64]
    ticks_ND: NDArray[np.int64]
    choices: Choices
    rows: NDArray[np.int64]
    owner: NDArray[np.int64]
    outcome: NDArray[np.int64]
    following: NDArray[np.int64]


@overload
def derandomize(
    model: CMDP, policy: MarkovPolicy, *, time_limit: float | None = None, memory_limit: int | str | None = None
) -> MarkovPolicy: ...
@overload
def derandomize(
    model: CMDP,
    policy: RandomizedPolicy | AugmentedPolicy | HasPolicy,
    *,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> AugmentedPolicy: ...


def derandomize(
    model: CMDP, policy: Any, *, time_limit: float | None = None, memory_limit: int | str | None = None
) -> Any:
    """Return a deterministic policy whose worst case is not greater, and whose value is not less.

    Parameters
    ----------
    model : CMDP
    policy : Solution, MarkovPolicy, RandomizedPolicy or AugmentedPolicy
        Of a solution, or any other object with an attribute `policy`, that policy. Where it has no decision, neither
        has the result.
    time_limit : float, optional
        Time limit in seconds.
    memory_limit : int or str, optional
        Memory limit in bytes, or text such as "8GB". If not given, most of the free memory. It is checked before memory
        is allocated.

    Returns
    -------
    MarkovPolicy or AugmentedPolicy
        On states if `policy` is Markov, else on the nodes that the result can lead to.

    Raises
    ------
    PolicyError
        If the policy may take an action that is not available, is for another model, or tracks continuous costs.
    LimitError
        If the time or memory limit is reached.

    Notes
    -----
    Lemma 1 of the paper (`lem: derandomization`).

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.markov_gap(prize=10)
    >>> fair = MarkovPolicy(model, [[[0.5, 0.5]], [[0.5, 0.5]]])
    >>> derandomize(model, fair).table.tolist()
    [[0], [1]]
    """
    policy = policy_of(policy)
    if isinstance(policy, MarkovPolicy):
        if policy.model is not model and policy.model.fingerprint != model.fingerprint:
            raise PolicyError("policy", "a policy for this model", "one for another model")
        cost_OD = np.zeros((model.n_outcomes, 0), np.int64)
    elif isinstance(policy, UntilViolationPolicy):
        raise PolicyError(
            "policy", "one that depends on step, state and spent only", "one that depends on earlier violations"
        )
    elif isinstance(policy, RandomizedPolicy | AugmentedPolicy):
        cost_OD = policy.cost_ticks(model)
    else:
        raise PolicyError("policy", "a MarkovPolicy, a RandomizedPolicy or an AugmentedPolicy", quote(policy))
    try:
        with ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit)) as monitor:
            layers = _explore(model, policy, cost_OD, monitor)
            chosen = _choose(model, layers, monitor)
    except LimitReached as reached:
        raise LimitError(f"derandomize stopped: {reached}; raise the limit") from None
    if isinstance(policy, MarkovPolicy):
        table = np.full((model.horizon, model.n_states), UNDECIDED, np.int32)
        for step, (layer, best) in enumerate(zip(layers, chosen, strict=True)):
            table[step, layer.states[layer.choices.node[best]]] = layer.choices.action[best]
        return MarkovPolicy(model, table)
    kept = _restrict(layers, chosen)
    nodes = [
        (layer.states[at], layer.ticks_ND[at], layer.choices.action[best])
        for layer, best in zip(layers, kept, strict=True)
        for at in [layer.choices.node[best]]
    ]
    return AugmentedPolicy.from_nodes(model, policy, policy.limits, layers=nodes, counting=policy.counting)


def _explore(model: CMDP, policy: Any, cost_OD: NDArray[np.int64], monitor: ResourceMonitor) -> list[_ReachedNodes]:
    """Return the nodes that the policy can lead to, by step; terminal ones are without choices."""
    states = model.start_states
    initial_D, floor_D, ceiling_D = AccountTicks.plain(0)
    if isinstance(policy, NodeTable):
        initial_D, floor_D, ceiling_D = policy.initial_D, policy.floor_D, policy.ceiling_D
    ticks = np.repeat(initial_D[None], len(states), axis=0)
    layers = []
    for step in range(model.horizon):
        choices = policy.choices_at(step, states, ticks)
        live = ~is_terminal(model, step, states)[choices.node]
        choices = Choices(choices.node[live], choices.action[live], choices.probability[live])
        rows = find_rows(model, step, states[choices.node], choices.action)
        if (rows == NO_ROW).any():
            bad = int(np.flatnonzero(rows == NO_ROW)[0])
            state = model.states[int(states[choices.node[bad]])]
            action = model.actions[int(choices.action[bad])]
            raise PolicyError(f"step {step}, state {quote(state)}", "an available action", quote(action))
        monitor.check_time()
        per_outcome = 24 + 8 * cost_OD.shape[1]
        n_outcomes = int((model.outcome_indptr[rows + 1] - model.outcome_indptr[rows]).sum())
        # positions of outcomes are kept; next states, amounts, keys and their order are temporary
        monitor.reserve(24 * n_outcomes + 40 * len(rows), f"the nodes of step {step}")
        monitor.reserve(3 * per_outcome * n_outcomes, f"the nodes of step {step}")
        owner, outcome = spread(model.outcome_indptr, rows)
        next_states = model.next_state[outcome].astype(np.int64)
        next_ticks = np.clip(ticks[choices.node[owner]] + cost_OD[outcome], floor_D, ceiling_D)
        keys, following = compact(pack([next_states, *next_ticks.T]))
        layers.append(_ReachedNodes(states, ticks, choices, rows, owner, outcome, following))
        example = np.zeros(len(keys), np.int64)
        example[following] = np.arange(len(following))
        states, ticks = next_states[example], next_ticks[example]
        monitor.release(3 * per_outcome * n_outcomes)
    return layers


def _choose(model: CMDP, layers: list[_ReachedNodes], monitor: ResourceMonitor) -> list[NDArray[np.int64]]:
    """Return, by step, the best choice of each node that has a decision."""
    chosen: list[NDArray[np.int64]] = []
    end_reward = np.zeros(model.n_states) if model.end_reward is None else model.end_reward
    value = np.zeros(0)
    for step in range(len(layers) - 1, -1, -1):
        monitor.check_time()
        layer = layers[step]
        last = step == len(layers) - 1
        later = end_reward[model.next_state[layer.outcome]] if last else value[layer.following]
        action_value = model.row_reward[layer.rows] + np.bincount(
            layer.owner, model.probability[layer.outcome] * later, len(layer.rows)
        )
        order = np.lexsort((-action_value, layer.choices.node))
        node = layer.choices.node[order]
        first = np.ones(len(node), bool)
        np.not_equal(node[1:], node[:-1], out=first[1:])
        best = order[first]
        value = np.where(is_terminal(model, step, layer.states), end_reward[layer.states], 0.0)
        value[layer.choices.node[best]] = action_value[best]
        chosen.append(best)
    return chosen[::-1]


def _restrict(layers: list[_ReachedNodes], chosen: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the choices at the nodes that the chosen actions lead to."""
    reached = np.ones(len(layers[0].states), bool)
    kept = []
    for layer, best in zip(layers, chosen, strict=True):
        best = best[reached[layer.choices.node[best]]]
        kept.append(best)
        taken = np.zeros(len(layer.rows), bool)
        taken[best] = True
        reached = np.zeros(int(layer.following.max()) + 1 if len(layer.following) else 0, bool)
        reached[layer.following[taken[layer.owner]]] = True
    return kept
