"""Gymnasium: models as environments, and a wrapper that keeps an environment within a budget.

Importing this module registers `solvent/Model-v0`:

>>> import gymnasium
>>> import solvent.gym
>>> from solvent.model import instances
>>> env = gymnasium.make("solvent/Model-v0", model=instances.fuel_grid(3))
>>> env.observation_space, env.action_space
(Discrete(9), Discrete(5))
"""

from __future__ import annotations

import gymnasium

from solvent.gym.adapters import CostInInfo, CostMeter
from solvent.gym.env import ENV_ID, ModelEnv
from solvent.gym.masks import CostSupport, EmpiricalCostBound
from solvent.gym.starts import RandomStart
from solvent.gym.wrapper import BudgetWrapper

__all__ = [
    "ENV_ID",
    "BudgetWrapper",
    "CostInInfo",
    "CostMeter",
    "CostSupport",
    "EmpiricalCostBound",
    "ModelEnv",
    "RandomStart",
]

if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point="solvent.gym.env:ModelEnv")
