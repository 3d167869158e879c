"""Computations that end after some save of their checkpoint, and are started again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from solvent.core.checkpoint import Checkpoint, Section
from solvent.solvers.frontier import arrays, points
from solvent.solvers.grid import sweep
from solvent.solvers.labels import search, several

T = TypeVar("T")


class Crash(BaseException):
    """Stands for the end of the process: nothing of this package catches it."""


@contextmanager
def crash_after(saves: int | None) -> Iterator[list[str]]:
    """End the computation right after a number of saves; yields the names of the sections that were saved."""
    patch, saved = pytest.MonkeyPatch(), []
    commit = Checkpoint.commit

    def counted(self: Checkpoint, section: Section, began: float) -> bool:
        assert commit(self, section, began)
        saved.append(section.name.split()[0])
        if len(saved) == saves:
            raise Crash
        return True

    patch.setattr(Checkpoint, "commit", counted)
    try:
        yield saved
    except Crash:
        pass
    finally:
        patch.undo()


@contextmanager
def small_pieces() -> Iterator[None]:
    """Cut all work into the smallest pieces, so that there are many places at which to save."""
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda descriptor: None)  # which takes most of the time
    patch.setattr(arrays, "_WATCHED_STEPS", 1)
    patch.setattr(points, "_WATCHED_STEPS", 1)
    patch.setattr(points, "MEET_FROM", 2)
    patch.setattr(sweep, "_WORK_OF_CALL", 0.0)
    patch.setattr(search, "_STRETCH", 1)
    patch.setattr(search, "_WIDTH", 1)
    patch.setattr(search, "_WIDER", 2)
    patch.setattr(several, "_STRETCH", 1)
    patch.setattr(several, "_WIDTH", 1)
    patch.setattr(several, "_WIDER", 2)
    patch.setattr(several, "_ROOM", 4)
    try:
        yield
    finally:
        patch.undo()


def every_crash(
    folder: Path, compute: Callable[..., T], same: Callable[[T, T], None], *, most: int | None = None
) -> list[str]:
    """Check that `compute` gives the same result after a crash at any save; return the sections that were saved.

    Parameters
    ----------
    folder : Path
        An empty folder.
    compute : callable
        Takes `checkpoint` and `checkpoint_every`.
    same : callable
        Asserts that two results are the same.
    most : int, optional
        Crash at no more saves than this, evenly chosen.
    """
    expected = compute()
    with crash_after(None) as saved:
        same(expected, compute(checkpoint=folder / "whole", checkpoint_every=0))
    with crash_after(None):
        same(expected, compute(checkpoint=folder / "whole", checkpoint_every=0))
    step = 1 if most is None else max(1, -(-len(saved) // most))
    for k in range(1, len(saved) + 1, step):
        options: dict[str, Any] = {"checkpoint": folder / str(k), "checkpoint_every": 0}
        with crash_after(k) as before:
            compute(**options)
        assert len(before) <= k  # with several threads, how often it is saved depends on the time
        with crash_after(k) as again:  # a second crash, if it gets that far
            compute(**options)
        assert len(again) <= k
        with crash_after(None):
            same(expected, compute(**options))
    return saved
