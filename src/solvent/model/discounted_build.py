"""Constructors of discounted models: from rows, arrays or functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.exact import Number
from solvent.errors import ModelError, quote
from solvent.model.arrays import from_arrays
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.consistency import MAX_HORIZON
from solvent.model.discounted import DiscountedCMDP, check_constant, read_factor
from solvent.model.functions import explore
from solvent.model.resources import ResourceLike


class DiscountedBuilder:
    """Build a `DiscountedCMDP` row by row, in names.

    Parameters
    ----------
    discount : number
        Discount factor of rewards and costs, above 0 and below 1.
    start, resources, states, actions, budget, name, description
        As in `Builder`. The budget must have the same limits after every step.
    """

    def __init__(
        self,
        *,
        discount: Number,
        start: Hashable,
        resources: Sequence[ResourceLike] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: BudgetLike | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        self.discount = read_factor(discount)
        self._rows = Builder(
            horizon=1, start=start, resources=resources, states=states, actions=actions, budget=check_constant(budget),
            name=name, description=description,
        )  # fmt: skip

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources."""
        return self._rows.resources

    def add(
        self,
        state: Hashable,
        action: Hashable,
        *,
        outcomes: Iterable[Any],
        reward: float = 0,
        steps: Iterable[int] | None = None,
    ) -> None:
        """Add a row: the outcomes of an action in a state. See `Builder.add`; `steps` must be None."""
        _refuse_steps(steps, f"{state}/{action}")
        self._rows.add(state, action, outcomes=outcomes, reward=reward)

    def terminal(self, *states: Hashable, steps: Iterable[int] | None = None) -> None:
        """Declare states terminal."""
        _refuse_steps(steps, "terminal")
        self._rows.terminal(*states)

    def build(self) -> DiscountedCMDP:
        """Return the model. Raises the same errors as `Builder.build`."""
        return DiscountedCMDP(self._rows.build(), self.discount)


def _refuse_steps(steps: Any, place: str) -> None:
    if steps is not None:
        raise ModelError(f"{place}, steps", "no steps, as a discounted model is the same at all of them", quote(steps))


def discounted_arrays(
    P: Any, R: Any, C: Any, discount: Fraction, *, budget: BudgetLike | None = None, **options: Any
) -> DiscountedCMDP:
    """Return a model from arrays without a step axis; see `CMDP.from_arrays`."""
    if isinstance(P, np.ndarray) and P.ndim == 4:
        raise ModelError("P", "shape (S, A, S), as a discounted model is the same at all steps", f"shape {P.shape}")
    return DiscountedCMDP(from_arrays(P, R, C, horizon=1, budget=check_constant(budget), **options), discount)


def discounted_function(
    start: Hashable,
    actions: Callable[..., Iterable[Hashable]],
    outcomes: Callable[..., Iterable[Any]],
    discount: Fraction,
    *,
    reward: Callable[..., float] | None = None,
    resources: Sequence[ResourceLike] = ("cost",),
    stationary: bool = True,
    max_states: int = MAX_HORIZON,
    progress: bool = True,
    **options: Any,
) -> DiscountedCMDP:
    """Return a model of all states that can ever be reached from `start`; see `CMDP.from_function`."""
    if not stationary:
        raise ModelError("stationary", "True, as a discounted model is the same at all steps", "False")
    builder = DiscountedBuilder(discount=discount, start=start, resources=resources, **options)
    most = min(max_states, MAX_HORIZON) if isinstance(max_states, int) else max_states
    # every step but the last finds a new state, so there are never more steps than states
    explore(
        builder._rows, start, actions, outcomes, MAX_HORIZON,
        reward=reward, max_states=most, progress=progress,
    )  # fmt: skip
    return builder.build()
