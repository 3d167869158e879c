"""The picture of a policy has each decision where it is taken, for every kind of look-up."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import solvent
from catalog import crowd, ridge, shrinking
from solvent import Budget, ModelError, PolicyError, instances, plot
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.plot.action_colors import MOST_LISTED, ActionScale
from solvent.plot.palette import N_STYLES, action_style
from solvent.policy.table import AugmentedPolicy

EXAMPLES = Path(solvent.examples.__file__).parent


def cells(axes):
    """Return each drawn rectangle as (action, left, right, low, high)."""
    found = []
    for collection in axes.collections:
        assert isinstance(collection, PolyCollection)
        for path in collection.get_paths():
            (left, low), (right, high) = path.vertices.min(0), path.vertices.max(0)
            found.append((collection.get_label(), left, right, low, high))
    return found


def shown(axes, step, height):
    """Return the actions drawn at a step and height, from left to right."""
    here = [c for c in cells(axes) if step - 0.5 <= (c[1] + c[2]) / 2 <= step + 0.5 and c[3] <= height < c[4]]
    return [c[0] for c in sorted(here, key=lambda c: c[1])]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.fixture(scope="module")
def van():
    return solvent.load_model(EXAMPLES / "delivery-van.yaml")


def test_every_amount_shows_what_the_policy_does_with_it(van):
    policy = solvent.solve(van, method="frontier").policy
    assert policy.lookup == "at_most"
    axes = plot.policy(policy, "town")
    seen = 0
    for step in range(van.horizon):
        for remaining in range(31):
            try:
                expected = [policy.action(step, "town", 30 - remaining)]
            except PolicyError:
                expected = []
            # nothing is drawn above 30, what remains at the floor
            height = remaining + 0.01 if remaining < 30 else 30 - 1e-6
            assert shown(axes, step, height) == expected, (step, remaining)
            seen += len(expected)
    assert seen > 100
    assert axes.get_ylabel() == "remaining fuel"
    assert axes.get_title() + axes.get_title(loc="left") == "delivery-van, fuel at most 30: actions in state town"


@pytest.mark.parametrize("state", ["town", "station"])
def test_exact_amounts_and_settled_ones(van, state):
    policy = solvent.solve(van, method="reduction").policy
    assert policy.lookup == "equal"
    axes = plot.policy(policy, state)
    top = axes.get_ylim()[1]
    seen = 0
    for step in range(van.horizon):
        for remaining in range(int(top)):
            try:
                expected = [policy.action(step, state, 30 - remaining)]
            except PolicyError:
                expected = []
            found = shown(axes, step, remaining)
            if expected:
                assert found == expected, (step, remaining)
                seen += 1
            else:  # intervals of settled amounts end at the last that is settled
                assert len(found) <= 1
    assert seen > 40


def test_lower_limits_show_what_was_spent():
    model = shrinking()
    policy = solvent.solve(model, Budget(lower=[None, None, 1]), method="frontier").policy
    assert policy.lookup == "at_least"
    axes = plot.policy(policy)
    assert axes.get_ylabel() == "debt spent"
    bottom, top = axes.get_ylim()
    for step in range(3):
        for spent in np.linspace(bottom, top, 23)[1:-1]:
            try:
                expected = [policy.action(step, "open", Fraction(float(spent)))]
            except PolicyError:
                expected = []
            assert shown(axes, step, spent) == expected


def test_what_remains_of_a_final_limit_is_known_from_the_start():
    model = instances.fuel_grid(3)
    axes = plot.policy(solvent.solve(model, Budget.final(4)).policy)
    assert axes.get_ylabel() == "remaining fuel"
    assert shown(axes, 0, 4.01) != []


def test_actions_that_hang_on_another_resource_share_a_cell():
    b = solvent.CMDP.builder(horizon=2, start="s", resources=["a", "b"], budget={"a": 1, "b": 1})
    b.add("s", "try", outcomes=[(0.5, "s", [0, 0]), (0.5, "s", [0, 1])], steps=[0])
    b.add("s", "dear", reward=3, outcomes=[(1, "s", [1, 1])], steps=[1])
    b.add("s", "cheap", reward=1, outcomes=[(1, "s", [1, 0])], steps=[1])
    policy = solvent.solve(b.build(), method="reduction", prune=False).policy
    axes = plot.policy(policy, resource="a")
    assert [c[:3] for c in cells(axes) if c[1] >= 0.5] == [("dear", 0.5, 1.0), ("cheap", 1.0, 1.5)]
    assert shown(axes, 1, 1.0) == ["dear", "cheap"]
    assert shown(plot.policy(policy, resource="b"), 1, 1.0) == ["dear"]


def test_random_choices_share_a_cell_by_their_probability():
    model = instances.markov_gap()
    axes = plot.policy(solvent.MarkovPolicy(model, np.array([[[0.25, 0.75]], [[1.0, 0.0]]])))
    drawn = {(c[0], c[1], c[2]) for c in cells(axes)}
    assert drawn == {("0", -0.5, -0.25), ("1", -0.25, 0.5), ("0", 0.5, 1.5)}
    assert axes.get_ylabel() == "any amount spent"
    assert list(axes.get_yticks()) == []


def test_randomized_policies_on_nodes():
    model = instances.knapsack([3, 4], [2, 3], capacity=4)
    limits = solvent.solve(model).policy.limits
    lattice = solvent.solve(model, method="reduction").policy
    policy = solvent.RandomizedPolicy.from_nodes(
        model,
        lattice,
        limits,
        layers=[([0, 0], [[0], [0]], [0, 1], [0.25, 0.75]), ([0, 0], [[0], [2]], [1, 0], [1, 1])],
    )
    axes = plot.policy(policy)
    names = [str(name) for name in model.actions]
    first = sorted(c[:3] for c in cells(axes) if c[2] <= 0.5)
    assert first == sorted([(names[0], -0.5, -0.25), (names[1], -0.25, 0.5)])
    assert shown(axes, 1, 4) == [names[1]]
    assert shown(axes, 1, 2) == [names[0]]


def test_the_legend_has_the_actions_that_are_taken_and_each_its_color(van):
    policy = solvent.solve(van).policy
    axes = plot.policy(policy, "town")
    taken = {d.action for d in policy if d.state == "town"}
    assert set(legend(axes)) == {*taken, "no decision"}
    styles = [
        (collection.get_label(), to_hex(collection.get_facecolor()[0]), collection.get_hatch() or "")
        for collection in axes.collections
    ]
    expected = {name: action_style(van.action_index(name)) for name in taken}
    assert {name: (color, hatch) for name, color, hatch in styles} == expected


def test_more_actions_than_colours_are_told_apart_by_hatches_and_beyond_that_lumped():
    model = crowd(60)
    table = np.zeros((2, model.n_states, model.n_actions))
    table[:, model.start_index, :20] = 1 / 20
    axes = plot.policy(solvent.MarkovPolicy(model, table))
    looks = {(to_hex(c.get_facecolor()[0]), c.get_hatch()) for c in axes.collections}
    assert len(looks) == 20
    table[:, model.start_index, :] = 1 / model.n_actions
    axes = plot.policy(solvent.MarkovPolicy(model, table))
    assert len(axes.collections) == 24
    assert legend(axes)[-2] == f"{model.n_actions - 23} others"


def test_counts_of_rounded_costs_are_named_as_such():
    model = instances.knapsack([3, 4], ["3/2", 3], capacity=5)
    exact = solvent.solve(model).policy
    whole = solvent.solve(instances.knapsack([3, 4], [2, 3], capacity=5)).policy
    policy = solvent.AugmentedPolicy.from_nodes(
        model,
        whole,
        exact.limits,
        layers=[([0], [[0]], [1]), ([0], [[2]], [1])],
        counting=("up",),
    )
    assert plot.policy(policy).get_ylabel() == "remaining weight, costs rounded up to multiples of 1"


def test_long_names_are_cut():
    b = solvent.CMDP.builder(horizon=1, start="here", resources=["x"], budget=1)
    b.add("here", "an action whose name goes on for longer than anyone would read", outcomes=[(1, "here", 0)])
    axes = plot.policy(solvent.solve(b.build()).policy)
    assert legend(axes)[0] == "an action whose name goes o…"


def test_names_that_matplotlib_would_take_for_something_else(tmp_path):
    b = solvent.CMDP.builder(horizon=1, start="$x$ _", resources=["_$"], budget={"_$": 1})
    b.add("$x$ _", "_take 5 $ or \\frac 6 $", outcomes=[(1, "$x$ _", 0)])
    axes = plot.policy(solvent.solve(b.build()).policy)
    assert legend(axes) == [" _take 5 \\$ or \\frac 6 \\$", "no decision"]
    plot.save(axes, tmp_path / "a.png")


def test_a_solution_stands_for_its_policy(van):
    solution = solvent.solve(van)
    whole, part = plot.policy(solution, "town"), plot.policy(solution.policy, "town")
    assert legend(whole) == legend(part)
    first, second = (axes.collections[0].get_paths() for axes in (whole, part))
    assert [path.vertices.tolist() for path in first] == [path.vertices.tolist() for path in second]


def test_a_given_axes_is_drawn_on_and_returned(van):
    axes = Figure().add_subplot()
    assert plot.policy(solvent.solve(van).policy, ax=axes) is axes


def test_what_is_refused(van):
    solution = solvent.solve(van)
    with pytest.raises(PolicyError, match=r"policy: expected an AugmentedPolicy.*, found 'stay'"):
        plot.policy("stay")
    with pytest.raises(solvent.SolventError, match="a solution with a policy, found status infeasible"):
        plot.policy(solvent.solve(instances.partition([3, 1, 1])))
    with pytest.raises(
        PolicyError, match=r"state: expected a state of the policy's model, found 'twon'; did you mean 'to"
    ):
        plot.policy(solution.policy, "twon")
    with pytest.raises(
        PolicyError,
        match="state 'parked': expected a state in which the policy makes a decision, found a state that is term",
    ):
        plot.policy(solution.policy, "parked")
    with pytest.raises(ModelError, match="resource: expected one of 'fuel', found 'money'"):
        plot.policy(solution.policy, resource="money")
    with pytest.raises(ModelError, match="resource: expected one of 'fuel', 'heat', found none given"):
        plot.policy(solvent.solve(ridge()).policy)
    gap = instances.markov_gap()
    with pytest.raises(ModelError, match="resource: expected None, since the policy does not depend on what was"):
        plot.policy(solvent.MarkovPolicy(gap, [[0], [1]]), resource="cost")


@pytest.mark.parametrize("mirrored", [False, True])
def test_runs_of_several_resources_show_every_decision_at_each_amount(mirrored):
    """Runs of nodes that differ in another amount overlap."""
    sign = -1 if mirrored else 1
    b = solvent.CMDP.builder(horizon=1, start="s", resources=["a", "x"], actions=["one", "two", "three"])
    for action in ("one", "two", "three"):
        b.add("s", action, outcomes=[(1, "s", [1, 1])])
    model = b.build()
    side = "lower" if mirrored else "upper"
    limits = resolve(model, {"a": 9, "x": Budget(**{side: [sign * 9]})})
    # for each amount of "a" the ends of the runs; without the settled node at a = 2, the outermost run goes on
    nodes = {0: [(2, 0), (5, 1), (7, 0)], 1: [(3, 2), (5, 1)], 2: [(6, 1)]}
    entries = [([a, sign * x], action) for a, runs in nodes.items() for x, action in runs]
    entries.append(([0, -20 * sign], 2))
    low, high = (-100, -10) if not mirrored else (10, 100)
    policy = AugmentedPolicy.from_nodes(
        model, Lattice.fit(model, limits), limits, lookup="at_least" if mirrored else "at_most",
        layers=[([0] * len(entries), [spent for spent, _ in entries], [action for _, action in entries])],
        settled=[(np.array([[9, low]]), np.array([[8, high]]))],
    )  # fmt: skip
    assert len(policy) == 7
    axes = plot.policy(policy, resource="x")
    for amount in range(-12, 10):
        spent = sign * amount
        expected = set()
        for a in nodes:
            node = policy.node(0, 0, [a, spent])
            if node >= 0:
                expected.add(model.actions[policy.action_N[node]])
        height = spent - 0.01 if mirrored else 9 - spent + 0.01
        height += 0.02 * mirrored
        if axes.get_ylim()[0] < height < axes.get_ylim()[1]:
            assert set(shown(axes, 0, height)) == expected, spent
    assert shown(plot.policy(policy, resource="a"), 0, 9 - 2) == ["two"]


@pytest.mark.parametrize("count", [2, 12, 40, 144])
def test_every_action_has_its_own_style(count):
    styles = [action_style(i) for i in range(count)]
    assert len(set(styles)) == count
    assert all(style.hatch == "" for style in styles[:8])


def test_a_style_depends_on_the_action_only():
    names = [f"go {i}" for i in range(40)]
    one, other = ActionScale(names, np.array([3, 30, 30, 17])), ActionScale(names, np.arange(10, 33))
    assert one.styles[30] == other.styles[30] == action_style(30)
    assert one.styles[17] == other.styles[17]


def test_rare_actions_of_many_are_drawn_as_one():
    drawn = np.concatenate([np.arange(40), np.repeat(np.arange(5, 28), 3)])
    scale = ActionScale([f"a long name of action {i}" for i in range(40)], drawn)
    assert len(scale) == MOST_LISTED
    labels = [patch.get_label() for patch in scale.handles()]
    assert labels[-2:] == ["17 others", "no decision"]
    assert all(len(label) <= 18 for label in labels)
    axes = Figure().add_subplot()
    scale.draw(axes, np.zeros((40, 4, 2)), np.arange(40))
    assert sum(len(each.get_paths()) for each in axes.collections) == 40


def test_more_actions_than_styles_are_still_told_apart():
    scale = ActionScale(range(2 * N_STYLES), np.array([1, 1 + N_STYLES, 2]))
    assert len(set(scale.styles.values())) == 3
    assert scale.styles[1] == action_style(1)


def test_panels_have_one_legend_and_one_scale(van):
    solution = solvent.solve(van)
    figure = plot.policy_panels(solution)
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert shown == ["depot", "town", "village", "farm", "harbor", "station"]
    assert figure.get_suptitle() == "delivery-van, fuel at most 30: actions by state"
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"refuel", "to town", "no decision"} <= names
    for axes in figure.axes:
        for collection in axes.collections:
            begin = collection.get_label().removesuffix("…")
            [position] = [i for i, name in enumerate(van.actions) if name == begin or name[:17].rstrip() == begin]
            assert to_hex(collection.get_facecolor()[0]) == action_style(position).color
            assert (collection.get_hatch() or "") == action_style(position).hatch
    one = plot.policy_panels(solution, ["town"], resource="fuel")
    assert len(one.axes) == 1
    markov = plot.policy_panels(solvent.MarkovPolicy(instances.markov_gap(), [[0], [1]]))
    assert len(markov.axes) == 1
    with pytest.raises(PolicyError, match="states: expected a state in which the policy makes a decision, found"):
        plot.policy_panels(solution, ["parked"])
