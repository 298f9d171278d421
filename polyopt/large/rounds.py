"""Rounds of a Convex Polytope Machine on blocks: assign the positives, solve each face exactly, assign again.

In a round the assignment is frozen: it is that of the faces before it. The program of each face is then one
of the interior point, over the blocks; its certificate is made while its multipliers are with them. Where
there are many features, all faces are climbed together (:mod:`polyopt.large.face_ascent`). Positives
move where they pay no more, so no round ends above the one before it, but for what the gaps leave.

What a block of samples has to do with the faces of a Convex Polytope Machine.

An assignment is not stored: it is given by some faces, each positive being on the one with its highest
score. Whoever needs it makes it anew from these, by the same products of the same rows, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.families import Families, margin_family
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import counted, listener, tell
from polyopt.certificates.certificate import Certificate, Claim, Residual
from polyopt.certificates.tally import Tally, together
from polyopt.cpm.certificate_by_blocks import certify_faces
from polyopt.large import checkpoint as files
from polyopt.large.parts import ROWS_AT_ONCE, Costed, Hinge, SomeRows, costed, rows_of
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.block import Block
from polyopt.margin.interior_point.crew import total
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state
from polyopt.margin.interior_point.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix
    from polyopt.large.checkpoint import Saver
    from polyopt.large.face_ascent import FaceAscents
    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples
    from polyopt.margin.interior_point.block import Work
    from polyopt.margin.interior_point.crew import Change, Crew

    Vector = NDArray[np.float64]

__all__ = [
    "GAIN",
    "FaceRecipe",
    "FacesBlock",
    "FacesRecipe",
    "Limits",
    "Rounds",
    "Sizes",
    "about_faces",
    "scaled",
    "sizes_of",
]

GAIN = 1e-7
"""A hinge must fall by more than this for a positive to change its face."""


class Sizes(NamedTuple):
    """How many samples are inside and outside, what they cost, the sums of features, the largest entry."""

    inside: int
    outside: int
    costs: float
    features: Vector
    largest: float


def sizes_of(crew: Crew) -> Sizes:
    """The sizes of all blocks together."""
    found: list[Sizes] = crew.ask("facts")
    return Sizes(
        sum(each.inside for each in found),
        sum(each.outside for each in found),
        float(total([each.costs for each in found])),
        total([each.features for each in found]),
        max(each.largest for each in found),
    )


def about_faces(
    crew: Crew, recipe: FacesRecipe, sizes: Sizes, n_faces: int, solver: str, scale: float
) -> dict[str, Any]:
    """What a checkpoint of faces must be of, to be gone on from."""
    met = together(crew.ask("weigh", None, files.probe(1, len(sizes.features) + 1)))
    paid = float(met.sums["inside"]) - 2.0 * float(met.sums["best"])
    known = sizes.features.tobytes() + sizes.costs.hex().encode() + paid.hex().encode()
    return {
        "machine": "the Convex Polytope Machine",
        "faces": n_faces,
        "samples": sizes.inside + sizes.outside,
        "outside": sizes.outside,
        "features": len(sizes.features),
        "blocks": crew.count,
        "C": recipe.C,
        "solver": solver,
        "scale": float(scale),
        "digest": sha256(known).hexdigest()[:16],
    }


def scaled(faces: Vector, scale: float) -> Vector:
    """Faces (K, m+1) for samples as they stand, of which every entry counts `scale` times."""
    return faces if scale == 1.0 else np.column_stack([scale * faces[:, :-1], faces[:, -1]])


class _Held:
    """The samples of a block, while they are in memory."""

    def __init__(self, X: Any):
        self.X = X


class FacesBlock:
    """Some of the samples, asked about faces V (K, m+1), the bias of each last.

    found: which of the samples that were read X (n, m) has, and who is outside.
    C: the cost of slack of a weight of 1.
    """

    done = 0
    answer: object = None

    def __init__(self, X: Matrix | SomeRows, found: Costed, C: float):
        self.samples, self._up = _Held(X), found.up
        self.chosen = None if found.chosen.all() else found.chosen
        costs = C * found.counts
        alike = bool((costs == costs[0]).all())
        self._costs = np.broadcast_to(costs[:1].copy(), costs.shape) if alike else costs

    def facts(self) -> Sizes:
        """How many samples there are, and what they cost."""
        outside = int(self._up.sum())
        features, largest = np.zeros(self.samples.X.shape[1]), 0.0
        for part in _parts(len(self._up)):
            X = self.samples.X[part]
            features += np.asarray(X.sum(axis=0, dtype=float)).ravel()
            entries = X.data if hasattr(X, "tocsr") else X
            largest = max(largest, float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
        return Sizes(len(self._up) - outside, outside, float(self._costs.sum()), features, largest)

    def weigh(self, held: Vector | None, faces: Vector) -> Tally:
        """What the samples pay at some faces.

        held (K, m+1): the faces that assign the positives; None if each is where it pays least.
        Returns: costs of the samples ``inside``, of those outside as they are ``held`` and at ``best``, of
            those outside whose hinge would fall by another face (``moved``), and of those outside that each
            face is best for (``counts``); and the largest fall of a hinge.
        """
        found = Tally()
        for part in _parts(len(self._up)):
            found.follow(self._weighed(part, held, faces))
        return found

    def _weighed(self, part: slice, held: Vector | None, faces: Vector) -> Tally:
        X, up, costs = self.samples.X[part], self._up[part], self._costs[part]
        scores = _scores(X, faces)
        best = scores.argmax(axis=1)
        least = np.maximum(1.0 - scores.max(axis=1), 0.0)
        own = least
        if held is not None:
            place = _scores(X, held).argmax(axis=1)
            own = np.maximum(1.0 - np.take_along_axis(scores, place[:, None], axis=1)[:, 0], 0.0)
        gain = np.where(up, own - least, 0.0)
        inside = np.maximum(1.0 + scores[~up], 0.0).sum(axis=1)
        sums = {
            "inside": float(costs[~up] @ inside),
            "held": float(costs[up] @ own[up]),
            "best": float(costs[up] @ least[up]),
            "moved": float(costs[gain > GAIN].sum()),
            "counts": np.bincount(best[up], costs[up], len(faces)),
        }
        found = Tally(len(up), sums)
        found.note("stationarity", "assignment", gain)
        return found


class FacesRecipe(NamedTuple):
    """The classes inside and outside, their weights, and the cost of slack."""

    classes: tuple[Any, Any]
    factors: tuple[float, float]
    C: float

    def block(self, samples: Samples, number: int, work: Work | None = None) -> FacesBlock | None:
        """The block of both classes; None where it has no such samples."""
        found = costed(samples, self.classes, self.factors)
        if found is None:
            return None
        return FacesBlock(rows_of(samples, found.chosen), found, self.C)


class FaceRecipe(NamedTuple):
    """The program of one face: as of :class:`FacesRecipe`; the faces that assign, and which of them it is.

    It is half of a face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i, over the samples inside and those outside that are
    assigned to the face.
    """

    classes: tuple[Any, Any]
    factors: tuple[float, float]
    C: float
    faces: Vector
    face: int

    def block(self, samples: Samples, number: int, work: Work | None = None) -> Block | None:
        """The block of the face; None where it has no such samples."""
        found = costed(samples, self.classes, self.factors)
        if found is None:
            return None
        X, mine = rows_of(samples, found.chosen), ~found.up
        for part in _parts(len(mine)):
            mine[part] |= _scores(X[part], self.faces).argmax(axis=1) == self.face
        if not mine.any():
            return None
        signs = np.where(found.up[mine], 1, -1).astype(np.int8)
        hinge = Hinge(signs, 0.5 * self.C * found.counts[mine])
        chosen = found.chosen.copy()
        chosen[found.chosen] = mine
        block = Block(Rows(rows_of(samples, chosen)), hinge, 1, work=work)
        block.intercept, block.chosen = False, None if chosen.all() else chosen
        return block


def _parts(n: int) -> Iterator[slice]:
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, n, ROWS_AT_ONCE))


def _scores(X: Any, faces: Vector) -> Vector:
    """Scores (n, K) in double precision."""
    rows = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    return np.asarray(rows @ faces[:, :-1].T) + faces[:, -1]


_STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED)
_SHORT = (Status.INACCURATE, Status.STALLED)
_TORN = (
    "The faces' programs were not of one assignment, as where processors of several kinds round differently: "
    "nothing is proven of them together."
)
_SETTLED = (
    "Alternation ended with a round that lowered the objective by no more than {share:g} of it; some "
    "positives would pay less by another face."
)


class Limits(NamedTuple):
    """When faces and rounds end: gap and iterations of a face, rounds, least fall, tolerance of a proof."""

    tol: float
    max_iter: int | None
    rounds: int
    fall: float
    proof: float


@dataclass(frozen=True)
class _Point:
    """The end of a round: what assigned, the faces, the value, halves of the faces' proofs, what it costs."""

    held: Vector
    faces: Vector
    value: float
    halves: list[Certificate]
    statuses: list[Status]
    met: Tally

    @property
    def is_fixed(self) -> bool:
        """Whether no positive would pay less by another face."""
        return bool(self.met.worst["stationarity", "assignment"][0] <= GAIN)


class Rounds:
    """The rounds.

    crew: blocks of the recipe.
    ascents: what solves all faces of a round; by default the interior point, one after another.
    scale: what every entry of the samples counts times; 1 for the interior point.
    """

    def __init__(
        self, hands: Hands, recipe: FacesRecipe, crew: Crew, limits: Limits, clock: Clock,
        saver: Saver | None, ascents: FaceAscents | None = None, scale: float = 1.0,
    ):  # fmt: skip
        self._ascents, self._scale, self._is_recalled = ascents, scale, False
        self._hands, self._recipe, self._crew = hands, recipe, crew
        self._limits, self._clock, self._saver = limits, clock, saver
        self._history: list[dict[str, float]] = []
        self._iterations = 0
        self._best: _Point | None = None
        self._solved: list[Vector] = []
        self._halves: list[Certificate] = []
        self._statuses: list[Status] = []
        self._under_way: tuple[list[Change], dict[str, Any]] | None = None

    # -- checkpoints -----------------------------------------------------------------------------

    def _known(self, held: Vector) -> dict[str, Any]:
        best = self._best
        return {
            "held": held,
            "solved": np.array(self._solved).reshape(len(self._solved), held.shape[1]),
            "halves": [_plain(half) for half in self._halves],
            "statuses": [status.name for status in self._statuses],
            "rounds": self._history,
            "iterations": self._iterations,
            "best_held": np.zeros(0) if best is None else best.held,
            "best_faces": np.zeros(0) if best is None else best.faces,
            "best_halves": [] if best is None else [_plain(half) for half in best.halves],
            "best_statuses": [] if best is None else [status.name for status in best.statuses],
        }

    def recall(self, log: list[Change], known: dict[str, Any]) -> Vector:
        """Go on from a checkpoint; the faces that assign in the round that is under way."""
        self._solved, self._halves = list(known["solved"]), [_certificate(half) for half in known["halves"]]
        self._statuses = [Status.of_name(name) for name in known["statuses"]]
        self._history, self._iterations = list(known["rounds"]), known["iterations"]
        if known["best_halves"]:
            halves = [_certificate(half) for half in known["best_halves"]]
            statuses = [Status.of_name(name) for name in known["best_statuses"]]
            self._best = self._weighed(known["best_held"], known["best_faces"], halves, statuses)
        self._under_way = (log, known) if "iteration" in known else None
        if self._ascents is not None:
            self._ascents.recall(known)
            self._is_recalled = True
        held: Vector = known["held"]
        return held

    # -- the rounds ------------------------------------------------------------------------------

    def run(self, held: Vector, *, hurry: bool = False) -> tuple[Solution, Certificate]:
        """All rounds.

        held (K, m+1): the faces that assign in the first.
        hurry: whether somebody has interrupted already: these faces get a proof, and that is all.
        Returns: the best point: ``W`` (K, m+1), and ``held`` (K, m+1), whose assignment it is certified for.
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
            if before is not None and not before.value - best.value > self._limits.fall * abs(best.value):
                settled = True
                break
            if len(self._history) >= self._limits.rounds:
                status = Status.ITERATION_LIMIT
                break
            held = best.faces
        assert best is not None
        return self._answer(best, status, settled)

    def _answer(self, best: _Point, status: Status | None, settled: bool) -> tuple[Solution, Certificate]:
        short = next((each for each in best.statuses if each is not Status.SOLVED), None)
        fine = Status.SOLVED if len(best.faces) == 1 else Status.CONVERGED
        notes = [_SETTLED.format(share=self._limits.fall)] if settled and not best.is_fixed else []
        assignment = best.met.residual("stationarity", "assignment", 1.0)
        proof = certify_faces(best.halves, assignment, self._limits.proof, notes)
        # The proofs of the faces are to add up to the value of all together.
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
        """One round, whose point is kept where it is better; what ended it before its end, or None."""
        if self._ascents is not None:
            return self._ascend(self._ascents, held, hurry=hurry)
        stopped = Status.INTERRUPTED if hurry else None
        left = range(len(self._solved), len(held))
        self._save(held)
        for face in counted(left, max(len(left), 1), "face"):
            if stopped is not None and self._best is not None:
                break
            status = self._solve(face, held, hurry=stopped is not None)
            stopped = stopped or (status if status in _STOPPED else None)
            self._save(held)
        if len(self._solved) == len(held):
            self._keep(self._weighed(held, np.array(self._solved), self._halves, self._statuses))
        self._solved, self._halves, self._statuses, self._iterations = [], [], [], 0
        return stopped

    def _keep(self, point: _Point) -> None:
        """Note the end of a round, and keep it where it is better."""
        if self._best is None or point.value < self._best.value:
            self._best = point
        record = {
            "round": float(len(self._history) + 1), "seconds": self._clock.seconds,
            "objective": point.value, "bound": 2.0 * sum(half.dual_value for half in point.halves),
            "reassigned": float(point.met.sums["moved"]), "iterations": float(self._iterations),
        }  # fmt: skip
        self._history.append(record)
        tell(record)

    def _ascend(self, ascents: FaceAscents, held: Vector, *, hurry: bool) -> Status | None:
        """A round of all faces at once; what ended it before its end, or None."""
        limits, status = self._limits, Status.INTERRUPTED
        ascents.assign(held, again=self._is_recalled)
        self._is_recalled = False
        try:
            if not hurry:
                save = lambda known: self._save(held, loop=known)  # noqa: E731
                status = ascents.run(
                    limits.tol, limits.max_iter, self._clock, None if self._saver is None else save
                )
        except KeyboardInterrupt:
            status = interrupted()
        stopped = status if status in _STOPPED else None
        if stopped is not None and self._best is not None:
            return stopped
        proof = ascents.prove(limits.proof, None if status is Status.SOLVED else held)
        value = float((proof.W**2).sum() + proof.met.sums["inside"] + proof.met.sums["held"])
        self._iterations = ascents.scans
        self._keep(_Point(held, proof.W, value, proof.halves, [status], proof.met))
        self._iterations = 0
        return stopped

    def _save(
        self, held: Vector, log: list[Change] | None = None, loop: dict[str, Any] | None = None
    ) -> None:
        if self._saver is not None:
            self._saver.log = [] if log is None else log
            self._saver(self._known(held) | (loop or {}))

    def _solve(self, face: int, held: Vector, *, hurry: bool) -> Status:
        """Solve and certify half of a face's program."""
        recipe, limits, clock = self._recipe, self._limits, self._clock
        if self._best is None and clock.left is not None:  # all faces are to have a point
            clock = Clock(clock.left / (len(held) - face))
        crew = self._hands.crew(FaceRecipe(*recipe, held, face))
        problem = state(crew, 1, None, intercept=False)
        known = None
        if self._under_way is not None:
            (crew.log[:], known), self._under_way = self._under_way, None
        how = (limits.tol, 0 if hurry else limits.max_iter, clock, listener())
        save = lambda loop: self._save(held, crew.log, loop)  # noqa: E731
        found = solve_problem(problem, *how, save, known, held[face] if held[face].any() else None)
        if found.status in _SHORT and all(change.name != "begin" for change in crew.log):
            found = solve_problem(problem, *how, save)  # the point before it was no good to begin at
        v = np.append(found["w"], found["b"])
        if found.status is not Status.SOLVED:  # what it began from may be better, with the same multipliers
            value = 0.5 * float(held[face] @ held[face]) + float(total(crew.ask("costs_at", held[face], 1.0)))
            v = held[face] if value < found.objective else v
        half = certify_blocks(
            "half a face",
            lambda *step: crew.ask("prove", *step),
            Families(margin_family(np.array([1.0, -1.0]), np.full(2, 0.5 * recipe.C))),
            v=v,
            b=0.0,
            centre=None,
            intercept=False,
            tol=limits.proof,
        )
        crew.close()
        self._solved.append(v)
        self._halves.append(half)
        self._statuses.append(found.status)
        self._iterations += found.iterations
        return found.status

    def _weighed(
        self, held: Vector, faces: Vector, halves: list[Certificate], statuses: list[Status]
    ) -> _Point:
        met = together(self._crew.ask("weigh", scaled(held, self._scale), scaled(faces, self._scale)))
        value = float((faces**2).sum() + met.sums["inside"] + met.sums["held"])
        return _Point(held, faces, value, list(halves), list(statuses), met)


def _plain(half: Certificate) -> dict[str, Any]:
    """A face's proof in plain values."""
    fields = {name: getattr(half, name) for name in ("program", "primal_value", "dual_value", "tol")}
    fields |= {name: getattr(half, name) for name in ("scope", "note", "rounding")}
    return fields | {"claim": half.claim.name, "residuals": [vars(each) for each in half.residuals]}


def _certificate(plain: dict[str, Any]) -> Certificate:
    residuals = tuple(Residual(**each) for each in plain["residuals"])
    return Certificate(**plain | {"claim": Claim[plain["claim"]], "residuals": residuals})
