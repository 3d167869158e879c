"""Learners as files: counts and the last plan in an NPZ archive, the rest in a JSON header. No pickle.

A run that is resumed from one goes on as if it had never stopped, to the last bit.
"""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.archives import read_archive, write_archive
from solvent.core.files import write_whole
from solvent.errors import ModelError, SolventError, quote
from solvent.learning.counts import Counts
from solvent.learning.graph import Graph
from solvent.learning.result import Moment

if TYPE_CHECKING:
    from solvent.learning.learner import Learner

#: The version of the format that this code writes and reads.
FORMAT = 1
_ARRAYS = ("count_K", "count_O", "reward_sum_O", "square_sum_K", "planned_K")


def save(learner: Learner, path: Path) -> None:
    """Write a learner to a file, whole or not at all."""
    header = {
        "solvent_learner": FORMAT,
        "version": __version__,
        "problem": _problem(learner),
        "settings": _settings(learner),
        "rng": hex(int(learner.rng[0])),
        "episodes": learner.episodes,
        "violations": learner.violations,
        "due": learner.due,
        "seen": _seen(learner),
    }
    arrays: dict[str, NDArray[Any]] = {name: getattr(learner.counts, name) for name in _ARRAYS}
    arrays["row_N"] = learner.row_N
    arrays["history"] = np.array(learner.history, np.float64).reshape(-1, len(Moment._fields))
    write_whole(path, write_archive(arrays, header))


def resume(learner: Learner, path: Path) -> None:
    """Bring a new learner to where the one in the file stood.

    Raises
    ------
    ModelError
        If there is no such file, it holds no learner, or one of another problem or with other settings.
    """
    try:
        arrays, header = read_archive(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(str(path), "a checkpoint", "no such file") from None
    except OSError as error:
        raise ModelError(str(path), "a checkpoint that can be read", error.strerror or str(error)) from None
    except ModelError as error:
        raise error.within(str(path)) from None
    try:
        _restore(learner, arrays, header)
    except ModelError as error:
        raise error.within(str(path)) from None
    except SolventError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ModelError(str(path), "a complete checkpoint", quote(error)) from None


def _restore(learner: Learner, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
    if header.get("solvent_learner") != FORMAT:
        raise ModelError("header", f"a checkpoint of format {FORMAT}", quote(header.get("solvent_learner")))
    if header["problem"] != _problem(learner):
        raise ModelError("checkpoint", "the same environment, horizon and budget", "another problem")
    for name, value in _settings(learner).items():
        if header["settings"].get(name) != value:
            raise ModelError(f"checkpoint, {name}", quote(value), quote(header["settings"].get(name)))
    if learner.seen is not None:
        for row, after, costs in header["seen"]:
            amounts = tuple(Fraction(text) for text in costs)
            learner.seen.add(row, after, amounts)
            learner.play_in.learn_of(row, after, amounts)
        if header["seen"]:
            learner.graph = Graph.of(learner.seen.problem(), learner.monitor)
    learner.counts = counts = Counts.of(learner.graph, pool=learner.settings.pool)
    for name in _ARRAYS:
        _fill(getattr(counts, name), arrays[name], name)
    learner.row_N = np.zeros(learner.graph.mdp.n_nodes, np.int64)
    _fill(learner.row_N, arrays["row_N"], "row_N")
    if len(learner.row_N) and not 0 <= learner.row_N.min() <= learner.row_N.max() <= max(
        learner.graph.mdp.n_rows - 1, 0
    ):
        raise ModelError("row_N", "rows of the graph", "others")
    learner.rng = np.array([int(header["rng"], 16)], np.uint64)
    learner.episodes, learner.violations = int(header["episodes"]), int(header["violations"])
    learner.due = bool(header["due"])
    whole = (0, 4, 5)
    learner.history = [
        Moment(*(int(x) if i in whole else x for i, x in enumerate(row))) for row in arrays["history"].tolist()
    ]


def _fill(array: NDArray[Any], found: NDArray[Any], name: str) -> None:
    if found.dtype != array.dtype or found.shape != array.shape:
        raise ModelError(name, f"{array.dtype} of shape {array.shape}", f"{found.dtype} of shape {found.shape}")
    array[:] = found


def _problem(learner: Learner) -> list[Any]:
    """Return what must be the same for a run to be resumed: what is offered, the limits, and a known support."""
    problem, seen = learner.graph.problem, learner.seen
    limits = [[str(x) for x in side] for sides in (problem.limits.upper, problem.limits.lower) for side in sides]
    strict = ["up"] if "up" in problem.counting else []  # costs are rounded the other way
    if seen is None:
        return [problem.model.fingerprint, [str(unit) for unit in problem.lattice.units], limits, *strict]
    rows = [len(seen.states), seen.row_action.tolist(), seen.table_of_step.tolist()]
    bounds = [None if bound is None else [str(amount) for amount in bound] for bound in seen.bounds]
    known = [bounds] if any(bounds) else []
    return ["learned", *rows, [str(unit) for unit in seen.units or ()], limits, *known, *strict]


def _settings(learner: Learner) -> dict[str, Any]:
    """Return the settings as JSON gives them back; epsilon may differ."""
    settings = {name: value for name, value in asdict(learner.settings).items() if name != "epsilon"}
    low, high = settings.pop("reward_range")
    settings |= {"reward_low": low, "reward_high": high}
    return {name: repr(value) if isinstance(value, float) else value for name, value in settings.items()}


def _seen(learner: Learner) -> list[Any]:
    if learner.seen is None:
        return []
    return [
        [row, after, [str(cost) for cost in costs]]
        for row, outcomes in enumerate(learner.seen.outcomes)
        for after, costs in outcomes
    ]
