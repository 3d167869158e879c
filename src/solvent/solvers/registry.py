"""The ordered list of solution methods.

A method of this package is one folder and one line here. A method from elsewhere is an entry point of the group
`solvent.solvers` whose value is a `Solver` (or a class without arguments that makes one), and comes after these.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from solvent.core.logs import get_logger
from solvent.errors import ModelError, did_you_mean, quote

if TYPE_CHECKING:
    from solvent.solvers.base import Solver

#: Entry points of this group are further methods.
GROUP = "solvent.solvers"
#: The name that stands for a choice by estimated work.
AUTO = "auto"

_log = get_logger(__name__)


@dataclass(frozen=True)
class _Entry:
    """Where a solver is defined; it is imported when it is first used."""

    name: str
    summary: str
    location: str


#: Methods from the general to the special.
_ENTRIES = (
    _Entry("reduction", "exact; any number of resources, any limits", "solvent.solvers.reduction.solver:SOLVER"),
    _Entry("frontier", "exact; one resource, limits on one side", "solvent.solvers.frontier.solver:SOLVER"),
    _Entry("grid", "exact; any number of resources with few amounts, any limits", "solvent.solvers.grid.solver:SOLVER"),
    _Entry("labels", "exact; any resources and limits, no randomness", "solvent.solvers.labels.solver:SOLVER"),
)


_OWN = tuple(entry.name for entry in _ENTRIES)


@functools.cache
def external_solvers() -> dict[str, EntryPoint]:
    """Return the entry points of other packages by name; those that would hide a method of this package are ignored."""
    known = {AUTO, *_OWN}
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in known or point.name in found:
            _log.warning("the solver %r of %s is ignored: the name is taken", point.name, point.value)
        else:
            found[point.name] = point
    return found


def names() -> tuple[str, ...]:
    """Return the names of all methods, in order.

    Examples
    --------
    >>> names()[:3]
    ('reduction', 'frontier', 'grid')
    """
    return (*_OWN, *external_solvers())


def summaries() -> dict[str, str]:
    """Return a one-line summary of each method by name, "auto" first.

    Only methods of other packages are imported; those that cannot be are described by their error.
    """
    found = {AUTO: "the method expected to be fastest", **{entry.name: entry.summary for entry in _ENTRIES}}
    for name in external_solvers():
        try:
            found[name] = get(name).summary
        except ModelError as error:
            found[name] = str(error)
    return found


@functools.cache
def get(name: str) -> Solver:
    """Return a solver by name.

    Raises
    ------
    ModelError
        If there is no such method, or one of another package cannot be loaded.
    """
    for entry in _ENTRIES:
        if entry.name == name:
            module, _, attribute = entry.location.partition(":")
            solver: Solver = getattr(importlib.import_module(module), attribute)
            return solver
    point = external_solvers().get(name)
    if point is None:
        known = (AUTO, *names())
        raise ModelError("method", f"one of {', '.join(known)}", quote(name), did_you_mean(name, known))
    return _load(point)


def _load(point: EntryPoint) -> Solver:
    """Return the solver of an entry point, checked against the protocol."""
    from solvent.solvers.base import Solver

    where = f'method="{point.name}"'
    try:
        loaded = point.load()
        solver: Solver = loaded() if isinstance(loaded, type) else loaded
        fits = isinstance(solver, Solver)
    except Exception as error:
        raise ModelError(where, f"a solver at {point.value}", f"{type(error).__name__}: {error}") from error
    if not fits:
        raise ModelError(where, "an object with the attributes of `solvent.solvers.base.Solver`", quote(solver))
    return solver


def check_method(method: Any) -> None:
    """Raise a `ModelError` unless `solve` accepts this as `method`."""
    if not isinstance(method, str):
        raise ModelError("method", f"one of {', '.join((AUTO, *names()))}", quote(method))
    if method != AUTO:
        get(method)
