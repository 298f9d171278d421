"""Certificates of the Convex Polytope Machine for samples in blocks, such as files or shards.

The program, with loss="sum", is that of :mod:`polyopt.cpm.certificate`, whose reductions of some samples are
used here on a block at a time, in slices. The result for a block is a *tally*: named sums, and the largest
violation of each condition. The tallies of all blocks are merged.

1. :func:`reduce_dual`: the terms of the dual value of the multipliers, Σ α and v_k = Σ_i α_ik y_i x̃_i. The
   faces that the multipliers imply are ½ v_k (:func:`implied_faces`).
2. :func:`reduce_primal`: the losses at faces W, and the violations of the optimality conditions.

:func:`certify_multipliers` makes a certificate of both tallies. The interior point solves the faces one by
one instead, as SVMs ½ ‖w‖² + Σ (C_ik/2) ξ_i, which are half of each face's program;
:func:`certify_faces` adds up their certificates (:mod:`polyopt.margin.certificate_by_blocks`).

The claim, as that in memory, is ``stationary``: the point is optimal for its
assignment, and no sample outside has a smaller hinge at another face. Values are intervals (balls) that
include rounding errors, so bounds are valid for any multipliers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix, Vector
from formulations.polytope import assignment_matrix, lift
from polyopt.certificates.certificate import Certificate, Residual
from polyopt.certificates.tally import SAMPLES_PER_SLICE, Tally
from polyopt.cpm.certificate import (
    CpmPoint,
    bound_from,
    conclude_for_assignment,
    reduce_conditions,
    residuals_of,
    size_of,
)
from polyopt.cpm.certificate import reduce_dual as reduce_dual_in_memory
from polyopt.cpm.solve import as_floats
from polyopt.linalg.rounding import Ball
from polyopt.margin.geometry import LinearGeometry

_NAME = "the Convex Polytope Machine"


class AssignedBlock(NamedTuple):
    """A block of samples with their assignment."""

    X: Matrix  # samples (n, m)
    outside: NDArray[np.bool_]  # mask (n,)
    costs: Vector  # C (n,)
    assigned: NDArray[np.integer]  # face (n,) of a sample outside, -1 inside
    scale: float = 1.0  # factor of every entry of X

    def point(self, rows: slice | NDArray[np.integer], W: Vector) -> CpmPoint:
        """Return some of the samples at faces W (K, m+1)."""
        X = as_floats(self.X[rows], self.scale).astype(np.float64, copy=False)
        y = np.where(self.outside[rows], 1.0, -1.0)
        Z = assignment_matrix(y, len(W), self.assigned[rows])
        return CpmPoint(LinearGeometry(lift(X)), y, self.costs[rows], Z, W, alpha=None, implied=False)


class Multipliers(NamedTuple):
    """Multipliers of some pairs of a sample of a block and a face; those of all other pairs are 0."""

    rows: NDArray[np.integer]  # sample
    faces: NDArray[np.integer]  # face
    alpha: Vector  # multiplier

    @classmethod
    def of(cls, alpha: Vector, rows: NDArray[np.integer], faces: NDArray[np.integer]) -> "Multipliers":
        """Return the multipliers of some pairs, for those of all pairs, alpha (n, K)."""
        return cls(rows.astype(np.int32), faces.astype(np.int32), alpha[rows, faces])

    @classmethod
    def none(cls) -> "Multipliers":
        """Return the multipliers of no pairs."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))


def reduce_dual(
    block: AssignedBlock, multipliers: Multipliers, n_faces: int, slice_size: int = SAMPLES_PER_SLICE
) -> Tally:
    """Reduce a block to the sums of the dual value at its multipliers, clipped to their caps.

    multipliers: if a pair occurs twice, its last multiplier counts.
    Returns: ``alpha`` and ``v`` (m+1, K), as balls, and ``sizes`` (m+1, K), the sums Σ_i |α_ik x̃_i|.
    """
    shape = block.X.shape[1] + 1, n_faces
    tally = Tally(0, {"alpha": Ball(0.0), "v": Ball(np.zeros(shape)), "sizes": np.zeros(shape)})
    used, position = np.unique(multipliers.rows, return_inverse=True)  # samples with multipliers
    A = np.zeros((len(used), n_faces))
    A[position, multipliers.faces] = multipliers.alpha
    no_faces = np.zeros((n_faces, block.X.shape[1] + 1))  # the dual value does not depend on them
    for first in range(0, len(used), slice_size):
        part = slice(first, first + slice_size)
        point = block.point(used[part], no_faces)
        terms = reduce_dual_in_memory(point, A[part])
        terms.sums["sizes"] = np.asarray(abs(point.geometry.X).T @ np.abs(A[part]))
        tally.append(terms)
    tally.n = block.X.shape[0]
    return tally


def implied_faces(dual: Tally) -> Vector:
    """Return the faces (K, m+1) that the merged :func:`reduce_dual` implies."""
    return np.ascontiguousarray(0.5 * dual.sums["v"].mid.T)


def reduce_primal(
    block: AssignedBlock, multipliers: Multipliers, W: Vector, min_decrease: float,
    slice_size: int = SAMPLES_PER_SLICE,
) -> Tally:  # fmt: skip
    """Reduce a block to the losses of its samples at faces W (K, m+1) and the violations of all conditions.

    min_decrease: decrease of its hinge for which a sample outside would change its face.
    Returns: the tally of :func:`reduce_conditions`; with the decrease of the hinges, and the sums ``loss``,
        a ball, and ``moved``, the costs of samples outside that would change their face.
    """
    order = np.argsort(multipliers.rows, kind="stable")
    rows, faces, alpha = (array[order] for array in multipliers)  # in the order of samples
    tally = Tally()
    for first in range(0, block.X.shape[0], slice_size):
        point = block.point(slice(first, first + slice_size), W)
        low, high = np.searchsorted(rows, [first, first + len(point.y)])
        A = np.zeros(point.Z.shape)  # the multipliers of the slice
        A[rows[low:high] - first, faces[low:high]] = alpha[low:high]
        terms, decreases = reduce_conditions(point, A), point.hinge_decreases()
        terms.note("stationarity", "assignment", decreases)
        terms.sums |= {
            "loss": point.total_loss(), "moved": float(point.C[decreases > min_decrease].sum())
        }  # fmt: skip
        tally.append(terms)
    return tally


def certify_multipliers(dual: Tally, primal: Tally, W: Vector, tol: float) -> Certificate:
    """Certify faces W (K, m+1) by the merged :func:`reduce_dual`, and :func:`reduce_primal` at W."""
    value, size = size_of(W) + primal.sums["loss"], float(dual.sums["sizes"].max())
    residuals = residuals_of(primal, W, dual.sums["v"].mid.T, size)
    return _conclude(value, bound_from(dual), residuals, reassignment_of(primal), len(W), tol)


def reassignment_of(primal: Tally) -> Residual:
    """Return the largest decrease of the hinge of a sample outside by a change of its face."""
    return primal.residual("stationarity", "assignment", 1.0)


def certify_faces(halves: Sequence[Certificate], reassignment: Residual, tol: float) -> Certificate:
    """Combine the certificates of half of each face's program; `reassignment` is of the merged tally."""
    primal = 2.0 * Ball(np.array([half.primal_value for half in halves])).sum()
    dual = 2.0 * Ball(np.array([half.dual_value for half in halves])).sum()
    dual = dual if dual.lower > 0.0 else Ball(0.0)  # the objective is nonnegative
    residuals = [
        replace(
            residual,
            row=f"{residual.row}(face {k})",
            value=2.0 * residual.value,
            worst=residual.worst if residual.row == "w" else None,  # else an index among the face's samples
        )
        for k, half in enumerate(halves)
        for residual in half.residuals
    ]
    certificate = _conclude(primal, dual, residuals, reassignment, len(halves), tol)
    return replace(certificate, rounding=certificate.rounding + 2.0 * sum(half.rounding for half in halves))


def _conclude(
    primal: Ball, dual: Ball, residuals: list[Residual], reassignment: Residual, n_faces: int, tol: float
) -> Certificate:
    scope = _NAME if n_faces == 1 else "the fixed-assignment program"
    return conclude_for_assignment(
        f"{_NAME}, loss='sum'", primal, dual, residuals, tol, reassignment if n_faces > 1 else None, scope
    )
