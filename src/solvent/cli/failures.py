"""How a run that went wrong ends: one readable block, and an exit code; never a traceback unless asked for."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from solvent.cli.session import Code, Session
from solvent.core.interrupt import settle
from solvent.errors import LimitError, SolventError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def fail(session: Session, error: Exception) -> int:
    """Report an error and return the exit code."""
    from solvent.cli.text import failures

    if session.debug:
        print(printable(traceback.format_exc(), lines=True), file=sys.stderr)
    code = Code.MISTAKE
    if isinstance(error, LimitError | MemoryError):
        code = Code.LIMIT
    elif isinstance(error, SolventError):
        code = Code.BAD_INPUT
    session.err.print(failures.error_text(error), soft_wrap=True)
    return _end(session, code, failures.error_record(error))


def finish(
    session: Session, text: RenderableType, record: dict[str, Any], code: int, error: SolventError | None
) -> int:
    """Print an answer and return the exit code; if a file of it could not be written, say so after it."""
    from solvent.cli.text import failures

    if error is None:
        session.answer(text, record)
        return code
    session.answer(text, record | {"error": failures.error_record(error), "exit_code": int(Code.BAD_INPUT)})
    sys.stdout.flush()
    session.err.print(failures.error_text(error), soft_wrap=True)
    return Code.BAD_INPUT


def stop(session: Session, said: str = "") -> int:
    """Report that Ctrl-C or SIGTERM ended the run before there was an answer, and return the exit code."""
    settle(sys.exception())
    written = session.written()
    names = ", ".join(f"{what} {file['path']}" for what, file in written.items())
    if not said and names:
        said = f"interrupted before the answer was printed; written: {names}"
    session.err.print(said or "interrupted: nothing was found yet, and nothing was written", soft_wrap=True)
    error = {"kind": "Interrupted", "message": "interrupted"}
    return _end(session, session.interrupted_code, error, written=written, interrupted=True)


def misuse(message: str, path: str, *, as_json: bool, hint: str = "") -> int:
    """Report a command line that cannot be read and return the exit code."""
    from solvent.cli.text import failures

    session = Session(path.split(" ")[-1], as_json=as_json)
    session.err.print(failures.usage_text(message, path, hint), soft_wrap=True)
    return _end(session, Code.BAD_INPUT, {"kind": "UsageError", "message": message, "hint": hint or None})


def _end(session: Session, code: Code, error: dict[str, Any], **facts: Any) -> int:
    if session.as_json:
        session.print_json({"error": error, "exit_code": int(code), **facts})
    return code
