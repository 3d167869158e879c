"""Checks of arguments that several public functions share."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from solvent.errors import ModelError, quote


@overload
def read_switch(name: str, value: object, *, optional: Literal[False] = False) -> bool: ...
@overload
def read_switch(name: str, value: object, *, optional: Literal[True]) -> bool | None: ...
def read_switch(name: str, value: object, *, optional: bool = False) -> bool | None:
    """Return True or False, or None if `optional`."""
    if value is None and optional:
        return None
    if not isinstance(value, bool | np.bool_):
        raise ModelError(name, "True or False" + (" or None" if optional else ""), quote(value))
    return bool(value)
