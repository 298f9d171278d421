"""The slope of the SVM with the hard-margin loss: the price of a sample given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations import sensitivity as slopes
from polyopt.certificates.certificate import Claim
from polyopt.certificates.hard_margin_loss import certify_hard_margin_loss_data
from polyopt.sensitivity.solution import warn_of

if TYPE_CHECKING:
    from formulations.sensitivity import Sensitivity
    from polyopt.estimators.hard_margin_loss import HardMarginLossSVM

__all__ = ["of_hard_margin_loss"]


def of_hard_margin_loss(machine: HardMarginLossSVM, tol: float) -> list[Sensitivity]:
    """The price C of the samples given up, for these: ½‖w‖² does not depend on it.

    Parameters
    ----------
    machine : HardMarginLossSVM
        Fitted to two classes.
    tol : float
        Relative tolerance, within which its point is to be the best with the samples it gives up.
    """
    machine._need_data("sensitivities()")
    w, b, alpha = machine.coef_[0], float(machine.intercept_[0]), machine.solution_["margin"]
    found = certify_hard_margin_loss_data(machine._data, w, b, alpha=alpha, tol=tol)
    if found.claim is not Claim.STATIONARY:
        warn_of(machine, found.sentence)
    C = float(machine._asked["C"])
    weights = machine._costs / C
    return [slopes.cost(C, found.primal_value, machine.solution_["z"], weights, letters=("z",))]
