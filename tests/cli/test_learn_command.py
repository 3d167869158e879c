"""`learn` with model files and registered environments: its output, and that it agrees with the library."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from shell import check_golden, run

import solvent
from solvent.learning.learner import Learner

LAKE = "solvent learn FrozenLake-v1 --horizon 6"


def test_what_is_printed(folder: Path) -> None:
    lines = [
        "solvent learn delivery-van.yaml --epsilon 5 --out van.policy",
        "solvent verify delivery-van.yaml van.policy --json --quiet",
        "solvent learn delivery-van.yaml --epsilon 5 --budget fuel=-1 --out never.policy",
        "solvent learn delivery-van.yaml -n 20",
        "solvent learn dose.yaml --epsilon 3 --budget toxicity=final:8",
        f"{LAKE} --budget 3 --cost 0,1,1,1 -n 40",
        f"{LAKE} --budget 3 --cost 1 -n 40",
        f"{LAKE} --budget fuel=3 --cost 0,1,1,1 --cost-bound 0,1,1,1 -n 40 --env-arg is_slippery=false",
        f"{LAKE} --budget 3 --cost 0,1,1,1 --support learned -n 1 --quiet",
    ]
    runs = [run(line) for line in lines if "verify" not in line]
    check_golden("learn", "\n".join(done.transcript() for done in runs))
    assert run(lines[1]).json["feasible"] is True


def test_mistakes(folder: Path) -> None:
    lines = [
        "solvent learn delivery-vn.yaml",
        "solvent learn delivery-van.yaml --horizon 3",
        "solvent learn delivery-van.yaml --cost 1",
        "solvent learn delivery-van.yaml --epsilon 0",
        "solvent learn delivery-van.yaml --bonus none",
        "solvent learn delivery-van.yaml --bonus theory",
        "solvent learn delivery-van.yaml --support some",
        "solvent learn delivery-van.yaml --replan never",
        "solvent learn delivery-van.yaml --reward-range 1",
        "solvent learn delivery-van.yaml --reward-range 0..1",
        "solvent learn delivery-van.yaml --support learned --budget fuel=0..30",
        "solvent learn delivery-van.yaml --resume",
        "solvent learn delivery-van.yaml --resume --checkpoint none.ckpt",
        "solvent learn delivery-van.yaml --max-episodes 0",
        "solvent learn delivery-van.yaml --out nowhere/x",
        "solvent learn delivery-van.yaml --out x --log x",
        "solvent learn delivery-van.yaml --checkpoint delivery-van.yaml",
        "solvent learn FrozenLake-v1 --budget 3",
        "solvent learn FrozenLake-v1 --horizon 3",
        "solvent learn FrozenLke-v1 --horizon 3 --budget 3",
        "solvent learn nowhere.at.all:Env-v0 --horizon 3 --budget 3",
        "solvent learn solvent/Model-v0 --horizon 3 --budget 3",
        f"{LAKE} --budget 3 --env-arg slippery",
        f"{LAKE} --budget 3 --env-arg slippery=1",
        f"{LAKE} --budget 3 --cost 1,2",
        f"{LAKE} --budget 3 --cost 1,x",
        f"{LAKE} --budget 3 --cost-bound much",
        f"{LAKE} --budget 3 --cost fuel",
        f"{LAKE} --budget 3 --cost fuel --support known",
        f"{LAKE} --budget 3 --cost fuel --support learned",
        f"{LAKE} --budget 3 --budget cost=4 --cost 1",
        f"{LAKE} --budget 3 --cost 0,1,1,1 --support learned --bonus theory",
        f"{LAKE} --budget 3 --cost 0,1,1,1 --support learned --no-pool",
        f"{LAKE} --budget 9 --cost 2 --cost-bound 1",
        "solvent learn CliffWalking-v1 --horizon 3 --budget 3 --cost 1 --reward-range 0..1",
    ]
    before = sorted(path.name for path in folder.iterdir())
    check_golden("learn-mistakes", "\n".join(run(line).transcript() for line in lines))
    assert sorted(path.name for path in folder.iterdir()) == before, "a mistake left something behind"


def test_it_says_what_the_library_says(folder: Path) -> None:
    done = run("solvent learn delivery-van.yaml --epsilon 5 --seed 3 --json --out van.policy --log van.csv")
    record = done.json
    model = solvent.load_model("delivery-van.yaml")
    learned = solvent.learn(model, epsilon=5, seed=3)
    report = solvent.verify(model, learned.policy)
    assert done.code == 0
    assert record["model"] == {"name": "delivery-van", "fingerprint": model.fingerprint}
    assert (record["status"], record["support"], record["violations"]) == ("within_gap", "known", 0)
    assert (record["episodes"], record["gap"], record["plans"]) == (
        learned.episodes, learned.gap, len(learned.history),
    )  # fmt: skip
    assert (record["value"], record["feasible"]) == (report.value, True)
    assert record["worst_spent"] == {"fuel": "30"}
    assert solvent.load_policy("van.policy", model) == learned.policy
    lines = (folder / "van.csv").read_text().splitlines()
    assert [int(line.split(",")[0]) for line in lines[1:]] == [progress.episodes for progress in learned.history]
    assert record["written"]["log"]["bytes"] == (folder / "van.csv").stat().st_size


def test_an_environment_is_learned_in_as_in_python(folder: Path) -> None:
    record = run(f"{LAKE} --budget 3 --cost 0,1,1,1 -n 60 --seed 2 --json --env-arg map_name=4x4").json

    def toll(state: int, action: int, after: int) -> int:
        return int(action != 0)

    lake = gymnasium.make("FrozenLake-v1", max_episode_steps=6)
    table = solvent.CMDP.from_gymnasium(lake, cost=toll, horizon=6, budget=3)
    learned = solvent.learn(lake, 6, support=table, cost=toll, max_episodes=60, seed=2)
    assert record["gap"] == learned.gap
    assert record["value"] == solvent.verify(table, learned.policy).value
    assert record["violations"] == 0


@pytest.mark.parametrize("name", ["CliffWalking-v1", "Taxi-v4"])
def test_tables_with_other_rewards_and_starts(name: str, folder: Path) -> None:
    done = run(f"solvent learn {name} --horizon 4 --budget 4 --cost 1 -n 20 --json --out it.policy")
    assert done.code == 0
    assert done.json["support"] == "known"
    assert done.json["worst_spent"] == {"cost": "4"}
    assert done.json["value"] < 0
    tight = run(f"solvent learn {name} --horizon 4 --budget 1,2,3,4 --cost 1 -n 5 --json")
    assert tight.json["violations"] == 0
    assert tight.json["feasible"] is True
    assert run(f"solvent learn {name} --horizon 4 --budget 3 --cost 1 -n 5").code == 1
    learned = run(f"solvent learn {name} --horizon 4 --budget 4 --cost 1 -n 5 --support learned --json").json
    assert learned["support"] == "learned"


def test_a_run_is_resumed(folder: Path) -> None:
    whole = run("solvent learn delivery-van.yaml -n 3000 --json --log whole.csv").json
    run("solvent learn delivery-van.yaml -n 1000 --json --checkpoint run.ckpt --log parts.csv")
    resumed = run("solvent learn delivery-van.yaml -n 3000 --json --checkpoint run.ckpt --resume --log parts.csv").json
    for field in ("episodes", "gap", "value", "plans"):
        assert resumed[field] == whole[field]
    assert (folder / "parts.csv").read_text() == (folder / "whole.csv").read_text()


def test_ctrl_c_ends_a_run_with_what_was_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Learner._play

    def play(self: Learner, most: int) -> None:
        real(self, most)
        if self.episodes >= 500:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "_play", play)
        done = run("solvent learn delivery-van.yaml --out van.policy --checkpoint run.ckpt --json")
    assert done.code == 0
    assert done.json["interrupted"] is True
    assert done.json["status"] == "limit"
    assert done.json["message"].startswith(f"interrupted after {done.json['episodes']} episodes with a gap of")
    assert (folder / "van.policy").exists()
    whole = run("solvent learn delivery-van.yaml -n 2000 --json").json
    resumed = run("solvent learn delivery-van.yaml -n 2000 --json --checkpoint run.ckpt --resume").json
    assert resumed["gap"] == whole["gap"]


class Odd(gymnasium.Env[Any, Any]):
    """Two states, another cost key, and optionally an exception in `step`."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        if self.broken:
            raise ZeroDivisionError("a slip of theirs")
        state = int(self.np_random.random() < 0.5)
        return state, 1.0 * action, False, False, {"fuel": state * int(action)}


@pytest.fixture
def odd() -> Iterator[None]:
    gymnasium.register("test/Odd-v0", entry_point=Odd)
    yield
    del gymnasium.registry["test/Odd-v0"]


def test_a_bound_is_not_charged_for_the_draw_of_the_first_state(folder: Path) -> None:
    line = "solvent learn Taxi-v4 --horizon 2 --cost 1 --cost-bound 1 --reward-range=-10..20 -n 12000 --json"
    learned = run(f"{line} --budget 2").json
    assert (learned["status"], learned["support"], learned["violations"]) == ("limit", "bound", 0)
    assert learned["unchecked"] is None
    assert learned["feasible"]
    assert run(f"{line} --budget 1").json["status"] == "infeasible"


def test_an_environment_without_a_table(odd: None, folder: Path) -> None:
    line = "solvent learn test/Odd-v0 --horizon 3 --cost fuel -n 400 -e 0.8 --json"
    bound = run(f"{line} --cost-bound 0,1 --budget fuel=2").json
    assert (bound["support"], bound["violations"], bound["model"]) == ("bound", 0, None)
    assert bound["unchecked"] == "there is no model to verify it with"
    refused = run(line.replace("--json", "--budget fuel=0"))
    assert refused.code == 2
    assert "an environment with a table P and numbers for --cost, or --cost-bound" in refused.err
    assert "--support learned learns the costs from episodes that exceed the budget" in refused.err
    learned = run(f"{line} --budget fuel=0 --support learned").json
    assert learned["support"] == "learned"
    assert learned["violations"] > 0
    assert learned["value"] is None


def test_a_mistake_of_an_environment_is_called_its_own(odd: None, folder: Path) -> None:
    done = run("solvent learn test/Odd-v0 --horizon 3 --budget 2 --cost fuel --cost-bound 0 --env-arg broken=true")
    assert done.code == 2
    assert done.err == ("error: environment test/Odd-v0 failed in step(): ZeroDivisionError: a slip of theirs\n")


def test_a_file_is_never_taken_for_an_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: object, **__: object) -> None:
        raise AssertionError("an environment was made")

    monkeypatch.setattr(gymnasium, "make", make)
    (folder / "os:system-v0.yaml").write_text("solvent: 1\n")
    (folder / "plain").write_text("solvent: 1\n")
    for name in ("os:system-v0.yaml", "nothing:at.all-v0.yaml", "plain"):
        assert run(f"solvent learn {name} --horizon 3 --budget 3").code == 2


def test_tensorboard(folder: Path) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("torch")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = run("solvent learn delivery-van.yaml --epsilon 5 --tensorboard board --json")
    assert done.code == 0
    events = EventAccumulator(str(folder / "board")).Reload()
    gaps = events.Scalars("learning/gap")
    assert len(gaps) == done.json["plans"]
    assert gaps[-1].step == done.json["episodes"]
    assert gaps[-1].value == pytest.approx(done.json["gap"])
    assert run("solvent learn delivery-van.yaml --tensorboard delivery-van.yaml").code == 2


def test_tensorboard_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    done = run("solvent learn delivery-van.yaml --tensorboard board")
    assert done.code == 2
    assert "error: TensorBoardLog: expected torch and tensorboard, found" in done.err
    assert 'pip install "solvent[rl]"' in done.err


def test_rounded_costs_may_be_over_by_what_was_allowed(folder: Path) -> None:
    done = run("solvent learn campaign.yaml --epsilon 20 --epsilon-cost 3 -n 3000")
    assert done.code == 0
    assert "exceeds the budget by at most the allowed rounding" in done.out


def test_strict_rounding_is_never_over(folder: Path) -> None:
    line = "solvent learn delivery-van.yaml --epsilon 5 -n 300 --epsilon-cost 2 --json"
    relaxed, strict = run(line).json, run(f"{line} --strict").json
    assert strict["violations"] == 0 <= relaxed["violations"]
    assert strict["feasible"] in (True, None)
    relative = run("solvent learn delivery-van.yaml -n 50 --epsilon-cost 0.1 --relative --strict --json").json
    assert relative["violations"] == 0
    assert run("solvent learn delivery-van.yaml -n 50 --relative").code == 2


def test_a_checkpoint_that_cannot_be_written_comes_after_the_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    line = "solvent learn delivery-van.yaml --max-episodes 50 --checkpoint run.ckpt"
    done = run(line)
    assert done.code == 2
    assert "episodes    50" in done.out
    assert done.err.startswith("the checkpoint could not be written, and the computation continues without it: ")
    assert "error: the checkpoint could not be written: run.ckpt/checkpoint.json: expected a place" in done.err
    record = run(f"{line} --json").json
    assert record["written"] == {}
    assert record["episodes"] == 50
    assert record["exit_code"] == 2
    assert [each.name for each in (folder / "run.ckpt").iterdir()] == ["lock"]
