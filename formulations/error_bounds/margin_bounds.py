"""Generalisation bounds of the large-margin machines: SVM, Sigma-SVM and Relative Margin Machine.

The machine is f(x) = w·φ(x) + b with the feature map φ of a kernel k, or φ(x) = x, and labels y = ±1. Theorem
1 of Shivaswamy & Jebara (2008, appendix) bounds the probability of error P(y f(x) ≤ 0) by the mean of
[1 − y f]_+, a capacity and a confidence, for three classes of machines without intercept. The theorem below
has this form, with constants that are proved here.

Classes
-------
The intercept is one more weight: for c > 0 put x̃ = (φ(x), c) and w̃ = (w, b/c), so that w̃·x̃ = f(x). The n_u
landmarks u_j are samples without labels, independent of the training samples; ũ_j = (φ(u_j), c).
The classes of machines are, for a radius R and a weight D > 0 of the outputs at the landmarks,

    F   ‖w̃‖ ≤ R                                     small weights
    G   ‖w̃‖² + (D/n_u) Σ_j f(u_j)² ≤ R²             small outputs on the average
    H   ‖w̃‖² + D max_j f(u_j)² ≤ R²                 every output small

Theorem
-------
Let (x_i, y_i) be n independent samples of one distribution. R, c and D are on grids: R = ρ^j for a ρ > 1,
c = 2^a, D = 4^s n_u / Σ_j ‖ũ_j‖², with integers j, a, s. Let δ in (0, 1) be the probability that the bound
fails. An integer j, and likewise a or s, has the share π_j = 2 / (3 (|j|+1)(|j|+2)) of δ, with Σ_j π_j = 1.
With probability at least 1 − δ, for all w, b and γ > 0, for each of the three classes, and all a, s at once,

    P(y f(x) ≤ 0)  ≤  (1/n) Σ_i r(y_i f(x_i)/γ)  +  (2/n) ρ^j √τ  +  3 √( ln(2/δ') / 2n ),

where r(v) = min(1, [1−v]_+) is the ramp loss, which is at most the hinge loss [1−v]_+, and (τ, ρ^j, δ') is
any of

    F   τ = Σ_i ‖x̃_i‖²,           ρ^j ≥ ‖w̃‖/γ,                                   δ' = ω δ π_a π_j
    G   τ = τ(p), all p_j equal,  ρ^j ≥ √(‖w̃‖² + (D/n_u) Σ_j f(u_j)²)/γ,         δ' = ω δ π_a π_s π_j
    H   τ = τ(p), any p,          ρ^j ≥ √(‖w̃‖² + D max_j f(u_j)²)/γ,             δ' = ω δ π_a π_s π_j

with ω = 1/3, or 1 if the class is named beforehand. Here τ(p) = Σ_i x̃_i'(I + D Σ_j p_j ũ_j ũ_j')⁻¹ x̃_i for
weights p_j ≥ 0 of the landmarks with Σ_j p_j = 1; :class:`Landmarks` minimises τ(p). The capacity
(2/n) ρ^j √τ is U_F, U_G or U_H of :mod:`formulations.error_bounds.rmm_bounds` for the energy E = ρ^(2j)/2.

Proof
-----
1. One class. F, G and H of radius R have R̂ = 𝔼_σ sup (1/n) Σ_i σ_i w̃·x̃_i ≤ R √τ/n for independent signs
   σ_i, in H for any p; for F this is :mod:`formulations.error_bounds.rademacher`, step 1, and for G and H it
   is proved below. So p may depend on the training samples, and the bound is valid even if p is not optimal.

2. Fixed beforehand. Given the landmarks, each class is fixed: its D, c and radius are on a grid, and the
   landmarks are independent of the training samples. So step 4 of the proof in
   :mod:`formulations.error_bounds.rademacher` applies: with probability 1 − δ',
   P(y f ≤ 0) ≤ (1/n) Σ_i r(y_i f(x_i)) + 2 R̂ + 3 √(ln(2/δ')/2n) for all machines of the class. The training
   samples cannot be the landmarks: the class would depend on them, so that it is not fixed beforehand, and
   replacing one sample could change the deviation by more than 1/n.

3. Union bound. The δ' of the countable family sum to at most δ, and (w, b) belongs to every class whose
   radius is at least its norm.

4. Free margin. The machine of (w, b)/γ has the signs of f; its norm in each class is that of (w, b) divided
   by γ. Step 3 holds for all machines at once, hence for any γ, even one chosen after the fact. ∎

Search: class F is evaluated for every c of a finite part of the grid; class G for every D of such a part and
for five values of c around F's best; class H by local search in (c, D) from G's best.

Cost of the intercept: the least of ‖w̃‖ √τ over c in class F is ‖w‖ √(Σ_i ‖φ(x_i)‖²) + |b| √n, the sum of one
term of the weights and one of the intercept.

The samples must not have been used to choose φ (that is, the kernel and its parameters), or to standardise
the features.

Landmarks
---------
In this section φ includes the constant c, and w its weight; the radius is R = √(2E). Without c these
are the classes of :mod:`formulations.error_bounds.rmm_bounds`. The bounds on their complexities have the form
(2√(2E)/n) √τ(p), where p ≥ 0, Σ_j p_j = 1 are weights of the landmarks and

    τ(p) = Σ_i φ(x_i)' M(p)⁻¹ φ(x_i),      M(p) = I + D Σ_j p_j φ(u_j) φ(u_j)'.

Equal weights give U_G, the bound for class G, and D = 0 gives U_F. The minimum over p gives U_H:

    min  τ(p)   s.t.  p ≥ 0, Σ_j p_j = 1.

The paper's program for U_H is the minimum over λ ≥ 0 of (1/n) Σ_i φ(x_i)' Σ_λ⁻¹ φ(x_i) + (2E/n) Σ_j λ_j, with
Σ_λ = (Σ_j λ_j) I + D Σ_j λ_j φ(u_j) φ(u_j)'. At λ = t p it is τ(p)/(n t) + 2E t/n, minimal at
t = √(τ(p)/2E). In the design of experiments the optimal p is an A-optimal design.

Upper bound, for every p. Σ_j p_j (‖w‖² + D (w·φ(u_j))²) = w'M(p)w is at most 2E for every w in H, whatever p
is, and in G for equal weights. So Σ_i σ_i w·φ(x_i) ≤ √(2E) ‖M(p)^(-1/2) Σ_i σ_i φ(x_i)‖ by Cauchy-Schwarz,
and by Jensen the expectation of the left side over independent signs is at most √(2E τ(p)).

Lower bound on min τ (duality gap). With LL' = Σ_i φ(x_i)φ(x_i)' and any V put d_j = ‖V‖² + D ‖V'φ(u_j)‖². For
all weights p', again by Cauchy-Schwarz, tr(L'V)² ≤ τ(p') Σ_j p'_j d_j ≤ τ(p') max_j d_j. At V = M(p)⁻¹L,
where tr(L'V) = Σ_j p_j d_j = τ, this gives

    min τ  ≥  τ² / (τ + Δ),      Δ = max_j q_j − Σ_j p_j q_j,      q_j = D ‖V'φ(u_j)‖² = −∂τ/∂p_j.

The samples enter only through their projections on the landmarks' span and the sum of the squared norms of
their remainders. So k(u, u), Σ_i k(u, x_i) k(x_i, u) and Σ_i k(x_i, x_i) of the kernel k are sufficient.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008): in Theorem 1 γ is free while the slacks are those of
γ = 1, and the confidence is printed without its root. Bartlett & Mendelson, Rademacher and
Gaussian Complexities (2002). Pukelsheim, Optimal Design of Experiments (1993).

Example
-------
>>> import numpy as np
>>> from formulations.language.toy_data import two_blobs
>>> (X, y), (U, _) = two_blobs(n=4000, m=2, seed=0), two_blobs(n=40, m=2, seed=1)
>>> w = np.array([0.4, 0.4])
>>> bound_f, bound_h = linear_bound(X, y, w, form="F"), linear_bound(X, y, w, U=U, form="H")
>>> bound_h.capacity < bound_f.capacity and not bound_f.vacuous
True
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import hypot, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from formulations.error_bounds.rademacher import (
    ErrorBound,
    confidence,
    log_inverse_weight,
    margins_to_try,
    ramp,
    rounded_up,
)
from formulations.language.arguments import at_least
from formulations.language.recovery import as_data, gram_factor, square_sum
from formulations.language.types import Array, Matrix, MatrixLike, dense, is_sparse


@dataclass(frozen=True)
class Options:
    """Numbers of the interior-point method for min τ; the bound is valid for any weights p that it finds."""

    step_relative_to_boundary: float = 0.995  # largest step; at 1 an entry of p or z becomes 0
    barrier_relative_to_product: float = 0.1  # barrier parameter μ; 1 is the mean product p_j z_j


DEFAULTS = Options()


@dataclass(frozen=True)
class LandmarkWeights:
    """Weights of the landmarks that nearly minimise τ, and their τ."""

    tau: float  # τ(p): an upper bound on min τ, whether or not p is optimal
    weights: Array  # p (n_u,)
    gap: float  # proven upper bound on 1 − min τ/τ(p)
    iterations: int  # iteration at which these weights were found


class Landmarks:
    """Landmarks, with the training samples' second moments projected on the landmarks' span.

    The arguments are the kernel matrix k(u, u) of the landmarks (n_u, n_u); over the n training samples the
    sums Σ_i k(u, x_i) k(x_i, u) (n_u, n_u) and Σ_i k(u, x_i) (n_u,); n; and the trace Σ_i k(x_i, x_i).

    `basis` (n_u, r) has the landmarks' coordinates along the principal axes of their span, of numerical rank
    r; `moments` (r, r) is the sum of the outer products of the samples' coordinates along these axes,
    `distances` that of their squared distances from the span. `omitted_norms` (n_u,) has the norm of each
    landmark's component outside the basis, which has no axis below the rank tolerance.
    """

    def __init__(self, kernel: ArrayLike, products: ArrayLike, sums: ArrayLike, n: int, trace: float):
        self.kernel, self.products = np.asarray(kernel, dtype=float), np.asarray(products, dtype=float)
        self.sums, self.n, self.trace = np.asarray(sums, dtype=float), int(n), float(trace)
        self.basis: Array = gram_factor(self.kernel) if self.kernel.any() else np.zeros((len(self.kernel), 0))
        omitted_squares = np.diag(self.kernel) - (self.basis**2).sum(axis=1)
        self.omitted_norms: Array = np.sqrt(np.maximum(omitted_squares, 0.0))
        inverse = self.basis / (self.basis**2).sum(axis=0)
        self.moments: Array = inverse.T @ self.products @ inverse
        self.distances = max(self.trace - float(np.trace(self.moments)), 0.0)

    @classmethod
    def from_blocks(cls, kernel: ArrayLike, blocks: Iterable[ArrayLike], trace: float) -> "Landmarks":
        """Build from k(u, u), blocks of rows of k(x, u) for all samples x, and `trace` = Σ_i k(x_i, x_i)."""
        n, products, sums = 0, np.zeros(np.shape(kernel)), np.zeros(len(np.asarray(kernel)))
        for block in blocks:
            K = np.asarray(block, dtype=float)
            n, products, sums = n + len(K), products + K.T @ K, sums + K.sum(axis=0)
        return cls(kernel, products, sums, n, trace)

    @classmethod
    def linear(cls, X: Matrix, U: Matrix, block_rows: int = 4096) -> "Landmarks":
        """Build for the linear kernel from samples X (n, m), by blocks, and landmarks U (n_u, m)."""
        blocks = (dense(X[start : start + block_rows] @ U.T) for start in range(0, X.shape[0], block_rows))
        return cls.from_blocks(dense(U @ U.T), blocks, square_sum(X))

    def with_constant(self, constant: float) -> "Landmarks":
        """Return the landmarks for φ with one more feature, `constant`: the kernel is k + constant²."""
        square = constant**2
        products = self.products + square * (self.sums[:, None] + self.sums[None, :]) + square**2 * self.n
        trace = self.trace + square * self.n
        return Landmarks(self.kernel + square, products, self.sums + square * self.n, self.n, trace)

    def tau_at_equal_weights(self, D: float) -> float:
        """Return τ at equal weights p, which gives U_G."""
        mean_squares = (self.basis**2).sum(axis=0) / len(self.basis)
        return self.distances + float((np.diag(self.moments) / (1.0 + D * mean_squares)).sum())

    def minimise_tau(
        self, D: float, tol: float = 1e-8, max_iter: int = 100, options: Options = DEFAULTS
    ) -> LandmarkWeights:
        """Minimise τ, which gives U_H, by a primal-dual interior-point method that begins at equal weights.

        Stop at the proven gap `tol`. If it is not reached, return the best iterate with its gap. No line
        search is needed: the longest feasible steps converged on every problem tried, also degenerate ones.
        """
        D = at_least("D", D, 0.0)
        A = np.sqrt(D) * self.basis  # M(p) = I + A' diag(p) A on the landmarks' span
        p = np.full(len(A), 1.0 / len(A))
        z = None  # the multipliers (n_u,) of p >= 0, from the first step on
        scale = float(np.trace(self.moments)) or 1.0
        S = self.moments / scale  # of trace 1
        best = LandmarkWeights(np.inf, p, np.inf, 0)
        for iteration in range(max_iter + 1):
            scaled_trace, Y, q = _trace_and_rates(A, S, p)
            tau = self.distances + scale * scaled_trace
            excess = scale * float(q.max() - p @ q)  # Δ of the lower bound τ²/(τ + Δ)
            gap = excess / (tau + excess) if excess > 0 else 0.0
            if tau <= best.tau:
                best = LandmarkWeights(tau, p, gap, iteration)
            if gap <= tol or iteration == max_iter:
                break
            if z is None:
                z = 2.0 * q.max() - q  # the multiplier ν of Σ_j p_j = 1 is 2 max_j q_j
            mu = options.barrier_relative_to_product * float(p @ z) / len(A)
            hessian = 2.0 * (A @ Y) * (Y.T @ S @ Y)  # of tr(S M⁻¹) in p
            dp, dz = _newton_step(hessian, p, z, q, mu)
            p = p + _step_length(p, dp, options) * dp
            z = z + _step_length(z, dz, options) * dz
            p = p / p.sum()
        return best


def _trace_and_rates(A: Array, S: Array, p: Array) -> tuple[float, Array, Array]:
    """Return tr(S M⁻¹), Y = M⁻¹A', and q with q_j = Y_j'S Y_j for column j of Y, at M = I + A' diag(p) A."""
    factor = cho_factor(np.eye(len(S)) + (A * p[:, None]).T @ A)
    Y = cho_solve(factor, A.T)
    return float(np.trace(cho_solve(factor, S))), Y, np.sum(Y * (S @ Y), axis=0)


def _newton_step(hessian: Array, p: Array, z: Array, q: Array, mu: float) -> tuple[Array, Array]:
    """Return the Newton step (dp, dz) for −q(p) + ν − z = 0, Σ_j p_j = 1, p_j z_j = mu.

    q = −∇τ has the Jacobian −hessian; ν is the multiplier of Σ_j p_j = 1. `hessian` (of τ) is overwritten.
    """
    hessian[np.diag_indices_from(hessian)] += z / p
    columns = cho_solve(cho_factor(hessian), np.column_stack([q + mu / p, np.ones(len(p))]))
    nu = columns[:, 0].sum() / columns[:, 1].sum()
    dp = columns[:, 0] - nu * columns[:, 1]
    return dp, mu / p - z - z / p * dp


def _step_length(x: Array, dx: Array, options: Options) -> float:
    """Return a share of the step along dx at which an entry of x becomes 0, at most 1."""
    to_boundary = float(np.min(-x[dx < 0] / dx[dx < 0], initial=np.inf))
    return min(1.0, options.step_relative_to_boundary * to_boundary)


Form = Literal["F", "G", "H"]
FORMS = {"F": "small weights", "G": "small outputs on the average", "H": "every output small"}

_EXPONENTS_OF_C = range(-30, 31)  # a of c = 2^a
_EXPONENTS_OF_D = range(-12, 13)  # s of D = 4^s, in units of 1/mean ‖ũ_j‖²


@dataclass(frozen=True)
class MachineClass:
    """A class of any radius, and the norm of one machine in it, which the radius must reach at γ = 1."""

    form: Form  # name of the class
    constant: float  # c
    D: float  # weight of the outputs at the landmarks; 0 in class F
    norm: float  # ‖w̃‖ in class F; in G and H the square root in the theorem, for γ = 1
    tau: float  # τ of the theorem
    log_inverse_share: float  # ln(δ/δ'), without the term ln(1/π_j) of the radius
    gap: float = 0.0  # proven upper bound on the relative distance of √τ from its minimum; 0 in F and G


class Sample:
    """The sample of margins y_i f(x_i): its mean losses, and the bound of a class, at each candidate γ."""

    def __init__(self, margins: Array, delta: float, gamma: float | Literal["best"]):
        self.n, self.delta, self.gammas = len(margins), delta, margins_to_try(margins, gamma)
        self.losses = np.array([ramp(margins, value) for value in self.gammas])  # columns: ramp, hinge

    def terms(self, machine_class: MachineClass) -> tuple[Array, Array, Array]:
        """Return the radius ρ^j of a class, its capacity and its last term, at each γ."""
        j, radii = rounded_up(machine_class.norm / self.gammas)
        log_inverse_share = machine_class.log_inverse_share + log_inverse_weight(j)
        capacity = 2.0 / self.n * radii * sqrt(machine_class.tau)
        return radii, capacity, confidence(self.n, self.delta, log_inverse_share)

    def totals(self, machine_class: MachineClass) -> Array:
        """Return the bound of a class at each γ."""
        _, capacity, last_term = self.terms(machine_class)
        return np.asarray(self.losses[:, 0] + capacity + last_term)

    def total(self, machine_class: MachineClass) -> float:
        """Return the bound of a class at its best γ."""
        return float(self.totals(machine_class).min())


def class_f(sample: Sample, norm: float, b: float, trace: float, form_penalty: float) -> MachineClass:
    """Return class F with the best c, for ‖w‖, b, Σ_i k(x_i, x_i) and `form_penalty` = ln(1/ω)."""

    def with_constant(a: int) -> MachineClass:
        c = 2.0**a
        log_inverse_share = form_penalty + float(log_inverse_weight(a))
        return MachineClass("F", c, 0.0, hypot(norm, b / c), trace + sample.n * c**2, log_inverse_share)

    return min(map(with_constant, _EXPONENTS_OF_C), key=sample.total)


class LandmarkClasses:
    """The classes G and H of a machine on the grid of c and D; `outputs` (n_u,) are the f(u_j)."""

    def __init__(self, landmarks: Landmarks, norm: float, b: float, outputs: Array, form_penalty: float):
        self.landmarks, self.norm, self.b, self.form_penalty = landmarks, norm, b, form_penalty
        self.outputs = np.abs(outputs)
        self._lifted: dict[int, tuple[Landmarks, float, Array, float]] = {}  # cache, by a
        self._classes: dict[tuple[str, int, int], MachineClass] = {}  # cache, by (form, a, s)

    def _lifted_landmarks(self, a: int) -> tuple[Landmarks, float, Array, float]:
        """Return, for c = 2^a, the landmarks ũ, ‖w̃‖, upper bounds (n_u,) on |f(u_j)|, and the unit of D."""
        if a not in self._lifted:
            landmarks, norm = self.landmarks.with_constant(2.0**a), hypot(self.norm, self.b / 2.0**a)
            # f(u) has a part of at most norm * omitted_norms along the axes that the basis omits.
            outputs = self.outputs + norm * landmarks.omitted_norms
            self._lifted[a] = landmarks, norm, outputs, 1.0 / float(np.mean(np.diag(landmarks.kernel)))
        return self._lifted[a]

    def grid_class(self, form: Literal["G", "H"], a: int, s: int) -> MachineClass:
        """Return the class of one grid point; H with nearly optimal weights p."""
        if (form, a, s) not in self._classes:
            landmarks, norm, outputs, unit = self._lifted_landmarks(a)
            D = 4.0**s * unit
            if form == "G":
                output_square, gap = float(outputs @ outputs) / len(outputs), 0.0
                tau = landmarks.tau_at_equal_weights(D)
            else:
                optimum = landmarks.minimise_tau(D, tol=1e-4)
                output_square, tau = float(outputs.max() ** 2), optimum.tau
                gap = 1.0 - sqrt(1.0 - optimum.gap)  # the capacity is proportional to √τ
            # ln(δ/δ'), without the term of the radius
            log_inverse_share = self.form_penalty + float(log_inverse_weight(a) + log_inverse_weight(s))
            self._classes[form, a, s] = MachineClass(
                form, 2.0**a, D, sqrt(norm**2 + D * output_square), tau, log_inverse_share, gap
            )
        return self._classes[form, a, s]

    def best_class_g(self, sample: Sample, centre: int) -> tuple[int, int]:
        """Return (a, s) of the class G with the smallest bound, for the five values of a around `centre`."""
        points = product(range(centre - 2, centre + 3), _EXPONENTS_OF_D)
        return min(points, key=lambda point: sample.total(self.grid_class("G", *point)))

    def best_class_h(self, sample: Sample, start: tuple[int, int]) -> MachineClass:
        """Return a locally best class H, by steps from `start` to the best neighbour."""
        point, best = None, start
        while best != point:
            point = best
            candidates = (point, *_neighbours(*point))
            best = min(candidates, key=lambda place: sample.total(self.grid_class("H", *place)))
        return self.grid_class("H", *best)


def _neighbours(a: int, s: int) -> Iterator[tuple[int, int]]:
    """Yield the grid points (a ± 1, s) and (a, s ± 1)."""
    yield from ((a - 1, s), (a + 1, s))
    yield from ((a, t) for t in (s - 1, s + 1) if t in _EXPONENTS_OF_D)


@dataclass(frozen=True)
class MarginBound(ErrorBound):
    """A bound on the error of a large-margin machine, term by term; ``capacity`` is U_F, U_G or U_H.

    Its other fields are those of :class:`formulations.error_bounds.rademacher.ErrorBound`.
    """

    form: Form
    constant: float  # c, the constant feature; its weight is b/c
    D: float  # weight of the outputs at the landmarks; 0 in class F
    radius: float  # ρ^j of the class, for the machine (w, b)/γ
    gap: float  # proven upper bound on the relative distance of the capacity from U_H; 0 in F and G

    @property
    def words(self) -> str:
        """The name and description of the class, such as "class F: small weights"."""
        return f"class {self.form}: {FORMS[self.form]}"


def margin_bound(
    f: ArrayLike, y: ArrayLike, *, norm: float, b: float, trace: float, landmarks: Landmarks | None = None,
    outputs: ArrayLike | None = None, delta: float = 0.05, gamma: float | Literal["best"] = "best",
    form: Form | Literal["best"] = "best",
) -> MarginBound:  # fmt: skip
    """Evaluate the theorem of this module for a fitted machine of any kernel.

    Parameters
    ----------
    f, y : array_like of shape (n,)
        Outputs, with the intercept, and labels -1 and +1 of the training samples.
    norm : float
        ‖w‖, in the kernel's feature space.
    b : float
        Intercept.
    trace : float
        Σ_i k(x_i, x_i).
    landmarks : Landmarks, optional
        The landmarks with the samples' moments, without the constant feature. If None, only class F is
        available.
    outputs : array_like of shape (n_u,), optional
        Outputs f(u_j), with the intercept; given with the landmarks.
    delta : float
        Probability that the bound fails, between 0 and 1.
    gamma : float or "best"
        The margin, positive; "best" tries many, at no cost in the bound (step 4 of the proof).
    form : {"best", "F", "G", "H"}
        The class; "best" takes the least bound of all three, each at a third of δ.

    Raises
    ------
    ValueError
        Shapes that do not fit, or numbers out of range.
    """
    f, y = np.asarray(f, dtype=float), np.asarray(y, dtype=float)
    if f.ndim != 1 or not len(f) or not np.isfinite(f).all():
        raise ValueError(f"f must be finite and of shape (n,), not of shape {f.shape}")
    if y.shape != f.shape or not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"y must be of shape {f.shape} and hold only -1 and +1")
    norm, trace = at_least("norm", norm, 0.0), at_least("trace", trace, 0.0)
    if not np.isfinite(b):
        raise ValueError(f"b must be finite, not {b!r}")
    if form not in ("best", *FORMS):
        raise ValueError(f"form must be 'best', 'F', 'G' or 'H', not {form!r}")
    sample = Sample(y * f, delta, gamma)
    if landmarks is None:
        if form in ("G", "H"):
            raise ValueError(f"form={form!r} needs landmarks, samples that were not used in training")
        return _terms(sample, class_f(sample, norm, b, trace, 0.0))
    values = np.asarray([] if outputs is None else outputs, dtype=float)
    if values.shape != (len(landmarks.kernel),) or not np.isfinite(values).all():
        raise ValueError(
            f"outputs must be finite and of shape ({len(landmarks.kernel)},), one for each landmark, "
            f"not of shape {values.shape}"
        )
    if landmarks.n != len(f):
        raise ValueError(
            f"the landmarks must have the moments of the {len(f)} samples of f, not of {landmarks.n}"
        )
    form_penalty = log(3.0) if form == "best" else 0.0
    found = {"F": class_f(sample, norm, b, trace, form_penalty)}
    if form != "F":
        classes = LandmarkClasses(landmarks, norm, b, values, form_penalty)
        point = classes.best_class_g(sample, round(np.log2(found["F"].constant)))
        found["G"] = classes.grid_class("G", *point)
        if form != "G":
            found["H"] = classes.best_class_h(sample, point)
    considered = found.values() if form == "best" else (found[form],)
    return min((_terms(sample, each) for each in considered), key=lambda bound: bound.total)


def linear_bound(
    X: MatrixLike, y: ArrayLike, w: ArrayLike, b: float = 0.0, U: MatrixLike | None = None,
    delta: float = 0.05, gamma: float | Literal["best"] = "best", form: Form | Literal["best"] = "best",
) -> MarginBound:  # fmt: skip
    """Evaluate the theorem for a linear machine with weights w and the sample X, y it was fitted to.

    U (n_u, m) are the landmarks, samples without labels that were not used in training. Other arguments as in
    :func:`margin_bound`.
    """
    X, y = as_data(X, y)
    w = np.asarray(w, dtype=float)
    if w.shape != (X.shape[1],) or not np.isfinite(w).all():
        raise ValueError(f"w must be finite and of shape ({X.shape[1]},), not of shape {w.shape}")
    landmarks = outputs = None
    if U is not None:
        U, _ = as_data(U, np.ones(U.shape[0] if is_sparse(U) else len(np.asarray(U))))
        if U.shape[1] != X.shape[1]:
            raise ValueError(f"U must have the {X.shape[1]} features of X, not {U.shape[1]}")
        landmarks, outputs = Landmarks.linear(X, U), U @ w + b
    return margin_bound(
        X @ w + b, y, norm=float(np.linalg.norm(w)), b=b, trace=square_sum(X),
        landmarks=landmarks, outputs=outputs, delta=delta, gamma=gamma, form=form,
    )  # fmt: skip


def _terms(sample: Sample, machine_class: MachineClass) -> MarginBound:
    """Return the bound of a class at its best γ, term by term."""
    best = int(sample.totals(machine_class).argmin())
    radius, capacity, last_term = (float(term[best]) for term in sample.terms(machine_class))
    confidence_of_one_class = float(confidence(sample.n, sample.delta))
    return MarginBound(
        empirical=float(sample.losses[best, 0]),
        hinge=float(sample.losses[best, 1]),
        capacity=capacity,
        confidence=confidence_of_one_class,
        price=last_term - confidence_of_one_class,
        gamma=float(sample.gammas[best]),
        delta=sample.delta,
        form=machine_class.form,
        constant=machine_class.constant,
        D=machine_class.D,
        radius=radius,
        gap=machine_class.gap,
    )
