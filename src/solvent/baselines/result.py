"""The result of a baseline: a status, the value it claims, a policy, and the limits it planned for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvent.core import html
from solvent.errors import SolventError
from solvent.model.budget import Limits
from solvent.policy.markov import MarkovPolicy
from solvent.policy.until_violation import UntilViolationPolicy
from solvent.solvers.solution import Status


@dataclass(frozen=True, eq=False)
class Baseline:
    """The result of a standard method.

    Attributes
    ----------
    method : str
        Name of the method.
    status : Status
        "optimal": the best policy under the method's own constraint, which is not that of `solve`. "feasible": a policy
        that keeps the budget, found by a search without a guarantee for its value. "infeasible": no policy satisfies
        the method's constraint. "not_found": the search found no policy; there may be one.
    value : float
        The value that the method claims for its policy; minus infinity if there is none.
    message : str
        What was found, in a sentence.
    limits : Limits
        The limits it planned for: those of the budget, or of the surrogate that a search for a smaller budget found.
    """

    method: str
    status: Status
    value: float
    message: str
    limits: Limits
    _policy: MarkovPolicy | UntilViolationPolicy | None = None

    @classmethod
    def without_policy(cls, method: str, status: Status, message: str, limits: Limits) -> Baseline:
        """Return a result without a policy."""
        return cls(method, status, -math.inf, message, limits)

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy."""
        return self._policy is not None

    @property
    def policy(self) -> MarkovPolicy | UntilViolationPolicy:
        """The policy.

        Raises
        ------
        SolventError
            If there is none.
        """
        if self._policy is None:
            raise SolventError(f"{self.method} has no policy: the status is {self.status.value!r}. {self.message}")
        return self._policy

    def _repr_html_(self) -> str:
        rows = [("value", f"{self.value:.10g}" if self.has_policy else "no policy")]
        rows += [(f"limit on {name}", text) for name, text in self.limits.texts.items()]
        status = self.status.value.replace("_", " ")
        return html.card("Baseline", f"{self.method}: {status}", html.facts(rows), html.note(self.message))

    def __repr__(self) -> str:
        return f"Baseline({self.method}, {self.status.value}, value {self.value:.10g})"
