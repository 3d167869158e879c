"""The base class of adapters, and problems with one state, which several of them read."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import solvent
from bench.peers.workloads import Workload
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice


@dataclass
class Built:
    """A problem in a peer's own form.

    Attributes
    ----------
    handle : object
        The peer's object.
    states : int
        Number of states, nodes, points or variables that the peer works on; 0 if not yet known.
    augment : float
        Seconds of the build spent in `solvent.augment`. They count, since the peer needs its result.
    writing : float
        Seconds of the building in which the adapter wrote the peer's input. They do not count.
    keep : object
        What is needed to read the answer.
    """

    handle: Any
    states: int = 0
    augment: float = 0.0
    writing: float = 0.0
    keep: Any = None


@dataclass
class Answer:
    """The answer of a peer: a value, and the object that its policy is read from."""

    value: float
    found: Any = None


class Adapter(ABC):
    """A peer.

    Attributes
    ----------
    title : str
        Title in tables.
    package : str
        Package whose version is reported.
    about : str
        How the problem is translated.
    tolerance : float
        How far its value may be from ours, relatively: 1e-9, or what the peer itself promises.
    """

    title: ClassVar[str]
    package: ClassVar[str]
    about: ClassVar[str]
    tolerance: ClassVar[float] = 1e-9

    @property
    def version(self) -> str:
        """Version of the peer."""
        return importlib.metadata.version(self.package)

    @abstractmethod
    def can(self, workload: Workload) -> str | None:
        """Return why the peer does not support a workload; None if it does."""

    @abstractmethod
    def build(self, workload: Workload) -> Built:
        """Return the problem in the peer's form."""

    @abstractmethod
    def solve(self, built: Built) -> Answer:
        """Return the peer's answer."""

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the peer's policy in a form that `solvent.verify` accepts; None if it returns only a value."""
        return None


class OfThisTree(Adapter):
    """A peer in this source tree, which supports every workload."""

    package = "solvent"

    @property
    def version(self) -> str:
        """Version of this tree, installed or not."""
        return solvent.__version__

    def can(self, workload: Workload) -> str | None:
        """Return None: every workload is supported."""
        return None


def is_steady(workload: Workload) -> bool:
    """Return whether rows and limits are the same at every step."""
    lattice = lattice_of(workload)
    same = (lattice.upper_HD == lattice.upper_HD[0]).all() and (lattice.lower_HD == lattice.lower_HD[0]).all()
    return workload.problem.is_stationary and bool(same)


def lattice_of(workload: Workload) -> Lattice:
    """Return a workload's costs and limits in ticks."""
    return Lattice.fit(workload.problem, resolve(workload.problem, None))


@dataclass(frozen=True)
class OneState:
    """A problem with one state and no randomness: one choice at each step, with a reward and a cost.

    Attributes
    ----------
    step, action : ndarray of int, shape (N,)
        Of each choice.
    reward : ndarray of float64, shape (N,)
    cost_ND : ndarray of int64, shape (N, D)
        In ticks.
    upper_HD : ndarray of int64, shape (H, D)
        What may have been spent after each step, in ticks.
    units : tuple of Fraction
        What a tick is worth.
    """

    step: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    cost_ND: NDArray[np.int64]
    upper_HD: NDArray[np.int64]
    units: tuple[Fraction, ...]

    @property
    def ends_decide(self) -> bool:
        """Whether only the total cost matters, since costs are not negative and limits are constant."""
        return bool((self.cost_ND >= 0).all() and (self.upper_HD == self.upper_HD[0]).all())

    def policy(self, workload: Workload, taken: NDArray[np.bool_]) -> Any:
        """Return the policy that makes the given choices, one at each step."""
        chosen = np.flatnonzero(taken)
        if not np.array_equal(self.step[chosen], np.arange(workload.problem.horizon)):
            raise AssertionError("not exactly one choice at each step")
        actions = [workload.problem.actions[a] for a in self.action[chosen]]
        return lambda step, state, spent: actions[step]


def why_not_one_state(workload: Workload) -> str | None:
    """Return why a workload is not a problem with one state and no randomness; None if it is."""
    model = workload.problem
    if model.n_states != 1:
        return f"{model.n_states} states: it solves packing problems only"
    if model.n_outcomes != model.n_rows:
        return "random outcomes: it solves packing problems only"
    if (lattice_of(workload).lower_HD != MINUS_INFINITY).any():
        return "lower limits"
    return None


def one_state(workload: Workload) -> OneState:
    """Return a workload as a problem with one state."""
    model, lattice = workload.problem, lattice_of(workload)
    assert not (lattice.upper_HD == PLUS_INFINITY).any()
    choices = [(h, int(r)) for h in range(model.horizon) for r in model.rows(h, 0)]
    rows = np.array([row for _, row in choices])
    return OneState(
        np.array([step for step, _ in choices]),
        model.row_action[rows].astype(np.int64),
        model.row_reward[rows],
        lattice.cost_OD[model.outcome_indptr[rows]],
        lattice.upper_HD,
        lattice.units,
    )


def whole_rewards(reward: NDArray[np.float64]) -> tuple[list[int], Fraction]:
    """Return rewards as integer multiples of an exact unit: doubles are multiples of a power of two."""
    exact = [Fraction(float(r)) for r in reward]
    denominator = max((r.denominator for r in exact), default=1)
    return [int(r * denominator) for r in exact], Fraction(1, denominator)
