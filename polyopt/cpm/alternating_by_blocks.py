"""Alternating minimisation of the Convex Polytope Machine on blocks: assign the positives, solve the faces.

A round begins with faces W (K, m+1), the bias of each last. They assign every positive, a sample outside the
polytope, to the face with its highest score. For this assignment the faces are independent convex programs,
and the round solves them: one by one with the interior point over the blocks, or for many features all
together by dual ascent (:mod:`polyopt.cpm.face_ascent_by_blocks`). The solved faces assign in the next round.
A new assignment never raises a positive's hinge, so the objective is non-increasing up to the duality gaps.

An assignment is not stored: the faces that assign are, and the same products of the same rows give the same
assignment again, to the last bit. A face is certified at the end of its program, as long as the workers have
its multipliers; :class:`Rounds` combines the certificates of all faces.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from formulations.families import Families, margin_family
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.base.progress import counted, tell
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.certificates.tally import Tally, merge
from polyopt.cpm.certificate_by_blocks import Multipliers, certify_faces, reassignment_of
from polyopt.cpm.face_ascent_by_blocks import (
    OPTIONS,
    FaceAscents,
    assign_block,
    assign_faces,
    weigh_block,
)
from polyopt.margin.by_blocks import ReadBlock
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.block import Work
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.scale.blocks import Pair, select_classes, solver_rows
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.crew import Change, total
from polyopt.scale.executor import Executor
from polyopt.scale.sources import Samples

_MIN_PROOF_TOL = 1e-6  # of a certificate, as in memory
_SAVED = ("_history", "_best", "_solved", "_iterations")  # attributes in a checkpoint
_CUT_OFF = (Status.TIME_LIMIT, Status.INTERRUPTED)
_NOT_CONVERGED = (Status.INACCURATE, Status.STALLED)
_DIFFERENT_ASSIGNMENTS = (
    "The faces' programs were not of one assignment, as where processors of several kinds round differently: "
    "nothing is proven of them together."
)
_SMALL_DECREASE = (
    "Alternation ended with a round that lowered the objective by no more than {ratio:g} of it; some "
    "positives would pay less by another face."
)


# -- blocks of an assignment ---------------------------------------------------------------------------


class FaceRecipe(NamedTuple):
    """The program of face number `face`, for the assignment by `faces` (K, m+1).

    The program is halved, ½ ‖w‖² + Σ (C_i/2) ξ_i, over the samples inside and the positives of the face.
    """

    pair: Pair
    faces: Vector
    face: int

    def workspace(self) -> Work:
        """Return work arrays for blocks."""
        return Work()

    def block(self, samples: Samples, workspace: Work) -> ReadBlock | None:
        """Return the solver's block of the face; None if no sample of `samples` is in its program."""
        selection = select_classes(samples, self.pair)
        if selection is None:
            return None
        X = solver_rows(samples, selection.rows)
        is_in_program = ~selection.is_second
        is_in_program |= assign_faces(X, selection.is_second, self.faces) == self.face
        if not is_in_program.any():
            return None
        return ReadBlock(
            samples, selection.part(is_in_program), 0.5 * self.pair.C, workspace, intercept=False
        )


# -- rounds ------------------------------------------------------------------------------------------


class SolvedFace(NamedTuple):
    """A solved face v (m+1,), the certificate of half of its program, and the status of its solver."""

    v: Vector
    half: Certificate
    status: Status


@dataclass(frozen=True)
class _Round:
    """The end of a round.

    assigning, faces (K, m+1): the faces that assigned, and the solved ones.
    proof: the certificate of the solved faces for this assignment.
    primal: the tally of :func:`weigh_block` at them.
    status: SOLVED, or the status of the first face that is not solved.
    """

    assigning: Vector
    faces: Vector
    proof: Certificate
    primal: Tally
    status: Status

    @property
    def objective(self) -> float:
        """The objective for this assignment."""
        return float((self.faces**2).sum() + self.primal.sums["loss"].mid)

    @property
    def is_fixed(self) -> bool:
        """True if no positive has a smaller hinge at another face."""
        return reassignment_of(self.primal).value <= OPTIONS.min_hinge_decrease


@dataclass
class Rounds:
    """The solver.

    ascents: the solver of all faces of a round; None for the interior point, face by face.
    tol: relative duality gap of a face.
    max_rounds: rounds at most.
    min_decrease: a round that lowers the objective by no more than this ratio is the last.
    """

    executor: Executor
    pair: Pair
    clock: Clock
    checkpoint: Checkpoint
    ascents: FaceAscents | None
    tol: float
    max_rounds: int
    min_decrease: float
    _history: list[dict[str, float]] = field(default_factory=list, init=False)
    _best: _Round | None = field(default=None, init=False)
    # Of the present round: its faces that are solved, and their iterations.
    _solved: list[SolvedFace] = field(default_factory=list, init=False)
    _iterations: int = field(default=0, init=False)
    # Of a checkpoint that is resumed: the log and the state of the solver, until it goes on from there.
    _resumed: tuple[list[Change], dict[str, Any]] | None = field(default=None, init=False)

    @property
    def _proof_tol(self) -> float:
        return max(self.tol, _MIN_PROOF_TOL)

    # -- checkpoints -----------------------------------------------------------------------------

    def _save(
        self, assigning: Vector, log: list[Change] | None = None, loop: dict[str, Any] | None = None
    ) -> None:
        """Write a checkpoint, with the log and the loop's state of the face that is being solved."""
        self.checkpoint.log = log or []
        state = {name: getattr(self, name) for name in _SAVED}
        self.checkpoint(state | {"assigning": assigning, "loop": loop})

    def restore(self) -> Vector:
        """Resume from the checkpoint; return the faces that assign in its round."""
        state = dict(self.checkpoint.state or {})
        assigning, loop = state.pop("assigning"), state.pop("loop")
        vars(self).update(state)
        self._resumed = None if loop is None else (self.checkpoint.log, loop)
        return np.asarray(assigning)

    # -- the rounds ------------------------------------------------------------------------------

    def run(self, assigning: Vector) -> tuple[Solution, Certificate]:
        """Take rounds from the assignment of the faces `assigning` (K, m+1).

        If the clock is over, the first round certifies these faces, and is the last.
        Returns: the best point ``W`` (K, m+1), certified for the assignment by the faces ``held`` (K, m+1).
        """
        while True:
            before = self._best
            status = self._take_round(assigning)
            best = self._best
            assert best is not None
            if status is not None or best.is_fixed:
                return self._conclude(best, status)
            min_decrease = self.min_decrease * abs(best.objective)
            if before is not None and not before.objective - best.objective > min_decrease:
                return self._conclude(best, None, _SMALL_DECREASE.format(ratio=self.min_decrease))
            if len(self._history) >= self.max_rounds:
                return self._conclude(best, Status.ITERATION_LIMIT)
            assigning = best.faces

    def _conclude(self, best: _Round, status: Status | None, *notes: str) -> tuple[Solution, Certificate]:
        if status is Status.TIME_LIMIT and self.clock.is_stopped:  # by Ctrl-C, before this round
            status = Status.INTERRUPTED
        reached = Status.SOLVED if len(best.assigning) == 1 else Status.CONVERGED
        proof = replace(best.proof, note=" ".join(filter(None, (best.proof.note, *notes))))
        # The certificates of the faces must add up to the objective of all faces.
        tolerance = 2.0 * proof.rounding + 1e-9 * abs(best.objective)
        if abs(proof.primal_value - best.objective) > tolerance:
            proof = replace(proof, claim=Claim.NONE, note=_DIFFERENT_ASSIGNMENTS)
        solver = "interior-point" if self.ascents is None else "dual coordinate ascent"
        solution = Solution(
            status=status or (reached if best.status is Status.SOLVED else best.status),
            primal={"W": best.faces, "held": best.assigning},
            duals={},
            objective=best.objective,
            bound=proof.dual_value,
            solver=f"alternating, {solver}",
            iterations=len(self._history),
            solve_time=self.clock.seconds,
            history=tuple(self._history),
        )
        return solution, proof

    def _take_round(self, assigning: Vector) -> Status | None:
        """Take a round and keep it if it is the best; return the status that cut it off, or None."""
        if self.ascents is not None:
            return self._ascend(self.ascents, assigning)
        cut_off = None
        unsolved = range(len(self._solved), len(assigning))
        self._save(assigning)
        for face in counted(unsolved, max(len(unsolved), 1), "face"):
            if cut_off is not None and self._best is not None:
                break
            status = self._solve(face, assigning)
            cut_off = cut_off or (status if status in _CUT_OFF else None)
            self._save(assigning)
        if len(self._solved) == len(assigning):
            self._record(self._end_round(assigning), self._iterations)
        self._solved, self._iterations = [], 0
        return cut_off

    def _record(self, end: _Round, iterations: int) -> None:
        """Record the end of a round, and keep it if it is the best."""
        if self._best is None or end.objective < self._best.objective:
            self._best = end
        record = {
            "round": float(len(self._history) + 1), "seconds": self.clock.seconds,
            "objective": end.objective, "bound": end.proof.dual_value,
            "reassigned": float(end.primal.sums["moved"]), "iterations": float(iterations),
        }  # fmt: skip
        self._history.append(record)
        tell(record)

    def _ascend(self, ascents: FaceAscents, assigning: Vector) -> Status | None:
        """Take a round of all faces together; return the status that cut it off, or None."""
        resumed, self._resumed = self._resumed, None
        ascents.assign(assigning, None if resumed is None else resumed[1])
        status = ascents.run(self.tol, self.clock, lambda loop: self._save(assigning, loop=loop))
        cut_off = status if status in _CUT_OFF else None
        if cut_off is not None and self._best is not None:
            return cut_off
        found = ascents.prove(self._proof_tol, None if status is Status.SOLVED else assigning)
        self._record(_Round(assigning, *found, status), ascents.scans)
        return cut_off

    def _solve(self, face: int, assigning: Vector) -> Status:
        """Solve and certify half of a face's program."""
        clock = self.clock
        if self._best is None and clock.left is not None:  # the first round leaves time for all faces
            clock = Clock(clock.left / (len(assigning) - face))
        crew = self.executor.crew(FaceRecipe(self.pair, assigning, face))
        problem = state_problem(crew, 1, None, intercept=False)
        state = None
        if self._resumed is not None:
            (crew.log[:], state), self._resumed = self._resumed, None
        arguments = (self.tol, None, clock)
        save = lambda loop: self._save(assigning, crew.log, loop)  # noqa: E731
        start = assigning[face] if assigning[face].any() else None
        solution = solve_problem(problem, *arguments, save, state, start)
        if solution.status in _NOT_CONVERGED and all(change.name != "begin" for change in crew.log):
            solution = solve_problem(problem, *arguments, save)  # without the warm start
        v = np.append(solution["w"], solution["b"])
        if solution.status is not Status.SOLVED:  # the assigning face may have a lower objective
            w = assigning[face]
            objective = 0.5 * float(w @ w) + float(total(crew.ask("costs_at", w, 1.0)))
            v = w if objective < solution.objective else v
        rows = Families(margin_family(np.array([1.0, -1.0]), np.full(2, 0.5 * self.pair.C)))
        half = certify_blocks(
            "half a face", lambda *step: crew.ask("prove", *step), rows, v=v, b=0.0, centre=None,
            intercept=False, tol=self._proof_tol,
        )  # fmt: skip
        crew.close()
        self._solved.append(SolvedFace(v, half, solution.status))
        self._iterations += solution.iterations
        return solution.status

    def _end_round(self, assigning: Vector) -> _Round:
        """Return the end of a round whose faces are solved, with their losses of all blocks."""
        faces = np.array([face.v for face in self._solved])
        assigned = self.executor.each(assign_block, [(self.pair, assigning)] * self.executor.count)
        arguments = [(self.pair, 1.0, each, Multipliers.none(), faces) for each in assigned]
        primal = merge(self.executor.each(weigh_block, arguments))
        halves = [face.half for face in self._solved]
        proof = certify_faces(halves, reassignment_of(primal), self._proof_tol)
        unsolved = (face.status for face in self._solved if face.status is not Status.SOLVED)
        return _Round(assigning, faces, proof, primal, next(unsolved, Status.SOLVED))
