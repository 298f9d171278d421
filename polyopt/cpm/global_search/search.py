"""The global optimum of the Convex Polytope Machine for small data, by branch and bound over assignments.

The search returns a point, and a bound on all assignments. Three bounds share one incumbent, and the largest
of them counts:

- the tree over partial assignments (:mod:`polyopt.cpm.global_search.assignment_tree`), up to 500 samples;
- a tree with the bound by the spread of the faces (:mod:`polyopt.cpm.global_search.spread`), up to 2,000
  samples and more than one face;
- one face at prices of the positives (:mod:`polyopt.cpm.global_search.prices`), with up to 4 features and
  more than one face, up to 20,000 samples.

Prices come first, after what the tree proves quickly. Then the tree and the spread take turns. Without
prices the tree has the first nodes, or a tenth of the time, alone; then the one with the larger bound gets
more turns. Without a time limit turns are counted, so that the same seed makes the same search.

Measured with 25 s each on three quarters of the sets, three faces: without the tree wdbc stays open (0.09 %),
without prices 200 two-dimensional samples with three faces do (3.5 % after 13 s instead of none in 1 s),
without kicks of the first incumbent the gap of ionosphere is 9.2 % instead of 5.2 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import MatrixLike, Vector, dense
from formulations.polytope import lift, natural_assignment, objective
from polyopt.certificates.points import checked_faces
from polyopt.cpm.global_search.assignment_tree import MAX_SAMPLES, AssignmentTree
from polyopt.cpm.global_search.face import Samples, no_best, polished_face
from polyopt.cpm.global_search.incumbent import find_incumbent, try_faces
from polyopt.cpm.global_search.prices import MAX_FEATURES, PriceSearch
from polyopt.cpm.global_search.spread import SpreadSearch
from polyopt.linalg.rounding import gamma
from polyopt.optim import best_first


@dataclass(frozen=True)
class Options(best_first.Options):
    """Numbers of the search, besides those of its trees.

    max_samples_prices: samples for prices: 20,000 of two features take 0.6 GB, and reach 8 % in two minutes.
    max_samples_spread: samples for the spread, whose moves take 8 bytes per positive, sample and face.
    min_assignments_prices: number of assignments from which prices are tried.
    work_before_prices, min_nodes_before_prices: work of the tree before prices, in samples times positives
        times faces times nodes; if it is less than so many nodes, prices come first, as they take less time.
    starts, starts_large: random starts of the incumbent, up to 500 samples and beyond.
    starts_time: fraction of the time limit for the starts.
    turn: nodes of the tree per node of the spread and dimension; the latter take longer.
    turns_before_spread: such turns of the tree before the spread begins: 3 doubled the time of 60 samples of
        pima, 100 added a fifth.
    slowdown_if_behind: factor of the turn if the bound of the spread is the lower one.
    time_ahead, time_behind: with a time limit, fractions of the time for the spread, if its bound is the
        larger, and if not. The spread begins after the latter fraction of the limit in any case.
    """

    max_samples_prices: int = 20_000
    max_samples_spread: int = 2_000
    min_assignments_prices: int = 3**8
    work_before_prices: int = 300_000
    min_nodes_before_prices: int = 100
    starts: int = 30
    starts_large: int = 5
    starts_time: float = 0.2
    turn: int = 2
    turns_before_spread: int = 100
    slowdown_if_behind: int = 10
    time_ahead: float = 0.8
    time_behind: float = 0.1


DEFAULT = Options()


def solve_cpm_global(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, n_faces: int, *, tol: float = 1e-6,
    max_nodes: int | None = None, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
    known: Sequence[ArrayLike] = (), options: Options = DEFAULT,
) -> Solution:  # fmt: skip
    """Minimise eq. (6) of the Convex Polytope Machine over the faces and over all assignments.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Samples, at most 2,000, or 20,000 with up to four features, and 500 with one face; made dense.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K, at least 1.
    tol : float
        Relative gap between point and bound at which the search ends.
    max_nodes : int, optional
        Maximal number of partial assignments and rounds of prices.
    time_limit : float, optional
        Seconds, a fifth of them at most for the starts.
    seed : int
        Of random starts and of the order of the samples; without a time limit it fixes the search.
    n_jobs : int, optional
        Nodes of the spread explored in parallel, as joblib counts.
    known : sequence of array_like of shape (K, m+1)
        Faces that the answer is to be no worse than.
    options : Options
        Numbers of the search.

    Returns
    -------
    Solution
        ``primal`` W (K, m+1) and assignment (n,), -1 at the negatives; ``duals`` margin (n, K), for that
        assignment, and, if they prove the bound, price (n,). ``bound`` is a lower bound on the optimum over
        all assignments, less its rounding errors; SOLVED if it is within `tol` of the objective. A limit, or
        Ctrl-C, keeps the best point and the bound. ``iterations`` counts nodes, and rounds of prices. Beyond
        500 samples without a limit the root of the spread ends the search.

    Raises
    ------
    ValueError
        More samples than that, or arguments that make no program.
    """
    X, y = as_data(X, y)
    costs = as_costs(C, len(y))
    whole("n_faces", n_faces)
    tolerance(tol)
    faces = [checked_faces("known", W, n_faces, X.shape[1] + 1) for W in known]
    search = _Search(dense(X), y, costs, n_faces, tol, Clock(time_limit), seed, n_jobs, options)
    return search.solution(search.solve(faces, max_nodes))


class _Search(AssignmentTree):
    """The tree over assignments, with prices and the spread beside it."""

    options: Options

    def __init__(
        self, X: Vector, y: Vector, C: Vector, n_faces: int, tol: float, clock: Clock, seed: int,
        n_jobs: int | None, options: Options,
    ):  # fmt: skip
        several = n_faces > 1 and len(np.unique(y[C > 0])) > 1
        is_large = len(y) > MAX_SAMPLES
        self.takes_prices = several and X.shape[1] <= MAX_FEATURES and len(y) <= options.max_samples_prices
        self.takes_spread = several and len(y) <= options.max_samples_spread
        if is_large and self.takes_prices:  # prices prove more for so many samples
            self.takes_spread = False
        if is_large and not (self.takes_prices or self.takes_spread):
            most = options.max_samples_spread if several else MAX_SAMPLES
            raise ValueError(
                f"the global optimum can be sought for up to {most:,} samples, or "
                f"{options.max_samples_prices:,} with up to {MAX_FEATURES} features and several faces, not "
                f"{len(y):,}: use alternating minimisation from many starts (solver='exact' or 'dual')"
            )
        self.original, self.rng, self.n_jobs = (X, y, C), np.random.default_rng(seed), n_jobs
        data, self.merged = merge(X, y, C, self.rng)
        super().__init__(data, no_best(n_faces, data.A.shape[1]), tol, clock, options)
        self.is_large = len(data.C) > MAX_SAMPLES  # too many for the tree
        self.prices: PriceSearch | None = None
        self.spread: SpreadSearch | None = None
        self.spread_since = self.spread_seconds = 0.0  # time at which it was ready, and its seconds so far
        self._proven = 0.0

    def solve(self, known: Sequence[Vector], max_nodes: int | None) -> Status:
        """Search until the gap is closed or a limit is reached."""
        data, best, clock, options = self.data, self.best, self.clock, self.options
        try:
            starts, precision = (options.starts_large, 1e-7) if self.is_large else (options.starts, 1e-9)
            find_incumbent(data, best, precision, starts, clock.part(options.starts_time), self.rng)
            for W in known:
                try_faces(data, best, precision, W, clock)
            K = len(best.W)
            if self.takes_prices and (self.is_large or K**data.npos > options.min_assignments_prices):
                first = 0 if self.is_large else options.work_before_prices // (len(data.C) * data.npos * K)
                if first >= options.min_nodes_before_prices:
                    first = first if max_nodes is None else min(first, max_nodes)
                    status = self.run(clock, first)
                    if status is not Status.ITERATION_LIMIT or first == max_nodes:
                        return status
                self.prices = PriceSearch(data, best, self.tol, self.rng)
                while not (self.prices.is_done or self.limit(clock, max_nodes)):
                    self.nodes += 1
                    self.prices.look(clock)
                    self.record(clock)
                if self.prices.is_closed:
                    return self.record(clock)
            if self.takes_spread:
                self.spread = SpreadSearch(data, best, self.tol, clock, effective_n_jobs(self.n_jobs))
                self.spread_since = clock.seconds
            return self._without_tree(max_nodes) if self.is_large else self.run(clock, max_nodes)
        except KeyboardInterrupt:
            if not np.isfinite(best.cost):
                raise
            return self.record(clock, interrupted())

    def _without_tree(self, max_nodes: int | None) -> Status:
        """Explore the spread alone; its root, if nothing limits the search."""
        most = 1 if max_nodes is None and self.clock.left is None else np.inf
        spread, clock = self.spread, self.clock
        while spread and self.nodes < most and not (spread.is_done or self.limit(clock, max_nodes)):
            self.nodes += min(spread.jobs, len(spread.heap))
            spread.step()
            self.record(clock)
        return self.record(clock, self.limit(clock, max_nodes) or Status.BOUNDED)

    @property
    def is_done(self) -> bool:
        """True if any of the bounds closes the gap."""
        prices, spread = self.prices, self.spread
        by_spread = spread is not None and spread.is_done and spread.closes
        return super().is_done or by_spread or (prices is not None and prices.is_closed)

    def step(self) -> None:
        """Explore a node of the tree, and one of the spread if it has its turn."""
        super().step()
        spread = self.spread
        if spread is not None and self._has_turn(spread):
            before = self.clock.seconds
            spread.step()
            self.spread_seconds += self.clock.seconds - before

    def _has_turn(self, spread: SpreadSearch) -> bool:
        """True if a node of the spread comes next."""
        clock, options = self.clock, self.options
        turn = options.turn * self.data.A.shape[1]
        if spread.is_done or clock.is_over:
            return False
        since = clock.seconds - self.spread_since
        is_late = clock.left is not None and since > options.time_behind * (since + clock.left)
        # If prices leave a gap, the tree does not close it soon.
        if self.prices is None and self.nodes < options.turns_before_spread * turn and not is_late:
            return False
        is_ahead = spread.nodes > 0 and spread.bound >= self.proven
        if clock.left is None:
            return self.nodes >= turn * (1 if is_ahead else options.slowdown_if_behind) * spread.nodes
        fraction = options.time_ahead if is_ahead else options.time_behind
        return spread.nodes == 0 or self.spread_seconds <= fraction * since

    @property
    def bound(self) -> float:
        """Largest of the bounds, less all rounding errors."""
        least = self.proven
        for other in (self.spread, self.prices):
            if other is not None:
                least = max(least, min(other.bound, self.best.cost))
        # Costs of equal samples were added up, which scales the optimum by no more than this.
        scaled = 2.0 * gamma(len(self.original[1]) + 4) * abs(least)
        self._proven = max(self._proven, float(np.nextafter(least - scaled, -np.inf)))
        return self._proven

    def solution(self, status: Status) -> Solution:
        """Return the incumbent, its faces solved nearly to rounding."""
        (X, y, C), data, best = self.original, self.data, self.best
        K = len(best.W)
        face = (data.points @ best.W.T).argmax(axis=1)
        faces = [polished_face(data, face, k, 0.1 * self.tol * best.cost / K, self.clock) for k in range(K)]
        a, W = np.array([multipliers for multipliers, _ in faces]), np.array([w for _, w in faces])
        duals = {"margin": unmerge(a.T, data.C, self.merged, C)}
        others = max(self.proven, 0.0 if self.spread is None else self.spread.bound)
        if self.prices is not None and self.prices.bound > others:
            duals["price"] = unmerge(self.prices.of_samples, data.C, self.merged, C)[:, 0]
        value = objective(X, y, W, C)
        if value > best.cost:
            W, value = best.W.copy(), objective(X, y, best.W, C)
        assignment = natural_assignment(X, y, W)
        assigned = (self.merged >= 0) & (y > 0)
        assignment[assigned] = face[self.merged[assigned] - data.inside]
        bound = min(self.bound, value)
        if status is Status.SOLVED and value - bound > self.tol * value:
            status = Status.INACCURATE
        taken = {"prices": self.takes_prices, "tree": not self.is_large, "spread": self.takes_spread}
        bounds = ", ".join(name for name, is_taken in taken.items() if is_taken)
        return Solution(
            status=status, objective=value, bound=bound, solver=f"branch and bound, {bounds}",
            iterations=self.nodes, primal={"W": W, "assignment": assignment}, duals=duals,
            solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip


def merge(X: Vector, y: Vector, C: Vector, rng: np.random.Generator) -> tuple[Samples, NDArray[np.int64]]:
    """Merge equal samples of a class into one with the sum of their costs; return the position (n,) of each.

    The optimum is the same: some optimal assignment gives equal samples the same face. The position is -1 if
    the cost is 0. Within a class the order is random, as sweeps over sorted samples favour some directions.
    """
    rows = np.column_stack([y, X])
    kept = np.flatnonzero(C > 0)
    unique, place = np.unique(rows[kept], axis=0, return_inverse=True)
    order = rng.permutation(len(unique))
    order = order[np.argsort(unique[order, 0], kind="stable")]
    unique, place = unique[order], np.argsort(order)[place.ravel()]
    costs = np.zeros(len(unique))
    np.add.at(costs, place, C[kept])
    A = np.ascontiguousarray(lift(unique[:, 1:]) * unique[:, :1])
    merged = np.full(len(y), -1)
    merged[kept] = place
    return Samples(A, (A * A).sum(axis=1), costs, int((unique[:, 0] < 0).sum())), merged


def unmerge(a: Vector, merged_costs: Vector, merged: NDArray[np.int64], C: Vector) -> Vector:
    """Divide multipliers of merged samples among them, in proportion to their costs."""
    fraction = np.where(merged >= 0, C / merged_costs[merged], 0.0)
    return a[merged] * fraction[:, None]
