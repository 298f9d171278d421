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

The exact programs begin from such an end, too (:func:`best_dual_end`): dual ascent goes through an
assignment in a small part of the time that the explicit programs take, and loosened starts end lower more
often than not. So the exact solver makes one run more than it was asked for: from the best end of half as
many dual ascents, each to a gap of a hundredth. On small data they take up to four tenths of the time of the
other runs. They see equal samples as one, in an order of their own, so that neither repetition in place of
weight nor the order of the samples makes a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.clock import Clock
from formulations.matrices import dense, is_sparse
from formulations.solution import Solution, Status
from polyopt.jobs import Shipped
from polyopt.outer.cpm.problem import PolytopeProblem
from polyopt.outer.rounds import Stage, run_from_many_starts
from polyopt.rows import as_rows
from polyopt.solvers.cpm.dual import Progress, dual_machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.certificates.coordinate import FaceAscent

    Assignment = NDArray[np.int64]

__all__ = ["DualEngine", "best_dual_end"]

_GAP = 1e-2  # relative, of a dual ascent at its end; the exact program does the rest
_MOST_DENSE = 5_000_000  # entries of sparse samples up to which they are made dense to be compared
_COLD = 2  # sweeps over all samples from α = 0
_FALLS = 1e-6  # relative fall of the objective for which a round may end early
_LOOSE_ROUNDS = 10  # of loosening
# How well the faces are solved in between: relative gap, violation, passes at most.
_LOOSE_GAP, _LOOSE_SLOPE, _LOOSE_PASSES = 0.05, 0.1, 3
_ROUNDS = 1000  # of a climb and a scan at most, for one assignment
_OWN_SHARE = 0.1  # of what a positive's multiplier adds to its own score, taken off there
_FEW = 2e-3  # share of the positives; where fewer move, loosening ends


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
        for _ in range(_LOOSE_ROUNDS):
            machine.climb(_LOOSE_GAP, _LOOSE_SLOPE, _LOOSE_PASSES)
            machine.scan()
            following = self._better(
                machine.scores, assignment, machine.alpha, _OWN_SHARE * machine.own_pull()
            )
            moved = int((following != assignment).sum())
            assignment = following
            machine.reassign(assignment)
            if moved <= _FEW * (self._y > 0).sum() or clock.is_over:
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
        for number in range(1, _ROUNDS + 1):
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
            elif value < (1.0 - _FALLS) * before and self._is_to_move(machine):
                break
            ended = progress.end(machine, clock)
            if ended is not None:
                status = ended
                break
            if number == _ROUNDS:
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
        self._machine.sweep(times=_COLD)
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


def best_dual_end(
    X: Matrix, y: Vector, C: Vector, n_faces: int, *,
    n_init: int, max_iter: int, time_limit: float | None, seed: int,
) -> NDArray[np.int64]:  # fmt: skip
    """The assignment (n,), -1 at negatives, at which the best of some dual ascents ends.

    n_init: the exact solver's starts, twice the dual ascents.
    max_iter: rounds at most, of each.
    time_limit: seconds, for all of them; the first round is always made.
    seed: of the starts.
    KeyboardInterrupt: Ctrl-C in one of the ascents: whoever has a point ends with it.
    """
    samples, labels, costs, place = _distinct(X, y, C)
    problem = PolytopeProblem(samples, labels, costs, n_faces, engine="dual", tol=_GAP)
    found = run_from_many_starts(
        [Stage(problem, max_iter)], n_init=max(n_init // 2, 1), time_limit=time_limit, seed=seed, n_jobs=1
    )
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return np.asarray(found["assignment"][place])


def _distinct(X: Matrix, y: Vector, C: Vector) -> tuple[Matrix, Vector, Vector, NDArray[np.int64]]:
    """Each sample once, with the sum of its costs, sorted; and each given sample's place among them."""
    if is_sparse(X) and X.shape[0] * X.shape[1] > _MOST_DENSE:
        return X, y, C, np.arange(len(y))
    rows = np.column_stack([y, dense(X)])
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    at: NDArray[np.int64] = place.ravel().astype(np.int64)
    costs = np.zeros(len(unique))
    np.add.at(costs, at, C)
    return np.ascontiguousarray(unique[:, 1:]), unique[:, 0].copy(), costs, at
