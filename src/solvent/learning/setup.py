"""From the arguments of `learn` to a learner: what is known about the environment decides which nodes are safe.

There are four cases: a model; an environment with a known support; an environment with bounds on its costs; and an
environment, or a model, whose support is learned from what occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from solvent.core.exact import Number
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, quote
from solvent.learning.arguments import (
    ApproximationName,
    SupportSource,
    check_accounts,
    check_choice,
    check_returns,
    check_reward_sums,
    is_support_known,
    read_bounds,
    read_whole,
    refuse_lower_limits,
    require_consent,
)
from solvent.learning.environment import (
    CostLike,
    Environment,
    ExactEnvironment,
    model_of,
    refuse_budget_wrapper,
    wrapped_model_hint,
)
from solvent.learning.graph import SafeGraph
from solvent.learning.learner import Learner, LearnSettings
from solvent.learning.runners import EnvironmentRunner, ModelRunner
from solvent.learning.starts import limits_with_draw, with_draw
from solvent.learning.support import LearnedSupport, SupportLike, read_support, unrolled
from solvent.learning.worst_case import WorstCase
from solvent.model.budget import BudgetLike, Limits, SpentLike, limits_of, read_budgets, resolve
from solvent.model.cmdp import CMDP
from solvent.model.consistency import check_horizon
from solvent.model.cost_bounds import BoundLike
from solvent.policy.nodes import Counting
from solvent.solvers.problem import Problem
from solvent.solvers.transforms.rounding import additive_lengths, project, read_epsilon, relative_lengths


@dataclass(frozen=True, kw_only=True)
class LearnSetup:
    """The environment and what is known about it; fields as the parameters of `learn`.

    Attributes
    ----------
    env : CMDP or Environment
    settings : LearnSettings
    horizon : int or None
    budget : BudgetLike or None
    cost_support : {"known", "learned"} or None
    support : SupportLike or None
    cost_bound : BoundLike
    cost : CostLike
    approximation : {"additive", "relative"} or None
    epsilon_cost : number, dict by resource, or None
    strict : bool
    stationary : bool or None
    spent : SpentLike or None
    random_start : bool
    """

    env: CMDP | Environment
    settings: LearnSettings
    horizon: int | None = None
    budget: BudgetLike | None = None
    cost_support: SupportSource | None = None
    support: SupportLike | None = None
    cost_bound: BoundLike = None
    cost: CostLike = None
    approximation: ApproximationName | None = None
    epsilon_cost: Number | Mapping[str, Number] | None = None
    strict: bool = False
    stationary: bool | None = None
    spent: SpentLike | None = None
    random_start: bool = False

    def learner(self, monitor: ResourceMonitor | None = None) -> Learner:
        """Return a learner that has not played yet.

        Raises
        ------
        ModelError
            If the arguments contradict each other or do not fit the environment.
        LimitError
            If the graph of safe nodes exceeds the time or memory limit.
        """
        monitor = monitor or ResourceMonitor()
        played = self._resolve_env()
        self._check_combination(played)
        learner = self._in_model(played, monitor) if isinstance(played, CMDP) else self._in_env(played, monitor)
        learner.monitor = monitor
        learner.model_name, learner.limits = self._name(played), self._limits_played(played).texts
        return learner

    def _name(self, played: CMDP | Environment) -> str:
        """Return the name of the model, or the id of the environment; empty if there is none."""
        if isinstance(played, CMDP):
            return played.name
        found = getattr(getattr(played, "spec", None), "id", None)
        return found if isinstance(found, str) else self.support.name if isinstance(self.support, CMDP) else ""

    def _limits_played(self, played: CMDP | Environment) -> Limits:
        """Return the limits, by the steps of the user."""
        if isinstance(played, CMDP):
            return resolve(played, self.budget, self._initial(played))
        return self._limits(self._horizon(played))[1]

    def _resolve_env(self) -> CMDP | Environment:
        """Return what is played: a model in place of an environment that does nothing but play it."""
        env = self.env
        if not isinstance(env, CMDP) and not hasattr(env, "step"):
            hint = "pass what gymnasium.make(...) returns" if isinstance(env, str) else ""
            raise ModelError("learn", "a CMDP or an environment", quote(env), hint)
        refuse_budget_wrapper(env)
        if isinstance(env, CMDP) or self._describes_env:
            return env
        return model_of(env) or env

    @property
    def _describes_env(self) -> bool:
        """Whether an argument says something about the environment that a model would say itself."""
        return self.support is not None or self.cost_bound is not None or self.cost is not None

    def _is_known(self, played: CMDP | Environment) -> bool:
        given = isinstance(played, CMDP) or self.support is not None
        return is_support_known(self.cost_support, given=given, bounded=self.cost_bound is not None)

    def _check_combination(self, played: CMDP | Environment) -> None:
        if self.approximation is not None:
            check_choice("approximation", self.approximation, ("additive", "relative"))
            if self.epsilon_cost is None:
                raise ModelError("approximation", "epsilon_cost=..., which says how far costs are rounded", "none")
        if isinstance(played, CMDP) and self.random_start:
            raise ModelError("random_start", "False for a model, which has its first states", "True", "leave it out")
        if isinstance(played, CMDP) and self._describes_env:
            raise ModelError("learn", "no support, cost_bound or cost with a model, which has them", "one of them")
        known, bounded = self._is_known(played), self.cost_bound is not None
        if self.support is not None and (bounded or not known):
            beside = "a cost_bound" if bounded else 'cost_support="learned"'
            raise ModelError("support", f"none with {beside}", quote(self.support))
        if bounded and self.cost_support == "learned":
            raise ModelError("cost_bound", 'none with cost_support="learned"', quote(self.cost_bound))
        check_reward_sums(self.settings.reward_range, self._horizon(played))
        if known:
            return
        if self.settings.bonus == "theory":
            raise ModelError(
                "bonus", '"practical" with a learned support, as nothing bounds what was never seen', '"theory"'
            )
        if not self.settings.pool:
            raise ModelError("pool", "True with a learned support, which is pooled", "False")

    def _horizon(self, played: CMDP | Environment) -> int:
        if isinstance(played, CMDP):
            if self.horizon is not None and read_whole("horizon", self.horizon, 1) != played.horizon:
                raise ModelError("horizon", f"that of the model, {played.horizon}, or none", quote(self.horizon))
            return played.horizon
        if self.horizon is None:
            raise ModelError("horizon", "a number of steps for an environment", "none", wrapped_model_hint(played))
        return check_horizon(read_whole("horizon", self.horizon, 1))

    def _in_model(self, model: CMDP, monitor: ResourceMonitor) -> Learner:
        """Return a learner in a model, whose rewards are not random."""
        settings = replace(self.settings, random_rewards=False)
        low, high = settings.reward_range
        if model.n_rows and not low <= model.row_reward.min() <= model.row_reward.max() <= high:
            found = f"{model.row_reward.min():g} to {model.row_reward.max():g}"
            hint = "pass reward_range=(least, greatest), or scale the rewards"
            raise ModelError("rewards", f"numbers from {low:g} to {high:g}", found, hint)
        if self.stationary and not model.is_stationary:
            raise ModelError("stationary", "a stationary model", f"one with {model.n_tables} tables", "leave it out")
        limits, known = self._limits_played(model), self._is_known(model)
        check_accounts(model, limits, known=known)
        check_returns(model, settings.return_range)
        drawn = isinstance(model.start, dict)
        problem = self._problem(model, limits)
        runner = ModelRunner(problem, known=known)
        if known:
            graph = SafeGraph.of(problem, monitor, share=settings.pool)
            return Learner(settings, model, graph, runner, rewards_by_row=True, drawn=drawn)
        refuse_lower_limits(limits)
        learned = LearnedSupport(
            problem.model, problem.model.horizon, problem.limits, units=problem.lattice.units,
            counting=problem.counting,
        )  # fmt: skip
        graph = SafeGraph.of(learned.problem(), monitor)
        return Learner(settings, model, graph, runner, learned, rewards_by_row=True, drawn=drawn)

    def _initial(self, model: CMDP) -> SpentLike | None:
        """Return what was spent before the first step, as given or as in an environment that plays the model."""
        if self.spent is not None or self.env is model:
            return self.spent
        return dict(getattr(self.env.unwrapped, "initial", {}))  # type: ignore[union-attr]

    def _check_env(self, env: Environment) -> None:
        """Raise a `ModelError` if an environment plays a model inside, of which the arguments say too little."""
        if self.support is None and self.spent is not None:
            hint = "lower the limits by what has been spent"
            raise ModelError("spent", "a model, or a support that is one", quote(self.spent), hint)
        base = getattr(env, "unwrapped", env)
        model = getattr(base, "model", None)
        if isinstance(self.support, CMDP) or getattr(type(base), "plays_its_model", False) is not True:
            return
        assert isinstance(model, CMDP)
        told = (
            ("resources that saturate", model.is_saturating),
            ("a goal (must_end_in)", model.may_end is not None),
            ("rewards for ending (end_reward)", model.end_reward is not None),
            ("amounts spent before the first step", any(getattr(base, "initial", {}).values())),
        )
        for found, has in told:
            if has:
                expected = "an environment of a plain model, unless its model is the support"
                raise ModelError("environment", expected, f"a model with {found}", "pass support=env.unwrapped.model")

    def _in_env(self, env: Environment, monitor: ResourceMonitor) -> Learner:
        """Return a learner in an environment that is not a model."""
        horizon = self._horizon(env)
        self._check_env(env)
        resources, limits = self._limits(horizon)
        if isinstance(self.support, CMDP):
            check_accounts(self.support, limits, known=True)
        if not limits.resources:
            raise ModelError("budget", "a limit on some resource", quote(self.budget))
        drawn = self.random_start or (isinstance(self.support, CMDP) and isinstance(self.support.start, dict))
        world = ExactEnvironment(env, limits.resources, self.cost, self.settings.seed, drawn=drawn)
        if self.support is None:
            return self._with_learned_support(world, horizon, limits, monitor)
        model = read_support(
            self.support, start=world.start, actions=world.actions, horizon=horizon, resources=resources,
            stationary=self.stationary is not False,
        )  # fmt: skip
        foreign = [name for name in model.actions if name not in world.actions]
        if foreign:
            first, last = world.actions[0], world.actions[-1]
            raise ModelError("support, actions", f"those of the environment, {first} to {last}", quote(foreign[0]))
        problem = self._problem(model, limits, drawn=drawn)
        runner = self._environment_runner(world, problem.model)
        graph = SafeGraph.of(problem, monitor, share=self.settings.pool)
        return Learner(self.settings, model, graph, runner, drawn=drawn)

    def _limits(self, horizon: int) -> tuple[tuple[str, ...], Limits]:
        """Return the resources of the support, and the limits."""
        if isinstance(self.support, CMDP):
            return self.support.resources, resolve(self.support, self.budget, self.spent)
        if self.spent is not None:
            hint = "lower the limits by what has been spent"
            raise ModelError("spent", "a model, or a support that is one", quote(self.spent), hint)
        if self.budget is None:
            raise ModelError("budget", "a budget", "none")
        resources = tuple(map(str, self.budget)) if isinstance(self.budget, Mapping) else ("cost",)
        return resources, limits_of(read_budgets(self.budget, resources, horizon), horizon)

    def _with_learned_support(
        self, world: ExactEnvironment, horizon: int, limits: Limits, monitor: ResourceMonitor
    ) -> Learner:
        refuse_lower_limits(limits)
        units = self._units(limits, horizon)
        counting: tuple[Counting, ...] | None = None
        if units is not None:
            direction: Counting = "up" if self.strict else "down"
            counting = (direction,) * len(units)
        states, actions = world.states, tuple(world.actions)
        worst_case: WorstCase | None = None
        if self.cost_bound is None:
            require_consent(self.cost_support)
        else:
            bounds = read_bounds(self.cost_bound, limits.resources, world.observations, world.actions)
            worst_case = WorstCase.of(bounds, states, len(actions))
        if world.drawn:
            horizon, limits = horizon + 1, limits_with_draw(limits)
        learned = LearnedSupport(
            (world.start, states, actions), horizon, limits, stationary=self.stationary is not False, units=units,
            counting=counting, worst_case=worst_case,
        )  # fmt: skip
        graph = SafeGraph.of(learned.problem(), monitor)
        runner = self._environment_runner(world, learned)
        return Learner(self.settings, None, graph, runner, learned, drawn=world.drawn)

    def _environment_runner(self, world: ExactEnvironment, support: CMDP | LearnedSupport) -> EnvironmentRunner:
        settings = self.settings
        return EnvironmentRunner(
            world, support, settings.reward_range, settings.return_range, same_rewards=not settings.random_rewards
        )

    def _problem(self, model: CMDP, limits: Limits, *, drawn: bool = False) -> Problem:
        """Return the problem of a known support, its steps kept apart if `stationary` is False."""
        units = self._units(limits, model.horizon)
        if self.stationary is False:
            model = unrolled(model)
        if drawn or isinstance(model.start, dict):
            model, limits = with_draw(model), limits_with_draw(limits)
        if units is not None:
            return project(model, limits, units, "rounded" if self.strict else "relaxed")
        return Problem.exact(model, limits, merge=False)  # outcomes are counted one by one

    def _units(self, limits: Limits, horizon: int) -> tuple[Fraction, ...] | None:
        """Return the units to which costs are rounded; None if they are not."""
        if self.epsilon_cost is None:
            return default_lengths(limits, horizon) if self.strict else None
        epsilons = read_epsilon(self.epsilon_cost, limits, "epsilon_cost")
        if self.approximation == "relative":
            return relative_lengths(epsilons, limits, horizon)
        return additive_lengths(epsilons, limits, horizon)


def default_lengths(limits: Limits, horizon: int) -> tuple[Fraction, ...]:
    """Return a unit for each resource, in which rounding every cost up uses at most a tenth of the smallest limit.

    Units are powers of ten, so that costs of a few decimal digits are exact.

    Raises
    ------
    ModelError
        If a limit is 0.

    Examples
    --------
    >>> from solvent.model.budget import read_budgets
    >>> default_lengths(limits_of(read_budgets(8, ("fuel",), 4), 4), 4)
    (Fraction(1, 10),)
    """
    lengths = []
    for d, name in enumerate(limits.resources):
        smallest = min(map(abs, limits.distinct(d)))
        if smallest == 0:
            raise ModelError(
                f"budget, {name}", "a limit other than 0 with strict=True alone, as the unit follows from it", "0",
                "pass epsilon_cost=..., the amount that rounding may use",
            )  # fmt: skip
        length = Fraction(1)
        while length > smallest / (10 * horizon):
            length /= 10
        while 10 * length <= smallest / (10 * horizon):
            length *= 10
        lengths.append(length)
    return tuple(lengths)
