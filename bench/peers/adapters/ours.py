"""Solvent itself."""

from __future__ import annotations

from typing import Any

import solvent
import solvent.solvers.solve  # now, so that the first solve does not pay for imports
from bench.peers.adapters.base import Answer, Built, OfThisTree
from bench.peers.workloads import Workload


class Solvent(OfThisTree):
    """Solvent, from the stated model to value and policy."""

    title = "Solvent"
    about = "`solvent.solve(model)`"

    def build(self, workload: Workload) -> Built:
        """Return the model as it was stated: there is nothing to build."""
        return Built((workload.model, workload.options))

    def solve(self, built: Built) -> Answer:
        """Plan."""
        model, options = built.handle
        solution = solvent.solve(model, **options)
        built.states = solution.stats.nodes
        return Answer(solution.value, solution)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy."""
        return answer.found.policy
