"""`html_of`: what a notebook shows of a program, a solution, a certificate, a path or a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyopt.base.text import escape
from polyopt.report.frame import head_cells, part, scrolling, table_row
from polyopt.report.programs import program_section

if TYPE_CHECKING:
    from formulations.language.display import Summary, Table

__all__ = ["html_of"]

_MAX_ROWS = 400  # rows of a table: more make a notebook slow


def html_of(summary: Summary) -> str:
    """A summary as a part of a page, with its style, in the colours of the page that it comes into.

    Nothing in it runs, and nothing is loaded. Its tables fold.
    """
    # Not a <dl>: Jupyter makes the labels of one a fifth of the width, and breaks them letter by letter.
    facts = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in summary.facts
    )
    parts = [
        f"<style>{part('shown.css')}</style>",
        f"<p class='polyopt-title'>{escape(summary.title)}</p>",
        f"<table class='facts'><tbody>{facts}</tbody></table>" if facts else "",
        "" if summary.program is None else program_section(summary.program),
        *map(_table, summary.tables),
    ]
    return f"<div class='polyopt'>{''.join(parts)}</div>"


def _table(table: Table) -> str:
    is_text = [not all(_is_number(row[place]) for row in table.rows) for place in range(len(table.columns))]
    columns = [(name, "text" if text else "") for name, text in zip(table.columns, is_text, strict=True)]
    head = "".join(head_cells([column]) if column[0] else "<td></td>" for column in columns)
    body = "".join(table_row([escape(cell) for cell in row], columns) for row in table.rows[:_MAX_ROWS])
    left = len(table.rows) - _MAX_ROWS
    more = f"<p class='quiet'>and {left} more</p>" if left > 0 else ""
    opened = " open" if table.is_open else ""
    return (
        f"<details{opened}><summary>{escape(table.title)}</summary>"
        f"{scrolling(head, body, 'prose')}{more}</details>"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return cell == "–"
    return True
