"""Bounds and layers, as a solve reports them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

import solvent
from solvent import ModelError, instances, plot


@dataclass(frozen=True)
class Round:
    lower: float
    upper: float
    gap: float
    nodes: int
    seconds: float


@dataclass(frozen=True)
class Solved:
    rounds: tuple[Round, ...]
    method: str = "certified"


ROUNDS = (
    Round(-math.inf, 100.0, math.inf, 5, 0.1),
    Round(60.0, 90.0, 0.5, 50, 0.5),
    Round(72.0, 75.0, 3 / 72, 500, 2.0),
)


def test_bounds_are_drawn_round_by_round():
    axes = plot.bounds(Solved(ROUNDS))
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["upper bound"].get_xdata()) == [0.1, 0.5, 2.0]
    assert list(lines["upper bound"].get_ydata()) == [100, 90, 75]
    lower = list(lines["feasible value"].get_ydata())
    assert math.isnan(lower[0])
    assert lower[1:] == [60, 72]
    assert {line.get_drawstyle() for line in axes.lines} == {"steps-post"}
    assert axes.get_title(loc="left") == "gap 4.167 % after 3 rounds"
    assert axes.get_xscale() == "linear"


def test_times_of_different_size_have_a_logarithmic_axis():
    later = Round(73.0, 73.5, 0.01, 5000, 30.0)
    assert plot.bounds(Solved((*ROUNDS, later))).get_xscale() == "log"


def test_one_round_without_bounds_is_fine():
    assert plot.bounds(Solved(ROUNDS[:1])).get_title(loc="left") == "gap unknown after 1 round"


def test_solutions_without_rounds_are_refused():
    exact = solvent.solve(instances.knapsack([1], [2], capacity=2))
    with pytest.raises(
        ModelError,
        match=f"solution: expected a solution with rounds, found a solution of method '{exact.method}' without rounds",
    ):
        plot.bounds(exact)
    with pytest.raises(ModelError, match="solution: expected a Solution, found 3"):
        plot.bounds(3)


@pytest.mark.parametrize("method", ["reduction", "frontier"])
def test_layers_are_those_of_the_solve(method):
    solution = solvent.solve(instances.fuel_grid(3), method=method)
    axes = plot.layers(solution)
    (steps,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    assert tuple(steps.get_data().values) == solution.stats.layer_sizes
    assert steps.get_data().edges.tolist() == [step - 0.5 for step in range(10)]
    assert axes.get_ylabel() == {"reduction": "nodes", "frontier": "points"}[method]
    assert axes.get_title(loc="left") == (
        f"fuel_grid(3), fuel at most 5: {sum(solution.stats.layer_sizes):,} {axes.get_ylabel()} in total"
    )
    assert [text.get_text() for text in axes.texts] == [f"{max(solution.stats.layer_sizes):,}"]


def test_layers_of_different_size_have_a_logarithmic_axis():
    hard = solvent.solve(instances.paper(14, seed=1, budget=3), method="reduction", prune=False)
    assert plot.layers(hard).get_yscale() == "log"
    assert plot.layers(solvent.solve(instances.fuel_grid(3))).get_yscale() == "linear"


def test_a_solve_without_layers_is_refused():
    nothing = solvent.solve(instances.knapsack([5], [3], capacity=-1))
    with pytest.raises(
        ModelError, match="solution: expected a solution with layers, found none, with status 'infeasible'"
    ):
        plot.layers(nothing)
    with pytest.raises(ModelError, match="solution: expected a Solution, found 'van'"):
        plot.layers("van")


def test_a_given_axes_is_drawn_on_and_returned():
    axes = Figure().add_subplot()
    assert plot.bounds(Solved(ROUNDS), axes) is axes
    assert plot.layers(solvent.solve(instances.fuel_grid(3)), axes) is axes
