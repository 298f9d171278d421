"""The programs of a lecture as a LaTeX file that compiles by itself, with pdflatex and amsmath alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.language.notation.parser import functions_of
from formulations.language.notation.printing import words_latex
from formulations.language.typeset import conditions_of, latex_name, size_of, symbols_of
from polyopt.report.programs import pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from formulations.language.statement import Row, Statement

__all__ = ["latex_file"]

_HEAD = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage[a4paper,margin=17mm]{geometry}
\usepackage{amsmath,amssymb}
\setlength{\parindent}{0pt}
\allowdisplaybreaks
\begin{document}
"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "—": "---", "–": "--", "−": "$-$",
}  # fmt: skip


def latex_file(title: str, programs: Iterable[Statement]) -> str:
    """A document with each program: its formulas, its letters, and what its multipliers say."""
    sections = "\n".join(_section(program) for program in programs)
    heading = rf"\section*{{{_text(title)}: the programs}}"
    return f"{_HEAD}\n{heading}\n\n{sections}\n\\end{{document}}\n"


def _section(program: Statement) -> str:
    verb = r"\min" if program.sense == "minimise" else r"\max"
    over = r",\,".join(latex_name(name) for name in program.variables)
    objective = rf"{verb}_{{{over}}} \quad {program.objective_latex}"
    lines = []
    for place, row in enumerate(program.rows):
        label = r"\text{s.t.}" if place == 0 else ""
        multiplier = "" if row.multiplier == "–" else rf" && [{latex_name(row.multiplier)}]"
        lines.append(rf"{label} \quad & {program.row_latex(row)}{multiplier}")
    lines += [rf"\quad & {condition}" for condition in conditions_of(program)]
    inner = " \\\\\n".join(lines)
    rows = f"\\begin{{align*}}\n{inner}\n\\end{{align*}}\n" if lines else ""
    letters = [_prose(symbol.latex) for symbol in symbols_of(program)]
    where = "Where " + "; ".join(letters) + ".\n\n" if letters else ""
    functions = functions_of(program.letters)
    items = "".join(_item(row, functions) for row in program.rows if row.multiplier != "–")
    prices = f"\\begin{{description}}\n{items}\\end{{description}}\n" if items else ""
    head = f"\\texttt{{{_text(program.name)}}}. {_text(program.source)}. {_text(size_of(program))}."
    return f"\\subsection*{{{_text(program.title)}}}\n{head}\n\\[\n{objective}\n\\]\n{rows}{where}{prices}"


def _item(row: Row, functions: Collection[str]) -> str:
    """Item on the meaning of a row's multiplier."""
    says = _prose(words_latex(row.says, functions))
    return f"\\item[${latex_name(row.multiplier)}$] {_text(row.name)}: {says}\n"


def _prose(latex: str) -> str:
    """A formula with words after it, as words with formulas in them, whose lines break."""
    return "".join(_text(part) if is_text else f"${part.strip()}$" for is_text, part in pieces(latex))


def _text(words: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in words)
