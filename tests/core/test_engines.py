"""Engines without Ray: arguments, messages, and tasks in this process."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

import solvent
from solvent.core.engines import LOCAL, open_engine
from solvent.errors import ModelError, SolventError
from solvent.experiments.paper import reproduce
from solvent.model import instances

MODEL = instances.markov_gap(prize=10)
SOLUTION = solvent.solve(MODEL)
#: Every public function that takes an engine.
FUNCTIONS = {
    "solve": lambda **given: solvent.solve(MODEL, **given),
    "solve_many": lambda **given: solvent.solve_many([MODEL], **given),
    "frontier": lambda **given: solvent.frontier(MODEL, **given),
    "verify": lambda **given: solvent.verify(MODEL, SOLUTION, **given),
    "simulate": lambda **given: solvent.simulate(MODEL, SOLUTION, 10, **given),
    "compare": lambda **given: solvent.compare(MODEL, **given),
    "reproduce": lambda **given: next(reproduce(["precision"], "nowhere", quick=True, **given)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engine": "rya"}, "engine: expected one of 'local', 'ray', found 'rya'; did you mean 'ray'?"),
        ({"engine": 3}, "engine: expected one of 'local', 'ray', found 3"),
        ({"address": "auto"}, "address: expected none with engine='local', found 'auto'; add engine='ray'"),
        (
            {"engine": "ray", "address": 6379},
            "address: expected 'auto', 'host:port' or 'ray://host:port', found 6379",
        ),
        (
            {"engine": "ray", "address": "here"},
            "address: expected 'auto', 'host:port' or 'ray://host:port', found 'here'",
        ),
        (
            {"engine": "ray", "address": "http://head:8265"},
            "address: expected 'auto', 'host:port' or 'ray://host:port', found 'http://head:8265'",
        ),
    ],
)
def test_wrong_arguments_are_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        FUNCTIONS[name](**given)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_ray_a_message_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    message = "engine='ray': expected the package ray, found no such package; pip install \"solvent[ray]\""
    with pytest.raises(SolventError, match=f"^{re.escape(message)}$"):
        FUNCTIONS[name](engine="ray")


def test_ray_is_not_imported_before_it_is_asked_for() -> None:
    code = """
import sys, solvent
model = solvent.instances.markov_gap(prize=10)
solution = solvent.solve(model, engine="local")
solvent.verify(model, solution, engine="local")
solvent.solve_many([model], engine="local")
assert "ray" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_local_tasks_run_in_order_and_an_error_ends_them() -> None:
    seen: list[int] = []

    def halve(number: int) -> float:
        seen.append(number)
        return 1 / number

    results = LOCAL.map(halve, iter([4, 2, 0, 1]), prepare=lambda: seen.append(-1))
    assert [next(results), next(results)] == [(0, 0.25), (1, 0.5)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert seen == [-1, 4, 2, 0]
    assert LOCAL.call(lambda: 5) == 5


def test_an_engine_that_is_open_is_used_as_it_is() -> None:
    with open_engine(LOCAL) as engine:
        assert engine is LOCAL
