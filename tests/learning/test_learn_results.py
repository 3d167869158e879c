"""Results of learning: episodes, files, frames, plots; ranges of returns; real-valued costs that are rounded up."""

from __future__ import annotations

import pickle
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walker import Walker

import solvent
from effort import draws
from solvent import CMDP, LearnResult, ModelError, SolventError, Status, instances
from solvent.core.archives import read_archive, write_archive
from solvent.gym import ModelEnv
from solvent.learning import WandbLog


def grid(**options: Any) -> LearnResult:
    return solvent.learn(instances.fuel_grid(3), epsilon=1e-6, max_episodes=300, seed=2, **options)


def impossible() -> CMDP:
    return instances.knapsack([1, 1], [3, 4], capacity=-1)


def test_returns_and_costs_of_episodes_are_those_of_the_environment() -> None:
    model = instances.random(3, 2, horizon=4, cost_range=(0, 2), budget=5, seed=4)
    model = CMDP(**{**vars(model), "states": (0, 1, 2), "actions": (0, 1), "start": 0, "budget": None})

    class Recorder(Walker):
        returns: list[float]
        costs: list[Fraction]

        def reset(self, *, seed: int | None = None) -> Any:
            self.returns.append(0.0)
            self.costs.append(Fraction(0))
            return super().reset(seed=seed)

        def step(self, action: Any) -> Any:
            result = super().step(action)
            self.returns[-1] += result[1]
            self.costs[-1] += result[4]["cost"]
            return result

    for known in ({"support": model}, {"cost_bound": 2, "budget": 8}, {"cost_support": "learned"}):
        env = Recorder(model)
        env.returns, env.costs = list[float](), list[Fraction]()
        limit = known.pop("budget", 5)
        learned = solvent.learn(env, 4, {"r0": limit}, epsilon=1e-6, max_episodes=60, cost="cost", **known)
        assert learned.returns.tolist() == env.returns[1:]
        assert learned.costs[:, 0].tolist() == [float(cost) for cost in env.costs[1:]]
        assert learned.resources == ("r0",)


def test_returns_and_costs_of_episodes_in_a_model() -> None:
    learned = grid()
    model = instances.fuel_grid(3)
    assert learned.returns.shape == (300,)
    assert learned.costs.shape == (300, 1)
    assert learned.costs.max() <= model.budget["fuel"].upper  # type: ignore[index, operator]
    assert abs(learned.returns[-100:].mean() - solvent.solve(model).value) < 1


def test_files(tmp_path: Path) -> None:
    learned, file = grid(), tmp_path / "grid.learned"
    learned.save(file)
    loaded = LearnResult.load(file, instances.fuel_grid(3))
    kept = "status value_lower value_upper gap guaranteed episodes history message model_name limits"
    for name in kept.split():
        assert getattr(loaded, name) == getattr(learned, name)
    assert loaded.policy == learned.policy
    assert loaded.returns.tolist() == learned.returns.tolist()
    assert loaded.costs.tolist() == learned.costs.tolist()
    assert solvent.verify(instances.fuel_grid(3), loaded.policy).feasible
    assert pickle.loads(pickle.dumps(loaded)).policy == learned.policy
    nothing = solvent.learn(impossible())
    nothing.save(file)
    assert LearnResult.load(file).status is Status.INFEASIBLE
    with pytest.raises(ModelError, match=r"nowhere: expected a result of learning, found no such file"):
        LearnResult.load(tmp_path / "nowhere")
    learned.policy.save(file)
    with pytest.raises(ModelError, match=r"grid.learned: header: expected a result of learning of format 3, found no"):
        LearnResult.load(file)
    file.write_text("hello")
    with pytest.raises(ModelError, match=r"expected a result, as LearnResult.save writes it, found text that begins"):
        LearnResult.load(file)


def test_files_that_no_run_wrote(tmp_path: Path) -> None:
    learned, file = grid(), tmp_path / "grid.learned"
    learned.save(file)
    arrays, header = read_archive(file.read_bytes())
    wrong: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {name: value})
        for name, value in [
            ("status", "optimal"), ("status", 3), ("episodes", -1), ("episodes", True), ("violations", 301),
            ("model_name", 3), ("limits", []), ("limits", {"fuel": 3}),
            ("resources", [3]), ("resources", ["a", "b"]), ("guaranteed", 1), ("message", None), ("episodes", 10**30),
        ]
    ]  # fmt: skip
    wrong += [
        ({name: array}, {})
        for name, array in [
            ("bounds", np.array([np.nan, 1.0, 1.0])), ("bounds", np.ones(2)), ("returns", np.ones(3)),
            ("costs", np.ones((300, 2))), ("policy", np.empty(0, np.uint8)), ("policy", np.zeros(9, np.uint8)),
            ("history", np.ones((2, 5))), ("history", np.full((2, 6), 0.5)), ("history", np.full((2, 6), np.inf)),
            ("strange", np.ones(1)),
        ]
    ]  # fmt: skip
    for changed, fields in wrong:
        file.write_bytes(write_archive(arrays | changed, header | fields))
        with pytest.raises((ModelError, solvent.PolicyError), match=r"grid\.learned"):
            LearnResult.load(file)


def test_files_without_the_name_of_the_model(tmp_path: Path) -> None:
    learned, file = grid(), tmp_path / "grid.learned"
    learned.save(file)
    arrays, header = read_archive(file.read_bytes())
    older = {name: value for name, value in header.items() if name not in ("model_name", "limits")}
    file.write_bytes(write_archive(arrays, older))
    loaded = LearnResult.load(file)
    assert (loaded.model_name, loaded.limits) == ("", {})
    assert loaded.policy == learned.policy
    assert loaded.plot().get_title(loc="left").startswith("gap ")


def test_results_know_their_problem() -> None:
    learned = grid()
    assert learned.model_name == instances.fuel_grid(3).name != ""
    assert learned.limits == {"fuel": learned.policy.limits.texts["fuel"]}
    nothing = solvent.learn(impossible())
    assert nothing.status is Status.INFEASIBLE
    assert nothing.limits == {"weight": "at most -1"}
    title = " ".join(learned.plot().get_title(loc="left").split())
    assert title.startswith(f"fuel_grid(3), fuel {learned.limits['fuel']}: gap ")
    assert "fuel_grid(3)" in learned._repr_html_()


def test_frames() -> None:
    pytest.importorskip("pandas")
    learned = grid()
    frame = learned.to_frame()
    assert list(frame.columns) == ["return", "spent_fuel"]
    assert len(frame) == 300
    plans = learned.to_frame(by="plan")
    assert plans["gap"].tolist() == [each.gap for each in learned.history]
    with pytest.raises(ModelError, match="by: expected 'episode' or 'plan', found 'day'"):
        learned.to_frame(by="day")  # type: ignore[arg-type]


def test_plots() -> None:
    axes = grid().plot()
    assert [line.get_label() for line in axes.lines] == [
        "upper bound on the optimum", "lower bound on the policy", "mean return while learning",
    ]  # fmt: skip
    assert "0 of 300 episodes over budget" in axes.get_title(loc="left") + axes.get_title()
    with pytest.raises(ModelError, match="result: expected a LearnResult, found 3"):
        solvent.plot.learning(3)
    with pytest.raises(ModelError, match="result: expected a result with plans, found none"):
        solvent.plot.learning(solvent.learn(impossible()))


def test_wandb_log(monkeypatch: pytest.MonkeyPatch) -> None:
    class Run:
        def __init__(self) -> None:
            self.lines: list[Any] = []
            self.finished = False

        def log(self, data: dict[str, float], step: int) -> None:
            self.lines.append((step, data))

        def finish(self) -> None:
            self.finished = True

    run = Run()
    with WandbLog(run) as log:
        learned = grid(callback=log)
    assert [step for step, _ in run.lines] == [each.episodes for each in learned.history]
    assert not run.finished
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SolventError, match=r"WandbLog: expected wandb, found .*; pip install wandb, or pass a run"):
        WandbLog("project")
    made = Run()

    class Module:
        @staticmethod
        def init(project: str) -> Run:
            assert project == "project"
            return made

    monkeypatch.setitem(sys.modules, "wandb", Module)
    with WandbLog("project"):
        pass
    assert made.finished


def lake() -> Any:
    return gymnasium.make("FrozenLake-v1", max_episode_steps=100)


def test_a_range_of_returns_tightens_the_bounds() -> None:
    model = CMDP.from_gymnasium(lake(), cost=1, horizon=12, budget=12)
    best = solvent.solve(model).value
    wide, narrow = (
        solvent.learn(
            lake(), 12, 12, support=model, cost=1, epsilon=1e-6, max_episodes=200, return_range=given,
        )
        for given in (None, (0, 1))
    )  # fmt: skip
    assert best <= narrow.value_upper <= 1
    assert narrow.value_upper < wide.value_upper
    played = solvent.learn(model, max_episodes=50, return_range=(0, 2.5))  # a model pays expected rewards
    assert best <= played.value_upper <= 2.5
    with pytest.raises(
        ModelError, match=r"return_range: expected the range of the sums .*, at least 0 to 2.33333, found"
    ):
        solvent.learn(model, return_range=(0, 0.5))
    with pytest.raises(ModelError, match=r"episode \d+, return: expected a sum from 0 to 0.5, found 1; pass return_"):
        solvent.learn(
            gymnasium.make("FrozenLake-v1", is_slippery=False), 12, 12, support=CMDP.from_gymnasium(
                gymnasium.make("FrozenLake-v1", is_slippery=False), cost=1, horizon=12
            ), cost=1, return_range=(0, 0.5), max_episodes=4000,
        )  # fmt: skip
    with pytest.raises(ModelError, match='return_range: expected none with bonus="theory"'):
        solvent.learn(model, return_range=(0, 1), bonus="theory")


@draws(30)
@given(
    seed=st.integers(0, 10**6),
    options=st.sampled_from([
        {}, {"epsilon_cost": 1}, {"epsilon_cost": 0.2, "approximation": "relative"},
        {"epsilon_cost": {"r0": 0.7}, "approximation": "additive"},
    ]),
)  # fmt: skip
def test_real_costs_are_learned_without_ever_being_over(seed: int, options: dict[str, Any]) -> None:
    model = instances.random(3, 2, horizon=4, real_costs=True, cost_range=(0, 3), budget=8, seed=seed)
    learned = solvent.learn(model, epsilon=0.2, strict=True, max_episodes=500, seed=seed, **options)
    assert learned.violations == 0
    if learned.status is Status.INFEASIBLE:
        return
    report = solvent.verify(model, learned.policy)
    assert report.feasible
    assert learned.policy.counting == ("up",)
    assert learned.value_lower <= report.value + 1e-9
    assert learned.costs.max() <= 8


def test_the_default_unit_is_a_power_of_ten() -> None:
    model = instances.random(3, 2, horizon=4, real_costs=True, cost_range=(0, 3), budget=8, seed=3)
    assert solvent.learn(model, strict=True, max_episodes=5).policy.units == (Fraction(1, 10),)
    whole = instances.fuel_grid(3)  # its costs are whole numbers, which need no rounding
    assert solvent.learn(whole, strict=True, max_episodes=5).policy.counting == ("exact",)
    with pytest.raises(ModelError, match=r"budget, r0: expected a limit other than 0 with strict=True alone"):
        solvent.learn(model, budget=0, strict=True)
    with pytest.raises(ModelError, match=r"approximation: expected 'additive' or 'relative', found 'exact'"):
        solvent.learn(model, strict=True, approximation="exact", epsilon_cost=1)  # type: ignore[arg-type]


def test_costs_without_a_unit_say_what_to_do() -> None:
    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget=2)
    costs = [Fraction(10**9 - i, 10**9 + p) for i, p in enumerate((7, 9, 21, 33, 87))]
    b.add(0, 0, outcomes=[(0.2, 0, cost) for cost in costs])
    b.add(0, 1, outcomes=[(1, 0, 0)])
    with pytest.raises(solvent.LatticeOverflowError, match="in learn: strict=True, which rounds costs up"):
        solvent.learn(b.build())
    assert solvent.learn(b.build(), strict=True, max_episodes=50).violations == 0


def test_a_graph_that_does_not_fit_ends_cleanly() -> None:
    model = instances.random(10, 3, horizon=12, real_costs=True, cost_range=(0, 1), budget=10, seed=1)
    with pytest.raises(
        solvent.LimitError, match=r"learning stopped: .* would need .*; raise the limit, or round costs"
    ):
        solvent.learn(model, memory_limit="50MB")
    learned = solvent.learn(model, strict=True, memory_limit="2GB", max_episodes=200)
    assert learned.violations == 0


def test_models_of_other_types(tmp_path: Path) -> None:
    model = instances.markov_gap()
    learned = solvent.learn(model, epsilon=0.3)
    learned.save(tmp_path / "run.learned")
    env = ModelEnv(model)
    for other, said in (
        (env, r"found <.*ModelEnv.*>; pass its model: env\.unwrapped\.model"),
        (gymnasium.make("FrozenLake-v1"), r"found <.*FrozenLake.*>; an environment is not a model; .*from_gymnasium"),
        ("m.yaml", r"found 'm\.yaml'; solvent\.load_model\(path\) reads a file"),
        (3, "found 3"),
    ):
        with pytest.raises(ModelError, match=rf"^model: expected a CMDP, or None, {said}"):
            LearnResult.load(tmp_path / "run.learned", other)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"^model: expected a CMDP, found None"):
        learned.policy_for(None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"^model: expected a CMDP, found <.*; pass its model: env\.unwrapped\.model"):
        learned.policy_for(env)  # type: ignore[arg-type]
    assert LearnResult.load(tmp_path / "run.learned", model).policy == learned.policy


@pytest.mark.parametrize("path", ["g.png", Path("g.png")])
def test_a_path_instead_of_axes_says_how_to_save(path: Any) -> None:
    learned = solvent.learn(instances.markov_gap(), epsilon=0.3)
    said = r"^ax: expected matplotlib Axes, or None for a new figure, found .*g\.png.*; to save the figure: "
    with pytest.raises(ModelError, match=said + r"solvent\.plot\.save\(learned\.plot\(\), 'g\.png'\)$"):
        learned.plot(path)
