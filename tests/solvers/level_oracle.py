"""An oracle for levels: games on the explicit graph of (state, level), solved by searching the graph."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any

import solvent
from solvent import CMDP

Node = tuple[Hashable, Fraction]


def random_model(rng: random.Random, *, charging: bool, unit: Fraction = Fraction(1)) -> CMDP:
    """Return a small model with free outcomes, terminal states and, if `charging`, negative costs."""
    n = rng.randint(1, 5)
    costs = [-3, -1, 0, 0, 1, 2, 3] if charging else [0, 0, 0, 1, 1, 2, 3, 9]
    b = CMDP.builder(horizon=rng.randint(1, 3), start=0, resources=["fuel"])
    for state in range(n):
        if state and rng.random() < 0.2:
            continue  # terminal
        for action in "abc"[: rng.randint(1, 3)]:
            count = rng.randint(1, 3)
            outcomes = [(Fraction(1, count), rng.randrange(n), rng.choice(costs) * unit) for _ in range(count)]
            b.add(state, action, outcomes=outcomes)
    return b.build()


class Product:
    """The graph of (state, level) of a model: the successors of every action that cannot run dry."""

    def __init__(self, model: CMDP, capacity: Fraction, reload: Iterable[Hashable], unit: Fraction) -> None:
        self.model, self.capacity, self.reload = model, capacity, frozenset(reload)
        count = int(capacity / unit)
        self.levels = sorted({*(i * unit for i in range(count + 1)), *(capacity - i * unit for i in range(count + 1))})
        self.nodes: list[Node] = [(state, level) for state in model.states for level in self.levels]

    def arrival(self, level: Fraction, cost: Any, state: Hashable) -> Node | None:
        left = min(level - cost, self.capacity)
        return None if left < 0 else (state, left)

    def after(self, state: Hashable, level: Fraction, row: int) -> set[Node] | None:
        """Return the successors of a row taken with a level; None if an outcome runs dry."""
        found = {self.arrival(level, o.cost["fuel"], o.next_state) for o in self.model.outcomes(row)}
        return None if None in found else found  # type: ignore[return-value]

    def moves(self, node: Node, *, reloads: bool = True) -> list[set[Node]]:
        """Return the sets of successors of the actions that cannot run dry; none in terminal states."""
        state, level = node
        if reloads and state in self.reload:
            level = self.capacity
        rows = self.model.rows(0, self.model.state_index(state))
        return [after for row in rows if (after := self.after(state, level, row)) is not None]

    def is_terminal(self, node: Node) -> bool:
        return self.model.is_terminal(0, self.model.state_index(node[0]))

    def surviving(self) -> set[Node]:
        """Return the nodes from which the account never runs dry: remove nodes that must leave the others."""
        alive = set(self.nodes)
        while True:
            bad = {x for x in alive if not self.is_terminal(x) and not any(m <= alive for m in self.moves(x))}
            if not bad:
                return alive
            alive -= bad

    def surely(self) -> set[Node]:
        """Return the nodes from which a reload state is surely reached, one step later or more."""
        won: set[Node] = set()
        while True:
            new = {
                x
                for x in self.nodes
                if x not in won
                and any(all(y in won or y[0] in self.reload for y in m) for m in self.moves(x, reloads=False))
            }
            if not new:
                return won
            won |= new

    def almost_surely(self, targets: set[Node], target_states: Iterable[Hashable]) -> set[Node]:
        """Return the nodes from which targets are reached with probability one.

        Again and again: drop all nodes that cannot reach a target in the graph, and all actions that may lead to
        dropped nodes.
        """
        ends = frozenset(target_states)
        inside = {x for x in self.nodes if x[0] not in ends} | targets
        while True:
            edges = {x: [m for m in self.moves(x) if m <= inside] for x in inside - targets}
            before: dict[Node, set[Node]] = {}
            for x, moves in edges.items():
                for y in set().union(*moves) if moves else ():
                    before.setdefault(y, set()).add(x)
            seen, waiting = set(targets), list(targets)
            while waiting:
                for x in before.get(waiting.pop(), ()):
                    if x not in seen:
                        seen.add(x)
                        waiting.append(x)
            if seen == inside:
                return inside
            inside = seen

    def least(self, won: set[Node]) -> dict[Hashable, Fraction | None]:
        """Return the least level of each state in a set of nodes that has all larger levels too."""
        result: dict[Hashable, Fraction | None] = {}
        for state in self.model.states:
            levels = [level for level in self.levels if (state, level) in won]
            assert levels == self.levels[len(self.levels) - len(levels) :]
            result[state] = levels[0] if levels else None
        return result

    def followed(self, found: solvent.Levels, first: Node) -> dict[tuple[Node, bool], list[tuple[Node, bool]]]:
        """Return the graph of (node, whether a goal was reached) under the policy; refuse one that runs dry."""
        policy = found.policy

        def arrive(node: Node, reached: bool) -> tuple[Node, bool]:
            index = self.model.state_index(node[0])
            return node, reached or bool(policy.goal_S[index])

        begin = (first, False) if policy.objective == "reload" else arrive(first, False)
        graph: dict[tuple[Node, bool], list[tuple[Node, bool]]] = {}
        waiting = [begin]
        while waiting:
            place = waiting.pop()
            if place in graph:
                continue
            (state, level), reached = place
            if self.is_terminal(place[0]) or (reached and policy.after is None):
                graph[place] = []
                continue
            action = policy.action(state, level, reached=reached)
            row = next(
                r
                for r in self.model.rows(0, self.model.state_index(state))
                if self.model.actions[self.model.row_action[r]] == action
            )
            if state in self.reload and policy.objective != "reload":
                level = self.capacity
            after = self.after(state, level, row)
            assert after is not None, f"{action} runs dry at {place}"
            graph[place] = [arrive(y, reached) for y in after]
            waiting += graph[place]
        return graph


def is_acyclic(graph: dict[Any, list[Any]]) -> bool:
    degree = dict.fromkeys(graph, 0)
    for after in graph.values():
        for y in after:
            degree[y] += 1
    waiting, seen = [x for x in graph if degree[x] == 0], 0
    while waiting:
        seen += 1
        for y in graph[waiting.pop()]:
            degree[y] -= 1
            if degree[y] == 0:
                waiting.append(y)
    return seen == len(graph)


def can_reach(graph: dict[Any, list[Any]], goals: set[Any]) -> set[Any]:
    """Return the places from which a goal can be reached."""
    before: dict[Any, list[Any]] = {}
    for x, after in graph.items():
        for y in after:
            before.setdefault(y, []).append(x)
    seen, waiting = set(goals), list(goals)
    while waiting:
        for x in before.get(waiting.pop(), ()):
            if x not in seen:
                seen.add(x)
                waiting.append(x)
    return seen
