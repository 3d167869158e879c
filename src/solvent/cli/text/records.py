"""Results as JSON records: plain dicts.

Exact amounts are strings ("30", "5/2"), other numbers are numbers. Infinite and missing values are null.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solvent.baselines.compare import Comparison, ComparisonRow
    from solvent.model.budget import Budget, Limits
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.solvers.curve import Curve
    from solvent.solvers.levels.levels import Levels
    from solvent.solvers.solution import Diagnosis, Round, Solution
    from solvent.verification.report import VerifyReport, Witness
    from solvent.verification.simulate import Simulation


def amount(value: Fraction | None) -> str | None:
    """Return an exact amount as text.

    Examples
    --------
    >>> amount(Fraction(5, 2)), amount(Fraction(30)), amount(None)
    ('5/2', '30', None)
    """
    return None if value is None else str(value)


def number(value: float | None) -> float | None:
    """Return a float that JSON can represent; None for infinity and NaN."""
    return float(value) if value is not None and math.isfinite(value) else None


def name(value: Hashable | None) -> Any:
    """Return the name of a state or an action as in model files; any other object as its string."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return [name(part) for part in value]
    return number(value) if isinstance(value, float) else str(value)


def identity(model: CMDP | DiscountedCMDP) -> dict[str, Any]:
    """Return the name and the fingerprint of a model."""
    return {"name": model.name, "fingerprint": model.fingerprint}


def model_record(model: CMDP | DiscountedCMDP) -> dict[str, Any]:
    """Return the record of `info`."""
    facts = model.describe()
    return {
        "model": identity(model),
        "description": model.description,
        "horizon": facts.horizon,
        "discount": amount(facts.discount),
        "tables": facts.tables,
        "states": facts.states,
        "terminal_states": facts.terminal_states,
        "actions": facts.actions,
        "rows": facts.rows,
        "outcomes": facts.outcomes,
        "start": _by_state(facts.start, "probability") if isinstance(facts.start, Mapping) else name(facts.start),
        "end_reward": _by_state(facts.end_reward, "reward"),
        "must_end_in": None if facts.must_end_in is None else list(map(name, facts.must_end_in)),
        "diversity_bound_log2": number(facts.diversity_bound_log2),
        "resources": [
            {
                "name": each.name,
                "low": amount(each.low),
                "high": amount(each.high),
                "unit": amount(each.unit),
                "bits": each.bits,
                "continuous": each.bits is None,
                "floor": amount(each.floor),
                "ceiling": amount(each.ceiling),
                "budget": each.limit if model.budget else None,
            }
            for each in facts.resources
        ],
    }


def _by_state(numbers: Mapping[Hashable, float], key: str) -> list[dict[str, Any]]:
    return [{"state": name(state), key: number(value)} for state, value in numbers.items()]


def limits_record(limits: Limits) -> dict[str, Any]:
    """Return the limits after each step, by resource."""
    return {
        resource: {"upper": list(map(amount, upper)), "lower": list(map(amount, lower))}
        for resource, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True)
    }


def _amounts(values: Mapping[str, Fraction | None]) -> dict[str, str | None]:
    return {key: amount(value) for key, value in values.items()}


def solution_record(model: CMDP, solution: Solution, limits: Limits, history: Witness | None = None) -> dict[str, Any]:
    """Return the record of `solve`; `history` shows why a problem is infeasible."""
    stats = solution.stats
    return {
        "model": identity(model),
        "status": solution.status.value,
        "value": number(solution.value),
        "value_lower": number(solution.value_lower),
        "value_upper": number(solution.value_upper),
        "gap": number(solution.gap),
        "worst_spent": _amounts(solution.worst_spent),
        "worst_is_exact": solution.worst_is_exact,
        "value_checked": solution.value_checked,
        "excess": _amounts(solution.excess),
        "limits": limits_record(limits),
        "initial": dict(zip(limits.resources, map(amount, limits.initial), strict=True)),
        "method": solution.method,
        "approximation": solution.approximation,
        "message": solution.message,
        "diagnosis": None if solution.diagnosis is None else _diagnosis(solution.diagnosis, history),
        "rounds": [_round(each) for each in solution.rounds],
        "stats": {
            "seconds": stats.seconds,
            "nodes": stats.nodes,
            "layer_sizes": list(map(int, stats.layer_sizes)),
            "cost_diversity": stats.cost_diversity,
            "peak_bytes": int(stats.peak_bytes),
            "representation": stats.representation,
            "approximate_costs": stats.approximate_costs,
            "approximate_costs_bound": stats.approximate_costs_bound,
        },
    }


def _diagnosis(diagnosis: Diagnosis, history: Witness | None) -> dict[str, Any]:
    return {
        "least_budget": _amounts(diagnosis.least_budget),
        "shortfall": _amounts(diagnosis.shortfall),
        "stuck_step": diagnosis.stuck_step,
        "stuck_is_first": diagnosis.stuck_is_first,
        "undetermined": list(diagnosis.undetermined),
        "goal": diagnosis.goal,
        "blame": list(diagnosis.blame),
        "sufficient_budget": _amounts(diagnosis.sufficient_budget),
        "sufficient_extra": _amounts(diagnosis.sufficient_extra),
        "sufficient_together": _amounts(diagnosis.sufficient_together),
        "stuck_at": _stuck_at(diagnosis),
        "history": None if history is None else _witness(history),
    }


def _stuck_at(diagnosis: Diagnosis) -> dict[str, Any] | None:
    if diagnosis.stuck_at is None:
        return None
    state, resources = diagnosis.stuck_at
    return {"state": name(state), "resources": list(resources)}


def _round(each: Round) -> dict[str, Any]:
    return {
        "lower": number(each.lower),
        "upper": number(each.upper),
        "gap": number(each.gap),
        "nodes": int(each.nodes),
        "seconds": float(each.seconds),
    }


def levels_record(found: Levels) -> dict[str, Any]:
    """Return the record of `levels`."""
    rules = found.policy.rules
    return {
        "model": identity(found.model),
        "objective": found.objective,
        "resource": found.resource,
        "capacity": amount(found.capacity),
        "reload": [name(state) for state in found.reload],
        "targets": [name(state) for state in found.targets],
        "ignored_limits": list(found.ignored_limits),
        "start_level": amount(found.start_level),
        "levels": [
            {
                "state": name(state),
                "level": amount(level),
                "rules": [{"level": amount(least), "action": name(action)} for least, action in rules(state)],
            }
            for state, level in found.levels.items()
        ],
    }


def fixed_limits(limits: Mapping[str, Budget]) -> list[str]:
    """Return limits that are kept, each as text."""
    return [f"{resource}: {limit.text}" for resource, limit in limits.items()]


def curve_record(curve: Curve) -> dict[str, Any]:
    """Return the record of `frontier`: the whole curve."""
    return {
        "model": identity(curve.model),
        "resource": curve.resource,
        "vary": curve.vary,
        "fixed_limits": fixed_limits(curve.fixed_limits),
        "ignored_limits": list(curve.ignored_limits),
        "max_budget": amount(curve.max_budget),
        "flat_beyond": curve.flat_beyond,
        "least_budget": amount(curve.least_budget),
        "points": [
            {"budget": amount(budget), "budget_float": float(budget), "value": float(value)}
            for budget, value in zip(curve.budgets, curve.values, strict=True)
        ],
    }


def report_record(model: CMDP, report: VerifyReport) -> dict[str, Any]:
    """Return the record of `verify`."""

    def steps(by_resource: Mapping[str, tuple[Fraction | None, ...]]) -> dict[str, list[str | None]]:
        return {key: list(map(amount, values)) for key, values in by_resource.items()}

    return {
        "model": identity(model),
        "feasible": report.feasible,
        "value": number(report.value),
        "violation_probability": number(report.violation_probability),
        "expected_excess": {key: number(value) for key, value in report.expected_excess.items()},
        "worst_spent": _amounts(report.worst_spent),
        "least_spent": _amounts(report.least_spent),
        "worst_spent_by_step": steps(report.worst_spent_by_step),
        "least_spent_by_step": steps(report.least_spent_by_step),
        "upper": steps(report.upper),
        "lower": steps(report.lower),
        "initial": _amounts(report.initial),
        "nodes": report.nodes,
        "witness": None if report.witness is None else _witness(report.witness),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "resource": witness.resource,
        "start": name(witness.start),
        "initial": _amounts(witness.initial),
        "ends_in": name(witness.ends_in) if witness.ends_astray else None,
        "must_end_in": [name(goal) for goal in witness.must_end_in],
        "steps": [
            {
                "step": each.step,
                "state": name(each.state),
                "action": name(each.action),
                "next_state": name(each.next_state),
                "cost": {
                    key: amount(cost) if isinstance(cost, Fraction) else str(cost) for key, cost in each.cost.items()
                },
                "spent": _amounts(each.spent),
                "upper": _amounts(each.upper),
                "lower": _amounts(each.lower),
            }
            for each in witness.steps
        ],
    }


def simulation_record(model: CMDP, simulation: Simulation, seed: int) -> dict[str, Any]:
    """Return the record of `simulate`."""
    from solvent.verification.simulate import LEVELS

    return {
        "model": identity(model),
        "episodes": simulation.episodes,
        "seed": seed,
        "mean_reward": simulation.mean_reward,
        "standard_error": number(simulation.standard_error),
        "violations": simulation.violations,
        "max_spent": _amounts(simulation.max_spent),
        "levels": list(LEVELS),
        "spent_quantiles": {key: values.tolist() for key, values in simulation.spent_quantiles.items()},
        "stopped": simulation.stopped or None,
    }


def comparison_record(model: CMDP, comparison: Comparison, delta: float) -> dict[str, Any]:
    """Return the record of `compare`."""
    return {
        "model": identity(model),
        "delta": delta,
        "limits": limits_record(comparison.limits),
        "rows": [_row(row) for row in comparison.rows],
    }


def _row(row: ComparisonRow) -> dict[str, Any]:
    return {
        "method": row.method,
        "status": row.status,
        "claimed": number(row.claimed),
        "value": number(row.value),
        "worst_spent": _amounts(row.worst_spent),
        "least_spent": _amounts(row.least_spent),
        "violation_probability": number(row.violation_probability),
        "expected_excess": {key: number(value) for key, value in row.expected_excess.items()},
        "feasible": row.feasible,
        "seconds": row.seconds,
        "message": row.message,
    }
