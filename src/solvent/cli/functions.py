"""Models from Python functions named on the command line: `model.py:make_model`.

This runs the user's own code, on explicit request only. Model files never run code.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from solvent.cli.environments import assignments, read_value
from solvent.core.files import read_plain
from solvent.errors import ModelError, SolventError, did_you_mean, quote
from solvent.model.cmdp import CMDP
from solvent.model.discounted import AnyModel, DiscountedCMDP

_SOURCE = re.compile(r"(?P<path>.+\.py):(?P<function>[^:/\\]*)", re.IGNORECASE | re.DOTALL)
#: Name under which the file is imported, so that its `if __name__ == "__main__"` does not run.
_MODULE = "solvent_model_source"


def split_source(text: str) -> tuple[Path, str] | None:
    """Return the file and the function of a source such as `model.py:make_model`; None for a model file.

    Examples
    --------
    >>> split_source("robot.py:make_model")[1], split_source("robot.py"), split_source("van.yaml")
    ('make_model', None, None)
    """
    found = _SOURCE.fullmatch(text)
    if found is None or Path(text).is_file():
        return None
    return Path(found["path"]), found["function"]


def read_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return arguments of a function: whole and decimal numbers, true, false and none; anything else is text.

    Examples
    --------
    >>> read_settings(["size=6", "slip=0.1", "cost=1/3", "title=small grid", "wet=true"])
    {'size': 6, 'slip': 0.1, 'cost': '1/3', 'title': 'small grid', 'wet': True}
    """
    found: dict[str, Any] = {}
    for name, value in assignments(texts, "--set", "size=6").items():
        read = read_value(value)
        finite = isinstance(read, int) or (isinstance(read, float) and math.isfinite(read))
        found[name] = read if finite or read is None else value
    return found


def make_model(path: Path, name: str, settings: Mapping[str, Any]) -> AnyModel:
    """Run a Python file, call one of its functions, and return the model that it returns.

    What the code prints goes to standard error, as standard output is for the result of the command.

    Raises
    ------
    ModelError
        If there is no such file or function, the code raises an exception, the arguments do not fit, or the function
        does not return a model.
    """
    place = f"{path}:{name}"
    code = _compile(path, name)
    with contextlib.redirect_stdout(sys.stderr), _importable(path) as module:
        with _reported(str(path), "a Python file that runs"):
            exec(code, module.__dict__)
        function = getattr(module, name, None)
        if not callable(function):
            known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            found = "no such function" if function is None else f"{quote(function)}"
            raise ModelError(place, "a function that returns a model", found, did_you_mean(name, known))
        _check_arguments(place, function, settings)
        with _reported(place, "a function that returns a model"):
            model = function(**settings)
    if isinstance(model, CMDP | DiscountedCMDP):
        return model
    hint = "return builder.build()" if hasattr(model, "build") else ""
    found = "nothing" if model is None else quote(model)
    raise ModelError(place, "a function that returns a CMDP or a DiscountedCMDP", found, hint)


def _compile(path: Path, name: str) -> Any:
    """Return the code of a file, after checking that it defines the function, as far as that can be seen."""
    try:
        content = read_plain(path, "text_bytes")
    except FileNotFoundError:
        names = [each.name for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ModelError(str(path), "a Python file", "no such file", did_you_mean(path.name, names)) from None
    except SolventError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(str(path), "a Python file that can be read", reason) from None
    try:
        tree = ast.parse(content, str(path))
        code = compile(tree, str(path), "exec")
    except SyntaxError as error:
        found = f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)
        raise ModelError(str(path), "valid Python", found) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ModelError(str(path), "valid Python", str(error) or type(error).__name__) from None
    if not name.isidentifier():
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        hint = f"the file defines {', '.join(defined[:6])}" if defined else ""
        raise ModelError(f"{path}:", "the name of a function", quote(name), hint)
    return code


@contextlib.contextmanager
def _importable(path: Path) -> Iterator[Any]:
    """Provide an empty module for a file, whose folder is searched first for other modules, as when it is run."""
    spec = importlib.util.spec_from_loader(_MODULE, loader=None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path.resolve())
    before, search = sys.modules.get(_MODULE), list(sys.path)
    sys.modules[_MODULE] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield module
    finally:
        sys.path[:] = search
        sys.modules.pop(_MODULE, None)
        if before is not None:
            sys.modules[_MODULE] = before


@contextlib.contextmanager
def _reported(place: str, expected: str) -> Iterator[None]:
    """Turn an exception of the user's code into a `ModelError` with the line that raised it."""
    try:
        yield
    except ModelError as error:
        raise error.within(place) from error
    except (SolventError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # SystemExit as well
        trace, line = error.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__") == _MODULE:
                line = trace.tb_lineno
            trace = trace.tb_next
        at = "" if line is None else f" (line {line})"
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ModelError(place, expected, f"{text}{at}", "--debug shows the traceback") from error


def _check_arguments(place: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of an extension module
        return
    parameters = signature.parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for key in settings:
        if key not in named and not takes_any:
            known = f"an argument of the function ({', '.join(named) or 'none'})"
            raise ModelError(f"--set {key}", known, "an unknown one", did_you_mean(key, named))
    for each in parameters:
        if each.default is each.empty and each.name not in settings and each.name in named:
            raise ModelError(place, f"a value of its argument {each.name!r}", "none", f"--set {each.name}=...")
    try:
        signature.bind(**settings)
    except TypeError as error:
        raise ModelError(place, "a function with named arguments", str(error)) from None
