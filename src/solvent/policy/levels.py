"""Policies that keep a level: rules by state and level, and the agent that follows them without a horizon.

A rule (level, row) of a state applies from its level on, and the first rule of a state that applies is followed. Rules
are in the order in which they were found. Levels decrease within a state, so that the first rule that applies is the
one with the largest level.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import Number, exact
from solvent.errors import PolicyError, printable, quote
from solvent.model.amounts import format_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP, same
from solvent.policy.agent import Agent
from solvent.policy.snapshots import read_amount, write_amount

#: What a policy is for: survive forever, reach a reload state surely, or reach a target with probability one.
Objective = Literal["survive", "reload", "reach"]


@dataclass(frozen=True, eq=False, repr=False)
class LevelPolicy:
    """Actions by state and level; made by `survival_levels`, `reload_levels` and `reach_levels`.

    Attributes
    ----------
    model : CMDP
        The model of one step.
    objective : {"survive", "reload", "reach"}
    resource : str
    capacity, unit : Fraction
        Amounts of the largest level, and of one tick.
    reload_S, goal_S : ndarray of bool, shape (S,)
        States that set the level to the capacity, and states to reach.
    rule_indptr : ndarray of int64, shape (S + 1,)
        First rule of each state.
    rule_level, rule_row : ndarray of int64
        Least level of each rule in ticks, decreasing within a state, and its row of the model.
    after : LevelPolicy or None
        The policy to follow once a goal was reached; None if the episode then ends.
    """

    model: CMDP
    objective: Objective
    resource: str
    capacity: Fraction
    unit: Fraction
    reload_S: NDArray[np.bool_]
    goal_S: NDArray[np.bool_]
    rule_indptr: NDArray[np.int64]
    rule_level: NDArray[np.int64]
    rule_row: NDArray[np.int64]
    after: LevelPolicy | None = None

    @property
    def is_deterministic(self) -> bool:
        """True: there is one action for each state and level."""
        return True

    def action(self, state: Hashable, level: Number, *, reached: bool = False) -> Hashable:
        """Return the action to take.

        Parameters
        ----------
        state : hashable
        level : number
            What is left of the resource. In a reload state, the capacity is used instead, except for the objective
            "reload", whose episodes may begin there.
        reached : bool
            Whether a target was reached before; for the objective "reach".

        Raises
        ------
        PolicyError
            If the level is too low, the state is terminal, or the episode ends there.
        """
        index = self.model.state_index(state)
        amount = exact(level, "level")
        row = self.row(index, amount, reached=reached)
        if row is None:
            raise self.no_decision(index, amount, reached=reached)
        return self.model.actions[int(self.model.row_action[row])]

    def rules(self, state: Hashable) -> tuple[tuple[Fraction, Hashable], ...]:
        """Return the rules of a state as (least level, action); the first one that applies is followed."""
        index = self.model.state_index(state)
        return tuple(
            (int(self.rule_level[i]) * self.unit, self.model.actions[int(self.model.row_action[self.rule_row[i]])])
            for i in range(int(self.rule_indptr[index]), int(self.rule_indptr[index + 1]))
        )

    def row(self, state: int, level: Fraction, *, reached: bool = False) -> int | None:
        """Return the row of the model to take in a state (by position), or None."""
        if self.objective == "reach" and (reached or self.goal_S[state]):
            return None if self.after is None else self.after.row(state, level)
        if self.reload_S[state] and self.objective != "reload":
            level = self.capacity
        ticks = level // self.unit
        for i in range(int(self.rule_indptr[state]), int(self.rule_indptr[state + 1])):
            if self.rule_level[i] <= ticks:
                return int(self.rule_row[i])
        return None

    def no_decision(self, state: int, level: Fraction, *, reached: bool = False) -> PolicyError:
        """Return the error for a state and level without a decision."""
        place = f"state {quote(self.model.states[state])}, level {format_amount(level)}"
        if self.model.is_terminal(0, state):
            return PolicyError(place, "a state with actions", "a terminal state")
        if self.objective == "reach" and (reached or self.goal_S[state]):
            if self.after is None:
                return PolicyError(place, "an episode that is not over", "one that has reached a target")
            return self.after.no_decision(state, level)
        first, last = (int(i) for i in self.rule_indptr[state : state + 2])
        if first == last:
            return PolicyError(
                place, f"a state from which {_PURPOSES[self.objective]} is possible", "one from which it is not"
            )
        least = int(self.rule_level[last - 1]) * self.unit
        return PolicyError(place, f"a level of at least {format_amount(least)}", format_amount(level))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LevelPolicy):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)

    def __hash__(self) -> int:
        return hash((self.objective, self.resource, self.capacity, len(self.rule_row)))

    def __repr__(self) -> str:
        return f"LevelPolicy({self.objective}, {printable(self.resource)}, {len(self.rule_row):,} rules)"

    def _repr_html_(self) -> str:
        from solvent.policy.display import level_card

        return level_card(self)


#: Objectives in words, for messages.
_PURPOSES: dict[str, str] = {
    "survive": "surviving",
    "reload": "reaching a reload state",
    "reach": "reaching a target",
}


class LevelFollower:
    """Follows a level policy through one episode at a time.

    Parameters
    ----------
    policy : LevelPolicy
    state : int
        Position of the first state.
    level : Fraction
        Level at the start.
    """

    limits = Limits((), (), ())  # there is no budget: the level is kept by the follower

    def __init__(self, policy: LevelPolicy, state: int, level: Fraction) -> None:
        self._policy, self._state, self._level = policy, state, level
        self._resource = policy.model.resource_index(policy.resource)
        self.reset()

    def reset(self) -> None:
        """Begin a new episode."""
        self.level, self.reached = self._level, False
        self.arrive(self._state, first=True)

    def arrive(self, state: int, *, first: bool = False) -> None:
        """Take in the state that was reached: reload, and note whether it is a goal."""
        if not (first and self._policy.objective == "reload"):
            self.reached = self.reached or bool(self._policy.goal_S[state])
            if self._policy.reload_S[state]:
                self.level = self._policy.capacity

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Refuse: the amounts spent do not tell the level."""
        raise PolicyError("agent", "a state and a level, or a snapshot", "amounts spent")

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return the level, and whether a goal has been reached."""
        return {"level": write_amount(self.level), "reached": self.reached}

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Continue with what `memory` returned."""
        if set(memory) != {"level", "reached"} or not isinstance(memory["reached"], bool):
            raise PolicyError("snapshot", "a level and whether a goal has been reached", quote(sorted(memory)))
        level = read_amount(memory["level"], "snapshot, level")
        if not 0 <= level <= self._policy.capacity:
            expected = f"from 0 to the capacity, {format_amount(self._policy.capacity)}"
            raise PolicyError("snapshot, level", expected, format_amount(level))
        self.level, self.reached = level, memory["reached"]

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return position and probability of the action in a state; None if there is no decision."""
        row = self._policy.row(state, self.level, reached=self.reached)
        if row is None:
            return None
        return self._policy.model.row_action[row : row + 1].astype(np.int64), np.ones(1)

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a state and level without a decision."""
        return self._policy.no_decision(state, self.level, reached=self.reached)

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Subtract the cost of a step from the level."""
        self.level = min(self.level - costs[self._resource], self._policy.capacity)

    def __copy__(self) -> LevelFollower:
        """Return a follower that continues from here independently."""
        twin = object.__new__(type(self))
        twin.__dict__ = dict(self.__dict__)
        return twin


class LevelAgent(Agent):
    """Follows a level policy, without a horizon; made by `Levels.agent`.

    Parameters
    ----------
    policy : LevelPolicy
    state : hashable
        First state.
    level : Fraction
        Level at the start.
    snapshot : mapping, optional
        What `snapshot` of another agent returned; it goes on from there.

    Raises
    ------
    PolicyError
        If the level is not between 0 and the capacity, or too low for the state.
    """

    _follower: LevelFollower

    def __init__(
        self, policy: LevelPolicy, state: Hashable, level: Fraction, snapshot: Mapping[str, Any] | None = None
    ) -> None:
        self._begin = policy.model.state_index(state)
        if not 0 <= level <= policy.capacity:
            raise PolicyError(
                "level", f"from 0 to the capacity, {format_amount(policy.capacity)}", format_amount(level)
            )
        self._initial: dict[str, Fraction] = {}
        follower = LevelFollower(policy, self._begin, level)
        self._follow(policy.model, policy, follower, 0, step=None, state=None, spent=None, snapshot=snapshot)
        if not self.done and self._follower.choices(0, self._state) is None:
            raise policy.no_decision(self._state, self.level, reached=self.reached)

    def reset(self, state: Hashable = None) -> None:
        """Go back to where the agent began; `state` must be None."""
        if state is not None:
            raise PolicyError("reset", "no state", quote(state), "levels.agent(state, level) begins elsewhere")
        super().reset()

    def _first_state(self, state: Hashable) -> int:
        return self._begin

    def _last_step(self) -> None:
        return None

    @property
    def level(self) -> Fraction:
        """What is left of the resource; the capacity in a reload state."""
        return self._follower.level

    @property
    def reached(self) -> bool:
        """Whether a target, or for `reload_levels` a reload state, has been reached."""
        return self._follower.reached

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The level, by resource."""
        return {self.policy.resource: self.level}

    @property
    def done(self) -> bool:
        """Whether the episode is over: in a terminal state, or if all that was to be reached has been reached."""
        ended = self.reached and self.policy.after is None
        return ended or self.model.is_terminal(0, self._state)

    def observe(self, state: Hashable, cost: Any = 0) -> None:
        """Take in the outcome of the last action; see `Agent.observe`."""
        super().observe(state, cost)
        self._follower.arrive(self._state)

    def _rows(self) -> range:
        return self.model.rows(0, self._state)

    def _place(self) -> str:
        level = f"{printable(self.policy.resource)} {format_amount(self.level)}"
        return f"step {self._step}, state {quote(self.state)}, level {level}"

    def __repr__(self) -> str:
        return f"LevelAgent({self._place()}{', done' if self.done else ''})"
