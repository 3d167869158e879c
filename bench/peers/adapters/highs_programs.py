"""HiGHS: an integer program for one state without randomness, otherwise the linear program of the augmented MDP."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np
from scipy import sparse

import solvent
from bench.peers.adapters.base import Adapter, Answer, Built, one_state, why_not_one_state
from bench.peers.workloads import Workload


class Highs(Adapter):
    """Occupancies of nodes, or binary choices."""

    title = "HiGHS"
    package = "highspy"
    about = "integer program for one state; else the linear program over occupancies of `solvent.augment(model)`"
    # its feasibility and optimality tolerances are 1e-7
    tolerance = 1e-6

    def can(self, workload: Workload) -> str | None:
        """Return None: every workload is supported."""
        return None

    def build(self, workload: Workload) -> Built:
        """Build the program."""
        return _packing(workload) if why_not_one_state(workload) is None else _occupancy(workload)

    def solve(self, built: Built) -> Answer:
        """Solve the program without a warm start."""
        peer = built.handle
        peer.clearSolver()
        peer.run()
        status = peer.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise AssertionError(f"HiGHS ended with {peer.modelStatusToString(status)}")
        return Answer(peer.getInfo().objective_function_value, np.array(peer.getSolution().col_value))

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy of the choices, or of the action with the largest share at each node."""
        kind, problem = built.keep
        if kind == "packing":
            return problem.policy(workload, answer.found > 0.5)
        best = np.zeros(problem.n_nodes, np.int64)
        order = np.argsort(answer.found, kind="stable")
        best[problem.row_node[order]] = problem.row_action[order]
        return problem.policy(best)


def _program(cost: Any, lower: Any, upper: Any, matrix: Any, *, most: float, integer: bool) -> highspy.Highs:
    """Return HiGHS with: maximize `cost @ x` where `lower <= matrix @ x <= upper` and `0 <= x <= most`."""
    matrix = sparse.csc_array(matrix)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = matrix.shape[1], matrix.shape[0]
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.asarray(cost, float)
    program.col_lower_, program.col_upper_ = np.zeros(matrix.shape[1]), np.full(matrix.shape[1], most)
    program.row_lower_, program.row_upper_ = np.asarray(lower, float), np.asarray(upper, float)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    if integer:
        program.integrality_ = [highspy.HighsVarType.kInteger] * matrix.shape[1]
    peer = highspy.Highs()
    peer.silent()
    peer.setOptionValue("mip_rel_gap", 0.0)
    peer.setOptionValue("mip_abs_gap", 0.0)
    peer.setOptionValue("mip_feasibility_tolerance", 1e-9)
    peer.passModel(program)
    return peer


def _packing(workload: Workload) -> Built:
    began = time.perf_counter()
    problem = one_state(workload)
    horizon, n = workload.problem.horizon, len(problem.step)
    once = sparse.csr_array((np.ones(n), (problem.step, np.arange(n))), shape=(horizon, n))
    steps = [horizon - 1] if problem.ends_decide else list(range(horizon))
    unit = np.array([float(u) for u in problem.units])
    cost_ND = problem.cost_ND * unit
    spent = [np.where(problem.step <= h, cost_ND[:, d], 0.0) for h in steps for d in range(len(unit))]
    limits = [problem.upper_HD[h, d] * unit[d] for h in steps for d in range(len(unit))]
    lower = np.concatenate([np.ones(horizon), np.full(len(limits), -np.inf)])
    upper = np.concatenate([np.ones(horizon), limits])
    matrix = sparse.vstack([once, sparse.csr_array(np.array(spent))])
    writing = time.perf_counter() - began
    peer = _program(problem.reward, lower, upper, matrix, most=1.0, integer=True)
    return Built(peer, n, writing=writing, keep=("packing", problem))


def _occupancy(workload: Workload) -> Built:
    began = time.perf_counter()
    mdp = solvent.augment(workload.problem)
    augmented = time.perf_counter()
    nodes = np.arange(mdp.n_nodes)[np.diff(mdp.row_indptr) > 0]  # nothing flows out of the others
    out = sparse.csr_array(
        (np.ones(mdp.n_rows), (mdp.row_node, np.arange(mdp.n_rows))), shape=(mdp.n_nodes, mdp.n_rows)
    )
    matrix = (out - mdp.transitions.T).tocsr()[nodes]
    flow = (nodes == mdp.start).astype(float)
    written = time.perf_counter()
    peer = _program(mdp.reward, flow, flow, matrix, most=np.inf, integer=False)
    return Built(peer, mdp.n_nodes, augmented - began, written - augmented, ("occupancy", mdp))
