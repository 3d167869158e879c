"""Small random environments that keep their own exact account of spending, and unusual wrappers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import gymnasium

#: A cost is a whole number of these, or of tenths, as floats have them.
UNITS = (Fraction(1), Fraction(1, 3), Fraction(1, 10))


class Ledgered(gymnasium.Env[Any, Any]):
    """A random process of three states that adds up what it takes, and judges itself after every step of its own.

    Parameters
    ----------
    seed : int
        Of its tables.
    limits : sequence of Fraction
        Limit after each step; the last one applies to all later steps.
    refunds : bool
        Whether some costs are negative.
    ends : bool
        Whether it ends by itself now and then, in the last state.

    Attributes
    ----------
    over : int
        Episodes in which a limit was broken: after a step, or, where it had ended, after a later one.
    excess : Fraction
        The most by which a limit was ever broken.
    """

    def __init__(self, seed: int, limits: Sequence[Fraction], *, refunds: bool = False, ends: bool = False) -> None:
        rng = Random(seed)
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(3)
        self.limits, self.ends, unit = list(limits), ends, rng.choice(UNITS)
        least = -2 if refunds else 0
        #: Possible next states and their costs, by (state, action).
        self.table = {
            (state, action): [
                (after, unit * rng.randint(least, 4)) for after in rng.sample(range(3), rng.randint(1, 2))
            ]
            for state in range(3)
            for action in range(3)
        }
        for state in range(3):  # something can always be done for nothing
            self.table[state, 0] = [(after, Fraction(0)) for after, _ in self.table[state, 0]]
        self.over, self.excess, self.episodes = 0, Fraction(0), 0
        self.broke = True

    @property
    def largest_cost(self) -> Fraction:
        return max(cost for outcomes in self.table.values() for _, cost in outcomes)

    def price(self, state: Any, action: Any, after: Any) -> Fraction:
        return dict(self.table[int(state), int(action)])[int(after)]

    def most(self, action: int) -> Fraction:
        return max(cost for (_, a), outcomes in self.table.items() if a == action for _, cost in outcomes)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.steps, self.spent, self.broke = 0, 0, Fraction(0), False
        self.episodes += 1
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.table[self.state, int(action)]
        self.state, cost = outcomes[int(self.np_random.integers(len(outcomes)))]
        self.spent += cost
        ended = self.ends and self.state == 2 and self.np_random.random() < 0.5
        later = self.limits[self.steps :] or self.limits[-1:]
        self._judge(min(later) if ended else later[0])
        self.steps += 1
        return self.state, float(action) / 2, ended, False, {"cost": cost}

    def _judge(self, limit: Fraction) -> None:
        self.excess = max(self.excess, self.spent - limit)
        if self.spent > limit and not self.broke:
            self.broke = True
            self.over += 1


class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every step two times, and reports the second."""

    def step(self, action: Any) -> Any:
        _, _, terminated, truncated, _ = result = self.env.step(action)
        return result if terminated or truncated else self.env.step(action)


class Shifted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes the next action in place of each."""

    def step(self, action: Any) -> Any:
        return self.env.step((int(action) + 1) % 3)


class Eager(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has taken a step by the time an episode begins."""

    def reset(self, **options: Any) -> Any:
        self.env.reset(**options)
        observation, _, _, _, info = self.env.step(2)
        return observation, info


class Quiet(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Changes nothing, and says so."""

    passes_actions = True

    def step(self, action: Any) -> Any:
        return self.env.step(action)


class Heir(Quiet):
    """Inherits what another class says of itself, which its own step makes untrue."""

    def step(self, action: Any) -> Any:
        return self.env.step(2)
