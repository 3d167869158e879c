"""Copy the results of `solvent paper` into docs/reproduction.md and docs/average-case.md: figures, findings, tables.

`make paper` runs both; otherwise pass the folder that `solvent paper` wrote.
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
    """Return the generated blocks of the page by name."""
    facts = {name: records[name]["facts"] for name in FIGURES}
    return {**told(records), "claims": typeset(table(claims(facts)))}


def average_blocks(records: dict[str, Any]) -> dict[str, str]:
    """Return the generated blocks of the page on average-case complexity by name."""
    average, smoothed = Average(**records["average"]["arguments"]), Smoothed(**records["smoothed"]["arguments"])
    facts = {name: records[name]["facts"] for name in PAST}
    tables = {
        "average-table": average.table(facts["average"]),
        "smoothed-table": smoothed.table(facts["smoothed"]),
        "random-table": smoothed.random_table(facts["smoothed"]),
    }
    return {**told(records), **{name: "\n".join(lines) + "\n" for name, lines in tables.items()}}


def told(records: dict[str, Any]) -> dict[str, str]:
    """Return the date, versions and machine of the records, and the finding of each."""
    made = next(iter(records.values()))["made"]
    machine = (
        f"Measured on {made['date']} with Solvent {made['solvent']} and Python {made['python']} on {made['machine']}.\n"
    )
    findings = {name: f"**Result:** {typeset(record['finding'])}.\n" for name, record in records.items()}
    return {"machine": machine, **findings}


def typeset(text: str) -> str:
    r"""Return text with its powers as formulas.

    Examples
    --------
    >>> typeset("nodes grow as H^(2.09 ± 0.01), of 2^80")
    'nodes grow as $H^{2.09 \\pm 0.01}$, of $2^{80}$'
    """
    text = re.sub(r"\((\d+)\^(\d+)\)\^(\d+)", r"$(\1^{\2})^\3$", text)
    text = re.sub(r"\(1 / noise\)\^([\d.]*\d)", r"$(1 / \\text{noise})^{\1}$", text)
    text = re.sub(r"(?<![\w$(])(H|\d+)\^\(([\d.]+) ± ([\d.]+)\)", r"$\1^{\2 \\pm \3}$", text)
    return re.sub(r"(?<![\w$(])(H|\d+)\^([\d.]*\d)", r"$\1^{\2}$", text)


def fill(page: str, texts: dict[str, str]) -> str:
    """Return the page with each text between `<!-- begin: name -->` and `<!-- end: name -->`."""
    for name, text in texts.items():
        pattern = re.compile(rf"(<!-- begin: {name} -->)\n.*?(<!-- end: {name} -->)", re.S)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}\n\n{text}\n{match[2]}", page)
        if found != 1:
            raise SystemExit(f"expected one block {name!r} on the page, found {found}")
    return page


def main(folder: Path) -> None:
    """Copy figures and facts from a folder."""
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
        raise SystemExit("expected one argument: the folder that `solvent paper` wrote")
    main(Path(sys.argv[1]))
