"""What a run records: curves over training, and the counts of training and evaluation."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable
from typing import Any

from bench.training.meter import Episode

#: Number of points of a curve.
POINTS = 30


def curve(episodes: list[Episode], steps: int, points: int = POINTS) -> dict[str, list[Any]]:
    """Return the mean return of episodes that finished in each part of the training, and counts up to its end.

    The return of a part in which no episode finished is None.
    """
    ends = [steps * (i + 1) // points for i in range(points)]
    begins = [0, *ends[:-1]]
    means: list[float | None] = []
    for begin, end in zip(begins, ends, strict=True):
        inside = [e.earned for e in episodes if begin < e.end <= end and e.finished]
        means.append(sum(inside) / len(inside) if inside else None)
    return {
        "step": ends,
        "return": means,
        "over": [sum(e.over for e in episodes if e.end <= end) for end in ends],
        "episodes": [sum(e.end <= end for e in episodes) for end in ends],
    }


def summary(episodes: list[Episode]) -> dict[str, Any]:
    """Return the number of episodes, of those over budget, the most that was spent, and the mean return."""
    return {
        "episodes": len(episodes),
        "over": sum(e.over for e in episodes),
        "most": max((e.most for e in episodes), default=0.0),
        "return": sum(e.earned for e in episodes) / len(episodes) if episodes else None,
    }


def results(training: list[Episode], evaluation: list[Episode], steps: int) -> dict[str, Any]:
    """Return all that is recorded about the episodes of a run."""
    return {"curve": curve(training, steps), "training": summary(training), "after": summary(evaluation)}


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of installed packages."""
    return {"Python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
