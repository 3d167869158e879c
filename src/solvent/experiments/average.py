"""The average case: how many points frontiers have in random families, and what noise does to the worst case.

The paper closes by asking for a smoothed or average-case analysis. All that the exact method on frontiers does is
proportional to the number of points, so these are counted: at the first step, as a function of the number of steps H,
family by family, without luck and with it (`growth`); and on the worst instance as noise is added (`smoothing`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solvent.experiments import families
from solvent.experiments.runs import Row, Study, run
from solvent.experiments.shapes import Shape, fit_shape
from solvent.model.cmdp import CMDP
from solvent.plan import frontier as frontiers
from solvent.plan.limits import Allowance

_LONG = (10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320)
_TOSSED = (6, 8, 10, 12, 14, 16, 18)


@dataclass(frozen=True)
class GrowthCase:
    """One problem of a family; the arguments of `families.draw`."""

    family: str
    luck: bool
    horizon: int
    seed: int


@dataclass(frozen=True)
class NoiseCase:
    """One instance with noise 2**-halvings; `instance` is "powers" or "prize" of `families`."""

    instance: str
    lucky: int
    horizon: int
    halvings: int
    seed: int


@dataclass(frozen=True)
class Points:
    """How many points a frontier has at the first step, in the first state, and at all steps in all states."""

    points: int
    total: int


@dataclass(frozen=True)
class Average:
    """Arguments of the study.

    Attributes
    ----------
    seeds : int
        Problems of each family and horizon.
    noise_seeds : int
        Instances for each amount of noise.
    quick : bool
        Leave out the longer horizons and most amounts of noise.
    """

    seeds: int = 20
    noise_seeds: int = 10
    quick: bool = False

    def growth(self) -> Study[GrowthCase, Points]:
        """Return the study of growth with the number of steps."""
        cases = tuple(
            GrowthCase(family, luck, horizon, seed)
            for (family, luck), horizons in self._horizons().items()
            for horizon in horizons
            for seed in range(self.seeds)
        )
        return Study("average-growth", cases, count_growth, Points, prepare)

    def smoothing(self) -> Study[NoiseCase, Points]:
        """Return the study of noise on the worst case."""
        cases = tuple(
            NoiseCase(instance, lucky, horizon, halvings, seed)
            for instance, lucky, horizon, most in self._noises()
            for halvings in range(0, most + 1, 4 if self.quick else 1)
            for seed in range(self.noise_seeds)
        )
        return Study("average-smoothing", cases, count_noise, Points, prepare)

    def _horizons(self) -> dict[tuple[str, bool], tuple[int, ...]]:
        """Return the horizons at which each family is drawn, without luck and with it."""
        even = tuple(range(4, 19, 2))
        plain = {
            "uniform": _LONG,
            "pareto": _LONG,
            "lognormal": _LONG,
            "states": _LONG,
            "near": _LONG[:9],
            "strong": (6, 8, 10, 13, 16, 20, 25, 30, 36, 42),
            "subset-sum": even,
        }
        tossed = dict.fromkeys(["uniform", "near", "strong", "subset-sum", "pareto", "lognormal", "states"], _TOSSED)
        every = {(family, False): h for family, h in plain.items()} | {(family, True): h for family, h in tossed.items()}
        return {key: h[:5] if self.quick else h for key, h in every.items()}

    def _noises(self) -> list[tuple[str, int, int, int]]:
        """Return instance, steps with luck, horizon and the most halvings of the noise."""
        if self.quick:
            return [("powers", 0, 10, 16), ("powers", 4, 10, 16), ("prize", 9, 10, 16)]
        plain = [("powers", 0, 10, 20), ("powers", 0, 20, 20), ("powers", 0, 40, 15), ("powers", 0, 80, 13)]
        tossed = [("powers", lucky, 16, 20) for lucky in (0, 2, 4, 8, 16)]
        return [*plain, *tossed, ("prize", 15, 16, 20)]


@dataclass(frozen=True)
class Averages:
    """The rows of both studies."""

    growth: list[Row[GrowthCase, Points]]
    smoothing: list[Row[NoiseCase, Points]]

    def grown(self) -> dict[tuple[str, bool], dict[int, list[int]]]:
        """Return by family and luck, and by horizon, the number of points of each trial."""
        found: dict[tuple[str, bool], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in self.growth:
            found[row.case.family, row.case.luck][row.case.horizon].append(row.result.points)
        return {key: dict(by_horizon) for key, by_horizon in found.items()}

    def smoothed(self) -> dict[tuple[str, int, int], dict[int, list[int]]]:
        """Return by instance, lucky steps and horizon, and by halvings of the noise, the points of each trial."""
        found: dict[tuple[str, int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in self.smoothing:
            case = row.case
            found[case.instance, case.lucky, case.horizon][case.halvings].append(row.result.points)
        return {key: dict(by_noise) for key, by_noise in found.items()}

    def shapes(self) -> dict[tuple[str, bool], Shape]:
        """Return how each family grows."""
        return {key: fit_shape(list(counts), list(counts.values())) for key, counts in self.grown().items()}


def measure(arguments: Average, folder: Path, jobs: int = 1, progress: bool = False, *, fresh: bool = False) -> Averages:
    """Count all points that have not been counted yet; see `runs.run`."""
    return Averages(
        run(arguments.growth(), folder, jobs, progress, fresh=fresh),
        run(arguments.smoothing(), folder, jobs, progress, fresh=fresh),
    )


def count_growth(case: GrowthCase) -> Points:
    """Count the points of a problem of a family.

    Examples
    --------
    >>> count_growth(GrowthCase("subset-sum", False, 10, seed=0)).points == 2**10
    True
    """
    return count(families.draw(case.family, case.horizon, case.seed, luck=case.luck))


def count_noise(case: NoiseCase) -> Points:
    """Count the points of an instance with noise."""
    noise = 2.0**-case.halvings
    if case.instance == "prize":
        return count(families.prize(case.horizon, noise, case.seed))
    return count(families.powers(case.horizon, noise, case.seed, lucky=case.lucky))


def count(model: CMDP) -> Points:
    """Count the points of the frontiers of a model of one resource, over all budgets that can matter.

    Examples
    --------
    >>> from solvent.model import instances
    >>> count(instances.knapsack([60, 100, 120], [10, 20, 30])).points
    7
    """
    cost = np.ascontiguousarray(model.cost[0].ticks, np.int64)
    most = max(0, frontiers.settled_need(model, cost))
    purse = frontiers.Purse(cost, np.zeros(model.horizon, np.int64), None, most)
    found = frontiers.build(model, purse, Allowance())
    return Points(len(found.start_need), sum(found.layer_sizes))


def prepare() -> None:
    """Compile, or load, what counts."""
    count(families.draw("uniform", 2, seed=0))
    count(families.draw("uniform", 2, seed=0, luck=True))
