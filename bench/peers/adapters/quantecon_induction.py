"""QuantEcon: `backward_induction` on the augmented MDP."""

from __future__ import annotations

import time
from typing import Any

from quantecon.markov import backward_induction

import solvent
from bench.peers.adapters.base import Adapter, Answer, Built, is_steady
from bench.peers.workloads import Workload


class QuantEcon(Adapter):
    """Backward induction over (state, spent) if the model is stationary, otherwise over (step, state, spent)."""

    title = "QuantEcon"
    package = "quantecon"
    about = "`backward_induction` on `solvent.augment(model)`; nodes without the step where the model is stationary"

    def can(self, workload: Workload) -> str | None:
        """Return None: every workload is supported."""
        return None

    def build(self, workload: Workload) -> Built:
        """Augment, and build the `DiscreteDP`."""
        began = time.perf_counter()
        mdp = solvent.augment(workload.problem, stationary=is_steady(workload))
        augment = time.perf_counter() - began
        return Built((mdp.to_quantecon(), workload.problem.horizon, mdp.start), mdp.n_nodes, augment, keep=mdp)

    def solve(self, built: Built) -> Answer:
        """Run backward induction."""
        ddp, horizon, start = built.handle
        values, actions = backward_induction(ddp, horizon)
        return Answer(float(values[0, start]), actions)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy of the actions found at each step and node."""
        return built.keep.policy(answer.found)
