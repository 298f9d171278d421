"""The model of an explanation: polytopes that decide together, columns of the data, and two labels.

The formatting of the texts is here too: numbers, labels, names and lines of at most 80 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array
from polyopt.base.text import first_of, visible
from polyopt.polytope import Polytope
from polyopt.polytope.region import Region

LINE_WIDTH = 80
"""Columns of a line, at most."""
NAME_WIDTH = 26
"""Letters of a column's name in a table."""


def number(value: float | str | None) -> str:
    """Return a number or a text for a table; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value, 12)
    return f"{value:.4g}" if value else "0"


def named(label: object) -> str:
    """Return a label between quotation marks."""
    return f"'{visible(str(label))}'"


def others(count: int) -> str:
    """Return the number of others, in words."""
    return f"{count} other{'s' if count > 1 else ''}"


def cut(text: str, most: int = NAME_WIDTH) -> str:
    """Return a name that fits into its column of a table."""
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def wrapped(text: str) -> list[str]:
    """Return a text in lines."""
    return textwrap.wrap(text, LINE_WIDTH, break_on_hyphens=False)


@dataclass(frozen=True)
class Column:
    """A column of the data.

    Attributes
    ----------
    name : str
        Its name.
    places : tuple of int
        The features that it has become: itself, or an indicator for each of its texts; and the mark of a gap.
    texts : tuple of str or None
        The texts; None for a number.
    gap : int, optional
        Of a number, the feature that is 1 where it is missing, if there is one.
    """

    name: str
    places: tuple[int, ...]
    texts: tuple[str, ...] | None = None
    gap: int | None = None

    def value(self, x: Array) -> float | str:
        """Return the value of the column in a sample x (m,).

        ``(none)`` is a text that the fit did not see, ``(missing)`` a number that is not there.
        """
        if self.gap is not None and x[self.gap]:
            return "(missing)"
        if self.texts is None:
            return float(x[self.places[0]])
        own = x[list(self.places)]
        return self.texts[int(own.argmax())] if own.any() else "(none)"


@dataclass(frozen=True)
class Answer:
    """The face that answers for a sample; of two polytopes, a face of each.

    name: piece and face; where two polytopes decide by their difference, the face of either.
    w, b (m,): its score is w·x + b, positive where the label is the second.
    """

    name: tuple[int, int]
    w: Array
    b: float


@dataclass(frozen=True)
class Subject:
    """A model of two classes, in the units in which people read its features.

    Attributes
    ----------
    polytopes : tuple of Polytope
        One; or two that decide by the difference of their scores; or the pieces of a union.
    kind : {"polytope", "difference", "union"}
        Relation of the polytopes.
    labels : tuple
        The label where the score is negative, which is the inside, and the one where it is positive. A score
        of 0 is of ``classes_[0]``.
    predict : callable
        Labels of samples (n, m), by the model itself.
    columns : tuple of Column
        The columns of the data.
    decides : bool
        True if the model decides by these polytopes, and not by probabilities beside them.
    """

    polytopes: tuple[Polytope, ...]
    kind: Literal["polytope", "difference", "union"]
    labels: tuple[Any, Any]
    predict: Callable[[Array], NDArray[Any]]
    columns: tuple[Column, ...]
    decides: bool = True

    @property
    def n_features(self) -> int:
        """Features."""
        return self.polytopes[0].n_features

    @property
    def has_units(self) -> bool:
        """True if the standard deviation of each feature is known."""
        return self.polytopes[0].spread is not None

    @property
    def spread(self) -> Array:
        """Unit of each feature's changes (m,): its standard deviation, or 1 if that is not known."""
        found = self.polytopes[0].spread
        return np.ones(self.n_features) if found is None else found

    @property
    def centre(self) -> Array:
        """The mean sample (m,), or 0 if that is not known."""
        found = self.polytopes[0].centre
        return np.zeros(self.n_features) if found is None else found

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
        # A polytope without faces is everything: each of its scores is below any other.
        return self.combined([own.max(axis=1, initial=-np.inf) for own in self.face_scores(X)])

    def are_second(self, scores: Array | float) -> NDArray[np.bool_]:
        """Return the mask of scores of the second label, with 0 among them if the polytopes are open."""
        if self.kind == "difference":
            return np.greater(scores, 0.0)
        return self.polytopes[0].are_beyond(scores)

    def answering(self, X: Array) -> list[NDArray[np.intp]]:
        """Return the active face of each sample for each polytope, -1 if another polytope is active."""
        scores = self.face_scores(X)
        faces = [own.argmax(axis=1) for own in scores]
        if self.kind != "union":
            return faces
        piece = np.stack([own.max(axis=1) for own in scores]).argmin(axis=0)
        return [np.where(piece == d, own, -1) for d, own in enumerate(faces)]

    def answer(self, x: Array) -> Answer:
        """Return the active face of a sample."""
        faces = [int(own[0]) for own in self.answering(x[None])]
        if self.kind == "difference":
            (first, second), (k, other) = self.polytopes, faces
            return Answer((k, other), first.W[k] - second.W[other], float(first.b[k] - second.b[other]))
        [(piece, face)] = [(d, k) for d, k in enumerate(faces) if k >= 0]
        own = self.polytopes[piece]
        return Answer((piece, face), own.W[face], float(own.b[face]))

    def other_side(self, is_second: bool) -> Region:
        """Return the region of the other label than that of a sample, which is the second if `is_second`."""
        pieces = [(polytope.W, polytope.b) for polytope in self.polytopes]
        if self.kind == "difference":
            first, second = pieces
            return Region.above(second, first) if is_second else Region.above(first, second)
        return Region.inside(pieces) if is_second else Region.outside(pieces)

    def face_name(self, name: tuple[int, ...]) -> str:
        """Return a face in words."""
        first, second = name
        if self.kind == "difference":
            return f"face {first} against face {second} of the other polytope"
        return f"face {second}" if self.kind == "polytope" else f"face {second} of piece {first}"

    def places(self, names: Sequence[str | int]) -> NDArray[np.bool_]:
        """Return the mask (m,) of the features of columns, given by name or by a feature's place."""
        found, known = np.zeros(self.n_features, dtype=bool), {own.name: own for own in self.columns}
        for name in names:
            if isinstance(name, str) and name in known:
                found[list(known[name].places)] = True
            elif isinstance(name, (int, np.integer)) and 0 <= name < self.n_features:
                found[int(name)] = True
            else:
                raise ValueError(f"there is no feature {name!r} to hold; there are {first_of(list(known))}")
        return found


def columns_of(names: Sequence[str]) -> tuple[Column, ...]:
    """Columns that are features as they are."""
    return tuple(Column(name, (j,)) for j, name in enumerate(names))
