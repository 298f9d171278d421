"""The global optimum of the Convex Polytope Machine where its faces are coupled, for small data.

Where a negative pays for its worst face alone (loss="max"), or all faces share a margin budget
(margin="worst"), no face has a program of its own, which :mod:`polyopt.outer.cpm.optimum` needs. This one
goes through the same partial assignments, best bound first. A node is the explicit program with the samples
assigned so far, and its multipliers give the bound on all completions of
:mod:`polyopt.certificates.cpm_partial`. A node takes milliseconds, and the bound is the weaker one of samples
that pay by their own multipliers: some tens of samples are its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm, cpm_worst
from formulations.polytope import natural_assignment
from formulations.solution import Solution, Status
from polyopt.certificates.cpm_partial import bound_of_completions
from polyopt.certificates.cpm_point import CpmPoint
from polyopt.certificates.geometry import LinearGeometry
from polyopt.outer.cpm.problem import PolytopeProblem
from polyopt.outer.cpm.worst import WorstCaseProblem
from polyopt.outer.rounds import run_rounds
from polyopt.watch import tell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import Margin
    from polyopt.solvers.clock import Clock

    Assignment = NDArray[np.int64]

__all__ = ["search_coupled"]

_STARTS = 5  # of the alternating heuristic
_ROUNDS = 100  # of each
_RECORD = 0.2  # seconds between records of the history
_FREE = -2  # a positive that is not assigned; negatives have -1


def search_coupled(
    X: Vector, y: Vector, C: Vector, n_faces: int, loss: Loss, margin: Margin, tol: float, clock: Clock,
    seed: int, max_nodes: int | None, start: Vector | None, additive: bool,
) -> Solution:  # fmt: skip
    """Minimise over the faces and over all assignments.

    Parameters
    ----------
    X, y, C, n_faces, tol, max_nodes, start, seed
        As in :func:`polyopt.outer.cpm.optimum.solve_cpm_global`, checked.
    loss, margin
        As in :func:`polyopt.certificates.certify_cpm`.
    clock : Clock
        When to end.
    additive : bool
        Whether samples not assigned add to the bound.

    Returns
    -------
    Solution
        As :func:`polyopt.outer.cpm.optimum.solve_cpm_global` has it.
    """
    search = _Search(X, y, C, n_faces, loss, margin, tol, clock, additive)
    status = search.run(seed, start, max_nodes)
    return search.solution(status)


@dataclass(order=True, frozen=True)
class _Open:
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    assignment: Assignment = field(compare=False)


class _Search:
    """One search."""

    def __init__(
        self, X: Vector, y: Vector, C: Vector, n_faces: int, loss: Loss, margin: Margin, tol: float,
        clock: Clock, additive: bool,
    ):  # fmt: skip
        self.X, self.y, self.C, self.n_faces, self.loss, self.margin = X, y, C, n_faces, loss, margin
        self.tol, self.clock, self.additive = tol, clock, additive
        self.geometry = LinearGeometry(cpm.lift(X))
        kind = WorstCaseProblem if margin == "worst" else PolytopeProblem
        self.problem = kind(X, y, C, n_faces, loss)
        program = cpm_worst.fixed_assignment if margin == "worst" else cpm.fixed_assignment
        first = np.where(y > 0, 0, -1)
        self.program = program(X, y, n_faces, first, C, loss)
        root = first if n_faces == 1 else np.where(y > 0, _FREE, -1)
        self.heap = [_Open(0.0, 0, 0, root)]
        self.best: Solution | None = None
        self.value, self.cut, self.at_hand, self.proven = np.inf, np.inf, np.inf, 0.0
        self.nodes, self.made = 0, 0
        self.history: list[dict[str, float]] = []

    def run(self, seed: int, start: Vector | None, max_nodes: int | None) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            self._start(seed, start)
            return self._explore(max_nodes)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return self._record(Status.INTERRUPTED)

    def _explore(self, max_nodes: int | None) -> Status:
        while self.heap:
            if max_nodes is not None and self.nodes >= max_nodes:
                return self._record(Status.ITERATION_LIMIT)
            if self.clock.is_over:
                return self._record(Status.TIME_LIMIT)
            if not self.history or self.clock.seconds > self.history[-1]["seconds"] + _RECORD:
                self._record(Status.OPTIMAL)
            self.at_hand = self.heap[0].bound  # an interruption must not lose it
            for child in self._children(heappop(self.heap)):
                heappush(self.heap, child)
            self.at_hand = np.inf
        return self._record(Status.OPTIMAL)

    def _children(self, one: _Open) -> list[_Open]:
        """What is left to explore of an open node."""
        if one.bound >= self.value * (1.0 - self.tol):
            self.cut = min(self.cut, one.bound)
            return []
        self.nodes += 1
        free = np.flatnonzero(one.assignment == _FREE)
        Z = np.where(self.y[:, None] > 0, one.assignment[:, None] == np.arange(self.n_faces), 1.0)
        found = self.program.set(Z=Z).solve(time_limit=self.clock.left)
        bound, paid = one.bound, self.C[free]
        if found.primal:
            W, alpha = found["W"], found.duals["margin"]
            paid = self.C[free] * self._point(W, Z).hinge[free].min(axis=1)
            order = free[np.argsort(-paid, kind="stable")] if self.additive else free[:0]
            bound = max(bound, bound_of_completions(self._point(W, Z), alpha, self.loss, self.margin, order))
            if self._value(W) < self.value:
                self._try(natural_assignment(self.X, self.y, W))
        if not len(free) or bound >= self.value * (1.0 - self.tol):
            self.cut = min(self.cut, bound)
            return []
        branch, children = free[int(paid.argmax())], []
        # Faces that answer for nobody yet are alike: the first of them stands for all.
        for k in range(min(self.n_faces, int(one.assignment.max(initial=-1)) + 2)):
            assignment = one.assignment.copy()
            assignment[branch] = k
            self.made += 1
            children.append(_Open(bound, one.depth - 1, self.made, assignment))
        return children

    def _point(self, W: Vector, Z: Vector) -> CpmPoint:
        return CpmPoint(self.geometry, self.y, self.C, Z, W, None, False)

    def _value(self, W: Vector) -> float:
        point = self._point(W, np.ones((len(self.y), self.n_faces)))
        return float(point.value_of_best_assignment(self.loss, self.margin).mid)

    def _start(self, seed: int, start: Vector | None) -> None:
        """An incumbent: from the faces given, or from random ones, each by alternating."""
        if start is not None:
            self._try(natural_assignment(self.X, self.y, start))
            return
        # One positive class alone, or one face, has one start.
        count = _STARTS if self.n_faces > 1 and (self.y > 0).any() else 0
        self._try(np.where(self.y > 0, 0, -1))
        for rng in self.problem.generators(seed, count):
            self._try(self.problem.start(rng, self.clock.left))
            if self.clock.is_over:
                return

    def _try(self, assignment: Assignment) -> None:
        """What alternating makes of an assignment, kept if it is the best so far."""
        limit = None if self.best is None else self.clock.left  # there is to be a point
        try:
            found = run_rounds(self.problem, assignment, max_iter=_ROUNDS, time_limit=limit)
        except RuntimeError:
            if self.clock.is_over and self.best is not None:
                return
            raise
        value = self._value(found["W"])
        if self.best is None or value < self.value:
            self.best, self.value = found, value
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt

    def _record(self, status: Status) -> Status:
        self.history.append(
            {
                "nodes": float(self.nodes),
                "open": float(len(self.heap)),
                "bound": self._bound(),
                "objective": self.value,
                "seconds": self.clock.seconds,
            }
        )
        tell(self.history[-1])
        return status

    def _bound(self) -> float:
        """The least of the open nodes' bounds and of those of what was cut or finished."""
        first = self.heap[0].bound if self.heap else np.inf
        self.proven = max(self.proven, min(first, self.at_hand, self.cut, self.value))
        return self.proven

    def solution(self, status: Status) -> Solution:
        """The best point that is known, and the bound."""
        assert self.best is not None
        bound = min(self._bound(), self.value)
        if status is Status.OPTIMAL and self.value - bound > self.tol * self.value:
            status = Status.INACCURATE
        return Solution(
            status=status,
            primal={name: self.best[name] for name in ("W", "assignment")},
            duals=self.best.duals,
            objective=self.value,
            bound=bound,
            solver=f"branch and bound, {'additive' if self.additive else 'plain'} bound",
            iterations=self.nodes,
            solve_time=self.clock.seconds,
            history=tuple(self.history),
        )
