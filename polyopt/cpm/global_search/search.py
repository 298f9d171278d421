"""The global optimum of the Convex Polytope Machine for small data, by branch and bound over assignments.

The search goes through partial assignments of positives to faces, best bound first, and leaves out those that
a dual bound shows to be no better than a known solution: it returns a point, and a bound on all assignments.
Three bounds work on the same incumbent, and the largest of them counts:

- the tree of :mod:`polyopt.cpm.global_search.tree`, for up to 500 samples;
- a tree of its own with the bound by the spread of the faces (:mod:`polyopt.cpm.global_search.spread`), for
  up to 2,000 samples and more than one face;
- with up to 4 features and more than one face, one face at prices of the positives
  (:mod:`polyopt.cpm.global_search.prices`), for up to 20,000 samples.

Prices come first, after what the tree proves quickly. Then the tree and the spread take turns. Without
prices the tree has the first nodes, or a tenth of the time, alone; then the one with the larger bound gets
more turns. Without a limit in seconds turns are counted, so that the same seed makes the same search. With
one, the spread has half of the time as long as its bound is the larger, four fifths if the tree's gap is more
than twice its own, and a tenth otherwise.

The order in which samples add to a bound of the tree matters, and finding a good one takes as long as some
hundred nodes: it is sought once the tree has not ended within some hundreds. Equal samples become one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from joblib import effective_n_jobs

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution, Status
from formulations.language.types import dense
from formulations.polytope import lift, natural_assignment, objective
from polyopt.base.progress import tell
from polyopt.certificates.points import checked_faces
from polyopt.cpm.global_search.bound import Moves, add_up, moves_for, try_move
from polyopt.cpm.global_search.face import Samples, caps_of, climb
from polyopt.cpm.global_search.incumbent import begin, take
from polyopt.cpm.global_search.polish import polished_face, refine
from polyopt.cpm.global_search.prices import MAX_FEATURES, PriceSearch
from polyopt.cpm.global_search.spread import SpreadSearch
from polyopt.cpm.global_search.tree import MOST_SAMPLES, Best, Node, examine, node_for
from polyopt.linalg.rounding import gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike, Vector

__all__ = ["best_order", "merge", "solve_cpm_global"]

_SHUFFLES, _ORDERS = 12, 100  # of the negatives, and of the moves for each, tried at the root
# 20,000 samples of two features take 0.6 GB, and a bound within 8 % takes two minutes; with 10,000 there is
# one within 4 % then.
_MAX_SAMPLES_PRICES = 20_000
_MAX_SAMPLES_SPREAD = 2_000  # whose moves take 8 bytes for each positive, sample and face
_MAX_ASSIGNMENTS_TREE = 3**8  # up to which no prices are needed
_TREE_FIRST_WORK = 300_000  # samples times positives times faces times nodes of the tree before prices
_TREE_FIRST_MIN_NODES = 100  # that are worth making before prices
_NODE_BYTES = 2**28  # for open nodes
_NODES_BEFORE_ORDER = 400  # of the tree: fewer are made sooner without a good order of the samples
_RECORD_SECONDS = 0.2  # between records of the history
# Nodes of the tree for each turn of the spread, times the dimension of a face, as its nodes take longer; such
# turns of the tree before the first one of the spread (with 3 of them 60 samples of pima took twice as long,
# with 100 a fifth more); and times as many nodes for a turn if the spread's bound is the lower one.
_NODES_A_TURN, _TURNS_BEFORE_SPREAD, _SLOWDOWN_IF_BEHIND = 2, 100, 10
# Of the time since, for the spread: if its gap is less than half of the tree's; if its bound is the larger;
# if it is not.
_TIME_FAR_AHEAD, _TIME_AHEAD, _TIME_BEHIND = 0.8, 0.5, 0.1


def solve_cpm_global(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike,
    n_faces: int,
    *,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    known: Sequence[ArrayLike] = (),
) -> Solution:
    """Minimise eq. (6) over the faces and over all assignments.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Samples, at most 2,000, or 20,000 with up to four features; 500 with one face. Sparse ones are made
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
        Seconds, a fifth of them at most for the starts.
    seed : int
        Of random starts and of the order in which bounds are added up: the same seed, the same search.
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
        nodes, and rounds of prices; ``history`` has a record for each fifth of a second. Beyond 500 samples
        without a limit the root of the spread ends the search. Open nodes beyond 256 MiB are left for a
        search depth first.

    Raises
    ------
    ValueError
        More samples than that, or arguments that make no program.
    """
    X, y = as_data(X, y)
    costs = as_costs(C, len(y))
    whole("n_faces", n_faces)
    tolerance(tol)
    shape = (n_faces, X.shape[1] + 1)
    search = _Search(
        dense(X), y, costs, n_faces, tol, Clock(time_limit), np.random.default_rng(seed),
        effective_n_jobs(n_jobs), [checked_faces("known", W, *shape) for W in known],
    )  # fmt: skip
    return search.solution(search.run(max_nodes))


@dataclass(order=True, frozen=True)
class _Open:
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    allowed: NDArray[np.bool_] = field(compare=False)
    alpha: Vector = field(compare=False)


class _Search:
    """One search: the data as given and merged, the open nodes of the tree, and the other bounds."""

    def __init__(
        self, X: Vector, y: Vector, C: Vector, n_faces: int, tol: float, clock: Clock,
        rng: np.random.Generator, jobs: int, known: Sequence[Vector],
    ):  # fmt: skip
        several = n_faces > 1 and len(np.unique(y[C > 0])) > 1
        self.takes_prices = several and X.shape[1] <= MAX_FEATURES and len(y) <= _MAX_SAMPLES_PRICES
        self.takes_spread = several and len(y) <= _MAX_SAMPLES_SPREAD
        if len(y) > MOST_SAMPLES and self.takes_prices:  # of so many, prices prove more
            self.takes_spread = False
        if len(y) > MOST_SAMPLES and not (self.takes_prices or self.takes_spread):
            most = _MAX_SAMPLES_SPREAD if several else MOST_SAMPLES
            raise ValueError(
                f"the global optimum can be sought for up to {most:,} samples, or {_MAX_SAMPLES_PRICES:,} "
                f"with up to {MAX_FEATURES} features and several faces, not {len(y):,}: use alternating "
                "minimisation from many starts (solver='exact' or 'dual')"
            )
        self.X, self.y, self.C, self.n_faces, self.tol = X, y, C, n_faces, tol
        self.clock, self.rng, self.jobs, self.known = clock, rng, jobs, known
        self.data, self.merged = merge(X, y, C, rng)
        n, d = self.data.A.shape
        self.npos = n - self.data.inside
        self.best = Best(np.zeros((n_faces, d)), np.array([np.inf, np.inf, 0.0]))
        self.is_large = n > MOST_SAMPLES  # too many for the tree
        self.room = _NODE_BYTES // (8 * n_faces * n + n_faces * self.npos + 400)
        root = _Open(0.0, 0, 0, np.ones((self.npos, n_faces), dtype=bool), np.zeros((n_faces, n)))
        self.heap = [root]
        self.stack: list[_Open] = []  # begun where there is no more room
        self.nodes, self.made, self.at_hand, self.proven = 0, 0, np.inf, 0.0
        self.moves: Moves | None = None
        self.node: Node | None = None  # the room for the node at hand
        self.is_ordered = False
        self.prices: PriceSearch | None = None
        self.spread: SpreadSearch | None = None
        self.spread_since = self.spread_seconds = 0.0  # when it could begin, and what it took
        self.history: list[dict[str, float]] = []

    def run(self, max_nodes: int | None) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            starts, precision = (5, 1e-7) if self.is_large else (30, 1e-9)
            begin(self.data, self.best, precision, starts, self.clock.part(0.2), self.rng)
            for W in self.known:
                take(self.data, self.best, precision, W, self.clock)
            if self.takes_prices and (self.is_large or self.n_faces**self.npos > _MAX_ASSIGNMENTS_TREE):
                size = len(self.data.C) * self.npos * self.n_faces
                nodes = 0 if self.is_large else _TREE_FIRST_WORK // size
                if nodes >= _TREE_FIRST_MIN_NODES:
                    nodes = nodes if max_nodes is None else min(nodes, max_nodes)
                    status = self._explore(nodes)
                    if status is not Status.ITERATION_LIMIT or nodes == max_nodes:
                        return status
                self.prices = PriceSearch(self.data, self.best, self.tol, self.rng)
                if self._priced(self.prices, max_nodes):
                    return self._record(Status.SOLVED)
            if self.takes_spread:
                self.spread = SpreadSearch(self.data, self.best, self.tol, self.jobs)
                self.spread_since = self.clock.seconds
            return self._spread_alone(max_nodes) if self.is_large else self._explore(max_nodes)
        except KeyboardInterrupt:
            if not np.isfinite(self.best.limits[0]):
                raise
            return self._record(interrupted())

    # -- prices and the spread -----------------------------------------------------------------

    def _priced(self, prices: PriceSearch, max_nodes: int | None) -> bool:
        """Make rounds of prices until they bring nothing more; return whether they close the gap."""
        while not (prices.is_done or self.clock.is_over or self.nodes == max_nodes):
            self.nodes += 1
            prices.look(self.clock)
            self._record()
        return prices.is_closed

    def _spread_alone(self, max_nodes: int | None) -> Status:
        """Look into nodes of the spread, of data too large for the tree; the root, if nothing limits them."""
        alone = 1 if max_nodes is None and self.clock.left is None else np.inf
        spread = self.spread
        while spread and self.nodes < alone and not (spread.is_done or self._limit(max_nodes)):
            self.nodes += spread.look(self.clock)
            self._record()
        return self._record(self._limit(max_nodes) or Status.BOUNDED)

    def _take_turn(self, spread: SpreadSearch) -> bool:
        """Look into nodes of the spread if it is its turn; return whether it proves the incumbent."""
        if self._has_turn(spread):
            before = self.clock.seconds
            spread.look(self.clock)
            self.spread_seconds += self.clock.seconds - before
        return spread.is_done and spread.closes

    def _has_turn(self, spread: SpreadSearch) -> bool:
        """Return whether it is the turn of the spread."""
        clock, a_turn = self.clock, _NODES_A_TURN * self.data.A.shape[1]
        if spread.is_done or clock.is_over:
            return False
        since = clock.seconds - self.spread_since
        is_late = clock.left is not None and since > 0.1 * (since + clock.left)
        # What prices leave open, the tree does not prove soon.
        if self.prices is None and self.nodes < _TURNS_BEFORE_SPREAD * a_turn and not is_late:
            return False
        tree = self._least()
        ahead = spread.nodes > 0 and spread.bound >= tree
        if clock.left is None:
            return self.nodes >= a_turn * (1 if ahead else _SLOWDOWN_IF_BEHIND) * spread.nodes
        best = float(self.best.limits[0])
        far = best - tree > 2.0 * (best - spread.bound)
        share = (_TIME_FAR_AHEAD if far else _TIME_AHEAD) if ahead else _TIME_BEHIND
        return spread.nodes == 0 or self.spread_seconds <= share * since

    # -- the tree ------------------------------------------------------------------------------

    def _explore(self, max_nodes: int | None) -> Status:
        """Explore the best bound first; where there is no more room, depth first, which needs little."""
        if self.moves is None:
            self.moves = moves_for(self.npos, len(self.data.C), self.data.A.shape[1], self.n_faces)
            self.node = node_for(self.data, self.n_faces, by_distance(self.data))
        while self.heap or self.stack:
            limit = self._limit(max_nodes)
            if limit is not None:
                return self._record(limit)
            if not self.history or self.clock.seconds > self.history[-1]["seconds"] + _RECORD_SECONDS:
                self._record()
            if self.prices is not None and self.prices.is_closed:
                break
            if self.nodes >= _NODES_BEFORE_ORDER and not self.is_ordered:
                self._order(self.moves)
            one = self.stack[-1] if self.stack else self.heap[0]
            self.at_hand = one.bound  # an interruption must not lose it
            _ = self.stack.pop() if self.stack else heappop(self.heap)
            assert self.node is not None
            for child in self._children(self.node, self.moves, one):
                if self.stack or len(self.heap) >= self.room:
                    self.stack.append(child)
                else:
                    heappush(self.heap, child)
            self.at_hand = np.inf
            if self.spread is not None and self._take_turn(self.spread):
                break
        return self._record(Status.SOLVED)

    def _order(self, moves: Moves) -> None:
        """Put the samples in a good order, those of open nodes too."""
        self.is_ordered = True
        order, rows = best_order(self.data, moves, self.rng, self.clock.part(0.1))
        given = self.data
        self.data = Samples(given.A[rows], given.q[rows], given.C[rows], given.inside)
        self.merged = np.where(self.merged >= 0, np.argsort(rows)[self.merged], -1)
        self.node = node_for(self.data, self.n_faces, order)
        for nodes in (self.heap, self.stack):
            nodes[:] = [replace(one, alpha=np.ascontiguousarray(one.alpha[:, rows])) for one in nodes]

    def _children(self, node: Node, moves: Moves, one: _Open) -> list[_Open]:
        """Return what is left to explore of an open node, the best last."""
        best = self.best
        if one.bound >= best.limits[0] * (1.0 - self.tol):
            best.limits[1] = min(best.limits[1], one.bound)
            return []
        self.nodes += 1
        node.allowed[:], node.alpha[:] = one.allowed, one.alpha
        bound, base, branch, used = examine(self.data, best, node, moves, one.bound, self.tol)
        exact = branch < 0 and bound < best.limits[0] * (1.0 - self.tol)
        if exact:  # coordinates did not get that far
            bound, base, branch = refine(self.data, best, node, bound, used, self.clock)
        if branch < 0:
            best.limits[1] = min(best.limits[1], bound)
            return []
        children = []
        for k in np.flatnonzero(node.allowed[branch, :used]):
            allowed, alpha, least = node.allowed.copy(), node.alpha.copy(), bound
            allowed[branch] = np.arange(self.n_faces) == k
            if not exact:  # the moves are those of the multipliers before
                alpha[k] += moves.delta[branch, k]
                least = max(bound, base + moves.gain[branch, k])
            self.made += 1
            children.append(_Open(least, one.depth - 1, self.made, allowed, alpha))
        return sorted(children, reverse=True)

    # -- what is known -------------------------------------------------------------------------

    def _limit(self, max_nodes: int | None) -> Status | None:
        if max_nodes is not None and self.nodes >= max_nodes:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def _record(self, status: Status = Status.SOLVED) -> Status:
        self.history.append(
            {
                "nodes": float(self.nodes),
                "open": float(len(self.heap) + len(self.stack)),
                "bound": self._bound(),
                "objective": float(self.best.limits[0]),
                "seconds": self.clock.seconds,
            }
        )
        tell(self.history[-1])
        return status

    def _bound(self) -> float:
        """Return the least bound of what is open and of what was cut or finished, less all rounding."""
        least = self._least()
        for other in (self.spread, self.prices):
            if other is not None:
                least = max(least, min(other.bound, float(self.best.limits[0])))
        # Costs of equal samples were added up, which scales the optimum by no more than this.
        scaled = 2.0 * gamma(len(self.y) + 4) * abs(least)
        self.proven = max(self.proven, float(np.nextafter(least - scaled, -np.inf)))
        return self.proven

    def _least(self) -> float:
        """Return the bound that the tree proves."""
        first = self.heap[0].bound if self.heap else np.inf
        cost, cut, error = self.best.limits
        return float(min([first, self.at_hand, cost, cut, *(one.bound for one in self.stack)]) - error)

    def _proving_prices(self) -> dict[str, Vector]:
        """Return the prices, if it is they that prove the bound."""
        others = max(self._least(), 0.0 if self.spread is None else self.spread.bound)
        if self.prices is None or self.prices.bound <= others:
            return {}
        return {"price": unmerge(self.prices.of_samples, self.data.C, self.merged, self.C)[:, 0]}

    def solution(self, status: Status) -> Solution:
        """Return the incumbent, its faces solved as exactly as double precision allows."""
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
        taken = {"prices": self.takes_prices, "tree": not self.is_large, "spread": self.takes_spread}
        bounds = ", ".join(name for name, is_taken in taken.items() if is_taken)
        return Solution(
            status=status, objective=value, bound=bound, solver=f"branch and bound, {bounds}",
            iterations=self.nodes, primal={"W": W, "assignment": assignment},
            duals={"margin": alpha, **self._proving_prices()}, solve_time=self.clock.seconds,
            history=tuple(self.history),
        )  # fmt: skip


def merge(X: Vector, y: Vector, C: Vector, rng: np.random.Generator) -> tuple[Samples, NDArray[np.int64]]:
    """Equal samples of one class, merged into one with the sum of their costs, and each sample's place.

    The optimum is the same: some optimal assignment gives equal samples the same face. The place is -1
    where the cost is 0. Within a class the order is random, as sweeps over sorted samples favour some
    directions.
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
    """Multipliers of the merged samples shared out in proportion to the costs."""
    share = np.where(merged >= 0, C / merged_costs[merged], 0.0)
    return a[merged] * share[:, None]


def by_distance(data: Samples) -> NDArray[np.int64]:
    """The positives, those in the middle of the negatives first, who cost as much on any face."""
    inside, points = -data.A[: data.inside, :-1], data.A[data.inside :, :-1]
    if not len(inside):
        return np.arange(len(points))
    scale = inside.std(axis=0)
    far = np.linalg.norm((points - inside.mean(axis=0)) / np.where(scale > 0, scale, 1.0), axis=1)
    return np.argsort(far, kind="stable")


def best_order(
    data: Samples, moves: Moves, rng: np.random.Generator, clock: Clock
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order in which the moves are added up for a good bound at the root, and that of the samples.

    It begins with that by distance; then samples are moved about as long as the bound rises. Which
    multipliers the moves use up depends on the order of the negatives too: of some at random that with the
    best bound is kept.
    """
    as_they_are, nearest = np.arange(len(data.C)), by_distance(data)
    if len(nearest) < 2 or not data.inside:
        return nearest, as_they_are
    best, order, kept = -np.inf, nearest, as_they_are
    for _ in range(_SHUFFLES):
        rows = np.r_[rng.permutation(data.inside), np.arange(data.inside, len(data.C))]
        shuffled = Samples(data.A[rows], data.q[rows], data.C[rows], data.inside)
        bound, found = _climb_orders(shuffled, nearest, moves, rng, clock)
        if bound > best:
            best, order, kept = bound, found, rows
        if clock.is_over:
            break
    return order, kept


def _climb_orders(
    data: Samples, order: NDArray[np.int64], moves: Moves, rng: np.random.Generator, clock: Clock
) -> tuple[float, NDArray[np.int64]]:
    """The bound, and the order with samples moved about at random where that raises it."""
    n, npos, K = len(data.C), len(order), moves.gain.shape[1]
    a, W, caps = np.zeros((K, n)), np.zeros((K, data.A.shape[1])), np.zeros((K, n))
    caps_of(data, np.full(npos, -1), 0, caps[0])
    climb(data, np.zeros(n), caps[0], a[0], W[0], 1000, np.inf, 0.0)
    for p in range(npos):
        try_move(data, caps[0], a[0], W[0], p, 0, moves, np.inf)
    everywhere = np.ones((npos, K), dtype=bool)
    most = -np.inf
    for trial in range(_ORDERS):
        one, other = rng.integers(npos, size=2)
        changed = _moved(order, one, other) if trial else order
        total = add_up(data, caps, a, W, moves, everywhere, changed, 1, np.inf)
        if total >= most:
            most, order = total, changed
        if clock.is_over:
            break
    return most, order


def _moved(order: NDArray[np.int64], one: int, other: int) -> NDArray[np.int64]:
    """The order with the sample at place `one` put at place `other`."""
    changed = order.copy()
    if one < other:
        changed[one:other] = order[one + 1 : other + 1]
    else:
        changed[other + 1 : one + 1] = order[other:one]
    changed[other] = order[one]
    return changed
