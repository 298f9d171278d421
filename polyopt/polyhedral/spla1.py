"""SPLA1: cells, then a logistic regression in each, again and again.

A face with an empty cell appears in no subproblem and attains the minimum score for no sample: the loss is
the same without it, and lower by its ridge. So it does not count. It waits, as it may have samples again when
the others have moved; the points of a run are the faces that a step fitted, without those that wait.

The cells that faces were fitted to need not be those that they have then: with a positive in the program of
its cell alone a run may never settle. So a point keeps its cells (``assignment``), and its faces are proven
for them. A random start is not a candidate solution, however low its loss, because it was not fitted to any
cells.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import as_costs, one_of, positive, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector, dense
from formulations.polyhedral import belonging, cells, check_positives, hard_loss
from polyopt.optim.logistic_newton import METHODS, solve_logistic
from polyopt.optim.rounds import DescentProblem, Round, random_faces

Engine = Literal["newton", "bfgs", "program"]


class LogisticCells(DescentProblem):
    """Steps of SPLA1.

    ridge: ρ, positive.
    positives: "cell" puts a positive in the program of its cell, as in the paper; "all" in those of all
        faces, with which no step raises the objective.
    engine: a solver of :mod:`polyopt.optim.logistic_newton`, or the explicit program of
        :mod:`formulations.spla1`.
    inner: iterations of the engine in one step, at most.
    tol: relative gap to which a cell's program is solved.
    max_dense_entries: entries of X up to which sparse samples are made dense: many small products of sparse
        matrices cost several times as much.
    """

    _program: Any = None  # the explicit program, built at its first use

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, *, ridge: float = 1e-3,
        positives: Literal["cell", "all"] = "cell", engine: Engine = "newton", inner: int = 100,
        tol: float = 1e-12, max_dense_entries: int = 1_000_000,
    ):  # fmt: skip
        check_positives(positives)
        one_of("engine", engine, (*METHODS, "program"))
        whole("n_faces", n_faces)
        whole("inner", inner)
        self.X = dense(X) if X.shape[0] * X.shape[1] <= max_dense_entries else X
        self.y, self.n_faces = y, n_faces
        self.c, self.ridge, self.tol = as_costs(c, len(y)), positive("ridge", ridge), tolerance(tol)
        self.positives, self.engine, self.inner = positives, engine, inner

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces around the mean of the positives."""
        return random_faces(self.X, self.y, self.c, self.n_faces, rng)

    def value(self, W: Vector) -> float:
        """Return the penalised loss of the faces with samples in their programs: others change no cell."""
        return self._loss(W[self._members(cells(self.X, W), len(W)).any(axis=0)])

    def _loss(self, W: Vector) -> float:
        return hard_loss(self.X, self.y, W, self.c, self.ridge, self.positives)

    def judge(self, state: Vector) -> None:
        """Return None: a random start is not a candidate solution."""

    def round(self, state: Vector, time_limit: float | None) -> Round[Vector]:
        """Make a step; its point has the faces that it fitted, without those that wait."""
        W, chosen, status = self._fit(state, time_limit)
        own = self._members(chosen, len(W)).any(axis=0)
        kept = W[own]
        primal = {"W": kept, "assignment": (np.cumsum(own) - 1)[chosen]}  # numbered among the faces kept
        point = Solution(status, primal, {}, self._loss(kept), None, f"spla1, {self.engine}")
        return Round(point, W, self.record(W))

    def _members(self, chosen: NDArray[np.int64], n_faces: int) -> NDArray[np.bool_]:
        """Mark the samples (n, K) in the program of each face, for these cells."""
        return belonging(self.y, chosen, n_faces, self.positives) > 0

    def record(self, W: Vector) -> dict[str, float]:
        """Count the faces with samples in their cells."""
        return {"occupied": float(len(np.unique(cells(self.X, W))))}

    def step(self, W: Vector, time_limit: float | None) -> Solution:
        """Fit each face in its cell, ``assignment`` (n,); a face whose cell is empty stays as it is."""
        W, chosen, status = self._fit(W, time_limit)
        primal = {"W": W, "assignment": chosen}
        return Solution(status, primal, {}, self.value(W), None, f"spla1, {self.engine}")

    def _fit(self, W: Vector, time_limit: float | None) -> tuple[Vector, NDArray[np.int64], Status]:
        """Return the faces after a step, the cells that they were fitted to, and the status."""
        clock, chosen, W, status = Clock(time_limit), cells(self.X, W), W.copy(), Status.SOLVED
        members = self._members(chosen, len(W))
        for k in np.flatnonzero(members.any(axis=0)):
            W[k], ended = self._solve_cell(members[:, k], W[k], clock)
            # Iterations within a step are part of the method, not a limit of the run.
            status = ended if ended is Status.TIME_LIMIT else status
        return W, chosen, status

    def _solve_cell(self, mine: NDArray[np.bool_], w: Vector, clock: Clock) -> tuple[Vector, Status]:
        if self.engine == "program":
            return self._solve_program(mine, clock)
        found = solve_logistic(
            self.X[mine], self.y[mine], self.c[mine], w,
            ridge=self.ridge, method=self.engine, max_iter=self.inner, tol=self.tol, time_limit=clock.left,
        )  # fmt: skip
        return found["w"], found.status

    def _solve_program(self, mine: NDArray[np.bool_], clock: Clock) -> tuple[Vector, Status]:
        from formulations.spla1 import cell

        if self._program is None:
            self._program = cell(self.X, self.y, self.c, self.ridge)
        found = self._program.set(C=self.c * mine).solve(time_limit=clock.left)
        if not found.primal:
            raise RuntimeError(
                "no solver left a point for a cell of SPLA1: scale the features to unit variance, raise "
                "ridge, or choose solver='newton'"
            )
        return found["w"], found.status
