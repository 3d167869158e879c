"""The one limited resource of a problem, in the orientation in which frontiers and labels are computed.

Both methods count the amount `left`, which each outcome reduces by its cost, which is never more than `most_left`,
where the resource saturates, and which must be at least `least_left` after each step. With upper limits, `left` is
minus the amount spent. A resource with lower limits is the mirror image: `left` is the amount spent itself, and costs
change their sign. `SingleResource` is the only place that knows which.

Saturation at the other end matters only if a limit lies beyond it; then these methods do not apply (`cut_short`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.lattice import Lattice

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


class SingleResource(NamedTuple):
    """Costs and limits of one resource, in ticks; kernels take it as it is.

    Attributes
    ----------
    cost : ndarray of int64, shape (O,)
        By how much each outcome reduces the amount left.
    least_left : ndarray of int64, shape (H,)
        The least amount that must be left after each step; `MINUS_INFINITY` where there is no limit.
    most_left : int
        The most that can be left; `PLUS_INFINITY` if the resource does not saturate.
    initial_left : int
        The amount left before the first step.
    mirrored : bool
        Whether the limits are lower ones, so that the amount left is the amount spent. Kernels do not read it.
    """

    cost: NDArray[np.int64]
    least_left: NDArray[np.int64]
    most_left: int = PLUS_INFINITY
    initial_left: int = 0
    mirrored: bool = False

    @classmethod
    def of(cls, lattice: Lattice) -> SingleResource:
        """Return the only resource of a lattice, which has upper limits or lower ones, but not both."""
        upper, cost = lattice.upper_HD[:, 0], np.ascontiguousarray(lattice.cost_OD[:, 0])
        limited = upper != PLUS_INFINITY
        if not limited[-1] and not limited.any() and (lattice.lower_HD != MINUS_INFINITY).any():
            lower = lattice.lower_HD[:, 0]
            return cls(-cost, lower.copy(), int(lattice.ceiling_D[0]), int(lattice.initial_D[0]), mirrored=True)
        least_left = ~upper + limited  # minus the limit; plus infinity becomes minus infinity
        floor = int(lattice.floor_D[0])
        most_left = PLUS_INFINITY if floor == MINUS_INFINITY else -floor
        return cls(cost, least_left, most_left, -int(lattice.initial_D[0]))

    @staticmethod
    def cut_short(lattice: Lattice) -> bool:
        """Return whether the only resource saturates where little is left, before a limit can be broken."""
        floor, ceiling = int(lattice.floor_D[0]), int(lattice.ceiling_D[0])
        if (lattice.lower_HD == MINUS_INFINITY).all():
            return ceiling != PLUS_INFINITY and bool((lattice.upper_HD >= ceiling).any())
        return floor != MINUS_INFINITY and bool((lattice.lower_HD <= floor).any())

    def from_zero(self) -> SingleResource:
        """Return the same resource with amounts counted from the initial one, which is then 0; it must not saturate."""
        if self.initial_left == 0:
            return self
        open_end = self.least_left == MINUS_INFINITY
        least_left = np.where(open_end, MINUS_INFINITY, np.where(open_end, 0, self.least_left) - self.initial_left)
        return self._replace(least_left=least_left, initial_left=0)

    def spent(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return amounts spent, given amounts left."""
        return left if self.mirrored else -left

    def range_left(self, low: int, high: int) -> tuple[int, int]:
        """Return the range of amounts left that corresponds to a range of amounts spent."""
        return (low, high) if self.mirrored else (-high, -low)

    def oriented(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Pair:
        """Return ranges of costs, or of sums of them, in this orientation; applied again, it gives them back."""
        if self.mirrored:
            low, high = -high, -low
        return np.ascontiguousarray(low), np.ascontiguousarray(high)
