"""Programs and formulas in HTML: sections of a page, and summaries for a notebook."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter

from math_core import LatexError, LatexToMathML

from formulations.language.display import Summary, Table
from formulations.language.program import Program
from formulations.language.statement import Statement
from formulations.language.typeset import domains_latex, latex_name, printed_symbols, size_of
from polyopt.base.table import Column
from polyopt.base.text import escape
from polyopt.report.frame import Contents, framed, part, rows_table, scrolling

_OPENING = '<math display="block">'
_TEXT_COMMAND = r"\text{"
_FORMULA_AND_POINT = re.compile(r"(<math displaystyle(?:(?!</math>).)*</math>)([.,;:)!?]+)", re.S)


@cache
def _converter() -> LatexToMathML:
    return LatexToMathML(fancy_error=False)


def mathml(latex: str, *, display: bool = False) -> str:
    """Convert a formula to a ``<math>`` element; a ValueError names an unknown command or an open brace."""
    try:
        element = _converter().convert_with_local_state(latex, displaystyle=True)
    except LatexError as error:
        offset, _, message = str(error).partition(": ")
        where = f"at character {int(offset) + 1} of the formula {latex}"
        raise ValueError(f"{message.rstrip('.')}, {where}") from None
    # Formulas are also read as XML, which does not have the names of HTML.
    body = element.removeprefix(_OPENING).replace("&ApplyFunction;", "\u2061")
    block = " display='block'" if display else ""
    return f"<math{block} displaystyle='true' alttext='{escape(latex, quote=True)}'>{body}"


def keep_punctuation(html: str) -> str:
    """Return a page in which no line breaks between a formula and the punctuation after it.

    A browser may break a line on either side of a formula, as of a picture.
    """
    return _FORMULA_AND_POINT.sub(r"<span style='white-space:nowrap'>\1\2</span>", html)


def prose(latex: str) -> str:
    r"""Convert a formula with words, such as ``C_i\text{: the price of sample }i``, to a line that breaks.

    Words within braces or scripts stay in their formula.
    """
    return "".join(escape(part, quote=False) if is_text else mathml(part) for is_text, part in pieces(latex))


def pieces(latex: str) -> Iterator[tuple[bool, str]]:
    """Yield the words of a formula (True) and the formulas between them (False), in their order."""
    formula, i, depth = "", 0, 0
    while i < len(latex):
        if depth == 0 and latex.startswith(_TEXT_COMMAND, i) and not formula.endswith(("_", "^")):
            end = latex.find("}", i)
            if formula.strip():
                yield False, formula
            yield True, latex[i + len(_TEXT_COMMAND) : end]
            formula, i = "", end + 1
            continue
        step = 2 if latex[i] == "\\" else 1
        depth += {"{": 1, "}": -1}.get(latex[i], 0)
        formula, i = formula + latex[i : i + step], i + step
    if formula.strip():
        yield False, formula


_HEADINGS = ("row", "subject to", "multiplier", "what it means")


def objective_latex(program: Statement) -> str:
    """Return a program's objective with its sense and its variables."""
    verb = r"\min" if program.sense == "minimise" else r"\max"
    over = r",\, ".join(latex_name(name) for name in program.variables)
    return rf"{verb}_{{{over}}} \quad {program.objective_latex}"


def program_section(program: Statement) -> str:
    """Return a program's mathematics: objective, rows, and what each multiplier means."""
    objective = mathml(objective_latex(program), display=True)
    rows = "".join(
        f"<tr><td class='text'><code>{escape(row.name)}</code></td>"
        f"<td class='text'>{mathml(program.row_latex(row))}</td>"
        f"<td class='text'>{'–' if row.multiplier == '–' else mathml(latex_name(row.multiplier))}</td>"
        f"<td class='text'>{escape(row.meaning)}</td></tr>"
        for row in program.rows
    )
    table = ""
    if program.rows:
        head = "".join(f"<th scope='col' class='text'>{heading}</th>" for heading in _HEADINGS)
        table = scrolling(head, rows, "prose rows")
    formulas = [*domains_latex(program), *(symbol.latex for symbol in printed_symbols(program))]
    where = ""
    if formulas:
        items = "".join(f"<li>{prose(formula)}</li>" for formula in formulas)
        where = f"<div class='where'><p class='quiet'>where</p><ul>{items}</ul></div>"
    return (
        f"<div class='program'><p class='quiet'>{escape(program.title)} — {escape(program.source)}. "
        f"{escape(size_of(program))}.</p>"
        f"<div class='scroll' tabindex='0'>{objective}</div>{table}{where}</div>"
    )


def programs_page(programs: Sequence[Program]) -> str:
    """Return a page that shows some programs."""
    names = ", ".join(dict.fromkeys(program.name for program in programs))
    title = f"polyopt: {names}"
    if len(programs) == 1:
        return framed(title, f"<h1>{escape(names)}</h1>{program_section(programs[0])}")
    contents = Contents()
    sections = "".join(f"{contents.heading(2, p.name, escape(p.name))}{program_section(p)}" for p in programs)
    return framed(title, f"<h1>Programs</h1>{contents.nav()}{sections}")


_MAX_ROWS = 400  # rows of a table in a notebook, which more make slow


def html_of(summary: Summary) -> str:
    """Return a summary as a part of a notebook, with its style and tables to unfold; it loads nothing."""
    # Not a <dl>: Jupyter gives its labels a fifth of the width, and breaks them letter by letter.
    facts = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in summary.facts
    )
    parts = [
        f"<style>{part('shown.css')}</style>",
        f"<p class='polyopt-title'>{escape(summary.title)}</p>",
        f"<table class='facts'><tbody>{facts}</tbody></table>" if facts else "",
        "" if summary.program is None else program_section(summary.program),
        *map(_folding_table, summary.tables),
    ]
    return f"<div class='polyopt'>{''.join(parts)}</div>"


def _folding_table(table: Table) -> str:
    columns: list[Column[tuple[str, ...]]] = [
        Column(head, itemgetter(i), is_text=not all(_is_number(row[i]) for row in table.rows))
        for i, head in enumerate(table.columns)
    ]
    n_hidden = len(table.rows) - _MAX_ROWS
    more = f"<p class='quiet'>and {n_hidden} more</p>" if n_hidden > 0 else ""
    return (
        f"<details{' open' if table.is_open else ''}><summary>{escape(table.title)}</summary>"
        f"{rows_table(columns, table.rows[:_MAX_ROWS], 'prose')}{more}</details>"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return cell == "–"
    return True
