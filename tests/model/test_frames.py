"""Models from frames and back; frames of all results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.core.frames import amounts_column, is_missing, read_columns
from solvent.errors import ModelError, SolventError
from solvent.model import instances

EXAMPLES = Path(solvent.examples.__file__).parent
VAN: dict[str, list[Any]] = {
    "state": ["home", "home", "away"],
    "action": ["go", "go", "rest"],
    "probability": [0.7, "3/10", 1],
    "next": ["home", "away", "away"],
    "cost_fuel": [1, "3/2", 0],
    "reward": [1, 3, 0],
}


def changed(**columns: Any) -> dict[str, Any]:
    return {key: value for key, value in {**VAN, **columns}.items() if value is not None}


def test_a_table_of_outcomes() -> None:
    model = solvent.CMDP.from_frame(VAN, horizon=3, start="home", budget=4, name="van")
    assert model.resources == ("fuel",)
    assert [str(each.cost["fuel"]) for each in model.outcomes(0)] == ["1", "3/2"]
    assert model.row_reward.tolist() == pytest.approx([0.7 + 0.9, 0])
    tank = solvent.Resource("fuel", floor=0)
    assert solvent.CMDP.from_frame(VAN, horizon=3, start="home", resources=[tank]).resource("fuel") == tank
    bare = solvent.CMDP.from_frame({"state": ["a"], "action": ["go"], "next": ["a"]}, horizon=1, start="a")
    assert (bare.n_outcomes, bare.resources) == (1, ())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (3, "from_frame: expected a table with named columns, such as a pandas DataFrame, found 'int'"),
        (changed(next=None), "from_frame: expected a column 'next', found columns 'state', 'action', 'probability'"),
        (
            changed(nxt=["a"] * 3),
            "from_frame: expected columns step, state, action, .*, found 'nxt'; did you mean 'next'",
        ),
        (
            changed(**{"cost_fuel": [0] * 3}) | {3: [0] * 3, "3": [0] * 3},
            "from_frame: expected each column once, found several columns '3'",
        ),
        (changed(reward=[1]), "from_frame: expected columns of equal length, found lengths 1, 3"),
        (changed(reward="abc"), "from_frame, column 'reward': expected a list, found 'abc'"),
        (changed(next=["home", None, "away"]), "from_frame, row 1, column 'next': expected a value, found none"),
        (
            changed(cost_fuel=[1, float("nan"), 2]),
            "from_frame, row 1, column 'cost_fuel': expected a value, found none",
        ),
        (changed(state=[["a"], "home", "away"]), "from_frame, row 0: expected hashable names"),
        (changed(probability=[0.7, 0.7, 1]), "home/go, probabilities: expected a sum of 1"),
    ],
)
def test_mistakes_in_frames(frame: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        solvent.CMDP.from_frame(frame, horizon=3, start="home")


@pytest.mark.parametrize("name", ["delivery-van", "drone", "cash-line", "robot", "reservoir"])
def test_models_come_back(name: str) -> None:
    pytest.importorskip("pandas")
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    frame = model.to_frame()
    assert ("step" in frame) == (not model.is_stationary)
    ends = None if model.may_end is None else [s for s, may in zip(model.states, model.may_end, strict=True) if may]
    again = solvent.CMDP.from_frame(
        frame, horizon=model.horizon, start=model.start, must_end_in=ends, budget=model.budget,
        resources=[model.resource(each) for each in model.resources],
    )  # fmt: skip
    assert again.n_outcomes == model.n_outcomes
    assert solvent.solve(again).value == solvent.solve(model).value


def test_costs_in_frames_are_exact() -> None:
    pd = pytest.importorskip("pandas")
    model = instances.knapsack([3, 4], ["1/3", 3], capacity=4)
    frame = model.to_frame()
    assert set(frame["cost_weight"]) == {"0", "1/3", "3"}
    assert set(instances.knapsack([3], [2]).to_frame()["cost_weight"]) == {0, 2}
    assert set(instances.knapsack([3], [0.1]).to_frame()["cost_weight"]) == {0.0, 0.1}
    campaign = solvent.load_model(EXAMPLES / "campaign.yaml").to_frame()
    assert any(isinstance(each, solvent.CostDistribution) for each in campaign["cost_money"])
    assert isinstance(frame, pd.DataFrame)


def test_frames_of_arrow() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({**VAN, "probability": [0.7, 0.3, 1.0], "cost_fuel": ["1", "3/2", "0"]})
    model = solvent.CMDP.from_frame(table, horizon=3, start="home")
    assert model.cost_range(0)[1] == 1.5


def test_columns() -> None:
    class Arrow:
        column_names = ("a",)

        def __getitem__(self, name: str) -> Any:
            assert name == "a"
            return type("Column", (), {"to_pylist": lambda _: [1, 2]})()

    assert read_columns(Arrow(), "here") == {"a": [1, 2]}
    assert read_columns({"a": np.array([1, 2])}, "here") == {"a": [1, 2]}
    assert amounts_column([]) == []
    assert not is_missing("nan")


def test_results_as_frames() -> None:
    pytest.importorskip("pandas")
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    solution = solvent.solve(model)
    report = solvent.verify(model, solution.policy)
    frame = report.to_frame()
    assert list(frame) == ["step", "worst_fuel", "least_fuel", "upper_fuel", "lower_fuel"]
    assert frame["worst_fuel"].tolist() == [int(x) for x in report.worst_spent_by_step["fuel"]]
    assert frame["lower_fuel"].isna().all()
    curve = solvent.frontier(model, "fuel", max_budget=40)
    frame = curve.to_frame()
    assert frame["budget"].tolist() == [int(x) for x in curve.budgets]
    assert all(curve.value(int(b)) == v for b, v in zip(frame["budget"], frame["value"], strict=True))
    greedy = solvent.baselines.unconstrained(model).policy
    frame = greedy.to_frame()
    assert set(frame["probability"]) == {1.0}
    assert {"step", "state", "action", "probability"} == set(frame)
    witness = solvent.verify(model, greedy, 10).witness
    assert witness is not None
    frame = witness.to_frame()
    assert len(frame) == len(witness)
    assert frame["spent_fuel"].iloc[-1] > 10


def test_randomized_policies_as_frames() -> None:
    pytest.importorskip("pandas")
    model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    found = solvent.baselines.chance(model, delta=0.3)
    frame = found.policy.to_frame()
    keys = ["step", "state", "spent_weight"]
    total = frame.fillna({"spent_weight": -1}).groupby(keys)["probability"].sum()
    assert np.allclose(total, 1)


def test_trajectories() -> None:
    model = solvent.load_model(EXAMPLES / "delivery-van.yaml")
    policy = solvent.solve(model).policy
    plain = solvent.simulate(model, policy, 500, seed=3)
    kept = solvent.simulate(model, policy, 500, seed=3, trajectories=20)
    assert plain.trajectories is None
    assert (plain.rewards == kept.rewards).all()
    traces = kept.trajectories
    assert traces is not None
    assert len(traces) == 20
    earned = np.zeros(20)
    for k in range(20):
        state, spent = model.start, 0
        for h in range(model.horizon):
            row, outcome = int(traces.row_HK[h, k]), int(traces.outcome_HK[h, k])
            if row < 0:
                assert model.is_terminal(h, model.state_index(state))
                break
            assert row in model.rows(h, model.state_index(state))
            assert policy.action(h, state, spent) == model.actions[model.row_action[row]]
            spent = max(0, spent + model.cost[0].value(outcome))
            assert traces.cost["fuel"][h][k] == model.cost[0].value(outcome)
            assert traces.spent["fuel"][h][k] == spent
            earned[k] += model.row_reward[row]
            state = model.states[model.next_state[outcome]]
    assert np.allclose(earned, kept.rewards[:20])
    for wrong in (-1, True, 2**20):
        with pytest.raises(ModelError, match="trajectories: expected a whole number from 0 to 131,072"):
            solvent.simulate(model, policy, 10, trajectories=wrong)


def test_simulations_as_frames() -> None:
    pytest.importorskip("pandas")
    model = solvent.load_model(EXAMPLES / "drone.yaml")
    policy = solvent.solve(model).policy
    found = solvent.simulate(model, policy, 300, seed=1, trajectories=50)
    frame = found.to_frame()
    assert len(frame) == 2 * model.horizon
    assert frame[frame["resource"] == "risk"]["q100"].tolist() == found.quantile("risk", 1).tolist()
    assert found.trajectories is not None
    log = found.trajectories.to_frame()
    assert list(log)[:6] == ["episode", "step", "state", "action", "reward", "next"]
    # what was recorded can be turned into a model again
    again = solvent.CMDP.from_episodes(log, model.horizon, resources=["battery", "risk"])
    assert set(again.states) <= set(model.states)
    assert again.cost_range(0)[1] <= model.cost_range(0)[1]


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = r'to_frame: expected pandas, found no such package; pip install "solvent\[pandas\]"'
    with pytest.raises(SolventError, match=message):
        instances.knapsack([1], [1]).to_frame()
