"""Named tuples of arrays that the kernels of boxes take and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Boxes(NamedTuple):
    """Boxes of amounts for each (step, state), and where their values are stored.

    After the last step, each state in which an episode may end has a box of one amount.

    Attributes
    ----------
    low : ndarray of int64, shape (H + 1, S, D)
        The lowest ticks of each resource.
    width : ndarray of int64, shape (H + 1, S, D)
        Number of amounts of each resource; 0 for all of them where there is no box.
    arrival_low, arrival_width : ndarray of int64, shape (H + 1, S, D)
        The same for the amounts that outcomes of the step before lead to, which may lie beyond the box.
    pitch_H : ndarray of int64, shape (H + 1,)
        Distance between consecutive rows of the last resource, in values of the step and arrivals of the next one.
    offset : ndarray of int64, shape (H + 1, S + 1)
        Position of the first value of each box among those of its step; last, their number.
    arrival_offset : ndarray of int64, shape (H + 1, S + 1)
        The same for arrivals.
    cell : ndarray of int64, shape (H + 1, S + 1)
        Number of the first amount of each box, counting all amounts of the step; last, their number.
    """

    low: NDArray[np.int64]
    width: NDArray[np.int64]
    arrival_low: NDArray[np.int64]
    arrival_width: NDArray[np.int64]
    pitch_H: NDArray[np.int64]
    offset: NDArray[np.int64]
    arrival_offset: NDArray[np.int64]
    cell: NDArray[np.int64]


class Reach(NamedTuple):
    """Amounts that can have been spent before a step in each state; int64 arrays of shape (S, D).

    The low end exceeds the high end where a state cannot be reached.
    """

    low_SD: NDArray[np.int64]
    high_SD: NDArray[np.int64]


class BoxSizes(NamedTuple):
    """Sizes per step, as floats, which do not overflow.

    Attributes
    ----------
    cells_H : ndarray of float64, shape (H + 1,)
        Number of amounts in boxes.
    stored_H : ndarray of float64, shape (H + 1,)
        Number of values that are stored for boxes.
    arrivals_H : ndarray of float64, shape (H + 1,)
        Number of values that are stored for arrivals.
    work_H : ndarray of float64, shape (H + 1,)
        Number of outcomes that are evaluated.
    """

    cells_H: NDArray[np.float64]
    stored_H: NDArray[np.float64]
    arrivals_H: NDArray[np.float64]
    work_H: NDArray[np.float64]


class SweptStep(NamedTuple):
    """Values and best rows of all boxes of a step, which are written over those of the following step.

    Attributes
    ----------
    value : ndarray of float64, shape (N,)
    row : ndarray of uint16, shape (N,)
        1 + the position of the best row among those of its state; 0 at dead ends and in terminal states.
    reward_S : ndarray of float64, shape (S,)
        Largest reward, and at least 0, of a row that can be taken somewhere in a box.
    same_2S : ndarray of bool, shape (2, S)
        Whether the box of each state and its values are those of the following step, for steps of even and odd number.
    """

    value: NDArray[np.float64]
    row: NDArray[np.uint16]
    reward_S: NDArray[np.float64]
    same_2S: NDArray[np.bool_]


class RowRuns(NamedTuple):
    """Best rows of consecutive amounts of a step, where equal ones are one run.

    Attributes
    ----------
    start : ndarray of int32, shape (N,)
        Number of the first amount of each run, counting all amounts of the step.
    row : ndarray of uint16, shape (N,)
        As in `SweptStep`.
    """

    start: NDArray[np.int32]
    row: NDArray[np.uint16]


class StepRuns(NamedTuple):
    """Runs of best rows of all steps, one after another.

    Attributes
    ----------
    start, row : ndarray of int32 and uint16, shape (N,)
        As in `RowRuns`.
    first_H, end_H : ndarray of int64, shape (H,)
        Positions of the first run of each step, and after the last one.
    """

    start: NDArray[np.int32]
    row: NDArray[np.uint16]
    first_H: NDArray[np.int64]
    end_H: NDArray[np.int64]


class SweepBuffers(NamedTuple):
    """Arrays long enough for every step of a sweep.

    Attributes
    ----------
    swept : SweptStep
    arrival : ndarray of float64
        Values of arrivals of one step.
    """

    swept: SweptStep
    arrival: NDArray[np.float64]


class ReachedCells(NamedTuple):
    """Amounts that a policy leads to, with probabilities and bounds on the true amounts spent there.

    Attributes
    ----------
    cell : ndarray of int64, shape (N,)
        Their numbers, counting all amounts of the step.
    state : ndarray of int32, shape (N,)
    row : ndarray of int64, shape (N,)
        The row that is taken; -1 where the episode has ended.
    probability : ndarray of float64, shape (N,)
    most_ND, least_ND : ndarray of int64, shape (N, D)
    """

    cell: NDArray[np.int64]
    state: NDArray[np.int32]
    row: NDArray[np.int64]
    probability: NDArray[np.float64]
    most_ND: NDArray[np.int64]
    least_ND: NDArray[np.int64]


class FollowedSteps(NamedTuple):
    """What a policy earns and spends.

    Attributes
    ----------
    reward, size : ndarray of float64, shape (H,) or (H + 1,)
        As in `accuracy.Followed`.
    peak_HD, trough_HD : ndarray of int64, shape (H, D)
        The most and the least spent after each step.
    ended_peak_D, ended_trough_D : ndarray of int64, shape (D,)
        In episodes that have ended.
    """

    reward: NDArray[np.float64]
    size: NDArray[np.float64]
    peak_HD: NDArray[np.int64]
    trough_HD: NDArray[np.int64]
    ended_peak_D: NDArray[np.int64]
    ended_trough_D: NDArray[np.int64]
