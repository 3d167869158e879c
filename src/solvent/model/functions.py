"""Models from functions: explore forward from the start and keep the states that can be reached."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from solvent.core.exact import exact
from solvent.core.progress import ProgressLike, open_progress
from solvent.errors import ModelError, looks_misspelled, quote
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP
from solvent.model.consistency import check_horizon
from solvent.model.ends import EndRewardLike, GoalLike, StartLike, first_states, read_start
from solvent.model.resources import ResourceLike


def from_function(
    start: StartLike,
    actions: Callable[..., Iterable[Hashable]],
    outcomes: Callable[..., Iterable[Any]],
    horizon: int,
    *,
    reward: Callable[..., float] | None = None,
    resources: Sequence[ResourceLike] = ("cost",),
    stationary: bool = True,
    max_states: int = 1_000_000,
    progress: ProgressLike = True,
    budget: BudgetLike | None = None,
    end_reward: EndRewardLike | None = None,
    must_end_in: GoalLike | None = None,
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
    # only states that can be reached are part of the model, so names of others are left out
    named: list[tuple[str, Hashable]] = []
    if isinstance(end_reward, Mapping):
        rewards = dict(end_reward)
        named += [("end_reward", state) for state in rewards]
        end_reward = lambda state: rewards.get(state, 0)  # noqa: E731
    if must_end_in is not None and not callable(must_end_in):
        goals = _as_set(must_end_in)
        named += [("must_end_in", state) for state in goals]
        must_end_in = lambda state: state in goals  # noqa: E731
    builder = Builder(
        horizon=horizon, start=start, resources=resources, budget=budget, end_reward=end_reward,
        must_end_in=must_end_in, name=name, description=description,
    )  # fmt: skip
    explore(
        builder, start, actions, outcomes, horizon,
        reward=reward, stationary=stationary, max_states=max_states, progress=progress,
    )  # fmt: skip
    model = builder.build()
    _warn_of_typos(model, named)
    return model


def _warn_of_typos(model: CMDP, named: list[tuple[str, Hashable]]) -> None:
    """Warn of states that were named but cannot be reached if they look like misspelled names of states that can."""
    reached = set(model.states)
    texts = [state for state in model.states if isinstance(state, str)]
    for where, state in named:
        if state in reached or not isinstance(state, str):
            continue
        similar = [name for name in texts if looks_misspelled(state, name)]
        if similar:
            warnings.warn(
                f"{where} names {quote(state)}, a state that cannot be reached and is left out; did you mean "
                f"{quote(similar[0])}?",
                stacklevel=4,
            )


def explore(
    builder: Builder,
    start: StartLike,
    actions: Callable[..., Iterable[Hashable]],
    outcomes: Callable[..., Iterable[Any]],
    horizon: int,
    *,
    reward: Callable[..., float] | None = None,
    stationary: bool = True,
    max_states: int = 1_000_000,
    progress: ProgressLike = True,
) -> None:
    """Add the rows of every state that can be reached from `start` within the horizon to a builder."""
    if isinstance(max_states, bool) or not isinstance(max_states, int) or max_states < 1:
        raise ModelError("max_states", "a whole number of at least 1", quote(max_states))
    reward = reward or (lambda *_: 0.0)
    layer = [_hashable(first, "start") for first in first_states(read_start(start))]
    seen: dict[Hashable, None] = dict.fromkeys(layer)
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
                        "raise max_states, or leave out of the state what does not matter to rewards, costs and next "
                        "states",
                    )
            layer = list(new if stationary else reached)
            seen.update(new)
            if not layer:
                break
    if not builder.has_rows:
        place = next(iter(seen))
        raise ModelError(f"actions({quote(place)})", "at least one action at the start", "none")


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


def _as_set(goals: Any) -> frozenset[Hashable]:
    """Return states named by a user as a set."""
    if isinstance(goals, str | bytes | Mapping) or not isinstance(goals, Iterable):
        raise ModelError("must_end_in", "a list of states", quote(goals))
    return frozenset(_hashable(state, "must_end_in") for state in goals)


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
