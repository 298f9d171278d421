"""Many faces, and which K of them are best together: the programs of prices as a way to a better point.

A face is good at some prices λ of the positives (:mod:`polyopt.outer.cpm.prices`) if it costs little,
f(w) + Σ min(h_i(w), λ_i). Prices from the faces known so far say which positives are dear; faces that cost
less at them are added, and those with the largest shares in the program are tried together. Alternation from
many starts finds each of its K faces by the others; here faces of many starts are put together anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.cpm.face import settle_in_time
from polyopt.solvers.cpm.price_master import PriceMaster
from polyopt.solvers.cpm.priced_box import price_of
from polyopt.solvers.cpm.priced_face import priced_face

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.clock import Clock
    from formulations.matrices import Vector
    from polyopt.solvers.cpm.face import Samples
    from polyopt.solvers.cpm.price_master import Prices
    from polyopt.solvers.cpm.tree import Best

__all__ = ["Columns", "better_by_columns"]

_EXACT = 1e-8  # relative gap of the program of prices, and precision of an incumbent's faces
_STARTS = 30  # assignments at random whose faces are the first to be known
# Rounds at most and without a new face, faces tried in each, from so many of those with the largest shares;
# every third begins with positives by lot, the others with a face's, of which these shares are changed. They
# are first guesses, seen to help on draws of german, parkinsons and heart.
_ROUNDS, _PATIENCE, _TRIED, _FROM, _CHANGED = 40, 4, 60, 20, (0.02, 0.05, 0.1, 0.2)
_LESS = 1e-9  # relative: a face that costs less than all known by this is one more
_WORK = 5e7  # squared faces times positives, at most: a second or two for their program


class Columns:
    """Faces, what they cost, and the prices that they make.

    data: rows y_i x̃_i (n, d), those inside first; both classes are there.
    best: the incumbent, which is bettered.
    tol: relative gap of the program of prices.
    settled: relative precision of a new incumbent.

    W (d,): the faces.
    """

    def __init__(self, data: Samples, best: Best, tol: float, settled: float):
        self.data, self.best, self.settled = data, best, settled
        self.npos = len(data.C) - data.inside
        self._master = PriceMaster(len(best.W), tol)
        self.W = self._master.W

    def begin(self, clock: Clock, rng: np.random.Generator, most: float = np.inf) -> None:
        """Faces of the incumbent, of no feature, and of assignments at random, until there are so many."""
        points, K = self.data.A[self.data.inside :], len(self.best.W)
        for w in self.best.W:
            self.add(w)
        for bias in (-1.0, 1.0):
            self.add(np.append(np.zeros(points.shape[1] - 1), bias))
        for _ in range(_STARTS):
            face = (points[:, :-1] @ rng.normal(size=(points.shape[1] - 1, K))).argmax(axis=1)
            for k in range(K):
                if clock.is_over or len(self.W) >= most:
                    return
                self.add(priced_face(self.data, np.where(face == k, np.inf, 0.0), face == k)[0])

    def add(self, w: Vector) -> None:
        """One more face."""
        paid = np.maximum(1.0 - self.data.A @ w, 0.0) * self.data.C
        inside = self.data.inside
        self._master.add(w, float(w @ w + paid[:inside].sum()), paid[inside:])

    def priced(self, clock: Clock) -> Prices | None:
        """The prices, if there are any, once the faces with the largest shares have been tried together."""
        found = self._master.solve()
        if found is not None:
            self._try(found.shares, clock)
        return found

    def known(self, prices: Vector) -> float:
        """What the best of the faces costs at these prices."""
        return min(price_of(self.data, prices, w) for w in self.W)

    def answers(self, w: Vector, prices: Vector) -> NDArray[np.bool_]:
        """Which positives a face would rather answer for than pay their prices."""
        rows = slice(self.data.inside, None)
        answers: NDArray[np.bool_] = np.maximum(1.0 - self.data.A[rows] @ w, 0.0) * self.data.C[rows] < prices
        return answers

    def _try(self, shares: Vector, clock: Clock) -> None:
        K = len(self.best.W)
        W = np.array([self.W[t] for t in np.resize(np.argsort(-shares, kind="stable"), K)])
        face = (self.data.A[self.data.inside :] @ W.T).argmax(axis=1)
        cost = settle_in_time(self.data, face, W, self.settled * self.best.limits[0], clock)
        if cost < self.best.limits[0]:
            self.best.limits[0], self.best.W[:] = cost, W


def better_by_columns(data: Samples, best: Best, clock: Clock, rng: np.random.Generator) -> None:
    """Better the incumbent by faces of many starts.

    clock: when there is to be no other face.
    rng: of the starts.
    """
    columns, idle = Columns(data, best, _EXACT, _EXACT), 0
    most = float(np.sqrt(_WORK / columns.npos))
    columns.begin(clock, rng, most)
    for _ in range(_ROUNDS):
        found = None if clock.is_over else columns.priced(clock)
        if found is None or len(columns.W) >= most:
            return
        before = len(columns.W)
        _grow(columns, found, most, clock, rng)
        idle = 0 if len(columns.W) > before else idle + 1
        if idle == _PATIENCE:
            return


def _grow(columns: Columns, found: Prices, most: float, clock: Clock, rng: np.random.Generator) -> None:
    """Faces that cost less than all known do at their prices, from many starts, until there are so many."""
    known = columns.known(found.prices) * (1.0 - _LESS)
    largest = np.argsort(-found.shares, kind="stable")[:_FROM]
    begun = [columns.answers(columns.W[t], found.prices) for t in largest]
    for number in range(_TRIED):
        if clock.is_over or len(columns.W) >= most:
            return
        answers = begun[rng.integers(len(begun))] ^ (rng.random(columns.npos) < rng.choice(_CHANGED))
        if number % 3 == 0:
            answers = rng.random(columns.npos) < rng.random()
        w = priced_face(columns.data, found.prices, answers)[0]
        if price_of(columns.data, found.prices, w) < known:
            columns.add(w)
