"""What each environment of a vector reported, before Gymnasium puts all reports into one array.

The type of that array is the type of the first report: if one environment reports a cost of 0, a whole number, and the
next a cost of 0.9, the array says 0 for both.
"""

from __future__ import annotations

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
        found = merged.astype(object)
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
