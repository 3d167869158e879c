"""Resource-constrained shortest paths of OR-Library, from files beside the repository.

A file has `n m K`, K lower limits, K upper limits, n lines of K resources that a visit of a place uses, and m arcs
`from to cost r1 .. rK`. A path leads from place 1 to place n. As a CMDP: one state for each place, one action for each
arc, minus the cost as the reward, and n as the only place to end in. Costs and resources are not negative, so that some
path of least cost visits no place twice, and n - 1 steps are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from solvent import CMDP


@dataclass(frozen=True)
class Arc:
    """An arc: places, cost, and what its use takes of each resource, with that of the visit of its head."""

    tail: int
    head: int
    cost: int
    used: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A problem: number of places, limit of each resource after the visit of place 1, and arcs."""

    places: int
    limits: tuple[int, ...]
    arcs: tuple[Arc, ...]

    @property
    def resources(self) -> list[str]:
        """Names of the resources."""
        return [f"r{k}" for k in range(len(self.limits))]

    def model(self) -> CMDP:
        """Return the problem as a CMDP."""
        names = self.resources
        b = CMDP.builder(
            horizon=self.places - 1,
            start=1,
            resources=names,
            must_end_in=[self.places],
            budget=dict(zip(names, self.limits, strict=True)),
        )
        for arc in self.arcs:
            if arc.tail != self.places:
                used = dict(zip(names, arc.used, strict=True))
                b.add(arc.tail, arc.head, reward=-arc.cost, outcomes=[(1, arc.head, used)])
        return b.build()


def read(path: Path) -> Network:
    """Read a file.

    Raises
    ------
    ValueError
        If it has lower limits above 0 or negative numbers, which no instance of OR-Library has.
    """
    numbers = iter(map(int, path.read_text().split()))
    n, m, count = (next(numbers) for _ in range(3))
    lower, upper = (tuple(next(numbers) for _ in range(count)) for _ in range(2))
    visit = [tuple(next(numbers) for _ in range(count)) for _ in range(n)]
    arcs = []
    for _ in range(m):
        tail, head, cost = (next(numbers) for _ in range(3))
        used = tuple(next(numbers) + visit[head - 1][k] for k in range(count))
        arcs.append(Arc(tail, head, cost, used))
    if any(lower) or any(min(arc.cost, *arc.used) < 0 for arc in arcs):
        raise ValueError(f"{path.name}: expected lower limits of 0, and no negative costs")
    return Network(n, tuple(upper[k] - visit[0][k] for k in range(count)), tuple(arcs))
