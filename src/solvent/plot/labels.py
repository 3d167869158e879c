"""Labels in plots: names and numbers in short form, and the choice of a resource."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from solvent.errors import ModelError, did_you_mean, printable, quote
from solvent.model.amounts import format_amount
from solvent.policy.markov import MarkovPolicy

if TYPE_CHECKING:
    from solvent.model.budget import Budget
    from solvent.policy.nodes import NodeTable
    from solvent.solvers.curve import Curve
    from solvent.solvers.surface import Surface

_LONGEST_NAME = 28
_LONGEST_AMOUNT = 10
#: Most limits in a title, and most characters of one of its lines.
_MOST_PARTS, _TITLE_WIDTH = 5, 84


def short_name(name: object, longest: int = _LONGEST_NAME) -> str:
    """Return a name as one line of text of bounded length.

    Examples
    --------
    >>> short_name("to the village over the hill and back"), short_name((1, 2))
    ('to the village over the hil…', '(1, 2)')
    """
    text = printable(" ".join(str(name).split()))
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def plot_name(name: object) -> str:
    r"""Return a short name that matplotlib prints literally: not as a formula, and not hidden from legends.

    Examples
    --------
    >>> plot_name("5 $ or 6 $"), plot_name("_hidden")
    ('5 \\$ or 6 \\$', ' _hidden')
    """
    text = short_name(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def number(value: float) -> str:
    """Return a float with four digits, thousands separators, and a typographic minus sign.

    Examples
    --------
    >>> number(72.38982793), number(-0.5), number(1234567.0), number(1e-9)
    ('72.39', '−0.5', '1,234,567', '1e−09')
    """
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-", "−")


def amount(value: Fraction) -> str:
    """Return an amount exactly if that is short, otherwise as a float after "≈".

    Examples
    --------
    >>> amount(Fraction(1, 3)), amount(Fraction(-5, 2)), amount(Fraction(123456789, 1000000007))
    ('1/3', '−2.5', '≈ 0.1235')
    """
    if value.numerator.bit_length() + value.denominator.bit_length() <= 4 * _LONGEST_AMOUNT:
        text = format_amount(value)
        if len(text) <= _LONGEST_AMOUNT:
            return text.replace("-", "−")
    return f"≈ {number(float(value))}"


def choose_resource(names: Sequence[str], resource: str | None, preferred: Sequence[str] = ()) -> str:
    """Return the given resource, or the only one, or the only preferred one.

    Raises
    ------
    ModelError
        If the resource is unknown, or missing and ambiguous.

    Examples
    --------
    >>> choose_resource(["fuel"], None), choose_resource(["fuel", "risk"], None, preferred=["risk"])
    ('fuel', 'risk')
    """
    known = ", ".join(map(quote, names)) or "none"
    if resource is not None:
        if resource not in names:
            raise ModelError("resource", f"one of {known}", quote(resource), did_you_mean(resource, names))
        return resource
    for choice in (names, preferred):
        if len(choice) == 1:
            return choice[0]
    raise ModelError("resource", f"one of {known}", "none given", "pass resource=...")


def limit_texts(limits: Mapping[str, Budget]) -> dict[str, str]:
    """Return limits in words, by resource.

    Examples
    --------
    >>> from solvent.model.budget import Budget
    >>> limit_texts({"wear": Budget(3), "hours": Budget(lower=1)})
    {'wear': 'at most 3', 'hours': 'at least 1'}
    """
    return {name: limit.text for name, limit in limits.items()}


def title_text(model: str, limits: Mapping[str, str], what: str = "") -> str:
    """Return a title: what is shown, and below it which model and which budget.

    Parameters
    ----------
    model : str
        Name of the model; may be empty.
    limits : mapping of str to str
        Limits in words, by resource.
    what : str
        What the figure shows, as matplotlib prints it.

    Examples
    --------
    >>> title_text("van", {"fuel": "at most 30"}, "actions in state depot")
    'van, fuel at most 30: actions in state depot'
    >>> title_text("van", {}), title_text("", {})
    ('van', '')
    """
    parts = [plot_name(model)] if model else []
    for name, text in limits.items():
        parts.append(f"{plot_name(name)} {short_name(text, 2 * _LONGEST_NAME).replace('-', '−')}")
    if len(parts) > _MOST_PARTS:
        parts = [*parts[:_MOST_PARTS], "…"]
    whole = ", ".join(parts)
    line = f"{whole}: {what}" if whole and what else whole or what
    return "\n".join(textwrap.wrap(line, _TITLE_WIDTH))


def problem_text(policy: NodeTable | MarkovPolicy, what: str) -> str:
    """Return the title of a figure of a policy."""
    name = policy.model.name if policy.model is not None else ""
    return title_text(name, {} if isinstance(policy, MarkovPolicy) else policy.limits.texts, what)


def axis_text(curve: Curve | Surface, name: str) -> str:
    """Return what varies along a curve or a side of a surface, given the name of its resource."""
    return f"budget of {name}" if curve.vary == "budget" else f"{name} remaining at the start"


def varied_text(curve: Curve | Surface) -> str:
    """Return what varies, for a title."""
    return "budget" if curve.vary == "budget" else "what remains at the start"


def least_text(curve: Curve) -> str:
    """Return the words for the least feasible amount of a curve."""
    return "least budget" if curve.vary == "budget" else "least remaining"
