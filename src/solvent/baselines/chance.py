"""The chance-constrained optimum: exceed the budget with probability at most delta, and maximize expected reward.

Over occupancy measures x of the graph of nodes this is a linear program with a single side constraint,

    max  sum x (gain + gain_over)     subject to     flow conservation,    sum x breach <= delta,

so some optimum is an average of two deterministic policies that are both optimal for the same price per unit of breach
probability. The price is found by intersecting the lines of policies, given by reward R and breach probability B, until
no policy lies above: each round is one backward pass, and there are finitely many. After a limit is broken, the
constraint no longer matters, and the policy is the unconstrained optimum.
"""

from __future__ import annotations

import math
from fractions import Fraction

from solvent.baselines.choice_graph import MAX_NODES, ChoiceGraph, explore
from solvent.baselines.plans import NodePlan, at_price, best_plan, by_breach, by_reward, mix
from solvent.baselines.result import Baseline
from solvent.core.exact import Number, exact
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, SolventError, quote
from solvent.model.budget import BudgetLike, Limits, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.policy.markov import MarkovPolicy
from solvent.solvers.solution import Status

#: Relative tolerance by which a probability, a float, may exceed delta.
SLACK = 1e-12
_AGREEMENT = 1e-13
_MOST_ROUNDS = 1000


def chance(
    model: CMDP,
    budget: BudgetLike | None = None,
    delta: Number = 0.05,
    *,
    spent: SpentLike | None = None,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the best policy among those that ever exceed the budget with probability at most `delta`.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The budget. Default: that of the model.
    delta : number
        Maximum probability, from 0 to 1, that some limit is broken after some step or, if the model has a goal, that
        the episode ends outside it.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    max_nodes : int
        Maximum number of nodes (step, state, spent).
    monitor : ResourceMonitor, optional
        Time and memory limits; used by `compare`.

    Returns
    -------
    Baseline
        With a randomized policy on nodes that follows the unconstrained optimum after a limit is broken; status
        "infeasible" if every policy exceeds the budget with a larger probability.

    Raises
    ------
    ModelError
        If `delta` is not a probability, there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        If costs and limits have no common unit in which all sums fit 64 bits.

    Notes
    -----
    The optimum is over all history-dependent policies. With `delta` 0 it is that of `solve`; with 1, the unconstrained
    optimum. Corollary 1 of the paper (`cor: cMDP-failure`): for any `delta` above 0 the policy may exceed the budget by
    any amount.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.markov_gap(prize=10)
    >>> [round(chance(model, delta=delta).value, 6) for delta in (0, 0.05, 0.5)]
    [5.0, 5.5, 10.0]
    """
    check_model(model)
    return chance_within(model, resolve(model, budget, spent), read_delta(delta), max_nodes, monitor)


def read_delta(delta: Number) -> float:
    """Return a probability as a float, or raise a `ModelError`.

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
    low = best_plan(graph, by_breach, continues=True)
    if low.breach > allowed:
        message = f"every policy {graph.breaking} with probability at least {low.breach:.6g}"
        return Baseline.without_policy("chance", Status.INFEASIBLE, message, limits)
    high = best_plan(graph, by_reward, continues=True)
    if high.breach <= allowed:
        low, share = high, 0.0
    else:
        low, high = _bracket(graph, low, high, allowed)
        # a plan within the slack counts as allowed, so the share of the other may come out below 0
        share = max(0.0, (delta - low.breach) / (high.breach - low.breach))
    policy = mix(graph, low, high, share, MarkovPolicy(model, graph.free.action_HS))
    value = low.reward + share * (high.reward - low.reward)
    breach = low.breach + share * (high.breach - low.breach)
    message = f"{graph.breaking} with probability {breach:.6g}; {delta:g} is allowed"
    return Baseline("chance", Status.OPTIMAL, value, message, limits, policy)


def _bracket(graph: ChoiceGraph, low: NodePlan, high: NodePlan, allowed: float) -> tuple[NodePlan, NodePlan]:
    """Return two plans that are optimal for the same price, one with an allowed breach probability and one without."""
    size = max(abs(low.reward), abs(high.reward))
    for _ in range(_MOST_ROUNDS):
        price = (high.reward - low.reward) / (high.breach - low.breach)
        if not math.isfinite(price):
            # the breach probabilities differ by less than floats can resolve: no plan lies between the two
            return low, high
        best = best_plan(graph, at_price(price), continues=True)
        gained = (best.reward - price * best.breach) - (low.reward - price * low.breach)
        is_known = any((best.reward, best.breach) == (each.reward, each.breach) for each in (low, high))
        if is_known or gained <= _AGREEMENT * max(size, price * max(low.breach, high.breach)):
            return low, high
        low, high = (best, high) if best.breach <= allowed else (low, best)
    raise SolventError(f"chance: no price was found in {_MOST_ROUNDS} rounds; please report this")
