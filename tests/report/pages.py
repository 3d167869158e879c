"""Pages for tests: how to make them, and how to read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import solvent

#: A name that would run code if it were not escaped anywhere.
EVIL = "</script><img src=x onerror=\"window.hacked='{0}'\"><script>window.hacked='{0}'</script>{0}"


@dataclass
class Page(HTMLParser):
    """The elements, the text and the data of a page."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    data: Any = None

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._inside = ""

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = "data" if dict(attrs).get("id") == "data" else tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data = json.loads(data)
        elif self._inside == "script":
            self.scripts.append(data)
        elif not self._inside:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def ids(self) -> set[str]:
        return {attributes["id"] or "" for _, attributes in self.tags if "id" in attributes}


def trips(**options: Any) -> solvent.CMDP:
    """Return a small model with thirds, a floor, and two outcomes."""
    resource = solvent.Resource("fuel", floor=0)
    b = solvent.CMDP.builder(horizon=4, start="home", resources=[resource], budget={"fuel": 3}, name="trips", **options)
    b.add("home", "go", reward=2, outcomes=[(0.5, "away", {"fuel": 1}), (0.5, "away", {"fuel": "4/3"})])
    b.add("home", "rest", reward=0.25, outcomes=[(1, "home", 0)])
    b.add("away", "return", reward=1, outcomes=[(1, "home", {"fuel": "2/3"})])
    b.add("away", "fill", reward=-0.5, outcomes=[(1, "away", {"fuel": -1})])
    return b.build()


def hostile() -> solvent.CMDP:
    """Return a model in which every name and text tries to run code."""

    def evil(name: str) -> str:
        return EVIL.format(name)

    b = solvent.CMDP.builder(
        horizon=3, start=evil("state"), resources=[evil("resource"), "plain"], name=evil("name"),
        description=evil("description"), budget={evil("resource"): 4, "plain": 9},
    )  # fmt: skip
    costs = {evil("resource"): 1, "plain": 2}
    b.add(evil("state"), evil("action"), reward=1, outcomes=[(0.5, evil("other"), costs), (0.5, evil("state"), costs)])
    b.add(evil("state"), "rest", outcomes=[(1, evil("state"), 0)])
    b.add(evil("other"), "\u202eback\u2028", reward=2, outcomes=[(1, evil("state"), {evil("resource"): 2, "plain": 1})])
    return b.build()
