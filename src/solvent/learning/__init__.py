"""Learning when the model is unknown: BPI-UCBVI on nodes.

`solvent.learn` runs it. This package has the types of its results, and callbacks that write logs.

>>> import solvent
>>> solvent.learn(solvent.instances.knapsack([1, 1], [3, 4], capacity=4), seed=1)
LearnResult(within_gap, value 1 to 1, 2 episodes, 0 violations)
"""

from __future__ import annotations

from solvent.learning.callbacks import CsvLog, TensorBoardLog, WandbLog
from solvent.learning.environment import Environment
from solvent.learning.result import LearnProgress, LearnResult

__all__ = ["CsvLog", "Environment", "LearnProgress", "LearnResult", "TensorBoardLog", "WandbLog"]
