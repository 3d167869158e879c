"""Transformed problems must have corresponding answers, by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest

import solvent
from fuzz.generate import generate
from fuzz.ledger import Ledger, Run
from fuzz.metamorphic import (
    DISCOUNTED,
    EXACT,
    METHODS,
    Tally,
    check_metamorphic,
    correlated,
    metamorphic_checks,
    part_continuous,
)
from fuzz.oracles import Optimum, exact_optimum, value_of
from fuzz.problems import Account, Limit, Outcome, Problem, Row
from fuzz.transforms import TRANSFORMATIONS, Relation, Transformed, canonical, reward_size

NAMES = tuple(TRANSFORMATIONS)
#: Transformations of accounts, starts and ends.
ACCOUNTS = (
    "shift_accounts", "add_loose_ends", "shift_end_rewards", "put_levels_in_states", "begin_in_a_step", "end_in_a_step",
)  # fmt: skip
OTHERS = tuple(name for name in NAMES if name not in ACCOUNTS)
_SPLIT = ("split_outcomes", "duplicate_outcomes", "merge_outcomes", "permute_outcomes", "break_products")
#: Paths take one outcome for each row, frontiers one limited resource, curves no other limits.
_NEVER = {
    *((name, "labels") for name in _SPLIT),
    *(("duplicate_resource", method) for method in ("frontier", "points")),
    *((name, "curve") for name in ("add_unsafe_action", "prefix_step", "enlarge_settled_costs")),
    *((name, "curve") for name in ("begin_in_a_step", "end_in_a_step")),
}
_CONTINUOUS = ("additive", "additive strict", "relative", "relative strict")


MAKERS: dict[str, Callable[[int], Problem]] = {"correlated": correlated, "part_continuous": part_continuous}


def compare(
    kinds: tuple[str, ...],
    seeds: range,
    tally: Tally,
    limit: int | None = None,
    transformations: tuple[str, ...] = NAMES,
) -> list[str]:
    """Compare problems of some kinds with at most `limit` of their transformations; return the failures as text."""
    found = []
    for kind, seed in product(kinds, seeds):
        failures = metamorphic_checks(
            MAKERS[kind](seed) if kind in MAKERS else generate(seed, kind),
            Random(f"{kind}-{seed}"),
            methods=_CONTINUOUS if kind in ("continuous", "part_continuous") else METHODS,
            transformations=transformations,
            limit=limit,
            tally=tally,
        )
        found += [f"{kind}, seed {seed}: {failure}" for failure in failures]
    return found


def compare_rare(seeds: range, tally: Tally) -> list[str]:
    """Compare the problems of `RARE` by the methods that seldom apply."""
    found = []
    for (i, problem), seed in product(enumerate(RARE), seeds):
        rng = Random(f"rare-{i}-{seed}")
        found += metamorphic_checks(problem, rng, methods=("frontier", "points", "labels"), tally=tally)
    return [str(failure) for failure in found]


def uncovered(tally: Tally, least: int) -> dict[tuple[str, str], int]:
    """Return the pairs of a transformation and a method that were compared less often than required."""
    pairs = ((name, method) for name in NAMES for method in METHODS)
    return {pair: tally.compared[pair] for pair in pairs if pair not in _NEVER and tally.compared[pair] < least}


def small() -> Problem:
    """Return a problem with a limit that binds, in which every relevant change has another value."""
    rows = (
        Row("a", "go", 3, (Outcome("1/2", "a", (1,)), Outcome("1/2", "b", (2,)))),
        Row("a", "rest", 1, (Outcome(1, "a", (0,)),)),
        Row("b", "back", 0, (Outcome(1, "a", (0,)),)),
    )
    return Problem(3, "a", ("fuel",), rows, {"fuel": Limit(upper=3)})


def certain(*limits: Limit, far: int = 1) -> Problem:
    """Return a problem without randomness, with a resource for each limit."""
    resources = tuple(f"r{d}" for d in range(len(limits)))
    costs = {"go": 2, "wait": 0, "charge": -2, "leap": far}
    rows = tuple(
        Row(state, action, 3 * state + i, (Outcome(1, (state + i) % 2, (cost, *(1,) * (len(limits) - 1))),))
        for state in range(2)
        for i, (action, cost) in enumerate(costs.items())
    )
    return Problem(4, 0, resources, rows, dict(zip(resources, limits, strict=True)))


#: Problems for pairs of a transformation and a method that are rare among random ones.
RARE = (
    certain(Limit(upper=3)),
    certain(Limit(upper=2), Limit()),
    certain(Limit()),
    certain(Limit(upper=4)),
    certain(Limit(lower=-1), far=100),
    certain(Limit(upper=(2, 3, None, 1)), far=-100),
    certain(Limit(upper=3)).with_(accounts={"r0": Account(floor=0)}),
    certain(Limit(upper=3)).with_(accounts={"r0": Account(initial=1)}),
    certain(Limit(upper=3)).with_(start={0: 0.5, 1: 0.5}),
    certain(Limit(upper=3)).with_(end_reward={0: 2, 1: -1}),
    certain(Limit(upper=3)).with_(goals=(0,)),
)
QUICK = ("general", "one_sided", "deterministic", "rewards", "probabilities", "steps", "product", "correlated")


@pytest.mark.slow
def test_answers_correspond():
    tally = Tally()
    failures = compare(QUICK, range(2), tally, 3, OTHERS)
    failures += compare(("discounted", "part_continuous", "resources"), range(1), tally, 3, OTHERS)
    failures += compare(("accounts",), range(3), tally, transformations=ACCOUNTS)
    assert not failures, "\n".join(failures)
    assert {name for name, _ in tally.compared} > {*ACCOUNTS}
    assert {method for _, method in tally.compared} > {*METHODS} - {"labels"}


@pytest.mark.nightly
def test_answers_correspond_for_every_method_and_transformation():
    tally = Tally()
    failures = compare(QUICK, range(9), tally, 4, OTHERS)
    failures += compare(("discounted", "part_continuous", "resources"), range(3), tally, 4, OTHERS)
    failures += compare(("accounts",), range(10), tally, transformations=ACCOUNTS)
    failures += compare_rare(range(1), tally)
    assert not failures, "\n".join(failures)
    assert not uncovered(tally, 1)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "kind", [*QUICK, "accounts", "costs", "resources", "discounted", "continuous", "part_continuous"]
)
def test_answers_correspond_widely(kind):
    tally = Tally()
    failures = compare((kind,), range(100, 118), tally, limit=12)
    assert not failures, "\n".join(failures)
    assert sum(tally.compared.values()) > 150
    assert len({name for name, _ in tally.compared}) > 12


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
def test_every_method_meets_every_transformation(part):
    """Each part compares every pair once, so that together they compare it four times."""
    tally = Tally()
    kinds = ("one_sided", "deterministic", "correlated", "general", "product", "accounts")
    failures = compare(kinds, range(200 + part, 216, 4), tally)
    failures += compare_rare(range(part, 6, 4), tally)
    assert not failures, "\n".join(failures)
    assert not uncovered(tally, 1)


def best_of(problem: Problem, cap: int) -> Optimum | None:
    """Return the optimum by the oracle; None if there are too many nodes."""
    return value_of(lambda: exact_optimum(*problem.build(), cap, problem.given.get("spent")))


@pytest.mark.slow
def test_the_oracle_obeys_every_transformation():
    """Relations are right: where the oracle takes both problems, their optima correspond."""
    compared = Counter()
    for seed in range(60):
        problem = canonical(generate(seed, "accounts"))
        if {"midsize", "reward_extreme"} & problem.tags or not reward_size(problem) < 1e250:
            continue
        before = best_of(problem, 500)
        if before is None:
            continue
        for name, transformation in TRANSFORMATIONS.items():
            changed = transformation(problem, Random(f"{seed}-{name}"))
            if changed is None:
                continue
            other, relation = changed
            after = best_of(other, 4000)
            if after is None:
                continue
            compared[name] += 1
            assert before.feasible == after.feasible, (seed, name)
            if before.value is not None:
                size = Fraction(2) ** relation.exponent * Fraction(reward_size(problem)) + abs(relation.shift)
                room = Fraction(relation.slack) + Fraction(1, 10**14) * size
                assert abs(relation.value(before.value) - after.value) <= room, (seed, name)
    assert set(compared) == set(TRANSFORMATIONS)
    assert min(compared[name] for name in ACCOUNTS) > 10


# ---------------------------------------------------------------------------------------------------------------------
# the checks themselves: wrong relations and wrong answers are noticed


def wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Problem], Problem], **relation: object
) -> set[str]:
    """Return which checks fail on a transformation that is not what it says."""
    monkeypatch.setitem(TRANSFORMATIONS, name, lambda problem, rng: Transformed(change(problem), Relation(**relation)))
    return {failure.check for failure in metamorphic_checks(small(), Random(0), transformations=[name])}


def test_the_small_problem_passes():
    tally = Tally()
    assert metamorphic_checks(small(), Random(0), ulps=8, tally=tally) == []
    assert sum(tally.compared.values()) > 100


@pytest.mark.parametrize(
    ("change", "relation", "checks"),
    [
        pytest.param(lambda p: p.with_(limits={"fuel": Limit(upper=2)}), {}, {"value", "lift"}, id="tighter limit"),
        pytest.param(lambda p: p.with_(limits={"fuel": Limit(upper=-1)}), {}, {"status"}, id="infeasible"),
        pytest.param(
            lambda p: p.with_(rows=tuple(row._replace(reward=2 * row.reward) for row in p.rows)),
            {"exponent": 2},
            {"value", "lift", "curve"},
            id="other factor",
        ),
        pytest.param(
            lambda p: p.with_(rows=tuple(row._replace(reward=row.reward * (1 + 2**-50)) for row in p.rows)),
            {"exact": True},
            {"exact", "curve"},
            id="not exact",
        ),
        pytest.param(
            lambda p: p.with_(rows=tuple(
                row._replace(outcomes=tuple(o._replace(cost=(o.cost[0] / 3,)) for o in row.outcomes)) for row in p.rows
            )),
            {},
            {"value", "lift", "curve"},
            id="other costs",
        ),
    ],
)  # fmt: skip
def test_a_wrong_relation_is_noticed(monkeypatch, change, relation, checks):
    assert checks <= wrong(monkeypatch, "wrong", change, **relation)


def test_a_wrong_answer_is_noticed(monkeypatch):
    """A solver whose bounds depend on the number of outcomes is caught by splitting them."""
    solve = solvent.solve

    def poor(model, *args, **options):
        solution = solve(model, *args, **options)
        more = 1e-6 * model.n_outcomes
        return replace(solution, value_lower=solution.value_lower + more, value_upper=solution.value_upper + more)

    monkeypatch.setattr(solvent, "solve", poor)
    failures = metamorphic_checks(small(), Random(0), transformations=["split_outcomes"])
    assert {failure.method for failure in failures if failure.check == "value"} >= {*EXACT} - {"labels"}


def test_failures_are_noted_in_a_ledger(monkeypatch):
    def tighter(problem, rng):
        return Transformed(problem.with_(limits={"fuel": Limit(upper=2)}), Relation())

    monkeypatch.setitem(TRANSFORMATIONS, "wrong", tighter)
    ledger = Ledger(Fraction(1, 10**12))
    only = Run("reduction", "metamorphic", {"transformation": "wrong"})
    check_metamorphic(small(), 0, ledger, only=only)
    assert ledger.compared["metamorphic: wrong"] == 1
    assert {failure.check for failure in ledger.failures} == {"metamorphic: wrong, value", "metamorphic: wrong, lift"}
    assert all(failure.run == only for failure in ledger.failures)


def test_canonical_problems_are_the_same_models():
    for seed in range(20):
        problem = generate(seed, "probabilities")
        model, budget = problem.build()
        again, budget_again = canonical(problem).build()
        assert again.fingerprint == model.fingerprint
        assert budget_again == budget


def test_discounted_problems_take_their_methods_only():
    tally = Tally()
    metamorphic_checks(generate(1, "discounted"), Random(0), transformations=["rename"], tally=tally)
    assert {method for _, method in tally.compared} == {*DISCOUNTED}
