"""The exact Polyceptron's optimum over all faces and assignments: proven, or bounded, for data of any size.

What is minimised is that of :mod:`formulations.polyceptron`, over the faces in the box |W| ≤ R and over the
face of each negative: Σ_+ c_i Σ_k [1 − s_ik]_+ + Σ_− c_j min_k [1 + s_jk]_+. Starts of the alternating
descent give a point. :mod:`polyopt.outer.polyceptron_tree` searches all samples together, proves the optimum
of small data, and finds better points on the way. What it leaves open is bounded by parts too.

Theorem. Let parts g have costs c^g ≥ 0 with Σ_g c^g ≤ c, for each sample. The optimum for the costs c is not
below the sum of the parts' optima.

Proof. The cost of faces W is linear in c and rises with it, so that W costs no less than the sum of what it
costs the parts, each of which is no less than the part's optimum. ∎

The parts are made one after the other. The first ones are of the negatives between positives (in their convex
hull), all together or some at a time: the root of their tree is a bound by itself, and takes of each positive
no more than its multipliers add up to (:mod:`polyopt.solvers.polyceptron_hull`). What is left of the costs of
positives is shared by groups of the other negatives: each gets all positives, at an equal share of what is
left of them. By concavity of the optimum in the costs, that is on average no worse than to deal the positives
out. Negatives that are alike are in different groups, as those that one face can hold together prove little.

The bound is of faces in the box, whatever their number in the first parts. In many dimensions few negatives
are between positives, small groups can be separated, so that they prove nothing, and large ones are not
searched to their ends: there the gap is wide. The sums are lowered by their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import positive, tolerance, whole, whole_or_none
from formulations.clock import interrupted
from formulations.matrices import dense
from formulations.polytope import lift
from formulations.recovery import as_costs, as_data
from formulations.solution import Solution, Status
from polyopt.certificates.rounding import gamma
from polyopt.outer.cpm.alike import groups_alike
from polyopt.outer.faces_by_programs import largest_entries
from polyopt.outer.polyceptron import ExactPolyceptron
from polyopt.outer.polyceptron_tree import FaceTree
from polyopt.outer.rounds import Stage, run_from_many_starts, run_rounds
from polyopt.solvers.clock import Clock
from polyopt.solvers.polyceptron_hull import Enclosed, pairs_between
from polyopt.solvers.polyceptron_node import NodeProgram, Part
from polyopt.watch import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

    Places = NDArray[np.int64]

__all__ = ["solve_polyceptron_global"]

# Of the time, by when the starts, the look for enclosed negatives, their parts, and the tree are through.
_STARTS, _ENCLOSED, _HULL, _WHOLE = 0.1, 0.25, 0.4, 0.5
_NODES = 20_000  # of the tree of all samples, and of all groups together, where there is no other limit
_ROUNDS = 100  # of a descent
_GROUP = 60  # negatives of a group; this, pairs and times were chosen on pima, bupa, heart, banana
_MOST = 1_000  # negatives, beyond which there is no tree of all samples: it would only find points
_PAIRS, _HULL_PAIRS = 4_000, 40_000  # of enclosed negatives and positives: up to so many, each with all
_STEP, _PASSES = 50, 3  # enclosed negatives of a part, where they are more, and visits to each of them
_NOTHING = 1e-6  # of a cost: what is left of one that is used up
_CLOSE = 1e-3  # relative gap at which a group is done: less would not show in the sum
_RECORD = 50  # nodes between records of the history


def solve_polyceptron_global(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike,
    n_faces: int,
    *,
    radius: float = 1e4,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    n_init: int = 10,
    group_size: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    first: Callable[[float | None], Vector] | None = None,
) -> Solution:
    """A good point of the exact Polyceptron, and a bound that no faces in the box can beat.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        Samples; sparse ones are made dense.
    y : array_like of shape (n,)
        Labels: +1 inside, -1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    n_faces : int
        K, at least 1.
    radius : float
        R, finite.
    tol : float
        Relative gap at which the point counts as optimal.
    max_nodes : int, optional
        Linear programs at most, of the tree of all samples, and again of all groups together; 20,000 where
        there is no time limit.
    n_init : int
        Starts of the descent.
    group_size : int, optional
        Negatives of a group at most, 60 by default.
    time_limit : float, optional
        Seconds: 10 % at most for starts, 40 % by the end of the first parts, 50 % by that of the tree.
    seed : int
        Of the starts and the groups.
    n_jobs : int, optional
        Starts made at once, as joblib counts.
    first : callable, optional
        Gives the faces (K, m+1) of one start more, the first, from the seconds left (None for no limit).

    Returns
    -------
    Solution
        Primal ``W``; duals ``margin`` (n, K), of the assignment that W has, and ``part_bound``, the bounds
        of the parts whose sum is the ``bound``: one where all samples together prove more. ``SOLVED`` if
        point and bound are within `tol`. A limit, or Ctrl-C, keeps the best point and the bound reached.
        ``iterations`` counts linear programs; ``history`` has a record for each fifty, and for each part.

    Raises
    ------
    ValueError
        Arguments that make no program, or a radius that is not finite: without a box nothing is proven.
    """
    X, y = as_data(X, y)
    tol = tolerance(tol)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes, -1 and +1: with one of them there is nothing to assign")
    problem = ExactPolyceptron(X, y, as_costs(C, len(y)), n_faces, positive("radius", radius))
    whole_or_none("max_nodes", max_nodes)
    size = _GROUP if group_size is None else whole("group_size", group_size)
    if max_nodes is None and time_limit is None:
        max_nodes = _NODES
    clock = Clock(time_limit)
    point = run_from_many_starts(
        [Stage(problem, _ROUNDS)], n_init=n_init if n_faces > 1 else 1, seed=seed, n_jobs=n_jobs,
        time_limit=None if time_limit is None else _STARTS * time_limit, first=first,
    )  # fmt: skip
    search = _Search(problem, point, tol, clock, time_limit, max_nodes)
    search.run(size, seed)
    return search.solution()


@dataclass
class _Search:
    """One search: the point, what is proven, and how far it is."""

    problem: ExactPolyceptron
    point: Solution
    tol: float
    clock: Clock
    limit: float | None
    max_nodes: int | None
    tree: FaceTree | None = None
    nodes: int = 0  # of parts
    status: Status = Status.BOUNDED
    parts: list[float] = field(default_factory=list)  # bounds
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        X, y, c = dense(self.problem.X), self.problem.y, self.problem.c
        self.rows = lift(X)
        self.inside, self.outside = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        self.left = c.astype(float)  # of each sample's cost, for parts
        self.units = 1.0 / np.append(largest_entries(X), 1.0)

    def run(self, size: int, seed: int) -> None:
        """All samples together, then parts; until the gap is closed, or a limit is reached."""
        if self.point.status is Status.INTERRUPTED:
            self.status = Status.INTERRUPTED
            return
        if self.point.objective == 0.0:
            return
        try:
            rng = np.random.default_rng(seed)
            held = self._enclosed(rng)
            if len(self.outside) <= _MOST:
                self._plant(held, rng)
            self._hull_parts(held, rng)
            self._grow()
            if self.tree is None or not self.tree.is_done:
                self._groups(size, rng)
        except KeyboardInterrupt:
            self.status = interrupted()

    def solution(self) -> Solution:
        """What is known."""
        whole = 0.0 if self.tree is None else self.tree.bound
        bounds = [whole] if whole >= _sum_of(self.parts) else self.parts
        bound = min(_sum_of(bounds), self.point.objective)
        closed = self.point.objective - bound <= self.tol * self.point.objective
        return replace(
            self.point,
            primal={**self.point.primal, "W": self.problem.within_span(self.point["W"])},
            status=Status.SOLVED if closed else self.status,
            duals={**self.point.duals, "part_bound": np.array(bounds)},
            bound=bound,
            solver=f"branch and bound, {len(bounds)} parts" if bounds is self.parts else "branch and bound",
            iterations=max(self._solved, 1),
            solve_time=self.clock.seconds,
            history=(*self.point.history, *self.history),
        )

    # -- all samples together ------------------------------------------------------------------

    def _enclosed(self, rng: np.random.Generator) -> dict[int, Places]:
        """The negatives that are between positives, and between which."""
        part, found, until = self._part(np.arange(len(self.outside))), {}, self._until(_ENCLOSED)
        looker = Enclosed(part)
        for j in rng.permutation(len(self.outside)).tolist():
            if until.is_over:
                break
            support = looker.support(j)
            if support is not None:
                found[j] = support
        return found

    def _plant(self, held: dict[int, Places], rng: np.random.Generator) -> None:
        """The tree of all samples, while nothing of their costs is spent."""
        whole = self._part(np.arange(len(self.outside)))
        program = NodeProgram(whole, pairs_between(whole, held, len(held) * len(self.inside) <= _PAIRS, rng))
        self.tree = FaceTree(program, self.tol, self._taken)

    def _grow(self) -> None:
        if self.tree is None:
            return
        until = self._until(_WHOLE)
        most = np.inf if self.max_nodes is None else self.max_nodes
        while not (self.tree.is_done or until.is_over or self.tree.nodes >= most):
            self.tree.run(_RECORD, until)
            self._record()
        if not self.tree.is_done:
            self.status = _short(until)

    def _taken(self, W: Vector, value: float) -> float:
        """Keep faces that are better for all samples, after a descent from them; the least cost known."""
        if value < self.point.objective:
            found = run_rounds(self.problem, W, max_iter=_ROUNDS, time_limit=self.clock.left)
            if found.objective < self.point.objective:
                self.point = replace(found, history=self.point.history)
        return self.point.objective

    # -- parts ---------------------------------------------------------------------------------

    def _hull_parts(self, held: dict[int, Places], rng: np.random.Generator) -> None:
        """The enclosed negatives, together or some at a time: the roots of their trees."""
        until, together = self._until(_HULL), len(held) * len(self.inside) <= _HULL_PAIRS
        for _ in range(1 if together else _PASSES):
            at = np.array([j for j in held if self._has_left(self.outside[j])], dtype=np.int64)
            step = max(len(at), 1) if together else _STEP
            for first in range(0, len(at), step):
                if until.is_over:
                    return
                own = np.sort(at[first : first + step])
                part, among = self._part(own), {place: held[j] for place, j in enumerate(own.tolist())}
                program = NodeProgram(part._replace(n_faces=1), pairs_between(part, among, together, rng))
                found = program.solve(np.full(len(own), -1), until.left)
                self.nodes += 1
                if found.bound > 0.0:
                    self._spend(own, found.t, found.used, found.bound)

    def _has_left(self, places: Places) -> NDArray[np.bool_]:
        """Whether more than rounding is left of samples' costs."""
        return np.asarray(self.left[places] > _NOTHING * self.problem.c[places])

    def _groups(self, size: int, rng: np.random.Generator) -> None:
        """The other negatives in groups, each with a share of what is left of the positives."""
        at = np.flatnonzero(self._has_left(self.outside))
        count = -(-len(at) // size)
        if count == 0:
            return
        group = groups_alike(self.rows[self.outside[at], :-1], np.ones(len(at)), count, rng)
        share = self.left[self.inside] * ((1.0 - gamma(count + 4)) / count)
        for g in range(count):
            if self.clock.is_over:
                self.status = Status.TIME_LIMIT
                return
            own, clock = at[group == g], self.clock.part(1.0 / (count - g))
            part = self._part(own)._replace(b=share)
            nothing = np.zeros(0, dtype=np.int64)
            tree = FaceTree(NodeProgram(part, (nothing, nothing)), _CLOSE, self._tried)
            self.parts.append(0.0)
            try:
                tree.run(10**9 if self.max_nodes is None else max(self.max_nodes // count, 1), clock)
            finally:
                self.parts[-1] = tree.bound
                self.nodes += tree.nodes
            self._record()
            if not tree.is_done and self.status is Status.BOUNDED:
                self.status = _short(clock)

    def _tried(self, W: Vector, value: float) -> float:
        """Faces of a group, as faces for all samples; what they cost the group is all that is known of it."""
        self._taken(W, self.problem.value(W))
        return value

    def _spend(self, own: Places, t: Vector, used: Vector, bound: float) -> None:
        """A part's bound, and what of the costs is left."""
        self.parts.append(bound)
        for places, amount in ((self.outside[own], t), (self.inside, used)):
            rest = self.left[places] - amount * (1.0 + gamma(8))
            self.left[places] = np.maximum(rest, 0.0) * (1.0 - gamma(8))
        self._record()

    def _part(self, own: Places) -> Part:
        """Some negatives, and all positives, with what is left of their costs."""
        rows = self.outside[own]
        return Part(
            self.rows[self.inside], self.rows[rows], self.left[self.inside], self.left[rows],
            self.problem.n_faces, self.problem.radius, self.units,
        )  # fmt: skip

    # -- limits --------------------------------------------------------------------------------

    def _until(self, share: float) -> Clock:
        """A clock for what is left of a share of the time."""
        left = self.clock.left
        if left is None or self.limit is None:
            return self.clock
        return Clock(max(share * self.limit - self.clock.seconds, 0.0))

    @property
    def _solved(self) -> int:
        """Linear programs of the tree and of parts."""
        return self.nodes + (0 if self.tree is None else self.tree.nodes)

    def _record(self) -> None:
        whole = 0.0 if self.tree is None else self.tree.bound
        self.history.append(
            {
                "nodes": float(self._solved),
                "parts": float(len(self.parts)),
                "bound": max(whole, _sum_of(self.parts)),
                "objective": self.point.objective,
                "seconds": self.clock.seconds,
            }
        )
        tell(self.history[-1])


def _short(clock: Clock) -> Status:
    return Status.TIME_LIMIT if clock.is_over else Status.ITERATION_LIMIT


def _sum_of(bounds: list[float]) -> float:
    """What the sum of bounds, none below 0, is not below."""
    return float(np.sum(bounds) * (1.0 - 2.0 * gamma(len(bounds) + 2)))
