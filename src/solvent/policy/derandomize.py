"""Derandomization: anything a randomized policy can do, a deterministic one can do as well and as cheaply.

Lemma 1 of the paper (`lem: derandomization`): at each node take, out of the actions the policy might take, one of the
largest value. Every history of the result is a history of the policy, so no worst case grows; and by induction
from the last step no value falls. The value here is that of the result from the next step on, which is at least the
policy's, so the result is the best of all policies within the given one's support.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.errors import LimitError, PolicyError, quote
from solvent.model.cmdp import CMDP
from solvent.policy.choices import NO_ROW, Choices, find_rows, is_terminal, spread
from solvent.policy.markov import UNDECIDED, MarkovPolicy, RandomizedPolicy
from solvent.policy.search import compact, pack
from solvent.policy.table import AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy


class _Layer(NamedTuple):
    """The nodes of a step that the policy can lead to, with its choices and where they lead."""

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
    policy: RandomizedPolicy | AugmentedPolicy,
    *,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> AugmentedPolicy: ...


def derandomize(
    model: CMDP, policy: Any, *, time_limit: float | None = None, memory_limit: int | str | None = None
) -> Any:
    """Return a deterministic policy that never spends more at worst and is never worth less.

    Parameters
    ----------
    model : CMDP
    policy : MarkovPolicy, RandomizedPolicy or AugmentedPolicy
        Where it decides nothing, neither does the result.
    time_limit : float, optional
        Give up after so many seconds.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used.

    Returns
    -------
    MarkovPolicy or AugmentedPolicy
        On states if `policy` is Markov, else on the nodes that the result can lead to.

    Raises
    ------
    PolicyError
        If the policy may take an action that is not available, is for another model, or tracks continuous costs.
    LimitError
        If the time or memory allowed is not enough.

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
    if isinstance(policy, MarkovPolicy):
        if policy.model is not model and policy.model.fingerprint != model.fingerprint:
            raise PolicyError("policy", "a policy for this model", "one for another")
        cost_OD = np.zeros((model.n_outcomes, 0), np.int64)
    elif isinstance(policy, UntilViolationPolicy):
        raise PolicyError("policy", "one that looks at step, state and spent alone", "one that remembers broken limits")
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


def _explore(model: CMDP, policy: Any, cost_OD: NDArray[np.int64], monitor: ResourceMonitor) -> list[_Layer]:
    """Return the layers of nodes the policy can lead to; terminal ones are left out, they are worth nothing."""
    states = np.array([model.start_index], np.int64)
    ticks = np.zeros((1, cost_OD.shape[1]), np.int64)
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
        # places of outcomes are kept; next states, amounts, keys and their order are not
        monitor.reserve(24 * n_outcomes + 40 * len(rows), f"the nodes of step {step}")
        monitor.reserve(3 * per_outcome * n_outcomes, f"the nodes of step {step}")
        owner, outcome = spread(model.outcome_indptr, rows)
        next_states = model.next_state[outcome].astype(np.int64)
        next_ticks = ticks[choices.node[owner]] + cost_OD[outcome]
        keys, following = compact(pack([next_states, *next_ticks.T]))
        layers.append(_Layer(states, ticks, choices, rows, owner, outcome, following))
        example = np.zeros(len(keys), np.int64)
        example[following] = np.arange(len(following))
        states, ticks = next_states[example], next_ticks[example]
        monitor.release(3 * per_outcome * n_outcomes)
    return layers


def _choose(model: CMDP, layers: list[_Layer], monitor: ResourceMonitor) -> list[NDArray[np.int64]]:
    """Return, per layer, the best choice of each node that has any."""
    chosen: list[NDArray[np.int64]] = []
    value = np.zeros(0)
    for step in range(len(layers) - 1, -1, -1):
        monitor.check_time()
        layer = layers[step]
        later = value[layer.following] if step < len(layers) - 1 else np.zeros(len(layer.following))
        worth = model.row_reward[layer.rows] + np.bincount(
            layer.owner, model.probability[layer.outcome] * later, len(layer.rows)
        )
        order = np.lexsort((-worth, layer.choices.node))
        node = layer.choices.node[order]
        first = np.ones(len(node), bool)
        np.not_equal(node[1:], node[:-1], out=first[1:])
        best = order[first]
        value = np.zeros(len(layer.states))
        value[layer.choices.node[best]] = worth[best]
        chosen.append(best)
    return chosen[::-1]


def _restrict(layers: list[_Layer], chosen: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the choices at the nodes that these choices lead to."""
    reached = np.ones(1, bool)
    kept = []
    for layer, best in zip(layers, chosen, strict=True):
        best = best[reached[layer.choices.node[best]]]
        kept.append(best)
        taken = np.zeros(len(layer.rows), bool)
        taken[best] = True
        reached = np.zeros(int(layer.following.max()) + 1 if len(layer.following) else 0, bool)
        reached[layer.following[taken[layer.owner]]] = True
    return kept
