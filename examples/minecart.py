"""An environment without a table: mo-gymnasium's minecart, with a tank.

A cart drives on a plane, digs ore and sells it at home; its position, speed and heading are real numbers. Nobody has a
model of it, but what an action burns is known, and a bound of one step ahead is enough to be never over budget. A
reserve sees to it that digging leaves enough to turn round and roll home. That is a rule of thumb: it is there to bring
ore home, and the budget does not rest on it. The agent is Sarsa(lambda) on a coarse grid, in numpy; beside it the same
with a penalty instead. Needs the extra `envs`.
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
#: What actions burn: mine, left, right, accelerate, brake, none.
FUEL = [Fraction(fuel) for fuel in ("0.22", "0.02", "0.02", "0.12", "0.02", "0.02")]


class Cart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Minecart with one reward, the ore that is sold, and its fuel as a cost, in thousandths."""

    passes_actions = True  # each once and as it is, as BudgetWrapper asks of what is inside it

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, rewards, terminated, truncated, info = self.env.step(action)
        burned = Fraction(round(-1000 * float(rewards[-1])), 1000)  # the environment reports float32
        return observation, float(rewards[:-1].sum()), terminated, truncated, {**info, "cost": burned}


def make_cart() -> Cart:
    """Return a cart whose mines always give the same; it would draw from a generator that nobody can seed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered.*")  # its Box is made of float64
        return Cart(mo_gymnasium.make("minecart-deterministic-v0", max_episode_steps=120))


def way_home(observation: Any, action: int) -> Fraction:
    """Return what to keep back: after digging, five turns, a push, and rolling home at the speed of one."""
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
        """Play an episode; learn from it if it explores. Ore counts half when it is dug, and the rest when sold."""
        seen, info = env.reset()
        action, traces = self.act(seen, info.get("action_mask", np.ones(6)), explore), {}
        over = False
        while not over:
            following, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            here = (*cell(seen), action)
            target = reward - 0.002 - 0.5 * load(seen)  # a little for the time it takes
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
    """Return how much ore is in the cart, which holds 1.5."""
    return 1.5 * float(seen["observation"][5:].sum())


def cell(seen: Any) -> tuple[int, ...]:
    """Return where a cart is among the cells of the table."""
    x, y, speed, sine, cosine = seen["observation"][:5].tolist()
    heading = round((math.degrees(math.atan2(sine, cosine)) - 45) / (360 / HEADINGS)) % HEADINGS
    place = (min(int(BINS * x), BINS - 1), min(int(BINS * y), BINS - 1))
    return (*place, heading, int(np.digitize(speed, (0.001, 0.045))), int(np.digitize(load(seen), (0.01, 0.9))))


def run(env: gymnasium.Env[Any, Any], meter: Meter, episodes: int, seed: int) -> tuple[Tally, Tally]:
    """Return what happened in training, and then in 20 episodes of what was learned."""
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
    parser.add_argument("--penalty", type=float, default=2.0, help="for each unit over budget")
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
