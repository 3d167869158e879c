"""Each figure at a quick size: its trials, its facts and its plot."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from effort import slow_after
from solvent.errors import ModelError
from solvent.experiments.approximation import Approximation
from solvent.experiments.claims import TOY, claims, table
from solvent.experiments.far import Far
from solvent.experiments.never_over import NeverOver
from solvent.experiments.paper import ALL, FIGURES, Reproduced, choose, reproduce, write_claims
from solvent.experiments.precision import Precision
from solvent.experiments.runs import Row, run
from solvent.experiments.scale import Scale
from solvent.experiments.trials import METHODS, Measured, Results, Trial, measure, seed_of
from solvent.experiments.value import Value

each_figure = pytest.mark.parametrize("name", slow_after(3, FIGURES))


@cache
def rows_of(name: str) -> tuple[Row[Trial, Measured], ...]:
    return tuple(Row(trial, measure(trial)) for trial in FIGURES[name].quick().trials())


def results_of(name: str) -> Results:
    return Results(rows_of(name))


@cache
def facts_of(name: str) -> Any:
    return FIGURES[name].quick().facts(results_of(name))


def changed(name: str, method: str, **values: Any) -> Any:
    """Return the facts of a figure in which one method had measured something else."""
    rows = [
        replace(row, result=replace(row.result, **values)) if row.case.method == method else row
        for row in rows_of(name)
    ]
    return FIGURES[name].quick().facts(Results(rows))


@each_figure
def test_facts_can_be_written_and_are_told_in_one_line(name: str) -> None:
    experiment, facts = FIGURES[name].quick(), facts_of(name)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    finding = experiment.finding(facts)
    assert "\n" not in finding
    assert not finding.endswith(".")
    assert f"H = {max(trial.horizon for trial, _ in results_of(name) if trial.horizon != 10)}" in finding


@each_figure
def test_the_picture_has_a_line_for_each_method(name: str) -> None:
    experiment = FIGURES[name].quick()
    figure = experiment.draw(results_of(name))
    drawn = {line.get_label() for axes in figure.axes for line in axes.get_lines()}
    for method in {trial.method for trial in experiment.trials()}:
        assert any(METHODS[method] in str(label) for label in drawn), method
    for axes in figure.axes:
        assert axes.get_lines()


@each_figure
def test_every_trial_is_one_of_its_own(name: str) -> None:
    for experiment in (FIGURES[name].quick(), FIGURES[name]()):
        trials = list(experiment.trials())
        assert len(trials) > len({trial.method for trial in trials})
        assert all(
            (trial.epsilon is None) == (trial.method in ("exact", "plain exact", "reduction")) for trial in trials
        )
        cases = experiment.study().cases
        assert cases == tuple(trials)


def test_defaults_are_those_of_the_paper() -> None:
    assert (Value().horizons, Value().small, Value().large) == ((10, 20, 30, 40, 50), 0.1, 10)
    assert (Value().number, Value().epsilon) == (10, 0.1)
    assert (Scale().horizons, Scale().budget) == (tuple(range(10, 101, 10)), 100)
    assert (Scale().number, Scale().fine, Scale().coarse, Scale().finer) == (10, 0.1, 1, 0.01)
    assert (Approximation().number, Approximation().most, Approximation().text_horizon) == (5, 16, 15)
    assert (NeverOver().number, NeverOver().most, NeverOver().epsilon) == (5, 14, 0.1)
    assert (Precision().most, Precision().budget, Precision().digits) == (12, 4, (2, 4, 8, 32))
    assert Far().horizons[-1] == 1000


def test_the_schemes_are_on_their_sides_of_the_optimum() -> None:
    for found in facts_of("value").values():
        assert found["never_below_optimum"]
        assert found["never_above_optimum"]
        assert found["never_over"]
        assert found["worst_over"] <= found["epsilon"]
        assert found["coincide_optimal"] == found["coincide"]
        assert found["below_ours"] <= found["below"]


def test_what_is_wrong_is_seen() -> None:
    assert not changed("value", "strict", value=1e6)["large"]["never_above_optimum"]
    assert not changed("value", "plain approximate", value=-1.0)["small"]["never_below_optimum"]
    assert not changed("value", "strict", over=0.5)["binding"]["never_over"]
    assert changed("value", "approximate", over=0.2)["binding"]["worst_over"] == pytest.approx(0.2)
    assert not changed("approximation", "reduction", value=0.0)["large"]["agree"]
    assert not changed("precision", "exact", value=0.0)["cuts"][0]["agree"]
    assert changed("never-over", "plain strict", value=0.0)["large"]["below"] == 1.0


def test_all_exact_methods_agree() -> None:
    for name in ("small", "large", "binding"):
        assert facts_of("approximation")[name]["agree"]
    assert all(cut["agree"] for cut in facts_of("precision")["cuts"])


def test_the_reduction_doubles_and_f_as_written_does_not_grow() -> None:
    large = facts_of("approximation")["large"]
    assert large["factor_nodes"] == pytest.approx(2, abs=0.1)
    scale = facts_of("scale")
    assert scale["fine"]["plain approximate"]["nodes"] == scale["horizon"]
    assert scale["coarse"]["plain accumulate"]["nodes"] == scale["horizon"]
    assert scale["fine"]["plain accumulate"]["nodes"] > 10 * scale["horizon"]
    assert scale["worst_over"] == 0


def test_thirty_two_decimals_are_solved_exactly() -> None:
    trial = Trial("exact", 7, 2.0, 3, digits=32)
    assert measure(trial).value == measure(replace(trial, method="plain exact")).value


def test_trials_that_make_no_sense() -> None:
    with pytest.raises(ModelError, match=r"method: expected one of plain exact, .*, found 'best'"):
        measure(Trial("best", 3, 1.0, 0))
    with pytest.raises(ModelError, match=r"method: expected one of plain exact, .*, found 'plain best'"):
        measure(Trial("plain best", 3, 1.0, 0, 0.1))
    for method in ("approximate", "plain strict"):
        with pytest.raises(ModelError, match="expected an epsilon, found none"):
            measure(Trial(method, 3, 1.0, 0))


def test_no_two_horizons_share_draws() -> None:
    assert len({seed_of(0, horizon, number) for horizon in range(1, 101) for number in range(10)}) == 1000


@pytest.mark.slow
def test_a_figure_is_the_same_from_the_same_rows(tmp_path: Path) -> None:
    (first,) = reproduce(["precision"], tmp_path, quick=True)
    before = {kind: path.read_bytes() for kind, path in first.files.items()}
    (second,) = reproduce(["precision"], tmp_path, quick=True)
    assert second.facts == first.facts
    assert {kind: path.read_bytes() for kind, path in second.files.items()} == before
    record = json.loads(before["facts"])
    assert record["figure"] == "precision"
    assert record["arguments"]["most"] == Precision.quick().most
    assert record["finding"] == first.finding
    assert write_claims([first], tmp_path) is None


@pytest.mark.slow
def test_two_processes_measure_the_same_values(tmp_path: Path) -> None:
    rows = run(Far.quick().study(), tmp_path, jobs=2)
    assert [row.case for row in rows] == [row.case for row in rows_of("far")]
    for row, alone in zip(rows, rows_of("far"), strict=True):
        assert replace(row.result, seconds=0.0) == replace(alone.result, seconds=0.0)


def test_unknown_figures_are_named() -> None:
    assert choose() == list(ALL)
    with pytest.raises(ModelError, match=r"figure: expected one of value, .*, found 'fare'; did you mean 'far'"):
        choose(["fare"])


def test_every_claim_has_a_verdict(tmp_path: Path) -> None:
    facts = {name: facts_of(name) for name in FIGURES}
    listed = claims(facts)
    assert len(listed) > 30
    assert len({each.says for each in listed}) == len(listed)
    assert {each.holds for each in listed} == {"yes", "partly", "no", "not comparable"}
    assert {each.section for each in listed} == {"main", "appendix", "both", "lemma"}
    text = table(listed)
    assert all(line.count("|") == 6 for line in text.splitlines())
    made = [Reproduced(name, "", "", facts[name], {}, 0, 0.0) for name in FIGURES]
    path = write_claims(made, tmp_path)
    assert path is not None
    assert path.read_text() == text
    assert write_claims(made, tmp_path, quick=True) == path
    assert path.read_text() == f"{TOY}\n\n{text}"
    assert "verdicts do not apply" in TOY


def test_verdicts_follow_the_facts() -> None:
    facts = {name: facts_of(name) for name in FIGURES}

    def holds(says: str, **figures: Any) -> str:
        (found,) = [each for each in claims(facts | figures) if each.says.startswith(says)]
        return found.holds

    assert holds("the approximation has at least") == "yes"
    assert holds("the approximation has at least", value=changed("value", "approximate", value=0.0)) == "no"
    assert holds("the feasibility (no-violation) scheme is feasible") == "yes"
    bad = changed("value", "strict", over=1.0)
    assert holds("the feasibility (no-violation) scheme is feasible", value=bad) == "partly"
    slow = changed("approximation", "plain exact", seconds=60.0)
    for told in (facts["approximation"], slow):
        assert holds("with H = B = 15", approximation=told) == "not comparable"
    assert holds("for larger budgets it is leagues faster", approximation=slow) == "yes"
    assert holds("a budget of b = 100") == "partly"
    assert holds("a budget of b = 100", scale=changed("scale", "plain accumulate", nodes=10**9)) == "yes"


def test_only_the_paper_s_budgets_decide_what_it_says_of_them() -> None:
    facts = {name: facts_of(name) for name in FIGURES}
    worse = {
        "approximation": {"matched": 0, "matched_closest": 0, "over": 99, "worst_over": 9.0},
        "never-over": {"optimal": 0, "below": 1.0},
        "value": {"worst_over": 9.0, "apart": 1.0, "below": 1.0, "close_over": 99, "close_worst": 9.0},
    }
    binding = {name: facts[name] | {"binding": facts[name]["binding"] | bad} for name, bad in worse.items()}
    kept = [(each.says, each.holds) for each in claims(facts)]
    assert [(each.says, each.holds) for each in claims(facts | binding)] == kept
    large = {name: facts[name] | {"large": facts[name]["large"] | bad} for name, bad in worse.items()}
    assert [(each.says, each.holds) for each in claims(facts | large)] != kept


def test_growth_is_decided_by_nodes() -> None:
    facts = {name: facts_of(name) for name in FIGURES}
    for exponent, holds in ((2.0, "yes"), (3.0, "no")):
        scale = facts["scale"] | {"finer": facts["scale"]["finer"] | {"plain accumulate": {
            "growth_nodes": {"exponent": exponent, "error": 0.1}, "growth": {"exponent": 9.0, "error": None},
            "seconds": 1.0, "nodes": 1,
        }}}  # fmt: skip
        (found,) = [each for each in claims(facts | {"scale": scale}) if each.says.startswith("for ε = .01 the")]
        assert found.holds == holds
        assert f"nodes H^({exponent:.2f} ± 0.10), which decides; time H^9.00" in found.measured
