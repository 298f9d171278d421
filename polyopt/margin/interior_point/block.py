"""A block of samples: its rows, multipliers and slacks, and the passes over them.

The families of rows are in two lots: S with slack, then those without. Z has the multipliers and T the slacks
complementary to them. A family with slack has two rows in each, (mu, eta) and (s, xi); one without slack has
one, mu and s. With the outputs f, and each family's side and kink,

    side f + xi − s = kink,    mu + eta = cap,    and without slack    side f − s = kink.

The second holds throughout, the others in the limit. A sample with a cap of 0 has no such row; a row without
slack does not exist if its multiplier is 0. `aim` is the change of each product of Z and T that a Newton step
is for. Products on the central path are proportional to the cap (without slack, to the mean cap), so that a
weight of 2 is the same as two copies of a sample.

`ease` is a dual proximal term: a step may leave each row unmet by `ease` times the change of its multiplier.
In the limit nothing changes, but no weight in D exceeds 1/ease; the rounding of an output times a larger
weight would dominate X'β = Rw.

Methods that change a block are called through the log in :mod:`polyopt.margin.interior_point.crew`, and again
in the same order if a block was lost; the others change nothing. Answers are summed over the blocks, or their
maximum is taken: except for the multipliers they are not of the size of the samples.
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

_START_PRODUCT = 0.375  # products of multiplier and slack at the start, per unit of cost; see central_slack


class PrimalDual(Struct):
    """A primal-dual point with its families of rows.

    sides (q, n), kinks (q,): of the families.
    caps (S, n): of those with slack.
    f (n,): outputs.
    Z, T (r, n): multipliers and slacks, r = S + q.
    """

    sides: NDArray[np.int8]
    kinks: Vector
    caps: Vector
    f: Vector
    Z: Vector
    T: Vector

    signature = "sides: i1 (q, n); kinks: f8 (q); caps: f8 (s, n); f!: f8 (n); Z!: f8 (r, n); T!: f8 (r, n)"


class Direction(Struct):
    """A direction: the change of products it aims at (r, n), and the changes of f, Z and T."""

    aim: Vector
    df: Vector
    dZ: Vector
    dT: Vector

    signature = "aim!: f8 (r, n); df!: f8 (n); dZ!: f8 (r, n); dT!: f8 (r, n)"


# Fill d, the diagonal of D, and the columns beta and room of V (by how much beta can fall and rise). found:
# the linear part of the dual objective; its loss if beta falls by its room everywhere; the sum of all
# products; the largest product (relative to its kink, if that is above 1); the largest multiplier; the
# largest violation of a row.
weigh = kernel("weigh", "point: PrimalDual; ease: f8; d!: f8 (n); V!: f8 (n, k); found!: f8 (o)")

# Fill a column of V with h, such that beta changes by h − D df.
condense = kernel("condense", "point: PrimalDual; ease: f8; way: Direction; V!: f8 (n, k); column: i8")

# Fill dZ and dT for df. found: the step at which the first multiplier or slack reaches zero (or infinity);
# the sums of the products' changes per step and per squared step.
direct = kernel("direct", "point: PrimalDual; ease: f8; way: Direction; found!: f8 (o)")

# Aim at products of mu per unit of cost (of `mean` for rows without slack), less `second` times dZ dT.
target = kernel("target", "point: PrimalDual; way: Direction; mean: f8; mu: f8; second: f8")

# Move everything by the same step.
step = kernel("step", "point: PrimalDual; way: Direction; length: f8")

# Move the outputs by the whole step, and each sample by at most this share of the way to its own boundary.
step_apart = kernel("step_apart", "point: PrimalDual; way: Direction; share: f8")

# Cost of the least slacks of the outputs times `shrink`.
cost = kernel("cost", "point: PrimalDual; shrink: f8", returns="f8")


class Block:
    """Some of the samples.

    rows: their families of rows, those with slack first; or a function that makes them.
    soft: number of families with slack.
    counts (n,): weights in the mean and the covariance; ones by default.
    work: work arrays, shared with other blocks.
    done: number of changes applied so far.
    answer: result of the last change.
    intercept: True if b is free; else it is one of the weights.
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
        """Counts and sums of the data."""
        rows = list(self.rows)
        soft, there = rows[: self.soft], [family.is_there for family in rows[self.soft :]]
        pulling = [(family.up, np.greater(family.common_cap, 0.0)) for family in rows if family.kink > 0]
        up, down = (any((pulls & (ups == way)).any() for ups, pulls in pulling) for way in (True, False))
        return Facts(
            self.samples.n,
            self.samples.m,
            self.samples.products,
            sum(float(family.cap.sum()) for family in soft),
            float(sum(self.samples.n if each is None else np.count_nonzero(each) for each in there)),
            up,
            down,
        )

    def total(self) -> Vector:
        """Weighted sum of the samples, followed by the sum of the weights."""
        return self.samples.pull(self._weights()[:, None])[:, 0]

    def _weights(self) -> Vector:
        return np.ones(self.samples.n) if self._counts is None else self._counts

    def spread(self) -> Vector:
        """Second moments of the samples."""
        return self.samples.normal(self._weights(), np.zeros((self.samples.n, 0)))[0]

    def place(self, shift: Vector, scatters: bool) -> None:
        """Set the point that samples are centred at, and the kind of their products."""
        self.samples.shift, self.samples.scatters = shift, scatters

    def begin(self, mean: float, ease: float) -> None:
        """Start with central multipliers and slacks that satisfy every row at outputs of 0."""
        n, soft, rows = self.samples.n, self.soft, self.rows
        hard = len(rows) - soft
        Z, T = np.zeros((2 * soft + hard, n)), np.ones((2 * soft + hard, n))
        for q, family in enumerate(rows):
            if q < soft:
                xi = central_slack(family.kink)
                share = _START_PRODUCT / (xi - family.kink)
                Z[2 * q], Z[2 * q + 1] = share * family.cap, (1.0 - share) * family.cap
                T[2 * q], T[2 * q + 1] = xi - family.kink, xi
            else:
                Z[soft + q], T[soft + q] = _START_PRODUCT * mean / -family.kink, -family.kink
                if (there := family.is_there) is not None:
                    Z[soft + q, ~there] = 0.0
        self._start(mean, ease, np.zeros(n), Z, T)

    def begin_at(self, mean: float, ease: float, v: Vector, mu: float) -> None:
        """Start with the outputs of (w, b), and central slacks and multipliers; see :meth:`pull_at`."""
        self._start(mean, ease, *self._central(v, mu))

    def pull_at(self, v: Vector, mu: float) -> tuple[float, Vector]:
        """Linear part of the dual objective at the central multipliers of (w, b), and Σ β_i (x_i, 1).

        A row with slack ξ, short by r = kink − side f, has slacks (ξ − r) and ξ complementary to multipliers
        that add up to the cap: μ/(ξ − r) + μ/ξ = 1 per unit of cost, so ξ − r = μ + (√(r² + 4μ²) − r)/2.
        All families must have slack.
        """
        multipliers = self._central(v, mu)[1][::2]
        beta = (np.stack([family.side for family in self.rows]) * multipliers).sum(axis=0)
        return self.rows.gain(multipliers), self.samples.pull(beta[:, None])[:, 0]

    def _central(self, v: Vector, mu: float) -> tuple[Vector, Vector, Vector]:
        """Outputs, multipliers and slacks."""
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
        """Objectives and residuals of the point, and the terms of the Newton system."""
        room, V = self._weighed()
        condense(self.point, self._ease, self._way, V, 2)
        M, pulled = self.samples.normal(room.d, V)
        size, reaches = float(np.abs(V[:, 0]).sum()), self.rows.reaches(self.point.f)
        gain, fall, products, largest, multiplier, violation = self._found.tolist()
        return Measurement(
            gain, fall, products, largest, multiplier, violation, size, cost(self.point, 1.0), reaches, M,
            pulled,
        )  # fmt: skip

    def _weighed(self) -> tuple[Work, Vector]:
        room = self._work.of(self, self.samples.n)
        if room.owner is not self or room.moves != self._moves:  # another block, or this one moved
            weigh(self.point, self._ease, room.d, room.V, self._found)
            room.owner, room.moves = self, self._moves
        return room, room.V

    def costs(self, shrink: float) -> float:
        """Cost of the least slacks of the outputs times this factor."""
        return cost(self.point, shrink)

    def keep(self, share: float) -> None:
        """Keep β, less this share of its room, as the multipliers to return."""
        _, V = self._weighed()
        np.multiply(share, V[:, 1], out=self.kept)
        np.subtract(V[:, 0], self.kept, out=self.kept)

    # -- steps ----------------------------------------------------------------------------------

    def soften(self, ease: float) -> None:
        """Set the ease."""
        self._ease = ease
        self._moves += 1

    def aim(self, mu: float, second: float) -> None:
        """Aim at products of mu per unit of cost, less `second` times dZ dT of the last direction."""
        target(self.point, self._way, self._mean, mu, second)

    def balance(self) -> Vector:
        """X'h of the aim, for (w, b)."""
        room = self._work.of(self, self.samples.n)
        condense(self.point, self._ease, self._way, room.h, 0)
        return self.samples.pull(room.h)[:, 0]

    def turn(self, dv: Vector) -> tuple[float, float, float]:
        """Set the direction for a change of (w, b); return the three numbers of ``direct``."""
        self.samples.scores(dv, self._way.df)
        found = np.empty(3)
        direct(self.point, self._ease, self._way, found)
        longest, linear, square = found.tolist()
        return longest, linear, square

    def move(self, length: float) -> None:
        """Take a step of this length."""
        step(self.point, self._way, length)
        self._moves += 1

    def move_apart(self, share: float) -> None:
        """Move the outputs by the whole step, each sample's Z and T by a share of the way to its boundary."""
        step_apart(self.point, self._way, share)
        self._moves += 1

    # -- the solution ---------------------------------------------------------------------------

    def reach(self, v: Vector) -> Reaches:
        """Largest outputs of (w, b) towards each bound."""
        return self.rows.reaches(self.samples.scores(v))

    def costs_at(self, v: Vector, shrink: float) -> float:
        """Cost of the least slacks of the outputs of (w, b) times this factor."""
        return self.rows.cost(shrink * self.samples.scores(v))

    def break_ends(self, w: Vector) -> Ends:
        """First and last b at which (w, b) meets a row, and sums of the costs."""
        return ends_of(self.rows, self._plain(w))

    def break_bins(self, w: Vector, edges: Vector) -> Vector:
        """Costs and numbers of rows met up to each edge: shape (2, edges + 1)."""
        return bins_of(self.rows, self._plain(w), edges)

    def few_breaks(self, w: Vector, low: float, high: float) -> Few:
        """The b above `low`, up to `high`, at which rows are met."""
        return few_of(self.rows, self._plain(w), low, high)

    def _plain(self, w: Vector) -> Vector:
        return self.samples.scores(np.append(w, 0.0))

    def sums(self) -> tuple[float, float]:
        """Sums of the room of the kept multipliers, and of their β."""
        return float(self._ends().sum()), float(self.kept.sum())

    def _ends(self) -> Vector:
        room: Vector = np.abs(self.kept - self.rows.pieces.ends).min(axis=0)
        return room

    def even(self, share: float) -> None:
        """Take this share of their room off the kept multipliers."""
        self.kept = self.kept - np.clip(share, -1.0, 1.0) * self._ends()

    def dual(self) -> tuple[float, Vector]:
        """Linear part of the dual objective at the kept multipliers, and Σ β_i (x_i, 1)."""
        return self.rows.gain(self.multipliers()), self.samples.pull(self.kept[:, None])[:, 0]

    def prove(self, step: str, *arguments: Any) -> Tally:
        """Answer a step of a certificate, a method of ``Slices``, for the multipliers kept."""
        samples = self.samples
        slices = Slices(
            samples.X, self.rows, self.multipliers(), samples.shift, self._counts, intercept=self.intercept
        )
        found: Tally = getattr(slices, step)(*arguments)
        return found

    def multipliers(self) -> Vector:
        """Kept multipliers by family: shape (q, n)."""
        return self.rows.split(self.kept)


class Facts(NamedTuple):
    """Counts and sums of some samples.

    n, m: samples and features.
    products: single products in X'DX.
    costs: sum of the caps of rows with slack.
    bounds: number of rows without slack.
    pulls_up, pulls_down: True if some cost pulls outputs up, and down.
    """

    n: int
    m: int
    products: float
    costs: float
    bounds: float
    pulls_up: bool
    pulls_down: bool


class Measurement(NamedTuple):
    """Measurements of a block; the first six are those of ``weigh``.

    size: Σ |β_i|.
    cost: cost of the least slacks.
    M, pulled: the normal matrix, and X' times beta, room and h (:meth:`Rows.normal`).
    """

    gain: float
    fall: float
    products: float
    largest: float
    multiplier: float
    violation: float
    size: float
    cost: float
    reaches: Reaches
    M: Vector
    pulled: Vector


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
    """Slack xi at f = 0 with (xi − kink) mu = xi eta = 0.375 cap and mu + eta = cap."""
    half = 8.0 * kink + 6.0
    root = float(np.sqrt(half**2 - 96.0 * kink))
    return (half + root) / 16.0 if half > 0.0 else 6.0 * kink / (half - root)
