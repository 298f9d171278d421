r"""A formula as a person types it, in the notation that is read: LaTeX, or words as ``sum_i alpha_i``.

Examples
--------
>>> as_read(r"\sum_i \alpha_i - \frac{1}{2} \lVert w \rVert^2")
'Σ_{i} α_{i} - ((1)/(2)) ‖ w ‖^{2}'
>>> as_read("sum_i alpha_i - 1/2 ||w||^2")
'Σ_i α_i - 1/2 ‖w‖^2'
"""

import re

from formulations.language.notation.parser import GREEK, TILDE, UnreadableError

__all__ = ["as_read"]

_WORDS = {**GREEK, "lam": "λ", "sum": "Σ"}
_SIGNS = {
    "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "cdot": "·",
    "circ": "∘", "odot": "∘", "lVert": "‖", "rVert": "‖", "Vert": "‖", "|": "‖", "log": "ln",
    "top": "'", "intercal": "'", "star": "*", "ast": "*", "lbrack": "[", "rbrack": "]",
}  # fmt: skip
_SILENT = (
    r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|(?:no)?limits|q?quad|math(?:bf|rm)|boldsymbol|[,;:! ()\[\]])"
    r"(?![A-Za-z])|\$"
)
_UPRIGHT = r"\\(?:mathbf|mathrm|mathit|boldsymbol|bm)\{(\\?\w+)\}"
_KERNEL = r"(?<![\w\\])[kK]\( *x_\{?([ijkl])\}? *, *x_\{?([ijkl])\}? *\)"
_PRODUCT = r"(?:\\langle|⟨)([^,⟩+−-]*?),([^,⟨+−-]*?)(?:\\rangle|⟩)"
_TYPED = {"<=": "≤", ">=": "≥", "==": "=", "||": "‖", "**": "^"}


def as_read(answer: str) -> str:
    r"""Rewrite a formula in the notation of :mod:`formulations.language.notation`.

    answer: in LaTeX, in words such as ``sum_i alpha_i``, in small letters such as ``Σᵢ αᵢ``, or mixed.
    UnreadableError: A command of LaTeX that is not known, or braces that do not match.
    """
    text = re.sub(_UPRIGHT, r" \1", answer.strip().rstrip(".,;"))
    text = re.sub(r"\s+(?=[_^])", "", re.sub(_SILENT, " ", text))
    text = re.sub(_PRODUCT, r"(\1 · \2)", re.sub(_KERNEL, r"K_{\1\2}", text))
    text = re.sub(r"_\{([ijkl]) *, *([ijkl]) *(= *1)? *\}", r"_{\1\2\3}", text)
    text = re.sub(
        r"_\{?([ijkl]{1,2}) *= *1\}?\^(?:\{\w\}|\w)", r"_{\1}", text
    )  # the limits of a sum: its index
    if "\\" in text:  # a script is one letter there, and a run of letters where it was typed in words
        text = re.sub(r"([_^])([A-Za-z0-9])", r"\1{\2}", text)
    text = _fractions(text)
    text = re.sub(r"\\(?:wide)?tilde *(?:\{(\w)\}|(\w))", lambda found: (found[1] or found[2]) + TILDE, text)
    text = re.sub(r"(?<=[A-Za-z])~", TILDE, text)
    text = re.sub(r"\\([A-Za-z]+|\|)", _command, text)
    text = re.sub(r"(?<![A-Za-z])([A-Za-z]+)(?![A-Za-z])", lambda found: _WORDS.get(found[1], found[1]), text)
    if re.search("Σ[ijkl]", text):  # then αi is meant as αᵢ
        text = re.sub(r"(?<![A-Za-z])([A-Za-zα-ωΣ])([ijkl]{1,2})(?![A-Za-z])", r"\1_{\2}", text)
    text = re.sub(r"(_[ijkl]{1,2}|_\{[ijkl]{1,2}\})\*(?=[\w(Σ‖])", r"\1 ", text)  # times, and no star of α
    for typed, sign in _TYPED.items():
        text = text.replace(typed, sign)
    text = re.sub(r"\^ *(?:\{ *('|T) *\}|'|T(?!\w))", "'", text)
    text = re.sub(r"\^ *(?:\{ *\* *\}|\*)", "*", text)
    for typed, sign in ("+", "⁺"), ("-", "⁻"), ("−", "⁻"):
        text = re.sub(rf"\^ *(?:\{{ *\{typed} *\}}|\{typed}(?!\d))", sign, text)
    text = re.sub(r"(?<=[\d)\]}\s])\s*\*(?=[\s\d(A-Za-zΑ-ω‖])", " ", text)  # times
    text = re.sub(r"(?<!\w)log(?!\w)", "ln", text)
    text = re.sub(r"(?<!\w)(?:1|\{1\}) *' *(\w\*?)", r"(Σ_{l} \1_{l})", text)
    return _grouped(text)


def _command(found: re.Match[str]) -> str:
    name = found[1]
    if name in ("ln", "exp", "min", "max", "sqrt"):
        return f" {name} "
    known = _WORDS.get(name) or _SIGNS.get(name)
    if known is None:
        raise UnreadableError(f"\\{name} is not known")
    return known


def _fractions(text: str) -> str:
    r"""Rewrite each ``\frac`` as a quotient in brackets."""
    while found := re.search(r"\\[td]?frac", text):
        above, rest = _argument(text[found.end() :])
        below, rest = _argument(rest)
        text = f"{text[: found.start()]}(({above})/({below})){rest}"
    return text


def _argument(text: str) -> tuple[str, str]:
    """Split a text into its first group or sign, as read, and the rest."""
    text = text.lstrip()
    if not text:
        raise UnreadableError("a fraction ends too early")
    if text[0] != "{":
        found = re.match(r"\\[A-Za-z]+|.", text)
        end = found.end() if found else 1
        return text[:end], text[end:]
    depth = 0
    for place, sign in enumerate(text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return text[1:place], text[place + 1 :]
    raise UnreadableError("a brace is not closed")


def _grouped(text: str) -> str:
    """Braces that only group as brackets, and powers of e as exp."""
    ends, made = [], ""
    for sign in text:
        if sign == "{":
            exponential = re.search(r"(?<![A-Za-z])e *\^ *$", made)
            if exponential:
                made = made[: exponential.start()] + "exp("
                ends.append(")")
                continue
            script = made.rstrip().endswith(("_", "^"))
            made = made.rstrip() if script else made
            ends.append("}" if script else ")")
            made += "{" if script else "("
        elif sign == "}":
            if not ends:
                raise UnreadableError("a brace is closed that was not opened")
            made += ends.pop()
        else:
            made += sign
    if ends:
        raise UnreadableError("a brace is not closed")
    return made
