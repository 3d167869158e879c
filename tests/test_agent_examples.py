"""The scripts of agents in `examples/`: never over budget through the wrapper, often over with a penalty."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from solvent.gym import ModelEnv
from solvent.model import instances

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = [
    pytest.param("q_learning", ["--episodes", "150"], (), id="q_learning"),
    pytest.param("maskable_ppo", ["--steps", "1024"], ("sb3_contrib",), id="maskable_ppo", marks=pytest.mark.slow),
    pytest.param(
        "continuous",
        ["--agent", "PPO", "--steps", "6144"],
        ("stable_baselines3",),
        id="continuous",
        marks=pytest.mark.slow,
    ),
    pytest.param("minecart", ["--episodes", "40"], ("mo_gymnasium",), id="minecart", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))  # as when a script is run


@pytest.mark.parametrize(("name", "arguments", "needs"), SCRIPTS)
def test_the_wrapper_keeps_the_budget_and_a_penalty_does_not(
    name: str, arguments: list[str], needs: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for module in needs:
        pytest.importorskip(module)
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    rows = main([*arguments, "--seed", "1"])
    (training, evaluation), (rival, _) = rows.values()
    assert training.over == evaluation.over == 0
    assert training.episodes > 20
    assert evaluation.episodes >= 10
    assert rival.over > rival.episodes // 20
    assert capsys.readouterr().out.count("│") >= 12  # a table of both


def test_every_script_of_an_agent_is_tested() -> None:
    importing = [file.stem for file in EXAMPLES.glob("*.py") if "from meter import" in file.read_text(encoding="utf-8")]
    assert sorted(importing) == sorted(str(script.values[0]) for script in SCRIPTS)


def test_the_meter_counts_what_is_spent() -> None:
    meters = runpy.run_path(str(EXAMPLES / "meter.py"))
    env = ModelEnv(instances.knapsack([60, 100, 20], [10, 20, 5]))
    meter = meters["Meter"](env, "29.9")
    for actions in ([1, 0, 1], [1, 1, 1], [1, 1, 0]):
        meter.reset()
        for action in actions:
            meter.step(action)
    meter.reset()
    assert meter.read() == (3, 2, 80 + 180 + 160)  # over once in an episode, however long it stays so
    assert meter.read() == (0, 0, 0)
    fined = meters["Penalized"](meter, penalty=2.0)
    assert isinstance(fined.observation_space, gymnasium.spaces.Dict)
    seen, _ = fined.reset()
    assert (seen["remaining"][0], seen["step"][0]) == (np.float32(29.9), 0)
    rewards: list[Any] = [fined.step(1)[1] for _ in range(3)]
    assert rewards == pytest.approx([60, 100 - 2 * 0.1, 20 - 2 * 5])
