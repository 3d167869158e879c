"""The exception tree: everything Solvent raises on purpose is a `SolventError`.

A message says where, what was expected and what was found, so that it can be acted on without reading the
code that raised it.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Self

_LONGEST_QUOTE = 80
_MOST_COMPARED = 10_000
#: Longer names are not compared with others: the time this takes grows with the square of their length.
_LONGEST_COMPARED = 100

#: Control characters (C0, DEL, C1), line and paragraph separators, marks that change the direction of text, and halves
#: of surrogate pairs.
_HOSTILE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROLS = re.compile(f"[{_HOSTILE}]")
_CONTROLS_BUT_NEWLINE = re.compile(f"(?!\n)[{_HOSTILE}]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text that a terminal shows and does not obey: control characters are written as escapes.

    Names and titles come from files. Some control characters move the cursor, write to the clipboard, or make text
    read in another order than it has. Everything that Solvent prints passes through here.

    Parameters
    ----------
    text : str
    lines : bool
        If True, keep newlines.

    Examples
    --------
    >>> print(printable("home\x1b[2J"), printable("a\nb"), printable("a\u202eb"))
    home\x1b[2J a\nb a\u202eb
    """
    if text.isprintable():
        return text
    return (_CONTROLS_BUT_NEWLINE if lines else _CONTROLS).sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
    code = ord(character)
    return named.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


class SolventError(Exception):
    """Base of all errors raised by Solvent."""

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class LocatedError(SolventError, ValueError):
    """Base of errors that say where, what was expected and what was found.

    Parameters
    ----------
    where : str
        The place: a state and action, or a file and the path of a field in it.
    expected : str
        What would have been right there.
    found : str
        What stood there instead.
    hint : str
        What to do about it, where that is not obvious.

    Examples
    --------
    >>> print(ModelError("horizon", "a whole number of at least 1", "2.5"))
    horizon: expected a whole number of at least 1, found 2.5
    """

    def __init__(self, where: str, expected: str, found: str, hint: str = "") -> None:
        self.where, self.expected, self.found, self.hint = where, expected, found, hint
        super().__init__(where, expected, found, hint)

    def __str__(self) -> str:
        text = f"{self.where}: expected {self.expected}, found {self.found}"
        return printable(f"{text}; {self.hint}" if self.hint else text)

    def within(self, place: str) -> Self:
        """Return the same error, seen from further out (a file, an enclosing field)."""
        separator = "" if self.where.startswith("[") else ": "
        return type(self)(place + separator + self.where, self.expected, self.found, self.hint)


class ModelError(LocatedError):
    """Something a user stated about a problem does not hold together."""


class BudgetError(ModelError):
    """A budget that does not fit its model or is not a number."""


class LatticeOverflowError(SolventError, OverflowError):
    """The costs and limits of a resource have no common unit in which all sums fit 64-bit integers."""


class LimitError(SolventError):
    """A limit of time, memory or size was reached before there was anything to return."""


class LoadLimitError(ModelError, LimitError):
    """A file that asks for more than may be spent on loading one; see `solvent.LoadLimits`."""


class PolicyError(LocatedError):
    """A policy has no answer, does not fit its model, or is used out of turn."""


class NodeLimitError(PolicyError, LimitError):
    """A check would have to look at more nodes than it may."""


class UnmodeledOutcome(PolicyError):  # noqa: N818
    """What was observed is impossible in the model, so its guarantees have ended.

    Parameters
    ----------
    step : int
    state, action : hashable
        Where, and what was done.
    observed : str
        What came of it.
    possible : tuple of str
        What the model allows there.
    """

    def __init__(self, step: int, state: Hashable, action: Hashable, observed: str, possible: tuple[str, ...]) -> None:
        self.step, self.state, self.action, self.observed, self.possible = step, state, action, observed, possible
        shown = " or ".join(possible[:6]) + (f" or {len(possible) - 6} more" if len(possible) > 6 else "")
        super().__init__(f"step {step}, state {quote(state)}, action {quote(action)}", shown, observed)

    def __reduce__(self) -> tuple[type[UnmodeledOutcome], tuple[object, ...], dict[str, object]]:
        return type(self), (self.step, self.state, self.action, self.observed, self.possible), dict(self.__dict__)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the work goes on, and the next one is tried again."""


def quote(value: object) -> str:
    """Return `value` for a message: its repr, cut to a length that can be read."""
    try:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    except Exception:  # a foreign __repr__ must not replace the message it was meant for
        text = f"an unprintable {type(value).__name__}"
    text = printable(text)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def looks_misspelled(name: str, known: str) -> bool:
    """Whether two different names are so close that one is likely a slip; numbered names are not.

    Examples
    --------
    >>> looks_misspelled("hmoe", "home"), looks_misspelled("stop1", "stop2"), looks_misspelled("end", "home")
    (True, False, False)
    """
    if max(len(name), len(known)) > _LONGEST_COMPARED:
        return False
    letters, others = (re.sub(r"\d", "", text).casefold() for text in (name, known))
    if letters == others:
        return False
    return sorted(letters) == sorted(others) or difflib.SequenceMatcher(None, letters, others).ratio() > 0.87


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return "did you mean 'x'?" for the closest known name, or an empty string.

    Examples
    --------
    >>> did_you_mean("feul", ["fuel", "risk"])
    "did you mean 'fuel'?"
    """
    try:
        wanted = str(name)
    except Exception:  # a number of too many digits, a list that is too deep, a foreign __str__
        return ""
    if len(wanted) > _LONGEST_COMPARED:
        return ""
    by_text = {str(other): other for other in itertools.islice(known, _MOST_COMPARED)}
    close = difflib.get_close_matches(wanted, [text for text in by_text if len(text) <= _LONGEST_COMPARED], n=1)
    return f"did you mean {quote(by_text[close[0]])}?" if close else ""
