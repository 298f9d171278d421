"""What is true of the hinge family: values of points and the best value known, from the programs as stated.

min_{w,b}  ½ ‖w‖² + Σ C_i [1 − y_i f_i]_+      f_i = w'φ(x_i) + b                       the SVM
with |f_i| ≤ B as well                                                                  the RMM
with (1−D) ‖w‖² + D w'Σw in place of ‖w‖²                                               the Sigma-SVM
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.campaign.dual import propose
from benchmarks.campaign.extended import (
    EPS,
    LD,
    best_intercept,
    centred,
    cholesky,
    factor,
    kernel_matrix,
    product,
    solve_triangular,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Hinge", "Point"]

_RIDGES = (1e-14, 1e-11, 1e-8)
_ROUNDING = 2.0**-50  # relative: an eigenvalue below minus that, times n and the largest entry, is negative


@dataclass(frozen=True)
class Point:
    """A point's true objective and the error of that, its outputs and theirs, and by how much it is outside.

    A point outside its bounds has the value of the feasible point on its ray.
    """

    value: Any
    error: Any
    outputs: Array
    beyond: float = 0.0
    off: Any = 0.0


class Hinge:
    """One problem of the family.

    `X` has the samples as they were given (the Gram matrix for a precomputed kernel), `costs` is C times
    their weights, `B` bounds the outputs, `D` is the share of the output variance, and `weights` are those
    of mean and variance.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        costs: Array,
        kernel: dict[str, Any],
        B: float = np.inf,
        D: float | None = None,
        weights: Array | None = None,
    ):
        self.X, self.y, self.costs = (np.asarray(part, dtype=LD) for part in (X, y, costs))
        self.kernel, self.B, self.D = kernel, B, D
        self.is_linear = kernel["name"] == "linear"
        self.s = np.ones(len(y), LD) if weights is None else np.asarray(weights, dtype=LD)

    # -- values of points ------------------------------------------------------------------------

    def at_hyperplane(self, w: Array, b: Any) -> Point:
        """The point of a linear machine whose outputs are w'x + b."""
        w = np.asarray(w, dtype=LD)
        g, error = product(self.X, w)
        square = w @ w
        square_error = (len(w) + 2) * EPS * square
        if self.D is not None:
            t = self._centred_samples @ w
            off = (len(w) + 4) * EPS * ((abs(self.X) + abs(self._mean)) @ abs(w))
            total = self.s.sum()
            square_error *= 1 - LD(self.D)
            square = (1 - LD(self.D)) * square + LD(self.D) * (self.s @ t**2) / total
            square_error += (
                LD(self.D) * (self.s @ (2 * abs(t) * off + off**2)) / total + len(t) * EPS * square
            )
        return self._finish(g + LD(b), error + 2 * EPS * (abs(g) + abs(LD(b))), square, square_error)

    def at_expansion(self, v: Array, b: Any) -> Point:
        """The point Σ v_j k(x_j, x) + b, k the kernel as it is given."""
        v = np.asarray(v, dtype=LD)
        K, off = self.gram
        g, error = product(K, v)
        error = error + off @ abs(v)
        if self.D is not None:
            return self._spread_out(v, g, error, LD(b))
        return self._finish(
            g + LD(b),
            error + 2 * EPS * (abs(g) + abs(LD(b))),
            v @ g,
            abs(v) @ error + len(v) * EPS * (abs(v) @ abs(g)),
        )

    def _spread_out(self, v: Array, g: Array, error: Array, b: Any) -> Point:
        """The Sigma-SVM's point w = Σ v_j φ(x_j) with scores g."""
        D, total = LD(self.D), self.s.sum()
        t = g - self.s @ g / total
        wider = 2 * error.max() + 4 * EPS * abs(g).max()
        square = (1 - D) * (v @ g) + D * (self.s @ t**2) / total
        off = (1 - D) * (abs(v) @ error + len(v) * EPS * (abs(v) @ abs(g)))
        off += D * (self.s @ (2 * abs(t) * wider + wider**2)) / total + len(v) * EPS * abs(square)
        return self._finish(g + b, error + 2 * EPS * (abs(g) + abs(b)), square, off)

    def at_centred(self, v: Array, b: Any) -> Point:
        """The point w = Σ v_j φ_c(x_j) of the Sigma-SVM, b for centred features."""
        v = np.asarray(v, dtype=LD)
        g, error = product(self._centred_gram, v)
        error = error + 4 * (self.gram[1].max() + 4 * EPS * abs(self.gram[0]).max()) * abs(v).sum()
        D, total = LD(self.D), self.s.sum()
        square = (1 - D) * (v @ g) + D * (self.s @ g**2) / total
        off = (1 - D) * (abs(v) @ error) + D * (self.s @ (2 * abs(g) * error + error**2)) / total
        return self._finish(
            g + LD(b), error + 2 * EPS * (abs(g) + abs(LD(b))), square, off + len(v) * EPS * square
        )

    def _finish(self, f: Array, error: Array, square: Any, square_error: Any) -> Point:
        reach = abs(f).max()
        scale = LD(self.B) / reach if reach > self.B else LD(1)
        paid = np.maximum(0, 1 - self.y * scale * f)
        value = scale**2 * square / 2 + self.costs @ paid
        off = square_error / 2 + self.costs @ (error + EPS * (1 + abs(f))) + (len(f) + 4) * EPS * abs(value)
        beyond = max(float(reach - error.max() - self.B), 0.0) if np.isfinite(self.B) else 0.0
        return Point(value, off, f, beyond, error)

    # -- the best point known --------------------------------------------------------------------

    @cached_property
    def best(self) -> Point:
        """The best point that the checker's own solver finds; of an indefinite matrix, for the lifted one."""
        if not np.isfinite(self.costs).all():
            return Point(LD(np.inf), LD(0), np.zeros_like(self.y))
        with np.errstate(all="ignore"):
            found = [self._zero(), *self._proposed()]
        if self.D == 1.0 and self.kernel["name"] == "rbf":
            found.append(self._free())
        return min((p for p in found if np.isfinite(p.value + p.error)), key=lambda p: p.value + p.error)

    def _zero(self) -> Point:
        """The point w = 0 with its best b."""
        f = np.zeros_like(self.y)
        f += best_intercept(f, self.y, self.costs, self.B)
        return self._finish(f, 0 * f, LD(0), LD(0))

    def _free(self) -> Point:
        """The optimum for D = 1 where outputs can be anything at distinct samples.

        The RBF kernel is strictly definite, and at D = 1 only the outputs are paid for: the program is the
        linear one on indicators of the distinct samples.
        """
        distinct, which = np.unique(self.X, axis=0, return_inverse=True)
        indicators = np.eye(len(distinct))[which.ravel()]
        return Hinge(indicators, self.y, self.costs, {"name": "linear"}, self.B, 1.0, self.s).best

    def _proposed(self) -> list[Point]:
        found = []
        for ridge in _RIDGES if self.D is not None and self.D > 1 - 1e-6 else (0.0,):
            F, back = self._factor(ridge)
            beta, _ = propose(F, self.y, self.costs, self.B)
            for part in (beta, beta - beta.mean()):
                at, v = back(part)
                found.append(at(v, best_intercept(at(v, LD(0)).outputs, self.y, self.costs, self.B)))
        return found

    def _factor(self, ridge: float) -> tuple[Array, Any]:
        """F with F F' the (centred) Gram matrix of the metric, and the way from β to a point.

        A metric that may be singular, at D = 1, gets a ridge relative to its size.
        """
        if self.is_linear and self.D is None:
            F = self._centred_samples
            return F, lambda beta: (self.at_hyperplane, F.T @ beta)
        if self.is_linear:
            Xc, D = self._centred_samples, LD(self.D)
            M = (1 - D) * np.eye(Xc.shape[1]) + D * (Xc * self.s[:, None]).T @ Xc / self.s.sum()
            used = M.diagonal() > 0
            L = cholesky((M + np.diag(ridge * M.diagonal()))[np.ix_(used, used)])
            F = _forward(L, Xc[:, used].T).T

            def back(beta: Array) -> Any:
                w = np.zeros(len(used), LD)
                w[used] = solve_triangular(L, Xc[:, used].T @ beta)
                return self.at_hyperplane, w

            return F, back
        if self.D is None:
            K = centred(self.gram[0]) + self.lift * np.eye(len(self.y))
            return factor(K), lambda beta: (self._lifted_expansion, beta)
        root, L = np.sqrt(self.s), self._metric_factor(ridge)
        inner = solve_triangular(L, self._weighted_gram) / np.outer(root, root)

        def spread(beta: Array) -> Any:
            return self.at_centred, root * solve_triangular(L, beta / root)

        return factor((inner + inner.T) / 2), spread

    def _lifted_expansion(self, v: Array, b: Any) -> Point:
        """As `at_expansion`, for K + lift I: what an indefinite matrix is a rounding of."""
        point = self.at_expansion(v - 0, b)
        if self.lift == 0:
            return point
        f = point.outputs + self.lift * v
        K, off = self.gram
        square = v @ (K @ v) + self.lift * (v @ v)
        return self._finish(
            f, (off + len(v) * EPS * abs(K)) @ abs(v), square, len(v) * EPS * (abs(v) @ abs(K) @ abs(v))
        )

    # -- parts -----------------------------------------------------------------------------------

    @cached_property
    def gram(self) -> tuple[Array, Array]:
        """The Gram matrix and its error."""
        return kernel_matrix(self.X, **self.kernel)

    @cached_property
    def lift(self) -> Any:
        """By how much the least eigenvalue is below zero, beyond rounding; 0 where that cannot be."""
        if self.is_linear or self.kernel["name"] == "rbf":
            return LD(0)
        K = self.gram[0].astype(float)
        least = float(np.linalg.eigvalsh((K + K.T) / 2)[0])
        return LD(-least * (1 + 1e-9)) if least < -_ROUNDING * len(K) * abs(K).max() else LD(0)

    def rounding(self, v: Array, b: Any) -> Array:
        """What a product with a matrix that is given may lose in double precision; 0 for kernels by formula.

        A formula can be evaluated otherwise, a matrix or a user's function cannot.
        """
        if not (callable(self.kernel["name"]) or self.kernel["name"] == "precomputed"):
            return np.zeros_like(self.y)
        size = abs(self.gram[0]) @ abs(np.asarray(v, dtype=LD)) + abs(LD(b))
        return (len(self.y) + 8) * 2.0**-53 * size

    @cached_property
    def _mean(self) -> Array:
        return self.s @ self.X / self.s.sum()

    @cached_property
    def _centred_samples(self) -> Array:
        return self.X - self._mean

    @cached_property
    def _centred_gram(self) -> Array:
        return centred(self.gram[0] + self.lift * np.eye(len(self.y)), self.s)

    @cached_property
    def _weighted_gram(self) -> Array:
        root = np.sqrt(self.s)
        return self._centred_gram * np.outer(root, root)

    def _metric_factor(self, ridge: float) -> Array:
        """Of (1−D) I + D/N S^½ Kc S^½ with a ridge."""
        D, G = LD(self.D), self._weighted_gram / self.s.sum()
        return cholesky((1 - D + ridge * abs(G).max()) * np.eye(len(self.y)) + D * G)


def _forward(L: Array, R: Array) -> Array:
    """``L^{-1} R``."""
    R = np.array(R, dtype=LD)
    for k in range(len(L)):
        R[k] = (R[k] - L[k, :k] @ R[:k]) / L[k, k]
    return R
