"""The global optimum of the Convex Polytope Machine for small data, by branch and bound over assignments.

The search returns faces, and a lower bound on their cost over all assignments. Three searches compute lower
bounds, of which the largest counts, and share one incumbent:

- the assignment tree, with trial moves (:mod:`polyopt.cpm.global_search.assignment_tree`), up to 500 samples;
- the spread tree, with multipliers that depend on the assignment (:mod:`polyopt.cpm.global_search.spread`),
  up to 2,000 samples and more than one face;
- column generation, with prices (multipliers) of the positives (:mod:`polyopt.cpm.global_search.prices`), up
  to 20,000 samples, 4 features and more than one face.

Column generation comes first, unless the assignment tree closes the gap quickly. Then the two trees
alternate. Without column generation the assignment tree has the first nodes, or a tenth of the time, alone;
afterwards the tree with the larger bound explores more nodes. Without a time limit the schedule counts nodes,
so the search is reproducible by its seed.

Each of the three is needed, as measured with three faces and 25 s on three quarters of each data set: without
the assignment tree wdbc keeps a gap of 0.09 %; without prices 200 two-dimensional samples have a gap of 3.5 %
after 13 s instead of 0 after 1 s. Without kicks, random changes of the first incumbent (:mod:`.incumbent`),
the gap of ionosphere is 9.2 % instead of 5.2 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import MatrixLike, Vector, dense
from formulations.polytope import lift, natural_assignment, objective
from polyopt.certificates.points import checked_faces
from polyopt.cpm.global_search.assignment_tree import MAX_SAMPLES, AssignmentTree
from polyopt.cpm.global_search.face import Samples, no_best, polished_faces
from polyopt.cpm.global_search.incumbent import find_incumbent, try_faces
from polyopt.cpm.global_search.prices import MAX_FEATURES, PriceSearch
from polyopt.cpm.global_search.spread import SpreadSearch
from polyopt.linalg.rounding import gamma
from polyopt.optim import best_first


@dataclass(frozen=True)
class Options(best_first.Options):
    """Parameters of the search, besides those of its trees.

    A *turn* of the assignment tree is its number of nodes between two nodes of the spread tree: `turn` times
    the dimension, because a node of the spread tree takes longer.
    """

    # Largest number of samples for column generation: 20,000 with two features take 0.6 GB and reach a gap of
    # 8 % in two minutes
    max_samples_prices: int = 20_000
    max_samples_spread: int = 2_000  # samples for the spread tree: 8 bytes per positive, sample and face
    min_assignments_prices: int = 3**8  # number of assignments above which column generation is used
    # Work of the assignment tree before column generation, in nodes × samples × positives × faces
    work_before_prices: int = 300_000
    min_nodes_before_prices: int = 100  # if that work allows fewer nodes, column generation comes first
    starts: int = 30  # number of random starts of the incumbent, for up to 500 samples
    starts_large: int = 5  # number of random starts of the incumbent for more samples
    starts_time: float = 0.2  # fraction of the time limit for the incumbent's heuristics
    turn: int = 2  # nodes of the assignment tree in a turn, per dimension
    # Turns before the spread tree begins. 60 samples of pima took twice as long with 3, 1.2 times with 100
    turns_before_spread: int = 100
    slowdown_if_behind: int = 10  # turns per node of the spread tree if its bound is not the largest
    time_ahead: float = 0.8  # fraction of a limited time for the spread tree if its bound is the largest
    time_behind: float = 0.1  # that fraction otherwise; the spread tree begins after it in any case


DEFAULT = Options()


def solve_cpm_global(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, n_faces: int, *, tol: float = 1e-6,
    max_nodes: int | None = None, time_limit: float | None = None, seed: int = 0,
    known: Sequence[ArrayLike] = (), options: Options = DEFAULT,
) -> Solution:  # fmt: skip
    """Minimise eq. (6) of the Convex Polytope Machine over the faces and over all assignments.

    X (n, m): at most 2,000 samples, or 20,000 with up to four features, and 500 with one face; made dense.
    tol: relative gap between objective and bound at which the search ends.
    max_nodes: largest number of nodes (partial assignments) of the trees and rounds of column generation.
    time_limit: seconds, at most a fifth of them for the first incumbent.
    seed: fixes random starts and the order of the samples, and without a time limit the search.
    known: candidate solutions (K, m+1); the result is at least as good.
    Returns: ``primal`` W (K, m+1) and assignment (n,), -1 at the negatives; ``duals`` margin (n, K), for that
        assignment, and price (n,) if prices prove the bound. ``bound`` is a lower bound on the optimum over
        all assignments, less rounding errors; SOLVED if it is within `tol` of the objective. A limit, or
        Ctrl-C, keeps the best faces and the bound. ``iterations`` counts nodes and rounds of column
        generation. With more than 500 samples and no limit the search ends after the root of the spread tree.
    """
    X, y = as_data(X, y)
    costs = as_costs(C, len(y))
    whole("n_faces", n_faces)
    tolerance(tol)
    faces = [checked_faces("known", W, n_faces, X.shape[1] + 1) for W in known]
    search = _Search(dense(X), y, costs, n_faces, tol, Clock(time_limit), seed, options)
    return search.solution(search.solve(faces, max_nodes))


class _Search(AssignmentTree):
    """The assignment tree, and the schedule of column generation and of the spread tree.

    data, merged: the samples without repetitions, and the index of each original sample among them
        (:func:`merge`).
    is_large: True if there are too many samples for the assignment tree.
    prices, spread: the two other searches; None until they begin, or if they are not used.
    """

    options: Options

    def __init__(
        self, X: Vector, y: Vector, C: Vector, n_faces: int, tol: float, clock: Clock, seed: int,
        options: Options,
    ):  # fmt: skip
        has_choice = n_faces > 1 and len(np.unique(y[C > 0])) > 1
        is_large = len(y) > MAX_SAMPLES
        self.uses_prices = has_choice and X.shape[1] <= MAX_FEATURES and len(y) <= options.max_samples_prices
        self.uses_spread = has_choice and len(y) <= options.max_samples_spread
        if is_large and self.uses_prices:  # prices give larger bounds for so many samples
            self.uses_spread = False
        if is_large and not (self.uses_prices or self.uses_spread):
            limit = options.max_samples_spread if has_choice else MAX_SAMPLES
            raise ValueError(
                f"the global optimum can be sought for up to {limit:,} samples, or "
                f"{options.max_samples_prices:,} with up to {MAX_FEATURES} features and several faces, not "
                f"{len(y):,}: use alternating minimisation from many starts (solver='exact' or 'dual')"
            )
        self.original, self.rng = (X, y, C), np.random.default_rng(seed)
        data, self.merged = merge(X, y, C, self.rng)
        super().__init__(data, no_best(n_faces, data.A.shape[1]), tol, clock, options)
        self.is_large = len(data.C) > MAX_SAMPLES
        self.prices: PriceSearch | None = None
        self.spread: SpreadSearch | None = None
        self.spread_since = self.spread_seconds = 0.0  # time of the spread tree's start, and seconds it used
        self._largest_bound = 0.0  # largest value of `bound` so far

    def solve(self, known: Sequence[Vector], max_nodes: int | None) -> Status:
        """Search until the gap is closed or a limit is reached."""
        data, best, clock, options = self.data, self.best, self.clock, self.options
        try:
            # The first incumbent
            starts, precision = (options.starts_large, 1e-7) if self.is_large else (options.starts, 1e-9)
            find_incumbent(data, best, precision, starts, clock.part(options.starts_time), self.rng)
            for W in known:
                try_faces(data, best, precision, W, clock)
            # Column generation, after some nodes of the assignment tree if these are cheap
            K = len(best.W)
            if self.uses_prices and (self.is_large or K**data.npos > options.min_assignments_prices):
                first_nodes = options.work_before_prices // (len(data.C) * data.npos * K)
                if not self.is_large and first_nodes >= options.min_nodes_before_prices:
                    first_nodes = first_nodes if max_nodes is None else min(first_nodes, max_nodes)
                    status = self.run(clock, first_nodes)
                    if status is not Status.ITERATION_LIMIT or first_nodes == max_nodes:
                        return status
                self.prices = PriceSearch(data, best, self.tol, self.rng)
                while not (self.prices.is_done or self.limit(clock, max_nodes)):
                    self.nodes += 1
                    self.prices.run_round(clock)
                    self.record(clock)
                if self.prices.is_closed:
                    return self.record(clock)
            # The two trees
            if self.uses_spread:
                self.spread = SpreadSearch(data, best, self.tol, clock)
                self.spread_since = clock.seconds
            return self._without_tree(max_nodes) if self.is_large else self.run(clock, max_nodes)
        except KeyboardInterrupt:
            if not np.isfinite(best.cost):
                raise
            return self.record(clock, interrupted())

    def _without_tree(self, max_nodes: int | None) -> Status:
        """Explore the spread tree alone; only its root if there is no limit of nodes or time."""
        spread, clock = self.spread, self.clock
        max_expanded = 1 if max_nodes is None and clock.left is None else np.inf
        while spread and self.nodes < max_expanded and not (spread.is_done or self.limit(clock, max_nodes)):
            self.nodes += 1
            spread.step()
            self.record(clock)
        return self.record(clock, self.limit(clock, max_nodes) or Status.BOUNDED)

    @property
    def is_done(self) -> bool:
        """True if one of the searches has closed the gap, or the assignment tree is explored."""
        prices, spread = self.prices, self.spread
        by_spread = spread is not None and spread.is_done and spread.closes_gap
        return super().is_done or by_spread or (prices is not None and prices.is_closed)

    def step(self) -> None:
        """Explore a node of the assignment tree, and one of the spread tree if the schedule says so."""
        super().step()
        spread = self.spread
        if spread is not None and self._is_turn_of(spread):
            start = self.clock.seconds
            spread.step()
            self.spread_seconds += self.clock.seconds - start

    def _is_turn_of(self, spread: SpreadSearch) -> bool:
        """True if a node of the spread tree comes next."""
        clock, options = self.clock, self.options
        turn = options.turn * self.data.A.shape[1]
        if spread.is_done or clock.is_over:
            return False
        since = clock.seconds - self.spread_since
        is_late = clock.left is not None and since > options.time_behind * (since + clock.left)
        # If column generation has left a gap, the assignment tree gets no start: it would not close it soon.
        if self.prices is None and self.nodes < options.turns_before_spread * turn and not is_late:
            return False
        is_ahead = spread.nodes > 0 and spread.bound >= self.proven
        if clock.left is None:
            turns_per_node = 1 if is_ahead else options.slowdown_if_behind
            return self.nodes >= turn * turns_per_node * spread.nodes
        fraction = options.time_ahead if is_ahead else options.time_behind
        return spread.nodes == 0 or self.spread_seconds <= fraction * since

    @property
    def bound(self) -> float:
        """The largest of the bounds, less rounding errors."""
        largest = self.proven
        for search in (self.spread, self.prices):
            if search is not None:
                largest = max(largest, min(search.bound, self.best.cost))
        # Rounding error of the merged samples' costs, relative to the optimum.
        error = 2.0 * gamma(len(self.original[1]) + 4) * abs(largest)
        self._largest_bound = max(self._largest_bound, float(np.nextafter(largest - error, -np.inf)))
        return self._largest_bound

    def solution(self, status: Status) -> Solution:
        """Return the incumbent, with its faces solved nearly to rounding, and the bound."""
        (X, y, C), data, best = self.original, self.data, self.best
        face = (data.points @ best.W.T).argmax(axis=1)
        alpha, W = polished_faces(data, best, face, self.tol, self.clock)
        duals = {"margin": unmerge(alpha.T, data.C, self.merged, C)}
        tree_bound = max(self.proven, 0.0 if self.spread is None else self.spread.bound)
        if self.prices is not None and self.prices.bound > tree_bound:
            duals["price"] = unmerge(self.prices.prices_of_samples, data.C, self.merged, C)[:, 0]
        # Values and assignment are of the original samples.
        value = objective(X, y, W, C)
        if value > best.cost:
            W, value = best.W.copy(), objective(X, y, best.W, C)
        assignment = natural_assignment(X, y, W)
        assigned = (self.merged >= 0) & (y > 0)
        assignment[assigned] = face[self.merged[assigned] - data.inside]
        bound = min(self.bound, value)
        if status is Status.SOLVED and value - bound > self.tol * value:
            status = Status.INACCURATE
        used = {"prices": self.uses_prices, "tree": not self.is_large, "spread": self.uses_spread}
        bounds = ", ".join(name for name, is_used in used.items() if is_used)
        return Solution(
            status=status, objective=value, bound=bound, solver=f"branch and bound, {bounds}",
            iterations=self.nodes, primal={"W": W, "assignment": assignment}, duals=duals,
            solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip


def merge(X: Vector, y: Vector, C: Vector, rng: np.random.Generator) -> tuple[Samples, NDArray[np.int64]]:
    """Merge equal samples of a class into one with the sum of their costs.

    The optimum is the same: some optimal assignment gives equal samples the same face. Samples with cost 0
    are dropped. Within a class the order is random: sweeps over sorted samples would favour some directions.

    Returns: the merged samples, and the index (n,) of each sample among them, -1 if it was dropped.
    """
    rows = np.column_stack([y, X])
    with_cost = np.flatnonzero(C > 0)
    unique, index = np.unique(rows[with_cost], axis=0, return_inverse=True)
    order = rng.permutation(len(unique))
    order = order[np.argsort(unique[order, 0], kind="stable")]
    unique, index = unique[order], np.argsort(order)[index.ravel()]
    costs = np.zeros(len(unique))
    np.add.at(costs, index, C[with_cost])
    A = np.ascontiguousarray(lift(unique[:, 1:]) * unique[:, :1])
    merged = np.full(len(y), -1)
    merged[with_cost] = index
    return Samples(A, (A * A).sum(axis=1), costs, int((unique[:, 0] < 0).sum())), merged


def unmerge(a: Vector, merged_costs: Vector, merged: NDArray[np.int64], C: Vector) -> Vector:
    """Divide the multipliers of merged samples among the original samples, in proportion to their costs."""
    fraction = np.where(merged >= 0, C / merged_costs[merged], 0.0)
    return a[merged] * fraction[:, None]
