"""Models without a last step: rewards and costs are discounted, and the same table applies at all steps.

With the discount g, what has been spent after step t is c_0 + g c_1 + ... + g^t c_t. It is limited after every step.
The *tail*, which is what all steps from step T on add to it, lies between

    -g^T max(0, -c_min) / (1 - g)     and     g^T max(0, c_max) / (1 - g).

The first T steps alone are a `CMDP`: the model is unrolled.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, ExactColumn, Number, exact
from solvent.core.limits import ResourceMonitor
from solvent.core.loading import current_load
from solvent.errors import BudgetError, ModelError, quote
from solvent.model.budget import Budget, BudgetLike, read_budgets
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION
from solvent.model.consistency import MAX_HORIZON, MAX_TOTAL_REWARD, check_horizon
from solvent.model.distributions import CostDistribution

if TYPE_CHECKING:
    from solvent.model.describe import Description


@dataclass(frozen=True, eq=False, repr=False)
class DiscountedCMDP:
    """A constrained Markov decision process without a last step, whose rewards and costs are discounted.

    Use `CMDP.builder`, `CMDP.from_arrays` or `CMDP.from_function` with `horizon=None` and a discount, or
    `solvent.load_model` with `discounted=True`, to make one.

    Attributes
    ----------
    base : CMDP
        The model of one step, with the rewards and costs of step 0.
    discount : Fraction
        Discount factor of rewards and costs; above 0 and below 1.

    Examples
    --------
    >>> b = CMDP.builder(horizon=None, discount=0.5, start="home", resources=["fuel"], budget=3)
    >>> b.add("home", "go", reward=1, outcomes=[(1, "home", 2)])
    >>> b.add("home", "rest", outcomes=[(1, "home")])
    >>> model = b.build()
    >>> model
    DiscountedCMDP(discount 1/2, 1 states, 2 actions, 2 rows, 2 outcomes, resources ['fuel'])
    >>> model.effective_horizon(0.5), model.tail_range("fuel", 3)
    (3, (Fraction(0, 1), Fraction(1, 2)))
    >>> [model.unrolled(3).outcomes(row)[0].cost["fuel"] for row in (0, 2, 4)]
    [Fraction(2, 1), Fraction(1, 1), Fraction(1, 2)]
    """

    base: CMDP
    discount: Fraction

    def __post_init__(self) -> None:
        if self.base.horizon != 1:
            raise ModelError("base", "a model of one step", f"one of {self.base.horizon}")
        if self.base.has_end_values:
            refuse_ends(self.base.end_reward, self.base.may_end)
        if isinstance(self.base.start, dict):
            found = f"a distribution over {len(self.base.start)} states"
            raise ModelError("start", "one state, as discounted models need", found)
        if self.base.is_saturating:
            d = next(d for d in range(self.base.n_resources) if self.base.resource(self.base.resources[d]).saturates)
            raise ModelError(
                f"resource {quote(self.base.resources[d])}",
                "no floor and no ceiling, as costs are discounted",
                self.base.resource(self.base.resources[d]).text,
                "solvent.survival_levels answers questions without a horizon about resources that saturate",
            )
        object.__setattr__(self, "discount", read_factor(self.discount))
        largest = float(np.abs(self.base.row_reward).max(initial=0.0))
        most = MAX_TOTAL_REWARD * (1 - float(self.discount))
        if largest > most:
            expected = f"at most {most:.3g} in size, so that discounted sums fit 64-bit floats"
            raise ModelError("reward", expected, str(largest))
        check_constant(self.base.budget)

    @property
    def horizon(self) -> None:
        """None: there is no last step."""
        return

    @property
    def start(self) -> Hashable:
        """Name of the state at step 0."""
        assert not isinstance(self.base.start, dict)
        return self.base.start

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Names of the states."""
        return self.base.states

    @property
    def actions(self) -> tuple[Hashable, ...]:
        """Names of the actions."""
        return self.base.actions

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources."""
        return self.base.resources

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return self.base.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions A over all states."""
        return self.base.n_actions

    @property
    def n_resources(self) -> int:
        """Number of resources D."""
        return self.base.n_resources

    @property
    def budget(self) -> Mapping[str, Budget] | None:
        """Default budget, with the same limits after every step."""
        return self.base.budget

    @property
    def name(self) -> str:
        """Title of the model."""
        return self.base.name

    @property
    def description(self) -> str:
        """Description of the model."""
        return self.base.description

    def tail_range(self, resource: str | int, steps: int) -> tuple[Fraction | None, Fraction]:
        """Return bounds on what can be added to the amount spent after the first `steps` steps.

        They hold for any number of further steps, including none, so the lower bound is at most 0 and the upper bound
        at least 0. The lower bound is None if costs are not bounded below.
        """
        index = self.base.resource_index(resource) if isinstance(resource, str) else resource
        low, high = self.base.cost_range(index)
        scale = self.discount**steps / (1 - self.discount)
        zero = Fraction(0)
        return None if low is None else min(zero, low) * scale, max(zero, high) * scale

    def effective_horizon(self, epsilon: Number, resources: Iterable[str] | None = None) -> int:
        """Return the least number of steps, at least 1, after which at most `epsilon` more can be spent.

        Parameters
        ----------
        epsilon : number
            An amount above 0.
        resources : iterable of str, optional
            Resources to consider. Default: all.

        Raises
        ------
        ModelError
            If it is more than a million steps.

        Notes
        -----
        The paper's effective horizon (Section "Infinite Discounting").
        """
        share = exact(epsilon, "epsilon")
        if share <= 0:
            raise ModelError("epsilon", "a number above 0", quote(epsilon))
        names = self.resources if resources is None else resources
        return max((self.steps_until(share, self.tail_range(name, 0)[1]) for name in names), default=1)

    def steps_until(self, share: Fraction, total: Fraction) -> int:
        """Return the least T >= 1 with g^T * total <= share."""
        if total <= share:
            return 1
        ratio = share / total
        depth = math.log(ratio.denominator) - math.log(ratio.numerator)
        # log1p is accurate near 1, log near 0
        rate = math.log1p(-float(1 - self.discount)) if self.discount > Fraction(1, 2) else math.log(self.discount)
        guess = depth / -rate
        if guess > MAX_HORIZON:
            raise ModelError(
                "epsilon",
                f"an effective horizon of at most {MAX_HORIZON:,} steps",
                f"about {guess:,.0f}",
                "use a larger epsilon; with strict=True the policy never exceeds the budget",
            )
        steps = max(math.ceil(guess), 1)
        while steps > 1 and self.discount ** (steps - 1) <= ratio:
            steps -= 1
        while self.discount**steps > ratio:
            steps += 1
        return steps

    def unrolled(self, horizon: int, monitor: ResourceMonitor | None = None) -> CMDP:
        """Return the model of the first steps. Costs at step t are g^t times those of the base, exactly.

        Parameters
        ----------
        horizon : int
            Number of steps.
        monitor : ResourceMonitor, optional
            Limits of time and memory. The memory of the result stays reserved.

        Raises
        ------
        ModelError
            If the horizon is invalid, or the ends of a scaled distribution are the same float.
        LimitReached
            If a limit of the monitor is reached.
        """
        horizon = check_horizon(horizon)
        base, monitor = self.base, monitor or ResourceMonitor()
        monitor.reserve(self.unrolled_bytes(horizon), f"a model of {horizon:,} steps")
        distributions, distribution_DO = self._scaled_distributions(horizon, monitor)
        scales = np.array([float(self.discount**step) for step in range(horizon)])
        return CMDP(
            horizon=horizon,
            start=base.start,
            states=base.states,
            actions=base.actions,
            resources=base.resources,
            table_of_step=np.arange(horizon, dtype=np.int32),
            row_indptr=repeat_indptr(base.row_indptr, horizon),
            row_action=np.tile(base.row_action, horizon),
            row_reward=np.outer(scales, base.row_reward).ravel(),
            outcome_indptr=repeat_indptr(base.outcome_indptr, horizon),
            probability=np.tile(base.probability, horizon),
            next_state=np.tile(base.next_state, horizon),
            cost=tuple(self._scaled_column(column, horizon, monitor) for column in base.cost),
            distributions=distributions,
            distribution_DO=distribution_DO,
            budget=base.budget,
            name=base.name,
            description=base.description,
        )

    def unrolled_bytes(self, horizon: int) -> int:
        """Return an estimate of the memory of the unrolled model in bytes: its arrays, and long integers for costs."""
        base = self.base
        per_outcome = 20 + 8 * base.n_resources + (0 if base.distribution_DO is None else 12 * base.n_resources)
        size = horizon * (base.n_outcomes * per_outcome + base.n_rows * 28 + base.n_states * 8)
        for column in base.cost:
            if column.ticks.any() and not self._fits(column, horizon):
                size += horizon * len(np.unique(column.ticks)) * self.digits_bytes(horizon)
        return size + horizon * len(base.distributions) * (400 + 4 * self.digits_bytes(horizon))

    def digits_bytes(self, horizon: int) -> int:
        """Return an estimate of the memory of one cost of the unrolled model, as a long integer, in bytes."""
        return 64 + math.ceil(horizon * math.log2(self.discount.denominator) / 7.5)

    def _fits(self, column: ExactColumn, horizon: int) -> bool:
        bits = (horizon - 1) * math.log2(self.discount.denominator)
        return (
            column.fits
            and bits < 64
            and (int(np.abs(column.ticks).max()) * self.discount.denominator ** (horizon - 1) <= MAX_TICKS)
        )

    def _scaled_column(self, column: ExactColumn, horizon: int, monitor: ResourceMonitor) -> ExactColumn:
        """Return the costs of all steps on their greatest common unit; p^t and q^t have no common factor."""
        if not column.ticks.any():
            return ExactColumn(np.zeros(horizon * len(column), np.int64), Fraction(1), column.decimal_digits)
        p, q, last = self.discount.numerator, self.discount.denominator, horizon - 1
        factors = [p**step * q ** (last - step) for step in monitor.each(range(horizon), 16)]
        kind = np.int64 if self._fits(column, horizon) else object
        # each long integer is computed once and shared by all equal costs
        distinct, inverse = np.unique(column.ticks, return_inverse=True)
        costs, ticks = distinct.astype(kind), np.empty((horizon, len(column)), kind)
        for step, factor in enumerate(monitor.each(factors, 1)):
            ticks[step] = (costs * factor)[inverse]
        return ExactColumn(ticks.ravel(), column.unit / q**last, column.decimal_digits)

    def _scaled_distributions(
        self, horizon: int, monitor: ResourceMonitor
    ) -> tuple[tuple[CostDistribution, ...], NDArray[np.int32] | None]:
        base = self.base
        if base.distribution_DO is None:
            return (), None
        places = [
            base.place_of(int(np.flatnonzero((base.distribution_DO == i).any(0))[0]))
            for i in range(len(base.distributions))
        ]
        distributions = tuple(
            distribution.scaled(self.discount**step, f"{place} at step {step}, cost")
            for step in monitor.each(range(horizon), 1)
            for distribution, place in zip(base.distributions, places, strict=True)
        )
        shift = len(base.distributions) * np.arange(horizon, dtype=np.int32)
        distribution_DHO = np.where(
            base.distribution_DO[:, None] == NO_DISTRIBUTION,
            NO_DISTRIBUTION,
            base.distribution_DO[:, None] + shift[:, None],
        )
        return distributions, distribution_DHO.reshape(len(base.distribution_DO), -1).astype(np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that matters to a policy."""
        return hashlib.sha256(f"{self.base.fingerprint} {self.discount}".encode()).hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiscountedCMDP):
            return NotImplemented
        return self.discount == other.discount and self.base == other.base

    def __hash__(self) -> int:
        return hash((self.discount, self.base))

    def __repr__(self) -> str:
        title = f"{self.name!r}: " if self.name else ""
        return (
            f"DiscountedCMDP({title}discount {self.discount}, {self.n_states} states, {self.n_actions} actions, "
            f"{self.base.n_rows} rows, {self.base.n_outcomes} outcomes, resources {list(self.resources)})"
        )

    def _repr_html_(self) -> str:
        from solvent.model.display import model_card

        return model_card(self.base, self.discount)

    def describe(self) -> Description:
        """Return a summary that prints as a table."""
        from solvent.model.describe import describe

        return describe(self.base, self.discount)

    def save(self, path: str | Path) -> None:
        """Write the model to a file in the format of its suffix; see `solvent.load_model`."""
        from solvent.formats.files import save_model

        save_model(self, path)


#: A model of either kind.
AnyModel = CMDP | DiscountedCMDP


def repeat_indptr(indptr: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    """Return the index pointer of a CSR structure repeated `times` times.

    Examples
    --------
    >>> repeat_indptr(np.array([0, 2, 3]), 2).tolist()
    [0, 2, 3, 5, 6]
    """
    inner = indptr[1:] + indptr[-1] * np.arange(times)[:, None]
    return np.concatenate([[0], inner.ravel()]).astype(np.int64)


def read_discount(horizon: Any, discount: Any) -> Fraction | None:
    """Return the discount of a model without a last step; None for a model with a horizon.

    Raises
    ------
    ModelError
        If both or neither are given, or the discount is out of range.
    """
    if discount is None:
        if horizon is None:
            raise ModelError("horizon", "a number of steps, or else a discount", "neither")
        return None
    if horizon is not None:
        raise ModelError(
            "discount", "no horizon beside a discount", f"a horizon of {quote(horizon)}",
            "write horizon=None" if current_load() is None else "write horizon: null",
        )  # fmt: skip
    return read_factor(discount)


def refuse_ends(end_reward: Any, must_end_in: Any) -> None:
    """Raise a `ModelError` if an end reward or a goal is given, as a discounted model has no last step."""
    for where, value in (("end_reward", end_reward), ("must_end_in", must_end_in)):
        if value is not None:
            found = quote(list(value)) if isinstance(value, Mapping | Sequence | set) else quote(value)
            raise ModelError(where, "none, as a discounted model has no last step", found)


def read_factor(discount: Any) -> Fraction:
    """Return a discount as an exact number.

    Raises
    ------
    ModelError
        If it is not above 0 and below 1.
    """
    factor = exact(discount, "discount")
    # rewards are floats, in which the discount must differ from 0 and 1 too
    if not 0 < factor < 1 or float(factor) in (0.0, 1.0):
        raise ModelError("discount", "a number above 0 and below 1", quote(discount))
    return factor


def check_constant(budget: Any) -> Any:
    """Return a budget after checking that its limits apply to all steps.

    Raises
    ------
    BudgetError
        If a limit applies to certain steps only.
    """
    named = budget.items() if isinstance(budget, Mapping) else [("", budget)]
    for name, entry in named:
        where = f"budget, {name}" if name else "budget"
        sides = [entry.upper, entry.lower] if isinstance(entry, Budget) else [entry]
        found = ""
        if isinstance(entry, Budget) and entry.only_final:
            found = "one after the last step"
        elif any(isinstance(side, Sequence | np.ndarray) and not isinstance(side, str) for side in sides):
            found = "one for each step"
        elif any(callable(side) for side in sides):
            found = "a function of the step"
        if found:
            raise BudgetError(where, "one limit for all time, as a discounted model has no last step", found)
    return budget


def constant_limits(budget: BudgetLike, resources: Sequence[str]) -> dict[str, tuple[Fraction | None, Fraction | None]]:
    """Return the upper and the lower limit of each resource that has one, by name.

    Raises
    ------
    BudgetError
        If a limit applies to certain steps only, or the budget does not match the resources.

    Examples
    --------
    >>> constant_limits({"fuel": 3, "risk": None}, ["fuel", "risk"])
    {'fuel': (Fraction(3, 1), None)}
    """
    limits = {}
    for name, each in read_budgets(check_constant(budget), resources, 1).items():
        assert isinstance(each.upper, Fraction | None)
        assert isinstance(each.lower, Fraction | None)
        if each.upper is not None or each.lower is not None:
            limits[name] = (each.upper, each.lower)
    return limits


def check_model(model: Any) -> None:
    """Raise a `ModelError` unless `model` is a `CMDP`; a path or a `DiscountedCMDP` gets a hint."""
    if isinstance(model, CMDP):
        return
    if isinstance(model, DiscountedCMDP):
        raise ModelError(
            "model",
            "a CMDP, which has a last step",
            "a DiscountedCMDP",
            "model.unrolled(steps) is the CMDP of its first steps; solvent.solve and solvent.verify take it as it is",
        )
    hint = "solvent.load_model(path) reads a file" if isinstance(model, str | Path) else ""
    raise ModelError("model", "a CMDP", quote(model), hint)
