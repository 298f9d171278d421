"""A model of two classes as explanations need it: polytopes, columns of the data, and two labels.

The formatting of the texts is here too: numbers, labels, names and lines of at most 80 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array
from polyopt.base.text import first_of, visible
from polyopt.polytope import Polytope
from polyopt.polytope.region import Region

LINE_WIDTH = 80
"""Largest number of characters in a line."""
NAME_WIDTH = 26
"""Number of characters of a column's name in a table."""


# -- formatting ------------------------------------------------------------------------------------------


def number(value: float | str | None) -> str:
    """Return a number or a text for a table; nothing for None."""
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
    printable = visible(text)
    return printable if len(printable) <= width else f"{printable[: width - 1]}…"


def wrapped(text: str) -> list[str]:
    """Return a text in lines."""
    return textwrap.wrap(text, LINE_WIDTH, break_on_hyphens=False)


# -- the model -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of the data, and the features that it has become."""

    name: str
    places: tuple[int, ...]  # indices of its features: a number itself, or an indicator for each category
    texts: tuple[str, ...] | None = None  # names of the categories; None for a number
    gap: int | None = None  # index of the feature that is 1 if the number is missing

    def value(self, x: Array) -> float | str:
        """Return the value of the column in a sample x (m,).

        ``(none)`` stands for a category that the fit did not see, ``(missing)`` for a missing number.
        """
        if self.gap is not None and x[self.gap]:
            return "(missing)"
        if self.texts is None:
            return float(x[self.places[0]])
        indicators = x[list(self.places)]
        return self.texts[int(indicators.argmax())] if indicators.any() else "(none)"


class ActiveFace(NamedTuple):
    """The face that determines a sample's score w·x + b; of two polytopes, the difference of two faces."""

    name: tuple[int, int]  # polytope and face; for a difference, the face of each polytope
    w: Array  # (m,)
    b: float


@dataclass(frozen=True)
class DecisionModel:
    """A model of two classes, in the units in which people read its features.

    The score of a sample is its largest face score, in a union the smallest of those of the polytopes; or
    the difference of those of two polytopes.
    """

    polytopes: tuple[Polytope, ...]
    kind: Literal["polytope", "difference", "union"]
    labels: tuple[Any, Any]  # those of negative scores, the inside, and of positive scores
    predict: Callable[[Array], NDArray[Any]]  # labels of samples (n, m), by the classifier itself
    columns: tuple[Column, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.polytopes[0].n_features

    @property
    def has_units(self) -> bool:
        """True if the standard deviation of each feature is known."""
        return self.polytopes[0].spread is not None

    @property
    def spread(self) -> Array:
        """Unit of each feature's changes (m,): its standard deviation, or 1 if that is not known."""
        spread = self.polytopes[0].spread
        return np.ones(self.n_features) if spread is None else spread

    @property
    def centre(self) -> Array:
        """The mean sample (m,), or 0 if that is not known."""
        centre = self.polytopes[0].centre
        return np.zeros(self.n_features) if centre is None else centre

    def face_scores(self, X: Array) -> list[Array]:
        """Return scores of samples at the faces (n, K) of each polytope."""
        return [polytope.scores(X) for polytope in self.polytopes]

    def combined(self, scores: Sequence[Array]) -> Array:
        """Return the score (n,) of samples from those of the polytopes, positive for the second label."""
        if self.kind == "difference":
            return np.asarray(scores[0] - scores[1])
        return np.min(np.stack(scores), axis=0)

    def scores(self, X: Array) -> Array:
        """Return the scores of samples, positive for the second label."""
        # A polytope without faces is the whole space, with the score -inf.
        return self.combined([scores.max(axis=1, initial=-np.inf) for scores in self.face_scores(X)])

    def are_second(self, scores: Array | float) -> NDArray[np.bool_]:
        """Return the mask of scores of the second label, with 0 among them if the polytopes are open."""
        if self.kind == "difference":
            return np.greater(scores, 0.0)
        return self.polytopes[0].are_beyond(scores)

    def active_faces(self, X: Array) -> list[NDArray[np.intp]]:
        """Return the active face of each sample for each polytope, -1 if another polytope is active."""
        scores = self.face_scores(X)
        faces = [each.argmax(axis=1) for each in scores]
        if self.kind != "union":
            return faces
        active = np.stack([each.max(axis=1) for each in scores]).argmin(axis=0)
        return [np.where(active == d, each, -1) for d, each in enumerate(faces)]

    def active_face(self, x: Array) -> ActiveFace:
        """Return the active face of a sample."""
        faces = [int(face) for [face] in self.active_faces(x[None])]
        if self.kind == "difference":
            (first, second), (j, k) = self.polytopes, faces
            return ActiveFace((j, k), first.W[j] - second.W[k], float(first.b[j] - second.b[k]))
        [(d, k)] = [(d, k) for d, k in enumerate(faces) if k >= 0]
        polytope = self.polytopes[d]
        return ActiveFace((d, k), polytope.W[k], float(polytope.b[k]))

    def region_of_label(self, second: bool) -> Region:
        """Return the region of the second label, or of the first."""
        pieces = [(polytope.W, polytope.b) for polytope in self.polytopes]
        if self.kind == "difference":
            a, b = pieces
            return Region.above(a, b) if second else Region.above(b, a)
        return Region.outside(pieces) if second else Region.inside(pieces)

    def face_name(self, name: tuple[int, ...]) -> str:
        """Return a face in words."""
        first, second = name
        if self.kind == "difference":
            return f"face {first} against face {second} of the other polytope"
        return f"face {second}" if self.kind == "polytope" else f"face {second} of piece {first}"

    def mask_of(self, names: Sequence[str | int]) -> NDArray[np.bool_]:
        """Return the mask (m,) of the features of columns, given by name or by a feature's index."""
        mask, columns = np.zeros(self.n_features, dtype=bool), {each.name: each for each in self.columns}
        for name in names:
            if isinstance(name, str) and name in columns:
                mask[list(columns[name].places)] = True
            elif isinstance(name, (int, np.integer)) and 0 <= name < self.n_features:
                mask[int(name)] = True
            else:
                raise ValueError(f"there is no feature {name!r} to hold; there are {first_of(list(columns))}")
        return mask


def columns_of(names: Sequence[str]) -> tuple[Column, ...]:
    """Return a column for each feature."""
    return tuple(Column(name, (j,)) for j, name in enumerate(names))
