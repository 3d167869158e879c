"""What a dead end is paid: ending an episode for lack of budget must not be better than continuing.

An episode that reaches a dead end stops. If rewards are negative, as the -1 per step of CliffWalking, stopping early
would be the best that an agent could do. So the step that ends in a dead end is paid, in addition to its own reward,

    min(r, 0) * (T - t),

where r is the lowest reward seen so far, T the time limit and t the number of steps taken. With rewards of at least r,
no way to continue for at most T - t steps earns less, so a dead end is worth no more than any continuation. If rewards
are never negative, it is paid nothing.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium

from solvent.errors import ModelError, quote
from solvent.gym.norms import is_number

#: Time limit that is assumed for environments without one.
ASSUMED_STEPS = 1000


class DeadEndReward:
    """Computes the additional reward of a step that ends in a dead end.

    Parameters
    ----------
    given : float or None
        That reward, or None for a bound on what any continuation earns.
    longest : int or None
        Greatest number of steps of an episode, if known.

    Examples
    --------
    >>> reward = DeadEndReward(None, longest=200)
    >>> reward.observe(-1.0)
    >>> reward(steps=50)
    -150.0
    """

    def __init__(self, given: Any, longest: int | None) -> None:
        if given is not None and not (is_number(given) and math.isfinite(given)):
            raise ModelError("dead_end_reward", "a finite number, or None", quote(given))
        self._given = None if given is None else float(given)
        self._longest, self._lowest = ASSUMED_STEPS if longest is None else longest, 0.0

    def observe(self, reward: Any) -> None:
        """Record a reward; rewards of several objectives are ignored."""
        if type(reward) is float and reward >= self._lowest:  # the usual case
            return
        try:
            value = float(reward)
        except (TypeError, ValueError):
            return
        if value < self._lowest and math.isfinite(value):
            self._lowest = value

    def __call__(self, steps: int) -> float:
        """Return the additional reward of a dead end after some steps."""
        return self._lowest * max(self._longest - steps, 1) if self._given is None else self._given


def longest_episode(env: Any, horizon: int | None = None) -> int | None:
    """Return the greatest number of steps of an episode, by a horizon or a `TimeLimit` inside; None if unknown.

    Examples
    --------
    >>> longest_episode(gymnasium.make("CartPole-v1"))
    500
    """
    found = [] if horizon is None else [horizon]
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        # a spec may name a limit that is not enforced, so only the wrapper itself counts
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            found.append(int(layer._max_episode_steps))
        layer = layer.env
    return min(found, default=None)
