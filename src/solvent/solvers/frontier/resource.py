"""The one limited resource of a problem, in the orientation in which frontiers and labels are computed.

Both methods count the amount `left`, which each outcome reduces by its cost, and which must be at least `least_left`
after each step. With upper limits, `left` is minus the amount spent. A resource with lower limits is the mirror image:
`left` is the amount spent itself, and costs change their sign. `SingleResource` is the only place that knows which.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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
    mirrored : bool
        Whether the limits are lower ones, so that the amount left is the amount spent. Kernels do not read it.
    """

    cost: NDArray[np.int64]
    least_left: NDArray[np.int64]
    mirrored: bool = False

    @classmethod
    def of(cls, lattice: Lattice) -> SingleResource:
        """Return the only resource of a lattice, which has upper limits or lower ones, but not both."""
        mirrored = bool((lattice.upper_HD == PLUS_INFINITY).all() and (lattice.lower_HD != MINUS_INFINITY).any())
        cost = np.ascontiguousarray(lattice.cost_OD[:, 0])
        if mirrored:
            lower = lattice.lower_HD[:, 0]
            return cls(-cost, lower.copy(), mirrored=True)
        upper = lattice.upper_HD[:, 0]
        return cls(cost, np.where(upper == PLUS_INFINITY, MINUS_INFINITY, -upper))

    def spent(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return amounts spent, given the amounts left of 0 at the start."""
        return left if self.mirrored else -left

    def range_left(self, low: int, high: int) -> tuple[int, int]:
        """Return the range of amounts left that corresponds to a range of amounts spent."""
        return (low, high) if self.mirrored else (-high, -low)

    def oriented(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Pair:
        """Return ranges of costs, or of sums of them, in this orientation; applied again, it gives them back."""
        if self.mirrored:
            low, high = -high, -low
        return np.ascontiguousarray(low), np.ascontiguousarray(high)

    @property
    def lookup(self) -> Literal["at_least", "at_most"]:
        """How a policy looks up the amount spent; see `AugmentedPolicy.from_nodes`."""
        return "at_least" if self.mirrored else "at_most"
