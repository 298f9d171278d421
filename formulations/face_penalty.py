"""A price on the weights of faces that makes them sparse, and signs that they must keep.

Problem
-------
A machine with faces W (K, m) and biases pays, besides what it pays without it,

    λ Σ_kj |W_kj| + τ Σ_l ‖(W_kj : k = 1..K, j in group l)‖,      σ_j W_kj ≥ 0.

The first term makes single weights zero. The second makes all weights of a group of features zero at
once, on all faces, so that few features are in use at all. Biases are free of both. A sign σ_j of +1 or -1
lets no face fall, or rise, with feature j; 0 leaves it free. The largest and the least of functions that do
not fall do not fall either, so the decision is monotone in that feature.

What it makes of a dual
-----------------------
Every machine here has the squared length of its faces as well, a ‖W‖² with a > 0 (1 for the Convex Polytope
Machine, ρ/2 where there is a ridge ρ). Its dual then has −1/(4a) ‖V‖² with the pulls V = Σ_i α_ik y_i x̃_i.
With the price that becomes −1/(4a) ‖shrunk V‖², where each pull

1. goes λ towards 0, and becomes 0 where it is nearer than that, or where its sign is not allowed;
2. is then shrunk with its group: by the factor 1 − τ/‖group‖, or to 0 where the group is shorter than τ.

The faces are W = shrunk V / (2a): with zeros that are exact, and not the small numbers of a solver. It is the
proximal map of the sparse group lasso (Simon, Friedman, Hastie & Tibshirani, A Sparse-Group Lasso, 2013) with
one-sided thresholds. V ↦ shrunk V is a projection's complement: it is Lipschitz with the constant 1.

Example
-------
>>> import numpy as np
>>> from formulations.face_penalty import FacePenalty
>>> penalty = FacePenalty.of(3, l1=1.0, signs={1: +1})
>>> penalty.shrunk(np.array([[3.0, -4.0, 0.5, 7.0]]))  # the bias last
array([[2., 0., 0., 7.]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import at_least, whole
from formulations.language.types import Vector


@dataclass(frozen=True, eq=False)
class FacePenalty:
    """Penalty and sign constraints of the weights of faces; made by :meth:`of`, which checks them."""

    l1: float  # λ ≥ 0, the penalty on Σ |W_kj|
    group: float  # τ ≥ 0, the penalty on the norms of the groups' weights over all faces
    # σ (m,): +1 for weights ≥ 0, -1 for weights ≤ 0, 0 for free weights
    signs: NDArray[np.int64] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)  # (m,): group of each feature, from 0

    @staticmethod
    def of(
        n_features: int, *, l1: float = 0.0, group: float = 0.0,
        signs: Mapping[int, int] | ArrayLike | None = None, groups: ArrayLike | None = None,
    ) -> FacePenalty:  # fmt: skip
        """Return a penalty on the faces of so many features."""
        m = whole("n_features", n_features, 0)
        return FacePenalty(
            at_least("l1", l1, 0.0), at_least("group", group, 0.0), _signs(signs, m), _groups(groups, m)
        )

    @property
    def n_features(self) -> int:
        """The number of features, m."""
        return len(self.signs)

    def checked(self, n_features: int) -> FacePenalty:
        """Return the same, refused where the features are not as many."""
        if self.n_features != n_features:
            raise ValueError(f"penalty must be for {n_features} features, not {self.n_features}")
        return self

    def of_features(self, used: NDArray[np.int64]) -> FacePenalty:
        """Return the price of some of the features, by their numbers."""
        own = np.unique(self.groups[used], return_inverse=True)[1]
        return FacePenalty(self.l1, self.group, self.signs[used], own.astype(np.int64))

    @property
    def is_absent(self) -> bool:
        """True if nothing is priced and no sign is asked."""
        return self.l1 == 0.0 and self.group == 0.0 and not self.signs.any()

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def thresholds(self) -> tuple[Vector, Vector]:
        """First losses of a positive and of a negative pull, (m,) each; infinite if the sign forbids it."""
        up = np.where(self.signs < 0, np.inf, self.l1)
        return up, np.where(self.signs > 0, np.inf, self.l1)

    def value(self, W: Vector) -> float:
        """Return the price of some faces (K, m+1), the bias last; signs are not looked at."""
        faces = W[:, :-1]
        return float(self.l1 * np.abs(faces).sum() + self.group * self.lengths(faces).sum())

    def lengths(self, faces: Vector) -> Vector:
        """Return the length of each group, shape (groups,), of weights or pulls (K, m) without biases."""
        squares = np.bincount(self.groups, (faces * faces).sum(axis=0), minlength=self.n_groups)
        return np.asarray(np.sqrt(squares))

    def cut(self, V: Vector) -> Vector:
        """Soft-threshold the gradients (K, m+1) by λ, with 0 for weights of a forbidden sign: step 1."""
        up, down = self.thresholds
        faces = np.maximum(V[:, :-1] - up, 0.0) - np.maximum(-V[:, :-1] - down, 0.0)
        return np.column_stack([faces, V[:, -1:]])

    def shares(self, cut: Vector) -> Vector:
        """Shares of the features left by the second step, (m,) from 0 to 1, for pulls after the first."""
        if self.group == 0.0:
            return np.ones(self.n_features)
        lengths = self.lengths(cut[:, :-1])
        left = np.maximum(lengths - self.group, 0.0)
        return np.asarray(np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0)[self.groups])

    def shrunk(self, V: Vector) -> Vector:
        """Both steps of pulls (K, m+1); half of it are the faces of the Convex Polytope Machine."""
        cut = self.cut(V)
        cut[:, :-1] *= self.shares(cut)
        return cut

    def held(self, V: Vector) -> tuple[Vector, Vector, Vector]:
        """Return the best r, q and δ of the dual's rows, (K, m) each, for pulls (K, m+1).

        What is left of a pull is V − r − q + σδ, which is :meth:`shrunk`.
        """
        cut, left = self.cut(V)[:, :-1], self.shrunk(V)[:, :-1]
        r = np.clip(V[:, :-1], -self.l1, self.l1)
        return r, cut - left, np.where(self.signs == 0, 0.0, np.abs(V[:, :-1] - r - cut))

    def allowed(self, W: Vector) -> Vector:
        """Return the faces (K, m+1) with 0 where the sign is not allowed."""
        weights = W[:, :-1]
        return np.column_stack([np.where(self.signs * weights < 0, 0.0, weights), W[:, -1:]])

    def features(self, W: Vector) -> NDArray[np.int64]:
        """Return the features that some face (K, m or m+1) uses, in order."""
        return np.flatnonzero((W[:, : self.n_features] != 0).any(axis=0))


def _signs(signs: Mapping[int, int] | ArrayLike | None, m: int) -> NDArray[np.int64]:
    found = np.zeros(m, dtype=np.int64)
    if signs is None:
        return found
    if isinstance(signs, Mapping):
        for feature, sign in signs.items():
            found[_feature("signs", feature, m)] = _sign(sign)
        return found
    given: Any = np.asarray(signs, dtype=object)
    if given.shape != (m,):
        raise ValueError(f"signs must name features, or have one entry for each of the {m}, not {signs!r}")
    return np.array([_sign(sign) for sign in given], dtype=np.int64)


def _sign(sign: object) -> int:
    if isinstance(sign, int | float | np.number) and sign in (-1, 0, 1):
        return int(sign)
    raise ValueError(f"signs must be -1, 0 or +1, not {sign!r}")


def _feature(name: str, feature: object, m: int) -> int:
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < m:
        return int(feature)
    raise ValueError(f"{name} must name features from 0 to {m - 1}, not {feature!r}")


def _groups(groups: ArrayLike | None, m: int) -> NDArray[np.int64]:
    if groups is None:
        return np.arange(m)
    parts: Any = list(groups) if isinstance(groups, Sequence | np.ndarray) else groups
    if not isinstance(parts, list):
        raise ValueError(f"groups must be a label for each feature, or lists of features, not {groups!r}")
    if not any(isinstance(part, Sequence | np.ndarray) and not isinstance(part, str) for part in parts):
        if len(parts) != m:
            raise ValueError(f"groups must have a label for each of the {m} features, not {len(parts)}")
        labels = list(dict.fromkeys(parts))
        return np.array([labels.index(label) for label in parts], dtype=np.int64)
    found = np.full(m, -1, dtype=np.int64)
    for number, part in enumerate(parts):
        if not isinstance(part, Sequence | np.ndarray) or isinstance(part, str) or not len(part):
            raise ValueError(f"groups must be lists of features, none of them empty, not {part!r}")
        for feature in part:
            place = _feature("groups", feature, m)
            if found[place] >= 0:
                raise ValueError(f"groups must not share features, but feature {place} is in two")
            found[place] = number
    alone = np.flatnonzero(found < 0)
    found[alone] = len(parts) + np.arange(len(alone))
    return found
