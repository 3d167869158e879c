"""The comparison of "auto" with forced methods."""

from __future__ import annotations

import math

import pytest

from bench import choice
from bench.choice import Entry, Result
from solvent import instances


def test_ratio_is_to_the_fastest_method():
    result = Result("p", "reduction", 3.0, {"reduction": 2.9, "frontier": 2.0, "labels": math.inf})
    assert (result.best, result.ratio) == ("frontier", 1.5)


def test_every_method_that_accepts_is_timed():
    entry = Entry("fuel grid", instances.fuel_grid(4))
    found = choice.measure(entry, 0.0)
    assert set(found.by_method) == set(entry.methods()) >= {"reduction", "frontier"}
    assert found.chosen in found.by_method
    assert all(0 < taken < math.inf for taken in found.by_method.values())


def test_a_method_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(choice, "MOST_TIMES", 0.0)
    monkeypatch.setattr(choice, "LEAST_SECONDS", 1e-9)
    found = choice.measure(Entry("fuel grid", instances.fuel_grid(5)), 0.0)
    assert [taken for name, taken in found.by_method.items() if name != found.chosen] == [math.inf] * (
        len(found.by_method) - 1
    )


def test_noise_is_measured_again(monkeypatch):
    found = iter([Result("p", "a", 3.0, {"a": 1.0}), Result("p", "a", 1.2, {"a": 1.0})])
    monkeypatch.setattr(choice, "measure", lambda entry, seconds: next(found))
    assert choice.judged(Entry("p", instances.fuel_grid(3)), 0.0).ratio == pytest.approx(1.2)


def test_methods_must_agree(monkeypatch):
    solve = Entry.solve

    def wrong(entry, method, **limits):
        found = solve(entry, method, **limits)
        return found if method != "reduction" else solve(Entry("larger", instances.fuel_grid(5)), method)

    monkeypatch.setattr(Entry, "solve", wrong)
    with pytest.raises(AssertionError, match="fuel grid: reduction finds"):
        choice.measure(Entry("fuel grid", instances.fuel_grid(4)), 0.0)


@pytest.mark.slow
def test_names_of_the_catalog_are_unique():
    names = [entry.name for entry in choice.catalog()]
    assert len(names) == len(set(names)) > 100


def test_command_line(capsys, monkeypatch):
    monkeypatch.setattr(choice, "catalog", lambda: [Entry("fuel grid", instances.fuel_grid(4))])
    monkeypatch.setattr(choice, "TARGET", 100.0)
    assert choice.main(["fuel", "--seconds", "0"]) == 0
    assert "1 problems with a choice; 0 on which auto takes more than 100 times the best" in capsys.readouterr().out
    monkeypatch.setattr(choice, "TARGET", 1e-9)
    assert choice.main(["fuel", "--seconds", "0"]) == 1
    assert choice.main(["nothing"]) == 0
