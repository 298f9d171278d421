"""Certificates of SPLA1.

For fixed cells it is one logistic regression for each face, convex, and its dual has a point for every w:
u_i = c_i σ(−z_i), by which the gap is ‖∇‖²/(2ρ) to the digit. Over the cells it is not convex, and
nothing here bounds that. Nor does a positive's cell bound its loss from above, h being a minimum; the
certificate is of the program for the cells that the faces have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from formulations.polyhedral import belonging, check_positives, pull, scores
from formulations.recovery import as_costs, as_data
from polyopt.certificates.certificate import Certificate, Claim, relative_gap, residual

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.polyhedral import Positives

__all__ = ["certify_spla1"]

_EMPTY = "A face without samples in its cell is left out; it is where it was."


def certify_spla1(
    X: Any,
    y: ArrayLike,
    W: ArrayLike,
    *,
    ridge: float,
    C: ArrayLike = 1.0,
    positives: Positives = "cell",
    assignment: ArrayLike | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify faces of SPLA1 (:mod:`formulations.spla1`).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels: +1 inside, -1 outside.
    W : array_like of shape (K, m+1)
        Faces, the bias last.
    ridge : float
        ρ, positive.
    C : float or array_like of shape (n,)
        Weight of each sample.
    positives : {"cell", "all"}
        Whether the positives are in the program of their cell, or in those of all faces.
    assignment : array_like of int, shape (n,), optional
        The cell of each sample; by default the one of W.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``stationary`` if every face is optimal for its cell and every sample is in the cell that W gives
        it; ``optimal`` for one face, which has one cell; else ``suboptimal_by``, within the fixed cells.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    if not 0 < ridge < np.inf:
        raise ValueError(f"ridge must be positive and finite, not {ridge!r}: without it there is no bound")
    W = np.asarray(W, dtype=float)
    if W.ndim != 2 or W.shape[1] != X.shape[1] + 1 or not np.isfinite(W).all():
        raise ValueError(f"W must be finite, of shape K x {X.shape[1] + 1}; its shape is {W.shape}")
    costs, s = as_costs(C, len(y)), scores(X, W)
    natural: NDArray[np.int64] = np.argmin(s, axis=1)
    chosen = natural if assignment is None else np.asarray(assignment, dtype=np.int64)
    if chosen.shape != y.shape or chosen.min() < 0 or chosen.max() >= len(W):
        raise ValueError(f"assignment must have shape {y.shape} and be from 0 to {len(W) - 1}")
    members = belonging(y, chosen, len(W), positives)
    used = members.sum(axis=0) > 0
    z = y[:, None] * s
    weights = costs[:, None] * members
    per_face = (weights * np.logaddexp(0.0, -z)).sum(axis=0) + 0.5 * ridge * (W**2).sum(axis=1)
    value = float(per_face[used].sum())
    pulled = pull(X, weights * y[:, None] * expit(-z))
    gradient = np.where(used[:, None], ridge * W - pulled, 0.0)
    # The terms that cancel at the optimum, not what is left of them.
    scale = float(pull(abs(X), weights * expit(-z)).max()) or 1.0
    # A positive in every program has no cell; the others pay less at the face with the least score.
    cell = np.take_along_axis(s, chosen[:, None], axis=1)[:, 0]
    moves = np.where(members.sum(axis=1) > 1, 0.0, cell - s.min(axis=1))
    size = float(np.abs(s).max()) or 1.0
    residuals = (
        residual("stationarity", "W", np.abs(gradient).max(axis=1), scale),
        residual("stationarity", "cells", moves, size),
    )
    bound = value - float((gradient**2).sum()) / (2 * ridge)
    proven = relative_gap(value, bound) <= tol and all(r.relative <= tol for r in residuals)
    single = len(W) == 1
    reached = Claim.OPTIMAL if single else Claim.STATIONARY
    notes = [] if single else ["Other cells may have a lower optimum."]
    return Certificate(
        program=f"SPLA1, positives={positives!r}",
        claim=reached if proven else Claim.SUBOPTIMAL_BY,
        primal_value=value,
        dual_value=bound,
        residuals=residuals if not single else residuals[:1],
        tol=tol,
        scope="SPLA1" if single else "the program for fixed cells",
        note=" ".join(notes if used.all() else [*notes, _EMPTY]),
    )
