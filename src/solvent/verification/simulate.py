"""Simulation of many episodes at once, one step of all of them at a time, with exact amounts.

Outcomes are drawn with a guide table (Chen and Asau): cell j of a row with n outcomes contains the first outcome whose
cumulative probability exceeds j / n, so that a draw needs about one comparison for any n. Amounts are integers (ticks).
Draws of continuous costs are rounded to ticks so small that the error is negligible, and never leave the range of the
distribution; what a policy on rounded costs counts is computed from these ticks. Amounts of saturating resources are
clamped after each step, those that a policy counts to the ends in its own ticks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core import html
from solvent.core.engines import LOCAL, open_engine
from solvent.core.exact import nearest_float
from solvent.core.frames import amounts_column, import_pandas
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.logs import get_logger
from solvent.errors import LimitError, ModelError, quote
from solvent.model.amounts import short_amount
from solvent.model.budget import BudgetLike, Limits, SpentLike
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.discounted import check_model
from solvent.policy.holders import policy_of
from solvent.policy.nodes import NodeTable
from solvent.policy.search import compact, pack
from solvent.policy.until_violation import UntilViolationPolicy
from solvent.verification.extremes import no_decision
from solvent.verification.layers import NO_OUTCOME, PolicyLayer, Walk
from solvent.verification.ledgers import Ledger
from solvent.verification.parts import least_count
from solvent.verification.policies import Decider, PolicyLike, limits_of, prepare, spent_before

#: Levels of `Simulation.spent_quantiles`.
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
#: Maximum number of values of a `Distribution`.
_MOST_KEPT = 10_000
#: Episodes that are simulated at once; a limit ends a simulation between two batches.
_BATCH = 2**17
#: Memory per episode, without its amounts, and per outcome in the guide tables.
_BYTES_PER_EPISODE, _BYTES_PER_OUTCOME = 150, 64
#: Memory per step of an episode that is kept.
_BYTES_PER_TRACE = 500
NO_LIMITS = Limits((), (), ())

_logger = get_logger(__name__)


@dataclass(frozen=True)
class Distribution:
    """Empirical distribution of an amount.

    Attributes
    ----------
    values : ndarray of float64
        Amounts, increasing.
    counts : ndarray of int64
        Number of episodes with each amount.
    """

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    def quantile(self, level: float) -> float:
        """Return the least value that at least a fraction `level` of the episodes does not exceed."""
        total = np.cumsum(self.counts)
        place = int(np.searchsorted(total, level * total[-1] * (1 - 1e-12)))
        return float(self.values[min(place, len(total) - 1)])


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The first episodes of a simulation, step by step.

    Attributes
    ----------
    model : CMDP
    row_HK : ndarray of int64, shape (H, K)
        The row of the model that each of K episodes took at each step; negative if it had ended.
    outcome_HK : ndarray of int64, shape (H, K)
        The outcome that was drawn; negative if it had ended.
    cost, spent : dict of str to list of list of Fraction
        For each resource, the cost of each step and the amount spent after it, by step and episode.
    """

    model: CMDP
    row_HK: NDArray[np.int64]
    outcome_HK: NDArray[np.int64]
    cost: dict[str, list[list[Fraction]]]
    spent: dict[str, list[list[Fraction]]]

    def __len__(self) -> int:
        return int(self.row_HK.shape[1])

    def to_frame(self) -> Any:
        """Return the steps as a pandas DataFrame, one row per episode and step until the episode ends.

        The columns are `episode`, `step`, `state`, `action`, `reward`, `next`, and `cost_` and `spent_` followed by the
        name of each resource; `CMDP.from_episodes` reads such a frame.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd, model = import_pandas(), self.model
        episode, step = np.nonzero((self.row_HK >= 0).T)
        rows, outcomes = self.row_HK[step, episode], self.outcome_HK[step, episode]
        owner = (np.searchsorted(model.row_indptr, rows, side="right") - 1) % model.n_states
        named: dict[str, tuple[tuple[Any, ...], NDArray[Any]]] = {
            "state": (model.states, owner),
            "action": (model.actions, model.row_action[rows]),
            "next": (model.states, model.next_state[outcomes]),
        }
        columns: dict[str, Any] = {"episode": episode, "step": step, "reward": model.row_reward[rows]}
        for key, (names, index) in named.items():
            columns[key] = pd.Series([names[i] for i in index.tolist()], dtype=object)
        places = list(zip(step.tolist(), episode.tolist(), strict=True))
        for name in self.spent:
            columns[f"cost_{name}"] = amounts_column([self.cost[name][h][k] for h, k in places])
            columns[f"spent_{name}"] = amounts_column([self.spent[name][h][k] for h, k in places])
        order = ["episode", "step", "state", "action", "reward", "next"]
        return pd.DataFrame({key: columns[key] for key in [*order, *(key for key in columns if key not in order)]})


@dataclass(frozen=True, eq=False)
class Simulation:
    """Result of `simulate`.

    Attributes
    ----------
    rewards : ndarray of float64, shape (episodes,)
        Sum of expected rewards along each episode, with the reward for ending where it ended.
    max_spent : dict of str to Fraction
        The most that was spent after any step of any episode.
    violations : int
        Number of episodes that broke a limit or ended in a state in which they must not end.
    distributions : dict of str to tuple of Distribution
        Amounts spent after each step; thinned to 10,000 values if there are more.
    stopped : str
        The limit that was reached before all episodes were simulated; empty if none was.
    trajectories : Trajectories or None
        The first episodes, step by step, if asked for.
    """

    rewards: NDArray[np.float64]
    max_spent: dict[str, Fraction]
    violations: int
    distributions: dict[str, tuple[Distribution, ...]]
    stopped: str = ""
    trajectories: Trajectories | None = None

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.rewards)

    @property
    def mean_reward(self) -> float:
        """Mean of the rewards, an estimate of the policy's value."""
        return float(self.rewards.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of `mean_reward`; NaN for a single episode."""
        if self.episodes < 2:
            return float("nan")
        scale = float(np.abs(self.rewards).max()) or 1.0  # squares of large rewards may overflow
        return float((self.rewards / scale).std(ddof=1) / np.sqrt(self.episodes)) * scale

    def quantile(self, resource: str, level: float) -> NDArray[np.float64]:
        """Return a quantile of the amount spent of a resource after each step, shape (H,).

        Raises
        ------
        ModelError
            If there is no such resource, or the level is not between 0 and 1.
        """
        if resource not in self.distributions:
            raise ModelError("resource", f"one of {', '.join(map(quote, self.distributions))}", quote(resource))
        if not 0 <= level <= 1:
            raise ModelError("level", "a number from 0 to 1", quote(level))
        return np.array([each.quantile(level) for each in self.distributions[resource]])

    @property
    def spent_quantiles(self) -> dict[str, NDArray[np.float64]]:
        """Quantiles of the amount spent after each step, shape (len(LEVELS), H), by resource."""
        return {name: np.array([self.quantile(name, q) for q in LEVELS]) for name in self.distributions}

    def to_frame(self) -> Any:
        """Return quantiles of the amounts spent as a pandas DataFrame, one row per resource and step.

        The columns are `resource`, `step`, and `q0`, `q5`, `q25`, `q50`, `q75`, `q95` and `q100`, the quantiles of
        these percentages. `trajectories.to_frame()` has single episodes.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        quantiles = self.spent_quantiles
        columns: dict[str, Any] = {
            "resource": [name for name, found in quantiles.items() for _ in range(found.shape[1])],
            "step": [step for found in quantiles.values() for step in range(found.shape[1])],
        }
        for i, level in enumerate(LEVELS):
            columns[f"q{round(100 * level)}"] = [x for found in quantiles.values() for x in found[i].tolist()]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        rows = [
            ("mean reward", f"{self.mean_reward:.6g} ± {self.standard_error:.2g} (standard error)"),
            ("violations", f"{self.violations:,} of {self.episodes:,} episodes"),
        ]
        spent = ((name, short_amount(most)) for name, most in self.max_spent.items())
        parts = [html.facts(rows), html.table(["resource", "most spent"], spent, numbers=["most spent"])]
        if self.stopped:
            parts.append(html.note(f"stopped: {self.stopped}"))
        tone: html.Tone = "bad" if self.violations else "good"
        return html.card("Simulation", f"{self.episodes:,} episodes", *parts, tone=tone)

    def __repr__(self) -> str:
        return (
            f"Simulation({self.episodes:,} episodes, mean reward {self.mean_reward:.6g} "
            f"± {self.standard_error:.2g}, {self.violations:,} violations)"
        )


def simulate(
    model: CMDP,
    policy: PolicyLike,
    episodes: int = 10_000,
    seed: int = 0,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    engine: str = "local",
    address: str | None = None,
    trajectories: int = 0,
) -> Simulation:
    """Simulate episodes of a policy.

    Parameters
    ----------
    model : CMDP
    policy : Solution, AugmentedPolicy, RandomizedPolicy, MarkovPolicy, array or callable
        As for `verify`.
    episodes : int
        Number of episodes.
    seed : int
        Random seed.
    budget : number, Budget or mapping, optional
        The limits whose violations are counted. If not given, the policy's own limits or, if it has none, the model's
        budget, if it has one.
    spent : number, or mapping of numbers by resource, optional
        What has been spent before the first step, as for `verify`.
    time_limit : float, optional
        Time limit in seconds. When it is reached, the episodes simulated so far are returned.
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used.
    engine : {"local", "ray"}
        Where batches are simulated: in this process, or by workers of a Ray cluster (`pip install "solvent[ray]"`). The
        result is the same, bit for bit.
    address : str, optional
        Address of the cluster, as for `solve`.
    trajectories : int
        Number of episodes to keep step by step, at most 131,072: the first ones.

    Returns
    -------
    Simulation
        Episodes are simulated in batches of 131,072, each with random numbers of its own. If a limit is reached after
        some of them, `stopped` says so, and the result covers the episodes simulated so far, which are the same as
        without the limit.

    Raises
    ------
    PolicyError
        If the policy takes an action that is not available, or has no decision at a node that it leads to within its
        limits.
    SolventError
        If the solution has no policy.
    LimitError
        If a limit is reached before the first batch is complete.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.policy.markov import MarkovPolicy
    >>> model = instances.markov_gap(prize=10)
    >>> result = simulate(model, MarkovPolicy(model, [[0], [1]]), episodes=1000, seed=1)
    >>> result.mean_reward, 450 < result.violations < 550, result.quantile("cost", 1).tolist()
    (10.0, True, [1.0, 2.0])
    """
    check_model(model)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ModelError("seed", "a whole number of at least 0", quote(seed))
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ModelError("episodes", "a whole number of at least 1", quote(episodes))
    whole = isinstance(trajectories, int) and not isinstance(trajectories, bool)
    if not whole or not 0 <= trajectories <= _BATCH:
        raise ModelError("trajectories", f"a whole number from 0 to {_BATCH:,}", quote(trajectories))
    seconds, memory = read_seconds(time_limit), read_memory(memory_limit)
    decider: Decider = policy_of(policy)
    unlimited = budget is None and model.budget is None and not isinstance(decider, NodeTable)
    before = spent_before(model, decider, spent)
    limits = NO_LIMITS if unlimited else limits_of(model, decider, budget, before)
    found: dict[int, Simulation] = {}
    stopped = ""
    with open_engine(engine, address) as opened:
        try:
            with ResourceMonitor(seconds, memory) as monitor:
                monitor.reserve(8 * episodes, f"{episodes:,} episodes")
                own = monitor if opened is LOCAL else None
                play = _Batches(model, decider, limits, before, seed, memory, own, trajectories)
                with closing(opened.map(play, _batches(episodes), check=monitor.check_time)) as played:
                    for number, simulation in played:
                        found[number] = simulation
        except LimitReached as reached:
            stopped = str(reached)
    # later batches may be complete before earlier ones
    batches = [found[number] for number in itertools.takewhile(found.__contains__, itertools.count())]
    if not batches:
        raise LimitError(f"simulate stopped: {stopped}; raise the limit, or play fewer episodes")
    result = replace(_joined(batches), stopped=stopped)
    _logger.debug("simulated %d episodes, %d violations", result.episodes, result.violations)
    return result


def _batches(episodes: int) -> Iterator[tuple[int, int]]:
    """Yield the number of each batch, and the number of its episodes."""
    for number, first in enumerate(range(0, episodes, _BATCH)):
        yield number, min(_BATCH, episodes - first)


class _Batches:
    """Simulates batches, in this process or in a worker of a cluster, which gets a copy and has no monitor yet."""

    def __init__(
        self,
        model: CMDP,
        policy: Decider,
        limits: Limits,
        spent: dict[str, Fraction],
        seed: int,
        memory: int | None,
        monitor: ResourceMonitor | None,
        kept: int = 0,
    ) -> None:
        self._model, self._policy, self._limits, self._spent = model, policy, limits, spent
        self._kept = kept
        self._seed, self._memory, self._monitor = seed, memory, monitor
        self._players: _Players | None = None

    def __call__(self, batch: tuple[int, int]) -> Simulation:
        """Simulate one batch; its random numbers depend on the seed and its number only."""
        number, count = batch
        model = self._model
        if self._monitor is None:
            self._monitor = ResourceMonitor(None, self._memory)
        monitor = self._monitor
        if self._players is None:
            walk = prepare(model, self._policy, self._limits, spent=self._spent, monitor=monitor)
            monitor.reserve(_BYTES_PER_OUTCOME * model.n_outcomes, "tables of outcomes")
            self._players = _Players(walk)
        walk = self._players.walk
        size = count * (_BYTES_PER_EPISODE + 3 * walk.node_bytes)
        traced = self._kept if number == 0 else 0
        kept = model.horizon * (len(walk.ledgers) * 16 * min(count, _MOST_KEPT) + _BYTES_PER_TRACE * traced)
        sequence = np.random.SeedSequence(self._seed, spawn_key=(number,) if number else ())
        with monitor.borrowed(size + 2 * kept, f"{count:,} episodes"):
            return self._players.play(count, np.random.default_rng(sequence), traced)


def _joined(batches: list[Simulation]) -> Simulation:
    """Join several simulations."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].distributions
    return Simulation(
        np.concatenate([each.rewards for each in batches]),
        {name: max(each.max_spent[name] for each in batches) for name in names},
        sum(each.violations for each in batches),
        {
            name: tuple(map(_together, zip(*(each.distributions[name] for each in batches), strict=True)))
            for name in names
        },
        trajectories=batches[0].trajectories,
    )


def _together(parts: tuple[Distribution, ...]) -> Distribution:
    values, position = np.unique(np.concatenate([each.values for each in parts]), return_inverse=True)
    counts = np.bincount(position, np.concatenate([each.counts for each in parts]), len(values))
    return _thinned(values, counts.astype(np.int64))


class _Players:
    """Simulates all episodes of a batch at once; an episode is a node of a layer."""

    rng: np.random.Generator
    episodes: int

    def __init__(self, walk: Walk) -> None:
        self.walk, self.model = walk, walk.model
        self.draw = _Draw(walk.model.outcome_indptr, walk.model.probability)
        self.scales = [_scale(ledger, walk.model.horizon) for ledger in walk.ledgers]
        self.counts = {r: self._count_of(r) for r, ledger in enumerate(walk.ledgers) if ledger.counted}

    def play(self, episodes: int, rng: np.random.Generator, traced: int = 0) -> Simulation:
        """Simulate a batch of episodes, and keep the first `traced` of them step by step."""
        walk, model = self.walk, self.model
        self.episodes, self.rng = episodes, rng
        state = walk.end(0, self._first_states())
        scaled = [_rescale(ledger, scale) for ledger, scale in zip(walk.ledgers, self.scales, strict=True)]
        fine = [ledger.start(self.episodes) for ledger in scaled]
        rewards, broken = np.zeros(self.episodes), np.zeros(self.episodes, bool)
        violated = np.zeros(self.episodes, bool)
        seen: list[list[Distribution]] = [[] for _ in walk.ledgers]
        most: list[Any] = [None] * len(walk.ledgers)
        traces: list[_Trace] = []
        state = self._finish(state, rewards, broken)
        for step in range(model.horizon):
            walk.monitor.check_time()
            row = self._decide(step, state, fine, broken, violated)
            still = row < 0
            moving = np.flatnonzero(~still) if still.any() else slice(None)
            rows = row[moving]
            outcome = self.draw(rows, self.rng.random(len(rows)))
            rewards[moving] += model.row_reward[rows]
            state[moving] = model.next_state[outcome]
            costs: list[NDArray[Any]] = []
            for r, ledger in enumerate(walk.ledgers):
                costs.append(self._counted(r, outcome, costs) if ledger.counted else self._costs(r, outcome))
                fine[r][moving] = scaled[r].clamp(fine[r][moving] + costs[r])
                broken |= (scaled[r].excess(step, fine[r], fine[r]) > 0).astype(bool)
                top = fine[r].max()
                most[r] = top if most[r] is None else max(most[r], top)
                seen[r].append(_distribution(fine[r], scaled[r].unit))
            if traced:
                traces.append(_Trace.of(row, outcome, costs, fine, traced))
            violated |= self._violates(step, fine)
            state[still] = walk.ended
            state = self._finish(walk.end(step + 1, state), rewards, broken)
        names = [ledger.name for ledger in walk.ledgers if not ledger.counted]
        return Simulation(
            rewards,
            {name: int(most[r]) * scaled[r].unit for r, name in enumerate(names)},
            int(broken.sum()),
            {name: tuple(seen[r]) for r, name in enumerate(names)},
            trajectories=_joined_traces(model, traces, names, [each.unit for each in scaled]) if traced else None,
        )

    def _first_states(self) -> NDArray[np.int64]:
        """Return the first state of each episode."""
        states = self.model.start_states
        if len(states) == 1:
            return np.repeat(states, self.episodes)
        draw = _Draw(np.array([0, len(states)]), self.model.start_probability)
        return states[draw(np.zeros(self.episodes, np.int64), self.rng.random(self.episodes))]

    def _finish(
        self, state: NDArray[np.int64], rewards: NDArray[np.float64], broken: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Take account of the episodes that end right now, and return the states with these as ended."""
        if not self.model.has_end_values:
            return state
        now, where = self.walk.ending(state)
        if self.model.end_reward is not None:
            rewards[now] += self.model.end_reward[where]
        broken |= self.walk.goes_astray(state)
        return np.minimum(state, self.walk.ended)

    def _decide(
        self,
        step: int,
        state: NDArray[np.int64],
        fine: list[NDArray[Any]],
        broken: NDArray[np.bool_],
        violated: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Return the row that each episode takes; `NO_OUTCOME` for one that has ended or stops here."""
        coarse = self._coarse(fine)
        keys, node = compact(pack([state, *(coarse[r] for r, _ in self.walk.tracked), violated.astype(np.int64)]))
        example = np.zeros(len(keys), np.int64)
        example[node] = np.arange(len(node))
        spent = [each[example] for each in coarse]
        empty = np.zeros(0, np.int64)
        layer = PolicyLayer(step, state[example], np.zeros(0), spent, spent, [], empty, empty, violated[example])
        choices, rows, missing = self.walk.choices(layer)
        if len(missing):
            innocent = node[np.isin(node, missing) & ~broken]
            if len(innocent):
                raise no_decision(self.walk, layer, int(innocent[0]))
        counts = np.bincount(choices.node, minlength=len(keys))
        if not len(rows) or counts.max() == 1:
            row_of = np.full(len(keys), NO_OUTCOME, np.int64)
            row_of[choices.node] = rows
            return row_of[node]
        chosen = np.full(self.episodes, NO_OUTCOME, np.int64)
        deciding = np.flatnonzero((counts > 0)[node])
        draw = _Draw(np.concatenate([[0], np.cumsum(counts)]), choices.probability)
        chosen[deciding] = rows[draw(node[deciding], self.rng.random(len(deciding)))]
        return chosen

    def _coarse(self, fine: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the amounts spent, in ticks of the ledgers."""
        return [spent if scale == 1 else spent // scale for spent, scale in zip(fine, self.scales, strict=True)]

    def _violates(self, step: int, fine: list[NDArray[Any]]) -> NDArray[np.bool_]:
        """Return whether each episode breaks one of the own limits of an `UntilViolationPolicy`."""
        if not isinstance(self.walk.policy, UntilViolationPolicy):
            return np.zeros(self.episodes, bool)
        coarse, empty = self._coarse(fine), np.zeros(0, np.int64)
        all_episodes = np.arange(self.episodes)
        layer = PolicyLayer(step + 1, all_episodes, np.zeros(0), coarse, coarse, [], empty, empty)
        return self.walk.policy.breaks_limits(step, self.walk.ticks(layer, all_episodes))

    def _costs(self, r: int, outcome: NDArray[np.int64]) -> NDArray[Any]:
        """Return the cost of each outcome in fine ticks; continuous costs are drawn."""
        ledger, scale = self.walk.ledgers[r], self.scales[r]
        costs: NDArray[Any] = ledger.high_O[outcome]
        if not ledger.continuous:
            return costs
        assert self.model.distribution_DO is not None
        costs = costs * scale
        distributions = self.model.distribution_DO[r, outcome]
        unit = float(ledger.unit) / scale
        for i in np.unique(distributions[distributions != NO_DISTRIBUTION]):
            distribution, at = self.model.distributions[i], np.flatnonzero(distributions == i)
            ticks = np.rint(distribution.sample(len(at), self.rng) / unit)
            most = int(distribution.high / ledger.unit) * scale
            least = None if distribution.low is None else int(distribution.low / ledger.unit) * scale
            whole = (
                np.array([int(x) for x in ticks.tolist()], object) if costs.dtype == object else ticks.astype(np.int64)
            )
            costs[at] = np.clip(whole, least, most)
        return costs

    def _count_of(self, r: int) -> _Count:
        """Return how the counted costs of a resource are computed from the drawn ones."""
        policy, ledger = self.walk.policy, self.walk.ledgers[r]
        assert isinstance(policy, NodeTable)
        d, of = policy.resources.index(ledger.name), self.model.resource_index(ledger.name)
        drawn = self.walk.ledgers[of]
        if not drawn.continuous:
            return _Count(of, 1, up=False, least=0)
        length = int(ledger.unit / drawn.unit) * self.scales[of]
        before = {each.name: each.initial * each.unit for each in self.walk.ledgers if not each.counted}
        return _Count(of, length, policy.counting[d] == "up", least_count(self.model, policy, d, before))

    def _counted(self, r: int, outcome: NDArray[np.int64], costs: list[NDArray[Any]]) -> NDArray[np.int64]:
        """Return the ticks that the policy counts for each outcome, given the costs of all resources in fine ticks."""
        count, counts = self.counts[r], self.walk.ledgers[r].high_O[outcome]
        if not self.walk.ledgers[count.of].continuous:
            return counts
        assert self.model.distribution_DO is not None
        at = np.flatnonzero(self.model.distribution_DO[count.of, outcome] != NO_DISTRIBUTION)
        counts[at] = count(costs[count.of][at])
        return counts


@dataclass(frozen=True)
class _Trace:
    """One step of some episodes: row and outcome, negative where an episode had ended, and amounts in fine ticks."""

    row: NDArray[np.int64]
    outcome: NDArray[np.int64]
    cost: list[NDArray[Any]]
    spent: list[NDArray[Any]]

    @classmethod
    def of(
        cls,
        row: NDArray[np.int64],
        outcome: NDArray[np.int64],
        costs: list[NDArray[Any]],
        fine: list[NDArray[Any]],
        traced: int,
    ) -> _Trace:
        """Return the step of the first episodes; outcomes and costs are those of the episodes that move."""
        first = row[:traced]
        moving, n_moving = first >= 0, int((first >= 0).sum())
        drawn = np.full(len(first), NO_OUTCOME, np.int64)
        drawn[moving] = outcome[:n_moving]
        paid = []
        for cost in costs:
            each = np.zeros(len(first), cost.dtype)
            each[moving] = cost[:n_moving]
            paid.append(each)
        return cls(first.copy(), drawn, paid, [spent[:traced].copy() for spent in fine])


def _joined_traces(model: CMDP, traces: list[_Trace], names: list[str], units: list[Fraction]) -> Trajectories:
    def amounts(columns: list[NDArray[Any]], r: int) -> list[list[Fraction]]:
        return [[int(ticks) * units[r] for ticks in column.tolist()] for column in columns]

    return Trajectories(
        model,
        np.stack([each.row for each in traces]),
        np.stack([each.outcome for each in traces]),
        {name: amounts([each.cost[r] for each in traces], r) for r, name in enumerate(names)},
        {name: amounts([each.spent[r] for each in traces], r) for r, name in enumerate(names)},
    )


@dataclass(frozen=True)
class _Count:
    """Counts the drawn costs of ledger `of` in units of `length` fine ticks, rounded up or down.

    Counts below `least` are replaced by it: the policy does not distinguish them, and they might not fit 64 bits.
    """

    of: int
    length: int
    up: bool
    least: int

    def __call__(self, ticks: NDArray[Any]) -> NDArray[np.int64]:
        counts = -(-ticks // self.length) if self.up else ticks // self.length
        result: NDArray[np.int64] = np.maximum(counts, self.least).astype(np.int64)
        return result


class _Draw:
    """Draws one entry of each of many pieces of a CSR array, by probability, with guide tables."""

    def __init__(self, indptr: NDArray[np.int64], probability: NDArray[np.float64]) -> None:
        filled = np.diff(indptr) > 0
        self.first, self.size = indptr[:-1], np.diff(indptr)
        self.total = _running_total(probability, self.first, self.size)
        owner = np.repeat(np.arange(len(self.size)), self.size)
        last = (self.first + self.size - 1)[filled]
        # the last entry is always reached, even if the probabilities add up to less than 1 in floating point
        self.total[last] = np.inf
        target = (np.arange(len(owner)) - self.first[owner]) / self.size[owner]
        self.guide = self.first[owner]
        self._climb(self.guide, target)

    def _climb(self, place: NDArray[np.int64], target: NDArray[np.float64]) -> None:
        """Advance each place to the first entry whose cumulative probability exceeds its target."""
        moving = np.flatnonzero(self.total[place] <= target)
        while len(moving):
            place[moving] += 1
            moving = moving[self.total[place[moving]] <= target[moving]]

    def __call__(self, pieces: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        cell = self.first[pieces] + (uniform * self.size[pieces]).astype(np.int64)
        place = self.guide[cell]
        self._climb(place, uniform)
        return place


def _running_total(
    probability: NDArray[np.float64], first: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.float64]:
    total = probability.copy()
    for k in range(1, int(size.max()) if len(size) else 0):
        at = first[size > k] + k
        total[at] += total[at - 1]
    return total


def _scale(ledger: Ledger, horizon: int) -> int:
    """Return the number of fine ticks per tick, chosen such that rounding of continuous draws is negligible."""
    if not ledger.continuous:
        return 1
    low = [nearest_float(x) for x in ledger.low_O.tolist() if x != -np.inf]
    reach = max([abs(nearest_float(x)) for x in ledger.high_O.tolist()] + [abs(x) for x in low] + [1.0]) * (horizon + 1)
    limits = [abs(limit) for limit in (*ledger.upper, *ledger.lower) if limit is not None]
    fixed = [abs(end) for end in (ledger.initial, ledger.floor, ledger.ceiling) if end is not None]
    reach += sum(map(nearest_float, fixed))
    room = 2.0**60 / max([reach, *map(nearest_float, limits)])
    return 2 ** max(0, min(40, int(np.log2(room)))) if room > 1 else 1


def _rescale(ledger: Ledger, scale: int) -> Ledger:
    """Return a ledger with limits and fixed amounts in fine ticks; costs stay as they are."""
    if scale == 1:
        return ledger

    def fine(ticks: int | None) -> int | None:
        return None if ticks is None else ticks * scale

    return replace(
        ledger,
        unit=ledger.unit / scale,
        upper=tuple(map(fine, ledger.upper)),
        lower=tuple(map(fine, ledger.lower)),
        initial=ledger.initial * scale,
        floor=fine(ledger.floor),
        ceiling=fine(ledger.ceiling),
    )


def _distribution(ticks: NDArray[Any], unit: Fraction) -> Distribution:
    if ticks.dtype == object:
        values, counts = np.unique(ticks, return_counts=True)
        amounts = np.array([nearest_float(value * unit) for value in values.tolist()])
    else:
        values, position = compact(ticks)
        counts = np.bincount(position, minlength=len(values))
        amounts = values.astype(np.float64) * nearest_float(unit)
    return _thinned(amounts, counts)


def _thinned(amounts: NDArray[np.float64], counts: NDArray[np.int64]) -> Distribution:
    """Return a distribution of at most `_MOST_KEPT` values."""
    if len(amounts) > _MOST_KEPT:
        total = np.cumsum(counts)
        ranks = np.linspace(1, total[-1], _MOST_KEPT).astype(np.int64)
        kept, position = np.unique(np.searchsorted(total, ranks), return_inverse=True)
        amounts, counts = amounts[kept], np.bincount(position)
    return Distribution(amounts, counts.astype(np.int64))
