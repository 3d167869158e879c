"""Problems that carry their answers; one test runs every method on all of them.

Optima are known from the literature, by hand, or by a computation that is no part of the package (`oracle.optimum`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import solvent
from solvent.model import instances
from solvent.model.budget import Budget, resolve
from solvent.model.cmdp import CMDP
from solvent.solvers import registry
from solvent.solvers.frontier import bounds as frontier_bounds
from solvent.solvers.problem import Problem
from solvent.solvers.reduction import layers as reduction
from test_examples import OPTIMA, moved

INFEASIBLE = -math.inf
EXAMPLES = Path(solvent.examples.__file__).parent
#: The reduction on a grid and by hashing, the paper's plain layers, frontiers as they come and as points only.
#: Ways to force a method to work in another way, by the method that they are a way of.
VARIANTS = {"hash": "reduction", "plain": "reduction", "points": "frontier"}
ALL_METHODS = (*registry.names(), *VARIANTS, registry.AUTO)


@dataclass(frozen=True)
class Case:
    """A problem and its answer.

    Attributes
    ----------
    name : str
    make : callable
        Returns the model.
    value : float
        The optimum; minus infinity if nothing is feasible.
    budget : optional
        The model's own, if not given.
    worst : dict of str to Fraction
        What an optimal policy spends at worst, where every optimal policy spends the same.
    without : tuple of str
        Methods that would take too long.
    spent : optional
        What has been spent before the first step.
    """

    name: str
    make: Callable[[], CMDP]
    value: float
    budget: Any = None
    worst: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    spent: Any = None

    @property
    def model(self) -> CMDP:
        return _made(self.make)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that accept this problem, with their variants."""
        problem = Problem.exact(self.model, resolve(self.model, self.budget, self.spent))
        fit = {name for name in registry.names() if registry.get(name).accepts(problem) is None}
        names = [*registry.names(), *VARIANTS, registry.AUTO]
        return tuple(
            name
            for name in names
            if name not in self.without and (name == registry.AUTO or VARIANTS.get(name, name) in fit)
        )


def run(method: str, model: CMDP, budget: Any = None, spent: Any = None) -> Any:
    """Solve by one of `ALL_METHODS`, which are finer than those of `solve`."""
    options: dict[str, Any] = {} if spent is None else {"spent": spent}
    with ExitStack() as stack:
        if method == "hash":
            stack.enter_context(mock.patch.object(reduction, "_GRID_KEYS", 0))
        if method == "plain":
            options["prune"] = False
        if method == "points":
            stack.enter_context(mock.patch.object(frontier_bounds, "DENSE_WIDTH", -1))
        if method == "frontier":
            stack.enter_context(mock.patch.object(frontier_bounds, "DENSE_FROM", 0))
        solution = solvent.solve(model, budget, method=VARIANTS.get(method, method), **options)
    assert method != "points" or solution.stats.representation == "points"
    return solution


@cache
def _made(make: Callable[[], CMDP]) -> CMDP:
    return make()


# The 0-1 knapsacks of John Burkardt's collection, P01 to P08: (capacity, weights, profits, optimum).
KNAPSACKS = {
    "p01": (165, [23, 31, 29, 44, 53, 38, 63, 85, 89, 82], [92, 57, 49, 68, 60, 43, 67, 84, 87, 72], 309),
    "p02": (26, [12, 7, 11, 8, 9], [24, 13, 23, 15, 16], 51),
    "p03": (190, [56, 59, 80, 64, 75, 17], [50, 50, 64, 46, 50, 5], 150),
    "p04": (50, [31, 10, 20, 19, 4, 3, 6], [70, 20, 39, 37, 7, 5, 10], 107),
    "p05": (104, [25, 35, 45, 5, 25, 3, 2, 2], [350, 400, 450, 20, 70, 8, 5, 5], 900),
    "p06": (170, [41, 50, 49, 59, 55, 57, 60], [442, 525, 511, 593, 546, 564, 617], 1735),
    "p07": (
        750,
        [70, 73, 77, 80, 82, 87, 90, 94, 98, 106, 110, 113, 115, 118, 120],
        [135, 139, 149, 150, 156, 163, 173, 184, 192, 201, 210, 214, 221, 229, 240],
        1458,
    ),
    "p08": (
        6404180,
        [
            382745, 799601, 909247, 729069, 467902, 44328, 34610, 698150, 823460, 903959, 853665, 551830,
            610856, 670702, 488960, 951111, 323046, 446298, 931161, 31385, 496951, 264724, 224916, 169684,
        ],
        [
            825594, 1677009, 1676628, 1523970, 943972, 97426, 69666, 1296457, 1679693, 1902996, 1844992, 1049289,
            1252836, 1319836, 953277, 2067538, 675367, 853655, 1826027, 65731, 901489, 577243, 466257, 369261,
        ],
        13549094,
    ),
}  # fmt: skip


def _knapsacks() -> Iterator[Case]:
    for name, (capacity, weights, profits, best) in KNAPSACKS.items():
        yield Case(
            f"knapsack-{name}",
            lambda c=capacity, w=weights, p=profits: instances.knapsack(p, w, c),
            best,
            without=("reduction", "hash", "plain") if name == "p08" else (),
        )


def tenths(n: int, cost: Any, budget: Any) -> CMDP:
    """A chain of `n` steps of one action, each worth 1: there is nothing to choose, only to be feasible or not."""
    b = CMDP.builder(horizon=n, start="on", resources=["money"], budget=budget)
    b.add("on", "pay", reward=1, outcomes=[(1, "on", cost)])
    return b.build()


def crowd(n_actions: int) -> CMDP:
    """One state of many actions: the i-th is worth i and costs i, and the best within a budget is not among the first.

    At the last of the two steps worth is turned round, so that the choice depends on what was spent.
    """
    b = CMDP.builder(horizon=2, start="here", resources=["money"], budget=2 * n_actions - 5)
    for i in range(n_actions):
        b.add("here", f"a{i}", reward=i + (i % 7) / 10, outcomes=[(0.5, "here", i), (0.5, "here", i - 1)])
    return b.build()


PIT_SLIP = 1e-8


def ridge() -> CMDP:
    """A slippery grid of 4 by 3 cells with two resources, on which only the long way round is safe.

    Moves cost a unit of fuel and slip sideways now and then. From the middle row a slip to the north falls into a pit,
    which has actions but none that any budget covers: a dead end, one that is met with a probability of one in a
    hundred million. A penalty of a million for it is a loss of a hundredth, for which the straight way, two steps
    shorter, looks the better one. Walking the middle row heats, resting in the valley cools, and there is no such thing
    as less than no heat.
    """
    pits, goal = {(1, 0), (2, 0)}, (3, 1)
    cells = [(x, y) for x in range(4) for y in range(3)]
    b = CMDP.builder(
        horizon=8,
        start=(0, 1),
        resources=["fuel", "heat"],
        budget={"fuel": 7, "heat": Budget(upper=2, lower=0)},
        name="ridge",
    )

    def land(cell: tuple[int, int], move: tuple[int, int]) -> tuple[int, int]:
        after = cell[0] + move[0], cell[1] + move[1]
        return after if after in cells else cell

    for cell in cells:
        if cell in pits:
            for action in ("climb", "call for help"):
                b.add(cell, action, reward=5, outcomes=[(1, (0, 1), {"fuel": 1000})])
            continue
        b.add(cell, "rest", reward=1 if cell == goal else 0, outcomes=[(1, cell)])
        if cell[1] == 2:
            b.add(cell, "cool", outcomes=[(1, cell, {"heat": -1})])
        for name, (dx, dy) in {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}.items():
            heat = "1/2" if cell[1] == 1 else 0
            slips = [(PIT_SLIP, land(cell, side), {"fuel": 1, "heat": heat}) for side in ((dy, dx), (-dy, -dx))]
            ahead = (1 - 2 * PIT_SLIP, land(cell, (dx, dy)), {"fuel": 1, "heat": heat})
            b.add(cell, name, outcomes=[ahead, *slips])
    return b.build()


def trap() -> CMDP:
    """The smallest dead end by chance: a bold move is worth more, but one time in 10**9 it cannot be paid for."""
    b = CMDP.builder(horizon=2, start="camp", resources=["a", "b"], budget={"a": 1, "b": 1}, name="trap")
    b.add("camp", "careful", reward=1, outcomes=[(1, "camp", [0, 0])])
    b.add("camp", "bold", reward=2, outcomes=[(1 - 1e-9, "camp", [0, 0]), (1e-9, "cleft", [0, 0])], steps=[0])
    b.add("cleft", "out by a", outcomes=[(1, "camp", [2, 0])])
    b.add("cleft", "out by b", outcomes=[(1, "camp", [0, 2])])
    return b.build()


def covering() -> CMDP:
    """Work earns, leisure is worth something; the account must stand at 2 earned after every step but cannot at first.

    Spending is negative earning: a budget of -2 asks for 2 to be earned by the end of the first step.
    """
    b = CMDP.builder(horizon=3, start="at home", resources=["money"])
    b.add("at home", "work hard", reward=-2, outcomes=[(0.5, "at home", -3), (0.5, "at home", -2)])
    b.add("at home", "work", reward=-1, outcomes=[(1, "at home", -1)])
    b.add("at home", "spend", reward=3, outcomes=[(1, "at home", 1)])
    return b.build()


def shrinking() -> CMDP:
    """Ending early is terminal, but what was spent by then must still satisfy limits that tighten later."""
    b = CMDP.builder(horizon=3, start="open", resources=["debt"])
    b.add("open", "borrow and quit", reward=9, outcomes=[(1, "closed", 3)])
    b.add("open", "borrow", reward=2, outcomes=[(1, "open", 3)])
    b.add("open", "repay", reward=-9, outcomes=[(1, "open", -2)])
    b.add("open", "quit", reward=4, outcomes=[(1, "closed", 0)])
    b.terminal("closed")
    return b.build()


def gloom() -> CMDP:
    """All rewards are negative: an action that is not taken must not count as worth 0."""
    b = CMDP.builder(horizon=3, start="up", resources=["effort"])
    b.add("up", "hold", reward=-1, outcomes=[(0.5, "up", 1), (0.5, "down", 1)])
    b.add("up", "let go", reward=-4, outcomes=[(1, "down", 0)])
    b.add("down", "lie", reward=-3, outcomes=[(1, "down", 0)])
    b.add("down", "rise", reward=-2, outcomes=[(0.75, "up", 2), (0.25, "down", 1)])
    return b.build()


def chain() -> CMDP:
    """One action everywhere, with random outcomes: feasible exactly if the worst outcome is."""
    b = CMDP.builder(horizon=4, start=0, resources=["wear"])
    for state in range(4):
        b.add(state, "on", reward=-state, outcomes=[(0.5, state, 1), (0.5, (state + 1) % 4, Fraction(-1, 2))])
    return b.build()


def no_resources() -> CMDP:
    """An ordinary MDP: nothing is spent, nothing is limited."""
    b = CMDP.builder(horizon=3, start="low", budget={})
    b.add("low", "wait", reward=1, outcomes=[(1, "low")])
    b.add("low", "climb", reward=-1, outcomes=[(0.5, "high"), (0.5, "low")])
    b.add("high", "enjoy", reward=5, outcomes=[(0.5, "high"), (0.5, "low")])
    return b.build()


def ended() -> CMDP:
    """The episode is over before it began; zero spent has to keep the limits all the same."""
    b = CMDP.builder(horizon=2, start="end", resources=["x"])
    b.terminal("end")
    b.add("elsewhere", "go", reward=7, outcomes=[(1, "end", 1)])
    return b.build()


def relapse() -> CMDP:
    """A state that is terminal at step 1 but has actions again at step 2: ended is ended."""
    b = CMDP.builder(horizon=3, start="a", resources=["x"])
    b.add("a", "go", reward=1, outcomes=[(1, "b", 1)])
    b.add("b", "more", reward=100, outcomes=[(1, "b", 0)], steps=[0, 2])
    b.terminal("b", steps=[1])
    return b.build()


def impossible_cost() -> CMDP:
    """An outcome of probability zero may cost anything; one of the least probability there is may not."""
    b = CMDP.builder(horizon=1, start=0, resources=["x"], budget=1)
    b.add(0, "fine", reward=2, outcomes=[(1, 0, 1), (0, 0, 100)])
    b.add(0, "not", reward=3, outcomes=[(1, 0, 1), (5e-324, 0, "1.000001")])
    return b.build()


def wide() -> CMDP:
    """Costs of very different size on one lattice: ticks near 10**17."""
    b = CMDP.builder(horizon=3, start=0, resources=["x"], budget="30000000000.0000001")
    b.add(0, "large", reward=10, outcomes=[(0.5, 0, 10**10), (0.5, 0, "10000000000.0000001")])
    b.add(0, "small", reward=1, outcomes=[(1, 0, "0.0000001")])
    b.add(0, "back", reward=-1, outcomes=[(1, 0, -(10**10))])
    return b.build()


def huge() -> CMDP:
    """Amounts that fill 64 bits but for one or two."""
    b = CMDP.builder(horizon=2, start=0, resources=["x"])
    b.add(0, "up", reward=5, outcomes=[(1, 0, 2**61 + 1)])
    b.add(0, "down", reward=1, outcomes=[(1, 0, -(2**61))])
    b.add(0, "rest", outcomes=[(1, 0, 0)])
    return b.build()


def doubles(seed: int, resources: int = 1, budget: float = 1.5) -> CMDP:
    """Costs that are doubles of 53 random bits, some of them negative."""
    return instances.random(
        3, 2, horizon=4, branching=2, resources=resources, real_costs=True, cost_range=(-1, 2), budget=budget,
        stationary=False, seed=seed,
    )  # fmt: skip


def two_stores(seed: int = 5) -> CMDP:
    return instances.random(
        3, 3, horizon=5, branching=2, resources=2, cost_range=(-1, 3), budget=4, stationary=False, seed=seed
    )


def tank(capacity: Any = 3, start: Any = "town", **options: Any) -> CMDP:
    """A car with a tank: driving uses 2, and a filling of 5 never overfills it."""
    fuel = solvent.Resource("fuel", floor=0)
    b = CMDP.builder(horizon=4, start=start, resources=[fuel], budget=capacity, **options)
    b.add("town", "drive", reward=3, outcomes=[(1, "town", 2)])
    b.add("town", "fill", outcomes=[(1, "town", -5)])
    b.add("town", "leave", reward=1, outcomes=[(1, "hill", 0)])
    b.terminal("hill")
    return b.build()


def dose() -> CMDP:
    """A toxicity that clears but not below zero, and a ceiling beyond which more does no further harm."""
    level = solvent.Resource("toxicity", floor=0, ceiling=6)
    b = CMDP.builder(horizon=4, start="ward", resources=[level])
    b.add("ward", "treat", reward=2, outcomes=[(0.5, "ward", 2), (0.5, "ward", 3)])
    b.add("ward", "wait", outcomes=[(1, "ward", -2)])
    return b.build()


def depots() -> CMDP:
    """A courier who begins at one of two depots and must end at home; ending on the road is worth more but no goal."""
    b = CMDP.builder(
        horizon=2,
        start={"north": 0.25, "south": 0.75},
        resources=["fuel"],
        must_end_in=["home", "south"],
        end_reward={"home": 4, "south": -1, "north": 100},
    )
    b.add("north", "direct", reward=1, outcomes=[(1, "home", 3)])
    b.add("north", "round", outcomes=[(1, "south", 1)])
    b.add("south", "wait", reward=2, outcomes=[(1, "south", 0)])
    b.add("south", "ride", outcomes=[(0.5, "home", 1), (0.5, "north", 1)])
    b.terminal("home")
    return b.build()


def _accounts() -> Iterator[Case]:
    yield Case("tank", tank, 7, worst={"fuel": 2})
    yield Case("tank-larger", lambda: tank(capacity=4), 9, worst={"fuel": 4})
    yield Case("tank-empty", tank, 6, spent=3, worst={"fuel": 2})
    yield Case("tank-beyond", tank, 6, spent=5, worst={"fuel": 2})
    yield Case("tank-too-small", tank, 1, 1, worst={"fuel": 0})
    yield Case("tank-none", tank, INFEASIBLE, -1)
    yield Case("tank-town", lambda: tank(must_end_in=["town"]), 6)
    yield Case("tank-hill", lambda: tank(end_reward={"hill": 0.5, "town": 2}), 8)
    yield Case("tank-start", lambda: tank(start={"town": 0.75, "hill": 0.25}), 5.25)
    yield Case("dose", dose, 4, 3)
    yield Case("dose-more", dose, 4.5, 5)
    yield Case("dose-beyond", dose, 8, 6, worst={"toxicity": 6})
    yield Case("dose-last", dose, 3, Budget.final(1))
    yield Case("depots", depots, 3.5, 3)
    yield Case("depots-short", depots, 2.5, 1)
    yield Case("depots-nothing", depots, INFEASIBLE, 0)


def _by_hand() -> Iterator[Case]:
    yield Case("partition-yes", lambda: instances.partition([3, 1, 1, 2, 2, 1]), 1, worst={"left": 5, "right": 5})
    yield Case("partition-no", lambda: instances.partition([3, 1, 1]), INFEASIBLE)
    yield Case("partition-yes-lopsided", lambda: instances.partition([8, 3, 3, 2]), 1)
    yield Case("partition-no-even", lambda: instances.partition([5, 5, 5, 3]), INFEASIBLE)
    yield Case("partition-no-giant", lambda: instances.partition([9, 3, 3, 1]), INFEASIBLE)
    yield Case("negative-knapsack-yes", lambda: instances.negative_knapsack([3, 1, 1, 2, 2, 1]), 1)
    yield Case("negative-knapsack-no", lambda: instances.negative_knapsack([5, 5, 5, 3]), 0)
    yield Case("markov-gap", lambda: instances.markov_gap(prize=10), 5, worst={"cost": 1})
    yield Case("markov-gap-rare", lambda: instances.markov_gap(prize=8, chance="1/4", wait=2), 6)
    yield Case("trap", trap, 2)
    yield Case("three-tenths", lambda: tenths(3, 0.1, 0.3), 3, worst={"money": Fraction(3, 10)})
    yield Case("three-tenths-short", lambda: tenths(3, 0.1, "0.29999999999999999"), INFEASIBLE)
    yield Case("three-thirds", lambda: tenths(3, "1/3", 1), 3, worst={"money": 1})
    yield Case("three-thirds-short", lambda: tenths(3, "1/3", "0.999999999999"), INFEASIBLE)
    yield Case("ten-tenths", lambda: tenths(10, 0.1, 1), 10, worst={"money": 1})
    yield Case("unlimited", lambda: tenths(3, 1, None), 3, {"money": None})
    yield Case("zero-budget", lambda: tenths(3, 0, 0), 3, worst={"money": 0})
    yield Case("no-resources", no_resources, 4, {})
    yield Case("ended", ended, 0, 0)
    yield Case("ended-in-debt", ended, INFEASIBLE, -1)
    yield Case("ended-in-debt-later", ended, INFEASIBLE, Budget.final(lower=1))
    yield Case("relapse", relapse, 1, 1)
    yield Case("impossible-cost", impossible_cost, 2)
    yield Case("chain", chain, -3.0, 4, worst={"wear": 4})
    yield Case("chain-short", chain, INFEASIBLE, Fraction(399, 100))
    yield Case("chain-lower", chain, -3.0, Budget(lower=-2))
    yield Case("chain-lower-short", chain, INFEASIBLE, Budget(lower=[None, None, None, Fraction(-19, 10)]))
    yield Case("covering", covering, 2, -1)
    yield Case("covering-deep", covering, 0, -2)
    yield Case("covering-too-deep", covering, INFEASIBLE, -3)
    yield Case("shrinking", shrinking, 9, Budget(upper=[3, 3, 3]))
    yield Case("shrinking-late", shrinking, 4, Budget(upper=[3, 3, 1]), worst={"debt": 0})
    yield Case("shrinking-floor", shrinking, 13, Budget(lower=[None, None, 1]), worst={"debt": 9})
    yield Case("shrinking-interval", shrinking, -3, Budget(upper=[3, 1, 1], lower=1), worst={"debt": 3})
    yield Case("final-only", shrinking, 4, Budget.final(2))
    yield Case("gloom", gloom, -3.875, 4)
    yield Case("gloom-tired", gloom, -6.25, Budget.final(2))
    yield Case("gloom-idle", gloom, -10, 0, worst={"effort": 0})
    yield Case("gloom-driven", gloom, -3.875, Budget(lower=[0, 1, 2]))


def _computed() -> Iterator[Case]:
    yield Case("wide", wide, 23.25)
    yield Case("huge", huge, 6, 2**61 + 1)
    yield Case("huge-lower", huge, 10, Budget(lower=-(2**61)))
    yield Case("huge-interval", huge, 6, Budget(upper=2**61 + 1, lower=-(2**61)))
    yield Case("huge-infeasible", huge, INFEASIBLE, -(2**61) - 1)
    yield Case("open-end", covering, 5, Budget(upper=[-1, 0, None]))
    yield Case("open-end-lower", covering, 9, Budget(lower=[0, 0, None]))
    yield Case("open-end-ended", shrinking, 13, Budget(upper=[6, 6, None]))
    for n, value in CROWDS.items():
        yield Case(f"crowd-{n}", lambda n=n: crowd(n), value)
    for (horizon, seed, budget), value in PAPER.items():
        yield Case(f"paper-{horizon}-{seed}", lambda h=horizon, s=seed, b=budget: instances.paper(h, s, b), value)
    for (seed, budget), value in DOUBLES.items():
        yield Case(f"doubles-{seed}-{budget}", lambda s=seed, b=budget: doubles(s, 1, b), value)
    for (seed, budget), value in PAIRS_OF_DOUBLES.items():
        yield Case(f"pairs-of-doubles-{seed}", lambda s=seed, b=budget: doubles(s, 2, b), value)
    yield Case("two-stores", lambda: two_stores(9), 3.104182690097822, {"r0": 6, "r1": 7})
    yield Case("two-stores-short", lambda: two_stores(8), INFEASIBLE, {"r0": 6, "r1": 7})
    intervals = Budget(upper=[3, 5, 7, 8, 9], lower=[-2, None, -1, None, 0])
    for seed, value in ((7, 3.7731540606839324), (8, 3.131057795027745), (9, 4.259475129530988)):
        budget = {"r0": intervals, "r1": Budget.final(8)}
        yield Case(f"two-stores-intervals-{seed}", lambda s=seed: two_stores(s), value, budget)


#: More actions in a state than 7, 8 and 9 bits can count; each computed by `oracle.optimum`, as all that follow.
CROWDS = {128: 252.15, 129: 254.0, 256: 507.85, 257: 510.05, 300: 596.25}
PAPER = {(8, 0, 2): 3.109011700311976, (8, 1, "1/2"): 1.778166290146377, (10, 3, 3): 3.030191891057287}
DOUBLES = {
    (0, 1.5): INFEASIBLE,
    (1, 3.0): 3.5270853772492488,
    (2, 1.5): 2.2935260419248795,
    (2, 2.0): 2.520688556991792,
    (2, 3.0): 2.6571445575114767,
    (3, 3.0): 2.7554407735514403,
}
PAIRS_OF_DOUBLES = {
    (0, 3.5): INFEASIBLE,
    (1, 3.5): 1.622405732808418,
    (3, 3.5): 3.0281674646225905,
    (7, 2.5): 2.697479864368732,
}
FUEL_GRIDS = {3: 3.0160225160156244, 4: 3.0119707893289314, 5: 3.166644896206235}
#: What the ridge is worth, and what it seems to be worth if a dead end counts as minus a million.
RIDGE = 2.9999998699999986
RIDGE_WITH_A_PENALTY = 4.9799998203


def _grids() -> Iterator[Case]:
    yield Case("ridge", ridge, RIDGE)
    for n, value in FUEL_GRIDS.items():
        yield Case(f"fuel-grid-{n}", lambda n=n: instances.fuel_grid(n), value)


def _examples() -> Iterator[Case]:
    for name, answers in OPTIMA.items():
        model = solvent.load_model(EXAMPLES / f"{name}.yaml")
        if not model.has_continuous_costs:
            for resource, by, value in answers:
                yield Case(f"{name}-{resource}{by}", lambda m=model: m, value, moved(model, resource, by))


OWN = [*_knapsacks(), *_by_hand(), *_accounts(), *_computed(), *_grids()]
CASES = [*OWN, *_examples()]
