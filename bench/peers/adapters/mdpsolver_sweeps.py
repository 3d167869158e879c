"""MDPSolver: modified policy iteration on the augmented MDP.

It plans for an infinite horizon with a discount below 1. On a graph of nodes (step, state, spent), which has no cycles,
this is equivalent: rewards of step h are divided by discount ** h, so that the discounted sum is the plain one. Nodes
are numbered backward, so that one Gauss-Seidel sweep gives the optimum.
"""

from __future__ import annotations

import time
from typing import Any

import mdpsolver
import numpy as np

import solvent
from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload

#: Close enough to 1 that rewards hardly grow, far enough that its stopping rule is met quickly.
DISCOUNT = 0.999


class MDPSolver(Adapter):
    """Gauss-Seidel sweeps in the best order."""

    title = "MDPSolver"
    package = "mdpsolver"
    about = "policy iteration on `solvent.augment(model)`, nodes numbered backward, rewards scaled to undo its discount"

    def can(self, workload: Workload) -> str | None:
        """Return None: every workload is supported."""
        return None

    def build(self, workload: Workload) -> Built:
        """Augment, number nodes backward, and build the nested lists that the solver accepts."""
        began = time.perf_counter()
        mdp = solvent.augment(workload.problem)
        augmented = time.perf_counter()
        assert mdp.layer_indptr is not None
        step = np.searchsorted(mdp.layer_indptr, mdp.row_node, side="right") - 1
        reward = (mdp.reward / DISCOUNT**step).tolist()
        rows = mdp.row_indptr.tolist()
        entries, chance = mdp.transitions.indptr.tolist(), mdp.transitions.data.tolist()
        after = (mdp.n_nodes - 1 - mdp.transitions.indices).tolist()
        rewards, probabilities, columns = [], [], []
        for back, node in enumerate(range(mdp.n_nodes - 1, -1, -1)):
            of_node = range(rows[node], rows[node + 1])
            rewards.append([reward[r] for r in of_node] or [0.0])
            probabilities.append([chance[entries[r] : entries[r + 1]] for r in of_node] or [[1.0]])
            columns.append([after[entries[r] : entries[r + 1]] for r in of_node] or [[back]])
        written = time.perf_counter()
        peer = mdpsolver.model()
        peer.mdp(discount=DISCOUNT, rewards=rewards, tranMatProbs=probabilities, tranMatColumns=columns)
        return Built(peer, mdp.n_nodes, augmented - began, written - augmented, mdp)

    def solve(self, built: Built) -> Answer:
        """Run modified policy iteration."""
        peer = built.handle
        # the fastest of its methods here; its value iteration did not terminate on Taxi
        peer.solve(
            algorithm="mpi", update="gs", tolerance=1e-9, parallel=False, postProcessing=False, makeFinalCheck=False
        )
        return Answer(peer.getValue(built.states - 1), peer)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy: its actions are indices into the rows of a node."""
        mdp = built.keep
        position = np.array(answer.found.getPolicy())[::-1]
        rows = np.minimum(mdp.row_indptr[:-1] + position, len(mdp.row_action) - 1)
        return mdp.policy(mdp.row_action[rows])
