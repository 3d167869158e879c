"""Solvent itself."""

from __future__ import annotations

from typing import Any

import solvent
import solvent.plan.solve  # now, so that the first solve does not pay for imports
from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload


class Solvent(Adapter):
    """Solvent, from the stated model to value and policy."""

    title = "Solvent"
    package = "solvent"
    about = "`solvent.solve(model)`"

    @property
    def version(self) -> str:
        """Version of this tree, installed or not."""
        return solvent.__version__

    def can(self, workload: Workload) -> str | None:
        """Everything."""
        return None

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
