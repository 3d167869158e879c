"""Observations of the wrapper: the environment's observation, the remaining amounts, the step, optionally the mask."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from solvent.errors import ModelError, did_you_mean, quote

#: Key of a mask in an environment's own observation.
OWN_MASK = "action_mask"
_PARTS = ("observation", "remaining", "step", "action_mask")
#: Layouts: whether to flatten into one Box, whether to include the mask, renamed keys, and the mask's dtype.
_LAYOUTS: dict[str, tuple[bool, bool, dict[str, str], Any]] = {
    "dict": (False, False, {}, np.int8),
    "flat": (True, False, {}, np.int8),
    "rllib": (True, True, {"observation": "observations"}, np.float32),
    "pettingzoo": (True, True, {}, np.int8),
}


class Layout:
    """Arranges the parts of an observation.

    Parameters
    ----------
    inner : gymnasium.Space
        Observation space of the environment.
    remaining : Box, shape (D,)
    step : Box, shape (1,)
    mask_size : int or None
        Number of entries of the action mask; None if there are no masks.
    kind : {"dict", "flat", "rllib", "pettingzoo"}
    mask : bool, optional
        Whether the action mask is in the observation. Default: as defined by the layout.
    keys : mapping, optional
        Other names for "observation", "remaining", "step" and "action_mask".

    Notes
    -----
    A mask in the environment's own observation, under "action_mask" of a Dict, is replaced by the mask of the wrapper.

    Attributes
    ----------
    space : gymnasium.Space
        Observation space of the wrapper.
    """

    def __init__(
        self,
        inner: spaces.Space[Any],
        remaining: spaces.Box,
        step: spaces.Box,
        mask_size: int | None,
        kind: str = "dict",
        mask: bool | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(kind, str) or kind not in _LAYOUTS:
            known = ", ".join(map(repr, _LAYOUTS))
            raise ModelError("layout", f"one of {known}", quote(kind), did_you_mean(kind, _LAYOUTS))
        self._flat, with_mask, renamed, self._dtype = _LAYOUTS[kind]
        self._with_mask = with_mask if mask is None else mask
        if self._with_mask and mask_size is None:
            argument, found = ("layout", quote(kind)) if with_mask else ("mask_in_observation", quote(mask))
            expected = "'dict' or 'flat'" if with_mask else "False"
            raise ModelError(argument, f"{expected}, as there are no masks for Box actions", found)
        self._keys = {part: part for part in _PARTS} | renamed | _read_keys(keys)
        self._inner, self._parts = inner, {"remaining": remaining, "step": step}
        self._merged = isinstance(inner, spaces.Dict) and not self._flat
        self._own = find_own_mask(inner, mask_size)
        if self._flat and self._with_mask and self._own is not None:  # the mask is not repeated in the flat part
            assert isinstance(inner, spaces.Dict)
            self._inner = spaces.Dict({key: space for key, space in inner.spaces.items() if key != OWN_MASK})
        self.space = self._make_space(mask_size)

    def _make_space(self, mask_size: int | None) -> spaces.Space[Any]:
        mask = {"action_mask": spaces.Box(0, 1, (mask_size or 0,), dtype=self._dtype)} if self._with_mask else {}
        if self._merged and self._own is not None and self._keys["action_mask"] == OWN_MASK:
            mask = {}  # it takes the place of the environment's own
        if self._flat:
            if not self._inner.is_np_flattenable:
                hint = "use layout='dict', or wrap the environment so that its observations are arrays"
                raise ModelError("layout", "observations that can be flattened", quote(self._inner), hint)
            boxes = [spaces.flatten_space(self._inner), *self._parts.values()]
            low, high = (np.concatenate([np.float32(getattr(box, side)) for box in boxes]) for side in ("low", "high"))
            seen = spaces.Box(low, high, dtype=np.float32)
            return self._named({"observation": seen, **mask}) if self._with_mask else seen
        return self._named({"observation": self._inner, **self._parts, **mask})

    def _named(self, parts: dict[str, spaces.Space[Any]]) -> spaces.Dict:
        named: dict[str, spaces.Space[Any]] = {}
        if self._merged:
            inner = parts.pop("observation")
            assert isinstance(inner, spaces.Dict)
            named = dict(inner.spaces)
        for part, space in parts.items():
            key = self._keys[part]
            if key in named:
                hint = f"rename it: keys={{{part!r}: ...}}"
                raise ModelError("keys", "names that are all different", f"{quote(key)} twice", hint)
            named[key] = space
        return spaces.Dict(named)

    def __call__(self, observation: Any, remaining: list[float], step: int, mask: NDArray[np.bool_]) -> Any:
        """Return the observation, in new arrays."""
        amounts, steps = np.array(remaining, np.float32), np.array([step], np.float32)
        masked = {self._keys["action_mask"]: mask.astype(self._dtype)} if self._with_mask else {}
        if self._own is not None:
            shape, dtype = self._own
            replaced = mask.reshape(shape).astype(dtype)
            if self._flat and self._with_mask:
                observation = {key: value for key, value in observation.items() if key != OWN_MASK}
            else:
                observation = {**observation, OWN_MASK: replaced}
                masked = {} if self._keys["action_mask"] == OWN_MASK else masked
        if self._flat:
            inner = np.asarray(spaces.flatten(self._inner, observation), np.float32)
            seen = np.concatenate([inner, amounts, steps])
            return {self._keys["observation"]: seen, **masked} if self._with_mask else seen
        keys = self._keys
        own = observation if self._merged else {keys["observation"]: observation}
        return {**own, keys["remaining"]: amounts, keys["step"]: steps, **masked}


def find_own_mask(inner: spaces.Space[Any], mask_size: int | None) -> tuple[tuple[int, ...], Any] | None:
    """Return the shape and the dtype of the mask in the environment's own observation, if there is one."""
    own = inner.spaces.get(OWN_MASK) if isinstance(inner, spaces.Dict) else None
    if own is None or own.shape is None or mask_size is None or int(np.prod(own.shape)) != mask_size:
        return None
    return own.shape, own.dtype


def _read_keys(keys: Mapping[str, str] | None) -> dict[str, str]:
    for part in keys or {}:
        if part not in _PARTS:
            known = ", ".join(map(repr, _PARTS))
            raise ModelError("keys", f"names for {known}", quote(part), did_you_mean(part, _PARTS))
    return dict(keys or {})


def own_copy(observation: Any) -> Any:
    """Return a copy of an observation, since environments and agents may write into shared arrays.

    Examples
    --------
    >>> shared = {"cell": np.zeros(2)}
    >>> kept = own_copy(shared)
    >>> shared["cell"][:] = 7
    >>> kept
    {'cell': array([0., 0.])}
    """
    if type(observation) is np.ndarray and observation.dtype != object:
        return observation.copy()
    return observation if isinstance(observation, int | float | str | np.generic) else copy.deepcopy(observation)


def remaining_space(lows: list[float], highs: list[float]) -> spaces.Box:
    """Return the space of the remaining amounts, as float32."""
    low, high = np.array(lows, np.float32), np.array(highs, np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def step_space(longest: int | None) -> spaces.Box:
    """Return the space of the step, for episodes of at most `longest` steps."""
    return spaces.Box(0.0, np.inf if longest is None else float(longest), (1,), np.float32)
