"""The page docs/environments.md, rendered from records."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.environments.cases import CASES, NOT_PLAYED, Case
from bench.training.run import ROOT
from solvent.core.files import write_atomically

PAGE = ROOT / "docs" / "environments.md"
TEMPLATE = Path(__file__).with_name("template.md")
Record = dict[str, Any]


def broken(records: Sequence[Record]) -> list[str]:
    """Return the runs in which an episode was over budget."""
    return [
        f"{each['name']}, {each['mode']}: {each['over']} of {each['episodes']} episodes, most {amount(each)}"
        for each in records
        if each.get("over")
    ]


def failed(records: Sequence[Record]) -> list[str]:
    """Return the runs that ended with an error."""
    return [f"{each['name']}, {each['mode']}: {each['error']}" for each in records if "error" in each]


def amount(record: Record) -> str:
    """Return the most that was spent in a run, rounded up if it is over budget and down if it is not."""
    most, budget = Fraction(record["most"]), Fraction(record["budget"])
    text = f"{float(most):.6g}"
    if Fraction(text) > budget >= most:
        return f"{float(budget):.6g}"
    return f"more than {float(budget):.6g}" if Fraction(text) <= budget < most else text


def row(record: Record) -> str:
    """Return a row of the table."""
    head = f"| {record['name']} | {record['package']} {record['version']} | {record['mode']} | {record['cost']} "
    if "error" in record:
        return f"{head}| {_decimal(record)} | failed: {_escaped(record['error'])} | | | |"
    bare = f"{record['bare_over']:,} of {record['bare_episodes']:,}"
    return f"{head}| {_decimal(record)} | {record['episodes']:,} | **{record['over']:,}** | {amount(record)} | {bare} |"


def _decimal(record: Record) -> str:
    return f"{float(Fraction(record['budget'])):.6g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def table(records: Sequence[Record]) -> str:
    """Return the table of all runs."""
    lines = [
        "| environment | version | mode | cost of a step | budget | episodes | over budget | most spent "
        "| over budget without Solvent |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join([*lines, *map(row, records)])


def skipped_table(missing: Sequence[Case]) -> str:
    """Return the table of environments that were not played, and why."""
    lines = ["| environment | why it was not played |", "| --- | --- |"]
    lines += [f"| {case.name} | the package {case.package} is not installed |" for case in missing]
    return "\n".join([*lines, *(f"| {name} | {why} |" for name, why in NOT_PLAYED)])


def text(records: Sequence[Record], missing: Sequence[Case], steps: int) -> str:
    """Return the page."""
    done = [each for each in records if "error" not in each]
    names, episodes = {each["name"] for each in done}, sum(each["episodes"] for each in done)
    over = sum(each["over"] for each in done)
    bare_over, bare = (sum(each[key] for each in done) for key in ("bare_over", "bare_episodes"))
    summary = (
        f"**{len(names)} environments, {len(done)} runs, {episodes:,} episodes, {over:,} over budget.** The same "
        f"agents without Solvent exceeded the budget in {bare_over:,} of {bare:,} episodes "
        f"({bare_over / max(bare, 1):.0%})."
    )
    return TEMPLATE.read_text(encoding="utf-8").format(
        summary=summary, table=table(records), skipped=skipped_table(missing), steps=f"{steps:,}", n_cases=len(CASES)
    )


def write(records: Sequence[Record], missing: Sequence[Case], steps: int) -> None:
    """Write the page."""
    write_atomically(PAGE, text(records, missing, steps).encode())
