"""A formula in plain text, cut into tokens and read into its tree by recursive descent.

In the tokens, subscripts open with ``_{``, powers with ``^{``, and both close with ``}``; ``'`` is the
transpose, and a mark of a letter (``λ*``, ``s⁺``) is a token of its own. The grammar, from the outside in,
has a method of the parser for each rule::

    claims    claim, claim, ...                     the text of a row (a named family of constraints)
    claim     relation [for relation, relation, ...]
    relation  sum ≤ sum, or with another sign of RELATIONS
    sum       [−] product + product − product ...
    product   factor factor / factor ...            a summation Σᵢ extends to the end of the product
    factor    scripted, or several joined by · or ∘
    scripted  atom, followed by its powers and '
    atom      number, letter, (sum), (sum, sum), [matrix], ‖sum‖, Σᵢ product, function of a scripted
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from formulations.language.notation import tree as t

T = TypeVar("T")

INDICES = "ijkl"  # the letters that are indices
TILDE = "\u0303"  # the combining character over the letter before it
# Names of functions; any other run of letters is a product.
_FUNCTIONS = ("ent", "Ent", "exp", "ln", "sqrt", "tr")

_SUBSCRIPTS = dict(zip("ᵢⱼₖₗ₍₎", "ijkl[]", strict=True))  # each with the text of its token
_ABBREVIATIONS = {"½": "(1/2)", "¼": "(1/4)", "¾": "(3/4)", "²": "^{2}", "³": "^{3}", "⁻¹": "^{−1}"}
_TOKEN = re.compile(
    rf"(?P<space>\s)|(?P<number>[0-9][0-9.]*)|(?P<subscripts>[ᵢⱼₖₗ₍₎]+)|(?P<short>{'|'.join(_ABBREVIATIONS)})"
    r"|(?P<mark>[*⁺⁻])|(?P<script>[_^]\{?)|(?P<sign>[}+−\-·∘/()\[\],;=≤≥<>⪰‖'])"
    rf"|(?P<word>(for|{'|'.join(_FUNCTIONS)})(?![A-Za-z]))|(?P<letter>.{TILDE}?)",
    re.DOTALL,
)


class UnreadableError(ValueError):
    """Error of a formula that cannot be read; the message names the position."""


@dataclass(frozen=True)
class Token:
    """A token of a formula."""

    kind: str  # "letter", "number", "word", "mark", "end", or the sign itself, such as "+"
    text: str  # its characters
    position: int  # index in the formula of its first character


def text_tokens(text: str) -> list[Token]:
    """Return the tokens of a formula in plain text."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        position = _step(text, position, tokens)
    return [*tokens, Token("end", "", len(text))]


def _step(text: str, position: int, tokens: list[Token]) -> int:
    """Append the tokens of the match at `position` to `tokens`, and return the position after them."""
    match = _TOKEN.match(text, position)
    assert match is not None
    kind, sign, end = str(match.lastgroup), match.group(), match.end()
    if kind == "subscripts":  # ᵢₖ
        tokens.append(Token("_{", sign[0], position))
        for place, letter in enumerate(map(_SUBSCRIPTS.__getitem__, sign), position):
            tokens.append(Token("letter" if letter.isalpha() else letter, letter, place))
        tokens.append(Token("}", "", end))
    elif kind == "short":
        tokens += [replace(token, position=position) for token in text_tokens(_ABBREVIATIONS[sign])[:-1]]
    elif kind == "script":
        tokens.append(Token(sign[0] + "{", sign[0], position))
        return end if sign.endswith("{") else _unbraced_script(text, end, tokens)
    elif kind == "letter" and not sign[0].isalpha():
        raise UnreadableError(f"unknown character {sign[0]!r}, at character {position + 1} of {text!r}")
    elif kind != "space":
        tokens.append(Token(sign.replace("-", "−") if kind == "sign" else kind, sign, position))
    return end


def _unbraced_script(text: str, position: int, tokens: list[Token]) -> int:
    """Append the letters or the sign of ``_λ``, ``_ff`` or ``^½``; return the position after them."""
    if position == len(text):
        raise UnreadableError(f"nothing follows {text[-1]!r} at the end of {text!r}")
    if text[position].isalpha():
        while position < len(text) and text[position].isalpha() and text[position] not in _SUBSCRIPTS:
            tokens.append(Token("letter", text[position], position))
            position += 1
    else:
        position = _step(text, position, tokens)
    tokens.append(Token("}", "", position))
    return position


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω", "Sigma": "Σ",
}  # fmt: skip

RELATIONS = ("=", "≤", "≥", "<", ">", "⪰")
_PRODUCT_TERMINATORS = (*RELATIONS, "+", "−", ")", "]", "}", ",", ";", "end")


class _Cursor:
    """A position among the tokens of a formula; arguments as in :func:`read_expression`."""

    def __init__(self, formula: str, functions: Collection[str]):
        self.formula, self.functions = formula, functions
        self.tokens = text_tokens(formula)
        self.index = 0

    @property
    def next(self) -> Token:
        """The first token that is not taken yet."""
        return self.tokens[self.index]

    def take(self, *kinds: str) -> Token:
        """Take the next token. If `kinds` are given, raise an error unless it is one of them."""
        token = self.next
        if kinds and token.kind not in kinds:
            names = {"letter": "a letter", "number": "a number"}
            raise self.error_here(f"{names.get(kinds[0], repr(kinds[0]))} is missing")
        self.index += 1
        return token

    def error_here(self, sentence: str) -> UnreadableError:
        """Return an error at the next token."""
        position = self.next.position
        character = f"at character {position + 1}, {self.formula[position : position + 1]!r},"
        location = "at its end" if self.next.kind == "end" else character
        return UnreadableError(f"{sentence} {location} of {self.formula!r}")

    def letter(self) -> t.Letter:
        """Read a letter with its marks and its indices."""
        name = self.take("letter").text
        while self.next.kind == "mark":
            name += self.take().text
        indices: tuple[t.Index, ...] = ()
        if self.next.kind == "_{":
            self.take()
            label, indices = self.subscript()
            name += label
        while self.next.kind == "mark":
            name += self.take().text
        return t.Letter(name, indices)

    def subscript(self) -> tuple[str, tuple[t.Index, ...]]:
        """Read a subscript up to its closing brace: its label, such as ``_ff`` or ``₍₎``, and its indices."""
        label, indices, bracket = "", [], ""
        while self.next.kind != "}":
            token = self.take("letter", "[", "]", ",", "+", "−")
            if token.kind in ("[", "]"):
                bracket += "₍" if token.kind == "[" else "₎"
            elif token.kind == "letter" and token.text in INDICES:
                indices.append(t.Index(token.text))
            elif token.kind == "letter":
                label += token.text
            elif token.kind in ("+", "−"):
                offset = int(self.take("number").text) * (1 if token.kind == "+" else -1)
                if not indices:
                    raise self.error_here("an index is missing before its step")
                indices[-1] = t.Index(indices[-1].letter, offset)
        self.take("}")
        if bracket not in ("", "₍₎"):
            raise self.error_here("the brackets of a subscript do not match")
        return (f"_{label}" if label else "") + bracket, tuple(indices)


def read_expression(formula: str, functions: Collection[str] = ()) -> t.Expression:
    """Return the tree of an expression; `functions` are the letters that are functions, as H of "H(v)"."""
    return cast(t.Expression, _tree("sum", formula, frozenset(functions)))


def read_row(formula: str, functions: Collection[str] = ()) -> tuple[t.Claim, ...]:
    """Return the relations of a row, each with its conditions; arguments as in :func:`read_expression`."""
    return cast(tuple[t.Claim, ...], _tree("claims", formula, frozenset(functions)))


def read_definition(formula: str, functions: Collection[str] = ()) -> t.Definition:
    """Return the tree of a definition such as ``H(v) = −v ln v``; arguments as in :func:`read_expression`."""
    return cast(t.Definition, _tree("definition", formula, frozenset(functions)))


def read_formula(formula: str, functions: Collection[str] = ()) -> t.Expression | tuple[t.Claim, ...]:
    """Return the tree of an expression or the relations of a row; arguments as in :func:`read_expression`."""
    is_row = any(sign in formula for sign in RELATIONS)
    return read_row(formula, functions) if is_row else read_expression(formula, functions)


def functions_of(letters: Iterable[str]) -> frozenset[str]:
    """Return the names of the printed letters that are functions: H of ``"H(v)"``."""
    return frozenset(letter.partition("(")[0] for letter in letters if "(" in letter)


@lru_cache(8192)  # trees, which are immutable: a page reads the same formulas for several forms of output
def _tree(rule: str, formula: str, functions: frozenset[str]) -> Any:
    """Apply the rule of this name to a whole formula."""
    parser = _Parser(formula, functions)
    tree = getattr(parser, rule)()
    if parser.next.kind != "end":
        raise parser.error_here("unexpected token")
    return tree


class _Parser(_Cursor):
    """The parser of one formula: each method reads the rule of the grammar that it is named after."""

    in_norm = False  # True inside ‖ ‖, where the next ‖ closes the norm

    # -- rows -------------------------------------------------------------------------------------

    def claims(self) -> tuple[t.Claim, ...]:
        return self.separated(self.claim)

    def separated(self, part: Callable[[], T], sign: str = ",") -> tuple[T, ...]:
        """Read one part, or several separated by a sign."""
        parts = [part()]
        while self.next.kind == sign:
            self.take()
            parts.append(part())
        return tuple(parts)

    def claim(self) -> t.Claim:
        relation, conditions = self.relation(), []
        if self.next.kind == "word" and self.next.text == "for":
            self.take()
            conditions.append(self.relation())
            while self.next.kind == "," and self._continues_conditions():
                self.take()
                conditions.append(self.relation())
        return t.Claim(relation, tuple(conditions))

    def _continues_conditions(self) -> bool:
        """Return True if the comma is followed by a condition on an index rather than by the next claim."""
        after = self.tokens[self.index + 1 : self.index + 3]
        return after[0].kind == "letter" and after[0].text in INDICES and after[1].kind in RELATIONS

    def relation(self) -> t.Relation:
        left = self.sum()
        if self.next.kind not in RELATIONS:
            raise self.error_here("a relation is missing")
        sign = self.take().kind
        return t.Relation(left, sign, self.sum())

    def definition(self) -> t.Definition:
        head = t.Letter(self.take().text) if self.next.kind == "word" else self.letter()
        parameter = ""
        if self.next.kind == "(":
            self.take()
            parameter = self.letter().name
            self.take(")")
        self.take("=")
        return t.Definition(head, parameter, self.sum())

    # -- expressions ------------------------------------------------------------------------------

    def sum(self) -> t.Expression:
        signs = {"+": 1, "−": -1}
        terms = [(signs[self.take().kind] if self.next.kind in signs else 1, self.product())]
        while self.next.kind in signs:
            terms.append((signs[self.take().kind], self.product()))
        return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else t.Sum(tuple(terms))

    def product(self) -> t.Expression:
        factors: list[t.Expression] = []
        while True:
            if self.next.kind == "/":
                if not factors:
                    raise self.error_here("the numerator is missing")
                self.take()
                factors = [t.Quotient(_product(factors), self.factor())]
            elif not self.ends_product():
                inner = self.factor()
                factors += inner.factors if isinstance(inner, t.Product) else [inner]
            elif factors:
                return _product(factors)
            else:
                raise self.error_here("a factor is missing")

    def ends_product(self) -> bool:
        """Return True if the next token ends a product."""
        token = self.next
        if token.kind == "word" and token.text == "for":
            return True
        return token.kind in _PRODUCT_TERMINATORS or (token.kind == "‖" and self.in_norm)

    def factor(self) -> t.Expression:
        left = self.scripted()
        while self.next.kind in ("·", "∘"):
            if self.take().kind == "·":
                left = t.Product((t.Transpose(left), self.scripted()))
            else:
                left = t.Hadamard(left, self.scripted())
        return left

    def scripted(self) -> t.Expression:
        base = self.atom()
        while self.next.kind in ("^{", "'"):
            if self.take().kind == "'":
                base = t.Transpose(base)
                continue
            exponent = self.inside(self.sum, "}")
            base = t.Call("exp", (exponent,)) if base == t.Letter("e") else t.Power(base, exponent)
        return base

    def inside(self, rule: Callable[[], T], closing: str) -> T:
        """Apply a rule up to a closing bracket or ‖; inside brackets another ‖ opens a norm again."""
        was_in_norm, self.in_norm = self.in_norm, closing == "‖"
        tree = rule()
        self.take(closing)
        self.in_norm = was_in_norm
        return tree

    def atom(self) -> t.Expression:
        token = self.next
        if token.kind == "number":
            return t.Number(self.take().text)
        if token.kind == "(":
            self.take()
            parts = self.inside(self.listed, ")")
            return parts[0] if len(parts) == 1 else t.Stack(parts)
        if token.kind == "[":
            self.take()
            return self.inside(self.matrix, "]")
        if token.kind == "‖":
            self.take()
            return t.Norm(self.inside(self.sum, "‖"))
        if token.kind == "word":
            return self.call(self.take().text)
        if token.text == "Σ" and (summation := self.summation()) is not None:
            return summation
        if token.kind != "letter":
            raise self.error_here("a factor is missing")
        letter = self.letter()
        if letter.name in self.functions and self.next.kind == "(":
            return self.call(letter.name)
        return letter

    def listed(self) -> tuple[t.Expression, ...]:
        return self.separated(self.sum)

    def matrix(self) -> t.Expression:
        rows = self.separated(self.listed, ";")
        if len(rows) == 1 and len(rows[0]) == 1:
            return rows[0][0]  # brackets around a sum
        if len({len(row) for row in rows}) > 1:
            raise self.error_here("the rows of a matrix are not of one length")
        return t.Matrix(rows)

    def call(self, name: str) -> t.Expression:
        if name not in _FUNCTIONS and name not in self.functions:
            raise self.error_here(f"unknown function {name}")
        if self.next.kind == "(":
            self.take()
            return t.Call(name, self.inside(self.listed, ")"))
        if self.ends_product():
            raise self.error_here(f"the argument of {name} is missing")
        return t.Call(name, (self.scripted(),))

    # -- summations --------------------------------------------------------------------------------

    def summation(self) -> t.Expression | None:
        """Read a summation; return None if this Σ is a letter, with a label or nothing under it: Σ_λ."""
        start = self.index
        under: list[str] = []
        self.take("letter")
        if self.next.kind == "_{":
            self.take()
            while self.next.kind == "letter":
                under.append(self.take().text)
            if self.next.kind != "}":  # more than a label or indices
                self.index = start + 2
                condition = self.inside(self.relation, "}")
                return t.Summation(self._first_index(condition), condition, self.product())
        if not under or under[0] not in INDICES:
            self.index = start
            return None
        self.take("}")
        return t.Summation(tuple(under), None, self.product())

    def _first_index(self, condition: t.Relation) -> tuple[str]:
        """Return the index that a conditional summation runs over, the first one in the condition."""
        left = condition.left
        if isinstance(left, t.Letter) and left.name in INDICES:
            return (left.name,)
        if isinstance(left, t.Letter) and left.indices:
            return (left.indices[0].letter,)
        raise self.error_here("an index is missing under the sum")


def _product(factors: list[t.Expression]) -> t.Expression:
    """Return the product of one or several factors."""
    return factors[0] if len(factors) == 1 else t.Product(tuple(factors))
