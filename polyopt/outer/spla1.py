"""SPLA1 as a problem of descent: cells, then a logistic regression in each.

A face whose cell is empty is in nobody's program, and has the least score of no sample: the loss is the same
without it, and lower by its ridge. So it does not count. It waits, as it may have samples again when the
others have moved; the points of a run are the faces that a step fitted, without those that wait.

The cells that faces were fitted to need not be those that they have then: with a positive in the program of
its cell alone a run may never settle. So a point says which they were (``assignment``), and its faces are
proven for them. Random faces were fitted to none, and are no point, however low their loss is.

With a price on the weights (:mod:`formulations.spla1_sparse`) a step solves all faces together, as groups of
features couple them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from formulations.arguments import as_costs, one_of, positive, tolerance, whole
from formulations.matrices import dense
from formulations.polyhedral import belonging, cells, check_positives, hard_loss, pull
from formulations.solution import Solution, Status
from polyopt.outer.descent import DescentProblem
from polyopt.outer.random_faces import random_faces
from polyopt.outer.rounds import Round
from polyopt.solvers.clock import Clock
from polyopt.solvers.logistic import METHODS, Regressions, solve_logistic
from polyopt.solvers.priced_newton import minimise_priced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix, Vector
    from formulations.polyhedral import Positives
    from formulations.program import Program

    Engine = Literal["newton", "bfgs", "program"]

__all__ = ["LogisticCells"]

_SMALL = 1_000_000  # entries up to which sparse samples are made dense


class LogisticCells(DescentProblem):
    """Steps of SPLA1.

    Parameters
    ----------
    X, y, c, n_faces
        As in :func:`~polyopt.outer.random_faces.random_faces`; the weights are positive.
    ridge : float
        ρ, positive.
    positives : {"cell", "all"}
        Whether a positive is in the program of its cell, as in the paper, or in those of all faces, with
        which no step raises the objective.
    engine : {"newton", "bfgs", "program"}
        How a cell's program is solved: by the solvers of :mod:`polyopt.solvers.logistic`, or as the
        explicit program of :mod:`formulations.spla1`.
    inner : int
        Iterations of the engine in one step, at most.
    tol : float
        Relative gap to which a cell's program is solved.
    penalty : FacePenalty, optional
        The price of the weights, and their signs; the engine is then "newton" or "program".
    """

    _program: Program | None = None

    def __init__(
        self,
        X: Matrix,
        y: Vector,
        c: Vector,
        n_faces: int,
        *,
        ridge: float = 1e-3,
        positives: Positives = "cell",
        engine: Engine = "newton",
        inner: int = 100,
        tol: float = 1e-12,
        penalty: FacePenalty | None = None,
    ):
        check_positives(positives)
        one_of("engine", engine, (*METHODS, "program"))
        whole("n_faces", n_faces)
        whole("inner", inner)
        # Many small products are made; those of small sparse matrices cost many times the dense ones.
        small = X.shape[0] * X.shape[1] <= _SMALL
        self.X, self.y, self.n_faces = dense(X) if small else X, y, n_faces
        self.c, self.ridge, self.tol = as_costs(c, len(y)), positive("ridge", ridge), tolerance(tol)
        self.positives, self.engine, self.inner = positives, engine, inner
        self.penalty = penalty
        if penalty is not None:
            one_of("engine", engine, ("newton", "program"))

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Random faces around the mean of the positives."""
        W = random_faces(self.X, self.y, self.c, self.n_faces, rng)
        return W if self.penalty is None else self.penalty.allowed(W)

    def value(self, W: Vector) -> float:
        """SPLA1's penalised loss, of the faces that have samples in their programs."""
        return self._loss(self.without_empty(W))

    def _loss(self, W: Vector) -> float:
        price = 0.0 if self.penalty is None else self.penalty.value(W)
        return hard_loss(self.X, self.y, W, self.c, self.ridge, self.positives) + price

    def without_empty(self, W: Vector) -> Vector:
        """The faces that have samples in their programs; the others change no sample's cell."""
        return W[self._members(W).any(axis=0)]

    def judge(self, state: Vector) -> None:
        """None: random faces were fitted to no cells."""

    def round(self, state: Vector, time_limit: float | None) -> Round[Vector]:
        """A step; its point are the faces that it fitted, without those that wait."""
        primal, status, solver = self._fit(state, time_limit)
        kept = self.fitted(primal)
        point = Solution(status, kept, {}, self._loss(kept["W"]), None, solver)
        return Round(point, primal["W"], self.record(primal["W"]))

    def fitted(self, point: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The faces of a point that samples were fitted by, and the cells by their numbers among these.

        Parameters
        ----------
        point : mapping
            ``W`` (K, m+1) and the cells ``assignment`` (n,) that it was fitted to.
        """
        W, chosen = point["W"], point["assignment"]
        own = self._in_programs(chosen, len(W)).any(axis=0)
        return {"W": W[own], "assignment": (np.cumsum(own) - 1)[chosen]}

    def _members(self, W: Vector) -> NDArray[np.bool_]:
        return self._in_programs(cells(self.X, W), len(W))

    def _in_programs(self, chosen: NDArray[np.int64], n_faces: int) -> NDArray[np.bool_]:
        return belonging(self.y, chosen, n_faces, self.positives) > 0

    def record(self, W: Vector) -> dict[str, float]:
        """The number of faces with samples in their cells."""
        return {"occupied": float(len(np.unique(cells(self.X, W))))}

    def step(self, W: Vector, time_limit: float | None) -> Solution:
        """Each face's logistic regression in its cell; a face whose cell is empty stays as it is.

        ``assignment`` are the cells (n,) that the faces were fitted to.
        """
        primal, status, solver = self._fit(W, time_limit)
        return Solution(status, primal, {}, self.value(primal["W"]), None, solver)

    def _fit(self, W: Vector, time_limit: float | None) -> tuple[dict[str, NDArray[Any]], Status, str]:
        """The point of a step, how it ended, and who made it."""
        clock, chosen = Clock(time_limit), cells(self.X, W)
        members = self._in_programs(chosen, len(W))
        if self.penalty is None:
            W, status, how = *self._solve_cells(W, members, clock), ""
        else:
            W, status = self._solve_together(self.penalty, W, members, clock)
            how = ", with a price"
        return {"W": W, "assignment": chosen}, status, f"spla1, {self.engine}{how}"

    def _solve_cells(self, W: Vector, members: NDArray[np.bool_], clock: Clock) -> tuple[Vector, Status]:
        """Each face with samples in its program by itself."""
        W, status = W.copy(), Status.SOLVED
        for k in np.flatnonzero(members.any(axis=0)):
            W[k], ended = self._solve_cell(members[:, k], W[k], clock)
            # The iterations within a step are part of the method, and no limit of the run.
            status = ended if ended is Status.TIME_LIMIT else status
        return W, status

    def _solve_together(
        self, penalty: FacePenalty, W: Vector, members: NDArray[np.bool_], clock: Clock
    ) -> tuple[Vector, Status]:
        """All faces with samples in their programs, at their price; the others stay as they are."""
        used, W = np.flatnonzero(members.any(axis=0)), W.copy()
        weights = self.c[:, None] * members[:, used]
        if self.engine == "program":
            W[used], ended = self._solve_priced_program(penalty, members[:, used], clock)
        else:
            found = minimise_priced(
                Regressions(self.X, self.y, weights, self.ridge), penalty, W[used],
                ridge=self.ridge, max_iter=self.inner, tol=self.tol, time_limit=clock.left,
            )  # fmt: skip
            if found.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            W[used], ended = found["W"], found.status
        return W, ended if ended is Status.TIME_LIMIT else Status.SOLVED

    def _solve_priced_program(
        self, penalty: FacePenalty, members: NDArray[np.bool_], clock: Clock
    ) -> tuple[Vector, Status]:
        from formulations.spla1_sparse import fixed_cells

        n, K = members.shape
        program = fixed_cells(self.X, self.y, K, np.zeros(n, dtype=int), self.c, self.ridge, penalty=penalty)
        found = self._answered(program.set(Z=members.astype(float)), clock)
        # An interior point comes near to zeros; the multipliers say which weights they are.
        pulls = pull(self.X, found.duals["margin"] * self.y[:, None])
        return penalty.shrunk(pulls) / self.ridge, found.status

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
        found = self._answered(self._program.set(C=self.c * mine), clock)
        return found["w"], found.status

    @staticmethod
    def _answered(program: Program, clock: Clock) -> Solution:
        found = program.solve(time_limit=clock.left)
        if not found.primal:
            raise RuntimeError(
                "no solver left a point for a cell of SPLA1: scale the features to unit variance, raise "
                "ridge, or choose solver='newton'"
            )
        return found
