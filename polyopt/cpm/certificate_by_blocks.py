"""Certificates of the Convex Polytope Machine for samples in blocks, such as files or shards.

With loss="sum" and a fixed assignment of the samples outside to faces, the faces are independent programs.
That of face k and its dual are

    min  ‖w‖² + Σ_i C_ik max(0, 1 − y_i w·x̃_i)      max  Σ_i α_ik − ‖½ Σ_i α_ik y_i x̃_i‖²,   0 ≤ α_ik ≤ C_ik,

with x̃ = (x, 1), and C_ik = C_i for samples inside and for those outside that are assigned to k, else 0. Two
reductions over the blocks suffice. The result for a block is a *tally*: named sums, and the largest violation
of each condition; the tallies of all blocks are merged.

1. :func:`reduce_dual`: the dual value of the multipliers, and the faces ½ Σ_i α_ik y_i x̃_i that they imply.
2. :func:`reduce_primal`: the losses at faces W and the violations of the optimality conditions.

:func:`certify_halves` makes certificates of half of each face's program, the SVM ½ ‖w‖² + Σ (C_ik/2) ξ_i;
:func:`certify_faces` adds them up. The claim, as that in memory, is ``stationary``: the point is optimal for
its assignment, and no sample outside has a smaller hinge at another face. Values are intervals (balls) that
include rounding errors, so bounds are valid for any multipliers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix, Vector, is_sparse
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, Residual, conclude
from polyopt.certificates.tally import SAMPLES_PER_SLICE, Tally
from polyopt.cpm.certificate import conclude_for_assignment
from polyopt.linalg.rounding import ABOVE, Ball, gamma, transposed_product
from polyopt.margin.certificate import stationarity

_NAME = "the Convex Polytope Machine"


class AssignedBlock(NamedTuple):
    """A block of samples with their assignment."""

    X: Matrix  # samples (n, m)
    outside: NDArray[np.bool_]  # mask (n,)
    costs: Vector  # C (n,)
    assigned: NDArray[np.integer]  # face (n,) of a sample outside, -1 inside

    def caps(self, rows: NDArray[np.integer], faces: NDArray[np.integer]) -> Vector:
        """Return the cap C_ik of each pair of a sample and a face."""
        has_cap = ~self.outside[rows] | (self.assigned[rows] == faces)
        return np.asarray(np.where(has_cap, self.costs[rows], 0.0))


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


def reduce_dual(block: AssignedBlock, multipliers: Multipliers, n_faces: int) -> Tally:
    """Reduce a block to Σ_i α_ik and ½ Σ_i α_ik y_i x̃_i of the clipped multipliers.

    multipliers: if a pair occurs twice, its last multiplier counts.
    Returns: the sums ``alpha_sum`` (K,) and ``faces`` (m+1, K), as balls.
    """
    m = block.X.shape[1]
    sums = {"alpha_sum": Ball(np.zeros(n_faces)), "faces": Ball(np.zeros((m + 1, n_faces)))}
    used, position = np.unique(multipliers.rows, return_inverse=True)
    halves = np.zeros((len(used), n_faces))
    clipped = np.clip(multipliers.alpha, 0.0, block.caps(multipliers.rows, multipliers.faces))
    halves[position, multipliers.faces] = np.where(block.outside[multipliers.rows], 0.5, -0.5) * clipped
    for first in range(0, len(used), SAMPLES_PER_SLICE):
        part = slice(first, first + SAMPLES_PER_SLICE)
        lifted = lift(_as_float64(block.X[used[part]]))
        sums["faces"] = sums["faces"] + transposed_product(lifted, halves[part])
        sums["alpha_sum"] = sums["alpha_sum"] + 2.0 * Ball(np.abs(halves[part])).sum(axis=0)
    return Tally(block.X.shape[0], sums)


def implied_faces(tally: Tally, scale: float) -> tuple[Ball, Vector]:
    """Return the implied faces of the merged :func:`reduce_dual`: a ball (m+1, K), and numbers (K, m+1).

    scale: factor of every entry of the blocks' samples.
    """
    unscaled: Ball = tally.sums["faces"]
    scales = np.full((len(unscaled.mid), 1), scale)
    scales[-1] = 1.0
    faces = unscaled * scales
    return faces, np.ascontiguousarray(faces.mid.T)


def reduce_primal(
    block: AssignedBlock, multipliers: Multipliers, W: Vector, scale: float, min_decrease: float
) -> Tally:
    """Reduce a block to the losses of its samples at faces W (K, m+1) and the violations of all conditions.

    min_decrease: decrease of its hinge for which a sample outside would change its face.
    Returns: the sums ``losses`` (K,) per face, as a ball; losses of the samples ``inside``, and of those
        outside (``held``); and costs of those outside that would change their face (``moved``).
    """
    K, n = len(W), block.X.shape[0]
    V = np.column_stack([scale * W[:, :-1], W[:, -1]])  # the faces for unscaled samples
    order = np.argsort(multipliers.rows, kind="stable")
    rows, faces, alpha = (array[order] for array in multipliers)  # in the order of samples
    tally = Tally()
    for first in range(0, n, SAMPLES_PER_SLICE):
        part = slice(first, min(first + SAMPLES_PER_SLICE, n))
        low, high = np.searchsorted(rows, [part.start, part.stop])
        A = np.zeros((part.stop - part.start, K))  # the multipliers of the slice
        A[rows[low:high] - first, faces[low:high]] = alpha[low:high]
        block_part = AssignedBlock(
            block.X[part], block.outside[part], block.costs[part], block.assigned[part]
        )
        tally.append(_reduce_slice(block_part, A, V, min_decrease))
    return tally


def _reduce_slice(block: AssignedBlock, A: Vector, V: Vector, min_decrease: float) -> Tally:
    """Reduce samples with multipliers A (n, K) at faces V (K, m+1), as :func:`reduce_primal` does."""
    X, outside, costs, assigned = block
    scores = _scores(_as_float64(X), V)
    numbers = np.arange(V.shape[0])  # of the faces
    caps = block.caps(np.arange(len(outside))[:, None], numbers)
    margins = scores.signed(np.where(outside, 1.0, -1.0)[:, None])  # y_i W_k·x̃_i
    hinge = (1.0 - margins).positive()
    losses = caps * hinge.mid
    best_hinge = np.maximum(1.0 - scores.mid.max(axis=1), 0.0)  # of a sample outside
    assigned_hinge = hinge.mid[np.arange(len(outside)), np.where(outside, assigned, 0)]
    decrease = np.where(outside, assigned_hinge - best_hinge, 0.0)
    sums = {
        "losses": (hinge * caps).sum(axis=0),
        "inside": float(losses[~outside].sum()),
        "held": float(losses[outside].sum()),
        "moved": float(costs[decrease > min_decrease].sum()),
    }
    tally = Tally(len(outside), sums)
    tally.note("stationarity", "assignment", decrease)
    margin_products = np.abs(A * np.maximum(margins.mid - 1.0, 0.0))
    slack_products = np.abs((caps - A) * hinge.mid)  # C − α is the multiplier of ξ ≥ 0
    for k in numbers.tolist():
        tally.largest[f"multiplier {k}"] = float(np.abs(A[:, k]).max())
        tally.note("sign", f"margin {k}", -A[:, k])
        tally.note("sign", f"slack {k}", A[:, k] - caps[:, k])
        tally.note("complementarity", f"margin {k}", margin_products[:, k])
        tally.note("complementarity", f"slack {k}", slack_products[:, k])
    return tally


def _scores(X: Matrix, V: Vector) -> Ball:
    """Return the products of x̃ and rows of V; the error is at most γ ‖x̃‖ ‖V_k‖, plus 2^-900 for underflow."""
    mid = np.asarray(X @ V[:, :-1].T) + V[:, -1]
    squares = X.power(2).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    lengths = np.sqrt(1.0 + np.asarray(squares).ravel())
    norms = np.sqrt(np.einsum("kj,kj->k", V, V))
    return Ball(mid, ABOVE * gamma(V.shape[1] + 4) * np.outer(lengths, norms) + 2.0**-900)


def _as_float64(X: Matrix) -> Matrix:
    return X.astype(np.float64) if is_sparse(X) else np.asarray(X, dtype=np.float64)


def certify_halves(dual_tally: Tally, tally: Tally, W: Vector, scale: float, tol: float) -> list[Certificate]:
    """Return a certificate of half of each face's program, from both reductions.

    dual_tally, tally: the merged results of :func:`reduce_dual`, and of :func:`reduce_primal` at W.
    """
    implied, _ = implied_faces(dual_tally, scale)
    alpha_sums: Ball = dual_tally.sums["alpha_sum"]
    losses: Ball = tally.sums["losses"]
    certificates = []
    for k, w in enumerate(W):
        w_ball = implied[:, k]  # the face that the multipliers imply
        primal = 0.5 * (Ball(w).square_sum() + losses[k])
        dual = 0.5 * (alpha_sums[k] - w_ball.square_sum())
        largest = tally.largest[f"multiplier {k}"] or 1.0
        sign, complementarity = (
            [_half(tally.residual(condition, f"{row} {k}", largest)) for row in ("margin", "slack")]
            for condition in ("sign", "complementarity")
        )
        stationary = stationarity(w, w_ball.mid, 0.0, 1.0, float(primal.mid))
        residuals = [*sign, *stationary, *complementarity]
        certificates.append(conclude("half a face", primal, dual, residuals, tol))
    return certificates


def _half(full: Residual) -> Residual:
    """Return the residual for half the multipliers, without the face's number in its row."""
    return Residual(full.condition, full.row.split()[0], 0.5 * full.value, full.relative, full.worst)


def certify_faces(
    halves: Sequence[Certificate], assignment: Residual, tol: float, notes: Sequence[str] = ()
) -> Certificate:
    """Combine the certificates of half of each face's program.

    assignment: largest decrease of the hinge of a sample outside by a change of its face.
    """
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
    scope = _NAME if len(halves) == 1 else "the fixed-assignment program"
    reassignment = assignment if len(halves) > 1 else None
    name = f"{_NAME}, loss='sum'"
    certificate = conclude_for_assignment(name, primal, dual, residuals, tol, reassignment, scope, notes)
    return replace(certificate, rounding=certificate.rounding + 2.0 * sum(half.rounding for half in halves))
