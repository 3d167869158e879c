"""States that are cells of a grid, for a map of the plan: their places, and the direction of each action."""

from __future__ import annotations

from typing import Any

from solvent.errors import ModelError
from solvent.model.cmdp import CMDP
from solvent.plot.grid_states import arrow_direction, grid_layout, letters
from solvent.report.plans import Names

#: Columns and rows of the largest map.
_MOST_CELLS = 60


def map_data(model: CMDP, names: Names) -> dict[str, Any] | None:
    """Return the map of a model for the page; None if its states are not cells of a grid.

    All states of the map and the actions of the model are entered into `names`.
    """
    try:
        layout = grid_layout(model)
    except ModelError:
        return None
    columns, rows = zip(*layout.place.values(), strict=True)
    width, height = max(columns) - min(columns) + 1, max(rows) - min(rows) + 1
    if max(width, height) > _MOST_CELLS or min(width, height) < 2:
        return None
    cells = [
        [names.state(model.states[index]), column - min(columns), row - min(rows)]
        for index, (column, row) in sorted(layout.place.items())
    ]
    still: list[int] = []
    moves: dict[str, list[float]] = {}
    for index in layout.place:
        for table in range(model.n_tables):
            first = int(model.row_indptr[table * model.n_states + index])
            for row in range(first, int(model.row_indptr[table * model.n_states + index + 1])):
                action = int(model.row_action[row])
                way = arrow_direction(model, layout, row, index)
                key = f"{names.state(model.states[index])},{names.action(model.actions[action])}"
                if way is None:
                    still += [action] if action not in still else []
                elif key not in moves:
                    moves[key] = [round(way[0], 4), round(way[1], 4)]
    still.sort()
    signs = zip(still, letters([model.actions[action] for action in still]), strict=True)
    goals = [] if model.may_end is None else [i for i in layout.place if model.may_end[i]]
    return {
        "width": width,
        "height": height,
        "cells": cells,
        "moves": moves,
        "letters": {str(names.action(model.actions[action])): sign for action, sign in signs},
        "starts": [names.state(model.states[i]) for i in model.start_states.tolist() if i in layout.place],
        "goals": [names.state(model.states[i]) for i in goals],
    }
