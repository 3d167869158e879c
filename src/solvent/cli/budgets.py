"""Budgets on the command line: `fuel=30`, `fuel=10,20,30`, `fuel=0..30`, `fuel=final:30`.

    BUDGET := [RESOURCE "="] LIMITS
    LIMITS := ["final:"] LIMIT | LIMIT "," LIMIT "," ...      one limit per step
    LIMIT  := NUMBER | [NUMBER] ".." [NUMBER] | "none"

A number is an upper limit, `low..high` an interval that may be open on one side, `none` means no limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from solvent.errors import BudgetError, ModelError, did_you_mean, quote

if TYPE_CHECKING:
    from solvent.model.budget import Budget
    from solvent.model.cmdp import CMDP

_OPTION = "--budget"
_OF_MODEL = "a resource of the model"
_FORMS = "such as 30, 0..30, 10,20,30 or final:30"


def read_budget_options(
    texts: Sequence[str] | None, model: CMDP, names: Sequence[str] | None = None
) -> dict[str, Budget] | None:
    """Return the budget given by `--budget` options, or None (the model's own budget) if there are none.

    A resource that is not named has the model's own limit.

    Parameters
    ----------
    texts : sequence of str or None
    model : CMDP
    names : sequence of str, optional
        Resources that need a limit. If given, only limits of options are returned, without those of the model.

    Raises
    ------
    BudgetError
        If a text is not a budget or names an unknown resource, or if a resource has no limit from either source.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([3, 4], ["1/3", 3], capacity=4)
    >>> read_budget_options(["weight=1/3"], model)
    {'weight': Budget('1/3')}
    >>> read_budget_options(["0..2,none"], model)
    {'weight': Budget(upper=[2, None], lower=[0, None])}
    """
    from solvent.model.budget import read_budgets

    if not texts:
        return None
    parts = _by_name(texts, model.resources, _OPTION, "its limit")
    named = {name: read_limits(limits, f"{_OPTION} {text}") for name, (text, limits) in parts.items()}
    needed = model.resources if names is None else names
    missing = [name for name in needed if name not in named]
    if missing and model.budget is None:
        raise BudgetError(
            _OPTION, f"a limit for resource {quote(missing[0])}", "none, and the model has no budget of its own",
            f"add {_OPTION} {missing[0]}=LIMIT, or {_OPTION} {missing[0]}=none to leave it unlimited",
        )  # fmt: skip
    budget = named if names is not None else {name: (model.budget or {})[name] for name in missing} | named
    listed = [name for name in model.resources if name in budget]
    return read_budgets(budget, listed, model.horizon, _OPTION)


def read_spent_options(texts: Sequence[str] | None, model: CMDP) -> dict[str, Fraction] | None:
    """Return the amounts given by `--spent` options by resource; None if there are none.

    Raises
    ------
    BudgetError
        If a text is not an amount, or names an unknown resource or one twice.

    Examples
    --------
    >>> from solvent.model import instances
    >>> read_spent_options(["weight=1/3"], instances.knapsack([3, 4], [2, 3]))
    {'weight': Fraction(1, 3)}
    """
    return read_amount_options(texts, model.resources, "--spent")


def read_amount_options(
    texts: Sequence[str] | None, names: Sequence[str], option: str, kind: str = _OF_MODEL
) -> dict[str, Fraction] | None:
    """Return the amounts given by an option by resource; None if there are none.

    Parameters
    ----------
    texts : sequence of str or None
    names : sequence of str
        Resources that can be named.
    option : str
    kind : str
        What these are called in error messages.

    Raises
    ------
    BudgetError
        If a text is not an amount, or names a resource twice or one that is not in `names`.
    """
    from solvent.core.exact import exact

    if not texts:
        return None
    named: dict[str, Fraction] = {}
    for name, (text, amount) in _by_name(texts, names, option, "the amount", kind).items():
        try:
            named[name] = exact(amount.strip(), f"{option} {text}")
        except ModelError as error:
            raise BudgetError(f"{option} {text}", "an amount such as 5, 2.5 or 1/3", error.found) from None
    return named


def read_epsilon_options(texts: Sequence[str] | None, model: CMDP) -> str | dict[str, str] | None:
    """Return epsilon from `--epsilon` options: one value for all resources, or a dict by resource; None if not given.

    Raises
    ------
    ModelError
        If a text names an unknown resource, a resource is named twice, or several values have no name.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.knapsack([3, 4], [2, 3], capacity=4)
    >>> read_epsilon_options(["0.1"], model), read_epsilon_options(["weight=1/3"], model)
    ('0.1', {'weight': '1/3'})
    """
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return {name: value for name, (_, value) in _by_name(texts, model.resources, "--epsilon", "its epsilon").items()}


def _by_name(
    texts: Sequence[str], resources: Sequence[str], option: str, what: str, kind: str = _OF_MODEL
) -> dict[str, tuple[str, str]]:
    """Return the texts of an option by resource, each whole and the part after its "="."""
    named: dict[str, tuple[str, str]] = {}
    for text in texts:
        name, value = _split(text, resources, option, what, kind)
        if name in named:
            raise BudgetError(option, "each resource once", f"{quote(name)} twice")
        named[name] = text, value
    return named


def _split(text: str, resources: Sequence[str], option: str, what: str, kind: str) -> tuple[str, str]:
    """Return the resource (named, or the only one) and the text after its "="; a name may itself contain "="."""
    fitting = [name for name in resources if text.startswith(f"{name}=")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    known = ", ".join(map(quote, resources)) or "none"
    if "=" in text:
        name = text.split("=", 1)[0]
        hint = did_you_mean(name, resources)
        raise BudgetError(f"{option} {text}", f"{kind} ({known})", quote(name), hint)
    if len(resources) != 1:
        raise BudgetError(
            f"{option} {text}", f"the name of a resource ({known}) and {what}", quote(text),
            f"write {option} {resources[0]}={text}" if resources else "this model has no resources",
        )  # fmt: skip
    return resources[0], text


def read_limits(text: str, where: str = _OPTION) -> Budget:
    """Return the budget of one resource.

    Examples
    --------
    >>> read_limits("30"), read_limits("0..30"), read_limits("final:..1/3"), read_limits("none")
    (Budget(30), Budget(upper=30, lower=0), Budget.final('1/3'), Budget(None))
    """
    from solvent.model.budget import Budget

    head, colon, rest = text.partition(":")
    only_final = bool(colon)
    if only_final and head.strip() != "final":
        raise BudgetError(where, f"limits {_FORMS}", quote(text), did_you_mean(head.strip(), ["final"]))
    parts = (rest if only_final else text).split(",")
    pairs = [_read_limit(part.strip(), where) for part in parts]
    if only_final:
        if len(pairs) != 1:
            raise BudgetError(where, "one limit for the end", f"{len(pairs)} limits")
        return Budget.final(pairs[0][1], lower=pairs[0][0])
    if len(pairs) == 1:
        return Budget(upper=pairs[0][1], lower=pairs[0][0])
    lower, upper = ([pair[side] for pair in pairs] for side in (0, 1))
    return Budget(
        upper=upper if any(limit is not None for limit in upper) else None,
        lower=lower if any(limit is not None for limit in lower) else None,
    )


def _read_limit(part: str, where: str) -> tuple[Fraction | None, Fraction | None]:
    """Return the lower and the upper limit, None where open."""
    if part == "none":
        return None, None
    if ".." not in part:
        return None, _number(part, where)
    low, _, high = part.partition("..")
    if not low.strip() and not high.strip():
        raise BudgetError(where, "a number on at least one side of '..'", quote(part), "write none for no limit")
    lower = _number(low, where) if low.strip() else None
    return lower, _number(high, where) if high.strip() else None


def _number(text: str, where: str) -> Fraction:
    from solvent.core.exact import exact

    try:
        return exact(text.strip(), where)
    except ModelError:
        hint = "write none for no limit" if text.strip().lstrip("+-").lower() in ("inf", "infinity", "") else ""
        raise BudgetError(where, f"a limit {_FORMS}", quote(text.strip()), hint) from None
