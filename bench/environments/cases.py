"""The environments: how each is made, what a step costs, and the budget; this module imports nothing of Solvent.

Costs are the environment's own where it has some: control costs in `info`, or the fuel in a vector of rewards. Others
are a price for each action.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np

from bench.environments.meter import Charge, Step

#: Steps of an episode, where the environment has no shorter time limit.
LENGTH = 200


@dataclass(frozen=True)
class Discrete:
    """An environment with numbered actions.

    Attributes
    ----------
    name : str
    package : str
        The distribution that it comes from.
    make : function
        Returns the environment.
    cost : str
        What costs how much, in words.
    budget : Fraction
    prices : tuple of Fraction, or function of (observation, action)
        Upper bound on the cost of each action.
    charge : Charge, optional
        Cost of a step. Default: the price of the action.
    horizon : int, optional
        If the environment has a table of transitions, or few enough states to learn in: the steps of an episode in
        exact masks and for the learner.
    table : bool
        Whether it has a table of transitions, and prices by action.
    rewards : (float, float)
        The least and the greatest reward, for the learner.
    vector : bool
        Whether to play it in a vector too.
    """

    name: str
    package: str
    make: Callable[[], Any]
    cost: str
    budget: Fraction
    prices: tuple[Fraction, ...] | Callable[[Any, int], Fraction]
    charge: Charge | None = None
    horizon: int | None = None
    table: bool = False
    rewards: tuple[float, float] = (0.0, 1.0)
    vector: bool = False

    def price(self, observation: Any, action: int) -> Fraction:
        """Return the bound on the cost of an action."""
        return self.prices(observation, action) if callable(self.prices) else self.prices[action]

    def charged(self, step: Step) -> Any:
        """Return the cost of a step."""
        return self.price(step.before, int(step.action)) if self.charge is None else self.charge(step)


@dataclass(frozen=True)
class Continuous:
    """An environment whose actions are a Box.

    Attributes
    ----------
    name, package, make, cost, budget : as in `Discrete`
    charge : Charge
        Cost of a step.
    key : str or None
        Where the environment itself reports it in `info`, with a minus before the key for its negative; None if only
        the meter does.
    norm : (float, float) or None
        Weight and order of the norm of the action that bounds the cost; the norm is squared if its order is 2.
    bound : function of (observation, action), optional
        Upper bound on the cost, if it is not a norm.
    most : float
        The largest component that agents ask for, where the Box has none.
    """

    name: str
    package: str
    make: Callable[[], Any]
    cost: str
    budget: Fraction
    charge: Charge
    key: str | None = None
    norm: tuple[float, float] | None = None
    bound: Callable[[Any, Any], float] | None = None
    most: float = 1.0


@dataclass(frozen=True)
class Agents:
    """A PettingZoo environment.

    Attributes
    ----------
    name, package, make, cost, budget : as in `Discrete`
    prices : function of (agent, action)
    parallel : bool
        Whether agents act at the same time; else they take turns.
    shared : bool
        Whether they share the budget.
    """

    name: str
    package: str
    make: Callable[[], Any]
    cost: str
    budget: Fraction
    prices: Callable[[Any, int], Fraction]
    parallel: bool
    shared: bool


Case = Discrete | Continuous | Agents


def _numbers(text: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, text.split()))


def _gym(name: str, length: int | None = LENGTH, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        if length is None:
            return gymnasium.make(name, **options)
        return gymnasium.make(name, max_episode_steps=length, **options)

    return make


def _registered(module: str, name: str, length: int | None = LENGTH, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        gymnasium.register_envs(importlib.import_module(module))
        return _gym(name, length, **options)()

    return make


def _objectives(name: str, length: int = LENGTH) -> Callable[[], Any]:
    """Return how to make an environment of MO-Gymnasium, whose rewards are vectors; agents see their first part."""

    def make() -> Any:
        mo_gymnasium = importlib.import_module("mo_gymnasium")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mo_gymnasium.make(name, max_episode_steps=length)

    return make


def _jumanji(name: str) -> Callable[[], Any]:
    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            environments = importlib.import_module("jumanji.environments")
            adapter = importlib.import_module("jumanji.wrappers").JumanjiToGymWrapper
            return adapter(getattr(environments, name)())

    return make


def _zoo(module: str, function: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(f"pettingzoo.{module}"), function)(**options)


def _info(key: str) -> Charge:
    """Return the charge that an environment reports in `info`, as the float that it is."""
    return lambda step: float(-step.info[key])


def _squares(weight: float) -> Charge:
    """Return a weight times the sum of squares, computed as environments do, in the action's own type."""
    return lambda step: float(weight * np.sum(np.square(step.action)))


def _lost(part: int, digits: int) -> Charge:
    """Return the negative of a part of a vector of rewards, which is a decimal number up to rounding in float32."""
    return lambda step: Fraction(str(round(float(-step.reward[part]), digits)))


def _weight(observation: Any, item: int) -> Fraction:
    return Fraction(float(observation["weights"][item]))  # its float32, exactly


def _from_city(observation: Any, city: int) -> Fraction:
    """Return the city-block distance to a city, in units of 2**-10, rounded up; 0 for the first one."""
    at = int(observation["position"])
    if at < 0:
        return Fraction(0)
    cities = np.asarray(observation["coordinates"], np.float64)
    return Fraction(math.ceil(float(np.abs(cities[at] - cities[city]).sum()) * 1024), 1024)


def _lander(action: Any) -> float:
    """Return the fuel of the lander's engines as its reward counts it: they start at half their power."""
    main = 0.3 * (min(max(float(action[0]), 0.0), 1.0) + 1.0) * 0.5 if action[0] > 0.0 else 0.0
    side = 0.03 * min(max(abs(float(action[1])), 0.5), 1.0) if abs(action[1]) > 0.5 else 0.0
    return main + side


def _dear(first: int, step: int = 1) -> Callable[[Any, int], Fraction]:
    return lambda agent, action: Fraction(action * step + first)


_MOVES = "each action: 0.1, 0.7, 1.3 and 2.9"
_FOUR = _numbers("0.1 0.7 1.3 2.9")
_TAXI = _numbers("1 1.3 1 1.3 0 0.5")

TOY = (
    Discrete(
        "FrozenLake-v1",
        "gymnasium",
        _gym("FrozenLake-v1", None),
        _MOVES,
        Fraction(7),
        _FOUR,
        horizon=30,
        table=True,
        vector=True,
    ),
    Discrete(
        "FrozenLake8x8-v1",
        "gymnasium",
        _gym("FrozenLake8x8-v1", None),
        _MOVES,
        Fraction(20),
        _FOUR,
        horizon=60,
        table=True,
    ),
    Discrete(
        "CliffWalking-v1",
        "gymnasium",
        _gym("CliffWalking-v1"),
        _MOVES,
        Fraction(16),
        _FOUR,
        horizon=30,
        table=True,
        rewards=(-100, 0),
        vector=True,
    ),
    Discrete(
        "CliffWalkingSlippery-v1",
        "gymnasium",
        _gym("CliffWalking-v1", is_slippery=True),
        _MOVES,
        Fraction(16),
        _FOUR,
        horizon=30,
        table=True,
        rewards=(-100, 0),
    ),
    Discrete(
        "Taxi-v4",
        "gymnasium",
        _gym("Taxi-v4"),
        "moves 1 or 1.3, dropping 0.5",
        Fraction(15),
        _TAXI,
        horizon=20,
        table=True,
        rewards=(-10, 20),
        vector=True,
    ),
    Discrete(
        "Taxi-v4, rain",
        "gymnasium",
        _gym("Taxi-v4", is_rainy=True),
        "moves 1 or 1.3, dropping 0.5",
        Fraction(15),
        _TAXI,
        horizon=20,
        table=True,
        rewards=(-10, 20),
    ),
    Discrete(
        "Blackjack-v1",
        "gymnasium",
        _gym("Blackjack-v1", None),
        "a card: 1",
        Fraction(1),
        _numbers("0 1"),
        horizon=8,
        rewards=(-1, 1),
    ),
)

CLASSIC = (
    Discrete(
        "CartPole-v1", "gymnasium", _gym("CartPole-v1"), "pushing right: 1", Fraction(8), _numbers("0 1"), vector=True
    ),
    Discrete(
        "Acrobot-v1", "gymnasium", _gym("Acrobot-v1"), "torque: 0.1", Fraction(2), _numbers("0.1 0 0.1"), vector=True
    ),
    Discrete(
        "MountainCar-v0",
        "gymnasium",
        _gym("MountainCar-v0"),
        "left 0.3, right 0.7",
        Fraction(20),
        _numbers("0.3 0 0.7"),
        vector=True,
    ),
    Continuous(
        "MountainCarContinuous-v0",
        "gymnasium",
        _gym("MountainCarContinuous-v0"),
        "0.1 times the square of the force, as in its reward",
        Fraction(2),
        _squares(0.1),
        norm=(0.1, 2),
    ),
    Continuous(
        "Pendulum-v1",
        "gymnasium",
        _gym("Pendulum-v1"),
        "0.001 times the square of the torque, as in its reward",
        Fraction("0.1"),
        _squares(0.001),
        norm=(0.001, 2),
        most=2.0,
    ),
)

BOX2D = (
    Discrete(
        "LunarLander-v3",
        "box2d",
        _gym("LunarLander-v3"),
        "fuel as in its reward: main engine 0.3, side engines 0.03",
        Fraction(5),
        _numbers("0 0.03 0.3 0.03"),
        vector=True,
    ),
    Continuous(
        "LunarLander-v3, continuous",
        "box2d",
        _gym("LunarLander-v3", continuous=True),
        "fuel as in its reward; engines start at half their power",
        Fraction(5),
        lambda step: _lander(step.action),
        bound=lambda seen, action: _lander(action),
    ),
    Continuous(
        "BipedalWalker-v3",
        "box2d",
        _gym("BipedalWalker-v3"),
        "0.028 times the sum of absolute torques, as in its reward",
        Fraction(3),
        lambda step: float(sum(0.00035 * 80 * np.clip(np.abs(a), 0, 1) for a in step.action)),
        norm=(0.00035 * 80, 1),
    ),
    Continuous(
        "CarRacing-v3",
        "box2d",
        _gym("CarRacing-v3", 60),
        "gas",
        Fraction(10),
        lambda step: float(step.action[1]),
        bound=lambda seen, action: float(action[1]),
    ),
)


def _robot(name: str, weight: float, budget: str, key: str = "reward_ctrl", most: float = 1.0) -> Continuous:
    words = f"its own `{key}`: {weight:g} times the sum of squares"
    return Continuous(
        name, "mujoco", _gym(name), words, Fraction(budget), _info(key), f"-{key}", (weight, 2), most=most
    )


MUJOCO = (
    _robot("HalfCheetah-v5", 0.1, "10"),
    _robot("Ant-v5", 0.5, "20"),
    _robot("Swimmer-v5", 1e-4, "0.01"),
    _robot("Hopper-v5", 1e-3, "0.02"),
    _robot("Walker2d-v5", 1e-3, "0.05"),
    _robot("Humanoid-v5", 0.1, "1", most=0.4),
    _robot("HumanoidStandup-v5", 0.1, "5", key="reward_quadctrl", most=0.4),
    _robot("Reacher-v5", 1.0, "10"),
    _robot("Pusher-v5", 0.1, "20", most=2.0),
    Continuous(
        "InvertedPendulum-v5",
        "mujoco",
        _gym("InvertedPendulum-v5"),
        "square of the force",
        Fraction(20),
        _squares(1.0),
        norm=(1.0, 2),
        most=3.0,
    ),
    Continuous(
        "InvertedDoublePendulum-v5",
        "mujoco",
        _gym("InvertedDoublePendulum-v5"),
        "square of the force",
        Fraction(3),
        _squares(1.0),
        norm=(1.0, 2),
    ),
)

OBJECTIVES = (
    Discrete(
        "minecart-v0",
        "mo-gymnasium",
        _objectives("minecart-v0"),
        "its own fuel",
        Fraction("1.5"),
        _numbers("0.22 0.02 0.02 0.12 0.02 0.02"),
        _lost(-1, 3),
    ),
    Discrete(
        "deep-sea-treasure-v0",
        "mo-gymnasium",
        _objectives("deep-sea-treasure-v0"),
        "its own time: 1",
        Fraction(9),
        _numbers("1 1 1 1"),
        _lost(-1, 0),
    ),
    Discrete(
        "mo-lunar-lander-v3",
        "mo-gymnasium",
        _objectives("mo-lunar-lander-v3"),
        "its own fuel: main engine 1, side engines 1",
        Fraction(12),
        _numbers("0 1 1 1"),
        lambda step: -round(float(step.reward[2] + step.reward[3])),
    ),
    Discrete(
        "resource-gathering-v0", "mo-gymnasium", _objectives("resource-gathering-v0"), _MOVES, Fraction(12), _FOUR
    ),
    Discrete("four-room-v0", "mo-gymnasium", _objectives("four-room-v0"), _MOVES, Fraction(12), _FOUR),
    Discrete(
        "mo-mountaincar-v0",
        "mo-gymnasium",
        _objectives("mo-mountaincar-v0"),
        "its own count of pushes",
        Fraction(9),
        _numbers("1 0 1"),
        lambda step: -int(step.reward[1] + step.reward[2]),
    ),
    Continuous(
        "mo-mountaincarcontinuous-v0",
        "mo-gymnasium",
        _objectives("mo-mountaincarcontinuous-v0"),
        "its own fuel: square of the force",
        Fraction(5),
        lambda step: float(-step.reward[1]),
        norm=(1.0, 2),
    ),
    Continuous(
        "mo-halfcheetah-v5",
        "mo-gymnasium",
        _objectives("mo-halfcheetah-v5"),
        "its own `reward_ctrl`: 0.1 times the sum of squares",
        Fraction(10),
        _info("reward_ctrl"),
        "-reward_ctrl",
        (0.1, 2),
    ),
    Continuous(
        "water-reservoir-v0",
        "mo-gymnasium",
        _objectives("water-reservoir-v0", 100),
        "water that the action releases",
        Fraction(500),
        lambda step: float(step.action[0]),
        bound=lambda seen, action: float(abs(action[0])),
        most=100.0,
    ),
)

JUMANJI = (
    Discrete("Knapsack", "jumanji", _jumanji("Knapsack"), "its own weights", Fraction(6), _weight),
    Discrete("TSP", "jumanji", _jumanji("TSP"), "city-block distance, in units of 1/1024", Fraction(3), _from_city),
    Discrete("Snake", "jumanji", _jumanji("Snake"), _MOVES, Fraction(12), _FOUR),
    Discrete("Maze", "jumanji", _jumanji("Maze"), _MOVES, Fraction(12), _FOUR),
)

ZOO = (
    Agents(
        "rps_v2",
        "pettingzoo",
        _zoo("classic.rps_v2", "parallel_env", max_cycles=60),
        "the number of the action",
        Fraction(25),
        _dear(0),
        parallel=True,
        shared=True,
    ),
    Agents(
        "tictactoe_v3",
        "pettingzoo",
        _zoo("classic.tictactoe_v3", "env"),
        "the number of the field",
        Fraction(14),
        _dear(0),
        parallel=False,
        shared=False,
    ),
    Agents(
        "connect_four_v3",
        "pettingzoo",
        _zoo("classic.connect_four_v3", "env"),
        "the number of the column",
        Fraction(50),
        _dear(0),
        parallel=False,
        shared=True,
    ),
    Agents(
        "cooperative_pong_v6",
        "pettingzoo",
        _zoo("butterfly.cooperative_pong_v6", "parallel_env", max_cycles=100),
        "the number of the action",
        Fraction(30),
        _dear(0),
        parallel=True,
        shared=False,
    ),
    Agents(
        "pursuit_v5",
        "pettingzoo",
        _zoo("sisl.pursuit_v5", "parallel_env", max_cycles=40),
        "the number of the action",
        Fraction(400),
        _dear(0),
        parallel=True,
        shared=True,
    ),
)

MINIGRID = tuple(
    Discrete(
        name,
        "minigrid",
        _registered("minigrid", name),
        "turns 0.5, ahead 1, others 0.25",
        Fraction(budget),
        _numbers(prices),
    )
    for name, budget, prices in (
        ("MiniGrid-Empty-5x5-v0", 6, "0.5 0.5 1 0.25 0.25 0.25 0.25"),
        ("MiniGrid-DoorKey-5x5-v0", 12, "0.5 0.5 1 0.25 0.25 0.25 0.25"),
        ("MiniGrid-FourRooms-v0", 20, "0.5 0.5 1 0.25 0.25 0.25 0.25"),
        ("MiniGrid-Dynamic-Obstacles-5x5-v0", 4, "0.5 0.5 1"),
    )
)

OTHERS = (
    Discrete(
        "ALE/Pong-v5",
        "ale-py",
        _registered("ale_py", "ALE/Pong-v5", 100, obs_type="ram"),
        "moving: 1",
        Fraction(30),
        _numbers("0 0 1 1 1 1"),
    ),
    Discrete(
        "ALE/Breakout-v5",
        "ale-py",
        _registered("ale_py", "ALE/Breakout-v5", 100, obs_type="ram"),
        "moving: 1",
        Fraction(30),
        _numbers("0 0 1 1"),
    ),
    Discrete(
        "highway-fast-v0",
        "highway-env",
        _registered("highway_env", "highway-fast-v0", None),
        "changing lanes 1, speed 0.5",
        Fraction(6),
        _numbers("1 0 1 0.5 0.5"),
    ),
    Continuous(
        "parking-v0",
        "highway-env",
        _registered("highway_env", "parking-v0", None),
        "sum of squares",
        Fraction(10),
        _squares(1.0),
        norm=(1.0, 2),
    ),
)

#: What cannot be played here, and why.
NOT_PLAYED = (
    (
        "safety-gymnasium 1.0.0",
        "requires exactly Gymnasium 0.28.1, mujoco 2.3.3 and pygame 2.1.0, so it cannot be installed beside the others",
    ),
)

CASES: Sequence[Case] = (*TOY, *CLASSIC, *BOX2D, *MUJOCO, *OBJECTIVES, *JUMANJI, *ZOO, *MINIGRID, *OTHERS)
#: What a quick run plays: one of each kind, all of packages that the tests have.
QUICK = ("FrozenLake-v1", "Blackjack-v1", "CartPole-v1", "Pendulum-v1", "rps_v2", "tictactoe_v3")
#: Share of the steps that environments play in which a step takes milliseconds.
SHARES = {
    "CarRacing-v3": 0.1, "Knapsack": 0.3, "TSP": 0.3, "Snake": 0.3, "Maze": 0.3, "cooperative_pong_v6": 0.3,
    "pursuit_v5": 0.5, "highway-fast-v0": 0.05, "parking-v0": 0.1,
}  # fmt: skip


def steps_of(case: Case, steps: int) -> int:
    """Return the number of steps that each agent plays in an environment."""
    return max(1, round(steps * SHARES.get(case.name, 1.0)))
