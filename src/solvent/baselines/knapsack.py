"""Knapsack style: the episode ends when the budget breaks, and keeps what it earned.

Bandits and reinforcement learning with knapsacks let the process run until a resource is exhausted. As a plan: on the
graph of nodes, breaking a limit is worth nothing more, and costs nothing either,

    W(node) = max over rows of  r + sum over outcomes that keep all limits of  p W(next node).

Here the reward of a row is earned by taking it, so the step that breaks the budget is still paid, as is every step
before. Nothing holds the last step back: its policy takes whatever is paid, in every history (`cor: cMDP-failure`).
"""

from __future__ import annotations

from solvent.baselines.nodes import MAX_NODES, explore
from solvent.baselines.result import Baseline, BaselineStatus
from solvent.baselines.sweep import best_course, by_reward, mix
from solvent.core.limits import ResourceMonitor
from solvent.model.budget import BudgetLike, resolve
from solvent.model.cmdp import CMDP, check_model
from solvent.policy.markov import MarkovPolicy


def knapsack_style(
    model: CMDP,
    budget: BudgetLike | None = None,
    *,
    stops: bool = False,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> Baseline:
    """Return the best policy if the episode ended, without loss, as soon as a limit is broken.

    Parameters
    ----------
    model : CMDP
    budget : number, Budget, or dict of them by resource, optional
        The model's own default, if not given.
    stops : bool
        What the policy does in the model itself, where nothing ends the episode: decide nothing more once a limit is
        broken, so that `verify` reports the value claimed; or, if not, go on with the unconstrained optimum.
    max_nodes : int
        Refuse beyond so many nodes (step, state, spent).
    monitor : ResourceMonitor, optional
        Time and memory limits, as `compare` sets them.

    Returns
    -------
    Baseline
        Its value is that of the episode which ends. There always is a policy.

    Raises
    ------
    ModelError
        If there are too many nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        If costs and limits have no common unit in which sums fit 64 bits.

    Notes
    -----
    The reward of the step that breaks a limit counts. Of equally good rows it takes one that breaks limits less often.

    Examples
    --------
    >>> from solvent.model import instances
    >>> knapsack_style(instances.markov_gap(prize=10))
    Baseline(knapsack, optimal, value 10)
    """
    check_model(model)
    limits = resolve(model, budget)
    graph = explore(model, limits, "knapsack_style", max_nodes, monitor)
    best = best_course(graph, by_reward, goes_on=False)
    after = None if stops else MarkovPolicy(model, graph.free.action_HS)
    message = f"ends early, with a limit broken, with probability {best.breach:.6g}"
    policy = mix(graph, best, best, 0.0, after)
    return Baseline("knapsack", BaselineStatus.OPTIMAL, best.reward, message, limits, policy)
