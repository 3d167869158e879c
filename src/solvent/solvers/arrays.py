"""What kernels read of a model: a named tuple of arrays, which Numba takes as one argument."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice

Scalar = TypeVar("Scalar", bound=np.generic)


class ModelArrays(NamedTuple):
    """Rows and outcomes of a model; names and shapes as in `CMDP`.

    Attributes
    ----------
    table_of_step : ndarray of int32, shape (H,)
    row_indptr : ndarray of int64, shape (T * S + 1,)
    row_reward : ndarray of float64, shape (R,)
    outcome_indptr : ndarray of int64, shape (R + 1,)
    probability : ndarray of float64, shape (O,)
    next_state : ndarray of int32, shape (O,)
    end_value : ndarray of float64, shape (S,)
        What it is worth to end in each state; minus infinity where an episode must not end.
    """

    table_of_step: NDArray[np.int32]
    row_indptr: NDArray[np.int64]
    row_reward: NDArray[np.float64]
    outcome_indptr: NDArray[np.int64]
    probability: NDArray[np.float64]
    next_state: NDArray[np.int32]
    end_value: NDArray[np.float64]

    @classmethod
    def of(cls, model: CMDP) -> ModelArrays:
        """Return the arrays of a model, without copying them."""
        if model.probability.flags.writeable:  # copies and unpickled models; all arrays of others are read-only
            return cls(*(read_only(getattr(model, name)) for name in cls._fields))
        return cls(
            model.table_of_step, model.row_indptr, model.row_reward, model.outcome_indptr, model.probability,
            model.next_state, model.end_value,
        )  # fmt: skip

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arrays, which are read-only again when they are unpickled."""
        return _read_only_arrays, tuple(self)


class TickCosts(NamedTuple):
    """Costs of outcomes in ticks, and the ends at which each resource saturates.

    Attributes
    ----------
    cost_OD : ndarray of int64, shape (O, D)
    floor_D, ceiling_D : ndarray of int64, shape (D,)
        `MINUS_INFINITY` and `PLUS_INFINITY` for none.
    saturates : bool
        Whether some resource has one of these ends.
    """

    cost_OD: NDArray[np.int64]
    floor_D: NDArray[np.int64]
    ceiling_D: NDArray[np.int64]
    saturates: bool

    @classmethod
    def of(cls, lattice: Lattice) -> TickCosts:
        """Return the costs of a lattice, read-only."""
        ends = read_only(lattice.floor_D), read_only(lattice.ceiling_D)
        return cls(read_only(lattice.cost_OD), *ends, lattice.saturates)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a read-only view of an array, or the array itself if it is read-only.

    Numba compiles a kernel once for read-only and once for writable members of a named tuple, so members that kernels
    only read are made read-only here.
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _read_only_arrays(*arrays: NDArray[Any]) -> ModelArrays:
    """Return arrays of a model that were pickled."""
    return ModelArrays(*(read_only(array) for array in arrays))
