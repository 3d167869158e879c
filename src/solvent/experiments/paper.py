"""Every figure of the paper's experiments, reproduced: `reproduce` measures, draws and summarizes them."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from solvent._version import __version__
from solvent.core.engines import open_engine
from solvent.core.files import write_atomically
from solvent.core.paths import read_path
from solvent.errors import ModelError, did_you_mean, quote
from solvent.experiments.approximation import Approximation
from solvent.experiments.average import Average
from solvent.experiments.claims import TOY, claims, table
from solvent.experiments.experiment import Exhibit, Experiment, Facts
from solvent.experiments.far import Far
from solvent.experiments.never_over import NeverOver
from solvent.experiments.precision import Precision
from solvent.experiments.runs import available_cores, run
from solvent.experiments.scale import Scale
from solvent.experiments.smoothed import Smoothed
from solvent.experiments.value import Value

#: Figures of the paper by name, in its order.
FIGURES: dict[str, type[Experiment]] = {
    each.name: each for each in (Value, Scale, Approximation, NeverOver, Precision, Far)
}
#: Figures beyond the paper.
PAST: dict[str, type[Exhibit]] = {each.name: each for each in (Average, Smoothed)}
ALL: dict[str, type[Exhibit]] = {**FIGURES, **PAST}


@dataclass(frozen=True)
class Reproduced:
    """A figure that was reproduced.

    Attributes
    ----------
    name, description : str
        Name and title of the figure.
    finding : str
        One sentence that states the facts.
    facts : dict
        The facts that the results show, as numbers.
    files : dict
        Paths of the files "data", "figure" and "facts".
    rows : int
        Number of rows of data.
    seconds : float
        Wall time of this run, without rows that were measured before.
    """

    name: str
    description: str
    finding: str
    facts: Facts
    files: dict[str, Path]
    rows: int
    seconds: float


def choose(names: Iterable[str] = ()) -> list[str]:
    """Return the names of the chosen figures, in the order of the paper and without duplicates; by default all.

    Raises
    ------
    ModelError
        If a name is unknown.

    Examples
    --------
    >>> choose(["far", "value"])
    ['value', 'far']
    """
    asked = set()
    for name in names:
        if name not in ALL:
            raise ModelError("figure", f"one of {', '.join(ALL)}", quote(name), did_you_mean(name, ALL))
        asked.add(name)
    return [name for name in ALL if name in asked or not asked]


def reproduce(
    names: Iterable[str] = (),
    folder: str | Path = "solvent-paper",
    *,
    jobs: int | None = 1,
    quick: bool = False,
    fresh: bool = False,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
) -> Iterator[Reproduced]:
    """Reproduce figures of the paper's experiments, and yield each when it is done.

    Parameters
    ----------
    names : iterable of str
        Names of figures, keys of `ALL`; by default all.
    folder : str or Path
        Folder for rows (.csv), figures (.png) and facts (.json). Rows that exist already are not measured again.
    jobs : int or None
        Number of processes; None for one per core, or per CPU of the Ray cluster.
    quick : bool
        If True, use small sizes, for a test of the installation.
    fresh : bool
        If True, discard rows of earlier runs.
    engine : {"local", "ray"}
        Where rows are measured: by processes of this machine, or by workers of a Ray cluster, each on one thread.
    address : str, optional
        Address of the cluster, as for `solve`.
    progress : bool
        If True, show progress on a terminal.

    Raises
    ------
    ModelError
        If a name is unknown, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [made.name for made in reproduce(["precision"], folder, quick=True)]
    ['precision']
    """
    chosen, place = choose(names), read_path(folder, "folder", "the path of a folder")
    with open_engine(engine, address) as opened:
        for name in chosen:
            began = time.perf_counter()
            experiment = ALL[name].quick() if quick else ALL[name]()
            rows = run(experiment.study(), place, jobs, progress, fresh=fresh, engine=opened)
            made = _write(experiment, experiment.results(rows), place, len(rows))
            yield replace(made, seconds=time.perf_counter() - began)


def _write(experiment: Exhibit, results: Any, folder: Path, rows: int) -> Reproduced:
    from solvent.plot.files import save

    facts = experiment.facts(results)
    finding = experiment.finding(facts)
    files = {kind: folder / f"{experiment.name}.{ending}" for kind, ending in _ENDINGS.items()}
    save(experiment.draw(results), files["figure"])
    record = {
        "figure": experiment.name, "description": experiment.description, "finding": finding, "facts": facts,
        "arguments": asdict(experiment), "made": made_with(),  # type: ignore[call-overload]
    }  # fmt: skip
    write_atomically(files["facts"], (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    return Reproduced(experiment.name, experiment.description, finding, facts, files, rows, 0.0)


def write_claims(made: Iterable[Reproduced], folder: str | Path, *, quick: bool = False) -> Path | None:
    """Write the table of the paper's claims into a folder, if all its figures were reproduced, and return its path.

    With `quick`, its first line says that sizes were small and that the verdicts are meaningless.
    """
    place = read_path(folder, "folder", "the path of a folder")
    facts = {each.name: each.facts for each in made}
    if not set(FIGURES) <= set(facts):
        return None
    path = place / "claims.md"
    text = table(claims(facts))
    write_atomically(path, (f"{TOY}\n\n{text}" if quick else text).encode())
    return path


_ENDINGS = {"data": "csv", "figure": "png", "facts": "json"}


def made_with() -> dict[str, Any]:
    """Return the version, the date and the machine."""
    return {
        "solvent": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {available_cores()} cores",
        "date": datetime.now(UTC).date().isoformat(),
    }
