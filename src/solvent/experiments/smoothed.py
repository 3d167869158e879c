"""Past the paper: what noise does to the instances whose frontiers are largest.

Without luck the largest frontier, with a point for each of 2**H subsets, shrinks as noise is added, to no more than
1 + H**2 / noise in expectation. Each step at which a coin decides takes some of that back, and there is an instance
with luck on which noise of density H and more does nothing. `docs/average-case.md` has the statements.
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

#: A line of the picture: instance, number of steps with luck, horizon.
Line = tuple[str, int, int]


@dataclass(frozen=True)
class Case:
    """One instance, with noise 2**-halvings: `families.powers` or `families.prize`."""

    instance: str
    lucky: int
    horizon: int
    halvings: int
    seed: int


@dataclass(frozen=True)
class Smoothed(Exhibit):
    """Its arguments.

    Attributes
    ----------
    horizons : tuple of int
        Of the instances without luck.
    luck : tuple of int
        Numbers of steps with luck.
    luck_horizon : int
        Of the instances with luck.
    most : int
        How often noise is halved.
    most_points : float
        Leave out less noise where the bound H**2 / noise, and 2**H, is beyond this.
    trials : int
        Instances for each amount of noise.
    """

    name: ClassVar[str] = "smoothed"
    description: ClassVar[str] = "points of the largest frontiers against noise"

    horizons: tuple[int, ...] = (10, 20, 40, 80)
    luck: tuple[int, ...] = (0, 2, 4, 8, 16)
    luck_horizon: int = 16
    most: int = 20
    most_points: float = 6e7
    trials: int = 10

    @classmethod
    def quick(cls) -> Smoothed:
        """Return it in a size for tests."""
        return cls(horizons=(8, 12), luck=(0, 4), luck_horizon=8, most=12, trials=4)

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the picture."""
        yield from (("powers", 0, horizon) for horizon in self.horizons)
        yield from (("powers", lucky, self.luck_horizon) for lucky in self.luck)
        yield "prize", self.luck_horizon - 1, self.luck_horizon

    def cases(self) -> Iterator[Case]:
        """Yield all instances."""
        for instance, lucky, horizon in self.lines():
            for halvings in range(self.most + 1):
                if min(bound(horizon, halvings), 2.0**horizon) <= self.most_points:
                    yield from (Case(instance, lucky, horizon, halvings, seed) for seed in range(self.trials))

    def study(self) -> Study[Case, Points]:
        """Return what is to be run."""
        return Study(self.name, tuple(self.cases()), measure, Points, points.prepare)

    def results(self, rows: Iterable[Row[Case, Points]]) -> Lines[Line]:
        """Return the points of all trials, by line and by how often noise is halved."""
        return points.lines(
            ((row.case.instance, row.case.lucky, row.case.horizon), row.case.halvings, row.result.points)
            for row in rows
        )

    def facts(self, results: Lines[Line]) -> Facts:
        """Return what the results show, as numbers."""
        prize = results["prize", self.luck_horizon - 1, self.luck_horizon]
        return {
            "trials": self.trials,
            "luck_horizon": self.luck_horizon,
            "plain": {str(h): _facts(h, results["powers", 0, h]) for h in self.horizons},
            "luck": {str(lucky): _means(results["powers", lucky, self.luck_horizon]) for lucky in self.luck},
            "prize": {"least": min(map(min, prize.values())), "most": max(map(max, prize.values()))},
        }

    def finding(self, facts: Facts) -> str:
        """Return what they show, as one line."""
        longest, prize = facts["plain"][str(self.horizons[-1])], facts["prize"]
        stays = f"{prize['least']:,}" if prize["least"] == prize["most"] else f"{prize['least']:,} to {prize['most']:,}"
        return (
            f"at H = {self.horizons[-1]} noise 1 leaves {longest['means']['0']:,.0f} points of 2^{self.horizons[-1]}, "
            f"and they grow like (1 / noise)^{longest['exponent']:.2f}; the prize, with luck "
            f"at every step but the last, has {stays} at every noise tried, of density H / noise on its costs (H = "
            f"{self.luck_horizon})"
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
                cells.append(f"(1 / noise)^{of['exponent']:.2f} ({of['low']:.2f} to {of['high']:.2f})")
                cells.append(f"1/{2 ** of['from']} to 1/{2 ** of['to']}")
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def luck_table(self, facts: Facts) -> list[str]:
        """Return the means with luck as the lines of a Markdown table."""
        shown = [k for k in ("0", "4", "8", "12", "16", "20") if int(k) <= self.most]
        noises = ["noise 1" if k == "0" else f"noise 1/{2 ** int(k)}" for k in shown]
        lines = [f"| steps with luck | {' | '.join(noises)} |", "| --- " * (1 + len(shown)) + "|"]
        for lucky, of in facts["luck"].items():
            cells = [lucky, *(f"{of[k]:,.0f}" for k in shown)]
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def draw(self, results: Lines[Line]) -> Figure:
        """Return the picture: without luck on the left, with it on the right."""
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
    return points.count(families.powers(case.horizon, noise, case.seed, lucky=case.lucky))


def bound(horizon: int, halvings: int) -> float:
    """Return the proved bound on the expected number of points without luck, 1 + H**2 / noise.

    Examples
    --------
    >>> bound(10, halvings=3)
    801.0
    """
    return 1 + horizon**2 * 2.0**halvings


def _facts(horizon: int, counts: dict[int, list[int]]) -> Facts:
    """Return means, and the exponent of 1 / noise between the ends, if there are enough amounts of noise between."""
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
