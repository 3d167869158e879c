"""Costs of destinations in JANI.

An edge of JANI may assign a cost at each of its destinations. Storm replaces such costs by their expectation, which is
right for rewards but hides the worst case. Before Storm reads a file, each such assignment

    destination k of an edge:  cost := e

is therefore replaced by an assignment of the edge and a mark at the destination,

    edge:  c_k := e,        destination k:  tag := k,

with a transient variable `c_k` of its own and one variable `tag` per automaton. The cost of a transition is then the
value that the edge assigns to `c_k`, where k is the tag of the next state. An automaton that does not take part in a
step keeps its tag, but its edges assign nothing. No expression reads a tag, so states that differ in tags only are one
state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from solvent.errors import ModelError, quote
from solvent.formats.storm import TAG, Transition


def keep_costs(document: Any, resources: list[str]) -> list[Transition]:
    """Rewrite a JANI document in place so that costs of destinations are not lost.

    Parameters
    ----------
    document : dict
        A JANI model.
    resources : list of str
        Names of the transient variables that are costs.

    Returns
    -------
    list of Transition
        Where the costs are found in the rewritten model.

    Raises
    ------
    ModelError
        If a destination assigns a cost twice, or its value depends on assignments of a lower index.
    """
    found: list[Transition] = []
    structures: list[str] = []
    for i, automaton in enumerate(_entries(document, "automata")):
        edges = [(edge, _entries(edge, "destinations")) for edge in _entries(automaton, "edges")]
        costs = [[_take(destination, resources) for destination in destinations] for _, destinations in edges]
        if not any(taken for of_edge in costs for taken in of_edge):
            continue
        variable, n_tags = f"{TAG}tag_{i}", 0
        by_resource: dict[str, dict[int, str]] = {}
        for (edge, destinations), of_edge in zip(edges, costs, strict=True):
            for destination, taken in zip(destinations, of_edge, strict=True):
                n_tags += bool(taken)
                for name, expression in taken.items():
                    structure = f"{TAG}cost_{len(structures)}"
                    structures.append(structure)
                    by_resource.setdefault(name, {})[n_tags] = structure
                    _append(edge, "assignments", {"ref": structure, "value": expression})
                _append(destination, "assignments", {"ref": variable, "value": n_tags if taken else 0})
        kind = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": n_tags}
        _append(document, "variables", {"name": variable, "type": kind, "initial-value": 0})
        found += [Transition(resources.index(name), variable, each) for name, each in by_resource.items()]
    for structure in structures:
        _append(document, "variables", {"name": structure, "type": "real", "transient": True, "initial-value": 0})
    return found


def _take(destination: Any, resources: list[str]) -> dict[str, Any]:
    """Set the costs of a destination to zero and return them by resource."""
    taken: dict[str, Any] = {}
    kept = []
    for each in _entries(destination, "assignments"):
        name = each.get("ref") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in resources:
            kept.append(each)
            continue
        where = "destinations, assignments"
        if name in taken:
            raise ModelError(where, f"one assignment of {quote(name)}", "two")
        if _reads_earlier(each, destination):
            expected = f"a value of {quote(name)} that assignments of a lower index do not change"
            raise ModelError(where, expected, "one that depends on them")
        taken[name] = each.get("value")
        kept.append({**each, "value": 0})  # Storm still refuses two edges that assign the same cost in one step
    if taken:
        destination["assignments"] = kept
    return taken


def _reads_earlier(assignment: Any, destination: Any) -> bool:
    """Return whether the value of an assignment depends on others, which are made before it: those of a lower index."""
    named = set(_texts(assignment.get("value")))
    earlier = [each for each in _entries(destination, "assignments") if _index(each) < _index(assignment)]
    return any(named & set(_texts(each.get("ref"))) for each in earlier)


def _index(assignment: Any) -> int:
    index = assignment.get("index", 0)
    return index if isinstance(index, int) else 0


def _texts(expression: Any) -> Iterator[str]:
    """Yield all texts of an expression, among which are the variables."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, dict | list):
        for each in expression.values() if isinstance(expression, dict) else expression:
            yield from _texts(each)


def _entries(document: Any, key: str) -> list[Any]:
    """Return a list of objects of a document; empty if there is none, as Storm reports what is missing."""
    listed = document.get(key, []) if isinstance(document, dict) else []
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _append(document: Any, key: str, entry: dict[str, Any]) -> None:
    listed = document.setdefault(key, [])
    if not isinstance(listed, list):
        raise ModelError(key, "a list", quote(listed))
    listed.append(entry)
