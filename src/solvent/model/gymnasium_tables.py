"""Models from Gymnasium environments that publish their transition table, such as the toy text environments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from solvent.errors import ModelError, quote
from solvent.model.budget import BudgetLike
from solvent.model.cmdp import CMDP
from solvent.model.consistency import check_horizon
from solvent.model.ends import EndRewardLike, GoalLike
from solvent.model.functions import from_function
from solvent.model.resources import ResourceLike


def from_gymnasium(
    env: Any,
    cost: Any,
    horizon: int,
    *,
    start: Any = None,
    resources: Sequence[ResourceLike] = ("cost",),
    budget: BudgetLike | None = None,
    end_reward: EndRewardLike | None = None,
    must_end_in: GoalLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return the model of an environment with a transition table; see `CMDP.from_gymnasium` for the parameters.

    Raises
    ------
    ModelError
        If the environment has no transition table, or no initial distribution and `start` is not given.
    """
    base = getattr(env, "unwrapped", env)
    table = getattr(base, "P", None)
    if table is None:
        raise ModelError(
            "from_gymnasium",
            "an environment with a transition table P",
            f"{type(base).__name__}, which has none",
            "use CMDP.from_function, or solvent.learn with the environment",
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
        if isinstance(state, tuple) or state in final:
            return []
        return list(table[state])

    def outcomes(state: Any, action: Any) -> Iterable[Any]:
        return _merged(
            (float(p), state_name(int(s), bool(done)), at_cost(state, action, int(s)), float(r))
            for p, s, r, done in table[state][action]
            if p > 0
        )

    spec = getattr(env, "spec", None)
    return from_function(
        first,
        actions,
        outcomes,
        horizon,
        resources=resources,
        budget=budget,
        end_reward=end_reward,
        must_end_in=must_end_in,
        name=name or (spec.id if spec else type(base).__name__),
        description=description,
    )


def _starts(base: Any, table: Any, start: Any) -> dict[Any, Any]:
    """Return the probability of each possible first state."""
    if start is not None:
        given = start if isinstance(start, Mapping) else {start: 1}
        for state in given:
            if state not in table:
                raise ModelError("start", f"a state of the table (0 to {len(table) - 1})", quote(state))
        return dict(given)
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
    """Return every pair (state, whether the episode has ended) that can be entered from the first states."""
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
    """Merge outcomes with the same next state, cost and reward by adding their probabilities."""
    total: dict[tuple[Hashable, str, float], tuple[float, Hashable, Any, float]] = {}
    for p, state, cost, reward in outcomes:
        key = (state, repr(cost), reward)
        before = total[key][0] if key in total else 0.0
        total[key] = (before + p, state, cost, reward)
    return list(total.values())
