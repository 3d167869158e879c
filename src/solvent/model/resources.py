"""Resources: accounts that costs add to, which may saturate.

After each step, with `cost` the cost of the outcome,

    spent = min(max(spent + cost, floor), ceiling).

A full tank takes no more fuel (floor), a toxicity clears but not below zero (floor), a reservoir spills (ceiling). Both
are part of the model; limits belong to the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, quote
from solvent.model.amounts import as_typed


@dataclass(frozen=True, init=False)
class Resource:
    """A resource of a model.

    Parameters
    ----------
    name : str
        Name of the resource.
    floor, ceiling : number, optional
        The amount spent is never below the floor and never above the ceiling: a cost that would lead there counts
        only in part. None for no such end.

    Examples
    --------
    >>> Resource("fuel", floor=0)
    Resource('fuel', floor=0)
    """

    name: str
    floor: Fraction | None
    ceiling: Fraction | None

    def __init__(self, name: str, *, floor: Number | None = None, ceiling: Number | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError("resources", "names that are non-empty text", quote(name))
        object.__setattr__(self, "name", name)
        for side, value in (("floor", floor), ("ceiling", ceiling)):
            read = None if value is None else exact(value, f"resource {quote(name)}, {side}")
            object.__setattr__(self, side, read)
        if self.floor is not None and self.ceiling is not None and self.floor > self.ceiling:
            found = f"floor {as_typed(self.floor)} and ceiling {as_typed(self.ceiling)}"
            raise ModelError(f"resource {quote(name)}", "a floor of at most the ceiling", found)

    @property
    def saturates(self) -> bool:
        """Whether there is a floor or a ceiling."""
        return self.floor is not None or self.ceiling is not None

    def clamp(self, amount: Fraction) -> Fraction:
        """Return an amount moved to the nearer end if it lies outside.

        Examples
        --------
        >>> Resource("fuel", floor=0).clamp(Fraction(-3)), Resource("fuel", floor=0).clamp(Fraction(3))
        (Fraction(0, 1), Fraction(3, 1))
        """
        if self.floor is not None and amount < self.floor:
            return self.floor
        return self.ceiling if self.ceiling is not None and amount > self.ceiling else amount

    @property
    def text(self) -> str:
        """The resource in words.

        Examples
        --------
        >>> Resource("fuel", floor=0, ceiling=9).text
        "'fuel' with floor 0 and ceiling 9"
        """
        ends = " and ".join(f"{side} {as_typed(value)}" for side, value in self._ends)
        return f"{quote(self.name)}{' with ' * bool(ends)}{ends}"

    @property
    def _ends(self) -> list[tuple[str, Fraction]]:
        sides = (("floor", self.floor), ("ceiling", self.ceiling))
        return [(side, value) for side, value in sides if value is not None]

    def __repr__(self) -> str:
        ends = "".join(f", {side}={as_typed(value)!r}" for side, value in self._ends)
        return f"Resource({self.name!r}{ends})"


#: A resource as users state it: a name, or a `Resource`.
ResourceLike = str | Resource


def as_resources(resources: Any) -> tuple[Resource, ...]:
    """Return the resources of a model.

    Raises
    ------
    ModelError
        If they are not a sequence of resources or non-empty texts with distinct names.
    """
    if isinstance(resources, str | Resource) or not isinstance(resources, Sequence):
        raise ModelError("resources", "a list of names", quote(resources))
    listed: dict[str, Resource] = {}
    for each in resources:
        resource = each if isinstance(each, Resource) else Resource(each)
        if resource.name in listed:
            raise ModelError("resources", "each name once", f"{quote(resource.name)} twice")
        listed[resource.name] = resource
    return tuple(listed.values())
