"""Tables that stay readable where they do not fit: one line for each row, every cell with its heading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Column, Table


@dataclass(frozen=True)
class Fitting:
    """A table whose words are never cut: its rows as lines, where the console is too narrow for that."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        columns = self.table.columns
        # a blank on either side of each cell, and a line between any two
        widths = fit_widths(columns, options.max_width - 3 * len(columns) - 1)
        if widths is not None:
            for column, width in zip(columns, widths, strict=True):
                column.width = width
            yield self.table
            return
        if self.table.title:
            yield Text(str(self.table.title))
        headings = [str(column.header) for column in columns]
        for cells in zip(*(column.cells for column in columns), strict=True):
            pairs = [f"{heading} {cell}" for heading, cell in zip(headings, cells, strict=True) if str(cell)]
            yield Padding(Text(", ".join(pairs)), (0, 0, 0, 2))


def fit_widths(columns: list[Column], room: int) -> list[int] | None:
    """Return a width for each column, so that no word is cut; None if there is not enough room.

    Examples
    --------
    >>> from rich.table import Table
    >>> columns = Table("method", "worst spent").columns
    >>> fit_widths(columns, 30), fit_widths(columns, 13), fit_widths(columns, 10)
    ([6, 11], [6, 7], None)
    """
    texts = [[str(cell) for cell in (column.header, *column.cells)] for column in columns]
    wanted = [max(map(len, cells)) for cells in texts]
    widths = [max((len(word) for cell in cells for word in cell.split()), default=1) for cells in texts]
    left = room - sum(widths)
    if left < 0:
        return None
    for i, most in enumerate(wanted):
        extra = min(left, most - widths[i])
        widths[i] += extra
        left -= extra
    return widths


def fitted(item: Any) -> RenderableType:
    """Return something to print with all tables in it made to fit.

    Examples
    --------
    >>> from rich.console import Console
    >>> from rich.table import Table
    >>> table = Table("resource", "worst spent", "limit")
    >>> table.add_row("fuel", "29", "30")
    >>> Console(width=24, color_system=None).print(fitted(table))
      resource fuel, worst
      spent 29, limit 30
    """
    from rich.console import Group
    from rich.table import Table

    if hasattr(item, "__rich__"):
        item = item.__rich__()
    if isinstance(item, Group):
        return Group(*map(fitted, item.renderables))
    if isinstance(item, Table) and item.show_header:
        return Fitting(item)
    plain: RenderableType = item
    return plain


def facts_grid(rows: Iterable[tuple[str, str]]) -> Table:
    """Return labels and what they stand for, side by side."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(Text(f"  {label}"), Text(value))
    return grid


def group(*parts: RenderableType | None) -> RenderableType:
    """Return parts one below the other, those that are None left out, with tables that fit."""
    from rich.console import Group

    return Group(*(fitted(part) for part in parts if part is not None))
