"""The Relative Margin Machine: a large margin relative to the spread of the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.families import Families, bound_families
from polyopt.estimators.declaration import estimator
from polyopt.estimators.hinge import HingeClassifier
from polyopt.estimators.parameters import shared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["RelativeMarginMachine"]


@estimator
class RelativeMarginMachine(HingeClassifier):
    """Relative Margin Machine: a support vector machine whose outputs stay within ±B.

    Minimises ``½||w||² + C Σ ξ_i`` subject to ``y_i f_i >= 1 - ξ_i`` and ``|f_i| <= B`` at every
    training sample, ``f_i = w'x_i + b``: eq. (7) of [1]_. The intercept is not penalised.

    Parameters
    ----------
    B : float, default=2.0
        Bound on the absolute output at every training sample, at least 1. At infinity, or above the
        SVM's largest output, the machine is the SVM; the nearer to 1, the more the bound changes it.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008.
    """

    B: float = 2.0

    _title = "the Relative Margin Machine"
    _parameter_constraints = HingeClassifier._parameter_constraints | shared("B")

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        return Families(*super()._families(y, weights), *bound_families(len(y), float(self.B)))

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import rmm, svm

        data = X, rows["margin"].side, rows["margin"].cap
        return rmm.qp(*data, self.B) if np.isfinite(self.B) else svm.primal(*data)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        from formulations import rmm, svm

        data = K, rows["margin"].side, rows["margin"].cap
        return rmm.kernel_dual(*data, self.B) if np.isfinite(self.B) else svm.kernel_dual(*data)
