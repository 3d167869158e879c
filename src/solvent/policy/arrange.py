"""Sorting nodes: turns unordered entries (state, spent) of each step into the arrays of a `NodeTable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.errors import PolicyError
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import ACCOUNTS, Lookup, NodeTable


@dataclass(frozen=True)
class Arrangement:
    """Sorted nodes: the common fields of a `NodeTable`, and the entries that each node came from.

    Attributes
    ----------
    parts : dict
        Keyword arguments of a `NodeTable`.
    order : list of ndarray of int64
        Per step, the positions of the entries in the order of their nodes.
    node : list of ndarray of int64
        Per step, the node of each of these entries, numbered over all steps.
    """

    parts: dict[str, Any]
    order: list[NDArray[np.int64]]
    node: list[NDArray[np.int64]]


def arrange(
    model: CMDP,
    lattice: Lattice | NodeTable,
    limits: Limits,
    entries: Sequence[tuple[NDArray[Any], NDArray[np.int64]]],
    settled: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]] | None,
    lookup: Lookup,
) -> Arrangement:
    """Sort the entries (state, spent) of each step into nodes; equal entries share a node."""
    n_tracked = len(lattice.resources)
    if len(entries) != model.horizon:
        raise PolicyError("layers", f"{model.horizon}, one per step", str(len(entries)))
    if lookup != "equal" and (n_tracked != 1 or settled is not None):
        raise PolicyError("lookup", "one tracked resource and nothing settled", f"{lookup!r} with {n_tracked}")
    group_counts, states, sizes, spents, orders, nodes, ends = [], [], [], [], [], [], []
    n_nodes = 0
    for step, (state, given) in enumerate(entries):
        state, spent = np.asarray(state, np.int32), np.asarray(given, np.int64).reshape(len(state), n_tracked)
        if settled is not None:
            low, high = (np.asarray(end, np.int64)[state] for end in settled[step])
            spent = np.where((low <= spent) & (spent <= high), COLLAPSED, spent)
        order = _order(state, spent)
        state, spent = state[order], spent[order]
        new_group = np.ones(len(state), bool)
        np.not_equal(state[1:], state[:-1], out=new_group[1:])
        new_node = new_group.copy()
        new_node[1:] |= (spent[1:] != spent[:-1]).any(1)
        group_state = state[new_group]
        states.append(group_state)
        group_counts.append(len(group_state))
        spents.append(spent[new_node])
        sizes.append(np.bincount(np.cumsum(new_group)[new_node] - 1, minlength=len(group_state)))
        orders.append(order)
        nodes.append(np.cumsum(new_node) - 1 + n_nodes)
        n_nodes += int(new_node.sum())
        if settled is not None:
            ends.append([np.asarray(end, np.int64)[group_state] for end in settled[step]])
    parts: dict[str, Any] = {
        "fingerprint": model.fingerprint,
        "horizon": model.horizon,
        "start": model.start,
        "states": model.states,
        "actions": model.actions,
        "resources": lattice.resources,
        "units": lattice.units,
        "limits": limits,
        "step_indptr": _indptr([np.array(group_counts)]),
        "group_state": np.concatenate(states).astype(np.int32, copy=False),
        "node_indptr": _indptr(sizes),
        "spent_ND": np.concatenate(spents),
        "lookup": lookup,
        "model": model,
        **{name: getattr(lattice, name).copy() for name in ACCOUNTS},
    }
    if settled is not None:
        parts["settled_low_GD"] = np.concatenate([low for low, _ in ends])
        parts["settled_high_GD"] = np.concatenate([high for _, high in ends])
    return Arrangement(parts, orders, nodes)


def _order(state: NDArray[np.int32], spent_ND: NDArray[np.int64]) -> NDArray[np.int64]:
    columns = [state, *spent_ND.T]
    unsorted = np.zeros(max(len(state) - 1, 0), bool)
    tied = ~unsorted
    for column in columns:
        unsorted |= tied & (column[1:] < column[:-1])
        tied &= column[1:] == column[:-1]
    if not unsorted.any():
        return np.arange(len(state))
    return np.lexsort(columns[::-1])


def _indptr(sizes: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
