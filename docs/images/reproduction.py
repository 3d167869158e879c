"""Puts what `solvent paper` made into docs/reproduction.md: pictures, findings, the table of claims (`make paper`)."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from solvent.experiments.claims import claims, table
from solvent.experiments.paper import FIGURES

DOCS = Path(__file__).parent.parent
PAGE, DATA = DOCS / "reproduction.md", DOCS / "reproduction.json"


def blocks(records: dict[str, Any]) -> dict[str, str]:
    """Return by name what stands between the markers of the page."""
    made = records["value"]["made"]
    machine = (
        f"Measured on {made['date']} with Solvent {made['solvent']} and Python {made['python']} on {made['machine']}.\n"
    )
    findings = {name: f"*{records[name]['finding'][0].upper()}{records[name]['finding'][1:]}.*\n" for name in FIGURES}
    facts = {name: records[name]["facts"] for name in FIGURES}
    return {"machine": machine, **findings, "claims": table(claims(facts))}


def fill(page: str, texts: dict[str, str]) -> str:
    """Return the page with each text between `<!-- begin: name -->` and `<!-- end: name -->`."""
    for name, text in texts.items():
        pattern = re.compile(rf"(<!-- begin: {name} -->)\n.*?(<!-- end: {name} -->)", re.S)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}\n\n{text}\n{match[2]}", page)
        if found != 1:
            raise SystemExit(f"{PAGE.name}: expected one block {name!r}, found {found}")
    return page


def main(folder: Path) -> None:
    """Take over pictures and facts from a folder."""
    records = {name: json.loads((folder / f"{name}.json").read_text()) for name in FIGURES}
    page = fill(PAGE.read_text(), blocks(records))
    for name in FIGURES:
        shutil.copyfile(folder / f"{name}.png", DOCS / "images" / f"paper-{name}.png")
    DATA.write_text(json.dumps(records, indent=1) + "\n")
    PAGE.write_text(page)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("give the folder that `solvent paper` wrote")
    main(Path(sys.argv[1]))
