"""Printing of a program: as text for a terminal, as LaTeX and Markdown for a notebook.

A family (the programs of one module) explains its letters in a mapping. It has an entry for each letter in
the formulas that is not a variable; an index may have one. The key is the letter as printed. The value is a
phrase, with formulas between ``$``; or a relation (``≥ 0``), after which ``: `` and a phrase may follow::

    LETTERS = {
        "μ": "= (1/n) Σᵢ xᵢ",
        "B": "≥ 0: the bound on the outputs $fᵢ = w·xᵢ + b$",
        "Cᵢ": "the cost of sample $i$'s slack",
    }

An entry that begins with ``=`` is a definition, which gives the letter its value unless a number is given for
it. Only the letters in a program's formulas are printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
from formulations.language.notation.tree import Call, Claim, Definition, Expression, Letter, nodes
from formulations.language.statement import Statement

_SIGNS = ("=", "≤", "≥", "<", ">")
_KNOWN = frozenset({*INDICES, "I", "exp", "ln", "sqrt", "tr"})  # need no explanation
_TEXT_MARKS = {"star": "*", "plus": "⁺", "minus": "⁻"}
_LATEX_MARKS = {"star": "*", "plus": "+", "minus": "-"}
_NO_MULTIPLIER = "–"


@dataclass(frozen=True)
class Symbol:
    """An entry of a mapping of letters: one or several letters and their explanation."""

    names: tuple[str, ...]  # the letters explained, without their indices
    text: str  # the explanation for a terminal
    latex: str  # the explanation for a page
    mentions: frozenset[str]  # other letters in the explanation
    definition: Definition | None  # if the entry begins with "="


def printed_symbols(program: Statement) -> list[Symbol]:
    """Return the entries that are printed with a program, in the order of its mapping."""
    symbols = symbols_in(program.letters)
    letters = {*letters_of_program(program), *INDICES}  # the entry of an index is always printed
    while True:
        printed = [symbol for symbol in symbols if letters.intersection(symbol.names)]
        mentioned = {name for symbol in printed for name in symbol.mentions}
        if mentioned <= letters:
            return printed
        letters |= mentioned  # an explanation may have letters that need one themselves


def symbols_in(letters: Mapping[str, str]) -> list[Symbol]:
    """Read the entries of a mapping of letters."""
    functions = functions_of(letters)
    return [_read_symbol(key, entry, functions) for key, entry in letters.items()]


def letters_in(tree: object) -> set[str]:
    """Return the letters and functions in a tree that need an explanation."""
    return {node.name for node in nodes(tree) if isinstance(node, Letter | Call)} - _KNOWN


def printed_name(name: str) -> str:
    """Return the letter of a variable: ``lam_star`` is printed as λ*."""
    base, _, mark = name.partition("_")
    return GREEK.get("lambda" if base == "lam" else base, base) + _TEXT_MARKS.get(
        mark, f"_{mark}" if mark else ""
    )


def variables_and_multipliers(program: Statement) -> set[str]:
    """Return the letters of a program's variables and multipliers, which need no entry."""
    return {printed_name(name) for name in (*program.variables, *(row.multiplier for row in program.rows))}


def letters_of_program(program: Statement) -> set[str]:
    """Return the letters of the objective, rows and multipliers' meanings that need an entry."""
    functions = functions_of(program.letters)
    trees: list[object] = [program.objective_tree]
    for row in program.rows:
        trees += [program.row_tree(row), *formulas_in(row.says, functions)]
    return set().union(*(letters_in(tree) for tree in trees)) - variables_and_multipliers(program)


@lru_cache(2048)  # every program of a family has its family's letters
def _read_symbol(key: str, entry: str, functions: frozenset[str]) -> Symbol:
    """Read one entry of a mapping of letters."""
    if not entry.startswith(_SIGNS):  # a phrase
        trees = [read_formula(part, functions) for part in key.split(", ")]
        explained = [tree for tree in trees if isinstance(tree, Letter)]
        names = tuple(letter.name for letter in explained)
        latex = r",\, ".join(latex_of_letter(letter) for letter in explained)
        return Symbol(
            names, f"{key}: {plain(entry)}", rf"{latex} {words_latex(': ' + entry, functions)}",
            _letters_of_phrase(entry, functions) - {*names}, None,
        )  # fmt: skip
    relation, colon, words = entry.partition(": ")
    formula, phrase, definition = f"{key} {relation}", colon + words, None
    tree: Expression | tuple[Claim, ...]
    if entry.startswith("="):
        definition = read_definition(formula, functions)
        tree, name = definition.body, definition.head.name
        head = Call(name, (Letter(definition.parameter),)) if definition.parameter else definition.head
        latex = f"{latex_of_expression(head)} = {latex_of_expression(tree)}"
    else:
        tree = read_row(formula, functions)
        left = tree[0].relation.left
        name, latex = left.name if isinstance(left, Letter) else "", latex_of_claims(tree)
    mentions = frozenset(letters_in(tree) | _letters_of_phrase(phrase, functions))
    own = {name, definition.parameter if definition else ""}
    latex += f" {words_latex(phrase, functions)}" if phrase else ""
    return Symbol((name,), formula + plain(phrase), latex, mentions - own, definition)


def _letters_of_phrase(phrase: str, functions: frozenset[str]) -> frozenset[str]:
    """Return the letters in a phrase's formulas that need an explanation."""
    return frozenset(name for tree in formulas_in(phrase, functions) for name in letters_in(tree))


def _shape(variable: cp.Variable) -> str:
    """Return a variable's domain and shape: ``R``, ``R^3``, ``R^(2×3)``, ``{0, 1}^3`` or ``Z^3``."""
    shape, domain = variable.shape, "R"
    if variable.boolean_idx or variable.integer_idx:
        domain = "{0, 1}" if variable.boolean_idx else "Z"
    if not shape:
        return domain
    size = "×".join(str(k) for k in shape)
    return f"{domain}^{size}" if len(shape) == 1 else f"{domain}^({size})"


def domains_latex(program: Statement) -> list[str]:
    """Return the domains of a program's binary and integer variables, as LaTeX."""
    domains = []
    for name, variable in program.variables.items():
        if variable.boolean_idx or variable.integer_idx:
            size = r" \times ".join(str(k) for k in variable.shape)
            domain = r"\{0, 1\}" if variable.boolean_idx else r"\mathrm{Z}"
            domains.append(rf"{latex_name(name)} \in {domain}^{{{size}}}")
    return domains


def _parameter_value(parameter: cp.Parameter) -> str:
    """Return a parameter's value, or its range if it is a vector of different values."""
    if parameter.value is None:
        return "(not set)"
    low, high = float(np.min(parameter.value)), float(np.max(parameter.value))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def size_of(program: Statement) -> str:
    """Return the class and size of a program, such as ``QP: 44 variables, 160 constraint rows``."""
    variables = sum(variable.size for variable in program.variables.values())
    rows = sum(row.constraint.size for row in program.rows)
    return f"{program.kind}: {variables} variables, {rows} constraint rows"


def _body_lines(program: Statement) -> list[str]:
    """Return lines for the objective, the variables, each row and each letter."""
    over = ", ".join(f"{name} ∈ {_shape(variable)}" for name, variable in program.variables.items())
    name_width = max((len(row.name) for row in program.rows), default=0)
    text_width = max((len(row.text) for row in program.rows), default=0)
    lines = [f"{program.sense:<11} {program.objective_text}", f"{'over':<11} {over}"]
    for i, row in enumerate(program.rows):
        label = "subject to" if i == 0 else ""
        line = f"{label:<11} {row.name:<{name_width}}   {row.text:<{text_width}}   [{row.multiplier}]"
        lines.append(line.removesuffix(f"[{_NO_MULTIPLIER}]").rstrip())
    for i, symbol in enumerate(printed_symbols(program)):
        lines.append(f"{'where' if i == 0 else '':<11} {symbol.text}")
    return lines


def statement_of(program: Statement) -> str:
    """Return the program under its name, for the page of its family."""
    head = f"{program.name}: {program.title}", f"{'source':<11} {program.source}"
    return "\n     ".join([*head, *_body_lines(program)])


def text_of(program: Statement) -> str:
    """Return the program as aligned lines of text."""
    lines = [f"{program.title}  —  {program.source}", "", *_body_lines(program)]
    if program.parameters:
        values = ", ".join(f"{name} = {_parameter_value(p)}" for name, p in program.parameters.items())
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
        multiplier = "" if row.multiplier == _NO_MULTIPLIER else f" && [{latex_name(row.multiplier)}]"
        lines.append(rf"{label} \quad & {program.row_latex(row)}{multiplier} \\")
    lines += [rf" \quad & {domain} \\" for domain in domains_latex(program)]
    for i, symbol in enumerate(printed_symbols(program)):
        label = r"\text{where}" if i == 0 else ""
        lines.append(rf"{label} \quad & {symbol.latex} \\")
    return "$$\\begin{aligned}\n" + "\n".join(lines) + "\n\\end{aligned}$$"


def markdown_of(program: Statement) -> str:
    """Return the program as Markdown: title, LaTeX display and the table of multipliers."""
    table = ["| row | multiplier | meaning |", "|---|---|---|"] if program.rows else []
    for row in program.rows:
        has_multiplier = row.multiplier != _NO_MULTIPLIER
        letter = f"${latex_name(row.multiplier)}$" if has_multiplier else _NO_MULTIPLIER
        table.append(f"| {row.name} | {letter} | {row.meaning} |")
    head = f"**{program.title}** ({program.source}; {size_of(program)})"
    return "\n\n".join([head, latex_of(program), "\n".join(table)])


def latex_name(name: str) -> str:
    r"""Return a variable's or multiplier's name as LaTeX: ``lam_star`` gives ``\lambda^*``."""
    base, _, mark = name.partition("_")
    base = "lambda" if base == "lam" else base
    word = len(base) > 1 and base.isalpha()
    letter = "\\" + base if base in GREEK else rf"\text{{{base}}}" if word else base
    if not mark:
        return letter
    if mark in _LATEX_MARKS:
        return f"{letter}^{_LATEX_MARKS[mark]}"
    return rf"{letter}_{{\text{{{mark.replace('_', ' ')}}}}}"
