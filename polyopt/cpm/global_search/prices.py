"""Lower bound for the Convex Polytope Machine in few dimensions: column generation and branch and bound.

The machine is a facility location problem: K facilities, the faces, are placed. A face w costs by itself
f(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+ with x̃ = (x, 1), and each positive has the hinge loss
h_i(w) = C_i [1 − w·x̃_i]_+ of its cheapest face. The bound has a multiplier per positive, its *price* λ_i.

Theorem. Let λ ≥ 0, and let G(w) = f(w) + Σ_pos min(h_i(w), λ_i) be the *priced cost* of a face. If G(w) ≥ B
for all w, then any K faces together cost at least Σ λ_i + K (B − Σ λ_i).

Proof. For numbers h_1 ... h_K, min_k h_k ≥ λ − max_k [λ − h_k]_+ ≥ λ − Σ_k [λ − h_k]_+, which is
λ + Σ_k (min(h_k, λ) − λ). Put in h_ik for each positive, add up, and add Σ_k f(w_k): the cost is at least
Σ λ_i + Σ_k (G(w_k) − Σ λ_i). ∎

So each face is bounded separately, in dimension d instead of K d, and the bound does not depend on the order
of the faces. At the best prices it is the value of the linear relaxation over all possible faces; on the data
tried that is mostly the optimum itself, as in other location problems. Column generation finds it: the prices
are multipliers of a linear program over the known faces (:func:`location_prices`), and faces with a smaller
priced cost than these are added (:class:`LeastFace`). :class:`PriceSearch` alternates between the two.

**The location program** selects among the known faces t, with costs f_t and losses h_ti: its relaxation is

    min Σ_t f_t z_t + Σ_ti h_ti x_ti   s.t.   Σ_t x_ti = 1 for each i,   0 ≤ x_ti ≤ z_t,   Σ_t z_t = K,

has multipliers λ_i and μ of its equations; its dual is max Σ λ_i + K μ over s ≥ 0, h_ti − λ_i + s_ti ≥ 0,
Σ_i s_ti = f_t − μ. An interior-point method solves it: Mehrotra's predictor-corrector steps with Gondzio's
centrality corrections, from a feasible point. Eliminating the slacks, then x, then λ leaves equations in z
alone, so a step costs (faces)² times the positives. An interior point ends near the centre of the optimal
prices, which changes little from one program to the next. The bound is valid for any λ ≥ 0.

**The least face at fixed prices.** With r_i = y_i x̃_i·w, where y_i = -1 for negatives,

    G(w) = ‖w‖² + Σ_neg C_i [1 − r_i]_+ + Σ_pos min(C_i [1 − r_i]_+, λ_i)

is not convex. It is minimised by branch and bound over boxes of the coefficients w, so features must be few.
With the priced cost U of a known face, the first box is |w_j| ≤ √U: outside of it G(w) ≥ ‖w‖² > U. For w in
a box Q = Π_j Q_j, each r_i is in an interval [l_i, u_i].

Theorem. For each sample let a_i (1 − r) + c_i be at most its term in G at every r in [l_i, u_i]. Then

    G(w) ≥ Σ c_i + Σ a_i + Σ_j min_{w_j ∈ Q_j} ( w_j² − v_j w_j ), v = Σ a_i y_i x̃_i, for all w ∈ Q.

If the right-hand side is D, v̂_j the minimiser of its j-th term, and G(w) ≤ U, then |w_j − ½ v_j| ≤ ρ_j with
ρ_j² = U − D + (v̂_j − ½ v_j)².

Proof. Add the terms up. The j-th term of the minimum is (w_j − ½ v_j)² less a constant, so G(w) − D is at
least (w_j − ½ v_j)² − (v̂_j − ½ v_j)². ∎

For negatives 0 ≤ a_i ≤ C_i and c_i = 0. The term of a positive is λ_i up to r = κ_i = 1 − λ_i / C_i, falls
linearly to 0 at r = 1, and is 0 beyond. There are four cases:

- u_i ≤ κ_i: a_i = 0 and c_i = λ_i;
- l_i ≥ κ_i: as for negatives;
- l_i < κ_i and u_i ≥ 1: 0 ≤ a_i ≤ λ_i / (1 − l_i) and c_i = 0. The term is concave on [l_i, 1] and at least
  a_i (1 − r) at both ends; beyond 1, a_i (1 − r) is not positive;
- otherwise the term is concave on [l_i, u_i], and a_i and c_i are those of its chord.

The best a_i gives the convex envelope of the term. So the error of the bound is of second order in the size
of the box, and 0 once all terms are convex. The a_i are optimised by coordinate ascent.

The arrays of all samples begin with the ``inside`` negatives; the npos positives follow.

Rounding. Intervals are widened by the rounding of their sums, c_i is made valid at both ends, a running error
bound of everything else is subtracted from the bound, and ρ_j is increased by the error of v_j.

References: Gondzio, Multiple centrality corrections in a primal-dual method for linear programming (1996);
Gondzio, González-Brevis & Munari, New developments in the primal-dual column generation technique (2013);
du Merle, Hansen, Jaumard & Mladenović, An interior point algorithm for minimum sum-of-squares clustering
(1999); Aloise, Hansen & Liberti, An improved column generation algorithm for minimum sum-of-squares
clustering (2012).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import (
    Best,
    Samples,
    alternate,
    climb,
    hyperplane,
    polished_faces,
    total_cost,
)
from polyopt.linalg.rounding import gamma
from polyopt.native.library import Struct, kernel
from polyopt.optim.best_first import BestFirst, OpenNode

MAX_FEATURES = 4
"""Number of features, without the bias, up to which G is bounded over boxes."""


@dataclass(frozen=True)
class Options:
    """Parameters of the column generation."""

    max_steps: int = 60  # largest number of interior-point steps for a location program
    max_corrections: int = 3  # largest number of centrality corrections of an interior-point step
    step_fraction: float = 0.995  # length of an interior-point step, relative to the distance to the boundary
    random_starts: int = 30  # number of random assignments whose faces are the first columns
    max_face_rounds: int = 30  # largest number of alternations of `priced_face`
    face_sweeps: int = 300  # largest number of coordinate sweeps over a face in one of them
    min_face_increase: float = 1e-9  # increase by a sweep at which they end, relative to the sum of the costs
    max_boxes: int = 200_000  # largest number of boxes of one search for the least face
    max_new_faces: int = 20  # largest number of faces that a round adds
    tolerance_ratio: float = 0.2  # largest tolerance of a search for the least face, relative to gap / K
    min_tolerance_ratio: float = 0.2  # smallest such tolerance, relative to the allowed gap / K
    tolerance_decrease: float = 0.1  # factor of the tolerance after a round without a new face
    min_gap_decrease: float = 0.1  # relative decrease of the gap below which a round counts as idle
    max_idle_rounds: int = 3  # number of idle rounds in a row that are allowed; one more ends the search
    max_idle_rounds_near: int = 12  # allowed number if the gap is at most 100 times the search's tolerance
    polish_gap: float = 1e-3  # relative gap up to which the incumbent's faces are solved to high precision


OPTIONS = Options()


class FaceBox(Struct):
    """A box of coefficients, and work space.

    low, high (d,): the box Q.
    w, v (d,): a face in the box, and v of the theorem.
    a, cap, c (n,): a_i, its upper bound, and c_i.
    lower, upper (n,): the intervals [l_i, u_i].
    movable (n,): indices of the samples whose a_i may change.
    gap_parts (d,): contribution of each coefficient to the gap between G(w) and the bound.
    results (4,): the values that :func:`examine_face_box` returns.
    """

    signature = (
        "low!: f8 (d); high!: f8 (d); w!: f8 (d); v!: f8 (d); a!: f8 (n); cap!: f8 (n); c!: f8 (n); "
        "lower!: f8 (n); upper!: f8 (n); movable!: i8 (n); gap_parts!: f8 (d); results!: f8 (f)"
    )


def face_box_for(data: Samples) -> FaceBox:
    """Allocate a box."""
    n, d = data.A.shape
    of_features, of_samples = (np.zeros(d) for _ in range(4)), (np.zeros(n) for _ in range(5))
    return FaceBox(*of_features, *of_samples, np.zeros(n, np.int64), np.zeros(d), np.zeros(4))


_examine = kernel(
    "cpm_examine_face_box", "data: Samples; prices: f8 (p); box: FaceBox; codes!: u1 (n); goal: f8"
)


def priced_cost(data: Samples, prices: Vector, w: Vector) -> float:
    """Return G(w)."""
    loss = data.C * np.maximum(1.0 - data.A @ w, 0.0)
    return float(w @ w + loss[: data.inside].sum() + np.minimum(loss[data.inside :], prices).sum())


def below_price(data: Samples, prices: Vector, w: Vector) -> NDArray[np.bool_]:
    """Return a mask (npos,) of the positives whose loss on a face is below their price."""
    return np.asarray(data.C[data.inside :] * np.maximum(1.0 - data.points @ w, 0.0) < prices)


def examine_face_box(
    data: Samples, prices: Vector, box: FaceBox, codes: NDArray[np.uint8], goal: float
) -> tuple[float, float, int, float]:
    """Bound G over a box, shrink the box, and choose where to cut it.

    codes (n,): initial a_i in units of C_i / 255; the final a_i replace them.
    Returns four values: a lower bound on G of the faces in the box with G < goal; G of the face in ``box.w``;
        the index of the coefficient to cut, -1 if no part of the box is left; and where to cut it.
    """
    _examine(data, prices, box, codes, goal)
    bound, value, j, cut = box.results.tolist()
    return bound, value, int(j), cut


def priced_face(data: Samples, prices: Vector, positives: NDArray[np.bool_]) -> Vector:
    """Return a face w (d,) of low priced cost, a local minimum.

    positives (npos,): mask from which two steps alternate: fit a face to the positives of the mask; set the
        mask to the positives whose loss on that face is below their price.
    """
    n, d = data.A.shape
    a, zero, w = np.zeros(n), np.zeros(n), np.zeros(d)
    for _ in range(OPTIONS.max_face_rounds):
        caps = np.append(data.C[: data.inside], np.where(positives, data.C[data.inside :], 0.0))
        np.minimum(a, caps, out=a)
        hyperplane(data, a, w)
        climb(data, zero, caps, a, w, OPTIONS.face_sweeps, np.inf, OPTIONS.min_face_increase * data.C.sum())
        previous, positives = positives, below_price(data, prices, w)
        if (positives == previous).all():
            break
    return w


def bound_at_prices(prices: Vector, least: float, n_faces: int) -> float:
    """Return the theorem's bound for prices λ (npos,) and B = `least`, rounded down."""
    total = math.fsum(prices)
    value = total + n_faces * (least - total)
    return float(value - gamma(8) * (n_faces * (abs(least) + total) + total))


class Location(NamedTuple):
    """Solution of the location program."""

    prices: Vector  # (npos,) λ
    weights: Vector  # (faces,) z


def location_prices(costs: Vector, hinges: Vector, n_faces: int, tol: float) -> Location | None:
    """Solve the location program with f (faces,) and h (faces, npos); None if numbers overflow."""
    with np.errstate(all="ignore"):
        point = _InteriorPoint(costs, hinges, n_faces)
        for _ in range(OPTIONS.max_steps):
            if not point.gap > tol * (abs(point.value) + point.gap) or not point.step():
                break
    prices = np.maximum(point.prices, 0.0)
    if not (np.isfinite(prices).all() and np.isfinite(point.weights).all()):
        return None
    return Location(prices, point.weights)


class _Direction(NamedTuple):
    """A Newton direction."""

    z: Vector  # (faces,)
    mu: float
    prices: Vector  # (npos,)
    slacks: Vector  # (2, faces, npos) change of the slacks x and z − x
    duals: Vector  # (2, faces, npos) change of their multipliers h − λ + s and s


class _InteriorPoint:
    """A feasible interior point.

    weights (faces,), prices (npos,), mu: z, λ and μ.
    slacks, duals (2, faces, npos): x and z − x, and their multipliers h − λ + s and s.
    """

    def __init__(self, costs: Vector, hinges: Vector, n_faces: int):
        count, npos = hinges.shape
        self.n_faces = n_faces
        self.weights = np.full(count, n_faces / count)
        x = np.full((count, npos), 1.0 / count)
        self.slacks = np.stack([x, (n_faces - 1) * x])
        # Strictly feasible multipliers for K ≥ 2: s_ti is the same for all i and at least `scale`, and
        # h − λ + s is at least (K − 1) `scale`.
        scale = max(hinges.max(), float(np.ptp(costs)) / npos, np.finfo(float).tiny)
        self.mu = float(costs.min()) - npos * scale
        multipliers = np.repeat((costs - self.mu)[:, None] / npos, npos, axis=1)
        self.prices = hinges.min(axis=0) + (2 - n_faces) * scale
        self.duals = np.stack([hinges + multipliers - self.prices, multipliers])

    @property
    def gap(self) -> float:
        """Duality gap."""
        return float((self.slacks * self.duals).sum())

    @property
    def value(self) -> float:
        """Dual objective Σ λ + K μ."""
        return float(self.prices.sum() + self.n_faces * self.mu)

    def step(self) -> bool:
        """Take a predictor-corrector step; return False if it failed."""
        slacks, duals = self.slacks, self.duals
        newton = _Newton(slacks, duals)
        products, gap = slacks * duals, self.gap
        if not newton.is_sound:
            return False
        predictor = newton.solve(-products)
        fraction = OPTIONS.step_fraction
        # The predictor alone would go up to the boundary.
        primal_step, dual_step = (min(1.0, step / fraction) for step in self._step_lengths(predictor))
        predicted = (slacks + primal_step * predictor.slacks) * (duals + dual_step * predictor.duals)
        predicted_gap = float(predicted.sum())
        # Mehrotra: the common value of the products to aim at, from the gap that the predictor reaches.
        centred = min((predicted_gap / gap) ** 3, 0.3) * gap / products.size
        lower, upper = centred / 10.0, 10.0 * centred
        rhs = centred - products - primal_step * dual_step * predictor.slacks * predictor.duals
        direction = newton.solve(rhs)
        primal_step, dual_step = self._step_lengths(direction)
        # Gondzio: correct the direction, so that a longer step keeps the products in [lower, upper].
        for _ in range(OPTIONS.max_corrections):
            trial_primal, trial_dual = min(1.0, 1.1 * primal_step + 0.1), min(1.0, 1.1 * dual_step + 0.1)
            trial_slacks = slacks + trial_primal * direction.slacks
            trial_products = trial_slacks * (duals + trial_dual * direction.duals)
            rhs = rhs + np.maximum(np.clip(trial_products, lower, upper) - trial_products, -upper)
            corrected = newton.solve(rhs)
            new_primal, new_dual = self._step_lengths(corrected)
            if not new_primal + new_dual > primal_step + dual_step + 0.01:  # too little gain, or nan
                break
            direction, primal_step, dual_step = corrected, new_primal, new_dual
        if not np.isfinite(primal_step + dual_step + direction.mu):
            return False
        self.weights += primal_step * direction.z
        self.slacks += primal_step * direction.slacks
        self.mu += dual_step * direction.mu
        self.prices += dual_step * direction.prices
        self.duals += dual_step * direction.duals
        return bool(self.slacks.min() > 0.0 and self.duals.min() > 0.0)

    def _step_lengths(self, direction: _Direction) -> tuple[float, float]:
        """Return primal and dual step lengths: `step_fraction` of the way to the boundary, but at most 1."""
        fraction = OPTIONS.step_fraction
        slack_decrease = float((-direction.slacks / self.slacks).max())  # largest relative decrease
        dual_decrease = float((-direction.duals / self.duals).max())
        return fraction / max(slack_decrease, fraction), fraction / max(dual_decrease, fraction)


class _Newton:
    """Newton's equations at a point, for any right-hand side.

    With p and s the multipliers of x ≥ 0 and z − x ≥ 0, a = x / p and b = s / (z − x), the step is

        dx = e + g dz + q dλ,   ds = r − k dz + g dλ,   Σ_t dx_ti = 0,   Σ_i ds_ti = −dμ,   Σ_t dz_t = 0,

    where g = ab / (1 + ab), q = a / (1 + ab), k = b / (1 + ab), and e and r follow from the right-hand side.
    Eliminating dx, ds and dλ leaves a symmetric system in dz and dμ. The letters a, b, g, q, k, e, r are used
    in these equations only; the others are those of the location program.
    """

    def __init__(self, slacks: Vector, duals: Vector):
        self.slacks, self.duals = slacks, duals
        self.a, self.b = slacks[0] / duals[0], duals[1] / slacks[1]
        self.reciprocal = 1.0 / (1.0 + self.a * self.b)
        self.q, self.k = self.a * self.reciprocal, self.b * self.reciprocal
        self.g = self.a * self.b * self.reciprocal
        self.q_sums = self.q.sum(axis=0)
        system = (self.g / self.q_sums) @ self.g.T
        diagonal = np.einsum("ii->i", system)
        ridge = 1e-14 * (diagonal.mean() + self.k.sum() / len(system))
        diagonal += self.k.sum(axis=1) + ridge
        self.is_sound = bool(np.isfinite(system).all())
        self.inverse = np.linalg.pinv(system, hermitian=True) if self.is_sound else system

    def solve(self, rhs: Vector) -> _Direction:
        """Return the direction that changes the products slacks · duals by `rhs`, to first order."""
        slack_rhs = rhs[1] / self.slacks[1]
        e = (rhs[0] / self.duals[0] - self.a * slack_rhs) * self.reciprocal
        r = slack_rhs + self.b * e
        reduced_rhs = r.sum(axis=1) - (self.g * (e.sum(axis=0) / self.q_sums)).sum(axis=1)
        # The system is S dz = reduced_rhs + dμ (1, …, 1)', and dμ follows from Σ dz = 0.
        z, per_mu = self.inverse @ reduced_rhs, self.inverse.sum(axis=1)
        mu = -z.sum() / per_mu.sum()
        z = z + mu * per_mu
        prices = -(e.sum(axis=0) + z @ self.g) / self.q_sums
        x = e + self.g * z[:, None] + self.q * prices
        s = r - self.k * z[:, None] + self.g * prices
        return _Direction(z, float(mu), prices, np.stack([x, z[:, None] - x]), np.stack([s - prices, s]))


class Columns:
    """The columns of the location program: the known faces W, with their costs f and losses h of positives.

    tol: relative gap to which the location program is solved.
    precision: precision of alternation (between assigning positives and fitting faces), relative to the cost.
    """

    def __init__(self, data: Samples, best: Best, tol: float, precision: float):
        self.data, self.best, self.tol, self.precision = data, best, tol, precision
        self.W: list[Vector] = []
        self._costs: list[float] = []
        self._hinges: list[Vector] = []
        self._known: set[bytes] = set()  # the known faces, rounded

    def add_initial(self, clock: Clock, rng: np.random.Generator, max_faces: float = np.inf) -> None:
        """Add the incumbent's faces, constant faces, and faces of random assignments, up to `max_faces`."""
        points, K = self.data.points, len(self.best.W)
        for w in self.best.W:
            self.add(w)
        for bias in (-1.0, 1.0):
            self.add(np.append(np.zeros(points.shape[1] - 1), bias))
        for _ in range(OPTIONS.random_starts):
            assignment = (points[:, :-1] @ rng.normal(size=(points.shape[1] - 1, K))).argmax(axis=1)
            for k in range(K):
                if clock.is_over or len(self.W) >= max_faces:
                    return
                # At these prices only the losses of positives assigned to face k count.
                prices = np.where(assignment == k, np.inf, 0.0)
                self.add(priced_face(self.data, prices, assignment == k))

    def add(self, w: Vector) -> None:
        """Add a face, unless it is known already."""
        key, inside = np.round(w, 9).tobytes(), self.data.inside
        if key in self._known:
            return
        loss = np.maximum(1.0 - self.data.A @ w, 0.0) * self.data.C
        self._known.add(key)
        self.W.append(w.copy())
        self._costs.append(float(w @ w + loss[:inside].sum()))
        self._hinges.append(loss[inside:])

    def solve_prices(self, clock: Clock) -> Location | None:
        """Solve the location program; offer the K faces of largest weight, improved by alternation."""
        costs, hinges = np.array(self._costs), np.array(self._hinges)
        location = location_prices(costs, hinges, len(self.best.W), self.tol)
        if location is not None:
            by_weight = np.argsort(-location.weights, kind="stable")
            # np.resize repeats faces if fewer than K are known.
            W = np.array([self.W[t] for t in np.resize(by_weight, len(self.best.W))])
            assignment = (self.data.points @ W.T).argmax(axis=1)
            self.best.offer(alternate(self.data, assignment, W, self.precision * self.best.cost, clock), W)
        return location

    def least_cost(self, prices: Vector) -> float:
        """Return the least priced cost of the known faces."""
        return min(priced_cost(self.data, prices, w) for w in self.W)


class Box(NamedTuple):
    """An open box of coefficients."""

    low: Vector  # (d,)
    high: Vector  # (d,)
    codes: NDArray[np.uint8]  # (n,) a_i from which those of this box are optimised, in units of C_i / 255


class LeastFace(BestFirst[Box]):
    """Branch and bound for the face with the least priced cost; all costs below are priced costs.

    It finds faces below `known_cost`, the least of the known faces, or proves that none is below it by more
    than `tolerance`.

    faces: for each face found its cost, the number of its node (so that a sort never compares two w), and w.
    goal: boxes are closed if no face in them costs less than the goal.
    """

    def __init__(self, data: Samples, prices: Vector, known_cost: float, tolerance: float, work: FaceBox):
        n, d = data.A.shape
        super().__init__(0.0, node_bytes=n + 16 * d + 400)  # codes, low and high, and some objects
        self.data, self.prices, self.work = data, prices, work
        self.known_cost, self.tolerance = known_cost, tolerance
        self.goal = known_cost - tolerance
        self.faces: list[tuple[float, int, Vector]] = []
        widest = np.full(d, math.sqrt(max(known_cost, 0.0)) * (1.0 + 1e-9))
        self.push([(0.0, Box(-widest, widest, np.zeros(n, dtype=np.uint8)))])

    @property
    def objective(self) -> float:
        """The goal: shrinking a box proves no bound above the goal for the removed parts."""
        return self.goal

    cutoff = objective  # `BestFirst` would subtract a tolerance, but the goal includes it already

    def expand(self, node: OpenNode[Box]) -> list[tuple[float, Box]]:
        """Bound a box and cut it in two."""
        work = self.work
        work.low[:], work.high[:] = node.state.low, node.state.high
        codes = node.state.codes.copy()
        bound, cost, j, cut = examine_face_box(self.data, self.prices, work, codes, self.goal)
        bound = max(bound, node.bound)
        # Half of the tolerance is the decrease that counts; the other half is left to the proof.
        if cost < self.known_cost - 0.5 * self.tolerance:
            self.faces.append((cost, self.nodes, work.w.copy()))
            self.goal = min(self.goal, cost - 0.5 * self.tolerance)
        if bound >= self.goal or j < 0:
            self.close(bound)
            return []
        low, high = work.low.copy(), work.high.copy()
        right_low, left_high = low.copy(), high.copy()
        right_low[j] = left_high[j] = cut
        return [(bound, Box(low, left_high, codes)), (bound, Box(right_low, high, codes))]


class PriceSearch:
    """Column generation: rounds of new prices and of new faces, which also improve the incumbent.

    bound, prices (npos,): the largest bound so far, and the prices that prove it.
    is_done: True if the gap is closed, or another round is not expected to improve the bound.
    """

    def __init__(self, data: Samples, best: Best, tol: float, rng: np.random.Generator):
        self.data, self.best, self.tol = data, best, tol
        self.n_faces = len(best.W)
        self.columns = Columns(data, best, tol=0.01 * tol, precision=1e-4 * tol)
        self.box = face_box_for(data)
        self.bound, self.is_done, self.prices = 0.0, False, np.zeros(data.npos)
        self._polished_cost = np.inf  # cost of the last incumbent whose faces were solved precisely
        self._n_idle = 0  # number of idle rounds in a row
        self._tolerance = OPTIONS.tolerance_ratio * best.cost / self.n_faces  # for the next search for a face
        self.columns.add_initial(Clock(), rng)

    @property
    def prices_of_samples(self) -> Vector:
        """The prices of all samples (n, 1), 0 for the negatives."""
        return np.concatenate([np.zeros(self.data.inside), self.prices])[:, None]

    @property
    def is_closed(self) -> bool:
        """True if the gap is closed."""
        return self.best.cost - self.bound <= self.tol * self.best.cost

    def run_round(self, clock: Clock) -> None:
        """Solve for the prices, bound the least priced cost, and add new faces with low ones.

        The tolerance of the search for a face stays while rounds add faces, and else decreases; it is kept
        between `min_tolerance_ratio` · tol · cost / K and `tolerance_ratio` · gap / K. The rounds end if the
        gap is closed, after too many idle rounds, or with neither a new face nor a smaller tolerance to try.
        """
        columns = self.columns
        min_tolerance = OPTIONS.min_tolerance_ratio * self.tol * self.best.cost / self.n_faces
        tolerance = max(self._tolerance, min_tolerance)
        location = columns.solve_prices(clock)
        if location is None:
            self.is_done = True
            return
        prices = location.prices
        search = LeastFace(self.data, prices, columns.least_cost(prices), tolerance, self.box)
        while not (search.is_done or clock.is_over or search.nodes >= OPTIONS.max_boxes):
            search.step()
        old_bound, new_bound = self.bound, bound_at_prices(prices, search.bound, self.n_faces)
        if new_bound > self.bound:
            self.bound, self.prices = new_bound, prices
        n_known = len(columns.W)
        # Add the cheapest faces found, each or the local minimum near it.
        for _, _, w in sorted(search.faces)[: OPTIONS.max_new_faces]:
            better = priced_face(self.data, prices, below_price(self.data, prices, w))
            columns.add(min(w, better, key=lambda face: priced_cost(self.data, prices, face)))
        has_new = len(columns.W) > n_known
        self._polish(clock)
        gap = self.best.cost - self.bound
        has_fallen = self.bound - old_bound > OPTIONS.min_gap_decrease * (self.best.cost - old_bound)
        self._n_idle = 0 if has_fallen else self._n_idle + 1
        max_tolerance = OPTIONS.tolerance_ratio * gap / self.n_faces
        self._tolerance = min(tolerance if has_new else OPTIONS.tolerance_decrease * tolerance, max_tolerance)
        is_near = gap <= 100 * self.tol * self.best.cost
        patience = OPTIONS.max_idle_rounds_near if is_near else OPTIONS.max_idle_rounds
        # New faces or a smaller tolerance can improve the bound; after the time limit nothing is known.
        can_improve = has_new or clock.is_over or (search.is_done and tolerance > min_tolerance)
        self.is_done = self.is_closed or self._n_idle > patience or not can_improve

    def _polish(self, clock: Clock) -> None:
        """Solve the faces of a new incumbent precisely if its relative gap is at most `polish_gap`."""
        cost = self.best.cost
        if cost == self._polished_cost or cost - self.bound > OPTIONS.polish_gap * cost:
            return
        assignment = (self.data.points @ self.best.W.T).argmax(axis=1)
        _, W = polished_faces(self.data, self.best, assignment, self.tol, clock)
        self.best.offer(total_cost(self.data, W)[0], W)
        self._polished_cost = self.best.cost
