"""Projected problems: rounding goes the right way, to the tick."""

from __future__ import annotations

import contextlib
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import draws, seeds
from solvent import CMDP, Budget, ModelError, distribution, instances
from solvent.core.exact import MAX_TICKS
from solvent.core.limits import LimitReached, ResourceMonitor
from solvent.model.budget import resolve
from solvent.solvers.problem import Problem
from solvent.solvers.transforms.rounding import Scheme, finest_lengths, project


def spend(costs_per_step: list[list[Any]]) -> CMDP:
    """One state; at each step any of the given costs may happen."""
    b = CMDP.builder(horizon=len(costs_per_step), start="s", resources=["x"])
    for step, costs in enumerate(costs_per_step):
        b.add("s", "go", outcomes=[(Fraction(1, len(costs)), "s", c) for c in costs], steps=[step])
    return b.build()


def finest(model: CMDP, budget: Any, scheme: Scheme) -> Problem:
    limits = resolve(model, budget)
    return project(model, limits, finest_lengths(model, limits), scheme)


hard = st.one_of(
    st.integers(-3, 3).map(lambda k: k * 2**61),
    st.fractions(-3, 3, max_denominator=10**6).map(lambda x: x * 2**60),
    st.sampled_from(["1e-300", "-1e-300", Fraction(2**62, 3), Fraction(-(2**62), 7), 1]),
).map(Fraction)


@draws(100)
@given(
    st.lists(st.lists(hard, min_size=1, max_size=3, unique=True), min_size=1, max_size=3),
    st.sampled_from(["upper", "lower", "both"]),
    st.data(),
)
def test_directed_rounding(costs: list[list[Fraction]], sides: str, data: Any) -> None:
    horizon = len(costs)
    paths = list(itertools.product(*costs))
    totals = {sum(path[: h + 1]) for path in paths for h in range(horizon)}
    # limits on and beside the totals themselves, where rounding decides
    near = st.sampled_from(sorted(totals)).flatmap(
        lambda t: st.sampled_from([t, t - Fraction(1, 10**9), t + Fraction(1, 10**9), t + 2**20])
    )
    first, second = data.draw(near), data.draw(near)
    upper = max(first, second) if sides != "lower" else None
    lower = min(first, second) if sides != "upper" else None
    model = spend(costs)
    budget = Budget(upper=upper, lower=lower)
    assert model.n_tables <= horizon

    def within(path: tuple[Fraction, ...]) -> bool:
        sums = list(itertools.accumulate(path))
        return all((upper is None or s <= upper) and (lower is None or s >= lower) for s in sums)

    def within_ticks(problem: Problem, path: tuple[Fraction, ...]) -> bool:
        lattice, spent = problem.lattice, 0
        for h, cost in enumerate(path):
            ticks = cost / lattice.units[0]
            spent += math.ceil(ticks) if problem.counting == ("up",) else math.floor(ticks)
            assert abs(spent) <= MAX_TICKS
            if not lattice.lower_HD[h, 0] <= spent <= lattice.upper_HD[h, 0]:
                return False
        return True

    safe, relaxed, smaller = (finest(model, budget, scheme) for scheme in ("rounded", "relaxed", "smaller budget"))
    for path in paths:
        if within_ticks(safe, path) or within_ticks(smaller, path):
            assert within(path)
        if within(path):
            assert within_ticks(relaxed, path)
        if safe.is_exact:
            assert within(path) == within_ticks(safe, path) == within_ticks(relaxed, path)
    assert all(np.abs(each.lattice.cost_OD).max() <= MAX_TICKS for each in (safe, relaxed))


@pytest.mark.parametrize("sign", [1, -1])
def test_both_sides_at_once_move_by_what_rounding_hides(sign: int) -> None:
    costs = [sign * Fraction(2**62, 3), sign * Fraction(2**62, 7), sign * Fraction(1, 10**30)]
    totals = list(itertools.accumulate(costs))
    model = spend([[cost] for cost in costs])
    relaxed = finest(model, Budget(upper=totals, lower=totals), "relaxed")
    assert not relaxed.is_exact
    lattice = relaxed.lattice
    ticks = list(itertools.accumulate(int(lattice.cost_OD[model.rows(h, 0)[0], 0]) for h in range(3)))
    assert all(lattice.lower_HD[h, 0] <= ticks[h] <= lattice.upper_HD[h, 0] for h in range(3))
    # one tick of slack per step and no more
    assert all(lattice.upper_HD[h, 0] - lattice.lower_HD[h, 0] <= h + 2 for h in range(3))
    strict = finest(model, Budget(upper=totals, lower=totals), "rounded").lattice
    assert all(strict.lower_HD[h, 0] > strict.upper_HD[h, 0] for h in range(3))


def test_rounding_is_reported_and_fine() -> None:
    model = instances.knapsack([1, 1], [1e300, 1e-300])
    safe, relaxed = finest(model, 1e300, "rounded"), finest(model, 1e300, "relaxed")
    assert safe.counting == ("up",)
    assert relaxed.counting == ("down",)
    take = model.rows(1, 0)[1]
    assert safe.lattice.cost_OD[take, 0] == 1
    assert relaxed.lattice.cost_OD[take, 0] == 0
    # no coarser than 64 bits make necessary
    assert float(safe.lattice.units[0]) < 1e300 / 2**56


def test_outcomes_that_have_become_one_are_merged() -> None:
    model = spend([["0.1", "0.2", "0.9"], ["0.1"]])
    problem = project(model, resolve(model, 1), (Fraction(1, 2),), "relaxed")
    assert problem.model.n_outcomes == 3
    assert problem.lattice.cost_OD.ravel().tolist() == [0, 1, 0]
    assert problem.model.probability.tolist() == pytest.approx([2 / 3, 1 / 3, 1])
    high, low = (np.asarray(each).ravel().tolist() for each in (problem.truth.high_OD, problem.truth.low_OD))
    assert [int(x) * problem.truth.units[0] for x in high] == [Fraction(1, 5), Fraction(9, 10), Fraction(1, 10)]
    assert [int(x) * problem.truth.units[0] for x in low] == [Fraction(1, 10), Fraction(9, 10), Fraction(1, 10)]


def test_a_coarse_unit_is_kept() -> None:
    model = spend([[3, 6], [9]])
    problem = project(model, resolve(model, 10), (Fraction(1, 7),), "relaxed")
    assert problem.is_exact
    assert problem.lattice.units == (3,)
    assert problem.lattice.upper_HD.ravel().tolist() == [3, 3]


@pytest.mark.parametrize("seed", seeds(20))
def test_the_finest_lengths_fit_and_no_finer_do(seed: int) -> None:
    """With continuous costs, too, whose lowest bin lies far below everything."""
    rng = np.random.default_rng(seed)
    low = Fraction(int(rng.integers(-(10**6), 10**6)), int(rng.integers(1, 1000)))
    width = Fraction(int(rng.integers(1, 10**6)), int(rng.integers(1, 10**6)))
    cost = distribution("uniform", low=low, high=low + width) if seed % 4 else 3
    b = CMDP.builder(horizon=int(rng.integers(1, 50)), start="s", resources=["x"], budget=int(rng.integers(-99, 99)))
    b.add("s", "go", outcomes=[(1, "s", cost)])
    model = b.build()
    limits = resolve(model, None)
    (finest,) = finest_lengths(model, limits)
    for scheme in ("relaxed", "rounded"):
        with contextlib.suppress(LimitReached):  # so many bins are too many, but each fits
            project(model, limits, (finest,), scheme, ResourceMonitor(bytes=10**6))
    if seed % 4:  # other costs keep their unit
        with pytest.raises(ModelError, match="fit 64 bits"):
            project(model, limits, (finest / 2,), "relaxed")
