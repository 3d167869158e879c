from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import solvent
from solvent import CMDP, Budget, ModelError


def walk(limit: int = 10**9) -> dict[str, Any]:
    """A counter that goes up or stays and is terminal at the limit."""
    return {
        "start": 0,
        "actions": lambda n: ["up", "stay"] if n < limit else [],
        "outcomes": lambda n, a: [(1, n + 1, 2, 10)] if a == "up" else [(1, n, 0)],
    }


def test_only_reachable_states_are_kept() -> None:
    model = CMDP.from_function(**walk(), horizon=3, reward=lambda n, a: n)
    assert model.states == (0, 1, 2, 3)
    assert model.is_stationary
    # the last state is entered only after the last step, so its actions are not requested
    assert [model.is_terminal(0, s) for s in range(4)] == [False, False, False, True]
    assert model.row_reward.tolist() == [10, 0, 11, 1, 12, 2]
    assert model.outcomes(2) == [(1.0, 2, {"cost": 2})]


def test_a_state_with_no_actions_ends_the_episode() -> None:
    model = CMDP.from_function(**walk(limit=2), horizon=10)
    assert model.states == (0, 1, 2)
    assert model.is_terminal(5, 2)
    assert model.n_rows == 4


def test_states_are_any_hashable_values() -> None:
    def outcomes(state: Any, action: Any) -> Any:
        yield Fraction(1, 2), frozenset({action}), {"x": 1}
        yield Fraction(1, 2), None, {"y": "1/3"}

    model = CMDP.from_function(
        (0, "a"),
        lambda s: [True, "go"] if s is not None else [],
        outcomes,
        2,
        resources=["x", "y"],
        budget={"x": 1, "y": 2},
    )
    assert set(model.states) == {(0, "a"), frozenset({True}), frozenset({"go"}), None}
    assert model.budget == {"x": Budget(1), "y": Budget(2)}
    assert model.is_terminal(1, model.state_index(None))


@pytest.mark.parametrize("zero", [0, 0.0, "0", "0/5", Fraction(0)])
def test_outcomes_of_probability_zero_are_not_explored(zero: Any) -> None:
    def outcomes(n: int, action: str) -> Any:
        return [(zero, n + 1, 5), (1, n, 1)]

    model = CMDP.from_function(0, lambda n: ["go"], outcomes, 4)
    assert model.states == (0,)
    assert model.n_outcomes == 1


def test_time_varying_functions_take_the_step() -> None:
    model = CMDP.from_function(
        "s",
        lambda step, state: ["go"] if step < 2 else [],
        lambda step, state, action: [(1, "s", step % 2)],
        4,
        stationary=False,
        reward=lambda step, state, action: 10 * step,
    )
    assert [model.is_terminal(step, 0) for step in range(4)] == [False, False, True, True]
    assert [model.row_reward[model.rows(step, 0)[0]] for step in (0, 1)] == [0, 10]
    assert [model.outcomes(model.rows(step, 0)[0])[0].cost["cost"] for step in (0, 1)] == [0, 1]
    assert model.n_tables == 3


def test_time_varying_tables_have_only_states_reached_at_that_step() -> None:
    model = CMDP.from_function(0, lambda step, n: ["go"], lambda step, n, action: [(1, n + 1, 0)], 3, stationary=False)
    for step in range(3):
        assert [s for s in range(4) if not model.is_terminal(step, s)] == [step]


def test_equal_steps_are_one_table() -> None:
    model = CMDP.from_function(0, lambda h, n: ["go"], lambda h, n, a: [(1, 0, 1)], 9, stationary=False)
    assert model.is_stationary


def test_max_states_is_exact_and_has_a_hint() -> None:
    assert CMDP.from_function(**walk(), horizon=9, max_states=10).n_states == 10
    message = (
        r"from_function: expected at most 9 reachable states \(max_states\), found more, by step 8: among the newest"
    )
    with pytest.raises(
        ModelError, match=message + r" is 9; raise max_states, or leave out of the state what does not matter"
    ):
        CMDP.from_function(**walk(), horizon=9, max_states=9)
    with pytest.raises(ModelError, match="max_states: expected a whole number of at least 1, found 0"):
        CMDP.from_function(**walk(), horizon=9, max_states=0)


def test_states_seen_before_do_not_count_again() -> None:
    model = CMDP.from_function(
        0, lambda h, n: [0, 1], lambda h, n, a: [(1, (n + a) % 3, 1)], 20, stationary=False, max_states=3
    )
    assert model.n_states == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [1]}, r"start: expected a hashable state"),
        ({"actions": lambda n: []}, r"actions\(0\): expected at least one action at the start, found none"),
        ({"actions": lambda n: ["up", "up"]}, r"0/up: expected each row once"),
        ({"outcomes": lambda n, a: [(0.5, n, 0)]}, r"0/up, probabilities: expected a sum of 1"),
        ({"outcomes": lambda n, a: [(1, [n], 0)]}, r"0/up, outcome 0, next state: expected a hashable state name"),
        ({"outcomes": lambda n, a: [5]}, r"0/up, outcome 0: expected \(probability, next state\)"),
        ({"outcomes": lambda n, a: [(0, n, 0)]}, r"0/up, probabilities: expected a sum of 1"),
        ({"outcomes": lambda n, a: []}, r"0/up: expected at least one outcome"),
        ({"horizon": 0}, r"horizon"),
    ],
)
def test_functions_with_invalid_results(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        CMDP.from_function(**{**walk(), "horizon": 3, **change})


def test_errors_in_functions_are_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        CMDP.from_function(0, lambda n: ["go"], lambda n, a: [(1, 1 / n, 0)], 3)


def test_a_progress_bar_leaves_the_model_unchanged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("solvent.core.progress.PATIENCE", 0.0)
    model = CMDP.from_function(**walk(), horizon=600)
    assert model.n_states == 601
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("given", [None, "go", 3, {"go": 1}])
def test_functions_must_return_lists(given: Any) -> None:
    with pytest.raises(ModelError, match=r"actions\(0\): expected a list \(an empty one for a terminal state\), found"):
        CMDP.from_function(0, lambda _: given, lambda *_: [(1, 0, 0)], 2)
    with pytest.raises(ModelError, match=r"outcomes\(0, 'go'\): expected a list"):
        CMDP.from_function(0, lambda _: ["go"], lambda *_: given, 2)


def test_states_with_truth_values_can_be_saved(tmp_path: Path) -> None:
    def outcomes(state: tuple[int, bool], action: str) -> list[tuple[Any, ...]]:
        return [(1, (state[0] + 1, not state[1]), 1)]

    model = CMDP.from_function((0, False), lambda _: ["on"], outcomes, 3)
    for ending in ("yaml", "json", "npz"):
        model.save(tmp_path / f"model.{ending}")
        assert solvent.load_model(tmp_path / f"model.{ending}") == model


def test_misspelled_goals_are_warned_of() -> None:
    def build(**ends: Any) -> CMDP:
        return CMDP.from_function("road", lambda s: ["go"], lambda s, a: [(1, "harbor", 1)], 2, progress=False, **ends)

    text = "must_end_in names 'harbr', a state that cannot be reached and is left out; did you mean 'harbor'"
    with pytest.warns(UserWarning, match=text):
        model = build(must_end_in=["harbr"])
    assert solvent.solve(model, 9).status == "infeasible"
    with pytest.warns(UserWarning, match="end_reward names 'raod', .* did you mean 'road'"):
        build(end_reward={"raod": 1})
    assert build(must_end_in=["harbor", "airport"]).may_end is not None  # too far away to be a slip
