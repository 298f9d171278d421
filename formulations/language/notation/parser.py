"""From the tokens of a formula to its tree, by recursive descent.

The grammar, from the outside in::

    row       claim, claim, ...
    claim     sum relation sum [for relation, relation, ...]
    sum       [−] product + product − product ...
    product   factor factor / factor ...            a total takes all that follows it in its product
    factor    atom·atom, or atom∘atom
    atom      number, letter, (sum), (sum, sum), [matrix], ‖sum‖, Σᵢ product, function of an atom;
              and behind it its powers and '
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import TypeVar

from formulations.language.notation.latex import latex_tokens
from formulations.language.notation.tokens import INDICES, Token, UnreadableError, text_tokens
from formulations.language.notation.tree import (
    Call,
    Claim,
    Definition,
    Expression,
    Hadamard,
    Index,
    Letter,
    Matrix,
    Norm,
    Number,
    Power,
    Product,
    Quotient,
    Relation,
    Stack,
    Sum,
    Total,
    Transpose,
)

T = TypeVar("T")

__all__ = ["functions_of", "read_definition", "read_expression", "read_formula", "read_row"]

RELATIONS = ("=", "≤", "≥", "<", ">", "⪰")
_ENDS = (*RELATIONS, "+", "−", ")", "]", "}", ",", ";", "end")
_CACHE_SIZE = 2048  # trees that are kept, of each kind of formula
_NAMED = ("ln", "exp", "tr", "max", "min", "sqrt", "Ent", "ent")


class _Cursor:
    """A place among the tokens of a formula; arguments as in :func:`read_expression`."""

    def __init__(self, formula: str, functions: Collection[str], latex: bool):
        self.formula, self.functions = formula, functions
        self.tokens = latex_tokens(formula) if latex else text_tokens(formula)
        self.at = 0

    @property
    def next(self) -> Token:
        """The first token not taken yet."""
        return self.tokens[self.at]

    def take(self, *kinds: str) -> Token:
        """The next token, which must be of one of `kinds` where they are given."""
        token = self.next
        if kinds and token.kind not in kinds:
            raise self.fail(f"{_shown(kinds[0])} is missing")
        self.at += 1
        return token

    def fail(self, sentence: str) -> UnreadableError:
        """An error at the next token."""
        place = self.next.place
        at = (
            "at its end" if self.next.kind == "end" else f"at character {place + 1}, {self.formula[place]!r},"
        )
        return UnreadableError(f"{sentence} {at} of {self.formula!r}")

    def whole(self, rule: Callable[[], T]) -> T:
        """What a rule finds, which must be all there is."""
        found = rule()
        if self.next.kind != "end":
            raise self.fail("nothing can stand")
        return found

    def letter(self) -> Letter:
        """A letter with its marks and its indices."""
        name = self.take("letter").text
        while self.next.kind == "mark":
            name += self.take().text
        indices: tuple[Index, ...] = ()
        if self.next.kind == "_{":
            self.take()
            label, indices = self.subscript()
            name += label
        while self.next.kind == "mark":
            name += self.take().text
        return Letter(name, indices)

    def subscript(self) -> tuple[str, tuple[Index, ...]]:
        """Its label, as ``_ff`` or ``₍₎``, and its indices, up to the closing brace."""
        label, indices, bracket = "", [], ""
        while self.next.kind != "}":
            token = self.take("letter", "[", "]", ",", "+", "−")
            if token.kind in ("[", "]"):
                bracket += "₍" if token.kind == "[" else "₎"
            elif token.kind == "letter" and token.text in INDICES:
                indices.append(Index(token.text))
            elif token.kind == "letter":
                label += token.text
            elif token.kind in ("+", "−"):
                step = int(self.take("number").text) * (1 if token.kind == "+" else -1)
                if not indices:
                    raise self.fail("an index is missing before its step")
                indices[-1] = Index(indices[-1].letter, step)
        self.take("}")
        if bracket not in ("", "₍₎"):
            raise self.fail("the brackets of a subscript do not match")
        return (f"_{label}" if label else "") + bracket, tuple(indices)


def _shown(kind: str) -> str:
    return {"letter": "a letter", "number": "a number"}.get(kind, repr(kind))


def read_expression(formula: str, functions: Collection[str] = (), *, latex: bool = False) -> Expression:
    r"""The tree of an expression.

    Parameters
    ----------
    formula : str
        In plain text, or in LaTeX.
    functions : collection of str
        Letters that are functions where a bracket follows: H(v) is a product of H and v without it.
    latex : bool
        Whether the formula is LaTeX.

    Raises
    ------
    UnreadableError
        Anything that is not of this notation; the sentence names the place.

    Examples
    --------
    >>> read_expression("½‖w‖²") == read_expression(r"\tfrac12\|w\|^2", latex=True)
    True
    """
    return _expression(formula, frozenset(functions), latex)


def read_row(formula: str, functions: Collection[str] = (), *, latex: bool = False) -> tuple[Claim, ...]:
    """The relations of a row, each with its conditions; arguments as in :func:`read_expression`."""
    return _row(formula, frozenset(functions), latex)


def read_definition(formula: str, functions: Collection[str] = ()) -> Definition:
    """The tree of a definition, such as ``H(v) = −v ln v``; arguments as in :func:`read_expression`."""
    return _definition(formula, frozenset(functions))


def read_formula(formula: str, functions: Collection[str] = ()) -> Expression | tuple[Claim, ...]:
    """An expression or the relations of a row, whichever it is; arguments as in :func:`read_expression`."""
    return _formula(formula, frozenset(functions))


def functions_of(letters: Iterable[str]) -> frozenset[str]:
    """Those of some letters, as they are printed, that are functions, such as H of ``"H(v)"``."""
    return frozenset(letter.partition("(")[0] for letter in letters if "(" in letter)


# A page asks for the same formulas again and again, each time in another form; a tree never changes.


@lru_cache(_CACHE_SIZE)
def _expression(formula: str, functions: frozenset[str], latex: bool) -> Expression:
    parser = _Parser(formula, functions, latex)
    return parser.whole(parser.sum)


@lru_cache(_CACHE_SIZE)
def _row(formula: str, functions: frozenset[str], latex: bool) -> tuple[Claim, ...]:
    parser = _Parser(formula, functions, latex)
    return parser.whole(parser.claims)


@lru_cache(_CACHE_SIZE)
def _definition(formula: str, functions: frozenset[str]) -> Definition:
    parser = _Parser(formula, functions, latex=False)
    return parser.whole(parser.definition)


@lru_cache(_CACHE_SIZE)
def _formula(formula: str, functions: frozenset[str]) -> Expression | tuple[Claim, ...]:
    parser = _Parser(formula, functions, latex=False)
    signs = {token.kind for token in parser.tokens}
    return parser.whole(parser.claims if signs.intersection(RELATIONS) else parser.sum)


class _Parser(_Cursor):
    """One pass over the tokens of one formula."""

    in_norm = False

    # -- rows -------------------------------------------------------------------------------------

    def claims(self) -> tuple[Claim, ...]:
        return self.separated(self.claim)

    def separated(self, part: Callable[[], T], sign: str = ",") -> tuple[T, ...]:
        """One part, or several with that sign between them."""
        found = [part()]
        while self.next.kind == sign:
            self.take()
            found.append(part())
        return tuple(found)

    def claim(self) -> Claim:
        relation, conditions = self.relation(), []
        if self.next.kind == "word" and self.next.text == "for":
            self.take()
            conditions.append(self.relation())
            while self.next.kind == "," and self._a_short_condition():
                self.take()
                conditions.append(self.relation())
        return Claim(relation, tuple(conditions))

    def _a_short_condition(self) -> bool:
        """Whether a further condition follows the comma, and not the next claim: one of an index."""
        after = self.tokens[self.at + 1 : self.at + 3]
        return after[0].kind == "letter" and after[0].text in INDICES and after[1].kind in RELATIONS

    def relation(self) -> Relation:
        left = self.sum()
        if self.next.kind not in RELATIONS:
            raise self.fail("a relation is missing")
        sign = self.take().kind
        return Relation(left, sign, self.sum())

    def definition(self) -> Definition:
        head = Letter(self.take().text) if self.next.kind == "word" else self.letter()
        parameter = ""
        if self.next.kind == "(":
            self.take()
            parameter = self.letter().name
            self.take(")")
        self.take("=")
        return Definition(head, parameter, self.sum())

    # -- expressions ------------------------------------------------------------------------------

    def sum(self) -> Expression:
        terms: list[tuple[int, Expression]] = []
        sign = -1 if self.next.kind == "−" else 1
        if self.next.kind in ("−", "+"):
            self.take()
        terms.append((sign, self.product()))
        while self.next.kind in ("+", "−"):
            sign = 1 if self.take().kind == "+" else -1
            terms.append((sign, self.product()))
        return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else Sum(tuple(terms))

    def product(self) -> Expression:
        factors: list[Expression] = []
        while True:
            if self.next.kind == "/":
                if not factors:
                    raise self.fail("nothing stands above the stroke")
                self.take()
                factors = [Quotient(_product(factors), self.factor())]
            elif not self.stops():
                inner = self.factor()
                factors += inner.factors if isinstance(inner, Product) else [inner]
            elif factors:
                return _product(factors)
            else:
                raise self.fail("a factor is missing")

    def stops(self) -> bool:
        token = self.next
        if token.kind == "word" and token.text == "for":
            return True
        return token.kind in _ENDS or (token.kind == "‖" and self.in_norm)

    def factor(self) -> Expression:
        left = self.scripted()
        while self.next.kind in ("·", "∘"):
            if self.take().kind == "·":
                left = Product((Transpose(left), self.scripted()))
            else:
                left = Hadamard(left, self.scripted())
        return left

    def scripted(self) -> Expression:
        base = self.atom()
        while self.next.kind in ("^{", "'"):
            if self.take().kind == "'":
                base = Transpose(base)
                continue
            exponent = self.inside(self.sum, "}")
            base = Call("exp", (exponent,)) if base == Letter("e") else Power(base, exponent)
        return base

    def inside(self, rule: Callable[[], T], closing: str) -> T:
        """What a rule finds up to a closing bracket, in which a norm may begin anew."""
        outside, self.in_norm = self.in_norm, False
        found = rule()
        self.take(closing)
        self.in_norm = outside
        return found

    def atom(self) -> Expression:
        token = self.next
        if token.kind == "number":
            return Number(self.take().text)
        if token.kind == "(":
            self.take()
            parts = self.inside(self.listed, ")")
            return parts[0] if len(parts) == 1 else Stack(parts)
        if token.kind == "[":
            self.take()
            return self.inside(self.matrix, "]")
        if token.kind == "‖":
            self.take()
            outside, self.in_norm = self.in_norm, True
            inner = self.sum()
            self.take("‖")
            self.in_norm = outside
            return Norm(inner)
        if token.kind == "word":
            return self.call(self.take().text)
        if token.kind == "sum" or (token.text == "Σ" and self._is_summation()):
            return self.total()
        if token.kind != "letter":
            raise self.fail("a factor is missing")
        letter = self.letter()
        if letter.name in self.functions and self.next.kind == "(":
            return self.call(letter.name)
        return letter

    def listed(self) -> tuple[Expression, ...]:
        return self.separated(self.sum)

    def matrix(self) -> Expression:
        rows = self.separated(self.listed, ";")
        if rows == (rows[0][:1],):
            return rows[0][0]  # brackets around a sum
        if len({len(row) for row in rows}) > 1:
            raise self.fail("the rows of a matrix are not of one length")
        return Matrix(rows)

    def call(self, name: str) -> Expression:
        if name not in _NAMED and name not in self.functions:
            raise self.fail(f"{name} is no function known here: something else is missing")
        if self.next.kind == "(":
            self.take()
            return Call(name, self.inside(self.listed, ")"))
        if self.stops():
            raise self.fail(f"what {name} is of is missing")
        return Call(name, (self.scripted(),))

    # -- totals ------------------------------------------------------------------------------------

    def _is_summation(self) -> bool:
        """Σ is a sum where an index or a condition is under it, and a letter otherwise."""
        if self.tokens[self.at + 1].kind != "_{":
            return False
        after = self.tokens[self.at + 2]
        depth, signs = 1, []
        for token in self.tokens[self.at + 2 :]:
            depth += {"_{": 1, "^{": 1, "}": -1}.get(token.kind, 0)
            if not depth:
                break
            signs.append(token.kind)
        return (after.kind == "letter" and after.text in INDICES) or bool(set(signs).intersection(RELATIONS))

    def total(self) -> Expression:
        self.take()
        if self.next.kind != "_{":
            raise self.fail("what is summed over is missing")
        self.take()
        start, condition = self.at, None
        indices: tuple[str, ...] = ()
        while self.next.kind == "letter" and self.next.text in INDICES:
            indices += (self.take().text,)
        if self.next.kind == "}" and indices:
            self.take()
        else:
            self.at = start
            condition = self.inside(self.relation, "}")
            indices = _first_index(condition, self.fail("an index is missing under the sum"))
        return Total(indices, condition, self.product())


def _product(factors: list[Expression]) -> Expression:
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def _first_index(condition: Relation, otherwise: UnreadableError) -> tuple[str, ...]:
    """A sum over a condition is over the first index that stands in it."""
    left = condition.left
    if isinstance(left, Letter):
        if left.name in INDICES:
            return (left.name,)
        if left.indices:
            return (left.indices[0].letter,)
    raise otherwise
