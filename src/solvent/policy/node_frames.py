"""Columns of data frames that hold the nodes of a policy."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.policy.locate import COLLAPSED

if TYPE_CHECKING:
    from solvent.policy.nodes import NodeTable


def node_columns(table: NodeTable, pd: Any) -> dict[str, Any]:
    """Return the step, the state and the amounts spent of each node, as columns of a pandas DataFrame."""
    sizes = np.diff(table.node_indptr)
    step = np.repeat(np.arange(table.horizon), np.diff(table.step_indptr))
    columns: dict[str, Any] = {
        "step": np.repeat(step, sizes),
        "state": pd.Series(name_column(table.states, np.repeat(table.group_state, sizes)), dtype=object),
    }
    for d, name in enumerate(table.resources):
        ticks, unit = table.spent_ND[:, d], table.units[d]
        missing = ticks == COLLAPSED
        whole = np.where(missing, 0, ticks)
        if unit.denominator == 1:
            columns[f"spent_{name}"] = pd.Series(whole * unit.numerator, dtype="Int64").mask(missing)
        else:
            amounts = whole * unit.numerator / unit.denominator
            columns[f"spent_{name}"] = np.where(missing, np.nan, amounts)
    return columns


def name_column(names: tuple[Hashable, ...], index: NDArray[Any]) -> NDArray[Any]:
    """Return names as an array of objects; tuples stay single entries."""
    listed = np.empty(len(names), object)
    for i, name in enumerate(names):
        listed[i] = name
    found: NDArray[Any] = listed[index]
    return found
