"""Generalisation bounds of the large-margin machines: SVM, Sigma-SVM and Relative Margin Machine.

The machine is f(x) = w·φ(x) + b, φ being the features or those of a kernel, y = ±1. Theorem 1 of the paper's
appendix bounds P(y f(x) ≤ 0) by the mean of [1 − y f]_+, a capacity and a confidence, for three classes of
machines without intercept. What follows is a theorem of this form with constants that are proved here.

Theorem
-------
Let (x_i, y_i) be n independent samples of one distribution, u_1, ..., u_nu the landmarks, which are further
samples that are independent of them, δ in (0, 1), ρ > 1, and π_j = 2 / (3 (|j|+1)(|j|+2)) for every integer,
so that Σ_j π_j = 1. The intercept is one more weight: for c > 0 put x̃ = (φ(x), c) and w̃ = (w, b/c), so that
w̃·x̃ = f(x). With probability at least 1 − δ, for all w, b and γ > 0, for every class of those below, and for
all integers a, k at once, where c = 2^a and D = 4^k n_u / Σ_j ‖ũ_j‖²,

    P(y f(x) ≤ 0)  ≤  (1/n) Σ_i φ(y_i f(x_i)/γ)  +  (2/n) ρ^j √τ  +  3 √( ln(2/δ') / 2n ),

where φ(t) = min(1, [1−t]_+) is the ramp, which is at most the hinge [1−t]_+, and (τ, ρ^j, δ') is any of

    F   τ = Σ_i ‖x̃_i‖²,           ρ^j ≥ ‖w̃‖/γ,                                   δ' = ω δ π_a π_j
    G   τ = τ(p), all p_j equal,  ρ^j ≥ √(‖w̃‖² + (D/n_u) Σ_j f(u_j)²)/γ,         δ' = ω δ π_a π_k π_j
    H   τ = τ(p), any p,          ρ^j ≥ √(‖w̃‖² + D max_j f(u_j)²)/γ,             δ' = ω δ π_a π_k π_j

with ω = 1/3, or 1 for a class that is named beforehand, and τ(p) = Σ_i x̃_i'(I + D Σ_j p_j ũ_j ũ_j')⁻¹ x̃_i,
of which :class:`Landmarks` finds the least. (2/n) ρ^j √τ is U_F, U_G or U_H of
:mod:`formulations.error_bounds.rmm_bounds` for the energy E = ρ^(2j)/2.

Proof
-----
1. One class. F, G and H with the radius √(2E) have R̂ = E_σ sup (1/n) Σ_i σ_i w̃·x̃_i ≤ √(2E τ)/n, for any p;
   for F this is :mod:`formulations.error_bounds.rademacher`, step 1, and for G and H below.
   So p may be chosen with the samples at hand, and no solver need be trusted.

2. Fixed beforehand. Given the landmarks, each class is fixed: its D, c and radius are on a grid, and the
   landmarks have nothing to do with the samples. So step 4 of the proof in
   :mod:`formulations.error_bounds.rademacher` applies: with probability 1 − δ',
   P(y f ≤ 0) ≤ (1/n) Σ_i φ(y_i f(x_i)) + 2 R̂ + 3 √(ln(2/δ')/2n) for all machines of the class. The training
   samples cannot be the landmarks: the class would depend on them, and then its deviation is not that of a
   class fixed beforehand, nor does the exchange of a sample change it by 1/n at most.

3. What was fitted. Over all classes of the countable family the δ' add up to δ at most. Any (w, b) lies in
   those whose radii are its norms rounded up.

4. The margin is free. The machine of (w, b)/γ has the signs of f, and its norms are those of (w, b) over γ,
   as its outputs are. 3 holds for it whatever γ is, even one chosen after the fact. ∎

Class F is tried for all a, class G for all k and the a near F's, and class H at the neighbours of G's best as
long as they are better.

The intercept is paid for with c: the least of ‖w̃‖ √τ over c in class F is ‖w‖ √(Σ_i ‖φ(x_i)‖²) + |b| √n,
which is what the weights and the intercept need by themselves.

The samples must not have been used to choose φ (a kernel's parameters are part of it), or to standardise the
features.

Landmarks
---------
A landmark is a further sample u_j, of which no label is used, at which a class keeps its outputs small. The
classes G and H of :mod:`formulations.error_bounds.rmm_bounds` are held back by them, and both complexities
are of the form (2√(2E)/n) √τ(p), where p ≥ 0, Σ_j p_j = 1 are weights of the landmarks and

    τ(p) = Σ_i φ(x_i)' M(p)⁻¹ φ(x_i),      M(p) = I + D Σ_j p_j φ(u_j) φ(u_j)'.

Equal weights give U_G, and D = 0 gives U_F. U_H is the least of all:

    min  τ(p)   s.t.  p ≥ 0, Σ_j p_j = 1.

It is the program of U_H without its energy: λ = t p turns that into τ(p)/(n t) + 2E t/n, least at
t = √(τ(p)/2E). Statisticians know it as an A-optimal design.

Every p is a bound. Σ_j p_j (‖w‖² + D (w·φ(u_j))²) = w'M(p)w is at most 2E for every w in H, whatever p is,
and in G for equal weights. So Σ_i σ_i w·φ(x_i) ≤ √(2E) ‖M(p)^(-1/2) Σ_i σ_i φ(x_i)‖ by Cauchy-Schwarz, and by
Jensen its expectation over independent signs is at most √(2E τ(p)).

None is far below. With LL' = Σ_i φ(x_i)φ(x_i)' and any V put d_j = ‖V‖² + D ‖V'φ(u_j)‖². For every p', again
by Cauchy-Schwarz, tr(L'V)² ≤ τ(p') Σ_j p'_j d_j ≤ τ(p') max_j d_j. At V = M(p)⁻¹L, where
tr(L'V) = Σ_j p_j d_j = τ, that is

    min τ  ≥  τ² / (τ + Δ),      Δ = max_j q_j − Σ_j p_j q_j,      q_j = D ‖V'φ(u_j)‖² = −∂τ/∂p_j.

The samples enter only through their projection on the landmarks' span, and what is left of them through its
trace: all that is asked for is k(u, u), Σ_i k(u, x_i) k(x_i, u) and Σ_i k(x_i, x_i).

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), appendix, Theorem 1: there γ is free beside slacks that
are those of γ = 1, and the confidence is printed without its root. Bartlett & Mendelson, Rademacher and
Gaussian Complexities (2002). Pukelsheim, Optimal Design of Experiments (1993).

Example
-------
>>> import numpy as np
>>> from formulations.language.toy_data import two_blobs
>>> (X, y), (U, _) = two_blobs(n=4000, seed=0), two_blobs(n=40, seed=1)
>>> w = np.array([0.4, 0.4])
>>> alone, held = linear_bound(X, y, w, form="F"), linear_bound(X, y, w, U=U, form="H")
>>> held.capacity < alone.capacity and not alone.vacuous
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from formulations.error_bounds.terms import (
    ErrorBound,
    confidence,
    log_odds_against,
    margins_to_try,
    ramp,
    rounded_up,
)
from formulations.language.arguments import at_least
from formulations.language.recovery import as_data, gram_factor, square_sum
from formulations.language.types import Array, Matrix, MatrixLike, dense, is_sparse

_TO_BOUNDARY = 0.995  # share of the way to where a weight would vanish, that a step takes
_BLOCK_ROWS = 4096  # samples whose products with the landmarks are formed at once


@dataclass(frozen=True)
class LeastTrace:
    """Weights of the landmarks and the τ that they give.

    Attributes
    ----------
    trace : float
        τ(p), which bounds whether or not it is the least.
    weights : ndarray of shape (n_u,)
        p.
    gap : float
        1 − min τ/τ(p) is proven to be no more than this.
    iterations : int
        Steps that were made.
    """

    trace: float
    weights: Array
    gap: float
    iterations: int


class Landmarks:
    """Landmarks, and the samples as they are seen from them.

    Parameters
    ----------
    kernel : array_like of shape (n_u, n_u)
        k(u, u).
    products : array_like of shape (n_u, n_u)
        Σ_i k(u, x_i) k(x_i, u).
    sums : array_like of shape (n_u,)
        Σ_i k(u, x_i).
    n : int
        Samples.
    trace : float
        Σ_i k(x_i, x_i).

    Attributes
    ----------
    basis : ndarray of shape (n_u, r)
        Coordinates of the landmarks in their span, along its principal axes.
    moments : ndarray of shape (r, r)
        Σ_i of the samples' outer products there.
    outside : float
        Σ_i of the squared lengths of what the span leaves of them.
    missing : ndarray of shape (n_u,)
        Lengths of what the basis leaves of the landmarks: its numerical rank may be below r.
    """

    def __init__(self, kernel: ArrayLike, products: ArrayLike, sums: ArrayLike, n: int, trace: float):
        self.kernel, self.products = np.asarray(kernel, dtype=float), np.asarray(products, dtype=float)
        self.sums, self.n, self.trace = np.asarray(sums, dtype=float), int(n), float(trace)
        self.basis: Array = gram_factor(self.kernel) if self.kernel.any() else np.zeros((len(self.kernel), 0))
        left = np.diag(self.kernel) - (self.basis**2).sum(axis=1)
        self.missing: Array = np.sqrt(np.maximum(left, 0.0))
        inverse = self.basis / (self.basis**2).sum(axis=0)
        self.moments: Array = inverse.T @ self.products @ inverse
        self.outside = max(self.trace - float(np.trace(self.moments)), 0.0)

    @classmethod
    def of(cls, kernel: ArrayLike, blocks: Iterable[ArrayLike], trace: float) -> Landmarks:
        """From k(u, u), blocks of k(x, u) for all samples in turn, read once, and Σ_i k(x_i, x_i)."""
        n, products, sums = 0, np.zeros(np.shape(kernel)), np.zeros(len(np.asarray(kernel)))
        for block in blocks:
            K = np.asarray(block, dtype=float)
            n, products, sums = n + len(K), products + K.T @ K, sums + K.sum(axis=0)
        return cls(kernel, products, sums, n, trace)

    @classmethod
    def linear(cls, X: Matrix, U: Matrix) -> Landmarks:
        """For the linear kernel of samples X (n, m) and landmarks U (n_u, m)."""
        blocks = (dense(X[start : start + _BLOCK_ROWS] @ U.T) for start in range(0, X.shape[0], _BLOCK_ROWS))
        return cls.of(dense(U @ U.T), blocks, square_sum(X))

    def with_constant(self, constant: float) -> Landmarks:
        """The same with one feature more, a constant: k + constant², which makes a weight of an intercept."""
        c = constant**2
        products = self.products + c * (self.sums[:, None] + self.sums[None, :]) + c * c * self.n
        return Landmarks(self.kernel + c, products, self.sums + c * self.n, self.n, self.trace + c * self.n)

    def equal_weights(self, D: ArrayLike) -> Any:
        """τ at equal weights, the trace of U_G, for every D of an array at once."""
        lengths = (self.basis**2).sum(axis=0) / len(self.basis)
        shrunk = np.diag(self.moments) / (1.0 + np.multiply.outer(np.asarray(D, dtype=float), lengths))
        return self.outside + shrunk.sum(axis=-1)

    def least(self, D: float, tol: float = 1e-8, max_iter: int = 100) -> LeastTrace:
        """The least τ, the trace of U_H, by a primal-dual interior point that begins at equal weights.

        `tol` is the gap to prove; the best weights met are given in any case, with the gap that they have.
        """
        D = at_least("D", D, 0.0)
        n_u, R = len(self.basis), np.sqrt(D) * self.basis
        p = np.full(n_u, 1.0 / n_u)
        size = float(np.trace(self.moments)) or 1.0
        S = self.moments / size
        best = LeastTrace(np.inf, p, np.inf, 0)
        z = np.zeros(0)
        for iteration in range(max_iter + 1):
            inside, Y, q = _trace_and_rates(R, S, p)
            tau, excess = self.outside + size * inside, size * float(q.max() - p @ q)
            gap = excess / (tau + excess) if excess > 0 else 0.0
            if tau <= best.trace:
                best = LeastTrace(tau, p, gap, iteration)
            if gap <= tol or iteration == max_iter:
                break
            if not len(z):
                z = 1.1 * q.max() - q
            mu = 0.1 * float(p @ z) / n_u  # of the barrier, which each step lowers
            dp, dz = _newton_step(2.0 * (R @ Y) * (Y.T @ S @ Y), p, z, q, mu)
            step = _line_search(R, S, p, dp, inside, q, mu)
            if step == 0.0:
                break
            p, z = p + step * dp, z + min(1.0, _TO_BOUNDARY * _max_step(z, dz)) * dz
            p = p / p.sum()
        return best


def _trace_and_rates(R: Array, S: Array, p: Array) -> tuple[float, Array, Array]:
    """tr(S M⁻¹), Y = M⁻¹R' and q_j = Y_j'S Y_j at p."""
    factor = cho_factor(np.eye(len(S)) + (R * p[:, None]).T @ R)
    Y = cho_solve(factor, R.T)
    return float(np.trace(cho_solve(factor, S))), Y, np.sum(Y * (S @ Y), axis=0)


def _newton_step(H: Array, p: Array, z: Array, q: Array, mu: float) -> tuple[Array, Array]:
    """Newton's step to −q(p) + ν − z = 0, Σp = 1, p_j z_j = mu, where q falls by H dp."""
    H[np.diag_indices_from(H)] += z / p
    solved = cho_solve(cho_factor(H), np.column_stack([q + mu / p, np.ones(len(p))]))
    nu = solved[:, 0].sum() / solved[:, 1].sum()
    dp = solved[:, 0] - nu * solved[:, 1]
    return dp, mu / p - z - z / p * dp


def _max_step(x: Array, dx: Array) -> float:
    """The largest step along dx before an entry of x vanishes."""
    shrinks = dx < 0
    return float(np.min(-x[shrinks] / dx[shrinks], initial=np.inf))


def _line_search(R: Array, S: Array, p: Array, dp: Array, inside: float, q: Array, mu: float) -> float:
    """The first of halved steps along which tr(S M⁻¹) − mu Σ ln p falls as it should; 0 if none does."""
    slope = -float((q + mu / p) @ dp)
    here = inside - mu * float(np.log(p).sum())
    step = min(1.0, _TO_BOUNDARY * _max_step(p, dp))
    for _ in range(30):
        there = p + step * dp
        M = np.eye(len(S)) + (R * there[:, None]).T @ R
        value = float(np.trace(cho_solve(cho_factor(M), S))) - mu * float(np.log(there).sum())
        if value <= here + 1e-4 * step * slope + 1e-14 * abs(here):
            return step
        step *= 0.5
    return 0.0


Form = Literal["F", "G", "H"]
FORMS = {"F": "small weights", "G": "small outputs on the average", "H": "every output small"}

_CONSTANTS = np.arange(-30, 31)  # a
_WEIGHTS = np.arange(-12, 13)  # k


@dataclass(frozen=True)
class MachineClass:
    """A class but for its radius: what holds a machine in it, and what the choice costs."""

    form: Form
    constant: float
    D: float
    norm: float
    trace: float
    against: float
    gap: float = 0.0


class Sample:
    """Margins of the samples, and the totals of classes at all margins γ that are tried."""

    def __init__(self, margins: Array, delta: float, gamma: float | Literal["best"]):
        self.n, self.delta, self.gammas = len(margins), delta, margins_to_try(margins, gamma)
        self.losses = np.array([ramp(margins, value) for value in self.gammas])

    def totals(self, norm: ArrayLike, trace: ArrayLike, against: ArrayLike) -> Array:
        """Bounds, of the shape of the arguments and one axis more for γ."""
        j, radii = rounded_up(np.divide.outer(np.asarray(norm, dtype=float), self.gammas))
        capacity = 2.0 / self.n * radii * np.sqrt(trace)[..., None]
        price = np.asarray(against)[..., None] + log_odds_against(j)
        return np.asarray(self.losses[:, 0] + capacity + confidence(self.n, self.delta, price))

    def total(self, of: MachineClass) -> float:
        """The bound of a class at its best γ."""
        return float(self.totals(of.norm, of.trace, of.against).min())


def class_f(sample: Sample, norm: float, b: float, trace: float, share: float) -> MachineClass:
    """Class F with the constant that is best for it."""
    constants = 2.0**_CONSTANTS
    norms, traces = np.hypot(norm, b / constants), trace + sample.n * constants**2
    against = share + log_odds_against(_CONSTANTS)
    best = int(sample.totals(norms, traces, against).min(axis=1).argmin())
    return MachineClass(
        "F", float(constants[best]), 0.0, float(norms[best]), float(traces[best]), against[best]
    )


class HeldClasses:
    """The classes G and H of a machine: a is the number of the constant, k that of D."""

    def __init__(self, landmarks: Landmarks, norm: float, b: float, outputs: Array, share: float):
        self.landmarks, self.norm, self.b, self.share = landmarks, norm, b, share
        self.outputs = np.abs(outputs)
        self._lifted: dict[int, Landmarks] = {}
        self._every: dict[tuple[int, int], MachineClass] = {}

    def _at(self, a: int) -> tuple[Landmarks, float, Array, float]:
        """Landmarks with the constant 2^a, ‖w̃‖, outputs at the landmarks, and the unit of D."""
        if a not in self._lifted:
            self._lifted[a] = self.landmarks.with_constant(2.0**a)
        seen, norm = self._lifted[a], float(np.hypot(self.norm, self.b / 2.0**a))
        # The basis leaves out what rounding would drown; the outputs allow for it.
        return seen, norm, self.outputs + norm * seen.missing, 1.0 / float(np.mean(np.diag(seen.kernel)))

    def _against(self, a: int, k: Any) -> Any:
        return self.share + log_odds_against(a) + log_odds_against(k)

    def average(self, a: int, k: int) -> MachineClass:
        """Class G."""
        seen, norm, outputs, unit = self._at(a)
        D = 4.0**k * unit
        size = sqrt(norm**2 + D * float(np.mean(outputs**2)))
        return MachineClass("G", 2.0**a, D, size, float(seen.equal_weights(D)), self._against(a, k))

    def every(self, a: int, k: int) -> MachineClass:
        """Class H."""
        if (a, k) not in self._every:
            seen, norm, outputs, unit = self._at(a)
            D = 4.0**k * unit
            least = seen.least(D, 1e-4)
            size = sqrt(norm**2 + D * float(outputs.max() ** 2))
            # The capacity has the root of τ.
            gap = 1.0 - sqrt(1.0 - least.gap)
            self._every[a, k] = MachineClass("H", 2.0**a, D, size, least.trace, self._against(a, k), gap)
        return self._every[a, k]

    def best_average(self, sample: Sample, near: int) -> tuple[int, int]:
        """(a, k) of the best class G, for a near a given one."""
        found = []
        for a in range(near - 2, near + 3):
            seen, norm, outputs, unit = self._at(a)
            D = 4.0**_WEIGHTS * unit
            norms = np.sqrt(norm**2 + D * float(np.mean(outputs**2)))
            totals = sample.totals(norms, seen.equal_weights(D), self._against(a, _WEIGHTS)).min(axis=1)
            found.append((float(totals.min()), a, int(_WEIGHTS[totals.argmin()])))
        return min(found)[1:]

    def best_every(self, sample: Sample, start: tuple[int, int]) -> MachineClass:
        """The best class H that steps from (a, k) to better neighbours come to."""
        here = self.every(*start)
        a, k = start
        while True:
            around = [(near, self.every(*near)) for near in _neighbours(a, k)]
            (there, best) = min(around, key=lambda item: sample.total(item[1]))
            if sample.total(best) >= sample.total(here):
                return here
            (a, k), here = there, best


def _neighbours(a: int, k: int) -> Iterator[tuple[int, int]]:
    yield from ((a - 1, k), (a + 1, k))
    yield from ((a, near) for near in (k - 1, k + 1) if _WEIGHTS[0] <= near <= _WEIGHTS[-1])


@dataclass(frozen=True)
class MarginBound(ErrorBound):
    """A bound on the error of a large-margin machine, term by term; ``capacity`` is U_F, U_G or U_H.

    Its other arguments as in :class:`formulations.error_bounds.terms.ErrorBound`.

    Attributes
    ----------
    form : {"F", "G", "H"}
        Which class it is.
    constant : float
        c, the feature whose weight is the intercept.
    D : float
        Weight of the outputs at the landmarks; 0 in class F.
    radius : float
        The radius ρ^j of the class, for the machine over γ.
    gap : float
        By how much the capacity may be above the class's U_H, as a share of it; 0 in F and G.
    """

    form: Form
    constant: float
    D: float
    radius: float
    gap: float

    @property
    def words(self) -> str:
        """The class, in words."""
        return f"class {self.form}: {FORMS[self.form]}"


def margin_bound(
    f: ArrayLike, y: ArrayLike, *, norm: float, b: float, trace: float, landmarks: Landmarks | None = None,
    outputs: ArrayLike | None = None, delta: float = 0.05, gamma: float | Literal["best"] = "best",
    form: Form | Literal["best"] = "best",
) -> MarginBound:  # fmt: skip
    """The theorem of this module for a fitted machine of any kernel.

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
        The landmarks and the samples as they are seen from them, without the constant. Without any there is
        class F alone.
    outputs : array_like of shape (n_u,), optional
        Outputs f(u_j), with the intercept; given with the landmarks.
    delta : float
        Probability that the bound fails, between 0 and 1.
    gamma : float or "best"
        The margin, positive; "best" tries many, which costs nothing (step 4 of the proof).
    form : {"best", "F", "G", "H"}
        The class; "best" takes the least bound of all three, each at a third of δ.

    Raises
    ------
    ValueError
        Shapes that do not fit, or numbers out of range.
    """
    f, y = np.asarray(f, dtype=float), np.asarray(y, dtype=float)
    _check(f, y, norm, b, trace)
    if form not in ("best", *FORMS):
        raise ValueError(f"form must be 'best', 'F', 'G' or 'H', not {form!r}")
    sample = Sample(y * f, delta, gamma)
    if landmarks is None:
        if form in ("G", "H"):
            raise ValueError(f"form={form!r} needs landmarks, samples that were not used in training")
        return _terms(sample, class_f(sample, norm, b, trace, 0.0))
    found = np.asarray([] if outputs is None else outputs, dtype=float)
    if found.shape != (len(landmarks.kernel),) or not np.isfinite(found).all():
        raise ValueError(
            f"outputs must be finite and of shape ({len(landmarks.kernel)},), one for each landmark, "
            f"not of shape {found.shape}"
        )
    if landmarks.n != len(f):
        raise ValueError(f"the landmarks must be seen from the {len(f)} samples of f, not {landmarks.n}")
    share = log(3.0) if form == "best" else 0.0
    plain = class_f(sample, norm, b, trace, share)
    if form == "F":
        return _terms(sample, plain)
    held = HeldClasses(landmarks, norm, b, found, share)
    average = held.best_average(sample, round(np.log2(plain.constant)))
    if form == "G":
        return _terms(sample, held.average(*average))
    every = held.best_every(sample, average)
    if form == "H":
        return _terms(sample, every)
    return min(
        (_terms(sample, candidate) for candidate in (plain, held.average(*average), every)),
        key=lambda bound: bound.total,
    )


def linear_bound(
    X: MatrixLike, y: ArrayLike, w: ArrayLike, b: float = 0.0, U: MatrixLike | None = None,
    delta: float = 0.05, gamma: float | Literal["best"] = "best", form: Form | Literal["best"] = "best",
) -> MarginBound:  # fmt: skip
    """The theorem for a linear machine and the sample it was fitted to.

    Parameters
    ----------
    X, y
        Samples (n, m), in the units that w is for, and labels.
    w : array_like of shape (m,)
        Weights.
    b : float
        Intercept.
    U : array_like or CSR matrix of shape (n_u, m), optional
        Landmarks: samples that were not used in training, without labels.
    delta, gamma, form
        As in :func:`margin_bound`.

    Raises
    ------
    ValueError
        Shapes that do not fit, or numbers out of range.
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


def _check(f: Array, y: Array, norm: float, b: float, trace: float) -> None:
    if f.ndim != 1 or not len(f) or not np.isfinite(f).all():
        raise ValueError(f"f must be finite and of shape (n,), not of shape {f.shape}")
    if y.shape != f.shape or not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"y must be of shape {f.shape} and hold only -1 and +1")
    for name, value in (("norm", norm), ("trace", trace)):
        if not 0.0 <= value < inf:
            raise ValueError(f"{name} must be at least 0 and finite, not {value!r}")
    if not np.isfinite(b):
        raise ValueError(f"b must be finite, not {b!r}")


def _terms(sample: Sample, of: MachineClass) -> MarginBound:
    """The bound of a class at its best γ, term by term."""
    best = int(sample.totals(of.norm, of.trace, of.against).argmin())
    gamma = float(sample.gammas[best])
    j, radius = rounded_up(of.norm / gamma)
    single = float(confidence(sample.n, sample.delta))
    return MarginBound(
        empirical=float(sample.losses[best, 0]),
        hinge=float(sample.losses[best, 1]),
        capacity=2.0 / sample.n * float(radius) * sqrt(of.trace),
        confidence=single,
        price=float(confidence(sample.n, sample.delta, of.against + log_odds_against(j))) - single,
        gamma=gamma,
        delta=sample.delta,
        form=of.form,
        constant=of.constant,
        D=of.D,
        radius=float(radius),
        gap=of.gap,
    )
