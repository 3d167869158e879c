"""HTML as text: everything that comes from a model is escaped here, in markup and in JSON.

Markup that is already escaped is `Markup`; plain text becomes markup by `escape` only.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NewType

from solvent.errors import printable

#: Text that is safe to put between tags.
Markup = NewType("Markup", str)
#: Characters that could end a script element or begin markup, and line separators that older scripts cannot read.
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def shown(name: Hashable) -> str:
    r"""Return a name as text without control characters.

    Examples
    --------
    >>> shown("a\tb"), shown((1, 2))
    ('a\\tb', '(1, 2)')
    """
    return printable(str(name))


def escape(text: object) -> Markup:
    """Return plain text as markup.

    Examples
    --------
    >>> escape("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return Markup(html.escape(shown(str(text)), quote=True))


def tag(name: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """Return an element; attributes are escaped, and `class_` and `for_` are written without the underscore.

    Examples
    --------
    >>> tag("p", escape("a < b"), class_="note", hidden=True)
    '<p class="note" hidden>a &lt; b</p>'
    """
    parts = []
    for key, value in attributes.items():
        label = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {label}")
        elif value not in (None, False):
            parts.append(f' {label}="{escape(value)}"')
    return Markup(f"<{name}{''.join(parts)}>{''.join(children)}</{name}>")


def join(parts: Iterable[Markup], separator: str = "") -> Markup:
    """Return markup in a row."""
    return Markup(separator.join(parts))


def paragraph(text: str, class_: str | None = None) -> Markup:
    """Return a paragraph of plain text."""
    return tag("p", escape(text), class_=class_)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Markup]],
    *,
    label: str,
    numbers: Sequence[int] = (),
    stacked: bool = True,
) -> Markup:
    """Return a table in a box that scrolls if the page is narrow.

    Parameters
    ----------
    headings : sequence of str
    rows : iterable of sequences of markup
        The first cell of each is its heading.
    label : str
        What the table is about, for screen readers.
    numbers : sequence of int
        Columns that are aligned to the right.
    stacked : bool
        Whether a narrow page shows each row as a list of its cells, without those that are empty or a dash. If not, its
        first column stays in place while the others scroll.
    """

    def style(column: int) -> str | None:
        return "number" if column in numbers else None

    head = tag("tr", *(tag("th", escape(each), scope="col", class_=style(i)) for i, each in enumerate(headings)))

    def cell(column: int, content: Markup) -> Markup:
        if not column:
            return tag("th", content, scope="row", class_=style(column), data_label=headings[column])
        empty = "yes" if content in ("", "–") else None
        return tag("td", content, class_=style(column), data_label=headings[column], data_empty=empty)

    body = [tag("tr", *(cell(i, each) for i, each in enumerate(row))) for row in rows]
    caption = tag("caption", escape(label), class_="unseen")
    whole = tag("table", caption, tag("thead", head), tag("tbody", *body), class_="stacked" if stacked else "plain")
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def facts(pairs: Iterable[tuple[str, Markup]], wide: str = "") -> Markup:
    """Return a list of names and their values; the one named `wide` takes two columns."""
    parts = (
        tag("div", tag("dt", escape(name)), tag("dd", value), class_="wide" if name == wide else None)
        for name, value in pairs
    )
    return tag("dl", *parts, class_="facts")


def to_json(data: Any) -> Markup:
    r"""Return data as JSON that is safe inside a script element.

    Examples
    --------
    >>> print(to_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
