"""Certificate of the SVM with the hard-margin loss, and the bounds that multipliers prove.

Every number here is a theorem about real numbers. For multipliers α ≥ 0 of some samples S with Σ α_i y_i = 0,

    V(S) = min { ½‖w‖² : y_i (w·x_i + b) ≥ 1, i in S }  ≥  max_t  t Σ α − ½ t² ‖Σ α_i y_i x_i‖²
         = (Σ α)² / (2 ‖Σ α_i y_i x_i‖²),

so that a solution that is better than U gives up at least one sample of a set whose bound is U; and of the
relaxation, with M_i of :meth:`formulations.hard_margin_loss_data.HardMarginLossData.big_m`,

    optimum  ≥  Σ α − ½‖Σ α_i y_i x_i‖² − Σ_i [M_i α_i − C_i]_+ .
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array, tolerance
from formulations.hard_margin_loss_data import HardMarginLossData, as_hard_margin_loss_data
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.expansion import balanced
from polyopt.certificates.given import checked_number, checked_vector
from polyopt.certificates.rounding import Ball, largest_bound, product, transposed_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

    Places = NDArray[np.int64]

__all__ = [
    "certain_margins", "certify_hard_margin_loss", "certify_hard_margin_loss_data", "least_square",
    "proven_point", "relaxed_bound",
]  # fmt: skip

_LENGTHENED = "The value is of the point times {:.15g}, with which the margins it meets are met for certain."
_OTHERS = "Another choice of the samples given up may cost less."
_LEAVES = "The bound is the least of the branch-and-bound leaves', each evaluated from the data."
_PROGRAM = "the SVM with the hard-margin loss"
_WITHIN_A_HAIR = (1.0 - 2.0**-50, 1.0 + 2.0**-50)  # times a result of a few roundings: below it, and above it


def certain_margins(data: HardMarginLossData, w: Vector, b: float) -> Vector:
    """Numbers that the margins y_i (w·x_i + b) are at least, shape (n,)."""
    if not w.any():
        return np.asarray(data.y * b)  # exactly
    return np.asarray((product(data.X, w) + b).signed(data.y).lower)


def proven_point(data: HardMarginLossData, w: Vector, b: float) -> tuple[Vector, float]:
    """The point times so little more than 1 that the margins it meets are certainly met.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    w : ndarray of shape (m,)
        Weights.
    b : float
        Intercept. What (w, b) meets up to 1e-7 counts as met.

    Returns
    -------
    (ndarray, float)
        The point; where rounding is as large as the margins it is that with w = 0 which gives up the cheaper
        class.
    """
    met = data.met(w, b)
    for _ in range(4):
        least = float(certain_margins(data, w, b)[met].min(initial=1.0))
        if least >= 1.0:
            return w, b
        if least <= 0.5:
            break
        factor = _WITHIN_A_HAIR[1] / least
        w, b = w * factor, b * factor
    return data.idle()


def least_square(data: HardMarginLossData, members: Places, alpha: Vector) -> float:
    """A bound on V(S), what it costs to meet the samples `members` all together; never below 0.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    members : ndarray of int
        The samples S.
    alpha : ndarray
        Any numbers as their multipliers; they are clipped and balanced first.
    """
    y = data.y[members]
    feasible = balanced(alpha, y, np.full(len(alpha), np.inf))
    pull = transposed_product(data.X[members], feasible.signed(y), data.centre)
    total, square = float(feasible.sum().lower), float(pull.square_sum().upper)
    if total <= 0.0:
        return 0.0
    return np.inf if square <= 0.0 else _WITHIN_A_HAIR[0] * total * (total / (2.0 * square))


def relaxed_bound(data: HardMarginLossData, alpha: Vector) -> Ball:
    """What multipliers of the margins, (n,), prove of the relaxation and so of every point."""
    feasible = balanced(alpha, data.y, np.full(len(alpha), np.inf))
    pull = transposed_product(data.X, feasible.signed(data.y), data.centre)
    over = (feasible * data.big_m() - data.costs).positive()
    return feasible.sum() - 0.5 * pull.square_sum() - over.sum()


def certify_hard_margin_loss(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, w: ArrayLike, b: float,
    alpha: ArrayLike | None = None, v: ArrayLike | None = None, bound: float | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point of the SVM with the hard-margin loss (:mod:`formulations.hard_margin_loss`).

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.hard_margin_loss.mixed_integer`.
    w : array_like of shape (m,)
        Weights.
    b : float
        Intercept. Samples whose margin is short of 1 by more than 1e-7 are given up.
    alpha : array_like of shape (n,), optional
        Multipliers of the margins in the program of the samples kept.
    v : array_like of shape (n,), optional
        Multipliers of the margins in the relaxation, which bound every point's value.
    bound : float, optional
        A bound that an integer solver states. It cannot be checked here: where it is attained and nothing
        proven is, the claim is ``solvers_word``.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        With `v` or `bound`: ``optimal`` if the point attains a proven bound on all points, ``solvers_word``
        if it attains `bound`, else ``suboptimal_by``. Without: ``stationary`` if the point is the best with
        the samples it gives up, else ``suboptimal_by``, for those.

    Raises
    ------
    ValueError
        Shapes that do not fit, numbers that are not finite, one class alone, a cost that is not positive, or
        a tolerance outside (0, 1).
    """
    data = as_hard_margin_loss_data(X, y, C)
    stated = checked_number("bound", bound, infinite=True)
    return certify_hard_margin_loss_data(data, w, b, alpha=alpha, v=v, stated=stated, tol=tol)


def certify_hard_margin_loss_data(
    data: HardMarginLossData, w: ArrayLike, b: float, *, alpha: ArrayLike | None = None,
    v: ArrayLike | None = None, searched: float | None = None, stated: float | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point of a problem whose numbers have been checked.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    w, b, alpha, v, tol
        As of :func:`certify_hard_margin_loss`.
    searched : float, optional
        The bound on every point that :func:`polyopt.solvers.hard_margin_loss.tree.solve_tree` proved. No
        caller's number: each leaf of it was evaluated as the bounds here are.
    stated : float, optional
        A bound that an integer solver states.
    """
    tol = tolerance(tol)
    given = real_array("w", w, (data.X.shape[1],))
    intercept = float(checked_number("b", b) or 0.0)
    of_kept = checked_vector("alpha", alpha, data.y.shape)
    of_relaxation = checked_vector("v", v, data.y.shape)
    at, its_b = proven_point(data, given, intercept)
    certain = certain_margins(data, at, its_b) >= 1.0
    given_up = Ball(data.costs[~certain]).sum() if not certain.all() else Ball(0.0)
    value = 0.5 * Ball(at).square_sum() + given_up if at.any() else given_up
    notes = [] if its_b == intercept else [_LENGTHENED.format(its_b / intercept if intercept else np.nan)]

    kept = given_up
    residuals: list[Residual] = []
    if of_kept is not None:
        members = np.flatnonzero(certain)
        length = least_square(data, members, of_kept[members])
        kept = given_up + length
        outside = np.where(certain, 0.0, np.abs(of_kept))
        scale = max(float(np.abs(of_kept).max(initial=0.0)), 1e-300)
        residuals.append(residual("sign", "margin", -of_kept, scale))
        residuals.append(residual("dual", "given up", outside, scale))
        size = float(value.mid)
        residuals.append(residual("stationarity", "kept", value.mid - kept.mid, size))
    bounds = [] if of_relaxation is None else [relaxed_bound(data, of_relaxation)]
    best, is_searched = largest_bound(bounds, searched)
    every = bool(bounds) or searched is not None or stated is not None
    if is_searched:
        notes.append(_LEAVES)
    return conclude(
        _PROGRAM,
        value,
        best if every else kept,
        residuals,
        tol,
        reached=Claim.OPTIMAL if every else Claim.STATIONARY,
        scope="the program" if every else "the samples it gives up",
        notes=notes if every else [*notes, _OTHERS],
        stated=stated,
    )
