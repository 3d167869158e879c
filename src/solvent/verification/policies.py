"""The kinds of policies that `verify` and `simulate` accept, prepared for following them through a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, quote
from solvent.model.budget import BudgetLike, Limits, SpentLike, read_spent, resolve
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.policy.choices import TabularPolicy
from solvent.policy.holders import HasPolicy, policy_of
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.verification.callables import CallablePolicy
from solvent.verification.layers import Walk
from solvent.verification.ledgers import count_ledgers, open_ledgers
from solvent.verification.parts import first_count, plain_counts, take_apart

#: A policy of this package, an array of actions or probabilities, or a function of step, state and spent.
Decider = NodeTable | MarkovPolicy | NDArray[Any] | Callable[[int, Any, Any], Any]
#: Everything that can be verified or simulated for a model with a horizon.
PolicyLike = Decider | HasPolicy


def spent_before(model: CMDP, policy: PolicyLike, spent: SpentLike | None) -> dict[str, Fraction]:
    """Return what has been spent of each resource before the first step.

    Of a resource that `spent` does not name, it is what the policy was made for or, if it has no limits for that
    resource, nothing: for a policy on nodes the floor or the ceiling if that lies beyond 0, as for its agents.

    Raises
    ------
    BudgetError
        If an amount is not a number, lies beyond a floor or a ceiling, or is for an unknown resource.
    PolicyError
        If the policy is for another model.
    """
    policy = policy_of(policy)
    made_for: dict[str, Any] = {}
    if isinstance(policy, NodeTable):
        policy.check_model(model)
        made_for = {name: model.resource(name).clamp(Fraction(0)) for name in model.resources}
        made_for |= zip(policy.limits.resources, policy.limits.initial, strict=True)
    if spent is not None and not isinstance(spent, Mapping):
        return read_spent(model, spent)
    return read_spent(model, made_for | dict(spent or {}))


def limits_of(model: CMDP, policy: PolicyLike, budget: BudgetLike | None, spent: SpentLike | None = None) -> Limits:
    """Return the limits that a policy is checked against: the given ones, or else its own, or else the model's.

    `initial` of the limits is what `spent_before` returns.
    """
    policy = policy_of(policy)
    before = spent_before(model, policy, spent)
    if budget is None and isinstance(policy, NodeTable):
        return replace(policy.limits, initial=tuple(before[name] for name in policy.limits.resources))
    return resolve(model, budget, before)


def prepare(
    model: CMDP,
    policy: Decider,
    limits: Limits,
    *,
    spent: Mapping[str, Fraction] | None = None,
    most_parts: int | None = None,
    monitor: ResourceMonitor | None = None,
) -> Walk:
    """Return a `Walk` of a policy of any kind through a model.

    Parameters
    ----------
    model : CMDP
    policy : NodeTable, MarkovPolicy, array or callable
    limits : Limits
    spent : mapping of str to Fraction, optional
        What has been spent of each resource before the first step. If not given, `limits.initial`, and 0 of resources
        without limits.
    most_parts : int, optional
        Split continuous costs for a policy on rounded costs, into at most this many outcomes. If not given they are not
        split, and the caller has to count the costs that it draws.
    monitor : ResourceMonitor, optional
        Memory for costs and their parts stays reserved in it.

    Raises
    ------
    PolicyError
        If it is not a policy, or one for another model, or there are too many parts, or the policy cannot count from
        what has been spent before the first step.
    """
    if spent is None:
        spent = read_spent(model, dict(zip(limits.resources, limits.initial, strict=True)))
    monitor = monitor or ResourceMonitor()
    wide = [column.ticks.dtype == object for column in model.cost]
    monitor.reserve(model.n_outcomes * sum(200 if each else 24 for each in wide), "costs in ticks")
    if isinstance(policy, np.ndarray):
        policy = MarkovPolicy(model, policy)
    tabular: TabularPolicy
    if isinstance(policy, MarkovPolicy):
        if policy.model is not model and policy.model.fingerprint != model.fingerprint:
            raise PolicyError("policy", "a policy for this model", "one for another model")
        tabular, ledgers = policy, open_ledgers(model, limits, {}, spent)
    elif isinstance(policy, NodeTable):
        assert hasattr(policy, "choices_at")
        units = dict(zip(policy.resources, policy.units, strict=True))
        tabular = policy
        policy.check_model(model)
        if not all(_counts_truly(model, policy, d, spent) for d in range(len(policy.resources))):
            return _prepare_counted(model, policy, limits, units, spent, most_parts, monitor)
        policy.cost_ticks(model)  # refuses other models, and costs that are not multiples of its units
        ledgers = open_ledgers(model, limits, units, spent)
    elif callable(policy):
        ledgers = open_ledgers(model, limits, {}, spent)
        tabular = CallablePolicy(model, policy, ledgers, monitor)
    else:
        raise PolicyError(
            "policy",
            "a policy, a solution, an array of actions, or a function of step, state and spent",
            quote(policy),
            "solvent.load_policy(path, model) reads a file" if isinstance(policy, str | Path) else "",
        )
    return Walk(model, tabular, ledgers, monitor=monitor)


def _prepare_counted(
    model: CMDP,
    policy: Any,
    limits: Limits,
    units: dict[str, Fraction],
    spent: Mapping[str, Fraction],
    most_parts: int | None,
    monitor: ResourceMonitor,
) -> Walk:
    policy.check_model(model)
    first = [first_count(policy, d, spent) for d in range(len(policy.resources))]
    if most_parts is None:
        count_OD = plain_counts(model, policy)
        # draws are counted in ticks of the policy, which must be multiples of the ledger's ticks
        drawn = {
            name: unit
            for name, unit in units.items()
            if model.distribution_DO is not None
            and (model.distribution_DO[model.resource_index(name)] != NO_DISTRIBUTION).any()
        }
        ledgers = (*open_ledgers(model, limits, drawn, spent), *count_ledgers(policy, count_OD, first))
        return Walk(model, policy, ledgers, monitor=monitor)
    parts = take_apart(model, policy, most_parts, monitor, spent)
    ledgers = (*open_ledgers(parts.model, limits, {}, spent), *count_ledgers(policy, parts.count_OD, first))
    return Walk(parts.model, policy, ledgers, parts, monitor)


def _counts_truly(model: CMDP, policy: NodeTable, d: int, spent: Mapping[str, Fraction]) -> bool:
    """Return whether the amounts that a policy counts of a tracked resource are always those that are spent.

    If not, as after an initial amount between two of its ticks, it is followed by its own count.
    """
    r, unit = model.resource_index(policy.resources[d]), policy.units[d]
    floor, ceiling = model.floors[r], model.ceilings[r]
    first = spent[policy.resources[d]]
    return (
        policy.counting[d] == "exact"
        and first_count(policy, d, spent) * unit == first
        and int(policy.floor_D[d]) == (MINUS_INFINITY if floor is None else floor / unit)
        and int(policy.ceiling_D[d]) == (PLUS_INFINITY if ceiling is None else ceiling / unit)
    )
