"""Beyond the paper: the same problems up to a horizon of 1000, solved exactly and by both schemes.

The paper's reduction, whose layers double with each step, ends at a horizon of 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import (
    Experiment,
    Facts,
    all_trials,
    duration,
    epsilon_of,
    growth_fact,
    percent,
    percent_off,
    power,
    share,
)
from solvent.experiments.trials import Results, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("exact", "approximate", "strict")


@dataclass(frozen=True)
class Far(Experiment):
    """The figure and its arguments.

    Attributes
    ----------
    horizons : tuple of int
    plain_horizons : tuple of int
        Horizons of the paper's reduction, with the fixed budget.
    budget : float
        The fixed budget, as in the paper.
    steps_per_unit : int
        Divisor of the horizon that gives the growing budget: 8 gives a quarter of the sum of all costs.
    epsilon : float
    number : int
        Trials for each horizon and budget.
    seed : int
        Seed of the first trial.
    """

    name: ClassVar[str] = "far"
    description: ClassVar[str] = "all methods up to a horizon of 1000"

    horizons: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000)
    plain_horizons: tuple[int, ...] = (10, 12, 14, 15, 16)
    budget: float = 10
    steps_per_unit: int = 8
    epsilon: float = 0.1
    number: int = 3
    seed: int = 0

    @classmethod
    def quick(cls) -> Far:
        """Return the figure in a size for tests."""
        return cls(horizons=(8, 16, 32, 64), plain_horizons=(4, 8), budget=5, number=1)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""
        yield from all_trials(["plain exact"], self.plain_horizons, self.budget, self.epsilon, self.number, self.seed)
        for horizon in self.horizons:
            for budget in self._budgets(horizon):
                yield from all_trials(_METHODS, [horizon], budget, self.epsilon, self.number, self.seed)

    def _budgets(self, horizon: int) -> tuple[float, float]:
        return self.budget, horizon / self.steps_per_unit

    def _names(self) -> dict[str, str]:
        return {"fixed": f"b = {self.budget:g}", "growing": f"b = H / {self.steps_per_unit}"}

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        facts: Facts = {"horizon": self.horizons[-1]}
        for kind, (key, name) in enumerate(self._names().items()):
            facts[key] = {"name": name, **self._facts_of(results, kind)}
        return facts

    def _facts_of(self, results: Results, kind: int) -> Facts:
        facts: Facts = {}
        for method in _METHODS:
            places = [(h, self._budgets(h)[kind]) for h in self.horizons]
            seconds = [results.slowest(method, h, b, epsilon_of(method, self.epsilon)) for h, b in places]
            nodes = [results.largest(method, h, b, epsilon_of(method, self.epsilon)) for h, b in places]
            last, budget = places[-1]
            found = results.pick(method, last, budget, epsilon_of(method, self.epsilon))
            exact = results.pick("exact", last, budget)
            facts[method] = {
                "seconds": seconds[-1],
                "nodes": nodes[-1],
                "growth": growth_fact(self.horizons, seconds),
                "growth_nodes": growth_fact(self.horizons, nodes),
                "off": max(share(abs(m.value - e.value), e.value) for m, e in zip(found, exact, strict=True)),
                "over": max(m.over or 0.0 for m in found) / budget,
            }
        return facts

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        last, parts = self.horizons[-1], []
        for key, name in self._names().items():
            exact, rough, safe = (facts[key][method] for method in _METHODS)
            parts.append(
                f"at {name} the optimum in {duration(exact['seconds'])} (time grows as {power(exact['growth'])}), the "
                f"approximation in {duration(rough['seconds'])}, {percent(rough['off'])} too high and "
                f"{percent(rough['over'])} over budget, the strict scheme in {duration(safe['seconds'])}, "
                f"{percent(safe['off'])} below"
            )
        return f"H = {last}: {'; '.join(parts)}"

    def draw(self, results: Results) -> Figure:
        """Return the figure: values, distances from the optimum and times, for a fixed and a growing budget."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(3, 2)
        with style.look():
            for kind, name in enumerate(self._names().values()):
                values, distances, times = (row[kind] for row in grid)
                for method in _METHODS:
                    picked = [
                        results.pick(method, h, self._budgets(h)[kind], epsilon_of(method, self.epsilon))
                        for h in self.horizons
                    ]
                    plots.line(values, method, self.horizons, [found[0].value for found in picked], linewidth=0.8)
                    slowest = [max(m.seconds for m in found) for found in picked]
                    plots.line(times, method, self.horizons, slowest)
                    if method == "exact":
                        optima = picked
                    off = [
                        max((percent_off(m.value, e.value) for m, e in zip(*pair, strict=True)), key=abs)
                        for pair in zip(picked, optima, strict=True)
                    ]
                    plots.line(distances, method, self.horizons, off)
                if not kind:
                    slowest = [results.slowest("plain exact", h, self.budget) for h in self.plain_horizons]
                    plots.line(times, "plain exact", self.plain_horizons, slowest)
                for axes in (values, distances, times):
                    axes.set_xscale("log")
                plots.name_axes(values, name, "" if kind else "value", bottom=False, log="counts")
                plots.name_axes(distances, "", "" if kind else "% off the optimum", bottom=False)
                plots.name_axes(times, "", "" if kind else "time", bottom=True, log="seconds")
            plots.legend_below(figure)
        return figure
