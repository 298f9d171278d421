"""A block of samples: its constraints, multipliers and slacks, and the passes over them.

The method is Mehrotra's predictor-corrector method, infeasible and primal-dual: an affine-scaling direction
gives the centring parameter and the second-order correction of the complementarity products.

The families of rows, the constraints on the outputs f (:mod:`formulations.families`), are in two lots: S with
slack, then those without. Z has the multipliers and T the slacks complementary to them. A family with slack
has two rows in each, (mu, eta) and (s, xi); one without slack has one, mu and s. With each family's side and
kink,

    side f + xi − s = kink,    mu + eta = cap,    and without slack    side f − s = kink.

mu + eta = cap holds at every iterate, the other equations in the limit. A sample with a cap of 0 has no such
row; a row without slack does not exist if its multiplier is 0. `aim` is the right-hand side of the
linearised complementarity, z dt + t dz = aim = μ cap − z t − second dz dt, with the barrier parameter μ (an
argument `mu`) and, for rows without slack, the mean cap. Products in proportion to the cap make a weight of 2
the same as two copies of a sample.

Elimination of dZ and dT leaves the reduced system in (w, b), with the diagonal matrix D (n, n) over samples:
beta changes by h − D df. `ease` is the dual regularisation, from a proximal term on the multipliers: a step
may leave each row unmet by `ease` times the change of its multiplier. In the limit nothing changes, but no
family adds more than 1/ease to an entry of D; the rounding of an output times a larger weight would dominate
X'β = Rw.

Methods that change a block are called only through the log of :mod:`polyopt.margin.interior_point.crew`,
which is replayed if a block is lost; the other methods read only. Results are reduced over the blocks, by
sums or maxima, so their sizes do not depend on the number of samples, except for the multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.families import Families, Reaches
from formulations.language.types import Vector
from polyopt.certificates.tally import Tally
from polyopt.margin.certificate_by_blocks import Slices
from polyopt.margin.interior_point.intercept import Ends, Few, bins_of, ends_of, few_of
from polyopt.margin.interior_point.rows import Rows
from polyopt.native.library import Struct, kernel

_START_PRODUCT = 0.375  # complementarity products at the start, per unit of cost; central_slack solves for it


class PrimalDual(Struct):
    """A primal-dual point with its families of rows.

    sides (q, n), kinks (q,): sides and kinks of the families.
    caps (S, n): caps of the families with slack.
    f (n,): outputs.
    Z, T (r, n): multipliers and slacks, r = S + q.
    """

    signature = "sides: i1 (q, n); kinks: f8 (q); caps: f8 (s, n); f!: f8 (n); Z!: f8 (r, n); T!: f8 (r, n)"


class Direction(Struct):
    """A direction: right-hand sides of the complementarity rows (r, n), and the changes of f, Z and T."""

    signature = "aim!: f8 (r, n); df!: f8 (n); dZ!: f8 (r, n); dT!: f8 (r, n)"


# Fill d, the diagonal of D of the reduced system, and the columns beta and room of V. room (n,) is the amount
# by which beta can fall or rise: Σ_q min(mu, cap − mu), or mu for a family without slack. found (6,):
#   linear part of the dual objective;
#   decrease of that part if every beta_i falls by its room;
#   Σ z t, the sum of the complementarity products;
#   largest of z t / max(|kink|, 1);
#   largest multiplier;
#   largest violation of a row.
weigh = kernel("weigh", "point: PrimalDual; ease: f8; d!: f8 (n); V!: f8 (n, k); found!: f8 (o)")

# Fill a column of V with h, the right-hand side of the reduced system per sample: beta changes by h − D df.
condense = kernel("condense", "point: PrimalDual; ease: f8; way: Direction; V!: f8 (n, k); column: i8")

# Back-substitute: fill dZ and dT for df. found (3,): the step length at which the first multiplier or slack
# reaches zero, or infinity; Σ (z dt + t dz); Σ dz dt.
direct = kernel("direct", "point: PrimalDual; ease: f8; way: Direction; found!: f8 (o)")

# Set aim = mu cap − z t − second dz dt, with the mean cap `mean` for rows without slack. `second` is 1 for
# Mehrotra's corrector, whose dz and dt are those of the affine-scaling direction, else 0.
target = kernel("target", "point: PrimalDual; way: Direction; mean: f8; mu: f8; second: f8")

# Move f, Z and T by the same step length.
step = kernel("step", "point: PrimalDual; way: Direction; length: f8")

# Move the outputs by the full step, and Z and T of each sample by a step length of its own, at most this
# share of the way to the boundary.
step_apart = kernel("step_apart", "point: PrimalDual; way: Direction; share: f8")

# Return the cost of the least slacks at the outputs times `shrink`.
cost = kernel("cost", "point: PrimalDual; shrink: f8", returns="f8")


class Block:
    """A block of samples and its part of the iterate.

    rows: their families of rows, those with slack first; or a function that makes them.
    soft: number of families with slack.
    counts (n,): weights in the mean and the covariance; ones by default.
    work: work arrays, shared with other blocks.
    kept (n,): β of the best multipliers so far.
    done: number of entries of the log applied so far.
    answer: result of the last of them.
    intercept: True if b is free and Σ β = 0 is a constraint; else b is one of the weights.
    chosen: mask of this block's samples among those that were read; None for all.
    """

    done = 0
    answer: object = None
    intercept = True
    chosen: NDArray[np.bool_] | None = None

    def __init__(
        self,
        samples: Rows,
        rows: Families | Callable[[], Families],
        soft: int,
        counts: Vector | None = None,
        work: Work | None = None,
    ):
        self.samples, self.soft, self._rows = samples, soft, rows
        self._counts, self._mean, self.kept = counts, 0.0, np.zeros(samples.n)
        self._moves, self._found = 0, np.empty(6)
        self._work = Work() if work is None else work

    @property
    def rows(self) -> Families:
        """The families of rows."""
        return self._rows() if callable(self._rows) else self._rows

    # -- before the start -----------------------------------------------------------------------

    def facts(self) -> Facts:
        """Return counts and sums of the data."""
        rows = list(self.rows)
        soft, masks = rows[: self.soft], [family.is_there for family in rows[self.soft :]]
        # Rows with a positive kink and cap: lower bounds (is_lower) or upper bounds on the output.
        active = [(family.up, np.greater(family.common_cap, 0.0)) for family in rows if family.kink > 0]
        up, down = (
            any((has_cost & (is_lower == side)).any() for is_lower, has_cost in active)
            for side in (True, False)
        )
        return Facts(
            self.samples.n,
            self.samples.m,
            self.samples.products,
            sum(float(family.cap.sum()) for family in soft),
            float(sum(self.samples.n if mask is None else np.count_nonzero(mask) for mask in masks)),
            up,
            down,
        )

    def total(self) -> Vector:
        """Return the weighted sum of the samples, followed by the sum of the weights."""
        return self.samples.pull(self._weights()[:, None])[:, 0]

    def _weights(self) -> Vector:
        return np.ones(self.samples.n) if self._counts is None else self._counts

    def spread(self) -> Vector:
        """Return the weighted second moments Σ (x, 1)(x, 1)' of the samples."""
        return self.samples.normal(self._weights(), np.zeros((self.samples.n, 0)))[0]

    def place(self, shift: Vector, scatters: bool) -> None:
        """Set the point at which samples are centred, and how X'DX is summed (see :class:`Rows`)."""
        self.samples.shift, self.samples.scatters = shift, scatters

    def begin(self, mean: float, ease: float) -> None:
        """Start with central multipliers and slacks that satisfy every row at outputs of 0."""
        n, soft, rows = self.samples.n, self.soft, self.rows
        hard = len(rows) - soft
        Z, T = np.zeros((2 * soft + hard, n)), np.ones((2 * soft + hard, n))
        for q, family in enumerate(rows):
            if q < soft:
                xi = central_slack(family.kink)
                mu = _START_PRODUCT / (xi - family.kink)  # per unit of cost
                Z[2 * q], Z[2 * q + 1] = mu * family.cap, (1.0 - mu) * family.cap
                T[2 * q], T[2 * q + 1] = xi - family.kink, xi
            else:
                Z[soft + q], T[soft + q] = _START_PRODUCT * mean / -family.kink, -family.kink
                if (mask := family.is_there) is not None:
                    Z[soft + q, ~mask] = 0.0
        self._start(mean, ease, np.zeros(n), Z, T)

    def begin_at(self, mean: float, ease: float, v: Vector, mu: float) -> None:
        """Start with the outputs of (w, b), and central slacks and multipliers; see :meth:`pull_at`."""
        self._start(mean, ease, *self._central(v, mu))

    def pull_at(self, v: Vector, mu: float) -> tuple[float, Vector]:
        """Return gain, the linear part of the dual objective, and Σ β_i (x_i, 1) at the central multipliers.

        A row with r = kink − side f and slack ξ has the slacks s = ξ − r and ξ. Central multipliers, per unit
        of cost μ/s and μ/ξ, add up to the cap: μ/(ξ − r) + μ/ξ = 1, so ξ − r = μ + (√(r² + 4μ²) − r)/2.
        All families must have slack.
        """
        multipliers = self._central(v, mu)[1][::2]
        beta = (np.stack([family.side for family in self.rows]) * multipliers).sum(axis=0)
        return self.rows.gain(multipliers), self.samples.pull(beta[:, None])[:, 0]

    def _central(self, v: Vector, mu: float) -> tuple[Vector, Vector, Vector]:
        """Return the outputs of (w, b), central multipliers and central slacks."""
        f, rows = self.samples.scores(v), list(self.rows)
        Z, T = (np.empty((2 * len(rows), self.samples.n)) for _ in range(2))
        for q, family in enumerate(rows):
            r = family.kink - family.side * f
            root = np.sqrt(r**2 + 4.0 * mu**2)
            T[2 * q], T[2 * q + 1] = mu + 0.5 * (root - r), mu + 0.5 * (root + r)
            Z[2 * q : 2 * q + 2] = family.cap * mu / T[2 * q : 2 * q + 2]
        return f, Z, T

    def _start(self, mean: float, ease: float, f: Vector, Z: Vector, T: Vector) -> None:
        rows, self._mean = list(self.rows), mean
        caps = np.stack([family.cap for family in rows][: self.soft], dtype=float)
        sides = np.stack([family.side.astype(np.int8) for family in rows])
        self.point, self._ease = PrimalDual(sides, self.rows.kinks, caps, f, Z, T), ease
        # Passes reuse this memory: new pages would take longer than the arithmetic.
        self._way = Direction(np.zeros_like(Z), np.zeros_like(f), np.zeros_like(Z), np.zeros_like(Z))

    # -- measurements ---------------------------------------------------------------------------

    def survey(self) -> Measurement:
        """Return objectives and residuals of the point, and the terms of the reduced Newton system."""
        work = self._reduced()
        condense(self.point, self._ease, self._way, work.V, 2)
        M, pulled = self.samples.normal(work.d, work.V)
        size, reaches = float(np.abs(work.V[:, 0]).sum()), self.rows.reaches(self.point.f)
        gain, fall, products, largest, multiplier, violation = self._found.tolist()
        return Measurement(
            gain, fall, products, largest, multiplier, violation, size, cost(self.point, 1.0), reaches, M,
            pulled,
        )  # fmt: skip

    def _reduced(self) -> Work:
        """Return the work arrays with d, beta and room of the present point."""
        work = self._work.of(self, self.samples.n)
        if work.owner is not self or work.moves != self._moves:  # another block, or this one moved
            weigh(self.point, self._ease, work.d, work.V, self._found)
            work.owner, work.moves = self, self._moves
        return work

    def costs(self, shrink: float) -> float:
        """Return the cost of the least slacks at the outputs times this factor."""
        return cost(self.point, shrink)

    def keep(self, share: float) -> None:
        """Store β − share · room as the multipliers to return, in `kept`."""
        V = self._reduced().V
        np.multiply(share, V[:, 1], out=self.kept)
        np.subtract(V[:, 0], self.kept, out=self.kept)

    # -- steps ----------------------------------------------------------------------------------

    def soften(self, ease: float) -> None:
        """Set the dual regularisation."""
        self._ease = ease
        self._moves += 1

    def aim(self, mu: float, second: float) -> None:
        """Set the right-hand side of complementarity: mu cap − z t − second dz dt of the last direction."""
        target(self.point, self._way, self._mean, mu, second)

    def balance(self) -> Vector:
        """Return the right-hand side X'h of the reduced system in (w, b)."""
        work = self._work.of(self, self.samples.n)
        condense(self.point, self._ease, self._way, work.h, 0)
        return self.samples.pull(work.h)[:, 0]

    def turn(self, dv: Vector) -> tuple[float, float, float]:
        """Set the direction for a change dv of (w, b); return the three numbers found by ``direct``."""
        self.samples.scores(dv, self._way.df)
        found = np.empty(3)
        direct(self.point, self._ease, self._way, found)
        longest, linear, square = found.tolist()
        return longest, linear, square

    def move(self, length: float) -> None:
        """Move f, Z and T by this step length."""
        step(self.point, self._way, length)
        self._moves += 1

    def move_apart(self, share: float) -> None:
        """Take the full step in f, and in Z and T one length per sample: see ``step_apart``."""
        step_apart(self.point, self._way, share)
        self._moves += 1

    # -- the solution ---------------------------------------------------------------------------

    def reach(self, v: Vector) -> Reaches:
        """Return the largest outputs of (w, b) towards each bound."""
        return self.rows.reaches(self.samples.scores(v))

    def costs_at(self, v: Vector, shrink: float) -> float:
        """Return the cost of the least slacks at the outputs of (w, b) times this factor."""
        return self.rows.cost(shrink * self.samples.scores(v))

    def break_ends(self, w: Vector) -> Ends:
        """Return the first and last b at which (w, b) meets a row with equality, and sums of the costs."""
        return ends_of(self.rows, self._plain(w))

    def break_bins(self, w: Vector, edges: Vector) -> Vector:
        """Return costs and numbers of the rows met at a b up to each edge: shape (2, edges + 1)."""
        return bins_of(self.rows, self._plain(w), edges)

    def few_breaks(self, w: Vector, low: float, high: float) -> Few:
        """Return the b above `low`, up to `high`, at which rows are met with equality."""
        return few_of(self.rows, self._plain(w), low, high)

    def _plain(self, w: Vector) -> Vector:
        return self.samples.scores(np.append(w, 0.0))

    def sums(self) -> tuple[float, float]:
        """Return Σ of the distances of the kept β_i to their nearest breakpoints, and Σ of the kept β_i."""
        return float(self._breakpoint_distances().sum()), float(self.kept.sum())

    def _breakpoint_distances(self) -> Vector:
        """Return |β_i − nearest breakpoint|; at a breakpoint some multiplier reaches a bound."""
        distances: Vector = np.abs(self.kept - self.rows.pieces.ends).min(axis=0)
        return distances

    def even(self, share: float) -> None:
        """Subtract this share of their distances to the breakpoints from the kept β, so that Σ β = 0."""
        self.kept = self.kept - np.clip(share, -1.0, 1.0) * self._breakpoint_distances()

    def dual(self) -> tuple[float, Vector]:
        """Return the linear part of the dual objective at the kept multipliers, and Σ β_i (x_i, 1)."""
        return self.rows.gain(self.multipliers()), self.samples.pull(self.kept[:, None])[:, 0]

    def prove(self, step: str, *arguments: Any) -> Tally:
        """Evaluate a step of a certificate, a method of ``Slices``, at the kept multipliers."""
        samples = self.samples
        slices = Slices(
            samples.X, self.rows, self.multipliers(), samples.shift, self._counts, intercept=self.intercept
        )
        found: Tally = getattr(slices, step)(*arguments)
        return found

    def multipliers(self) -> Vector:
        """Return the kept multipliers by family: shape (q, n)."""
        return self.rows.split(self.kept)


class Facts(NamedTuple):
    """Counts and sums of some samples."""

    n: int  # samples
    m: int  # features
    products: float  # multiplications in X'DX
    costs: float  # sum of the caps of rows with slack
    bounds: float  # number of rows without slack
    pulls_up: bool  # True if some row with a positive kink and cap bounds an output from below
    pulls_down: bool  # the same, from above


class Measurement(NamedTuple):
    """Measurements of a block."""

    gain: float  # linear part of the dual objective
    fall: float  # decrease of that part if every β_i falls by its room
    products: float  # sum of the complementarity products z t
    largest: float  # largest z t / max(|kink|, 1)
    multiplier: float  # largest multiplier
    violation: float  # largest violation of a row
    size: float  # Σ |β_i|
    cost: float  # cost of the least slacks
    reaches: Reaches  # largest outputs towards each bound
    M: Vector  # X'DX, of :meth:`Rows.normal`
    pulled: Vector  # X' times beta, room and h


class Work(local):
    """Work arrays of a thread for one block at a time; new memory would cost more than the passes."""

    owner: object = None  # the block whose d and V are stored, ...
    moves = 0  # ... and its number of moves then
    _size = -1

    def of(self, block: object, n: int) -> Work:
        """Return the arrays for a block of n samples."""
        if n > self._size:
            self._all = np.empty(n), np.empty((n, 3)), np.empty((n, 1))
            self._size, self.owner = n, None
        if self.owner is not block:
            self.owner = None
            self.d, self.V, self.h = (each[:n] for each in self._all)
        return self

    d: Vector
    V: Vector
    h: Vector


def central_slack(kink: float) -> float:
    """Return the slack xi at f = 0 with (xi − kink) mu = xi eta = ⅜ cap, mu + eta = cap (⅜: _START_PRODUCT).

    ⅜/(xi − kink) + ⅜/xi = 1 is xi² − (kink + ¾) xi + ⅜ kink = 0. The root with xi > kink and xi > 0 is the
    larger one, (half + √(half² − 96 kink))/16 with half = 8 kink + 6. If half is negative, the equal quotient
    of ⅜ kink and the smaller root avoids cancellation.
    """
    half = 8.0 * kink + 6.0
    root = float(np.sqrt(half**2 - 96.0 * kink))
    return (half + root) / 16.0 if half > 0.0 else 6.0 * kink / (half - root)
