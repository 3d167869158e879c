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
    "tests/cli tests/core tests/formats tests/policy tests/test_docs.py tests/test_effort.py tests/test_project.py"
)

#: A copy of the search path without some programs, in the folder $bin.
WITHOUT = """
bin=$(mktemp -d); trap 'rm -rf "$bin"' EXIT
IFS=:; for folder in $PATH; do ln -s "$folder"/* "$bin" 2>/dev/null || true; done; unset IFS
cd "$bin"; rm -f {programs}; cd - >/dev/null
"""
#: A read-only view of the checkout, which only the stage sees; its environment is elsewhere.
READ_ONLY = """
place=$(mktemp -d); trap 'rm -rf "$place"' EXIT
here=$PWD
unshare --mount --map-root-user bash -euc "
    mount --bind '$here' '$here' && mount -o remount,bind,ro '$here' && cd '$here'
    ! touch here 2>/dev/null
    make test VENV=$place/venv TESTS='{tests}'"
"""
#: Without any network but the machine's own.
OFFLINE = """
unshare --net --map-root-user bash -euc "
    python3 - <<'END'
import fcntl, socket, struct
with socket.socket() as any_socket:  # what `ip link set lo up` does
    fcntl.ioctl(any_socket, 0x8914, struct.pack('16sh14x', b'lo', 0x49))
END
    make test TESTS='{tests}'"
"""


def circumstances() -> list[Stage]:
    """Return a stage for each circumstance under which tests must pass too."""
    test = f"make test TESTS='{OUTSIDE}'"
    git, compiler = "git git-*", "cc gcc gcc-* c89* c99* *-gcc* clang* *-linux-gnu-cpp* tcc"
    commands = {
        "through a link": f'place=$(mktemp -d); ln -s "$PWD" "$place/link"; cd "$place/link"; {test}; rm -r "$place"',
        "no HOME": f"env -u HOME {test}",
        "no git": WITHOUT.format(programs=git) + f"PATH=$bin; ! command -v git; {test}",
        "no compiler": WITHOUT.format(programs=compiler) + f"PATH=$bin; ! command -v cc gcc; {test}",
        "LC_ALL=C": f"LC_ALL=C {test}",
        "time zones": f"TZ=Pacific/Chatham {test}; TZ=XYZ-13:37 {test}",
        "umask 077": f"umask 077; {test}",
        "no network": OFFLINE.format(tests=OUTSIDE),
        "read-only": READ_ONLY.format(tests=OUTSIDE),
    }
    return [Stage(name, command.strip(), ALL) for name, command in commands.items()]


def stages() -> list[Stage]:
    """Return all stages."""
    return [
        Stage("everything", "make test TESTS='--everything -m \"slow or not slow\" --ignore tests/cluster'", ALL),
        Stage("ray", "make test TESTS='--everything -n 0 -m \"slow or not slow\" tests/cluster'", ONE),
        Stage(
            "environments", f"{_python()} -m bench.environments --again --records out/nightly/environments.jsonl", ONE
        ),
        Stage("kills", f"{_python()} -m bench.kills --count 30", ONE),
        Stage("fuzz", f"{_python()} -m fuzz --minutes 10", ALL),
        *circumstances(),
    ]


def _python() -> str:
    return shlex.quote(sys.executable)


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
