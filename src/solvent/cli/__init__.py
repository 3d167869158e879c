"""The command line: parsing only. What it prints is written in `solvent.plot`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence

from solvent.core.memory import IMPORTS, require_address_space
from solvent.errors import AddressSpaceError

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
    given = list(sys.argv[1:] if arguments is None else arguments)
    interrupted = 130

    def end(number: int, frame: object) -> None:
        nonlocal interrupted
        interrupted = 143
        raise KeyboardInterrupt

    if arguments is None:  # this process is the program
        signal.signal(signal.SIGTERM, end)
    try:
        require_address_space(IMPORTS, "Solvent")
        from solvent.cli.app import run

        code = run(given)
    except KeyboardInterrupt:  # pressed before a command was there to deal with it, or after it was done
        code = interrupted
        print("interrupted", file=sys.stderr)
        if "--json" in given:
            error = {"kind": "Interrupted", "message": "interrupted"}
            print(json.dumps({"error": error, "exit_code": code, "written": {}, "interrupted": True}, indent=1))
    except AddressSpaceError as error:  # a command reports its own; this is before there is one
        code = 3
        print(f"error: {error}", file=sys.stderr)
    if arguments is None:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """Let nothing change how the process ends, now that it has said how it went."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    interrupt = sys.modules.get("solvent.core.interrupt")
    if interrupt is not None and interrupt.runs_aside():  # foreign code, which would not survive what Python takes down
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
