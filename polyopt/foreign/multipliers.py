"""Multipliers of our own, where none came with a solution or those that did prove less than they could."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from polyopt.estimators.cpm import ConvexPolytopeMachine
from polyopt.estimators.rmm import RelativeMarginMachine
from polyopt.estimators.sigma_svm import SigmaSVM
from polyopt.estimators.svm import SVM

if TYPE_CHECKING:
    from formulations.matrices import Vector
    from polyopt.foreign.settings import Pair, Settings

__all__ = ["our_multipliers"]

_MACHINES: dict[str, Any] = {
    "svm": SVM, "rmm": RelativeMarginMachine, "soft-rmm": RelativeMarginMachine, "sigma-svm": SigmaSVM,
}  # fmt: skip


def our_multipliers(pair: Pair, settings: Settings, time_limit: float | None) -> dict[str, Vector] | None:
    """Multipliers of the optimum that our own machine finds, by the names of the rows.

    Parameters
    ----------
    pair : Pair
        The samples.
    settings : Settings
        The program, one of families of rows.
    time_limit : float, optional
        Seconds; what is reached by then is as good a proof as it is.

    Returns
    -------
    dict, or None
        None where our machine does not take these data or settings.
    """
    if settings.intercept == "none":
        return None
    lifted = settings.intercept == "penalised"
    if lifted:  # a polytope of one face pays twice as much, but for the slacks
        machine = ConvexPolytopeMachine(n_faces=1, C=2.0 * settings.C, inside_label=-1, time_limit=time_limit)
    else:
        told = settings.told()
        if settings.program == "soft-rmm":
            told["bound_cost"] = told.pop("D")
        machine = _MACHINES[settings.program](**told, time_limit=time_limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not at its end proves less, and that shows
        try:
            found = machine.fit(pair.X, pair.y, sample_weight=pair.weights).solution_.duals
        except ValueError:
            return None
    if lifted:
        return {"margin": found["margin"][:, 0] / 2.0} if "margin" in found else None
    names = settings.rows
    return {name: found[name] for name in names} if set(names) <= set(found) else None
