"""What the shell offers on Tab. Names of resources are read off the model file without loading the model."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import typer

_METHODS = {
    "auto": "the one expected to be quickest",
    "reduction": "exact; any resources, any limits",
    "frontier": "exact; one resource, limits on one side",
    "additive": "costs rounded by epsilon",
    "relative": "costs rounded by a factor of epsilon",
}
_FIGURES = {
    "value": "the approximation against the feasibility scheme",
    "scale": "how the time of the approximation grows",
    "approximation": "the approximation against the exact method",
    "never-over": "the feasibility scheme against the exact method",
    "precision": "costs cut to k decimals",
    "far": "all of it carried to a horizon of 1000",
}
#: Larger files are not read while somebody waits for a Tab.
_LARGEST = 4_000_000


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Return the methods that begin so."""
    return [(name, help) for name, help in _METHODS.items() if name.startswith(incomplete)]


def complete_figure(incomplete: str) -> list[tuple[str, str]]:
    """Return the figures of the paper that begin so."""
    return [(name, help) for name, help in _FIGURES.items() if name.startswith(incomplete)]


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the line that begin so."""
    return [name for name in _resources(context) if name.startswith(incomplete)]


def complete_budget(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the line that begin so, each with the "=" that follows."""
    return [f"{name}=" for name in _resources(context) if f"{name}=".startswith(incomplete)]


def _resources(context: typer.Context) -> list[str]:
    # while an option waits for its value the parser has not yet put the arguments in their places
    for given in (context.params.get("model"), *context.args):
        if given is not None:
            try:
                return resource_names(Path(given))
            except Exception:  # a shell that asks for completions has no use for what is wrong with a file
                return []
    return []


def resource_names(path: Path) -> list[str]:
    """Return the names of the resources in a model file, or none if it is too large to look at.

    Raises
    ------
    OSError, ValueError
        If there is no such file or it is not what its ending says.
    """
    if path.stat().st_size > _LARGEST:
        return []
    kind = path.suffix.lower()
    found: Any = None
    if kind == ".json":
        found = json.loads(path.read_bytes()).get("resources")
    elif kind == ".npz":
        found = _npz_header(path).get("resources")
    elif kind in (".yaml", ".yml"):
        found = _yaml_field(path.read_text(encoding="utf-8"), "resources")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _npz_header(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        content = archive.read("header.npy")
    wide = content[6] > 1  # the version of the array's own header decides how its length is written
    (size,) = struct.unpack("<I" if wide else "<H", content[8 : 12 if wide else 10])
    header: dict[str, Any] = json.loads(content[(12 if wide else 10) + size :])
    return header


def _yaml_field(text: str, name: str) -> Any:
    """Return one field at the top of a YAML file, from its own lines only."""
    import yaml

    lines: list[str] = []
    for line in text.splitlines():
        begins = line[:1] not in ("", " ", "\t", "#", "-", "]")
        if lines and begins:
            break
        if lines or line.startswith(f"{name}:"):
            lines.append(line)
    return (yaml.safe_load("\n".join(lines)) or {}).get(name)
