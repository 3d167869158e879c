"""Constrained shortest paths of NetworkX graphs."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvent
from solvent.errors import ModelError
from tests.effort import seeds

nx = pytest.importorskip("networkx")
pytestmark = pytest.mark.extras
CASES = Path(os.environ.get("SOLVENT_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "rcsp"


def small() -> Any:
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=1, time="5/2")
    graph.add_edge("b", "d", weight=1, time=3)
    graph.add_edge("a", "c", weight=5, time=1)
    graph.add_edge("c", "d", weight=5, time=1)
    graph.add_edge("d", "a", weight=1, time=0)
    graph.add_node("alone")
    return graph


def test_the_shortest_path_that_keeps_a_budget() -> None:
    model = solvent.CMDP.from_graph(small(), "a", "d", resources=["time"])
    assert set(model.states) == {"a", "b", "c", "d"}
    assert model.horizon == 3
    assert solvent.solve(model, "11/2").value == -2
    assert solvent.solve(model, 5).value == -10
    assert solvent.solve(model, 1).status == "infeasible"
    assert solvent.solve(solvent.CMDP.from_graph(small(), "a", "d", None, ["time"]), 9).value == 0


def test_random_edges() -> None:
    graph = small()
    graph.add_edge("a", "d", outcomes=[("9/10", "d", {"weight": 1, "time": 1}), ("1/10", "a", {"weight": 0})], time=2)
    model = solvent.CMDP.from_graph(graph, "a", "d", resources=["time"], horizon=4)
    rows = model.rows(0, model.state_index("a"))
    [row] = [r for r in rows if model.actions[model.row_action[r]] == "d"]
    assert model.row_reward[row] == pytest.approx(-0.9)
    assert {(each.next_state, each.cost["time"]) for each in model.outcomes(row)} == {("d", 1), ("a", 2)}
    # it may fail as often as the budget allows, and then there is still a way
    assert solvent.verify(model, solvent.solve(model, 5).policy, 5).feasible
    with pytest.raises(ModelError, match="horizon: expected a number of steps, found none; a shortest path of a graph"):
        solvent.CMDP.from_graph(graph, "a", "d", resources=["time"])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"source": "x"}, "source: expected a node of the graph, found 'x'"),
        ({}, {"target": ["d"]}, r"target: expected a node of the graph, found \['d'\]"),
        (
            {},
            {"weight": "wieght"},
            "edge from 'a' to 'b': expected an attribute 'wieght', found none; did you mean 'weight'",
        ),
        ({}, {"source": "d"}, "source: expected a node with edges, other than the target, found the target"),
        ({"weight": "x"}, {}, "edge from 'a' to 'b', weight: expected a finite number"),
        ({"time": -1}, {}, "found none; a shortest path of a graph with negative weights or costs may be long"),
        (
            {"outcomes": []},
            {},
            r"edge from 'a' to 'b', outcomes: expected a list of \(probability, next node, attributes\)",
        ),
        (
            {"outcomes": [(1, "b")]},
            {},
            r"edge from 'a' to 'b', outcomes: expected \(probability, next node, attributes\)",
        ),
        ({"outcomes": [(1, "z", {})]}, {}, "edge from 'a' to 'b': expected nodes of the graph, found 'z'"),
    ],
)
def test_mistakes_in_graphs(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    graph = small()
    graph["a"]["b"].update(change)
    arguments = {"source": "a", "target": "d", "resources": ["time"], **options}
    with pytest.raises(ModelError, match=message):
        solvent.CMDP.from_graph(graph, **arguments)


def test_other_things_are_not_graphs() -> None:
    with pytest.raises(ModelError, match="graph: expected a NetworkX graph, found 'dict'"):
        solvent.CMDP.from_graph({}, "a", "b")


def test_a_target_that_cannot_be_reached_is_an_answer() -> None:
    model = solvent.CMDP.from_graph(small(), "a", "alone", resources=["time"])
    assert solvent.solve(model, 100).status == "infeasible"


@pytest.mark.parametrize("seed", seeds(20))
def test_random_graphs_against_all_paths(seed: int) -> None:
    """The best of all simple paths that keep the budget."""
    rng = np.random.default_rng(seed)
    kind = [nx.DiGraph, nx.Graph, nx.MultiDiGraph][seed % 3]
    graph = kind()
    graph.add_nodes_from(range(7))
    for _ in range(16):
        tail, head = (int(x) for x in rng.integers(0, 7, 2))
        if tail != head:
            graph.add_edge(tail, head, weight=int(rng.integers(0, 9)), time=Fraction(int(rng.integers(0, 9)), 2))
    if not graph.adj[0]:
        with pytest.raises(
            ModelError, match="source: expected a node with edges, other than the target, found 0, which"
        ):
            solvent.CMDP.from_graph(graph, 0, 6, resources=["time"])
        return
    model = solvent.CMDP.from_graph(graph, 0, 6, resources=["time"])
    for budget in (3, 6, 12):
        best = None
        for path in nx.all_simple_paths(graph, 0, 6):
            # of parallel edges, any combination
            sums = {(Fraction(0), 0)}
            for tail, head in pairwise(path):
                data = graph[tail][head]
                edges = list(data.values()) if graph.is_multigraph() else [data]
                sums = {(t + e["time"], w + e["weight"]) for t, w in sums for e in edges}
            for time, weight in sums:
                if time <= budget and (best is None or weight < best):
                    best = weight
        solution = solvent.solve(model, budget)
        assert (solution.value == -best) if best is not None else solution.status == "infeasible"


@pytest.mark.skipif(not CASES.is_dir(), reason="the problems of OR-Library are not there")
@pytest.mark.parametrize(("number", "cost"), [(1, 131), (3, 2), (5, 100), (7, 6)])
def test_shortest_paths_of_or_library(number: int, cost: int) -> None:
    numbers = iter((CASES / f"rcsp{number}.txt").read_text().split())
    n, m, k = (int(next(numbers)) for _ in range(3))
    lower, upper = ([float(next(numbers)) for _ in range(k)] for _ in range(2))
    node = [[float(next(numbers)) for _ in range(k)] for _ in range(n)]
    names = [f"r{d}" for d in range(k)]
    graph = nx.MultiDiGraph()
    for _ in range(m):
        tail, head, weight = (int(next(numbers)) for _ in range(3))
        used = [float(next(numbers)) + node[head - 1][d] + (node[0][d] if tail == 1 else 0) for d in range(k)]
        graph.add_edge(tail, head, weight=weight, **dict(zip(names, used, strict=True)))
    assert max(lower) == 0
    model = solvent.CMDP.from_graph(graph, 1, n, resources=names)
    assert solvent.solve(model, dict(zip(names, upper, strict=True))).value == -cost
