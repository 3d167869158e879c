"""Continuous cost distributions, bounded above, so that a budget can hold for every draw.

A distribution has an exact support, a distribution function and a sampler. Model files can hold the named distributions
of this module. In Python, a cost can be any frozen `scipy.stats` distribution whose support is bounded above.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import as_typed, short_amount

#: Parameters that do not scale with the cost.
_SHAPES = ("a", "b")


@dataclass(frozen=True)
class CostDistribution:
    """A continuous cost distribution whose support is bounded above.

    Attributes
    ----------
    name : str
        One of `FAMILIES`, or "scipy." and the name of a `scipy.stats` distribution.
    parameters : tuple of (str, Fraction or float)
        Parameters of the distribution.
    negate : bool
        If True, the cost is minus the value of the named distribution: a refund.
    low : Fraction or None
        Infimum of the support; None if it is unbounded below.
    high : Fraction
        Supremum of the support.
    scipy : frozen distribution or None
        The `scipy.stats` distribution that this was made from.
    """

    name: str
    parameters: tuple[tuple[str, Any], ...]
    negate: bool
    low: Fraction | None
    high: Fraction
    scipy: Any = field(default=None, compare=False, repr=False)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of a cost of at most `x`."""
        points = np.asarray(x, np.float64)
        return np.asarray(self._frozen.sf(-points) if self.negate else self._frozen.cdf(points), np.float64)

    def mean(self) -> float:
        """Return the expected cost."""
        return -float(self._frozen.mean()) if self.negate else float(self._frozen.mean())

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return `size` random costs, all within the support."""
        draws = np.asarray(self._frozen.rvs(size=size, random_state=rng), np.float64)
        low = -math.inf if self.low is None else float(self.low)
        return np.clip(-draws if self.negate else draws, low, float(self.high))

    def scaled(self, factor: Fraction, where: str = "cost") -> CostDistribution:
        """Return the distribution of `factor` times this cost, for a positive factor. The support is exact.

        Raises
        ------
        ModelError
            If the ends of the scaled support are the same float.

        Examples
        --------
        >>> print(distribution("beta", a=2, b=3, high=4).scaled(Fraction(1, 2)))
        beta(a=2, b=3, low=0, high=2)
        """
        low = None if self.low is None else factor * self.low
        high = factor * self.high
        values = {key: value if key in _SHAPES else factor * value for key, value in self.parameters}
        frozen = None
        if self.scipy is not None:
            shapes, loc, scale = self.scipy.dist._parse_args(*self.scipy.args, **self.scipy.kwds)
            frozen = self.scipy.dist(*shapes, loc=float(factor) * loc, scale=float(factor) * scale)
            values = dict(self.parameters) | {"loc": float(factor) * loc, "scale": float(factor) * scale}
        if (low is not None and float(low) == float(high)) or not all(
            float(value) for key, value in values.items() if key in ("sd", "scale")
        ):
            raise ModelError(
                where, "a distribution whose ends are different floats", f"{self} times {short_amount(factor)}"
            )
        return CostDistribution(self.name, tuple(values.items()), self.negate, low, high, frozen)

    @property
    def in_files(self) -> bool:
        """Whether model files can hold this distribution."""
        return self.name in FAMILIES

    def as_entry(self) -> dict[str, Any]:
        """Return the mapping that stands for this distribution in model files."""
        entry = {key: as_typed(value) for key, value in self.parameters}
        return {"distribution": self.name, **entry, **({"negate": True} if self.negate else {})}

    @cached_property
    def _frozen(self) -> Any:
        if self.scipy is not None:
            return self.scipy
        return FAMILIES[self.name].freeze({key: float(value) for key, value in self.parameters})

    def __str__(self) -> str:
        inside = ", ".join(
            f"{key}={as_typed(value) if isinstance(value, Fraction) else value}" for key, value in self.parameters
        )
        return f"{'-' if self.negate else ''}{self.name.removeprefix('scipy.')}({inside})"


@dataclass(frozen=True)
class Family:
    """A named family of distributions.

    Attributes
    ----------
    required : tuple of str
        Required parameters.
    optional : mapping of str to int or None
        Optional parameters and their defaults; None for no default.
    freeze : callable
        Returns the frozen `scipy.stats` distribution for parameters by name.
    positive : tuple of str
        Parameters that must be positive.
    """

    required: tuple[str, ...]
    optional: Mapping[str, int | None]
    freeze: Callable[[Mapping[str, float]], Any]
    positive: tuple[str, ...] = ()


def _uniform(p: Mapping[str, float]) -> Any:
    from scipy import stats

    return stats.uniform(p["low"], p["high"] - p["low"])


def _triangular(p: Mapping[str, float]) -> Any:
    from scipy import stats

    width = p["high"] - p["low"]
    return stats.triang((p["mode"] - p["low"]) / width, p["low"], width)


def _truncated_normal(p: Mapping[str, float]) -> Any:
    from scipy import stats

    low = (p.get("low", -math.inf) - p["mean"]) / p["sd"]
    high = (p.get("high", math.inf) - p["mean"]) / p["sd"]
    return stats.truncnorm(low, high, p["mean"], p["sd"])


def _beta(p: Mapping[str, float]) -> Any:
    from scipy import stats

    return stats.beta(p["a"], p["b"], p["low"], p["high"] - p["low"])


def _exponential(p: Mapping[str, float]) -> Any:
    from scipy import stats

    if "high" not in p:
        return stats.expon(p["low"], p["scale"])
    return stats.truncexpon((p["high"] - p["low"]) / p["scale"], p["low"], p["scale"])


#: The named distributions.
FAMILIES: Mapping[str, Family] = {
    "uniform": Family(("low", "high"), {}, _uniform),
    "triangular": Family(("low", "mode", "high"), {}, _triangular),
    "truncated_normal": Family(("mean", "sd"), {"low": None, "high": None}, _truncated_normal, ("sd",)),
    "beta": Family(("a", "b"), {"low": 0, "high": 1}, _beta, ("a", "b")),
    "exponential": Family(("scale",), {"low": 0, "high": None}, _exponential, ("scale",)),
}


def distribution(
    name: str, *, negate: bool = False, where: str = "cost", **parameters: Number | None
) -> CostDistribution:
    """Return a named continuous cost distribution.

    Parameters
    ----------
    name : {"uniform", "triangular", "truncated_normal", "beta", "exponential"}
        Family. "exponential" and "truncated_normal" need `high`, unless negated.
    negate : bool
        If True, the cost is minus the value drawn: a random refund.
    where : str
        Place for error messages.
    **parameters : number
        `low` and `high` for all families; `mode` (triangular), `mean` and `sd` (truncated_normal, before truncation),
        `a` and `b` (beta), `scale` (exponential, before truncation).

    Raises
    ------
    ModelError
        If the family or a parameter is unknown, missing or out of range, or the support is not bounded above.

    Examples
    --------
    >>> clicks = distribution("triangular", low=1, mode=2, high="7/2")
    >>> clicks.high, float(clicks.cdf(2))
    (Fraction(7, 2), 0.4)
    >>> print(distribution("exponential", scale=2, negate=True).high)
    0
    """
    family = FAMILIES.get(name)
    if family is None:
        raise ModelError(
            where,
            f"one of the distributions {', '.join(FAMILIES)}",
            quote(name),
            did_you_mean(name, FAMILIES),
        )
    for key in parameters:
        if key not in family.required and key not in family.optional:
            allowed = ", ".join([*family.required, *family.optional])
            raise ModelError(where, f"parameters of {name} ({allowed})", quote(key))
    values: dict[str, Fraction] = {}
    for key in (*family.required, *family.optional):
        given = parameters.get(key)
        given = family.optional.get(key) if given is None else given
        if given is not None:
            values[key] = exact(given, f"{where}, {name} {key}")
        elif key in family.required:
            raise ModelError(where, f"{name} with {', '.join(family.required)}", f"no {key}")
    _check_range(name, family, values, where)
    low, high = values.get("low"), values.get("high")
    if negate:
        low, high = (None if high is None else -high), (None if low is None else -low)
    if high is None:
        raise ModelError(
            where,
            "a cost bounded above",
            f"{name} without an upper end",
            f"give {'low' if negate else 'high'}",
        )
    return CostDistribution(name, tuple(values.items()), negate, low, high)


def _check_range(name: str, family: Family, values: Mapping[str, Fraction], where: str) -> None:
    for key in family.positive:
        if values[key] <= 0:
            raise ModelError(f"{where}, {name} {key}", "a number above 0", str(as_typed(values[key])))
    chain = [key for key in ("low", "mode", "high") if key in values]
    for first, second in itertools.pairwise(chain):
        if values[first] > values[second] or ((first, second) == ("low", "high") and values[first] == values[second]):
            raise ModelError(
                f"{where}, {name}",
                f"{first} below {second}",
                f"{first}={as_typed(values[first])} and {second}={as_typed(values[second])}",
            )
    if "mode" in chain and values["low"] == values["high"]:
        raise ModelError(f"{where}, {name}", "low below high", f"both {as_typed(values['low'])}")
    try:
        floats = {key: float(value) for key, value in values.items()}
    except OverflowError:
        raise ModelError(f"{where}, {name}", "parameters that floats can hold", "a larger number") from None
    if floats.get("low", -math.inf) == floats.get("high", math.inf) or not all(floats[key] for key in family.positive):
        raise ModelError(f"{where}, {name}", "parameters that differ as floats", "equal ones")


def is_scipy(value: object) -> bool:
    """Return whether `value` is a frozen `scipy.stats` distribution."""
    return hasattr(value, "dist") and hasattr(value, "cdf") and hasattr(value, "support")


def from_scipy(frozen: Any, where: str = "cost") -> CostDistribution:
    """Return the cost distribution of a frozen `scipy.stats` distribution.

    Raises
    ------
    ModelError
        If it is discrete, or its support is not bounded above.

    Examples
    --------
    >>> from scipy import stats
    >>> from_scipy(stats.uniform(1, 2)).high
    Fraction(3, 1)
    """
    if not hasattr(frozen, "pdf"):
        raise ModelError(
            where,
            "a continuous distribution",
            f"scipy's {frozen.dist.name}",
            "list discrete costs as outcomes",
        )
    name = frozen.dist.name
    if any(np.ndim(end) for end in frozen.support()):
        raise ModelError(where, "one distribution", f"scipy's {name} with arrays of parameters")
    low, high = (float(end) for end in frozen.support())
    if math.isnan(low) or math.isnan(high):
        raise ModelError(where, "valid parameters", f"scipy's {name} with a support of nan")
    if not math.isfinite(high):
        raise ModelError(where, "a cost bounded above", f"scipy's {name}, which has no upper end")
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    # in floats, loc + scale * end is above 0.3 for uniform(0.1, 0.2)
    exact_high = exact(float(loc)) + exact(float(scale)) * exact(float(frozen.b))
    exact_low = None
    if math.isfinite(low):
        exact_low = exact(float(loc)) + exact(float(scale)) * exact(float(frozen.a))
    if name == "uniform":
        return distribution("uniform", low=exact_low, high=exact_high, where=where)
    named = [*((f"shape{i}", float(shape)) for i, shape in enumerate(shapes)), ("loc", loc), ("scale", scale)]
    return CostDistribution(
        f"scipy.{name}", tuple((k, float(v)) for k, v in named), False, exact_low, exact_high, frozen
    )
