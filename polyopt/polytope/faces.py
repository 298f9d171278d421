"""The set of points inside some faces, {x : W x + b ≤ 0}: its points, its size, its corners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array
from formulations.language.types import Array, Matrix, MatrixLike, is_sparse
from polyopt.polytope.halfspaces import (
    InnerBall,
    bounding_box,
    check_size,
    inner_ball,
    is_bounded,
    redundant_faces,
    vertices_of,
    volume_of,
)


@dataclass(frozen=True)
class Ball:
    """The largest ball inside a polytope.

    Attributes
    ----------
    centre : ndarray of shape (m,)
        Its centre, the Chebyshev centre; where the radius is inf, some point inside.
    radius : float
        Its radius in the units of x; 0 for a flat polytope, inf where balls of any size fit.
    """

    centre: NDArray[np.float64]
    radius: float

    def __str__(self) -> str:
        if np.isinf(self.radius):
            return "balls of any size fit inside; the centre is only some point inside"
        if not self.radius:
            return "the polytope is flat: no ball fits inside; the centre is a point of it"
        return f"the largest ball inside has radius {self.radius:.6g}"


@dataclass(frozen=True, eq=False, repr=False)
class Faces:
    """The set {x : W x + b ≤ 0}; parameters as of :class:`polyopt.polytope.Polytope`."""

    W: NDArray[np.float64]
    b: NDArray[np.float64]
    feature_names: tuple[str, ...] | None = None
    spread: NDArray[np.float64] | None = None
    centre: NDArray[np.float64] | None = None
    is_closed: bool = True

    def __post_init__(self) -> None:
        W = _fixed("W", self.W)
        if W.ndim != 2 or W.shape[1] == 0:
            raise ValueError(
                f"W must have 2 dimensions and at least one column, a feature; its shape is {W.shape}"
            )
        K, m = W.shape
        fixed: dict[str, object] = {"W": W, "b": _fixed("b", self.b, (K,))}
        if self.feature_names is not None:
            fixed["feature_names"] = names = tuple(str(name) for name in self.feature_names)
            if len(names) != m:
                raise ValueError(f"feature_names must name the {m} columns of W, not {len(names)}")
        for name, values in (("spread", self.spread), ("centre", self.centre)):
            if values is not None:
                fixed[name] = array = _fixed(name, values, (m,))
                if name == "spread" and np.any(array <= 0):
                    raise ValueError(f"spread must be positive; its least entry is {array.min()!r}")
        for name, value in fixed.items():
            object.__setattr__(self, name, value)

    # -- making one --------------------------------------------------------------------------

    @classmethod
    def from_scaled(cls, W: ArrayLike, b: ArrayLike, mean: ArrayLike | None, scale: ArrayLike | None) -> Self:
        """The polytope in x of faces W (K, m), b (K,) learnt on (x − mean) / scale.

        Its ``spread`` is the scale (m,), positive, by default 1; its ``centre`` the mean (m,), by default 0.
        """
        W = real_array("W", W)
        b, m = real_array("b", b, (len(W),)), W.shape[1]
        shift = np.zeros(m) if mean is None else real_array("mean", mean, (m,))
        unit = np.ones(m) if scale is None else real_array("scale", scale, (m,))
        if np.any(unit <= 0):
            raise ValueError(f"scale must be positive; its least entry is {unit.min()!r}")
        spread, centre = None if scale is None else unit, None if mean is None else shift
        return cls(W / unit, b - W @ (shift / unit), None, spread, centre)

    def within(self, low: ArrayLike, high: ArrayLike) -> Self:
        """The part within low ≤ x ≤ high, as 2m further faces."""
        m = self.n_features
        low, high = np.broadcast_to(low, m), np.broadcast_to(high, m)
        return self._with(np.vstack([self.W, np.eye(m), -np.eye(m)]), np.concatenate([self.b, -high, low]))

    def section(self, features: Sequence[int], at: ArrayLike) -> Self:
        """The slice in which only these features vary, in this order; the others are held `at` a point."""
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
        """W_k·x + b_k (n, K) of points X (n, m): positive beyond the face; the largest is f(x)."""
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
        """The face of the largest score of each point (n,)."""
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

    # -- the set --------------------------------------------------------------------------------

    def without_redundant(self) -> Self:
        """The same set without its redundant faces."""
        return self._with(self.W[~self.redundant], self.b[~self.redundant])

    @cached_property
    def _offsets(self) -> Array:
        """The offsets b; a face 0·x + 0 < 0 of an open polytope, which holds nowhere, as 0·x + 1 ≤ 0."""
        return self.b if self.is_closed else np.where(self.W.any(axis=1) | (self.b != 0), self.b, 1.0)

    @cached_property
    def _ball(self) -> InnerBall:
        return inner_ball(self.W, self._offsets)

    @cached_property
    def redundant(self) -> NDArray[np.bool_]:
        """Mask (K,) of the faces without all of which the set is the same.

        Of equal faces the first is not redundant. In an empty polytope the faces kept contradict each
        other, and no proper subset of them does.
        """
        found = redundant_faces(self.W, self._offsets)
        found.flags.writeable = False
        return found

    @property
    def is_empty(self) -> bool:
        """True if no point is inside."""
        return bool(self.are_beyond(-self._ball.radius))

    @property
    def is_flat(self) -> bool:
        """True if points are inside, but no ball: the faces leave no room in some direction."""
        return self.is_closed and self._ball.radius == 0

    @cached_property
    def is_bounded(self) -> bool:
        """True if it fits into some box, as an empty polytope does."""
        return self.is_empty or is_bounded(self.W)

    def chebyshev(self) -> Ball:
        """The largest ball inside.

        Raises
        ------
        ValueError
            The polytope is empty.
        """
        self._require_points("largest ball")
        return Ball(self._ball.centre, self._ball.radius)

    def bounding_box(self) -> tuple[Array, Array]:
        """Lowest and highest value of each feature inside (m,), (m,); ±inf where there is none.

        Raises
        ------
        ValueError
            The polytope is empty.
        """
        self._require_points("bounding box")
        return bounding_box(self.W, self.b)

    @cached_property
    def _vertices(self) -> Array:
        faces = self.without_redundant()
        check_size(faces.n_faces, faces.n_features)
        return vertices_of(faces.W, faces.b)

    def vertices(self) -> Array:
        """The corners (v, m): counter-clockwise in the plane, else in lexicographic order.

        Raises
        ------
        ValueError
            The polytope is empty, flat or unbounded, has more than 8 features, or too many corners.
        """
        self._require_points("corners")
        if self.is_flat:
            raise ValueError("the polytope is flat, which leaves its corners to rounding; its volume is 0")
        if not self.is_bounded:
            raise ValueError(
                "the polytope is unbounded, so that corners do not describe it; within(low, high) gives "
                "the part in a box"
            )
        return self._vertices.copy()

    def faces_of_vertices(self) -> NDArray[np.bool_]:
        """Mask (v, K) of the corners on each face, up to 1e-7 of the polytope's width along its normal."""
        scores = self.scores(self.vertices())
        width = scores.max(axis=0) - scores.min(axis=0)
        return np.asarray(np.abs(scores) <= 1e-7 * width)

    def volume(self) -> float:
        """The volume, in the product of the features' units: 0 if empty or flat, inf if unbounded.

        Raises
        ------
        ValueError
            Bounded, with an interior, but of more than 8 features or with too many corners.
        """
        if self.is_empty or self.is_flat:
            return 0.0
        if not self.is_bounded:
            return float("inf")
        faces = self.without_redundant()
        check_size(faces.n_faces, faces.n_features)
        return volume_of(faces.W, faces.b)

    def _require_points(self, what: str) -> None:
        if self.is_empty:
            blame = ", ".join(str(k) for k in np.flatnonzero(~self.redundant))
            raise ValueError(f"the polytope is empty and has no {what}: no point is inside of faces {blame}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_faces} faces, {self.n_features} features)"

    def __str__(self) -> str:
        if self.is_empty:
            return f"{self!r}: empty"
        spare = int(self.redundant.sum())
        shape = "bounded" if self.is_bounded else "unbounded"
        return f"{self!r}: {shape}, {spare or 'no'} redundant; {self.chebyshev()}"


def _fixed(name: str, values: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
    """A read-only copy."""
    array = np.array(real_array(name, values, shape))
    array.flags.writeable = False
    return array
