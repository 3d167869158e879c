"""NPZ archives with a JSON header: plain arrays only, whatever is in the file."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import decimal
from solvent.errors import ModelError, quote


def write_archive(arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> bytes:
    """Return the content of an archive."""
    buffer = io.BytesIO()
    entry = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez_compressed(buffer, header=entry, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_archive(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays of an archive and its header.

    Raises
    ------
    ModelError
        If it is not one, would expand beyond reason, or holds anything but plain arrays; nothing in it is run.
    """
    try:
        _refuse_bombs(content)
        with warnings.catch_warnings(), np.load(io.BytesIO(content), allow_pickle=False) as archive:
            warnings.simplefilter("ignore")  # of numpy, on headers it finds odd; they are checked by whoever reads them
            arrays = {name: archive[name] for name in archive.files}
    except ModelError:
        raise
    except Exception as error:  # zipfile, its decompressors and numpy know a dozen unrelated types
        raise ModelError("file", "an NPZ of plain arrays", str(error).split("\n")[0] or "a broken one") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ModelError("file", "an NPZ of plain arrays", f"an entry {name!r} that is none")
    return arrays, _read_header(arrays)


def _refuse_bombs(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    if total > max(2**30, 1000 * len(content)):
        raise ModelError("file", "an NPZ of reasonable size", f"one that expands to {total:,} bytes")


def _read_header(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    array = arrays.get("header")
    if array is None:
        raise ModelError("file", "an NPZ with an array 'header'", quote(list(arrays)))
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ModelError("header", "JSON as bytes", f"{array.dtype} of shape {array.shape}")
    try:
        header = json.loads(array.tobytes(), parse_float=decimal)
    except ModelError as error:
        raise ModelError("header", error.expected, error.found) from None
    except (ValueError, RecursionError) as error:
        raise ModelError("header", "JSON", str(error)) from None
    if not isinstance(header, dict):
        raise ModelError("header", "a JSON object", quote(header))
    return header
