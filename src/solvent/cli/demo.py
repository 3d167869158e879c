"""`demo`: a guided example, a delivery van and its fuel tank."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent import examples
from solvent.cli.session import ExitCode, Session
from solvent.errors import ModelError, quote

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_EXAMPLE = "delivery-van"
_MODEL = f"{_EXAMPLE}.yaml"
#: Lists the files that the demo has written, each with its digest: the demo replaces only these.
_LIST = "demo-files.json"
_NAMES = (_MODEL, "van.policy", "frontier.csv", "frontier.png", "spending.png", _LIST)
_EPISODES = 100_000


def demo(
    session: Session,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Output folder.")] = Path("solvent-demo"),
) -> int:
    """Run a guided example: a delivery van and its tank."""
    from solvent.cli.text import demo as text

    folder = _Folder(into)
    model = _model()
    sections = text.DemoText(session.out, session.print_text, silent=session.as_json)
    sections.problem(model)
    with session.working("solving for a budget kept on average"):
        average = text.solve_average(model, _EPISODES)
    sections.average(average)
    with session.working("compiling kernels"):
        text.compile_kernels(model)
    with session.working("solving for a budget never exceeded"):
        safe = text.solve_safe(model, _EPISODES)
    sections.safe(model, safe)
    with session.working("computing the frontier"):
        curve = text.compute_frontier(model)
    sections.frontier(curve)
    with session.working("drawing"):
        _write(folder, model, safe, curve)
    sections.files(folder.written, into)
    if session.as_json:
        record = text.demo_record(model, average, safe, curve)
        session.print_json(record | {"written": folder.written})
    return ExitCode.OK


def _text() -> bytes:
    return examples.path(_EXAMPLE).read_bytes()


def _model() -> CMDP:
    return examples.load(_EXAMPLE)


def _write(folder: _Folder, model: CMDP, safe: Any, curve: Any) -> None:
    from solvent import plot
    from solvent.cli.text import results
    from solvent.core.files import write_atomically

    folder.write(_MODEL, lambda path: write_atomically(path, _text()))
    folder.write("van.policy", safe.solution.policy.save)
    folder.write("frontier.csv", lambda path: write_atomically(path, results.curve_csv(curve).encode()))
    folder.write("frontier.png", lambda path: plot.save(plot.frontier(curve, budget=30), path))
    folder.write("spending.png", lambda path: plot.save(plot.spending(model, safe.solution.policy), path))
    folder.close()


class _Folder:
    """The output folder of the demo. Files are replaced only if an earlier demo wrote them and they are unchanged.

    Raises
    ------
    ModelError
        If the folder cannot be created or written, or contains another file of the same name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: dict[str, dict[str, Any]] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelError(f"--into {path}", "a folder that can be created", reason) from None
        from solvent.cli.outputs import plan_output

        own = self._own()
        for name in _NAMES:
            plan_output("--into", path / name)
            if (path / name).exists() and name != _LIST and own.get(name) != _digest(path / name):
                raise ModelError(
                    f"--into {path}", "no other files with the names of the demo's files",
                    f"a file {quote(name)} that the demo did not write, or that was changed since",
                    "choose another folder",
                )  # fmt: skip
        self._before = {name for name in _NAMES if (path / name).exists()}

    def _own(self) -> dict[str, str]:
        """Return the digests of the files that an earlier demo wrote here, by name."""
        try:
            found = json.loads((self.path / _LIST).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.path / _LIST}", "the list of files of an earlier demo", str(error)) from None
        return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Write one file and record it in `written`."""
        path = self.path / name
        write(path)
        self.written[name] = {"path": str(path), "bytes": path.stat().st_size, "replaced": name in self._before}

    def close(self) -> None:
        """Write the list of files."""
        from solvent.core.files import write_atomically

        digests = {name: _digest(self.path / name) for name in self.written}
        self.write(_LIST, lambda path: write_atomically(path, (json.dumps(digests, indent=1) + "\n").encode()))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
