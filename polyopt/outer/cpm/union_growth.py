"""Where the pieces of a union of polytopes come from: starts, growth by one piece, and what is pruned.

A start groups the samples inside by k-means, a piece for each group. Growth adds a piece to a point: around a
group of the samples inside that score outside, or by a split of the piece that pays most in two. The faces of
a new piece begin at samples outside that lie in directions far apart, as seen from its middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from formulations.matrices import dense
from formulations.union import first_faces, per_piece, union_scores
from polyopt.outer.cpm.union import UnionPoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.cpm.union import UnionEngine

    Integers = NDArray[np.int64]

__all__ = ["Growth"]

_CANDIDATES = 64  # samples outside that are looked at for the directions of a piece's faces
_GROUPS = 3  # into which the samples that score outside are parted at most


class Growth:
    """Starts and further pieces for one problem.

    Parameters
    ----------
    engine : UnionEngine
        The problem.
    n_faces : int
        Faces of a new piece.
    """

    def __init__(self, engine: UnionEngine, n_faces: int):
        self.engine, self.n_faces = engine, n_faces
        scaler = StandardScaler(with_mean=False).set_output(transform="default")
        scaler.fit(engine.X, sample_weight=engine.C)
        self._scale = scaler.scale_
        self._scaled = scaler.transform(engine.X)  # groups are made where every feature varies alike

    # -- starts --------------------------------------------------------------------------------

    def start(self, n_pieces: int, rng: np.random.Generator) -> UnionPoint:
        """A point without multipliers, a piece for each of some groups of the samples inside.

        Parameters
        ----------
        n_pieces : int
            D at most: there are no more than there are different samples inside.
        rng : Generator
            Source of randomness.
        """
        within = self.engine.within
        inside = np.full(len(self.engine.y), -1)
        inside[within] = self._groups(within, n_pieces, rng)
        count = int(inside.max()) + 1
        faces = [self._directions(np.flatnonzero(inside == d), rng) for d in range(count)]
        return self._cold(np.repeat(np.arange(count), self.n_faces), inside, faces)

    def grown(self, point: UnionPoint, rng: np.random.Generator) -> list[UnionPoint]:
        """Points with one piece more, to go on from; none where nothing is wrong.

        Parameters
        ----------
        point : UnionPoint
            A point that was refined.
        rng : Generator
            Source of randomness.
        """
        engine = self.engine
        paid = per_piece(engine.hinges(point.outputs), point.pieces, np.add)
        own = np.zeros(len(engine.y))
        own[engine.within] = engine.C[engine.within] * paid[engine.within, point.inside[engine.within]]
        wrong = engine.within[union_scores(point.outputs[engine.within], point.pieces) > 0.0]
        found = []
        if len(wrong) > 0:
            groups = self._groups(wrong, _GROUPS, rng)
            worst = np.bincount(groups, own[wrong]).argmax()
            found.append(self._with_piece(point, wrong[groups == worst], rng))
        outside = engine.C[engine.beyond] @ per_piece(
            np.where(point.outputs[engine.beyond] < 1.0, 1.0 - point.outputs[engine.beyond], 0.0),
            point.pieces,
            np.minimum,
        )
        worst = (
            np.bincount(point.inside[engine.within], own[engine.within], minlength=point.n_pieces) + outside
        ).argmax()
        rows = np.flatnonzero(point.inside == worst)
        if len(rows) > 1:
            groups = self._groups(rows, 2, rng)
            if groups.any():
                found.append(
                    self._with_piece(point, rows[groups == 1], rng, anew=(int(worst), rows[groups == 0]))
                )
        return found

    # -- pruning -------------------------------------------------------------------------------

    def pruned(self, point: UnionPoint) -> UnionPoint:
        """The point without the faces and pieces whose absence lowers the objective, or itself.

        They are left out one after the other, each time that whose absence lowers it most.
        """
        faces = np.ones(len(point.pieces), dtype=bool)
        least = self._value(point, faces)
        while True:
            trials = [*_without_a_piece(point.pieces, faces), *_without_a_face(point.pieces, faces)]
            values = [self._value(point, trial) for trial in trials]
            if not min(values, default=np.inf) < least:
                return point if faces.all() else self._only(point, faces)
            least, faces = min(values), trials[int(np.argmin(values))]

    def with_one_less(self, point: UnionPoint) -> UnionPoint:
        """The point without the piece that is least missed, of two or more."""
        trials = _without_a_piece(point.pieces, np.ones(len(point.pieces), dtype=bool))
        values = [self._value(point, trial) for trial in trials]
        return self._only(point, trials[int(np.argmin(values))])

    def _value(self, point: UnionPoint, faces: NDArray[np.bool_]) -> float:
        """The objective of some of the faces, at their best assignments."""
        engine, (_, pieces) = self.engine, np.unique(point.pieces[faces], return_inverse=True)
        hinge = engine.hinges(point.outputs[:, faces])
        within, beyond = engine.within, engine.beyond
        inside = engine.C[within] @ per_piece(hinge[within], pieces, np.add).min(axis=1)
        outside = engine.C[beyond] @ per_piece(hinge[beyond], pieces, np.minimum).sum(axis=1)
        return float((point.W[faces] ** 2).sum() + inside + outside)

    def _only(self, point: UnionPoint, faces: NDArray[np.bool_]) -> UnionPoint:
        less = point.only(faces)
        inside, outside = self.engine.assigned(less.outputs, less.pieces)
        value = self._value(point, faces)
        return UnionPoint(less.pieces, inside, outside, less.W, less.alpha, less.outputs, value)

    # -- parts ---------------------------------------------------------------------------------

    def _groups(self, rows: Integers, count: int, rng: np.random.Generator) -> Integers:
        """Numbers of the groups of some samples, by k-means; fewer where fewer samples differ."""
        points, weights = self._scaled[rows], self.engine.C[rows]
        seed, count = int(rng.integers(2**31)), min(count, len(rows))
        if count == 1:
            return np.zeros(len(rows), dtype=np.int64)
        labels = (
            KMeans(count, n_init=1, random_state=seed)
            .fit(points, sample_weight=weights / weights.mean())
            .labels_
        )
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)

    def _directions(self, rows: Integers, rng: np.random.Generator) -> Integers:
        """The face, from 0, that each sample outside begins at for a piece around some samples."""
        beyond, K = self.engine.beyond, self.n_faces
        if K == 1 or not len(beyond):
            return np.zeros(len(beyond), dtype=np.int64)
        weights = self.engine.C[rows]
        middle = np.asarray(weights @ self._scaled[rows]).ravel() / weights.sum()
        some = rng.choice(beyond, min(_CANDIDATES, len(beyond)), replace=False)
        rays = dense(self._scaled[some]) - middle
        rays = rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-300)
        chosen = [0]
        for _ in range(K - 1):
            chosen.append(int((rays @ rays[chosen].T).max(axis=1).argmin()))
        directions = rays[chosen]
        return np.asarray(np.asarray(self._scaled[beyond] @ directions.T) - directions @ middle).argmax(
            axis=1
        )

    def _cold(self, pieces: Integers, inside: Integers, faces: list[Integers]) -> UnionPoint:
        outside = np.full((len(inside), len(faces)), -1)
        outside[self.engine.beyond] = np.stack(faces, axis=1) + first_faces(pieces)
        return self.engine.cold(pieces, inside, outside)

    def _with_piece(
        self,
        point: UnionPoint,
        rows: Integers,
        rng: np.random.Generator,
        anew: tuple[int, Integers] | None = None,
    ) -> UnionPoint:
        """The point with a new piece for some samples; at will, with another piece begun anew from a rest."""
        engine, D, K = self.engine, point.n_pieces, len(point.pieces)
        added = np.full(self.n_faces, D)
        inside = point.inside.copy()
        inside[rows] = D
        column = np.full(len(engine.y), -1)
        column[engine.beyond] = K + self._directions(rows, rng)
        alpha = np.hstack([point.alpha, np.zeros((len(engine.y), self.n_faces))])
        W = np.vstack([point.W, np.zeros((self.n_faces, point.W.shape[1]))])
        outside = np.column_stack([point.outside, column])
        if anew is not None:
            d, rest = anew
            own = np.flatnonzero(point.pieces == d)
            outside[engine.beyond, d] = own[self._directions(rest, rng) % len(own)]
            alpha[:, own] = 0.0
        outputs = np.hstack([point.outputs, np.zeros((len(engine.y), self.n_faces))])
        return UnionPoint(np.append(point.pieces, added), inside, outside, W, alpha, outputs)


def _without_a_piece(pieces: Integers, faces: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Some of the faces, less each piece in turn; nothing where there is but one."""
    left = np.unique(pieces[faces])
    return [faces & (pieces != d) for d in left] if len(left) > 1 else []


def _without_a_face(pieces: Integers, faces: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Some of the faces, less each face in turn that is not the last of its piece."""
    counts, every = np.bincount(pieces[faces], minlength=len(pieces)), np.arange(len(faces))
    return [faces & (every != k) for k in np.flatnonzero(faces) if counts[pieces[k]] > 1]
