"""Models estimated from recorded episodes.

The probability of an outcome (next state and costs) of a row is the share of the visits of the row in which it was
recorded; the reward is the mean. An outcome that was never recorded is possible only if `support` or `widen` says so,
and then has the weight `unseen`, in visits.

A policy for such a model never exceeds its budget if every outcome that can happen is one of the model. Recorded data
cannot prove that: the guarantee rests on the support, which is the user's statement. Probabilities, values and bounds
on values are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.frames import is_missing, read_columns
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder, read_costs, read_reward
from solvent.model.discounted import check_model
from solvent.model.ends import EndRewardLike, GoalLike, StartLike
from solvent.model.outcome_frames import COST
from solvent.model.resources import ResourceLike, as_resources

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_RECORD = "(state, action, cost, reward, next state)"
Support = Mapping[Any, Iterable[Any]] | Callable[[Any, Any], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class EpisodeCounts:
    """How often each row and each outcome of a model occurs in recorded episodes; see `EpisodeCounts.of`.

    Attributes
    ----------
    episodes, steps : int
        Number of episodes, and of steps in all of them.
    row_counts : ndarray of int64, shape (R,)
        Visits of each row of the model.
    outcome_counts : ndarray of int64, shape (O,)
        How often each outcome of the model was recorded.
    """

    episodes: int
    steps: int
    row_counts: NDArray[np.int64]
    outcome_counts: NDArray[np.int64]

    @classmethod
    def of(cls, model: CMDP, episodes: Any) -> EpisodeCounts:
        """Count the rows and outcomes of a model in recorded episodes: those it was estimated from, or others.

        Outcomes of a row that have the same next state and the same costs cannot be told apart in records. Their
        records are divided among them in proportion to their probabilities, in whole numbers.

        Episodes may be longer than the horizon if the model is stationary: its rows do not depend on the step, so that
        a step counts wherever it was recorded.

        Parameters
        ----------
        model : CMDP
            From `CMDP.from_episodes` or any other source; without cost distributions.
        episodes : list of lists of tuples, or a frame
            As for `CMDP.from_episodes`.

        Raises
        ------
        ModelError
            If a record is invalid, or its outcome is not one of the model, so that policies for the model could exceed
            their budget, or if rows depend on the step and an episode is longer than the horizon.

        Examples
        --------
        >>> import solvent
        >>> log = [[("home", "go", 1, 5, "away")], [("home", "go", 2, 5, "away")], [("home", "go", 1, 5, "away")]]
        >>> counts = solvent.EpisodeCounts.of(solvent.CMDP.from_episodes(log, 1), log)
        >>> counts.row_counts.tolist(), counts.outcome_counts.tolist()
        ([3], [2, 1])
        """
        return _count(model, episodes)

    def __repr__(self) -> str:
        recorded = int(np.count_nonzero(self.outcome_counts))
        return (
            f"EpisodeCounts({self.episodes:,} episodes, {self.steps:,} steps, {len(self.row_counts):,} rows, "
            f"{recorded:,} outcomes recorded, {len(self.outcome_counts) - recorded:,} not recorded)"
        )


class _Step(NamedTuple):
    """One recorded step: its place for messages, its number within the episode, and what happened."""

    where: str
    step: int
    state: Hashable
    action: Hashable
    costs: tuple[Fraction, ...]
    reward: Any
    after: Hashable


class _Records:
    """Counts of recorded outcomes."""

    def __init__(self, steps: Iterable[_Step]) -> None:
        self.counts: dict[tuple[Hashable, Hashable], dict[tuple[Hashable, tuple[Fraction, ...]], int]] = {}
        self.rewards: dict[tuple[Hashable, Hashable], list[float]] = {}
        self.starts: dict[Hashable, int] = {}
        self.episodes = self.steps = 0
        for each in steps:
            if each.step == 0:
                self.episodes += 1
                self.starts[each.state] = self.starts.get(each.state, 0) + 1
            found = self.counts.setdefault((each.state, each.action), {})
            found[each.after, each.costs] = found.get((each.after, each.costs), 0) + 1
            self.rewards.setdefault((each.state, each.action), []).append(read_reward(each.reward, each.where))
            self.steps += 1


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
) -> CMDP:
    """Return a model estimated from episodes; see `CMDP.from_episodes` for the parameters.

    Raises
    ------
    ModelError
        If a record, the support or another argument is invalid.
    """
    accounts = as_resources(resources)
    names = tuple(each.name for each in accounts)
    if isinstance(unseen, bool) or not isinstance(unseen, int | float) or not 0 < unseen < float("inf"):
        raise ModelError("unseen", "a number above 0", quote(unseen))
    records = _Records(_read_steps(episodes, names))
    added = _added(records, support, _read_widen(widen, names), names)
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
    return builder.build()


def _read_steps(episodes: Any, resources: tuple[str, ...]) -> Iterator[_Step]:
    """Yield all steps of all episodes, checked."""
    if hasattr(episodes, "columns") or hasattr(episodes, "column_names") or isinstance(episodes, Mapping):
        episodes = _from_columns(read_columns(episodes, "episodes"), resources)
    if isinstance(episodes, str) or not isinstance(episodes, Iterable):
        raise ModelError("episodes", "a list of episodes, or a frame", quote(episodes))
    empty = True
    for i, episode in enumerate(episodes):
        if isinstance(episode, str | Mapping) or not isinstance(episode, Iterable):
            raise ModelError(f"episode {i}", f"a list of {_RECORD}", quote(episode))
        before: Any = None
        for t, record in enumerate(episode):
            read = _read_step(record, t, f"episode {i}, step {t}", resources)
            if t and read.state != before:
                expected = f"to go on from {quote(before)}, where the step before led"
                raise ModelError(read.where, expected, quote(read.state))
            yield read
            before, empty = read.after, False
    if empty:
        raise ModelError("episodes", "at least one step", "none")


def _read_step(record: Any, step: int, where: str, resources: tuple[str, ...]) -> _Step:
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
    return _Step(where, step, state, action, _amounts(cost, resources, where), reward, after)


def _amounts(cost: Any, resources: tuple[str, ...], where: str) -> tuple[Fraction, ...]:
    """Return the exact costs of one step."""
    read = read_costs(cost, resources, where)
    return tuple(exact(each, f"{where}, cost of {name}") for name, each in zip(resources, read, strict=True))


def _from_columns(columns: dict[str, list[Any]], resources: tuple[str, ...]) -> list[list[Any]]:
    """Return the episodes of a frame, in the order in which they begin; steps in that of a column `step`, if any."""
    costs = [COST + name for name in resources]
    for required in ("episode", "state", "action", "next", "reward", *costs):
        if required not in columns:
            hint = did_you_mean(required, list(columns))
            listed = f"columns {', '.join(map(quote, columns))}"
            raise ModelError("episodes", f"a column {required!r}", listed, hint)
    for key in ("episode", "step"):
        for i, value in enumerate(columns.get(key, ())):
            if is_missing(value):
                raise ModelError(f"episodes, row {i}, column {key!r}", "a value", "none")
    rows: list[int] = list(range(len(columns["episode"])))
    if "step" in columns:
        try:
            rows.sort(key=columns["step"].__getitem__)
        except TypeError:
            raise ModelError("episodes, column 'step'", "numbers", "values that have no order") from None
    found: dict[Any, list[Any]] = {}
    for i in rows:
        state, action, reward, after = (columns[key][i] for key in ("state", "action", "reward", "next"))
        amounts = [columns[key][i] for key in costs]
        found.setdefault(columns["episode"][i], []).append((state, action, amounts, reward, after))
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
    records: _Records, support: Support | None, widen: tuple[Fraction, ...], resources: tuple[str, ...]
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
            possible.setdefault((each[0], _amounts(each[1], resources, where)))
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


def _count(model: CMDP, episodes: Any) -> EpisodeCounts:
    check_model(model)
    for d in range(model.n_resources):
        model.refuse_continuous(d, "an exact cost, so that outcomes can be counted", "", "EpisodeCounts.of: ")
    row_counts, outcome_counts = np.zeros(model.n_rows, np.int64), np.zeros(model.n_outcomes, np.int64)
    # a row, and its outcomes that records cannot tell apart
    known: dict[tuple[Hashable, ...], tuple[int, list[int]]] = {}
    row_O = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr)).tolist()
    place_R = np.repeat(np.arange(model.n_tables * model.n_states), np.diff(model.row_indptr)).tolist()
    for o, row in enumerate(row_O):
        table, state = divmod(place_R[row], model.n_states)
        action, after = model.actions[model.row_action[row]], model.states[model.next_state[o]]
        costs = tuple(column.value(o) for column in model.cost)
        known.setdefault((table, model.states[state], action, after, costs), (row, []))[1].append(o)
    n_episodes = n_steps = 0
    for each in _read_steps(episodes, model.resources):
        read_reward(each.reward, each.where)  # not counted, but an invalid record is an error
        table = 0
        if not model.is_stationary:
            if each.step >= model.horizon:
                raise ModelError(
                    each.where, f"at most {model.horizon} steps, as in the model, whose rows depend on the step",
                    "another step", "leave out the steps after the last one of the model",
                )  # fmt: skip
            table = int(model.table_of_step[each.step])
        found = known.get((table, each.state, each.action, each.after, each.costs))
        if found is None:
            amounts = dict(zip(model.resources, map(short_amount, each.costs), strict=True))
            outcome = f"next state {quote(each.after)} with costs {quote(amounts)}"
            where = f"{each.where}, state {quote(each.state)}, action {quote(each.action)}"
            raise ModelError(where, "an outcome of the model", outcome)
        row_counts[found[0]] += 1
        outcome_counts[found[1][0]] += 1
        n_episodes, n_steps = n_episodes + (each.step == 0), n_steps + 1
    for _, equal in known.values():
        if len(equal) > 1:
            outcome_counts[equal] = _divided(int(outcome_counts[equal[0]]), model.probability[equal].tolist())
    return EpisodeCounts(n_episodes, n_steps, row_counts, outcome_counts)


def _divided(count: int, weights: Sequence[float]) -> list[int]:
    """Divide a count in proportion to weights, rounded by the method of largest remainders.

    Examples
    --------
    >>> _divided(10, [0.25, 0.25, 0.5]), _divided(4, [0.1, 0.2])
    ([3, 2, 5], [1, 3])
    """
    total = sum(map(Fraction, weights))
    shares = [count * Fraction(weight) / total for weight in weights]
    found = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: found[i] - shares[i])
    for i in by_remainder[: count - sum(found)]:
        found[i] += 1
    return found
