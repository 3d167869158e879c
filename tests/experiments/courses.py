"""Frontiers by brute force, in fractions, without code of the package."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache

from solvent.model.cmdp import CMDP

#: Row, probability, next state and cost of each outcome.
Outcomes = list[tuple[Fraction, int, Fraction]]


def outcomes_of(model: CMDP, row: int) -> Outcomes:
    places = range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))
    return [(Fraction(float(model.probability[o])), int(model.next_state[o]), model.cost_of(0, o)) for o in places]


def exact_points(model: CMDP) -> list[tuple[Fraction, Fraction]]:
    """Return the budgets at which the optimal value rises and its values, by solving for every possible amount."""

    @cache
    def value(step: int, state: int, left: Fraction) -> Fraction | None:
        if step == model.horizon:
            return Fraction(0)
        best = None
        for row in model.rows(step, state):
            total: Fraction | None = Fraction(float(model.row_reward[row]))
            for chance, after, cost in outcomes_of(model, row):
                later = value(step + 1, after, left - cost) if left >= cost else None
                if later is None:
                    total = None
                    break
                total += chance * later
            if total is not None and (best is None or total > best):
                best = total
        return best

    spent = {(model.start_index, Fraction(0))}
    amounts = {Fraction(0)}
    for step in range(model.horizon):
        spent = {
            (after, before + cost)
            for state, before in spent
            for row in model.rows(step, state)
            for _, after, cost in outcomes_of(model, row)
        }
        amounts |= {amount for _, amount in spent}
    found: list[tuple[Fraction, Fraction]] = []
    for amount in sorted(amounts):
        worth = value(0, model.start_index, amount)
        if worth is not None and (not found or worth > found[-1][1]):
            found.append((amount, worth))
    return found


def pareto(pairs: Iterable[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return the pairs (cost, reward) that no other dominates, each once."""
    kept: list[tuple[Fraction, Fraction]] = []
    for cost, reward in sorted(set(pairs), key=lambda pair: (pair[0], -pair[1])):
        if not kept or reward > kept[-1][1]:
            kept.append((cost, reward))
    return kept


def courses(model: CMDP) -> Iterator[tuple[frozenset[tuple[int, int]], Fraction, Fraction]]:
    """Yield each path of a deterministic model: its (step, row) pairs, cost and reward."""

    def walk(step: int, state: int) -> Iterator[tuple[list[tuple[int, int]], Fraction, Fraction]]:
        if step == model.horizon:
            yield [], Fraction(0), Fraction(0)
            return
        for row in model.rows(step, state):
            ((_, after, cost),) = outcomes_of(model, row)
            for rows, more, worth in walk(step + 1, after):
                yield [(step, int(row)), *rows], cost + more, Fraction(float(model.row_reward[row])) + worth

    for rows, cost, reward in walk(0, model.start_index):
        yield frozenset(rows), cost, reward


def subsets(items: list[tuple[Fraction, Fraction]]) -> Iterator[tuple[tuple[int, ...], Fraction, Fraction]]:
    """Yield each subset of items (cost, reward) with its sums."""
    for size in range(len(items) + 1):
        for chosen in itertools.combinations(range(len(items)), size):
            yield (
                chosen,
                sum((items[i][0] for i in chosen), Fraction(0)),
                sum((items[i][1] for i in chosen), Fraction(0)),
            )
