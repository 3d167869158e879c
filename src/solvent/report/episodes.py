"""Sample episodes for the page, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.policy.remaining import RemainingBudget
from solvent.report.numbers import amount_text, as_float, finite
from solvent.report.plans import Names
from solvent.verification.simulate import Trajectories

#: Steps of one episode that are shown.
MOST_STEPS = 400


def episode_data(
    model: CMDP, limits: Limits, played: Trajectories, rewards: NDArray[np.float64], names: Names
) -> list[dict[str, Any]]:
    """Return the episodes for the page, each with its steps and its total reward."""
    return [_episode(model, limits, played, float(rewards[k]), names, k) for k in range(len(played))]


def _episode(model: CMDP, limits: Limits, played: Trajectories, reward: float, names: Names, k: int) -> dict[str, Any]:
    remaining = RemainingBudget(limits)
    spent = dict(zip(limits.resources, limits.initial, strict=True))
    steps: list[dict[str, Any]] = []
    total, last = 0.0, None
    for step in range(model.horizon):
        row = int(played.row_HK[step, k])
        if row < 0:
            break
        state = int(model.row_indptr.searchsorted(row, side="right") - 1) % model.n_states
        last = int(model.next_state[int(played.outcome_HK[step, k])])
        before = remaining(step, spent)
        spent = {name: played.spent[name][step][k] for name in limits.resources}
        total += float(model.row_reward[row])
        if step < MOST_STEPS:
            steps.append(
                {
                    "state": names.state(model.states[state]),
                    "action": names.action(model.actions[int(model.row_action[row])]),
                    "next": names.state(model.states[last]),
                    "reward": finite(float(model.row_reward[row])),
                    "remaining": [amount_text(before[name]) for name in limits.resources],
                    "cost": [amount_text(played.cost[name][step][k]) for name in limits.resources],
                    "spent": [amount_text(spent[name]) for name in limits.resources],
                    "x": [as_float(spent[name]) for name in limits.resources],
                }
            )
    bonus = 0.0
    if model.end_reward is not None:
        # without a step, the episode began in a terminal state, and earns what that is worth
        bonus = reward if last is None else float(model.end_reward[last])
    return {
        "steps": steps,
        "reward": total + bonus,
        "bonus": bonus,
        "initial": [as_float(amount) for amount in limits.initial],
        "cut": model.horizon > MOST_STEPS and len(steps) == MOST_STEPS,
    }
