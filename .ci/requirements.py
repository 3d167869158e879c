"""Print what the package and some of its extras need, and what builds it, for `pip install -r`.

pip checks hashes of everything or of nothing, and a folder has none: so dependencies are installed by themselves. Older
versions of pip do not look for hashes among constraints: `--pip` prints the one that is needed, with its own. `--build`
prints what builds the package, with hashes, for `pip install --require-hashes -r`.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What builds the package, and what that needs itself.
BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")


def pinned(names: tuple[str, ...]) -> list[str]:
    """Return the entries of some packages in constraints.txt: versions and hashes."""
    entries = re.split(r"\n(?=[A-Za-z])", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    return [entry.strip() for entry in entries if entry.partition("==")[0] in names]


def main(extras: list[str]) -> None:
    """Print the requirements of the package and of some of its extras, or what `--pip` and `--build` stand for."""
    if extras in (["--pip"], ["--build"]):
        print("\n".join(pinned(("pip",) if extras == ["--pip"] else BUILD)))
        return
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    needed = [*settings["build-system"]["requires"], "editables", *project["dependencies"]]
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    print("\n".join(needed))


if __name__ == "__main__":
    main(sys.argv[1:])
