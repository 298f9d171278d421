"""How a program is printed: as text for a terminal, as LaTeX and Markdown for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.notation.latex import GREEK
from formulations.language.symbols import symbols_of

if TYPE_CHECKING:
    import cvxpy as cp

    from formulations.language.statement import Statement


def _shape(variable: cp.Variable) -> str:
    """``R`` of a scalar, ``R^3`` of a vector, ``R^(2×3)`` of a matrix; ``{0, 1}^3``, ``Z^3`` of integers."""
    shape, domain = variable.shape, "R"
    if variable.boolean_idx or variable.integer_idx:
        domain = "{0, 1}" if variable.boolean_idx else "Z"
    if not shape:
        return domain
    size = "×".join(str(k) for k in shape)
    return f"{domain}^{size}" if len(shape) == 1 else f"{domain}^({size})"


def conditions_of(program: Statement) -> list[str]:
    """Which of a program's variables are binary or whole, each as LaTeX.

    Parameters
    ----------
    program : Statement
        The program.
    """
    found = []
    for name, variable in program.variables.items():
        if variable.boolean_idx or variable.integer_idx:
            size = r" \times ".join(str(k) for k in variable.shape)
            domain = r"\{0, 1\}" if variable.boolean_idx else r"\mathrm{Z}"
            found.append(rf"{latex_name(name)} \in {domain}^{{{size}}}")
    return found


def _number(parameter: cp.Parameter) -> str:
    """A parameter's value, or its range where it is a vector of different values."""
    if parameter.value is None:
        return "(not set)"
    low, high = float(np.min(parameter.value)), float(np.max(parameter.value))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def size_of(program: Statement) -> str:
    """Class and size of a program, such as ``QP: 44 variables, 160 constraint rows``."""
    variables = sum(variable.size for variable in program.variables.values())
    rows = sum(row.constraint.size for row in program.rows)
    return f"{program.kind}: {variables} variables, {rows} constraint rows"


def text_of(program: Statement) -> str:
    """The program as aligned lines of text."""
    over = ", ".join(f"{name} ∈ {_shape(variable)}" for name, variable in program.variables.items())
    name_width = max((len(row.name) for row in program.rows), default=0)
    text_width = max((len(row.text) for row in program.rows), default=0)
    lines = [
        f"{program.title}  —  {program.source}",
        "",
        f"{program.sense:<11} {program.objective_text}",
        f"{'over':<11} {over}",
    ]
    for i, row in enumerate(program.rows):
        label = "subject to" if i == 0 else ""
        line = f"{label:<11} {row.name:<{name_width}}   {row.text:<{text_width}}   [{row.multiplier}]"
        lines.append(line.removesuffix("[–]").rstrip())
    for i, symbol in enumerate(symbols_of(program)):
        lines.append(f"{'where' if i == 0 else '':<11} {symbol.text}")
    if program.parameters:
        values = ", ".join(f"{name} = {_number(p)}" for name, p in program.parameters.items())
        lines.append(f"{'with':<11} {values}")
    lines.append(f"{'size':<11} {size_of(program)}")
    if program.problem.is_mixed_integer():
        return "\n".join([*lines, "", "An integer program has no multipliers."])
    if not program.rows:
        return "\n".join([*lines, "", "Without constraints there are no multipliers."])
    lines += ["", "multipliers"]
    letter_width = max(len(row.multiplier) for row in program.rows)
    lines += [f"  {row.multiplier:<{letter_width}}   {row.meaning}" for row in program.rows]
    return "\n".join(lines)


def latex_of(program: Statement) -> str:
    """The program as a LaTeX display."""
    verb = r"\min" if program.sense == "minimise" else r"\max"
    over = ",\\,".join(latex_name(name) for name in program.variables)
    lines = [rf"{verb}_{{{over}}} \quad & {program.objective_latex} \\"]
    for i, row in enumerate(program.rows):
        label = r"\text{s.t.}" if i == 0 else ""
        multiplier = "" if row.multiplier == "–" else f" && [{latex_name(row.multiplier)}]"
        lines.append(rf"{label} \quad & {program.row_latex(row)}{multiplier} \\")
    lines += [rf" \quad & {condition} \\" for condition in conditions_of(program)]
    for i, symbol in enumerate(symbols_of(program)):
        label = r"\text{where}" if i == 0 else ""
        lines.append(rf"{label} \quad & {symbol.latex} \\")
    return "$$\\begin{aligned}\n" + "\n".join(lines) + "\n\\end{aligned}$$"


def markdown_of(program: Statement) -> str:
    """The program as Markdown: title, LaTeX display and the table of multipliers."""
    table = ["| row | multiplier | meaning |", "|---|---|---|"] if program.rows else []
    for row in program.rows:
        letter = "–" if row.multiplier == "–" else f"${latex_name(row.multiplier)}$"
        table.append(f"| {row.name} | {letter} | {row.meaning} |")
    head = f"**{program.title}** ({program.source}; {size_of(program)})"
    return "\n\n".join([head, latex_of(program), "\n".join(table)])


_MARKS = {"star": "*", "plus": "+", "minus": "-"}


def latex_name(name: str) -> str:
    """A variable's or multiplier's name as LaTeX; ``lam_star`` is the paper's lambda-star.

    Parameters
    ----------
    name : str
        A letter, one of the Greek letters spelt out, or a word, with what follows an underscore as its mark.
    """
    base, _, mark = name.partition("_")
    base = "lambda" if base == "lam" else base
    word = len(base) > 1 and base.isalpha()
    letter = "\\" + base if base in GREEK else rf"\text{{{base}}}" if word else base
    if not mark:
        return letter
    return (
        f"{letter}^{_MARKS[mark]}" if mark in _MARKS else rf"{letter}_{{\text{{{mark.replace('_', ' ')}}}}}"
    )
