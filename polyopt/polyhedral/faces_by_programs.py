"""Majorise–minimise by linear programs: the base of the exact Polyceptron and of PC-SLP.

The faces are the rows of W (K, m+1), the bias last. Positives (label +1) should have a margin of 1 at every
face, and each negative (label -1) at one face, so that its loss is the smallest of its hinge losses.

**Step.** A step assigns each negative to the face with the least score, at which its loss is smallest, and
solves the linear program for that assignment. The program majorises the objective and equals it at the faces
before the step, so no step raises the objective. If the objective does not fall, the faces stay the same, and
the step returns the multipliers of their program.

**Ties.** Many negatives have no loss at several faces. Assigned to the face with the least score they
constrain the program the least, which leads to lower final objectives.

**Unused faces.** A face without negatives has no loss if all positives are inside it. It is shifted until
they are, so that the next step may assign negatives to it. If a step brings no decrease, the program is also
solved for assignments in which such a face has all negatives with a positive loss, or half of the negatives
of the face with the largest loss.

**Norms.** The samples determine the normals only in the span of their differences
(:mod:`polyopt.linalg.span`); normals are projected onto it, unless that leaves the box |W| ≤ R. A linear
program may have several optima. A face that touches the box is therefore replaced by the shortest face with
the same margins.

**Warm starts.** Consecutive steps of a run keep HiGHS's basis. A step from any other faces begins without a
basis, so that a run depends on its start only, and not on earlier solves.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.arguments import as_costs, one_of, positive, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polyhedral import belonging, scores
from formulations.polytope import lift
from polyopt.linalg.rounding import product
from polyopt.linalg.span import SampleSpan, shortest_face, without_idle_faces
from polyopt.optim.rounds import DescentProblem, random_faces
from polyopt.optim.starts import TIE
from polyopt.optim.warm_lp import PersistentLP

Assignment = NDArray[np.int64]

_SAFE_MARGIN = 1.0 + 1e-12  # a margin that is at least 1 after rounding
_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT)


class FacesByPrograms(DescentProblem):
    """Base of problems whose steps are linear programs. A subclass defines `value` and :meth:`_solve`.

    X, y, c, n_faces: as in :func:`~polyopt.optim.rounds.random_faces`; the weights are positive costs.
    radius: R, the largest absolute value of an entry of W, or inf.
    engine: "highs" solves the dual programs, which stay in HiGHS between steps; "exact" solves the explicit
        programs of :mod:`formulations`.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_last", "_models", "_program")
    _last: Solution | None = None
    _models: Sequence[PersistentLP] = ()
    _program: Any = None  # the explicit program, built at its first use

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, radius: float = 1e4, engine: str = "highs"
    ):
        one_of("engine", engine, ("highs", "exact"))
        whole("n_faces", n_faces)
        self.X, self.y, self.c, self.n_faces = X, y, as_costs(c, len(y)), n_faces
        self.radius, self.engine = positive("radius", radius, infinite=True), engine
        # HiGHS's tolerances are absolute: features are divided by their largest entries, up to a power of 2.
        largest = abs(X).max(axis=0)
        largest = largest.toarray().ravel() if sp.issparse(largest) else np.asarray(largest)
        powers_of_2 = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
        self._units = 1.0 / np.append(powers_of_2, 1.0)  # (m+1,), factors of the entries of x̃
        self._span = SampleSpan(X)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Draw faces around the mean of the positives, inside the box."""
        W = self.within_span(random_faces(self.X, self.y, self.c, self.n_faces, rng))
        return W * np.minimum(1.0, self.radius / np.abs(W).max(axis=1, keepdims=True))

    def record(self, W: Vector) -> dict[str, float]:
        """Return the number of faces with negatives."""
        return {"occupied": float(len(np.unique(scores(self.X, W).argmin(axis=1)[self.y < 0])))}

    def step(self, W: Vector, time_limit: float | None) -> Solution:
        """Return the faces after a step, with the multipliers of their programs."""
        clock, before = Clock(time_limit), self.value(W)
        # If W is the object that the last step returned, this step continues from it.
        last = self._last if self._last is not None and W is self._last["W"] else None
        if last is None:
            for model in self._models:
                model.forget()
        assignment = self._assign(W)
        point = self._descend(W, before, assignment, clock)
        iterations = point.iterations
        if point["W"] is W and point.status is Status.SOLVED:  # no decrease: try the unused faces
            for other_assignment in self._other_assignments(W, assignment):
                if clock.is_over:
                    break
                other = self._descend(W, before, other_assignment, clock)
                iterations += other.iterations
                if other.objective < (1.0 - 1e-6) * before:
                    point = other
                    break
        if last is not None and point["W"] is W and point.status is not Status.SOLVED:
            point = replace(last, status=point.status)  # `last` has the multipliers of solved programs
        self._last = replace(point, iterations=iterations, solve_time=clock.seconds)
        return self._last

    def _assign(self, W: Vector) -> Assignment:
        """Return the face with the least score for each negative; -1 at positives."""
        return np.where(self.y < 0, scores(self.X, W).argmin(axis=1), -1)

    def _other_assignments(self, W: Vector, assignment: Assignment) -> Iterator[Assignment]:
        """Yield assignments that move negatives of other faces to an unused face.

        The first moves all negatives with a loss; the second moves half of the negatives of the face with the
        largest loss. The half has the least scores at the unused face, or the largest losses at the other one
        if the unused face is constant.
        """
        unused = np.setdiff1d(np.arange(self.n_faces), assignment)
        if unused.size == 0 or unused.size == self.n_faces:
            return
        face = unused[0]
        s = scores(self.X, W)
        losses = np.maximum(0.0, 1.0 - self.y[:, None] * s) * self.c[:, None]
        with_loss = (self.y < 0) & (losses.min(axis=1) > 0)
        if with_loss.any():
            yield np.where(with_loss, face, assignment)
        totals = (losses * belonging(self.y, assignment, self.n_faces, "all")).sum(axis=0)
        totals[unused] = -np.inf
        worst = totals.argmax()
        at_worst = assignment == worst
        rank = s[:, face] if W[face, :-1].any() else -losses[:, worst]
        yield np.where(at_worst & (rank <= np.median(rank[at_worst])), face, assignment)

    def _descend(self, W: Vector, before: float, assignment: Assignment, clock: Clock) -> Solution:
        """Solve the program for an assignment; return the object W itself if the objective does not fall."""
        status, faces, duals, iterations = self._solve(W, assignment, clock)
        faces = self._repair(W, self._least_norm(faces, assignment), assignment)
        value = self.value(faces)
        if not value < (1.0 - TIE) * before:
            faces, value = W, before
        name = f"{type(self).__name__}, {self.engine}"
        return Solution(status, {"W": faces}, duals, value, None, name, iterations)

    def best_faces(self, W: Vector, clock: Clock) -> Vector:
        """Return optimal faces (K, m+1) for the assignment at W, the shortest if there are several."""
        assignment = self._assign(W)
        _, faces, _, _ = self._solve(W, assignment, clock)
        return np.clip(self._least_norm(faces, assignment), -self.radius, self.radius)

    def without_idle_faces(self, point: Solution) -> Solution:
        """Replace each face without negatives, whose normal is arbitrary, by a constant face.

        If that would leave the box or raise the objective, the point stays the same.
        """
        faces = without_idle_faces(self.X[self.y < 0], point["W"])
        if np.abs(faces).max() > self.radius or self.value(faces) > point.objective:
            return point
        return replace(point, primal={**point.primal, "W": faces})

    def _least_norm(self, faces: Vector, assignment: Assignment) -> Vector:
        """Make faces that touch the box the shortest with their margins; project all normals."""
        touching = np.abs(faces).max(axis=1) >= (1.0 - 1e-9) * self.radius
        if touching.any():
            faces = faces.copy()
        for k in np.flatnonzero(touching):
            members = (self.y > 0) | (assignment == k)
            shorter = shortest_face(self.X[members], self.y[members], faces[k])
            if np.abs(shorter).max() <= self.radius:
                faces[k] = shorter
        return self.within_span(faces)

    def within_span(self, W: Vector) -> Vector:
        """Project the normals onto the span of the samples, within the box; no score changes."""
        projected = self._span.project(W, self.radius)
        if self.value(W) == 0.0 < self.value(projected):  # by rounding
            projected = np.clip(projected * (1.0 + 1e-9), -self.radius, self.radius)
        return projected

    @abstractmethod
    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        """Solve the program for an assignment; return status, faces, multipliers and iterations.

        If a program returns no point, its faces are those of W and the status is STALLED.
        """

    def _repair(self, W: Vector, faces: Vector, assignment: Assignment) -> Vector:
        """Shift unused faces until the positives are inside, and scale up faces with margins just below 1."""
        faces = np.clip(faces, -self.radius, self.radius)  # against rounding
        unused = np.setdiff1d(np.arange(self.n_faces), assignment)
        shifted = W[unused]
        smallest = self._certain_margins(shifted)[self.y > 0].min(axis=0, initial=np.inf)
        shifted[:, -1] += np.maximum(0.0, _SAFE_MARGIN - smallest)
        is_in_box = np.abs(shifted).max(axis=1, initial=0.0) <= self.radius
        faces[unused[is_in_box]] = shifted[is_in_box]

        members = belonging(self.y, assignment, self.n_faces, "all") > 0
        margins = np.where(members, self._certain_margins(faces), np.inf).min(axis=0)
        factor = np.where((margins > 0.0) & (margins < 1.0), _SAFE_MARGIN / np.maximum(margins, 1e-300), 1.0)
        is_in_box = factor * np.abs(faces).max(axis=1) <= self.radius
        return faces * np.where(is_in_box, factor, 1.0)[:, None]

    def _certain_margins(self, W: Vector) -> Vector:
        """Return lower bounds (n, K) on the margins y_i W_k·x̃_i, with twice the rounding error subtracted."""
        outputs = product(lift(self.X), W.T)
        return self.y[:, None] * outputs.mid - 2.0 * outputs.rad


def box_columns(units: Vector, radius: float) -> tuple[Vector, sp.csc_array]:
    """Return the costs and columns of s⁺ and s⁻, the multipliers of W ≤ R and W ≥ -R in the dual program.

    The rows are the balance constraints of the entries of W, multiplied by their units; an infinite R has no
    columns.
    """
    n_rows = len(units)
    if np.isinf(radius):
        return np.zeros(0), sp.csc_array((n_rows, 0))
    identity = sp.eye_array(n_rows, format="csc")
    return np.tile(radius / units, 2), sp.hstack([-identity, identity])


def worst_status(*statuses: Status) -> Status:
    """Return the worst of several statuses: a limit if there is one, else STALLED unless all are SOLVED."""
    for limit in _LIMITS:
        if limit in statuses:
            return limit
    return Status.SOLVED if all(status is Status.SOLVED for status in statuses) else Status.STALLED
