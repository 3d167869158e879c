"""Constrained shortest paths: the model of a NetworkX graph.

States are the nodes, and an action is the node to go to (with the key of the edge, in a multigraph). A path has to end
at the target; the reward of an edge is minus its weight, so the value of the best policy is minus the length of the
shortest path that keeps the budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solvent.core.exact import exact
from solvent.errors import ModelError, did_you_mean, quote
from solvent.model.budget import BudgetLike
from solvent.model.build import Builder
from solvent.model.resources import ResourceLike, as_resources

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP

_OUTCOME = "(probability, next node, attributes)"


def from_graph(
    graph: Any,
    source: Hashable,
    target: Hashable,
    weight: str | None = "weight",
    resources: Sequence[ResourceLike] = (),
    *,
    horizon: int | None = None,
    outcomes: str = "outcomes",
    budget: BudgetLike | None = None,
    name: str = "",
    description: str = "",
) -> CMDP:
    """Return the model of a graph; see `CMDP.from_graph` for the parameters.

    Raises
    ------
    ModelError
        If a node or an attribute is missing, or a horizon is needed.
    """
    if not all(hasattr(graph, each) for each in ("nodes", "adj", "is_multigraph")):
        raise ModelError("graph", "a NetworkX graph", quote(type(graph).__name__))
    for where, node in (("source", source), ("target", target)):
        try:
            known = node in graph
        except TypeError:
            known = False
        if not known:
            raise ModelError(where, "a node of the graph", quote(node), did_you_mean(node, list(graph.nodes)))
    accounts = as_resources(resources)
    names = [each.name for each in accounts]
    reached = _reached(graph, source, target, outcomes)
    rows = []
    negative = False
    for node in reached:
        for action, after, data in _edges(graph, node):
            place = f"edge from {quote(node)} to {quote(after)}"
            listed = []
            for p, onward, attributes in _outcomes(data, after, outcomes, place):
                reward = 0 if weight is None else -_number(attributes, weight, place)
                costs = [_number(attributes, each, place) for each in names]
                negative |= reward > 0 or any(cost < 0 for cost in costs)
                listed.append((p, onward, costs, reward))
            if node != target:
                rows.append((node, action, listed))
    if not rows:
        found = "the target" if source == target else f"{quote(source)}, which has none"
        raise ModelError("source", "a node with edges, other than the target", found)
    if horizon is None:
        random = any(len(listed) > 1 for _, _, listed in rows)
        if negative or random:
            reason = "negative weights or costs" if negative else "edges with several outcomes"
            raise ModelError(
                "horizon", "a number of steps", "none", f"a shortest path of a graph with {reason} may be long"
            )
        # without negative numbers, no path gains from a cycle
        horizon = max(1, len(reached) - 1)
    builder = Builder(
        horizon=horizon, start=source, resources=accounts, budget=budget, states=[*reached],
        must_end_in=[target] if target in reached else (lambda _: False),
        name=name, description=description,
    )  # fmt: skip
    for node, action, listed in rows:
        builder.add(node, action, outcomes=listed)
    return builder.build()


def _reached(graph: Any, source: Hashable, target: Hashable, outcomes: str) -> dict[Hashable, None]:
    """Return the nodes that can be reached from the source, without going on from the target."""
    found: dict[Hashable, None] = {source: None}
    todo = [source]
    while todo:
        node = todo.pop()
        if node == target:
            continue
        for _, after, data in _edges(graph, node):
            for _, onward, _ in _outcomes(data, after, outcomes, f"edge from {quote(node)} to {quote(after)}"):
                if onward not in graph:
                    raise ModelError(f"edge from {quote(node)} to {quote(after)}", "nodes of the graph", quote(onward))
                if onward not in found:
                    found[onward] = None
                    todo.append(onward)
    return found


def _edges(graph: Any, node: Hashable) -> Iterator[tuple[Hashable, Hashable, Mapping[str, Any]]]:
    """Yield the action, the node it leads to and the attributes of each edge of a node."""
    for after, data in graph.adj[node].items():
        if graph.is_multigraph():
            for key, each in data.items():
                yield (after, key), after, each
        else:
            yield after, after, data


def _outcomes(
    data: Mapping[str, Any], after: Hashable, key: str, place: str
) -> list[tuple[Any, Hashable, Mapping[str, Any]]]:
    """Return the outcomes of an edge; attributes that an outcome does not have are those of the edge."""
    if key not in data:
        return [(1, after, data)]
    listed = data[key]
    if isinstance(listed, str | Mapping) or not isinstance(listed, Sequence) or not listed:
        raise ModelError(f"{place}, {key}", f"a list of {_OUTCOME}", quote(listed))
    found: list[tuple[Any, Hashable, Mapping[str, Any]]] = []
    for each in listed:
        if (
            not isinstance(each, Sequence)
            or isinstance(each, str)
            or len(each) != 3
            or not isinstance(each[2], Mapping)
        ):
            raise ModelError(f"{place}, {key}", _OUTCOME, quote(each))
        found.append((each[0], each[1], {**data, **each[2]}))
    return found


def _number(data: Mapping[str, Any], name: str, place: str) -> Fraction:
    if name not in data:
        hint = did_you_mean(name, list(data))
        raise ModelError(place, f"an attribute {quote(name)}", "none", hint)
    return exact(data[name], f"{place}, {name}")
