"""The paper's own algorithms, transcribed literally to Python sets and dictionaries."""

from __future__ import annotations

from bench.peers.adapters.base import Answer, Built, OfThisTree
from bench.peers.workloads import Workload
from solvent.experiments import transcription
from solvent.model.budget import resolve


class Transcription(OfThisTree):
    """Algorithms 1, 3 and 5 of the paper as written."""

    title = "paper, transcribed"
    about = "the paper's Algorithms 1, 3 and 5 on Python sets and dictionaries"

    def build(self, workload: Workload) -> Built:
        """Return the model: there is nothing to build."""
        if workload.epsilon is None:
            return Built((workload.model, None))
        limit = resolve(workload.model, None).upper[0][0]
        assert limit is not None
        return Built((workload.model, transcription.relative_length(workload.epsilon, limit, workload.model.horizon)))

    def solve(self, built: Built) -> Answer:
        """Run Algorithms 5 and 1, or with rounding Algorithm 3."""
        model, length = built.handle
        if length is None:
            found = transcription.solve_exact(model)
        else:
            found = transcription.solve_approximate(model, None, length)
        built.states = found.nodes
        return Answer(found.value)
