"""A run that was interrupted and resumed equals one that was not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from walker import Walker

import solvent
from checkpoint_folders import read_folder, write_folder
from effort import slow_after
from solvent import CMDP, ModelError, instances
from solvent.errors import CheckpointWarning


def small() -> CMDP:
    b = CMDP.builder(horizon=4, start=0, resources=["cost"], budget=3)
    b.add(0, 0, reward=0.2, outcomes=[(0.5, 0, 0), (0.5, 1, 1)])
    b.add(0, 1, reward=0.9, outcomes=[(0.7, 1, 1), (0.3, 0, 2)])
    b.add(1, 0, reward=0.5, outcomes=[(0.6, 0, 1), (0.4, 1, 0)])
    b.add(1, 1, outcomes=[(1, 0, -1)])
    return b.build()


def in_model(**options: Any) -> Any:
    return lambda **run: solvent.learn(small(), seed=5, **options, **{"epsilon": 1e-6, **run})


def in_world(**options: Any) -> Any:
    given = {"budget": 3, **options}
    return lambda **run: solvent.learn(Walker(small(), 3), 4, seed=5, **given, **{"epsilon": 1e-6, **run})


def real() -> CMDP:
    b = CMDP.builder(horizon=4, start=0, resources=["cost"], budget=8)
    b.add(0, 0, reward=0.2, outcomes=[(0.3, 0, 1.37), (0.2, 0, 1.36), (0.5, 1, 2.61)])
    b.add(1, 0, reward=0.5, outcomes=[(0.6, 0, 1.19), (0.4, 1, 0.53)])
    b.add(1, 1, outcomes=[(1, 0, 0)])
    return b.build()


def in_real(*, env: bool = False, **options: Any) -> Any:
    def run(**run: Any) -> solvent.LearnResult:
        given = {"seed": 5, "epsilon": 1e-6, **options, **run}
        return (
            solvent.learn(Walker(real(), 8), 4, 8, support=real(), **given) if env else solvent.learn(real(), **given)
        )

    return run


RUNS = {
    "pooled": in_model(),
    "by node": in_model(pool=False),
    "theory": in_model(bonus="theory"),
    "every episode": in_model(replan="episode"),
    "learned support": in_model(cost_support="learned"),
    "environment": in_world(support=small()),
    "environment, learned": in_world(cost_support="learned"),
    "environment, bound": in_world(cost_bound=[[1, 2], [1, -1]], budget=7),
    "rounded up": in_real(strict=True),
    "rounded down": in_real(epsilon_cost=1),
    "environment, rounded up": in_real(env=True, strict=True, epsilon_cost=1),
    "environment, rounded, learned": in_real(strict=True, cost_support="learned"),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("stop", slow_after(1, [37, 1, 250]))
def test_resumed_runs_are_the_same(name: str, stop: int, tmp_path: Path) -> None:
    run, file = RUNS[name], tmp_path / "run.ckpt"
    whole = run(max_episodes=400)
    run(max_episodes=stop, checkpoint=file)
    resumed = run(max_episodes=400, checkpoint=file, resume=True)
    assert resumed.history == whole.history
    assert resumed.policy == whole.policy
    assert (resumed.gap, resumed.episodes, resumed.violations) == (whole.gap, whole.episodes, whole.violations)
    assert whole.episodes == 400


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_has_ended_plays_no_more_episodes(name: str, tmp_path: Path) -> None:
    run, file = RUNS[name], tmp_path / "run.ckpt"
    epsilon = run(max_episodes=100).history[-1].gap
    ended = run(epsilon=epsilon, max_episodes=400, checkpoint=file)
    again = run(epsilon=epsilon, max_episodes=400, checkpoint=file, resume=True)
    assert again.status is ended.status is solvent.Status.WITHIN_GAP
    assert again.history == ended.history
    assert again.policy == ended.policy
    assert (again.gap, again.episodes, again.message) == (ended.gap, ended.episodes, ended.message)
    assert again.returns.tolist() == ended.returns.tolist()


def test_checkpoints_are_written_on_the_way(tmp_path: Path) -> None:
    file, sizes = tmp_path / "run.ckpt", set[int]()

    def look(_: Any) -> None:
        nonlocal sizes
        if file.exists():
            sections = json.loads((file / "checkpoint.json").read_text())["sections"]
            sizes |= {each["state"]["episodes"] for each in sections.values()}

    solvent.learn(small(), epsilon=1e-6, max_episodes=300, checkpoint=file, checkpoint_every=50, callback=look)
    assert len(sizes) >= 2
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_other_problems_and_settings_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    solvent.learn(small(), max_episodes=10, checkpoint=file)
    with pytest.raises(ModelError, match=r"run.ckpt, environment, horizon and budget: expected the same as now"):
        solvent.learn(instances.fuel_grid(2), max_episodes=20, checkpoint=file, resume=True)
    with pytest.raises(ModelError, match=r"run.ckpt, seed: expected the same as now, '1', found '0'"):
        solvent.learn(small(), max_episodes=20, checkpoint=file, resume=True, seed=1)
    assert solvent.learn(small(), epsilon=9, max_episodes=20, checkpoint=file, resume=True).episodes >= 10


def test_other_rounded_costs_are_another_problem(tmp_path: Path) -> None:
    solvent.learn(real(), strict=True, epsilon_cost=1, max_episodes=20, checkpoint=tmp_path / "run.ckpt")
    b = CMDP.builder(horizon=4, start=0, resources=["cost"], budget=8)
    b.add(0, 0, reward=0.2, outcomes=[(0.3, 0, 1.37), (0.2, 0, 1.36), (0.5, 1, 2.62)])
    b.add(1, 0, reward=0.5, outcomes=[(0.6, 0, 1.19), (0.4, 1, 0.53)])
    b.add(1, 1, outcomes=[(1, 0, 0)])
    with pytest.raises(ModelError, match="environment, horizon and budget"):
        solvent.learn(
            b.build(), strict=True, epsilon_cost=1, max_episodes=40, checkpoint=tmp_path / "run.ckpt", resume=True
        )


@pytest.mark.parametrize(("world", "seed", "stop"), [(4, 4, 26), (5, 23, 26), (2, 44, 53)])
def test_when_plans_are_made_does_not_depend_on_interruptions(world: int, seed: int, stop: int, tmp_path: Path) -> None:
    """These runs stop when a count has doubled, and enough episodes for a plan have been played since."""
    model = instances.random(2, 3, horizon=2, cost_range=(0, 2), budget=6, seed=world)

    def run(**run: Any) -> solvent.LearnResult:
        return solvent.learn(Walker(model), 2, 6, cost_support="learned", epsilon=1e-3, seed=seed, **run)

    run(max_episodes=stop, checkpoint=tmp_path / "run.ckpt")
    resumed = run(max_episodes=60, checkpoint=tmp_path / "run.ckpt", resume=True)
    assert resumed.history == run(max_episodes=60).history


def test_other_bounds_are_another_problem(tmp_path: Path) -> None:
    file, run = tmp_path / "run.ckpt", {"max_episodes": 10, "checkpoint": tmp_path / "run.ckpt"}
    solvent.learn(Walker(small()), 4, 9, cost_bound=2, **run)
    assert solvent.learn(Walker(small()), 4, 9, cost_bound=2, **run, resume=True).episodes == 10
    for bound in ({"cost_bound": [2, 3]}, {"cost_support": "learned"}):
        with pytest.raises(ModelError, match=r"environment, horizon and budget: expected the same as now"):
            solvent.learn(Walker(small()), 4, 9, **bound, **run, resume=True)
    assert file.exists()


def test_broken_checkpoints_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    with pytest.raises(ModelError, match=r"run.ckpt: expected a checkpoint, found no such folder"):
        solvent.learn(small(), checkpoint=file, resume=True)
    file.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="expected a folder for a checkpoint, found a file"):
        solvent.learn(small(), checkpoint=file, resume=True)
    file.unlink()
    file.mkdir()
    with pytest.raises(ModelError, match="expected the state of a learner, found none"):
        solvent.learn(small(), checkpoint=file, resume=True)
    solvent.learn(small(), max_episodes=10, checkpoint=file)
    arrays, state = read_folder(file)
    write_folder(file, {**arrays, "count_K": np.zeros(1, np.int64)}, state)
    with pytest.raises(ModelError, match=r"count_K: expected int64 of shape \(4,\), found <i8 of shape \(1,\)"):
        solvent.learn(small(), checkpoint=file, resume=True)
    write_folder(file, arrays, {name: value for name, value in state.items() if name != "episodes"})
    with pytest.raises(ModelError, match=r"episodes: expected a whole number from 0 to .*, found None; .*remove"):
        solvent.learn(small(), checkpoint=file, resume=True)


def test_a_checkpoint_of_learning_is_replaced_without_resume(tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    solvent.learn(small(), max_episodes=10, checkpoint=file)
    solvent.learn(instances.fuel_grid(2), max_episodes=20, checkpoint=file)
    assert read_folder(file)[1]["episodes"] == 20
    solved = tmp_path / "solved"
    solvent.solve(small(), checkpoint=solved)
    with pytest.raises(ModelError, match="expected a checkpoint of learn, found one of 'solve'"):
        solvent.learn(small(), max_episodes=10, checkpoint=solved)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_does_not_end_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"epsilon": 1e-6, "max_episodes": 400, "seed": 3}
    expected = solvent.learn(small(), **options)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CheckpointWarning, match="No space left on device") as told:
        learned = solvent.learn(small(), **options, checkpoint=tmp_path / "run.ckpt", checkpoint_every=50)
    assert len(told) == 1
    assert learned.history == expected.history
    assert learned.message == f"{expected.message}; the checkpoint could not be written: {learned.checkpoint_error}"
    assert learned.checkpoint_error.endswith("expected a place that can be written, found No space left on device")
    assert [each.name for each in (tmp_path / "run.ckpt").iterdir()] == ["lock"]


def test_the_next_checkpoint_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, tries = os.replace, []

    def full_at_first(*given: Any) -> None:
        tries.append(given)
        (full if len(tries) < 3 else genuine)(*given)

    monkeypatch.setattr(os, "replace", full_at_first)
    file = tmp_path / "run.ckpt"
    with pytest.warns(CheckpointWarning) as told:
        learned = solvent.learn(small(), epsilon=1e-6, max_episodes=300, checkpoint=file, checkpoint_every=50)
    assert len(told) == 1
    assert len(tries) > 3
    assert learned.checkpoint_error == ""
    assert "checkpoint" not in learned.message
    again = solvent.learn(small(), epsilon=1e-6, max_episodes=600, checkpoint=file, resume=True)
    assert again.history == solvent.learn(small(), epsilon=1e-6, max_episodes=600).history
