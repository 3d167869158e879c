"""The figures of the page: medians over seeds with bands of the middle 80 %."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench.training.methods import METHODS
from bench.training.tabular import LEARNERS, SIZES
from bench.training.tasks import Task
from solvent.plot import style

BROWN = "#8C510A"
#: Colors and lines of the methods: those with Solvent are solid and thick, penalties dotted, OmniSafe's dashed.
LINES: dict[str, dict[str, Any]] = {
    "solvent-ppo": {"color": style.BLUE, "linewidth": 2.2},
    "solvent-sac": {"color": style.SKY, "linewidth": 2.2},
    "ppo": {"color": style.GRAY, "linestyle": ":"},
    "penalty": {"color": style.ORANGE, "linestyle": ":"},
    "penalty-large": {"color": style.BLACK, "linestyle": ":"},
    "PPOSaute": {"color": style.VERMILLION, "linestyle": "--"},
    "PPOLag": {"color": style.GREEN, "linestyle": "--"},
    "CPO": {"color": style.PURPLE, "linestyle": "--"},
    "PPOEarlyTerminated": {"color": BROWN, "linestyle": "--"},
}
LEARNER_LINES: dict[str, dict[str, Any]] = {
    "pooled": {"color": style.BLUE, "linewidth": 2.2},
    "node": {"color": style.SKY},
    "theory": {"color": style.GRAY, "linestyle": "--"},
    "q": {"color": style.VERMILLION, "linestyle": "--"},
    "ucb-q": {"color": style.GREEN, "linestyle": "--"},
}
#: Quantiles that bound a band.
BAND = (0.1, 0.9)


def band(rows: list[list[float | None]]) -> tuple[Any, Any, Any]:
    """Return the median and the ends of the band, at each point, of curves of several seeds.

    Missing values are skipped; a point without any value is nan.
    """
    values = np.array([[np.nan if x is None else x for x in row] for row in rows], float)
    found = np.full((3, values.shape[1]), np.nan)
    known = ~np.isnan(values).all(axis=0)
    found[:, known] = np.nanquantile(values[:, known], (0.5, *BAND), axis=0)
    return found[0], found[1], found[2]


def _draw(axes: Any, x: Any, rows: list[list[float | None]], line: dict[str, Any], label: str) -> None:
    middle, low, high = band(rows)
    known = ~np.isnan(middle)
    x = np.asarray(x, float)[known]
    axes.fill_between(x, low[known], high[known], color=line["color"], alpha=0.15, linewidth=0)
    axes.plot(x, middle[known], label=label, **line)


def training(records: list[dict[str, Any]], task: Task) -> Figure:
    """Return a figure of a task: returns of training episodes, and cumulative violations, by step."""
    with style.look():
        figure = Figure(figsize=(9.6, 4.3), layout="constrained")
        returns, violations = figure.subplots(1, 2)
        for name, method in METHODS.items():
            curves = [
                record["curve"]
                for record in records
                if record["task"] == task.name and record["method"] == name and "curve" in record
            ]
            if curves:
                _draw(returns, curves[0]["step"], [curve["return"] for curve in curves], LINES[name], method.title)
                _draw(violations, curves[0]["step"], [curve["over"] for curve in curves], LINES[name], method.title)
        returns.set_title("Return of training episodes")
        violations.set_title(f"Training episodes over the budget of {task.budget}, so far")
        _finish(figure, (returns, violations), "training steps")
    return figure


def learning(records: list[dict[str, Any]]) -> Figure:
    """Return a figure of the tabular learners: share of the optimum by episodes."""
    with style.look():
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        panels = figure.subplots(1, len(SIZES), sharey=True)
        for axes, problem in zip(panels, SIZES, strict=True):
            for name, title in LEARNERS.items():
                done = [r for r in records if r["task"] == problem and r["method"] == name and "value" in r]
                if done:
                    shares = [[value / record["optimum"] for value in record["value"]] for record in done]
                    _draw(axes, done[0]["episodes"], shares, LEARNER_LINES[name], title)
            axes.set_title(problem)
            axes.set_xscale("log")
            axes.axhline(1, color=style.BLACK, linewidth=0.8)
        panels[0].set_ylabel("share of the optimum")
        _finish(figure, panels, "episodes")
    return figure


def _finish(figure: Figure, panels: Any, label: str) -> None:
    for axes in panels:
        axes.set_xlabel(label)
        axes.grid(color=style.GRID)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(handles), 5))
