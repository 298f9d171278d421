"""Alternating minimisation for the Convex Polytope Machine, with exact convex programs.

An assignment (n,) names for each positive (outside the polytope) one of the K faces W (K, m+1), on which its
score must be at least 1. It is -1 for negatives, whose scores must be at most −1 on all faces. For a fixed
assignment the problem is convex. :class:`PolytopeProblem` has the three steps of the loop in
:mod:`polyopt.optim.rounds`:

1. ``start``: an assignment from random faces.
2. ``solve``: the optimal faces for that assignment, by the program of :mod:`formulations.cpm`.
3. ``reassign``: each positive moves to the face with its highest score if that lowers its hinge loss.

Steps 2 and 3 never raise the objective. With loss="sum" and margin="total" the faces are
independent in step 2: each is a small program (:func:`solve_explicit_face`), and solutions are stored for
faces that are assigned the same samples again. Otherwise all faces are one program.

Subclasses replace step 2: :mod:`polyopt.cpm.dual` (coordinate ascent, for large data),
:mod:`polyopt.cpm.penalised` (Newton steps on the dual of penalised faces) and :mod:`polyopt.cpm.few_features`
(branch and bound over features).
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from formulations import cpm
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock
from formulations.language.program import Program
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from formulations.polytope import Loss, Margin, check_loss
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.explicit_faces import solve_explicit_face
from polyopt.optim.rounds import AlternatingProblem, run_rounds
from polyopt.optim.starts import continued, number_of_best

Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Tolerances and limits of alternating minimisation."""

    min_hinge_decrease: float = 1e-7  # smallest decrease of a positive's hinge for which it changes its face
    exact_gap: float = 1e-8  # largest certified relative gap of a solved quadratic program
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
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_program", "_solved_faces", "_lifted")
    _program: Program | None = None  # of one face, with the costs as a parameter, or of all, with Z
    _solved_faces: dict[bytes, Solution] | None = None  # by the mask of the face's samples

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, loss: Loss = "sum", margin: Margin = "total", *,
        options: Options | None = None,
    ):  # fmt: skip
        check_loss(loss)
        self.X, self.y, self.C, self.n_faces = X, y, as_costs(C, len(y)), whole("n_faces", n_faces)
        self.loss, self.margin = loss, margin
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

    def _directions(self, rng: np.random.Generator) -> Vector:  # (m, K), for scaled data
        return rng.normal(size=(self.X.shape[1], self.n_faces))

    # -- 2. faces for a fixed assignment -------------------------------------------------------

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K).

        With margin="worst" the duals also have ``norm`` (K,). RuntimeError: no solver returned a point.
        """
        Z = cpm.assignment_matrix(self.y, self.n_faces, assignment)
        if (self.loss, self.margin) != ("sum", "total"):
            return self._solve_together(assignment, Z, time_limit)
        clock = Clock(time_limit)
        faces = [self.solve_face(mask, clock.left) for mask in Z.T]
        failures = [face.status for face in faces if face.status is not Status.SOLVED]
        W = np.array([face["w"] for face in faces])
        return Solution(
            failures[0] if failures else Status.SOLVED, {"W": W},
            {"margin": np.stack([face.duals["margin"] for face in faces], 1)},
            objective=self.value(W, Z), bound=None,
            solver=f"alternating, {faces[0].solver}", build_time=faces[0].build_time,
        )  # fmt: skip

    def solve_face(self, mask: Vector, time_limit: float | None) -> Solution:
        """Return the optimum ``w`` (m+1,), duals ``margin`` (n,), of the face with the samples in `mask`."""
        key = np.packbits(mask > 0).tobytes()
        if self._solved_faces is None:
            self._solved_faces = {}
        if key in self._solved_faces:
            return self._solved_faces[key]
        costs = self.C * mask

        def gap(solution: Solution) -> float:
            W, alpha = solution["w"][None, :], solution.duals["margin"][:, None]
            return certify_cpm(self.X, self.y, costs, W=W, alpha=alpha).relative_gap

        clock = Clock(time_limit)
        solution = solve_explicit_face(self._lifted, self.y, costs, clock.left)
        if solution is not None and gap(solution) <= self.options.exact_gap:
            solution = replace(solution, status=Status.SOLVED)
        else:  # the solvers of cvxpy
            if self._program is None:
                self._program = cpm.face(self.X, self.y, self.C)
            solution = _best_point(self._program.set(C=costs), gap, self.options.exact_gap, clock)
        if solution is None:  # the time limit was reached before any solution
            return _zero_solution({"w": np.zeros(self.X.shape[1] + 1)}, np.zeros(len(self.y)))
        if solution.status is Status.SOLVED:
            self._solved_faces[key] = solution
        return solution

    def _solve_together(self, assignment: Assignment, Z: Vector, time_limit: float | None) -> Solution:
        """Return the optimum of all faces as one program; Z (n, K) is the assignment as a matrix."""
        data = (self.X, self.y, self.n_faces, assignment, self.C, self.loss)
        if self._program is None:
            self._program = cpm.fixed_assignment(*data, self.margin)
        has_cones = self.margin == "worst"
        exact_gap = self.options.exact_cone_gap if has_cones else self.options.exact_gap

        def gap(solution: Solution) -> float:
            return certify_cpm(
                self.X, self.y, self.C, W=solution["W"], alpha=solution.duals["margin"],
                assignment=assignment, loss=self.loss, margin=self.margin,
            ).relative_gap  # fmt: skip

        solvers = (None,) if has_cones else _QP_SOLVERS
        solution = _best_point(self._program.set(Z=Z), gap, exact_gap, Clock(time_limit), solvers)
        if solution is None:
            return _zero_solution({"W": np.zeros((self.n_faces, self.X.shape[1] + 1))}, np.zeros(Z.shape))
        norm_multipliers = {"norm": solution.duals["norm"]} if has_cones else {}
        return replace(
            solution, primal={"W": solution["W"]},
            duals={"margin": solution.duals["margin"], **norm_multipliers},
            objective=self.value(solution["W"], Z), bound=None, solver=f"alternating, {solution.solver}",
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


# -- the explicit programs --------------------------------------------------------------------

_QP_SOLVERS = ("CLARABEL", "HIGHS")  # in the order of trial: HiGHS is slower, but exact if it succeeds


def _zero_solution(faces: dict[str, Vector], alpha: Vector) -> Solution:
    """Return faces of zeros, which are feasible, after a time limit before the first solution."""
    return Solution(Status.TIME_LIMIT, faces, {"margin": alpha}, np.inf, None, "none, for lack of time")


def _best_point(
    program: Program, gap: Callable[[Solution], float], exact_gap: float, clock: Clock,
    solvers: tuple[str | None, ...] = _QP_SOLVERS,
) -> Solution | None:  # fmt: skip
    """Return the point of the first solver whose certified gap is at most `exact_gap`, else the best point.

    The status follows from the gap. None if the time limit was reached before any solver returned a point.
    RuntimeError: no solver returned a point.
    """
    best, best_gap = None, np.inf
    for solver in solvers:
        solution = program.solve(solver, time_limit=clock.left)
        if not solution.primal:
            if clock.is_over:
                return None
            continue
        solution_gap = gap(solution)
        if best is None or solution_gap < best_gap:
            best, best_gap = solution, solution_gap
        if best_gap <= exact_gap or clock.is_over:
            break
    if best is None:
        raise RuntimeError(
            "no solver returned a point for the faces of the polytope: scale the features to unit variance, "
            "lower C, or choose solver='sgd'"
        )
    if best_gap <= exact_gap:
        return replace(best, status=Status.SOLVED)
    if clock.is_over:
        return replace(best, status=Status.TIME_LIMIT)
    return replace(best, status=Status.INACCURATE) if best.status is Status.SOLVED else best
