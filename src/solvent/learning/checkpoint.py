"""Learners as files: counts and the last plan in an NPZ archive, the rest in a JSON header, without pickle.

A resumed run gives the same result, bit for bit, as one that was never interrupted.
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
from solvent.learning.graph import SafeGraph
from solvent.learning.result import LearnProgress

if TYPE_CHECKING:
    from solvent.learning.learner import Learner

_RNG = re.compile(r"0x[0-9a-f]{1,16}")
_ARRAYS = ("count_K", "count_O", "reward_sum_O", "square_sum_K", "planned_K")


def save(learner: Learner, path: Path) -> None:
    """Write a learner to a file, atomically."""
    write_atomically(path, to_bytes(learner))


def to_bytes(learner: Learner) -> bytes:
    """Return the content of a learner's file."""
    header = {
        "solvent_learner": FORMAT,
        "version": __version__,
        "problem": _problem(learner),
        "settings": _settings(learner),
        "rng": hex(int(learner.rng[0])),
        "episodes": learner.episodes,
        "violations": learner.violations,
        "due": learner.due,
        "seen": _outcomes_seen(learner),
    }
    arrays: Arrays = {name: getattr(learner.counts, name) for name in _ARRAYS}
    arrays["row_N"] = learner.row_N
    arrays["history"] = np.array(learner.history, np.float64).reshape(-1, len(LearnProgress._fields))
    return write_archive(arrays, header)


def resume(learner: Learner, path: Path, limits: LoadLimits | None = None) -> None:
    """Restore a new learner to the state in a file.

    Raises
    ------
    ModelError
        If there is no such file, or it does not hold a learner of the same problem and settings.
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
    """Restore a new learner to the state in the content of a file; raises as `resume`.

    After an error the learner must not be used.
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
    _restore_support(learner, entries)
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
READERS: dict[int, Callable[[Learner, Arrays, Header], None]] = {1: _restore, 2: _restore, 3: _restore}


def _restore_support(learner: Learner, entries: list[Any]) -> None:
    """Restore a learned support; positions are checked, because kernels do not check them."""
    support = learner.learned_support
    if support is None:
        if entries:
            raise ModelError("header, seen", "nothing, as the support is known", quote(entries))
        return
    n_rows, n_states, n_resources = len(support.row_action), len(support.states) + 2, len(support.limits.resources)
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
        support.add(row, after, amounts)
        learner.runner.add_outcome(row, after, amounts)
        if not i % 1024:
            check_time()
    if entries:
        learner.graph = SafeGraph.of(support.problem(), learner.monitor)


def _check_counts(counts: Counts, learner: Learner) -> None:
    """Refuse counts that no run could have: negative counts, counts that do not add up, sums that are not finite."""
    # an episode that is interrupted by a plan is counted only when it ends
    most = (learner.episodes + 1) * learner.graph.problem.model.horizon
    for name in ("count_K", "count_O", "planned_K"):
        array = getattr(counts, name)
        if array.size and not 0 <= int(array.min()) <= int(array.max()) <= most:
            raise ModelError(name, f"counts from 0 to {most}", f"{array.min()} to {array.max()}")
    sums = np.add.reduceat(counts.count_O, counts.key_indptr[:-1]) if len(counts.count_K) else counts.count_K
    if (sums != counts.count_K).any() or (counts.planned_K > counts.count_K).any():
        raise ModelError("count_K", "counts that add up", "counts that do not")
    low, high = learner.settings.reward_range
    reach = max(abs(low), abs(high)) * most * (1 + 1e-6)
    if not (np.abs(counts.reward_sum_O) <= reach).all():
        raise ModelError("reward_sum_O", f"sums of at most {reach:g} in absolute value", "larger sums")
    if not ((counts.square_sum_K >= 0) & (counts.square_sum_K <= reach * reach)).all():
        raise ModelError("square_sum_K", f"sums from 0 to {reach * reach:g}", "sums outside this range")


def _check_rows(learner: Learner) -> None:
    """Refuse a plan that takes rows of other nodes; if a plan is due, there is none to check."""
    mdp, row_N = learner.graph.mdp, learner.row_N
    check_positions("row_N", row_N, max(mdp.n_rows, 1))
    if learner.due:
        return
    first, last = mdp.row_indptr[:-1], mdp.row_indptr[1:]
    if ((first < last) & ((row_N < first) | (row_N >= last))).any():
        raise ModelError("row_N", "a row of each node", "a row of another node")


def _read_history(array: NDArray[np.float64], learner: Learner) -> list[LearnProgress]:
    if array.shape[1] != len(LearnProgress._fields):
        raise ModelError("history", f"{len(LearnProgress._fields)} columns", f"shape {array.shape}")
    whole = [LearnProgress._fields.index(name) for name in ("episodes", "violations", "nodes")]
    numbers = array[:, whole]
    if not np.isfinite(array).all() or not ((numbers >= 0) & (numbers < 2**53) & (numbers % 1 == 0)).all():
        raise ModelError("history", "finite numbers, and whole numbers for counts", "other values")
    if len(array) and (array[-1, 0] > learner.episodes or (array[1:, 0] < array[:-1, 0]).any()):
        raise ModelError(
            "history", f"numbers of episodes that never decrease, up to {learner.episodes}", "other numbers"
        )
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
    """Return what must be equal in a resumed run: the available actions, the limits, and a known support."""
    problem, support = learner.graph.problem, learner.learned_support
    limits = [[str(x) for x in side] for sides in (problem.limits.upper, problem.limits.lower) for side in sides]
    if any(problem.limits.initial):  # otherwise as before there were initial amounts
        limits.append([str(amount) for amount in problem.limits.initial])
    strict = ["up"] if "up" in problem.counting else []
    if support is None:
        return [problem.model.fingerprint, [str(unit) for unit in problem.lattice.units], limits, *strict]
    rows = [len(support.states), support.row_action.tolist(), support.table_of_step.tolist()]
    bounds = [None if bound is None else [str(amount) for amount in bound] for bound in support.bounds]
    known = [bounds] if any(bounds) else []
    return ["learned", *rows, [str(unit) for unit in support.units or ()], limits, *known, *strict]


def _settings(learner: Learner) -> dict[str, Any]:
    """Return the settings as JSON represents them, without epsilon, which may differ."""
    settings = {name: value for name, value in asdict(learner.settings).items() if name != "epsilon"}
    low, high = settings.pop("reward_range")
    settings |= {"reward_low": low, "reward_high": high}
    return {name: repr(value) if isinstance(value, float) else value for name, value in settings.items()}


def _outcomes_seen(learner: Learner) -> list[Any]:
    """Return the outcomes of a learned support."""
    if learner.learned_support is None:
        return []
    return [
        [row, after, [str(cost) for cost in costs]]
        for row, outcomes in enumerate(learner.learned_support.outcomes)
        for after, costs in outcomes
    ]
