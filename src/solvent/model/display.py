"""Models as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from solvent.core import html
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP

#: Beyond this many outcomes, ranges of costs are not computed.
_MOST_OUTCOMES = 5_000_000


def model_card(model: CMDP, discount: Fraction | None = None) -> str:
    """Return the display of a model, or of a discounted model from its base.

    Examples
    --------
    >>> from solvent.model import instances
    >>> "at most 5" in model_card(instances.knapsack([3, 4], [2, 3], capacity=5))
    True
    """
    steps = "the same at every step" if model.is_stationary else f"{model.n_tables:,} tables"
    horizon = ("horizon", f"{model.horizon:,} steps, {steps}")
    rows: list[tuple[str, object]] = [
        horizon if discount is None else ("discount", f"{short_amount(discount)}, without a last step"),
        ("states", html.Fragment(f"{model.n_states:,}: {html.names(model.states)}")),
        ("actions", html.Fragment(f"{model.n_actions:,}: {html.names(model.actions)}")),
        ("size", f"{model.n_rows:,} rows (state and action), {model.n_outcomes:,} outcomes"),
    ]
    if isinstance(model.start, dict):
        rows.append(("start", html.names([f"{state} ({p:.4g})" for state, p in model.start.items()])))
    else:
        rows.append(("start", model.start))
    if model.end_reward is not None:
        at = np.flatnonzero(model.end_reward).tolist()
        rows.append(("end reward", html.names([f"{model.states[s]} {model.end_reward[s]:.6g}" for s in at])))
    if model.may_end is not None:
        rows.append(("must end in", html.names([model.states[s] for s in np.flatnonzero(model.may_end).tolist()])))
    parts = [html.facts(rows)]
    if model.resources:
        numbers = ["cost per step"]
        parts.append(html.table(_headings(model), _resources(model), numbers=numbers, total=model.n_resources))
    if model.description:
        parts.insert(0, html.note(model.description))
    return html.card("CMDP" if discount is None else "DiscountedCMDP", model.name, *parts)


def _headings(model: CMDP) -> list[str]:
    saturates = [name for name, ends in (("floor", model.floors), ("ceiling", model.ceilings)) if any_end(ends)]
    return ["resource", "cost per step", *saturates, "budget"]


def any_end(ends: tuple[Fraction | None, ...]) -> bool:
    """Return whether a resource saturates at one of its ends."""
    return any(end is not None for end in ends)


def _resources(model: CMDP) -> Iterator[list[str]]:
    for d, name in enumerate(model.resources):
        if model.n_outcomes > _MOST_OUTCOMES:
            costs = "not computed"
        else:
            low, high = model.cost_range(d)
            costs = f"{'−∞' if low is None else short_amount(low)} to {short_amount(high)}"
        ends = [side[d] for side in (model.floors, model.ceilings) if any_end(side)]
        budget = "none" if model.budget is None else model.budget[name].text
        yield [name, costs, *("none" if end is None else short_amount(end) for end in ends), budget]
