"""Heat maps: the shares of actions and the values are those of the policy, followed from the start."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import solvent
from solvent import ModelError, PolicyError, instances, plot
from solvent.plot import heat

EXAMPLES = Path(solvent.examples.__file__).parent


@pytest.fixture(scope="module")
def coin():
    """Return a model in which the second action depends on what the first step cost."""
    b = solvent.CMDP.builder(horizon=2, start="a", resources=["fuel"], budget=3, name="coin")
    b.add("a", "go", reward=1, outcomes=[(0.25, "b", 2), (0.75, "b", 1)])
    b.add("b", "fly", reward=10, outcomes=[(1, "b", 2)])
    b.add("b", "walk", reward=4, outcomes=[(1, "b", 1)])
    return b.build()


def cells(axes):
    """Return the rectangles as (label, left, right, low, high)."""
    found = []
    for collection in axes.collections:
        for path in collection.get_paths():
            (left, low), (right, high) = path.vertices.min(0), path.vertices.max(0)
            found.append((collection.get_label(), left, right, low, high))
    return found


def test_cells_are_divided_by_probability(coin):
    axes = plot.heat_map(solvent.solve(coin))
    found = {name: (left, right, low, high) for name, left, right, low, high in cells(axes)}
    assert found["go"] == pytest.approx((-0.46, 0.46, -0.5, 0.5))
    assert found["fly"] == pytest.approx((0.54, 0.54 + 0.75 * 0.92, 0.5, 1.5))
    assert found["walk"] == pytest.approx((0.54 + 0.75 * 0.92, 1.46, 0.5, 1.5))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_title(loc="left") == "coin, fuel at most 3: actions"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["go", "fly", "walk", "no decision"]


def test_one_step_by_what_remains(coin):
    axes = plot.heat_map(solvent.solve(coin), step=1)
    found = {name: (left + right) / 2 for name, left, right, _, _ in cells(axes)}
    assert found == pytest.approx({"fly": 2, "walk": 1})
    assert axes.get_xlabel() == "remaining fuel"
    assert axes.get_title(loc="left") == "coin, fuel at most 3: actions at step 1"


def test_values_are_means_of_what_is_earned(coin):
    axes = plot.heat_map(solvent.solve(coin), show="value")
    [drawn] = axes.collections
    np.testing.assert_allclose(drawn.get_array(), [9.5, 8.5])
    axes = plot.heat_map(solvent.solve(coin), show="value", step=1)
    np.testing.assert_allclose(axes.collections[0].get_array(), [4, 10])
    assert axes.get_title(loc="left") == "coin, fuel at most 3: expected reward from there on at step 1"


def test_probabilities_sum_to_one_while_episodes_go_on():
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    policy = solvent.solve(model).policy
    axis = heat.AmountAxis(policy, model.horizon, None)
    visits = heat._follow(policy, model, axis, None)
    total = np.bincount(visits.x.astype(int), visits.weight)
    assert total[0] == pytest.approx(1)
    assert (np.diff(total) < 1e-12).all()
    first = visits.x == 0
    assert visits.value[first][0] == pytest.approx(solvent.solve(model).value)


def test_first_states_that_are_drawn_and_markov_policies():
    b = solvent.CMDP.builder(horizon=1, start={"a": 0.2, "b": 0.5, "over": 0.3}, resources=["x"], budget=1)
    b.add("a", "go", reward=1, outcomes=[(1, "a", 0)])
    b.add("b", "go", reward=2, outcomes=[(1, "b", 0)])
    b.terminal("over")
    model = b.build()
    policy = solvent.MarkovPolicy(model, [[0, 0, -1]])
    axes = plot.heat_map(policy, show="value")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    np.testing.assert_allclose(axes.collections[0].get_array(), [1, 2])


def test_several_resources():
    model = solvent.load_model(EXAMPLES / "drone.yaml")
    solution = solvent.solve(model)
    axes = plot.heat_map(solution, step=5, resource="battery")
    assert axes.get_xlabel() == "remaining battery"
    with pytest.raises(ModelError, match="resource: expected one of 'battery', 'risk', found none given"):
        plot.heat_map(solution, step=5)


def test_the_most_likely_of_many_states_are_shown():
    model = instances.fuel_grid(8)
    axes = plot.heat_map(solvent.solve(model))
    assert len(axes.get_yticklabels()) == 40
    assert re.fullmatch("40 of [4-6][0-9] states, the most likely", axes.get_ylabel())


def test_a_policy_without_its_model(coin, tmp_path):
    solvent.solve(coin).policy.save(tmp_path / "coin.policy")
    loaded = solvent.load_policy(tmp_path / "coin.policy")
    message = "policy: expected its model, found none; pass model=..., or use load_policy(path, model)"
    with pytest.raises(PolicyError, match=re.escape(message)):
        plot.heat_map(loaded)
    assert len(cells(plot.heat_map(loaded, model=coin))) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"show": "reward"}, "show: expected 'action' or 'value', found 'reward'"),
        ({"step": 2}, "step: expected a step from 0 to 1, found 2"),
        ({"step": True}, "step: expected a step from 0 to 1, found True"),
        ({"resource": "fuel"}, "resource: expected None, as the horizontal axis is the step, found 'fuel'; pass step="),
        ({"step": 1, "resource": "feul"}, "resource: expected one of 'fuel', found 'feul'; did you mean 'fuel'?"),
        ({"model": 3}, "model: expected a CMDP, found 3"),
    ],
)
def test_mistakes(coin, options, message):
    with pytest.raises(ModelError, match="^" + re.escape(message)):
        plot.heat_map(solvent.solve(coin), **options)


def test_policies_that_cannot_be_drawn(coin, monkeypatch):
    gap = instances.markov_gap(prize=10)
    expected = "policy: expected one that depends on step, state and amounts only, found an UntilViolationPolicy"
    with pytest.raises(PolicyError, match=expected):
        plot.heat_map(solvent.baselines.chance(gap).policy)
    with pytest.raises(ModelError, match="step: expected None, since the policy does not depend on what was spent"):
        plot.heat_map(solvent.MarkovPolicy(gap, [[0], [1]]), step=1)
    with pytest.raises(PolicyError, match="policy: expected an AugmentedPolicy"):
        plot.heat_map(3)
    monkeypatch.setattr(heat, "_SECONDS", 1e-9)
    message = "heat_map: expected a policy that can be followed within 1e-09 seconds, found one with more nodes; "
    with pytest.raises(PolicyError, match=message):
        plot.heat_map(solvent.solve(coin))


def test_a_long_legend_leaves_room_for_the_plot():
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    axes = plot.heat_map(solvent.solve(model))
    assert len(axes.get_legend().get_texts()) == 14
    axes.figure.draw_without_rendering()
    assert axes.get_position().height > 0.6
    assert axes.get_position().width > 0.4
