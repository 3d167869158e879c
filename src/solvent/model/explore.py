"""Models from functions: states are found by exploring forward from the start, so only what is reachable is kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from solvent.core.exact import exact
from solvent.core.progress import open_progress
from solvent.errors import ModelError, quote
from solvent.model.assemble import check_horizon
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP


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
    """Return the model of what can be reached from `start` within the horizon.

    Parameters
    ----------
    start : hashable
        The first state; states are whatever hashable values `outcomes` returns.
    actions : callable
        `actions(state)`: what can be done there; nothing, where the episode ends.
    outcomes : callable
        `outcomes(state, action)`: tuples as `Builder.add` takes them, `(probability, next state, cost[, reward])`.
    horizon : int
        Number of steps.
    reward : callable, optional
        `reward(state, action)`: expected reward of the row, added to rewards of outcomes.
    resources : sequence of str
        Names of what is spent.
    stationary : bool
        If False, all functions take the step first: `actions(step, state)` and so on, and each step has its own table.
    max_states : int
        How many states may be found before exploring is given up as hopeless.
    progress : bool
        Show a progress bar on a terminal when it takes long.
    budget : number, Budget, or dict of them by resource, optional
        The default, as in `CMDP.builder`.
    name, description : str
        For people.

    Raises
    ------
    ModelError
        If there are more than `max_states` states, or the functions return what does not make a model.

    Examples
    --------
    >>> def actions(floor):
    ...     return ["up", "stay"] if floor < 3 else []
    >>> def outcomes(floor, action):
    ...     return [(1, floor + 1, 2, 10)] if action == "up" else [(1, floor, 0)]
    >>> from_function(0, actions, outcomes, horizon=2).states
    (0, 1, 2)
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
    """Add to a builder the rows of every state that can be reached from `start` within the horizon."""
    if isinstance(max_states, bool) or not isinstance(max_states, int) or max_states < 1:
        raise ModelError("max_states", "a whole number of at least 1", quote(max_states))
    reward = reward or (lambda *_: 0.0)
    seen: dict[Hashable, None] = {_hashable(start, "start"): None}
    layer: list[Hashable] = [start]
    with open_progress(progress) as bar:
        for step in range(horizon):
            at = () if stationary else (step,)
            found: dict[Hashable, None] = {}
            fresh: dict[Hashable, None] = {}
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
                        found[outcome[1]] = None
                        if outcome[1] not in seen:
                            fresh[outcome[1]] = None
                if not offered and not stationary:
                    builder.terminal(state, steps=at)
                bar.report("exploring", step, horizon, {"states": len(seen) + len(fresh)})
                if len(seen) + len(fresh) > max_states:
                    raise ModelError(
                        "from_function",
                        f"at most {max_states} reachable states (max_states)",
                        f"more, by step {step}: among the newest is {quote(next(reversed(fresh)))}",
                        "raise max_states, or describe states by less",
                    )
            layer = list(fresh if stationary else found)
            seen.update(fresh)
            if not layer:
                break
    if not builder.has_rows:
        raise ModelError(f"actions({quote(start)})", "at least one action at the start", "none")


def _possible(outcomes: Iterable[Any]) -> list[Any]:
    """Leave out what has probability zero, so that where it leads is not explored; the builder checks the rest."""
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
    """Return what a user's function gave as a list; text is none, though it could be taken apart."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise ModelError(where, "a list, empty where the episode ends", quote(values))


def from_gymnasium(
    env: Any,
    cost: Any,
    horizon: int,
    *,
    start: Any = None,
    resources: Sequence[str] = ("cost",),
    budget: BudgetLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return the model of a Gymnasium environment that publishes its table as `env.unwrapped.P`.

    Parameters
    ----------
    env : gymnasium.Env
        An environment such as Taxi-v4, FrozenLake-v1 or CliffWalking-v1.
    cost : number, dict, sequence or callable
        The same cost for every step, or `cost(state, action, next_state)`.
    horizon : int
        Number of steps.
    start : int, optional
        The first state. If not given, the environment's own initial distribution decides: where it is a single state,
        that one; else the model begins in a state "reset" whose only action "reset" draws the first state at no cost,
        which takes one step more than `horizon`.
    resources : sequence of str
        Names of what is spent.
    budget : number, Budget, or dict of them by resource, optional
        The default, as in `CMDP.builder`.
    name, description : str
        For people.

    Notes
    -----
    A transition that ends the episode leads to a terminal state. Where the environment's table also has transitions
    that go on from the state of that number, the two are kept apart and the ended one is called `(state, "done")`.

    Examples
    --------
    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> from_gymnasium(lake, cost=1, horizon=20)
    CMDP('FrozenLake-v1': horizon 20, 16 states, 4 actions, 44 rows, 128 outcomes, stationary, resources ['cost'])
    """
    base = getattr(env, "unwrapped", env)
    table = getattr(base, "P", None)
    if table is None:
        raise ModelError(
            "from_gymnasium",
            "an environment with a transition table P",
            f"{type(base).__name__}, which has none",
            "use CMDP.from_function, or learn in the environment itself",
        )
    horizon = check_horizon(horizon)
    first = _starts(base, table, start)
    entered = _entered(table, first)
    ended = {state for state, done in entered if done}
    twins = {state for state, done in entered if not done} & ended
    final = ended - twins

    def state_name(state: int, done: bool) -> Hashable:
        return (state, "done") if done and state in twins else state

    def at_cost(state: int, action: int, following: int) -> Any:
        return cost(state, action, following) if callable(cost) else cost

    def actions(state: Hashable) -> Iterable[Hashable]:
        if state == "reset":
            return ["reset"]
        if isinstance(state, tuple) or state in final:
            return []
        return list(table[state])

    def outcomes(state: Any, action: Any) -> Iterable[Any]:
        if state == "reset":
            return [(p, s, [0] * len(resources)) for s, p in first.items()]
        return _merged(
            (float(p), state_name(int(s), bool(done)), at_cost(state, action, int(s)), float(r))
            for p, s, r, done in table[state][action]
            if p > 0
        )

    spec = getattr(env, "spec", None)
    drawn = len(first) > 1
    return from_function(
        "reset" if drawn else next(iter(first)),
        actions,
        outcomes,
        horizon + 1 if drawn else horizon,
        resources=resources,
        budget=budget,
        name=name or (spec.id if spec else type(base).__name__),
        description=description,
    )


def _starts(base: Any, table: Any, start: Any) -> dict[Any, float]:
    """Return the possible first states with their probabilities."""
    if start is not None:
        if start not in table:
            raise ModelError("start", f"a state of the table (0 to {len(table) - 1})", quote(start))
        return {start: 1.0}
    initial = getattr(base, "initial_state_distrib", None)
    if initial is None:
        raise ModelError(
            "from_gymnasium",
            "a start state",
            "an environment without an initial distribution",
            "pass start=...",
        )
    total = float(sum(initial))
    return {state: float(p) / total for state, p in enumerate(initial) if p > 0}


def _entered(table: Any, first: Iterable[Any]) -> set[tuple[int, bool]]:
    """Return every (state, episode over) that can be entered from the first states."""
    entered = {(int(state), False) for state in first}
    waiting = list(entered)
    while waiting:
        state, done = waiting.pop()
        if done:
            continue
        for transitions in table[state].values():
            for p, following, _, over in transitions:
                key = (int(following), bool(over))
                if p > 0 and key not in entered:
                    entered.add(key)
                    waiting.append(key)
    return entered


def _merged(
    outcomes: Iterable[tuple[float, Hashable, Any, float]],
) -> list[tuple[float, Hashable, Any, float]]:
    """Add up outcomes that lead to the same state at the same cost and reward."""
    total: dict[tuple[Hashable, str, float], tuple[float, Hashable, Any, float]] = {}
    for p, state, cost, reward in outcomes:
        key = (state, repr(cost), reward)
        before = total[key][0] if key in total else 0.0
        total[key] = (before + p, state, cost, reward)
    return list(total.values())
