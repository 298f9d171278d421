"""Points of the Convex Polytope Machine, and certificates of its programs whose faces are coupled.

The faces share multipliers where a negative has one slack for all of them (loss="max"), and the
margin budget where the longest face alone is paid for (margin="worst"). With v_k = Σ_i α_ik y_i x̃_i the
dual value is

    margin="total"   Σ α − ¼ Σ_k ‖v_k‖²
    margin="worst"   Σ α − ¼ (Σ_k ‖v_k‖)²,   with the shares θ_k = ‖v_k‖ / Σ_l ‖v_l‖,

at any α within its caps; stationary is 2 θ_k W_k = v_k, with θ_k = 1 for the total. Values and bounds are
balls (:mod:`polyopt.linalg.rounding`), whose safe ends are true of real numbers.

With a price on the weights (:mod:`formulations.cpm_sparse`) what it leaves of v_k stands in the place of v_k
(:mod:`polyopt.cpm.penalty_term`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from formulations.language.arguments import one_of
from formulations.polytope import shares
from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.feasible import within_shared_caps
from polyopt.cpm.penalty_term import held_by_groups, left_squares, price_of, root
from polyopt.linalg.rounding import Ball, product, transposed_product

if TYPE_CHECKING:
    from formulations.face_penalty import FacePenalty
    from formulations.language.types import Vector
    from formulations.polytope import Loss
    from polyopt.margin.geometry import LinearGeometry

    Margin = Literal["total", "worst"]

__all__ = [
    "CpmPoint",
    "assignment_residual",
    "bound_of",
    "check_coupled",
    "check_margin",
    "implied_faces",
    "pulls",
    "within_caps",
]


def check_margin(margin: str) -> None:
    """Refuse a margin other than "total" and "worst"."""
    one_of("margin", margin, ("total", "worst"))


@dataclass(frozen=True)
class CpmPoint:
    """A point to certify, with its data: W (K, m+1), alpha (n, K) or None, Z (n, K)."""

    geometry: LinearGeometry
    y: Vector
    C: Vector
    Z: Vector
    W: Vector
    alpha: Vector | None
    implied: bool  # W is what alpha implies
    penalty: FacePenalty | None = None  # the price of the weights

    @cached_property
    def hinge_ball(self) -> Ball:
        """[1 − y_i W_k·x̃_i]_+, shape (n, K)."""
        return (1.0 - product(self.geometry.X, self.W.T).signed(self.y[:, None])).positive()

    @property
    def hinge(self) -> Vector:
        """[1 − y_i W_k·x̃_i]_+ as computed, shape (n, K)."""
        return self.hinge_ball.mid

    @property
    def costs(self) -> Vector:
        """C_i Z_ik, shape (n, K)."""
        return self.C[:, None] * self.Z

    def value(self, loss: Loss, margin: Margin = "total") -> Ball:
        """The objective for the assignment."""
        hinge = self.hinge_ball.signed(self.Z)
        paid = hinge.sum(axis=1)
        if loss == "max":
            shared, worst = self.y < 0, hinge.max(axis=1)
            paid = Ball(np.where(shared, worst.mid, paid.mid), np.where(shared, worst.rad, paid.rad))
        return self._size(margin) + paid.dot(self.C)

    def value_of_best_assignment(self, loss: Loss = "sum", margin: Margin = "total") -> Ball:
        """The objective with each positive at the face where it pays least."""
        hinge, positive = self.hinge_ball, self.y > 0
        least, total = -((-hinge).max(axis=1)), hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1)
        paid = Ball(np.where(positive, least.mid, total.mid), np.where(positive, least.rad, total.rad))
        return self._size(margin) + paid.dot(self.C)

    def _size(self, margin: Margin) -> Ball:
        squares = Ball(self.W).square_sum(axis=1)
        size = squares.sum() if margin == "total" else squares.max()
        return size if self.penalty is None else size + price_of(self.penalty, self.W)

    def left_of(self, v: Vector, margin: Margin) -> Vector:
        """Some pulls (K, m+1) less what the price takes, for the faces at hand; unchanged without a price."""
        if self.penalty is None:
            return v
        if margin == "total":
            return self.penalty.shrunk(v)
        held = held_by_groups(self.penalty, v, self.W)
        return self.penalty.cut(v - np.column_stack([held, np.zeros(len(v))]))


def assignment_residual(point: CpmPoint) -> Residual:
    """By how much a positive's hinge would fall on its best face."""
    hinge, positive = point.hinge, point.y > 0
    gain = np.where(positive, (hinge * point.Z).sum(axis=1) - hinge.min(axis=1), 0.0)
    return residual("stationarity", "assignment", gain, 1.0)


def pulls(geometry: LinearGeometry, y: Vector, alpha: Vector) -> Vector:
    """Σ_i α_ik y_i x̃_i for every face, shape (K, m+1)."""
    return np.asarray(geometry.X.T @ (alpha * y[:, None])).T


def implied_faces(v: Vector, margin: Margin, penalty: FacePenalty | None = None) -> Vector:
    """The faces (K, m+1) that belong to some pulls; 0 where a face's share of the worst-case margin is."""
    if penalty is not None:
        v = penalty.shrunk(v) if margin == "total" else penalty.cut(v)
    if margin == "worst":
        theta = shares(v)[:, None]
        v = np.divide(v, theta, out=np.zeros_like(v), where=theta > 0)
    return 0.5 * v


def check_coupled(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> tuple[Ball, list[Residual]]:
    """A proven bound, from alpha (n, K) made feasible, and the optimality conditions at alpha itself."""
    return bound_of(point, alpha, loss, margin), _residuals(point, alpha, loss, margin)


def bound_of(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> Ball:
    """The dual value at alpha clipped to its caps and then shrunk to a negative's shared one.

    No value is below 0, which is the bound where the multipliers prove less.
    """
    feasible = within_caps(point, alpha, loss)
    pulled = transposed_product(point.geometry.X, feasible * point.y[:, None])
    if margin == "total":
        square = pulled.square_sum() if point.penalty is None else left_squares(point.penalty, pulled)
    else:
        length = _lengths(point, pulled).sum()
        square = length * length
    found = Ball(feasible).sum() - 0.25 * square
    return found if found.lower > 0.0 else Ball(0.0)


def _lengths(point: CpmPoint, pulled: Ball) -> Ball:
    """The lengths (K,) of the pulls (m+1, K), or of what a price leaves of them."""
    if point.penalty is None:
        return pulled.norm(axis=0)
    held = held_by_groups(point.penalty, pulled.mid.T, point.W)
    return root(left_squares(point.penalty, pulled, held))


def within_caps(point: CpmPoint, alpha: Vector, loss: Loss) -> Vector:
    """Alpha clipped to its caps and, for loss="max", shrunk to a negative's shared one."""
    feasible = np.clip(alpha, 0.0, point.costs)
    if loss == "sum":
        return feasible
    return np.where((point.y < 0)[:, None], within_shared_caps(feasible, point.C), feasible)


def _residuals(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> list[Residual]:
    y, shared = point.y[:, None], (point.y < 0) & (loss == "max")
    largest = float(np.abs(alpha).max()) or float(point.C.max())
    xi = np.where(shared[:, None], point.hinge.max(axis=1, keepdims=True), point.hinge)
    surplus = y * np.asarray(point.geometry.X @ point.W.T) - 1.0 + xi
    pulled = pulls(point.geometry, point.y, alpha)
    v = point.left_of(pulled, margin)
    theta = np.ones(len(v)) if margin == "total" else shares(v)
    # The faces share multipliers: a face that needs none is zero up to the rounding of the others.
    weight = max(
        float(np.abs(2 * theta[:, None] * point.W).max()),
        float(np.abs(pulled).max()),
        1e-8 * max(point.geometry.adjoint_scale(column * point.y) for column in alpha.T),
    )
    found = []
    for k in range(len(point.W)):
        found.append(residual("sign", f"margin(face {k})", -alpha[:, k], largest))
        if not point.implied:
            off = np.abs(2 * theta[k] * point.W[k] - v[k])
            found.append(residual("stationarity", f"w(face {k})", off, weight))
        found.append(
            residual("complementarity", f"margin(face {k})", np.abs(alpha[:, k] * surplus[:, k]), largest)
        )
    beta = np.where(shared[:, None], (point.C - alpha.sum(axis=1))[:, None], point.costs - alpha)
    found.append(residual("sign", "slack", -beta.min(axis=1), largest))
    found.append(residual("complementarity", "slack", np.abs(beta * xi).max(axis=1), largest))
    if margin == "worst":
        squares = (point.W**2).sum(axis=1)
        found.append(
            residual("complementarity", "norm", theta * (squares.max() - squares), float(squares.max()))
        )
    return found
