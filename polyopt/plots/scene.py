"""What the pictures of a polytope share: the polytope, the samples, and how faces and classes look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.plots.style import CLASSES, FACES
from polyopt.plots.subject import values_of
from polyopt.polytope import Polytope
from polyopt.text import in_picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.matrices import Array

__all__ = ["Scene"]

_FEATURES = 4  # shown where none are named: six panels
_LINES = ("-", "--", "-.", ":")  # of the faces, once their colours are used up


class Scene:
    """What all panels share: the polytope, the samples, names, and the side of each class."""

    def __init__(
        self,
        model: object,
        X: ArrayLike,
        y: ArrayLike,
        feature_names: Sequence[str] | None,
        class_names: Sequence[str] | None,
    ):
        self.polytope = _polytope_of(model)
        self.X, self.y = values_of(X, self.polytope.names), np.asarray(y)
        m = self.polytope.n_features
        if self.X.ndim != 2 or self.X.shape[1] != m:
            raise ValueError(f"X must be of shape (n, {m}) like the polytope, not {self.X.shape}")
        self.classes = np.unique(self.y)
        if len(self.classes) != 2:
            raise ValueError(f"y must be of two classes, not {len(self.classes)}")
        names = self.polytope.names if feature_names is None else feature_names
        self.names = [in_picture(str(name)) for name in names]
        self.class_names = [
            in_picture(str(c)) for c in (self.classes if class_names is None else class_names)
        ]
        self.spread = np.where(self.X.std(axis=0) > 0, self.X.std(axis=0), 1.0)
        outer = self._outer(model)
        self.outer_label, inner = self.classes[outer], 1 - outer
        self.inner_colour = CLASSES[inner][0]
        self.inner_name = self.class_names[inner]
        outside = self.X[~self.polytope.contains(self.X)]
        self.answers = np.bincount(self.polytope.active_face(outside), minlength=self.polytope.n_faces)

        # Faces that fell out of use take no colour from those that matter.
        self.live = np.flatnonzero((self.answers > 0) | ~self.polytope.redundant).tolist()
        if len(self.live) > len(FACES):  # colours of their own for those that answer for most
            self.live.sort(key=lambda k: -self.answers[k])

    def look(self, face: int) -> tuple[str, str]:
        """Colour and line of a face, the same in every panel."""
        place = self.live.index(face) if face in self.live else len(self.live)
        return FACES[place % len(FACES)], _LINES[place // len(FACES) % len(_LINES)]

    def _outer(self, model: object) -> int:
        """Place of the class outside: as the estimator says, or the one with the larger share there."""
        if hasattr(model, "outer_label_"):
            return int(np.argmax(self.classes == model.outer_label_))
        inside = self.polytope.contains(self.X)
        return int(np.argmin([inside[self.y == label].mean() for label in self.classes]))

    def pick(self, features: Sequence[int | str] | None) -> list[int]:
        """The chosen features by number, or those that weigh most."""
        if self.polytope.n_features < 2:
            raise ValueError("slices need two features, and the polytope has one")
        if features is None:
            weights = np.abs(self.polytope.W) * self.spread
            weights *= (self.answers / np.maximum(weights.sum(axis=1), np.finfo(float).tiny))[:, None]
            return sorted(np.argsort(-weights.sum(axis=0), kind="stable")[:_FEATURES].tolist())
        found = []
        for feature in features:
            if isinstance(feature, str) and feature not in self.names:
                raise ValueError(f"features has {feature!r}, which is none of {', '.join(self.names)}")
            number = self.names.index(feature) if isinstance(feature, str) else int(feature)
            if not 0 <= number < len(self.names):
                raise ValueError(f"features must be from 0 to {len(self.names) - 1}, not {number}")
            found.append(number)
        if len(found) < 2 or len(set(found)) < len(found):
            raise ValueError(f"features must be two or more different ones, not {list(features)!r}")
        return found

    def point(self, at: str | ArrayLike) -> Array:
        """Where the features are held that do not vary."""
        if not isinstance(at, str):
            point = np.asarray(at, dtype=float)
            if point.shape != (self.polytope.n_features,):
                raise ValueError(f"at must have {self.polytope.n_features} entries, not shape {point.shape}")
            return point
        if at == "chebyshev":
            counted = Polytope(self.polytope.W * self.spread, self.polytope.b)
            part = counted.within(self.X.min(axis=0) / self.spread, self.X.max(axis=0) / self.spread)
            if part.is_empty:
                raise ValueError("at='chebyshev' needs an inside within the range of the data: there is none")
            return part.chebyshev().centre * self.spread
        inside = self.polytope.contains(self.X)
        if at == "inside" and inside.any():
            return np.asarray(np.median(self.X[inside], axis=0))
        if at in ("inside", "median"):
            return np.asarray(np.median(self.X, axis=0))
        raise ValueError(f"at must be 'inside', 'median', 'chebyshev' or a point, not {at!r}")

    def limits(self, pair: tuple[int, int]) -> tuple[Array, Array]:
        """Lower left and upper right corner of a picture of two features."""
        mine = self.X[:, pair]
        low, high = mine.min(axis=0), mine.max(axis=0)
        pad = 0.06 * np.where(high > low, high - low, 1.0)
        return low - pad, high + pad


def _polytope_of(model: object) -> Polytope:
    if isinstance(model, Polytope):
        return model
    if hasattr(model, "polytope_"):
        return model.polytope_
    if not (hasattr(model, "W_") and hasattr(model, "b_")):
        raise ValueError(f"model must be a Polytope or a fitted binary estimator with faces, not {model!r}")
    return Polytope(model.W_, model.b_, getattr(model, "feature_names_in_", None))
