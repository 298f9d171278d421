"""The box |W| ≤ R that keeps the faces of a linear program bounded: its rows, and what it makes of a dual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations.language.arguments import positive
from formulations.language.program import Row

if TYPE_CHECKING:
    pass

__all__ = ["BOX_LETTERS", "box_duals", "box_rows"]

BOX_LETTERS = {"R": "the radius of the box that keeps the faces bounded"}


def box_rows(faces: cp.Variable, radius: float, letter: str) -> tuple[Row, ...]:
    """The rows ``upper`` and ``lower`` of the box |W| ≤ R; none where it is infinite.

    Parameters
    ----------
    faces : cvxpy.Variable
        w, or W.
    radius : float
        R.
    letter : str
        The faces as the formulas print them.
    """
    if np.isinf(positive("radius", radius, infinite=True)):
        return ()
    saved = "saving per unit of a wider box: not zero where the box holds the face"
    return (
        Row("upper", faces <= radius, f"{letter}ₗ ≤ R", "s_plus", saved),
        Row("lower", -faces <= radius, f"−{letter}ₗ ≤ R", "s_minus", saved),
    )


def box_duals(
    off: cp.Expression, radius: float, text: str, letter: str
) -> tuple[cp.Expression | float, str, dict[str, cp.Variable], tuple[Row, ...]]:
    """What the box makes of a dual: its price, how that is printed, its variables, its rows with ``balance``.

    Parameters
    ----------
    off : cvxpy.Expression
        What must balance, of the shape of the faces.
    radius : float
        R; infinite, the balance is an equation, and there are no variables.
    text : str
        `off` as the formulas print it.
    letter : str
        The letter of the faces, the multipliers of ``balance``.
    """
    meaning = f"the faces ${letter}$, sign included"
    if np.isinf(positive("radius", radius, infinite=True)):
        row = Row("balance", off == 0, f"{text} = 0", letter, meaning)
        return 0.0, "", {}, (row,)
    k = "ₖ" if off.ndim == 2 else ""
    s_plus, s_minus = cp.Variable(off.shape, name="s_plus"), cp.Variable(off.shape, name="s_minus")
    text = f"{text} − s⁺{k} + s⁻{k} = 0"
    rows = (
        Row("balance", off - s_plus + s_minus == 0, text, letter, meaning),
        Row("upper", s_plus >= 0, f"s⁺{k}ₗ ≥ 0", "R - W", "room left under the box"),
        Row("lower", s_minus >= 0, f"s⁻{k}ₗ ≥ 0", "R + W", "room left above the box's floor"),
    )
    price = radius * (cp.sum(s_plus) + cp.sum(s_minus))
    return price, f" − R Σ{k}ₗ (s⁺{k}ₗ + s⁻{k}ₗ)", {"s_plus": s_plus, "s_minus": s_minus}, rows
