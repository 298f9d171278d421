"""Slopes of the sparse expansions, the one-norm machine and the L0 machine, and the prices of its centres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations import sensitivity as slopes
from polyopt.certificates.certificate import relative_gap
from polyopt.sensitivity.solution import ROW_TOL, are_independent, paid, value_of, warn_of
from polyopt.sparse.estimator import CrossEntropySVM

if TYPE_CHECKING:
    import pandas as pd

    from formulations.language.types import Array
    from formulations.sensitivity import Sensitivity
    from polyopt.sparse.expansion_classifier import ExpansionClassifier
    from polyopt.sparse.one_norm_estimator import OneNormSVM

__all__ = ["centre_prices", "of_l0", "of_one_norm"]


def centre_prices(estimator: CrossEntropySVM) -> pd.DataFrame:
    """What the L0 machine would gain by one more centre.

    Parameters
    ----------
    estimator : CrossEntropySVM
        Fitted to two classes.

    Returns
    -------
    DataFrame
        One row per sample that is no centre, the most promising first: ``sample``; ``rate``, at which the
        loss falls as its coefficient may rise from 0; and ``least_change``, 1 − C² rate, under which
        the score cannot change: where it is positive the centre cannot pay
        for itself.
    """
    import pandas as pd

    if not isinstance(estimator, CrossEntropySVM):
        raise TypeError(f"centre_prices is of a CrossEntropySVM, not of {type(estimator).__name__}")
    check_is_fitted(estimator)
    if len(estimator.classes_) != 2:
        raise ValueError("centre_prices is of two classes: ask the machines in estimators_")
    caps = estimator.duals_.query("letter == 's'")
    off = caps["state"].eq("held at 0").to_numpy()
    rates = caps["multiplier"].to_numpy()[off]
    found = pd.DataFrame(
        {
            "sample": caps["sample"].to_numpy()[off],
            "rate": rates,
            "least_change": slopes.switching_on(estimator.C, rates),
        }
    )
    return found.sort_values("rate", ascending=False, kind="stable", ignore_index=True)


def of_one_norm(machine: OneNormSVM, tol: float) -> list[Sensitivity]:
    """The price of slack, which caps the coefficients as well."""
    frame = machine.duals_
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    matrix, strict = _basis(machine)
    only = strict and matrix.shape[0] == matrix.shape[1] and are_independent(matrix)
    xi, weights = paid(frame, machine._rows, machine._weights)
    return [slopes.capped_cost(machine.C, value_of(machine, tol), xi, s, weights, only)]


def of_l0(machine: CrossEntropySVM, tol: float) -> list[Sensitivity]:
    """The price of loss, for the pattern found."""
    frame, sigma = machine.duals_, np.asarray(machine.solution_["sigma"])
    s = frame.query("letter == 's'")["multiplier"].to_numpy()
    xi, weights = paid(frame, machine._rows, machine._weights)
    loss = float(weights @ xi)
    proven = float(machine.solution_["margin"].sum() - machine.C * (sigma @ s))
    if abs(loss - proven) > tol * max(float(weights.sum()), loss):
        warn_of(machine, f"The loss of its pattern is within {relative_gap(loss, proven):.1e} of the least.")
    only = not sigma.any() or are_independent(_basis(machine)[0])  # an empty pattern has no caps
    return [slopes.pattern_cost(machine.C, sigma, loss, s, only)]


def _basis(machine: ExpansionClassifier) -> tuple[Array, bool]:
    """The samples on the margin by the coefficients between their bounds and b, and whether all is strict.

    The multipliers are unique where its rows are independent; the coefficients, where it is square and
    regular besides and every other row holds with a multiplier.
    """
    frame, y = machine.duals_, machine._y
    rows = {letter: mine.reset_index() for letter, mine in frame.groupby("letter")}
    xi = rows["v"]["slack"].to_numpy()
    margin = (rows["u"]["slack"].to_numpy() <= ROW_TOL) & (xi <= ROW_TOL)
    small = ROW_TOL * machine.C
    inside = (rows["r"]["slack"].to_numpy() > small) & (rows["s"]["slack"].to_numpy() > small)
    K, _ = machine._training_kernel()
    matrix = np.column_stack([K[np.ix_(margin, inside)] * y[inside], np.ones(int(margin.sum()))])
    held = rows["u"]["multiplier"].to_numpy()[margin], rows["v"]["multiplier"].to_numpy()[margin]
    bound = (rows["r"]["multiplier"] + rows["s"]["multiplier"]).to_numpy()[~inside]
    return matrix, bool(all((part > ROW_TOL).all() for part in (*held, bound)))
