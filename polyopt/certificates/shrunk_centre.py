"""The dual of a polytope whose weights have a price, by an interior-point method: few steps from anywhere.

It is a way to good multipliers for :mod:`polyopt.certificates.shrunk_ascent`, whose program and letters it
has. The program is taken with all its rows (:mod:`formulations.cpm_sparse`). At the optimum, for each face,

    2 W + r + q = V(α),      1 − y_i W·x̃_i + s_i − t_i = 0,      W = p⁺ − p⁻,      W = z q for each group,

and these products are 0; here they are all brought to one number μ, which falls from step to step:

    s_i α_i,   t_i (c_i − α_i),   p⁺ (λ − r),   p⁻ (λ + r),   z (τ² − ‖q‖²).

A Newton step on the equations is a system in W alone: one factorisation of a matrix of m + 1 rows for each
face, or of K (m + 1) where groups tie the faces together.

It may begin near faces W that are all but optimal for other caps or another price. Then every product is
brought to μ at once, and each of the last two lines of equations holds: α_i is the root of
μ/α − μ/(c_i − α) = y_i W·x̃_i − 1, r that of μ/(λ − r) − μ/(λ + r) = W, and z that of z τ² − ‖W‖²/z = μ.
Only the first line is left to Newton steps. μ is the mean of F(W) over the products, for what is smaller
leaves W's neighbourhood by so many short steps that a start from nothing is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from formulations.matrices import is_sparse
from polyopt.certificates.certificate import relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix, Vector

__all__ = ["LARGEST", "CentralPath"]

LARGEST = 1500
"""Rows of a system up to which the method is worth its factorisations."""
_SHORT = 0.995  # of the way to the boundary
_NEAR = 1e-2  # relative gap of faces from which a path for other caps or prices may begin
_EDGE = 1e-14  # share of a box at which a number counts as within it


class CentralPath:
    """The variables of the equations; arrays of faces are (K, m+1) or without biases (K, m).

    near (K, m+1): faces to begin near; by default the middle of all boxes.

    best (n, K): multipliers within their caps, whose bound is the best so far.
    near (K, m+1): the first faces within one per cent of the optimum, or the last ones.
    """

    def __init__(self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, near: Vector | None = None):
        self.X, self.y, self.penalty = X, y[:, None], penalty
        K, m = caps.shape[1], penalty.n_features
        self.live = caps > 0.0
        self.caps = np.where(self.live, caps, 1.0)
        self.alpha = np.where(self.live, 0.5 * self.caps, 0.0)
        self.W = np.zeros((K, m + 1))
        self.s, self.t = np.ones(caps.shape), np.ones(caps.shape)
        up, down = penalty.thresholds
        self.priced = (up > 0.0) | (down > 0.0)  # features whose r is not 0 by itself
        self.up, self.down = up[self.priced], down[self.priced]
        middle = np.where(np.isinf(self.down), self.up - 1.0, 0.0)
        middle = np.where(np.isinf(self.up), 1.0 - self.down, middle)
        self.r = np.tile(middle, (K, 1))
        self.over, self.under = np.ones_like(self.r), np.ones_like(self.r)
        self.over[:, np.isinf(self.up)] = self.under[:, np.isinf(self.down)] = 0.0
        self.grouped = penalty.group > 0.0
        if self.grouped:
            self.owner = np.tile(penalty.groups, K)
            self.together = self.owner[:, None] == self.owner
            self.inner = np.concatenate([k * (m + 1) + np.arange(m) for k in range(K)])
        self.q, self.z = np.zeros((K, m)), np.full(penalty.n_groups, 1.0)
        self.best, self.bound, self.value = self.alpha.copy(), -np.inf, np.inf
        self.pairs = 2 * int(self.live.sum()) + int((self.over > 0).sum() + (self.under > 0).sum())
        self.pairs += penalty.n_groups if self.grouped else 0
        self.near, self._is_near = self.W, False
        if near is not None:
            self._centre(near)

    def follow(self, enough: float, most: int, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Go on along the path; whether the faces at hand are within a relative gap of their bound.

        enough: that gap, with which it ends.
        most: steps at most.
        is_over: whether to end early.
        """
        gap = np.inf
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(most):
                gap = self.gap()
                if not self._is_near:
                    self.near, self._is_near = self.W, gap <= _NEAR
                if gap <= enough or is_over():
                    break
                try:
                    if not self.step():
                        break
                except (np.linalg.LinAlgError, ValueError):  # beyond what doubles can do
                    break
        return gap <= enough

    def _centre(self, W: Vector) -> None:
        """Begin near some faces: all products are alike, and each pair has the root of its equation."""
        self.W = W = self.penalty.allowed(W)
        slope = 1.0 - self.y * (np.asarray(self.X @ W[:, :-1].T) + W[:, -1])
        paid = float((self.caps * np.maximum(slope, 0.0))[self.live].sum())
        mu = float((W**2).sum() + self.penalty.value(W) + paid) / self.pairs
        if not 0.0 < mu < np.inf:
            return
        alpha = _root(slope, self.caps, mu)
        self.alpha = np.where(self.live, alpha, 0.0)
        self.s, self.t = mu / alpha, mu / (self.caps - alpha)
        own, both = W[:, :-1][:, self.priced], np.isfinite(self.up) & np.isfinite(self.down)
        width = np.where(both, self.up + self.down, 1.0)
        one = 0.5 * (abs(own) + np.sqrt(own**2 + 4.0 * mu))  # p of features with a sign, where W = 0 has none
        below = np.where(both, _root(own, width, mu), mu / one)
        self.r = np.where(np.isinf(self.down), self.up - below, below - self.down)
        self.over = np.where(np.isinf(self.up), 0.0, mu / np.where(both, width - below, below))
        self.under = np.where(np.isinf(self.down), 0.0, mu / below)
        if self.grouped:
            tau, lengths = self.penalty.group, self.penalty.lengths(W[:, :-1])
            self.z = (mu + np.sqrt(mu**2 + 4.0 * tau**2 * lengths**2)) / (2.0 * tau**2)
            self.q = W[:, :-1] / self.z[self.penalty.groups]

    # -- values ----------------------------------------------------------------------------------

    def gap(self) -> float:
        """The relative gap of the best bound and the best faces so far."""
        pulls = self.y * self.alpha
        self.V = np.column_stack([np.asarray(self.X.T @ pulls).T, pulls.sum(axis=0)])
        self.slope = 1.0 - self.y * (np.asarray(self.X @ self.W[:, :-1].T) + self.W[:, -1])
        bound = float(self.alpha.sum() - 0.25 * (self.penalty.shrunk(self.V) ** 2).sum())
        if bound > self.bound:
            self.best, self.bound = self.alpha.copy(), bound
        if not (self.penalty.signs * self.W[:, :-1] < 0.0).any():
            paid = (self.caps * np.maximum(self.slope, 0.0))[self.live].sum()
            self.value = min(self.value, float((self.W**2).sum() + self.penalty.value(self.W) + paid))
        return relative_gap(self.value, self.bound)

    def _products(self) -> float:
        boxes = (self.s * self.alpha + self.t * (self.caps - self.alpha))[self.live].sum()
        prices = _times(self.over, self.up - self.r).sum() + _times(self.under, self.down + self.r).sum()
        groups = float((self.z * self._room()).sum()) if self.grouped else 0.0
        return float(boxes + prices + groups)

    def _room(self) -> Vector:
        return np.asarray(self.penalty.group**2 - self.penalty.lengths(self.q) ** 2)

    # -- a step ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Towards the central path; False where no way is left."""
        factor = self._factor()
        ahead = self._way(factor, 0.0, {})
        share = (1.0 - min(self._longest(ahead), 1.0)) ** 3
        centre = max(1e-3, min(share, 0.9)) * self._products() / self.pairs
        # What the products would be off by at the end of the step ahead (Mehrotra's corrector).
        bent = {
            "s": -ahead["s"] * ahead["alpha"], "t": ahead["t"] * ahead["alpha"],
            "over": ahead["over"] * ahead["r"], "under": -ahead["under"] * ahead["r"],
        }  # fmt: skip
        way = self._way(factor, centre, bent)
        length = min(1.0, _SHORT * self._longest(way))
        for name, part in way.items():
            setattr(self, name, getattr(self, name) + length * part)
        return length > 1e-6

    def _factor(self) -> list[Vector]:
        """The Cholesky factors of the system in W: of each face, or of all in one."""
        K = len(self.q)
        self.stiff = self.s / np.where(self.live, self.alpha, 1.0) + self.t / (self.caps - self.alpha)
        loose = np.where(self.live, 1.0 / self.stiff, 0.0)
        rate = _times(self.over, 1.0 / (self.up - self.r)) + _times(self.under, 1.0 / (self.down + self.r))
        self.rate = rate
        blocks = []
        for k in range(K):
            block = _gram(self.X, loose[:, k])
            block[np.diag_indices_from(block)] += 2.0
            at = np.flatnonzero(self.priced)
            block[at, at] += 1.0 / rate[k]
            blocks.append(block)
        if not self.grouped:
            return [sl.cholesky(block, lower=True) for block in blocks]
        whole, room, q = sl.block_diag(*blocks), self._room(), self.q.ravel()
        # M⁻¹ of each group, (1/z) (I − 2 q q' / (τ² + ‖q‖²)), at the weights of all faces.
        bend = (2.0 / (self.z * (2.0 * self.penalty.group**2 - room)))[self.owner]
        tied = -np.outer(bend * q, q) * self.together
        tied[np.diag_indices_from(tied)] += 1.0 / self.z[self.owner]
        whole[np.ix_(self.inner, self.inner)] += tied
        return [sl.cholesky(whole, lower=True)]

    def _way(self, factors: list[Vector], centre: float, bent: dict[str, Vector]) -> dict[str, Vector]:
        """The Newton direction towards the path's point at μ = `centre`, the products corrected by `bent`."""
        alpha = np.where(self.live, self.alpha, 1.0)
        s, t, over, under = (centre + bent.get(name, 0.0) for name in ("s", "t", "over", "under"))
        e = np.where(self.live, self.slope + s / alpha - t / (self.caps - self.alpha), 0.0)
        pulled = self.y * np.where(self.live, e / self.stiff, 0.0)
        right = np.column_stack([np.asarray(self.X.T @ pulled).T, pulled.sum(0)]) + self.V - 2.0 * self.W
        off = self.W[:, :-1][:, self.priced] - _shares(over, self.over, self.up - self.r)
        off = off + _shares(under, self.under, self.down + self.r)
        inner = right[:, :-1]
        inner[:, self.priced] -= self.r + off / self.rate
        if self.grouped:
            tied = self.W[:, :-1] - self.q * (centre / self._room())[self.penalty.groups]
            inner -= self.q + self._loosened(tied)
        W = self._solved(factors, right)
        scores = self.y * (np.asarray(self.X @ W[:, :-1].T) + W[:, -1])
        way = {"W": W, "alpha": np.where(self.live, (e - scores) / self.stiff, 0.0)}
        left = self.caps - self.alpha
        way["s"] = np.where(self.live, (s - self.s * way["alpha"]) / alpha - self.s, 0.0)
        way["t"] = np.where(self.live, (t + self.t * way["alpha"]) / left - self.t, 0.0)
        way["r"] = (W[:, :-1][:, self.priced] + off) / self.rate
        above, below = self.up - self.r, self.down + self.r
        way["over"] = _shares(over, self.over, above) - self.over + _times(self.over, way["r"] / above)
        way["under"] = _shares(under, self.under, below) - self.under - _times(self.under, way["r"] / below)
        if self.grouped:
            way["q"] = self._loosened(W[:, :-1] + tied)
            room = self._room()
            along = np.bincount(self.penalty.groups, (self.q * way["q"]).sum(0), minlength=len(room))
            way["z"] = (centre + 2.0 * self.z * along) / room - self.z
        return way

    def _loosened(self, weights: Vector) -> Vector:
        """M⁻¹ of the groups: (1/z) (I − 2 q q' / (τ² + ‖q‖²))."""
        groups, room = self.penalty.groups, self._room()
        along = np.bincount(groups, (self.q * weights).sum(0), minlength=len(room))
        bend = 2.0 * along / (2.0 * self.penalty.group**2 - room)
        return np.asarray((weights - self.q * bend[groups]) / self.z[groups])

    def _solved(self, factors: list[Vector], right: Vector) -> Vector:
        if len(factors) == 1:
            return np.asarray(sl.cho_solve((factors[0], True), right.ravel())).reshape(right.shape)
        parts = [sl.cho_solve((factor, True), row) for factor, row in zip(factors, right, strict=True)]
        return np.array(parts)

    def _longest(self, way: dict[str, Vector]) -> float:
        """How far the way stays within all bounds, at most 1 / 0.995."""
        most = min(
            1.0 / _SHORT,
            _room(self.alpha, way["alpha"]), _room(self.caps - self.alpha, -way["alpha"]),
            _room(self.s, way["s"]), _room(self.t, way["t"]),
            _room(self.up - self.r, -way["r"]), _room(self.down + self.r, way["r"]),
            _room(self.over, way["over"]), _room(self.under, way["under"]),
        )  # fmt: skip
        return min(most, _room(self.z, way["z"]), self._to_the_cone(way["q"])) if self.grouped else most

    def _to_the_cone(self, way: Vector) -> float:
        """The length at which the first group's q is as long as τ."""
        groups, room = self.penalty.groups, self._room()
        along = np.bincount(groups, (self.q * way).sum(0), minlength=len(room))
        square = np.bincount(groups, (way * way).sum(0), minlength=len(room))
        below = along + np.sqrt(along**2 + square * room)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(below > 0.0, room / below, np.inf).min(initial=np.inf))


def _root(pull: Vector, width: Vector, mu: float) -> Vector:
    """The a between 0 and the width with μ/(width − a) − μ/a = pull."""
    share = pull * width / (np.sqrt((pull * width) ** 2 + 4.0 * mu**2) + 2.0 * mu)
    return np.asarray(width * np.clip(0.5 * (1.0 + share), _EDGE, 1.0 - _EDGE))


def _room(values: Vector, change: Vector) -> float:
    """How many times some changes can be made before one of the positive values is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(change < 0.0, values / -change, np.inf).min(initial=np.inf))


def _times(values: Vector, others: Vector) -> Vector:
    """The products, 0 where the first factor is, whatever the other."""
    return np.where(values > 0.0, values * np.where(values > 0.0, others, 1.0), 0.0)


def _shares(centre: Vector | float, values: Vector, room: Vector) -> Vector:
    return np.where(values > 0.0, centre / np.where(values > 0.0, room, 1.0), 0.0)


def _gram(X: Matrix, weights: Vector) -> Vector:
    """Σ_i weights_i x̃_i x̃_i'."""
    rows = np.flatnonzero(weights)
    part, own = (X, weights) if len(rows) == len(weights) else (X[rows], weights[rows])
    if is_sparse(part):
        scaled = sp.csr_array(part.multiply(own[:, None]))
        inner = (part.T @ scaled).toarray()
    else:
        scaled = part * own[:, None]
        inner = part.T @ scaled
    edge = np.asarray(scaled.sum(axis=0)).ravel()
    return np.block([[inner, edge[:, None]], [edge[None, :], np.array([[own.sum()]])]])
