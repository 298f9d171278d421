"""The box |W| ≤ R that keeps the faces of a linear program bounded: its rows, and what it makes of a dual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations.arguments import positive
from formulations.program import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BOX_LETTERS", "BOX_NAMES", "box_duals", "box_rows"]

BOX_LETTERS = {"R": "the radius of the box that keeps the faces bounded"}
BOX_NAMES = ("upper", "lower")
"""What the rows of the box are called."""


def box_rows(
    faces: cp.Variable, radius: float, letter: str, names: tuple[str, str] = BOX_NAMES, index: str = "ₗ"
) -> tuple[Row, ...]:
    """The rows ``upper`` and ``lower`` of the box |W| ≤ R; none where it is infinite.

    Parameters
    ----------
    faces : cvxpy.Variable
        w, or W.
    radius : float
        R.
    letter : str
        The faces as the formulas print them.
    names : tuple of str
        What the two rows are called, where others have these names.
    index : str
        How the formulas count the entries of a face.
    """
    if np.isinf(positive("radius", radius, infinite=True)):
        return ()
    saved = "saving per unit of a wider box: not zero where the box holds the face"
    places = _places(faces.shape, index)
    return (
        Row(names[0], faces <= radius, f"{letter}{index} ≤ R", "s_plus", saved, places),
        Row(names[1], -faces <= radius, f"−{letter}{index} ≤ R", "s_minus", saved, places),
    )


def _places(shape: tuple[int, ...], index: str) -> NDArray[np.int64] | None:
    """Places by entry and face, as the letter j comes before k; None where entries come last."""
    return np.arange(int(np.prod(shape))).reshape(shape).T if index == "ⱼ" and len(shape) == 2 else None


def box_duals(
    off: cp.Expression, shape: tuple[int, ...], radius: float, text: str, letter: str,
    names: tuple[str, str] = BOX_NAMES, index: str = "ₗ",
) -> tuple[cp.Expression | float, str, dict[str, cp.Variable], tuple[Row, ...]]:  # fmt: skip
    """What the box makes of a dual: its price, how that is printed, its variables, its rows with ``balance``.

    Parameters
    ----------
    off : cvxpy.Expression
        What must balance, of the given shape.
    shape : tuple of int
        That of the faces.
    radius : float
        R; infinite, the balance is an equation, and there are no variables.
    text : str
        `off` as the formulas print it.
    letter : str
        The letter of the faces, the multipliers of ``balance``.
    names : tuple of str
        What the box's rows are called, where others have these names.
    index : str
        How the formulas count the entries of a face.
    """
    meaning = f"the faces ${letter}$, sign included"
    if np.isinf(positive("radius", radius, infinite=True)):
        row = Row("balance", off == 0, f"{text} = 0", letter, meaning)
        return 0.0, "", {}, (row,)
    face = "ₖ" if len(shape) == 2 else ""
    s_plus, s_minus = cp.Variable(shape, name="s_plus"), cp.Variable(shape, name="s_minus")
    balance = Row(
        "balance",
        off - s_plus + s_minus == 0,
        f"{text} − s⁺{face} + s⁻{face} = 0",
        letter,
        meaning,
    )
    places, under, above = _places(shape, index), "room left under the box", "room left above the box's floor"
    upper = Row(names[0], s_plus >= 0, f"s⁺{face}{index} ≥ 0", "R - W", under, places)
    lower = Row(names[1], s_minus >= 0, f"s⁻{face}{index} ≥ 0", "R + W", above, places)
    price = radius * (cp.sum(s_plus) + cp.sum(s_minus))
    return (
        price,
        f" − R Σ{face}{index} (s⁺{face}{index} + s⁻{face}{index})",
        {"s_plus": s_plus, "s_minus": s_minus},
        (balance, upper, lower),
    )
