"""Print what the package and some of its extras need, and what builds it, for `pip install -r`.

pip checks hashes of everything or of nothing, and a folder has none: so dependencies are installed by themselves. Older
versions of pip do not look for hashes among constraints: `--pip` prints the one that is needed, with its own.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(extras: list[str]) -> None:
    """Print one requirement a line."""
    if extras == ["--pip"]:
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        print(next(entry for entry in re.split(r"\n(?=[A-Za-z])", pins) if entry.startswith("pip==")))
        return
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    needed = [*settings["build-system"]["requires"], "editables", *project["dependencies"]]
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    print("\n".join(needed))


if __name__ == "__main__":
    main(sys.argv[1:])
