"""Hypothesis strategies: tiny random problems, small enough to go through all their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.model.resources import Resource

COSTS = [
    Fraction(text)
    for text in ["0", "0", "0", "1", "1", "2", "1/2", "1/3", "3/2", "0.1", "0.7", "-1", "-1", "-1/2", "-2", "-1/3"]
]
LIMITS = [
    Fraction(text) for text in ["0", "1", "1", "2", "2", "3", "4", "1/2", "5/2", "1/3", "0.3", "10", "-1", "-1/2", "-2"]
]
limits = st.sampled_from(LIMITS)
REWARDS = [0, 1, 2, 3, -1, -2, 0.5, 0.1, -0.25, 10]


@dataclass(frozen=True)
class Tiny:
    """A problem: a model and a budget for it."""

    model: CMDP
    budget: Any
    spent: dict[str, Fraction] | None = None


#: What problems may have besides rows and limits.
FEATURES = ("floor", "ceiling", "initial", "start", "end_reward", "goal")
LEVELS = [Fraction(text) for text in ["0", "0", "1", "1", "2", "1/2", "1/3", "5/2", "10"]]
#: Initial amounts: on, off and beyond usual limits, floors and ceilings.
INITIAL = [Fraction(text) for text in ["0", "1", "1", "2", "1/2", "1/3", "5/2", "10", "-1", "-1/2"]]
END_REWARDS = [*REWARDS, 100, -100, 0.3, 1e-9]


@st.composite
def costs(draw: st.DrawFn, n_resources: int) -> list[Fraction]:
    return [draw(st.sampled_from(COSTS)) for _ in range(n_resources)]


@st.composite
def outcomes(draw: st.DrawFn, n_states: int, n_resources: int, most: int = 3) -> list[tuple[Any, ...]]:
    weights = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most))
    listed = [
        (Fraction(weight, sum(weights)), draw(st.integers(0, n_states - 1)), draw(costs(n_resources)))
        for weight in weights
    ]
    if n_resources and draw(st.integers(0, 9)) == 0:
        # an impossible outcome does not count, regardless of its cost
        listed.append((0, 0, [Fraction(10**6)] * n_resources))
    return listed


@st.composite
def models(
    draw: st.DrawFn,
    max_resources: int = 3,
    min_resources: int = 0,
    terminals: bool = True,
    rest: bool | None = None,
    max_horizon: int = 4,
    certain: bool = False,
    features: Sequence[str] = (),
) -> CMDP:
    """Models of 1-4 states, 1-3 actions and 0-3 resources.

    Parameters
    ----------
    terminals : bool
        Whether the episode may end early, in some states always and in others at some steps.
    rest : bool, optional
        Whether every state has an action that costs nothing; drawn if not given.
    certain : bool
        Whether nothing is left to chance.
    features : sequence of str
        Which of `FEATURES` the model has; plain models if none is given.
    """
    n_states, n_actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    horizon, n_resources = draw(st.integers(1, max_horizon)), draw(st.integers(min_resources, max_resources))
    resources = [draw(resource(f"r{i}", features)) for i in range(n_resources)]
    b = CMDP.builder(horizon=horizon, resources=resources, **draw(starts_and_ends(n_states, features)))
    has_rest = draw(st.booleans()) if rest is None else rest
    for state in range(n_states):
        if terminals and state and draw(st.integers(0, 3)) == 0:
            b.terminal(state)
            continue
        idle = set(range(horizon))
        for action in range(n_actions):
            # the first action of a model without ends holds at all steps, the others come and go
            always = draw(st.booleans()) or (action == 0 and (not terminals or state == 0))
            steps = range(horizon) if always else draw(st.sets(st.integers(0, horizon - 1)))
            varying = draw(st.booleans())
            for when in [[step] for step in sorted(steps)] if varying else [sorted(steps)]:
                if when:
                    reward = draw(st.sampled_from(REWARDS))
                    rows = draw(outcomes(n_states, n_resources, 1 if certain else 3))
                    b.add(state, f"a{action}", reward=reward, outcomes=rows, steps=when)
            idle -= set(steps)
        if has_rest and (not terminals or len(idle) < horizon):
            b.add(state, "rest", reward=draw(st.sampled_from([0, -1])), outcomes=[(1, state)])
        elif idle:
            b.terminal(state, steps=sorted(idle))
    return b.build()


@st.composite
def resource(draw: st.DrawFn, name: str, features: Sequence[str]) -> Resource:
    """A resource around whose initial amount of 0 there may be a floor and a ceiling."""
    levels = st.sampled_from(LEVELS)
    floor = -draw(levels) if "floor" in features and draw(st.integers(0, 4)) else None
    ceiling = draw(levels) if "ceiling" in features and draw(st.integers(0, 4)) else None
    return Resource(name, floor=floor, ceiling=ceiling)


@st.composite
def starts_and_ends(draw: st.DrawFn, n_states: int, features: Sequence[str]) -> dict[str, Any]:
    """The builder's arguments for where episodes begin and end."""
    found: dict[str, Any] = {"start": 0}
    states = st.integers(0, n_states - 1)
    if "start" in features:
        weights = draw(st.dictionaries(states, st.integers(1, 3), min_size=1))
        found["start"] = {state: Fraction(weight, sum(weights.values())) for state, weight in weights.items()}
    if "end_reward" in features:
        found["end_reward"] = draw(st.dictionaries(states, st.sampled_from(END_REWARDS)))
    if "goal" in features:
        found["must_end_in"] = draw(st.sets(states, min_size=1))
    return found


@st.composite
def side(draw: st.DrawFn, horizon: int, shift: int = 0) -> list[Fraction | None]:
    """One limit per step, some of them open."""
    return [draw(st.none() | limits.map(lambda x: x + shift)) for _ in range(horizon)]


#: Kinds of budgets: what frontiers take, and everything.
ONE_SIDED = "number number upper lower final final_lower"
ALL_KINDS = f"{ONE_SIDED} none interval box final_box"


@st.composite
def budgets(draw: st.DrawFn, horizon: int, kinds: str = ALL_KINDS) -> Any:
    """The budget of one resource."""
    kind = draw(st.sampled_from(kinds.split()))
    if kind == "none":
        return None
    if kind == "number":
        return draw(limits)
    if kind == "upper":
        return Budget(upper=draw(side(horizon)))
    if kind == "lower":
        return Budget(lower=_negative(draw(side(horizon))))
    if kind == "final":
        return Budget.final(draw(limits))
    if kind == "final_lower":
        return Budget.final(lower=-draw(limits))
    if kind == "final_box":
        low, high = sorted(draw(st.tuples(limits, limits)))
        return Budget.final(high, lower=low - 1)
    if kind == "box":
        return Budget(upper=draw(limits) + 3, lower=-draw(limits) - 1)
    upper, lower = draw(side(horizon, 1)), _negative(draw(side(horizon)))
    pairs = zip(upper, lower, strict=True)
    return Budget(upper=upper, lower=[None if None not in (high, low) and low > high else low for high, low in pairs])


def _negative(limits_of_steps: list[Fraction | None]) -> list[Fraction | None]:
    return [None if limit is None else -limit for limit in limits_of_steps]


@st.composite
def problems(draw: st.DrawFn, kinds: str = ALL_KINDS, **options: Any) -> Tiny:
    """A model and a budget for each of its resources."""
    model = draw(models(**options))
    budget = {name: draw(budgets(model.horizon, kinds)) for name in model.resources}
    if "initial" not in options.get("features", ()):
        return Tiny(model, budget)
    initial = {name: draw(st.sampled_from(INITIAL)) for name in model.resources}
    return Tiny(model, budget, {name: model.resource(name).clamp(amount) for name, amount in initial.items()})


def one_sided_problems(kinds: str = ONE_SIDED, **options: Any) -> st.SearchStrategy[Tiny]:
    """Problems that frontiers take: one resource, limited on one side."""
    tiny = problems(kinds, min_resources=1, max_resources=1, **options)
    return tiny.filter(lambda problem: len(resolve(problem.model, problem.budget).resources) == 1)
