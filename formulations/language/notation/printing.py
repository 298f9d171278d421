"""LaTeX of formulas, from their trees, and of sentences with formulas in them.

In a sentence each formula stands between two ``$``: ``"cost of slack less alpha: $Cᵢ − αᵢ$"``.
"""

from collections.abc import Callable, Collection, Sequence

from formulations.language.notation import tree as t
from formulations.language.notation.parser import GREEK, TILDE, read_formula
from formulations.language.notation.tree import Claim, Expression

_COMMANDS = {sign: "\\" + name for name, sign in GREEK.items()}
_RELATIONS = {"=": "=", "≤": r"\le", "≥": r"\ge", "<": "<", ">": ">", "⪰": r"\succeq"}
_MARKS = {"*": "*", "⁺": "+", "⁻": "-"}


def latex_of_expression(tree: t.Expression) -> str:
    """Return an expression as LaTeX."""
    return _RULES[type(tree)](tree)


def latex_of_relation(relation: t.Relation) -> str:
    """Return a relation as LaTeX."""
    left, right = latex_of_expression(relation.left), latex_of_expression(relation.right)
    return f"{left} {_RELATIONS[relation.sign]} {right}"


def latex_of_claims(claims: Sequence[t.Claim]) -> str:
    """Return a row's relations as LaTeX, each with its conditions."""
    parts = []
    for claim in claims:
        conditions = r",\, ".join(latex_of_relation(condition) for condition in claim.conditions)
        suffix = rf"\quad \text{{for }} {conditions}" if conditions else ""
        parts.append(latex_of_relation(claim.relation) + suffix)
    return r",\quad ".join(parts)


def latex_of_letter(letter: t.Letter) -> str:
    """Return a letter as LaTeX, with its marks and indices."""
    name, _, label = letter.name.removesuffix("₍₎").partition("_")
    marks = "".join(_MARKS[sign] for sign in name if sign in _MARKS)
    base = "".join(_COMMANDS.get(sign, sign) for sign in name if sign not in (*_MARKS, TILDE))
    if TILDE in name:
        base = rf"\tilde {base}"
    indices = [f"{i.letter}{i.offset:+d}" if i.offset else i.letter for i in letter.indices]
    subscript = ("," if any(i.offset for i in letter.indices) else "").join(indices)
    if letter.name.endswith("₍₎"):
        subscript = f"[{subscript}]"
    if label:
        label_latex = "".join(_COMMANDS.get(sign, sign) for sign in label)
        subscript = f"{label_latex},{subscript}" if subscript else label_latex
    return base + (f"^{marks}" if marks else "") + (f"_{_braced(subscript)}" if subscript else "")


def _braced(latex: str) -> str:
    """Return a subscript or exponent in braces, unless it is a single sign."""
    return latex if len(latex) == 1 or latex in _COMMANDS.values() else f"{{{latex}}}"


def _bracketed(latex: str) -> str:
    """Return LaTeX in brackets, as large as the sums and brackets in it need."""
    return rf"\left({latex}\right)" if r"\sum" in latex or "(" in latex else f"({latex})"


def _operand(tree: t.Expression) -> str:
    """Return the operand of a power, transpose or ∘, in brackets unless it needs none."""
    if isinstance(tree, t.Letter) and any(mark in tree.name for mark in _MARKS):
        return f"{{{latex_of_letter(tree)}}}"
    needs_none = isinstance(tree, t.Letter | t.Number | t.Norm | t.Stack | t.Matrix) or (
        isinstance(tree, t.Call) and tree.name != "exp"
    )
    latex = latex_of_expression(tree)
    return latex if needs_none else _bracketed(latex)


def _sum(tree: t.Sum) -> str:
    parts = []
    for sign, term in tree.terms:
        latex = latex_of_expression(term)
        text = _bracketed(latex) if isinstance(term, t.Sum) else latex
        parts.append(f" {'+' if sign > 0 else '-'} {text}")
    first = parts[0].removeprefix(" + ") if tree.terms[0][0] > 0 else "-" + parts[0].removeprefix(" - ")
    return first + "".join(parts[1:])


def _product(tree: t.Product) -> str:
    parts: list[str] = []
    for i, factor in enumerate(tree.factors):
        is_last = i == len(tree.factors) - 1
        needs_brackets = isinstance(factor, t.Sum) or (isinstance(factor, t.Summation) and not is_last)
        latex = latex_of_expression(factor)
        latex = _bracketed(latex) if needs_brackets else latex
        needs_no_space = not parts or (parts[-1].isdigit() and latex[0].isalpha())  # 2E
        parts.append(latex if needs_no_space else f" {latex}")
    return "".join(parts)


def _quotient(tree: t.Quotient) -> str:
    above, below = latex_of_expression(tree.above), latex_of_expression(tree.below)
    if len(above) == len(below) == 1:
        return rf"\tfrac{above}{below}" if above.isdigit() else rf"\tfrac {above}{below}"
    return rf"\tfrac{{{above}}}{{{below}}}"


def _power(tree: t.Power) -> str:
    exponent = tree.exponent
    if isinstance(exponent, t.Quotient):
        above, below = latex_of_expression(exponent.above), latex_of_expression(exponent.below)
        return f"{_operand(tree.base)}^{{{above}/{below}}}"
    return f"{_operand(tree.base)}^{_braced(latex_of_expression(exponent))}"


def _norm(tree: t.Norm) -> str:
    latex = latex_of_expression(tree.inner)
    return rf"\left\|{latex}\right\|" if r"\sum" in latex else rf"\|{latex}\|"


def _call(tree: t.Call) -> str:
    arguments = r",\, ".join(latex_of_expression(argument) for argument in tree.arguments)
    if tree.name == "exp":
        return f"e^{{{arguments}}}"
    if tree.name == "sqrt":
        return rf"\sqrt{{{arguments}}}"
    name = r"\ln" if tree.name == "ln" else rf"\mathrm{{{tree.name}}}"
    if len(tree.name) == 1:
        name = _COMMANDS.get(tree.name, tree.name)
    without_brackets = tree.name in ("ln", "tr") and isinstance(tree.arguments[0], t.Letter | t.Summation)
    return f"{name} {arguments}" if without_brackets else name + _bracketed(arguments)


def _summation(tree: t.Summation) -> str:
    below = "".join(tree.indices) if tree.condition is None else latex_of_relation(tree.condition)
    body = latex_of_expression(tree.body)
    body = _bracketed(body) if isinstance(tree.body, t.Sum) else body
    return rf"\sum_{_braced(below.replace(' < ', '<').replace(' > ', '>'))} {body}"


def _stack(tree: t.Stack) -> str:
    return _bracketed(r",\, ".join(latex_of_expression(part) for part in tree.parts))


def _matrix(tree: t.Matrix) -> str:
    rows = (" & ".join(latex_of_expression(cell) for cell in row) for row in tree.rows)
    return r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"


_RULES: dict[type, Callable[..., str]] = {
    t.Number: lambda tree: tree.digits,
    t.Letter: latex_of_letter,
    t.Sum: _sum,
    t.Product: _product,
    t.Hadamard: lambda tree: rf"{_operand(tree.left)} \circ {_operand(tree.right)}",
    t.Quotient: _quotient,
    t.Power: _power,
    t.Transpose: lambda tree: rf"{_operand(tree.inner)}^\top",
    t.Norm: _norm,
    t.Call: _call,
    t.Summation: _summation,
    t.Stack: _stack,
    t.Matrix: _matrix,
}


def plain(words: str) -> str:
    """Return the sentence as plain text."""
    return words.replace("$", "")


def formulas_in(words: str, functions: Collection[str] = ()) -> list[Expression | tuple[Claim, ...]]:
    """Return the trees of the formulas in a sentence."""
    return [read_formula(part, functions) for part in _split(words)[1::2]]


def words_latex(words: str, functions: Collection[str] = ()) -> str:
    """Return the sentence as LaTeX; arguments as in :func:`formulas_in`."""
    parts = []
    for i, part in enumerate(_split(words)):
        if i % 2:
            tree = read_formula(part, functions)
            parts.append(latex_of_claims(tree) if isinstance(tree, tuple) else latex_of_expression(tree))
        elif part:
            parts.append(rf"\text{{{part.replace('−', '-')}}}")
    return " ".join(parts)


def _split(words: str) -> list[str]:
    """Split a sentence at ``$`` into parts: text, formula, text, formula, ..., text."""
    parts = words.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"a formula has no end: {words!r}")
    return parts
