"""One scale of colors and hatches for the actions of a model, the same in all its figures.

The style of an action depends on its position among the actions of the model only, so that it is the same for each
state, policy and figure. Eight colors come first, then the same colors with hatches, then lighter and darker ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from numpy.typing import NDArray

from solvent.plot.labels import plot_name, short_name
from solvent.plot.style import CATEGORIES, NOTHING, legend_right

#: Hatches, each of which starts another cycle of colors; and how much white or black is mixed into the colors.
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "||||")
_TINTS = ((0.0, 1.0), (0.45, 1.0), (0.35, 0.0))
#: Number of different styles.
N_STYLES = len(CATEGORIES) * len(_HATCHES) * len(_TINTS)
#: Most actions with an entry of the legend, and most rows of one of its columns.
MOST_LISTED, MOST_ROWS = 24, 16
#: Length of names in a legend of several columns.
_LONGEST_IN_COLUMNS = 18
#: The position that stands for all actions without an entry of their own, and their color.
OTHERS = -1
_OTHERS_COLOR = "#3C3C3C"


class Style(NamedTuple):
    """Color and hatch of an action."""

    color: str
    hatch: str = ""

    @property
    def hatch_color(self) -> str:
        """White, or black on a light color."""
        red, green, blue = to_rgb(self.color)
        return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.62 else "white"

    def of_patches(self) -> dict[str, Any]:
        """Return arguments of patches; an edge of the same color avoids seams between cells."""
        if not self.hatch:
            return {"facecolor": self.color, "edgecolor": self.color, "linewidth": 0.4}
        return {"facecolor": self.color, "edgecolor": self.hatch_color, "linewidth": 0, "hatch": self.hatch}


def action_style(position: int) -> Style:
    """Return the style of the action at a position of a model's actions.

    Examples
    --------
    >>> action_style(0).color, action_style(8).hatch, len({action_style(i) for i in range(N_STYLES)}) == N_STYLES
    ('#0072b2', '////', True)
    """
    cycle, place = divmod(position % N_STYLES, len(CATEGORIES))
    tint, hatch = divmod(cycle, len(_HATCHES))
    share, toward = _TINTS[tint]
    red, green, blue = (round(255 * (part + share * (toward - part))) for part in to_rgb(CATEGORIES[place]))
    return Style(f"#{red:02x}{green:02x}{blue:02x}", _HATCHES[hatch])


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
                axes.add_collection(PolyCollection(verts[at], label=self._label(action), **style.of_patches()))

    def handles(self) -> list[Patch]:
        """Return the entries of the legend, the last of which is for cells without a decision."""
        entries = [Patch(label=self._label(action), **style.of_patches()) for action, style in self.styles.items()]
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
