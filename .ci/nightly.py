"""What takes too long for every commit; `make nightly` calls this, and the last line sums it up.

All random problems, losses of Ray workers and nodes, third-party environments, processes that are killed, ten minutes
of fuzzing; and some tests under circumstances that differ from those of most machines.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from stages import ALL, ONE, Stage, run

ROOT = Path(__file__).parents[1]
#: Tests of whatever depends on files, programs, processes, the terminal or the clock.
OUTSIDE = (
    "tests/cli tests/core tests/formats/test_files.py tests/policy/test_policy_files.py tests/test_project.py "
    "tests/test_docs.py"
)
#: All tests, and all random problems.
EVERYTHING = "--everything -m 'slow or not slow'"

THROUGH_A_LINK = """
place=$(mktemp -d); trap 'rm -rf "$place"' EXIT
ln -s "$PWD" "$place/link"; cd "$place/link"; make test
"""
#: The search path is a folder with links to all programs but some.
WITHOUT = """
bin=$(mktemp -d); trap 'rm -rf "$bin"' EXIT
IFS=:; for folder in $PATH; do ln -s "$folder"/* "$bin" 2>/dev/null || true; done; unset IFS
(cd "$bin"; rm -f {programs})
PATH=$bin; if command -v {program}; then exit 1; fi; make test
"""
#: The processes of this stage see the checkout read-only; the environment is elsewhere.
READ_ONLY = """
export VENV=$(mktemp -d); trap 'rm -rf "$VENV"' EXIT
unshare --mount --map-root-user bash -euc '
    mount --bind "$PWD" "$PWD"; mount -o remount,bind,ro "$PWD"; cd "$PWD"
    if touch here 2>/dev/null; then exit 1; fi
    make test'
"""
#: The processes of this stage have a network of their own, with nothing but localhost, which must be set up first.
OFFLINE = """
unshare --net --map-root-user bash -euc '
    python3 -c "import fcntl, socket, struct
with socket.socket() as made: fcntl.ioctl(made, 0x8914, struct.pack(\\"16sh14x\\", b\\"lo\\", 0x49))"
    make test'
"""


def stages() -> list[Stage]:
    """Return all stages; the last ones are circumstances under which tests must pass too."""
    python, outside = shlex.quote(sys.executable), {"TESTS": OUTSIDE}
    circumstances = {
        "through a link": THROUGH_A_LINK,
        "no HOME": "unset HOME; make test",
        "no git": WITHOUT.format(program="git", programs="git git-*"),
        "no compiler": WITHOUT.format(program="cc", programs="cc *gcc* c89* c99* clang* tcc"),
        "LC_ALL=C": "LC_ALL=C make test",
        "time zones": "TZ=Pacific/Chatham make test; TZ=XYZ-13:37 make test",
        "umask 077": "umask 077; make test",
        "no network": OFFLINE,
        "read-only": READ_ONLY,
    }
    return [
        Stage("everything", "make test", ALL, variables={"TESTS": f"{EVERYTHING} --ignore tests/cluster"}),
        Stage("fuzz", f"{python} -m fuzz --minutes 10 --jobs 1", ONE),
        Stage("ray", "make test WORKERS=0", ONE, variables={"TESTS": f"{EVERYTHING} tests/cluster"}),
        Stage("environments", f"{python} -m bench.environments --again --records out/nightly/environments.jsonl", ONE),
        Stage("kills", f"{python} -m bench.kills --small --count 100", ONE),
        *(Stage(name, command.strip(), ALL, variables=outside) for name, command in circumstances.items()),
    ]


def main() -> None:
    """Run all stages, and print the commit, what was done, and the seconds that it took."""
    began = time.monotonic()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    done, ran, skipped = run(stages(), ROOT)
    print(
        f"nightly: commit {commit}, {len(done)} stages passed, {ran} tests run, {skipped} skipped in all stages, "
        f"{time.monotonic() - began:.0f} seconds"
    )


if __name__ == "__main__":
    main()
