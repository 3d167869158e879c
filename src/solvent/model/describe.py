"""A summary of a model: its size, the range and precision of its costs, and where episodes begin and end."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import common_unit
from solvent.errors import printable
from solvent.model.amounts import format_amount, short_amount
from solvent.model.cmdp import CMDP

if TYPE_CHECKING:
    from rich.console import RenderableType


#: Length of a unit in bits that is never exceeded: this one is only compared with another.
_ANY_LENGTH = 2**62
#: Number of states that are listed by name.
_MOST_LISTED = 6


@dataclass(frozen=True)
class ResourceFacts:
    """Facts about the costs of one resource.

    Attributes
    ----------
    name : str
        Name of the resource.
    low, high : Fraction or None
        Least and greatest cost of a step; `low` is None if costs are unbounded below.
    unit : Fraction
        The greatest amount that divides every cost that is a number.
    bits : int or None
        Precision k of the costs in bits, including the sign (the paper's Lemma 4, `lem: precision`); None if a cost
        is continuous.
    decimal_digits : int
        Floats with more decimal digits than this were read as exact binary values.
    limit : str
        Default budget, or "-".
    floor, ceiling : Fraction or None
        Ends at which the resource saturates; None for no end.
    """

    name: str
    low: Fraction | None
    high: Fraction
    unit: Fraction
    bits: int | None
    decimal_digits: int
    limit: str
    floor: Fraction | None = None
    ceiling: Fraction | None = None


@dataclass(frozen=True)
class Description:
    """A summary of a model, which prints as a table.

    Attributes
    ----------
    title : str
        Name of the model.
    horizon : int or None
        Number of steps; None for a discounted model.
    states, terminal_states, actions, rows, outcomes, tables : int
        Sizes.
    resources : tuple of ResourceFacts
        Facts about the costs of each resource.
    diversity_bound_log2 : float or None
        Base-2 logarithm of the paper's bound H^d 2^((k+1)d) on cost diversity (Lemma 4); None if a cost is continuous
        or the model is discounted.
    discount : Fraction or None
        Discount factor; None for a model with a horizon.
    start : hashable, or mapping of hashable to float
        State at step 0, or the probability of each possible one by name.
    end_reward : mapping of hashable to float
        Rewards other than 0 for being in a state when the episode ends.
    must_end_in : tuple of hashables or None
        States in which every episode must end; None if it may end anywhere.
    """

    title: str
    horizon: int | None
    states: int
    terminal_states: int
    actions: int
    rows: int
    outcomes: int
    tables: int
    resources: tuple[ResourceFacts, ...]
    diversity_bound_log2: float | None
    discount: Fraction | None = None
    start: Hashable | Mapping[Hashable, float] = None
    end_reward: Mapping[Hashable, float] = field(default_factory=dict)
    must_end_in: tuple[Hashable, ...] | None = None

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        sizes = Table.grid(padding=(0, 2))
        tables = "stationary" if self.tables == 1 else f"{self.tables} tables"
        for label, value in (
            ("horizon", f"{self.horizon} ({tables})" if self.discount is None else "infinite"),
            *([("discount", format_amount(self.discount))] if self.discount is not None else []),
            ("states", f"{self.states:,} ({self.terminal_states:,} terminal)"),
            ("actions", f"{self.actions:,}"),
            ("rows", f"{self.rows:,}"),
            ("outcomes", f"{self.outcomes:,}"),
            ("cost diversity", self._diversity()),
            *self._ends(),
        ):
            sizes.add_row(label, Text(value))
        ends = [
            side for side in ("floor", "ceiling") if any(getattr(each, side) is not None for each in self.resources)
        ]
        facts = Table("resource", "cost per step", "unit", "bits", *ends, "budget")
        for each in self.resources:
            low = "-inf" if each.low is None else _brief(each.low)
            bits = "continuous" if each.bits is None else str(each.bits)
            saturates = ["-" if (end := getattr(each, side)) is None else _brief(end) for side in ends]
            cells = (each.name, f"{low} to {_brief(each.high)}", _brief(each.unit), bits, *saturates, each.limit)
            facts.add_row(*map(Text, cells))  # plain text: a name may look like markup
        return Group(Text(self.title), sizes, *([facts] if self.resources else []))

    def _ends(self) -> list[tuple[str, str]]:
        """Return labels and texts of the first states if there are several, of end rewards and of goals."""
        rows = []
        if isinstance(self.start, Mapping):
            rows.append(("start", _listed([f"{_named(s)} ({p:.4g})" for s, p in self.start.items()])))
        if self.end_reward:
            rows.append(("end reward", _listed([f"{_named(s)} {r:.6g}" for s, r in self.end_reward.items()])))
        if self.must_end_in is not None:
            rows.append(("must end in", _listed([_named(s) for s in self.must_end_in]) or "no state"))
        return rows

    def _diversity(self) -> str:
        if self.discount is not None:
            return "unbounded (there is no last step)"
        if self.diversity_bound_log2 is None:
            return "unbounded (a cost is continuous)"
        if self.diversity_bound_log2 < 40:
            return f"at most {round(2**self.diversity_bound_log2):,}"
        return f"at most 2^{self.diversity_bound_log2:.1f}"

    def __str__(self) -> str:
        from solvent.core.terminal import make_console

        text = io.StringIO()
        make_console(file=text, width=100, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _named(state: Hashable) -> str:
    return printable(str(state))


def _listed(parts: list[str]) -> str:
    """Return the first parts of a list, and the number of all if some are left out."""
    more = f", ... ({len(parts):,} states)" if len(parts) > _MOST_LISTED else ""
    return ", ".join(parts[:_MOST_LISTED]) + more


def _brief(value: Fraction) -> str:
    if value.denominator > 2**13 and value.denominator & (value.denominator - 1) == 0 and value.numerator == 1:
        return f"2^-{value.denominator.bit_length() - 1}"
    return short_amount(value, 14).removeprefix("about ")


def describe(model: CMDP, discount: Fraction | None = None) -> Description:
    """Return a summary of a model, or of a discounted model from its base; the same as `model.describe()`."""
    has_rows = np.diff(model.row_indptr).reshape(model.n_tables, model.n_states) > 0
    facts = tuple(_facts(model, d) for d in range(model.n_resources))
    diversity: float | None = 0.0 if discount is None else None
    for each in facts:
        if diversity is not None:
            k = None if each.bits is None else each.bits + _extra_bits(each)
            diversity = None if k is None else diversity + float(np.log2(model.horizon)) + k + 1
    return Description(
        title=model.name or "model",
        horizon=model.horizon if discount is None else None,
        states=model.n_states,
        terminal_states=int((~has_rows.any(0)).sum()),
        actions=model.n_actions,
        rows=model.n_rows,
        outcomes=model.n_outcomes,
        tables=model.n_tables,
        resources=facts,
        diversity_bound_log2=diversity,
        discount=discount,
        start=model.start,
        end_reward={} if model.end_reward is None else _by_name(model, model.end_reward),
        must_end_in=None if model.may_end is None else tuple(_by_name(model, model.may_end)),
    )


def _extra_bits(facts: ResourceFacts) -> int:
    """Return the bits that amounts need beyond those of costs: sums continue from a floor or a ceiling."""
    unit = facts.unit
    for end in (facts.floor, facts.ceiling):
        if end:
            unit = common_unit([unit, end], _ANY_LENGTH)
    return int(facts.unit / unit - 1).bit_length()


def _by_name(model: CMDP, values: NDArray[Any]) -> dict[Hashable, float]:
    """Return the entries of an array with one per state that are not 0, by name."""
    return {model.states[s]: float(values[s]) for s in np.flatnonzero(values).tolist()}


def _facts(model: CMDP, d: int) -> ResourceFacts:
    column = model.cost[d]
    low, high = model.cost_range(d)
    bits: int | None = None
    if model.distribution_DO is None or not (model.distribution_DO[d] >= 0).any():
        least, most = (int(column.ticks.min()), int(column.ticks.max())) if len(column) else (0, 0)
        bits = max(abs(least), abs(most)).bit_length() + (1 if least < 0 else 0)
    budget = model.budget[model.resources[d]] if model.budget else None
    shown = "-"
    if budget is not None:
        shown = budget.text.removeprefix("at most ") if isinstance(budget.upper, Fraction) else budget.text
    return ResourceFacts(
        model.resources[d], low, high, column.unit, bits, column.decimal_digits, shown,
        model.floors[d], model.ceilings[d],
    )  # fmt: skip
