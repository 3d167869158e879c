"""Oracles: optima and worst cases by the definitions, sharing no code with the solvers.

A *node* is (step, state, spent). Once the episode is over it is worth what ending in its state is worth, if it may end
there and what was spent keeps all limits still to come; minus infinity if not, or if every row has an outcome that
breaks a limit or leads to a node worth minus infinity; otherwise the best of reward plus expectation. A problem is
worth the expectation over its first states. After a cost, an amount below the floor of its resource is the floor, and
one above the ceiling is the ceiling. Amounts are Python integers on a common denominator of all costs, limits, floors,
ceilings and initial amounts.

Probabilities and rewards are doubles, hence whole multiples of a power of two, and so is every value. `Setting` scales
values at step h by 2**(e_r + (H - h) e_p), which turns exact rational arithmetic into integer arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: More nodes than this are not expanded one by one.
NODE_CAP = 20_000
#: More entries than this are not swept at once.
DENSE_CAP = 60_000_000

Amounts = tuple[int, ...]


class TooLarge(Exception):  # noqa: N818
    """The oracle would take too long; the comparison is skipped and counted as such."""


class Outcome(NamedTuple):
    """One outcome in integers: `weight / 2**e_p` is its probability, `cost` is in ticks."""

    weight: int
    next_state: int
    cost: Amounts


class Row(NamedTuple):
    """One row of the model in integers; `reward / 2**e_r` is its reward."""

    number: int
    action: int
    reward: int
    outcomes: tuple[Outcome, ...]


def _bits(numbers: Iterable[float]) -> int:
    """Return the least e for which every number times 2**e is whole."""
    return max((float(x).as_integer_ratio()[1].bit_length() - 1 for x in numbers), default=0)


@dataclass(frozen=True)
class Setting:
    """A model and a budget in plain integers.

    Attributes
    ----------
    model : CMDP
    tracked : tuple of str
        Resources whose spending is followed: the limited ones, or all.
    limited : tuple of bool
        Which of them have a limit.
    ticks : tuple of int
        Ticks of one unit of each tracked resource.
    upper, lower : list of tuple of int or None
        Limits after each step, in ticks.
    initial : tuple of int
        What has been spent before the first step, in ticks.
    floor, ceiling : tuple of int or None
        Where amounts saturate, in ticks.

    Notes
    -----
    An episode that has ended in state s is in state ~s < 0.
    """

    model: Any
    tracked: tuple[str, ...]
    limited: tuple[bool, ...]
    ticks: tuple[int, ...]
    upper: list[tuple[int | None, ...]]
    lower: list[tuple[int | None, ...]]
    initial: Amounts
    floor: tuple[int | None, ...]
    ceiling: tuple[int | None, ...]
    _rows: dict[tuple[int, int], tuple[Row, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, budget: Any, *, spent: Any = None, everything: bool = False) -> Setting:
        """Return the setting of a model and a budget as `solvent.solve` takes them.

        Parameters
        ----------
        model : CMDP
        budget : budget
        spent : dict of str to number, optional
            What has been spent before the first step.
        everything : bool
            Follow the spending of resources without a limit as well.
        """
        from solvent.core.exact import exact
        from solvent.model.budget import resolve

        limits = resolve(model, budget, spent)
        before = {name: exact(amount, "spent") for name, amount in (spent or {}).items()}
        horizon, open_side = model.horizon, (None,) * model.horizon
        tracked = tuple(model.resources) if everything else limits.resources
        ticks, uppers, lowers = [], [], []
        fixed: list[list[int | None]] = []
        for name in tracked:
            d = model.resource_index(name)
            upper = limits.upper[limits.resources.index(name)] if name in limits.resources else open_side
            lower = limits.lower[limits.resources.index(name)] if name in limits.resources else open_side
            numbers = [model.cost_of(d, o) for o in range(model.n_outcomes)]
            numbers = [cost for cost in numbers if isinstance(cost, Fraction)]
            numbers += [limit for limit in (*upper, *lower) if limit is not None]
            ends = (before.get(name, Fraction(0)), model.floors[d], model.ceilings[d])
            numbers += [end for end in ends if end is not None]
            scale = math.lcm(*(number.denominator for number in numbers))
            ticks.append(scale)
            uppers.append([None if x is None else int(x * scale) for x in upper])
            lowers.append([None if x is None else int(x * scale) for x in lower])
            fixed.append([None if x is None else int(x * scale) for x in ends])
        return cls(
            model,
            tracked,
            tuple(name in limits.resources for name in tracked),
            tuple(ticks),
            [tuple(side[step] for side in uppers) for step in range(horizon)],
            [tuple(side[step] for side in lowers) for step in range(horizon)],
            tuple(each[0] or 0 for each in fixed),
            tuple(each[1] for each in fixed),
            tuple(each[2] for each in fixed),
        )

    @cached_property
    def weight_bits(self) -> int:
        """Exponent of the common denominator of all probabilities."""
        return _bits(self.model.probability)

    @cached_property
    def reward_bits(self) -> int:
        """Exponent of the common denominator of all rewards."""
        ends = () if self.model.end_reward is None else self.model.end_reward
        return _bits([*self.model.row_reward, *ends])

    @cached_property
    def start_bits(self) -> int:
        """Exponent of the common denominator of the probabilities of first states."""
        return _bits(self.model.start_probability)

    @cached_property
    def end_rewards(self) -> tuple[int, ...]:
        """What ending in each state earns, times `2**reward_bits`."""
        rewards = [0.0] * self.model.n_states if self.model.end_reward is None else self.model.end_reward.tolist()
        return tuple(int(Fraction(reward) * (1 << self.reward_bits)) for reward in rewards)

    @cached_property
    def ends(self) -> tuple[int | None, ...]:
        """What ending in each state is worth, times `2**reward_bits`; None where an episode must not end."""
        allowed = [True] * self.model.n_states if self.model.may_end is None else self.model.may_end.tolist()
        return tuple(end if may else None for end, may in zip(self.end_rewards, allowed, strict=True))

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return int(self.model.horizon)

    @cached_property
    def starts(self) -> tuple[tuple[int, tuple[int, Amounts]], ...]:
        """Weights of the first nodes; `weight / 2**start_bits` is the probability of each."""
        found = []
        for s, p in zip(self.model.start_states.tolist(), self.model.start_probability.tolist(), strict=True):
            found.append((int(Fraction(p) * (1 << self.start_bits)), (self.arrive(0, s), self.initial)))
        return tuple(found)

    def expectation(self, values: Mapping[tuple[int, Amounts], int]) -> Fraction:
        """Return the expectation over the first nodes of scaled values."""
        return self.value(0, sum(weight * values[node] for weight, node in self.starts)) / (1 << self.start_bits)

    def rows(self, step: int, state: int) -> tuple[Row, ...]:
        """Return the rows of a state at a step; none if the episode is over there."""
        key = int(self.model.table_of_step[step]), state
        if key not in self._rows:
            self._rows[key] = tuple(self._row(r) for r in self.model.rows(step, state))
        return self._rows[key]

    def _row(self, r: int) -> Row:
        model = self.model
        columns = [model.resource_index(name) for name in self.tracked]
        outcomes = []
        for o in range(int(model.outcome_indptr[r]), int(model.outcome_indptr[r + 1])):
            cost = tuple(int(model.cost_of(d, o) * scale) for d, scale in zip(columns, self.ticks, strict=True))
            weight = int(Fraction(float(model.probability[o])) * (1 << self.weight_bits))
            outcomes.append(Outcome(weight, int(model.next_state[o]), cost))
        reward = int(Fraction(float(model.row_reward[r])) * (1 << self.reward_bits))
        return Row(r, int(model.row_action[r]), reward, tuple(outcomes))

    def keeps(self, step: int, spent: Amounts) -> bool:
        """Whether an amount spent after a step is within the limits of that step."""
        for low, x, high in zip(self.lower[step], spent, self.upper[step], strict=True):
            if (low is not None and x < low) or (high is not None and x > high):
                return False
        return True

    def keeps_to_the_end(self, step: int, spent: Amounts) -> bool:
        """Whether an amount that stays as it is keeps the limits of this step and all later ones."""
        return all(self.keeps(later, spent) for later in range(step, self.horizon))

    def arrive(self, step: int, state: int) -> int:
        """Return the state in which step `step` begins: ~state if there is no action, or if there are no more steps."""
        return state if step < self.horizon and self.rows(step, state) else ~state

    def plus(self, spent: Amounts, cost: Amounts) -> Amounts:
        """Return what has been spent after a cost."""
        found = []
        for x, c, low, high in zip(spent, cost, self.floor, self.ceiling, strict=True):
            then = x + c
            if low is not None and then < low:
                then = low
            elif high is not None and then > high:
                then = high
            found.append(then)
        return tuple(found)

    def end(self, step: int, state: int, spent: Amounts) -> int | None:
        """Return the scaled value of an episode that has ended before a step; None if it must not end like that."""
        worth = self.ends[~state]
        if worth is None or not self.keeps_to_the_end(step, spent):
            return None
        return worth << ((self.horizon - step) * self.weight_bits)

    def amounts(self, spent: Amounts) -> dict[str, Fraction]:
        """Return an amount in the user's units."""
        return {name: Fraction(x, t) for name, x, t in zip(self.tracked, spent, self.ticks, strict=True)}

    def value(self, step: int, scaled: int) -> Fraction:
        """Return a scaled value at a step as a fraction."""
        return Fraction(scaled, 1 << (self.reward_bits + (self.horizon - step) * self.weight_bits))


@dataclass(frozen=True)
class Optimum:
    """The optimum of a problem.

    Attributes
    ----------
    value : Fraction or None
        None if no policy keeps the budget.
    scale : Fraction
        Sum over the steps of the largest |reward| of rows that are optimal at nodes reached by optimal policies, or of
        the largest reward of any row that leads on, or |value|, if that is larger: what errors are relative to. What
        ends are worth counts as the reward of a last step. The dense oracle takes the expected sum of |reward| instead,
        which is no larger than the first.
    nodes : int
        Number of nodes that were looked at.
    error : Fraction
        The value is known to within this; 0 for exact arithmetic.
    """

    value: Fraction | None
    scale: Fraction
    nodes: int
    error: Fraction = Fraction(0)

    @property
    def feasible(self) -> bool:
        """Whether any policy keeps the budget."""
        return self.value is not None


Layer = dict[tuple[int, Amounts], list[tuple[Row, list[tuple[int, tuple[int, Amounts]]]]]]


def exact_optimum(model: Any, budget: Any, cap: int = NODE_CAP, spent: Any = None) -> Optimum:
    """Return the optimum of the stored model in exact arithmetic.

    Raises
    ------
    TooLarge
        If there are more than `cap` nodes.
    """
    setting = Setting.of(model, budget, spent=spent)
    horizon = setting.horizon
    layers: list[Layer] = []
    reached = {node for _, node in setting.starts}
    nodes = 0
    for step in range(horizon):
        layer: Layer = {}
        following: set[tuple[int, Amounts]] = set()
        for state, amount in reached:
            safe = []
            for row in setting.rows(step, state) if state >= 0 else ():
                then = []
                for outcome in row.outcomes:
                    after = setting.plus(amount, outcome.cost)
                    if not setting.keeps(step, after):
                        break
                    then.append((outcome.weight, (setting.arrive(step + 1, outcome.next_state), after)))
                else:
                    safe.append((row, then))
                    following.update(node for _, node in then)
            layer[state, amount] = safe
        nodes += len(layer)
        if nodes > cap:
            raise TooLarge(f"more than {cap} nodes")
        layers.append(layer)
        reached = following
    values = {node: setting.end(horizon, *node) for node in reached}
    best: list[dict[tuple[int, Amounts], list[int]]] = []
    ended = {node[0] for node, worth in values.items() if worth is not None}
    gains = 0
    for step in reversed(range(horizon)):
        gain = 0
        now: dict[tuple[int, Amounts], int | None] = {}
        choice: dict[tuple[int, Amounts], list[int]] = {}
        shift = (horizon - step) * setting.weight_bits
        for node, safe in layers[step].items():
            if node[0] < 0:
                now[node] = setting.end(step, *node)
                if now[node] is not None:
                    ended.add(node[0])
                continue
            worths = []
            for row, then in safe:
                total = row.reward << shift
                for weight, successor in then:
                    later = values[successor]
                    if later is None:
                        break
                    total += weight * later
                else:
                    worths.append((total, row))
            now[node] = top = max((total for total, _ in worths), default=None)
            gain = max([gain, *(row.reward for _, row in worths)])
            choice[node] = [k for k, (row, _) in enumerate(safe) if any(row is r and t == top for t, r in worths)]
        values = now
        best.append(choice)
        gains += gain
    best.reverse()
    found = {node: worth for node, worth in values.items() if worth is not None}
    if len(found) < len(values):
        return Optimum(None, Fraction(0), nodes)
    value = setting.expectation(found)
    gains += max([0, *(setting.ends[~state] or 0 for state in ended)])
    scale = max(_scale(setting, layers, best), Fraction(gains, 1 << setting.reward_bits))
    return Optimum(value, max(abs(value), scale), nodes)


def _scale(setting: Setting, layers: list[Layer], best: list[dict[tuple[int, Amounts], list[int]]]) -> Fraction:
    reached, total, largest = {node for _, node in setting.starts}, 0, 0
    for step, layer in enumerate(layers):
        largest = max([largest, *(abs(setting.ends[~state] or 0) for state, _ in reached if state < 0)])
        used = [layer[node][k] for node in reached for k in best[step].get(node, ())]
        total += max((abs(row.reward) for row, _ in used), default=0)
        reached = {after for _, then in used for _, after in then}
    largest = max([largest, *(abs(setting.ends[~state] or 0) for state, _ in reached if state < 0)])
    return Fraction(total + largest, 1 << setting.reward_bits)


def dense_optimum(model: Any, budget: Any, cap: int = DENSE_CAP, spent: Any = None) -> Optimum:
    """Return the optimum by sweeping arrays over boxes of whole amounts, as an enclosure in doubles.

    Two arrays are swept, a lower and an upper bound on each value. With u = 2**-53 and n outcomes, the computed
    r + sum of p V over n terms is within (n + 2) u (|r| + sum of p |V|) / (1 - (n + 2) u) of the exact sum, plus n + 1
    times the least double for products that underflow; this is taken off the lower bound and added to the upper one,
    with a factor of 1.01 for evaluating the error itself in doubles. Whether a node is a dead end is exact.

    Raises
    ------
    TooLarge
        If there would be more than `cap` entries over all steps, or sums of rewards may be beyond doubles.
    """
    setting = Setting.of(model, budget, spent=spent)
    ends = np.zeros(model.n_states) if model.end_reward is None else model.end_reward
    if model.horizon * float(np.abs(model.row_reward).max()) > 1e300 or float(np.abs(ends).max()) > 1e300:
        raise TooLarge("rewards beyond doubles")
    horizon, n_dims = setting.horizon, len(setting.tracked)
    n_states = model.n_states
    tables = {}
    for step in range(horizon):
        table = int(model.table_of_step[step])
        if table not in tables:
            tables[table] = [setting.rows(step, state) for state in range(n_states)]
    # merge what the tracked resources have in common, or boxes are as fine as the finest limit
    units = [
        math.gcd(
            *(o.cost[d] for rows in tables.values() for each in rows for row in each for o in row.outcomes),
            *(each[d] or 0 for each in (setting.initial, setting.floor, setting.ceiling)),
        )
        or 1
        for d in range(n_dims)
    ]

    def clamp(d: int, amount: int) -> int:
        low, high = setting.floor[d], setting.ceiling[d]
        amount = amount if low is None else max(amount, low // units[d])
        return amount if high is None else min(amount, high // units[d])

    def box_after(step: int, box: list[tuple[int, int]]) -> list[tuple[int, int]]:
        rows = [row for each in tables[int(model.table_of_step[step])] for row in each]
        found = []
        for d, (low, high) in enumerate(box):
            costs = [o.cost[d] // units[d] for row in rows for o in row.outcomes] + [0]
            low, high = clamp(d, low + min(costs)), clamp(d, high + max(costs))
            bottom, top = setting.lower[step][d], setting.upper[step][d]
            low = low if bottom is None else max(low, -((-bottom) // units[d]))
            high = high if top is None else min(high, top // units[d])
            found.append((low, high))
        return found

    boxes = [[(x // unit,) * 2 for x, unit in zip(setting.initial, units, strict=True)]]
    for step in range(horizon):
        boxes.append(box_after(step, boxes[-1]))
    sizes = [n_states * math.prod(max(0, high - low + 1) for low, high in box) for box in boxes]
    rows_of = [sum(len(row.outcomes) for each in rows for row in each) for rows in tables.values()]
    if sum(sizes) * max(1, max(rows_of) // n_states) > cap:
        raise TooLarge(f"{sum(sizes)} entries")

    def shape(step: int) -> tuple[int, ...]:
        return tuple(max(0, high - low + 1) for low, high in boxes[step])

    def inside(step: int, of_step: int) -> NDArray[np.bool_]:
        """Return which amounts of a box keep the limits of a step."""
        keep = np.ones(shape(of_step), bool)
        for d, (low, high) in enumerate(boxes[of_step]):
            x = np.arange(low, max(high, low - 1) + 1)
            bottom, top = setting.lower[step][d], setting.upper[step][d]
            fine = np.ones(len(x), bool)
            if bottom is not None:
                fine &= x >= -((-bottom) // units[d])
            if top is not None:
                fine &= x <= top // units[d]
            keep &= fine.reshape([-1 if k == d else 1 for k in range(n_dims)])
        return keep

    def moved(later: NDArray[np.float64], step: int, cost: Amounts, fill: float = -np.inf) -> NDArray[np.float64]:
        """Return values after a cost on the box of a step; minus infinity where that breaks a limit."""
        for d, (low, high) in enumerate(boxes[step]):
            c, (next_low, next_high) = cost[d] // units[d], boxes[step + 1][d]
            if min(high - low, next_high - next_low) < 0:
                return np.full(shape(step), fill)
            if setting.floor[d] is None and setting.ceiling[d] is None:  # a plain shift
                first, last = max(low, next_low - c), min(high, next_high - c)
                found = np.full((*later.shape[:d], high - low + 1, *later.shape[d + 1 :]), fill)
                if first <= last:
                    before = (slice(None),) * d
                    part = later[(*before, slice(first + c - next_low, last + c - next_low + 1))]
                    found[(*before, slice(first - low, last - low + 1))] = part
                later = found
                continue
            then = np.array([clamp(d, x + c) for x in range(low, high + 1)])
            inside_box = (then >= next_low) & (then <= next_high)
            taken = np.take(later, np.clip(then, next_low, next_high) - next_low, axis=d)
            later = np.where(inside_box.reshape([-1 if k == d else 1 for k in range(n_dims)]), taken, fill)
        return later

    unit_error = 2.0**-53
    worth = model.end_value.tolist()
    low_after = [np.full(shape(horizon), worth[s]) for s in range(n_states)]
    high_after = [np.full(shape(horizon), worth[s]) for s in range(n_states)]
    size_after = [np.full(shape(horizon), abs(float(ends[s]))) for s in range(n_states)]
    with np.errstate(under="ignore"):
        for step in reversed(range(horizon)):
            rows = tables[int(model.table_of_step[step])]
            low_now, high_now, size_now = [], [], []
            for state in range(n_states):
                best_size = np.full(shape(step), 0.0 if rows[state] else abs(float(ends[state])))
                size_now.append(best_size)
                if not rows[state]:
                    keep = np.ones(shape(step), bool)
                    for later in range(step, horizon):
                        keep &= inside(later, step)
                    low_now.append(np.where(keep, worth[state], -np.inf))
                    high_now.append(low_now[-1].copy())
                    continue
                best_low, best_high = np.full(shape(step), -np.inf), np.full(shape(step), -np.inf)
                for row in rows[state]:
                    reward = float(model.row_reward[row.number])
                    probability = model.probability[
                        int(model.outcome_indptr[row.number]) : int(model.outcome_indptr[row.number + 1])
                    ]
                    n = len(row.outcomes)
                    factor = 1.01 * (n + 2) * unit_error
                    for after, best, sign in ((low_after, best_low, -1.0), (high_after, best_high, 1.0)):
                        total, size = np.full(shape(step), reward), np.full(shape(step), abs(reward))
                        for outcome, p in zip(row.outcomes, probability.tolist(), strict=True):
                            term = p * moved(after[outcome.next_state], step, outcome.cost)
                            total += term
                            size += np.abs(term)
                        error = factor * size + 5e-324 * (n + 1)
                        total = np.where(np.isneginf(total), -np.inf, total + sign * np.where(size < np.inf, error, 0))
                        if sign < 0:  # expected sum of |reward| along the best rows
                            earned = np.full(shape(step), abs(reward))
                            for outcome, p in zip(row.outcomes, probability.tolist(), strict=True):
                                earned += p * moved(size_after[outcome.next_state], step, outcome.cost, 0.0)
                            np.copyto(best_size, earned, where=total > best)
                        np.maximum(best, total, out=best)
                low_now.append(best_low)
                high_now.append(best_high)
            low_after, high_after, size_after = low_now, high_now, size_now
    origin = (0,) * n_dims
    low = high = earned_size = Fraction(0)
    for s, chance in zip(model.start_states.tolist(), map(Fraction, model.start_probability.tolist()), strict=True):
        if low_after[s][origin] == -math.inf:
            return Optimum(None, Fraction(0), sum(sizes))
        low += chance * Fraction(float(low_after[s][origin]))
        high += chance * Fraction(float(high_after[s][origin]))
        earned_size += chance * Fraction(float(size_after[s][origin]))
    middle = (low + high) / 2
    return Optimum(middle, max(abs(middle), earned_size), sum(sizes), (high - low) / 2)


def backward_value(mdp: Any) -> float:
    """Return the value of an augmented MDP by backward induction; minus infinity if a limit must be broken."""
    value = mdp.end_reward.copy()
    value[mdp.dead_ends] = -np.inf
    indptr, transitions = mdp.row_indptr, mdp.transitions
    for layer in reversed(range(len(mdp.layer_indptr) - 1)):
        for node in range(int(mdp.layer_indptr[layer]), int(mdp.layer_indptr[layer + 1])):
            first, last = int(indptr[node]), int(indptr[node + 1])
            if first == last:
                continue
            best = -math.inf
            for r in range(first, last):
                at = slice(int(transitions.indptr[r]), int(transitions.indptr[r + 1]))
                later = value[transitions.indices[at]]
                total = -math.inf if np.isneginf(later).any() else float(transitions.data[at] @ later)
                best = max(best, float(mdp.reward[r]) + total)
            value[node] = best
    first_values = value[mdp.start_nodes]
    return -math.inf if np.isneginf(first_values).any() else float(mdp.start_probability @ first_values)


# ---------------------------------------------------------------------------------------------------------------------
# following a policy


@dataclass(frozen=True)
class Walk:
    """What a policy does over all its histories.

    Attributes
    ----------
    value : Fraction
        Expected reward; nothing is earned where the policy decides nothing.
    broken : bool
        Whether some history breaks a limit, or ends where it must not.
    violation_probability : Fraction
    most, least : dict of str to list of Fraction
        Extremes of what was spent after each step, for every resource of the model.
    stuck : tuple of (step, state, spent), or None
        A node at which the policy decides nothing although no limit was broken before.
    stopped : bool
        Whether the policy decides nothing after some broken limit.
    scale : Fraction
        Sum over the steps of the largest |reward| that is met.
    nodes : int
    """

    value: Fraction
    broken: bool
    violation_probability: Fraction
    most: dict[str, list[Fraction]]
    least: dict[str, list[Fraction]]
    stuck: tuple[int, Hashable, dict[str, Fraction]] | None
    stopped: bool
    scale: Fraction
    nodes: int


class _Counter:
    """The amounts that a policy counts: exact ones, or sums of costs that are rounded one by one."""

    def __init__(self, setting: Setting, policy: Any) -> None:
        self.setting, self.policy = setting, policy
        self.at = [setting.tracked.index(name) for name in policy.resources]
        self.rounds = any(kind != "exact" for kind in policy.counting)

    def first(self) -> Amounts:
        return tuple(map(int, self.policy.initial_D)) if self.rounds else ()

    def plus(self, counted: Amounts, cost: Amounts) -> Amounts:
        if not self.rounds:
            return ()
        policy, found = self.policy, []
        for k, (x, d, unit, kind) in enumerate(zip(counted, self.at, policy.units, policy.counting, strict=True)):
            ticks = Fraction(cost[d], self.setting.ticks[d]) / unit
            then = x + (math.ceil(ticks) if kind == "up" else math.floor(ticks))
            found.append(min(max(then, int(policy.floor_D[k])), int(policy.ceiling_D[k])))
            if kind == "exact" and ticks.denominator != 1:
                raise AssertionError(f"a cost of {ticks} ticks in a policy that counts exactly")
        return tuple(found)

    def action(self, step: int, state: int, spent: Amounts, counted: Amounts) -> int | None:
        from solvent.errors import PolicyError

        if self.rounds:
            found = int(self.policy.action_index(step, state, counted))
            return found if found >= 0 else None
        amounts = self.setting.amounts(spent)
        try:
            named = self.policy.action(
                step, self.setting.model.states[state], {name: amounts[name] for name in self.policy.resources}
            )
        except PolicyError:
            return None
        return int(self.setting.model.actions.index(named))


def walk(model: Any, budget: Any, policy: Any, cap: int = NODE_CAP, spent: Any = None) -> Walk:
    """Follow a policy through all its histories in exact arithmetic; equal nodes are merged.

    Parameters
    ----------
    model : CMDP
        Without continuous costs.
    budget : budget
        The limits to check; they may differ from the policy's own.
    policy : AugmentedPolicy
    cap : int
    spent : dict of str to number, optional
        What has been spent before the first step.

    Raises
    ------
    TooLarge
        If there are more than `cap` nodes.
    """
    setting = Setting.of(model, budget, spent=spent, everything=True)
    counter = _Counter(setting, policy)
    horizon = setting.horizon
    Node = tuple[int, Amounts, Amounts, bool]
    starts = [(weight, (*node, counter.first(), False)) for weight, node in setting.starts]
    reached: set[Node] = {node for _, node in starts}
    layers: list[dict[Node, tuple[int, list[tuple[int, Node]]]]] = []
    stuck: tuple[int, Hashable, dict[str, Fraction]] | None = None
    stopped, nodes, scale = False, 0, 0
    most: dict[str, list[Fraction]] = {name: [] for name in setting.tracked}
    least: dict[str, list[Fraction]] = {name: [] for name in setting.tracked}
    one = 1 << setting.weight_bits
    for step in range(horizon):
        layer: dict[Node, tuple[int, list[tuple[int, Node]]]] = {}
        following: set[Node] = set()
        largest = 0
        for node in reached:
            state, amount, counted, broken = node
            row = None
            if state >= 0:
                action = counter.action(step, state, amount, counted)
                row = next((row for row in setting.rows(step, state) if row.action == action), None)
                if row is None:
                    if action is not None:
                        raise AssertionError(f"action {action} is not available at step {step}, state {state}")
                    if broken:
                        stopped = True
                    else:
                        stuck = stuck or (step, model.states[state], setting.amounts(amount))
            if row is None:
                over = broken or not setting.keeps(step, amount)
                then: list[tuple[int, Node]] = [(one, (min(state, ~state), amount, counted, over))]
                layer[node] = (0, then)
            else:
                then = []
                for outcome in row.outcomes:
                    after = setting.plus(amount, outcome.cost)
                    over = broken or not setting.keeps(step, after)
                    arrived = setting.arrive(step + 1, outcome.next_state)
                    then.append((outcome.weight, (arrived, after, counter.plus(counted, outcome.cost), over)))
                layer[node] = (row.reward, then)
                largest = max(largest, abs(row.reward))
            following.update(after for _, after in then)
        scale += largest
        nodes += len(layer)
        if nodes > cap:
            raise TooLarge(f"more than {cap} nodes")
        layers.append(layer)
        reached = following
        for d, name in enumerate(setting.tracked):
            column = [node[1][d] for node in reached]
            most[name].append(Fraction(max(column), setting.ticks[d]))
            least[name].append(Fraction(min(column), setting.ticks[d]))
    # an episode that the policy leaves without a decision has ended as well
    broken_at_last = {node: node[3] or setting.ends[~node[0]] is None for node in reached}
    value = {node: setting.end_rewards[~node[0]] for node in reached}
    chance = {node: int(broken) for node, broken in broken_at_last.items()}
    scale += max(map(abs, value.values()))
    for step in reversed(range(horizon)):
        shift = (horizon - step) * setting.weight_bits
        value, chance = (
            {
                node: (reward << shift) + sum(weight * value[after] for weight, after in then)
                for node, (reward, then) in layers[step].items()
            },
            {node: sum(weight * chance[after] for weight, after in then) for node, (_, then) in layers[step].items()},
        )
    total = setting.value(0, sum(weight * value[node] for weight, node in starts)) / (1 << setting.start_bits)
    risk = sum(weight * chance[node] for weight, node in starts)
    return Walk(
        total,
        any(broken_at_last.values()),
        Fraction(risk, 1 << (horizon * setting.weight_bits + setting.start_bits)),
        most,
        least,
        stuck,
        stopped,
        max(abs(total), Fraction(scale, 1 << setting.reward_bits)),
        nodes,
    )


def overflows(model: Any, budget: Any, bits: int = 61, spent: Any = None) -> bool:
    """Return whether some tracked resource has no common unit in which all sums fit into `bits` bits.

    Sums are bounded as documented: the largest costs of each sign of every step, and the largest limit beside them.
    `bits` leaves a margin below the 63 of the package, as a bound on sums may be somewhat larger than the sums.
    """
    setting = Setting.of(model, budget, spent=spent)
    for d in range(len(setting.tracked)):
        up = down = 0
        costs: list[int] = []
        for step in range(setting.horizon):
            here = [
                o.cost[d] for state in range(model.n_states) for row in setting.rows(step, state) for o in row.outcomes
            ]
            up, down = up + max([0, *here]), down + min([0, *here])
            costs += here
        limits = [abs(x) for side in (setting.upper, setting.lower) for each in side if (x := each[d]) is not None]
        fixed = [abs(x) for each in (setting.initial, setting.floor, setting.ceiling) if (x := each[d]) is not None]
        unit = math.gcd(*costs, *fixed) or math.gcd(*limits) or 1
        if max(up, -down) + max(limits, default=0) + sum(fixed) > unit * 2**bits:
            return True
    return False


def value_of(function: Callable[[], Optimum]) -> Optimum | None:
    """Return an optimum, or None if the oracle would take too long."""
    try:
        return function()
    except TooLarge:
        return None


def optimum(model: Any, budget: Any, cap: int = NODE_CAP, spent: Any = None) -> Optimum | None:
    """Return the optimum by an oracle that accepts the problem; None if none does."""
    exact = value_of(lambda: exact_optimum(model, budget, cap, spent))
    return exact if exact is not None else value_of(lambda: dense_optimum(model, budget, spent=spent))
