from __future__ import annotations

import io
import json
import pickle
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, ModelError, instances
from solvent.core.archives import FORMAT, write_archive
from solvent.formats import npz
from solvent.formats.files import parse_model
from solvent.formats.registry import format_named


def example() -> CMDP:
    b = CMDP.builder(horizon=2, start="a", resources=["x", "y"], budget={"x": 3, "y": None})
    b.add(
        "a",
        "go",
        outcomes=[(0.5, "a", [1, solvent.distribution("uniform", low=0, high=1)]), (0.5, "b", [2, 0])],
        steps=[0],
    )
    b.add("a", "go", outcomes=[(1, "b", ["1/3", 0])], steps=[1])
    b.add("a", "no", outcomes=[(1, "b", 0)])
    return b.build()


def unpack(model: CMDP) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(io.BytesIO(npz.write(model))) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop("header").tobytes()), arrays


def pack(header: Any, arrays: dict[str, Any]) -> bytes:
    """Return a file with a valid checksum, so that its content is validated."""
    return write_archive(arrays, header)


def test_numpy_can_read_the_file(tmp_path: Path) -> None:
    model = example()
    header, arrays = unpack(model)
    assert header["solvent"] == FORMAT
    assert header["version"] == solvent.__version__
    assert header["states"] == ["a", "b"]
    assert [Fraction(unit) for unit in header["units"]] == [column.unit for column in model.cost]
    np.testing.assert_array_equal(arrays["probability"], model.probability)
    assert parse_model(pack(header, arrays), "npz") == model


def test_wide_columns_are_stored_as_text() -> None:
    model = instances.knapsack([1, 1], [1e300, 1e-300])
    _, arrays = unpack(model)
    assert arrays["cost0"].dtype.kind == "U"
    assert parse_model(npz.write(model), "npz") == model


def test_the_largest_integers_are_the_same_in_every_format() -> None:
    header, arrays = unpack(example())
    arrays["cost0"] = np.array([-(2**63) + 1, 2, 0, 1, 0])
    model = parse_model(pack(header, arrays), "npz")
    for kind in ("yaml", "json", "npz"):
        again = parse_model(format_named(kind).write(model), kind)
        assert again == model
        assert again.fingerprint == model.fingerprint


class Bomb:
    """Creates a file if it is ever unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_object_arrays_are_refused_and_nothing_runs(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    pickle.loads(pickle.dumps(Bomb(trace)))
    assert trace.exists()
    trace.unlink()
    header, arrays = unpack(example())
    for name in [*arrays, "extra", "header"]:
        evil = np.empty(1, object)
        evil[0] = Bomb(trace)
        buffer = io.BytesIO()
        np.savez(buffer, **{"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays, name: evil})
        with pytest.raises(ModelError, match="expected an NPZ of plain arrays, found Object arrays cannot be loaded"):
            parse_model(buffer.getvalue(), "npz")
    with pytest.raises(ModelError):
        parse_model(pickle.dumps(Bomb(trace)), "npz")
    assert not trace.exists()


HEADER: list[tuple[dict[str, Any], str]] = [
    (
        {"solvent": 4},
        r"header: expected a model of format 1(, | or )2 or 3, found 4; it was written by a newer version",
    ),
    ({"solvent": 0}, r"header: expected a model of format 1(, | or )2 or 3, found 0$"),
    ({"solvent": True}, r"header: expected a model of format 1(, | or )2 or 3, found True$"),
    ({"version": "9.9.9"}, r"header, version: expected a file of Solvent .* or older, found '9.9.9'; it was written"),
    ({"version": None}, r"header, version: expected the version of Solvent that wrote the file, found None"),
    ({"horizon": 0}, r"horizon: expected a whole number of at least 1, found 0"),
    ({"horizon": True}, r"horizon: expected a whole number"),
    ({"horizon": 2.0}, r"header, horizon: expected a int"),
    ({"horizon": 3}, r"table_of_step: expected 3 entries, found 2"),
    ({"start": "c"}, r"start: expected one of the model's states, found 'c'"),
    ({"start": None}, r"header, names: expected a name"),
    ({"states": []}, r"row_indptr"),
    ({"states": ["a", "a"]}, r"states: expected each name once"),
    ({"states": ["a", []]}, r"header, names: expected a name"),
    ({"states": ["a", {}]}, r"header, names: expected a name"),
    ({"states": ["a", "b", "c"]}, r"row_indptr: expected a multiple of 3 entries, plus one, found 5"),
    ({"actions": ["go"]}, r"row_action: expected positions from 0 to 0, found 0 to 1"),
    ({"resources": ["x"]}, r"law_DO: expected int32 of shape \(1, "),
    ({"resources": ["x", "y", "z"]}, r"cost2: expected an array, a unit and a number of digits"),
    ({"resources": ["x", 1]}, r"resources: expected names that are non-empty text"),
    ({"units": ["1"]}, r"cost1: expected an array, a unit and a number of digits"),
    ({"units": ["0", "1"]}, r"header, units\[0\]: expected a positive number as text, found '0'"),
    ({"units": ["1/0", "1"]}, r"header, units\[0\]"),
    ({"units": ["-1", "1"]}, r"header, units\[0\]"),
    ({"units": [1, "1"]}, r"header, units\[0\]"),
    ({"units": ["9" * 3000, "1"]}, r"header, units\[0\]"),
    ({"decimal_digits": [15]}, r"cost1"),
    ({"decimal_digits": ["x", 15]}, r"header, units\[0\]"),
    ({"laws": []}, r"law_DO: expected positions from -1 to -1"),
    ({"laws": [3]}, r"laws\[0\]: expected a distribution, found 3"),
    ({"laws": [{"distribution": "x"}]}, r"laws\[0\]: expected one of the distributions"),
    ({"budget": 3}, r"header, budget: expected limits by resource, found 3"),
    ({"budget": {"x": "?", "y": 1}}, r"budget, x: expected a finite number"),
    ({"budget": {"z": 1}}, r"budget: expected a resource of the model"),
    ({"name": 1}, r"header, name: expected a str, found 1"),
    ({"floors": "0"}, r"header, floors: expected 2 numbers as text, or null, found '0'"),
    ({"floors": ["0"]}, r"header, floors: expected 2 numbers as text, or null, found \['0'\]"),
    ({"floors": [None, 0]}, r"header, floors\[1\]: expected a number as text, or null, found 0"),
    ({"floors": [True, None]}, r"header, floors\[0\]: expected a number as text, or null, found True"),
    ({"ceilings": ["nan", None]}, r"header, ceilings\[0\]: expected a finite number"),
    ({"ceilings": [None, "inf"]}, r"header, ceilings\[1\]: expected a finite number"),
    ({"ceilings": [None, "9" * 3000]}, r"header, ceilings\[1\]: expected a finite number .* found '999"),
    (
        {"floors": ["3", None], "ceilings": ["5/2", None]},
        r"resource 'x': expected a floor of at most the ceiling, found floor 3 and ceiling 2.5",
    ),
]


@pytest.mark.parametrize(("changes", "message"), HEADER)
def test_corrupt_headers(changes: dict[str, Any], message: str) -> None:
    header, arrays = unpack(example())
    with pytest.raises(ModelError, match=message):
        parse_model(pack({**header, **changes}, arrays), "npz")


@pytest.mark.parametrize(
    "field", ["horizon", "start", "states", "actions", "resources", "units", "laws", "budget", "name"]
)
def test_missing_header_fields(field: str) -> None:
    header, arrays = unpack(example())
    del header[field]
    with pytest.raises(ModelError, match=f"header: expected a field '{field}', found none"):
        parse_model(pack(header, arrays), "npz")


ARRAYS: list[tuple[str, Any, str]] = [
    ("table_of_step", [0, 2], r"table_of_step: expected positions from 0 to 1, found 0 to 2"),
    ("table_of_step", [-1, 0], r"table_of_step: expected positions"),
    ("table_of_step", [0], r"table_of_step: expected 2 entries, found 1"),
    ("row_indptr", [0, 2, 2, 4, 3], r"row_indptr: expected non-decreasing positions from 0 to 4"),
    ("row_indptr", [0, 5, 2, 4, 4], r"row_indptr: expected non-decreasing positions"),
    ("row_indptr", [1, 2, 2, 4, 4], r"row_indptr: expected non-decreasing positions from 0"),
    ("row_indptr", [], r"row_indptr: expected a multiple of 2 entries, plus one, found 0"),
    ("row_indptr", [0, 4], r"row_indptr: expected a multiple"),
    ("row_action", [0, 0, 0, 1], r"row_action: expected each action of a state once, in increasing order"),
    ("row_action", [1, 0, 0, 1], r"row_action: expected each action of a state once, in increasing order"),
    ("row_action", [0, -1, 0, 1], r"row_action: expected positions from 0 to 1"),
    ("row_action", [0, 9, 0, 1], r"row_action: expected positions from 0 to 1, found 0 to 9"),
    ("row_reward", [0.0], r"row_reward: expected 4 entries, found 1"),
    ("row_reward", [0.0, np.nan, 0.0, 0.0], r"a/no, reward: expected a finite number, found nan"),
    ("outcome_indptr", [0, 2, 3, 4], r"outcome_indptr: expected 5 entries, found 4"),
    ("outcome_indptr", [0, 2, 3, 9, 5], r"outcome_indptr: expected non-decreasing positions from 0 to 5"),
    ("outcome_indptr", [0, 2, 2, 4, 5], r"a/no: expected at least one outcome, found none"),
    ("probability", [0.5, 0.4, 1, 1, 1], r"a/go, probabilities: expected a sum of 1"),
    ("probability", [np.nan, 0.5, 1, 1, 1], r"a/go, outcome 0, probability: expected a number from 0 to 1"),
    ("probability", [1.5, -0.5, 1, 1, 1], r"a/go, outcome 1, probability: expected a number from 0 to 1"),
    ("next_state", [0, 1, 1, 2, 1], r"next_state: expected positions from 0 to 1, found 0 to 2"),
    ("next_state", [0, -1, 1, 1, 1], r"next_state: expected positions"),
    ("next_state", [0, 1], r"next_state: expected 5 entries, found 2"),
    ("law_DO", [[0] * 5, [-1] * 5], r"cost0: expected zeros where law_DO names a distribution"),
    ("law_DO", [[-1] * 5, [1, -1, -1, -1, -1]], r"law_DO: expected positions from -1 to 0"),
    ("law_DO", [[-2] * 5, [-1] * 5], r"law_DO: expected positions"),
    ("cost0", [1, 2], r"cost0: expected 5 whole numbers"),
    ("cost0", [-(2**63), 0, 0, 0, 0], r"cost0: expected numbers above -2\*\*63"),
]


@pytest.mark.parametrize(("name", "values", "message"), ARRAYS)
def test_corrupt_arrays(name: str, values: Any, message: str) -> None:
    header, arrays = unpack(example())
    arrays[name] = np.array(values, arrays[name].dtype)
    with pytest.raises(ModelError, match=message):
        parse_model(pack(header, arrays), "npz")


@pytest.mark.parametrize("name", ["table_of_step", "row_indptr", "row_action", "probability", "cost0", "law_DO"])
def test_wrong_types_shapes_and_absence(name: str) -> None:
    header, arrays = unpack(example())
    for bad in (arrays[name].astype(np.complex128), arrays[name][..., None], np.array(0), np.array("x")):
        with pytest.raises(ModelError, match=name):
            parse_model(pack(header, {**arrays, name: bad}), "npz")
    if name != "law_DO":
        with pytest.raises(ModelError, match=name):
            parse_model(pack(header, {key: array for key, array in arrays.items() if key != name}), "npz")


@pytest.mark.parametrize("text", ["x", "nan", "1" * 5000, "", "1.5.2"])
def test_wide_columns_hold_numbers(text: str) -> None:
    header, arrays = unpack(example())
    arrays["cost0"] = np.array(["0", text, "0", "0", "0"])
    with pytest.raises(ModelError, match="cost0: expected a"):
        parse_model(pack(header, arrays), "npz")


def archive_of(**entries: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_npy", ".npy"), content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"file: expected an NPZ of plain arrays, found"),
        (b"PK\x03\x04", r"file: expected an NPZ of plain arrays"),
        (b"\x93NUMPY", r"file: expected an NPZ of plain arrays"),
        (archive_of(), r"file: expected an NPZ with an array 'header', found \[\]"),
        (
            archive_of(header=b"raw"),
            r"expected an NPZ of plain arrays, found an entry 'header' that is not an array",
        ),
        (archive_of(header_npy=b"\x93NUMPY\x01\x00\x04\x00{{{{"), r"file: expected an NPZ of plain arrays"),
    ],
)
def test_invalid_archives(content: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_model(content, "npz")


@pytest.mark.parametrize(
    "header", [b"{", b"\xff", b"[" * 100_000, b"[]", b"1", b'{"solvent": 1e999999999999999999999}']
)
def test_invalid_headers(header: bytes) -> None:
    _, arrays = unpack(example())
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(header, np.uint8), **arrays)
    with pytest.raises(ModelError, match="header: expected"):
        parse_model(buffer.getvalue(), "npz")
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array(["text"]), **arrays)
    with pytest.raises(ModelError, match="header: expected JSON as bytes"):
        parse_model(buffer.getvalue(), "npz")


def test_zip_bombs_are_refused_before_they_expand(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\0" * 10**6)
    content = bytearray(buffer.getvalue())
    # the directory claims four gigabytes
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
    with pytest.raises(ModelError, match=r"expected arrays of at most .* bytes, found 4,294,967,294"):
        parse_model(bytes(content), "npz")


def test_unused_tables_and_distributions_are_dropped() -> None:
    header, arrays = unpack(example())
    arrays["table_of_step"] = np.array([1, 1], np.int32)
    model = parse_model(pack(header, arrays), "npz")
    assert model.n_tables == 1
    assert model.distributions == ()
    assert model.distribution_DO is None


def accounts() -> CMDP:
    b = CMDP.builder(
        horizon=2,
        start={"b": 0.25, "a": 0.75},
        resources=[solvent.Resource("x", floor=0), solvent.Resource("y", ceiling="1/3")],
        states=["a", "b", "end"],
        end_reward={"a": 2, "end": -1},
        must_end_in=["end", "b"],
    )
    b.add("a", "go", outcomes=[(1, "b", [1, 0])])
    b.add("b", "go", outcomes=[(1, "end", [1, 0])])
    return b.build()


def test_accounts_are_plain_arrays_and_text() -> None:
    model = accounts()
    header, arrays = unpack(model)
    assert (header["floors"], header["ceilings"]) == (["0", None], [None, "1/3"])
    assert header["start"] is None
    assert [arrays[name].tolist() for name in ("start_state", "start_probability")] == [[1, 0], [0.25, 0.75]]
    assert arrays["end_reward"].tolist() == [2, 0, -1]
    assert arrays["may_end"].tolist() == [False, True, True]
    again = parse_model(pack(header, arrays), "npz")
    assert again == model
    assert again.fingerprint == model.fingerprint


def test_files_of_plain_accounts_are_as_before() -> None:
    header, arrays = unpack(example())
    assert not header.keys() & {"floors", "ceilings", "end_reward", "may_end"}
    assert not arrays.keys() & {"start_state", "start_probability", "end_reward", "may_end"}


ACCOUNTS: list[tuple[dict[str, Any], str]] = [
    ({"start_state": [1, 3]}, r"start_state: expected positions from 0 to 2, found 1 to 3"),
    ({"start_state": [-1, 0]}, r"start_state: expected positions"),
    ({"start_state": [1, 1]}, r"start_state: expected each state once, found one twice"),
    ({"start_state": None}, r"file: expected an array 'start_state', found none"),
    ({"start_state": []}, r"start_probability: expected 0 entries, found 2"),
    ({"start_state": [], "start_probability": []}, r"start: expected probabilities with a sum of 1 .* found none"),
    ({"start_probability": None}, r"file: expected an array 'start_probability', found none"),
    ({"start_probability": [1.0]}, r"start_probability: expected 2 entries, found 1"),
    ({"start_probability": [0.5, 0.4]}, r"start: expected probabilities with a sum of 1 .* found 0.9"),
    ({"start_probability": [np.nan, 1]}, r"start, probability of 'b': expected a number from 0 to 1, found nan"),
    ({"start_probability": [-0.5, 1.5]}, r"start, probability of 'b': expected a number from 0 to 1, found -0.5"),
    ({"start_probability": [np.inf, 0]}, r"start, probability of 'b': expected a number from 0 to 1, found inf"),
    ({"end_reward": [1.0, 2.0]}, r"end_reward: expected 3 entries, found 2"),
    ({"end_reward": [0.0, np.nan, 0.0]}, r"end_reward of 'b': expected a finite number, found nan"),
    ({"end_reward": [0.0, -np.inf, 0.0]}, r"end_reward of 'b': expected a finite number, found -inf"),
    ({"end_reward": [0.0, 1e301, 0.0]}, r"end_reward of 'b': expected at most 1e\+300 in size"),
    ({"may_end": [True] * 4}, r"may_end: expected 3 entries, found 4"),
]


@pytest.mark.parametrize(("changes", "message"), ACCOUNTS)
def test_corrupt_accounts(changes: dict[str, Any], message: str) -> None:
    header, arrays = unpack(accounts())
    for name, values in changes.items():
        if values is None:
            del arrays[name]
        else:
            arrays[name] = np.array(values, arrays[name].dtype)
    with pytest.raises(ModelError, match=message):
        parse_model(pack(header, arrays), "npz")


@pytest.mark.parametrize("name", ["start_state", "start_probability", "end_reward", "may_end"])
def test_accounts_of_other_types_and_shapes(name: str) -> None:
    header, arrays = unpack(accounts())
    for bad in (arrays[name].astype(np.uint8), arrays[name][..., None], np.array(0), np.array("x")):
        with pytest.raises(ModelError, match=name):
            parse_model(pack(header, {**arrays, name: bad}), "npz")


def test_one_start_only() -> None:
    header, arrays = unpack(accounts())
    with pytest.raises(ModelError, match=r"header, start: expected null beside the array start_state, found 'a'"):
        parse_model(pack(header | {"start": "a"}, arrays), "npz")


def test_no_discount_beside_accounts() -> None:
    header, arrays = unpack(accounts())
    header |= {"horizon": None, "discount": "1/2"}
    arrays["table_of_step"] = arrays["table_of_step"][:1]
    with pytest.raises(ModelError, match=r"end_reward: expected none, as a discounted model has no last step"):
        parse_model(pack(header, arrays), "npz")
    del arrays["end_reward"], arrays["may_end"]
    with pytest.raises(ModelError, match=r"start: expected one state, as discounted models need"):
        parse_model(pack(header, arrays), "npz")
    del arrays["start_state"], arrays["start_probability"]
    with pytest.raises(ModelError, match=r"resource 'x': expected no floor and no ceiling, as costs are discounted"):
        parse_model(pack(header | {"start": "a"}, arrays), "npz")
