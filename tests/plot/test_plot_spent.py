"""The picture of spending has the verifier's numbers as its envelope, and limits where they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

import solvent
from catalog import ridge
from solvent import Budget, BudgetError, ModelError, instances, plot

EXAMPLES = Path(solvent.examples.__file__).parent


@pytest.fixture(scope="module")
def dose():
    model = solvent.load_model(EXAMPLES / "dose.yaml")
    return model, solvent.solve(model).policy


def line(axes, label):
    (found,) = (each for each in axes.lines if each.get_label() == label)
    return np.asarray(found.get_ydata(), float)


def limits(axes, label):
    """Return (first step, last step, height) of each piece of a limit."""
    pieces = []
    drawn = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    first = next((i for i, patch in enumerate(drawn) if patch.get_label() == label), None)
    for patch in [] if first is None else drawn[first:]:
        if patch.get_label() not in (label, "_nolegend_"):
            break
        edges, heights = patch.get_data().edges, patch.get_data().values
        pieces += [(int(e - 0.5), float(h)) for e, h in zip(edges, heights, strict=False)]
    return pieces


def test_the_envelope_is_the_verifiers(dose):
    model, policy = dose
    axes = plot.spending(model, policy, episodes=500)
    report = solvent.verify(model, policy)
    assert line(axes, "worst case").tolist() == [0, *map(float, report.worst_spent_by_step["toxicity"])]
    assert line(axes, "least").tolist() == [0, *map(float, report.least_spent_by_step["toxicity"])]
    assert axes.get_ylabel() == "toxicity spent"


def test_the_bands_are_quantiles_of_roll_outs_and_lie_within_the_envelope(dose):
    model, policy = dose
    axes = plot.spending(model, policy, episodes=700, seed=3)
    runs = solvent.simulate(model, policy, episodes=700, seed=3)
    worst, least = line(axes, "worst case"), line(axes, "least")
    assert line(axes, "median").tolist() == [0, *runs.quantile("toxicity", 0.5)]
    for band, low, high in zip(axes.collections, (0.05, 0.25), (0.95, 0.75), strict=True):
        (path,) = band.get_paths()
        for step in range(model.horizon + 1):
            heights = {y for x, y in path.vertices if x == step}
            expected = [0.0] if step == 0 else [runs.quantile("toxicity", q)[step - 1] for q in (low, high)]
            assert {min(heights), max(heights)} == {*expected}
            assert least[step] <= min(heights) <= max(heights) <= worst[step]


def test_limits_on_both_sides(dose):
    model, policy = dose
    axes = plot.spending(model, policy, Budget(upper=9, lower=0), episodes=10)
    assert limits(axes, "limit") == [(step, 9) for step in range(model.horizon)]
    assert limits(axes, "lower limit") == [(step, 0) for step in range(model.horizon)]
    assert {text.get_text() for text in axes.texts} == {"limit 9", "lower limit 0", "floor 0"}


def test_limits_that_vary_or_hold_at_some_steps_only():
    model = solvent.load_model(EXAMPLES / "cash-line.yaml")
    axes = plot.spending(model, solvent.solve(model).policy, episodes=10)
    assert [height for _, height in limits(axes, "limit")] == [9, 9, 9, 8, 8, 8, 7, 5, 3]
    model = solvent.load_model(EXAMPLES / "covering.yaml")
    axes = plot.spending(model, solvent.solve(model).policy, episodes=10)
    assert limits(axes, "limit") == [(3, -3), (9, -12)]


def test_a_final_limit_stands_at_the_end():
    model = instances.fuel_grid(3)
    policy = solvent.solve(model, Budget.final(4)).policy
    axes = plot.spending(model, policy, episodes=10)
    assert limits(axes, "limit") == [(8, 4)]
    assert [text.get_text() for text in axes.texts] == ["limit 4"]


def test_a_policy_that_goes_over_is_marked():
    model = instances.markov_gap(prize=10)
    axes = plot.spending(model, solvent.MarkovPolicy(model, [[0], [1]]), episodes=10)
    (broken,) = (each for each in axes.lines if each.get_marker() == "X")
    assert list(zip(broken.get_xdata(), broken.get_ydata(), strict=True)) == [(2, 2.0)]
    assert broken.get_label() == "breaks a limit\n(probability 0.5)"


def test_a_policy_that_falls_short_is_marked():
    model = instances.markov_gap(prize=10)
    axes = plot.spending(model, solvent.MarkovPolicy(model, [[0], [0]]), Budget(lower=[None, 1]), episodes=10)
    (broken,) = (each for each in axes.lines if each.get_marker() == "X")
    assert list(zip(broken.get_xdata(), broken.get_ydata(), strict=True)) == [(2, 0.0)]


def test_a_policy_that_keeps_its_limits_is_not(dose):
    axes = plot.spending(*dose, episodes=10)
    assert not [each for each in axes.lines if each.get_marker() == "X"]


def test_another_budget_than_the_policys_own(dose):
    model, policy = dose
    axes = plot.spending(model, policy, 5, episodes=10)
    assert limits(axes, "limit")[0] == (0, 5)
    assert limits(axes, "lower limit") == []


def test_costs_without_a_lower_end_have_no_least_line():
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"], budget=9)
    b.add(0, "go", outcomes=[(0.5, 0, solvent.distribution("exponential", scale=1, negate=True)), (0.5, 0, 3)])
    model = b.build()
    axes = plot.spending(model, solvent.MarkovPolicy(model, [[0], [0]]), episodes=50)
    assert "least" not in [each.get_label() for each in axes.lines]
    assert line(axes, "worst case").tolist() == [0, 3, 6]


def test_which_resource():
    model = ridge()
    policy = solvent.solve(model).policy
    with pytest.raises(ModelError, match=r"resource: expected one of 'fuel', 'heat', found none given; pass resource="):
        plot.spending(model, policy, episodes=10)
    with pytest.raises(
        ModelError, match=r"resource: expected one of 'fuel', 'heat', found 'feul'; did you mean 'fuel'"
    ):
        plot.spending(model, policy, resource="feul", episodes=10)
    axes = Figure().add_subplot()
    assert plot.spending(model, policy, resource="heat", episodes=10, ax=axes) is axes
    assert axes.get_ylabel() == "heat spent"
    only = plot.spending(model, policy, {"fuel": 9, "heat": None}, episodes=10)
    assert only.get_ylabel() == "fuel spent"


def test_a_model_without_limits_says_what_to_pass():
    model = instances.knapsack([1], [2])
    with pytest.raises(BudgetError, match="the model carries no default: pass budget="):
        plot.spending(model, solvent.MarkovPolicy(model, [[1]]))
    axes = plot.spending(model, solvent.MarkovPolicy(model, [[1]]), {"weight": None}, episodes=10)
    assert limits(axes, "limit") == []
