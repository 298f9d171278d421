"""The objective of logistic polytopes with soft maxima, its slope, its curvature, and a bound.

A maximum of scores is replaced by t ln Σ exp(s/t), which is above it by no more than t ln K. With a soft
maximum of the other class's scores and the assignment's own score the objective is convex and smooth, and
above that of the fixed assignment (:mod:`formulations.logistic_polytopes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.preprocessing import StandardScaler

from formulations.class_faces import Owners, natural_assignment
from formulations.face_penalty import FacePenalty
from formulations.language.types import Array, Matrix, is_sparse
from formulations.polyhedral import pull, scores
from polyopt.native.library import kernel

Bits = NDArray[np.bool_]

# The loss of scores S; fills its slope R and pulls, as `pulled` returns them.
_score_loss = kernel(
    "score_loss",
    "S: f8 (n, K); c: f8 (n); plus: b1 (n); first: i8; own: f8; other: f8; R!: f8 (n, K); pulls!: f8 (n)",
    returns="f8",
)  # fmt: skip


class Units(NamedTuple):
    """Units of features in which a descent is well conditioned.

    scale (m+1,): the spread of each entry's feature, 1 for the bias.
    middle (m,): the origin of each feature.
    """

    scale: Array
    middle: Array

    def inward(self, W: Array) -> Array:
        """Convert faces (K, m+1) to these units."""
        V = W * self.scale
        V[:, -1] += W[:, :-1] @ self.middle
        return V

    def outward(self, V: Array) -> Array:
        """Convert faces back to the units of the samples."""
        W = V / self.scale
        W[:, -1] -= W[:, :-1] @ self.middle
        return W

    def slope(self, G: Array) -> Array:
        """Convert the slope (K, m+1) at faces to that at the same faces in these units."""
        own = G.copy()
        own[:, :-1] -= G[:, -1:] * self.middle
        return own / self.scale


@dataclass(frozen=True)
class FaceLoss:
    """Samples with weights, the classes of the faces, and the penalties of faces."""

    X: Matrix  # samples (n, m)
    y: Array  # labels -1 and +1
    c: Array  # weights (n,)
    owners: Owners  # number of faces of each class
    ridge: float  # ρ
    bias_ridge: float  # η
    l1: float = 0.0  # λ
    support: Bits | None = None  # (K, m), True for weights that may differ from 0; None for all
    signs: NDArray[np.int64] | None = None  # (m,), the sign that the log-odds keep with each feature
    group: float = 0.0  # τ
    groups: NDArray[np.int64] | None = None  # (m,), the group of each feature, from 0; None: each its own
    known_units: Units | None = None  # `units`, if they are known

    def of_features(self, used: NDArray[np.intp], support: Bits | None = None) -> FaceLoss:
        """Restrict the problem to some features; `support` (K, m) is of all of them."""
        scale, middle = self.units
        return replace(
            self, X=self.X[:, used], support=None if support is None else support[:, used],
            signs=None if self.signs is None else self.signs[used],
            groups=None if self.groups is None else np.unique(self.groups[used], return_inverse=True)[1],
            known_units=Units(np.append(scale[:-1][used], 1.0), middle[used]),
        )  # fmt: skip

    @cached_property
    def units(self) -> Units:
        """Units in which features have spread 1 around 0; sparse samples are not centred."""
        if self.known_units is not None:
            return self.known_units
        with np.errstate(invalid="ignore"):  # rounding may make the variance of a constant negative
            scaler = StandardScaler(with_mean=not is_sparse(self.X)).fit(self.X, sample_weight=self.c)
        middle = np.zeros(self.X.shape[1]) if is_sparse(self.X) else scaler.mean_
        return Units(np.append(scaler.scale_, 1.0), middle)

    @cached_property
    def face_penalty(self) -> FacePenalty:
        """Penalty and signs of :meth:`class_signed` faces, which all keep the same signs."""
        return FacePenalty.of(
            self.X.shape[1], l1=self.l1, group=self.group, signs=self.signs, groups=self.groups
        )

    def class_signed(self, V: Array) -> Array:
        """Multiply faces, or pulls at them, by their classes; no penalty depends on it."""
        return V * self.owners.classes[:, None]

    @cached_property
    def entry_signs(self) -> Array:
        """The sign (K, m+1) that each entry of a face keeps, 0 if it is free."""
        return np.column_stack([self.owners.ways(self.X.shape[1], self.signs), np.zeros(self.owners.count)])

    @cached_property
    def thresholds(self) -> tuple[Array, Array]:
        """Thresholds (K, m+1) that a pull up, and a pull down, must pass to move an entry of a face."""
        up, down = self.entry_signs < 0, self.entry_signs > 0
        return np.where(up, np.inf, self.prices), np.where(down, np.inf, self.prices)

    def allowed(self, W: Array) -> Array:
        """Set entries of faces (K, m+1) with a forbidden sign to 0."""
        return np.where(self.entry_signs * W < 0, 0.0, W)

    @cached_property
    def others(self) -> Bits:
        """Mask (n, K) of the faces of the other class than a sample."""
        return self.owners.others(self.y)

    @cached_property
    def free(self) -> Bits:
        """Mask (K,) of the faces that are not at rest."""
        return self.owners.free

    @cached_property
    def entries(self) -> Bits:
        """Mask of the entries of the faces (K, m+1) that may differ from 0."""
        return np.column_stack([self.owners.support(self.X.shape[1], self.support), self.free])

    @cached_property
    def ridges(self) -> Array:
        """Ridge of each entry of a face (m+1,): ρ, and η for the bias."""
        return np.append(np.full(self.X.shape[1], self.ridge), self.bias_ridge)

    @cached_property
    def prices(self) -> Array:
        """ℓ1 penalty of each entry of a face (m+1,): λ, and 0 for the bias."""
        return np.append(np.full(self.X.shape[1], self.l1), 0.0)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the faces, (K, m+1)."""
        return self.owners.count, self.X.shape[1] + 1

    def scores(self, W: Array) -> Array:
        """Return w_k·x_i + b_k (n, K) of faces W (K, m+1), the bias last; 0 at rest."""
        return np.ascontiguousarray(scores(self.X, W))

    def price(self, W: Array) -> float:
        """Return the ℓ1 and the group penalty."""
        found = float(np.abs(W).sum(axis=0) @ self.prices)
        if self.group:
            found += self.group * float(self.face_penalty.lengths(W[:, :-1]).sum())
        return found

    def value(self, W: Array, s: Array | None = None) -> float:
        """Return the objective for the best assignment; `s` are the scores, if they are known."""
        loss, _, _ = self._pulled(W, s, 0.0, 0.0)
        return loss + (float(0.5 * (W * W).sum(axis=0) @ self.ridges) + self.price(W))

    def smooth(
        self, W: Array, own: float, other: float, s: Array | None = None
    ) -> tuple[float, Array, Array, Array]:
        """Return loss and ridges with soft maxima, the slope (K, m+1), d loss/d s (n, K), and c σ(ξ) (n,).

        own, other: t of the maximum over a sample's own class and over the other; 0 for the maximum itself.
        s (n, K): the scores, if they are known.
        """
        loss, R, a = self._pulled(W, s, own, other)
        slope = pull(self.X, R) + self.ridges * W
        slope[~self.entries] = 0.0
        return loss + 0.5 * float((W * W).sum(axis=0) @ self.ridges), slope, R, a

    def _pulled(self, W: Array, s: Array | None, own: float, other: float) -> tuple[float, Array, Array]:
        s = self.scores(W) if s is None else s
        return pulled(s, self.c, self.y > 0, self.owners.first, own, other)

    def probabilities(self, a: Array) -> Array:
        """Return σ(ξ) (n,), the other class's probability, from c σ(ξ); 0 for a sample without weight."""
        return np.divide(a, self.c, out=np.zeros_like(a), where=self.c > 0)

    def best_assignment(self, W: Array, s: Array | None = None) -> NDArray[np.int64]:
        """Return each sample's best face of its own class; `s` are the scores, if they are known."""
        return natural_assignment(self.y, self.scores(W) if s is None else s, self.owners)

    def bound(self, W: Array, slope: Array, a: Array) -> float:
        """Bound the optimum for the assignment by the slope and c σ(ξ) of :meth:`smooth`, but for rounding.

        The slope of the smooth part is ρ w less the pulls of the multipliers, so the pulls follow from it.
        """
        pulls = self.ridges * W - slope
        pulls[~self.entries] = 0.0
        up, down = self.thresholds
        shrunken = np.maximum(pulls - up, 0.0) + np.maximum(-pulls - down, 0.0)
        if self.group > 0.0:
            shrunken[:, :-1] *= self.face_penalty.shares(shrunken)
        p = self.probabilities(a)
        entropy = float(self.c @ (entr(p) + entr(1.0 - p)))
        return entropy - 0.5 * float((shrunken**2 / self.ridges).sum())


def pulled(
    S: Array, c: Array, plus: Bits, first: int, own: float, other: float
) -> tuple[float, Array, Array]:
    """Return Σ c ln(1 + e^ξ), its slope in the scores (n, K), and c σ(ξ) (n,).

    S (n, K): scores, those of the `first` faces of the class -1 first.
    c, plus (n,): weights, and True for samples of the class +1.
    own, other: t of the maximum over a sample's own class and over the other; 0 for the maximum itself.
    """
    R, pulls = np.empty(S.shape), np.empty(len(c))
    return _score_loss(S, c, plus, first, own, other, R, pulls), R, pulls


def shares_of(R: Array, a: Array) -> Array:
    """Return D ξ/d s (n, K) from d loss/d s and c σ(ξ) (n,); 0 for a sample without loss."""
    return np.divide(R, a[:, None], out=np.zeros_like(R), where=a[:, None] > 0)
