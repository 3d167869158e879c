"""`solve_many`: many models or budgets in one call, on all processors.

Models are solved one after the other. Once it is clear that the rest takes long, helper processes join in
(`solvent.solvers.helpers`). Threads would not help: small solves run mostly in Python, one thread at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from solvent.core.arguments import place_error, read_jobs
from solvent.core.engines import RayEngine, open_engine
from solvent.core.interrupt import check_interrupt, held_back
from solvent.core.limits import ResourceMonitor, read_memory, read_seconds
from solvent.core.preparation import working_time
from solvent.core.progress import ProgressLike, ProgressSink, open_progress
from solvent.core.threads import one_thread, thread_count
from solvent.errors import ModelError, quote
from solvent.model.budget import Budget, BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.solvers.helpers import Helpers, Task, dump_results, help_with, load_results
from solvent.solvers.registry import AUTO
from solvent.solvers.solution import Solution
from solvent.solvers.solve import read_request, run_request
from solvent.solvers.transforms.rounding import EpsilonLike

#: Seconds of work that must be left for helper processes to be started: each needs a second or two to start.
_PAYS = 4.0
#: Seconds of solving before that is decided.
_TRIED = 0.25
#: Seconds of work of one message to a helper.
_MESSAGE = 0.05
#: The largest number of solves of one message.
_MOST = 64
#: Messages to each worker of a cluster, at least: several, so that one that finishes early takes over work of others.
_MESSAGES = 8
#: Seconds between two checks for Ctrl-C while helpers work.
_PAUSE = 0.05


def solve_many(
    models: CMDP | DiscountedCMDP | Iterable[CMDP | DiscountedCMDP],
    budgets: BudgetLike | Iterable[BudgetLike | None] | None = None,
    *,
    spent: SpentLike | None = None,
    method: str = AUTO,
    approximation: str | None = None,
    epsilon: EpsilonLike | None = None,
    strict: bool = False,
    gap: Any = None,
    prune: bool = True,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
) -> list[Solution]:
    """Solve many models, or one model with many budgets, on all processors.

    The solutions are those of `solve`, in the order of the models. Small models are solved one after the other, which
    takes a fraction of a millisecond each; if the rest is expected to take several seconds, other processes help.

    Parameters
    ----------
    models : CMDP, DiscountedCMDP, or iterable of them
        One model is used with all budgets.
    budgets : budget, or iterable of them, optional
        As in `solve`. One budget is used with all models; several, in a list or another iterable that is not a mapping,
        belong to the models in this order. None stands for the model's own budget.
    spent, method, approximation, epsilon, strict, gap, prune
        As in `solve`, for all models.
    time_limit : float, optional
        Seconds for each solve. A solution that was stopped says so in its status; the others are not affected.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB", for each solve. At most `jobs` of them run at the same time.
    jobs : int, optional
        The largest number of processes, including this one unless `engine` is "ray". Default: one for each processor.
    engine, address
        As in `solve`. With engine "ray", all models are solved by workers of the cluster, each on one thread.
    progress : bool, "log", ProgressSink or callable
        As in `solve`; reports how many models are solved.

    Returns
    -------
    list of Solution

    Raises
    ------
    ModelError
        If the number of models differs from that of budgets, or as in `solve`. The error of a model begins with its
        position: "models[3]", or "budgets[3]" if there is one model. Nothing is returned then.

    Examples
    --------
    >>> from solvent.model import instances
    >>> weights = instances.knapsack([60, 100, 120], [10, 20, 30])
    >>> [solution.value for solution in solve_many(weights, [10, 30, 50])]
    [60.0, 160.0, 220.0]
    >>> models = [instances.paper(20, seed=seed, budget=3) for seed in range(3)]
    >>> [solution.status.value for solution in solve_many(models)]
    ['optimal', 'optimal', 'optimal']
    """
    options = (method, approximation, epsilon, strict, gap, prune)
    arguments = {"spent": spent, "options": options, "seconds": read_seconds(time_limit)}
    arguments["memory"] = read_memory(memory_limit)
    jobs = read_jobs(jobs)
    tasks, place = _read_tasks(models, budgets)
    with open_engine(engine, address) as opened, held_back(), open_progress(progress) as sink:
        batch = _Batch(tasks, arguments, place, sink)
        return batch.run_on(opened, jobs) if isinstance(opened, RayEngine) else batch.run(jobs or thread_count())


def solve_here(
    model: Any, budget: Any, *, spent: Any, options: tuple[Any, ...], seconds: float | None, memory: int | None
) -> Solution:
    """Solve one model as `solve` does; the arguments of all models were read before."""
    began = working_time()
    request = read_request(model, *options)
    return run_request(model, budget, spent, request, ResourceMonitor(seconds, memory, began=began))


def help_others() -> None:
    """Solve models for another process; see `helpers`."""
    help_with(solve_here)


class _SolveSome:
    """Solves some tasks in a worker of a cluster; the result is that of `dump_results`.

    Parameters
    ----------
    model : CMDP, DiscountedCMDP or None
        The model of all tasks if there is one, so that it is sent only once to each worker.
    """

    def __init__(self, model: Any, arguments: dict[str, Any], place: str) -> None:
        self._model, self._arguments, self._place = model, arguments, place

    def __call__(self, item: tuple[int, list[Task]]) -> Any:
        first, given = item
        tasks = given if self._model is None else [(self._model, budget) for _, budget in given]
        found = []
        for position, task in enumerate(tasks, first):
            try:
                found.append(solve_here(*task, **self._arguments))
            except Exception as error:
                raise place_error(error, f"{self._place}[{position}]") from error
        return dump_results(found, tasks)


def _read_tasks(models: Any, budgets: Any) -> tuple[list[Task], str]:
    """Return a model and a budget for each solve, and what its position refers to: "models" or "budgets"."""
    one_model = isinstance(models, CMDP | DiscountedCMDP)
    one_budget = budgets is None or isinstance(budgets, Mapping | Budget | str) or not isinstance(budgets, Iterable)
    if not one_model and not isinstance(models, Iterable):
        raise ModelError("models", "a model, or several in a list", quote(models))
    if one_model:
        if one_budget:
            raise ModelError("budgets", "several budgets in a list, as there is one model", quote(budgets), "use solve")
        return [(models, budget) for budget in budgets], "budgets"
    every = list(models)
    if one_budget:
        return [(model, budgets) for model in every], "models"
    limits = list(budgets)
    if len(limits) != len(every):
        raise ModelError("budgets", f"one for each of {len(every)} models", f"{len(limits)} budgets")
    return list(zip(every, limits, strict=True)), "models"


class _Batch:
    """Solves of one call: which are done, and which come next.

    Tasks are taken in their order, by this thread and by those of helper processes.
    """

    def __init__(self, tasks: Sequence[Task], arguments: dict[str, Any], place: str, sink: ProgressSink) -> None:
        self._tasks, self._arguments, self._place, self._sink = tasks, arguments, place, sink
        self._lock = threading.Lock()
        self._next, self._done, self._chunk = 0, 0, 1
        self._left: list[int] = []  # what helpers could not solve
        self._found: list[Solution | None] = [None] * len(tasks)
        self._failed: tuple[int, Exception] | None = None

    def run(self, jobs: int) -> list[Solution]:
        """Return all solutions."""
        began = working_time()
        helpers: Helpers | None = None
        with ExitStack() as stack:
            while True:
                position = self._take_one()
                if position is None:
                    if helpers is None or not helpers.working:
                        break
                    helpers.wait(_PAUSE)
                else:
                    self._solve(position)
                check_interrupt()
                self._raise()
                self._sink.report("solves", self._done, len(self._tasks), {}, "model")
                taken = working_time() - began
                if helpers is None and jobs > 1 and taken > _TRIED:
                    each = taken / self._done
                    rest = each * (len(self._tasks) - self._next)
                    if rest > _PAYS:
                        self._chunk = max(1, min(int(_MESSAGE / each), _MOST))
                        helpers = Helpers(jobs - 1, self._take_some, self._put, self._arguments)
                        stack.callback(helpers.close)
                        stack.enter_context(one_thread())
        self._raise()
        # what helpers left behind after this thread found nothing to do
        while (position := self._take_one()) is not None:
            self._solve(position)
            check_interrupt()
        self._raise()
        return [solution for solution in self._found if solution is not None]

    def run_on(self, engine: RayEngine, jobs: int | None) -> list[Solution]:
        """Return all solutions, found by the workers of a cluster."""
        count = len(self._tasks)
        size = min(_MOST, math.ceil(count / (_MESSAGES * min(engine.workers, jobs or count, count)))) if count else 1
        model = self._tasks[0][0] if count and self._place == "budgets" else None
        messages = [
            (first, [(None, task[1]) if model is not None else task for task in self._tasks[first : first + size]])
            for first in range(0, count, size)
        ]
        solve = _SolveSome(model, self._arguments, self._place)
        with closing(engine.map(solve, messages, jobs=jobs)) as results:
            for index, result in results:
                first = index * size
                found = load_results(result, self._tasks[first : first + size])
                self._found[first : first + len(found)] = found
                self._done += len(found)
                self._sink.report("solves", self._done, count, {}, "model")
        return [solution for solution in self._found if solution is not None]

    def _solve(self, position: int) -> None:
        try:
            found = solve_here(*self._tasks[position], **self._arguments)
        except Exception as error:
            self._fail(position, error)
        else:
            self._found[position] = found
            with self._lock:
                self._done += 1

    def _take_one(self) -> int | None:
        """Return the position of the next task for this thread; None if there is none."""
        with self._lock:
            if self._failed is not None:
                return None
            if self._left:
                return self._left.pop()
            if self._next == len(self._tasks):
                return None
            self._next += 1
            return self._next - 1

    def _take_some(self) -> tuple[list[int], list[Task]]:
        """Return the positions of the next tasks for a helper, and the tasks."""
        with self._lock:
            end = self._next if self._failed is not None else min(self._next + self._chunk, len(self._tasks))
            positions = list(range(self._next, end))
            self._next = end
        return positions, [self._tasks[i] for i in positions]

    def _put(self, positions: list[int], found: list[Any] | None) -> None:
        """Take in what a helper returned."""
        if found is None:
            with self._lock:
                self._left += positions
            return
        for position, each in zip(positions, found, strict=True):
            if isinstance(each, Exception):
                self._fail(position, each)
            else:
                self._found[position] = each
        with self._lock:
            self._done += len(positions)

    def _fail(self, position: int, error: Exception) -> None:
        """Note an error; of several, the one of the first task."""
        with self._lock:
            if self._failed is None or position < self._failed[0]:
                self._failed = position, error

    def _raise(self) -> None:
        """Raise the error of a task, with its position."""
        if self._failed is None:
            return
        position, error = self._failed
        placed = place_error(error, f"{self._place}[{position}]")
        if placed is error:
            raise error
        raise placed from error
