"""A MkDocs hook: the build fails if a page would load anything from another host."""

from __future__ import annotations

import re
from typing import Any

#: Elements that a browser fetches automatically, unlike links that a reader may follow or that name another page.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)\s*=\s*[\"']?(?P<src>(?:https?:)?//[^\s\"'>]+)"
    r"|<link\b(?![^>]*\brel\s*=\s*[\"']?(?:canonical|prev|next|alternate)\b)[^>]*?\bhref\s*=\s*[\"']?(?P<href>(?:https?:)?//[^\s\"'>]+)",
    re.I,
)


def remote_parts(html: str) -> list[str]:
    """Return the addresses on other hosts that a browser would fetch to show this page.

    Examples
    --------
    >>> remote_parts('<a href="https://elsewhere.org">read</a> <img src="images/van.png">')
    []
    >>> remote_parts('<script async src="//elsewhere.org/x.js"></script>')
    ['//elsewhere.org/x.js']
    """
    return [match["src"] or match["href"] for match in _FETCHED.finditer(html)]


def on_post_page(output: str, /, *, page: Any, config: Any) -> str:
    """Raise an error if a finished page would load something from another host."""
    from mkdocs.exceptions import PluginError  # the tests read this file without MkDocs

    if found := remote_parts(output):
        raise PluginError(
            f"{page.file.src_path}: expected a page that loads nothing from other hosts, found {found[0]}"
        )
    return output
