"""PettingZoo: several agents within a budget of each, or within one that they share.

With a shared budget of which R remains, agents that act at the same time must fit together. Let m be the least bound of
an agent's available actions and M the sum over the n agents. An action is allowed if its bound exceeds m by at most
(R - M) / n: then any combination of allowed actions costs at most M + n (R - M) / n = R.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact, nearest_float
from solvent.errors import BudgetError, LocatedError, ModelError, PolicyError, SolventError, did_you_mean, quote
from solvent.gym.account import DEAD, FAILED, IS_OVER, NO_EPISODE
from solvent.gym.actions import allowed, check_discrete, position
from solvent.gym.layout import own_copy
from solvent.gym.own_masks import OwnMask
from solvent.model.amounts import amount_above, short_amount
from solvent.model.cost_bounds import CostBounds

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.conversions import (
        aec_to_parallel_wrapper,
        parallel_to_aec_wrapper,
        turn_based_aec_to_parallel_wrapper,
    )
    from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper
except ImportError:
    hint = 'pip install "solvent[pettingzoo]"'
    raise SolventError(f"solvent.gym.pettingzoo: expected pettingzoo, found no such package; {hint}") from None

__all__ = ["AECBudgetWrapper", "ParallelBudgetWrapper"]

#: A number, one per action, a dict of them by agent, or a function of (agent, observation, action).
PricesLike = Number | Sequence[Any] | NDArray[Any] | Mapping[Any, Any] | Callable[[Any, Any, int], Any]

_ARGUMENTS = ("agent", "observation", "action")
_FUNCTION = f"a function of ({', '.join(_ARGUMENTS)})"
#: Key of a reported cost in the `info` of an agent, unless `cost` says otherwise.
_REPORTED = "cost"
#: Greatest budget: amounts are told as floats.
_LARGEST = 10**300


class _Accounts:
    """The accounts of all agents, in exact numbers.

    Parameters
    ----------
    env : AECEnv or ParallelEnv
    budget : number, or dict of numbers by agent
    shared : bool
        Whether all agents share one budget.
    cost_bound : PricesLike
    cost : function of (agent, observation, action), str or None
        Cost of an action; None for `info["cost"]`, or the bound if that is missing.
    """

    def __init__(self, env: Any, budget: Any, shared: bool, cost_bound: Any, cost: Any) -> None:
        if not isinstance(shared, bool | np.bool_):
            raise ModelError("shared", "True or False", quote(shared))
        if callable(cost):
            check_signature(cost, _ARGUMENTS, "cost")
        self.agents = list(env.possible_agents)
        self._shared, self._cost = bool(shared), cost
        self.spaces = {agent: check_discrete(env.action_space(agent), f"agent {quote(agent)}") for agent in self.agents}
        self._limits = self._read_budget(budget)
        self._bounds = {agent: self._read_bound(agent, cost_bound) for agent in self.agents}
        self._own = {agent: OwnMask(None, None, int(self.spaces[agent].n)) for agent in self.agents}
        self.violations = 0
        self.reset()

    def _read_budget(self, budget: Any) -> dict[Any, Fraction]:
        if isinstance(budget, Mapping):
            if self._shared:
                raise ModelError("budget", "one number, as it is shared", quote(budget))
            for agent in budget:
                self.check_agent(agent, "budget")
            if missing := [agent for agent in self.agents if agent not in budget]:
                raise ModelError("budget", "a number for each agent", f"none for {quote(missing[0])}")
            return {agent: _limit(budget[agent], f"budget, {agent}") for agent in self.agents}
        return dict.fromkeys(self.agents, _limit(budget, "budget"))

    def _read_bound(self, agent: Any, given: Any) -> CostBounds:
        if given is None:
            raise ModelError("cost_bound", "a bound on the cost of actions", "none")
        if isinstance(given, Mapping):
            for each in given:
                self.check_agent(each, "cost_bound")
            if agent not in given:
                raise ModelError("cost_bound", "a bound for each agent", f"none for {quote(agent)}")
            given = given[agent]
        if callable(given):
            check_signature(given, _ARGUMENTS, "cost_bound")
        stated = _OfAgent(given, agent) if callable(given) else given
        space = self.spaces[agent]
        return CostBounds(stated, ("cost",), int(space.n), int(space.start))

    def check_agent(self, agent: Any, where: str, kind: type[LocatedError] = ModelError) -> None:
        """Raise an error, by default a `ModelError`, if there is no such agent."""
        try:
            known = agent in self.spaces
        except TypeError:  # not hashable
            known = False
        if not known:
            names = ", ".join(map(quote, self.agents))
            raise kind(where, f"agents ({names})", quote(agent), did_you_mean(agent, self.agents))

    def reset(self) -> None:
        """Start an episode."""
        self.spent = dict.fromkeys(self.agents, Fraction(0))
        #: the bounds behind the last mask of each agent
        self._last: dict[Any, list[Fraction | None]] = {}

    def remaining(self, agent: Any) -> Fraction:
        """Return what an agent, or all agents together, may still spend."""
        spent = sum(self.spent.values(), Fraction(0)) if self._shared else self.spent[agent]
        return self._limits[agent] - spent

    def masks(self, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> dict[Any, NDArray[np.bool_]]:
        """Return the mask of each agent that acts now, given observations; all False where no action is safe."""
        bounds = {agent: self._all_bounds(agent, seen[agent], infos.get(agent, {})) for agent in seen}
        self._last = bounds
        masks = {agent: np.zeros(len(bound), bool) for agent, bound in bounds.items()}
        least = {agent: min((x for x in bound if x is not None), default=None) for agent, bound in bounds.items()}
        if any(x is None for x in least.values()):
            return masks
        together = sum((x for x in least.values() if x is not None), Fraction(0))
        for agent, bound in bounds.items():
            cheapest = least[agent]
            assert cheapest is not None
            room = self.remaining(agent)
            share = (room - together) / len(bounds) if self._shared else room - cheapest
            masks[agent][:] = [x is not None and share >= 0 and x - cheapest <= share for x in bound]
        return masks

    def no_start(self, masks: Mapping[Any, NDArray[np.bool_]]) -> SolventError:
        """Return the error about a start at which an agent has no safe action."""
        blocked = [agent for agent in masks if all(bound is None for bound in self._last[agent])]
        agent = blocked[0] if blocked else next(agent for agent, mask in masks.items() if not mask.any())
        why = ", whose own mask or cost_bound allows none" if blocked else ""
        return SolventError(
            f"reset: expected a start from which the budget can be kept, found no safe action of agent {quote(agent)}"
            f"{why or f' with remaining {short_amount(self.remaining(agent))}; raise the budget'}"
        )

    def _all_bounds(self, agent: Any, seen: Any, info: Mapping[str, Any]) -> list[Fraction | None]:
        """Return the bound of each action; None if it is forbidden or not available."""
        own = self._own[agent](seen, info)
        found = [self._bounds[agent](seen, a) for a in range(int(self.spaces[agent].n))]
        return [None if x is None or (own is not None and not own[a]) else x[0] for a, x in enumerate(found)]

    def charge(self, chosen: Mapping[Any, int], seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Charge the costs of actions that were taken at the same time, by position.

        Raises
        ------
        PolicyError
            If a cost exceeds its bound; the other agents have been charged then.
        ModelError
            If a cost is missing.
        """
        wrong: SolventError | None = None
        for agent, at in chosen.items():
            try:
                self._charge(agent, seen[agent], at, infos.get(agent, {}))
            except SolventError as found:
                wrong = wrong or found
        broken = [agent for agent in chosen if self.remaining(agent) < 0]
        self.violations += bool(broken) if self._shared else len(broken)
        if wrong is not None:
            raise wrong

    def _charge(self, agent: Any, seen: Any, chosen: int, info: Mapping[str, Any]) -> None:
        bound = self._last[agent][chosen]  # a function may return another bound after the step
        assert bound is not None  # otherwise the action would have been masked
        action = chosen + int(self.spaces[agent].start)
        amount = exact(self._cost_of(agent, seen, action, bound, info), f"agent {quote(agent)}, cost")
        self.spent[agent] += amount
        if amount > bound:
            raise PolicyError(
                f"agent {quote(agent)}, action {action}, cost",
                f"at most {short_amount(bound)}, as cost_bound says",
                amount_above(amount, bound),
                "cost_bound must hold for every outcome",
            )

    def _cost_of(self, agent: Any, seen: Any, action: int, bound: Fraction, info: Mapping[str, Any]) -> Any:
        """Return the cost of an action, as a function or the environment states it."""
        if callable(self._cost):
            return self._cost(agent, seen, action)
        if self._cost is None:
            return info.get(_REPORTED, bound)
        if self._cost not in info:
            expected = f"a cost under {quote(self._cost)}"
            raise ModelError(f"info of agent {quote(agent)}", expected, f"the keys {quote(sorted(map(str, info)))}")
        return info[self._cost]

    def choose(self, agent: Any, action: Any, mask: NDArray[np.bool_], fallback: str | None) -> int:
        """Return the position of the action to execute: the given one, or the first safe one if it is masked."""
        where = f"agent {quote(agent)}, remaining {short_amount(self.remaining(agent))}"
        chosen = position(action, self.spaces[agent], where)
        if mask[chosen]:
            return chosen
        if fallback is None or not mask.any():
            hint = "pass fallback='first' to replace such actions" if mask.any() else ""
            raise PolicyError(where, allowed(mask, self.spaces[agent]), quote(action), hint)
        return int(np.argmax(mask))

    def show(self, agent: Any, seen: Any, mask: NDArray[np.bool_]) -> Any:
        """Return an observation in which the mask, if it has one, is the combined one."""
        if isinstance(seen, dict) and "action_mask" in seen:
            given = np.asarray(seen["action_mask"])
            return {**seen, "action_mask": _never_empty(mask).astype(given.dtype).reshape(given.shape)}
        return seen

    def tell(self, agent: Any, info: Mapping[str, Any], mask: NDArray[np.bool_], dead_end: bool) -> dict[str, Any]:
        """Return the `info` of an agent."""
        return {
            **info,
            "action_mask": _never_empty(mask).astype(np.int8),
            "remaining": nearest_float(self.remaining(agent)),
            "dead_end": dead_end or info.get("dead_end") is True,  # of a wrapper inside
        }


class _OfAgent:
    """A function of (observation, action) from one of (agent, observation, action)."""

    def __init__(self, function: Callable[[Any, Any, int], Any], agent: Any) -> None:
        self._function, self._agent = function, agent

    def __call__(self, observation: Any, action: int) -> Any:
        return self._function(self._agent, observation, action)


def _limit(given: Any, where: str) -> Fraction:
    """Return a budget as an exact number."""
    limit = exact(given, where)
    if abs(limit) > _LARGEST:
        raise BudgetError(where, "an amount of at most 1e300", short_amount(limit))
    return limit


def _never_empty(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask, all True if no action will be executed."""
    return mask if mask.any() else np.ones_like(mask)


def _check_kind(env: Any, where: str, kind: type[Any]) -> None:
    """Raise a `ModelError` with the right wrapper if an environment is not of the kind that a wrapper is for."""
    expected = f"{'an' if kind is AECEnv else 'a'} {kind.__name__} of PettingZoo"
    if isinstance(env, type):
        raise ModelError(where, expected, quote(env), "pass an instance of the class")
    for other, hint in (
        (AECEnv, "AECBudgetWrapper is for agents that take turns"),
        (ParallelEnv, "ParallelBudgetWrapper is for agents that act at the same time"),
        (gymnasium.vector.VectorEnv, "VectorBudgetWrapper is for vectors of Gymnasium"),
        (gymnasium.Env, "BudgetWrapper is for Gymnasium"),
    ):
        if other is not kind and isinstance(env, other):
            raise ModelError(where, expected, quote(env), hint)
    if not isinstance(env, kind):
        raise ModelError(where, expected, quote(env))
    if not hasattr(env, "possible_agents"):
        raise ModelError(where, f"{expected} with possible_agents", f"{quote(env)} without")


def _check_inside(env: Any, where: str) -> None:
    """Raise a `ModelError` if a wrapper inside may change or repeat actions; those of PettingZoo itself do not."""
    while (inner := _inside(env)) is not None:
        for method in ("step", "reset"):
            owner = next(cls for cls in type(env).__mro__ if method in vars(cls))
            said = vars(owner).get("passes_actions")
            passes = said is True or (isinstance(said, property) and env.passes_actions is True)
            known = owner.__module__.startswith("pettingzoo.utils.") or passes
            if method in vars(env) or not known:
                name = type(env).__name__
                hint = f"put {name} around {where}, or set passes_actions = True in the class {name} if that is true"
                if owner.__module__ == __name__:
                    hint = f"omit the fallback of the {name} inside"
                expected = "wrappers inside that pass each action on once and unchanged"
                found = f"{name}, which overrides step or reset, with unknown effect"
                raise ModelError(where, expected, found, hint)
        env = inner


def _inside(env: Any) -> Any:
    """Return the environment inside a wrapper or a conversion; None for an environment itself."""
    if isinstance(env, BaseWrapper | BaseParallelWrapper | parallel_to_aec_wrapper):
        return env.env
    return env.aec_env if isinstance(env, aec_to_parallel_wrapper | turn_based_aec_to_parallel_wrapper) else None


def _takes_turns(env: Any) -> bool:
    """Whether an environment is, or is converted from, one whose agents take turns."""
    while env is not None and not isinstance(env, AECEnv):
        env = _inside(env)
    return env is not None


def _check_fallback(fallback: Any) -> Any:
    if fallback is not None and not (isinstance(fallback, str) and fallback == "first"):
        raise ModelError("fallback", "None or 'first'", quote(fallback))
    return fallback


class _WithAccounts:
    """What both wrappers tell about the accounts of their agents."""

    _accounts: _Accounts
    #: why `step` is refused; empty if it is not
    _refusal: str

    def _check_reset(self, where: str) -> None:
        """Raise a `PolicyError` if there was no reset."""
        if self._refusal == NO_EPISODE:
            raise PolicyError(where, "reset() first", self._refusal)

    def _check_episode(self, where: str) -> None:
        """Raise a `PolicyError` if there was no reset, or an error since."""
        if self._refusal in (NO_EPISODE, FAILED):
            raise PolicyError(where, "reset() first", self._refusal)

    @property
    def spent(self) -> dict[Any, Fraction]:
        """Exact amount spent by each agent."""
        return dict(self._accounts.spent)

    @property
    def violations(self) -> int:
        """Number of times so far that an agent, or all together, broke the limit after a step.

        0 unless a bound is wrong, which also raises an error.
        """
        return self._accounts.violations

    def remaining(self, agent: Any) -> Fraction:
        """Return the exact amount that an agent, or all agents together, may still spend."""
        self._accounts.check_agent(agent, "remaining")
        return self._accounts.remaining(agent)


class ParallelBudgetWrapper(_WithAccounts, BaseParallelWrapper[Any, Any, Any]):  # type: ignore[misc, unused-ignore]
    """Keep the agents of a `ParallelEnv` within a budget: at any step, under any outcome.

    Parameters
    ----------
    env : ParallelEnv
        Environment whose agents have `Discrete` action spaces. Wrappers inside that may change or repeat actions are
        refused.
    budget : number, or dict of numbers by agent
        Anytime upper limit on what each agent spends, or all of them together.
    cost_bound : number, sequence, dict by agent, or function
        Upper bound on the cost of an action: a number, one per action, a dict of them by agent, or a function of
        (agent, observation, action). Infinity or None forbids an action.
    cost : str or function, optional
        Cost of an action: a key of the agent's `info`, or a function of (agent, observation, action), called with the
        observation before the step. Default: `info["cost"]` of the agent, or the bound itself in steps after which the
        environment does not report it, and always if it was converted from an `AECEnv`. A cost may be negative, and
        must not exceed the bound.
    shared : bool
        Whether all agents share one budget.
    fallback : None or "first"
        What to do with a masked action: raise a `PolicyError`, or take the first safe action.

    Notes
    -----
    The `info` of each agent has "action_mask" (int8), "remaining" and "dead_end". Observations are those of the
    environment, except that a mask in them, under "action_mask" of a dict, is replaced by the combined mask. If an
    agent has no safe action, the episode ends for all. After an error in `reset` or `step`, the amount spent is
    unknown, and `step` is refused until the next `reset`.

    Examples
    --------
    >>> from gymnasium.spaces import Discrete
    >>> from pettingzoo import ParallelEnv
    >>> class Pair(ParallelEnv):
    ...     metadata = {"name": "pair"}
    ...     possible_agents = ["a", "b"]
    ...     def observation_space(self, agent):
    ...         return Discrete(1)
    ...     def action_space(self, agent):
    ...         return Discrete(3)
    ...     def reset(self, seed=None, options=None):
    ...         self.agents = ["a", "b"]
    ...         return {"a": 0, "b": 0}, {"a": {}, "b": {}}
    ...     def step(self, actions):
    ...         no = {"a": False, "b": False}
    ...         return {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}, no, no, {"a": {}, "b": {}}
    >>> env = ParallelBudgetWrapper(Pair(), budget=5, cost_bound=[0, 1, 2], shared=True)
    >>> observations, infos = env.reset()
    >>> observations, rewards, terminations, truncations, infos = env.step({"a": 2, "b": 1})
    >>> infos["a"]["remaining"], infos["a"]["action_mask"]  # each may take half of what remains
    (2.0, array([1, 1, 0], dtype=int8))
    """

    def __init__(
        self,
        env: Any,
        budget: Number | Mapping[Any, Number],
        cost_bound: PricesLike,
        cost: str | Callable[[Any, Any, int], Any] | None = None,
        *,
        shared: bool = False,
        fallback: Literal["first"] | None = None,
    ) -> None:
        _check_kind(env, "ParallelBudgetWrapper", ParallelEnv)
        super().__init__(env)
        _check_inside(env, "ParallelBudgetWrapper")
        if not (cost is None or isinstance(cost, str) or callable(cost)):
            raise ModelError("cost", f"a key of info, or {_FUNCTION}", quote(cost))
        self._accounts, self._fallback = _Accounts(env, budget, shared, cost_bound, cost), _check_fallback(fallback)
        # if agents take turns inside, a cost in `infos` may belong to another step
        self._reads_infos = cost is not None or not _takes_turns(env)
        self._masks: dict[Any, NDArray[np.bool_]] = {}
        self._seen: dict[Any, Any] = {}
        self._refusal = NO_EPISODE

    @property
    def passes_actions(self) -> bool:
        """Whether each action is executed once and unchanged: True unless a fallback replaces masked actions."""
        return self._fallback is None

    @property
    def agents(self) -> list[Any]:
        """The agents that act now; none when the episode is over."""
        return [] if self._refusal else list(self.env.agents)

    def action_mask(self, agent: Any) -> NDArray[np.bool_]:
        """Return which actions of an agent are safe now; all True if none will be executed.

        Raises
        ------
        PolicyError
            If there was no `reset`, or an error since.
        """
        self._accounts.check_agent(agent, "action_mask")
        self._check_episode("action_mask")
        mask = self._masks.get(agent)
        return np.ones(int(self._accounts.spaces[agent].n), bool) if mask is None else _never_empty(mask).copy()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode with the whole budget.

        Raises
        ------
        SolventError
            If an agent has no safe action at the start.
        """
        self._refusal = NO_EPISODE
        seen, infos = self.env.reset(seed=seed, options=options)
        self._accounts.reset()
        self._look(seen, infos)
        if any(not mask.any() for mask in self._masks.values()):
            raise self._accounts.no_start(self._masks)
        shown = self._show(seen, infos, False)
        self._refusal = ""
        return shown

    def _look(self, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        # agents may change the observations they get, and environments may use their arrays again
        acting = {agent: own_copy(seen[agent]) for agent in self.env.agents}
        self._seen, self._masks = acting, self._accounts.masks(acting, infos)

    def _show(self, seen: Mapping[Any, Any], infos: Mapping[Any, Any], dead_end: bool) -> tuple[Any, Any]:
        nothing = {agent: np.zeros(int(self._accounts.spaces[agent].n), bool) for agent in seen}
        masks = {**nothing, **self._masks}
        shown = {agent: self._accounts.show(agent, each, masks[agent]) for agent, each in seen.items()}
        told = {agent: self._accounts.tell(agent, infos.get(agent, {}), masks[agent], dead_end) for agent in seen}
        return shown, told

    def step(self, actions: Mapping[Any, Any]) -> Any:
        """Take a safe action for each agent; actions of agents that have ended are ignored.

        After the end of an episode, a step without actions does nothing and returns empty dicts.

        Raises
        ------
        PolicyError
            If an action is masked and there is no fallback, an action is missing, an agent is unknown, the episode has
            ended, or a cost exceeds its bound.
        ModelError
            If a cost is missing or not a number.
        """
        if self._refusal in (DEAD, IS_OVER) and isinstance(actions, Mapping) and not actions:
            return {}, {}, {}, {}, {}  # as environments of PettingZoo do, and as black_death of SuperSuit expects
        if self._refusal:
            raise PolicyError("step", "reset() first", self._refusal)
        if not isinstance(actions, Mapping):
            raise PolicyError("step", "a dict of actions by agent", quote(actions))
        for agent in actions:
            self._accounts.check_agent(agent, "step", PolicyError)
        chosen = {}
        for agent, mask in self._masks.items():
            if agent not in actions:
                raise PolicyError("step", f"an action of each agent ({quote(list(self._masks))})", quote(actions))
            chosen[agent] = self._accounts.choose(agent, actions[agent], mask, self._fallback)
        self._refusal = FAILED  # after an error below, the amount spent is unknown
        taken = {agent: at + int(self._accounts.spaces[agent].start) for agent, at in chosen.items()}
        before = self._seen
        seen, rewards, terminations, truncations, infos = self.env.step(taken)
        self._accounts.charge(chosen, before, infos if self._reads_infos else {})
        self._look(seen, infos)
        dead_end = any(not mask.any() for mask in self._masks.values())
        if dead_end:
            terminations = dict.fromkeys(terminations, True)
        shown, told = self._show(seen, infos, dead_end)
        self._refusal = DEAD if dead_end else "" if self.env.agents else IS_OVER
        return shown, rewards, terminations, truncations, told


class AECBudgetWrapper(_WithAccounts, BaseWrapper[Any, Any, Any]):  # type: ignore[misc, unused-ignore]
    """Keep the agents of an `AECEnv`, which act one after the other, within a budget.

    Parameters
    ----------
    env : AECEnv
        Environment whose agents have `Discrete` action spaces. Wrappers inside that may change or repeat actions are
        refused.
    budget : number, or dict of numbers by agent
        Anytime upper limit on what each agent spends, or all of them together.
    cost_bound : number, sequence, dict by agent, or function
        Upper bound on the cost of an action, as in `ParallelBudgetWrapper`.
    cost : function, optional
        Cost of an action, a function of (agent, observation, action), called before the step. Default: the bound
        itself. A cost in `infos` is not read, as it may belong to a later step.
    shared : bool
        Whether all agents share one budget.
    fallback : None or "first"
        What to do with a masked action: raise a `PolicyError`, or take the first safe action.

    Notes
    -----
    `infos` of the agent whose turn it is has "action_mask" (int8), "remaining" and "dead_end". Observations are those
    of the environment, except that a mask in that agent's, under "action_mask" of a dict, is replaced by the combined
    mask. If the agent whose turn it is has no safe action, the episode ends: all agents are terminated, and take None
    as their last action, as usual. After an error in `reset` or `step`, the amount spent is unknown: there are no
    agents, and `step` is refused until the next `reset`.
    """

    def __init__(
        self,
        env: Any,
        budget: Number | Mapping[Any, Number],
        cost_bound: PricesLike,
        cost: Callable[[Any, Any, int], Any] | None = None,
        *,
        shared: bool = False,
        fallback: Literal["first"] | None = None,
    ) -> None:
        _check_kind(env, "AECBudgetWrapper", AECEnv)
        super().__init__(env)
        _check_inside(env, "AECBudgetWrapper")
        if cost is not None and not callable(cost):
            hint = "the info of an agent may belong to a later step" if isinstance(cost, str) else ""
            raise ModelError("cost", _FUNCTION, quote(cost), hint)
        self._accounts, self._fallback = _Accounts(env, budget, shared, cost_bound, cost), _check_fallback(fallback)
        self._stopped: list[Any] | None = None  # agents that are left after a dead end
        self._mask: NDArray[np.bool_] | None = None
        self._seen: Any = None
        self._told: dict[Any, dict[str, Any]] = {}
        #: rewards of each agent since it acted; a conversion of a `ParallelEnv` keeps older ones as well
        self._owed: dict[Any, float] = {}
        self._refusal = NO_EPISODE

    @property
    def passes_actions(self) -> bool:
        """Whether each action is executed once and unchanged: True unless a fallback replaces masked actions."""
        return self._fallback is None

    @property
    def agents(self) -> list[Any]:
        """The agents that have not ended; none before `reset` and after an error."""
        if self._refusal:
            return []
        return list(self.env.agents) if self._stopped is None else list(self._stopped)

    @property
    def agent_selection(self) -> Any:
        """The agent whose turn it is."""
        self._check_episode("agent_selection")
        return self._stopped[0] if self._stopped else self.env.agent_selection

    def agent_iter(self, max_iter: int = 2**63) -> Any:
        """Return an iterator over the agents, each in its turn."""
        self._check_episode("agent_iter")
        return super().agent_iter(max_iter)

    @property
    def rewards(self) -> dict[Any, float]:
        """Rewards of the last step, by agent."""
        self._check_reset("rewards")
        left = self._left(self.env.rewards)
        return left if self._stopped is None or self._stopped == list(self.env.agents) else dict.fromkeys(left, 0.0)

    @property
    def _cumulative_rewards(self) -> dict[Any, float]:
        """What `last` tells as reward."""
        return self.env._cumulative_rewards if self._stopped is None else self._left(self._owed)

    @property
    def terminations(self) -> dict[Any, bool]:
        """Whether each agent has terminated."""
        self._check_reset("terminations")
        left = self._left(self.env.terminations)
        return left if self._stopped is None else dict.fromkeys(left, True)

    @property
    def truncations(self) -> dict[Any, bool]:
        """Whether each agent was truncated."""
        self._check_reset("truncations")
        return self._left(self.env.truncations)

    @property
    def infos(self) -> dict[Any, Any]:
        """Information for each agent, with the mask of the one whose turn it is."""
        self._check_reset("infos")
        return self._left({**self.env.infos, **self._told})

    def _left(self, by_agent: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the entries of agents that are left; after a dead end, those that took their last action are not."""
        return {agent: each for agent, each in by_agent.items() if self._stopped is None or agent in self._stopped}

    def action_mask(self) -> NDArray[np.bool_]:
        """Return which actions are safe for the agent whose turn it is; all True if none will be executed.

        Raises
        ------
        PolicyError
            If there was no `reset`, or an error since.
        """
        self._check_episode("action_mask")
        mask = np.zeros(int(self._accounts.spaces[self.agent_selection].n), bool) if self._mask is None else self._mask
        return _never_empty(mask).copy()

    def observe(self, agent: Any) -> Any:
        """Return the observation of an agent."""
        self._check_episode("observe")
        seen = self.env.observe(agent)
        return self._accounts.show(agent, seen, self.action_mask()) if agent == self.agent_selection else seen

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with the whole budget.

        Raises
        ------
        SolventError
            If the first agent has no safe action at the start.
        """
        self._refusal = NO_EPISODE
        self.env.reset(seed=seed, options=options)
        self._accounts.reset()
        self._stopped, self._owed = None, dict.fromkeys(self.env.agents, 0.0)
        self._look()
        if self._stopped is not None:
            raise self._accounts.no_start({self.env.agent_selection: np.zeros(0, bool)})
        self._refusal = ""

    def _look(self) -> None:
        """Compute the mask of the agent whose turn it is; end the episode if no action is safe."""
        self._mask, self._told = None, {}
        if not self.env.agents:
            return
        agent = self.env.agent_selection
        if not (self.env.terminations[agent] or self.env.truncations[agent]):
            self._seen = own_copy(self.env.observe(agent))
            self._mask = self._accounts.masks({agent: self._seen}, self.env.infos)[agent]
            if not self._mask.any():
                self._mask, self._stopped = None, list(self.env.agents)
        stopped = self._stopped is not None
        for each in self._stopped or [agent]:
            mask = np.zeros(int(self._accounts.spaces[each].n), bool) if self._mask is None else self._mask
            self._told[each] = self._accounts.tell(each, self.env.infos[each], mask, stopped)

    def step(self, action: Any) -> None:
        """Take a safe action for the agent whose turn it is; None if it has ended.

        Raises
        ------
        PolicyError
            If the action is masked and there is no fallback, the agent or the episode has ended, or the cost exceeds
            its bound.
        """
        if self._refusal or not self.agents:
            raise PolicyError("step", "reset() first", self._refusal or IS_OVER)
        if self._stopped is not None:
            if action is not None:
                raise PolicyError(f"agent {quote(self.agent_selection)}", "None, as the episode is over", quote(action))
            self._stopped = self._stopped[1:]
            return
        agent = self.env.agent_selection
        chosen = None
        if self._mask is not None:
            chosen = self._accounts.choose(agent, action, self._mask, self._fallback)
        elif action is not None:
            raise PolicyError(f"agent {quote(agent)}", "None, as the agent has ended", quote(action))
        # after an error below, the amount spent is unknown
        self._refusal, self._mask, self._told = FAILED, None, {}
        if chosen is not None:
            self._accounts.charge({agent: chosen}, {agent: self._seen}, {})
        self.env.step(None if chosen is None else chosen + int(self._accounts.spaces[agent].start))
        self._owed[agent] = 0.0
        for each, reward in self.env.rewards.items():
            self._owed[each] = self._owed.get(each, 0.0) + reward
        self._look()
        self._refusal = ""
