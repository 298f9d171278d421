"""Formulas for a page: the LaTeX in which the programs are written, as MathML, which every browser draws."""

from __future__ import annotations

from formulations.notation.latex import GREEK, latex_pieces
from polyopt.text import escape

__all__ = ["mathml"]

_LETTERS = {**GREEK, "top": "⊤", "ln": "ln", "min": "min", "max": "max"}
_OPERATORS = {
    "le": "≤", "ge": "≥", "succeq": "⪰", "circ": "∘", "in": "∈", "|": "‖", "-": "−", "*": "∗",
    "times": "×", "pm": "±", "{": "{", "}": "}",
}  # fmt: skip
_FENCES = "()[]{}|‖"
_SPACES = {"quad": 1.0, ",": 0.17, " ": 0.35}  # widths in em, as LaTeX has them
_CELL_ENDS = ("&", r"\\", r"\end")
_SIZES = {"big": 1.2, "Big": 1.8}  # heights in em


def mathml(latex: str, *, display: bool = False) -> str:
    r"""A formula as a ``<math>`` element.

    Parameters
    ----------
    latex : str
        What :mod:`formulations` uses of LaTeX: letters, scripts, ``\tfrac``, ``\sqrt``, ``\text``,
        ``\mathrm``, ``\tilde``, sums, relations, fences of two sizes, and ``bmatrix``.
    display : bool
        Whether it stands on a separate line.

    Raises
    ------
    ValueError
        A command that is none of these, or braces that do not match.
    """
    reader = _Reader(latex)
    body = reader.row(())
    block = " display='block'" if display else ""
    return f"<math{block} displaystyle='true' alttext='{escape(latex, quote=True)}'>{body}</math>"


class _Reader:
    """A recursive descent over the tokens of one formula."""

    def __init__(self, latex: str):
        self.latex = latex
        self.tokens = [piece for piece, _ in latex_pieces(latex)]
        self.place = 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise ValueError(f"the formula ends too early: {self.latex}")
        self.place += 1
        return token

    def row(self, ends: tuple[str, ...]) -> str:
        """Atoms with their scripts up to one of `ends`, which is left to the caller."""
        parts = []
        while self.peek() not in ends:
            if not self.peek():
                if not ends:
                    break
                raise ValueError(f"the formula ends without {ends[0]}: {self.latex}")
            parts.append(self.scripted())
        return f"<mrow>{''.join(parts)}</mrow>"

    def scripted(self) -> str:
        under = self.peek() in (r"\sum", r"\min", r"\max")
        base, below, above = self.atom(), "", ""
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                below = self.argument()
            else:
                above = self.argument()
        tags = ("munder", "mover", "munderover") if under else ("msub", "msup", "msubsup")
        if below and above:
            return f"<{tags[2]}>{base}{below}{above}</{tags[2]}>"
        if below:
            return f"<{tags[0]}>{base}{below}</{tags[0]}>"
        return f"<{tags[1]}>{base}{above}</{tags[1]}>" if above else base

    def argument(self) -> str:
        """A group in braces, or a single token."""
        if self.peek() != "{":
            return self.atom()
        self.take()
        inner = self.row(("}",))
        self.take()
        return inner

    def atom(self) -> str:
        token = self.peek()
        if token == "{":
            return self.argument()
        self.take()
        if token.startswith((r"\text{", r"\mathrm{")):
            tag, words = ("mtext", token[6:-1]) if token.startswith(r"\text") else ("mi", token[8:-1])
            return f"<{tag}>{escape(words)}</{tag}>"
        if token.isdigit():
            return f"<mn>{token}</mn>"
        if not token.startswith("\\"):
            return _letter(token) if token.isalpha() else _operator(_OPERATORS.get(token, token))
        return self.command(token[1:])

    def command(self, name: str) -> str:
        if name in _LETTERS:
            return _letter(_LETTERS[name])
        if name in _OPERATORS:
            return _operator(_OPERATORS[name])
        if name in _SPACES:
            return f"<mspace width='{_SPACES[name]}em'/>"
        if name in _SIZES:
            fence = self.take().removeprefix("\\")
            size = f"{_SIZES[name]}em"
            return (
                f"<mo stretchy='true' minsize='{size}' maxsize='{size}'>{_OPERATORS.get(fence, fence)}</mo>"
            )
        if name == "sum":
            return "<mo movablelimits='false'>∑</mo>"
        if name == "tilde":
            return f"<mover accent='true'>{self.argument()}<mo stretchy='false'>~</mo></mover>"
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name in ("tfrac", "frac"):
            return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
        if name == "begin":
            return self.matrix()
        raise ValueError(rf"\{name} is not known in {self.latex}")

    def matrix(self) -> str:
        r"""The rest of ``\begin{bmatrix} a & b \\ c & d \end{bmatrix}``."""
        self.environment()
        rows, cells = [], []
        while True:
            cells.append(f"<mtd>{self.row(_CELL_ENDS)}</mtd>")
            end = self.take()
            if end != "&":
                rows.append(f"<mtr>{''.join(cells)}</mtr>")
                cells = []
            if end == r"\end":
                self.environment()
                return f"<mtable class='matrix'>{''.join(rows)}</mtable>"

    def environment(self) -> None:
        name = ""
        while self.take() != "}":
            name += self.tokens[self.place - 1]
        if name != "{bmatrix":
            raise ValueError(f"no environment but bmatrix is known, not {name[1:]} in {self.latex}")


def _letter(text: str) -> str:
    return f"<mi>{text}</mi>"


def _operator(text: str) -> str:
    fence = " stretchy='false'" if text in _FENCES else ""
    return f"<mo{fence}>{escape(text)}</mo>"
