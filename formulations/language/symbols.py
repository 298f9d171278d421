"""What the letters of a program stand for: each family says it of its own, in a mapping beside its programs.

A mapping has an entry for each letter that is neither a variable nor an index: the letter as it is printed,
and behind it a sentence, with its formulas between ``$``; or a relation, and a sentence if one is needed::

    LETTERS = {
        "μ": "= (1/n) Σᵢ xᵢ",
        "B": "≥ 0: the bound on the outputs $fᵢ = w·xᵢ + b$",
        "Cᵢ": "the price of sample $i$'s slack",
    }

An entry that begins with ``=`` is a definition: where no number is given for the letter, its value is that of
the formula. Which letters a program uses is read from its formulas, and only those are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from formulations.language.notation.latex import GREEK
from formulations.language.notation.parser import functions_of, read_definition, read_formula, read_row
from formulations.language.notation.printing import latex_of_claims, latex_of_expression, latex_of_letter
from formulations.language.notation.tokens import INDICES
from formulations.language.notation.tree import Call, Definition, Expression, Letter, nodes
from formulations.language.notation.words import formulas_in, plain, words_latex
from formulations.language.statement import Statement

__all__ = ["Symbol", "letters_in", "printed_name", "symbols_in", "symbols_of", "unexplained"]

_SIGNS = ("=", "≤", "≥", "<", ">")
_KNOWN = frozenset({*INDICES, "I", "exp", "ln", "max", "min", "sqrt", "tr"})
_MARKS = {"star": "*", "plus": "⁺", "minus": "⁻"}


@dataclass(frozen=True)
class Symbol:
    """A letter and its meaning.

    Attributes
    ----------
    names : tuple of str
        The letters that it explains, without their indices.
    text, latex : str
        The meaning, for a terminal and for a page.
    uses : frozenset of str
        The letters that the meaning itself needs.
    definition : Definition or None
        The formula, where it is one.
    """

    names: tuple[str, ...]
    text: str
    latex: str
    uses: frozenset[str]
    definition: Definition | None


def symbols_of(program: Statement) -> list[Symbol]:
    """The letters of a program that its reader has to be told of, in the order of its mapping.

    Parameters
    ----------
    program : Statement
        The program.
    """
    symbols = symbols_in(program.letters)
    used = {*_used(program), *INDICES}
    while True:
        more = {name for symbol in symbols if used.intersection(symbol.names) for name in symbol.uses}
        if more <= used:
            return [symbol for symbol in symbols if used.intersection(symbol.names)]
        used |= more


def unexplained(program: Statement) -> set[str]:
    """The letters of a program that are neither its variables, nor its multipliers, nor explained."""
    told = symbols_of(program)
    used = set(_used(program)).union(*(symbol.uses for symbol in told))
    known = {name for symbol in told for name in symbol.names} | _named(program)
    for row in program.rows:  # a meaning may say itself what a letter of its own is: "with v = (w, b, −1)"
        for tree in formulas_in(row.says, functions_of(program.letters)):
            known |= {claim.relation.left.name for claim in _equations(tree)}
    return used - known


def symbols_in(letters: Mapping[str, str]) -> list[Symbol]:
    """The entries of a mapping of letters, read.

    Parameters
    ----------
    letters : mapping of str to str
        As described above.
    """
    functions = functions_of(letters)
    return [_symbol(key, said, functions) for key, said in letters.items()]


def letters_in(tree: object) -> set[str]:
    """The letters and functions in a tree that need an explanation."""
    found = {node.name for node in nodes(tree) if isinstance(node, Letter | Call)}
    return found - _KNOWN


def printed_name(name: str) -> str:
    """The letter of a variable: ``lam_star`` is printed as λ*.

    Parameters
    ----------
    name : str
        A letter, or a Greek letter spelt out, with what follows an underscore as its mark.
    """
    base, _, mark = name.partition("_")
    return GREEK.get("lambda" if base == "lam" else base, base) + _MARKS.get(mark, f"_{mark}" if mark else "")


def _named(program: Statement) -> set[str]:
    """The letters of its variables and multipliers, which are explained where they stand."""
    return {printed_name(name) for name in (*program.variables, *(row.multiplier for row in program.rows))}


def _equations(tree: object) -> list[Any]:
    """The claims of a formula that say what one letter is."""
    claims = tree if isinstance(tree, tuple) else ()
    return [c for c in claims if c.relation.sign == "=" and isinstance(c.relation.left, Letter)]


def _used(program: Statement) -> Iterable[str]:
    """The letters of its objective, its rows and the meanings of its multipliers."""
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
