"""The picture of a surface shows exactly what the surface says."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

import solvent
from solvent import BudgetError, ModelError, instances, plot
from solvent.plot import surfaces


def roads(budget=None) -> solvent.CMDP:
    b = solvent.CMDP.builder(horizon=2, start=0, resources=["fuel", "wear", "hours"], budget=budget)
    b.add(0, "road", reward=2, outcomes=[(1, 0, [3, 1, 1])])
    b.add(0, "gravel", reward=1, outcomes=[(0.5, 0, [1, 2, 2]), (0.5, 0, [1, 1, 2])])
    b.add(0, "track", reward=1, outcomes=[(1, 0, [2, 2, 3])])
    return b.build()


def mesh_of(axes):
    (mesh,) = (each for each in axes.collections if isinstance(each, QuadMesh))
    return mesh


def line_of(axes, label):
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_cells_are_the_table():
    surface = solvent.frontier(roads(), ["fuel", "wear"], {"fuel": 6, "wear": 4})
    axes = plot.surface(surface)
    mesh = mesh_of(axes)
    shown = np.ma.getdata(mesh.get_array()).reshape(len(surface.amounts("wear")), -1)
    hidden = np.ma.getmaskarray(mesh.get_array()).reshape(shown.shape)
    assert (hidden == np.isneginf(surface.table.T)).all()
    assert (shown[~hidden] == surface.table.T[~hidden]).all()
    corners = mesh.get_coordinates()
    assert corners[0, :, 0].tolist() == [*map(float, surface.amounts("fuel")), 7.4]  # it is flat from 6 on
    assert corners[:, 0, 1].tolist()[:-1] == [*map(float, surface.amounts("wear"))]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("budget of fuel", "budget of wear")
    assert axes.figure.axes[1].get_ylabel() == "optimal value"


def test_nothing_is_drawn_beyond_the_largest_budget():
    """Values beyond it are not known; the largest budget itself is a narrow strip."""
    surface = solvent.frontier(roads(), ["fuel", "wear"], {"fuel": 4, "wear": "3.5"})
    assert surface.flat_beyond == {"fuel": False, "wear": False}
    axes = surface.plot()
    corners = mesh_of(axes).get_coordinates()
    assert corners[0, :-1, 0].tolist() == [*map(float, surface.amounts("fuel"))]
    assert 4 < corners[0, -1, 0] < 4.1
    assert corners[-1, 0, 1] == 3.5
    assert (axes.get_xlim()[1], axes.get_ylim()[1]) == (corners[0, -1, 0], 3.5)


def test_the_front_goes_through_the_least_budgets():
    surface = solvent.frontier(roads(), ["fuel", "wear"])
    assert surface.least_budgets == ((2, 4), (4, 3), (6, 2))
    axes = surface.plot()
    border = line_of(axes, "least budgets")
    for least in surface.least_budgets:
        assert least in border
    assert {x for x, y in border if y == 4} == {2, 3, 4}
    assert {x for x, y in border if y == 3} == {4, 5, 6}
    assert {x for x, y in border if y == 2} == {6, border[-1][0]}
    assert border[0][0] == 2
    assert border[-1][1] == 2
    (dots,) = (line for line in axes.lines if line.get_marker() == "o")
    assert list(zip(dots.get_xdata(), dots.get_ydata(), strict=True)) == [(2, 4), (4, 3), (6, 2)]
    low, high = axes.get_xlim()
    assert low < 2
    assert high >= 6


def test_contour_lines_are_the_borders_of_values():
    surface = solvent.frontier(instances.random(3, 2, horizon=4, resources=2, cost_range=(0, 3), seed=5), ["r1", "r0"])
    axes = surface.plot()
    labels = [line.get_label() for line in axes.lines if line.get_label().startswith("value ")]
    assert len(labels) >= 3
    for label in labels:
        level = float(label.split()[1])
        corners = [(x, y) for x, y in line_of(axes, label) if np.isfinite(x)]
        values = [(surface.value([x, y]), surface.value([x - 1e-3, y - 1e-3])) for x, y in corners]
        assert all(below < level for _, below in values)
        assert any(value >= level for value, _ in values)


def test_a_marked_pair():
    surface = solvent.frontier(roads(), ["fuel", "wear"])
    for given in ([4, 4], {"wear": 4, "fuel": 4}):
        axes = surface.plot(budget=given)
        assert line_of(axes, "marked budgets") == [(4, 4)]
        assert "3 at 4, 4" in texts(axes)
    assert "infeasible at 1, 4" in texts(surface.plot(budget=[1, 4]))
    for wrong in ([1], {"fuel": 3}, "34", 3):
        with pytest.raises(BudgetError, match="budget: expected a budget of 'fuel' and of 'wear', found"):
            surface.plot(budget=wrong)


def test_more_than_two_resources():
    surface = solvent.frontier(roads(), ["hours", "fuel", "wear"])
    axes = surface.plot(at={"hours": 4}, budget=[4, 4])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("budget of fuel", "budget of wear")
    assert axes.get_title(loc="left") == "hours at most 4: optimal value by budget"
    assert line_of(axes, "marked budgets") == [(4, 4)]
    part = surface.section(["fuel", "wear"], at={"hours": 4})
    hidden = np.ma.getmaskarray(mesh_of(axes).get_array()).reshape(part.T.shape)
    assert (hidden == np.isneginf(part.T)).all()
    assert "no feasible policy\nfor any of these budgets" in texts(surface.plot(at={"hours": 1}))
    for wrong in (None, {"hours": 4, "fuel": 3}):
        with pytest.raises(ModelError, match="at: expected budgets of 1 of 'hours', 'fuel', 'wear', which leaves two"):
            surface.plot(at=wrong)
    with pytest.raises(ModelError, match="at: expected no budgets, as two resources vary, found"):
        solvent.frontier(roads(), ["fuel", "wear"]).plot(at={"fuel": 2})


def test_limits_that_are_kept_and_ignored_are_named():
    model = roads({"fuel": 5, "wear": 5, "hours": 4})
    assert (
        solvent.frontier(model, ["fuel", "wear"]).plot().get_title(loc="left")
        == "hours at most 4: optimal value by budget"
    )
    axes = solvent.frontier(model, ["fuel", "wear"], ignore_limits=True).plot()
    assert texts(axes)[-1] == "ignored limits, which policies can break: hours: at most 4"


def test_what_remains():
    model = roads({"fuel": 9, "wear": 9, "hours": 9})
    axes = solvent.frontier(model, ["fuel", "wear"], vary="remaining").plot()
    assert axes.get_xlabel() == "fuel remaining at the start"
    assert line_of(axes, "least remaining")


def test_large_tables_are_thinned(monkeypatch):
    monkeypatch.setattr(surfaces, "_MOST_DRAWN", 4)
    surface = solvent.frontier(roads(), ["fuel", "wear"], {"fuel": 12})
    axes = surface.plot()
    assert mesh_of(axes).get_coordinates().shape[1] <= 5
    (dots,) = (line for line in axes.lines if line.get_marker() == "o")
    assert list(zip(dots.get_xdata(), dots.get_ydata(), strict=True)) == [(2, 4), (4, 3), (6, 2)]


def test_a_given_axes_is_drawn_on_and_returned():
    surface = solvent.frontier(roads(), ["fuel", "wear"])
    axes = Figure().add_subplot()
    assert plot.surface(surface, axes) is axes
    assert surface.plot(axes) is axes
    with pytest.raises(ModelError, match="ax: expected matplotlib Axes"):
        surface.plot("here")
    with pytest.raises(
        ModelError, match=r"surface: expected a Surface, found .*; solvent.frontier\(model, \[\.\.\.\]\)"
    ):
        plot.surface(roads())


def test_one_value_and_one_budget():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel", "wear"])
    b.add(0, "wait", reward=3, outcomes=[(1, 0, [0, 0])])
    surface = solvent.frontier(b.build(), ["fuel", "wear"])
    assert surface.table.tolist() == [[3]]
    axes = surface.plot(budget=[0, 0])
    assert line_of(axes, "least budgets")
    assert mesh_of(axes).get_array().tolist() == [[3.0]]
