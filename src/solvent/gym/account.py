"""What the wrappers with a budget share: the account of an episode, observations, and `info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.gym.adapters import CostReader
from solvent.gym.dead_ends import DeadEndReward
from solvent.gym.layout import Layout
from solvent.gym.tracker import BudgetTracker
from solvent.model.amounts import short_amount
from solvent.model.budget import Limits
from solvent.model.metering import Spent
from solvent.model.resources import Resource

#: Refusals of `step`, by what happened before.
NO_EPISODE, IS_OVER = "no episode", "an episode that is over"
FAILED, DEAD = "an episode that ended with an error", "an episode that ended in a dead end"


class AccountWrapper(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Base of wrappers that keep the account of an episode.

    Attributes
    ----------
    violations : int
        Number of steps so far that broke a limit.
    """

    #: Tells `solvent.learn`, which keeps budgets itself, to refuse this wrapper.
    keeps_budget = True

    def __init__(self, env: gymnasium.Env[Any, Any], **arguments: Any) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments)
        name = type(self).__name__
        if not isinstance(env, gymnasium.Env):
            vector = isinstance(env, gymnasium.vector.VectorEnv)
            hint = "use VectorBudgetWrapper" if vector else "pass what gymnasium.make(...) returns"
            raise ModelError(name, f"a {'single ' * vector}Gymnasium environment", quote(env), hint)
        gymnasium.Wrapper.__init__(self, env)
        self.violations = 0

    def _open(
        self, tracker: BudgetTracker, read: CostReader, resources: tuple[str, ...], layout: Layout, dead: DeadEndReward
    ) -> None:
        """Set up the account; `resources` are those whose costs are read, the tracker may track fewer."""
        self._tracker, self._read, self._resources, self._layout = tracker, read, resources, layout
        self._dead_end_reward = dead
        self.observation_space = layout.space
        self._tracked = [resources.index(name) for name in tracker.resources]
        self._keep_cost([0] * len(tracker.resources))
        self._refusal, self._inner, self._dead_end, self._violation = NO_EPISODE, None, False, False

    @property
    def spent(self) -> dict[str, Fraction]:
        """Exact amount spent, by resource; with what had been spent before the first step."""
        return self._tracker.spent

    @property
    def remaining(self) -> dict[str, Fraction]:
        """Exact amount that may still be spent before the next limit is reached, by resource.

        The next upper limit minus what was spent, as in `Agent.remaining`. For a resource with lower limits only: what
        was spent minus the next lower limit.
        """
        return self._tracker.remaining

    @property
    def limits(self) -> Limits:
        """The limits after each step; the last one also holds for all later steps."""
        return self._tracker.limits

    @property
    def accounts(self) -> tuple[Resource, ...]:
        """The limited resources, which may saturate."""
        return self._tracker.accounts

    def _begin(self, started: Spent) -> None:
        """Start the account of an episode, with what a wrapper inside spent in its `reset`."""
        self._tracker.reset()
        self._violation = False
        costs = self._exactly(started)
        ticks = self._tracker.to_ticks(costs)
        self._keep_cost(ticks)
        if started.high is None or started.low is None:
            over = self._tracker.begin_with(ticks)
        else:
            over = self._tracker.begin_with(ticks, self._of_tracked(started.high), self._of_tracked(started.low))
        if over and started.steps:
            self.violations, self._violation = self.violations + 1, True

    def _exactly(self, spent: Spent) -> list[Fraction]:
        pairs = zip(self._resources, spent.reported, strict=True)
        return self._of_tracked([exact(cost, f"step, cost of {name}") for name, cost in pairs])

    def _of_tracked(self, costs: Sequence[Fraction]) -> list[Fraction]:
        return [costs[d] for d in self._tracked]

    def _spend(self, costs: list[int], spent: Spent) -> None:
        """Add the cost of a step to the tracker, and count a violation if it broke a limit."""
        self._keep_cost(costs)
        if spent.high is None or spent.low is None:
            self._tracker.spend(costs)
        else:
            self._tracker.spend(costs, self._of_tracked(spent.high), self._of_tracked(spent.low))
        self._violation = self._tracker.broken
        self.violations += self._violation

    def _keep_cost(self, ticks: list[int]) -> None:
        """Keep the cost of the last step, and the sum over resources; ticks may become finer before it is told."""
        if len(ticks) == 1:
            self._cost = ticks[0] / self._tracker.scale[0]
            self._costs = [self._cost]
        else:
            self._costs = self._tracker.to_floats(ticks)
            pairs = zip(ticks, self._tracker.scale, strict=True)
            self._cost = float(sum((Fraction(cost, scale) for cost, scale in pairs), Fraction(0)))

    def _paid(self, reward: Any) -> tuple[Any, dict[str, Any]]:
        """Return the reward of a step, with that of a dead end, and what `info` says about it."""
        self._dead_end_reward.observe(reward)
        if not self._dead_end:
            return reward, {}
        extra = self._dead_end_reward(self._tracker.step)
        return reward + extra if extra else reward, {"dead_end_reward": extra}

    def _tell(
        self, observation: Any, info: Mapping[str, Any], mask: NDArray[np.bool_] | None, more: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the observation and the `info` of the wrapper."""
        tracker, names = self._tracker, self._tracker.resources
        remaining = tracker.to_floats(tracker.remaining_ticks())
        single = len(names) == 1  # the usual case, which takes less time
        told = {
            **info,
            "cost": self._cost,
            "costs": {names[0]: self._costs[0]} if single else dict(zip(names, self._costs, strict=True)),
            "remaining": {names[0]: remaining[0]} if single else dict(zip(names, remaining, strict=True)),
            "step": tracker.step,
            "dead_end": self._dead_end,
            "violation": self._violation,
            **more,
        }
        if mask is None:
            return self._layout(observation, remaining, tracker.step, _NO_MASK), told
        told["action_mask"] = mask.astype(np.int8)
        return self._layout(observation, remaining, tracker.step, mask), told

    def _where(self) -> str:
        return f"step {self._tracker.step}, {self._left()}"

    def _left(self) -> str:
        if not self._tracker.resources:
            return "no limits"
        return "remaining " + ", ".join(f"{name} {short_amount(x)}" for name, x in self._tracker.remaining.items())


_NO_MASK: NDArray[np.bool_] = np.zeros(0, np.bool_)
