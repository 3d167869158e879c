"""Files that people meet before the code: versions, links, templates and workflows agree with the package."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import solvent

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
URLS: dict[str, str] = PROJECT["urls"]
REPOSITORY, SITE = URLS["Repository"], URLS["Documentation"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Text files that may name the repository or the site.
TEXTS = [
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.*"), ROOT / "CITATION.cff",
    ROOT / "mkdocs.yml", ROOT / "pyproject.toml",
]  # fmt: skip


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
    assert (citation["repository-code"], citation["url"]) == (REPOSITORY, SITE)


def target(address: str) -> Path | None:
    """Return the file of this repository that an address of the repository or the site shows; None for others."""
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com") + "/main/"
    for start in (f"{REPOSITORY}/blob/main/", f"{REPOSITORY}/tree/main/", raw):
        if address.startswith(start):
            return ROOT / address.removeprefix(start).partition("#")[0]
    workflow = re.match(re.escape(REPOSITORY) + r"/actions/workflows/([\w.]+)", address)
    if workflow:
        return ROOT / ".github" / "workflows" / workflow[1]
    if address.startswith(SITE):
        page = address.removeprefix(SITE).partition("#")[0] or "index.html"
        return ROOT / "docs" / Path(page).with_suffix(".md")
    return None


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_addresses_of_the_project_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    owner = re.escape(REPOSITORY.rsplit("/", 2)[1])
    for address in re.findall(rf"https://[\w.]*{owner}[\w./-]*|https://[\w.]+/{owner}[\w./#-]*", text):
        assert address.startswith((REPOSITORY, SITE, "https://raw.githubusercontent.com/"))
        file = target(address.rstrip("."))
        assert file is None or file.exists(), address


def test_a_wrong_address_is_found() -> None:
    assert not target(f"{REPOSITORY}/blob/main/NOTHING.md").exists()  # type: ignore[union-attr]
    assert not target(f"{SITE}nothing.html").exists()  # type: ignore[union-attr]
    assert target(f"{SITE}install.html#windows") == ROOT / "docs" / "install.md"
    assert target("https://img.shields.io/pypi/v/solvent") is None


def test_links_of_the_readme_work_on_the_package_index() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 15
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_readme_starts_with_an_installation_and_one_more_command() -> None:
    first = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)[0]
    assert first == ("sh", "pip install solvent\nsolvent demo\n")


def test_versions_of_python_agree() -> None:
    listed = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)]
    assert PROJECT["requires-python"] == f">={listed[0]}"
    assert f"{listed[0]}\nto {listed[-1]}" in README
    jobs = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == listed
    assert re.search(r"^PYTHONS \?= (.*)$", read("Makefile"), re.M)[1].split() == [f"python{each}" for each in listed]  # type: ignore[index]
    assert all(each in read("docs/install.md") for each in listed)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
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


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_templates_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert [link["url"].startswith("https://") for link in form["contact_links"]] == [True, True]
    else:
        assert form["name"]
        assert form["description"]
        assert [each["type"] in ("markdown", "textarea", "input") for each in form["body"]].count(False) == 0


def test_the_commands_of_a_page_are_found() -> None:
    commands = runpy.run_path(str(ROOT / ".ci" / "wheel.py"))["commands"]
    page = "```sh\npip install solvent\nsolvent demo  # a comment\nsolvent verify a b  # ends with 1\n```\n"
    assert commands(page) == [("solvent demo", 0), ("solvent verify a b", 1)]
    assert commands(README) == [("solvent demo", 0)]


def test_a_search_finds_sections_with_all_words() -> None:
    pages_found = runpy.run_path(str(ROOT / "docs" / "theme" / "search.py"))["pages_found"]
    sections = [
        {"location": "faq.html#x", "title": "How do I model a charger?", "text": "As a negative cost."},
        {"location": "", "title": "Solvent", "text": "Never exceed a budget."},
    ]
    assert pages_found("charger cost", sections) == {"faq.html"}
    assert pages_found("budget", sections) == {"index.html"}
    assert pages_found("charger budget", sections) == set()
