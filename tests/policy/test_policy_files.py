"""Saved policies: exact, atomic, and safe to load for any content."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_accounts import KINDS, random_case

import solvent
from effort import draws, seeds
from solvent.core.archives import read_archive, write_archive
from solvent.errors import PolicyError, SolventError
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.policy.files import from_bytes, load_policy
from solvent.policy.table import AugmentedPolicy
from solvent.policy.writing import to_bytes


def some_policy(n_resources=2, settle=True, lookup="equal", names=True):
    b = solvent.CMDP.builder(horizon=2, start=("a", 1), resources=[f"r{i}" for i in range(n_resources)])
    for state in [("a", 1), "b", 2.5]:
        for action in ("x", 7):
            b.add(state, action, outcomes=[(0.5, "b", ["1/3"] * n_resources), (0.5, 2.5, [-1] * n_resources)])
    model = b.build()
    limits = resolve(
        model, {f"r{i}": solvent.Budget(upper=[None, 5], lower=["-7/2", None]) for i in range(n_resources)}
    )
    rng = np.random.default_rng(3)
    layers = []
    for _ in range(2):
        spent = rng.integers(-9, 9, (40, n_resources))
        state, spent = rng.integers(0, 3, 40), np.unique(spent, axis=0) if n_resources else spent[:1]
        state = state[: len(spent)]
        layers.append((state, spent, (spent.sum(1) + state) % 2))
    low = np.full((3, n_resources), 20)
    settled = [(low, low + 3)] * 2 if settle else None
    lattice = Lattice.fit(model, limits)
    return model, AugmentedPolicy.from_nodes(model, lattice, limits, layers=layers, settled=settled, lookup=lookup)


CASES = [
    some_policy(),
    some_policy(settle=False),
    some_policy(0, settle=False),
    some_policy(1, False, "at_most"),
    some_policy(2, True, "at_most"),
    some_policy(3, False, "at_least"),
]


@pytest.mark.parametrize("case", CASES)
def test_saved_policies_are_loaded(case, tmp_path):
    model, policy = case
    policy.save(tmp_path / "some.policy")
    assert [each.name for each in tmp_path.iterdir()] == ["some.policy"]
    loaded = load_policy(tmp_path / "some.policy")
    assert loaded == policy
    assert list(loaded) == list(policy)
    assert loaded.limits == policy.limits
    assert loaded.model is None
    assert load_policy(str(tmp_path / "some.policy"), model).model is model


def test_the_file_is_readable_with_numpy(tmp_path):
    _, policy = CASES[0]
    policy.save(tmp_path / "p")
    with np.load(tmp_path / "p", allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
    assert header["version"] == solvent.__version__
    assert header["states"] == [["a", 1], "b", 2.5]
    assert header["actions"] == ["x", 7]
    assert header["units"] == ["1/6", "1/6"]
    assert header["lower"][0] == ["-7/2", None]


def test_another_model_is_an_error(tmp_path):
    model, policy = CASES[0]
    other = instances.markov_gap()
    policy.save(tmp_path / "p")
    with pytest.raises(PolicyError, match=rf"{other.fingerprint}.*{model.fingerprint}"):
        load_policy(tmp_path / "p", other)


def test_missing_files(tmp_path):
    CASES[0][1].save(tmp_path / "van.policy")
    with pytest.raises(PolicyError, match=r"no such file; did you mean 'van.policy'"):
        load_policy(tmp_path / "van.polcy")
    with pytest.raises(PolicyError, match="can be read"):
        load_policy(tmp_path)
    with pytest.raises(SolventError, match="a place that can be written"):
        CASES[0][1].save(tmp_path / "nowhere" / "p")


def parts_of(content):
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(arrays.pop("header").tobytes())


def rebuilt(arrays, header):
    """Return a file with a valid checksum, so that its content is checked."""
    return write_archive(arrays, header)


WRONG_HEADERS = {
    "solvent_policy": [0, 4, None, True, "2"],
    "version": ["9.9.9", None, "new", 1],
    "counting": [["exact"], ["exact", "near"], None, [1, 2], [[], []]],
    "lower": [[[None, "9"], [None, None]], None],
    "horizon": [3, -1, "2", True, 10**15],
    "start": ["nowhere", None, {}],
    "states": [["b"], "b", [["a", 1], "b", "b"], None],
    "actions": [["x"], []],
    "resources": [["r0"], ["r0", "r0"], [1, 2], None],
    "units": [["1/6"], ["0", "1"], ["-1", "1"], [1, 2], ["x", "1"]],
    "upper": [[["1"]], [[None], [None]], None, [["x", "y"], ["x", "y"]], [1, 2]],
    "lookup": ["near", None, []],
    "fingerprint": [None, 3],
    "initial": [["0"], ["0", "x"], [0, 0], None, ["1", "0"], ["0", "1e-9"], "00"],
}


@pytest.mark.parametrize(("field", "value"), [(k, v) for k, values in WRONG_HEADERS.items() for v in values])
def test_wrong_headers_are_refused(field, value):
    arrays, header = parts_of(to_bytes(CASES[0][1]))
    with pytest.raises(SolventError):
        from_bytes(rebuilt(arrays, {**header, field: value}))
    header.pop(field)
    with pytest.raises(SolventError):
        from_bytes(rebuilt(arrays, header))


def wrong_arrays():
    arrays, _ = parts_of(to_bytes(CASES[0][1]))
    for name, array in arrays.items():
        yield name, None
        yield name, array.astype(np.float64)
        yield name, array[:-1]
        yield name, array[None]
        if name not in ("settled_low_GD", "settled_high_GD", "initial_D", "floor_D", "ceiling_D"):
            yield name, array[::-1].copy()
            if name != "spent_ND":
                yield name, array + array.dtype.type(100)
    yield "group_state", np.zeros_like(arrays["group_state"])
    yield "group_state", -arrays["group_state"]
    yield "spent_ND", np.zeros_like(arrays["spent_ND"])


@pytest.mark.parametrize(("name", "array"), list(wrong_arrays()))
def test_wrong_arrays_are_refused(name, array):
    arrays, header = parts_of(to_bytes(CASES[0][1]))
    arrays[name] = array
    if array is None:
        arrays.pop(name)
    elif name == "action_N" and array.dtype == np.uint8 and array.ndim == 1 and array.max() < 2 and len(array) > 60:
        return  # other actions are a valid policy
    with pytest.raises(SolventError):
        from_bytes(rebuilt(arrays, header))


@draws(150)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_error(content):
    with pytest.raises(SolventError):
        from_bytes(content)


@draws(300)
@given(st.data())
def test_damaged_files_are_policies_or_errors(data):
    content = bytearray(to_bytes(CASES[data.draw(st.integers(0, 3))][1]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    try:
        policy = from_bytes(bytes(content))
    except SolventError:
        return
    assert all(decision.action in policy.actions for decision in policy)


def test_no_code_in_a_file_is_executed():
    arrays, _ = parts_of(to_bytes(CASES[0][1]))
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([print], object), **arrays)
    with pytest.raises(SolventError):
        from_bytes(buffer.getvalue())


def test_archives_that_expand_too_much_are_refused():
    content = bytearray(to_bytes(CASES[0][1]))
    size_in_directory = content.index(b"PK\x01\x02") + 24
    content[size_in_directory : size_in_directory + 4] = (2**32 - 2).to_bytes(4, "little")
    with pytest.raises(SolventError, match="expected arrays of at most"):
        from_bytes(bytes(content))


@pytest.mark.parametrize("seed", seeds(30))
@pytest.mark.parametrize("kind", ["exact", "rounded"])
def test_policies_with_accounts_are_loaded(kind, seed, tmp_path):
    case = random_case(seed)
    policy = KINDS[kind](case, seed)
    policy.save(tmp_path / "some.policy")
    loaded = load_policy(tmp_path / "some.policy", case.model)
    assert loaded == policy
    assert loaded.limits.initial == policy.limits.initial
    assert (loaded.start, list(loaded)) == (case.model.start, list(policy))
    for name in ("initial_D", "floor_D", "ceiling_D"):
        assert np.array_equal(getattr(loaded, name), getattr(policy, name))
    for state in case.model.start if isinstance(case.model.start, dict) else [case.model.start]:
        assert loaded.agent(state=state).spent == policy.agent(state=state).spent


def saturating():
    """Return a model, and a policy for it that has a floor, a ceiling and two first states."""
    b = solvent.CMDP.builder(
        horizon=2,
        start={"a": 0.25, "b": 0.75},
        resources=[solvent.Resource("r", floor="-1/2", ceiling=3)],
        budget={"r": 2},
    )
    for state in ("a", "b", "c"):
        b.add(state, "x", outcomes=[(1, state, "1/2")])
    model = b.build()
    limits = resolve(model, None, {"r": 1})
    layers = [([0, 1], [[2], [2]], [0, 0]), ([0, 1], [[3], [3]], [0, 0])]
    return model, AugmentedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=layers)


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("initial_D", [7], "initial_D, 'r': expected ticks within the floor, -1, and the ceiling, 6, found 7"),
        ("initial_D", [-2], "initial_D, 'r': expected ticks within the floor, -1, and the ceiling, 6, found -2"),
        ("initial_D", [3], "initial_D, 'r': expected the ticks of 1, found 1.5"),
        ("initial_D", [LARGEST], "accounts of 'r': expected at most"),
        ("floor_D", [7], "ceiling_D, 'r': expected at least the floor, 7 ticks, found 6 ticks"),
        ("floor_D", [3], "initial_D, 'r': expected ticks within the floor, 3"),
        ("floor_D", [-(2**63) + 1], "accounts of 'r': expected at most"),
        ("ceiling_D", [-2], "ceiling_D, 'r': expected at least the floor, -1 ticks, found -2 ticks"),
        ("ceiling_D", [1], "and the ceiling, 1, found 2"),
        ("initial_D", [2, 2], "initial_D: expected 1 entries, found 2"),
        ("floor_D", [], "floor_D: expected 1 entries, found 0"),
        ("ceiling_D", [[6]], "ceiling_D: expected int64 in one dimension"),
    ],
)
def test_wrong_accounts_are_refused(array, value, message):
    arrays, header = read_archive(to_bytes(saturating()[1]))
    with pytest.raises(SolventError, match=message):
        from_bytes(write_archive({**arrays, array: np.array(value, np.int64)}, header))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([["a", "0.25"]], "several states with their probabilities"),
        ([["a", "0.25"], ["a", "0.75"]], "states of the policy, each once, found 'a'"),
        ([["a", "0.25"], ["d", "0.75"]], "states of the policy, each once, found 'd'"),
        ([["a", "0.25"], ["b", "0.7"]], "probabilities with a sum of 1"),
        ([["a", "-0.25"], ["b", "1.25"]], "probabilities above 0 and up to 1, found '-0.25'"),
        ([["a", "0"], ["b", "1"]], "probabilities above 0 and up to 1, found '0'"),
        ([["a", "nan"], ["b", "1"]], "expected a finite number"),
        ([["a", "1e-400"], ["b", "1"]], "expected"),
        ([["a", 0.25], ["b", 0.75]], "pairs of a state and a probability as text"),
        ([["a"], ["b"]], "pairs of a state and a probability as text"),
        ([None, None], "pairs of a state and a probability as text"),
        ({"a": "0.25", "b": "0.75"}, "header, first_states: expected a list"),
        ([[{}, "0.25"], ["b", "0.75"]], "expected a name"),
        (None, "header, first_states: expected a list"),
    ],
)
def test_wrong_first_states_are_refused(value, message):
    arrays, header = read_archive(to_bytes(saturating()[1]))
    with pytest.raises(SolventError, match=message):
        from_bytes(write_archive(arrays, {**header, "first_states": value}))


def test_a_first_state_of_probability_one_beside_a_tiny_one():
    b = solvent.CMDP.builder(horizon=1, start={"a": 1.0, "b": 1e-300}, resources=["r"])
    for state in "ab":
        b.add(state, "go", outcomes=[(1, state, 1)])
    model = b.build()
    policy = solvent.solve(model, 1).policy
    assert from_bytes(to_bytes(policy), model) == policy


def test_a_file_has_one_first_state_or_several():
    arrays, header = read_archive(to_bytes(saturating()[1]))
    with pytest.raises(SolventError, match="found a first state beside them"):
        from_bytes(write_archive(arrays, {**header, "start": "a"}))
    header.pop("first_states")
    with pytest.raises(SolventError, match="expected a name"):
        from_bytes(write_archive(arrays, header))


def test_policies_with_other_ends_than_the_model_are_refused():
    model, policy = saturating()
    arrays, header = read_archive(to_bytes(policy))
    for name, value, message in (
        ("floor_D", -2, "policy, floor of 'r': expected the model's, -0.5, found -1"),
        ("floor_D", -(2**63), "policy, floor of 'r': expected the model's, -0.5, found none"),
        ("ceiling_D", 7, "policy, ceiling of 'r': expected the model's, 3, found 3.5"),
        ("ceiling_D", LARGEST, "policy, ceiling of 'r': expected the model's, 3, found none"),
    ):
        content = write_archive({**arrays, name: np.array([value])}, header)
        with pytest.raises(SolventError, match=message):
            from_bytes(content, model)
    shares = [["b", "0.75"], ["a", "0.25"]]
    assert from_bytes(write_archive(arrays, {**header, "first_states": shares}), model) == policy
    for shares in ([["a", "0.5"], ["b", "0.5"]], [["a", "0.25"], ["c", "0.75"]]):
        with pytest.raises(SolventError, match="policy, start: expected the model's"):
            from_bytes(write_archive(arrays, {**header, "first_states": shares}), model)


def test_older_formats_have_no_accounts():
    arrays, header = parts_of(to_bytes(CASES[0][1]))
    for version in (1, 2):
        with pytest.raises(SolventError, match="only arrays that the format has, found 'ceiling_D'"):
            from_bytes(write_archive(arrays, {**header, "solvent_policy": version}))
    plain = {name: array for name, array in arrays.items() if name not in ("initial_D", "floor_D", "ceiling_D")}
    assert from_bytes(write_archive(plain, {**header, "solvent_policy": 2})) == CASES[0][1]
    arrays, header = read_archive(to_bytes(saturating()[1]))
    plain = {name: array for name, array in arrays.items() if name not in ("initial_D", "floor_D", "ceiling_D")}
    with pytest.raises(SolventError, match="expected a name"):
        from_bytes(write_archive(plain, {**header, "solvent_policy": 2}))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"solvent: 1\nhorizon: 3\n", r"text that begins with 'solvent: 1'; solvent\.load_model loads a model$"),
        (b'\xef\xbb\xbf{"solvent": 1}', r"JSON; solvent\.load_model loads a model$"),
        ("né: 1".encode() * 2000, r"text that begins with 'né: 1.*; solvent\.load_model loads a model$"),
        (b"", r"an empty file$"),
        (b" \n", r"a blank file$"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), r"a binary file of another kind$"),
        (b"PK\x03\x04" + b"\0" * 100, r"an incomplete archive$"),
    ],
)
def test_other_files_are_described(tmp_path, content, found):
    file = tmp_path / "van.yaml"
    file.write_bytes(content)
    with pytest.raises(
        PolicyError, match=rf"van\.yaml: expected a policy file, as policy\.save writes it, found {found}"
    ):
        solvent.load_policy(file)
