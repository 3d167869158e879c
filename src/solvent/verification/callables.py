"""Adapter that lets any Python function of (step, state, spent) be verified as a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError, PolicyError, quote
from solvent.model.cmdp import CMDP
from solvent.policy.choices import Choices, is_terminal, spread
from solvent.policy.markov import SUM_TOLERANCE
from solvent.policy.search import compact, pack
from solvent.verification.ledgers import Ledger


class Unknown:
    """Amount spent of a resource with continuous costs: a policy that uses it cannot be verified."""

    def __init__(self, resource: str) -> None:
        self._resource = resource

    def _refuse(self, *_: object) -> NoReturn:
        raise ModelError(
            f"spent of {self._resource}",
            "a policy that does not depend on it, because its costs are continuous",
            "one that does",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = __abs__ = __float__ = __int__ = __bool__ = _refuse
    __hash__ = _refuse


@dataclass(frozen=True, eq=False)
class CallablePolicy:
    """A function as a policy on nodes; it is given the amounts of all resources with discrete costs.

    Attributes
    ----------
    model : CMDP
    function : callable
        Function of step, state and spent, where spent is a fraction if the model has one resource, else a dict by
        name. Returns an action or a dict of probabilities by action.
    ledgers : tuple of Ledger
    monitor : ResourceMonitor
        Its time limit is checked between calls.
    """

    model: CMDP
    function: Callable[[int, Any, Any], Any]
    ledgers: tuple[Ledger, ...]
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources whose costs are discrete."""
        return tuple(ledger.name for ledger in self.ledgers if not ledger.continuous)

    @property
    def units(self) -> tuple[Fraction, ...]:
        """The units of these resources' ledgers."""
        return tuple(ledger.unit for ledger in self.ledgers if not ledger.continuous)

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[Any]) -> Choices:
        """Return its choices at many nodes; it is called once for each distinct node that is not terminal."""
        keys, query = compact(pack([np.asarray(states, np.int64), *ticks_MD.T]))
        example = np.zeros(len(keys), np.int64)
        example[query] = np.arange(len(query))
        live = ~is_terminal(self.model, step, states[example])
        sizes = np.zeros(len(keys), np.int64)
        actions: list[int] = []
        weights: list[float] = []
        for i, at in enumerate(self.monitor.each(example.tolist(), 16)):
            if live[i]:
                chosen = self._ask(step, int(states[at]), ticks_MD[at].tolist())
                sizes[i] = len(chosen)
                actions.extend(chosen)
                weights.extend(chosen.values())
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        node, choice = spread(indptr, query)
        return Choices(node, np.array(actions, np.int64)[choice], np.array(weights, np.float64)[choice])

    def _ask(self, step: int, state: int, ticks: list[int]) -> dict[int, float]:
        model = self.model
        known = dict(zip(self.resources, (t * u for t, u in zip(ticks, self.units, strict=True)), strict=True))
        spent = {name: known.get(name, Unknown(name)) for name in model.resources}
        answer = self.function(step, model.states[state], next(iter(spent.values())) if len(spent) == 1 else spent)
        place = f"policy at step {step}, state {quote(model.states[state])}"
        if known:
            place += ", spent " + ", ".join(f"{name} {amount}" for name, amount in known.items())
        if not isinstance(answer, Mapping):
            return {self._action(answer, place): 1.0}
        try:
            chosen = {self._action(action, place): float(p) for action, p in answer.items() if p != 0}
        except (TypeError, ValueError):
            raise PolicyError(place, "probabilities by action", quote(answer)) from None
        total = sum(chosen.values())
        if any(not p > 0 for p in chosen.values()) or not abs(total - 1) <= SUM_TOLERANCE:
            raise PolicyError(place, "probabilities by action that sum to 1", quote(answer))
        return {action: p / total for action, p in chosen.items()}

    def _action(self, name: Any, place: str) -> int:
        try:
            return self.model.action_index(name)
        except ModelError as error:
            raise PolicyError(place, error.expected, error.found, error.hint) from None
