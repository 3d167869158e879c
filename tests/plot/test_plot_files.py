"""Pictures as files, and what drawing leaves behind: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import solvent
from effort import slow_after
from solvent import ModelError, instances, plot

BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def grid():
    model = instances.fuel_grid(3)
    return model, solvent.solve(model)


PICTURES = [
    lambda model, _: solvent.frontier(model, max_budget=9).plot(budget=5),
    lambda model, solution: plot.spending(model, solution.policy, episodes=100),
    lambda _, solution: plot.policy(solution.policy, (1, 1)),
    lambda model, solution: plot.arrows(model, solution.policy),
    lambda _, solution: plot.layers(solution),
]


@pytest.mark.slow
@pytest.mark.parametrize("picture", range(5))
@pytest.mark.parametrize("kind", [".png", ".svg", ".pdf"])
def test_the_same_picture_is_the_same_file(grid, tmp_path, kind, picture):
    check_same_file(grid, tmp_path, kind, picture)


@pytest.mark.parametrize("kind", slow_after(1, [".svg", ".png", ".pdf"]))
def test_the_same_drawing_is_the_same_file(grid, tmp_path, kind):
    check_same_file(grid, tmp_path, kind, 0)


def check_same_file(grid, tmp_path, kind, picture):
    once, again = (PICTURES[picture](*grid) for _ in range(2))
    files = [tmp_path / f"{name}{kind}" for name in "abc"]
    plot.save(once, files[0])
    plot.save(once, str(files[1]))
    plot.save(again.figure, files[2])
    contents = [file.read_bytes() for file in files]
    assert contents[0].startswith(BEGINNINGS[kind])
    assert contents[0] == contents[1] == contents[2]
    for word in (b"Date", b"atplotlib v", b"Matplotlib"):
        assert word not in contents[0]


def test_endings_may_be_capitals(grid, tmp_path):
    plot.save(plot.layers(grid[1]), tmp_path / "a.PNG")
    assert (tmp_path / "a.PNG").read_bytes().startswith(BEGINNINGS[".png"])


def test_saving_leaves_the_layout_to_its_engine(grid, tmp_path):
    axes = plot.layers(grid[1])
    engine = axes.figure.get_layout_engine()
    plot.save(axes, tmp_path / "a.png")
    assert axes.figure.get_layout_engine() is engine
    assert axes.get_in_layout()


def test_a_subfigure_is_saved_with_its_figure(tmp_path):
    figure = Figure()
    axes = figure.subfigures(1, 2)[0].add_subplot()
    plot.save(axes, tmp_path / "a.png")
    plot.save(axes.figure, tmp_path / "b.png")
    plot.save(figure, tmp_path / "c.png")
    assert len({(tmp_path / f"{name}.png").read_bytes() for name in "abc"}) == 1


def test_what_is_refused(grid, tmp_path):
    axes = plot.layers(grid[1])
    with pytest.raises(ModelError, match=r"a.jpg: expected a name ending in .png, .svg or .pdf, found '.jpg'"):
        plot.save(axes, tmp_path / "a.jpg")
    with pytest.raises(ModelError, match=r"nowhere.a.png: expected a place that can be written, found No such file"):
        plot.save(axes, tmp_path / "nowhere" / "a.png")
    with pytest.raises(ModelError, match="save: expected matplotlib Axes or a Figure, found None"):
        plot.save(None, tmp_path / "a.png")
    with pytest.raises(ModelError, match=r"save: expected the path of a .png, .svg or .pdf file, found 3"):
        plot.save(axes, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_finished_is_not_begun(grid, tmp_path, monkeypatch):
    target = tmp_path / "a.png"
    target.write_bytes(b"before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ModelError, match="expected a place that can be written, found No space left"):
        plot.save(plot.layers(grid[1]), target)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a.png", b"before")]


def test_drawing_leaves_settings_backend_and_pyplot_alone(grid, tmp_path):
    with mpl.rc_context({"font.size": 17, "axes.facecolor": "black", "lines.linewidth": 9}):
        before = dict(mpl.rcParams.copy())
        for draw in PICTURES:
            plot.save(draw(*grid), tmp_path / "a.png")
        assert dict(mpl.rcParams.copy()) == before
    assert plt.get_fignums() == []


def test_settings_come_back_when_drawing_fails():
    before = dict(mpl.rcParams.copy())
    with pytest.raises(ModelError):
        plot.frontier(solvent.frontier(instances.knapsack([1], [2])), ax=3)
    assert dict(mpl.rcParams.copy()) == before


def test_a_picture_looks_the_same_whatever_the_users_settings(grid, tmp_path):
    plot.save(plot.layers(grid[1]), tmp_path / "plain.png")
    with mpl.rc_context({"font.size": 17, "axes.facecolor": "black", "axes.grid": True}):
        plot.save(plot.layers(grid[1]), tmp_path / "odd.png")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "odd.png").read_bytes()


def test_users_axes_of_pyplot_stay_theirs(grid, tmp_path):
    figure, axes = plt.subplots()
    canvas = figure.canvas
    plot.save(plot.layers(grid[1], axes), tmp_path / "a.pdf")
    assert plt.get_fignums() == [figure.number]
    assert figure.canvas is canvas
    plt.close(figure)


def test_nothing_is_loaded_before_it_is_needed():
    code = """
import sys, solvent
from solvent import plot
print([name for name in ("matplotlib", "rich", "numba") if name in sys.modules])
print(plot.terminal_plot([0, 1], [0, 1])[:1] != "", "matplotlib" in sys.modules)
curve = solvent.frontier(solvent.instances.knapsack([1], [2]))
print("matplotlib" in sys.modules)
plot.frontier(curve)
print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    environment.pop("DISPLAY", None)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == ["[]", "True False", "False", "True False"]


def test_every_name_is_there():
    assert dir(plot) == sorted(plot.__all__)
    for name in plot.__all__:
        assert callable(getattr(plot, name))
    assert solvent.plot is plot
    with pytest.raises(AttributeError, match=r"module 'solvent.plot' has no attribute 'pie'"):
        _ = plot.pie


def test_colours_of_categories_differ_in_lightness_or_hue_for_the_color_blind():
    from matplotlib.colors import to_rgb

    from solvent.plot.palette import CATEGORIES

    # what is left of a color without red cones, and without green ones (Viénot, Brettel and Mollon)
    blind = {
        "protan": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
        "deutan": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    }
    for seen in blind.values():
        colors = [seen @ (np.array(to_rgb(color)) ** 2.2) for color in CATEGORIES]
        colors = [np.clip(color, 0, 1) ** (1 / 2.2) for color in colors]
        apart = [np.linalg.norm(a - b) for i, a in enumerate(colors) for b in colors[:i]]
        assert min(apart) > 0.1


@pytest.mark.nightly
def test_the_pictures_of_the_documentation_can_be_drawn_again(tmp_path):
    from solvent.experiments.paper import ALL

    images = Path(__file__).parent.parent.parent / "docs" / "images"
    subprocess.run([sys.executable, images / "make.py", tmp_path], check=True, capture_output=True)
    elsewhere = {f"paper-{name}.png" for name in ALL} | {"benchmarks.png"}  # make paper, make bench
    elsewhere |= {file.name for file in images.glob("learning-*.png")}  # make bench-learning
    elsewhere |= {file.name for file in images.glob("claims-*.png")}  # make bench-claims
    elsewhere |= {"van-report.png"}  # docs/images/report.py, with a browser
    drawn = {file.name for file in tmp_path.iterdir()}
    assert drawn == {file.name for file in images.glob("*.png")} - elsewhere


def test_figures_and_axes_show_in_notebooks():
    import pickle

    from matplotlib.figure import Figure

    model = instances.fuel_grid(3)
    solution = solvent.solve(model)
    axes = plot.policy(solution, (1, 1))
    assert axes._repr_png_().startswith(b"\x89PNG")
    assert axes.figure._repr_png_() == axes._repr_png_()
    assert plot.policy_panels(solution)._repr_png_().startswith(b"\x89PNG")
    # the user's own axes are theirs to show
    own = Figure().add_subplot()
    assert plot.policy(solution, (1, 1), ax=own) is own
    assert not hasattr(own, "_repr_png_")
    assert pickle.loads(pickle.dumps(axes)).get_title(loc="left") == axes.get_title(loc="left")
