"""Results of the peers: a file, lines and a table for the terminal, and the page `docs/benchmarks.md`."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Sequence
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
    "cspy": "cspy",
}
#: Columns of the table of ratios: titles, and the peers of which the fastest counts.
COLUMNS = {
    "paper": ("transcription",),
    "Storm": ("storm", "storm-explicit"),
    "QuantEcon": ("quantecon",),
    "MDPSolver": ("mdpsolver",),
    "HiGHS": ("highs",),
    "knapsack": ("ortools-knapsack",),
    "CP-SAT": ("ortools-cpsat",),
    "cspy": ("cspy",),
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
    time_limit: float = TIME_LIMIT

    @classmethod
    def now(cls, rows: list[Row], time_limit: float = TIME_LIMIT) -> Results:
        """Return results with the current machine and date."""
        versions = {TITLES[row.peer]: row.version for row in rows if row.version}
        limits = f"{time_limit:g} s and {MEMORY_LIMIT / 2**30:.0f} GB for one peer on one workload"
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return cls(rows, machine(), platform.python_version(), versions, today, limits, time_limit)


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


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]], align: str) -> str:
    """Return a table as Markdown.

    Parameters
    ----------
    header : sequence of str
    lines : iterable of sequence of str
        The cells.
    align : str
        "l" or "r" for each column.
    """
    rule = [{"l": "---", "r": "---:"}[side] for side in align]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *escaped)) + "\n"


def _by_family(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, Row]]]:
    """Return the rows by family, workload and peer."""
    found: dict[str, dict[str, dict[str, Row]]] = {}
    for row in rows:
        family = workloads.find(row.workload).family
        found.setdefault(family, {}).setdefault(row.workload, {})[row.peer] = row
    return found


def _ratio_cell(column: Sequence[str], rows: dict[str, Row], time_limit: float) -> str:
    """Return the cell of the table of ratios: that of the fastest of some peers, or why there is none."""
    there = [rows[peer] for peer in column if peer in rows]
    times = [
        (whole, row.ours) for row in there if row.status == "ok" and (whole := total(row)) is not None and row.ours
    ]
    if times:
        return ratio(*min(times, key=lambda pair: pair[0] / pair[1]))
    statuses = {row.status for row in there}
    mine = rows["solvent"].solve if "solvent" in rows else None
    if "time" in statuses and mine:
        return f"*> {ratio(time_limit, mine)}*"
    for status, word in (("wrong", "WRONG"), ("time", "*time*"), ("memory", "*memory*"), ("failed", "*failed*")):
        if status in statuses:
            return word
    return "–"


def ratios(results: Results) -> str:
    """Return one line for each workload and one column for each peer, as Markdown, with a table for each family.

    Peers that support no workload of a family have no column in its table.
    """
    parts = []
    for family, members in _by_family(results.rows).items():
        lines: list[list[str]] = []
        for name, rows in members.items():
            mine = rows.get("solvent")
            told = "" if mine is None else seconds(mine.solve) if mine.status == "ok" else WORDS[mine.status]
            cells = [_ratio_cell(column, rows, results.time_limit) for column in COLUMNS.values()]
            lines.append([name, told, *cells])
        used = [0, 1, *(i + 2 for i in range(len(COLUMNS)) if any(line[i + 2] != "–" for line in lines))]
        header = ["workload", "Solvent", *COLUMNS]
        table = markdown_table(
            [header[i] for i in used], [[line[i] for i in used] for line in lines], "l" + "r" * (len(used) - 1)
        )
        parts.append(f"**{_title(family)}**\n\n{table}")
    return "\n".join(parts)


def _title(family: str) -> str:
    return f"{family[0].upper()}{family[1:]}"


HEADERS = ("peer", "states", "augment", "build", "solve", "cold", "memory")


def _cells(row: Row) -> list[str]:
    """Return the cells of a checked answer."""
    builds = row.peer not in ("solvent", "transcription")
    cold = (row.cold_build or 0) + (row.cold_solve or 0)
    return [
        TITLES[row.peer],
        f"{row.states:,}",
        seconds(row.augment) if row.augment else "",
        seconds(row.build) if builds else "",
        seconds(row.solve),
        seconds(cold),
        f"{(row.memory or 0) / 2**20:,.0f} MB",
    ]


def _without_time(rows: Iterable[Row]) -> str:
    """Return a sentence for each status and reason for which peers have no time."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.status != "ok":
            reasons.setdefault(f"{WORDS[row.status]}, {row.note}", []).append(TITLES[row.peer])
    return " ".join(f"{_title(reason)}: {'; '.join(peers)}." for reason, peers in reasons.items())


def _checks(rows: Iterable[Row]) -> str:
    """Return which answers were checked by their value alone."""
    by_value = [TITLES[row.peer] for row in rows if row.status == "ok" and not row.note.startswith("policy verified")]
    return f"Checked by value only: {'; '.join(by_value)}." if by_value else ""


def table(rows: Iterable[Row]) -> Table:
    """Return all rows as a table for the terminal."""
    shown = Table("workload", *HEADERS, "× Solvent", "answer")
    for row in rows:
        if row.status == "ok":
            shown.add_row(row.workload, *_cells(row), ratio(total(row), row.ours), row.note)
        else:
            blank = [""] * (len(HEADERS) - 1)
            shown.add_row(row.workload, TITLES[row.peer], *blank, "", f"{WORDS[row.status]}: {row.note}")
    return shown


def details(rows: list[Row]) -> str:
    """Return times and memory as Markdown, with a table for each workload."""
    parts = []
    for family, members in _by_family(rows).items():
        parts.append(f"### {_title(family)}\n")
        for name, by_peer in members.items():
            lines = [_cells(row) for row in by_peer.values() if row.status == "ok"]
            shown = markdown_table(HEADERS, lines, "l" + "r" * (len(HEADERS) - 1))
            notes = " ".join(filter(None, (_checks(by_peer.values()), _without_time(by_peer.values()))))
            parts.append(f"**{name}**\n\n{shown}" + (f"\n{notes}\n" if notes else ""))
    return "\n".join(parts)


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
    outright, prepared = [], []
    for row in rows:
        mine, alone, whole = row.ours, own(row), total(row)
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

    parts = {
        "facts": facts(results), "ratios": ratios(results), "details": details(results.rows),
        "beaten": beaten(results.rows),
    }  # fmt: skip
    text = fill(page.read_text(encoding="utf-8"), parts)
    save(draw(results.rows, TITLES, results.limits.partition(" for ")[0]), plot)
    _write_text(page, text)
