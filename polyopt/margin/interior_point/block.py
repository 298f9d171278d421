"""Some of the samples, with their rows, multipliers and slacks: what each of them does when all are asked.

Methods that change a block are called by way of the log in :mod:`polyopt.margin.interior_point.crew`, and
again, in the same order, where a block was lost; the others change nothing. What a block answers is added up
over the blocks, or the largest is taken: it is never of the size of the samples, but for the multipliers.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.certificates.tally import Tally
from polyopt.margin.certificate_by_blocks import Slices
from polyopt.margin.interior_point.intercept import Ends, Few, bins_of, ends_of, few_of
from polyopt.margin.interior_point.passes import (
    Direction,
    PrimalDual,
    condense,
    cost,
    direct,
    step,
    step_apart,
    target,
    weigh,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.families import Families, Reaches
    from formulations.language.types import Vector
    from polyopt.margin.interior_point.rows import Rows

__all__ = ["Block", "Facts", "Work", "central_slack"]

_START_PRODUCT = 0.375  # products of multiplier and slack at the start, per unit of cost


class Block:
    """Some of the samples.

    rows: their families of rows, those with slack first; or what makes them, to be made when they are needed.
    soft: how many have slack.
    counts (n,): weights in the mean and the covariance; ones by default.
    work: room to work in, shared with other blocks.

    done: how many changes it has been through.
    answer: what the last of them gave.
    intercept: True if b is free; else it is one of the weights.
    chosen: which of the samples that were read are this block's; all by default.
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

    # -- before it begins ------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Counts and sums, known before anything is solved."""
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
        """Their moments of second order."""
        return self.samples.normal(self._weights(), np.zeros((self.samples.n, 0)))[0]

    def place(self, shift: Vector, scatters: bool) -> None:
        """Take the samples from this point, and their products in this way."""
        self.samples.shift, self.samples.scatters = shift, scatters

    def begin(self, mean: float, ease: float) -> None:
        """Take multipliers and slacks that are central and meet every row at outputs of 0."""
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
        self._take(mean, ease, np.zeros(n), Z, T)

    def begin_at(self, mean: float, ease: float, v: Vector, mu: float) -> None:
        """Take the outputs of (w, b), and central slacks and multipliers for these; see :meth:`pull_at`."""
        self._take(mean, ease, *self._central(v, mu))

    def pull_at(self, v: Vector, mu: float) -> tuple[float, Vector]:
        """Linear part of the dual objective at the central multipliers of (w, b), and Σ β_i (x_i, 1).

        Of a row with slack ξ, short by r = kink − side f, (ξ − r) and ξ are the slacks of its multipliers,
        which add up to the cap: μ/(ξ − r) + μ/ξ = 1 per unit of cost, so ξ − r = μ + (√(r² + 4μ²) − r)/2.
        Families without slack are not taken.
        """
        multipliers = self._central(v, mu)[1][::2]
        sides = np.stack([family.side for family in self.rows])
        return self.rows.gain(multipliers), self.samples.pull((sides * multipliers).sum(axis=0)[:, None])[
            :, 0
        ]

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

    def _take(self, mean: float, ease: float, f: Vector, Z: Vector, T: Vector) -> None:
        """Begin with these outputs, multipliers and slacks."""
        rows, self._mean = list(self.rows), mean
        caps = np.stack([family.cap for family in rows][: self.soft], dtype=float)
        sides = np.stack([family.side.astype(np.int8) for family in rows])
        self.point, self._ease = PrimalDual(sides, self.rows.kinks, caps, f, Z, T), ease
        # Later passes go through this memory again: new pages would take longer than what is done in them.
        self._way = Direction(np.zeros_like(Z), np.zeros_like(f), np.zeros_like(Z), np.zeros_like(Z))

    # -- where it stands -------------------------------------------------------------------------

    def survey(self) -> Measured:
        """All that is known about the point, and what of the next step needs the samples."""
        room, V = self._weighed()
        condense(self.point, self._ease, self._way, V, 2)
        M, pulled = self.samples.normal(room.d, V)
        size, reaches = float(np.abs(V[:, 0]).sum()), self.rows.reaches(self.point.f)
        gain, fall, products, largest, multiplier, violation = self._found.tolist()
        return Measured(
            gain, fall, products, largest, multiplier, violation, size, cost(self.point, 1.0), reaches, M,
            pulled,
        )  # fmt: skip

    def _weighed(self) -> tuple[Work, Vector]:
        room = self._work.of(self, self.samples.n)
        if room.owner is not self or room.moves != self._moves:  # another thread may have moved it since
            weigh(self.point, self._ease, room.d, room.V, self._found)
            room.owner, room.moves = self, self._moves
        return room, room.V

    def costs(self, shrink: float) -> float:
        """The cost of the least slacks of the outputs times this factor."""
        return cost(self.point, shrink)

    def keep(self, share: float) -> None:
        """Keep β, less this share of the room that it has."""
        _, V = self._weighed()
        np.multiply(share, V[:, 1], out=self.kept)
        np.subtract(V[:, 0], self.kept, out=self.kept)

    # -- how it moves ----------------------------------------------------------------------------

    def soften(self, ease: float) -> None:
        """Take another ease."""
        self._ease = ease
        self._moves += 1

    def aim(self, mu: float, second: float) -> None:
        """Aim at products of mu per unit of cost, less `second` times what the last direction adds."""
        target(self.point, self._way, self._mean, mu, second)

    def balance(self) -> Vector:
        """X'h of the present aim, for (w, b)."""
        room = self._work.of(self, self.samples.n)
        condense(self.point, self._ease, self._way, room.h, 0)
        return self.samples.pull(room.h)[:, 0]

    def turn(self, dv: Vector) -> tuple[float, float, float]:
        """Take the direction that goes with a change of (w, b); see ``passes.direct`` for what it tells."""
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
        """Go with the outputs all the way; multipliers and slacks no further than their own ends let them."""
        step_apart(self.point, self._way, share)
        self._moves += 1

    # -- where it ends ---------------------------------------------------------------------------

    def reach(self, v: Vector) -> Reaches:
        """The largest outputs of (w, b) towards each bound."""
        return self.rows.reaches(self.samples.scores(v))

    def costs_at(self, v: Vector, shrink: float) -> float:
        """The cost of the least slacks of the outputs of (w, b), times this factor."""
        return self.rows.cost(shrink * self.samples.scores(v))

    def break_ends(self, w: Vector) -> Ends:
        """The first and the last b at which (w, b) meets a row, and what rows cost."""
        return ends_of(self.rows, self._plain(w))

    def break_bins(self, w: Vector, edges: Vector) -> Vector:
        """Costs and numbers of rows that are met up to each edge: shape (2, edges + 1)."""
        return bins_of(self.rows, self._plain(w), edges)

    def few_breaks(self, w: Vector, low: float, high: float) -> Few:
        """The b above `low`, up to `high`, at which rows are met."""
        return few_of(self.rows, self._plain(w), low, high)

    def _plain(self, w: Vector) -> Vector:
        return self.samples.scores(np.append(w, 0.0))

    def sums(self) -> tuple[float, float]:
        """The room of the multipliers kept, and their β, added up."""
        return float(self._ends().sum()), float(self.kept.sum())

    def _ends(self) -> Vector:
        room: Vector = np.abs(self.kept - self.rows.pieces.ends).min(axis=0)
        return room

    def even(self, share: float) -> None:
        """Take this share of their room off the multipliers kept."""
        self.kept = self.kept - np.clip(share, -1.0, 1.0) * self._ends()

    def dual(self) -> tuple[float, Vector]:
        """The linear part of the dual objective at the multipliers kept, and what they pull."""
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
        """The multipliers kept, by family: shape (q, n)."""
        return self.rows.split(self.kept)


class Facts(NamedTuple):
    """Counts and sums of some samples, known before anything is solved.

    Samples and features; single products in X'DX; costs, added up; bounds without slack, added up; whether
    there are costs that pull outputs up, and down.
    """

    n: int
    m: int
    products: float
    costs: float
    bounds: float
    pulls_up: bool
    pulls_down: bool


class Measured(NamedTuple):
    """Measurements of a pass over a block; the first six are those of ``passes.weigh``.

    `size` is the sum of the sizes of beta, `cost` that of the least slacks; `M` and `pulled` are what
    :meth:`polyopt.margin.interior_point.rows.Rows.normal` makes of beta, room and h.
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
    """Room to work in, for a block at a time in each thread: fresh memory would cost more than the passes."""

    owner: object = None  # whose d and V are in it, ...
    moves = 0  # ... and after how many of its moves
    _size = -1

    def of(self, block: object, n: int) -> Work:
        """The room for a block of n samples."""
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
    """The slack xi at f = 0 for which (xi − kink) mu = xi eta = ``_START_PRODUCT`` cap, where mu + eta = cap.

    kink: of a family with slack.
    """
    half = 8.0 * kink + 6.0
    root = float(np.sqrt(half**2 - 96.0 * kink))
    return (half + root) / 16.0 if half > 0.0 else 6.0 * kink / (half - root)
