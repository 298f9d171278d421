"""The tokens of a formula, taken one by one, and the letters among them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from formulations.notation.latex import latex_tokens
from formulations.notation.tokens import INDICES, Token, UnreadableError, text_tokens
from formulations.notation.tree import Index, Letter

__all__ = ["Cursor"]

T = TypeVar("T")


class Cursor:
    """A place among the tokens of a formula.

    Parameters
    ----------
    formula : str
        In plain text, or in LaTeX.
    functions : collection of str
        Letters that are functions where a bracket follows.
    latex : bool
        Whether the formula is LaTeX.
    """

    def __init__(self, formula: str, functions: Collection[str], latex: bool):
        self.formula, self.functions = formula, functions
        self.tokens = latex_tokens(formula) if latex else text_tokens(formula)
        self.at = 0

    @property
    def next(self) -> Token:
        """The token that is not taken yet."""
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
