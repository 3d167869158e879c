"""Panels of lines against the horizon, one colour and marker for each method in all pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from solvent.experiments.trials import METHODS
from solvent.show import style

_WIDTH, _HEIGHT = 3.4, 2.7

#: How each method is drawn: what is the paper's in open markers, what is Solvent's in full ones.
_LOOKS: dict[str, dict[str, Any]] = {
    "plain exact": {"color": style.BLACK, "marker": "o"},
    "plain approximate": {"color": style.ORANGE, "marker": "^"},
    "plain accumulate": {"color": style.GREY, "marker": "s"},
    "plain never over": {"color": style.GREEN, "marker": "v"},
    "reduction": {"color": style.SKY, "marker": "D"},
    "exact": {"color": style.BLUE, "marker": "o"},
    "approximate": {"color": style.VERMILLION, "marker": "^"},
    "never over": {"color": style.PURPLE, "marker": "v"},
}


def panels(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of rows and columns of axes in the one look; draw on them within `style.look()`."""
    size = (_WIDTH * columns, _HEIGHT * rows + 0.5)
    with style.look():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex="col")
        for axes in grid.flat:
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_axisbelow(True)
            style.faint_grid(axes)
    return figure, [list(row) for row in grid]


def line(axes: Axes, method: str, x: Sequence[float], y: Sequence[float], **changes: Any) -> None:
    """Draw one line of a method."""
    look = {"linewidth": 1.3, "markersize": 4, "label": METHODS[method], **_LOOKS[method]}
    if method.startswith("plain"):
        look |= {"markerfacecolor": "white", "linestyle": "--"}
    axes.plot(x, y, **(look | changes))


def name_axes(axes: Axes, title: str, label: str, *, bottom: bool, seconds: bool = False) -> None:
    """Put a title and labels, a logarithmic axis for seconds, and the horizon below the lowest row."""
    axes.set_title(title)
    axes.set_ylabel(label)
    if bottom:
        axes.set_xlabel("horizon")
    if seconds:
        axes.set_yscale("log")
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Put one legend below all panels, each line in it once."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
