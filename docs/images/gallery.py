"""Figures of the gallery: one for each example model, and one for an agent."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import solvent
from solvent import plot

SCRIPTS = Path(__file__).parents[2] / "examples"


def pictures() -> Iterator[tuple[str, Any]]:
    """Yield the name and the Axes of each figure."""
    for name in ("reservoir", "cash-line", "covering"):
        model = solvent.examples.load(name)
        yield f"gallery-{name}", plot.spending(model, solvent.solve(model).policy, episodes=20_000, seed=1)

    campaign = solvent.examples.load("campaign")
    careful = solvent.solve(campaign, approximation="additive", epsilon=1, strict=True)
    yield "gallery-campaign", plot.spending(campaign, careful.policy, episodes=20_000, seed=1)

    dose = solvent.examples.load("dose")
    yield "gallery-dose", plot.policy(solvent.solve(dose).policy, "ill")

    robot = solvent.examples.load("robot")
    cells = tuple(f"{ord(name[0]) - ord('a')},{int(name[1:]) - 1}" for name in robot.states)  # a1 is the cell 0,0
    floor = replace(robot, states=cells, start="0,0")
    yield "gallery-robot", plot.arrows(floor, solvent.solve(floor).policy)

    drone = solvent.examples.load("drone")
    yield "gallery-drone", plot.frontier(solvent.frontier(drone, "risk", max_budget="3/2"), budget=1)

    yield "gallery-q-learning", agents()


def agents() -> Any:
    """Return the Axes of a chart of `examples/q_learning.py`: episodes over budget while two agents learn."""
    import matplotlib.pyplot as plt

    from solvent.plot.style import look

    sys.path.insert(0, str(SCRIPTS))  # the script imports its neighbor meter.py
    try:
        found = runpy.run_path(str(SCRIPTS / "q_learning.py"))["main"](["--episodes", "2000"])
    finally:
        sys.path.remove(str(SCRIPTS))
    with look():
        _, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
        names = list(found)
        shares = [100 * training.over / training.episodes for training, _ in found.values()]
        bars = axes.barh(names, shares, height=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.bar_label(bars, [f"{share:.3g}%" for share in shares], padding=4)
        axes.set(title="Episodes over budget while learning, slippery grid with a tank", xlabel="share of episodes, %")
        axes.set_xlim(0, max(shares) * 1.15)
        axes.invert_yaxis()
    return axes
