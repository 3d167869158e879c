"""Objects that hold a policy: functions that take a policy also take a solution."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from solvent.errors import PolicyError
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.markov import MarkovPolicy
from solvent.policy.nodes import NodeTable


class HasPolicy(Protocol):
    """Anything with a policy in its attribute `policy`, such as a `Solution`."""

    @property
    def policy(self) -> Any:
        """The policy, or None if there is none."""


def policy_of(item: Any) -> Any:
    """Return the policy of a solution, and anything that is a policy itself as it is.

    Raises
    ------
    SolventError
        If the solution has no policy.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> policy_of(SimpleNamespace(policy="its policy"))
    'its policy'
    """
    if isinstance(item, NodeTable | MarkovPolicy | DiscountedPolicy | np.ndarray) or callable(item):
        return item
    policy = getattr(item, "policy", item)
    if policy is None:
        found = "None" if item is None else f"a {type(item).__name__} without one"
        raise PolicyError("policy", "a policy, or a solution with a policy", found)
    return policy
