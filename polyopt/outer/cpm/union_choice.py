"""How many pieces a union of polytopes has, and which class is inside, chosen within the training data.

A part of the samples is held out. On the rest a union grows by one piece at a time, from the better of the
grown points and of a new start; the samples held out say how often each is wrong. The fewest pieces are
chosen whose error is within one standard error of the least, where the error is that of the difference: both
are measured on the same samples. The growth ends once some pieces in a row have brought nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from formulations.union import union_scores
from polyopt.outer.cpm.union_search import UnionSearch
from polyopt.outer.starts import generators_of

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector
    from polyopt.outer.cpm.union import UnionPoint
    from polyopt.solvers.clock import Clock

__all__ = ["Choice", "Trial", "choose"]

_HELD_OUT = 0.3  # of the samples
_LEAST = 10  # samples of each class below which none are held out, and one piece is taken
_MOST = 30  # pieces
_PATIENCE = 3  # pieces in a row that bring nothing


@dataclass(frozen=True)
class Trial:
    """A union that was fitted to a part of the samples, and which of the others it has wrong."""

    point: UnionPoint
    wrong: Vector


class Choice:
    """What is chosen for one side.

    Attributes
    ----------
    side : float
        What the labels are multiplied with.
    weights : ndarray
        Shares of the samples held out, which add up to 1.
    trials : list of Trial
        By their number of pieces.
    history : list of dict
        A record for each; in the end for those of the other side too.
    is_interrupted : bool
        Whether Ctrl-C ended the trials.
    """

    def __init__(self, side: float, weights: Vector):
        self.side, self.weights = side, weights
        self.trials: list[Trial] = []
        self.history: list[dict[str, float]] = []
        self.is_interrupted = False

    @property
    def errors(self) -> Vector:
        """Errors on the samples held out."""
        return np.array([self.weights @ trial.wrong for trial in self.trials])

    @property
    def chosen(self) -> Trial:
        """The first that is within one standard error of the best."""
        best = self.trials[int(self.errors.argmin())]
        for trial in self.trials:
            more = self.weights * (trial.wrong - best.wrong)
            # Of a difference whose mean is 0, as McNemar's test has it; one sample is never more than that.
            if more.sum() <= np.sqrt(more @ more) * (1.0 + 1e-9):
                return trial
        return best

    @property
    def has_settled(self) -> bool:
        """Whether the last pieces have brought nothing."""
        return len(self.trials) - 1 - int(self.errors.argmin()) >= _PATIENCE

    def run(self, search: UnionSearch, points: Iterator[UnionPoint], X: Matrix, y: Vector) -> None:
        """Try some points of a search on samples that were held out."""
        for point in points:
            outputs = search.engine.scores(point.W, X)
            wrong = (union_scores(outputs, point.pieces) > 0.0) != (self.side * y > 0.0)
            self.trials.append(Trial(point, wrong.astype(float)))
            record = {"side": self.side, "error": float(self.errors[-1])}
            self.history.append({**search.history[-1], **record})
            if self.has_settled or search.clock.is_over:
                return


def choose(
    X: Matrix, y: Vector, C: Vector, *, n_pieces: int | None, n_faces: int, n_init: int,
    sides: Sequence[float], clock: Clock, seed: int,
) -> Choice | None:  # fmt: skip
    """Choose the number of pieces and the side.

    Parameters
    ----------
    X, y, C
        Samples, labels and costs, which weigh the samples held out.
    n_pieces : int, optional
        Where it is given, the side alone is chosen.
    n_faces, n_init, seed
        As of :class:`~polyopt.outer.cpm.union_search.UnionSearch`.
    sides : sequence of float
        What the labels may be multiplied with.
    clock : Clock
        The first trial is made in any case.

    Returns
    -------
    Choice or None
        None where there are too few samples to hold any out.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C before the first trial.
    """
    if np.bincount((y > 0).astype(int), minlength=2).min() < _LEAST:
        return None
    split = StratifiedShuffleSplit(1, test_size=_HELD_OUT, random_state=seed % 2**32)
    [(own, held)] = split.split(np.zeros(len(y)), y)
    found: list[Choice] = []
    for side in sides:
        if found and clock.is_over:
            break
        choice = Choice(side, C[held] / C[held].sum())
        search = UnionSearch(X[own], side * y[own], C[own], n_faces, clock)
        try:
            choice.run(search, _points(search, n_pieces, n_init, seed), X[held], y[held])
        except KeyboardInterrupt:
            choice.is_interrupted = True
        if choice.trials:
            found.append(choice)
        if choice.is_interrupted:
            break
    if not found:
        raise KeyboardInterrupt
    best = min(found, key=lambda one: (float(one.weights @ one.chosen.wrong), one.chosen.point.n_pieces))
    best.is_interrupted = choice.is_interrupted
    best.history = [record for one in found for record in one.history]
    return best


def _points(search: UnionSearch, n_pieces: int | None, n_init: int, seed: int) -> Iterator[UnionPoint]:
    """The best point of so many pieces; or those of one piece, of two and so on."""
    if n_pieces is not None:
        search.begin(n_pieces, n_init, seed)
        assert search.best is not None
        yield search.best
        return
    for count, rng in enumerate(generators_of(seed, _MOST), 1):
        last, search.best = search.best, None
        for more in [] if last is None else search.growth.grown(last, rng):
            search.keep(search.coarse(more))
            if search.clock.is_over:
                break
        if search.best is None or not search.clock.is_over:
            search.keep(search.coarse(search.growth.start(count, rng)))
        assert search.best is not None
        yield search.best
