"""Fragments of HTML for the display of objects in notebooks: escaped, short, and readable on dark and light pages.

All text is escaped unless it is a `Fragment`. Styles are attributes of the elements, because notebooks remove style
sheets from pages that are not trusted, and colors are shades of the page's own.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, Literal

from solvent.errors import printable, quote

#: Number of characters of a name in a cell, of rows of a table, and of names in a list.
_LONGEST, MOST_ROWS, MOST_NAMES = 60, 10, 8

#: Dots per inch of pictures, and their width on the page in pixels.
_DOTS, _WIDTH = 130, 520
#: Colors of the bar on the left, which can be seen on black and on white.
_TONES = {"good": "#009E73", "doubtful": "#E69F00", "bad": "#D55E00", "plain": "#8C8C8C"}
Tone = Literal["good", "doubtful", "bad", "plain"]

_CELL = "padding:2px 12px 2px 0;border:none;background:none;vertical-align:top"
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"


class Fragment(str):
    """Text that is HTML and is not escaped."""

    __slots__ = ()


def text(value: object, longest: int = _LONGEST) -> Fragment:
    r"""Return a value as one line of escaped text of bounded length; a `Fragment` as it is.

    Examples
    --------
    >>> text("<script>"), text((1, "a")), text("x" * 9, 5)
    ('&lt;script&gt;', '(1, &#x27;a&#x27;)', 'xxxx…')
    """
    if isinstance(value, Fragment):
        return value
    try:
        line = printable(" ".join(str(value).split()))
    except Exception:  # a name of the user's own class, or an integer of more digits than Python prints
        line = quote(value)
    return Fragment(html.escape(line if len(line) <= longest else line[: longest - 1].rstrip() + "…"))


def names(values: Collection[object], most: int = MOST_NAMES) -> Fragment:
    """Return a list of names, of which the first are shown.

    Examples
    --------
    >>> names(["home", "away"]), names(range(100), 3)
    ('home, away', '0, 1, 2, … (100)')
    """
    shown = ", ".join(text(value) for value in islice(values, most))
    return Fragment(shown if len(values) <= most else f"{shown}, … ({len(values):,})")


def facts(rows: Iterable[tuple[str, object]]) -> Fragment:
    """Return a table of labels and values.

    Examples
    --------
    >>> "<b>" in facts([("name", "<b>")])
    False
    """
    body = "".join(
        f'<tr style="background:none"><td style="{_CELL};text-align:left;opacity:.7">{text(label)}</td>'
        f'<td style="{_CELL};text-align:left">{text(value, 4 * _LONGEST)}</td></tr>'
        for label, value in rows
    )
    return Fragment(f'<table style="{_TABLE}">{body}</table>')


_TABLE = "border-collapse:collapse;border:none;margin:4px 0;font-size:inherit"


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    total: int | None = None,
    most: int = MOST_ROWS,
    rest: str = "",
) -> Fragment:
    """Return a table of the first rows.

    Parameters
    ----------
    headings : sequence of str
    rows : iterable of sequences
        Rows beyond `most` are not read, except for one.
    numbers : collection of str
        Headings of columns that are aligned to the right.
    total : int, optional
        Number of all rows, if it is known.
    most : int
        Number of rows that are shown.
    rest : str
        Where all rows are, if some are not shown.

    Examples
    --------
    >>> shown = table(["state", "value"], [(f"s{i}", i) for i in range(50)], numbers=["value"], total=50, most=2)
    >>> shown.count("<tr"), "2 of 50 rows" in shown
    (3, True)
    """
    align = ["right" if heading in numbers else "left" for heading in headings]
    head = "".join(
        f'<th style="{_CELL};{_LINE};text-align:{side};font-weight:600">{text(heading)}</th>'
        for heading, side in zip(headings, align, strict=True)
    )
    waiting = iter(rows)
    body, count = "", 0
    for row in islice(waiting, most):
        cells = zip(row, align, strict=True)
        body += '<tr style="background:none">'
        body += "".join(f'<td style="{_CELL};text-align:{side}">{text(cell)}</td>' for cell, side in cells)
        body, count = body + "</tr>", count + 1
    shown = Fragment(f'<table style="{_TABLE}"><tr style="background:none">{head}</tr>{body}</table>')
    more = total - count if total is not None else int(next(waiting, None) is not None)
    if more <= 0:
        return shown
    line = f"{count:,} of {total:,} rows" if total is not None else f"the first {count:,} rows"
    return Fragment(shown + note(f"{line}; {rest}" if rest else line))


def note(line: object) -> Fragment:
    """Return a line of small text."""
    return Fragment(f'<div style="opacity:.7;font-size:90%">{text(line, 8 * _LONGEST)}</div>')


def card(kind: str, title: object, *parts: Fragment, tone: Tone = "plain") -> str:
    """Return the display of an object: what it is, its title, and parts below.

    Parameters
    ----------
    kind : str
        Such as "Solution".
    title : object
        What stands beside it; may be empty.
    *parts : Fragment
    tone : {"good", "doubtful", "bad", "plain"}
        Color of the bar on the left.

    Examples
    --------
    >>> card("Solution", "optimal", tone="good").count("<div")
    2
    """
    heading = f"<div><strong>{text(kind)}</strong> {text(title, 2 * _LONGEST)}</div>"
    style = f"border-left:3px solid {_TONES[tone]};padding:2px 0 2px 10px;max-width:62em;overflow-x:auto"
    return f'<div class="solvent" style="{style}">{heading}{"".join(map(text, parts))}</div>'


def bar(label: str, done: int | None, total: int | None) -> Fragment:
    """Return a progress bar with a label beside it; one that only moves if it is not known how much is done.

    Examples
    --------
    >>> "value='3' max='10'" in bar("forward: step 3/10", 3, 10)
    True
    """
    known = "" if done is None or not total else f" value='{min(done, total)}' max='{total}'"
    line = text(label, 3 * _LONGEST)
    return Fragment(f"<div><progress{known} style='vertical-align:middle;width:14em'></progress> {line}</div>")


def figure(draw: Callable[[], Any], description: str) -> Fragment | None:
    """Return a small picture of a figure, on white, so that it can be read on dark pages too.

    Parameters
    ----------
    draw : callable
        Returns Matplotlib axes.
    description : str
        Text for those who do not see the picture.

    Returns
    -------
    Fragment or None
        None if Matplotlib cannot be imported.
    """
    try:
        axes = draw()
    except ImportError:
        return None
    png = io.BytesIO()
    axes.figure.savefig(
        png, format="png", dpi=_DOTS, bbox_inches="tight", facecolor="white", metadata={"Software": None}
    )
    source = base64.b64encode(png.getvalue()).decode("ascii")
    style = f"width:{_WIDTH}px;max-width:100%;border-radius:3px;margin:4px 0"
    return Fragment(f'<img alt="{text(description, 300)}" style="{style}" src="data:image/png;base64,{source}">')
