"""Problems with boxes of amounts, and comparisons of sweeps."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

import solvent
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.model.resources import Resource
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.swept import Swept
from solvent.solvers.problem import Problem


def random_model(seed: int, n_resources: int, *, features: bool = False) -> tuple[CMDP, dict[str, Any]]:
    """Return a random model whose states have boxes of very different shapes, and limits of all kinds."""
    rng = np.random.default_rng(seed)
    horizon, n_states = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    names = [f"r{d}" for d in range(n_resources)]
    resources: list[Any] = list(names)
    options: dict[str, Any] = {}
    if features:
        for d, name in enumerate(names):
            kind = rng.integers(4)
            floor = int(rng.integers(-3, 1)) if kind in (1, 3) else None
            ceiling = int(rng.integers(3, 12)) if kind in (2, 3) else None
            resources[d] = Resource(name, floor=floor, ceiling=ceiling)
        if n_states > 1 and rng.random() < 0.4:
            options["start"] = {0: 0.25, 1: 0.75}
        if rng.random() < 0.4:
            options["end_reward"] = {s: float(rng.normal()) for s in range(n_states)}
        if rng.random() < 0.3:
            options["must_end_in"] = list(range(max(1, n_states - 1)))
    b = CMDP.builder(
        horizon=horizon, resources=resources, states=range(n_states), actions=range(4), **{"start": 0, **options}
    )
    scale = rng.integers(1, 6, size=(n_states, n_resources))
    least = rng.choice([0, 0, -2], size=n_resources)
    for s in range(n_states):
        if rng.random() < 0.15 and s:
            continue  # a terminal state
        for a in range(int(rng.integers(1, 5))):
            n = int(rng.choice([1, 1, 2, 2, 3, 4, 5]))
            outcomes = []
            weights = rng.integers(1, 5, size=n)
            for w in weights:
                cost = [int(rng.integers(least[d], 1 + scale[s, d])) for d in range(n_resources)]
                outcomes.append((float(w) / float(weights.sum()), int(rng.integers(n_states)), cost))
            steps = (
                None if a == 0 or rng.random() < 0.7 else sorted(rng.choice(horizon, 1 + horizon // 2, False).tolist())
            )
            b.add(s, a, reward=float(rng.normal()), outcomes=outcomes, **({} if steps is None else {"steps": steps}))
    budget: dict[str, Any] = {}
    for name in names:
        kind = rng.integers(4)
        upper = [int(x) for x in rng.integers(2, 20, size=horizon)]
        if kind == 0:
            budget[name] = int(rng.integers(2, 20))
        elif kind == 1:
            budget[name] = Budget(lower=int(rng.integers(-8, 1)))
        elif kind == 2:
            budget[name] = Budget(upper=int(rng.integers(3, 20)), lower=int(rng.integers(-8, 1)))
        else:
            budget[name] = Budget(upper=upper)
    return b.build(), budget


def layout_of(model, budget) -> BoxLayout:
    problem = Problem.exact(model, resolve(model, budget))
    return BoxLayout.at_start(problem.model, problem.lattice, ResourceMonitor())


def rows_of(swept: Swept, h: int) -> list[int]:
    """Return the best row of every amount of a step, state by state."""
    boxes, runs = swept.layout.boxes, swept.runs
    found, _ = runs.from_step(h)
    start, row = (each[found.first_H[h] : found.end_H[h]] for each in found[:2])
    rows: list[int] = []
    for s in range(swept.layout.model.n_states):
        count = int(np.prod(boxes.width[h, s]))
        at = boxes.cell[h, s] + np.arange(count)
        rows += row[np.searchsorted(start, at, side="right") - 1].tolist() if count else []
    return rows


def assert_same(found: Swept, expected: Swept) -> None:
    """Check that two sweeps of a problem have the same result."""
    boxes, last = expected.layout.boxes, expected.layout.boxes.width.shape[2] - 1
    pitch = int(boxes.pitch_H[0])
    for s in range(expected.layout.model.n_states):
        for line in range(int(boxes.offset[0, s]), int(boxes.offset[0, s + 1]), pitch):
            used = slice(line, line + int(boxes.width[0, s, last]))
            assert found.value[used].tobytes() == expected.value[used].tobytes()
    for h in range(expected.layout.model.horizon):
        assert rows_of(found, h) == rows_of(expected, h)
    for field in fields(expected.extremes):
        np.testing.assert_array_equal(getattr(found.extremes, field.name), getattr(expected.extremes, field.name))


def line(n_states: int = 16, horizon: int = 24) -> solvent.CMDP:
    """Return a model of states in a line, each with many amounts."""
    rng = np.random.default_rng(3)
    b = solvent.CMDP.builder(horizon=horizon, start=0, resources=["fuel", "time"], budget={"fuel": 200, "time": 190})
    for s in range(n_states):
        for a in range(3):
            after = [min(s + k, n_states - 1) for k in (0, 1)]
            # the same costs wherever it leads to, so that few of the amounts are reached
            cost = [int(c) for c in rng.integers(0, 1 + 8 * a, 2)]
            outcomes = [(0.5, t, cost) for t in after]
            b.add(s, a, reward=float(rng.random() + a), outcomes=outcomes)
    return b.build()


def little_memory(model, share: float) -> int:
    """Return a memory limit that does not suffice for the values of a step."""
    layout = layout_of(model, None)
    return layout.bytes + int(share * layout.peak_bytes)


def assert_same_solution(found: solvent.Solution, expected: solvent.Solution) -> None:
    """Check that two solutions agree, bit for bit."""
    assert found.status == expected.status
    assert (found.value, found.value_lower, found.value_upper) == (
        expected.value, expected.value_lower, expected.value_upper,
    )  # fmt: skip
    assert found.policy == expected.policy
    assert found.worst_spent == expected.worst_spent


class Stop(Exception):  # noqa: N818
    """Ends a sweep."""
