"""`CostMeter`: an independent record of what an environment really costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from solvent.core.arguments import check_signature
from solvent.core.exact import Number, exact
from solvent.errors import ModelError, did_you_mean, quote
from solvent.gym.adapters import COST_ARGUMENTS, NO_COST, CostLike, find_cost, split_reset, split_step
from solvent.gym.layout import own_copy
from solvent.gym.tracker import ONLY_RESOURCE
from solvent.model.metering import Tape, Tapes, check_wrappers, kind_of

_NOTHING = Fraction(0)


class MeteredEpisode(NamedTuple):
    """What a meter recorded of one episode.

    Attributes
    ----------
    steps : int
    reward : float
        Sum of the rewards of the environment itself.
    spent : dict of Fraction
        Sum of the costs, by resource.
    most : dict of Fraction
        Greatest sum of costs after any step, by resource.
    """

    steps: int
    reward: float
    spent: dict[str, Fraction]
    most: dict[str, Fraction]


class CostMeter(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Record costs at the environment itself, independently of any budget further out.

    Wrappers between an environment and its budget may replace or repeat actions (`StickyAction`, `RepeatAction`), so
    that the cost of a step cannot be computed from outside. A meter directly around the environment sees the executed
    actions and records the cost of each; `BudgetWrapper`, `solvent.learn` and `solvent.gym.evaluate` read it from
    there. It also keeps its own account, in plain fractions, which knows nothing of budgets and masks and is the same
    whatever reads the meter: use it to check any method, also those of other libraries.

    Parameters
    ----------
    env : gymnasium.Env
        The environment itself, or the adapter that reports its costs.
    cost : str, function, mapping or number, optional
        Cost of a step: a key of `info` ("-reward_ctrl" for the negative of that key), a function of (observation,
        action, next observation) as seen by the meter, or a constant. Default: the sixth value of `step`, or else
        `info["costs"]` or `info["cost"]`. A function is called once per step. A resource that a dict of costs leaves
        out in a step costs 0 in it.

    Attributes
    ----------
    spent : dict of Fraction
        Sum of the costs of the current episode, by resource. A cost without a name belongs to "cost", and costs in
        order belong to "0", "1" and so on, also if a wrapper around the meter has other names for them.

    Raises
    ------
    ModelError
        If `env` is not a single Gymnasium environment, a wrapper inside may replace or repeat actions, or a function
        given as `cost` cannot take these arguments.

    Examples
    --------
    >>> from gymnasium.wrappers import StickyAction
    >>> from solvent.gym import BudgetWrapper
    >>> meter = CostMeter(gymnasium.make("FrozenLake-v1"), cost=lambda state, action, after: action)
    >>> env = BudgetWrapper(StickyAction(meter, 0.5), budget=12, cost_bound=3)  # every action costs at most 3
    >>> _ = env.reset(seed=1)
    >>> _ = env.step(3), env.step(0)
    >>> env.spent, meter.spent
    ({'cost': Fraction(6, 1)}, {'cost': Fraction(6, 1)})
    >>> meter.episodes()[0].most, meter.violations(budget=5)
    ({'cost': Fraction(6, 1)}, 1)
    """

    #: Each action is executed once and unchanged.
    passes_actions = True

    def __init__(self, env: gymnasium.Env[Any, Any], cost: CostLike | None = None) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, cost=cost)
        if not isinstance(env, gymnasium.Env) or isinstance(env, gymnasium.vector.VectorEnv):
            vector = isinstance(env, gymnasium.vector.VectorEnv)
            hint = "put a meter into every environment" if vector else "pass what gymnasium.make(...) returns"
            raise ModelError("CostMeter", "a single Gymnasium environment", quote(env), hint)
        if callable(cost):
            check_signature(cost, COST_ARGUMENTS, "cost")
        gymnasium.Wrapper.__init__(self, env)
        check_wrappers(env, kind_of(cost), "CostMeter", adapted=True)
        self._cost, self._before = cost, None
        self._tapes = Tapes()
        self._finished: list[MeteredEpisode] = []
        self._clear()

    def _clear(self) -> None:
        self._steps, self._reward = 0, 0.0
        self.spent: dict[str, Fraction] = {}
        self._most: dict[str, Fraction] = {}

    @property
    def key(self) -> str | None:
        """The key of `info` that `cost` names, if it is one."""
        return self._cost if isinstance(self._cost, str) else None

    def meters(self, resources: tuple[str, ...]) -> bool:
        """Whether it can record these resources; always True, since `cost` defines them."""
        return True

    def attach(self, tape: Tape) -> None:
        """Write the cost of every step on a tape from now on, as long as the tape exists."""
        self._tapes.add(tape)

    def detach(self, tape: Tape) -> None:
        """Write on a tape no longer."""
        self._tapes.remove(tape)

    def episodes(self) -> list[MeteredEpisode]:
        """Return the episodes with at least one step, the current one last."""
        return [*self._finished, self._current()] if self._steps else list(self._finished)

    def _current(self) -> MeteredEpisode:
        return MeteredEpisode(self._steps, self._reward, dict(self.spent), dict(self._most))

    def violations(self, budget: Number | Mapping[str, Number]) -> int:
        """Return the number of episodes in which more than a budget had been spent after some step.

        Amounts are sums of costs: for a resource that saturates, and with amounts spent before the first step, use
        `evaluate`, which knows them.

        Parameters
        ----------
        budget : number, or dict of numbers by resource
            A number limits each resource that was recorded.

        Raises
        ------
        ModelError
            If a step was recorded, but never a cost of a limited resource.
        """
        episodes = self.episodes()
        recorded = list(dict.fromkeys(name for episode in episodes for name in episode.spent))
        if isinstance(budget, Mapping):
            limits = {str(name): exact(limit, f"budget, {name}") for name, limit in budget.items()}
        else:
            limits = dict.fromkeys(recorded, exact(budget, "budget"))
        for name in limits if episodes else ():
            if name not in recorded:
                unnamed = f"a cost without a name belongs to {quote(ONLY_RESOURCE)}"
                raise never_reported(name, recorded, unnamed if ONLY_RESOURCE in recorded else "")
        return sum(any(e.most.get(name, _NOTHING) > limits[name] for name in limits) for e in episodes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        if self._steps:
            self._finished.append(self._current())
        self._clear()
        observation, info = split_reset(self.env.reset(seed=seed, options=options))
        self._before = own_copy(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action and record its cost."""
        observation, reward, terminated, truncated, info, own = split_step(self.env.step(action))
        before, self._before = self._before, own_copy(observation)
        if self._cost is None and own is NO_COST:
            self._add(_reported(info), reward)
            # a reader takes the entries of `info` that are for its resources
            self._tapes.write(lambda tape: find_cost(None, tape.resources, before, action, self._before, info, own))
        else:
            found = find_cost(self._cost, (ONLY_RESOURCE,), before, action, self._before, info, own)
            self._add(found, reward)
            self._tapes.write(lambda tape: found)
        return observation, reward, terminated, truncated, info

    def _add(self, found: Any, reward: Any) -> None:
        """Add the cost and the reward of a step to the meter's own account."""
        costs = {name: exact(cost, f"step, cost of {name}") for name, cost in _named(found).items()}
        for name, cost in costs.items():
            total = self.spent.get(name, _NOTHING) + cost
            # a resource that was left out before had cost 0
            most = self._most.get(name, _NOTHING if self._steps else total)
            self.spent[name], self._most[name] = total, max(most, total)
        self._steps += 1
        self._reward += float(np.sum(reward))


def _reported(info: Mapping[str, Any]) -> Any:
    """Return the cost that `info` reports: by name if it can be had by name."""
    costs = info.get("costs")
    if isinstance(costs, Mapping) and (costs or "cost" not in info):
        return costs
    return find_cost(None, (ONLY_RESOURCE,), None, None, None, info, NO_COST)


def _named(found: Any) -> Mapping[str, Any]:
    """Return the costs of a step by name, from these costs alone."""
    if isinstance(found, Mapping):
        return {str(name): cost for name, cost in found.items()}
    if isinstance(found, np.ndarray):
        found = list(found) if found.ndim else found[()]  # entries keep their type, which says how they are read
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return {ONLY_RESOURCE: found}
    return {ONLY_RESOURCE: found[0]} if len(found) == 1 else {str(d): cost for d, cost in enumerate(found)}


def never_reported(name: str, reported: Sequence[str], hint: str = "") -> ModelError:
    """Return the error that a limited resource is none of those of which costs were reported.

    Examples
    --------
    >>> print(never_reported("feul", ["fuel"]))
    budget: expected resources with a recorded cost ('fuel'), found 'feul'; did you mean 'fuel'?
    """
    known = ", ".join(map(quote, reported)) or "none"
    hint = did_you_mean(name, reported) or hint or "report a cost of 0 in steps that cost nothing"
    return ModelError("budget", f"resources with a recorded cost ({known})", quote(name), hint)
