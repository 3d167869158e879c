"""Sorting nodes: turns unordered entries (state, spent) of each step into the arrays of a `NodeTable`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFolder
from solvent.errors import PolicyError
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.policy.nodes import ACCOUNTS, Lookup, NodeTable
from solvent.policy.search import changes

#: Settled intervals of a step by state: arrays of shape (S, D).
Settled = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class SortedLayer:
    """The N nodes of one step, sorted by state and amounts, and the E entries that they came from.

    Attributes
    ----------
    state : ndarray of int32, shape (N,)
    spent_ND : ndarray of int64, shape (N, D)
    order : ndarray of int64, shape (E,), or slice
        Positions of the entries in the order of their nodes; a slice of all if they were given in this order.
    is_first : ndarray of bool, shape (E,)
        Which of these entries is the first of its node.
    """

    state: NDArray[np.int32]
    spent_ND: NDArray[np.int64]
    order: NDArray[np.int64] | slice
    is_first: NDArray[np.bool_]

    @classmethod
    def of(cls, state: Any, spent: Any, n_tracked: int, settled: Settled | None) -> SortedLayer:
        """Return the nodes of entries (state, spent); equal entries share a node."""
        state = np.asarray(state, np.int32)
        spent_ED = np.asarray(spent, np.int64).reshape(len(state), n_tracked)
        if settled is not None:
            spent_ED = _collapse(state, spent_ED, *(np.asarray(end, np.int64) for end in settled))
        order: NDArray[np.int64] | slice = slice(None)
        if not _is_sorted(state, spent_ED):
            order = np.lexsort([*spent_ED.T[::-1], state])
            state, spent_ED = state[order], spent_ED[order]
        new = changes(state, *spent_ED.T)
        return cls(state[new], spent_ED[new], order, new)

    def needed_in_runs(self, action_N: NDArray[Any], lookup: Lookup) -> NDArray[np.bool_]:
        """Return which nodes a look-up of runs needs, given the actions; the others would find the same action.

        Examples
        --------
        >>> layer = SortedLayer.of([0, 0, 0, 0], [[5, 1], [5, 2], [5, 3], [6, 4]], 2, None)
        >>> layer.needed_in_runs(np.array([7, 7, 8, 8]), "at_most").tolist()
        [False, True, True, True]
        >>> layer.needed_in_runs(np.array([7, 7, 8, 8]), "at_least").tolist()
        [True, False, True, True]
        """
        if lookup == "equal" or not len(action_N):
            return np.ones(len(action_N), bool)
        first = changes(self.state, *self.spent_ND.T[:-1])
        needed = first | changes(action_N)
        if lookup == "at_most":
            return np.append(needed[1:], True)
        # a collapsed amount is stored first, although it counts as more than all others
        begin = np.flatnonzero(first)
        end = np.append(begin[1:], len(first))
        collapsed = (self.spent_ND[begin, -1] == COLLAPSED) & (end - begin > 1)
        begin, end = begin[collapsed], end[collapsed]
        needed[begin] = action_N[begin] != action_N[end - 1]
        needed[begin + 1] = True
        return needed


def numbered_layers(layers: Iterable[Any], horizon: int) -> Iterator[tuple[int, Any]]:
    """Yield each step with its layer; raise a `PolicyError` unless there is one per step."""
    count = 0
    for count, layer in enumerate(layers, 1):
        if count > horizon:
            raise PolicyError("layers", f"{horizon}, one per step", "more")
        yield count - 1, layer
    if count < horizon:
        raise PolicyError("layers", f"{horizon}, one per step", str(count))


class StepGroups(NamedTuple):
    """The groups of the sorted nodes of a step: their states, and how many nodes each has."""

    state: NDArray[np.int32]
    size: NDArray[np.int64]

    @classmethod
    def of(cls, state: NDArray[np.int32]) -> StepGroups:
        """Return the groups of nodes in the given states."""
        first = changes(state)
        return cls(state[first], np.diff(np.append(np.flatnonzero(first), len(first))))


class JoinedArrays:
    """Arrays that are joined along the first axis: in memory, or in a file that is mapped into memory.

    Parameters
    ----------
    shape : tuple of int
        Shape of an empty array.
    dtype : dtype
    folder : ArrayFolder or None
        Folder of the file.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, folder: ArrayFolder | None) -> None:
        self._shape, self._folder = shape, folder
        self._parts: list[NDArray[Any]] = [np.empty(shape, dtype)]
        self._writer = None if folder is None else folder.writer(dtype)
        self._length = 0

    def append(self, array: NDArray[Any]) -> None:
        """Add an array."""
        self._length += len(array)
        if self._writer is None:
            self._parts.append(array)
        else:
            self._writer.append(array)

    def joined(self) -> NDArray[Any]:
        """Return all arrays, joined."""
        if self._writer is None or self._folder is None:
            return np.concatenate(self._parts)
        return self._folder.read(self._writer.close((self._length, *self._shape[1:])))


def arranged(
    model: CMDP,
    lattice: Lattice | NodeTable,
    limits: Limits,
    groups: Sequence[StepGroups],
    settled: Sequence[Settled] | None,
    lookup: Lookup,
) -> dict[str, Any]:
    """Return the keyword arguments of a `NodeTable`, except for `spent_ND`, given the groups of nodes of each step.

    Raises
    ------
    PolicyError
        If nodes are runs and no resource is tracked.
    """
    if lookup != "equal" and not lattice.resources:
        raise PolicyError("lookup", "'equal' where no resource is tracked", repr(lookup))
    group_states, sizes = [each.state for each in groups], [each.size for each in groups]
    parts: dict[str, Any] = {
        "fingerprint": model.fingerprint,
        "horizon": model.horizon,
        "start": model.start,
        "states": model.states,
        "actions": model.actions,
        "resources": lattice.resources,
        "units": lattice.units,
        "limits": limits,
        "step_indptr": _indptr([np.array([len(states) for states in group_states])]),
        "group_state": np.concatenate(group_states).astype(np.int32, copy=False),
        "node_indptr": _indptr(sizes),
        "lookup": lookup,
        "model": model,
        **{name: getattr(lattice, name).copy() for name in ACCOUNTS},
    }
    if settled is not None:
        for side, name in enumerate(("settled_low_GD", "settled_high_GD")):
            ends = [np.asarray(pair[side], np.int64) for pair in settled]
            parts[name] = np.concatenate([end[states] for end, states in zip(ends, group_states, strict=True)])
    return parts


def _collapse(
    state: NDArray[np.int32],
    spent_ED: NDArray[np.int64],
    low_SD: NDArray[np.int64],
    high_SD: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return amounts with `COLLAPSED` in place of those inside the settled interval of their state."""
    result = spent_ED
    for d in np.flatnonzero((low_SD <= high_SD).any(0)).tolist():
        low, high = (np.ascontiguousarray(ends[:, d])[state] for ends in (low_SD, high_SD))
        inside = (low <= spent_ED[:, d]) & (spent_ED[:, d] <= high)
        result = spent_ED.copy() if result is spent_ED else result
        result[inside, d] = COLLAPSED
    return result


def _is_sorted(state: NDArray[np.int32], spent_ED: NDArray[np.int64]) -> bool:
    tied = np.ones(max(len(state) - 1, 0), bool)
    for column in (state, *spent_ED.T):
        if (tied & (column[1:] < column[:-1])).any():
            return False
        tied &= column[1:] == column[:-1]
    return True


def _indptr(sizes: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
