"""Random families of problems for the average case, drawn so that the points of their frontiers are counted exactly.

Costs are integer multiples of 2**-40. Random outcomes are decided by a fair coin. If it is tossed k times in an
episode, rewards are multiples of 2**(k - 38), so that values are multiples of 2**-38. That is more than the tolerance
within which `solvent.solvers.frontier` treats values as equal, and every sum is exact in a double. So
distinct points are never merged, and rounding never separates equal ones: the count is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from solvent.errors import ModelError, quote
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP

#: Costs are multiples of 2**-COST_BITS, and values of 2**-VALUE_BITS.
COST_BITS, VALUE_BITS = 40, 38
#: With more coin tosses than this, too few bits would be left for rewards.
MOST_TOSSES = 20
#: The share of noise in a reward of the family "near"; the difference of reward and cost in the family "strong".
NEAR, BONUS = 0.1, 1.0
#: States of the family "states".
N_STATES = 4

#: Draws the reward and n costs of one step.
Draw = Callable[[np.random.Generator, int], tuple[float, np.ndarray]]


def _uniform(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    return float(rng.random()), rng.random(n)


def _near(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    costs = rng.random(n)
    return float(_noisy(float(costs.mean()), NEAR, rng.random(1))[0]), costs


def _strong(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    costs = rng.random(n)
    return float(costs.mean()) + BONUS, costs


def _subset_sum(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    costs = rng.random(n)
    return float(costs.mean()), costs


def _pareto(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    return float(rng.random()), 1 + rng.pareto(1.0, n)


def _lognormal(rng: np.random.Generator, n: int) -> tuple[float, np.ndarray]:
    return float(rng.random()), rng.lognormal(0.0, 2.0, n)


#: Families by name. Rewards and costs are independent in the first and the last two.
DRAWS: dict[str, Draw] = {
    "uniform": _uniform,
    "near": _near,
    "strong": _strong,
    "subset-sum": _subset_sum,
    "pareto": _pareto,
    "lognormal": _lognormal,
}


def draw(family: str, horizon: int, seed: int, *, random: bool = False) -> CMDP:
    """Return a problem of one state in which each step offers a reward for a cost, or rest.

    Parameters
    ----------
    family : str
        One of `DRAWS`, or "states": uniform rewards and costs in four states, from each of which either action leads to
        a random state.
    horizon : int
        Number of steps; at most 20 with random outcomes.
    seed : int
        Random seed. Draws also depend on the family and the horizon.
    random : bool
        If True, a fair coin decides between two costs, each drawn by the family; in "states", between two next states.

    Raises
    ------
    ModelError
        If there is no such family, or more steps have random outcomes than can be counted exactly.

    Examples
    --------
    >>> model = draw("uniform", 50, seed=1)
    >>> model.n_states, model.n_actions, model.n_outcomes
    (1, 2, 100)
    >>> draw("uniform", 50, seed=1) == model
    True
    >>> draw("uniform", 10, seed=1, random=True).n_outcomes
    30
    """
    if family not in DRAWS and family != "states":
        raise ModelError("family", f"one of {', '.join([*DRAWS, 'states'])}", quote(family))
    _check_tosses(horizon if random else 0)
    place = [*DRAWS, "states"].index(family)
    rng = np.random.default_rng([place, horizon, seed, random])
    if family == "states":
        return _states(horizon, rng, random)
    b = _one_state(horizon, f"{family}({horizon}, seed={seed})")
    for step in range(horizon):
        reward, costs = DRAWS[family](rng, 2 if random else 1)
        _offer(b, step, reward, costs, horizon if random else 0)
    return b.build()


def powers(horizon: int, noise: float, seed: int, *, random_steps: int = 0) -> CMDP:
    """Return the instance in which every subset is a point of the frontier, with noise.

    Item h has reward and cost 2**-h, h = 1..H, so that all 2**H subsets have different costs and rewards, in the same
    order. Each number x then becomes (1 - noise) * x + noise * u with its own u, uniform in [0, 1]: its density is
    1 / noise. Without noise that is the worst case, with noise 1 the family "uniform".

    Parameters
    ----------
    horizon : int
        Number of steps H.
    noise : float
        Between 0 and 1.
    seed : int
        Random seed.
    random_steps : int
        Number of steps, drawn at random, at which a coin decides between the cost of the item and half of another draw
        (of density 2 / noise).

    Raises
    ------
    ModelError
        If the noise is not between 0 and 1, or `random_steps` is more than the horizon, or than can be counted exactly.

    Examples
    --------
    >>> float(powers(3, noise=0, seed=1).row_reward.sum())
    0.875
    """
    _check_noise(noise)
    _check_tosses(random_steps)
    if random_steps > horizon:
        raise ModelError("random_steps", f"at most the number of steps, {horizon}", quote(random_steps))
    rng = np.random.default_rng([horizon, random_steps, seed])
    tossed = set(rng.permutation(horizon)[:random_steps].tolist())
    b = _one_state(horizon, f"powers({horizon}, noise={noise}, seed={seed})")
    for step in range(horizon):
        reward, first, second = _noisy(2.0 ** -(step + 1), noise, rng.random(3))
        costs = np.array([first, second / 2]) if step in tossed else np.array([first])
        _offer(b, step, float(reward), costs, random_steps)
    return b.build()


def prize(horizon: int, noise: float, seed: int) -> CMDP:
    """Return the instance whose frontier stays exponential under noise of density H / noise on its costs.

    At each step but the last a coin decides between a cost c_h in [0, 1 / H] and no cost. At the last step a prize is
    available for a cost between 1 - 1 / H and 1. Under a budget n, the prize is affordable if the sum of the earlier
    costs is small enough: the value is the prize times the distribution function of that sum, which has a step for each
    of the 2**(H - 1) subsets. Numbers are those of `powers`, scaled, with the same noise.

    Examples
    --------
    >>> prize(5, noise=0.5, seed=1).n_rows
    6
    """
    _check_noise(noise)
    _check_tosses(horizon - 1)
    rng = np.random.default_rng([horizon, seed])
    b = _one_state(horizon, f"prize({horizon}, noise={noise}, seed={seed})", rest=[horizon - 1])
    for step in range(horizon - 1):
        cost = _ticks(_noisy(2.0 ** -(step + 1), noise, rng.random(1))[0] / horizon)
        b.add("here", "pay", outcomes=[(Fraction(1, 2), "here", cost), (Fraction(1, 2), "here", 0)], steps=[step])
    worth, saved = _noisy(1.0, noise, rng.random(2))
    _offer(b, horizon - 1, float(worth), np.array([1 - (1 - saved) / horizon]), horizon - 1)
    return b.build()


def _one_state(horizon: int, name: str, rest: list[int] | None = None) -> Builder:
    b = Builder(horizon=horizon, start="here", resources=["cost"], name=name)
    b.add("here", "rest", outcomes=[(1, "here", 0)], steps=rest)
    return b


def _states(horizon: int, rng: np.random.Generator, random: bool) -> CMDP:
    """Return a problem of several states; numbers are drawn for every state, reachable or not."""
    b = Builder(horizon=horizon, start=0, resources=["cost"], states=range(N_STATES), name=f"states({horizon})")
    chances = [Fraction(1, 2)] * 2 if random else [Fraction(1)]
    for step in range(horizon):
        for state in range(N_STATES):
            for action in ("rest", "take"):
                after = rng.permutation(N_STATES)[: len(chances)].tolist()
                reward, cost = (0.0, 0.0) if action == "rest" else rng.random(2)
                outcomes = [(p, s, _ticks(cost)) for p, s in zip(chances, after, strict=True)]
                b.add(state, action, reward=_reward(reward, horizon if random else 0), outcomes=outcomes, steps=[step])
    return b.build()


def _offer(b: Builder, step: int, reward: float, costs: np.ndarray, tosses: int) -> None:
    chance = Fraction(1, len(costs))
    outcomes = [(chance, "here", _ticks(cost)) for cost in costs]
    b.add("here", "take", reward=_reward(reward, tosses), outcomes=outcomes, steps=[step])


def _noisy(value: float, noise: float, draws: np.ndarray) -> np.ndarray:
    noisy: np.ndarray = (1 - noise) * value + noise * draws
    return noisy


def _ticks(cost: float) -> Fraction:
    return Fraction(round(float(cost) * 2**COST_BITS), 2**COST_BITS)


def _reward(reward: float, tosses: int) -> float:
    bits = VALUE_BITS - tosses
    return math.ldexp(round(math.ldexp(reward, bits)), -bits)


def _check_noise(noise: float) -> None:
    if not 0 <= noise <= 1:
        raise ModelError("noise", "a number between 0 and 1", quote(noise))


def _check_tosses(tosses: int) -> None:
    if tosses > MOST_TOSSES:
        most = f"at most {MOST_TOSSES}, beyond which points lie too close to be counted"
        raise ModelError("number of random steps", most, quote(tosses))
