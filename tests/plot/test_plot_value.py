"""The picture of a frontier shows exactly what the curve says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

import solvent
from catalog import covering
from solvent import BudgetError, ModelError, instances, plot
from solvent.plot.value import marginal_steps


def steps_of(axes):
    (steps,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    return steps.get_data()


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_steps_are_the_points_of_the_curve():
    curve = solvent.frontier(instances.fuel_grid(4), max_budget=14)
    axes = plot.frontier(curve)
    steps = steps_of(axes)
    assert steps.values.tolist() == curve.values.tolist()
    assert steps.edges.tolist() == [*map(float, curve.budgets), 14.0]
    assert axes.get_xlabel() == "budget of fuel"
    assert axes.get_ylabel() == "optimal value"


def test_a_given_axes_is_drawn_on_and_returned():
    curve = solvent.frontier(instances.knapsack([3, 4], [2, 3]))
    axes = Figure().add_subplot()
    assert plot.frontier(curve, axes) is axes
    assert curve.plot(axes, budget=2) is axes
    assert len([patch for patch in axes.patches if isinstance(patch, StepPatch)]) == 2


def test_the_least_budget_is_marked_and_below_it_lies_grey_ground():
    axes = plot.frontier(solvent.frontier(covering()))
    (line,) = (line for line in axes.lines if line.get_linestyle() == "--")
    assert list(line.get_xdata()) == [-2, -2]
    (ground,) = (patch for patch in axes.patches if patch.get_label() == "infeasible")
    assert ground.get_x() + ground.get_width() == -2
    assert ground.get_x() <= axes.get_xlim()[0]
    assert texts(axes) == ["least budget −2"]


def test_a_marked_budget_stands_at_its_value():
    curve = solvent.frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    axes = plot.frontier(curve, budget=55)
    (dot,) = (line for line in axes.lines if line.get_label() == "marked budget")
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (55, 220)
    assert "220 at 55" in texts(axes)


def test_a_marked_budget_that_is_infeasible_says_so():
    axes = plot.frontier(solvent.frontier(instances.knapsack([1], [2])), budget=-1)
    assert "infeasible at −1" in texts(axes)
    assert axes.get_xlim()[0] < -1


def test_a_budget_beyond_the_curve_is_refused():
    curve = solvent.frontier(instances.knapsack([1, 1], [2, 2]), max_budget=2)
    with pytest.raises(BudgetError, match="budget of weight: expected at most 2, found Fraction"):
        plot.frontier(curve, budget=3)


def test_a_budget_beyond_all_spending_is_shown():
    axes = plot.frontier(solvent.frontier(instances.knapsack([1, 1], [2, 2])), budget=30)
    assert steps_of(axes).edges[-1] > 30
    assert "2 at 30" in texts(axes)


@pytest.mark.parametrize("extra", [Fraction(1), Fraction(1, 3), Fraction(7)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: solvent.frontier(instances.fuel_grid(3), max_budget=9),
        lambda: solvent.frontier(instances.paper(8, seed=3)),
        lambda: solvent.frontier(instances.knapsack([3, 4], ["1/3", "1/7"])),
    ],
)
def test_the_strip_has_the_marginal_value_of_every_budget(make, extra):
    curve = make()
    edges, worth = marginal_steps(curve, extra)
    assert (np.diff(edges) > 0).all()
    assert edges[0] == float(curve.budgets[0])
    for low, high, value in zip(edges[:-1], edges[1:], worth, strict=True):
        middle = Fraction((low + high) / 2)
        assert value == pytest.approx(curve.marginal(middle, extra), abs=1e-12)


def test_a_curve_that_may_rise_further_has_no_marginal_value_beyond_what_is_known():
    curve = solvent.frontier(instances.fuel_grid(3), max_budget=9)
    assert not curve.flat_beyond
    assert marginal_steps(curve, Fraction(2))[0][-1] == 7
    assert [len(part) for part in marginal_steps(curve, Fraction(10))] == [0, 0]


def test_the_strip_is_drawn_and_labeled():
    curve = solvent.frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    (strip,) = plot.frontier(curve).child_axes
    assert strip.get_ylabel() == "gain of +10"
    data = steps_of(strip)
    assert data.values.tolist() == [60, 40, 60, 20, 40, 60]
    assert data.edges.tolist() == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.filterwarnings("error")
def test_a_curve_that_rises_at_its_last_budget_only():
    curve = solvent.frontier(instances.knapsack([1, 2], [2, 3]), max_budget=2)
    assert curve.budgets == (0, 2)
    (strip,) = plot.frontier(curve).child_axes
    assert steps_of(strip).values.tolist() == [0]
    assert strip.get_ylim() == (0, 1)


def test_the_curve_never_enters_the_strip():
    axes = plot.frontier(solvent.frontier(instances.knapsack([1, 50], [1, 40])))
    (strip,) = axes.child_axes
    bottom, top = axes.get_ylim()
    height = strip.get_position().height / axes.get_position().height
    assert bottom + height * (top - bottom) < 0
    assert min(axes.get_yticks()) > bottom + height * (top - bottom)


def test_a_step_far_above_the_others_is_cut_and_named():
    values = [1000, *[1] * 30]
    (strip,) = plot.frontier(solvent.frontier(instances.knapsack(values, [1] * 31))).child_axes
    assert strip.get_ylim()[1] < 10
    assert [text.get_text() for text in strip.texts] == ["↑ 1,000"]


def test_the_bit_more_is_one_or_a_round_share():
    def extra(*weights):
        return solvent.frontier(instances.knapsack([1] * len(weights), weights)).shown_extra

    assert extra(30, 31) == 1
    assert extra(3000, 4001) == 200
    assert extra("0.03", "0.0401") == Fraction(1, 500)
    assert extra(10, 20, 30) == 10


def test_no_feasible_budget():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel"])
    b.add(0, "go", outcomes=[(1, 0, 5)])
    axes = plot.frontier(solvent.frontier(b.build(), max_budget=3))
    assert texts(axes) == ["no feasible policy\nfor any budget up to 3"]
    assert not axes.child_axes


def test_a_single_point_is_seen():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel"])
    b.add(0, "go", reward=7, outcomes=[(1, 0, 5)])
    axes = plot.frontier(solvent.frontier(b.build()))
    assert steps_of(axes).edges[0] == 5 < steps_of(axes).edges[1]
    bottom, top = axes.get_ylim()
    assert bottom < 7 < top


def test_models_are_no_curves():
    with pytest.raises(ModelError, match=r"curve: expected a Curve, found CMDP.*; solvent.frontier\(model\) makes one"):
        plot.frontier(instances.knapsack([1], [2]))


def test_figures_are_no_axes():
    curve = solvent.frontier(instances.knapsack([1], [2]))
    with pytest.raises(ModelError, match="ax: expected matplotlib Axes, or None for a new figure, found <Figure"):
        plot.frontier(curve, Figure())


def tank(**options):
    b = solvent.CMDP.builder(horizon=4, start="road", resources=[solvent.Resource("fuel", floor=0)], **options)
    b.add("road", "drive", reward=1, outcomes=[(1, "road", 3)])
    b.add("road", "refuel", outcomes=[(1, "road", -5)])
    return b.build()


def test_what_remains_of_a_fixed_limit():
    curve = solvent.frontier(tank(), vary="remaining", budget=6)
    axes = plot.frontier(curve, budget=3)
    assert axes.get_xlabel() == "fuel remaining at the start"
    assert axes.texts[0].get_text() == "least remaining 0"
    text = plot.terminal_frontier(curve, ascii=True)
    assert text.startswith("optimal value against fuel remaining at the start")
    assert "^ least remaining" in text
    sizes = solvent.frontier(tank(), max_budget=12)
    assert plot.frontier(sizes).get_xlabel() == "budget of fuel"


def test_ignored_limits_are_named():
    model = tank(budget=solvent.Budget(upper=6, lower=1))
    axes = plot.frontier(solvent.frontier(model, max_budget=9, ignore_limits=True))
    (caption,) = (text.get_text() for text in axes.texts if "ignored limits" in text.get_text())
    assert caption == "ignored limits, which policies can break: fuel: between 1 and 6"


def test_titles_name_the_model_and_its_budget():
    van = solvent.examples.load("delivery-van")
    titles = {
        "delivery-van: optimal value by budget": solvent.frontier(van, max_budget=20).plot(),
        "delivery-van: optimal value by what remains at the start": solvent.frontier(van, vary="remaining").plot(),
        "delivery-van, fuel at most 30": plot.spending(van, solvent.solve(van).policy, episodes=50),
        "delivery-van, fuel at most 12": plot.spending(van, solvent.solve(van, 12).policy, episodes=50),
    }
    for title, axes in titles.items():
        assert axes.get_title(loc="left") == title
    knapsack = instances.knapsack([3, 4], [2, 3], capacity=5)
    fixed = solvent.frontier(instances.random(resources=2, cost_range=(0, 3), budget=9, seed=2), "r0").plot()
    assert fixed.get_title(loc="left") == "random(5, 3, seed=2), r1 at most 9: optimal value by budget"
    sizes = plot.layers(solvent.solve(knapsack, method="reduction"))
    assert sizes.get_title(loc="left").startswith("knapsack, weight at most 5: ")


def test_titles_of_hostile_and_long_names():
    from solvent.plot.labels import title_text

    long = title_text("a $name$ " + "x" * 90, {f"resource {i}": "at least -1" for i in range(9)}, "actions")
    assert all(len(line) <= 84 for line in long.splitlines())
    assert long.startswith(r"a \$name\$ xxx")
    assert "…" in long
    assert "−1" in long
