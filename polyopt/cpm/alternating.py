"""Alternating minimisation for the Convex Polytope Machine, with exact convex programs.

An assignment (n,) names for each positive (outside the polytope) one of the K faces W (K, m+1), on which its
score must be at least 1. It is -1 for negatives, whose scores must be at most −1 on all faces. For a fixed
assignment the problem is convex. :class:`PolytopeProblem` has the three steps of the loop in
:mod:`polyopt.optim.rounds`:

1. ``start``: an assignment from random faces.
2. ``solve``: the optimal faces for that assignment.
3. ``reassign``: each positive moves to the face with its highest score if that lowers its hinge loss.

Steps 2 and 3 never raise the objective. With loss="sum" and margin="total" step 2 is an interior-point method
that begins at the last faces (:mod:`polyopt.cpm.fixed_assignment`). Otherwise it is the program of
:mod:`formulations.cpm`, for a generic solver.

Subclasses replace step 2: :mod:`polyopt.cpm.dual` (coordinate ascent, for large data) and
:mod:`polyopt.cpm.few_features` (branch and bound over features); or step 1: :mod:`polyopt.cpm.penalised`.
"""

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock
from formulations.language.program import Program
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import Loss, Margin, check_loss
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver
from polyopt.optim.rounds import AlternatingProblem, run_rounds
from polyopt.optim.starts import continued, number_of_best

Assignment = NDArray[np.int64]
_QP_SOLVERS = ("CLARABEL", "HIGHS")  # in the order of trial: HiGHS is slower, but exact if it succeeds


@dataclass(frozen=True)
class Options:
    """Tolerances and limits of alternating minimisation."""

    min_hinge_decrease: float = 1e-7  # smallest decrease of a positive's hinge for which it changes its face
    exact_gap: float = 1e-8  # largest relative gap of a solved quadratic program
    exact_cone_gap: float = 1e-7  # largest certified relative gap of a solved second-order cone program
    start_steps: int = 300  # subgradient steps of a start; more changed little on the built-in data
    start_score: float = 1e-3  # size of the scores of random faces: far below the margin, which is 1


class PolytopeProblem(AlternatingProblem):
    """Alternating minimisation for the Convex Polytope Machine with exact programs.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample; also the weights in the mean and scale of the random starts.
    n_faces: K, at least 1.
    loss: the loss of a negative is the sum ("sum") or the maximum ("max") of its hinges over the faces.
    margin: the objective has the sum ("total") or the maximum ("worst") of the squared norms of the faces.
    penalty: on the weights, and their signs, for loss="sum" and margin="total".
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_program", "_solver", "_lifted")
    _program: Program | None = None  # with Z as a parameter
    _solver: FixedAssignmentSolver | None = None  # None in the first round of a run

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, loss: Loss = "sum", margin: Margin = "total", *,
        penalty: FacePenalty | None = None, options: Options | None = None,
    ):  # fmt: skip
        check_loss(loss)
        self.X, self.y, self.C, self.n_faces = X, y, as_costs(C, len(y)), whole("n_faces", n_faces)
        self.loss, self.margin, self.penalty = loss, margin, penalty or FacePenalty.of(X.shape[1])
        self.options = options or Options()

    @cached_property
    def _lifted(self) -> Matrix:
        return cpm.lift(self.X)

    # -- 1. starts -----------------------------------------------------------------------------

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return generators for `count` starts, which draw consecutive parts of one random stream."""
        rng, generators = np.random.default_rng(seed), []
        for _ in range(count):
            generators.append(copy.deepcopy(rng))
            self._directions(rng)  # advances the stream by what a start draws
        return generators

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return each positive's best face after some subgradient steps from small random faces.

        These steps lead to far better fixed points than random faces do. They use all samples at once, from
        faces drawn for centred and scaled data. So the result does not depend on the order of the samples,
        nor on whether a sample is repeated or has a larger weight.
        """
        self.forget()
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        scaler = StandardScaler(with_mean=False).fit(self.X, sample_weight=self.C)
        directions = self._directions(rng)
        # Normalised: a short direction near the mean of others would never have the highest score.
        directions /= np.linalg.norm(directions, axis=0) * scaler.scale_[:, None]
        return self._assign_at_start(directions, scaler.mean_)

    def _assign_at_start(self, directions: Vector, mean: Vector) -> Assignment:
        """Return the assignment after subgradient steps from faces along directions (m, K)."""
        faces = self.options.start_score * np.vstack([directions, -mean @ directions])  # (m+1, K)
        positive, cost_weights = self.y > 0, self.C[:, None] / self.C.sum()
        # Steps of length 1/(λ(t+1)) on the objective over ΣC, (λ/2)‖W‖² + weighted mean loss with λ = 2/ΣC.
        for t in range(1, self.options.start_steps + 1):
            scores = np.asarray(self._lifted @ faces)
            is_best = scores.argmax(axis=1)[:, None] == np.arange(self.n_faces)
            violations = np.where(positive[:, None], is_best & (scores < 1.0), -1.0 * (scores > -1.0))
            negative_gradient = np.asarray(self._lifted.T @ (cost_weights * violations))
            faces += (0.5 * self.C.sum() * negative_gradient - faces) / (t + 1.0)
        return np.where(positive, np.asarray(self._lifted @ faces).argmax(axis=1), -1)

    def forget(self) -> None:
        """Forget the faces of the last round, at which the next one would begin."""
        self._solver = None

    def _directions(self, rng: np.random.Generator) -> Vector:  # (m, K), for scaled data
        return rng.normal(size=(self.X.shape[1], self.n_faces))

    # -- 2. faces for a fixed assignment -------------------------------------------------------

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K).

        With margin="worst" the duals also have ``norm`` (K,). RuntimeError: no solver returned a point.
        """
        clock, Z = Clock(time_limit), cpm.assignment_matrix(self.y, self.n_faces, assignment)
        if (self.loss, self.margin) != ("sum", "total"):
            return self._solve_together(assignment, Z, clock)
        caps, solver = self.C[:, None] * Z, self._solver
        if solver is None:
            solver = self._solver = FixedAssignmentSolver(self.X, self.y, caps, self.penalty)
        else:
            solver.begin_at(solver.W, caps)
        first_step, status = solver.steps, Status.SOLVED
        if self._can_move_early(solver, assignment, clock):
            status = Status.INACCURATE
        elif solver.solve(self.options.exact_gap, clock):
            solver.polish(clock)
        else:
            status = Status.TIME_LIMIT if clock.is_over else Status.STALLED
        return Solution(
            status, {"W": solver.faces}, {"margin": solver.alpha}, solver.primal, solver.dual,
            solver="alternating, interior point", iterations=solver.steps - first_step,
        )  # fmt: skip

    def _can_move_early(self, solver: FixedAssignmentSolver, assignment: Assignment, clock: Clock) -> bool:
        """True if a round may end at a point before the optimum, from which positives move; never here."""
        return False

    def _solve_together(self, assignment: Assignment, Z: Vector, clock: Clock) -> Solution:
        """Return the optimum of all faces as one program; Z (n, K) is the assignment as a matrix.

        Of the points of several solvers it is the one with the smallest certified gap.
        """
        data = (self.X, self.y, self.n_faces, assignment, self.C, self.loss)
        if self._program is None:
            self._program = cpm.fixed_assignment(*data, self.margin)
        program, has_cones = self._program.set(Z=Z), self.margin == "worst"
        exact_gap = self.options.exact_cone_gap if has_cones else self.options.exact_gap
        best, best_gap = None, np.inf
        for name in (None,) if has_cones else _QP_SOLVERS:
            solution = program.solve(name, time_limit=clock.left)
            if solution.primal:
                gap = certify_cpm(
                    self.X, self.y, self.C, W=solution["W"], alpha=solution.duals["margin"],
                    assignment=assignment, loss=self.loss, margin=self.margin,
                ).relative_gap  # fmt: skip
                if best is None or gap < best_gap:
                    best, best_gap = solution, gap
            if best_gap <= exact_gap or clock.is_over:
                break
        if best is None and clock.is_over:  # faces of zeros are feasible
            zero = {"W": np.zeros((self.n_faces, self.X.shape[1] + 1))}
            multipliers = {"margin": np.zeros(Z.shape)}
            return Solution(Status.TIME_LIMIT, zero, multipliers, np.inf, None, "none, for lack of time")
        if best is None:
            raise RuntimeError(
                "no solver returned a point for the faces of the polytope: scale the features to unit "
                "variance, lower C, or choose solver='sgd'"
            )
        status = best.status
        if best_gap <= exact_gap:
            status = Status.SOLVED
        elif clock.is_over:
            status = Status.TIME_LIMIT
        elif status is Status.SOLVED:
            status = Status.INACCURATE
        norm_multipliers = {"norm": best.duals["norm"]} if has_cones else {}
        return replace(
            best, status=status, primal={"W": best["W"]},
            duals={"margin": best.duals["margin"], **norm_multipliers},
            objective=self.value(best["W"], Z), bound=None, solver=f"alternating, {best.solver}",
        )  # fmt: skip

    def value(self, W: Vector, Z: Vector) -> float:
        """Return the objective at W (K, m+1) for the assignment Z (n, K)."""
        hinge = Z * slacks(self.scores(W), self.y[:, None])
        is_largest = (self.y < 0) & (self.loss == "max")  # the sample's loss is its largest hinge
        loss = np.where(is_largest, hinge.max(axis=1), hinge.sum(axis=1))
        norm_sq = (W**2).sum() if self.margin == "total" else (W**2).sum(axis=1).max()
        return float(norm_sq + self.C @ loss)

    def scores(self, W: Vector) -> Vector:
        """Return the scores (n, K) of the samples at faces (K, m+1)."""
        return np.asarray(self._lifted @ W.T)

    # -- 3. a better assignment ----------------------------------------------------------------

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face if that lowers its hinge."""
        scores = self.scores(point["W"])
        return reassigned(scores, self.y, assignment, self.options.min_hinge_decrease)


def reassigned(
    scores: Vector, y: Vector, assignment: Assignment, decrease: float = Options.min_hinge_decrease
) -> Assignment:
    """Move each positive to the face of its highest score if its hinge falls by more than `decrease`."""
    hinge = slacks(scores, y[:, None])
    own_hinge = np.take_along_axis(hinge, np.maximum(assignment, 0)[:, None], axis=1)[:, 0]
    improves = (y > 0) & (own_hinge > hinge.min(axis=1) + decrease)
    return np.where(improves, scores.argmax(axis=1), assignment)


def continue_best(
    solution: Solution, problem: PolytopeProblem, max_iter: int, time_limit: float | None
) -> Solution:
    """Continue the best run of many starts with another problem; return its solution, with the runs' history.

    solution: the result of the starts.
    max_iter: largest number of rounds, including those that the best run has already made.
    """
    number = number_of_best(solution.runs)
    n_rounds = solution.runs[number].iterations  # already made; the history continues their numbers
    if n_rounds >= max_iter:
        return replace(solution, status=Status.ITERATION_LIMIT)
    last = run_rounds(problem, solution["assignment"], max_iter=max_iter - n_rounds, time_limit=time_limit)
    return replace(
        last,
        iterations=solution.iterations + last.iterations,
        solve_time=solution.solve_time + last.solve_time,
        history=(
            *solution.history,
            *continued(last.history, "round", n_rounds, solution.solve_time, start=float(number)),
        ),
        runs=solution.runs,
    )
