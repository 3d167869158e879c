"""Writing policies to files: the flat arrays in an NPZ archive, with a JSON header. No pickle.

Has no need of the policy classes themselves, which import it in their `save` methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from solvent._version import __version__
from solvent.core.archives import FORMAT, Arrays, Header, store_archive, write_archive
from solvent.core.files import write_atomically
from solvent.core.paths import read_path
from solvent.errors import PolicyError
from solvent.formats.encoding import encode_name
from solvent.policy.layout import ACCOUNT_ARRAYS, ARRAYS, SETTLED, UNBOUNDED

if TYPE_CHECKING:
    from solvent.policy.discounted import DiscountedPolicy
    from solvent.policy.table import AugmentedPolicy


def save_policy(policy: AugmentedPolicy, path: str | Path) -> None:
    """Write a policy to a file, atomically; the same as `policy.save(path)`."""
    store_archive(read_path(path, "save", "the path of a policy file", PolicyError), *_to_parts(policy))


def to_bytes(policy: AugmentedPolicy) -> bytes:
    """Return the content of a policy's file."""
    return write_archive(*_to_parts(policy))


def save_discounted(policy: DiscountedPolicy, path: str | Path) -> None:
    """Write a policy to a file, atomically; the same as `policy.save(path)`."""
    write_atomically(read_path(path, "save", "the path of a policy file", PolicyError), discounted_to_bytes(policy))


def discounted_to_bytes(policy: DiscountedPolicy) -> bytes:
    """Return the content of a policy's file."""
    arrays, header = _to_parts(policy.finite)
    header["discount"] = str(policy.discount)
    header["limits"] = {name: [_text(side) for side in sides] for name, sides in policy.limits.items()}
    header["rules"] = [rule.name for rule in policy.rules]
    arrays["tail_action"] = np.stack([rule.action_S for rule in policy.rules])
    arrays["tail_value"] = np.stack([rule.value_S for rule in policy.rules])
    n_states = len(policy.finite.states)
    none = [UNBOUNDED] * n_states
    for name, bounds in (("tail_most", [rule.most_DS for rule in policy.rules]), ("tail_least", _lows(policy))):
        texts = [[none if each is None else [str(x) for x in each] for each in of_rule] for of_rule in bounds]
        arrays[name] = np.array(texts, np.str_).reshape(len(policy.rules), -1, n_states)
    return write_archive(arrays, header)


def _lows(policy: DiscountedPolicy) -> list[tuple[tuple[Fraction, ...] | None, ...]]:
    return [rule.least_DS for rule in policy.rules]


def _text(side: Fraction | None) -> str | None:
    return None if side is None else str(side)


def _to_parts(policy: AugmentedPolicy) -> tuple[Arrays, Header]:
    """Return the arrays and the header of a policy's file."""
    header: Header = {
        "solvent_policy": FORMAT,
        "version": __version__,
        "fingerprint": policy.fingerprint,
        "horizon": policy.horizon,
        **_encode_start(policy.start),
        "states": [encode_name(name, "state") for name in policy.states],
        "actions": [encode_name(name, "action") for name in policy.actions],
        "resources": list(policy.resources),
        "units": [str(unit) for unit in policy.units],
        "upper": [_encode(side) for side in policy.limits.upper],
        "lower": [_encode(side) for side in policy.limits.lower],
        "initial": _encode(policy.limits.initial),
        "lookup": policy.lookup,
        "counting": list(policy.counting),
    }
    arrays: Arrays = {name: getattr(policy, name) for name in (*ARRAYS, *ACCOUNT_ARRAYS)}
    arrays["action_N"] = policy.action_N
    arrays |= {name: getattr(policy, name) for name in SETTLED if getattr(policy, name) is not None}
    return arrays, header


def _encode_start(start: Hashable | Mapping[Hashable, float]) -> Header:
    """Return the first state, or each possible one with its probability as text."""
    if not isinstance(start, Mapping):
        return {"start": encode_name(start, "state")}
    return {"first_states": [[encode_name(name, "state"), repr(float(p))] for name, p in start.items()]}


def _encode(side: tuple[Fraction | None, ...]) -> list[str | None]:
    return [None if limit is None else str(limit) for limit in side]
