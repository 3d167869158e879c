"""docs/reproduction.md agrees with the committed facts."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from solvent.experiments.paper import FIGURES

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "images" / "reproduction.py"))
PAGE = (DOCS / "reproduction.md").read_text()
RECORDS = json.loads((DOCS / "reproduction.json").read_text())


def test_the_page_has_the_numbers_of_the_run() -> None:
    assert SCRIPT["fill"](PAGE, SCRIPT["blocks"](RECORDS)) == PAGE


def test_the_run_was_whole() -> None:
    assert set(RECORDS) == set(FIGURES)
    for name, record in RECORDS.items():
        arguments = json.loads(json.dumps(FIGURES[name]().__dict__))
        assert record["arguments"] == arguments, "the arguments have changed: make paper"
        assert record["finding"] == FIGURES[name]().finding(record["facts"])


def test_every_figure_is_on_the_page() -> None:
    for name in FIGURES:
        assert f"(images/paper-{name}.png)" in PAGE
        assert (DOCS / "images" / f"paper-{name}.png").stat().st_size > 10_000


def test_a_page_without_a_block_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected one block 'claims' on the page, found 0"):
        SCRIPT["fill"]("nothing", {"claims": "x"})
