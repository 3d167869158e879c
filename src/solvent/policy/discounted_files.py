"""Reading the file of a policy for a discounted model: that of the planned steps, with the tail rules in addition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solvent.core.archives import Arrays, Header, check_array, check_names_of_arrays, check_positions
from solvent.core.exact import exact
from solvent.core.loading import check_limit, check_time, current_limits, refuse
from solvent.errors import PolicyError, quote
from solvent.model.consistency import MAX_TOTAL_REWARD
from solvent.model.discounted import DiscountedCMDP, read_factor
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.finite_files import rebuild
from solvent.policy.layout import KNOWN_ARRAYS, TAIL_ARRAYS, UNBOUNDED
from solvent.policy.markov import UNDECIDED
from solvent.policy.tail import TailRule

#: Bits of powers of the discount that are computed in a second.
_BITS_PER_SECOND = 1e9


def discounted_from_parts(
    arrays: Arrays, header: Header, model: DiscountedCMDP | None, *, has_accounts: bool
) -> DiscountedPolicy:
    """Return the policy of a file's arrays and header.

    Raises
    ------
    PolicyError, ModelError
        If they do not define a policy, or it was made for another model.
    """
    check_names_of_arrays(arrays, KNOWN_ARRAYS | TAIL_ARRAYS)
    finite = rebuild(header, arrays, None, has_accounts=has_accounts)
    if isinstance(finite.start, dict):
        raise PolicyError("header, first_states", "one first state, as discounted models have", f"{len(finite.start)}")
    names = header.get("rules")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise PolicyError("header, rules", "names of tail rules", quote(names))
    n_rules, n_states, n_own = len(names), len(finite.states), len(finite.actions) - len(names)
    if n_own < 1 or len(set(names)) != n_rules:
        raise PolicyError("header, rules", "different names, an action for each, and one action more", quote(names))
    action, value = check_array(arrays, "tail_action", np.int32, 2), check_array(arrays, "tail_value", np.float64, 2)
    for name, array in (("tail_action", action), ("tail_value", value)):
        if array.shape != (n_rules, n_states):
            raise PolicyError(name, f"shape {(n_rules, n_states)}", f"shape {array.shape}")
    check_positions("tail_action", action, n_own, UNDECIDED)
    if not (np.abs(value) <= MAX_TOTAL_REWARD).all():
        raise PolicyError("tail_value", f"numbers of at most {MAX_TOTAL_REWARD:g} in size", "others")
    n_resources = None if model is None else model.base.n_resources
    most, least = (_bounds(arrays, name, n_rules, n_resources, n_states) for name in ("tail_most", "tail_least"))
    if len({len(of_rule) for of_rule in (*most, *least)}) != 1 or any(None in of_rule for of_rule in most):
        raise PolicyError("tail_most", "a bound for each resource, beside tail_least", "others")
    rules = tuple(
        TailRule(name, action[k].copy(), value[k].copy(), tuple(m for m in most[k] if m is not None), least[k])
        for k, name in enumerate(names)
    )
    policy = DiscountedPolicy(finite, rules, read_factor(header["discount"]), _limits(header, finite.resources), model)
    if model is not None:
        _check_work(policy, model)
        policy.finite.check_counting(policy.closed(model))
    return policy


def _check_work(policy: DiscountedPolicy, model: DiscountedCMDP) -> None:
    """Refuse a policy with more steps than powers of the discount can be computed within the time limit of loading."""
    base = model.base
    check_limit("entries", policy.steps * (base.n_rows + base.n_outcomes * (1 + base.n_resources)), "planned entries")
    seconds = policy.steps**2 * policy.discount.denominator.bit_length() / _BITS_PER_SECOND
    if seconds > current_limits().seconds:
        refuse("seconds", "few enough steps for exact powers of the discount", f"{policy.steps:,}")


def _bounds(
    arrays: Arrays, name: str, n_rules: int, n_resources: int | None, n_states: int
) -> list[tuple[tuple[Fraction, ...] | None, ...]]:
    array = arrays.get(name)
    shape = f"({n_rules}, {'resources' if n_resources is None else n_resources}, {n_states})"
    if array is None or array.dtype.kind not in "U" or array.ndim != 3 or array.shape[::2] != (n_rules, n_states):
        raise PolicyError(name, f"numbers as text, of shape {shape}", "none")
    if n_resources not in (None, array.shape[1]):
        raise PolicyError(name, f"numbers as text, of shape {shape}", f"shape {array.shape}")
    check_limit("resources", array.shape[1], "resources", name)
    known: dict[str, Fraction] = {}

    def read(text: str) -> Fraction:
        if text not in known:
            known[text] = exact(text, name)
            check_time()
        return known[text]

    return [
        tuple(
            None if of_resource[0] == UNBOUNDED else tuple(read(text) for text in of_resource)
            for of_resource in of_rule
        )
        for of_rule in array.tolist()
    ]


def _limits(header: Header, resources: tuple[str, ...]) -> dict[str, tuple[Fraction | None, Fraction | None]]:
    given = header.get("limits")
    if not isinstance(given, dict) or tuple(given) != resources:
        raise PolicyError("header, limits", f"limits of {quote(list(resources))}", quote(given))
    limits = {}
    for name, sides in given.items():
        if not isinstance(sides, list) or len(sides) != 2 or not all(x is None or isinstance(x, str) for x in sides):
            raise PolicyError(f"header, limits, {name}", "an upper and a lower limit as text", quote(sides))
        upper, lower = (None if side is None else exact(side, f"header, limits, {name}") for side in sides)
        limits[name] = (upper, lower)
    return limits
