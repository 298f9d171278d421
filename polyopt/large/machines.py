"""The linear machines whose samples are read by blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyopt.estimators.parameters import shared
from polyopt.large.machine import LargeMachine

if TYPE_CHECKING:
    from polyopt.estimators.given import ClassWeight

__all__ = ["SVM", "RelativeMarginMachine", "SigmaSVM"]


class SVM(LargeMachine):
    """Support vector machine with linear features, of samples that are read by blocks."""

    _title = "the SVM"

    def __init__(
        self, C: float = 1.0, *, tol: float = 1e-8, max_iter: int | None = None,
        time_limit: float | None = None, class_weight: ClassWeight = None,
        verbose: bool | int = False,
    ):  # fmt: skip
        self.C, self.tol, self.max_iter, self.time_limit = C, tol, max_iter, time_limit
        self.class_weight, self.verbose = class_weight, verbose


class SigmaSVM(LargeMachine):
    """Sigma-SVM with linear features, of samples that are read by blocks.

    Parameters
    ----------
    D : float, default=0.5
        Share of the output variance in the regulariser, within [0, 1].
    """

    _title = "the Sigma-SVM"
    _D = "D"
    _parameter_constraints = LargeMachine._parameter_constraints | shared("D")

    def __init__(
        self, C: float = 1.0, D: float = 0.5, *, tol: float = 1e-8, max_iter: int | None = None,
        time_limit: float | None = None, class_weight: ClassWeight = None,
        verbose: bool | int = False,
    ):  # fmt: skip
        self.C, self.D, self.tol, self.max_iter, self.time_limit = C, D, tol, max_iter, time_limit
        self.class_weight, self.verbose = class_weight, verbose


class RelativeMarginMachine(LargeMachine):
    """Relative Margin Machine with linear features, of samples that are read by blocks.

    Parameters
    ----------
    B : float, default=2.0
        Bound on the absolute output at every training sample, at least 1.
    """

    _title = "the Relative Margin Machine"
    _B = "B"
    _parameter_constraints = LargeMachine._parameter_constraints | shared("B")

    def __init__(
        self, C: float = 1.0, B: float = 2.0, *, tol: float = 1e-8, max_iter: int | None = None,
        time_limit: float | None = None, class_weight: ClassWeight = None,
        verbose: bool | int = False,
    ):  # fmt: skip
        self.C, self.B, self.tol, self.max_iter, self.time_limit = C, B, tol, max_iter, time_limit
        self.class_weight, self.verbose = class_weight, verbose
