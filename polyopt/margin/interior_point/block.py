"""A block of samples: its constraints, multipliers and slacks, and the interior-point step of each sample.

The method is Mehrotra's predictor-corrector method, infeasible and primal-dual: an affine-scaling direction
gives the centring parameter and the second-order correction of the complementarity products.

Constraints. A family has one constraint on the output f of each sample. Its side is +1 for a lower bound and
−1 for an upper bound; its kink is the bound on side f. Some families have slacks xi, of a cost of `cap` each:

    side f + xi − s = kink,    mu + eta = cap    if the family has slack,
    side f − s = kink                            if it has not.

s ≥ 0 is the surplus, and mu ≥ 0 the multiplier complementary to s; eta ≥ 0 is the multiplier of xi ≥ 0. The
equation mu + eta = cap holds at every iterate, the others in the limit. A sample without a constraint of a
family has the cap 0, or mu = 0 if the family has no slack. The coefficient β_i of x_i in w is Σ side mu over
families.

Arrays. The rows of Z are multipliers z, those of T the slacks t complementary to them: for each of the S
families with slack, which are first, (mu, eta) in Z and (s, xi) in T; for the others mu in Z and s in T.

Newton step. The linearised complementarity is z dt + t dz = rhs, with

    rhs = barrier cap − z t − second dz dt.

The barrier parameter `barrier` is multiplied by the cap, so that a sample of weight 2 is the same as two
copies (by the mean cap if there is no slack); `second` is 1 in the corrector, else 0. Eliminating dZ and dT
gives dβ = h − D df, with a diagonal matrix D (n, n), and h (n,) from the right-hand sides. With df = X dv for
v = (w, b), X with a column of ones, this is the reduced system (R + X'DX) dv = X'(β + h) − R v, where ½ v'R v
is the regulariser. `dual_reg` is the dual regularisation δ, a proximal term on the multipliers: the
linearised constraints are relaxed by δ dmu, so that no family adds more than 1/δ to an entry of D. With
larger entries, the rounding of the outputs would dominate the residual of X'β = R v.

Calls of methods that change a block (begin, begin_at, place, set_…, move, move_apart, store_best,
balance_best) are recorded by name in a log (:mod:`polyopt.scale.crew`). The log is replayed
if a block is lost, and is part of checkpoints, so these names must not change. Results are reduced over the
blocks by sums or maxima, so their sizes do not depend on n, except for the multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any, NamedTuple

import numpy as np

from formulations.families import Families, Reaches
from formulations.language.types import Vector
from polyopt.certificates.tally import Tally
from polyopt.margin.certificate_by_blocks import reduce_block
from polyopt.margin.interior_point import intercept as breakpoints  # Block has an attribute `intercept`
from polyopt.margin.interior_point.rows import Rows
from polyopt.native.library import Struct, kernel

_START_PRODUCT = 0.375  # complementarity products z t at the start, per unit of cost


class PrimalDual(Struct):
    """A primal-dual point with its q families of constraints, S of them with slack.

    sides (q, n), kinks (q,): sides and kinks of the families.
    caps (S, n): caps of the families with slack.
    f (n,): outputs.
    Z, T (S + q, n): multipliers and slacks.
    """

    signature = "sides: i1 (q, n); kinks: f8 (q); caps: f8 (s, n); f!: f8 (n); Z!: f8 (r, n); T!: f8 (r, n)"


class Direction(Struct):
    """A direction: the changes df, dZ and dT, and the right-hand sides of complementarity, like Z."""

    signature = "rhs!: f8 (r, n); df!: f8 (n); dZ!: f8 (r, n); dT!: f8 (r, n)"


# Signatures of compiled functions name each argument with its type and shape; "!" marks those written to.

# Fill d, the diagonal of D, and the columns 0 and 1 of V: β, and the room (n,) of each β_i, the sum over its
# families of min(mu, cap − mu), or mu if there is no slack: β_i can fall or rise by its room. summary (6,):
#   linear part of the dual objective;
#   decrease of this linear part if every β_i falls by its room;
#   Σ z t, the sum of the complementarity products;
#   largest of z t / max(|kink|, 1);
#   largest multiplier;
#   largest violation of a constraint.
reduced_diagonal = kernel(
    "weigh", "point: PrimalDual; dual_reg: f8; d!: f8 (n); V!: f8 (n, k); summary!: f8 (o)"
)

# Fill a column of V with h, the right-hand side of the reduced system per sample: β changes by h − D df.
reduced_rhs = kernel(
    "condense", "point: PrimalDual; dual_reg: f8; delta: Direction; V!: f8 (n, k); column: i8"
)

# Back-substitute: fill dZ and dT for df. summary (3,): the step length at which the first multiplier or slack
# reaches zero, or infinity; Σ (z dt + t dz); Σ dz dt.
back_substitute = kernel("direct", "point: PrimalDual; dual_reg: f8; delta: Direction; summary!: f8 (o)")

# Set the right-hand side of complementarity: barrier cap − z t − second dz dt, with the cap `mean_cap` if
# there is no slack. In the corrector dz and dt are those of the affine-scaling direction.
set_complementarity_rhs = kernel(
    "target", "point: PrimalDual; delta: Direction; mean_cap: f8; barrier: f8; second: f8"
)

# Move f, Z and T by one step length.
common_step = kernel("step", "point: PrimalDual; delta: Direction; length: f8")

# Move the outputs by the full step, and Z and T of each sample by a step length of its own: at most
# `fraction` of the length at which a multiplier or slack of the sample reaches zero.
separate_steps = kernel("step_apart", "point: PrimalDual; delta: Direction; fraction: f8")

# Return the cost of the least slacks at the outputs times `shrink`.
slack_cost = kernel("cost", "point: PrimalDual; shrink: f8", returns="f8")


class Block:
    """A block of n samples and its part of the iterate.

    samples: the samples X, with their products (:class:`Rows`, the rows of X).
    families: the families of constraints, those with slack first; or a function that returns the families.
    soft: number of families with slack.
    counts (n,): weights of the samples in the Sigma-SVM's mean and covariance; ones by default.
    work: work arrays, shared with other blocks.
    best_beta (n,): β of the best multipliers so far.
    n_applied: number of log entries applied so far.
    last_result: result of the last log entry that was applied.
    intercept: True if b is free and Σ β_i = 0 is a constraint; else b is one of the weights.
    """

    n_applied = 0
    last_result: object = None
    intercept = True

    def __init__(
        self, samples: Rows, families: Families | Callable[[], Families], soft: int,
        counts: Vector | None = None, work: Work | None = None,
    ):  # fmt: skip
        self.samples, self.soft, self._families = samples, soft, families
        self._counts, self._mean_cap, self.best_beta = counts, 0.0, np.zeros(samples.n)
        self._moves = 0  # number of changes of the point or of `dual_reg`
        self._summary = np.empty(6)  # written by `reduced_diagonal`
        self._work = Work() if work is None else work

    @property
    def families(self) -> Families:
        """The families of constraints."""
        return self._families() if callable(self._families) else self._families

    # -- before the start -----------------------------------------------------------------------

    def facts(self) -> BlockFacts:
        """Return counts and sums of the block's data."""
        families = list(self.families)
        soft, masks = families[: self.soft], [family.row_mask for family in families[self.soft :]]
        # Families violated at f = 0 (kink > 0): the masks of their lower bounds and of existing constraints.
        positive = [(family.up, np.greater(family.common_cap, 0.0)) for family in families if family.kink > 0]
        has_lower = any(np.logical_and(exists, up).any() for up, exists in positive)
        has_upper = any(np.logical_and(exists, np.logical_not(up)).any() for up, exists in positive)
        X = self.samples
        costs = sum(float(family.cap.sum()) for family in soft)
        bounds = float(sum(X.n if mask is None else np.count_nonzero(mask) for mask in masks))
        return BlockFacts(X.n, X.m, X.products, costs, bounds, has_lower, has_upper)

    def total(self) -> Vector:
        """Return the sum of the samples weighted by `counts`, followed by the sum of the weights."""
        return self.samples.weighted_sums(self._weights()[:, None])[:, 0]

    def _weights(self) -> Vector:
        return np.ones(self.samples.n) if self._counts is None else self._counts

    def second_moments(self) -> Vector:
        """Return the weighted second moments Σ (x, 1)(x, 1)' of the samples."""
        return self.samples.normal_matrix(self._weights(), np.zeros((self.samples.n, 0)))[0]

    def place(self, shift: Vector, is_entrywise: bool) -> None:
        """Set the point at which samples are centred, and how X'DX is summed (see :class:`Rows`)."""
        self.samples.shift, self.samples.is_entrywise = shift, is_entrywise

    def begin(self, mean_cap: float, dual_reg: float) -> None:
        """Start with central multipliers and slacks that satisfy every constraint at outputs of 0."""
        self._start(mean_cap, dual_reg, np.zeros(self.samples.n), _START_PRODUCT)

    def begin_at(self, mean_cap: float, dual_reg: float, v: Vector, barrier: float) -> None:
        """Start with the outputs of v = (w, b), and central slacks and multipliers (:meth:`central_dual`)."""
        self._start(mean_cap, dual_reg, self.samples.scores(v), barrier)

    def central_dual(self, v: Vector, barrier: float) -> tuple[float, Vector]:
        """Return the linear part of the dual objective and Σ β_i (x_i, 1) at the central multipliers for v.

        Let r = kink − side f, and μ be the barrier parameter. Then s = ξ − r, and the central multipliers are
        μ cap/s and μ cap/ξ. They add up to the cap if μ/(ξ − r) + μ/ξ = 1, hence
        ξ − r = μ + (√(r² + 4μ²) − r)/2. All families must have slack.
        """
        multipliers = self._central_point(self.samples.scores(v), barrier)[0][::2]
        beta = (np.stack([family.side for family in self.families]) * multipliers).sum(axis=0)
        return self.families.gain(multipliers), self.samples.weighted_sums(beta[:, None])[:, 0]

    def _central_point(self, f: Vector, barrier: float) -> tuple[Vector, Vector]:
        """Return the central Z and T (:meth:`central_dual`) at outputs f, which are 0 if a family is hard."""
        soft, families = self.soft, list(self.families)
        Z, T = np.empty((2, soft + len(families), len(f)))
        for q, family in enumerate(families):
            if q < soft:
                r = family.kink - family.side * f
                root = np.sqrt(r**2 + 4.0 * barrier**2)
                T[2 * q], T[2 * q + 1] = barrier + 0.5 * (root - r), barrier + 0.5 * (root + r)
                Z[2 * q : 2 * q + 2] = family.cap * barrier / T[2 * q : 2 * q + 2]
            else:  # row 2 soft + (q − soft); s = −kink > 0 at outputs of 0
                Z[soft + q], T[soft + q] = barrier * self._mean_cap / -family.kink, -family.kink
                if (mask := family.row_mask) is not None:
                    Z[soft + q, ~mask] = 0.0
        return Z, T

    def _start(self, mean_cap: float, dual_reg: float, f: Vector, barrier: float) -> None:
        """Set the central point at these outputs, and allocate the direction."""
        families, self._mean_cap = list(self.families), mean_cap
        Z, T = self._central_point(f, barrier)
        caps = np.stack([family.cap for family in families][: self.soft], dtype=float)
        sides = np.stack([family.side.astype(np.int8) for family in families])
        self.point, self._dual_reg = PrimalDual(sides, self.families.kinks, caps, f, Z, T), dual_reg
        # All iterations use this memory: new pages would take longer than the arithmetic.
        self._direction = Direction(np.zeros_like(Z), np.zeros_like(f), np.zeros_like(Z), np.zeros_like(Z))

    # -- measurements ---------------------------------------------------------------------------

    def survey(self) -> Measurement:
        """Return objectives and residuals of the point, and the terms of the reduced Newton system."""
        work = self._reduced_system()
        reduced_rhs(self.point, self._dual_reg, self._direction, work.V, 2)
        M, sums = self.samples.normal_matrix(work.d, work.V)
        size, reaches = float(np.abs(work.V[:, 0]).sum()), self.families.reaches(self.point.f)
        gain, gain_decrease, products, largest, multiplier, violation = self._summary.tolist()
        return Measurement(
            gain, gain_decrease, products, largest, multiplier, violation, size, self.costs(1.0), reaches, M,
            sums,
        )  # fmt: skip

    def _reduced_system(self) -> Work:
        """Return the work arrays with d, β and the rooms of β at the present point."""
        work = self._work.resized(self, self.samples.n)
        if work.owner is not self or work.moves != self._moves:  # another block, or this one moved
            reduced_diagonal(self.point, self._dual_reg, work.d, work.V, self._summary)
            work.owner, work.moves = self, self._moves
        return work

    def costs(self, shrink: float) -> float:
        """Return the cost of the least slacks at the outputs times `shrink`."""
        return slack_cost(self.point, shrink)

    def store_best(self, fraction: float) -> None:
        """Store β − fraction · room in `best_beta`; see ``reduced_diagonal`` for the rooms."""
        V = self._reduced_system().V
        np.multiply(fraction, V[:, 1], out=self.best_beta)
        np.subtract(V[:, 0], self.best_beta, out=self.best_beta)

    # -- steps ----------------------------------------------------------------------------------

    def set_dual_reg(self, dual_reg: float) -> None:
        """Set the dual regularisation."""
        self._dual_reg = dual_reg
        self._moves += 1

    def set_rhs(self, barrier: float, second: float) -> None:
        """Set rhs = barrier cap − z t − second dz dt, with dz and dt of the last direction."""
        set_complementarity_rhs(self.point, self._direction, self._mean_cap, barrier, second)

    def newton_rhs(self) -> Vector:
        """Return X'h, the term of the reduced system's right-hand side that depends on `rhs`: (m+1,)."""
        work = self._work.resized(self, self.samples.n)
        reduced_rhs(self.point, self._dual_reg, self._direction, work.h, 0)
        return self.samples.weighted_sums(work.h)[:, 0]

    def set_direction(self, dv: Vector) -> tuple[float, float, float]:
        """Set the direction for a change dv of (w, b); return the summary of ``back_substitute``."""
        self.samples.scores(dv, self._direction.df)
        summary = np.empty(3)
        back_substitute(self.point, self._dual_reg, self._direction, summary)
        longest, linear, square = summary.tolist()
        return longest, linear, square

    def move(self, length: float) -> None:
        """Move f, Z and T by this step length."""
        common_step(self.point, self._direction, length)
        self._moves += 1

    def move_apart(self, fraction: float) -> None:
        """Move f by the full step, and Z and T by a step length per sample: see ``separate_steps``."""
        separate_steps(self.point, self._direction, fraction)
        self._moves += 1

    # -- the solution ---------------------------------------------------------------------------

    def reaches(self, v: Vector) -> Reaches:
        """Return the largest outputs of v = (w, b) towards each bound."""
        return self.families.reaches(self.samples.scores(v))

    def costs_at(self, v: Vector, shrink: float) -> float:
        """Return the cost of the least slacks at the outputs of v = (w, b) times `shrink`."""
        return self.families.cost(shrink * self.samples.scores(v))

    def breakpoint_range(self, w: Vector) -> breakpoints.BreakpointRange:
        """Return the first and last b at which a constraint becomes tight, and sums of the costs of slack."""
        return breakpoints.breakpoint_range(self.families, self._scores_without_intercept(w))

    def breakpoint_histogram(self, w: Vector, edges: Vector) -> Vector:
        """Return the costs and the numbers of the breakpoints in b between the edges: (2, edges + 1)."""
        return breakpoints.breakpoint_histogram(self.families, self._scores_without_intercept(w), edges)

    def list_breakpoints(self, w: Vector, low: float, high: float) -> breakpoints.ListedBreakpoints:
        """Return the breakpoints b above `low`, up to `high`."""
        return breakpoints.list_breakpoints(self.families, self._scores_without_intercept(w), low, high)

    def _scores_without_intercept(self, w: Vector) -> Vector:
        return self.samples.scores(np.append(w, 0.0))

    def balance_sums(self) -> tuple[float, float]:
        """Return the sum of :meth:`_distances_to_bounds`, and Σ β_i of the best multipliers."""
        return float(self._distances_to_bounds().sum()), float(self.best_beta.sum())

    def _distances_to_bounds(self) -> Vector:
        """Return the least change of each best β_i (n,) at which a multiplier of sample i reaches a bound."""
        # The columns of `ends` are the β_i at which a multiplier is 0 or at its cap.
        distances: Vector = np.abs(self.best_beta - self.families.pieces.ends).min(axis=0)
        return distances

    def balance_best(self, fraction: float) -> None:
        """Subtract fraction · distances from the best β; with Σ β_i/Σ distances, the new sum is 0."""
        self.best_beta = self.best_beta - np.clip(fraction, -1.0, 1.0) * self._distances_to_bounds()

    def dual_terms(self) -> tuple[float, Vector]:
        """Return the linear part of the dual objective at the best multipliers, and Σ β_i (x_i, 1)."""
        sums = self.samples.weighted_sums(self.best_beta[:, None])[:, 0]
        return self.families.gain(self.multipliers()), sums

    def prove(self, step: str, *arguments: Any) -> Tally:
        """Evaluate a step of a certificate (:func:`reduce_block`) at the best multipliers."""
        samples = self.samples
        data = samples.X, self.families, self.multipliers(), samples.shift, self._counts
        return reduce_block(step, *data, *arguments, intercept=self.intercept)

    def multipliers(self) -> Vector:
        """Return the best multipliers by family: shape (q, n)."""
        return self.families.split(self.best_beta)


class BlockFacts(NamedTuple):
    """Counts and sums of a block's samples, or of all samples."""

    n: int  # samples
    m: int  # features
    products: float  # number of multiplications in X'DX
    costs: float  # sum of the caps of constraints with slack
    bounds: float  # number of constraints without slack
    has_lower: bool  # True if a lower bound on an output is violated at f = 0 (positive kink)
    has_upper: bool  # True if an upper bound is; a free b alone satisfies bounds of one side


class Measurement(NamedTuple):
    """Measurements of a block at the present point."""

    gain: float  # linear part of the dual objective
    gain_decrease: float  # decrease of `gain` if every β_i falls by its room
    products: float  # Σ z t, over families and samples
    largest: float  # largest z t / max(|kink|, 1)
    multiplier: float  # largest multiplier
    violation: float  # largest violation of a constraint
    size: float  # Σ |β_i|
    cost: float  # cost of the least slacks
    reaches: Reaches  # largest outputs towards each bound
    M: Vector  # (m+1, m+1), X'DX for the samples (x_i − shift, 1)
    sums: Vector  # (m+1, 3), X' times the columns β, rooms and h


class Work(local):
    """Work arrays of a thread for one block at a time; new memory would cost more than the passes."""

    owner: object = None  # the block whose d and V are stored
    moves = 0  # the owner's number of moves when they were computed
    d: Vector  # (n,), diagonal of D
    V: Vector  # (n, 3), columns β, rooms and h
    h: Vector  # (n, 1), another h
    _size = -1

    def resized(self, block: object, n: int) -> Work:
        """Return these arrays, cut to the n samples of the block; they have no owner if it is another one."""
        if n > self._size:
            self._all = np.empty(n), np.empty((n, 3)), np.empty((n, 1))
            self._size, self.owner = n, None
        if self.owner is not block:
            self.owner = None
            self.d, self.V, self.h = (array[:n] for array in self._all)
        return self
