"""Certificates of the Convex Polytope Machine for samples in blocks.

With loss="sum" and a fixed assignment the faces are independent programs, each twice a hinge program without
a free intercept (:mod:`polyopt.cpm.certificate`), and each of these is certified by blocks
(:mod:`polyopt.margin.certificate_by_blocks`). The claim for all faces is as in memory: ``stationary`` if the
point is optimal for its assignment and no positive would pay less by another face.

The program of face k and its dual are

    min  ‖w‖² + Σ_i C_ik max(0, 1 − y_i w·x̃_i)      max  Σ_i α_ik − ‖½ Σ_i α_ik y_i x̃_i‖²,   0 ≤ α_ik ≤ C_ik,

with C_ik = C_i for samples inside and for those outside that are assigned to k, else 0. Two reductions over
the blocks suffice: the dual value of the multipliers, clipped to their caps (:func:`pull`), and the losses at
the faces with every optimality condition (:func:`weigh`). Values carry their rounding, so a bound is valid
for any multipliers. :func:`certify_faces` combines the faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.certificates.certificate import Certificate, Residual, conclude
from polyopt.certificates.tally import SLICE_ROWS, Tally
from polyopt.cpm.certificate import conclude_for_assignment
from polyopt.linalg.rounding import ABOVE, Ball, gamma, transposed_product
from polyopt.margin.certificate import stationarity

_NAME = "the Convex Polytope Machine"


class Weighed(NamedTuple):
    """A block: samples (n, m), mask of those outside, costs of slack (n,), and faces, -1 inside."""

    X: Matrix
    outside: NDArray[np.bool_]
    costs: Vector
    assigned: NDArray[np.integer]

    def caps(self, rows: NDArray[np.integer], faces: NDArray[np.integer]) -> Vector:
        """Return the largest multiplier of each pair."""
        is_in = ~self.outside[rows] | (self.assigned[rows] == faces)
        return np.asarray(np.where(is_in, self.costs[rows], 0.0))


class Multipliers(NamedTuple):
    """The nonzero multipliers of a block: sample and face of each pair, and its multiplier."""

    rows: NDArray[np.integer]
    faces: NDArray[np.integer]
    alpha: Vector


def pull(block: Weighed, given: Multipliers, n_faces: int) -> Tally:
    """Reduce a block to Σ α_ik and ½ Σ α_ik y_i x̃_i of the clipped multipliers, without the scale.

    given: the multipliers; if a pair occurs twice, the last counts.
    Returns: ``gain`` (K,) and ``pulled`` (m+1, K), as balls.
    """
    m = block.X.shape[1]
    sums = {"gain": Ball(np.zeros(n_faces)), "pulled": Ball(np.zeros((m + 1, n_faces)))}
    used, place = np.unique(given.rows, return_inverse=True)
    halves = np.zeros((len(used), n_faces))
    cut = np.clip(given.alpha, 0.0, block.caps(given.rows, given.faces))
    halves[place, given.faces] = np.where(block.outside[given.rows], 0.5, -0.5) * cut
    for first in range(0, len(used), SLICE_ROWS):
        part = slice(first, first + SLICE_ROWS)
        X, M = _doubles(block.X[used[part]]), halves[part]
        last = Ball(M).sum(axis=0)
        rows = transposed_product(X, M)
        both = Ball(np.vstack([rows.mid, last.mid]), np.vstack([rows.rad, last.rad]))
        sums["pulled"] = sums["pulled"] + both
        sums["gain"] = sums["gain"] + 2.0 * Ball(np.abs(M)).sum(axis=0)
    return Tally(block.X.shape[0], sums)


def faces_of(met: Tally, scale: float) -> tuple[Ball, Vector]:
    """Return the faces of :func:`pull` over all blocks: as a ball (m+1, K), and as numbers (K, m+1).

    scale: factor of every entry of the samples.
    """
    pulled: Ball = met.sums["pulled"]
    scales = np.full((len(pulled.mid), 1), scale)
    scales[-1] = 1.0
    found = pulled * scales
    return found, np.ascontiguousarray(found.mid.T)


def weigh(block: Weighed, given: Multipliers, W: Vector, scale: float, least: float) -> Tally:
    """Reduce a block to the loss of its samples at faces W (K, m+1), and to every violated condition.

    least: decrease of its hinge for which a sample outside would change its face.
    Returns: sums of :meth:`polyopt.large.alternation.weigh_faces`, and the loss ``paid`` (K,) per face, as
        a ball.
    """
    K, n = len(W), block.X.shape[0]
    V = np.column_stack([scale * W[:, :-1], W[:, -1]])
    order = np.argsort(given.rows, kind="stable")
    rows, faces, alpha = (each[order] for each in given)
    found = Tally()
    for first in range(0, n, SLICE_ROWS):
        part = slice(first, min(first + SLICE_ROWS, n))
        low, high = np.searchsorted(rows, [part.start, part.stop])
        A = np.zeros((part.stop - part.start, K))
        A[rows[low:high] - first, faces[low:high]] = alpha[low:high]
        some = Weighed(block.X[part], block.outside[part], block.costs[part], block.assigned[part])
        found.append(_weighed(some, A, V, least))
    return found


def _weighed(block: Weighed, A: Vector, V: Vector, least: float) -> Tally:
    X, up, costs, own = block
    scores = _scores(_doubles(X), V)
    places = np.arange(V.shape[0])
    caps = np.where(~up[:, None] | (own[:, None] == places), costs[:, None], 0.0)
    lead = scores.signed(np.where(up, 1.0, -1.0)[:, None])
    hinge = (1.0 - lead).positive()
    best, spent = np.maximum(1.0 - scores.mid.max(axis=1), 0.0), caps * hinge.mid
    mine = np.take_along_axis(hinge.mid, np.where(up, own, 0)[:, None].astype(np.intp), axis=1)[:, 0]
    gain = np.where(up, mine - best, 0.0)
    sums = {
        "paid": (hinge * caps).sum(axis=0),
        "inside": float(spent[~up].sum()),
        "held": float(spent[up].sum()),
        "best": float(costs[up] @ best[up]),
        "moved": float(costs[gain > least].sum()),
        "counts": np.bincount(scores.mid.argmax(axis=1)[up], costs[up], len(V)),
    }
    found = Tally(len(up), sums)
    found.note("stationarity", "assignment", gain)
    beyond = np.abs(A * np.maximum(lead.mid - 1.0, 0.0))
    unused = np.abs((caps - A) * hinge.mid)
    for k in places.tolist():
        found.largest[f"multiplier {k}"] = float(np.abs(A[:, k]).max())
        found.note("sign", f"margin {k}", -A[:, k])
        found.note("sign", f"slack {k}", A[:, k] - caps[:, k])
        found.note("complementarity", f"margin {k}", beyond[:, k])
        found.note("complementarity", f"slack {k}", unused[:, k])
    return found


def _scores(X: Matrix, V: Vector) -> Ball:
    """Return the products of x̃ and rows of V; the error is at most γ ‖x̃‖ ‖V_k‖ (Cauchy-Schwarz)."""
    mid = np.asarray(X @ V[:, :-1].T) + V[:, -1]
    squares = X.power(2).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    lengths = np.sqrt(1.0 + np.asarray(squares).ravel())
    norms = np.sqrt(np.einsum("kj,kj->k", V, V))
    return Ball(mid, ABOVE * gamma(V.shape[1] + 4) * np.outer(lengths, norms) + 2.0**-900)


def _doubles(X: Matrix) -> Matrix:
    return X.astype(np.float64) if is_sparse(X) else np.asarray(X, dtype=np.float64)


def halves_of(gained: Tally, met: Tally, W: Vector, scale: float, tol: float) -> list[Certificate]:
    """Return the certificates of half of each face's program; `met` is of :func:`weigh` at W."""
    implied, _ = faces_of(gained, scale)
    gain: Ball = gained.sums["gain"]
    paid: Ball = met.sums["paid"]
    found = []
    for k, w in enumerate(W):
        pulled = implied[:, k]
        primal = 0.5 * (Ball(w).square_sum() + paid[k])
        dual = 0.5 * (gain[k] - pulled.square_sum())
        largest = met.largest[f"multiplier {k}"]
        residuals = [
            *(_half(met.residual("sign", f"{row} {k}", largest or 1.0)) for row in ("margin", "slack")),
            *stationarity(w, pulled.mid, 0.0, 1.0, float(primal.mid)),
            *(
                _half(met.residual("complementarity", f"{row} {k}", largest or 1.0))
                for row in ("margin", "slack")
            ),
        ]  # fmt: skip
        found.append(conclude("half a face", primal, dual, residuals, tol))
    return found


def _half(each: Residual) -> Residual:
    """Return the residual for half the multipliers, without the face's number in its row."""
    return Residual(each.condition, each.row.split()[0], 0.5 * each.value, each.relative, each.worst)


def certify_faces(
    halves: Sequence[Certificate], assignment: Residual, tol: float, notes: Sequence[str] = ()
) -> Certificate:
    """Combine the certificates of half of each face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i.

    assignment: by how much a positive's hinge would fall on another face, at most.
    """
    primal = 2.0 * Ball(np.array([half.primal_value for half in halves])).sum()
    dual = 2.0 * Ball(np.array([half.dual_value for half in halves])).sum()
    dual = dual if dual.lower > 0.0 else Ball(0.0)  # 0 bounds every value
    residuals = [
        replace(
            each,
            row=f"{each.row}(face {k})",
            value=2.0 * each.value,
            worst=each.worst if each.row == "w" else None,  # a number among the samples of the face alone
        )
        for k, half in enumerate(halves)
        for each in half.residuals
    ]
    scope = _NAME if len(halves) == 1 else "the fixed-assignment program"
    found = conclude_for_assignment(
        len(halves), assignment, f"{_NAME}, loss='sum'", primal, dual, residuals, tol, scope, notes
    )
    return replace(found, rounding=found.rounding + 2.0 * sum(half.rounding for half in halves))
