"""`verify`: the exact worst case of any policy, its value, and a violating history if there is one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np

from solvent.core.checkpoint import EVERY, digest, open_checkpoint
from solvent.core.engines import open_engine
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory, read_seconds
from solvent.core.logs import get_logger
from solvent.errors import BudgetError, LimitError, ModelError, quote
from solvent.model.amounts import quote_amounts
from solvent.model.budget import BudgetLike, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP, check_model
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.holders import policy_of
from solvent.policy.markov import MarkovPolicy
from solvent.verification.discounted import DiscountedVerifyReport, verify_discounted
from solvent.verification.finite import verify_within
from solvent.verification.policies import PolicyLike, limits_of, spent_before
from solvent.verification.report import VerifyReport
from solvent.verification.saved import policy_content

_logger = get_logger(__name__)


@overload
def verify(
    model: CMDP,
    policy: PolicyLike,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
) -> VerifyReport: ...


@overload
def verify(
    model: DiscountedCMDP,
    policy: object,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
) -> DiscountedVerifyReport: ...


def verify(
    model: CMDP | DiscountedCMDP,
    policy: Any,
    budget: BudgetLike | None = None,
    *,
    spent: SpentLike | None = None,
    max_nodes: int = 20_000_000,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = EVERY,
    engine: str = "local",
    address: str | None = None,
) -> VerifyReport | DiscountedVerifyReport:
    """Return the exact worst case of a policy, its value, and how it breaks a limit or misses its goal if it can.

    Parameters
    ----------
    model : CMDP or DiscountedCMDP
    policy : Solution, AugmentedPolicy, RandomizedPolicy, MarkovPolicy, array or callable
        For a discounted model, a Solution or a DiscountedPolicy. Of a solution, or any other object with an attribute
        `policy`, its policy is verified. An array contains positions of actions, shape (H, S), or probabilities, shape
        (H, S, A). A callable is called with the step, the state's name and the amount spent (a Fraction if the model
        has one resource, else a dict by name) and returns an action's name or a dict of probabilities by action.
    budget : number, Budget or mapping, optional
        The limits to check. If not given, the policy's own limits or, if it has none, the model's budget.
    spent : number, or mapping of numbers by resource, optional
        What has been spent before the first step. Of a resource that is not named, it is what the policy was made for
        or, if it was made for no limit of that resource, nothing. Not for discounted models.
    max_nodes : int
        Maximum number of nodes, and of parts of continuous costs.
    time_limit : float, optional
        Time limit in seconds.
    memory_limit : int or str, optional
        Memory limit in bytes, or text such as "8GB". If not given, most of the free memory. It is checked before memory
        is allocated.
    checkpoint : path, optional
        Folder to which the last layer of nodes is saved, so that the same call goes on from there after a crash; as
        for `solve`. A function cannot be verified with a checkpoint, because two functions cannot be compared.
    checkpoint_every : float
        Seconds between two saves.
    engine : {"local", "ray"}
        Where the verification runs: in this process, or on one worker of a Ray cluster (`pip install "solvent[ray]"`).
    address : str, optional
        Address of the cluster, as for `solve`.

    Raises
    ------
    PolicyError
        If the policy takes an action that is not available, or has no decision at a node that it leads to. A policy on
        nodes may have no decision where a limit is already broken: that history then stops, and counts as one that
        breaks a limit.
    SolventError
        If the solution has no policy.
    NodeLimitError
        If there are more nodes than `max_nodes`.
    LimitError
        If the time or memory limit is reached: an incomplete verification proves nothing.
    ModelError
        If a callable depends on the amount spent of a resource with continuous costs.
    BudgetError
        If `spent` is beyond the floor or the ceiling of a resource, or is given for a discounted model.

    Notes
    -----
    Amounts are compared as integers, and every history of positive probability counts: one of probability 1e-300 that
    breaks a limit makes a policy infeasible. A history that reaches a terminal state spends nothing more, but the
    limits of the remaining steps still apply to it.

    The policy is followed from every possible first state, and amounts of saturating resources are clamped after each
    step. If the model says where episodes must end, a history that ends elsewhere is a violation as well.

    Examples
    --------
    The bold Markov policy of the paper's Proposition 1 exceeds the budget with probability 1/2:

    >>> from solvent.model import instances
    >>> from solvent.policy.markov import MarkovPolicy
    >>> model = instances.markov_gap(prize=10)
    >>> report = verify(model, MarkovPolicy(model, [[0], [1]]))
    >>> report.feasible, report.value, report.violation_probability
    (False, 10.0, 0.5)
    >>> report.worst_spent, report.worst_spent_by_step
    ({'cost': Fraction(2, 1)}, {'cost': (Fraction(1, 1), Fraction(2, 1))})
    >>> print(report.witness)
    breaks the limit of cost after step 1
    ┏━━━━━━┳━━━━━━━┳━━━━━━━━┳━━━━━━┳━━━━━━━┳━━━━━━━┓
    ┃ step ┃ state ┃ action ┃ cost ┃ spent ┃ limit ┃
    ┡━━━━━━╇━━━━━━━╇━━━━━━━━╇━━━━━━╇━━━━━━━╇━━━━━━━┩
    │ 0    │ 0     │ 0      │    1 │     1 │  <= 1 │
    │ 1    │ 0     │ 1      │    1 │   2 ! │  <= 1 │
    └──────┴───────┴────────┴──────┴───────┴───────┘
    """
    policy = policy_of(policy)
    if engine != "local" or address is not None:
        if checkpoint is not None:
            raise ModelError("checkpoint", 'engine="local" with it', f"engine={quote(engine)}")
        # on one worker, which may have more memory than this machine
        task = partial(
            verify, model, policy, budget, spent=spent, max_nodes=max_nodes, time_limit=time_limit,
            memory_limit=memory_limit,
        )  # fmt: skip
        with open_engine(engine, address) as opened:
            return opened.call(task)
    identity = partial(_identity, model, policy, budget, spent)
    try:
        with (
            open_checkpoint(checkpoint, checkpoint_every, "verify", identity) as saved,
            ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit), checkpoint=saved) as monitor,
        ):
            report: VerifyReport | DiscountedVerifyReport
            if isinstance(model, DiscountedCMDP):
                if spent is not None:
                    raise BudgetError("spent", "nothing for a discounted model", quote_amounts(spent))
                report = verify_discounted(model, policy, budget, monitor, max_nodes=max_nodes)
            else:
                check_model(model)
                before = spent_before(model, policy, spent)
                limits = limits_of(model, policy, budget, before)
                report = verify_within(model, policy, limits, monitor, max_nodes=max_nodes, spent=before)
            _logger.debug("verified: feasible %s, value %.10g, %.3f s", report.feasible, report.value, monitor.elapsed)
            return report
    except LimitReached as reached:
        raise LimitError(f"verify stopped: {reached}; raise the limit") from None


def _identity(
    model: CMDP | DiscountedCMDP, policy: Any, budget: BudgetLike | None, spent: SpentLike | None
) -> dict[str, str]:
    """Return what must be equal for a verification to go on from a checkpoint."""
    if isinstance(model, DiscountedCMDP):
        own = policy_content(policy.finite) if isinstance(policy, DiscountedPolicy) else ()
        return {"model": model.fingerprint, "policy": digest(own)}
    check_model(model)
    if isinstance(policy, np.ndarray):
        policy = MarkovPolicy(model, policy)
    limits = limits_of(model, policy, budget, spent_before(model, policy, spent))
    checked = digest((limits.resources, limits.upper, limits.lower, limits.initial))
    return {"model": model.fingerprint, "policy": digest(policy_content(policy)), "budget": checked}
