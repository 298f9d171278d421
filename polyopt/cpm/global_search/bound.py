"""A lower bound on every completion of a partial assignment, from trial moves of single samples.

Let some positives be assigned, U be the others, and α_k be feasible for the dual of face k with the
samples assigned to it, w_k = ½ Σ_j α_jk y_j x̃_j. What happens to face k when i ∈ U is put on it is a
*move* δ_ik: a change of the multipliers of i itself (from 0), of the negatives and of the positives on
the face. It changes Σ_j α_jk y_j x̃_j by e_ik = Σ_j δ_ijk y_j x̃_j, and by itself raises the dual value by
g_ik − ¼‖e_ik‖² with g_ik = Σ_j δ_ijk (1 − y_j w_k·x̃_j).

Theorem. Let the moves keep within the boxes all together: for every face k and every j on it,
Σ_i [δ_ijk]_+ ≤ C_j − α_jk and Σ_i [−δ_ijk]_+ ≤ α_jk, and 0 ≤ δ_iik ≤ C_i. Put U in any order. Then every
completion of the assignment costs at least

    Σ_k D(α_k) + Σ_{i∈U} min_k ( g_ik − ¼‖e_ik‖² − ½ Σ_{r before i} [e_rk·e_ik]_+ ),

the minimum over the faces that i may go to.

Proof. Let z complete the assignment. On face k, α_k plus the moves δ_ik of the i with z_i = k is within
the box, whichever they are, hence feasible for the dual of that face, and by weak duality the cost is at
least Σ_k D(α_k + Σ_{z_i=k} δ_ik) = Σ_k [ D(α_k) + Σ_{z_i=k} g_ik − ¼‖Σ_{z_i=k} e_ik‖² ]. In the square,
Σ‖e_ik‖² stands alone, and of the products 2 e_rk·e_ik of two samples on one face those below zero may be
left out, and the others be counted whether or not r is on that face too: each is charged to the later of
the two. What is left is a sum over i of a term that depends on z_i only, at least its minimum over k. ∎

A move of i's own multiplier alone, δ_iik = β_i, gives the bound with the Gram matrix of positive parts,
Σ β_i min_k (1 − w_k·x̃_i) − ¼ β'G⁺β. Letting the negatives move as well is what makes it strong where the
classes overlap: a positive among negatives is held by them on whichever face, e_ik is small, and the
costs of such samples add up nearly in full.

The moves are found in turn: the box left by the moves before, and w_k shifted by half of those e_rk that
pull the same way, make a problem for ``climb``; the face that costs i least
sets what it adds to the bound, and its moves on the others are shrunk to cost as little as that.

The same charges, all to i, tell what i adds at least on face k when every other sample adds what it
does: if that exceeds the cost of a known solution, no better one has i on k.

Rounding. The multipliers keep within their boxes exactly: a climb sets a multiplier to the end of its box,
and joint moves have boxes that are smaller than theirs by more than their sums may be off. What is computed
of them is off by running error bounds, which are kept beside every value: by Cauchy and Schwarz from the
lengths of the vectors and bounds on how far each may be from its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.cpm.global_search.face import Samples
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

__all__ = ["Moves", "add_up", "moves_for", "try_move"]


class Moves(Struct):
    """Trial moves of positive p to face k, from the present multipliers.

    gain (npos, K), delta (npos, K, n) and pull (npos, K, d), which is e_ik, of the move by itself;
    taken (npos, K, n) and shared (npos, K, d) of the moves that keep within the boxes together; up and
    down (K, n), what the latter leave of the boxes; added (npos,), what each adds to the bound. Length and
    blur (npos, K): how long each shared vector is, and how far from the true one at most; error (npos,): how
    far what each adds may be from the truth.
    """

    signature = (
        "gain!: f8 (p, K); delta!: f8 (p, K, n); pull!: f8 (p, K, d); taken!: f8 (p, K, n); "
        "shared!: f8 (p, K, d); up!: f8 (K, n); down!: f8 (K, n); added!: f8 (p); length!: f8 (p, K); "
        "blur!: f8 (p, K); error!: f8 (p)"
    )
    gain: Vector
    delta: Vector
    pull: Vector
    taken: Vector
    shared: Vector
    up: Vector
    down: Vector
    added: Vector
    length: Vector
    blur: Vector
    error: Vector


def moves_for(npos: int, n: int, d: int, n_faces: int) -> Moves:
    """Room for the moves."""
    pairs = (npos, n_faces)
    return Moves(
        np.zeros(pairs), np.zeros((*pairs, n)), np.zeros((*pairs, d)), np.zeros((*pairs, n)),
        np.zeros((*pairs, d)), np.zeros((n_faces, n)), np.zeros((n_faces, n)), np.zeros(npos),
        np.zeros(pairs), np.zeros(pairs), np.zeros(npos),
    )  # fmt: skip


_try_move = kernel(
    "cpm_try_move",
    "data: Samples; caps!: f8 (n); a: f8 (n); w: f8 (d); p: i8; k: i8; moves: Moves; "
    "enough: f8; out!: f8 (t)",
    returns="i8",
)
_add_up = kernel(
    "cpm_add_up",
    "data: Samples; caps: f8 (K, n); alpha: f8 (K, n); W: f8 (K, d); moves: Moves; allowed: b1 (p, K); "
    "order: i8 (r); used: i8; enough: f8",
    returns="f8",
)


def try_move(
    data: Samples, caps: Vector, a: Vector, w: Vector, p: int, k: int, moves: Moves, enough: float
) -> tuple[float, float]:
    """Put positive p on face k by itself, until it costs `enough`.

    Returns gain, error: what it costs at least, and how far that may be from the truth besides the error of
        D(a).
    """
    out = np.zeros(2)
    if _try_move(data, caps, a, w, int(p), int(k), moves, enough, out) < 0:
        raise MemoryError
    gain, error = out.tolist()
    return gain, error


def add_up(
    data: Samples, caps: Vector, alpha: Vector, W: Vector, moves: Moves, allowed: NDArray[np.bool_],
    order: NDArray[np.int64], used: int, enough: float,
) -> float:  # fmt: skip
    """What the positives in `order` add to the bound: Σ_i min_k (...) of the theorem above.

    `allowed` (npos, K) says which of the first `used` faces each may go to; the trial moves of
    :func:`try_move` must be there for them. The sum ends early once it is `enough`.
    """
    total = _add_up(data, caps, alpha, W, moves, allowed, order, used, enough)
    if total < 0.0:
        raise MemoryError
    return float(total)
