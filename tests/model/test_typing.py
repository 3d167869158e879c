"""Type checkers and help() see the signatures of constructors, and the kind of model that each returns."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import solvent

ROOT = Path(__file__).parents[2]

SNIPPET = """
from typing import Any, assert_type

import solvent
from solvent.model.build import Builder
from solvent.model.discounted_build import DiscountedBuilder

P: Any = ...


def actions(state: Any) -> list[str]:
    return []


def outcomes(state: Any, action: Any) -> list[Any]:
    return []


assert_type(solvent.frontier(solvent.load_model("van.yaml")), solvent.Curve)
assert_type(solvent.frontier(solvent.load_model("van.yaml"), "fuel", 3), solvent.Curve)
assert_type(solvent.frontier(solvent.load_model("van.yaml"), ["fuel", "wear"], {"fuel": "1/2"}), solvent.Surface)
assert_type(solvent.frontier(solvent.load_model("van.yaml"), ("fuel", "wear"), vary="remaining"), solvent.Surface)
assert_type(solvent.frontier(solvent.load_model("van.yaml"), ["fuel", "wear"]).marginal([3, 4]), dict[str, float])
solvent.solve(solvent.load_model("van.yaml"), budget=3)
assert_type(solvent.load_model("van.yaml"), solvent.CMDP)
assert_type(solvent.load_model("van.yaml", discounted=True), solvent.DiscountedCMDP)
assert_type(solvent.load_model("van.yaml", discounted=None), solvent.CMDP | solvent.DiscountedCMDP)
assert_type(solvent.CMDP.builder(horizon=3, start="home"), Builder)
shares: dict[str, float] = {"a": 0.5, "b": 0.5}
tank = solvent.Resource("fuel", floor=0)
solvent.CMDP.builder(horizon=3, start=shares, resources=[tank, "time"], end_reward=shares, must_end_in={"a"})
solvent.CMDP.from_function(shares, actions, outcomes, 3, end_reward=lambda s: 1, must_end_in=lambda s: s == "a")
solvent.CMDP.from_arrays(P, P, P, horizon=3, start={0: 1}, end_reward=[1, 2.5, "1/3"], must_end_in=range(2))
assert_type(solvent.CMDP.builder(horizon=None, discount="1/2", start="home"), DiscountedBuilder)
assert_type(solvent.CMDP.from_arrays(P, P, P, horizon=3, available=P), solvent.CMDP)
assert_type(solvent.CMDP.from_arrays(P, P, P, discount=0.5, start=0), solvent.DiscountedCMDP)
assert_type(solvent.CMDP.from_function(0, actions, outcomes, 3, max_states=9), solvent.CMDP)
assert_type(solvent.CMDP.from_function(0, actions, outcomes, discount=0.5), solvent.DiscountedCMDP)
assert_type(solvent.CMDP.from_gymnasium(P, 1, 3, start=0, budget=2), solvent.CMDP)
"""

MISTAKES = """
import solvent

solvent.frontier(solvent.load_model("van.yaml", discounted=None))
solvent.frontier(solvent.load_model("van.yaml"), ["fuel", "wear"], 3)
solvent.CMDP.builder(horizon=3, start="home", resorces=["fuel"])
solvent.CMDP.builder(horizon=3, discount=0.5, start="home")
solvent.CMDP.from_arrays(1, 2, 3, horizon=3, avalable=4)
solvent.CMDP.from_gymnasium(1, 2, 3, starts=4)
"""


def mypy(path: Path, text: str, cache: Path) -> list[str]:
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if "error:" in line]


@pytest.mark.slow
def test_type_checkers_see_the_kind_of_model(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    cache = ROOT / ".mypy_cache"  # that of `make lint`
    assert mypy(tmp_path / "snippet.py", SNIPPET, cache) == []
    mistakes = mypy(tmp_path / "mistakes.py", MISTAKES, cache)
    lines = [i for i, line in enumerate(MISTAKES.splitlines(), start=1) if "solvent." in line]
    assert sorted({int(line.split(":")[1]) for line in mistakes}) == lines


@pytest.mark.parametrize("name", ["builder", "from_arrays", "from_function", "from_gymnasium"])
def test_help_shows_every_parameter(name: str) -> None:
    function = getattr(solvent.CMDP, name)
    parameters = inspect.signature(function).parameters
    kinds = {each.kind for each in parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    documentation = inspect.getdoc(function)
    assert documentation is not None
    described = documentation.partition("Parameters\n")[2]
    assert all(f"{parameter} :" in described or f"{parameter}," in described for parameter in parameters)
