"""Consoles that escape control characters: names come from files, and terminals execute control characters."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from solvent.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

#: Characters that JSON does not escape and terminals may execute: DEL, C1, separators, marks of direction, surrogates.
_NOT_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def make_console(**options: Any) -> Console:
    r"""Return a rich console that prints text literally: no markup, and control characters as escapes.

    Parameters
    ----------
    **options
        Options of `rich.console.Console`.

    Examples
    --------
    >>> make_console(color_system=None).print("[b]home[/] \x1b]52;c;aGk=\x07")
    [b]home[/] \x1b]52;c;aGk=
    """
    console: Console = _console_class()(**{"markup": False, "highlight": False, "emoji": False, **options})
    return console


@cache
def _console_class() -> Any:
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        """Escapes the text of each segment, except control segments, which come from rich itself."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, lines=True), segment.style)

    return PlainConsole


def escape_json(text: str) -> str:
    r"""Return JSON text in which characters that control a terminal are escaped.

    Examples
    --------
    >>> print(escape_json('{"name": "a\x9b"}'))
    {"name": "a\u009b"}
    """
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
