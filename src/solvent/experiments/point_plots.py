"""Figures of the number of points of frontiers: means of trials, with a band from the smallest to the largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from numpy.typing import NDArray

from solvent.experiments.average import NAMES
from solvent.experiments.points import Lines, mean
from solvent.plot import style

_SIZE = (9.6, 5.2)
#: Color and marker of each family.
_FAMILY_LOOKS = {
    "states": (style.GREEN, "s"),
    "uniform": (style.BLUE, "o"),
    "pareto": (style.SKY, "^"),
    "lognormal": (style.GRAY, "v"),
    "near": (style.ORANGE, "D"),
    "strong": (style.VERMILLION, "P"),
    "subset-sum": (style.PURPLE, "X"),
}
#: Colors from light to dark, for increasing horizons and numbers of random steps.
_BLUES = ("#9CC9E8", "#4A9CCF", "#0072B2", "#003A5C")
_REDS = ("#0072B2", "#F0C36A", "#E69F00", "#D55E00", "#7A2E00")
#: Number of points at which the axis is cut off.
_TOP = 2e7
#: Opacity of the bands.
_BAND = 0.1


def draw_average(results: Lines[tuple[str, bool]], facts: Mapping[str, Any]) -> Figure:
    """Draw points against the horizon: deterministic models on log-log axes, random outcomes on a log-linear one."""
    figure, (left, right) = _panels()
    with style.look():
        for axes, random, side in ((left, False, "without"), (right, True, "with")):
            for family in reversed(NAMES):
                color, marker = _FAMILY_LOOKS[family]
                label = f"{NAMES[family]}: {_formula(facts[side][family])}"
                _line(axes, results[family, random], label, color, marker)
        _bound(left, lambda h: 1 + h**2, sorted(results["uniform", False]), "$1+H^2$, proved for uniform")
        _bound(right, lambda h: 2.0**h, sorted(results["uniform", True]), "$2^H$, for comparison")
        left.set_xscale("log")
        left.xaxis.set_major_locator(FixedLocator([5, 10, 20, 50, 100, 200, 400]))
        left.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        left.xaxis.set_minor_locator(NullLocator())
        right.xaxis.set_major_locator(FixedLocator(sorted(results["uniform", True])))
        left.set_title("Deterministic: powers, unless rewards follow costs")
        right.set_title("A coin toss at each step: exponential")
        for axes in (left, right):
            axes.set_xlabel("number of steps $H$")
            _legend(axes)
    return figure


def draw_smoothed(results: Lines[tuple[str, int, int]], facts: Mapping[str, Any]) -> Figure:
    """Draw points against 1 / noise: deterministic for several horizons, then for several numbers of random steps."""
    figure, (left, right) = _panels()
    horizon, longest = facts["random_horizon"], int(list(facts["plain"])[-1])
    with style.look():
        for color, key in reversed(list(zip(_BLUES, facts["plain"], strict=False))):
            exponent = facts["plain"][key]["exponent"]
            growth = "" if exponent is None else f": noise$^{{-{exponent:.2f}}}$"
            _line(left, _inverted(results["powers", 0, int(key)]), f"$H={key}${growth}", color, "o")
        inverses = sorted(_inverted(results["powers", 0, longest]))
        _bound(left, lambda x: 1 + longest**2 * x, inverses, f"$1+H^2$/noise, proved, at $H={longest}$")
        for color, random_steps in reversed(list(zip(_REDS, facts["random"], strict=False))):
            label = "deterministic" if random_steps == "0" else f"{random_steps} random steps"
            _line(right, _inverted(results["powers", int(random_steps), horizon]), label, color, "o")
        prize = _inverted(results["prize", horizon - 1, horizon])
        _line(right, prize, f"prize instance: $2^{{{horizon - 1}}}+1$, proved", style.BLACK, "s")
        for key in facts["plain"]:
            if max(map(max, results["powers", 0, int(key)].values())) > 2 ** int(key) / 2:
                end = 1.4 * max(_inverted(results["powers", 0, int(key)]))
                left.text(end, 2.0 ** int(key), f"$2^{{{key}}}$", va="center", color=style.GRAY, fontsize=8)
        left.set_ylim(top=_TOP)
        left.set_title("Deterministic: noise removes the worst case")
        right.set_title(f"Random outcomes, $H={horizon}$: less effect, or none")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xlabel("1 / noise")
            _legend(axes)
    return figure


def _panels() -> tuple[Figure, Sequence[Axes]]:
    with style.look():
        figure = Figure(figsize=_SIZE, layout="constrained")
        panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
        for axes in panels:
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_axisbelow(True)
            axes.tick_params(labelleft=True)
            style.faint_grid(axes)
        panels[0].set_ylabel("points of the frontier")
    return figure, panels


def _line(axes: Axes, counts: Mapping[int, list[int]], label: str, color: str, marker: str) -> None:
    """Draw the means of trials, and a band from the smallest to the largest."""
    x = list(counts)
    low, high = [min(trials) for trials in counts.values()], [max(trials) for trials in counts.values()]
    axes.fill_between(x, low, high, color=color, alpha=_BAND, linewidth=0)
    means = [mean(trials) for trials in counts.values()]
    axes.plot(x, means, color=color, marker=marker, markersize=4.2, linewidth=1.3, markeredgewidth=0, label=label)


def _bound(
    axes: Axes, of: Callable[[NDArray[np.float64]], NDArray[np.float64]], places: Sequence[int], label: str
) -> None:
    x = np.geomspace(places[0], places[-1])
    axes.plot(x, of(x), color=style.BLACK, linestyle=(0, (4, 3)), linewidth=0.9, label=label, zorder=1)


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, handlelength=1.8, columnspacing=1.2)


def _inverted(counts: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Return points by 1 / noise instead of by the number of times that noise was halved."""
    return {2**halvings: trials for halvings, trials in counts.items()}


def _formula(fact: Mapping[str, Any]) -> str:
    forms = {"power": "$H^{{{:.2f}}}$", "root": "$e^{{{:.2f}\\sqrt{{H}}}}$", "exponential": "${:.2f}^H$"}
    return forms[fact["shape"]].format(fact["parameter"])
