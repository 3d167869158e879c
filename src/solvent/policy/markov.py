"""Randomized policies, and Markov policies, which depend on step and state only."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.frames import import_pandas
from solvent.errors import PolicyError, quote
from solvent.model.budget import Limits, SpentLike, limits_of
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.agent import Agent
from solvent.policy.arrange import SortedLayer, StepGroups, arranged, numbered_layers
from solvent.policy.choices import Choices, spread
from solvent.policy.node_frames import name_column, node_columns
from solvent.policy.nodes import NO_NODE, Lookup, NodeTable, Spent
from solvent.policy.plan import PlanRow, plan_rows
from solvent.policy.snapshots import refuse_fields

#: In a table of actions: there is no decision, because the state is terminal or never reached.
UNDECIDED = -1
#: Tolerance for sums of probabilities.
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class MarkovPolicy:
    """A policy that depends on the step and the state, not on the amounts spent.

    Parameters
    ----------
    model : CMDP
    table : array-like
        Positions of actions, shape (H, S), with `UNDECIDED` where there is no decision; or probabilities, shape
        (H, S, A), all zero where there is no decision.

    Raises
    ------
    PolicyError
        If the table has another shape, or entries that are not actions or probabilities. Whether an action is available
        where it is taken is not checked until the policy is used.

    Examples
    --------
    >>> from solvent.model import instances
    >>> model = instances.markov_gap()
    >>> MarkovPolicy(model, [[0], [1]]).probabilities(1, 0)
    {1: 1.0}
    """

    model: CMDP
    table: NDArray[Any] = field()

    def __post_init__(self) -> None:
        model, table = self.model, np.asarray(self.table)
        shape = (model.horizon, model.n_states)
        if table.shape == shape and table.dtype.kind in "iu":
            table = table.astype(np.int32)
            if table.min() < UNDECIDED or table.max() >= model.n_actions:
                raise PolicyError(
                    "table", f"actions from 0 to {model.n_actions - 1}, or -1", f"{table.min()} to {table.max()}"
                )
        elif table.shape == (*shape, model.n_actions) and table.dtype.kind in "iuf":
            table = table.astype(np.float64)
            total = table.sum(2)
            wrong = (table < 0).any(2) | ~((np.abs(total - 1) <= SUM_TOLERANCE) | (total == 0))
            if wrong.any():
                step, state = (int(i) for i in np.argwhere(wrong)[0])
                raise PolicyError(
                    f"step {step}, state {quote(model.states[state])}",
                    "probabilities that sum to 1, or all 0",
                    quote(table[step, state].tolist()),
                )
        else:
            raise PolicyError(
                "table",
                f"whole numbers of shape {shape}, or probabilities of shape {(*shape, model.n_actions)}",
                f"{table.dtype} of shape {table.shape}",
            )
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    @property
    def is_deterministic(self) -> bool:
        """Whether the table contains actions, not probabilities."""
        return self.table.ndim == 2

    def probabilities(self, step: int, state: Hashable) -> dict[Hashable, float]:
        """Return the actions of positive probability by name; empty where there is no decision."""
        chosen, weight = self.choices(step, self.model.state_index(state))
        return {self.model.actions[a]: p for a, p in zip(chosen.tolist(), weight.tolist(), strict=True)}

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources whose amounts it depends on: none."""
        return ()

    @property
    def units(self) -> tuple[Fraction, ...]:
        """The units of these resources: none."""
        return ()

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64] | None = None) -> Choices:
        """Return the actions of positive probability at many states of a step."""
        table = self.table[step][states]
        if self.is_deterministic:
            known = np.flatnonzero(table != UNDECIDED)
            return Choices(known, table[known].astype(np.int64), np.ones(len(known)))
        node, action = np.nonzero(table)
        return Choices(node, action, table[node, action] / table.sum(1)[node])

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return positions and probabilities of the actions of positive probability at a state, by position."""
        if self.is_deterministic:
            chosen = self.table[step, state : state + 1].astype(np.int64)
            return chosen[chosen != UNDECIDED], np.ones(int(chosen[0] != UNDECIDED))
        row = self.table[step, state]
        return np.flatnonzero(row), row[row > 0] / row.sum()

    def to_frame(self) -> Any:
        """Return the choices as a pandas DataFrame, one row per step, state and action of positive probability.

        The columns are `step`, `state`, `action` and `probability`.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd, model = import_pandas(), self.model
        rows = []
        for step in range(model.horizon):
            for state in range(model.n_states):
                for action, p in zip(*(each.tolist() for each in self.choices(step, state)), strict=True):
                    rows.append((step, model.states[state], model.actions[action], p))
        listed = [[row[i] for row in rows] for i in range(4)]
        columns = dict(zip(("step", "state", "action", "probability"), listed, strict=True))
        named = {key: pd.Series(columns[key], dtype=object) for key in ("state", "action")}
        return pd.DataFrame(columns | named)

    def follower(self, model: CMDP) -> MarkovFollower:
        """Return what an agent needs to follow this policy."""
        return MarkovFollower(self, model)

    def agent(
        self,
        *,
        seed: int = 0,
        step: int | None = None,
        state: Hashable = None,
        spent: SpentLike | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Return an agent that follows this policy; see `Agent` for the parameters."""
        return Agent(self.model, self, seed=seed, step=step, state=state, spent=spent, snapshot=snapshot)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MarkovPolicy):
            return NotImplemented
        return self.model == other.model and bool(np.array_equal(self.table, other.table))

    def __hash__(self) -> int:
        return hash((self.model, self.table.tobytes()))

    def __repr__(self) -> str:
        kind = "deterministic" if self.is_deterministic else "randomized"
        return f"MarkovPolicy({kind}, horizon {self.model.horizon}, {self.model.n_states} states)"

    def _repr_html_(self) -> str:
        from solvent.policy.display import markov_card

        return markov_card(self)


class MarkovFollower:
    """Follows a Markov policy, which needs to know nothing of an episode but step and state."""

    def __init__(self, policy: MarkovPolicy, model: CMDP) -> None:
        self._policy = policy
        self.limits = Limits((), (), ()) if model.budget is None else limits_of(model.budget, model.horizon)

    def reset(self) -> None:
        """Begin a new episode."""

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Do nothing: amounts do not matter."""

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return nothing: step and state are enough."""
        return {}

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Refuse the memory of another policy's follower."""
        refuse_fields(memory)

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return positions and probabilities of the actions at a step and state; None if there is no decision."""
        actions, weights = self._policy.choices(step, state)
        return (actions, weights) if len(actions) else None

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a step and state without a decision."""
        return PolicyError(place, "a decision", "none")

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Do nothing: costs do not matter."""

    def __copy__(self) -> MarkovFollower:
        """Return the same follower, as it never changes."""
        return self


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RandomizedPolicy(NodeTable):
    """A randomized policy on nodes; the fields of `NodeTable` define the nodes.

    Attributes
    ----------
    choice_indptr : ndarray of int64, shape (N + 1,)
        Start of the choices of each node.
    action_C : ndarray of int64, shape (C,)
        Actions of positive probability; increasing within a node.
    probability_C : ndarray of float64, shape (C,)
        Their probabilities; they sum to one at each node.
    """

    choice_indptr: NDArray[np.int64]
    action_C: NDArray[np.int64]
    probability_C: NDArray[np.float64]

    @property
    def is_deterministic(self) -> bool:
        """Whether it takes one action at each node: not in general."""
        return False

    @classmethod
    def from_nodes(
        cls,
        model: CMDP,
        lattice: Lattice | NodeTable,
        limits: Limits,
        *,
        layers: Sequence[tuple[Any, Any, Any, Any]],
        settled: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None,
        lookup: Lookup = "equal",
    ) -> RandomizedPolicy:
        """Return the policy of unordered choices.

        Parameters
        ----------
        layers : sequence of (state, spent, action, probability), one per step
            Arrays of shape (C,), (C, D), (C,) and (C,): one entry per choice at a node, in any order.

        Raises
        ------
        PolicyError
            If the probabilities of a node do not sum to one.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.model.budget import resolve
        >>> model = instances.markov_gap()
        >>> limits = resolve(model, None)
        >>> fair = ([0, 0], [[0], [0]], [0, 1], [0.5, 0.5])
        >>> policy = RandomizedPolicy.from_nodes(model, Lattice.fit(model, limits), limits, layers=[fair, fair])
        >>> policy.probabilities(1, 0, 0)
        {0: 0.5, 1: 0.5}
        """
        groups, spents, owners, actions, weights, n_nodes = [], [], [], [], [], 0
        for step, (state, spent, taken, given) in numbered_layers(layers, model.horizon):
            layer = SortedLayer.of(state, spent, len(lattice.resources), None if settled is None else settled[step])
            groups.append(StepGroups.of(layer.state))
            spents.append(layer.spent_ND)
            owners.append(np.cumsum(layer.is_first) - 1 + n_nodes)
            actions.append(np.asarray(taken, np.int64)[layer.order])
            weights.append(np.asarray(given, np.float64)[layer.order])
            n_nodes += len(layer.state)
        node, action, weight = (np.concatenate(each) for each in (owners, actions, weights))
        if len(action) and not 0 <= action.min() <= action.max() < model.n_actions:
            raise PolicyError("layers", f"actions from 0 to {model.n_actions - 1}", f"{action.min()} to {action.max()}")
        total = np.bincount(node, weight, n_nodes)
        wrong = np.flatnonzero(~(np.abs(total - 1) <= SUM_TOLERANCE))
        if len(wrong) or (weight < 0).any():
            found = f"{total[wrong[0]]} in sum" if len(wrong) else "a negative one"
            raise PolicyError("layers", "probabilities that sum to 1 at each node", found)
        keys, position = np.unique(node * model.n_actions + action, return_inverse=True)
        merged = np.bincount(position, weight, len(keys))
        keys, merged = keys[merged > 0], merged[merged > 0]
        node, action = np.divmod(keys, model.n_actions)
        return cls(
            choice_indptr=np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n_nodes))]).astype(np.int64),
            action_C=action,
            probability_C=merged / total[node],
            spent_ND=np.concatenate(spents),
            **arranged(model, lattice, limits, groups, settled, lookup),
        )

    def probabilities(self, step: int, state: Hashable, spent: Spent) -> dict[Hashable, float]:
        """Return the actions of positive probability at a node, by name.

        Raises
        ------
        PolicyError
            If there is no decision.
        """
        chosen, weight = self.choices(self.node_of(step, state, spent))
        return {self.actions[a]: p for a, p in zip(chosen.tolist(), weight.tolist(), strict=True)}

    def table(
        self,
        *,
        step: int | None = None,
        state: Hashable = None,
        resource: str | None = None,
        model: CMDP | None = None,
    ) -> list[PlanRow]:
        """Return the plan as rows, in which consecutive amounts with the same choices are merged.

        Parameters as of `AugmentedPolicy.table`.
        """
        return plan_rows(self, step=step, state=state, resource=resource, model=model)

    def to_frame(self) -> Any:
        """Return the choices as a pandas DataFrame, one row per node and action of positive probability.

        The columns are those of `AugmentedPolicy.to_frame`, and `probability`.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        node = np.repeat(np.arange(len(self)), np.diff(self.choice_indptr))
        frame = pd.DataFrame(node_columns(self, pd)).iloc[node].reset_index(drop=True)
        frame["action"] = pd.Series(name_column(self.actions, self.action_C), dtype=object)
        frame["probability"] = self.probability_C
        return frame

    def choices(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return positions and probabilities of the actions of positive probability at a node."""
        part = slice(int(self.choice_indptr[node]), int(self.choice_indptr[node + 1]))
        return self.action_C[part], self.probability_C[part]

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> Choices:
        """Return the actions of positive probability at many nodes of a step."""
        nodes = self.locate(step, states, ticks_MD)
        known = np.flatnonzero(nodes != NO_NODE)
        owner, choice = spread(self.choice_indptr, nodes[known])
        return Choices(known[owner], self.action_C[choice], self.probability_C[choice])
