"""Solvent computes and learns policies that never exceed a budget: at any step, under any outcome.

>>> import solvent
>>> b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"])
>>> b.add("home", "go", reward=1, outcomes=[(0.7, "home", {"fuel": 1}), (0.3, "away", {"fuel": "3/2"})])
>>> b.add("home", "rest", outcomes=[(1, "home", 0)])
>>> b.add("away", "wait", outcomes=[(1, "away", 0)], steps=[1, 2])
>>> solvent.solve(b.build(), budget={"fuel": 2.5})
Solution(optimal, value 1.7, worst spent fuel 2.5, frontier)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solvent._version import __version__
from solvent.core.interrupt import held_back
from solvent.errors import (
    AddressSpaceError,
    BudgetError,
    CheckpointWarning,
    LatticeOverflowError,
    LimitError,
    LoadLimitError,
    LocatedError,
    ModelError,
    NodeLimitError,
    PolicyError,
    ProgramError,
    SolventError,
    UnmodeledOutcome,
)

if TYPE_CHECKING:
    from solvent import baselines, examples, gym, learning, plot
    from solvent.baselines.compare import Comparison, compare
    from solvent.core.loading import LoadLimits
    from solvent.core.progress import ProgressSink
    from solvent.formats.files import load_model
    from solvent.learning.learn import learn
    from solvent.learning.result import LearnProgress, LearnResult
    from solvent.learning.seeds import learn_seeds
    from solvent.model import instances
    from solvent.model.budget import Budget
    from solvent.model.build import Builder
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.model.discounted_build import DiscountedBuilder
    from solvent.model.distributions import CostDistribution, distribution
    from solvent.model.episodes import EpisodeCounts
    from solvent.model.resources import Resource
    from solvent.policy.agent import Agent, Event
    from solvent.policy.derandomize import derandomize
    from solvent.policy.discounted import DiscountedPolicy
    from solvent.policy.files import load_policy
    from solvent.policy.levels import LevelAgent, LevelPolicy
    from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
    from solvent.policy.plan import PlanRow
    from solvent.policy.table import AugmentedPolicy
    from solvent.policy.until_violation import UntilViolationPolicy
    from solvent.solvers.augmentation.augment import augment
    from solvent.solvers.augmentation.mdp import AugmentedMDP
    from solvent.solvers.base import Solver
    from solvent.solvers.curve import Curve
    from solvent.solvers.every_budget import frontier
    from solvent.solvers.explain import explain
    from solvent.solvers.explanation import Explanation, ForbiddingOutcome, Option
    from solvent.solvers.levels.levels import Levels, reach_levels, reload_levels, survival_levels
    from solvent.solvers.many import solve_many
    from solvent.solvers.solution import Diagnosis, Round, Solution, Stats, Status, Tail
    from solvent.solvers.solve import solve
    from solvent.solvers.surface import Surface
    from solvent.verification.discounted import DiscountedVerifyReport
    from solvent.verification.report import VerifyReport, Witness, WitnessStep
    from solvent.verification.simulate import Simulation, Trajectories, simulate
    from solvent.verification.verify import verify

#: The module of each public name; it is imported when the name is first used.
_HOME = {
    "Agent": "solvent.policy.agent",
    "AugmentedMDP": "solvent.solvers.augmentation.mdp",
    "AugmentedPolicy": "solvent.policy.table",
    "Budget": "solvent.model.budget",
    "Builder": "solvent.model.build",
    "CMDP": "solvent.model.cmdp",
    "Comparison": "solvent.baselines.compare",
    "CostDistribution": "solvent.model.distributions",
    "Curve": "solvent.solvers.curve",
    "Diagnosis": "solvent.solvers.solution",
    "DiscountedBuilder": "solvent.model.discounted_build",
    "DiscountedCMDP": "solvent.model.discounted",
    "DiscountedPolicy": "solvent.policy.discounted",
    "DiscountedVerifyReport": "solvent.verification.discounted",
    "EpisodeCounts": "solvent.model.episodes",
    "Event": "solvent.policy.agent",
    "Explanation": "solvent.solvers.explanation",
    "ForbiddingOutcome": "solvent.solvers.explanation",
    "LearnProgress": "solvent.learning.result",
    "LearnResult": "solvent.learning.result",
    "LevelAgent": "solvent.policy.levels",
    "LevelPolicy": "solvent.policy.levels",
    "Levels": "solvent.solvers.levels.levels",
    "LoadLimits": "solvent.core.loading",
    "MarkovPolicy": "solvent.policy.markov",
    "Option": "solvent.solvers.explanation",
    "PlanRow": "solvent.policy.plan",
    "ProgressSink": "solvent.core.progress",
    "RandomizedPolicy": "solvent.policy.markov",
    "Resource": "solvent.model.resources",
    "Round": "solvent.solvers.solution",
    "Simulation": "solvent.verification.simulate",
    "Solution": "solvent.solvers.solution",
    "Solver": "solvent.solvers.base",
    "Stats": "solvent.solvers.solution",
    "Status": "solvent.solvers.solution",
    "Surface": "solvent.solvers.surface",
    "Tail": "solvent.solvers.solution",
    "Trajectories": "solvent.verification.simulate",
    "UntilViolationPolicy": "solvent.policy.until_violation",
    "VerifyReport": "solvent.verification.report",
    "Witness": "solvent.verification.report",
    "WitnessStep": "solvent.verification.report",
    "augment": "solvent.solvers.augmentation.augment",
    "baselines": "solvent.baselines",
    "compare": "solvent.baselines.compare",
    "derandomize": "solvent.policy.derandomize",
    "distribution": "solvent.model.distributions",
    "examples": "solvent.examples",
    "explain": "solvent.solvers.explain",
    "frontier": "solvent.solvers.every_budget",
    "gym": "solvent.gym",
    "instances": "solvent.model.instances",
    "learn": "solvent.learning.learn",
    "learn_seeds": "solvent.learning.seeds",
    "learning": "solvent.learning",
    "load_model": "solvent.formats.files",
    "load_policy": "solvent.policy.files",
    "plot": "solvent.plot",
    "reach_levels": "solvent.solvers.levels.levels",
    "reload_levels": "solvent.solvers.levels.levels",
    "simulate": "solvent.verification.simulate",
    "solve": "solvent.solvers.solve",
    "solve_many": "solvent.solvers.many",
    "survival_levels": "solvent.solvers.levels.levels",
    "verify": "solvent.verification.verify",
}

#: Names that are modules themselves.
_MODULES = ("baselines", "examples", "gym", "instances", "learning", "plot")

__all__ = [
    "CMDP",
    "AddressSpaceError",
    "Agent",
    "AugmentedMDP",
    "AugmentedPolicy",
    "Budget",
    "BudgetError",
    "Builder",
    "CheckpointWarning",
    "Comparison",
    "CostDistribution",
    "Curve",
    "Diagnosis",
    "DiscountedBuilder",
    "DiscountedCMDP",
    "DiscountedPolicy",
    "DiscountedVerifyReport",
    "EpisodeCounts",
    "Event",
    "Explanation",
    "ForbiddingOutcome",
    "LatticeOverflowError",
    "LearnProgress",
    "LearnResult",
    "LevelAgent",
    "LevelPolicy",
    "Levels",
    "LimitError",
    "LoadLimitError",
    "LoadLimits",
    "LocatedError",
    "MarkovPolicy",
    "ModelError",
    "NodeLimitError",
    "Option",
    "PlanRow",
    "PolicyError",
    "ProgramError",
    "ProgressSink",
    "RandomizedPolicy",
    "Resource",
    "Round",
    "Simulation",
    "Solution",
    "SolventError",
    "Solver",
    "Stats",
    "Status",
    "Surface",
    "Tail",
    "Trajectories",
    "UnmodeledOutcome",
    "UntilViolationPolicy",
    "VerifyReport",
    "Witness",
    "WitnessStep",
    "__version__",
    "augment",
    "baselines",
    "compare",
    "derandomize",
    "distribution",
    "examples",
    "explain",
    "frontier",
    "gym",
    "instances",
    "learn",
    "learn_seeds",
    "learning",
    "load_model",
    "load_policy",
    "plot",
    "reach_levels",
    "reload_levels",
    "simulate",
    "solve",
    "solve_many",
    "survival_levels",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'solvent' has no attribute {name!r}")
    with held_back():  # an interrupted import of Numba leaves modules that cannot be imported again
        module = importlib.import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
