"""What was compared and what did not hold."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fuzz.problems import Problem

Bound = Fraction | float


@dataclass(frozen=True)
class Run:
    """One call under test.

    Attributes
    ----------
    label : str
        Short name of the method and how it was forced, for tables.
    function : str
        A function of `solvent`.
    options : dict
        Keyword arguments; the model and, where it takes one, the budget come first.
    settings : dict of str to int
        Module attributes under `solvent.plan` that are set during the call, such as "frontier.DENSE_FROM".
    """

    label: str
    function: str = "solve"
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)


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
    """

    check: str
    run: Run
    expected: str
    found: str
    detail: str = ""

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
    """

    slack: Fraction = Fraction(0)
    compared: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def check(self, name: str, run: Run, holds: bool, expected: object, found: object) -> bool:
        """Count a comparison and note it if it does not hold; return whether it does."""
        self.compared[name] += 1
        if not holds:
            self.failures.append(Failure(name, run, show(expected), show(found)))
        return holds

    def skip(self, reason: str) -> None:
        """Count a comparison that could not be made."""
        self.skipped[reason] += 1

    @contextmanager
    def no_exception(self, run: Run, what: str = "call") -> Iterator[None]:
        """Note any exception as a failure, named by its type and the function that raised it."""
        self.compared[f"{what} returns"] += 1
        try:
            yield
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            inner = [frame for frame in frames if "solvent" in frame.filename] or list(frames)
            place = f"{type(error).__name__} in {inner[-1].name}" if inner else type(error).__name__
            failure = Failure(
                f"{what} raises {place}", run, "no exception", f"{type(error).__name__}: {error}",
                "".join(traceback.format_exception(error))[-3000:],
            )  # fmt: skip
            self.failures.append(failure)


def show(value: object) -> str:
    """Return a value for a report: fractions as doubles, with the fraction where it is short."""
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
