"""What is true of the sparse machines: values of points, and the best by linear programs and brute force.

    one norm   min Σ α_j + Σ C_i ξ_i              0 ≤ α_j ≤ C_j    f_i = Σ_j k(x_i, x_j) y_j α_j + b
    L0         min ‖α‖_0 + C Σ c_i ξ_i            0 ≤ α_j ≤ C      ξ_i = [1 − y_i f_i]_+

For the L0 machine every pattern of centres is one linear program, in double; the points that these leave are
evaluated here, and nothing else of them is believed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.campaign.extended import EPS, LD, best_intercept, kernel_matrix
from benchmarks.campaign.hinge import Point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Sparse"]

_ZERO_SHARE = 1e-9  # of its cap, under which a coefficient is none
_PATTERNS = 8  # samples up to which all patterns may be tried


class Sparse:
    """One problem of the family.

    Coefficients are `counted` (L0) or added up (one norm); C is the price of loss and their cap. `brute`:
    all patterns are tried if there are few.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weights: Array,
        C: float,
        kernel: dict[str, Any],
        *,
        counted: bool,
        brute: bool,
    ):
        self.y, self.weights = np.asarray(y, dtype=LD), np.asarray(weights, dtype=LD)
        self.C, self.counted, self.brute = LD(C), counted, brute
        self.K, self.off = kernel_matrix(np.asarray(X, dtype=LD), **kernel)
        self.costs = self.C * self.weights
        self.caps = np.full(len(y), self.C) if counted else self.costs

    def at(self, alpha: Array, b: Any) -> Point:
        """The point of these coefficients, clipped to their caps."""
        alpha = np.asarray(alpha, dtype=LD)
        inside = np.clip(alpha, 0, self.caps)
        beyond = float(abs(alpha - inside).max())
        terms = self.y * inside
        f = self.K @ terms + LD(b)
        error = (self.off + (len(f) + 4) * EPS * abs(self.K)) @ inside + 4 * EPS * abs(LD(b))
        xi = np.maximum(0, 1 - self.y * f)
        price = LD((inside > 0).sum()) if self.counted else inside.sum()
        value = price + self.costs @ xi
        return Point(value, self.costs @ error + 4 * len(f) * EPS * value, f, beyond)

    def with_best_intercept(self, alpha: Array) -> Point:
        """The point of these coefficients with the b that is best for them."""
        g = self.at(alpha, 0).outputs
        return self.at(alpha, best_intercept(g, self.y, self.costs))

    @cached_property
    def best(self) -> Point:
        """The best point known: of the linear program, or of all patterns tried."""
        found = [self.with_best_intercept(np.zeros(len(self.y)))]
        if not self.counted:
            found += self._solved(np.arange(len(self.y)), np.ones(len(self.y)))
        elif self.brute and len(self.y) <= _PATTERNS:
            for size in range(1, len(self.y) + 1):
                if size >= min(p.value for p in found):
                    break
                for pattern in combinations(range(len(self.y)), size):
                    found += self._solved(np.array(pattern), np.zeros(size))
        else:
            relaxed = self._program(np.arange(len(self.y)), np.full(len(self.y), float(1 / self.C)))
            if relaxed is not None:
                found += self._solved(np.flatnonzero(relaxed > 1e-9 * float(self.C)), None)
        return min(found, key=lambda p: p.value + p.error)

    def pattern(self, alpha: Array) -> Array:
        """The coefficients that count: within their caps, and zero where they are under 1e-9 of them."""
        inside = np.clip(np.asarray(alpha, dtype=LD), 0, self.caps)
        return np.where(inside > LD(_ZERO_SHARE) * self.caps, inside, 0)

    def best_with(self, alpha: Array) -> Point:
        """The best point known with the centres that these coefficients have, all of them paid for."""
        alpha = self.pattern(alpha)
        used = np.flatnonzero(alpha)
        solved = self._program(used, np.zeros(len(used))) if len(used) else None
        found = []
        for each in (alpha, 0 * alpha, *([] if solved is None else [solved])):
            point = self.with_best_intercept(each)
            found.append(replace(point, value=point.value + len(used) - (each > 0).sum()))
        return min(found, key=lambda p: p.value + p.error)

    def _solved(self, used: Array, prices: Array | None) -> list[Point]:
        if len(used) == 0:
            return []
        alpha = self._program(used, np.zeros(len(used)) if prices is None else prices)
        if alpha is None:
            return []
        points = [self.with_best_intercept(alpha)]
        # What is as good as nothing may as well be nothing.
        rounded = np.where(alpha > 1e-7 * self.caps.astype(float), alpha, 0.0)
        return [*points, self.with_best_intercept(rounded)]

    def _program(self, used: Array, prices: Array) -> Array | None:
        """Coefficients (n,) that minimise prices'α + Σ costs ξ over those used; None where no solver can."""
        y, K = self.y.astype(float), self.K.astype(float)
        costs, caps = self.costs.astype(float), self.caps.astype(float)
        n, p = len(y), len(used)
        unit = costs.max()
        rows = -(y[:, None] * K[:, used] * y[None, used]) * caps[used]
        A = np.hstack([rows, -y[:, None], -np.eye(n)])
        c = np.concatenate([prices * caps[used] / unit, [0.0], costs / unit])
        bounds = [(0, 1)] * p + [(None, None)] + [(0, None)] * n
        if not np.isfinite(A).all():
            return None
        found = linprog(c, A_ub=A, b_ub=-np.ones(n), bounds=bounds, method="highs")
        if found.x is None:
            return None
        alpha = np.zeros(n)
        alpha[used] = np.clip(found.x[:p], 0, 1) * caps[used]
        return alpha
