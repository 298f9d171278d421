"""A formula in plain text or in LaTeX, cut into tokens and read into its tree by recursive descent.

Both notations end in the same tokens: subscripts open with ``_{``, powers with ``^{``, and both close with
``}``; a transposition is ``'``, and a mark of a letter (``λ*``, ``s⁺``) is a token of its own. The grammar,
from the outside in::

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
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

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

INDICES = "ijkl"
TILDE = "\u0303"
# Functions of several letters, and "for", which begins a condition; any other run of letters is a product.
WORDS = ("ent", "Ent", "exp", "for", "ln", "max", "min", "sqrt", "tr")

_SUBSCRIPTS = dict(zip("ᵢⱼₖₗ₍₎", "ijkl[]", strict=True))
_FRACTIONS = {"½": "1/2", "¼": "1/4", "¾": "3/4"}
_DIGITS = "0123456789"
_POWERS = {"²": "2", "³": "3"}
_MARKS = "*⁺⁻"
_SIGNS = "+−-·∘/()[],;=≤≥<>⪰‖'"


class UnreadableError(ValueError):
    """A formula that cannot be read; the sentence names the place."""


@dataclass(frozen=True)
class Token:
    """A piece of a formula.

    Attributes
    ----------
    kind : str
        "letter", "number", "word", "mark", "end", or the sign itself.
    text : str
        What it says.
    place : int
        Where it begins in the formula.
    """

    kind: str
    text: str
    place: int


def text_tokens(text: str) -> list[Token]:
    """The tokens of a formula in plain text."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        place = _step(text, place, found)
    return [*found, Token("end", "", len(text))]


def _step(text: str, place: int, found: list[Token]) -> int:
    """Append the tokens that begin at `place`; where the next ones do."""
    sign = text[place]
    if sign.isspace():
        return place + 1
    if sign in _DIGITS:
        return _number(text, place, found)
    if sign in _SUBSCRIPTS:
        return _subscripts(text, place, found)
    if sign in _FRACTIONS:
        above, below = _FRACTIONS[sign].split("/")
        parts = ("(", "("), ("number", above), ("/", "/"), ("number", below), (")", ")")
        found += [Token(kind, said, place) for kind, said in parts]
        return place + 1
    if sign in _POWERS:
        found += [Token("^{", sign, place), Token("number", _POWERS[sign], place), Token("}", sign, place)]
        return place + 1
    if text.startswith("⁻¹", place):
        inverse = ("^{", "⁻"), ("−", "−"), ("number", "1"), ("}", "¹")
        found += [Token(kind, said, place) for kind, said in inverse]
        return place + 2
    if sign in _MARKS:
        found.append(Token("mark", sign, place))
        return place + 1
    if sign in "_^":
        return _script(text, place, found)
    if sign in "}":
        found.append(Token("}", sign, place))
        return place + 1
    if sign in _SIGNS:
        kind = "−" if sign == "-" else sign
        found.append(Token(kind, sign, place))
        return place + 1
    if sign.isalpha():
        return _letters(text, place, found)
    raise UnreadableError(f"{sign!r} is not known, at character {place + 1} of {text!r}")


def _number(text: str, place: int, found: list[Token]) -> int:
    end = place
    while end < len(text) and (text[end] in _DIGITS or text[end] == "."):
        end += 1
    found.append(Token("number", text[place:end], place))
    return end


def _subscripts(text: str, place: int, found: list[Token]) -> int:
    """A run of small indices, ``ᵢₖ``."""
    found.append(Token("_{", text[place], place))
    while place < len(text) and text[place] in _SUBSCRIPTS:
        sign = _SUBSCRIPTS[text[place]]
        found.append(Token("letter" if sign.isalpha() else sign, sign, place))
        place += 1
    found.append(Token("}", "", place))
    return place


def _script(text: str, place: int, found: list[Token]) -> int:
    """``_λ``, ``_ff``, ``^½`` or the opening of ``_{…}`` and ``^{…}``."""
    opening = text[place] + "{"
    found.append(Token(opening, text[place], place))
    place += 1
    if text.startswith("{", place):
        return place + 1
    if place == len(text):
        raise UnreadableError(f"{text!r} ends with {text[-1]!r}, and nothing follows")
    if text[place].isalpha():
        while place < len(text) and text[place].isalpha() and text[place] not in _SUBSCRIPTS:
            found.append(Token("letter", text[place], place))
            place += 1
    else:
        place = _step(text, place, found)
    found.append(Token("}", "", place))
    return place


def _letters(text: str, place: int, found: list[Token]) -> int:
    """A word, or a single letter with its tilde."""
    end = place
    while end < len(text) and text[end].isascii() and text[end].isalpha():
        end += 1
    if text[place:end] in WORDS:
        found.append(Token("word", text[place:end], place))
        return end
    end = place + (2 if text[place + 1 : place + 2] == TILDE else 1)
    found.append(Token("letter", text[place:end], place))
    return end


T = TypeVar("T")


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
        """Apply a rule to all tokens; none may be left."""
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
            while self.next.kind == "," and self._continues_conditions():
                self.take()
                conditions.append(self.relation())
        return Claim(relation, tuple(conditions))

    def _continues_conditions(self) -> bool:
        """True if a further condition, one of an index, follows the comma, and not the next claim."""
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
        """Apply a rule up to a closing bracket, within which a norm may begin anew."""
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


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω", "Sigma": "Σ",
}  # fmt: skip
_COMMANDS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "succeq": "⪰", "circ": "∘", "cdot": "·", "|": "‖",
    "ln": "ln", "exp": "exp", "min": "min", "max": "max",
}  # fmt: skip
_NOTHING = {"quad", ",", ";", " ", "!", "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"}
_WORDS = {"ln", "exp", "min", "max"}


def latex_pieces(latex: str) -> list[tuple[str, int]]:
    r"""A formula's commands, groups and characters, each with its place, blanks left out.

    The words of ``\text{...}`` and ``\mathrm{...}`` stay as they are, and are one piece.
    """
    pieces, place = [], 0
    while place < len(latex):
        start = place
        place += 1
        if latex[start].isspace():
            continue
        if latex[start] == "\\":
            while latex[place : place + 1].isalpha():
                place += 1
            place += place == start + 1
            if latex[start:place] in (r"\text", r"\mathrm") and latex[place : place + 1] == "{":
                end = latex.find("}", place)
                place = len(latex) if end < 0 else end + 1
        pieces.append((latex[start:place], start))
    return pieces


def latex_tokens(latex: str) -> list[Token]:
    r"""The tokens of a formula in LaTeX, the same as those of its plain text."""
    reader = _Reader(latex)
    reader.upto(("",))
    return [*reader.found, Token("end", "", len(latex))]


class _Reader:
    """One pass over the pieces of a formula."""

    def __init__(self, latex: str):
        self.latex = latex
        self.pieces = [*latex_pieces(latex), ("", len(latex))]
        self.at = 0
        self.found: list[Token] = []

    def fail(self, sentence: str) -> UnreadableError:
        place = self.pieces[self.at][1]  # the last piece is the end
        return UnreadableError(f"{sentence}, at character {place + 1} of {self.latex!r}")

    def put(self, kind: str, text: str | None = None) -> None:
        self.found.append(Token(kind, kind if text is None else text, self.pieces[max(self.at - 1, 0)][1]))

    def take(self) -> str:
        piece = self.pieces[self.at][0]
        if not piece:
            raise self.fail("the formula ends too early")
        self.at += 1
        return piece

    def upto(self, ends: tuple[str, ...]) -> str:
        """Read until one of `ends`, which is taken and returned."""
        while self.pieces[self.at][0] not in ends:
            if not self.pieces[self.at][0]:
                raise self.fail(f"the formula ends without {ends[0]}")
            self.one()
        end = self.pieces[self.at][0]
        self.at += 1
        return end

    def one(self) -> None:
        piece = self.take()
        if piece[0] == "\\":
            self.command(piece[1:])
        elif piece in "_^":
            self.script(piece)
        elif piece == "{":
            self.group()
        elif piece.isdigit() or piece == ".":
            self.number(piece)
        elif piece.isalpha():
            self.put("letter", piece)
        elif piece in "+-()[],;=<>/'":
            self.put("−" if piece == "-" else piece)
        else:
            self.at -= 1
            raise self.fail(f"{piece!r} is not known")

    def number(self, digits: str) -> None:
        while self.pieces[self.at][0] and self.pieces[self.at][0] in "0123456789.":
            digits += self.take()
        self.put("number", digits)

    def group(self) -> None:
        """``{...}`` where a factor may stand."""
        self.put("(")
        self.upto(("}",))
        self.put(")")

    def argument(self) -> None:
        r"""A group in braces, or a single piece: the 1 of ``\tfrac12``."""
        piece = self.take()
        if piece == "{":
            self.group()
        elif piece.isdigit():
            self.put("number", piece)
        else:
            self.at -= 1
            self.one()

    def script(self, opening: str) -> None:
        piece = self.take()
        if opening == "^" and piece == r"\top":
            self.put("'")
        elif opening == "^" and piece in "*+-" and not self.pieces[self.at][0].isdigit():
            self.put("mark", {"+": "⁺", "-": "⁻"}.get(piece, piece))
        elif piece == "{":
            self.put(opening + "{")
            self.upto(("}",))
            self.put("}")
        else:
            self.put(opening + "{")
            self.at -= 1
            self.argument()
            self.put("}")

    def command(self, name: str) -> None:
        if name in GREEK:
            self.put("letter", GREEK[name])
        elif name in _WORDS:
            self.put("word", name)
        elif name in _COMMANDS:
            self.put(_COMMANDS[name])
        elif name == "sum":
            self.put("sum")
        elif name == "tilde":
            self.argument()
            last = self.found.pop()
            if last.kind != "letter":
                raise self.fail(r"\tilde stands on a letter")
            self.found.append(Token("letter", last.text + TILDE, last.place))
        elif name in ("frac", "tfrac"):
            self.put("(")
            self.argument()
            self.put("/")
            self.argument()
            self.put(")")
        elif name == "sqrt":
            self.put("word", "sqrt")
            self.argument()
        elif name.startswith(("text{", "mathrm{")):
            self.put("word", name[name.index("{") + 1 : -1].strip())
        elif name == "begin":
            self.matrix()
        elif name not in _NOTHING:
            self.at -= 1
            raise self.fail(rf"\{name} is not known")

    def environment(self) -> None:
        name = ""
        while not name.endswith("}"):
            name += self.take()
        if name != "{bmatrix}":
            raise self.fail(f"no environment but bmatrix is known, not {name[1:-1]}")

    def matrix(self) -> None:
        self.environment()
        self.put("[")
        while True:
            end = self.upto(("&", r"\\", r"\end"))
            if end == r"\end":
                self.environment()
                self.put("]")
                return
            self.put("," if end == "&" else ";")
