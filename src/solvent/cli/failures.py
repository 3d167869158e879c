"""How a run that went wrong ends: one readable block, and an exit code; never a traceback unless asked for."""

from __future__ import annotations

import sys
import traceback

from solvent.cli.session import Code, Session
from solvent.errors import SolventError


def fail(session: Session, error: Exception) -> int:
    """Report an error and return the exit code."""
    from solvent.errors import LimitError
    from solvent.show import failures

    if session.debug:
        traceback.print_exc(file=sys.stderr)
    expected = isinstance(error, SolventError)
    code = Code.LIMIT if isinstance(error, LimitError) else Code.BAD_INPUT if expected else Code.MISTAKE
    if isinstance(error, MemoryError):
        code = Code.LIMIT
    session.err.print(failures.error_text(error), soft_wrap=True)
    if session.as_json:
        session.print_json(failures.error_record(error) | {"exit_code": int(code)})
    return code


def stop(session: Session) -> int:
    """Report that Ctrl-C ended the run before there was anything to show, and return the exit code."""
    session.err.print("interrupted: nothing was found yet, and nothing was written")
    if session.as_json:
        session.print_json({"error": {"message": "interrupted"}, "exit_code": int(Code.INTERRUPTED)})
    return Code.INTERRUPTED


def misuse(message: str, path: str, *, as_json: bool) -> int:
    """Report a command line that cannot be read and return the exit code."""
    from solvent.show import failures

    session = Session(path.split(" ")[-1], as_json=as_json)
    session.err.print(failures.usage_text(message, path), soft_wrap=True)
    if as_json:
        session.print_json({"error": {"message": message}, "exit_code": int(Code.BAD_INPUT)})
    return Code.BAD_INPUT
