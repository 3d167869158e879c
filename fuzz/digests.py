"""`python -m fuzz.digests`: solve random problems in every way and print a digest of each answer, bit by bit.

`.ci/processors.py` runs it with kernels compiled for this processor and for a generic one, and compares the lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

import solvent
from fuzz.checks import Case, runs
from fuzz.generate import KINDS, generate
from fuzz.ledger import Run, forced
from fuzz.oracles import optimum
from fuzz.problems import Problem
from solvent.errors import SolventError
from solvent.model.budget import resolve
from solvent.policy.writing import to_bytes
from solvent.warmup import tasks

#: Kinds whose problems have no limit on time and no cost distributions, and how many problems of each.
SOLVED = [kind for kind in KINDS if kind not in ("timed", "continuous", "continuous_accounts", "discounted")]
EACH = 10
#: Nodes up to which the oracle tells which calls apply.
_NODES = 4000


def problems() -> Iterator[tuple[str, Problem]]:
    """Yield some hundred random problems with their names."""
    for kind in SOLVED:
        for seed in range(1 if kind in ("midsize", "actions") else EACH):
            yield f"{kind} {seed}", generate(seed, kind)


def answers(problem: Problem) -> Iterator[tuple[str, Any]]:
    """Yield the name and the answer of each call that applies to a problem, except those with a limit on time."""
    try:
        model, budget = problem.build()
    except SolventError as error:
        yield "build", error
        return
    spent = problem.given.get("spent")
    limits = resolve(model, budget, spent)
    case = Case(problem, model, budget, limits, optimum(model, budget, _NODES, spent))
    for run in runs(case, Random(0)):
        if run.function in ("solve", "augment", "frontier", "surface") and "time_limit" not in run.options:
            with forced(run):
                yield run.label, _answer(case, run)


def _answer(case: Case, run: Run) -> Any:
    """Return the answer to a call; an error with a reason is one too."""
    options = {key: value for key, value in run.options.items() if key != "kept"}
    try:
        if run.function == "solve":
            return solvent.solve(case.model, case.budget, **case.problem.given, **options)
        if run.function == "augment":
            return solvent.augment(case.model, case.budget, **case.problem.given, **options)
        resources = options.get("resource") or options["resources"]
        return solvent.frontier(case.model, resources, memory_limit=50_000_000)
    except SolventError as error:
        return error


def digest(answer: Any) -> str:
    """Return a digest of an answer: statuses, bounds, arrays and the policy, bit by bit."""
    content = hashlib.sha256()
    for part in _parts(answer):
        data = part if isinstance(part, bytes) else repr(part).encode()
        content.update(len(data).to_bytes(8, "little") + data)
    return content.hexdigest()[:16]


def _parts(answer: Any) -> Iterator[Any]:
    if isinstance(answer, SolventError):
        yield f"{type(answer).__name__}: {answer}"
    elif isinstance(answer, solvent.Solution):
        yield from (answer.status.value, answer.value, answer.value_lower, answer.value_upper, answer.worst_spent)
        if answer.status.value not in ("infeasible", "limit", "not_found"):
            yield to_bytes(answer.policy)
    elif isinstance(answer, solvent.LearnResult):
        yield from (answer.status.value, answer.value_lower, answer.value_upper, answer.returns.tobytes())
    elif isinstance(answer, np.ndarray):
        yield from (answer.dtype, answer.shape, answer.tobytes())
    elif isinstance(answer, tuple):
        for each in answer:
            yield from _parts(each)
    elif hasattr(answer, "__dict__"):
        for name in sorted(vars(answer)):
            if isinstance(part := getattr(answer, name), np.ndarray | float | int | str | tuple):
                yield name
                yield from _parts(part)
    else:
        yield answer


def main() -> None:
    """Print a line for each answer, first those of the calls that together use every kernel."""
    for number, task in enumerate(tasks()):
        print(f"task {number}: {digest(task())}", flush=True)
    for name, problem in problems():
        for call, answer in answers(problem):
            print(f"{name}, {call}: {digest(answer)}", flush=True)


if __name__ == "__main__":
    main()
