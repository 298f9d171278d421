"""SPLA1: a polyhedral classifier as a logistic model with one regression in each cell."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils._param_validation import StrOptions

from formulations.language.solution import Solution
from formulations.language.types import Array
from formulations.polyhedral import Positives, belonging, scores
from polyopt.base.types import ClassWeight
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.parameters import estimator, shared
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.logistic_certificate import certify_spla1

if TYPE_CHECKING:
    from polyopt.polyhedral.spla1 import Engine

_ENGINES: dict[str, Engine] = {"newton": "newton", "bfgs": "bfgs", "exact": "program"}


@estimator
class SPLA1(PolyhedralClassifier):
    """Polyhedral classifier of Manwani & Sastry [1]_: alternate between cells and logistic regressions.

    With scores ``W_k'x + b_k`` and h(x) their least, ``P(inside | x) = 1 / (1 + exp(-h(x)))``. The samples
    are divided between the faces, each in the cell of its least score; each face is then the logistic
    regression of its cell; and again. Penalised by ``ridge/2 (||W||² + ||b||²)``, since a cell whose
    classes a face separates has no maximum otherwise. The problem is not convex for more than one face.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces at most: one that no sample is fitted by is left out, as it changes no training
        sample's score and would cost its ridge.
    ridge : float, default=0.1
        ρ, positive.
    positives : {"cell", "all"}, default="cell"
        Faces that a sample inside is fitted by: that of its cell, as in the paper, or every face. The
        paper's alternation may raise its loss, and need not settle: the best faces that it fitted on the way
        are kept, and ``certificate()`` proves them for the cells that they were fitted to, and says how many
        samples are in another cell then. The other descends, and ends at a fixed point that it calls
        stationary.
    solver : {"auto", "newton", "bfgs", "exact"}, default="auto"
        How a cell's regression is solved: Newton's method, BFGS as in the paper, or the explicit program
        of ``formulations.spla1``. "auto" is Newton's up to 1,000 features, then BFGS.
    inner : int, default=100
        Iterations at most of the solver for each cell, before the cells are found anew.
    max_iter : int, default=100
        Alternations at most, per start.
    patience : int, default=5
        Alternations in a row that may bring nothing before a run has settled.
    tol : float, default=1e-6
        Relative fall of the loss that counts as something.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces that samples were fitted by, `n_faces` or fewer (binary problems).
    solution_ : Solution or list of Solution
        The solver's answer (one per pair of classes): the faces, the cells ``assignment`` that they were
        fitted to, and as its objective the loss with every sample in the cell of its
        least score.
    duals_ : pandas.DataFrame
        One row per sample and face that fits it: its pull u, in input order.
    history_ : pandas.DataFrame
        One row per alternation of every start.

    References
    ----------
    .. [1] Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function, 2010.

    Examples
    --------
    >>> from polyopt import SPLA1, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = SPLA1(2, inside_label=1, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces, machine.predict_proba(data.X).shape
    (2, (351, 2))
    >>> machine.certificate().relative_gap < 1e-6  # of the program for the cells of its fit
    True
    """

    _: KW_ONLY
    ridge: float = 0.1
    positives: Positives = "cell"
    inner: int = 100
    patience: int = 5
    tol: float = 1e-6
    class_weight: ClassWeight = None

    _models_probabilities: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        **shared("ridge", "inner", "patience", "tol"),
        "positives": [StrOptions({"cell", "all"})],
        "solver": [StrOptions({"auto", *_ENGINES})],
    }

    def _pick_solver(self, X: Any) -> str:
        if self.solver != "auto":
            return self.solver
        return "newton" if X.shape[1] < 1000 else "bfgs"

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        from polyopt.optim.rounds import Stage
        from polyopt.polyhedral.spla1 import LogisticCells

        problem = LogisticCells(
            X, y, c, self.n_faces,
            ridge=self.ridge, positives=self.positives, engine=_ENGINES[self.solver_], inner=self.inner,
        )  # fmt: skip
        return self._run(Stage(problem, self.max_iter, self.tol, self.patience), seed)

    @property
    def _fitted_cells(self) -> NDArray[np.int64]:
        """The cell of each sample that the faces were fitted to, where that is known; else that of W."""
        return np.asarray(self.solution_.primal.get("assignment", self.assignment_))

    def _certify(self, W: Array, tol: float) -> Certificate:
        return certify_spla1(
            self._X, self._y, W,
            ridge=self._asked["ridge"], C=self._costs, positives=self._asked["positives"],
            assignment=self._fitted_cells, n_faces=self._asked["n_faces"], tol=tol,
        )  # fmt: skip

    def _multipliers(self) -> dict[str, Any]:
        members = belonging(self._y, self._fitted_cells, len(self.W_), self._asked["positives"])
        place, face = np.nonzero(members)
        z = self._y[place] * scores(self._X, self.solution_["W"])[place, face]
        share = expit(-z)
        states = ["well on its side", "near the face", "on the wrong side"]
        return {
            "row": np.full(len(place), "margin"),
            "letter": np.full(len(place), "u"),
            "place": place,
            "face": face,
            "multiplier": self._costs[place] * share,
            "share": share,
            "slack": np.zeros(len(place)),  # z is its margin
            "state": np.array(states)[(share > 0.05).astype(int) + (share > 0.5)],
        }
