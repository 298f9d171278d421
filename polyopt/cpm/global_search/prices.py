"""One face at prices of the positives: a bound on all faces, in few dimensions.

The machine is a location problem: K faces are placed, each costs f(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+ by
itself, and each positive pays h_i(w) = C_i [1 − w·x̃_i]_+ on its cheapest face. The positives get prices.

Theorem. For any λ ≥ 0 let G(w) = f(w) + Σ_pos min(h_i(w), λ_i), and G ≥ B for all w. Then all faces cost at
least Σ λ_i + K (B − Σ λ_i).

Proof. For numbers h_1 ... h_K, min_k h_k ≥ λ − max_k [λ − h_k]_+ ≥ λ − Σ_k [λ − h_k]_+, which is
λ + Σ_k (min(h_k, λ) − λ). Put in h_ik for each positive, add up, and add Σ_k f(w_k): the cost is at least
Σ λ_i + Σ_k (G(w_k) − Σ λ_i). ∎

So each face is bounded separately, in dimension d instead of K d, and the bound does not depend on the order
of the faces. The bound at the best prices is that of the convex hull of all faces; on the data tried it
mostly is the optimum itself, as in other location problems. It is found by column generation: the prices are
the multipliers of a linear program over the known faces, and faces that cost less at them are added.

**The location program.** With f_t and h_ti of the known faces t,

    min Σ_t f_t z_t + Σ_ti h_ti x_ti   s.t.   Σ_t x_ti = 1 for each i,   0 ≤ x_ti ≤ z_t,   Σ_t z_t = K,

has the multipliers λ and μ; its dual is max Σ λ_i + K μ over s ≥ 0, h_ti − λ_i + s_ti ≥ 0, Σ_i s_ti = f_t −
μ. There are as many x as pairs of a face and a positive, but each is in one row of each kind: without the
slacks, then x, then λ, Newton's equations have as many unknowns as there are faces, and a step costs (faces)²
times the positives. Steps start from a feasible point and stay feasible; they aim at Mehrotra's point and are
lengthened by corrections of products that stand out (Gondzio). An interior point ends in the middle of the
optimal prices, which change little from one program to the next. The bound is valid for any λ ≥ 0.

**The least face at given prices.** Rows of the samples are y_i x̃_i, r_i = y_i x̃_i·w, and

    G(w) = ‖w‖² + Σ_neg C_i [1 − r_i]_+ + Σ_pos min(C_i [1 − r_i]_+, λ_i)

is not convex. Its minimum is sought by branch and bound over boxes of the coefficients, so features must be
few. The first box is |w_j| ≤ √U: outside of it G(w) ≥ ‖w‖² > U, and B ≤ U is sufficient. For w in a box B,
r_i lies between some l_i and u_i.

Theorem. For each sample let a_i (1 − r) + c_i be no more than its term in G for all r in [l_i, u_i]. Then

    G(w) ≥ Σ c_i + Σ a_i + Σ_j min_{w_j ∈ B_j} ( w_j² − v_j w_j ), v = Σ a_i y_i x̃_i, for all w ∈ B.

If the right-hand side is D, v̂_j the minimiser of its j-th term, and G(w) ≤ U, then |w_j − ½ v_j| ≤ ρ_j with
ρ_j² = U − D + (v̂_j − ½ v_j)².

Proof. Add the terms up. The j-th term of the minimum is (w_j − ½ v_j)² less a constant, so G(w) − D is at
least (w_j − ½ v_j)² − (v̂_j − ½ v_j)². ∎

For negatives 0 ≤ a_i ≤ C_i and c_i = 0. For positives the term is λ_i up to ϱ_i = 1 − λ_i / C_i, falls to 0
at 1, and is 0 from there on:

- where u_i ≤ ϱ_i, a_i = 0 and c_i = λ_i;
- where l_i ≥ ϱ_i, as for negatives;
- where u_i ≥ 1, 0 ≤ a_i ≤ λ_i / (1 − l_i) and c_i = 0: the term is concave between l_i and 1, at whose ends
  a_i (1 − r) is no more than it, and is not negative from there on;
- else the term is concave between l_i and u_i, so any a_i and c_i will do that do at these ends: those of
  the chord.

Each is the convex envelope of its term, so the bound is of second order in the size of the box, and exact
once no positive may be on two pieces. The multipliers climb a coordinate at a time.

Rounding. Ends are moved outward by the rounding of their sums, c_i is allowed by both ends, the bound is
lowered by a running error bound of all else, and ρ_j is widened by the error of v_j.

References: Gondzio, Multiple centrality corrections in a primal-dual method for linear programming (1996);
Gondzio, González-Brevis & Munari, New developments in the primal-dual column generation technique (2013);
du Merle, Hansen, Jaumard & Mladenović, An interior point algorithm for minimum sum-of-squares clustering
(1999); Aloise, Hansen & Liberti, An improved column generation algorithm for minimum sum-of-squares
clustering (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import Best, Samples, alternate, polished_face, total_cost
from polyopt.linalg.rounding import gamma
from polyopt.native.library import Struct, kernel
from polyopt.optim.best_first import BestFirst, OpenNode

MAX_FEATURES = 4
"""Features up to which G is bounded over boxes."""


@dataclass(frozen=True)
class Options:
    """Numbers of the rounds.

    max_steps, max_corrections, step_fraction: of the interior point: steps, corrections of a step, and the
        step length relative to that to the boundary.
    random_starts: random assignments whose faces are the first ones.
    max_face_rounds: alternations of a face at given prices.
    max_boxes: boxes of one search for the least face.
    max_new_faces: faces that a round adds.
    error_ratio: first error of the least face, relative to the gap of each face.
    min_gap_decrease: relative decrease of the gap below which a round counts as idle.
    max_idle_rounds, max_idle_rounds_near: idle rounds in a row, and those once the gap is within 100 times
        the tolerance.
    polish_gap: relative gap at which the incumbent is polished.
    """

    max_steps: int = 60
    max_corrections: int = 3
    step_fraction: float = 0.995
    random_starts: int = 30
    max_face_rounds: int = 30
    max_boxes: int = 200_000
    max_new_faces: int = 20
    error_ratio: float = 0.2
    min_gap_decrease: float = 0.1
    max_idle_rounds: int = 3
    max_idle_rounds_near: int = 12
    polish_gap: float = 1e-3


DEFAULT = Options()


class FaceBox(Struct):
    """A box, and work space.

    low, high, w, v (d,): the box, a face in it, and v.
    up, cap, shift (n,): a, its largest value, and c.
    least, most (n,): the ends l and u.
    open (n,): the samples whose multipliers may move.
    parts (d,): the part of each coefficient in the gap of the envelopes.
    found (4,): the results of :func:`examine_face_box`.
    """

    signature = (
        "low!: f8 (d); high!: f8 (d); w!: f8 (d); v!: f8 (d); up!: f8 (n); cap!: f8 (n); shift!: f8 (n); "
        "least!: f8 (n); most!: f8 (n); open!: i8 (n); parts!: f8 (d); found!: f8 (f)"
    )


def face_box_for(data: Samples) -> FaceBox:
    """Allocate a box."""
    n, d = data.A.shape
    of_features, of_samples = (np.zeros(d) for _ in range(4)), (np.zeros(n) for _ in range(5))
    return FaceBox(*of_features, *of_samples, np.zeros(n, np.int64), np.zeros(d), np.zeros(4))


# G(w)
price_of = kernel("cpm_price_of", "data: Samples; prices: f8 (p); w: f8 (d)", returns="f8")

_examine = kernel(
    "cpm_examine_face_box", "data: Samples; prices: f8 (p); box: FaceBox; codes!: u1 (n); goal: f8"
)

# The best face w for some positives, with multipliers a in the box caps, from an initial a; then following:
# the positives that gain by w. Returns 1 if these are others.
_round = kernel(
    "cpm_priced_round",
    "data: Samples; prices: f8 (p); positives: b1 (p); a!: f8 (n); caps!: f8 (n); zero: f8 (n); w!: f8 (d); "
    "following!: b1 (p)",
    returns="i8",
)


def examine_face_box(
    data: Samples, prices: Vector, box: FaceBox, codes: NDArray[np.uint8], goal: float
) -> tuple[float, float, int, float]:
    """Bound G over a box, shrink the box, and choose where to cut it.

    codes (n,) are initial multipliers in units of C_i / 255, and take the final ones. Returns a bound on the
    faces in the box with G < goal; G of the face in ``box.w``; the coefficient to cut, -1 if none is left;
    and the place of the cut.
    """
    _examine(data, prices, box, codes, goal)
    bound, cost, j, at = box.found.tolist()
    return bound, cost, int(j), at


def priced_face(
    data: Samples, prices: Vector, positives: NDArray[np.bool_], max_rounds: int = DEFAULT.max_face_rounds
) -> Vector:
    """Find a good face at these prices, without a proof.

    Alternate between the best face for the positives in the mask (npos,) and the positives that gain by it.
    """
    n, d = data.A.shape
    a, caps, zero, w, following = np.zeros(n), np.empty(n), np.zeros(n), np.zeros(d), positives.copy()
    for _ in range(max_rounds):
        positives = following.copy()
        if not _round(data, prices, positives, a, caps, zero, w, following):
            break
    return w


def bound_at_prices(prices: Vector, least: float, n_faces: int) -> float:
    """Return the theorem's bound for prices λ (npos,) and B = `least`, rounded down."""
    total = math.fsum(prices)
    value = total + n_faces * (least - total)
    return float(value - gamma(8) * (n_faces * (abs(least) + total) + total))


class Prices(NamedTuple):
    """λ (npos,), and the weights z (faces,) of the location program."""

    prices: Vector
    weights: Vector


def location_prices(
    costs: Vector, hinges: Vector, n_faces: int, tol: float, options: Options = DEFAULT
) -> Prices | None:
    """Solve the location program with f (faces,) and h (faces, npos); None if numbers overflow."""
    with np.errstate(all="ignore"):
        point = _Point(costs, hinges, n_faces, options)
        for _ in range(options.max_steps):
            if not point.gap > tol * (abs(point.value) + point.gap) or not point.step():
                break
    prices = np.maximum(point.prices, 0.0)
    if not (np.isfinite(prices).all() and np.isfinite(point.weights).all()):
        return None
    return Prices(prices, point.weights)


class _Move(NamedTuple):
    """A step in z, μ, λ, the pairs (x, z − x) and their multipliers (h − λ + s, s)."""

    z: Vector
    mu: float
    prices: Vector
    pairs: Vector  # (2, faces, npos)
    duals: Vector


class _Point:
    """A feasible point: pairs (2, faces, npos) x and z − x, duals their multipliers."""

    def __init__(self, costs: Vector, hinges: Vector, n_faces: int, options: Options):
        count, npos = hinges.shape
        self.n_faces, self.options = n_faces, options
        self.weights = np.full(count, n_faces / count)
        one = np.full((count, npos), 1.0 / count)
        self.pairs = np.stack([one, (n_faces - 1) * one])
        size = max(hinges.max(), float(np.ptp(costs)) / npos, np.finfo(float).tiny)
        self.mu = float(costs.min()) - npos * size
        multipliers = np.repeat((costs - self.mu)[:, None] / npos, npos, axis=1)
        self.prices = hinges.min(axis=0) + (2 - n_faces) * size
        self.duals = np.stack([hinges + multipliers - self.prices, multipliers])

    @property
    def gap(self) -> float:
        """Duality gap."""
        return float((self.pairs * self.duals).sum())

    @property
    def value(self) -> float:
        """Σ λ + K μ."""
        return float(self.prices.sum() + self.n_faces * self.mu)

    def step(self) -> bool:
        """Take a predictor-corrector step; return False if it failed."""
        pairs, duals = self.pairs, self.duals
        newton = _Newton(pairs, duals)
        products, gap = pairs * duals, self.gap
        if not newton.is_sound:
            return False
        first = newton.solve(-products)
        ahead, behind = (min(1.0, part / self.options.step_fraction) for part in self._lengths(first))
        after = float(((pairs + ahead * first.pairs) * (duals + behind * first.duals)).sum())
        aim = min((after / gap) ** 3, 0.3) * gap / products.size
        lower, upper = aim / 10.0, 10.0 * aim  # corrections leave products in between alone
        rhs = aim - products - ahead * behind * first.pairs * first.duals
        move = newton.solve(rhs)
        ahead, behind = self._lengths(move)
        for _ in range(self.options.max_corrections):
            longer, further = min(1.0, 1.1 * ahead + 0.1), min(1.0, 1.1 * behind + 0.1)
            reached = (pairs + longer * move.pairs) * (duals + further * move.duals)
            rhs = rhs + np.maximum(np.clip(reached, lower, upper) - reached, -upper)
            other = newton.solve(rhs)
            lengths = self._lengths(other)
            if not sum(lengths) > ahead + behind + 0.01:
                break
            move, (ahead, behind) = other, lengths
        if not np.isfinite(ahead + behind + move.mu):
            return False
        self.weights += ahead * move.z
        self.pairs += ahead * move.pairs
        self.mu += behind * move.mu
        self.prices += behind * move.prices
        self.duals += behind * move.duals
        return bool(self.pairs.min() > 0.0 and self.duals.min() > 0.0)

    def _lengths(self, move: _Move) -> tuple[float, float]:
        """Return the largest steps that keep pairs and duals positive."""
        fraction = self.options.step_fraction
        steepest = float((-move.pairs / self.pairs).max()), float((-move.duals / self.duals).max())
        return fraction / max(steepest[0], fraction), fraction / max(steepest[1], fraction)


class _Newton:
    """Newton's equations at a point, for any right-hand side.

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

    def solve(self, rhs: Vector) -> _Move:
        """Return the step that changes the products of pairs and multipliers by `rhs`, to first order."""
        ends = rhs[1] / self.pairs[1]
        e = (rhs[0] / self.duals[0] - self.a * ends) * self.below
        r = ends + self.b * e
        reduced_rhs = r.sum(axis=1) - (self.g * (e.sum(axis=0) / self.total)).sum(axis=1)
        z, ones = self.inverse @ reduced_rhs, self.inverse.sum(axis=1)
        mu = -z.sum() / ones.sum()
        z = z + mu * ones
        prices = -(e.sum(axis=0) + z @ self.g) / self.total
        x = e + self.g * z[:, None] + self.q * prices
        s = r - self.k * z[:, None] + self.g * prices
        return _Move(z, float(mu), prices, np.stack([x, z[:, None] - x]), np.stack([s - prices, s]))


class Columns:
    """The known faces W, their prices, and the incumbent, which they improve.

    data has both classes; `tol` is the relative gap of the location program, `precision` that of new points.
    """

    def __init__(self, data: Samples, best: Best, tol: float, precision: float, options: Options = DEFAULT):
        self.data, self.best, self.tol, self.precision, self.options = data, best, tol, precision, options
        self.W: list[Vector] = []
        self._costs: list[float] = []
        self._hinges: list[Vector] = []
        self._known: set[bytes] = set()

    def begin(self, clock: Clock, rng: np.random.Generator, max_faces: float = np.inf) -> None:
        """Add the incumbent's faces, constant faces, and faces of random assignments, at most so many."""
        points, K = self.data.points, len(self.best.W)
        for w in self.best.W:
            self.add(w)
        for bias in (-1.0, 1.0):
            self.add(np.append(np.zeros(points.shape[1] - 1), bias))
        for _ in range(self.options.random_starts):
            face = (points[:, :-1] @ rng.normal(size=(points.shape[1] - 1, K))).argmax(axis=1)
            for k in range(K):
                if clock.is_over or len(self.W) >= max_faces:
                    return
                self.add(priced_face(self.data, np.where(face == k, np.inf, 0.0), face == k))

    def add(self, w: Vector) -> None:
        """Add a face that is not known yet."""
        key, inside = np.round(w, 9).tobytes(), self.data.inside
        if key in self._known:
            return
        loss = np.maximum(1.0 - self.data.A @ w, 0.0) * self.data.C
        self._known.add(key)
        self.W.append(w.copy())
        self._costs.append(float(w @ w + loss[:inside].sum()))
        self._hinges.append(loss[inside:])

    def solve_prices(self, clock: Clock) -> Prices | None:
        """Solve the location program, and try the faces of largest weight as an incumbent."""
        costs, hinges = np.array(self._costs), np.array(self._hinges)
        location = location_prices(costs, hinges, len(self.best.W), self.tol, self.options)
        if location is not None:
            largest = np.argsort(-location.weights, kind="stable")
            W = np.array([self.W[t] for t in np.resize(largest, len(self.best.W))])
            face = (self.data.points @ W.T).argmax(axis=1)
            self.best.offer(alternate(self.data, face, W, self.precision * self.best.cost, clock), W)
        return location

    def least_cost(self, prices: Vector) -> float:
        """Return the least G of the known faces."""
        return min(price_of(self.data, prices, w) for w in self.W)

    def gaining(self, w: Vector, prices: Vector) -> NDArray[np.bool_]:
        """Return a mask (npos,) of the positives whose loss on a face is below their price."""
        rows = slice(self.data.inside, None)
        return np.asarray(np.maximum(1.0 - self.data.A[rows] @ w, 0.0) * self.data.C[rows] < prices)


class Box(NamedTuple):
    """A box of coefficients, and multipliers in units of the costs."""

    low: Vector
    high: Vector
    codes: NDArray[np.uint8]


class LeastFace(BestFirst[Box]):
    """Branch and bound for a face with the least G.

    It ends with faces that cost less than `known`, or with a proof that none costs less by more than `error`.
    """

    def __init__(self, data: Samples, prices: Vector, known: float, error: float, work: FaceBox):
        n, d = data.A.shape
        super().__init__(0.0, n + 16 * d + 400)
        self.data, self.prices, self.known, self.error, self.work = data, prices, known, error, work
        self.goal = known - error
        self.faces: list[tuple[float, int, Vector]] = []
        widest = np.full(d, math.sqrt(max(known, 0.0)) * (1.0 + 1e-9))
        self.push([(0.0, Box(-widest, widest, np.zeros(n, dtype=np.uint8)))])

    @property
    def objective(self) -> float:
        """The bound that is wanted; parts that shrunken boxes leave out have at least this bound."""
        return self.goal

    cutoff = objective

    def expand(self, node: OpenNode[Box]) -> list[tuple[float, Box]]:
        """Bound a box and cut it in two."""
        work = self.work
        work.low[:], work.high[:] = node.state.low, node.state.high
        codes = node.state.codes.copy()
        bound, cost, j, at = examine_face_box(self.data, self.prices, work, codes, self.goal)
        bound = max(bound, node.bound)
        if cost < self.known - 0.5 * self.error:
            self.faces.append((cost, self.nodes, work.w.copy()))
            self.goal = min(self.goal, cost - 0.5 * self.error)
        if bound >= self.goal or j < 0:
            self.close(bound)
            return []
        low, high = work.low.copy(), work.high.copy()
        middle_low, middle_high = low.copy(), high.copy()
        middle_low[j] = middle_high[j] = at
        return [(bound, Box(low, middle_high, codes)), (bound, Box(middle_low, high, codes))]


class PriceSearch:
    """Rounds of prices, and of faces at them; the incumbent is improved on the way.

    bound: the best bound so far.
    prices (npos,): the prices that prove it.
    is_done: True if another round would bring nothing, or none is needed.
    """

    def __init__(
        self, data: Samples, best: Best, tol: float, rng: np.random.Generator, options: Options = DEFAULT
    ):
        self.data, self.best, self.tol, self.options = data, best, tol, options
        self.n_faces = len(best.W)
        self.columns = Columns(data, best, tol=0.01 * tol, precision=1e-4 * tol, options=options)
        self.box = face_box_for(data)
        self.bound, self.is_done, self.prices = 0.0, False, np.zeros(data.npos)
        self._polished, self._idle = np.inf, 0
        self._error = options.error_ratio * best.cost / self.n_faces  # allowed for the least face
        self.columns.begin(Clock(), rng)

    @property
    def of_samples(self) -> Vector:
        """The prices as a column for all samples (n, 1), 0 at the negatives."""
        return np.concatenate([np.zeros(self.data.inside), self.prices])[:, None]

    @property
    def is_closed(self) -> bool:
        """True if the gap is closed."""
        return self.best.cost - self.bound <= self.tol * self.best.cost

    def look(self, clock: Clock) -> None:
        """Make a round: prices, and the least face at them."""
        options, columns = self.options, self.columns
        finest = 0.2 * self.tol * self.best.cost / self.n_faces
        error = max(self._error, finest)
        location = columns.solve_prices(clock)
        if location is None:
            self.is_done = True
            return
        prices = location.prices
        search = LeastFace(self.data, prices, columns.least_cost(prices), error, self.box)
        while not (search.is_done or clock.is_over or search.nodes >= options.max_boxes):
            search.step()
        before, proven = self.bound, bound_at_prices(prices, search.bound, self.n_faces)
        if proven > self.bound:
            self.bound, self.prices = proven, prices
        count = len(columns.W)
        for _, _, w in sorted(search.faces)[: options.max_new_faces]:
            better = priced_face(self.data, prices, columns.gaining(w, prices), options.max_face_rounds)
            columns.add(min(w, better, key=lambda face: price_of(self.data, prices, face)))
        is_new = len(columns.W) > count
        self._polish(clock)
        gap = self.best.cost - self.bound
        has_fallen = self.bound - before > options.min_gap_decrease * (self.best.cost - before)
        self._idle = 0 if has_fallen else self._idle + 1
        self._error = min(error if is_new else 0.1 * error, options.error_ratio * gap / self.n_faces)
        is_near = gap <= 100 * self.tol * self.best.cost
        patience = options.max_idle_rounds_near if is_near else options.max_idle_rounds
        self.is_done = (
            self.is_closed
            or self._idle > patience
            or not (is_new or clock.is_over or (search.is_done and error > finest))
        )

    def _polish(self, clock: Clock) -> None:
        """Solve the incumbent's faces to the end, once the gap is small."""
        best = self.best.cost
        if best == self._polished or best - self.bound > self.options.polish_gap * best:
            return
        face = (self.data.points @ self.best.W.T).argmax(axis=1)
        small = 0.1 * self.tol * best / self.n_faces
        W = np.array([polished_face(self.data, face, k, small, clock)[1] for k in range(self.n_faces)])
        self.best.offer(total_cost(self.data, W, face), W)
        self._polished = self.best.cost
