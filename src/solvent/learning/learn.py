"""`learn`: learn a policy in an unknown environment by playing episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from solvent.core.arguments import read_switch
from solvent.core.checkpoint import read_checkpoint_path
from solvent.core.exact import Number
from solvent.core.limits import REACHED, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.core.loading import LoadLimits
from solvent.core.progress import ProgressLike
from solvent.errors import LatticeOverflowError, LimitError, ModelError, quote
from solvent.learning.arguments import (
    BONUS_SCALE,
    ApproximationName,
    SupportSource,
    check_functions,
    check_run,
    read_callbacks,
    read_settings,
)
from solvent.learning.bonus import BonusName
from solvent.learning.callbacks import flushed
from solvent.learning.environment import CostLike, Environment, default_rewards
from solvent.learning.graph import ROUNDING_HINT
from solvent.learning.learner import Callback, Replan
from solvent.learning.result import LearnProgress, LearnResult
from solvent.learning.setup import LearnSetup
from solvent.learning.support import SupportLike
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike

#: What to do if costs have no common unit.
_STRICT_HINT = (
    "in learn: strict=True, which rounds costs up and, with a known support or a bound on costs, never exceeds the "
    "budget"
)


def learn(
    env: CMDP | Environment,
    horizon: int | None = None,
    budget: BudgetLike | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    *,
    cost_support: SupportSource | None = None,
    support: SupportLike | None = None,
    cost_bound: BoundLike = None,
    cost: CostLike = None,
    approximation: ApproximationName | None = None,
    epsilon_cost: Number | Mapping[str, Number] | None = None,
    strict: bool = False,
    stationary: bool | None = None,
    spent: SpentLike | None = None,
    random_start: bool = False,
    pool: bool = True,
    bonus: BonusName = "practical",
    bonus_scale: float = BONUS_SCALE,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    random_rewards: bool | None = None,
    replan: Replan = "doubling",
    max_episodes: int = 1_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    seed: int = 0,
    progress: ProgressLike = False,
    callback: Callback | Sequence[Callback] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100_000,
    resume: bool = False,
    limits: LoadLimits | None = None,
) -> LearnResult:
    """Learn, by playing episodes, a policy that never exceeds the budget and is within epsilon of the best such policy.

    Parameters
    ----------
    env : CMDP or Environment
        A model is played in compiled code; its probabilities and rewards are not used otherwise, except for the range
        of the rewards. With a known support, its resources may saturate, and its episodes may have a goal
        (`must_end_in`), which every episode then reaches; models with rewards for ending are refused. An environment
        has Gymnasium's interface, numbered actions (a `Discrete` space) and finitely many states: a `Discrete`,
        `MultiDiscrete` or `MultiBinary` space, or a `Tuple` or `Dict` of these, whose states are named by tuples; see
        `solvent.learning.Environment`.
    horizon : int, optional
        Number of steps of an episode; required for an environment, given by a model.
    budget : number, Budget, or dict of them by resource, optional
        The budget. Default: that of the model.
    epsilon : float
        Stop when the policy is worth at most this much less than the optimum.
    delta : float
        Accepted probability that the bounds fail.
    cost_support : {"known", "learned"}, optional
        Whether the support, the set of possible outcomes, is known. If "known", only actions that are safe to take and
        to continue from are tried, and **no episode ever exceeds the budget**. If "learned", an action is assumed safe
        until an outcome shows otherwise; episodes that exceed the budget are counted. Default: "known" for a model and
        with `support` or `cost_bound`; for any other environment, "learned" must be requested.
    support : CMDP, dict or function, optional
        The possible outcomes of an environment: a model, or lists of (next state, cost) pairs by (state, action), or by
        (step, state, action) if not stationary. Probabilities and rewards of a model are not used.
    cost_bound : number, array, dict by resource, or function of (state, action), optional
        The most that an action of an environment can cost: one number, an array by action or by (state, action), with a
        last axis for resources if there are several, a dict of numbers or arrays by action, or a function. Infinity or
        None forbids an action. Again **no episode ever exceeds the budget**: an action is tried only if the remaining
        budget suffices in any state that could come next. Requires upper limits.
    cost : str, function, number or dict, optional
        Where to find the cost of a step of an environment: a key of `info`, a function of (observation, action, next
        observation), or the cost of every step. A dict of costs by resource may leave out resources, which then cost 0.
        Default: what a `solvent.gym.CostMeter` inside measures, else `info["cost"]`, or `info["costs"]`, which must
        name every limited resource and may name others. Wrappers that may change or repeat actions are refused unless a
        meter lies below them.
    approximation : {"additive", "relative"}, optional
        What `epsilon_cost` means: an amount (the default), or a share of the smallest limit.
    epsilon_cost : number or dict by resource, optional
        Round costs down to multiples of `epsilon_cost / horizon`, or of that share of the smallest limit. The policy
        sees only the rounded sum, so an episode **may exceed the budget by at most** `epsilon_cost`; such episodes are
        counted in `violations`. Use it, or `strict`, for costs that are real numbers.
    strict : bool
        If True, round costs up, so that with a known support or a bound **no episode ever exceeds the budget**. The
        bounds then refer to the optimum for rounded costs, which may be less than the true optimum; there may be no
        policy at all. Without `epsilon_cost`, the unit is the largest power of ten with which rounding uses at most a
        tenth of the smallest limit; costs that are multiples of it are exact.
    stationary : bool, optional
        Whether probabilities and rewards are the same at all steps. Default: as in the model; True for an environment.
        If False, the steps of a stationary model are learned separately.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step of each episode of a model. Default: nothing.
    random_start : bool
        Whether episodes of an environment begin in different states. Their probabilities are learned, too. A model, or
        a support that is a model, says it itself.
    pool : bool
        If True, share counts between nodes that differ only in what was spent. False is the paper's algorithm.
    bonus : {"practical", "theory"}
        The confidence bounds. Both hold with probability at least 1 - delta if the support is known. "theory" is
        BPI-UCBVI, as in the paper, which needs hundreds of times as many episodes. The choice does not affect the
        budget.
    bonus_scale : float
        Factor of the bonus with which three of four episodes explore; the fourth closes the gap. The bounds do not
        depend on it. Not used by "theory".
    reward_range : (float, float), optional
        The least and the greatest possible reward of a step; within 0 and 1 for "theory". Default: those of the model;
        (0, 1) for an environment.
    return_range : (float, float), optional
        The least and the greatest possible sum of rewards of an episode, if it is narrower than `reward_range` times
        the horizon; (0, 1) if only reaching a goal is rewarded. It tightens the bounds. Not for "theory".
    random_rewards : bool, optional
        Whether the reward can vary for the same step, state, action, next state and cost. Without a known support, all
        ends of an episode before its last step are one next state. Default: False for a model and with "theory", where
        it must be False; else True.
    replan : {"doubling", "episode"}
        When to plan: when some count has doubled, or after every episode.
    max_episodes : int
        Maximum number of episodes, including those before a checkpoint.
    time_limit : float, optional
        Seconds after which to stop with status "limit".
    memory_limit : int or str, optional
        Bytes, or text such as "8GB". Default: most of the free memory. The limit is checked before memory is used.
    seed : int
        Random seed. The same seed gives the same run, bit for bit, on every CPU.
    progress : bool, "log", ProgressSink or callable
        As for `solve`.
    callback : callable, or list or tuple of them, optional
        Called with a `LearnProgress` after each plan. Learning stops if one returns True, as it does on Ctrl-C, and
        returns what was learned so far. If a callback has a method `flush`, it is called when learning ends, also by an
        error. `solvent.learning` has callbacks that write logs.
    checkpoint : path, optional
        Folder to which the learner is saved every `checkpoint_every` episodes and at the end. If saving fails, for
        example because the disk is full, learning continues after a `CheckpointWarning`, the next save is tried again,
        and the result reports the failure. Without `resume`, a checkpoint of learning that is there is replaced.
    checkpoint_every : int
        Number of episodes between two saves.
    resume : bool
        If True, continue from the checkpoint exactly as if the run had not been interrupted.
    limits : LoadLimits, optional
        Limits on the resources used to load the checkpoint; see `solvent.LoadLimits` for the defaults.

    Returns
    -------
    LearnResult

    Raises
    ------
    ModelError
        If an argument is wrong, or arguments contradict each other.
    UnmodeledOutcome
        If an outcome occurs that a known support does not contain, or an action costs more than its bound. The
        guarantee no longer holds, and learning stops.
    LimitError
        If the initial graph of safe nodes exceeds the time or memory limit.
    LatticeOverflowError
        If costs and limits have no common unit in which sums fit 64-bit integers; `strict` or `epsilon_cost` avoid it.

    Notes
    -----
    Corollary 2 (`cor: reduction`) and `prop: complexity` of the paper with BPI-UCBVI (Menard et al. 2021);
    with `epsilon_cost`, Algorithm 4 online. Pooling removes the paper's factor of cost diversity from the number of
    episodes.

    Examples
    --------
    >>> from solvent.model import instances
    >>> learned = learn(instances.markov_gap(), epsilon=0.1, seed=1)
    >>> learned.status.value, learned.violations
    ('within_gap', 0)
    >>> from solvent.verification.verify import verify
    >>> verify(instances.markov_gap(), learned.policy).value
    0.5
    """
    settings = read_settings(
        epsilon=epsilon, delta=delta, pool=pool, bonus=bonus, bonus_scale=bonus_scale, replan=replan,
        reward_range=default_rewards(env) if reward_range is None else reward_range, return_range=return_range,
        random_rewards=random_rewards, seed=seed,
    )  # fmt: skip
    check_run(max_episodes, checkpoint, checkpoint_every, resume=resume)
    callbacks = read_callbacks(callback)
    stationary = read_switch("stationary", stationary, optional=True)
    check_functions(cost=cost, cost_bound=cost_bound, support=support, stationary=stationary)
    path = read_checkpoint_path(checkpoint)
    if limits is not None and not isinstance(limits, LoadLimits):
        raise ModelError("limits", "a LoadLimits, or None", quote(limits))
    setup = LearnSetup(
        env=env,
        settings=settings,
        horizon=horizon,
        budget=budget,
        cost_support=cost_support,
        support=support,
        cost_bound=cost_bound,
        cost=cost,
        approximation=approximation,
        epsilon_cost=epsilon_cost,
        strict=read_switch("strict", strict),
        stationary=stationary,
        spent=spent,
        random_start=read_switch("random_start", random_start),
    )
    try:
        with ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit)) as monitor:
            learner = setup.learner(monitor)
            if path is None:
                with flushed(callbacks):
                    return learner.run(max_episodes, callback=_together(callbacks), progress=progress)
            from solvent.learning.checkpoint import open_checkpoint

            with open_checkpoint(learner, path, resume=resume, limits=limits) as saved, flushed(callbacks):
                return learner.run(
                    max_episodes, callback=_together(callbacks), progress=progress, checkpoint=saved,
                    checkpoint_every=checkpoint_every,
                )  # fmt: skip
    except REACHED as reached:
        raise LimitError(f"learning stopped: {reason_of(reached)}; {ROUNDING_HINT}") from None
    except LatticeOverflowError as error:
        if strict or epsilon_cost is not None:
            raise
        raise LatticeOverflowError(f"{error}; {_STRICT_HINT}") from None


def _together(callbacks: Sequence[Callback]) -> Callback:
    """Return a callback that calls each of several, and stops the run if one of them does."""

    def call(progress: LearnProgress) -> bool:
        said = [each(progress) for each in callbacks]  # all are called, also after one that stops the run
        return any(isinstance(answer, bool | np.bool_) and bool(answer) for answer in said)

    return call
