"""Tiny discounted models for Hypothesis, and all their histories."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from solvent import CMDP, DiscountedCMDP
from strategies import REWARDS, outcomes

HALF = Fraction(1, 2)


@st.composite
def discounted(
    draw: st.DrawFn,
    max_resources: int = 2,
    min_resources: int = 1,
    discounts: tuple[Any, ...] = (HALF,),
    rest: bool = True,
) -> DiscountedCMDP:
    """Models of 1-3 states, some of them terminal; with `rest`, each other state has an action that costs nothing."""
    n_states, n_actions = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    n_resources = draw(st.integers(min_resources, max_resources))
    b = CMDP.builder(
        discount=draw(st.sampled_from(discounts)), start=0, resources=[f"r{i}" for i in range(n_resources)]
    )
    for state in range(n_states):
        if state and draw(st.integers(0, 3)) == 0:
            b.terminal(state)
            continue
        for action in range(n_actions):
            reward = draw(st.sampled_from(REWARDS))
            b.add(state, f"a{action}", reward=reward, outcomes=draw(outcomes(n_states, n_resources)))
        if rest:
            b.add(state, "rest", outcomes=[(1, state)])
    return b.build()


def tail_sums(model: DiscountedCMDP, resource: int, state: int, depth: int, rule: Any = None) -> set[Fraction]:
    """Every sum c_0 + g c_1 + ... of up to `depth` further steps from a state, by a rule or by anything."""
    base, g = model.base, model.discount
    sums = {Fraction(0)}
    if depth == 0:
        return sums
    for row in base.rows(0, state):
        if rule is None or base.row_action[row] == rule[state]:
            for o in range(int(base.outcome_indptr[row]), int(base.outcome_indptr[row + 1])):
                cost = base.cost_of(resource, o)
                assert isinstance(cost, Fraction)
                later = tail_sums(model, resource, int(base.next_state[o]), depth - 1, rule)
                sums |= {cost + g * each for each in later}
    return sums


def walk(agent: Any, model: DiscountedCMDP, steps: int, rng: np.random.Generator) -> Iterator[dict[str, Fraction]]:
    """Follow an agent through one history drawn at random; yield what is spent, added up here, after each step."""
    base = model.base
    spent = dict.fromkeys(base.resources, Fraction(0))
    state = base.start_index
    for step in range(steps):
        if agent.done:
            return
        action = base.action_index(agent.act())
        (row,) = [r for r in base.rows(0, state) if base.row_action[r] == action]
        o = int(rng.integers(int(base.outcome_indptr[row]), int(base.outcome_indptr[row + 1])))
        state = int(base.next_state[o])
        cost = {name: base.cost_of(d, o) for d, name in enumerate(base.resources)}
        agent.observe(base.states[state], cost)
        spent = {name: spent[name] + model.discount**step * cost[name] for name in spent}  # type: ignore[operator]
        yield spent
