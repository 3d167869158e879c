"""Puts what `solvent paper` made into docs/reproduction.md and docs/average-case.md: pictures, findings, tables.

`make paper` runs both; or give the folder that `solvent paper` wrote.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from solvent.experiments.average import Average
from solvent.experiments.claims import claims, table
from solvent.experiments.paper import FIGURES, PAST
from solvent.experiments.smoothed import Smoothed

DOCS = Path(__file__).parent.parent
PAGE, DATA = DOCS / "reproduction.md", DOCS / "reproduction.json"
AVERAGE_PAGE, AVERAGE_DATA = DOCS / "average-case.md", DOCS / "average-case.json"


def blocks(records: dict[str, Any]) -> dict[str, str]:
    """Return by name what stands between the markers of the page."""
    facts = {name: records[name]["facts"] for name in FIGURES}
    return {**told(records), "claims": table(claims(facts))}


def average_blocks(records: dict[str, Any]) -> dict[str, str]:
    """Return the same for the page on the average case."""
    average, smoothed = Average(**records["average"]["arguments"]), Smoothed(**records["smoothed"]["arguments"])
    facts = {name: records[name]["facts"] for name in PAST}
    tables = {
        "average-table": average.table(facts["average"]),
        "smoothed-table": smoothed.table(facts["smoothed"]),
        "luck-table": smoothed.luck_table(facts["smoothed"]),
    }
    return {**told(records), **{name: "\n".join(lines) + "\n" for name, lines in tables.items()}}


def told(records: dict[str, Any]) -> dict[str, str]:
    """Return when and with what the records were made, and what each found."""
    made = next(iter(records.values()))["made"]
    machine = (
        f"Measured on {made['date']} with Solvent {made['solvent']} and Python {made['python']} on {made['machine']}.\n"
    )
    findings = {name: f"*{record['finding'][0].upper()}{record['finding'][1:]}.*\n" for name, record in records.items()}
    return {"machine": machine, **findings}


def fill(page: str, texts: dict[str, str]) -> str:
    """Return the page with each text between `<!-- begin: name -->` and `<!-- end: name -->`."""
    for name, text in texts.items():
        pattern = re.compile(rf"(<!-- begin: {name} -->)\n.*?(<!-- end: {name} -->)", re.S)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}\n\n{text}\n{match[2]}", page)
        if found != 1:
            raise SystemExit(f"expected one block {name!r} in the page, found {found}")
    return page


def main(folder: Path) -> None:
    """Take over pictures and facts from a folder."""
    pages = ((PAGE, DATA, FIGURES, blocks), (AVERAGE_PAGE, AVERAGE_DATA, PAST, average_blocks))
    for path, data, names, make in pages:
        records = {name: json.loads((folder / f"{name}.json").read_text()) for name in names}
        page = fill(path.read_text(), make(records))
        for name in names:
            shutil.copyfile(folder / f"{name}.png", DOCS / "images" / f"paper-{name}.png")
        data.write_text(json.dumps(records, indent=1) + "\n")
        path.write_text(page)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("give the folder that `solvent paper` wrote")
    main(Path(sys.argv[1]))
