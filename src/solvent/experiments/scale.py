"""The paper's figures `fig: scale` and `fig: approx_scale`: how the time of the approximation grows with the horizon.

The paper's budget of 100 is more than the sum of all costs, so that the problem is not constrained. With its projection
f as written, every layer has one node (the second case of f). The growth that the paper reports appears without that
case, which the authors' notebook omits. A budget of H / 8, which binds, and the epsilon of .01 that one sentence of the
paper states are added for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from solvent.experiments.experiment import Experiment, Facts, all_trials, duration, growth_fact, power
from solvent.experiments.trials import Results, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOSE = ("plain accumulate", "plain approximate", "approximate", "exact")
_FINER = ("plain accumulate", "approximate")
_BINDING = ("plain approximate", "approximate", "exact")


@dataclass(frozen=True)
class Scale(Experiment):
    """The figure and its arguments.

    Attributes
    ----------
    horizons : tuple of int
    budget : float
        The paper's budget.
    steps_per_unit : int
        Divisor of the horizon that gives a budget that binds.
    fine, coarse : float
        The paper's epsilons; the first is also used with the budget that binds.
    finer : float
        The epsilon that one sentence of the paper states instead of the first.
    number : int
        Trials for each horizon, budget and epsilon.
    finer_number : int
        Trials with `finer`.
    seed : int
        Seed of the first trial.
    """

    name: ClassVar[str] = "scale"
    description: ClassVar[str] = "how the time of the approximation grows (fig: scale, fig: approx_scale)"

    horizons: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    budget: float = 100
    steps_per_unit: int = 8
    fine: float = 0.1
    coarse: float = 1
    finer: float = 0.01
    number: int = 10
    finer_number: int = 2
    seed: int = 0

    @classmethod
    def quick(cls) -> Scale:
        """Return the figure in a size for tests."""
        return cls(horizons=(8, 16, 24), budget=24, number=2, finer_number=1)

    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""
        for epsilon in (self.fine, self.coarse):
            yield from all_trials(_LOOSE, self.horizons, self.budget, epsilon, self.number, self.seed)
        yield from all_trials(_FINER, self.horizons, self.budget, self.finer, self.finer_number, self.seed)
        for horizon in self.horizons:
            budget = self._budget(horizon, binding=True)
            yield from all_trials(_BINDING, [horizon], budget, self.fine, self.number, self.seed)

    def _slowest(self, results: Results, method: str, epsilon: float, *, binding: bool = False) -> list[float]:
        of = None if method == "exact" else epsilon
        return [results.slowest(method, h, self._budget(h, binding=binding), of) for h in self.horizons]

    def _largest(self, results: Results, method: str, epsilon: float, *, binding: bool = False) -> list[int]:
        of = None if method == "exact" else epsilon
        return [results.largest(method, h, self._budget(h, binding=binding), of) for h in self.horizons]

    def _budget(self, horizon: int, *, binding: bool) -> float:
        return horizon / self.steps_per_unit if binding else self.budget

    def facts(self, results: Results) -> Facts:
        """Return the facts that the results show, as numbers."""
        lines = {
            "fine": (_LOOSE, self.fine, False),
            "coarse": (_LOOSE, self.coarse, False),
            "finer": (_FINER, self.finer, False),
            "binding": (_BINDING, self.fine, True),
        }
        facts: Facts = {"budget": self.budget, "horizon": self.horizons[-1], "steps_per_unit": self.steps_per_unit}
        for name, (methods, epsilon, binding) in lines.items():
            facts[name] = {"epsilon": epsilon}
            for method in methods:
                seconds = self._slowest(results, method, epsilon, binding=binding)
                facts[name][method] = self._line(seconds, self._largest(results, method, epsilon, binding=binding))
        relaxed = [(trial, found) for trial, found in results if trial.method == "approximate"]
        loose = [found for trial, found in relaxed if trial.budget == self.budget]
        facts["worst_over"] = max(found.over or 0.0 for found in loose) / self.budget
        facts["most_spent"] = max(found.spent or 0.0 for found in loose)
        facts["worst_over_binding"] = max((found.over or 0.0) / trial.budget for trial, found in relaxed)
        return facts

    def _line(self, seconds: Sequence[float], nodes: Sequence[int]) -> Facts:
        return {
            "seconds": seconds[-1],
            "nodes": nodes[-1],
            "growth": growth_fact(self.horizons, seconds),
            "growth_nodes": growth_fact(self.horizons, nodes),
        }

    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""
        loose, literal = (facts["fine"][method] for method in ("plain accumulate", "plain approximate"))
        binding, last = facts["binding"]["plain approximate"], self.horizons[-1]
        exact = facts["binding"]["exact"]["seconds"]
        return (
            f"with b = {self.budget:g}, of which at most {facts['most_spent']:.3g} is ever spent, nodes grow as "
            f"{power(loose['growth_nodes'])} and time as {power(loose['growth'])} if f has only its first case, and "
            f"{literal['nodes']} nodes suffice at H = {last} with f as written; with b = H / {self.steps_per_unit}, "
            f"nodes grow as {power(binding['growth_nodes'])} and time as {power(binding['growth'])}; at H = {last} the "
            f"optimum takes {duration(exact)}"
        )

    def draw(self, results: Results) -> Figure:
        """Return the figure: nodes above and times below, the paper's budget and one that binds."""
        from solvent.experiments import plots
        from solvent.plot import style

        figure, grid = plots.panels(2, 3)
        with style.look():
            for column, epsilon in enumerate((self.fine, self.coarse, None)):
                nodes, seconds = (row[column] for row in grid)
                used, binding = epsilon or self.fine, epsilon is None
                for method in _BINDING if binding else _LOOSE:
                    plots.line(nodes, method, self.horizons, self._largest(results, method, used, binding=binding))
                    plots.line(seconds, method, self.horizons, self._slowest(results, method, used, binding=binding))
                budget = f"H / {self.steps_per_unit}, binding" if binding else f"{self.budget:g}"
                title = f"b = {budget}, ε = {used:g}"
                plots.name_axes(nodes, title, "" if column else "nodes or points", bottom=False, log="counts")
                plots.name_axes(seconds, "", "" if column else "time", bottom=True, log="seconds")
            plots.legend_below(figure)
        return figure
