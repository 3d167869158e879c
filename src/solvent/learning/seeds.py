"""`learn_seeds`: the same learning task with several seeds, on all workers of a cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from solvent.core.arguments import check_signature, place_error, read_jobs
from solvent.core.engines import open_engine
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import ModelError, quote
from solvent.learning.arguments import read_whole
from solvent.learning.environment import Environment
from solvent.learning.learn import learn
from solvent.learning.result import LearnResult
from solvent.model.budget import BudgetLike
from solvent.model.cmdp import CMDP

#: Arguments of `learn` that belong to one run.
_SINGLE = ("seed", "checkpoint", "checkpoint_every", "resume", "limits")


def learn_seeds(
    env: CMDP | Callable[[], Environment],
    seeds: Iterable[int],
    horizon: int | None = None,
    budget: BudgetLike | None = None,
    *,
    jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: ProgressLike = False,
    **options: Any,
) -> list[LearnResult]:
    """Learn once with each of several seeds; the results are those of `learn`, in the order of the seeds.

    Parameters
    ----------
    env : CMDP or callable
        A model, or a function without arguments that returns a new environment, which is called for each seed.
    seeds : iterable of int
    horizon, budget
        As in `learn`.
    jobs : int, optional
        The largest number of runs at the same time on a cluster. Default: one for each of its CPUs.
    engine, address
        As in `solve`. With engine "local", runs follow one another in this process.
    progress : bool, "log", ProgressSink or callable
        As in `solve`; reports how many runs have ended.
    **options
        Further arguments of `learn`, for all runs; not those for checkpoints.

    Returns
    -------
    list of LearnResult

    Raises
    ------
    ModelError
        If an argument is wrong, or as in `learn`. The error of a run begins with its position, such as "seeds[3]".

    Examples
    --------
    >>> from solvent.model import instances
    >>> results = learn_seeds(instances.markov_gap(), range(3), epsilon=0.2)
    >>> [result.status.value for result in results], sum(result.violations for result in results)
    (['within_gap', 'within_gap', 'within_gap'], 0)
    """
    given = _read_seeds(seeds)
    if not isinstance(env, CMDP) and not callable(env):
        raise ModelError("env", "a CMDP, or a function that makes an environment", quote(env), "pass lambda: make(...)")
    if not isinstance(env, CMDP):
        check_signature(env, (), "env")
    for name in _SINGLE:
        if name in options:
            raise ModelError(name, "an argument that all runs can share", quote(options[name]), "use learn")
    jobs = read_jobs(jobs)
    options = {"horizon": horizon, "budget": budget, **options}
    inspect.signature(learn).bind(env, **options)
    found: dict[int, LearnResult] = {}
    with open_engine(engine, address) as opened, open_progress(progress) as sink:
        sink.report("runs", 0, len(given), {}, "run")
        with closing(opened.map(_Run(env, options), list(enumerate(given)), jobs=jobs)) as results:
            for position, result in results:
                found[position] = result
                sink.report("runs", len(found), len(given), {}, "run")
    return [found[position] for position in range(len(given))]


class _Run:
    """Learns with one seed, in this process or in a worker."""

    def __init__(self, env: Any, options: dict[str, Any]) -> None:
        self._env, self._options = env, options

    def __call__(self, item: tuple[int, int]) -> LearnResult:
        position, seed = item
        try:
            env = self._env if isinstance(self._env, CMDP) else self._env()
            return learn(env, seed=seed, **self._options)
        except Exception as error:
            placed = place_error(error, f"seeds[{position}]")
            if placed is error:
                raise
            raise placed from error


def _read_seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Iterable) or isinstance(seeds, str | bytes):
        raise ModelError("seeds", "several integers, such as range(10)", quote(seeds))
    return [read_whole(f"seeds[{position}]", seed, 0) for position, seed in enumerate(seeds)]
