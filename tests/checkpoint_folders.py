"""Checkpoints of one section as plain data: read, changed, and written with valid checksums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from solvent.core.array_files import ArrayWriter
from solvent.core.checkpoint import _checksum


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the state of the only section."""
    (section,) = json.loads((path / "checkpoint.json").read_text())["sections"].values()
    arrays = {name: np.load(path / f"{files[0][0]:08d}.npy") for name, files in section["arrays"].items()}
    return arrays, section["state"]


def write_folder(path: Path, arrays: dict[str, Any], state: Any) -> None:
    """Replace the arrays and the state of the only section."""
    content = json.loads((path / "checkpoint.json").read_text())
    content.pop("checksum")
    (section,) = content["sections"].values()
    for file in path.glob("*.npy"):
        file.unlink()
    section["state"], section["arrays"] = state, {}
    for number, (name, array) in enumerate(arrays.items(), 1):
        writer = ArrayWriter(path / f"{number:08d}.npy", array.dtype)
        writer.append(array)
        section["arrays"][name] = [writer.close(array.shape).to_json()]
    content["checksum"] = _checksum(content)
    (path / "checkpoint.json").write_text(json.dumps(content))
