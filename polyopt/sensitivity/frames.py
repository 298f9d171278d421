"""Slopes of a fitted estimator's optimum and the rows that hold it, as frames; and what every slope needs."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from formulations.language.types import Array
from formulations.sensitivity import Sensitivity
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.estimators.base import PairwiseClassifier
from polyopt.methods.method import named
from polyopt.methods.registry import answering_for, method_of

ROW_TOL = 1e-6  # within which, in units of the outputs, a row holds


class Certified(Protocol):
    """A fitted machine that can say how far from optimal it is."""

    def certificate(self, tol: float = ...) -> Certificate:
        """Return its certificate, as :meth:`polyopt.estimators.base.PairwiseClassifier.certificate`."""


class Solved(Protocol):
    """A fitted machine with multipliers."""

    solver: str

    @property
    def duals_(self) -> pd.DataFrame:
        """One row per constraint."""


def value_of(machine: Certified, tol: float, scale: float = 0.0) -> float:
    """Return the value at a machine's solution, and warn if its certificate at `tol` shows no optimum.

    A value that is 0 but for rounding was added up from `scale`.
    """
    certificate = machine.certificate(tol)
    proven = certificate.claim in (Claim.OPTIMAL, Claim.STATIONARY)
    # For its assignment, cells or responsibilities a machine may be optimal though another would do better.
    if not (proven or certificate.relative_gap <= tol or certificate.gap <= 1e-12 * scale):
        warn_of(machine, certificate.sentence)
    return certificate.primal_value


def warn_of(machine: object, sentence: str) -> None:
    """Warn that slopes are not those of an optimum, with a sentence on the distance from it."""
    warnings.warn(
        f"{type(machine).__name__}: these are slopes of the Lagrangian at the point reached, not of the "
        f"optimum. {sentence}",
        ConvergenceWarning,
        stacklevel=6,
    )


def need_multipliers(machine: Solved, multipliers: ArrayLike | None) -> None:
    """Refuse a machine whose solver left no multipliers: None, or nan."""
    if multipliers is None or np.isnan(np.asarray(multipliers)).any():
        raise ValueError(
            f"solver={getattr(machine, 'solver_', machine.solver)!r} of {type(machine).__name__} has no "
            "multipliers; fit it with solver='exact'"
        )


def are_independent(rows: Array) -> bool:
    """Return True if the rows of a matrix are linearly independent."""
    n, m = rows.shape
    return n == 0 or (n <= m and int(np.linalg.matrix_rank(rows)) == n)


def paid(duals: pd.DataFrame, rows: NDArray[np.intp], weights: Array) -> tuple[Array, Array]:
    """Return every slack that is paid for, and the weight of its sample.

    rows, weights (n,): numbers of the samples in the data given to ``fit``, and their weights.
    """
    slack = duals.query("row == 'slack'")
    by_sample = pd.Series(weights, index=rows)
    xi, mine = slack["slack"], by_sample[slack["sample"]]
    return np.asarray(xi, dtype=np.float64), np.asarray(mine, dtype=np.float64)


def sensitivities(estimator: object, tol: float = 1e-6) -> pd.DataFrame:
    """Return the slopes of the optimal value of a fitted estimator's program in its parameters.

    Nothing is solved again: by the envelope theorem the multipliers and slacks of the one solution say it.
    For a machine with faces it is the program of the assignment (cells, responsibilities) that it has, for
    :class:`CrossEntropySVM` that of its pattern.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package.
    tol : float
        Relative tolerance at which its certificate must find it optimal, or there is a warning.

    Returns
    -------
    DataFrame
        One row per parameter (and per ``pair`` of classes, or polytope with one class ``outside``):
        ``parameter``; its ``value``; the ``objective``; its ``derivative``; ``elasticity``, the percent by
        which the objective moves for one percent of the parameter; ``two_sided``, whether the slope is known
        to be the same on both sides of the value, for where several multipliers are optimal they give but a
        number between two slopes; and the ``formula``.

    Raises
    ------
    TypeError
        Not a classifier that is a program here.
    ValueError
        A solver that leaves no multipliers, where they are needed, or a machine without its data.

    Warns
    -----
    ConvergenceWarning
        The machine is short of its optimum, whose slopes then are not known.
    """
    columns = "parameter", "value", "objective", "derivative", "elasticity", "two_sided", "formula"
    rows: list[dict[str, Any]] = []
    for names, machine in _machines(estimator):
        for found in _slopes(machine, tol):
            rows.append({**names, **{column: getattr(found, column) for column in columns}})
    return pd.DataFrame(rows)


def binding(estimator: Solved) -> pd.DataFrame:
    """Return the rows that hold a fitted estimator's solution: its multipliers, family by family.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package whose solver leaves multipliers.

    Returns
    -------
    DataFrame
        One row per family of rows (and pair of classes, or polytope): ``row`` and ``letter``; ``rows``, how
        many there are; ``binding``, how many have a multiplier that is not zero; ``total``, the sum of their
        sizes; ``largest``; and ``samples``, the few that hold most. A polytope's sample counts with all its
        faces. ``estimator.duals_`` has every row.
    """
    frame = estimator.duals_
    need_multipliers(estimator, frame["multiplier"])
    sizes = frame["multiplier"].abs()
    small = ROW_TOL * float(sizes.max())
    keys = [name for name in ("pair", "outside", "row", "letter") if name in frame]
    found = []
    for key, mine in frame.assign(multiplier=sizes.where(sizes > small, 0.0)).groupby(keys, sort=False):
        each = mine.groupby("sample", sort=False)["multiplier"].sum().sort_values(ascending=False)
        held, samples = mine["multiplier"], [at for at in each[each > 0].index if at != -1]
        found.append({
            **dict(zip(keys, key, strict=True)), "rows": len(mine), "binding": int((held > 0).sum()),
            "total": float(held.sum()), "largest": float(held.max()), "samples": tuple(samples[:3]),
        })  # fmt: skip
    return pd.DataFrame(found)


def _machines(estimator: Any) -> list[tuple[dict[str, str], Any]]:
    """Return the binary machines with one program each, with the columns that tell them apart."""
    if not isinstance(estimator, PairwiseClassifier) and method_of(estimator) is None:
        raise TypeError(
            f"{type(estimator).__name__} is not a classifier of polyopt with a program of its own; of a "
            "search, give best_estimator_"
        )
    check_is_fitted(estimator)
    if hasattr(estimator, "estimators_") and len(estimator.classes_) > 2:
        pairs = [{"pair": f"{first} vs {second}"} for first, second in estimator.pairs_]
        parts = zip(pairs, estimator.estimators_, strict=True)
        return [({**pair, **names}, part) for pair, whole in parts for names, part in _machines(whole)]
    if getattr(estimator, "_sides", None):
        return [({"outside": str(side.outer_label_)}, side) for side in estimator.sides_]
    return [({}, estimator)]


def _slopes(machine: Any, tol: float) -> list[Sensitivity]:
    """By the function that the entry of its method names."""
    method = method_of(machine)
    if method is None or not method.slopes:
        raise TypeError(f"no derivatives are known of {type(machine).__name__}")
    with answering_for(method):
        return named(method.slopes)(machine, tol)
