"""The augmented MDP: a problem with a budget as an ordinary MDP (Definition 2, Corollary 2 of the paper).

Its states are the nodes (step, state, spent) that safe actions can lead to, and its actions at a node are the safe
ones:

    P((h + 1, s', clamp(x + c)) | (h, s, x), a) = p_h(s', c | s, a),     R((h, s, x), a) = r_h(s, a),

where clamp moves an amount to the floor or the ceiling at which the resource saturates. In the last step, R also has
the expected reward for the state in which the episode ends. A node without rows is the end after the last step,
terminal, or a *dead end*. The end has value 0, a terminal node the reward for ending in its state. A dead end has value
minus infinity, which no finite penalty can replace: no action is safe there, or the episode must not end there.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from solvent.core.exact import exact
from solvent.errors import ModelError, PolicyError, SolventError, printable, quote
from solvent.model.amounts import format_amount
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.locate import COLLAPSED
from solvent.policy.table import AugmentedPolicy


class Node(NamedTuple):
    """A node by names. An amount is None if it is settled; `step` is None in the stationary form."""

    step: int | None
    state: Hashable
    spent: dict[str, Fraction | None]


@dataclass(frozen=True, eq=False, repr=False)
class AugmentedMDP:
    """An unconstrained MDP on the nodes of a problem with a budget.

    Created by `augment`; the fields are read-only. The rows of a node are adjacent, in increasing order of action.

    Attributes
    ----------
    model : CMDP
    limits : Limits
        The budget.
    stationary : bool
        Whether nodes are (state, spent), without the step; a planner then makes `model.horizon` backward steps.
    row_indptr : ndarray of int64, shape (N + 1,)
        Position of the first row of each node.
    row_action : ndarray of int32, shape (R,)
        The action of each row, by position in `model.actions`.
    reward : ndarray of float64, shape (R,)
    transitions : scipy.sparse.csr_array, shape (R, N)
        Probability of each next node.
    start_nodes : ndarray of int64, shape (K,)
        The possible first nodes, in the order of `model.start_states`.
    start_probability : ndarray of float64, shape (K,)
        Probability of each first node.
    end_reward : ndarray of float64, shape (N,)
        Value of terminal nodes: the reward for ending in their state; 0 at other nodes.
    feasible : bool
        Whether any policy keeps the budget, and the goal if there is one, from every first node.
    dead_ends : ndarray of int64
        Nodes without a safe action, or at which an episode must not end, in increasing order; their value is minus
        infinity. A pruned MDP has none, except first nodes of an infeasible problem.
    layer_indptr : ndarray of int64, shape (H + 2,), or None
        Position of the first node of each step, then of the end; None in the stationary form.
    node_state : ndarray of int32, shape (N,)
        By position in `model.states`; -1 for the end.
    node_spent_ND : ndarray of int64, shape (N, D)
        Ticks of each tracked resource; `COLLAPSED` (in `solvent.policy.locate`) where it is settled.
    lattice : Lattice
        Units of the ticks.
    settled_low, settled_high : ndarray of int64, shape (H, S, D), or None
        Amounts that are settled at each (step, state).
    """

    model: CMDP
    limits: Limits
    stationary: bool
    row_indptr: NDArray[np.int64]
    row_action: NDArray[np.int32]
    reward: NDArray[np.float64]
    transitions: sparse.csr_array[np.float64]
    start_nodes: NDArray[np.int64]
    start_probability: NDArray[np.float64]
    end_reward: NDArray[np.float64]
    feasible: bool
    dead_ends: NDArray[np.int64]
    layer_indptr: NDArray[np.int64] | None
    node_state: NDArray[np.int32]
    node_spent_ND: NDArray[np.int64]
    lattice: Lattice
    settled_low: NDArray[np.int64] | None
    settled_high: NDArray[np.int64] | None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __repr__(self) -> str:
        form = "stationary, " if self.stationary else ""
        verdict = "" if self.feasible else ", infeasible"
        tracked = printable(", ".join(self.lattice.resources)) or "nothing"
        return (
            f"AugmentedMDP({form}{self.n_nodes:,} nodes, {self.n_rows:,} rows, horizon {self.model.horizon}, "
            f"tracking {tracked}{verdict})"
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.node_state)

    @property
    def n_rows(self) -> int:
        """Number of rows R: (node, action) pairs."""
        return len(self.row_action)

    @property
    def start(self) -> int:
        """The first node.

        Raises
        ------
        ModelError
            If the first state is drawn from several; see `start_nodes`.
        """
        if len(self.start_nodes) > 1:
            found, hint = f"{len(self.start_nodes)}", "read start_nodes and start_probability"
            raise ModelError("start", "an MDP with one first node", found, hint)
        return int(self.start_nodes[0])

    @property
    def end(self) -> int | None:
        """The absorbing node after the last step; None in the stationary form."""
        return None if self.stationary else self.n_nodes - 1

    @property
    def row_node(self) -> NDArray[np.int64]:
        """The node of each row, shape (R,)."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.row_indptr))

    def node(self, index: int) -> Node:
        """Return a node by names; the end is `Node(horizon, None, {})`.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.solvers.augmentation.augment import augment
        >>> augment(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), prune=False).node(2)
        Node(step=1, state='knapsack', spent={'weight': Fraction(10, 1)})
        """
        if not 0 <= index < self.n_nodes:
            raise ModelError("node", f"a node from 0 to {self.n_nodes - 1}", quote(index))
        if index == self.end:
            return Node(self.model.horizon, None, {})
        step = None
        if self.layer_indptr is not None:
            step = int(np.searchsorted(self.layer_indptr, index, side="right")) - 1
        spent = {
            name: None if ticks == COLLAPSED else self.lattice.amount(d, ticks)
            for d, (name, ticks) in enumerate(
                zip(self.lattice.resources, self.node_spent_ND[index].tolist(), strict=True)
            )
        }
        return Node(step, self.model.states[self.node_state[index]], spent)

    def index(self, step: int | None, state: Hashable, spent: Any) -> int:
        """Return the node of a state and the amounts spent.

        Parameters
        ----------
        step : int or None
            Ignored in the stationary form.
        state : hashable
        spent : number, sequence or mapping
            A number if one resource is tracked, else amounts in the order of the budget or by name. A settled amount
            is None or any amount that is settled there.

        Raises
        ------
        ModelError
            If there is no such node: safe actions never lead to it, or it was left out.
        """
        first, last, h = 0, self.n_nodes, 0
        if self.layer_indptr is not None:
            if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step < self.model.horizon:
                raise ModelError("step", f"a step from 0 to {self.model.horizon - 1}", quote(step))
            h, first, last = int(step), int(self.layer_indptr[step]), int(self.layer_indptr[step + 1])
        s = self.model.state_index(state)
        found = self.node_state[first:last] == s
        for d, amount in enumerate(_read_spent(spent, self.lattice.resources)):
            ticks = Fraction(COLLAPSED) if amount is None else amount / self.lattice.units[d]
            if self.settled_low is not None and self.settled_high is not None:
                is_settled = self.settled_low[h, s, d] <= ticks <= self.settled_high[h, s, d]
                ticks = Fraction(COLLAPSED) if is_settled else ticks
            if ticks.denominator != 1 or not COLLAPSED <= ticks < -COLLAPSED:
                found = np.zeros(0, bool)
                break
            found &= self.node_spent_ND[first:last, d] == int(ticks)
        if not found.any():
            place = "" if self.stationary else f"step {step}, "
            raise ModelError(
                f"{place}state {quote(state)}, spent {quote(spent)}",
                "a node of the augmented MDP",
                "one that safe actions never lead to, or without a safe way on",
            )
        return first + int(np.argmax(found))

    def to_quantecon(self) -> Any:
        """Return a `quantecon.markov.DiscreteDP` of (node, action) pairs with beta = 1, for `backward_induction`.

        Nodes without rows get one row, of action 0: to themselves with reward 0 at the end and at terminal nodes, to
        the end with the reward for ending at terminal nodes that have one, and to themselves with reward minus infinity
        at dead ends. `backward_induction(ddp, model.horizon)` then returns the value `vs[0, start]` (with several first
        nodes, the average `vs[0, start_nodes] @ start_probability`), minus infinity if no policy is feasible, and
        actions `sigmas` for `policy`.

        Raises
        ------
        SolventError
            If QuantEcon is not installed.

        Notes
        -----
        The constructor of `DiscreteDP` refuses a node all of whose rewards are infinite, but its Bellman operator
        handles minus infinity; so the rewards of dead ends are set afterwards.
        """
        try:
            from quantecon.markov import DiscreteDP  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise SolventError(
                "to_quantecon: expected quantecon, found no such package; pip install quantecon"
            ) from None
        bare = np.flatnonzero(np.diff(self.row_indptr) == 0)
        paid = self.end_reward[bare]
        after = np.where(paid != 0, self.n_nodes - 1, bare)
        loops = sparse.csr_array((np.ones(len(bare)), (np.arange(len(bare)), after)), shape=(len(bare), self.n_nodes))
        nodes = np.concatenate([self.row_node, bare])
        order = np.argsort(nodes, kind="stable")
        reward = np.concatenate([self.reward, paid])[order]
        action = np.concatenate([self.row_action, np.zeros(len(bare), np.int32)])[order]
        transitions = sparse.vstack([self.transitions, loops], format="csr")[order]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "infinite horizon solution methods are disabled")
            ddp = DiscreteDP(reward, transitions, 1.0, nodes[order], action)
        ddp.R[np.searchsorted(nodes[order], self.dead_ends)] = -np.inf
        return ddp

    def to_gymnasium_P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:  # noqa: N802
        """Return the MDP in the form of Gymnasium's toy environments: node -> action -> (p, next, reward, done).

        Nodes without rows get action 0. It leads to the node itself, with reward 0 and done, or at dead ends with
        reward minus infinity and not done, so that a planner that stops at `done` does not overlook them. From terminal
        nodes with a reward for ending, it leads to the end with that reward.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.solvers.augmentation.augment import augment
        >>> augment(instances.knapsack([60, 100], [10, 20], capacity=20)).to_gymnasium_P()[0]
        {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 2, 60.0, False)]}
        """
        done = np.diff(self.row_indptr) == 0
        done[self.dead_ends] = False
        done[self.end_reward != 0] = False
        indptr, data = self.transitions.indptr, self.transitions.data
        after, dead, last = self.transitions.indices, set(self.dead_ends.tolist()), self.n_nodes - 1
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
        for i in range(self.n_nodes):
            rows = range(int(self.row_indptr[i]), int(self.row_indptr[i + 1]))
            table[i] = {
                int(self.row_action[r]): [
                    (float(data[e]), int(after[e]), float(self.reward[r]), bool(done[after[e]]))
                    for e in range(int(indptr[r]), int(indptr[r + 1]))
                ]
                for r in rows
            }
            if not rows:
                paid = float(self.end_reward[i])
                table[i] = {0: [(1.0, i, -np.inf, False) if i in dead else (1.0, last if paid else i, paid, True)]}
        return table

    def save(self, path: str | Path) -> None:
        """Write the MDP to a file of a model checker: .drn, .prism, .umb (needs stormpy) or .tra.

        Time-expanded, `R{"reward"}max=? [F "end"]` is the best expected reward: terminal nodes lead to the node with
        the label "end", with the reward for ending. Dead ends, which an MDP that is not pruned may have, have the label
        "dead_end"; a policy must not reach them. In the stationary form, ask for `R{"reward"}max=? [C<=H]` instead.

        Raises
        ------
        ModelError
            If the suffix is unknown, or the file cannot be written.
        SolventError
            If stormpy is needed but not installed.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from solvent.model import instances
        >>> from solvent.solvers.augmentation.augment import augment
        >>> mdp = augment(instances.knapsack([60, 100], [10, 20], capacity=20))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "knapsack.drn"
        ...     mdp.save(file)
        ...     print(file.read_text().splitlines()[1])
        // The best expected reward that keeps the budget: R{"reward"}max=? [F "end"]
        """
        from solvent.formats.files import save_system
        from solvent.solvers.augmentation.export import augmented_system

        save_system(augmented_system(self), path)

    def policy(self, actions: ArrayLike) -> AugmentedPolicy:
        """Return the policy that takes the actions of a planner's solution.

        Parameters
        ----------
        actions : array_like, shape (N,) or (H, N)
            An action for each node, or for each step and node. Integers are positions in `model.actions`; other values
            are names. Ignored where a node has no rows or is never reached.

        Raises
        ------
        PolicyError
            If an action is not offered at a node that is reached, or leads to a dead end.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.solvers.augmentation.augment import augment
        >>> mdp = augment(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50))
        >>> mdp.policy(["leave"] * mdp.n_nodes)
        AugmentedPolicy(3 nodes over 3 steps, tracking weight)
        """
        wanted = np.asarray(actions)
        shapes = (self.n_nodes,), (self.model.horizon, self.n_nodes)
        if wanted.shape not in shapes or wanted.dtype.kind in "fc":
            expected = f"positions or names of actions, of shape {shapes[0]} or {shapes[1]}"
            raise PolicyError("actions", expected, f"{wanted.dtype} of shape {wanted.shape}")
        keys = self.row_node * self.model.n_actions + self.row_action
        reached, layers = self.start_nodes, []
        for h in range(self.model.horizon):
            stuck = reached[np.isin(reached, self.dead_ends)]
            if len(stuck):
                raise PolicyError(self._place(h, stuck[0]), "a node with a safe action", "a dead end")
            nodes = reached[self.row_indptr[reached] < self.row_indptr[reached + 1]]
            given = (wanted[h] if wanted.ndim == 2 else wanted)[nodes]
            chosen = self._positions(given)
            sought = nodes * self.model.n_actions + chosen
            rows = np.searchsorted(keys, sought)
            offered = (chosen >= 0) & (chosen < self.model.n_actions) & (rows < len(keys))
            offered[offered] = keys[rows[offered]] == sought[offered]
            if not offered.all():
                first = int(np.argmin(offered))
                raise self._not_offered(h, int(nodes[first]), given.tolist()[first])
            layers.append((self.node_state[nodes], self.node_spent_ND[nodes], self.row_action[rows]))
            reached = np.unique(self.transitions[rows].indices)
        settled = None
        if self.settled_low is not None and self.settled_high is not None:
            settled = list(zip(self.settled_low, self.settled_high, strict=True))
        return AugmentedPolicy.from_nodes(self.model, self.lattice, self.limits, layers=layers, settled=settled)

    def _positions(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        if actions.dtype.kind in "iu":
            return actions.astype(np.int64)
        position = {name: i for i, name in enumerate(self.model.actions)}
        return np.array(
            [position.get(name, -1) if isinstance(name, Hashable) else -1 for name in actions.tolist()], np.int64
        )

    def _place(self, step: int, index: int) -> str:
        node = self.node(index)
        amounts = {name: "settled" if x is None else format_amount(x) for name, x in node.spent.items()}
        spent = "".join(f", {name} {amount}" for name, amount in amounts.items())
        return f"node {index} (step {step}, state {quote(node.state)}{spent})"

    def _not_offered(self, step: int, index: int, action: Any) -> PolicyError:
        names = self.model.actions
        rows = slice(int(self.row_indptr[index]), int(self.row_indptr[index + 1]))
        offered = " or ".join(f"{i} ({quote(names[i])})" for i in self.row_action[rows].tolist())
        return PolicyError(self._place(step, index), f"an action offered there, {offered}", quote(action))


def _read_spent(spent: Any, resources: tuple[str, ...]) -> list[Fraction | None]:
    if isinstance(spent, Mapping):
        values = [spent[name] for name in resources if name in spent]
    elif isinstance(spent, Sequence | np.ndarray) and not isinstance(spent, str) and np.ndim(spent) == 1:
        values = list(spent)
    else:
        values = [spent] if resources or spent else []
    if len(values) != len(resources):
        wanted = ", ".join(map(quote, resources)) or "nothing"
        raise ModelError("spent", f"amounts of {wanted}, by name or in this order", quote(spent))
    named = zip(resources, values, strict=True)
    return [None if value is None else exact(value, f"spent, {name}") for name, value in named]
