"""The environment's own mask: which actions it considers available, in any of the usual places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, quote
from solvent.gym.actions import as_array
from solvent.gym.layout import OWN_MASK
from solvent.model.metering import layers

#: Action spaces with masks.
Kind = Literal["discrete", "multi-discrete", "multi-binary"]
#: Where the environment's own mask is: None for all usual places, False for nowhere, a key, or a function of
#: (observation, info).
OwnMaskLike = None | bool | str | Callable[[Any, Mapping[str, Any]], Any]


class OwnMask:
    """Finds the environment's own mask.

    Parameters
    ----------
    env : gymnasium.Env
    given : None, False, str or function of (observation, info)
        None for the usual places, combined: `info["action_mask"]`, `observation["action_mask"]`, and a method
        `action_masks()` of the environment. False for none; a key of `info` or of the observation; or a function.
    size : int
        Number of entries of the mask.
    kind : {"discrete", "multi-discrete", "multi-binary"}
        The action space. Masks may also be those of its `sample`: a tuple of masks by component, or for each bit its
        value, with 2 for a free one.

    Examples
    --------
    >>> own = OwnMask(None, None, size=3)
    >>> own(0, {"action_mask": [1, 0, 1]})
    array([ True, False,  True])
    >>> own(0, {}) is None
    True
    >>> OwnMask(None, None, size=5, kind="multi-discrete")(0, {"action_mask": ([1, 0], [1, 1, 0])})
    array([ True, False,  True,  True, False])
    >>> OwnMask(None, None, size=6, kind="multi-binary")(0, {"action_mask": [0, 1, 2]})
    array([ True, False, False,  True,  True,  True])
    """

    def __init__(self, env: Any, given: OwnMaskLike, size: int, kind: Kind = "discrete") -> None:
        if not (given is None or given is False or isinstance(given, str) or callable(given)):
            raise ModelError("own_mask", "None, False, a key, or a function of (observation, info)", quote(given))
        self._given, self._size, self._kind = given, size, kind
        usual = given is None and env is not None
        inside = [layer for layer in layers(env) if callable(getattr(type(layer), "action_masks", None))]
        self._layer = inside[0] if usual and inside else None

    def __call__(self, observation: Any, info: Mapping[str, Any]) -> NDArray[np.bool_] | None:
        """Return which actions the environment allows; None if it does not say."""
        given = self._given
        if given is False:
            return None
        if callable(given):
            return self._read(given(observation, info), "own_mask")
        if isinstance(given, str):
            for place in (info, observation):
                if isinstance(place, Mapping) and given in place:
                    return self._read(place[given], f"own_mask {quote(given)}")
            raise ModelError("own_mask", f"{quote(given)} in info or the observation", "neither")
        found = None
        if OWN_MASK in info:
            found = self._read(info[OWN_MASK], "info, action_mask")
        if isinstance(observation, dict) and OWN_MASK in observation:
            found = _both(found, self._read(observation[OWN_MASK], "observation, action_mask"))
        if self._layer is not None:
            found = _both(found, self._read(self._layer.action_masks(), "action_masks()"))
        return found

    def _read(self, given: Any, where: str) -> NDArray[np.bool_]:
        table, mask = as_array(given), _flat(given)
        if self._kind == "multi-binary" and 2 * mask.size == self._size:
            mask = np.stack([mask != 1, mask != 0], axis=-1).reshape(-1)
        if mask.size != self._size:
            found = f"{mask.size}" if table is None else f"shape {table.shape}"
            if self._kind == "discrete":
                hint = "pass own_mask=False to ignore it, or own_mask=... to say where the mask is"
                raise ModelError(where, f"{self._size} entries, one for each action", found, hint)
            raise ModelError(where, f"{self._size} entries, one for each value of each component", found)
        return mask.astype(bool)


def _flat(given: Any) -> NDArray[Any]:
    """Return the entries of a mask, or of nested sequences of masks of different lengths, in one row."""
    table = as_array(given)
    return np.concatenate([_flat(part) for part in given]) if table is None else table.reshape(-1)


def _both(first: NDArray[np.bool_] | None, second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return second if first is None else first & second
