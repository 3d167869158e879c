"""Storm on the augmented MDP as a matrix: no exploration, and amounts of any size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import stormpy
from scipy import sparse
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

import solvent
from bench.peers.adapters.base import Adapter, Answer, Built, is_steady
from bench.peers.workloads import Workload


class StormExplicit(Adapter):
    """Maximal gains over H steps if nodes need no step and none is a dead end, otherwise minimal losses to the end."""

    title = "Storm, explicit"
    package = "stormpy"
    about = "`solvent.augment(model)` as a sparse matrix, sparse engine; nodes without the step if possible"
    # the accuracy that its sound methods guarantee
    tolerance = 1e-6

    def can(self, workload: Workload) -> str | None:
        """Return None: every workload is supported."""
        return None

    def build(self, workload: Workload) -> Built:
        """Augment, and build the matrix."""
        began = time.perf_counter()
        model, mdp = workload.problem, None
        if is_steady(workload):
            mdp = solvent.augment(model, stationary=True)
        steady = mdp is not None and not len(mdp.dead_ends)
        if mdp is None or not steady:
            mdp = solvent.augment(model)
        augmented = time.perf_counter()
        bare = np.flatnonzero(np.diff(mdp.row_indptr) == 0)
        horizon, top, bottom = (
            model.horizon,
            max(0.0, float(model.row_reward.max())),
            min(0.0, float(model.row_reward.min())),
        )
        if steady:
            after, shifted, waiting = bare, mdp.reward - bottom, np.full(len(bare), -bottom)
        else:
            assert mdp.layer_indptr is not None
            step = np.searchsorted(mdp.layer_indptr, bare, side="right") - 1
            after, shifted, waiting = np.full(len(bare), mdp.n_nodes - 1), top - mdp.reward, (horizon - step) * top
        extra = sparse.csr_array((np.ones(len(bare)), (np.arange(len(bare)), after)), shape=(len(bare), mdp.n_nodes))
        nodes = np.concatenate([mdp.row_node, bare])
        order = np.argsort(nodes, kind="stable")
        matrix = sparse.vstack([mdp.transitions, extra], format="csr")[order]
        rewards = np.concatenate([shifted, waiting])[order].tolist()
        first = np.searchsorted(nodes[order], np.arange(mdp.n_nodes)).tolist()
        entries = matrix.tocoo()
        rows, columns, chance = entries.row.tolist(), entries.col.tolist(), entries.data.tolist()
        written = time.perf_counter()
        peer = _model(rows, columns, chance, rewards, first, mdp.start)
        text = f'R{{"shifted"}}max=? [C<={horizon}]' if steady else 'R{"shifted"}min=? [F "end"]'
        [query] = stormpy.parse_properties(text)
        offset, sign = (horizon * bottom, 1.0) if steady else (horizon * top, -1.0)
        return Built(
            (peer, query, mdp.start, offset, sign), mdp.n_nodes, augmented - began, written - augmented, (mdp, steady)
        )

    def solve(self, built: Built) -> Answer:
        """Run the model checker."""
        peer, query, start, offset, sign = built.handle
        found = stormpy.model_checking(peer, query, only_initial_states=False)
        return Answer(offset + sign * found.get_value(start))

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy of a scheduler; None for a bounded number of steps, for which Storm returns none."""
        mdp, steady = built.keep
        if steady:
            return None
        scheduler = stormpy.model_checking(*built.handle[:2], extract_scheduler=True).get_scheduler()
        choices = np.array([scheduler.get_choice(n).get_deterministic_choice() for n in range(mdp.n_nodes)])
        rows = np.minimum(mdp.row_indptr[:-1] + choices, len(mdp.row_action) - 1)
        return mdp.policy(mdp.row_action[rows])


def _model(
    rows: list[int], columns: list[int], chance: list[float], rewards: list[float], first: list[int], start: int
) -> Any:
    """Return Storm's MDP; the last node is the end."""
    count = len(first)
    builder = SparseMatrixBuilder[float](
        rows=len(rewards), columns=count, entries=len(rows), has_custom_row_grouping=True, row_groups=count
    )
    builder.add_next_values(rows, columns, chance, first)
    labels = StateLabeling(count)
    for name, state in (("init", start), ("end", count - 1)):
        labels.add_label(name)
        labels.add_label_to_state(name, state)
    shifted = SparseRewardModel[float](optional_state_action_reward_vector=rewards)
    parts = SparseModelComponents[float](
        transition_matrix=builder.build(), state_labeling=labels, reward_models={"shifted": shifted}
    )
    return SparseMdp[float](parts)
