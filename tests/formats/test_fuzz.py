"""Reading any bytes gives a model or a `SolventError`."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import numpy as np
import pytest
import yaml
from bad_files import BASE
from hypothesis import example, given
from hypothesis import strategies as st

import solvent
from effort import draws
from solvent import CMDP, Budget, SolventError
from solvent.formats import npz
from solvent.formats.documents import to_document
from solvent.formats.files import parse_model
from solvent.formats.yaml import dump

KINDS = ["yaml", "json", "npz"]


def seed_model() -> CMDP:
    b = CMDP.builder(
        horizon=4,
        start="a",
        resources=["x", "y"],
        name="n",
        budget={"x": Budget(upper=[1, 2, None, 4], lower=-3), "y": 2},
    )
    distribution = solvent.distribution("triangular", low=0, mode=1, high=2, negate=True)
    b.add(
        "a", "go", reward="1/3", outcomes=[(0.5, "a", ["1/3", distribution]), (0.5, ("b", 1), [2, 0])], steps=[0, 1, 2]
    )
    b.add("a", "go", outcomes=[(1, "a", 0)], steps=[3])
    b.add("a", 7, outcomes=[(1, ("b", 1), [1e300, 1e-300])])
    b.terminal(("b", 1))
    return b.build()


MODEL = seed_model()
CONTENT = {
    "yaml": dump(to_document(MODEL)).encode(),
    "json": json.dumps(to_document(MODEL)).encode(),
    "npz": npz.write(MODEL),
}


def attempt(content: bytes, kind: str) -> None:
    try:
        model = parse_model(content, kind)
    except SolventError:
        return
    assert isinstance(model, CMDP)
    # the model can be described
    assert repr(model)
    assert str(model.describe())
    assert model.fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_is_a_model(kind: str) -> None:
    assert parse_model(CONTENT[kind], kind) == MODEL


@pytest.mark.parametrize("kind", KINDS)
@draws(100)
@given(
    content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
)
@example(content=b"")
@example(content=b"\x00")
@example(content=b"PK\x05\x06" + b"\0" * 18)
@example(content=b"!!python/object/new:os.system [ls]")
@example(content=b"%YAML 9.9\n---\na")
@example(content=b"&a [*a, *a]")
@example(content=b"{solvent: 1, horizon: 1, start: 1, rows: [{state: 1, action: .nan, outcomes: []}]}")
def test_arbitrary_bytes(kind: str, content: bytes) -> None:
    attempt(content, kind)


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Flip, delete, insert and repeat bytes at random places."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(1, 30))
        kind = draw(st.sampled_from(["flip", "set", "delete", "insert", "repeat", "cut"]))
        if kind == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set" and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == "delete":
            del data[at : at + length]
        elif kind == "insert":
            data[at:at] = draw(st.one_of(st.binary(max_size=8), st.sampled_from(TOKENS)))
        elif kind == "repeat":
            data[at:at] = data[at : at + length]
        else:
            del data[at:]
    return bytes(data)


TOKENS = [
    b"[",
    b"{",
    b"}",
    b"- ",
    b": ",
    b"&a ",
    b"*a",
    b"<<",
    b"!!map ",
    b"!!int ",
    b"!!bool ",
    b"1e999",
    b"null",
    b'"',
    b"'",
]
TOKENS += [b".nan", b"-", b"9" * 30, b"1/0", b"true", b"\xff", b"\xe2\x80\xa8", b"\\ud800", b"|\n", b"? ", b"0"]


@pytest.mark.parametrize("kind", ["yaml", "json", "base", "npz"])
@draws(120)
@given(data=st.data())
def test_damaged_files(kind: str, data: Any) -> None:
    content = BASE.encode() if kind == "base" else CONTENT[kind]
    attempt(data.draw(damaged(content)), "yaml" if kind == "base" else kind)


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.sampled_from(
            [10**7, 10**400, 10**500, "\ud800", "1/0", "0-9999999", "inf", "distribution", "a", "x", 1, 0, -1]
        ),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["x", "upper", "lower", "final", "distribution", "low", "high", "state"]), inner
        ),
    ),
    max_leaves=4,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


@st.composite
def mutated(draw: Any, tree: Any) -> Any:
    """Replace, remove, rename, double or swap nodes of a JSON tree."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from([place for place in places(tree) if place] or [("",)]))
        parent = tree
        for key in path:
            parent = parent[key]
        kind = draw(st.sampled_from(["replace", "remove", "double", "swap", "rename"]))
        if kind == "replace" or last == "":
            parent[last] = draw(json_values)
        elif kind == "remove":
            del parent[last]
        elif kind == "double" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        elif kind == "rename" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["", "x", "rows", "cost", "\ud800", last + "s"]))] = parent.pop(last)
        else:
            other = tree
            for key in draw(st.sampled_from(places(tree))):
                other = other[key]
            parent[last] = copy.deepcopy(other)
    return tree


ENTRIES = json.loads(CONTENT["json"])


@draws(200)
@given(mutated(ENTRIES))
def test_mutated_trees_as_json(tree: Any) -> None:
    attempt(json.dumps(tree).encode(), "json")


@draws(100)
@given(mutated(ENTRIES))
def test_mutated_trees_as_yaml(tree: Any) -> None:
    try:
        content = yaml.safe_dump(tree).encode("utf-8", "replace")
    except UnicodeEncodeError:
        return
    attempt(content, "yaml")


def unpack() -> dict[str, Any]:
    with np.load(io.BytesIO(CONTENT["npz"])) as archive:
        return {name: archive[name] for name in archive.files}


ARRAYS = unpack()
HEADER = json.loads(ARRAYS["header"].tobytes())


@draws(120)
@given(mutated(HEADER))
def test_mutated_npz_headers(header: Any) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **{**ARRAYS, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    attempt(buffer.getvalue(), "npz")


@draws(120)
@given(st.data())
def test_mutated_npz_arrays(data: Any) -> None:
    arrays = {name: array.copy() for name, array in ARRAYS.items()}
    name = data.draw(st.sampled_from(sorted(set(arrays) - {"header"})))
    array = arrays[name]
    kind = data.draw(st.sampled_from(["entry", "shorter", "longer", "type", "shape", "none"]))
    if kind == "entry":
        at = data.draw(st.integers(0, array.size - 1))
        extreme = {"i": [-(2**31), 2**31 - 1], "f": [np.nan, np.inf, -1.0, 1e308], "U": ["x", "1/0", "9" * 99]}[
            array.dtype.kind
        ]
        near = [0, 1, -1, 2, 3, 100] if array.dtype.kind != "U" else ["1", "-5", ""]
        array.ravel()[at] = data.draw(st.sampled_from([*extreme, *near]))
    elif kind == "shorter":
        arrays[name] = array[: data.draw(st.integers(0, len(array)))]
    elif kind == "longer":
        arrays[name] = np.concatenate([array, array])
    elif kind == "type":
        dtype = data.draw(st.sampled_from(["f8", "i8", "i4", "u1", "?", "c16", "S3", "U9", "M8[s]", ">i4", "V4"]))
        arrays[name] = np.zeros(array.shape, dtype)
    elif kind == "shape":
        arrays[name] = data.draw(st.sampled_from([array[None], array[..., None], np.array(array.ravel()[0])]))
    else:
        del arrays[name]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    attempt(buffer.getvalue(), "npz")
