"""Models from data frames: one row of a frame for each outcome.

step     state    action    probability    next    cost_fuel    reward
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from solvent.core.frames import is_missing, read_columns
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.ends import EndRewardLike, GoalLike, StartLike
from solvent.model.outcome_frames import COST
from solvent.model.resources import ResourceLike, as_resources

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_COLUMNS = ("step", "state", "action", "probability", "next", "reward")


def from_frame(
    frame: Any,
    *,
    horizon: int,
    start: StartLike,
    resources: Sequence[ResourceLike] | None = None,
    budget: BudgetLike | None = None,
    end_reward: EndRewardLike | None = None,
    must_end_in: GoalLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return the model of a frame; see `CMDP.from_frame` for the parameters.

    Raises
    ------
    ModelError
        If a column is missing or unknown, or the rows are not a valid model.
    """
    columns = read_columns(frame, "from_frame")
    accounts = _resources(columns, resources)
    names = [each.name for each in accounts]
    for required in ("state", "action", "next"):
        if required not in columns:
            raise ModelError("from_frame", f"a column {required!r}", f"columns {', '.join(map(quote, columns))}")
    known = [*_COLUMNS, *(COST + each for each in names)]
    for column in columns:
        if column not in known:
            raise ModelError("from_frame", f"columns {', '.join(known)}", quote(column), did_you_mean(column, known))
    for column, values in columns.items():
        missing = [i for i, value in enumerate(values) if is_missing(value)]
        if missing:
            raise ModelError(f"from_frame, row {missing[0]}, column {quote(column)}", "a value", "none")
    n_rows = len(columns["state"])
    rewards, chances = (columns.get(key, [value] * n_rows) for key, value in (("reward", 0), ("probability", 1)))
    costs = [columns.get(COST + each, [0] * n_rows) for each in names]
    grouped: dict[tuple[Hashable, Hashable, Any], list[int]] = {}
    for i, key in enumerate(
        zip(columns["state"], columns["action"], columns.get("step", [None] * n_rows), strict=True)
    ):
        try:
            grouped.setdefault(key, []).append(i)
        except TypeError:
            raise ModelError(f"from_frame, row {i}", "hashable names", quote(key[:2])) from None
    builder = Builder(
        horizon=horizon, start=start, resources=accounts, budget=budget, end_reward=end_reward,
        must_end_in=must_end_in, name=name, description=description,
    )  # fmt: skip
    for (state, action, step), members in grouped.items():
        # a reward that all outcomes share is that of the row, without rounding
        shared = len({str(rewards[i]) for i in members}) == 1
        builder.add(
            state,
            action,
            outcomes=[
                (chances[i], columns["next"][i], [column[i] for column in costs], 0 if shared else rewards[i])
                for i in members
            ],
            reward=rewards[members[0]] if shared else 0,
            steps=None if step is None else [step],
        )
    return builder.build()


def _resources(columns: dict[str, list[Any]], resources: Sequence[ResourceLike] | None) -> tuple[Any, ...]:
    if resources is not None:
        return as_resources(resources)
    return as_resources([name.removeprefix(COST) for name in columns if name.startswith(COST)])
