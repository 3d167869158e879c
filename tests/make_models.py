"""Random small models for Hypothesis: awkward names, exact costs of all kinds, steps, distributions, budgets,
resources that saturate, several first states, end rewards and goals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

import solvent
from solvent import CMDP, Budget

AWKWARD = [
    "no",
    "on",
    "1",
    "1.0",
    "null",
    "~",
    "true",
    "<<",
    "=",
    "",
    " ",
    "a: b",
    "- x",
    "#",
    "1e5",
    "0x1F",
    "2001-01-01",
]
AWKWARD += [
    "it's",
    '"',
    "two\nlines\n",
    " lead\nb",
    "tab\t",
    "\x00\x07",
    "\x85\u2028",
    "é",
    "\U0001f600",
    "\ufeff",
    "%",
    "@",
]

text_names = st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
simple_names = st.one_of(text_names, st.integers(-(2**70), 2**70), st.sampled_from([0.5, -1e300, 5e-324]))
names = st.one_of(simple_names, st.lists(simple_names, min_size=1, max_size=3).map(tuple))

plain_costs = st.one_of(
    st.integers(-5, 5),
    st.fractions(-3, 3, max_denominator=30),
    st.sampled_from(["1/3", "0.25", "-.5", "1e-3", 0.1, 0.30000000000000004, -2.5]),
)
wide_costs = st.one_of(
    plain_costs,
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e-300, 1e300, 5e-324, Fraction(1, 10**400), 10**400, "7/1000000007"]),
)


@st.composite
def distributions(draw: Any) -> solvent.CostDistribution:
    low = draw(st.fractions(-3, 3, max_denominator=8))
    high = low + draw(st.fractions(Fraction(1, 8), 4, max_denominator=8))
    name = draw(st.sampled_from(["uniform", "triangular", "truncated_normal", "beta", "exponential"]))
    extra: dict[str, Any] = {
        "uniform": {},
        "triangular": {"mode": (low + high) / 2},
        "truncated_normal": {"mean": "1/3", "sd": 0.1},
        "beta": {"a": 2, "b": "5/2"},
        "exponential": {"scale": 1.5},
    }[name]
    return solvent.distribution(name, negate=draw(st.booleans()), low=low, high=high, **extra)


@st.composite
def budgets(draw: Any, horizon: int) -> Any:
    limit = st.fractions(-3, 9, max_denominator=12)
    kind = draw(st.sampled_from(["number", "none", "steps", "final", "both", "lower"]))
    if kind == "number":
        return draw(limit)
    if kind == "none":
        return None
    if kind == "steps":
        return draw(st.lists(st.none() | limit, min_size=horizon, max_size=horizon))
    if kind == "final":
        return Budget.final(draw(limit))
    if kind == "lower":
        return Budget(lower=draw(limit))
    low = draw(limit)
    return Budget(upper=[low + 1] * horizon, lower=low)


@st.composite
def saturating(draw: Any, name: str) -> Any:
    """A resource: a name, or one with a floor, a ceiling or both."""
    floor, ceiling = (draw(st.none() | st.fractions(-3, 3, max_denominator=12)) for _ in range(2))
    if floor is not None and ceiling is not None:
        floor, ceiling = min(floor, ceiling), max(floor, ceiling)
    return draw(st.sampled_from([name, solvent.Resource(name, floor=floor, ceiling=ceiling)]))


@st.composite
def starts(draw: Any, states: list[Any]) -> Any:
    """The first of the states, or a distribution over some of them."""
    if draw(st.booleans()):
        return states[0]
    weights = draw(st.dictionaries(st.sampled_from(states), st.integers(1, 9), min_size=1))
    return {state: Fraction(weight, sum(weights.values())) for state, weight in weights.items()}


@st.composite
def models(draw: Any, *, wide: bool = False, with_distributions: bool = True, with_ends: bool = True) -> CMDP:
    """A model that any file can hold."""
    horizon = draw(st.integers(1, 4))
    unique = {"unique_by": lambda name: name, "min_size": 1, "max_size": 3}
    states, actions = draw(st.lists(names, **unique)), draw(st.lists(names, **unique))
    resources = draw(st.lists(st.one_of(text_names.filter(bool), st.just("distribution")), unique=True, max_size=2))
    number = wide_costs if wide else plain_costs
    cost = st.one_of(number, number, distributions()) if with_distributions else number
    budget = {name: draw(budgets(horizon)) for name in resources} if draw(st.booleans()) else None
    ends: dict[str, Any] = {}
    if with_ends and draw(st.booleans()):
        some = st.sets(st.sampled_from(states))
        ends = {
            "end_reward": {state: draw(rewards) for state in draw(some)} if draw(st.booleans()) else None,
            "must_end_in": draw(some).__contains__ if draw(st.booleans()) else None,
        }
    builder = CMDP.builder(
        horizon=horizon,
        start=draw(starts(states)) if with_ends else states[0],
        resources=[draw(saturating(name)) for name in resources] if with_ends else resources,
        states=states,
        budget=budget,
        name=draw(text_names),
        description=draw(text_names),
        **ends,
    )

    def outcomes() -> list[tuple[Any, ...]]:
        weights = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
        return [
            (Fraction(w, sum(weights)), draw(st.sampled_from(states)), [draw(cost) for _ in resources]) for w in weights
        ]

    for i, state in enumerate(states):
        # the first state always acts; the others may be terminal, or act at some steps and end at the rest
        if i and draw(st.booleans()):
            continue
        acting = sorted(draw(st.sets(st.integers(0, horizon - 1), min_size=1))) if i else list(range(horizon))
        idle = [step for step in range(horizon) if step not in acting]
        if idle:
            builder.terminal(state, steps=idle)
        for action in actions:
            if draw(st.booleans()):
                builder.add(state, action, outcomes=outcomes(), reward=draw(rewards), steps=acting)
            else:
                for step in reversed(acting):
                    builder.add(state, action, outcomes=outcomes(), reward=draw(rewards), steps=[step])
    return builder.build()


rewards = st.one_of(st.integers(-9, 9), st.floats(-1e299, 1e299), st.just("1/3"))
