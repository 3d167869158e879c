"""The paper's figures `fig: value` and `fig: noviol_approx`: its approximation against its feasibility scheme.

For each horizon, the figure shows the trial in which the two are farthest apart. The optimum, which the paper could not
compute here, and a budget that binds at every horizon are added for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import (
    ByBudget,
    Facts,
    all_trials,
    duration,
    epsilon_of,
    growth_fact,
    percent,
    percent_off,
    share,
)
from solvent.experiments.trials import Measured, Results, Trial, same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("plain approximate", "plain strict", "exact", "approximate", "strict")


@dataclass(frozen=True)
class Value(ByBudget):
    """The figure and its arguments, besides those of `ByBudget`.

    Attributes
    ----------
    horizons : tuple of int
    number : int
        Trials for each horizon and budget.
    """

    name: ClassVar[str] = "value"
    description: ClassVar[str] = "the approximation against the feasibility scheme (fig: value, fig: noviol_approx)"

    horizons: tuple[int, ...] = (10, 20, 30, 40, 50)
    number: int = 10

    @classmethod
    def quick(cls) -> Value:
        """Return the figure in a size for tests."""
        return cls(horizons=(6, 12, 18), large=3, binding=1, number=2)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""
        for budget in self.budgets.values():
            yield from all_trials(_METHODS, self.horizons, budget, self.epsilon, self.number, self.seed)

    def _trios(self, results: Results, horizon: int, budget: float, *, plain: bool) -> list[tuple[Measured, ...]]:
        """Return for each trial the approximation, the feasibility scheme and the optimum."""
        names = ("plain approximate", "plain strict") if plain else ("approximate", "strict")
        columns = [results.pick(name, horizon, budget, self.epsilon) for name in names]
        return list(zip(*columns, results.pick("exact", horizon, budget), strict=True))

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        return {name: self._facts_of(results, budget) for name, budget in self.budgets.items()}

    def _facts_of(self, results: Results, budget: float) -> Facts:
        plain = [trio for h in self.horizons for trio in self._trios(results, h, budget, plain=True)]
        ours = [trio for h in self.horizons for trio in self._trios(results, h, budget, plain=False)]
        met = [(trio, own) for trio, own in zip(plain, ours, strict=True) if same(trio[0].value, trio[1].value)]
        slowest = {m: self.slowest(results, m, budget) for m in _METHODS}
        nodes = {
            m: [results.largest(m, h, budget, epsilon_of(m, self.epsilon)) for h in self.horizons] for m in _METHODS
        }
        over = [own[0].over or 0.0 for own in ours]
        apart = [share(a.value - n.value, a.value) for a, n, _ in plain]
        near = [each for each, by in zip(over, apart, strict=True) if by <= self.epsilon]
        return {
            "budget": budget,
            "epsilon": self.epsilon,
            "horizon": self.horizons[-1],
            "trials": len(plain),
            "apart": max(apart),
            "apart_ours": max(share(a.value - n.value, a.value) for a, n, _ in ours),
            "above": max(share(a.value - e.value, a.value) for a, _, e in plain),
            "below": max(share(e.value - n.value, e.value) for _, n, e in plain),
            "below_ours": max(share(e.value - n.value, e.value) for _, n, e in ours),
            "never_below_optimum": all(a.value >= e.value or same(a.value, e.value) for a, _, e in plain + ours),
            "never_above_optimum": all(n.value <= e.value or same(n.value, e.value) for _, n, e in plain + ours),
            "never_over": all(own[1].over == 0 for own in ours),
            "over": sum(each > 0 for each in over),
            "worst_over": max(over) / budget,
            "close": len(near),
            "close_over": sum(each > 0 for each in near),
            "close_worst": max(near, default=0.0) / budget,
            "coincide": len(met),
            "coincide_optimal": sum(same(trio[0].value, trio[2].value) for trio, _ in met),
            "coincide_over": sum((own[0].over or 0) > 0 for _, own in met),
            "seconds": {m: times[-1] for m, times in slowest.items()},
            "growth": {m: growth_fact(self.horizons, times) for m, times in slowest.items()},
            "growth_nodes": {m: growth_fact(self.horizons, counts) for m, counts in nodes.items()},
        }

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        parts = [f"{percent(facts[name]['apart'])} at b = {budget:g}" for name, budget in self.budgets.items()]
        last = facts["large"]
        return (
            f"approximation and feasibility scheme differ by at most {', '.join(parts)}; the approximation is over "
            f"budget in {last['over']} of {last['trials']} trials at b = {self.large:g}, by up to "
            f"{percent(last['worst_over'])}; the optimum itself takes {duration(last['seconds']['exact'])} at H = "
            f"{self.horizons[-1]}"
        )

    def draw(self, results: Results) -> Figure:
        """Return the figure: values, distances from the optimum and times, a column for each budget."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(3, len(self.budgets))
        with style.look():
            for column, (name, budget) in enumerate(self.budgets.items()):
                worst = [
                    max(self._trios(results, h, budget, plain=True), key=lambda trio: trio[0].value - trio[1].value)
                    for h in self.horizons
                ]
                values, distances, times = (row[column] for row in grid)
                approximate, strict, exact = zip(*worst, strict=True)
                plots.line(values, "plain approximate", self.horizons, [m.value for m in approximate])
                plots.line(values, "plain strict", self.horizons, [m.value for m in strict])
                plots.line(values, "exact", self.horizons, [m.value for m in exact], linewidth=0.8)
                for method, found in (("plain approximate", approximate), ("plain strict", strict)):
                    off = [percent_off(m.value, e.value) for m, e in zip(found, exact, strict=True)]
                    plots.line(distances, method, self.horizons, off)
                distances.axhline(0, color=style.BLUE, linewidth=0.8)
                for method in _METHODS:
                    plots.line(times, method, self.horizons, self.slowest(results, method, budget))
                plots.name_axes(values, self.heading(name), "value" if not column else "", bottom=False)
                plots.name_axes(distances, "", "% off the optimum" if not column else "", bottom=False)
                plots.name_axes(times, "", "time" if not column else "", bottom=True, log="seconds")
            plots.legend_below(figure)
        return figure
