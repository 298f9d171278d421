"""Tables as columns and rows; drawn for a terminal here, and as HTML by `polyopt.report.frame`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from polyopt.base.text import visible

if TYPE_CHECKING:
    from rich.table import Table

R = TypeVar("R")
_MIN_WIDTH = 4  # least width of a column that is cut or wrapped, in letters


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column over rows of type R."""

    head: str  # heading
    cell: Callable[[R], str]  # row -> text of the row's cell; it may have several lines
    is_text: bool = False  # True to align the column to the left, as text; numbers are aligned to the right
    colour: Callable[[R], str] | None = None  # row -> colour of the cell: green, yellow, cyan, red or dim
    # Treatment of the column if the terminal is too narrow; at most one column of a table may set it
    overflow: Literal["", "cut", "wrap"] = ""


def terminal_table(
    columns: Sequence[Column[R]], rows: Sequence[R], width: int, *, title: str, caption: str = "",
    gap: int = 2, group: Callable[[R], Any] | None = None, is_group_named: bool = False,
) -> "Table":  # fmt: skip
    """Return a rich table without rules for a terminal of `width` columns.

    `gap` is the number of blanks between columns. `group` returns the group of a row. If `is_group_named`,
    the first column has the group's name and is printed in the first row of a group only; otherwise an empty
    line separates groups.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", title_style="bold",
        header_style="bold", box=None, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0),
    )  # fmt: skip
    cells = [[column.cell(row) for column in columns] for row in rows]
    widths = [
        max(len(line) for text in (column.head, *texts) for line in text.split("\n"))
        for column, *texts in zip(columns, *cells, strict=True)
    ]
    excess = max(0, sum(widths) + gap * len(widths) - width)
    for column, needed in zip(columns, widths, strict=True):
        wraps = column.overflow == "wrap"
        size: int | None = max(_MIN_WIDTH, needed - excess) if column.overflow else needed
        if excess and not any(column.overflow for column in columns):
            size = None  # rich shortens all columns
        table.add_column(
            column.head, justify="left" if column.is_text else "right", width=size, no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
        )  # fmt: skip
    for i, (row, texts) in enumerate(zip(rows, cells, strict=True)):
        begins_group = group is not None and i > 0 and group(row) != group(rows[i - 1])
        if begins_group and not is_group_named:
            table.add_row()
        if is_group_named and i > 0 and not begins_group:
            texts[0] = ""
        coloured = [
            text if column.colour is None else Text(visible(text), style=column.colour(row))
            for column, text in zip(columns, texts, strict=True)
        ]
        table.add_row(*coloured)
    return table
