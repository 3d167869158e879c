"""What to read from the file of a model checker: PRISM, JANI, DRN or UMB.

Such a file states a transition system with any number of reward structures. It says neither which of them are costs,
which one is to be maximized, nor how many steps an episode has; `ProgramOptions` does.

The command line imports this module before it knows the command, so other modules are imported where they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from solvent.errors import ModelError, quote

if TYPE_CHECKING:
    from fractions import Fraction

    from solvent.model.resources import Resource

#: How to name the reward structure that has no name of its own.
UNNAMED = "unnamed"

_CONSTANT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True)
class ProgramOptions:
    """Constants, costs, reward, horizon and goal of a model that is read from a transition system.

    Attributes
    ----------
    constants : dict of str to Fraction or bool
        Values of undefined constants.
    costs : tuple of Resource
        Reward structures that are costs; each becomes a resource of the same name.
    reward : str or None
        Reward structure to maximize; with a minus sign before it, to minimize.
    horizon : int or None
        Number of steps.
    goal : str or None
        Label of the states in which every episode must end.
    """

    constants: Mapping[str, Fraction | bool] = field(default_factory=dict)
    costs: tuple[Resource, ...] = ()
    reward: str | None = None
    horizon: int | None = None
    goal: str | None = None

    @classmethod
    def of(
        cls, constants: Any = None, costs: Any = None, reward: Any = None, horizon: Any = None, goal: Any = None
    ) -> ProgramOptions:
        """Return the options that arguments of `load_model` state.

        Raises
        ------
        ModelError
            If an argument is invalid.

        Examples
        --------
        >>> ProgramOptions.of({"p": "1/3"}, ["time"], "value", 80).constants
        {'p': Fraction(1, 3)}
        """
        from solvent.model.consistency import check_horizon

        for name, text in (("reward", reward), ("goal", goal)):
            if text is not None and (not isinstance(text, str) or not text):
                raise ModelError(
                    name, f"the name of a {'label' if name == 'goal' else 'reward structure'}", quote(text)
                )
        return cls(
            _read_constants(constants),
            _read_costs(costs),
            reward,
            None if horizon is None else check_horizon(horizon),
            goal,
        )

    @property
    def given(self) -> list[str]:
        """Names of the arguments that were given."""
        return [name for name in ("constants", "costs", "reward", "horizon", "goal") if getattr(self, name)]

    @property
    def reward_name(self) -> str | None:
        """Name of the reward structure, without its sign."""
        return None if self.reward is None else self.reward.removeprefix("-")

    @property
    def reward_sign(self) -> int:
        """Minus 1 if the reward structure is to be minimized, otherwise 1."""
        return -1 if self.reward is not None and self.reward.startswith("-") else 1


def _read_constants(constants: Any) -> dict[str, Fraction | bool]:
    from solvent.core.exact import exact

    if constants is None:
        return {}
    if not isinstance(constants, Mapping):
        raise ModelError("constants", "a dict of values by name", quote(constants))
    read: dict[str, Fraction | bool] = {}
    for name, value in constants.items():
        if not isinstance(name, str) or not _CONSTANT.fullmatch(name):
            raise ModelError("constants", "names of constants", quote(name))
        text = value.strip().lower() if isinstance(value, str) else value
        truth = {"true": True, "false": False}.get(text) if isinstance(text, str) else None
        read[name] = (
            value if isinstance(value, bool) else truth if truth is not None else exact(value, f"constants, {name}")
        )
    return read


def _read_costs(costs: Any) -> tuple[Resource, ...]:
    from solvent.model.resources import Resource, as_resources

    if costs is None:
        return ()
    if isinstance(costs, str | Resource):
        costs = [costs]
    if isinstance(costs, Mapping) or not isinstance(costs, Iterable):
        raise ModelError("costs", "a list of names of reward structures", quote(costs))
    return as_resources(list(costs))
