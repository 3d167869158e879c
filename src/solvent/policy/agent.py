"""Agents: follow a policy step by step, with an exact account of the amounts spent.

An agent stores what Algorithm 2 of the paper stores: the state and the amount spent of each resource, exactly. It
compares every observation with the model, because the guarantees of a policy hold for outcomes of the model only.

What has been spent begins with the initial amounts of the budget's limits, and saturates as the model says. An agent
can begin in the middle of an episode, where another one stopped (`snapshot`).
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from solvent.errors import BudgetError, ModelError, PolicyError, SolventError, UnmodeledOutcome, printable, quote
from solvent.formats.encoding import decode_name, encode_name
from solvent.model.amounts import format_amount
from solvent.model.budget import Limits, SpentLike, read_spent
from solvent.model.build import read_costs
from solvent.model.cmdp import CMDP
from solvent.policy.choices import FollowedPolicy, Follower
from solvent.policy.reading import Matches, Reading, find_matches, possible_texts
from solvent.policy.remaining import RemainingBudget
from solvent.policy.snapshots import (
    OWN_FIELDS,
    SNAPSHOT,
    check_snapshot,
    read_amounts,
    read_generator,
    write_amounts,
    write_generator,
)

#: How many possible first states a message lists.
_MOST_LISTED = 6


class Event(NamedTuple):
    """One step of an episode: step, state, action, cost by resource, and next state."""

    step: int
    state: Hashable
    action: Hashable
    cost: dict[str, Fraction]
    next_state: Hashable


class Beginning(NamedTuple):
    """Where an agent begins: step, state by position, amounts spent, the policy's memory, and a chosen action, if any.

    The memory is None at the start of an episode.
    """

    step: int
    state: int
    spent: tuple[Fraction, ...]
    memory: Mapping[str, Any] | None = None
    chosen: int | None = None


def initial_amounts(limits: Limits) -> dict[str, Fraction]:
    """Return what has been spent before the first step of each tracked resource, where it is not 0."""
    return {name: amount for name, amount in zip(limits.resources, limits.initial, strict=True) if amount}


class Agent:
    """Follows a policy through one episode at a time; made by `policy.agent()`.

    Parameters
    ----------
    model : CMDP
    policy : AugmentedPolicy, RandomizedPolicy or MarkovPolicy
    seed : int
        Random seed, for randomized policies.
    step : int, optional
        The coming step, to resume in the middle of an episode. Default: 0.
    state : hashable, optional
        The current state: required after step 0, and at step 0 if the model has several possible first states.
    spent : number, or mapping of numbers by resource, optional
        What has been spent before `step`: required after step 0 for each limited resource. Default: the initial amounts
        of the policy's limits, and 0 of other resources.
    snapshot : mapping, optional
        What `snapshot` of another agent returned; then step, state and spent must not be given, and the random numbers
        continue as those of the other agent.

    Raises
    ------
    PolicyError
        If it is not possible to begin there, or the policy has no decision there.

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

    Resume where it stopped:

    >>> agent = MarkovPolicy(model, [[0], [0]]).agent(step=1, state=0, spent=1)
    >>> agent.remaining
    {'cost': Fraction(0, 1)}
    """

    def __init__(
        self,
        model: CMDP,
        policy: FollowedPolicy,
        *,
        seed: int = 0,
        step: int | None = None,
        state: Hashable = None,
        spent: SpentLike | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        follower = policy.follower(model)
        self._initial = initial_amounts(follower.limits)
        self._follow(model, policy, follower, seed, step=step, state=state, spent=spent, snapshot=snapshot)

    def _follow(
        self,
        model: CMDP,
        policy: Any,
        follower: Follower,
        seed: int,
        *,
        step: int | None,
        state: Hashable,
        spent: SpentLike | None,
        snapshot: Mapping[str, Any] | None,
    ) -> None:
        self.model, self.policy, self._follower = model, policy, follower
        self._resources = [model.resource(name) for name in model.resources] if model.is_saturating else None
        self._remaining = RemainingBudget(follower.limits)
        self._rng = np.random.default_rng(seed)
        if snapshot is not None:
            if any(each is not None for each in (step, state, spent)):
                raise PolicyError("agent", "a snapshot, or step, state and spent", "both")
            self._beginning = self._read_snapshot(snapshot)
        elif step is None and spent is None:
            self._beginning = self._first(state)
        else:
            self._beginning = self._resumed(step, state, spent)
        self._go(self._beginning)

    def _first(self, state: Hashable) -> Beginning:
        """Return the start of an episode, in the given first state if it is not None."""
        return Beginning(0, self._first_state(state), self._read_spent(0, None))

    def _first_state(self, state: Hashable) -> int:
        possible = self.model.start_states.tolist()
        listed = " or ".join(quote(self.model.states[s]) for s in possible[:_MOST_LISTED])
        listed += ", ..." if len(possible) > _MOST_LISTED else ""
        if state is None and len(possible) > 1:
            expected = f"the state in which the episode begins, {listed}"
            raise PolicyError("agent, state", expected, "none", "use policy.agent(state=...)")
        index: int = possible[0] if state is None else self._find_state(state)
        if index not in possible:
            hint = "to resume in the middle of an episode, also give step and spent"
            raise PolicyError("agent, state", f"a possible first state, {listed}", quote(state), hint)
        return index

    def _resumed(self, step: Any, state: Hashable, spent: Any) -> Beginning:
        """Return a place within an episode, after checking that the policy has a decision there."""
        step = self._check_step(0 if step is None else step, "agent, step")
        if state is None and step > 0:
            raise PolicyError(
                "agent, state", f"the state at step {step}", "none", "use policy.agent(step=, state=, spent=)"
            )
        index = self._first_state(None) if state is None else self._find_state(state)
        amounts = self._read_spent(step, spent)
        follower = copy.copy(self._follower)
        follower.resume(step, amounts)
        beginning = Beginning(step, index, amounts, follower.memory(amounts))
        self._go(beginning)
        if not self.done and follower.choices(step, index) is None:
            error = follower.no_decision(step, index, f"agent, {self._place()}")
            hint = error.hint or "a snapshot of the agent that stopped resumes where the policy led to"
            raise PolicyError(error.where, error.expected, error.found, hint)
        return beginning

    def _check_step(self, step: Any, where: str) -> int:
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool | np.timedelta64)
        last = self._last_step()
        if not whole or step < 0 or (last is not None and step > last):
            raise PolicyError(where, "a step from 0" + ("" if last is None else f" to {last}"), quote(step))
        return int(step)

    @property
    def _fingerprint(self) -> str:
        """Fingerprint of the model, which snapshots have."""
        return self.model.fingerprint

    def _last_step(self) -> int | None:
        """Return the step after which there is none; None if there always is one."""
        return self.model.horizon

    def _limited(self) -> tuple[str, ...]:
        """Return the resources whose amounts matter."""
        return self._follower.limits.resources

    def _find_state(self, state: Hashable) -> int:
        try:
            return self.model.state_index(state)
        except ModelError as error:
            raise PolicyError("agent, state", error.expected, error.found, error.hint) from None

    def _read_spent(self, step: int, spent: Any) -> tuple[Fraction, ...]:
        """Return the amounts spent before a step, one per resource of the model."""
        limited = self._limited()
        if spent is not None and not isinstance(spent, Mapping) and len(limited) == 1:
            spent = {limited[0]: spent}
        try:
            given = spent if isinstance(spent, Mapping) or spent is None else read_spent(self.model, spent)
            given = dict(given or {})
            if step == 0:
                given = {**self._unlimited(), **self._initial, **given}
            unknown = [name for name in given if name not in self.model.resources]
            for name in limited if step > 0 and not unknown else ():
                if name not in given:
                    expected = f"what has been spent of {quote(name)} before step {step}"
                    raise PolicyError("agent, spent", expected, "none" if spent is None else quote(spent))
            return tuple(read_spent(self.model, given).values())
        except BudgetError as error:
            raise PolicyError(f"agent, {error.where}", error.expected, error.found, error.hint) from None

    def _unlimited(self) -> dict[str, Fraction]:
        """Return where accounts without limits begin if that is not 0: at the nearest amount at which they can be."""
        amounts = {each.name: each.clamp(Fraction(0)) for each in self._resources or ()}
        return {name: amount for name, amount in amounts.items() if amount and name not in self._limited()}

    def _go(self, beginning: Beginning) -> None:
        self._step, self._state, spent, memory, self._chosen = beginning
        self._spent = list(spent)
        self._history: list[Event] = []
        self._broken: SolventError | None = None
        if memory is None:
            self._follower.reset()
        else:
            self._follower.restore(self._step, spent, memory)

    def reset(self, state: Hashable = None) -> None:
        """Go back to where the agent began, with the same amounts spent; random numbers continue.

        Parameters
        ----------
        state : hashable, optional
            A possible first state, to begin a new episode there at step 0 instead.

        Raises
        ------
        PolicyError
            If it is not a possible first state; the agent is unchanged.
        """
        if state is not None:
            self._beginning = self._first(state)
        self._go(self._beginning)

    def snapshot(self) -> dict[str, Any]:
        """Return what another agent needs to continue from here, as JSON can hold it.

        `policy.agent(snapshot=...)` returns an agent that behaves as this one from here on, random numbers included;
        its history begins empty. Amounts are exact text; for a policy on rounded costs, the amounts that it has counted
        are included.

        Raises
        ------
        PolicyError
            If an outcome was observed that is not in the model.
        ModelError
            If JSON cannot hold the name of the state or of the chosen action.

        Examples
        --------
        >>> import json
        >>> from solvent.model import instances
        >>> from solvent.policy.markov import MarkovPolicy
        >>> policy = MarkovPolicy(instances.markov_gap(), [[0], [0]])
        >>> agent = policy.agent()
        >>> _ = agent.act()
        >>> agent.observe(state=0, cost=1)
        >>> text = json.dumps(agent.snapshot())
        >>> policy.agent(snapshot=json.loads(text))
        Agent(step 1, state 0, spent cost 1)
        """
        self._refuse_if_broken("snapshot")
        spent = list(self.spent.values())
        found: dict[str, Any] = {
            "solvent_agent": SNAPSHOT,
            "fingerprint": self._fingerprint,
            "step": self._step,
            "state": encode_name(self.state, "state"),
            "spent": write_amounts(self.model.resources, spent),
            **self._follower.memory(spent),
        }
        if self._chosen is not None:
            found["action"] = encode_name(self.model.actions[self._chosen], "action")
        if not self.policy.is_deterministic:
            found["random"] = write_generator(self._rng)
        return found

    def _read_snapshot(self, given: Any) -> Beginning:
        """Return where an agent stopped, and take over its random numbers."""
        fields = check_snapshot(given, self._fingerprint)
        step = self._check_step(fields["step"], "snapshot, step")
        state = self._read_name(fields["state"], "state")
        spent = tuple(read_amounts(fields["spent"], self.model.resources, "snapshot, spent"))
        for amount, resource in zip(spent, self._resources or (), strict=bool(self._resources)):
            if resource.clamp(amount) != amount:
                expected = f"an amount within the ends of {resource!r}"
                raise PolicyError(f"snapshot, spent, {resource.name}", expected, format_amount(amount))
        if self.policy.is_deterministic == ("random" in fields):
            expected = f"{'no' if self.policy.is_deterministic else 'the'} state of a random number generator"
            raise PolicyError("snapshot, random", expected, "one" if "random" in fields else "none")
        if "random" in fields:
            self._rng = read_generator(fields["random"])
        chosen = self._read_name(fields["action"], "action") if "action" in fields else None
        memory = {name: value for name, value in fields.items() if name not in OWN_FIELDS}
        beginning = Beginning(step, state, spent, memory)
        self._go(beginning)
        if chosen is not None and (self.done or self._row(chosen) is None):
            found = quote(self.model.actions[chosen])
            raise PolicyError("snapshot, action", f"an action that is available at {self._place()}", found)
        if not self.done:
            self._check_decision(chosen)
        return beginning._replace(chosen=chosen)

    def _check_decision(self, chosen: int | None) -> None:
        """Refuse a snapshot where the policy has no decision, or whose action the policy does not take there."""
        choices = self._follower.choices(self._step, self._state)
        hint = "a snapshot is for the policy that was followed, with the same budget"
        if choices is None:
            error = self._follower.no_decision(self._step, self._state, f"snapshot, {self._place()}")
            raise PolicyError(error.where, error.expected, error.found, error.hint or hint)
        if chosen is not None and chosen not in choices[0][choices[1] > 0]:
            found = quote(self.model.actions[chosen])
            raise PolicyError("snapshot, action", f"an action that the policy takes at {self._place()}", found, hint)

    def _read_name(self, given: Any, kind: str) -> int:
        where = f"snapshot, {kind}"
        find = self.model.state_index if kind == "state" else self.model.action_index
        try:
            return find(decode_name(given, where))
        except ModelError as error:
            raise PolicyError(where, error.expected, error.found, error.hint) from None
        except RecursionError:
            raise PolicyError(where, f"the name of one of the model's {kind}s", "one nested too deeply") from None

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
        """Amount spent so far of every resource, after saturation: `cost` in the history is the observed cost."""
        return dict(zip(self.model.resources, self._spent, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction]:
        """How much may still be spent of each limited resource before the next limit.

        The first upper limit that applies after the coming step or later, minus the amount spent, also if the resource
        saturates. For a resource with
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
        self._refuse_if_over("act")
        if self._chosen is None:
            self._chosen = self._choose()
        return self.model.actions[self._chosen]

    def _refuse_if_over(self, where: str) -> None:
        if self.done:
            raise PolicyError(where, "an episode that is not over", f"one that is over after {self._step} steps")

    def _refuse_if_broken(self, where: str) -> None:
        if self._broken is not None:
            raise PolicyError(
                where,
                "outcomes that the model allows",
                f"one that it does not ({self._broken})",
                "agent.reset() goes back to where the agent began",
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
            If `act` was not called before, or the episode is over.
        """
        self._refuse_if_broken("observe")
        if self._chosen is None:
            self._refuse_if_over("observe")
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
        self._add(costs)
        self._follower.observe(self._step, costs)
        self._step, self._state, self._chosen = self._step + 1, next_state, None

    def _add(self, costs: Sequence[Fraction]) -> None:
        """Add the costs of a step to the amounts spent."""
        self._spent = [spent + c for spent, c in zip(self._spent, costs, strict=True)]
        if self._resources is not None:
            self._spent = [each.clamp(spent) for each, spent in zip(self._resources, self._spent, strict=True)]

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
