"""The code of the README and the documentation runs and prints what the page shows; links and cited files exist."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import solvent
from effort import slow_after
from solvent.formats.files import parse_model
from solvent.solvers import registry
from solvent.solvers.transforms.approximation import APPROXIMATIONS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
#: A path of this repository in backticks; paths under src/solvent may leave that part out.
CITED = re.compile(r"`((?:tests|src|bench|fuzz|examples|docs|\.ci)/[\w./-]+|[a-z]+/[\w/]+\.py)`")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
ENTRY = re.compile(r"^::: ([\w.]+)$", re.M)
REFERENCE = "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


#: Pages whose code takes seconds, and is like that of tests/report, tests/learning and tests/baselines.
LONG = ("docs/report.md", "docs/learning.md", "docs/baselines.md")
#: The page whose code needs the extra `rl`.
TRAINING = "docs/training.md"


@pytest.mark.parametrize(
    "name",
    slow_after(
        len(PAGES) - len(LONG) - 1,
        sorted(
            (name for page in PAGES if (name := page.relative_to(ROOT).as_posix()) != TRAINING), key=LONG.__contains__
        ),
    ),
)
def test_code_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / name
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, f"{page.name}", "exec"), namespace)
        expected = re.findall(r"^# ?> ?(.*)$", block, re.M)
        if expected:
            assert [line.rstrip() for line in printed.getvalue().splitlines()] == [e.rstrip() for e in expected]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Stable-Baselines3 leaves a file open
def test_code_that_trains_agents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sb3_contrib")
    monkeypatch.setitem(sys.modules, "gym", None)  # OpenAI's, for which Stable-Baselines3 looks when it saves an agent
    test_code_blocks_run(TRAINING, tmp_path, monkeypatch)


@each_page
def test_model_files_on_pages_load(page: Path) -> None:
    for block in re.findall(r"^```yaml\n(solvent: .*?)^```$", page.read_text(), re.M | re.S):
        assert parse_model(block).description


def test_there_are_model_files_to_load() -> None:
    assert len(re.findall(r"^```yaml\nsolvent: ", (DOCS / "models.md").read_text(), re.M)) >= 2


@each_page
def test_no_block_of_python_escapes(page: Path) -> None:
    fences = re.findall(r"^[ \t]*(?:```|~~~)[ \t]*\{?\.?(?:python|py)\b", page.read_text(), re.M)
    assert len(fences) == len(BLOCK.findall(page.read_text()))


def test_there_are_blocks_to_run() -> None:
    for name in ("tutorial.md", "choosing.md", "models.md", "reference/index.md"):
        assert BLOCK.findall((DOCS / name).read_text())


def test_the_first_pages_state_the_output_of_their_code() -> None:
    for page in (ROOT / "README.md", DOCS / "index.md", DOCS / "install.md"):
        for block in BLOCK.findall(page.read_text()):
            assert block.count("print(") == len(re.findall(r"^# > ", block, re.M)) > 0


@each_page
def test_links_between_pages_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_cited_files_exist(page: Path) -> None:
    for cited in CITED.findall(page.read_text()):
        assert (ROOT / cited).exists() or (ROOT / "src" / "solvent" / cited).exists(), f"{page.name} cites {cited}"


def test_a_citation_of_a_file_is_found() -> None:
    text = "See `tests/policy/test_no.py`, `core/progress.py`, `docs/benchmarks.md` and `solvent.solve`."
    assert CITED.findall(text) == ["tests/policy/test_no.py", "core/progress.py", "docs/benchmarks.md"]


@each_page
def test_mathematics_is_typeset(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|<!--.*?-->", "", page.read_text(), flags=re.M | re.S)
    assert re.findall(r"\b[A-Za-z]\^[\w({]|\b[VWQ]_[a-z]\b|\bsqrt\(", prose) == []


def find(entry: str) -> Any:
    """Return the object of an entry of the reference; of a module and a function of one name, the module."""
    try:
        return importlib.import_module(entry)
    except ModuleNotFoundError:
        place, _, name = entry.rpartition(".")
        return getattr(find(place), name)


def described() -> list[Any]:
    """Return all objects of the reference: entries, and members that an entry lists."""
    names = ENTRY.findall(REFERENCE)
    for package, members in re.findall(r"^::: ([\w.]+)\n    options:\n      members: \[(.+)\]$", REFERENCE, re.M):
        names += [f"{package}.{name}" for name in members.split(", ")]
    return [find(name) for name in names]


@pytest.mark.parametrize("package", [solvent, solvent.baselines, solvent.plot], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package: Any) -> None:
    known = [id(each) for each in described()]
    assert [name for name in package.__all__ if id(getattr(package, name)) not in known] == []


@pytest.mark.parametrize("entry", ENTRY.findall(REFERENCE))
def test_every_entry_of_the_reference_has_a_docstring(entry: str) -> None:
    assert find(entry) == solvent.__version__ or find(entry).__doc__


def test_the_index_of_the_reference_names_everything() -> None:
    index = (DOCS / "reference" / "index.md").read_text()
    assert set(re.findall(r"\[solvent\.(\w+)\]", index)) == set(solvent.__all__) - {"__version__"}


def test_a_page_that_loads_from_another_host_is_found() -> None:
    names = runpy.run_path(str(DOCS / "theme" / "offline.py"))
    remote_parts = names["remote_parts"]
    ours = '<link rel="stylesheet" href="assets/a.css"><script src="x.js"></script><a href="https://a.org/b">b</a>'
    assert remote_parts(ours) == []
    assert remote_parts('<link rel="canonical" href="https://a.org/b"><link href="https://a.org/c" rel="next">') == []
    for address in ("https://a.org/b", "http://a.org/b", "//a.org/b"):
        assert remote_parts(f'<img alt="b" src="{address}">') == [address]
        assert remote_parts(f"<link rel=stylesheet href={address}>") == [address]
        assert remote_parts(f"<script async src='{address}'></script>") == [address]


@pytest.mark.parametrize("page", ["cli.md", "planning.md"])
def test_pages_name_every_method_and_approximation(page: str) -> None:
    text = (DOCS / page).read_text()
    names = [*registry.names(), *APPROXIMATIONS]
    assert [name for name in names if not re.search(rf"[`\"]{name}[`\"]", text)] == []


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    assert listed == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
