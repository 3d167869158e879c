"""What must hold of every commit on main; `.ci/run` calls this.

The first stages are the commands that the README begins with, as a newcomer types them after cloning the project: in a
fresh clone whose path contains a space and a letter outside ASCII, with an empty home folder, in which only the
cache of downloaded packages is kept. All others run in that clone too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_lines import first_commands
from stages import ALL, ONE, WAITING, Stage, run

ROOT = Path(__file__).parents[1]
#: Slow tests in two parts that take about the same time.
PROCESSES = "tests/cli tests/core tests/bench tests/fuzz"
OTHERS = " ".join(f"--ignore {each}" for each in PROCESSES.split())
#: Tests that run at least, so that it is noticed if most are not found.
LEAST = 9_000


def newcomer(home: Path) -> dict[str, str | None]:
    """Return the variables of a user with an empty home folder, except for the cache of downloads."""
    asked = [sys.executable, "-m", "pip", "cache", "dir"]
    downloads = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    own = [name for name in os.environ if name.startswith(("XDG_", "NUMBA_", "PYTHONPATH", "VIRTUAL_ENV"))]
    return {**dict.fromkeys(own), "HOME": str(home), "PIP_CACHE_DIR": downloads}


def stages(readme: str, home: Path) -> list[Stage]:
    """Return the stages of the check: the first block of the README line by line, then everything else."""
    variables, first = newcomer(home), list[Stage]()
    for line in first_commands(readme):
        first.append(Stage(f"README: {line}", line, ALL, tuple(each.name for each in first), variables=variables))
    ready = (first[-1].name,)
    kernels = {"NUMBA_CACHE_DIR": str(home / ".cache")}  # those that the first stages compiled
    others = [
        Stage("lint", "make lint", ONE, ready),  # before packages are added that mypy would read
        Stage("generic processor", "make test-generic", ONE, ready),
        Stage("extras", "make .venv/.extras browser", ONE, ("lint",), installs=True),
        *(
            Stage(f"slow: {name}", f"make test-slow WORKERS=0 TESTS='{tests}'", ONE, ("extras",))
            for name, tests in (("processes", PROCESSES), ("others", OTHERS))
        ),
        Stage("ray", "make test-ray", WAITING, ("extras",)),
        Stage("kernels", "make test-kernels WORKERS=0", ONE, ("generic processor",)),
        Stage("oldest, set up", "make .venv-oldest/.ready", ONE, ready, installs=True),
        Stage("oldest", "make test-oldest WORKERS=0", ONE, ("oldest, set up",)),
        Stage("peers, set up", "make .venv-peers/.ready", ONE, ready, installs=True),
        Stage("peers", "make test-peers WORKERS=0", ONE, ("peers, set up",)),
        Stage("wheel", "make test-wheel WORKERS=0", ONE, ready),
        Stage("docs", "make docs", ONE, ("slow: others",)),
    ]
    return [*first, *(replace(stage, variables=kernels) for stage in others)]


def main() -> None:
    """Clone the project and run the check in the clone."""
    with tempfile.TemporaryDirectory(prefix="señor solvent ") as name:
        folder, home = Path(name) / "solvent", Path(name) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        if (shared := ROOT.parent / "shared").is_dir():  # cases with known answers, which the project does not own
            (Path(name) / "shared").symlink_to(shared)
        _, ran, _ = run(stages((folder / "README.md").read_text(encoding="utf-8"), home), folder)
        if ran < LEAST:
            raise SystemExit(f"expected at least {LEAST} tests, found {ran} that ran")
        print(f"{ran} tests ran in one stage or more")


if __name__ == "__main__":
    main()
