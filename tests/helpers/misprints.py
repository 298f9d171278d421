"""Misprints to plant into a formula, one at a time."""

from __future__ import annotations

from helpers.latex_reader import latex_pieces

from formulations.language.notation.parser import GREEK, INDICES, text_tokens

_TEXT = {
    "+": ["−"], "−": ["+", ""], "½": ["", "¼"], "¼": ["½", ""], "≤": ["≥", "=", "<"], "≥": ["≤", "="],
    "=": ["≤", "≥"], "⪰": ["≥"], "<": [">"], ">": ["<"], "0": ["1"], "1": ["2", "0"], "2": ["1", "3"],
    "²": ["", "³"], "'": [""], "‖": [""], "ᵢ": ["ⱼ", "ₖ", ""], "ⱼ": ["ᵢ", "ₖ", ""], "ₖ": ["ᵢ", "ⱼ", ""],
    "ₗ": ["ᵢ", "ⱼ", "ₖ"], "Σ": [""], "·": ["∘", " "], "∘": ["·", " "], "/": [" "], "*": [""], "⁺": ["⁻"],
    "⁻": ["⁺"], "(": [""], ")": [""],
}  # fmt: skip
_LATEX = {
    "+": ["-"], "-": ["+", ""], r"\tfrac": [""], r"\le": [r"\ge", "="], r"\ge": [r"\le", "="],
    "=": [r"\le", r"\ge"], r"\succeq": [r"\ge"], "<": [">"], ">": ["<"], "0": ["1"], "1": ["2", "0"],
    "2": ["1", "3"], "4": ["2"], "*": [""], r"\sum": [""], r"\top": ["2"], r"\|": [""], "i": ["j", "k", ""],
    "j": ["i", "k", ""], "k": ["i", "j", ""], "l": ["i", "j", "k"], r"\circ": [""], "(": [""], ")": [""],
}  # fmt: skip


def letters_of(formulas: list[str]) -> list[str]:
    """The letters of some formulas in plain text, those of words and indices left out."""
    found = {
        token.text
        for formula in formulas
        for token in text_tokens(formula)
        if token.kind == "letter" and formula.startswith(token.text, token.position)
    }
    return sorted(found - {"Σ"})


def text_misprints(formula: str, letters: list[str]) -> list[str]:
    """A formula in plain text with every sign changed, dropped or exchanged in turn.

    Parameters
    ----------
    formula : str
        The formula.
    letters : list of str
        What a letter may be confused with.
    """
    found = [
        formula[:at] + other + formula[at + 1 :]
        for at, sign in enumerate(formula)
        for other in _TEXT.get(sign, ())
    ]
    for token in text_tokens(formula):
        if token.kind == "letter" and formula.startswith(token.text, token.position) and token.text != "Σ":
            after = token.position + len(token.text)
            found += [
                formula[: token.position] + other + formula[after:]
                for other in ("", *letters)
                if other != token.text
            ]
    return list(dict.fromkeys(found))


def latex_misprints(formula: str, letters: list[str]) -> list[str]:
    """The same of a formula in LaTeX; arguments as in :func:`text_misprints`."""
    commands = {sign: "\\" + name for name, sign in GREEK.items()}
    pieces = [piece for piece, _ in latex_pieces(formula)]
    known = [
        commands.get(letter, rf"\tilde {letter[0]}" if len(letter) > 1 else letter) for letter in letters
    ]
    found = []
    for at, piece in enumerate(pieces):
        others = list(_LATEX.get(piece, ()))
        if piece in commands.values() or (piece.isalpha() and piece not in INDICES):
            others += ["", *known]
        found += [" ".join([*pieces[:at], other, *pieces[at + 1 :]]) for other in others if other != piece]
    return list(dict.fromkeys(found))
