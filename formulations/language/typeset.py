"""Printing of a program: as text for a terminal, as LaTeX and Markdown for a notebook.

A family explains its letters in a mapping beside its programs. It has an entry for each letter that is
neither a variable nor an index: the letter as printed, and a phrase with its formulas between ``$``; or a
relation, and a phrase if needed::

    LETTERS = {
        "μ": "= (1/n) Σᵢ xᵢ",
        "B": "≥ 0: the bound on the outputs $fᵢ = w·xᵢ + b$",
        "Cᵢ": "the cost of sample $i$'s slack",
    }

An entry that begins with ``=`` is a definition, which gives the letter its value unless a number is given for
it. Only the letters in a program's formulas are printed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cvxpy as cp
import numpy as np

from formulations.language.notation.parser import (
    GREEK,
    INDICES,
    functions_of,
    read_definition,
    read_formula,
    read_row,
)
from formulations.language.notation.printing import (
    formulas_in,
    latex_of_claims,
    latex_of_expression,
    latex_of_letter,
    plain,
    words_latex,
)
from formulations.language.notation.tree import Call, Definition, Expression, Letter, nodes
from formulations.language.statement import Statement

_SIGNS = ("=", "≤", "≥", "<", ">")
_KNOWN = frozenset({*INDICES, "I", "exp", "ln", "max", "min", "sqrt", "tr"})
_TEXT_MARKS = {"star": "*", "plus": "⁺", "minus": "⁻"}


@dataclass(frozen=True)
class Symbol:
    """A letter and its meaning."""

    names: tuple[str, ...]  # the letters explained, without their indices
    # text, latex: the explanation for a terminal and for a page
    text: str
    latex: str
    uses: frozenset[str]  # letters in the explanation
    definition: Definition | None  # for an explanation by a formula


def symbols_of(program: Statement) -> list[Symbol]:
    """Return the letters of a program that need an explanation, in the order of its mapping."""
    symbols = symbols_in(program.letters)
    used = {*_used(program), *INDICES}
    while True:
        needed = {name for symbol in symbols if used.intersection(symbol.names) for name in symbol.uses}
        if needed <= used:
            return [symbol for symbol in symbols if used.intersection(symbol.names)]
        used |= needed


def unexplained(program: Statement) -> set[str]:
    """Return the letters of a program that are neither its variables, nor its multipliers, nor explained."""
    symbols = symbols_of(program)
    used = set(_used(program)).union(*(symbol.uses for symbol in symbols))
    known = {name for symbol in symbols for name in symbol.names} | _named(program)
    for row in program.rows:  # a meaning may define a letter: "with v = (w, b, −1)"
        for tree in formulas_in(row.says, functions_of(program.letters)):
            known |= {claim.relation.left.name for claim in _equations(tree)}
    return used - known


def symbols_in(letters: Mapping[str, str]) -> list[Symbol]:
    """Read the entries of a mapping of letters."""
    functions = functions_of(letters)
    return [_symbol(key, said, functions) for key, said in letters.items()]


def letters_in(tree: object) -> set[str]:
    """Return the letters and functions in a tree that need an explanation."""
    return {node.name for node in nodes(tree) if isinstance(node, Letter | Call)} - _KNOWN


def printed_name(name: str) -> str:
    """Return the letter of a variable: ``lam_star`` is printed as λ*."""
    base, _, mark = name.partition("_")
    return GREEK.get("lambda" if base == "lam" else base, base) + _TEXT_MARKS.get(
        mark, f"_{mark}" if mark else ""
    )


def _named(program: Statement) -> set[str]:
    """Return the letters of a program's variables and multipliers, which need no entry."""
    return {printed_name(name) for name in (*program.variables, *(row.multiplier for row in program.rows))}


def _equations(tree: object) -> list[Any]:
    """Return the claims of a formula that define a letter."""
    claims = tree if isinstance(tree, tuple) else ()
    return [c for c in claims if c.relation.sign == "=" and isinstance(c.relation.left, Letter)]


def _used(program: Statement) -> Iterable[str]:
    """Return the letters of a program's objective, rows and meanings of multipliers."""
    functions = functions_of(program.letters)
    trees: list[object] = [program.objective_tree]
    for row in program.rows:
        trees += [program.row_tree(row), *formulas_in(row.says, functions)]
    return set().union(*(letters_in(tree) for tree in trees)) - _named(program)


@lru_cache(2048)  # every program of a family has its family's letters
def _symbol(key: str, said: str, functions: frozenset[str]) -> Symbol:
    if not said.startswith(_SIGNS):
        heads = [read_formula(part, functions) for part in key.split(", ")]
        names = tuple(head.name for head in heads if isinstance(head, Letter))
        latex = r",\, ".join(latex_of_letter(head) for head in heads if isinstance(head, Letter))
        return Symbol(
            names, f"{key}: {plain(said)}", rf"{latex} {words_latex(': ' + said, functions)}",
            _uses(said, functions) - {*names}, None,
        )  # fmt: skip
    formula, colon, words = said.partition(": ")
    text, behind = f"{key} {formula}", colon + words
    latex_behind = f" {words_latex(behind, functions)}" if behind else ""
    if not said.startswith("="):
        tree = read_row(text, functions)
        head = tree[0].relation.left
        name = head.name if isinstance(head, Letter) else ""
        uses = frozenset(letters_in(tree) | _uses(behind, functions)) - {name}
        return Symbol((name,), text + plain(behind), latex_of_claims(tree) + latex_behind, uses, None)
    definition = read_definition(text, functions)
    used = letters_in(definition.body) | _uses(behind, functions)
    return Symbol(
        (definition.head.name,), text + plain(behind), _latex_of_definition(definition) + latex_behind,
        frozenset(used - {definition.head.name, definition.parameter}), definition,
    )  # fmt: skip


def _uses(said: str, functions: frozenset[str]) -> frozenset[str]:
    return frozenset(name for tree in formulas_in(said, functions) for name in letters_in(tree))


def _latex_of_definition(definition: Definition) -> str:
    head: Expression = definition.head
    if definition.parameter:
        head = Call(definition.head.name, (Letter(definition.parameter),))
    return f"{latex_of_expression(head)} = {latex_of_expression(definition.body)}"


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
    """Return the domains of a program's binary and integer variables, as LaTeX."""
    domains = []
    for name, variable in program.variables.items():
        if variable.boolean_idx or variable.integer_idx:
            size = r" \times ".join(str(k) for k in variable.shape)
            domain = r"\{0, 1\}" if variable.boolean_idx else r"\mathrm{Z}"
            domains.append(rf"{latex_name(name)} \in {domain}^{{{size}}}")
    return domains


def _number(parameter: cp.Parameter) -> str:
    """Return a parameter's value, or its range if it is a vector of different values."""
    if parameter.value is None:
        return "(not set)"
    low, high = float(np.min(parameter.value)), float(np.max(parameter.value))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def size_of(program: Statement) -> str:
    """Class and size of a program, such as ``QP: 44 variables, 160 constraint rows``."""
    variables = sum(variable.size for variable in program.variables.values())
    rows = sum(row.constraint.size for row in program.rows)
    return f"{program.kind}: {variables} variables, {rows} constraint rows"


def _statement(program: Statement) -> list[str]:
    """Return the objective, the variables, the rows and the letters, each on a line."""
    over = ", ".join(f"{name} ∈ {_shape(variable)}" for name, variable in program.variables.items())
    name_width = max((len(row.name) for row in program.rows), default=0)
    text_width = max((len(row.text) for row in program.rows), default=0)
    lines = [f"{program.sense:<11} {program.objective_text}", f"{'over':<11} {over}"]
    for i, row in enumerate(program.rows):
        label = "subject to" if i == 0 else ""
        line = f"{label:<11} {row.name:<{name_width}}   {row.text:<{text_width}}   [{row.multiplier}]"
        lines.append(line.removesuffix("[–]").rstrip())
    for i, symbol in enumerate(symbols_of(program)):
        lines.append(f"{'where' if i == 0 else '':<11} {symbol.text}")
    return lines


def statement_of(program: Statement) -> str:
    """Return the program under its name, for the page of its family."""
    head = f"{program.name}: {program.title}", f"{'source':<11} {program.source}"
    return "\n     ".join([*head, *_statement(program)])


def text_of(program: Statement) -> str:
    """Return the program as aligned lines of text."""
    lines = [f"{program.title}  —  {program.source}", "", *_statement(program)]
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
    """Return the program as a LaTeX display."""
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
    """Return the program as Markdown: title, LaTeX display and the table of multipliers."""
    table = ["| row | multiplier | meaning |", "|---|---|---|"] if program.rows else []
    for row in program.rows:
        letter = "–" if row.multiplier == "–" else f"${latex_name(row.multiplier)}$"
        table.append(f"| {row.name} | {letter} | {row.meaning} |")
    head = f"**{program.title}** ({program.source}; {size_of(program)})"
    return "\n\n".join([head, latex_of(program), "\n".join(table)])


_LATEX_MARKS = {"star": "*", "plus": "+", "minus": "-"}


def latex_name(name: str) -> str:
    """Return a variable's or multiplier's name as LaTeX; ``lam_star`` is the paper's lambda-star."""
    base, _, mark = name.partition("_")
    base = "lambda" if base == "lam" else base
    word = len(base) > 1 and base.isalpha()
    letter = "\\" + base if base in GREEK else rf"\text{{{base}}}" if word else base
    if not mark:
        return letter
    if mark in _LATEX_MARKS:
        return f"{letter}^{_LATEX_MARKS[mark]}"
    return rf"{letter}_{{\text{{{mark.replace('_', ' ')}}}}}"
