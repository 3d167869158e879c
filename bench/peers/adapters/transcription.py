"""The paper's own algorithms, transcribed line by line onto Python sets and dictionaries."""

from __future__ import annotations

import solvent
from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload
from solvent.experiments import transcription
from solvent.model.budget import resolve


class Transcription(Adapter):
    """Algorithms 1, 3 and 5 of the paper as they are written there."""

    title = "paper, transcribed"
    package = "solvent"
    about = "the paper's Algorithms 1, 3 and 5 on Python sets and dictionaries"

    @property
    def version(self) -> str:
        """Version of this tree, installed or not."""
        return solvent.__version__

    def can(self, workload: Workload) -> str | None:
        """Everything, given time and memory."""
        return None

    def build(self, workload: Workload) -> Built:
        """Return the model as it was stated: there is nothing to build."""
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
