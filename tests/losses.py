"""Workers of a cluster that are slow, or are lost, while they compute parts of a problem."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from solvent.solvers.engines import actors


def slow_workers(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make each step of an actor slower, so that there is time to kill it."""

    class SlowWorker(actors.Worker):
        def exchange(self, name, *arguments):
            time.sleep(seconds)
            return super().exchange(name, *arguments)

        def process(self):
            return os.getpid()

    monkeypatch.setattr(actors, "Worker", SlowWorker)


def doomed_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each actor be lost at its first step."""

    class DoomedWorker(actors.Worker):
        def exchange(self, name, *arguments):
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(actors, "Worker", DoomedWorker)


def at_waits(monkeypatch: pytest.MonkeyPatch, waits: set[int], event: Callable[[Any], None]) -> None:
    """Call `event` with the actors whenever the calling process waits for results for the times given."""
    usual, count = actors.Actors.wait, [0]

    def wait(self, references):
        count[0] += 1
        if count[0] in waits:
            event(self)
        return usual(self, references)

    monkeypatch.setattr(actors.Actors, "wait", wait)


def kill(group: Any, k: int) -> int:
    """Kill the process of an actor of `slow_workers`; return its id."""
    ray = importlib.import_module("ray")
    victim: int = ray.get(group._handles[k].process.remote())
    os.kill(victim, signal.SIGKILL)
    return victim
