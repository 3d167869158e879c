"""Stationary rules to follow after the planned steps of a discounted model, with proofs of what they can spend.

The rule of the *best reward* solves the unconstrained problem, V = max over rows of r + g E[V(s')]. A *careful* rule
keeps

    M(s) = max(0, min over rows of max over outcomes of c + g M(s')),

the least bound on what it spends, and among the rows that keep this bound takes those of the best reward. Both are
found in floating point. The most that a rule can add is then stated in exact numbers that are easy to verify: from an
approximate solution n(s) of most(s) = max(0, max over outcomes of c + g most(s')), with the excess e by which the
inequality is missed anywhere, n(s) + e / (1 - g) satisfies it everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.model.distributions import CostDistribution
from solvent.policy.choices import NO_ROW, spread
from solvent.policy.markov import UNDECIDED
from solvent.policy.tail import TailRule
from solvent.solvers.accuracy import ROUNDOFF

#: Bounds are integer multiples of the unit divided by this: fine enough, and short in files.
_GRID = 4096
#: Measured memory of sweeps over all states: the matrix of transitions, its factors, and a few copies.
_BYTES_PER_OUTCOME = 250
_MOST_SWEEPS = 5000
_MOST_ROUNDS = 1000
#: Rows whose values, or worst cases, have a smaller relative difference count as equal.
_EQUAL = 1e-12
#: Relative difference of the value of one step above which a row is better by more than rounding.
_BETTER = 2.0**-48


@dataclass(frozen=True)
class Rules:
    """The rules that a plan can end with, the one of the best reward first.

    Attributes
    ----------
    rules : tuple of TailRule
    slack : float
        Bound on how far the true optimum without a budget exceeds the computed value of the first rule.
    shortfall : float
        Bound on how far the value of any rule falls short of the computed one.
    size : float
        The largest absolute value of the first rule in a reachable state.
    """

    rules: tuple[TailRule, ...]
    slack: float
    shortfall: float
    size: float


def make_rules(
    model: DiscountedCMDP,
    limited: dict[str, tuple[Fraction | None, Fraction | None]],
    monitor: ResourceMonitor | None = None,
) -> Rules:
    """Return the rule of the best reward, and careful rules for each limited side and for all of them together.

    Parameters
    ----------
    limited : dict of str to (Fraction or None, Fraction or None)
        The upper and the lower limit of each limited resource.
    monitor : ResourceMonitor, optional

    Raises
    ------
    LimitReached
        If time or memory runs out.
    """
    monitor, base = monitor or ResourceMonitor(), model.base
    size = base.n_outcomes * (_BYTES_PER_OUTCOME + 200 * len(limited)) + base.n_rows * 40
    with monitor.borrowed(size, "rules for after the planned steps"):
        return _make_rules(model, limited, monitor)


def _make_rules(
    model: DiscountedCMDP, limited: dict[str, tuple[Fraction | None, Fraction | None]], monitor: ResourceMonitor
) -> Rules:
    sweep = _OneStep(model, monitor)
    rows_S, value_S, slack, shortfall = sweep.best_reward(np.ones(model.base.n_rows, bool))
    rules = [_rule(model, "best reward", rows_S, value_S, monitor)]
    sides: list[tuple[str, NDArray[np.float64]]] = []
    for name, (upper, lower) in limited.items():
        d = model.base.resource_index(name)
        if upper is not None:
            sides.append((f"careful with {name}", sweep.cost_ends(d)[0]))
        if lower is not None:
            sides.append((f"careful to keep {name}", -sweep.cost_ends(d)[1]))
    if len(sides) > 1:
        scales = [float(np.abs(cost_O).max(initial=0.0)) or 1.0 for _, cost_O in sides]
        total = sum((cost_O / scale for (_, cost_O), scale in zip(sides, scales, strict=True)), start=np.zeros(1))
        sides.append(("careful with everything", total))
    for name, cost_O in sides:
        rows_S, value_S, _, short = sweep.best_reward(sweep.careful_rows(cost_O))
        shortfall = max(shortfall, short)
        rule = _rule(model, name, rows_S, value_S, monitor)
        if not any(np.array_equal(rule.action_S, other.action_S) for other in rules):
            rules.append(rule)
    size = float(np.abs(rules[0].value_S[sweep.reached_S]).max(initial=0.0))
    return Rules(tuple(rules), slack, shortfall, size)


class _OneStep:
    """One step of a model in arrays, for sweeps over all states."""

    def __init__(self, model: DiscountedCMDP, monitor: ResourceMonitor) -> None:
        from scipy import sparse

        self.monitor = monitor
        self.base, self.g = model.base, float(model.discount)
        base = self.base
        self.acting = np.flatnonzero(np.diff(base.row_indptr_at(0)) > 0)
        self.first_row = base.row_indptr[self.acting]
        self.first_outcome = base.outcome_indptr[:-1]
        shape = (base.n_rows, base.n_states)
        self.transitions = sparse.csr_array((base.probability, base.next_state, base.outcome_indptr), shape=shape)
        self.reached_S = self._reachable()

    def _reachable(self) -> NDArray[np.bool_]:
        """Return which states can be reached from the start; values elsewhere are not used."""
        base = self.base
        state = np.repeat(np.arange(base.n_states), np.diff(base.row_indptr_at(0)))
        source = np.repeat(state, np.diff(base.outcome_indptr))
        reached_S = np.zeros(base.n_states, bool)
        reached_S[base.start_index] = True
        while True:
            self.monitor.check_time()
            found = np.unique(base.next_state[reached_S[source]])
            if reached_S[found].all():
                return reached_S
            reached_S[found] = True

    def cost_ends(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the largest and the least cost of each outcome, as floats."""
        ends = [_ends(self.base, d, o) for o in self.monitor.each(range(self.base.n_outcomes))]
        low = [-math.inf if low is None else float(low) for _, low in ends]
        return np.array([float(high) for high, _ in ends]), np.array(low)

    def best_reward(self, allowed_R: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float64], float, float]:
        """Return the best stationary rule among allowed rows, its value, and bounds on the error of the value.

        The first bound is on how far the optimum exceeds the computed value, the second on how far the value of the
        rule falls short of it. A value V has an error of at most the largest residual of its equation over 1 - g.
        """
        base = self.base
        rows_S = np.full(base.n_states, NO_ROW, np.int64)
        # the first allowed row of each state
        rows_S[self.acting] = np.minimum.reduceat(
            np.where(allowed_R, np.arange(base.n_rows), base.n_rows), self.first_row
        )
        excess, shortfall, seen = 0.0, 0.0, set[bytes]()
        for _ in range(_MOST_ROUNDS):
            self.monitor.check_time()
            value_S = self._worth(rows_S)
            now = value_S[self.acting]
            worth_R = np.where(allowed_R, base.row_reward + self.g * (self.transitions @ value_S), -np.inf)
            best = np.maximum.reduceat(worth_R, self.first_row)
            taken = worth_R[rows_S[self.acting]]
            noise, reached = self._noise(rows_S, value_S), self.reached_S[self.acting]
            excess = float(np.maximum(best - now, 0.0)[reached].max(initial=0.0)) + noise
            shortfall = float(np.maximum(now - taken, 0.0)[reached].max(initial=0.0)) + noise
            better = best - now > _BETTER * np.maximum(np.abs(best), np.abs(now))
            # rows that are better only by rounding could alternate forever
            if not better.any() or rows_S.tobytes() in seen:
                break
            seen.add(rows_S.tobytes())
            owner = np.repeat(np.arange(len(self.acting)), np.diff(np.append(self.first_row, base.n_rows)))
            top = np.where(worth_R == best[owner], np.arange(base.n_rows), base.n_rows)
            rows_S[self.acting[better]] = np.minimum.reduceat(top, self.first_row)[better]
        return rows_S, value_S, excess / (1 - self.g), shortfall / (1 - self.g)

    def _noise(self, rows_S: NDArray[np.int64], value_S: NDArray[np.float64]) -> float:
        """Return a bound on the rounding error of the value of one step."""
        base = self.base
        terms = base.most_outcomes + 4
        reached = self.acting[self.reached_S[self.acting]]
        reward = np.abs(base.row_reward[rows_S[reached]]).max(initial=0.0)
        return terms * ROUNDOFF * float(reward + 2 * np.abs(value_S[self.reached_S]).max(initial=0.0))

    def _worth(self, rows_S: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the value of taking these rows forever, from each state."""
        from scipy import sparse
        from scipy.sparse.linalg import spsolve

        base = self.base
        value_S = np.zeros(base.n_states)
        reached = self.reached_S[self.acting]
        # unreachable states come last, so that their errors do not enter the values of the others
        for part in (self.acting[reached], self.acting[~reached]):
            if len(part):
                moves = self.transitions[rows_S[part]]
                system = sparse.eye_array(len(part), format="csc") - self.g * moves[:, part].tocsc()
                value_S[part] = spsolve(system, base.row_reward[rows_S[part]] + self.g * (moves @ value_S))
        return value_S

    def careful_rows(self, cost_O: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which rows keep the least possible bound on what is spent; at least one in each state."""
        base = self.base
        bound_S = np.zeros(base.n_states)
        scale = max(float(np.abs(cost_O).max(initial=0.0)), 1e-300)
        for _ in self.monitor.each(range(_MOST_SWEEPS), 1):
            worst_R = np.maximum.reduceat(cost_O + self.g * bound_S[base.next_state], self.first_outcome)
            least = np.maximum(np.minimum.reduceat(worst_R, self.first_row), 0.0)
            moved = float(np.abs(least - bound_S[self.acting]).max(initial=0.0))
            bound_S[self.acting] = least
            if moved <= _EQUAL * scale:
                break
        worst_R = np.maximum.reduceat(cost_O + self.g * bound_S[base.next_state], self.first_outcome)
        owner = np.repeat(np.arange(len(self.acting)), np.diff(np.append(self.first_row, base.n_rows)))
        least = np.maximum(np.minimum.reduceat(worst_R, self.first_row), bound_S[self.acting])
        return worst_R <= least[owner] + 1e-9 * scale


def _rule(
    model: DiscountedCMDP,
    name: str,
    rows_S: NDArray[np.int64],
    value_S: NDArray[np.float64],
    monitor: ResourceMonitor,
) -> TailRule:
    base = model.base
    action_S = np.where(rows_S == NO_ROW, UNDECIDED, base.row_action[np.maximum(rows_S, 0)]).astype(np.int32)
    most, least = [], []
    for d in range(base.n_resources):
        acting = np.flatnonzero(rows_S != NO_ROW)
        owner, outcomes = spread(base.outcome_indptr, rows_S[acting])
        states, after = acting[owner], base.next_state[outcomes].astype(np.int64)
        ends = [_ends(base, d, int(o)) for o in monitor.each(outcomes.tolist())]
        highs, lows = [high for high, _ in ends], [low for _, low in ends]
        most.append(_bound(model, d, states, after, highs, monitor))
        below = [-low for low in lows if low is not None]
        bounded = len(below) == len(lows) and base.cost_range(d)[0] is not None
        least.append(tuple(-x for x in _bound(model, d, states, after, below, monitor)) if bounded else None)
    return TailRule(name, action_S, value_S, tuple(most), tuple(least))


def _ends(base: CMDP, d: int, outcome: int) -> tuple[Fraction, Fraction | None]:
    cost = base.cost_of(d, outcome)
    return (cost.high, cost.low) if isinstance(cost, CostDistribution) else (cost, cost)


def _bound(
    model: DiscountedCMDP,
    d: int,
    states: NDArray[np.int64],
    after: NDArray[np.int64],
    costs: list[Fraction],
    monitor: ResourceMonitor,
) -> tuple[Fraction, ...]:
    """Return one number per state that is at least 0 and at least c + g times that of any next state."""
    p, q = model.discount.numerator, model.discount.denominator
    top = max([Fraction(0), *costs])
    zero = (Fraction(0),) * model.n_states
    if top == 0:
        return zero
    grid = model.base.cost[d].unit / _GRID
    if model.base.distribution_DO is not None:
        grid = min(grid, top / _GRID)
    rough = _settle(
        np.array([float(cost / grid) for cost in monitor.each(costs)]), states, after, float(model.discount),
        model.n_states, monitor,
    )  # fmt: skip
    whole = [math.ceil(x) for x in rough.tolist()]
    scaled = {cost: q * cost / grid for cost in dict.fromkeys(costs)}
    missed = max(
        scaled[cost] + p * whole[there] - q * whole[here]
        for cost, here, there in monitor.each(zip(costs, states.tolist(), after.tolist(), strict=True))
    )
    lift = max(0, math.ceil(missed / (q - p)))
    acting = set(states.tolist())
    # the lesser of two such bounds is one, and the largest sum that could ever be spent is another
    most = top / (1 - model.discount)
    return tuple(min((whole[s] + lift) * grid, most) if s in acting else Fraction(0) for s in range(model.n_states))


def _settle(
    cost: NDArray[np.float64],
    states: NDArray[np.int64],
    after: NDArray[np.int64],
    g: float,
    n_states: int,
    monitor: ResourceMonitor,
) -> NDArray[np.float64]:
    """Return approximately the least bound, by sweeps; the outcomes of a state are adjacent."""
    bound = np.zeros(n_states)
    first = np.flatnonzero(np.diff(states, prepend=-1))
    acting = states[first]
    for _ in monitor.each(range(_MOST_SWEEPS), 1):
        worst = np.maximum(np.maximum.reduceat(cost + g * bound[after], first), 0.0)
        moved = float(np.abs(worst - bound[acting]).max(initial=0.0))
        bound[acting] = worst
        if moved <= (1 - g) / 8:
            break
    return bound
