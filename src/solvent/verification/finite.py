"""Verification of policies for models with a horizon, in two passes.

The first pass merges all histories that the policy does not distinguish and keeps the extremes of spending, so that its
size depends on the policy and not on the number of histories. If these extremes keep all limits and no history ends in
a state in which it must not end, the policy is feasible. Otherwise a second pass distinguishes nodes by the amounts
spent and by the excess so far, which gives probabilities and a shortest violating history.

For a policy on rounded costs, continuous costs are first split into intervals of equal count (`parts`). Other policies
do not depend on continuous costs, and for them the greatest and least possible costs suffice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from solvent.core.limits import ResourceMonitor
from solvent.core.logs import get_logger
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.policy.holders import policy_of
from solvent.verification.extremes import ExtremesPass
from solvent.verification.findings import Findings
from solvent.verification.layers import SettledSplitError, Walk
from solvent.verification.policies import PolicyLike, prepare
from solvent.verification.report import PerStep, VerifyReport
from solvent.verification.violations import ViolationFindings, ViolationPass

_logger = get_logger(__name__)


def verify_within(
    model: CMDP,
    policy: PolicyLike,
    limits: Limits,
    monitor: ResourceMonitor,
    *,
    max_nodes: int = 20_000_000,
    spent: Mapping[str, Fraction] | None = None,
) -> VerifyReport:
    """Verify a policy against resolved limits, within the remaining time and memory; see `verify`.

    `spent` is what has been spent of each resource of the model before the first step. If not given, it is
    `limits.initial`, and 0 of resources without limits.

    Raises
    ------
    LimitReached
        If a limit of the monitor is reached.
    """
    walk = prepare(model, policy_of(policy), limits, spent=spent, most_parts=max_nodes, monitor=monitor)
    used = monitor.used
    try:
        found = ExtremesPass(walk, max_nodes, settled=True).run()
    except SettledSplitError:
        _logger.debug("the policy distinguishes settled amounts: first pass again, without merging them")
        monitor.release(monitor.used - used)
        found = ExtremesPass(walk, max_nodes, settled=False).run()
    _logger.debug(
        "first pass: %d nodes, %s%s",
        found.nodes,
        "a limit may be broken" if found.broken else "all limits kept",
        ", some histories end where they must not" if found.astray else "",
    )
    if found.complete and not found.broken and not found.astray:
        return _report(walk, found, limits)
    suspects = [r for r, ledger in enumerate(walk.ledgers) if ledger.limited]
    if found.complete:
        suspects = [r for r in suspects if r in found.broken]
    violations = ViolationPass(walk, max_nodes, suspects, found).run()
    _logger.debug("second pass: %d nodes in all", violations.findings.nodes)
    return _report(walk, violations.findings, limits, violations)


def _report(walk: Walk, found: Findings, limits: Limits, violations: ViolationFindings | None = None) -> VerifyReport:
    names = [ledger.name for ledger in walk.ledgers if not ledger.counted]

    def worst(r: int) -> tuple[Fraction, ...]:
        return tuple(int(extreme[r]) * walk.ledgers[r].unit for extreme in found.worst)

    def least(r: int) -> PerStep:
        return tuple(walk.ledgers[r].amount(extreme[r]) for extreme in found.least)

    excess: dict[str, float | None] = dict.fromkeys(limits.resources, 0.0)
    if violations is not None:
        excess |= {names[r]: value for r, value in violations.excess.items()}
    return VerifyReport(
        feasible=violations is None or violations.witness is None,
        value=math.fsum(found.earned),
        worst_spent_by_step={name: worst(r) for r, name in enumerate(names)},
        least_spent_by_step={name: least(r) for r, name in enumerate(names)},
        violation_probability=0.0 if violations is None else violations.probability,
        expected_excess=excess,
        witness=None if violations is None else violations.witness,
        nodes=found.nodes,
        upper=dict(zip(limits.resources, limits.upper, strict=True)),
        lower=dict(zip(limits.resources, limits.lower, strict=True)),
        initial={name: walk.ledgers[r].initial * walk.ledgers[r].unit for r, name in enumerate(names)},
        has_goal=walk.model.may_end is not None,
    )
