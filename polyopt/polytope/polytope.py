"""A convex polytope {x : W x + b ≤ 0}, as machines learn it: its points, size, corners and rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array
from formulations.language.types import Array, Matrix, MatrixLike, is_sparse
from polyopt.polytope.halfspaces import (
    Ball,
    bounding_box,
    inner_ball,
    is_bounded,
    redundant_faces,
    vertices_of,
    volume_of,
)
from polyopt.polytope.rules import as_json, rules_of, shortened_faces
from polyopt.polytope.sql import Label, Reading, as_sql


@dataclass(frozen=True, eq=False, repr=False)
class Polytope:
    """The set {x : W_k·x + b_k ≤ 0 for every face k}, or with < in place of ≤ if it is open.

    Outside of a closed polytope max_k (W_k·x + b_k) is positive, outside of an open one it is not negative.
    The polytope of a machine is closed if its inside is ``classes_[0]``, the class of a score of 0, and open
    if it is ``classes_[1]``. Corners, volume, largest ball and bounding box are those of the closure.

    Results of linear programs are computed at their first use and cached.
    ValueError: arrays that do not fit each other, or numbers that are not finite.
    """

    W: NDArray[np.float64]  #: (K, m), normals of the faces, pointing outside
    b: NDArray[np.float64]  #: (K,), offsets of the faces
    feature_names: tuple[str, ...] | None = None  #: names of the m features
    #: (m,), typical size of each feature in the data, such as its standard deviation; positive. It weighs the
    #: terms of a face.
    spread: NDArray[np.float64] | None = None
    #: (m,), typical value of each feature, such as its mean; features that a rule leaves out are set to it.
    centre: NDArray[np.float64] | None = None
    is_closed: bool = True  #: True if the points on the faces belong to the set
    digits: int = 4  #: significant digits of numbers in rules, by default

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
        """Return the polytope in x of faces W (K, m), b (K,) learnt on (x − mean) / scale.

        The scale (m,), positive and by default 1, is its ``spread``, and the mean (m,), by default 0, its
        ``centre``.
        """
        W = real_array("W", W)
        b = real_array("b", b, (len(W),))
        m = W.shape[1]
        shift = np.zeros(m) if mean is None else real_array("mean", mean, (m,))
        unit = np.ones(m) if scale is None else real_array("scale", scale, (m,))
        if np.any(unit <= 0):
            raise ValueError(f"scale must be positive; its least entry is {unit.min()!r}")
        spread = None if scale is None else unit
        centre = None if mean is None else shift
        return cls(W / unit, b - W @ (shift / unit), None, spread, centre)

    def within(self, low: ArrayLike, high: ArrayLike) -> Self:
        """Return the part within low ≤ x ≤ high, with 2m further faces."""
        m = self.n_features
        low, high = np.broadcast_to(low, m), np.broadcast_to(high, m)
        W, b = np.vstack([self.W, np.eye(m), -np.eye(m)]), np.concatenate([self.b, -high, low])
        return replace(self, W=W, b=b)

    def section(self, features: Sequence[int], at: ArrayLike) -> Self:
        """Return the slice over these features, in this order; the others are fixed `at` a point."""
        chosen = np.asarray(features, dtype=int)
        fixed = np.array(np.broadcast_to(at, self.n_features), dtype=float)
        fixed[chosen] = 0.0
        names = self.feature_names
        return replace(
            self,
            W=self.W[:, chosen],
            b=self.b + self.W @ fixed,
            feature_names=None if names is None else tuple(names[j] for j in chosen),
            spread=None if self.spread is None else self.spread[chosen],
            centre=None if self.centre is None else self.centre[chosen],
        )

    # -- points ------------------------------------------------------------------------------

    @property
    def n_faces(self) -> int:
        """Number K of the faces."""
        return len(self.W)

    @property
    def n_features(self) -> int:
        """Number m of the features."""
        return int(self.W.shape[1])

    def scores(self, X: MatrixLike) -> Array:
        """Return W_k·x + b_k (n, K) of points X (n, m): positive beyond the face; the largest is f(x)."""
        points: Matrix = X if is_sparse(X) else np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.n_features:
            raise ValueError(f"X must be of shape (n, {self.n_features}), not {points.shape}")
        return np.asarray(points @ self.W.T) + self.b

    def contains(self, X: MatrixLike) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points inside; a closed polytope contains its faces."""
        return np.asarray(~self.are_beyond(self.scores(X)).any(axis=1))

    def are_beyond(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return a mask of the scores beyond a face: those above 0, and also 0 if the polytope is open."""
        return np.asarray(np.greater(scores, 0) if self.is_closed else np.greater_equal(scores, 0))

    def active_face(self, X: MatrixLike) -> NDArray[np.intp]:
        """Return the face of the largest score of each point (n,)."""
        if not self.n_faces:
            raise ValueError("a polytope without faces has no active face")
        return np.asarray(np.argmax(self.scores(X), axis=1))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, or x0, x1, ..."""
        return self.feature_names or tuple(f"x{j}" for j in range(self.n_features))

    # -- the set --------------------------------------------------------------------------------

    def without_redundant(self) -> Self:
        """Return the same set without its redundant faces."""
        return replace(self, W=self.W[~self.redundant], b=self.b[~self.redundant])

    @cached_property
    def _offsets(self) -> Array:
        """Offsets b; a face 0·x + 0 < 0 of an open polytope, which no point satisfies, as 0·x + 1 ≤ 0."""
        return self.b if self.is_closed else np.where(self.W.any(axis=1) | (self.b != 0), self.b, 1.0)

    @cached_property
    def _ball(self) -> Ball:
        return inner_ball(self.W, self._offsets)

    @cached_property
    def redundant(self) -> NDArray[np.bool_]:
        """Mask (K,) of the faces that can be removed together without changing the set.

        The first of equal faces is not redundant. In an empty polytope the other faces contradict each
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
        """True if points are inside, but no ball: the set has no interior."""
        return self.is_closed and self._ball.radius == 0

    @cached_property
    def is_bounded(self) -> bool:
        """True if it fits into some box, as an empty polytope does."""
        return self.is_empty or is_bounded(self.W)

    def chebyshev(self) -> Ball:
        """Return the largest ball inside; ValueError if the polytope is empty."""
        self._require_points("largest ball")
        return self._ball

    def bounding_box(self) -> tuple[Array, Array]:
        """Return the lowest and highest value of each feature inside (m,), (m,), ±inf if unbounded.

        Raises ValueError if the polytope is empty.
        """
        self._require_points("bounding box")
        return bounding_box(self.W, self.b)

    @cached_property
    def _vertices(self) -> Array:
        faces = self.without_redundant()
        return vertices_of(faces.W, faces.b)

    def vertices(self) -> Array:
        """Return the corners (v, m): counter-clockwise in the plane, else in lexicographic order.

        Raises ValueError if the polytope is empty, flat or unbounded, has more than 8 features, or too many
        corners.
        """
        self._require_points("corners")
        if self.is_flat:
            raise ValueError("the polytope is flat, so that rounding decides its corners; its volume is 0")
        if not self.is_bounded:
            raise ValueError(
                "the polytope is unbounded, so that corners do not describe it; within(low, high) gives "
                "the part in a box"
            )
        return self._vertices.copy()

    def faces_of_vertices(self) -> NDArray[np.bool_]:
        """Return a mask (v, K) of the corners on each face, up to 1e-7 of the width along its normal."""
        scores = self.scores(self.vertices())
        width = scores.max(axis=0) - scores.min(axis=0)
        return np.asarray(np.abs(scores) <= 1e-7 * width)

    def volume(self) -> float:
        """Return the volume, in the product of the features' units: 0 if empty or flat, inf if unbounded.

        Raises ValueError for more than 8 features or too many corners, unless it is 0 or inf.
        """
        if self.is_empty or self.is_flat:
            return 0.0
        if not self.is_bounded:
            return float("inf")
        faces = self.without_redundant()
        return volume_of(faces.W, faces.b)

    def _require_points(self, what: str) -> None:
        if self.is_empty:
            blame = ", ".join(str(k) for k in np.flatnonzero(~self.redundant))
            raise ValueError(f"the polytope is empty and has no {what}: no point is inside of faces {blame}")

    # -- rules -------------------------------------------------------------------------------

    def rules(
        self, digits: int | None = None, max_terms: int | None = None, *, inside: str | None = None,
        outside: str | None = None,
    ) -> str:  # fmt: skip
        """Return the faces as text that reads as a classifier, one rule a face, its largest terms first.

        The weight of a term is |W_kj| times the feature's ``spread``, or times the width of the polytope if
        the spread is not known and the width is finite. Terms beyond `max_terms` are only counted. Numbers
        have so many significant `digits`, by default those of the polytope; `inside` and `outside` are names
        of the two classes.
        """
        return rules_of(self, self.digits if digits is None else digits, max_terms, inside, outside)

    def shortened(self, digits: int | None = None, max_terms: int | None = None) -> Self:
        """Return the polytope that :meth:`rules` with these arguments state; all digits by default.

        Coefficients are rounded as they are printed, and each feature that a face leaves out is set to its
        ``centre``, or to 0 if that is not known.
        """
        W, b = shortened_faces(self, digits, max_terms)
        return replace(self, W=W, b=b)

    def to_sql(self, inside: Label = "inside", outside: Label = "outside") -> str:
        """Return a CASE expression over quoted column names: a row's label, NULL if a value is missing.

        Raises ValueError if two features have one name, or SQL cannot hold a name.
        """
        columns = range(self.n_features)  # of numbers, one for each feature
        reading = Reading(self.names, [(j, None) for j in columns], [None for _ in columns])
        return as_sql([self], inside, outside, reading)

    def to_json(self, inside: Label = "inside", outside: Label = "outside") -> dict[str, Any]:
        """Return the faces for JSON: terms, limits, and which faces are redundant."""
        return as_json([self], inside, outside)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_faces} faces, {self.n_features} features)"

    def __str__(self) -> str:
        if self.is_empty:
            return f"{self!r}: empty"
        spare = int(self.redundant.sum())
        shape = "bounded" if self.is_bounded else "unbounded"
        return f"{self!r}: {shape}, {spare or 'no'} redundant; {self.chebyshev()}"


def _fixed(name: str, values: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
    """Return a read-only copy."""
    array = np.array(real_array(name, values, shape))
    array.flags.writeable = False
    return array
