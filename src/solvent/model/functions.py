"""Models from functions: explore forward from the start and keep the states that can be reached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from solvent.core.exact import exact
from solvent.core.progress import open_progress
from solvent.errors import ModelError, quote
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP
from solvent.model.validation import check_horizon


def from_function(
    start: Hashable,
    actions: Callable[..., Iterable[Hashable]],
    outcomes: Callable[..., Iterable[Any]],
    horizon: int,
    *,
    reward: Callable[..., float] | None = None,
    resources: Sequence[str] = ("cost",),
    stationary: bool = True,
    max_states: int = 1_000_000,
    progress: bool = True,
    budget: BudgetLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return a model of all states that can be reached; see `CMDP.from_function` for the parameters.

    Raises
    ------
    ModelError
        If there are more than `max_states` states, or if the functions return something invalid.
    """
    horizon = check_horizon(horizon)
    builder = Builder(
        horizon=horizon, start=start, resources=resources, budget=budget, name=name, description=description
    )
    explore(
        builder, start, actions, outcomes, horizon,
        reward=reward, stationary=stationary, max_states=max_states, progress=progress,
    )  # fmt: skip
    return builder.build()


def explore(
    builder: Builder,
    start: Hashable,
    actions: Callable[..., Iterable[Hashable]],
    outcomes: Callable[..., Iterable[Any]],
    horizon: int,
    *,
    reward: Callable[..., float] | None = None,
    stationary: bool = True,
    max_states: int = 1_000_000,
    progress: bool = True,
) -> None:
    """Add the rows of every state that can be reached from `start` within the horizon to a builder."""
    if isinstance(max_states, bool) or not isinstance(max_states, int) or max_states < 1:
        raise ModelError("max_states", "a whole number of at least 1", quote(max_states))
    reward = reward or (lambda *_: 0.0)
    seen: dict[Hashable, None] = {_hashable(start, "start"): None}
    layer: list[Hashable] = [start]
    with open_progress(progress) as bar:
        for step in range(horizon):
            at = () if stationary else (step,)
            reached: dict[Hashable, None] = {}
            new: dict[Hashable, None] = {}
            for state in layer:
                offered = _listed(actions(*at, state), f"actions({quote(state)})")
                for action in offered:
                    where = f"outcomes({quote(state)}, {quote(action)})"
                    listed = _possible(_listed(outcomes(*at, state, action), where))
                    builder.add(
                        state,
                        action,
                        outcomes=listed,
                        reward=reward(*at, state, action),
                        steps=None if stationary else at,
                    )
                    for outcome in listed:
                        reached[outcome[1]] = None
                        if outcome[1] not in seen:
                            new[outcome[1]] = None
                if not offered and not stationary:
                    builder.terminal(state, steps=at)
                bar.report("exploring", step, horizon, {"states": len(seen) + len(new)})
                if len(seen) + len(new) > max_states:
                    raise ModelError(
                        "from_function",
                        f"at most {max_states} reachable states (max_states)",
                        f"more, by step {step}: among the newest is {quote(next(reversed(new)))}",
                        "raise max_states, or describe states with fewer details",
                    )
            layer = list(new if stationary else reached)
            seen.update(new)
            if not layer:
                break
    if not builder.has_rows:
        raise ModelError(f"actions({quote(start)})", "at least one action at the start", "none")


def _possible(outcomes: Iterable[Any]) -> list[Any]:
    """Drop outcomes of probability zero, so that their next states are not explored."""
    listed = list(outcomes)
    kept = [each for each in listed if not (isinstance(each, Sequence) and len(each) and _is_zero(each[0]))]
    return kept or listed


def _is_zero(probability: Any) -> bool:
    if not isinstance(probability, str):
        return isinstance(probability, Number | np.number) and bool(probability == 0)
    try:
        return exact(probability) == 0
    except ModelError:
        return False


def _hashable(state: Any, where: str) -> Hashable:
    try:
        hash(state)
    except TypeError:
        raise ModelError(where, "a hashable state", quote(state)) from None
    return state  # type: ignore[no-any-return]


def _listed(values: Any, where: str) -> list[Any]:
    """Return the values that a user's function returned as a list; text and mappings are refused."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise ModelError(where, "a list (an empty one for a terminal state)", quote(values))
