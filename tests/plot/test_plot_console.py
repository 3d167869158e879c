"""Pictures made of letters, to the letter."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

import solvent
from solvent import BudgetError, ModelError, instances, plot


def test_a_frontier_in_braille():
    curve = solvent.frontier(instances.knapsack([60, 100, 120], [10, 20, 30]))
    text = plot.terminal_frontier(curve, width=48, height=8, budget=40)
    assert text == GOLDEN


GOLDEN = """\
optimal value against budget of weight
280 │┊                         ┊            ⡏⠉⠉⠉
    │┊                         ┊     ⢀⣀⣀⣀⣀⣀⣀⡇
    │┊                         ⣀⣀⣀⣀⣀⣀⣸
    │┊                  ⢰⠒⠒⠒⠒⠒⠒⠃
    │┊                  ⢸      ┊
    │┊            ⡏⠉⠉⠉⠉⠉⠉      ┊
    │┊     ⢸⠉⠉⠉⠉⠉⠉⠁            ┊
  0 │⣀⣀⣀⣀⣀⣀⣸                   ┊
    └▲─────────────────────────▲────────────────
     0                  32.5                  65
     ▲ least budget 0
     ▲ budget 40"""


def test_plain_letters_only():
    text = plot.terminal_plot([0, 2, 5], [1, 4, 4], width=40, height=7, title="title", marks={"here": 2}, ascii=True)
    assert text.isascii()
    assert text == ASCII


ASCII = """\
title
  4 |              *********************
    |              *
    |              *
2.5 |              *
    |              *
    |              *
  1 |***************
    +--------------^--------------------
     0               2.5               5
     ^ here 2"""


def test_every_line_fits_the_width():
    curve = solvent.frontier(instances.fuel_grid(4), max_budget=14)
    for width in (30, 57, 100):
        for plain in (True, False):
            text = plot.terminal_frontier(curve, width=width, height=9, ascii=plain, budget=3)
            assert max(map(len, text.splitlines())) <= width
            assert len(text.splitlines()) == 9 + 5


def test_gaps_where_there_is_no_value():
    text = plot.terminal_plot([0, 1, 2, 3], [-math.inf, 5, -math.inf, 7], width=30, height=4, ascii=True)
    lines = [line.partition("|")[2] for line in text.splitlines()[:4]]
    assert lines == [" " * 24 + "*", "", "", " " * 8 + "*" * 9]


def test_a_level_line_is_seen():
    assert "*" in plot.terminal_plot([0, 1], [3, 3], width=30, height=5, ascii=True)
    assert "*" in plot.terminal_plot([2], [3], width=30, height=5, ascii=True)


def test_no_feasible_budget_is_said_in_words():
    b = solvent.CMDP.builder(horizon=1, start=0, resources=["fuel"])
    b.add(0, "go", outcomes=[(1, 0, 5)])
    curve = solvent.frontier(b.build(), max_budget=3)
    assert plot.terminal_frontier(curve) == "no budget of fuel up to 3 is feasible"
    assert plot.frontier_table(curve).row_count == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.terminal_plot([0], [1, 2]), "terminal_plot: expected x and y of the same length, found shapes"),
        (lambda: plot.terminal_plot([0], [math.nan]), "terminal_plot: expected at least one finite y, found"),
        (lambda: plot.terminal_plot([], []), "terminal_plot: expected at least one finite y, found"),
        (lambda: plot.terminal_plot([1, 0], [1, 2]), "terminal_plot: expected finite x that never decrease, found"),
        (lambda: plot.terminal_plot([0], [1], width=10), "width: expected an integer of at least 30, found 10"),
        (lambda: plot.terminal_plot([0], [1], height=2.5), "height: expected an integer of at least 4, found 2.5"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ModelError, match=message):
        call()


def test_a_budget_beyond_the_curve_is_refused():
    curve = solvent.frontier(instances.knapsack([1, 1], [2, 2]), max_budget=2)
    with pytest.raises(BudgetError, match="expected at most 2, found 3"):
        plot.terminal_frontier(curve, budget=3)


def rows(table):
    return list(zip(*(column.cells for column in table.columns), strict=True))


def test_the_table_says_where_the_value_rises_next():
    curve = solvent.frontier(instances.knapsack([60, 100], [10, 20]))
    assert rows(plot.frontier_table(curve, [-1, 0, 15, "30"])) == [
        ("-1", "infeasible", "0", "-"),
        ("0", "0", "10", "60"),
        ("15", "60", "20", "40"),
        ("30", "160", "-", "-"),
    ]


def test_the_table_chooses_some_of_the_rises():
    curve = solvent.frontier(instances.paper(12, seed=3))
    table = plot.frontier_table(curve)
    assert table.row_count == 9
    assert rows(table)[0][0] == str(curve.least_budget)
    assert rows(table)[-1][2:] == ("-", "-")
    Console(width=80).print(table)
