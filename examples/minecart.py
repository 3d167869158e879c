"""An environment without a table: mo-gymnasium's minecart, with a fuel tank.

A cart drives on a plane, digs ore and sells it at home; its position, speed and heading are real numbers. There is no
model, but the fuel use of each action is known, and this bound for one step is enough never to exceed the budget. A
reserve makes sure that digging leaves enough fuel to turn round and roll home. The reserve is a heuristic for earning
more; the budget does not depend on it. The agent is Sarsa(lambda) on a coarse grid, in numpy, compared with the same
agent and a penalty. Requires the extra `envs`.
"""

from __future__ import annotations

import argparse
import math
import warnings
from fractions import Fraction
from typing import Any

import gymnasium
import mo_gymnasium
import numpy as np
from meter import Meter, Penalized, Tally, show

import solvent.gym

MINE, BINS, HEADINGS = 0, 6, 9
#: Fuel use of the actions mine, left, right, accelerate, brake, none.
FUEL = [Fraction(fuel) for fuel in ("0.22", "0.02", "0.02", "0.12", "0.02", "0.02")]


class Cart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Minecart with the ore sold as its reward, and fuel as its cost, rounded to thousandths."""

    passes_actions = True  # each action is executed once and unchanged, which BudgetWrapper requires

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, rewards, terminated, truncated, info = self.env.step(action)
        burned = Fraction(round(-1000 * float(rewards[-1])), 1000)  # the environment reports float32
        return observation, float(rewards[:-1].sum()), terminated, truncated, {**info, "cost": burned}


def make_cart() -> Cart:
    """Return a cart with deterministic mines; random ones use a generator that cannot be seeded."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered.*")  # its observation space has dtype float64
        return Cart(mo_gymnasium.make("minecart-deterministic-v0", max_episode_steps=120))


def way_home(observation: Any, action: int) -> Fraction:
    """Return the fuel to reserve: after digging, for five turns, one acceleration, and rolling home at that speed."""
    if action != MINE:
        return Fraction(0)
    roll = math.ceil(math.hypot(observation[0], observation[1]) / 0.12)
    return FUEL[3] + (5 + roll) * FUEL[5]


class Sarsa:
    """Sarsa(lambda) with replacing traces; states are cells of position, heading, speed and load."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._value = np.zeros((BINS, BINS, HEADINGS, 3, 3, 6))

    def act(self, seen: Any, mask: Any, explore: float) -> int:
        actions = np.flatnonzero(mask)
        if self._rng.random() >= explore:
            values = self._value[cell(seen)][actions]
            actions = actions[values == values.max()]
        return int(self._rng.choice(actions))

    def play(self, env: gymnasium.Env[Any, Any], explore: float, step_size: float = 0.2) -> None:
        """Play an episode, and learn from it if `explore` > 0; half of the reward for ore is given when it is dug."""
        seen, info = env.reset()
        action, traces = self.act(seen, info.get("action_mask", np.ones(6)), explore), {}
        over = False
        while not over:
            following, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            here = (*cell(seen), action)
            target = reward - 0.002 - 0.5 * load(seen)  # 0.002 is a small cost of time
            if not over:
                action = self.act(following, info.get("action_mask", np.ones(6)), explore)
                target += 0.5 * load(following) + self._value[(*cell(following), action)]
            error = target - self._value[here]
            traces = {place: 0.9 * trace for place, trace in traces.items() if trace > 0.02 and place[:-1] != here[:-1]}
            traces[here] = 1.0
            for place, trace in traces.items() if explore else ():
                self._value[place] += step_size * error * trace
            seen = following


def load(seen: Any) -> float:
    """Return the amount of ore in the cart, at most 1.5."""
    return 1.5 * float(seen["observation"][5:].sum())


def cell(seen: Any) -> tuple[int, ...]:
    """Return the indices of the cart's cell in the table."""
    x, y, speed, sine, cosine = seen["observation"][:5].tolist()
    heading = round((math.degrees(math.atan2(sine, cosine)) - 45) / (360 / HEADINGS)) % HEADINGS
    place = (min(int(BINS * x), BINS - 1), min(int(BINS * y), BINS - 1))
    return (*place, heading, int(np.digitize(speed, (0.001, 0.045))), int(np.digitize(load(seen), (0.01, 0.9))))


def run(env: gymnasium.Env[Any, Any], meter: Meter, episodes: int, seed: int) -> tuple[Tally, Tally]:
    """Return the tallies of training and of 20 evaluation episodes."""
    agent = Sarsa(seed)
    for episode in range(episodes):
        agent.play(env, explore=0.3 * (1 - episode / episodes) + 0.02)
    training = meter.read()
    for _ in range(20):
        agent.play(env, explore=0)
    return training, meter.read()


def main(argv: list[str] | None = None) -> dict[str, tuple[Tally, Tally]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tank", default="3")
    parser.add_argument("--penalty", type=float, default=2.0, help="penalty per unit over budget")
    options = parser.parse_args(argv)
    meters = [Meter(make_cart(), options.tank) for _ in range(2)]
    wrapped = solvent.gym.BudgetWrapper(meters[0], options.tank, cost_bound=FUEL, reserve=way_home)
    penalized = Penalized(meters[1], options.penalty)
    rows = {
        "budget wrapper": run(wrapped, meters[0], options.episodes, options.seed),
        f"penalty of {options.penalty:g}": run(penalized, meters[1], options.episodes, options.seed),
    }
    show(f"minecart, tank {options.tank}", rows)
    return rows


if __name__ == "__main__":
    main()
