"""The Convex Polytope Machine as a problem of alternating minimisation.

For a fixed assignment the program of formulations.cpm is solved by one of two engines. The explicit
program is solved exactly; with loss="sum" its faces are independent, so each is a small program of its
own, built once, and faces whose samples stay the same, in a run or from one start to another, are not
solved again. The dual coordinate engine (:mod:`polyopt.cpm.dual`) is for large data, and for
loss="sum" alone.

With the worst-case margin (:class:`WorstCaseProblem`) only the longest face is paid for, so the faces are
solved together; a start and a better assignment are found as for the total margin. The objective still never
rises: a new assignment leaves W, and with it max_k ‖W_k‖², as they are.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.preprocessing import StandardScaler

from formulations import cpm
from formulations.language.arguments import as_costs, one_of, positive, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.program import Program
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.polytope import check_loss
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.explicit_face import solve_explicit_face
from polyopt.optim.alternating import AlternatingProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from formulations.polytope import Loss
    from polyopt.cpm.dual import DualEngine

    Engine = Literal["program", "dual"]
    Assignment = NDArray[np.int64]

__all__ = [
    "EXACT_GAP_CONES",
    "MIN_HINGE_DECREASE",
    "PolytopeProblem",
    "WorstCaseProblem",
    "reassigned",
    "status_by_gap",
]

MIN_HINGE_DECREASE = 1e-7  # for which a positive changes its face
# Proven relative gap at which a point counts as exact, and that of a program with cones, which cost a digit.
_EXACT_GAP, EXACT_GAP_CONES = 1e-8, 1e-7
_SOLVERS = ("CLARABEL", "HIGHS")  # tried in turn; the second is slower, and exact where it succeeds
_SUBGRADIENT_STEPS = 300  # from random faces to a start; more changed little on the built-in data
_ROWS_AT_ONCE = 1 << 12  # scored at random directions


class PolytopeProblem(AlternatingProblem):
    """Steps of alternating minimisation for the Convex Polytope Machine.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample; also the weights in the mean and scale of the random starts.
    n_faces: K, at least 1.
    loss: whether a negative pays for every face it violates, or for the worst.
    engine: the explicit program, or dual coordinate ascent to a gap.
    tol: relative gap of the fixed-assignment program at the end; of the dual engine only.
    scale: what every entry of X counts times; other than 1 for the dual engine only.
    ValueError: the engine does not exist, or cannot do what is asked.
    """

    _own = ("_program", "_solved")
    _program: Program | None = None
    _solved: dict[bytes, Solution] | None = None

    def __init__(
        self,
        X: Matrix,
        y: Vector,
        C: Vector,
        n_faces: int,
        loss: Loss = "sum",
        *,
        engine: Engine = "program",
        tol: float = 1e-3,
        scale: float = 1.0,
    ):
        one_of("engine", engine, ("program", "dual"))
        check_loss(loss)
        whole("n_faces", n_faces)
        C, tol, scale = as_costs(C, len(y)), tolerance(tol), positive("scale", scale)
        if engine == "dual" and loss != "sum":
            raise ValueError(f"engine='dual' is for loss='sum', not {loss!r}; engine='program' does both")
        if engine == "program" and scale != 1.0:
            raise ValueError(f"scale must be 1 with engine='program', not {scale!r}; scale X beforehand")
        self.X, self.y, self.C, self.n_faces, self.loss = X, y, C, n_faces, loss
        self._dual: DualEngine | None = None
        if engine == "dual":
            from polyopt.cpm.dual import DualEngine

            self._dual = DualEngine(X, y, C, n_faces, tol, scale)
            return
        self._lifted = cpm.lift(X)

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts: the starts draw from one stream, one after the other."""
        rng, found = np.random.default_rng(seed), []
        for _ in range(count):
            found.append(copy.deepcopy(rng))
            self._directions(rng)
        return found

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """A random assignment, loosened where the engine can (:meth:`loosen`)."""
        return self.loosen(self.draw(rng), time_limit)

    def draw(self, rng: np.random.Generator) -> Assignment:
        """Each positive's best face after some subgradient steps from small random faces.

        The faces grow apart as the steps let each have what it is best at, which ends in far better
        fixed points than random faces do. The steps are over all samples at once and the random faces
        drawn for centred and scaled data, so that neither the order of the samples nor their
        repetition in place of weight makes a difference. The dual engine, whose data may be too large
        for that, gives each positive the best of random faces; :meth:`loosen` does the rest. One face
        answers for all.
        """
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        scaler = StandardScaler(with_mean=False).fit(self.X, sample_weight=self.C)
        directions = self._directions(rng)
        # Of equal length, so that none is shorter than a mean of others, and never the best.
        directions /= np.linalg.norm(directions, axis=0) * scaler.scale_[:, None]
        if self._dual is not None:
            return self._best_of_directions(directions)
        W = 1e-3 * np.vstack([directions, -scaler.mean_ @ directions])  # outputs far below the margin of 1
        positive, shares = self.y > 0, self.C[:, None] / self.C.sum()
        # Half the objective, over the sum of the costs: (λ/2)‖W‖² + the mean loss, λ = 2/ΣC.
        for t in range(1, _SUBGRADIENT_STEPS + 1):
            scores = np.asarray(self._lifted @ W)
            answers = scores.argmax(axis=1)[:, None] == np.arange(self.n_faces)
            pays = np.where(positive[:, None], answers & (scores < 1.0), -1.0 * (scores > -1.0))
            pull = np.asarray(self._lifted.T @ (shares * pays))
            W += (0.5 * self.C.sum() * pull - W) / (t + 1.0)
        return np.where(positive, np.asarray(self._lifted @ W).argmax(axis=1), -1)

    def _directions(self, rng: np.random.Generator) -> Vector:
        return rng.normal(size=(self.X.shape[1], self.n_faces))

    def loosen(self, assignment: Assignment, time_limit: float | None = None) -> Assignment:
        """A better assignment to begin from: the dual engine's, else the same."""
        return assignment if self._dual is None else self._dual.loosen(assignment, time_limit)

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """The fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K).

        The dual engine's answer may fall short of it where a positive is to move anyway.

        RuntimeError: no solver left a point.
        """
        if self._dual is not None:
            return self._dual.solve(assignment, time_limit)
        Z = cpm.answers(self.y, self.n_faces, assignment)
        if self.loss == "max":
            part = self._solve_together(assignment, Z, time_limit)
            return self._at(part["W"], part.duals["margin"], Z, [part])
        clock = Clock(time_limit)
        parts = [self.solve_face(mask, clock.left) for mask in Z.T]
        W, alpha = (
            np.array([part["w"] for part in parts]),
            np.stack([part.duals["margin"] for part in parts], 1),
        )
        return self._at(W, alpha, Z, parts)

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face where that lowers its hinge strictly.

        The dual engine also moves one that holds its face, but would not hold the other.
        """
        if self._dual is not None:
            return self._dual.reassign(point, assignment)
        return reassigned(np.asarray(self._lifted @ point["W"].T), self.y, assignment)

    def _best_of_directions(self, directions: Vector) -> Assignment:
        """The direction (m, K) along which each positive is farthest from the mean of all positives."""
        at = np.flatnonzero(self.y > 0)
        best, mean = np.full(len(self.y), -1), np.asarray(self.X[at].mean(axis=0)).ravel()
        for first in range(0, len(at), _ROWS_AT_ONCE):
            rows = at[first : first + _ROWS_AT_ONCE]
            best[rows] = np.asarray(self.X[rows] @ directions - mean @ directions).argmax(axis=1)
        return best

    def solve_face(self, mask: Vector, time_limit: float | None) -> Solution:
        """The optimum of one face, ``w`` and ``margin``; a mask (n,) of 0 and 1 says for whom it answers."""
        key = np.packbits(mask > 0).tobytes()
        if self._solved is None:
            self._solved = {}
        if key in self._solved:
            return self._solved[key]
        costs = self.C * mask

        def gap(found: Solution) -> float:
            W, alpha = found["w"][None, :], found.duals["margin"][:, None]
            return certify_cpm(self.X, self.y, costs, W=W, alpha=alpha).relative_gap

        clock = Clock(time_limit)
        solution = solve_explicit_face(self._lifted, self.y, costs, clock.left)
        if solution is None or gap(solution) > _EXACT_GAP:
            if self._program is None:
                self._program = cpm.face(self.X, self.y, self.C)
            solution = _solve_well(self._program.set(C=costs), gap, clock.left)
        else:
            solution = replace(solution, status=Status.SOLVED)
        if solution is None:
            return _nothing({"w": np.zeros(self.X.shape[1] + 1)}, np.zeros(len(self.y)))
        if solution.status is Status.SOLVED:
            if len(self._solved) >= 1000:  # as many are remembered
                self._solved.clear()
            self._solved[key] = solution
        return solution

    def _solve_together(self, assignment: Assignment, Z: Vector, time_limit: float | None) -> Solution:
        if self._program is None:
            self._program = cpm.fixed_assignment(self.X, self.y, self.n_faces, assignment, self.C, self.loss)

        def gap(found: Solution) -> float:
            W, alpha = found["W"], found.duals["margin"]
            return certify_cpm(
                self.X, self.y, self.C, W=W, alpha=alpha, assignment=assignment, loss=self.loss
            ).relative_gap

        found = _solve_well(self._program.set(Z=Z), gap, time_limit)
        W = np.zeros((self.n_faces, self.X.shape[1] + 1))
        return found or _nothing({"W": W}, np.zeros((len(self.y), self.n_faces)))

    def _at(self, W: Vector, alpha: Vector, Z: Vector, parts: list[Solution]) -> Solution:
        """The parts put together, the objective evaluated anew from the point."""
        hinge = slacks(np.asarray(self._lifted @ W.T), self.y[:, None])
        shared = hinge.max(axis=1) if self.loss == "max" else hinge.sum(axis=1)
        paid = np.where(self.y > 0, (hinge * Z).sum(axis=1), shared)
        statuses = [part.status for part in parts if part.status is not Status.SOLVED]
        return Solution(
            status=statuses[0] if statuses else Status.SOLVED,
            primal={"W": W},
            duals={"margin": alpha},
            objective=float((W**2).sum() + self.C @ paid),
            bound=None,
            solver=f"alternating, {parts[0].solver}",
            build_time=parts[0].build_time,
        )


class WorstCaseProblem(PolytopeProblem):
    """Steps of alternating minimisation for the worst-case margin; arguments as in the class it extends."""

    def solve(self, assignment: NDArray[np.int64], time_limit: float | None = None) -> Solution:
        """The fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K), ``norm`` (K,).

        RuntimeError: the solver left no point.
        """
        if self._program is None:
            self._program = cpm.fixed_assignment(
                self.X, self.y, self.n_faces, assignment, self.C, self.loss, "worst"
            )
        Z = cpm.answers(self.y, self.n_faces, assignment)
        found = self._program.set(Z=Z).solve(time_limit=time_limit)
        if not found.primal:
            raise RuntimeError(
                f"no solver left a point for the faces of the polytope ({found.status}): scale the features "
                "to unit variance, or lower C"
            )
        W, alpha = found["W"], found.duals["margin"]
        certificate = certify_cpm(
            self.X, self.y, self.C, W=W, alpha=alpha, assignment=assignment, loss=self.loss, margin="worst"
        )
        return replace(
            found,
            status=status_by_gap(found.status, certificate.relative_gap, EXACT_GAP_CONES),
            primal={"W": W},
            duals={"margin": alpha, "norm": found.duals["norm"]},
            objective=certificate.primal_value,
            solver=f"alternating, {found.solver}",
        )


def reassigned(scores: Vector, y: Vector, assignment: Assignment) -> Assignment:
    """The assignment (n,) after each positive whose hinge is lower there has moved to its best face.

    scores (n, K): of the samples on the faces.
    y (n,): labels: -1 inside, +1 outside.
    """
    hinge = slacks(scores, y[:, None])
    own = np.take_along_axis(hinge, np.maximum(assignment, 0)[:, None], axis=1)[:, 0]
    gains = (y > 0) & (own > hinge.min(axis=1) + MIN_HINGE_DECREASE)
    return np.where(gains, scores.argmax(axis=1), assignment)


def _nothing(faces: dict[str, Vector], alpha: Vector) -> Solution:
    """Faces of zeros, which are feasible: what there is where the time was over at once."""
    return Solution(Status.TIME_LIMIT, faces, {"margin": alpha}, np.inf, None, "none, for lack of time")


def _solve_well(
    program: Program, gap: Callable[[Solution], float], time_limit: float | None
) -> Solution | None:
    """The point with the least proven gap: of the first solver that is near enough, or of them all.

    The status is of the proof, not of the solver: ``SOLVED`` if the gap is small. None where the time
    was over before any left a point.

    RuntimeError: no solver left a point.
    """
    clock = Clock(time_limit)
    best, least = None, np.inf
    for solver in _SOLVERS:
        found = program.solve(solver, time_limit=clock.left)
        if not found.primal:
            if clock.is_over:
                return None
            continue
        distance = gap(found)
        if best is None or distance < least:
            best, least = found, distance
        if least <= _EXACT_GAP or clock.is_over:
            break
    if best is None:
        raise RuntimeError(
            "no solver left a point for the faces of the polytope: scale the features to unit variance, "
            "lower C, or choose solver='sgd'"
        )
    if least <= _EXACT_GAP:
        return replace(best, status=Status.SOLVED)
    return replace(best, status=Status.TIME_LIMIT if clock.is_over else Status.INACCURATE)


def status_by_gap(status: Status, gap: float, exact: float) -> Status:
    """The status of a solver's point by what is proven of it: exact or not, where it is not another one.

    status: the solver's.
    gap: the proven relative gap.
    exact: at which a point counts as exact.
    """
    if status not in (Status.SOLVED, Status.INACCURATE):
        return status
    return Status.SOLVED if gap <= exact else Status.INACCURATE
