"""The registry of file formats for models.

To add a format, write a module in this package and add a line to `FORMATS`. The module has two functions:

    read(content: bytes) -> CMDP | DiscountedCMDP     raises ModelError if the content is not a valid model
    write(model: CMDP | DiscountedCMDP) -> bytes      raises ModelError if the format cannot hold the model

It may have a third, `read_resources(content: bytes) -> list[str]`, which returns the names of the resources without
building the model; shell completion uses it. A format of several files has, instead of `write`, a function
`write_files(model, path)`, which returns the content of each file. Modules are imported when they are first used.

The file of a *program* states a transition system, of which the caller selects the costs, the reward and the horizon:
`read` then takes a `ProgramOptions` as its second argument. Its module also has `encode(system)`, which `write` calls.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.errors import ModelError, quote
from solvent.formats.programs import ProgramOptions

if TYPE_CHECKING:
    from solvent.formats.transition_systems import TransitionSystem
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
    is_program : bool
        Whether files state a transition system, in the format of a model checker.
    reads, writes : bool
        Whether files can be read and written.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    is_text: bool
    is_program: bool = False
    reads: bool = True
    writes: bool = True

    @property
    def size_limit(self) -> str:
        """Field of `solvent.LoadLimits` that limits the size of a file."""
        return "text_bytes" if self.is_text else "file_bytes"

    def read(self, content: bytes, options: ProgramOptions | None = None) -> AnyModel:
        """Return the model in the content of a file.

        Raises
        ------
        ModelError
            If the content is not a valid model, or there are options although the file is not a program.
        """
        model: AnyModel
        if self.is_program:
            model = self._module().read(content, options or ProgramOptions())
            return model
        if options is not None and options.given:
            expected = f"no such argument for {self.name.upper()} files, which state it themselves"
            raise ModelError(options.given[0], expected, quote(getattr(options, options.given[0])))
        model = self._module().read(content)
        return model

    def write(self, model: AnyModel) -> bytes:
        """Return the content of a file that holds a model."""
        content: bytes = self._module().write(model)
        return content

    def write_files(self, model: AnyModel, path: Path) -> dict[Path, bytes]:
        """Return the content of each file that holds a part of a model: of `path`, and of files beside it."""
        module = self._module()
        if not hasattr(module, "write_files"):
            return {path: self.write(model)}
        files: dict[Path, bytes] = module.write_files(model, path)
        return files

    def encode_files(self, system: TransitionSystem, path: Path) -> dict[Path, bytes]:
        """Return the content of each file that holds a part of a transition system; for programs only."""
        module = self._module()
        if not hasattr(module, "encode_files"):
            return {path: module.encode(system)}
        files: dict[Path, bytes] = module.encode_files(system, path)
        return files

    def read_resources(self, content: bytes) -> list[str]:
        """Return the names of the resources of a model, if possible without building the model."""
        module = self._module()
        if hasattr(module, "read_resources"):
            return list(module.read_resources(content))
        if self.is_program:
            return []
        return list(self.read(content).resources)

    def _module(self) -> Any:
        return importlib.import_module(self.module)


#: All formats, in the order in which messages list them.
FORMATS = (
    FileFormat("yaml", (".yaml", ".yml"), "solvent.formats.yaml", is_text=True),
    FileFormat("json", (".json",), "solvent.formats.json", is_text=True),
    FileFormat("npz", (".npz",), "solvent.formats.npz", is_text=False),
    FileFormat("prism", (".prism", ".nm", ".pm", ".sm"), "solvent.formats.prism", is_text=True, is_program=True),
    FileFormat("jani", (".jani",), "solvent.formats.jani", is_text=True, is_program=True, writes=False),
    FileFormat("drn", (".drn",), "solvent.formats.drn", is_text=True, is_program=True),
    FileFormat("umb", (".umb",), "solvent.formats.umb", is_text=False, is_program=True),
    FileFormat("explicit", (".tra",), "solvent.formats.explicit", is_text=True, is_program=True, reads=False),
)

#: Formats that hold all of a model, and give it back unchanged.
DOCUMENTS = tuple(each for each in FORMATS if not each.is_program)


def model_suffixes(*, writing: bool = False) -> tuple[str, ...]:
    """Return the file suffixes of models that can be read, or of those that can be written.

    Examples
    --------
    >>> model_suffixes()
    ('.yaml', '.yml', '.json', '.npz', '.prism', '.nm', '.pm', '.sm', '.jani', '.drn', '.umb')
    """
    return tuple(suffix for each in FORMATS if _can(each, writing) for suffix in each.suffixes)


def suffixes_text(*, usual: bool = True, writing: bool = False) -> str:
    """Return a list of file suffixes for a message.

    Parameters
    ----------
    usual : bool
        If True, list only the usual suffix of each format.
    writing : bool
        If True, list formats that can be written instead of those that can be read.

    Examples
    --------
    >>> suffixes_text()
    '.yaml, .json, .npz, .prism, .jani, .drn or .umb'
    >>> suffixes_text(writing=True)
    '.yaml, .json, .npz, .prism, .drn, .umb or .tra'
    """
    listed = list(model_suffixes(writing=writing))
    if usual:
        listed = [each.suffixes[0] for each in FORMATS if _can(each, writing)]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def _can(each: FileFormat, writing: bool) -> bool:
    return each.writes if writing else each.reads


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
    if found is not None and found.reads:
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
