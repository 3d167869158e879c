"""Models as data frames: one row of a frame for each outcome, in the form that `solvent.model.frames` reads."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.core.frames import amounts_column, import_pandas
from solvent.model.distributions import CostDistribution

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

#: How the names of columns with costs begin.
COST = "cost_"


def to_frame(model: CMDP) -> Any:
    """Return a model as a frame; see `CMDP.to_frame`."""
    pd = import_pandas()
    lists: dict[str, list[Any]] = {key: [] for key in ("step", "state", "action", "probability", "next")}
    costs: list[list[Fraction | CostDistribution]] = [[] for _ in model.resources]
    rewards: list[float] = []
    for _, steps in model.steps_of_table():
        for step in [None] if model.is_stationary else steps:
            for s in range(model.n_states):
                for row in model.rows(steps[0], s):
                    for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
                        action, after = model.actions[model.row_action[row]], model.states[model.next_state[o]]
                        entry = (step, model.states[s], action, float(model.probability[o]), after)
                        for values, value in zip(lists.values(), entry, strict=True):
                            values.append(value)
                        for d, column in enumerate(costs):
                            column.append(model.cost_of(d, o))
                        rewards.append(float(model.row_reward[row]))
    named = {"state", "action", "next"}
    if model.is_stationary:
        del lists["step"]
    columns = {key: pd.Series(values, dtype=object) if key in named else values for key, values in lists.items()}
    for resource, amounts in zip(model.resources, costs, strict=True):
        plain = [each for each in amounts if not isinstance(each, CostDistribution)]
        columns[COST + resource] = (
            amounts_column(plain) if len(plain) == len(amounts) else pd.Series(amounts, dtype=object)
        )
    return pd.DataFrame(columns | {"reward": rewards})
