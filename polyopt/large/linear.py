"""Linear machines on samples in blocks, solved by the interior point and certified."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.families import hinge_families
from formulations.language.clock import Clock
from polyopt.base.progress import listener
from polyopt.estimators.parameters import estimator, shared
from polyopt.large.base import MIN_CERTIFICATE_TOL, BlockClassifier
from polyopt.large.blocks import Recipe
from polyopt.large.checkpoint import Checkpoint
from polyopt.large.executor import Executor
from polyopt.large.summary import checkpoint_identity
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem


@estimator
class LinearBlockClassifier(BlockClassifier):
    """Base of the linear machines whose samples are read by blocks.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (pairs, m), (pairs,)
        The hyperplanes: one for two classes, else one for each pair, in the order of `pairs_`.
    n_iter_ : int
        Largest number of iterations of a hyperplane.
    """

    C: float = 1.0

    _title: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = BlockClassifier._parameter_constraints | shared(
        "C"
    )

    def _begin(self, pairs: int) -> None:
        self.coef_, self.intercept_ = np.zeros((pairs, self.n_features_in_)), np.zeros(pairs)

    def _fit_pair(
        self, number: int, executor: Executor, factors: tuple[float, float], clock: Clock, checkpoint: Any,
        resume: Any,
    ) -> None:  # fmt: skip
        recipe = Recipe(self.pairs_[number], factors, float(self.C), float(getattr(self, "B", np.inf)))
        D = float(self.D) if hasattr(self, "D") else None
        crew = executor.crew(recipe)
        problem = state_problem(crew, 1, D)
        save = Checkpoint(
            checkpoint, resume,
            lambda: checkpoint_identity(executor, recipe, self._title, B=repr(recipe.B), D=D),
        )  # fmt: skip
        crew.log[:] = save.log or crew.log
        save.log = crew.log
        solution = solve_problem(problem, self.tol, self.max_iter, clock, listener(), save, save.state)
        w, b = solution["w"], float(solution["b"])
        if problem.is_centred:
            b -= float(problem.shift @ w)
        self.coef_[number], self.intercept_[number] = w, b
        self.solutions_.append(solution)
        self.certificates_.append(
            certify_blocks(
                self._title,
                lambda *step: crew.ask("prove", *step),
                hinge_families(np.array([1.0, -1.0]), recipe.C, recipe.B),
                v=w,
                b=b,
                centre=None if self._is_sparse else problem.shift,
                D=D,
                tol=max(self.tol, MIN_CERTIFICATE_TOL),
            )
        )
        crew.close()

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        return np.asarray(X @ self.coef_.T) + self.intercept_


@estimator
class SVM(LinearBlockClassifier):
    """Support vector machine with linear features, on samples in blocks."""

    _title: ClassVar[str] = "the SVM"


@estimator
class SigmaSVM(LinearBlockClassifier):
    """Sigma-SVM with linear features, on samples in blocks.

    Parameters
    ----------
    D : float, default=0.5
        Weight of the output variance in the regulariser, within [0, 1].
    """

    D: float = 0.5

    _title: ClassVar[str] = "the Sigma-SVM"
    _parameter_constraints = LinearBlockClassifier._parameter_constraints | shared("D")


@estimator
class RelativeMarginMachine(LinearBlockClassifier):
    """Relative Margin Machine with linear features, on samples in blocks.

    Parameters
    ----------
    B : float, default=2.0
        Bound on the absolute output at every training sample, at least 1.
    """

    B: float = 2.0

    _title: ClassVar[str] = "the Relative Margin Machine"
    _parameter_constraints = LinearBlockClassifier._parameter_constraints | shared("B")
