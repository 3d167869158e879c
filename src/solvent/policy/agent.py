"""The interaction protocol: act, observe, and never lose count.

The agent holds what the paper's Algorithm 2 holds, the state and what was spent of each resource, exactly. It compares
what it is told with the model, since a guarantee that rests on the model ends where the world leaves it.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from solvent.errors import ModelError, PolicyError, SolventError, UnmodeledOutcome, printable, quote
from solvent.model.amounts import format_amount
from solvent.model.budget import Limits, resolve
from solvent.model.build import read_costs
from solvent.model.cmdp import CMDP
from solvent.policy.markov import MarkovPolicy, RandomizedPolicy
from solvent.policy.nodes import NO_NODE, NodeTable
from solvent.policy.reading import Matches, Reading, find_matches, possible_texts
from solvent.policy.table import AugmentedPolicy
from solvent.policy.until_violation import UntilViolationPolicy

_NO_LIMITS = Limits((), (), ())


class Event(NamedTuple):
    """One step that has been taken: what was done where, what it cost, and where it led."""

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
        Of its choices, if it makes any at random.

    Examples
    --------
    >>> from solvent.model import instances
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

    def __init__(self, model: CMDP, policy: NodeTable | MarkovPolicy, *, seed: int = 0) -> None:
        self.model, self.policy = model, policy
        self._rng = np.random.default_rng(seed)
        if isinstance(policy, NodeTable):
            policy.check_model(model)
            self._limits = policy.limits
            self._tracked = [model.resource_index(name) for name in policy.resources]
        else:
            self._limits = resolve(model, None) if model.budget is not None else _NO_LIMITS
            self._tracked = []
        self.reset()

    def reset(self) -> None:
        """Go back to the start of an episode, with nothing spent."""
        self._step = 0
        self._state = self.model.start_index
        self._spent = [Fraction(0)] * self.model.n_resources
        self._counted = [0] * len(self._tracked)
        self._lapsed = False
        self._history: list[Event] = []
        self._chosen: int | None = None
        self._broken: SolventError | None = None

    @property
    def step(self) -> int:
        """The coming step, from 0; the horizon when all are taken."""
        return self._step

    @property
    def state(self) -> Hashable:
        """Where it is."""
        return self.model.states[self._state]

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent so far of every resource."""
        return dict(zip(self.model.resources, self._spent, strict=True))

    @property
    def remaining(self) -> dict[str, Fraction | None]:
        """What may still be spent up to and including the coming step; None where it has no upper limit.

        After the last step, what was left of that step's limit.
        """
        step = min(self._step, self.model.horizon - 1)
        spent = self.spent
        uppers = zip(self._limits.resources, self._limits.upper, strict=True)
        return {name: None if upper[step] is None else upper[step] - spent[name] for name, upper in uppers}  # type: ignore[operator]

    @property
    def done(self) -> bool:
        """Whether the episode is over: all steps taken, or a terminal state reached."""
        return self._step >= self.model.horizon or self.model.is_terminal(self._step, self._state)

    @property
    def history(self) -> list[Event]:
        """The steps taken so far."""
        return list(self._history)

    def act(self) -> Hashable:
        """Return the action to take now; the same again until something is observed.

        Raises
        ------
        PolicyError
            If the episode is over, the policy decides nothing here, or an outcome was observed that the model
            excludes.
        """
        self._refuse_if_broken("act")
        if self.done:
            raise PolicyError("act", "an episode that goes on", f"one that is over after {self._step} steps")
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
        actions, weights = self._choices()
        action = int(actions[0] if len(actions) == 1 else self._rng.choice(actions, p=weights))
        if self._row(action) is None:
            offered = [self.model.actions[self.model.row_action[r]] for r in self.model.rows(self._step, self._state)]
            raise PolicyError(self._place(), f"one of its actions, {quote(offered)}", quote(self.model.actions[action]))
        return action

    def _choices(self) -> tuple[Any, Any]:
        policy: NodeTable | MarkovPolicy | None = self.policy
        if self._lapsed and isinstance(policy, UntilViolationPolicy):
            policy = policy.after
        if policy is None or isinstance(policy, MarkovPolicy):
            actions, weights = ((), ()) if policy is None else policy.choices(self._step, self._state)
            if not len(actions):
                reason = "none, as a limit was broken before" if self._lapsed else "none"
                raise PolicyError(self._place(), "a decision", reason)
            return actions, weights
        node = policy.node(self._step, self._state, self._counted)
        if node == NO_NODE:
            raise policy.no_decision(self._step, self._state, self._place())
        if isinstance(policy, RandomizedPolicy):
            return policy.choices(node)
        assert isinstance(policy, AugmentedPolicy)
        return policy.action_N[node : node + 1], None

    def _row(self, action: int) -> int | None:
        rows = self.model.rows(self._step, self._state)
        return next((row for row in rows if self.model.row_action[row] == action), None)

    def _place(self) -> str:
        spent = printable(", ".join(f"{name} {format_amount(amount)}" for name, amount in self.spent.items()))
        return f"step {self._step}, state {quote(self.state)}" + (f", spent {spent}" if spent else "")

    def observe(self, state: Hashable, cost: Any = 0) -> None:
        """Take in what came of the last action.

        Parameters
        ----------
        state : hashable
            Where it led.
        cost : number, sequence or mapping
            What it cost: a number for one resource, else one per resource in the model's order or by name (those not
            named cost nothing). A float stands for the modeled cost it is the double of.

        Raises
        ------
        UnmodeledOutcome
            If the model says this cannot happen; from then on `act` refuses until `reset`.
        ModelError
            If the cost does not name the model's resources, or is not one for each; the agent is as it was.
        PolicyError
            If no action was asked for.
        """
        self._refuse_if_broken("observe")
        if self._chosen is None:
            raise PolicyError("observe", "act() first", "no action to which this could be the outcome")
        row = self._row(self._chosen)
        assert row is not None
        matches: Matches = {}
        # costs of the wrong resources are a slip of the caller, not of the world: refused, and nothing is changed
        given = read_costs(cost, self.model.resources, "observed")
        try:
            readings = [Reading.of(c, f"cost of {r}") for c, r in zip(given, self.model.resources, strict=True)]
            matches = find_matches(self.model, row, self.model.state_index(state), readings)
        except ModelError:
            pass  # neither a state nor a cost of the model: an outcome it does not allow
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
        if isinstance(self.policy, NodeTable):
            self._counted = [
                counted + self.policy.count(d, costs[r])
                for d, (r, counted) in enumerate(zip(self._tracked, self._counted, strict=True))
            ]
        if isinstance(self.policy, UntilViolationPolicy):
            self._lapsed |= bool(self.policy.lapses(self._step, np.array([self._counted], np.int64))[0])
        self._step, self._state, self._chosen = self._step + 1, next_state, None

    def _unmodeled(self, row: int, state: Hashable, cost: Any, *, ambiguous: bool) -> UnmodeledOutcome:
        assert self._chosen is not None
        found = f"state {quote(state)}" + (f" at cost {quote(cost)}" if self.model.resources else "")
        if ambiguous:
            found += ", a float that several of these round to"
        action = self.model.actions[self._chosen]
        return UnmodeledOutcome(self._step, self.state, action, found, possible_texts(self.model, row))

    def __copy__(self) -> Agent:
        """Return an agent that goes on from here by itself; the model and the policy never change and are shared."""
        twin = object.__new__(type(self))
        twin.__dict__ = dict(self.__dict__)
        twin._rng = copy.deepcopy(self._rng)
        twin._history = list(self._history)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Agent:
        return copy.copy(self)

    def __repr__(self) -> str:
        return f"Agent({self._place()}{', done' if self.done else ''})"
