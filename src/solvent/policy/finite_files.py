"""Reading the file of a policy with a horizon: from header and arrays to a checked policy."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from solvent.core.archives import Arrays, Header, check_array, check_length, check_pointers, check_positions
from solvent.core.exact import exact
from solvent.core.loading import check_limit
from solvent.errors import PolicyError, quote
from solvent.formats.encoding import decode_name
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.consistency import check_horizon, check_names
from solvent.model.ends import read_start
from solvent.model.resources import as_resources
from solvent.policy.layout import ACCOUNT_ARRAYS, ARRAYS, SETTLED
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import Lookup
from solvent.policy.table import AugmentedPolicy

#: Number of nodes that are checked at a time; those of a large policy are not all in memory.
_PIECE = 1 << 20
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def _field(header: Header, name: str, kind: type) -> Any:
    value = header.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PolicyError(f"header, {name}", f"a {kind.__name__}", quote(value))
    return value


def rebuild(header: Header, arrays: Arrays, model: CMDP | None, *, has_accounts: bool) -> AugmentedPolicy:
    """Return the policy of a header and arrays.

    Parameters
    ----------
    header : dict
    arrays : dict of ndarray
    model : CMDP or None
        The model that it was made for.
    has_accounts : bool
        Whether there are initial amounts, floors and ceilings, and there may be several first states: since format 3.

    Raises
    ------
    PolicyError, ModelError
        If they do not define a policy.
    """
    horizon = check_horizon(_field(header, "horizon", int))
    names = {
        key: check_names([decode_name(name) for name in _field(header, key, list)], key) or ()
        for key in ("states", "actions")
    }
    start = _read_start(header, names["states"], several=has_accounts)
    resources = tuple(each.name for each in as_resources(_field(header, "resources", list)))
    check_limit("resources", len(resources), "resources")
    fingerprint = _field(header, "fingerprint", str)
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise PolicyError("header, fingerprint", "32 hexadecimal digits", quote(fingerprint))
    n_tracked = len(resources)
    units = tuple(_number(text, "units") for text in _field(header, "units", list))
    if len(units) != n_tracked or any(unit <= 0 for unit in units):
        raise PolicyError("header, units", f"{n_tracked} positive numbers", quote(header["units"]))
    upper, lower = (_read_side(header, key, n_tracked, horizon) for key in ("upper", "lower"))
    for name, most, least in zip(resources, upper, lower, strict=True):
        if any(m is not None and n is not None and n > m for m, n in zip(most, least, strict=True)):
            raise PolicyError(f"header, limits of {quote(name)}", "no lower limit above the upper one", "one that is")
    initial: tuple[Fraction, ...] = ()
    if has_accounts:
        initial = tuple(_number(text, "initial") for text in _field(header, "initial", list))
        if len(initial) != n_tracked:
            raise PolicyError("header, initial", f"{n_tracked} numbers", quote(header["initial"]))
    lookup = header.get("lookup")
    if not isinstance(lookup, str) or lookup not in ("equal", "at_most", "at_least"):
        raise PolicyError("header, lookup", "equal, at_most or at_least", quote(lookup))
    counting = _field(header, "counting", list)
    if len(counting) != n_tracked or any(
        not isinstance(each, str) or each not in ("exact", "down", "up") for each in counting
    ):
        raise PolicyError("header, counting", f"exact, down or up for {n_tracked} resources", quote(counting))
    parts = {key: check_array(arrays, key, dtype, ndim) for key, (dtype, ndim) in ARRAYS.items()}
    actions = check_array(arrays, "action_N", np.min_scalar_type(max(len(names["actions"]) - 1, 0)), 1)
    if has_accounts:
        for key, (dtype, ndim) in ACCOUNT_ARRAYS.items():
            parts[key] = check_array(arrays, key, dtype, ndim)
            check_length(key, parts[key], n_tracked)
    settled = {key: check_array(arrays, key, np.int64, 2) for key in SETTLED if key in arrays}
    policy = AugmentedPolicy(
        fingerprint=fingerprint,
        horizon=horizon,
        start=start,
        states=names["states"],
        actions=names["actions"],
        resources=resources,
        units=units,
        limits=Limits(resources, upper, lower, initial),
        action_N=actions,
        lookup=cast(Lookup, lookup),
        counting=tuple(counting),
        model=model,
        **parts,
        **settled,
    )
    policy.check_accounts()
    _check_layout(policy)
    return policy


def _read_start(header: Header, states: tuple[Hashable, ...], *, several: bool) -> Hashable | dict[Hashable, float]:
    """Return the first state, or the probability of each possible one."""
    known = set(states)
    if several and "first_states" in header:
        where = "header, first_states"
        listed = _field(header, "first_states", list)
        if "start" in header or len(listed) < 2:
            found = "a first state beside them" if "start" in header else quote(listed)
            raise PolicyError(where, "several states with their probabilities", found)
        chances: dict[Hashable, float] = {}
        for each in listed:
            if not isinstance(each, list) or len(each) != 2 or not isinstance(each[1], str):
                raise PolicyError(where, "pairs of a state and a probability as text", quote(each))
            name = decode_name(each[0])
            if name not in known or name in chances:
                raise PolicyError(where, "states of the policy, each once", quote(name))
            chances[name] = float(exact(each[1], where))
            if not 0 < chances[name] <= 1:  # 1.0 beside one below the precision of floats
                raise PolicyError(where, "probabilities above 0 and up to 1", quote(each[1]))
        start = read_start(chances)
        assert isinstance(start, dict)
        return start
    start = decode_name(header.get("start"))
    if start not in known:
        raise PolicyError("header, start", "one of the states", quote(start))
    return start  # type: ignore[no-any-return]


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
    """Check that all positions are valid and all arrays are sorted as look-ups need them."""
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
    if not all(_increase(policy, first, last) for first, last in _pieces(policy.node_indptr)):
        raise PolicyError("spent_ND", "amounts that increase within a group", "others")
    ends = (policy.settled_low_GD, policy.settled_high_GD)
    given = [end for end in ends if end is not None]
    if len(given) == 1 or any(end.shape != (n_groups, n_tracked) for end in given):
        raise PolicyError("settled", f"both ends, of shape ({n_groups}, {n_tracked})", "others")
    if not given and (policy.spent_ND == COLLAPSED).any():
        raise PolicyError("settled", "both ends, as some amount is settled", "none")
    if policy.lookup != "equal" and not n_tracked:
        raise PolicyError("lookup", "equal, as no resource is tracked", policy.lookup)


def _pieces(node_indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of groups with at most `_PIECE` nodes, or one group."""
    first, n_groups = 0, len(node_indptr) - 1
    while first < n_groups:
        last = int(np.searchsorted(node_indptr, node_indptr[first] + _PIECE, side="right")) - 1
        last = min(max(last, first + 1), n_groups)
        yield first, last
        first = last


def _increase(policy: AugmentedPolicy, first: int, last: int) -> bool:
    """Whether amounts increase within each of some groups."""
    sizes = np.diff(policy.node_indptr[first : last + 1])
    spent_ND = policy.spent_ND[int(policy.node_indptr[first]) : int(policy.node_indptr[last])]
    tied = np.diff(np.repeat(np.arange(last - first), sizes)) == 0
    for column in spent_ND.T:
        if (tied & (column[1:] < column[:-1])).any():
            return False
        tied = tied & (column[1:] == column[:-1])
    return not tied.any()
