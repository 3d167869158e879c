"""Frames on request: pandas is not a dependency, and is imported only to make one."""

from __future__ import annotations

from typing import Any

from solvent.errors import SolventError


def import_pandas() -> Any:
    """Return the module pandas.

    Raises
    ------
    SolventError
        If it is not installed.
    """
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise SolventError("to_frame: expected pandas, found no such package; pip install 'solvent[pandas]'") from None
    return pandas
