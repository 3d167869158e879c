"""Callbacks of `learn`: logs that are complete when learning ends, several callbacks, and what is refused."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import ModelError, instances
from solvent.learning import CsvLog, LearnProgress, TensorBoardLog, WandbLog


def logged(file: Path) -> list[tuple[float, ...]]:
    """Return the lines of a log after the first, which has the names."""
    with file.open(newline="") as opened:
        header, *lines = csv.reader(opened)
    assert tuple(header) == LearnProgress._fields
    return [tuple(map(float, line)) for line in lines]


def test_a_log_that_is_passed_inline_is_complete(tmp_path: Path) -> None:
    learned = solvent.learn(instances.fuel_grid(2), callback=CsvLog(tmp_path / "log.csv"), max_episodes=500)
    assert logged(tmp_path / "log.csv") == [tuple(each) for each in learned.history]


def test_a_log_with_a_checkpoint_is_complete(tmp_path: Path) -> None:
    log, checkpoint = tmp_path / "log.csv", tmp_path / "run.ckpt"
    learned = solvent.learn(instances.fuel_grid(2), callback=CsvLog(log), max_episodes=100, checkpoint=checkpoint)
    assert logged(log) == [tuple(each) for each in learned.history]


def test_a_log_of_an_infeasible_problem_has_its_header(tmp_path: Path) -> None:
    learned = solvent.learn(instances.fuel_grid(2), budget=-1, callback=CsvLog(tmp_path / "log.csv"))
    assert learned.status.value == "infeasible"
    assert logged(tmp_path / "log.csv") == []


def test_a_log_goes_on_in_the_next_run(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "log.csv")
    runs = [solvent.learn(instances.fuel_grid(2), callback=log, max_episodes=50, seed=seed) for seed in (0, 1)]
    with log:
        runs.append(solvent.learn(instances.fuel_grid(2), callback=log, max_episodes=50, seed=2))
    assert logged(tmp_path / "log.csv") == [tuple(each) for run in runs for each in run.history]


def test_a_log_is_complete_after_ctrl_c(tmp_path: Path) -> None:
    seen: list[LearnProgress] = []

    def press(times: int) -> Any:
        def pressed(progress: LearnProgress) -> None:
            seen.append(progress)
            if len(seen) == 3:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

        return pressed

    log = CsvLog(tmp_path / "once.csv")
    assert solvent.learn(instances.fuel_grid(3), callback=[log, press(1)], epsilon=1e-6).status.value == "limit"
    assert logged(tmp_path / "once.csv") == [tuple(each) for each in seen]
    seen.clear()
    log = CsvLog(tmp_path / "twice.csv")
    with pytest.raises(KeyboardInterrupt):
        solvent.learn(instances.fuel_grid(3), callback=[log, press(2)], epsilon=1e-6)
    assert logged(tmp_path / "twice.csv") == [tuple(each) for each in seen]


def test_a_log_is_complete_after_an_error(tmp_path: Path) -> None:
    seen: list[LearnProgress] = []

    def fail(progress: LearnProgress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        solvent.learn(instances.fuel_grid(3), callback=(CsvLog(tmp_path / "log.csv"), fail), epsilon=1e-6)
    assert logged(tmp_path / "log.csv") == [tuple(each) for each in seen]


def test_a_run_that_does_not_begin_leaves_an_older_log(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("older")
    with pytest.raises(ModelError, match="epsilon"):
        solvent.learn(instances.fuel_grid(2), callback=CsvLog(tmp_path / "log.csv"), epsilon=-1)
    assert (tmp_path / "log.csv").read_text() == "older"


def test_places_for_a_log_are_checked_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path, found in (
        (tmp_path / "none" / "log.csv", "no folder .*none'; create the folder first"),
        (tmp_path, "a folder; add the name of a file"),
        (tmp_path / "file" / "log.csv", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path(os.devnull), "a device or a pipe"),
    ):
        said = rf"^{re.escape(str(path))}: expected a place that can be written, found {found}$"
        with pytest.raises(ModelError, match=said):
            CsvLog(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_permission_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ModelError, match=r"log\.csv: expected a place that can be written, found a folder that cannot"):
        CsvLog(tmp_path / "log.csv")


@pytest.mark.parametrize("every", [0, 2.5, "3", None, True])
def test_how_often_a_log_is_written(every: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^every: expected a whole number of at least 1, found "):
        CsvLog(tmp_path / "log.csv", every)


def test_a_log_that_can_no_longer_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    log = CsvLog(folder / "log.csv", every=1)
    folder.rmdir()
    with pytest.warns(UserWarning, match=r"log\.csv: expected a place that can be written, found No such file"):
        learned = solvent.learn(instances.fuel_grid(2), callback=log, max_episodes=50)
    assert learned.episodes == 50
    with pytest.raises(ModelError, match=r"log\.csv: expected a place that can be written"):
        log.close()
    folder.mkdir()
    log.close()
    assert logged(folder / "log.csv") == [tuple(each) for each in learned.history]


def test_a_tensorboard_log_is_flushed_and_stays_open() -> None:
    class Writer:
        done: tuple[str, ...] = ()

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            pass

        def flush(self) -> None:
            self.done += ("flush",)

        def close(self) -> None:
            self.done += ("close",)

    writer = Writer()
    solvent.learn(instances.fuel_grid(2), callback=TensorBoardLog(writer), max_episodes=5)
    assert writer.done == ("flush",)


def test_several_callbacks_are_called_in_order() -> None:
    called: list[str] = []

    def first(progress: LearnProgress) -> None:
        called.append("first")

    def stop(progress: LearnProgress) -> bool:
        called.append("stop")
        return len(called) >= 4

    def last(progress: LearnProgress) -> None:
        called.append("last")

    learned = solvent.learn(instances.fuel_grid(3), callback=[first, stop, last])
    assert called == ["first", "stop", "last"] * 2
    assert "stopped by the callback" in learned.message
    assert solvent.learn(instances.fuel_grid(2), callback=(), max_episodes=5).episodes == 5


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        ([print, 3], r"callback\[1\]: expected a function of a LearnProgress, found 3"),
        ([[print]], r"callback\[0\]: expected a function of a LearnProgress, found \[<built-in function print>\]"),
        ({print}, r"callback: expected .*, or None, found \{<built-in .*\}; pass several callbacks as a list"),
        (iter([print]), r"callback: expected .*, or None, found <list_iterator .*; pass several callbacks as a list"),
        (lambda: None, r"callback: expected a function of \(progress\), found one of \(\)"),
        ([print, lambda a, b: None], r"callback\[1\]: expected a function of \(progress\), found one of \(a, b\)"),
    ],
)
def test_what_is_no_callback(callback: Any, said: str) -> None:
    with pytest.raises(ModelError, match=f"^{said}"):
        solvent.learn(instances.fuel_grid(2), callback=callback)


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_stops_the_run(answer: Any) -> None:
    learned = solvent.learn(instances.fuel_grid(2), max_episodes=500, callback=lambda progress: answer)
    assert learned.episodes == 0
    assert "stopped by the callback" in learned.message


@pytest.mark.parametrize("answer", [None, False, np.False_, 1, "yes", np.ones(2)])
def test_other_answers_of_a_callback_do_not_stop_the_run(answer: Any) -> None:
    assert solvent.learn(instances.fuel_grid(2), max_episodes=9, callback=lambda progress: answer).episodes == 9


@pytest.mark.parametrize(
    ("log", "given", "said"),
    [
        (
            TensorBoardLog,
            None,
            r"writer: expected a folder, or an object with add_scalar\(tag, value, step\), found None",
        ),
        (WandbLog, None, r"run: expected the name of a project, or an object .*, found None; wandb.run is None until"),
        (WandbLog, Path("runs"), r"run: expected the name of a project, or an object with log\(data, step\), found"),
    ],
)
def test_what_a_log_cannot_write_to(log: Any, given: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        log(given)


def test_a_class_is_no_log() -> None:
    with pytest.raises(ModelError, match="run: expected the name of a project"):
        solvent.learn(instances.fuel_grid(2), max_episodes=9, callback=WandbLog)
