"""Formulas for a page: the LaTeX in which the programs are written, as MathML, which every browser draws."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from math_core import LatexError, LatexToMathML

from polyopt.base.text import escape

__all__ = ["held", "mathml", "pieces", "prose"]

_OPENING = '<math display="block">'
_WORDS = r"\text{"
_FOLLOWED = re.compile(r"(<math displaystyle(?:(?!</math>).)*</math>)([.,;:)!?]+)", re.S)


@cache
def _converter() -> LatexToMathML:
    return LatexToMathML(fancy_error=False)


def mathml(latex: str, *, display: bool = False) -> str:
    r"""A formula as a ``<math>`` element.

    ValueError: A command that is not known, or braces that do not match.
    """
    try:
        drawn = _converter().convert_with_local_state(latex, displaystyle=True)
    except LatexError as error:
        place, _, what = str(error).partition(": ")
        where = f"at character {int(place) + 1} of the formula {latex}"
        raise ValueError(f"{what.rstrip('.')}, {where}") from None
    # The names of HTML are none of XML, in which pictures and formulas are read as well.
    body = drawn.removeprefix(_OPENING).replace("&ApplyFunction;", "\u2061")
    block = " display='block'" if display else ""
    return f"<math{block} displaystyle='true' alttext='{escape(latex, quote=True)}'>{body}"


def held(html: str) -> str:
    """A page whose points and brackets stay in the line of the formula that they follow.

    A browser may break a line on either side of a formula, as it does of a picture.
    """
    return _FOLLOWED.sub(r"<span style='white-space:nowrap'>\1\2</span>", html)


def prose(latex: str) -> str:
    r"""A formula with words after it as a line of text, which breaks between its words.

    latex: such as ``C_i\text{: the price of sample }i``; words within braces or scripts stay in their
        formula.
    ValueError: as of :func:`mathml`.
    """
    return "".join(escape(part, quote=False) if is_text else mathml(part) for is_text, part in pieces(latex))


def pieces(latex: str) -> Iterator[tuple[bool, str]]:
    """The words of a formula and the formulas between them, in their order: whether words, and which."""
    formula, place, depth = "", 0, 0
    while place < len(latex):
        if depth == 0 and latex.startswith(_WORDS, place) and not formula.endswith(("_", "^")):
            end = latex.find("}", place)
            if formula.strip():
                yield False, formula
            yield True, latex[place + len(_WORDS) : end]
            formula, place = "", end + 1
            continue
        step = 2 if latex[place] == "\\" else 1
        depth += {"{": 1, "}": -1}.get(latex[place], 0)
        formula, place = formula + latex[place : place + step], place + step
    if formula.strip():
        yield False, formula
