"""The chance-constrained optimum: go over with probability at most delta, and earn as much as possible.

Over occupancy measures x of the graph of nodes this is a linear program with a single side constraint,

    max  sum x (gain + gain_over)     subject to     flow conservation,    sum x breach <= delta,

so some optimum is an average of two deterministic policies, both best at one and the same price of going over. The
price is found by intersecting lines (R, B) until no policy lies above: each round is one backward pass, and there are
finitely many. Once a limit is broken the constraint has nothing more to lose, and the unconstrained optimum follows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from solvent.baselines.nodes import MAX_NODES, Graph, explore
from solvent.baselines.result import Baseline, BaselineStatus
from solvent.baselines.sweep import Course, at_price, best_course, by_breach, by_reward, mix
from solvent.core.exact import Number, exact
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, SolventError, quote
from solvent.model.budget import BudgetLike, Limits, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.policy.markov import MarkovPolicy

#: Probabilities are floats: one that exceeds delta by so much of it, relatively, counts as no larger.
SLACK = 1e-12
_AGREEMENT = 1e-13
_MOST_ROUNDS = 1000


def chance(
    model: CMDP,
    budget: BudgetLike | None = None,
    delta: Number = 0.05,
    *,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the policy of greatest expected reward among those that ever go over with probability at most `delta`.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    delta : number
        The probability, from 0 to 1, with which some limit may be broken after some step.
    max_nodes : int
        Refuse beyond so many nodes (step, state, spent).
    monitor : ResourceMonitor, optional
        Time and memory limits, as `compare` sets them.

    Returns
    -------
    Baseline
        With a randomized policy on nodes that keeps count until a limit is broken and follows the unconstrained
        optimum from then on; status "infeasible" if every policy goes over more often.

    Raises
    ------
    ModelError
        If `delta` is no probability, there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        If costs and limits have no common unit in which sums fit 64 bits.

    Notes
    -----
    The optimum is over all policies, whatever they remember. With `delta` 0 it is that of `solve`; with 1 the
    unconstrained one. Corollary 1 of the paper (`cor: cMDP-failure`): for any `delta` above 0 the policy may go over
    by any amount.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.markov_gap(prize=10)
    >>> [round(chance(model, delta=delta).value, 6) for delta in (0, 0.05, 0.5)]
    [5.0, 5.5, 10.0]
    """
    check_model(model)
    return chance_within(model, resolve(model, budget), read_delta(delta), max_nodes, monitor)


def read_delta(delta: Any) -> float:
    """Return a probability, given as any number or text of one, or raise a `ModelError`.

    Examples
    --------
    >>> read_delta("1/20")
    0.05
    """
    try:
        number = exact(delta, "delta")
    except ModelError:
        number = Fraction(-1)
    if isinstance(delta, bool) or not 0 <= number <= 1:
        raise ModelError("delta", "a probability from 0 to 1", quote(delta))
    return float(number)


def chance_within(
    model: CMDP,
    limits: Limits,
    delta: float,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the chance-constrained optimum for resolved limits; see `chance`."""
    graph = explore(model, limits, "chance", max_nodes, monitor)
    allowed = delta * (1 + SLACK)
    low = best_course(graph, by_breach, goes_on=True)
    if low.breach > allowed:
        message = f"every policy goes over with probability {low.breach:.6g} at least"
        return Baseline.none("chance", BaselineStatus.INFEASIBLE, message, limits)
    high = best_course(graph, by_reward, goes_on=True)
    if high.breach <= allowed:
        low, share = high, 0.0
    else:
        low, high = _bracket(graph, low, high, allowed)
        # the slack only decides which side a course is on, so the share of the higher one may come out below 0
        share = max(0.0, (delta - low.breach) / (high.breach - low.breach))
    policy = mix(graph, low, high, share, MarkovPolicy(model, graph.free.action_HS))
    value = low.reward + share * (high.reward - low.reward)
    breach = low.breach + share * (high.breach - low.breach)
    message = f"goes over with probability {breach:.6g}, where {delta:g} is allowed"
    return Baseline("chance", BaselineStatus.OPTIMAL, value, message, limits, policy)


def _bracket(graph: Graph, low: Course, high: Course, allowed: float) -> tuple[Course, Course]:
    """Return two courses, one within what is allowed and one beyond, that are both best at one price."""
    size = max(abs(low.reward), abs(high.reward))
    for _ in range(_MOST_ROUNDS):
        price = (high.reward - low.reward) / (high.breach - low.breach)
        if not math.isfinite(price):
            # the breaches differ by less than floats can weigh: nothing lies between the two
            return low, high
        best = best_course(graph, at_price(price), goes_on=True)
        gained = (best.reward - price * best.breach) - (low.reward - price * low.breach)
        is_known = any((best.reward, best.breach) == (each.reward, each.breach) for each in (low, high))
        if is_known or gained <= _AGREEMENT * max(size, price * max(low.breach, high.breach)):
            return low, high
        low, high = (best, high) if best.breach <= allowed else (low, best)
    raise SolventError(f"chance: the price of going over was not found in {_MOST_ROUNDS} rounds; please report this")
