"""The Relative Margin Machine with slack on its bounds: outputs beyond ±B cost, and are not forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formulations.arguments import positive
from formulations.families import Families, bound_families, margin_family
from polyopt.estimators.declaration import estimator
from polyopt.estimators.parameters import Ruled
from polyopt.estimators.rmm import RelativeMarginMachine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.program import Program

__all__ = ["SoftRelativeMarginMachine"]


@estimator
class SoftRelativeMarginMachine(RelativeMarginMachine):
    """Relative Margin Machine with slack on its bounds: a unit of output beyond ±B costs D.

    Minimises ``½||w||² + C Σ ξ_i + D Σ (τ_i + τ*_i)`` subject to ``y_i f_i >= 1 - ξ_i``,
    ``f_i <= B + τ_i`` and ``-f_i <= B + τ*_i``, ``f_i = w'x_i + b``, no slack below 0. A single
    sample far out can determine the machine of [1]_; here it only costs. The intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack on a margin; positive.
    B : float, default=2.0
        Where outputs begin to cost, at least 1; infinite for nowhere (the support vector machine).
    D : float, default=1.0
        Cost of a unit of output beyond B; positive. Further samples have the weight 1. It caps the
        multipliers of the bounds: if it is infinite, or above all of them, the machine is the one without
        such slack.

    References
    ----------
    .. [1] Shivaswamy & Jebara, Relative Margin Machines, 2008; such slack is not investigated there.

    Examples
    --------
    >>> from polyopt import SoftRelativeMarginMachine, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = SoftRelativeMarginMachine(C=10.0, B=1.5, D=0.1).fit(data.X, data.y)
    >>> machine.certificate(tol=1e-3).is_optimal
    True
    """

    D: float = 1.0

    _title = "the Relative Margin Machine with slack on its bounds"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RelativeMarginMachine._parameter_constraints,
        "D": [Ruled(lambda value: positive("D", value, infinite=True))],
    }

    def _families(self, y: NDArray[Any], weights: NDArray[Any]) -> Families:
        if not weights[-1] > 0.0:
            return super()._families(y, weights)
        bounds = bound_families(len(y), float(self.B), self._price(weights))
        return Families(margin_family(y, self.C * weights), *bounds)

    def _price(self, weights: NDArray[Any]) -> float | NDArray[Any]:
        return self.D * np.where(weights > 0.0, weights, 1.0)

    def _primal_program(self, X: Any, rows: Families, weights: NDArray[Any]) -> Program:
        from formulations import soft_rmm

        if not self._has_slack(rows) or self._further_programs(rows) is not None:
            return super()._primal_program(X, rows, weights)
        return soft_rmm.qp(X, rows["margin"].side, rows["margin"].cap, self.B, rows["bound_above"].cap)

    def _dual_program(self, K: NDArray[Any], rows: Families) -> Program:
        from formulations import soft_rmm

        if not self._has_slack(rows) or self._further_programs(rows) is not None:
            return super()._dual_program(K, rows)
        return soft_rmm.kernel_dual(
            K, rows["margin"].side, rows["margin"].cap, self.B, rows["bound_above"].cap
        )

    def _has_slack(self, rows: Families) -> bool:
        """Whether there are bounds, and a price on them: else it is a machine that has a program already."""
        return bool(np.isfinite(self.B) and rows["bound_above"].has_slack)
