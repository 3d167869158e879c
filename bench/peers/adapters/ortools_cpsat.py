"""OR-Tools' CP-SAT: one state without randomness, a Boolean for every choice, exact integers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from bench.peers.adapters.base import Adapter, Answer, Built, one_state, whole_rewards, why_not_one_state
from bench.peers.workloads import Workload

#: Limit on sums: it refuses more than 62 bits.
MOST = 2**62


class CPSAT(Adapter):
    """One choice at each step, with sums within the limits."""

    title = "OR-Tools CP-SAT"
    package = "ortools"
    about = "a Boolean for each step and action, exact integers, as many workers as it likes"

    def can(self, workload: Workload) -> str | None:
        """Return None for one state without randomness and integers that fit, otherwise a reason."""
        reason = why_not_one_state(workload)
        if reason is not None:
            return reason
        problem = one_state(workload)
        profits, _ = whole_rewards(problem.reward)
        sums = [sum(map(abs, profits)), *np.abs(problem.cost_ND.astype(object)).sum(0).tolist()]
        if max(sums) >= MOST:
            return "rewards or costs that are no 62-bit integers without rounding"
        return None

    def build(self, workload: Workload) -> Built:
        """Create the Booleans and the constraints."""
        began = time.perf_counter()
        problem = one_state(workload)
        profits, unit = whole_rewards(problem.reward)
        horizon = workload.problem.horizon
        steps = [horizon - 1] if problem.ends_decide else list(range(horizon))
        writing = time.perf_counter() - began
        model = cp_model.CpModel()
        take = [model.new_bool_var("") for _ in profits]
        for h in range(horizon):
            model.add_exactly_one(take[i] for i in np.flatnonzero(problem.step == h))
        for h in steps:
            for d in range(problem.cost_ND.shape[1]):
                used = [i for i in range(len(take)) if problem.step[i] <= h and problem.cost_ND[i, d]]
                spent = cp_model.LinearExpr.weighted_sum(
                    [take[i] for i in used], [int(problem.cost_ND[i, d]) for i in used]
                )
                model.add(spent <= int(problem.upper_HD[h, d]))
        model.maximize(cp_model.LinearExpr.weighted_sum(take, profits))
        return Built((model, take, unit), len(take), writing=writing, keep=problem)

    def solve(self, built: Built) -> Answer:
        """Solve to proven optimality."""
        model, take, unit = built.handle
        peer = cp_model.CpSolver()
        status = peer.solve(model)
        if status != cp_model.OPTIMAL:
            raise AssertionError(f"CP-SAT ended with {peer.status_name(status)}")
        taken = np.array([peer.boolean_value(t) for t in take])
        profits, _ = whole_rewards(built.keep.reward)
        return Answer(float(sum(p for p, t in zip(profits, taken, strict=True) if t) * unit), taken)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy of the choices taken."""
        return built.keep.policy(workload, answer.found)
