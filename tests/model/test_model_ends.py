"""First states, end rewards and goals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvent import CMDP, ModelError
from solvent.model.ends import first_states, read_end_reward, read_must_end_in, read_start


def chain(**options: Any) -> CMDP:
    """Return a model of states a, b and the terminal state c."""
    b = CMDP.builder(**{"horizon": 3, "start": "a", "states": ["a", "b", "c"], **options})
    b.add("a", "go", outcomes=[(1, "b")])
    b.add("b", "go", outcomes=[(0.5, "a"), (0.5, "c")])
    return b.build()


# ---------------------------------------------------------------------------------------------------------------------
# first states


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
def test_distributions_are_read(weights: list[int]) -> None:
    total = sum(weights)
    read = read_start({i: Fraction(w, total) for i, w in enumerate(weights)})
    possible = {i: w / total for i, w in enumerate(weights) if w}
    assert read == (possible if len(possible) > 1 else next(iter(possible)))
    assert first_states(read) == tuple(possible)


def test_sums_are_normalized_within_the_tolerance() -> None:
    read = read_start({"a": 0.5, "b": 0.5 + 1e-10})
    assert isinstance(read, dict)
    assert math.fsum(read.values()) == pytest.approx(1, abs=1e-15)
    assert read_start({"a": 0.1, "b": 0.2, "c": 0.7}) == {"a": 0.1, "b": 0.2, "c": 0.7}


def test_a_possible_state_stays_possible() -> None:
    assert read_start({"a": 1, "b": Fraction(1, 10**399)}) == {"a": 1.0, "b": 5e-324}
    model = chain(start={"a": 1.0, "c": 5e-324})
    assert model.start_states.tolist() == [0, 2]
    assert (model.start_probability > 0).all()


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({}, r"^start: expected probabilities with a sum of 1 \(to within 1e-09\), found none$"),
        ({"a": 0}, r"^start: expected probabilities with a sum of 1 \(to within 1e-09\), found none$"),
        ({"a": 0.5, "b": 0.4}, r"^start: expected probabilities with a sum of 1 \(to within 1e-09\), found 0.9$"),
        ({"a": -0.5, "b": 1.5}, r"^start, probability of 'a': expected a number from 0 to 1, found -0.5$"),
        ({"a": float("nan")}, r"^start, probability of 'a': expected a number from 0 to 1, found nan$"),
        ({"a": float("inf")}, r"^start, probability of 'a': expected a number from 0 to 1, found inf$"),
        ({"a": "x"}, r"^start, probability of 'a': expected a finite number .* found 'x'$"),
        ({"a": None}, r"^start, probability of 'a': expected a finite number .* found None$"),
        (
            {"a": True},
            r"^start, probability of 'a': expected a finite number .* found True; int\(\.\.\.\) turns True into 1 .*$",
        ),
        ({"a": 0.5, "z": 0.5}, r"^start: expected a declared state, found unknown state 'z'$"),
    ],
)
def test_mistakes_in_distributions(start: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        chain(start=start)


def test_positions_and_probabilities() -> None:
    model = chain(start={"c": 0.25, "a": 0.75})
    assert model.start == {"c": 0.25, "a": 0.75}
    assert model.start_states.tolist() == [0, 2]
    assert model.start_probability.tolist() == [0.75, 0.25]
    with pytest.raises(
        ModelError, match=r"^start: expected a model with one first state, found a distribution over 2 st"
    ):
        _ = model.start_index
    one = chain(start={"b": 1})
    assert (one.start, one.start_index, one.start_states.tolist(), one.start_probability.tolist()) == ("b", 1, [1], [1])


def test_equal_distributions_in_another_order_are_the_same_model() -> None:
    one, other = chain(start={"c": 0.25, "a": 0.75}), chain(start={"a": 0.75, "c": 0.25})
    assert one == other
    assert hash(one) == hash(other)
    assert one.fingerprint == other.fingerprint
    different = [chain(start={"a": 0.5, "c": 0.5}), chain(start={"a": 0.75, "b": 0.25}), chain(start="a")]
    assert len({model.fingerprint for model in (one, *different)}) == 4


def test_numpy_names_in_a_distribution_have_the_fingerprint_of_python_names() -> None:
    def build(kind: Any) -> CMDP:
        b = CMDP.builder(horizon=1, start={kind(1): 0.5, kind(2): 0.5}, states=[kind(1), kind(2)])
        b.add(kind(1), "go", outcomes=[(1, kind(2))])
        return b.build()

    assert build(np.int64) == build(int)
    assert build(np.int64).fingerprint == build(int).fingerprint


def test_a_first_state_without_rows_is_declared() -> None:
    b = CMDP.builder(horizon=1, start={"a": 0.5, "d": 0.5})
    b.add("a", "go", outcomes=[(1, "a")])
    with pytest.raises(ModelError, match=r"^start: expected a state with actions or one declared terminal, found 'd'"):
        b.build()
    b.terminal("d")
    assert b.build().states == ("a", "d")


def test_functions_are_explored_from_every_first_state() -> None:
    def outcomes(state: int, action: str) -> list[Any]:
        return [(1, state + 1, 0)]

    model = CMDP.from_function({0: 0.5, 10: 0.5, 99: 0}, lambda s: ["go"], outcomes, 2)
    assert set(model.states) == {0, 1, 2, 10, 11, 12}
    assert model.start == {0: 0.5, 10: 0.5}
    by_step = CMDP.from_function(
        {0: 0.5, 10: 0.5}, lambda t, s: ["go"], lambda t, s, a: outcomes(s, a), 2, stationary=False
    )
    assert set(by_step.states) == {0, 1, 2, 10, 11, 12}


def test_arrays_start_by_position_or_name() -> None:
    P = np.eye(2)[:, None, :]
    model = CMDP.from_arrays(P, [[0], [0]], [[0], [0]], horizon=1, start={0: 0.5, 1: "1/2"})
    assert model.start == {0: 0.5, 1: 0.5}
    named = CMDP.from_arrays(P, [[0], [0]], [[0], [0]], horizon=1, start={"y": 1}, states=["x", "y"])
    assert named.start == "y"


# ---------------------------------------------------------------------------------------------------------------------
# end rewards


@pytest.mark.parametrize(
    "reward", [{"a": 2, "c": "1/2"}, [2, 0, 0.5], np.array([2, 0, 0.5]), lambda s: {"a": 2, "c": 0.5}.get(s, 0)]
)
def test_end_rewards_are_read(reward: Any) -> None:
    model = chain(end_reward=reward)
    assert model.end_reward is not None
    assert model.end_reward.tolist() == [2, 0, 0.5]
    assert not model.end_reward.flags.writeable
    assert model.has_end_values
    assert model.end_value.tolist() == [2, 0, 0.5]
    assert model == chain(end_reward={"a": 2, "c": 0.5})
    assert model.fingerprint == chain(end_reward={"a": 2, "c": 0.5}).fingerprint
    assert model != chain()
    assert model.fingerprint != chain().fingerprint


@pytest.mark.parametrize("reward", [None, {}, {"a": 0}, [0, 0, 0], lambda s: 0, {"b": -0.0}])
def test_no_end_reward_is_none(reward: Any) -> None:
    model = chain(end_reward=reward)
    assert model.end_reward is None
    assert not model.has_end_values
    assert model.end_value.tolist() == [0, 0, 0]
    assert model.fingerprint == chain().fingerprint


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ({"aa": 1}, r"^end_reward: expected states of the model, found unknown state 'aa'; did you mean 'a'\?$"),
        ({"a": "x"}, r"^end_reward of 'a': expected a finite number .* found 'x'$"),
        ({"a": float("nan")}, r"^end_reward of 'a': expected a finite number, found nan$"),
        ({"a": 10**400}, r"^end_reward of 'a': expected a number a float can hold, found"),
        ({"a": -1e301}, r"^end_reward of 'a': expected at most 1e\+300 in size, .* found -1e\+301$"),
        ([1, 2], r"^end_reward: expected 3 numbers, one per state, found 2$"),
        ([1, 2, None], r"^end_reward of 'c': expected a finite number .* found None$"),
        ("abc", r"^end_reward: expected a dict of numbers by state, found 'abc'$"),
        (5, r"^end_reward: expected a dict of numbers by state, found 5$"),
        (lambda s: None, r"^end_reward of 'a': expected a finite number .* found None$"),
    ],
)
def test_mistakes_in_end_rewards(reward: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        chain(end_reward=reward)


# ---------------------------------------------------------------------------------------------------------------------
# goals


@pytest.mark.parametrize("goals", [["a", "c"], {"a", "c"}, iter(["c", "a"]), lambda s: s != "b", ("a", "c", "a")])
def test_goals_are_read(goals: Any) -> None:
    model = chain(must_end_in=goals, end_reward={"a": 3, "b": 1})
    assert model.may_end is not None
    assert model.may_end.tolist() == [True, False, True]
    assert not model.may_end.flags.writeable
    assert model.end_value.tolist() == [3, -math.inf, 0]
    assert model.has_end_values
    assert model.fingerprint not in (chain().fingerprint, chain(end_reward={"a": 3, "b": 1}).fingerprint)


@pytest.mark.parametrize("goals", [None, ["a", "b", "c"], lambda s: True])
def test_every_state_as_a_goal_is_no_goal(goals: Any) -> None:
    assert chain(must_end_in=goals).may_end is None
    assert chain(must_end_in=goals) == chain()


@pytest.mark.parametrize(
    ("goals", "message"),
    [
        (["cc"], r"^must_end_in: expected states of the model, found unknown state 'cc'; did you mean 'c'\?$"),
        ([["c"]], r"^must_end_in: expected states of the model, found unknown state \['c'\]"),
        ([], r"^must_end_in: expected at least one state, found none; leave it out if an episode may end anywhere$"),
        ("c", r"^must_end_in: expected a list of states, found 'c'$"),
        ({"c": True}, r"^must_end_in: expected a list of states, found {'c': True}$"),
        (3, r"^must_end_in: expected a list of states, found 3$"),
    ],
)
def test_mistakes_in_goals(goals: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        chain(must_end_in=goals)


def test_readers_take_names_that_cannot_be_hashed_or_compared() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            return "odd"

    with pytest.raises(ModelError, match=r"unknown state odd"):
        read_must_end_in([Odd()], ["a"])
    with pytest.raises(ModelError, match=r"unknown state 'b'"):
        read_end_reward({"b": 1}, ["a"])


def walk(**options: Any) -> CMDP:
    return CMDP.from_function(0, lambda s: ["go"], lambda s, a: [(1, s + 1, 0)], 3, **options)


def test_functions_leave_out_goals_that_cannot_be_reached() -> None:
    model = walk(must_end_in=[3, 77], end_reward={3: 5, 77: 9})
    assert model.states == (0, 1, 2, 3)
    assert model.may_end is not None
    assert model.end_reward is not None
    assert model.may_end.tolist() == [False, False, False, True]
    assert model.end_reward.tolist() == [0, 0, 0, 5]
    nowhere = walk(must_end_in=[77])
    assert nowhere.may_end is not None
    assert not nowhere.may_end.any()
    by_rule = walk(must_end_in=lambda s: s > 2, end_reward=lambda s: s)
    assert by_rule.end_value.tolist() == [-math.inf, -math.inf, -math.inf, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"must_end_in": "x"}, r"^must_end_in: expected a list of states, found 'x'$"),
        ({"must_end_in": [[1]]}, r"^must_end_in: expected a hashable state, found \[1\]$"),
        ({"end_reward": {3: "x"}}, r"^end_reward of 3: expected a finite number .* found 'x'$"),
    ],
)
def test_mistakes_in_ends_of_functions(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        walk(**options)


def test_arrays_have_ends() -> None:
    P = np.eye(2)[:, None, :]
    model = CMDP.from_arrays(P, [[0], [0]], [[0], [0]], horizon=1, end_reward=[1, "1/4"], must_end_in=[1])
    assert model.end_value.tolist() == [-math.inf, 0.25]


@pytest.mark.parametrize("options", [{"end_reward": {0: 1}}, {"must_end_in": [0]}])
def test_discounted_models_have_no_end(options: dict[str, Any]) -> None:
    (field,) = options
    message = rf"^{field}: expected none, as a discounted model has no last step, found \[0\]$"
    discounted: dict[str, Any] = {"horizon": None, "discount": 0.5, **options}
    with pytest.raises(ModelError, match=message):
        CMDP.builder(start=0, **discounted)
    with pytest.raises(ModelError, match=message):
        CMDP.from_arrays(np.ones((1, 1, 1)), [[0]], [[0]], **discounted)
    with pytest.raises(ModelError, match=message):
        CMDP.from_function(0, lambda s: ["go"], lambda s, a: [(1, 0, 0)], **discounted)


def test_discounted_models_have_one_first_state() -> None:
    b = CMDP.builder(horizon=None, discount=0.5, start={0: 0.5, 1: 0.5}, states=[0, 1])
    b.add(0, 0, outcomes=[(1, 0)])
    with pytest.raises(
        ModelError, match=r"^start: expected one state, as discounted models need, found a distribution ov"
    ):
        b.build()
