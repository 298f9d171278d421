"""PC-SLP, polyhedral separation by successive linear programs: the solver and the estimator.

The separation error of the faces, rows of W (K, m+1), is the mean over the positives of their largest
violation of a margin of 1, plus the mean over the negatives of their smallest one. For a fixed assignment of
each negative to a face it is majorised by the linear program :func:`formulations.pc_slp.step`, in all faces
together. A step assigns every negative to the face with the least score and solves that program
(:mod:`polyopt.polyhedral.faces_by_programs`).

The dual program stays in HiGHS: a new assignment changes upper bounds of its columns only, and the dual
simplex method continues from the last basis.
"""

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import StrOptions

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, Matrix
from formulations.polyhedral import class_shares, separation_error
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.frames import hinge_columns
from polyopt.estimators.parameters import estimator, shared
from polyopt.optim.rounds import Stage
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.faces_by_programs import (
    Assignment,
    FacesByPrograms,
    Vector,
    box_columns,
    worst_status,
)


class SuccessiveLP(FacesByPrograms):
    """Steps of PC-SLP.

    The objective is :func:`formulations.polyhedral.separation_error`. The multipliers of a step are
    ``inside`` (n, K), 0 at negatives, and ``outside`` (n,), 0 at positives.
    """

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, radius: float = 1e4, engine: str = "highs"
    ):
        if not ((y > 0).any() and (y < 0).any()):
            raise ValueError("y must hold both classes, -1 and +1: the error is a mean over each")
        super().__init__(X, y, c, n_faces, radius, engine)
        self._class_weights = class_shares(y, c)  # (n,), each cost over the sum of its class
        self._unit = self._class_weights.max()  # scales the program: HiGHS's tolerances are absolute

    def value(self, W: Vector) -> float:
        """Return the separation error."""
        return separation_error(self.X, self.y, W, self.c)

    def _solve(
        self, W: Vector, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, dict[str, Vector], int]:
        solve = self._solve_dual if self.engine == "highs" else self._solve_program
        status, faces, u, q, iterations = solve(assignment, clock)
        status = worst_status(status)
        duals = {"inside": np.zeros((len(self.y), self.n_faces)), "outside": np.zeros(len(self.y))}
        if not np.isfinite(faces).all():
            return status, W, duals, iterations
        duals["inside"][self.y > 0] = u
        duals["outside"][self.y < 0] = q
        return status, faces, duals, iterations

    def _build(self) -> PersistentLP:
        """Build the dual program.

        Columns: u (K, positives), q (K, negatives), s⁺ and s⁻, all ordered face by face.
        Rows: the balance of each entry of W, face by face; Σ_k u_ik ≤ a_i, the class weight of positive i.
        """
        K, inside = self.n_faces, self.y > 0
        caps = self._class_weights[inside] / self._unit
        lifted = lift(self.X) * self._units
        each_face = sp.eye_array(K)
        u_columns = sp.kron(each_face, sp.csc_array(lifted[inside].T))
        q_columns = sp.kron(each_face, sp.csc_array(-lifted[~inside].T))
        box_costs, box = box_columns(np.tile(self._units, K), self.radius)
        balance = sp.hstack([u_columns, q_columns, box])
        sums_of_u = sp.hstack([sp.eye_array(len(caps))] * K)
        zero_block = sp.csc_array((len(caps), balance.shape[1] - sums_of_u.shape[1]))
        rows = sp.vstack([balance, sp.hstack([sums_of_u, zero_block])])
        costs = np.append(np.full(K * len(self.y), -1.0), box_costs)
        zeros = np.zeros(balance.shape[0])
        row_lower = np.append(zeros, np.full(len(caps), -np.inf))
        row_upper = np.append(zeros, caps)
        return PersistentLP(costs, rows, row_lower, row_upper, 0.0, np.inf)

    def _solve_dual(self, assignment: Assignment, clock: Clock) -> tuple[Status, Vector, Vector, Vector, int]:
        """Solve the dual program in HiGHS; return status, W, u (positives, K), q (negatives,), iterations."""
        if not self._models:
            self._models = [self._build()]
        [model] = self._models
        K, inside = self.n_faces, self.y > 0
        n_positives, n_negatives = int(inside.sum()), int((~inside).sum())
        u_columns = slice(K * n_positives)
        q_columns = slice(K * n_positives, K * len(self.y))
        caps = self._class_weights / self._unit
        is_assigned = assignment[~inside] == np.arange(K)[:, None]
        upper = np.full(model.shape[1], np.inf)
        upper[u_columns] = np.tile(caps[inside], K)
        upper[q_columns] = (is_assigned * caps[~inside]).ravel()
        result = model.solve(upper=upper, time_limit=clock.left)
        faces = result.duals[: model.shape[0] - n_positives].reshape(K, -1) * self._units
        x = np.clip(result.x, 0.0, upper) * self._unit
        u = x[u_columns].reshape(K, n_positives).T
        q = x[q_columns].reshape(K, n_negatives).sum(axis=0)
        return result.status, faces, u, q, result.iterations

    def _solve_program(
        self, assignment: Assignment, clock: Clock
    ) -> tuple[Status, Vector, Vector, Vector, int]:
        """Solve the explicit program; return as :meth:`_solve_dual`, nan (1,) for arrays that are missing."""
        from formulations.pc_slp import choice, step

        if self._program is None:
            self._program = step(self.X, self.y, self.n_faces, assignment, self.c, self.radius)
        P = choice(self.y, self.n_faces, assignment)
        solution = self._program.set(P=P).solve(time_limit=clock.left)
        missing = np.full(1, np.nan)
        W = solution.primal.get("W", missing)
        u, q = (solution.duals.get(name, missing) for name in ("inside", "outside"))
        return solution.status, W, u, q, solution.iterations


@estimator
class PCSLP(PolyhedralClassifier):
    """Polyhedral separability by successive linear programs, after Astorino & Gaudioso [1]_.

    With scores ``W_k'x + b_k``, the margin constraints are a score of at least 1 at every face for samples
    inside, and of at most -1 at one face for samples outside. Minimises the mean of the largest violation
    over the samples inside, plus the mean of the smallest violation over the samples outside; class weights
    would cancel in these means. Each linear program fixes the face of every sample outside. It majorises the
    error and equals it at the previous faces, so no program raises the error; an error of 0 separates the
    classes. The problem is not convex for more than one face, and the norm of the faces is bounded by the box
    only.

    The error does not determine changes of the faces that alter no training sample's score. A feature that is
    constant in training has the weight 0, equal features have equal weights, each normal is the shortest with
    its scores, and a face to which no sample outside is assigned is a constant, unless that leaves the box.

    Parameters
    ----------
    radius : float, default=1e4
        Largest absolute value of an entry of W and b.
    solver : {"auto", "highs", "exact"}, default="auto"
        "highs" (and "auto") keeps the dual program in HiGHS and continues from its last basis; "exact" solves
        the explicit program of ``formulations.pc_slp`` from scratch. Both solve each program to optimality.
    max_iter : int, default=100
        Largest number of programs per start.

    Attributes
    ----------
    duals_ : pandas.DataFrame
        One row per margin constraint, of a sample and a face, with its multiplier, in input order.
    history_ : pandas.DataFrame
        One row per program of every start.

    References
    ----------
    .. [1] Astorino & Gaudioso, Polyhedral Separability Through Successive LP, 2002.

    Examples
    --------
    >>> from polyopt import PCSLP, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = PCSLP(2, inside_label=1, n_init=2, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces
    2
    >>> machine.score(data.X, data.y) > 0.9
    True
    """

    class_weight: ClassVar[None] = None  # class weights cancel in the mean over each class
    _: KW_ONLY
    radius: float = 1e4

    _auto: ClassVar[str] = "highs"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: allowed for name, allowed in SHARED.items() if name != "class_weight"},
        **shared("radius"),
        "solver": [StrOptions({"auto", "highs", "exact"})],
    }

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        problem = SuccessiveLP(X, y, c, self.n_faces, self.radius, self.solver_)
        return problem.without_idle_faces(self._run(Stage(problem, self.max_iter), seed))

    def _binary_certificate(self, tol: float) -> Certificate:
        from polyopt.polyhedral.lp_certificate import certify_pc_slp

        duals = self.solution_.duals
        return certify_pc_slp(
            self._X, self._y, self.solution_["W"], C=self._costs,
            u=duals.get("inside"), q=duals.get("outside"), radius=self._asked["radius"], tol=tol,
        )  # fmt: skip

    def _multipliers(self) -> dict[str, Any]:
        W, duals = self.solution_["W"], self.solution_.duals
        multipliers = None
        if duals:
            is_assigned = self.assignment_[:, None] == np.arange(len(W))
            multipliers = duals["inside"] + is_assigned * duals["outside"][:, None]
        costs = class_shares(self._y, self._costs)
        return hinge_columns(self._X, self._y, costs, W, self.assignment_, multipliers)
