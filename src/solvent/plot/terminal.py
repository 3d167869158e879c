"""Plots and tables as text, for the terminal."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvent.core.exact import exact
from solvent.errors import ModelError, quote
from solvent.model.amounts import short_amount
from solvent.plot.labels import axis_text, least_text, short_name

if TYPE_CHECKING:
    from rich.table import Table

    from solvent.solvers.curve import Curve

#: Bit of each dot of a braille character, shape (4, 2), and the first braille code point.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BRAILLE = 0x2800
_LEAST_WIDTH, _LEAST_HEIGHT = 30, 4
_ROWS_OF_TABLE = 9


def terminal_plot(
    x: Sequence[float],
    y: Sequence[float],
    *,
    width: int = 72,
    height: int = 14,
    title: str = "",
    marks: Mapping[str, float] | None = None,
    ascii: bool = False,
) -> str:
    """Return a plot of a step function as text.

    Parameters
    ----------
    x : sequence of float, length N
        Nondecreasing; `y[i]` holds from `x[i]` to `x[i + 1]`.
    y : sequence of float, length N
        Values; a value that is not finite leaves a gap.
    width : int
        Total width, in characters.
    height : int
        Height of the plotting area, in lines.
    title : str
        Title line.
    marks : mapping of str to float, optional
        Positions to mark on the horizontal axis, by label.
    ascii : bool
        Use ASCII characters only, at a lower resolution.

    Raises
    ------
    ModelError
        If no value is finite, the lengths differ, `x` decreases, or the plot is too small.

    Examples
    --------
    >>> print(terminal_plot([0, 1, 4], [0, 2, 2], width=30, height=4, marks={"least": 1}, ascii=True))
      2 |      *******************
        |      *
        |      *
      0 |*******
        +------^------------------
         0           2           4
         ^ least 1
    """
    xs, ys = _read_line(x, y)
    _check_size(width, height)
    seen = np.isfinite(ys)
    low, high = float(ys[seen].min()), float(ys[seen].max())
    if low == high:
        low, high = low - 1, high + 1
    labels = {0: _label(high), height - 1: _label(low)}
    if height >= 7 and height % 2:
        labels[height // 2] = _label((low + high) / 2)
    gutter = max(3, *map(len, labels.values())) + 1
    columns = width - gutter - 1
    places = [(label, float(at)) for label, at in (marks or {}).items()]
    ends = _ends(xs, [at for _, at in places])
    fine = (1, 1) if ascii else (4, 2)
    dots = _rasterize(xs, ys, ends, (low, high), (height * fine[0], columns * fine[1]))
    field = _letters(dots, ascii)
    at_columns = {label: _place(at, ends, columns) for label, at in places}
    for column in at_columns.values():
        field[:, column] = np.where(field[:, column] == " ", ":" if ascii else "┊", field[:, column])
    side, corner, floor, pointer = ("|", "+", "-", "^") if ascii else ("│", "└", "─", "▲")
    lines = [short_name(title, width)] if title else []
    for row in range(height):
        lines.append(f"{labels.get(row, ''):>{gutter - 1}} {side}" + "".join(field[row]))
    axis = [floor] * columns
    for column in at_columns.values():
        axis[column] = pointer
    lines.append(" " * gutter + corner + "".join(axis))
    lines.append(" " * (gutter + 1) + _axis_labels(ends, columns))
    lines += [f"{' ' * (gutter + 1)}{pointer} {short_name(label, columns - 12)} {_label(at)}" for label, at in places]
    return "\n".join(line.rstrip() for line in lines)


def terminal_frontier(
    curve: Curve,
    *,
    budget: Any = None,
    width: int = 72,
    height: int = 13,
    ascii: bool = False,
) -> str:
    """Return a plot of a frontier as text: the optimal value against the budget, with the least budget marked.

    Parameters
    ----------
    curve : Curve
    budget : number, optional
        Another budget to mark.
    width : int
        Total width, in characters.
    height : int
        Height of the plotting area, in lines.
    ascii : bool
        Use ASCII characters only, at a lower resolution.

    Examples
    --------
    >>> import solvent
    >>> curve = solvent.frontier(solvent.instances.knapsack([60, 100, 120], [10, 20, 30]))
    >>> print(terminal_frontier(curve, width=44, height=5, ascii=True))
    optimal value against budget of weight
    280 |:                                  ****
        |:                      *************
        |:                 ******
        |:     *************
      0 |*******
        +^--------------------------------------
         0                32.5                65
         ^ least budget 0
    """
    if curve.least_budget is None:
        return f"no {axis_text(curve, curve.resource)} up to {short_amount(curve.max_budget)} is feasible"
    first, end = float(curve.budgets[0]), float(max(curve.max_budget, curve.budgets[-1]))
    # if the last level extends to infinity, show a part of it
    x = [*map(float, curve.budgets), end + (end - first) / 12 if curve.flat_beyond else end]
    marks = {least_text(curve): float(curve.least_budget)}
    if budget is not None:
        curve.value(budget)  # raises an error for budgets beyond the curve
        marks["budget" if curve.vary == "budget" else "remaining"] = float(exact(budget, "budget"))
    title = f"optimal value against {axis_text(curve, curve.resource)}"
    return terminal_plot(
        x, [*curve.values.tolist(), float(curve.values[-1])], width=width, height=height, title=title, marks=marks,
        ascii=ascii,
    )  # fmt: skip


def frontier_table(curve: Curve, budgets: Sequence[Any] | None = None) -> Table:
    """Return a table of budgets, optimal values, and the next budget at which the value increases.

    Parameters
    ----------
    curve : Curve
    budgets : sequence of numbers, optional
        Default: evenly spaced ones among the budgets at which the value increases.

    Examples
    --------
    >>> import solvent
    >>> from rich.console import Console
    >>> curve = solvent.frontier(solvent.instances.knapsack([60, 100], [10, 20]))
    >>> Console(width=60, color_system=None).print(frontier_table(curve, [5, 10]))
    ┏━━━━━━━━┳━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┓
    ┃ budget ┃ optimal value ┃ next increase at ┃ increase ┃
    ┡━━━━━━━━╇━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━┩
    │      5 │             0 │               10 │       60 │
    │     10 │            60 │               20 │       40 │
    └────────┴───────────────┴──────────────────┴──────────┘
    """
    from rich.table import Table

    table = Table("budget" if curve.vary == "budget" else "remaining", "optimal value", "next increase at", "increase")
    for column in table.columns:
        column.justify = "right"
    if budgets is None:
        count = min(_ROWS_OF_TABLE, len(curve))
        chosen = np.unique(np.linspace(0, max(len(curve) - 1, 0), count).round().astype(int))
        budgets = [curve.budgets[i] for i in chosen.tolist()]
    for given in budgets:
        budget, value = exact(given, "budget"), curve.value(given)
        later = bisect.bisect_right(curve.budgets, budget)
        rises = later < len(curve)
        rise = short_amount(curve.budgets[later]) if rises else "-"
        adds = f"{curve.values[later] - value:.6g}" if rises and math.isfinite(value) else "-"
        table.add_row(short_amount(budget), f"{value:.6g}" if math.isfinite(value) else "infeasible", rise, adds)
    return table


def _read_line(x: Sequence[float], y: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    xs, ys = np.array(x, np.float64), np.array(y, np.float64)
    if xs.ndim != 1 or xs.shape != ys.shape:
        raise ModelError("terminal_plot", "x and y of the same length", f"shapes {xs.shape} and {ys.shape}")
    if not np.isfinite(ys).any():
        raise ModelError("terminal_plot", "at least one finite y", quote(ys.tolist()))
    if not np.isfinite(xs).all() or (np.diff(xs) < 0).any():
        raise ModelError("terminal_plot", "finite x that never decrease", quote(xs.tolist()))
    return xs, ys


def _check_size(width: int, height: int) -> None:
    for name, size, least in (("width", width, _LEAST_WIDTH), ("height", height, _LEAST_HEIGHT)):
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ModelError(name, f"an integer of at least {least}", quote(size))


def _label(value: float) -> str:
    return f"{value:.4g}"


def _ends(xs: NDArray[np.float64], marks: list[float]) -> tuple[float, float]:
    left, right = min([float(xs[0]), *marks]), max([float(xs[-1]), *marks])
    return (left - 1, right + 1) if left == right else (left, right)


def _place(value: float, ends: tuple[float, float], count: int) -> int:
    return min(count - 1, max(0, round((value - ends[0]) / (ends[1] - ends[0]) * (count - 1))))


def _rasterize(
    xs: NDArray[np.float64],
    ys: NDArray[np.float64],
    x_ends: tuple[float, float],
    y_ends: tuple[float, float],
    shape: tuple[int, int],
) -> NDArray[np.bool_]:
    """Return the dots of a step function, top row first: along each step, then up or down to the next."""
    dots = np.zeros(shape, bool)
    rows, columns = shape
    above = None
    for i, (x, y) in enumerate(zip(xs.tolist(), ys.tolist(), strict=True)):
        if not math.isfinite(y):
            above = None
            continue
        row = rows - 1 - _place(y, y_ends, rows)
        begin = _place(x, x_ends, columns)
        end = _place(float(xs[min(i + 1, len(xs) - 1)]), x_ends, columns)
        dots[row, begin : end + 1] = True
        if above is not None:
            dots[min(row, above) : max(row, above) + 1, begin] = True
        above = row
    return dots


def _letters(dots: NDArray[np.bool_], ascii: bool) -> NDArray[Any]:
    if ascii:
        return np.where(dots, "*", " ").astype(object)
    rows, columns = dots.shape[0] // 4, dots.shape[1] // 2
    codes = (dots.reshape(rows, 4, columns, 2) * _DOTS[None, :, None, :]).sum((1, 3))
    letters = np.array([chr(_BRAILLE + code) if code else " " for code in codes.ravel().tolist()], object)
    return letters.reshape(rows, columns)


def _axis_labels(ends: tuple[float, float], columns: int) -> str:
    left, middle, right = (_label(end) for end in (ends[0], (ends[0] + ends[1]) / 2, ends[1]))
    line = list(left.ljust(columns))
    line[columns - len(right) :] = right
    begin = (columns - len(middle)) // 2
    if len(left) < begin and begin + len(middle) < columns - len(right):
        line[begin : begin + len(middle)] = middle
    return "".join(line)
