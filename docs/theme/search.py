"""A MkDocs hook: the build fails if the search of the site does not find what readers look for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: What readers type, and the page that must be among those found.
QUERIES = {
    "charger": "faq.html",
    "terminal reward": "faq.html",
    "cite": "citing.html",
    "install windows": "install.html",
    "prism": "formats.html",
    "never exceed": "index.html",
    "delivery-van": "gallery.html",
}


def pages_found(query: str, sections: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the pages with a section that contains every word of a query, as a part of a word or whole.

    Examples
    --------
    >>> pages_found("a charger", [{"location": "faq.html#x", "title": "A <b>charger</b>", "text": ""}])
    {'faq.html'}
    """
    words = query.lower().split()
    found = set()
    for section in sections:
        text = f"{section['title']} {section['text']}".lower()
        if all(word in text for word in words):
            found.add(section["location"].partition("#")[0] or "index.html")
    return found


def on_post_build(config: Any) -> None:
    """Raise an error if a query does not find its page in the index of the finished site."""
    from mkdocs.exceptions import PluginError  # the tests read this file without MkDocs

    index = json.loads((Path(config.site_dir) / "search" / "search_index.json").read_text(encoding="utf-8"))
    for query, page in QUERIES.items():
        if page not in (found := pages_found(query, index["docs"])):
            raise PluginError(f"search for {query!r}: expected {page}, found {', '.join(sorted(found)) or 'nothing'}")
