"""What PLUME's M-step has in common where its faces have few features, or whole coefficients.

The weights are W (K, m) and the biases b (K,), apart from each other: only weights are chosen, or whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations import plume
from formulations.polytope import lift
from formulations.program import Row

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LETTERS", "model", "places"]

LETTERS = {
    **{letter: says for letter, says in plume.LETTERS.items() if letter != "x̃ᵢ"},
    "xᵢ": "sample $i$",
}
"""What the letters of both say."""


def model(
    X: NDArray[Any], y: NDArray[Any], R: ArrayLike, gamma: float, C: ArrayLike, ridge: float,
    W: cp.Expression, printed: str = "Wₖ·xᵢ",
) -> tuple[cp.Expression, dict[str, cp.Variable], dict[str, cp.Parameter], Row]:  # fmt: skip
    """What the scores cost, the variables b and S, the parameters, and the row of the scores.

    Parameters
    ----------
    X, y, R, gamma, C, ridge
        As in :func:`formulations.plume.m_step`.
    W : cvxpy.Expression of shape (K, m)
        The weights.
    printed : str
        Their part of a score, as it is printed.

    Raises
    ------
    ValueError
        Responsibilities of another number of faces.
    """
    plain = plume.m_step(X, y, R, gamma, C, ridge)
    S, K = plain.variables["S"], W.shape[0]
    if S.shape[1] != K:
        raise ValueError(f"R must have a column for each of the {K} faces, not {S.shape[1]}")
    b = cp.Variable(K, name="b")
    faces = cp.hstack([W, cp.reshape(b, (K, 1), order="C")])
    score = Row(
        "score", S - lift(X) @ faces.T == 0, f"Sᵢₖ = {printed} + bₖ", "alpha",
        "what sample i pulls at face k: its weight in $ρ bₖ = Σᵢ αᵢₖ$",
    )  # fmt: skip
    parameters = dict(plain.parameters)
    return plume.expected_loss(S, parameters, y, gamma), {"b": b, "S": S}, parameters, score


def places(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """By feature and face, as the formulas' indices go, the place of an entry of a row for faces.

    Parameters
    ----------
    shape : tuple of int
        (K, m), of the row.
    """
    return np.arange(shape[0] * shape[1]).reshape(shape).T
