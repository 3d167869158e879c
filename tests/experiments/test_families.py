"""Counts of points are exact, and the statements of docs/average-case.md about them hold."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from courses import courses, exact_points, outcomes_of, pareto, subsets

import effort
from solvent.errors import ModelError
from solvent.experiments import families
from solvent.experiments.points import Points, count
from solvent.model import instances
from solvent.model.build import Builder
from solvent.solvers.accuracy import SAME_POINT
from solvent.solvers.solve import solve

FAMILIES = [*families.DRAWS, "states"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize(("random", "horizon"), [(False, 7), (True, 4)])
@pytest.mark.parametrize("family", FAMILIES)
def test_counts_are_exact(family: str, random: bool, horizon: int, seed: int) -> None:
    model = families.draw(family, horizon, seed, random=random)
    assert count(model).points == len(exact_points(model))


@pytest.mark.parametrize("halvings", [0, 3, 20])
@pytest.mark.parametrize("random_steps", [0, 2, 4])
def test_counts_with_noise_are_exact(halvings: int, random_steps: int) -> None:
    for seed in range(3 if effort.everything else 1):
        model = families.powers(5, 2.0**-halvings, seed, random_steps=random_steps)
        assert count(model).points == len(exact_points(model))
        prize = families.prize(5, 2.0**-halvings, seed)
        assert count(prize).points == len(exact_points(prize)) == 2**4 + 1


@pytest.mark.parametrize("family", FAMILIES)
def test_without_luck_points_are_the_pareto_set(family: str) -> None:
    model = families.draw(family, 9, seed=5)
    undominated = pareto((cost, reward) for _, cost, reward in courses(model))
    assert count(model).points == len(undominated)


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_values_lie_within_the_tolerance(family: str, random: bool) -> None:
    horizon = 20 if random else 320
    model = families.draw(family, horizon, seed=1, random=random)
    spacing = 2.0**-families.VALUE_BITS
    tosses = horizon if random else 0
    assert spacing > SAME_POINT * np.abs(model.row_reward).max() * horizon
    assert (model.row_reward * 2.0 ** (families.VALUE_BITS - tosses) % 1 == 0).all()
    assert set(model.probability.tolist()) <= {0.5, 1.0}
    # every value is a whole number of spacings that a double holds
    assert horizon * np.abs(model.row_reward).max() / spacing < 2**53


def test_draws_are_what_they_say() -> None:
    model = families.draw("strong", 50, seed=3)
    taken = [row for row in range(model.n_rows) if model.row_reward[row] > 0]
    costs = [float(outcomes_of(model, row)[0][2]) for row in taken]
    assert model.row_reward[taken] == pytest.approx(np.array(costs) + families.BONUS, abs=1e-10)
    model = families.draw("near", 50, seed=3)
    taken = [row for row in range(model.n_rows) if model.row_reward[row] > 0]
    rest = model.row_reward[taken] - 0.9 * np.array([float(outcomes_of(model, row)[0][2]) for row in taken])
    assert rest.min() >= -1e-10
    assert 0.09 < rest.max() <= 0.1 + 1e-10
    assert families.draw("uniform", 10, 1) == families.draw("uniform", 10, 1)
    assert families.draw("uniform", 10, 1) != families.draw("uniform", 10, 2)


def test_noise_moves_from_the_worst_case_to_the_average() -> None:
    worst = families.powers(8, 0.0, seed=4)
    assert worst.row_reward[worst.row_reward > 0].tolist() == [2.0**-h for h in range(1, 9)]
    assert count(worst).points == 2**8
    rewards = families.powers(400, 1.0, seed=4).row_reward
    free = rewards[rewards > 0]
    assert abs(float(free.mean()) - 0.5) < 0.05
    assert float(free.min()) < 0.02 < 0.98 < float(free.max()) <= 1


def test_more_luck_than_can_be_counted_is_refused() -> None:
    with pytest.raises(
        ModelError, match="number of random steps: expected at most 20, beyond which points lie too close"
    ):
        families.draw("uniform", 21, 0, random=True)
    with pytest.raises(ModelError, match="found 25"):
        families.prize(26, 0.5, 0)
    with pytest.raises(ModelError, match="random_steps: expected at most the number of steps, 4, found 5"):
        families.powers(4, 0.5, 0, random_steps=5)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ModelError, match=r"family: expected one of uniform, .*, states, found 'normal'"):
        families.draw("normal", 5, 0)
    for noise in (-0.1, 1.5, math.nan):
        with pytest.raises(ModelError, match="noise: expected a number between 0 and 1"):
            families.powers(5, noise, 0)
        with pytest.raises(ModelError, match="noise: expected a number between 0 and 1"):
            families.prize(5, noise, 0)


def test_totals_add_up_all_steps() -> None:
    model = instances.knapsack([4, 2, 1], [4, 2, 1])
    assert count(model) == Points(points=8, total=8 + 4 + 2)


# the statements of docs/average-case.md


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("several", [False, True])
def test_each_point_fixes_a_cost_given_the_others(several: bool, seed: int) -> None:
    """The lemma behind the first statement: one row's cost is then a number that all others determine."""
    rng = np.random.default_rng(seed)
    if several:
        model = families.draw("states", 5, seed)
    else:
        weights = rng.integers(1, 12, 6).tolist()
        model = instances.knapsack(rng.integers(1, 40, 6).tolist(), weights)
    every = list(courses(model))
    points = pareto((cost, reward) for _, cost, reward in every)
    cost_of = {(h, r): outcomes_of(model, r)[0][2] for h in range(model.horizon) for r in range(model.n_rows)}
    for cost, _ in points[1:]:
        explained = []
        for row in set().union(*(rows for rows, _, _ in every)):
            below = [reward for rows, spent, reward in every if spent < cost and row not in rows]
            if below:
                better = [spent for rows, spent, reward in every if row in rows and reward > max(below)]
                explained.append(bool(better) and cost_of[row] > 0 and min(better) == cost)
        assert any(explained)


@pytest.mark.parametrize("halvings", [0, 5])
def test_the_prize_is_worth_a_distribution_function(halvings: int) -> None:
    model = families.prize(6, 2.0**-halvings, seed=2)
    paid = [outcomes_of(model, row) for step in range(5) for row in model.rows(step, 0)]
    price = max(cost for row in model.rows(5, 0) for _, _, cost in outcomes_of(model, row))
    worth = max(Fraction(float(model.row_reward[row])) for row in model.rows(5, 0))
    sums = [sum((o[2] for o in toss), Fraction(0)) for toss in itertools.product(*paid)]
    rises = [(price + at, worth * sum(s <= at for s in sums) / 2**5) for at in sorted(set(sums))]
    assert exact_points(model) == [(max(sums), Fraction(0)), *rises]
    assert price > max(sums)


def test_one_optimum_counts_subsets() -> None:
    """Why one value alone is #P-hard: it is the number of subsets of a knapsack that fit."""
    numbers, limit = [3, 5, 6, 9, 11], 15
    total = sum(numbers)
    b = Builder(horizon=6, start=0, resources=["cost"], budget=limit + total)
    for step, x in enumerate(numbers):
        b.add(0, "pay", outcomes=[(0.5, 0, x), (0.5, 0, 0)], steps=[step])
    b.add(0, "rest", outcomes=[(1, 0, 0)], steps=[5])
    b.add(0, "take", reward=1, outcomes=[(1, 0, total)], steps=[5])
    fits = sum(sum(chosen) <= limit for k in range(6) for chosen in itertools.combinations(numbers, k))
    assert solve(b.build()).value * 2**5 == fits


@pytest.mark.parametrize("seed", range(6))
def test_points_multiply_at_a_toss_and_no_more(seed: int) -> None:
    """The third statement: three times as many at a toss, and the Pareto set of each stretch between."""
    model = families.powers(7, 2.0**-seed, seed, random_steps=2)
    stretches: list[list[tuple[Fraction, Fraction]]] = [[]]
    for step in range(model.horizon):
        (row,) = [row for row in model.rows(step, 0) if model.row_reward[row] > 0]
        outcomes = outcomes_of(model, row)
        if len(outcomes) == 1:
            stretches[-1].append((outcomes[0][2], Fraction(float(model.row_reward[row]))))
        else:
            stretches.append([])
    assert len(stretches) == 3
    sizes = [len(pareto((cost, reward) for _, cost, reward in subsets(items))) for items in stretches]
    assert count(model).points <= 3**2 * math.prod(sizes)


@pytest.mark.parametrize("seed", range(5))
def test_tied_rewards_have_a_point_for_each_subset_below_the_next_size(seed: int) -> None:
    """The fourth statement: subsets of k items that cost less than the k + 1 cheapest."""
    model = families.draw("strong", 10, seed)
    costs = sorted(max(o[2] for row in model.rows(step, 0) for o in outcomes_of(model, row)) for step in range(10))
    below = 0
    for k in range(11):
        next_size = sum(costs[: k + 1]) if k < 10 else math.inf
        below += sum(sum(chosen) < next_size for chosen in itertools.combinations(costs, k))
    assert count(model).points == below


def test_tied_rewards_leave_room_for_as_many_exchanges_as_was_proved() -> None:
    """The rest of the fourth statement: any s of 2s items in the middle, and still below the next size."""
    rng = np.random.default_rng(7)
    for horizon in (100, 500, 2000):
        k, s = horizon // 2, math.isqrt(horizon // 8)
        costs = np.sort(rng.random((300, horizon)), axis=1)
        room = s * (costs[:, k + s - 1] - costs[:, k - s]) < costs[:, k]
        assert room.mean() > 0.99
        for drawn in costs[room][:3]:
            chosen = np.stack([rng.permutation(2 * s)[:s] + k - s for _ in range(50)])
            totals = drawn[: k - s].sum() + drawn[chosen].sum(axis=1)
            assert (totals < drawn[: k + 1].sum()).all()
