"""The faces of the Convex Polytope Machine one by one, at prices of the positives: a global bound.

The machine is a problem of location: K faces are placed, each costs f(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+
by itself, and each positive pays h_i(w) = C_i [1 − w·x̃_i]_+ on the face that is best for it. Faces have
nothing in common but the positives, so these get prices.

Theorem. For any λ ≥ 0 let G(w) = f(w) + Σ_pos min(h_i(w), λ_i), and G ≥ B for all w. Then all faces cost at
least Σ λ_i + K (B − Σ λ_i).

Proof. For numbers h_1 ... h_K, min_k h_k ≥ λ − max_k [λ − h_k]_+ ≥ λ − Σ_k [λ − h_k]_+, which is
λ + Σ_k (min(h_k, λ) − λ). Put in h_ik for each positive, add up, and add Σ_k f(w_k): the cost is at least
Σ λ_i + Σ_k (G(w_k) − Σ λ_i). ∎

So a face is bounded alone, in d coefficients where K faces have K d, and which face is which plays no part.
Best prices are the multipliers of a linear program over the faces known so far
(:mod:`polyopt.cpm.global_search.columns`); a face that costs less at them than these is one more, until there
is none. The bound is then that of the convex hull of what faces can do; on the data tried it mostly is the
optimum itself, as with other problems of location.

G is not convex. Its minimum is sought over boxes of the coefficients
(:mod:`polyopt.cpm.global_search.priced_box`), for which features must be few. The first box is |w_j| ≤ √U:
outside of it G(w) ≥ ‖w‖² > U, and B ≤ U is asked.

References: du Merle, Hansen, Jaumard & Mladenović, An interior point algorithm for minimum sum-of-squares
clustering (1999); Aloise, Hansen & Liberti, An improved column generation algorithm for minimum
sum-of-squares clustering (2012).
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.language.clock import Clock
from polyopt.cpm.global_search.columns import Columns
from polyopt.cpm.global_search.face import price
from polyopt.cpm.global_search.polish import polished_face
from polyopt.cpm.global_search.priced_box import examine_face_box, face_box_for, price_of, priced_face
from polyopt.linalg.rounding import gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector
    from polyopt.cpm.global_search.face import Samples
    from polyopt.cpm.global_search.tree import Best

__all__ = ["MAX_FEATURES", "PriceSearch", "bound_at_prices"]

MAX_FEATURES = 4  # of the samples, for which the cost of a face is bounded over boxes of its coefficients

_OFF_PER_GAP = 0.2  # how far off the least face may be, by the gap that is left to each face


def bound_at_prices(prices: Vector, least: float, n_faces: int) -> float:
    """What the theorem proves, rounded down.

    prices (npos,): λ.
    least: B.
    n_faces: K.
    """
    total = math.fsum(prices)
    value = total + n_faces * (least - total)
    return float(value - gamma(8) * (n_faces * (abs(least) + total) + total))


class _Open(NamedTuple):
    """An open box: bound, number, ends, multipliers."""

    bound: float
    number: int
    low: Vector
    high: Vector
    codes: NDArray[np.uint8]


class PriceSearch:
    """Rounds of prices and of faces at them.

    data: rows y_i x̃_i (n, d), those inside first; both classes are there.
    best: the incumbent, which is bettered where a round finds better faces.
    tol: relative gap at which it ends.
    rng: of the first faces.

    bound: what is proven,
    prices (npos,): at these λ.
    boxes, rounds: what it took.
    is_done: whether another round would bring nothing, or none is needed.
    """

    def __init__(self, data: Samples, best: Best, tol: float, rng: np.random.Generator):
        self.data, self.best, self.tol = data, best, tol
        self.n_faces, self.npos = len(best.W), len(data.C) - data.inside
        self.columns = Columns(data, best, tol=0.01 * tol, settled=1e-4 * tol)
        self.box = face_box_for(data)
        self.room = 2**28 // (len(data.C) + 16 * data.A.shape[1] + 400)  # open boxes, in 256 MiB
        self.bound, self.boxes, self.rounds, self.is_done = 0.0, 0, 0, False
        self.prices = np.zeros(self.npos)
        self._polished, self.idle = np.inf, 0
        self.off = _OFF_PER_GAP * float(best.limits[0]) / self.n_faces  # how far off the least face may be
        self.columns.begin(Clock(), rng)

    @property
    def of_samples(self) -> Vector:
        """The prices as a column for all samples (n, 1), 0 at the negatives."""
        return np.concatenate([np.zeros(self.data.inside), self.prices])[:, None]

    @property
    def is_closed(self) -> bool:
        """Whether the gap is closed."""
        best = float(self.best.limits[0])
        return best - self.bound <= self.tol * best

    def look(self, clock: Clock) -> None:
        """One round: prices, and the least face at them."""
        self.rounds += 1
        finest = 0.2 * self.tol * float(self.best.limits[0]) / self.n_faces
        off = max(self.off, finest)
        found = self.columns.priced(clock)
        if found is None:
            self.is_done = True
            return
        prices = found.prices
        known = self.columns.known(prices)  # μ + Σ λ, but for the gap of the prices
        least, faces, is_whole = self._least(prices, known, off, clock)
        already, proven = self.bound, bound_at_prices(prices, least, self.n_faces)
        if proven > self.bound:
            self.bound, self.prices = proven, prices
        before = len(self.columns.W)
        for w in faces:
            better = priced_face(self.data, prices, self.columns.answers(w, prices))[0]
            self.columns.add(min(w, better, key=lambda face: price_of(self.data, prices, face)))
        self._polish(clock)
        self.idle = 0 if self.bound - already > 0.1 * (self.best.limits[0] - already) else self.idle + 1
        best = float(self.best.limits[0])
        new = len(self.columns.W) > before
        self.off = min(off if new else 0.1 * off, _OFF_PER_GAP * (best - self.bound) / self.n_faces)
        almost_closed = best - self.bound <= 100 * self.tol * best
        self.is_done = (
            self.is_closed
            or self.idle > (12 if almost_closed else 3)
            or not (new or clock.is_over or (is_whole and off > finest))
        )

    def _polish(self, clock: Clock) -> None:
        """Solve the incumbent's faces to the end, once the bound is within a thousandth."""
        best = float(self.best.limits[0])
        if best == self._polished or best - self.bound > 1e-3 * best:
            return
        face = (self.data.A[self.data.inside :] @ self.best.W.T).argmax(axis=1)
        little = 0.1 * self.tol * best / self.n_faces
        W = np.array([polished_face(self.data, face, k, little, clock)[1] for k in range(self.n_faces)])
        cost = price(self.data, W, face)
        if cost < best:
            self.best.limits[0], self.best.W[:] = cost, W
        self._polished = float(self.best.limits[0])

    def _least(
        self, prices: Vector, known: float, off: float, clock: Clock
    ) -> tuple[float, list[Vector], bool]:
        """A bound on G, faces that cost less than is `known`, and whether it is within `off` of the least."""
        n, d = self.data.A.shape
        widest = np.full(d, math.sqrt(max(known, 0.0)) * (1.0 + 1e-9))
        heap = [_Open(0.0, 0, -widest, widest, np.zeros(n, dtype=np.uint8))]
        faces: list[tuple[float, int, Vector]] = []
        done, made, goal = np.inf, 0, known - off
        last = self.boxes + 200_000
        while heap and not clock.is_over and len(heap) < self.room and self.boxes < last:
            one = heappop(heap)
            if one.bound >= goal:
                heappush(heap, one)
                break
            self.boxes += 1
            self.box.low[:], self.box.high[:] = one.low, one.high
            codes = one.codes.copy()
            bound, cost, j, at = examine_face_box(self.data, prices, self.box, codes, goal)
            bound = max(bound, one.bound)
            if cost < known - 0.5 * off:
                faces.append((cost, self.boxes, self.box.w.copy()))
                goal = min(goal, cost - 0.5 * off)
            if bound >= goal or j < 0:
                done = min(done, bound)
                continue
            for upper in (False, True):
                low, high = self.box.low.copy(), self.box.high.copy()
                (low if upper else high)[j] = at
                made += 1
                heappush(heap, _Open(bound, made, low, high, codes))
        # What boxes left out as they shrank costs no less than the goal did then.
        least = min(done, heap[0].bound if heap else np.inf, goal)
        return least, [w for *_, w in sorted(faces)[:20]], not heap or heap[0].bound >= goal
