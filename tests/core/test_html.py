"""Fragments of HTML: escaping, lengths, and what is said about rows that are not shown."""

from __future__ import annotations

import pytest

from solvent.core import html


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("\" onload='x'", "&quot; onload=&#x27;x&#x27;"),
        ("a\nb\t c", "a b c"),
        ("\x1b[2J", r"\x1b[2J"),
        (html.Fragment("<b>"), "<b>"),
        (Rude(), "an unprintable Rude"),
        ("x" * 100, "x" * 59 + "…"),
    ],
)
def test_text_is_escaped_and_short(value: object, shown: str) -> None:
    assert html.text(value) == shown


def test_long_integers() -> None:
    assert html.text(10**5000) == "an unprintable int"


def test_tables_have_few_rows() -> None:
    rows = [(i, "<i>") for i in range(1000)]
    shown = html.table(["n", "<name>"], rows, numbers=["n"], total=1000)
    assert shown.count("<tr") == 1 + html.MOST_ROWS
    assert "10 of 1,000 rows" in shown
    assert "<i>" not in shown
    assert "<name>" not in shown
    assert "rows" not in html.table(["n", "name"], rows[:10], total=10)
    assert "the first 10 rows; x.all() has all" in html.table(["n", "name"], iter(rows), rest="x.all() has all")
    assert "rows" not in html.table(["n", "name"], iter(rows[:10]))


def test_rows_that_are_not_shown_are_not_made() -> None:
    made = []

    def rows() -> object:
        for i in range(10**9):
            made.append(i)
            yield (i,)

    html.table(["n"], rows(), most=3)  # type: ignore[arg-type]
    assert len(made) == 4


def test_parts_that_are_not_fragments_are_escaped() -> None:
    assert "&lt;b&gt;" in html.card("Solution", "", "<b>")  # type: ignore[arg-type]
    assert "<b>" not in html.facts([("<b>", "<b>")])
    assert "<b>" not in html.names(["<b>"] * 20)
    assert "<b>" not in html.bar("<b>", 1, 2)


def test_bars() -> None:
    assert "<progress value='3' max='10' " in html.bar("forward", 3, 10)
    assert "<progress value='10' max='10' " in html.bar("forward", 12, 10)
    assert "<progress style" in html.bar("preparing...", None, None)


def test_figures() -> None:
    from matplotlib.figure import Figure

    shown = html.figure(lambda: Figure().add_subplot(), '"><b>')
    assert shown is not None
    assert shown.startswith('<img alt="&quot;&gt;&lt;b&gt;" style=')

    def missing() -> None:
        raise ImportError("no module named 'matplotlib'")

    assert html.figure(missing, "") is None
