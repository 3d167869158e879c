"""The number of points of a frontier, to which the work of the frontier method is proportional."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from solvent.core.limits import ResourceMonitor
from solvent.experiments import families
from solvent.model.cmdp import CMDP
from solvent.solvers.frontier.bounds import FrontierBounds, settled_need
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.resource import SingleResource

K = TypeVar("K", bound=Hashable)

#: Points of all trials, by line of the figure and by position on the line.
Lines = dict[K, dict[int, list[int]]]


@dataclass(frozen=True)
class Points:
    """Number of points of a frontier.

    Attributes
    ----------
    points : int
        At the first step, in the start state: budgets at which the optimal value rises.
    total : int
        At all steps and states.
    """

    points: int
    total: int


def count(model: CMDP) -> Points:
    """Count the points of the frontiers of a model with one resource, over all budgets that can matter.

    Examples
    --------
    >>> from solvent.model import instances
    >>> count(instances.knapsack([60, 100, 120], [10, 20, 30]))
    Points(points=7, total=13)
    """
    cost = np.array(model.cost[0].ticks, np.int64)  # not read-only, for which kernels would be compiled once more
    most = max(0, settled_need(model, cost, ResourceMonitor()))
    resource = SingleResource(cost, np.zeros(model.horizon, np.int64))
    found = build(FrontierBounds(model, resource, ResourceMonitor(), None, most), ResourceMonitor())
    return Points(len(found.start_need), sum(found.layer_sizes))


def prepare() -> None:
    """Compile or load the kernels that `count` uses."""
    count(families.draw("uniform", 2, seed=0))
    count(families.draw("uniform", 2, seed=0, random=True))


def lines(trials: Iterable[tuple[K, int, int]]) -> Lines[K]:
    """Arrange (line, place, points) of single trials.

    Examples
    --------
    >>> lines([("a", 1, 5), ("a", 1, 7), ("b", 2, 3)])
    {'a': {1: [5, 7]}, 'b': {2: [3]}}
    """
    found: Lines[K] = {}
    for line, place, points in trials:
        found.setdefault(line, {}).setdefault(place, []).append(points)
    return found


def mean(points: list[int]) -> float:
    """Return the mean over trials."""
    return sum(points) / len(points)
