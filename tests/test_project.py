"""Files that people meet before the code: versions, links, the package page, templates and workflows agree."""

from __future__ import annotations

import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import solvent

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Pages that are read in the folder itself.
PAGES = sorted(ROOT.glob("*.md"))
#: Addresses of this project. None exists yet, so no file may name one.
ADDRESS = re.compile(
    r"github(?:usercontent)?\.com[/:][\w.-]+/solvent\b|[\w-]+\.github\.io/solvent\b|solvent[\w-]*\.(?:github|readthedocs)\.io"
    r"|solvent-[r]l|img\.shields\.io|\w/(?:project|pypi|p)/solvent\b"
)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_versions_agree() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == solvent.__version__
    assert re.search(r"version = \{(.*)\}", read("docs/citing.md"))[1] == solvent.__version__  # type: ignore[index]
    released = re.findall(r"^## \[(\d[^\]]*)\] - (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.M)
    if released:  # the newest comes first; before a release there is only the section Unreleased
        assert released[0] == (solvent.__version__, str(citation["date-released"]))


def test_citation_has_what_its_format_requires() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]


def texts() -> Iterator[Path]:
    """Yield the text files of the project."""
    folders = [ROOT / name for name in (".ci", ".github", "bench", "docs", "examples", "fuzz", "src", "tests")]
    for path in [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]:
        unversioned = {"__pycache__", "katex"} & set(path.parts) or path.name == ".git"
        if path.is_file() and not unversioned and path.suffix not in (".png", ".npz", ".jsonl", ".zip", ".policy"):
            yield path


def test_no_file_names_an_address_of_the_project() -> None:
    found = {}
    for path in texts():
        if match := ADDRESS.search(path.read_text(encoding="utf-8", errors="replace")):
            found[path.relative_to(ROOT).as_posix()] = match[0]
    assert found == {}


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/someone/{}/issues", "git@github.com:someone/{}.git", "https://someone.github.io/{}/",
        "https://raw.githubusercontent.com/someone/{}/main/README.md", "https://{}.readthedocs.io/",
        "https://index.example/project/{}/",
    ],
)  # fmt: skip
def test_an_address_of_the_project_is_found(address: str) -> None:
    assert ADDRESS.search(address.format(PROJECT["name"]))


def anchors(page: str) -> set[str]:
    """Return the anchors of the headings of a page, as repository hosts form them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, text: str) -> list[str]:
    """Return the relative links and pictures of a page that lead nowhere."""
    found = []
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](docs/install.md#windows) [b](docs/nothing.md) ![c](docs/no.png) [d](docs/install.md#os2) [e](#what)"
    assert broken(ROOT / "README.md", text) == ["docs/nothing.md", "docs/no.png", "docs/install.md#os2", "#what"]
    assert len(LINK.findall(README)) > 10


def test_the_readme_starts_with_two_commands() -> None:
    language, block = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)[0]
    assert (language, [line.partition("  # ")[0] for line in block.splitlines()]) == ("sh", ["make demo", "make test"])


def test_the_package_page_is_the_readme_without_relative_links() -> None:
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    core = ProjectMetadata(str(ROOT), PluginManager()).core
    page = core.readme
    assert core.readme_content_type == "text/markdown"
    assert LINK.findall(page) == []
    assert "<!--" not in page
    assert "make demo" not in page
    assert page.index("pip install solvent\nsolvent demo\n") < page.index("## Example")
    kept = re.compile(r"^#+ [^\n]*$|^```python.*?^```$", re.M | re.S)
    assert kept.findall(page) == kept.findall(README)
    rest = README.partition("<!-- end -->\n")[2]
    paragraphs = [each for each in re.split(r"\n{2,}", rest) if "](" not in each and ".[" not in each]
    assert len(paragraphs) > 10
    assert [each for each in paragraphs if each not in page] == []
    assert page.count("`solvent[") == README.count("`.[") > 5


def test_versions_of_python_agree() -> None:
    listed = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)]
    assert PROJECT["requires-python"] == f">={listed[0]}"
    assert f"Python {listed[0]} to {listed[-1]}" in " ".join(README.split())
    jobs = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == listed
    assert re.search(r"^PYTHONS \?= (.*)$", read("Makefile"), re.M)[1].split() == [f"python{each}" for each in listed]  # type: ignore[index]
    assert all(each in read("docs/install.md") for each in listed)


@each_workflow
def test_workflows_call_what_exists(path: Path) -> None:
    workflow: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.M))
    called = 0
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for name in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert name in targets
                called += 1
            for name in re.findall(r"[\w.]+/[\w/]+\.py", step.get("run", "")):
                assert (ROOT / name).exists(), name
                called += 1
    assert called


@each_workflow
def test_actions_are_pinned_to_commits(path: Path) -> None:
    uses = re.findall(r"^ +(?:- )?uses: *(.*)$", path.read_text(encoding="utf-8"), re.M)
    assert uses
    assert [each for each in uses if not re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


@each_workflow
def test_every_job_ends(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert [name for name, job in jobs.items() if not 0 < job.get("timeout-minutes", 0) < 360] == []


def test_what_is_published_was_built_and_tested() -> None:
    workflow = yaml.safe_load(read(".github/workflows/release.yml"))
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"}, "test": {}, "publish": {"id-token": "write"},
    }  # fmt: skip
    assert (jobs["test"]["needs"], jobs["publish"]["needs"]) == ("build", ["build", "test"])
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    (installation,) = (run for run in runs["build"] if "install" in run)
    assert installation.startswith("python -m pip install --require-hashes -r ")
    (compare,) = (step for step in jobs["publish"]["steps"] if "run" in step)  # nothing is installed
    assert not re.search(r"\b(?:pip|npm|make|python)\b", compare["run"])
    assert compare["env"] == {
        "BUILT": "${{ needs.build.outputs.sums }}", "TESTED": "${{ needs.test.outputs.sums }}",
    }  # fmt: skip
    assert 'test "$BUILT" = "$TESTED"' in compare["run"]
    for job in ("test", "publish"):
        assert any('sha256sum --check --strict <<< "$BUILT"' in run for run in runs[job])
    assert jobs["publish"]["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")


def test_what_builds_the_package_is_pinned() -> None:
    names = runpy.run_path(str(ROOT / ".ci" / "requirements.py"))
    found, left = {"hatchling"}, ["hatchling"]
    while left:
        for each in map(Requirement, importlib.metadata.requires(left.pop()) or []):
            if each.name not in found and (each.marker is None or each.marker.evaluate({"extra": ""})):
                found.add(each.name)
                left.append(each.name)
    assert set(names["BUILD"]) == found
    assert [entry.partition("==")[0] for entry in names["pinned"](names["BUILD"])] == sorted(found)
    assert all("--hash=sha256:" in entry for entry in names["pinned"](names["BUILD"]))


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_templates_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    assert [each["type"] in ("markdown", "textarea", "input") for each in form["body"]].count(False) == 0


def test_a_search_finds_sections_with_all_words() -> None:
    pages_found = runpy.run_path(str(ROOT / "docs" / "theme" / "search.py"))["pages_found"]
    sections = [
        {"location": "faq.html#x", "title": "How do I model a charger?", "text": "As a negative cost."},
        {"location": "", "title": "Solvent", "text": "Never exceed a budget."},
    ]
    assert pages_found("charger cost", sections) == {"faq.html"}
    assert pages_found("budget", sections) == {"index.html"}
    assert pages_found("charger budget", sections) == set()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("VENV=some place", 'VENV: expected one path without spaces, found "some place"'),
        ("VENV=", 'VENV: expected one path without spaces, found ""'),
        ("PYTHON=./old", "expected Python 3.11 or newer, found 3.9; name another one: make demo PYTHON=python3.12"),
    ],
)
def test_make_says_what_it_cannot_use(given: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text(
        f"""#!/bin/sh
exec '{sys.executable}' -c "import sys; sys.version_info = (3, 9); exec(sys.argv[1])" "$2"
"""
    )
    (tmp_path / "old").chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    make = ["make", "-f", str(ROOT / "Makefile"), "demo", given]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / ".venv").exists()
