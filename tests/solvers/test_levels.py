"""Levels: fixed points against games on the graph of (state, level), and the agents that follow them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, ModelError, PolicyError, UnmodeledOutcome
from solvent.core.limits import ResourceMonitor
from solvent.solvers.levels import fixed_points
from solvent.solvers.levels.arrays import IMPOSSIBLE
from solvent.solvers.levels.question import Question
from tests.effort import seeds
from tests.solvers.level_oracle import Product, can_reach, is_acyclic, random_model

CASES = Path(__file__).parents[3] / "shared" / "cases"
SEEDS = range(150)


class Instance:
    """A random model with a capacity, reload states and targets."""

    def __init__(self, seed: int, *, charging: bool) -> None:
        rng = random.Random(f"{seed} {charging}")
        self.unit = rng.choice([Fraction(1), Fraction(1, 3)])
        self.model = random_model(rng, charging=charging, unit=self.unit)
        share = rng.choice([Fraction(0), Fraction(1, 2)])  # levels between two ticks, too
        self.capacity = (rng.randint(0, 7) + share) * self.unit
        self.reload = [s for s in self.model.states if rng.random() < 0.3]
        self.targets = [s for s in self.model.states if rng.random() < 0.3]
        self.product = Product(self.model, self.capacity, self.reload, self.unit)

    @property
    def given(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "reload": self.reload}


each_kind = pytest.mark.parametrize("charging", [False, True], ids=["spending", "charging"])
each_seed = pytest.mark.parametrize("seed", seeds(len(SEEDS)))


@each_kind
@each_seed
def test_survival(seed: int, charging: bool) -> None:
    case = Instance(seed, charging=charging)
    found = solvent.survival_levels(case.model, **case.given)
    assert found.levels == case.product.least(case.product.surviving())
    for state, level in found.levels.items():
        if level is not None:
            case.product.followed(found, (state, level))
            case.product.followed(found, (state, case.capacity))


@each_kind
@each_seed
def test_reload(seed: int, charging: bool) -> None:
    case = Instance(seed, charging=charging)
    found = solvent.reload_levels(case.model, **case.given)
    assert found.levels == case.product.least(case.product.surely())
    for state, least in found.levels.items():
        for level in case.product.levels:
            if least is not None and level >= least:
                graph = case.product.followed(found, (state, level))
                assert is_acyclic(graph)
                assert all(reached for (_, reached), after in graph.items() if not after)


@pytest.mark.parametrize("survive", [True, False])
@each_kind
@each_seed
def test_reach(seed: int, charging: bool, survive: bool) -> None:
    case = Instance(seed, charging=charging)
    product = case.product
    found = solvent.reach_levels(case.model, case.targets, **case.given, survive=survive)
    goals = {x for x in product.nodes if x[0] in case.targets}
    won = product.almost_surely(goals & product.surviving() if survive else goals, case.targets)
    assert found.levels == product.least(won)
    for state, least in found.levels.items():
        for level in product.levels:
            if least is not None and level >= least:
                graph = product.followed(found, (state, level))
                # a finite Markov chain reaches a set with probability one if it can be reached from everywhere
                assert can_reach(graph, {x for x in graph if x[1]}) == set(graph)


@each_seed
def test_both_methods_agree_on_costs_of_at_least_zero(seed: int) -> None:
    case = Instance(seed, charging=False)
    problem = Question.read(case.model, None, case.capacity, case.reload).problem(ResourceMonitor())
    zero, none = np.zeros(case.model.n_states, np.int64), np.zeros(case.model.n_states, bool)
    rising = fixed_points._survive_by_rising(problem, zero, none)
    falling = fixed_points._survive_by_falling(problem, zero, none)
    assert falling is None or falling.tolist() == rising.tolist()


@each_seed
def test_bounds_do_not_change_levels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Instance(seed, charging=False)
    monkeypatch.setattr(fixed_points, "_ROUNDS", 0)
    at_once = solvent.reach_levels(case.model, case.targets, **case.given)
    monkeypatch.setattr(fixed_points, "_ROUNDS", 10**9)
    assert at_once.levels == solvent.reach_levels(case.model, case.targets, **case.given).levels


def test_both_methods_occur() -> None:
    used = set()
    for seed in SEEDS:
        case = Instance(seed, charging=False)
        problem = Question.read(case.model, None, case.capacity, case.reload).problem(ResourceMonitor())
        zero, none = np.zeros(case.model.n_states, np.int64), np.zeros(case.model.n_states, bool)
        used.add(fixed_points._survive_by_falling(problem, zero, none) is None)
    assert used == {True, False}


def test_random_instances_are_of_all_kinds() -> None:
    answers = [
        solvent.reach_levels(case.model, case.targets, **case.given).levels.values()
        for charging in (False, True)
        for case in (Instance(seed, charging=charging) for seed in SEEDS)
    ]
    levels = [level for answer in answers for level in answer]
    assert sum(level is None for level in levels) > 50
    assert sum(level == 0 for level in levels if level is not None) > 50
    assert sum(level > 0 for level in levels if level is not None) > 50


def robot() -> CMDP:
    b = CMDP.builder(horizon=1, start="dock", resources=["energy"])
    b.add("dock", "drive", outcomes=[(0.9, "hall", 2), (0.1, "dock", 2)])
    b.add("hall", "back", outcomes=[(1, "dock", 2)])
    b.add("hall", "serve", outcomes=[(0.5, "desk", 3), (0.5, "hall", 1)])
    b.add("desk", "back", outcomes=[(1, "dock", 4)])
    return b.build()


def test_a_free_loop_of_chance_costs_nothing() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "try", outcomes=[(0.5, "a", 0), (0.5, "end", 5)])
    assert solvent.survival_levels(b.build(), capacity=5).levels == {"a": 5, "end": 0}
    assert solvent.survival_levels(b.build(), capacity="4.9").levels == {"a": None, "end": 0}
    # it may take any number of steps, but it happens with probability one
    assert solvent.reach_levels(b.build(), ["end"], capacity=5).levels == {"a": 5, "end": 0}
    assert solvent.reload_levels(b.build(), capacity=5, reload=["end"]).levels == {"a": None, "end": None}


def test_trying_again_at_a_cost_is_not_enough() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "try", outcomes=[(0.5, "end", 0), (0.5, "a", 1)])
    b.add("a", "rest", outcomes=[(1, "a", 0)])
    assert solvent.survival_levels(b.build(), capacity=99).level("a") == 0
    assert solvent.reach_levels(b.build(), ["end"], capacity=99).level("a") is None
    assert solvent.reach_levels(b.build(), ["end"], capacity=99, reload=["a"]).level("a") == 0


def test_charging_first_and_leaving_when_full_enough() -> None:
    b = CMDP.builder(horizon=1, start="plug", resources=["charge"])
    b.add("plug", "charge", outcomes=[(1, "plug", "-0.1")])
    b.add("plug", "leave", outcomes=[(1, "home", "0.35")])
    model = b.build()
    found = solvent.reload_levels(model, capacity=1, reload=["home"])
    assert found.level("plug") == 0
    agent, actions = found.agent("plug", level="0.07"), []
    while not agent.done:
        actions.append(agent.act())
        agent.observe("plug" if actions[-1] == "charge" else "home", "-0.1" if actions[-1] == "charge" else 0.35)
    assert actions == ["charge"] * 3 + ["leave"]
    assert (agent.level, agent.reached) == (1, True)
    assert solvent.reload_levels(model, capacity="0.3", reload=["home"]).level("plug") is None


def test_charging_saturates() -> None:
    b = CMDP.builder(horizon=1, start="sun", resources=["charge"])
    b.add("sun", "go", outcomes=[(1, "night", -100)])
    b.add("night", "go", outcomes=[(1, "sun", 7)])
    model = b.build()
    assert solvent.survival_levels(model, capacity=7).levels == {"sun": 0, "night": 7}
    assert solvent.survival_levels(model, capacity=6).levels == {"sun": None, "night": None}


@pytest.mark.parametrize("charging", [False, True])
def test_a_large_capacity_takes_no_time(charging: bool) -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "idle", outcomes=[(1, "a", 1)])
    b.add("b", "idle", outcomes=[(1, "b", 1)])
    b.add("b", "leave", outcomes=[(1, "c", 2)])
    b.add("c", "go", outcomes=[(1, "b", -2 if charging else 0)])
    b.add("d", "go", outcomes=[(1, "home", 10**3 if charging else 10**12)])
    b.add("d", "idle", outcomes=[(1, "d", 1)])
    b.add("home", "rest", outcomes=[(1, "home")])
    found = solvent.survival_levels(b.build(), capacity=10**15, time_limit=10)
    expected = {"a": None, "b": 2, "c": 0, "d": 10**3, "home": 0} if charging else None
    assert found.levels == (expected or {"a": None, "b": None, "c": None, "d": 10**12, "home": 0})


def test_discounted_models_and_models_of_several_resources() -> None:
    b = CMDP.builder(horizon=None, discount=0.9, start="a", resources=["time", "fuel"])
    b.add("a", "go", reward=1, outcomes=[(1, "b", (1, "1/3"))])
    b.add("b", "go", outcomes=[(1, "a", (1, "1/6"))])
    model = b.build()
    found = solvent.survival_levels(model, "fuel", capacity=1, reload=["a"])
    assert found.levels == {"a": 0, "b": Fraction(1, 6)}
    agent = found.agent(level="0.9")
    assert agent.level == 1  # a is a reload state
    for state, cost, level in [("b", "1/3", "2/3"), ("a", "1/6", 1), ("b", "1/3", "2/3")]:
        assert agent.act() == "go"
        agent.observe(state, {"time": 1, "fuel": cost})
        assert agent.level == Fraction(level)
        assert agent.remaining == {"fuel": Fraction(level)}
    assert (agent.step, agent.spent["time"], agent.done) == (3, 3, False)
    assert solvent.survival_levels(model, "time", capacity=10).levels == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("budget", "ignored"),
    [(None, ()), ({"time": 9, "fuel": 3}, ("time: at most 9",)), ({"time": None, "fuel": 3}, ())],
)
def test_limits_on_other_resources_are_named(budget: Any, ignored: tuple[str, ...]) -> None:
    b = CMDP.builder(horizon=2, start="a", resources=["time", "fuel"], budget=budget)
    b.add("a", "go", outcomes=[(1, "a", (1, 0))])
    assert solvent.survival_levels(b.build(), "fuel", capacity=1).ignored_limits == ignored


def drive(agent: Any, model: CMDP, pick: Callable[[list[Any]], Any], steps: int) -> int:
    """Act until the agent is done, at most `steps` times, and return the number of steps."""
    for step in range(steps):
        if agent.done:
            return step
        state, action = agent.state, agent.act()
        rows = model.rows(0, model.state_index(state))
        row = next(r for r in rows if model.actions[model.row_action[r]] == action)
        outcome = pick(model.outcomes(row))
        agent.observe(outcome.next_state, outcome.cost)
        assert 0 <= agent.level <= agent.policy.capacity
    return steps


@each_kind
def test_agents_never_run_dry_and_reach(charging: bool) -> None:
    driven = 0
    for seed in range(40):
        case = Instance(seed, charging=charging)
        rng = random.Random(seed)
        survive = solvent.survival_levels(case.model, **case.given)
        reload = solvent.reload_levels(case.model, **case.given)
        reach = solvent.reach_levels(case.model, case.targets, **case.given, survive=False)

        def worst(outcomes: list[Any], levels: Any) -> Any:
            return max(outcomes, key=lambda o: o.cost["fuel"] + (levels[o.next_state] or 0))

        for state in case.model.states:
            for found, ends in ((survive, False), (reload, True), (reach, True)):
                least = found.level(state)
                if least is None:
                    continue
                driven += 1
                adversary = found.agent(state, level=least)
                taken = drive(adversary, case.model, lambda x, by=found.levels: worst(x, by), 60)
                if found is reload:
                    assert adversary.reached
                    assert taken < 60
                agent = found.agent(state, level=least)
                drive(agent, case.model, rng.choice, 5000 if ends else 60)
                assert agent.reached or not ends
    assert driven > 100


def test_agents_survive_after_a_target() -> None:
    found = solvent.reach_levels(robot(), ["desk"], capacity=10, reload=["dock"])
    agent = found.agent()
    rng = random.Random(1)
    assert drive(agent, robot(), rng.choice, 300) == 300
    assert agent.reached
    agent.reset()
    assert (agent.step, agent.state, agent.reached, agent.level) == (0, "dock", False, 10)


def test_agents_stop_at_the_target_if_survival_does_not_count() -> None:
    found = solvent.reach_levels(robot(), ["desk"], capacity=10, reload=["dock"], survive=False)
    assert found.level("desk") == 0
    agent = found.agent("desk", level=0)
    assert agent.done
    with pytest.raises(PolicyError, match="act: expected an episode that is not over, found one that is over"):
        agent.act()
    with pytest.raises(PolicyError, match="'desk', level 3: expected an episode that is not over, found one that has"):
        found.action("desk", 3)


def test_observations_are_compared_with_the_model() -> None:
    agent = solvent.survival_levels(robot(), capacity=10, reload=["dock"]).agent()
    with pytest.raises(PolicyError, match=r"observe: expected a call of act\(\) before it"):
        agent.observe("hall", 2)
    agent.act()
    with pytest.raises(UnmodeledOutcome, match="expected state 'hall' at cost 2 or state 'dock' at cost 2, found"):
        agent.observe("hall", 3)
    with pytest.raises(PolicyError, match="expected outcomes that the model allows"):
        agent.act()
    agent.reset()
    assert repr(agent) == "LevelAgent(step 0, state 'dock', level energy 10)"


def test_results() -> None:
    found = solvent.reach_levels(robot(), ["desk"], capacity="21/2", reload=["dock"])
    assert repr(found) == "Levels(reach, energy up to 10.5, possible from 3 of 3 states)"
    assert (found.reload, found.targets, found.n_possible, len(found)) == (("dock",), ("desk",), 3, 3)
    assert found.policy.rules("hall") == ((7, "serve"), (2, "back"))
    assert [found.action("hall", level) for level in (2, "6.9", 7)] == ["back", "back", "serve"]
    assert repr(found.policy) == "LevelPolicy(reach, energy, 3 rules)"
    assert found.action("desk") == "back"
    assert json.loads(json.dumps(found.to_dict())) == {
        "objective": "reach",
        "resource": "energy",
        "capacity": "10.5",
        "reload": ["dock"],
        "targets": ["desk"],
        "levels": [{"state": "dock", "level": 0}, {"state": "hall", "level": 2}, {"state": "desk", "level": 4}],
    }
    again = solvent.reach_levels(robot(), ["desk"], capacity="21/2", reload=["dock"])
    assert found == again
    assert hash(found) == hash(again)
    assert found != solvent.reach_levels(robot(), ["desk"], capacity=11, reload=["dock"])
    assert found.ticks.max() < IMPOSSIBLE


def periodic() -> CMDP:
    b = CMDP.builder(horizon=2, start="a", resources=["fuel"])
    b.add("a", "go", outcomes=[(1, "a", 1)], steps=[0])
    b.add("a", "go", outcomes=[(1, "a", 2)], steps=[1])
    return b.build()


def continuous() -> CMDP:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "go", outcomes=[(1, "a", solvent.distribution("uniform", low=0, high=1))])
    return b.build()


def two() -> CMDP:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel", "time"])
    b.add("a", "go", outcomes=[(1, "a", (1, 1))])
    return b.build()


def fine() -> CMDP:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "go", outcomes=[(1, "a", "1/1000000000000000000000")])
    b.add("a", "run", outcomes=[(1, "a", 1)])
    return b.build()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solvent.survival_levels(periodic(), capacity=3), "model: expected the same rows at all steps"),
        (
            lambda: solvent.survival_levels("van.yaml", capacity=3),
            "model: expected a CMDP, found 'van.yaml'; solvent.l",
        ),
        (lambda: solvent.survival_levels(continuous(), capacity=3), "a/go, cost of fuel: expected costs of finite su"),
        (lambda: solvent.survival_levels(two(), capacity=3), "resource: expected one of the model's resources ('fuel'"),
        (lambda: solvent.survival_levels(two(), "fule", capacity=3), "did you mean 'fuel'?"),
        (lambda: solvent.survival_levels(robot(), capacity=-1), "capacity: expected a number of at least 0, found -1"),
        (lambda: solvent.survival_levels(robot(), capacity="all"), "capacity: expected a finite number"),
        (
            lambda: solvent.survival_levels(robot(), capacity=3, reload=["dokc"]),
            "reload: state: expected one of the model's states ('dock', 'hall', 'desk'), found 'dokc'; did you mean",
        ),
        (
            lambda: solvent.survival_levels(robot(), capacity=3, reload="dock"),
            "reload: expected a list of states, found 'dock'; write reload=['dock']",
        ),
        (
            lambda: solvent.reach_levels(robot(), 7, capacity=3),
            "targets: expected a list of states, found 7; write tar",
        ),
        (lambda: solvent.reach_levels(robot(), [[]], capacity=3), "targets: state: expected one of the model's states"),
        (
            lambda: solvent.reach_levels(robot(), ["desk"], capacity=3, survive=1),
            "survive: expected True or False, found 1",
        ),
        (
            lambda: solvent.survival_levels(robot(), capacity=3, time_limit=0),
            "time_limit: expected a number of seconds",
        ),
        (lambda: solvent.survival_levels(robot(), capacity=3).level("nowhere"), "state: expected one of the model's"),
    ],
)
def test_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError) as error:
        call()
    assert message in str(error.value)


def test_capacities_beyond_64_bits() -> None:
    with pytest.raises(solvent.LatticeOverflowError, match=r"resource 'fuel': expected a capacity of at most 2\^62 ti"):
        solvent.survival_levels(fine(), capacity=1)
    # a cost above the capacity need not fit
    assert solvent.survival_levels(fine(), capacity="1/1000000000000").level("a") is None
    assert solvent.survival_levels(robot(), capacity=2**62 - 1, reload=["dock"]).level("hall") == 2


@pytest.mark.parametrize(
    ("state", "level", "message"),
    [
        ("hall", 11, "level: expected from 0 to the capacity, 10, found 11"),
        ("hall", -1, "level: expected from 0 to the capacity, 10, found -1"),
        ("hall", "1.5", "state 'hall', level 1.5: expected a level of at least 2, found 1.5"),
        ("desk", 3, "state 'desk', level 3: expected a level of at least 4, found 3"),
    ],
)
def test_levels_that_are_not_enough(state: str, level: Any, message: str) -> None:
    found = solvent.survival_levels(robot(), capacity=10, reload=["dock"])
    with pytest.raises(PolicyError) as error:
        found.agent(state, level=level)
    assert str(error.value) == message


def test_states_without_a_decision() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "go", outcomes=[(1, "a", 1)])
    b.add("b", "go", outcomes=[(1, "end", 1)])
    model = b.build()
    survive = solvent.survival_levels(model, capacity=3)
    with pytest.raises(PolicyError, match="'a', level 3: expected a state from which surviving is possible, found one"):
        survive.agent("a")
    with pytest.raises(PolicyError, match="'end', level 3: expected a state with actions, found a terminal state"):
        survive.action("end")
    assert survive.agent("end").done
    reload = solvent.reload_levels(model, capacity=3, reload=["end"])
    with pytest.raises(PolicyError, match="from which reaching a reload state is possible"):
        reload.agent("a")
    with pytest.raises(PolicyError, match="from which reaching a target is possible"):
        solvent.reach_levels(model, ["end"], capacity=3).agent("a")


def creeping(*, charging: bool = True) -> CMDP:
    """Return a model whose levels rise by one at a time, up to the capacity, if `charging`."""
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "try", outcomes=[(0.5, "end", 0), (0.5, "b", 0)])
    b.add("a", "rest", outcomes=[(1, "a", 0)])
    b.add("a", "far", outcomes=[(1, "end", 10**9)])
    b.add("b", "back", outcomes=[(1, "a", 1)])
    b.add("c", "charge", outcomes=[(1, "c", -1 if charging else 0)])
    return b.build()


def test_trying_again_at_a_cost_takes_no_time() -> None:
    for capacity, level in ((10**9 - 1, None), (10**9, 10**9)):
        found = solvent.reach_levels(creeping(charging=False), ["end"], capacity=capacity, time_limit=10)
        assert found.levels == {"a": level, "b": None, "c": None, "end": 0}
    found = solvent.reach_levels(creeping(charging=False), ["end"], capacity=10**15, time_limit=10)
    assert found.levels == {"a": 10**9, "b": 10**9 + 1, "c": None, "end": 0}


def test_free_loops_of_chance_take_no_time() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=["fuel"])
    b.add("a", "idle", outcomes=[(0.5, "b", 0), (0.5, "a", 1)])
    b.add("b", "idle", outcomes=[(0.5, "a", 0), (0.5, "b", 1)])
    b.add("b", "leave", outcomes=[(0.5, "a", 0), (0.5, "end", 10**12)])
    b.add("a", "leave", outcomes=[(1, "b", 0)])
    found = solvent.survival_levels(b.build(), capacity=10**15, time_limit=10)
    assert found.levels == {"a": 10**12, "b": 10**12, "end": 0}


def test_time_limits() -> None:
    with pytest.raises(solvent.LimitError, match=r"the levels were not finished: the time limit of 0\.1 s was reached"):
        solvent.reach_levels(creeping(), ["end"], capacity=10**9, time_limit=0.1)


def test_memory_limits_and_progress() -> None:
    with pytest.raises(solvent.LimitError, match="the levels were not finished: levels and predecessors would need"):
        solvent.survival_levels(robot(), capacity=5, memory_limit=100)
    told: list[str] = []
    solvent.reach_levels(creeping(), ["end"], capacity=5, progress=lambda phase, *_: told.append(phase))
    assert "lowering levels" in told


def test_memory_is_released_after_each_round() -> None:
    question = Question.read(creeping(), None, 500, [])
    monitor = ResourceMonitor()
    problem = question.problem(monitor)
    before = monitor.used
    goal_S = question.states_of(["end"], "targets")
    fixed_points.reach_almost_surely(problem, goal_S, np.zeros(len(goal_S), np.int64))
    assert monitor.used == before


def new_york() -> tuple[CMDP, dict[str, Any]]:
    """Return the streets of Manhattan for an electric vehicle, and what else their file says."""
    path = CASES / "NYC.json"
    if not path.exists():
        pytest.skip("the case is not there")
    data = json.loads(path.read_text())
    after: dict[str, list[Any]] = {}
    for edge in data["edges"]:
        after.setdefault(edge["tail"], []).append(edge)
    b = CMDP.builder(horizon=1, start=data["nodes"][0]["label"], resources=["charge"])
    for state in [node["label"] for node in data["nodes"] if not node["action"]]:
        for choice in after[state]:
            cost = choice["consumption"]
            b.add(state, choice["head"], outcomes=[(e["probability"], e["head"], cost) for e in after[choice["head"]]])
    return b.build(), data


def test_streets_of_new_york() -> None:
    model, data = new_york()
    given: dict[str, Any] = {
        "capacity": data["cmax"],
        "reload": [node["label"] for node in data["nodes"] if node["reload"]],
    }
    reload = solvent.reload_levels(model, **given)
    survive = solvent.survival_levels(model, **given)
    reach = solvent.reach_levels(model, [each["label"] for each in data["T"]], **given)
    assert model.n_states == len(reach) == 7378
    one = solvent.reach_levels(model, [data["T"][0]["label"]], **given)
    # fimdp 2.0 finds the same levels in every state (bench/levels.py); these are the sums of its levels
    found = [(each.n_possible, sum(filter(None, each.levels.values()))) for each in (reload, survive, reach, one)]
    assert found == [(6859, 289753), (6859, 285616), (6859, 285616), (6460, 259794)]
    rng = random.Random(1)
    for each in (survive, reach, one):
        for state in rng.sample([state for state, level in each.levels.items() if level is not None], 20):
            drive(each.agent(state, each.level(state)), model, rng.choice, 300)


@each_kind
def test_resumed_agents_continue(charging: bool) -> None:
    """An agent made from a snapshot does what the one that stopped would have done."""
    resumed = 0
    for seed in range(40):
        case, rng = Instance(seed, charging=charging), random.Random(seed)
        found = solvent.reach_levels(case.model, case.targets, **case.given)
        for state, level in found.levels.items():
            if level is None:
                continue
            agent = found.agent(state, level)
            for _ in range(6):
                if agent.done:
                    break
                snapshot = json.loads(json.dumps(agent.snapshot()))
                other = found.agent(snapshot=snapshot)
                assert (other.state, other.level, other.reached, other.step) == (
                    agent.state,
                    agent.level,
                    agent.reached,
                    agent.step,
                )
                assert other.act() == agent.act()
                row = next(
                    r
                    for r in case.model.rows(0, case.model.state_index(agent.state))
                    if case.model.actions[case.model.row_action[r]] == agent.act()
                )
                outcome = rng.choice(case.model.outcomes(row))
                agent.observe(outcome.next_state, outcome.cost)
                resumed += 1
    assert resumed > 50


def charger() -> CMDP:
    b = CMDP.builder(horizon=1, start={"a": 0.5, "b": 0.5}, resources=["battery"])
    b.add("a", "go", outcomes=[(1, "b", 2)])
    b.add("b", "charge", outcomes=[(1, "a", -5)])
    return b.build()


def test_levels_of_several_first_states() -> None:
    found = solvent.survival_levels(charger(), capacity=9)
    assert (found.level("a"), found.level("b"), found.start_level) == (2, 0, 2)
    with pytest.raises(
        PolicyError, match=r"agent, state: expected one of the 2 possible first states, found none; use"
    ):
        found.agent()
    assert found.agent("b").act() == "charge"
    assert solvent.survival_levels(charger(), capacity=1).start_level is None


def test_a_ceiling_is_refused() -> None:
    b = CMDP.builder(horizon=1, start="a", resources=[solvent.Resource("battery", floor=0, ceiling=9)])
    b.add("a", "rest", outcomes=[(1, "a", 0)])
    with pytest.raises(ModelError, match=r"model: expected no ceiling of 'battery', .*, found 'battery' with floor 0"):
        solvent.survival_levels(b.build(), capacity=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": "10"}, "snapshot, level: expected from 0 to the capacity, 9, found 10"),
        ({"level": "-1"}, "snapshot, level: expected from 0 to the capacity, 9, found -1"),
        ({"reached": 1}, "snapshot: expected a level and whether a goal has been reached"),
    ],
)
def test_wrong_snapshots(change: dict[str, Any], message: str) -> None:
    found = solvent.survival_levels(charger(), capacity=9)
    with pytest.raises(PolicyError, match=message):
        found.agent(snapshot=found.agent("a").snapshot() | change)
