"""Beyond the paper: the average number of points of a frontier as a function of the number of steps.

Each family of `families` is drawn many times at each horizon, deterministic and with random outcomes. In the
deterministic case the frontier of one state is the Pareto set of a knapsack, whose size is polynomial in expectation if
either costs or rewards have independent noise; with random outcomes it need not be. See `docs/average-case.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments import families, points
from solvent.experiments.experiment import Exhibit, Facts
from solvent.experiments.points import Lines, Points
from solvent.experiments.runs import Row, Study
from solvent.experiments.shapes import Shape, fit_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Title of each family in figures and text, from the fewest points to the most.
NAMES = {
    "states": "four states, uniform",
    "uniform": "uniform",
    "pareto": "heavy-tailed: Pareto",
    "lognormal": "heavy-tailed: lognormal",
    "near": "correlated",
    "strong": "strongly correlated",
    "subset-sum": "subset sum",
}
_LONG = (10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320)
_EVEN = (4, 6, 8, 10, 12, 14, 16, 18)
_STRONG = (6, 8, 10, 13, 16, 20, 25, 30, 36, 42)
#: Shorter lists of horizons, for families with more points than the others.
_SHORTER = {"near": _LONG[:-2], "strong": _STRONG, "subset-sum": _EVEN}


@dataclass(frozen=True)
class Case:
    """One problem: the arguments of `families.draw`."""

    family: str
    random: bool
    horizon: int
    seed: int


@dataclass(frozen=True)
class Average(Exhibit):
    """The figure and its arguments.

    Attributes
    ----------
    trials : int
        Problems of each family and horizon.
    longest, longest_random : int
        Skip longer horizons, but keep the first four.
    """

    name: ClassVar[str] = "average"
    description: ClassVar[str] = "points of a frontier against the horizon, in random families"

    trials: int = 20
    longest: int = 320
    longest_random: int = 18

    @classmethod
    def quick(cls) -> Average:
        """Return the figure in a size for tests."""
        return cls(trials=4, longest=28, longest_random=12)

    def horizons(self, family: str, random: bool) -> tuple[int, ...]:
        """Return the horizons at which a family is drawn: fewer for families with more points."""
        every = _EVEN[1:] if random else _SHORTER.get(family, _LONG)
        longest = self.longest_random if random else self.longest
        return every[: max(4, sum(h <= longest for h in every))]

    def cases(self) -> Iterator[Case]:
        """Yield all problems."""
        for random in (False, True):
            for family in NAMES:
                for horizon in self.horizons(family, random):
                    yield from (Case(family, random, horizon, seed) for seed in range(self.trials))

    def study(self) -> Study[Case, Points]:
        """Return the measurements to run."""
        return Study(self.name, tuple(self.cases()), measure, Points, points.prepare)

    def results(self, rows: Iterable[Row[Case, Points]]) -> Lines[tuple[str, bool]]:
        """Return the points of all trials, by family and kind (False: deterministic), and by horizon."""
        return points.lines(((row.case.family, row.case.random), row.case.horizon, row.result.points) for row in rows)

    def facts(self, results: Lines[tuple[str, bool]]) -> Facts:
        """Return the shape and the means of each family, without and with random outcomes."""
        return {
            "trials": self.trials,
            "without": {family: _facts(results[family, False]) for family in NAMES},
            "with": {family: _facts(results[family, True]) for family in NAMES},
        }

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        powers = [of["parameter"] for of in facts["without"].values() if of["shape"] == "power"]
        factors = [of["parameter"] for of in facts["with"].values() if of["shape"] == "exponential"]
        spread = f"H^{min(powers):.2f} to H^{max(powers):.2f}" if powers else "no power"
        growth = f"by factors of {min(factors):.2f} to {max(factors):.2f} per step" if factors else "more slowly"
        return (
            f"in deterministic models, points grow like {spread} in {len(powers)} of {len(NAMES)} families; with "
            f"random outcomes, they grow {growth} in {len(factors)} of {len(NAMES)}"
        )

    def table(self, facts: Facts) -> list[str]:
        """Return the fits as the lines of a Markdown table."""
        lines = [
            "| family | deterministic | H | mean points, largest H | random outcomes | H | mean points, largest H |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for family in reversed(NAMES):
            cells = [NAMES[family]]
            for side in ("without", "with"):
                of = facts[side][family]
                last = list(of["means"])[-1]
                cells += [describe(of), f"{of['from']} to {last}", f"{of['means'][last]:,.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def draw(self, results: Lines[tuple[str, bool]]) -> Figure:
        """Return the figure: deterministic models on the left, random outcomes on the right."""
        from solvent.experiments.point_plots import draw_average

        return draw_average(results, self.facts(results))


def measure(case: Case) -> Points:
    """Count the points of a problem.

    Examples
    --------
    >>> measure(Case("subset-sum", False, 10, seed=0)).points == 2**10
    True
    """
    return points.count(families.draw(case.family, case.horizon, case.seed, random=case.random))


def describe(fact: Facts) -> str:
    """Return a fitted shape as a formula for Markdown, with its interval.

    Examples
    --------
    >>> describe({"shape": "power", "parameter": 1.8483, "low": 1.803, "high": 1.889})
    '$H^{1.85}$ (1.80 to 1.89)'
    """
    forms = {"power": "$H^{{{:.2f}}}$", "root": "$e^{{{:.2f} \\sqrt{{H}}}}$", "exponential": "${:.2f}^H$"}
    return f"{forms[fact['shape']].format(fact['parameter'])} ({fact['low']:.2f} to {fact['high']:.2f})"


def _facts(counts: dict[int, list[int]]) -> Facts:
    horizons = list(counts)
    shape: Shape = fit_shape(horizons, list(counts.values()))
    return {
        "shape": shape.name,
        "parameter": round(shape.parameter, 6),
        "low": round(shape.low, 6),
        "high": round(shape.high, 6),
        "sure": shape.sure,
        "from": shape.since,
        "means": {str(h): points.mean(trials) for h, trials in counts.items()},
    }
