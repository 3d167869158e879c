"""The environment's own mask: which actions it considers available, in any of the usual places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.errors import ModelError, quote
from solvent.gym.layout import OWN_MASK
from solvent.model.metering import layers

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

    Examples
    --------
    >>> own = OwnMask(None, None, size=3)
    >>> own(0, {"action_mask": [1, 0, 1]})
    array([ True, False,  True])
    >>> own(0, {}) is None
    True
    """

    def __init__(self, env: Any, given: OwnMaskLike, size: int) -> None:
        if not (given is None or given is False or isinstance(given, str) or callable(given)):
            raise ModelError("own_mask", "None, False, a key, or a function of (observation, info)", quote(given))
        self._given, self._size = given, size
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
        mask = np.asarray(given)
        if mask.size != self._size:
            hint = "pass own_mask=False to ignore it, or own_mask=... to say where the mask is"
            raise ModelError(where, f"{self._size} entries, one for each action", f"shape {mask.shape}", hint)
        return mask.astype(bool).reshape(-1)


def _both(first: NDArray[np.bool_] | None, second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return second if first is None else first & second
