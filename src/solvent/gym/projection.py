"""Moving an action towards a null action until it fits what remains.

For a Box, the candidates are null + t * (action - null) for t in [0, 1], rounded to the type of the space. Each
candidate is checked as it would be executed, so the one returned fits regardless of the search; only how far the action
is moved depends on it. For whole numbers, components are set to those of the null action one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from solvent.gym.needs import FloatNeeds, Needs
from solvent.gym.norms import flat_rows

#: The search ends when t is known up to this, the precision of float32.
_PRECISION = 2.0**-24
#: Number of candidates in one call of a function that takes many at once, and of one that takes a single action.
_MANY, _FEW = 31, 1
#: Factors by which the closed form is reduced until the rounded action fits.
_SHRINKS = 1 - np.array([0.0, 2.0**-24, 2.0**-22, 2.0**-20, 2.0**-17])


class Moved(NamedTuple):
    """An action that fits.

    Attributes
    ----------
    action : array
    scale : float
        Share of the way from the null action to the proposed one; 1 if the latter is executed.
    """

    action: NDArray[Any]
    scale: float


def move_in_box(
    needs: FloatNeeds, observation: Any, action: NDArray[Any], null: NDArray[Any], space: spaces.Box, many: bool
) -> Moved:
    """Return the action moved towards the null action, which fits, as little as necessary.

    Parameters
    ----------
    needs : FloatNeeds
    observation : object
    action, null : array
        The proposed action, within the space, and the null action.
    space : Box
    many : bool
        Whether many candidates are checked in one call.
    """
    if needs.fits(observation, action[None])[0]:
        return Moved(action, 1.0)
    start, way = null.astype(np.float64), action.astype(np.float64) - null.astype(np.float64)

    def candidates(scales: NDArray[np.float64]) -> NDArray[Any]:
        moved = start + scales.reshape(-1, *[1] * start.ndim) * way
        if np.issubdtype(space.dtype, np.integer):
            moved = np.rint(moved)
        return np.clip(moved.astype(space.dtype), space.low, space.high)

    # with fewer digits, or whole numbers, a greater scale than that of the closed form may fit after rounding
    norm = needs.norm if space.dtype in (np.float32, np.float64) else None
    if norm is not None and not null.any():
        cost, most = float(norm(observation, flat_rows(action[None].astype(np.float64)))[0]), needs.greatest()
        if most <= 0:
            return Moved(null.copy(), 0.0)
        scales = norm.scale(cost, most) * _SHRINKS
        fitting = needs.fits(observation, candidates(scales))
        if fitting.any():
            best = float(scales[np.argmax(fitting)])
            return Moved(candidates(np.array([best]))[0], best)
    low, high, count = 0.0, 1.0, _MANY if many else _FEW
    while high - low > _PRECISION:
        scales = low + (high - low) * np.arange(1, count + 1) / (count + 1)
        found = np.flatnonzero(needs.fits(observation, candidates(scales)))
        if len(found):
            last = int(found[-1])
            low, high = float(scales[last]), float(scales[last + 1]) if last + 1 < count else high
        else:
            high = float(scales[0])
    return Moved(candidates(np.array([low]))[0] if low else null.copy(), low)


def move_components(needs: Needs, observation: Any, action: NDArray[Any], null: NDArray[Any]) -> Moved:
    """Return the null action with components of the proposed one, in order, each of which is taken over if it fits."""
    if needs.fits(observation, action[None])[0]:
        return Moved(action, 1.0)
    flat, base = action.reshape(-1), null.reshape(-1)
    differing = np.flatnonzero(flat != base)
    moved, kept = base.copy(), 0
    for component in differing:
        trial = moved.copy()
        trial[component] = flat[component]
        if needs.fits(observation, trial.reshape(1, *action.shape))[0]:
            moved, kept = trial, kept + 1
    return Moved(moved.reshape(action.shape), kept / len(differing))
