"""Many faces, and which K of them are best together: the programs of prices as a way to a better point.

A face is good at some prices λ of the positives (:mod:`polyopt.cpm.global_search.prices`) if it costs little,
f(w) + Σ min(h_i(w), λ_i). Prices from the faces known so far say which positives are dear; faces that cost
less at them are added, and those with the largest shares in the program are tried together. Alternation from
many starts finds each of its K faces by the others; here faces of many starts are put together anew.

The prices come from a linear program of location, solved by an interior point (:class:`PriceMaster`). A face
w costs f(w) by itself, and positive i would pay h_i(w) = C_i [1 − w·x̃_i]_+ on it. The prices λ of the
positives and μ of a face are the multipliers of

    min Σ_t f_t z_t + Σ_ti h_ti x_ti   s.t.   Σ_t x_ti = 1 for each i,   0 ≤ x_ti ≤ z_t,   Σ_t z_t = K,

whose dual is max Σ λ_i + K μ over s ≥ 0, h_ti − λ_i + s_ti ≥ 0, Σ_i s_ti = f_t − μ.

There are as many x as pairs of a face and a positive, but each stands in one row of each kind: with the
slacks left out of Newton's equations, then x, then λ, one system is left with as many unknowns as there are
faces. So a step costs (faces)² times the positives, and thousands of positives are no trouble. Steps start
from a point that is feasible and stay so; they aim at Mehrotra's point and are lengthened by corrections of
the products that stand out (Gondzio).

Such a method ends in the middle of the optimal prices, which change little from one program to the next; a
vertex would be at random. Nothing rests on their being exact, as any λ ≥ 0 prove a bound
(:mod:`polyopt.cpm.global_search.prices`).

References: Gondzio, Multiple centrality corrections in a primal-dual method for linear programming (1996);
Gondzio, González-Brevis & Munari, New developments in the primal-dual column generation technique (2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.cpm.global_search.face import settle_in_time
from polyopt.cpm.global_search.priced_box import price_of, priced_face
from polyopt.optim.starts import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from formulations.language.types import Vector
    from polyopt.cpm.global_search.face import Samples
    from polyopt.cpm.global_search.tree import Best

__all__ = ["Columns", "PriceMaster", "better_by_columns"]

_MAX_STEPS, _MAX_CORRECTIONS = 60, 3  # of the interior point, and of one step
_STEP_SHARE = 0.995  # of the way to the boundary
# Rounds at most and without a new face, faces tried in each, from so many of those with the largest shares;
# every third begins with positives by lot, the others with a face's, of which these shares are changed. They
# are first guesses, seen to help on draws of german, parkinsons and heart.
_MAX_ROUNDS, _MAX_IDLE_ROUNDS, _TRIALS_A_ROUND, _N_LARGEST = 40, 4, 60, 20
_CHANGED_SHARES = (0.02, 0.05, 0.1, 0.2)


class Prices(NamedTuple):
    """λ (npos,), and what share each face has, (faces,)."""

    prices: Vector
    shares: Vector


class PriceMaster:
    """The faces known.

    n_faces: K, at least 2.
    tol: relative gap at which prices are good enough.

    W (d,): the faces.
    """

    def __init__(self, n_faces: int, tol: float):
        self.n_faces, self.tol = n_faces, tol
        self.W: list[Vector] = []
        self._own: list[float] = []
        self._hinges: list[Vector] = []
        self._known: set[bytes] = set()

    def add(self, w: Vector, own: float, hinges: Vector) -> None:
        """Add a face, if it is not there already.

        w (d,): the face.
        own: what it costs by itself.
        hinges (npos,): what each positive would pay on it.
        """
        key = np.round(w, 9).tobytes()
        if key not in self._known:
            self._known.add(key)
            self.W.append(w.copy())
            self._own.append(own)
            self._hinges.append(hinges.copy())

    def solve(self) -> Prices | None:
        """The prices; None where numbers are too large or too small for any."""
        with np.errstate(all="ignore"):
            point = _Point(np.array(self._own), np.array(self._hinges), self.n_faces)
            for _ in range(_MAX_STEPS):
                if not point.gap > self.tol * (abs(point.value) + point.gap) or not point.step():
                    break
        prices = np.maximum(point.prices, 0.0)
        if not (np.isfinite(prices).all() and np.isfinite(point.shares).all()):
            return None
        return Prices(prices, point.shares)


class _Move(NamedTuple):
    """A step: of z, μ, λ, and of the pairs (x, z − x) and their multipliers (h − λ + s, s)."""

    z: Vector
    mu: float
    prices: Vector
    pairs: Vector  # (2, faces, npos)
    duals: Vector


class _Point:
    """A feasible point: pairs (2, faces, npos) x and z − x, duals their multipliers."""

    def __init__(self, own: Vector, hinges: Vector, n_faces: int):
        count, npos = hinges.shape
        self.n_faces = n_faces
        self.shares = np.full(count, n_faces / count)
        one = np.full((count, npos), 1.0 / count)
        self.pairs = np.stack([one, (n_faces - 1) * one])
        size = max(hinges.max(), float(np.ptp(own)) / npos, np.finfo(float).tiny)
        self.mu = float(own.min()) - npos * size
        multipliers = np.repeat((own - self.mu)[:, None] / npos, npos, axis=1)
        self.prices = hinges.min(axis=0) + (2 - n_faces) * size
        self.duals = np.stack([hinges + multipliers - self.prices, multipliers])

    @property
    def gap(self) -> float:
        """What the two programs differ by."""
        return float((self.pairs * self.duals).sum())

    @property
    def value(self) -> float:
        """Σ λ + K μ."""
        return float(self.prices.sum() + self.n_faces * self.mu)

    def step(self) -> bool:
        """Towards the optimum; whether that went well."""
        pairs, duals = self.pairs, self.duals
        newton = _Newton(pairs, duals)
        products, gap = pairs * duals, self.gap
        if not newton.is_sound:
            return False
        first = newton.solve(-products)
        ahead, behind = (min(1.0, part / _STEP_SHARE) for part in self._lengths(first))
        after = float(((pairs + ahead * first.pairs) * (duals + behind * first.duals)).sum())
        aim = min((after / gap) ** 3, 0.3) * gap / products.size
        lower, upper = aim / 10.0, 10.0 * aim  # corrections leave products in between alone
        wanted = aim - products - ahead * behind * first.pairs * first.duals
        move = newton.solve(wanted)
        ahead, behind = self._lengths(move)
        for _ in range(_MAX_CORRECTIONS):
            longer, further = min(1.0, 1.1 * ahead + 0.1), min(1.0, 1.1 * behind + 0.1)
            reached = (pairs + longer * move.pairs) * (duals + further * move.duals)
            wanted = wanted + np.maximum(np.clip(reached, lower, upper) - reached, -upper)
            other = newton.solve(wanted)
            lengths = self._lengths(other)
            if not sum(lengths) > ahead + behind + 0.01:
                break
            move, (ahead, behind) = other, lengths
        if not np.isfinite(ahead + behind + move.mu):
            return False
        self.shares += ahead * move.z
        self.pairs += ahead * move.pairs
        self.mu += behind * move.mu
        self.prices += behind * move.prices
        self.duals += behind * move.duals
        return bool(self.pairs.min() > 0.0 and self.duals.min() > 0.0)

    def _lengths(self, move: _Move) -> tuple[float, float]:
        return _length(self.pairs, move.pairs), _length(self.duals, move.duals)


def _length(at: Vector, step: Vector) -> float:
    """How far `step` may be taken with all of `at` above zero."""
    most = float((-step / at).max())
    return _STEP_SHARE / max(most, _STEP_SHARE)


class _Newton:
    """Newton's equations at a point, but for their right-hand side.

    With a = x / p and b = s / v, of p and s the multipliers of x and v = z − x,

        dx = e + g dz + q dλ,   ds = r − k dz + g dλ,   Σ_t dx_ti = 0,   Σ_i ds_ti = −dμ,   Σ_t dz_t = 0,

    where g = ab / (1 + ab), q = a / (1 + ab) and k = b / (1 + ab).
    """

    def __init__(self, pairs: Vector, duals: Vector):
        self.pairs, self.duals = pairs, duals
        self.a, self.b = pairs[0] / duals[0], duals[1] / pairs[1]
        self.below = 1.0 / (1.0 + self.a * self.b)
        self.g, self.q, self.k = self.a * self.b * self.below, self.a * self.below, self.b * self.below
        self.total = self.q.sum(axis=0)
        system = (self.g / self.total) @ self.g.T
        diagonal = np.einsum("ii->i", system)
        ridge = 1e-14 * (diagonal.mean() + self.k.sum() / len(system))
        diagonal += self.k.sum(axis=1) + ridge
        self.is_sound = bool(np.isfinite(system).all())
        self.inverse = np.linalg.pinv(system, hermitian=True) if self.is_sound else system

    def solve(self, wanted: Vector) -> _Move:
        """The step that changes products of pairs and multipliers by what is `wanted`, to first order."""
        ends = wanted[1] / self.pairs[1]
        e = (wanted[0] / self.duals[0] - self.a * ends) * self.below
        r = ends + self.b * e
        known = r.sum(axis=1) - (self.g * (e.sum(axis=0) / self.total)).sum(axis=1)
        z, ones = self.inverse @ known, self.inverse.sum(axis=1)
        mu = -z.sum() / ones.sum()
        z = z + mu * ones
        prices = -(e.sum(axis=0) + z @ self.g) / self.total
        x = e + self.g * z[:, None] + self.q * prices
        s = r - self.k * z[:, None] + self.g * prices
        return _Move(z, float(mu), prices, np.stack([x, z[:, None] - x]), np.stack([s - prices, s]))


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
        for _ in range(30):
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
    columns, idle = Columns(data, best, tol=1e-8, settled=1e-8), 0
    most = float(np.sqrt(5e7 / columns.npos))  # faces whose program takes a second or two
    columns.begin(clock, rng, most)
    for _ in range(_MAX_ROUNDS):
        found = None if clock.is_over else columns.priced(clock)
        if found is None or len(columns.W) >= most:
            return
        before = len(columns.W)
        _grow(columns, found, most, clock, rng)
        idle = 0 if len(columns.W) > before else idle + 1
        if idle == _MAX_IDLE_ROUNDS:
            return


def _grow(columns: Columns, found: Prices, most: float, clock: Clock, rng: np.random.Generator) -> None:
    """Faces that cost less than all known do at their prices, from many starts, until there are so many."""
    known = columns.known(found.prices) * (1.0 - TIE)
    largest = np.argsort(-found.shares, kind="stable")[:_N_LARGEST]
    begun = [columns.answers(columns.W[t], found.prices) for t in largest]
    for number in range(_TRIALS_A_ROUND):
        if clock.is_over or len(columns.W) >= most:
            return
        answers = begun[rng.integers(len(begun))] ^ (rng.random(columns.npos) < rng.choice(_CHANGED_SHARES))
        if number % 3 == 0:
            answers = rng.random(columns.npos) < rng.random()
        w = priced_face(columns.data, found.prices, answers)[0]
        if price_of(columns.data, found.prices, w) < known:
            columns.add(w)
