"""`AugmentedPolicy`: one action for each node (step, state, spent) that the policy can lead to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvent.core.array_files import ArrayFolder
from solvent.core.frames import import_pandas
from solvent.errors import PolicyError, quote
from solvent.model.budget import Limits
from solvent.model.cmdp import CMDP
from solvent.model.lattice import Lattice
from solvent.policy.arrange import JoinedArrays, SortedLayer, StepGroups, arranged, numbered_layers
from solvent.policy.choices import Choices
from solvent.policy.locate import COLLAPSED
from solvent.policy.node_frames import name_column, node_columns
from solvent.policy.nodes import NO_NODE, Counting, Lookup, NodeTable, Spent
from solvent.policy.plan import PlanRow, plan_rows
from solvent.policy.search import changes

__all__ = ["COLLAPSED", "NO_ACTION", "NO_NODE", "AugmentedPolicy", "Decision"]

#: Returned by `AugmentedPolicy.action_indices` where the policy has no decision.
NO_ACTION = -1


class Decision(NamedTuple):
    """The action at one node; an amount is None where it no longer matters."""

    step: int
    state: Hashable
    spent: dict[str, Fraction | None]
    action: Hashable


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AugmentedPolicy(NodeTable):
    """A deterministic policy on nodes.

    Made by `solvent.solve` or `load_policy`; all fields are read-only. The fields of `NodeTable` define the nodes.

    Attributes
    ----------
    action_N : ndarray of uint8, uint16 or uint32, shape (N,)
        The action of each node.

    Examples
    --------
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> model = instances.knapsack([3, 4], [2, 3], capacity=4)
    >>> limits = resolve(model, None)
    >>> lattice = Lattice.fit(model, limits)
    >>> policy = AugmentedPolicy.from_nodes(model, lattice, limits, layers=[([0], [[0]], [0]), ([0], [[0]], [1])])
    >>> policy
    AugmentedPolicy(2 nodes over 2 steps, tracking weight)
    >>> policy.action(1, "knapsack", 0)
    'take'
    """

    action_N: NDArray[Any]

    @property
    def is_deterministic(self) -> bool:
        """Whether it takes one action at each node: always."""
        return True

    @classmethod
    def from_nodes(
        cls,
        model: CMDP,
        lattice: Lattice | NodeTable,
        limits: Limits,
        *,
        layers: Iterable[tuple[Any, Any, Any]],
        settled: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None,
        lookup: Lookup = "equal",
        counting: tuple[Counting, ...] = (),
        folder: ArrayFolder | None = None,
    ) -> AugmentedPolicy:
        """Return the policy of unordered nodes.

        Parameters
        ----------
        model : CMDP
        lattice : Lattice or NodeTable
            Has the tracked resources, their units, what has been spent before the first step, floors and ceilings.
        limits : Limits
            The budget that it keeps.
        layers : iterable of (state, spent, action), one per step
            Arrays of shape (N,), (N, D) and (N,): positions of states, ticks, positions of actions. A node may be
            repeated with the same action. Each is read before the next is asked for.
        settled : sequence of (low, high), one per step, optional
            Arrays of shape (S, D): within this interval an amount no longer matters; empty if low exceeds high.
            Amounts within may be given as they are or as `COLLAPSED`.
        lookup : {"equal", "at_most", "at_least"}
            If not "equal", the nodes are runs of the last resource's amounts (see `NodeTable`), and those that would
            find the same action without a node of their own are left out.
        counting : tuple of {"exact", "down", "up"}
            How costs of each resource that are not multiples of its unit are counted; all exact if not given.
        folder : ArrayFolder, optional
            Where to keep amounts and actions, which are then mapped into memory; in memory if not given.

        Raises
        ------
        PolicyError
            If a node has two different actions.
        """
        dtype = np.min_scalar_type(max(model.n_actions - 1, 0))
        groups: list[StepGroups] = []
        spent_ND = JoinedArrays((0, len(lattice.resources)), np.int64, folder)
        decisions = JoinedArrays((0,), dtype, folder)
        for step, (state, spent, given) in numbered_layers(layers, model.horizon):
            layer = SortedLayer.of(state, spent, len(lattice.resources), None if settled is None else settled[step])
            actions = np.asarray(given)[layer.order]
            if len(actions) and not 0 <= actions.min() <= actions.max() < model.n_actions:
                raise PolicyError(
                    f"step {step}", f"actions from 0 to {model.n_actions - 1}", f"{actions.min()} to {actions.max()}"
                )
            action_N = actions[layer.is_first].astype(dtype)
            clash = ~layer.is_first & changes(actions)
            if clash.any():
                node = int(layer.is_first[: np.argmax(clash)].sum()) - 1
                name = model.states[int(layer.state[node])]
                raise PolicyError(f"step {step}, state {quote(name)}", "one action for each node", "two")
            kept = layer.needed_in_runs(action_N, lookup)
            groups.append(StepGroups.of(layer.state[kept]))
            spent_ND.append(layer.spent_ND[kept])
            decisions.append(action_N[kept])
        parts = arranged(model, lattice, limits, groups, settled, lookup)
        return cls(action_N=decisions.joined(), spent_ND=spent_ND.joined(), counting=counting, **parts)

    def action(self, step: int, state: Hashable, spent: Spent) -> Hashable:
        """Return the action at a node, in names.

        Parameters
        ----------
        step : int
            From 0.
        state : hashable
        spent : number, sequence or mapping
            What has been spent so far: a number where one resource is tracked, else amounts in the order of
            `resources` or by name; resources that are not tracked may be named too.

        Raises
        ------
        PolicyError
            If the policy decides nothing there.
        """
        return self.actions[int(self.action_N[self.node_of(step, state, spent)])]

    def action_index(self, step: int, state: int, ticks: Sequence[int]) -> int:
        """Return the action, by position, for a state by position and ticks; `NO_ACTION` if there is none."""
        node = self.node(step, state, ticks)
        return NO_ACTION if node == NO_NODE else int(self.action_N[node])

    def action_indices(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of the actions at many nodes of a step; `NO_ACTION` where there is no decision.

        Parameters
        ----------
        step : int
        states : ndarray of int, shape (M,)
        ticks_MD : ndarray of int64, shape (M, D)
        """
        nodes = self.locate(step, states, ticks_MD)
        known = nodes != NO_NODE
        result = np.full(len(nodes), NO_ACTION, np.int64)
        result[known] = self.action_N[nodes[known]]
        return result

    def choices(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the position of the action at a node, and its probability 1."""
        return self.action_N[node : node + 1].astype(np.int64), np.ones(1)

    def choices_at(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> Choices:
        """Return the action at each of many nodes of a step, with probability 1."""
        actions = self.action_indices(step, states, ticks_MD)
        known = np.flatnonzero(actions != NO_ACTION)
        return Choices(known, actions[known], np.ones(len(known)))

    def __iter__(self) -> Iterator[Decision]:
        for step in range(self.horizon):
            for group in range(int(self.step_indptr[step]), int(self.step_indptr[step + 1])):
                state = self.states[int(self.group_state[group])]
                for node in range(int(self.node_indptr[group]), int(self.node_indptr[group + 1])):
                    spent = dict(zip(self.resources, self.amounts(node), strict=True))
                    yield Decision(step, state, spent, self.actions[int(self.action_N[node])])

    def table(
        self,
        *,
        step: int | None = None,
        state: Hashable = None,
        resource: str | None = None,
        model: CMDP | None = None,
    ) -> list[PlanRow]:
        """Return the plan as rows, in which consecutive amounts with the same action are merged.

        A row may include amounts to which the policy never leads. There the action is safe, but another one may be
        better, and the value is that of the amounts to which the policy does lead.

        Parameters
        ----------
        step, state : optional
            Only rows of this step and of this state.
        resource : str, optional
            The resource whose amounts are merged, if there are several; each row has one amount of the others. Default:
            the last one.
        model : CMDP, optional
            The model, for values; needed only if the policy was loaded without it.

        Examples
        --------
        >>> from solvent.model import instances
        >>> from solvent.solvers.solve import solve
        >>> policy = solve(instances.knapsack([60, 100, 120], [10, 20, 30], capacity=50), method="reduction").policy
        >>> for row in policy.table():
        ...     print(row.step, row.remaining, row.action_text, row.value_text)
        0 {'weight': (Fraction(50, 1), Fraction(50, 1))} leave 220
        1 {'weight': (Fraction(50, 1), None)} take 220
        2 {'weight': (Fraction(30, 1), None)} take 120
        """
        return plan_rows(self, step=step, state=state, resource=resource, model=model)

    def to_frame(self) -> Any:
        """Return the decisions as a pandas DataFrame, one row per node.

        If nodes are runs (`lookup` is not "equal"), a row has the last amount of the run for "at_most", and the first
        for "at_least"; `table` has both.
        Amounts are integers if the unit is an integer, else floats; missing where they no longer matter.

        Raises
        ------
        SolventError
            If pandas is not installed.
        """
        pd = import_pandas()
        columns = node_columns(self, pd)
        columns["action"] = pd.Series(name_column(self.actions, self.action_N), dtype=object)
        return pd.DataFrame(columns)

    def export(self, path: str | Path) -> None:
        """Write the policy for other programs: as C99 (.c) or JSON (.json).

        The C file has the table of decisions and the account, needs no library and allocates nothing. Functions begin
        with the name of the file: `van_begin`, `van_act` and `van_observe`; a comment in the file shows their use.
        docs/formats.md describes the JSON file.

        Raises
        ------
        PolicyError
            If the suffix is another, or the policy rounds costs.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from solvent.model import instances
        >>> from solvent.solvers.solve import solve
        >>> policy = solve(instances.knapsack([60, 100], [10, 20], capacity=20)).policy
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "sack.c"
        ...     policy.export(file)
        ...     "int32_t sack_act(const sack_account *account)" in file.read_text()
        True
        """
        from solvent.policy.export import export_policy

        export_policy(self, path)

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, atomically; `load_policy` reads it back."""
        from solvent.policy.writing import save_policy

        save_policy(self, path)
