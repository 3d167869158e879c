"""Panels of lines against the horizon; a method has the same color and marker in all figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from solvent.experiments.experiment import duration
from solvent.experiments.trials import METHODS
from solvent.plot import style

_WIDTH, _HEIGHT = 3.4, 2.7
#: Ratio of its ends above which an axis has ticks at powers of ten only.
_WIDE = 200

#: Style of each method: the paper's have open markers, Solvent's filled ones.
_LOOKS: dict[str, dict[str, Any]] = {
    "plain exact": {"color": style.BLACK, "marker": "o"},
    "plain approximate": {"color": style.ORANGE, "marker": "^"},
    "plain accumulate": {"color": style.GRAY, "marker": "s"},
    "plain strict": {"color": style.GREEN, "marker": "v"},
    "reduction": {"color": style.SKY, "marker": "D"},
    "exact": {"color": style.BLUE, "marker": "o"},
    "approximate": {"color": style.VERMILLION, "marker": "^"},
    "strict": {"color": style.PURPLE, "marker": "v"},
}


def panels(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with rows and columns of axes in the common style; draw on them within `style.look()`."""
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


def name_axes(axes: Axes, title: str, label: str, *, bottom: bool, log: Literal["", "seconds", "counts"] = "") -> None:
    """Set the title and labels, the horizon below the lowest row, and a logarithmic axis for times or counts.

    Call this after the lines are drawn: their range determines the ticks.
    """
    axes.set_title(title)
    axes.set_ylabel(label)
    if bottom:
        axes.set_xlabel("horizon")
    if log:
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, axes.dataLim.intervaly, duration if log == "seconds" else _count)
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    else:
        _log_ticks(axes.xaxis, axes.dataLim.intervalx, _count)


def _log_ticks(axis: Axis, span: Sequence[float], show: Callable[[float], str]) -> None:
    """Put labels such as "10 ms" at the powers of ten, and between them if there are few."""
    wide = span[0] > 0 and span[1] / span[0] > _WIDE
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: show(x)))
    axis.set_minor_formatter(NullFormatter())


def _count(x: float) -> str:
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Put one legend below all panels, with each line once."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = list(METHODS.values())
    handles = dict(sorted(handles.items(), key=lambda item: order.index(item[0]) if item[0] in order else 0))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
