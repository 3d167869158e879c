"""The first part of every check: the policy of an answer, and its report by `verify`."""

from __future__ import annotations

from typing import Any

import solvent
from fuzz.ledger import Ledger, Run


def policy_and_report(
    model: Any, budget: Any, solution: Any, run: Run, ledger: Ledger, **given: Any
) -> tuple[Any, Any]:
    """Return the policy and its report; each is None if it raises, which is noted, or if there is no policy."""
    policy = report = None
    if solution.status.value in ("infeasible", "limit", "not_found"):
        return policy, report
    with ledger.no_exception(run, "policy"):
        policy = solution.policy
    if policy is not None:
        with ledger.no_exception(run, "verify"):
            report = solvent.verify(model, policy, budget, **given)
    return policy, report
