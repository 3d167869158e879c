"""What `explain` returns: the actions at one node with their values, and what forbids those that are not allowed."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.core.frames import import_pandas
from solvent.errors import SolventError, printable, quote
from solvent.model.amounts import short_amount
from solvent.verification.report import Witness, render

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Why an outcome forbids an action, with a summary each.
REASONS = {
    "limit": "a limit is broken after this step",
    "end": "the episode ends in a state in which it must not end",
    "goal": "from there on, no state in which the episode may end can be reached within the limits",
    "later": "from there on, every policy can break a limit or end where it must not",
}
#: Histories that are printed; `to_dict` has all.
_MOST_HISTORIES = 3


@dataclass(frozen=True)
class ForbiddingOutcome:
    """An outcome that forbids an action, since after it no policy is safe.

    Attributes
    ----------
    probability : float
    next_state : hashable
    cost, spent : dict of str to Fraction
        For each limited resource, the cost of the outcome, and what has been spent after it.
    reason : {"limit", "end", "goal", "later"}
        A limit is broken after this step; the episode ends in a state in which it must not end; no state in which it
        may end can be reached any more within the limits; or every policy can break a limit, or end in such a state,
        from there on.
    resource : str or None
        The resource whose limit is broken after this step.
    limit : Fraction or None
        That limit.
    history : Witness or None
        If the reason is "goal" or "later": how it goes on, in the shortest history in which a limit is broken, or that
        ends in a state in which it must not end, although the most careful policy is followed: one that keeps the
        limits for as long as any policy can, at the least expense, or, if limits are not to blame, that ends where it
        may with the greatest probability. None if there was no time to find it.
    """

    probability: float
    next_state: Hashable
    cost: Mapping[str, Fraction]
    spent: Mapping[str, Fraction]
    reason: str
    resource: str | None = None
    limit: Fraction | None = None
    history: Witness | None = None

    def __str__(self) -> str:
        return printable(f"{self.event()}: {self.consequence()}")

    def event(self) -> str:
        """Return what happens, as text."""
        costs = ", ".join(f"{name} {short_amount(cost)}" for name, cost in self.cost.items())
        sure = "" if self.probability >= 1 else f" with probability {self.probability:.6g}"
        return f"leads to {quote(self.next_state)}{sure}" + (f" and costs {costs}" if costs else "")

    def consequence(self) -> str:
        """Return why that must not happen, as text."""
        if self.reason == "limit":
            assert self.resource is not None
            assert self.limit is not None
            amount = self.spent[self.resource]
            side = "more than" if amount > self.limit else "less than"
            return f"{short_amount(amount)} of {self.resource} spent, {side} the limit of {short_amount(self.limit)}"
        if self.reason == "end":
            return "the episode ends there, outside must_end_in"
        spent = ", ".join(f"{name} {short_amount(amount)}" for name, amount in self.spent.items())
        given = f"with {spent} spent, " if spent else ""
        if self.reason == "goal":
            return f"{given}must_end_in cannot be reached any more within the limits"
        if self.history is None:
            return f"{given}no policy is safe from there on"
        return f"{given}{_doom(self.history)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values: exact amounts as text, names as in model files."""
        return {
            "probability": self.probability,
            "next_state": _name(self.next_state),
            "cost": _amounts(self.cost),
            "spent": _amounts(self.spent),
            "reason": self.reason,
            "resource": self.resource,
            "limit": None if self.limit is None else str(self.limit),
            "history": None if self.history is None else history_to_list(self.history),
            "text": str(self),
        }


def _doom(history: Witness) -> str:
    """Return what every policy can do at the end of a history, as text."""
    if history.resource is not None:
        return f"every policy can break a limit at or before step {history.steps[-1].step}"
    return f"every policy that keeps the limits can end outside must_end_in, for example in {quote(history.ends_in)}"


def history_to_list(history: Witness) -> list[dict[str, Any]]:
    """Return the steps of a history as plain values."""
    return [
        {
            "step": each.step,
            "state": _name(each.state),
            "action": _name(each.action),
            "cost": {name: str(cost) for name, cost in each.cost.items()},
            "next_state": _name(each.next_state),
            "spent": _amounts(each.spent),
        }
        for each in history.steps
    ]


@dataclass(frozen=True)
class Option:
    """One action of the state, and what it is worth.

    Attributes
    ----------
    action : hashable
    probability : float
        With which the policy takes it at this node; 0 if it does not.
    reward : float
        Expected reward of the step.
    allowed : bool or None
        Whether some policy that takes it now never breaks a limit and always ends where it may; None if there was no
        time to find out.
    value : float or None
        The optimal value from here on if it is taken now; minus infinity if it is not allowed, None if unknown.
    forbidden_by : ForbiddingOutcome or None
        An outcome that forbids it.
    """

    action: Hashable
    probability: float
    reward: float
    allowed: bool | None
    value: float | None
    forbidden_by: ForbiddingOutcome | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the action as plain values; a value is None if it is unknown or the action is not allowed."""
        known = self.value is not None and math.isfinite(self.value)
        return {
            "action": _name(self.action),
            "probability": self.probability,
            "reward": self.reward,
            "allowed": self.allowed,
            "value": self.value if known else None,
            "forbidden_by": None if self.forbidden_by is None else self.forbidden_by.to_dict(),
        }


@dataclass(frozen=True)
class Explanation:
    """Why a policy does what it does at one node (step, state, spent); `print` shows it as a table.

    Made by `Solution.explain` and `solvent.explain`.

    Attributes
    ----------
    step : int
    state : hashable
    spent : dict of str to Fraction
        What has been spent of each limited resource before this step.
    remaining : dict of str to Fraction
        How much may still be spent before the next limit; see `Agent.remaining`.
    action : hashable or None
        The action that the policy takes; None if it has no decision here or chooses at random.
    reached : bool or None
        Whether the policy can get here; None if that was not determined.
    options : tuple of Option
        All actions of the state, in the order of the model; empty if the episode is over.
    feasible : bool or None
        Whether some policy is safe from here on; None if there was no time to find out.
    value : float or None
        The optimal value from here on; minus infinity if no policy is safe, None if unknown.
    notes : tuple of str
        What else must be known to read this: rounded costs, a search that was cut short.
    """

    step: int
    state: Hashable
    spent: Mapping[str, Fraction]
    remaining: Mapping[str, Fraction]
    action: Hashable | None
    reached: bool | None
    options: tuple[Option, ...]
    feasible: bool | None
    value: float | None
    notes: tuple[str, ...] = ()

    def __getitem__(self, action: Hashable) -> Option:
        for option in self.options:
            if option.action == action:
                return option
        known = ", ".join(quote(option.action) for option in self.options) or "none"
        raise SolventError(f"action: expected one of {known}, found {quote(action)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values: exact amounts as text, infinite and unknown values as None."""
        known = self.value is not None and math.isfinite(self.value)
        return {
            "step": self.step,
            "state": _name(self.state),
            "spent": _amounts(self.spent),
            "remaining": _amounts(self.remaining),
            "action": _name(self.action),
            "reached": self.reached,
            "feasible": self.feasible,
            "value": self.value if known else None,
            "options": [option.to_dict() for option in self.options],
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Return the actions as a pandas DataFrame, one row each.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        columns: dict[str, Any] = {
            "action": pd.Series([option.action for option in self.options], dtype=object),
            "probability": [option.probability for option in self.options],
            "reward": [option.reward for option in self.options],
            "allowed": pd.Series([option.allowed for option in self.options], dtype="boolean"),
            "value": [math.nan if option.value is None else option.value for option in self.options],
            "forbidden_by": pd.Series(
                ["" if option.forbidden_by is None else str(option.forbidden_by) for option in self.options],
                dtype=object,
            ),
        }
        return pd.DataFrame(columns)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        lines: list[RenderableType] = [Text(line) for line in self._head()]
        if self.options:
            table = Table()
            for heading in ("", "action"):
                table.add_column(heading)
            table.add_column("value", justify="right")
            table.add_column("because")
            for option in self._ordered():
                table.add_row(_mark(option), str(option.action), _value(option), self._because(option))
            lines.append(table)
        causes = [(option.action, option.forbidden_by) for option in self._ordered()]
        told = [
            (action, cause.event(), cause.history)
            for action, cause in causes
            if cause is not None and cause.reason == "later" and cause.history is not None and cause.history.steps
        ]
        shown: list[Witness] = []
        for action, event, history in told[:_MOST_HISTORIES]:
            what = f"{action}: if it {event}, even the most careful policy"
            lines += [Text(f"{what} fails in the same way")] if history in shown else [Text(what), history]
            shown.append(history)
        if len(told) > _MOST_HISTORIES:
            lines.append(Text(f"histories of {len(told) - _MOST_HISTORIES} more actions are in JSON and in to_dict()"))
        return Group(*lines, *(Text(f"note: {note}") for note in self.notes))

    def _head(self) -> list[str]:
        spent = [f"{name} {short_amount(amount)} spent" for name, amount in self.spent.items()]
        left = [
            f"{name} {short_amount(amount)} remaining"
            if amount >= 0
            else f"{name} {short_amount(-amount)} beyond its limit"
            for name, amount in self.remaining.items()
        ]
        place = ", ".join([f"step {self.step}", f"state {self.state}", *spent, *left])
        if not self.options:
            verdict = "the episode is over" + ("" if self.feasible else ", in a way in which it must not end")
        elif self.feasible is None:
            verdict = "the search was cut short"
        elif not self.feasible:
            verdict = "no policy is safe from here on"
        else:
            verdict = f"the best policy from here on is worth {_number(self.value)}"
        reached = {True: "the policy can get here", False: "the policy never gets here"}
        known = [] if self.reached is None else [reached[self.reached]]
        return [place, "; ".join([*known, verdict])]

    def _ordered(self) -> list[Option]:
        """Return what the policy does first, then by value."""
        return sorted(
            self.options,
            key=lambda o: (
                -o.probability,
                o.allowed is not True,
                0.0 if not o.allowed or o.value is None else -o.value,
            ),
        )

    def _because(self, option: Option) -> str:
        if option.forbidden_by is not None:
            return str(option.forbidden_by)
        if option.allowed is None or option.value is None or self.value is None:
            return "cut short"
        if option.allowed is False:
            return "no policy is safe after it"
        less = self.value - option.value
        close = less <= 1e-9 * max(1.0, abs(self.value))
        return "the best" if close else f"{_number(less)} less"

    def __str__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _mark(option: Option) -> str:
    if not option.probability:
        return ""
    return ">" if option.probability >= 1 else f"{100 * option.probability:.3g} %"


def _value(option: Option) -> str:
    if option.allowed is False:
        return "not allowed"
    return _number(option.value)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def _amounts(amounts: Mapping[str, Fraction | None]) -> dict[str, str | None]:
    return {name: None if amount is None else str(amount) for name, amount in amounts.items()}


def _name(value: Any) -> Any:
    """Return the name of a state or an action as in model files; any other object as its text."""
    if isinstance(value, tuple):
        return [_name(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
