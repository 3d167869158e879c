"""Load and save models. The suffix of a file decides its format (`solvent.formats.registry`). No file can run code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, overload

from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import LoadLimits, check_limit, loading
from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.formats.registry import find_format, format_named, format_of, suffixes_text
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel, DiscountedCMDP


@overload
def load_model(path: str | Path, *, discounted: Literal[False] = False, limits: LoadLimits | None = None) -> CMDP: ...


@overload
def load_model(path: str | Path, *, discounted: Literal[True], limits: LoadLimits | None = None) -> DiscountedCMDP: ...


@overload
def load_model(path: str | Path, *, discounted: bool | None, limits: LoadLimits | None = None) -> AnyModel: ...


def load_model(path: str | Path, *, discounted: bool | None = False, limits: LoadLimits | None = None) -> AnyModel:
    """Load a model from a file. Its suffix decides the format: .yaml, .yml, .json or .npz.

    Parameters
    ----------
    path : str or Path
        A regular file.
    discounted : bool or None
        Kind of model to load. False: a model with a horizon, a `CMDP`. True: a model with a discount, a
        `DiscountedCMDP`. None: either.
    limits : LoadLimits, optional
        Limits on the size of the file and on the time it takes to load. See `solvent.LoadLimits` for the defaults.

    Returns
    -------
    CMDP or DiscountedCMDP
        The model.

    Raises
    ------
    ModelError
        If the file does not exist, does not hold a valid model, or holds a model of the other kind. The message names
        the field.
    LoadLimitError
        If a limit is exceeded.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from solvent.model import instances
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "knapsack.yaml"
    ...     instances.knapsack([3, 4], ["1/3", 3], capacity=4).save(file)
    ...     load_model(file).budget
    {'weight': Budget(4)}
    """
    if not isinstance(path, str | Path):
        raise ModelError("load_model", "the path of a model file", quote(path))
    path = Path(path)
    with loading(limits):
        file_format = format_of(path)
        try:
            content = read_plain(path, file_format.size_limit)
        except FileNotFoundError:
            hint = did_you_mean(path.name, _names_beside(path))
            raise ModelError(str(path), "a model file", "no such file", hint) from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(str(path), "a model file that can be read", reason) from None
        except MemoryError:
            raise ModelError(str(path), "a model that fits into memory", "a larger file") from None
        try:
            return _check_kind(_guarded(file_format.read, content), discounted)
        except ModelError as error:
            raise error.within(str(path)) from None


def parse_model(content: str | bytes, format: str = "yaml", *, limits: LoadLimits | None = None) -> AnyModel:
    """Return the model in the content of a file.

    Parameters
    ----------
    content : str or bytes
        Content of a file.
    format : str
        Name of the format, as in `solvent.formats.registry`.
    limits : LoadLimits, optional
        As in `load_model`.

    Raises
    ------
    ModelError
        If the content is not a valid model.
    LoadLimitError
        If a limit is exceeded.

    Examples
    --------
    >>> parse_model('''{solvent: 1, horizon: 1, start: a, rows: [{state: a, action: go,
    ...     outcomes: [{probability: 1, next: a}]}]}''')
    CMDP(horizon 1, 1 states, 1 actions, 1 rows, 1 outcomes, stationary, resources [])
    """
    file_format = format_named(format)
    with loading(limits):
        try:
            data = content.encode() if isinstance(content, str) else content
        except UnicodeEncodeError as error:
            found = quote(str(content)[error.start : error.end])
            raise ModelError("file", "text that UTF-8 can hold", found) from None
        check_limit(file_format.size_limit, len(data), "bytes of text" if file_format.is_text else "bytes")
        return _guarded(file_format.read, data)


def save_model(model: AnyModel, path: str | Path) -> None:
    """Write a model to a file in the format of its suffix; the same as `model.save(path)`.

    The file is replaced as a whole; if writing fails, an existing file stays as it was.

    Raises
    ------
    ModelError
        If the suffix is unknown, the file cannot be written, or the format cannot hold a name or a distribution.
    """
    path = Path(path)
    file_format = find_format(path)
    if file_format is None:
        found = quote(path.suffix) if path.suffix else "no ending"
        raise ModelError(str(path), f"a name ending in {suffixes_text(usual=False)}", found)
    write_atomically(path, file_format.write(model))


def _check_kind(model: AnyModel, discounted: bool | None) -> AnyModel:
    if discounted is None or isinstance(model, DiscountedCMDP) == discounted:
        return model
    if discounted:
        raise ModelError("discount", "a model with a discount", "a model with a horizon", "pass discounted=False")
    raise ModelError("discount", "a model with a horizon", "a model with a discount", "pass discounted=True")


def _guarded(read: Callable[[bytes], AnyModel], content: bytes) -> AnyModel:
    try:
        return read(content)
    except RecursionError:
        raise ModelError("file", "a model", "a structure nested too deeply") from None
    except MemoryError:
        raise ModelError("file", "a model that fits into memory", "a larger one") from None


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
