"""The network of a deterministic model: places that a path can visit, without steps where these do not matter.

In general a place is a pair of a step and a state that can be reached. The step does not matter if the model has one
table, if the limits are the same at all steps (the last one may be tighter), and if it never helps to visit a state
twice: because no path can, except by waiting (by a row that leads back to its state, costs nothing and earns nothing),
or because no row on a cycle has a positive reward or reduces an amount, and paths end in terminal states only. Then a
place is a state, and the number of steps is an amount like others, with the horizon as its limit, if it can be exceeded
at all. A path that ends before the last step in a state that is not terminal must have been able to wait somewhere; so
these paths have places of their own, at each of which they may end.

Limits are turned into *sides*, each with upper limits on an amount. Upper limits of a resource are a side whose amount
is what was spent; lower limits are a side whose amount is minus what was spent. A resource with both has two sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.solvers.arrays import ModelArrays
from solvent.solvers.labels import network_kernels as kernels


@dataclass(frozen=True)
class PathNetwork:
    """The network of a problem.

    Attributes
    ----------
    network : Network
    sides : Sides
    resource_K : ndarray of int64, shape (K,)
        The resource of each side; -1 for the number of steps.
    wait_of_state : ndarray of int64, shape (S,), or None
        If steps do not matter, the row by which to wait in each state, or -1; None if places have steps.
    bytes : int
        Memory that is reserved for it.
    """

    network: kernels.Network
    sides: kernels.Sides
    resource_K: NDArray[np.int64]
    wait_of_state: NDArray[np.int64] | None
    bytes: int

    @property
    def n_places(self) -> int:
        """Number of places V."""
        return len(self.network.end_value)

    @property
    def n_levels(self) -> int:
        """Number of levels L; a path has at most one arc less."""
        return len(self.network.level_indptr) - 1

    @classmethod
    def of(cls, model: CMDP, lattice: Lattice, monitor: ResourceMonitor) -> PathNetwork:
        """Return the network of a model with one first state whose rows have one outcome each.

        Raises
        ------
        LimitReached
            If memory runs out.
        """
        sides = _Sides.of(lattice)
        arrays, start = ModelArrays.of(model), model.start_index
        taken = 8 * model.n_rows * len(sides.sign)
        monitor.reserve(taken, "costs of both sides")
        cost_RK = np.ascontiguousarray(lattice.cost_OD[:, sides.resource] * sides.sign)
        if sides.is_constant and model.is_stationary and not lattice.saturates:
            most = 40 * model.n_rows + 150 * model.n_states
            with monitor.borrowed(most, "a network of states"):
                wait = _waits(model, lattice)
                gains = (model.row_reward > 0) | (cost_RK < 0).any(axis=1)
                *found, is_cyclic, may_exceed = kernels.collapse(
                    arrays, start, wait, sides.keeps_initial, gains, model.horizon
                )
            if len(found[4]) > 0:
                if may_exceed:
                    cost_RK = np.append(cost_RK, np.ones((len(cost_RK), 1), np.int64), axis=1)
                    sides = sides.with_steps(model.horizon)
                row_of_state = np.full(model.n_states, -1)
                rows = np.flatnonzero(wait)[::-1]
                row_of_state[model.next_state[rows]] = rows
                shape = (len(found[0]) - 1, len(sides.sign))
                limits, ends = np.broadcast_to(sides.limit_HK[0], shape), np.broadcast_to(sides.limit_HK[-1], shape)
                last_K = np.full(shape[1], shape[0])
                return cls._made(
                    model, found, cost_RK, sides, limits, ends, last_K, row_of_state, bool(is_cyclic), monitor, taken
                )
        most = 8 * model.horizon * (model.n_states + len(model.next_state)) // model.n_tables + 48 * model.horizon
        with monitor.borrowed(most, "a network of steps and states"):
            found = kernels.expand(arrays, start)
        limits = np.concatenate([np.full((1, len(sides.sign)), PLUS_INFINITY), sides.limit_HK])
        tail = np.minimum.accumulate(sides.limit_HK[::-1])[::-1]
        ends = np.concatenate([tail[:1], tail])
        finite = sides.limit_HK != PLUS_INFINITY
        last_K = model.horizon - np.argmax(finite[::-1], axis=0)
        return cls._made(model, found, cost_RK, sides, limits, ends, last_K, None, False, monitor, taken)

    @classmethod
    def _made(
        cls,
        model: CMDP,
        found: Sequence[NDArray[Any]],
        cost_RK: NDArray[np.int64],
        sides: _Sides,
        limit_LK: NDArray[np.int64],
        end_limit_LK: NDArray[np.int64],
        last_K: NDArray[np.int64],
        wait_of_state: NDArray[np.int64] | None,
        is_cyclic: bool,
        monitor: ResourceMonitor,
        taken: int,
    ) -> PathNetwork:
        """Return the network whose places and arcs a kernel found."""
        level_indptr, arc_indptr, tail, row, state, ends = found
        arrays = ModelArrays.of(model)
        kept = 8 * len(tail) + 36 * len(state) + 16 * limit_LK.size
        monitor.reserve(kept, "a network of places")
        end_value = np.where(ends, model.end_value[state], -np.inf)
        network = kernels.Network(
            level_indptr, arc_indptr[:-1], arc_indptr[1:].copy(), tail, row, arrays.row_reward,
            cost_RK, end_value, is_cyclic,
        )  # fmt: skip
        finite = np.where(sides.limit_HK == PLUS_INFINITY, MINUS_INFINITY, sides.limit_HK)
        last_limited = len(finite) - 1 - np.argmax((finite != MINUS_INFINITY)[::-1], axis=0)
        final_K = finite[last_limited, np.arange(len(sides.sign))]
        made = kernels.Sides(
            np.array(limit_LK, order="C"), np.array(end_limit_LK, order="C"), sides.initial_K, sides.floor_K,
            sides.ceiling_K, final_K, last_K,
        )  # fmt: skip
        return cls(network, made, sides.resource, wait_of_state, kept + taken)

    def with_waits(self, model: CMDP, row_T: NDArray[np.int64], *, horizon: int) -> NDArray[np.int64]:
        """Return the rows of each step, -1 once the episode is over, of a path without its waits; shape (H,)."""
        row_H = np.full(horizon, -1)
        row_H[: len(row_T)] = row_T
        if self.wait_of_state is None or len(row_T) == horizon:
            return row_H
        visited = np.append(model.start_index, model.next_state[row_T])
        if model.is_terminal(0, int(visited[-1])):
            return row_H
        can = self.wait_of_state[visited]
        if not self._start_waits:
            can[0] = -1
        at = int(np.argmax(can >= 0))
        longer = horizon - len(row_T)
        return np.concatenate([row_T[:at], np.full(longer, can[at]), row_T[at:]])

    @property
    def _start_waits(self) -> bool:
        return bool((self.sides.initial_K <= self.sides.limit_LK[0]).all())


@dataclass(frozen=True)
class _Sides:
    """The sides of a lattice.

    Attributes
    ----------
    resource : ndarray of int64, shape (K,)
    sign : ndarray of int64, shape (K,)
        1 for upper limits, -1 for lower ones.
    limit_HK : ndarray of int64, shape (H, K)
    initial_K, floor_K, ceiling_K : ndarray of int64, shape (K,)
    """

    resource: NDArray[np.int64]
    sign: NDArray[np.int64]
    limit_HK: NDArray[np.int64]
    initial_K: NDArray[np.int64]
    floor_K: NDArray[np.int64]
    ceiling_K: NDArray[np.int64]

    @classmethod
    def of(cls, lattice: Lattice) -> _Sides:
        upper = np.flatnonzero((lattice.upper_HD != PLUS_INFINITY).any(axis=0))
        lower = np.flatnonzero((lattice.lower_HD != MINUS_INFINITY).any(axis=0))
        resource = np.concatenate([upper, lower])
        sign = np.repeat([1, -1], [len(upper), len(lower)])
        limit_HK = np.concatenate([lattice.upper_HD[:, upper], _mirrored(lattice.lower_HD[:, lower])], axis=1)
        floor_K = np.concatenate([lattice.floor_D[upper], _mirrored(lattice.ceiling_D[lower])])
        ceiling_K = np.concatenate([lattice.ceiling_D[upper], _mirrored(lattice.floor_D[lower])])
        return cls(resource, sign, limit_HK, lattice.initial_D[resource] * sign, floor_K, ceiling_K)

    def with_steps(self, horizon: int) -> _Sides:
        """Return the sides with the number of steps as one more."""
        more = {
            "resource": -1, "sign": 1, "initial_K": 0, "floor_K": MINUS_INFINITY, "ceiling_K": PLUS_INFINITY,
        }  # fmt: skip
        fields = {name: np.append(getattr(self, name), amount) for name, amount in more.items()}
        steps = np.full((len(self.limit_HK), 1), horizon)
        return _Sides(limit_HK=np.append(self.limit_HK, steps, axis=1), **fields)

    @property
    def is_constant(self) -> bool:
        """Whether limits are the same at all steps; the last one may be tighter."""
        limit_HK = self.limit_HK
        return bool((limit_HK[:-1] == limit_HK[0]).all() and (limit_HK[-1] <= limit_HK[0]).all())

    @property
    def keeps_initial(self) -> bool:
        """Whether the amounts at the start keep the limits after the first step."""
        return bool((self.initial_K <= self.limit_HK[0]).all())


def _mirrored(amount: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the negatives of amounts; infinities, whose sum is -1, are exchanged."""
    infinite = (amount == PLUS_INFINITY) | (amount == MINUS_INFINITY)
    mirrored: NDArray[np.int64] = -amount - infinite
    return mirrored


def _waits(model: CMDP, lattice: Lattice) -> NDArray[np.bool_]:
    """Return whether each row leads back to its state, costs nothing and earns nothing."""
    state = np.repeat(np.arange(model.n_states), np.diff(model.row_indptr))
    waits: NDArray[np.bool_] = (model.next_state == state) & (model.row_reward == 0) & ~lattice.cost_OD.any(axis=1)
    return waits
