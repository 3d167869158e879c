"""A run that was interrupted and resumed equals one that was not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from walker import Walker

import solvent
from solvent import CMDP, ModelError, instances
from solvent.core.archives import read_archive, write_archive
from solvent.errors import CheckpointWarning


def small() -> CMDP:
    b = CMDP.builder(horizon=4, start=0, resources=["cost"], budget=3)
    b.add(0, 0, reward=0.2, outcomes=[(0.5, 0, 0), (0.5, 1, 1)])
    b.add(0, 1, reward=0.9, outcomes=[(0.7, 1, 1), (0.3, 0, 2)])
    b.add(1, 0, reward=0.5, outcomes=[(0.6, 0, 1), (0.4, 1, 0)])
    b.add(1, 1, outcomes=[(1, 0, -1)])
    return b.build()


def in_model(**options: Any) -> Any:
    return lambda **run: solvent.learn(small(), epsilon=1e-6, seed=5, **options, **run)


def in_world(**options: Any) -> Any:
    given = {"budget": 3, **options}
    return lambda **run: solvent.learn(Walker(small(), 3), 4, epsilon=1e-6, seed=5, **given, **run)


RUNS = {
    "pooled": in_model(),
    "by node": in_model(pool=False),
    "theory": in_model(bonus="theory"),
    "every episode": in_model(replan="episode"),
    "learned support": in_model(cost_support="learned"),
    "environment": in_world(support=small()),
    "environment, learned": in_world(cost_support="learned"),
    "environment, bound": in_world(cost_bound=[[1, 2], [1, -1]], budget=7),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("stop", [1, 37, 250])
def test_resumed_runs_are_the_same(name: str, stop: int, tmp_path: Path) -> None:
    run, file = RUNS[name], tmp_path / "run.npz"
    whole = run(max_episodes=400)
    run(max_episodes=stop, checkpoint=file)
    resumed = run(max_episodes=400, checkpoint=file, resume=True)
    assert resumed.history == whole.history
    assert resumed.policy == whole.policy
    assert (resumed.gap, resumed.episodes, resumed.violations) == (whole.gap, whole.episodes, whole.violations)
    assert whole.episodes == 400


def test_checkpoints_are_written_on_the_way(tmp_path: Path) -> None:
    file, sizes = tmp_path / "run.npz", set()

    def look(_: Any) -> None:
        if file.exists():
            sizes.add(read_archive(file.read_bytes())[1]["episodes"])

    solvent.learn(small(), epsilon=1e-6, max_episodes=300, checkpoint=file, checkpoint_every=50, callback=look)
    assert len(sizes) >= 2
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_other_problems_and_settings_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    solvent.learn(small(), max_episodes=10, checkpoint=file)
    with pytest.raises(ModelError, match=r"run.npz: checkpoint: expected the same environment, horizon and budget"):
        solvent.learn(instances.fuel_grid(2), max_episodes=20, checkpoint=file, resume=True)
    with pytest.raises(ModelError, match=r"checkpoint, seed: expected 1, found 0"):
        solvent.learn(small(), max_episodes=20, checkpoint=file, resume=True, seed=1)
    assert solvent.learn(small(), epsilon=9, max_episodes=20, checkpoint=file, resume=True).episodes >= 10


def test_other_bounds_are_another_problem(tmp_path: Path) -> None:
    file, run = tmp_path / "run.npz", {"max_episodes": 10, "checkpoint": tmp_path / "run.npz"}
    solvent.learn(Walker(small()), 4, 9, cost_bound=2, **run)
    assert solvent.learn(Walker(small()), 4, 9, cost_bound=2, **run, resume=True).episodes == 10
    for bound in ({"cost_bound": [2, 3]}, {"cost_support": "learned"}):
        with pytest.raises(ModelError, match=r"expected the same environment, horizon and budget"):
            solvent.learn(Walker(small()), 4, 9, **bound, **run, resume=True)
    assert file.exists()


def test_broken_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    with pytest.raises(ModelError, match=r"run.npz: expected a checkpoint, found no such file"):
        solvent.learn(small(), checkpoint=file, resume=True)
    file.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="expected an NPZ of plain arrays"):
        solvent.learn(small(), checkpoint=file, resume=True)
    solvent.learn(small(), max_episodes=10, checkpoint=file)
    arrays, header = read_archive(file.read_bytes())
    file.write_bytes(write_archive({**arrays, "count_K": np.zeros(1, np.int64)}, header))
    with pytest.raises(ModelError, match=r"count_K: expected int64 of shape \(4,\), found int64 of shape \(1,\)"):
        solvent.learn(small(), checkpoint=file, resume=True)
    header.pop("episodes")
    file.write_bytes(write_archive(arrays, header))
    with pytest.raises(ModelError, match="header, episodes: expected a whole number of at least 0, found None"):
        solvent.learn(small(), checkpoint=file, resume=True)
    file.write_bytes(write_archive(arrays, {"solvent_learner": 99}))
    with pytest.raises(ModelError, match="a checkpoint of format 1 or 2 or 3, found 99; it was written by a newer"):
        solvent.learn(small(), checkpoint=file, resume=True)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_does_not_end_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"epsilon": 1e-6, "max_episodes": 400, "seed": 3}
    expected = solvent.learn(small(), **options)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CheckpointWarning, match="No space left on device") as told:
        learned = solvent.learn(small(), **options, checkpoint=tmp_path / "run.npz", checkpoint_every=50)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert learned.history == expected.history
    assert learned.message == f"{expected.message}; the checkpoint could not be written: {learned.checkpoint_error}"
    assert learned.checkpoint_error.endswith("expected a place that can be written, found No space left on device")
    assert not list(tmp_path.iterdir())


def test_the_next_checkpoint_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, tries = os.replace, []

    def full_at_first(*given: Any) -> None:
        tries.append(given)
        (full if len(tries) < 3 else genuine)(*given)

    monkeypatch.setattr(os, "replace", full_at_first)
    file = tmp_path / "run.npz"
    with pytest.warns(CheckpointWarning) as told:
        learned = solvent.learn(small(), epsilon=1e-6, max_episodes=300, checkpoint=file, checkpoint_every=50)
    assert len(told) == 1
    assert len(tries) > 3
    assert learned.checkpoint_error == ""
    assert "checkpoint" not in learned.message
    again = solvent.learn(small(), epsilon=1e-6, max_episodes=600, checkpoint=file, resume=True)
    assert again.history == solvent.learn(small(), epsilon=1e-6, max_episodes=600).history
