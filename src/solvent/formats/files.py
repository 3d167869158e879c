"""Load and save models. The suffix of a file decides its format (`solvent.formats.registry`). No file can run code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from solvent.core.files import read_plain, write_atomically
from solvent.core.loading import LoadLimits, check_limit, loading
from solvent.core.paths import read_path
from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.formats.programs import ProgramOptions
from solvent.formats.registry import FORMATS, FileFormat, find_format, format_named, format_of, suffixes_text
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel, DiscountedCMDP
from solvent.model.resources import ResourceLike

if TYPE_CHECKING:
    from solvent.core.exact import Number
    from solvent.formats.transition_systems import TransitionSystem


@overload
def load_model(
    path: str | Path,
    *,
    discounted: Literal[False] = False,
    limits: LoadLimits | None = None,
    constants: Mapping[str, Number | bool] | None = None,
    costs: Sequence[ResourceLike] | str | None = None,
    reward: str | None = None,
    horizon: int | None = None,
    goal: str | None = None,
) -> CMDP: ...


@overload
def load_model(path: str | Path, *, discounted: Literal[True], limits: LoadLimits | None = None) -> DiscountedCMDP: ...


@overload
def load_model(
    path: str | Path,
    *,
    discounted: bool | None,
    limits: LoadLimits | None = None,
    constants: Mapping[str, Number | bool] | None = None,
    costs: Sequence[ResourceLike] | str | None = None,
    reward: str | None = None,
    horizon: int | None = None,
    goal: str | None = None,
) -> AnyModel: ...


def load_model(
    path: str | Path,
    *,
    discounted: bool | None = False,
    limits: LoadLimits | None = None,
    constants: Mapping[str, Number | bool] | None = None,
    costs: Sequence[ResourceLike] | str | None = None,
    reward: str | None = None,
    horizon: int | None = None,
    goal: str | None = None,
) -> AnyModel:
    """Load a model from a file.

    Its suffix decides the format: .yaml, .yml, .json or .npz, or the format of a model checker: .prism, .nm, .pm, .sm,
    .jani, .drn or .umb. The latter need the extra `storm`, and the last five arguments are for them.

    Parameters
    ----------
    path : str or Path
        A regular file.
    discounted : bool or None
        Kind of model to load. False: a model with a horizon, a `CMDP`. True: a model with a discount, a
        `DiscountedCMDP`. None: either.
    limits : LoadLimits, optional
        Limits on the size of the file and on the time it takes to load. See `solvent.LoadLimits` for the defaults.
    constants : dict of str to number or bool, optional
        Values of the undefined constants of a program.
    costs : sequence of str or Resource, optional
        Reward structures of a program that are costs. Each becomes a resource of the same name. A reward structure
        without a name is called "unnamed".
    reward : str, optional
        Reward structure to maximize; "-time" minimizes the structure "time". Required if there are reward structures
        besides the costs and there is no goal.
    horizon : int, optional
        Number of steps; required for a program.
    goal : str, optional
        Label of the states in which every episode must end.

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
    SolventError
        If stormpy is needed but not installed.

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
    path = read_path(path, "load_model", "the path of a model file")
    options = ProgramOptions.of(constants, costs, reward, horizon, goal)
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
            model = _check_kind(_guarded(file_format.read, content, options), discounted)
            if file_format.is_program and isinstance(model, CMDP):
                return replace(model, name=path.stem)
            return model
        except ModelError as error:
            raise error.within(str(path)) from None


def parse_model(
    content: str | bytes,
    format: str = "yaml",
    *,
    limits: LoadLimits | None = None,
    options: ProgramOptions | None = None,
) -> AnyModel:
    """Return the model in the content of a file.

    Parameters
    ----------
    content : str or bytes
        Content of a file.
    format : str
        Name of the format, as in `solvent.formats.registry`.
    limits : LoadLimits, optional
        As in `load_model`.
    options : ProgramOptions, optional
        Costs, reward and horizon, for the formats of model checkers.

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
        return _guarded(file_format.read, data, options)


def save_model(model: AnyModel, path: str | Path) -> None:
    """Write a model to a file in the format of its suffix; the same as `model.save(path)`.

    The file is replaced as a whole; if writing fails, an existing file stays as it was.

    Raises
    ------
    ModelError
        If the suffix is unknown, the file cannot be written, or the format cannot hold a name or a distribution.
    """
    path = read_path(path, "save", "the path of a model file")
    for each, content in writable_format(path).write_files(model, path).items():
        write_atomically(each, content)


def save_system(system: TransitionSystem, path: str | Path) -> None:
    """Write a transition system to a file in the format of a model checker, by its suffix.

    Raises
    ------
    ModelError
        If the suffix is unknown, or the file cannot be written.
    """
    path = read_path(path, "save", "the path of a model file")
    file_format = find_format(path)
    if file_format is None or not (file_format.is_program and file_format.writes):
        listed = [each.suffixes[0] for each in FORMATS if each.is_program and each.writes]
        found = quote(path.suffix) if path.suffix else "no ending"
        raise ModelError(str(path), f"a name ending in {', '.join(listed[:-1])} or {listed[-1]}", found)
    for each, content in file_format.encode_files(system, path).items():
        write_atomically(each, content)


def writable_format(path: Path) -> FileFormat:
    """Return the format in which a model is written to a file.

    Raises
    ------
    ModelError
        If the suffix is unknown, or files of that format are only read.
    """
    file_format = find_format(path)
    if file_format is None or not file_format.writes:
        found = quote(path.suffix) if path.suffix else "no ending"
        hint = "" if file_format is None else f"{file_format.name.upper()} files can only be read"
        raise ModelError(str(path), f"a name ending in {suffixes_text(usual=False, writing=True)}", found, hint)
    return file_format


def _check_kind(model: AnyModel, discounted: bool | None) -> AnyModel:
    if discounted is None or isinstance(model, DiscountedCMDP) == discounted:
        return model
    if discounted:
        raise ModelError("discount", "a model with a discount", "a model with a horizon", "pass discounted=False")
    raise ModelError("discount", "a model with a horizon", "a model with a discount", "pass discounted=True")


def _guarded(
    read: Callable[[bytes, ProgramOptions | None], AnyModel], content: bytes, options: ProgramOptions | None
) -> AnyModel:
    try:
        return read(content, options)
    except RecursionError:
        raise ModelError("file", "a model", "a structure nested too deeply") from None
    except MemoryError:
        raise ModelError("file", "a model that fits into memory", "a larger one") from None


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
