"""The dual of a polytope with penalised weights, by projected Newton steps.

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
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, cg

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.certificates.certificate import relative_gap
from polyopt.cpm.explicit_faces import explicit_multipliers


@dataclass(frozen=True)
class Options:
    """Parameters of the Newton steps."""

    max_factored: int = 1500  # size above which a system is solved by conjugate gradients, not factorised
    ridge_init: float = 1e-2  # first ridge (Levenberg), relative to the mean of ½ ‖x̃_i‖² over the samples
    ridge_min: float = 1e-13  # smallest ridge, relative to the same mean
    ridge_max: float = 1e8  # largest ridge, relative to the same mean; a step that needs more is given up
    first_steps: int = 40  # largest number of Newton steps before Clarabel
    max_steps: int = 300  # largest number of Newton steps after it, or without it
    max_explicit_weights: int = 3000  # largest number of weights, K (m + 1), for which Clarabel is called
    polished_gap: float = 1e-12  # relative gap of :meth:`PenalisedAscent.polish`
    polish_steps: int = 12  # largest number of Newton steps of :meth:`PenalisedAscent.polish`
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

    def begin_from(self, alpha: ArrayLike, caps: Vector | None = None) -> None:
        """Continue from multipliers (n, K), clipped to the caps; `caps` (n, K) replaces the caps."""
        if caps is not None:
            self.caps = np.ascontiguousarray(caps)
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

    def solve(self, tol: float, clock: Clock | None = None) -> bool:
        """Solve to the relative gap `tol`; return False if no step improves further, or at the time limit.

        If Newton steps do not suffice, as on badly scaled data, they go on from the multipliers of Clarabel.
        """
        clock = clock or Clock(None)
        options, is_small = self._options, self.W.size <= self._options.max_explicit_weights
        if self._run_newton(tol, options.first_steps if is_small else options.max_steps, clock):
            return True
        if clock.is_over or not is_small:
            return False
        alpha, dual = explicit_multipliers(self._X, self._y, self.caps, self._penalty, clock.left), self.dual
        if alpha is None:
            return False
        previous_alpha = self.alpha
        self._set_alpha(alpha)
        if self.dual < dual:
            self._set_alpha(previous_alpha)
        self._ridge = 1e-8  # small, because steps from almost optimal multipliers need no damping
        return self._run_newton(tol, options.max_steps, clock)

    def polish(self, clock: Clock) -> None:
        """Continue to the gap `polished_gap`, so that each optimality condition is accurate, too."""
        self._run_newton(self._options.polished_gap, self._options.polish_steps, clock)

    def _run_newton(self, tol: float, max_steps: int, clock: Clock) -> bool:
        """Make at most `max_steps` Newton steps; return True if the gap is at most `tol`."""
        for _ in range(max_steps):
            if self.gap <= tol:
                self._set_alpha(self.alpha)  # recompute V, which accumulates rounding
                if self.gap <= tol:
                    return True
            if clock.is_over or not self.step():
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
        solution, R = np.zeros_like(rhs), ridge[self._free]

        def apply(direction: Vector) -> Vector:  # factor by factor: A (J (A' direction)) + R direction
            pairs = np.zeros_like(rhs)
            pairs[self._free] = direction
            return self._apply(self._jacobian(self._adjoint(pairs)))[self._free] + R * direction

        operator, inverse = LinearOperator((len(R), len(R)), apply), sp.diags_array(1.0 / R)
        solution[self._free], _ = cg(operator, rhs[self._free], rtol=1e-4, maxiter=60, M=inverse)
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
