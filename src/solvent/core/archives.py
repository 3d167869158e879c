"""NPZ archives with a JSON header. Only arrays of numbers, truth values and text are read, never objects.

Sizes are checked before an archive is unpacked: the ZIP directory states the size of each member, the header of each
array implies the same size by shape and type, and both must be within the limits in effect (`solvent.core.loading`).
Files have a checksum since format 2:

    checksum = SHA-256 of the header, without the checksum itself, and of all arrays by name, type and shape

It detects damage and accidental edits. It is not a signature: anyone who changes a file can recompute it, so readers
validate all arrays and names regardless.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.exact import decimal
from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import check_limit, current_limits, loading, refuse
from solvent.errors import ModelError, SolventError, printable, quote

#: The format in which archives are written.
FORMAT = 3
#: Files of this format and later ones carry a checksum.
_CHECKSUM_SINCE = 2
#: Size in bytes that all arrays together may have regardless of the size of the file.
_ALWAYS_ALLOWED = 64 * 2**20
#: The same for the header, and its largest size relative to that of the file.
_HEADER_ALLOWED, _HEADER_EXPANSION = 8 * 2**20, 50
#: Number of bytes that are unpacked at a time, and in the first read.
_PIECE, _SMALL = 1 << 24, 1 << 16
_LONGEST_NPY_HEADER = 4096
#: Size in bytes of all arrays from which on files are not compressed, and of files from which on they are mapped.
LARGE = 256 * 2**20
#: Size in bytes from which on an array is mapped.
_LEAST_MAPPED = 1 << 16
#: Where the content of members begins, in large files: at multiples of this number of bytes.
_ALIGNMENT = 64
#: Sizes of the fixed part of a member's header and of the field for large sizes, and the number of the padding field.
_LOCAL_HEADER, _ZIP64_FIELD, _PADDING_FIELD = 30, 20, 0xD935
#: How zip files begin, and how much of any other file is looked at to say what it is.
_ZIP, _SHOWN = b"PK\x03\x04", 1000
#: End of the header, after the checksum, which is its last field.
_END = b'"}'
_CHECKSUM = re.compile(rb'.*"checksum": "([0-9a-f]{64})"\}', re.DOTALL)
_NPY = re.compile(
    rb"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?){0,7}(?:\d{1,18},?)?)\), \} *\n"
)
_PLAIN_TYPE = re.compile(r"[<|]([iufb])([1248])|[<]U(\d{1,9})")
_LARGEST_CODE_POINT = 0x10FFFF
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(\.\d{1,6})?[A-Za-z0-9.+-]{0,40}", re.ASCII)

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]
Reader = TypeVar("Reader", bound=Callable[..., Any])


def compress(members: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of an NPZ file with the given arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **members)  # type: ignore[arg-type]
    return buffer.getvalue()


def write_archive(
    arrays: Mapping[str, NDArray[Any]],
    header: Mapping[str, Any],
    pack: Callable[[Mapping[str, NDArray[Any]]], bytes] = compress,
) -> bytes:
    """Return the content of an archive, with a checksum in its header.

    Examples
    --------
    >>> content = write_archive({"price": np.array([3, 4])}, {"thing": 2})
    >>> arrays, header = read_archive(content)
    >>> arrays["price"].tolist(), header["thing"], len(header["checksum"])
    ([3, 4], 2, 64)
    """
    named = {key: value for key, value in header.items() if key != "checksum"}
    text = json.dumps({**named, "checksum": ""}).encode()
    text = text.removesuffix(_END) + _digest(text, arrays).encode() + _END
    return pack({"header": np.frombuffer(text, np.uint8), **arrays})


def store_archive(path: Path, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write an archive to a file, atomically; one of more than `LARGE` bytes is not compressed, and can be mapped.

    Large arrays are written piece by piece, so that they may be memory maps themselves.

    Raises
    ------
    ModelError
        If the file cannot be written.
    """
    if sum(array.nbytes for array in arrays.values()) <= LARGE:
        write_atomically(path, write_archive(arrays, header))
        return
    members: dict[str, NDArray[Any]] = {}

    def keep(given: Mapping[str, NDArray[Any]]) -> bytes:
        members.update(given)
        return b""

    write_archive(arrays, header, keep)
    write_atomically(path, lambda file: _store(file, members))


def _store(file: BinaryIO, members: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as members of a zip file, each at a position that is a multiple of `_ALIGNMENT`."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, given in members.items():
            array = np.asarray(given, order="C")
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
            entry = zipfile.ZipInfo(f"{name}.npy")
            begin = file.tell() + _LOCAL_HEADER + len(entry.filename) + _ZIP64_FIELD + 4 + len(head.getvalue())
            padding = -begin % _ALIGNMENT
            entry.extra = _PADDING_FIELD.to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
            with archive.open(entry, "w", force_zip64=True) as member:
                member.write(head.getvalue())
                data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
                for at in range(0, len(data), _PIECE):
                    member.write(data[at : at + _PIECE])


@contextmanager
def opened(path: Path) -> Iterator[bytes | BinaryIO]:
    """Context with the content of a file or, if it is large, the open file; for `read_archive`.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read.
    LoadLimitError
        If it is larger than the limits in effect.
    """
    if not path.is_file() or path.stat().st_size <= LARGE:
        yield read_plain(path)
        return
    check_limit("file_bytes", path.stat().st_size, "bytes", printable(str(path)))
    with path.open("rb") as file:
        yield file


def _digest(text: bytes, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def read_archive(content: bytes | BinaryIO) -> tuple[Arrays, Header]:
    """Return the arrays of an archive and its header; those of an open file are mapped, if they are not compressed.

    Raises
    ------
    ModelError
        If the content is not an archive, has arrays of other types, or does not match its checksum.
    LoadLimitError
        If the arrays are too large.
    """
    with loading(None):
        try:
            arrays = _read_members(content)
        except SolventError:
            raise
        except MemoryError:
            raise ModelError("file", "an archive that fits into memory", "a larger one") from None
        except Exception as error:  # zipfile, its decompressors and NumPy raise many unrelated types
            raise ModelError("file", "an NPZ of plain arrays", _broken(content, error)) from None
        text = arrays.pop("header").tobytes()
        header = _parse_header(text)
    _check_digest(text, header, arrays)
    return arrays, header


def describe_other(content: bytes | BinaryIO) -> str:
    """Return what a file contains if it is not an archive; empty text if it is one.

    Examples
    --------
    >>> describe_other(b'{"horizon": 3}'), describe_other(b"name: van"), describe_other(b"")
    ('JSON', "text that begins with 'name: van'", 'an empty file')
    """
    if zipfile.is_zipfile(io.BytesIO(content) if isinstance(content, bytes) else content):
        return ""
    if not isinstance(content, bytes):
        content.seek(0)
        content = content.read(_SHOWN)
    if not content:
        return "an empty file"
    if content.startswith(_ZIP):
        return "an incomplete archive"
    begin = content[:_SHOWN]
    try:
        text = begin.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = begin[: error.start].decode("utf-8-sig") if error.start > len(begin) - 4 else "\0"
    if "\0" in text:
        return "a binary file of another kind"
    text = text.lstrip()
    if text[:1] in ("{", "["):
        return "JSON"
    return f"text that begins with {quote(text.splitlines()[0])}" if text else "a blank file"


def _broken(content: bytes | BinaryIO, error: Exception) -> str:
    """Return what was found instead of an archive that can be read."""
    return describe_other(content) or str(error).split("\n")[0] or "a broken one"


def read_header(content: bytes) -> Header:
    """Return the header of an archive without comparing its checksum; raises the same errors as `read_archive`."""
    with loading(None):
        try:
            arrays = _read_members(content, only="header")
        except SolventError:
            raise
        except Exception as error:  # as above
            raise ModelError("file", "an NPZ of plain arrays", _broken(content, error)) from None
        return _parse_header(arrays["header"].tobytes())


def _read_members(content: bytes | BinaryIO, only: str | None = None) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as archive:
        entries = archive.infolist()
        _check_sizes(entries, len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END))
        arrays: Arrays = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if only is None or name == only:
                if name in arrays:
                    raise ModelError("file", "each array once", f"{quote(name)} twice")
                mapped = not isinstance(content, bytes) and entry.compress_type == zipfile.ZIP_STORED
                arrays[name] = _read_member(archive, entry, name, mapped=mapped)
    header = arrays.get("header")
    if header is None:
        raise ModelError("file", "an NPZ with an array 'header'", quote(list(arrays)))
    if header.dtype != np.uint8 or header.ndim != 1:
        raise ModelError("header", "JSON as bytes", f"{header.dtype} of shape {header.shape}")
    return arrays


def _check_sizes(entries: list[zipfile.ZipInfo], size: int) -> None:
    total = sum(entry.file_size for entry in entries)
    limits = current_limits()
    most = max(_ALWAYS_ALLOWED, limits.expansion * size)
    for name, limit in (("expansion", most), ("expanded_bytes", limits.expanded_bytes)):
        if total > limit:
            refuse(name, f"arrays of at most {limit:,} bytes", f"{total:,}")
    for entry in entries:
        if entry.filename.startswith("header") and entry.file_size > max(_HEADER_ALLOWED, _HEADER_EXPANSION * size):
            most = max(_HEADER_ALLOWED, _HEADER_EXPANSION * size)
            refuse("expansion", f"a header of at most {most:,} bytes", f"{entry.file_size:,}")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelError("file", "an NPZ of plain arrays", f"compression {entry.compress_type}")


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, *, mapped: bool) -> NDArray[Any]:
    """Return one array, as a memory map if asked for, if its own header and the ZIP directory agree on its size."""
    where = f"array {quote(name)}"
    with archive.open(entry) as file:
        # reads at most the size in the directory, which was checked; the last read checks the CRC of the member
        begin = file.read(min(entry.file_size, _SMALL) + 1)
        if begin[:6] != b"\x93NUMPY" or begin[6:8] not in (b"\x01\x00", b"\x02\x00"):
            raise ModelError("file", "an NPZ of plain arrays", f"an entry {quote(name)} that is not an array")
        first = 10 if begin[6] == 1 else 12
        length = int.from_bytes(begin[8:first], "little")
        if length > _LONGEST_NPY_HEADER:
            raise ModelError(where, "the header of an array", f"one of {length:,} bytes")
        dtype, shape, fortran = _read_layout(begin[first : first + length], where)
        size = math.prod(shape) * dtype.itemsize
        at = first + length
        if at + size != entry.file_size:
            expected = f"{size:,} bytes, as its type and shape imply"
            raise ModelError(where, expected, f"{entry.file_size - at:,} in the directory of the file")
        if mapped and size > _LEAST_MAPPED and dtype.kind in "iuf" and not fortran:
            found_at = _data_offset(archive, entry) + at
            whole: Any = archive.fp
            mapped_array: NDArray[Any] = np.memmap(whole, dtype, "r", found_at, shape).view(np.ndarray)
            return mapped_array
        flat = np.empty(size, np.uint8)
        found, at = len(begin) - at, 0
        flat[:found] = np.frombuffer(begin, np.uint8, found, first + length)
        while (at := at + found) < size:
            piece = file.read(min(_PIECE, size - at + 1))
            found = len(piece)
            if not piece:
                raise ModelError(where, f"{size:,} bytes", f"{at:,}")
            flat[at : at + found] = np.frombuffer(piece, np.uint8)
    if dtype.kind == "U" and size and flat.view(np.uint32).max() > _LARGEST_CODE_POINT:
        raise ModelError(where, "Unicode text", "invalid code points")
    if dtype.kind == "b" and size and flat.max() > 1:
        raise ModelError(where, "truth values", "other bytes")
    array: NDArray[Any] = flat.view(dtype).reshape(shape, order="F" if fortran else "C")
    return array


def _data_offset(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Return where the content of a member begins."""
    assert archive.fp is not None
    archive.fp.seek(entry.header_offset)
    local = archive.fp.read(_LOCAL_HEADER)
    return (
        entry.header_offset + _LOCAL_HEADER
        + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    )  # fmt: skip


def _read_layout(header: bytes, where: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    found = _NPY.fullmatch(header)
    if found is None:
        raise ModelError("file", "an NPZ of plain arrays", f"{where} with the header {quote(header)}")
    text = found[1].decode("latin-1")
    if "O" in text:
        raise ModelError("file", "an NPZ of plain arrays", f"Object arrays cannot be loaded ({quote(where)})")
    plain = _PLAIN_TYPE.fullmatch(text)
    if plain is None or (plain[1] == "b" and plain[2] != "1"):
        raise ModelError(where, "an NPZ of plain arrays", f"the type {quote(text)}")
    if plain[3] is not None and not 0 < int(plain[3]) < 2**24:
        raise ModelError(where, "texts of fewer than 2**24 characters", plain[3])
    shape = tuple(int(part) for part in found[3].decode().replace(",", " ").split())
    return np.dtype(text), shape, found[2] == b"True"


def _parse_header(text: bytes) -> Header:
    try:
        header = json.loads(text, parse_float=decimal)
    except ModelError as error:
        raise ModelError("header", error.expected, error.found) from None
    except (ValueError, RecursionError) as error:
        raise ModelError("header", "JSON", str(error)) from None
    if not isinstance(header, dict):
        raise ModelError("header", "a JSON object", quote(header))
    return header


def _check_digest(text: bytes, header: Header, arrays: Arrays) -> None:
    """Compare with the checksum, if there is one; `choose_reader` checks whether the format requires one."""
    if header.get("checksum") is None:
        return
    last = _CHECKSUM.fullmatch(text)
    if last is None:
        raise ModelError("header, checksum", "64 hexadecimal digits in the last field", quote(header["checksum"]))
    stated = last[1].decode()
    found = _digest(text[: last.start(1)] + _END, arrays)
    if found != stated:
        raise ModelError(
            "file", f"content with the checksum {stated[:12]}...", f"{found[:12]}...",
            "the file was damaged or edited after it was written: use another copy, or write it again",
        )  # fmt: skip


def choose_reader(header: Header, key: str, readers: Mapping[int, Reader], what: str) -> Reader:
    """Return the reader for the format version in a header.

    Parameters
    ----------
    header : dict
    key : str
        Field with the version of the format.
    readers : mapping of int to callable
        Readers by version.
    what : str
        Content of the file for messages, as in "a model".

    Raises
    ------
    ModelError
        If the version is unknown, the file was written by a newer version of Solvent, or a required checksum is
        missing.
    """
    found = header.get(key)
    known = " or ".join(map(str, sorted(readers)))
    if isinstance(found, bool) or not isinstance(found, int) or found not in readers:
        newer = isinstance(found, int) and not isinstance(found, bool) and found > max(readers)
        hint = "it was written by a newer version of Solvent, which is needed to read it" if newer else ""
        shown = quote(found) if key in header else f"no field {key!r}"
        raise ModelError("header", f"{what} of format {known}", shown, hint)
    if found >= _CHECKSUM_SINCE and header.get("checksum") is None:
        raise ModelError("header", "a checksum, which files of this format have", "none")
    _check_version(header)
    return readers[found]


def _check_version(header: Header) -> None:
    """Refuse files of a later minor version, in which fields may have other meanings."""
    stated = header.get("version")
    found = _VERSION.fullmatch(stated) if isinstance(stated, str) else None
    if found is None:
        raise ModelError("header, version", "the version of Solvent that wrote the file", quote(stated))
    own = _VERSION.fullmatch(__version__)
    assert own is not None
    if (int(found[1]), int(found[2])) > (int(own[1]), int(own[2])):
        raise ModelError(
            "header, version", f"a file of Solvent {__version__} or older", quote(stated),
            "it was written by a newer version of Solvent, which is needed to read it",
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# arrays of positions


def check_array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: Any, ndim: int = 1) -> NDArray[Any]:
    """Return an array of a file after checking its type and its number of dimensions."""
    array = arrays.get(name)
    expected = f"{np.dtype(dtype)} in {'one dimension' if ndim == 1 else f'{ndim} dimensions'}"
    if array is None:
        raise ModelError("file", f"an array {name!r}", "none")
    if array.dtype != np.dtype(dtype) or array.ndim != ndim:
        raise ModelError(name, expected, f"{array.dtype} of shape {array.shape}")
    return array


def check_names_of_arrays(arrays: Mapping[str, Any], known: set[str]) -> None:
    """Refuse arrays that the format does not have."""
    strange = sorted(set(arrays) - known)
    if strange:
        raise ModelError("file", "only arrays that the format has", quote(strange[0]))


def check_length(name: str, array: NDArray[Any], size: int) -> None:
    """Raise a `ModelError` unless an array has `size` entries."""
    if len(array) != size:
        raise ModelError(name, f"{size} entries", f"{len(array)}")


def check_positions(name: str, array: NDArray[Any], size: int, low: int = 0) -> None:
    """Raise a `ModelError` unless all entries are positions from `low` to `size - 1`.

    Examples
    --------
    >>> check_positions("next_state", np.array([0, 3]), 3)
    Traceback (most recent call last):
    solvent.errors.ModelError: next_state: expected positions from 0 to 2, found 0 to 3
    """
    if array.size and not low <= int(array.min()) <= int(array.max()) < size:
        raise ModelError(name, f"positions from {low} to {size - 1}", f"{array.min()} to {array.max()}")


def check_pointers(name: str, array: NDArray[Any], pieces: int | None, total: int, *, empty: bool = True) -> None:
    """Raise a `ModelError` unless an array is an index pointer that divides `total` entries into pieces.

    Neighbors are compared without subtraction, which could overflow.

    Parameters
    ----------
    name : str
    array : ndarray of int64, shape (pieces + 1,)
    pieces : int or None
        Number of pieces; None for any number.
    total : int
        Total number of entries.
    empty : bool
        Whether a piece may be empty.

    Examples
    --------
    >>> check_pointers("row_indptr", np.array([0, -2**63, -2, 4]), 3, 4)
    Traceback (most recent call last):
    solvent.errors.ModelError: row_indptr: expected non-decreasing positions from 0 to 4, found others
    """
    if pieces is not None and len(array) != pieces + 1:
        raise ModelError(name, f"{pieces + 1} entries", f"{len(array)}")
    rises = array[1:] >= array[:-1] if empty else array[1:] > array[:-1]
    if not len(array) or array[0] != 0 or array[-1] != total or not rises.all():
        order = "non-decreasing" if empty else "increasing"
        raise ModelError(name, f"{order} positions from 0 to {total}", "others")
