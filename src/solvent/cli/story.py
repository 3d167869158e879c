"""`demo`: a delivery van, from question to answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solvent.cli.session import Code, Session
from solvent.errors import ModelError, quote

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_MODEL = "delivery-van.yaml"
#: What the demo has written, with the digest of each file: only these does it ever replace.
_LIST = "demo-files.json"
_NAMES = (_MODEL, "van.policy", "frontier.csv", "frontier.png", "spending.png", _LIST)
_EPISODES = 100_000


def demo(
    session: Session,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Where to write.")] = Path("solvent-demo"),
) -> int:
    """Tell a story: a delivery van and its tank."""
    from solvent.cli.text import story

    folder = _Folder(into)
    model = _model()
    tell = story.Teller(session.out, session.say, silent=session.as_json)
    tell.question(model)
    with session.working("planning for a budget kept on average"):
        average = story.play_average(model, _EPISODES)
    tell.average(average)
    with session.working("getting ready"):
        story.get_ready(model)
    with session.working("planning for a budget never broken"):
        certain = story.play_certain(model, _EPISODES)
    tell.certain(model, certain)
    with session.working("pricing every tank"):
        curve = story.price(model)
    tell.price(curve)
    with session.working("drawing"):
        _write(folder, model, certain, curve)
    tell.files(folder.written, into)
    if session.as_json:
        record = story.demo_record(model, average, certain, curve)
        session.print_json(record | {"written": folder.written})
    return Code.OK


def _text() -> bytes:
    from importlib.resources import files

    return files("solvent.cli").joinpath(_MODEL).read_bytes()


def _model() -> CMDP:
    from solvent.formats.files import parse_model
    from solvent.model.cmdp import CMDP

    model = parse_model(_text())
    assert isinstance(model, CMDP)
    return model


def _write(folder: _Folder, model: CMDP, certain: Any, curve: Any) -> None:
    from solvent import plot
    from solvent.cli.text import answers
    from solvent.core.files import write_atomically

    folder.put(_MODEL, lambda path: write_atomically(path, _text()))
    folder.put("van.policy", certain.solution.policy.save)
    folder.put("frontier.csv", lambda path: write_atomically(path, answers.curve_csv(curve).encode()))
    folder.put("frontier.png", lambda path: plot.save(plot.frontier(curve, budget=30), path))
    folder.put("spending.png", lambda path: plot.save(plot.spending(model, certain.solution.policy), path))
    folder.close()


class _Folder:
    """The folder of the demo, in which it replaces only what it wrote itself and nobody has changed since.

    Raises
    ------
    ModelError
        If the folder cannot be made or written, or a file of somebody else's is in the way.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: dict[str, dict[str, Any]] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelError(f"--into {path}", "a folder that can be made", reason) from None
        from solvent.cli.outputs import plan_output

        own = self._own()
        for name in _NAMES:
            plan_output("--into", path / name)
            if (path / name).exists() and name != _LIST and own.get(name) != _digest(path / name):
                raise ModelError(
                    f"--into {path}", "nothing in the way of what the demo writes",
                    f"a file {quote(name)} that it did not write, or that was changed since",
                    "name another folder",
                )  # fmt: skip
        self._before = {name for name in _NAMES if (path / name).exists()}

    def _own(self) -> dict[str, str]:
        """Return the digests of what an earlier demo wrote here."""
        try:
            found = json.loads((self.path / _LIST).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.path / _LIST}", "the list of what a demo wrote", str(error)) from None
        return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        """Write one file, and note it."""
        path = self.path / name
        write(path)
        self.written[name] = {"path": str(path), "bytes": path.stat().st_size, "replaced": name in self._before}

    def close(self) -> None:
        """Write the list of what was written."""
        from solvent.core.files import write_atomically

        digests = {name: _digest(self.path / name) for name in self.written}
        self.put(_LIST, lambda path: write_atomically(path, (json.dumps(digests, indent=1) + "\n").encode()))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
