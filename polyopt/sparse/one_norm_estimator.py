"""The one-norm support vector machine: a linear program with few support vectors."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from formulations.families import best_intercept
from formulations.language.clock import Clock
from formulations.language.solution import Solution
from formulations.language.types import Array
from polyopt.certificates.certificate import Certificate
from polyopt.certificates.claims.statement import Evidence
from polyopt.estimators.parameters import estimator
from polyopt.margin.claim import state_one_norm
from polyopt.sparse.certificate import certify_one_norm
from polyopt.sparse.expansion_classifier import ExpansionClassifier


@estimator
class OneNormSVM(ExpansionClassifier):
    """One-norm support vector machine over the expansion coefficients.

    Minimises ``Σ α_j + C Σ ξ_i`` subject to ``y_i (Σ_j y_j α_j k(x_i, x_j) + b) >= 1 - ξ_i`` and
    ``0 <= α_j <= C``, a linear program [1]_. Its solutions are sparse; :class:`CrossEntropySVM`
    minimises the number of support vectors itself. The kernel may be any function.

    Parameters
    ----------
    solver : {"auto", "highs", "exact"}, default="auto"
        "highs" (and "auto") is the linear program in HiGHS, "exact" the explicit program of
        ``formulations.one_norm.primal`` by a general solver.

    Notes
    -----
    A sample's weight multiplies its cost of slack and the cap of its coefficient: it is a repetition.

    References
    ----------
    .. [1] Mannor, Peleg & Rubinstein, slides on the cross-entropy method for classification.

    Examples
    --------
    >>> from polyopt import OneNormSVM, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = OneNormSVM().fit(data.X, data.y)
    >>> len(machine.support_) < 100
    True
    >>> machine.certificate().is_optimal
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ExpansionClassifier._parameter_constraints,
        "solver": [StrOptions({"auto", "highs", "exact"})],
    }

    _largest_entry = 1e12

    def _solve(self, K: Array, y: Array, weights: Array, error: float | Array, clock: Clock) -> Solution:
        self.solver_ = "highs" if self.solver == "auto" else self.solver
        costs = self.C * weights
        if self.solver_ == "highs":
            from polyopt.sparse.one_norm import solve_one_norm

            return solve_one_norm(K, y, costs, costs, time_limit=clock.left)
        from formulations.one_norm import primal

        result = primal(K, y, costs).solve(time_limit=clock.left)
        if not result.primal:
            advice = "scale the features to unit variance, or choose solver='highs'"
            raise RuntimeError(f"{type(self).__name__}: no solver found a point ({result.status}); {advice}")
        # Interior-point solutions have small positive coefficients instead of zeros.
        alpha = np.where(result["alpha"] > 1e-7 * costs, np.minimum(result["alpha"], costs), 0.0)
        b = best_intercept(K @ (y * alpha), y, costs)
        return replace(result, primal={**result.primal, "alpha": alpha, "b": np.array(b)})

    def _terms(self) -> tuple[Array, float, Array]:
        costs = self.C * self._weights
        return costs, 1.0, costs

    def _binary_certificate(self, tol: float) -> Certificate:
        K, error = self._training_kernel()
        y, costs, alpha = self._y, self.C * self._weights, self._coefficients()
        b, u = float(self.intercept_[0]), self.solution_["margin"]
        certificate = certify_one_norm(K, y, costs, alpha=alpha, b=b, u=u, tol=tol, entry_error=error)
        if self.kernel == "precomputed":
            return certificate
        statement = partial(state_one_norm, self._X, y, costs, self._kernel, alpha, b, u)
        return replace(certificate, evidence=(Evidence(statement),))
