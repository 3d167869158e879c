"""Colors by name, and the style of each action of a model, without matplotlib: figures and the report share them.

The colors are those of Okabe and Ito, which can be distinguished with all common kinds of color blindness. The style of
an action depends on its position among the actions of the model only, so that it is the same for each state, policy,
figure and page. Eight colors come first, then the same colors with hatches, then lighter and darker ones.
"""

from __future__ import annotations

from typing import NamedTuple

BLACK, GRAY = "#000000", "#6E6E6E"
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#F0E442"
ORANGE, VERMILLION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"

#: Colors of categories, the most distinct first.
CATEGORIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GRAY)
#: Hatches, each of which starts another cycle of colors; and how much white or black is mixed into the colors.
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "||||")
_TINTS = ((0.0, 255), (0.45, 255), (0.35, 0))
#: Number of different styles.
N_STYLES = len(CATEGORIES) * len(_HATCHES) * len(_TINTS)


class Style(NamedTuple):
    """Color and hatch of an action."""

    color: str
    hatch: str = ""

    @property
    def hatch_color(self) -> str:
        """White, or black on a light color."""
        red, green, blue = _parts(self.color)
        return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.62 * 255 else "white"


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
    red, green, blue = (round(part + share * (toward - part)) for part in _parts(CATEGORIES[place]))
    return Style(f"#{red:02x}{green:02x}{blue:02x}", _HATCHES[hatch])


def _parts(color: str) -> tuple[int, int, int]:
    """Return red, green and blue of a color such as "#0072b2", from 0 to 255."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue
