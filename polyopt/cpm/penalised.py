"""The Convex Polytope Machine with a price on its weights as a problem of alternating minimisation.

A start is one of the machine without a price: with a high one all faces are alike from the first round on,
and no positive ever leaves the first of them. For a fixed assignment the program of
:mod:`formulations.cpm_sparse` is solved as it stands ("program"), or by Newton steps on its dual ("dual",
:mod:`polyopt.cpm.penalised_face_dual`, for loss="sum" and margin="total"). Both leave exact zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import cpm_sparse
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.polytope import answers, lift
from polyopt.cpm.alternating import EXACT_GAP_CONES, MIN_HINGE_DECREASE, PolytopeProblem, status_by_gap
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.penalised_face_dual import ShrunkAscent
from polyopt.cpm.point import implied_faces, pulls
from polyopt.margin.geometry import LinearGeometry
from polyopt.optim.rounds import MIN_REL_DECREASE, AlternatingProblem, run_rounds
from polyopt.optim.starts import continued, number_of_best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.language.program import Program
    from formulations.language.types import Matrix, Vector
    from formulations.polytope import Loss
    from polyopt.cpm.alternating import Engine
    from polyopt.cpm.point import Margin

    Assignment = NDArray[np.int64]

__all__ = ["PricedProblem"]

_FIRST_REL_GAP = 1e-2  # of a round that need not be the last
_FINAL_REL_GAP = 1e-8  # of the answer


class PricedProblem(AlternatingProblem):
    """Steps of alternating minimisation with a price on the weights.

    penalty: the price.
    margin: whether the squared norms of all faces are paid for, or the largest.
    engine: the explicit program, or Newton steps on the dual.
    tol: relative gap of the fixed-assignment program at the end; of the dual engine only.
    begin_with: whose faces and multipliers the dual engine begins with: of another price, or less near.
    """

    _own = ("_program", "_ascent", "_before")
    _program: Program | None = None
    _ascent: ShrunkAscent | None = None
    _before = float("inf")  # the objective of the last round

    def __init__(
        self, X: Matrix, y: Vector, C: Vector, n_faces: int, penalty: FacePenalty, loss: Loss = "sum",
        margin: Margin = "total", *, engine: Engine = "program", tol: float = 1e-3,
        begin_with: Solution | None = None,
    ):  # fmt: skip
        if engine == "dual" and (loss, margin) != ("sum", "total"):
            raise ValueError("engine='dual' is for loss='sum' and margin='total'; engine='program' does all")
        self.X, self.y, self.C, self.n_faces = X, y, C, n_faces
        self.penalty, self.loss, self.margin, self.engine, self.tol = penalty, loss, margin, engine, tol
        self._begin_with = begin_with
        self._free = PolytopeProblem(X, y, C, n_faces, engine=engine, tol=_FIRST_REL_GAP)

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """As of the machine without a price."""
        return self._free.generators(seed, count)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """An assignment of the machine without a price: a start of its own, or where its dual ascent ends."""
        if self.n_faces == 1:
            return np.where(self.y > 0, 0, -1)
        clock = Clock(time_limit)
        begin = self._free.start(rng, clock.left)
        if self.engine == "program":
            return begin
        found = run_rounds(self._free, begin, time_limit=clock.left)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return np.asarray(found["assignment"])

    def solve(self, assignment: Assignment, time_limit: float | None = None) -> Solution:
        """The fixed-assignment optimum: primal ``W`` (K, m+1), duals ``margin`` (n, K).

        The dual engine's answer may fall short of it where a positive is to move anyway.

        RuntimeError: no solver left a point.
        """
        solve = self._climb if self.engine == "dual" else self._solve_program
        return solve(assignment, answers(self.y, self.n_faces, assignment), time_limit)

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face where that lowers its hinge strictly."""
        hinge = slacks(self._scores(point["W"]), self.y[:, None])
        own = np.take_along_axis(hinge, np.maximum(assignment, 0)[:, None], axis=1)[:, 0]
        gain = max(MIN_HINGE_DECREASE, self.tol) if self.engine == "dual" else MIN_HINGE_DECREASE
        gains = (self.y > 0) & (own > hinge.min(axis=1) + gain)
        return np.where(gains, hinge.argmin(axis=1), assignment)

    def _scores(self, W: Vector) -> Vector:
        return np.asarray(self.X @ W[:, :-1].T) + W[:, -1]

    def finish(self, found: Solution, max_iter: int, time_limit: float | None) -> Solution:
        """The end of the best run gone on with to a gap as small as a certificate asks.

        found: that end; one that a limit cut off stays as it is.
        max_iter, time_limit: rounds of a start, those of the best run among them, and seconds at most.
        """
        if self.engine == "program" or found.status is not Status.CONVERGED:
            return found
        number = number_of_best(found.runs)
        made = found.runs[number].iterations
        if made >= max_iter:
            return replace(found, status=Status.ITERATION_LIMIT)
        self.tol, self._ascent, self._before = min(self.tol, _FINAL_REL_GAP), None, np.inf
        self._begin_with = found
        last = run_rounds(self, found["assignment"], max_iter=max_iter - made, time_limit=time_limit)
        better = last.objective <= found.objective and last.status is not Status.INTERRUPTED
        kept = last if better else found
        return replace(
            kept,
            iterations=found.iterations + last.iterations,
            solve_time=found.solve_time + last.solve_time,
            history=(*found.history, *continued(last.history, "round", number, made, found.solve_time)),
            runs=found.runs,
            status=last.status
            if last.status in (Status.INTERRUPTED, Status.ITERATION_LIMIT)
            else found.status,
        )

    # -- the dual ------------------------------------------------------------------------------

    def _climb(self, assignment: Assignment, Z: Vector, time_limit: float | None) -> Solution:
        clock, caps = Clock(time_limit), self.C[:, None] * Z
        if self._ascent is None:
            self._ascent, self._before = ShrunkAscent(self.X, self.y, caps, self.penalty), np.inf
            if self._begin_with is not None:
                begin = self._begin_with
                self._ascent.begin_from(begin.duals["margin"], near=begin["W"])
        else:
            self._ascent.begin_from(self._ascent.alpha, caps)
        ascent, before, steps = self._ascent, self._before, self._ascent.steps
        tol = max(self.tol, _FIRST_REL_GAP)
        while True:
            reached = ascent.reach(tol, lambda: clock.is_over)
            value = ascent.primal
            if not reached or tol <= self.tol:
                break
            point = Solution(Status.INACCURATE, {"W": ascent.W}, {}, value, None, "")
            has_fallen = value < (1.0 - MIN_REL_DECREASE) * before
            if has_fallen and (self.reassign(point, assignment) != assignment).any():
                break
            tol = max(self.tol, 0.01 * tol)
        if reached and tol <= _FINAL_REL_GAP:
            ascent.polish(lambda: clock.is_over)
            value = ascent.primal
        self._before = value
        ended = Status.TIME_LIMIT if clock.is_over else Status.STALLED
        return Solution(
            status=ended if not reached else Status.SOLVED if tol <= self.tol else Status.INACCURATE,
            primal={"W": ascent.faces},
            duals={"margin": ascent.alpha.copy()},
            objective=value,
            bound=ascent.dual,
            solver="alternating, Newton steps on the dual",
            iterations=ascent.steps - steps,
        )

    # -- the program ---------------------------------------------------------------------------

    def _solve_program(self, assignment: Assignment, Z: Vector, time_limit: float | None) -> Solution:
        if self._program is None:
            self._program = cpm_sparse.fixed_assignment(
                self.X, self.y, self.n_faces, assignment, self.C, self.loss, self.margin, penalty=self.penalty
            )
        clock = Clock(time_limit)
        found = self._program.set(Z=Z).solve(time_limit=clock.left)
        if not found.primal:
            zeros = {"W": np.zeros((self.n_faces, self.X.shape[1] + 1))}
            if clock.is_over:
                nothing = {"margin": np.zeros(Z.shape)}
                return Solution(Status.TIME_LIMIT, zeros, nothing, np.inf, None, "none, for lack of time")
            raise RuntimeError(
                f"no solver left a point for the faces of the polytope ({found.status}): scale the features "
                "to unit variance, or lower C"
            )
        alpha = np.clip(found.duals["margin"], 0.0, self.C[:, None] * Z)
        W = self._with_zeros(found["W"], alpha, Z)
        certificate = certify_cpm(
            self.X, self.y, self.C, W=W, alpha=alpha, assignment=assignment, loss=self.loss,
            margin=self.margin, penalty=self.penalty,
        )  # fmt: skip
        return replace(
            found,
            status=status_by_gap(found.status, certificate.relative_gap, EXACT_GAP_CONES),
            primal={"W": W},
            duals={"margin": alpha, **{name: found.duals[name] for name in ("norm",) if name in found.duals}},
            objective=self._value(W, Z),
            bound=None,
            solver=f"alternating, {found.solver}",
        )

    def _with_zeros(self, W: Vector, alpha: Vector, Z: Vector) -> Vector:
        """The sparsest of some readings of a solver's point that costs no more than rounding above the best.

        They are the faces that the multipliers imply, the point with zeros where those have them, the point
        with zeros for what is small, and the point itself, the signs kept.
        """
        v = pulls(LinearGeometry(lift(self.X)), self.y, alpha)
        implied, W = implied_faces(v, self.margin, self.penalty), self.penalty.allowed(W)
        small = np.abs(W) > 1e-6 * np.abs(W).max(initial=0.0)
        small[:, -1] = True
        kept = (implied != 0.0) | (np.arange(W.shape[1]) == W.shape[1] - 1)
        readings = [implied, np.where(kept, W, 0.0), np.where(small, W, 0.0), W]
        values = [self._value(reading, Z) for reading in readings]
        fine = [k for k, value in enumerate(values) if value <= (1.0 + 0.1 * EXACT_GAP_CONES) * min(values)]
        return readings[min(fine, key=lambda k: int((readings[k][:, :-1] != 0.0).sum()))]

    def _value(self, W: Vector, Z: Vector) -> float:
        """The objective for the assignment."""
        hinge = Z * slacks(self._scores(W), self.y[:, None])
        shared = (self.y < 0) & (self.loss == "max")
        paid = np.where(shared, hinge.max(axis=1), hinge.sum(axis=1))
        squares = (W**2).sum(axis=1)
        size = squares.sum() if self.margin == "total" else squares.max()
        return float(size + self.penalty.value(W) + self.C @ paid)
