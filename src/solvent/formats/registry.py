"""The registry of file formats for models.

To add a format, write a module in this package and add a line to `FORMATS`. The module has two functions:

    read(content: bytes) -> CMDP | DiscountedCMDP     raises ModelError if the content is not a valid model
    write(model: CMDP | DiscountedCMDP) -> bytes      raises ModelError if the format cannot hold the model

It may have a third, `read_resources(content: bytes) -> list[str]`, which returns the names of the resources without
building the model; shell completion uses it. Modules are imported when they are first used.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.errors import ModelError, quote

if TYPE_CHECKING:
    from solvent.model.discounted import AnyModel


@dataclass(frozen=True)
class FileFormat:
    """A file format for models.

    Attributes
    ----------
    name : str
        Name of the format.
    suffixes : tuple of str
        File suffixes in lower case; the usual one first.
    module : str
        Module with the functions `read` and `write`.
    is_text : bool
        Whether files are text. Decides which size limit of `solvent.LoadLimits` applies.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    is_text: bool

    @property
    def size_limit(self) -> str:
        """Field of `solvent.LoadLimits` that limits the size of a file."""
        return "text_bytes" if self.is_text else "file_bytes"

    def read(self, content: bytes) -> AnyModel:
        """Return the model in the content of a file."""
        model: AnyModel = self._module().read(content)
        return model

    def write(self, model: AnyModel) -> bytes:
        """Return the content of a file that holds a model."""
        content: bytes = self._module().write(model)
        return content

    def read_resources(self, content: bytes) -> list[str]:
        """Return the names of the resources of a model, if possible without building the model."""
        module = self._module()
        if hasattr(module, "read_resources"):
            return list(module.read_resources(content))
        return list(self.read(content).resources)

    def _module(self) -> Any:
        return importlib.import_module(self.module)


#: All formats, in the order in which messages list them.
FORMATS = (
    FileFormat("yaml", (".yaml", ".yml"), "solvent.formats.yaml", is_text=True),
    FileFormat("json", (".json",), "solvent.formats.json", is_text=True),
    FileFormat("npz", (".npz",), "solvent.formats.npz", is_text=False),
)


def model_suffixes() -> tuple[str, ...]:
    """Return all file suffixes of models.

    Examples
    --------
    >>> model_suffixes()
    ('.yaml', '.yml', '.json', '.npz')
    """
    return tuple(suffix for each in FORMATS for suffix in each.suffixes)


def suffixes_text(*, usual: bool = True) -> str:
    """Return a list of file suffixes for a message.

    Parameters
    ----------
    usual : bool
        If True, list only the usual suffix of each format.

    Examples
    --------
    >>> suffixes_text(), suffixes_text(usual=False)
    ('.yaml, .json or .npz', '.yaml, .yml, .json or .npz')
    """
    listed = [each.suffixes[0] for each in FORMATS] if usual else list(model_suffixes())
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def find_format(path: Path) -> FileFormat | None:
    """Return the format of a file by its suffix; None if no format has it."""
    suffix = path.suffix.lower()
    return next((each for each in FORMATS if suffix in each.suffixes), None)


def format_of(path: Path) -> FileFormat:
    """Return the format of a file by its suffix.

    Raises
    ------
    ModelError
        If no format has the suffix.
    """
    found = find_format(path)
    if found is not None:
        return found
    suffix = path.suffix.lower()
    hint = "solvent.load_policy reads policies" if suffix == ".policy" else ""
    if suffix == ".py" or suffix.startswith(".py:"):
        call = path if ":" in path.name else f"{path}:make_model"
        hint = "loading never runs code; to write the model of a function to a file, run: "
        hint += f"solvent convert {call} model.yaml"
    shown = quote(path.suffix) if path.suffix else "a folder" if path.is_dir() else "no ending"
    raise ModelError(str(path), f"a file ending in {suffixes_text(usual=False)}", shown, hint)


def format_named(name: str) -> FileFormat:
    """Return the format of a name.

    Raises
    ------
    ModelError
        If there is no format of that name.
    """
    for each in FORMATS:
        if each.name == name:
            return each
    raise ModelError("format", f"one of {', '.join(each.name for each in FORMATS)}", quote(name))
