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
from formulations.language.types import Matrix, is_sparse
from formulations.polyhedral import pull, scores
from polyopt.native.library import kernel

Array = NDArray[np.float64]
Assignment = NDArray[np.int64]


# The loss of scores S; fills its slope R and pulls, as `pulled` says.
_score_loss = kernel(
    "score_loss",
    "S: f8 (n, K); c: f8 (n); plus: b1 (n); first: i8; own: f8; other: f8; R!: f8 (n, K); pulls!: f8 (n)",
    returns="f8",
)  # fmt: skip


class Units(NamedTuple):
    """Units of features, in which a descent sees no valleys that only their spreads make.

    Attributes
    ----------
    scale : ndarray of shape (m+1,)
        The spread of each entry's feature, 1 for the bias.
    middle : ndarray of shape (m,)
        What features are taken from.
    """

    scale: Array
    middle: Array

    def inward(self, W: Array) -> Array:
        """Faces (K, m+1) of features in these units."""
        V = W * self.scale
        V[:, -1] += W[:, :-1] @ self.middle
        return V

    def outward(self, V: Array) -> Array:
        """Faces of the features as they came."""
        W = V / self.scale
        W[:, -1] -= W[:, :-1] @ self.middle
        return W

    def slope(self, G: Array) -> Array:
        """The slope at faces in these units, from that at the faces as they came."""
        own = G.copy()
        own[:, :-1] -= G[:, -1:] * self.middle
        return own / self.scale


@dataclass(frozen=True)
class FaceLoss:
    """Samples with weights, whose the faces are, and what faces cost.

    Attributes
    ----------
    X, y, c
        Samples (n, m), labels -1 and +1, and weights (n,).
    owners : Owners
        How many faces each class has.
    ridge, bias_ridge, l1 : float
        ρ, η and λ.
    support : ndarray of bool, shape (K, m), optional
        Which weights may differ from 0; by default all.
    signs : ndarray of int, shape (m,), optional
        Of each feature, the sign that the log-odds keep; by default none has one.
    group : float
        τ.
    groups : ndarray of int, shape (m,), optional
        The group of each feature, from 0; by default each is its own.
    known_units : Units, optional
        What :attr:`units` is, where it is known.
    """

    X: Matrix
    y: Array
    c: Array
    owners: Owners
    ridge: float
    bias_ridge: float
    l1: float = 0.0
    support: NDArray[np.bool_] | None = None
    signs: NDArray[np.int64] | None = None
    group: float = 0.0
    groups: NDArray[np.int64] | None = None
    known_units: Units | None = None

    def of_features(self, used: NDArray[np.intp], support: NDArray[np.bool_] | None = None) -> FaceLoss:
        """The same with some of the features; `support` (K, m) is of all of them."""
        scale, middle = self.units
        return replace(
            self, X=self.X[:, used], support=None if support is None else support[:, used],
            signs=None if self.signs is None else self.signs[used],
            groups=None if self.groups is None else np.unique(self.groups[used], return_inverse=True)[1],
            known_units=Units(np.append(scale[:-1][used], 1.0), middle[used]),
        )  # fmt: skip

    @cached_property
    def units(self) -> Units:
        """Those in which features have spread 1 around 0; sparse samples stay where they are."""
        if self.known_units is not None:
            return self.known_units
        with np.errstate(invalid="ignore"):  # a variance that rounding makes negative is that of a constant
            scaler = StandardScaler(with_mean=not is_sparse(self.X)).fit(self.X, sample_weight=self.c)
        middle = np.zeros(self.X.shape[1]) if is_sparse(self.X) else scaler.mean_
        return Units(np.append(scaler.scale_, 1.0), middle)

    @cached_property
    def face_price(self) -> FacePenalty:
        """Prices and signs of faces that have been :meth:`turned`: those of all keep the same signs."""
        return FacePenalty.of(
            self.X.shape[1], l1=self.l1, group=self.group, signs=self.signs, groups=self.groups
        )

    def turned(self, V: Array) -> Array:
        """Faces of class −1, or pulls at them, with the other sign, which no price sees; and back."""
        return V * self.owners.classes[:, None]

    @cached_property
    def ways(self) -> Array:
        """The sign (K, m+1) that each entry of a face keeps, 0 where it is free."""
        return np.column_stack([self.owners.ways(self.X.shape[1], self.signs), np.zeros(self.owners.count)])

    @cached_property
    def thresholds(self) -> tuple[Array, Array]:
        """What a pull up and a pull down must pass to move an entry of a face, (K, m+1) each."""
        up, down = self.ways < 0, self.ways > 0
        return np.where(up, np.inf, self.prices), np.where(down, np.inf, self.prices)

    def allowed(self, W: Array) -> Array:
        """The faces (K, m+1) with 0 where the sign is not allowed."""
        return np.where(self.ways * W < 0, 0.0, W)

    @cached_property
    def others(self) -> NDArray[np.bool_]:
        """Which faces (n, K) are of the other class than a sample."""
        return self.owners.others(self.y)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which faces (K,) are not at rest."""
        return self.owners.free

    @cached_property
    def entries(self) -> NDArray[np.bool_]:
        """Which entries of the faces (K, m+1) may differ from 0."""
        return np.column_stack([self.owners.support(self.X.shape[1], self.support), self.free])

    @cached_property
    def ridges(self) -> Array:
        """What half the square of an entry of a face (m+1,) costs."""
        return np.append(np.full(self.X.shape[1], self.ridge), self.bias_ridge)

    @cached_property
    def prices(self) -> Array:
        """What a unit of an entry of a face (m+1,) costs."""
        return np.append(np.full(self.X.shape[1], self.l1), 0.0)

    @cached_property
    def _plus(self) -> NDArray[np.bool_]:
        return self.y > 0

    @property
    def shape(self) -> tuple[int, int]:
        """(K, m+1)."""
        return self.owners.count, self.X.shape[1] + 1

    def scores(self, W: Array) -> Array:
        """w_k·x_i + b_k (n, K) of faces W (K, m+1), the bias last; 0 at rest."""
        return np.ascontiguousarray(scores(self.X, W))

    def penalty(self, W: Array) -> float:
        """What the faces cost."""
        return float(0.5 * (W * W).sum(axis=0) @ self.ridges) + self.price(W)

    def price(self, W: Array) -> float:
        """λ times the sizes of the weights, and τ times the lengths of their groups."""
        found = float(np.abs(W).sum(axis=0) @ self.prices)
        return found + self.group * float(self.face_price.lengths(W[:, :-1]).sum()) if self.group else found

    def value(self, W: Array, s: Array | None = None) -> float:
        """The objective itself, for the best assignment; `s` are the scores, where they are known."""
        loss, _, _ = pulled(
            self.scores(W) if s is None else s, self.c, self._plus, self.owners.first, 0.0, 0.0
        )
        return loss + self.penalty(W)

    def smooth(
        self, W: Array, own: float, other: float, s: Array | None = None
    ) -> tuple[float, Array, Array, Array]:
        """Loss and ridges with soft maxima, the slope (K, m+1), d loss/d s (n, K), and c σ(ξ) (n,).

        Parameters
        ----------
        W : ndarray of shape (K, m+1)
            Faces.
        own, other : float
            t of the maximum over a sample's own class and over the other; 0 for the maximum itself.
        s : ndarray of shape (n, K), optional
            The scores, where they are known.
        """
        loss, R, a = pulled(
            self.scores(W) if s is None else s, self.c, self._plus, self.owners.first, own, other
        )
        slope = pull(self.X, R) + self.ridges * W
        slope[~self.entries] = 0.0
        return loss + 0.5 * float((W * W).sum(axis=0) @ self.ridges), slope, R, a

    def probabilities(self, a: Array) -> Array:
        """σ(ξ) (n,) of c σ(ξ): of the other class; 0 for a sample without weight."""
        return np.divide(a, self.c, out=np.zeros_like(a), where=self.c > 0)

    def natural(self, W: Array, s: Array | None = None) -> Assignment:
        """Each sample's best face of its own class; `s` are the scores, where they are known."""
        return natural_assignment(self.y, self.scores(W) if s is None else s, self.owners)


def pulled(
    S: Array, c: Array, plus: NDArray[np.bool_], first: int, own: float, other: float
) -> tuple[float, Array, Array]:
    """Σ c ln(1 + e^ξ), its slope in the scores (n, K), and c σ(ξ) (n,).

    S (n, K): scores, those of the `first` faces of the class -1 first.
    c, plus (n,): weights, and whether a sample is of the class +1.
    first: how many faces the class -1 has, a face at rest counted.
    own, other: t of the maximum over a sample's own class and over the other; 0 for the maximum itself.
    """
    R, pulls = np.empty(S.shape), np.empty(len(c))
    return _score_loss(S, c, plus, first, own, other, R, pulls), R, pulls


def shares_of(R: Array, a: Array) -> Array:
    """D ξ/d s (n, K) of d loss/d s and c σ(ξ) (n,); 0 for a sample that no longer pays."""
    return np.divide(R, a[:, None], out=np.zeros_like(R), where=a[:, None] > 0)


def bound(problem: FaceLoss, W: Array, slope: Array, a: Array) -> float:
    """A bound, but for rounding, on the optimum for the assignment, from what :meth:`FaceLoss.smooth` gives.

    The slope of the smooth part is ρ w less the pulls of the multipliers alpha, which so are known from it.
    """
    pulls = problem.ridges * W - slope
    pulls[~problem.entries] = 0.0
    up, down = problem.thresholds
    shrunken = np.maximum(pulls - up, 0.0) + np.maximum(-pulls - down, 0.0)
    if problem.group > 0.0:
        shrunken[:, :-1] *= problem.face_price.shares(shrunken)
    p = problem.probabilities(a)
    entropy = float(problem.c @ (entr(p) + entr(1.0 - p)))
    return entropy - 0.5 * float((shrunken**2 / problem.ridges).sum())
