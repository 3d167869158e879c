"""A small model file, and changes that make its structure invalid."""

from __future__ import annotations

from typing import Any

BASE = """\
solvent: 1
horizon: 3
start: home
resources: [fuel]
terminal: [away]
rows:
  - state: home
    action: go
    outcomes: [{probability: 0.5, next: home, cost: 1}, {probability: 0.5, next: away, cost: 2}]
"""


def row(**changes: Any) -> list[Any]:
    return [{"state": "home", "action": "go", "outcomes": [{"probability": 1, "next": "away"}], **changes}]


def outcome(**changes: Any) -> list[Any]:
    return row(outcomes=[{"probability": 0, "next": "home"}, {"probability": 1, "next": "away", **changes}])


BAD_STRUCTURES: list[tuple[dict[str, Any], str]] = [
    ({"solvent": 2}, r"^solvent: expected 1, found 2"),
    ({"solvent": True}, r"^solvent: expected 1, found true"),
    ({"horizon": 2.5}, r"^horizon: expected a valid integer, found .*2.5"),
    ({"horizon": 0}, r"^horizon: expected greater than or equal to 1, found 0"),
    ({"horizon": True}, r"^horizon: expected a valid integer, found true"),
    ({"horizon": "3"}, r"^horizon: expected a valid integer, found '3'"),
    ({"horizon": ...}, r"^file: expected a field 'horizon', found none"),
    ({"start": ...}, r"^file: expected a field 'start', found none"),
    ({"start": None}, r"^start: expected a name: .*found null; put it in quotes if it is a name"),
    ({"start": True}, r"^start: expected a name: .*found true; put it in quotes if it is a name"),
    ({"start": []}, r"^start: expected a name: text, a number, or a list of these, found \[\]$"),
    ({"start": {"home": "half"}}, r"^start.home: expected a finite number .* found 'half'$"),
    ({"start": {"home": None}}, r"^start.home: expected a finite number .* found null$"),
    ({"start": {"home": {"p": 1}}}, r"^start.home: expected a finite number .* found {'p': 1}$"),
    ({"start": [{"state": "home", "chance": 1}]}, r"^start\[0\].chance: expected a known field \(state, probability\)"),
    ({"start": [{"state": "home"}]}, r"^start\[0\]: expected a field 'probability', found none$"),
    ({"start": [{"probability": 1}]}, r"^start\[0\]: expected a field 'state', found none$"),
    (
        {"start": [{"state": "home", "probability": 1}, "away"]},
        r"^start\[1\]: expected a mapping with the fields state and probability, found 'away'$",
    ),
    ({"start": [{"state": True, "probability": 1}]}, r"^start\[0\].state: expected a name: .* found true; put it"),
    ({"start": [{"state": "home", "probability": True}]}, r"^start\[0\].probability: expected a finite .* found true$"),
    ({"rows": row(state={"home": 1})}, r"^rows\[0\].state: expected a name: .*, found {'home': 1}$"),
    ({"rows": ...}, r"^file: expected a field 'rows', found none"),
    ({"rows": []}, r"^rows: expected"),
    ({"rows": {}}, r"^rows: expected a valid list"),
    (
        {"spent": {"fuel": 3}},
        r"^spent: expected a known field .*, found an unknown one; what has been spent before the "
        r"first step is an argument: solve\(model, spent=\.\.\.\), or --spent fuel=5$",
    ),
    ({"horizn": 3}, r"^horizn: expected a known field \(solvent, .*\), found an unknown one; did you mean 'horizon'\?"),
    ({"rows": row(reward="x")}, r"^rows\[0\].reward: expected a finite number .* found 'x'"),
    ({"rows": row(stpes=[1])}, r"^rows\[0\].stpes: expected a known field .*; did you mean 'steps'\?"),
    ({"rows": row(state=...)}, r"^rows\[0\].state: expected a name|expected a field 'state'"),
    ({"rows": row(outcomes=[])}, r"^rows\[0\].outcomes: expected"),
    ({"rows": row(steps="all")}, r"^rows\[0\].steps: expected a list of steps or ranges"),
    ({"rows": row(steps=[])}, r"^rows\[0\].steps: expected a list of steps or ranges"),
    ({"rows": row(steps=[1.5])}, r"^rows\[0\].steps: expected a step or a range"),
    ({"rows": row(steps=["1-x"])}, r"^rows\[0\].steps: expected a step or a range such as \"4-9\", found '1-x'"),
    (
        {"rows": outcome(probability="half")},
        r"^rows\[0\].outcomes\[1\].probability: expected a finite number .* 'half'",
    ),
    (
        {"rows": outcome(probability=None)},
        r"^rows\[0\].outcomes\[1\].probability: expected a finite .* found null",
    ),
    (
        {"rows": outcome(probability=True)},
        r"^rows\[0\].outcomes\[1\].probability: expected a finite .* found true",
    ),
    ({"rows": outcome(next=None)}, r"^rows\[0\].outcomes\[1\].next: expected a name"),
    ({"rows": outcome(cost=[True])}, r"^rows\[0\].outcomes\[1\].cost: expected a finite number .* found true"),
    ({"rows": outcome(cost={"fuel": "x"})}, r"^rows\[0\].outcomes\[1\].cost: expected a finite number .* found 'x'"),
    ({"rows": outcome(cost={"distribution": "unifrom"})}, r"^rows\[0\].outcomes\[1\].cost: .*did you mean 'uniform'"),
    ({"rows": outcome(cost={"distribution": "uniform", "low": 1})}, r"^rows\[0\].outcomes\[1\].cost: .* found no high"),
    ({"rows": outcome(cost={"distribution": 1})}, r"^rows\[0\].outcomes\[1\].cost: expected a number, or a mapping"),
    (
        {"rows": outcome(cost={"distribution": "uniform", "low": 1, "high": 2, "negate": 1})},
        r"^rows\[0\].outcomes\[1\].cost, negate: expected true or false, found 1",
    ),
    (
        {"rows": outcome(cost={"distribution": "uniform", "low": 1, "high": 2, "where": 1})},
        r"^rows\[0\].outcomes\[1\].cost: expected parameters of uniform",
    ),
    (
        {"rows": outcome(chance=1)},
        r"^rows\[0\].outcomes\[1\].chance: expected a known field \(probability, next, cost, reward\)",
    ),
    ({"resources": "fuel"}, r"^resources: expected a valid list, found 'fuel'"),
    (
        {"resources": [1]},
        r"^resources\[0\]: expected a name, or a mapping with the fields name, floor and ceiling, found 1$",
    ),
    ({"resources": [""]}, r"^resources\[0\].name: expected non-empty text, found ''$"),
    ({"resources": [{"floor": 0}]}, r"^resources\[0\]: expected a field 'name', found none$"),
    ({"resources": [{"name": 3}]}, r"^resources\[0\].name: expected non-empty text, found 3$"),
    (
        {"resources": [{"name": "fuel", "flor": 0}]},
        r"^resources\[0\].flor: expected a known field \(name, floor, ceiling\), .*; did you mean 'floor'\?",
    ),
    ({"resources": [{"name": "fuel", "floor": "x"}]}, r"^resources\[0\].floor: expected a finite number .* found 'x'$"),
    ({"resources": [{"name": "fuel", "ceiling": True}]}, r"^resources\[0\].ceiling: expected a finite .* found true$"),
    ({"end_reward": 5}, r"^end_reward: expected a mapping by state, or a list of {state: ..., reward: ...}, found 5$"),
    ({"end_reward": {"home": "x"}}, r"^end_reward.home: expected a finite number .* found 'x'$"),
    ({"end_reward": ["home"]}, r"^end_reward\[0\]: expected a mapping with the fields state and reward, found 'home'$"),
    (
        {"end_reward": [{"state": "home", "rewrad": 1}]},
        r"^end_reward\[0\].rewrad: expected a known field \(state, reward\), .*; did you mean 'reward'\?",
    ),
    ({"end_reward": [{"state": None, "reward": 1}]}, r"^end_reward\[0\].state: expected a name: .* found null; put it"),
    ({"must_end_in": "home"}, r"^must_end_in: expected a valid list, found 'home'"),
    ({"must_end_in": {"home": 1}}, r"^must_end_in: expected a valid list, found {'home': 1}"),
    ({"must_end_in": [None]}, r"^must_end_in\[0\]: expected a name"),
    ({"states": [None]}, r"^states\[0\]: expected a name"),
    ({"terminal": [{"state": "away", "stepz": [1]}]}, r"^terminal\[0\].stepz: .*did you mean 'steps'\?"),
    ({"terminal": [{"steps": [1]}]}, r"^terminal\[0\]: expected a field 'state', found none"),
    ({"name": 5}, r"^name: expected a valid string, found 5"),
    ({"budget": "x"}, r"^budget: expected a finite number .* found 'x'"),
    ({"budget": {"fuel": "x"}}, r"^budget.fuel: expected a finite number .* found 'x'"),
    (
        {"budget": {"fuel": {"uper": 3}}},
        r"^budget.fuel: expected upper, lower or final, found 'uper'; did you mean 'upper'\?",
    ),
    ({"budget": {"fuel": {"upper": 3, "final": 1}}}, r"^budget.fuel, final: expected true or false, found 1"),
]
