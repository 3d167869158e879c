"""RDDL problems: what is enumerated agrees with samples of pyRDDLGym's own simulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.errors import ModelError, SolventError

pytest.importorskip("pyRDDLGym")
pytest.importorskip("rddlrepository")

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

DOMAIN = """
domain lights {
    types { lamp : object; };
    pvariables {
        P(lamp) : { non-fluent, real, default = 0.1 };
        on(lamp) : { state-fluent, bool, default = false };
        count : { state-fluent, int, default = 0 };
        wind : { interm-fluent, bool };
        light(lamp) : { action-fluent, bool, default = false };
    };
    cpfs {
        wind = Bernoulli(0.25);
        on'(?l) = if (light(?l)) then KronDelta(~wind) else if (on(?l)) then Bernoulli(1 - P(?l)) else KronDelta(false);
        count' = min[3, count + (sum_{?l : lamp} light(?l))];
    };
    reward = (sum_{?l : lamp} on(?l)) - 0.5 * wind + [count == 3];
    action-preconditions { (sum_{?l : lamp} light(?l)) <= 1; forall_{?l : lamp} [light(?l) => ~on(?l)]; };
    termination { (count >= 3) ^ (forall_{?l : lamp} on(?l)); };
}
"""
INSTANCE = """
non-fluents two { domain = lights; objects { lamp : {a, b}; }; non-fluents { P(a) = 0.5; }; }
instance evening { domain = lights; non-fluents = two; init-state { on(b) = true; };
    max-nondef-actions = 2; horizon = 5; discount = 1.0; }
"""


@pytest.fixture
def lights(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "domain.rddl").write_text(DOMAIN)
    (tmp_path / "instance.rddl").write_text(INSTANCE)
    return tmp_path / "domain.rddl", tmp_path / "instance.rddl"


def fuel(state: dict[str, Any], action: str, after: dict[str, Any]) -> int:
    assert set(state) == set(after) == {"on___a", "on___b", "count"}
    return action.count("light")


def test_a_problem_of_two_lamps(lights: tuple[Path, Path]) -> None:
    model = solvent.CMDP.from_rddl(*lights, fuel, resources=["matches"], budget=2)
    assert (model.horizon, set(model.actions)) == (5, {"noop", "light(a)", "light(b)"})
    assert json.loads(str(model.start)) == {"on___a": False, "on___b": True, "count": 0}
    rows = {model.actions[model.row_action[r]]: r for r in model.rows(0, model.state_index(model.start))}
    assert set(rows) == {"noop", "light(a)"}  # a lamp that is on is not lit
    found = {
        tuple(json.loads(str(each.next_state)).values()): (each.probability, each.cost["matches"])
        for each in model.outcomes(rows["light(a)"])
    }
    assert found == {
        (True, True, 1): (pytest.approx(0.75 * 0.9), 1),
        (True, False, 1): (pytest.approx(0.75 * 0.1), 1),
        (False, True, 1): (pytest.approx(0.25 * 0.9), 1),
        (False, False, 1): (pytest.approx(0.25 * 0.1), 1),
    }
    assert model.row_reward[rows["light(a)"]] == pytest.approx(1 - 0.125)
    ends = [json.loads(str(s)) for i, s in enumerate(model.states) if model.is_terminal(0, i)]
    assert all(each == {"on___a": True, "on___b": True, "count": 3} for each in ends)
    solution = solvent.solve(model)
    assert solvent.verify(model, solution.policy).feasible


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Navigation_MDP_ippc2011", "SkillTeaching_MDP_ippc2011", "Elevators_MDP_ippc2011"])
def test_samples_of_the_simulator_agree(name: str) -> None:
    """Random episodes of pyRDDLGym's own environment: every outcome is one of the model, as often as the model says."""
    import pyRDDLGym

    from solvent.model.rddl import _paths, _Problem

    taken = _Problem(*_paths(name, "1")).taken
    model = solvent.CMDP.from_rddl(name, "1", 1, horizon=3, progress=False)
    env = pyRDDLGym.make(name, "1")
    rng = np.random.default_rng(1)
    counts: dict[int, dict[str, int]] = {}
    rewards: dict[int, list[float]] = {}
    for episode in range(600):
        seen, _ = env.reset(seed=episode)
        for step in range(3):
            state = json.dumps({key: bool(seen[key]) for key in json.loads(str(model.start))})
            s = model.state_index(state)
            if step == 0:
                assert state == model.start
            rows = model.rows(0, s)
            if not rows:
                break
            row = int(rng.integers(rows.start, rows.stop))
            action = taken[str(model.actions[model.row_action[row]])]
            seen, reward, *_ = env.step({key: int(value) for key, value in action.items() if value})
            after = json.dumps({key: bool(seen[key]) for key in json.loads(state)})
            found = counts.setdefault(row, {})
            found[after] = found.get(after, 0) + 1
            rewards.setdefault(row, []).append(reward)
    for row, found in counts.items():
        expected = {str(each.next_state): each.probability for each in model.outcomes(row)}
        assert set(found) <= set(expected)
        total = sum(found.values())
        if total >= 50:
            for key, p in expected.items():
                assert found.get(key, 0) / total == pytest.approx(p, abs=5 * (p * (1 - p) / total) ** 0.5 + 1e-9)
            spread = 5 * float(np.std(rewards[row])) / total**0.5
            assert np.mean(rewards[row]) == pytest.approx(model.row_reward[row], abs=spread + 1e-6)
    assert sum(sum(found.values()) >= 50 for found in counts.values()) >= 3


def test_problems_that_are_refused(lights: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    domain, instance = lights
    for text, message in (
        (DOMAIN.replace("Bernoulli(0.25)", "Normal(0, 1) > 0"), "functions of discrete values, found randomvar"),
        (DOMAIN.replace("Bernoulli(0.25)", "Bernoulli(2.5)"), "Bernoulli: expected a probability, found 5/2"),
        (DOMAIN.replace("count : { state-fluent, int, default = 0 }", "count : { state-fluent, real, default = 0.0 }"),
         "from_rddl, state 'count': expected a truth value or an integer, found real"),
        ("domain {", "from_rddl: expected a problem that pyRDDLGym can read, found"),
    ):  # fmt: skip
        domain.write_text(text)
        with pytest.raises(ModelError, match=message):
            solvent.CMDP.from_rddl(domain, instance, 1)
    with pytest.raises(ModelError, match="from_rddl: expected files of a domain and an instance, found no file"):
        solvent.CMDP.from_rddl(domain, domain.with_name("other.rddl"), 1)
    with pytest.raises(ModelError, match="from_rddl: expected a problem of rddlrepository, found"):
        solvent.CMDP.from_rddl("Nonsense", "1", 1)
    with pytest.raises(ModelError, match="expected a problem without observations, found"):
        solvent.CMDP.from_rddl("SysAdmin_POMDP_ippc2011", "1", 1)
    for module, package in (
        ("rddlrepository.core.manager", "rddlrepository"),
        ("pyRDDLGym.core.grounder", "pyRDDLGym"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        arguments = ("Navigation_MDP_ippc2011", "1") if package == "rddlrepository" else lights
        with pytest.raises(
            SolventError, match=rf'expected {package}, found no such package; pip install "solvent\[rddl'
        ):
            solvent.CMDP.from_rddl(*arguments, 1)
