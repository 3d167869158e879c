"""The paper's own algorithms, transcribed line by line with Python dictionaries."""

from __future__ import annotations

from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload
from solvent.experiments import transcription
from solvent.model.budget import resolve


class Transcription(Adapter):
    """Algorithms 1, 3 and 5 of the paper as they are written there."""

    title = "paper, transcribed"
    package = "solvent"
    about = "the paper's Algorithms 1, 3 and 5, with Python dictionaries and floats"
    # its sums of costs and rewards are floats in another order
    tolerance = 1e-9

    def can(self, workload: Workload) -> str | None:
        """One resource, one anytime limit."""
        limits = resolve(workload.problem, None)
        if len(limits.resources) != 1:
            return "the paper states its algorithms for one resource"
        return None

    def build(self, workload: Workload) -> Built:
        """Return the model: there is nothing to build."""
        budget = resolve(workload.model, None).upper[0][0]
        assert budget is not None
        length = None if workload.epsilon is None else workload.epsilon * budget / workload.model.horizon
        return Built((workload.model, budget, length))

    def solve(self, built: Built) -> Answer:
        """Run Algorithms 1 and 5, or with rounding 3 and 5."""
        model, budget, length = built.handle
        if length is None:
            value, built.states = transcription.solve_exact(model, budget)
        else:
            value, built.states = transcription.solve_approximate(model, budget, length)
        return Answer(value)
