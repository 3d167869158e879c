"""The expectation-constrained optimum: keep the budget in expectation, by a linear program over occupancy measures.

With x[h, row] the probability of taking a row at step h, and y[h, d] the expected amount spent of resource d after it,

    max  sum x r     subject to     sum over rows of s of x[0] = probability of starting in s,
                                    sum over rows of s of x[h] = sum over outcomes into s of x[h - 1] p,
                                    y[h, d] = y[h - 1, d] + sum x[h] E[c],     lower <= y[h, d] <= upper where limited.

Rewards for ending are part of r where a row leads to the end. If episodes must end in a goal, x is 0 for rows that can
end elsewhere: a goal is reached in every history, not in expectation.

A floor or a ceiling has no linear program: y is the sum of costs as if the resource did not saturate, as is usual. With
a floor, what is really spent can be more than that, since a full tank takes no more.

The policy takes each row of a state in proportion to x. It depends on step and state only: as spending is constrained
in expectation only, knowing what was spent would not help.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from solvent.baselines.occupancy import Ends, Occupancy
from solvent.baselines.result import Baseline
from solvent.baselines.unconstrained import markov_optimum
from solvent.core.limits import ResourceMonitor
from solvent.errors import ProgramError
from solvent.model.budget import BudgetLike, Limits, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.policy.markov import MarkovPolicy
from solvent.solvers.solution import Status

#: A row with a smaller share of its state's probability is treated as noise of the linear program.
SMALLEST_SHARE = 1e-9
#: A state with a smaller probability is below the resolution of the linear program.
SMALLEST_MASS = 1e-12
#: Relative tolerance between the value of the policy and that of the linear program.
_AGREEMENT = 1e-6


def expectation(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    every_step: bool = False,
    spent: SpentLike | None = None,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the best policy among those whose *expected* spending keeps the limits.

    A resource that saturates is treated as if it did not: its expected costs are constrained, which is what such a
    method can do. `verify` and `compare` tell what the policy does to the real account.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The budget. Default: that of the model.
    every_step : bool
        If True, expected spending must keep the limits after every step. If False, a limit that is the same for all
        steps constrains only the expected total, as is usual; limits that vary by step always apply at their steps.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    monitor : ResourceMonitor, optional
        Time and memory limits; used by `compare`.

    Returns
    -------
    Baseline
        With a randomized Markov policy, or status "infeasible" if no policy keeps the limits in expectation, and ends
        every episode in the goal if the model has one.

    Raises
    ------
    ProgramError
        If the linear program could not be solved. It is a `SolventError`.

    Notes
    -----
    Costs are floats here, and limits are kept to about 1e-10 of the largest cost or limit. Shares below 1e-9 are
    treated as noise. In states that the linear program reaches with probability below 1e-12, the policy maximizes
    reward minus the cost of resources at their dual prices. Continuous costs enter by their means.

    Examples
    --------
    >>> from solvent.model import instances
    >>> best = expectation(instances.markov_gap(prize=10))
    >>> best
    Baseline(expectation, optimal, value 5)
    >>> round(best.policy.probabilities(1, 0)[1], 9)
    0.5
    """
    check_model(model)
    limits = resolve(model, budget, spent)
    return expectation_within(Occupancy(model, limits.resources, monitor), limits, every_step=every_step)


def expectation_within(program: Occupancy, limits: Limits, *, every_step: bool = False) -> Baseline:
    """Return the expectation-constrained optimum for resolved limits; see `expectation`."""
    bounds = bound_ends(limits, every_step=every_step)
    solved = program.maximize(bounds)
    if solved is None:
        message = "the expected spending of every policy breaks some limit"
        if program.model.may_end is not None:
            message = "every policy breaks some limit in expectation, or may end outside the goal"
        return Baseline.without_policy("expectation", Status.INFEASIBLE, message, limits)
    policy = _policy(program, solved.x, solved.price_HD)
    followed = program.follow(policy.table)
    size = max(abs(solved.value), float(np.abs(program.model.row_reward).max(initial=0.0)))
    if program.model.end_reward is not None:
        size = max(size, float(np.abs(program.model.end_reward).max()))
    if abs(followed.value - solved.value) > _AGREEMENT * size:
        raise ProgramError(
            f"expectation: the value of the policy is {followed.value!r}, that of the linear program {solved.value!r}"
        )
    totals = [float(first) + total for first, total in zip(limits.initial, followed.spent_D, strict=True)]
    parts = (f"{name} {total:.6g}" for name, total in zip(limits.resources, totals, strict=True))
    message = f"expected spending {', '.join(parts)}" if limits.resources else "nothing is limited"
    cut = [name for name in limits.resources if program.model.resource(name).saturates]
    if cut:
        message += f", as if {' and '.join(cut)} did not saturate"
    # adding 0 turns minus zero into zero
    return Baseline("expectation", Status.OPTIMAL, solved.value + 0.0, message, limits, policy)


def bound_ends(limits: Limits, *, every_step: bool) -> Ends:
    """Return the limits on expected costs: only the last one, on a side whose limits are all the same.

    These are the limits on expected spending, less what has been spent before the first step.
    """

    def of(sides: tuple[tuple[Fraction | None, ...], ...]) -> list[tuple[int, int, Fraction]]:
        found = []
        for d, side in enumerate(sides):
            first = limits.initial[d]
            limited = [(step, d, limit - first) for step, limit in enumerate(side) if limit is not None]
            if not every_step and len(limited) == len(side) and len(set(side)) == 1:
                limited = limited[-1:]
            found += limited
        return found

    return Ends(of(limits.upper), of(limits.lower))


def _policy(program: Occupancy, x: NDArray[np.float64], price_HD: NDArray[np.float64]) -> MarkovPolicy:
    """Return the policy that takes rows in proportion to x, and optimizes for the prices where x is too small."""
    model = program.model
    priced = markov_optimum(model, lambda step: model.row_reward - program.cost_RD @ price_HD[step], goals=True)
    table: NDArray[np.float64] = np.zeros((model.horizon, model.n_states, model.n_actions))
    step, state = np.nonzero(priced.action_HS >= 0)
    table[step, state, priced.action_HS[step, state]] = 1.0
    mass = np.where(x > 0, x, 0.0)
    owner = program.step * model.n_states + program.state
    total = np.bincount(owner, mass, model.horizon * model.n_states)[owner]
    known = total >= SMALLEST_MASS
    share = np.where(known, mass / np.where(known, total, 1.0), 0.0)
    share[share < SMALLEST_SHARE] = 0.0
    at = np.flatnonzero(known)
    table[program.step[at], program.state[at]] = 0.0
    table[program.step[at], program.state[at], model.row_action[program.row[at]]] = share[at]
    sums = table.sum(2, keepdims=True)
    return MarkovPolicy(model, table / np.where(sums > 0, sums, 1.0))
