"""Policies as files: the flat arrays in an NPZ archive, with a JSON header that speaks in names. No pickle."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from solvent._version import __version__
from solvent.core.archives import (
    FORMAT,
    Arrays,
    Header,
    check_array,
    check_length,
    check_names_of_arrays,
    check_pointers,
    check_positions,
    choose_reader,
    read_archive,
    write_archive,
)
from solvent.core.exact import exact
from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import LoadLimits, check_limit, loading
from solvent.errors import LoadLimitError, ModelError, PolicyError, SolventError, did_you_mean, quote
from solvent.formats.encoding import decode_name, encode_name
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.model.validation import check_horizon, check_names, check_resources
from solvent.policy.nodes import Lookup
from solvent.policy.table import AugmentedPolicy

if TYPE_CHECKING:
    from solvent.policy.discounted import DiscountedPolicy

_ARRAYS: dict[str, tuple[Any, int]] = {
    "step_indptr": (np.int64, 1),
    "group_state": (np.int32, 1),
    "node_indptr": (np.int64, 1),
    "spent_ND": (np.int64, 2),
}
_SETTLED = ("settled_low_GD", "settled_high_GD")
#: All arrays that the file of a policy with a horizon can have.
KNOWN_ARRAYS = {*_ARRAYS, "action_N", *_SETTLED}
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def save_policy(policy: AugmentedPolicy, path: str | Path) -> None:
    """Write a policy to a file, whole or not at all; the same as `policy.save(path)`."""
    write_atomically(Path(path), to_bytes(policy))


def to_bytes(policy: AugmentedPolicy) -> bytes:
    """Return a policy as the content of a file."""
    return write_archive(*to_parts(policy))


def to_parts(policy: AugmentedPolicy) -> tuple[Arrays, Header]:
    """Return the arrays and the header of a policy's file."""
    header: Header = {
        "solvent_policy": FORMAT,
        "version": __version__,
        "fingerprint": policy.fingerprint,
        "horizon": policy.horizon,
        "start": encode_name(policy.start, "state"),
        "states": [encode_name(name, "state") for name in policy.states],
        "actions": [encode_name(name, "action") for name in policy.actions],
        "resources": list(policy.resources),
        "units": [str(unit) for unit in policy.units],
        "upper": [_encode(side) for side in policy.limits.upper],
        "lower": [_encode(side) for side in policy.limits.lower],
        "lookup": policy.lookup,
        "counting": list(policy.counting),
    }
    arrays: Arrays = {name: getattr(policy, name) for name in _ARRAYS}
    arrays["action_N"] = policy.action_N
    arrays |= {name: getattr(policy, name) for name in _SETTLED if getattr(policy, name) is not None}
    return arrays, header


@overload
def load_policy(path: str | Path, model: CMDP, *, limits: LoadLimits | None = None) -> AugmentedPolicy: ...


@overload
def load_policy(path: str | Path, model: DiscountedCMDP, *, limits: LoadLimits | None = None) -> DiscountedPolicy: ...


@overload
def load_policy(
    path: str | Path, model: None = None, *, limits: LoadLimits | None = None
) -> AugmentedPolicy | DiscountedPolicy: ...


def load_policy(
    path: str | Path, model: CMDP | DiscountedCMDP | None = None, *, limits: LoadLimits | None = None
) -> AugmentedPolicy | DiscountedPolicy:
    """Load a policy that `policy.save` wrote.

    Parameters
    ----------
    path : str or Path
        A plain file.
    model : CMDP or DiscountedCMDP, optional
        The model it was made for; with it the policy can act (`policy.agent()`).
    limits : LoadLimits, optional
        What loading may cost at most; see `solvent.LoadLimits` for the defaults.

    Raises
    ------
    PolicyError
        If there is no such file, it does not hold a policy, its content does not match its checksum, or it was made
        for another model.
    LoadLimitError
        If loading it would cost more than `limits` allow.

    Notes
    -----
    The checksum finds damage. It is no signature: a file from somebody you do not trust can hold any policy, so
    `solvent.verify` it against your own budget before you follow it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> from solvent.model.lattice import Lattice
    >>> model = instances.knapsack([3, 4], [2, 3], capacity=4)
    >>> limits = resolve(model, None)
    >>> policy = AugmentedPolicy.from_nodes(
    ...     model, Lattice.fit(model, limits), limits, layers=[([0], [[0]], [0]), ([0], [[0]], [1])]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "knapsack.policy"
    ...     policy.save(file)
    ...     load_policy(file, model) == policy
    True
    """
    path = Path(path)
    with loading(limits):
        try:
            content = read_plain(path)
        except FileNotFoundError:
            raise PolicyError(
                str(path), "a policy file", "no such file", did_you_mean(path.name, _near(path))
            ) from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PolicyError(str(path), "a policy file that can be read", reason) from None
        except MemoryError:
            raise PolicyError(str(path), "a policy that fits into memory", "one that does not") from None
        try:
            return from_bytes(content, model)
        except LoadLimitError as error:
            raise error.within(str(path)) from None
        except (PolicyError, ModelError) as error:
            raise PolicyError(f"{path}: {error.where}", error.expected, error.found, error.hint) from None


def _near(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def from_bytes(content: bytes, model: CMDP | DiscountedCMDP | None = None) -> AugmentedPolicy | DiscountedPolicy:
    """Return the policy in the content of a file.

    Raises
    ------
    PolicyError, ModelError
        If it is not one; object arrays are refused, so nothing in it can run.
    """
    arrays, header = read_archive(content)
    try:
        return choose_reader(header, "solvent_policy", READERS, "a policy")(header, arrays, model)
    except RecursionError:
        raise PolicyError("file", "a policy", "a structure nested too deeply") from None
    except MemoryError:
        raise PolicyError("file", "a policy that fits into memory", "one that does not") from None


def _read(header: Header, arrays: Arrays, model: CMDP | DiscountedCMDP | None) -> AugmentedPolicy | DiscountedPolicy:
    is_discounted = isinstance(model, DiscountedCMDP)
    if "discount" in header and (model is None or is_discounted):
        from solvent.policy.discounted_files import discounted_from_parts

        return discounted_from_parts(arrays, header, model if isinstance(model, DiscountedCMDP) else None)
    if is_discounted or "discount" in header:
        kinds = ("a discounted model", "one with a horizon")
        raise PolicyError("policy", f"a policy for {kinds[not is_discounted]}", f"one for {kinds[is_discounted]}")
    assert not isinstance(model, DiscountedCMDP)
    check_names_of_arrays(arrays, KNOWN_ARRAYS)
    policy = rebuild(header, arrays, model)
    if model is not None:
        policy.check_counting(model)
    return policy


#: Readers by format. Format 2 is format 1 with a checksum.
READERS: dict[int, Callable[..., AugmentedPolicy | DiscountedPolicy]] = {1: _read, 2: _read}


def _encode(side: tuple[Fraction | None, ...]) -> list[str | None]:
    return [None if limit is None else str(limit) for limit in side]


def _field(header: Header, name: str, kind: type) -> Any:
    value = header.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PolicyError(f"header, {name}", f"a {kind.__name__}", quote(value))
    return value


def rebuild(header: Header, arrays: Arrays, model: CMDP | None) -> AugmentedPolicy:
    """Return the policy of a header and arrays, checked; `PolicyError` or `ModelError` if they do not make one."""
    horizon = check_horizon(_field(header, "horizon", int))
    names = {
        key: check_names([decode_name(name) for name in _field(header, key, list)], key) or ()
        for key in ("states", "actions")
    }
    start = decode_name(header.get("start"))
    resources = check_resources(_field(header, "resources", list))
    check_limit("resources", len(resources), "resources")
    fingerprint = _field(header, "fingerprint", str)
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise PolicyError("header, fingerprint", "32 hexadecimal digits", quote(fingerprint))
    if start not in names["states"]:
        raise PolicyError("header, start", "one of the states", quote(start))
    n_tracked = len(resources)
    units = tuple(_number(text, "units") for text in _field(header, "units", list))
    if len(units) != n_tracked or any(unit <= 0 for unit in units):
        raise PolicyError("header, units", f"{n_tracked} positive numbers", quote(header["units"]))
    upper, lower = (_read_side(header, key, n_tracked, horizon) for key in ("upper", "lower"))
    for name, most, least in zip(resources, upper, lower, strict=True):
        if any(m is not None and n is not None and n > m for m, n in zip(most, least, strict=True)):
            raise PolicyError(f"header, limits of {quote(name)}", "no lower limit above the upper one", "one that is")
    lookup = header.get("lookup")
    if not isinstance(lookup, str) or lookup not in ("equal", "at_most", "at_least"):
        raise PolicyError("header, lookup", "equal, at_most or at_least", quote(lookup))
    counting = _field(header, "counting", list)
    if len(counting) != n_tracked or any(
        not isinstance(each, str) or each not in ("exact", "down", "up") for each in counting
    ):
        raise PolicyError("header, counting", f"exact, down or up for {n_tracked} resources", quote(counting))
    parts = {key: check_array(arrays, key, dtype, ndim) for key, (dtype, ndim) in _ARRAYS.items()}
    actions = check_array(arrays, "action_N", np.min_scalar_type(max(len(names["actions"]) - 1, 0)), 1)
    settled = {key: check_array(arrays, key, np.int64, 2) for key in _SETTLED if key in arrays}
    policy = AugmentedPolicy(
        fingerprint=fingerprint,
        horizon=horizon,
        start=start,
        states=names["states"],
        actions=names["actions"],
        resources=resources,
        units=units,
        limits=Limits(resources, upper, lower),
        action_N=actions,
        lookup=cast(Lookup, lookup),
        counting=tuple(counting),
        model=model,
        **parts,
        **settled,
    )
    _check_layout(policy)
    return policy


def _number(text: Any, where: str) -> Fraction:
    if not isinstance(text, str):
        raise PolicyError(f"header, {where}", "numbers as text", quote(text))
    return exact(text, f"header, {where}")


def _read_side(header: Header, key: str, n_tracked: int, horizon: int) -> tuple[tuple[Fraction | None, ...], ...]:
    sides = _field(header, key, list)
    if len(sides) != n_tracked or any(not isinstance(side, list) or len(side) != horizon for side in sides):
        raise PolicyError(f"header, {key}", f"{n_tracked} lists of {horizon} limits", quote(sides))
    return tuple(tuple(None if limit is None else _number(limit, key) for limit in side) for side in sides)


def _check_layout(policy: AugmentedPolicy) -> None:
    """Check that every position points to something and that look-ups find what is there."""
    n_groups, n_nodes, n_tracked = len(policy.group_state), len(policy.spent_ND), len(policy.resources)
    check_pointers("step_indptr", policy.step_indptr, policy.horizon, n_groups)
    check_pointers("node_indptr", policy.node_indptr, n_groups, n_nodes, empty=False)
    if policy.spent_ND.shape[1] != n_tracked:
        raise PolicyError("spent_ND", f"rows of {n_tracked}", f"shape {policy.spent_ND.shape}")
    check_length("action_N", policy.action_N, n_nodes)
    check_positions("group_state", policy.group_state, len(policy.states))
    check_positions("action_N", policy.action_N, len(policy.actions))
    step_of = np.repeat(np.arange(policy.horizon), np.diff(policy.step_indptr))
    if ((policy.group_state[1:] <= policy.group_state[:-1]) & (step_of[1:] == step_of[:-1])).any():
        raise PolicyError("group_state", "states that increase within a step", "others")
    tied = np.diff(np.repeat(np.arange(n_groups), np.diff(policy.node_indptr))) == 0
    for d in range(n_tracked):
        column = policy.spent_ND[:, d]
        if (tied & (column[1:] < column[:-1])).any():
            break
        tied = tied & (column[1:] == column[:-1])
    if tied.any():
        raise PolicyError("spent_ND", "amounts that increase within a group", "others")
    ends = (policy.settled_low_GD, policy.settled_high_GD)
    given = [end for end in ends if end is not None]
    if len(given) == 1 or any(end.shape != (n_groups, n_tracked) for end in given):
        raise PolicyError("settled", f"both ends, of shape ({n_groups}, {n_tracked})", "others")
    if policy.lookup != "equal" and (n_tracked != 1 or given):
        raise PolicyError("lookup", "one resource and nothing settled", f"{policy.lookup} with {n_tracked}")
