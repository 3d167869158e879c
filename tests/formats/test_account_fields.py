"""Resources that saturate, several first states, end rewards and goals in files of every kind."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bad_files import BASE

import solvent
from solvent import CMDP, ModelError, Resource
from solvent.formats.documents import to_document
from solvent.formats.files import parse_model
from solvent.formats.registry import DOCUMENTS

KINDS = ["yaml", "json", "npz"]

TEXT = """\
solvent: 1
horizon: 3
start: {depot a: 1/3, depot b: 2/3}
resources: [time, {name: heat, floor: -1/3, ceiling: 10}, {name: fuel, floor: 0.1}]
terminal: [home]
end_reward: {home: 5, depot a: -0.5}
must_end_in: [home, depot b]
budget: {time: 3, heat: 7, fuel: null}
rows:
  - {state: depot a, action: go, outcomes: [{probability: 1, next: depot b, cost: {heat: 1}}]}
  - {state: depot b, action: go, outcomes: [{probability: 1, next: home, cost: {fuel: 1}}]}
"""


def numbered(**options: Any) -> CMDP:
    """Return a model whose names are tuples, numbers and text."""
    b = CMDP.builder(horizon=2, resources=["x"], states=[(0, "a"), 1, "1", 0.5], **options)
    for state in [(0, "a"), 1, "1"]:
        b.add(state, "go", outcomes=[(1, 0.5, 1)])
    return b.build()


def test_a_file_states_accounts_exactly() -> None:
    model = parse_model(TEXT)
    assert isinstance(model, CMDP)
    assert model.start == {"depot a": 1 / 3, "depot b": 2 / 3}
    assert model.floors == (None, Fraction(-1, 3), Fraction(1, 10))
    assert model.ceilings == (None, 10, None)
    assert model.resource("heat") == Resource("heat", floor="-1/3", ceiling=10)
    assert model.end_reward is not None
    assert model.may_end is not None
    assert dict(zip(model.states, model.end_reward.tolist(), strict=True)) == {"home": 5, "depot a": -0.5, "depot b": 0}
    assert {name for name, may in zip(model.states, model.may_end, strict=True) if may} == {"home", "depot b"}


@pytest.mark.parametrize("kind", KINDS)
def test_they_survive_a_round_trip(kind: str, tmp_path: Path) -> None:
    models = [
        parse_model(TEXT),
        numbered(start={1: 0.25, "1": 0.25, (0, "a"): 0.5}, end_reward={1: 3, "1": "1/3"}, must_end_in=[0.5, 1]),
        numbered(start=1, must_end_in=lambda state: False),
    ]
    for model in models:
        path = tmp_path / f"m.{kind}"
        model.save(path)
        again = solvent.load_model(path)
        assert again == model
        assert again.fingerprint == model.fingerprint
        assert list(again.start) == list(model.start) if isinstance(model.start, dict) else again.start == model.start


def test_names_that_are_not_text_are_written_as_lists() -> None:
    document = to_document(numbered(start={1: 0.25, (0, "a"): 0.75}, end_reward={"1": 2, 0.5: 4}, must_end_in=[0.5]))
    assert document["start"] == [{"state": 1, "probability": 0.25}, {"state": [0, "a"], "probability": 0.75}]
    assert document["end_reward"] == [{"state": "1", "reward": 2}, {"state": 0.5, "reward": 4}]
    assert document["must_end_in"] == [0.5]
    assert to_document(parse_model(TEXT))["start"] == {"depot a": 1 / 3, "depot b": 2 / 3}


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_both_forms_are_read(kind: str) -> None:
    entries = yaml.safe_load(BASE)
    for start in ({"home": 0.5, "away": "1/2"}, [{"state": s, "probability": 0.5} for s in ("home", "away")]):
        model = parse_model(json.dumps({**entries, "start": start}), kind)
        assert model.start == {"home": 0.5, "away": 0.5}
    one = parse_model(json.dumps({**entries, "start": {"home": 1, "away": 0}}), kind)
    assert one.start == "home"
    for reward in ({"home": 2}, [{"state": "home", "reward": 2}]):
        model = parse_model(json.dumps({**entries, "end_reward": reward}), kind)
        assert isinstance(model, CMDP)
        assert model.end_reward is not None
        assert model.end_reward.tolist() == [2, 0]
    nothing = parse_model(json.dumps({**entries, "end_reward": None, "must_end_in": None}), kind)
    assert nothing == parse_model(BASE)
    ends = {"resources": [{"name": "fuel", "floor": None, "ceiling": None}]}
    assert parse_model(json.dumps({**entries, **ends}), kind) == parse_model(BASE)


def test_keys_of_yaml_can_be_numbers_and_those_of_json_are_text() -> None:
    text = "solvent: 1\nhorizon: 1\nstart: {1: 0.5, 2.5: 0.5}\nend_reward: {1: 3}\nrows:\n"
    text += "".join(f"  - {{state: {s}, action: a, outcomes: [{{probability: 1, next: 1}}]}}\n" for s in (1, 2.5))
    assert parse_model(text).start == {1: 0.5, 2.5: 0.5}
    with pytest.raises(ModelError, match=r"^start: .*unknown state '1'; '1' is text; .* write a list instead$"):
        parse_model(text.replace("{1: 0.5,", "{'1': 0.5,"))
    as_json = json.dumps(yaml.safe_load(text))
    with pytest.raises(
        ModelError, match=r"^end_reward: .*unknown state '1'; '1' is text; in a mapping, names that are"
    ):
        parse_model(as_json.replace('{"1": 0.5, "2.5": 0.5}', "1"), "json")


def test_old_models_are_written_as_before() -> None:
    """Fields appear only if a model has them."""
    model = parse_model(BASE)
    new = {"end_reward", "must_end_in", "floors", "ceilings", "start_state", "start_probability", "may_end"}
    assert not new & to_document(model).keys()
    assert to_document(model)["resources"] == ["fuel"]
    for each in DOCUMENTS:
        content = each.write(model)
        assert not any(name.encode() in content for name in new), each.name


def test_a_probability_that_is_no_double_is_rounded_once() -> None:
    model = parse_model(TEXT.replace("{depot a: 1/3, depot b: 2/3}", "{depot a: 1e-300, depot b: 1}"))
    assert model.start == {"depot a": 1e-300, "depot b": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "resources: [{name: fuel, floor: 0}]",
            r"^resource 'fuel': expected no floor and no ceiling, as costs are disc",
        ),
        (
            "start: {home: 0.5, away: 0.5}",
            r"^start: expected one state, as discounted models need, found a distribution",
        ),
        (
            "end_reward: {home: 1}",
            r"^end_reward: expected none, as a discounted model has no last step, found \['home'\]",
        ),
        (
            "must_end_in: [home]",
            r"^must_end_in: expected none, as a discounted model has no last step, found \['home'\]",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_discounted_models_refuse_them(kind: str, change: str, message: str) -> None:
    entries = {**yaml.safe_load(BASE), "horizon": None, "discount": 0.5}
    assert isinstance(parse_model(json.dumps(entries), kind), solvent.DiscountedCMDP)
    with pytest.raises(ModelError, match=message):
        parse_model(json.dumps({**entries, **yaml.safe_load(change)}), kind)


def test_resources_are_listed_without_building_the_model() -> None:
    model = parse_model(TEXT)
    for each in DOCUMENTS:
        assert each.read_resources(each.write(model)) == ["time", "heat", "fuel"]
    block = TEXT.replace("[time, {name: heat, floor: -1/3, ceiling: 10}, {name: fuel, floor: 0.1}]", "@")
    lines = "\n  - time\n  - name: heat\n    floor: -1/3\n  - {name: fuel}"
    assert DOCUMENTS[0].read_resources(block.replace(" @", lines).encode()) == ["time", "heat", "fuel"]


def test_numpy_rewards_and_probabilities_can_be_saved(tmp_path: Path) -> None:
    model = numbered(start={1: np.float64(0.5), "1": np.float64(0.5)}, end_reward=np.array([0.1, 0, 0, 2.0]))
    for kind in KINDS:
        model.save(tmp_path / f"m.{kind}")
        assert solvent.load_model(tmp_path / f"m.{kind}") == model
