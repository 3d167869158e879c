"""Saves figures as PNG, SVG and PDF, atomically and reproducibly: the same figure gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from numpy.typing import NDArray

from solvent.core.files import write_atomically
from solvent.core.paths import check_suffix, read_path
from solvent.errors import ModelError, quote
from solvent.plot.style import look

#: Maximum number of drawings until the layout converges, tolerance of convergence, and decimals of the result.
_MOST_DRAWINGS, _STILL, _DECIMALS = 10, 1e-9, 6
#: Metadata on time and software that matplotlib would write, by file type; None leaves it out.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(figure: Axes | FigureBase, path: str | Path) -> None:
    """Write a figure to a .png, .svg or .pdf file, atomically.

    The file contains no date and no version, so that the same figure gives the same file.

    Parameters
    ----------
    figure : Axes or Figure
        For Axes, their whole figure is written.
    path : str or Path
        The suffix determines the format.

    Raises
    ------
    ModelError
        If `figure` is neither Axes nor a figure, the suffix is not supported, or the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile, solvent
    >>> curve = solvent.frontier(solvent.instances.knapsack([60, 100, 120], [10, 20, 30]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "knapsack.svg"
    ...     save(curve.plot(), file)
    ...     b"<svg" in file.read_bytes()
    True
    """
    whole = _whole_figure(figure)
    path = read_path(path, "save", "the path of a .png, .svg or .pdf file")
    kind = check_suffix(path, tuple(_METADATA))
    content = io.BytesIO()
    with look(), _settled(whole):
        whole.savefig(content, format=kind[1:], metadata=_METADATA[kind], bbox_inches="tight", pad_inches=0.06)
    write_atomically(path, content.getvalue())


@contextmanager
def _settled(figure: Figure) -> Iterator[None]:
    """Return a context in which the layout of a figure is fixed.

    A layout engine moves the axes slightly with each drawing, so that two drawings of a figure would differ. It runs
    here until the positions converge, to a millionth of the figure's size, and is then disabled within the context.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    places: list[NDArray[np.float64]] = []
    for _ in range(_MOST_DRAWINGS):
        figure.draw_without_rendering()
        before, places = places, [np.array(axes.get_position(original=True).bounds) for axes in figure.axes]
        if before and all(np.abs(a - b).max() < _STILL for a, b in zip(before, places, strict=True)):
            break
    for axes, place in zip(figure.axes, places, strict=True):
        managed = axes.get_in_layout()
        left, bottom, width, height = place.round(_DECIMALS).tolist()
        axes.set_position((left, bottom, width, height))
        axes.set_in_layout(managed)  # set_position has removed it from the layout
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _whole_figure(given: Any) -> Figure:
    """Return the top-level figure of Axes, a subfigure or a figure."""
    owner = given.figure if isinstance(given, Axes) else given
    while isinstance(owner, FigureBase) and not isinstance(owner, Figure):
        owner = owner.figure  # the figure of a subfigure
    if not isinstance(owner, Figure):
        raise ModelError("save", "matplotlib Axes or a Figure", quote(given))
    return owner
