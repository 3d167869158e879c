"""Draw the figures of the README and the documentation: `make images`, or pass another folder to draw into."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery
from chart import chart

import solvent
from solvent import instances, plot

HERE = Path(__file__).parent


def tutorial() -> solvent.CMDP:
    """Return the model of the tutorial, from its first block of code."""
    page = (HERE.parent / "tutorial.md").read_text()
    block = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):
        exec(compile(block, "tutorial.md", "exec"), names)
    model: solvent.CMDP = names["model"]
    return model


def truck() -> solvent.CMDP:
    """Return the truck of the page on planning, from the block of code that builds it."""
    page = (HERE.parent / "planning.md").read_text()
    (block,) = (block for block in page.split("```python\n") if "truck = " in block)
    names: dict[str, Any] = {"solvent": solvent}
    with contextlib.redirect_stdout(None):
        exec(compile(block.split("```")[0], "planning.md", "exec"), names)
    model: solvent.CMDP = names["truck"]
    return model


def pictures() -> Iterator[tuple[str, Any]]:
    """Yield the name and the Axes of each figure."""
    van = solvent.examples.load("delivery-van")
    policy = solvent.solve(van).policy
    yield "van-frontier", plot.frontier(solvent.frontier(van, max_budget=60), budget=30)
    yield "van-remaining", plot.frontier(solvent.frontier(van, vary="remaining"))
    yield "van-spending", plot.spending(van, policy, episodes=20_000, seed=1)
    yield "van-town", plot.policy(policy, "town")
    yield "van-panels", plot.policy_panels(policy)
    yield "van-map", plot.heat_map(policy)

    surface = solvent.frontier(truck(), ["fuel", "hours"], max_budget={"fuel": 26, "hours": 20})
    yield "truck-surface", plot.surface(surface, budget={"fuel": 20, "hours": 13})

    yield "choosing", chart()

    drone = tutorial()
    yield "drone-ridge", plot.policy(solvent.solve(drone).policy, "ridge")
    yield "drone-frontier", plot.frontier(solvent.frontier(drone), budget=12)

    grid = instances.fuel_grid(5)
    yield "grid-arrows", plot.arrows(grid, solvent.solve(grid).policy)

    hard = solvent.solve(instances.paper(15, seed=1, budget=3), method="reduction", prune=False)
    yield "paper-layers", plot.layers(hard)

    yield from gallery.pictures()


def main(folder: Path = HERE) -> None:
    """Draw all figures into a folder."""
    for name, axes in pictures():
        plot.save(axes, folder / f"{name}.png")
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
