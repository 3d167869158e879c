"""The loop of learning: plan optimistically, play until a count has doubled, and repeat until the gap closes.

The state of a learner is its counts, its generator and its last plan. Saved in a checkpoint and read back, it continues
exactly where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from solvent.core.checkpoint import Checkpoint
from solvent.core.interrupt import HELD, held_back, take_interrupt
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import LimitError
from solvent.learning.bonus import Bonus, BonusName
from solvent.learning.counts import Counts
from solvent.learning.graph import SafeGraph
from solvent.learning.kernels import REPLAN, NodeValues, sweep
from solvent.learning.result import LearnProgress, LearnResult
from solvent.learning.runners import EpisodeRunner, NewOutcome
from solvent.learning.support import LearnedSupport
from solvent.model.cmdp import CMDP
from solvent.solvers.solution import Status

#: With a time limit, longer episodes than this many steps are played in smaller chunks between two checks of the time.
_CHUNK_STEPS = 20
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
    random_rewards: bool
    seed: int


@dataclass(frozen=True, eq=False)
class _PlanBuffers:
    """What plans on the same graph have in common, kept from one plan to the next."""

    graph: SafeGraph
    bonus: Bonus
    values: NodeValues

    @classmethod
    def of(cls, graph: SafeGraph, settings: LearnSettings, *, known: bool) -> _PlanBuffers:
        horizon, n_nodes = graph.problem.model.horizon, graph.mdp.n_nodes
        bonus = Bonus(settings.bonus, settings.delta, settings.bonus_scale, horizon, graph.mdp.n_rows, known)
        return cls(graph, bonus, NodeValues(np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)))


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
    monitor : ResourceMonitor
        Time and memory limits.
    counts : Counts
    row_N : ndarray of int64, shape (N,)
        The row that the last plan takes at each node.
    rng : ndarray of uint64, shape (1,)
        State of the random generator.
    episodes, violations : int
        Number of episodes played, and how many of them broke a limit.
    due : bool
        Whether a plan is to be made before the next episode.
    history : list of LearnProgress
        One entry per plan.
    """

    settings: LearnSettings
    origin: CMDP | None
    graph: SafeGraph
    runner: EpisodeRunner
    learned_support: LearnedSupport | None = None
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)
    counts: Counts = field(init=False)
    row_N: NDArray[np.int64] = field(init=False)
    rng: NDArray[np.uint64] = field(init=False)
    episodes: int = 0
    violations: int = 0
    due: bool = True
    history: list[LearnProgress] = field(default_factory=list)
    _buffers: _PlanBuffers | None = None

    def __post_init__(self) -> None:
        self.counts = Counts.of(self.graph, pool=self.settings.pool)
        self.row_N = np.zeros(self.graph.mdp.n_nodes, np.int64)
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
        closed, stopped, limited, unsaved = False, "", "", ""
        saved = self.episodes
        with open_progress(progress) as bar, held_back(polled=True):
            while self.graph.feasible:
                if self.due:
                    plan = self._plan()
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
                try:
                    self._play(min(self._chunk, max_episodes - self.episodes))
                except LimitError as error:
                    # the graph with the new outcome does not fit; what was learned before is kept
                    stopped, limited, checkpoint = str(error), str(error), None
                    break
                if checkpoint is not None and self.episodes - saved >= checkpoint_every:
                    self._save(checkpoint)
                    saved = self.episodes
        if checkpoint is not None:
            self._save(checkpoint)
            unsaved = checkpoint.error
        if self.graph.feasible:
            result = self._result(closed=closed, stopped=stopped)
            result = replace(result, limit_reached=bool(limited) and not closed)
        else:
            result = LearnResult.infeasible(self.episodes, self.violations, tuple(self.history))
        if not unsaved:
            return result
        message = f"{result.message}; the checkpoint could not be written: {unsaved}"
        return replace(result, message=message, checkpoint_error=unsaved)

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
        progress = self._sweep(self.rng, self.row_N)
        self.counts.planned_K[:] = self.counts.count_K
        return progress

    def _sweep(self, rng: NDArray[np.uint64], out_row: NDArray[np.int64]) -> LearnProgress:
        graph, counts, settings = self.graph, self.counts, self.settings
        known, (low, high) = self.learned_support is None, settings.reward_range
        if self._buffers is None or self._buffers.graph is not graph:
            self._buffers = _PlanBuffers.of(graph, settings, known=known)
        values = self._buffers.values
        weights = self._buffers.bonus.weights(counts.count_K, counts.size_K)
        estimates = counts.estimates(high - low, random_rewards=settings.random_rewards)
        sweep(counts.graph_arrays(graph), estimates, weights, low, high, known, rng, values, out_row)
        upper, gap = float(values.up_N[0]), float(values.gap_N[0])
        return LearnProgress(self.episodes, gap, upper - gap, upper, self.violations, graph.mdp.n_nodes - 1)

    def _play(self, most: int) -> None:
        """Play at most `most` episodes, and count them."""
        batch = self.runner.play(
            self.graph, self.counts, self.row_N, self.rng, self.episodes, most,
            every_episode=self.settings.replan == "episode", pause=self._should_pause,
        )  # fmt: skip
        self.episodes += batch.episodes
        self.violations += batch.violations
        self.due = batch.end == REPLAN
        if batch.new_outcome is not None:
            self._add_outcome(batch.new_outcome)

    def _should_pause(self) -> bool:
        """Return whether Ctrl-C was pressed or the time limit is reached."""
        return HELD.error is not None or (self.monitor.left is not None and self.monitor.left <= 0)

    def _add_outcome(self, new: NewOutcome) -> None:
        """Add an outcome to the learned support, and rebuild the graph."""
        assert self.learned_support is not None
        first = self.learned_support.add(new.row, new.next_state, new.costs)
        self.runner.add_outcome(new.row, new.next_state, new.costs)
        self.rebuild(new.row, first=first)
        self.counts.add(new.row, self.learned_support.newest(new.row), new.reward)
        self.due = True

    def rebuild(self, row: int, *, first: bool) -> None:
        """Rebuild the graph for the current support, in which a row has one more outcome than in the counts."""
        assert self.learned_support is not None
        # only the memory limit applies here: the time is checked between episodes, where a result can be returned
        self.graph = SafeGraph.of(self.learned_support.problem(), ResourceMonitor(None, self.monitor.bytes))
        self.counts = self.counts.regrown(self.graph, row, first=first)
        self.row_N = np.zeros(self.graph.mdp.n_nodes, np.int64)

    def _result(self, *, closed: bool, stopped: str) -> LearnResult:
        settings, final, row_N = self.settings, self.history[-1], self.row_N
        if not closed:  # plan with all counts, on a copy of the generator, so that a resumed run is not affected
            row_N = self.row_N.copy()
            final = self._sweep(self.rng.copy(), row_N)
            closed = final.gap <= settings.epsilon
        theory = settings.bonus == "theory"
        sure = f"with probability at least {1 - settings.delta:g}" if theory else "by estimate, which is no guarantee"
        if closed:
            message = f"within {settings.epsilon:g} of the optimum, {sure}"
        else:
            reason = f"{stopped} after" if stopped else "stopped after"
            hint = "" if stopped else "; raise max_episodes or epsilon"
            message = f"{reason} {self.episodes:,} episodes with a gap of {final.gap:.4g}, {sure}{hint}"
        graph, chosen, support = self.graph, row_N.copy(), self.learned_support
        origin = graph.problem.model if self.origin is None else self.origin
        n_real = None if support is None else len(support.states)
        return LearnResult(
            status=Status.WITHIN_GAP if closed else Status.LIMIT,
            value_lower=final.value_lower,
            value_upper=final.value_upper,
            gap=final.gap,
            guaranteed=theory,
            episodes=self.episodes,
            violations=self.violations,
            history=tuple(self.history),
            message=message,
            _make_policy=lambda: graph.policy(chosen, origin, n_real),
        )
