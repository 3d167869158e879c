"""Every claim of the paper's sections on experiments, with the measurements and a verdict.

Verdicts are computed from the facts of the figures, with the thresholds in the functions of `main_claims` and
`appendix_claims`.
"""

from __future__ import annotations

from solvent.experiments import appendix_claims, main_claims
from solvent.experiments.verdicts import AllFacts, Claim


def claims(facts: AllFacts) -> list[Claim]:
    """Return all claims with their verdicts, from the facts of all figures by name."""
    listed = [*main_claims.CHECKS, *appendix_claims.CHECKS]
    return [Claim(section, says, *check(facts)) for section, says, check in listed]


#: First line of a table that was computed at small sizes.
TOY = "**Small sizes (`--quick`), for a test of the installation: these verdicts do not apply to the paper.**"


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
