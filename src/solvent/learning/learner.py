"""The loop of learning: plan optimistically, play until a count has doubled, and repeat until the gap closes.

The state of a learner is its counts, its generator and its last plan. Saved in a checkpoint and read back, it continues
exactly where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Checkpoint
from solvent.core.interrupt import HELD, held_back, take_interrupt
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import LimitError
from solvent.learning.bonus import Bonus, BonusName, TheoryBonus
from solvent.learning.counts import Counts
from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import PLAYED, POLICY, Ranges
from solvent.learning.planner import Bounds, ConfidencePlanner, Planner, TheoryPlanner, value_ranges
from solvent.learning.result import LearnProgress, LearnResult
from solvent.learning.runners import EpisodeRunner
from solvent.learning.starts import without_draw
from solvent.learning.support import LearnedSupport
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP
from solvent.solvers.solution import Status

#: With a time limit, longer episodes than this many steps are played in smaller chunks between two checks of the time.
_CHUNK_STEPS = 20
#: Rows of the graph that are planned with, and built again, for each step that was played since the last time.
_ROWS_PLANNED, _ROWS_BUILT = 200, 50
#: Growth of the number of episodes that is needed for building the graph again, and after which it always is.
_LEAST_GROWTH, _GROWTH = 1.1, 1.25
#: Of this many plans, one computes the greatest lower bounds even if the gap is far from closed.
_CAREFUL_EVERY = 4
#: Called after every plan; learning stops if it returns True.
Callback = Callable[[LearnProgress], object]
Replan = Literal["doubling", "episode"]


@dataclass(frozen=True)
class LearnSettings:
    """Settings of a learner, as the parameters of `learn`; a resumed run must have the same, except for `epsilon`.

    Attributes
    ----------
    epsilon, delta : float
    pool : bool
    bonus : {"practical", "theory"}
    bonus_scale : float
    replan : {"doubling", "episode"}
    reward_range : (float, float)
    return_range : (float, float) or None
    random_rewards : bool
    seed : int
    """

    epsilon: float
    delta: float
    pool: bool
    bonus: BonusName
    bonus_scale: float
    replan: Replan
    reward_range: tuple[float, float]
    return_range: tuple[float, float] | None
    random_rewards: bool
    seed: int


@dataclass(eq=False)
class Learner:
    """A run of learning.

    Attributes
    ----------
    settings : LearnSettings
    origin : CMDP or None
        The model that the policy is for: the user's model or known support; None for the model of a learned support.
    graph : SafeGraph
    runner : EpisodeRunner
        Plays episodes.
    learned_support : LearnedSupport or None
        The support, if it is learned.
    rewards_by_row : bool
        Whether all outcomes of a row have the same reward, as in a model.
    drawn : bool
        Whether the first step of the graph draws the first state (`solvent.learning.starts`).
    monitor : ResourceMonitor
        Time and memory limits.
    counts : Counts
    row_PN : ndarray of int64, shape (3, N)
        The rows of the last plan: exploring, optimistic, and those of the policy.
    rng : ndarray of uint64, shape (1,)
        State of the random generator.
    episodes, violations : int
        Number of episodes played, and how many of them broke a limit.
    due : bool
        Whether a count that has doubled since the last plan was raised, or an outcome was new, in the last episode.
    built : int
        Number of episodes when the graph was built.
    history : list of LearnProgress
        One entry per plan.
    returns : list of ndarray of float64
        Sums of rewards of the episodes, in batches.
    costs : list of ndarray of float64, shape (E, D)
        What the episodes spent, in batches.
    model_name : str
        Name of the model or the environment; may be empty.
    limits : dict of str to str
        The limits in words, by resource.
    """

    settings: LearnSettings
    origin: CMDP | None
    graph: SafeGraph
    runner: EpisodeRunner
    learned_support: LearnedSupport | None = None
    rewards_by_row: bool = False
    drawn: bool = False
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)
    counts: Counts = field(init=False)
    row_PN: NDArray[np.int64] = field(init=False)
    rng: NDArray[np.uint64] = field(init=False)
    episodes: int = 0
    violations: int = 0
    due: bool = True
    built: int = 0
    history: list[LearnProgress] = field(default_factory=list)
    returns: list[NDArray[np.float64]] = field(default_factory=list)
    costs: list[NDArray[np.float64]] = field(default_factory=list)
    model_name: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    _planner: Planner | None = None

    def __post_init__(self) -> None:
        self.counts = Counts.of(self.graph, pool=self.settings.pool)
        self.row_PN = np.zeros((3, self.graph.n_nodes), np.int64)
        self.rng = np.random.SeedSequence(self.settings.seed).generate_state(1, np.uint64).astype(np.uint64)

    def run(
        self,
        max_episodes: int,
        *,
        callback: Callback | None = None,
        progress: ProgressLike = False,
        checkpoint: Checkpoint | None = None,
        checkpoint_every: int = 100_000,
    ) -> LearnResult:
        """Learn until the gap is at most epsilon, a limit is reached, or the callback or Ctrl-C stops the run.

        Parameters are those of `learn`.
        """
        closed, stopped, limited, unsaved = self._is_closed, "", "", ""
        saved = self.episodes
        with open_progress(progress) as bar, held_back(polled=True):
            while self.graph.feasible:
                if self._should_plan():
                    try:
                        if self._should_rebuild():
                            self.rebuild()
                            continue
                        plan = self._plan()
                        if plan.gap <= self.settings.epsilon and self._has_pending:
                            self.rebuild()
                            continue
                    except LimitError as error:
                        # the graph with new outcomes does not fit; what was learned before is kept
                        stopped, limited, checkpoint = str(error), str(error), None
                        break
                    self.history.append(plan)
                    self.due = False
                    closed = plan.gap <= self.settings.epsilon
                    if callback is not None and callback(plan) is True:
                        stopped = "stopped by the callback"
                bar.report("learning", self.episodes, max_episodes, {"gap": self.history[-1].gap}, unit="episode")
                if checkpoint is not None and HELD.error is not None:
                    self._save(checkpoint)  # SIGTERM ends the process
                if take_interrupt():
                    stopped = "interrupted"
                if self.monitor.left is not None and self.monitor.left <= 0:
                    stopped = limited = f"the time limit of {self.monitor.seconds:g} s was reached"
                if closed or stopped or self.episodes >= max_episodes:
                    break
                self._play(min(self._chunk, max_episodes - self.episodes))
                if checkpoint is not None and self.episodes - saved >= checkpoint_every:
                    self._save(checkpoint)
                    saved = self.episodes
        if checkpoint is not None:
            self._save(checkpoint)
            unsaved = checkpoint.error
        if self.graph.feasible:
            result = self._result(closed=closed, stopped=stopped, limited=bool(limited))
            result = replace(result, limit_reached=bool(limited) and not closed)
        else:
            result = LearnResult.infeasible(
                self.episodes, self.violations, tuple(self.history), self.episode_returns, self.episode_costs,
                self.graph.problem.limits.resources, self._why_infeasible,
            )  # fmt: skip
        result = replace(result, model_name=self.model_name, limits=dict(self.limits))
        if not unsaved:
            return result
        message = f"{result.message}; the checkpoint could not be written: {unsaved}"
        return replace(result, message=message, checkpoint_error=unsaved)

    @property
    def _why_infeasible(self) -> str:
        """The message of a result without a policy."""
        known, problem = "under all outcomes that are known to be possible", self.graph.problem
        if "up" not in problem.counting:
            return f"no policy keeps the budget {known}"
        named = zip(problem.lattice.resources, problem.lattice.units, strict=True)
        units = " and ".join(f"{short_amount(unit)} ({name})" for name, unit in named)
        return (
            f"no policy keeps the budget {known}, with costs rounded up to multiples of {units}; there may be one with "
            "finer rounding: pass a smaller epsilon_cost=..."
        )

    @property
    def episode_returns(self) -> NDArray[np.float64]:
        """Sums of rewards of all episodes, shape (E,)."""
        return np.concatenate([np.empty(0), *self.returns])

    @property
    def episode_costs(self) -> NDArray[np.float64]:
        """What all episodes spent, shape (E, D)."""
        return np.concatenate([np.empty((0, len(self.graph.problem.limits.resources))), *self.costs])

    @property
    def _chunk(self) -> int:
        """Maximum number of episodes between two checks of the time; it does not affect what is learned."""
        chunk = self.runner.chunk
        if self.monitor.seconds is None:
            return chunk
        return min(chunk, max(1, chunk * _CHUNK_STEPS // self.graph.problem.model.horizon))

    def _save(self, checkpoint: Checkpoint) -> None:
        from solvent.learning.checkpoint import section_of, state_of

        section_of(checkpoint).save(*state_of(self))

    def _plan(self) -> LearnProgress:
        """Plan with all that was counted so far; return the progress."""
        progress = self._progress(self._bounds(self.rng, self.row_PN))
        self.counts.planned_K[:] = self.counts.count_K
        return progress

    def _progress(self, bounds: Bounds) -> LearnProgress:
        upper, gap, n_nodes = bounds.upper, bounds.gap, self.graph.n_nodes - 1
        return LearnProgress(self.episodes, gap, upper - gap, upper, self.violations, n_nodes)

    def _bounds(self, rng: NDArray[np.uint64], out_row_PN: NDArray[np.int64]) -> Bounds:
        """Write the rows of a plan; return bounds at the start."""
        if self._planner is None or self._planner.graph is not self.graph:
            self._planner = self._make_planner()
        careful = len(self.history) % _CAREFUL_EVERY == 0
        return self._planner.plan(self.counts, self.settings.epsilon, rng, out_row_PN, careful=careful)

    def _make_planner(self) -> Planner:
        graph, settings, known = self.graph, self.settings, self.learned_support is None
        horizon, (low, high) = graph.problem.model.horizon, settings.reward_range
        if settings.bonus == "theory":
            return TheoryPlanner(graph, TheoryBonus(settings.delta, horizon, graph.n_rows))
        width = high - low if settings.random_rewards else 0.0
        bonus = Bonus(settings.delta, len(self.counts.count_K), known, width)
        caps = value_ranges(settings.reward_range, settings.return_range, horizon, drawn=self.drawn)
        first = int(self.counts.row_key[0]) if self.drawn and graph.n_rows else -1  # nodes begin with the first one
        ranges = Ranges(*caps, low, high, known, settings.random_rewards, self.rewards_by_row, first)
        return ConfidencePlanner(graph, bonus, ranges, settings.bonus_scale)

    def _play(self, most: int) -> None:
        """Play at most `most` episodes, and count them."""
        batch = self.runner.play(
            self.graph, self.counts, self.row_PN, self.rng, self.episodes, most,
            every_episode=self.settings.replan == "episode", pause=self._should_pause,
        )  # fmt: skip
        self.episodes += batch.episodes
        self.violations += batch.violations
        self.returns.append(batch.returns)
        self.costs.append(batch.costs)
        self.due = batch.end != PLAYED  # not later: where a run is interrupted must not decide when plans are made
        if batch.new_outcomes:
            assert self.learned_support is not None
            self.learned_support.postpone(batch.new_outcomes)

    def _should_plan(self) -> bool:
        """Return whether to plan before the next episode.

        On a large graph, plans are made only after a number of steps that is proportional to the number of rows, so
        that planning does not take much longer than playing.
        """
        if not self.due:
            return False
        if not self.history or self.settings.replan == "episode" or self._must_rebuild:
            return True
        if self.built > self.history[-1].episodes:  # the rows of the last plan are those of another graph
            return True
        last = self.history[-1].episodes
        return self.episodes >= self.runner.plan_growth * last and self._is_worthwhile(last, _ROWS_PLANNED)

    def _should_rebuild(self) -> bool:
        """Return whether to rebuild the graph before the next plan, so that it has all outcomes seen."""
        if not self._has_pending:
            return False
        if self._must_rebuild or self.episodes >= _GROWTH * self.built:
            return True
        return self.episodes >= _LEAST_GROWTH * self.built and self._is_worthwhile(self.built, _ROWS_BUILT)

    def _is_worthwhile(self, since: int, rows_per_step: int) -> bool:
        """Return whether the steps played since an episode are enough for work on all rows."""
        steps = (self.episodes - since) * self.graph.problem.model.horizon
        return steps * rows_per_step >= self.graph.n_rows

    @property
    def _is_closed(self) -> bool:
        """Whether the last plan, of a run that is resumed, has closed the gap, and nothing is to be planned."""
        known = bool(self.history) and not self.due and not self._has_pending
        return known and self.history[-1].gap <= self.settings.epsilon

    @property
    def _has_pending(self) -> bool:
        return self.learned_support is not None and bool(self.learned_support.pending)

    @property
    def _must_rebuild(self) -> bool:
        """Whether outcomes are pending that could break a limit again: those of actions without a bound."""
        return self._has_pending and self.learned_support is not None and not self.learned_support.is_bounded

    def _should_pause(self) -> bool:
        """Return whether Ctrl-C was pressed or the time limit is reached."""
        return HELD.error is not None or (self.monitor.left is not None and self.monitor.left <= 0)

    def rebuild(self) -> None:
        """Add pending outcomes to the learned support, rebuild the graph, and count them.

        Raises
        ------
        LimitError
            If the graph does not fit into the memory limit. The learner can then only return its result.
        """
        support = self.learned_support
        assert support is not None
        kept = np.array([len(a) + len(b) for a, b in zip(support.never, support.outcomes, strict=True)], np.int64)
        taken = support.pending
        for each in taken:
            if support.add(each.row, each.next_state, each.costs):
                self.runner.add_outcome(each.row, each.next_state, each.costs)
        # only the memory limit applies here: the time is checked between episodes, where a result can be returned
        self.graph = SafeGraph.of(support.problem(), ResourceMonitor(None, self.monitor.bytes))
        self.counts = self.counts.regrown(self.graph, kept)
        support.forget_pending()
        for each in taken:
            self.counts.add(each.row, support.place(each), each.reward)
        self.row_PN = np.zeros((3, self.graph.n_nodes), np.int64)
        self.built = self.episodes

    def _result(self, *, closed: bool, stopped: str, limited: bool) -> LearnResult:
        settings, final, row_PN = self.settings, self.history[-1], self.row_PN
        if not closed:  # plan with all counts, on a copy of the generator, so that a resumed run is not affected
            if self._has_pending and not limited:
                with suppress(LimitError):
                    self.rebuild()
            row_PN = self.row_PN.copy()
            final = self._progress(self._bounds(self.rng.copy(), row_PN))
            closed = final.gap <= settings.epsilon
        proved = self.learned_support is None
        sure = f"with probability at least {1 - settings.delta:g}" if proved else "by estimate, which is no guarantee"
        if closed:
            message = f"within {settings.epsilon:g} of the optimum, {sure}"
        else:
            reason = f"{stopped} after" if stopped else "stopped after"
            hint = "" if stopped else "; raise max_episodes or epsilon"
            message = f"{reason} {self.episodes:,} episodes with a gap of {final.gap:.4g}, {sure}{hint}"
        graph, chosen, support = self.graph, row_PN[POLICY].copy(), self.learned_support
        origin, drawn = self.origin, self.drawn
        if origin is None:
            origin = graph.problem.model
            if support is not None and drawn:
                firsts = [support.states[after] for after, _ in support.outcomes[support.rows(0, support.first)[0]]]
                origin = without_draw(origin, firsts or [support.states[0]])
        n_real = None if support is None else len(support.states) - drawn
        return LearnResult(
            status=Status.WITHIN_GAP if closed else Status.LIMIT,
            value_lower=final.value_lower,
            value_upper=final.value_upper,
            gap=final.gap,
            guaranteed=proved,
            episodes=self.episodes,
            violations=self.violations,
            history=tuple(self.history),
            message=message,
            returns=self.episode_returns,
            costs=self.episode_costs,
            resources=graph.problem.limits.resources,
            _make_policy=lambda: graph.policy(chosen, origin, n_real, drawn=drawn),
        )
