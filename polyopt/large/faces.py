"""What a block of samples has to do with the faces of a Convex Polytope Machine.

An assignment is not stored: it is given by some faces, each positive being on the one with its highest
score. Whoever needs it makes it anew from these, by the same products of the same rows, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.certificates.tally import Tally, together
from polyopt.large import checkpoint as files
from polyopt.large.parts import ROWS_AT_ONCE, Costed, Hinge, SomeRows, costed, rows_of
from polyopt.margin.interior_point.block import Block
from polyopt.margin.interior_point.crew import total
from polyopt.margin.interior_point.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix
    from polyopt.large.sources import Samples
    from polyopt.margin.interior_point.block import Work
    from polyopt.margin.interior_point.crew import Crew

    Vector = NDArray[np.float64]

__all__ = ["GAIN", "FaceRecipe", "FacesBlock", "FacesRecipe", "Sizes", "about_faces", "scaled", "sizes_of"]

GAIN = 1e-7
"""A hinge must fall by more than this for a positive to change its face."""


class Sizes(NamedTuple):
    """How many samples are inside and outside, what they cost, the sums of features, the largest entry."""

    inside: int
    outside: int
    costs: float
    features: Vector
    largest: float


def sizes_of(crew: Crew) -> Sizes:
    """The sizes of all blocks together."""
    found: list[Sizes] = crew.ask("facts")
    return Sizes(
        sum(each.inside for each in found),
        sum(each.outside for each in found),
        float(total([each.costs for each in found])),
        total([each.features for each in found]),
        max(each.largest for each in found),
    )


def about_faces(
    crew: Crew, recipe: FacesRecipe, sizes: Sizes, n_faces: int, solver: str, scale: float
) -> dict[str, Any]:
    """What a checkpoint of faces must be of, to be gone on from."""
    met = together(crew.ask("weigh", None, files.probe(1, len(sizes.features) + 1)))
    paid = float(met.sums["inside"]) - 2.0 * float(met.sums["best"])
    known = sizes.features.tobytes() + sizes.costs.hex().encode() + paid.hex().encode()
    return {
        "machine": "the Convex Polytope Machine",
        "faces": n_faces,
        "samples": sizes.inside + sizes.outside,
        "outside": sizes.outside,
        "features": len(sizes.features),
        "blocks": crew.count,
        "C": recipe.C,
        "solver": solver,
        "scale": float(scale),
        "digest": sha256(known).hexdigest()[:16],
    }


def scaled(faces: Vector, scale: float) -> Vector:
    """Faces (K, m+1) for samples as they stand, of which every entry counts `scale` times."""
    return faces if scale == 1.0 else np.column_stack([scale * faces[:, :-1], faces[:, -1]])


class _Held:
    """The samples of a block, while they are in memory."""

    def __init__(self, X: Any):
        self.X = X


class FacesBlock:
    """Some of the samples, asked about faces V (K, m+1), the bias of each last.

    found: which of the samples that were read X (n, m) has, and who is outside.
    C: the cost of slack of a weight of 1.
    """

    done = 0
    answer: object = None

    def __init__(self, X: Matrix | SomeRows, found: Costed, C: float):
        self.samples, self._up = _Held(X), found.up
        self.chosen = None if found.chosen.all() else found.chosen
        costs = C * found.counts
        alike = bool((costs == costs[0]).all())
        self._costs = np.broadcast_to(costs[:1].copy(), costs.shape) if alike else costs

    def facts(self) -> Sizes:
        """How many samples there are, and what they cost."""
        outside = int(self._up.sum())
        features, largest = np.zeros(self.samples.X.shape[1]), 0.0
        for part in _parts(len(self._up)):
            X = self.samples.X[part]
            features += np.asarray(X.sum(axis=0, dtype=float)).ravel()
            entries = X.data if hasattr(X, "tocsr") else X
            largest = max(largest, float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
        return Sizes(len(self._up) - outside, outside, float(self._costs.sum()), features, largest)

    def weigh(self, held: Vector | None, faces: Vector) -> Tally:
        """What the samples pay at some faces.

        held (K, m+1): the faces that assign the positives; None if each is where it pays least.
        Returns: costs of the samples ``inside``, of those outside as they are ``held`` and at ``best``, of
            those outside whose hinge would fall by another face (``moved``), and of those outside that each
            face is best for (``counts``); and the largest fall of a hinge.
        """
        found = Tally()
        for part in _parts(len(self._up)):
            found.follow(self._weighed(part, held, faces))
        return found

    def _weighed(self, part: slice, held: Vector | None, faces: Vector) -> Tally:
        X, up, costs = self.samples.X[part], self._up[part], self._costs[part]
        scores = _scores(X, faces)
        best = scores.argmax(axis=1)
        least = np.maximum(1.0 - scores.max(axis=1), 0.0)
        own = least
        if held is not None:
            place = _scores(X, held).argmax(axis=1)
            own = np.maximum(1.0 - np.take_along_axis(scores, place[:, None], axis=1)[:, 0], 0.0)
        gain = np.where(up, own - least, 0.0)
        inside = np.maximum(1.0 + scores[~up], 0.0).sum(axis=1)
        sums = {
            "inside": float(costs[~up] @ inside),
            "held": float(costs[up] @ own[up]),
            "best": float(costs[up] @ least[up]),
            "moved": float(costs[gain > GAIN].sum()),
            "counts": np.bincount(best[up], costs[up], len(faces)),
        }
        found = Tally(len(up), sums)
        found.note("stationarity", "assignment", gain)
        return found


class FacesRecipe(NamedTuple):
    """The classes inside and outside, their weights, and the cost of slack."""

    classes: tuple[Any, Any]
    factors: tuple[float, float]
    C: float

    def block(self, samples: Samples, number: int, work: Work | None = None) -> FacesBlock | None:
        """The block of both classes; None where it has no such samples."""
        found = costed(samples, self.classes, self.factors)
        if found is None:
            return None
        return FacesBlock(rows_of(samples, found.chosen), found, self.C)


class FaceRecipe(NamedTuple):
    """The program of one face: as of :class:`FacesRecipe`; the faces that assign, and which of them it is.

    It is half of a face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i, over the samples inside and those outside that are
    assigned to the face.
    """

    classes: tuple[Any, Any]
    factors: tuple[float, float]
    C: float
    faces: Vector
    face: int

    def block(self, samples: Samples, number: int, work: Work | None = None) -> Block | None:
        """The block of the face; None where it has no such samples."""
        found = costed(samples, self.classes, self.factors)
        if found is None:
            return None
        X, mine = rows_of(samples, found.chosen), ~found.up
        for part in _parts(len(mine)):
            mine[part] |= _scores(X[part], self.faces).argmax(axis=1) == self.face
        if not mine.any():
            return None
        signs = np.where(found.up[mine], 1, -1).astype(np.int8)
        hinge = Hinge(signs, 0.5 * self.C * found.counts[mine])
        chosen = found.chosen.copy()
        chosen[found.chosen] = mine
        block = Block(Rows(rows_of(samples, chosen)), hinge, 1, work=work)
        block.intercept, block.chosen = False, None if chosen.all() else chosen
        return block


def _parts(n: int) -> Iterator[slice]:
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, n, ROWS_AT_ONCE))


def _scores(X: Any, faces: Vector) -> Vector:
    """Scores (n, K) in double precision."""
    rows = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    return np.asarray(rows @ faces[:, :-1].T) + faces[:, -1]
