"""`explain`: the value of every action at one node, and the outcome that forbids an action that is not allowed.

An action is allowed at a node (step, state, spent) if some policy that takes it is safe from there on: it never breaks
a limit and always ends where it may. Equivalently, each of its outcomes keeps the limits of this step and leads to a
node from which some policy is safe. Both are decided by exact solves of the tail of the model; see
`solvent.solvers.tails`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import nearest_float
from solvent.core.interrupt import held_back
from solvent.core.limits import REACHED, LimitReached, ResourceMonitor, read_memory, read_seconds, reason_of
from solvent.errors import BudgetError, ModelError, PolicyError, quote
from solvent.model.amounts import quote_amounts
from solvent.model.budget import Limits, SpentLike, read_spent
from solvent.model.cmdp import CMDP
from solvent.model.discounted import check_model
from solvent.policy.holders import policy_of
from solvent.policy.remaining import RemainingBudget
from solvent.policy.table import AugmentedPolicy
from solvent.solvers.base import Run
from solvent.solvers.choice import solve_problem
from solvent.solvers.diagnosis import stuck_step
from solvent.solvers.explanation import Explanation, ForbiddingOutcome, Option
from solvent.solvers.problem import Problem
from solvent.solvers.reached import reaches
from solvent.solvers.registry import AUTO
from solvent.solvers.tails import tail_limits, tail_model
from solvent.verification.report import Witness, WitnessStep

#: Seconds after which `explain` returns what it has found, unless told otherwise.
TIME_LIMIT = 30.0

Amounts = tuple[Fraction, ...]


class Node(NamedTuple):
    """A step, a state by position, and what was spent before of each limited resource."""

    step: int
    state: int
    spent: Amounts


def explain(
    model: CMDP,
    policy: Any,
    step: int,
    state: Hashable,
    spent: SpentLike | None = None,
    *,
    time_limit: float | None = TIME_LIMIT,
    memory_limit: int | str | None = None,
) -> Explanation:
    """Explain what a policy does at one node: the value of each action, and what forbids those that are not allowed.

    Parameters
    ----------
    model : CMDP
    policy : Solution or policy
        Any policy that has agents. It need not lead to the node.
    step : int
        From 0 to H - 1.
    state : hashable
    spent : number, or dict of numbers by resource, optional
        What has been spent before this step. Default: what was spent before the first step; at a later step, an amount
        of each limited resource is required.
    time_limit : float, optional
        Seconds after which what was found so far is returned, with a note. None for no limit.
    memory_limit : int or str, optional
        As for `solve`.

    Returns
    -------
    Explanation

    Raises
    ------
    PolicyError
        If the policy was made for another model, or the step or the state is not one of the model.
    ModelError
        If a limited resource has continuous costs.
    BudgetError
        If an amount is missing, or lies beyond a floor or a ceiling.

    Notes
    -----
    The limits are those of the policy. Costs are exact, also for a policy on rounded costs, which may therefore take an
    action that is not the best, or that is not allowed; a note says so.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.solvers.solve import solve
    >>> model = instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50)
    >>> print(explain(model, solve(model).policy, 2, "knapsack", 30))
    step 2, state knapsack, weight 30 spent, weight 20 remaining
    the policy never gets here; the best policy from here on is worth 0
    ┏━━┳━━━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
    ┃  ┃ action ┃       value ┃ because                                                                                ┃
    ┡━━╇━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩
    │  │ leave  │           0 │ the best                                                                               │
    │  │ take   │ not allowed │ leads to 'knapsack' and costs weight 30: 60 of weight spent, more than the limit of 50 │
    └──┴────────┴─────────────┴────────────────────────────────────────────────────────────────────────────────────────┘
    """
    check_model(model)
    followed = policy_of(policy)
    if not hasattr(followed, "follower"):
        raise PolicyError("explain", "a policy of a model with a last step", quote(type(followed).__name__))
    limits = followed.follower(model).limits
    return explain_at(model, followed, limits, step, state, spent, time_limit=time_limit, memory_limit=memory_limit)


def explain_at(
    model: CMDP,
    policy: Any | None,
    limits: Limits,
    step: int,
    state: Hashable,
    spent: SpentLike | None,
    *,
    time_limit: float | None,
    memory_limit: int | str | None,
) -> Explanation:
    """Explain a node within limits, with or without a policy; see `explain`."""
    node = read_node(model, limits, step, state, spent)
    refuse_continuous(model, limits)
    probability, notes = _decision(model, policy, node, limits)
    reached: bool | None = None
    with held_back(), ResourceMonitor(read_seconds(time_limit), read_memory(memory_limit)) as monitor:
        search = Search(model, limits, monitor)
        options, stopped = search.options(node, probability)
        try:
            if policy is not None:
                reached = reaches(model, policy, limits, node.step, node.state, node.spent, monitor)
        except REACHED as error:
            stopped = stopped or reason_of(error)
        feasible, value = _verdict(search, node, options)
    if stopped:
        notes.append(f"cut short: {stopped}; what is not known is left open, raise time_limit= or memory_limit=")
    amounts = dict(zip(limits.resources, node.spent, strict=True))
    chosen = [option.action for option in options if option.probability]
    return Explanation(
        node.step, model.states[node.state], amounts, RemainingBudget(limits)(node.step, amounts),
        chosen[0] if len(chosen) == 1 else None, reached, tuple(options), feasible, value, tuple(notes),
    )  # fmt: skip


def read_node(model: CMDP, limits: Limits, step: Any, state: Hashable, spent: Any) -> Node:
    """Return a node from what a user gives; errors as of `explain`."""
    whole = isinstance(step, int | np.integer) and not isinstance(step, bool | np.timedelta64)
    if not whole or not 0 <= step < model.horizon:
        raise PolicyError("explain, step", f"a step from 0 to {model.horizon - 1}", quote(step))
    try:
        index = model.state_index(state)
    except ModelError as error:
        raise PolicyError("explain, state", error.expected, error.found, error.hint) from None
    if spent is not None and not isinstance(spent, Mapping) and len(limits.resources) == 1:
        spent = {limits.resources[0]: spent}
    before = dict(zip(limits.resources, limits.initial, strict=True)) if step == 0 else {}
    given = {**before, **(dict(spent) if isinstance(spent, Mapping) else {})}
    found = read_spent(model, given if spent is None or isinstance(spent, Mapping) else spent, "explain, spent")
    for name in limits.resources if isinstance(spent, Mapping) or spent is None else ():
        if name not in given:
            expected = f"what has been spent of {quote(name)} before step {step}"
            raise BudgetError("explain, spent", expected, "none" if spent is None else quote_amounts(spent))
    return Node(int(step), index, tuple(found[name] for name in limits.resources))


def refuse_continuous(model: CMDP, limits: Limits) -> None:
    """Raise a `ModelError` if a limited resource has continuous costs, for which there is no exact answer."""
    for name in limits.resources:
        expected = "costs of finite support, which exact answers need"
        model.refuse_continuous(model.resource_index(name), expected, "", "explain, ")


def _decision(model: CMDP, policy: Any | None, node: Node, limits: Limits) -> tuple[dict[int, float], list[str]]:
    """Return the probability of each action of a policy at a node, and notes on how to read it."""
    if policy is None:
        return {}, ["there is no policy, so no decision is shown"]
    notes, follower = [], policy.follower(model)
    if getattr(policy, "rounds", False):
        notes.append(
            "the policy counts rounded costs: values and what is allowed are for true costs, and the action is that of "
            "an agent that resumes here, which counts what was spent rounded once"
        )
    amounts = dict(zip(limits.resources, node.spent, strict=True))
    every = [amounts.get(name, model.resource(name).clamp(Fraction(0))) for name in model.resources]
    try:
        follower.resume(node.step, every)
        found = follower.choices(node.step, node.state)
    except PolicyError as error:
        if not isinstance(policy, AugmentedPolicy):  # otherwise it never gets here: not a multiple of its unit
            notes.append(f"what the policy does here is not known: {error}")
        found = None
    if found is None:
        return {}, notes
    actions, weights = found
    return dict(zip(actions.tolist(), weights.tolist(), strict=True)), notes


def _verdict(search: Search, node: Node, options: Sequence[Option]) -> tuple[bool | None, float | None]:
    """Return whether some policy is safe from a node on, and the optimal value."""
    if not options:
        safe = search.ends_well(node)
        return safe, search.end_reward(node.state) if safe else -math.inf
    known = [option.value for option in options if option.value is not None]
    if any(option.allowed for option in options):
        complete = all(option.allowed is not None for option in options)
        return True, max(known) if complete else None
    return (None, None) if any(option.allowed is None for option in options) else (False, -math.inf)


class _Outcome(NamedTuple):
    """An outcome of a row, merged with those of the same next state and the same costs of limited resources."""

    probability: float
    state: int
    cost: Amounts


@dataclass
class Search:
    """Exact answers about nodes of a model with limits.

    Attributes
    ----------
    model : CMDP
    limits : Limits
    monitor : ResourceMonitor
    """

    model: CMDP
    limits: Limits
    monitor: ResourceMonitor
    _safe: dict[Node, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tracked = [self.model.resource_index(name) for name in self.limits.resources]
        self._resources = [self.model.resource(name) for name in self.limits.resources]

    def options(self, node: Node, probability: Mapping[int, float]) -> tuple[list[Option], str]:
        """Return all actions at a node, and the limit that cut the search short, if one did."""
        found, stopped = [], ""
        for row in self.model.rows(node.step, node.state):
            action = int(self.model.row_action[row])
            allowed, value, cause = None, None, None
            try:
                cause = self._breaking(node, row)
                value = -math.inf if cause is not None else self._value(node, row)
                allowed = value > -math.inf
                if not allowed and cause is None:
                    cause = self._dooming(node, row)
            except REACHED as error:
                stopped = stopped or reason_of(error)
            reward = float(self.model.row_reward[row])
            name, weight = self.model.actions[action], probability.get(action, 0.0)
            found.append(Option(name, weight, reward, allowed, value, cause))
        return found, stopped

    def outcomes(self, row: int) -> list[_Outcome]:
        """Return the merged outcomes of a row, the most probable first."""
        merged: dict[tuple[int, Amounts], list[float]] = {}
        for o in range(int(self.model.outcome_indptr[row]), int(self.model.outcome_indptr[row + 1])):
            cost = tuple(self.model.cost[r].value(o) for r in self._tracked)
            merged.setdefault((int(self.model.next_state[o]), cost), []).append(float(self.model.probability[o]))
        found = [_Outcome(min(math.fsum(weights), 1.0), *key) for key, weights in merged.items()]
        return sorted(found, key=lambda each: -each.probability)

    def after(self, node: Node, outcome: _Outcome) -> Node:
        """Return the node that an outcome leads to."""
        sums = zip(self._resources, node.spent, outcome.cost, strict=True)
        return Node(node.step + 1, outcome.state, tuple(each.clamp(spent + cost) for each, spent, cost in sums))

    def broken(self, step: int, spent: Amounts) -> tuple[int, Fraction] | None:
        """Return a limited resource, by position, and its limit after a step that is broken; None if none is."""
        for d, amount in enumerate(spent):
            upper, lower = self.limits.upper[d][step], self.limits.lower[d][step]
            if upper is not None and amount > upper:
                return d, upper
            if lower is not None and amount < lower:
                return d, lower
        return None

    def is_over(self, node: Node) -> bool:
        """Whether the episode ends at a node."""
        return node.step == self.model.horizon or self.model.is_terminal(node.step, node.state)

    def may_end(self, state: int) -> bool:
        """Whether an episode may end in a state."""
        return self.model.may_end is None or bool(self.model.may_end[state])

    def end_reward(self, state: int) -> float:
        """Return what it is worth to end in a state."""
        return 0.0 if self.model.end_reward is None else float(self.model.end_reward[state])

    def ends_well(self, node: Node) -> bool:
        """Whether an episode that ends at a node may end there, and what was spent keeps all later limits."""
        later = range(node.step, self.model.horizon)
        return self.may_end(node.state) and all(self.broken(step, node.spent) is None for step in later)

    def is_safe(self, node: Node) -> bool:
        """Whether some policy is safe from a node on."""
        if node not in self._safe:
            self._safe[node] = self.ends_well(node) if self.is_over(node) else self._value(node) > -math.inf
        return self._safe[node]

    def _amounts(self, amounts: Amounts) -> dict[str, Fraction]:
        return dict(zip(self.limits.resources, amounts, strict=True))

    def _breaking(self, node: Node, row: int) -> ForbiddingOutcome | None:
        """Return an outcome of a row that breaks a limit of this step, or ends where it must not; None if none does."""
        for outcome in self.outcomes(row):
            then = self.after(node, outcome)
            broken = self.broken(node.step, then.spent)
            if broken is not None:
                d, limit = broken
                return self._forbidding(outcome, then, "limit", self.limits.resources[d], limit)
        for outcome in self.outcomes(row):
            then = self.after(node, outcome)
            if self.is_over(then) and not self.may_end(then.state):
                return self._forbidding(outcome, then, "end")
        return None

    def _dooming(self, node: Node, row: int) -> ForbiddingOutcome | None:
        """Return an outcome of a row after which no policy is safe."""
        for outcome in self.outcomes(row):
            then = self.after(node, outcome)
            if self.is_safe(then):
                continue
            reason, history = "later", None
            with suppress(*REACHED):  # the outcome itself is certain
                reason, history = self.history(then)
            return replace(self._forbidding(outcome, then, reason), history=history)
        return None

    def _forbidding(self, outcome: _Outcome, then: Node, reason: str, *broken: Any) -> ForbiddingOutcome:
        name, costs = self.model.states[outcome.state], self._amounts(outcome.cost)
        return ForbiddingOutcome(outcome.probability, name, costs, self._amounts(then.spent), reason, *broken)

    def _value(self, node: Node, row: int | None = None) -> float:
        """Return the optimal value from a node on, with a given first row; minus infinity if no policy is safe."""
        tail = self._tail(node, row)
        found = self._solve(tail, tail_limits(self.limits, node.step, self._amounts(node.spent)))
        return -math.inf if found is None else found[0]

    def _tail(self, node: Node, row: int | None = None) -> CMDP:
        self.monitor.check_time()
        with self.monitor.borrowed(120 * self.model.n_outcomes, "the rest of the model"):
            return tail_model(self.model, node.step, node.state, row)

    def _solve(self, tail: CMDP, limits: Limits) -> tuple[float, AugmentedPolicy] | None:
        """Return the optimal value and policy of a tail; None if no policy is feasible."""
        with self._temporary():
            answer = solve_problem(Problem.exact(tail, limits, monitor=self.monitor), AUTO, Run(self.monitor))
            return None if answer.make_policy is None else (answer.value, answer.make_policy())

    @contextmanager
    def _temporary(self) -> Iterator[None]:
        """Release all memory that is reserved within."""
        used = self.monitor.used
        try:
            yield
        finally:
            self.monitor.release(self.monitor.used - used)

    def history(self, node: Node) -> tuple[str, Witness]:
        """Return why a node is unsafe, and the shortest history to a violation under the most careful policy.

        That policy keeps the limits for as long as any policy can, and spends as little as it can on average: no policy
        keeps them one step longer, so its histories break one after exactly that step. If limits alone can be kept, it
        is the policy that keeps them and ends where it may with the greatest probability.

        Raises
        ------
        LimitReached
            If there is no time to find it.
        """
        if self.is_over(node):
            return "later", self._follow(node, None, goal=not self.may_end(node.state))
        tail, spent = self._tail(node), self._amounts(node.spent)
        anywhere = tail if tail.may_end is None else replace(tail, may_end=None)
        limits = tail_limits(self.limits, node.step, spent)
        if anywhere is not tail:
            assert tail.may_end is not None
            likely = replace(anywhere, row_reward=np.zeros(tail.n_rows), end_reward=tail.may_end.astype(np.float64))
            found = self._solve(likely, limits)
            if found is not None:
                return "later" if found[0] > 0 else "goal", self._follow(node, found[1], goal=True)
        with self._temporary():
            problem = Problem.exact(anywhere, limits, monitor=self.monitor)
            kept, certain = stuck_step(problem.model, problem.lattice, self.monitor)
        # what happens after the step that breaks a limit does not matter
        thrifty = replace(
            anywhere,
            horizon=kept + 1,
            table_of_step=anywhere.table_of_step[: kept + 1],
            row_reward=_thrift(anywhere, limits, kept),
            end_reward=None,
        )
        careful = self._solve(thrifty, tail_limits(self.limits, node.step, spent, steps=kept + 1, until=kept))
        if not certain or careful is None:
            raise LimitReached("the search for the most careful policy was cut short")
        return "later", self._follow(node, careful[1], goal=False)

    def _follow(self, node: Node, policy: AugmentedPolicy | None, *, goal: bool) -> Witness:
        """Return the shortest history of a policy for the tail from a node to a violation.

        That is a broken limit or, if `goal`, an end in a state in which an episode must not end.
        """
        # each node of a layer, and whether the episode is over, with where it came from
        key = (node, self.is_over(node))
        layers: list[dict[tuple[Node, bool], Any]] = [{key: None}]
        if goal and key[1] and not self.may_end(node.state):
            return self._witness(node, layers, key, None, goal=True)
        for step in range(node.step, self.model.horizon):
            following: dict[tuple[Node, bool], Any] = {}
            for at in self.monitor.each(layers[-1]):
                for row, outcome, then in self._moves(at, policy, node.step):
                    over = at[1] or self.is_over(then)
                    new = (then, over)
                    following.setdefault(new, (at, row, outcome))
                    broken = self.broken(step, then.spent)
                    astray = goal and over and not self.may_end(then.state)
                    if (broken is not None and not goal) or astray:
                        return self._witness(node, [*layers, following], new, broken, goal=goal)
            layers.append(following)
        raise AssertionError("an unsafe node has no violation; please report this")

    def _moves(
        self, at: tuple[Node, bool], policy: AugmentedPolicy | None, offset: int
    ) -> Iterator[tuple[int | None, _Outcome, Node]]:
        """Yield what can happen at a node under a policy for the tail: row, outcome and next node."""
        node, over = at
        if over:
            nothing = _Outcome(1.0, node.state, (Fraction(0),) * len(node.spent))
            yield None, nothing, Node(node.step + 1, node.state, node.spent)
            return
        assert policy is not None
        action = policy.action(node.step - offset, self.model.states[node.state], self._amounts(node.spent))
        row = next(
            row
            for row in self.model.rows(node.step, node.state)
            if self.model.actions[self.model.row_action[row]] == action
        )
        for outcome in self.outcomes(row):
            yield row, outcome, self.after(node, outcome)

    def _witness(self, first: Node, layers: Any, last: Any, broken: Any, *, goal: bool) -> Witness:
        """Return the history that leads to the last of the nodes of the last layer."""
        steps: list[WitnessStep] = []
        names, at = self.limits.resources, last
        for layer in reversed(layers[1:]):
            before, row, outcome = layer[at]
            step = before[0].step
            steps.append(
                WitnessStep(
                    step,
                    self.model.states[before[0].state],
                    None if row is None else self.model.actions[self.model.row_action[row]],
                    dict(self._amounts(outcome.cost)),
                    self.model.states[at[0].state],
                    dict(self._amounts(at[0].spent)),
                    {name: side[step] for name, side in zip(names, self.limits.upper, strict=True)},
                    {name: side[step] for name, side in zip(names, self.limits.lower, strict=True)},
                )
            )
            at = before
        goals = () if self.model.may_end is None else tuple(
            name for name, may in zip(self.model.states, self.model.may_end.tolist(), strict=True) if may
        )  # fmt: skip
        return Witness(
            tuple(reversed(steps)),
            None if goal or broken is None else names[broken[0]],
            self.model.states[first.state],
            ends_astray=goal,
            ends_in=self.model.states[last[0].state] if goal else None,
            must_end_in=goals if goal else (),
        )


def _thrift(model: CMDP, limits: Limits, last: int) -> NDArray[np.float64]:
    """Return minus the expected cost of each row, of resources with an upper limit, as shares of it; else plus.

    `last` is the step whose limits matter.
    """
    saved = np.zeros(model.n_rows)
    row = np.repeat(np.arange(model.n_rows), np.diff(model.outcome_indptr))
    for name, upper, lower in zip(limits.resources, limits.upper, limits.lower, strict=True):
        limit = upper[last] if upper[last] is not None else lower[last]
        column = model.cost[model.resource_index(name)]
        costs = np.array([nearest_float(ticks * column.unit) for ticks in column.ticks.tolist()])
        if limit is not None and np.isfinite(costs).all():
            mean = np.bincount(row, model.probability * costs, model.n_rows) / max(1.0, abs(nearest_float(limit)))
            saved += -mean if upper[last] is not None else mean
    return saved


def infeasible_history(model: CMDP, limits: Limits, *, time_limit: float | None = TIME_LIMIT) -> Witness | None:
    """Return how the most careful policy breaks a limit or misses the goal of a problem without a feasible policy.

    None if there is no time to find out, or the problem is feasible.
    """
    refuse_continuous(model, limits)
    try:
        with held_back(), ResourceMonitor(time_limit) as monitor:
            search = Search(model, limits, monitor)
            for state in model.start_states.tolist():
                node = Node(0, int(state), limits.initial)
                if not search.is_safe(node):
                    return search.history(node)[1]
    except LimitReached:
        return None
    return None
