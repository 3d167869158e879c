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

from typing import TYPE_CHECKING, Any

import gymnasium

from solvent.errors import SolventError
from solvent.gym.adapters import CostInInfo
from solvent.gym.continuous import ContinuousBudgetWrapper
from solvent.gym.early import EarlyTermination
from solvent.gym.env import ENV_ID, ModelEnv
from solvent.gym.evaluation import Evaluation, evaluate
from solvent.gym.masks import CostSupport, EmpiricalCostBound
from solvent.gym.meter import CostMeter, MeteredEpisode
from solvent.gym.norms import NormCost
from solvent.gym.starts import RandomStart
from solvent.gym.wrapper import BudgetWrapper

__all__ = [
    "ENV_ID",
    "BudgetWrapper",
    "ContinuousBudgetWrapper",
    "CostInInfo",
    "CostMeter",
    "CostSupport",
    "EarlyTermination",
    "EmpiricalCostBound",
    "Evaluation",
    "MeteredEpisode",
    "ModelEnv",
    "NormCost",
    "RandomStart",
    "VectorBudgetWrapper",
    "evaluate",
]

if TYPE_CHECKING or hasattr(gymnasium.vector, "AutoresetMode"):
    from solvent.gym.vector import VectorBudgetWrapper
else:
    __all__.remove("VectorBudgetWrapper")


def __getattr__(name: str) -> Any:
    if name == "VectorBudgetWrapper":  # looked up here only if it was not imported above
        raise SolventError(f"{name}: expected Gymnasium 1.1 or newer, found {gymnasium.__version__}")
    raise AttributeError(f"module 'solvent.gym' has no attribute {name!r}")


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point="solvent.gym.env:ModelEnv")
