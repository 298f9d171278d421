"""Certificate of the L0 support vector machine, and the bounds that multipliers prove on its scores.

For fixed multipliers u of the margin rows, 0 ≤ u ≤ w and Σ y_i u_i = 0, with r_j = t_j (K'Yu)_j,

    L(σ) ≥ Σ u − Σ_j σ_j q_j           for every pattern σ: a cut, tight where u is optimal,
    S(σ) ≥ C Σ u − Σ_j [C q_j − 1]_+   for every pattern σ, since each centre used costs 1,

where q_j = C [r_j]_+ is the most that a coefficient can save. The multipliers of the relaxation, divided by
C, make the most of the second. Any numbers do for u: they are clipped to their caps and balanced first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import L0Data, as_l0_data
from formulations.language.arguments import real_array, tolerance
from formulations.language.recovery import slacks
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.given import checked_number, checked_vector
from polyopt.linalg.rounding import Ball
from polyopt.sparse import expansion_terms as expansion

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Vector

__all__ = ["certify_l0", "certify_l0_data", "cut_of", "score_bound"]

_BROKEN = "The point breaks its box; the value is of the point clipped to it."
_REPAIRED = "The value is of the point clipped to its box, without coefficients under 1e-9 of the cap."
_OTHERS = "Another pattern may have a lower score."
_LEAVES = "The bound is the least of the branch-and-bound leaves', each evaluated from the data."


def cut_of(data: L0Data, u: Vector) -> tuple[Ball, Ball]:
    """The cut that multipliers prove: L(σ) ≥ constant − slopes·σ for every pattern σ.

    u (n,): multipliers of the margin rows, of any pattern's program; repaired where they are not feasible.
    Returns constant: σ u.
    Returns slopes (p,): the q_j above, never negative. The cut holds with the constant's lower end and the
        upper ends of the slopes.
    """
    feasible = expansion.balanced(u, data.y, data.weights)
    rates = expansion.rates(data.rates(feasible.mid), *data.column_sizes, feasible)
    return feasible.sum(), (data.C * rates).positive()


def score_bound(data: L0Data, u: Vector) -> float:
    """A bound from below on the score of every pattern; arguments as in :func:`cut_of`.

    At the multipliers of the relaxation divided by C it is the value of the relaxation, less its rounding.
    """
    return float(_score_bound(data, u).lower)


def _score_bound(data: L0Data, u: Vector) -> Ball:
    constant, slopes = cut_of(data, u)
    return data.C * constant - (data.C * slopes - 1.0).positive().sum()


def certify_l0(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, *, alpha: ArrayLike, b: float | None = None,
    weights: ArrayLike | None = None, centres: ArrayLike | None = None, u: ArrayLike | None = None,
    v: ArrayLike | None = None, bound: float | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point of the L0 support vector machine (:mod:`formulations.l0`).

    Parameters
    ----------
    K, y, weights, centres
        As in :func:`formulations.l0.pattern`.
    C : float
        Price of loss, and cap of the coefficients.
    alpha : array_like of shape (p,)
        Coefficients. The pattern is their support; what is under 1e-9 of the cap is taken as zero.
    b : float, optional
        Intercept; by default the best one for alpha.
    u : array_like of shape (n,), optional
        Multipliers of the margin rows in the program of the pattern. By default its dual is solved for them;
        only their dual value, evaluated here, enters the certificate.
    v : array_like of shape (n,), optional
        Multipliers of the margin rows in the relaxation, which bound the score of every pattern.
    bound : float, optional
        A bound on every score that an integer solver states. It cannot be checked here: where it is attained
        and nothing proven is, the claim is ``solvers_word``.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        With a bound on every score (`v` or `bound`): ``optimal`` if the point attains a proven one,
        ``solvers_word`` if it attains `bound`, else ``suboptimal_by``. Without: ``stationary`` if the point
        is optimal for its pattern, else ``suboptimal_by``, for that pattern. ``none`` for coefficients
        outside their box.

    Raises
    ------
    ValueError
        Shapes that do not fit, numbers that are not finite, C not positive, centres other than -1 and
        +1, or a tolerance outside (0, 1).
    """
    data = as_l0_data(K, y, C, weights, centres)
    stated = checked_number("bound", bound, infinite=True)
    return certify_l0_data(data, alpha, b, u=u, v=v, stated=stated, tol=tol)


def certify_l0_data(
    data: L0Data, alpha: ArrayLike, b: float | None = None, *, u: ArrayLike | None = None,
    v: ArrayLike | None = None, searched: float | None = None, stated: float | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point of a problem whose numbers have been checked, its entries' errors among them.

    searched: the bound on every score that :func:`polyopt.sparse.tree.solve_l0_tree` proved. No
        caller's number: each leaf of it was evaluated as the bounds here are.
    stated: A bound that an integer solver states.
    """
    tol = tolerance(tol)
    given = real_array("alpha", alpha, data.centres.shape)
    of_pattern = checked_vector("u", u, data.y.shape)
    of_relaxation = checked_vector("v", v, data.y.shape)
    b = checked_number("b", b)
    at = np.clip(given, 0.0, data.C)
    pattern = data.support(at)
    at = np.where(pattern, at, 0.0)
    b = best_intercept(data.outputs(at, 0.0), data.y, data.weights) if b is None else b
    f = expansion.outputs(data.K, data.centres * at, b, data.entry_error)
    centres = float(pattern.sum())
    loss = expansion.loss(f, data.y, data.weights)
    value = centres + data.C * loss if loss.mid or loss.rad else Ball(centres)  # the latter exactly
    residuals = [
        residual("primal", "sign", -given, data.C),
        residual("primal", "cap", given - data.C, data.C),
    ]
    feasible = all(r.relative <= tol for r in residuals)
    notes = [_BROKEN] if not feasible else [_REPAIRED] if (at != given).any() else []

    constant, slopes = cut_of(data, _solve_dual(data, pattern) if of_pattern is None else of_pattern)
    least = centres + data.C * (constant - slopes[pattern].sum()).positive()
    if float(least.lower) < centres:  # no loss is less than none
        least = Ball(centres)
    size = float(value.mid)
    residuals.append(residual("stationarity", "pattern", value.mid - least.mid, size))
    if of_pattern is not None:
        residuals += _conditions(data, at, f.mid, of_pattern, pattern, size / data.C)

    best = Ball(0.0)  # no score is below 0
    if of_relaxation is not None:
        relaxed = _score_bound(data, of_relaxation / data.C)
        best = relaxed if relaxed.lower >= best.lower else best
    if searched is not None and Ball(searched).lower > best.lower:
        best = Ball(searched)
        notes.append(_LEAVES)
    every = of_relaxation is not None or searched is not None or stated is not None
    return conclude(
        "the L0 support vector machine",
        value,
        best if every else least,
        residuals,
        tol,
        feasible=feasible,
        reached=Claim.OPTIMAL if every else Claim.STATIONARY,
        scope="the program" if every else "its pattern",
        notes=notes if every else [*notes, _OTHERS],
        stated=stated,
    )


def _solve_dual(data: L0Data, pattern: NDArray[np.bool_]) -> Vector:
    from formulations import l0

    found = l0.pattern_dual(data.K, data.y, pattern, data.C, data.weights, data.centres).solve()
    return np.asarray(found.primal.get("u", np.zeros(len(data.y))))


def _conditions(
    data: L0Data, alpha: Vector, f: Vector, u: Vector, pattern: NDArray[np.bool_], scale: float
) -> list[Residual]:
    """Signs of the multipliers, their balance, and the products whose sum is the gap within the pattern."""
    largest, size = float(data.weights.max()), float(np.abs(u).sum())
    xi, off = slacks(f, data.y), abs(float(data.y @ u))
    r = np.where(pattern, data.rates(u), 0.0)
    return [
        residual("sign", "margin", -u, largest),
        residual("sign", "slack", u - data.weights, largest),
        Residual("stationarity", "b", off, off / size if size > 0 else off),
        residual("complementarity", "margin", np.abs(u * (data.y * f - 1.0 + xi)), scale),
        residual("complementarity", "slack", np.abs((data.weights - u) * xi), scale),
        residual("complementarity", "sign", np.abs(alpha * np.maximum(-r, 0.0)), scale),
        residual("complementarity", "cap", np.abs((data.C - alpha) * np.maximum(r, 0.0)), scale),
    ]
