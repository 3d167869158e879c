"""Every claim of the paper's sections on experiments, beside what was measured and whether it holds.

Verdicts are computed from the facts of the figures; the bounds that decide them stand in the functions of `main_claims`
and `appendix_claims`.
"""

from __future__ import annotations

from solvent.experiments import appendix_claims, main_claims
from solvent.experiments.verdicts import AllFacts, Claim


def claims(facts: AllFacts) -> list[Claim]:
    """Return all claims with what the facts of all figures, by their names, say about them."""
    listed = [*main_claims.CHECKS, *appendix_claims.CHECKS]
    return [Claim(section, says, *check(facts)) for section, says, check in listed]


#: The first line of a table that was made at small sizes.
TOY = "**Small sizes (`--quick`), to see that it works: these verdicts say nothing about the paper.**"


def table(listed: list[Claim]) -> str:
    """Return claims as a Markdown table.

    Examples
    --------
    >>> print(table([Claim("main", "it is quick", "1 ms", "yes")]))
    | | where | the paper says | we measured | holds? |
    | --- | --- | --- | --- | --- |
    | 1 | main | it is quick | 1 ms | yes |
    <BLANKLINE>
    """
    lines = ["| | where | the paper says | we measured | holds? |", "| --- | --- | --- | --- | --- |"]
    for number, each in enumerate(listed, 1):
        lines.append(f"| {number} | {each.section} | {each.says} | {each.measured} | {each.holds} |")
    return "\n".join(lines) + "\n"
