"""Learners as files: counts and the last plan in an NPZ archive, the rest in a JSON header. No pickle.

A run that is resumed from one goes on as if it had never stopped, to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.archives import (
    FORMAT,
    Arrays,
    Header,
    check_array,
    check_names_of_arrays,
    check_positions,
    choose_reader,
    read_archive,
    write_archive,
)
from solvent.core.exact import exact
from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import LoadLimits, check_time, loading
from solvent.errors import ModelError, SolventError, quote
from solvent.learning.counts import Counts
from solvent.learning.graph import Graph
from solvent.learning.result import LearnProgress

if TYPE_CHECKING:
    from solvent.learning.learner import Learner

_RNG = re.compile(r"0x[0-9a-f]{1,16}")
_ARRAYS = ("count_K", "count_O", "reward_sum_O", "square_sum_K", "planned_K")


def save(learner: Learner, path: Path) -> None:
    """Write a learner to a file, whole or not at all."""
    write_atomically(path, to_bytes(learner))


def to_bytes(learner: Learner) -> bytes:
    """Return a learner as the content of a file."""
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
    arrays: Arrays = {name: getattr(learner.counts, name) for name in _ARRAYS}
    arrays["row_N"] = learner.row_N
    arrays["history"] = np.array(learner.history, np.float64).reshape(-1, len(LearnProgress._fields))
    return write_archive(arrays, header)


def resume(learner: Learner, path: Path, limits: LoadLimits | None = None) -> None:
    """Bring a new learner to where the one in the file stood.

    Raises
    ------
    ModelError
        If there is no such file, it holds no learner, or one of another problem or with other settings.
    """
    with loading(limits):
        try:
            content = read_plain(path)
        except FileNotFoundError:
            raise ModelError(str(path), "a checkpoint", "no such file") from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(str(path), "a checkpoint that can be read", reason) from None
        except MemoryError:
            raise ModelError(str(path), "a checkpoint that fits into memory", "one that does not") from None
        try:
            restore(learner, content)
        except ModelError as error:
            raise error.within(str(path)) from None


def restore(learner: Learner, content: bytes) -> None:
    """Bring a new learner to where the one in the content of a file stood; errors as of `resume`.

    After an error the learner is of no use.
    """
    arrays, header = read_archive(content)
    try:
        choose_reader(header, "solvent_learner", READERS, "a checkpoint")(learner, arrays, header)
    except RecursionError:
        raise ModelError("file", "a checkpoint", "a structure nested too deeply") from None
    except MemoryError:
        raise ModelError("file", "a checkpoint that fits into memory", "one that does not") from None


def _restore(learner: Learner, arrays: Arrays, header: Header) -> None:
    if header.get("problem") != _problem(learner):
        raise ModelError("checkpoint", "the same environment, horizon and budget", "another problem")
    settings = _field(header, "settings", dict)
    for name, value in _settings(learner).items():
        if name not in settings or settings[name] != value or type(settings[name]) is not type(value):
            raise ModelError(f"checkpoint, {name}", quote(value), quote(settings.get(name)))
    check_names_of_arrays(arrays, {*_ARRAYS, "row_N", "history"})
    entries = _field(header, "seen", list)
    if learner.settings.pool and len(entries) > len(check_array(arrays, "count_O", np.int64)):
        raise ModelError("header, seen", "no more outcomes than were counted", f"{len(entries):,}")
    _restore_seen(learner, entries)
    learner.counts = counts = Counts.of(learner.graph, pool=learner.settings.pool)
    for name in _ARRAYS:
        _fill(getattr(counts, name), arrays, name)
    learner.episodes, learner.violations = _whole(header, "episodes"), _whole(header, "violations")
    if learner.violations > learner.episodes:
        raise ModelError("header, violations", f"at most {learner.episodes}", str(learner.violations))
    _check_counts(counts, learner)
    learner.due = _field(header, "due", bool)
    learner.row_N = np.zeros(learner.graph.mdp.n_nodes, np.int64)
    _fill(learner.row_N, arrays, "row_N")
    _check_rows(learner)
    rng = _field(header, "rng", str)
    if not _RNG.fullmatch(rng):
        raise ModelError("header, rng", "a 64-bit number in hexadecimal digits", quote(rng))
    learner.rng = np.array([int(rng, 16)], np.uint64)
    learner.history = _read_history(check_array(arrays, "history", np.float64, 2), learner)


#: Readers by format. Format 2 is format 1 with a checksum.
READERS: dict[int, Callable[[Learner, Arrays, Header], None]] = {1: _restore, 2: _restore}


def _restore_seen(learner: Learner, entries: list[Any]) -> None:
    """Let a learner see again what it has seen; positions are checked, since kernels trust them."""
    seen = learner.seen
    if seen is None:
        if entries:
            raise ModelError("header, seen", "nothing, as it is known what can happen", quote(entries))
        return
    n_rows, n_states, n_resources = len(seen.row_action), len(seen.states) + 2, len(seen.limits.resources)
    known: set[tuple[int, int, tuple[Fraction, ...]]] = set()
    for i, entry in enumerate(entries):
        where = f"header, seen[{i}]"
        if not isinstance(entry, list) or len(entry) != 3:
            raise ModelError(where, "a row, a state and costs", quote(entry))
        row, after, costs = entry
        for what, position, size in (("row", row, n_rows), ("state", after, n_states)):
            if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < size:
                raise ModelError(where, f"a {what} from 0 to {size - 1}", quote(position))
        if not isinstance(costs, list) or len(costs) != n_resources or not all(isinstance(c, str) for c in costs):
            raise ModelError(where, f"{n_resources} costs as text", quote(costs))
        amounts = tuple(exact(text, where) for text in costs)
        if (row, after, amounts) in known:
            raise ModelError(where, "each outcome once", quote(entry))
        known.add((row, after, amounts))
        seen.add(row, after, amounts)
        learner.play_in.learn_of(row, after, amounts)
        if not i % 1024:
            check_time()
    if entries:
        learner.graph = Graph.of(seen.problem(), learner.monitor)


def _check_counts(counts: Counts, learner: Learner) -> None:
    """Refuse counts that no run could have: negative ones, ones that do not add up, sums that are not finite."""
    # an episode that is cut short by a plan is counted only when it is over
    most = (learner.episodes + 1) * learner.graph.problem.model.horizon
    for name in ("count_K", "count_O", "planned_K"):
        array = getattr(counts, name)
        if array.size and not 0 <= int(array.min()) <= int(array.max()) <= most:
            raise ModelError(name, f"counts from 0 to {most}", f"{array.min()} to {array.max()}")
    sums = np.add.reduceat(counts.count_O, counts.key_indptr[:-1]) if len(counts.count_K) else counts.count_K
    if (sums != counts.count_K).any() or (counts.planned_K > counts.count_K).any():
        raise ModelError("count_K", "counts that add up", "others")
    low, high = learner.settings.reward_range
    reach = max(abs(low), abs(high)) * most * (1 + 1e-6)
    if not (np.abs(counts.reward_sum_O) <= reach).all():
        raise ModelError("reward_sum_O", f"sums of at most {reach:g} in size", "others")
    if not ((counts.square_sum_K >= 0) & (counts.square_sum_K <= reach * reach)).all():
        raise ModelError("square_sum_K", f"sums from 0 to {reach * reach:g}", "others")


def _check_rows(learner: Learner) -> None:
    """Refuse a plan that takes rows of other nodes; one that is due anew holds nothing yet."""
    mdp, row_N = learner.graph.mdp, learner.row_N
    check_positions("row_N", row_N, max(mdp.n_rows, 1))
    if learner.due:
        return
    first, last = mdp.row_indptr[:-1], mdp.row_indptr[1:]
    if ((first < last) & ((row_N < first) | (row_N >= last))).any():
        raise ModelError("row_N", "a row of each node", "rows of others")


def _read_history(array: NDArray[np.float64], learner: Learner) -> list[LearnProgress]:
    if array.shape[1] != len(LearnProgress._fields):
        raise ModelError("history", f"{len(LearnProgress._fields)} columns", f"shape {array.shape}")
    whole = [LearnProgress._fields.index(name) for name in ("episodes", "violations", "nodes")]
    numbers = array[:, whole]
    if not np.isfinite(array).all() or not ((numbers >= 0) & (numbers < 2**53) & (numbers % 1 == 0)).all():
        raise ModelError("history", "finite numbers, and whole ones for counts", "others")
    if len(array) and (array[-1, 0] > learner.episodes or (array[1:, 0] < array[:-1, 0]).any()):
        raise ModelError("history", f"episodes that never fall, up to {learner.episodes}", "others")
    if not len(array) and not learner.due and learner.graph.feasible:
        raise ModelError("history", "the last plan", "none")
    return [LearnProgress(*(int(x) if i in whole else x for i, x in enumerate(row))) for row in array.tolist()]


def _field(header: Header, name: str, kind: type) -> Any:
    value = header.get(name)
    if not isinstance(value, kind):
        raise ModelError(f"header, {name}", f"a {kind.__name__}", quote(value) if name in header else "none")
    return value


def _whole(header: Header, name: str) -> int:
    value = header.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ModelError(f"header, {name}", "a whole number of at least 0", quote(value))
    return value


def _fill(array: NDArray[Any], arrays: Arrays, name: str) -> None:
    found = check_array(arrays, name, array.dtype)
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
