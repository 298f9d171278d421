"""Kernel linear discriminant analysis, a baseline: for the papers' tables; not advertised as more.

Two classes are told apart by ``f(x) = Σ_i α_i k(x_i, x) + b`` (Mika, Rätsch, Weston, Schölkopf & Müller,
Fisher Discriminant Analysis with Kernels, 1999). With the class means ``m_c = K_c 1/n_c``,
``N = Σ_c K_c (I − 11'/n_c) K_c'`` (K_c: the columns of class c) and the regularisation ``S_w + εI`` in
feature space, ``α = (N + εK)⁻¹ (m₊ − m₋)``. It is found from ``(H K + εI) α = δ``, which has one solution
even where K is singular; H centres each class and ``δ_i = ±1/n_c``. b puts the boundary half-way between the
projected class means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

__all__ = ["fisher_direction"]


def fisher_direction(K: Vector, positive: NDArray[np.bool_], eps: float) -> tuple[Vector, float]:
    """The discriminant of two classes, of a Gram matrix (n, n): coefficients α (n,), and b."""
    members = np.column_stack([~positive, positive]).astype(float)
    means = members / members.sum(axis=0)  # (n, 2): K means are m₋ and m₊
    centred = K - members @ (means.T @ K)  # H K
    alpha = np.linalg.solve(centred + eps * np.eye(len(K)), means[:, 1] - means[:, 0])
    return alpha, float(-0.5 * alpha @ K @ means.sum(axis=1))
