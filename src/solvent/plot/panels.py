"""Figures with several panels: what a policy spends of each resource, and what it does in each state."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from solvent.errors import ModelError, PolicyError, quote
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.ends import first_states
from solvent.plot.action_colors import MOST_ROWS, ActionScale
from solvent.plot.decisions import AmountAxis, check_policy, draw_decisions, state_cells
from solvent.plot.labels import choose_resource, plot_name, problem_text
from solvent.plot.spent import spending
from solvent.plot.style import ShownFigure, look
from solvent.policy.holders import HasPolicy
from solvent.policy.markov import UNDECIDED, MarkovPolicy
from solvent.policy.nodes import NodeTable
from solvent.verification.policies import PolicyLike, limits_of

_WIDTH, _HEIGHT = 6.4, 3.4
#: Most panels for states, columns of them, and their size in inches.
_MOST_STATES, _COLUMNS, _PANEL = 9, 3, (2.9, 2.3)


def spending_panels(
    model: CMDP,
    policy: PolicyLike,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    episodes: int = 10_000,
    seed: int = 0,
) -> Figure:
    """Plot what a policy spends over time, with one panel per limited resource (per resource if none is limited).

    Parameters
    ----------
    model, policy, budget, spent, episodes, seed
        As for `spending`.

    Raises
    ------
    ModelError
        If the model has no resources.

    Examples
    --------
    >>> import solvent
    >>> model = solvent.instances.partition([3, 1, 2])
    >>> figure = spending_panels(model, solvent.solve(model).policy, episodes=100)
    >>> len(figure.axes) == len(model.resources)
    True
    """
    names = limits_of(model, policy, budget, spent).resources or model.resources
    if not names:
        raise ModelError("spending", "a model with resources", "a model without resources")
    with look():
        figure = ShownFigure(figsize=(_WIDTH, _HEIGHT * len(names)), layout="constrained")
        panels = figure.subplots(len(names), squeeze=False)[:, 0]
        for name, ax in zip(names, panels, strict=True):
            spending(model, policy, budget, spent=spent, resource=name, episodes=episodes, seed=seed, ax=ax)
    return figure


def policy_panels(
    policy: NodeTable | MarkovPolicy | HasPolicy, states: Sequence[Hashable] | None = None, resource: str | None = None
) -> Figure:
    """Plot which action a policy takes, by step and remaining budget, with one panel per state and one legend.

    Parameters
    ----------
    policy : Solution, AugmentedPolicy, RandomizedPolicy or MarkovPolicy
    states : sequence of hashables, optional
        States to show. Default: of those in which the policy makes decisions, the nine with the most nodes.
    resource : str, optional
        Resource on the vertical axis. Default: the last one that the policy tracks.

    Raises
    ------
    PolicyError
        If the policy makes no decision in these states.

    Examples
    --------
    >>> import solvent
    >>> figure = policy_panels(solvent.solve(solvent.instances.fuel_grid(3)))
    >>> [axes.get_title(loc="left") for axes in figure.axes[:3]]
    ['(0, 0)', '(1, 0)', '(0, 1)']
    """
    policy = check_policy(policy)
    owner: Any = policy.model if isinstance(policy, MarkovPolicy) else policy
    tracked = policy.resources
    where = choose_resource(tracked, resource or tracked[-1]) if tracked else None
    axis = AmountAxis(policy, owner.horizon, where)
    names = _busiest(policy, owner.states) if states is None else list(states)
    shown = {name: cells for name in names if len((cells := state_cells(policy, name, axis)).step)}
    if not shown:
        raise PolicyError("states", "a state in which the policy makes a decision", quote(names))
    starts = first_states(owner.start)
    scale = ActionScale(owner.actions, np.concatenate([cells.action for cells in shown.values()]))
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    with look():
        figure = ShownFigure(figsize=(_PANEL[0] * columns + 1.6, _PANEL[1] * rows + 0.5), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for (name, cells), axes in zip(shown.items(), panels[: len(shown)], strict=True):
            draw_decisions(axes, cells, axis, scale, is_start=name in starts)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_title(plot_name(name))
            axes.xaxis.label.set_fontsize(8)
            axes.yaxis.label.set_fontsize(8)
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        handles = scale.handles()
        figure.legend(handles=handles, loc="outside right upper", ncols=-(-len(handles) // (MOST_ROWS * rows)))
        figure.suptitle(problem_text(policy, "actions by state"), x=0.01, ha="left", fontsize=10)
    return figure


def _busiest(policy: NodeTable | MarkovPolicy, states: Sequence[Hashable]) -> list[Hashable]:
    """Return the states with the most nodes, in the order of the model."""
    if isinstance(policy, MarkovPolicy):
        decided = policy.table != UNDECIDED if policy.is_deterministic else policy.table.any(2)
        nodes = decided.sum(0)
    else:
        nodes = np.bincount(policy.group_state, np.diff(policy.node_indptr), len(states))
    chosen = np.argsort(-nodes, kind="stable")[:_MOST_STATES]
    return [states[s] for s in sorted(chosen.tolist()) if nodes[s]]
