"""Nodes in flat arrays: the node of (step, state, spent) is found by binary search.

The nodes of a step are contiguous and grouped by state; within a group they increase by the amounts spent, in ticks:

    groups of a step    step_indptr[step] : step_indptr[step + 1]     with states group_state, increasing
    nodes of a group    node_indptr[group] : node_indptr[group + 1]   with amounts spent_ND, increasing

A resource is *settled* in a group if its amount no longer matters as long as it lies within an interval; nodes then
contain `COLLAPSED` in place of the amount.

If the last resource has limits on one side only, a decision that is safe with some amount of it is safe with every
amount that is further from the limits. One node can then stand for a *run* of such amounts with the same decision; see
`NodeTable.lookup`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import MAX_TICKS, MINUS_INFINITY, PLUS_INFINITY, exact
from solvent.errors import PolicyError, did_you_mean, printable, quote
from solvent.model.amounts import format_amount, short_amount
from solvent.model.budget import Limits, SpentLike
from solvent.model.cmdp import CMDP, NO_DISTRIBUTION, same
from solvent.model.lattice import AccountTicks
from solvent.model.resources import Resource
from solvent.model.rounding import round_to
from solvent.policy.agent import Agent
from solvent.policy.locate import COLLAPSED, locate_equal, locate_nearest
from solvent.policy.search import NOT_FOUND, changes, find
from solvent.policy.snapshots import read_amounts, refuse_fields, write_amounts

#: Returned by `NodeTable.locate` where the table has no node.
NO_NODE = NOT_FOUND

Lookup = Literal["equal", "at_most", "at_least"]
#: How a policy counts a cost that is not a multiple of its unit: it refuses it, or rounds it down or up.
Counting = Literal["exact", "down", "up"]
#: Fields of a `NodeTable` that say where the amounts spent begin, and between which ends they stay.
ACCOUNTS = ("initial_D", "floor_D", "ceiling_D")
#: Amounts spent, as users give them: a number for one tracked resource, else a sequence or a mapping by name.
Spent = Any


def _not_given() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NodeTable:
    """The nodes of a policy; subclasses add the decisions.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of the model that it was made for.
    horizon : int
        Number of steps H.
    start : hashable, or dict of hashable to float
        Name of the state at step 0, or the probability of each possible one by name.
    states, actions : tuple of hashables
        The model's names.
    resources : tuple of str
        The D tracked resources.
    units : tuple of Fraction
        The amount of one tick of each tracked resource.
    limits : Limits
        The budget that it was made for.
    step_indptr : ndarray of int64, shape (H + 1,)
    group_state : ndarray of int32, shape (G,)
    node_indptr : ndarray of int64, shape (G + 1,)
    spent_ND : ndarray of int64, shape (N, D)
    settled_low_GD, settled_high_GD : ndarray of int64, shape (G, D), or None
        The settled interval of each group and resource; empty if the low end exceeds the high end.
    lookup : {"equal", "at_most", "at_least"}
        Which node of a group applies to the amounts spent. An amount inside the settled interval of its resource counts
        as `COLLAPSED`. Then all amounts must be equal ("equal"), or all but the last, and of these nodes it is

        - "at_most": the first whose last amount is not less. A node is the upper end of a run: its decision is for
          having spent at most its amount. `COLLAPSED` is less than every amount, as settled amounts are the least ones
          under upper limits: a settled amount without a node of its own has the decision of the first node.
        - "at_least": the last whose last amount is not greater. A node is the lower end of a run. `COLLAPSED` is
          greater than every amount, as under lower limits (although it is stored first): a settled amount without a
          node of its own has the decision of the last node.

        An amount that is not settled thus never has the decision of a `COLLAPSED` node.
    counting : tuple of {"exact", "down", "up"}
        How the costs of each tracked resource are counted in ticks. For a policy on rounded costs, `spent_ND` contains
        sums of rounded costs (Algorithm 4 of the paper).
    initial_D : ndarray of int64, shape (D,)
        What has been spent of each tracked resource before the first step, in ticks; 0 if not given.
    floor_D, ceiling_D : ndarray of int64, shape (D,)
        Ends at which each tracked resource saturates, in ticks; `MINUS_INFINITY` and `PLUS_INFINITY` for none, the
        default. After each step, ticks = min(max(ticks + counted cost, floor), ceiling).
    model : CMDP or None
        The model itself, if known; not a part of the saved policy.
    """

    fingerprint: str
    horizon: int
    start: Hashable | dict[Hashable, float]
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    resources: tuple[str, ...]
    units: tuple[Fraction, ...]
    limits: Limits
    step_indptr: NDArray[np.int64]
    group_state: NDArray[np.int32]
    node_indptr: NDArray[np.int64]
    spent_ND: NDArray[np.int64]
    settled_low_GD: NDArray[np.int64] | None = None
    settled_high_GD: NDArray[np.int64] | None = None
    lookup: Lookup = "equal"
    counting: tuple[Counting, ...] = ()
    initial_D: NDArray[np.int64] = field(default_factory=_not_given)
    floor_D: NDArray[np.int64] = field(default_factory=_not_given)
    ceiling_D: NDArray[np.int64] = field(default_factory=_not_given)
    model: CMDP | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.counting:
            object.__setattr__(self, "counting", ("exact",) * len(self.resources))
        plain = AccountTicks.plain(len(self.resources))
        for name, default in zip(ACCOUNTS, plain, strict=True):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, default)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __len__(self) -> int:
        return len(self.spent_ND)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)

    def __hash__(self) -> int:
        return hash((self.fingerprint, len(self)))

    def __repr__(self) -> str:
        tracked = printable(", ".join(self.resources)) or "nothing"
        return f"{type(self).__name__}({len(self):,} nodes over {self.horizon} steps, tracking {tracked})"

    def _repr_html_(self) -> str:
        from solvent.policy.display import table_card

        return table_card(self)

    @property
    def rounds(self) -> bool:
        """Whether it rounds the costs of some resource."""
        return any(counting != "exact" for counting in self.counting)

    @cached_property
    def _state_index(self) -> dict[Hashable, int]:
        return {name: index for index, name in enumerate(self.states)}

    def covers(self, step: int, state: Hashable) -> bool:
        """Whether there is a decision for this state at this step."""
        return self._group(self.check_step(step), self.find_state(state)) != NO_NODE

    def locate(self, step: int, states: NDArray[Any], ticks_MD: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the node of each (state, ticks) at a step, or `NO_NODE`.

        Parameters
        ----------
        step : int
        states : ndarray of int, shape (M,)
            Positions of states.
        ticks_MD : ndarray of int64, shape (M, D)
            Amounts spent.
        """
        first, last = int(self.step_indptr[step]), int(self.step_indptr[step + 1])
        groups = find(self.group_state[first:last], states)
        known = groups != NO_NODE
        if not known.any():
            return groups
        groups[~known] = 0
        bounds = self.node_indptr[first : last + 1]
        node_groups = np.repeat(np.arange(last - first), np.diff(bounds))
        spent_ND, keys_MD = self.spent_ND[bounds[0] : bounds[-1]], ticks_MD
        if self.settled_low_GD is not None and self.settled_high_GD is not None:
            low, high = self.settled_low_GD[first + groups], self.settled_high_GD[first + groups]
            keys_MD = np.where((low <= ticks_MD) & (ticks_MD <= high), COLLAPSED, ticks_MD)
        if self.lookup == "equal":
            position = locate_equal(spent_ND, node_groups, keys_MD, groups)
        else:
            position = locate_nearest(spent_ND, node_groups, keys_MD, groups, self.lookup == "at_most")
        return np.where(known & (position != NO_NODE), position + bounds[0], NO_NODE)

    def settled_at(
        self, step: int, states: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]] | None:
        """Return the settled intervals (M, D) of states at a step, and which states have a group; None without any."""
        if self.settled_low_GD is None or self.settled_high_GD is None:
            return None
        first, last = int(self.step_indptr[step]), int(self.step_indptr[step + 1])
        groups = find(self.group_state[first:last], states)
        known = groups != NO_NODE
        at = np.where(known, groups + first, 0)
        return self.settled_low_GD[at], self.settled_high_GD[at], known

    def node(self, step: int, state: int, ticks: Sequence[int]) -> int:
        """Return the node of one state (by position) and amounts, or `NO_NODE`."""
        group = self._group(step, state)
        if group == NO_NODE:
            return NO_NODE
        low, high = int(self.node_indptr[group]), int(self.node_indptr[group + 1])
        # sums of continuous costs may not fit 64 bits; they are then beyond all nodes, but not beyond open intervals
        ticks = [min(max(amount, COLLAPSED + 1), PLUS_INFINITY) for amount in ticks]
        keys = [COLLAPSED if self._is_settled(group, d, amount) else amount for d, amount in enumerate(ticks)]
        for d, key in enumerate(keys if self.lookup == "equal" else keys[:-1]):
            column = self.spent_ND[low:high, d]
            low, high = low + int(np.searchsorted(column, key)), low + int(np.searchsorted(column, key, side="right"))
            if low == high:
                return NO_NODE
        if self.lookup == "equal":
            return low
        column = self.spent_ND[low:high, -1]
        if self.lookup == "at_most":
            place = low + int(np.searchsorted(column, keys[-1]))
            return place if place < high else NO_NODE
        if keys[-1] == COLLAPSED:
            return low if column[0] == COLLAPSED else high - 1
        place = low + int(np.searchsorted(column, keys[-1], side="right")) - 1
        return place if place >= low and self.spent_ND[place, -1] != COLLAPSED else NO_NODE

    def _is_settled(self, group: int, d: int, amount: int) -> bool:
        if self.settled_low_GD is None or self.settled_high_GD is None:
            return False
        return bool(self.settled_low_GD[group, d] <= amount <= self.settled_high_GD[group, d])

    def _group(self, step: int, state: int) -> int:
        first, last = int(self.step_indptr[step]), int(self.step_indptr[step + 1])
        group = first + int(np.searchsorted(self.group_state[first:last], state))
        return group if group < last and self.group_state[group] == state else NO_NODE

    def node_of(self, step: int, state: Hashable, spent: Spent) -> int:
        """Return the node of a state's name and amounts as users give them.

        Raises
        ------
        PolicyError
            If there is no such node.
        """
        step, index = self.check_step(step), self.find_state(state)
        amounts = self.read_spent(spent)
        ticks = [self.to_ticks(d, amount) for d, amount in enumerate(amounts)]
        self._refuse_beyond_ends(amounts)
        place = f"step {step}, state {quote(state)}, spent {self._show(amounts)}"
        for d, amount in enumerate(ticks):
            if amount is None:
                unit = format_amount(self.units[d])
                raise PolicyError(place, f"{self.resources[d]} in whole multiples of {unit}", format_amount(amounts[d]))
        node = self.node(step, index, [amount for amount in ticks if amount is not None])
        if node == NO_NODE:
            raise self.no_decision(step, index, place)
        return node

    def _refuse_beyond_ends(self, amounts: Sequence[Fraction]) -> None:
        for d, amount in enumerate(amounts):
            for side, ticks in zip(("floor", "ceiling"), self._saturation[d], strict=True):
                end = (ticks or 0) * self.units[d]
                outside = ticks is not None and (amount < end if side == "floor" else amount > end)
                if outside and self.counting[d] == "exact":
                    expected = (
                        f"at {'least the floor' if side == 'floor' else 'most the ceiling'}, {format_amount(end)}"
                    )
                    raise PolicyError(f"spent, {self.resources[d]}", expected, format_amount(amount))

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a node that is not in the table."""
        group = self._group(step, state)
        if group == NO_NODE:
            return PolicyError(
                place,
                "a state for which the policy has a decision at this step",
                "one that is terminal or that the policy never leads to",
            )
        nodes = self._outermost(group)
        bound = {"equal": "", "at_most": "at most ", "at_least": "at least "}[self.lookup]
        known = [self._show(self.amounts(node), bound) for node in nodes[:4].tolist()]
        more = f" or {len(nodes) - 4:,} more" if len(nodes) > 4 else ""
        return PolicyError(
            place, f"to have spent {' or '.join(known)}{more}", "an amount that the policy never leads to"
        )

    def _outermost(self, group: int) -> NDArray[np.int64]:
        """Return the nodes of a group or, if nodes are runs, the one nearest to the limits for all other amounts."""
        low, high = int(self.node_indptr[group]), int(self.node_indptr[group + 1])
        if self.lookup == "equal":
            return np.arange(low, high)
        spent_ND = self.spent_ND[low:high]
        first = changes(np.zeros(high - low, np.int64), *spent_ND.T[:-1])
        if self.lookup == "at_most":
            return np.flatnonzero(np.append(first[1:], True)) + low
        start = np.flatnonzero(first)
        size = np.diff(np.append(start, high - low))
        beside_collapsed = (spent_ND[start, -1] == COLLAPSED) & (size > 1)
        return np.where(beside_collapsed, start + 1, start) + low

    def amounts(self, node: int) -> list[Fraction | None]:
        """Return the amounts spent at a node; None where an amount no longer matters."""
        return [
            None if ticks == COLLAPSED else int(ticks) * unit
            for ticks, unit in zip(self.spent_ND[node].tolist(), self.units, strict=True)
        ]

    def read_spent(self, spent: Spent) -> list[Fraction]:
        """Return the amounts of the tracked resources from what a user gives.

        Raises
        ------
        PolicyError
            If one is missing or too many are given.
        """
        if isinstance(spent, Mapping):
            for name in self.resources:
                if name not in spent:
                    raise PolicyError("spent", f"an amount of {quote(name)}", quote(dict(spent)))
            values = [spent[name] for name in self.resources]
        elif (isinstance(spent, np.ndarray) and spent.ndim == 1) or (
            isinstance(spent, Sequence) and not isinstance(spent, str | bytes)
        ):
            values = list(spent)
        else:
            values = [spent] if self.resources or spent else []
        if len(values) != len(self.resources):
            wanted = ", ".join(map(quote, self.resources)) or "nothing"
            raise PolicyError("spent", f"amounts of {wanted}, by name or in this order", quote(spent))
        return [exact(value, f"spent, {name}") for value, name in zip(values, self.resources, strict=True)]

    def to_ticks(self, d: int, amount: Fraction) -> int | None:
        """Return the ticks that an amount is looked up with: None if none are, between two ticks without runs."""
        whole = amount / self.units[d]
        lookup = self.lookup if d == len(self.resources) - 1 else "equal"
        if whole.denominator == 1 or lookup == "at_least":
            return whole.__floor__()
        return whole.__ceil__() if lookup == "at_most" else None

    def _show(self, amounts: Sequence[Fraction | None], bound: str = "") -> str:
        shown = ["anything" if amount is None else format_amount(amount) for amount in amounts]
        if amounts and amounts[-1] is not None:
            shown[-1] = bound + shown[-1]
        if len(shown) == 1:
            return shown[0]
        named = (f"{name} {text}" for name, text in zip(self.resources, shown, strict=True))
        return ", ".join(named) or "nothing tracked"

    def check_step(self, step: int) -> int:
        """Return a step as an int; raise a `PolicyError` unless it is one of the policy's."""
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool | np.timedelta64)
        if not whole or not 0 <= step < self.horizon:
            raise PolicyError("step", f"a step from 0 to {self.horizon - 1}", quote(step))
        return int(step)

    def find_state(self, state: Hashable) -> int:
        """Return the position of a state; raise a `PolicyError` if the name is unknown."""
        try:
            return self._state_index[state]
        except Exception:  # no such name, or not hashable
            hint = did_you_mean(state, self.states)
            raise PolicyError("state", "a state of the policy's model", quote(state), hint) from None

    def check_model(self, model: CMDP) -> None:
        """Raise a `PolicyError` unless `model` is the one this policy was made for.

        The fingerprint and all names, in their order, are compared: a policy file may have the right fingerprint and
        other names.
        """
        if model.fingerprint != self.fingerprint:
            raise PolicyError(
                "policy",
                f"a policy for this model ({quote(model.name or 'unnamed')}, fingerprint {model.fingerprint})",
                f"one made for the model with fingerprint {self.fingerprint}",
            )
        for what, own, known in (
            ("horizon", self.horizon, model.horizon),
            ("start", self.start, model.start),
            ("states", self.states, model.states),
            ("actions", self.actions, model.actions),
        ):
            if own is not known and own != known:
                raise PolicyError(f"policy, {what}", f"the model's, {quote(known)}", quote(own))
        tracked = set(self.resources)
        if self.resources != self.limits.resources or self.resources != tuple(
            name for name in model.resources if name in tracked
        ):
            expected = f"resources of the model in its order, {quote(list(model.resources))}"
            raise PolicyError("policy, resources", expected, quote(list(self.resources)))
        self._check_ends(model)
        self.check_accounts()

    def _check_ends(self, model: CMDP) -> None:
        """Raise a `PolicyError` unless resources saturate where they do in the model, to within rounding."""
        for d, name in enumerate(self.resources):
            resource = model.resource(name)
            for side, ticks, end in zip(("floor", "ceiling"), self._saturation[d], _ends(resource), strict=True):
                if (ticks is None) != (end is None) or not self._counts_as(d, ticks or 0, end or Fraction(0)):
                    expected = "none, as in the model" if end is None else f"the model's, {format_amount(end)}"
                    found = "none" if ticks is None else format_amount(ticks * self.units[d])
                    raise PolicyError(f"policy, {side} of {quote(name)}", expected, found)
            initial = self.limits.initial[d]
            if resource.clamp(initial) != initial:
                raise PolicyError(
                    f"policy, initial amount of {quote(name)}",
                    f"an amount within the ends of {resource!r}",
                    format_amount(initial),
                )

    def check_accounts(self) -> None:
        """Raise a `PolicyError` unless initial amounts, floors and ceilings fit each other and the limits.

        The initial ticks must be those of `limits.initial`, exactly or rounded to a neighbor where the policy counts
        rounded costs, and lie between the ends.
        """
        for name in ACCOUNTS:
            if getattr(self, name).shape != (len(self.resources),):
                raise PolicyError(name, f"shape ({len(self.resources)},)", f"shape {getattr(self, name).shape}")
        for d, resource in enumerate(self.resources):
            ticks, (floor, ceiling) = int(self.initial_D[d]), self._saturation[d]
            if max(abs(each) for each in (ticks, floor or 0, ceiling or 0)) > MAX_TICKS:
                raise PolicyError(f"accounts of {quote(resource)}", f"at most {MAX_TICKS} ticks", "more")
            if floor is not None and ceiling is not None and floor > ceiling:
                raise PolicyError(
                    f"ceiling_D, {quote(resource)}", f"at least the floor, {floor} ticks", f"{ceiling} ticks"
                )
            if self.clamp(d, ticks) != ticks:
                shown = ["none" if end is None else str(end) for end in (floor, ceiling)]
                expected = f"ticks within the floor, {shown[0]}, and the ceiling, {shown[1]}"
                raise PolicyError(f"initial_D, {quote(resource)}", expected, str(ticks))
            initial = self.limits.initial[d]
            if not self._counts_as(d, ticks, initial):
                expected = f"the ticks of {short_amount(initial)}"
                raise PolicyError(f"initial_D, {quote(resource)}", expected, short_amount(ticks * self.units[d]))

    def _counts_as(self, d: int, ticks: int, amount: Fraction) -> bool:
        """Whether ticks are an amount, exactly or, where the policy counts rounded costs, to within one tick."""
        error = abs(ticks * self.units[d] - amount)
        return error == 0 if self.counting[d] == "exact" else error < self.units[d]

    def check_counting(self, model: CMDP) -> None:
        """Raise a `PolicyError` unless this policy was made for `model` and can count its costs."""
        self.check_model(model)
        for d in range(len(self.resources)):
            self.plain_ticks(model, d)

    def cost_ticks(self, model: CMDP) -> NDArray[np.int64]:
        """Return the cost of each outcome of the model as this policy counts it, in ticks, shape (O, D).

        Raises
        ------
        PolicyError
            If a cost is continuous, or is not a multiple of the unit and the policy does not round.
        """
        self.check_model(model)
        cost_OD = np.zeros((model.n_outcomes, len(self.resources)), np.int64)
        for d, name in enumerate(self.resources):
            if (
                model.distribution_DO is not None
                and (model.distribution_DO[model.resource_index(name)] != NO_DISTRIBUTION).any()
            ):
                raise PolicyError(f"costs of {name}", "costs of finite support", "a continuous distribution")
            cost_OD[:, d] = self.plain_ticks(model, d)
        return cost_OD

    def plain_ticks(self, model: CMDP, d: int) -> NDArray[np.int64]:
        """Return the costs of one tracked resource as counted, in ticks, shape (O,); 0 for continuous costs.

        Raises
        ------
        PolicyError
            If some cost is not a multiple of the unit and the policy does not round it.
        """
        r = model.resource_index(self.resources[d])
        column = model.cost[r]
        continuous = model.distribution_DO is not None and bool((model.distribution_DO[r] != NO_DISTRIBUTION).any())
        whole = (column.unit / self.units[d]).denominator == 1 or not column.ticks.any()
        if self.counting[d] == "exact" and (continuous or not whole):
            raise PolicyError(
                f"costs of {self.resources[d]}",
                f"whole multiples of the policy's unit, {format_amount(self.units[d])}",
                "a continuous distribution" if continuous else f"multiples of {format_amount(column.unit)}",
            )
        # rounding changes each term of a sum by less than a tick
        fixed = sum(abs(each) for each in (int(self.initial_D[d]), *(end or 0 for end in self._saturation[d])))
        if max(model.cost_sums[r]) * column.unit / self.units[d] + model.horizon + fixed > MAX_TICKS:
            expected = "a unit in which sums of costs fit 64 bits"
            raise PolicyError(f"costs of {self.resources[d]}", expected, format_amount(self.units[d]))
        return round_to(column, self.units[d], up=self.counting[d] == "up")

    def count(self, d: int, amount: Fraction) -> int:
        """Return the number of ticks that the policy counts for a cost of a tracked resource.

        Raises
        ------
        PolicyError
            If the cost is not a multiple of the unit and the policy does not round.
        """
        ticks = amount / self.units[d]
        if ticks.denominator != 1 and self.counting[d] == "exact":
            unit = format_amount(self.units[d])
            raise PolicyError(f"cost of {self.resources[d]}", f"a whole multiple of {unit}", format_amount(amount))
        return ticks.__ceil__() if self.counting[d] == "up" else ticks.__floor__()

    def count_spent(self, d: int, amount: Fraction) -> int:
        """Return the number of ticks that the policy counts for an amount spent of a tracked resource.

        Raises
        ------
        PolicyError
            If the amount is not a multiple of the unit, and the policy neither rounds nor has runs of its amounts.
        """
        ticks = self.count(d, amount) if self.counting[d] != "exact" else self.to_ticks(d, amount)
        if ticks is None:
            unit = format_amount(self.units[d])
            raise PolicyError(f"spent, {self.resources[d]}", f"a whole multiple of {unit}", format_amount(amount))
        return ticks

    def clamp(self, d: int, ticks: int) -> int:
        """Return a sum of ticks of a tracked resource after saturation.

        Sums of any size are exact, as `MINUS_INFINITY` and `PLUS_INFINITY` stand for no end.
        """
        floor, ceiling = self._saturation[d]
        if floor is not None and ticks < floor:
            return floor
        return ceiling if ceiling is not None and ticks > ceiling else ticks

    @cached_property
    def _saturation(self) -> list[tuple[int | None, int | None]]:
        return [
            (None if floor == MINUS_INFINITY else int(floor), None if ceiling == PLUS_INFINITY else int(ceiling))
            for floor, ceiling in zip(self.floor_D.tolist(), self.ceiling_D.tolist(), strict=True)
        ]

    @property
    def is_deterministic(self) -> bool:
        """Whether it takes one action at each node."""
        raise NotImplementedError

    def choices(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return positions and probabilities of the actions that are taken at a node."""
        raise NotImplementedError

    def follower(self, model: CMDP) -> NodeFollower:
        """Return what an agent needs to follow this policy."""
        return NodeFollower(self, model)

    def agent(
        self,
        model: CMDP | None = None,
        *,
        seed: int = 0,
        step: int | None = None,
        state: Hashable = None,
        spent: SpentLike | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Return an agent that follows this policy.

        Parameters
        ----------
        model : CMDP, optional
            The model that observations are compared with; needed only if the policy was loaded without it.
        seed : int
            Random seed, for randomized policies.
        step, state, spent, snapshot
            Where it begins; see `Agent`. Default: the start of an episode. A policy on rounded costs that resumes with
            amounts counts each of them rounded once; a snapshot has the sums of rounded costs.

        Raises
        ------
        PolicyError
            If no model is known, the policy was made for another one, or it has no decision where the agent resumes.
        """
        model = model or self.model
        if model is None:
            raise PolicyError(
                "agent", "the policy's model", "none", "use policy.agent(model), or load_policy(path, model)"
            )
        return Agent(model, self, seed=seed, step=step, state=state, spent=spent, snapshot=snapshot)


def run_lookup(limits: Limits) -> Lookup:
    """Return how a policy that keeps limits can look up runs of the last resource; "equal" if that is not safe.

    Examples
    --------
    >>> one, none = (Fraction(1),), (None,)
    >>> cases = ((one, none), (none, one), (one, one))
    >>> [run_lookup(Limits(("x",), (upper,), (lower,))) for upper, lower in cases]
    ['at_most', 'at_least', 'equal']
    """
    if not limits.resources:
        return "equal"
    has_upper, has_lower = (any(limit is not None for limit in side[-1]) for side in (limits.upper, limits.lower))
    if has_upper and has_lower:
        return "equal"
    return "at_least" if has_lower else "at_most"


def _ends(resource: Resource) -> tuple[Fraction | None, Fraction | None]:
    return resource.floor, resource.ceiling


class NodeFollower:
    """Follows a policy on nodes: adds up the costs of the tracked resources, in the policy's ticks.

    Parameters
    ----------
    policy : NodeTable
    model : CMDP
        The model that the policy was made for.
    """

    def __init__(self, policy: NodeTable, model: CMDP) -> None:
        policy.check_model(model)
        self._policy = policy
        self._tracked = [model.resource_index(name) for name in policy.resources]
        self.reset()

    @property
    def limits(self) -> Limits:
        """The limits of the policy."""
        return self._policy.limits

    def reset(self) -> None:
        """Begin a new episode."""
        self._counted = [int(ticks) for ticks in self._policy.initial_D]

    def resume(self, step: int, spent: Sequence[Fraction]) -> None:
        """Continue from a step before which these amounts were spent, one per resource of the model."""
        self._counted = [
            self._policy.clamp(d, self._policy.count_spent(d, spent[r])) for d, r in enumerate(self._tracked)
        ]

    def memory(self, spent: Sequence[Fraction]) -> dict[str, Any]:
        """Return the counted amounts where they are not those spent."""
        names, units = self._policy.resources, self._policy.units
        amounts = [ticks * unit for ticks, unit in zip(self._counted, units, strict=True)]
        if amounts == [spent[r] for r in self._tracked]:
            return {}
        return {"counted": write_amounts(names, amounts)}

    def restore(self, step: int, spent: Sequence[Fraction], memory: Mapping[str, Any]) -> None:
        """Continue from a step before which these amounts were spent, with what `memory` returned."""
        rest = dict(memory)
        names, units = self._policy.resources, self._policy.units
        amounts = [spent[r] for r in self._tracked]
        if "counted" in rest:
            amounts = read_amounts(rest.pop("counted"), names, "snapshot, counted")
        refuse_fields(rest)
        ticks = [amount / unit for amount, unit in zip(amounts, units, strict=True)]
        for d, number in enumerate(ticks):
            if number.denominator != 1 or self._policy.clamp(d, int(number)) != number:
                raise PolicyError(
                    f"snapshot, {names[d]}",
                    f"a whole multiple of the policy's unit, {format_amount(units[d])}, that it can count",
                    format_amount(amounts[d]),
                    "resume with the policy that the agent followed",
                )
        self._counted = [int(number) for number in ticks]

    def choices(self, step: int, state: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return positions and probabilities of the actions at the current node; None if there is no decision."""
        node = self._policy.node(step, state, self._counted)
        return None if node == NO_NODE else self._policy.choices(node)

    def no_decision(self, step: int, state: int, place: str) -> PolicyError:
        """Return the error for a node that is not in the table."""
        return self._policy.no_decision(step, state, place)

    def observe(self, step: int, costs: Sequence[Fraction]) -> None:
        """Count the costs of a step."""
        self._counted = [
            self._policy.clamp(d, counted + self._policy.count(d, costs[r]))
            for d, (r, counted) in enumerate(zip(self._tracked, self._counted, strict=True))
        ]

    def __copy__(self) -> Self:
        """Return a follower that continues from here independently."""
        twin = object.__new__(type(self))
        twin.__dict__ = dict(self.__dict__)  # what changes is replaced, never modified
        return twin
