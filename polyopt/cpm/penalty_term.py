"""The penalty on the weights of faces in a certificate: values and bounds as intervals.

An interval is a :class:`polyopt.linalg.rounding.Ball`, a midpoint and a radius that includes rounding errors.
As in :mod:`formulations.face_penalty`, λ is the penalty of the ℓ1 norm, τ that of the norms of groups, and σ
are sign constraints. The dual depends on V (K, m+1), V_k = Σ_i α_ik y_i x̃_i, through shrunk V: the entries of
V are soft-thresholded by λ and the signs, then the norms of its groups by τ.
"""

import numpy as np

from formulations.face_penalty import FacePenalty
from formulations.language.types import Vector
from polyopt.certificates.certificate import Residual, residual
from polyopt.linalg.rounding import Ball


def checked_penalty(penalty: FacePenalty | None, n_features: int) -> FacePenalty | None:
    """Return the penalty, or None if it is zero; ValueError if it is not for `n_features` features."""
    if penalty is None or penalty.is_absent:
        return None
    return penalty.checked(n_features)


def sign_residuals(penalty: FacePenalty, W: Vector, W_feasible: Vector) -> list[Residual]:
    """Return the violation of the signs by W; `W_feasible` has 0 for wrong signs. Empty without signs."""
    if not penalty.signs.any():
        return []
    return [residual("primal", "sign", np.abs(W - W_feasible), float(np.abs(W).max()))]


def penalty_value(penalty: FacePenalty, W: Vector) -> Ball:
    """Return λ Σ |W_kj| + τ Σ_l ‖W of group l‖ for faces (K, m+1)."""
    faces = W[:, :-1]
    value = penalty.l1 * Ball(np.abs(faces)).sum()
    if penalty.group == 0.0:
        return value
    return value + penalty.group * _group_norms(penalty, Ball(faces.T)).sum()


def shrunk_square_sum(penalty: FacePenalty, V: Ball) -> Ball:
    """Return ‖shrunk V‖² for V (m+1, K)."""
    sizes = thresholded_sizes(penalty, V[:-1])
    if penalty.group > 0.0:
        sizes = (_group_norms(penalty, sizes) - penalty.group).positive()
    return sizes.square_sum() + V[-1].square_sum()


def thresholded_sizes(penalty: FacePenalty, V: Ball) -> Ball:
    """Return the absolute values of V (m, K), without biases, soft-thresholded by λ and the signs."""
    up, down = (threshold[:, None] for threshold in penalty.thresholds)
    has_up, has_down = np.isfinite(up).astype(float), np.isfinite(down).astype(float)
    positive = (V - np.where(has_up, up, 0.0)).positive().signed(has_up)
    negative = (-V - np.where(has_down, down, 0.0)).positive().signed(has_down)
    return positive + negative  # at least one of the two is 0


def _group_norms(penalty: FacePenalty, sizes: Ball) -> Ball:
    """Return the norm of each group of features in sizes (m, K)."""
    if (np.bincount(penalty.groups, minlength=penalty.n_groups) <= 1).all():
        return sizes[np.argsort(penalty.groups, kind="stable")].norm(axis=1)
    norms = [sizes[penalty.groups == group].norm() for group in range(penalty.n_groups)]
    return Ball(np.array([norm.mid for norm in norms]), np.array([norm.rad for norm in norms]))
