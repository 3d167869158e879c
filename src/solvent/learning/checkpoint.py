"""Learners in checkpoints: counts and the last plan as arrays, the rest as numbers and text.

A resumed run gives the same result, bit for bit, as one that was never interrupted.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.archives import check_positions
from solvent.core.checkpoint import Checkpoint, Section, digest
from solvent.core.exact import exact
from solvent.core.loading import LoadLimits, check_limit, check_time, loading
from solvent.errors import LoadLimitError, ModelError, quote
from solvent.learning.counts import Counts
from solvent.learning.graph import SafeGraph
from solvent.learning.result import LearnProgress
from solvent.learning.runners import as_float
from solvent.learning.support import NewOutcome

if TYPE_CHECKING:
    from solvent.learning.learner import Learner

_RNG = re.compile(r"0x[0-9a-f]{1,16}")
_ARRAYS = ("count_K", "count_O", "reward_sum_O", "square_sum_K", "planned_K")
#: More episodes than can be counted.
_MOST = 2**53 - 1


def open_checkpoint(
    learner: Learner, path: Path, *, resume: bool = False, limits: LoadLimits | None = None
) -> Checkpoint:
    """Return the checkpoint of a new learner; with `resume`, restore the learner from it.

    Raises
    ------
    ModelError
        If the folder cannot be used or, with `resume`, does not contain a learner of the same problem and settings.
    """
    if resume and not path.exists():
        raise ModelError(str(path), "a checkpoint", "no such folder")
    checkpoint = Checkpoint(path, "learn", _identity(learner), anew=not resume, limits=limits)
    if resume:
        try:
            with loading(limits):
                restore(learner, section_of(checkpoint))
        except BaseException as error:
            checkpoint.close()
            if isinstance(error, ModelError) and not isinstance(error, LoadLimitError):
                raise error.within(str(path)) from None
            raise
    return checkpoint


def section_of(checkpoint: Checkpoint) -> Section:
    """Return the only section of a learner's checkpoint."""
    return checkpoint.section("learner")


def state_of(learner: Learner) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the numbers and texts, and the arrays, from which a learner can be restored."""
    state = {
        "rng": hex(int(learner.rng[0])),
        "episodes": learner.episodes,
        "violations": learner.violations,
        "due": int(learner.due),
        "built": learner.built,
        "seen": _outcomes_seen(learner),
        "pending": _pending(learner),
    }
    arrays: dict[str, NDArray[Any]] = {name: getattr(learner.counts, name) for name in _ARRAYS}
    arrays["row_PN"] = learner.row_PN
    arrays["returns"], arrays["costs"] = learner.episode_returns, learner.episode_costs
    if state["pending"]:
        assert learner.learned_support is not None
        arrays["pending_rewards"] = np.array([each.reward for each in learner.learned_support.pending], np.float64)
    arrays["history"] = np.array(learner.history, np.float64).reshape(-1, len(LearnProgress._fields))
    return state, arrays


def restore(learner: Learner, section: Section) -> None:
    """Restore a new learner to the state in a section.

    After an error the learner must not be used.

    Raises
    ------
    ModelError
        If no learner of this problem can have this state.
    """
    if not section.state:
        raise ModelError("checkpoint", "the state of a learner", "none")
    check_limit("file_bytes", sum(file.size for file in section.files), "bytes", "checkpoint")
    entries = section.state.get("seen")
    if not isinstance(entries, list):
        raise section.damaged("seen", "a list of outcomes", quote(entries))
    if learner.settings.pool and len(entries) > len(section.array("count_O", np.int64, (None,))):
        raise section.damaged("seen", "no more outcomes than were counted", f"{len(entries):,}")
    _restore_support(learner, entries)
    learner.counts = counts = Counts.of(learner.graph, pool=learner.settings.pool)
    for name in _ARRAYS:
        array = getattr(counts, name)
        array[:] = section.array(name, array.dtype, array.shape)
    learner.episodes = section.whole("episodes", 0, _MOST)
    learner.violations = section.whole("violations", 0, learner.episodes)
    _check_counts(counts, learner)
    learner.due = bool(section.whole("due", 0, 1))
    learner.built = section.whole("built", 0, learner.episodes)
    learner.row_PN = section.array("row_PN", np.int64, (3, learner.graph.n_nodes)).copy()
    _check_rows(learner)
    _restore_pending(learner, section)
    n_resources = len(learner.graph.problem.limits.resources)
    learner.returns = [section.array("returns", np.float64, (learner.episodes,)).copy()]
    learner.costs = [section.array("costs", np.float64, (learner.episodes, n_resources)).copy()]
    _check_episodes(learner)
    rng = section.state.get("rng")
    if not isinstance(rng, str) or not _RNG.fullmatch(rng):
        raise section.damaged("rng", "a 64-bit number in hexadecimal digits", quote(rng))
    learner.rng = np.array([int(rng, 16)], np.uint64)
    learner.history = _read_history(section.array("history", np.float64, (None, len(LearnProgress._fields))), learner)


def _restore_support(learner: Learner, entries: list[Any]) -> None:
    """Restore a learned support; positions are checked, because kernels do not check them."""
    support = learner.learned_support
    if support is None:
        if entries:
            raise ModelError("seen", "nothing, as the support is known", quote(entries))
        return
    for i, entry in enumerate(entries):
        row, after, amounts = _read_outcome(f"seen[{i}]", entry, learner)
        if not support.add(row, after, amounts):
            raise ModelError(f"seen[{i}]", "each outcome once", quote(entry))
        learner.runner.add_outcome(row, after, amounts)
        if not i % 1024:
            check_time()
    if entries:
        learner.graph = SafeGraph.of(support.problem(), learner.monitor)


def _read_outcome(where: str, entry: Any, learner: Learner) -> tuple[int, int, tuple[Fraction, ...]]:
    """Return an outcome of a learned support: row, next state and costs."""
    support = learner.learned_support
    assert support is not None
    n_rows, n_states, n_resources = len(support.row_action), len(support.states) + 2, len(support.limits.resources)
    if not isinstance(entry, list) or len(entry) != 3:
        raise ModelError(where, "a row, a state and costs", quote(entry))
    row, after, costs = entry
    for what, position, size in (("row", row, n_rows), ("state", after, n_states)):
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < size:
            raise ModelError(where, f"a {what} from 0 to {size - 1}", quote(position))
    if not isinstance(costs, list) or len(costs) != n_resources or not all(isinstance(c, str) for c in costs):
        raise ModelError(where, f"{n_resources} costs as text", quote(costs))
    return row, after, tuple(exact(text, where) for text in costs)


def _restore_pending(learner: Learner, section: Section) -> None:
    """Restore outcomes that are not in the graph yet."""
    entries, support = section.state.get("pending"), learner.learned_support
    if not isinstance(entries, list):
        raise section.damaged("pending", "a list of outcomes", quote(entries))
    if not entries:
        return
    if support is None:
        raise section.damaged("pending", "nothing, as the support is known", quote(entries))
    low, high = learner.settings.reward_range
    rewards = section.array("pending_rewards", np.float64, (len(entries),)).tolist()
    found = []
    for i, (entry, reward) in enumerate(zip(entries, rewards, strict=True)):
        row, after, costs = _read_outcome(f"pending[{i}]", entry, learner)
        if not low <= reward <= high:
            raise section.damaged("pending_rewards", f"rewards from {low:g} to {high:g}", f"{reward:g}")
        found.append(NewOutcome(row, after, costs, reward))
    support.postpone(found)


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


def _check_episodes(learner: Learner) -> None:
    """Refuse returns and costs that are larger than those of any episode."""
    problem, (low, high) = learner.graph.problem, learner.settings.reward_range
    model, limits, lattice = problem.origin, problem.limits, problem.lattice
    most = model.horizon * max(abs(low), abs(high)) * (1 + 1e-6)
    if not (np.abs(learner.returns[0]) <= most).all():
        raise ModelError("returns", f"sums of at most {most:g} in absolute value", "larger sums")
    pending = [] if learner.learned_support is None else learner.learned_support.pending
    for d, name in enumerate(limits.resources):
        r = model.resource_index(name)
        ticks = 1 + max(map(abs, lattice.cost_OD[:, d].tolist()), default=0)  # also of continuous costs, in bins
        reach = max(model.cost_sums[r]) * model.cost[r].unit + model.horizon * ticks * lattice.units[d]
        reach += abs(limits.initial[d]) + model.horizon * max((abs(each.costs[d]) for each in pending), default=0)
        if not (np.abs(learner.costs[0][:, d]) <= as_float(reach * 2)).all():
            raise ModelError("costs", f"amounts of at most {as_float(reach * 2):g}", "larger amounts")


def _check_rows(learner: Learner) -> None:
    """Refuse a plan that takes rows of other nodes; before the first episode, there is none to check."""
    layers, row_PN = learner.graph.layers, learner.row_PN
    check_positions("row_PN", row_PN.ravel(), max(len(layers.row), 1))
    stored = np.arange(layers.n_nodes) - np.repeat(layers.shift_H, np.diff(layers.layer_indptr))
    first, last = layers.row_indptr[stored], layers.row_indptr[stored + 1]
    if learner.episodes and ((first < last) & ((row_PN < first) | (row_PN >= last))).any():
        raise ModelError("row_PN", "a row of each node", "a row of another node")


def _read_history(array: NDArray[np.float64], learner: Learner) -> list[LearnProgress]:
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


def _problem(learner: Learner) -> list[Any]:
    """Return what must be equal in a resumed run: the available actions, the limits, and a known support."""
    problem, support = learner.graph.problem, learner.learned_support
    limits = [[str(x) for x in side] for sides in (problem.limits.upper, problem.limits.lower) for side in sides]
    if any(problem.limits.initial):  # otherwise as before there were initial amounts
        limits.append([str(amount) for amount in problem.limits.initial])
    strict = ["up"] if "up" in problem.counting else []
    if support is None:
        rounded = [] if problem.origin is problem.model else [problem.origin.fingerprint]  # with costs as given
        units = [str(unit) for unit in problem.lattice.units]
        return [problem.model.fingerprint, units, limits, *strict, *rounded]
    rows = [len(support.states), support.row_action.tolist(), support.table_of_step.tolist()]
    bounds = [None if bound is None else [str(amount) for amount in bound] for bound in support.bounds]
    known = [bounds] if any(bounds) else []
    return ["learned", *rows, [str(unit) for unit in support.units or ()], limits, *known, *strict]


def _identity(learner: Learner) -> dict[str, str]:
    """Return what must be equal in a resumed run: the problem and the settings, except for epsilon."""
    settings = {name: repr(value) for name, value in asdict(learner.settings).items() if name != "epsilon"}
    return {"environment, horizon and budget": digest(_problem(learner)), **settings}


def _outcomes_seen(learner: Learner) -> list[Any]:
    """Return the outcomes of a learned support."""
    if learner.learned_support is None:
        return []
    return [
        [row, after, [str(cost) for cost in costs]]
        for row, outcomes in enumerate(learner.learned_support.outcomes)
        for after, costs in outcomes
    ]


def _pending(learner: Learner) -> list[Any]:
    """Return the outcomes that are not in the graph yet."""
    if learner.learned_support is None:
        return []
    pending = learner.learned_support.pending
    return [[each.row, each.next_state, [str(cost) for cost in each.costs]] for each in pending]
