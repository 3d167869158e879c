"""Imports follow the order of packages and have no cycles, and `import solvent` stays quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import solvent

PACKAGE = Path(solvent.__file__).parent

#: Packages by rank; a package may import those of lower rank and itself, not others of the same rank.
RANKS = [
    ["_version", "errors"],
    ["core"],
    ["model"],
    ["formats"],
    ["examples", "policy"],
    ["verification"],
    ["solvers"],
    ["baselines", "learning", "gym"],
    ["plot", "warmup"],
    ["report"],
    ["experiments"],
    ["cli"],
]
RANK = {package: rank for rank, packages in enumerate(RANKS) for package in packages}

#: Convenience methods that import a later package when they are called: `model.save`, `Curve.plot`, `Surface.plot`,
#: `LearnResult.plot` and `Solution.report`.
EXCEPTIONS = {
    "learning/result.py": "learning imports plot",
    "model/cmdp.py": "model imports formats",
    "model/discounted.py": "model imports formats",
    "solvers/curve.py": "solvers imports plot",
    "solvers/solution.py": "solvers imports report",
    "solvers/surface.py": "solvers imports plot",
}

HEAVY = ["torch", "ray", "vl_convert", "matplotlib", "gymnasium", "scipy.stats", "numba", "pydantic"]


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_packages(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield line and package of each import of this package, also of those in functions."""
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


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def wrong_imports(source: str, place: str, package: tuple[str, ...] = ("solvent",)) -> list[str]:
    found = []
    for line, other in imported_packages(parsed(source), package):
        if other == place or (other == "__version__" and place != "errors"):
            continue
        if other not in RANK or RANK[other] >= RANK[place]:
            found.append(f"line {line}: {place} imports {other or 'solvent'}")
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py" and path.stem != "__main__")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_order_of_packages(path: Path) -> None:
    assert package_of(path) in RANK, f"{path} is in no package of the list above"
    package = ("solvent", *path.relative_to(PACKAGE).parts[:-1])
    found = [text.partition(": ")[2] for text in wrong_imports(path.read_text(), package_of(path), package)]
    allowed = EXCEPTIONS.get(path.relative_to(PACKAGE).as_posix())
    assert found == ([] if allowed is None else [allowed])


@pytest.mark.parametrize(
    ("place", "source"),
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
def test_imports_in_the_wrong_direction_are_found(place: str, source: str) -> None:
    assert len(wrong_imports(source, place, ("solvent", place))) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("model", "from solvent.errors import ModelError\nfrom solvent.core.exact import exact\nfrom . import cmdp"),
        ("solvers", "from solvent.verification import verify\nfrom solvent.policy.table import Table\nimport numpy"),
        ("cli", "from solvent.plot import terminal\nimport solvent.learning"),
    ],
)
def test_imports_in_the_right_direction_are_accepted(place: str, source: str) -> None:
    assert wrong_imports(source, place, ("solvent", place)) == []


#: Imports that are left out when cycles are looked for, because they only serve convenience methods of a class.
CONVENIENCE = {
    ("solvent.model.cmdp", "solvent.formats.files"),  # model.save
    ("solvent.model.discounted", "solvent.formats.files"),  # model.save
    ("solvent.model.cmdp", "solvent.model.describe"),  # model.describe
    ("solvent.model.discounted", "solvent.model.describe"),  # model.describe
    ("solvent.model.cmdp", "solvent.model.constructors"),  # CMDP.builder, CMDP.from_arrays, ...
    ("solvent.model.cmdp", "solvent.model.display"),  # the display in notebooks
    ("solvent.model.discounted", "solvent.model.display"),
    ("solvent.policy.nodes", "solvent.policy.display"),
    ("solvent.policy.markov", "solvent.policy.display"),
    ("solvent.solvers.solution", "solvent.solvers.display"),
    ("solvent.solvers.curve", "solvent.plot.value"),  # Curve.plot
    ("solvent.solvers.surface", "solvent.plot.surfaces"),  # Surface.plot
    ("solvent.solvers.solution", "solvent.solvers.explain"),  # Solution.explain
    ("solvent.solvers.solution", "solvent.report.write"),  # Solution.report
}


def module_of(path: Path) -> str:
    return ".".join(("solvent", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def runtime_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield all imports, also of those in functions, but not of those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for each in node.orelse:
                yield from runtime_imports(ast.Module([each], []))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            yield from runtime_imports(node)


def imported_modules(tree: ast.AST, module: str, modules: frozenset[str]) -> set[str]:
    """Return the modules of this package that a module imports."""
    found: set[str] = set()
    for node in runtime_imports(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = node.module or ""
        if node.level:
            base = ".".join([*module.split(".")[: -node.level], *([node.module] if node.module else [])])
        for alias in node.names:
            full = f"{base}.{alias.name}"
            found.add(full if full in modules else base)
    return (found & modules) - {module}


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    modules = frozenset(sources)
    graph = {module: imported_modules(parsed(source), module, modules) for module, source in sources.items()}
    return {module: {each for each in found if (module, each) not in CONVENIENCE} for module, found in graph.items()}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or not."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        waiting = list(graph[module])
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting.extend(graph[each])
        reached[module] = seen
    mutual = {module: {each for each in reached[module] if module in reached[each]} for module in graph}
    return sorted({tuple(sorted(each)) for each in mutual.values() if each})  # type: ignore[arg-type]


def test_no_modules_import_each_other() -> None:
    found = cycles(import_graph({module_of(path): path.read_text() for path in FILES}))
    assert found == []


@pytest.mark.parametrize(
    "first",
    [
        "from solvent.b import y",
        "import solvent.b",
        "from solvent import b",
        "from . import b",
        "def f():\n    from solvent.b import y",
        "class A:\n    def f(self):\n        import solvent.b",
        "if True:\n    from .b import y",
    ],
)
def test_cycles_are_found(first: str) -> None:
    sources = {"solvent.a": first, "solvent.b": "from solvent.c import z", "solvent.c": "import solvent.a"}
    assert cycles(import_graph(sources)) == [("solvent.a", "solvent.b", "solvent.c")]


def test_imports_for_type_checkers_make_no_cycle() -> None:
    sources = {
        "solvent.a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import solvent.b\nelse:\n    import x",
        "solvent.b": "import solvent.a",
    }
    assert cycles(import_graph(sources)) == []


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
