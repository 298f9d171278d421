"""The faces of a polytope, {x : W_k·x + b_k = 0}: in the units of the data, and the side of a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from formulations.matrices import is_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array, Matrix, MatrixLike

__all__ = ["Faces"]


@dataclass(frozen=True, eq=False, repr=False)
class Faces:
    """K hyperplanes and their sides, as :class:`~polyopt.polytope.Polytope` documents them."""

    W: NDArray[np.float64]
    b: NDArray[np.float64]
    feature_names: tuple[str, ...] | None = None
    spread: NDArray[np.float64] | None = None
    centre: NDArray[np.float64] | None = None
    is_closed: bool = True

    def __post_init__(self) -> None:
        W = _fixed("W", self.W, 2)
        if W.shape[1] == 0:
            raise ValueError(f"W must have at least one column, a feature; its shape is {W.shape}")
        object.__setattr__(self, "W", W)
        object.__setattr__(self, "b", _fixed("b", self.b, 1))
        if len(self.b) != len(W):
            raise ValueError(f"b must have one entry for each of the {len(W)} rows of W, not {len(self.b)}")
        if self.feature_names is not None:
            names = tuple(str(name) for name in self.feature_names)
            if len(names) != W.shape[1]:
                raise ValueError(f"feature_names must name the {W.shape[1]} columns of W, not {len(names)}")
            object.__setattr__(self, "feature_names", names)
        if self.spread is not None:
            spread = _fixed("spread", self.spread, 1)
            if spread.shape != W.shape[1:] or np.any(spread <= 0):
                raise ValueError(f"spread must be {W.shape[1]} positive numbers, not {self.spread!r}")
            object.__setattr__(self, "spread", spread)
        if self.centre is not None:
            centre = _fixed("centre", self.centre, 1)
            if centre.shape != W.shape[1:]:
                raise ValueError(f"centre must be {W.shape[1]} numbers, not {self.centre!r}")
            object.__setattr__(self, "centre", centre)

    # -- making one --------------------------------------------------------------------------

    @classmethod
    def from_scaled(
        cls,
        W: ArrayLike,
        b: ArrayLike,
        mean: ArrayLike | None,
        scale: ArrayLike | None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """The polytope in x of faces learnt on (x − mean) / scale.

        Its ``spread`` is the scale, and its ``centre`` the mean.

        W (K, m): normals.
        b (K,): offsets.
        mean (m,): what was taken from each feature; by default nothing.
        scale (m,): what each feature was then divided by, positive; by default 1.
        feature_names: names of the features.
        """
        W, b = _fixed("W", W, 2), _fixed("b", b, 1)
        m = W.shape[1]
        shift = np.zeros(m) if mean is None else _fixed("mean", mean, 1)
        unit = np.ones(m) if scale is None else _fixed("scale", scale, 1)
        for name, array in (("mean", shift), ("scale", unit)):
            if array.shape != (m,):
                raise ValueError(f"{name} must have {m} entries, one per column of W, not {array.shape}")
        if np.any(unit <= 0):
            raise ValueError(f"scale must be positive; its least entry is {unit.min()!r}")
        names = None if feature_names is None else tuple(feature_names)
        spread, centre = None if scale is None else unit, None if mean is None else shift
        return cls(W / unit, b - W @ (shift / unit), names, spread, centre)

    def within(self, low: ArrayLike, high: ArrayLike) -> Self:
        """The part within low ≤ x ≤ high, as 2m further faces.

        low, high (m,): the box.
        """
        m = self.n_features
        low, high = np.broadcast_to(low, m), np.broadcast_to(high, m)
        return self._with(np.vstack([self.W, np.eye(m), -np.eye(m)]), np.concatenate([self.b, -high, low]))

    def section(self, features: Sequence[int], at: ArrayLike) -> Self:
        """The slice in which only some features vary, the others held at a point.

        features: the features that vary, in the order wanted.
        at (m,): the point; its entries at ``features`` are ignored.
        """
        chosen = np.asarray(features, dtype=int)
        held = np.array(np.broadcast_to(at, self.n_features), dtype=float)
        held[chosen] = 0.0
        names = None if self.feature_names is None else tuple(self.feature_names[j] for j in chosen)
        spread = None if self.spread is None else self.spread[chosen]
        centre = None if self.centre is None else self.centre[chosen]
        return type(self)(self.W[:, chosen], self.b + self.W @ held, names, spread, centre, self.is_closed)

    def _with(self, W: Array, b: Array) -> Self:
        return replace(self, W=W, b=b)

    # -- points ------------------------------------------------------------------------------

    @property
    def n_faces(self) -> int:
        """K."""
        return len(self.W)

    @property
    def n_features(self) -> int:
        """The number of features, m."""
        return int(self.W.shape[1])

    def scores(self, X: MatrixLike) -> Array:
        """W_k·x + b_k (n, K): positive beyond the face; their largest is the machine's f(x).

        X (n, m): points.
        """
        points: Matrix = X if is_sparse(X) else np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.n_features:
            raise ValueError(f"X must be of shape (n, {self.n_features}), not {points.shape}")
        return np.asarray(points @ self.W.T) + self.b

    def contains(self, X: MatrixLike) -> NDArray[np.bool_]:
        """Mask (n,) of the points inside; a closed polytope contains its faces."""
        return np.asarray(~self.are_beyond(self.scores(X)).any(axis=1))

    def are_beyond(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Mask of the scores of points beyond a face: above 0, and also 0 if the polytope is open."""
        return np.asarray(np.greater(scores, 0) if self.is_closed else np.greater_equal(scores, 0))

    def active_face(self, X: MatrixLike) -> NDArray[np.intp]:
        """The face that answers for each point (n,): the one of the largest score."""
        if not self.n_faces:
            raise ValueError("a polytope without faces has none that answers")
        return np.asarray(np.argmax(self.scores(X), axis=1))

    def distances(self, X: MatrixLike) -> Array:
        """Distance of each point to each face's hyperplane (n, K), positive beyond it, in units of x.

        A face without a normal is infinitely far: inf if it shuts everything out, else −inf.
        """
        scores, zero = self.scores(X), self._norms == 0
        far = np.where(self.are_beyond(scores[:, zero]), np.inf, -np.inf)
        scores /= np.where(zero, 1.0, self._norms)
        scores[:, zero] = far
        return scores

    @property
    def outside_sign(self) -> str:
        """The sign between the terms of a face and its limit if a point is outside: ``>`` or ``>=``."""
        return ">" if self.is_closed else ">="

    @property
    def inside_sign(self) -> str:
        """The sign between the terms of a face and its limit if a point is inside: ``<=`` or ``<``."""
        return "<=" if self.is_closed else "<"

    @cached_property
    def _norms(self) -> Array:
        return np.asarray(np.linalg.norm(self.W, axis=1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, or x0, x1, ..."""
        return self.feature_names or tuple(f"x{j}" for j in range(self.n_features))


def _fixed(name: str, values: ArrayLike, dimensions: int) -> Array:
    """A copy that nobody can write to."""
    array = np.array(values, dtype=float)
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s), not shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, but has nan or inf")
    array.flags.writeable = False
    return array
