"""What a baseline returns: a status, the value it claims, a policy, and the limits it planned for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from solvent.errors import SolventError
from solvent.model.budget import Limits
from solvent.policy.markov import MarkovPolicy
from solvent.policy.until_violation import UntilViolationPolicy


class BaselineStatus(StrEnum):
    """How a baseline ended."""

    #: The best policy in the sense of the method, which is not that of `solve`.
    OPTIMAL = "optimal"
    #: A policy that keeps the budget, found by a search that promises nothing about its value.
    HEURISTIC = "heuristic"
    #: No policy does what the method asks for.
    INFEASIBLE = "infeasible"
    #: The search found no policy; there may be one.
    NOT_FOUND = "not found"


@dataclass(frozen=True, eq=False)
class Baseline:
    """What one of the known ways makes of a problem.

    Attributes
    ----------
    method : str
    status : BaselineStatus
    value : float
        What the method claims its policy earns; minus infinity if there is none.
    message : str
        What was found, in a sentence.
    limits : Limits
        What it planned for: the budget, or the surrogate of a search for a smaller one.
    """

    method: str
    status: BaselineStatus
    value: float
    message: str
    limits: Limits
    _policy: MarkovPolicy | UntilViolationPolicy | None = None

    @classmethod
    def none(cls, method: str, status: BaselineStatus, message: str, limits: Limits) -> Baseline:
        """Return the answer that there is no policy."""
        return cls(method, status, -math.inf, message, limits)

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy."""
        return self._policy is not None

    @property
    def policy(self) -> MarkovPolicy | UntilViolationPolicy:
        """The policy; a `SolventError` if there is none."""
        if self._policy is None:
            raise SolventError(f"{self.method} has no policy: the status is {self.status.value!r}. {self.message}")
        return self._policy

    def __repr__(self) -> str:
        return f"Baseline({self.method}, {self.status.value}, value {self.value:.10g})"
