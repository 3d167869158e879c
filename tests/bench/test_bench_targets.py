"""Targets are measured against what they are said to be relative to, and judged correctly."""

from __future__ import annotations

import json

import pytest

import solvent
from bench import targets, yardstick
from bench.peers import workloads
from bench.peers.child import Row
from bench.targets import Figure

NAME = "two resources n=4"
ANSWERED = Row("storm", NAME, status="ok", augment=1.0, build=2.0, solve=3.0, ours=0.5)
OURS = Row("solvent", NAME, status="ok", value=1.0, solve=0.5)


@pytest.mark.parametrize(
    ("value", "at_least", "met", "verdict"),
    [
        (5.0, False, True, "met"),
        (7.0, False, False, "**not met**"),
        (7.0, True, True, "met"),
        (None, True, None, "not measured"),
    ],
)
def test_verdict(value, at_least, met, verdict):
    figure = Figure("sweep", "w", "sweeps", value, 6.0, at_least=at_least)
    assert (figure.met, figure.cells()[-1]) == (met, verdict)


def test_a_wrong_number_meets_nothing():
    assert Figure("sweep", "w", "sweeps", float("nan"), 6.0).met is False
    assert Figure("sweep", "w", "sweeps", float("nan"), 6.0, at_least=True).met is False


def test_cells():
    figure = Figure("peers", "w", "times faster", 1234.5, 10.0, at_least=True, is_bound=True, note="no answer")
    assert figure.cells() == ["w", "times faster", "> 1,234", "at least 10", "met: no answer"]


@pytest.mark.parametrize(
    ("row", "value", "is_bound", "note"),
    [
        (
            Row("storm", NAME, status="ok", augment=1.0, build=2.0, solve=3.0, ours=0.5),
            12.0,
            False,
            "6 without its build",
        ),
        (Row("storm", NAME, status="time", note="late"), targets.PEER_SECONDS / 0.5, True, "late"),
        (Row("storm", NAME, status="memory", note="large"), None, False, "large"),
        (Row("storm", NAME, status="wrong", note="value 2"), None, False, "wrong, value 2"),
    ],
)
def test_comparison_with_a_peer(monkeypatch, row, value, is_bound, note):
    monkeypatch.setattr(targets, "run_one", lambda *a, **b: row)
    figure = targets.against("peers", "storm", NAME, 10.0, OURS, 0.1)
    assert (figure.value, figure.is_bound, figure.note) == (value, is_bound, note)
    assert figure.measure == "times faster than Storm"


def test_an_unsolved_workload_is_no_comparison(monkeypatch):
    monkeypatch.setattr(targets, "run_one", lambda *a, **b: Row("solvent", NAME, status="time", note="late"))
    [figure] = targets.measured(["knapsack"], 0.1)
    assert figure.met is False
    assert "Solvent ended with time, late" in figure.note


def test_named_workloads_exist():
    for name in (*targets.EARLIER, *targets.SWEEPS):
        assert workloads.find(name).name == name


def test_a_gap_is_compared_with_the_earlier_version(monkeypatch):
    def half_as_fast(calls, seconds, clock):
        return [2 * targets.EARLIER["courier 30, gap 1%"], 1.0]

    monkeypatch.setattr(targets, "median_times", half_as_fast)
    [figure] = targets.gap(0.1, quick=True)
    assert figure.value == pytest.approx(0.5)


def test_the_courier_is_that_of_the_page():
    page = (targets.ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    names = {}
    exec(code, names)  # the first block of the page defines the model
    ours, theirs = workloads.courier(30), names["courier"]
    found, again = (solvent.solve(model, gap=0.05) for model in (ours, theirs))
    assert (found.value, found.value_upper, found.stats.nodes) == (again.value, again.value_upper, again.stats.nodes)
    assert ours.budget == theirs.budget


def test_command_line(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- targets -->\n<!-- end targets -->\n")
    monkeypatch.setattr(targets, "PAGE", page)
    file = tmp_path / "targets.json"
    code = targets.main(["fixed", "--quick", "--page", "--results", str(file)])
    kept = json.loads(file.read_text())["figures"]
    assert [each["workload"] for each in kept] == ["paper H=20 B=3", "paper H=20 B=10"]
    assert code == int(not all(each["met"] for each in kept))
    assert "| paper H=20 B=3 | µs |" in page.read_text()
    assert "of 2 targets are met" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        targets.main(["everything"])
    assert "no part is called everything" in capsys.readouterr().err


def test_medians_are_taken_alternately():
    calls = []
    times = yardstick.median_times([lambda: calls.append("a"), lambda: calls.append("b")], 0.0)
    assert calls == ["a", "b"] * 4
    assert len(times) == 2


def test_a_call_that_takes_too_long_is_not_repeated():
    taken = iter([20.0, 1.0])
    assert yardstick.median_times([lambda: None] * 2, 0.5, clock=lambda call: next(taken)) == [20.0, 1.0]
