"""The command line: commands and their options. The text that commands print is in `solvent.cli.text`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from solvent.cli.signals import OUTSIDE, interrupted_texts
from solvent.core.memory import IMPORTS, require_address_space
from solvent.errors import AddressSpaceError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 ok, 1 no policy or violated, 2 bad input, 3 limit reached.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command-line arguments without the program name. Default: those of this process.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    solvent ...
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments is None:  # this process is the program
            OUTSIDE.handle("--json" in given)
        require_address_space(IMPORTS, "Solvent")
        from solvent.cli.app import run

        code = run(given)
    except KeyboardInterrupt:  # in another program, before a command could handle it
        code = 128 + signal.SIGINT
        out, err = interrupted_texts(code, "--json" in given)
        sys.stdout.write(out)
        sys.stderr.write(err)
    except AddressSpaceError as error:  # raised before any command runs; commands report their own errors
        code = 3
        print(f"error: {error}", file=sys.stderr)
    if arguments is None:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """Ignore further signals, so that the exit code matches what was printed."""
    OUTSIDE.ignore()
    interrupt = sys.modules.get("solvent.core.interrupt")
    if interrupt is not None and interrupt.runs_aside():  # native code in a thread, which Python's shutdown would crash
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
