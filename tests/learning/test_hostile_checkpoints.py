"""Untrusted checkpoints: positions are checked before kernels use them, sizes before memory is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from checkpoint_folders import read_folder, write_folder
from solvent import CMDP, LoadLimitError, LoadLimits, ModelError


def small() -> CMDP:
    b = CMDP.builder(horizon=3, start=0, resources=["cost"], budget=3)
    b.add(0, 0, reward=0.2, outcomes=[(0.5, 0, 0), (0.5, 1, 1)])
    b.add(0, 1, reward=0.9, outcomes=[(0.7, 1, 1), (0.3, 0, 2)])
    b.add(1, 0, reward=0.5, outcomes=[(0.6, 0, 1), (0.4, 1, 0)])
    return b.build()


def run(file: Path, **options: Any) -> Any:
    return solvent.learn(
        small(), epsilon=1e-6, seed=5, max_episodes=40, checkpoint=file, cost_support="learned", **options
    )


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    file = tmp_path / "run.ckpt"
    run(file)
    return file, *read_folder(file)


SEEN: list[tuple[int, Any]] = [
    (0, 10**8), (0, -1), (0, True), (0, "0"), (0, None), (0, 10**30), (1, 10**8), (1, -1), (1, 2**63), (1, [0]),
    (2, "1"), (2, []), (2, ["1", "1"]), (2, [1]), (2, ["1e999999999"]), (2, ["1/0"]), (2, ["nan"]), (2, None),
]  # fmt: skip


@pytest.mark.parametrize(("at", "value"), SEEN)
def test_outcomes_that_cannot_have_been_seen(at: int, value: Any, parts: Any) -> None:
    file, arrays, header = parts
    header["seen"][0][at] = value
    write_folder(file, arrays, header)
    with pytest.raises(ModelError, match=r"run.ckpt: seen\[0\]"):
        run(file, resume=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seen", None), ("seen", [[]]), ("seen", [3]), ("seen", {}),
        ("rng", "0x"), ("rng", 3), ("rng", "0x" + "f" * 17), ("rng", "-0x1"), ("episodes", -1), ("episodes", "3"),
        ("episodes", True), ("episodes", 10**400), ("violations", 10**6), ("violations", None), ("due", 2),
        ("due", None), ("due", True), ("built", -1), ("built", 10**6), ("built", None), ("pending", None),
        ("pending", [3]), ("pending", [[0, 0, ["1"]]]),
    ],
)  # fmt: skip
def test_headers_that_no_run_wrote(field: str, value: Any, parts: Any) -> None:
    file, arrays, header = parts
    write_folder(file, arrays, header | {field: value})
    with pytest.raises(ModelError, match=r"run\.ckpt"):
        run(file, resume=True)


def wrong_arrays(arrays: dict[str, np.ndarray[Any, Any]]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [(name, None) for name in arrays]
    for name, array in arrays.items():
        extremes = [np.nan, np.inf, 1e308] if array.dtype.kind == "f" else [-1, 2**63 - 1, -(2**63), 10**8]
        for value in extremes:
            changed = array.copy()
            changed.reshape(-1)[-1] = value
            found.append((name, changed))
        found += [(name, array[:-1]), (name, array[None]), (name, array.astype(bool)), (name, array.astype("<f4"))]
    found.append(("history", arrays["history"][:, :-1]))
    found.append(("history", arrays["history"] + 0.5))
    return found


def test_arrays_that_no_run_wrote(parts: Any) -> None:
    file, arrays, header = parts
    for name, array in wrong_arrays(arrays):
        if name == "history" and array is not None and array.shape == (len(arrays["history"]) - 1, 6):
            continue  # a shorter history is valid
        changed = {key: value for key, value in {**arrays, name: array}.items() if value is not None}
        write_folder(file, changed, header)
        with pytest.raises(ModelError, match=r"run\.ckpt"):
            run(file, resume=True)


def test_checkpoints_are_limited(parts: Any) -> None:
    file, _, _ = parts
    with pytest.raises(LoadLimitError, match=r"expected at most 100 bytes, found"):
        run(file, resume=True, limits=LoadLimits(file_bytes=100))
