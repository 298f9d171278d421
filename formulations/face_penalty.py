"""A penalty on the weights of faces that makes them sparse, and sign constraints on them.

Problem
-------
The faces of a machine are K affine functions, with weights W (K, m) of the m features, and biases. Each
feature belongs to one group l. The objective has the additional terms, and the weights the constraints,

    λ Σ_kj |W_kj| + τ Σ_l ‖(W_kj : k = 1..K, j in group l)‖,      σ_j W_kj ≥ 0,

for λ, τ ≥ 0 and signs σ_j. The first term makes single weights zero. The second makes all weights of a group
zero, on all faces at once, so that the machine uses few features. Biases have no penalty. A sign σ_j = +1
requires that no face decreases with feature j, σ_j = −1 that no face increases; σ_j = 0 is no constraint. The
maximum and the minimum of nondecreasing functions are nondecreasing, so the decision is monotone in that
feature.

The dual
--------
Every machine here also has the squared norm of its faces, a ‖W‖² with a > 0 (1 for the Convex Polytope
Machine, ρ/2 for a ridge ρ). Without the penalty its dual has −1/(4a) ‖V‖². V has the rows
V_k = Σ_i α_ik y_i x̃_i, for multipliers α_ik of sample i's margin at face k and x̃_i = (x_i, 1); it is the
gradient of the loss in W with its sign changed. With the penalty the dual has −1/(4a) ‖shrunk V‖², where

1. each entry is soft-thresholded by λ, and becomes 0 if its sign is forbidden;
2. each group is then multiplied by 1 − τ/‖group‖, or becomes 0 if its norm is below τ.

The faces are W = shrunk V / (2a), with exact zeros. V ↦ shrunk V is the proximal map of the sparse group
lasso (Simon, Friedman, Hastie & Tibshirani, A Sparse-Group Lasso, 2013) with one-sided thresholds; it is V
less a projection of V, hence Lipschitz with the constant 1.

Example
-------
>>> import numpy as np
>>> from formulations.face_penalty import FacePenalty
>>> penalty = FacePenalty.of(3, l1=1.0, signs={1: +1})
>>> penalty.shrunk(np.array([[3.0, -4.0, 0.5, 7.0]]))  # the bias last
array([[2., 0., 0., 7.]])
"""

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
    ) -> "FacePenalty":  # fmt: skip
        """Check the numbers, and return a penalty for `n_features` features.

        `signs` has a sign for each feature, or maps features to signs. `groups` has a label for each feature,
        or lists of the features of one group; every other feature is then a group of its own.
        """
        m = whole("n_features", n_features, 0)
        return FacePenalty(
            at_least("l1", l1, 0.0), at_least("group", group, 0.0), _signs(signs, m), _groups(groups, m)
        )

    @property
    def n_features(self) -> int:
        """The number of features, m."""
        return len(self.signs)

    def checked(self, n_features: int) -> "FacePenalty":
        """Return the penalty itself; raise ValueError if it is for another number of features."""
        if self.n_features != n_features:
            raise ValueError(f"penalty must be for {n_features} features, not {self.n_features}")
        return self

    def of_features(self, used: NDArray[np.int64]) -> "FacePenalty":
        """Return the penalty restricted to some features, by their indices."""
        groups = np.unique(self.groups[used], return_inverse=True)[1]
        return FacePenalty(self.l1, self.group, self.signs[used], groups.astype(np.int64))

    @property
    def is_absent(self) -> bool:
        """True if there is neither a penalty nor a sign constraint."""
        return self.l1 == 0.0 and self.group == 0.0 and not self.signs.any()

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def thresholds(self) -> tuple[Vector, Vector]:
        """Thresholds (m,) of positive and of negative gradients; infinite for a forbidden sign."""
        return np.where(self.signs < 0, np.inf, self.l1), np.where(self.signs > 0, np.inf, self.l1)

    def value(self, W: Vector) -> float:
        """Return the penalty of faces W (K, m+1), the bias last; the sign constraints are ignored."""
        faces = W[:, :-1]
        return float(self.l1 * np.abs(faces).sum() + self.group * self.group_norms(faces).sum())

    def group_norms(self, faces: Vector) -> Vector:
        """Return the norms (L,) of the L groups, of weights or gradients `faces` (K, m) without biases."""
        squares = np.bincount(self.groups, (faces * faces).sum(axis=0), minlength=self.n_groups)
        return np.asarray(np.sqrt(squares))

    def soft_thresholded(self, V: Vector) -> Vector:
        """Return the gradients V (K, m+1) after step 1: soft-thresholded, 0 for a forbidden sign."""
        positive, negative = self.thresholds
        faces = np.maximum(V[:, :-1] - positive, 0.0) - np.maximum(-V[:, :-1] - negative, 0.0)
        return np.column_stack([faces, V[:, -1:]])

    def group_factors(self, thresholded: Vector) -> Vector:
        """Return the factors (m,) of step 2, from 0 to 1, for gradients after step 1."""
        if self.group == 0.0:
            return np.ones(self.n_features)
        norms = self.group_norms(thresholded[:, :-1])
        reduced = np.maximum(norms - self.group, 0.0)
        return np.asarray(np.divide(reduced, norms, out=np.zeros_like(reduced), where=norms > 0)[self.groups])

    def shrunk(self, V: Vector) -> Vector:
        """Return shrunk V: the gradients V (K, m+1) after both steps; W = shrunk V / 2 in the CPM."""
        gradients = self.soft_thresholded(V)
        gradients[:, :-1] *= self.group_factors(gradients)
        return gradients

    def dual_variables(self, V: Vector) -> tuple[Vector, Vector, Vector]:
        """Return the optimal r, q, δ of the dual, (K, m) each, with shrunk V = V − r − q + σδ.

        |r| ≤ λ is of the first penalty, q with group norms of at most τ of the second, δ ≥ 0 of the signs.
        """
        thresholded, shrunk = self.soft_thresholded(V)[:, :-1], self.shrunk(V)[:, :-1]
        r = np.clip(V[:, :-1], -self.l1, self.l1)
        delta = np.where(self.signs == 0, 0.0, np.abs(V[:, :-1] - r - thresholded))
        return r, thresholded - shrunk, delta

    def enforce_signs(self, W: Vector) -> Vector:
        """Return the faces W (K, m+1) with 0 for weights of a forbidden sign."""
        weights = W[:, :-1]
        return np.column_stack([np.where(self.signs * weights < 0, 0.0, weights), W[:, -1:]])

    def features(self, W: Vector) -> NDArray[np.int64]:
        """Return the indices of the features with a nonzero weight, for faces (K, m or m+1)."""
        return np.flatnonzero((W[:, : self.n_features] != 0).any(axis=0))


def _signs(signs: Mapping[int, int] | ArrayLike | None, m: int) -> NDArray[np.int64]:
    """Return σ (m,) from a sign for each feature, or from a mapping of features to signs."""
    sigma = np.zeros(m, dtype=np.int64)
    if signs is None:
        return sigma
    if not isinstance(signs, Mapping):
        values: Any = np.asarray(signs, dtype=object)
        if values.shape != (m,):
            raise ValueError(
                f"signs must name features, or have one entry for each of the {m}, not {signs!r}"
            )
        signs = dict(enumerate(values))
    for feature, sign in signs.items():
        if not (isinstance(sign, int | float | np.number) and sign in (-1, 0, 1)):
            raise ValueError(f"signs must be -1, 0 or +1, not {sign!r}")
        sigma[_feature("signs", feature, m)] = sign
    return sigma


def _feature(name: str, feature: object, m: int) -> int:
    """Return the index of a feature; raise ValueError, with the argument's `name`, if it is not one of m."""
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < m:
        return int(feature)
    raise ValueError(f"{name} must name features from 0 to {m - 1}, not {feature!r}")


def _groups(groups: ArrayLike | None, m: int) -> NDArray[np.int64]:
    """Return the group (m,) of each feature, for the argument `groups` of :meth:`FacePenalty.of`."""
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
    group_of = np.full(m, -1, dtype=np.int64)
    for number, part in enumerate(parts):
        if not isinstance(part, Sequence | np.ndarray) or isinstance(part, str) or not len(part):
            raise ValueError(f"groups must be lists of features, none of them empty, not {part!r}")
        for feature in part:
            j = _feature("groups", feature, m)
            if group_of[j] >= 0:
                raise ValueError(f"groups must not share features, but feature {j} is in two")
            group_of[j] = number
    ungrouped = np.flatnonzero(group_of < 0)
    group_of[ungrouped] = len(parts) + np.arange(len(ungrouped))
    return group_of
