"""Claims of the paper, and verdicts on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from solvent.experiments.experiment import Facts

#: Facts by the name of the figure.
AllFacts = Mapping[str, Facts]
#: Source of a claim: the section on experiments, the one on additional experiments, both, or a lemma.
Section = Literal["main", "appendix", "both", "lemma"]
#: Returns the measurement and the verdict, from the facts of all figures.
Check = Callable[[AllFacts], tuple[str, str]]

#: The budgets of figures with three of them; the last is not in the paper.
BUDGETS = ("small", "large", "binding")
#: The paper's budgets, which alone decide its claims about them.
PAPER = ("small", "large")
#: The verdict on times of another machine and another program.
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict.

    Attributes
    ----------
    section : str
        "main", "appendix", "both" or "lemma".
    says : str
        What the paper says.
    measured : str
        What was measured.
    holds : str
        "yes", "partly", "no", or "not comparable".
    """

    section: Section
    says: str
    measured: str
    holds: str


def claim(checks: list[tuple[Section, str, Check]], section: Section, says: str) -> Callable[[Check], Check]:
    """Add a claim and the decorated function to a list."""

    def register(check: Check) -> Check:
        checks.append((section, says, check))
        return check

    return register


def verdict(*held: bool) -> str:
    """Return the verdict on a claim, from its parts.

    Examples
    --------
    >>> verdict(True, True), verdict(True, False), verdict(False)
    ('yes', 'partly', 'no')
    """
    return "yes" if all(held) else "partly" if any(held) else "no"


def grows_like(growth: Facts, exponent: float) -> bool:
    """Return whether a fitted exponent is within 0.5 of a given one.

    Examples
    --------
    >>> grows_like({"exponent": 2.4, "error": 0.1}, 2), grows_like({"exponent": 2.8, "error": None}, 2)
    (True, False)
    """
    return bool(abs(growth["exponent"] - exponent) < 0.5)


def by_budget(facts: Facts, show: Callable[[Facts], Any]) -> str:
    """Return a formatted fact for each of the three budgets."""
    small, large, binding = (facts[name] for name in BUDGETS)
    return (
        f"{show(small)} at b = {small['budget']:g}, {show(large)} at b = {large['budget']:g}; {show(binding)} at b = "
        f"{binding['budget']:g}, which binds"
    )
