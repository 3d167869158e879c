"""Tables that stay readable where they do not fit: one line for each row, every cell with its heading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

#: Wider than any terminal: what a table would like to have is measured as if there were no end to it.
_ENDLESS = 100_000


@dataclass(frozen=True)
class Fitting:
    """A table, or its rows as lines where the console is too narrow for it."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        wanted = console.measure(self.table, options=options.update(max_width=_ENDLESS)).maximum
        if wanted <= options.max_width:
            yield self.table
            return
        if self.table.title:
            yield Text(str(self.table.title))
        headings = [str(column.header) for column in self.table.columns]
        for cells in zip(*(column.cells for column in self.table.columns), strict=True):
            pairs = [f"{heading} {cell}" for heading, cell in zip(headings, cells, strict=True) if str(cell)]
            yield Padding(Text(", ".join(pairs)), (0, 0, 0, 2))


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
