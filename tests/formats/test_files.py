from __future__ import annotations

import json
import os
import re
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bad_files import BAD_STRUCTURES, BASE, outcome, row
from hypothesis import HealthCheck, given
from scipy import stats

import solvent
from effort import draws
from make_models import models
from solvent import CMDP, Budget, ModelError, instances
from solvent.formats.documents import to_document
from solvent.formats.encoding import encode_number
from solvent.formats.files import parse_model, save_model
from solvent.formats.yaml import dump

KINDS = ["yaml", "json", "npz"]


def read(kind: str = "yaml", **changes: Any) -> CMDP:
    """Return the base model with fields replaced; a field of ... is removed."""
    entries = {**yaml.safe_load(BASE), **changes}
    entries = {key: value for key, value in entries.items() if value is not ...}
    text = json.dumps(entries) if kind == "json" else yaml.safe_dump(entries)
    return parse_model(text, kind)


@pytest.mark.parametrize("kind", KINDS)
@draws(40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(model=models(wide=True))
def test_round_trips_are_exact(tmp_path: Path, kind: str, model: CMDP) -> None:
    path = tmp_path / f"model.{kind}"
    model.save(path)
    again = solvent.load_model(path)
    assert again == model
    assert again.fingerprint == model.fingerprint
    again.save(path)
    assert solvent.load_model(path) == model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "model",
    [
        instances.fuel_grid(3),
        instances.paper(12, seed=3, budget=4),
        instances.knapsack([1, 2], [1e-300, 1e300], capacity="1/3"),
        instances.random(5, 2, resources=2, real_costs=True, stationary=False),
        instances.markov_gap(wait=5),
    ],
    ids=lambda model: model.name,
)
def test_instances_round_trip(tmp_path: Path, kind: str, model: CMDP) -> None:
    model.save(tmp_path / f"m.{kind}")
    assert solvent.load_model(tmp_path / f"m.{kind}") == model


@pytest.mark.parametrize("kind", KINDS)
def test_units_longer_than_any_number(tmp_path: Path, kind: str) -> None:
    weights = [Fraction(1, 10**390 + k) for k in range(7, 60)]
    model = instances.knapsack([1] * len(weights), weights)
    model.save(tmp_path / f"m.{kind}")
    assert solvent.load_model(tmp_path / f"m.{kind}") == model


def test_numpy_names_become_python_names(tmp_path: Path) -> None:
    b = CMDP.builder(horizon=1, start=np.int64(1), resources=["x"])
    b.add(np.int64(1), np.float64(0.5), outcomes=[(1, np.int64(1), 0)])
    model = b.build()
    for kind in KINDS:
        model.save(tmp_path / f"m.{kind}")
        again = solvent.load_model(tmp_path / f"m.{kind}")
        assert again == model
        assert again.fingerprint == model.fingerprint
        assert type(again.start) is int


@pytest.mark.parametrize("name", [None, True, frozenset({1}), (), ("a", ()), float("nan"), float("inf"), b"x", 1j])
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_files_cannot_hold(tmp_path: Path, name: Any, kind: str) -> None:
    b = CMDP.builder(horizon=1, start=name, resources=["x"])
    b.add(name, "go", outcomes=[(1, name, 0)])
    with pytest.raises(ModelError, match="expected a name that files can hold: text, a number, or a tuple of these"):
        b.build().save(tmp_path / f"m.{kind}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_text_that_utf8_cannot_hold(tmp_path: Path, kind: str) -> None:
    b = CMDP.builder(horizon=1, start="\ud800", resources=["x"])
    b.add("\ud800", "go", outcomes=[(1, "\ud800", 0)])
    with pytest.raises(ModelError, match=r"expected names and texts that UTF-8 can hold, found the lone surrogate"):
        b.build().save(tmp_path / f"m.{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_scipy_distributions_cannot_be_saved(tmp_path: Path, kind: str) -> None:
    b = CMDP.builder(horizon=1, start=0, resources=["x"])
    b.add(0, 0, outcomes=[(1, 0, stats.beta(1, 2))])
    with pytest.raises(ModelError, match=r"expected a distribution that files can hold \(solvent.distribution\)"):
        b.build().save(tmp_path / f"m.{kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, kind: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"m.{kind}"
    instances.knapsack([1], [1]).save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ModelError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        instances.knapsack([1, 2], [1, 2]).save(path)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: expected a place that can be written, found No space left on device"
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_interrupted_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, content: bytes) -> int:
        assert len(list(tmp_path.iterdir())) == 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(ModelError, match="No space left"):
        instances.knapsack([1], [1]).save(tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_saved_files_have_ordinary_permissions_and_long_names(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".yml")
    mask = os.umask(0o027)
    try:
        instances.knapsack([1], [1]).save(str(path))
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert solvent.load_model(str(path)).n_rows == 2


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    model = instances.knapsack([1], [1])
    with pytest.raises(ModelError, match=r"a place that can be written, found No such file or directory"):
        model.save(tmp_path / "nowhere" / "m.yaml")
    with pytest.raises(ModelError, match=r"expected a name ending in \.yaml, \.yml, .* or \.tra, found '\.txt'"):
        model.save(tmp_path / "m.txt")
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(ModelError, match=r"a place that can be written"):
        save_model(model, tmp_path / "d.yaml")
    assert [p.name for p in tmp_path.iterdir()] == ["d.yaml"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "van.yaml").write_text(BASE)
    assert solvent.load_model(tmp_path / "van.yaml").n_rows == 1
    with pytest.raises(
        ModelError, match=r"vann\.yaml: expected a model file, found no such file; did you mean 'van\.yaml'\?"
    ):
        solvent.load_model(tmp_path / "vann.yaml")
    with pytest.raises(ModelError, match=r"found no such file$"):
        solvent.load_model(tmp_path / "no" / "van.yaml")
    with pytest.raises(ModelError, match=r"van\.txt: expected a file ending in .* found '\.txt'"):
        solvent.load_model(tmp_path / "van.txt")
    with pytest.raises(ModelError, match=r"expected a file ending in .* found no ending"):
        solvent.load_model(tmp_path / "van")
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(ModelError, match=r"d\.yaml: expected a model file that can be read, found Is a directory"):
        solvent.load_model(tmp_path / "d.yaml")
    with pytest.raises(ModelError, match=r"load_model: expected the path of a model file, found .a.*b\.yaml."):
        solvent.load_model("a\0b.yaml")


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "van.yaml"
    path.write_text(BASE.replace("horizon: 3", "horizon: 2.5"))
    with pytest.raises(ModelError) as caught:
        solvent.load_model(path)
    assert str(caught.value) == f"{path}: horizon: expected a valid integer, found 2.5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"solvent: \xff", r"file: expected text in UTF-8, found byte 9, which is not"),
        (b"solvent: 1\nsolvent: 1", r"line 2: expected each key once, found 'solvent' twice"),
        (b"rows: [{a: 1, a: 2}]", r"line 1: expected each key once, found 'a' twice"),
        (b"a: [", r"line 2, column 1: expected YAML, found did not find expected node"),
        (b"a: \x00", r"expected YAML"),
        (b"", r"file: expected a mapping with fields solvent, horizon, start, rows, found null"),
        (b"- 1", r"file: expected a mapping with fields"),
        (b"hello: 1", r"file: expected a model, which starts with 'solvent: 1', found no field 'solvent'"),
        (b"a: *b", r"expected an alias of an earlier anchor, found \*b"),
        (b"&a [*a]", r"expected an alias of an earlier anchor"),
        (b"[" * 100 + b"]" * 100, r"file: expected at most 60 levels of nesting, found more"),
        (b"a: !!python/object/apply:os.system [echo]", r"expected YAML, found could not determine a constructor"),
        (b"a: !!python/name:os.system", r"could not determine a constructor"),
        (b"a: !!timestamp x", r"could not determine a constructor"),
        (b"a: !!set {x}", r"could not determine a constructor"),
        (b"a: !!bool x", r"line 1: expected true or false, found 'x'"),
        (b"a: !!int x", r"line 1: expected a whole number"),
        (b"a: !!float x", r"line 1: expected a number, found 'x'"),
        (b"!!map [a]", r"line 1: expected a mapping"),
        (b"!!seq {a: 1}", r"expected YAML"),
        (b"? [a]\n: 1", r"line 1: expected a key that is text or a number, found a list or a mapping"),
        (b"? {a: 1}\n: 1", r"expected a key that is text or a number"),
        (b"<<: 1", r"expected YAML"),
        (b"a: " + b"9" * 5000, r"line 1: expected a whole number with fewer digits"),
        (b"a: 1e99999999999999999999", r"expected numbers of at most 400 digits"),
        (b"a: 1\n---\nb: 2", r"expected YAML"),
    ],
)
def test_invalid_yaml(text: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_model(text)


def test_billion_laughs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(ModelError, match="expected aliases that expand to at most"):
        parse_model("\n".join(lines))
    merges = ["b0: &b0 {k: v}"]
    merges += [f"b{i}: &b{i} {{<<: [{', '.join([f'*b{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    with pytest.raises(ModelError, match="aliases that expand"):
        parse_model("\n".join(merges))


def test_aliases_and_merges_in_moderation() -> None:
    text = BASE + "  - &r {state: home, action: stay, outcomes: &o [{probability: 1, next: home}]}\n"
    text += "  - {<<: *r, action: rest}\n  - {state: home, action: hide, outcomes: *o}\n"
    assert parse_model(text).actions == ("go", "stay", "rest", "hide")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe\xfd", r"file: expected JSON"),
        (b"{", r"file: expected JSON, found Expecting property name"),
        (b'{"a": 1, "a": 2}', r"file: expected each key once, found 'a' twice"),
        (b"[" * 100_000, r"file: expected a model, found a structure nested too deeply"),
        (b'{"a":' * 100_000, r"file: expected a model, found a structure nested too deeply"),
        (b"[1]", r"file: expected a mapping with fields"),
        (b'{"a": 1e99999999999999999999}', r"file: expected numbers of at most 400 digits"),
        (b'{"a": ' + b"9" * 5000 + b"}", r"file: expected JSON"),
    ],
)
def test_invalid_json(text: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_model(text, "json")


BAD_MEANINGS: list[tuple[dict[str, Any], str]] = [
    ({"start": "hom"}, r"^start: .*unknown state 'hom'; did you mean 'home'\?"),
    ({"start": "hom", "states": ["home", "away"]}, r"^start: expected a declared state, found unknown state 'hom'"),
    ({"start": {"hom": 1}}, r"^start: .*unknown state 'hom'; did you mean 'home'\?"),
    ({"start": {"home": 0.5, "away": 0.4}}, r"^start: expected probabilities with a sum of 1 \(to .*\), found 0.9$"),
    (
        {"start": {"home": 1.5, "away": -0.5}},
        r"^start, probability of 'away': expected a number from 0 to 1, found .*-0.5",
    ),
    ({"start": {"home": 0, "away": 0}}, r"^start: expected probabilities with a sum of 1 .*, found none$"),
    (
        {"start": [{"state": "home", "probability": 0.5}] * 2},
        r"^start: expected each state once, found 'home' twice$",
    ),
    ({"resources": [{"name": "fuel"}, "fuel"]}, r"^resources: expected each name once"),
    (
        {"resources": [{"name": "fuel", "floor": 3, "ceiling": "5/2"}]},
        r"^resources\[0\]: expected a floor of at most the ceiling, found floor 3 and ceiling 2.5$",
    ),
    ({"end_reward": {"hom": 1}}, r"^end_reward: .*, found unknown state 'hom'; did you mean 'home'\?"),
    (
        {"end_reward": [{"state": "home", "reward": 1}] * 2},
        r"^end_reward: expected each state once, found 'home' twice$",
    ),
    ({"end_reward": {"home": 1e301}}, r"^end_reward of 'home': expected at most 1e\+300 in size"),
    ({"must_end_in": ["home", "hom"]}, r"^must_end_in\[1\]: expected a state that has rows, .*; did you mean 'home'\?"),
    (
        {"must_end_in": ["hom"], "states": ["home", "away"]},
        r"^must_end_in\[0\]: expected one of the states, found unknown state 'hom'; did you mean 'home'\?",
    ),
    ({"horizon": 10**9}, r"^horizon: expected at most 1000000, found 1000000000"),
    ({"resources": ["fuel", "fuel"]}, r"^resources: expected each name once"),
    ({"resources": ["fuel", "oil"]}, r"^home/go, outcome 0, cost: expected a cost for each resource \('fuel', 'oil'\)"),
    (
        {"rows": outcome(probability=0.9)},
        r"^home/go, probabilities: expected a sum of 1 \(to within 1e-09\), found 0.9",
    ),
    ({"rows": outcome(probability=-1)}, r"^home/go, outcome 1, probability: expected a number from 0 to 1, found -1"),
    ({"rows": outcome(next="awya")}, r"^rows\[0\].outcomes\[1\].next: .*unknown state 'awya'; did you mean 'away'\?"),
    ({"rows": outcome(next="awya"), "states": ["home", "away"]}, r"^home/go, outcome 1, next state: .*'awya'; did you"),
    ({"rows": row() + row()}, r"^home/go: expected each row once, found a second one"),
    ({"rows": row(action="og"), "actions": ["go"]}, r"^home/og: expected a declared action, found unknown action 'og'"),
    ({"rows": row(steps=[7])}, r"^home/go, steps: expected steps from 0 to 2, found 7"),
    ({"rows": row(steps=["2-1"])}, r"^rows\[0\].steps: expected a step or a range"),
    ({"rows": row(steps=["0-99999999"])}, r"^rows\[0\].steps: expected a step or a range"),
    ({"rows": outcome(cost={"fule": 1})}, r"^home/go, outcome 1, cost: .*found 'fule'; did you mean 'fuel'\?"),
    ({"rows": outcome(cost=[1, 2])}, r"^home/go, outcome 1, cost: expected 1 costs, one per resource, found 2"),
    ({"budget": {"oil": 1}}, r"^budget: expected a resource of the model \('fuel'\), found 'oil'"),
    ({"budget": {}}, r"^budget: expected a limit for resource 'fuel', found none"),
    ({"budget": {"fuel": [1]}}, r"^budget, fuel, upper: expected 3 limits, one after each step, found 1"),
    ({"budget": {"fuel": {"upper": 1, "lower": 2}}}, r"^budget, fuel: expected no lower limit above the upper one"),
    ({"budget": {"fuel": {"upper": [1, 2, 3], "final": True}}}, r"^budget.fuel, final: expected single limits"),
    ({"terminal": ["home", "away"]}, r"^home/go: expected no action in a terminal state at step 0"),
]


@pytest.mark.parametrize("kind", ["yaml", "json"])
@pytest.mark.parametrize(("changes", "message"), BAD_STRUCTURES + BAD_MEANINGS)
def test_bad_fields_are_named_by_their_path(kind: str, changes: dict[str, Any], message: str) -> None:
    changes = json.loads(json.dumps(changes, default=lambda _: None)) if "rows" in changes else changes
    changes = {key: (... if value is None and key == "rows" else value) for key, value in changes.items()}
    with pytest.raises(ModelError, match=message):
        read(kind, **changes)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_json_constants_are_not_numbers(number: str) -> None:
    for field in ("probability", "cost", "reward"):
        text = json.dumps({**yaml.safe_load(BASE), "rows": outcome(**{field: "@"})}).replace('"@"', number)
        with pytest.raises(ModelError, match=rf"rows\[0\].outcomes\[1\].{field}: expected a finite number"):
            parse_model(text, "json")
    with pytest.raises(ModelError, match="start: expected a name"):
        parse_model(BASE.replace("home", ".nan"))


def test_scalars_are_those_of_yaml_12() -> None:
    names = ["no", "on", "yes", "0x1F", "2001-01-01", "1_000", "12:30", "=", "012a"]
    text = f"solvent: 1\nhorizon: 1\nstart: no\nresources: [x]\nterminal: [{', '.join(names)}, 017, 1.5, 1e3]\nrows:\n"
    text += "  - state: s\n    action: off\n"
    text += "    outcomes: [{probability: 1, next: no, cost: 0.1000000000000000055511151231257827}]"
    model = parse_model(text)
    assert set(model.states) == {"s", *names, 17, 1.5, 1000.0}
    assert model.actions == ("off",)
    assert model.cost[0].value(0) == Fraction("0.1000000000000000055511151231257827")


def test_yaml_11_readers_agree_on_what_we_write(tmp_path: Path) -> None:
    b = CMDP.builder(horizon=1, start="no", resources=["1"])
    b.add("no", "1e5", reward=1e-9, outcomes=[(1e-9, "no", 1e-7), (1 - 1e-9, "null", 2)])
    entries = to_document(b.build())
    assert yaml.safe_load(dump(entries)) == entries


def test_numbers_in_files() -> None:
    assert [encode_number(Fraction(x)) for x in ("1/4", "1/3", "7", "1e-300")] == [0.25, "1/3", 7, 1e-300]
    assert encode_number(Fraction(1, 10**400)) == f"1/{10**400}"
    assert encode_number(10**400 + Fraction(1, 2)).endswith("0.5")
    assert encode_number(Fraction(10**400)) == str(10**400)
    assert encode_number(-0.0) == 0
    assert encode_number(1e300) == 1e300


def test_the_document_of_a_model(tmp_path: Path) -> None:
    b = CMDP.builder(horizon=6, start="a", resources=["x", "y"], budget={"x": Budget.final("1/3"), "y": None}, name="n")
    b.add("a", "go", reward=1, outcomes=[(0.5, "a", {"x": "1/3"}), (0.5, "b", 0)], steps=[0, 1, 2, 3, 5])
    b.add("a", "go", reward=2, outcomes=[(1, "a", [1, solvent.distribution("uniform", low=0, high=0.5)])], steps=[4])
    assert to_document(b.build()) == {
        "solvent": 1,
        "name": "n",
        "horizon": 6,
        "start": "a",
        "resources": ["x", "y"],
        "states": ["a", "b"],
        "actions": ["go"],
        "terminal": ["b"],
        "budget": {"x": {"upper": "1/3", "final": True}, "y": None},
        "rows": [
            {
                "state": "a",
                "action": "go",
                "reward": 1,
                "outcomes": [
                    {"probability": 0.5, "next": "a", "cost": {"x": "1/3"}},
                    {"probability": 0.5, "next": "b"},
                ],
                "steps": ["0-3", 5],
            },
            {
                "state": "a",
                "action": "go",
                "reward": 2,
                "outcomes": [
                    {
                        "probability": 1,
                        "next": "a",
                        "cost": {"x": 1, "y": {"distribution": "uniform", "low": 0, "high": 0.5}},
                    }
                ],
                "steps": [4],
            },
        ],
    }


def test_byte_order_marks_are_ignored() -> None:
    assert parse_model(b"\xef\xbb\xbf" + BASE.encode()).n_rows == 1


def test_a_model_of_many_states() -> None:
    n = 2_000
    b = CMDP.builder(horizon=2, start=0, resources=["x"])
    for state in range(n):
        b.add(state, 0, outcomes=[(1, (state + 1) % n, 1)])
    model = b.build()
    assert parse_model(json.dumps(to_document(model)), "json") == model


def test_a_single_limit_is_the_budget_of_the_only_resource() -> None:
    assert parse_model(BASE + "budget: 5\n").budget == {"fuel": Budget(5)}
    assert parse_model(BASE + "budget: [1, null, 3]\n").budget == {"fuel": Budget(upper=[1, None, 3])}
    two = BASE.replace("[fuel]", "[fuel, time]").replace("cost: 1", "cost: [1, 0]").replace("cost: 2", "cost: [2, 0]")
    with pytest.raises(ModelError, match=r"budget: expected a limit for each resource \('fuel', 'time'\) by name"):
        parse_model(two + "budget: 5\n")


def test_a_misspelled_field_is_named_rather_than_the_one_that_is_missing() -> None:
    with pytest.raises(ModelError, match=r"horizn: expected a known field .*did you mean 'horizon'\?"):
        parse_model(BASE.replace("horizon", "horizn"))


def test_an_infinite_limit_has_a_hint() -> None:
    with pytest.raises(ModelError, match=r"^budget.fuel: expected a finite number, found inf; use null for no limit"):
        parse_model(BASE + "budget: {fuel: .inf}\n")


def test_links_are_followed_and_devices_refused(tmp_path: Path) -> None:
    model = instances.knapsack([3], [2], capacity=2)
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    link.symlink_to(real.name)
    model.save(link)
    assert link.is_symlink()
    assert solvent.load_model(real) == model
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="expected a place that can be written, found a device or a pipe"):
        model.save(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(ModelError, match=r"expected a file ending in .*, found a folder"):
        solvent.load_model(tmp_path)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (
            "{fuel: 3}",
            r"budget: expected a limit for resource 'risk', found none; give it a limit, or write risk: null to leave",
        ),
        ("{fuel: [1, 2], risk: 1}", r"expected 3 limits, one after each step, found 2; use null for a step without a"),
        ("{fuel: inf, risk: 1}", r"budget.fuel: expected a finite number, found 'inf'; use null for no limit"),
        ("{fuel: .inf, risk: 1}", r"budget.fuel: expected a finite number, found inf; use null for no limit"),
        ("{fuel: {upper: [1, -.inf, 2]}, risk: 1}", r"budget.fuel: .* found -inf; use null for no limit"),
    ],
)
def test_hints_are_in_the_syntax_of_files(budget: str, message: str) -> None:
    text = BASE.replace("resources: [fuel]", f"resources: [fuel, risk]\nbudget: {budget}")
    with pytest.raises(ModelError, match=message) as caught:
        parse_model(re.sub(r", cost: \d", "", text))
    assert "None" not in str(caught.value)


def test_the_hint_on_stranded_states_is_in_the_syntax_of_files() -> None:
    text = BASE.replace("terminal: [away]", "terminal: []")
    text += "  - {state: away, action: wait, steps: [1], outcomes: [{probability: 1, next: away, cost: 0}]}\n"
    with pytest.raises(ModelError, match=r"add to terminal: {state: 'away', steps: \[2\]}"):
        parse_model(text)
