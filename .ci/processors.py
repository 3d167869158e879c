"""Check that answers do not depend on the processor: the same bits with kernels for this one and for a generic one.

`python -m fuzz.digests` prints a digest of each answer to some hundred random problems, which use every kernel. Kernels
for a generic processor also check the bounds of arrays, as in `make test-kernels`, so that both use the same ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path


def digests(**variables: str) -> list[str]:
    """Return the lines that the program prints with these environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.digests"], cwd=Path(__file__).parents[1], env={**os.environ, **variables},
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def main() -> None:
    """Compare the answers; exit with 1 if any differs."""
    here, generic = digests(), digests(NUMBA_CPU_NAME="generic", NUMBA_BOUNDSCHECK="1")
    differing = [
        f"{one} (this processor), {other} (generic)" for one, other in zip_longest(here, generic) if one != other
    ]
    if differing:
        raise SystemExit("answers that depend on the processor:\n" + "\n".join(differing))
    print(f"{len(here)} answers are the same with kernels for this processor and for a generic one")


if __name__ == "__main__":
    main()
