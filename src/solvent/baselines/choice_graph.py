"""The graph of nodes that have kept all limits so far, with every available action as a choice.

Unlike the layers of `solvent.solvers`, actions that may break a limit are part of the graph. A history leaves it

    by breaking a limit:    the budget is exceeded, and nothing can undo that;
    by being settled:       no limit can be broken any more, so it continues with the unconstrained optimum;
    by reaching its end.

An episode that ends outside the goal of the model breaks a limit there. If the model has a goal, nodes without anything
left to limit stay in the graph until the end. What was spent matters nowhere else. So the probability of exceeding the
budget is one sum over the graph: the occupancy of each choice times its probability of breaking a limit at that step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvent.baselines.unconstrained import MarkovOptimum, markov_optimum
from solvent.core.limits import ResourceMonitor
from solvent.errors import ModelError
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.choices import spread
from solvent.policy.locate import COLLAPSED
from solvent.policy.markov import UNDECIDED
from solvent.policy.search import compact, pack
from solvent.solvers.bounds.bounds import Bounds, bounds_of

#: Default maximum number of nodes of a graph.
MAX_NODES = 500_000
_OUTCOMES_PER_NODE = 40


@dataclass(frozen=True)
class ChoiceLayer:
    """The nodes of a step and their choices; the choices of a node are contiguous.

    Attributes
    ----------
    state : ndarray of int64, shape (N,)
    spent_ND : ndarray of int64, shape (N, D)
        In ticks; `COLLAPSED` where a resource is settled.
    first : ndarray of int64, shape (N,)
        First choice of each node.
    node, row : ndarray of int64, shape (C,)
        Node and model row of each choice.
    gain : ndarray of float64, shape (C,)
        Reward, plus the expected reward of the unconstrained optimum after outcomes that settle everything.
    gain_over : ndarray of float64, shape (C,)
        Expected reward of the unconstrained optimum after outcomes that break a limit.
    breach : ndarray of float64, shape (C,)
        Probability of outcomes that break a limit.
    edge_choice, edge_next : ndarray of int64, shape (E,)
        For each outcome that stays in the graph: its choice, and the node in the next layer.
    edge_probability : ndarray of float64, shape (E,)
    """

    state: NDArray[np.int64]
    spent_ND: NDArray[np.int64]
    first: NDArray[np.int64]
    node: NDArray[np.int64]
    row: NDArray[np.int64]
    gain: NDArray[np.float64]
    gain_over: NDArray[np.float64]
    breach: NDArray[np.float64]
    edge_choice: NDArray[np.int64]
    edge_next: NDArray[np.int64]
    edge_probability: NDArray[np.float64]


@dataclass(frozen=True)
class ChoiceGraph:
    """The layers of all steps; there are none if every first state is settled or exceeds the budget.

    Attributes
    ----------
    model : CMDP
    limits : Limits
    lattice : Lattice
    bounds : Bounds
        Its settled intervals determine which amounts are collapsed.
    free : MarkovOptimum
        Values and actions where limits no longer matter.
    start_N : ndarray of float64, shape (N,)
        Probability of each node of the first layer.
    start_gain, start_gain_over : float
        Expected reward from first states that are settled, and from those that break a limit by being terminal.
    start_breach : float
        Probability of first states that are terminal and break a limit.
    layers : list of ChoiceLayer
        One per step, up to the last step that has nodes.
    monitor : ResourceMonitor
    """

    model: CMDP
    limits: Limits
    lattice: Lattice
    bounds: Bounds
    free: MarkovOptimum
    start_N: NDArray[np.float64]
    start_gain: float
    start_gain_over: float
    start_breach: float
    layers: list[ChoiceLayer]
    monitor: ResourceMonitor = field(default_factory=ResourceMonitor)

    @property
    def breaking(self) -> str:
        """What counts as a breach, for messages."""
        return "exceeds the budget" + ("" if self.model.may_end is None else " or ends outside the goal")

    def settled_choices(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the states in which all resources can be settled at a step, and the actions taken there.

        None if the model has a goal: nodes then stay in the graph.
        """
        possible = (self.bounds.settled_low[step] <= self.bounds.settled_high[step]).all(1)
        if self.model.may_end is not None:
            possible[:] = False
        states = np.flatnonzero(possible & (self.free.action_HS[step] != UNDECIDED))
        return states, self.free.action_HS[step, states]


@dataclass(frozen=True)
class _Arrival:
    """Where outcomes lead before a step: each breaks a limit, is settled, or is a node."""

    state: NDArray[np.int64]
    spent_ND: NDArray[np.int64]
    over: NDArray[np.bool_]
    settled: NDArray[np.bool_]


def explore(
    model: CMDP,
    limits: Limits,
    method: str,
    max_nodes: int = MAX_NODES,
    monitor: ResourceMonitor | None = None,
) -> ChoiceGraph:
    """Return the graph of a problem; its memory stays reserved in the monitor.

    Raises
    ------
    ModelError
        If the graph would have more than `max_nodes` nodes, or a limited resource has continuous costs.
    LatticeOverflowError
        If costs and limits have no common unit in which all sums fit 64 bits.
    LimitReached
        If a limit of the monitor is reached.
    """
    monitor = monitor or ResourceMonitor()
    monitor.reserve(2 * 8 * model.n_outcomes * len(limits.resources), "costs in ticks")
    lattice = Lattice.fit(model, limits, monitor)
    bounds = bounds_of(model, lattice, monitor)
    monitor.reserve(12 * (model.horizon + 1) * model.n_states, "values per step and state")
    free = markov_optimum(model, monitor=monitor)
    starts, chance = model.start_states, model.start_probability
    initial = np.tile(lattice.initial_D, (len(starts), 1))
    arrival = _arrive(model, bounds, 0, starts, initial, np.zeros(len(starts), bool))
    kept = ~(arrival.over | arrival.settled)
    state, spent = arrival.state[kept], arrival.spent_ND[kept]
    worth = chance * free.value_HS[0, starts]
    layers: list[ChoiceLayer] = []
    n_nodes = 0
    while len(state) and len(layers) < model.horizon:
        n_nodes += len(state)
        sizes = np.diff(model.outcome_indptr)
        if n_nodes > max_nodes:
            raise _too_many(method, len(layers), max_nodes)
        owner, row = spread(model.row_indptr_at(len(layers)), state)
        n_outcomes = int(sizes[row].sum())
        if n_outcomes > _OUTCOMES_PER_NODE * max_nodes:
            raise _too_many(method, len(layers), max_nodes)
        monitor.check_time()
        # choices and outcomes that are kept, and temporary memory for finding the next nodes
        monitor.reserve(40 * len(row) + 24 * n_outcomes, f"the choices of step {len(layers)}")
        temporary = n_outcomes * (96 + 56 * len(lattice.resources))
        monitor.reserve(temporary, f"the outcomes of step {len(layers)}")
        layer, state, spent = _expand(model, lattice, bounds, free, len(layers), state, spent, owner, row)
        layers.append(layer)
        monitor.release(temporary)
    return ChoiceGraph(
        model,
        limits,
        lattice,
        bounds,
        free,
        chance[kept],
        float(worth[arrival.settled].sum()),
        float(worth[arrival.over].sum()),
        float(chance[arrival.over].sum()),
        layers,
        monitor,
    )


def _too_many(method: str, step: int, max_nodes: int) -> ModelError:
    return ModelError(
        f"{method}, step {step}",
        f"at most {max_nodes:,} nodes",
        "more",
        "raise max_nodes=, or give the costs fewer digits, rounded to the safe side (up for upper limits)",
    )


def _arrive(
    model: CMDP,
    bounds: Bounds,
    step: int,
    state: NDArray[np.int64],
    spent_ND: NDArray[np.int64],
    over: NDArray[np.bool_],
) -> _Arrival:
    """Collapse settled amounts before a step, and classify what remains."""
    inside = (bounds.settled_low[step][state] <= spent_ND) & (spent_ND <= bounds.settled_high[step][state])
    spent_ND = np.where(inside, COLLAPSED, spent_ND)
    settled = (spent_ND == COLLAPSED).all(1)
    ended = np.ones(len(state), bool)
    if step < model.horizon:
        # nothing more is spent in a terminal state; if not settled, a later limit will be broken
        ended = (np.diff(model.row_indptr_at(step)) == 0)[state]
        over = over | (ended & ~settled)
    if model.may_end is not None:
        over = over | (ended & ~model.may_end[state])
        settled = settled & ended
    return _Arrival(state, spent_ND, over, settled & ~over)


def _expand(
    model: CMDP,
    lattice: Lattice,
    bounds: Bounds,
    free: MarkovOptimum,
    step: int,
    state: NDArray[np.int64],
    spent_ND: NDArray[np.int64],
    owner: NDArray[np.int64],
    row: NDArray[np.int64],
) -> tuple[ChoiceLayer, NDArray[np.int64], NDArray[np.int64]]:
    """Return a layer, and the states and amounts of the next layer."""
    choice, outcome = spread(model.outcome_indptr, row)
    before = spent_ND[owner[choice]]
    known = before != COLLAPSED
    moved = np.clip(before + np.where(known, lattice.cost_OD[outcome], 0), lattice.floor_D, lattice.ceiling_D)
    after = np.where(known, moved, COLLAPSED)
    broken = (known & ((after > lattice.upper_HD[step]) | (after < lattice.lower_HD[step]))).any(1)
    arrival = _arrive(model, bounds, step + 1, model.next_state[outcome].astype(np.int64), after, broken)
    probability = model.probability[outcome]
    later = probability * free.value_HS[step + 1][arrival.state]
    stays = np.flatnonzero(~(arrival.over | arrival.settled))
    keys, following = compact(pack([arrival.state[stays], *arrival.spent_ND[stays].T]))
    example = np.zeros(len(keys), np.int64)
    example[following] = stays
    n = len(row)
    layer = ChoiceLayer(
        state=state,
        spent_ND=spent_ND,
        first=np.searchsorted(owner, np.arange(len(state))),
        node=owner,
        row=row,
        gain=model.row_reward[row] + np.bincount(choice, np.where(arrival.settled, later, 0.0), n),
        gain_over=np.asarray(np.bincount(choice, np.where(arrival.over, later, 0.0), n), np.float64),
        breach=np.asarray(np.bincount(choice, np.where(arrival.over, probability, 0.0), n), np.float64),
        edge_choice=choice[stays],
        edge_next=following,
        edge_probability=probability[stays],
    )
    return layer, arrival.state[example], arrival.spent_ND[example]
