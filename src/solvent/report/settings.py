"""What to compute for a report, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from solvent.core.exact import Number
from solvent.core.preparation import working_time
from solvent.core.progress import NO_PROGRESS, ProgressSink

#: The parts of a page that take time, in the order in which they are computed.
PARTS = ("verifying", "simulating", "values of budgets", "plans", "comparing", "writing")


@dataclass(frozen=True)
class Settings:
    """The arguments of `Solution.report`.

    Attributes
    ----------
    max_budget : mapping of numbers by resource
        The largest budget of each curve, where it is given.
    episodes : int
        Number of simulated episodes.
    seed : int
        Random seed of the simulation.
    trajectories : int
        Number of episodes to show step by step.
    delta : number
        Probability of exceeding the budget that chance-constrained methods allow.
    time_limit : float or None
        Seconds for each part.
    memory_limit : int, str or None
        As for `solve`.
    sink : ProgressSink
        Where progress is reported.
    """

    max_budget: Mapping[str, Number] = field(default_factory=dict)
    episodes: int = 10_000
    seed: int = 0
    trajectories: int = 5
    delta: Number = 0.05
    time_limit: float | None = 60.0
    memory_limit: int | str | None = None
    sink: ProgressSink = NO_PROGRESS

    @contextmanager
    def part(self, name: str) -> Iterator[Clock]:
        """Report that a part begins, and return its clock."""
        self.sink.report("report", PARTS.index(name), len(PARTS), {}, "part")
        yield Clock(self.time_limit)

    @property
    def inner_progress(self) -> ProgressSink:
        """A sink for computations within, which do not open or close the one of the report."""
        return _Inner(self.sink)


class Clock:
    """The time that a part may still take."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else working_time() + seconds

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least a very short time; None without a limit."""
        return None if self._end is None else max(self._end - working_time(), 1e-9)

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return self._end is not None and working_time() >= self._end


class _Inner:
    """Passes reports on."""

    def __init__(self, sink: ProgressSink) -> None:
        self._sink = sink

    def report(self, phase: str, done: int, total: int, facts: Mapping[str, Any], unit: str = "step") -> None:
        self._sink.report(phase, done, total, facts, unit)

    def message(self, text: str) -> None:
        """Drop the text: rounds of other solves are not of interest."""
