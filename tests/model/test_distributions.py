from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import solvent
from solvent import CostDistribution, ModelError
from solvent.model.distributions import FAMILIES, from_scipy, is_scipy

DISTRIBUTIONS: list[tuple[CostDistribution, Any]] = [
    (solvent.distribution("uniform", low=-1, high="3/2"), lambda x: 1.0),
    (solvent.distribution("triangular", low=0, mode=1, high=4), lambda x: x / 1 if x < 1 else (4 - x) / 3),
    (solvent.distribution("truncated_normal", mean=1, sd="1/2", low=0, high=3), lambda x: math.exp(-2 * (x - 1) ** 2)),
    (solvent.distribution("beta", a=2, b=3, low=1, high=3), lambda x: (x - 1) * (3 - x) ** 2),
    (solvent.distribution("exponential", scale=2, high=5), lambda x: math.exp(-x / 2)),
]


@pytest.mark.parametrize(
    ("distribution", "density"), DISTRIBUTIONS, ids=[distribution.name for distribution, _ in DISTRIBUTIONS]
)
@pytest.mark.parametrize("negate", [False, True])
def test_distribution_functions_are_the_integral_of_the_density(
    distribution: CostDistribution, density: Any, negate: bool
) -> None:
    low, high = float(distribution.low or 0), float(distribution.high)
    mass = integrate.quad(density, low, high, points=[1])[0]
    mean = integrate.quad(lambda x: x * density(x), low, high, points=[1])[0] / mass
    if negate:
        distribution = solvent.distribution(distribution.name, negate=True, **dict(distribution.parameters))
        assert (distribution.low, distribution.high) == (-Fraction(high), -Fraction(low))
    sign = -1 if negate else 1
    for share in (0, 0.1, 0.5, 0.9, 1):
        x = low + share * (high - low)
        below = integrate.quad(density, low, x)[0] / mass
        assert float(distribution.cdf(sign * x)) == pytest.approx(1 - below if negate else below, abs=1e-7)
    assert distribution.mean() == pytest.approx(sign * mean, abs=1e-7)
    draws = distribution.sample(4000, np.random.default_rng(1))
    assert draws.min() >= float(distribution.low or 0) if distribution.low is not None else True
    assert draws.max() <= float(distribution.high)
    assert draws.mean() == pytest.approx(sign * mean, abs=0.1)


def test_every_family_is_covered() -> None:
    assert {distribution.name for distribution, _ in DISTRIBUTIONS} == set(FAMILIES)


def test_supports_are_exact() -> None:
    distribution = solvent.distribution("uniform", low=0.1, high="1/3")
    assert (distribution.low, distribution.high) == (Fraction(1, 10), Fraction(1, 3))
    refund = solvent.distribution("exponential", scale=2, negate=True)
    assert (refund.low, refund.high) == (None, 0)
    assert float(refund.cdf(-1)) == pytest.approx(math.exp(-0.5))
    normal = solvent.distribution("truncated_normal", mean=0, sd=1, high=2)
    assert (normal.low, normal.high) == (None, 2)
    assert solvent.distribution("beta", a=1, b=1).high == 1
    assert solvent.distribution("beta", a=1, b=1, low=None, high=None) == solvent.distribution("beta", a=1, b=1)
    assert float(solvent.distribution("beta", a=1, b=1, low=None).cdf(0.5)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "unifrom",
            {},
            r"cost: expected one of the distributions uniform, .* 'unifrom'; did you mean 'uniform'\?",
        ),
        ("uniform", {"low": 0}, r"cost: expected uniform with low, high, found no high"),
        (
            "uniform",
            {"low": 0, "high": 1, "mode": 1},
            r"cost: expected parameters of uniform \(low, high\), found 'mode'",
        ),
        ("uniform", {"low": 1, "high": 1}, r"cost, uniform: expected low below high, found low=1 and high=1"),
        ("uniform", {"low": 2, "high": "3/2"}, r"found low=2 and high=1.5"),
        ("uniform", {"low": math.nan, "high": 1}, r"cost, uniform low: expected a finite number"),
        ("uniform", {"low": 0, "high": math.inf}, r"cost, uniform high: expected a finite number"),
        (
            "uniform",
            {"low": 1, "high": Fraction(10**30 + 1, 10**30)},
            r"expected parameters that differ as floats, found equal ones",
        ),
        ("uniform", {"low": 0, "high": 10**350}, r"expected parameters that floats can hold"),
        ("triangular", {"low": 0, "mode": 3, "high": 2}, r"expected mode below high, found mode=3 and high=2"),
        ("triangular", {"low": 1, "mode": 1, "high": 1}, r"cost, triangular: expected low below high, found both 1"),
        (
            "truncated_normal",
            {"mean": 0, "sd": 0, "high": 1},
            r"truncated_normal sd: expected a number above 0, found 0",
        ),
        ("truncated_normal", {"mean": 0, "sd": 1}, r"expected a cost bounded above, .*give high"),
        ("beta", {"a": -1, "b": 1}, r"beta a: expected a number above 0, found -1"),
        (
            "exponential",
            {"scale": 1},
            r"expected a cost bounded above, found exponential without an upper end; give high",
        ),
        ("truncated_normal", {"mean": 0, "sd": 1, "high": 1, "negate": True}, r"bounded above, .*give low"),
    ],
)
def test_invalid_distributions(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        solvent.distribution(name, **parameters)


@pytest.mark.parametrize(
    ("frozen", "low", "high"),
    [
        (stats.uniform(0.1, 0.2), Fraction(1, 10), Fraction(3, 10)),
        (stats.uniform(loc=-1), -1, 0),
        (stats.beta(2, 3, loc=1, scale=0.1), 1, Fraction(11, 10)),
        (stats.triang(0.5), 0, 1),
        (stats.weibull_max(2), None, 0),
        (stats.truncnorm(-1, 2, loc=1, scale=0.5), Fraction(1, 2), 2),
    ],
)
def test_any_bounded_scipy_distribution(frozen: Any, low: Any, high: Any) -> None:
    assert is_scipy(frozen)
    distribution = from_scipy(frozen)
    assert (distribution.low, distribution.high) == (low, high)
    points = np.linspace(-2, 3, 11)
    np.testing.assert_allclose(distribution.cdf(points), frozen.cdf(points), atol=1e-12)
    assert distribution.mean() == pytest.approx(float(frozen.mean()))
    assert distribution == from_scipy(frozen)
    assert hash(distribution) == hash(from_scipy(frozen))


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (stats.norm(), r"expected a cost bounded above, found scipy's norm, which has no upper end"),
        (
            stats.poisson(3),
            r"expected a continuous distribution, found scipy's poisson; list discrete costs as outcomes",
        ),
        (stats.uniform(0, -1), r"expected valid parameters, found scipy's uniform with a support of nan"),
        (stats.uniform([0, 1], 1), r"expected one distribution, found scipy's uniform with arrays"),
    ],
)
def test_invalid_scipy_distributions(frozen: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_scipy(frozen)


def test_entries_of_files() -> None:
    distribution = solvent.distribution("triangular", low=0, mode="1/3", high=0.5, negate=True)
    assert distribution.as_entry() == {
        "distribution": "triangular",
        "low": 0,
        "mode": "1/3",
        "high": "0.5",
        "negate": True,
    }
    assert str(distribution) == "-triangular(low=0, mode=1/3, high=0.5)"
    assert distribution.in_files
    assert not from_scipy(stats.beta(1, 2)).in_files
    assert str(from_scipy(stats.beta(1, 2))).startswith("beta(shape0=1.0")
