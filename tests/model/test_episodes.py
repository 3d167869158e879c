"""Models estimated from recorded episodes."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.errors import ModelError
from solvent.model import instances

LOG: list[list[Any]] = [
    [("home", "go", 1, 5, "away"), ("away", "back", 2, 0, "home")],
    [("home", "go", 2, 7, "away")],
    [("home", "go", 1, 6, "home"), ("home", "go", 1, 6, "away")],
]


def shares(model: solvent.CMDP, row: int) -> dict[Any, float]:
    return {(each.next_state, each.cost["fuel"]): each.probability for each in model.outcomes(row)}


def test_probabilities_are_shares_of_visits() -> None:
    model = solvent.CMDP.from_episodes(LOG, 4, resources=["fuel"])
    counts = solvent.EpisodeCounts.of(model, LOG)
    go, back = (r for s in ("home", "away") for r in model.rows(0, model.state_index(s)))
    assert shares(model, go) == {("away", 1): 0.5, ("away", 2): 0.25, ("home", 1): 0.25}
    assert model.row_reward.tolist() == [6, 0]
    assert counts.row_counts.tolist() == [4, 1]
    assert sorted(counts.outcome_counts.tolist()) == [1, 1, 1, 2]
    assert (counts.episodes, counts.steps, model.start) == (3, 5, "home")
    assert model.description == (
        "Estimated from 3 episodes with 5 steps. A policy never exceeds its budget if every step has one of the "
        "recorded outcomes (next state and costs). Outcomes that were not recorded are taken to be impossible. "
        "Probabilities, rewards and values are estimates."
    )
    assert shares(model, back) == {("home", 2): 1}


def test_the_support_can_be_widened() -> None:
    support = {("home", "go"): [("lost", 9), ("away", 1)]}
    model = solvent.CMDP.from_episodes(LOG, 4, resources=["fuel"], support=support, widen="1/2", unseen=1)
    [go] = model.rows(0, model.state_index("home"))
    added = {("lost", 9), ("lost", Fraction(19, 2)), ("away", Fraction(5, 2)), ("home", Fraction(3, 2))}
    found = shares(model, go)
    assert set(found) == {("away", 1), ("away", 2), ("home", 1), *added}
    assert found["away", 1] == 2 / 8
    assert found["lost", 9] == 1 / 8
    assert model.is_terminal(0, model.state_index("lost"))
    counts = solvent.EpisodeCounts.of(model, LOG)
    assert (counts.outcome_counts == 0).sum() == 5  # one of them for coming back
    assert "or one of the 5 that support and widen added." in model.description
    # what is added counts like any other outcome
    narrow = solvent.CMDP.from_episodes(LOG, 4, resources=["fuel"])
    assert solvent.solve(narrow, 8).worst_spent["fuel"] <= 8
    assert solvent.solve(model, 8).status == "infeasible"
    function = solvent.CMDP.from_episodes(
        LOG, 4, resources=["fuel"], support=lambda *pair: support.get(pair, []), widen={"fuel": "1/2"}, unseen=1,
    )  # fmt: skip
    assert function == model


def test_first_states_are_drawn_as_recorded() -> None:
    log = [*LOG, [("away", "back", 2, 0, "home")]]
    model = solvent.CMDP.from_episodes(log, 4, resources=["fuel"])
    assert model.start == {"home": 0.75, "away": 0.25}
    assert solvent.CMDP.from_episodes(log, 4, resources=["fuel"], start="home").start == "home"


def test_logs_as_tables() -> None:
    columns: dict[str, list[Any]] = {key: [] for key in ("episode", "state", "action", "cost_fuel", "reward", "next")}
    for i, episode in enumerate(LOG):
        for state, action, cost, reward, after in episode:
            for values, value in zip(columns.values(), (i, state, action, cost, reward, after), strict=True):
                values.append(value)
    assert solvent.CMDP.from_episodes(columns, 4, resources=["fuel"]) == solvent.CMDP.from_episodes(
        LOG, 4, resources=["fuel"]
    )
    del columns["next"]
    with pytest.raises(ModelError, match="episodes: expected a column 'next', found columns 'episode', 'state'"):
        solvent.CMDP.from_episodes(columns, 4, resources=["fuel"])


def test_estimates_approach_the_model() -> None:
    model = instances.random(n_states=3, n_actions=2, horizon=4, seed=5)
    rng = np.random.default_rng(0)
    log = []
    for _ in range(4000):
        episode, s = [], int(rng.choice(model.start_states, p=model.start_probability))
        for h in range(model.horizon):
            rows = model.rows(h, s)
            row = int(rng.integers(rows.start, rows.stop))
            first, last = int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])
            o = int(rng.choice(np.arange(first, last), p=model.probability[first:last]))
            after = int(model.next_state[o])
            action = model.actions[model.row_action[row]]
            episode.append(
                (model.states[s], action, model.cost[0].value(o), model.row_reward[row], model.states[after])
            )
            s = after
        log.append(episode)
    estimate = solvent.CMDP.from_episodes(log, model.horizon, resources=model.resources)
    budget = {model.resources[0]: 6}
    true, found = solvent.solve(model, budget), solvent.solve(estimate, budget)
    assert found.value == pytest.approx(true.value, abs=0.15)
    # all outcomes were recorded, so the policy keeps the budget in the true model
    assert solvent.verify(model, found.policy.action, budget).feasible


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        (3, {}, "episodes: expected a list of episodes, or a frame, found 3"),
        ([], {}, "episodes: expected at least one step, found none"),
        ([3], {}, "episode 0: expected a list of"),
        ([[("a", "go")]], {}, r"episode 0, step 0: expected \(state, action, cost, reward, next state\)"),
        ([[("a", "go", 1, 2, ["b"])]], {}, "episode 0, step 0: expected a hashable next state"),
        ([[("a", "go", 1, 2, None)]], {}, "episode 0, step 0: expected a next state, found none"),
        ([[("a", "go", "x", 2, "b")]], {}, "episode 0, step 0.*: expected a finite number"),
        ([[("a", "go", 1, 2, "b"), ("a", "go", 1, 2, "b")]], {}, "episode 0, step 1: expected to go on from 'b'"),
        (LOG, {"unseen": 0}, "unseen: expected a number above 0, found 0"),
        (LOG, {"widen": -1}, "widen: expected amounts of at least 0, found"),
        (LOG, {"widen": {"time": 1}}, r"widen: expected resources \('cost'\), found 'time'"),
        (LOG, {"widen": 1, "resources": ["a", "b"]}, ".*"),
        (LOG, {"support": 3}, r"support: expected a dict of outcomes by \(state, action\), or a function, found 3"),
        (LOG, {"support": {("x", "y"): []}}, r"support: expected pairs \(state, action\) that were recorded"),
        (
            LOG,
            {"support": {("home", "go"): [3]}},
            r"support of \('home', 'go'\): expected \(next state, cost\), found 3",
        ),
        (
            LOG,
            {"support": {("home", "go"): 3}},
            r"support of \('home', 'go'\): expected a list of \(next state, cost\)",
        ),
    ],
)
def test_mistakes_in_logs(log: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        solvent.CMDP.from_episodes(log, 3, **options)


def columns(**changes: list[Any]) -> dict[str, list[Any]]:
    """Two episodes as columns, the steps of the first in the wrong order."""
    return {
        "episode": [0, 1, 0],
        "step": [1, 0, 0],
        "state": ["away", "away", "home"],
        "action": ["back", "back", "go"],
        "cost_fuel": [1, 2, 3],
        "reward": [0, 0, 5],
        "next": ["home", "home", "away"],
        **changes,
    }


def test_steps_of_a_frame_have_an_order() -> None:
    model = solvent.CMDP.from_episodes(columns(), 3, resources=["fuel"])
    assert model.start == {"away": 0.5, "home": 0.5}
    assert solvent.EpisodeCounts.of(model, columns()).episodes == 2
    for changes, message in (
        ({"episode": [0, None, 0]}, "episodes, row 1, column 'episode': expected a value, found none"),
        ({"step": [1, 0, float("nan")]}, "episodes, row 2, column 'step': expected a value, found none"),
        ({"step": [1, "0", 0]}, "episodes, column 'step': expected numbers, found values that have no order"),
    ):
        with pytest.raises(ModelError, match=message):
            solvent.CMDP.from_episodes(columns(**changes), 3, resources=["fuel"])


def test_other_episodes_are_counted_too() -> None:
    model = solvent.CMDP.from_episodes(LOG, 4, resources=["fuel"])
    counts = solvent.EpisodeCounts.of(model, [[("away", "back", 2, 100, "home")]])
    assert counts.row_counts.sum() == counts.outcome_counts.sum() == 1
    assert repr(counts) == "EpisodeCounts(1 episodes, 1 steps, 2 rows, 1 outcomes recorded, 3 not recorded)"


def test_frames_of_episodes_are_counted() -> None:
    pytest.importorskip("pandas")
    van = solvent.examples.load("delivery-van")
    frame = solvent.simulate(van, solvent.solve(van).policy, 20, trajectories=20).trajectories.to_frame()
    counts = solvent.EpisodeCounts.of(van, frame)
    assert (counts.episodes, counts.steps) == (20, len(frame))


def test_tables_by_step_are_told_apart() -> None:
    builder = solvent.CMDP.builder(horizon=2, start="a", resources=["cost"])
    builder.add("a", "go", outcomes=[(1, "a", 1)], steps=[0])
    builder.add("a", "go", outcomes=[(1, "a", 2)], steps=[1])
    model = builder.build()
    assert solvent.EpisodeCounts.of(model, [[("a", "go", 1, 0, "a"), ("a", "go", 2, 0, "a")]]).row_counts.tolist() == [
        1,
        1,
    ]
    with pytest.raises(
        ModelError, match=r"^episode 0, step 0, state 'a', action 'go': expected an outcome of the model, "
    ):
        solvent.EpisodeCounts.of(model, [[("a", "go", 2, 0, "a")]])
    steps = [("a", "go", 1, 0, "a"), ("a", "go", 2, 0, "a"), ("a", "go", 1, 0, "a")]
    message = (
        "episode 0, step 2: expected at most 2 steps, as in the model, whose rows depend on the step, found another "
        "step; leave out the steps after the last one of the model"
    )
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        solvent.EpisodeCounts.of(model, [steps])


def test_a_stationary_model_may_have_longer_episodes() -> None:
    long = [[("a", "go", 1, 2, "a")] * 5, [("a", "go", 2, 2, "a")]]
    model = solvent.CMDP.from_episodes(long, 2)
    assert (model.horizon, model.probability.tolist()) == (2, [5 / 6, 1 / 6])
    counts = solvent.EpisodeCounts.of(model, long)
    assert (counts.episodes, counts.steps, counts.outcome_counts.tolist()) == (2, 6, [5, 1])


def test_records_of_equal_outcomes_are_divided_by_their_probabilities() -> None:
    builder = solvent.CMDP.builder(horizon=2, start="a", resources=["cost"])
    builder.add("a", "go", outcomes=[(0.25, "a", 1), (0.25, "b", 1), (0.125, "a", 1), (0.375, "a", 2)])
    builder.terminal("b")
    model = builder.build()
    log = [[("a", "go", 1, 0, "a")]] * 9 + [[("a", "go", 1, 0, "b")]] * 4 + [[("a", "go", 2, 0, "a")]]
    counts = solvent.EpisodeCounts.of(model, log)
    assert counts.row_counts.tolist() == [14]
    assert counts.outcome_counts.tolist() == [6, 4, 3, 1]
    one = solvent.EpisodeCounts.of(model, log[:1])
    assert one.outcome_counts.tolist() == [1, 0, 0, 0]


def test_outcomes_that_the_model_lacks_are_refused() -> None:
    model = solvent.CMDP.from_episodes(LOG, 4, resources=["fuel"])
    message = (
        "episode 0, step 0, state 'home', action 'go': expected an outcome of the model, "
        "found next state 'away' with costs {'fuel': '3'}"
    )
    with pytest.raises(ModelError, match="^" + re.escape(message)):
        solvent.EpisodeCounts.of(model, [[("home", "go", 3, 0, "away")]])
    with pytest.raises(ModelError, match=r"^episode 0, step 0, reward: expected a finite number, found nan"):
        solvent.EpisodeCounts.of(model, [[("home", "go", 1, float("nan"), "away")]])
    with pytest.raises(ModelError, match=r"^model: expected a CMDP, found 3"):
        solvent.EpisodeCounts.of(3, LOG)
    builder = solvent.CMDP.builder(horizon=1, start="a", resources=["cost"])
    builder.add("a", "go", outcomes=[(1, "a", solvent.distribution("uniform", low=0, high=1))])
    with pytest.raises(
        ModelError, match=r"^EpisodeCounts.of: .*expected an exact cost, so that outcomes can be counted"
    ):
        solvent.EpisodeCounts.of(builder.build(), [[("a", "go", 1, 0, "a")]])
