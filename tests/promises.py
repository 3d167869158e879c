"""What approximate policies promise, held against the verifier's report."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import solvent
from solvent import Status
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP

#: Values are sums of floats.
NOISE = 1e-9


def allowed(limits: Any, d: int, h: int, method: str, epsilon: Fraction) -> tuple[Fraction | None, Fraction | None]:
    """What may have been spent after a step: the definition of approximate feasibility, side by side."""
    every = [limit for side in (limits.upper[d], limits.lower[d]) for limit in side if limit is not None]
    slack = epsilon if method == "additive" else epsilon * min(map(abs, every))
    upper, lower = limits.upper[d][h], limits.lower[d][h]
    return None if upper is None else upper + slack, None if lower is None else lower - slack


def check_worst(
    model: CMDP, budget: Any, solution: Any, method: str, epsilon: Fraction, strict: bool, spent: Any = None
) -> Any:
    """Hold a policy to its promise by the verifier, step by step, and its report to the verifier's; return this."""
    limits = resolve(model, budget, spent)
    report = solvent.verify(model, solution.policy, budget, **({} if spent is None else {"spent": spent}))
    assert report.value == pytest.approx(solution.value, abs=NOISE)
    for d, name in enumerate(limits.resources):
        over = [Fraction(0)]
        for h in range(model.horizon):
            most, least = report.worst_spent_by_step[name][h], report.least_spent_by_step[name][h]
            upper, lower = allowed(limits, d, h, method, epsilon)
            assert upper is None or most <= upper
            assert lower is None or (least is not None and least >= lower)
            if limits.upper[d][h] is not None:
                over.append(most - limits.upper[d][h])
            if limits.lower[d][h] is not None:
                over.append(limits.lower[d][h] - least)
        assert solution.excess[name] >= max(over)
        assert solution.worst_spent[name] >= report.worst_spent[name]
        if solution.worst_is_exact:
            assert solution.excess[name] == max(over)
            assert solution.worst_spent[name] == report.worst_spent[name]
    assert report.feasible or any(solution.excess.values())
    if strict or solution.status is Status.OPTIMAL:
        assert report.feasible
    return report
