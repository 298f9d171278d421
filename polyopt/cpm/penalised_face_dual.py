"""The dual of a polytope with penalised weights, by projected Newton steps and an interior-point method.

For a fixed assignment and caps c_ik the dual of :mod:`formulations.cpm_sparse` with margin="total" is

    max  D(α) = Σ α − ¼ ‖shrunk V‖²,   V_k = Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik,

with the map of :mod:`formulations.face_penalty`. D is concave and once differentiable: its gradient is
1 − y_i W_k·x̃_i at the faces W = ½ shrunk V. The map is piecewise smooth, so second derivatives exist almost
everywhere, and only the features in use have any. A Newton step (:class:`PenalisedAscent`) is

1. the pairs of sample and face that may move: all but those at a bound against which their gradient points;
2. a Newton direction for these, with a multiple of the unit matrix added (Levenberg): a system in the nonzero
   weights, so steps are cheap if these are few;
3. the best of a few lengths along it, clipped to the box (Bertsekas, Projected Newton Methods, 1982).

Every iterate is feasible and gives a bound, and the faces have exact zeros.

Cold starts begin with an interior-point method (:class:`CentralPath`), which takes few steps from anywhere,
for the program with all its rows (:mod:`formulations.face_penalty`). At the optimum, for each face,

    2 W + r + q = V(α),      1 − y_i W·x̃_i + s_i − t_i = 0,      W = p⁺ − p⁻,      W = z q for each group,

and these products are 0; on the central path all of them are equal to μ, which falls from step to step:

    s_i α_i,   t_i (c_i − α_i),   p⁺ (λ − r),   p⁻ (λ + r),   z (τ² − ‖q‖²).

A Newton step on the equations is a system in W alone: one factorisation of a matrix of m + 1 rows for each
face, or of K (m + 1) if groups couple the faces.

A warm start begins near faces W that are almost optimal for other caps or another penalty. Then every product
is set to μ at once, and the last two lines of equations hold: α_i is the root of
μ/α − μ/(c_i − α) = y_i W·x̃_i − 1, r that of μ/(λ − r) − μ/(λ + r) = W, and z that of z τ² − ‖W‖²/z = μ. Only
the first line is left to Newton steps. μ is the mean of F(W) over the products: from smaller values the many
short steps out of W's neighbourhood take longer than a cold start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.certificates.certificate import relative_gap


@dataclass(frozen=True)
class Options:
    """Numbers of the Newton steps and of the interior-point method."""

    max_factored: int = 1500  # rows of a system that is factored; conjugate gradients above
    ridge_init: float = 1e-2  # Levenberg's multiple, relative to a pair's mean curvature
    ridge_min: float = 1e-13
    ridge_max: float = 1e8
    warm_steps: int = 12  # Newton steps from a warm start
    max_steps: int = 300
    warm_path_steps: int = 20  # interior-point steps from a warm start
    max_path_steps: int = 60
    min_gap: float = 1e-12  # relative gap to which answers are polished
    boundary_share: float = 0.995  # of the longest interior-point step


class PenalisedAscent:
    """Projected Newton steps on the multipliers of K faces.

    X (n, m): samples, float64.
    caps (n, K): c_ik, the largest value of each multiplier.

    alpha (n, K), V (K, m+1), W (K, m+1), scores (n, K): multipliers, pulls, implied faces, and their scores.
    """

    def __init__(
        self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, options: Options | None = None
    ):
        self._X, self._y, self._penalty, self._options = X, y, penalty, options or Options()
        self.caps = np.ascontiguousarray(caps)
        squares = X.multiply(X).sum() if is_sparse(X) else float(np.einsum("ij,ij->", X, X))
        self._curvature = 0.5 * (1.0 + squares / max(len(y), 1))
        self._weight, self.steps = self._options.ridge_init, 0
        self._path: CentralPath | None = None  # an interior point for these caps
        self._warm_start: Vector | None = None  # faces for the start of the next one
        self.begin_from(np.zeros(caps.shape))

    # -- values ----------------------------------------------------------------------------------

    @property
    def primal(self) -> float:
        """The objective at the faces."""
        hinges = np.maximum(0.0, 1.0 - self._y[:, None] * self.scores)
        return float((self.W**2).sum() + self._penalty.value(self.W) + (self.caps * hinges).sum())

    @property
    def dual(self) -> float:
        """The dual value at the multipliers."""
        return float(self.alpha.sum() - (self.W**2).sum())

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.primal, self.dual)

    @property
    def faces(self) -> Vector:
        """The faces W with exact zeros for weights that are only rounding."""
        sizes = _pull(abs(self._X), self.alpha)
        return np.where(np.abs(self.V) > 1e-13 * sizes, self.W, 0.0)

    # -- steps -----------------------------------------------------------------------------------

    def begin_from(
        self, alpha: ArrayLike, caps: Vector | None = None, warm_start: Vector | None = None
    ) -> None:
        """Continue from multipliers (n, K), clipped to the caps, which may be new.

        warm_start (K, m+1): faces that were optimal with them, for an interior point.
        """
        if caps is not None:
            self.caps, self._path = np.ascontiguousarray(caps), None
        if warm_start is not None:
            self._warm_start, self._path = warm_start, None
        self._take(np.clip(np.asarray(alpha, dtype=float), 0.0, self.caps))

    def begin_at(self, W: Vector) -> None:
        """Continue from the multipliers of faces (K, m+1): the cap inside the margin, 0 beyond."""
        self.begin_from(self.caps * (self._y[:, None] * self._scores_at(W) < 1.0))

    def step(self) -> bool:
        """Make one Newton step; return False if no length of it increases the dual value."""
        slope = 1.0 - self._y[:, None] * self.scores
        free = (slope > 0.0) & (self.alpha < self.caps) | (slope < 0.0) & (self.alpha > 0.0)
        # Multipliers very near a bound move there, and take no part in the system.
        left = np.where(slope < 0.0, -self.alpha, self.caps - self.alpha)
        size = self.alpha.sum() / max(np.count_nonzero(self.alpha), 1)
        near_bound = free & (np.abs(left) <= min(1e-3, self.gap) * np.minimum(self.caps, size))
        return self._step(slope, free, left, near_bound) or (
            near_bound.any() and self._step(slope, free, left, ~free)
        )

    def _step(
        self, slope: Vector, free: NDArray[np.bool_], left: Vector, near_bound: NDArray[np.bool_]
    ) -> bool:
        rows = np.flatnonzero(free.any(axis=1))
        if not len(rows):
            return False
        block, y = self._X if len(rows) == len(self._y) else self._X[rows], self._y[rows]
        old, caps, slope = self.alpha[rows], self.caps[rows], np.where(free, slope, 0.0)[rows]
        bound_moves = np.where(near_bound & free, left, 0.0)[rows]
        limit = self._options.max_factored
        system = _System(self._penalty, self.V, block, y, (free & ~near_bound)[rows], limit)
        while self._weight <= self._options.ridge_max:
            ridge = np.full(slope.shape, 2.0 * self._weight * self._curvature)
            direction = bound_moves + 2.0 * system.solve(slope, ridge)
            for length in 0.25 ** np.arange(6):
                new = np.clip(old + length * direction, 0.0, caps)
                change = new - old
                if not change.any():
                    break
                V = self.V + _pull(block, y[:, None] * change)
                W = 0.5 * self._penalty.shrunk(V)
                gained = float(change.sum() - ((W - self.W) * (W + self.W)).sum())
                if gained >= 1e-4 * float((slope * change).sum()) > 0.0:
                    self._weight = max(
                        self._weight * (0.2 if length == 1.0 else 1.5), self._options.ridge_min
                    )
                    self.alpha[rows] = new
                    self._move(V, W)
                    self.steps += 1
                    return True
            self._weight *= 10.0
        self._weight = self._options.ridge_init
        return False

    def reach(self, tol: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Make steps until the gap is `tol`; return False if none helps any more, or `is_over`.

        From good multipliers a few Newton steps suffice. Otherwise an interior-point method continues, or
        begins from a warm or a cold start.
        """
        # With few features an interior point with a warm start is faster than steps.
        first = self.W.shape[1] <= 60 and self._warm_start is not None
        if self.alpha.any() and self._steps(tol, 0 if first else self._options.warm_steps, is_over):
            return True
        if not self._has_small_systems:
            return self._steps(tol, self._options.max_steps, is_over)
        # If the data are out of scale, good multipliers may have bad faces: then a smaller gap.
        for gap_tol, max_steps in (
            (max(0.1 * tol, 1e-8), self._options.warm_path_steps),
            (self._options.min_gap, self._options.max_steps),
        ):
            if not is_over():
                self._take_interior_point(gap_tol, is_over)
            if self._steps(tol, max_steps, is_over):
                return True
        return False

    def polish(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Make some more steps to the gap `min_gap`: single conditions are less exact than the gap."""
        if (
            not self._steps(self._options.min_gap, self._options.warm_steps, is_over)
            and self._has_small_systems
            and not is_over()
        ):
            self._take_interior_point(self._options.min_gap, is_over)
            self._steps(self._options.min_gap, self._options.warm_steps, is_over)

    @property
    def _has_small_systems(self) -> bool:
        """True if the interior point's systems are worth their factorisations."""
        rows = self.W.shape[1] if self._penalty.group == 0.0 else self.W.size
        return rows <= self._options.max_factored

    def _take_interior_point(self, gap_tol: float, is_over: Callable[[], bool]) -> None:
        """Take the multipliers of an interior point if they are better."""
        previous_dual, previous_alpha = self.dual, self.alpha
        path = self._path or CentralPath(self._X, self._y, self.caps, self._penalty, self._warm_start)
        cold, warm = self._options.max_path_steps, self._options.warm_path_steps
        reached = path.follow(gap_tol, cold if self._warm_start is None else warm, is_over)
        if not reached and self._warm_start is not None and not is_over():
            path = CentralPath(self._X, self._y, self.caps, self._penalty)
            reached = path.follow(gap_tol, cold, is_over)
        self._path, self._warm_start = (path, path.warm_start) if reached else (None, None)
        self._take(path.best)
        if self.dual < previous_dual:
            self._take(previous_alpha)
        self._weight = 1e-8  # a small ridge, as the steps go on from an interior point

    def _steps(self, tol: float, max_steps: int, is_over: Callable[[], bool]) -> bool:
        for _ in range(max_steps):
            if self.gap <= tol:
                self._take(self.alpha)  # V anew, without the rounding of its updates
                if self.gap <= tol:
                    return True
            if is_over() or not self.step():
                break
        return self.gap <= tol

    # -- parts -----------------------------------------------------------------------------------

    def _take(self, alpha: Vector) -> None:
        self.alpha = alpha.copy()
        V = _pull(self._X, self._y[:, None] * self.alpha)
        self._move(V, 0.5 * self._penalty.shrunk(V))

    def _move(self, V: Vector, W: Vector) -> None:
        self.V, self.W = V, W
        self.scores = self._scores_at(W)

    def _scores_at(self, W: Vector) -> Vector:
        used = self._penalty.features(W)
        if 4 * len(used) > W.shape[1] or is_sparse(self._X):
            return np.asarray(self._X @ W[:, :-1].T) + W[:, -1]
        return np.asarray(self._X[:, used] @ W[:, used].T) + W[:, -1]


class _System:
    """The Newton system A J A' + ridge for the pairs that may move, solved in the nonzero weights.

    J acts on each group as s + (1 − s) û û', with s the share that the penalty leaves and û its direction.
    """

    def __init__(
        self, penalty: FacePenalty, V: Vector, block: Matrix, y: Vector, free: NDArray[np.bool_],
        max_factored: int,
    ):  # fmt: skip
        self._max_factored = max_factored
        cut = penalty.cut(V)
        shares = penalty.shares(cut)
        self._used = [np.flatnonzero((row[:-1] != 0) & (shares > 0)) for row in cut]
        self._cut, self._shares, self._penalty = cut, shares, penalty
        self._A = [_signed_rows(block, y, free[:, k], used) for k, used in enumerate(self._used)]
        self._free = free
        self.size = sum(len(used) + 1 for used in self._used)
        ends = np.cumsum([0, *(len(used) + 1 for used in self._used)])
        self._places = [slice(*pair) for pair in pairwise(ends.tolist())]

    def solve(self, slope: Vector, ridge: Vector) -> Vector:
        """Return (A J A' + D)⁻¹ slope = D⁻¹ (slope − A (J⁻¹ + A'D⁻¹A)⁻¹ A'D⁻¹ slope), D the ridge."""
        if self.size > self._max_factored:
            return self._iterate(slope, ridge)
        scaled = np.where(self._free, slope / ridge, 0.0)
        if self._penalty.group == 0.0:
            direction = np.zeros_like(slope)
            for k, A in enumerate(self._A):
                rows = self._free[:, k]
                weights = ridge[rows, k]
                inner = A.T @ (A / weights[:, None])
                inner[np.diag_indices_from(inner)] += 1.0
                direction[rows, k] = A @ sl.cho_solve(sl.cho_factor(inner), A.T @ scaled[rows, k]) / weights
            return scaled - direction
        inner = self._inverse()
        for k, (at, A) in enumerate(zip(self._places, self._A, strict=True)):
            inner[at, at] += A.T @ (A / ridge[self._free[:, k], k][:, None])
        return scaled - self._up(sl.cho_solve(sl.cho_factor(inner), self._down(scaled))) / ridge

    def _iterate(self, slope: Vector, ridge: Vector) -> Vector:
        """Solve by conjugate gradients, preconditioned by the ridge."""
        direction, left = np.zeros_like(slope), np.where(self._free, slope, 0.0)
        scaled = left / ridge
        conjugate, product = scaled.copy(), float((left * scaled).sum())
        first = product
        for _ in range(60):
            image = self._up(self._jacobian(self._down(conjugate))) + np.where(
                self._free, ridge * conjugate, 0.0
            )
            length = product / float((conjugate * image).sum())
            direction += length * conjugate
            left = left - length * image
            scaled = left / ridge
            product, before = float((left * scaled).sum()), product
            if product <= 1e-8 * first:
                break
            conjugate = scaled + (product / before) * conjugate
        return direction

    def _down(self, pairs: Vector) -> Vector:
        parts = [A.T @ pairs[self._free[:, k], k] for k, A in enumerate(self._A)]
        return np.concatenate(parts)

    def _up(self, weights: Vector) -> Vector:
        pairs = np.zeros(self._free.shape)
        for k, (A, at) in enumerate(zip(self._A, self._places, strict=True)):
            pairs[self._free[:, k], k] = A @ weights[at]
        return pairs

    def _by_weight(self) -> tuple[Vector, Vector, NDArray[np.int64]]:
        """Return share, part of the group's direction and group (-1: bias) of each nonzero weight."""
        lengths = self._penalty.lengths(self._cut[:, :-1])
        shares, parts, groups = np.ones(self.size), np.zeros(self.size), np.full(self.size, -1)
        for k, (at, used) in enumerate(zip(self._places, self._used, strict=True)):
            inner = slice(at.start, at.stop - 1)
            groups[inner] = self._penalty.groups[used]
            shares[inner] = self._shares[used]
            parts[inner] = self._cut[k, used] / lengths[groups[inner]]
        return shares, parts, groups

    def _jacobian(self, weights: Vector) -> Vector:
        """Return J times a vector of weights."""
        shares, parts, groups = self._by_weight()
        along = np.bincount(groups + 1, parts * weights, minlength=self._penalty.n_groups + 1)
        return np.asarray(shares * weights + (1.0 - shares) * parts * along[groups + 1])

    def _inverse(self) -> Vector:
        """Return J⁻¹, which acts on a group as (1 − (1 − s) û û') / s."""
        shares, parts, groups = self._by_weight()
        together = (groups[:, None] == groups) & (groups >= 0)
        found: Vector = -np.outer((1.0 - shares) / shares * parts, parts) * together
        found[np.diag_indices_from(found)] += 1.0 / shares
        return found


def _pull(X: Matrix, amounts: Vector) -> Vector:
    """Return Σ_i amounts_ik x̃_i, shape (K, m+1)."""
    return np.column_stack([np.asarray(X.T @ amounts).T, amounts.sum(axis=0)])


def _signed_rows(block: Matrix, y: Vector, rows: NDArray[np.bool_], used: NDArray[np.int64]) -> Vector:
    """Return rows y x̃ in the used features and the bias, dense."""
    part: Any = block[np.flatnonzero(rows)][:, used]
    part = part.toarray() if is_sparse(part) else part
    return np.column_stack([part, np.ones(len(part))]) * y[rows][:, None]


class CentralPath:
    """An interior-point method; its variables are those of the equations above.

    start (K, m+1): faces of a warm start; by default all boxes begin at their middles.

    best (n, K): feasible multipliers with the best bound so far.
    warm_start (K, m+1): the first faces within one per cent of the optimum, or the last ones.
    """

    def __init__(self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, start: Vector | None = None):
        self.X, self.y, self.penalty = X, y[:, None], penalty
        K, m = caps.shape[1], penalty.n_features
        self.live = caps > 0.0
        self.caps = np.where(self.live, caps, 1.0)
        self.alpha = np.where(self.live, 0.5 * self.caps, 0.0)
        self.W = np.zeros((K, m + 1))
        self.s, self.t = np.ones(caps.shape), np.ones(caps.shape)
        up, down = penalty.thresholds
        self.bounded = (up > 0.0) | (down > 0.0)  # features whose r is not 0 by itself
        self.up, self.down = up[self.bounded], down[self.bounded]
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
        self.warm_start, self._has_warm_start = self.W, False
        if start is not None:
            self._centre(start)

    def follow(self, gap_tol: float, max_steps: int, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Make at most `max_steps` steps until the relative gap is `gap_tol`; return True if it is."""
        gap = np.inf
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(max_steps):
                gap = self.gap()
                if not self._has_warm_start:
                    self.warm_start, self._has_warm_start = self.W, gap <= 1e-2
                if gap <= gap_tol or is_over():
                    break
                try:
                    if not self.step():
                        break
                except (np.linalg.LinAlgError, ValueError):  # beyond double precision
                    break
        return gap <= gap_tol

    def _centre(self, W: Vector) -> None:
        """Begin near faces W: all products are μ, and each pair of variables is the root of its equation."""
        self.W = W = self.penalty.allowed(W)
        slope = 1.0 - self.y * (np.asarray(self.X @ W[:, :-1].T) + W[:, -1])
        mu = self._objective(W, slope) / self.pairs
        if not 0.0 < mu < np.inf:
            return
        alpha = _root(slope, self.caps, mu)
        self.alpha = np.where(self.live, alpha, 0.0)
        self.s, self.t = mu / alpha, mu / (self.caps - alpha)
        own, both = W[:, :-1][:, self.bounded], np.isfinite(self.up) & np.isfinite(self.down)
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
        """Return the relative gap of the best bound and the best faces so far."""
        pulls = self.y * self.alpha
        self.V = np.column_stack([np.asarray(self.X.T @ pulls).T, pulls.sum(axis=0)])
        self.slope = 1.0 - self.y * (np.asarray(self.X @ self.W[:, :-1].T) + self.W[:, -1])
        bound = float(self.alpha.sum() - 0.25 * (self.penalty.shrunk(self.V) ** 2).sum())
        if bound > self.bound:
            self.best, self.bound = self.alpha.copy(), bound
        if not (self.penalty.signs * self.W[:, :-1] < 0.0).any():
            self.value = min(self.value, self._objective(self.W, self.slope))
        return relative_gap(self.value, self.bound)

    def _objective(self, W: Vector, slope: Vector) -> float:
        paid = (self.caps * np.maximum(slope, 0.0))[self.live].sum()
        return float((W**2).sum() + self.penalty.value(W) + paid)

    def _products(self) -> float:
        boxes = (self.s * self.alpha + self.t * (self.caps - self.alpha))[self.live].sum()
        prices = _times(self.over, self.up - self.r).sum() + _times(self.under, self.down + self.r).sum()
        groups = float((self.z * self._cone_slack()).sum()) if self.grouped else 0.0
        return float(boxes + prices + groups)

    def _cone_slack(self) -> Vector:
        return np.asarray(self.penalty.group**2 - self.penalty.lengths(self.q) ** 2)

    # -- a step ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Make a predictor-corrector step (Mehrotra); return False if it is negligible."""
        factor = self._factor()
        predictor = self._direction(factor, 0.0, {})
        share = (1.0 - min(self._max_step(predictor), 1.0)) ** 3
        centre = max(1e-3, min(share, 0.9)) * self._products() / self.pairs
        # Second-order terms of the products at the end of the predictor.
        correction = {
            "s": -predictor["s"] * predictor["alpha"], "t": predictor["t"] * predictor["alpha"],
            "over": predictor["over"] * predictor["r"], "under": -predictor["under"] * predictor["r"],
        }  # fmt: skip
        direction = self._direction(factor, centre, correction)
        length = min(1.0, Options.boundary_share * self._max_step(direction))
        for name, part in direction.items():
            setattr(self, name, getattr(self, name) + length * part)
        return length > 1e-6

    def _factor(self) -> list[Vector]:
        """Return the Cholesky factors of the system in W: of each face, or of all together."""
        K = len(self.q)
        self.stiff = self.s / np.where(self.live, self.alpha, 1.0) + self.t / (self.caps - self.alpha)
        loose = np.where(self.live, 1.0 / self.stiff, 0.0)
        rate = _times(self.over, 1.0 / (self.up - self.r)) + _times(self.under, 1.0 / (self.down + self.r))
        self.rate = rate
        blocks = []
        for k in range(K):
            block = _gram(self.X, loose[:, k])
            block[np.diag_indices_from(block)] += 2.0
            at = np.flatnonzero(self.bounded)
            block[at, at] += 1.0 / rate[k]
            blocks.append(block)
        if not self.grouped:
            return [sl.cholesky(block, lower=True) for block in blocks]
        whole, slack, q = sl.block_diag(*blocks), self._cone_slack(), self.q.ravel()
        # M⁻¹ of each group, (1/z) (I − 2 q q' / (τ² + ‖q‖²)), at the weights of all faces.
        bend = (2.0 / (self.z * (2.0 * self.penalty.group**2 - slack)))[self.owner]
        tied = -np.outer(bend * q, q) * self.together
        tied[np.diag_indices_from(tied)] += 1.0 / self.z[self.owner]
        whole[np.ix_(self.inner, self.inner)] += tied
        return [sl.cholesky(whole, lower=True)]

    def _direction(
        self, factors: list[Vector], centre: float, correction: dict[str, Vector]
    ) -> dict[str, Vector]:
        """Return the Newton direction for μ = `centre`, with the products corrected by `correction`."""
        alpha = np.where(self.live, self.alpha, 1.0)
        s, t, over, under = (centre + correction.get(name, 0.0) for name in ("s", "t", "over", "under"))
        rhs = np.where(self.live, self.slope + s / alpha - t / (self.caps - self.alpha), 0.0)
        pulled = self.y * np.where(self.live, rhs / self.stiff, 0.0)
        right = np.column_stack([np.asarray(self.X.T @ pulled).T, pulled.sum(0)]) + self.V - 2.0 * self.W
        split_rhs = self.W[:, :-1][:, self.bounded] - _divided(over, self.over, self.up - self.r)
        split_rhs = split_rhs + _divided(under, self.under, self.down + self.r)
        inner = right[:, :-1]
        inner[:, self.bounded] -= self.r + split_rhs / self.rate
        if self.grouped:
            tied = self.W[:, :-1] - self.q * (centre / self._cone_slack())[self.penalty.groups]
            inner -= self.q + self._apply_group_inverse(tied)
        W = self._solve(factors, right)
        scores = self.y * (np.asarray(self.X @ W[:, :-1].T) + W[:, -1])
        step = {"W": W, "alpha": np.where(self.live, (rhs - scores) / self.stiff, 0.0)}
        left = self.caps - self.alpha  # distance to the upper bounds
        step["s"] = np.where(self.live, (s - self.s * step["alpha"]) / alpha - self.s, 0.0)
        step["t"] = np.where(self.live, (t + self.t * step["alpha"]) / left - self.t, 0.0)
        step["r"] = (W[:, :-1][:, self.bounded] + split_rhs) / self.rate
        above, below = self.up - self.r, self.down + self.r
        step["over"] = _divided(over, self.over, above) - self.over + _times(self.over, step["r"] / above)
        step["under"] = (
            _divided(under, self.under, below) - self.under - _times(self.under, step["r"] / below)
        )
        if self.grouped:
            step["q"] = self._apply_group_inverse(W[:, :-1] + tied)
            slack = self._cone_slack()
            along = np.bincount(self.penalty.groups, (self.q * step["q"]).sum(0), minlength=len(slack))
            step["z"] = (centre + 2.0 * self.z * along) / slack - self.z
        return step

    def _apply_group_inverse(self, weights: Vector) -> Vector:
        """Return M⁻¹ weights for M⁻¹ = (1/z) (I − 2 q q' / (τ² + ‖q‖²)) of each group."""
        groups, slack = self.penalty.groups, self._cone_slack()
        along = np.bincount(groups, (self.q * weights).sum(0), minlength=len(slack))
        bend = 2.0 * along / (2.0 * self.penalty.group**2 - slack)
        return np.asarray((weights - self.q * bend[groups]) / self.z[groups])

    def _solve(self, factors: list[Vector], right: Vector) -> Vector:
        if len(factors) == 1:
            return np.asarray(sl.cho_solve((factors[0], True), right.ravel())).reshape(right.shape)
        parts = [sl.cho_solve((factor, True), row) for factor, row in zip(factors, right, strict=True)]
        return np.array(parts)

    def _max_step(self, step: dict[str, Vector]) -> float:
        """Return the longest step within all bounds, at most 1 / `boundary_share`."""
        multiple = min(
            1.0 / Options.boundary_share,
            _max_multiple(self.alpha, step["alpha"]), _max_multiple(self.caps - self.alpha, -step["alpha"]),
            _max_multiple(self.s, step["s"]), _max_multiple(self.t, step["t"]),
            _max_multiple(self.up - self.r, -step["r"]), _max_multiple(self.down + self.r, step["r"]),
            _max_multiple(self.over, step["over"]), _max_multiple(self.under, step["under"]),
        )  # fmt: skip
        if self.grouped:
            multiple = min(multiple, _max_multiple(self.z, step["z"]), self._max_cone_step(step["q"]))
        return multiple

    def _max_cone_step(self, step: Vector) -> float:
        """Return the length at which the first group's q is as long as τ."""
        groups, slack = self.penalty.groups, self._cone_slack()
        along = np.bincount(groups, (self.q * step).sum(0), minlength=len(slack))
        square = np.bincount(groups, (step * step).sum(0), minlength=len(slack))
        below = along + np.sqrt(along**2 + square * slack)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(below > 0.0, slack / below, np.inf).min(initial=np.inf))


def _root(pull: Vector, width: Vector, mu: float) -> Vector:
    """Return the a between 0 and the width with μ/(width − a) − μ/a = pull."""
    share = pull * width / (np.sqrt((pull * width) ** 2 + 4.0 * mu**2) + 2.0 * mu)
    return np.asarray(width * np.clip(0.5 * (1.0 + share), 1e-14, 1.0 - 1e-14))


def _max_multiple(values: Vector, change: Vector) -> float:
    """Return the multiple of the changes at which the first of the positive values is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(change < 0.0, values / -change, np.inf).min(initial=np.inf))


def _times(values: Vector, others: Vector) -> Vector:
    """Return the products, 0 if the first factor is."""
    return np.where(values > 0.0, values * np.where(values > 0.0, others, 1.0), 0.0)


def _divided(centre: Vector | float, values: Vector, slack: Vector) -> Vector:
    """Return centre / slack, 0 if the value is."""
    return np.where(values > 0.0, centre / np.where(values > 0.0, slack, 1.0), 0.0)


def _gram(X: Matrix, weights: Vector) -> Vector:
    """Return Σ_i weights_i x̃_i x̃_i'."""
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
