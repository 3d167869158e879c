"""Verification: what a policy can do at worst, found without the help of whoever made it.

A first sweep merges every history the policy cannot tell apart and carries the extremes of spending, so its size is
that of the policy, not of the histories. If these extremes keep all limits, nothing ever breaks one. Otherwise a second
sweep tells nodes apart by what was spent and by how much limits were broken so far, which gives probabilities and
a shortest history to look at.

For a policy that counts rounded costs, continuous costs are first taken apart into what it counts alike (`parts`).
Other policies do not look at them, and there the ends of the support are all that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.errors import LimitError, PolicyError, quote
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION, check_model
from solvent.model.discounted import DiscountedCMDP
from solvent.policy.choices import TabularPolicy
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.verification.account import count_ledgers, open_ledgers
from solvent.verification.callables import CallablePolicy
from solvent.verification.discounted import DiscountedReport, verify_discounted
from solvent.verification.layers import Walk
from solvent.verification.parts import plain_counts, take_apart
from solvent.verification.report import PerStep, Report
from solvent.verification.sweep import Findings, StraddleError, Sweep
from solvent.verification.trace import Trace, Traced

#: Everything that can be checked: a policy of ours, an array of actions or probabilities, or a function.
PolicyLike = NodeTable | MarkovPolicy | NDArray[Any] | Callable[[int, Any, Any], Any]


@overload
def verify(
    model: CMDP,
    policy: PolicyLike,
    budget: BudgetLike | None = None,
    *,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> Report: ...


@overload
def verify(
    model: DiscountedCMDP,
    policy: object,
    budget: BudgetLike | None = None,
    *,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> DiscountedReport: ...


def verify(
    model: CMDP | DiscountedCMDP,
    policy: Any,
    budget: BudgetLike | None = None,
    *,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> Report | DiscountedReport:
    """Return what a policy can spend at worst, what it is worth, and how it breaks a limit if it can.

    Parameters
    ----------
    model : CMDP or DiscountedCMDP
    policy : AugmentedPolicy, RandomizedPolicy, MarkovPolicy, array or callable; DiscountedPolicy for a discounted model
        An array holds positions of actions, shape (H, S), or probabilities, shape (H, S, A). A callable is given the
        step, the state's name and what was spent (an exact fraction for a model of one resource, else a dict by name)
        and returns an action's name or a dict of probabilities by action.
    budget : number, Budget or mapping, optional
        The limits to check; the policy's own if not given, or else the model's default.
    max_nodes : int
        Give up beyond so many nodes, or so many parts of continuous costs.
    time_limit : float, optional
        Give up after so many seconds.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used.

    Raises
    ------
    PolicyError
        If the policy takes an action that is not available, or decides nothing where it leads to. Only where a limit
        is already broken need a policy on nodes decide nothing: that history then stops, and counts as one that breaks
        a limit.
    NodeLimitError
        If there are more nodes than `max_nodes`.
    LimitError
        If the time or memory allowed is not enough: a part of a check proves nothing.
    ModelError
        If a callable looks at what was spent of a resource with continuous costs.

    Notes
    -----
    Spending is compared in whole numbers, the probability of histories is not asked: one of probability 1e-300 that
    breaks a limit makes a policy infeasible. A history that reaches a terminal state spends nothing more, and is held
    to the limits of the remaining steps.

    Examples
    --------
    The bold Markov policy of the paper's Proposition 1 goes over budget half of the time:

    >>> from solvent.model import instances
    >>> model = instances.markov_gap(prize=10)
    >>> report = verify(model, MarkovPolicy(model, [[0], [1]]))
    >>> report.feasible, report.value, report.violation_probability
    (False, 10.0, 0.5)
    >>> report.worst_spent
    {'cost': (Fraction(1, 1), Fraction(2, 1))}
    >>> print(report.witness)
    goes over cost after step 1
    ┏━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━━┳━━━━━━━┳━━━━━━━┓
    ┃ step ┃ state ┃ action ┃ cost ┃ spent ┃ limit ┃
    ┡━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━━╇━━━━━━━╇━━━━━━━┩
    │ 0    │ 0     │ 0      │    1 │     1 │  <= 1 │
    │ 1    │ 0     │ 1      │    1 │   2 ! │  <= 1 │
    └──────┴───────┴────────┴──────┴───────┴───────┘
    """
    try:
        with ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit)) as monitor:
            if isinstance(model, DiscountedCMDP):
                return verify_discounted(model, policy, budget, monitor, max_nodes=max_nodes)
            check_model(model)
            return verify_within(model, policy, limits_of(model, policy, budget), monitor, max_nodes=max_nodes)
    except LimitReached as reached:
        raise LimitError(f"verify stopped: {reached}; raise the limit") from None


def verify_within(
    model: CMDP, policy: PolicyLike, limits: Limits, monitor: ResourceMonitor, *, max_nodes: int = 20_000_000
) -> Report:
    """Check a policy against resolved limits within what is left of time and memory; see `verify`.

    Raises
    ------
    LimitReached
        If that is not enough.
    """
    walk = prepare(model, policy, limits, most_parts=max_nodes, monitor=monitor)
    used = monitor.used
    try:
        found = Sweep(walk, max_nodes, settled=True).run()
    except StraddleError:
        monitor.release(monitor.used - used)
        found = Sweep(walk, max_nodes, settled=False).run()
    if found.complete and not found.broken:
        return _report(walk, found, limits)
    suspects = [r for r, ledger in enumerate(walk.ledgers) if ledger.limited]
    if found.complete:
        suspects = [r for r in suspects if r in found.broken]
    traced = Trace(walk, max_nodes, suspects, found).run()
    return _report(walk, traced.findings, limits, traced)


def limits_of(model: CMDP, policy: PolicyLike, budget: BudgetLike | None) -> Limits:
    """Return the limits a policy is held to: those asked for, or its own, or the model's."""
    if budget is None and isinstance(policy, NodeTable):
        return policy.limits
    return resolve(model, budget)


def prepare(
    model: CMDP,
    policy: PolicyLike,
    limits: Limits,
    *,
    most_parts: int | None = None,
    monitor: ResourceMonitor | None = None,
) -> Walk:
    """Return the walk of any kind of policy through the model.

    Parameters
    ----------
    model : CMDP
    policy : NodeTable, MarkovPolicy, array or callable
    limits : Limits
    most_parts : int, optional
        Take continuous costs apart for a policy on rounded costs, into at most so many outcomes. If not given they stay
        whole, and whoever walks has to count what is drawn.
    monitor : ResourceMonitor, optional
        Memory for costs and their parts stays reserved.

    Raises
    ------
    PolicyError
        If it is no policy, or one for another model, or there are too many parts.
    """
    monitor = monitor or ResourceMonitor()
    wide = [column.ticks.dtype == object for column in model.cost]
    monitor.reserve(model.n_outcomes * sum(200 if each else 24 for each in wide), "costs in ticks")
    if isinstance(policy, np.ndarray):
        policy = MarkovPolicy(model, policy)
    tabular: TabularPolicy
    if isinstance(policy, MarkovPolicy):
        if policy.model is not model and policy.model.fingerprint != model.fingerprint:
            raise PolicyError("policy", "a policy for this model", "one for another")
        tabular, ledgers = policy, open_ledgers(model, limits, {})
    elif isinstance(policy, NodeTable):
        assert hasattr(policy, "choices_at")
        units = dict(zip(policy.resources, policy.units, strict=True))
        tabular = policy
        if policy.rounds:
            return _prepare_rounded(model, policy, limits, units, most_parts, monitor)
        policy.cost_ticks(model)  # refuses other models, and costs that are no whole numbers of its ticks
        ledgers = open_ledgers(model, limits, units)
    elif callable(policy):
        ledgers = open_ledgers(model, limits, {})
        tabular = CallablePolicy(model, policy, ledgers, monitor)
    else:
        raise PolicyError(
            "policy", "a policy, an array of actions, or a function of step, state and spent", quote(policy)
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
        # draws are counted in whole ticks of the policy, which must be whole numbers of the ledger's
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


def _report(walk: Walk, found: Findings, limits: Limits, traced: Traced | None = None) -> Report:
    names = [ledger.name for ledger in walk.ledgers if not ledger.counted]

    def amounts(extremes: list[tuple[Any, ...]], r: int) -> PerStep:
        return tuple(walk.ledgers[r].amount(extreme[r]) for extreme in extremes)

    excess: dict[str, float | None] = dict.fromkeys(limits.resources, 0.0)
    if traced is not None:
        excess |= {names[r]: value for r, value in traced.excess.items()}
    feasible = traced is None or traced.witness is None
    return Report(
        feasible=feasible,
        value=math.fsum(found.earned),
        worst_spent={name: amounts(found.worst, r) for r, name in enumerate(names)},
        least_spent={name: amounts(found.least, r) for r, name in enumerate(names)},
        violation_probability=0.0 if traced is None else traced.probability,
        expected_excess=excess,
        witness=None if traced is None else traced.witness,
        nodes=found.nodes,
        upper=dict(zip(limits.resources, limits.upper, strict=True)),
        lower=dict(zip(limits.resources, limits.lower, strict=True)),
    )
