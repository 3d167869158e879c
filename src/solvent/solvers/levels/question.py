"""What the functions on levels are asked: the model, one resource, the capacity and sets of states, in ticks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.core.limits import ResourceMonitor
from solvent.errors import LatticeOverflowError, ModelError, quote
from solvent.model.amounts import short_amount
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, check_model
from solvent.solvers.levels.arrays import LevelArrays
from solvent.solvers.levels.fixed_points import LevelProblem

#: Largest capacity in ticks: the sum of a level and a cost fits 64-bit integers.
_MOST_TICKS = 2**62 - 1


@dataclass(frozen=True)
class Question:
    """Arguments that were read and checked.

    Attributes
    ----------
    given : CMDP or DiscountedCMDP
        The model as given.
    model : CMDP
        Its one table.
    resource : str
    capacity, unit : Fraction
        The largest level; the amount of one tick, in which costs are whole.
    reload_S : ndarray of bool, shape (S,)
    """

    given: CMDP | DiscountedCMDP
    model: CMDP
    resource: str
    capacity: Fraction
    unit: Fraction
    reload_S: NDArray[np.bool_]

    @classmethod
    def read(cls, given: Any, resource: str | None, capacity: Number, reload: Iterable[Hashable]) -> Question:
        """Return the question, or raise an error that says which argument does not fit."""
        model = given.base if isinstance(given, DiscountedCMDP) else given
        check_model(model)
        if not model.is_stationary:
            raise ModelError(
                "model",
                "the same rows at all steps (a stationary model), because there is no last step",
                f"{model.n_tables} different tables",
                "make the step, or the phase that matters, a part of the state",
            )
        name = _read_resource(model, resource)
        index = model.resource_index(name)
        hint = "use its largest cost instead: a level that is enough for it is enough for every cost"
        model.refuse_continuous(index, "costs of finite support, which levels need", hint)
        if model.ceilings[index] is not None:
            raise ModelError(
                "model",
                f"no ceiling of {quote(name)}, at which its level would no longer fall",
                model.resource(name).text,
                "a floor is not needed either: the capacity is the most that can be left",
            )
        most = exact(capacity, "capacity")
        if most < 0:
            raise ModelError("capacity", "a number of at least 0", quote(capacity))
        unit = model.cost[index].unit
        # levels are sums of costs, so that the part of the capacity beyond a whole number of ticks is never needed
        if most // unit > _MOST_TICKS:
            raise LatticeOverflowError(
                f"resource {name!r}: expected a capacity of at most 2^62 times the common unit of the costs, found a "
                f"capacity of {short_amount(most)} and a unit of {short_amount(unit)}; lower the capacity, or give the "
                f"costs fewer digits, rounded up"
            )
        question = cls(given, model, name, most, unit, np.zeros(model.n_states, bool))
        question.reload_S[:] = question.states_of(reload, "reload")
        question.reload_S.flags.writeable = False
        return question

    def states_of(self, names: Iterable[Hashable], where: str) -> NDArray[np.bool_]:
        """Return which states are named, shape (S,)."""
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            hint = f"write {where}=[{quote(names)}]" if isinstance(names, str | bytes | int) else ""
            raise ModelError(where, "a list of states", quote(names), hint)
        named_S = np.zeros(self.model.n_states, bool)
        for name in names:
            try:
                named_S[self.model.state_index(name)] = True
            except ModelError as error:
                raise error.within(where) from None
        return named_S

    def problem(self, monitor: ResourceMonitor) -> LevelProblem:
        """Return the problem in ticks."""
        model = self.model
        monitor.reserve(32 * model.n_outcomes + 80 * (model.n_rows + model.n_states), "levels and predecessors")
        ticks = model.cost[model.resource_index(self.resource)].ticks
        capacity = int(self.capacity // self.unit)
        # a cost above the capacity is impossible; one below minus the capacity fills the account
        cost = np.minimum(np.maximum(ticks, -capacity), capacity + 1).astype(np.int64)
        return LevelProblem(LevelArrays.of(model, cost), capacity, self.reload_S, monitor)


def _read_resource(model: CMDP, resource: str | None) -> str:
    if resource is not None:
        return model.resources[model.resource_index(resource)]
    if model.n_resources != 1:
        names = ", ".join(map(quote, model.resources)) or "none"
        raise ModelError("resource", f"one of the model's resources ({names})", "none given", "pass resource=...")
    return model.resources[0]
