"""Beyond the paper: the effect of noise on the instances with the largest frontiers.

In a deterministic model the largest frontier, with a point for each of 2**H subsets, shrinks as noise is added, to at
most 1 + H**2 / noise points in expectation. Each step with a random outcome makes it larger again, and there is an
instance with random outcomes on which noise of density H or more has no effect. See `docs/average-case.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments import families, points
from solvent.experiments.experiment import Exhibit, Facts
from solvent.experiments.points import Lines, Points, mean
from solvent.experiments.runs import Row, Study
from solvent.experiments.shapes import fit_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A line of the figure: instance, number of steps with random outcomes, horizon.
Line = tuple[str, int, int]


@dataclass(frozen=True)
class Case:
    """One instance, with noise 2**-halvings: `families.powers` or `families.prize`."""

    instance: str
    random_steps: int
    horizon: int
    halvings: int
    seed: int


@dataclass(frozen=True)
class Smoothed(Exhibit):
    """The figure and its arguments.

    Attributes
    ----------
    horizons : tuple of int
        Horizons of the deterministic instances.
    random_counts : tuple of int
        Numbers of steps with random outcomes.
    random_horizon : int
        Horizon of the instances with random outcomes.
    most : int
        Largest number of times that noise is halved.
    most_points : float
        Skip levels of noise at which both the bound H**2 / noise and 2**H exceed this.
    trials : int
        Instances for each level of noise.
    """

    name: ClassVar[str] = "smoothed"
    description: ClassVar[str] = "points of the largest frontiers against noise"

    horizons: tuple[int, ...] = (10, 20, 40, 80)
    random_counts: tuple[int, ...] = (0, 2, 4, 8, 16)
    random_horizon: int = 16
    most: int = 20
    most_points: float = 6e7
    trials: int = 10

    @classmethod
    def quick(cls) -> Smoothed:
        """Return the figure in a size for tests."""
        return cls(horizons=(8, 12), random_counts=(0, 4), random_horizon=8, most=12, trials=4)

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the figure."""
        yield from (("powers", 0, horizon) for horizon in self.horizons)
        yield from (("powers", random_steps, self.random_horizon) for random_steps in self.random_counts)
        yield "prize", self.random_horizon - 1, self.random_horizon

    def cases(self) -> Iterator[Case]:
        """Yield all instances."""
        for instance, random_steps, horizon in self.lines():
            for halvings in range(self.most + 1):
                if min(bound(horizon, halvings), 2.0**horizon) <= self.most_points:
                    yield from (Case(instance, random_steps, horizon, halvings, seed) for seed in range(self.trials))

    def study(self) -> Study[Case, Points]:
        """Return the measurements to run."""
        return Study(self.name, tuple(self.cases()), measure, Points, points.prepare)

    def results(self, rows: Iterable[Row[Case, Points]]) -> Lines[Line]:
        """Return the points of all trials, by line and by the number of times that noise is halved."""
        return points.lines(
            ((row.case.instance, row.case.random_steps, row.case.horizon), row.case.halvings, row.result.points)
            for row in rows
        )

    def facts(self, results: Lines[Line]) -> Facts:
        """Return the facts that the results show, as numbers."""
        prize = results["prize", self.random_horizon - 1, self.random_horizon]
        return {
            "trials": self.trials,
            "random_horizon": self.random_horizon,
            "plain": {str(h): _facts(h, results["powers", 0, h]) for h in self.horizons},
            "random": {
                str(random_steps): _means(results["powers", random_steps, self.random_horizon])
                for random_steps in self.random_counts
            },
            "prize": {"least": min(map(min, prize.values())), "most": max(map(max, prize.values()))},
        }

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        longest, prize = facts["plain"][str(self.horizons[-1])], facts["prize"]
        stays = f"{prize['least']:,}" if prize["least"] == prize["most"] else f"{prize['least']:,} to {prize['most']:,}"
        return (
            f"at H = {self.horizons[-1]} noise 1 leaves {longest['means']['0']:,.0f} points of 2^{self.horizons[-1]}, "
            f"and they grow like (1 / noise)^{longest['exponent']:.2f}; the prize instance, with "
            f"random outcomes at every step but the last, has {stays} at every level of noise tried, of density H / "
            f"noise on its costs (H = "
            f"{self.random_horizon})"
        )

    def table(self, facts: Facts) -> list[str]:
        """Return the fits as the lines of a Markdown table."""
        lines = [
            "| H | noise 1 | noise 1/16 | noise 1/256 | noise 1/4096 | growth | fitted from |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for horizon, of in facts["plain"].items():
            cells = [horizon, *(f"{of['means'][k]:,.0f}" if k in of["means"] else "" for k in ("0", "4", "8", "12"))]
            if of["exponent"] is None:
                cells += ["", ""]
            else:
                power = f"$(1 / \\text{{noise}})^{{{of['exponent']:.2f}}}$"
                cells.append(f"{power} ({of['low']:.2f} to {of['high']:.2f})")
                cells.append(f"1/{2 ** of['from']} to 1/{2 ** of['to']}")
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def random_table(self, facts: Facts) -> list[str]:
        """Return the means of instances with random outcomes as the lines of a Markdown table."""
        shown = [k for k in ("0", "4", "8", "12", "16", "20") if int(k) <= self.most]
        noises = ["noise 1" if k == "0" else f"noise 1/{2 ** int(k)}" for k in shown]
        lines = [f"| random steps | {' | '.join(noises)} |", "| --- " * (1 + len(shown)) + "|"]
        for random_steps, of in facts["random"].items():
            cells = [random_steps, *(f"{of[k]:,.0f}" for k in shown)]
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def draw(self, results: Lines[Line]) -> Figure:
        """Return the figure: deterministic instances on the left, random outcomes on the right."""
        from solvent.experiments.point_plots import draw_smoothed

        return draw_smoothed(results, self.facts(results))


def measure(case: Case) -> Points:
    """Count the points of an instance.

    Examples
    --------
    >>> measure(Case("powers", 0, 10, halvings=20, seed=0)).points == 2**10
    True
    >>> measure(Case("prize", 9, 10, halvings=0, seed=0)).points == 2**9 + 1
    True
    """
    noise = 2.0**-case.halvings
    if case.instance == "prize":
        return points.count(families.prize(case.horizon, noise, case.seed))
    return points.count(families.powers(case.horizon, noise, case.seed, random_steps=case.random_steps))


def bound(horizon: int, halvings: int) -> float:
    """Return the proved bound on the expected number of points of a deterministic instance, 1 + H**2 / noise.

    Examples
    --------
    >>> bound(10, halvings=3)
    801.0
    """
    return 1 + horizon**2 * 2.0**halvings


def _facts(horizon: int, counts: dict[int, list[int]]) -> Facts:
    """Return means, and the exponent of 1 / noise away from both ends, if there are enough levels of noise there."""
    means = _means(counts)
    floor, roof = 2 * means["0"], 2.0**horizon / 4
    between = [k for k, trials in counts.items() if floor <= mean(trials) <= roof]
    if len(between) < 4:
        return {"exponent": None, "means": means}
    fit = fit_shape([2**k for k in between], [counts[k] for k in between], name="power")
    return {
        "exponent": round(fit.parameter, 6),
        "low": round(fit.low, 6),
        "high": round(fit.high, 6),
        "from": fit.since.bit_length() - 1,
        "to": between[-1],
        "means": means,
    }


def _means(counts: dict[int, list[int]]) -> dict[str, float]:
    return {str(k): mean(trials) for k, trials in counts.items()}
