"""Certificates of the Convex Polytope Machine whose samples are in blocks: its faces' put together.

With loss="sum" and a fixed assignment the faces are independent programs, each twice a hinge program without
a free intercept (:mod:`polyopt.cpm.certificate`), and each of these is certified by blocks
(:mod:`polyopt.margin.certificate_by_blocks`). What is claimed of all is as in memory: ``stationary`` where
the point is optimal for its assignment and no positive would pay less by another face.

The program of face k and its dual are

    min  ‖w‖² + Σ_i C_ik max(0, 1 − y_i w·x̃_i)      max  Σ_i α_ik − ‖½ Σ_i α_ik y_i x̃_i‖²,   0 ≤ α_ik ≤ C_ik,

C_ik being C_i for samples inside and for those outside that are assigned to k, else 0. Two reductions over
the blocks do: what the multipliers, cut to their box, pull and gain (:func:`pull`), and what the samples pay
at the faces, with every condition (:func:`weigh`). Each value knows its rounding; a bound is one whatever the
multipliers are. :func:`certify_faces` puts the faces together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.language.types import is_sparse
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude
from polyopt.certificates.tally import SLICE_ROWS, Tally
from polyopt.linalg.rounding import ABOVE, Ball, gamma, transposed_product
from polyopt.margin.certificate import stationarity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix

    Vector = NDArray[np.float64]

__all__ = ["Multipliers", "Weighed", "certify_faces", "faces_of", "halves_of", "pull", "weigh"]

_NAME = "the Convex Polytope Machine"


class Weighed(NamedTuple):
    """A block: samples (n, m), who is outside, costs of slack (n,), and each one's face, -1 inside."""

    X: Matrix
    outside: NDArray[np.bool_]
    costs: Vector
    assigned: NDArray[np.integer]

    def caps(self, rows: NDArray[np.integer], faces: NDArray[np.integer]) -> Vector:
        """The largest multiplier of each pair."""
        is_in = ~self.outside[rows] | (self.assigned[rows] == faces)
        return np.asarray(np.where(is_in, self.costs[rows], 0.0))


class Multipliers(NamedTuple):
    """Those of a block that are not 0: sample and face of each pair, and its multiplier."""

    rows: NDArray[np.integer]
    faces: NDArray[np.integer]
    alpha: Vector


def pull(block: Weighed, given: Multipliers, n_faces: int) -> Tally:
    """Sum the gain and ½ Σ α_ik y_i x̃_i of multipliers cut to their box, entries of the samples as they are.

    given: the multipliers; of a pair that is there twice the last counts.
    n_faces: K.
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
    """The faces ½ Σ α_ik y_i x̃_i, entries of the samples counting `scale` times: as a ball, and (K, m+1).

    met: of :func:`pull`, of all blocks together.
    scale: what every entry counts times.
    """
    pulled: Ball = met.sums["pulled"]
    scales = np.full((len(pulled.mid), 1), scale)
    scales[-1] = 1.0
    found = pulled * scales
    return found, np.ascontiguousarray(found.mid.T)


def weigh(block: Weighed, given: Multipliers, W: Vector, scale: float, least: float) -> Tally:
    """Reduce a block to the loss of its samples at faces, and to the violation of every condition.

    W (K, m+1): the faces, the bias of each last.
    least: the fall of a hinge from which on a sample outside would rather be on another face.
    Returns: as of :meth:`polyopt.large.faces.FacesBlock.weigh`, and what every face is ``paid`` (K,), as a
        ball.
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
        found.follow(_weighed(some, A, V, least))
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
        found.least[_largest(k)] = -float(np.abs(A[:, k]).max())
        found.note("sign", _row("margin", k), -A[:, k])
        found.note("sign", _row("slack", k), A[:, k] - caps[:, k])
        found.note("complementarity", _row("margin", k), beyond[:, k])
        found.note("complementarity", _row("slack", k), unused[:, k])
    return found


def _scores(X: Matrix, V: Vector) -> Ball:
    """Products of x̃ and rows of V, themselves rounded: off by γ of the lengths (Cauchy and Schwarz)."""
    mid = np.asarray(X @ V[:, :-1].T) + V[:, -1]
    squares = X.power(2).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    lengths = np.sqrt(1.0 + np.asarray(squares).ravel())
    norms = np.sqrt(np.einsum("kj,kj->k", V, V))
    return Ball(mid, ABOVE * gamma(V.shape[1] + 4) * np.outer(lengths, norms) + 2.0**-900)


def _doubles(X: Matrix) -> Matrix:
    return X.astype(np.float64) if is_sparse(X) else np.asarray(X, dtype=np.float64)


def _row(name: str, k: int) -> str:
    return f"{name} {k}"


def _largest(k: int) -> str:
    return f"largest {k}"


def halves_of(gained: Tally, met: Tally, W: Vector, scale: float, tol: float) -> list[Certificate]:
    """The certificates of half of each face's program.

    met: of :func:`weigh`, at W.
    W (K, m+1): the faces.
    """
    implied, _ = faces_of(gained, scale)
    gain: Ball = gained.sums["gain"]
    paid: Ball = met.sums["paid"]
    found = []
    for k, w in enumerate(W):
        pulled = implied[:, k]
        primal = 0.5 * (Ball(w).square_sum() + paid[k])
        dual = 0.5 * (gain[k] - pulled.square_sum())
        largest = -met.least[_largest(k)]
        residuals = [
            *(_half(met.residual("sign", _row(row, k), largest or 1.0)) for row in ("margin", "slack")),
            *stationarity(w, pulled.mid, 0.0, 1.0, float(primal.mid)),
            *(
                _half(met.residual("complementarity", _row(row, k), largest or 1.0))
                for row in ("margin", "slack")
            ),
        ]  # fmt: skip
        found.append(conclude("half a face", primal, dual, residuals, tol))
    return found


def _half(each: Residual) -> Residual:
    """Of half the multipliers, and of the row without the face's number."""
    return Residual(each.condition, each.row.split()[0], 0.5 * each.value, each.relative, each.worst)


def certify_faces(
    halves: Sequence[Certificate], assignment: Residual, tol: float, notes: Sequence[str] = ()
) -> Certificate:
    """The certificate of all faces for their assignment.

    halves: of half of each face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i.
    assignment: by how much a positive's hinge would fall on another face, at most.
    """
    # Their values are safe from rounding; what is added here rounds again, and knows it.
    primal = 2.0 * Ball(np.array([half.primal_value for half in halves])).sum()
    dual = 2.0 * Ball(np.array([half.dual_value for half in halves])).sum()
    dual = dual if dual.lower > 0.0 else Ball(0.0)  # no value is below 0
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
    is_single = len(halves) == 1
    if not is_single:
        residuals.append(assignment)
        notes = [*notes, "Another assignment may have a lower optimum."]
    found = conclude(
        f"{_NAME}, loss='sum'",
        primal,
        dual,
        residuals,
        tol,
        reached=Claim.OPTIMAL if is_single else Claim.STATIONARY,
        scope=_NAME if is_single else "the fixed-assignment program",
        notes=notes,
    )
    return replace(found, rounding=found.rounding + 2.0 * sum(half.rounding for half in halves))
