"""One trial: an instance of the paper's family, one method, its result and its time.

Methods named "plain" are the transcription of the paper's algorithms; the others are those of `solvent.solve`. A time
is processor time on one thread, which is little affected by other work on the machine: the shortest of a few
repetitions, without building the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from solvent.core.threads import one_thread
from solvent.errors import ModelError
from solvent.experiments.runs import Row
from solvent.experiments.transcription import Plain, relative_length, smaller_budget, solve_approximate, solve_exact
from solvent.model import instances
from solvent.model.cmdp import CMDP
from solvent.solvers.solution import Solution
from solvent.solvers.solve import solve

#: Title of each method in figures and text.
METHODS = {
    "plain exact": "the paper's reduction, plain",
    "plain approximate": "the paper's approximation, plain",
    "plain accumulate": "the paper's approximation, f without its second case",
    "plain strict": "the paper's feasibility scheme, plain",
    "reduction": "Solvent, the paper's layers",
    "exact": "Solvent, exact",
    "approximate": "Solvent, approximation",
    "strict": "Solvent, strict",
}

#: Repeat until this many seconds are spent, or this many repetitions are made.
_PATIENCE, _MOST_REPETITIONS = 0.03, 20
#: Relative difference of values below which they are taken as equal: the order of additions differs.
SAME = 1e-9


@dataclass(frozen=True)
class Trial:
    """A configuration of one trial.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    horizon : int
    budget : float
        Read as a decimal number: 0.1 is one tenth.
    seed : int
        Random seed.
    epsilon : float or None
        Of the relative schemes; None for exact methods.
    digits : int or None
        Number of decimals to which costs are truncated; None for the doubles as drawn.
    """

    method: str
    horizon: int
    budget: float
    seed: int
    epsilon: float | None = None
    digits: int | None = None


@dataclass(frozen=True)
class Measured:
    """Result of a trial.

    Attributes
    ----------
    value : float
        Expected reward, as the method states it.
    seconds : float
        Processor time, on one thread.
    nodes : int
        Nodes, or points of frontiers, in all layers.
    spent : float or None
        The largest amount that the policy can have spent; None for plain methods.
    over : float or None
        The amount by which that exceeds the budget, computed exactly; None for plain methods.
    """

    value: float
    seconds: float
    nodes: int
    spent: float | None = None
    over: float | None = None


def seed_of(first: int, horizon: int, number: int) -> int:
    """Return the seed of a trial: different horizons have different seeds."""
    return first + 1000 * horizon + number


def measure(trial: Trial) -> Measured:
    """Run one trial.

    Raises
    ------
    ModelError
        If there is no such method, or its epsilon is missing.

    Examples
    --------
    >>> measure(Trial("exact", horizon=8, budget=2, seed=0)).value == measure(Trial("plain exact", 8, 2, 0)).value
    True
    """
    model = instances.paper(trial.horizon, trial.seed, budget=trial.budget, digits=trial.digits)
    if trial.method.startswith("plain"):
        seconds, found = _timed(partial(_plain, model, trial), least=1)
        return Measured(found.value, seconds, found.nodes)
    # the first repetition may load kernels from numba's cache
    seconds, solution = _timed(partial(_solve, model, trial), least=2)
    over = sum(solution.excess.values(), Fraction(0))
    spent = sum(solution.worst_spent.values(), Fraction(0))
    return Measured(solution.value, seconds, solution.stats.nodes, float(spent), float(over))


def prepare() -> None:
    """Load or compile every kernel that a trial uses."""
    for method in METHODS:
        if method.startswith("plain"):
            continue
        epsilon = 0.1 if method in ("approximate", "strict") else None
        for horizon, budget in ((4, 1.0), (12, 4.0), (30, 5.0)):
            if method != "reduction" or horizon < 30:
                _solve(instances.paper(horizon, 0, budget=budget), Trial(method, horizon, budget, 0, epsilon))


def _timed(call: Callable[[], Any], least: int) -> tuple[float, Any]:
    times: list[float] = []
    with one_thread():
        while len(times) < least or (sum(times) < _PATIENCE and len(times) < _MOST_REPETITIONS):
            began = time.process_time()
            found = call()
            times.append(time.process_time() - began)
    return min(times), found


def _solve(model: CMDP, trial: Trial) -> Solution:
    if trial.method == "exact":
        # if sums do not fit into 64 bits, costs are rounded both ways until the bounds meet, which proves the optimum
        solution = solve(model) if model.cost[0].fits else solve(model, gap=0)
        if solution.status != "optimal":
            raise ModelError(f"{trial}", "an optimum", str(solution))
        return solution
    if trial.method == "reduction":
        return solve(model, method="reduction", prune=False)
    if trial.method in ("approximate", "strict"):
        return solve(model, approximation="relative", epsilon=_epsilon(trial), strict=trial.method == "strict")
    raise _unknown(trial)


def _plain(model: CMDP, trial: Trial) -> Plain:
    if trial.method == "plain exact":
        return solve_exact(model)
    budget = smaller_budget(_epsilon(trial), trial.budget) if trial.method == "plain strict" else trial.budget
    if trial.method in ("plain approximate", "plain accumulate", "plain strict"):
        length = relative_length(_epsilon(trial), budget, trial.horizon)
        return solve_approximate(model, budget, length, truncate=trial.method != "plain accumulate")
    raise _unknown(trial)


def _epsilon(trial: Trial) -> float:
    if trial.epsilon is None:
        raise ModelError(f"{trial}", "an epsilon", "none")
    return trial.epsilon


def _unknown(trial: Trial) -> ModelError:
    return ModelError("method", f"one of {', '.join(METHODS)}", repr(trial.method))


class Results:
    """The rows of a study of trials, by configuration.

    Examples
    --------
    >>> trials = [Trial("exact", 4, 1, seed) for seed in (0, 1)]
    >>> results = Results([Row(trial, measure(trial)) for trial in trials])
    >>> len(results.pick("exact", horizon=4, budget=1))
    2
    """

    def __init__(self, rows: Iterable[Row[Trial, Measured]]) -> None:
        self._found: dict[tuple[str, int, float, float | None, int | None], dict[int, Measured]] = {}
        for row in rows:
            case = row.case
            key = (case.method, case.horizon, float(case.budget), case.epsilon, case.digits)
            self._found.setdefault(key, {})[case.seed] = row.result

    def __iter__(self) -> Iterator[tuple[Trial, Measured]]:
        for (method, horizon, budget, epsilon, digits), by_seed in self._found.items():
            for seed, measured in by_seed.items():
                yield Trial(method, horizon, budget, seed, epsilon, digits), measured

    def pick(
        self, method: str, horizon: int, budget: float, epsilon: float | None = None, digits: int | None = None
    ) -> list[Measured]:
        """Return the results of a method for one configuration, in the order of the seeds."""
        by_seed = self._found.get((method, horizon, float(budget), epsilon, digits), {})
        return [by_seed[seed] for seed in sorted(by_seed)]

    def slowest(self, method: str, horizon: int, budget: float, epsilon: float | None = None) -> float:
        """Return the longest time of all trials, as the paper reports it."""
        return max(each.seconds for each in self.pick(method, horizon, budget, epsilon))

    def largest(self, method: str, horizon: int, budget: float, epsilon: float | None = None) -> int:
        """Return the largest number of nodes of all trials."""
        return max(each.nodes for each in self.pick(method, horizon, budget, epsilon))


def same(a: float, b: float) -> bool:
    """Return whether two values are equal up to the order of additions."""
    return abs(a - b) <= SAME * max(1.0, abs(a), abs(b))
