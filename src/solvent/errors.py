"""The exceptions of Solvent; all errors that it raises on purpose are subclasses of `SolventError`.

A message says where the problem is, what was expected and what was found, so that it can be fixed without reading the
code that raised it.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Any, Self, overload

#: Longest representation of a value in a message.
_LONGEST_QUOTE = 80
#: Number of known names that a misspelled name is compared with.
_MOST_COMPARED = 10_000
#: Longer names are not compared with others, because the time for that grows with the square of their length.
_LONGEST_COMPARED = 100

#: Control characters (C0, DEL, C1), line and paragraph separators, marks that change the direction of text, and lone
#: surrogates.
_HOSTILE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROLS = re.compile(f"[{_HOSTILE}]")
_CONTROLS_BUT_NEWLINE = re.compile(f"(?!\n)[{_HOSTILE}]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with control characters replaced by escapes, so that a terminal shows and does not execute them.

    Names and titles come from files. Some control characters move the cursor, write to the clipboard, or display text
    in another order. All text that Solvent prints passes through this function.

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
    """Base of errors that say where the problem is, what was expected and what was found.

    Parameters
    ----------
    where : str
        The place: a state and action, an argument, or a file and the path of a field in it.
    expected : str
        What is valid there.
    found : str
        What was found instead.
    hint : str
        How to fix it, if that is not obvious.

    Examples
    --------
    >>> print(ModelError("horizon", "a whole number of at least 1", "2.5"))
    horizon: expected a whole number of at least 1, found 2.5
    """

    @overload
    def __init__(self, where: str, expected: str, found: str, hint: str = "") -> None: ...

    @overload
    def __init__(self, where: LocatedError) -> None: ...

    def __init__(self, where: Any, expected: str = "", found: str = "", hint: str = "") -> None:
        if isinstance(where, LocatedError):  # Gymnasium raises type(error)(error) for an error of another process
            where, expected, found, hint = where.args
        self.where: str = where
        self.expected, self.found, self.hint = expected, found, hint
        super().__init__(where, expected, found, hint)

    def __str__(self) -> str:
        text = f"{self.where}: expected {self.expected}, found {self.found}"
        return printable(f"{text}; {self.hint}" if self.hint else text)

    def within(self, place: str) -> Self:
        """Return the same error with an enclosing place (a file, a field) put before `where`."""
        separator = "" if self.where.startswith("[") else ": "
        return type(self)(place + separator + self.where, self.expected, self.found, self.hint)


class ModelError(LocatedError):
    """A model, or an argument of a function, is not valid."""


class BudgetError(ModelError):
    """A budget does not fit its model or is not a number."""


class LatticeOverflowError(SolventError, OverflowError):
    """The costs and limits of a resource have no common unit in which all sums fit 64-bit integers."""


class LimitError(SolventError):
    """A limit on time, memory or size was reached before there was a result."""


class LoadLimitError(ModelError, LimitError):
    """Loading a file would exceed a limit on time, memory or size; see `solvent.LoadLimits`."""


class PolicyError(LocatedError):
    """A policy has no decision, does not fit its model, or is used in the wrong order."""


class NodeLimitError(PolicyError, LimitError):
    """A verification would visit more nodes than `max_nodes`."""


class AddressSpaceError(LimitError, MemoryError):
    """The limits of the process (`ulimit -v`) leave too little address space to continue safely."""


class ProgramError(SolventError):
    """A linear program was not solved to its tolerance."""


class UnmodeledOutcome(PolicyError):  # noqa: N818
    """An observed outcome is not in the model, so that its guarantees no longer hold.

    Parameters
    ----------
    step : int
    state, action : hashable
        The state and the action taken.
    observed : str
        The observed outcome.
    possible : tuple of str
        The outcomes that the model allows.
    """

    def __init__(
        self,
        step: Any,
        state: Hashable = None,
        action: Hashable = None,
        observed: str = "",
        possible: tuple[str, ...] = (),
    ) -> None:
        if isinstance(step, UnmodeledOutcome):  # as in `LocatedError`
            step, state, action, observed, possible = step.__reduce__()[1]
        self.step: int = step
        self.state, self.action, self.observed, self.possible = state, action, observed, possible
        shown = " or ".join(possible[:6]) + (f" or {len(possible) - 6} more" if len(possible) > 6 else "")
        super().__init__(f"step {step}, state {quote(state)}, action {quote(action)}", shown, observed)

    def __reduce__(self) -> tuple[type[UnmodeledOutcome], tuple[Any, ...], dict[str, object]]:
        return type(self), (self.step, self.state, self.action, self.observed, self.possible), dict(self.__dict__)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the computation continues, and the next checkpoint is tried again."""


def quote(value: object) -> str:
    """Return the representation of `value` for a message, cut to 80 characters."""
    try:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    except Exception:  # an error in __repr__ must not hide the message
        text = f"an unprintable {type(value).__name__}"
    text = printable(text)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def looks_misspelled(name: str, known: str) -> bool:
    """Return whether one of two names is probably a misspelling of the other; names that differ by number are not.

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
    """Return "did you mean 'x'?" for the known name of which a name is likely a misspelling, or an empty string.

    A quarter of the letters may be wrong, missing, superfluous or exchanged with their neighbors, at least one; upper
    and lower case are the same. A name that continues a known one, or is its beginning, is also close. Names that
    differ in their numbers only are not misspellings of each other.

    Examples
    --------
    >>> did_you_mean("feul", ["fuel", "risk"])
    "did you mean 'fuel'?"
    >>> did_you_mean("paths", ["batch"]), did_you_mean("s12", ["s1", "s2"])
    ('', '')
    """
    try:
        wanted = str(name)
    except Exception:  # too many digits, a list that is nested too deeply, an error in __str__
        return ""
    if len(wanted) > _LONGEST_COMPARED:
        return ""
    wanted = wanted.casefold()
    by_text: dict[str, object] = {}
    for other in itertools.islice(known, _MOST_COMPARED):
        by_text.setdefault(str(other).casefold(), other)
    texts = [text for text in by_text if len(text) <= _LONGEST_COMPARED]
    similar = difflib.get_close_matches(wanted, texts, n=10, cutoff=0.4)
    close = [text for text in similar if _is_misspelled(wanted, text)]
    return f"did you mean {quote(by_text[min(close, key=lambda text: _edits(wanted, text))])}?" if close else ""


_DIGITS = re.compile(r"\d+")


def _is_misspelled(name: str, known: str) -> bool:
    """Whether a name is likely a misspelling of a known one; both in one case."""
    if _DIGITS.search(name) and _DIGITS.search(known) and _DIGITS.sub("0", name) == _DIGITS.sub("0", known):
        return name == known
    longest = max(len(name), len(known))
    if name.startswith(known) or known.startswith(name):
        return 2 * min(len(name), len(known)) >= longest
    return _edits(name, known) <= max(1, longest // 4)


def _edits(first: str, second: str) -> int:
    """Return the least number of letters to change, add, leave out or exchange with their neighbors."""
    before: list[int] = []
    last = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        now = [i]
        for j, other in enumerate(second, 1):
            best = min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                best = min(best, before[j - 2] + 1)
            now.append(best)
        before, last = last, now
    return last[-1]
