"""The inequalities used in the proofs of the bounds on values, on random numbers; see docs/guarantees.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from solvent.learning.bonus import Bonus
from solvent.learning.counts import Counts

#: Probabilities of a few outcomes, all positive.
weights = st.integers(2, 6).flatmap(lambda k: st.tuples(*[arrays(float, k, elements=st.floats(1e-6, 1))] * 3))


def kl(one: Any, other: Any) -> float:
    return float(np.sum(np.where(one > 0, one * np.log(np.where(one > 0, one / other, 1.0)), 0.0)))


def variance(p: Any, f: Any) -> float:
    return float(p @ (f - p @ f) ** 2)


@given(weights, st.floats(0.5, 20), st.integers(0, 5))
def test_shares_that_are_near_give_means_that_are_near(drawn: Any, top: float, missing: int) -> None:
    p, found, f = drawn[0] / drawn[0].sum(), drawn[1].copy(), top * drawn[2]
    if missing < len(found) - 1:
        found[missing] = 0.0  # never seen
    found /= found.sum()
    a = max(kl(found, p), 0.0)
    off = abs(float(found @ f - p @ f))
    assert off <= math.sqrt(2 * variance(p, f) * a) + top * a / 3 + 1e-9
    assert variance(p, f) <= 2 * variance(found, f) + 2 * top**2 * a + 1e-9


@given(weights, st.floats(0.5, 20), st.integers(0, 5), st.floats(0, 3))
def test_the_bound_on_means_holds(drawn: Any, top: float, missing: int, more: float) -> None:
    p, found, f = drawn[0] / drawn[0].sum(), drawn[1].copy(), top * drawn[2]
    if missing < len(found) - 1:
        found[missing] = 0.0  # never seen
    found /= found.sum()
    a = max(kl(found, p), 0.0) + more
    for g in (f, -f):
        mean = float(found @ g)
        bound = mean + math.sqrt(2 * a * variance(found, g)) + a * (g.max() - mean)
        assert float(p @ g) <= bound + 1e-9


def test_radii_hold_at_all_times() -> None:
    # how often a tape of draws ever leaves its region, with the counts that the code would have
    rng, delta, tries, runs = np.random.default_rng(0), 0.3, 300, 1500
    for p in (np.array([0.6, 0.3, 0.1]), np.array([0.97, 0.03])):
        k = len(p)
        drawn = rng.choice(k, p=p, size=(runs, tries))
        seen = np.cumsum(drawn[:, :, None] == np.arange(k), axis=1).reshape(-1, k)
        n_keys = len(seen)
        n, zeros = seen.sum(axis=1), np.zeros(n_keys)
        counts = Counts(
            np.arange(n_keys), np.arange(0, k * n_keys + 1, k), n, seen.ravel().copy(), np.zeros(k * n_keys), zeros,
            np.zeros(n_keys, np.int64),
        )  # fmt: skip
        radius = Bonus(delta, 1).radii(counts).radius_K
        share = seen / n[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.nansum(np.where(share > 0, share * np.log(share / p), 0.0), axis=1)
        far = (distance > radius).reshape(runs, tries).any(axis=1).mean()
        assert 0.01 < far <= delta  # it holds, and is not far from tight


def test_rewards_stay_near_at_all_times() -> None:
    rng, delta, tries, runs = np.random.default_rng(2), 0.3, 200, 1500
    drawn = (rng.random((runs, tries)) < 0.2) * rng.random((runs, tries))
    total, square = (np.cumsum(each, axis=1).ravel() for each in (drawn, drawn**2))
    n = np.tile(np.arange(1, tries + 1), runs)
    counts = Counts(np.arange(len(n)), np.arange(len(n) + 1), n, n, total, square, 0 * n)
    radius = Bonus(delta, 1, reward_width=1.0).radii(counts).reward_K
    assert ((np.abs(total / n - 0.1) > radius).reshape(runs, tries).any(axis=1)).mean() <= delta / 2


def test_shares_stay_near_at_all_times() -> None:
    rng, delta, tries = np.random.default_rng(0), 0.3, 400
    p = np.array([0.6, 0.3, 0.1])
    drawn = rng.choice(3, p=p, size=(2000, tries))
    counts = np.cumsum(drawn[:, :, None] == np.arange(3), axis=1)
    n = np.arange(1, tries + 1)
    share = counts / n[None, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.nansum(np.where(share > 0, share * np.log(share / p), 0.0), axis=2)
    # as proved, without the slack of beta
    far = n * distance > math.log(1 / delta) + 2 * np.log(n + 1)
    assert far.any(axis=1).mean() <= delta


def test_means_stay_near_at_all_times() -> None:
    rng, delta, tries, top = np.random.default_rng(1), 0.3, 400, 5.0
    for p in (0.5, 0.02):
        off = np.abs(np.cumsum((rng.random((2000, tries)) < p) - p, axis=1)) * top
        n = np.arange(1, tries + 1)
        spread, beta = p * (1 - p) * top**2, math.log(1 / delta) + np.log(8 * math.e * (n + 1))
        far = off > np.sqrt(2 * n * spread * beta) + 3 * top * beta
        assert far.any(axis=1).mean() <= delta


@given(st.integers(1, 10**6), st.floats(1, 1e3))
def test_constants(n: int, b: float) -> None:
    m = math.isqrt(n)
    # an epoch begins at m * m and ends before (m + 1)^2, and adds at most 3 H beta
    assert m * m <= n < (m + 1) ** 2
    assert math.sqrt(2 * 0.25 * b) * (m + 1) + b / 3 <= math.sqrt(2 * 0.25 * b * n) + 3 * b
    # optimism needs 2 H^2 + (sqrt(8) + 3) H of the 14 H^2, the gap 26.5 H^2 of its 36
    for horizon in (1, 2, 10):
        assert 2 * horizon**2 + (math.sqrt(8) + 3) * horizon <= 8 * horizon**2 <= 14 * horizon**2
        assert horizon**2 + (math.sqrt(8) + 2 / 3) * horizon <= 4.5 * horizon**2
        assert 14 + 8 + 4.5 <= 36


def test_epochs_take_their_share_of_delta() -> None:
    assert 2 / (8 * math.e) * (sum(1 / (m * m + 1) for m in range(1, 10**5)) + 1e-5) < 1
