"""The paper's figure `fig: no_violation`: its feasibility scheme against its exact method, for small horizons.

For each horizon, the figure shows the trial in which the scheme is farthest below the optimum. A budget of 3, which
binds, and Solvent's strict policies, the better of two schemes, are added for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import ByBudget, Facts, all_trials, percent, ratio, share
from solvent.experiments.trials import Results, Trial, same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("plain exact", "plain strict", "exact", "strict")


@dataclass(frozen=True)
class NeverOver(ByBudget):
    """The figure and its arguments, besides those of `ByBudget`.

    Attributes
    ----------
    most : int
        The largest horizon; all from 1 are tried.
    number : int
        Trials for each horizon and budget.
    """

    name: ClassVar[str] = "never-over"
    description: ClassVar[str] = "the feasibility scheme against the exact method (fig: no_violation)"

    most: int = 14
    number: int = 5

    @classmethod
    def quick(cls) -> NeverOver:
        """Return the figure in a size for tests."""
        return cls(most=5, large=5, binding=1, number=2)

    @property
    def horizons(self) -> range:
        """All horizons."""
        return range(1, self.most + 1)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""
        for budget in self.budgets.values():
            yield from all_trials(_METHODS, self.horizons, budget, self.epsilon, self.number, self.seed)

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        return {name: self._facts_of(results, budget) for name, budget in self.budgets.items()}

    def _facts_of(self, results: Results, budget: float) -> Facts:
        plain, ours, exact = [], [], []
        for horizon in self.horizons:
            plain += [m.value for m in results.pick("plain strict", horizon, budget, self.epsilon)]
            ours += results.pick("strict", horizon, budget, self.epsilon)
            exact += [m.value for m in results.pick("plain exact", horizon, budget)]
        return {
            "budget": budget,
            "horizon": self.most,
            "trials": len(exact),
            "optimal": sum(same(n, e) for n, e in zip(plain, exact, strict=True)),
            "optimal_ours": sum(same(n.value, e) for n, e in zip(ours, exact, strict=True)),
            "below": max(share(e - n, e) for n, e in zip(plain, exact, strict=True)),
            "below_ours": max(share(e - n.value, e) for n, e in zip(ours, exact, strict=True)),
            "never_over": all(n.over == 0 for n in ours),
            "seconds": {method: self.slowest(results, method, budget)[-1] for method in _METHODS},
        }

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        parts = []
        for name, budget in self.budgets.items():
            found = facts[name]
            worst = percent(found["below"])
            parts.append(f"{found['optimal']} of {found['trials']} trials at b = {budget:g} (worst {worst} below)")
        seconds = facts["large"]["seconds"]
        scheme, ours = (ratio(seconds["plain exact"], seconds[method]) for method in ("plain strict", "exact"))
        return (
            f"the feasibility scheme is optimal in {', '.join(parts)}; at H = {self.most} and b = {self.large:g} the "
            f"plain reduction takes {scheme} as long as it, and {ours} as long as Solvent's exact method"
        )

    def draw(self, results: Results) -> Figure:
        """Return the figure: values of the trial farthest below above, times below, a column for each budget."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(2, len(self.budgets))
        with style.look():
            for column, (name, budget) in enumerate(self.budgets.items()):
                values, times = (row[column] for row in grid)
                worst = []
                for horizon in self.horizons:
                    trios = zip(
                        results.pick("plain strict", horizon, budget, self.epsilon),
                        results.pick("strict", horizon, budget, self.epsilon),
                        results.pick("exact", horizon, budget),
                        strict=True,
                    )
                    worst.append(max(trios, key=lambda trio: trio[2].value - trio[0].value))
                for i, method in enumerate(("plain strict", "strict", "exact")):
                    plots.line(values, method, self.horizons, [trio[i].value for trio in worst], linewidth=0.8)
                for method in _METHODS:
                    plots.line(times, method, self.horizons, self.slowest(results, method, budget))
                plots.name_axes(values, self.heading(name), "" if column else "value, worst trial", bottom=False)
                plots.name_axes(times, "", "" if column else "time", bottom=True, log="seconds")
            plots.legend_below(figure)
        return figure
