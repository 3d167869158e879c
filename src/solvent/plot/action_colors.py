"""The actions of a figure: their cells and their legend, in the styles of `solvent.plot.palette`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from numpy.typing import NDArray

from solvent.plot.labels import plot_name, short_name
from solvent.plot.palette import Style, action_style
from solvent.plot.style import NOTHING, legend_right

#: Most actions with an entry of the legend, and most rows of one of its columns.
MOST_LISTED, MOST_ROWS = 24, 16
#: Length of names in a legend of several columns.
_LONGEST_IN_COLUMNS = 18
#: The position that stands for all actions without an entry of their own, and their color.
OTHERS = -1
_OTHERS_COLOR = "#3C3C3C"


def patch_style(style: Style) -> dict[str, Any]:
    """Return arguments of patches; an edge of the same color avoids seams between cells."""
    if not style.hatch:
        return {"facecolor": style.color, "edgecolor": style.color, "linewidth": 0.4}
    return {"facecolor": style.color, "edgecolor": style.hatch_color, "linewidth": 0, "hatch": style.hatch}


class ActionScale:
    """The actions of one figure, or of several panels: which have an entry of the legend, and their styles.

    Parameters
    ----------
    names : sequence of hashables
        All actions of the model.
    drawn : ndarray of int64
        Positions of the actions that are drawn, repeated for each cell: if there are more than 24, those with the
        fewest cells are drawn as one.

    Examples
    --------
    >>> scale = ActionScale(["east", "south", "stay"], np.array([2, 0, 2]))
    >>> [patch.get_label() for patch in scale.handles()]
    ['east', 'stay', 'no decision']
    """

    def __init__(self, names: Sequence[Hashable], drawn: NDArray[Any]) -> None:
        actions, count = np.unique(drawn, return_counts=True)
        listed = actions.tolist()
        if len(listed) > MOST_LISTED:
            listed = sorted(actions[np.argsort(-count, kind="stable")][: MOST_LISTED - 1].tolist())
        self._n_others = len(actions) - len(listed)
        self._names = names
        self.styles: dict[int, Style] = {}
        for action in listed:
            style, place = action_style(action), action
            while style in self.styles.values():  # of a model with more actions than styles
                place += 1
                style = action_style(place)
            self.styles[action] = style
        if self._n_others:
            self.styles[OTHERS] = Style(_OTHERS_COLOR)

    def __len__(self) -> int:
        return len(self.styles)

    def _label(self, action: int) -> str:
        if action == OTHERS:
            return f"{self._n_others} others"
        name = self._names[action]
        return plot_name(short_name(name, _LONGEST_IN_COLUMNS) if len(self) >= MOST_ROWS else name)

    def draw(self, axes: Axes, corners_C: NDArray[Any], action_C: NDArray[np.int64]) -> None:
        """Draw cells, given their corners, shape (C, 4, 2), and their actions."""
        verts: Any = corners_C
        drawn = np.where(np.isin(action_C, list(self.styles)), action_C, OTHERS)
        for action, style in self.styles.items():
            at = np.flatnonzero(drawn == action)
            if len(at):
                axes.add_collection(PolyCollection(verts[at], label=self._label(action), **patch_style(style)))

    def handles(self) -> list[Patch]:
        """Return the entries of the legend, the last of which is for cells without a decision."""
        entries = [Patch(label=self._label(action), **patch_style(style)) for action, style in self.styles.items()]
        return [*entries, Patch(color=NOTHING, label="no decision")]

    def legend(self, axes: Axes) -> None:
        """Put the legend to the right of the axes."""
        handles = self.handles()
        legend_right(axes, columns=-(-len(handles) // MOST_ROWS), handles=list(handles))


def corners(left: Any, right: Any, low: Any, high: Any) -> NDArray[np.float64]:
    """Return the corners of C rectangles, shape (C, 4, 2).

    Examples
    --------
    >>> corners(np.array([0]), np.array([2]), np.array([1]), np.array([3])).tolist()
    [[[0, 1], [2, 1], [2, 3], [0, 3]]]
    """
    points = [np.stack(corner, -1) for corner in ((left, low), (right, low), (right, high), (left, high))]
    found: NDArray[np.float64] = np.stack(points, 1)
    return found
