"""The command line: parsing only. What it prints is written in `solvent.show`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from solvent.core.memory import IMPORTS, AddressSpaceError, require_address_space

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 ok, 1 infeasible or violated, 2 bad input, 3 a limit.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the program; those of this process, if not given.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    solvent ...
    0
    """
    try:
        require_address_space(IMPORTS, "Solvent")
        from solvent.cli.app import run

        return run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # pressed before a command was there to deal with it, or after it was done
        print("interrupted", file=sys.stderr)
        return 130
    except AddressSpaceError as error:  # a command reports its own; this is before there is one
        print(f"error: {error}", file=sys.stderr)
        return 3
