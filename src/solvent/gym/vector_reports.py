"""What each environment of a vector reported, before Gymnasium puts all reports into one array.

The type of that array is the type of the first report: if one environment reports a cost of 0, a whole number, and the
next a cost of 0.9, the array says 0 for both. Beside each array, under its key after "_", another one
says which environments reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray


class Reports:
    """Keeps the `info` of each environment of a vector, by replacing the method that merges them.

    Parameters
    ----------
    vector : VectorEnv
    """

    def __init__(self, vector: Any) -> None:
        self._vector, self._nested = vector, False
        self._infos: dict[int, dict[str, Any]] = {}

    @classmethod
    def of(cls, vector: Any) -> Reports | None:
        """Return the reports of a vector; None if it does not merge them as Gymnasium does."""
        merge = getattr(VectorEnv, "_add_info", None)
        if merge is None or getattr(type(vector), "_add_info", None) is not merge:
            return None
        kept = vars(vector).get("_add_info")
        if not isinstance(kept, cls):
            kept = vector._add_info = cls(vector)
        return kept

    def __call__(self, infos: dict[str, Any], info: dict[str, Any], number: int) -> dict[str, Any]:
        """Keep and merge the report of an environment; the merging calls this method again for dicts within it."""
        outermost = not self._nested
        if outermost:
            self._infos[number] = info
        self._nested = True
        try:
            return VectorEnv._add_info(self._vector, infos, info, number)
        finally:
            self._nested = not outermost

    def clear(self) -> None:
        """Forget all reports."""
        self._infos.clear()

    def original(self, keys: tuple[str, ...], merged: Any) -> Any:
        """Return merged numbers, or arrays of them, as they were reported under a path of keys.

        Examples
        --------
        >>> vector = VectorEnv()
        >>> vector.num_envs = 2
        >>> reports = Reports.of(vector)
        >>> merged = vector._add_info(vector._add_info({}, {"cost": 0}, 0), {"cost": 0.9}, 1)
        >>> merged["cost"].tolist(), reports.original(("cost",), merged["cost"]).tolist()
        ([0, 0], [0, 0.9])
        """
        if not isinstance(merged, np.ndarray) or merged.ndim == 0 or merged.dtype == object:
            return merged
        found = np.empty(merged.shape, object)
        for number, row in enumerate(merged):  # float32 stays float32, with the digits of that type
            found[number] = _entries(row)
        for number, info in self._infos.items():
            given: Any = info
            for key in keys:
                given = given.get(key) if isinstance(given, dict) else None
            # a wrapper of the vector may have put another number there
            if given is not None and np.array_equal(_as_merged(given, merged), merged[number]):
                found[number] = _entries(given)
        return found


def _as_merged(given: Any, merged: NDArray[Any]) -> Any:
    """Return a report as merged ones of the same type and shape hold it."""
    held = np.zeros((1, *merged.shape[1:]), merged.dtype)
    held[0] = given
    return held[0]


def _entries(given: Any) -> Any:
    """Return an array as a list of its numbers, which keep their types in an array of objects; others unchanged."""
    if not isinstance(given, np.ndarray):
        return given
    return list(given) if given.ndim else given[()]


def begin_anew(last: Mapping[str, Any], first: Mapping[str, Any], begun: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the reports of a step, in which those of environments that began anew are replaced where `reset` has them.

    Examples
    --------
    >>> begun = np.array([False, True])
    >>> found = begin_anew({"x": np.array([3, 4])}, {"x": np.array([0, 7]), "_x": begun}, begun)
    >>> found["x"].tolist(), found["_x"].tolist()
    ([3, 7], [True, True])
    """
    found = dict(last)
    for key, given in first.items():
        kept = last.get(key)
        if isinstance(given, Mapping):
            found[key] = begin_anew(kept if isinstance(kept, Mapping) else {}, given, begun)
        elif isinstance(given, np.ndarray) and not key.startswith("_"):
            new = np.asarray(first.get(f"_{key}", begun), bool) & begun
            old = np.asarray(last.get(f"_{key}", np.full(len(begun), key in last)), bool)
            found[key] = _with_rows(kept, given, new)
            found[f"_{key}"] = old | new
    return found


def told_of(info: Mapping[str, Any], some: NDArray[np.bool_]) -> dict[str, Any]:
    """Return reports that say of no other than some environments that they reported."""
    found = dict(info)
    for key, value in info.items():
        if isinstance(value, Mapping):
            found[key] = told_of(value, some)
        elif key.startswith("_") and isinstance(value, np.ndarray) and value.dtype == np.bool_:
            found[key] = value & some
    return found


def _with_rows(kept: Any, given: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array in which some rows are given; its entries become objects if they are of another kind."""
    if not isinstance(kept, np.ndarray) or kept.shape[:1] != given.shape[:1]:
        return given
    if kept.shape == given.shape and np.can_cast(given.dtype, kept.dtype):
        found = kept.copy()
        found[rows] = given[rows]
        return found
    found = np.empty(len(rows), object)
    for i, taken in enumerate(rows):
        found[i] = (given if taken else kept)[i]
    return found
