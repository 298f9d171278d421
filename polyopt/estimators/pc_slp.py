"""PC-SLP: polyhedral separation by successive linear programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from formulations.polyhedral import class_shares
from polyopt.estimators.hinge_duals import hinge_columns
from polyopt.estimators.parameters import shared
from polyopt.estimators.polyhedral import SHARED, PolyhedralClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.outer.faces_by_programs import Engine

    Array = NDArray[np.float64]

__all__ = ["PCSLP"]


class PCSLP(PolyhedralClassifier):
    """Polyhedral separability by successive linear programs, after Astorino & Gaudioso [1]_.

    With scores ``W_k'x + b_k``, samples inside are to have 1 at least at every face, samples outside -1 at
    most at one. Minimises the mean over the samples inside of the worst miss, plus the mean over those
    outside of the least; means know no weights of classes. Each linear program fixes the face of every
    sample outside, bounds the error from above and equals it at the faces before, so that the error falls
    with every program until none brings anything; an error of 0 separates the classes. It is not convex
    for more than one face, and nothing but the box holds the faces' size.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces.
    radius : float, default=1e4
        Largest absolute value of an entry of W and b.
    solver : {"auto", "highs", "exact"}, default="auto"
        "highs" (and "auto") keeps the dual program in HiGHS and goes on from its last basis; "exact" solves
        the explicit program of ``formulations.pc_slp`` anew. Both solve each program to the end.
    inside_label : label, optional
        The class inside, of two; by default ``classes_[1]``.
    n_init : int, default=10
        Random starts, of which the best is kept.
    max_iter : int, default=100
        Programs at most, per start.
    time_limit : float, optional
        Seconds at most, per pair of classes; the best point is kept.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.
    n_jobs : int, optional
        Starts, or with more than two classes pairs of classes, trained at once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces (binary problems).
    polytope_ : Polytope
        The inside as a set: redundant faces, vertices, volume, rules (binary problems).
    assignment_ : ndarray of int, shape (n,)
        The cell of each sample (binary problems; samples of zero weight left out).
    inside_label_, outer_label_ : label
        The class inside, and the one outside (binary problems).
    solution_ : Solution or list of Solution
        The solver's answer (one per pair of classes).
    solver_ : str
        The solver that was used (binary problems).
    duals_ : pandas.DataFrame
        One row per sample and face that it must be right at, with its multiplier, in input order.
    history_ : pandas.DataFrame
        One row per program of every start.

    References
    ----------
    .. [1] Astorino & Gaudioso, Polyhedral Separability Through Successive LP, 2002.
    """

    class_weight: ClassVar[None] = None  # a mean over each class: no weight of a class changes it
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: allowed for name, allowed in SHARED.items() if name != "class_weight"},
        **shared("radius"),
        "solver": [StrOptions({"auto", "highs", "exact"})],
    }

    def __init__(
        self,
        n_faces: int = 3,
        *,
        radius: float = 1e4,
        solver: str = "auto",
        inside_label: Any = None,
        n_init: int = 10,
        max_iter: int = 100,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.n_faces = n_faces
        self.radius = radius
        self.solver = solver
        self.inside_label = inside_label
        self.n_init = n_init
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _pick_solver(self, X: Any) -> str:
        return "highs" if self.solver == "auto" else self.solver

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        from polyopt.outer.pc_slp import SuccessiveLP
        from polyopt.outer.rounds import Stage, run_from_many_starts

        engine: Engine = "highs" if self.solver_ == "highs" else "program"
        problem = SuccessiveLP(X, y, c, self.n_faces, self.radius, engine)
        return run_from_many_starts(
            [Stage(problem, self.max_iter)],
            n_init=self.n_init if self.n_faces > 1 else 1,  # one face has one program
            time_limit=self.time_limit,
            seed=seed,
            n_jobs=self.n_jobs,
        )

    def _certify(self, W: Array, tol: float) -> Certificate:
        from polyopt.certificates.polyhedral_lp import certify_pc_slp

        duals = self.solution_.duals
        return certify_pc_slp(
            self._X, self._y, W, C=self._costs,
            u=duals.get("inside"), q=duals.get("outside"), radius=self._asked["radius"], tol=tol,
        )  # fmt: skip

    def _multipliers(self) -> dict[str, Any]:
        W, duals, together = self.solution_["W"], self.solution_.duals, None
        if duals:
            own = self.assignment_[:, None] == np.arange(len(W))
            together = duals["inside"] + own * duals["outside"][:, None]
        return hinge_columns(
            self._X, self._y, class_shares(self._y, self._costs), W, self.assignment_, together
        )
