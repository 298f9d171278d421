r"""Generalisation bounds by Rademacher complexity, computed from a fitted machine and its sample.

The Convex Polytope Machine
---------------------------
f(x) = max_k W_k·x̃ with x̃ = (x, 1), K faces, y = ±1. Theorem 1 of the paper bounds the probability of error,
P(y f(x) ≤ 0), by the mean of [1 − y f]_+ over n samples, a term of capacity and a term of confidence. The
theorem below has this form, with constants that are proved here; the paper's own are not repeated.

Theorem. Let (x_i, y_i) be n independent samples of one distribution, δ in (0, 1) the probability of failure,
and ρ > 1. Norms are rounded up to a grid of radii ρ^j, j an integer; the radius ρ^j has the share
π_j = 2 / (3 (|j|+1)(|j|+2)) of δ/2, and Σ_j π_j = 1. Let T = √(Σ_i ‖x̃_i‖²) / n, the root mean square length
of the samples over √n. With probability at least 1 − δ, for all W in R^(K×(m+1)) and margins γ > 0 at once,

    P(y f(x) ≤ 0)  ≤  (1/n) Σ_i r(y_i f(x_i)/γ)  +  2 A T  +  3 √( ln(2/δ') / 2n ),

where r(t) = min(1, [1−t]_+) is the ramp loss, at most the hinge loss [1−t]_+, and (A, δ') is either of the
following, for any integers j that satisfy the inequality on the right (the code takes the least)

    "faces"       A = Σ_k ρ^(j_k),        δ' = (δ/2) Π_k π_(j_k),   ρ^(j_k) ≥ ‖W_k‖/γ
    "contraction" A = √(2K) ρ^j,          δ' = (δ/2) π_j,           ρ^j ≥ ‖W‖_F/γ

Since T ≤ R/√n for R = max_i ‖x̃_i‖, the capacity falls like 1/√n.

Proof. Let R̂(F) = E sup_{f in F} (1/n) Σ_i ε_i f(x_i), for the given sample and independent random signs ε_i.

1. One face. For F = {x ↦ w·x̃ : ‖w‖ ≤ Λ} the supremum is (Λ/n) ‖Σ_i ε_i x̃_i‖, by Cauchy-Schwarz. By Jensen
   its expectation is at most (Λ/n) √(E‖Σ_i ε_i x̃_i‖²), where E ε_i ε_l = 0 for i ≠ l leaves Λ T.

2. Maximum of classes. Let F = {max(f, g) : f in F_1, g in F_2}. From
   max(f, g) = (f + g + |f − g|)/2, and as the supremum of a sum is at most the sum of the suprema,
   R̂(F) ≤ (R̂(F_1) + R̂(F_2) + R̂({|f−g|}))/2. By Talagrand's contraction, as |·| is 1-Lipschitz,
   R̂({|f−g|}) ≤ R̂({f−g}) = R̂(F_1) + R̂(F_2), the signs being symmetric. Hence R̂(F) ≤ R̂(F_1) + R̂(F_2),
   and by induction the class ‖W_k‖ ≤ Λ_k has R̂ ≤ Σ_k Λ_k T.

3. All faces together. max: R^K → R is 1-Lipschitz in the maximum norm, hence in the Euclidean one. Maurer's
   vector contraction (2016, Corollary 1) gives for the class ‖W‖_F ≤ Λ, with signs ε_ik,
   R̂ ≤ (√2/n) E sup_W Σ_k W_k·(Σ_i ε_ik x̃_i) = (√2 Λ/n) E √(Σ_k ‖Σ_i ε_ik x̃_i‖²) ≤ √2 Λ √K T,
   by Cauchy-Schwarz and Jensen as in 1.

4. Fixed class. t ↦ r(y_i t) has values in [0, 1], is 1-Lipschitz, and is 1 where y_i t ≤ 0. McDiarmid's
   inequality for the uniform deviation and for R̂, and symmetrisation (Bartlett & Mendelson 2002; Mohri,
   Rostamizadeh & Talwalkar 2018, Theorem 3.3 with contraction), give with probability 1 − δ' for all f in F
   P(y f ≤ 0) ≤ E r(y f) ≤ (1/n) Σ_i r(y_i f(x_i)) + 2 R̂(F) + 3 √(ln(2/δ')/2n).

5. Union bound over the norms. Apply 4 to every class of a countable family that does not depend on the
   sample: Λ_1, ..., Λ_K from the grid {ρ^j}, at δ' = (δ/2) Π π_(j_k), and Λ from the same grid, at (δ/2) π_j.
   The probabilities of failure sum to at most δ/2 + δ/2. Any W belongs to the class whose radii are its norms
   rounded up to the grid.

6. Free margin. f and f/γ have the same sign, and f/γ is the machine of W/γ. Since 5 holds for all machines at
   once, it holds for W/γ with any γ, even one chosen after the fact. ∎

Compared with norms fixed beforehand, step 5 costs a factor of at most ρ in A and the term Σ_k ln(1/π_(j_k))
beside ln(2/δ) under the root ("contraction": one such term). "faces" has no factor √2 and adapts to faces of
unequal norms, as Σ_k ‖W_k‖ ≤ √K ‖W‖_F; "contraction" has the term of one norm instead of K, which matters for
many faces and few samples. The smaller of both bounds is reported: both hold at once with probability 1 − δ.

The samples must not have been used to choose the features, or to standardise them.

PLUME
-----
The machine is the log-odds f(x) = ℓ(s) of its mixture of experts at the scores s_k = W_k·x̃
(:func:`formulations.mixture.log_odds`): ℓ(s) = ln(p/(1−p)) for p = Σ_k g_k σ(s_k), with the logistic function
σ(t) = 1/(1+e^(−t)) and the gate g_k = e^(−κ s_k) / Σ_l e^(−κ s_l). The gate's sharpness κ is chosen
beforehand, and the margin is 1. In the code κ is `sharpness`, or the argument `gamma` of plume_bound. The
paper bounds the error in this form as well; again the constants are proved here.

Theorem. With probability at least 1 − δ, for all W at once, the theorem above holds at the margin 1 with A
replaced by √2 L Σ_k ρ^(j_k) ("faces") or √(2K) L ρ^j ("contraction"), where

    L = 1 + √2 κ τ,
    τ = 0 for K = 1, else 1 for κ < 1, (K−1)/K for κ = 1, and a/(κ−1) for κ > 1,

and a is the only root of a = (K−1) (1 − (1+a)/κ)^κ between 0 and κ−1. For any κ, a e^(a+1) ≤ K−1: L grows at
most like ln K.

Proof. With σ_k = σ(s_k) and the responsibilities q⁺_k = g_k σ_k/p for a label +1 and q⁻_k = g_k (1−σ_k)/(1−p)
for −1,

    ∂ℓ/∂s_k = κ (q⁻_k − q⁺_k) + g_k σ_k (1−σ_k) / (p (1−p)).

1. The second terms are nonnegative and sum to at most 1, as
   Σ_k g_k σ_k (1−σ_k) = p − Σ_k g_k σ_k² ≤ p − p².

2. q⁺_k = q⁻_k e^(s_k − ℓ), where e^ℓ = p/(1−p) = Σ_k q⁻_k e^(s_k) ≥ e^h for h = min_k s_k. So the positive
   parts of q⁻ − q⁺ sum to Σ_k q⁻_k [1 − e^(s_k − ℓ)]_+ ≤ 1 − e^(h − ℓ). Its negative parts sum to the same
   amount, because q⁺ and q⁻ both sum to 1.

3. q⁻_k is proportional to b_k, with b = 1 for a face of least score and b_k ≤ e^(−κ (s_k − h)) for the
   others, because 1 − σ decreases. Hence e^(ℓ − h) ≤ (1 + Σ_k b_k^(1 − 1/κ)) / (1 + Σ_k b_k), with sums over
   the K−1 others. For κ ≥ 1 the numerator is concave in b, so for a fixed denominator it is largest if all
   b_k are equal. With b_k = e^(−κt) it remains to maximise (1 + (K−1) e^((1−κ)t)) / (1 + (K−1) e^(−κt)) over
   t ≥ 0. The derivative vanishes where e^t = κ/(κ−1−a) for a = (K−1) e^(−κt), and there the quotient is
   (κ−1)/(κ−1−a). So the positive and the negative parts sum to at most τ each; they sum to at most 1 in any
   case.

4. Hence the Euclidean norm of the gradient is at most 1 + κ √(τ² + τ²) = L. Maurer's contraction, as in step
   3 above, gives R̂ ≤ (√2 L/n) E sup_W Σ_k W_k·(Σ_i ε_ik x̃_i) with random signs ε_ik, which is at most √2 L
   Σ_k Λ_k T over ‖W_k‖ ≤ Λ_k and √2 L Λ √K T over ‖W‖_F ≤ Λ. Steps 4 and 5 above complete the proof. Step 6
   does not apply, as ℓ(s)/γ is not the log-odds of any such machine. ∎

The large-margin machines
-------------------------
The theorem of the SVM, the Sigma-SVM and the Relative Margin Machine is in
:mod:`formulations.error_bounds.margin_bounds`; its proof uses steps 4 to 6.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Theorem 1. Shah, Sastry & Manwani, PLUME:
Polyhedral Learning Using Mixture of Experts (2019). Maurer, A vector-contraction
inequality for Rademacher complexities (2016). Bartlett & Mendelson, Rademacher and Gaussian Complexities
(2002). Mohri, Rostamizadeh & Talwalkar, Foundations of Machine Learning, 2nd ed. (2018).
"""

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import xlog1py

from formulations.language.arguments import tolerance
from formulations.language.recovery import as_data, square_sum
from formulations.language.types import Array, Matrix, MatrixLike, is_sparse
from formulations.mixture import check_model, log_odds
from formulations.polytope import lift

# -- the terms of every bound, and the grids of radii and margins --------------------------------------

_RATIO = 1.1  # ρ, the ratio of consecutive radii
_MIN_J = -60  # exponent of the smallest radius: a machine of smaller norm lies in its class as well
_MARGIN_GRID = np.geomspace(1e-3, 1e3, 61)  # candidates for γ relative to the largest |f|, besides γ = 1


@dataclass(frozen=True)
class ErrorBound:
    """A bound on the error of a machine, term by term."""

    empirical: float  # mean over the samples of the ramp loss min(1, [1 − y f/γ]_+)
    hinge: float  # mean of the hinge loss [1 − y f/γ]_+, at least ``empirical``; the papers use it instead
    capacity: float  # twice the bound on the Rademacher complexity of the machines of the class
    confidence: float  # 3 √(ln(2/δ)/2n), the last term for a single class
    price: float  # increase of the last term by the choice among the classes, with δ' in place of δ
    gamma: float  # the margin γ
    delta: float  # the probability that the bound fails
    form: str  # name of the class or formula of the capacity, such as "H" or "faces"

    @property
    def total(self) -> float:
        """The bound on P(y f(x) ≤ 0)."""
        return self.empirical + self.capacity + self.confidence + self.price

    @property
    def vacuous(self) -> bool:
        """True if the bound is 1 or more, and says nothing."""
        return self.total >= 1.0

    @property
    def words(self) -> str:
        """The form; a subclass may describe it."""
        return self.form

    def __str__(self) -> str:
        verdict = "says nothing" if self.vacuous else f"holds with probability {1 - self.delta:.6g}"
        return (
            f"error ≤ {self.total:.4g} = {self.empirical:.4g} (ramp loss at margin {self.gamma:.4g}) + "
            f"{self.capacity:.4g} (capacity, {self.words}) + {self.confidence:.4g} (confidence) + "
            f"{self.price:.4g} (choice of class); {verdict}"
        )


def rounded_up(radii: ArrayLike) -> tuple[Any, Any]:
    """Round numbers up to radii ρ^j of the grid; return (j, ρ^j), each of the shape of `radii`."""
    j = np.ceil(np.log(np.maximum(radii, _RATIO**_MIN_J)) / log(_RATIO))
    return j, _RATIO**j


def log_inverse_weight(j: ArrayLike) -> Any:
    """Return ln(1/π_j), where π_j = 2 / (3 (|j|+1)(|j|+2)) is the radius ρ^j's share of δ; Σ_j π_j = 1."""
    return np.log(1.5 * (np.abs(j) + 1) * (np.abs(j) + 2))


def confidence(n: int, delta: float, log_inverse_share: ArrayLike = 0.0) -> Any:
    """Return the last term, 3 √(ln(2/δ')/2n), for `log_inverse_share` = ln(δ/δ')."""
    return 3.0 * np.sqrt((log(2.0 / tolerance(delta, "delta")) + np.asarray(log_inverse_share)) / (2 * n))


def ramp(margins: Array, gamma: float) -> tuple[float, float]:
    """Return (mean ramp loss, mean hinge loss) at the margin γ; `margins` are the y_i f(x_i)."""
    hinge = np.maximum(0.0, 1.0 - margins / gamma)
    return float(np.minimum(hinge, 1.0).mean()), float(hinge.mean())


def margins_to_try(margins: Array, gamma: float | Literal["best"]) -> Array:
    """Return the candidates for γ: the given one, or a grid for "best"; `margins` are the y_i f(x_i)."""
    if isinstance(gamma, str):
        if gamma != "best":
            raise ValueError(f"gamma must be positive or 'best', not {gamma!r}")
        return np.append(1.0, _MARGIN_GRID * (float(np.abs(margins).max()) or 1.0))
    if not 0.0 < gamma < inf:
        raise ValueError(f"gamma must be positive and finite, or 'best', not {gamma!r}")
    return np.array([float(gamma)])


# -- the polytope machines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PolytopeBound(ErrorBound):
    """A bound on the error of a polytope machine, term by term; its ``capacity`` is 2 A T."""

    form: Literal["faces", "contraction"]


def faces_complexity(X: MatrixLike, radii: ArrayLike) -> float:
    """Return Σ_k Λ_k T, a bound on the Rademacher complexity of max_k W_k·x̃ over ‖W_k‖ ≤ Λ_k for each k."""
    return float(np.sum(radii)) * _rms_length_over_sqrt_n(X)


def contraction_complexity(X: MatrixLike, radius: float, n_faces: int) -> float:
    """Return √(2K) Λ T, a bound on the Rademacher complexity of max_k W_k·x̃ over ‖W‖_F ≤ Λ."""
    return sqrt(2 * n_faces) * radius * _rms_length_over_sqrt_n(X)


def polytope_bound(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, delta: float = 0.05, gamma: float | Literal["best"] = 1.0
) -> PolytopeBound:
    """Evaluate the theorem of this module for a fitted machine and the sample it was fitted to.

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        The training samples, in the units that W is for.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    W : array_like of shape (K, m+1)
        Faces, the bias last.
    delta : float
        Probability that the bound fails, between 0 and 1.
    gamma : float or "best"
        The margin, positive; "best" minimises the bound over a grid of margins (step 6 of the proof).

    Raises
    ------
    ValueError
        Shapes that do not fit, or numbers out of range.
    """
    X, y, W = _checked(X, y, W)
    margins = y * (lift(X) @ W.T).max(axis=1)
    T, norms, factors = _rms_length_over_sqrt_n(X), np.linalg.norm(W, axis=1), (1.0, sqrt(2 * len(W)))
    gammas = map(float, margins_to_try(margins, gamma))
    bounds = (bound for value in gammas for bound in _bounds(margins, norms, T, delta, value, factors))
    return min(bounds, key=lambda bound: bound.total)


def log_odds_lipschitz(sharpness: float, n_faces: int) -> float:
    """Return L of PLUME's theorem: a Lipschitz constant of the log-odds in the scores."""
    if sharpness < 1.0:
        return 1.0 + sqrt(2.0) * sharpness * (n_faces > 1)
    if n_faces == 1:
        return 1.0
    if sharpness == 1.0:
        return 1.0 + sqrt(2.0) * (n_faces - 1) / n_faces

    def root_equation(a: float) -> float:
        power = np.exp(xlog1py(sharpness, -min((1.0 + a) / sharpness, 1.0)))  # (1 − (1+a)/κ)^κ
        return a - (n_faces - 1) * float(power)

    a = brentq(root_equation, 0.0, sharpness - 1.0, xtol=1e-14)
    return float(1.0 + sqrt(2.0) * sharpness / (sharpness - 1.0) * a)


def plume_bound(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, gamma: float, delta: float = 0.05
) -> PolytopeBound:
    """Evaluate the theorem for PLUME, for a fitted mixture of experts and the sample it was fitted to.

    Arguments as in :func:`polytope_bound`, but labels are +1 inside, and `gamma` is the gate's sharpness κ,
    chosen independently of the sample. The margin, ``gamma`` of the result, is 1.
    """
    X, y, W = _checked(X, y, W)
    check_model(gamma, 0.0)
    factor = sqrt(2.0) * log_odds_lipschitz(gamma, len(W))
    margins, norms = y * log_odds(X, W, gamma), np.linalg.norm(W, axis=1)
    bounds = _bounds(margins, norms, _rms_length_over_sqrt_n(X), delta, 1.0, (factor, factor * sqrt(len(W))))
    return min(bounds, key=lambda bound: bound.total)


def _checked(X: MatrixLike, y: ArrayLike, W: ArrayLike) -> tuple[Matrix, Array, Array]:
    """Return samples, labels and faces as arrays; raise ValueError for shapes that do not fit."""
    X, y = as_data(X, y)
    W = np.asarray(W, dtype=float)
    if W.ndim != 2 or W.shape[0] == 0 or W.shape[1] != X.shape[1] + 1:
        raise ValueError(f"W must be of shape (K, {X.shape[1] + 1}), the bias last, not {W.shape}")
    if not np.isfinite(W).all():
        raise ValueError("W must be finite; it has NaN or infinite values")
    return X, y, W


def _bounds(
    margins: Array, norms: Array, T: float, delta: float, gamma: float, factors: tuple[float, float]
) -> tuple[PolytopeBound, PolytopeBound]:
    """Return the forms "faces" and "contraction" of the bound at the margin `gamma`.

    A of each form is its entry of `factors` times the sum of its radii ρ^j.
    """
    n, (empirical, hinge) = len(margins), ramp(margins, gamma)
    confidence_of_one_class = float(confidence(n, delta))  # 3 √(ln(2/δ) / 2n)

    def evaluate(form: Literal["faces", "contraction"], factor: float, norms: Array) -> PolytopeBound:
        j, radii = rounded_up(norms / gamma)
        with_union_bound = float(confidence(n, delta, log(2.0) + log_inverse_weight(j).sum()))
        return PolytopeBound(
            empirical=empirical,
            hinge=hinge,
            capacity=2.0 * factor * float(radii.sum()) * T,
            confidence=confidence_of_one_class,
            price=with_union_bound - confidence_of_one_class,
            gamma=gamma,
            delta=delta,
            form=form,
        )

    frobenius = np.array([np.linalg.norm(norms)])
    return evaluate("faces", factors[0], norms), evaluate("contraction", factors[1], frobenius)


def _rms_length_over_sqrt_n(X: MatrixLike) -> float:
    """Return T = √(Σ_i ‖x̃_i‖²) / n."""
    samples: Matrix = X if is_sparse(X) else np.asarray(X, dtype=float)
    return float(sqrt(square_sum(samples) + samples.shape[0]) / samples.shape[0])
