"""`CostMeter`: an independent record of what an environment really costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from solvent.core.exact import Number, exact
from solvent.gym.adapters import CostLike, find_cost, split_reset, split_step
from solvent.gym.layout import own_copy
from solvent.gym.tracker import ONLY_RESOURCE
from solvent.model.metering import Tape, check_wrappers, kind_of


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
    there. It also keeps its own account, in plain fractions, which knows nothing of budgets and masks: use it to check
    any method, also those of other libraries.

    Parameters
    ----------
    env : gymnasium.Env
        The environment itself, or the adapter that reports its costs.
    cost : str, function, mapping or number, optional
        Cost of a step: a key of `info` ("-reward_ctrl" for the negative of that key), a function of (observation,
        action, next observation) as seen by the meter, or a constant. Default: the sixth value of `step`, or else
        `info["costs"]` or `info["cost"]`.

    Attributes
    ----------
    spent : dict of Fraction
        Sum of the costs of the current episode, by resource. Costs without a name belong to "cost".

    Raises
    ------
    ModelError
        If a wrapper inside may replace or repeat actions.

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
        gymnasium.Wrapper.__init__(self, env)
        check_wrappers(env, kind_of(cost), "CostMeter", adapted=True)
        self._cost, self._before = cost, None
        self._tapes: list[Tape] = []
        self._finished: list[MeteredEpisode] = []
        self._clear()

    def _clear(self) -> None:
        self._steps, self._reward = 0, 0.0
        self.spent: dict[str, Fraction] = {}
        self._most: dict[str, Fraction] = {}

    def meters(self, resources: tuple[str, ...]) -> bool:
        """Whether it can record these resources; always True, since `cost` defines them."""
        return True

    def attach(self, tape: Tape) -> None:
        """Write the cost of every step on a tape from now on."""
        self._tapes.append(tape)

    def detach(self, tape: Tape) -> None:
        """Write on a tape no longer."""
        self._tapes = [each for each in self._tapes if each is not tape]

    def episodes(self) -> list[MeteredEpisode]:
        """Return the episodes with at least one step, the current one last."""
        return [*self._finished, self._current()] if self._steps else list(self._finished)

    def _current(self) -> MeteredEpisode:
        return MeteredEpisode(self._steps, self._reward, dict(self.spent), dict(self._most))

    def violations(self, budget: Number | Mapping[str, Number]) -> int:
        """Return the number of episodes in which more than a budget had been spent after some step.

        Parameters
        ----------
        budget : number, or dict of numbers by resource
            A number limits each resource that was recorded.
        """
        named = budget if isinstance(budget, Mapping) else {}
        limits = {name: exact(each, f"budget, {name}") for name, each in named.items()}
        anything = None if isinstance(budget, Mapping) else exact(budget, "budget")
        over = 0
        for episode in self.episodes():
            pairs = ((most, limits.get(name, anything)) for name, most in episode.most.items())
            over += any(limit is not None and most > limit for most, limit in pairs)
        return over

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
        found = None
        for tape in self._tapes:
            found = find_cost(self._cost, tape.resources, before, action, self._before, info, own)
            tape.write(found)
        if not self._tapes:
            names = tuple(info["costs"]) if isinstance(info.get("costs"), Mapping) else (ONLY_RESOURCE,)
            found = find_cost(self._cost, names, before, action, self._before, info, own)
        self._add(found, reward)
        return observation, reward, terminated, truncated, info

    def _add(self, found: Any, reward: Any) -> None:
        """Add the cost and the reward of a step to the meter's own account."""
        self._steps += 1
        self._reward += float(np.sum(reward))
        for name, cost in self._named(found).items():
            total = self.spent.get(name, Fraction(0)) + exact(cost, f"step, cost of {name}")
            self.spent[name] = total
            self._most[name] = max(self._most.get(name, total), total)

    def _named(self, found: Any) -> Mapping[str, Any]:
        if isinstance(found, Mapping):
            return {str(name): cost for name, cost in found.items()}
        known = self._tapes[-1].resources if self._tapes else (ONLY_RESOURCE,)
        listed = found.tolist() if isinstance(found, np.ndarray) else found
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            listed = [listed] * len(known)  # one number for several resources can only be 0
        names = known if len(known) == len(listed) else tuple(map(str, range(len(listed))))
        return dict(zip(names, listed, strict=True))
