"""Lower bound for the Convex Polytope Machine in any dimension: multipliers that depend on the assignment.

The machine has K faces, and each positive is assigned to one of them. A face w costs ‖w‖² plus the hinge
losses C_j [1 − y_j w·x̃_j]_+ of all negatives and of its positives, where x̃ = (x, 1). Branch and bound is over
these assignments: at a node some positives are assigned, and the others are *undecided*; a *completion*
assigns these as well. The dual multipliers of a face are an affine function of the set of undecided positives
that a completion assigns to it, so they bound every completion from below (:class:`SpreadNode`).

**One face.** The samples that are on the face for certain, the negatives and the positives assigned to it,
have the rows A_j = y_j x̃_j; the undecided positives have the rows P_i = x̃_i. Let S be the set of undecided
positives on the face. Then sample j has the multiplier a_j + Σ_{i∈S} δ_ij, where the *move* δ_ij is the
change due to i, and each i in S has the multiplier β_i. With e_i = β_i P_i + Σ_j δ_ij A_j and s_i = β_i + Σ_j
δ_ij, the face costs at least, by weak duality,

    Σ_j a_j + Σ_{i∈S} s_i − ¼ ‖Σ_j a_j A_j + Σ_{i∈S} e_i‖²

if the multipliers are feasible for every S: a_j + Σ_i [δ_ij]_+ ≤ C_j, a_j ≥ Σ_i [−δ_ij]_+, 0 ≤ β_i ≤ C_i.

**All faces.** Index k denotes the quantities of face k. The shares θ_ik ≥ 0 with Σ_k θ_ik = 1 are a
fractional assignment of the undecided positives i, and v_k = Σ_j a_kj A_kj + Σ_i θ_ik e_ik.

Theorem. If the multipliers are feasible and the *lengths* d_ik > 0 satisfy Σ_i e_ik e_ik' / d_ik ⪯ I for
every face k, then every completion of the assignment costs at least

    Σ_k ( Σ_j a_kj − ¼ ‖v_k‖² ) + Σ_k Σ_i ( ½ θ_ik v_k·e_ik − ¼ θ_ik² d_ik )
        + Σ_i min_k ( s_ik − ½ v_k·e_ik − ¼ (1 − 2 θ_ik) d_ik ),

the minimum over the faces that are allowed for i.

Proof. Let z_ik be 1 if the completion has i on face k, else 0, and τ = z − θ. Face k costs at least
Σ_j a_kj + Σ_i z_ik s_ik − ¼ ‖v_k + Σ_i τ_ik e_ik‖². For any x, by Cauchy and Schwarz, x·Σ_i τ_i e_i ≤
(Σ_i d_i τ_i²)^½ (Σ_i (x·e_i)² / d_i)^½ ≤ (Σ_i d_i τ_i²)^½ ‖x‖, so ‖Σ_i τ_i e_i‖² ≤ Σ_i d_i τ_i². Hence the
square is at most ‖v_k‖² + Σ_i (2 τ_ik v_k·e_ik + τ_ik² d_ik), where τ_ik is 1 − θ_ik or −θ_ik. Add up over
the faces and minimise over the face of each i. ∎

If no positive is assigned, all faces have the same multipliers and shares 1/K. The best bound is then the
value of a convex program in which positive i has its own face w̄ + t_i with t_i t_i' ⪯ S. The matrix S is the
*spread* of the faces: K faces with mean w̄ and deviations t_k have the spread S = (1 − 1/K) Σ_k t_k t_k' and
‖W‖² = K ‖w̄‖² + tr S / (1 − 1/K). The bound by trial moves (:mod:`polyopt.cpm.global_search.assignment_tree`)
subtracts a term for each pair of samples instead of the terms with d_ik; in ten dimensions the sum of the
former is several times as large.

**The multipliers** of a face are optimised for fixed shares, by coordinate ascent on the mean of its bound if
each i is on the face with probability θ_i,

    Φ = Σ_j a_j + Σ_i θ_i s_i − ¼ ‖v‖² − ¼ Σ_i θ_i (1 − θ_i) d_i.

Φ is concave. A log barrier keeps the multipliers and lengths feasible: μ Σ log(distance to a bound) +
μ log det(I − Σ_i e_i e_i'/d_i). For one i let H be the inverse of I − Σ_{r≠i} e_r e_r'/d_r, ρ = e_i'H e_i and
c = ¼ θ_i (1 − θ_i). The best length is the larger root d of d (d − ρ) = μ ρ / c. The loss by this length,
c d − μ log(1 − ρ/d), is concave in ρ, so a linear function majorises it, and a parabola in each
multiplier minorises Φ. Most moves stay 0: only every fourth sweep visits all of them.

**The shares** are optimised for fixed multipliers. Let p_k = Σ_j a_kj A_kj, let E_k be the matrix with
columns e_ik, D_k = diag(d_ik), Q_k = D_k − E_k' E_k and c_ik = s_ik − ½ e_ik·p_k − ¼ d_ik. Up to a constant
the bound of the theorem is

    b(θ) = −¼ Σ_k θ_k' Q_k θ_k + Σ_i min_k ( c_ik + ½ (Q_k θ_k)_i ).

Theorem. b is largest at the θ that minimises γ(z) = Σ_k ( c_k·z_k + ¼ z_k' Q_k z_k ) over z_i ≥ 0,
Σ_k z_ik = 1 for each i, and there b(θ) = γ(θ).

Proof. Σ_i e_i e_i'/d_i ⪯ I is equivalent to E'E ⪯ D, so Q_k is positive semidefinite. Hence γ is convex, and
for any θ and z, ¼ z' Q z ≥ ½ z' Q θ − ¼ θ' Q θ: γ(z) ≥ −¼ Σ_k θ_k' Q_k θ_k + Σ_ik z_ik (c_ik + ½ (Q_k θ_k)_i)
≥ b(θ). At a minimiser z_i is positive only on faces with the least slope c_ik + ½ (Q_k z_k)_i, so both
inequalities are equalities for θ = z. ∎

A kernel minimises γ by coordinate descent: it moves weight of one sample between two faces at a time.

Full optimisation of multipliers and shares in turn would oscillate, as the mean bound is concave in the
multipliers and convex in the shares. So the shares make only a fifth of the step to the best ones before the
multipliers are optimised again; the bound is computed with the best shares. The bound is valid for any
feasible multipliers and any shares: convergence affects its tightness alone.

**The tree** (:class:`SpreadSearch`) branches on the positive whose fractional shares reduce the bound most,
and forbids it a face if the bound with the positive on that face reaches the cost of the incumbent, the best
faces known.

**Rounding.** The vectors e, v and the matrix Σ e e' / d have running error bounds; errors of the vectors
raise the squares by at most 2 ε L + ε², with ε the sum of the errors of a face's vectors and L the sum of
their norms. A Cholesky factor proves Σ e e' / d ⪯ I (Rump, Verification of positive definiteness, 2006).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import (
    ENTRIES_PER_CALL,
    Best,
    Samples,
    alternate,
    polished_faces,
    proven_sum,
    total_cost,
)
from polyopt.linalg.rounding import ABOVE, UNIT, gamma
from polyopt.native.library import kernel
from polyopt.optim.best_first import BestFirst, OpenNode

if TYPE_CHECKING:
    Allowed = NDArray[np.bool_]


@dataclass(frozen=True)
class Options:
    """Parameters of the bound and of its tree."""

    # Barrier parameters μ of the root, in the order of use, in units of `SpreadSearch.unit`
    root_barriers: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003)
    root_sweeps: int = 60  # number of coordinate sweeps at the root for each barrier parameter
    # Barrier parameters of other nodes; chosen, as share_step, on 195 samples of german and of parkinsons
    node_barriers: tuple[float, ...] = (0.01, 0.01, 0.01, 0.003)
    node_sweeps: int = 12  # number of coordinate sweeps at another node for each barrier parameter
    share_step: float = 0.2  # step length from the shares towards the best shares
    min_share: float = 1e-3  # least share of an allowed face before normalisation; chosen on samples of magic
    full_sweep_every: int = 4  # one of so many sweeps visits every move, the others only the nonzero moves
    share_passes: int = 30  # largest number of coordinate passes that optimise the shares
    share_ridge: float = 1e-3  # added to the curvature of γ in these passes, relative to the lengths
    round_every: int = 5  # the shares are rounded to an assignment at one of so many nodes
    # Memory for the multipliers of open nodes; beyond it new nodes have the root's initial multipliers
    max_state_bytes: int = 1 << 28


OPTIONS = Options()


class FaceSamples(NamedTuple):
    """The samples of one face: n on it for certain, and p undecided positives that may be on it."""

    A: Vector  # (n, d) rows y_j x̃_j
    q: Vector  # (n,) their squared norms
    C: Vector  # (n,) their costs of slack
    P: Vector  # (p, d) rows of the undecided positives
    B: Vector  # (p,) their costs of slack
    shares: Vector  # (p,) θ of the undecided positives on this face, above 0 and below 1


class Multipliers(NamedTuple):
    """The multipliers of a face, the vectors e that follow from them, and the lengths."""

    a: Vector  # (n,) multipliers a of the samples that are on the face for certain
    delta: Vector  # (p, n) moves δ: changes of these by each undecided positive
    beta: Vector  # (p,) multipliers β of the undecided positives themselves
    e: Vector  # (p, d) vectors e, one for each undecided positive
    length: Vector  # (p,) lengths d


# Raise Φ plus the barrier in place, by steps `first` to `last` - 1. A sweep has p + 1 steps: one for a, and
# one for each undecided positive. The first sweep visits every move, others only the nonzero ones. M (d, d)
# is the inverse of I − Σ e e'/d, and is updated. Returns -1 if there is not enough memory.
_raise_multipliers = kernel(
    "cpm_raise_spread",
    "A: f8 (n, d); q: f8 (n); C: f8 (n); P: f8 (p, d); B: f8 (p); shares: f8 (p); a!: f8 (n); "
    "delta!: f8 (p, n); beta!: f8 (p); e!: f8 (p, d); length!: f8 (p); M!: f8 (d, d); mu: f8; "
    "first: i8; last: i8",
    returns="i8",
)

# Minimise γ over the shares, as best_shares. weighted_sums (F, d): Σ_i θ_i e_i of each face; curvature
# (F, p): the diagonal of the Hessian of γ.
_best_shares = kernel(
    "cpm_best_shares",
    "slope: f8 (F, p); e: f8 (F, p, d); length: f8 (F, p); multiplicity: f8 (F); allowed: b1 (F, p); "
    "shares!: f8 (F, p); weighted_sums!: f8 (F, d); curvature: f8 (F, p); passes: i8; min_decrease: f8",
)


def raise_multipliers(samples: FaceSamples, multipliers: Multipliers, mu: float, sweeps: int) -> None:
    """Raise Φ plus the barrier with parameter μ by coordinate sweeps, in place, from an interior point."""
    (n, d), p = samples.A.shape, len(samples.shares)
    M = np.linalg.inv(np.eye(d) - (multipliers.e / multipliers.length[:, None]).T @ multipliers.e)
    steps_per_call, steps = max(ENTRIES_PER_CALL // (2 * (n * d + d * d)), 1), (p + 1) * sweeps
    for first in range(0, steps, steps_per_call):
        last = min(first + steps_per_call, steps)
        if _raise_multipliers(*samples, *multipliers, M, mu, first, last) < 0:
            raise MemoryError


class FaceBound(NamedTuple):
    """The terms of one face in the theorem's bound."""

    constant: float  # Σ_j a_j − ¼ ‖v‖²
    if_assigned: Vector  # (p,) term of each undecided positive in the minimum over the faces
    of_shares: Vector  # (p,) ½ θ_i v·e_i − ¼ θ_i² d_i
    error: float  # bound on the rounding error of all terms together


def feasible(samples: FaceSamples, multipliers: Multipliers) -> Multipliers:
    """Return feasible multipliers and lengths: clipped and shrunk, with Σ e e' / d ⪯ I beyond rounding.

    The given multipliers may be any numbers, the lengths any positive ones; e is computed anew.
    """
    a, delta, beta, _, length = multipliers
    a, beta = np.clip(a, 0.0, samples.C), np.clip(beta, 0.0, samples.B)
    # Shrink the moves of each sample j in either direction if their sum exceeds the distance to a_j's bound.
    for limit, moves in ((samples.C - a, np.maximum(delta, 0.0)), (a, np.maximum(-delta, 0.0))):
        total = moves.sum(axis=0)
        exceeds = total * ABOVE > limit * (1.0 - 4.0 * UNIT)
        if exceeds.any():
            factor = np.where(exceeds, limit / np.maximum(total, 1e-300) * (1.0 - 1e-8), 1.0)
            delta = delta * np.where(moves > 0.0, factor, 1.0)
    e = beta[:, None] * samples.P + delta @ samples.A
    return Multipliers(a, delta, beta, e, np.maximum(length, 1e-300) * _length_factor(e, length))


def face_bound(samples: FaceSamples, multipliers: Multipliers) -> FaceBound:
    """Return one face's terms in the bound, for multipliers from :func:`feasible` and shares in [0, 1]."""
    (n, d), p, shares = samples.A.shape, len(multipliers.beta), samples.shares
    a, delta, beta, e, length = multipliers
    norms, row_norms = np.linalg.norm(e, axis=1), np.sqrt(samples.q)
    norm_bounds = np.abs(beta) * np.linalg.norm(samples.P, axis=1) + np.abs(delta) @ row_norms  # of e_i
    base_sum = a @ samples.A
    v = base_sum + shares @ e
    # L and ε (`vector_error`) of the module's paragraph on rounding.
    L = np.linalg.norm(v) + norms.sum() + a @ row_norms
    vector_size = a @ row_norms + norm_bounds.sum() + np.linalg.norm(base_sum) + norms.sum()
    vector_error = ABOVE * gamma(n + p + 8) * vector_size
    products = e @ v
    if_assigned = beta + delta.sum(axis=1) - 0.5 * products - 0.25 * (1.0 - 2.0 * shares) * length
    of_shares = 0.5 * shares * products - 0.25 * shares**2 * length
    size = a.sum() + np.abs(beta).sum() + np.abs(delta).sum() + L * L + length.sum()
    square_error = vector_error * (2.0 * L + vector_error)
    error = ABOVE * (0.25 * square_error + 2.0 * gamma(n + p + d + 20) * size)
    return FaceBound(float(a.sum() - 0.25 * (v @ v)), if_assigned, of_shares, float(error))


def raise_copy(
    samples: FaceSamples, multipliers: Multipliers, mu: float, sweeps: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Multipliers:  # fmt: skip
    """Return a copy improved by :func:`raise_multipliers`.

    The ascent ends early if `is_over` returns True or a number is not finite. If there are more dimensions
    than samples, it works in coordinates of the samples' span, as a step costs the dimension squared.
    """
    if samples.A.shape[1] > len(samples.A) + len(samples.P):
        basis = np.linalg.qr(np.vstack([samples.A, samples.P]).T)[0]
        projected = samples._replace(A=samples.A @ basis, P=samples.P @ basis)
        start = multipliers._replace(e=multipliers.e @ basis)
        improved = raise_copy(projected, start, mu, sweeps, is_over)
        return improved._replace(e=improved.beta[:, None] * samples.P + improved.delta @ samples.A)
    for sweeps_done in range(0, sweeps, OPTIONS.full_sweep_every):
        if is_over():
            return multipliers
        improved = Multipliers(*(part.copy() for part in multipliers))
        n_sweeps = min(OPTIONS.full_sweep_every, sweeps - sweeps_done)
        try:
            raise_multipliers(samples, improved, mu, n_sweeps)
        except np.linalg.LinAlgError:
            return multipliers
        if not all(np.isfinite(part).all() for part in improved):
            return multipliers
        multipliers = improved
    return multipliers


def interior(samples: FaceSamples, multipliers: Multipliers, distance: Vector) -> Multipliers:
    """Return strictly feasible multipliers, from which :func:`raise_multipliers` can start.

    a is moved to at least `distance` (n,) from its bounds, the moves are shrunk, and the lengths increased.
    """
    _, delta, beta, _, length = multipliers
    a = np.clip(multipliers.a, distance, samples.C - distance)
    upper, lower = samples.C - a - 0.5 * distance, a - 0.5 * distance
    up, down = np.maximum(delta, 0.0).sum(axis=0), np.maximum(-delta, 0.0).sum(axis=0)
    scale = np.minimum(upper / np.maximum(up, 1e-300), lower / np.maximum(down, 1e-300))
    delta = np.ascontiguousarray(delta * np.minimum(scale, 1.0))
    e = beta[:, None] * samples.P + delta @ samples.A
    length = np.maximum(length, 1e-300)
    if len(length):
        length = length * max(1.0, 1.01 * float(np.linalg.eigvalsh(_gram(e, length))[-1]))
    return Multipliers(a, delta, beta.copy(), e, length)


def _gram(e: Vector, length: Vector) -> Vector:
    """Return Σ e e' / d, or the matrix of e_i·e_j / √(d_i d_j) if it is smaller: same nonzero eigenvalues."""
    if len(e) >= e.shape[1]:
        return np.asarray((e / length[:, None]).T @ e)
    scaled = e / np.sqrt(length)[:, None]
    return np.asarray(scaled @ scaled.T)


def _length_factor(e: Vector, length: Vector) -> float:
    """Return a factor of the lengths d with which Σ e e' / d ⪯ I is proven; infinite if the proof fails."""
    if len(e) == 0:
        return 1.0
    matrix = _gram(e, length)
    matrix, d = 0.5 * (matrix + matrix.T), len(matrix)
    rounding_error = ABOVE * gamma(max(e.shape) + 8) * float((np.square(e).sum(axis=1) / length).sum())
    largest_eigenvalue = float(np.linalg.eigvalsh(matrix)[-1])
    for margin in (1e-10, 1e-6, 1.0):  # relative increase of the computed largest eigenvalue
        bound = max(largest_eigenvalue, 0.0) * (1.0 + margin) + 1e-300
        try:
            np.linalg.cholesky(bound * np.eye(d) - matrix)
        except np.linalg.LinAlgError:
            continue
        return (bound * (1.0 + 8.0 * (d + 4) ** 2 * UNIT) + rounding_error) * (1.0 + 8.0 * UNIT)
    return np.inf


class FixedMultipliers(NamedTuple):
    """The coefficients of γ for F different faces; the last may represent several with equal multipliers."""

    slope: Vector  # (F, p) c_ik: the slope of γ at 0
    e: Vector  # (F, p, d) vectors e
    length: Vector  # (F, p) lengths d
    multiplicity: Vector  # (F,) number of faces that each of the F represents
    allowed: NDArray[np.bool_]  # (F, p) True if the positive may be on the face


def best_shares(fixed: FixedMultipliers, shares: Vector, passes: int, min_decrease: float) -> None:
    """Minimise γ over shares (F, p), in place, by coordinate descent.

    It ends after `passes` passes, or once a pass lowers γ by at most `min_decrease`. A face that represents
    several faces has the sum of their shares.
    """
    weighted_sums = np.einsum("kp,kpd->kd", shares, fixed.e)
    diagonal = np.maximum(fixed.length - np.square(fixed.e).sum(axis=2), 0.0)
    diagonal += OPTIONS.share_ridge * fixed.length
    curvature = 0.5 * diagonal / fixed.multiplicity[:, None]
    _best_shares(*fixed, shares, weighted_sums, curvature, passes, min_decrease)


class _Packed(NamedTuple):
    """A face's multipliers, in arrays for all n samples and npos positives, with sparse moves."""

    multipliers: Multipliers  # with an empty delta
    moves: sp.csr_array  # delta (npos, n)

    @property
    def size(self) -> int:
        return sum(part.nbytes for part in (*self.multipliers, self.moves.data, self.moves.indices))

    def unpacked(self) -> Multipliers:
        """Return the multipliers with the full matrix of moves."""
        return self.multipliers._replace(delta=self.moves.toarray())


def _packed(multipliers: Multipliers) -> _Packed:
    """Return the multipliers of a face in packed form."""
    return _Packed(multipliers._replace(delta=np.zeros((0, 0))), sp.csr_array(multipliers.delta))


class State(NamedTuple):
    """The solution of a node, from which its children start."""

    faces: list[_Packed]  # K faces; equal ones are the same object
    shares: Vector  # (npos, K)
    face: NDArray[np.int64]  # (npos,) face of each positive, -1 if it is undecided

    @property
    def size(self) -> int:
        """Memory in bytes; equal faces count once."""
        return self.shares.nbytes + sum({id(face): face.size for face in self.faces}.values())


class _Face(NamedTuple):
    """A face of a node."""

    samples: FaceSamples
    possible: NDArray[np.int64]  # (p,) indices, among all positives, of the undecided ones that it may have
    multipliers: Multipliers  # feasible, for these samples


class SpreadNode:
    """A node: its multipliers and shares, which start from its parent's, and its bound.

    allowed (npos, K): True if the positive may be on the face; one face is allowed to an assigned positive.
    parent: the solution to start from.
    unit: unit of the barrier parameters (:attr:`SpreadSearch.unit`).
    face (npos,): the face of each positive, -1 if it is undecided.
    undecided: indices of the undecided positives.
    n_used: number of faces with assigned positives; they come first, as branching tries one unused face only.
    n_different: number of different faces: the used ones, and one that represents all unused faces, whose
        programs are equal.
    multiplicity (n_different,): number of faces that each different face represents.
    faces: the multipliers of each different face, for all samples.
    shares (npos, K): the shares; for assigned positives they have no meaning.
    bound: the largest lower bound of the node so far.
    increase (undecided, K): increase of that bound if the positive is assigned to the face.
    share_loss (undecided,): decrease of the bound by fractional shares, Σ_k θ_ik (1 − θ_ik) d_ik.
    """

    def __init__(self, data: Samples, allowed: "Allowed", parent: State, unit: float, *, is_root: bool):
        self.data, self.allowed, self.unit, self.is_root = data, allowed, unit, is_root
        K, counts = allowed.shape[1], allowed.sum(axis=1)
        self.n_faces = K
        self.face = np.where(counts == 1, allowed.argmax(axis=1), -1)
        self.n_used = int(self.face.max(initial=-1)) + 1
        self.n_different = min(K, self.n_used + 1)
        self.multiplicity = np.ones(self.n_different)
        if self.n_used < K:
            self.multiplicity[-1] = K - self.n_used
        self.undecided = np.flatnonzero(self.face < 0)
        self.shares = self._normalised(parent.shares)
        assigned = np.flatnonzero((parent.face < 0) & (self.face >= 0))
        self.faces = [
            self._with_assigned(parent.faces[k], assigned[self.face[assigned] == k])
            for k in range(self.n_different)
        ]
        self.bound, self.increase, self.share_loss = -np.inf, np.zeros((0, K)), np.zeros(0)

    @property
    def state(self) -> State:
        """The state that children start from."""
        faces = [_packed(face) for face in self.faces]
        faces += faces[-1:] * (self.n_faces - self.n_different)
        return State(faces, self.shares, self.face)

    def _normalised(self, shares: Vector) -> Vector:
        """Return allowed shares of at least `min_share` that sum to 1, equal on all unused faces."""
        shares = np.where(self.allowed, np.maximum(shares, OPTIONS.min_share), 0.0)
        if self.n_used < shares.shape[1]:
            shares[:, self.n_used :] = shares[:, self.n_used :].mean(axis=1, keepdims=True)
        total = shares.sum(axis=1, keepdims=True)
        return np.asarray(shares / np.where(total > 0.0, total, 1.0))

    def _with_assigned(self, parent: _Packed, assigned: NDArray[np.int64]) -> Multipliers:
        """Return the parent's multipliers of a face, plus the moves of newly assigned positives."""
        multipliers = parent.unpacked()
        a, inside = multipliers.a.copy(), self.data.inside
        a += multipliers.delta[assigned].sum(axis=0)
        a[inside + assigned] += multipliers.beta[assigned]
        return multipliers._replace(a=a)

    def raise_all(self, target: float, is_over: Callable[[], bool]) -> None:
        """Improve multipliers, then shares, for each barrier parameter, until the bound reaches `target`."""
        barriers, sweeps = OPTIONS.node_barriers, OPTIONS.node_sweeps
        if self.is_root:
            barriers, sweeps = OPTIONS.root_barriers, OPTIONS.root_sweeps
        for barrier in barriers:
            faces = [
                self._raise_face(k, barrier * self.unit, sweeps, is_over) for k in range(self.n_different)
            ]
            best = self._best_shares(faces)
            self._update_bound(faces, best)
            self.shares = self._normalised(self.shares + OPTIONS.share_step * (best - self.shares))
            if self.bound >= target or is_over():
                break

    def _raise_face(self, k: int, mu: float, sweeps: int, is_over: Callable[[], bool]) -> _Face:
        """Improve the multipliers of face k for fixed shares; update ``faces[k]``, return the face."""
        data, previous = self.data, self.faces[k]
        possible = np.flatnonzero((self.face < 0) & self.allowed[:, k])
        rows = np.r_[np.arange(data.inside), data.inside + np.flatnonzero(self.face == k)]
        samples = FaceSamples(
            data.A[rows], data.q[rows], data.C[rows], data.A[data.inside + possible],
            data.C[data.inside + possible], self.shares[possible, k].copy(),
        )  # fmt: skip
        start = Multipliers(
            previous.a[rows], previous.delta[np.ix_(possible, rows)], previous.beta[possible],
            previous.e[possible], previous.length[possible],
        )  # fmt: skip
        start = interior(samples, start, 1e-6 * samples.C)
        multipliers = feasible(samples, raise_copy(samples, start, mu, sweeps, is_over))
        # Keep the same multipliers in arrays for all samples.
        n, npos = len(data.C), len(self.face)
        a, delta, beta = np.zeros(n), np.zeros((npos, n)), np.zeros(npos)
        e, length = np.zeros_like(data.A[data.inside :]), np.ones(npos)
        a[rows], beta[possible] = multipliers.a, multipliers.beta
        e[possible], length[possible] = multipliers.e, multipliers.length
        delta[np.ix_(possible, rows)] = multipliers.delta
        self.faces[k] = Multipliers(a, delta, beta, e, length)
        return _Face(samples, possible, multipliers)

    def _best_shares(self, faces: list[_Face]) -> Vector:
        """Return the shares (npos, K) with the best bound for fixed multipliers."""
        undecided, best = self.undecided, self.shares.copy()
        if not len(undecided) or self.n_different == 1:  # all faces are unused: equal shares are optimal
            return best
        # The coefficients of γ: e_ik, d_ik, s_ik (`sums`), p_k (`base_sums`) and c_ik (`slope`).
        e = np.array([face.e[undecided] for face in self.faces])
        length = np.array([face.length[undecided] for face in self.faces])
        sums = np.array([face.beta[undecided] + face.delta[undecided].sum(axis=1) for face in self.faces])
        base_sums = np.array([face.multipliers.a @ face.samples.A for face in faces])
        slope = sums - 0.5 * np.einsum("kid,kd->ki", e, base_sums) - 0.25 * length
        allowed = np.ascontiguousarray(self.allowed[undecided, : self.n_different].T)
        shares = np.ascontiguousarray(best[undecided, : self.n_different].T) * self.multiplicity[:, None]
        fixed = FixedMultipliers(slope, e, length, self.multiplicity, allowed)
        best_shares(fixed, shares, OPTIONS.share_passes, 0.1 * self.unit)
        # Each unused face has an equal part of the shares of the face that represents them.
        representative = np.minimum(np.arange(self.n_faces), self.n_different - 1)
        best[undecided] = (shares / self.multiplicity[:, None])[representative].T
        return best

    def _update_bound(self, faces: list[_Face], shares: Vector) -> None:
        """Compute the bound for these shares, and keep it if it is larger."""
        npos, K = shares.shape
        constant, error = 0.0, 0.0
        if_assigned = np.full((npos, K), np.inf)
        of_shares, lengths = np.zeros((npos, K)), np.zeros((npos, K))
        for k, (samples, possible, multipliers) in enumerate(faces):
            multiplicity = int(self.multiplicity[k])
            face = face_bound(samples._replace(shares=shares[possible, k]), multipliers)
            constant += multiplicity * face.constant
            error += multiplicity * face.error
            same = np.s_[k : k + multiplicity]  # the faces that face k represents
            if_assigned[possible, same] = face.if_assigned[:, None]
            of_shares[possible, same] = face.of_shares[:, None]
            lengths[possible, same] = multipliers.length[:, None]
        undecided = self.undecided
        least = if_assigned[undecided].min(axis=1)
        total = constant + least.sum() + of_shares[undecided].sum()
        size = abs(constant) + np.abs(least).sum() + np.abs(of_shares[undecided]).sum()
        bound = float(total - error - 2.0 * gamma(npos * (K + 1) + 2 * K + 8) * size)
        if bound > self.bound:
            self.bound, self.increase = bound, if_assigned[undecided] - least[:, None]
        self.share_loss = (self.shares * (1.0 - self.shares) * lengths)[undecided].sum(axis=1)


class Open(NamedTuple):
    """An open node."""

    allowed: "Allowed"  # (npos, K) faces allowed for each positive
    parent: State  # state to start from: the parent's solution, or `first_state` if memory is short


class SpreadSearch(BestFirst[Open]):
    """Branch and bound with :class:`SpreadNode`.

    best: the incumbent, shared with other searches.
    first_state: the multipliers and shares from which the root starts: no moves, and equal shares.
    state_bytes: memory of the parents' states of all open nodes.
    """

    def __init__(self, data: Samples, best: Best, tol: float, clock: Clock):
        super().__init__(tol)
        self.data, self.best, self.clock = data, best, clock
        (n, d), K, npos = data.A.shape, len(best.W), data.npos
        size = best.cost / (2 * n * K)  # largest initial multiplier; they are small and in the interior
        a = np.minimum(0.5 * data.C, size)
        a[data.inside :] = 0.0
        beta = np.minimum(0.01 * data.C[data.inside :], size)
        lengths = beta**2 * data.q[data.inside :] * 2 * max(npos, 1)
        face = _packed(Multipliers(a, np.zeros((npos, n)), beta, np.zeros((npos, d)), lengths))
        self.first_state = State([face] * K, np.full((npos, K), 1.0 / K), np.full(npos, -1))
        self.state_bytes = 0
        self.push([(0.0, Open(np.ones((npos, K), dtype=bool), self.first_state))])

    @property
    def objective(self) -> float:
        """Cost of the incumbent."""
        return self.best.cost

    @property
    def closes_gap(self) -> bool:
        """True if the bound is within the tolerance of the incumbent's cost."""
        return self.bound >= self.cutoff

    @property
    def unit(self) -> float:
        """Unit of barrier parameters: the incumbent's cost over the number of barrier terms of all faces."""
        n, d = self.data.A.shape
        return self.best.cost / (len(self.best.W) * (2 * n + d))

    def push(self, children: Iterable[tuple[float, Open]], depth: int = 0) -> None:
        """Open the nodes, and count their memory."""
        nodes, cutoff = list(children), self.cutoff
        self.state_bytes += sum(state.parent.size for bound, state in nodes if bound < cutoff)
        super().push(nodes, depth)

    def pop(self) -> OpenNode[Open]:
        """Remove the next node from the open ones, and return it."""
        node = super().pop()
        self.state_bytes -= node.state.parent.size
        return node

    def expand(self, node: OpenNode[Open]) -> list[tuple[float, Open]]:
        """Bound a node and branch."""
        result = SpreadNode(self.data, *node.state, self.unit, is_root=node.minus_depth == 0)
        result.raise_all(self.cutoff, lambda: self.clock.is_over)
        return self._children(node, result)

    def _children(self, node: OpenNode[Open], result: SpreadNode) -> list[tuple[float, Open]]:
        """Return bound and state of each child: forbid faces, and branch on the largest `share_loss`.

        Closing a part of the node records its bound, which is at least the cutoff.
        """
        best, undecided, cutoff = self.best, result.undecided, self.cutoff
        if self.nodes % OPTIONS.round_every == 1:  # round the shares to an assignment
            W, face = np.zeros_like(best.W), result.shares.argmax(axis=1)
            best.offer(alternate(self.data, face, W, 1e-4 * self.tol * best.cost, self.clock), W)
            cutoff = self.cutoff
        bound = max(node.bound, result.bound)
        if bound < cutoff and not len(undecided):
            bound = max(bound, self._solve_assignment(result.face))
        if bound >= cutoff or not len(undecided):
            self.close(bound)
            return []
        # Forbid faces to positives if the bound with the positive on the face reaches the cutoff.
        bound_if_assigned = np.maximum(bound, result.bound + result.increase)
        allowed = node.state.allowed.copy()
        forbidden = allowed[undecided] & (bound_if_assigned >= cutoff)
        if forbidden.any():
            self.close(float(bound_if_assigned[forbidden].min()))
            allowed[undecided] &= ~forbidden
        state = result.state if self.state_bytes < OPTIONS.max_state_bytes else self.first_state
        # One child for each allowed face; `branch` is an index among the undecided positives.
        branch, children = int(result.share_loss.argmax()), []
        for k in np.flatnonzero(allowed[undecided[branch]][: result.n_different]):
            child_allowed = allowed.copy()
            child_allowed[undecided[branch]] = np.arange(len(best.W)) == k
            children.append((float(bound_if_assigned[branch, k]), Open(child_allowed, state)))
        return children

    def _solve_assignment(self, face: NDArray[np.int64]) -> float:
        """Solve the faces of a complete assignment, and offer them; return the sum of their lower bounds."""
        alpha, W = polished_faces(self.data, self.best, face, self.tol, self.clock)
        self.best.offer(total_cost(self.data, W)[0], W)
        value, error = proven_sum(self.data, alpha)
        return value - error
