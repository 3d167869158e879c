"""OR-Tools' knapsack solver: one state, take or leave an item at each step.

Rewards and costs are doubles, so both are integer multiples of a power of two and are scaled to 64-bit integers without
loss; if they do not fit, the workload is not supported.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from ortools.algorithms.python import knapsack_solver

from bench.peers.adapters.base import Adapter, Answer, Built, OneState, one_state, whole_rewards, why_not_one_state
from bench.peers.workloads import Workload

#: Its sums are 64-bit integers.
MOST = 2**63
#: Number of items up to which its fastest method can be used.
FEW = 64


class Knapsack(Adapter):
    """The knapsack solver: its method for up to 64 items, otherwise branch and bound."""

    title = "OR-Tools knapsack"
    package = "ortools"
    about = "`KnapsackSolver`, exact integers: its method for up to 64 items, else branch and bound"

    def can(self, workload: Workload) -> str | None:
        """Return None for one state, no randomness, one item per step and no negative costs, otherwise a reason."""
        reason = why_not_one_state(workload)
        if reason is not None:
            return reason
        problem = one_state(workload)
        if not problem.ends_decide:
            return "costs that are given back, or limits that vary"
        steps = np.bincount(problem.step)
        idle = (problem.reward == 0) & (problem.cost_ND == 0).all(1)
        if (steps > 2).any() or (np.bincount(problem.step, idle) < 1).any():
            return "more than one thing to take at a step, or none that can be left"
        profits, _ = whole_rewards(problem.reward)
        if max(sum(profits), int(problem.cost_ND.astype(object).sum(0).max())) >= MOST or min(profits) < 0:
            return "rewards or costs that are no 64-bit integers without rounding"
        return None

    def build(self, workload: Workload) -> Built:
        """Scale to integers and build the solver."""
        began = time.perf_counter()
        problem = one_state(workload)
        items = np.flatnonzero((problem.reward != 0) | (problem.cost_ND != 0).any(1))
        profits, unit = whole_rewards(problem.reward[items])
        weights, capacities = problem.cost_ND[items].T.tolist(), problem.upper_HD[-1].tolist()
        writing = time.perf_counter() - began
        kinds = knapsack_solver.SolverType
        few = len(items) <= FEW and len(capacities) == 1
        kind = kinds.KNAPSACK_64ITEMS_SOLVER if few else kinds.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
        peer = knapsack_solver.KnapsackSolver(kind, "bench")
        peer.init(profits, weights, capacities)
        return Built((peer, unit), len(items), writing=writing, keep=(problem, items))

    def solve(self, built: Built) -> Answer:
        """Solve the knapsack."""
        peer, unit = built.handle
        return Answer(float(peer.solve() * unit), peer)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy that takes the packed items."""
        problem, items = built.keep
        packed = [items[i] for i in range(len(items)) if answer.found.best_solution_contains(i)]
        return problem.policy(workload, _with_idle(problem, packed))


def _with_idle(problem: OneState, packed: list[Any]) -> Any:
    """Return a mask of the packed choices, and of the idle choice at all other steps."""
    taken = np.zeros(len(problem.step), bool)
    taken[packed] = True
    free = ~np.isin(problem.step, problem.step[taken])
    taken[free & (problem.reward == 0) & (problem.cost_ND == 0).all(1)] = True
    return taken
