"""Exact masks from a model: an action is allowed if and only if some policy keeps every later limit after it.

With one resource limited on one side, spending less is never worse, so each row (step, state, action) has a threshold:
the greatest (or least) amount that may have been spent before it. One backward pass computes all thresholds:

    high(h, s, a) = min over outcomes of  g(min(limit_h, high(h + 1, s')), c),     high(h, s) = max over a,

where g(x, c) = x - c, or plus infinity if x is at least the ceiling at which the resource saturates, or minus infinity
if x is below its floor. With several resources, limits on both sides, or a goal in which episodes must end, the masks
come from the pruned augmented MDP, in which every action is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.core.limits import LimitReached, ResourceMonitor, read_memory
from solvent.errors import LimitError, ModelError, UnmodeledOutcome, quote
from solvent.gym.tracker import BudgetTracker
from solvent.model.budget import BudgetLike, Limits, SpentLike
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.model.metering import Spent
from solvent.policy.locate import COLLAPSED
from solvent.policy.reading import Reading, find_matches, possible_texts
from solvent.solvers.augmentation.augment import augment
from solvent.solvers.augmentation.mdp import AugmentedMDP
from solvent.solvers.bounds.bounds import bounds_of


class SafetyRule(Protocol):
    """Decides which actions of the model are safe at the current node of an episode."""

    def begin(self, state: int) -> None:
        """Go to a first state of the model."""

    def safe_actions(self, step: int, state: int, spent: list[Fraction]) -> Sequence[int]:
        """Return the safe actions, as indices into the model's actions."""

    def follow(self, step: int, action: int, state: int, spent: list[Fraction]) -> None:
        """Go to the state that a safe action led to; `spent` includes its cost."""


class ThresholdRule:
    """Decides by the threshold of each row; for at most one limited resource."""

    def __init__(self, model: CMDP, limits: Limits, memory_limit: int | str | None = None) -> None:
        self._model, self._lattice = model, Lattice.fit(model, limits)
        try:
            self._bounds = bounds_of(model, self._lattice, ResourceMonitor(bytes=read_memory(memory_limit)))
        except LimitReached as reached:
            raise LimitError(f"the masks were not computed: {reached}; raise memory_limit") from None
        self._known: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def begin(self, state: int) -> None:
        """Do nothing: this rule has no state."""

    def follow(self, step: int, action: int, state: int, spent: list[Fraction]) -> None:
        """Do nothing."""

    def safe_actions(self, step: int, state: int, spent: list[Fraction]) -> Sequence[int]:
        """Return the actions whose thresholds allow the amount spent."""
        if not spent:
            return [int(self._model.row_action[r]) for r in self._model.rows(step, state)]
        ticks = spent[0] / self._lattice.units[0]
        if (step, state) not in self._known:
            self._known[step, state] = [self._row(step, r) for r in self._model.rows(step, state)]
        return [action for action, low, high in self._known[step, state] if low <= ticks <= high]

    def _row(self, step: int, row: int) -> tuple[int, int, int]:
        """Return the action of a row, and the least and the greatest amount (ticks) that may have been spent before."""
        model, lattice, bounds = self._model, self._lattice, self._bounds
        low, high = MINUS_INFINITY, PLUS_INFINITY
        floor, ceiling = int(lattice.floor_D[0]), int(lattice.ceiling_D[0])
        for o in range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1])):
            after, cost = model.next_state[o], int(lattice.cost_OD[o, 0])
            most = min(int(lattice.upper_HD[step, 0]), int(bounds.safe_high[step + 1, after, 0]))
            least = max(int(lattice.lower_HD[step, 0]), int(bounds.safe_low[step + 1, after, 0]))
            never, always = most < floor or most == MINUS_INFINITY, most >= ceiling
            high = min(high, PLUS_INFINITY if always else MINUS_INFINITY if never else most - cost)
            never, always = least > ceiling or least == PLUS_INFINITY, least <= floor
            low = max(low, MINUS_INFINITY if always else PLUS_INFINITY if never else least - cost)
        return int(model.row_action[row]), int(low), int(high)


class NodeRule:
    """Decides by the nodes of a pruned augmented MDP, following the episode from node to node."""

    def __init__(self, mdp: AugmentedMDP) -> None:
        if mdp.stationary or mdp.settled_low is None or mdp.settled_high is None:
            hint = "solvent.augment(model, budget) makes one"
            raise ModelError("model", "a pruned augmented MDP with a finite horizon", quote(mdp), hint)
        self._mdp, self._low, self._high = mdp, mdp.settled_low, mdp.settled_high
        self._node = int(mdp.start_nodes[0])

    def begin(self, state: int) -> None:
        """Go to the first node of a state."""
        self._node = int(self._mdp.start_nodes[np.searchsorted(self._mdp.model.start_states, state)])

    def safe_actions(self, step: int, state: int, spent: list[Fraction]) -> Sequence[int]:
        """Return the actions of the current node."""
        rows = slice(int(self._mdp.row_indptr[self._node]), int(self._mdp.row_indptr[self._node + 1]))
        return self._mdp.row_action[rows].tolist()  # type: ignore[no-any-return]

    def follow(self, step: int, action: int, state: int, spent: list[Fraction]) -> None:
        """Go to the node that the action led to; stay if the node has no such action (a dead start)."""
        mdp, first, last = self._mdp, int(self._mdp.row_indptr[self._node]), int(self._mdp.row_indptr[self._node + 1])
        row = next((r for r in range(first, last) if mdp.row_action[r] == action), None)
        if row is None:
            return
        if step + 1 == mdp.model.horizon:
            assert mdp.end is not None
            self._node = mdp.end
            return
        key = []
        for d, amount in enumerate(spent):
            ticks = amount / mdp.lattice.units[d]
            settled = self._low[step + 1, state, d] <= ticks <= self._high[step + 1, state, d]
            key.append(COLLAPSED if settled else int(ticks))
        reached = mdp.transitions.indices[mdp.transitions.indptr[row] : mdp.transitions.indptr[row + 1]]
        same = (mdp.node_state[reached] == state) & (mdp.node_spent_ND[reached] == key).all(axis=1)
        self._node = int(reached[np.argmax(same)])


def choose_rule(
    model: CMDP,
    limits: Limits,
    budget: BudgetLike | None,
    memory_limit: int | str | None,
    spent: SpentLike | None = None,
) -> SafetyRule:
    """Return an exact rule for a problem: thresholds where they exist, otherwise nodes."""
    for name in limits.resources:
        expected = "costs with finitely many values, which exact masks need"
        model.refuse_continuous(model.resource_index(name), expected, "pass cost_bound=... instead of a model")
    if model.may_end is None and (limits.is_one_sided or not limits.resources):
        return ThresholdRule(model, limits, memory_limit)
    return NodeRule(augment(model, budget, spent=spent, memory_limit=memory_limit))


class ModelMasks:
    """Masks of an environment from its model; outcomes that the model excludes raise an error.

    Parameters
    ----------
    model : CMDP
    rule : SafetyRule
    tracker : BudgetTracker
    action_names : sequence of hashables
        The model's names of the environment's actions, in order; an action unknown to the model is never allowed.
    state_name : function of an observation
        Returns the model's name of the state.
    """

    learns = False

    def __init__(
        self,
        model: CMDP,
        rule: SafetyRule,
        tracker: BudgetTracker,
        action_names: Sequence[Hashable],
        state_name: Callable[[Any], Hashable],
    ) -> None:
        self._model, self._rule, self._tracker, self._state_name = model, rule, tracker, state_name
        known = {name: i for i, name in enumerate(model.actions)}
        self._action_of = [known.get(name) for name in action_names]
        if all(action is None for action in self._action_of):
            names = f"names of the model's actions ({', '.join(map(quote, model.actions[:6]))})"
            raise ModelError("actions", names, quote(list(action_names)[:6]), "pass actions=[...], in order")
        self._position_of = {action: i for i, action in enumerate(self._action_of) if action is not None}
        self._tracked = [model.resource_index(name) for name in tracker.resources]
        self._step, self._state = 0, int(model.start_states[0])

    @property
    def over(self) -> bool:
        """Whether the model's episode has ended: at the horizon, or in a terminal state."""
        return self._step >= self._model.horizon or self._model.is_terminal(self._step, self._state)

    @property
    def goal_missed(self) -> bool:
        """Whether the model's episode has ended in a state in which it must not end."""
        may_end = self._model.may_end
        return may_end is not None and self.over and not may_end[self._state]

    def begin(self, observation: Any) -> None:
        """Start an episode at an observation; raise `UnmodeledOutcome` if the model cannot start there."""
        model = self._model
        name = self._state_name(observation)
        state = self._find(name)
        if state is not None and state in model.start_states:
            self._rule.begin(state)
            self._step, self._state = 0, state
            return
        self._step, self._state = 0, int(model.start_states[0])
        self._rule.begin(self._state)
        names = tuple(model.states[s] for s in model.start_states.tolist())
        # a random start is modeled as one row at step 0, without cost, whose outcomes are the starting states
        rows = model.rows(0, self._state)
        if len(names) == len(rows) == 1 and model.horizon > 1:
            free = [Reading(Fraction(0), None)] * model.n_resources
            if state is not None and find_matches(model, rows[0], state, free):
                amounts = self._tracker.after([Fraction(0)] * len(self._tracked))
                self._rule.follow(0, int(model.row_action[rows[0]]), state, amounts)
                self._step, self._state = 1, state
                return
            possible = possible_texts(model, rows[0])
        else:
            possible = tuple(f"state {quote(each)}" for each in names)
        start = names[0] if len(names) == 1 else names
        raise UnmodeledOutcome(0, start, "reset", f"state {quote(name)}", possible)

    def mask(self) -> NDArray[np.bool_]:
        """Return which of the environment's actions are safe."""
        mask = np.zeros(len(self._action_of), bool)
        if not self.over:
            safe = self._rule.safe_actions(self._step, self._state, self._tracker.amounts)
            mask[[self._position_of[action] for action in safe if action in self._position_of]] = True
        return mask

    def took(self, position: int, next_observation: Any, spent: Spent, terminated: bool) -> list[int]:
        """Record the outcome of an action and return its cost in ticks; raise `UnmodeledOutcome` if impossible."""
        costs = spent.reported
        model, action = self._model, self._action_of[position]
        assert action is not None
        row = next(r for r in model.rows(self._step, self._state) if model.row_action[r] == action)
        name = self._state_name(next_observation)
        names = [(name, "done"), name] if terminated else [name]
        try:
            readings = [Reading.of(c, f"cost of {r}") for c, r in zip(costs, model.resources, strict=True)]
        except ModelError:
            readings = []
        ambiguous = False
        for state in (self._find(each) for each in names):
            matches = find_matches(model, row, state, readings) if readings and state is not None else {}
            if len(matches) == 1:
                ((following, amounts),) = matches
                break
            ambiguous |= len(matches) > 1
        else:
            found = f"state {quote(name)} at cost {', '.join(map(quote, costs))}"
            found += ", a float that several of these round to" if ambiguous else ""
            place = model.states[self._state]
            raise UnmodeledOutcome(self._step, place, model.actions[action], found, possible_texts(model, row))
        tracked = [amounts[d] for d in self._tracked]
        self._rule.follow(self._step, action, following, self._tracker.after(tracked))
        self._step, self._state = self._step + 1, following
        return self._tracker.to_ticks(tracked)

    def _find(self, name: Hashable) -> int | None:
        try:
            return self._model.state_index(name)
        except ModelError:
            return None


def plain_name(observation: Any) -> Hashable:
    """Return the default state name of an observation: a number, or a tuple of numbers.

    Examples
    --------
    >>> plain_name(np.int64(3)), plain_name(np.array([1, 2]))
    (3, (1, 2))
    """
    if isinstance(observation, np.ndarray):
        return observation.item() if observation.size == 1 else tuple(observation.ravel().tolist())
    if isinstance(observation, np.generic):
        return observation.item()  # type: ignore[no-any-return]
    if isinstance(observation, tuple):
        return tuple(plain_name(part) for part in observation)
    return observation  # type: ignore[no-any-return]
