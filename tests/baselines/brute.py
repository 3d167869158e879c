"""Brute force for mixtures of policies: all attainable pairs (paid, earned), by hulls over histories.

A policy is judged by two sums: what it earns, and what it pays (its probability of exceeding the budget, or its
expected spending). Only the upper hull of all attainable pairs matters for mixtures, and hulls can be built backward,
outcome by outcome.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from oracle import Amounts, Problem

Pair = tuple[Fraction, Fraction]


def hull(pairs: set[Pair]) -> list[Pair]:
    """The upper concave hull of pairs (paid, earned), in which no pair is dominated by a mixture of others."""
    best: list[Pair] = []
    for paid, earned in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if best and earned <= best[-1][1]:
            continue
        while len(best) > 1 and _below(best[-2], best[-1], (paid, earned)):
            best.pop()
        best.append((paid, earned))
    return best


def _below(a: Pair, b: Pair, c: Pair) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def best_at(pairs: list[Pair], limit: Fraction) -> Fraction | None:
    """Return the most that a mixture earns without paying more than a limit."""
    if pairs[0][0] > limit:
        return None
    below = [pair for pair in pairs if pair[0] <= limit]
    if len(below) == len(pairs):
        return pairs[-1][1]
    (x, v), (y, w) = below[-1], pairs[len(below)]
    return v + (w - v) * (limit - x) / (y - x)


def _sum(first: list[Pair], second: list[Pair], weight: Fraction) -> list[Pair]:
    return hull({(x + weight * y, v + weight * w) for x, v in first for y, w in second})


def chance_pairs(problem: Problem) -> list[Pair]:
    """Return the attainable pairs (probability of ever breaking a limit, value), over all histories."""
    known: dict[tuple[int, Hashable, Amounts, bool], list[Pair]] = {}

    def pairs(step: int, state: Hashable, spent: Amounts, over: bool) -> list[Pair]:
        rows = problem.rows(step, state) if step < problem.horizon else ()
        if not rows:
            gone = over or not problem.keeps_to_the_end(step, spent)
            return [(Fraction(int(gone)), Fraction(0))]
        key = step, state, spent, over
        if key not in known:
            found: set[Pair] = set()
            for row in rows:
                total = [(Fraction(0), Fraction(row.reward))]
                for p, after, then in problem.arrivals(spent, row):
                    later = pairs(step + 1, after, then, over or not problem.keeps(step, then))
                    total = _sum(total, later, Fraction(p))
                found |= set(total)
            known[key] = hull(found)
        return known[key]

    return pairs(0, problem.start, problem.nothing, False)


def spending_pairs(problem: Problem) -> list[Pair]:
    """Return the attainable pairs (expected total spent of the one resource, value), over all policies."""
    known: dict[tuple[int, Hashable], list[Pair]] = {}

    def pairs(step: int, state: Hashable) -> list[Pair]:
        rows = problem.rows(step, state) if step < problem.horizon else ()
        if not rows:
            return [(Fraction(0), Fraction(0))]
        if (step, state) not in known:
            found: set[Pair] = set()
            for row in rows:
                mean = sum((Fraction(p) * cost[0] for p, _, cost in row.outcomes), Fraction(0))
                total = [(mean, Fraction(row.reward))]
                for p, after, _ in row.outcomes:
                    total = _sum(total, pairs(step + 1, after), Fraction(p))
                found |= set(total)
            known[step, state] = hull(found)
        return known[step, state]

    return pairs(0, problem.start)
