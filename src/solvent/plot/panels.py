"""Several pictures in one: what a policy spends of each resource, one panel below the other."""

from __future__ import annotations

from matplotlib.figure import Figure

from solvent.errors import ModelError
from solvent.model.budget import BudgetLike
from solvent.model.cmdp import CMDP
from solvent.plot.spent import spending
from solvent.plot.style import look
from solvent.verification.policies import PolicyLike, limits_of

_WIDTH, _HEIGHT = 6.4, 3.4


def spending_panels(
    model: CMDP, policy: PolicyLike, budget: BudgetLike | None = None, *, episodes: int = 10_000, seed: int = 0
) -> Figure:
    """Draw what a policy spends over time, with a panel for each limited resource, or for each if none is.

    Parameters
    ----------
    model, policy, budget, episodes, seed
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
    names = limits_of(model, policy, budget).resources or model.resources
    if not names:
        raise ModelError("spending", "a model with resources to draw", "one that spends nothing")
    with look():
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(names)), layout="constrained")
        panels = figure.subplots(len(names), squeeze=False)[:, 0]
        for name, ax in zip(names, panels, strict=True):
            spending(model, policy, budget, resource=name, episodes=episodes, seed=seed, ax=ax)
    return figure
