"""PC-SLP: polyhedral separation by successive linear programs."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from formulations.language.solution import Solution
from formulations.language.types import Array
from formulations.polyhedral import class_shares
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.multiplier_frame import hinge_columns
from polyopt.estimators.parameters import estimator, shared
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier

if TYPE_CHECKING:
    from polyopt.polyhedral.faces_by_programs import Engine


@estimator
class PCSLP(PolyhedralClassifier):
    """Polyhedral separability by successive linear programs, after Astorino & Gaudioso [1]_.

    With scores ``W_k'x + b_k``, samples inside are to have 1 at least at every face, samples outside -1 at
    most at one. Minimises the mean over the samples inside of the worst miss, plus the mean over those
    outside of the least; a weight of a class would cancel in its mean. Each linear program fixes the face
    of every sample outside, bounds the error from above and equals it at the faces before, so that the
    error falls with every program until none lowers it; an error of 0 separates the classes. The problem is
    not convex for more than one face, and the box alone bounds the size of the faces.

    Changes that alter no training sample's score are not determined by the error. A feature that is constant
    in training has the weight 0, equal features have equal weights, each normal is the shortest with its
    scores, and a face that answers for no sample outside is a constant, unless that leaves the box.

    Parameters
    ----------
    radius : float, default=1e4
        Largest absolute value of an entry of W and b.
    solver : {"auto", "highs", "exact"}, default="auto"
        "highs" (and "auto") keeps the dual program in HiGHS and goes on from its last basis; "exact" solves
        the explicit program of ``formulations.pc_slp`` anew. Both solve each program to the end.
    max_iter : int, default=100
        Programs at most, per start.

    Attributes
    ----------
    duals_ : pandas.DataFrame
        One row per sample and face that it must be right at, with its multiplier, in input order.
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

    class_weight: ClassVar[None] = None  # a mean over each class: no weight of a class changes it
    _: KW_ONLY
    radius: float = 1e4

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: allowed for name, allowed in SHARED.items() if name != "class_weight"},
        **shared("radius"),
        "solver": [StrOptions({"auto", "highs", "exact"})],
    }

    def _pick_solver(self, X: Any) -> str:
        return "highs" if self.solver == "auto" else self.solver

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        from polyopt.optim.rounds import Stage
        from polyopt.polyhedral.pc_slp import SuccessiveLP

        engine: Engine = "highs" if self.solver_ == "highs" else "program"
        problem = SuccessiveLP(X, y, c, self.n_faces, self.radius, engine)
        return problem.settled(self._run(Stage(problem, self.max_iter), seed))

    def _certify(self, W: Array, tol: float) -> Certificate:
        from polyopt.polyhedral.lp_certificate import certify_pc_slp

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
