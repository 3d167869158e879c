"""The figures of docs/learning-claims.md."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench.claims import approximate, complexity, reduction
from bench.claims.statistics import points_of
from solvent.plot import style

COLORS = {"q": style.GREEN, "ppo": style.BLUE, "dqn": style.VERMILLION}
LINES: dict[str, dict[str, Any]] = {
    "theory": {"color": style.GRAY, "marker": "s"},
    "node": {"color": style.VERMILLION, "marker": "^"},
    "pooled": {"color": style.BLUE, "marker": "o"},
}
SCHEMES: dict[str, dict[str, Any]] = {
    "additive": {"color": style.VERMILLION, "marker": "o"},
    "relative": {"color": style.ORANGE, "marker": "^"},
    "additive strict": {"color": style.BLUE, "marker": "o"},
    "relative strict": {"color": style.SKY, "marker": "^"},
}
#: Labels of the axes of the sweeps.
SWEEPS = {
    "D": "D, distinct amounts spent",
    "H": "H, steps",
    "S": "S, states",
    "A": "A, actions",
    "1/gamma": "1/γ, inverse of the gap",
}


def reduction_figure(records: list[dict[str, Any]]) -> Figure:
    """Return a figure of the error of each seed, as a share of the optimum, by problem and learner."""
    with style.look():
        figure = Figure(figsize=(9.6, 3.4), layout="constrained")
        panels = figure.subplots(1, len(reduction.PROBLEMS), sharey=True, squeeze=False)[0]
        for axes, task in zip(panels, reduction.PROBLEMS, strict=True):
            for place, method in enumerate(reduction.LEARNERS):
                found = [r for r in records if (r["kind"], r["task"], r["method"]) == ("reduction", task, method)]
                errors = [100 * (1 - r["value"] / r["optimum"]) for r in found if "error" not in r]
                if errors:
                    spread = np.linspace(-0.25, 0.25, len(errors)) if len(errors) > 1 else [0.0]
                    axes.scatter(place + np.asarray(spread), errors, color=COLORS[method], s=18, zorder=3)
                    axes.hlines(np.median(errors), place - 0.35, place + 0.35, color=style.BLACK, linewidth=1)
            for level in (1, 5):
                axes.axhline(level, color=style.GRAY, linewidth=0.8, linestyle=":")
            axes.set_xticks(range(len(reduction.LEARNERS)), ["Q-learning", "MaskablePPO", "DQN"])
            axes.set_xlim(-0.6, len(reduction.LEARNERS) - 0.4)
            axes.set_title(task)
        panels[0].set_ylabel("error, % of the optimum")
        panels[0].set_ylim(bottom=-0.3)
        _finish(panels)
    return figure


def complexity_figure(records: list[dict[str, Any]]) -> Figure:
    """Return a figure of the episodes until the gap is proved, by sweep and learner, on logarithmic axes."""
    with style.look():
        figure = Figure(figsize=(10.6, 3.4), layout="constrained")
        panels = figure.subplots(1, len(SWEEPS), sharey=True)
        for axes, (sweep, label) in zip(panels, SWEEPS.items(), strict=True):
            for method, title in complexity.LEARNERS.items():
                found = [p for p in points_of(records, method, sweep) if p["proved"]]
                if not found:
                    continue
                levels = sorted({p["level"] for p in found})
                means = [np.exp(fmean(np.log(p["episodes"]) for p in found if p["level"] == x)) for x in levels]
                axes.scatter([p["level"] for p in found], [p["episodes"] for p in found], color=LINES[method]["color"],
                             s=5, alpha=0.4, linewidth=0)  # fmt: skip
                axes.plot(levels, means, label=title, markersize=4, **LINES[method])
                if method == "theory":
                    rising = [means[0] * (x / levels[0]) ** complexity.EPISODES[sweep] for x in levels]
                    axes.plot(levels, rising, color=style.BLACK, linestyle=":", linewidth=1, label="slope of the bound")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axes.set_xlabel(label)
        panels[0].set_ylabel("episodes until γ is proved")
        _finish(panels)
        handles, labels = panels[0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))
    return figure


def rounding_figure(records: list[dict[str, Any]]) -> Figure:
    """Return a figure of learned values against what rounding allows, and of excesses against their bounds."""
    with style.look():
        figure = Figure(figsize=(9.6, 3.8), layout="constrained")
        values, excesses = figure.subplots(1, 2)
        for scheme, (title, _, _) in approximate.SCHEMES.items():
            found = [
                (p, r["optimum"])
                for r in records
                if r["kind"] == "rounding" and "error" not in r
                for p in r["points"]
                if p["scheme"] == scheme and "value" in p
            ]
            look = {"label": title, "s": 22, "alpha": 0.7, "linewidth": 0, **SCHEMES[scheme]}
            values.scatter([p["nodes"] for p, _ in found], [p["value"] / best for p, best in found], **look)
            excesses.scatter([p["bound"] for p, _ in found], [p["excess"] for p, _ in found], **look)
        values.axhline(1, color=style.BLACK, linewidth=0.8)
        values.set_xscale("log", base=2)
        values.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        values.set_xlabel("nodes of the approximate MDP")
        values.set_title("Value, as a share of the exact optimum")
        most = max(excesses.get_xlim()[1], 1e-9)
        excesses.plot([0, most], [0, most], color=style.BLACK, linewidth=0.8)
        excesses.set_xlabel("guaranteed bound on the excess")
        excesses.set_title("Greatest amount over budget, exactly")
        _finish((values, excesses))
        handles, labels = values.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _finish(panels: Any) -> None:
    for axes in panels:
        axes.grid(color=style.GRID)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
