"""The dual coordinate engine of alternating minimisation for the Convex Polytope Machine, loss="sum".

One state of multipliers serves all rounds: a positive that changes its face takes its multiplier to 0
there, and the climb goes on from what is left. A round ends as soon as its objective has fallen and a
positive is to move, however large the gap still is; only where none is to move is it closed to the
tolerance. What a round answers with is, face by face, the better of the last answer and the climb, each
valued for the present assignment: so the objective never rises, whatever the gaps.

Before the first round, :meth:`DualEngine.loosen` may improve the start. A positive with the multiplier α
adds ½ α ‖x̃‖² to its own score on its face. A part of that is taken off before it compares faces, so that it
may leave a face which fits it only because the positive pulled it there. Alternating minimisation never moves
a positive that is satisfied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from polyopt.base.parallel import Shipped
from polyopt.cpm.face_dual import Progress, dual_machine
from polyopt.linalg.rows import as_rows
from polyopt.optim.rounds import MIN_REL_DECREASE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.optim.coordinate_ascent import FaceAscent

    Assignment = NDArray[np.int64]

__all__ = ["DualEngine"]

_MAX_LOOSE_ROUNDS = 10
_OWN_PULL_SHARE = 0.1  # of what a positive's multiplier adds to its own score, taken off while loosening
_MAX_CLIMBS = 1000  # each with a scan, for one assignment


@dataclass
class _Answer:
    """The faces of the last answer, with what decides their values for any assignment."""

    W: Vector
    others: Vector  # ‖W_k‖² + what face k pays for the negatives
    scores: Vector  # of the positives on the faces


class DualEngine(Shipped):
    """Steps of alternating minimisation on one state of multipliers.

    X (n, m): samples: float32, float64 or uint8.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample.
    n_faces: K, at least 1.
    tol: relative gap of the fixed-assignment program at the end; also by how much a positive's score or hinge
        must be better on another face for it to move there.
    scale: what every entry of X counts times.
    """

    # The state of a run.
    _own = ("_machine", "_answer", "_value", "_expected")
    _machine: FaceAscent | None = None
    _answer: _Answer | None = None
    _value = float("inf")
    _expected: Assignment | None = None  # the assignment that the state is warm for

    def __init__(self, X: Matrix, y: Vector, C: Vector, n_faces: int, tol: float, scale: float):
        self._rows, self._y, self._C = as_rows(X), np.asarray(y, dtype=float), C
        self._n_faces, self._tol, self._scale = n_faces, tol, scale

    def loosen(self, assignment: Assignment, time_limit: float | None = None) -> Assignment:
        """A better assignment to start from; the objective may rise on the way."""
        clock = Clock(time_limit)
        machine = self._begin(assignment)
        for _ in range(_MAX_LOOSE_ROUNDS):
            machine.climb(0.05, accuracy=0.1, passes=3)
            machine.scan()
            following = self._better(
                machine.scores, assignment, machine.alpha, _OWN_PULL_SHARE * machine.own_pull()
            )
            moved = int((following != assignment).sum())
            assignment = following
            machine.reassign(assignment)
            if moved <= 0.002 * (self._y > 0).sum() or clock.is_over:
                break
        self._expected = assignment
        return assignment

    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        """The fixed-assignment optimum; or, where a positive is to move anyway, a better point.

        On data out of scale with the costs the climb may take very long: it ends after a thousand rounds,
        whatever the time limit.
        """
        clock = Clock(time_limit)
        if self._expected is None or not np.array_equal(assignment, self._expected):
            self._begin(assignment)
        machine, before = self._machine, self._value
        assert machine is not None
        machine.reassign(assignment)
        status, tol, progress = Status.INACCURATE, self._tol, Progress()
        for number in range(1, _MAX_CLIMBS + 1):
            machine.climb(tol)
            machine.scan()
            value = self._take_the_better(machine)
            if machine.gap <= tol:
                if machine.check() > self._tol:
                    machine.single = False
                elif machine.primal.sum() <= before or tol < 1e-3 * self._tol:
                    status = Status.SOLVED
                    value = self._take_the_better(machine, all_of_it=machine.primal.sum() <= before)
                    break
                else:
                    tol *= 0.3  # the last answer is better still
            elif value < (1.0 - MIN_REL_DECREASE) * before and self._is_to_move(machine):
                break
            ended = progress.end(machine, clock)
            if ended is not None:
                status = ended
                break
            if number == _MAX_CLIMBS:
                status = Status.ITERATION_LIMIT
        assert self._answer is not None
        self._value, self._expected = value, assignment
        return Solution(
            status=status,
            primal={"W": self._answer.W.copy()},
            duals={"margin": machine.alpha.copy()},
            objective=value,
            bound=float(machine.dual.sum()),
            solver="alternating, dual coordinate ascent",
            iterations=int(np.ceil(machine.passes)),
        )

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """Move each positive to its best face where that is better for it.

        It is better where its hinge is lower, and where it holds its face but not the other.
        """
        answer = self._answer
        if answer is None or not np.array_equal(point["W"], answer.W):
            raise ValueError("point must be the last answer of this engine")
        following = self._better(answer.scores, assignment, point.duals["margin"])
        if self._expected is not None and np.array_equal(assignment, self._expected):
            self._expected = following
        return following

    # -- parts ---------------------------------------------------------------------------------

    def _begin(self, assignment: Assignment) -> FaceAscent:
        self._machine = dual_machine(
            self._rows, self._y, self._C, self._n_faces, assignment, scale=self._scale, tol=self._tol
        )
        self._machine.sweep(times=2)
        self._answer, self._value = None, np.inf
        return self._machine

    def _take_the_better(self, machine: FaceAscent, all_of_it: bool = False) -> float:
        """Put the faces that the climb has improved into the answer; return its objective."""
        others = np.einsum("kj,kj->k", machine.W, machine.W) + machine.inside
        if self._answer is None or all_of_it:
            self._answer = _Answer(machine.W.copy(), others, machine.scores.copy())
            return float(machine.primal.sum())
        answer = self._answer
        values = machine.values_at(answer.others, answer.scores)
        better = machine.primal < values
        answer.W[better], answer.others[better] = machine.W[better], others[better]
        answer.scores[:, better] = machine.scores[:, better]
        return float(np.minimum(values, machine.primal).sum())

    def _is_to_move(self, machine: FaceAscent) -> bool:
        assert self._answer is not None
        following = self._better(self._answer.scores, machine.assignment, machine.alpha)
        return bool((following != machine.assignment)[self._y > 0].any())

    def _better(
        self, scores: Vector, assignment: Assignment, alpha: Vector, taken: Vector | float = 0.0
    ) -> Assignment:
        """The assignment after every positive whose best other face is better for it has moved there.

        `taken` (positives,) is taken off the scores on their own faces.
        """
        at, every = np.flatnonzero(self._y > 0), np.arange(len(scores))
        faces = assignment[at]
        own = scores[every, faces]
        rivals = scores.copy()
        rivals[every, faces] = -np.inf
        best = rivals.argmax(axis=1)
        holds = (own < 1.0) | (alpha[at, faces] > 0.0)
        moves = holds & (rivals[every, best] > own - taken + self._tol)
        following = assignment.copy()
        following[at[moves]] = best[moves]
        return following
