"""The search for a union of polytopes with so many pieces at most: starts, exchanges of pieces, and pruning.

Each start is refined coarsely. From the best, pieces are exchanged for as long as that helps: one is added
where it is needed most, all are refined together, and the one that is least missed is left out. Then faces
and pieces whose absence lowers the objective are left out, and what is left is refined to the tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Status
from polyopt.outer.cpm.union import UnionEngine, UnionPoint
from polyopt.outer.cpm.union_growth import Growth
from polyopt.outer.starts import generators_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.solvers.clock import Clock

    Integers = NDArray[np.int64]

__all__ = ["UnionSearch"]

_COARSE, _ROUNDS, _SETTLED = 1e-2, 100, 1e-3  # gap, rounds and fall of a point that is one of many
_EXCHANGES = 3  # of pieces at most


class UnionSearch:
    """One search on one set of samples.

    Parameters
    ----------
    X, y, C : array
        Samples, labels (-1 inside) and costs.
    n_faces : int
        Faces of a new piece.
    clock : Clock
        Of the whole search.

    Attributes
    ----------
    best : UnionPoint or None
        The best point so far.
    history : list of dict
        A record for each point that was refined.
    """

    def __init__(self, X: Matrix, y: Vector, C: Vector, n_faces: int, clock: Clock):
        self.clock, self.engine = clock, UnionEngine(X, y, C)
        self.growth = Growth(self.engine, n_faces)
        self.best: UnionPoint | None = None
        self.history: list[dict[str, float]] = []

    def at(self, W: Vector, pieces: Integers) -> UnionPoint:
        """Faces that were found elsewhere, with their best assignments and without multipliers."""
        engine, outputs = self.engine, self.engine.scores(W)
        inside, outside = engine.assigned(outputs, pieces)
        costs = engine.costs(pieces, inside, outside)
        value = float((W**2).sum() + (costs * engine.hinges(outputs)).sum())
        return UnionPoint(pieces, inside, outside, W, np.zeros_like(outputs), outputs, value)

    def coarse(self, point: UnionPoint) -> UnionPoint:
        """The point refined as one of many."""
        return self.refined(point, _COARSE, _ROUNDS, _SETTLED)

    def refined(self, point: UnionPoint, tol: float, max_rounds: int, settled: float = 0.0) -> UnionPoint:
        """The point refined, and recorded."""
        found = self.engine.refine(point, self.clock, tol=tol, max_rounds=max_rounds, settled=settled)
        self.history.append(
            {
                "pieces": float(found.n_pieces),
                "rounds": float(found.rounds),
                "objective": found.objective,
                "bound": found.bound,
                "seconds": self.clock.seconds,
            }
        )
        return found

    def keep(self, point: UnionPoint) -> None:
        """Keep the point if it is the best; of equal ones the later, which is refined further.

        Raises
        ------
        KeyboardInterrupt
            It was made when Ctrl-C came.
        """
        if self.best is None or point.objective <= self.best.objective:
            self.best = point
        if point.is_interrupted:
            raise KeyboardInterrupt

    def run(
        self,
        n_pieces: int,
        *,
        n_init: int,
        tol: float,
        max_rounds: int,
        seed: int,
        first: UnionPoint | None = None,
    ) -> Status:
        """Search; the answer is ``best``.

        Parameters
        ----------
        n_pieces : int
            D at most.
        n_init : int
            Starts; the first is made whatever the time.
        tol, max_rounds
            Of the last refinement.
        seed : int
            Of all that is random.
        first : UnionPoint, optional
            A point to begin with besides the starts.

        Returns
        -------
        Status
            How it ended.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C before there was a point.
        """
        try:
            self.begin(n_pieces, n_init, seed, first)
            self._exchange(n_pieces, np.random.default_rng([seed, n_init]))
            return self.finish(tol, max_rounds)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return Status.INTERRUPTED

    def begin(self, n_pieces: int, n_init: int, seed: int, first: UnionPoint | None = None) -> None:
        """Keep the best of some starts, each refined coarsely; arguments as of :meth:`run`."""
        if first is not None:
            self.keep(first)
            if not self.clock.is_over:
                self.keep(self.coarse(first))
        for rng in generators_of(seed, n_init):
            if self.best is not None and self.clock.is_over:
                return
            self.keep(self.coarse(self.growth.start(n_pieces, rng)))

    def finish(self, tol: float, max_rounds: int) -> Status:
        """Prune the best point and refine it to the tolerance."""
        assert self.best is not None
        point, is_fixed = self.best, False  # a coarse point may be fixed to a coarse tolerance
        while not self.clock.is_over:
            point = self.refined(self.growth.pruned(point), tol, max_rounds)
            self.keep(point)
            is_fixed = point.is_fixed
            if self.growth.pruned(point) is point:
                break
        if is_fixed:
            return Status.CONVERGED
        return Status.TIME_LIMIT if self.clock.is_over else Status.ITERATION_LIMIT

    # -- parts ---------------------------------------------------------------------------------

    def _exchange(self, n_pieces: int, rng: np.random.Generator) -> None:
        """Add a piece and leave one out, for as long as the objective falls."""
        for _ in range(_EXCHANGES if n_pieces > 1 else 0):
            assert self.best is not None
            before = self.best.objective
            for more in self.growth.grown(self.best, rng):
                if self.clock.is_over:
                    return
                point = self.coarse(more)
                if point.n_pieces > n_pieces:
                    point = self.coarse(self.growth.with_one_less(point))
                self.keep(point)
            if self.best.objective >= (1.0 - _SETTLED) * before:
                return
