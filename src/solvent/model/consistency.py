"""Consistency of the fields of a `CMDP`, checked whenever one is made, also by `dataclasses.replace`.

Constructors from user data (`solvent.model.validation`) report errors by state and action. The checks here are of the
arrays themselves: their types and lengths, and that each position they hold exists. They take time linear in the size
of the model, without Python loops over rows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import ExactColumn
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import Budget, read_budgets
from solvent.model.distributions import CostDistribution
from solvent.model.ends import first_states
from solvent.model.resources import Resource, as_resources

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

#: Largest accepted difference between 1 and the sum of the probabilities of a row.
PROBABILITY_TOLERANCE = 1e-9
#: Bound on the total reward of a history, so that sums of rewards and of their rounding errors stay finite.
MAX_TOTAL_REWARD = 1e300
#: Largest horizon; limits and tables take memory for each step.
MAX_HORIZON = 10**6
#: Type of the entries of each array, and whether it may be None.
_ARRAYS: dict[str, tuple[Any, bool]] = {
    "table_of_step": (np.int32, False), "row_indptr": (np.int64, False), "row_action": (np.int32, False),
    "row_reward": (np.float64, False), "outcome_indptr": (np.int64, False), "probability": (np.float64, False),
    "next_state": (np.int32, False), "distribution_DO": (np.int32, True), "end_reward": (np.float64, True),
    "may_end": (np.bool_, True),
}  # fmt: skip


def check_horizon(horizon: Any) -> int:
    """Return the horizon as an int.

    Raises
    ------
    ModelError
        If it is not a whole number from 1 to `MAX_HORIZON`.
    """
    whole = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool | np.timedelta64)
    if not whole or horizon < 1:
        raise ModelError("horizon", "a whole number of at least 1", quote(horizon))
    if horizon > MAX_HORIZON:
        raise ModelError("horizon", f"at most {MAX_HORIZON}", quote(horizon))
    return int(horizon)


def check_names(names: Sequence[Hashable] | None, kind: str) -> tuple[Hashable, ...] | None:
    """Return declared names of states or actions as a tuple; None if there are none.

    Raises
    ------
    ModelError
        If they are not distinct hashable values.
    """
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Sequence | np.ndarray | range):
        raise ModelError(kind, "a list of names", quote(names))
    listed = tuple(names.tolist() if isinstance(names, np.ndarray) else names)
    seen: set[Hashable] = set()
    for name in listed:
        try:
            repeated = name in seen
        except TypeError:
            raise ModelError(kind, "hashable names", quote(name)) from None
        if repeated:
            raise ModelError(kind, "each name once", f"{quote(name)} twice")
        seen.add(name)
    return listed


def tables_of_steps(model: CMDP) -> NDArray[np.int32]:
    """Return the table of each step: as given, or for a stationary model its only table at each step of the horizon.

    The rows of a stationary model do not depend on the step, so that another horizon needs no other rows.
    """
    given, indptr = model.table_of_step, model.row_indptr
    stationary = isinstance(indptr, np.ndarray) and len(indptr) == len(model.states) + 1
    if stationary and isinstance(given, np.ndarray) and len(given) != model.horizon:
        return np.zeros(model.horizon, np.int32)
    return given


def check_fields(model: CMDP) -> dict[str, Budget] | None:
    """Check that the fields of a model agree with each other, and return its budget by resource.

    Raises
    ------
    ModelError
        If a field has the wrong type or size, or refers to something that does not exist.
    BudgetError
        If the budget is not one for the resources and the horizon.
    """
    for key in ("name", "description"):
        if not isinstance(getattr(model, key), str):
            raise ModelError(key, "text", quote(getattr(model, key)))
    for kind in ("states", "actions"):
        if not isinstance(getattr(model, kind), tuple):
            raise ModelError(kind, "a tuple of names", quote(getattr(model, kind)))
    # sets of this function, and not the indices of the model, which would be part of each copy and pickle of it
    known, _ = (_distinct(getattr(model, kind), kind) for kind in ("states", "actions"))
    _check_start(model, known)
    for key, (dtype, optional) in _ARRAYS.items():
        array = getattr(model, key)
        dimensions = 2 if key == "distribution_DO" else 1
        if not (optional and array is None):
            _check_type(key, array, dtype, dimensions)
    _check_steps(model)
    _check_rows(model)
    _check_outcomes(model)
    _check_resources(model)
    _check_ends(model)
    return None if model.budget is None else read_budgets(model.budget, model.resources, model.horizon)


def _check_type(key: str, array: Any, dtype: Any, dimensions: int) -> None:
    expected = f"an array of {np.dtype(dtype).name}{' with two axes' if dimensions == 2 else ''}"
    if not isinstance(array, np.ndarray):
        raise ModelError(key, expected, f"a value of type {type(array).__name__}")
    scattered = dimensions == 1 and not array.flags.c_contiguous
    if array.dtype != dtype or array.ndim != dimensions or scattered:
        order = ", not contiguous" if scattered else ""
        raise ModelError(key, expected, f"an array of {array.dtype.name} with shape {array.shape}{order}")


def _check_length(key: str, found: int, expected: int, what: str) -> None:
    if found != expected:
        raise ModelError(key, f"{expected:,} {'entry' if expected == 1 else 'entries'}, {what}", f"{found:,}")


def _check_positions(key: str, array: NDArray[Any], count: int, what: str, least: int = 0) -> None:
    """Refuse entries that are not positions from `least` to `count - 1`."""
    if len(array) and (int(array.min()) < least or int(array.max()) >= count):
        outside = array.ravel()[(array.ravel() < least) | (array.ravel() >= count)]
        raise ModelError(key, f"positions of {what}, from {least} to {count - 1}", str(int(outside[0])))


def _distinct(names: tuple[Hashable, ...], kind: str) -> set[Hashable]:
    """Return names as a set; a `ModelError` if one occurs twice or is not hashable."""
    try:
        found = set(names)
    except TypeError:
        found = set()
    if len(found) != len(names):
        check_names(names, kind)
    return found


def _check_start(model: CMDP, known: set[Hashable]) -> None:
    for name in first_states(model.start):
        try:
            missing = name not in known
        except TypeError:
            missing = True
        if missing:
            raise ModelError("start", "one of the model's states", quote(name), did_you_mean(name, model.states))
    if isinstance(model.start, Mapping):
        chances = list(model.start.values())
        if not all(isinstance(p, float) and p > 0 for p in chances) or (
            abs(math.fsum(chances) - 1) > PROBABILITY_TOLERANCE
        ):
            raise ModelError("start", "positive floats with a sum of 1", quote(model.start))


def _check_steps(model: CMDP) -> None:
    """Check the tables, and which of them each step uses."""
    size = len(model.row_indptr) - 1
    if size < 1 or size % model.n_states:
        expected = f"one entry per table and state, and one more: a multiple of {model.n_states:,}, plus 1"
        raise ModelError("row_indptr", expected, f"{size + 1:,} entries")
    if len(model.table_of_step) != model.horizon:
        raise ModelError(
            "horizon", f"{len(model.table_of_step):,}, the length of table_of_step", f"{model.horizon:,}",
            "rows of this model depend on the step; build it again with another horizon, or give table_of_step too",
        )  # fmt: skip
    _check_positions("table_of_step", model.table_of_step, model.n_tables, "tables")


def _check_rows(model: CMDP) -> None:
    _check_pointers("row_indptr", model.row_indptr, len(model.row_action), "rows", least=0)
    _check_length("row_reward", len(model.row_reward), len(model.row_action), "one per row")
    _check_positions("row_action", model.row_action, model.n_actions, "actions")
    first = np.zeros(len(model.row_action) + 1, bool)  # whether a row is the first of its state
    first[model.row_indptr] = True
    if not (first[1:-1] | (np.diff(model.row_action) > 0)).all():
        raise ModelError("row_action", "actions in increasing order within each state", "another order")
    if not np.isfinite(model.row_reward).all():
        raise ModelError("row_reward", "finite numbers", str(model.row_reward[~np.isfinite(model.row_reward)][0]))
    largest = float(np.abs(model.row_reward).max(initial=0.0))
    if largest > MAX_TOTAL_REWARD / model.horizon:
        most = MAX_TOTAL_REWARD / model.horizon
        expected = f"at most {most:.3g} in size, so that sums over {model.horizon} steps fit 64-bit floats"
        raise ModelError("row_reward", expected, str(largest))


def _check_pointers(key: str, indptr: NDArray[np.int64], total: int, what: str, least: int) -> None:
    """Check an array of first positions: from 0 to `total`, each at least `least` after the one before."""
    if int(indptr[0]) != 0 or int(indptr[-1]) != total or (np.diff(indptr) < least).any():
        order = "increasing" if least else "non-decreasing"
        raise ModelError(key, f"{order} numbers from 0 to {total:,}, the number of {what}", "others")


def _check_outcomes(model: CMDP) -> None:
    count = len(model.probability)
    _check_length("outcome_indptr", len(model.outcome_indptr), model.n_rows + 1, "one per row, and one more")
    _check_pointers("outcome_indptr", model.outcome_indptr, count, "outcomes", least=1)
    _check_length("next_state", len(model.next_state), count, "one per outcome")
    _check_positions("next_state", model.next_state, model.n_states, "states")
    # a positive probability that is too small for a float may be 0; its outcome counts as possible
    if not (model.probability >= 0).all():
        raise ModelError("probability", "numbers from 0 to 1", str(model.probability[~(model.probability >= 0)][0]))
    totals = np.add.reduceat(model.probability, model.outcome_indptr[:-1]) if count else np.empty(0)
    off = np.flatnonzero(~(np.abs(totals - 1) <= PROBABILITY_TOLERANCE))
    if len(off):
        expected = f"a sum of 1 over each row (to within {PROBABILITY_TOLERANCE})"
        raise ModelError("probability", expected, f"{float(totals[off[0]])!r} in row {int(off[0])}")


def _check_resources(model: CMDP) -> None:
    names = as_resources(model.resources)
    if not isinstance(model.resources, tuple) or any(not isinstance(each, str) for each in model.resources):
        raise ModelError("resources", "a tuple of names", quote(model.resources), "floors and ceilings are fields")
    for key in ("cost", "floors", "ceilings"):
        if not isinstance(getattr(model, key), tuple):
            raise ModelError(key, "a tuple with one entry per resource", quote(getattr(model, key)))
        _check_length(key, len(getattr(model, key)), len(names), "one per resource")
    for each, column, floor, ceiling in zip(names, model.cost, model.floors, model.ceilings, strict=True):
        if not isinstance(column, ExactColumn):
            raise ModelError(
                f"cost of {quote(each.name)}", "an ExactColumn", f"a value of type {type(column).__name__}"
            )
        _check_column(f"cost of {quote(each.name)}", column, model.n_outcomes)
        Resource(each.name, floor=floor, ceiling=ceiling)
    if not isinstance(model.distributions, tuple) or not all(
        isinstance(each, CostDistribution) for each in model.distributions
    ):
        raise ModelError("distributions", "a tuple of cost distributions", quote(model.distributions))
    if model.distribution_DO is None:
        return
    if model.distribution_DO.shape != (len(names), model.n_outcomes):
        expected = f"shape {(len(names), model.n_outcomes)}, resources and outcomes"
        raise ModelError("distribution_DO", expected, f"{model.distribution_DO.shape}")
    _check_positions("distribution_DO", model.distribution_DO, len(model.distributions), "distributions", -1)


def _check_column(key: str, column: ExactColumn, count: int) -> None:
    ticks, unit = column.ticks, column.unit
    whole = isinstance(ticks, np.ndarray) and ticks.ndim == 1 and ticks.dtype in (np.int64, object)
    if not whole:
        raise ModelError(f"{key}, ticks", "an array of int64, or of whole numbers of any size", quote(ticks))
    if not isinstance(unit, Fraction) or unit <= 0:
        raise ModelError(f"{key}, unit", "a positive Fraction", quote(unit))
    _check_length(key, len(column), count, "one per outcome")


def _check_ends(model: CMDP) -> None:
    for key, array in (("end_reward", model.end_reward), ("may_end", model.may_end)):
        if array is not None:
            _check_length(key, len(array), model.n_states, "one per state")
    reward = model.end_reward
    if reward is not None and not (np.abs(reward) <= MAX_TOTAL_REWARD).all():
        worst = reward[~(np.abs(reward) <= MAX_TOTAL_REWARD)][0]
        raise ModelError("end_reward", f"finite numbers of at most {MAX_TOTAL_REWARD:.3g} in size", str(worst))
