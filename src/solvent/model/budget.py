"""Budgets: upper and lower limits on what has been spent of each resource after each step.

Users state a `Budget` per resource. `resolve` turns the budgets of a model into `Limits`: for each tracked resource an
upper and a lower limit after each of the H steps, exact numbers or None for no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from solvent.core.exact import Number, exact
from solvent.core.loading import current_load
from solvent.errors import BudgetError, ModelError, did_you_mean, quote
from solvent.model.amounts import as_typed, short_amount

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

#: One side of a budget: a number, a sequence with one entry per step (None: no limit), or a function of the step.
Side = Number | Sequence[Number | None] | Callable[[int], Number | None] | None
_Exact = Fraction | tuple[Fraction | None, ...] | Callable[[int], Any] | None
#: Types that are certainly a number, or an error.
_PLAIN = {int, float, str, Fraction, Decimal}
#: Limits by step that are written out; later ones are left out.
_MOST_PARTS = 4


@dataclass(frozen=True, init=False)
class Budget:
    """Limits on what has been spent of one resource after each step.

    Parameters
    ----------
    limit : number, optional
        Upper limit after every step; the same as `upper`.
    upper, lower : number, sequence of length H, or function of the step, optional
        Upper and lower limit on what has been spent after step 0, 1, ..., H - 1. None, for a side or for an entry of a
        sequence, means no limit.

    Notes
    -----
    Limits on both sides are the paper's "Generalized Anytime Constraints", and `Budget.final` is its "General
    Almost-Sure Constraints". A negative upper limit is a covering constraint: at least that much must be gained.

    Examples
    --------
    >>> Budget(30)
    Budget(30)
    >>> Budget(upper=[10, 20, 30], lower=[0, 0, 5])
    Budget(upper=[10, 20, 30], lower=[0, 0, 5])
    >>> Budget.final("1/3")
    Budget.final('1/3')
    """

    upper: _Exact
    lower: _Exact
    only_final: bool

    def __init__(self, limit: Number | None = None, *, upper: Side = None, lower: Side = None) -> None:
        if limit is not None and upper is not None:
            raise BudgetError("budget", "one upper limit", f"both {quote(limit)} and upper={quote(upper)}")
        object.__setattr__(self, "upper", _read_side(upper if limit is None else limit, "upper"))
        object.__setattr__(self, "lower", _read_side(lower, "lower"))
        object.__setattr__(self, "only_final", False)

    @classmethod
    def final(cls, limit: Number | None = None, *, lower: Number | None = None) -> Budget:
        """Return a budget that applies after the last step only.

        Parameters
        ----------
        limit, lower : number, optional
            Upper and lower limit.
        """
        for side, value in (("limit", limit), ("lower", lower)):
            if value is not None:
                _read_limit(value, f"budget, final {side}")
        budget = cls(upper=limit, lower=lower)
        object.__setattr__(budget, "only_final", True)
        return budget

    def over(self, horizon: int, where: str = "budget") -> Budget:
        """Return the budget for a model of this horizon: functions of the step are replaced by sequences.

        Raises
        ------
        BudgetError
            If a sequence does not have one entry per step, or a lower limit exceeds the upper limit.
        """
        if isinstance(self.upper, Fraction) and self.lower is None:  # by far the most frequent
            return self
        sides = {}
        for name, side in (("upper", self.upper), ("lower", self.lower)):
            if callable(side):
                side = _read_side([side(step) for step in range(horizon)], name, where)
            if isinstance(side, tuple) and len(side) != horizon:
                raise BudgetError(
                    f"{where}, {name}",
                    f"{horizon} limits, one after each step",
                    f"{len(side)}",
                    f"use {_no_limit()} for a step without a limit",
                )
            sides[name] = side
        fixed = Budget.__new__(Budget)
        for name, value in (*sides.items(), ("only_final", self.only_final)):
            object.__setattr__(fixed, name, value)
        upper, lower = fixed._per_step(horizon)
        for step, (most, least) in enumerate(zip(upper, lower, strict=True)):
            if most is not None and least is not None and least > most:
                raise BudgetError(
                    where,
                    "no lower limit above the upper one",
                    f"lower {as_typed(least)} above upper {as_typed(most)} after step {step}",
                )
        return fixed

    def _per_step(self, horizon: int) -> tuple[tuple[Fraction | None, ...], tuple[Fraction | None, ...]]:
        sides = []
        for side in (self.upper, self.lower):
            assert not callable(side)
            if isinstance(side, tuple):
                sides.append(side)
            elif self.only_final:
                sides.append((None,) * (horizon - 1) + (side,))
            else:
                sides.append((side,) * horizon)
        return sides[0], sides[1]

    @property
    def text(self) -> str:
        """The limits in words.

        Examples
        --------
        >>> Budget(30).text, Budget(upper=20, lower=0).text, Budget.final(lower="1/3").text
        ('at most 30', 'between 0 and 20', 'at least 1/3 at the end')
        >>> Budget(upper=[9, 9, None, 8]).text
        'at most 9 after steps 0 to 1, at most 8 after step 3'
        """
        if callable(self.upper) or callable(self.lower):
            return "limits by step"
        horizon = next((len(side) for side in (self.upper, self.lower) if isinstance(side, tuple)), 1)
        pairs = list(zip(*self._per_step(horizon), strict=True))
        if all(pair == pairs[0] for pair in pairs):
            return _in_words(*pairs[0]) + " at the end" * self.only_final
        parts, begin = [], 0
        for end in range(1, horizon + 1):
            if end == horizon or pairs[end] != pairs[begin]:
                steps = f"step {begin}" if end == begin + 1 else f"steps {begin} to {end - 1}"
                if pairs[begin] != (None, None):
                    parts.append(f"{_in_words(*pairs[begin])} after {steps}")
                begin = end
        return ", ".join(parts if len(parts) <= _MOST_PARTS else [*parts[:_MOST_PARTS], "..."])

    def __repr__(self) -> str:
        name = "Budget.final" if self.only_final else "Budget"
        if self.lower is None and not isinstance(self.upper, tuple) and not callable(self.upper):
            return f"{name}({_show(self.upper)})"
        first = "" if self.only_final else "upper="
        parts = [f"{first}{_show(self.upper)}"] if self.upper is not None else []
        parts += [f"lower={_show(self.lower)}"] if self.lower is not None else []
        return f"{name}({', '.join(parts)})"


def _in_words(upper: Fraction | None, lower: Fraction | None) -> str:
    if lower is None:
        return "no limit" if upper is None else f"at most {short_amount(upper)}"
    if upper is None:
        return f"at least {short_amount(lower)}"
    return f"between {short_amount(lower)} and {short_amount(upper)}"


def _no_limit() -> str:
    """Return how to write that there is no limit: in the file that is being loaded, or in Python."""
    return "None" if current_load() is None else "null"


def _show(side: _Exact) -> str:
    if isinstance(side, tuple):
        return f"[{', '.join(_show(limit) for limit in side)}]"
    return repr(as_typed(side)) if isinstance(side, Fraction) else repr(side)


def _read_side(side: Any, name: str, where: str = "budget") -> _Exact:
    if type(side) in _PLAIN:
        return _read_limit(side, f"{where}, {name}")
    if side is None or callable(side):
        return side  # type: ignore[no-any-return]
    if isinstance(side, np.ndarray) and side.ndim == 0:
        side = side[()]
    if side is np.ma.masked:  # an array without length
        return _read_limit(side, f"{where}, {name}")
    if isinstance(side, Sequence | np.ndarray) and not isinstance(side, str | bytes):
        return tuple(
            None if limit is None else _read_limit(limit, f"{where}, {name} after step {step}")
            for step, limit in enumerate(side)
        )
    return _read_limit(side, f"{where}, {name}")


def _read_limit(limit: Any, where: str) -> Fraction:
    try:
        return exact(limit, where)
    except ModelError as error:
        text = str(limit) if isinstance(limit, str | float | Decimal | np.floating) else ""
        hint = f"use {_no_limit()} for no limit" if text.lstrip("+-").lower() in ("inf", "infinity") else ""
        raise BudgetError(error.where, error.expected, error.found, hint) from None


#: Amounts as users state them: a number for a model of one resource, or a mapping by resource.
SpentLike = Number | Mapping[str, Number]
#: A budget as users state it: a number or `Budget` for a model of one resource, or a mapping by resource.
BudgetLike = Number | Budget | Mapping[str, Number | Budget | Sequence[Number | None] | None]


_NOTHING = Fraction(0)


@dataclass(frozen=True)
class Limits:
    """The limits that a budget puts on each step of a model.

    Attributes
    ----------
    resources : tuple of str
        Tracked resources, in the order of the model. A resource without any limit is not tracked.
    upper, lower : tuple of tuples of Fraction or None
        For each tracked resource, the limit after each of the H steps; None for no limit.
    initial : tuple of Fraction
        What has been spent of each tracked resource before the first step; 0 if not given.
    """

    resources: tuple[str, ...]
    upper: tuple[tuple[Fraction | None, ...], ...]
    lower: tuple[tuple[Fraction | None, ...], ...]
    initial: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        if len(self.initial) != len(self.resources):
            object.__setattr__(self, "initial", (_NOTHING,) * len(self.resources))

    @property
    def is_one_sided(self) -> bool:
        """Whether one resource is limited, and on one side only.

        Examples
        --------
        >>> one, none = (Fraction(1),) * 2, (None,) * 2
        >>> Limits(("x",), (one,), (none,)).is_one_sided, Limits(("x",), (one,), (one,)).is_one_sided
        (True, False)
        """
        if len(self.resources) != 1:
            return False
        none = (None,) * len(self.upper[0])  # compared as tuples: identical entries are not compared one by one
        return self.lower[0] == none or self.upper[0] == none

    @cached_property
    def texts(self) -> dict[str, str]:
        """The limits of each tracked resource in words.

        Examples
        --------
        >>> three, none = (Fraction(3),) * 2, (None,) * 2
        >>> Limits(("x", "y"), (three, (None, Fraction(2))), (none, none)).texts
        {'x': 'at most 3', 'y': 'at most 2 after step 1'}
        """
        found = {}
        for name, upper, lower, constant in zip(self.resources, self.upper, self.lower, self.constant, strict=True):
            whole = _in_words(upper[0], lower[0]) if constant == (True, True) else Budget(upper=upper, lower=lower).text
            found[name] = whole
        return found

    def largest(self, index: int) -> Fraction:
        """Return the largest absolute limit of a tracked resource."""
        return max(map(abs, self.distinct(index)), default=Fraction(0))

    def distinct(self, index: int) -> list[Fraction]:
        """Return the limits of a tracked resource; identical objects are listed once."""
        sides = (self.upper[index], self.lower[index])
        if self.constant[index] == (True, True):
            return [side[0] for side in sides if side[0] is not None]
        by_id = {id(limit): limit for side in sides for limit in side}
        return [limit for limit in by_id.values() if limit is not None]

    @cached_property
    def constant(self) -> tuple[tuple[bool, bool], ...]:
        """For each tracked resource, whether the upper and the lower limit are the same after each step."""
        return tuple((is_constant(self.upper[d]), is_constant(self.lower[d])) for d in range(len(self.resources)))


def is_constant(side: tuple[Fraction | None, ...]) -> bool:
    """Return whether a limit is the same after each step; fast if all entries are the same object.

    Examples
    --------
    >>> is_constant((Fraction(3),) * 2), is_constant((Fraction(3), None))
    (True, False)
    """
    return bool(side) and side.count(side[0]) == len(side)


def read_budgets(
    budget: BudgetLike, resources: Sequence[str], horizon: int, where: str = "budget"
) -> dict[str, Budget]:
    """Return a `Budget` for each resource of a model.

    Parameters
    ----------
    budget : number, Budget, or mapping of these by resource
        Budget as users state it. A mapping must have an entry for each resource.
    resources : sequence of str
        Resources of the model.
    horizon : int
        Number of steps.
    where : str
        Place for error messages.

    Raises
    ------
    BudgetError
        If a resource is unknown or missing, or a limit is not a number or has the wrong length.
    """
    if isinstance(budget, Mapping):
        by_name = dict(budget)
    elif len(resources) == 1:
        by_name = {resources[0]: budget}
    else:
        raise BudgetError(
            where,
            f"a limit for each of {', '.join(map(quote, resources))} by name" if resources else "no budget",
            quote(budget),
            "a single limit is enough only for a model of one resource",
        )
    listed = set(resources)
    for name in by_name:
        if name not in listed:
            known = ", ".join(map(quote, resources)) or "none"
            raise BudgetError(where, f"a resource of the model ({known})", quote(name), did_you_mean(name, resources))
    missing = [name for name in resources if name not in by_name]
    if missing:
        raise BudgetError(
            where,
            f"a limit for resource {quote(missing[0])}",
            "none",
            f"give it a limit, or write {missing[0]}: {_no_limit()} to leave it unlimited",
        )
    return {name: _one(by_name[name], f"{where}, {name}").over(horizon, f"{where}, {name}") for name in resources}


def _one(value: Any, where: str) -> Budget:
    if isinstance(value, Budget):
        return value
    try:
        return Budget(upper=value)
    except BudgetError as error:
        raise BudgetError(error.where.replace("budget", where, 1), error.expected, error.found, error.hint) from None


def resolve(model: CMDP, budget: BudgetLike | None, spent: SpentLike | None = None) -> Limits:
    """Return the limits that a budget puts on each step of a model.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or mapping of these by resource, or None
        None stands for the default budget of the model.
    spent : number, or mapping of numbers by resource, optional
        What has been spent before the first step. Default: nothing.

    Raises
    ------
    BudgetError
        If there is no budget, it does not fit the model, or the initial amount lies beyond a floor or a ceiling.

    Examples
    --------
    >>> from solvent.model import instances
    >>> resolve(instances.knapsack([3, 4], [2, 3]), 4).upper
    ((Fraction(4, 1), Fraction(4, 1)),)
    """
    initial = None if spent is None and not model.is_saturating else read_spent(model, spent)
    if budget is None:
        if model.budget is None and not model.resources:
            return Limits((), (), ())
        if model.budget is None:
            raise BudgetError("budget", "a budget", "none", "the model carries no default: pass budget=...")
        limits = model.own_limits
    else:
        limits = limits_of(read_budgets(budget, model.resources, model.horizon), model.horizon)
    if initial is None:
        return limits
    return replace(limits, initial=tuple(initial[name] for name in limits.resources))


def read_spent(model: CMDP, spent: SpentLike | None, where: str = "spent") -> dict[str, Fraction]:
    """Return an amount spent of each resource of a model; 0 where none is given.

    Raises
    ------
    BudgetError
        If a resource is unknown, or an amount is not a number or lies beyond a floor or a ceiling.

    Examples
    --------
    >>> from solvent.model import instances
    >>> read_spent(instances.knapsack([3, 4], [2, 3]), "3/2")
    {'weight': Fraction(3, 2)}
    """
    if spent is None:
        given: dict[str, Any] = {}
    elif isinstance(spent, Mapping):
        given = dict(spent)
    elif len(model.resources) == 1:
        given = {model.resources[0]: spent}
    else:
        names = ", ".join(map(quote, model.resources))
        expected = f"an amount of each of {names} by name" if names else "nothing, as the model has no resources"
        raise BudgetError(where, expected, quote(spent))
    for name in given:
        if name not in model.resources:
            known = ", ".join(map(quote, model.resources)) or "none"
            hint = did_you_mean(name, model.resources)
            raise BudgetError(where, f"a resource of the model ({known})", quote(name), hint)
    found = {name: _read_limit(given.get(name, 0), f"{where}, {name}") for name in model.resources}
    for name, floor, ceiling in zip(model.resources, model.floors, model.ceilings, strict=True):
        low, high = floor is not None and found[name] < floor, ceiling is not None and found[name] > ceiling
        if low or high:
            end = floor if low else ceiling
            assert end is not None
            expected = f"at {'least the floor' if low else 'most the ceiling'}, {as_typed(end)}"
            hint = "" if name in given else f"say what has been spent before the first step: spent={{{name!r}: ...}}"
            raise BudgetError(f"{where}, {name}", expected, str(as_typed(found[name])), hint)
    return found


def limits_of(budgets: Mapping[str, Budget], horizon: int) -> Limits:
    """Return the limits of budgets by resource, as `read_budgets` returns them.

    Examples
    --------
    >>> limits_of(read_budgets({"fuel": 3, "time": None}, ["fuel", "time"], horizon=2), horizon=2).resources
    ('fuel',)
    """
    sides = {name: each._per_step(horizon) for name, each in budgets.items()}
    tracked = {name: each for name, each in sides.items() if any(x is not None for side in each for x in side)}
    upper, lower = (tuple(each[side] for each in tracked.values()) for side in (0, 1))
    return Limits(tuple(tracked), upper, lower)
