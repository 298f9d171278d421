"""The global optimum of the Convex Polytope Machine for small data, by branch and bound.

The search of :mod:`polyopt.solvers.cpm.tree` goes through partial assignments and leaves out those that a
dual bound shows to be no better than a known solution: it returns a point, and a bound on all assignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from joblib import effective_n_jobs

from formulations.matrices import dense
from formulations.polytope import natural_assignment, objective
from formulations.recovery import as_costs, as_data
from formulations.solution import Solution, Status
from polyopt.outer.cpm.arguments import MOST_SAMPLES, as_faces, check_arguments, searches_told
from polyopt.outer.cpm.assignments import AssignmentSearch
from polyopt.outer.cpm.beside import Beside
from polyopt.outer.cpm.first import begin, take
from polyopt.outer.cpm.polish import polished_face
from polyopt.outer.cpm.prepared import unmerge
from polyopt.outer.cpm.prices import PriceSearch
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

    Vector = NDArray[np.float64]

__all__ = ["MOST_SAMPLES", "solve_cpm_global"]

_STARTS, _FEWER = 30, 5  # of the alternating heuristic, each from random directions and at random
_FINE, _COARSE = 1e-9, 1e-7  # of all costs: a start's precision
_BEGINNING = 0.2  # of the time left, for the starts
_FEW = 3**8  # assignments that need no prices
# Samples times positives times faces times nodes before prices, and nodes that are worth it.
_QUICK, _WORTH = 300_000, 100


def solve_cpm_global(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike,
    n_faces: int,
    *,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    time_limit: float | None = None,
    start: ArrayLike | None = None,
    seed: int = 0,
    bounds: Literal["best", "additive", "plain"] = "best",
    n_jobs: int | None = None,
    known: Sequence[ArrayLike] = (),
) -> Solution:
    """Minimise eq. (6) over the faces and over all assignments.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Samples, at most 500; 2,000 with the spread, 20,000 with prices (see `bounds`). Sparse ones are made
        dense.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K, at least 1.
    tol : float
        Relative gap between point and bound at which the search ends.
    max_nodes : int, optional
        Partial assignments, and rounds of prices, at most.
    time_limit : float, optional
        Seconds.
    start : array_like of shape (K, m+1), optional
        Faces to begin from. By default the best of many starts, for a fifth of the time limit at most.
    seed : int
        Of random starts and of the order in which bounds are added up: the same seed, the same search.
    bounds : {"best", "additive", "plain"}
        What bounds a partial assignment: the faces' dual values and what the samples not assigned must cost
        besides (:mod:`polyopt.solvers.cpm.bound`), or, with "plain", the former alone. With more than one
        face "best" takes the spread of the faces too (:mod:`polyopt.outer.cpm.spread`), beyond 500 samples
        alone: the root, or what a limit allows. With up to 4 features it begins with prices
        (:mod:`polyopt.outer.cpm.prices`), which mostly prove the optimum, and takes boxes
        (:mod:`polyopt.outer.cpm.boxes`).
    n_jobs : int, optional
        Nodes of the spread looked into at once, as joblib counts.
    known : sequence of array_like of shape (K, m+1)
        Faces that the answer is to be no worse than: tried after the starts.

    Returns
    -------
    Solution
        ``primal`` W (K, m+1) and assignment (n,), -1 at the negatives; ``duals`` margin (n, K), for that
        assignment, and, where they prove the bound, price (n,); ``objective`` at the point; ``bound``, which
        no assignment's optimum is below: it is lowered by running error bounds. ``SOLVED`` if the two are
        within `tol`; a limit, or Ctrl-C, keeps the best point and the bound reached. ``iterations`` counts
        nodes, and rounds of prices; ``history`` has a record for each fifth of a second. Open nodes beyond
        256 MiB are left for a search depth first.

    Raises
    ------
    ValueError
        More samples than that, or arguments that make no program.
    """
    X, y = as_data(X, y)
    costs = as_costs(C, len(y))
    priced, spread = check_arguments(y, costs, X.shape[1], n_faces, tol, bounds)
    X, first = dense(X), None if start is None else as_faces("start", start, (n_faces, X.shape[1] + 1))
    clock, additive = Clock(time_limit), bounds != "plain"
    jobs, rng = effective_n_jobs(n_jobs), np.random.default_rng(seed)
    search = _Search(X, y, costs, n_faces, tol, clock, rng, priced, spread, jobs)
    search.known = [as_faces("known", W, (n_faces, X.shape[1] + 1)) for W in known]
    told = searches_told(bounds, search.is_large, priced, spread)
    return search.solution(search.run(first, max_nodes, additive), told)


class _Search(AssignmentSearch):
    """The search of one program, with what bounds its faces beside the tree."""

    known: Sequence[Vector] = ()  # faces to be no worse than

    def run(self, first: Vector | None, max_nodes: int | None, additive: bool) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            starts, time = _FEWER if self.is_large else _STARTS, self.clock.part(_BEGINNING)
            precision = _COARSE if self.is_large else _FINE
            begin(self.data, self.best, precision, first, starts, time, self.rng)
            for W in self.known:
                take(self.data, self.best, precision, W, self.clock)
            if self.takes_prices and (self.is_large or self.n_faces**self.npos > _FEW):
                quick = 0 if self.is_large else _QUICK // (len(self.data.C) * self.npos * self.n_faces)
                if quick >= _WORTH:
                    nodes = quick if max_nodes is None else min(quick, max_nodes)
                    status = self._explore(nodes, additive)
                    if status is not Status.ITERATION_LIMIT or nodes == max_nodes:
                        return status
                self.prices = PriceSearch(self.data, self.best, self.tol, self.rng)
                if self._priced(self.prices, max_nodes):
                    return self._record(Status.SOLVED)
            if self.takes_spread:
                boxes = self.takes_prices and not self.is_large
                self.beside = Beside(self.data, self.best, self.tol, self.clock, self.jobs, boxes=boxes)
            return self._spread(max_nodes) if self.is_large else self._explore(max_nodes, additive)
        except KeyboardInterrupt:
            if not np.isfinite(self.best.limits[0]):
                raise
            return self._record(Status.INTERRUPTED)

    def _priced(self, prices: PriceSearch, max_nodes: int | None) -> bool:
        """Rounds of prices, until they bring nothing more; whether they close the gap."""
        while not (prices.is_done or self.clock.is_over or self.nodes == max_nodes):
            self.nodes += 1
            prices.look(self.clock)
            self._record()
        return prices.is_closed

    def _spread(self, max_nodes: int | None) -> Status:
        """Nodes of the spread alone, of data too large for the tree; the root, if nothing limits them."""
        alone = 1 if max_nodes is None and self.clock.left is None else np.inf
        spread = self.beside.spread if self.beside else None
        while spread and self.nodes < alone and not (spread.is_done or self._limit(max_nodes)):
            self.nodes += spread.look(self.clock)
            self._record()
        return self._record(self._limit(max_nodes) or Status.BOUNDED)

    def _prices_told(self) -> dict[str, Vector]:
        """The prices, if it is they that prove the bound."""
        others = max(self._least(), 0.0 if self.beside is None else self.beside.bound)
        if self.prices is None or self.prices.bound <= others:
            return {}
        return {"price": unmerge(self.prices.of_samples, self.data.C, self.merged, self.C)[:, 0]}

    def solution(self, status: Status, solver: str) -> Solution:
        """The incumbent, its faces solved as exactly as double precision allows."""
        face = (self.data.A[self.data.inside :] @ self.best.W.T).argmax(axis=1)
        little = 0.1 * self.tol * self.best.limits[0] / self.n_faces
        faces = [polished_face(self.data, face, k, little, self.clock) for k in range(self.n_faces)]
        a, W = np.array([multipliers for multipliers, _ in faces]), np.array([w for _, w in faces])
        alpha = unmerge(a.T, self.data.C, self.merged, self.C)
        value = objective(self.X, self.y, W, self.C)
        if value > self.best.limits[0]:
            W, value = self.best.W.copy(), objective(self.X, self.y, self.best.W, self.C)
        assignment = natural_assignment(self.X, self.y, W)
        assigned = (self.merged >= 0) & (self.y > 0)
        assignment[assigned] = face[self.merged[assigned] - self.data.inside]
        bound = min(self._bound(), value)
        if status is Status.SOLVED and value - bound > self.tol * value:
            status = Status.INACCURATE
        return Solution(
            status=status, objective=value, bound=bound, solver=solver, iterations=self.nodes,
            primal={"W": W, "assignment": assignment},
            duals={"margin": alpha, **self._prices_told()},
            solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip
