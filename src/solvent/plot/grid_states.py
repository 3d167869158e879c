"""Grid layouts from names: which states are cells, the orientation of the grid, and the direction of actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvent.errors import ModelError, quote
from solvent.model.cmdp import CMDP

_TEXT = re.compile(r"\s*[(\[]?\s*([-+]?\d{1,9})\s*[,;:]\s*([-+]?\d{1,9})\s*[)\]]?\s*")
_SQUARE = re.compile(r"\s*([A-Za-z])\s*(\d{1,3})\s*")
_COMPASS = {
    "north": (0, -1), "up": (0, -1), "n": (0, -1), "u": (0, -1), "↑": (0, -1),
    "east": (1, 0), "right": (1, 0), "e": (1, 0), "r": (1, 0), "→": (1, 0),
    "south": (0, 1), "down": (0, 1), "s": (0, 1), "d": (0, 1), "↓": (0, 1),
    "west": (-1, 0), "left": (-1, 0), "w": (-1, 0), "l": (-1, 0), "←": (-1, 0),
}  # fmt: skip

#: Index (0 or 1) of the number that is the column, and whether the other one, the row, increases downward.
Frame = tuple[int, bool]
_FRAMES: tuple[Frame, ...] = ((0, True), (0, False), (1, True), (1, False))


@dataclass(frozen=True)
class GridLayout:
    """Positions of the states of a model in a grid: columns count to the right, rows downward.

    Attributes
    ----------
    place : dict of int to (int, int)
        Column and row of each state (by index) that is a cell.
    frame : (int, bool)
        Orientation of the numbers in the names.
    lettered : bool
        Whether the first number of a name is written as a letter, 1 as "a".
    """

    place: dict[int, tuple[int, int]]
    frame: Frame
    lettered: bool = False


def read_cell(name: Hashable) -> tuple[int, int] | None:
    """Return the two integers of a name, or None if it is not the name of a cell.

    Examples
    --------
    >>> read_cell((2, 5)), read_cell("2,5"), read_cell("(2, 5)"), read_cell("harbor"), read_cell((1, 2, 3))
    ((2, 5), (2, 5), (2, 5), None, None)
    """
    if isinstance(name, str):
        match = _TEXT.fullmatch(name)
        return (int(match[1]), int(match[2])) if match else None
    if isinstance(name, tuple) and len(name) == 2 and all(_is_whole(part) for part in name):
        return int(name[0]), int(name[1])
    return None


def read_square(name: Hashable) -> tuple[int, int] | None:
    """Return a letter, counted from 1, and a number of a name such as "c5"; None for other names.

    Examples
    --------
    >>> read_square("c5"), read_square("B12"), read_square("town"), read_square("2,5")
    ((3, 5), (2, 12), None, None)
    """
    match = _SQUARE.fullmatch(name) if isinstance(name, str) else None
    return (ord(match[1].lower()) - ord("a") + 1, int(match[2])) if match else None


def _is_whole(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def read_direction(action: Hashable) -> tuple[int, int] | None:
    """Return the columns and rows that an action moves according to its name, or None if the name has no direction.

    Examples
    --------
    >>> read_direction("north"), read_direction("move Left"), read_direction("stay")
    ((0, -1), (-1, 0), None)
    """
    text = str(action).strip().lower()
    if text in _COMPASS:
        return _COMPASS[text]
    found = {_COMPASS[word] for word in re.findall(r"[a-z]{2,}", text) if word in _COMPASS}
    return found.pop() if len(found) == 1 else None


def grid_layout(model: CMDP) -> GridLayout:
    """Return the position of each cell; the orientation is inferred from actions with a direction in their names.

    Names of cells are pairs of integers, or all of them are a letter and a number, as on a chessboard.

    Raises
    ------
    ModelError
        If a state that is not terminal is not a cell.

    Examples
    --------
    >>> from solvent.model import instances
    >>> grid_layout(instances.fuel_grid(2)).frame
    (0, True)
    """
    has_rows = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states).max(0) > 0
    squares = {index: square for index, name in enumerate(model.states) if (square := read_square(name)) is not None}
    if _is_board(squares) and all(index in squares for index in np.flatnonzero(has_rows).tolist()):
        frame = _find_frame(model, squares, (0, False))
        return GridLayout({index: to_column_row(cell, frame) for index, cell in squares.items()}, frame, lettered=True)
    cells = {}
    for index, name in enumerate(model.states):
        cell = read_cell(name)
        if cell is not None:
            cells[index] = cell
        elif has_rows[index]:
            raise ModelError(
                "arrows", "states that are cells: pairs of integers, or text such as '2,5'",
                f"the state {quote(name)}", "plot.policy draws any state, by step and remaining budget",
            )  # fmt: skip
    if not cells:
        raise ModelError("arrows", "states that are cells", "no such state")
    as_text = any(isinstance(model.states[index], str) for index in cells)
    frame = _find_frame(model, cells, (1, True) if as_text else (0, True))
    return GridLayout({index: to_column_row(cell, frame) for index, cell in cells.items()}, frame)


def _is_board(squares: dict[int, tuple[int, int]]) -> bool:
    """Return whether squares have several letters and several numbers: "s1", "s2" and "s3" are no board."""
    return all(len({square[i] for square in squares.values()}) > 1 for i in (0, 1))


def to_column_row(pair: tuple[int, int], frame: Frame) -> tuple[int, int]:
    """Return the two numbers of a name, or a difference of two names, as (columns, rows)."""
    column, other = pair[frame[0]], pair[1 - frame[0]]
    return column, other if frame[1] else -other


def _find_frame(model: CMDP, cells: dict[int, tuple[int, int]], usual: Frame) -> Frame:
    """Return the orientation that agrees with most named moves; the usual one among equals."""
    votes: Counter[Frame] = Counter()
    named = {a: way for a, name in enumerate(model.actions) if (way := read_direction(name)) is not None}
    for state in cells:
        for table in range(model.n_tables):
            first = int(model.row_indptr[table * model.n_states + state])
            for row in range(first, int(model.row_indptr[table * model.n_states + state + 1])):
                way = named.get(int(model.row_action[row]))
                target = most_likely_state(model, row)
                if way is None or target not in cells or target == state:
                    continue
                moved = cells[target][0] - cells[state][0], cells[target][1] - cells[state][1]
                votes.update(frame for frame in _FRAMES if to_column_row(moved, frame) == way)
    return max((usual, *_FRAMES), key=lambda frame: votes[frame])


def most_likely_state(model: CMDP, row: int) -> int:
    """Return the most likely next state (by index) of a row; the first in the model's order among equals."""
    part = slice(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))
    states, place = np.unique(model.next_state[part], return_inverse=True)
    return int(states[int(np.argmax(np.bincount(place, model.probability[part])))])


def arrow_direction(model: CMDP, layout: GridLayout, row: int, state: int) -> tuple[float, float] | None:
    """Return the columns and rows (from -1 to 1) of the arrow for a row; None if the action does not move.

    A direction in the action's name takes precedence, so that a move against a wall is still drawn as an arrow.
    """
    named = read_direction(model.actions[int(model.row_action[row])])
    if named is not None:
        return float(named[0]), float(named[1])
    target = most_likely_state(model, row)
    if target == state or target not in layout.place:
        return None
    across, down = (b - a for a, b in zip(layout.place[state], layout.place[target], strict=True))
    longest = max(abs(across), abs(down))
    return across / longest, down / longest


def letters(names: Sequence[Hashable]) -> list[str]:
    """Return short labels for actions that do not move: first letters, numbered where they coincide.

    Examples
    --------
    >>> letters(["stay", "refuel", "scan"])
    ['S', 'R', 'S2']
    """
    seen: Counter[str] = Counter()
    signs = []
    for name in names:
        letter = next((c.upper() for c in str(name) if c.isalnum()), "?")
        seen[letter] += 1
        signs.append(letter if seen[letter] == 1 else f"{letter}{seen[letter]}")
    return signs
