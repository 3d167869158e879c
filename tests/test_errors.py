"""Suggestions for misspelled names: made where they are close, and nowhere else."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvent.errors import _edits, did_you_mean

WORDS = st.text("abcde", max_size=6)


def fewest_edits(first: str, second: str) -> int:
    """The same number by definition: the best of all ways to treat the first letters."""

    @cache
    def rest(i: int, j: int) -> int:
        if i == len(first) or j == len(second):
            return len(first) - i + len(second) - j
        ways = [rest(i + 1, j + 1) + (first[i] != second[j]), rest(i + 1, j) + 1, rest(i, j + 1) + 1]
        if first[i : i + 2] == second[j : j + 2][::-1] and len(first[i : i + 2]) == 2:
            ways.append(rest(i + 2, j + 2) + 1)
        return min(ways)

    return rest(0, 0)


@given(WORDS, WORDS)
def test_edits(first: str, second: str) -> None:
    assert _edits(first, second) == _edits(second, first) == fewest_edits(first, second)


@given(st.text("abcdefgh", min_size=4, max_size=12), st.data())
def test_one_mistake_is_recognized(known: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(known) - 2))
    changed, added = known[:at] + "z" + known[at + 1 :], known[:at] + "z" + known[at:]
    exchanged = known[:at] + known[at + 1] + known[at] + known[at + 2 :]
    for name in (changed, added, exchanged, known[:at] + known[at + 1 :], known.upper()):
        assert did_you_mean(name, ["xyzzy", known]) == f"did you mean {known!r}?"


@given(st.text("abcdefgh", min_size=1, max_size=9), st.lists(st.text("abcdefgh", min_size=1, max_size=9), max_size=5))
def test_nothing_far_off_is_suggested(name: str, known: list[str]) -> None:
    found = did_you_mean(name, known)
    assume(found)
    suggested = found.removeprefix("did you mean '").removesuffix("'?")
    assert suggested in known
    longest = max(len(name), len(suggested))
    continued = name.startswith(suggested) or suggested.startswith(name)
    assert continued or fewest_edits(name, suggested) <= max(1, longest // 4)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("paths", "batch"),
        ("s12", "s1"),
        (17, 1),
        ("(0, 11)", "(0, 1)"),
        ("risk", "disc"),
        ("gadget", "budget"),
        ("x", "y"),
    ],
)
def test_other_names_are_not_suggested(name: object, known: object) -> None:
    assert did_you_mean(name, [known]) == ""


def test_the_closest_name_is_suggested() -> None:
    assert did_you_mean("abcdefba", ["abcdefab", "bbcdefbb"]) == "did you mean 'abcdefab'?"
    assert did_you_mean("Fuel", ["fuels", "fuel"]) == "did you mean 'fuel'?"
    assert did_you_mean("van2.yaml", ["van.yaml", "van3.yaml"]) == "did you mean 'van.yaml'?"
