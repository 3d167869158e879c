"""Snapshots of agents: what must be stored so that another agent can continue an episode, as JSON can hold it.

A snapshot is a dict with these fields; those after `spent` are there only if the policy needs them:

    solvent_agent   version of snapshots
    fingerprint     fingerprint of the model
    step, state     the coming step and the current state
    spent           amount spent of each resource, as exact text
    counted         amounts as the policy counts them, where they differ from those spent (rounded costs)
    violated        whether a limit was broken (policies that depend on it)
    tail_rule       the tail rule that is followed (discounted models)
    action          the action that was chosen, until its outcome is observed
    random          state of the random number generator (randomized policies)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.errors import PolicyError, quote

#: Version of snapshots that is written and read.
SNAPSHOT = 1
#: Fields that every snapshot has, and those that agents read themselves; others are for the policy's follower.
REQUIRED = ("solvent_agent", "fingerprint", "step", "state", "spent")
OWN_FIELDS = (*REQUIRED, "action", "random")
#: Numbers of more bits are written in hexadecimal: conversion of long numbers to decimal text is slow.
_MOST_DECIMAL_BITS = 1200
_AMOUNT = re.compile(r"(-?)(\d{1,400})(?:/(\d{1,400}))?", re.ASCII)
_HEXADECIMAL = re.compile(r"(-?)0x([0-9a-f]{1,4000000})(?:/0x([0-9a-f]{1,4000000}))?", re.ASCII)
_GENERATOR = "PCG64"


def write_amount(amount: Fraction) -> str:
    """Return an amount as text that `read_amount` reads back exactly.

    Examples
    --------
    >>> write_amount(Fraction(-3, 2)), len(write_amount(Fraction(2**100_000)))
    ('-3/2', 25003)
    """
    above, below = amount.numerator, amount.denominator
    if max(above.bit_length(), below.bit_length()) <= _MOST_DECIMAL_BITS:
        return str(amount)
    return f"{above:#x}" + (f"/{below:#x}" if below != 1 else "")


def read_amount(text: Any, where: str) -> Fraction:
    """Return the amount of a text.

    Raises
    ------
    PolicyError
        If it is not the text of a number.

    Examples
    --------
    >>> read_amount("-3/2", "spent"), read_amount(write_amount(Fraction(1, 3**9999)), "spent") == Fraction(1, 3**9999)
    (Fraction(-3, 2), True)
    """
    for form, base in ((_AMOUNT, 10), (_HEXADECIMAL, 16)):
        found = form.fullmatch(text) if isinstance(text, str) else None
        if found is not None:
            above, below = int(found[2], base), int(found[3] or "1", base)
            if below:
                return Fraction(-above if found[1] else above, below)
    raise PolicyError(where, "an exact number as text, such as '3/2'", quote(text))


def write_amounts(names: Sequence[str], amounts: Sequence[Fraction]) -> dict[str, str]:
    """Return amounts by resource, as text."""
    return {name: write_amount(amount) for name, amount in zip(names, amounts, strict=True)}


def read_amounts(given: Any, names: Sequence[str], where: str) -> list[Fraction]:
    """Return the amount of each named resource.

    Raises
    ------
    PolicyError
        If other resources are named, or an amount is not the text of a number.
    """
    if not isinstance(given, Mapping) or set(given) != set(names):
        wanted = ", ".join(map(quote, names)) or "no resource"
        raise PolicyError(where, f"an amount of {wanted} by name", quote(given))
    return [read_amount(given[name], f"{where}, {name}") for name in names]


def write_generator(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a random number generator."""
    state: Any = generator.bit_generator.state
    return {
        "bit_generator": state["bit_generator"],
        "state": f"{state['state']['state']:#x}",
        "inc": f"{state['state']['inc']:#x}",
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }


def read_generator(given: Any) -> np.random.Generator:
    """Return the random number generator of a state that `write_generator` wrote.

    Raises
    ------
    PolicyError
        If it is not such a state.

    Examples
    --------
    >>> generator = np.random.default_rng(5)
    >>> read_generator(write_generator(generator)).random() == generator.random()
    True
    """
    where = "snapshot, random"
    if not isinstance(given, Mapping) or given.get("bit_generator") != _GENERATOR:
        raise PolicyError(where, f"the state of a generator {_GENERATOR}", quote(given))
    numbers = {}
    for name in ("state", "inc"):
        text = given.get(name)
        if not isinstance(text, str) or not re.fullmatch(r"0x[0-9a-f]{1,32}", text, re.ASCII):
            raise PolicyError(f"{where}, {name}", "128 bits in hexadecimal", quote(text))
        numbers[name] = int(text, 16)
    small = {}
    for name, most in (("has_uint32", 1), ("uinteger", 2**32 - 1)):
        value = given.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise PolicyError(f"{where}, {name}", f"a whole number from 0 to {most}", quote(value))
        small[name] = value
    bits = np.random.PCG64()
    bits.state = {  # type: ignore[assignment, unused-ignore]
        "bit_generator": _GENERATOR,
        "state": {"state": numbers["state"], "inc": numbers["inc"]},
        "has_uint32": small["has_uint32"],
        "uinteger": small["uinteger"],
    }
    return np.random.Generator(bits)


def check_snapshot(given: Any, fingerprint: str) -> dict[str, Any]:
    """Return a snapshot as a dict.

    Raises
    ------
    PolicyError
        If it is not a snapshot, has another version, or is of an agent in another model.
    """
    where = "snapshot"
    if not isinstance(given, Mapping) or any(name not in given for name in REQUIRED):
        raise PolicyError(where, "what agent.snapshot() returns", quote(given))
    version = given["solvent_agent"]
    if version != SNAPSHOT or not isinstance(version, int) or isinstance(version, bool):
        newer = isinstance(version, int) and version > SNAPSHOT
        hint = "it was written by a newer version of Solvent, which is needed to read it" if newer else ""
        raise PolicyError(f"{where}, solvent_agent", str(SNAPSHOT), quote(version), hint)
    if given["fingerprint"] != fingerprint:
        raise PolicyError(
            f"{where}, fingerprint", f"that of the policy's model, {fingerprint}", quote(given["fingerprint"])
        )
    return dict(given)


def refuse_fields(fields: Mapping[str, Any]) -> None:
    """Raise a `PolicyError` if fields of a snapshot are left that the policy has no use for."""
    if fields:
        name = quote(next(iter(fields)))
        raise PolicyError("snapshot", "a snapshot of an agent that follows this policy", f"one with the field {name}")
