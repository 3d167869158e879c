"""The fuzzer itself: what it generates, that its oracles agree, that it finds mistakes; and a short run of it."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import pytest

import effort
import oracle
import solvent
from fuzz import runner
from fuzz.checks import check_problem
from fuzz.encodings import TooManyLevels, plain
from fuzz.generate import KINDS, WEIGHTS, generate, least_budget
from fuzz.ledger import Failure, Found, Ledger, Run
from fuzz.oracles import TooLarge, dense_optimum, exact_optimum, walk
from fuzz.problems import FEATURES, Account, Limit, Outcome, Problem, Row
from fuzz.processes import PATIENCE, busy_seconds, hangs
from fuzz.script import script
from fuzz.shrink import shrink

#: Problems of each kind in the short run, with the time they take kept about even.
SHORT = dict.fromkeys(KINDS, 6) | {"actions": 2, "midsize": 2, "timed": 1, "continuous": 4, "discounted": 4}
SHORT |= {"accounts": 12, "continuous_accounts": 4}
CONTINUOUS = ("continuous", "continuous_accounts")
FINITE = [kind for kind in KINDS if kind not in (*CONTINUOUS, "discounted", "timed")]
SMALL = [kind for kind in FINITE if kind != "midsize"]


@pytest.mark.parametrize("kind", KINDS)
def test_short_run(kind: str) -> None:
    compared = 0
    for seed in range(SHORT[kind] if effort.everything else max(SHORT[kind] // 3, 1)):
        problem = generate(seed, kind)
        ledger = check_problem(problem, seed)
        compared += sum(ledger.compared.values())
        found = [Found(failure, problem, seed, kind) for failure in ledger.failures]
        assert not found, script(found[0])
    assert compared > ((5 if kind == "timed" else 50) if effort.everything else 2)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_longer_run(kind: str) -> None:
    for seed in range(1000, 1000 + 4 * SHORT[kind]):
        problem = generate(seed, kind)
        found = [Found(failure, problem, seed, kind) for failure in check_problem(problem, seed).failures]
        assert not found, script(found[0])


def test_problems_are_deterministic_and_can_be_built() -> None:
    assert set(WEIGHTS) == set(KINDS)
    for kind in KINDS:
        for seed in range(5):
            problem = generate(seed, kind)
            assert problem == generate(seed, kind)
            assert kind in problem.tags
            problem.build()
    assert {generate(seed) == generate(seed + 1) for seed in range(10)} == {False}
    with pytest.raises(ValueError, match="expected one of general"):
        generate(0, "nothing")


@pytest.mark.slow
def test_problems_have_all_features() -> None:
    tags = frozenset(tag for kind in KINDS for seed in range(SHORT[kind] * 5) for tag in generate(seed, kind).tags)
    expected = {"limit_upper", "limit_lower", "limit_both", "limit_upper_steps", "limit_final", "limit_none"}
    expected |= {"cost_large", "cost_long_floats", "cost_negative", "reward_tiny", "reward_extreme", "resources_4"}
    expected |= {f"account_{name}" for name in FEATURES}
    assert expected <= tags
    feasible = []
    for kind in SMALL:
        for seed in range(SHORT[kind]):
            problem = generate(seed, kind)
            if "midsize" not in problem.tags:
                feasible.append(exact_optimum(*problem.build(), spent=problem.given.get("spent")).feasible)
    assert 0.5 < sum(feasible) / len(feasible) < 0.95


@pytest.mark.parametrize("kind", SMALL)
def test_oracles_agree(kind: str) -> None:
    compared = refused = 0
    for seed in range(2 * SHORT[kind]):
        problem = generate(seed, kind)
        if {"reward_extreme", "midsize"} & problem.tags:
            refused += 1  # sums of such rewards are beyond doubles
            continue
        model, budget = problem.build()
        spent = problem.given.get("spent")
        exact = exact_optimum(model, budget, spent=spent)
        by_definition = oracle.optimum(model, budget, spent=spent) if exact.nodes < 300 else None
        if by_definition is not None:
            compared += 1
            assert (exact.value if exact.feasible else oracle.INFEASIBLE) == by_definition
        try:
            dense = dense_optimum(model, budget, spent=spent)
        except TooLarge:
            continue
        compared += 1
        assert dense.feasible == exact.feasible
        if exact.value is not None and dense.value is not None:
            assert abs(dense.value - exact.value) <= dense.error
            assert dense.error <= Fraction(1, 10**12) * max(exact.scale, Fraction(1, 10**300))
    assert compared >= 2 * SHORT[kind] - 2 * refused > 0


def test_the_oracle_knows_limits_and_terminal_states() -> None:
    rows = (
        Row(0, "go", 1, (Outcome(Fraction(1, 2), 0, (1,)), Outcome(Fraction(1, 2), 1, (2,)))),
        Row(0, "rest", 0, (Outcome(1, 0, (0,)),)),
    )
    problem = Problem(2, 0, ("r",), rows, {"r": Limit(upper=3)}, ((1, None),))
    assert exact_optimum(*problem.build()).value == Fraction(3, 2)
    assert least_budget(problem, 0) == 0
    tighter = problem.with_(limits={"r": Limit(upper=2)})
    assert exact_optimum(*tighter.build()).value == 1
    # what was spent before the end is still held to later limits
    later = problem.with_(limits={"r": Limit(upper=(3, 1))})
    assert exact_optimum(*later.build()).value == 0
    covering = problem.with_(limits={"r": Limit(lower=5, final=True)})
    assert not exact_optimum(*covering.build()).feasible


@pytest.mark.slow
def test_encodings_are_plain_and_have_the_same_optimum() -> None:
    """Levels in states, and starts, ends and goals as steps and resources, solved by the oracle and by the package."""
    alone, compared, solved = set(), 0, 0
    for seed in range(120):
        problem = generate(seed, "accounts")
        if {"reward_extreme", "midsize", "cost_large"} & problem.tags:
            continue
        best = exact_optimum(*problem.build(), spent=problem.given.get("spent"))
        try:
            encoded = plain(problem)
        except TooManyLevels:
            continue
        assert encoded.features == ()
        model, budget = encoded.build()
        again = exact_optimum(model, budget)
        assert again.feasible == best.feasible
        if best.value is not None and again.value is not None:
            # probabilities that do not sum to one are divided by their sum
            assert abs(best.value - again.value) <= Fraction(1, 10**14) * best.scale
        compared += 1
        alone |= set(problem.features) if len(problem.features) == 1 else set()
        if again.nodes < 500:
            solution = solvent.solve(model, budget, method="reduction")
            solved += 1
            assert (solution.status == "infeasible") != best.feasible
            if best.value is not None:
                room = Fraction(1, 10**14) * best.scale
                assert solution.value_lower - room <= best.value <= solution.value_upper + room
    assert compared > 80
    assert solved > 60
    assert alone == set(FEATURES)


def test_the_oracle_knows_accounts_starts_and_ends() -> None:
    rows = (
        Row("town", "drive", 3, (Outcome(1, "town", (2,)),)),
        Row("town", "charge", 0, (Outcome(1, "town", (-5,)),)),
        Row("town", "leave", 1, (Outcome(1, "hill", (0,)),)),
    )
    base = Problem(3, "town", ("used",), rows, {"used": Limit(upper=4)}, terminal=(("hill", None),))

    def value(problem: Problem) -> Fraction | None:
        return exact_optimum(*problem.build(), spent=problem.given.get("spent")).value

    assert value(base) == 7  # drive twice, then leave
    assert value(base.with_(horizon=4)) == 9  # charge, then drive three times
    # a tank that cannot be overfilled: charging first does not help
    full = base.with_(horizon=4, limits={"used": Limit(upper=3)})
    assert value(full) == 9  # as before, with 5 in cans
    assert value(full.with_(accounts={"used": Account(floor=0)})) == 7
    assert value(base.with_(accounts={"used": Account(initial=3)})) == 6  # charge, then drive twice
    assert value(base.with_(accounts={"used": Account(ceiling=4)})) == 9  # what cannot be used up is free
    assert value(base.with_(end_reward={"hill": 10, "town": -1})) == 17
    assert value(base.with_(goals=("town",))) == 6
    assert value(base.with_(goals=("nowhere",), terminal=(("hill", None), ("nowhere", None)))) is None
    assert value(base.with_(start={"town": "1/2", "hill": "1/2"})) == Fraction(7, 2)
    # a policy must be safe from every first state, and an episode may be over at once
    assert value(base.with_(start={"town": "1/2", "hill": "1/2"}, goals=("town",))) is None
    assert value(base.with_(start="hill", accounts={"used": Account(initial=5)})) is None
    assert least_budget(full.with_(accounts={"used": Account(floor=0)}, goals=("hill",)), 0) == 0


def test_walk_finds_broken_limits() -> None:
    rows = (Row(0, "go", 1, (Outcome(0.5, 0, (1,)), Outcome(0.5, 0, (2,)))), Row(0, "rest", 0, (Outcome(1, 0, (0,)),)))
    problem = Problem(2, 0, ("r",), rows, {"r": Limit(upper=4)})
    model, budget = problem.build()
    policy = solvent.solve(model, budget).policy
    done = walk(model, budget, policy)
    assert (done.value, done.broken, done.most) == (2, False, {"r": [2, 4]})
    done = walk(model, {"r": 3}, policy)
    assert (done.broken, done.violation_probability) == (True, Fraction(1, 4))


def _broken_solve(model, budget, **options):
    solution = solvent.solvers.solve.solve(model, budget, **options)
    return replace(solution, value_upper=solution.value_upper - 0.5, value_lower=solution.value_lower - 0.5)


def test_a_wrong_solver_is_found() -> None:
    problem = generate(3, "general")
    with mock.patch.object(solvent, "solve", _broken_solve):
        ledger = check_problem(problem, 3, Fraction(1, 10**12))
    assert "upper bound" in {failure.check for failure in ledger.failures}


def test_an_exception_is_a_failure_with_its_place() -> None:
    ledger = Ledger()
    with ledger.no_exception(Run("auto")):
        raise IndexError("beyond")
    (failure,) = ledger.failures
    assert failure.check.startswith("call raises IndexError in ")
    assert "beyond" in failure.detail


def test_shrinking_keeps_what_fails() -> None:
    problem = generate(5, "product")

    def keeps(candidate: Problem) -> bool:
        try:
            model, _ = candidate.build()
        except solvent.SolventError:
            return False
        return bool(model.n_outcomes >= 2)

    small = shrink(problem, keeps, 5)
    assert keeps(small)
    assert small.outcome_count == 2
    assert small.horizon == 1
    assert small.resources == ()


def test_shrinking_keeps_the_feature_that_fails() -> None:
    seed = next(seed for seed in range(99) if set(generate(seed, "accounts").features) == set(FEATURES))
    for feature in FEATURES:

        def keeps(candidate: Problem, feature: str = feature) -> bool:
            try:
                candidate.build()
            except solvent.SolventError:
                return False
            return feature in candidate.features

        small = shrink(generate(seed, "accounts"), keeps, 5)
        assert small.features == (feature,)


@pytest.mark.parametrize("kind", KINDS)
def test_scripts_run(kind: str) -> None:
    seed = next(seed for seed in range(50) if "cost_large" not in generate(seed, kind).tags)
    problem = generate(seed, kind)
    options = {"time_limit": 0.2} if kind == "timed" else {}
    if kind in (*CONTINUOUS, "discounted"):
        options = {"epsilon": 2} | ({"approximation": "additive"} if kind in CONTINUOUS else {})
    text = script(Found(Failure("a check", Run("auto", options=options), "this", "that"), problem, seed, kind))
    assert "# expected: this" in text
    space: dict[str, object] = {}
    exec(compile(text, "script", "exec"), space)
    assert space["model"] == problem.build()[0]
    assert "solution" in space


def crash(pipe, settings) -> None:
    """Take the place of a worker; go down at odd seeds."""
    while (task := pipe.recv()) is not None:
        seed, kind = task
        if seed % 2:
            os._exit(11)
        pipe.send(runner.Result(seed, kind))


@pytest.mark.slow
def test_a_crash_is_a_failure_and_not_the_end(tmp_path, capsys) -> None:
    for minutes in (0.05, 0.2, 0.8):  # a busy machine may not get to the second problem at first
        options = argparse.Namespace(
            minutes=minutes, seed=0, jobs=1, kinds=["general", "steps"], out=str(tmp_path), json=None
        )  # fmt: skip
        fuzzer = runner.Fuzzer(options, runner.Settings(Fraction(0), {}, 0.0), crash)
        began = time.monotonic()
        assert fuzzer.run() == 1
        assert time.monotonic() - began < 60 * minutes + 57
        if fuzzer.tally.problems["general"] and fuzzer.tally.checks["worker crash"]:
            break
    assert fuzzer.tally.problems["general"] >= 1
    assert fuzzer.tally.checks["worker crash"] >= 1
    assert "it happened again in a fresh process" in "".join(path.read_text() for path in tmp_path.iterdir())
    assert "failures in" in capsys.readouterr().out


def leave_badly(pipe, settings) -> None:
    """Take the place of a worker; answer, and fail when it ends."""
    while (task := pipe.recv()) is not None:
        pipe.send(runner.Result(*task, compared=Counter({"nothing": 1})))
        time.sleep(0.2)
    os._exit(11)


def test_damage_that_shows_at_the_end_is_a_failure(tmp_path) -> None:
    options = argparse.Namespace(minutes=0.01, seed=0, jobs=1, kinds=["general"], out=str(tmp_path), json=None)
    fuzzer = runner.Fuzzer(options, runner.Settings(Fraction(0), {}, 0.0), leave_badly)
    assert fuzzer.run() == 1
    assert fuzzer.tally.checks["worker exit"] == 1
    assert "this problem alone does the same" in "".join(path.read_text() for path in tmp_path.iterdir())


def test_a_run_that_compares_nothing_fails(capsys) -> None:
    options = argparse.Namespace(minutes=0.0, seed=0, jobs=1, kinds=["general"], out="none", json=None)
    assert runner.Fuzzer(options, runner.Settings(Fraction(0), {}, 0.0)).run() == 1
    assert "nothing was compared" in capsys.readouterr().out


def test_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "fuzz", "--help"], capture_output=True, text=True, check=True)
    assert "--minutes" in done.stdout


def test_a_worker_without_time_on_the_processor_does_not_hang() -> None:
    process = multiprocessing.current_process()
    used = busy_seconds(process)
    assert not hangs(process, elapsed=1.0, busy_before=0.0, seconds=2.0)
    assert not hangs(process, elapsed=3.0, busy_before=used, seconds=2.0 + used)
    assert hangs(process, elapsed=3.0, busy_before=used - 3.0, seconds=2.0)
    assert hangs(process, elapsed=3.0 * PATIENCE, busy_before=used, seconds=2.0)
