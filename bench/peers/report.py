"""Results of the peers: a file, lines and a table for the terminal, and the page `docs/benchmarks.md`."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.peers import workloads
from bench.peers.child import Row
from bench.peers.run import MEMORY_LIMIT, ROOT, TIME_LIMIT
from solvent.core.files import write_atomically
from solvent.plot.files import save

PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "images" / "benchmarks.png"
#: Titles of the peers.
TITLES = {
    "solvent": "Solvent",
    "transcription": "paper, transcribed",
    "storm": "Storm",
    "storm-explicit": "Storm, explicit",
    "quantecon": "QuantEcon",
    "mdpsolver": "MDPSolver",
    "highs": "HiGHS",
    "ortools-knapsack": "OR-Tools knapsack",
    "ortools-cpsat": "OR-Tools CP-SAT",
}
#: Titles of statuses other than "ok".
WORDS = {
    "cannot": "not supported",
    "failed": "failed",
    "wrong": "WRONG",
    "time": "out of time",
    "memory": "out of memory",
}


@dataclass
class Results:
    """Rows, with the machine, the versions and the date."""

    rows: list[Row]
    machine: str
    python: str
    versions: dict[str, str]
    date: str
    limits: str = field(default="")

    @classmethod
    def now(cls, rows: list[Row], time_limit: float = TIME_LIMIT) -> Results:
        """Return results with the current machine and date."""
        versions = {TITLES[row.peer]: row.version for row in rows if row.version}
        limits = f"{time_limit:g} s and {MEMORY_LIMIT / 2**30:.0f} GB for one peer on one workload"
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return cls(rows, machine(), platform.python_version(), versions, today, limits)


def machine() -> str:
    """Return the processor, the number of cores, the memory and the system."""
    name = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        models = [line.partition(":")[2].strip() for line in facts.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.release()}"


def write(results: Results, path: Path) -> None:
    """Write results to a file, atomically."""
    _write_text(path, json.dumps(asdict(results), indent=1) + "\n")


def read(path: Path) -> Results:
    """Read results from a file."""
    facts: dict[str, Any] = json.loads(path.read_text())
    return Results(**{**facts, "rows": [Row(**row) for row in facts["rows"]]})


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def seconds(time: float | None) -> str:
    """Return a time in seconds, milliseconds or microseconds."""
    if time is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if time >= size:
            return f"{time / size:.3g} {unit}"
    return f"{time / 1e-6:.3g} µs"


def ratio(theirs: float | None, ours: float | None) -> str:
    """Return a time as a multiple of ours."""
    if theirs is None or not ours:
        return ""
    times = theirs / ours
    return f"{times:,.0f}" if times >= 10 else f"{times:.2g}"


def own(row: Row) -> float | None:
    """Return a peer's time from its own input to its answer: build and solve."""
    return None if row.build is None or row.solve is None else row.build + row.solve


def total(row: Row) -> float | None:
    """Return a peer's time from the model to its answer: with `solvent.augment`, if it starts from that."""
    mine = own(row)
    return None if mine is None or row.augment is None else row.augment + mine


def line(row: Row) -> str:
    """Return a row as a line of text."""
    told = f"{row.workload:34} {TITLES[row.peer]:20} {row.status:7}"
    if row.status != "ok":
        return f"{told} {row.note}"
    return f"{told} build {seconds(row.build):>9}  solve {seconds(row.solve):>9}  cold {seconds(row.cold_solve):>9}"


def _cells(rows: Iterable[Row]) -> Iterable[list[str]]:
    """Yield the cells of the table, row by row; only checked answers have times."""
    ours: Row | None = None
    for row in rows:
        if row.peer == "solvent":
            ours = row
        name = TITLES[row.peer]
        if row.status != "ok":
            yield [row.workload, name, *[""] * 9, f"{WORDS[row.status]}: {row.note}"]
            continue
        mine = ours is not None and ours.status == "ok" and ours.workload == row.workload
        base = ours.solve if mine and ours is not None else None
        yield [
            row.workload, name, f"{row.states:,}", seconds(row.augment) if row.augment else "",
            "" if row.peer in ("solvent", "transcription") else seconds(row.build), seconds(row.solve),
            seconds((row.cold_build or 0) + (row.cold_solve or 0)), f"{(row.memory or 0) / 2**20:,.0f} MB",
            ratio(row.solve, base), ratio(own(row), base), ratio(total(row), base), row.note,
        ]  # fmt: skip


HEADERS = (
    "workload", "peer", "states", "augment", "build", "solve", "cold", "memory", "solve ×", "+ build ×", "+ augment ×",
    "answer",
)  # fmt: skip


def table(rows: Iterable[Row]) -> Table:
    """Return all rows as a table for the terminal."""
    shown = Table(*HEADERS)
    for cells in _cells(rows):
        shown.add_row(*cells)
    return shown


def markdown(rows: list[Row]) -> str:
    """Return all rows as Markdown, with a table for each family of workloads."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(workloads.find(row.workload).family, []).append(row)
    lines: list[str] = []
    for family, members in families.items():
        lines += [f"### {family[0].upper()}{family[1:]}", "", "| " + " | ".join(HEADERS) + " |"]
        lines.append("| --- | --- |" + " ---: |" * (len(HEADERS) - 3) + " --- |")
        before = ""
        for cells in _cells(members):
            first = cells[0] if cells[0] != before else ""
            before = cells[0]
            name = f"**{cells[1]}**" if cells[1] == TITLES["solvent"] else cells[1]
            lines.append("| " + " | ".join([first, name, *(c.replace("|", "\\|") for c in cells[2:])]) + " |")
        lines.append("")
    return "\n".join(lines)


def facts(results: Results) -> str:
    """Return machine, versions, date and the plot as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items() if "Storm, " not in name)
    return (
        f"Measured on {results.date}: {results.machine}, Python {results.python}. Limits: {results.limits}.\n"
        f"Versions: {versions}.\n\n"
        f"![Time of each peer as a multiple of Solvent's](images/{PLOT.name})\n"
    )


def beaten(rows: list[Row]) -> str:
    """Return the workloads on which a peer is faster than Solvent, as Markdown."""
    ours = {row.workload: row.solve for row in rows if row.peer == "solvent" and row.status == "ok"}
    outright, prepared = [], []
    for row in rows:
        mine, alone, whole = ours.get(row.workload), own(row), total(row)
        if row.peer == "solvent" or row.status != "ok" or mine is None or alone is None or whole is None:
            continue
        if whole < mine:
            outright.append(f"- {row.workload}: {TITLES[row.peer]}, {seconds(whole)}, Solvent {seconds(mine)}.")
        elif alone < mine:
            prepared.append(f"- {row.workload}: {TITLES[row.peer]}, {seconds(alone)}, Solvent {seconds(mine)}.")
    return (
        "From the model to the answer:\n\n" + ("\n".join(outright) or "None.")
        + "\n\nFrom the ordinary MDP that `solvent.augment` builds, without the time of `augment`:\n\n"
        + ("\n".join(prepared) or "None.") + "\n"
    )  # fmt: skip


def fill(page: str, parts: dict[str, str]) -> str:
    """Return a page with the text between `<!-- name -->` and `<!-- end name -->` replaced."""
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"expected one place for {name!r} on the page, found {page.count(begin)}")
        head, _, rest = page.partition(begin)
        page = head + begin + "\n" + text + "\n" + end + rest.partition(end)[2]
    return page


def write_page(results: Results, page: Path = PAGE, plot: Path = PLOT) -> None:
    """Rewrite the measured parts of the page, and its plot."""
    from bench.peers.plot import draw

    parts = {"facts": facts(results), "peers": markdown(results.rows), "beaten": beaten(results.rows)}
    text = fill(page.read_text(encoding="utf-8"), parts)
    save(draw(results.rows, TITLES), plot)
    _write_text(page, text)
