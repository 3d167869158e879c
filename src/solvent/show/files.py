"""Pictures as files: PNG, SVG and PDF, written whole or not at all, the same picture always as the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from solvent.errors import ModelError, quote
from solvent.model.files import write_whole
from solvent.show.style import look

#: What each kind of file would say about when and by what it was made, and must not.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(picture: Axes | FigureBase, path: str | Path) -> None:
    """Write a picture to a .png, .svg or .pdf file, whole or not at all.

    The file says neither when nor by what version it was made, so that the same picture gives the same file.

    Parameters
    ----------
    picture : Axes or Figure
        For Axes, the whole figure they are in is written.
    path : str or Path
        The ending decides the format.

    Raises
    ------
    ModelError
        If it is neither Axes nor a figure, the ending is none of these, or the place cannot be written.

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
    figure = _figure(picture)
    if not isinstance(path, str | Path):
        raise ModelError("save", "the path of a picture file", quote(path))
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in _METADATA:
        raise ModelError(str(path), "a name ending in .png, .svg or .pdf", quote(path.suffix))
    content = io.BytesIO()
    with look():
        figure.savefig(content, format=kind[1:], metadata=_METADATA[kind], bbox_inches="tight", pad_inches=0.06)
    write_whole(path, content.getvalue())


def _figure(picture: Any) -> Figure:
    owner = picture.figure if isinstance(picture, Axes) else picture
    while isinstance(owner, FigureBase) and not isinstance(owner, Figure):
        owner = owner.figure  # the figure of a subfigure
    if not isinstance(owner, Figure):
        raise ModelError("save", "matplotlib Axes or a Figure", quote(picture))
    return owner
