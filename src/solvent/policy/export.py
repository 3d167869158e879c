"""Policies for other programs: a C file that needs no library and no allocation, or JSON.

Both hold the table of decisions and the account: units, initial amounts, ends at which amounts saturate, and limits. A
decision is looked up as in `solvent.policy.nodes`:

    group     by step and state, in group_state[step_indptr[step] : step_indptr[step + 1]]
    keys      the amounts spent in ticks; an amount inside the settled interval of the group counts as settled
    node      by keys, in spent[node_indptr[group] : node_indptr[group + 1]]
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.files import write_atomically
from solvent.core.paths import check_suffix, read_path
from solvent.errors import PolicyError, printable
from solvent.formats.encoding import encode_name
from solvent.policy.locate import COLLAPSED

if TYPE_CHECKING:
    from solvent.policy.table import AugmentedPolicy

_WIDTH = 120
#: Number of characters of a string literal that every C99 compiler accepts.
_LONGEST_LITERAL = 4095
_TEMPLATE = Path(__file__).with_name("export_template.c")


def export_policy(policy: AugmentedPolicy, path: str | Path) -> None:
    """Write a policy as C or JSON, by the suffix of the path; see `AugmentedPolicy.export`.

    Raises
    ------
    PolicyError
        If the suffix is another, or the policy rounds costs.
    """
    path = read_path(path, "export", "the path of a .c or .json file", PolicyError)
    writers = {".c": to_c, ".json": to_json}
    kind = check_suffix(path, tuple(writers), hint="policy.save writes policy files", error=PolicyError)
    if policy.rounds:
        hint = "export a policy of an exact solution"
        raise PolicyError(str(path), "a policy that counts costs exactly", "one that rounds costs", hint)
    write_atomically(path, writers[kind](policy, path.stem).encode())


def _limits(policy: AugmentedPolicy) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the most that may have been spent after each step, in ticks, shape (H, D)."""
    shape = policy.horizon, len(policy.resources)
    low_HD, high_HD = np.full(shape, MINUS_INFINITY, np.int64), np.full(shape, PLUS_INFINITY, np.int64)
    for d, unit in enumerate(policy.units):
        for h in range(policy.horizon):
            lower, upper = policy.limits.lower[d][h], policy.limits.upper[d][h]
            if lower is not None:
                low_HD[h, d] = max(-(-lower // unit), MINUS_INFINITY)
            if upper is not None:
                high_HD[h, d] = min(upper // unit, PLUS_INFINITY)
    return low_HD, high_HD


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def to_json(policy: AugmentedPolicy, name: str) -> str:
    """Return a policy as JSON; docs/formats.md describes its fields."""
    low_HD, high_HD = _limits(policy)
    document = {
        "solvent_policy": 1,
        "version": __version__,
        "name": name,
        "fingerprint": policy.fingerprint,
        "horizon": policy.horizon,
        "start": [
            {"state": encode_name(state, "state"), "probability": p}
            for state, p in (policy.start.items() if isinstance(policy.start, dict) else [(policy.start, 1.0)])
        ],
        "states": [encode_name(state, "state") for state in policy.states],
        "actions": [encode_name(action, "action") for action in policy.actions],
        "resources": [
            {
                "name": resource,
                "unit": str(policy.units[d]),
                "initial": int(policy.initial_D[d]),
                "floor": _finite(policy.floor_D[d]),
                "ceiling": _finite(policy.ceiling_D[d]),
                "lower": [_finite(x) for x in low_HD[:, d]],
                "upper": [_finite(x) for x in high_HD[:, d]],
            }
            for d, resource in enumerate(policy.resources)
        ],
        "lookup": policy.lookup,
        "steps": [[_group(policy, g) for g in range(first, last)] for first, last in _pairs(policy.step_indptr)],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _group(policy: AugmentedPolicy, group: int) -> dict[str, Any]:
    low, high = int(policy.node_indptr[group]), int(policy.node_indptr[group + 1])
    settled = None
    if policy.settled_low_GD is not None and policy.settled_high_GD is not None:
        ends = zip(policy.settled_low_GD[group].tolist(), policy.settled_high_GD[group].tolist(), strict=True)
        settled = [[_finite(a), _finite(b)] if a <= b else False for a, b in ends]
    spent = [[None if x == COLLAPSED else x for x in row] for row in policy.spent_ND[low:high].tolist()]
    return {
        "state": int(policy.group_state[group]),
        "settled": settled,
        "spent": spent,
        "action": policy.action_N[low:high].tolist(),
    }


def _finite(value: Any) -> int | None:
    return None if value in (MINUS_INFINITY, PLUS_INFINITY) else int(value)


def _pairs(indptr: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    listed = indptr.tolist()
    return itertools.pairwise(listed)


# ---------------------------------------------------------------------------------------------------------------------
# C


def to_c(policy: AugmentedPolicy, name: str) -> str:
    """Return a policy as a C99 file; functions and types begin with the name of the file."""
    prefix = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "policy"
    prefix = f"p_{prefix}" if prefix[0].isdigit() else prefix
    low_HD, high_HD = _limits(policy)
    n_groups, n_resources = len(policy.group_state), len(policy.resources)
    settled = policy.settled_low_GD is not None and policy.settled_high_GD is not None
    none_GD = np.zeros((0, n_resources), np.int64)
    lists: list[tuple[str, NDArray[Any] | None]] = [
        ("static const int64_t {}step_indptr", policy.step_indptr),
        ("static const int32_t {}group_state", policy.group_state),
        ("static const int64_t {}node_indptr", policy.node_indptr),
        ("static const {type} {}spent", policy.spent_ND),
        ("static const {type} {}action", policy.action_N),
        ("static const int64_t {}settled_low", policy.settled_low_GD if settled else none_GD),
        ("static const int64_t {}settled_high", policy.settled_high_GD if settled else none_GD),
        ("static const int64_t {}lower", low_HD),
        ("static const int64_t {}upper", high_HD),
        ("static const int64_t {}initial", policy.initial_D),
        ("static const int64_t {}floor", policy.floor_D),
        ("static const int64_t {}ceiling", policy.ceiling_D),
    ]
    tables = [_names(f"const char *const {prefix}_{key}", values) for key, values in (
        ("states", policy.states), ("actions", policy.actions), ("resources", policy.resources),
        ("units", [str(unit) for unit in policy.units]),
    )]  # fmt: skip
    for declared, array in lists:
        assert array is not None
        tables.append(_array(declared.format(f"{prefix}_", type=_type(array)), array))
    values = {
        "prefix": prefix,
        "upper_prefix": prefix.upper(),
        "version": __version__,
        "fingerprint": policy.fingerprint,
        "horizon": policy.horizon,
        "n_states": len(policy.states),
        "n_actions": len(policy.actions),
        "n_resources": n_resources,
        "n_amounts": max(1, n_resources),
        "settled": int(settled and n_groups > 0),
        "lookup": ["equal", "at_most", "at_least"].index(policy.lookup),
        "tables": "\n".join(tables),
    }
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def _type(array: NDArray[Any]) -> str:
    flat = array.reshape(-1)
    for bits in (8, 16, 32):
        info = np.iinfo(f"int{bits}")
        if not len(flat) or (int(flat.min()) >= info.min and int(flat.max()) <= info.max):
            return f"int{bits}_t"
    return "int64_t"


def _literal(value: int) -> str:
    if value == MINUS_INFINITY:
        return "INT64_MIN"
    if value == PLUS_INFINITY:
        return "INT64_MAX"
    return f"INT64_C({value})" if abs(value) >= 2**31 else str(value)


def _array(declared: str, array: NDArray[Any]) -> str:
    """Return the definition of an array; C has no empty ones."""
    return _definition(declared, [_literal(value) for value in array.reshape(-1).tolist()] or ["0"])


def _names(declared: str, names: Sequence[Any]) -> str:
    return _definition(declared, [_quoted(str(name)) for name in names] or ['""'])


def _definition(declared: str, entries: list[str]) -> str:
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > _WIDTH and line.strip():
            lines.append(line)
            line = "   "
        line += f" {entry},"
    return "\n".join([f"{declared}[{len(entries)}] = {{", *lines, line, "};"])


def _quoted(text: str) -> str:
    """Return a C string in ASCII: a literal, or the array that it stands for if it is too long for C99."""
    content = printable(text).encode("utf-8", "replace")
    if len(content) > _LONGEST_LITERAL:
        numbers = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in content)
        return f"(const char[]){{{numbers}, 0}}"
    return '"' + "".join(map(_escaped, content)) + '"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?' or not 32 <= byte < 127:
        return f"\\{byte:03o}"
    return character
