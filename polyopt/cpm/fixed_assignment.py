"""The faces of a polytope for a fixed assignment, by an interior-point method.

The samples are x̃_i = (x_i, 1) with labels y_i, the faces the rows of W (K, m+1), the bias last. The weights
may have a penalty, λ‖W‖₁ plus τ times the norm of each group of features, and signs
(:mod:`formulations.face_penalty`). For a fixed assignment of samples to faces, the cost of slack of sample i
at face k is c_ik, 0 if i is not assigned to k. The dual is

    max  D(α) = Σ α − ¼ ‖shrunk V‖²,   V_k = Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik,

where shrunk is the proximal map of the penalty: soft-thresholding of the entries, then of the groups' norms.
Every α within its caps gives a lower bound on the primal objective, and faces ½ shrunk V with exact zeros.

**Multipliers of the penalty.** r with |r| ≤ λ belongs to the ℓ1 term; a sign constraint removes one of the
two limits. q, of norm at most τ in each group, belongs to the group term. With these, ‖shrunk V‖² is the
least ‖V − r − q‖². As r is limited by a box like α, it is written as further multipliers: those of the *rows*
±e_j of each feature j, beside the rows y_i x̃_i of the samples. With z for all of these multipliers and b for
1 in the rows of samples, 0 in the others, the optimum satisfies, for each face,

    2 W + q = Σ_i z_i row_i + offset,      b_i − W·row_i + s_i − t_i = 0,      W = u q for each group,

where s and t are the multipliers of z ≥ 0 and z ≤ c, each group has a number u ≥ 0 for ‖q‖² ≤ τ², and the
products s_i z_i, t_i (c_i − z_i) and u (τ² − ‖q‖²) are 0. On the central path (:class:`_CentralPath`) all of
them equal the barrier parameter μ, which is decreased from step to step (Mehrotra's predictor-corrector).
Eliminating all variables but W leaves a system of m + 1 rows for each face, or of K (m + 1) if groups couple
the faces.

A path begins at faces W: all products are set to one μ, the objective at W over the number of products, and
the other variables follow in closed form, so that only the first equation is violated. A smaller μ would lead
to many short steps. With many features the path begins with some of them; others are added if their entry of
shrunk V is not 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, cg

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.types import Matrix, Vector, is_sparse
from formulations.polytope import lift
from polyopt.certificates.certificate import relative_gap


@dataclass(frozen=True)
class Options:
    """Parameters of the interior-point method."""

    max_factored: int = 1500  # size above which a system is solved by conjugate gradients, not factorised
    max_first_features: int = 200  # largest number of features in a path before any are added
    max_steps: int = 60  # largest number of steps of a path in one call
    min_step: float = 1e-6  # step length at which a path ends, by rounding errors
    boundary_fraction: float = 0.995  # fraction of the longest step within the bounds that is taken
    polished_gap: float = 1e-12  # relative gap of :meth:`FixedAssignmentSolver.polish`


class FixedAssignmentSolver:
    """Ascent on the multipliers of K faces, with the best multipliers and the best faces so far.

    X (n, m): samples.
    caps (n, K): c_ik, the largest value of each multiplier.
    alpha (n, K), W (K, m+1), scores (n, K): multipliers, faces, and the scores of the samples at W.
    steps: number of steps so far.
    """

    def __init__(
        self, X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, options: Options | None = None
    ):
        self._y, self._penalty, self._options, self.steps = y, penalty, options or Options(), 0
        lifted = lift(X).astype(np.float64)
        self._rows = sp.csr_array(sp.diags_array(y) @ lifted) if is_sparse(X) else y[:, None] * lifted
        self.begin_from(np.zeros(caps.shape), caps)

    # -- values ----------------------------------------------------------------------------------

    @property
    def scores(self) -> Vector:
        """The scores of the samples at W."""
        return self._y[:, None] * np.asarray(self._rows @ self.W.T)

    @property
    def primal(self) -> float:
        """The primal objective at W."""
        return _objective(self._penalty, self.W, self.caps, np.asarray(self._rows @ self.W.T))

    @property
    def dual(self) -> float:
        """The dual objective at alpha."""
        return float(self.alpha.sum() - 0.25 * (self._penalty.shrunk(self._sums()) ** 2).sum())

    @property
    def gap(self) -> float:
        """The relative duality gap."""
        return relative_gap(self.primal, self.dual)

    @property
    def faces(self) -> Vector:
        """W with zeros for weights whose V is only rounding error."""
        sizes = np.asarray(abs(self._rows).T @ self.alpha).T
        return np.where(np.abs(self._sums()) > 1e-13 * sizes, self.W, 0.0)

    def _sums(self) -> Vector:
        """Return V (K, m+1)."""
        return np.asarray(self._rows.T @ self.alpha).T

    # -- steps -----------------------------------------------------------------------------------

    def begin_from(self, alpha: ArrayLike, caps: Vector | None = None) -> None:
        """Continue from multipliers (n, K), clipped to the caps; `caps` (n, K) replaces the caps."""
        if caps is not None:
            self.caps = np.ascontiguousarray(caps)
        self._path: _CentralPath | None = None
        self.alpha = np.clip(np.asarray(alpha, dtype=float), 0.0, self.caps)
        self.W = 0.5 * self._penalty.shrunk(self._sums())

    def begin_at(self, W: Vector, caps: Vector | None = None) -> None:
        """Continue from faces (K, m+1), with α at its cap inside the margin, 0 beyond; caps as above."""
        self.begin_from(np.zeros_like(self.caps), caps)
        self.W = W
        self.alpha = self.caps * (np.asarray(self._rows @ W.T) < 1.0)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def solve(self, tol: float, clock: Clock | None = None) -> bool:
        """Solve to the relative gap `tol`; return False if no step improves further, or at the time limit."""
        clock = clock or Clock(None)
        while self.gap > tol and not clock.is_over:
            if self._path is None:
                self._path = self._new_path(self._first_features())
            path = self._path
            self.steps += path.follow(tol, clock)
            self.alpha, self.W = path.alpha, np.zeros_like(self.W)
            self.W[:, path.columns] = path.faces
            used = (self._penalty.shrunk(self._sums()) != 0.0).any(axis=0)
            used[path.columns] = False
            if self.gap <= tol or not used.any():
                break
            self._path = self._new_path(np.union1d(path.columns[:-1], np.flatnonzero(used)))
        return self.gap <= tol

    def polish(self, clock: Clock) -> None:
        """Continue to the gap `polished_gap`, so that each optimality condition is accurate, too."""
        self.solve(self._options.polished_gap, clock)

    def _first_features(self) -> NDArray[np.int64]:
        """Return the features with weights in W, and those with the largest V among the others."""
        m = self._penalty.n_features
        if m <= self._options.max_first_features or (self._penalty.l1 == 0.0 and self._penalty.group == 0.0):
            return np.arange(m)
        inside = self.caps * (np.asarray(self._rows @ self.W.T) < 1.0)
        sizes = np.abs(np.asarray(self._rows.T @ inside)[:-1]).max(axis=1)
        sizes[self._penalty.features(self.W)] = np.inf
        return np.sort(np.argsort(-sizes, kind="stable")[: self._options.max_first_features])

    def _new_path(self, features: NDArray[np.int64]) -> "_CentralPath":
        columns = np.append(features, self._penalty.n_features)
        rows = self._rows if len(columns) == self._rows.shape[1] else self._rows[:, columns]
        groups = np.unique(self._penalty.groups[features], return_inverse=True)[1]
        penalty = replace(self._penalty, groups=groups, signs=self._penalty.signs[features])
        return _CentralPath(rows, columns, self.caps, penalty, self.W[:, columns], self._options)


class _CentralPath:
    """The interior-point method, with the variables of the module docstring.

    rows (n, p+1): y_i x̃_i, in the columns (p+1,) of the path's features and the bias.
    penalty: that of the p features.
    start (K, p+1): faces at which the path begins.
    alpha (n, K), faces (K, p+1): the multipliers with the best bound, and the best faces, so far.
    W (K, p+1), z, s, t (n+p, K), q (K, p), u: the variables; q and u only with a group term.
    """

    def __init__(
        self, rows: Matrix, columns: NDArray[np.int64], caps: Vector, penalty: FacePenalty, start: Vector,
        options: Options,
    ):  # fmt: skip
        self.rows, self.columns, self.penalty, self.options = rows, columns, penalty, options
        n = len(caps)
        lam, signs = penalty.l1, penalty.signs
        # A row ±e_j and an offset, so that its multiplier is 0 at the limit of r that a sign does not remove.
        self.unit = np.where(signs > 0, 1.0, -1.0)
        self.offset = np.append(-lam * self.unit, 0.0)
        # A removed limit is replaced by one that the optimum cannot reach: V is at most Σ_i c_ik |x_ij|.
        largest = lam + 1.0 + np.asarray(abs(rows).T @ caps)[:-1]
        caps_of_r = np.where((signs != 0)[:, None], largest, 2.0 * lam)
        self.has_cap = np.vstack([caps, caps_of_r]) > 0.0  # False: the multiplier is 0
        self.costs, self.caps = caps, np.where(self.has_cap, np.vstack([caps, caps_of_r]), 1.0)
        self.linear = np.append(np.ones(n), np.zeros(len(signs)))[:, None]
        self.grouped = penalty.group > 0.0
        self.n_products = 2 * int(self.has_cap.sum()) + (penalty.n_groups if self.grouped else 0)
        self.bound, self.value = -np.inf, np.inf
        self.W = self.faces = penalty.enforce_signs(start)
        mu = max(_objective(penalty, self.W, caps, np.asarray(rows @ self.W.T)), 1e-300) / self.n_products
        self.z = _root(self.linear - self._times_rows(self.W), self.caps, mu)
        self.s, self.t = mu / self.z, mu / (self.caps - self.z)
        self.alpha = np.where(self.has_cap, self.z, 0.0)[:n]
        if self.grouped:
            tau, norms = penalty.group, penalty.group_norms(self.W[:, :-1])
            self.u = (mu + np.sqrt(mu**2 + 4.0 * tau**2 * norms**2)) / (2.0 * tau**2)
            self.q = self.W[:, :-1] / self.u[penalty.groups]  # with this q, u (τ² − ‖q‖²) = μ

    def follow(self, tol: float, clock: Clock) -> int:
        """Make steps to the relative gap `tol`, a limit, or rounding errors; return the number of steps."""
        for step in range(self.options.max_steps):
            if self._update_best() <= tol or clock.is_over:
                return step
            try:
                if self._step() <= self.options.min_step:
                    return step
            except (np.linalg.LinAlgError, ValueError):  # a factorisation fails by rounding
                return step
        return self.options.max_steps

    def _update_best(self) -> float:
        """Update the best multipliers and faces; return their relative gap."""
        alpha = np.where(self.has_cap, self.z, 0.0)[: len(self.costs)]
        shrunk = self.penalty.shrunk(np.asarray(self.rows.T @ alpha).T)
        bound = float(alpha.sum() - 0.25 * (shrunk**2).sum())
        if bound > self.bound:
            self.alpha, self.bound = alpha, bound
        # W has no exact zeros, but on badly scaled data ½ shrunk V has larger rounding errors.
        for faces in (np.where(shrunk != 0.0, self.penalty.enforce_signs(self.W), 0.0), 0.5 * shrunk):
            margins = np.asarray(self.rows @ faces.T)
            value = _objective(self.penalty, faces, self.costs, margins)
            if value < self.value:
                self.faces, self.value = faces, value
        return relative_gap(self.value, self.bound)

    # -- products --------------------------------------------------------------------------------

    def _times_rows(self, W: Vector) -> Vector:
        """Return W_k·row_i (n+p, K)."""
        return np.vstack([np.asarray(self.rows @ W.T), self.unit[:, None] * W[:, :-1].T])

    def _sum_of_rows(self, multipliers: Vector) -> Vector:
        """Return Σ_i multipliers_ik row_i (K, p+1)."""
        n = len(self.costs)
        sums = np.asarray(self.rows.T @ multipliers[:n]).T
        sums[:, :-1] += self.unit * multipliers[n:].T
        return sums

    def _cone_slack(self) -> Vector:
        """Return τ² − ‖q‖² of each group."""
        return np.asarray(self.penalty.group**2 - self.penalty.group_norms(self.q) ** 2)

    def _group_sums(self, values: Vector) -> Vector:
        """Return the sums of values (K, p) over each group."""
        return np.asarray(np.bincount(self.penalty.groups, values.sum(axis=0), self.penalty.n_groups))

    # -- a step ----------------------------------------------------------------------------------

    def _step(self) -> float:
        """Make a predictor-corrector step (Mehrotra), and return its length."""
        solve = self._factorise()
        predictor = self._direction(solve, 0.0, 0.0, 0.0)
        sigma = (1.0 - min(self._max_step(predictor), 1.0)) ** 3  # Mehrotra's centring parameter
        products = (self.s * self.z + self.t * (self.caps - self.z))[self.has_cap].sum()
        products += float((self.u * self._cone_slack()).sum()) if self.grouped else 0.0
        mu = max(1e-3, min(sigma, 0.9)) * products / self.n_products
        s_term, t_term = -predictor["z"] * predictor["s"], predictor["z"] * predictor["t"]  # second order
        direction = self._direction(solve, mu, s_term, t_term)
        length = min(1.0, self.options.boundary_fraction * self._max_step(direction))
        for name, change in direction.items():
            setattr(self, name, getattr(self, name) + length * change)
        return length

    def _factorise(self) -> Callable[[Vector, Vector], tuple[Vector, Vector]]:
        """Return the solution of the linearised equations, ΔW (K, p+1) and Δz of the samples (n, K).

        It is a function of `face_rhs` and of `rhs` of the samples, as in :meth:`_direction`.
        """
        curvature = self.s / self.z + self.t / (self.caps - self.z)
        self.inverse_curvature = np.where(self.has_cap, 1.0 / curvature, 0.0)
        weights, diagonal = np.split(self.inverse_curvature, [len(self.costs)])
        diagonals = 2.0 + np.column_stack([diagonal.T, np.zeros(len(self.W))])
        used = [np.flatnonzero(column) for column in weights.T]
        if not self.grouped and max(map(len, used)) < self.W.shape[1]:
            faces = zip(used, weights.T, diagonals, strict=True)
            by_samples = [_solver_of_samples(self.rows[i], of_face[i], scale) for i, of_face, scale in faces]

            def solve_by_samples(face_rhs: Vector, rhs: Vector) -> tuple[Vector, Vector]:
                step_W, step_z = np.empty_like(self.W), np.zeros_like(rhs)
                for k, (rows, solve_face) in enumerate(zip(used, by_samples, strict=True)):
                    step_W[k], step_z[rows, k] = solve_face(face_rhs[k], rhs[rows, k])
                return step_W, step_z

            return solve_by_samples
        solve = self._factorise_weights(used, weights, diagonals)

        def solve_by_weights(face_rhs: Vector, rhs: Vector) -> tuple[Vector, Vector]:
            step_W = solve(face_rhs)
            return step_W, rhs - weights * np.asarray(self.rows @ step_W.T)

        return solve_by_weights

    def _factorise_weights(
        self, used: list[NDArray[np.intp]], weights: Vector, diagonals: Vector
    ) -> Callable[[Vector], Vector]:
        """Return the solution of the system in W as a function of the right-hand side (K, p+1).

        Its matrix is 2 I + Σ_i row_i row_i'/curvature_i for each face, plus M⁻¹ for the groups, where
        curvature is the derivative of t − s by z.
        """
        K, d = self.W.shape
        if (K * d if self.grouped else d) > self.options.max_factored:
            return lambda rhs: self._solve_by_cg(rhs, weights, diagonals)
        blocks = []
        for k in range(K):
            rows, scale = self.rows[used[k]], weights[used[k], k]
            block = rows.T @ (sp.diags_array(scale) @ rows if is_sparse(rows) else rows * scale[:, None])
            blocks.append((block.toarray() if is_sparse(block) else block) + np.diag(diagonals[k]))
        if not self.grouped:
            factors = [sl.cho_factor(block) for block in blocks]
            return lambda rhs: np.array([sl.cho_solve(*pair) for pair in zip(factors, rhs, strict=True)])
        system = sl.block_diag(*blocks)
        group_of_entry = np.tile(self.penalty.groups, K)
        q, indices = self.q.ravel(), np.delete(np.arange(K * d), np.arange(d - 1, K * d, d))
        rank_one = 2.0 / (self.u * (2.0 * self.penalty.group**2 - self._cone_slack()))  # of q q', in M⁻¹
        inverse = -np.outer(rank_one[group_of_entry] * q, q) * (group_of_entry[:, None] == group_of_entry)
        inverse[np.diag_indices_from(inverse)] += 1.0 / self.u[group_of_entry]
        system[np.ix_(indices, indices)] += inverse
        factor = sl.cho_factor(system)
        return lambda rhs: sl.cho_solve(factor, rhs.ravel()).reshape(rhs.shape)

    def _solve_by_cg(self, rhs: Vector, weights: Vector, diagonals: Vector) -> Vector:
        """Solve the system by at most 200 conjugate gradient steps, preconditioned by its diagonal."""

        def apply(vector: Vector) -> Vector:
            W = vector.reshape(rhs.shape)
            product = diagonals * W + np.asarray(self.rows.T @ (weights * (self.rows @ W.T))).T
            if self.grouped:
                product[:, :-1] += self._times_inverse(W[:, :-1])
            return product.ravel()

        squares = self.rows.multiply(self.rows) if is_sparse(self.rows) else self.rows**2
        inverse = sp.diags_array(1.0 / (diagonals + np.asarray(squares.T @ weights).T).ravel())
        operator = LinearOperator((rhs.size, rhs.size), apply)
        return np.asarray(cg(operator, rhs.ravel(), rtol=1e-8, maxiter=200, M=inverse)[0]).reshape(rhs.shape)

    def _times_inverse(self, weights: Vector) -> Vector:
        """Return M⁻¹ times weights (K, p), where M is the derivative of W = u q with u = μ/(τ² − ‖q‖²).

        M⁻¹ = (1/u) (I − 2 q q' / (τ² + ‖q‖²)) for each group.
        """
        groups = self.penalty.groups
        sums = 2.0 * self._group_sums(self.q * weights)
        rank_one = sums / (2.0 * self.penalty.group**2 - self._cone_slack())
        return np.asarray((weights - self.q * rank_one[groups]) / self.u[groups])

    def _direction(
        self,
        solve: Callable[[Vector, Vector], tuple[Vector, Vector]],
        mu: float,
        s_term: Vector | float,
        t_term: Vector | float,
    ) -> dict[str, Vector]:
        """Return the Newton direction of each variable, for products equal to μ plus the terms of s and t.

        The linearised equations give Δz = (rhs − ΔW·row) / curvature and Δq = M⁻¹ (ΔW + group_rhs). Then
        2 (W + ΔW) + q + Δq = Σ_i (z_i + Δz_i) row_i + offset is a system in ΔW.
        """
        slack, inverse_curvature = self.caps - self.z, self.inverse_curvature
        s, t = mu + s_term, mu + t_term  # the products after the step
        rhs = inverse_curvature * (self.linear - self._times_rows(self.W) + s / self.z - t / slack)
        face_rhs = self._sum_of_rows(np.where(self.has_cap, self.z, 0.0) + rhs) + self.offset - 2.0 * self.W
        if self.grouped:
            cone_slack = self._cone_slack()
            group_rhs = self.W[:, :-1] - self.q * (mu / cone_slack)[self.penalty.groups]
            face_rhs[:, :-1] -= self.q + self._times_inverse(group_rhs)
        n = len(self.costs)
        step_W, step_of_samples = solve(face_rhs, rhs[:n])
        step_of_r = rhs[n:] - inverse_curvature[n:] * (self.unit[:, None] * step_W[:, :-1].T)
        step_z = np.vstack([step_of_samples, step_of_r])
        direction = {
            "W": step_W, "z": step_z,
            "s": (s - self.s * step_z) / self.z - self.s, "t": (t + self.t * step_z) / slack - self.t,
        }  # fmt: skip
        if self.grouped:
            direction["q"] = self._times_inverse(step_W[:, :-1] + group_rhs)
            products = self._group_sums(self.q * direction["q"])
            direction["u"] = (mu + 2.0 * self.u * products) / cone_slack - self.u  # from u (τ² − ‖q‖²) = μ
        return direction

    def _max_step(self, direction: dict[str, Vector]) -> float:
        """Return the longest step within all bounds, at most 1 / `boundary_fraction`."""
        pairs = [(getattr(self, name), direction[name]) for name in ("z", "s", "t")]
        pairs.append((self.caps - self.z, -direction["z"]))
        multiples = [
            np.where(self.has_cap & (move < 0), value / -move, np.inf).min() for value, move in pairs
        ]
        if self.grouped:
            u, move, slack = self.u, direction["u"], self._cone_slack()
            multiples.append(np.where(move < 0.0, u / -move, np.inf).min(initial=np.inf))
            products = self._group_sums(self.q * direction["q"])
            squares = self._group_sums(direction["q"] ** 2)
            # The positive root of squares·length² + 2·products·length = slack: there ‖q‖ is τ.
            roots = slack / (products + np.sqrt(products**2 + squares * slack))
            multiples.append(np.where(squares > 0.0, roots, np.inf).min(initial=np.inf))
        return float(min(1.0 / self.options.boundary_fraction, *multiples))


def _solver_of_samples(
    rows: Matrix, weights: Vector, diagonal: Vector
) -> Callable[[Vector, Vector], tuple[Vector, Vector]]:
    """Return the solution of a face's equations by a system in its samples, if these are fewer than weights.

    With rows A, weights R and a diagonal D it is Δz = (R⁻¹ + A D⁻¹A')⁻¹ (R⁻¹ rhs − A D⁻¹f) and
    ΔW = D⁻¹ (f + A'Δz), where f = face_rhs − A' rhs. Δz from ΔW would have larger rounding errors.
    """
    scaled = rows @ sp.diags_array(1.0 / diagonal) if is_sparse(rows) else rows / diagonal
    gram = scaled @ rows.T
    gram = gram.toarray() if is_sparse(gram) else gram
    gram[np.diag_indices_from(gram)] += 1.0 / weights
    factor = sl.cho_factor(gram)

    def solve(face_rhs: Vector, rhs: Vector) -> tuple[Vector, Vector]:
        f = face_rhs - rows.T @ rhs
        step_z = sl.cho_solve(factor, rhs / weights - scaled @ f)
        return (f + rows.T @ step_z) / diagonal, step_z

    return solve


def _objective(penalty: FacePenalty, W: Vector, caps: Vector, margins: Vector) -> float:
    """Return the primal objective at faces W with the margins y_i W_k·x̃_i (n, K)."""
    return float((W**2).sum() + penalty.value(W) + (caps * np.maximum(0.0, 1.0 - margins)).sum())


def _root(target: Vector, width: Vector, mu: float) -> Vector:
    """Return the a between 0 and `width` with μ/(width − a) − μ/a = target."""
    ratio = target * width / (np.sqrt((target * width) ** 2 + 4.0 * mu**2) + 2.0 * mu)
    return np.asarray(width * np.clip(0.5 * (1.0 + ratio), 1e-14, 1.0 - 1e-14))
