"""A short run of the fuzzer on files from outside, and that it finds mistakes where there are some."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from fuzz import file_runner
from fuzz.files import Input, check_input, make_input
from fuzz.mutate import HOSTILE, mutate_array, mutate_tree
from fuzz.runner import TARGETS
from solvent.errors import ModelError

#: Inputs of each target, about as long as each other.
SHORT = {"files": 700, "policies": 400, "checkpoints": 250, "flips": 1200}


def failures(target: str, seeds: range) -> tuple[Counter[str], list[Any]]:
    outcomes: Counter[str] = Counter()
    found = []
    for seed in seeds:
        verdict = check_input(make_input(target, seed))
        outcomes[verdict.outcome] += 1
        if verdict.outcome == "failed":
            found.append((target, seed, verdict.why, verdict.detail))
    return outcomes, found


@pytest.mark.parametrize(
    "target", [pytest.param(each, marks=pytest.mark.slow) if each == "checkpoints" else each for each in TARGETS]
)
def test_short_run(target: str) -> None:
    failures(target, range(-30, 0))  # compiles
    outcomes, found = failures(target, range(SHORT[target]))
    assert not found, found[0]
    assert outcomes["loaded"] >= 5
    assert outcomes["refused"] > outcomes["loaded"]


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_longer_run(target: str) -> None:
    _, found = failures(target, range(10**6, 10**6 + 10 * SHORT[target]))
    assert not found, found[0]


def test_inputs_follow_from_their_seeds() -> None:
    for target in TARGETS:
        for seed in range(20):
            one, two = make_input(target, seed), make_input(target, seed)
            assert (one.content, one.origin.name) == (two.content, two.origin.name)
    with pytest.raises(ValueError, match="there is no target 'x'"):
        make_input("x", 0)


def test_mutations_change_things_and_never_fail() -> None:
    random = Random(3)
    for _ in range(2000):
        tree = {"a": [1, {"b": "c"}, []], "d": None, "e": {"f": [0.5, True]}}
        mutate_tree(tree, random)
        dtype = random.choice(("<i8", "<i4", "<u1", "<f8", "<U4", "|b1"))
        mutate_array(np.ones((3, 2), dtype), random)
        mutate_array(np.zeros(0, dtype), random)
    assert len(HOSTILE) > 50


@pytest.mark.slow
def test_mistakes_are_found() -> None:
    """With a check left out, the fuzzer fails."""
    with mock.patch("solvent.policy.nodes.NodeTable.check_model"):
        _, found = failures("policies", range(1200))
    assert any("called feasible" in why for _, _, why, _ in found), found
    with mock.patch("solvent.formats.npz.check_positions"):
        _, found = failures("files", range(1500))
    assert any("IndexError" in why for _, _, why, _ in found)


def test_slow_and_large_inputs_are_failures() -> None:
    each = make_input("files", 1)
    with mock.patch("fuzz.files.MOST_SECONDS", -1.0):
        assert check_input(each).why.startswith("takes more than")
    with mock.patch("fuzz.files.MOST_BYTES", -1):
        assert check_input(each).why == "takes too much memory"
    with mock.patch.dict("fuzz.files._READERS", {each.origin.kind: mock.Mock(side_effect=ModelError("\x1b", "", ""))}):
        assert check_input(each).outcome == "refused"  # escaped by the error itself
    with mock.patch.dict("fuzz.files._READERS", {each.origin.kind: mock.Mock(side_effect=ZeroDivisionError)}):
        assert check_input(each).why.startswith("ZeroDivisionError")


def test_inputs_are_saved(tmp_path: Path) -> None:
    each = make_input("flips", 3)
    path = each.save(tmp_path / "new")
    assert path.read_bytes() == each.content
    assert isinstance(each, Input)


def crash(pipe: Any, target: str, at: Any) -> None:
    """Stands in for a worker that an input takes down."""
    import os

    first, after = pipe.recv()
    at.value = (first + after) // 2
    os.abort()


@pytest.mark.slow
def test_a_crash_is_reported_with_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzzer = file_runner.FileFuzzer("flips", minutes=0.02, seed=500, jobs=1, out=tmp_path)
    with mock.patch.object(file_runner, "work", crash), mock.patch.object(file_runner, "BATCH", 2):
        assert fuzzer.run() == 1  # every worker gets a task, and an answer is waited for
    assert any("crash with exit code -6" in why for why in fuzzer.causes)
    assert fuzzer.saved[0].read_bytes() == make_input("flips", 501).content
    assert "crash with exit code -6" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_line_runs_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fuzz.runner import main

    counts = tmp_path / "counts.json"
    arguments = ["--target", "flips", "--minutes", "0.01", "--seed", "7", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--json", str(counts)]) == 0
    assert "flips" in capsys.readouterr().out
    assert counts.exists()
