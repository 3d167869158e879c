"""Shell completion. Names of resources are read from the model file without building the model; states need it."""

from __future__ import annotations

from pathlib import Path

import typer

from solvent.cli.examples import find_model
from solvent.solvers import registry

_APPROXIMATIONS = {
    "additive": "rounded costs; exceeds the budget by at most epsilon",
    "relative": "rounded costs; exceeds the budget by at most a share epsilon of it",
}
_SUPPORTS = {
    "known": "no episode exceeds the budget while learning",
    "learned": "episodes that exceed the budget are counted and learned from",
}
_BONUSES = {"practical": "few episodes", "theory": "the algorithm in the paper, which is slow"}
_REPLANS = {"doubling": "when a visit count has doubled", "episode": "after every episode"}
_FIGURES = {
    "value": "value of the approximation and of the feasibility scheme",
    "scale": "running time of the approximation",
    "approximation": "the approximation and the exact method",
    "never-over": "the feasibility scheme and the exact method",
    "precision": "costs rounded to k decimals",
    "far": "the same up to a horizon of 1000",
    "average": "frontier size against the horizon, in random families",
    "smoothed": "size of the largest frontiers against noise",
}
#: What `--plot` can show of a policy.
PLOT_KINDS = {
    "spending": "what it spends over time",
    "policy": "its actions by state, step and remaining budget",
    "states": "a map of its actions in all states",
    "value": "a map of what it is worth in all states",
}
_ENGINES = {
    "local": "threads and processes of this machine",
    "ray": "a Ray cluster, at --address or started on this machine",
}
_VARIED = {
    "budget": "the limit: how large should the tank be?",
    "remaining": "what remains before the first step: how full must the tank be?",
}
#: Larger files are not read: completion must be quick. In bytes.
_MAX_FILE_SIZE = 4_000_000


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Return the solution methods that start with the given text."""
    return [(name, summary) for name, summary in registry.summaries().items() if name.startswith(incomplete)]


def complete_approximation(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--approximation` that start with the given text."""
    return [(name, help) for name, help in _APPROXIMATIONS.items() if name.startswith(incomplete)]


def complete_support(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--support` that start with the given text."""
    return [(name, help) for name, help in _SUPPORTS.items() if name.startswith(incomplete)]


def complete_bonus(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--bonus` that start with the given text."""
    return [(name, help) for name, help in _BONUSES.items() if name.startswith(incomplete)]


def complete_replan(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--replan` that start with the given text."""
    return [(name, help) for name, help in _REPLANS.items() if name.startswith(incomplete)]


def complete_figure(incomplete: str) -> list[tuple[str, str]]:
    """Return the figures of the paper that start with the given text."""
    return [(name, help) for name, help in _FIGURES.items() if name.startswith(incomplete)]


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the command line that start with the given text."""
    return [name for name in _resources(context) if name.startswith(incomplete)]


def complete_budget(context: typer.Context, incomplete: str) -> list[str]:
    """Return the resources of the model on the command line that start with the given text, each followed by "="."""
    return [f"{name}=" for name in _resources(context) if f"{name}=".startswith(incomplete)]


def complete_vary(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--vary` that start with the given text."""
    return [(name, help) for name, help in _VARIED.items() if name.startswith(incomplete)]


def complete_plot(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds of `--plot` that start with the given text, each followed by "="."""
    return [(f"{name}=", help) for name, help in PLOT_KINDS.items() if f"{name}=".startswith(incomplete)]


def complete_engine(incomplete: str) -> list[tuple[str, str]]:
    """Return the values of `--engine` that start with the given text."""
    return [(name, help) for name, help in _ENGINES.items() if name.startswith(incomplete)]


def complete_state(context: typer.Context, incomplete: str) -> list[str]:
    """Return the states of the model on the command line that start with the given text."""
    from solvent.formats.files import load_model

    for given in (context.params.get("model"), *context.args):
        if given is not None:
            try:
                path = find_model(Path(given))
                if path.stat().st_size > _MAX_FILE_SIZE:
                    return []
                names = [str(name) for name in load_model(path, discounted=None).states]
            except Exception:  # an unreadable file has no completions
                return []
            return [name for name in names if name.startswith(incomplete) and name.isprintable()]
    return []


def _resources(context: typer.Context) -> list[str]:
    # while an option lacks its value, the parser has not yet assigned the positional arguments
    for given in (context.params.get("model"), *context.args):
        if given is not None:
            try:
                return resource_names(find_model(Path(given)))
            except Exception:  # an unreadable file has no completions
                return []
    return []


def resource_names(path: Path) -> list[str]:
    """Return the names of the resources in a model file; an empty list if the file is too large.

    Raises
    ------
    OSError, ValueError
        If there is no such file, or its content does not match its suffix.
    """
    from solvent.core.files import read_plain
    from solvent.formats.registry import find_format

    if path.stat().st_size > _MAX_FILE_SIZE:
        return []
    file_format = find_format(path)
    found = [] if file_format is None else file_format.read_resources(read_plain(path))
    # the shell prints completions as they are, so names with control characters are left out
    return [name for name in found if isinstance(name, str) and name.isprintable()]
