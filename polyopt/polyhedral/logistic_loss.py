"""Logistic polytopes: the objective with soft maxima, its gradient, and a lower bound.

Every face, a row of W (K, m+1) with the bias last, belongs to one of the two classes -1 and +1. With scores
s_ik = w_k·x_i + b_k (n, K) and weights c (n,) the loss is

    Σ_i c_i ln(1 + e^ξ_i),    ξ_i = max of s_ik over the other class's faces − max over the own class's faces,

and the objective adds the squared norms ρ/2 ‖w‖² + η/2 ‖b‖² and the penalties λ Σ|w| and τ Σ‖groups of w‖
(:mod:`formulations.logistic_polytopes`). A class without faces has one zero face.

The maximum over a class may be replaced by the soft maximum t ln Σ exp(s/t) of softness t, which is larger by
at most t ln K; t = 0 is the maximum itself. :meth:`FaceLoss.smooth` returns the derivatives R_ik of the loss
by the scores, and a_i = c_i σ(ξ_i), its derivatives by ξ. At the other class's faces R_ik are the multipliers
of the constraints of the convex program for a fixed assignment, and :meth:`FaceLoss.bound` is the dual value.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit
from sklearn.preprocessing import StandardScaler

from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from formulations.language.types import Array, Matrix, is_sparse
from formulations.polyhedral import pull, scores

Mask = NDArray[np.bool_]


class Units(NamedTuple):
    """Units of the features in which a descent is well conditioned: x in them is (x − middle)/scale.

    scale (m+1,): the standard deviation of each feature, and 1 for the bias.
    middle (m,): the origin of each feature.
    """

    scale: Array
    middle: Array

    def scaled(self, W: Array) -> Array:
        """Convert faces (K, m+1) to these units."""
        V = W * self.scale
        V[:, -1] += W[:, :-1] @ self.middle
        return V

    def unscaled(self, V: Array) -> Array:
        """Convert faces in these units back to the units of the samples."""
        W = V / self.scale
        W[:, -1] -= W[:, :-1] @ self.middle
        return W

    def scaled_gradient(self, G: Array) -> Array:
        """Convert a gradient (K, m+1) by faces to the gradient by the scaled faces."""
        centred = G.copy()
        centred[:, :-1] -= G[:, -1:] * self.middle
        return centred / self.scale


@dataclass(frozen=True)
class EntryPenalty:
    """The penalty on entries v of faces, in arrays of the shape of v: Σ λ|v| + Σ τ ‖v of a group‖.

    v is (K, m+1), or (k,) for some of the entries.
    """

    up: Array  # soft threshold above 0: λ, or infinity if the sign is forbidden
    down: Array  # soft threshold below 0
    groups: NDArray[np.int64]  # group of each entry; all biases are in one
    norm_weights: Array  # (groups,) τ, or 0

    def at(self, mask: Mask) -> "EntryPenalty":
        """Return the penalty on the entries of a mask."""
        return EntryPenalty(self.up[mask], self.down[mask], self.groups[mask], self.norm_weights)

    @property
    def has_kink(self) -> Mask:
        """True for an entry with an ℓ1 penalty or a sign constraint."""
        return (self.up > 0.0) | (self.down > 0.0)

    def norms(self, v: Array) -> Array:
        """Return the norm (groups,) of each group."""
        return np.asarray(
            np.sqrt(np.bincount(self.groups.ravel(), (v * v).ravel(), minlength=len(self.norm_weights)))
        )

    def value(self, v: Array) -> float:
        """Return the penalty of entries v of allowed signs."""
        l1 = np.minimum(self.up, self.down)
        return float((l1 * np.abs(v)).sum()) + float(self.norm_weights @ self.norms(v))

    def smoothed_norms(self, v: Array, e: Array) -> tuple[float, Array]:
        """Return the term of the norms with sqrt(v² + e²) in place of |v|, and its gradient."""
        norms, weights = self.norms(np.hypot(v, e)), self.norm_weights
        by_norm = np.divide(weights, norms, out=np.zeros_like(norms), where=weights > 0.0)
        return float(weights @ norms), by_norm[self.groups] * v

    def shrunk(self, v: Array) -> Array:
        """Soft-threshold the entries, and then the norms of the groups."""
        entries = np.maximum(v - self.up, 0.0) - np.maximum(-v - self.down, 0.0)
        if not self.norm_weights.any():
            return entries
        norms = self.norms(entries)
        reduced = np.maximum(norms - self.norm_weights, 0.0)
        return entries * np.divide(reduced, norms, out=np.zeros_like(norms), where=norms > 0.0)[self.groups]


@dataclass(frozen=True)
class FaceLoss:
    """The objective: samples with weights, the numbers of faces of the classes, and the penalties."""

    X: Matrix  # samples (n, m)
    y: Array  # labels -1 and +1
    c: Array  # weights (n,)
    owners: Owners  # number of faces of each class: those of class -1 come first
    ridge: float  # ρ
    bias_ridge: float  # η
    penalty: FacePenalty  # λ, τ, and the signs of faces that were multiplied by their class
    support: Mask | None = None  # (K, m), True for weights that may differ from 0; None for all
    known_units: Units | None = None  # value of `units`; None: computed from the samples

    def of_features(self, used: NDArray[np.intp], support: Mask | None = None) -> "FaceLoss":
        """Return the problem of the features `used`; `support` (K, m) has columns for all features."""
        scale, middle = self.units
        return replace(
            self, X=self.X[:, used], support=None if support is None else support[:, used],
            penalty=self.penalty.of_features(used),
            known_units=Units(np.append(scale[:-1][used], 1.0), middle[used]),
        )  # fmt: skip

    @cached_property
    def units(self) -> Units:
        """Units in which features have mean 0 and standard deviation 1; sparse samples are not centred."""
        if self.known_units is not None:
            return self.known_units
        with np.errstate(invalid="ignore"):  # rounding may make the variance of a constant negative
            scaler = StandardScaler(with_mean=not is_sparse(self.X)).fit(self.X, sample_weight=self.c)
        middle = np.zeros(self.X.shape[1]) if is_sparse(self.X) else scaler.mean_
        return Units(np.append(scaler.scale_, 1.0), middle)

    @cached_property
    def entry_penalty(self) -> EntryPenalty:
        """The penalty and the sign constraints (K, m+1) of the entries of faces."""
        signs = np.pad(self.owners.required_signs(self.penalty.signs), ((0, 0), (0, 1)))
        l1 = np.append(np.full(self.X.shape[1], self.penalty.l1), 0.0)
        groups = np.broadcast_to(np.append(self.penalty.groups, self.penalty.n_groups), self.shape)
        return EntryPenalty(
            np.where(signs < 0, np.inf, l1), np.where(signs > 0, np.inf, l1), groups,
            np.append(np.full(self.penalty.n_groups, self.penalty.group), 0.0),
        )  # fmt: skip

    def allowed(self, W: Array) -> Array:
        """Return faces in which entries that must be 0, or have a forbidden sign, are 0."""
        penalty = self.entry_penalty
        forbidden = ((W > 0.0) & np.isinf(penalty.up)) | ((W < 0.0) & np.isinf(penalty.down))
        return np.where(forbidden | ~self.entries, 0.0, W)

    @cached_property
    def other_class(self) -> Mask:
        """Mask (n, K) of the faces of the class that is not the sample's."""
        return self.owners.other_class(self.y)

    @cached_property
    def entries(self) -> Mask:
        """Mask (K, m+1) of the entries of faces that may differ from 0."""
        return np.column_stack([self.owners.support(self.X.shape[1], self.support), self.owners.free])

    @cached_property
    def ridges(self) -> Array:
        """Factor (m+1,) of half the square of each entry of a face: ρ, and η for the bias."""
        return np.append(np.full(self.X.shape[1], self.ridge), self.bias_ridge)

    @property
    def is_convex(self) -> bool:
        """True if no class has more than one face: the problem then has one optimum."""
        return max(self.owners.minus, self.owners.plus) <= 1

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the faces, (K, m+1)."""
        return self.owners.count, self.X.shape[1] + 1

    def scores(self, W: Array) -> Array:
        """Return the scores w_k·x_i + b_k (n, K) of faces W (K, m+1)."""
        return scores(self.X, W)

    def value(self, W: Array, s: Array | None = None) -> float:
        """Return the objective for the best assignment; `s` (n, K) are the scores if they are known."""
        s, is_other = self.scores(W) if s is None else s, self.other_class
        xi = np.where(is_other, s, -np.inf).max(axis=1) - np.where(is_other, -np.inf, s).max(axis=1)
        loss = float(self.c @ np.logaddexp(0.0, xi))
        return loss + (float(0.5 * (W * W).sum(axis=0) @ self.ridges) + self.penalty.value(W))

    def smooth(
        self, W: Array, own_softness: float, other_softness: float, s: Array | None = None
    ) -> tuple[float, Array, Array, Array]:
        """Evaluate the smooth part of the objective, loss and squared norms, with soft maxima.

        Return its value, its gradient (K, m+1), and the derivatives R (n, K) and a (n,) of the loss.

        own_softness, other_softness: t of the maximum over the sample's class and over the other class.
        s (n, K): the scores if they are known.
        """
        s, plus = self.scores(W) if s is None else s, self.y > 0
        loss, R, a = score_loss(s, self.c, plus, self.owners.count_minus, own_softness, other_softness)
        gradient = pull(self.X, R) + self.ridges * W
        gradient[~self.entries] = 0.0
        return loss + 0.5 * float((W * W).sum(axis=0) @ self.ridges), gradient, R, a

    def probabilities(self, a: Array) -> Array:
        """Return σ(ξ) (n,), the other class's probability, from a = c σ(ξ); 0 for a sample of weight 0."""
        return np.divide(a, self.c, out=np.zeros_like(a), where=self.c > 0)

    def best_assignment(self, W: Array, s: Array | None = None) -> NDArray[np.int64]:
        """Return the best face of its own class for each sample; `s` (n, K) are the scores if known."""
        s = self.scores(W) if s is None else s
        return np.asarray(np.where(self.other_class, -np.inf, s).argmax(axis=1))

    def bound(self, W: Array, gradient: Array, a: Array) -> float:
        """Return a lower bound on the optimum for the assignment, up to rounding.

        It is the dual value at the multipliers of :meth:`smooth` at W, which returned `gradient` and a. The
        dual needs V, the negative gradient of the loss: ρ W − gradient.
        """
        V = self.ridges * W - gradient
        V[~self.entries] = 0.0
        shrunk, p = self.entry_penalty.shrunk(V), self.probabilities(a)
        entropy = float(self.c @ (entr(p) + entr(1.0 - p)))
        return entropy - 0.5 * float((shrunk**2 / self.ridges).sum())


def score_loss(
    S: Array, c: Array, plus: Mask, n_minus: int, own_softness: float, other_softness: float
) -> tuple[float, Array, Array]:
    """Return the loss Σ c ln(1 + e^ξ), and its derivatives R (n, K) by the scores and a (n,) by ξ.

    S (n, K): scores; the first `n_minus` columns are the faces of class -1.
    c, plus (n,): weights, and True for samples of class +1.
    own_softness, other_softness: as in :meth:`FaceLoss.smooth`.
    """
    s, sign = np.ascontiguousarray(S.T), np.where(plus, 1.0, -1.0)  # long rows: sums are faster
    t_minus: Array | float = own_softness
    t_plus: Array | float = own_softness
    if other_softness != own_softness:
        t_minus = np.where(plus, other_softness, own_softness)
        t_plus = np.where(plus, own_softness, other_softness)
    max_minus, minus_shares = _soft_maximum(s[:n_minus], t_minus)
    max_plus, plus_shares = _soft_maximum(s[n_minus:], t_plus)
    xi = sign * (max_minus - max_plus)
    a = c * expit(xi)
    R = np.concatenate([minus_shares, -plus_shares])
    R *= sign * a
    return float(c @ np.logaddexp(0.0, xi)), R.T, a


def _soft_maximum(s: Array, t: Array | float) -> tuple[Array, Array]:
    """Return the soft maximum (n,) of scores s (k, n), of softness t ≥ 0, and its gradient (k, n)."""
    top, is_soft = s.max(axis=0), np.greater(t, 0.0)
    exponentials = np.exp((s - top) / np.where(is_soft, t, 1.0))
    if not is_soft.all():
        exponentials = np.where(is_soft, exponentials, s.argmax(axis=0) == np.arange(len(s))[:, None])
    total = exponentials.sum(axis=0)
    return top + t * np.log(total), exponentials / total


def shortfall_gradient(R: Array, a: Array) -> Array:
    """Return the derivatives (n, K) of ξ by the scores, R/a; 0 for a sample without loss."""
    return np.divide(R, a[:, None], out=np.zeros_like(R), where=a[:, None] > 0)
