"""The LaTeX of a formula, cut into the tokens of its plain text."""

from __future__ import annotations

from formulations.language.notation.tokens import TILDE, Token, UnreadableError

__all__ = ["GREEK", "latex_pieces", "latex_tokens"]

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

    Parameters
    ----------
    latex : str
        The formula.
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
    r"""The tokens of a formula in LaTeX, the same as those of its plain text.

    Parameters
    ----------
    latex : str
        Such as ``r"\tfrac12\|w\|^2 + \sum_i C_i \xi_i"``.

    Raises
    ------
    UnreadableError
        A command that is none of the notation, or braces that do not match.
    """
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
