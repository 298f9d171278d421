"""The plain text of a formula, cut into tokens.

Both notations end in the same tokens: subscripts open with ``_{``, powers with ``^{``, and both close with
``}``; a transposition is ``'``, and a mark of a letter (``λ*``, ``s⁺``) is a token of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INDICES", "TILDE", "WORDS", "Token", "UnreadableError", "text_tokens"]

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
    """The tokens of a formula in plain text.

    Parameters
    ----------
    text : str
        Such as ``"½‖w‖² + Σᵢ Cᵢ ξᵢ"``.

    Raises
    ------
    UnreadableError
        A character that is none of the notation.
    """
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
