"""Checkpoints of verification: a run that ends after any save and is started again gives the very same report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from effort import slow_after
from fuzz.generate import generate
from interrupting import every_crash, small_pieces
from solvent.errors import SolventError
from solvent.model import instances


def same_report(one: Any, other: Any) -> None:
    """Assert that two reports agree in everything."""
    assert one == other
    assert str(one) == str(other)


def policies(model: solvent.CMDP, budget: Any, given: Any, rng: np.random.Generator) -> Any:
    """Return policies of several kinds: the best one, a safe one with other limits, and tables."""
    best = solvent.solve(model, budget, time_limit=5, **given)
    if best.status.has_policy:
        yield best.policy
    first = np.full((model.horizon, model.n_states), -1)
    for h in range(model.horizon):
        for s in range(model.n_states):
            rows = model.rows(h, s)
            if len(rows):
                first[h, s] = model.row_action[rows[rng.integers(len(rows))]]
    yield first
    weights = np.zeros((model.horizon, model.n_states, model.n_actions))
    for h in range(model.horizon):
        for s in range(model.n_states):
            rows = model.rows(h, s)
            if len(rows):
                weights[h, s, model.row_action[rows]] = 1 / len(rows)
    yield weights


#: Kinds of random problems; those that others contain are drawn with slow tests only.
KINDS = slow_after(2, ["accounts", "continuous", "general", "one_sided", "steps", "resources"])


@pytest.mark.parametrize("kind", KINDS)
def test_random_policies(tmp_path: Path, kind: str) -> None:
    rng, broken, kept = np.random.default_rng(1), 0, 0
    for seed in range(30):
        try:
            drawn = generate(seed, kind)
            model, budget = drawn.build()
            found = list(policies(model, budget, drawn.given, rng))
        except SolventError:
            continue
        for i, policy in enumerate(found):
            compute = partial(solvent.verify, model, policy, budget, **drawn.given)
            try:
                report = compute()
            except SolventError:
                continue
            folder = tmp_path / f"{seed}-{i}"
            folder.mkdir()
            with small_pieces():
                every_crash(folder, compute, same_report, most=4)
            broken, kept = broken + (not report.feasible), kept + report.feasible
        if broken and kept:
            break
    assert broken
    assert kept


def test_discounted_policies(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(discount="0.5", start=0, resources=["r"])
    b.add(0, "go", reward=1, outcomes=[(0.5, 0, 1), (0.5, 1, "1/3")])
    b.add(0, "rest", outcomes=[(1, 1, 0)])
    b.add(1, "go", reward=2, outcomes=[(0.5, 0, "1/2"), (0.5, 1, 2)])
    b.add(1, "rest", outcomes=[(1, 0, 0)])
    model = b.build()
    policy = solvent.solve(model, 2, epsilon=0.25).policy
    with small_pieces():
        assert every_crash(tmp_path, partial(solvent.verify, model, policy, 2), same_report)


def test_the_policy_counts(tmp_path: Path) -> None:
    model = instances.random(3, 2, horizon=5, cost_range=(0, 3), budget=10, seed=3)
    path, one = tmp_path / "c", np.zeros((5, 3), int)
    report = solvent.verify(model, one, checkpoint=path)
    assert report == solvent.verify(model, solvent.MarkovPolicy(model, one), checkpoint=path)
    for policy, budget, what in ((one + 1, None, "policy"), (one, 11, "budget")):
        with pytest.raises(SolventError, match=f"{what}: expected the same as now.*remove the folder"):
            solvent.verify(model, policy, budget, checkpoint=path)
    with pytest.raises(SolventError, match="expected a policy that is not a function, which cannot be compared"):
        solvent.verify(model, lambda step, state, spent: 0, checkpoint=tmp_path / "d")


def test_amounts_beyond_64_bits_are_not_saved(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=3, start=0, resources=["r"])
    b.add(0, 0, reward=1, outcomes=[(0.5, 0, 10**30), (0.5, 0, 1)])
    model = b.build()
    with small_pieces():
        saved = every_crash(tmp_path, partial(solvent.verify, model, np.zeros((3, 1), int), 10**31), same_report)
    assert saved == []
