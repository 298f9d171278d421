"""Alternating minimisation: solve the program of a fixed assignment exactly, reassign the positives, repeat.

:class:`PolytopeProblem` has the three steps that :mod:`polyopt.optim.rounds` asks for:

1. ``start``: a random assignment;
2. ``solve``: the explicit program of formulations.cpm or cpm_sparse for that assignment;
3. ``reassign``: each positive goes to the face with its highest score if that lowers its hinge.

With loss="sum", margin="total" and no penalty the faces are independent: each is a small program
(:func:`solve_explicit_face`), and faces whose samples stay the same, in a run or from one start to another,
are not solved again. Otherwise the faces share a constraint and are solved together. A new assignment leaves
W as it is and lowers the hinges, so the objective never rises.

The subclasses replace step 2: :mod:`polyopt.cpm.dual` (coordinate ascent, for large data),
:mod:`polyopt.cpm.penalised` (Newton steps on the dual of penalised faces) and :mod:`polyopt.cpm.few_features`
(branch and bound over features).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from formulations import cpm, cpm_sparse
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import as_costs, whole
from formulations.language.clock import Clock
from formulations.language.program import Program
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.solving import BACKENDS
from formulations.language.types import Matrix, Vector
from formulations.polytope import check_loss
from polyopt.cpm.certificate import Loss, Margin, certify_cpm, implied_faces, pulls
from polyopt.margin.geometry import LinearGeometry
from polyopt.optim.rounds import AlternatingProblem, run_rounds
from polyopt.optim.starts import continued, number_of_best

Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Numbers of alternating minimisation."""

    min_hinge_decrease: float = 1e-7  # for which a positive changes its face
    exact_gap: float = 1e-8  # proven relative gap up to which a quadratic program counts as solved
    exact_cone_gap: float = 1e-7  # the same with second-order cones, which lose a digit
    start_steps: int = 300  # subgradient steps to a start; more changed little on the built-in data
    start_output: float = 1e-3  # size of the outputs of random faces: far below the margin of 1
    max_remembered_faces: int = 1000  # solved faces that are kept
    zero_weight_rel: float = 1e-6  # relative to the largest weight, below which one may be read as 0


class PolytopeProblem(AlternatingProblem):
    """Alternating minimisation for the Convex Polytope Machine with exact programs.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample; also the weights in the mean and scale of the random starts.
    n_faces: K, at least 1.
    loss: "sum" if a negative pays for every face it violates, "max" if for the worst.
    margin: "total" if the squared norms of all faces are penalised, "worst" if the largest.
    penalty: ℓ1 and group penalty and signs of the weights.
    """

    _not_pickled: ClassVar[tuple[str, ...]] = ("_program", "_solved", "_lifted")
    _program: Program | None = None
    _solved: dict[bytes, Solution] | None = None

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, loss: Loss = "sum", margin: Margin = "total", *,
        penalty: FacePenalty | None = None, options: Options | None = None,
    ):  # fmt: skip
        check_loss(loss)
        self.X, self.y, self.C, self.n_faces = X, y, as_costs(C, len(y)), whole("n_faces", n_faces)
        self.loss, self.margin, self.penalty = loss, margin, penalty
        self.options = options or Options()

    @cached_property
    def _lifted(self) -> Matrix:
        return cpm.lift(self.X)

    # -- 1. starts -----------------------------------------------------------------------------

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return generators for `count` starts, which draw from one stream one after the other."""
        rng, generators = np.random.default_rng(seed), []
        for _ in range(count):
            generators.append(copy.deepcopy(rng))
            self._directions(rng)
        return generators

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """Return each positive's best face after some subgradient steps from small random faces.

        The faces grow apart in the steps, which end in far better fixed points than random faces do. The
        steps are over all samples at once and the random faces are drawn for centred and scaled data, so that
        neither the order of the samples nor their repetition in place of weight makes a difference.
        """
        return self.draw(rng)

    def draw(self, rng: np.random.Generator) -> Assignment:
        """Return a random start without improvement."""
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        scaler = StandardScaler(with_mean=False).fit(self.X, sample_weight=self.C)
        directions = self._directions(rng)
        # Of equal length, so that none is shorter than a mean of others, and never the best.
        directions /= np.linalg.norm(directions, axis=0) * scaler.scale_[:, None]
        return self._assign_at_start(directions, scaler.mean_)

    def _assign_at_start(self, directions: Vector, mean: Vector) -> Assignment:
        """Return the assignment after `start_steps` subgradient steps from faces along directions (m, K)."""
        W = self.options.start_output * np.vstack([directions, -mean @ directions])
        positive, cost_weights = self.y > 0, self.C[:, None] / self.C.sum()
        # Half the objective, over the sum of the costs: (λ/2)‖W‖² + the mean loss, λ = 2/ΣC.
        for t in range(1, self.options.start_steps + 1):
            scores = np.asarray(self._lifted @ W)
            is_best = scores.argmax(axis=1)[:, None] == np.arange(self.n_faces)
            violations = np.where(positive[:, None], is_best & (scores < 1.0), -1.0 * (scores > -1.0))
            negative_gradient = np.asarray(self._lifted.T @ (cost_weights * violations))
            W += (0.5 * self.C.sum() * negative_gradient - W) / (t + 1.0)
        return np.where(positive, np.asarray(self._lifted @ W).argmax(axis=1), -1)

    def _directions(self, rng: np.random.Generator) -> Vector:
        return rng.normal(size=(self.X.shape[1], self.n_faces))

    # -- 2. faces for a fixed assignment -------------------------------------------------------

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """Return the fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K).

        With margin="worst" the duals have ``norm`` (K,) as well. RuntimeError: no solver left a point.
        """
        Z = cpm.assignment_matrix(self.y, self.n_faces, assignment)
        if (self.loss, self.margin) != ("sum", "total") or self.penalty is not None:
            return self._solve_together(assignment, Z, time_limit)
        clock = Clock(time_limit)
        parts = [self.solve_face(mask, clock.left) for mask in Z.T]
        statuses = [part.status for part in parts if part.status is not Status.SOLVED]
        W = np.array([part["w"] for part in parts])
        return Solution(
            status=statuses[0] if statuses else Status.SOLVED,
            primal={"W": W},
            duals={"margin": np.stack([part.duals["margin"] for part in parts], 1)},
            objective=self.value(W, Z),
            bound=None,
            solver=f"alternating, {parts[0].solver}",
            build_time=parts[0].build_time,
        )

    def solve_face(self, mask: Vector, time_limit: float | None) -> Solution:
        """Return the optimum ``w``, ``margin`` of the face whose samples are 1 in the mask (n,)."""
        key = np.packbits(mask > 0).tobytes()
        if self._solved is None:
            self._solved = {}
        if key in self._solved:
            return self._solved[key]
        costs = self.C * mask

        def gap(solution: Solution) -> float:
            W, alpha = solution["w"][None, :], solution.duals["margin"][:, None]
            return certify_cpm(self.X, self.y, costs, W=W, alpha=alpha).relative_gap

        clock = Clock(time_limit)
        solution = solve_explicit_face(self._lifted, self.y, costs, clock.left)
        if solution is not None and gap(solution) <= self.options.exact_gap:
            solution = replace(solution, status=Status.SOLVED)
        else:
            if self._program is None:
                self._program = cpm.face(self.X, self.y, self.C)
            solution = _best_point(self._program.set(C=costs), gap, self.options.exact_gap, clock)
        if solution is None:
            return _nothing({"w": np.zeros(self.X.shape[1] + 1)}, np.zeros(len(self.y)))
        if solution.status is Status.SOLVED:
            if len(self._solved) >= self.options.max_remembered_faces:
                self._solved.clear()
            self._solved[key] = solution
        return solution

    def _solve_together(self, assignment: Assignment, Z: Vector, time_limit: float | None) -> Solution:
        data = (self.X, self.y, self.n_faces, assignment, self.C, self.loss)
        if self._program is None:
            if self.penalty is not None:
                self._program = cpm_sparse.fixed_assignment(*data, self.margin, penalty=self.penalty)
            else:
                self._program = cpm.fixed_assignment(*data, self.margin)
        has_cones = self.margin == "worst" or self.penalty is not None
        exact = self.options.exact_cone_gap if has_cones else self.options.exact_gap

        def read(solution: Solution) -> tuple[Vector, Vector]:
            alpha = solution.duals["margin"]
            if self.penalty is None:
                return solution["W"], alpha
            alpha = np.clip(alpha, 0.0, self.C[:, None] * Z)
            return self._with_zeros(solution["W"], alpha, Z, self.penalty), alpha

        def gap(solution: Solution) -> float:
            W, alpha = read(solution)
            return certify_cpm(
                self.X, self.y, self.C, W=W, alpha=alpha, assignment=assignment, loss=self.loss,
                margin=self.margin, penalty=self.penalty,
            ).relative_gap  # fmt: skip

        solvers = (None,) if has_cones else _QP_SOLVERS
        solution = _best_point(self._program.set(Z=Z), gap, exact, Clock(time_limit), solvers)
        if solution is None:
            return _nothing({"W": np.zeros((self.n_faces, self.X.shape[1] + 1))}, np.zeros(Z.shape))
        W, alpha = read(solution)
        return replace(
            solution,
            primal={"W": W},
            duals={
                "margin": alpha,
                **{name: solution.duals[name] for name in ("norm",) if name in solution.duals},
            },
            objective=self.value(W, Z),
            bound=None,
            solver=f"alternating, {solution.solver}",
        )

    def _with_zeros(self, W: Vector, alpha: Vector, Z: Vector, penalty: FacePenalty) -> Vector:
        """Return the sparsest reading of a solver's point that costs no more than rounding above the best.

        The readings are the faces implied by the multipliers, the point with zeros where those have them, the
        point with zeros for small weights, and the point itself; all satisfy the signs.
        """
        v = pulls(LinearGeometry(self._lifted), self.y, alpha)
        implied, W = implied_faces(v, self.margin, penalty), penalty.allowed(W)
        large = np.abs(W) > self.options.zero_weight_rel * np.abs(W).max(initial=0.0)
        large[:, -1] = True
        used = (implied != 0.0) | (np.arange(W.shape[1]) == W.shape[1] - 1)
        readings = [implied, np.where(used, W, 0.0), np.where(large, W, 0.0), W]
        values = [self.value(reading, Z) for reading in readings]
        allowed = (1.0 + 0.1 * self.options.exact_cone_gap) * min(values)
        fine = [reading for reading, value in zip(readings, values, strict=True) if value <= allowed]
        return min(fine, key=lambda reading: np.count_nonzero(reading[:, :-1]))

    def value(self, W: Vector, Z: Vector) -> float:
        """Return the objective at W (K, m+1) for the assignment Z (n, K)."""
        hinge = Z * slacks(self.scores(W), self.y[:, None])
        is_shared = (self.y < 0) & (self.loss == "max")
        paid = np.where(is_shared, hinge.max(axis=1), hinge.sum(axis=1))
        size = (W**2).sum() if self.margin == "total" else (W**2).sum(axis=1).max()
        return float(size + self.C @ paid) + (0.0 if self.penalty is None else self.penalty.value(W))

    def scores(self, W: Vector) -> Vector:
        """Return the scores (n, K) of the samples at faces (K, m+1)."""
        return np.asarray(self._lifted @ W.T)

    # -- 3. a better assignment ----------------------------------------------------------------

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face if that lowers its hinge."""
        decrease = self.options.min_hinge_decrease
        return reassigned(self.scores(point["W"]), self.y, assignment, decrease)


def reassigned(
    scores: Vector, y: Vector, assignment: Assignment, decrease: float = Options.min_hinge_decrease
) -> Assignment:
    """Return the assignment (n,) with each positive at the best of its scores (n, K) if its hinge falls."""
    hinge = slacks(scores, y[:, None])
    own_hinge = np.take_along_axis(hinge, np.maximum(assignment, 0)[:, None], axis=1)[:, 0]
    gains = (y > 0) & (own_hinge > hinge.min(axis=1) + decrease)
    return np.where(gains, scores.argmax(axis=1), assignment)


def continue_best(
    solution: Solution, problem: PolytopeProblem, max_iter: int, time_limit: float | None
) -> Solution:
    """Continue the best run of many starts with another problem, and return the joint solution.

    solution: the end of the starts; max_iter: rounds of the best run, those already made included.
    """
    number = number_of_best(solution.runs)
    n_rounds = solution.runs[number].iterations
    if n_rounds >= max_iter:
        return replace(solution, status=Status.ITERATION_LIMIT)
    last = run_rounds(problem, solution["assignment"], max_iter=max_iter - n_rounds, time_limit=time_limit)
    return replace(
        last,
        iterations=solution.iterations + last.iterations,
        solve_time=solution.solve_time + last.solve_time,
        history=(*solution.history, *continued(last.history, "round", number, n_rounds, solution.solve_time)),
        runs=solution.runs,
    )


# -- the explicit programs --------------------------------------------------------------------

_QP_SOLVERS = ("CLARABEL", "HIGHS")  # in this order; HiGHS is slower, and exact if it succeeds


def _nothing(faces: dict[str, Vector], alpha: Vector) -> Solution:
    """Return faces of zeros, which are feasible, if the time is over before any program is solved."""
    return Solution(Status.TIME_LIMIT, faces, {"margin": alpha}, np.inf, None, "none, for lack of time")


def _best_point(
    program: Program, gap: Callable[[Solution], float], exact: float, clock: Clock,
    solvers: tuple[str | None, ...] = _QP_SOLVERS,
) -> Solution | None:  # fmt: skip
    """Return the point of the first solver whose proven gap is at most `exact`, else the best of them.

    The status follows from the gap. None: the time was over before any solver left a point.
    RuntimeError: no solver left a point.
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
        if best_gap <= exact or clock.is_over:
            break
    if best is None:
        raise RuntimeError(
            "no solver left a point for the faces of the polytope: scale the features to unit variance, "
            "lower C, or choose solver='sgd'"
        )
    if best_gap <= exact:
        return replace(best, status=Status.SOLVED)
    if clock.is_over:
        return replace(best, status=Status.TIME_LIMIT)
    return replace(best, status=Status.INACCURATE) if best.status is Status.SOLVED else best


def solve_explicit_face(
    lifted: Matrix, y: Vector, costs: Vector, time_limit: float | None = None
) -> Solution | None:
    """Solve the program of one face by Clarabel, to about 1e-11.

    This is :func:`formulations.cpm.face`, written down for the solver, because cvxpy takes several times
    as long to compile it as Clarabel to solve it. With A the rows y_i x̃_i of the samples that have a cost,

        min  ‖w‖² + c·ξ    subject to    A w + ξ ≥ 1  [alpha],    ξ ≥ 0  [beta].

    costs (n,): cost of slack per sample, 0 if another face answers; at least one is positive.
    Returns: primal ``w`` (m+1,), duals ``margin`` (n,); None if Clarabel left no point, as for data whose
        squares overflow, or if the time was over.
    """
    import clarabel  # type: ignore[import-untyped]

    clock, kept = Clock(time_limit), np.flatnonzero(costs > 0.0)
    count, d = len(kept), lifted.shape[1]
    rows = lifted[kept]
    signed = sp.diags_array(y[kept]) @ rows if sp.issparse(rows) else y[kept, None] * rows
    A, P = _face_matrices(sp.csc_array(signed, dtype=np.float64))
    c, b = np.concatenate([np.zeros(d), costs[kept]]), np.concatenate([np.full(count, -1.0), np.zeros(count)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in BACKENDS["CLARABEL"].settings.items():
        if hasattr(settings, name):  # one of them is cvxpy's own
            setattr(settings, name, value)
    if clock.is_over:
        return None
    settings.time_limit = clock.left if clock.left is not None else np.inf
    solution = clarabel.DefaultSolver(P, c, A, b, [clarabel.NonnegativeConeT(2 * count)], settings).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations"):
        return None
    w, alpha = np.asarray(solution.x)[:d], np.zeros(len(y))
    alpha[kept] = np.asarray(solution.z)[:count]
    if not (np.isfinite(w).all() and np.isfinite(alpha).all()):
        return None
    return Solution(
        status=Status.SOLVED if str(solution.status) == "Solved" else Status.INACCURATE,
        primal={"w": w},
        duals={"margin": np.clip(alpha, 0.0, costs)},
        objective=float(solution.obj_val),
        bound=None,
        solver="clarabel",
        iterations=int(solution.iterations),
        build_time=max(clock.seconds - float(solution.solve_time), 0.0),
        solve_time=float(solution.solve_time),
    )


def _face_matrices(rows: sp.csc_array) -> tuple[sp.csc_array, sp.csc_array]:
    """Assemble A and P by hand: scipy's blocks take longer than Clarabel."""
    count, d = rows.shape
    each = np.arange(count)
    slacks = np.column_stack([each, count + each]).ravel()
    values = np.concatenate([-rows.data, np.full(2 * count, -1.0)])
    starts = np.concatenate([rows.indptr, rows.indptr[-1] + 2 * (each + 1)])
    A = sp.csc_array((values, np.concatenate([rows.indices, slacks]), starts), shape=(2 * count, d + count))
    starts = np.minimum(np.arange(d + count + 1), d)
    return A, sp.csc_array((np.full(d, 2.0), np.arange(d), starts), shape=(d + count, d + count))
