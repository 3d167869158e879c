"""What can go wrong with a policy: it is asked what it does not know, or the world leaves its model."""

from __future__ import annotations

from collections.abc import Hashable

from solvent.errors import SolventError, quote


class PolicyError(SolventError, ValueError):
    """A policy has no answer, does not fit its model, or is used out of turn.

    Parameters
    ----------
    where : str
        The place: a step, state and what was spent, or a file.
    expected : str
        What would have been right there.
    found : str
        What stood there instead.
    hint : str
        What to do about it, where that is not obvious.

    Examples
    --------
    >>> print(PolicyError("step 9", "a step from 0 to 4", "9"))
    step 9: expected a step from 0 to 4, found 9
    """

    def __init__(self, where: str, expected: str, found: str, hint: str = "") -> None:
        self.where, self.expected, self.found, self.hint = where, expected, found, hint
        super().__init__(where, expected, found, hint)

    def __str__(self) -> str:
        text = f"{self.where}: expected {self.expected}, found {self.found}"
        return f"{text}; {self.hint}" if self.hint else text


class UnmodelledOutcome(PolicyError):  # noqa: N818
    """What was observed is impossible in the model, so its guarantees have ended.

    Parameters
    ----------
    step : int
    state, action : hashable
        Where, and what was done.
    observed : str
        What came of it.
    possible : tuple of str
        What the model allows there.
    """

    def __init__(self, step: int, state: Hashable, action: Hashable, observed: str, possible: tuple[str, ...]) -> None:
        self.step, self.state, self.action, self.observed, self.possible = step, state, action, observed, possible
        shown = " or ".join(possible[:6]) + (f" or {len(possible) - 6} more" if len(possible) > 6 else "")
        super().__init__(f"step {step}, state {quote(state)}, action {quote(action)}", shown, observed)

    def __reduce__(self) -> tuple[type[UnmodelledOutcome], tuple[object, ...]]:
        return type(self), (self.step, self.state, self.action, self.observed, self.possible)
