"""The effect of precision on speed and value: costs truncated to k decimals (`lem: precision`, `thm: fpt`).

The paper's lemma bounds the layers of its reduction by the precision of the costs. Here costs are truncated to 2, 4, 8
and 32 decimals, and the exact methods are timed on them. Sums of 32 decimals do not fit into 64 bits: the transcription
uses Python's unbounded integers, and Solvent rounds up and down until the two bounds meet (`gap=0`), which proves the
optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import Experiment, Facts, duration, percent, share
from solvent.experiments.trials import Measured, Results, Trial, same, seed_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("plain exact", "exact")


@dataclass(frozen=True)
class Precision(Experiment):
    """The figure and its arguments.

    Attributes
    ----------
    most : int
        The largest horizon; all from 1 are tried.
    budget : float
    digits : tuple of int
        Numbers of decimals to which costs are truncated.
    number : int
        Trials for each horizon and number of decimals.
    seed : int
        Seed of the first trial.
    """

    name: ClassVar[str] = "precision"
    description: ClassVar[str] = "costs truncated to k decimals (lem: precision)"

    most: int = 12
    budget: float = 4
    digits: tuple[int, ...] = (2, 4, 8, 32)
    number: int = 5
    seed: int = 0

    @classmethod
    def quick(cls) -> Precision:
        """Return the figure in a size for tests."""
        return cls(most=6, budget=2, digits=(2, 32), number=1)

    @property
    def horizons(self) -> range:
        """All horizons."""
        return range(1, self.most + 1)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials: for each number of decimals, and for the doubles as drawn."""
        for digits in (*self.digits, None):
            for horizon in self.horizons:
                for method in _METHODS:
                    for i in range(self.number):
                        seed = seed_of(self.seed, horizon, i)
                        yield Trial(method, horizon, float(self.budget), seed, digits=digits)

    def _pick(self, results: Results, method: str, horizon: int, digits: int | None) -> list[Measured]:
        return results.pick(method, horizon, self.budget, None, digits)

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        facts: Facts = {"budget": self.budget, "horizon": self.most, "cuts": []}
        for digits in self.digits:
            pairs = [
                (short.value, drawn.value)
                for h in self.horizons
                for short, drawn in zip(
                    self._pick(results, "exact", h, digits), self._pick(results, "exact", h, None), strict=True
                )
            ]
            agree = all(
                same(plain.value, ours.value)
                for h in self.horizons
                for plain, ours in zip(*(self._pick(results, m, h, digits) for m in _METHODS), strict=True)
            )
            last = {method: self._pick(results, method, self.most, digits) for method in _METHODS}
            cut = {
                "digits": digits,
                "trials": len(pairs),
                "agree": agree,
                "changed": sum(not same(*pair) for pair in pairs),
                "change": max(0.0 if same(*pair) else share(abs(pair[0] - pair[1]), pair[1]) for pair in pairs),
                "nodes": {method: max(m.nodes for m in found) for method, found in last.items()},
                "seconds": {method: max(m.seconds for m in found) for method, found in last.items()},
            }
            facts["cuts"].append(cut)
        return facts

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        few, many = facts["cuts"][0], facts["cuts"][-1]
        return (
            f"at H = {self.most} the plain reduction has {few['nodes']['plain exact']:,} nodes with {few['digits']} "
            f"decimals and {many['nodes']['plain exact']:,} with {many['digits']}, Solvent {few['nodes']['exact']:,} "
            f"and {many['nodes']['exact']:,} points; {few['digits']} decimals change the value in {few['changed']} of "
            f"{few['trials']} trials, by up to {percent(few['change'])}; with {many['digits']} decimals the optimum "
            f"takes {duration(many['seconds']['exact'])}"
        )

    def draw(self, results: Results) -> Figure:
        """Return the figure: nodes, times and the deviation of the value, with a color for each number of decimals."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(1, 3)
        with style.look():
            nodes, seconds, values = grid[0]
            for digits, color in zip(self.digits, style.CATEGORIES, strict=False):
                for method in _METHODS:
                    found = [self._pick(results, method, h, digits) for h in self.horizons]
                    who = "the paper's reduction, plain" if method.startswith("plain") else "Solvent, exact"
                    look = {"color": color, "label": f"{digits} decimals, {who}"}
                    plots.line(nodes, method, self.horizons, [max(m.nodes for m in each) for each in found], **look)
                    plots.line(seconds, method, self.horizons, [max(m.seconds for m in each) for each in found], **look)
                drawn = [self._pick(results, "exact", h, None) for h in self.horizons]
                off = [
                    max(100 * share(abs(a.value - b.value), b.value) for a, b in zip(cut, true, strict=True))
                    for cut, true in zip(found, drawn, strict=True)
                ]
                plots.line(values, "exact", self.horizons, off, color=color, label=f"{digits} decimals, {who}")
            plots.name_axes(nodes, "nodes or points", "", bottom=True, log="counts")
            plots.name_axes(seconds, "time", "", bottom=True, log="seconds")
            plots.name_axes(values, "value off, % (worst trial)", "", bottom=True)
            plots.legend_below(figure)
        return figure
