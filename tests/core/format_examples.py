"""What the files in `format1` and `format2` hold, which are read ever since.

Those in `format1` were written by the last version without checksums, those in `format2` by the last version in which
resources did not saturate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import solvent

FOLDERS = {1: Path(__file__).parent / "format1", 2: Path(__file__).parent / "format2"}


def model() -> Any:
    b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"], budget="7/2", name="van")
    b.add("home", "go", reward=1, outcomes=[(0.5, "home", 1), (0.5, "away", "3/2")])
    b.add("home", "rest", outcomes=[(1, "home", 0)])
    b.add("away", "back", reward=0.5, outcomes=[(1, "home", 1)], steps=[1])
    b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
    return b.build()


def discounted() -> Any:
    b = solvent.CMDP.builder(horizon=None, discount="1/2", start="s", resources=["z"], budget=2)
    b.add("s", "a", reward=1, outcomes=[(0.5, "s", 1), (0.5, "s", 0)])
    b.add("s", "b", outcomes=[(1, "s", 0)])
    return b.build()


def write(folder: Path) -> None:
    """Write all of them."""
    model().save(folder / "model.npz")
    discounted().save(folder / "discounted.npz")
    solvent.solve(model(), method="reduction").policy.save(folder / "van.policy")
    solvent.solve(discounted(), epsilon="1/2").policy.save(folder / "discounted.policy")
