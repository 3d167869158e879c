"""Arguments that are paths: their type and their suffix, checked in one place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solvent.errors import LocatedError, ModelError, did_you_mean, quote


def read_path(path: Any, where: str, what: str = "a path", error: type[LocatedError] = ModelError) -> Path:
    """Return an argument that is a path.

    Parameters
    ----------
    path : str or os.PathLike
    where : str
        The argument or the function, for messages.
    what : str
        What is expected, for messages.
    error : type of LocatedError
        What to raise.

    Raises
    ------
    LocatedError
        If it is not text or an object with a path of text, is empty, or contains a NUL character.

    Examples
    --------
    >>> read_path("van.html", "report")
    PosixPath('van.html')
    >>> read_path(3, "report", "the path of the page")
    Traceback (most recent call last):
    solvent.errors.ModelError: report: expected the path of the page, found 3; a path is text or a pathlib.Path
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise error(where, what, quote(path), "a path is text or a pathlib.Path")
    if not text or "\0" in text:
        raise error(where, what, quote(text))
    return Path(text)


def check_suffix(
    path: Path,
    suffixes: Sequence[str],
    *,
    where: str = "",
    hint: str = "",
    error: type[LocatedError] = ModelError,
) -> str:
    """Return the suffix of a path in lower case.

    Parameters
    ----------
    path : Path
    suffixes : sequence of str
        Accepted suffixes, in lower case.
    where : str
        The place for messages. Default: the path.
    hint : str
        A hint for messages. Default: a suffix with a similar name, if there is one.
    error : type of LocatedError
        What to raise.

    Raises
    ------
    LocatedError
        If the suffix is another.

    Examples
    --------
    >>> check_suffix(Path("van.HTML"), (".html", ".htm"))
    '.html'
    >>> check_suffix(Path("van.txt"), (".html", ".htm"))
    Traceback (most recent call last):
    solvent.errors.ModelError: van.txt: expected a name ending in .html or .htm, found '.txt'
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        listed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}" if len(suffixes) > 1 else suffixes[0]
        found = quote(path.suffix) if path.suffix else "no ending"
        hint = hint or (did_you_mean(path.suffix, suffixes) if path.suffix else "")
        raise error(where or str(path), f"a name ending in {listed}", found, hint)
    return suffix
