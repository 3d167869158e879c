"""Learning when the model is unknown: BPI-UCBVI on nodes.

`solvent.learn` is the door; here is what it returns, and logs to keep of it.

>>> import solvent
>>> solvent.learn(solvent.instances.knapsack([1, 1], [3, 4], capacity=4), seed=1)
LearnResult(within_epsilon, value 1 to 1, 2 episodes, 0 violations)
"""

from __future__ import annotations

from solvent.learning.callbacks import CsvLog, TensorBoardLog
from solvent.learning.result import LearnProgress, LearnResult, LearnStatus
from solvent.learning.world import Environment

__all__ = ["CsvLog", "Environment", "LearnProgress", "LearnResult", "LearnStatus", "TensorBoardLog"]
