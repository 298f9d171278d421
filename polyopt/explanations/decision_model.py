"""The decision model, the input of explanations: polytopes, columns of the data, and two labels.

A polytope has faces with scores w_k·x + b_k, and a sample is outside if the largest of them, that of its
active face, is positive. The first label is the inside. A column of the data is one feature, if it holds
numbers, or one indicator feature for each category.

The first section has the formatting of texts: numbers, labels, names, and lines of at most 80 characters.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array
from polyopt.base.text import cut_short, first_of, visible
from polyopt.polytope import Polytope
from polyopt.polytope.region import Region

LINE_WIDTH = 80
"""Largest number of characters in a line."""
NAME_WIDTH = 26
"""Number of characters of a column's name in a table."""


# -- formatting ------------------------------------------------------------------------------------------


def number(value: float | str | None) -> str:
    """Return a number or a text for a table; the empty text for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return shortened(value, 12)
    return f"{value:.4g}" if value else "0"


def quoted(label: object) -> str:
    """Return a label between quotation marks."""
    return f"'{visible(str(label))}'"


def others(count: int) -> str:
    """Return "1 other", "2 others" and so on."""
    return f"{count} other{'s' if count > 1 else ''}"


def shortened(text: str, width: int = NAME_WIDTH) -> str:
    """Return a text of at most `width` characters, without control characters."""
    return cut_short(visible(text), width)


def wrapped(text: str) -> list[str]:
    """Return a text as a list of lines."""
    return textwrap.wrap(text, LINE_WIDTH, break_on_hyphens=False)


# -- the model -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of the data, and the indices of its features."""

    name: str
    features: tuple[int, ...]  # one for a column of numbers, else an indicator for each category
    categories: tuple[str, ...] | None = None  # their names; None for a column of numbers
    missing: int | None = None  # index of the feature that is 1 if the number is missing

    def value(self, x: Array) -> float | str:
        """Return the value of the column in a sample x (m,).

        ``(none)`` is a category without samples in the fit, ``(missing)`` a missing number.
        """
        if self.missing is not None and x[self.missing]:
            return "(missing)"
        if self.categories is None:
            return float(x[self.features[0]])
        indicators = x[list(self.features)]
        return self.categories[int(indicators.argmax())] if indicators.any() else "(none)"


class ActiveFace(NamedTuple):
    """The face that determines the score w·x + b of a sample; for two polytopes a difference of two faces."""

    name: tuple[int, int]  # polytope and face; for a difference, the face of each polytope
    w: Array  # (m,)
    b: float


@dataclass(frozen=True)
class DecisionModel:
    """A model of two classes, with features in the units of the data.

    The score of a polytope is the largest score of its faces. The score of a sample depends on the kind:
    that of the single polytope; in a union the smallest score of the polytopes; or the difference of the
    scores of two polytopes. A positive score means the second label.
    """

    polytopes: tuple[Polytope, ...]
    kind: Literal["polytope", "difference", "union"]
    labels: tuple[Any, Any]  # of negative scores (the inside), and of positive scores
    predict: Callable[[Array], NDArray[Any]]  # labels of samples (n, m), by the classifier itself
    columns: tuple[Column, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.polytopes[0].n_features

    @property
    def has_units(self) -> bool:
        """True if the standard deviations of the features are known."""
        return self.polytopes[0].spread is not None

    @property
    def spread(self) -> Array:
        """Unit of changes of each feature (m,): its standard deviation, or 1 if these are not known."""
        spread = self.polytopes[0].spread
        return np.ones(self.n_features) if spread is None else spread

    @property
    def centre(self) -> Array:
        """The mean of the training samples (m,), or 0 if it is not known."""
        centre = self.polytopes[0].centre
        return np.zeros(self.n_features) if centre is None else centre

    def face_scores(self, X: Array) -> list[Array]:
        """Return the scores (n, K) of samples at the faces of each polytope."""
        return [polytope.scores(X) for polytope in self.polytopes]

    def combine_scores(self, scores: Sequence[Array]) -> Array:
        """Return the scores (n,) of samples from the scores (n,) of each polytope."""
        if self.kind == "difference":
            return np.asarray(scores[0] - scores[1])
        return np.min(np.stack(scores), axis=0)

    def scores(self, X: Array) -> Array:
        """Return the scores (n,) of samples, positive for the second label."""
        # A polytope without faces is the whole space, with the score -inf.
        return self.combine_scores([scores.max(axis=1, initial=-np.inf) for scores in self.face_scores(X)])

    def are_second(self, scores: Array | float) -> NDArray[np.bool_]:
        """Return the mask of the scores that mean the second label; 0 does if the polytopes are open sets."""
        if self.kind == "difference":
            return np.greater(scores, 0.0)
        return self.polytopes[0].are_beyond(scores)

    def active_faces(self, X: Array) -> list[NDArray[np.intp]]:
        """Return the active face of each sample in each polytope.

        In a union it is -1 except in the polytope with the smallest score.
        """
        scores = self.face_scores(X)
        faces = [polytope_scores.argmax(axis=1) for polytope_scores in scores]
        if self.kind != "union":
            return faces
        active = np.stack([polytope_scores.max(axis=1) for polytope_scores in scores]).argmin(axis=0)
        return [np.where(active == d, polytope_faces, -1) for d, polytope_faces in enumerate(faces)]

    def active_face(self, x: Array) -> ActiveFace:
        """Return the active face of a sample x (m,)."""
        faces = [int(face) for [face] in self.active_faces(x[None])]
        if self.kind == "difference":
            (first, second), (j, k) = self.polytopes, faces
            return ActiveFace((j, k), first.W[j] - second.W[k], float(first.b[j] - second.b[k]))
        [(d, k)] = [(d, k) for d, k in enumerate(faces) if k >= 0]
        polytope = self.polytopes[d]
        return ActiveFace((d, k), polytope.W[k], float(polytope.b[k]))

    def region_of_label(self, second: bool) -> Region:
        """Return the region of the second label, or of the first if `second` is False."""
        pieces = [(polytope.W, polytope.b) for polytope in self.polytopes]
        if self.kind == "difference":
            a, b = pieces
            return Region.above(a, b) if second else Region.above(b, a)
        return Region.outside(pieces) if second else Region.inside(pieces)

    def face_name(self, name: tuple[int, ...]) -> str:
        """Return a description of a face, given by the two numbers of ActiveFace.name."""
        first, second = name
        if self.kind == "difference":
            return f"face {first} against face {second} of the other polytope"
        return f"face {second}" if self.kind == "polytope" else f"face {second} of piece {first}"

    def mask_of(self, names: Sequence[str | int]) -> NDArray[np.bool_]:
        """Return the mask (m,) of the features of some columns, by name, or of single features by index."""
        mask = np.zeros(self.n_features, dtype=bool)
        columns = {column.name: column for column in self.columns}
        for name in names:
            if isinstance(name, str) and name in columns:
                mask[list(columns[name].features)] = True
            elif isinstance(name, (int, np.integer)) and 0 <= name < self.n_features:
                mask[int(name)] = True
            else:
                raise ValueError(f"there is no feature {name!r} to hold; there are {first_of(list(columns))}")
        return mask
