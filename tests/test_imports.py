"""Imports point one way, and `import solvent` stays quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import solvent

PACKAGE = Path(solvent.__file__).parent

#: Rooms by rank; a room may import those of lower rank and itself, never its neighbors.
RANKS = [
    ["_version", "errors"],
    ["core"],
    ["model"],
    ["formats"],
    ["policy"],
    ["verification"],
    ["solvers"],
    ["baselines", "learning", "gym"],
    ["plot", "warmup"],
    ["experiments"],
    ["cli"],
]
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}

#: Methods of convenience, which call a later package when they are called: `model.save` and `Curve.plot`.
EXCEPTIONS = {
    "model/cmdp.py": "model imports formats",
    "model/discounted.py": "model imports formats",
    "solvers/curve.py": "solvers imports plot",
}

HEAVY = ["torch", "ray", "matplotlib", "gymnasium", "scipy.stats", "numba", "pydantic"]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield line and room of each import of ours, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "solvent":
                yield node.lineno, parts[1] if len(parts) > 1 else ""


def offences(source: str, room: str, package: tuple[str, ...] = ("solvent",)) -> list[str]:
    found = []
    for line, other in imported_rooms(ast.parse(source), package):
        if other == room or (other == "__version__" and room != "errors"):
            continue
        if other not in RANK or RANK[other] >= RANK[room]:
            found.append(f"line {line}: {room} imports {other or 'solvent'}")
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py" and path.stem != "__main__")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    assert room_of(path) in RANK, f"{path} lies in no room of DESIGN.md"
    package = ("solvent", *path.relative_to(PACKAGE).parts[:-1])
    found = [text.partition(": ")[2] for text in offences(path.read_text(), room_of(path), package)]
    allowed = EXCEPTIONS.get(path.relative_to(PACKAGE).as_posix())
    assert found == ([] if allowed is None else [allowed])


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("model", "from solvent.policy import table"),
        ("model", "import solvent.solvers.solve"),
        ("model", "from solvent import solvers"),
        ("model", "from solvent import CMDP"),
        ("model", "import solvent"),
        ("model", "from ..solvers import solve"),
        ("errors", "from solvent.core.exact import exact"),
        ("verification", "def f():\n    from solvent.solvers.solve import solve"),
        (
            "verification",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from solvent.solvers.solution import Solution",
        ),
        ("learning", "from solvent.gym import env"),
        ("gym", "from solvent.baselines import lp"),
        ("solvers", "from solvent.nowhere import x"),
    ],
)
def test_wrong_ways_are_seen(room: str, source: str) -> None:
    assert len(offences(source, room, ("solvent", room))) == 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("model", "from solvent.errors import ModelError\nfrom solvent.core.exact import exact\nfrom . import cmdp"),
        ("solvers", "from solvent.verification import verify\nfrom solvent.policy.table import Table\nimport numpy"),
        ("cli", "from solvent.plot import terminal\nimport solvent.learning"),
    ],
)
def test_right_ways_are_fine(room: str, source: str) -> None:
    assert offences(source, room, ("solvent", room)) == []


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_solvent_loads_nothing_heavy() -> None:
    code = f"import sys, solvent; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(code) == "[]"


def test_stating_a_model_loads_nothing_heavy() -> None:
    code = f"""
import sys, solvent
b = solvent.CMDP.builder(horizon=2, start=0, resources=["x"])
b.add(0, 0, outcomes=[(1, 0, "1/3")])
b.build()
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run(code) == "[]"


def test_every_public_name_is_there() -> None:
    for name in solvent.__all__:
        assert getattr(solvent, name) is not None
    assert dir(solvent) == sorted(solvent.__all__)
    with pytest.raises(AttributeError, match="module 'solvent' has no attribute 'nothing'"):
        _ = solvent.nothing
