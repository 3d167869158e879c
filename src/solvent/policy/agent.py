"""Agents: follow a policy step by step, with an exact account of the amounts spent.

An agent stores what Algorithm 2 of the paper stores: the state and the amount spent of each resource, exactly. It
compares every observation with the model, because the guarantees of a policy hold for outcomes of the model only.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from solvent.errors import ModelError, PolicyError, SolventError, UnmodeledOutcome, printable, quote
from solvent.model.amounts import format_amount
from solvent.model.build import read_costs
from solvent.model.cmdp import CMDP
from solvent.policy.choices import FollowedPolicy, Follower
from solvent.policy.reading import Matches, Reading, find_matches, possible_texts
from solvent.policy.remaining import RemainingBudget


class Event(NamedTuple):
    """One step of an episode: step, state, action, cost by resource, and next state."""

    step: int
    state: Hashable
    action: Hashable
    cost: dict[str, Fraction]
    next_state: Hashable


class Agent:
    """Follows a policy through one episode at a time; made by `policy.agent()`.

    Parameters
    ----------
    model : CMDP
    policy : AugmentedPolicy, RandomizedPolicy or MarkovPolicy
    seed : int
        Random seed, for randomized policies.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.policy.markov import MarkovPolicy
    >>> model = instances.markov_gap()
    >>> agent = MarkovPolicy(model, [[0], [0]]).agent()
    >>> agent.act()
    0
    >>> agent.observe(state=0, cost=1)
    >>> agent.step, agent.spent, agent.remaining
    (1, {'cost': Fraction(1, 1)}, {'cost': Fraction(0, 1)})
    >>> agent.act()
    0
    >>> agent.observe(state=0, cost=2)
    Traceback (most recent call last):
    ...
    solvent.errors.UnmodeledOutcome: step 1, state 0, action 0: expected state 0 at cost 0, found state 0 at
    cost 2
    """

    def __init__(self, model: CMDP, policy: FollowedPolicy, *, seed: int = 0) -> None:
        self._follow(model, policy, policy.follower(model), seed)

    def _follow(self, model: CMDP, policy: Any, follower: Follower, seed: int) -> None:
        self.model, self.policy, self._follower = model, policy, follower
        self._remaining = RemainingBudget(follower.limits)
        self._rng = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        """Go back to the start of an episode, with nothing spent."""
        self._step = 0
        self._state = self.model.start_index
        self._spent = [Fraction(0)] * self.model.n_resources
        self._history: list[Event] = []
        self._chosen: int | None = None
        self._broken: SolventError | None = None
        self._follower.reset()

    @property
    def step(self) -> int:
        """The coming step, from 0; the horizon after the last step."""
        return self._step

    @property
    def state(self) -> Hashable:
        """The current state."""
        return self.model.states[self._state]

    @property
    def spent(self) -> dict[str, Fraction]:
        """Amount spent so far of every resource."""
        return dict(zip(self.model.resources, self._spent, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction]:
        """How much may still be spent of each limited resource before the next limit.

        The first upper limit that applies after the coming step or later, minus the amount spent. For a resource with
        lower limits only, the amount spent minus the first lower limit to come. When no limit is left, the last one
        counts. `solvent.gym.BudgetWrapper.remaining` means the same.
        """
        return self._remaining(self._step, self.spent)

    @property
    def done(self) -> bool:
        """Whether the episode is over: after the last step, or in a terminal state."""
        return self._step >= self.model.horizon or self.model.is_terminal(self._step, self._state)

    @property
    def history(self) -> list[Event]:
        """The steps of the episode so far."""
        return list(self._history)

    def act(self) -> Hashable:
        """Return the action to take now; the same one until an outcome is observed.

        Raises
        ------
        PolicyError
            If the episode is over, the policy has no decision here, or an outcome was observed that is not in the
            model.
        """
        self._refuse_if_broken("act")
        if self.done:
            raise PolicyError("act", "an episode that is not over", f"one that is over after {self._step} steps")
        if self._chosen is None:
            self._chosen = self._choose()
        return self.model.actions[self._chosen]

    def _refuse_if_broken(self, where: str) -> None:
        if self._broken is not None:
            raise PolicyError(
                where,
                "outcomes that the model allows",
                f"one that it does not ({self._broken})",
                "agent.reset() begins a new episode",
            )

    def _choose(self) -> int:
        choices = self._follower.choices(self._step, self._state)
        if choices is None:
            raise self._follower.no_decision(self._step, self._state, self._place())
        actions, weights = choices
        action = int(actions[0] if len(actions) == 1 else self._rng.choice(actions, p=weights))
        if self._row(action) is None:
            offered = [self.model.actions[self.model.row_action[row]] for row in self._rows()]
            raise PolicyError(
                self._place(), f"one of the available actions, {quote(offered)}", quote(self.model.actions[action])
            )
        return action

    def _rows(self) -> range:
        """Return the rows of the current step and state."""
        return self.model.rows(self._step, self._state)

    def _row(self, action: int) -> int | None:
        return next((row for row in self._rows() if self.model.row_action[row] == action), None)

    def _place(self) -> str:
        spent = printable(", ".join(f"{name} {format_amount(amount)}" for name, amount in self.spent.items()))
        return f"step {self._step}, state {quote(self.state)}" + (f", spent {spent}" if spent else "")

    def observe(self, state: Hashable, cost: Any = 0) -> None:
        """Take in the outcome of the last action.

        Parameters
        ----------
        state : hashable
            The next state.
        cost : number, sequence or mapping
            Cost of the step: a number if the model has one resource, else one per resource in the model's order, or a
            mapping by name (resources that are not named cost nothing). A float matches the modeled cost that rounds to
            it.

        Raises
        ------
        UnmodeledOutcome
            If this outcome is not in the model; `act` then raises an error until `reset`.
        ModelError
            If the cost does not name resources of the model, or is not one number per resource; the agent is unchanged.
        PolicyError
            If `act` was not called before.
        """
        self._refuse_if_broken("observe")
        if self._chosen is None:
            raise PolicyError("observe", "a call of act() before it", "none")
        row = self._row(self._chosen)
        assert row is not None
        matches: Matches = {}
        # costs of unknown resources are a mistake of the caller, not an unmodeled outcome: the agent stays as it was
        given = read_costs(cost, self.model.resources, "observed")
        try:
            readings = [Reading.of(c, f"cost of {r}") for c, r in zip(given, self.model.resources, strict=True)]
            matches = find_matches(self.model, row, self.model.state_index(state), readings)
        except ModelError:
            pass  # not a state of the model, or not a number: an unmodeled outcome
        if len(matches) != 1:
            self._broken = self._unmodeled(row, state, cost, ambiguous=bool(matches))
            raise self._broken
        ((next_state, costs),) = matches
        self._history.append(
            Event(
                self._step,
                self.state,
                self.model.actions[self._chosen],
                dict(zip(self.model.resources, costs, strict=True)),
                self.model.states[next_state],
            )
        )
        self._spent = [spent + c for spent, c in zip(self._spent, costs, strict=True)]
        self._follower.observe(self._step, costs)
        self._step, self._state, self._chosen = self._step + 1, next_state, None

    def _unmodeled(self, row: int, state: Hashable, cost: Any, *, ambiguous: bool) -> UnmodeledOutcome:
        assert self._chosen is not None
        found = f"state {quote(state)}" + (f" at cost {quote(cost)}" if self.model.resources else "")
        if ambiguous:
            found += ", a float that several of these round to"
        action = self.model.actions[self._chosen]
        return UnmodeledOutcome(self._step, self.state, action, found, possible_texts(self.model, row))

    def __copy__(self) -> Agent:
        """Return an agent that continues from here independently; the model and the policy are shared."""
        twin = object.__new__(type(self))
        twin.__dict__ = dict(self.__dict__)
        twin._rng = copy.deepcopy(self._rng)
        twin._history = list(self._history)
        twin._follower = copy.copy(self._follower)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Agent:
        return copy.copy(self)

    def __repr__(self) -> str:
        return f"Agent({self._place()}{', done' if self.done else ''})"
