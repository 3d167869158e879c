"""`warmup`: compile all kernels now, so that no later call has to wait for it.

Kernels are compiled for the types of their arguments. Small problems that together use every kernel are solved through
the public functions, so that these types are those that occur in practice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.jit import KERNELS, compiled_kernels
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import ProgressLike, open_progress
from solvent.learning.learn import learn
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.cmdp import CMDP
from solvent.solvers.augmentation.augment import augment
from solvent.solvers.every_budget import frontier
from solvent.solvers.frontier.bounds import FrontierBounds
from solvent.solvers.frontier.build import build
from solvent.solvers.frontier.following import follow_policy
from solvent.solvers.frontier.following_kernels import follow_by_hash, follow_on_grid, follow_points, follow_runs
from solvent.solvers.frontier.resource import SingleResource
from solvent.solvers.grid.layout import BoxLayout
from solvent.solvers.grid.spilled import sweep_parts
from solvent.solvers.levels.levels import reach_levels, survival_levels
from solvent.solvers.outcomes.merging import merge_twins
from solvent.solvers.problem import Problem
from solvent.solvers.solve import solve


@dataclass(frozen=True)
class Warmup:
    """Result of `warmup`.

    Attributes
    ----------
    compiled : int
        Number of kernels that were compiled; 0 if all were in the cache.
    kernels : int
        Number of all kernels; 0 if compilation is disabled.
    seconds : float
        Time taken.
    """

    compiled: int
    kernels: int
    seconds: float


def warmup(progress: ProgressLike = False) -> Warmup:
    """Compile all kernels that are not in the cache yet.

    Parameters
    ----------
    progress : bool, "log", ProgressSink or callable
        Whether and how to report progress.

    Examples
    --------
    >>> warmup().kernels > 30
    True
    """
    began, before = time.perf_counter(), len(compiled_kernels())
    todo = tasks() if KERNELS else []  # there are no kernels with NUMBA_DISABLE_JIT
    helper: subprocess.Popen[str] | None = None
    try:
        with open_progress(progress, "compiling kernels") as sink:
            for done, task in enumerate(todo):
                sink.report("compiling kernels", done, len(todo), {}, "task")
                task()
                if helper is None and len(compiled_kernels()) > before:
                    helper = _helper()
            by_helper = helper.communicate()[0].split() if helper else []
    finally:
        if helper is not None:
            helper.kill()  # it has already ended, except after an interrupt or an error
            helper.wait()
    compiled = {_name(kernel) for kernel in compiled_kernels()[before:]} | set(by_helper)
    return Warmup(len(compiled), len(KERNELS), time.perf_counter() - began)


def _helper() -> subprocess.Popen[str] | None:
    """Return a second process that does the tasks in reverse order, or None if there is no processor for it.

    Where the two processes meet, the kernels of the other one are in the cache. If it fails, this process does all
    tasks.
    """
    if not sys.executable or (os.cpu_count() or 1) < 2:
        return None
    code = f"import sys; sys.path[:] = {sys.path!r}; import solvent.warmup; solvent.warmup._help()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None


def _help() -> None:
    """Do all tasks in reverse order, and print the names of the kernels that were compiled."""
    for task in reversed(tasks()):
        task()
    print(*{_name(kernel) for kernel in compiled_kernels()}, sep="\n")


def _name(kernel: Any) -> str:
    """Return the qualified name of a kernel."""
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def tasks() -> list[Callable[[], object]]:
    """Return calls that together use every kernel."""
    grid, certain, knapsack = instances.fuel_grid(3), _certain(), instances.paper(12, seed=1, budget=2)
    near, far = _trips(1), _trips(10**9 + 7)
    two, far_two = _trips(1, wear=1), _trips(10**9 + 7, wear=10**9 + 9)
    return [
        lambda: merge_twins(grid, np.zeros((grid.n_outcomes, 1), np.int64)),  # fast
        lambda: solve(grid),
        lambda: solve(grid, method="reduction"),
        lambda: solve(grid, method="reduction", prune=False),
        lambda: solve(_impossible()),
        lambda: solve(far, method="frontier"),
        lambda: solve(_crowd(), method="frontier"),
        lambda: solve(far, approximation="relative", epsilon=0.1),
        lambda: solve(knapsack),
        lambda: solve(certain),
        lambda: solve(certain, approximation="relative", epsilon=0.1),
        lambda: solve(_errands(), method="labels"),
        lambda: solve(instances.partition([3, 1, 1, 2, 3, 2]), method="labels"),
        lambda: solve(two),
        lambda: _sweep_in_parts(two),
        lambda: solve(far_two),
        lambda: solve(_without_unit(), gap=0.2),
        lambda: frontier(_wide(), max_budget=300_000),
        lambda: _follow(grid),
        lambda: _follow(far),
        lambda: solve(instances.random(20, 3, horizon=9, branching=3, real_costs=True, cost_range=(0, 5), budget=30)),
        lambda: augment(grid),
        lambda: augment(grid, stationary=True),
        lambda: survival_levels(_charging(), capacity=9),
        lambda: reach_levels(near, ["there"], capacity=3, reload=["here"]),
        lambda: learn(near, epsilon=0.5, max_episodes=20),
        lambda: learn(near, epsilon=0.5, bonus="theory", max_episodes=20),
        lambda: learn(near, epsilon=0.5, cost_support="learned", max_episodes=20),
    ]


def _follow(model: CMDP) -> None:
    """Follow the policy of a frontier with every kernel."""
    problem = Problem.exact(model, resolve(model, None))
    resource, monitor = SingleResource.of(problem.lattice), ResourceMonitor()
    found = build(FrontierBounds.at_start(problem.model, resource, monitor), monitor)
    for kernel in (follow_points, follow_runs, follow_on_grid, follow_by_hash):
        follow_policy(problem.model, resource, found, resource.initial_left, kernels=[kernel])


def _sweep_in_parts(model: CMDP) -> None:
    """Sweep the boxes of a model in two parts."""
    problem, monitor = Problem.exact(model, resolve(model, None)), ResourceMonitor()
    layout = BoxLayout.at_start(problem.model, problem.lattice, monitor)
    sweep_parts(layout, [np.array([0]), np.array([1])], monitor)


def _trips(fuel: int, wear: int = 0) -> CMDP:
    """Return a small model of trips with costs `fuel` and `wear`, or a little more than twice as much."""
    once = (fuel, wear) if wear else (fuel,)
    twice = tuple(2 * cost + 1 for cost in once)
    names = ["fuel", "wear"][: len(once)]
    b = CMDP.builder(horizon=4, start="here", resources=names, budget=dict(zip(names, twice, strict=True)))
    b.add("here", "go", reward=1, outcomes=[(0.5, "there", once), (0.5, "here", twice)])
    b.add("here", "rest", outcomes=[(1, "here")])
    b.add("there", "back", reward=0.5, outcomes=[(1, "here", once)])
    b.add("there", "stay", outcomes=[(1, "there")])
    return b.build()


def _errands() -> CMDP:
    """Return a deterministic model of two resources in which steps do not matter."""
    b = CMDP.builder(horizon=4, start=0, resources=["fuel", "wear"], must_end_in=[9], budget={"fuel": 9, "wear": 9})
    for state in range(9):
        for action in range(3):
            costs = (3 - action, 1 + action * state % 4)
            b.add(state, action, reward=-(state * action % 5), outcomes=[(1, min(state + 1 + action, 9), costs)])
    return b.build()


def _certain() -> CMDP:
    """Return a model without randomness whose best path is not found at once."""
    b = CMDP.builder(horizon=12, start="left", resources=["fuel"], budget=20)
    for step in range(12):
        for state, other in (("left", "right"), ("right", "left")):
            cost = 3 + (5 * step + len(state)) % 7
            b.add(state, "go", reward=cost + 1 / (step + 2), outcomes=[(1, other, cost)], steps=[step])
    for state in ("left", "right"):
        b.add(state, "rest", outcomes=[(1, state)])
    return b.build()


def _charging() -> CMDP:
    """Return a model with a negative cost."""
    b = CMDP.builder(horizon=1, start="here", resources=["fuel"])
    b.add("here", "charge", outcomes=[(0.5, "here", -1), (0.5, "there", 1)])
    b.add("there", "back", outcomes=[(1, "here", 2)])
    return b.build()


def _without_unit() -> CMDP:
    """Return a model of two resources whose costs have no common unit that fits 64 bits."""
    a, b = 1 + Fraction(1, 3**25), 1 + Fraction(1, 7**15)
    builder = CMDP.builder(horizon=4, start="here", resources=["fuel", "wear"], budget={"fuel": 4, "wear": 4})
    builder.add("here", "go", reward=1, outcomes=[(0.5, "there", (a, b)), (0.5, "here", (b, a))])
    builder.add("here", "rest", reward=0.3, outcomes=[(1, "here", (Fraction(1, 3), Fraction(1, 7)))])
    builder.add("there", "back", reward=0.5, outcomes=[(1, "here", (b, a))])
    return builder.build()


def _impossible() -> CMDP:
    """Return a model without a feasible policy."""
    b = CMDP.builder(horizon=2, start="here", resources=["fuel"], budget=1)
    b.add("here", "go", outcomes=[(0.5, "here", 1), (0.5, "here", 2)])
    return b.build()


def _crowd() -> CMDP:
    """Return a model with more actions than fit into a byte, whose frontiers are stored as arrays."""
    b = CMDP.builder(horizon=12, start="here", resources=["money"], budget=2000)
    for i in range(257):
        b.add("here", i, reward=i + i % 7, outcomes=[(0.5, "here", i), (0.5, "here", i - 1)])
    return b.build()


def _wide() -> CMDP:
    """Return a model with many amounts and many outcomes per row, whose frontiers are stored as arrays."""
    b = CMDP.builder(horizon=9, start=0, resources=["fuel"])
    outcomes = [(Fraction(1, 32), state, cost) for state in range(2) for cost in range(2001, 34_001, 2000)]
    for state in range(2):
        b.add(state, "go", reward=1 + state, outcomes=outcomes)
        b.add(state, "rest", outcomes=[(1, state)])
    return b.build()
