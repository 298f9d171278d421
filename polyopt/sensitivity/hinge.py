"""Slopes of the machines that are families of rows: SVM, Sigma-SVM, Relative Margin Machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations import sensitivity as slopes
from formulations.language.recovery import moments
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.sensitivity.solution import ROW_TOL, are_independent, value_of

if TYPE_CHECKING:
    from formulations.language.types import Array
    from formulations.sensitivity import Sensitivity
    from polyopt.margin.fit import HingeClassifier

__all__ = ["of_hinge"]


def of_hinge(machine: HingeClassifier, tol: float) -> list[Sensitivity]:
    """The prices of slack, and where the machine has them the bound and the share."""
    value, rows = value_of(machine, tol), machine.families_
    found = []
    for name in dict.fromkeys(family.price for family in rows if family.price):
        mine = [family for family in rows if family.price == name]
        price = getattr(machine, name)
        slack = np.concatenate([np.maximum(0.0, -family.room(machine.outputs_)) for family in mine])
        weights = np.concatenate([family.cap for family in mine]) / price
        found.append(
            slopes.cost(price, value, slack, weights, name=name, letters=[each.excess for each in mine])
        )
    if "B" in machine.get_params():
        placed = [machine.multipliers_[family.name] for family in rows if family.place == "B"]
        only = not placed or are_independent(_active_samples(machine))
        found.append(slopes.bound(machine.B, value, placed, only))
    if isinstance(machine, SigmaSVM):
        found.append(slopes.share(machine.D, value, *_norm_and_variance(machine)))
    return found


def _active_samples(machine: HingeClassifier) -> Array:
    """A row (φ(x_i), 1) for every row of the program that holds without its multiplier being known by it.

    Their multipliers are unique where these are independent. For a kernel the rows are those of the Gram
    matrix among them, plus 1, which is of the same rank.
    """
    places = [(family.room(machine.outputs_), family.cap > 0.0) for family in machine.families_]
    active = np.concatenate([np.flatnonzero((np.abs(room) <= ROW_TOL) & there) for room, there in places])
    if machine.kernel == "linear":
        rows = machine._X[active]
        return np.column_stack([rows.toarray() if sp.issparse(rows) else rows, np.ones(len(active))])
    if machine.kernel == "precomputed":
        return machine._X[np.ix_(active, active)] + 1.0
    return machine._kernel(machine._X[active], machine._X[active]) + 1.0


def _norm_and_variance(machine: SigmaSVM) -> tuple[float, float]:
    """‖w‖² and w'Σw."""
    if machine.kernel == "linear":
        w = machine.coef_[0]
        return float(w @ w), float(w @ moments(machine._X, machine._costs)[1] @ w)
    geometry = machine._feature_space()
    f, weights = geometry.scores(machine._v), geometry.weights
    return float(f @ machine._v), float(weights @ f**2 / weights.sum())
