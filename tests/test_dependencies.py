"""Dependencies: every one has a hash, and the oldest that are tested are the oldest that are allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.M)


def pins(name: str) -> dict[str, Version]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return {canonicalize_name(package): Version(version) for package, version in PIN.findall(text)}


def needed(*extras: str) -> dict[str, Requirement]:
    listed = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    found = {canonicalize_name(each.name): each for each in map(Requirement, listed)}
    return {name: each for name, each in found.items() if name != "solvent"}  # extras may name other extras


def test_every_dependency_is_pinned_with_hashes() -> None:
    pinned = pins("constraints.txt")
    for name, requirement in needed(*PROJECT["optional-dependencies"]).items():
        assert requirement.specifier.contains(pinned[name]), name
    for entry in re.split(r"\n(?=[A-Za-z])", (ROOT / "constraints.txt").read_text(encoding="utf-8"))[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
        assert "://" not in entry


def test_the_extras_of_users_are_documented() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in set(PROJECT["optional-dependencies"]) - {"bench", "docs", "dev"}:
        assert f"`.[{extra}]`" in text, extra


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    oldest = pins("oldest.txt")
    requirements = needed("pettingzoo")
    assert set(oldest) == set(requirements)
    for name, requirement in requirements.items():
        (bound,) = [each.version for each in requirement.specifier if each.operator == ">="]
        assert oldest[name] == Version(bound), name
