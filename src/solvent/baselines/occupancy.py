"""The linear program over occupancy measures of a model's states, built once and solved for any limits by HiGHS.

Variables are x[h, row] for the reachable states, then y[h, d], then, on request, the factor t by which the limits are
tightened. Costs are scaled by the largest cost or limit of a resource, rewards by the largest reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from solvent.core.exact import nearest_float
from solvent.core.interrupt import run_aside
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, ProgramError
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.policy.choices import spread

_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_INFEASIBLE = 2
#: Memory per entry of the matrix, including copies and the memory of HiGHS.
_BYTES_PER_ENTRY = 400
#: The dual simplex method, and the interior point method with crossover, which is faster on large programs. If one
#: fails, the other is tried.
_SOLVERS = ("highs-ds", "highs-ipm")
_LARGE = 5_000


@dataclass(frozen=True)
class Ends:
    """Limits on expected spending: (step, position of the resource, limit) for each side."""

    upper: list[tuple[int, int, Fraction]]
    lower: list[tuple[int, int, Fraction]]


@dataclass(frozen=True)
class Solved:
    """An optimum of the linear program.

    Attributes
    ----------
    value : float
    x : ndarray of float64, shape (X,)
        Probability of taking each variable's row.
    price_HD : ndarray of float64, shape (H, D)
        Dual price of each resource at each step.
    """

    value: float
    x: NDArray[np.float64]
    price_HD: NDArray[np.float64]


@dataclass(frozen=True)
class Followed:
    """Value and expected total spending of a Markov policy."""

    value: float
    spent_D: list[float]


class Occupancy:
    """The linear program of a model and some of its resources; limits are given when it is solved.

    Parameters
    ----------
    model : CMDP
    resources : tuple of str
        The D resources whose expected spending is tracked.
    monitor : ResourceMonitor, optional
        Time and memory limits; memory for the program stays reserved.

    Attributes
    ----------
    step, state, row : ndarray of int64, shape (X,)
        Step, state and row of each variable x.
    cost_RD : ndarray of float64, shape (R, D)
        Expected cost of each row of the model, not scaled.
    """

    def __init__(self, model: CMDP, resources: tuple[str, ...], monitor: ResourceMonitor | None = None) -> None:
        self.model, self.resources, self.monitor = model, resources, monitor or ResourceMonitor()
        columns = [expected_cost(model, model.resource_index(name)) for name in resources]
        self.cost_RD = np.stack(columns, 1) if columns else np.zeros((model.n_rows, 0))
        steps, states, rows = [], [], []
        reached = model.start_states
        for step in range(model.horizon):
            self.monitor.check_time()
            owner, row = spread(model.row_indptr_at(step), reached)
            entries = int((model.outcome_indptr[row + 1] - model.outcome_indptr[row]).sum()) + len(row)
            self.monitor.reserve(_BYTES_PER_ENTRY * entries, "the linear program over occupancy measures")
            steps.append(np.full(len(row), step))
            states.append(reached[owner])
            rows.append(row)
            reached = np.unique(model.next_state[spread(model.outcome_indptr, row)[1]]).astype(np.int64)
        self.step, self.state, self.row = (np.concatenate(part).astype(np.int64) for part in (steps, states, rows))
        self._flow = self._flow_matrix()
        self._reward, self._forbidden = self._ends()
        first = np.diff(model.row_indptr_at(0))[model.start_states] == 0
        ended, chance = model.start_states[first], model.start_probability[first]
        #: Reward of episodes that end before the first step, and whether these end where they may.
        self._at_once = 0.0 if model.end_reward is None else float(chance @ model.end_reward[ended])
        self._may_start = model.may_end is None or bool(model.may_end[ended].all())

    def _ends(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the reward of each variable, with that for ending, and whether it can end where it must not."""
        model = self.model
        reward, forbidden = model.row_reward[self.row], np.zeros(self.n_x, bool)
        if not model.has_end_values or not self.n_x:
            return reward, forbidden
        owner, outcome = spread(model.outcome_indptr, self.row)
        following, after = model.next_state[outcome], self.step[owner] + 1
        terminal = np.ones((model.horizon + 1, model.n_states), bool)
        for step in range(model.horizon):
            terminal[step] = np.diff(model.row_indptr_at(step)) == 0
        over = terminal[after, following]
        if model.end_reward is not None:
            paid = np.where(over, model.probability[outcome] * model.end_reward[following], 0.0)
            reward = reward + np.bincount(owner, paid, self.n_x)
        if model.may_end is not None:
            forbidden[owner[over & ~model.may_end[following]]] = True
        return reward, forbidden

    @property
    def n_x(self) -> int:
        """Number of variables x."""
        return len(self.row)

    def _flow_matrix(self) -> tuple[sparse.csr_array, NDArray[np.float64]]:
        """Return the flow equations, one for each (step, state) that has variables, and their right-hand sides."""
        model = self.model
        key = self.step * model.n_states + self.state
        nodes, node = np.unique(key, return_inverse=True)
        variable = np.arange(self.n_x)
        owner, outcome = spread(model.outcome_indptr, self.row)
        following = (self.step[owner] + 1) * model.n_states + model.next_state[outcome]
        place = np.minimum(np.searchsorted(nodes, following), max(len(nodes) - 1, 0))
        # outcomes that lead to a terminal state, or past the last step, leave the program
        inside = np.flatnonzero(nodes[place] == following) if len(nodes) else np.zeros(0, np.int64)
        matrix = sparse.coo_array(
            (
                np.concatenate([np.ones(self.n_x), -model.probability[outcome[inside]]]),
                (np.concatenate([node, place[inside]]), np.concatenate([variable, owner[inside]])),
            ),
            shape=(len(nodes), self.n_x),
        )
        right = np.zeros(len(nodes))
        # first states that are terminal have no variables; nodes of step 0 come first
        live = np.diff(model.row_indptr_at(0))[model.start_states] > 0
        right[: int(live.sum())] = model.start_probability[live]
        return matrix.tocsr(), right

    def maximize(self, ends: Ends) -> Solved | None:
        """Return the optimum for the given limits, or None if expected spending, or goals, cannot keep them."""
        if not self._may_start:
            return None
        if not self.n_x:
            return self._without_steps(ends)
        scale = max(float(np.abs(self._reward).max()), 1e-300)
        objective = -self._reward / scale
        answer, scales = self._solve(objective, ends, None)
        if answer is None:
            return None
        # the marginal of y[h] - y[h-1] - cost x[h] = 0 is the price of spending at step h, in scaled units
        n_flow = self._flow[0].shape[0]
        marginals = np.asarray(answer.eqlin.marginals)[n_flow:].reshape(self.model.horizon, len(self.resources))
        price_HD = marginals * scale / np.array([float(each) for each in scales])
        x = np.asarray(answer.x)[: self.n_x]
        return Solved(float(self._reward @ x) + self._at_once, x, price_HD)

    def tightest(self, ends: Ends, gaps: Ends) -> float | None:
        """Return the greatest t for which limits tightened by t times `gaps` can be kept; None if there is none."""
        if not self._may_start:
            return None
        if not self.n_x:
            return None if self._without_steps(ends) is None else 0.0
        answer, _ = self._solve(np.zeros(self.n_x), ends, gaps)
        return None if answer is None else float(answer.x[-1])

    def _without_steps(self, ends: Ends) -> Solved | None:
        """Return the optimum for an episode whose start is terminal."""
        kept = all(limit >= 0 for _, _, limit in ends.upper) and all(limit <= 0 for _, _, limit in ends.lower)
        return Solved(self._at_once, np.zeros(0), np.zeros((self.model.horizon, len(self.resources)))) if kept else None

    def _solve(
        self, objective: NDArray[np.float64], ends: Ends, gaps: Ends | None
    ) -> tuple[Any | None, list[Fraction]]:
        horizon, n_resources = self.model.horizon, len(self.resources)
        scales = self._scales(ends)
        flow, right = self._flow
        n_y, extra = horizon * n_resources, 0 if gaps is None else 1
        links = self._links(scales)
        sums = sparse.eye_array(n_y) - sparse.eye_array(n_y, k=-n_resources)
        blocks: Any = [[flow, None], [links, sums]] if n_y else [[flow]]
        equalities = sparse.block_array(blocks, format="csr")
        if extra:
            equalities = sparse.hstack([equalities, sparse.csr_array((equalities.shape[0], 1))], format="csr")
        limits, limit_sides = self._inequalities(scales, ends, gaps)
        solver: Any = linprog  # its type stubs lack sparse matrices
        for method in _SOLVERS if self.n_x < _LARGE else _SOLVERS[::-1]:
            self.monitor.check_time()
            left = self.monitor.left
            program = partial(
                solver,
                np.concatenate([objective, np.zeros(n_y), np.full(extra, -1.0)]),
                A_ub=limits if len(limit_sides) else None,
                b_ub=limit_sides if len(limit_sides) else None,
                A_eq=equalities,
                b_eq=np.concatenate([right, np.zeros(n_y)]),
                bounds=[(0, 0 if never else None) for never in self._forbidden.tolist()]
                + [(None, None)] * n_y
                + [(0, None)] * extra,
                method=method,
                options=_OPTIONS if left is None or left == np.inf else {**_OPTIONS, "time_limit": left},
            )
            answer = run_aside(program)
            self.monitor.check_time()
            if answer.status == _INFEASIBLE:
                return None, scales
            if answer.status == 0:
                return answer, scales
        raise ProgramError(f"the linear program over occupancy measures was not solved: {answer.message}")

    def _scales(self, ends: Ends) -> list[Fraction]:
        """Return the largest absolute cost or limit of each resource; 1 if that is zero as a float."""
        tops = [Fraction(float(top)) for top in np.abs(self.cost_RD).max(0, initial=0.0)]
        for _, d, limit in (*ends.upper, *ends.lower):
            tops[d] = max(tops[d], abs(limit))
        return [top if nearest_float(top) else Fraction(1) for top in tops]

    def _links(self, scales: list[Fraction]) -> sparse.csr_array:
        """Return the columns of x in the equations y[h] - y[h-1] - cost x[h] = 0."""
        n_resources = len(scales)
        columns, rows, values = [], [], []
        for d, scale in enumerate(scales):
            columns.append(np.arange(self.n_x))
            rows.append(self.step * n_resources + d)
            values.append(-self.cost_RD[self.row, d] / float(scale))
        shape = (self.model.horizon * n_resources, self.n_x)
        if not n_resources:
            return sparse.csr_array(shape)
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return sparse.coo_array(entries, shape=shape).tocsr()

    def _inequalities(
        self, scales: list[Fraction], ends: Ends, gaps: Ends | None
    ) -> tuple[sparse.csr_array, NDArray[np.float64]]:
        """Return the limits on y, tightened by t if `gaps` are given, as rows of `A v <= b`."""
        width = self.n_x + self.model.horizon * len(scales) + (0 if gaps is None else 1)
        entries: list[tuple[int, int, float]] = []
        right: list[float] = []
        for sign, side, moves in ((1, ends.upper, gaps and gaps.upper), (-1, ends.lower, gaps and gaps.lower)):
            for i, (step, d, limit) in enumerate(side):
                entries.append((len(right), self.n_x + step * len(scales) + d, float(sign)))
                if moves:
                    entries.append((len(right), width - 1, float(moves[i][2] / scales[d])))
                right.append(sign * float(limit / scales[d]))
        if not right:
            return sparse.csr_array((0, width)), np.zeros(0)
        row, column, value = zip(*entries, strict=True)
        return sparse.coo_array((value, (row, column)), shape=(len(right), width)).tocsr(), np.array(right)

    def follow(self, table: NDArray[np.float64]) -> Followed:
        """Return value and expected spending of a policy, given as probabilities of shape (H, S, A)."""
        model = self.model
        mass, value, spent = np.zeros(model.n_states), 0.0, np.zeros(len(self.resources))
        mass[model.start_states] = model.start_probability
        ends = np.zeros(model.n_states) if model.end_reward is None else model.end_reward
        for step in range(model.horizon):
            value += float(mass @ np.where(np.diff(model.row_indptr_at(step)) == 0, ends, 0.0))
            owner, row = spread(model.row_indptr_at(step), np.arange(model.n_states))
            weight = mass[owner] * table[step, owner, model.row_action[row]]
            value += float(weight @ model.row_reward[row])
            spent += weight @ self.cost_RD[row]
            choice, outcome = spread(model.outcome_indptr, row)
            passed = weight[choice] * model.probability[outcome]
            mass = np.asarray(np.bincount(model.next_state[outcome], passed, model.n_states), np.float64)
        return Followed(value + float(mass @ ends), spent.tolist())


def expected_cost(model: CMDP, resource: int) -> NDArray[np.float64]:
    """Return the expected cost of each row for a resource, given by position; shape (R,).

    Examples
    --------
    >>> from solvent.model import instances
    >>> expected_cost(instances.markov_gap(), 0).tolist()
    [0.5, 0.5, 0.0, 1.0]
    """
    column = model.cost[resource]
    distinct, position = np.unique(column.ticks, return_inverse=True)
    amounts = np.array([nearest_float(int(ticks) * column.unit) for ticks in distinct.tolist()])
    if not np.isfinite(amounts).all():
        raise ModelError(f"costs of {model.resources[resource]}", "numbers in the range of floats", "larger numbers")
    cost_O = amounts[position]
    if model.distribution_DO is not None:
        used = model.distribution_DO[resource]
        for i in np.unique(used[used != NO_DISTRIBUTION]):
            cost_O[used == i] = model.distributions[i].mean()
    expected: NDArray[np.float64] = np.zeros(0)
    if model.n_rows:
        expected = np.add.reduceat(model.probability * cost_O, model.outcome_indptr[:-1])
    return expected
