"""The curve of all budgets, and the limits it refuses to ignore."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.patches import StepPatch

import solvent
from effort import seeds
from solvent import Budget, BudgetError, ModelError, SolventError, instances


def test_every_budget_agrees_with_a_solve_of_its_own():
    model = instances.fuel_grid(4)
    curve = solvent.frontier(model, max_budget=14)
    for budget in range(-3, 15):
        solution = solvent.solve(model, budget)
        assert curve.value(budget) == pytest.approx(solution.value, rel=1e-9)
        if solution.status == "optimal":
            report = solvent.verify(model, curve.policy(budget), budget)
            assert report.feasible
            assert report.value == pytest.approx(curve.value(budget), rel=1e-9)
        else:
            with pytest.raises(
                SolventError, match=r"no policy is feasible with a budget of .*: the least feasible budget is"
            ):
                curve.policy(budget)
    assert curve.least_budget == min(b for b in range(-3, 15) if curve.value(b) > -float("inf"))


def test_real_costs_rise_exactly_at_the_points():
    model = instances.paper(12, seed=3)
    curve = solvent.frontier(model)
    assert curve.flat_beyond
    assert curve.value(10**6) == curve.values[-1]
    tick = model.cost[0].unit
    for budget, value in zip(curve.budgets[1:], curve.values[1:], strict=True):
        assert curve.value(budget) == value
        assert curve.value(budget - tick) < value
        assert curve.marginal(budget - tick, extra=tick) == pytest.approx(value - curve.value(budget - tick))


def test_a_budget_beyond_max_budget_is_refused():
    curve = solvent.frontier(instances.knapsack([1, 1], [2, 2]), max_budget=2)
    with pytest.raises(
        BudgetError, match="budget of weight: expected at most 2, found 3; compute the curve with a larger"
    ):
        curve.value(3)


@pytest.mark.parametrize(
    ("budget", "named"),
    [
        ({"fuel": Budget(upper=5, lower=0), "risk": None}, "fuel: between 0 and 5"),
        ({"fuel": Budget(upper=[5, 4]), "risk": None}, "fuel: at most 5 after step 0, at most 4 after step 1"),
        ({"fuel": Budget.final(5), "risk": 1}, "fuel: at most 5 at the end"),
    ],
)
def test_limits_that_a_curve_cannot_keep_are_not_dropped_silently(budget, named):
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel", "risk"], budget=budget)
    b.add(0, "go", reward=1, outcomes=[(1, 0, [2, 1])])
    b.add(0, "stay", outcomes=[(1, 0, [0, 0])])
    model = b.build()
    with pytest.raises(
        ModelError,
        match=f"frontier: expected one anytime limit, or none, on the res.* found {named}; use solve.*, which keeps it",
    ):
        solvent.frontier(model, "fuel")
    curve = solvent.frontier(model, "fuel", ignore_limits=True)
    assert curve.value(4) == 2
    assert len(curve.ignored_limits) >= 1
    assert re.search(named, " ".join(curve.ignored_limits))


def test_a_plain_default_budget_or_none_is_fine():
    assert solvent.frontier(instances.knapsack([1], [2], capacity=1)).value(2) == 1
    assert solvent.frontier(instances.knapsack([1], [2])).value(2) == 1


def test_a_model_without_any_feasible_budget_in_range():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel"])
    b.add(0, "go", outcomes=[(1, 0, 5)])
    curve = solvent.frontier(b.build(), max_budget=3)
    assert curve.least_budget is None
    assert curve.value(3) == -float("inf")
    assert len(curve) == 0
    with pytest.raises(SolventError, match="with a budget of 3 of fuel: no budget up to 3 is feasible"):
        curve.policy(3)
    curve.plot()


def test_resources_are_named():
    model = instances.partition([1, 1])
    with pytest.raises(ModelError, match=r"resource: .* .'left', 'right'., found no resource; pass resource='left'"):
        solvent.frontier(model)
    with pytest.raises(ModelError, match="did you mean 'left'"):
        solvent.frontier(model, "lefft")


def test_time_runs_out():
    with pytest.raises(SolventError, match="the curve was not finished: the time limit"):
        solvent.frontier(instances.fuel_grid(10, horizon=60), max_budget=30, time_limit=1e-9)


def test_the_plot_shows_every_step():
    curve = solvent.frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    axes = curve.plot()
    (steps,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    assert steps.get_data().values.tolist() == curve.values.tolist()
    assert steps.get_data().edges[:-1].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert steps.get_data().edges[-1] > 60  # it is flat from there on
    assert axes.get_xlabel() == "budget of weight"
    assert curve.plot(ax=axes) is axes


@pytest.mark.parametrize("model", [instances.fuel_grid(4), instances.paper(12, seed=3)], ids=["arrays", "points"])
def test_curves_are_pickled(model, monkeypatch):
    monkeypatch.setattr("solvent.solvers.frontier.bounds.DENSE_FROM", 0)
    curve = solvent.frontier(model, max_budget=14)
    copy = pickle.loads(pickle.dumps(curve))
    assert (copy.budgets, copy.values.tolist()) == (curve.budgets, curve.values.tolist())
    for budget in curve.budgets:
        assert copy.value(budget) == curve.value(budget)
    assert copy.policy(curve.budgets[-1]) == curve.policy(curve.budgets[-1])


def test_solutions_are_pickled():
    solution = solvent.solve(instances.fuel_grid(3))
    copy = pickle.loads(pickle.dumps(solution))
    assert copy.policy == solution.policy
    assert (copy.value, copy.status, copy.worst_spent) == (solution.value, solution.status, solution.worst_spent)


@pytest.mark.parametrize("call", [solvent.solve, solvent.frontier, solvent.augment])
def test_a_path_is_not_a_model(call):
    with pytest.raises(
        ModelError, match=r"model: expected a CMDP, found 'van.yaml'; solvent.load_model.path. reads a file"
    ):
        call("van.yaml")


@pytest.mark.parametrize("seed", seeds(40))
def test_every_tank_size_and_every_charge(seed):
    """Curves of a resource that saturates against a solve for each amount."""
    rng = np.random.default_rng(seed)
    b = solvent.CMDP.builder(horizon=int(rng.integers(2, 6)), start=0, resources=[solvent.Resource("fuel", floor=0)])
    for state in range(3):
        for action in range(2):
            p = rng.dirichlet(np.ones(2))
            costs = [Fraction(int(rng.integers(-4, 5)), 2) for _ in range(2)]
            outcomes = [(p[i], int(rng.integers(0, 3)), costs[i]) for i in range(2)]
            b.add(state, action, reward=float(rng.integers(0, 5)), outcomes=outcomes)
    model = b.build()
    amounts = [Fraction(k, 2) for k in range(13)]
    sizes = solvent.frontier(model, max_budget=6)
    charges = solvent.frontier(model, vary="remaining", budget=4)
    assert (charges.max_budget, charges.flat_beyond) == (4, False)
    for amount in amounts:
        solution = solvent.solve(model, amount)
        assert sizes.value(amount) == pytest.approx(solution.value, abs=1e-12)
        if solution.status == "optimal":
            report = solvent.verify(model, sizes.policy(amount), amount)
            assert report.feasible
            assert report.value == pytest.approx(solution.value)
        if amount <= 4:
            solution = solvent.solve(model, 4, spent=4 - amount)
            assert charges.value(amount) == pytest.approx(solution.value, abs=1e-12)
            if solution.status == "optimal":
                assert solvent.verify(model, charges.policy(amount), 4, spent=4 - amount).feasible


def test_amounts_that_cannot_remain():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=[solvent.Resource("fuel", floor=0)])
    b.add(0, "go", reward=1, outcomes=[(1, 0, 2)])
    b.add(0, "fill", outcomes=[(1, 0, -5)])
    model = b.build()
    curve = solvent.frontier(model, vary="remaining", budget=4)
    with pytest.raises(solvent.BudgetError, match="fuel remaining: expected at least 0, found -1; solve"):
        curve.value(-1)
    with pytest.raises(solvent.BudgetError, match="budget of fuel: expected at most 4, found 5"):
        curve.value(5)
    with pytest.raises(solvent.BudgetError, match="max_budget: expected at most 4, found 5; that remains at the floor"):
        solvent.frontier(model, max_budget=5, vary="remaining", budget=4)
    with pytest.raises(
        solvent.BudgetError, match="frontier: expected a limit of fuel, of which a part remains, found none"
    ):
        solvent.frontier(model, vary="remaining")
    with pytest.raises(ModelError, match="vary: expected one of budget, remaining, found 'charge'"):
        solvent.frontier(model, vary="charge")
    with pytest.raises(
        ModelError, match=r"budget: expected none, as all resources vary, found 4; pass max_budget=... for the largest"
    ):
        solvent.frontier(model, budget=4)
    with pytest.raises(
        ModelError, match=r'spent: expected amounts of resources that do not vary, with vary="remaining", found 1'
    ):
        solvent.frontier(model, vary="remaining", budget=4, spent=1)


def test_few_solves_for_all_sizes():
    """One or two solves for most sizes at which the value rises."""
    b = solvent.CMDP.builder(horizon=12, start=0, resources=[solvent.Resource("fuel", floor=0)])
    for state in range(4):
        b.add(state, "go", reward=1 + state / 7, outcomes=[(0.5, (state + 1) % 4, 30 + state), (0.5, state, 10)])
        b.add(state, "fill", outcomes=[(1, state, -400)])
    curve = solvent.frontier(b.build(), max_budget=500)
    assert len(curve) > 10
    assert curve._source.values.solves <= 2 * len(curve) + 2


def test_a_curve_needs_costs_of_finite_support():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel"])
    b.add(0, "go", reward=1, outcomes=[(1, 0, solvent.distribution("uniform", low=0, high=1))])
    with pytest.raises(ModelError, match=r"frontier, 0/go, cost of fuel: expected costs of finite support, .*gap=0.01"):
        solvent.frontier(b.build())


def test_less_than_nothing_cannot_remain():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=[solvent.Resource("r", ceiling=0)])
    b.add(0, "go", outcomes=[(1, 0, -1)])
    with pytest.raises(
        BudgetError, match="max_budget: expected at least 0, as less than nothing cannot remain, found -2"
    ):
        solvent.frontier(b.build(), vary="remaining", budget=-1, max_budget=-2)
    assert solvent.frontier(b.build(), vary="remaining", budget=-1, max_budget=0).value(0) == 0


def test_a_frame_has_the_marginal_value_of_each_budget(monkeypatch):
    class Pandas:
        DataFrame = dict

    monkeypatch.setattr("solvent.solvers.curve.import_pandas", lambda: Pandas)
    curve = solvent.frontier(solvent.examples.load("delivery-van"), max_budget=12)
    for extra in (1, 3):
        frame = curve.to_frame() if extra == 1 else curve.to_frame(extra=extra)
        assert list(frame) == ["budget", "value", "marginal"]
        for budget, worth in zip(curve.budgets, frame["marginal"], strict=True):
            if budget + extra <= 12:
                assert worth == curve.marginal(budget, extra) == curve.value(budget + extra) - curve.value(budget)
            else:
                assert np.isnan(worth)


def test_a_marginal_value_that_is_not_known():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel"])
    b.add(0, "go", outcomes=[(1, 0, 5)])
    curve = solvent.frontier(b.build(), max_budget=7)
    assert (curve.known_marginal(4), curve.known_marginal(5), curve.known_marginal(7)) == (None, 0.0, 0.0)
    assert solvent.frontier(b.build(), max_budget=3).shown_extra == 1
    short = solvent.frontier(solvent.examples.load("delivery-van"), max_budget=12)
    assert short.known_marginal(12) is None
