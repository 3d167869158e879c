"""How a run ends: results, errors, interrupts and usage errors, each with its output and exit code.

An error is printed as one readable block, with a traceback only if `--debug` is given.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from solvent.cli.session import ExitCode, Session
from solvent.core.interrupt import settle
from solvent.errors import LimitError, SolventError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def fail(session: Session, error: Exception) -> int:
    """Report an error and return the exit code."""
    from solvent.cli.text import errors

    if session.debug:
        print(printable(traceback.format_exc(), lines=True), file=sys.stderr)
    code = ExitCode.INTERNAL_ERROR
    if isinstance(error, LimitError | MemoryError):
        code = ExitCode.LIMIT
    elif isinstance(error, SolventError):
        code = ExitCode.BAD_INPUT
    session.err.print(errors.error_text(error), soft_wrap=True)
    return _end(session, code, errors.error_record(error))


def finish(
    session: Session, text: RenderableType | None, record: dict[str, Any], code: int, error: SolventError | None
) -> int:
    """Print a result and return the exit code; `error` (an output file that could not be written) is printed after.

    If `text` is None, it was printed before.
    """
    from solvent.cli.text import errors

    if error is None:
        session.print_result(text, record)
        return code
    session.print_result(text, record | {"error": errors.error_record(error), "exit_code": int(ExitCode.BAD_INPUT)})
    sys.stdout.flush()
    session.err.print(errors.error_text(error), soft_wrap=True)
    return ExitCode.BAD_INPUT


def stop(session: Session, message: str = "") -> int:
    """Report that Ctrl-C or SIGTERM ended the run before there was a result, and return the exit code."""
    settle(sys.exception())
    written = session.written()
    names = ", ".join(f"{what} {file['path']}" for what, file in written.items())
    if not message and names:
        message = f"interrupted before the result was printed; written: {names}"
    if not message and session.checkpoint is not None:
        message = f"interrupted: no result yet; the same command goes on from the checkpoint {session.checkpoint}"
    session.err.print(message or "interrupted: no result yet, nothing was written", soft_wrap=True)
    error = {"kind": "Interrupted", "message": "interrupted"}
    return _end(session, session.interrupted_code, error, written=written, interrupted=True)


def usage_error(message: str, path: str, *, as_json: bool, hint: str = "") -> int:
    """Report an invalid command line and return the exit code."""
    from solvent.cli.text import errors

    session = Session(path.split(" ")[-1], as_json=as_json)
    session.err.print(errors.usage_text(message, path, hint), soft_wrap=True)
    return _end(session, ExitCode.BAD_INPUT, {"kind": "UsageError", "message": message, "hint": hint or None})


def _end(session: Session, code: ExitCode, error: dict[str, Any], **facts: Any) -> int:
    if session.as_json:
        session.print_json({"error": error, "exit_code": int(code), **facts})
    return code
