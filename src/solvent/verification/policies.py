"""The kinds of policies that `verify` and `simulate` accept, prepared for following them through a model."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.errors import PolicyError, quote
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.policy.choices import TabularPolicy
from solvent.policy.holders import HasPolicy, policy_of
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.verification.callables import CallablePolicy
from solvent.verification.layers import Walk
from solvent.verification.ledgers import count_ledgers, open_ledgers
from solvent.verification.parts import plain_counts, take_apart

#: A policy of this package, an array of actions or probabilities, or a function of step, state and spent.
Decider = NodeTable | MarkovPolicy | NDArray[Any] | Callable[[int, Any, Any], Any]
#: Everything that can be verified or simulated for a model with a horizon.
PolicyLike = Decider | HasPolicy


def limits_of(model: CMDP, policy: PolicyLike, budget: BudgetLike | None) -> Limits:
    """Return the limits that a policy is checked against: the given ones, or else its own, or else the model's."""
    policy = policy_of(policy)
    if budget is None and isinstance(policy, NodeTable):
        return policy.limits
    return resolve(model, budget)


def prepare(
    model: CMDP,
    policy: Decider,
    limits: Limits,
    *,
    most_parts: int | None = None,
    monitor: ResourceMonitor | None = None,
) -> Walk:
    """Return a `Walk` of a policy of any kind through a model.

    Parameters
    ----------
    model : CMDP
    policy : NodeTable, MarkovPolicy, array or callable
    limits : Limits
    most_parts : int, optional
        Split continuous costs for a policy on rounded costs, into at most this many outcomes. If not given they are not
        split, and the caller has to count the costs that it draws.
    monitor : ResourceMonitor, optional
        Memory for costs and their parts stays reserved in it.

    Raises
    ------
    PolicyError
        If it is not a policy, or one for another model, or there are too many parts.
    """
    monitor = monitor or ResourceMonitor()
    wide = [column.ticks.dtype == object for column in model.cost]
    monitor.reserve(model.n_outcomes * sum(200 if each else 24 for each in wide), "costs in ticks")
    if isinstance(policy, np.ndarray):
        policy = MarkovPolicy(model, policy)
    tabular: TabularPolicy
    if isinstance(policy, MarkovPolicy):
        if policy.model is not model and policy.model.fingerprint != model.fingerprint:
            raise PolicyError("policy", "a policy for this model", "one for another model")
        tabular, ledgers = policy, open_ledgers(model, limits, {})
    elif isinstance(policy, NodeTable):
        assert hasattr(policy, "choices_at")
        units = dict(zip(policy.resources, policy.units, strict=True))
        tabular = policy
        if policy.rounds:
            return _prepare_rounded(model, policy, limits, units, most_parts, monitor)
        policy.cost_ticks(model)  # refuses other models, and costs that are not multiples of its units
        ledgers = open_ledgers(model, limits, units)
    elif callable(policy):
        ledgers = open_ledgers(model, limits, {})
        tabular = CallablePolicy(model, policy, ledgers, monitor)
    else:
        raise PolicyError(
            "policy",
            "a policy, a solution, an array of actions, or a function of step, state and spent",
            quote(policy),
            "solvent.load_policy(path, model) reads a file" if isinstance(policy, str | Path) else "",
        )
    return Walk(model, tabular, ledgers, monitor=monitor)


def _prepare_rounded(
    model: CMDP,
    policy: Any,
    limits: Limits,
    units: dict[str, Fraction],
    most_parts: int | None,
    monitor: ResourceMonitor,
) -> Walk:
    policy.check_model(model)
    if most_parts is None:
        count_OD = plain_counts(model, policy)
        # draws are counted in ticks of the policy, which must be multiples of the ledger's ticks
        drawn = {
            name: unit
            for name, unit in units.items()
            if model.distribution_DO is not None
            and (model.distribution_DO[model.resource_index(name)] != NO_DISTRIBUTION).any()
        }
        ledgers = (*open_ledgers(model, limits, drawn), *count_ledgers(policy, count_OD))
        return Walk(model, policy, ledgers, monitor=monitor)
    parts = take_apart(model, policy, most_parts, monitor)
    ledgers = (*open_ledgers(parts.model, limits, {}), *count_ledgers(policy, parts.count_OD))
    return Walk(parts.model, policy, ledgers, parts, monitor)
