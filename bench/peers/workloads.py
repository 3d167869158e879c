"""The workloads: each is defined once, and every peer gets the same problem.

A workload is a CMDP with its budget. If costs are to be rounded (the paper's approximation), Solvent gets the true
costs and `epsilon`, and peers get the rounded problem, which has the same optimum: costs are integer multiples of
`epsilon * B / H`, rounded down.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import solvent
from bench.peers import rcsp
from solvent import CMDP, instances

#: Instances of others, which are not part of the project, in a folder beside the repository.
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

Cell = tuple[int, int]
MOVES = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


@dataclass(frozen=True)
class Workload:
    """One problem.

    Attributes
    ----------
    name : str
        Name in tables and on the command line.
    family : str
        Heading of its table.
    state : callable
        Returns the model, with its budget.
    epsilon : number or None
        If costs are rounded: the share of the budget by which the policy may exceed it.
    gap : float or None
        If a certified gap is enough: the relative gap.
    peers : tuple of str or None
        Peers that it is given to, if not all: those made for such problems. All others would run out of time.
    quick : bool
        Whether it is part of `--quick`.
    """

    name: str
    family: str
    state: Callable[[], CMDP]
    epsilon: Fraction | None = None
    quick: bool = False
    gap: float | None = None
    peers: tuple[str, ...] | None = None

    @cached_property
    def model(self) -> CMDP:
        """The problem for Solvent."""
        return self.state()

    @cached_property
    def problem(self) -> CMDP:
        """The problem for peers: the same, or with costs rounded down to integer multiples of a length."""
        return self.model if self.epsilon is None else rounded_down(self.model, self.epsilon)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `solvent.solve`."""
        if self.gap is not None:
            return {"gap": self.gap}
        return {} if self.epsilon is None else {"approximation": "relative", "epsilon": self.epsilon}


def rounded_down(model: CMDP, epsilon: Fraction) -> CMDP:
    """Return a one-state, one-resource model with costs and budget in integer multiples of `epsilon * B / H`."""
    [resource] = model.resources
    assert model.budget is not None
    limit = solvent.solve(model).policy.limits.upper[0][0]
    assert limit is not None
    length = epsilon * limit / model.horizon
    b = CMDP.builder(
        horizon=model.horizon,
        start=model.start,
        resources=[resource],
        states=model.states,
        actions=model.actions,
        budget=math.floor(limit / length),
        name=f"{model.name}, rounded",
    )
    for step in range(model.horizon):
        for state, name in enumerate(model.states):
            for row in model.rows(step, state):
                outcomes = [
                    (o.probability, o.next_state, math.floor(o.cost[resource] / length)) for o in model.outcomes(row)
                ]
                action = model.actions[model.row_action[row]]
                b.add(name, action, reward=float(model.row_reward[row]), outcomes=outcomes, steps=[step])
    return b.build()


def _landed(n: int, cell: Cell, move: Cell) -> Cell:
    x, y = cell[0] + move[0], cell[1] + move[1]
    return (x, y) if 0 <= x < n and 0 <= y < n else cell


def patrol_grid(n: int) -> CMDP:
    """Return a grid on which staying in place uses fuel too, except at stations.

    Each visit of a corner has a reward. Many nodes are dead ends, depending on the distance to a station.
    """
    stations, prizes = {(n // 2, n // 2), (0, 0)}, {(n - 1, n - 1): 3.0, (n - 1, 0): 1.0, (0, n - 1): 1.0}

    def outcomes(cell: Cell, action: str) -> list[tuple[Any, ...]]:
        if action == "stay":
            return [(1, cell, -4 if cell in stations else 1)]
        after = _landed(n, cell, MOVES[action])
        return [(Fraction(4, 5), after, 1), (Fraction(1, 5), cell, 2)]

    return CMDP.from_function(
        (0, 0),
        lambda _: [*MOVES, "stay"],
        outcomes,
        4 * n,
        reward=lambda cell, _: prizes.get(cell, 0.0),
        resources=["fuel"],
        budget=3 * n,
        name=f"patrol_grid({n})",
    )


def two_resource_grid(n: int) -> CMDP:
    """Return a grid on which fast and slow moves use fuel and cause wear, and a workshop repairs it."""
    goal, shop = (n - 1, n - 1), (n // 2, n // 2)

    def outcomes(cell: Cell, action: str) -> list[tuple[Any, ...]]:
        if action == "stay":
            return [(1, cell, {"wear": -2} if cell == shop else {})]
        name, _, pace = action.partition(" ")
        after = _landed(n, cell, MOVES[name])
        missed = _landed(n, cell, (MOVES[name][1], MOVES[name][0]))
        if pace == "fast":
            return [(Fraction(9, 10), after, {"fuel": 2, "wear": 1}), (Fraction(1, 10), missed, {"fuel": 2, "wear": 2})]
        return [(Fraction(3, 5), after, {"fuel": 1}), (Fraction(2, 5), cell, {"fuel": 1, "wear": 1})]

    actions = [f"{move}{pace}" for move in MOVES for pace in ("", " fast")]
    return CMDP.from_function(
        (0, 0),
        lambda _: [*actions, "stay"],
        outcomes,
        3 * n,
        reward=lambda cell, _: 1.0 if cell == goal else 0.0,
        resources=["fuel", "wear"],
        budget={"fuel": 3 * n, "wear": n},
        name=f"two_resource_grid({n})",
    )


def random_model(horizon: int, n_states: int, n_actions: int, n_outcomes: int, resources: int, budget: int) -> CMDP:
    """Return a random model whose number of amounts depends on the budget alone: costs are 0 to 3, rest is free."""
    rng = np.random.default_rng(7)
    names = [f"r{d}" for d in range(resources)]
    b = CMDP.builder(
        horizon=horizon, start=0, resources=names, states=range(n_states), actions=range(n_actions),
        budget=dict.fromkeys(names, budget),
    )  # fmt: skip
    for state in range(n_states):
        b.add(state, 0, outcomes=[(1, state)])
        for action in range(1, n_actions):
            chances = rng.dirichlet(np.ones(n_outcomes))
            after, cost = rng.integers(n_states, size=n_outcomes), rng.integers(4, size=(n_outcomes, resources))
            outcomes = [(p, int(s), c.tolist()) for p, s, c in zip(chances, after, cost, strict=True)]
            b.add(state, action, reward=float(rng.random()), outcomes=outcomes)
    return b.build()


def courier(customers: int) -> CMDP:
    """Return the courier of docs/choosing.md: stops of random duration and a load, both known to four digits."""
    rng = random.Random(1)
    limits = {"hours": 8, "kilos": 40}
    b = CMDP.builder(horizon=customers, start="road", resources=[*limits], budget=limits)
    b.add("road", "pass", outcomes=[(1, "road")])
    for step in range(customers):
        hours, kilos = round(rng.uniform(0.2, 2), 4), round(rng.uniform(1, 12), 4)
        jam = round(1.5 * hours, 4)
        worth = round(rng.uniform(1, 10), 1)
        stop = [(0.8, "road", [hours, kilos]), (0.2, "road", [jam, kilos])]
        b.add("road", "stop", reward=worth, outcomes=stop, steps=[step])
    return b.build()


def layered_paths(layers: int, width: int, resources: int, seed: int) -> CMDP:
    """Return a resource-constrained shortest path through layers of places, like those of OR-Library, without files.

    Each place has three arcs to the next layer. The limits are slightly below what a random path uses on average.
    """
    rng = np.random.default_rng(seed)
    names = [f"r{d}" for d in range(resources)]
    b = CMDP.builder(
        horizon=layers,
        start=(0, 0),
        resources=names,
        budget=dict.fromkeys(names, 9 * layers),
        must_end_in=[(layers, 0)],
    )
    for layer in range(layers):
        for place in range(width if layer else 1):
            ends = [0] if layer == layers - 1 else sorted(rng.choice(width, 3, replace=False).tolist())
            for end in ends:
                cost, used = int(rng.integers(1, 100)), rng.integers(20, size=resources).tolist()
                b.add((layer, place), end, reward=-cost, outcomes=[(1, (layer + 1, end), used)])
    return b.build()


def real_costs(n_states: int, horizon: int, share: Fraction, seed: int) -> CMDP:
    """Return a random model with costs of 53 bits at every step, and a budget slightly above the least feasible one.

    Most actions lead to a dead end.
    """
    free = instances.random(n_states, 3, horizon=horizon, branching=3, cost_range=(0, 5), real_costs=True, seed=seed)
    diagnosis = solvent.solve(free, 0).diagnosis
    assert diagnosis is not None
    least = diagnosis.least_budget["r0"]
    assert least is not None
    return instances.random(
        n_states, 3, horizon=horizon, branching=3, cost_range=(0, 5), real_costs=True, budget=least * share, seed=seed
    )


def frozen_lake(horizon: int, tank: int) -> CMDP:
    """Return Gymnasium's FrozenLake 8x8 with a cost for the actions down and right, larger if the agent slips."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True)

    def cost(state: int, action: int, after: int) -> int:
        ahead = after - state == (8 if action == 1 else 1)
        return (1 if ahead else 2) if action in (1, 2) else 0

    return CMDP.from_gymnasium(env, cost, horizon, start=0, budget=tank)


def taxi(horizon: int, tank: int) -> CMDP:
    """Return Gymnasium's Taxi in the rain, with a fuel cost for every move, larger if the move fails."""
    import gymnasium

    env = gymnasium.make("Taxi-v4", is_rainy=True)
    start = env.unwrapped.encode(4, 4, 0, 3)

    def cost(state: int, action: int, after: int) -> int:
        return (1 if after != state else 2) if action < 4 else 0

    return CMDP.from_gymnasium(env, cost, horizon, start=start, budget=tank)


def _paper(horizon: int, budget: int, digits: int | None = None) -> Callable[[], CMDP]:
    return lambda: instances.paper(horizon, 1, budget=budget, digits=digits)


TENTH = Fraction(1, 10)
#: Peers for one state without randomness.
PACKING = ("solvent", "highs", "ortools-knapsack", "ortools-cpsat")

WORKLOADS = [
    Workload("paper H=15 B=3", "paper, exact", _paper(15, 3), quick=True),
    Workload("paper H=20 B=3", "paper, exact", _paper(20, 3)),
    Workload("paper H=20 B=10", "paper, exact", _paper(20, 10)),
    Workload("paper H=40 B=5, 4 digits", "paper, exact", _paper(40, 5, 4)),
    Workload("paper H=100 B=12", "paper, exact", _paper(100, 12)),
    Workload("paper H=200 B=50", "paper, exact", _paper(200, 50), peers=PACKING),
    Workload("paper H=500 B=125", "paper, exact", _paper(500, 125), peers=PACKING),
    Workload("paper H=1000 B=250", "paper, exact", _paper(1000, 250), peers=PACKING),
    Workload("paper H=50 B=3 e=0.1", "paper, approximate", _paper(50, 3), TENTH, quick=True),
    Workload("paper H=50 B=10 e=0.1", "paper, approximate", _paper(50, 10), TENTH),
    Workload("paper H=100 B=12 e=0.1", "paper, approximate", _paper(100, 12), TENTH),
    Workload("fuel grid n=5", "fuel grid", lambda: instances.fuel_grid(5), quick=True),
    Workload("fuel grid n=10", "fuel grid", lambda: instances.fuel_grid(10)),
    Workload("fuel grid n=20", "fuel grid", lambda: instances.fuel_grid(20)),
    Workload("fuel grid n=40", "fuel grid", lambda: instances.fuel_grid(40)),
    Workload("patrol grid n=6, dead ends", "fuel grid", lambda: patrol_grid(6), quick=True),
    Workload("patrol grid n=15, dead ends", "fuel grid", lambda: patrol_grid(15)),
    Workload("two resources n=4", "two resources", lambda: two_resource_grid(4), quick=True),
    Workload("two resources n=8", "two resources", lambda: two_resource_grid(8)),
    Workload("two resources n=12", "two resources", lambda: two_resource_grid(12)),
    Workload("two resources n=20", "two resources", lambda: two_resource_grid(20)),
    Workload(
        "real costs S=8 H=6, dead ends", "real costs", lambda: real_costs(8, 6, Fraction(101, 100), 1), quick=True
    ),
    Workload("real costs S=10 H=12, dead ends", "real costs", lambda: real_costs(10, 12, Fraction(101, 100), 1)),
    Workload("FrozenLake 8x8 H=60", "Gymnasium", lambda: frozen_lake(60, 30), quick=True),
    Workload("Taxi H=40", "Gymnasium", lambda: taxi(40, 24)),
]


#: Family of the shortest paths of OR-Library.
RCSP = "RCSP"


def _rcsp_file(number: int) -> Path:
    return CASES / "rcsp" / f"rcsp{number}.txt"


def network_of(workload: Workload) -> rcsp.Network:
    """Return the network of a shortest path of OR-Library."""
    return rcsp.read(_rcsp_file(int(workload.name.partition("#")[2])))


def _rcsp(number: int) -> Workload:
    return Workload(f"RCSP #{number}", RCSP, lambda: rcsp.read(_rcsp_file(number)).model(), peers=("solvent", "cspy"))


WORKLOADS += [_rcsp(number) for number in range(1, 9) if _rcsp_file(number).exists()]

#: Workloads of the targets and of the regression check, for which there are no peers.
OWN = [
    Workload("three resources S=10 H=20", "three resources", lambda: random_model(20, 10, 4, 4, 3, 20)),
    Workload("courier 30, gap 1%", "certified gap", lambda: courier(30), gap=0.01),
    Workload("courier 60, gap 1%", "certified gap", lambda: courier(60), gap=0.01),
    Workload("paths, 4 resources", "paths", lambda: layered_paths(12, 8, 4, 1)),
]


def find(name: str) -> Workload:
    """Return a workload by name."""
    for workload in (*WORKLOADS, *OWN):
        if workload.name == name:
            return workload
    raise KeyError(f"no workload is called {name!r}; there are {', '.join(w.name for w in (*WORKLOADS, *OWN))}")
