"""Environments with independent accounts of what was spent: a CMDP behind Gymnasium's interface, and a wrapper."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np

from solvent.model.cmdp import CMDP


class Space:
    def __init__(self, n: int, start: int = 0) -> None:
        self.n, self.start = n, start


class Walker:
    """Plays a model with one resource and states and actions 0, 1, ...; records the most ever spent."""

    def __init__(self, model: CMDP, limit: Any = None, *, exact: bool = True) -> None:
        self.world, self.limit, self.exact = model, limit, exact
        self.observation_space, self.action_space = Space(model.n_states), Space(model.n_actions)
        self.worst, self.over = Fraction(-(10**9)), 0
        self.rng = np.random.default_rng(0)
        self.state, self.steps, self.spent, self.broke = 0, 0, Fraction(0), False

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.rng = np.random.default_rng(seed)
        self.state, self.steps, self.spent, self.broke = self.world.start_index, 0, Fraction(0), False
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        rows = self.world.rows(self.steps, self.state)
        row = next(r for r in rows if self.world.row_action[r] == action)
        outcomes = self.world.outcomes(row)
        drawn = int(self.rng.choice(len(outcomes), p=[each.probability for each in outcomes]))
        (cost,) = outcomes[drawn].cost.values()
        self.spent += cost
        self.worst = max(self.worst, self.spent)
        if self.limit is not None and self.spent > self.limit and not self.broke:
            self.broke = True
            self.over += 1
        self.state, self.steps = self.world.state_index(outcomes[drawn].next_state), self.steps + 1
        over = self.steps < self.world.horizon and self.world.is_terminal(self.steps, self.state)
        info = {"cost": cost if self.exact else float(cost)}
        return self.state, float(self.world.row_reward[row]), over, False, info


class Account(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wraps an environment and records the cost of each episode."""

    passes_actions = True

    def __init__(self, env: Any, cost: Callable[[Any, Any, Any], Any], limit: Any = None) -> None:
        super().__init__(env)
        self.cost, self.limit = cost, limit
        self.spent = self.most = Fraction(0)
        self.episodes, self.over, self.state = 0, 0, None

    def reset(self, **options: Any) -> Any:
        self.spent, self.episodes = Fraction(0), self.episodes + 1
        self.state, info = super().reset(**options)
        return self.state, info

    def step(self, action: Any) -> Any:
        before = self.state
        self.state, *rest = super().step(action)
        self.spent += Fraction(self.cost(before, action, self.state))
        self.most = max(self.most, self.spent)
        self.over += self.limit is not None and self.spent > self.limit
        return (self.state, *rest)
