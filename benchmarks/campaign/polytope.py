"""What is true of the polytope family: values of faces, and the best known for an assignment or for all.

With x̃ = (x, 1), scores s_k = W_k·x̃, costs c and y = +1 outside for the CPM, inside for the others:

    CPM          Σ_k ‖W_k‖² (or the largest) + Σ_pos c [1 − s_z]_+ + Σ_neg c Σ_k [1 + s_k]_+ (or the largest)
    Polyceptron  Σ_pos c Σ_k [1 − s_k]_+ + Σ_neg c [1 + s_z]_+                            in the box |W| ≤ R
    PC-SLP       the same with max_k for the positives, as means over each class          in the box |W| ≤ R
    SPLA1        Σ c ln(1 + exp(−y s_z)) + ρ/2 ‖W‖²; positives of all faces, where asked
    PLUME        −Σ c ln Σ_k g_k σ(y s_k) + ρ/2 ‖W‖²,  g_k ∝ exp(−γ s_k)

A bound of a certificate is of the program for the cells z of its point (of the M-step for PLUME).
"""

from __future__ import annotations

from itertools import product as tuples
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog, minimize

from benchmarks.campaign.dual import propose
from benchmarks.campaign.extended import EPS, LD
from benchmarks.campaign.hinge import Point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Boxed", "Cpm", "Faces", "Plume", "Spla1"]


class Faces:
    """Samples with a constant feature, labels and costs; scores of faces with their errors."""

    def __init__(self, X: Array, y: Array, costs: Array):
        X = np.asarray(X, dtype=LD)
        self.X = np.column_stack([X, np.ones(len(X), LD)])
        self.y, self.costs = np.asarray(y, dtype=LD), np.asarray(costs, dtype=LD)
        self.n = len(y)

    def scores(self, W: Array) -> tuple[Array, Array]:
        """Scores (n, K) and their errors."""
        W = np.asarray(W, dtype=LD)
        return self.X @ W.T, (self.X.shape[1] + 2) * EPS * (abs(self.X) @ abs(W.T))

    def _point(self, W: Array, value: Any, error: Any, s: Array, beyond: float = 0.0) -> Point:
        return Point(value, error + (W.size + self.n + 8) * EPS * abs(value), s, beyond)


class Cpm(Faces):
    """The Convex Polytope Machine."""

    def __init__(self, X: Array, y: Array, costs: Array, loss: str, margin: str):
        super().__init__(X, y, costs)
        self.loss, self.margin = loss, margin

    def at(self, W: Array, z: Array | None = None) -> Point:
        """The objective of faces, with these faces for the positives or the best for each."""
        W = np.asarray(W, dtype=LD)
        s, off = self.scores(W)
        up = self.y > 0
        face = s.argmax(axis=1) if z is None else np.maximum(z, 0)
        own = np.maximum(0, 1 - s[np.arange(self.n), face])
        other = np.maximum(0, 1 + s)
        paid = np.where(up, own, other.max(axis=1) if self.loss == "max" else other.sum(axis=1))
        squares = (W**2).sum(axis=1)
        value = (squares.max() if self.margin == "worst" else squares.sum()) + self.costs @ paid
        return self._point(W, value, self.costs @ (off + EPS * (1 + abs(s))).sum(axis=1), s)

    def face(self, members: Array) -> Array:
        """A face near the optimum for these positives and all negatives."""
        used = (members | (self.y < 0)) & (self.costs > 0)
        if not used.any():
            return np.zeros(self.X.shape[1], LD)
        F = self.X[used]
        beta, _ = propose(F, self.y[used], self.costs[used] / 2, intercept=False)
        return F.T @ beta

    def best_for(self, W: Array, z: Array) -> Point:
        """The best point known for this assignment; W is one of the points."""
        found = [self.at(W, z), self.at(np.zeros_like(W), z)]
        with np.errstate(all="ignore"):
            faces = np.array([self.face((z == k) & (self.y > 0)) for k in range(len(W))])
            if np.isfinite(faces).all():
                found.append(self.at(faces, z))
        return _least(found)

    def best_of_all(self, W: Array, brute: int) -> Point:
        """The best point known over all assignments, all of which are tried for up to `brute` positives."""
        K, up = len(W), np.flatnonzero(self.y > 0)
        found, known = [self.at(W)], {}

        def face(members: frozenset[int]) -> Array:
            if members not in known:
                known[members] = self.face(np.isin(np.arange(self.n), list(members)))
            return known[members]

        with np.errstate(all="ignore"):
            if len(up) <= brute:
                for rest in tuples(range(K), repeat=max(len(up) - 1, 0)):
                    z = np.array([0, *rest])[: len(up)]
                    faces = np.array([face(frozenset(up[z == k].tolist())) for k in range(K)])
                    found.append(self.at(faces))
            else:
                faces = np.asarray(W, dtype=LD)
                for _ in range(2):
                    z = self.scores(faces)[0].argmax(axis=1)
                    faces = np.array([self.face((z == k) & (self.y > 0)) for k in range(K)])
                    found.append(self.at(faces))
        return _least(found)


class Boxed(Faces):
    """The exact Polyceptron (`means` False) and PC-SLP (True): linear programs in a box."""

    def __init__(self, X: Array, y: Array, costs: Array, radius: float, *, means: bool):
        super().__init__(X, y, costs)
        self.radius, self.means = LD(radius), means
        up = self.y > 0
        totals = np.where(up, self.costs[up].sum(), self.costs[~up].sum())
        self.prices = self.costs / totals if means else self.costs

    def at(self, W: Array, z: Array | None = None) -> Point:
        """The value of faces, clipped to the box; negatives pay at `z` or where they pay least."""
        W = np.asarray(W, dtype=LD)
        beyond = max(float(abs(W).max() - self.radius), 0.0)
        W = np.clip(W, -self.radius, self.radius)
        s, off = self.scores(W)
        face = s.argmin(axis=1) if z is None else z
        own = np.maximum(0, 1 + s[np.arange(self.n), face])
        inside = np.maximum(0, 1 - s)
        paid = np.where(self.y > 0, inside.max(axis=1) if self.means else inside.sum(axis=1), own)
        error = self.prices @ (off + EPS * (1 + abs(s))).sum(axis=1)
        return self._point(W, self.prices @ paid, error, s, beyond)

    def best_for(self, W: Array, z: Array) -> Point:
        """The best point known for the negatives' faces z."""
        found = [self.at(W, z), self.at(0 * W, z)]
        faces = self._program(len(W), z)
        if faces is not None:
            found.append(self.at(faces, z))
        return _least(found)

    def _program(self, K: int, z: Array) -> Array | None:
        X, m, up = self.X.astype(float), self.X.shape[1], self.y > 0
        scale = np.where(abs(X).max(axis=0) > 0, abs(X).max(axis=0), 1.0)
        n, blocks = self.n, []
        for k in range(K):
            samples = np.flatnonzero(up | (z == k))
            block = np.zeros((len(samples), K * m))
            block[:, k * m : (k + 1) * m] = -(self.y[samples].astype(float)[:, None] * X[samples] / scale)
            own = np.zeros((len(samples), n * (1 if self.means else K)))
            own[np.arange(len(samples)), samples + (0 if self.means else k * n)] = -1.0
            blocks.append(np.hstack([block, own]))
        price = self.prices.astype(float)
        costs = np.concatenate([np.zeros(K * m), price if self.means else np.tile(price, K)])
        A = np.vstack(blocks)
        top = float(self.radius) * np.tile(scale, K)
        bounds = [*zip(-top, top, strict=True), *[(0, None)] * (A.shape[1] - K * m)]
        if not np.isfinite(A).all() or not np.isfinite(top).all():
            return None
        found = linprog(
            costs / max(price.max(), 1e-300), A_ub=A, b_ub=-np.ones(len(A)), bounds=bounds, method="highs"
        )
        return None if found.x is None else found.x[: K * m].reshape(K, m) / scale


class Spla1(Faces):
    """SPLA1."""

    def __init__(self, X: Array, y: Array, costs: Array, ridge: float, positives: str):
        super().__init__(X, y, costs)
        self.ridge, self.positives = LD(ridge), positives

    def at(self, W: Array, z: Array | None = None) -> Point:
        """The objective of faces, with these cells or their own."""
        W = np.asarray(W, dtype=LD)
        s, off = self.scores(W)
        cell = s.argmin(axis=1) if z is None else z
        terms = np.logaddexp(0, -self.y[:, None] * s)
        paid = terms[np.arange(self.n), cell]
        if self.positives == "all":
            paid = np.where(self.y > 0, terms.sum(axis=1), paid)
        value = self.costs @ paid + self.ridge / 2 * (W**2).sum()
        return self._point(W, value, self.costs @ (off + 8 * EPS * (1 + abs(terms))).sum(axis=1), s)

    def best_for(self, W: Array, z: Array) -> Point:
        """The best point known for these cells."""
        members = np.zeros((self.n, len(W)), bool)
        members[np.arange(self.n), z] = True
        if self.positives == "all":
            members |= (self.y > 0)[:, None]
        X, weights = self.X.astype(float), self.costs.astype(float)[:, None] * members
        y, ridge = self.y.astype(float)[:, None], float(self.ridge)

        def smooth(flat: Array) -> tuple[float, Array]:
            V = flat.reshape(W.shape)
            t = -y * (X @ V.T)
            pulled = (weights * -y / (1 + np.exp(np.clip(-t, -700, 700)))).T @ X
            return float((weights * np.logaddexp(0, t)).sum() + ridge / 2 * (V**2).sum()), (
                pulled + ridge * V
            ).ravel()

        found = [self.at(W, z), self.at(0 * W, z), self.at(np.where(members.any(axis=0)[:, None], W, 0), z)]
        return _least([*found, *(self.at(V, z) for V in _descended(smooth, W))])


class Plume(Faces):
    """PLUME; the bound is on the majorant for the responsibilities of the point."""

    def __init__(self, X: Array, y: Array, costs: Array, ridge: float, gamma: float):
        super().__init__(X, y, costs)
        self.ridge, self.gamma = LD(ridge), LD(gamma)

    def _logs(self, W: Array) -> tuple[Array, Array, Array]:
        """The logarithms of g_k σ(y s_k), the scores and their errors."""
        s, off = self.scores(W)
        a = -self.gamma * s
        a = a - a.max(axis=1, keepdims=True)
        gate = a - np.log(np.exp(a).sum(axis=1, keepdims=True))
        return gate - np.logaddexp(0, -self.y[:, None] * s), s, off

    def at(self, W: Array) -> Point:
        """The negative log-likelihood with the ridge."""
        W = np.asarray(W, dtype=LD)
        logs, s, off = self._logs(W)
        top = logs.max(axis=1)
        paid = -(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
        value = self.costs @ paid + self.ridge / 2 * (W**2).sum()
        error = self.costs @ ((1 + 2 * self.gamma) * off + 16 * EPS * (1 + abs(logs))).sum(axis=1)
        return self._point(W, value, error, s)

    def probability(self, W: Array) -> Array:
        """P(inside | x)."""
        s, _ = self.scores(W)
        a = -self.gamma * s
        g = np.exp(a - a.max(axis=1, keepdims=True))
        return (g / g.sum(axis=1, keepdims=True) / (1 + np.exp(np.clip(-s, -11000, 11000)))).sum(axis=1)

    def best_for(self, W: Array) -> Point:
        """The best value known of the majorant that touches the objective at W."""
        logs, _, _ = self._logs(np.asarray(W, dtype=LD))
        R = np.exp(logs - logs.max(axis=1, keepdims=True))
        R = R / R.sum(axis=1, keepdims=True)
        entropy = self.costs @ -np.where(R > 0, R * np.log(np.where(R > 0, R, 1)), 0).sum(axis=1)
        X, c, y, g = (
            self.X.astype(float),
            self.costs.astype(float)[:, None],
            self.y.astype(float)[:, None],
            float(self.gamma),
        )
        r, ridge = R.astype(float), float(self.ridge)

        def smooth(flat: Array) -> tuple[float, Array]:
            V = flat.reshape(W.shape)
            s = X @ V.T
            a = -g * s
            top = a.max(axis=1, keepdims=True)
            norm = top + np.log(np.exp(a - top).sum(axis=1, keepdims=True))
            value = -(c * r * (a - norm - np.logaddexp(0, -y * s))).sum() + ridge / 2 * (V**2).sum()
            u = 1 / (1 + np.exp(np.clip(y * s, -700, 700)))
            slope = c * (g * (r - np.exp(a - norm)) - r * y * u)
            return float(value), (slope.T @ X + ridge * V).ravel()

        def majorant(V: Array) -> Point:
            point, (found, s, _) = self.at(V), self._logs(np.asarray(V, dtype=LD))
            value = (
                -(self.costs[:, None] * R * found).sum()
                - entropy
                + self.ridge / 2 * (np.asarray(V, LD) ** 2).sum()
            )
            return Point(value, point.error + 32 * EPS * (self.costs @ abs(found).sum(axis=1)), s)

        return _least([self.at(W), *(majorant(V) for V in _descended(smooth, W))])


def _descended(smooth: Any, W: Array) -> list[Array]:
    """Where a quasi-Newton method ends that starts at W; nowhere, where numbers are out of its range."""
    with np.errstate(all="ignore"):
        found = minimize(
            smooth, np.asarray(W, dtype=float).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 40}
        )
    return [found.x.reshape(W.shape)] if np.isfinite(found.x).all() else []


def _least(points: list[Point]) -> Point:
    return min((p for p in points if np.isfinite(p.value + p.error)), key=lambda p: p.value + p.error)
