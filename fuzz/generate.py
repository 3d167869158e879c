"""The generator: one wide family of random problems, deterministic in the seed.

A *kind* fixes what a problem is about (product rows, extreme numbers, no randomness, ...); everything else is drawn
freely, so that features meet. Numbers come from small pools, one for each resource, so that amounts and values repeat;
limits are placed around the least budget that is feasible, which a recursion on the plain data finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from fuzz.problems import FEATURES, Account, Cost, Distribution, Limit, Number, Outcome, Problem, Row

#: Kinds of problems and how often each is drawn.
WEIGHTS: dict[str, int] = {
    "general": 16,
    "one_sided": 14,
    "deterministic": 8,
    "product": 18,
    "costs": 8,
    "rewards": 10,
    "probabilities": 6,
    "steps": 6,
    "resources": 5,
    "actions": 2,
    "midsize": 3,
    "continuous": 14,
    "discounted": 5,
    "timed": 4,
    "accounts": 40,
    "continuous_accounts": 8,
}
KINDS: tuple[str, ...] = tuple(WEIGHTS)


def generate(seed: int, kind: str | None = None) -> Problem:
    """Return a random problem.

    Parameters
    ----------
    seed : int
        The same seed and kind give the same problem.
    kind : str, optional
        One of `KINDS`; drawn by `WEIGHTS` if not given.

    Returns
    -------
    Problem
        Its tags hold the kind and the features that were drawn.
    """
    rng = Random(f"solvent-{seed}")
    drawn = rng.choices(KINDS, weights=list(WEIGHTS.values()))[0]
    kind = drawn if kind is None else kind
    if kind not in WEIGHTS:
        raise ValueError(f"expected one of {', '.join(KINDS)}, found {kind!r}")
    problem = _MAKERS[kind](rng)
    return problem.with_(tags=problem.tags | {kind})


# ---------------------------------------------------------------------------------------------------------------------
# numbers


def fraction_of(number: Number) -> Fraction:
    """Return the value of a number as typed: a float of at most 15 digits is a decimal, a longer one is binary."""
    if isinstance(number, float):
        digits = Decimal(repr(number))
        short = len("".join(map(str, digits.as_tuple().digits)).strip("0")) <= 15
        return Fraction(digits) if short else Fraction(number)
    return Fraction(number)


def amount_of(cost: Cost) -> Fraction:
    """Return the value of a cost that is a number.

    Raises
    ------
    TypeError
        If the cost is continuous.
    """
    if isinstance(cost, Distribution):
        raise TypeError(f"expected a number, found {cost}")
    return fraction_of(cost)


Pool = Sequence[Number]


def _small(rng: Random) -> Pool:
    return [0, *(rng.randint(0, 5) for _ in range(rng.randint(1, 4)))]


def _refunds(rng: Random) -> Pool:
    return [rng.randint(-3, 5) for _ in range(rng.randint(2, 5))]


def _negative(rng: Random) -> Pool:
    """Return costs below 0: what was earned back is most where an episode goes on."""
    parts = rng.choice([1, 1, 10, 100])
    return [str(Fraction(-rng.randint(parts, 5 * parts), parts)) for _ in range(rng.randint(1, 4))]


def _positive(rng: Random) -> Pool:
    """Return costs above 0: under lower limits, what is delivered is least where an episode is over."""
    return [-Fraction(str(cost)) for cost in _negative(rng)]


def _zeros(rng: Random) -> Pool:
    return [0] if rng.random() < 0.5 else [0, 0, 0, 1]


def _fractions(rng: Random) -> Pool:
    def one() -> Number:
        choices: Pool = [f"{rng.randint(-2, 9)}/{rng.choice([2, 3, 4, 6, 7])}", Fraction(rng.randint(-3, 9), 12), 1, 0]
        return rng.choice(choices)

    return [one() for _ in range(rng.randint(2, 5))]


def _decimals(rng: Random) -> Pool:
    choices: Pool = [0.1, 0.2, 0.3, 0.7, -0.1, 1.1, "0.1", "0.30", 0.05, 2.675, 1]
    return [rng.choice(choices) for _ in range(rng.randint(2, 5))]


def _long_floats(rng: Random) -> Pool:
    low = rng.choice([0.0, 0.0, -1.0])
    return [rng.uniform(low, 2.0) for _ in range(rng.randint(1, 4))] + [0]


def _large(rng: Random) -> Pool:
    """Return integers whose sums over a few steps just fit into 64 bits, or just do not."""
    top = 2**63 // rng.choice([1, 2, 3, 4, 5, 8])
    near = [top - rng.randint(1, 3), top // 2, -(top // 2), -(top - rng.randint(1, 3)), 1, -1, 0, top // 3, 2**53 + 1]
    return [rng.choice(near) for _ in range(rng.randint(2, 4))]


def _far_above(rng: Random) -> Pool:
    far = rng.choice([100, 10**6, 10**9, 10**15, 2**60])
    return [0, 1, rng.randint(1, 5), far, *([-far] if rng.random() < 0.3 else [])]


def _common_factor(rng: Random) -> Pool:
    units: Pool = [7, 12, 1000, 10**9, "1/1000"]
    unit = rng.choice(units)
    return [str(Fraction(unit) * k) for k in (0, rng.randint(1, 5), rng.randint(-2, 5))]


COST_POOLS: dict[str, Callable[[Random], Pool]] = {
    "small": _small,
    "refunds": _refunds,
    "negative": _negative,
    "positive": _positive,
    "zeros": _zeros,
    "fractions": _fractions,
    "decimals": _decimals,
    "long_floats": _long_floats,
    "large": _large,
    "far_above": _far_above,
    "common_factor": _common_factor,
}
_USUAL_COSTS = ["small"] * 6 + ["refunds"] * 5 + ["fractions", "decimals", "far_above", "zeros"]
_USUAL_COSTS += ["negative", "negative", "positive"]
_ODD_COSTS = ["large", "large", "long_floats", "long_floats", "far_above", "fractions", "decimals", "common_factor"]


def _whole_rewards(rng: Random) -> Pool:
    return [rng.randint(-2, 6) for _ in range(rng.randint(2, 5))]


def _decimal_rewards(rng: Random) -> Pool:
    return [round(rng.uniform(-1, 5), rng.choice([1, 2])) for _ in range(rng.randint(2, 5))]


def _long_rewards(rng: Random) -> Pool:
    return [rng.uniform(-1, 5) for _ in range(rng.randint(2, 6))]


def _scaled_rewards(scale: float) -> Callable[[Random], Pool]:
    def pool(rng: Random) -> Pool:
        return [rng.choice([rng.randint(-2, 6), rng.uniform(-1, 5)]) * scale for _ in range(rng.randint(2, 5))]

    return pool


def _near_ties(rng: Random) -> Pool:
    base = rng.choice([1.0, 3.0, 1e6])
    return [base * (1 + rng.choice([0, 0, 2**-52, 2**-40, 1e-10, -1e-10, 1e-8])) for _ in range(rng.randint(2, 5))]


def _mixed_scales(rng: Random) -> Pool:
    return [rng.choice([1e12, -1e12, 1.0, 0.5, 1e-6, 3, 0]) for _ in range(rng.randint(2, 6))]


def _one_enormous(rng: Random) -> Pool:
    """Return usual rewards; `_poison` adds the row with an enormous one."""
    return [rng.choice([rng.randint(0, 5), rng.uniform(0, 5), 1e-3, 0.1]) for _ in range(rng.randint(2, 5))]


def _extreme(rng: Random) -> Pool:
    return [rng.choice([1.7e308, 1.2e308, 9e307, -1.7e308, 1e300, 1.0]) for _ in range(rng.randint(1, 3))]


REWARD_POOLS: dict[str, Callable[[Random], Pool]] = {
    "whole": _whole_rewards,
    "decimal": _decimal_rewards,
    "long": _long_rewards,
    "huge": _scaled_rewards(1e12),
    "tiny": _scaled_rewards(1e-13),
    "least": _scaled_rewards(1e-300),
    "near_ties": _near_ties,
    "mixed_scales": _mixed_scales,
    "one_enormous": _one_enormous,
    "no_reward": lambda rng: [0],
    "tied": lambda rng: [rng.choice([1, 2, 0.3])],
    "extreme": _extreme,
}
_USUAL_REWARDS = ["whole"] * 8 + ["decimal"] * 3 + ["long"] * 3 + ["tied", "near_ties", "no_reward"]
_ODD_REWARDS = [
    "huge", "tiny", "tiny", "tiny", "least", "near_ties", "mixed_scales", "one_enormous", "one_enormous",
    "one_enormous", "extreme", "extreme", "long", "tied",
]  # fmt: skip


def _weights(rng: Random, n: int, odd: float) -> list[Number]:
    """Return n probabilities that sum to one up to rounding."""
    if n == 1:
        return [1]
    if rng.random() < odd:
        tiny = rng.choice([1e-12, 1e-300, 5e-324, 1e-15, 1e-9])
        rest = max(0.0, 1.0 - (n - 1) * tiny)
        found: list[Number] = [rest, *([tiny] * (n - 1))]
        rng.shuffle(found)
        return found
    style = rng.choice(["even", "dyadic", "parts", "float"])
    if style == "even":
        return [Fraction(1, n)] * n
    if style == "dyadic":
        halves: list[Number] = [Fraction(1, 2**k) for k in range(1, n)]
        return [*halves, Fraction(1, 2 ** (n - 1))]
    parts = [rng.randint(1, 9) for _ in range(n)]
    if style == "parts":
        return [Fraction(part, sum(parts)) for part in parts]
    cuts = [rng.random() + 0.01 for _ in range(n)]
    return [cut / math.fsum(cuts) for cut in cuts]


# ---------------------------------------------------------------------------------------------------------------------
# rows


@dataclass
class _Frame:
    """Pools from which the rows of a problem are drawn."""

    rng: Random
    horizon: int
    n_states: int
    resources: tuple[str, ...]
    costs: list[Pool]
    rewards: Pool
    odd_weights: float = 0.05
    most_outcomes: int = 3
    scrambled: float = 0.2

    def cost(self) -> tuple[Cost, ...]:
        return tuple(self.rng.choice(pool) for pool in self.costs)

    def state(self) -> int:
        return self.rng.randrange(self.n_states)

    def reward(self) -> Number:
        return self.rng.choice(self.rewards)

    def outcomes(self, n: int) -> tuple[Outcome, ...]:
        """Return n outcomes; now and then two are the same, or differ in one cost only."""
        rng = self.rng
        found: list[tuple[int, tuple[Cost, ...]]] = [(self.state(), self.cost()) for _ in range(n)]
        if n > 1 and rng.random() < 0.2:
            state, cost = found[0]
            if self.costs and rng.random() < 0.5:
                d = rng.randrange(len(self.costs))
                cost = (*cost[:d], rng.choice(self.costs[d]), *cost[d + 1 :])
            found[-1] = (state, cost)
        weights = _weights(rng, n, self.odd_weights)
        return tuple(Outcome(p, state, cost) for p, (state, cost) in zip(weights, found, strict=True))

    def product(self, costs: list[tuple[Cost, ...]], chances: list[Number], n_states: int) -> tuple[Outcome, ...]:
        """Return outcomes whose costs are independent of the next state, or only look as if they were."""
        rng = self.rng
        states = rng.sample(range(self.n_states), min(n_states, self.n_states))
        shares = _weights(rng, len(states), 0.0)
        twist = rng.random()
        scramble = rng.random() < self.scrambled
        if scramble or twist < 0.15:
            shares, chances = [Fraction(1, len(states))] * len(states), [Fraction(1, len(costs))] * len(costs)
        found: list[Outcome] = []
        for state, p in zip(states, shares, strict=True):
            for cost, q in zip(costs, chances, strict=True):
                found.append(Outcome(_times(p, q), state, cost))
        if scramble:  # the margins are those of independent rows, but pairs repeat and others are missing
            shuffled = [outcome.cost for outcome in found]
            rng.shuffle(shuffled)
            found = [outcome._replace(cost=cost) for outcome, cost in zip(found, shuffled, strict=True)]
        elif 0.3 < twist < 0.45:  # the same pair as two outcomes
            at = rng.randrange(len(found))
            half = _times(found[at].probability, Fraction(1, 2))
            found[at] = found[at]._replace(probability=half)
            found.insert(rng.randrange(len(found) + 1), found[at])
        elif 0.45 < twist < 0.6:  # one pair takes the place of another
            to, at = rng.randrange(len(found)), rng.randrange(len(found))
            found[to] = found[to]._replace(next_state=found[at].next_state, cost=found[at].cost)
        elif twist < 0.7:
            rng.shuffle(found)
        return tuple(found)


def _times(p: Number, q: Number) -> Number:
    if isinstance(p, Fraction | int) and isinstance(q, Fraction | int):
        return Fraction(p) * Fraction(q)
    return float(Fraction(p) * Fraction(q))


def _rows(frame: _Frame, most_actions: int, one_outcome: bool = False, rest: float = 0.6) -> list[Row]:
    """Return rows for every state, usually with an action that costs nothing among them."""
    rng, rows = frame.rng, []
    for state in range(frame.n_states):
        n_actions = rng.randint(1, most_actions)
        for action in range(n_actions):
            n = 1 if one_outcome else rng.randint(1, frame.most_outcomes)
            rows.append(Row(state, f"a{action}", frame.reward(), frame.outcomes(n)))
        if rng.random() < rest:
            nothing: tuple[Cost, ...] = (0,) * len(frame.resources)
            rows.append(Row(state, "rest", frame.rng.choice([0, 0, frame.reward()]), (Outcome(1, state, nothing),)))
    return rows


def _poison(frame: _Frame, rows: list[Row]) -> list[Row]:
    """Add a row with an enormous reward that no policy should take: a bad one, or one that is never safe."""
    rng = frame.rng
    size = rng.choice([1e12, 1e9, 1e15, 1e30, 1e290])
    state = frame.state()
    if rng.random() < 0.5 or not frame.resources:
        return [*rows, Row(state, "awful", -size, frame.outcomes(1))]
    beyond: tuple[Cost, ...] = (10**6,) * len(frame.resources)
    return [*rows, Row(state, "unsafe", size, (Outcome(1, frame.state(), beyond),))]


def _with_terminals(frame: _Frame, rows: list[Row]) -> tuple[list[Row], list[tuple[int, tuple[int, ...] | None]]]:
    """Make some states terminal, at all steps or at some, and let some rows differ by step."""
    rng, horizon = frame.rng, frame.horizon
    terminal: list[tuple[int, tuple[int, ...] | None]] = []
    found: list[Row] = []
    for state in range(frame.n_states):
        here = [row for row in rows if row.state == state]
        draw = rng.random()
        if state and draw < 0.2:
            terminal.append((state, None))
            continue
        over: tuple[int, ...] = ()
        if draw < 0.5:
            over = tuple(step for step in range(0 if state else 1, horizon) if rng.random() < 0.4)
        steps = [step for step in range(horizon) if step not in over]
        if not steps:
            terminal.append((state, None))
            continue
        if over:
            terminal.append((state, over))
        for i, row in enumerate(here):
            cut = rng.randint(0, len(steps))
            if rng.random() < 0.5 or not 0 < cut < len(steps):
                found.append(row._replace(steps=tuple(steps) if over else None))
                continue
            found.append(row._replace(steps=tuple(steps[:cut])))
            if i == 0 or rng.random() < 0.7:  # the first action is there at all steps
                other = frame.outcomes(len(row.outcomes))
                found.append(row._replace(reward=frame.reward(), outcomes=other, steps=tuple(steps[cut:])))
    return found, terminal


# ---------------------------------------------------------------------------------------------------------------------
# limits


def least_budget(problem: Problem, resource: int, *, sign: int = 1, final: bool = False) -> Fraction | None:
    """Return the least constant limit on one resource that some policy keeps, the others unlimited.

    With `sign=-1` costs are negated: then minus the result is the greatest lower limit. None if costs are continuous,
    if goals cannot be reached, or if there are too many amounts. Without accounts and goals,
    the least peak of spending from (step, state) on is min over rows of max over outcomes of cost + max(0, later peak);
    for a limit after the last step only, of cost + later need.
    """
    assert problem.horizon is not None
    if any(isinstance(outcome.cost[resource], Distribution) for row in problem.rows for outcome in row.outcomes):
        return None
    if problem.features:
        return _least_peak(problem, resource, sign, final)
    by_state: dict[Any, list[tuple[tuple[int, ...] | None, list[tuple[Any, Fraction]]]]] = {}
    for row in problem.rows:
        outcomes = [
            (o.next_state, sign * amount_of(o.cost[resource])) for o in row.outcomes if fraction_of(o.probability)
        ]
        by_state.setdefault(row.state, []).append((row.steps, outcomes))
    later: dict[Any, Fraction] = {}
    states = {*by_state, *(o.next_state for row in problem.rows for o in row.outcomes), problem.start}
    zero = Fraction(0)
    for step in reversed(range(problem.horizon)):
        now: dict[Any, Fraction] = {}
        for state in states:
            needs = []
            for steps, outcomes in by_state.get(state, []):
                if steps is None or step in steps:
                    after = [(cost, later.get(then, zero)) for then, cost in outcomes]
                    needs.append(max(cost + (x if final else max(zero, x)) for cost, x in after))
            now[state] = min(needs, default=zero)
        later = now
    return later[problem.start]


def _least_peak(problem: Problem, resource: int, sign: int, final: bool, cap: int = 3000) -> Fraction | None:
    """Return the least peak by a recursion over (step, state, amount); None if there is none, or more than `cap` nodes.

    The peak from a node on is the amount itself once the episode is over (it stays), which counts for limits of later
    steps, and infinite if it must not end there; the max over outcomes of the amount after it and the peak from there
    on, for the best row, otherwise. Limits after the last step count what is there at the end only.
    """
    horizon = problem.horizon
    assert horizon is not None
    account = problem.account(problem.resources[resource])
    low, high = (None if end is None else sign * fraction_of(end) for end in (account.floor, account.ceiling))
    low, high = (low, high) if sign > 0 else (high, low)
    by_state: dict[Any, list[tuple[tuple[int, ...] | None, list[tuple[Any, Fraction]]]]] = {}
    for row in problem.rows:
        outcomes = [
            (o.next_state, sign * amount_of(o.cost[resource])) for o in row.outcomes if fraction_of(o.probability)
        ]
        by_state.setdefault(row.state, []).append((row.steps, outcomes))
    known: dict[tuple[int, Any, Fraction], Fraction | None] = {}

    def clamp(amount: Fraction) -> Fraction:
        amount = amount if low is None else max(amount, low)
        return amount if high is None else min(amount, high)

    def peak(step: int, state: Any, amount: Fraction) -> Fraction | None:
        rows = [outcomes for steps, outcomes in by_state.get(state, ()) if steps is None or step in steps]
        if step == horizon or not rows:
            return amount if problem.goals is None or state in problem.goals else None
        key = step, state, amount
        if key not in known:
            if len(known) >= cap:
                raise _TooMany
            known[key] = None
            needs = [row_peak(step, amount, outcomes) for outcomes in rows]
            known[key] = min((need for need in needs if need is not None), default=None)
        return known[key]

    def row_peak(step: int, amount: Fraction, outcomes: list[tuple[Any, Fraction]]) -> Fraction | None:
        found = []
        for state, cost in outcomes:
            after = clamp(amount + cost)
            later = peak(step + 1, state, after)
            if later is None:
                return None
            found.append(later if final else max(after, later))
        return max(found)

    initial = sign * fraction_of(account.initial)
    try:
        peaks = [peak(0, state, initial) for state, p in problem.first_states.items() if fraction_of(p)]
    except _TooMany:
        return None
    found = [each for each in peaks if each is not None]
    return max(found) if len(found) == len(peaks) else None


class _TooMany(Exception):  # noqa: N818
    """There are too many amounts."""


def _tick(problem: Problem, resource: int) -> Fraction:
    costs = [amount_of(o.cost[resource]) for row in problem.rows for o in row.outcomes]
    numerator, denominator = 0, 1
    for cost in costs:
        numerator = math.gcd(numerator * cost.denominator, cost.numerator * denominator)
        denominator *= cost.denominator
        shared = math.gcd(numerator, denominator) or 1
        numerator, denominator = numerator // shared, denominator // shared
    return Fraction(numerator, denominator) if numerator else Fraction(1)


def _spread(problem: Problem, resource: int) -> Fraction:
    sizes = [abs(amount_of(o.cost[resource])) for row in problem.rows for o in row.outcomes]
    usual = sorted(size for size in sizes if size)
    return usual[len(usual) // 2] if usual else Fraction(1)


def _as_number(rng: Random, value: Fraction) -> Number:
    if value.denominator == 1:
        return int(value)
    digits = str(value)
    return value if rng.random() < 0.5 or len(digits) > 300 else digits


def _one_side(rng: Random, problem: Problem, resource: int, sign: int, final: bool, tight: float) -> Fraction:
    """Return a limit as an amount of `sign` times what is spent: around the least feasible one, or looser."""
    assert problem.horizon is not None
    least = least_budget(problem, resource, sign=sign, final=final)
    if least is None:  # goals cannot be reached, or it would take too long
        least = sign * fraction_of(problem.account(problem.resources[resource]).initial)
    tick, spread = _tick(problem, resource), _spread(problem, resource)
    draw = rng.random()
    if draw < tight:
        return least + rng.choice([-1, 0, 0, 1, 2]) * tick
    if draw < 0.85:
        return least + Fraction(rng.randint(0, 2 * problem.horizon + 2)) * spread / 2
    if draw < 0.92:
        return least - spread
    return least + problem.horizon * spread * rng.choice([2, 10])


LIMIT_KINDS = ("upper", "lower", "both", "upper_steps", "lower_steps", "both_steps", "final", "final_both", "none")
_LIMIT_WEIGHTS = (30, 14, 16, 10, 5, 7, 7, 5, 6)


def _limit(rng: Random, problem: Problem, resource: int, kind: str, tight: float = 0.35) -> Limit | None:
    horizon = problem.horizon
    assert horizon is not None
    if kind == "none":
        return None
    final = kind.startswith("final")
    upper = _one_side(rng, problem, resource, 1, final, tight)
    lower = -_one_side(rng, problem, resource, -1, final, tight)
    if kind in ("both", "both_steps", "final_both") and lower > upper:
        lower, upper = upper, lower
    tick = _tick(problem, resource)

    def number(value: Fraction) -> Number:
        if rng.random() < 0.05:  # a limit between two multiples of the unit
            value += tick / 3
        return _as_number(rng, value)

    def by_step(value: Fraction, outward: int) -> tuple[Number | None, ...]:
        found: list[Number | None] = []
        for _ in range(horizon):
            draw = rng.random()
            moved = value + outward * tick * rng.choice([0, 0, 1, 2])
            found.append(None if draw < 0.3 else _as_number(rng, moved))
        return tuple(found)

    if kind in ("upper", "final"):
        return Limit(upper=number(upper), final=final)
    if kind == "lower":
        return Limit(lower=number(lower))
    if kind in ("both", "final_both"):
        return Limit(upper=_as_number(rng, upper), lower=_as_number(rng, lower), final=final)
    if kind == "upper_steps":
        return Limit(upper=by_step(upper, 1))
    if kind == "lower_steps":
        return Limit(lower=by_step(lower, -1))
    return Limit(upper=by_step(upper, 1), lower=by_step(lower, -1))


def _limited(rng: Random, problem: Problem, kinds: Sequence[str] | None = None, tight: float = 0.35) -> Problem:
    """Return the problem with limits on its resources."""
    limits: dict[str, Limit] = {}
    tags = set(problem.tags)
    # with several resources, the least budget of each by itself is seldom enough
    tight = tight if len(problem.resources) == 1 else tight / 2
    for d, name in enumerate(problem.resources):
        kind = rng.choice(kinds) if kinds else rng.choices(LIMIT_KINDS, weights=_LIMIT_WEIGHTS)[0]
        limit = _limit(rng, problem, d, kind, tight)
        tags.add(f"limit_{kind}")
        if limit is not None:
            limits[name] = limit
    return problem.with_(limits=limits, tags=frozenset(tags))


# ---------------------------------------------------------------------------------------------------------------------
# kinds


def _frame(
    rng: Random,
    n_resources: int,
    costs: Sequence[str] = _USUAL_COSTS,
    rewards: Sequence[str] = _USUAL_REWARDS,
    most_horizon: int = 5,
    most_states: int = 4,
    **options: Any,
) -> tuple[_Frame, set[str]]:
    cost_kinds = [rng.choice(costs) for _ in range(n_resources)]
    reward_kind = rng.choice(rewards)
    frame = _Frame(
        rng,
        rng.randint(1, most_horizon),
        rng.randint(1, most_states),
        tuple(f"r{d}" for d in range(n_resources)),
        [COST_POOLS[kind](rng) for kind in cost_kinds],
        REWARD_POOLS[reward_kind](rng),
        **options,
    )
    tags = {f"cost_{kind}" for kind in cost_kinds} | {f"reward_{reward_kind}", f"resources_{n_resources}"}
    return frame, tags


def _finish(
    frame: _Frame,
    tags: set[str],
    rows: list[Row],
    *,
    by_step: bool = False,
    kinds: Sequence[str] | None = None,
    tight: float = 0.35,
) -> Problem:
    terminal: list[tuple[int, tuple[int, ...] | None]] = []
    if "reward_one_enormous" in tags:
        rows = _poison(frame, rows)
    if by_step:
        rows, terminal = _with_terminals(frame, rows)
    elif frame.n_states > 1 and frame.rng.random() < 0.3:
        last = frame.n_states - 1
        rows, terminal = [row for row in rows if row.state != last], [(last, None)]
    problem = Problem(
        horizon=frame.horizon,
        start=0,
        resources=frame.resources,
        rows=tuple(rows),
        terminal=tuple(terminal),
        tags=frozenset(tags),
    )
    return _limited(frame.rng, problem, kinds, tight)


def _general(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([0, 1, 1, 2, 2, 2]))
    return _finish(frame, tags, _rows(frame, 3), by_step=rng.random() < 0.2)


_ONE_SIDE = ("upper", "upper", "upper", "lower", "upper_steps", "lower_steps", "final")


def _one_sided(rng: Random) -> Problem:
    frame, tags = _frame(rng, 1, most_horizon=6, rewards=[*_USUAL_REWARDS, "one_enormous", "mixed_scales", "tiny"])
    return _finish(frame, tags, _rows(frame, 3), by_step=rng.random() < 0.2, kinds=_ONE_SIDE)


def _deterministic(rng: Random) -> Problem:
    rewards = [*_USUAL_REWARDS, "one_enormous", "one_enormous", "mixed_scales", "near_ties", "tiny"]
    costs = [*_USUAL_COSTS, "long_floats", "large"]
    frame, tags = _frame(rng, rng.choice([1, 1, 1, 2]), costs, rewards, most_horizon=8, most_states=5)
    rows = _rows(frame, 4, one_outcome=True)
    kinds = None if rng.random() < 0.15 else _ONE_SIDE
    return _finish(frame, tags, rows, by_step=rng.random() < 0.2, kinds=kinds)


def _product(rng: Random) -> Problem:
    kinds = ["small", "small", "refunds", "refunds", "far_above", "negative", "decimals", "large"]
    frame, tags = _frame(rng, rng.choice([1, 1, 1, 2, 2]), kinds, most_horizon=4)
    frame.n_states = rng.randint(2, 7)
    if rng.random() < 0.6:  # enough distinct costs, one of them perhaps far beyond the others
        far: list[Number] = [rng.choice([50, 1000, 10**6])] if rng.random() < 0.4 else []
        frame.costs = [[*pool, *rng.sample(range(-2, 8), 4), *far] for pool in frame.costs]
    large, reach = rng.random() < 0.4, 0  # rows so large that methods take them apart
    if large:
        frame.n_states = rng.randint(4, 7)
        reach = rng.choice([20, 10**5, 10**9, 10**9])
        frame.costs = [[*rng.sample(range(-3, 6), 5), reach, *([-reach] * (rng.random() < 0.2))] for _ in frame.costs]
        frame.scrambled = rng.choice([0.0, 0.2, 0.9])
    n_costs = rng.randint(4, 6) if large else rng.randint(2, 6)
    drawn = [frame.cost() for _ in range(n_costs + 4)]
    if large:
        drawn.insert(0, (reach, *drawn[0][1:]))
    shared = list(dict.fromkeys(drawn))[:n_costs]
    if rng.random() < 0.15:
        shared = [*shared, shared[0]]
    chances = _weights(rng, len(shared), frame.odd_weights)
    rows = []
    for state in range(frame.n_states):
        for action in range(rng.randint(1, 2)):
            mine, mine_chances = shared, chances
            if not large and rng.random() < 0.2:
                mine = list(dict.fromkeys(frame.cost() for _ in range(rng.randint(2, 4))))
                mine_chances = _weights(rng, len(mine), frame.odd_weights)
            outcomes = frame.product(mine, mine_chances, rng.randint(4, 6) if large else rng.randint(2, 6))
            rows.append(Row(state, f"a{action}", frame.reward(), outcomes))
        if rng.random() < 0.8:
            rows.append(Row(state, "rest", 0, (Outcome(1, state, (0,) * len(frame.resources)),)))
    limits = rng.choice(
        [
            None,
            ("both", "both_steps", "final_both"),
            ("lower", "lower_steps"),
            ("lower",),
            ("upper", "both"),
            ("upper",),
        ]
    )
    if large and frame.scrambled < 0.5 and rng.random() < 0.5:
        limits = ("lower", "lower", "lower_steps")
    return _finish(frame, tags, rows, kinds=limits, tight=0.6 if large else 0.3)


def _costs(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([1, 1, 2]), _ODD_COSTS, most_horizon=4)
    kinds = _ONE_SIDE if rng.random() < 0.6 else None
    return _finish(frame, tags, _rows(frame, 3), by_step=rng.random() < 0.1, kinds=kinds)


def _rewards(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([0, 1, 1, 1, 2]), _USUAL_COSTS, _ODD_REWARDS)
    rows = _rows(frame, 3, one_outcome=rng.random() < 0.25)
    return _finish(frame, tags, rows, kinds=_ONE_SIDE if rng.random() < 0.6 else None)


def _probabilities(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([1, 1, 2]), most_horizon=4, odd_weights=0.7, most_outcomes=4)
    rows = _rows(frame, 2)
    if rng.random() < 0.4:
        many = rng.randint(10, 40)
        rows.append(Row(frame.state(), "many", frame.reward(), frame.outcomes(many)))
    if rng.random() < 0.3:  # an outcome of probability zero is dropped
        row = rows[0]
        rows[0] = row._replace(outcomes=(*row.outcomes, Outcome(0, frame.state(), (10**9,) * len(frame.resources))))
    return _finish(frame, tags, rows)


def _steps(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([1, 1, 2]), most_horizon=6)
    frame.horizon = max(frame.horizon, 2)
    return _finish(frame, tags, _rows(frame, 3, one_outcome=rng.random() < 0.2), by_step=True)


def _resources(rng: Random) -> Problem:
    frame, tags = _frame(rng, rng.choice([3, 3, 4]), most_horizon=4, most_states=3)
    return _finish(frame, tags, _rows(frame, 3), tight=0.2)


def _actions(rng: Random) -> Problem:
    frame, tags = _frame(rng, 1, ["small", "refunds", "fractions"], most_horizon=3, most_states=2)
    frame.costs = [[*frame.costs[0], *range(-2, 12)]]
    frame.rewards = [*frame.rewards, *(round(rng.uniform(0, 9), 2) for _ in range(40))]
    n_actions = rng.choice([100, 130, 257])
    rows = _rows(frame, 2)
    rows += [Row(0, f"b{i}", frame.reward(), frame.outcomes(rng.randint(1, 2))) for i in range(n_actions)]
    return _finish(frame, tags, rows)


def _midsize(rng: Random) -> Problem:
    """Return a problem of ten thousand to a million nodes on small whole costs."""
    n_resources = rng.choice([1, 1, 2, 2, 3])
    tops = {1: rng.choice([30, 100, 400]), 2: rng.choice([4, 8]), 3: 2}[n_resources]
    horizon = {1: rng.choice([10, 15, 25]), 2: rng.choice([7, 10]), 3: rng.choice([5, 7])}[n_resources]
    n_states = rng.choice([3, 5, 9])
    refund = rng.choice([0, 0, 1, 2])
    pools: list[Pool] = [
        [0, *(rng.randint(-refund, tops) for _ in range(rng.randint(3, 9)))] for _ in range(n_resources)
    ]
    frame = _Frame(
        rng, horizon, n_states, tuple(f"r{d}" for d in range(n_resources)), pools,
        REWARD_POOLS[rng.choice(["whole", "long", "decimal", "one_enormous", "tiny"])](rng),
    )  # fmt: skip
    rows = _rows(frame, 3)
    if rng.random() < 0.5:
        shared = list(dict.fromkeys(frame.cost() for _ in range(rng.randint(2, 6))))
        chances = _weights(rng, len(shared), 0.0)
        rows += [Row(s, "spread", frame.reward(), frame.product(shared, chances, 4)) for s in range(n_states)]
    tags = {f"resources_{n_resources}"}
    kinds = _ONE_SIDE if n_resources == 1 and rng.random() < 0.6 else ("upper", "both", "upper_steps", "lower")
    return _finish(frame, tags, rows, kinds=kinds, tight=0.1)


def _timed(rng: Random) -> Problem:
    """Return a problem that takes long enough for a short time limit to end it anywhere."""
    low, high = rng.choice([0, -1, -2]), 5
    horizon, n_states = rng.choice([15, 20, 30]), rng.choice([8, 14, 20])

    def outcomes() -> tuple[Outcome, ...]:
        return tuple(
            Outcome(p, rng.randrange(n_states), (low + (high - low) * Fraction(rng.random()),))
            for p in _weights(rng, 3, 0.0)
        )

    rows = [Row(state, f"a{action}", rng.random(), outcomes()) for state in range(n_states) for action in range(3)]
    if rng.random() < 0.5:
        rows += [Row(state, "rest", 0, (Outcome(1, state, (0,)),)) for state in range(n_states)]
    problem = Problem(horizon, 0, ("r0",), tuple(rows), tags=frozenset({"cost_long_floats"}))
    return problem.with_(limits={"r0": Limit(upper=rng.randint(horizon, 3 * horizon))})


# Continuous costs: ends on and off the edges of bins, far from zero on both sides.
def _distribution(rng: Random, bounded: bool, shifts: Sequence[int]) -> Distribution:
    shift = rng.choice(shifts)
    widths: Pool = [1, 1, "1/2", "1/3", 2, "0.7"]
    width = rng.choice(widths)
    low, high = Fraction(shift), Fraction(shift) + Fraction(width)
    negate = rng.random() < 0.2
    if negate:
        low, high = -high, -low
    name = rng.choice(["uniform", "uniform", "triangular", "truncated_normal", "beta", "exponential"])
    ends: list[tuple[str, Number]] = [("low", str(low)), ("high", str(high))]
    if name == "triangular":
        ends.insert(1, ("mode", str(rng.choice([low, high, (low + high) / 2]))))
    if name == "truncated_normal":
        deviations: Pool = ["1/2", 1, 3]
        ends = [("mean", str(rng.choice([low, high, (low + high) / 2, high + 3]))), ("sd", rng.choice(deviations))]
        ends += [("low", str(low)), ("high", str(high))]
        if not bounded and rng.random() < 0.3:
            negate, ends = False, [*ends[:2], ("high", str(high))]
    if name == "beta":
        first: Pool = [2, "1/2", 1]
        second: Pool = [3, "1/2", 1]
        ends = [("a", rng.choice(first)), ("b", rng.choice(second)), *ends]
    if name == "exponential":
        scales: Pool = [1, "1/2", 3]
        ends = [("scale", rng.choice(scales)), *ends]
        if not bounded and rng.random() < 0.4:
            negate, ends = True, ends[:2]
    return Distribution(name, tuple(ends), negate)


def support(cost: Cost) -> tuple[Fraction | None, Fraction]:
    """Return the ends of the support of a cost; the lower one is None if there is none."""
    if not isinstance(cost, Distribution):
        value = fraction_of(cost)
        return value, value
    ends = {key: fraction_of(value) for key, value in cost.parameters}
    low = ends.get("low", Fraction(0) if cost.name in ("beta", "exponential") else None)
    high = ends.get("high", Fraction(1) if cost.name == "beta" else None)
    if cost.negate:
        low, high = (None if high is None else -high), (None if low is None else -low)
    assert high is not None
    return low, high


def _one_bin(rng: Random) -> Problem:
    """Return a problem whose distribution may be one bin, beside discrete costs at its ends."""
    width = rng.choice([Fraction(1), Fraction(2), Fraction(1, 2)])
    low = rng.randint(-2, 3) * width
    distribution = Distribution(rng.choice(["uniform", "beta"]), (("low", str(low)), ("high", str(low + width))))
    if distribution.name == "beta":
        distribution = distribution._replace(parameters=(("a", 2), ("b", rng.choice([1, 3])), *distribution.parameters))
    costs: list[Cost] = [distribution, str(low), str(low + width)]
    end, alike = rng.choice(costs[1:]), rng.random() < 0.7
    horizon, n_states = rng.choice([2, 3, 3]), rng.randint(1, 2)
    rows = []
    for state in range(n_states):
        for action in range(rng.randint(1, 2)):
            after = rng.randrange(n_states)
            chosen = [end, distribution]
            if not alike:
                chosen = [distribution, *rng.sample(costs[1:], rng.randint(1, 2))]
                rng.shuffle(chosen)
            chances = _weights(rng, len(chosen), 0.0)
            outcomes = tuple(Outcome(p, after, (cost,)) for p, cost in zip(chances, chosen, strict=True))
            rows.append(Row(state, f"a{action}", rng.randint(1, 4), outcomes))
        if rng.random() < 0.8:
            rows.append(Row(state, "rest", 0, (Outcome(1, state, (0,)),)))
    reach = max(abs(low), abs(low + width))
    limit = Limit(upper=_as_number(rng, reach * horizon - rng.choice([0, 1, 1, 2, 3]) * width / rng.choice([1, 1, 2])))
    return Problem(horizon, 0, ("r0",), tuple(rows), {"r0": limit}, tags=frozenset({"one_bin"}))


def _continuous(rng: Random) -> Problem:
    if rng.random() < 0.35:
        return _one_bin(rng)
    lone = rng.random() < 0.35  # one draw for each action, all of it beyond what matters: one bin, no randomness
    horizon, n_states = rng.choice([3, 3, 2, 2 if lone else 1]), rng.randint(1, 2)
    n_resources = 1 if lone else rng.choice([1, 1, 1, 2])
    resources = tuple(f"r{d}" for d in range(n_resources))
    pools: list[list[Cost]] = []
    for d in range(n_resources):
        negative = lone or rng.random() < 0.25  # nothing is ever spent, only earned back
        shifts = [-5, -9, -30] if lone else [-3, -5, -9] if negative else [0, 0, 0, 1, 2, -1, -5, 7]
        distributions: list[Cost] = [_distribution(rng, d > 0, shifts) for _ in range(rng.randint(1, 2))]
        edges: list[Cost] = [
            str(end)
            for distribution in distributions
            for end in support(distribution)
            if end is not None and rng.random() < 0.6
        ]
        usual: list[Cost] = [0, -1, "-1/2"] if negative else [0, 1, "1/2", "1/3", 2, -1, "0.7"]
        plain: list[Cost] = [rng.choice(usual) for _ in range(rng.randint(1, 2))]
        pools.append([*distributions, *distributions, *edges, *plain])
    rows = []
    pool = REWARD_POOLS[rng.choice(["whole", "whole", "decimal", "tiny", "one_enormous"])](rng)
    for state in range(n_states):
        for action in range(rng.randint(1, 2)):
            n = 1 if lone else rng.choice([1, 2, 2])
            outcomes = tuple(
                Outcome(p, rng.randrange(n_states), tuple(rng.choice(pools[d]) for d in range(n_resources)))
                for p in _weights(rng, n, 0.05)
            )
            rows.append(Row(state, f"a{action}", rng.choice(pool), outcomes))
        if rng.random() < 0.75:
            rows.append(Row(state, "rest", rng.choice([0, 0, -1]), (Outcome(1, state, (0,) * n_resources),)))
    limits: dict[str, Limit] = {}
    tags = {"reward", f"resources_{n_resources}"}
    for d, name in enumerate(resources):
        highs = [support(o.cost[d])[1] for row in rows for o in row.outcomes]
        lows = [low for row in rows for o in row.outcomes if (low := support(o.cost[d])[0]) is not None]
        reach = max([abs(x) for x in (*highs, *lows)])
        upper = Fraction(rng.randint(-1, 2 * horizon + 2)) * max(reach, Fraction(1)) / 2
        lower = -Fraction(rng.randint(0, 2 * horizon + 2)) * max(reach, Fraction(1)) / 2
        if rng.random() < 0.4:
            upper += rng.choice([Fraction(1, 2), Fraction(-1, 2), Fraction(1, 3), Fraction(1, 10)])
        kinds = ["upper", "upper", "upper", "final", "upper_steps"]
        if not lone or rng.random() < 0.2:
            kinds += ["lower", "both", "final_lower", "none"]
        kind = rng.choice(kinds)
        tags.add(f"limit_{kind}")
        if kind == "none":
            continue
        if kind == "upper_steps":
            each = tuple(rng.choice([None, _as_number(rng, upper), _as_number(rng, upper + 1)]) for _ in range(horizon))
            limits[name] = Limit(upper=each)
        elif kind == "both":
            limits[name] = Limit(upper=_as_number(rng, max(upper, lower)), lower=_as_number(rng, min(upper, lower)))
        else:
            limits[name] = Limit(
                upper=_as_number(rng, upper) if kind in ("upper", "final") else None,
                lower=_as_number(rng, lower) if kind in ("lower", "final_lower") else None,
                final=kind.startswith("final"),
            )
    return Problem(horizon, 0, resources, tuple(rows), limits, tags=frozenset(tags))


def _discounted(rng: Random) -> Problem:
    costs = ["small", "small", "refunds", "fractions", "decimals", "negative"]
    rewards = ["whole", "whole", "decimal", "tiny", "tiny", "long", "huge", "no_reward"]
    frame, tags = _frame(rng, rng.choice([1, 1, 2]), costs, rewards, most_states=3)
    rows = _rows(frame, 2, one_outcome=rng.random() < 0.4)
    terminal: tuple[tuple[int, None], ...] = ()
    if frame.n_states > 1 and rng.random() < 0.25:
        last = frame.n_states - 1
        rows, terminal = [row for row in rows if row.state != last], ((last, None),)
    discounts: Pool = ["1/2", 0.5, "1/3", "2/3", 0.7, "0.8"]
    discount = rng.choice(discounts)
    limits: dict[str, Limit] = {}
    for d, name in enumerate(frame.resources):
        total = max(abs(amount_of(o.cost[d])) for row in rows for o in row.outcomes)
        kind = rng.choice(["upper", "upper", "upper", "lower", "both", "none"])
        tags.add(f"limit_{kind}")
        # the sum of all that could ever be spent is total / (1 - discount)
        share = Fraction(rng.randint(0, 12), 8) * max(total, Fraction(1)) / (1 - fraction_of(discount))
        other = Fraction(rng.randint(0, 12), 8) * max(total, Fraction(1)) / (1 - fraction_of(discount))
        if kind in ("upper", "both", "lower"):
            limits[name] = Limit(
                upper=_as_number(rng, share) if kind != "lower" else None,
                lower=_as_number(rng, -other) if kind != "upper" else None,
            )
    return Problem(None, 0, frame.resources, tuple(rows), limits, terminal, discount, frozenset(tags))


# Accounts: everything else with saturation, goals, end rewards, several first states and initial amounts.
#: Kinds that accounts are added to.
_BASES = ["general"] * 3 + ["one_sided"] * 4 + ["deterministic"] * 3 + ["product"] * 2 + ["steps"] * 3
_BASES += ["resources", "rewards", "probabilities", "costs", "midsize"]


def _accounts(rng: Random) -> Problem:
    """Return a problem with at least one of the features; some drawings have none, such as a floor of no resource."""
    while not (problem := _drawn_accounts(rng)).features:
        pass
    return problem


def _drawn_accounts(rng: Random) -> Problem:
    base = rng.choice(_BASES)
    problem = _MAKERS[base](rng)
    tags = {tag for tag in problem.tags if not tag.startswith("limit_")} | ({"midsize"} if base == "midsize" else set())
    problem = problem.with_(limits={}, tags=frozenset(tags))
    if rng.random() < 0.6:
        problem = _with_refunds(rng, problem)
    units = [(_tick(problem, d), _spread(problem, d)) for d in range(len(problem.resources))]
    rewards = ["whole", "whole", "decimal", "long", "huge", "tiny", "near_ties", "mixed_scales"]
    if base in ("rewards", "probabilities"):
        rewards.append("least")
    problem = _featured(rng, problem, units, rewards)
    problem = _limited(rng, problem, _ONE_SIDE if base in ("one_sided", "deterministic") else None)
    return problem.with_(tags=problem.tags | {f"account_{name}" for name in problem.features})


def _continuous_accounts(rng: Random) -> Problem:
    """Return a problem with continuous costs and at least one of the features."""
    while True:
        problem = _continuous(rng)
        units = [(rng.choice([Fraction(1, 2), Fraction(1, 3)]), Fraction(1)) for _ in problem.resources]
        problem = _featured(rng, problem, units, ["whole", "decimal"])
        if problem.features:
            return problem.with_(tags=problem.tags | {f"account_{name}" for name in problem.features})


def _featured(
    rng: Random, problem: Problem, units: Sequence[tuple[Fraction, Fraction]], rewards: Sequence[str]
) -> Problem:
    """Return the problem with one, some or all features.

    `units` are a small and a usual amount of each resource, and `rewards` are the pools of end rewards.
    """
    draw = rng.random()
    chosen = {rng.choice(FEATURES)}
    if draw < 0.25:
        chosen = set(FEATURES)
    elif draw < 0.6:
        chosen = {name for name in FEATURES if rng.random() < 0.4} | chosen
    if {"floor", "ceiling", "initial"} & chosen:
        accounts = (_account(rng, tick, spread, problem.horizon or 1, chosen) for tick, spread in units)
        problem = problem.with_(accounts=dict(zip(problem.resources, accounts, strict=True)))
    states = list(dict.fromkeys(o.next_state for row in problem.rows for o in row.outcomes))
    states = list(dict.fromkeys([*problem.first_states, *(row.state for row in problem.rows), *states]))
    if "start" in chosen:
        drawn = rng.sample(states, min(len(states), rng.randint(2, 3)))
        weights = _weights(rng, len(drawn), 0.15)
        problem = problem.with_(start=dict(zip(drawn, weights, strict=True)) if len(drawn) > 1 else drawn[0])
    if "end_reward" in chosen:
        pool = REWARD_POOLS[rng.choice(rewards)](rng)
        worth = {state: rng.choice(pool) for state in states if rng.random() < 0.7}
        problem = problem.with_(end_reward={state: reward for state, reward in worth.items() if reward})
    return _with_goal(rng, problem, states) if "goal" in chosen else problem


def _with_refunds(rng: Random, problem: Problem) -> Problem:
    """Return the problem with the signs of some costs turned around: nothing saturates if costs have one sign."""

    def cost(value: Cost) -> Cost:
        return -amount_of(value) if rng.random() < 0.4 else value

    rows = tuple(
        row._replace(outcomes=tuple(o._replace(cost=tuple(map(cost, o.cost))) for o in row.outcomes))
        for row in problem.rows
    )
    return problem.with_(rows=rows)


def _account(rng: Random, tick: Fraction, spread: Fraction, horizon: int, chosen: Collection[str]) -> Account:
    """Return floor, ceiling and initial amount of a resource, on and off the amounts that can be reached."""

    def distance() -> Fraction:
        draw = rng.random()
        if draw < 0.3:
            return Fraction(0)
        if draw < 0.55:
            return rng.randint(1, 3) * tick
        if draw < 0.85:
            return Fraction(rng.randint(1, 4), 2) * spread
        if draw < 0.93:
            return tick * rng.choice([Fraction(1, 2), Fraction(1, 3), Fraction(7, 5)])
        return 10 * horizon * spread  # never reached

    initial = Fraction(0)
    if "initial" in chosen and rng.random() < 0.85:
        initial = rng.choice([1, 1, -1]) * distance()
    floor = ceiling = None
    if "floor" in chosen and rng.random() < 0.85:
        floor = _as_number(rng, initial - distance())
    if "ceiling" in chosen and rng.random() < 0.85:
        ceiling = _as_number(rng, initial + distance())
    return Account(floor, ceiling, _as_number(rng, initial))


def _with_goal(rng: Random, problem: Problem, states: list[Any]) -> Problem:
    """Return the problem with goals that can usually be reached."""
    draw = rng.random()
    if draw < 0.06:  # a goal to which nothing leads
        return problem.with_(goals=("nowhere",), terminal=(*problem.terminal, ("nowhere", None)))
    for _ in range(4):
        goals = tuple(rng.sample(states, rng.randint(1, max(1, len(states) - 1))))
        problem = problem.with_(goals=goals)
        if not problem.resources or least_budget(problem, 0) is not None:
            break
    return problem


_MAKERS: dict[str, Callable[[Random], Problem]] = {
    "general": _general,
    "one_sided": _one_sided,
    "deterministic": _deterministic,
    "product": _product,
    "costs": _costs,
    "rewards": _rewards,
    "probabilities": _probabilities,
    "steps": _steps,
    "resources": _resources,
    "actions": _actions,
    "midsize": _midsize,
    "continuous": _continuous,
    "discounted": _discounted,
    "timed": _timed,
    "accounts": _accounts,
    "continuous_accounts": _continuous_accounts,
}
