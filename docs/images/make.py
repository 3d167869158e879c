"""Draws the pictures of the README and the documentation: `make images`, or give another folder to draw into."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import solvent
from solvent import instances, show

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"


def pictures() -> Iterator[tuple[str, Any]]:
    """Yield the name and the Axes of each picture."""
    van = solvent.load(EXAMPLES / "delivery-van.yaml")
    policy = solvent.solve(van).policy
    yield "van-frontier", show.frontier(solvent.frontier(van, up_to=60), budget=30)
    yield "van-spending", show.spending(van, policy, episodes=20_000, seed=1)
    yield "van-town", show.policy(policy, "town")

    grid = instances.fuel_grid(5)
    yield "grid-arrows", show.arrows(grid, solvent.solve(grid).policy)

    hard = solvent.solve(instances.paper(15, seed=1, budget=3), method="reduction", prune=False)
    yield "paper-layers", show.layers(hard)


def main(folder: Path = HERE) -> None:
    """Draw all pictures into a folder."""
    for name, axes in pictures():
        show.save(axes, folder / f"{name}.png")
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
