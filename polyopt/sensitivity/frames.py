"""Slopes of a fitted estimator's optimum, and the rows that hold it, as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from polyopt.estimators.base import PairwiseClassifier
from polyopt.methods.method import named
from polyopt.methods.registry import answering_for, method_of
from polyopt.sensitivity.solution import ROW_TOL, need_multipliers

if TYPE_CHECKING:
    import pandas as pd

    from formulations.sensitivity import Sensitivity
    from polyopt.sensitivity.solution import Solved

__all__ = ["binding", "sensitivities"]


def sensitivities(estimator: object, tol: float = 1e-6) -> pd.DataFrame:
    """How the optimal value of a fitted estimator's program moves with its parameters.

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
    import pandas as pd

    columns: list[dict[str, Any]] = []
    for names, machine in _machines(estimator):
        for found in _slopes(machine, tol):
            columns.append(
                {
                    **names,
                    "parameter": found.parameter,
                    "value": found.value,
                    "objective": found.objective,
                    "derivative": found.derivative,
                    "elasticity": found.elasticity,
                    "two_sided": found.two_sided,
                    "formula": found.formula,
                }
            )
    return pd.DataFrame(columns)


def binding(estimator: Solved) -> pd.DataFrame:
    """Which rows hold a fitted estimator's solution: its multipliers, family by family.

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

    Raises
    ------
    ValueError
        A solver that leaves no multipliers.
    """
    import pandas as pd

    frame = estimator.duals_
    need_multipliers(estimator, frame["multiplier"])
    sizes = frame["multiplier"].abs()
    small = ROW_TOL * float(sizes.max())
    keys = [name for name in ("pair", "outside", "row", "letter") if name in frame]
    found = []
    for key, mine in frame.assign(multiplier=sizes.where(sizes > small, 0.0)).groupby(keys, sort=False):
        each = mine.groupby("sample", sort=False)["multiplier"].sum().sort_values(ascending=False)
        found.append(
            {
                **dict(zip(keys, key, strict=True)),
                "rows": len(mine),
                "binding": int((mine["multiplier"] > 0).sum()),
                "total": float(mine["multiplier"].sum()),
                "largest": float(mine["multiplier"].max()),
                "samples": tuple([at for at in each[each > 0].index if at != -1][:3]),
            }
        )
    return pd.DataFrame(found)


def _machines(estimator: Any) -> list[tuple[dict[str, str], Any]]:
    """The binary machines with one program each, with the columns that tell them apart."""
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
