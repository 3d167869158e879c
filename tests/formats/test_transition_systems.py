"""Models written for model checkers: Storm's own engine finds the values that Solvent claims."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.errors import ModelError
from solvent.formats import storm
from solvent.formats.transition_systems import identifiers, number_text, rational_chances, transition_system
from solvent.model import instances
from tests.effort import seeds
from tests.storming import needs_storm

EXAMPLES = Path(solvent.examples.__file__).parent
#: Examples without continuous costs.
NAMES = ["cash-line", "covering", "delivery-van", "dose", "drone", "reservoir", "robot"]


def random_model(seed: int) -> solvent.CMDP:
    """A small model that has, by chance, several tables, several first states, end rewards, goals and saturation."""
    rng = np.random.default_rng(seed)
    n_states, horizon = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    resources: list[Any] = ["fuel", "wear"][: int(rng.integers(1, 3))]
    if rng.random() < 0.3:
        resources[0] = solvent.Resource("fuel", floor=0)
    start: Any = 0 if rng.random() < 0.6 else {0: "1/3", 1: "2/3"}
    ends = {s: int(rng.integers(0, 9)) for s in range(n_states)} if rng.random() < 0.4 else None
    goals = sorted(rng.choice(n_states, max(1, n_states - 1), replace=False).tolist()) if rng.random() < 0.4 else None
    b = solvent.CMDP.builder(
        horizon=horizon, start=start, resources=resources, end_reward=ends, must_end_in=goals, states=range(n_states)
    )
    for s in range(n_states - (rng.random() < 0.4)):
        for a in range(int(rng.integers(1, 4))):
            steps = range(horizon) if a == 0 or rng.random() < 0.7 else [int(rng.integers(horizon))]
            n = int(rng.integers(1, 4))
            weights = rng.integers(1, 6, n).tolist()
            fixed = rng.random() < 0.4
            costs = [[Fraction(int(rng.integers(-1, 7)), 2) for _ in resources] for _ in range(n)]
            outcomes = [
                (Fraction(w, sum(weights)), int(rng.integers(n_states)), costs[0 if fixed else i])
                for i, w in enumerate(weights)
            ]
            b.add(s, f"act {a}", outcomes=outcomes, reward=int(rng.integers(0, 8)) / 4, steps=steps)
    return b.build()


def budget_of(model: solvent.CMDP, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 1])
    return {name: int(rng.integers(1, 4 * model.horizon)) for name in model.resources}


def value_of(solution: solvent.Solution) -> float | None:
    return solution.value if solution.value > -np.inf else None


def read_back(path: Path, model: solvent.CMDP) -> solvent.CMDP:
    system = transition_system(model)
    [horizon] = [int(note.split("horizon=")[1].rstrip(".")) for note in system.notes if "read it with horizon=" in note]
    resources = [model.resource(name) for name in model.resources]
    goal = "goal" if model.may_end is not None else None
    return solvent.load_model(path, costs=resources, reward="reward", horizon=horizon, goal=goal)


def check_round_trip(model: solvent.CMDP, budget: Any, path: Path) -> None:
    model.save(path)
    again = read_back(path, model)
    before, after = solvent.solve(model, budget), solvent.solve(again, budget)
    assert after.status == before.status
    if value_of(before) is not None:
        assert after.value == pytest.approx(before.value, rel=1e-9, abs=1e-9)


@needs_storm
@pytest.mark.parametrize("suffix", [".prism", ".drn", ".umb"])
@pytest.mark.parametrize("name", ["delivery-van", "robot", "dose"])
def test_examples_come_back(name: str, suffix: str, tmp_path: Path) -> None:
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    check_round_trip(model, model.budget, tmp_path / f"{name}{suffix}")


@needs_storm
@pytest.mark.parametrize("seed", seeds(24))
def test_random_models_come_back(seed: int, tmp_path: Path) -> None:
    model = random_model(seed)
    suffix = [".prism", ".drn", ".umb"][seed % 3]
    check_round_trip(model, budget_of(model, seed), tmp_path / f"model{suffix}")


def storm_value(path: Path, query: str) -> float:
    import stormpy

    if path.suffix == ".tra":
        parsed = stormpy.build_model_from_explicit(
            path, path.with_suffix(".lab"), transition_rewards=path.with_suffix(".reward.rew")
        )
        query = query.replace('{"reward"}', "")
    elif path.suffix == ".prism":
        program = stormpy.parse_prism_program(path)
        parsed = stormpy.build_model(program)
    else:
        parsed = stormpy.build_model_from_drn[stormpy.Rational](path)
    [asked] = stormpy.parse_properties(query)
    environment = (
        stormpy.environments.exact() if path.suffix == ".drn" and hasattr(stormpy.environments, "exact") else None
    )
    options = {} if environment is None else {"environment": environment}
    found = stormpy.model_checking(parsed, asked, **options)
    return float(found.get_value(parsed.initial_states[0]))


@needs_storm
@pytest.mark.parametrize("seed", seeds(30))
def test_storm_agrees_on_the_augmentation(seed: int, tmp_path: Path) -> None:
    """The optimum of Solvent is the maximal reward that Storm's engine finds in the augmented MDP."""
    model = random_model(seed)
    budget = budget_of(model, seed)
    solution = solvent.solve(model, budget)
    mdp = solvent.augment(model, budget)
    path = tmp_path / f"model{['.drn', '.prism', '.tra'][seed % 3]}"
    mdp.save(path)
    if value_of(solution) is None:
        assert not mdp.feasible
        if path.suffix != ".tra":
            assert "No policy keeps the budget" in path.read_text()
        return
    tolerance = 1e-12 if path.suffix == ".drn" else 1e-5
    assert storm_value(path, 'R{"reward"}max=? [F "end"]') == pytest.approx(
        solution.value, rel=tolerance, abs=tolerance
    )


@needs_storm
@pytest.mark.parametrize("name", ["delivery-van", "robot", "drone"])
def test_storm_agrees_on_examples(name: str, tmp_path: Path) -> None:
    """Rewards may be negative, as for fuel that is bought."""
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    solvent.augment(model).save(tmp_path / "model.drn")
    found = storm_value(tmp_path / "model.drn", 'R{"reward"}max=? [F "end"]')
    assert found == pytest.approx(solvent.solve(model).value, rel=1e-9)


@needs_storm
def test_storm_agrees_on_the_stationary_form(tmp_path: Path) -> None:
    model = instances.fuel_grid(3)
    mdp = solvent.augment(model, stationary=True)
    assert not len(mdp.dead_ends)
    mdp.save(tmp_path / "grid.drn")
    value = storm_value(tmp_path / "grid.drn", f'R{{"reward"}}max=? [C<={model.horizon}]')
    assert value == pytest.approx(solvent.solve(model).value, rel=1e-9)


def test_a_program_reads_well(tmp_path: Path) -> None:
    b = solvent.CMDP.builder(horizon=3, start="my home", resources=["fuel"], budget=4)
    b.add("my home", "go out", reward=1, outcomes=[(1 / 3, "away", "1/3"), (2 / 3, "my home", "1/3")])
    b.add("away", "max", outcomes=[(1, "my home", 2)])
    path = tmp_path / "home.prism"
    b.build().save(path)
    assert (
        path.read_text()
        == """\
// Written by Solvent. An episode has 3 transitions: read it with horizon=3.
// Budget of fuel: Budget(4)

mdp

module model
  state : [0..1] init 0;
  //   0: my home
  //   1: away
  [go_out] state=0 -> 1/3 : (state'=1) + 2/3 : (state'=0);
  [max_2] state=1 -> 1 : (state'=0);
endmodule

rewards "fuel"
  [go_out] state=0 : 1/3;
  [max_2] state=1 : 2;
endrewards

rewards "reward"
  [go_out] state=0 : 1;
endrewards
"""
    )


def test_explicit_files(tmp_path: Path) -> None:
    instances.knapsack([60, 100], [10, 20], capacity=20).save(tmp_path / "sack.tra")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "sack.lab",
        "sack.reward.rew",
        "sack.tra",
        "sack.weight.rew",
    ]
    assert (tmp_path / "sack.lab").read_text() == "#DECLARATION\ninit deadlock\n#END\n0 init\n"
    assert (tmp_path / "sack.weight.rew").read_text() == "0 1 1 10\n1 1 2 20\n"
    with pytest.raises(ModelError, match=r"expected a file ending in .*, found '\.tra'"):
        solvent.load_model(tmp_path / "sack.tra", horizon=2)


def test_explicit_files_hold_what_storm_reads(tmp_path: Path) -> None:
    """Storm refuses empty files of rewards, and negative rewards."""
    b = solvent.CMDP.builder(horizon=2, start="home", resources=["fuel", "time"])
    b.add("home", "go", outcomes=[(1, "home", {"fuel": 1})])
    b.build().save(tmp_path / "car.tra")
    for name in ("car.time.rew", "car.reward.rew"):
        assert (tmp_path / name).read_text() == "0 0 0 0\n"
    b.add("home", "refuel", outcomes=[(1, "home", {"fuel": "-1/3"})])
    message = r"cost of fuel: expected numbers of at least 0, .*, found -1/3; save it as \.drn"
    with pytest.raises(ModelError, match=message):
        b.build().save(tmp_path / "car.tra")


def test_resources_may_have_any_name(tmp_path: Path) -> None:
    """Words that PRISM reserves become other names, and the file says which."""
    b = solvent.CMDP.builder(horizon=1, start="home", resources=["max", "to // pay", "step"], end_reward={"home": 2})
    b.add("home", "go", outcomes=[(1, "home", {"max": 1, "to // pay": 2, "step": 3})])
    model = b.build()
    path = tmp_path / "names.prism"
    model.save(path)
    lines = path.read_text().splitlines()
    names = [line for line in lines if line.startswith("rewards")]
    assert names == ['rewards "max_2"', 'rewards "to_pay"', 'rewards "step"', 'rewards "reward"']
    assert [lines[lines.index(name) - 1] for name in names] == ["// max", "// to // pay", "", ""]
    if storm.has_stormpy():
        again = solvent.load_model(path, costs=["max_2", "to_pay", "step"], reward="reward", horizon=2)
        budget = {"max_2": 1, "to_pay": 2, "step": 3}
        assert solvent.solve(again, budget).value == 2


def test_what_cannot_be_written(tmp_path: Path) -> None:
    campaign = solvent.load_model(EXAMPLES / "campaign.yaml")
    with pytest.raises(
        ModelError, match="cost of money: expected numbers, which model checkers can hold, found uniform"
    ):
        campaign.save(tmp_path / "campaign.prism")
    b = solvent.CMDP.builder(horizon=None, discount=0.5, start="home", resources=["fuel"])
    b.add("home", "go", outcomes=[(1, "home", 1)])
    with pytest.raises(ModelError, match="model: expected a model with a horizon, found a model with a discount"):
        b.build().save(tmp_path / "endless.drn")
    b = solvent.CMDP.builder(horizon=1, start="home", resources=["fuel"])
    b.add("home", "go", outcomes=[(1, "home", "1/3")])
    with pytest.raises(ModelError, match="cost of fuel: expected a number that a float holds, found 1/3; save it as"):
        b.build().save(tmp_path / "thirds.umb")
    b = solvent.CMDP.builder(horizon=1, start="home", resources=["reward"])
    b.add("home", "go", outcomes=[(1, "home", 1)])
    with pytest.raises(ModelError, match="resources: expected names other than 'reward', which holds the rewards"):
        b.build().save(tmp_path / "reward.drn")
    b = solvent.CMDP.builder(horizon=1, start="home", resources=[solvent.Resource("fuel", floor=2)])
    b.add("home", "go", outcomes=[(0.5, "home", 1), (0.5, "home", 3)])
    with pytest.raises(
        ModelError, match="resources: expected floors of at most 0 and ceilings of at least 0, found 'fuel'"
    ):
        b.build().save(tmp_path / "floor.drn")
    with pytest.raises(ModelError, match=r"expected a name ending in \.prism, \.drn, \.umb or \.tra, found '\.yaml'"):
        solvent.augment(instances.knapsack([1], [1], capacity=1)).save(tmp_path / "sack.yaml")


def test_chances_have_the_sum_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        p = rng.dirichlet(np.ones(int(rng.integers(1, 9)))).tolist()
        exact = rational_chances(p)
        assert sum(exact) == 1
        assert all(x > 0 and float(x) == pytest.approx(y, rel=1e-12, abs=1e-15) for x, y in zip(exact, p, strict=True))
    assert rational_chances([1 / 7, 6 / 7]) == [Fraction(1, 7), Fraction(6, 7)]


def test_numbers_and_names() -> None:
    assert number_text(Fraction(1, 3 * 2**40)) == f"1.0/{3 * 2**40}.0"
    assert identifiers(["a b", "a_b", "", "ü"], {"a_b"}) == ["a_b_2", "a_b_3", "_", "__2"]
