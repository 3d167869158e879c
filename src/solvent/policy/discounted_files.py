"""Policies for discounted models as files: those of their planned steps, and beside them the rules for ever after."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from solvent.core.archives import Arrays, Header, check_array, check_names_of_arrays, check_positions, write_archive
from solvent.core.exact import exact
from solvent.core.files import write_atomically
from solvent.core.loading import check_limit, check_time, current_limits, refuse
from solvent.errors import PolicyError, quote
from solvent.model.discounted import DiscountedCMDP, read_factor
from solvent.model.validation import MAX_TOTAL_REWARD
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.files import KNOWN_ARRAYS, rebuild, to_parts
from solvent.policy.markov import UNDECIDED
from solvent.policy.tail import TailRule

_TAIL_ARRAYS = {"tail_action", "tail_value", "tail_most", "tail_least"}
#: How many bits of powers are worked out in a second.
_BITS_PER_SECOND = 1e9
#: In `tail_least`: there is no such bound.
_UNBOUNDED = ""


def save_discounted(policy: DiscountedPolicy, path: str | Path) -> None:
    """Write a policy to a file, whole or not at all; the same as `policy.save(path)`."""
    write_atomically(Path(path), discounted_to_bytes(policy))


def discounted_to_bytes(policy: DiscountedPolicy) -> bytes:
    """Return a policy as the content of a file."""
    arrays, header = to_parts(policy.finite)
    header["discount"] = str(policy.discount)
    header["limits"] = {name: [_text(side) for side in sides] for name, sides in policy.limits.items()}
    header["rules"] = [rule.name for rule in policy.rules]
    arrays["tail_action"] = np.stack([rule.action_S for rule in policy.rules])
    arrays["tail_value"] = np.stack([rule.value_S for rule in policy.rules])
    n_states = len(policy.finite.states)
    none = [_UNBOUNDED] * n_states
    for name, bounds in (("tail_most", [rule.most_DS for rule in policy.rules]), ("tail_least", _lows(policy))):
        texts = [[none if each is None else [str(x) for x in each] for each in of_rule] for of_rule in bounds]
        arrays[name] = np.array(texts, np.str_).reshape(len(policy.rules), -1, n_states)
    return write_archive(arrays, header)


def _lows(policy: DiscountedPolicy) -> list[tuple[tuple[Fraction, ...] | None, ...]]:
    return [rule.least_DS for rule in policy.rules]


def _text(side: Fraction | None) -> str | None:
    return None if side is None else str(side)


def discounted_from_parts(arrays: Arrays, header: Header, model: DiscountedCMDP | None) -> DiscountedPolicy:
    """Return the policy of a file's arrays and header.

    Raises
    ------
    PolicyError, ModelError
        If they do not make one, or it was made for another model.
    """
    check_names_of_arrays(arrays, KNOWN_ARRAYS | _TAIL_ARRAYS)
    finite = rebuild(header, arrays, None)
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
    """Refuse a policy of so many steps that the powers of the discount take longer to work out than loading may."""
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
            None if of_resource[0] == _UNBOUNDED else tuple(read(text) for text in of_resource)
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
