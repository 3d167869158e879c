"""Names and types of the arrays of a policy file."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Arrays that every policy file has: type and number of dimensions. `action_N` has a type that depends on the actions.
ARRAYS: dict[str, tuple[Any, int]] = {
    "step_indptr": (np.int64, 1),
    "group_state": (np.int32, 1),
    "node_indptr": (np.int64, 1),
    "spent_ND": (np.int64, 2),
}
#: Arrays that policy files have since format 3: initial amounts, floors and ceilings in ticks.
ACCOUNT_ARRAYS: dict[str, tuple[Any, int]] = {
    "initial_D": (np.int64, 1),
    "floor_D": (np.int64, 1),
    "ceiling_D": (np.int64, 1),
}
#: Arrays of policies with settled intervals.
SETTLED = ("settled_low_GD", "settled_high_GD")
#: All arrays of a policy with a horizon, and those that a policy for a discounted model has in addition.
KNOWN_ARRAYS = {*ARRAYS, "action_N", *SETTLED, *ACCOUNT_ARRAYS}
TAIL_ARRAYS = {"tail_action", "tail_value", "tail_most", "tail_least"}
#: In `tail_least`: there is no lower bound.
UNBOUNDED = ""
