"""The Relative Margin Machine with slack on its bounds: outputs beyond ±B are not forbidden, but cost.

Problem
-------
One sample far out holds every output of the Relative Margin Machine near its bound. Here an output may go
beyond ±B at the cost D per unit. For D above every multiplier of the bounds it is the Relative Margin
Machine; for D = 0 it would be the support vector machine.

Variables and shapes
--------------------
w (m,), b scalar, xi, tau, tau_star (n,); alpha, lam, lam_star (n,) in the dual. X is (n, m), y is (n,) of -1
and +1, C and D are scalars or (n,), B >= 0 a scalar. Throughout, f_i = w·x_i + b.

Programs
--------
qp, and qp_dual and kernel_dual: (8) of the Relative Margin Machine with two more rows, as a price per unit
beyond B is a cap on the multiplier of the bound, as C is on alpha.

Recovery
--------
w = Σ δ_i x_i; f(t) = Σ δ_i k(x_i, t) + b; b minimises the cost of all slacks.

Multipliers
-----------
lam_i (lam_star_i) is 0 within the bound, between 0 and D_i at it, and D_i beyond it. Σ(λ + λ*) = −dp*/dB;
Σ(τ + τ*) = dp*/dD for one D of all samples.

Infeasible when
---------------
Never. For B < 1 outputs at their margin pay for it: the estimator asks for B >= 1.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), section 3.1: the bound of eq. (5) "can be relaxed with
slack variables at the expense of one additional parameter", which the paper does not investigate.

Example
-------
>>> from formulations import rmm, soft_rmm
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> hard = rmm.qp(X, y, C=1.0, B=1.5).solve()
>>> dear = float(max(hard.duals["bound_above"].max(), hard.duals["bound_below"].max())) + 0.1
>>> soft, cheap = (soft_rmm.qp(X, y, 1.0, 1.5, D).solve() for D in (dear, 0.01))
>>> abs(soft.objective - hard.objective) < 1e-7, cheap.objective < hard.objective
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations import rmm
from formulations.families import Families, bound_families, hinge_families
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_costs, as_data, gram_factor
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.svm import in_features, margin_rows

_SOURCE = "Shivaswamy & Jebara (2008), section 3.1, not investigated there"


_PRICE = {"Dᵢ": "> 0: what a unit of output beyond $B$ costs at sample $i$"}


LETTERS = {**rmm.LETTERS, **_PRICE}


def families(y: ArrayLike, C: ArrayLike, B: float, D: ArrayLike) -> Families:
    """The families of rows: margins at the cost C, bounds at the cost D."""
    margins = hinge_families(y, C)
    return Families(*margins, *bound_families(margins.n, B, as_costs(D, margins.n, hard=True, name="D")))


def qp(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike = 1.0) -> Program:
    """The machine as a quadratic program.

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples.
    y, C, B
        As in :func:`formulations.rmm.qp`.
    D : float or array_like of shape (n,)
        Cost per unit beyond B, per sample.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, b = cp.Variable(m, name="w"), cp.Variable(name="b")
    xi, tau, tau_star = (cp.Variable(n, name=name) for name in ("xi", "tau", "tau_star"))
    hard = rmm.qp(X, y, C, B)
    costs, bound = hard.parameters["C"], hard.parameters["B"]
    dear = cp.Parameter(n, nonneg=True, name="D", value=as_costs(D, n, name="D"))
    f = X @ w + b
    rows = (
        Row("bound_above", f <= bound + tau, "w·xᵢ + b ≤ B + τᵢ", "lam",
            "saving per unit by which the upper bound is relaxed at sample i: $Dᵢ$ beyond it"),
        Row("slack_above", tau >= 0, "τᵢ ≥ 0", "rho", "unused price: $Dᵢ$ less lam"),
        Row("bound_below", -f <= bound + tau_star, "−(w·xᵢ + b) ≤ B + τ*ᵢ", "lam_star",
            "saving per unit by which the lower bound is relaxed at sample i: $Dᵢ$ beyond it"),
        Row("slack_below", tau_star >= 0, "τ*ᵢ ≥ 0", "rho_star", "unused price: $Dᵢ$ less lam_star"),
    )  # fmt: skip
    return Program(
        name="soft_rmm.qp",
        title="Relative Margin Machine with slack on its bounds",
        source=_SOURCE,
        objective=cp.Minimize(0.5 * cp.sum_squares(w) + costs @ xi + dear @ (tau + tau_star)),
        objective_text="½‖w‖² + Σᵢ Cᵢ ξᵢ + Σᵢ Dᵢ (τᵢ + τ*ᵢ)",
        variables={"w": w, "b": b, "xi": xi, "tau": tau, "tau_star": tau_star},
        rows=(*margin_rows(y, f, xi, "w·xᵢ + b"), *rows),
        parameters={"C": costs, "B": bound, "D": dear},
        letters=LETTERS,
        data={"x": X, "y": y},
    )


def _with_caps(dual: Program, D: ArrayLike, name: str, title: str) -> Program:
    """Dual (8) of the machine with hard bounds, with the caps that their slacks put on lam and lam_star."""
    lam, lam_star = dual.variables["lam"], dual.variables["lam_star"]
    dear = cp.Parameter(lam.size, nonneg=True, name="D", value=as_costs(D, lam.size, name="D"))
    rooms = {
        "bound_above": "room under the bound and its slack: $B + τᵢ − fᵢ$",
        "bound_below": "room above the bound and its slack: $B + τ*ᵢ + fᵢ$",
    }
    rows = (replace(row, says=rooms.get(row.name, row.says)) for row in dual.rows)
    caps = (
        Row("tau", lam <= dear, "λᵢ ≤ Dᵢ", "tau", "the slack of the upper bound"),
        Row("tau_star", lam_star <= dear, "λ*ᵢ ≤ Dᵢ", "tau_star", "the slack of the lower bound"),
    )
    return replace(
        dual,
        name=name,
        title=title,
        source=_SOURCE,
        rows=(*rows, *caps),
        parameters={**dual.parameters, "D": dear},
        letters={**dual.letters, **_PRICE},
    )


def qp_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike = 1.0) -> Program:
    """Dual of the QP, with the linear kernel K = XX'; arguments as in :func:`qp`."""
    title = "Relative Margin Machine with slack on its bounds, dual"
    return _with_caps(rmm.qp_dual(X, y, C, B), D, "soft_rmm.qp_dual", title)


def kernel_dual(
    K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike = 1.0
) -> Program:
    """Dual of the QP for a Gram matrix.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix.
    y, C, B, D
        As in :func:`qp`.
    """
    title = "Relative Margin Machine with slack on its bounds, kernel dual"
    return _with_caps(rmm.kernel_dual(K, y, C, B), D, "soft_rmm.kernel_dual", title)


def recover(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, D: ArrayLike, dual: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Primal variables from the dual's, by name."""
    X, y = as_data(X, y)
    rows = families(y, C, B, D)
    w = X.T @ rows.beta(rows.stacked(rows.of_letters(dual)))
    g = X @ w
    b = rows.best_intercept(g)
    xi, tau, tau_star = (np.maximum(0.0, -family.room(g + b)) for family in rows)
    return {"w": w, "b": np.array(b), "xi": xi, "tau": tau, "tau_star": tau_star}


def pairs(seed: int = 0) -> list[Duality]:
    """Every primal of this module with its dual, on random data."""
    X, y = two_blobs(seed=seed)
    C, B, D = 1.0, 1.5, 0.2
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)
    return [
        Duality(qp(X, y, C, B, D), qp_dual(X, y, C, B, D), lambda v: recover(X, y, C, B, D, v)),
        Duality(
            in_features(qp(F, y, C, B, D)), kernel_dual(K, y, C, B, D), lambda v: recover(F, y, C, B, D, v)
        ),
    ]
