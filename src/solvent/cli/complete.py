"""What the shell offers on Tab. Names of resources are read off the model file without loading the model."""

from __future__ import annotations

from pathlib import Path

import typer

_METHODS = {
    "auto": "the one expected to be quickest",
    "reduction": "exact; any resources, any limits",
    "frontier": "exact; one resource, limits on one side",
    "labels": "exact; the same, with nothing left to chance",
    "additive": "costs rounded by epsilon",
    "relative": "costs rounded by a factor of epsilon",
}
_SUPPORTS = {"known": "never over budget while learning", "learned": "by mistakes, which are counted"}
_BONUSES = {"practical": "bounds are estimates", "theory": "bounds are proved, and slow"}
_REPLANS = {"doubling": "when some count has doubled", "episode": "after every episode"}
_FIGURES = {
    "value": "the approximation against the feasibility scheme",
    "scale": "how the time of the approximation grows",
    "approximation": "the approximation against the exact method",
    "never-over": "the feasibility scheme against the exact method",
    "precision": "costs cut to k decimals",
    "far": "all of it carried to a horizon of 1000",
    "average": "points of a frontier against the horizon, in random families",
    "smoothed": "points of the largest frontiers against noise",
}
#: Larger files are not read while somebody waits for a Tab.
_LARGEST = 4_000_000


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Return the methods that begin so."""
    return [(name, help) for name, help in _METHODS.items() if name.startswith(incomplete)]


def complete_support(incomplete: str) -> list[tuple[str, str]]:
    """Return what may be known of supports that begins so."""
    return [(name, help) for name, help in _SUPPORTS.items() if name.startswith(incomplete)]


def complete_bonus(incomplete: str) -> list[tuple[str, str]]:
    """Return the bonuses that begin so."""
    return [(name, help) for name, help in _BONUSES.items() if name.startswith(incomplete)]


def complete_replan(incomplete: str) -> list[tuple[str, str]]:
    """Return when to plan anew, as far as it begins so."""
    return [(name, help) for name, help in _REPLANS.items() if name.startswith(incomplete)]


def complete_figure(incomplete: str) -> list[tuple[str, str]]:
    """Return the figures of the paper that begin so."""
    return [(name, help) for name, help in _FIGURES.items() if name.startswith(incomplete)]


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the line that begin so."""
    return [name for name in _resources(context) if name.startswith(incomplete)]


def complete_budget(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the line that begin so, each with the "=" that follows."""
    return [f"{name}=" for name in _resources(context) if f"{name}=".startswith(incomplete)]


def _resources(context: typer.Context) -> list[str]:
    # while an option waits for its value the parser has not yet put the arguments in their places
    for given in (context.params.get("model"), *context.args):
        if given is not None:
            try:
                return resource_names(Path(given))
            except Exception:  # a shell that asks for completions has no use for what is wrong with a file
                return []
    return []


def resource_names(path: Path) -> list[str]:
    """Return the names of the resources in a model file, or none if it is too large to look at.

    Raises
    ------
    OSError, ValueError
        If there is no such file or it is not what its ending says.
    """
    from solvent.core.files import read_plain
    from solvent.formats.registry import find_format

    if path.stat().st_size > _LARGEST:
        return []
    file_format = find_format(path)
    found = [] if file_format is None else file_format.read_resources(read_plain(path))
    # a shell writes what it is offered to the terminal
    return [name for name in found if isinstance(name, str) and name.isprintable()]
