"""Output of `solvent paper`: text for a terminal, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solvent.core.tables import facts_grid, group
from solvent.experiments.paper import Reproduced

if TYPE_CHECKING:
    from rich.console import RenderableType


def figure_text(made: Reproduced) -> RenderableType:
    """Return the summary of a figure."""
    from rich.text import Text

    files = ", ".join(str(path) for path in made.files.values())
    rows = [
        ("shows", made.finding),
        ("wrote", files),
        ("from", f"{made.rows:,} rows, in {made.seconds:.2f} s"),
    ]
    return group(Text(f"{made.name}: {made.description}"), facts_grid(rows))


def closing_text(made: Sequence[Reproduced], claims: Path | None, seconds: float) -> RenderableType:
    """Return the last lines: the table of claims, and the total time."""
    rows = [] if claims is None else [("wrote", f"{claims}: the paper's claims, the measurements and the verdicts")]
    figures = "1 figure" if len(made) == 1 else f"{len(made)} figures"
    return facts_grid([*rows, ("total", f"{figures} in {seconds:.2f} s")])


def paper_record(made: Sequence[Reproduced], claims: Path | None, seconds: float) -> dict[str, Any]:
    """Return the same as a JSON record."""
    figures = [
        {
            "name": each.name,
            "description": each.description,
            "finding": each.finding,
            "facts": each.facts,
            "rows": each.rows,
            "seconds": each.seconds,
            "written": {kind: {"path": str(path), "bytes": path.stat().st_size} for kind, path in each.files.items()},
        }
        for each in made
    ]
    return {"figures": figures, "claims": None if claims is None else str(claims), "seconds": seconds}
