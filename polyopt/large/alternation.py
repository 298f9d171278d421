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
from polyopt.margin.interior_point.problem import state
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
        X, mine = solver_rows(samples, found.rows), ~found.is_second
        for part in _parts(len(mine)):
            mine[part] |= _scores(X[part], self.faces).argmax(axis=1) == self.face
        if not mine.any():
            return None
        signs = np.where(found.is_second[mine], 1, -1).astype(np.int8)
        hinge = Hinge(signs, 0.5 * self.recipe.C * found.weights[mine])
        chosen = found.rows.copy()
        chosen[found.rows] = mine
        block = Block(Rows(solver_rows(samples, chosen)), hinge, 1, work=work)
        block.intercept, block.chosen = False, None if chosen.all() else chosen
        return block


def weigh_faces(_: None, samples: Samples, number: int, recipe: Recipe, held: Vector, faces: Vector) -> Tally:
    """Return the losses of a block at `faces` (K, m+1), its positives assigned by the faces `held`.

    Sums: losses of the samples ``inside``, and of those outside as they are ``held`` and at their ``best``
    face; costs of those outside whose hinge would fall by another face (``moved``), and by best face
    (``counts``). The violation is the largest fall of a hinge.
    """
    X, outside, weights = two_classes(samples, recipe)
    found, C = Tally(), recipe.C * weights
    for part in _parts(len(outside)):
        up, costs = outside[part], C[part]
        scores = _scores(X[part], faces)
        place = _scores(X[part], held).argmax(axis=1)
        best = np.maximum(1.0 - scores.max(axis=1), 0.0)
        own = np.maximum(1.0 - np.take_along_axis(scores, place[:, None], axis=1)[:, 0], 0.0)
        gain = np.where(up, own - best, 0.0)
        sums = {
            "inside": float(costs[~up] @ np.maximum(1.0 + scores[~up], 0.0).sum(axis=1)),
            "held": float(costs[up] @ own[up]),
            "best": float(costs[up] @ best[up]),
            "moved": float(costs[gain > MIN_HINGE_DECREASE].sum()),
            "counts": np.bincount(scores.argmax(axis=1)[up], costs[up], len(faces)),
        }
        some = Tally(len(up), sums)
        some.note("stationarity", "assignment", gain)
        found.append(some)
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

    def known(self, name: str) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {
            name: np.array(self.faces),
            f"{name} halves": [_plain(half) for half in self.halves],
            f"{name} statuses": [status.name for status in self.statuses],
        }

    @classmethod
    def of(cls, known: dict[str, Any], name: str) -> _Solved:
        """The inverse of :meth:`known`."""
        halves = [_certificate(half) for half in known[f"{name} halves"]]
        return cls(list(known[name]), halves, [Status.of_name(each) for each in known[f"{name} statuses"]])


@dataclass(frozen=True)
class _Point:
    """The end of a round: the faces that assigned, the solved faces (K, m+1), their value and losses."""

    held: Vector
    solved: _Solved
    value: float
    met: Tally

    @property
    def faces(self) -> Vector:
        return np.array(self.solved.faces)

    @property
    def is_fixed(self) -> bool:
        """True if no positive would pay less by another face."""
        return bool(self.met.worst["stationarity", "assignment"][0] <= MIN_HINGE_DECREASE)


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
        self._ascents, self._scale, self._is_recalled = ascents, scale, False
        self._history: list[dict[str, float]] = []
        self._iterations = 0
        self._best: _Point | None = None
        self._solved = _Solved([], [], [])  # of the round under way
        self._under_way: tuple[list[Change], dict[str, Any]] | None = None

    # -- checkpoints -----------------------------------------------------------------------------

    def _known(self, held: Vector) -> dict[str, Any]:
        known = {"held": held, "rounds": self._history, "iterations": self._iterations}
        if self._best is not None:
            known |= {"best held": self._best.held, **self._best.solved.known("best")}
        return known | self._solved.known("solved")

    def recall(self, log: list[Change], known: dict[str, Any]) -> Vector:
        """Resume from a checkpoint; return the faces that assign in the round under way."""
        self._solved = _Solved.of(known, "solved")
        self._history, self._iterations = list(known["rounds"]), known["iterations"]
        if "best held" in known:
            self._best = self._weighed(known["best held"], _Solved.of(known, "best"))
        self._under_way = (log, known) if "iteration" in known else None
        if self._ascents is not None:
            self._ascents.recall(known)
            self._is_recalled = True
        held: Vector = known["held"]
        return held

    # -- the rounds ------------------------------------------------------------------------------

    def run(self, held: Vector, *, hurry: bool = False) -> tuple[Solution, Certificate]:
        """Take rounds from the assignment of the faces `held` (K, m+1).

        hurry: True after an interruption: these faces get a certificate, and no round is taken.
        Returns: the best point ``W`` (K, m+1), certified for the assignment by the faces ``held`` (K, m+1).
        """
        settled = False
        while True:
            before = self._best
            status = self._round(held, hurry=hurry)
            best = self._best
            if status is not None and before is not None:
                break
            assert best is not None
            if status is not None or best.is_fixed:
                break
            least_fall = self._limits.least_fall * abs(best.value)
            if before is not None and not before.value - best.value > least_fall:
                settled = True
                break
            if len(self._history) >= self._limits.rounds:
                status = Status.ITERATION_LIMIT
                break
            held = best.faces
        assert best is not None
        return self._answer(best, status, settled)

    def _answer(self, best: _Point, status: Status | None, settled: bool) -> tuple[Solution, Certificate]:
        short = next((each for each in best.solved.statuses if each is not Status.SOLVED), None)
        fine = Status.SOLVED if len(best.held) == 1 else Status.CONVERGED
        notes = [_SETTLED.format(share=self._limits.least_fall)] if settled and not best.is_fixed else []
        assignment = best.met.residual("stationarity", "assignment", 1.0)
        proof = certify_faces(best.solved.halves, assignment, self._limits.proof, notes)
        # The certificates of the faces must add up to the value of all together.
        if abs(proof.primal_value - best.value) > 2.0 * proof.rounding + 1e-9 * abs(best.value):
            proof = replace(proof, claim=Claim.NONE, note=_TORN)
        found = Solution(
            status=status or short or fine,
            primal={"W": best.faces, "held": best.held},
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

    def _round(self, held: Vector, *, hurry: bool = False) -> Status | None:
        """Take one round and keep its point if it is better; return the status that cut it off, or None."""
        if self._ascents is not None:
            return self._ascend(self._ascents, held, hurry=hurry)
        stopped = Status.INTERRUPTED if hurry else None
        left = range(len(self._solved.faces), len(held))
        self._save(held)
        for face in counted(left, max(len(left), 1), "face"):
            if stopped is not None and self._best is not None:
                break
            status = self._solve(face, held, hurry=stopped is not None)
            stopped = stopped or (status if status in _CUT_OFF else None)
            self._save(held)
        if len(self._solved.faces) == len(held):
            self._keep(self._weighed(held, self._solved))
        self._solved, self._iterations = _Solved([], [], []), 0
        return stopped

    def _keep(self, point: _Point) -> None:
        """Record the end of a round, and keep it if it is better."""
        if self._best is None or point.value < self._best.value:
            self._best = point
        record = {
            "round": float(len(self._history) + 1), "seconds": self._clock.seconds,
            "objective": point.value, "bound": 2.0 * sum(half.dual_value for half in point.solved.halves),
            "reassigned": float(point.met.sums["moved"]), "iterations": float(self._iterations),
        }  # fmt: skip
        self._history.append(record)
        tell(record)

    def _ascend(self, ascents: FaceAscents, held: Vector, *, hurry: bool) -> Status | None:
        """Take a round of all faces at once; return the status that cut it off, or None."""
        limits, status = self._limits, Status.INTERRUPTED
        ascents.assign(held, again=self._is_recalled)
        self._is_recalled = False
        try:
            if not hurry:
                save = None if self._writer is None else lambda known: self._save(held, loop=known)
                status = ascents.run(limits.tol, limits.max_iter, self._clock, save)
        except KeyboardInterrupt:
            status = interrupted()
        stopped = status if status in _CUT_OFF else None
        if stopped is not None and self._best is not None:
            return stopped
        proof = ascents.prove(limits.proof, None if status is Status.SOLVED else held)
        value = float((proof.W**2).sum() + proof.met.sums["inside"] + proof.met.sums["held"])
        self._iterations = ascents.scans
        self._keep(_Point(held, _Solved(list(proof.W), proof.halves, [status]), value, proof.met))
        self._iterations = 0
        return stopped

    def _save(
        self, held: Vector, log: list[Change] | None = None, loop: dict[str, Any] | None = None
    ) -> None:
        if self._writer is not None:
            self._writer.log = [] if log is None else log
            self._writer(self._known(held) | (loop or {}))

    def _solve(self, face: int, held: Vector, *, hurry: bool) -> Status:
        """Solve and certify half of a face's program."""
        recipe, limits, clock = self._recipe, self._limits, self._clock
        if self._best is None and clock.left is not None:  # so that all faces get a point
            clock = Clock(clock.left / (len(held) - face))
        crew = self._executor.crew(FaceRecipe(recipe, held, face))
        problem = state(crew, 1, None, intercept=False)
        known = None
        if self._under_way is not None:
            (crew.log[:], known), self._under_way = self._under_way, None
        how = (limits.tol, 0 if hurry else limits.max_iter, clock, listener())
        save = lambda loop: self._save(held, crew.log, loop)  # noqa: E731
        found = solve_problem(problem, *how, save, known, held[face] if held[face].any() else None)
        if found.status in _NOT_CONVERGED and all(change.name != "begin" for change in crew.log):
            found = solve_problem(problem, *how, save)  # the warm start was no good
        v = np.append(found["w"], found["b"])
        if found.status is not Status.SOLVED:  # the warm start may be better, with the same multipliers
            value = 0.5 * float(held[face] @ held[face]) + float(total(crew.ask("costs_at", held[face], 1.0)))
            v = held[face] if value < found.objective else v
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

    def _weighed(self, held: Vector, solved: _Solved) -> _Point:
        faces = np.array(solved.faces)
        given = (self._recipe, scaled(held, self._scale), scaled(faces, self._scale))
        met = merge(self._executor.each(weigh_faces, [given] * self._executor.count))
        value = float((faces**2).sum() + met.sums["inside"] + met.sums["held"])
        return _Point(held, solved, value, met)


def _plain(half: Certificate) -> dict[str, Any]:
    """Return a face's certificate in plain values."""
    fields = {name: getattr(half, name) for name in ("program", "primal_value", "dual_value", "tol")}
    fields |= {name: getattr(half, name) for name in ("scope", "note", "rounding")}
    return fields | {"claim": half.claim.name, "residuals": [vars(each) for each in half.residuals]}


def _certificate(plain: dict[str, Any]) -> Certificate:
    residuals = tuple(Residual(**each) for each in plain["residuals"])
    return Certificate(**plain | {"claim": Claim[plain["claim"]], "residuals": residuals})
