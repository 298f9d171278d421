"""What the exact Polyceptron must cost while some negatives have no face yet: one linear program for a node.

The positives i pay Σ_k [1 − s_ik]_+ times b_i, a negative j pays min_k [1 + s_jk]_+ times c_j, with scores
s_ik = w_k·x̃_i of faces in the box |W| ≤ R. A node decides of some negatives at which face they pay; the
others are free, and any face may turn out to be theirs.

Theorem. Let u_ik ≥ 0 for each positive and face, 0 ≤ t_j ≤ c_j for each negative, and v_ji ≥ 0 for each free
negative and positive, with

    u_ik + Σ_j v_ji ≤ b_i    for each positive i and face k.

Let r_k = Σ_i u_ik x̃_i − Σ_{j decided for k} t_j x̃_j and r_j = Σ_i v_ji x̃_i − t_j x̃_j. No faces in the box,
with the negatives where the node has them, cost less than

    Σ_ik u_ik + Σ_j t_j + Σ_ji v_ji − R (Σ_k ‖r_k‖_1 + Σ_{j free} ‖r_j‖_1).

Proof. Let k(j) be the face at which j pays. A positive pays at face k no less than
(u_ik + Σ_{j free, k(j) = k} v_ji) (1 − s_ik), as the first bracket is at most b_i and none below 0; a
negative pays no less than t_j (1 + s_jk(j)). The sum of all these is the first three sums less
Σ_k w_k·(r_k + Σ_{j free, k(j) = k} r_j), and w·r ≤ R ‖r‖_1. ∎

So a free negative that is between positives, x̃_j = Σ_i λ_i x̃_i with λ ≥ 0, asks for 2 t_j from any face that
it may be at: by v_ji = t_j λ_i. At the root nothing is decided, and the bound holds for any number of faces.
The best u, t and v are a linear program, in which another node is other bounds of columns; where all are
decided it is the dual of :func:`formulations.polyceptron.fixed_assignment`, so that nothing is lost.

Nothing is taken on a solver's word: its multipliers are cut to what the theorem allows, and the sums are
taken anew, less what their rounding may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyopt.certificates.rounding import gamma
from polyopt.solvers.persistent_lp import PersistentLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Places = NDArray[np.int64]

__all__ = ["Found", "NodeProgram", "Part", "part_value"]

_SHRINK = 1e-14  # of what is cut back to fit beneath a cost, besides its rounding
_TINY = 2.0**-1000  # what a product may lose at the small end of double precision, generously


class Part(NamedTuple):
    """Samples, lifted, with what each may pay: all, or some negatives and a share of the positives.

    inside (p, d) and outside (q, d): x̃ of the positives and the negatives; b (p,), c (q,): their costs;
    radius: R; units (d,): powers of 2 that make the features' entries at most 1.
    """

    inside: Vector
    outside: Vector
    b: Vector
    c: Vector
    n_faces: int
    radius: float
    units: Vector


class Found(NamedTuple):
    """What a node's program found.

    bound: what is proven; W (K, d): the faces it ends at; t (q,): those of the free; used (p,): what the
    bound takes of the positives' costs, the largest u_ik of a positive and Σ_j v_ji.
    """

    bound: float
    W: Vector
    t: Vector
    used: Vector


def part_value(part: Part, W: Vector) -> float:
    """What faces cost a part.

    Parameters
    ----------
    part : Part
        The part.
    W : ndarray of shape (K, d)
        Faces.
    """
    paid = part.b @ np.maximum(0.0, 1.0 - part.inside @ W.T).sum(axis=1)
    return float(paid + part.c @ np.maximum(0.0, 1.0 + part.outside @ W.T).min(axis=1))


class NodeProgram:
    """The linear program of a part's nodes, kept in HiGHS.

    Columns are u (K, p), t of the decided (K, q), s⁺ and s⁻ (K, d), v (one for each pair) and t of those free
    (h,); rows are the balance of each face (K, d), of each free negative (h, d), and the caps (K, p).

    Parameters
    ----------
    part : Part
        The samples.
    pairs : tuple of ndarray of int, each of shape (v,)
        The j and the i of each v_ji, in the order of j. Others are 0.
    """

    def __init__(self, part: Part, pairs: tuple[Places, Places]):
        self.part = part
        self.unit = float(max(part.b.max(initial=0.0), part.c.max(initial=0.0))) or 1.0
        self.free, self._at = np.unique(pairs[0], return_inverse=True)
        self._other = pairs[1]
        K, p, q, d, h = part.n_faces, len(part.b), len(part.c), len(part.units), len(self.free)
        v = len(self._other)
        inside, outside = part.inside * part.units, part.outside * part.units
        one = sp.eye_array(K, format="csc")
        blocks = [inside.T, -outside.T, -np.eye(d), np.eye(d)]
        A = sp.hstack([sp.kron(one, sp.csc_array(block), format="csc") for block in blocks], format="csc")
        price = np.tile(part.radius / part.units, 2 * K)
        cost = np.concatenate([-np.ones(K * (p + q)), price, -np.ones(v + h)])
        low, high = np.zeros(K * d), np.zeros(K * d)
        if h:
            caps = [
                sp.eye_array(K * p, K * (p + q + 2 * d), format="csc"),
                sp.vstack([sp.csc_array((np.ones(v), (self._other, np.arange(v))), shape=(p, v))] * K),
                sp.csc_array((K * p, h)),
            ]
            A = sp.vstack([sp.block_diag([A, self._between(inside, outside)]), sp.hstack(caps)], format="csc")
            top = np.tile(part.b, K) / self.unit
            low = np.concatenate([low, np.zeros(h * d), np.full(K * p, -np.inf)])
            high = np.concatenate([high, np.zeros(h * d), top])
        self._upper = np.concatenate(
            [np.tile(part.b, K) / self.unit, np.zeros(K * q), np.full(2 * K * d + v, np.inf), np.zeros(h)]
        )
        self.model = PersistentLP(cost, A, low, high, 0.0, self._upper)

    def _between(self, inside: Vector, outside: Vector) -> sp.csc_array:
        """The rows Σ_i v_ji x̃_i − t_j x̃_j of the free negatives."""
        d, h = inside.shape[1], len(self.free)
        rows = (self._at[:, None] * d + np.arange(d)).ravel()
        columns = np.repeat(np.arange(len(self._at)), d)
        pulls = sp.csc_array((inside[self._other].ravel(), (rows, columns)), shape=(h * d, len(self._at)))
        own = (np.arange(h)[:, None] * d + np.arange(d)).ravel(), np.repeat(np.arange(h), d)
        pushes = sp.csc_array((-outside[self.free].ravel(), own), shape=(h * d, h))
        return sp.csc_array(sp.hstack([pulls, pushes]))

    def solve(self, faces: NDArray[np.signedinteger[Any]], time_limit: float | None = None) -> Found:
        """Bound a node.

        Parameters
        ----------
        faces : ndarray of int, shape (q,)
            The face of each negative, -1 where it is free.
        time_limit : float, optional
            Seconds; what is not solved by then bounds by what it has.
        """
        part, K, h, v = self.part, self.part.n_faces, len(self.free), len(self._other)
        p, q, d = len(part.b), len(part.c), len(part.units)
        own = np.where(faces == np.arange(K)[:, None], part.c, 0.0)
        is_free = np.where(faces[self.free] < 0, part.c[self.free], 0.0)
        upper = self._upper.copy()
        upper[K * p : K * (p + q)] = own.ravel() / self.unit
        upper[len(upper) - h :] = is_free / self.unit
        found = self.model.solve(upper=upper, time_limit=time_limit)
        x = np.maximum(np.nan_to_num(found.x, posinf=0.0, neginf=0.0), 0.0) * self.unit
        W = np.nan_to_num(found.duals[: K * d]).reshape(K, d) * part.units
        U, T = x[: K * p].reshape(K, p), np.minimum(x[K * p : K * (p + q)].reshape(K, q), own)
        t = np.minimum(x[len(x) - h :], is_free)
        bound, used = self.proven(U, T, x[len(x) - h - v : len(x) - h], t)
        all_t = np.zeros(q)
        all_t[self.free] = t
        return Found(bound, np.clip(W, -part.radius, part.radius), all_t, used)

    def proven(self, U: Vector, T: Vector, V: Vector, t: Vector) -> tuple[float, Vector]:
        """The bound of multipliers, less all rounding, and what it takes of the positives' costs, (p,).

        Parameters
        ----------
        U : ndarray of shape (K, p)
            u, at least 0; cut back to its caps here.
        T : ndarray of shape (K, q)
            t of the decided at their faces, from 0 to c; 0 elsewhere.
        V : ndarray of shape (v,)
            v of the pairs, at least 0; cut back too.
        t : ndarray of shape (h,)
            t of the free negatives, from 0 to c; 0 at those decided.
        """
        part, p = self.part, len(self.part.b)
        sums = self._sums(V)
        less = 1.0 - _SHRINK - 2.0 * gamma(len(V) + 4)
        factor = np.where(sums > part.b * less, part.b * less / np.where(sums > 0.0, sums, 1.0), 1.0)
        V = V * np.minimum(factor, 1.0)[self._other]
        sums = self._sums(V) * (1.0 + _SHRINK + gamma(len(V) + 4))
        U = np.minimum(U, np.maximum(part.b - sums, 0.0) * (1.0 - _SHRINK) if len(V) else part.b)
        count = U.size + T.size + len(V) + len(t) + 8
        off = np.abs(U @ part.inside - T @ part.outside).sum()
        size = (U @ np.abs(part.inside) + T @ np.abs(part.outside)).sum()
        if len(t):
            rows = self._rows(V, t)
            off, size = off + np.abs(rows[0]).sum(), size + rows[1].sum()
        rounded = gamma(count)
        error = 1.01 * gamma(max(p + len(part.c), len(V)) + 8) * size + count * _TINY
        lost = part.radius * (off + error) * (1.0 + 2.0 * rounded)
        gained = (U.sum() + T.sum() + V.sum() + t.sum()) * (1.0 - 2.0 * rounded)
        used = (U.max(axis=0) + sums) * (1.0 + gamma(4))
        return float(gained - lost - 4.0 * gamma(4) * (gained + lost)), np.minimum(used, part.b)

    def _sums(self, V: Vector) -> Vector:
        """Σ_j v_ji of each positive, (p,)."""
        return np.bincount(self._other, V, minlength=len(self.part.b)).astype(float)

    def _rows(self, V: Vector, t: Vector) -> tuple[Vector, Vector]:
        """The imbalances r_j (h, d), and the sums of the sizes of their terms."""
        pulls, own = V[:, None] * self.part.inside[self._other], t[:, None] * self.part.outside[self.free]
        starts = np.flatnonzero(np.diff(self._at, prepend=-1))
        sizes = np.add.reduceat(np.abs(pulls), starts, axis=0) + np.abs(own)
        return np.add.reduceat(pulls, starts, axis=0) - own, sizes
