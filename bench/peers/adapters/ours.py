"""Solvent itself."""

from __future__ import annotations

from typing import Any

import solvent
import solvent.solvers.solve  # imported here, so that the first solve does not include imports
from bench.peers.adapters.base import Answer, Built, OfThisTree
from bench.peers.workloads import Workload


class Solvent(OfThisTree):
    """Solvent, from the model to the value and the policy."""

    title = "Solvent"
    about = "`solvent.solve(model)`"

    def build(self, workload: Workload) -> Built:
        """Return the model: there is nothing to build."""
        return Built((workload.model, workload.options))

    def solve(self, built: Built) -> Answer:
        """Solve."""
        model, options = built.handle
        solution = solvent.solve(model, **options)
        built.states = solution.stats.nodes
        return Answer(solution.value, solution)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy."""
        return answer.found.policy
