"""Rounds of a Convex Polytope Machine on blocks: assign the positives, solve each face exactly, assign again.

In a round the assignment is fixed: it is that of the faces before it, each positive being on the face with
its highest score. An assignment is not stored, but made anew from these faces, by the same products of the
same rows, to the same bits. The program of each face is then one of the interior point over the blocks; its
certificate is made while its multipliers are with them. If there are many features, all faces are climbed
together (:mod:`polyopt.large.face_ascent`). Positives move only where they pay no more, so the objective is
non-increasing but for the gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from formulations.families import Families, margin_family
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import counted, listener, tell
from polyopt.certificates.certificate import Certificate, Claim, Residual
from polyopt.certificates.tally import Tally, merge
from polyopt.cpm.certificate_by_blocks import certify_faces
from polyopt.large.blocks import ROWS_AT_ONCE, Hinge, Recipe, select_classes, solver_rows, two_classes
from polyopt.large.checkpoint import CheckpointWriter
from polyopt.large.executor import Executor
from polyopt.large.face_ascent import MIN_HINGE_DECREASE, FaceAscents, Vector, scaled
from polyopt.large.sources import Samples
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.block import Block, Work
from polyopt.margin.interior_point.crew import Change, total
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.margin.interior_point.rows import Rows

_CUT_OFF = (Status.TIME_LIMIT, Status.INTERRUPTED)
_NOT_CONVERGED = (Status.INACCURATE, Status.STALLED)
_TORN = (
    "The faces' programs were not of one assignment, as where processors of several kinds round differently: "
    "nothing is proven of them together."
)
_SETTLED = (
    "Alternation ended with a round that lowered the objective by no more than {share:g} of it; some "
    "positives would pay less by another face."
)


# -- samples at some faces ---------------------------------------------------------------------------


class FaceRecipe(NamedTuple):
    """The program of one face of `faces` (K, m+1), which assign the samples of the recipe's classes.

    It is half of a face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i, over the samples inside and those outside that are
    assigned to the face.
    """

    recipe: Recipe
    faces: Vector
    face: int

    def block(self, samples: Samples, number: int, work: Work | None = None) -> Block | None:
        """Return the block of the face; None if it has no such samples."""
        found = select_classes(samples, self.recipe.classes, self.recipe.factors)
        if found is None:
            return None
        X, is_on_face = solver_rows(samples, found.rows), ~found.is_second
        for part in _parts(len(is_on_face)):
            is_on_face[part] |= _scores(X[part], self.faces).argmax(axis=1) == self.face
        if not is_on_face.any():
            return None
        signs = np.where(found.is_second[is_on_face], 1, -1).astype(np.int8)
        hinge = Hinge(signs, 0.5 * self.recipe.C * found.weights[is_on_face])
        chosen = found.rows.copy()
        chosen[found.rows] = is_on_face
        block = Block(Rows(solver_rows(samples, chosen)), hinge, 1, work=work)
        block.intercept, block.chosen = False, None if chosen.all() else chosen
        return block


def weigh_faces(
    _: None, samples: Samples, number: int, recipe: Recipe, assigning: Vector, faces: Vector
) -> Tally:
    """Return the losses of a block at `faces` (K, m+1), its positives assigned by the faces `assigning`.

    Sums: losses of the samples ``inside``, and of those outside as assigned (``held``) and at the ``best``
    face; costs of those outside whose hinge would fall by another face (``moved``), and by best face
    (``counts``). The violation is the largest fall of a hinge.
    """
    X, outside, weights = two_classes(samples, recipe)
    found, C = Tally(), recipe.C * weights
    for part in _parts(len(outside)):
        is_outside, costs = outside[part], C[part]
        scores = _scores(X[part], faces)
        assigned_face = _scores(X[part], assigning).argmax(axis=1)
        best = np.maximum(1.0 - scores.max(axis=1), 0.0)
        hinge = np.maximum(1.0 - np.take_along_axis(scores, assigned_face[:, None], axis=1)[:, 0], 0.0)
        decrease = np.where(is_outside, hinge - best, 0.0)
        sums = {
            "inside": float(costs[~is_outside] @ np.maximum(1.0 + scores[~is_outside], 0.0).sum(axis=1)),
            "held": float(costs[is_outside] @ hinge[is_outside]),
            "best": float(costs[is_outside] @ best[is_outside]),
            "moved": float(costs[decrease > MIN_HINGE_DECREASE].sum()),
            "counts": np.bincount(scores.argmax(axis=1)[is_outside], costs[is_outside], len(faces)),
        }
        part_tally = Tally(len(is_outside), sums)
        part_tally.note("stationarity", "assignment", decrease)
        found.append(part_tally)
    return found


def _parts(n: int) -> Iterator[slice]:
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, n, ROWS_AT_ONCE))


def _scores(X: Any, faces: Vector) -> Vector:
    """Return scores (n, K) in double precision."""
    rows = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    return np.asarray(rows @ faces[:, :-1].T) + faces[:, -1]


# -- rounds ------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """Tolerance and iterations of a face, number of rounds, least decrease, tolerance of a certificate."""

    tol: float
    max_iter: int | None
    rounds: int
    least_fall: float
    proof: float


class _Solved(NamedTuple):
    """Solved faces of a round: the faces, halves of their certificates, and how their solvers ended."""

    faces: list[Vector]
    halves: list[Certificate]
    statuses: list[Status]

    def state(self, name: str) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {
            name: np.array(self.faces),
            f"{name} halves": [_plain_certificate(half) for half in self.halves],
            f"{name} statuses": [status.name for status in self.statuses],
        }

    @classmethod
    def of(cls, state: dict[str, Any], name: str) -> _Solved:
        """The inverse of :meth:`known`."""
        halves = [_certificate(half) for half in state[f"{name} halves"]]
        return cls(list(state[name]), halves, [Status.of_name(each) for each in state[f"{name} statuses"]])


@dataclass(frozen=True)
class _Point:
    """The end of a round: the faces that assigned, the solved faces (K, m+1), their value and losses."""

    assigning: Vector
    solved: _Solved
    value: float
    losses: Tally

    @property
    def faces(self) -> Vector:
        return np.array(self.solved.faces)

    @property
    def is_fixed(self) -> bool:
        """True if no positive would pay less by another face."""
        return bool(self.losses.worst["stationarity", "assignment"][0] <= MIN_HINGE_DECREASE)


class Rounds:
    """The rounds.

    ascents: the solver of all faces of a round; by default the interior point, face by face.
    scale: factor of every entry of the samples; 1 for the interior point.
    """

    def __init__(
        self, executor: Executor, recipe: Recipe, limits: Limits, clock: Clock,
        writer: CheckpointWriter | None, ascents: FaceAscents | None = None, scale: float = 1.0,
    ):  # fmt: skip
        self._executor, self._recipe = executor, recipe
        self._limits, self._clock, self._writer = limits, clock, writer
        self._ascents, self._scale, self._is_restored = ascents, scale, False
        self._history: list[dict[str, float]] = []
        self._iterations = 0
        self._best: _Point | None = None
        self._solved = _Solved([], [], [])  # of the round under way
        self._interrupted_face: tuple[list[Change], dict[str, Any]] | None = None

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self, assigning: Vector) -> dict[str, Any]:
        state = {"held": assigning, "rounds": self._history, "iterations": self._iterations}
        if self._best is not None:
            state |= {"best held": self._best.assigning, **self._best.solved.state("best")}
        return state | self._solved.state("solved")

    def restore(self, log: list[Change], state: dict[str, Any]) -> Vector:
        """Resume from a checkpoint; return the faces that assign in the round under way."""
        self._solved = _Solved.of(state, "solved")
        self._history, self._iterations = list(state["rounds"]), state["iterations"]
        if "best held" in state:
            self._best = self._with_losses(state["best held"], _Solved.of(state, "best"))
        self._interrupted_face = (log, state) if "iteration" in state else None
        if self._ascents is not None:
            self._ascents.restore(state)
            self._is_restored = True
        assigning: Vector = state["held"]
        return assigning

    # -- the rounds ------------------------------------------------------------------------------

    def run(self, assigning: Vector, *, certify_only: bool = False) -> tuple[Solution, Certificate]:
        """Take rounds from the assignment of the faces `assigning` (K, m+1).

        certify_only: True after an interruption: these faces get a certificate, and no round is taken.
        Returns: the best point ``W`` (K, m+1), certified for the assignment by the faces ``held`` (K, m+1).
        """
        is_settled = False
        while True:
            before = self._best
            status = self._round(assigning, certify_only=certify_only)
            best = self._best
            if status is not None and before is not None:
                break
            assert best is not None
            if status is not None or best.is_fixed:
                break
            least_fall = self._limits.least_fall * abs(best.value)
            if before is not None and not before.value - best.value > least_fall:
                is_settled = True
                break
            if len(self._history) >= self._limits.rounds:
                status = Status.ITERATION_LIMIT
                break
            assigning = best.faces
        assert best is not None
        return self._answer(best, status, is_settled)

    def _answer(self, best: _Point, status: Status | None, is_settled: bool) -> tuple[Solution, Certificate]:
        unsolved = next((each for each in best.solved.statuses if each is not Status.SOLVED), None)
        reached = Status.SOLVED if len(best.assigning) == 1 else Status.CONVERGED
        notes = [_SETTLED.format(share=self._limits.least_fall)] if is_settled and not best.is_fixed else []
        assignment = best.losses.residual("stationarity", "assignment", 1.0)
        proof = certify_faces(best.solved.halves, assignment, self._limits.proof, notes)
        # The certificates of the faces must add up to the value of all together.
        if abs(proof.primal_value - best.value) > 2.0 * proof.rounding + 1e-9 * abs(best.value):
            proof = replace(proof, claim=Claim.NONE, note=_TORN)
        found = Solution(
            status=status or unsolved or reached,
            primal={"W": best.faces, "held": best.assigning},
            duals={},
            objective=best.value,
            bound=proof.dual_value,
            solver="alternating, "
            + ("interior-point" if self._ascents is None else "dual coordinate ascent"),
            iterations=len(self._history),
            solve_time=self._clock.seconds,
            history=tuple(self._history),
        )
        return found, proof

    def _round(self, assigning: Vector, *, certify_only: bool = False) -> Status | None:
        """Take one round and keep its point if it is better; return the status that cut it off, or None."""
        if self._ascents is not None:
            return self._ascend(self._ascents, assigning, certify_only=certify_only)
        stopped = Status.INTERRUPTED if certify_only else None
        left = range(len(self._solved.faces), len(assigning))
        self._save(assigning)
        for face in counted(left, max(len(left), 1), "face"):
            if stopped is not None and self._best is not None:
                break
            status = self._solve(face, assigning, certify_only=stopped is not None)
            stopped = stopped or (status if status in _CUT_OFF else None)
            self._save(assigning)
        if len(self._solved.faces) == len(assigning):
            self._keep(self._with_losses(assigning, self._solved))
        self._solved, self._iterations = _Solved([], [], []), 0
        return stopped

    def _keep(self, point: _Point) -> None:
        """Record the end of a round, and keep it if it is better."""
        if self._best is None or point.value < self._best.value:
            self._best = point
        record = {
            "round": float(len(self._history) + 1), "seconds": self._clock.seconds,
            "objective": point.value, "bound": 2.0 * sum(half.dual_value for half in point.solved.halves),
            "reassigned": float(point.losses.sums["moved"]), "iterations": float(self._iterations),
        }  # fmt: skip
        self._history.append(record)
        tell(record)

    def _ascend(self, ascents: FaceAscents, assigning: Vector, *, certify_only: bool) -> Status | None:
        """Take a round of all faces at once; return the status that cut it off, or None."""
        limits, status = self._limits, Status.INTERRUPTED
        ascents.assign(assigning, is_resumed=self._is_restored)
        self._is_restored = False
        try:
            if not certify_only:
                save = None if self._writer is None else lambda state: self._save(assigning, loop=state)
                status = ascents.run(limits.tol, limits.max_iter, self._clock, save)
        except KeyboardInterrupt:
            status = interrupted()
        stopped = status if status in _CUT_OFF else None
        if stopped is not None and self._best is not None:
            return stopped
        proof = ascents.prove(limits.proof, None if status is Status.SOLVED else assigning)
        value = float((proof.W**2).sum() + proof.losses.sums["inside"] + proof.losses.sums["held"])
        self._iterations = ascents.scans
        self._keep(_Point(assigning, _Solved(list(proof.W), proof.halves, [status]), value, proof.losses))
        self._iterations = 0
        return stopped

    def _save(
        self, assigning: Vector, log: list[Change] | None = None, loop: dict[str, Any] | None = None
    ) -> None:
        if self._writer is not None:
            self._writer.log = [] if log is None else log
            self._writer(self._state(assigning) | (loop or {}))

    def _solve(self, face: int, assigning: Vector, *, certify_only: bool) -> Status:
        """Solve and certify half of a face's program."""
        recipe, limits, clock = self._recipe, self._limits, self._clock
        if self._best is None and clock.left is not None:  # so that all faces get a point
            clock = Clock(clock.left / (len(assigning) - face))
        crew = self._executor.crew(FaceRecipe(recipe, assigning, face))
        problem = state_problem(crew, 1, None, intercept=False)
        state = None
        if self._interrupted_face is not None:
            (crew.log[:], state), self._interrupted_face = self._interrupted_face, None
        arguments = (limits.tol, 0 if certify_only else limits.max_iter, clock, listener())
        save = lambda loop: self._save(assigning, crew.log, loop)  # noqa: E731
        start = assigning[face] if assigning[face].any() else None
        found = solve_problem(problem, *arguments, save, state, start)
        if found.status in _NOT_CONVERGED and all(change.name != "begin" for change in crew.log):
            found = solve_problem(problem, *arguments, save)  # the warm start was no good
        v = np.append(found["w"], found["b"])
        if found.status is not Status.SOLVED:  # the warm start may be better, with the same multipliers
            w = assigning[face]
            value = 0.5 * float(w @ w) + float(total(crew.ask("costs_at", w, 1.0)))
            v = w if value < found.objective else v
        rows = Families(margin_family(np.array([1.0, -1.0]), np.full(2, 0.5 * recipe.C)))
        half = certify_blocks(
            "half a face", lambda *step: crew.ask("prove", *step), rows, v=v, b=0.0, centre=None,
            intercept=False, tol=limits.proof,
        )  # fmt: skip
        crew.close()
        self._solved.faces.append(v)
        self._solved.halves.append(half)
        self._solved.statuses.append(found.status)
        self._iterations += found.iterations
        return found.status

    def _with_losses(self, assigning: Vector, solved: _Solved) -> _Point:
        faces = np.array(solved.faces)
        given = (self._recipe, scaled(assigning, self._scale), scaled(faces, self._scale))
        losses = merge(self._executor.each(weigh_faces, [given] * self._executor.count))
        value = float((faces**2).sum() + losses.sums["inside"] + losses.sums["held"])
        return _Point(assigning, solved, value, losses)


def _plain_certificate(half: Certificate) -> dict[str, Any]:
    """Return a face's certificate in plain values."""
    fields = {name: getattr(half, name) for name in ("program", "primal_value", "dual_value", "tol")}
    fields |= {name: getattr(half, name) for name in ("scope", "note", "rounding")}
    return fields | {"claim": half.claim.name, "residuals": [vars(each) for each in half.residuals]}


def _certificate(plain: dict[str, Any]) -> Certificate:
    residuals = tuple(Residual(**each) for each in plain["residuals"])
    return Certificate(**plain | {"claim": Claim[plain["claim"]], "residuals": residuals})
