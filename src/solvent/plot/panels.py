"""Figures with several panels: what a policy spends of each resource."""

from __future__ import annotations

from matplotlib.figure import Figure

from solvent.errors import ModelError
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.plot.spent import spending
from solvent.plot.style import look
from solvent.verification.policies import PolicyLike, limits_of

_WIDTH, _HEIGHT = 6.4, 3.4


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
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(names)), layout="constrained")
        panels = figure.subplots(len(names), squeeze=False)[:, 0]
        for name, ax in zip(names, panels, strict=True):
            spending(model, policy, budget, spent=spent, resource=name, episodes=episodes, seed=seed, ax=ax)
    return figure
