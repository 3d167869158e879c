"""Style of all plots: sizes, fonts, and colors by role; the colors are those of `solvent.plot.palette`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from solvent.errors import ModelError, quote
from solvent.plot.palette import BLACK as BLACK
from solvent.plot.palette import BLUE as BLUE
from solvent.plot.palette import CATEGORIES as CATEGORIES
from solvent.plot.palette import GRAY as GRAY
from solvent.plot.palette import GREEN as GREEN
from solvent.plot.palette import ORANGE as ORANGE
from solvent.plot.palette import PURPLE as PURPLE
from solvent.plot.palette import SKY as SKY
from solvent.plot.palette import VERMILLION as VERMILLION
from solvent.plot.palette import YELLOW as YELLOW

#: Colors by role.
VALUE = BLUE
UPPER_BOUND = VERMILLION
MARGINAL = ORANGE
LEAST_BUDGET = VERMILLION
LIMIT = BLACK
WORST = VERMILLION
LEAST = GREEN
QUANTILES = SKY
MEDIAN = BLUE
OVER = PURPLE
NOTHING = "#ECECEC"
WALL = "#8C8C8C"
GRID = "#E4E4E4"

#: Sizes of figures, in inches.
WIDE = (6.4, 3.8)
SQUARE = (5.2, 4.6)

#: Dots per inch of figures in notebooks.
_NOTEBOOK_DOTS = 110

LOOK: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 6),
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "hatch.linewidth": 0.7,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.hashsalt": "solvent",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}


class ShownFigure(Figure):
    """A figure that a notebook shows."""

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        with look():
            self.savefig(png, format="png", dpi=_NOTEBOOK_DOTS, bbox_inches="tight", metadata={"Software": None})
        return png.getvalue()


class ShownAxes(Axes):
    """Axes of which a notebook shows the figure."""

    def _repr_png_(self) -> bytes | None:
        figure = self.figure
        return figure._repr_png_() if isinstance(figure, ShownFigure) else None


@contextmanager
def look() -> Iterator[None]:
    """Return a context in which matplotlib uses Solvent's style; the previous settings are restored afterwards.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> before = mpl.rcParams["font.size"]
    >>> with look():
    ...     mpl.rcParams["font.size"]
    9.0
    >>> mpl.rcParams["font.size"] == before
    True
    """
    with style.context(["default", LOOK]):
        yield


@contextmanager
def styled_axes(ax: Axes | None, size: tuple[float, float] = WIDE) -> Iterator[Axes]:
    """Return a context with Axes in Solvent's style: `ax`, or those of a new figure that is not managed by pyplot.

    Raises
    ------
    ModelError
        If `ax` is neither Axes nor None.
    """
    if ax is not None and not isinstance(ax, Axes):
        raise ModelError("ax", "matplotlib Axes, or None for a new figure", quote(ax))
    with look():
        axes = ax
        if axes is None:
            axes = ShownFigure(figsize=size, layout="constrained").add_subplot(axes_class=ShownAxes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        yield axes


def step_axis(axes: Axes, horizon: int, label: str) -> None:
    """Set up the horizontal axis for integer steps from 0 to `horizon`."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.set_xlabel(label)
    axes.set_xlim(-0.5, horizon + 0.5)


def faint_grid(axes: Axes) -> None:
    """Draw thin horizontal grid lines."""
    axes.grid(axis="y", color=GRID, linewidth=0.6)


def legend_right(axes: Axes, columns: int = 1, handles: list[Artist] | None = None) -> None:
    """Put the legend to the right of the axes."""
    shown = axes.get_legend_handles_labels()[0] if handles is None else handles
    axes.legend(
        handles=shown, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, ncols=columns, handlelength=1.6
    )
