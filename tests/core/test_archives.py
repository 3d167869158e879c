"""Archives are checked before they are unpacked, and positions before they are used."""

from __future__ import annotations

import io
import itertools
import json
import resource
import struct
import time
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import draws
from solvent import LoadLimitError, ModelError
from solvent.core.archives import (
    check_pointers,
    check_positions,
    choose_reader,
    compress,
    read_archive,
    read_header,
    write_archive,
)
from solvent.core.loading import VARIABLE, LoadLimits, check_time, loading

EXTREME = st.sampled_from([0, 1, 2, 3, -1, -2, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, -(2**62)])


@given(st.lists(st.one_of(st.integers(0, 5), EXTREME), max_size=6), st.integers(0, 5), st.booleans())
@draws(400)
def test_pointers_are_valid_or_refused(entries: list[int], total: int, empty: bool) -> None:
    """Compare with Python integers, which do not overflow."""
    array = np.array(entries, np.int64)
    rises = all(a <= b if empty else a < b for a, b in itertools.pairwise(entries))
    good = bool(entries) and entries[0] == 0 and entries[-1] == total and rises
    try:
        check_pointers("x", array, None, total, empty=empty)
    except ModelError:
        assert not good
    else:
        assert good
        assert np.repeat(np.arange(len(array) - 1), np.diff(array)).shape == (total,)


@given(st.lists(st.one_of(st.integers(-3, 5), EXTREME), max_size=6), st.integers(0, 5), st.integers(-1, 0))
@draws(200)
def test_positions_are_within_bounds_or_refused(entries: list[int], size: int, low: int) -> None:
    good = all(low <= entry < size for entry in entries)
    try:
        check_positions("x", np.array(entries, np.int64), size, low)
    except ModelError:
        assert not good
    else:
        assert good


def example() -> bytes:
    return write_archive(
        {"a": np.arange(5), "b": np.array([["x", "yz"]]), "c": np.asfortranarray(np.ones((2, 3)))}, {"n": 1}
    )


def test_round_trip() -> None:
    arrays, header = read_archive(example())
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "a": [0, 1, 2, 3, 4],
        "b": [["x", "yz"]],
        "c": [[1, 1, 1], [1, 1, 1]],
    }
    assert header["n"] == 1
    assert read_header(example()) == header


def test_long_runs_of_zeros_do_not_confuse_the_checksum() -> None:
    _, header = read_archive(write_archive({}, {"unit": "1" + "0" * 300, "checksum": "of something else"}))
    assert header["unit"] == "1" + "0" * 300


def members_of(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize("change", ["array", "type", "shape", "name", "extra", "header", "missing"])
def test_edits_are_found(change: str) -> None:
    members = members_of(example())
    if change == "array":
        members["a"][2] += 1
    elif change == "type":
        members["a"] = members["a"].view(np.uint64)
    elif change == "shape":
        members["c"] = members["c"].reshape(3, 2)
    elif change == "name":
        members["d"] = members.pop("a")
    elif change == "extra":
        members["d"] = np.zeros(0)
    elif change == "missing":
        del members["a"]
    else:
        members["header"] = np.frombuffer(members["header"].tobytes().replace(b'"n": 1', b'"n": 2'), np.uint8)
    with pytest.raises(ModelError, match=r"content with the checksum .*damaged or edited after it was written"):
        read_archive(compress(members))


def test_every_flipped_bit_is_found() -> None:
    from fuzz.mutate import seal

    content = seal({"a": np.arange(3)}, {"n": 1})
    before = read_archive(content)
    for at in range(0, 8 * len(content), 7):
        flipped = bytearray(content)
        flipped[at // 8] ^= 1 << at % 8
        try:
            arrays, header = read_archive(bytes(flipped))
        except ModelError:
            continue
        assert header == before[1]  # a ZIP field that is not content, such as a date
        assert arrays["a"].tolist() == [0, 1, 2]


def npz(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(descr: str, shape: str, data: bytes) -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


HEADER = npy("'|u1'", "(2,)", b"{}")


@pytest.mark.parametrize(
    "member",
    [
        npy("'<i8'", "(1000000000000,)", b"\0" * 8),
        npy("'<i8'", "(99999999999999999999,)", b""),
        npy("'<i8'", "(2, 999999999999999999, 999999999999999999)", b""),
        npy("'<i8'", "(-1,)", b"\0" * 8),
        npy("'<i8'", "(1,)", b"\0" * 16),
        npy("'<i8'", "(1,)", b"\0" * 4),
        npy("'>i8'", "(1,)", b"\0" * 8),
        npy("'<c16'", "(1,)", b"\0" * 16),
        npy("'|O'", "(1,)", b"\0" * 8),
        npy("'|V8'", "(1,)", b"\0" * 8),
        npy("[('a', '<i8')]", "(1,)", b"\0" * 8),
        npy("'<U999999999'", "(0,)", b""),
        npy("'<U0'", "(5,)", b""),
        npy("'<U1'", "(1,)", b"\xff\xff\xff\x7f"),
        npy("'|b1'", "(1,)", b"\x07"),
        npy("'<m8[s]'", "(1,)", b"\0" * 8),
        b"\x93NUMPY\x03\x00" + b"\0" * 20,
        b"\x93NUMPY\x01\x00\xff\xff" + b"{" * 65535,
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"(" * 50,
        b"",
    ],
)
def test_inconsistent_members_are_refused(member: bytes) -> None:
    with pytest.raises(ModelError):
        read_archive(npz(header=HEADER, a=member))


def test_bombs_are_refused_before_they_expand() -> None:
    content = npz(header=HEADER, a=npy("'<i8'", "(10000000,)", b"\0" * 80_000_000))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    with pytest.raises(LoadLimitError, match=r"arrays of at most .* bytes, found 80.*limits=LoadLimits\(expansion"):
        read_archive(content)
    assert time.perf_counter() - began < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    with loading(LoadLimits(expansion=10_000)):
        arrays, _ = read_archive(content)
    assert arrays["a"].shape == (10_000_000,)
    with (
        loading(LoadLimits(expanded_bytes=1000, expansion=10_000)),
        pytest.raises(LoadLimitError, match="expanded_bytes"),
    ):
        read_archive(content)


def test_headers_that_expand_are_refused() -> None:
    text = b"[" + b"null," * 4_000_000 + b"null]"
    with pytest.raises(LoadLimitError, match="a header of at most"):
        read_archive(npz(header=npy("'|u1'", f"({len(text)},)", text)))


def test_many_members_that_share_their_bytes_are_refused() -> None:
    """A directory that names one compressed member a thousand times."""
    one = npz(a=npy("'<i8'", "(125000,)", b"\0" * 1_000_000))
    at = one.index(b"PK\x01\x02")
    entry, end = one[at : one.index(b"PK\x05\x06")], bytearray(one[one.index(b"PK\x05\x06") :])
    names = b"".join(entry.replace(b"a.npy", bytes([97 + i % 26]) + b".npy") for i in range(1000))
    end[8:12] = struct.pack("<HH", 1000, 1000)
    end[12:16] = struct.pack("<I", len(names))
    with pytest.raises(ModelError):
        read_archive(one[:at] + names + bytes(end))


def test_readers_are_chosen_by_format() -> None:
    readers: dict[int, Any] = {1: "first", 2: "second"}
    good = {"thing": 1, "version": "0.0.1"}
    assert choose_reader(good, "thing", readers, "a thing") == "first"
    assert choose_reader(good | {"thing": 2, "checksum": "x"}, "thing", readers, "a thing") == "second"
    for change, message in (
        ({"thing": 3}, "a thing of format 1 or 2, found 3; it was written by a newer version of Solvent"),
        ({"thing": None}, "a thing of format 1 or 2, found None"),
        ({"thing": 1.0}, "a thing of format 1 or 2, found 1.0"),
        ({"thing": 2}, "a checksum, which files of this format have"),
        ({"version": "99.0.0"}, "Solvent .* or older, found '99.0.0'; it was written by a newer version"),
        ({"version": "new"}, "the version of Solvent that wrote the file"),
        ({"version": 1}, "the version of Solvent that wrote the file"),
    ):
        with pytest.raises(ModelError, match=message):
            choose_reader(good | change, "thing", readers, "a thing")
    with pytest.raises(ModelError, match="no field 'thing'"):
        choose_reader({}, "thing", readers, "a thing")


def test_limits_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "seconds=0.5, entries=1e9 expansion=inf")
    limits = LoadLimits.default()
    assert (limits.seconds, limits.entries, limits.expansion) == (0.5, 10**9, float("inf"))
    assert limits.resources == LoadLimits().resources
    for text in ("seconds", "seconds=x", "seconds=-1", "seconds=nan", "minutes=3"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(ModelError, match="SOLVENT_LOAD_LIMITS: expected limits such as seconds=60"):
            LoadLimits.default()
    for wrong in (0, -1, True, "9", None, float("nan")):
        with pytest.raises(ModelError, match="LoadLimits, entries: expected a number above 0"):
            LoadLimits(entries=wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="limits: expected a LoadLimits"), loading(3):  # type: ignore[arg-type]
        pass


def test_time_is_limited_while_loading() -> None:
    check_time()
    with loading(LoadLimits(seconds=1e-9)):
        time.sleep(0.001)
        with pytest.raises(LoadLimitError, match=r"within 1e-09 seconds.*LoadLimits\(seconds=...\)"):
            check_time()


def test_headers_are_json_objects() -> None:
    for text in (b"[]", b"{", b"3", b"\xff", b"[" * 100_000, b'{"a": 1e99999999999999999999}'):
        with pytest.raises(ModelError):
            read_archive(compress({"header": np.frombuffer(text, np.uint8)}))
    assert json.loads('{"a": 1}') == read_archive(compress({"header": np.frombuffer(b'{"a": 1}', np.uint8)}))[1]
