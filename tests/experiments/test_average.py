"""Fits are correct, both figures agree with their rows, and docs/average-case.md agrees with the figures."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvent.errors import ModelError
from solvent.experiments import average, smoothed
from solvent.experiments.average import Average, describe
from solvent.experiments.families import NAMES
from solvent.experiments.paper import PAST, reproduce
from solvent.experiments.runs import run
from solvent.experiments.shapes import fit_shape
from solvent.experiments.smoothed import Smoothed, bound

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "images" / "reproduction.py"))
PAGE = (DOCS / "average-case.md").read_text()
RECORDS = json.loads((DOCS / "average-case.json").read_text())
FACTS = {name: RECORDS[name]["facts"] for name in PAST}


@pytest.mark.parametrize(
    ("name", "parameter", "of"),
    [
        ("power", 1.8, lambda h: 0.3 * h**1.8),
        ("root", 2.5, lambda h: 0.1 * math.exp(2.5 * math.sqrt(h))),
        ("exponential", 1.7, lambda h: 2 * 1.7**h),
    ],
)
def test_a_shape_is_recognized(name: str, parameter: float, of: Any) -> None:
    horizons = [10, 14, 20, 28, 40, 57]
    rng = np.random.default_rng(3)
    counts = [(of(h) * rng.lognormal(-0.005, 0.1, 30)).tolist() for h in horizons]
    shape = fit_shape(horizons, counts)
    assert shape.name == name
    assert shape.sure > 0.9
    assert shape.low <= parameter <= shape.high
    assert shape.parameter == pytest.approx(parameter, abs=3 * (shape.high - shape.low))
    assert shape.since == 28


def test_intervals_are_as_wide_as_trials_are_scattered() -> None:
    horizons = [10, 20, 40, 80]
    rng = np.random.default_rng(1)
    narrow, wide = (
        fit_shape(horizons, [(h**2 * rng.lognormal(0, spread, 20)).tolist() for h in horizons], name="power")
        for spread in (0.01, 0.5)
    )
    assert (wide.high - wide.low) > 10 * (narrow.high - narrow.low) > 0


def test_too_little_to_fit() -> None:
    with pytest.raises(ModelError, match="expected trials at each of four or more horizons, found 3 for 3"):
        fit_shape([1, 2, 3], [[1], [2], [3]])
    with pytest.raises(ModelError, match="expected trials at each of four or more horizons"):
        fit_shape([1, 2, 3, 4], [[1], [], [3], [4]])


def test_shapes_as_formulas() -> None:
    root = {"shape": "root", "parameter": 2.5, "low": 2.25, "high": 2.75}
    assert describe(root) == r"$e^{2.50 \sqrt{H}}$ (2.25 to 2.75)"
    assert describe({"shape": "exponential", "parameter": 2, "low": 1.9, "high": 2.125}) == "$2.00^H$ (1.90 to 2.12)"


def test_quick_sizes_have_enough_horizons() -> None:
    for arguments in (Average(), Average.quick(), Average(trials=1, longest=1, longest_random=1)):
        for random in (False, True):
            for family in NAMES:
                assert len(arguments.horizons(family, random)) >= 4
    assert Average().horizons("uniform", False)[-1] == 320
    assert Average.quick().horizons("uniform", True) == (6, 8, 10, 12)
    assert len(set(Average().study().cases)) == len(Average().study().cases)


def test_no_noise_is_tried_that_would_take_too_much() -> None:
    cases = Smoothed().study().cases
    assert max(case.halvings for case in cases if case.horizon == 10) == 20
    assert max(case.halvings for case in cases if case.horizon == 80) == 13
    assert all(min(bound(case.horizon, case.halvings), 2.0**case.horizon) <= 6e7 for case in cases)


@pytest.mark.slow
def test_deterministic_families_grow_more_slowly(tmp_path: Path) -> None:
    (made,) = reproduce(["average"], tmp_path, quick=True)
    facts = made.facts
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    for family in ("uniform", "pareto", "lognormal", "states"):
        assert facts["without"][family]["means"]["10"] < facts["with"][family]["means"]["10"]
    assert facts["without"]["subset-sum"]["means"]["10"] == 2**10
    assert describe(facts["without"]["subset-sum"]) == "$2.00^H$ (2.00 to 2.00)"
    assert made.finding.startswith("in deterministic models, points grow like H^")
    assert made.files["figure"].stat().st_size > 50_000


@pytest.mark.slow
def test_noise_helps_deterministic_instances_only(tmp_path: Path) -> None:
    (made,) = reproduce(["smoothed"], tmp_path, quick=True)
    facts = made.facts
    means = list(facts["plain"]["12"]["means"].values())
    assert means[0] < 100
    assert means[-1] > 2**11
    assert facts["prize"] == {"least": 2**7 + 1, "most": 2**7 + 1}
    finding = made.finding
    assert "has 129 at every level of noise tried, of density H / noise on its costs (H = 8)" in finding
    assert facts["plain"]["8"]["exponent"] is None  # too little between its ends
    lines = Smoothed.quick().table(facts)
    assert lines[2].endswith("|  |  |")
    assert {line.count("|") for line in lines} == {8}
    assert {line.count("|") for line in Smoothed.quick().random_table(facts)} == {6}


def test_pictures_have_a_line_for_each_family_and_bound(tmp_path: Path) -> None:
    arguments = Average(trials=1, longest=10, longest_random=6)
    figure = arguments.draw(arguments.results(run(arguments.study(), tmp_path)))
    for axes in figure.axes:
        drawn = [str(line.get_label()) for line in axes.get_lines()]
        assert [label.partition(":")[0] for label in drawn[:2]] == ["subset sum", "strongly correlated"]
        assert len(drawn) == len(NAMES) + 1
        assert axes.get_yscale() == "log"
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear"]


# what is proved holds in the committed data, whose counts are those of this machine too


def test_means_lie_below_what_is_proved() -> None:
    factors = {"uniform": 1, "pareto": 1, "lognormal": 1, "states": 4, "near": 10}
    for family, factor in factors.items():
        for horizon, mean in FACTS["average"]["without"][family]["means"].items():
            assert mean < 1 + factor * int(horizon) ** 2
    for horizon, of in FACTS["smoothed"]["plain"].items():
        for halvings, mean in of["means"].items():
            assert mean <= min(bound(int(horizon), int(halvings)), 2 ** int(horizon))
    assert FACTS["smoothed"]["prize"] == {"least": 2**15 + 1, "most": 2**15 + 1}
    assert {of["shape"] for of in FACTS["average"]["with"].values()} == {"exponential"}


@pytest.mark.parametrize(
    ("family", "random", "horizon"),
    [("uniform", False, 40), ("near", False, 28), ("strong", False, 20), ("states", True, 10), ("pareto", True, 12)],
)
def test_means_are_found_again(family: str, random: bool, horizon: int) -> None:
    trials = FACTS["average"]["trials"]
    found = [average.measure(average.Case(family, random, horizon, seed)).points for seed in range(trials)]
    assert sum(found) / trials == FACTS["average"]["with" if random else "without"][family]["means"][str(horizon)]


def test_means_under_noise_are_found_again() -> None:
    trials = FACTS["smoothed"]["trials"]
    cases = [smoothed.Case("powers", 0, 40, 6, seed) for seed in range(trials)]
    found = [smoothed.measure(case).points for case in cases]
    assert sum(found) / trials == FACTS["smoothed"]["plain"]["40"]["means"]["6"]


def test_the_page_has_the_numbers_of_the_run() -> None:
    assert SCRIPT["fill"](PAGE, SCRIPT["average_blocks"](RECORDS)) == PAGE
    for name, figure in PAST.items():
        assert RECORDS[name]["arguments"] == json.loads(json.dumps(figure().__dict__)), "make paper"
        assert RECORDS[name]["finding"] == figure().finding(FACTS[name])
        assert f"(images/paper-{name}.png)" in PAGE


def test_the_page_is_right_about_numbers_of_its_own() -> None:
    assert rf"$\exp({math.log(4) / math.sqrt(8):.2f} \sqrt H)$" in PAGE
    assert rf"$\exp({math.pi * math.sqrt(2 / 3):.2f} \sqrt k)$" in PAGE
    assert FACTS["average"]["trials"] == 20
    assert "seven families, with 20 problems for each horizon" in PAGE
    assert FACTS["smoothed"]["trials"] == 10
    assert "*Means of 10 instances." in PAGE
    factors = [of["parameter"] for of in FACTS["average"]["with"].values()]
    assert min(factors) > 1.75  # "points nearly double with each coin"
    assert max(factors) < 2.1
