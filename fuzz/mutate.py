"""Files that are nearly right: valid ones, changed where readers are likely to be careless.

Headers and documents are changed as trees, arrays by extremes, and the checksum is computed anew, so that what lies
behind it is reached. Raw bytes are flipped, cut and spliced as well. Everything is a function of a seed.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import zipfile
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.archives import Arrays, Header, read_archive, write_archive

#: What takes the place of a value in a header or a document.
HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**8,
    10**18, 10**30, 0.5, -0.0, 1e-300, 1e308, -1e308, "", "0", "1", "-1", "1/3", "1/0", "0/1", "9" * 390, "9" * 3000,
    "1/" + "7" * 390, "1e400", "1e-400", "1e999999999", "-1e999999999", "nan", "inf", "Infinity", "0x10", " 1 ", "٣",
    "0-1", "0-999998", "3-1", "0-99999999999", "-1-3", "a", "b", "home", "\x00", "\x1b]52;c;aGk=\x07", "\u202e",
    "\x9b2J", "exact", "down", "up", "equal", "at_most", "at_least", "uniform", "beta", [], {}, [[]], [{}], {"": None},
    [None], [0, 0], [True], ["a", ["b", ["c"]]], {"upper": 1, "lower": 2}, {"final": True}, {"distribution": "uniform"},
    {"distribution": "uniform", "low": 0, "high": 1}, {"distribution": "beta", "a": "1e-390", "b": 1e300},
    {"distribution": "truncated_normal", "mean": 0, "sd": "1e-320", "high": 1}, {"name": "fuel", "floor": 0},
    {"name": "fuel", "floor": 2, "ceiling": 1}, {"name": "fuel", "floor": "1e-390", "ceiling": "1e390"}, {"home": 1},
    {"home": 0.5, "away": 0.5}, {"home": -1, "away": 2}, [{"state": "home", "probability": 1}],
    [{"state": "home", "reward": 1e301}], [{"state": [], "probability": 1}], [0] * 300, ["0-9"] * 50, "x" * 5000,
    "[/]", "9.9.9", "0.0", "solvent",
]  # fmt: skip
_EXTREMES = (0, 1, -1, 2, 3, 100, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, -2)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 5e-324, 1e300, 1 / 3)
_TYPES = ("<i8", "<i4", "<u1", "<u8", "<f8", ">i8", "<f4", "|b1", "<U3", "<c16")

Tree = Any


@dataclass(frozen=True)
class Seed:
    """A valid file, whole and in parts.

    Attributes
    ----------
    kind : str
        Its reader: "json", "yaml", "npz", "policy" or "checkpoint".
    name : str
        Name of the valid file.
    content : bytes
    tree : object
        The document, or the header of an archive.
    arrays : dict of ndarrays or None
        The arrays of an archive.
    """

    kind: str
    name: str
    content: bytes
    tree: Tree
    arrays: Arrays | None = None

    def fresh_tree(self) -> Tree:
        """Return a copy of the tree."""
        return pickle.loads(self.pickled)

    @cached_property
    def pickled(self) -> bytes:
        """The tree, in the form that is fastest to copy."""
        return pickle.dumps(self.tree)

    @classmethod
    def of_archive(cls, kind: str, name: str, content: bytes) -> Seed:
        """Return the seed of an archive."""
        arrays, header = read_archive(content)
        return cls(kind, name, content, json.loads(json.dumps(header, default=float)), arrays)

    @classmethod
    def of_document(cls, kind: str, name: str, content: bytes) -> Seed:
        """Return the seed of a JSON document, or of a YAML document of which there is no tree."""
        return cls(kind, name, content, json.loads(content) if kind == "json" else None)


def mutate(seed: Seed, random: Random) -> bytes:
    """Return the content of a file that is like a valid one in most respects."""
    if seed.arrays is not None:
        return _mutate_archive(seed, random)
    if seed.tree is None:
        return _mutate_text(seed.content, random)
    tree = seed.fresh_tree()
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        tree = mutate_tree(tree, random)
    return json.dumps(tree).encode()


def flip(seed: Seed, other: Seed, random: Random) -> bytes:
    """Return a file with bits flipped, bytes replaced, pieces cut out, repeated, or taken from another file."""
    content = bytearray(seed.content)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(content) + 1)
        how = random.randrange(6)
        if how == 0 and at < len(content):
            content[at] ^= 1 << random.randrange(8)
        elif how == 1 and at < len(content):
            content[at] = random.choice((0, 1, 255, 127, 128, random.randrange(256)))
        elif how == 2:
            del content[at : at + random.choice((1, 2, 8, len(content)))]
        elif how == 3:
            content[at:at] = content[at : at + random.randrange(1, 64)]
        elif how == 4:
            cut = random.randrange(len(other.content))
            content[at:] = other.content[cut:]
        else:
            wide = random.choice((2, 4, 8))
            content[at : at + wide] = random.choice((0, 1, 2**31 - 1, 2**16 - 1, 2**32 - 1)).to_bytes(8, "little")[
                :wide
            ]
    return bytes(content)


# ---------------------------------------------------------------------------------------------------------------------
# trees


def mutate_tree(tree: Tree, random: Random) -> Tree:
    """Change one place of a tree of lists and dicts, in place or by returning another."""
    holder, key = _choose(tree, random)
    if holder is None:
        return random.choice(HOSTILE)
    how = random.randrange(10)
    if how < 5:
        holder[key] = copy.deepcopy(random.choice(HOSTILE))
    elif how == 5:
        holder[key] = _nudge(holder[key], random)
    elif how == 6:
        del holder[key]
    elif how == 7:
        other, place = _choose(tree, random)
        if other is not None:
            holder[key] = copy.deepcopy(other[place])
    elif isinstance(holder, list):
        if how == 8:
            holder.insert(random.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        else:
            random.shuffle(holder)
    else:
        holder[str(random.choice(HOSTILE))[:40]] = holder[key] if how == 8 else holder.pop(key)
    return tree


def _choose(tree: Tree, random: Random) -> tuple[Any, Any]:
    """Return a list or dict of the tree and one of its keys; (None, None) for the root."""
    holder: Any = None
    key: Any = None
    while isinstance(tree, list | dict) and tree and (holder is None or random.random() < 0.8):
        holder = tree
        key = random.randrange(len(tree)) if isinstance(tree, list) else random.choice(list(tree))
        tree = holder[key]
    return holder, key


def _nudge(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((-1, 1, 2, 10, -value))
    if isinstance(value, float):
        return value * random.choice((-1, 2, 0.5, 1e300, 0))
    if isinstance(value, str):
        return random.choice((value + "0", value[:-1], value[::-1], value.upper(), value + "\x1b[2J", "-" + value))
    if isinstance(value, list):
        return random.choice((value * 2, value[:-1], [value], value[::-1]))
    return [value]


def _mutate_text(content: bytes, random: Random) -> bytes:
    """Change the lines of a YAML file."""
    lines = content.decode().split("\n")
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(lines))
        how = random.randrange(7)
        if how == 0:
            lines.insert(at, lines[random.randrange(len(lines))])
        elif how == 1:
            del lines[at]
            lines = lines or [""]
        elif how == 2 and ":" in lines[at]:
            value = random.choice(HOSTILE)
            lines[at] = lines[at].split(":")[0] + ": " + (json.dumps(value) if random.random() < 0.7 else str(value))
        elif how == 3:
            lines[at] = lines[at].replace(" ", random.choice((" &a ", " *a ", " !!map ", "  ", "\t", " <<: *a ")), 1)
        elif how == 4:
            lines[at] += random.choice(("]", "}", "[", "{", ": x", " # ", '"', "'", "&a [*a]", "? : -", "%", "|", ">"))
        elif how == 5:
            lines[at] = lines[at][random.randrange(len(lines[at]) + 1) :]
        else:
            lines[at] = lines[at].replace("1", random.choice(("-1", "1e999", "0-999998", ".inf", "0b1", "1_0", "~")))
    return "\n".join(lines).encode("utf-8", "replace")


# ---------------------------------------------------------------------------------------------------------------------
# archives


def _mutate_archive(seed: Seed, random: Random) -> bytes:
    assert seed.arrays is not None
    header: Header = seed.fresh_tree()
    arrays = dict(seed.arrays)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if random.random() < 0.45:
            header = mutate_tree(header, random)
            if not isinstance(header, dict):
                header = {"header": header}
        else:
            name = random.choice(list(arrays) or ["nothing"])
            changed = mutate_array(arrays.get(name), random)
            if changed is None:
                arrays.pop(name, None)
            else:
                arrays[random.choice((name,) * 9 + ("strange",))] = changed
    if random.random() < 0.15:  # names and limits that are as good as the true ones, but others
        key = random.choice(
            ("states", "actions", "resources", "upper", "lower", "units", "counting", "rules", "floors", "ceilings")
        )
        if isinstance(header.get(key), list):
            random.shuffle(header[key]) if random.random() < 0.7 else header[key].reverse()
    if random.random() < 0.1:
        header["solvent" if seed.kind == "npz" else f"solvent_{_FIELD[seed.kind]}"] = random.choice((1, 2, 3, 4))
    if random.random() < 0.1:  # without a checksum, as in format 1
        header.pop("checksum", None)
        return store({"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays})
    return seal(arrays, header)


_FIELD = {"policy": "policy", "checkpoint": "learner"}


def mutate_array(array: NDArray[Any] | None, random: Random) -> NDArray[Any] | None:
    """Return an array like another: other entries, another order, another shape or type; or None."""
    if array is None:
        return np.zeros(3, np.int64)
    changed = array.copy()
    how = random.randrange(12)
    if changed.dtype.kind == "c":
        return None
    if how < 6 and changed.size:
        for _ in range(random.choice((1, 1, 2, 4))):
            at = random.randrange(changed.size)
            with np.errstate(all="ignore"):
                changed.reshape(-1)[at : at + random.choice((1, 1, 1, 2))] = _entry(changed, random)
        return changed
    if how == 6 and changed.size:
        return changed[::-1].copy() if random.random() < 0.5 else np.sort(changed, axis=0)
    if how == 7:
        return changed[: random.randrange(len(changed) + 1)] if changed.ndim else None
    if how == 8:
        return np.concatenate([changed, changed]) if changed.ndim else changed
    if how == 9:
        return None
    if how == 10:
        return random.choice((changed[None], changed.reshape(-1), np.asfortranarray(changed), changed[:0]))
    target = np.dtype(random.choice(_TYPES))
    with np.errstate(all="ignore"):
        try:
            return changed.astype(target)
        except (ValueError, TypeError, OverflowError):
            return np.zeros(changed.shape, target)


def _entry(array: NDArray[Any], random: Random) -> Any:
    if array.dtype.kind == "f":
        return random.choice(_FLOATS)
    if array.dtype.kind == "U":
        return str(random.choice(HOSTILE))[: max(array.dtype.itemsize // 4, 1)]
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.iinfo(np.int64)
    near = (
        int(random.choice(array.reshape(-1).tolist())) + random.choice((-1, 0, 1, 2)) if array.dtype.kind in "iu" else 1
    )
    return min(max(random.choice((*_EXTREMES, near, near, near)), int(info.min)), int(info.max))


def seal(arrays: Arrays, header: Header) -> bytes:
    """Return an archive with a correct checksum, not compressed, since that is faster."""
    return write_archive(arrays, header, pack=store)


def store(members: Any) -> bytes:
    """Return the content of an NPZ file that is not compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(array))
    return buffer.getvalue()


def _npy(array: NDArray[Any]) -> bytes:
    """Return an array as NumPy writes it."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    text = repr({"descr": array.dtype.str, "fortran_order": fortran, "shape": array.shape}).replace("}", ", }")
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + array.tobytes("A")
