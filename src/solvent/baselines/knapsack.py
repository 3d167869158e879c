"""Knapsack style: the episode ends when a limit is broken, and keeps the rewards earned until then.

Bandits and reinforcement learning with knapsacks let the process run until a resource is exhausted. As a planning
problem on the graph of nodes, nothing more is earned after a limit is broken, and there is no penalty:

    W(node) = max over rows of  r + sum over outcomes that keep all limits of  p W(next node).

The reward of a row is earned by taking it, so the step that breaks a limit is still rewarded. At the last step the
constraint has no effect: the policy takes the best reward in every history (`cor: cMDP-failure`). An episode that ends
outside the goal of a model breaks a limit at its end: it does not get the reward for ending.
"""

from __future__ import annotations

from solvent.baselines.choice_graph import MAX_NODES, explore
from solvent.baselines.plans import best_plan, by_reward, mix
from solvent.baselines.result import Baseline
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import BudgetLike, SpentLike, resolve
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.policy.markov import MarkovPolicy
from solvent.solvers.solution import Status


def knapsack_style(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    stops: bool = False,
    spent: SpentLike | None = None,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the best policy under the rule that the episode ends, without loss, when a limit is broken.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The budget. Default: that of the model.
    stops : bool
        What the policy does after a limit is broken, as nothing ends the episode in the model itself. If True, it
        decides nothing more, and `verify` reports the claimed value. If False, it follows the unconstrained optimum.
    spent : number, or dict of numbers by resource, optional
        What has been spent before the first step. Default: nothing.
    max_nodes : int
        Maximum number of nodes (step, state, spent).
    monitor : ResourceMonitor, optional
        Time and memory limits; used by `compare`.

    Returns
    -------
    Baseline
        Its value is that of an episode that ends when a limit is broken. There is always a policy.

    Raises
    ------
    ModelError
        If there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        If costs and limits have no common unit in which all sums fit 64 bits.

    Notes
    -----
    The reward of the step that breaks a limit counts. Among equally good rows, the policy takes one with the smallest
    probability of breaking a limit.

    Examples
    --------
    >>> from solvent.model import instances
    >>> knapsack_style(instances.markov_gap(prize=10))
    Baseline(knapsack, optimal, value 10)
    """
    check_model(model)
    limits = resolve(model, budget, spent)
    graph = explore(model, limits, "knapsack_style", max_nodes, monitor)
    best = best_plan(graph, by_reward, continues=False)
    after = None if stops else MarkovPolicy(model, graph.free.action_HS)
    breaking = "breaks a limit" if model.may_end is None else "breaks a limit or ends outside the goal"
    message = f"{breaking} with probability {best.breach:.6g}"
    policy = mix(graph, best, best, 0.0, after)
    return Baseline("knapsack", Status.OPTIMAL, best.reward, message, limits, policy)
