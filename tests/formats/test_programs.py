"""PRISM, JANI, DRN and UMB through Storm: what is read, what is refused, and real models with known answers."""

from __future__ import annotations

import itertools
import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.cli.app import run as run_command
from solvent.errors import LoadLimitError, ModelError, SolventError
from solvent.formats import storm
from tests.effort import seeds
from tests.storming import needs_storm

CASES = Path(os.environ.get("SOLVENT_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "prism"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="needs the cases")

ROBOT = """\
mdp
const int N;
const double slip;
const bool careful;
module robot
  place : [0..N] init 0;
  wet : bool init false;
  [walk] place<N -> 1-slip : (place'=place+1) + slip : (wet'=true);
  [walk] place<N & careful -> (place'=place+1);
  [] place<N -> true;
endmodule
rewards "time"
  place<N : 1/3;
  [walk] true : 0.1;
  [walk] wet : 1;
endrewards
rewards
  [walk] true : 7;
endrewards
label "there" = place=N;
"""
STORM = "file: expected a model that Storm can build, found"
CONSTANTS = {"N": 2, "slip": "1/4", "careful": False}


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "robot.prism"
    path.write_text(ROBOT)
    return path


def rows_of(model: solvent.CMDP, state: str) -> dict[Any, tuple[float, list[Any]]]:
    return {
        model.actions[model.row_action[r]]: (float(model.row_reward[r]), model.outcomes(r))
        for r in model.rows(0, model.state_index(state))
    }


@needs_storm
def test_a_program_becomes_a_model(robot: Path) -> None:
    model = solvent.load_model(robot, constants=CONSTANTS, costs=["time"], reward="unnamed", horizon=5, goal="there")
    assert (model.name, model.horizon, model.resources) == ("robot", 5, ("time",))
    assert model.start == '{"place": 0, "wet": false}'
    assert set(model.actions) == {"walk", "step"}
    found = rows_of(model, '{"place": 0, "wet": true}')
    reward, outcomes = found["walk"]
    assert reward == 7
    # the reward of the state, and both rewards of the action
    assert {(each.probability, each.next_state) for each in outcomes} == {
        (0.75, '{"place": 1, "wet": true}'),
        (0.25, '{"place": 0, "wet": true}'),
    }
    assert {each.cost["time"] for each in outcomes} == {Fraction(1, 3) + Fraction(1, 10) + 1}
    assert found["step"][1][0].cost["time"] == Fraction(1, 3)
    ends = [s for s in range(model.n_states) if model.is_terminal(0, s)]
    assert {json.loads(str(model.states[s]))["place"] for s in ends} == {2}
    assert model.may_end is not None
    assert np.flatnonzero(model.may_end).tolist() == ends


@needs_storm
def test_choices_that_share_a_label_are_numbered(robot: Path) -> None:
    constants = {**CONSTANTS, "careful": True}
    model = solvent.load_model(robot, constants=constants, costs="time", reward="-unnamed", horizon=5)
    found = rows_of(model, str(model.start))
    assert set(found) == {"walk 1", "walk 2", "step"}
    assert found["walk 2"][0] == -7
    assert [each.probability for each in found["walk 2"][1]] == [1]


@needs_storm
def test_resources_may_saturate(robot: Path) -> None:
    tank = solvent.Resource("time", floor=0, ceiling="7/2")
    model = solvent.load_model(robot, constants=CONSTANTS, costs=[tank], reward="unnamed", horizon=2)
    assert model.resource("time") == tank


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        solvent.load_model(path, **options)
    return str(caught.value).removeprefix(f"{path}: ")


@needs_storm
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "horizon: expected the number of steps, found none; a transition system has no horizon: give horizon=..."),
        ({"horizon": 3}, "constants: expected values of N (int), slip (rational), careful (bool), found none; give"),
        ({"horizon": 3, "constants": {**CONSTANTS, "N": 1.5}}, "constants, N: expected a whole number, found 3/2"),
        (
            {"horizon": 3, "constants": {**CONSTANTS, "careful": 1}},
            "constants, careful: expected true or false, found 1",
        ),
        (
            {"horizon": 3, "constants": {**CONSTANTS, "M": 1}},
            "constants, M: expected a constant of the file (undefined",
        ),
        (
            {"horizon": 3, "constants": CONSTANTS},
            "reward: expected the reward structure to maximize, one of time, unnamed",
        ),
        (
            {"horizon": 3, "constants": CONSTANTS, "costs": ["tiem"]},
            "costs: expected one of the reward structures time, unnamed, found 'tiem'; did you mean 'time'?",
        ),
        (
            {"horizon": 3, "constants": CONSTANTS, "reward": "time", "goal": "home"},
            "goal: expected one of the labels deadlock, init, there, found 'home'",
        ),
        (
            {"horizon": 3, "constants": CONSTANTS, "reward": "time", "goal": "ther"},
            "goal: expected one of the labels deadlock, init, there, found 'ther'; did you mean 'there'?",
        ),
        (
            {"horizon": 3, "constants": {"N": 2, "slop": 1}},
            "constants, slop: expected a constant of the file (undefined: N, slip, careful), found no such",
        ),
        (
            {"horizon": 3, "constants": CONSTANTS, "reward": "time", "goal": "deadlock"},
            "goal: expected a label of a state that can be reached, found 'deadlock', one that no state has",
        ),
    ],
)
def test_arguments_are_checked(robot: Path, options: dict[str, Any], message: str) -> None:
    if options.get("goal") == "deadlock":
        robot.write_text(ROBOT + '\nlabel "never" = false;\n')
        options, message = {**options, "goal": "never"}, message.replace("deadlock", "never")
    assert refused(robot, **options).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constants": 3}, "constants: expected a dict of values by name, found 3"),
        ({"constants": {"1x": 3}}, "constants: expected names of constants, found '1x'"),
        ({"constants": {"x": "much"}}, "constants, x: expected a finite number"),
        ({"costs": {"a": 1}}, "costs: expected a list of names of reward structures"),
        ({"costs": ["a", "a"]}, "resources: expected each name once"),
        ({"reward": ""}, "reward: expected the name of a reward structure, found ''"),
        ({"goal": 3}, "goal: expected the name of a label, found 3"),
        ({"horizon": 0}, "horizon: expected a whole number of at least 1, found 0"),
    ],
)
def test_arguments_are_checked_without_storm(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    assert refused(tmp_path / "a.prism", **options).startswith(message)


def test_other_formats_take_no_options(tmp_path: Path) -> None:
    path = tmp_path / "knapsack.yaml"
    solvent.instances.knapsack([1], [1]).save(path)
    expected = "costs: expected no such argument for YAML files, which state it themselves, found (Resource('weight'),)"
    assert refused(path, costs=["weight"]) == expected


def test_without_stormpy(robot: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storm, "has_stormpy", lambda: False)
    message = r'PRISM files: expected stormpy, found no such package; pip install "solvent\[storm\]"'
    with pytest.raises(SolventError, match=message):
        solvent.load_model(robot, horizon=3)
    with pytest.raises(SolventError, match="UMB files: expected stormpy"):
        solvent.instances.knapsack([1], [1]).save(tmp_path / "knapsack.umb")


@needs_storm
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ctmc\nmodule a s:[0..1] init 0; [] s=0 -> 2:(s'=1); endmodule",
            "model type: expected mdp or dtmc, found ctmc",
        ),
        (
            "mdp\nmodule a s:[0..1]; [] true -> (s'=1); endmodule\ninit s>1 endinit",
            f"{STORM} The model does not have a single initial state",
        ),
        (
            "pta\nmodule a x:clock; s:[0..1] init 0; [] x>1 -> (s'=1); endmodule",
            "model type: expected mdp or dtmc, found pta",
        ),
        (
            "mdp\nmodule a x:clock; s:[0..1] init 0; [] x>1 -> (s'=1); endmodule",
            "variables: expected integers and truth",
        ),
        (
            "// mdp\nsmg\nplayer p a endplayer\nmodule a s:[0..1] init 0; [] s=0 -> (s'=1); endmodule",
            "model type: expected mdp or dtmc, found smg",
        ),
        ("csg\nmodule a s:[0..1] init 0; [] s=0 -> (s'=1); endmodule", "model type: expected mdp or dtmc, found csg"),
        (
            "stochastic\nmodule a s:[0..1] init 0; [] s=0 -> (s'=1); endmodule",
            "model type: expected mdp or dtmc, found ctmc",
        ),
        ("", f"{STORM} Parsing error at 1:1"),
        (
            "mdp\nglobal g:bool;\nmodule a s:[0..1]; [x] true -> (g'=true); endmodule\nmodule b=a[s=t] endmodule",
            f"{STORM} Error in line 4: ",  # not the name of a temporary file
        ),
        (
            "mdp\nmodule a s:[0..1]; [] s=0 -> (s'=1); endmodule\n"
            "rewards true:1; endrewards\nrewards true:2; endrewards",
            "reward structures: expected at most one without a name, found 2",
        ),
        (
            "mdp\nmodule a s:[0..1]; [] s=0 -> (s'=1); endmodule\n"
            'rewards true:1; endrewards\nrewards "unnamed" true:2; endrewards',
            "reward structures: expected distinct names, found one without a name and one called unnamed",
        ),
        (
            "mdp\nmodule a s:[0..1]; [] s=0 -> (s'=1); endmodule\nrewards true:mod(s,2); endrewards",
            "file: expected probabilities and rewards with exact values, found a function such as mod or log; write",
        ),
        (
            "mdp\nmodule a s:[0..1]; [] s=0 -> (s'=1); endmodule\nmodule b=a[s=t] endmodule\nsystem a ||| b endsystem",
            "system: expected modules that synchronize over all actions that they share, found a composition of its",
        ),
        ("mdp\nmodule a s:[0..1] init 0; [] s=0 -> 0.5:(s'=1); endmodule", f"{STORM} Probabilities do not sum to one"),
        ("mdp\nmodule a", STORM),
        (
            "mdp\nmodule a s:[0..1] init 0; [] s=0 -> (s'=0); endmodule",
            "initial state: expected a state that can be left",
        ),
        ("mdp\nmodule a s:[0..1] init 0; [] s=0 -> (s'=2); endmodule", STORM),
        (
            "pomdp\nobservables s endobservables\nmodule a s:[0..1] init 0; [] s=0 -> (s'=1); endmodule",
            "model type: expected mdp or dtmc, found pomdp",
        ),
        (
            "mdp\nmodule a s:[0..1] init 0; [go] s=0 -> (s'=1); endmodule\nrewards [go] s=0 -> s=1 : 2; endrewards",
            f"{STORM} Unable to treat transition rewards",
        ),
    ],
)
def test_programs_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.prism"
    path.write_text(text)
    assert refused(path, horizon=3).startswith(message)


@needs_storm
def test_a_chain_has_one_action(tmp_path: Path) -> None:
    path = tmp_path / "die.pm"
    path.write_text("dtmc\nmodule die s:[0..2] init 0; [roll] s=0 -> 1/3:(s'=1) + 2/3:(s'=2); endmodule")
    model = solvent.load_model(path, horizon=1)
    assert (model.n_rows, model.n_states) == (1, 3)
    assert model.probability.tolist() == [1 / 3, 2 / 3]


@needs_storm
def test_a_hint_names_a_flag_once(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["info", str(robot)]) == 2
    assert "hint      a transition system has no horizon: give --horizon\n" in capsys.readouterr().err


@needs_storm
def test_costs_of_a_chain_are_not_averaged(tmp_path: Path) -> None:
    """Storm joins commands of a chain that are enabled together, and takes the expectation of their rewards."""
    path = tmp_path / "die.pm"
    path.write_text(
        "dtmc // two ways to roll\nmodule die s:[0..2] init 0; b:bool init true;\n"
        "  [safe] s=0 -> (s'=1); [risky] s=0 -> 0.5:(s'=1) + 0.5:(s'=2); [] s=1 -> (b'=false);\nendmodule\n"
        'rewards "cost" s=0 : 1; [risky] true : 10; endrewards\nrewards "gain" [safe] true : 4; endrewards\n'
    )
    model = solvent.load_model(path, costs=["cost"], reward="gain", horizon=2)
    assert model.start == '{"s": 0, "b": true}'
    [(action, (reward, outcomes))] = rows_of(model, str(model.start)).items()
    assert (action, reward) == ("risky+safe", 2)
    assert sorted(
        (each.probability, json.loads(str(each.next_state))["s"], each.cost["cost"]) for each in outcomes
    ) == [
        (0.25, 1, 11),
        (0.25, 2, 11),
        (0.5, 1, 1),
    ]
    assert solvent.solve(model, 10).status == "infeasible"
    assert solvent.solve(model, 11).value == 2


@needs_storm
@pytest.mark.parametrize(
    "kind",
    ["nondeterministic\n", "// a comment: dtmc\n", "\ufeffmdp\r\n", 'const int ctmcs=1; label "chain"=true; mdp\n'],
)
def test_types_are_read_as_prism_does(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.nm"
    program = "module a s:[0..1] init 0; [x] s=0 -> (s'=1); [y] s=0 -> (s'=1); endmodule // \xe9\n"
    path.write_bytes(kind.encode() + program.encode("latin-1"))
    model = solvent.load_model(path, horizon=1)
    assert set(model.actions) == {"x", "y"}
    path.write_text(f"probabilistic\n{program}")
    assert solvent.load_model(path, horizon=1).actions == ("x+y",)


@needs_storm
def test_several_initial_states_are_equally_likely(tmp_path: Path) -> None:
    """The policy is the best one from each of them, and safe from all."""
    path = tmp_path / "ring.nm"
    path.write_text(
        "mdp\nglobal p:bool;\nmodule a s:[0..3]; [go] s<3 -> (s'=s+1) & (p'=true); [jump] s<3 -> (s'=3); endmodule\n"
        'init s<3 & !p endinit\nrewards "cost" [jump] true : 4; [go] true : 3-s; endrewards\n'
        'rewards "gain" [go] true : 2; endrewards'
    )
    model = solvent.load_model(path, costs=["cost"], reward="gain", horizon=3, goal="deadlock")
    assert isinstance(model.start, dict)
    assert {json.loads(str(state))["s"]: p for state, p in model.start.items()} == dict.fromkeys(range(3), 1 / 3)
    assert solvent.solve(model, 6).value == pytest.approx((6 + 4 + 2) / 3)
    assert solvent.solve(model, 5).value == pytest.approx((0 + 4 + 2) / 3)
    assert solvent.solve(model, 3).status == "infeasible"  # from the first of them
    again = solvent.load_model(path, costs=["cost"], reward="gain", horizon=3, goal="init")
    assert solvent.solve(again, 6).status == "infeasible"  # no way back


@needs_storm
def test_limits_on_loading(robot: Path) -> None:
    options: dict[str, Any] = {"constants": {**CONSTANTS, "N": 100}, "reward": "time", "horizon": 3}
    with pytest.raises(LoadLimitError, match="at most 10 choices, transitions and costs, found"):
        solvent.load_model(robot, limits=solvent.LoadLimits(entries=10), **options)


@needs_storm
@pytest.mark.slow
def test_storm_is_stopped_at_a_limit(robot: Path) -> None:
    endless = "mdp\nmodule a x:[0..1000000000] init 0; [] true -> 0.5:(x'=x+1)+0.5:(x'=x*2); endmodule"
    robot.write_text(endless)
    with pytest.raises(LoadLimitError, match="to load within 3 seconds"):
        solvent.load_model(robot, limits=solvent.LoadLimits(seconds=3), horizon=3)
    if sys.platform == "linux":
        with pytest.raises(LoadLimitError, match="expected a model of at most 1,000,000,000 bytes, found a larger one"):
            solvent.load_model(robot, limits=solvent.LoadLimits(expanded_bytes=10**9), horizon=3)


# ---------------------------------------------------------------------------------------------------------------------
# JANI


def jani(**changes: Any) -> dict[str, Any]:
    """A walk with a cost at each destination, a cost of the location, and a second automaton that takes part."""
    step = {"op": "+", "left": "x", "right": 1}
    return {
        "jani-version": 1,
        "name": "walk",
        "type": "mdp",
        "features": ["derived-operators"],
        "actions": [{"name": "go"}, {"name": "tick"}],
        "constants": [{"name": "p", "type": "real"}],
        "variables": [
            {
                "name": "x",
                "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3},
                "initial-value": 0,
            },
            {"name": "cost", "type": "real", "transient": True, "initial-value": 0},
            {"name": "gain", "type": "real", "transient": True, "initial-value": 0},
            {"name": "heat", "type": "real", "transient": True, "initial-value": 0},
            {"name": "home", "type": "bool", "transient": True, "initial-value": False},
        ],
        "properties": [],
        "automata": [
            {
                "name": "walker",
                "initial-locations": ["out"],
                "locations": [
                    {"name": "out", "transient-values": [{"ref": "cost", "value": 0.125}]},
                    {"name": "in", "transient-values": [{"ref": "home", "value": True}]},
                ],
                "edges": [
                    {
                        "location": "out",
                        "action": "go",
                        "guard": {"exp": {"op": "<", "left": "x", "right": 2}},
                        "destinations": [
                            {
                                "location": "out",
                                "probability": {"exp": "p"},
                                "assignments": [
                                    {"ref": "x", "value": step},
                                    {"ref": "cost", "value": {"op": "+", "left": "x", "right": 0.1}},
                                    {"ref": "gain", "value": 3},
                                ],
                            },
                            {
                                "location": "out",
                                "probability": {
                                    "exp": {"op": "/", "left": {"op": "-", "left": 1, "right": "p"}, "right": 2}
                                },
                                "assignments": [{"ref": "x", "value": step}, {"ref": "cost", "value": 6}],
                            },
                            {
                                "location": "in",
                                "probability": {
                                    "exp": {"op": "/", "left": {"op": "-", "left": 1, "right": "p"}, "right": 2}
                                },
                                "assignments": [],
                            },
                        ],
                    }
                ],
            },
            {
                "name": "clock",
                "initial-locations": ["on"],
                "locations": [{"name": "on"}],
                "edges": [
                    {
                        "location": "on",
                        "action": "go",
                        "destinations": [
                            {
                                "location": "on",
                                "probability": {"exp": 0.5},
                                "assignments": [{"ref": "heat", "value": 10}],
                            },
                            {"location": "on", "probability": {"exp": 0.5}},
                        ],
                    },
                    {"location": "on", "action": "tick", "destinations": [{"location": "on"}]},
                ],
            },
        ],
        "system": {
            "elements": [{"automaton": "walker"}, {"automaton": "clock"}],
            "syncs": [{"synchronise": ["go", "go"], "result": "go"}, {"synchronise": [None, "tick"], "result": "tick"}],
        },
        **changes,
    }


@needs_storm
def test_costs_of_destinations_are_not_averaged(tmp_path: Path) -> None:
    path = tmp_path / "walk.jani"
    path.write_text(json.dumps(jani()))
    options: dict[str, Any] = {"constants": {"p": "1/3"}, "costs": ["cost", "heat"], "horizon": 4}
    model = solvent.load_model(path, reward="gain", goal="home", **options)
    assert model.start == '{"x": 0, "walker": "out"}'
    assert model.n_states == 5  # tags are not part of a state
    found = rows_of(model, '{"x": 1, "walker": "out"}')
    base = Fraction(1, 8)
    expected: dict[Any, Fraction] = {}
    for p, state, cost in (
        (Fraction(1, 3), '{"x": 2, "walker": "out"}', 1 + Fraction(1, 10)),
        (Fraction(1, 3), '{"x": 2, "walker": "out"}', Fraction(6)),
        (Fraction(1, 3), '{"x": 1, "walker": "in"}', Fraction(0)),
    ):
        for heat in (10, 0):
            expected[state, base + cost, heat] = p / 2
    reward, outcomes = found["go"]
    assert reward == 1.0
    assert {
        (each.next_state, each.cost["cost"], each.cost["heat"]): pytest.approx(each.probability) for each in outcomes
    } == expected
    [tick] = found["tick"][1]  # the clock keeps its tag, but its other edge was not taken
    assert tick.cost == {"cost": base, "heat": 0}
    # the worst case of one step is what Storm's average of the destinations hides
    assert max(each.cost["cost"] for each in outcomes) == 6 + base


Product = dict[tuple[int, int], dict[str, list[tuple[Fraction, tuple[int, int], Fraction, Fraction]]]]


def random_jani(seed: int) -> tuple[dict[str, Any], Product]:
    """Two automata that go together or alone, with costs at destinations; and all their outcomes."""
    rng = np.random.default_rng(seed)
    edges: list[dict[str, dict[int, list[tuple[Fraction, int, Fraction]]]]] = []
    for _ in range(2):
        by_action: dict[str, dict[int, list[tuple[Fraction, int, Fraction]]]] = {"both": {}, "alone": {}}
        for action, place in ((a, i) for a in by_action for i in range(3)):
            if rng.random() < 0.75:
                n = int(rng.integers(1, 4))
                costs = [Fraction(int(x), 4) for x in rng.integers(-1, 4, n)]
                by_action[action][place] = [(Fraction(1, n), int(rng.integers(3)), cost) for cost in costs]
        edges.append(by_action)
    automata = []
    for k, by_action in enumerate(edges):
        listed = []
        for action, places in by_action.items():
            for place, destinations in places.items():
                listed.append({
                    "location": f"l{place}", "action": action if action == "both" else f"alone{k}",
                    "destinations": [
                        {
                            "location": f"l{t}",
                            "probability": {"exp": {"op": "/", "left": 1, "right": len(destinations)}},
                            "assignments": [{"ref": f"cost{k}", "value": float(c)}] if c else [],
                        }
                        for _, t, c in destinations
                    ],
                })  # fmt: skip
        locations = [{"name": f"l{i}"} for i in range(3)]
        automata.append({"name": f"a{k}", "locations": locations, "initial-locations": ["l0"], "edges": listed})
    variables = [{"name": f"cost{k}", "type": "real", "transient": True, "initial-value": 0} for k in range(2)]
    syncs = [{"synchronise": ["both", "both"], "result": "both"}]
    syncs += [
        {"synchronise": ["alone0", None], "result": "alone0"},
        {"synchronise": [None, "alone1"], "result": "alone1"},
    ]
    document = {
        "jani-version": 1, "name": "random", "type": "mdp", "features": ["derived-operators"], "properties": [],
        "actions": [{"name": name} for name in ("both", "alone0", "alone1")], "variables": variables,
        "automata": automata, "system": {"elements": [{"automaton": "a0"}, {"automaton": "a1"}], "syncs": syncs},
    }  # fmt: skip
    zero, product = Fraction(0), {}
    for x, y in itertools.product(range(3), repeat=2):
        rows = {}
        if x in edges[0]["both"] and y in edges[1]["both"]:
            pairs = itertools.product(edges[0]["both"][x], edges[1]["both"][y])
            rows["both"] = [(p * q, (t, u), c, d) for (p, t, c), (q, u, d) in pairs]
        if x in edges[0]["alone"]:
            rows["alone0"] = [(p, (t, y), c, zero) for p, t, c in edges[0]["alone"][x]]
        if y in edges[1]["alone"]:
            rows["alone1"] = [(p, (x, t), zero, c) for p, t, c in edges[1]["alone"][y]]
        product[x, y] = rows
    return document, product


@needs_storm
@pytest.mark.parametrize("seed", seeds(24))
def test_random_automata_against_their_product(seed: int, tmp_path: Path) -> None:
    document, product = random_jani(seed)
    path = tmp_path / "random.jani"
    path.write_text(json.dumps(document))
    if not product[0, 0]:
        with pytest.raises(ModelError, match="initial state: expected a state that can be left"):
            solvent.load_model(path, costs=["cost0", "cost1"], horizon=3)
        return
    model = solvent.load_model(path, costs=["cost0", "cost1"], horizon=3)

    def place(state: Any) -> tuple[int, int]:
        values = json.loads(state)
        return int(values["a0"][1:]), int(values["a1"][1:])

    for s, state in enumerate(model.states):
        rows = product[place(state)]
        found = rows_of(model, str(state))
        if model.is_terminal(0, s):
            assert all(after == place(state) and not c and not d for row in rows.values() for _, after, c, d in row)
            continue
        assert set(found) == set(rows)
        for action, outcomes in rows.items():
            expected: dict[Any, Fraction] = {}
            for p, after, c, d in outcomes:
                expected[after, c, d] = expected.get((after, c, d), Fraction(0)) + p
            seen: dict[Any, float] = {}
            for each in found[action][1]:
                key = place(each.next_state), each.cost["cost0"], each.cost["cost1"]
                seen[key] = seen.get(key, 0) + each.probability
            assert seen == pytest.approx({key: float(p) for key, p in expected.items()})


@needs_storm
def test_a_cost_may_be_the_reward_as_well(tmp_path: Path) -> None:
    path = tmp_path / "walk.jani"
    path.write_text(json.dumps(jani()))
    options: dict[str, Any] = {"constants": {"p": "1/3"}, "horizon": 4}
    plain = solvent.load_model(path, reward="cost", **options)
    both = solvent.load_model(path, costs=["cost"], reward="-cost", **options)
    for state in plain.states:
        expected = {action: -reward for action, (reward, _) in rows_of(plain, str(state)).items()}
        assert {action: reward for action, (reward, _) in rows_of(both, str(state)).items()} == pytest.approx(expected)


@needs_storm
@pytest.mark.parametrize("kind", ["variables", "arrays"])
def test_variables_of_automata_are_part_of_a_state(tmp_path: Path, kind: str) -> None:
    """Storm calls them by other names; states that differ in them are not one state, with or without costs."""
    number = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 2}
    changed = jani()
    if kind == "arrays":
        changed["features"].append("arrays")
        parts: Any = {"op": "av", "elements": [0, 0]}
        held = {"name": "heat of", "type": {"kind": "array", "base": number}, "initial-value": parts}
        ref: Any = {"op": "aa", "exp": "heat of", "index": 1}
        names = {"heat of_at_0", "heat of_at_1"}
    else:
        held, ref, names = {"name": "level", "type": number, "initial-value": 0}, "level", {"clock_level"}
    changed["automata"][1]["variables"] = [held]
    edge = changed["automata"][1]["edges"][1]
    edge["guard"] = {"exp": {"op": "<", "left": ref, "right": 2}}
    edge["destinations"][0]["assignments"] = [{"ref": ref, "value": {"op": "+", "left": ref, "right": 1}}]
    path = tmp_path / "walk.jani"
    path.write_text(json.dumps(changed))
    options: dict[str, Any] = {"constants": {"p": "1/3"}, "reward": "gain", "horizon": 4}
    for costs in ([], ["cost"], ["cost", "heat"]):
        model = solvent.load_model(path, costs=costs, **options)
        assert model.n_states == 5 * 3
        found = json.loads(str(model.start))
        assert {name.removeprefix("clock_") for name in found} == {
            "x",
            "walker",
            *(n.removeprefix("clock_") for n in names),
        }
        ticks = [s for s in range(model.n_states) if "tick" in rows_of(model, str(model.states[s]))]
        assert len(ticks) == 5 * 2  # not at the last level


@needs_storm
def test_costs_of_a_chain_in_jani_are_not_averaged(tmp_path: Path) -> None:
    path, changed = tmp_path / "walk.jani", jani(type="dtmc")
    path.write_text(json.dumps(changed))
    model = solvent.load_model(path, constants={"p": "1/3"}, costs=["cost", "heat"], reward="gain", horizon=4)
    [(action, (reward, outcomes))] = rows_of(model, str(model.start)).items()
    assert (action, reward) == ("go+tick", 0.5)
    base = Fraction(1, 8)
    assert {(each.cost["cost"] - base, each.cost["heat"]) for each in outcomes} == {
        (Fraction(1, 10), 0), (Fraction(1, 10), 10), (6, 0), (6, 10), (0, 0), (0, 10),
    }  # fmt: skip
    assert sum(each.probability for each in outcomes if each.cost["heat"]) == pytest.approx(1 / 4)


@needs_storm
def test_a_model_without_variables(tmp_path: Path) -> None:
    edge = {"location": "l", "destinations": [{"location": "l", "assignments": [{"ref": "cost", "value": 2}]}]}
    path = tmp_path / "one.jani"
    document = jani(actions=[], constants=[], system={"elements": [{"automaton": "a"}]})
    document["variables"] = document["variables"][1:2]
    document["automata"] = [{"name": "a", "initial-locations": ["l"], "locations": [{"name": "l"}], "edges": [edge]}]
    path.write_text(json.dumps(document))
    model = solvent.load_model(path, costs=["cost"], reward="-cost", horizon=3)
    assert (model.states, solvent.solve(model, 6).value) == (("{}",), -6)


@needs_storm
def test_assignments_may_have_an_index(tmp_path: Path) -> None:
    path, changed = tmp_path / "walk.jani", jani()
    options: dict[str, Any] = {"constants": {"p": "1/3"}, "costs": ["cost"], "reward": "gain", "horizon": 4}
    path.write_text(json.dumps(changed))
    plain = solvent.load_model(path, **options)
    first, second, _ = changed["automata"][0]["edges"][0]["destinations"]
    second["assignments"][1]["index"] = 1  # its value is a number
    path.write_text(json.dumps(changed))
    assert solvent.load_model(path, **options) == plain
    first["assignments"][1]["index"] = 1  # after x has changed
    path.write_text(json.dumps(changed))
    expected = "a value of 'cost' that assignments of a lower index do not change, found one that depends on them"
    with pytest.raises(ModelError, match=f"destinations, assignments: expected {expected}"):
        solvent.load_model(path, **options)


def test_a_destination_assigns_a_cost_once(tmp_path: Path) -> None:
    path, changed = tmp_path / "walk.jani", jani()
    changed["automata"][0]["edges"][0]["destinations"][0]["assignments"] += [{"ref": "gain", "value": 1}]
    path.write_text(json.dumps(changed))
    with pytest.raises(ModelError, match="destinations, assignments: expected one assignment of 'gain', found two"):
        solvent.load_model(path, costs=["cost", "gain"], horizon=3)


def test_costs_are_zero_unless_they_are_assigned(tmp_path: Path) -> None:
    path, changed = tmp_path / "walk.jani", jani()
    changed["variables"][1]["initial-value"] = 2
    path.write_text(json.dumps(changed))
    for options in ({"costs": ["cost"]}, {"reward": "-cost"}):
        with pytest.raises(ModelError, match="variables, cost, initial-value: expected 0, found 2"):
            solvent.load_model(path, horizon=3, **options)


@needs_storm
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(jani(type="ctmc")), "type: expected mdp or dtmc, found ctmc"),
        ("{", "file: expected JSON, found"),
        ("[]", STORM),
        (json.dumps(jani(automata=3)), STORM),
        (
            json.dumps(jani()).replace('"heat", "value"', '"cost", "value"'),
            f"{STORM} Multiple writes to global variable",
        ),
        (json.dumps(jani(variables=3)), "variables: expected a list, found 3"),
        (
            json.dumps(jani()).replace('"name": "cost"', '"name": "price"').replace('"ref": "cost"', '"ref": "price"'),
            "costs: expected one of the reward structures gain, heat, price, found 'cost'",
        ),
    ],
)
def test_jani_files_that_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "walk.jani"
    path.write_text(content)
    assert refused(path, horizon=3, constants={"p": 0.5}, costs=["cost"]).startswith(message)


def test_jani_files_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "knapsack.jani"
    message = "expected a name ending in .*, found '.jani'; JANI files can only be read"
    with pytest.raises(ModelError, match=message):
        solvent.instances.knapsack([1], [1]).save(path)


# ---------------------------------------------------------------------------------------------------------------------
# DRN


DRN = """\
@type: {type}
@value_type: {value_type}
@parameters

@reward_models
cost
@nr_states
2
{choices}
@model
state 0 [1] init
\taction go [0]
\t\t0 : {p}
\t\t1 : 1/2
\taction stay [2]
\t\t0 : 1
state 1 [0]
\taction stay [0]
\t\t1 : 1
"""


@needs_storm
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "CTMC"}, "@type: expected MDP or DTMC, found CTMC"),
        ({"type": "POMDP"}, "@type: expected MDP or DTMC, found POMDP"),
        ({"value_type": "parametric"}, "@value_type: expected rational or double, found parametric"),
        ({"p": "[0.4, 0.9]"}, f"{STORM} Could not parse value '[0.4, 0.9]' as a number"),
    ],
)
def test_drn_files_that_are_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    path = tmp_path / "a.drn"
    path.write_text(
        DRN.format(**{"type": "MDP", "value_type": "rational", "choices": "@nr_choices\n3", "p": "1/2"} | changes)
    )
    assert refused(path, horizon=3, reward="cost") == message


@needs_storm
def test_drn_files_without_a_number_of_choices(tmp_path: Path) -> None:
    path = tmp_path / "a.drn"
    for choices, actions in (("@nr_choices\n3", ("go", "stay")), ("", ("step 1", "step 2"))):
        path.write_text(DRN.format(type="MDP", value_type="rational", choices=choices, p="1/2"))
        model = solvent.load_model(path, costs=["cost"], reward="cost", horizon=3)
        assert model.actions == actions
        assert solvent.solve(model, 5).value == 4.5  # stay, then go twice


# ---------------------------------------------------------------------------------------------------------------------
# real models


@needs_storm
@needs_cases
def test_rover() -> None:
    options: dict[str, Any] = {"costs": ["time", "energy"], "reward": "value", "horizon": 80}
    model = solvent.load_model(CASES / "rover.prism", **options)
    assert '{"task": 0, "success": false, "done": false, "increased_energy": false}' in model.states
    solution = solvent.solve(model, {"time": 180, "energy": 100})
    assert solution.value == pytest.approx(111.9603, abs=5e-5)
    report = solvent.verify(model, solution.policy, {"time": 180, "energy": 100})
    assert report.feasible
    assert report.value == pytest.approx(solution.value)


@needs_storm
@needs_cases
@pytest.mark.parametrize(
    ("file", "options", "n_states", "budget"),
    [
        ("rover", {"costs": ["time", "energy"], "reward": "value", "horizon": 20}, 16, {"time": 45, "energy": 25}),
        (
            "resources5_5",
            {"costs": ["steps", "attacks"], "reward": "gold", "horizon": 24},
            94,
            {"steps": 24, "attacks": 2},
        ),
        ("02procs", {"costs": ["energyGlobal"], "reward": "utilityGlobal", "horizon": 20}, 349, {"energyGlobal": 100}),
    ],
)
def test_storm_agrees_on_real_models(
    file: str, options: dict[str, Any], n_states: int, budget: dict[str, int], tmp_path: Path
) -> None:
    """The value of Solvent is the one that Storm's engine finds in the exported augmentation."""
    import stormpy

    model = solvent.load_model(CASES / f"{file}.prism", **options)
    assert model.n_states == n_states
    solution = solvent.solve(model, budget)
    assert solution.value > 0
    assert solvent.verify(model, solution.policy, budget).feasible
    solvent.augment(model, budget).save(tmp_path / "augmented.drn")
    built = stormpy.build_model_from_drn(tmp_path / "augmented.drn")
    [asked] = stormpy.parse_properties('R{"reward"}max=? [F "end"]')
    found = stormpy.model_checking(built, asked).get_value(built.initial_states[0])
    assert found == pytest.approx(solution.value, rel=1e-6)


@needs_storm
def test_commands_read_programs(robot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [str(robot), "--constant", "N=2", "--constant", "slip=1/4", "--constant", "careful=false", "--cost", "time"]
    flags += ["--reward", "unnamed", "--horizon", "5"]
    policy = str(robot.with_suffix(".policy"))
    assert run_command(["solve", *flags, "--budget", "time=3", "--out", policy, "--json"]) == 0
    solved = json.loads(capsys.readouterr().out)
    model = solvent.load_model(robot, constants=CONSTANTS, costs=["time"], reward="unnamed", horizon=5)
    assert solved["value"] == pytest.approx(solvent.solve(model, 3).value)
    for command in (["info"], ["frontier", "--max-budget", "4"], ["levels", "--capacity", "9"], ["compare", "-b", "3"]):
        assert run_command([command[0], *flags, *command[1:], "--json"]) in (0, 1), command
    for command in ("verify", "simulate", "policy"):
        assert run_command([command, str(robot), policy, *flags[1:], "--json"]) == 0, command
    target = robot.with_suffix(".yaml")
    assert run_command(["convert", str(robot), str(target), *flags[1:], "--goal", "there"]) == 0
    goals = solvent.load_model(robot, constants=CONSTANTS, costs=["time"], reward="unnamed", horizon=5, goal="there")
    assert solvent.load_model(target).fingerprint == goals.fingerprint
    learn = ["learn", *flags, "--budget", "time=3", "--max-episodes", "20", "--json"]
    capsys.readouterr()
    assert run_command(learn) in (0, 3)
    assert json.loads(capsys.readouterr().out)["command"] == "learn"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--constant", "N"], "--constant\n  expected  NAME=VALUE, such as N=3\n  found     'N'"),
        (
            ["--constant", "N=1", "--constant", "N=2"],
            "--constant\n  expected  each constant once\n  found     'N' twice",
        ),
        (
            ["--cost", "floor=3"],
            "--cost\n  expected  NAME, NAME,floor=AMOUNT or NAME,ceiling=AMOUNT\n  found     'floor=3'",
        ),
        (["--cost", "a,"], "--cost\n  expected  NAME, NAME,floor=AMOUNT or NAME,ceiling=AMOUNT\n  found     ''"),
    ],
)
def test_flags_are_checked(robot: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["info", str(robot), *flags]) == 2
    assert message in capsys.readouterr().err


#: Examples that come with stormpy, a reward structure of each, and constants.
SHIPPED = [
    ("mdp/two_dice.nm", "coinflips", {}),
    ("mdp/coin2-2.nm", "steps", {}),
    ("mdp/csma2-2.nm", "time", {}),
    ("mdp/die_selection.nm", "coin_flips", {}),
    ("mdp/multiobjective1.nm", "rew", {}),
    ("mdp/leader4.nm", "rounds", {}),
    ("mdp/slipgrid.nm", "unnamed", {"slip": "1/3"}),
    ("dtmc/die.pm", "coin_flips", {}),
    ("dtmc/brp.pm", "unnamed", {"N": 3, "MAX": 3}),
]


@needs_storm
@pytest.mark.parametrize(("file", "reward", "constants"), SHIPPED, ids=lambda each: str(each))
def test_storm_agrees_on_its_own_examples(file: str, reward: str, constants: dict[str, Any]) -> None:
    """The best reward of seven steps, by induction on the model that was read and by Storm on its own."""
    import stormpy

    path = Path(stormpy.__file__).parent / "examples" / "files" / file
    program = stormpy.parse_prism_program(path)
    undefined = {each.name for each in program.constants if not each.defined}
    given = {name: value for name, value in constants.items() if name in undefined}
    model = solvent.load_model(path, constants=given, reward=reward, horizon=7)
    exact = {name: value if isinstance(value, int) else stormpy.Rational(value) for name, value in given.items()}
    program, _ = stormpy.instantiate_constants(program, exact)
    name = "" if reward == "unnamed" else f'{{"{reward}"}}'
    best = "" if file.endswith(".pm") else "max"
    built = stormpy.build_model(program)
    found = stormpy.model_checking(built, stormpy.parse_property(f"R{name}{best}=? [C<=7]"))
    expected = found.get_value(built.initial_states[0])
    assert solvent.solve(model, {}).value == pytest.approx(expected, rel=1e-6)
    costly = solvent.load_model(path, constants=given, costs=[reward], reward=f"-{reward}", horizon=7)
    for row in range(costly.n_rows):
        mean = sum(each.probability * float(each.cost[reward]) for each in costly.outcomes(row))  # type: ignore[arg-type]
        assert mean == pytest.approx(-costly.row_reward[row])
