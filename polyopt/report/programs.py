"""Programs on a page: one after the other with their mathematics, or all of them as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.language.typeset import conditions_of, latex_name, size_of, symbols_of
from polyopt.base.text import escape
from polyopt.report.frame import Contents, framed, head_cells, scrolling, table_row
from polyopt.report.mathml import mathml, prose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.catalogue import Entry
    from formulations.language.program import Program
    from formulations.language.statement import Row, Statement

__all__ = [
    "catalogue_table",
    "program_section",
    "programs_page",
]

_HEADINGS = ("row", "subject to", "multiplier", "what it means")
_CATALOGUE_COLUMNS = (
    ("name", "text"), ("paper", "text"), ("equation", "text"), ("class", "text"), ("variables", ""),
    ("constraints", ""), ("dual beside it", "text"),
)  # fmt: skip


def program_section(program: Statement) -> str:
    """A program's mathematics: objective, rows, and what each multiplier means."""
    verb = r"\min" if program.sense == "minimise" else r"\max"
    over = r",\, ".join(latex_name(name) for name in program.variables)
    objective = mathml(rf"{verb}_{{{over}}} \quad {program.objective_latex}", display=True)
    rows = "".join(
        f"<tr><td class='text'><code>{escape(row.name)}</code></td>"
        f"<td class='text'>{mathml(program.row_latex(row))}</td>"
        f"<td class='text'>{_multiplier(row)}</td>"
        f"<td class='text'>{escape(row.meaning)}</td></tr>"
        for row in program.rows
    )
    table = ""
    if program.rows:
        head = "".join(f"<th scope='col' class='text'>{heading}</th>" for heading in _HEADINGS)
        table = scrolling(head, rows, "prose rows")
    told = [*conditions_of(program), *(symbol.latex for symbol in symbols_of(program))]
    where = ""
    if told:
        items = "".join(f"<li>{prose(formula)}</li>" for formula in told)
        where = f"<div class='where'><p class='quiet'>where</p><ul>{items}</ul></div>"
    return (
        f"<div class='program'><p class='quiet'>{escape(program.title)} — {escape(program.source)}. "
        f"{escape(size_of(program))}.</p>"
        f"<div class='scroll' tabindex='0'>{objective}</div>{table}{where}</div>"
    )


def _multiplier(row: Row) -> str:
    """Its letter; a dash where it has none."""
    return "–" if row.multiplier == "–" else mathml(latex_name(row.multiplier))


def programs_page(programs: Sequence[Program]) -> str:
    """A page that shows some programs."""
    names = ", ".join(dict.fromkeys(program.name for program in programs))
    title = f"polyopt: {names}"
    if len(programs) == 1:
        return framed(title, f"<h1>{escape(names)}</h1>{program_section(programs[0])}")
    contents = Contents()
    sections = "".join(f"{contents.heading(2, p.name, escape(p.name))}{program_section(p)}" for p in programs)
    return framed(title, f"<h1>Programs</h1>{contents.nav()}{sections}")


def catalogue_table(entries: Sequence[Entry], contents: Contents) -> str:
    """The catalogue as an HTML table."""
    body, family = [], ""
    for entry in entries:
        cells = (
            entry.name, entry.paper, entry.equation, entry.program.kind, str(entry.n_variables),
            str(entry.n_constraints), entry.partner,
        )  # fmt: skip
        first = ""
        if entry.family != family:
            family = entry.family
            words = escape(family.replace("_", "-"))
            first = f" class='first' id='{contents.anchor(family, words)}'"
        body.append(table_row([escape(cell) for cell in cells], _CATALOGUE_COLUMNS, first))
    return scrolling(head_cells(_CATALOGUE_COLUMNS), "".join(body), "prose catalogue", sortable=True)
