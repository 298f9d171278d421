"""The data of the L0 support vector machine, and its outputs, loss and scores.

The machine is f(x) = Σ_j t_j α_j k(x, c_j) + b with 0 ≤ α_j ≤ C, for p centres c_j with the labels t_j = ±1.
It minimises ‖α‖₀ + C Σ_i w_i [1 − y_i f(x_i)]_+, where ‖α‖₀ is the number of α_j that are not 0. A pattern σ
of zeros and ones allows α_j > 0 only if σ_j = 1; L(σ) is its least loss Σ_i w_i [1 − y_i f(x_i)]_+.
:mod:`formulations.l0` states the programs; solvers and certificates need this module only, without cvxpy.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import as_weights, positive
from formulations.language.recovery import as_data, as_labels, slacks
from formulations.language.types import Vector, dense


@dataclass(frozen=True)
class L0Data:
    """The checked numbers of one problem; made by :func:`as_l0_data`."""

    K: Vector  # (n, p): the kernel matrix, K_ij = k(x_i, c_j)
    y: Vector  # (n,): labels of the samples
    C: float  # cost of a unit of loss, and upper bound of every coefficient
    weights: Vector  # (n,): w, the weights of the samples in the loss
    centres: Vector  # (p,): t, the labels of the centres
    entry_error: float | Vector = 0.0  # bound on the error of K's entries, or of each (n, p); 0 if K is exact

    @cached_property
    def column_sizes(self) -> tuple[Vector, Vector]:
        """Largest absolute entry and largest entry error of each column of K, each of shape (p,)."""
        return column_sizes(self.K, self.entry_error)

    def of_centres(self, columns: NDArray[np.intp]) -> "L0Data":
        """Return the same problem with some of the centres only."""
        error = self.entry_error
        return replace(
            self,
            K=self.K[:, columns],
            centres=self.centres[columns],
            entry_error=error[:, columns] if isinstance(error, np.ndarray) else error,
        )

    def outputs(self, alpha: Vector, b: float) -> Vector:
        """Return the outputs f_i = Σ_j K_ij t_j α_j + b, shape (n,)."""
        return np.asarray(self.K @ (self.centres * alpha) + b)

    def loss(self, alpha: Vector, b: float) -> float:
        """Return the loss Σ_i w_i [1 − y_i f_i]_+ ."""
        return float(self.weights @ slacks(self.outputs(alpha, b), self.y))

    def support(self, alpha: Vector) -> NDArray[np.bool_]:
        """Return the mask (p,) of the nonzero coefficients; up to 1e-9 C is a solver's rounding error."""
        return alpha > 1e-9 * self.C

    def score(self, alpha: Vector, b: float) -> float:
        """Return ‖α‖₀ + C times the loss, for α set to 0 outside its support."""
        support = self.support(alpha)
        return float(support.sum()) + self.C * self.loss(np.where(support, alpha, 0.0), b)

    def pattern_score(self, sigma: ArrayLike, loss: float) -> float:
        """Return Σ_j σ_j + C L(σ) from `loss` = L(σ), an upper bound on :meth:`score` of the optimal α."""
        return float(np.sum(sigma)) + self.C * loss

    def rates(self, u: Vector) -> Vector:
        """Return r_j = t_j Σ_i K_ij y_i u_i, shape (p,), for multipliers u (n,) of the margin constraints.

        If u is optimal for a pattern, [r_j]_+ is the rate at which the loss falls as the upper bound of α_j
        rises, also for centres that are not in the pattern.
        """
        return np.asarray(self.centres * (self.K.T @ (self.y * u)))


def as_l0_data(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: ArrayLike | None = None,
    centres: ArrayLike | None = None,
) -> L0Data:  # fmt: skip
    """Check the numbers of a problem.

    K (n, p) may be asymmetric, indefinite or rectangular. `centres` are the labels t of the centres; without
    them the centres are the samples, in their order.
    """
    matrix, y = as_data(K, y)
    K = dense(matrix)
    cost = positive("C", C)
    if centres is None:
        if K.shape[1] != len(y):
            raise ValueError(f"K of shape {K.shape} is not square: give centres, the labels of its columns")
        labels = y
    else:
        labels = as_labels(centres, "centres")
        if len(labels) != K.shape[1]:
            raise ValueError(
                f"centres must have shape ({K.shape[1]},) to match the columns of K, not {labels.shape}"
            )
    sample_weights = np.ones(len(y)) if weights is None else as_weights(weights, len(y))
    return L0Data(K, y, cost, sample_weights, labels)


def as_patterns(sigma: ArrayLike, p: int) -> Vector:
    """Return a pattern σ (p,), or several as rows (m, p), as zeros and ones in double precision."""
    patterns = np.asarray(sigma, dtype=float)
    if patterns.ndim not in (1, 2) or patterns.shape[-1] != p:
        raise ValueError(f"sigma must have shape ({p},), or (m, {p}) for several, not {patterns.shape}")
    if not np.isin(patterns, (0.0, 1.0)).all():
        raise ValueError("sigma must hold only 0 and 1")
    return patterns


def column_sizes(K: Vector, entry_error: ArrayLike) -> tuple[Vector, Vector]:
    """Return the largest absolute entry and the largest entry error of each column, each (p,)."""
    errors = np.broadcast_to(np.asarray(entry_error, dtype=float), K.shape)
    return np.maximum(K.max(axis=0), -K.min(axis=0)), errors.max(axis=0)
