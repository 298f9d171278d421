r"""A formula as a person types it, in the notation that is read: words as ``sum_i alpha_i``, or signs.

Examples
--------
>>> as_read("sum_i alpha_i - 1/2 ||w||**2")
'Σ_i α_i - 1/2 ‖w‖^2'
"""

import re

from formulations.language.notation.parser import GREEK, TILDE, UnreadableError

__all__ = ["as_read"]

_WORDS = {**GREEK, "lam": "λ", "sum": "Σ", "log": "ln"}
_SIGNS = {"<=": "≤", ">=": "≥", "==": "=", "||": "‖", "**": "^"}
_KERNEL = r"(?<!\w)[kK]\( *x_?([ijkl]) *, *x_?([ijkl]) *\)"


def as_read(answer: str) -> str:
    r"""Rewrite a formula in the notation of :mod:`formulations.language.notation`.

    answer: in words such as ``sum_i alpha_i``, in small letters such as ``Σᵢ αᵢ``, or mixed.
    UnreadableError: It is LaTeX.
    """
    if "\\" in answer:
        raise UnreadableError("LaTeX is not read: write sum_i alpha_i, or Σᵢ αᵢ")
    text = re.sub(_KERNEL, r"K_{\1\2}", answer.strip().rstrip(".,;"))
    text = re.sub(r"(?<=[A-Za-z])~", TILDE, text)
    text = re.sub(r"(?<![A-Za-z])([A-Za-z]+)(?![A-Za-z])", lambda found: _WORDS.get(found[1], found[1]), text)
    if re.search("Σ[ijkl]", text):  # then αi is meant as αᵢ
        text = re.sub(r"(?<![A-Za-z])([A-Za-zα-ωΣ])([ijkl]{1,2})(?![A-Za-z])", r"\1_{\2}", text)
    text = re.sub(r"(_[ijkl]{1,2}|_\{[ijkl]{1,2}\})\*(?=[\w(Σ‖])", r"\1 ", text)  # times, and no star of α
    for typed, sign in _SIGNS.items():
        text = text.replace(typed, sign)
    text = re.sub(r"\^ *(?:'|T(?!\w))", "'", text)
    text = re.sub(r"\^ *\*", "*", text)
    for typed, sign in ("+", "⁺"), ("-", "⁻"), ("−", "⁻"):
        text = re.sub(rf"\^ *\{typed}(?!\d)", sign, text)
    text = re.sub(r"(?<=[\d)\]}\s])\s*\*(?=[\s\d(A-Za-zΑ-ω‖])", " ", text)  # times
    return re.sub(r"(?<!\w)1 *' *(\w\*?)", r"(Σ_{l} \1_{l})", text)
