"""What is computed from records: intervals of means, exponents, and broken claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np

from bench.claims import complexity

#: Rounding of floating-point numbers in values.
TINY = 1e-9


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and the ends of its 95 % interval by Student's t; the mean three times if there is one value."""
    from scipy import stats

    mean = fmean(values)
    if len(values) < 2:
        return mean, mean, mean
    half = float(stats.t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def exponent(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Return the exponent b of y = a x**b by least squares of logarithms, and the ends of its 95 % interval."""
    from scipy import stats

    if len(set(y)) == 1:
        return 0.0, 0.0, 0.0
    line = stats.linregress(np.log(x), np.log(y))
    half = float(stats.t.ppf(0.975, len(x) - 2)) * float(line.stderr)
    return float(line.slope), float(line.slope) - half, float(line.slope) + half


def points_of(records: Sequence[dict[str, Any]], method: str, sweep: str) -> list[dict[str, Any]]:
    """Return the points of a sweep, of all seeds of a learner."""
    return [
        point
        for record in records
        if (record["kind"], record["method"]) == ("complexity", method) and "error" not in record
        for point in record["points"]
        if point["sweep"] == sweep
    ]


def broken(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return what contradicts a proof: a policy or an episode over budget, a value above the optimum, a false gap.

    Proved gaps may fail with probability delta, so a failure of one is a statement to look at, not a certain error.
    """
    found = []
    for record in records:
        if "error" in record:
            continue
        name = f"{record['kind']}, {record['task']}, {record['method']}, seed {record['seed']}"
        if record["kind"] != "rounding" and record["training"]["over"]:
            found.append(f"{name}: {record['training']['over']} episodes over budget")
        if record["kind"] == "reduction":
            if not record["feasible"] or record["violation_probability"]:
                found.append(f"{name}: the policy exceeds the budget")
            if record["value"] > record["optimum"] + TINY:
                found.append(f"{name}: a value of {record['value']:g} above the optimum {record['optimum']:g}")
        for point in record.get("points", []):
            found += [f"{name}: {text}" for text in _broken_point(record, point)]
    return found


def _broken_point(record: dict[str, Any], point: dict[str, Any]) -> list[str]:
    if record["kind"] == "complexity":
        gamma = 1 / complexity.level_sizes(point["sweep"], point["level"])["1/gamma"]
        where = f"{point['sweep']} = {point['level']}"
        failures = {
            "the policy exceeds the budget": not point["feasible"],
            "a value above the optimum": point["value"] > point["optimum"] + TINY,
            "a proved gap that does not hold": point["proved"] and point["value"] < point["optimum"] - gamma - TINY,
        }
    else:
        where = f"{point['scheme']} {point['epsilon_cost']}"
        strict = point["scheme"].endswith("strict")
        proved = point["status"] == "within_gap" and not strict
        failures = {
            "an episode over budget": strict and point["over"] > 0,
            "more over budget than the bound": not point.get("within", True),
            "less than the optimum minus epsilon": proved
            and point["value"] < record["optimum"] - record["settings"]["epsilon"] - TINY,
        }
    return [f"{where}: {text}" for text, failed in failures.items() if failed]
