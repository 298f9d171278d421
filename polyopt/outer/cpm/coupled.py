"""The global optimum of the Convex Polytope Machine where its faces are coupled, for small data.

Where a negative pays for its worst face alone (loss="max"), or all faces share a margin budget
(margin="worst"), no face has a program of its own. For given shares of the budget, and of the negatives'
costs, each has (:mod:`polyopt.solvers.cpm.coupled`): so the search of :mod:`polyopt.outer.cpm.optimum` goes
through the same partial assignments, with the same bound by trial moves of samples, once the multipliers of
all faces have been raised together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.clock import interrupted
from formulations.polytope import natural_assignment, shares
from formulations.solution import Solution, Status
from polyopt.outer.cpm.assignments import AssignmentSearch, Open
from polyopt.outer.cpm.first import centred
from polyopt.outer.cpm.prepared import unmerge
from polyopt.solvers.cpm.coupled import hold, price_coupled, settle_coupled
from polyopt.solvers.cpm.coupled_node import aim, coupled_node_for, prove_coupled
from polyopt.solvers.cpm.coupled_polish import polished_coupled
from polyopt.solvers.cpm.coupled_rows import Faces, faces_for
from polyopt.solvers.cpm.explicit_coupled import solve_explicit_coupled
from polyopt.solvers.cpm.tree import examine, largest, paying

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import Margin
    from polyopt.solvers.clock import Clock

    Assignment = NDArray[np.int64]

__all__ = ["search_coupled"]

_STARTS, _BEST = 6, 3  # of the alternating heuristic, by direction and by lot; those that are settled finely
_COARSE, _SETTLED = 1e-3, 1e-5  # of the least cost known: the precision of starts
_BEGINNING = 0.2  # of the time left, for the starts
# Of the least cost known: a bound from which a node is solved exactly before it branches. Chosen on small
# draws; two of the races were seen, too.
_NEAR = 0.99
_LOSS = 1e-9  # of the cost, that is given for faces which fit their multipliers
_GRACE = 0.2  # seconds past a limit that the faces of an answer may take
_PART = 0.5  # of what a bound misses: positives not assigned that pay less are not what it lacks


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
    search = _Search(X, y, C, n_faces, tol, clock, np.random.default_rng(seed))
    search.shared, search.worst = loss == "max", margin == "worst"
    status = search.run(start, max_nodes, additive)
    return search.solution(status, f"branch and bound, {'additive' if additive else 'plain'} bound")


class _Search(AssignmentSearch):
    """One search."""

    shared = worst = False
    faces: Faces

    def run(self, first: Vector | None, max_nodes: int | None, additive: bool) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            self.faces = faces_for(self.data, self.n_faces, self.shared, self.worst)
            self._begin(first)
            return self._explore(max_nodes, additive)
        except KeyboardInterrupt:
            if not np.isfinite(self.best.limits[0]):
                raise
            return self._record(interrupted())

    def _begin(self, first: Vector | None) -> None:
        """An incumbent: from the faces given, or from random ones, each by alternating.

        Of many starts settled coarsely a few are settled finely.
        """
        points, K = self.data.A[self.data.inside :], self.n_faces
        if first is not None:
            self._settle((points @ first.T).argmax(axis=1), _SETTLED)
            return
        nobody = np.zeros(len(points), dtype=np.int64)
        found = [(self._settle(nobody, _COARSE), 0, nobody)]
        if K == 1 or not len(points):
            self._settle(nobody, _SETTLED)
            return
        clock, features = self.clock.part(_BEGINNING), centred(points)
        for number in range(1, 2 * _STARTS + 1):
            face = (features @ self.rng.normal(size=(features.shape[1], K))).argmax(axis=1)
            if number % 2 == 0:
                face = self.rng.integers(0, K, len(points))
            found.append((self._settle(face, _COARSE), number, face))
            if clock.is_over:
                break
        for _, _, face in sorted(found)[:_BEST]:
            self._settle(face, _SETTLED)

    def _settle(self, face: Assignment, precision: float) -> float:
        """What alternating makes of an assignment, which is changed, kept if it is the best so far."""
        W, known = np.zeros_like(self.best.W), float(self.best.limits[0])
        scale = known if np.isfinite(known) else self.data.C.sum()
        cost = settle_coupled(self.faces, face, W, precision * scale)
        self._keep(W, cost)
        return float(cost)

    def _keep(self, W: Vector, cost: float) -> None:
        if self.best.limits[0] > cost:
            self.best.limits[0], self.best.W[:] = cost, W

    def _room(self, order: NDArray[np.int64]) -> Any:
        if self.faces.given is not self.data:  # in another order
            self.faces = faces_for(self.data, self.n_faces, self.shared, self.worst)
        return coupled_node_for(self.data, self.n_faces, order)

    def _set(self, node: Any, one: Open) -> None:
        super()._set(node, one)
        node.target[:] = 0.0 if one.more is None else one.more

    def _left(self, node: Any) -> Vector:
        return np.asarray(node.target.copy())

    def _examined(self, node: Any, bound: float, additive: bool) -> tuple[float, float, int, int, bool]:
        best = self.best
        bound, base, branch, used = examine(self.faces, best, node, self.moves, bound, self.tol, additive)
        if branch >= 0 and additive and self.worst:
            aim(self.faces, node, self.moves.shared, paying(self.faces, node, used), used)
        is_near = branch < 0 or bound > _NEAR * best.limits[0]
        exact = is_near and bound < best.limits[0] * (1.0 - self.tol)
        if exact:  # coordinates did not get that far
            bound, base, branch = self._refined(node, bound, used)
        return bound, base, branch, used, exact

    def _refined(self, node: Any, bound: float, used: int) -> tuple[float, float, int]:
        """The bound of a node whose faces are solved exactly, their dual value, and where to branch."""
        found = self._exact(node.face)
        if found is not None:
            node.faces[:], alpha = found
            node.alpha[:] = self._within(alpha, node.face)
            node.theta[:] = self._shares(node.alpha)
        base, error = prove_coupled(self.faces, node)
        self.best.limits[2] = max(self.best.limits[2], error)
        cost = price_coupled(self.faces, node.faces, np.zeros_like(node.face))
        self._keep(node.faces, cost)
        node.W[:] = node.faces / node.scale[:, None]
        order = paying(self.faces, node, used)
        missing = node.cost[order].sum() > _PART * (cost - base)
        branch = largest(node.cost, np.zeros_like(node.cost), order) if len(order) and missing else -1
        return max(bound, base), base, branch

    def _exact(self, face: Assignment) -> tuple[Vector, Vector] | None:
        left = self.clock.left
        limit = None if left is None else max(left, _GRACE)
        return solve_explicit_coupled(self.faces, face, self.n_faces, limit)

    def _polished(self, face: Assignment) -> Vector:
        """The multipliers of the incumbent's assignment, and faces that fit them where that costs no more.

        An interior point leaves the two some digits apart, which a step or two of Newton's method mend.
        """
        found, inside = self._exact(face), self.data.inside
        if found is None:
            return np.zeros((self.n_faces, len(self.data.C)))
        W, alpha = found[0], self._within(found[1], face)
        caps = np.tile(self.data.C, (self.n_faces, 1))
        caps[:, inside:] *= face == np.arange(self.n_faces)[:, None]
        fine, fitted = polished_coupled(self.faces, W, alpha, caps)
        fine = self._within(fine, face)
        nobody = np.zeros_like(face)
        self._keep(W, price_coupled(self.faces, W, nobody))
        cost = price_coupled(self.faces, np.ascontiguousarray(fitted), nobody)
        if not cost <= self.best.limits[0] * (1.0 + _LOSS):
            return alpha
        self.best.limits[0], self.best.W[:] = cost, fitted
        return fine

    def _within(self, alpha: Vector, face: Assignment) -> Vector:
        """Multipliers within their caps."""
        alpha = np.array(alpha, order="C")
        hold(self.faces, face, alpha)
        return alpha

    def _shares(self, alpha: Vector) -> Vector:
        """The best shares of the margin budget, none of them 0."""
        if not self.worst:
            return np.ones(self.n_faces)
        least = 1e-9
        return shares(alpha @ self.data.A) * (1.0 - least * self.n_faces) + 0.5 * least

    def solution(self, status: Status, solver: str) -> Solution:
        """The incumbent, its faces solved as exactly as double precision allows."""
        face = (self.data.A[self.data.inside :] @ self.best.W.T).argmax(axis=1)
        alpha = self._polished(face)
        W, value = self.best.W.copy(), float(self.best.limits[0])
        assignment = natural_assignment(self.X, self.y, W)
        assigned = (self.merged >= 0) & (self.y > 0)
        assignment[assigned] = face[self.merged[assigned] - self.data.inside]
        bound = min(self._bound(), value)
        if status is Status.SOLVED and value - bound > self.tol * value:
            status = Status.INACCURATE
        duals = {"margin": unmerge(alpha.T, self.data.C, self.merged, self.C)}
        if self.worst:
            duals["norm"] = shares(alpha @ self.data.A)
        return Solution(
            status=status, primal={"W": W, "assignment": assignment}, duals=duals, objective=value,
            bound=bound, solver=solver, iterations=self.nodes, solve_time=self.clock.seconds,
            history=tuple(self.history),
        )  # fmt: skip
