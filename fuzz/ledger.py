"""Calls, comparisons and failures."""

from __future__ import annotations

import importlib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest import mock

from fuzz.problems import Limit, Problem
from fuzz.transforms import Relation

Bound = Fraction | float


@dataclass(frozen=True)
class Run:
    """One call under test.

    Attributes
    ----------
    label : str
        Short name of the method and how it was forced, for tables.
    function : str
        A function of `solvent`; "build"; "scaled" and "metamorphic" for two calls whose answers are compared; "curves"
        for the frontiers of all resources; "surface" for one of two resources; "all" if the call is not known.
    options : dict
        Keyword arguments; the model and, where it takes one, the budget come first.
    settings : dict of str to int
        Module attributes under `solvent.solvers` to set during the call, such as "frontier.bounds.DENSE_FROM".
    limits : dict of str to Limit
        Limits that replace those of the problem when the policy is verified.
    observed : sequence of (state, costs)
        What the agent of a policy is told before the comparison.
    """

    label: str
    function: str = "solve"
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    observed: Sequence[tuple[Any, tuple[Fraction, ...]]] = ()


@contextmanager
def forced(run: Run) -> Iterator[None]:
    """Set the module attributes of a run while it lasts."""
    with ExitStack() as stack:
        for path, value in run.settings.items():
            module, attribute = path.rsplit(".", 1)
            stack.enter_context(
                mock.patch.object(importlib.import_module(f"solvent.solvers.{module}"), attribute, value)
            )
        yield


@dataclass(frozen=True)
class Comparison:
    """Two calls whose answers must correspond.

    Attributes
    ----------
    problem, other : Problem
    run, other_run : Run
        The call on each of them.
    relation : Relation
        How the answer of the second follows from that of the first.
    """

    problem: Problem
    other: Problem
    run: Run
    other_run: Run
    relation: Relation


@dataclass(frozen=True)
class Doing:
    """The call that is under way.

    Attributes
    ----------
    run : Run or None
        None between calls.
    problem : Problem or None
        Where it is not the one that is checked.
    comparison : Comparison or None
        Where both problems are needed for the call.
    """

    run: Run | None = None
    problem: Problem | None = None
    comparison: Comparison | None = None


Watch = Callable[[Doing], None]


@dataclass(frozen=True)
class Failure:
    """A comparison that did not hold.

    Attributes
    ----------
    check : str
        Which comparison.
    run : Run
    expected, found : str
    detail : str
        A traceback, for exceptions.
    comparison : Comparison or None
        The two calls, where answers were compared with each other.
    """

    check: str
    run: Run
    expected: str
    found: str
    detail: str = ""
    comparison: Comparison | None = None

    @property
    def signature(self) -> str:
        """The comparison and the call, which shrinking keeps."""
        return f"{self.check} [{self.run.label}]"


@dataclass(frozen=True)
class Found:
    """A failure with the problem on which it was found; `labels` are all calls in which the comparison failed."""

    failure: Failure
    problem: Problem
    seed: int
    kind: str
    seconds: float = 0.0
    shrunk: bool = False
    labels: tuple[str, ...] = ()


@dataclass
class Ledger:
    """Counts comparisons by name and keeps those that failed.

    Attributes
    ----------
    slack : Fraction
        Rounding that is forgiven in bounds on values, relative to the scale of the optimum; 0 by contract.
    watch : callable, optional
        Told of each call when it begins and when it ends.
    answered, refused : Counter of (str, str)
        How often a call answered and refused problems with a feature; see `problems.FEATURES`.
    """

    slack: Fraction = Fraction(0)
    compared: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    watch: Watch | None = None
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def check(
        self,
        name: str,
        run: Run,
        holds: bool,
        expected: object,
        found: object,
        comparison: Comparison | None = None,
    ) -> bool:
        """Count a comparison and note it if it does not hold; return whether it does."""
        self.compared[name] += 1
        if not holds:
            self.failures.append(Failure(name, run, show(expected), show(found), comparison=comparison))
        return holds

    def skip(self, reason: str) -> None:
        """Count a comparison that could not be made."""
        self.skipped[reason] += 1

    def answer(self, label: str, features: Iterable[str]) -> None:
        """Count an answer to a problem with some features."""
        self.answered.update((label, feature) for feature in features)

    def refuse(self, label: str, features: Iterable[str]) -> None:
        """Count a refusal of a problem with some features."""
        self.refused.update((label, feature) for feature in features)

    @contextmanager
    def under_way(
        self, run: Run, problem: Problem | None = None, comparison: Comparison | None = None
    ) -> Iterator[None]:
        """Notify the watcher of a call, which may end the process."""
        if self.watch is None:
            yield
            return
        self.watch(Doing(run, problem, comparison))
        try:
            yield
        finally:
            self.watch(Doing())

    @contextmanager
    def no_exception(self, run: Run, what: str = "call", comparison: Comparison | None = None) -> Iterator[None]:
        """Note any exception as a failure, named by its type and the function that raised it."""
        self.compared[f"{what} returns"] += 1
        try:
            with self.under_way(run, comparison=comparison):
                yield
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            inner = [frame for frame in frames if "solvent" in frame.filename] or list(frames)
            place = f"{type(error).__name__} in {inner[-1].name}" if inner else type(error).__name__
            failure = Failure(
                f"{what} raises {place}", run, "no exception", f"{type(error).__name__}: {error}",
                text_of(error), comparison,
            )  # fmt: skip
            self.failures.append(failure)


def text_of(error: BaseException) -> str:
    """Return the end of a traceback."""
    return "".join(traceback.format_exception(error))[-3000:]


def show(value: object) -> str:
    """Return a value for a report: fractions as doubles, with the fraction if it is short."""
    if isinstance(value, Fraction):
        try:
            near = repr(float(value))
        except OverflowError:
            near = "beyond doubles"
        text = str(value)
        return near if len(text) > 60 else f"{text} ({near})" if value.denominator != 1 else text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(each) for each in value) + "]"
    return str(value)
