"""Prices of the positives from the faces known so far: a linear program of location, by an interior point.

A face w costs f(w) by itself, and positive i would pay h_i(w) = C_i [1 − w·x̃_i]_+ on it. The prices λ of the
positives and μ of a face are the multipliers of

    min Σ_t f_t z_t + Σ_ti h_ti x_ti   s.t.   Σ_t x_ti = 1 for each i,   0 ≤ x_ti ≤ z_t,   Σ_t z_t = K,

whose dual is max Σ λ_i + K μ over s ≥ 0, h_ti − λ_i + s_ti ≥ 0, Σ_i s_ti = f_t − μ.

There are as many x as pairs of a face and a positive, but each stands in one row of each kind: with the
slacks left out of Newton's equations, then x, then λ, one system is left with as many unknowns as there are
faces. So a step costs (faces)² times the positives, and thousands of positives are no trouble. Steps start
from a point that is feasible and stay so; they aim at Mehrotra's point and are lengthened by corrections of
the products that stand out (Gondzio).

Such a method ends in the middle of the optimal prices, which change little from one program to the next; a
vertex would be at random. Nothing rests on their being exact, as any λ ≥ 0 prove a bound
(:mod:`polyopt.outer.cpm.prices`).

References: Gondzio, Multiple centrality corrections in a primal-dual method for linear programming (1996);
Gondzio, González-Brevis & Munari, New developments in the primal-dual column generation technique (2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["PriceMaster", "Prices"]

_STEPS, _CORRECTIONS = 60, 3  # at most, and corrections of one step
_LONGEST, _SMALLEST = 0.995, 0.3  # of the way to the boundary, and the largest share of a product aimed at
_NEAR = 10.0  # times more or less than the product aimed at: what a correction leaves alone
_RIDGE = 1e-14  # of the mean of its diagonal, added to the system


class Prices(NamedTuple):
    """λ (npos,), and what share each face has, (faces,)."""

    prices: Vector
    shares: Vector


class PriceMaster:
    """The faces known.

    n_faces: K, at least 2.
    tol: relative gap at which prices are good enough.

    W (d,): the faces.
    """

    def __init__(self, n_faces: int, tol: float):
        self.n_faces, self.tol = n_faces, tol
        self.W: list[Vector] = []
        self._own: list[float] = []
        self._hinges: list[Vector] = []
        self._known: set[bytes] = set()

    def add(self, w: Vector, own: float, hinges: Vector) -> None:
        """Add a face, if it is not there already.

        w (d,): the face.
        own: what it costs by itself.
        hinges (npos,): what each positive would pay on it.
        """
        key = np.round(w, 9).tobytes()
        if key not in self._known:
            self._known.add(key)
            self.W.append(w.copy())
            self._own.append(own)
            self._hinges.append(hinges.copy())

    def solve(self) -> Prices | None:
        """The prices; None where numbers are too large or too small for any."""
        with np.errstate(all="ignore"):
            point = _Point(np.array(self._own), np.array(self._hinges), self.n_faces)
            for _ in range(_STEPS):
                if not point.gap > self.tol * (abs(point.value) + point.gap) or not point.step():
                    break
        prices = np.maximum(point.prices, 0.0)
        if not (np.isfinite(prices).all() and np.isfinite(point.shares).all()):
            return None
        return Prices(prices, point.shares)


class _Move(NamedTuple):
    """A step: of z, μ, λ, and of the pairs (x, z − x) and their multipliers (h − λ + s, s)."""

    z: Vector
    mu: float
    prices: Vector
    pairs: Vector  # (2, faces, npos)
    duals: Vector


class _Point:
    """A feasible point: pairs (2, faces, npos) x and z − x, duals their multipliers."""

    def __init__(self, own: Vector, hinges: Vector, n_faces: int):
        count, npos = hinges.shape
        self.n_faces = n_faces
        self.shares = np.full(count, n_faces / count)
        one = np.full((count, npos), 1.0 / count)
        self.pairs = np.stack([one, (n_faces - 1) * one])
        size = max(hinges.max(), float(np.ptp(own)) / npos, np.finfo(float).tiny)
        self.mu = float(own.min()) - npos * size
        multipliers = np.repeat((own - self.mu)[:, None] / npos, npos, axis=1)
        self.prices = hinges.min(axis=0) + (2 - n_faces) * size
        self.duals = np.stack([hinges + multipliers - self.prices, multipliers])

    @property
    def gap(self) -> float:
        """What the two programs differ by."""
        return float((self.pairs * self.duals).sum())

    @property
    def value(self) -> float:
        """Σ λ + K μ."""
        return float(self.prices.sum() + self.n_faces * self.mu)

    def step(self) -> bool:
        """Towards the optimum; whether that went well."""
        pairs, duals = self.pairs, self.duals
        newton = _Newton(pairs, duals)
        products, gap = pairs * duals, self.gap
        if not newton.is_sound:
            return False
        first = newton.solve(-products)
        ahead, behind = (min(1.0, part / _LONGEST) for part in self._lengths(first))
        after = float(((pairs + ahead * first.pairs) * (duals + behind * first.duals)).sum())
        aim = min((after / gap) ** 3, _SMALLEST) * gap / products.size
        wanted = aim - products - ahead * behind * first.pairs * first.duals
        move = newton.solve(wanted)
        ahead, behind = self._lengths(move)
        for _ in range(_CORRECTIONS):
            longer, further = min(1.0, 1.1 * ahead + 0.1), min(1.0, 1.1 * behind + 0.1)
            reached = (pairs + longer * move.pairs) * (duals + further * move.duals)
            wanted = wanted + np.maximum(np.clip(reached, aim / _NEAR, aim * _NEAR) - reached, -aim * _NEAR)
            other = newton.solve(wanted)
            lengths = self._lengths(other)
            if not sum(lengths) > ahead + behind + 0.01:
                break
            move, (ahead, behind) = other, lengths
        if not np.isfinite(ahead + behind + move.mu):
            return False
        self.shares += ahead * move.z
        self.pairs += ahead * move.pairs
        self.mu += behind * move.mu
        self.prices += behind * move.prices
        self.duals += behind * move.duals
        return bool(self.pairs.min() > 0.0 and self.duals.min() > 0.0)

    def _lengths(self, move: _Move) -> tuple[float, float]:
        return _length(self.pairs, move.pairs), _length(self.duals, move.duals)


def _length(at: Vector, step: Vector) -> float:
    """How far `step` may be taken with all of `at` above zero."""
    most = float((-step / at).max())
    return _LONGEST / max(most, _LONGEST)


class _Newton:
    """Newton's equations at a point, but for their right-hand side.

    With a = x / p and b = s / v, of p and s the multipliers of x and v = z − x,

        dx = e + g dz + q dλ,   ds = r − k dz + g dλ,   Σ_t dx_ti = 0,   Σ_i ds_ti = −dμ,   Σ_t dz_t = 0,

    where g = ab / (1 + ab), q = a / (1 + ab) and k = b / (1 + ab).
    """

    def __init__(self, pairs: Vector, duals: Vector):
        self.pairs, self.duals = pairs, duals
        self.a, self.b = pairs[0] / duals[0], duals[1] / pairs[1]
        self.below = 1.0 / (1.0 + self.a * self.b)
        self.g, self.q, self.k = self.a * self.b * self.below, self.a * self.below, self.b * self.below
        self.total = self.q.sum(axis=0)
        system = (self.g / self.total) @ self.g.T
        diagonal = np.einsum("ii->i", system)
        diagonal += self.k.sum(axis=1) + _RIDGE * (diagonal.mean() + self.k.sum() / len(system))
        self.is_sound = bool(np.isfinite(system).all())
        self.inverse = np.linalg.pinv(system, hermitian=True) if self.is_sound else system

    def solve(self, wanted: Vector) -> _Move:
        """The step that changes products of pairs and multipliers by what is `wanted`, to first order."""
        ends = wanted[1] / self.pairs[1]
        e = (wanted[0] / self.duals[0] - self.a * ends) * self.below
        r = ends + self.b * e
        known = r.sum(axis=1) - (self.g * (e.sum(axis=0) / self.total)).sum(axis=1)
        z, ones = self.inverse @ known, self.inverse.sum(axis=1)
        mu = -z.sum() / ones.sum()
        z = z + mu * ones
        prices = -(e.sum(axis=0) + z @ self.g) / self.total
        x = e + self.g * z[:, None] + self.q * prices
        s = r - self.k * z[:, None] + self.g * prices
        return _Move(z, float(mu), prices, np.stack([x, z[:, None] - x]), np.stack([s - prices, s]))
