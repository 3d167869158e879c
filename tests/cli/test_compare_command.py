"""`compare` on every example: all methods, the exact one agreeing with `solve`."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import EXAMPLES, run

import solvent
from effort import slow_after

METHODS = ["exact", "expectation", "chance", "smaller expectation", "smaller chance", "knapsack", "unconstrained"]
KEYS = {
    *("method", "status", "claimed", "value", "worst_spent", "least_spent", "violation_probability"),
    *("expected_excess", "feasible", "seconds", "message"),
}


@pytest.mark.parametrize("name", slow_after(1, ["covering", "dose", "drone", "cash-line", "delivery-van"]))
def test_examples(name: str, folder: Path) -> None:
    done = run(f"solvent compare {name}.yaml --json")
    assert done.code == 0
    record = done.json
    assert set(record) == {"command", "version", "model", "delta", "limits", "rows"}
    rows = {row["method"]: row for row in record["rows"]}
    assert list(rows) == METHODS
    assert all(set(row) == KEYS for row in record["rows"])
    solution = solvent.solve(solvent.load_model(EXAMPLES / f"{name}.yaml"))
    assert rows["exact"]["value"] == pytest.approx(solution.value)
    assert rows["exact"]["feasible"] is True
    assert rows["unconstrained"]["value"] >= rows["chance"]["value"] - 1e-6 >= rows["exact"]["value"] - 2e-6


def test_the_table(folder: Path) -> None:
    done = run("solvent compare covering.yaml --budget grain=-2 --delta 0.1")
    assert done.code == 0
    assert done.out.startswith("covering\n")
    for method in METHODS:
        assert method in done.out
    assert "P(over)" in done.out
    assert done.err == ""


def test_infeasible_and_bad_input(folder: Path) -> None:
    assert run("solvent compare delivery-van.yaml --budget fuel=-1").code == 1
    wrong = run("solvent compare delivery-van.yaml --delta 2")
    assert wrong.code == 2
    assert wrong.err.startswith("error: --delta\n")
    assert run("solvent compare nothing.yaml").code == 2
