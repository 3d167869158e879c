"""Tables for narrow consoles: where a table does not fit, each row is one line of headings and cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Column, Table


@dataclass(frozen=True)
class Fitting:
    """A table whose words are never cut; if the console is too narrow, its rows are printed as lines."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        columns = self.table.columns
        # each cell has a space on both sides, and there is a line between columns
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


def fit_widths(columns: list[Column], width: int) -> list[int] | None:
    """Return the widths of columns within a total `width` such that no word is cut; None if that is impossible.

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
    left = width - sum(widths)
    if left < 0:
        return None
    for i, most in enumerate(wanted):
        extra = min(left, most - widths[i])
        widths[i] += extra
        left -= extra
    return widths


def fitted(item: Any) -> RenderableType:
    """Return a renderable in which all tables are printed as lines where they do not fit.

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
    """Return a grid of labels and values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(Text(f"  {label}"), Text(value))
    return grid


def group(*parts: RenderableType | None) -> RenderableType:
    """Return parts one below the other, without those that are None, with tables that fit."""
    from rich.console import Group

    return Group(*(fitted(part) for part in parts if part is not None))
