"""Alternating minimisation for a union of polytopes by the explicit programs, from a point that is given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Solution, Status
from formulations.union import best_faces, per_piece
from polyopt.outer.cpm.problem import PolytopeProblem
from polyopt.outer.rounds import Round, run_rounds
from polyopt.outer.starts import generators_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.cpm.union import UnionEngine, UnionPoint

    Integers = NDArray[np.int64]
    State = tuple[Integers, Integers]

__all__ = ["solve_exactly"]

_GAIN = 1e-7  # a hinge must fall by more than this for a sample to move


def solve_exactly(
    engine: UnionEngine, point: UnionPoint, max_iter: int, time_limit: float | None
) -> tuple[UnionPoint, Status, tuple[dict[str, float], ...]]:
    """Go on from a point by exact programs: the point at the end, how it ended, and a record for each round.

    Parameters
    ----------
    engine : UnionEngine
        The problem.
    point : UnionPoint
        Its assignments are where to begin.
    max_iter : int
        Rounds at most.
    time_limit : float, optional
        Seconds; the first round is made in any case, as far as the time goes.
    """
    problem = _ExactUnion(engine, point.pieces)
    found = run_rounds(problem, (point.inside, point.outside), max_iter=max_iter, time_limit=time_limit)
    if not found.objective <= point.objective * (1.0 + 1e-6):
        return point, found.status, found.history
    W, alpha = found["W"], found.duals["margin"]
    feasible = np.clip(alpha, 0.0, engine.costs(point.pieces, found["inside"], found["outside"]))
    faces = np.stack([engine.pull(np.ascontiguousarray(column)) for column in feasible.T])
    bound = float(feasible.sum() - (faces**2).sum())
    exact = replace(
        point, inside=found["inside"], outside=found["outside"], W=W, alpha=alpha, outputs=engine.scores(W),
        objective=found.objective, bound=bound, is_fixed=found.status is Status.CONVERGED,
    )  # fmt: skip
    return exact, found.status, found.history


class _ExactUnion:
    """A problem of rounds, whose state is the piece of each negative and the faces of each positive."""

    unit = "round"

    def __init__(self, engine: UnionEngine, pieces: Integers):
        self._engine, self._pieces = engine, pieces
        self._faces = PolytopeProblem(engine.X, engine.y, engine.C, 1)

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness, of which none is needed."""
        return generators_of(seed, count)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> State:
        """None of its own: it begins where the dual ascent ends."""
        raise NotImplementedError

    def judge(self, state: State) -> None:
        """None: assignments have no point until their programs are solved."""
        return

    def round(self, state: State, time_limit: float | None) -> Round[State]:
        """The optimum of every face for the assignments, and the next assignments."""
        from polyopt.solvers.clock import Clock

        engine, clock = self._engine, Clock(time_limit)
        costs = engine.costs(self._pieces, *state)
        parts = [self._faces.solve_face((column > 0.0).astype(float), clock.left) for column in costs.T]
        W = np.stack([part["w"] for part in parts])
        outputs = engine.scores(W)
        hinge = engine.hinges(outputs)
        statuses = [part.status for part in parts if part.status is not Status.SOLVED]
        following, moved = self._reassigned(hinge, outputs, state)
        solution = Solution(
            status=statuses[0] if statuses else Status.SOLVED,
            primal={"W": W, "inside": state[0], "outside": state[1]},
            duals={"margin": np.stack([part.duals["margin"] for part in parts], axis=1)},
            objective=float((W**2).sum() + (costs * hinge).sum()),
            bound=None,
            solver=f"alternating, {parts[0].solver}",
        )
        return Round(solution, following, {"reassigned": float(moved)}, is_fixed=moved == 0)

    def _reassigned(
        self, hinge: NDArray[np.float64], outputs: NDArray[np.float64], state: State
    ) -> tuple[State, int]:
        """Each sample at its best piece or faces, where its hinge falls by that."""
        engine, pieces = self._engine, self._pieces
        inside, outside = state[0].copy(), state[1].copy()
        paid = per_piece(hinge[engine.within], pieces, np.add)
        own = np.take_along_axis(paid, inside[engine.within][:, None], axis=1)[:, 0]
        inside[engine.within] = np.where(
            own > paid.min(axis=1) + _GAIN, paid.argmin(axis=1), inside[engine.within]
        )
        best, mine = best_faces(outputs[engine.beyond], pieces), outside[engine.beyond]
        hinges = hinge[engine.beyond]
        falls = np.take_along_axis(hinges, mine, axis=1) > np.take_along_axis(hinges, best, axis=1) + _GAIN
        outside[engine.beyond] = np.where(falls, best, mine)
        moved = int((inside != state[0]).sum() + (outside != state[1]).sum())
        return (inside, outside), moved
