"""A MkDocs hook: a page that would load anything from another machine does not get built."""

from __future__ import annotations

import re
from typing import Any

#: Elements that a browser fetches by itself; a link that a reader may follow is no such thing.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)\s*=\s*[\"']?(?P<src>(?:https?:)?//[^\s\"'>]+)"
    r"|<link\b[^>]*?\bhref\s*=\s*[\"']?(?P<href>(?:https?:)?//[^\s\"'>]+)",
    re.I,
)


def remote_parts(html: str) -> list[str]:
    """Return the addresses elsewhere that a browser would fetch to show this page.

    Examples
    --------
    >>> remote_parts('<a href="https://elsewhere.org">read</a> <img src="images/van.png">')
    []
    >>> remote_parts('<script async src="//elsewhere.org/x.js"></script>')
    ['//elsewhere.org/x.js']
    """
    return [match["src"] or match["href"] for match in _FETCHED.finditer(html)]


def on_post_page(output: str, /, *, page: Any, config: Any) -> str:
    """Refuse a finished page that is not whole by itself."""
    from mkdocs.exceptions import PluginError  # the tests read this file without MkDocs

    if found := remote_parts(output):
        raise PluginError(f"{page.file.src_path}: expected a page that loads nothing from elsewhere, found {found[0]}")
    return output
