"""`learn`: reads what the user gave, and sets a learner to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from solvent.core.exact import Number
from solvent.core.limits import ResourceMonitor, read_memory, read_seconds
from solvent.core.loading import LoadLimits
from solvent.errors import ModelError, quote
from solvent.learning.arguments import (
    CostSupport,
    check_callback,
    check_place,
    check_reward_sums,
    check_runs,
    knows_support,
    read_bounds,
    read_path,
    read_settings,
    read_switch,
    read_whole,
    refuse_lower,
    refuse_unasked,
)
from solvent.learning.bonus import BonusName
from solvent.learning.fields import ModelField, WorldField
from solvent.learning.graph import Graph
from solvent.learning.learner import Callback, Learner, Replan, Settings
from solvent.learning.result import LearnResult
from solvent.learning.support import Seen, SupportLike, read_support, unrolled
from solvent.learning.world import CostLike, World, model_of, refuse_budget_wrapper, wrapped_model_hint
from solvent.learning.worst import Worst
from solvent.model.budget import BudgetLike, Limits, limits_of, read_budgets, resolve
from solvent.model.cmdp import CMDP
from solvent.model.cost_bounds import BoundLike
from solvent.model.validation import check_horizon
from solvent.policy.nodes import Counting
from solvent.solvers.problem import Problem
from solvent.solvers.transforms.rounding import additive_lengths, project, read_epsilon


def learn(
    env: Any,
    horizon: int | None = None,
    budget: BudgetLike | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    *,
    cost_support: CostSupport | None = None,
    support: SupportLike | None = None,
    cost_bound: BoundLike = None,
    cost: CostLike = None,
    epsilon_cost: Number | Mapping[str, Number] | None = None,
    strict: bool = False,
    stationary: bool | None = None,
    pool: bool = True,
    bonus: BonusName = "practical",
    bonus_scale: float = 1.0,
    reward_range: tuple[float, float] = (0.0, 1.0),
    random_rewards: bool | None = None,
    replan: Replan = "doubling",
    max_episodes: int = 1_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    seed: int = 0,
    progress: bool = False,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100_000,
    resume: bool = False,
    limits: LoadLimits | None = None,
) -> LearnResult:
    """Learn, by playing, a policy that never goes over budget and is within epsilon of the best of them.

    Parameters
    ----------
    env : CMDP, or environment as of Gymnasium
        A model is played in compiled code, and its probabilities and rewards are not looked at. An environment needs
        numbered states and actions (`Discrete` spaces) and episodes that all begin in the same state; see
        `solvent.learning.Environment`.
    horizon : int
        Number of steps of an episode. A model says it itself.
    budget : number, Budget, or dict of them by resource
        The model's own default, if not given.
    epsilon : float
        Stop when the policy is short of the optimum by at most this.
    delta : float
        The probability of being wrong that is accepted.
    cost_support : {"known", "learned"}, optional
        Whether it is known what can happen. "known": only actions are tried that are safe to take and to continue from,
        so that **no episode ever goes over budget**. "learned": an action is thought safe until it was seen to be
        otherwise; episodes that go over are counted. "known" for a model, with `support` and with `cost_bound`, if not
        given; in an environment with neither, "learned" has to be asked for.
    support : CMDP, dict or function, optional
        What can happen in an environment: a model, or possible (next state, cost) pairs by (state, action), the step
        first if it is not stationary. Probabilities and rewards in a model are not looked at.
    cost_bound : number, array, dict by resource, or function of (state, action), optional
        The most that an action can cost in an environment, if that is all that is known: one number, an array by action
        or by (state, action), with a last axis for resources if there are several, a dict of numbers or arrays by
        action, or a function; infinity or None forbids an action. Then too **no episode ever goes over
        budget**: an action is tried only if what may be left after it is enough whatever state comes next. Limits must
        be upper ones.
    cost : str, function, number or dict, optional
        Where an environment's cost comes from: a key of `info`; a function of (observation, action, next
        observation); the cost of every step. If not given, what a `solvent.gym.CostMeter` inside measures, or else
        `info["cost"]`. Wrappers that may change or repeat actions are refused unless there is a meter below them.
    epsilon_cost : number or dict by resource, optional
        Count costs rounded down to multiples of `epsilon_cost / horizon`: policies then know only the counted sum, and
        an episode that is within budget as counted **may truly be over, by at most** `epsilon_cost`. Such episodes
        are counted in `violations`. For costs that are real numbers.
    strict : bool
        With `epsilon_cost`: round costs away from the budget instead, so that what is within budget as counted is so
        truly, and with a known support or a bound **no episode ever goes over budget**. The optimum that bounds speak
        of is that of rounded costs, which may be below the true one; there may even be no policy.
    stationary : bool, optional
        Whether chances and rewards are the same at all steps. A model says it itself, and False keeps its steps apart
        all the same; environments are taken to be, if not given.
    pool : bool
        Share what was seen between all amounts spent. False is the paper's algorithm.
    bonus : {"practical", "theory"}
        How optimistic to be. "theory" is proved: with probability at least 1 - delta the bounds hold. It takes very
        many episodes. "practical" is an empirical Bernstein bound and **no guarantee** for values; budgets are kept all
        the same.
    bonus_scale : float
        Of the practical bonus.
    reward_range : (float, float)
        Between what every reward lies; for "theory" within 0 and 1.
    random_rewards : bool, optional
        Whether the reward of one and the same step, state, action, next state and cost can vary. It cannot in a model
        and must not with "theory"; in other environments it is taken to, if not given.
    replan : {"doubling", "episode"}
        Plan when some count has doubled, or after every episode.
    max_episodes : int
        In all, those before a checkpoint included.
    time_limit : float, optional
        Seconds after which to stop, with what was learned by then and status "limit".
    memory_limit : int or str, optional
        Bytes, or text such as "8GB"; most of what is free, if not given. It is checked before memory is used.
    seed : int
        Random seed. The same seed gives the same run, bit for bit, on every CPU.
    progress : bool
        Show a progress bar with the gap on a terminal.
    callback : callable, optional
        Told a `LearnProgress` at each plan; learning stops if it returns True, as it does on Ctrl-C, with what was
        found. `solvent.learning` has some that keep logs.
    checkpoint : path, optional
        Write the learner there every `checkpoint_every` episodes, and at the end. If that fails, as on a full disk,
        learning goes on after a `CheckpointWarning`, the next checkpoint is tried again, and the result says so.
    checkpoint_every : int
    resume : bool
        Go on from the checkpoint, exactly as if the run had not been interrupted.
    limits : LoadLimits, optional
        What loading the checkpoint may cost at most; see `solvent.LoadLimits` for the defaults.

    Returns
    -------
    LearnResult

    Raises
    ------
    ModelError
        If what was given does not fit together.
    UnmodeledOutcome
        If something happens that a known support does not have, or an action costs more than its bound: the promise
        has ended, and so does learning.
    LimitError
        If the graph of what is known from the beginning does not fit into the time or memory allowed.

    Notes
    -----
    Corollary 2 (`cor: reduction`) and `prop: complexity` of the paper with BPI-UCBVI (Menard et al. 2021);
    with `epsilon_cost`, Algorithm 4 online. Pooling takes the paper's factor of cost diversity off the episodes.

    Examples
    --------
    >>> from solvent.model import instances
    >>> learned = learn(instances.markov_gap(), epsilon=0.1, seed=1)
    >>> learned.status.value, learned.violations
    ('within_epsilon', 0)
    >>> from solvent.verification.verify import verify
    >>> verify(instances.markov_gap(), learned.policy).value
    0.5
    """
    settings = read_settings(epsilon, delta, pool, bonus, bonus_scale, replan, reward_range, random_rewards, seed)
    check_runs(max_episodes, checkpoint, checkpoint_every, resume=resume, progress=progress)
    check_callback(callback)
    path = read_path(checkpoint)
    if limits is not None and not isinstance(limits, LoadLimits):
        raise ModelError("limits", "a LoadLimits, or None", quote(limits))
    if path is not None and not resume:  # else it is read first, which says more
        check_place(path)
    stationary = read_switch("stationary", stationary, optional=True)
    how = _LearnOptions(
        env, settings, horizon, budget, cost_support, support, cost_bound, cost, epsilon_cost,
        bool(read_switch("strict", strict)), stationary,
    )  # fmt: skip
    with ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit)) as how.monitor:
        learner = how.learner()
        learner.monitor = how.monitor
        if resume:
            from solvent.learning.checkpoint import resume as restore

            assert path is not None
            restore(learner, path, limits)
            check_place(path)
        return learner.run(
            max_episodes, callback=callback, progress=progress, checkpoint=path, checkpoint_every=checkpoint_every
        )


class _LearnOptions:
    """What is known, put together."""

    def __init__(
        self, env: Any, settings: Settings, horizon: int | None = None, budget: BudgetLike | None = None,
        cost_support: CostSupport | None = None, support: SupportLike | None = None, cost_bound: BoundLike = None,
        cost: CostLike = None, epsilon_cost: Any = None, strict: bool = False, stationary: bool | None = None,
    ) -> None:  # fmt: skip
        self.monitor = ResourceMonitor()
        if not isinstance(env, CMDP) and not hasattr(env, "step"):
            hint = "pass what gymnasium.make(...) returns" if isinstance(env, str) else ""
            raise ModelError("learn", "a CMDP or an environment", quote(env), hint)
        refuse_budget_wrapper(env)
        stated = [support, cost_bound, cost]
        # an environment that is nothing but a model is played as one
        self.env = env if isinstance(env, CMDP) or any(each is not None for each in stated) else model_of(env) or env
        self.budget, self.support, self.cost, self.stationary = budget, support, cost, stationary
        self.cost_support = cost_support
        self.cost_bound, self.epsilon_cost, self.strict, self.settings = cost_bound, epsilon_cost, strict, settings
        if strict and epsilon_cost is None:
            raise ModelError("strict", "epsilon_cost=..., which says how costs are rounded", "none", "leave it out")
        has_model = isinstance(self.env, CMDP)
        if has_model:
            self.settings = replace(settings, random_rewards=False)
        if has_model and any(each is not None for each in stated):
            raise ModelError("learn", "no support, cost_bound or cost with a model, which has them", "one of them")
        bounded = cost_bound is not None
        self.known = knows_support(cost_support, sure=has_model or support is not None, bounded=bounded)
        if support is not None and (bounded or not self.known):
            beside = "a cost_bound" if bounded else 'cost_support="learned"'
            raise ModelError("support", f"none beside {beside}", quote(support))
        if bounded and cost_support == "learned":
            raise ModelError("cost_bound", 'none beside cost_support="learned"', quote(cost_bound))
        self.horizon = self._read_horizon(horizon)
        check_reward_sums(self.settings.reward_range, self.horizon)

    def _read_horizon(self, horizon: int | None) -> int:
        if isinstance(self.env, CMDP):
            if horizon is not None and read_whole("horizon", horizon, 1) != self.env.horizon:
                raise ModelError("horizon", f"that of the model, {self.env.horizon}, or none", quote(horizon))
            return self.env.horizon
        if horizon is None:
            raise ModelError("horizon", "a number of steps for an environment", "none", wrapped_model_hint(self.env))
        return check_horizon(read_whole("horizon", horizon, 1))

    def learner(self) -> Learner:
        """Return a learner that has seen nothing yet."""
        if not self.known:
            self._check_learnable()
        return self._in_model(self.env) if isinstance(self.env, CMDP) else self._in_world()

    def _check_learnable(self) -> None:
        if self.settings.bonus == "theory":
            raise ModelError(
                "bonus", '"practical" with a learned support, as nothing bounds what was never seen', '"theory"'
            )
        if not self.settings.pool:
            raise ModelError("pool", "True with a learned support, which is pooled", "False")

    def _in_model(self, model: CMDP) -> Learner:
        low, high = self.settings.reward_range
        if model.n_rows and not low <= model.row_reward.min() <= model.row_reward.max() <= high:
            found = f"{model.row_reward.min():g} to {model.row_reward.max():g}"
            hint = "pass reward_range=(least, greatest), or scale the rewards"
            raise ModelError("rewards", f"numbers from {low:g} to {high:g}", found, hint)
        if self.stationary and not model.is_stationary:
            raise ModelError("stationary", "a stationary model", f"one with {model.n_tables} tables", "leave it out")
        limits = resolve(model, self.budget)
        problem = self._problem(unrolled(model) if self.stationary is False else model, limits)
        field = ModelField(problem, known=self.known)
        if self.known:
            return Learner(self.settings, model, Graph.of(problem, self.monitor), field)
        refuse_lower(limits)
        seen = Seen(problem.model, self.horizon, limits, units=problem.lattice.units, counting=problem.counting)
        return Learner(self.settings, model, Graph.of(seen.problem(), self.monitor), field, seen)

    def _in_world(self) -> Learner:
        settings, stationary = self.settings, self.stationary is not False
        if isinstance(self.support, CMDP):
            resources = self.support.resources
            limits = resolve(self.support, self.budget)
        else:
            if self.budget is None:
                raise ModelError("budget", "a budget", "none")
            resources = tuple(map(str, self.budget)) if isinstance(self.budget, Mapping) else ("cost",)
            limits = limits_of(read_budgets(self.budget, resources, self.horizon), self.horizon)
        if not limits.resources:
            raise ModelError("budget", "a limit on some resource", quote(self.budget))
        world = World(self.env, limits.resources, self.cost, settings.seed)
        same = not settings.random_rewards
        if self.support is not None:
            model = read_support(
                self.support, start=world.start, actions=world.actions, horizon=self.horizon, resources=resources,
                stationary=stationary,
            )  # fmt: skip
            strange = [name for name in model.actions if name not in world.actions]
            if strange:
                first, last = world.actions[0], world.actions[-1]
                raise ModelError("support, actions", f"those of the environment, {first} to {last}", quote(strange[0]))
            split = unrolled(model) if self.stationary is False else model
            graph = Graph.of(self._problem(split, limits), self.monitor)
            field = WorldField(world, model, settings.reward_range, same_rewards=same)
            return Learner(settings, model, graph, field)
        refuse_lower(limits)
        units: tuple[Fraction, ...] | None = None
        counting: tuple[Counting, ...] | None = None
        if self.epsilon_cost is not None:
            units = additive_lengths(read_epsilon(self.epsilon_cost, limits, "epsilon_cost"), self.horizon)
            one_way: Counting = "up" if self.strict else "down"
            counting = (one_way,) * len(units)
        names = world.start, tuple(world.observations), tuple(world.actions)
        worst: Worst | None = None
        if self.cost_bound is not None:
            bounds = read_bounds(self.cost_bound, limits.resources, world.observations, world.actions)
            worst = Worst.of(bounds, names[1], len(world.actions))
        else:
            refuse_unasked(self.cost_support)
        seen = Seen(names, self.horizon, limits, stationary=stationary, units=units, counting=counting, worst=worst)
        field = WorldField(world, seen, settings.reward_range, same_rewards=same)
        return Learner(settings, None, Graph.of(seen.problem(), self.monitor), field, seen)

    def _problem(self, model: CMDP, limits: Limits) -> Problem:
        if self.epsilon_cost is None:
            return Problem.exact(model, limits, merge=False)  # outcomes are counted as they come
        lengths = additive_lengths(read_epsilon(self.epsilon_cost, limits, "epsilon_cost"), self.horizon)
        return project(model, limits, lengths, "rounded" if self.strict else "relaxed")
