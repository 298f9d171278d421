"""The dual of a polytope with penalised weights, by projected Newton steps and an interior-point method.

The samples are x̃_i = (x_i, 1) with labels y_i, the faces the rows of W (K, m+1), the bias last, and the
penalty is λ‖W‖₁ plus τ times the norm of each group of features (:mod:`formulations.face_penalty`). For a
fixed assignment of samples to faces, the cost of slack of sample i at face k is c_ik, 0 if i is not assigned
to k. The dual is

    max  D(α) = Σ α − ¼ ‖shrunk V‖²,   V_k = Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik,

where shrunk is the proximal map of the penalty: soft-thresholding of the entries, then of the groups' norms.
D is concave and differentiable, with the gradient 1 − y_i W_k·x̃_i at the faces W = ½ shrunk V. Every α
within its caps gives a lower bound on the primal objective, and faces W with exact zeros.

**Projected Newton** (:class:`PenalisedAscent`; Bertsekas, Projected Newton Methods, 1982). D has second
derivatives almost everywhere. A step

1. selects the free pairs (i, k): all but those with α_ik at a bound out of which the gradient points;
2. computes their Newton direction with a ridge (Levenberg), from a system in the nonzero weights;
3. clips α plus a multiple of the direction to the caps; of a few multiples it takes the largest one with
   sufficient increase of D (Armijo).

**Interior point** (:class:`CentralPath`), for cold starts and warm starts from faces. The ℓ1 term has
multipliers r with |r| ≤ λ; a sign constraint removes one of the two limits. The group term has multipliers q,
of norm at most τ in each group. s and t are the multipliers of α ≥ 0 and α ≤ c, p⁺ and p⁻ the positive and
negative parts of W, and each group has a number z ≥ 0 for ‖q‖² ≤ τ². The optimum satisfies, for each face,

    2 W + r + q = V(α),      1 − y_i W·x̃_i + s_i − t_i = 0,      W = p⁺ − p⁻,      W = z q for each group,

and complementarity: the products

    s_i α_i,   t_i (c_i − α_i),   p⁺ (λ − r),   p⁻ (λ + r),   z (τ² − ‖q‖²)

are 0. On the central path all of them equal the barrier parameter μ, which is decreased from step to step
(Mehrotra's predictor-corrector). Eliminating all variables but W leaves a system of m + 1 rows for each face,
or of K (m + 1) if groups couple the faces.

A warm start begins at faces W that are almost optimal for other caps or another penalty. All products are set
to one μ, the objective at W over the number of products, and the other variables follow in closed form, so
that only the first equation is violated. A smaller μ would lead to many short steps.
"""

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
    """Parameters of the Newton steps and of the interior-point method."""

    max_factored: int = 1500  # size above which a system is solved by conjugate gradients, not factorised
    ridge_init: float = 1e-2  # first ridge (Levenberg), relative to the mean of ½ ‖x̃_i‖² over the samples
    ridge_min: float = 1e-13  # smallest ridge, relative to the same mean
    ridge_max: float = 1e8  # largest ridge, relative to the same mean; a step that needs more is given up
    warm_steps: int = 12  # largest number of Newton steps before the interior-point method
    max_steps: int = 300  # largest number of Newton steps after it, or without it
    warm_path_steps: int = 20  # largest number of interior-point steps from a warm start
    max_path_steps: int = 60  # largest number of interior-point steps from a cold start
    max_direct_features: int = 60  # m + 1 up to which a warm start begins with the interior-point method
    polished_gap: float = 1e-12  # relative gap of :meth:`PenalisedAscent.polish`
    boundary_fraction: float = 0.995  # fraction of the longest interior-point step that is taken
    n_lengths: int = 6  # number of Newton step lengths 1, ¼, ... that are tried
    sufficient_increase: float = 1e-4  # increase of D of a Newton step, relative to its linear prediction


class PenalisedAscent:
    """Projected Newton ascent on the multipliers alpha (n, K) of K faces.

    X (n, m): samples, float64.
    caps (n, K): c_ik, the largest value of each multiplier.
    alpha (n, K), V and W (K, m+1), scores (n, K): multipliers, V and W at these, and scores at W.
    steps: number of Newton steps so far.
    """

    def __init__(
        self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, options: Options | None = None
    ):
        self._X, self._y, self._penalty, self._options = X, y, penalty, options or Options()
        self.caps = np.ascontiguousarray(caps)
        squares = X.multiply(X).sum() if is_sparse(X) else float(np.einsum("ij,ij->", X, X))
        self._curvature = 0.5 * (1.0 + squares / max(len(y), 1))  # mean of ½ ‖x̃_i‖²
        self._ridge, self.steps = self._options.ridge_init, 0
        self._path: CentralPath | None = None  # the last path, which is continued with the same caps
        self._warm_start: Vector | None = None  # faces (K, m+1) to start the next path from
        self.begin_from(np.zeros(caps.shape))

    # -- values ----------------------------------------------------------------------------------

    @property
    def primal(self) -> float:
        """The primal objective at W."""
        hinges = np.maximum(0.0, 1.0 - self._y[:, None] * self.scores)
        return float((self.W**2).sum() + self._penalty.value(self.W) + (self.caps * hinges).sum())

    @property
    def dual(self) -> float:
        """The dual objective at alpha."""
        return float(self.alpha.sum() - (self.W**2).sum())

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return relative_gap(self.primal, self.dual)

    @property
    def faces(self) -> Vector:
        """W with zeros for weights whose V is only rounding error."""
        sizes = _adjoint(abs(self._X), self.alpha)
        return np.where(np.abs(self.V) > 1e-13 * sizes, self.W, 0.0)

    # -- steps -----------------------------------------------------------------------------------

    def begin_from(
        self, alpha: ArrayLike, caps: Vector | None = None, warm_start: Vector | None = None
    ) -> None:
        """Continue from multipliers (n, K), clipped to the caps; `caps` (n, K) replaces the caps.

        warm_start (K, m+1): faces from which an interior-point method may start.
        """
        if caps is not None:
            self.caps, self._path = np.ascontiguousarray(caps), None
        if warm_start is not None:
            self._warm_start, self._path = warm_start, None
        self._set_alpha(np.clip(np.asarray(alpha, dtype=float), 0.0, self.caps))

    def begin_at(self, W: Vector) -> None:
        """Continue from the subgradient at faces (K, m+1): α at its cap inside the margin, 0 beyond."""
        self.begin_from(self.caps * (self._y[:, None] * self._scores_at(W) < 1.0))

    def step(self) -> bool:
        """Make one Newton step; return False if no step length increases the dual objective."""
        gradient = 1.0 - self._y[:, None] * self.scores
        free = (gradient > 0.0) & (self.alpha < self.caps) | (gradient < 0.0) & (self.alpha > 0.0)
        # Multipliers very near the bound to which they move are set to the bound, outside the system. If
        # that fails, all free multipliers are in the system.
        to_bound = np.where(gradient < 0.0, -self.alpha, self.caps - self.alpha)
        mean_alpha = self.alpha.sum() / max(np.count_nonzero(self.alpha), 1)
        near_bound = free & (np.abs(to_bound) <= min(1e-3, self.gap) * np.minimum(self.caps, mean_alpha))
        if self._step_of_pairs(gradient, free, to_bound, near_bound):
            return True
        return bool(near_bound.any()) and self._step_of_pairs(gradient, free, to_bound, np.zeros_like(free))

    def _step_of_pairs(
        self, gradient: Vector, free: NDArray[np.bool_], to_bound: Vector, near_bound: NDArray[np.bool_]
    ) -> bool:
        """Make a step of the free pairs, those of `near_bound` by `to_bound`; return as :meth:`step`."""
        rows = np.flatnonzero(free.any(axis=1))  # samples with a free pair
        if not len(rows):
            return False
        samples, y = self._X if len(rows) == len(self._y) else self._X[rows], self._y[rows]
        old, caps, gradient = self.alpha[rows], self.caps[rows], np.where(free, gradient, 0.0)[rows]
        bound_moves = np.where(near_bound, to_bound, 0.0)[rows]
        options = self._options
        system = _System(self._penalty, self.V, samples, y, (free & ~near_bound)[rows], options.max_factored)
        # The Hessian of D is −½ A J A', in the notation of _System; both sides of the system are doubled.
        while self._ridge <= options.ridge_max:
            ridge = np.full(gradient.shape, 2.0 * self._ridge * self._curvature)
            direction = bound_moves + 2.0 * system.solve(gradient, ridge)
            for length in 0.25 ** np.arange(options.n_lengths):
                new = np.clip(old + length * direction, 0.0, caps)
                change = new - old
                if not change.any():  # nor with a shorter step: the next ridge
                    break
                V = self.V + _adjoint(samples, y[:, None] * change)
                W = 0.5 * self._penalty.shrunk(V)
                increase = float(change.sum() - ((W - self.W) * (W + self.W)).sum())
                if increase >= options.sufficient_increase * float((gradient * change).sum()) > 0.0:
                    self._ridge = max(self._ridge * (0.2 if length == 1.0 else 1.5), options.ridge_min)
                    self.alpha[rows] = new
                    self._set_faces(V, W)
                    self.steps += 1
                    return True
            self._ridge *= 10.0
        self._ridge = options.ridge_init
        return False

    def solve(self, tol: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Solve to the relative gap `tol`; return False if no step improves further, or if `is_over`.

        If a few Newton steps do not suffice, the interior-point method runs, and Newton steps follow.
        """
        few_features = self.W.shape[1] <= self._options.max_direct_features
        n_first = 0 if few_features and self._warm_start is not None else self._options.warm_steps
        if self.alpha.any() and self._run_newton(tol, n_first, is_over):
            return True
        if not self._has_small_systems:
            return self._run_newton(tol, self._options.max_steps, is_over)
        # If the data are badly scaled, good multipliers may imply bad faces: then solve to a smaller gap.
        for gap_tol, max_steps in (
            (max(0.1 * tol, 1e-8), self._options.warm_path_steps),
            (self._options.polished_gap, self._options.max_steps),
        ):
            if not is_over():
                self._run_interior_point(gap_tol, is_over)
            if self._run_newton(tol, max_steps, is_over):  # Newton steps from its best multipliers
                return True
        return False

    def polish(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Continue to the gap `polished_gap`, so that each optimality condition is accurate, too."""
        gap, max_steps = self._options.polished_gap, self._options.warm_steps
        if not self._run_newton(gap, max_steps, is_over) and self._has_small_systems and not is_over():
            self._run_interior_point(gap, is_over)
            self._run_newton(gap, max_steps, is_over)

    @property
    def _has_small_systems(self) -> bool:
        """True if the interior-point method's systems are small enough to be factorised."""
        size = self.W.shape[1] if self._penalty.group == 0.0 else self.W.size
        return size <= self._options.max_factored

    def _run_interior_point(self, gap_tol: float, is_over: Callable[[], bool]) -> None:
        """Run the interior-point method, and keep its multipliers if D is larger there."""
        previous_dual, previous_alpha = self.dual, self.alpha
        path = self._path or CentralPath(self._X, self._y, self.caps, self._penalty, self._warm_start)
        cold, warm = self._options.max_path_steps, self._options.warm_path_steps
        converged = path.follow(gap_tol, cold if self._warm_start is None else warm, is_over)
        if not converged and self._warm_start is not None and not is_over():  # a cold start
            path = CentralPath(self._X, self._y, self.caps, self._penalty)
            converged = path.follow(gap_tol, cold, is_over)
        self._path, self._warm_start = (path, path.warm_start) if converged else (None, None)
        self._set_alpha(path.best)
        if self.dual < previous_dual:
            self._set_alpha(previous_alpha)
        self._ridge = 1e-8  # small, because Newton steps from an interior point need no damping

    def _run_newton(self, tol: float, max_steps: int, is_over: Callable[[], bool]) -> bool:
        """Make at most `max_steps` Newton steps; return True if the gap is at most `tol`."""
        for _ in range(max_steps):
            if self.gap <= tol:
                self._set_alpha(self.alpha)  # recompute V, which accumulates rounding
                if self.gap <= tol:
                    return True
            if is_over() or not self.step():
                break
        return self.gap <= tol

    # -- parts -----------------------------------------------------------------------------------

    def _set_alpha(self, alpha: Vector) -> None:
        """Set the multipliers, and V, W and the scores that follow from them."""
        self.alpha = alpha.copy()
        V = _adjoint(self._X, self._y[:, None] * self.alpha)
        self._set_faces(V, 0.5 * self._penalty.shrunk(V))

    def _set_faces(self, V: Vector, W: Vector) -> None:
        self.V, self.W = V, W
        self.scores = self._scores_at(W)

    def _scores_at(self, W: Vector) -> Vector:
        used = self._penalty.features(W)
        if 4 * len(used) > W.shape[1] or is_sparse(self._X):
            return np.asarray(self._X @ W[:, :-1].T) + W[:, -1]
        return np.asarray(self._X[:, used] @ W[:, used].T) + W[:, -1]


class _System:
    """The Newton system A J A' + R of the free pairs, solved in the nonzero weights of W.

    A has a row y_i x̃_i in the block of face k for each free pair (i, k), R is the diagonal ridge, J the
    derivative of shrunk V: on a group with the shrinking factor s and the direction û, s I + (1 − s) û û'.
    Vectors are of two kinds: `pairs` (n, K), 0 for pairs that are not free, and `weights` (size,), the
    nonzero weights and the bias of face 0, then of face 1, and so on.
    """

    def __init__(
        self, penalty: FacePenalty, V: Vector, samples: Matrix, y: Vector, free: NDArray[np.bool_],
        max_factored: int,
    ):  # fmt: skip
        self._max_factored = max_factored
        cut = penalty.soft_thresholded(V)
        factors = penalty.group_factors(cut)  # s of each feature's group
        self._used = [np.flatnonzero((row[:-1] != 0) & (factors > 0)) for row in cut]
        self._cut, self._factors, self._penalty = cut, factors, penalty
        self._A = [_signed_rows(samples, y, free[:, k], used) for k, used in enumerate(self._used)]
        self._free = free
        self.size = sum(len(used) + 1 for used in self._used)
        starts = np.cumsum([0, *(len(used) + 1 for used in self._used)])
        self._slices = [slice(*pair) for pair in pairwise(starts.tolist())]  # nonzero weights of each face

    def solve(self, rhs: Vector, ridge: Vector) -> Vector:
        """Return (A J A' + R)⁻¹ b = R⁻¹ (b − A (J⁻¹ + A'R⁻¹A)⁻¹ A'R⁻¹ b), with b = `rhs`, R = `ridge`."""
        if self.size > self._max_factored:
            return self._solve_by_cg(rhs, ridge)
        scaled = np.where(self._free, rhs / ridge, 0.0)
        if self._penalty.group == 0.0:  # J = I, so each face has its own system
            direction = np.zeros_like(rhs)  # the term subtracted from R⁻¹ b
            for k, A in enumerate(self._A):
                rows = self._free[:, k]
                weights = ridge[rows, k]
                inner = A.T @ (A / weights[:, None])
                inner[np.diag_indices_from(inner)] += 1.0
                direction[rows, k] = A @ sl.cho_solve(sl.cho_factor(inner), A.T @ scaled[rows, k]) / weights
            return scaled - direction
        inner = self._inverse_jacobian()
        for k, (block, A) in enumerate(zip(self._slices, self._A, strict=True)):
            inner[block, block] += A.T @ (A / ridge[self._free[:, k], k][:, None])
        return scaled - self._apply(sl.cho_solve(sl.cho_factor(inner), self._adjoint(scaled))) / ridge

    def _solve_by_cg(self, rhs: Vector, ridge: Vector) -> Vector:
        """Solve by at most 60 conjugate gradient steps, preconditioned by the ridge."""
        solution, residual = np.zeros_like(rhs), np.where(self._free, rhs, 0.0)
        scaled = residual / ridge
        direction, norm_sq = scaled.copy(), float((residual * scaled).sum())
        initial_norm_sq = norm_sq
        for _ in range(60):  # the matrix is applied factor by factor: A (J (A' direction)) + R direction
            ridge_term = np.where(self._free, ridge * direction, 0.0)
            product = self._apply(self._jacobian(self._adjoint(direction))) + ridge_term
            length = norm_sq / float((direction * product).sum())
            solution += length * direction
            residual = residual - length * product
            scaled = residual / ridge
            norm_sq, previous_norm_sq = float((residual * scaled).sum()), norm_sq
            if norm_sq <= 1e-8 * initial_norm_sq:
                break
            direction = scaled + (norm_sq / previous_norm_sq) * direction
        return solution

    def _adjoint(self, pairs: Vector) -> Vector:
        """Return A' times values (n, K) of the pairs: the nonzero weights of all faces, (size,)."""
        return np.concatenate([A.T @ pairs[self._free[:, k], k] for k, A in enumerate(self._A)])

    def _apply(self, weights: Vector) -> Vector:
        """Return A times nonzero weights (size,): values (n, K) of the pairs."""
        pairs = np.zeros(self._free.shape)
        for k, (A, block) in enumerate(zip(self._A, self._slices, strict=True)):
            pairs[self._free[:, k], k] = A @ weights[block]
        return pairs

    def _group_directions(self) -> tuple[Vector, Vector, NDArray[np.int64]]:
        """Return s, the entry of û, and the group (-1: bias) of each nonzero weight, (size,) each."""
        norms = self._penalty.group_norms(self._cut[:, :-1])
        s, u, groups = np.ones(self.size), np.zeros(self.size), np.full(self.size, -1)
        for k, (block, used) in enumerate(zip(self._slices, self._used, strict=True)):
            without_bias = slice(block.start, block.stop - 1)
            groups[without_bias] = self._penalty.groups[used]
            s[without_bias] = self._factors[used]
            u[without_bias] = self._cut[k, used] / norms[groups[without_bias]]
        return s, u, groups

    def _jacobian(self, weights: Vector) -> Vector:
        """Return J times a vector of weights."""
        s, u, groups = self._group_directions()
        products = np.bincount(groups + 1, u * weights, minlength=self._penalty.n_groups + 1)
        return np.asarray(s * weights + (1.0 - s) * u * products[groups + 1])

    def _inverse_jacobian(self) -> Vector:
        """Return J⁻¹, which acts on a group as (I − (1 − s) û û') / s."""
        s, u, groups = self._group_directions()
        same_group = (groups[:, None] == groups) & (groups >= 0)
        inverse: Vector = -np.outer((1.0 - s) / s * u, u) * same_group
        inverse[np.diag_indices_from(inverse)] += 1.0 / s
        return inverse


def _adjoint(X: Matrix, pairs: Vector) -> Vector:
    """Return Σ_i pairs_ik x̃_i, shape (K, m+1)."""
    return np.column_stack([np.asarray(X.T @ pairs).T, pairs.sum(axis=0)])


def _signed_rows(samples: Matrix, y: Vector, rows: NDArray[np.bool_], used: NDArray[np.int64]) -> Vector:
    """Return y_i x̃_i of some rows, in the used features and the bias, dense."""
    part: Any = samples[np.flatnonzero(rows)][:, used]
    part = part.toarray() if is_sparse(part) else part
    return np.column_stack([part, np.ones(len(part))]) * y[rows][:, None]


class CentralPath:
    """The interior-point method, with the variables of the module docstring.

    Each variable is the attribute of its name; p⁺, p⁻ are `p_up`, `p_down`. These and r, with the limits
    −down ≤ r ≤ up, are arrays (K, p) with a column for each of the p features with an ℓ1 term or a sign.

    start (K, m+1): faces of a warm start; by default each multiplier begins in the middle of its interval.
    best (n, K), bound: feasible multipliers with the best bound so far, and this bound.
    value: smallest objective so far.
    warm_start (K, m+1): the first iterate W with a gap of at most one per cent, or else the last one.
    """

    def __init__(self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, start: Vector | None = None):
        self.X, self.y, self.penalty = X, y[:, None], penalty
        K, m = caps.shape[1], penalty.n_features
        self.has_cap = caps > 0.0  # False: the pair is not assigned, and its multiplier is 0
        self.caps = np.where(self.has_cap, caps, 1.0)
        self.alpha = np.where(self.has_cap, 0.5 * self.caps, 0.0)
        self.W = np.zeros((K, m + 1))
        self.s, self.t = np.ones(caps.shape), np.ones(caps.shape)
        up, down = penalty.thresholds
        self.bounded = (up > 0.0) | (down > 0.0)  # features with an ℓ1 term or a sign; r is 0 for the others
        self.up, self.down = up[self.bounded], down[self.bounded]  # each is λ, or inf by a sign
        # r begins at 0 if both limits are λ, and at a distance of 1 from a finite limit if the other is inf.
        middle = np.where(np.isinf(self.down), self.up - 1.0, 0.0)
        middle = np.where(np.isinf(self.up), 1.0 - self.down, middle)
        self.r = np.tile(middle, (K, 1))
        self.p_up, self.p_down = np.ones_like(self.r), np.ones_like(self.r)
        self.p_up[:, np.isinf(self.up)] = self.p_down[:, np.isinf(self.down)] = 0.0
        self.grouped = penalty.group > 0.0
        if self.grouped:
            self.group_of_entry = np.tile(penalty.groups, K)  # of each weight, in the order of faces
            self.same_group = self.group_of_entry[:, None] == self.group_of_entry
            # Indices of the weights without biases in W.ravel().
            self.weight_indices = np.concatenate([k * (m + 1) + np.arange(m) for k in range(K)])
        self.q, self.z = np.zeros((K, m)), np.full(penalty.n_groups, 1.0)
        self.best, self.bound, self.value = self.alpha.copy(), -np.inf, np.inf
        self.n_products = 2 * int(self.has_cap.sum()) + int((self.p_up > 0).sum() + (self.p_down > 0).sum())
        self.n_products += penalty.n_groups if self.grouped else 0
        self.warm_start, self._has_warm_start = self.W, False
        if start is not None:
            self._centre(start)

    def follow(self, gap_tol: float, max_steps: int, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Make at most `max_steps` steps; return True if the relative gap is at most `gap_tol`."""
        gap = np.inf
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(max_steps):
                gap = self.update_gap()
                if not self._has_warm_start:
                    self.warm_start, self._has_warm_start = self.W, gap <= 1e-2
                if gap <= gap_tol or is_over():
                    break
                try:
                    if not self.step():
                        break
                except (np.linalg.LinAlgError, ValueError):  # a factorisation fails by rounding
                    break
        return gap <= gap_tol

    def _centre(self, W: Vector) -> None:
        """Start from faces W: set all products to one μ, and solve the other equations in closed form."""
        self.W = W = self.penalty.enforce_signs(W)
        gradient = 1.0 - self.y * (np.asarray(self.X @ W[:, :-1].T) + W[:, -1])
        mu = self._objective(W, gradient) / self.n_products
        if not 0.0 < mu < np.inf:
            return
        alpha = _root(gradient, self.caps, mu)  # gradient + s − t = 0 with s = μ/α, t = μ/(c − α)
        self.alpha = np.where(self.has_cap, alpha, 0.0)
        self.s, self.t = mu / alpha, mu / (self.caps - alpha)
        weights, two_sided = W[:, :-1][:, self.bounded], np.isfinite(self.up) & np.isfinite(self.down)
        width = np.where(two_sided, self.up + self.down, 1.0)
        # W = p⁺ − p⁻ with p⁺ = μ/(up − r), p⁻ = μ/(down + r), or only one of the two parts.
        p = 0.5 * (abs(weights) + np.sqrt(weights**2 + 4.0 * mu))  # for a signed weight: |W| made positive
        slack = np.where(two_sided, _root(weights, width, mu), mu / p)  # r + down, or up − r if down is inf
        self.r = np.where(np.isinf(self.down), self.up - slack, slack - self.down)
        self.p_up = np.where(np.isinf(self.up), 0.0, mu / np.where(two_sided, width - slack, slack))
        self.p_down = np.where(np.isinf(self.down), 0.0, mu / slack)
        if self.grouped:
            tau, norms = self.penalty.group, self.penalty.group_norms(W[:, :-1])
            self.z = (mu + np.sqrt(mu**2 + 4.0 * tau**2 * norms**2)) / (2.0 * tau**2)
            self.q = W[:, :-1] / self.z[self.penalty.groups]  # with this q, z (τ² − ‖q‖²) = μ

    # -- values ----------------------------------------------------------------------------------

    def update_gap(self) -> float:
        """Set V, the gradient, and the best bound and value so far; return their relative gap."""
        self.V = _adjoint(self.X, self.y * self.alpha)
        self.gradient = 1.0 - self.y * (np.asarray(self.X @ self.W[:, :-1].T) + self.W[:, -1])
        bound = float(self.alpha.sum() - 0.25 * (self.penalty.shrunk(self.V) ** 2).sum())
        if bound > self.bound:
            self.best, self.bound = self.alpha.copy(), bound
        if not (self.penalty.signs * self.W[:, :-1] < 0.0).any():
            self.value = min(self.value, self._objective(self.W, self.gradient))
        return relative_gap(self.value, self.bound)

    def _objective(self, W: Vector, gradient: Vector) -> float:
        losses = (self.caps * np.maximum(gradient, 0.0))[self.has_cap].sum()
        return float((W**2).sum() + self.penalty.value(W) + losses)

    def _products(self) -> float:
        """Return the sum of the complementarity products, which is `n_products` times μ on the path."""
        caps = (self.s * self.alpha + self.t * (self.caps - self.alpha))[self.has_cap].sum()
        l1 = _times(self.p_up, self.up - self.r).sum() + _times(self.p_down, self.down + self.r).sum()
        groups = float((self.z * self._cone_slack()).sum()) if self.grouped else 0.0
        return float(caps + l1 + groups)

    def _cone_slack(self) -> Vector:
        """Return τ² − ‖q‖² of each group."""
        return np.asarray(self.penalty.group**2 - self.penalty.group_norms(self.q) ** 2)

    # -- a step ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Make a predictor-corrector step (Mehrotra); return False if it is negligible."""
        factor = self._factor()
        predictor = self._direction(factor, 0.0, {})
        sigma = (1.0 - min(self._max_step(predictor), 1.0)) ** 3  # Mehrotra's centring parameter
        mu = max(1e-3, min(sigma, 0.9)) * self._products() / self.n_products
        # Second-order terms of the products after the predictor.
        correction = {
            "s": -predictor["s"] * predictor["alpha"], "t": predictor["t"] * predictor["alpha"],
            "p_up": predictor["p_up"] * predictor["r"], "p_down": -predictor["p_down"] * predictor["r"],
        }  # fmt: skip
        direction = self._direction(factor, mu, correction)
        length = min(1.0, Options.boundary_fraction * self._max_step(direction))
        for name, part in direction.items():
            setattr(self, name, getattr(self, name) + length * part)
        return length > 1e-6

    def _factor(self) -> list[Vector]:
        """Return the Cholesky factors of the system in W: one per face, or one in all with groups.

        Its matrix is 2 I + Σ_i x̃_i x̃_i'/curvature_i, plus 1/l1_diagonal on the diagonal for features with r,
        plus M⁻¹ for the groups; curvature and l1_diagonal are the derivatives of t − s by α, of p⁺ − p⁻ by r.
        """
        K = len(self.q)
        self.curvature = self.s / np.where(self.has_cap, self.alpha, 1.0) + self.t / (self.caps - self.alpha)
        weights = np.where(self.has_cap, 1.0 / self.curvature, 0.0)
        self.l1_diagonal = _times(self.p_up, 1.0 / (self.up - self.r))
        self.l1_diagonal += _times(self.p_down, 1.0 / (self.down + self.r))
        blocks = []
        for k in range(K):
            block = _gram(self.X, weights[:, k])
            block[np.diag_indices_from(block)] += 2.0
            bounded = np.flatnonzero(self.bounded)
            block[bounded, bounded] += 1.0 / self.l1_diagonal[k]
            blocks.append(block)
        if not self.grouped:
            return [sl.cholesky(block, lower=True) for block in blocks]
        system, slack, q = sl.block_diag(*blocks), self._cone_slack(), self.q.ravel()
        # W = z q with z = μ/(τ² − ‖q‖²) has the derivative M; M⁻¹ = (1/z) (I − 2 q q' / (τ² + ‖q‖²)).
        rank_one = (2.0 / (self.z * (2.0 * self.penalty.group**2 - slack)))[self.group_of_entry]  # of q q'
        inverse = -np.outer(rank_one * q, q) * self.same_group
        inverse[np.diag_indices_from(inverse)] += 1.0 / self.z[self.group_of_entry]
        system[np.ix_(self.weight_indices, self.weight_indices)] += inverse
        return [sl.cholesky(system, lower=True)]

    def _direction(
        self, factors: list[Vector], mu: float, correction: dict[str, Vector]
    ) -> dict[str, Vector]:
        """Return the Newton direction of each variable, for products equal to μ plus `correction`.

        The linearised equations give the changes of the other variables from the change ΔW:

            Δα = (rhs − y ΔW·x̃) / curvature,    Δr = (ΔW + split_rhs) / l1_diagonal,
            Δq = M⁻¹ (ΔW + group_rhs).

        Then 2 (W + ΔW) + r + Δr + q + Δq = V(α + Δα) is a system in ΔW; its right-hand side is face_rhs.
        """
        alpha = np.where(self.has_cap, self.alpha, 1.0)
        # The products that s, t, p⁺ and p⁻ shall have after the step.
        s, t, p_up, p_down = (mu + correction.get(name, 0.0) for name in ("s", "t", "p_up", "p_down"))
        rhs = np.where(self.has_cap, self.gradient + s / alpha - t / (self.caps - self.alpha), 0.0)
        pair_terms = self.y * np.where(self.has_cap, rhs / self.curvature, 0.0)
        face_rhs = _adjoint(self.X, pair_terms) + self.V - 2.0 * self.W
        split_rhs = self.W[:, :-1][:, self.bounded] - _divided(p_up, self.p_up, self.up - self.r)
        split_rhs = split_rhs + _divided(p_down, self.p_down, self.down + self.r)
        weight_rhs = face_rhs[:, :-1]  # a view without the biases: its changes are changes of face_rhs
        weight_rhs[:, self.bounded] -= self.r + split_rhs / self.l1_diagonal
        if self.grouped:
            group_rhs = self.W[:, :-1] - self.q * (mu / self._cone_slack())[self.penalty.groups]
            weight_rhs -= self.q + self._apply_group_inverse(group_rhs)
        step_W = self._solve(factors, face_rhs)
        scores = self.y * (np.asarray(self.X @ step_W[:, :-1].T) + step_W[:, -1])  # y ΔW·x̃
        step_alpha = np.where(self.has_cap, (rhs - scores) / self.curvature, 0.0)
        step_r = (step_W[:, :-1][:, self.bounded] + split_rhs) / self.l1_diagonal
        # A product v·slack = target has the change Δv = (target − v Δslack)/slack − v.
        cap_slack, above, below = self.caps - self.alpha, self.up - self.r, self.down + self.r
        p_down = _divided(p_down, self.p_down, below) - self.p_down - _times(self.p_down, step_r / below)
        direction = {
            "W": step_W, "alpha": step_alpha, "r": step_r, "p_down": p_down,
            "s": np.where(self.has_cap, (s - self.s * step_alpha) / alpha - self.s, 0.0),
            "t": np.where(self.has_cap, (t + self.t * step_alpha) / cap_slack - self.t, 0.0),
            "p_up": _divided(p_up, self.p_up, above) - self.p_up + _times(self.p_up, step_r / above),
        }  # fmt: skip
        if self.grouped:
            direction["q"] = step_q = self._apply_group_inverse(step_W[:, :-1] + group_rhs)
            slack = self._cone_slack()
            products = np.bincount(self.penalty.groups, (self.q * step_q).sum(0), minlength=len(slack))
            direction["z"] = (mu + 2.0 * self.z * products) / slack - self.z  # from z (τ² − ‖q‖²) = μ
        return direction

    def _apply_group_inverse(self, weights: Vector) -> Vector:
        """Return M⁻¹ (see :meth:`_factor`) times weights (K, m)."""
        groups, slack = self.penalty.groups, self._cone_slack()
        products = np.bincount(groups, (self.q * weights).sum(0), minlength=len(slack))
        rank_one = 2.0 * products / (2.0 * self.penalty.group**2 - slack)
        return np.asarray((weights - self.q * rank_one[groups]) / self.z[groups])

    def _solve(self, factors: list[Vector], rhs: Vector) -> Vector:
        """Solve the system in W for a right-hand side (K, m+1)."""
        if len(factors) == 1:
            return np.asarray(sl.cho_solve((factors[0], True), rhs.ravel())).reshape(rhs.shape)
        parts = [sl.cho_solve((factor, True), row) for factor, row in zip(factors, rhs, strict=True)]
        return np.array(parts)

    def _max_step(self, direction: dict[str, Vector]) -> float:
        """Return the longest step within all bounds, at most 1 / `boundary_fraction`."""
        alpha, r = direction["alpha"], direction["r"]
        positive = [(self.alpha, alpha), (self.caps - self.alpha, -alpha)]  # with the change of each
        positive += [(self.up - self.r, -r), (self.down + self.r, r)]
        positive += [(getattr(self, name), direction[name]) for name in ("s", "t", "p_up", "p_down")]
        multiple = min(1.0 / Options.boundary_fraction, *(_max_multiple(*pair) for pair in positive))
        if self.grouped:
            z_multiple = _max_multiple(self.z, direction["z"])
            multiple = min(multiple, z_multiple, self._max_cone_step(direction["q"]))
        return multiple

    def _max_cone_step(self, q_direction: Vector) -> float:
        """Return the step length at which the norm of some group's q reaches τ."""
        groups, slack = self.penalty.groups, self._cone_slack()
        products = np.bincount(groups, (self.q * q_direction).sum(0), minlength=len(slack))
        squares = np.bincount(groups, (q_direction * q_direction).sum(0), minlength=len(slack))
        # The positive root of squares·length² + 2·products·length = slack.
        denominator = products + np.sqrt(products**2 + squares * slack)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(denominator > 0.0, slack / denominator, np.inf).min(initial=np.inf))


def _root(target: Vector, width: Vector, mu: float) -> Vector:
    """Return the a between 0 and `width` with μ/(width − a) − μ/a = target."""
    ratio = target * width / (np.sqrt((target * width) ** 2 + 4.0 * mu**2) + 2.0 * mu)
    return np.asarray(width * np.clip(0.5 * (1.0 + ratio), 1e-14, 1.0 - 1e-14))


def _max_multiple(values: Vector, change: Vector) -> float:
    """Return the smallest multiple of the changes at which one of the positive values becomes 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(change < 0.0, values / -change, np.inf).min(initial=np.inf))


def _times(values: Vector, slack: Vector) -> Vector:
    """Return values · slack; 0 where the value is 0, even if the slack is infinite."""
    return np.where(values > 0.0, values * np.where(values > 0.0, slack, 1.0), 0.0)


def _divided(products: Vector | float, values: Vector, slack: Vector) -> Vector:
    """Return products / slack; 0 where the value is 0."""
    return np.where(values > 0.0, products / np.where(values > 0.0, slack, 1.0), 0.0)


def _gram(X: Matrix, weights: Vector) -> Vector:
    """Return Σ_i weights_i x̃_i x̃_i'."""
    rows = np.flatnonzero(weights)
    part, weights = (X, weights) if len(rows) == len(weights) else (X[rows], weights[rows])
    if is_sparse(part):
        scaled = sp.csr_array(part.multiply(weights[:, None]))
        gram = (part.T @ scaled).toarray()
    else:
        scaled = part * weights[:, None]
        gram = part.T @ scaled
    sums = np.asarray(scaled.sum(axis=0)).ravel()
    return np.block([[gram, sums[:, None]], [sums[None, :], np.array([[weights.sum()]])]])
