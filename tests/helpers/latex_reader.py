"""The LaTeX of a formula, read back into its plain text."""

from __future__ import annotations

from formulations.language.notation.parser import GREEK, TILDE, UnreadableError

_LATEX_SYMBOLS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "succeq": "⪰", "circ": "∘", "cdot": "·", "|": "‖",
    "ln": "ln", "exp": "exp", "min": "min", "max": "max",
}  # fmt: skip
_IGNORED_COMMANDS = {
    "quad", ",", ";", " ", "!", "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr",
}  # fmt: skip
_LATEX_FUNCTIONS = {"ln", "exp", "min", "max"}


def latex_pieces(latex):
    r"""Return a formula's commands and characters, each with its position, without blanks.

    The words of ``\text{...}`` and ``\mathrm{...}`` are one piece each, unchanged.
    """
    pieces, position = [], 0
    while position < len(latex):
        start = position
        position += 1
        if latex[start].isspace():
            continue
        if latex[start] == "\\":
            while latex[position : position + 1].isalpha():
                position += 1
            position += position == start + 1
            if latex[start:position] in (r"\text", r"\mathrm") and latex[position : position + 1] == "{":
                end = latex.find("}", position)
                position = len(latex) if end < 0 else end + 1
        pieces.append((latex[start:position], start))
    return pieces


def plain_text(latex):
    r"""A formula in LaTeX as the plain text that means the same: ``\tfrac12\|w\|^2`` as ``(1/2)‖w‖²``.

    Tokens are parted by blanks, so that letters side by side are no word.
    """
    reader = _Reader(latex)
    reader.read_until(("",))
    return " ".join(reader.tokens)


class _Reader:
    """Reads the pieces of a formula in LaTeX in order and emits tokens of the plain text."""

    def __init__(self, latex):
        self.latex = latex
        self.pieces = [*latex_pieces(latex), ("", len(latex))]
        self.index = 0
        self.tokens = []

    def fail(self, sentence):
        position = self.pieces[self.index][1]  # the last piece is the end
        return UnreadableError(f"{sentence}, at character {position + 1} of {self.latex!r}")

    def next_piece(self):
        """Return the next piece and advance."""
        piece = self.pieces[self.index][0]
        if not piece:
            raise self.fail("the formula ends too early")
        self.index += 1
        return piece

    def read_until(self, ends):
        """Read pieces up to one of `ends`, advance past it, and return it."""
        while self.pieces[self.index][0] not in ends:
            if not self.pieces[self.index][0]:
                raise self.fail(f"the formula ends without {ends[0]}")
            self.read_piece()
        end = self.pieces[self.index][0]
        self.index += 1
        return end

    def read_piece(self):
        """Read one piece and its arguments."""
        piece = self.next_piece()
        if piece[0] == "\\":
            self.command(piece[1:])
        elif piece in "_^":
            self.script(piece)
        elif piece == "{":
            self.group()
        elif piece.isdigit() or piece == ".":
            self.number(piece)
        elif piece.isalpha():
            self.tokens.append(piece)
        elif piece in "+-()[],;=<>/'":
            self.tokens.append("−" if piece == "-" else piece)
        else:
            self.index -= 1
            raise self.fail(f"unknown character {piece!r}")

    def number(self, digits):
        """Read the rest of a number."""
        while self.pieces[self.index][0] and self.pieces[self.index][0] in "0123456789.":
            digits += self.next_piece()
        self.tokens.append(digits)

    def group(self):
        """Read the rest of ``{...}`` in the place of a factor."""
        self.tokens.append("(")
        self.read_until(("}",))
        self.tokens.append(")")

    def argument(self):
        r"""Read a group in braces, or a single piece: the 1 of ``\tfrac12``."""
        piece = self.next_piece()
        if piece == "{":
            self.group()
        elif piece.isdigit():
            self.tokens.append(piece)
        else:
            self.index -= 1
            self.read_piece()

    def script(self, opening):
        """Read what follows ``_`` or ``^``."""
        piece = self.next_piece()
        if opening == "^" and piece == r"\top":
            self.tokens.append("'")
        elif opening == "^" and piece in "*+-" and not self.pieces[self.index][0].isdigit():
            self.tokens.append({"+": "⁺", "-": "⁻"}.get(piece, piece))
        elif piece == "{":
            self.tokens.append(opening + "{")
            self.read_until(("}",))
            self.tokens.append("}")
        else:
            self.tokens.append(opening + "{")
            self.index -= 1
            self.argument()
            self.tokens.append("}")

    def command(self, name):
        """Read the arguments of a command and emit its tokens."""
        if name in GREEK:
            self.tokens.append(GREEK[name])
        elif name in _LATEX_FUNCTIONS:
            self.tokens.append(name)
        elif name in _LATEX_SYMBOLS:
            self.tokens.append(_LATEX_SYMBOLS[name])
        elif name == "sum":
            if self.pieces[self.index][0] != "_":
                raise self.fail("the summation index is missing")
            self.tokens.append("Σ")
        elif name == "tilde":
            self.argument()
            if not self.tokens[-1].isalpha():
                raise self.fail(r"\tilde must be followed by a letter")
            self.tokens[-1] += TILDE
        elif name in ("frac", "tfrac"):
            self.tokens.append("(")
            self.argument()
            self.tokens.append("/")
            self.argument()
            self.tokens.append(")")
        elif name == "sqrt":
            self.tokens.append("sqrt")
            self.argument()
        elif name.startswith(("text{", "mathrm{")):
            self.tokens.append(name[name.index("{") + 1 : -1].strip())
        elif name == "begin":
            self.matrix()
        elif name not in _IGNORED_COMMANDS:
            self.index -= 1
            raise self.fail(rf"unknown command \{name}")

    def environment(self):
        """Read ``{bmatrix}``."""
        name = ""
        while not name.endswith("}"):
            name += self.next_piece()
        if name != "{bmatrix}":
            raise self.fail(f"the only known environment is bmatrix, not {name[1:-1]}")

    def matrix(self):
        """Read the rest of a matrix from its ``{bmatrix}``."""
        self.environment()
        self.tokens.append("[")
        while True:
            end = self.read_until(("&", r"\\", r"\end"))
            if end == r"\end":
                self.environment()
                self.tokens.append("]")
                return
            self.tokens.append("," if end == "&" else ";")
