"""The paper's figure `fig: approx`: its approximation against its exact method, for small horizons.

With a budget of 10 and at most 16 costs below 1 the budget hardly binds; a budget of 3, which binds, is added for
comparison. So are Solvent's exact method, the paper's layers in compiled code, and the instance with H = B = 15 whose
time the paper's text states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import ByBudget, Facts, all_trials, duration, epsilon_of
from solvent.experiments.fitting import fit_factor
from solvent.experiments.trials import Results, Trial, same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("plain exact", "plain approximate", "reduction", "exact", "approximate")
_EXACT = ("plain exact", "reduction", "exact")


@dataclass(frozen=True)
class Approximation(ByBudget):
    """The figure and its arguments, besides those of `ByBudget`.

    Attributes
    ----------
    most : int
        The largest horizon; all from 1 are tried.
    text_horizon : int
        The horizon and the budget of the instance whose time the paper's text states.
    beyond : int
        A horizon that the paper calls too large for its exact method; run only with the paper's layers in compiled
        code.
    number : int
        Trials for each horizon and budget.
    """

    name: ClassVar[str] = "approximation"
    description: ClassVar[str] = "the approximation against the exact method (fig: approx)"

    most: int = 16
    text_horizon: int = 15
    beyond: int = 20
    number: int = 5

    @classmethod
    def quick(cls) -> Approximation:
        """Return the figure in a size for tests."""
        return cls(most=6, large=6, binding=1, text_horizon=5, beyond=10, number=2)

    @property
    def horizons(self) -> range:
        """All horizons."""
        return range(1, self.most + 1)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""
        for budget in self.budgets.values():
            yield from all_trials(_METHODS, self.horizons, budget, self.epsilon, self.number, self.seed)
        text = self.text_horizon
        yield from all_trials(_EXACT, [text], text, self.epsilon, self.number, self.seed)
        beyond = ("reduction", "exact")
        yield from all_trials(beyond, [self.beyond], self.large, self.epsilon, self.number, self.seed)

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        facts: Facts = {name: self._facts_of(results, budget) for name, budget in self.budgets.items()}
        text, beyond = self.text_horizon, self.beyond
        facts["text"] = {
            "horizon": text,
            "nodes": results.largest("plain exact", text, text),
            "seconds": {method: results.slowest(method, text, text) for method in _EXACT},
        }
        facts["beyond"] = {
            "horizon": beyond,
            "nodes": results.largest("reduction", beyond, self.large),
            "seconds": {method: results.slowest(method, beyond, self.large) for method in ("reduction", "exact")},
        }
        return facts

    def _facts_of(self, results: Results, budget: float) -> Facts:
        matched, closest, over, values = 0, 0, [], []
        for horizon in self.horizons:
            approximate = results.pick("plain approximate", horizon, budget, self.epsilon)
            exact = results.pick("plain exact", horizon, budget)
            values += [e.value / horizon for e in exact]
            hits = [same(a.value, e.value) for a, e in zip(approximate, exact, strict=True)]
            matched, closest = matched + sum(hits), closest + any(hits)
            over += [m.over or 0.0 for m in results.pick("approximate", horizon, budget, self.epsilon)]
        seconds = {method: self.slowest(results, method, budget) for method in _METHODS}
        nodes = [results.largest("plain exact", h, budget) for h in self.horizons]
        whole = [m.nodes == 2**self.most - 1 for m in results.pick("plain exact", self.most, budget)]
        return {
            "budget": budget,
            "horizon": self.most,
            "trials": len(over),
            "most_per_step": max(values),
            "matched": matched,
            "matched_closest": closest,
            "agree": self._agree(results, budget),
            "over": sum(each > 0 for each in over),
            "worst_over": max(over) / budget,
            "seconds": {method: times[-1] for method, times in seconds.items()},
            "nodes": nodes[-1],
            "all_subsets": f"{sum(whole)} of {len(whole)}",
            "factor": fit_factor(self.horizons, seconds["plain exact"]),
            "factor_nodes": fit_factor(self.horizons, nodes),
        }

    def _agree(self, results: Results, budget: float) -> bool:
        """Return whether all exact methods agree on the value, and both approximations do."""
        for horizon in self.horizons:
            for names in (_EXACT, ("plain approximate", "approximate")):
                columns = [
                    [m.value for m in results.pick(n, horizon, budget, epsilon_of(n, self.epsilon))] for n in names
                ]
                if not all(same(value, column[i]) for column in columns for i, value in enumerate(columns[0])):
                    return False
        return True

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        large, binding = facts["large"], facts["binding"]
        plain, rough, ours = (
            duration(large["seconds"][method]) for method in ("plain exact", "plain approximate", "exact")
        )
        return (
            f"at H = {self.most} and b = {self.large:g} the plain reduction takes {plain}, the plain approximation "
            f"{rough} and Solvent's exact method {ours}; the approximation has the optimal value in {large['matched']} "
            f"of {large['trials']} trials there, and in {binding['matched']} of {binding['trials']} at b = "
            f"{self.binding:g}, which binds"
        )

    def draw(self, results: Results) -> Figure:
        """Return the figure: values of the closest trial above, times below, a column for each budget."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(2, len(self.budgets))
        with style.look():
            for column, (name, budget) in enumerate(self.budgets.items()):
                values, times = (row[column] for row in grid)
                approximate, exact = [], []
                for horizon in self.horizons:
                    pairs = zip(
                        results.pick("plain approximate", horizon, budget, self.epsilon),
                        results.pick("exact", horizon, budget),
                        strict=True,
                    )
                    a, e = min(pairs, key=lambda pair: pair[0].value - pair[1].value)
                    approximate.append(a.value)
                    exact.append(e.value)
                plots.line(values, "plain approximate", self.horizons, approximate)
                plots.line(values, "exact", self.horizons, exact, linewidth=0.8)
                for method in _METHODS:
                    plots.line(times, method, self.horizons, self.slowest(results, method, budget))
                plots.name_axes(values, self.heading(name), "" if column else "value, closest trial", bottom=False)
                plots.name_axes(times, "", "" if column else "time", bottom=True, log="seconds")
            plots.legend_below(figure)
        return figure
