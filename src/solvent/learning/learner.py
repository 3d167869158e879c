"""The loop: plan with optimism, play by the plan until counts have doubled, plan again, until the gap is closed.

A learner is its counts, its generator and its last plan; written to a file and read back, it goes on as if nothing
had happened.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvent.core.interrupt import HELD, held_back, take_interrupt
from solvent.core.limits import ResourceMonitor
from solvent.core.progress import open_progress
from solvent.errors import CheckpointWarning, LimitError, ModelError
from solvent.learning.bonus import Bonus, BonusName
from solvent.learning.counts import Counts
from solvent.learning.fields import Field, Surprise
from solvent.learning.graph import Graph
from solvent.learning.kernels import DUE, sweep
from solvent.learning.result import LearnProgress, LearnResult, LearnStatus
from solvent.learning.support import Seen
from solvent.model.cmdp import CMDP

#: Steps of an episode up to which a whole chunk of episodes is played before the clock is read.
_STEPS = 20
#: Told of every plan; it ends the learning by returning True.
Callback = Callable[[LearnProgress], Any]
Replan = Literal["doubling", "episode"]


@dataclass(frozen=True)
class Settings:
    """How to learn; a run can be resumed only with the same, but for `epsilon`.

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


@dataclass(eq=False)
class Learner:
    """A run of learning.

    Attributes
    ----------
    settings : Settings
    origin : CMDP
        What the policy is for: the world's model, or a known support of it.
    graph : Graph
    play_in : Field
    seen : Seen or None
        The support, if it is learned.
    monitor : ResourceMonitor
        Time and memory limits.
    """

    settings: Settings
    origin: CMDP | None
    graph: Graph
    play_in: Field
    seen: Seen | None = None
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)
    counts: Counts = field(init=False)
    row_N: NDArray[np.int64] = field(init=False)
    rng: NDArray[np.uint64] = field(init=False)
    episodes: int = 0
    violations: int = 0
    due: bool = True
    history: list[LearnProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = Counts.of(self.graph, pool=self.settings.pool)
        self.row_N = np.zeros(self.graph.mdp.n_nodes, np.int64)
        self.rng = np.random.SeedSequence(self.settings.seed).generate_state(1, np.uint64).astype(np.uint64)

    def run(
        self,
        max_episodes: int,
        *,
        callback: Callback | None = None,
        progress: bool = False,
        checkpoint: Path | None = None,
        checkpoint_every: int = 100_000,
    ) -> LearnResult:
        """Learn until the gap is at most epsilon, the callback or Ctrl-C says so, or episodes, time or memory end."""
        closed, stopped, limited, unsaved = False, "", "", ""
        saved = self.episodes
        with open_progress(progress) as bar, held_back(polled=True):
            while self.graph.feasible:
                if self.due:
                    moment = self._plan()
                    self.history.append(moment)
                    self.due = False
                    closed = moment.gap <= self.settings.epsilon
                    if callback is not None and callback(moment) is True:
                        stopped = "stopped by the callback"
                bar.report("learning", self.episodes, max_episodes, {"gap": self.history[-1].gap}, unit="episode")
                if take_interrupt():
                    stopped = "interrupted"
                if self.monitor.left is not None and self.monitor.left <= 0:
                    stopped = limited = f"the time limit of {self.monitor.seconds:g} s was reached"
                if closed or stopped or self.episodes >= max_episodes:
                    break
                try:
                    self._play(min(self._chunk, max_episodes - self.episodes))
                except LimitError as error:
                    # the graph of what was seen last does not fit; what was learned before it stays
                    stopped, limited, checkpoint = str(error), str(error), None
                    break
                if checkpoint is not None and self.episodes - saved >= checkpoint_every:
                    unsaved = self._save(checkpoint, told=bool(unsaved))
                    saved = self.episodes
        if checkpoint is not None:
            unsaved = self._save(checkpoint, told=bool(unsaved))
        if self.graph.feasible:
            learned = self._answer(closed=closed, stopped=stopped)
            learned = replace(learned, limit_reached=bool(limited) and not closed)
        else:
            learned = self._nothing()
        if not unsaved:
            return learned
        message = f"{learned.message}; the checkpoint could not be written: {unsaved}"
        return replace(learned, message=message, checkpoint_error=unsaved)

    @property
    def _chunk(self) -> int:
        """How many episodes to play before the clock is read, at most; how many does not change what is learned."""
        chunk = self.play_in.chunk
        if self.monitor.seconds is None:
            return chunk
        return min(chunk, max(1, chunk * _STEPS // self.graph.problem.model.horizon))

    def _save(self, path: Path, *, told: bool) -> str:
        """Write a checkpoint; if that fails, warn unless it was told already, and return why."""
        from solvent.learning.checkpoint import save

        try:
            save(self, path)
        except ModelError as error:
            if not told:
                reason = f"the checkpoint could not be written, and learning goes on without it: {error}"
                warnings.warn(CheckpointWarning(reason), stacklevel=4)
            return str(error)
        return ""

    def _plan(self) -> LearnProgress:
        """Plan on what was counted so far; return how far that is."""
        moment = self._sweep(self.rng, self.row_N)
        self.counts.planned_K[:] = self.counts.count_K
        return moment

    def _sweep(self, rng: NDArray[np.uint64], out_row: NDArray[np.int64]) -> LearnProgress:
        graph, counts, settings = self.graph, self.counts, self.settings
        known, (low, high) = self.seen is None, settings.reward_range
        bonus = Bonus(
            settings.bonus, settings.delta, settings.bonus_scale, graph.problem.model.horizon, graph.mdp.n_rows, known
        )
        weights = bonus.weights(counts.count_K, counts.size_K)
        share_O, reward_O, noise_K, unseen_K = counts.averages()
        if not settings.random_rewards:
            noise_K[:] = 0.0
        doubt_K = (high - low) * (unseen_K | settings.random_rewards)
        n_nodes = graph.mdp.n_nodes
        up_N, low_N, gap_N = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
        sweep(
            graph.layer_indptr, graph.mdp.row_indptr, counts.row_key, graph.entry_indptr, graph.entry_next,
            counts.key_indptr, counts.count_K, share_O, reward_O, weights.spread_K, weights.range_K, weights.gap_K,
            noise_K, doubt_K, weights.eta_up, weights.eta_gap, weights.range_rule, low, high, known, rng, up_N, low_N,
            gap_N, out_row,
        )  # fmt: skip
        upper, distance = float(up_N[0]), float(gap_N[0])
        return LearnProgress(self.episodes, distance, upper - distance, upper, self.violations, n_nodes - 1)

    def _play(self, most: int) -> None:
        every = self.settings.replan == "episode"
        stretch = self.play_in.play(
            self.graph, self.counts, self.row_N, self.rng, self.episodes, most, every_episode=every,
            pause=self._is_awaited,
        )  # fmt: skip
        self.episodes += stretch.episodes
        self.violations += stretch.violations
        self.due = stretch.end == DUE
        if stretch.surprise is not None:
            self._learn_of(stretch.surprise)

    def _is_awaited(self) -> bool:
        """Whether Ctrl-C was pressed or time is up."""
        return HELD.error is not None or (self.monitor.left is not None and self.monitor.left <= 0)

    def _learn_of(self, surprise: Surprise) -> None:
        """Add an outcome to the learned support, and make the graph anew."""
        assert self.seen is not None
        first = self.seen.add(surprise.row, surprise.after, surprise.costs)
        self.play_in.learn_of(surprise.row, surprise.after, surprise.costs)
        self.rebuild(surprise.row, first=first)
        self.counts.add(surprise.row, self.seen.newest(surprise.row), surprise.reward)
        self.due = True

    def rebuild(self, row: int, *, first: bool) -> None:
        """Make the graph of the support as it is now, whose row has one more outcome than the counts know of."""
        assert self.seen is not None
        # only memory counts here: the clock is read between episodes, where what was learned can be returned
        self.graph = Graph.of(self.seen.problem(), ResourceMonitor(None, self.monitor.bytes))
        self.counts = self.counts.regrown(self.graph, row, first=first)
        self.row_N = np.zeros(self.graph.mdp.n_nodes, np.int64)

    def _answer(self, *, closed: bool, stopped: str) -> LearnResult:
        settings, moment, row_N = self.settings, self.history[-1], self.row_N
        if not closed:  # with all that was counted, and without touching the generator: a resumed run must not notice
            row_N = self.row_N.copy()
            moment = self._sweep(self.rng.copy(), row_N)
            closed = moment.gap <= settings.epsilon
        theory = settings.bonus == "theory"
        sure = f"with probability at least {1 - settings.delta:g}" if theory else "by estimate, which is no guarantee"
        if closed:
            message = f"within {settings.epsilon:g} of the optimum, {sure}"
        else:
            reason = f"{stopped} after" if stopped else "stopped after"
            hint = "" if stopped else "; raise max_episodes or epsilon"
            message = f"{reason} {self.episodes:,} episodes with a gap of {moment.gap:.4g}, {sure}{hint}"
        graph, chosen = self.graph, row_N.copy()
        origin = graph.problem.model if self.origin is None else self.origin
        n_real = None if self.seen is None else len(self.seen.states)
        return LearnResult(
            LearnStatus.WITHIN_EPSILON if closed else LearnStatus.LIMIT,
            moment.value_lower,
            moment.value_upper,
            moment.gap,
            theory,
            self.episodes,
            self.violations,
            tuple(self.history),
            message,
            lambda: graph.policy(chosen, origin, n_real),
        )

    def _nothing(self) -> LearnResult:
        message = "no policy keeps the budget, given what is known to be possible"
        lowest = -np.inf
        return LearnResult(
            LearnStatus.INFEASIBLE, lowest, lowest, 0.0, True, self.episodes, self.violations, tuple(self.history),
            message,
        )  # fmt: skip
