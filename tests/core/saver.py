"""Two versions of each kind of file, and how to save them; for a process that is killed while it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import solvent
from solvent import instances
from solvent.learning.callbacks import CsvLog
from solvent.learning.result import LearnProgress

KINDS = {
    "yaml": "m.yaml", "json": "m.json", "npz": "m.npz", "policy": "p.policy", "discounted": "d.policy",
    "figure": "f.png", "log": "log.csv",
}  # fmt: skip


def models() -> list[solvent.CMDP]:
    return [instances.knapsack([3] * n, [2] * n, capacity=4) for n in (3, 40)]


def savers(kind: str) -> list[Callable[[Path], None]]:
    """Return how to save each of the two versions."""
    if kind in ("yaml", "json", "npz"):
        return [model.save for model in models()]
    if kind == "policy":
        return [solvent.solve(model).policy.save for model in models()]
    if kind == "discounted":
        found = []
        for n in (1, 6):
            b = solvent.CMDP.builder(horizon=None, discount="1/2", start=0, resources=["z"], budget=2)
            for state in range(n):
                b.add(state, "a", reward=1, outcomes=[(0.5, (state + 1) % n, 1), (0.5, state, 0)])
                b.add(state, "b", outcomes=[(1, state, 0)])
            found.append(solvent.solve(b.build(), epsilon="1/2").policy.save)
        return found
    if kind == "figure":
        import matplotlib as mpl

        mpl.use("Agg")
        from solvent.plot.files import save

        curves = [
            solvent.frontier(model, max_budget=max_budget) for model, max_budget in zip(models(), (4, 9), strict=True)
        ]
        drawn = [curve.plot() for curve in curves]
        return [lambda path, axes=axes: save(axes, path) for axes in drawn]
    assert kind == "log"

    def log(n: int) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with CsvLog(path, every=10**6) as file:
                for i in range(n):
                    file(LearnProgress(i, 0.5, 0.0, 1.0, 0, 3))

        return write

    return [log(10), log(3000)]
