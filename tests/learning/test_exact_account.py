"""The account of an episode in whole numbers, against sums of fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from effort import seeds
from solvent.learning.account import ExactAccount
from solvent.learning.runners import breaks
from solvent.model.budget import Budget, limits_of
from solvent.model.resources import Resource


def amount(rng: np.random.Generator, low: int = -4, high: int = 9) -> Fraction:
    return Fraction(int(rng.integers(low, high)), int(rng.choice([1, 2, 3, 7, 10])))


@pytest.mark.parametrize("seed", seeds(100))
def test_whole_numbers_agree_with_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    horizon, names = int(rng.integers(1, 7)), ("a", "b")[: int(rng.integers(1, 3))]
    budgets = {
        name: Budget(
            upper=[None if rng.random() < 0.2 else amount(rng, 0) for _ in range(horizon)],
            lower=[None if rng.random() < 0.7 else amount(rng, -9, 0) for _ in range(horizon)],
        )
        for name in names
    }
    limits = limits_of(budgets, horizon)
    names = limits.resources  # without those that no step limits
    resources = [
        Resource(name, floor=Fraction(-1, 3) if rng.random() < 0.4 else None, ceiling=5 if rng.random() < 0.4 else None)
        for name in names
    ]
    account = ExactAccount(limits, resources)
    kept = [tuple(amount(rng) for _ in names) for _ in range(4)]
    for _ in range(5):  # episodes: units become finer on the way, and equal costs may be the same tuple or not
        account.begin()
        spent = limits.initial
        for step in range(horizon):
            costs = kept[int(rng.integers(4))] if rng.random() < 0.7 else tuple(amount(rng) for _ in names)
            spent = tuple(each.clamp(a + b) for each, a, b in zip(resources, spent, costs, strict=True))
            assert account.charge(costs, step) == breaks(limits, spent, step)
            assert account.spent == spent
            assert account.breaks_later(step + 1) == any(breaks(limits, spent, h) for h in range(step + 1, horizon))


def test_a_third_of_a_tick_is_over() -> None:
    account = ExactAccount(limits_of({"a": Budget(upper=1)}, 3), [Resource("a")])
    assert not account.charge((Fraction(1, 2),), 0)
    assert not account.charge((Fraction(1, 2),), 1)
    assert account.charge((Fraction(1, 10**30),), 2)
    assert account.spent == (1 + Fraction(1, 10**30),)
