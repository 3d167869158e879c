"""A delivery robot with a battery, as a function that returns a model.

A grid is easier to state by rules than row by row. `solvent convert` calls `make_model` and writes a model file:

    solvent convert examples/robot.py:make_model robot.yaml
    solvent convert examples/robot.py:make_model large.yaml --set size=8 --set horizon=40 --set battery=20

The first command writes the example `robot` of `solvent.examples`, whose comment says what the model shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import solvent

#: Steps of the robot: columns are letters, rows are numbers.
MOVES = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}


def make_model(size: int = 5, horizon: int = 24, battery: int = 14) -> solvent.CMDP:
    """Return the model of a robot on a square floor.

    Parameters
    ----------
    size : int
        Number of columns and of rows, at least 4.
    horizon : int
        Number of steps.
    battery : int
        Capacity of the battery: the default budget.
    """
    dock, charger = (0, 0), (size - 2, size - 2)
    shelves = {(1, size - 2): 2, (size - 1, 1): 3, (size - 1, size - 1): 5}  # reward of a parcel
    polished = {(column, 1) for column in range(1, size - 1)}

    def inside(cell: tuple[int, int]) -> bool:
        return 0 <= cell[0] < size and 0 <= cell[1] < size

    def ahead(cell: tuple[int, int], action: str, distance: int = 1) -> tuple[int, int]:
        return cell[0] + distance * MOVES[action][0], cell[1] + distance * MOVES[action][1]

    def actions(name: str) -> Iterator[str]:
        cell = cell_of(name)
        yield from (action for action in MOVES if inside(ahead(cell, action)))
        if cell in (dock, charger):
            yield "charge"
        if cell in shelves:
            yield "pick"
        yield "wait"

    def outcomes(name: str, action: str) -> list[tuple[float, str, int, float]]:
        cell = cell_of(name)
        if action == "wait":
            return [(1, name, 0, 0)]
        if action == "charge":
            return [(1, name, -5, 0)]  # never more than fits: the battery has a floor
        if action == "pick":
            return [(0.9, name, 1, shelves[cell]), (0.1, name, 2, shelves[cell])]
        following = ahead(cell, action)
        if following in polished and inside(ahead(cell, action, 2)):
            return [(0.8, name_of(following), 1, 0), (0.2, name_of(ahead(cell, action, 2)), 1, 0)]
        return [(0.9, name_of(following), 1, 0), (0.1, name_of(following), 2, 0)]  # a person is in the way

    return solvent.CMDP.from_function(
        name_of(dock),
        actions,
        outcomes,
        horizon,
        resources=[solvent.Resource("battery", floor=0)],
        budget=battery,
        must_end_in=[name_of(dock)],
        name="robot",
        description=(
            "A robot fetches parcels from three shelves of a warehouse. Its battery must never run empty, and it must "
            "be back on its dock at the end. Polished floor is slippery, and people stand in the way."
        ),
        progress=False,
    )


def name_of(cell: tuple[int, int]) -> str:
    """Return the name of a cell, such as "a1" for the column 0 and the row 0."""
    return f"{chr(ord('a') + cell[0])}{cell[1] + 1}"


def cell_of(name: str) -> tuple[int, int]:
    """Return the column and the row of a cell."""
    return ord(name[0]) - ord("a"), int(name[1:]) - 1


if __name__ == "__main__":
    print(make_model().describe())
