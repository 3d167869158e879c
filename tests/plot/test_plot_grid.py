"""Arrows point where moves lead, whichever way the names of the cells count."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import solvent
from catalog import ridge
from solvent import ModelError, PolicyError, instances, plot
from solvent.plot.grid_states import grid_layout, read_cell, read_direction


def drawn(axes):
    """Return each arrow as {(column, row): (across, down)} in the picture's coordinates, rounded to signs."""
    (quiver,) = (each for each in axes.collections if isinstance(each, Quiver))
    return {
        (int(x), int(y)): (float(np.sign(u)), float(np.sign(v)))
        for x, y, u, v in zip(quiver.X, quiver.Y, quiver.U, quiver.V, strict=True)
    }


def corridor(names, actions, start, *, horizon=4, moves=True):
    """A two by two grid: along the top, then down, then rest, for cells and actions by the given names."""
    b = solvent.CMDP.builder(horizon=horizon, start=start, resources=["fuel"], budget=2)
    across, down, rest = actions
    here, right, corner, below = names
    for cell, target, action in (
        (here, right, across),
        (below, corner, across),
        (here, below, down),
        (right, corner, down),
    ):
        b.add(cell, action, outcomes=[(0.9, target, 1), (0.1, cell, 1)] if moves else [(1, target, 1)])
    for cell in names:
        b.add(cell, rest, reward=1 if cell == corner else 0, outcomes=[(1, cell, 0)])
    return b.build()


@pytest.mark.parametrize(
    ("names", "frame"),
    [
        ([(0, 0), (1, 0), (1, 1), (0, 1)], (0, True)),  # x to the right, y downwards
        ([(0, 1), (1, 1), (1, 0), (0, 0)], (0, False)),  # y upwards
        ([(0, 0), (0, 1), (1, 1), (1, 0)], (1, True)),  # row, column
        (["0,0", "0,1", "1,1", "1,0"], (1, True)),
        (["(0, 0)", "(1, 0)", "(1, 1)", "(0, 1)"], (0, True)),
    ],
)
def test_the_way_the_numbers_count_is_read_off_the_moves(names, frame):
    model = corridor(names, ["east", "south", "rest"], names[0])
    layout = grid_layout(model)
    assert layout.frame == frame
    origin = layout.place[model.state_index(names[0])]
    assert layout.place[model.state_index(names[1])] == (origin[0] + 1, origin[1])
    assert layout.place[model.state_index(names[3])] == (origin[0], origin[1] + 1)


def test_rows_that_count_upwards_are_named_without_a_negative_zero():
    model = corridor([(0, 1), (1, 1), (1, 0), (0, 0)], ["east", "south", "rest"], (0, 1))
    axes = plot.arrows(model, solvent.solve(model).policy)
    axes.figure.canvas.draw()
    format_row = axes.yaxis.get_major_formatter()
    assert [format_row(row, 0) for row in (0.0, -1.0, -2.0)] == ["0", "1", "2"]


def test_arrows_are_the_policys_moves():
    model = instances.fuel_grid(4)
    policy = solvent.solve(model).policy
    compass = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
    axes = plot.arrows(model, policy, step=5, spent=2)
    found, letters = drawn(axes), {text.get_position() for text in axes.texts}
    decided = 0
    for cell in model.states:
        try:
            action = policy.action(5, cell, 2)
        except PolicyError:
            assert cell not in found
            continue
        decided += 1
        assert found.get(cell) == compass.get(action)
        assert (cell in letters) == (action == "stay")
    assert decided > 5
    # the axis of rows is turned upside down, so that growing rows go down
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_actions_without_a_direction_in_their_names_point_to_where_they_lead():
    names = [(0, 0), (1, 0), (1, 1), (0, 1)]
    model = corridor(names, ["go", "sink", "rest"], names[0], horizon=5)
    table = np.full((5, 4), model.action_index("go"))
    for cell in (names[1], names[2]):
        table[:, model.state_index(cell)] = model.action_index("sink" if cell == names[1] else "rest")
    axes = plot.arrows(model, solvent.MarkovPolicy(model, table), step=0)
    assert drawn(axes) == {(0, 0): (1, 0), (0, 1): (1, 0), (1, 0): (0, 1)}
    assert [text.get_text() for text in axes.texts] == ["R"]
    assert "R: rest" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_by_default_each_cell_is_shown_at_the_first_step_it_can_be_reached():
    model = ridge()
    policy = solvent.solve(model).policy
    axes = plot.arrows(model, policy)
    first = {}
    for decision in policy:
        first.setdefault(decision.state, (decision.step, decision.action))
    steps = [text.get_text() for text in axes.texts if text.get_text().isdigit()]
    assert sorted(steps) == sorted(str(step) for step, _ in first.values())
    moves = {cell for cell, (_, action) in first.items() if action in ("north", "east", "south", "west")}
    assert set(drawn(axes)) == moves


def test_random_choices_have_arrows_by_their_probability():
    names = [(0, 0), (1, 0), (1, 1), (0, 1)]
    model = corridor(names, ["east", "south", "rest"], names[0])
    table = np.zeros((4, 4, 3))
    table[:, :, model.action_index("rest")] = 1
    table[:, 0] = 0
    table[:, 0, model.action_index("east")] = 0.75
    table[:, 0, model.action_index("south")] = 0.25
    axes = plot.arrows(model, solvent.MarkovPolicy(model, table), step=0)
    (quiver,) = (each for each in axes.collections if isinstance(each, Quiver))
    assert sorted(np.hypot(quiver.U, quiver.V) / np.hypot(quiver.U, quiver.V).sum()) == pytest.approx([0.25, 0.75])


def test_start_goal_and_stations_are_marked():
    model = instances.fuel_grid(3)
    axes = plot.arrows(model, solvent.solve(model).policy)
    marked = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert marked == {"start": [(0, 0)], "greatest reward": [(2, 2)]}
    assert "gives fuel back" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_terminal_cells_are_marked_and_other_terminal_states_left_out():
    b = solvent.CMDP.builder(horizon=2, start=(0, 0), resources=["x"], budget=1)
    b.add((0, 0), "right", reward=1, outcomes=[(0.5, (1, 0), 1), (0.5, "lost", 0)])
    b.terminal((1, 0))
    b.terminal("lost")
    model = b.build()
    axes = plot.arrows(model, solvent.solve(model).policy, step=0)
    marked = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert marked["terminal"] == [(1, 0)]
    assert drawn(axes) == {(0, 0): (1, 0)}


def test_what_a_cell_is_called():
    assert [read_cell(name) for name in ((1, -2), "3;4", "[5, 6]", "7:8")] == [(1, -2), (3, 4), (5, 6), (7, 8)]
    assert [read_cell(name) for name in (3, "a,b", "1,2,3", (1.5, 2), (True, 1), ("a", 1))] == [None] * 6
    assert [read_direction(name) for name in ("Up", "go_down", "E", "left or right", "rest")] == [
        (0, -1), (0, 1), (1, 0), None, None,
    ]  # fmt: skip


def test_a_given_axes_is_drawn_on_and_returned():
    model = instances.fuel_grid(3)
    axes = Figure().add_subplot()
    assert plot.arrows(model, solvent.solve(model).policy, ax=axes) is axes


def test_a_solution_stands_for_its_policy():
    model = instances.fuel_grid(3)
    solution = solvent.solve(model)
    whole, part = (plot.arrows(model, each).get_legend().get_texts() for each in (solution, solution.policy))
    assert [text.get_text() for text in whole] == [text.get_text() for text in part]
    with pytest.raises(solvent.SolventError, match="a solution with a policy, found status infeasible"):
        plot.arrows(model, solvent.solve(model, -1))


def test_what_is_refused():
    model = instances.fuel_grid(3)
    policy = solvent.solve(model, method="reduction").policy
    sack = instances.knapsack([1], [2], capacity=1)
    with pytest.raises(
        ModelError, match=r"arrows: expected states that are cells.*found the state 'knapsack'; plot.policy draws any"
    ):
        plot.arrows(sack, solvent.solve(sack).policy)
    with pytest.raises(PolicyError, match="policy: expected a policy for this model"):
        plot.arrows(instances.fuel_grid(4), policy)
    other = solvent.MarkovPolicy(sack, [[1]])
    with pytest.raises(PolicyError, match="policy: expected a policy for this model, found one for another"):
        plot.arrows(model, other)
    with pytest.raises(PolicyError, match="policy: expected an AugmentedPolicy, RandomizedPolicy or MarkovPolicy"):
        plot.arrows(model, "north")
    with pytest.raises(PolicyError, match="step: expected a step from 0 to 8, found 9"):
        plot.arrows(model, policy, step=9)
    with pytest.raises(PolicyError, match="arrows: expected a cell in which the policy makes a decision at step 0, f"):
        plot.arrows(model, policy, step=0, spent=3)
    with pytest.raises(PolicyError, match=r"spent: expected fuel in whole multiples of 1, found 0\.5"):
        plot.arrows(model, policy, step=3, spent=0.5)
    blocked = np.full((4, 4), 1)
    names = [(0, 0), (1, 0), (1, 1), (0, 1)]
    small = corridor(names, ["east", "south", "rest"], names[0])
    with pytest.raises(PolicyError, match="expected an action that is available, found 'south'"):
        plot.arrows(small, solvent.MarkovPolicy(small, blocked), step=0)


def test_states_named_as_on_a_chessboard_are_cells() -> None:
    b = solvent.CMDP.builder(horizon=2, start="b1", resources=["fuel"], budget={"fuel": 2})
    b.add("b1", "north", outcomes=[(1, "b2", {"fuel": 1})])
    b.add("b2", "west", reward=1, outcomes=[(1, "a2", {"fuel": 1})])
    b.add("a2", "wait", outcomes=[(1, "a2", 0)])
    model = b.build()
    layout = grid_layout(model)
    assert layout.lettered
    places = {model.states[index]: place for index, place in layout.place.items()}
    assert places == {"b1": (2, -1), "b2": (2, -2), "a2": (1, -2)}  # rows count downward
    axes = plot.arrows(model, solvent.solve(model))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("letter of the state", "number of the state")
    assert [axes.xaxis.get_major_formatter()(place, None) for place in (1, 2)] == ["a", "b"]
    assert [axes.yaxis.get_major_formatter()(row, None) for row in (-1, -2)] == ["1", "2"]


def test_numbered_states_are_not_cells() -> None:
    b = solvent.CMDP.builder(horizon=1, start="s1", resources=[])
    b.add("s1", "go", outcomes=[(1, "s2", {})])
    b.add("s2", "go", outcomes=[(1, "s1", {})])
    with pytest.raises(solvent.ModelError, match="arrows: expected states that are cells"):
        grid_layout(b.build())
