"""The optimum without a budget: values over states, backward, as in any finite MDP.

V_H = e,    V_h(s) = max over rows of  r + sum over outcomes of p V_{h+1}(s'),    e(s) where s is terminal,

where e(s) is the reward for ending in state s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvent.baselines.result import Baseline
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import BudgetLike, Limits, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.policy.markov import UNDECIDED, MarkovPolicy
from solvent.solvers.solution import Status

_NO_LIMITS = Limits((), (), ())


@dataclass(frozen=True)
class MarkovOptimum:
    """Optimal values and actions by step and state.

    Attributes
    ----------
    value_HS : ndarray of float64, shape (H + 1, S)
        Maximum expected reward from each step and state on; the last row has the rewards for ending.
    action_HS : ndarray of int32, shape (H, S)
        An optimal action, or `UNDECIDED` where the state is terminal.
    """

    value_HS: NDArray[np.float64]
    action_HS: NDArray[np.int32]


def markov_optimum(
    model: CMDP,
    reward_at: Callable[[int], NDArray[np.float64]] | None = None,
    monitor: ResourceMonitor | None = None,
    *,
    goals: bool = False,
) -> MarkovOptimum:
    """Return the optimum without limits; ties go to the first action.

    Parameters
    ----------
    model : CMDP
    reward_at : callable, optional
        Returns the rewards of the model's rows at a step, shape (R,), to be used in place of the model's rewards.
    monitor : ResourceMonitor, optional
        Its time limit is checked at each step.
    goals : bool
        If True, values are minus infinity where an episode can end outside the goal of the model under every policy.
        If False, the goal is ignored.
    """
    monitor = monitor or ResourceMonitor()
    ends = np.zeros(model.n_states) if model.end_reward is None else model.end_reward
    # a terminal state keeps the value of ending there
    value_HS = np.tile(model.end_value if goals else ends, (model.horizon + 1, 1))
    action_HS = np.full((model.horizon, model.n_states), UNDECIDED, np.int32)
    for step in range(model.horizon - 1, -1, -1):
        monitor.check_time()
        bounds = model.row_indptr_at(step)
        rows = slice(int(bounds[0]), int(bounds[-1]))
        if rows.start == rows.stop:
            continue
        reward = model.row_reward if reward_at is None else reward_at(step)
        outcomes = model.outcome_indptr[rows.start : rows.stop + 1]
        part = slice(int(outcomes[0]), int(outcomes[-1]))
        later = model.probability[part] * value_HS[step + 1][model.next_state[part]]
        worth = reward[rows] + np.add.reduceat(later, outcomes[:-1] - outcomes[0])
        sizes = np.diff(bounds)
        live = np.flatnonzero(sizes)
        first = (bounds[:-1] - bounds[0])[live]
        best = np.maximum.reduceat(worth, first)
        value_HS[step, live] = best
        taken = np.flatnonzero(worth == np.repeat(best, sizes[live]))
        owner = np.repeat(live, sizes[live])[taken]
        # written in reverse, so that the first of several remains
        action_HS[step, owner[::-1]] = model.row_action[rows][taken[::-1]]
    return MarkovOptimum(value_HS, action_HS)


def start_value(model: CMDP, value_S: NDArray[np.float64]) -> float:
    """Return the expectation of the values of the possible first states."""
    return float(model.start_probability @ value_S[model.start_states])


def unconstrained(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the policy of greatest expected reward, without regard to the budget and to goals.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        Not used, except to fill `limits` of the result. Default: that of the model, if it has one.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step; not used otherwise.
    monitor : ResourceMonitor, optional
        Time and memory limits; used by `compare`.

    Notes
    -----
    Its value is an upper bound for every policy. Rewards for ending count, but states in which an episode must not end
    are allowed: a goal is a constraint, as a budget is.

    Examples
    --------
    >>> from solvent.model import instances
    >>> unconstrained(instances.markov_gap(prize=10))
    Baseline(unconstrained, optimal, value 10)
    """
    check_model(model)
    limits = _NO_LIMITS if budget is None and model.budget is None else resolve(model, budget, spent)
    monitor = monitor or ResourceMonitor()
    monitor.reserve(12 * (model.horizon + 1) * model.n_states + 24 * model.n_outcomes, "values per step and state")
    best = markov_optimum(model, monitor=monitor)
    value = start_value(model, best.value_HS[0])
    return Baseline(
        "unconstrained",
        Status.OPTIMAL,
        value,
        "the best policy without a budget",
        limits,
        MarkovPolicy(model, best.action_HS),
    )
