"""Base classes of figures: arguments, trials, facts computed from the results, a sentence that states them, a plot."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from solvent.experiments.fitting import fit_growth
from solvent.experiments.runs import Row, Study
from solvent.experiments.trials import Measured, Results, Trial, measure, prepare, seed_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Facts of a figure: numbers and text by name, possibly nested, as in JSON.
Facts = dict[str, Any]


class Exhibit(ABC):
    """A figure; a subclass is a frozen dataclass of its arguments.

    Attributes
    ----------
    name : str
        Name of its files, and on the command line.
    description : str
        Title, with the paper's labels.
    """

    name: ClassVar[str]
    description: ClassVar[str]

    @classmethod
    @abstractmethod
    def quick(cls) -> Self:
        """Return the figure in a size for tests."""

    @abstractmethod
    def study(self) -> Study[Any, Any]:
        """Return the measurements to run."""

    @abstractmethod
    def results(self, rows: list[Row[Any, Any]]) -> Any:
        """Return the rows of the study in the form that `facts` and `draw` take."""

    @abstractmethod
    def facts(self, results: Any) -> Facts:
        """Return the facts that the results show, as numbers."""

    @abstractmethod
    def finding(self, facts: Facts) -> str:
        """Return one sentence that states the facts."""

    @abstractmethod
    def draw(self, results: Any) -> Figure:
        """Return the figure as drawn by matplotlib."""


class Experiment(Exhibit):
    """A figure of the paper, with the paper's arguments as defaults."""

    @abstractmethod
    def trials(self) -> Iterator[Trial]:
        """Yield the configurations of its trials."""

    def study(self) -> Study[Trial, Measured]:
        """Return the measurements to run."""
        return Study(self.name, tuple(self.trials()), measure, Measured, prepare)

    def results(self, rows: list[Row[Trial, Measured]]) -> Results:
        """Return the rows of the study by configuration."""
        return Results(rows)


@dataclass(frozen=True)
class ByBudget(Experiment):
    """A figure with a column for each of three budgets.

    Attributes
    ----------
    small, large : float
        The paper's budgets.
    binding : float
        A budget that binds, added for comparison.
    epsilon : float
        Relative error of the schemes.
    seed : int
        Seed of the first trial.
    """

    small: float = 0.1
    large: float = 10
    binding: float = 3
    epsilon: float = 0.1
    seed: int = 0

    @property
    @abstractmethod
    def horizons(self) -> Sequence[int]:
        """All horizons."""

    @property
    def budgets(self) -> dict[str, float]:
        """All budgets by name."""
        return {"small": self.small, "large": self.large, "binding": self.binding}

    def slowest(self, results: Results, method: str, budget: float) -> list[float]:
        """Return the time of the slowest trial of each horizon."""
        return [results.slowest(method, h, budget, epsilon_of(method, self.epsilon)) for h in self.horizons]

    def heading(self, name: str) -> str:
        """Return the title of the column of a budget."""
        return f"b = {self.budgets[name]:g}" + (", binding" if name == "binding" else "")


def epsilon_of(method: str, epsilon: float) -> float | None:
    """Return the epsilon of a method's trials, None for exact methods."""
    return None if method in ("exact", "plain exact", "reduction") else epsilon


def all_trials(
    methods: Iterable[str], horizons: Iterable[int], budget: float, epsilon: float, number: int, seed: int
) -> Iterator[Trial]:
    """Yield `number` trials of each method and horizon with one budget."""
    for horizon in horizons:
        for method in methods:
            for i in range(number):
                yield Trial(method, horizon, float(budget), seed_of(seed, horizon, i), epsilon_of(method, epsilon))


def share(part: float, whole: float) -> float:
    """Return part / whole, or 0 if the whole is 0."""
    return part / whole if whole else 0.0


def growth_fact(sizes: Sequence[float], amounts: Sequence[float]) -> Facts:
    """Return the exponent of a power law fitted to the larger half of the sizes, and its standard error or None."""
    growth = fit_growth(sizes, amounts)
    return {"exponent": growth.exponent, "error": None if math.isnan(growth.error) else growth.error}


def power(growth: Facts) -> str:
    """Return a result of `growth_fact` as a power of H.

    Examples
    --------
    >>> power({"exponent": 2.034, "error": 0.061}), power({"exponent": 1.5, "error": None})
    ('H^(2.03 ± 0.06)', 'H^1.50')
    """
    exponent = f"{growth['exponent']:.2f}"
    return f"H^{exponent}" if growth["error"] is None else f"H^({exponent} ± {growth['error']:.2f})"


def percent_off(value: float, optimum: float) -> float:
    """Return the deviation of a value from the optimum in percent; NaN if only the optimum is 0."""
    if value == optimum:
        return 0.0
    return 100 * (value - optimum) / optimum if optimum else math.nan


def percent(part: float) -> str:
    """Return a share in percent, to three significant digits.

    Examples
    --------
    >>> percent(0.1234), percent(0.00061), percent(0), percent(1)
    ('12.3 %', '0.061 %', '0 %', '100 %')
    """
    digits = f"{100 * part:.3g}"
    return f"{digits} %"


def duration(seconds: float) -> str:
    """Return a time in seconds or milliseconds, to two significant digits.

    Examples
    --------
    >>> duration(0.000123), duration(0.0456), duration(7.89), duration(123)
    ('0.12 ms', '46 ms', '7.9 s', '120 s')
    """
    if seconds >= 0.9995:
        return f"{float(f'{seconds:.2g}'):g} s"
    return f"{float(f'{1000 * seconds:.2g}'):g} ms"


def ratio(slow: float, fast: float) -> str:
    """Return the ratio of two times, to two significant digits.

    Examples
    --------
    >>> ratio(3.14159, 0.001), ratio(1, 2)
    ('3,100 times', '0.5 times')
    """
    times = float(f"{slow / fast:.2g}")
    return f"{times:,.0f} times" if times >= 10 else f"{times:g} times"
