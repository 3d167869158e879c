"""The contract between `solve` and a solution method.

A solver takes a `Problem` and returns an `Answer`. Its policy keeps the limits of the problem, is worth at least
`Answer.lower`, and no policy that keeps them is worth more than `Answer.upper`. Whether costs were rounded before
is the concern of `solvent.solvers.transforms`, not of a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from solvent.core.engines import LOCAL, Engine
from solvent.core.limits import ResourceMonitor
from solvent.errors import SolventError
from solvent.model.lattice import Lattice
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.accuracy import AGREEMENT, Followed
from solvent.solvers.bounds.bounds import Interval
from solvent.solvers.problem import Problem
from solvent.solvers.solution import Stats


@dataclass(frozen=True)
class Answer:
    """What a solver found for a problem.

    Attributes
    ----------
    value : float
        The optimum of the problem as computed. Minus infinity if the problem is infeasible; then only `method` and
        `stats` have a meaning.
    lower, upper : float
        The policy is worth at least `lower`, and no policy is worth more than `upper`. Both contain every rounding
        error and every tolerance.
    method : str
        Name of the solver.
    stats : Stats
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least that the policy can have spent after each step, in ticks of `Problem.truth`.
    worst_is_exact : bool
        Whether these amounts are attained; otherwise they are bounds.
    make_policy : callable or None
        Returns the policy, for the user's model; None if the problem is infeasible.
    live_box : callable or None
        From the reduction: returns bounds on the amounts of all nodes of each step and state that are not dead ends.
    stopped : str
        The limit that ended the search before `upper` reached the value; empty if none did.
    noise_above, noise_below : float
        The part of the distance between the value and each bound that is due to rounding errors and tolerances.
    checked : bool
        Whether the policy was followed forward and found to be worth the value computed backward.
    """

    value: float
    lower: float
    upper: float
    method: str
    stats: Stats
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    worst_is_exact: bool
    make_policy: Callable[[], AugmentedPolicy] | None
    live_box: Callable[[], Interval] | None = None
    stopped: str = ""
    noise_above: float = 0.0
    noise_below: float = 0.0
    checked: bool = True

    @property
    def feasible(self) -> bool:
        """Whether there is a policy."""
        return self.make_policy is not None

    @classmethod
    def infeasible(cls, method: str, stats: Stats, problem: Problem) -> Answer:
        """Return the answer that no policy keeps the limits."""
        none = np.zeros((0, len(problem.limits.resources)), np.int64)
        return cls(-np.inf, -np.inf, -np.inf, method, stats, none, none, worst_is_exact=True, make_policy=None)


@dataclass(frozen=True)
class SolverOptions:
    """Options that transforms and callers pass to solvers; a solver ignores those that do not concern it.

    Attributes
    ----------
    arrays : bool or None
        Whether the frontier is swept as arrays (True) or kept as points (False); None lets it choose.
    resolution : float
        Values of points that differ by at most this are rounded down to one value.
    follow : int or None
        Number of nodes of one step up to which a frontier's policy is followed to find its true worst case; None for
        the default.
    prune : bool
        Whether the reduction leaves out doomed nodes and collapses settled resources.
    within : pair of ndarrays of int64, shape (H, S, D), or None
        Bounds on amounts outside which nodes are known to be dead ends; the reduction leaves these out.
    unfinished : bool
        Whether the best policy so far is returned if a limit ends the search; otherwise `LimitReached` is raised.
    spill : bool
        Whether values that do not fit into memory are kept on disk.
    """

    arrays: bool | None = None
    resolution: float = 0.0
    follow: int | None = None
    prune: bool = True
    within: Interval | None = None
    unfinished: bool = False
    spill: bool = False


@dataclass(frozen=True)
class Run:
    """One run of a solver: its time and memory limits, its options, and where it runs."""

    monitor: ResourceMonitor
    options: SolverOptions = field(default_factory=SolverOptions)
    engine: Engine = LOCAL


#: What to do instead if a solver does not accept a problem; and if that is because it has too many amounts.
_OTHER = 'use method="auto", which chooses the fastest method that accepts the problem'
FEWER_AMOUNTS = 'use method="auto", or gap=0.01 for a policy within 1 % of the optimum'


class Refusal(NamedTuple):
    """Why a solver does not accept a problem: what it expects, what it found, and what to do instead."""

    expected: str
    found: str
    hint: str = _OTHER

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


class Estimate(NamedTuple):
    """How much work a solver expects, and what it prepared to find that out.

    Attributes
    ----------
    work : float
        Relative to the reduction on the same problem, whose work is 1. Infinity if the solver should only run when it
        is asked for by name.
    prepared : object
        Passed on to `Solver.solve` if the solver is chosen, and to `Solver.discard` otherwise.
    """

    work: float
    prepared: Any = None


@runtime_checkable
class Solver(Protocol):
    """A solution method.

    Attributes
    ----------
    name : str
        The name that `solve(method=...)` takes and `solution.method` reports.
    summary : str
        One line for help texts and documentation.
    """

    name: str
    summary: str

    def accepts(self, problem: Problem) -> Refusal | None:
        """Return None if this solver can solve the problem, otherwise why it cannot."""

    def estimate(self, problem: Problem, run: Run) -> Estimate:
        """Return the expected work for a problem that was accepted."""

    def discard(self, prepared: Any, run: Run) -> None:
        """Release what `estimate` prepared, if another solver was chosen."""

    def solve(self, problem: Problem, run: Run, prepared: Any = None) -> Answer:
        """Solve a problem that was accepted.

        Raises
        ------
        LimitReached
            If time or memory runs out.
        """


def check_limits(lattice: Lattice, peak_HD: NDArray[np.int64], trough_HD: NDArray[np.int64]) -> None:
    """Raise unless amounts after each step keep the limits: the last check of every solver's policy."""
    kept = (peak_HD <= lattice.upper_HD) & (trough_HD >= lattice.lower_HD)
    if not kept.all():
        raise SolventError(
            f"the policy found breaks a limit at step {int(np.argwhere(~kept)[0][0])}; please report this"
        )


def check_value(value: float, followed: Followed, below: float, above: float) -> None:
    """Raise unless a policy, followed forward, is worth the value computed backward, up to the errors of both."""
    noise = AGREEMENT * followed.total + followed.floor + len(followed.size) * 2.0**-1060
    if not value - below - noise <= followed.value <= value + above + noise:
        raise SolventError(
            f"the policy is worth {followed.value!r} followed forward, but {value!r} was computed backward; "
            "please report this"
        )
