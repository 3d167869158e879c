"""`write_report`: compute the contents of a page, and write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from solvent.baselines.chance import read_delta
from solvent.core.exact import Number, exact
from solvent.core.files import write_atomically
from solvent.core.limits import read_memory, read_seconds
from solvent.core.paths import check_suffix, read_path
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.report.bundle import check_installed
from solvent.report.gather import gather
from solvent.report.page import page
from solvent.report.settings import Settings
from solvent.solvers.solution import Solution

#: Suffixes of a page.
SUFFIXES = (".html", ".htm")
#: Episodes that can be shown step by step.
_MOST_TRAJECTORIES = 50


def write_report(
    model: CMDP,
    limits: Limits,
    solution: Solution,
    path: str | Path,
    settings: Settings,
    progress: ProgressLike = False,
) -> None:
    """Write the report of a solution; see `Solution.report`."""
    place = read_path(path, "report", "the path of an .html file")
    _check_place(place)
    check_suffix(place, SUFFIXES)
    check_installed()
    with open_progress(progress, "making the report") as sink:
        opened = replace(settings, sink=sink)
        contents = gather(model, limits, solution, opened)
        with opened.part("writing"):
            text = page(contents)
            write_atomically(place, text.encode())


def _check_place(path: Path) -> None:
    """Raise a `ModelError` if the folder of the page does not exist, before anything is computed."""
    expected = "a place that can be written"
    if path.is_dir():
        raise ModelError(str(path), expected, "a folder", "add a file name")
    if not path.parent.is_dir():
        raise ModelError(str(path), expected, f"no folder {quote(str(path.parent))}", "create the folder first")


def read_settings(
    limits: Limits,
    max_budget: Any,
    episodes: Any,
    seed: Any,
    trajectories: Any,
    delta: Number,
    time_limit: float | None,
    memory_limit: int | str | None,
) -> Settings:
    """Return the arguments of `Solution.report` after checking them.

    Raises
    ------
    ModelError
        If one is not valid.
    """
    _check_whole("episodes", episodes, 1, None)
    _check_whole("seed", seed, 0, None)
    _check_whole("trajectories", trajectories, 0, _MOST_TRAJECTORIES)
    read_delta(delta)
    read_seconds(time_limit)
    read_memory(memory_limit)
    names = limits.resources
    given: dict[str, Number] = {}
    if isinstance(max_budget, Mapping):
        for name, amount in max_budget.items():
            if name not in names:
                known = ", ".join(map(quote, names)) or "none"
                raise ModelError(
                    "max_budget", f"limited resources ({known})", quote(name), did_you_mean(str(name), names)
                )
            exact(amount, f"max_budget, {name}")
            _check_upper(limits, name)
            given[name] = amount
    elif max_budget is not None:
        if len(names) != 1:
            raise ModelError("max_budget", "amounts by the name of the resource", quote(max_budget))
        exact(max_budget, "max_budget")
        _check_upper(limits, names[0])
        given[names[0]] = max_budget
    return Settings(given, episodes, seed, trajectories, delta, time_limit, memory_limit)


def _check_upper(limits: Limits, name: str) -> None:
    """Raise a `ModelError` if a resource has no upper limit, which a largest budget could replace."""
    if all(each is None for each in limits.upper[limits.resources.index(name)]):
        hint = "leave it out: the page shows what is earned if all lower limits are lowered"
        raise ModelError(f"max_budget, {name}", "a resource with an upper limit", "only lower limits", hint)


def _check_whole(name: str, value: Any, least: int, most: int | None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        end = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ModelError(name, f"a whole number of {end}" if most is None else f"a whole number {end}", quote(value))
