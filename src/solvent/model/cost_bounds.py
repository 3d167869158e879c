"""Upper bounds on the costs of actions, given as numbers, arrays, dicts by resource, or a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.build import read_costs

#: One bound per resource, or None for a forbidden action.
Bound = tuple[Fraction, ...] | None
#: Bounds as users give them: a function of (observation, action), a number, an array, a dict by resource, or None.
BoundLike = Callable[[Any, int], Any] | Number | Sequence[Any] | NDArray[Any] | Mapping[str, Any] | None


class CostBounds:
    """Upper bounds on the cost of each action, as exact numbers.

    Parameters
    ----------
    given : function of (observation, action), or numbers
        Numbers are one number for all actions, a dict by resource, or an array of shape (A,), (A, D) or (S, A, D), or
        (S, A) with one resource. Infinity or None forbids an action.
    resources : tuple of str
    n_actions : int
    first_action : int
        Number of the first action.
    where : str
        Name of the argument in errors.

    Examples
    --------
    >>> bounds = CostBounds([0, "1/3", None], ("fuel",), n_actions=3)
    >>> bounds("anywhere", 1), bounds("anywhere", 2)
    ((Fraction(1, 3),), None)
    >>> CostBounds(lambda state, action: {"fuel": state * action}, ("fuel",), n_actions=3)(7, 2)
    (Fraction(14, 1),)
    """

    def __init__(
        self,
        given: BoundLike,
        resources: tuple[str, ...],
        n_actions: int,
        first_action: int = 0,
        where: str = "cost_bound",
    ) -> None:
        self._resources, self._n, self._first, self._where = resources, n_actions, first_action, where
        self._function = given if callable(given) else None
        if self._function is not None:
            check_signature(self._function, ("observation", "action"), where)
        self._table = None if callable(given) else self._read_table(self._by_action(given))

    def __call__(self, observation: Any, position: int) -> Bound:
        """Return the bound of an action, given by position, after an observation."""
        if self._function is not None:
            action = position + self._first
            return self.read(self._function(observation, action), f"{self._where} of action {action}")
        assert self._table is not None
        if self._table.ndim == 1:
            return self._table[position]  # type: ignore[no-any-return]
        return self._table[self._row(observation), position]  # type: ignore[no-any-return]

    def read(self, given: Any, where: str) -> Bound:
        """Return one bound, given as a number, numbers by resource in order or by name, or None."""
        if given is None:
            return None
        listed = read_costs(given, self._resources, where)
        if any(amount is None or _is_infinite(amount) for amount in listed):
            return None
        return tuple(exact(amount, where) for amount in listed)

    @property
    def function(self) -> Callable[[Any, int], Any] | None:
        """The function of (observation, action) that returns the bounds, if they were given as one."""
        return self._function

    @property
    def by_action(self) -> list[Bound] | None:
        """Bounds of all actions if they are the same at every observation; None otherwise.

        Examples
        --------
        >>> CostBounds(2, ("fuel",), n_actions=2).by_action
        [(Fraction(2, 1),), (Fraction(2, 1),)]
        """
        return None if self._table is None or self._table.ndim > 1 else self._table.tolist()

    @property
    def n_rows(self) -> int | None:
        """Number of rows, one per observation, of an array; None for a function or bounds that are only by action.

        Examples
        --------
        >>> CostBounds([[0, 1], [2, 3]], ("fuel",), n_actions=2).n_rows
        2
        """
        return None if self._table is None or self._table.ndim == 1 else len(self._table)

    def _by_action(self, given: Any) -> NDArray[Any]:
        resources = self._resources
        columns = list(given.values()) if isinstance(given, Mapping) else [given]
        if any(isinstance(each, np.ma.MaskedArray) for each in columns):
            raise ModelError(self._where, "numbers", "a masked array", "use None for a forbidden action")
        if not isinstance(given, Mapping):
            shape = shape_of(given)
            if None in shape:
                raise ModelError(self._where, "rows of the same length", f"shape {show_shape(shape)}")
            return _objects(given)
        for name, amounts in given.items():
            shape = shape_of(amounts)
            if shape not in ((), (self._n,)):
                expected = f"a number, or {self._n} numbers, one for each action"
                hint = "for bounds by state pass an array with one row per state, or a function of (state, action)"
                raise ModelError(f"{self._where}, {quote(name)}", expected, f"shape {show_shape(shape)}", hint)
        unknown = [name for name in given if name not in resources]
        if unknown or len(given) < len(resources):
            wrong = quote(unknown[0]) if unknown else f"only {quote(list(given))}"
            hint = did_you_mean(unknown[0], resources) if unknown else ""
            raise ModelError(self._where, f"numbers for each of {', '.join(map(quote, resources))}", wrong, hint)
        return np.stack([np.broadcast_to(_objects(given[name]), (self._n,)) for name in resources], axis=-1)

    def _read_table(self, given: NDArray[Any]) -> NDArray[Any]:
        """Return bounds as an array of tuples, of shape (A,) or (S, A)."""
        n_resources = len(self._resources)
        if given.ndim == 0 and n_resources == 1:
            given = np.broadcast_to(given, (self._n,))
        if n_resources == 1 and given.shape[-1:] == (self._n,) and given.ndim <= 2 and given.shape != (1, 1):
            given = given[..., None]
        if given.ndim not in (2, 3) or given.shape[-2:] != (self._n, n_resources):
            shape = f"({self._n}, {n_resources})" if n_resources > 1 else f"({self._n},)"
            hint = "bounds by observation have a leading axis, with one row per observation"
            raise ModelError(self._where, f"numbers of shape {shape}", f"shape {given.shape}", hint)
        table = np.empty(given.shape[:-1], object)
        for index in np.ndindex(*table.shape):
            table[index] = self.read(given[index].tolist(), f"{self._where}{list(index)}")
        return table

    def _row(self, observation: Any) -> int:
        assert self._table is not None
        size = len(self._table)
        if not isinstance(observation, int | np.integer) or not 0 <= observation < size:
            expected = f"an observation from 0 to {size - 1}, as the array has {size} rows"
            raise ModelError(self._where, expected, quote(observation), "use a function of (observation, action)")
        return int(observation)


def _objects(given: Any) -> NDArray[Any]:
    """Return numbers as an array of objects that keep their types: a float32 of 0.7 stands for seven tenths."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return np.array([_objects(each)[()] for each in given], object)
    table = np.asarray(given) if hasattr(given, "__array__") else np.array(given, object)
    found = np.empty(table.shape, object)
    for index in np.ndindex(*table.shape):
        found[index] = table[index]
    return found


def _is_infinite(amount: object) -> bool:
    return isinstance(amount, float | np.floating) and math.isinf(amount) and bool(amount > 0)


def shape_of(given: object) -> tuple[int | None, ...]:
    """Return the shape of an array or of nested sequences, with None for lengths that differ."""
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple):
        return shape
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return ()
    inner = {shape_of(each) for each in given}
    if len(inner) > 1:
        return (len(given), None)
    return (len(given), *(inner.pop() if inner else ()))


def show_shape(shape: tuple[int | None, ...]) -> str:
    """Return a shape as text."""
    return f"({', '.join('?' if n is None else str(n) for n in shape)}{',' if len(shape) == 1 else ''})"
