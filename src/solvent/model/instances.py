"""Families of problems: those of the paper's proofs and experiments, a grid world, and random models.

Each function returns a `CMDP` with a default budget, which `solvent.solve` takes as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from solvent.core.exact import Number, exact
from solvent.errors import ModelError, quote
from solvent.model.build import Builder
from solvent.model.cmdp import CMDP
from solvent.model.consistency import check_horizon
from solvent.model.functions import from_function


def knapsack(values: Sequence[float], weights: Sequence[Number], capacity: Number | None = None) -> CMDP:
    """Return the knapsack problem as a CMDP: at step i, take item i or leave it.

    Parameters
    ----------
    values, weights : sequences of equal length
        Values and weights of the items. Weights may be negative.
    capacity : number, optional
        Budget. Default: no budget.

    Notes
    -----
    The reduction in the proof of Theorem 1 (`thm: np-hardness`).

    Examples
    --------
    >>> knapsack([60, 100, 120], [10, 20, 30], capacity=50).n_tables
    3
    """
    if len(values) != len(weights):
        raise ModelError("knapsack", "as many values as weights", f"{len(values)} and {len(weights)}")
    b = Builder(horizon=max(len(values), 1), start="knapsack", resources=["weight"], budget=capacity, name="knapsack")
    b.add("knapsack", "leave", outcomes=[(1, "knapsack", 0)])
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        b.add("knapsack", "take", reward=value, outcomes=[(1, "knapsack", weight)], steps=[i])
    return b.build()


def paper(horizon: int, seed: int = 0, budget: Number | None = None, digits: int | None = None) -> CMDP:
    """Return an instance of the paper's experiments: one state, two actions, uniform rewards and costs.

    Parameters
    ----------
    horizon : int
        Number of steps.
    seed : int
        Random seed.
    budget : number, optional
        Budget. Default: no budget.
    digits : int, optional
        Number of decimals to which costs are truncated. By default costs are multiples of 2**-53.

    Examples
    --------
    >>> paper(15, seed=1, budget=15).horizon
    15
    """
    horizon = check_horizon(horizon)
    rng = np.random.default_rng(seed)
    rewards, costs = rng.random(horizon), rng.random(horizon)
    # exact binary values: a float with few decimal digits would otherwise be read as a decimal
    weights = [Fraction(float(cost)) for cost in costs]
    if digits is not None:
        weights = [Fraction(int(w * 10**digits), 10**digits) for w in weights]
    b = Builder(horizon=horizon, start=0, resources=["cost"], budget=budget, name=f"paper({horizon}, {seed})")
    b.add(0, 0, outcomes=[(1, 0, 0)])
    for step in range(horizon):
        b.add(0, 1, reward=rewards[step], outcomes=[(1, 0, weights[step])], steps=[step])
    return b.build()


def partition(numbers: Sequence[int]) -> CMDP:
    """Return the partition problem: put each number left or right so that neither sum exceeds half the total.

    Parameters
    ----------
    numbers : sequence of int
        Numbers to partition.

    Notes
    -----
    The reduction in the proof of Theorem 2 (`thm: approx-hard`): with two resources, even feasibility is NP-hard. The
    reward is 1 at the last step, so that every feasible policy has the value 1.

    Examples
    --------
    >>> partition([3, 1, 2]).budget["left"]
    Budget(3)
    """
    half = Fraction(sum(exact(x, "numbers") for x in numbers)) / 2
    b = Builder(
        horizon=max(len(numbers), 1),
        start="pile",
        resources=["left", "right"],
        budget={"left": half, "right": half},
        name="partition",
    )
    for step, x in enumerate(numbers):
        reward = 1 if step == len(numbers) - 1 else 0
        for side in ("left", "right"):
            b.add("pile", side, reward=reward, outcomes=[(1, "pile", {side: x})], steps=[step])
    return b.build()


def negative_knapsack(numbers: Sequence[int]) -> CMDP:
    """Return a knapsack with a negative weight in which any relaxation of the budget solves a partition problem.

    Parameters
    ----------
    numbers : sequence of positive int
        Numbers to partition. Their sum must be even.

    Raises
    ------
    ModelError
        If the sum is odd or a number is not a positive integer.

    Notes
    -----
    The construction in the proof of Proposition 4 (`prop: relax-hard`): weight and value 2x for each number x, a
    special item whose weight is minus the sum of the numbers, and a budget of 1. All weights are even, so exceeding the
    budget by a factor below 2 makes no difference. Two details differ from the paper. In the proof, taking nothing has
    the value 0 and is within budget; the special item is therefore worth one more here, and the optimum is 1 if the
    numbers can be partitioned and 0 otherwise. The special item is offered first, since the budget holds at any step.

    Examples
    --------
    >>> negative_knapsack([3, 1, 2]).horizon
    4
    """
    for x in numbers:
        if isinstance(x, bool) or not isinstance(x, int) or x < 1:
            raise ModelError("numbers", "positive integers", quote(x))
    total = sum(numbers)
    if total % 2:
        raise ModelError("numbers", "an even sum", str(total), "an odd one cannot be halved")
    doubled = [2 * x for x in numbers]
    return knapsack([1 - total, *doubled], [-total, *doubled], capacity=1)


def markov_gap(
    prize: float = 1, budget: Number = 1, chance: Number = "1/2", cost: Number | None = None, *, wait: int = 0
) -> CMDP:
    """Return a problem on which policies that ignore what was spent earn nothing.

    At the last step but one, both actions cost `cost` with probability `chance` and nothing otherwise. At the last
    step, one action costs the whole budget and earns the prize.

    Parameters
    ----------
    prize : float
        Reward of the last step.
    budget : number
        Budget B, and the cost of the prize.
    chance : number
        Probability of the random cost.
    cost : number, optional
        Random cost. Default: B. The proof of Corollary 1 also uses B / (2 * chance).
    wait : int
        Number of idle steps at the beginning.

    Notes
    -----
    The construction of Proposition 1 (`prop: Markovian-suboptimality`): the optimum is `prize * (1 - chance)`, every
    Markov policy that never exceeds the budget has the value 0, and the expectation-constrained optimum
    (`cor: cMDP-failure`) exceeds it with probability 1/4 if `chance` is 1/2.

    Examples
    --------
    >>> markov_gap(prize=10).horizon
    2
    """
    p, limit = exact(chance, "chance"), exact(budget, "budget")
    if not 0 < p < 1:
        raise ModelError("chance", "a probability between 0 and 1", quote(chance))
    random_cost = limit if cost is None else exact(cost, "cost")
    b = Builder(horizon=wait + 2, start=0, resources=["cost"], budget=limit, name="markov_gap")
    for action in (0, 1):
        if wait:
            b.add(0, action, outcomes=[(1, 0, 0)], steps=range(wait))
        b.add(0, action, outcomes=[(p, 0, random_cost), (1 - p, 0, 0)], steps=[wait])
    b.add(0, 0, outcomes=[(1, 0, 0)], steps=[wait + 1])
    b.add(0, 1, reward=prize, outcomes=[(1, 0, limit)], steps=[wait + 1])
    return b.build()


_MOVES = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


def fuel_grid(
    n: int,
    *,
    horizon: int | None = None,
    tank: Number | None = None,
    slip: Number = "1/10",
    thirst: Sequence[tuple[Number, Number]] = ((Fraction(3, 4), 1), (Fraction(1, 4), 2)),
    refill: Number = 5,
    stations: Iterable[tuple[int, int]] | None = None,
    reward: float = 1,
) -> CMDP:
    """Return an n by n grid with slippery moves, random fuel use and fuel stations.

    The start is the corner (0, 0). Each step taken in the opposite corner earns `reward`.

    Parameters
    ----------
    n : int
        Side of the grid. States are cells (x, y).
    horizon : int, optional
        Number of steps. Default: 3 n.
    tank : number, optional
        Budget. Default: 3 n / 2, rounded up.
    slip : number
        Probability of each of the two sideways moves.
    thirst : sequence of (probability, fuel)
        Distribution of the fuel that a move uses.
    refill : number
        Fuel gained by staying at a station for a step.
    stations : iterable of cells, optional
        Cells with a station. Default: the middle of the grid and two of its corners.
    reward : float
        Reward of a step in the goal.

    Examples
    --------
    >>> fuel_grid(3)
    CMDP('fuel_grid(3)': horizon 9, 9 states, 5 actions, 45 rows, 209 outcomes, stationary, resources ['fuel'])
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 2:
        raise ModelError("n", "a whole number of at least 2", quote(n))
    sideways, back = exact(slip, "slip"), exact(refill, "refill")
    if not 0 <= 2 * sideways <= 1:
        raise ModelError("slip", "a probability of at most 1/2", quote(slip))
    use = [(exact(p, "thirst"), exact(cost, "thirst")) for p, cost in thirst]
    goal = (n - 1, n - 1)
    filling = set(stations) if stations is not None else {(n // 2, n // 2), (n - 1, 0), (0, n - 1)}

    def land(cell: tuple[int, int], move: tuple[int, int]) -> tuple[int, int]:
        x, y = cell[0] + move[0], cell[1] + move[1]
        return (x, y) if 0 <= x < n and 0 <= y < n else cell

    def outcomes(cell: tuple[int, int], action: str) -> list[tuple[Any, ...]]:
        if action == "stay":
            return [(1, cell, -back if cell in filling else 0)]
        dx, dy = _MOVES[action]
        drift = ((dx, dy), 1 - 2 * sideways), ((dy, dx), sideways), ((-dy, -dx), sideways)
        chances: dict[tuple[int, int], Fraction] = {}
        for move, p in drift:
            if p:
                cell_after = land(cell, move)
                chances[cell_after] = chances.get(cell_after, Fraction(0)) + p
        return [(p * q, after, cost) for after, p in chances.items() for q, cost in use]

    return from_function(
        (0, 0),
        lambda _: [*_MOVES, "stay"],
        outcomes,
        3 * n if horizon is None else horizon,
        reward=lambda cell, _: reward if cell == goal else 0.0,
        resources=["fuel"],
        budget=-(-3 * n // 2) if tank is None else tank,
        name=f"fuel_grid({n})",
    )


def random(
    n_states: int = 5,
    n_actions: int = 3,
    *,
    horizon: int = 5,
    resources: int = 1,
    branching: int = 3,
    cost_range: tuple[int, int] = (-2, 5),
    cost_unit: Number = 1,
    real_costs: bool = False,
    budget: Number | None = None,
    stationary: bool = True,
    seed: int = 0,
) -> CMDP:
    """Return a random model: random successors, probabilities, rewards in [0, 1] and costs.

    Parameters
    ----------
    n_states : int
        Number of states.
    n_actions : int
        Number of actions in each state.
    horizon : int
        Number of steps.
    resources : int
        Number of resources.
    branching : int
        Number of outcomes per row.
    cost_range : (int, int)
        Least and greatest cost, in units.
    cost_unit : number
        Amount of one unit.
    real_costs : bool
        If True, draw costs from the whole interval (multiples of 2**-53) instead of whole units.
    budget : number, optional
        Budget of every resource. Default: half the largest possible total cost.
    stationary : bool
        If True, all steps have the same rows.
    seed : int
        Random seed.

    Examples
    --------
    >>> random(4, 2, horizon=3, seed=7) == random(4, 2, horizon=3, seed=7)
    True
    """
    rng = np.random.default_rng(seed)
    unit, (low, high) = exact(cost_unit, "cost_unit"), cost_range
    limit = unit * high * horizon / 2 if budget is None else exact(budget, "budget")
    names = [f"r{i}" for i in range(resources)]
    b = Builder(
        horizon=horizon,
        start=0,
        resources=names,
        states=range(n_states),
        actions=range(n_actions),
        budget=dict.fromkeys(names, limit),
        name=f"random({n_states}, {n_actions}, seed={seed})",
    )

    def draw_cost() -> Fraction:
        if real_costs:
            return unit * (low + (high - low) * Fraction(float(rng.random())))
        return unit * int(rng.integers(low, high + 1))

    for steps in [None] if stationary else [[step] for step in range(horizon)]:
        for state in range(n_states):
            for action in range(n_actions):
                weights = rng.dirichlet(np.ones(branching))
                outcomes = [(weight, int(rng.integers(n_states)), [draw_cost() for _ in names]) for weight in weights]
                b.add(state, action, reward=float(rng.random()), outcomes=outcomes, steps=steps)
    return b.build()
