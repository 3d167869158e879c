"""Budgets: what `spent` may be after each step, per resource, with both sides optional.

A budget is stated once by the user (`Budget`) and resolved against a model (`resolve`) into `Limits`: for every
tracked resource an upper and a lower limit after each of the H steps, as exact numbers or None for an open side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from solvent.core.exact import Number, exact
from solvent.errors import BudgetError, ModelError, did_you_mean, quote
from solvent.model.amounts import as_typed

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

#: One side of a budget as users give it: one number, one per step (None = open), or a function of the step.
Side = Number | Sequence[Number | None] | Callable[[int], Number | None] | None
_Exact = Fraction | tuple[Fraction | None, ...] | Callable[[int], Any] | None


@dataclass(frozen=True, init=False)
class Budget:
    """Limits on what may have been spent of one resource after each step.

    Parameters
    ----------
    limit : number, optional
        The most that may ever have been spent; short for `upper`.
    upper, lower : number, sequence of length H, or function of the step, optional
        The most and the least that may have been spent after step 0, 1, ..., H - 1. None leaves a side, or one
        step of it, open.

    Notes
    -----
    The interval form is the paper's "Generalized Anytime Constraints", `Budget.final` its "General Almost-Sure
    Constraints". A negative limit is a covering constraint: so much must have been earned back.

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
        """Limit only what has been spent at the end, after the last step."""
        for side, value in (("limit", limit), ("lower", lower)):
            if value is not None:
                _read_limit(value, f"budget, final {side}")
        budget = cls(upper=limit, lower=lower)
        object.__setattr__(budget, "only_final", True)
        return budget

    def over(self, horizon: int, where: str = "budget") -> Budget:
        """Return the budget with one limit per step, if its limits vary, for a model of this horizon.

        Raises
        ------
        BudgetError
            If a sequence has another length, or a lower limit lies above the upper one.
        """
        sides = {}
        for name, side in (("upper", self.upper), ("lower", self.lower)):
            if callable(side):
                side = _read_side([side(step) for step in range(horizon)], name, where)
            if isinstance(side, tuple) and len(side) != horizon:
                raise BudgetError(
                    f"{where}, {name}",
                    f"{horizon} limits, one for after each step",
                    f"{len(side)}",
                    "use None (null in files) for a step without a limit",
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

    def __repr__(self) -> str:
        name = "Budget.final" if self.only_final else "Budget"
        if self.lower is None and not isinstance(self.upper, tuple) and not callable(self.upper):
            return f"{name}({_show(self.upper)})"
        first = "" if self.only_final else "upper="
        parts = [f"{first}{_show(self.upper)}"] if self.upper is not None else []
        parts += [f"lower={_show(self.lower)}"] if self.lower is not None else []
        return f"{name}({', '.join(parts)})"


def _show(side: _Exact) -> str:
    if isinstance(side, tuple):
        return f"[{', '.join(_show(limit) for limit in side)}]"
    return repr(as_typed(side)) if isinstance(side, Fraction) else repr(side)


def _read_side(side: Any, name: str, where: str = "budget") -> _Exact:
    if side is None or callable(side):
        return side  # type: ignore[no-any-return]
    if isinstance(side, np.ndarray) and side.ndim == 0:
        side = side[()]
    if side is np.ma.masked:  # an array without entries or length
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
        hint = "use None for no limit" if text.lstrip("+-").lower() in ("inf", "infinity") else ""
        raise BudgetError(error.where, error.expected, error.found, hint) from None


#: A budget as users give it: one number or `Budget` for a model of one resource, or one per resource by name.
BudgetLike = Number | Budget | Mapping[str, Number | Budget | Sequence[Number | None] | None]


@dataclass(frozen=True)
class Limits:
    """A budget resolved against a model.

    Attributes
    ----------
    resources : tuple of str
        The tracked resources, in the model's order; one without any limit is not tracked.
    upper, lower : tuple of tuples of Fraction or None
        Per tracked resource, the limit after each of the H steps; None where that side is open.
    """

    resources: tuple[str, ...]
    upper: tuple[tuple[Fraction | None, ...], ...]
    lower: tuple[tuple[Fraction | None, ...], ...]

    def largest(self, index: int) -> Fraction:
        """Return the largest absolute limit of a tracked resource."""
        return max(map(abs, self.distinct(index)), default=Fraction(0))

    def distinct(self, index: int) -> list[Fraction]:
        """Return the limits of a tracked resource, those that are one and the same object only once."""
        sides = (side[:1] if is_constant(side) else side for side in (self.upper[index], self.lower[index]))
        by_id = {id(limit): limit for side in sides for limit in side}
        return [limit for limit in by_id.values() if limit is not None]


def is_constant(side: tuple[Fraction | None, ...]) -> bool:
    """Whether one side's limit is the same after each step; quick where it is one and the same object.

    Examples
    --------
    >>> is_constant((Fraction(3),) * 2), is_constant((Fraction(3), None))
    (True, False)
    """
    return bool(side) and side.count(side[0]) == len(side)


def read_budgets(
    budget: BudgetLike, resources: Sequence[str], horizon: int, where: str = "budget"
) -> dict[str, Budget]:
    """Return a `Budget` for every resource of a model from any of the forms users give.

    Raises
    ------
    BudgetError
        For an unknown or a missing resource, or a limit that is no number or has the wrong length.
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
            "a plain number will do only for a model of one resource",
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
            f"write {missing[0]}: None to leave it unlimited",
        )
    return {name: _one(by_name[name], f"{where}, {name}").over(horizon, f"{where}, {name}") for name in resources}


def _one(value: Any, where: str) -> Budget:
    if isinstance(value, Budget):
        return value
    try:
        return Budget(upper=value)
    except BudgetError as error:
        raise BudgetError(error.where.replace("budget", where, 1), error.expected, error.found, error.hint) from None


def resolve(model: CMDP, budget: BudgetLike | None) -> Limits:
    """Return the limits that `budget`, or else the model's own default, puts on each step of `model`.

    Examples
    --------
    >>> from solvent.model import instances
    >>> resolve(instances.knapsack([3, 4], [2, 3]), 4).upper
    ((Fraction(4, 1), Fraction(4, 1)),)
    """
    if budget is None:
        if model.budget is None and not model.resources:
            return Limits((), (), ())
        if model.budget is None:
            raise BudgetError("budget", "a budget", "none", "the model carries no default: pass budget=...")
        budgets = dict(model.budget)
    else:
        budgets = read_budgets(budget, model.resources, model.horizon)
    return limits_of(budgets, model.horizon)


def limits_of(budgets: Mapping[str, Budget], horizon: int) -> Limits:
    """Return the limits of budgets that were read, one for each resource (`read_budgets`).

    Examples
    --------
    >>> limits_of(read_budgets({"fuel": 3, "time": None}, ["fuel", "time"], horizon=2), horizon=2).resources
    ('fuel',)
    """
    sides = {name: each._per_step(horizon) for name, each in budgets.items()}
    tracked = {name: each for name, each in sides.items() if any(x is not None for side in each for x in side)}
    upper, lower = (tuple(each[side] for each in tracked.values()) for side in (0, 1))
    return Limits(tuple(tracked), upper, lower)
