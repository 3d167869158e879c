"""Models estimated from recorded episodes.

The probability of an outcome (next state and costs) of a row is the share of the visits of the row in which it was
recorded; the reward is the mean. An outcome that was never recorded is possible only if `support` or `widen` says so,
and then has the weight `unseen`, in visits.

A policy for such a model never exceeds its budget if every outcome that can happen is one of the model. Recorded data
cannot prove that: the guarantee rests on the support, which is the user's statement. Probabilities, values and bounds
on values are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.frames import is_missing, read_columns
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder, read_costs, read_reward
from solvent.model.ends import EndRewardLike, GoalLike, StartLike
from solvent.model.outcome_frames import COST
from solvent.model.resources import ResourceLike, as_resources

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_RECORD = "(state, action, cost, reward, next state)"
Support = Mapping[Any, Iterable[Any]] | Callable[[Any, Any], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class EpisodeCounts:
    """How often each row and each outcome of an estimated model was recorded.

    Attributes
    ----------
    episodes, steps : int
        Number of episodes, and of steps in all of them.
    row_counts : ndarray of int64, shape (R,)
        Visits of each row of the model.
    outcome_counts : ndarray of int64, shape (O,)
        How often each outcome of the model was recorded; 0 for one that `support` or `widen` added.
    basis : str
        What the guarantee of a policy for the model rests on.
    """

    episodes: int
    steps: int
    row_counts: NDArray[np.int64]
    outcome_counts: NDArray[np.int64]
    basis: str

    def __repr__(self) -> str:
        added = int((self.outcome_counts == 0).sum())
        return (
            f"EpisodeCounts({self.episodes:,} episodes, {self.steps:,} steps, {len(self.row_counts):,} rows, "
            f"{len(self.outcome_counts) - added:,} outcomes recorded, {added:,} added)"
        )


class _Records:
    """Counts of recorded outcomes."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self.counts: dict[tuple[Hashable, Hashable], dict[tuple[Hashable, tuple[Fraction, ...]], int]] = {}
        self.rewards: dict[tuple[Hashable, Hashable], list[float]] = {}
        self.starts: dict[Hashable, int] = {}
        self.episodes = self.steps = 0

    def begin(self, state: Hashable) -> None:
        """Count the first state of an episode."""
        self.episodes += 1
        self.starts[state] = self.starts.get(state, 0) + 1

    def add(self, record: Any, where: str) -> Hashable:
        """Count one step and return its next state."""
        if isinstance(record, str) or not isinstance(record, Sequence) or len(record) != 5:
            raise ModelError(where, _RECORD, quote(record))
        state, action, cost, reward, after = record
        for kind, name in (("state", state), ("action", action), ("next state", after)):
            try:
                hash(name)
            except TypeError:
                raise ModelError(where, f"a hashable {kind}", quote(name)) from None
            if is_missing(name):
                raise ModelError(where, f"a {kind}", "none")
        outcome = after, self.amounts(cost, where)
        found = self.counts.setdefault((state, action), {})
        found[outcome] = found.get(outcome, 0) + 1
        self.rewards.setdefault((state, action), []).append(read_reward(reward, where))
        self.steps += 1
        return after  # type: ignore[no-any-return]

    def amounts(self, cost: Any, where: str) -> tuple[Fraction, ...]:
        """Return the exact costs of one step."""
        read = read_costs(cost, self.resources, where)
        return tuple(exact(each, f"{where}, cost of {name}") for name, each in zip(self.resources, read, strict=True))


def from_episodes(
    episodes: Any,
    horizon: int,
    *,
    start: StartLike | None = None,
    resources: Sequence[ResourceLike] = ("cost",),
    support: Support | None = None,
    widen: Mapping[str, Number] | Number | None = None,
    unseen: float = 0.5,
    budget: BudgetLike | None = None,
    end_reward: EndRewardLike | None = None,
    must_end_in: GoalLike | None = None,
    name: str = "",
) -> tuple[CMDP, EpisodeCounts]:
    """Return a model estimated from episodes, and counts; see `CMDP.from_episodes` for the parameters.

    Raises
    ------
    ModelError
        If a record, the support or another argument is invalid.
    """
    accounts = as_resources(resources)
    names = tuple(each.name for each in accounts)
    if isinstance(unseen, bool) or not isinstance(unseen, int | float) or not 0 < unseen < float("inf"):
        raise ModelError("unseen", "a number above 0", quote(unseen))
    records = _read(episodes, names)
    added = _added(records, support, _read_widen(widen, names))
    basis = _basis(records, support is not None, widen is not None, added)
    if start is None:
        start = {state: Fraction(count, records.episodes) for state, count in records.starts.items()}
    builder = Builder(
        horizon=horizon, start=start, resources=accounts, budget=budget, end_reward=end_reward,
        must_end_in=must_end_in, name=name, description=basis,
    )  # fmt: skip
    for (state, action), found in records.counts.items():
        extra = added[state, action]
        total = sum(found.values()) + Fraction(unseen) * len(extra)
        weights = [(Fraction(count), *outcome) for outcome, count in found.items()]
        weights += [(Fraction(unseen), *outcome) for outcome in extra]
        gained = records.rewards[state, action]
        builder.add(
            state, action, outcomes=[(w / total, after, costs) for w, after, costs in weights],
            reward=float(np.mean(gained)),
        )  # fmt: skip
    acting = {state for state, _ in records.counts}
    reached = [after for found in (*records.counts.values(), *added.values()) for after, _ in found]
    for after in dict.fromkeys(reached):
        if after not in acting:
            builder.terminal(after)
    model = builder.build()
    return model, _counted(model, records, basis)


def _read(episodes: Any, resources: tuple[str, ...]) -> _Records:
    records = _Records(resources)
    if hasattr(episodes, "columns") or hasattr(episodes, "column_names") or isinstance(episodes, Mapping):
        episodes = _from_columns(read_columns(episodes, "from_episodes"), resources)
    if isinstance(episodes, str) or not isinstance(episodes, Iterable):
        raise ModelError("from_episodes", "a list of episodes, or a frame", quote(episodes))
    for i, episode in enumerate(episodes):
        if isinstance(episode, str | Mapping) or not isinstance(episode, Iterable):
            raise ModelError(f"episode {i}", f"a list of {_RECORD}", quote(episode))
        before: Any = None
        for t, record in enumerate(episode):
            where = f"episode {i}, step {t}"
            after = records.add(record, where)
            if t and record[0] != before:
                raise ModelError(where, f"to go on from {quote(before)}, where the step before led", quote(record[0]))
            if not t:
                records.begin(record[0])
            before = after
    if not records.steps:
        raise ModelError("from_episodes", "at least one step", "none")
    return records


def _from_columns(columns: dict[str, list[Any]], resources: tuple[str, ...]) -> list[list[Any]]:
    """Return the episodes of a frame, in the order in which they begin."""
    costs = [COST + name for name in resources]
    for required in ("episode", "state", "action", "next", "reward", *costs):
        if required not in columns:
            hint = did_you_mean(required, list(columns))
            listed = f"columns {', '.join(map(quote, columns))}"
            raise ModelError("from_episodes", f"a column {required!r}", listed, hint)
    found: dict[Any, list[Any]] = {}
    by_step = zip(*(columns[key] for key in ("episode", "state", "action", "reward", "next")), strict=True)
    for i, (episode, state, action, reward, after) in enumerate(by_step):
        amounts = [columns[key][i] for key in costs]
        found.setdefault(episode, []).append((state, action, amounts, reward, after))
    return list(found.values())


def _read_widen(widen: Any, resources: tuple[str, ...]) -> tuple[Fraction, ...]:
    if widen is None:
        return (Fraction(0),) * len(resources)
    if not isinstance(widen, Mapping):
        if len(resources) != 1:
            raise ModelError("widen", "a dict of amounts by resource", quote(widen))
        widen = {resources[0]: widen}
    for name in widen:
        if name not in resources:
            raise ModelError("widen", f"resources ({', '.join(map(quote, resources))})", quote(name))
    amounts = tuple(exact(widen.get(name, 0), f"widen, {name}") for name in resources)
    if any(amount < 0 for amount in amounts):
        raise ModelError("widen", "amounts of at least 0", quote(widen))
    return amounts


def _added(
    records: _Records, support: Support | None, widen: tuple[Fraction, ...]
) -> dict[tuple[Hashable, Hashable], list[tuple[Hashable, tuple[Fraction, ...]]]]:
    """Return the outcomes of each row that are possible but were not recorded."""
    added: dict[tuple[Hashable, Hashable], list[tuple[Hashable, tuple[Fraction, ...]]]] = {}
    if support is not None and not callable(support) and not isinstance(support, Mapping):
        raise ModelError("support", "a dict of outcomes by (state, action), or a function", quote(support))
    if isinstance(support, Mapping):
        for key in support:
            if key not in records.counts:
                raise ModelError("support", "pairs (state, action) that were recorded", quote(key))
    for (state, action), found in records.counts.items():
        possible: dict[tuple[Hashable, tuple[Fraction, ...]], None] = dict.fromkeys(found)
        listed: Any = ()
        if support is not None:
            listed = support(state, action) if callable(support) else support.get((state, action), ())
        where = f"support of {quote((state, action))}"
        if isinstance(listed, str | Mapping) or not isinstance(listed, Iterable):
            raise ModelError(where, "a list of (next state, cost)", quote(listed))
        for each in listed:
            if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 2:
                raise ModelError(where, "(next state, cost)", quote(each))
            possible.setdefault((each[0], records.amounts(each[1], where)))
        if any(widen):
            for after in dict.fromkeys(after for after, _ in possible):
                costs = [amounts for there, amounts in possible if there == after]
                # all costs at their largest at once: it is worse than any other combination of them
                most = tuple(max(column) + more for column, more in zip(zip(*costs, strict=True), widen, strict=True))
                possible.setdefault((after, most))
        added[state, action] = [outcome for outcome in possible if outcome not in found]
    return added


def _basis(records: _Records, has_support: bool, has_widen: bool, added: Mapping[Any, list[Any]]) -> str:
    n_added = sum(map(len, added.values()))
    sources = [text for given, text in ((has_support, "support"), (has_widen, "widen")) if given]
    text = f"Estimated from {records.episodes:,} episodes with {records.steps:,} steps. "
    text += "A policy never exceeds its budget if every step has one of the recorded outcomes (next state and costs)"
    text += f" or one of the {n_added:,} that {' and '.join(sources)} added. " if sources else ". "
    text += "Outcomes that were not recorded are taken to be impossible. " if not sources else ""
    return text + "Probabilities, rewards and values are estimates."


def _counted(model: CMDP, records: _Records, basis: str) -> EpisodeCounts:
    row_counts, outcome_counts = np.zeros(model.n_rows, np.int64), np.zeros(model.n_outcomes, np.int64)
    for s, state in enumerate(model.states):
        for row in model.rows(0, s):
            found = records.counts[state, model.actions[model.row_action[row]]]
            row_counts[row] = sum(found.values())
            for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
                costs = tuple(column.value(o) for column in model.cost)
                outcome_counts[o] = found.get((model.states[model.next_state[o]], costs), 0)
    return EpisodeCounts(records.episodes, records.steps, row_counts, outcome_counts, basis)
