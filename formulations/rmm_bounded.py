"""The Relative Margin Machine with bounds at unlabelled samples.

Problem
-------
The Relative Margin Machine is a support vector machine whose outputs f(x) = w·x + b are bounded by ±B. These
bounds need no labels. So they can also be imposed at unlabelled samples: the samples to be classified, if
known in advance (transduction), or others of the same distribution. With bounds at the unlabelled samples
alone (training=False), the machine is of the class named H in the paper's appendix: small weights, and small
outputs at given samples. The appendix bounds the error of the class because these samples are independent of
the training set.

Variables and shapes
--------------------
w (m,), b scalar, the slacks xi (n,) of the margins; alpha (n,), lam and lam_star (N,) in the dual, printed α,
λ, λ*. X is (n, m), y is (n,) of -1 and +1, U is (k, m), the unlabelled samples. The bounded samples z_j are
the rows of X followed by those of U, N = n + k, or those of U alone, N = k. C is a scalar or (n,), B >= 0 a
scalar. If costs D (N,) of output beyond the bounds are given, tau and tau_star (N,) are the slacks of the
upper and lower bounds.

Programs
--------
qp        min  ½‖w‖² + Σ C_i ξ_i   s.t.  y_i f(x_i) ≥ 1 − ξ_i [α_i],  ξ ≥ 0,  ±f(z_j) ≤ B [λ_j, λ*_j]
qp_dual   max  Σ α_i − B Σ (λ_j + λ*_j) − ½ ‖Σ α_i y_i x_i − Σ (λ_j − λ*_j) z_j‖²
          s.t. Σ α_i y_i = Σ (λ_j − λ*_j) [b],  0 ≤ α ≤ C,  λ, λ* ≥ 0

Multipliers are in brackets. kernel_dual is qp_dual for a Gram matrix. With D, the bounds are B + τ_j and
B + τ*_j, at the cost Σ D_j (τ_j + τ*_j), and D_j is the cap of λ_j and λ*_j.

Recovery
--------
w = Σ α_i y_i x_i − Σ (λ_j − λ*_j) z_j: unlabelled samples may be support vectors too. b minimises the cost
within the bounds.

Multipliers
-----------
lam_j (lam_star_j) is the rate at which the optimal cost p* falls as the upper (lower) bound rises at z_j;
Σ(λ + λ*) = −dp*/dB. The solvers treat an unlabelled sample as a labelled one, of either class, with C_i = 0:
its margin costs nothing.

Infeasible when
---------------
Only if B < 0.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008): section 5 ("the constraints that bound the projection
are unsupervised; thus RMMs can readily work in semi-supervised and transduction problems") and appendix, the
set U and the class H. The programs are not printed there; they are eq. (7) and eq. (8) with additional rows.

Example
-------
>>> from formulations import rmm, rmm_bounded
>>> from formulations.language.toy_data import two_blobs
>>> (X, y), (U, _) = two_blobs(seed=0), two_blobs(n=20, seed=1)
>>> plain = rmm.qp(X, y, C=1.0, B=1.5).solve().objective
>>> same = rmm_bounded.qp(X, y, X[:5], C=1.0, B=1.5).solve().objective
>>> abs(same - plain) < 1e-7, rmm_bounded.qp(X, y, U, C=1.0, B=1.5).solve().objective > plain
(True, True)
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import bounded_families, extend_multipliers, stacked
from formulations.language.arguments import real_array
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_labels, gram_factor
from formulations.language.toy_data import two_blobs
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.rmm import BOUND_LETTERS, PAPER, bound_multipliers, output_bounds
from formulations.svm import IN_FEATURES, Bounds, in_features, soft_margin, soft_margin_dual

_SOURCE = f"{PAPER}, section 5 and appendix, not printed there"
_TITLE = "Relative Margin Machine with bounds at unlabelled samples"

LETTERS = {  # meaning of the letters in printed formulas
    "zⱼ": "the points $xᵢ$, followed by those of the unlabelled samples",
    "fⱼ": "the output of the machine at $zⱼ$",
    **{letter: BOUND_LETTERS[letter] for letter in ("B", "xᵢ", "yᵢ", "Cᵢ")},
}
_UNLABELLED_ONLY_LETTERS = {**LETTERS, "zⱼ": "the points of the unlabelled samples, which alone have bounds"}


def _heading(kind: str, ending: str, training: bool, D: ArrayLike | None) -> dict[str, str]:
    """Return name, title and source of a program; `ending` is the end of its title."""
    prefix = ("" if training else "h_") + ("" if D is None else "soft_")
    words = ("" if training else " alone") + ("" if D is None else ", with slack on them")
    return {"name": f"rmm_bounded.{prefix}{kind}", "title": f"{_TITLE}{words}{ending}", "source": _SOURCE}


def qp(
    X: MatrixLike, y: ArrayLike, U: MatrixLike, C: ArrayLike = 1.0, B: float = 2.0, *,
    training: bool = True, D: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the machine as a quadratic program, with the unlabelled samples U (k, m).

    Without `training` the bounds are at the unlabelled samples alone (class H). Other arguments as in
    :func:`formulations.rmm.qp`; D is one cost or one for each bounded sample.
    """
    samples, y = stacked(X, y, U)
    n = len(y)
    Z = samples if training else samples[n:]

    def bounds(w: cp.Variable, b: cp.Variable) -> Bounds:
        return replace(output_bounds(Z @ w + b, B, D, "zⱼ", "$zⱼ$"), data={"z": Z})

    heading = _heading("qp", "", training, D)
    return soft_margin(samples[:n], y, C, bounds, **heading, letters=_letters(training, D))


def _dual_from_factor(
    F: Matrix, y: Vector, C: ArrayLike, B: float, training: bool, D: ArrayLike | None,
    heading: Mapping[str, str], letters: Mapping[str, str],
) -> Program:  # fmt: skip
    """State the dual for the kernel FF'; rows of F (n + k, m) are the samples, the n labelled ones first."""
    n = len(y)
    X, Z = F[:n], F if training else F[n:]
    alpha, bounds = cp.Variable(n, name="alpha"), bound_multipliers(Z.shape[0], B, D, "ⱼ")
    lam, lam_star = bounds.variables["lam"], bounds.variables["lam_star"]
    w = X.T @ cp.multiply(y, alpha) - Z.T @ (lam - lam_star)
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    balance = Row("b", y @ alpha == cp.sum(lam - lam_star), "Σᵢ αᵢ yᵢ = Σⱼ (λⱼ − λ*ⱼ)", "b",
                  "the intercept $b$, sign included")  # fmt: skip
    return soft_margin_dual(
        C, alpha, w, balance, bounds, **heading, letters=letters, data={"x": X, "z": Z, "y": y},
        objective_text="Σᵢ αᵢ − B Σⱼ (λⱼ + λ*ⱼ) − ½ ‖Σᵢ αᵢ yᵢ xᵢ − Σⱼ (λⱼ − λ*ⱼ) zⱼ‖²",
    )  # fmt: skip


def qp_dual(
    X: MatrixLike, y: ArrayLike, U: MatrixLike, C: ArrayLike = 1.0, B: float = 2.0, *,
    training: bool = True, D: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the dual of the QP, for the linear kernel; arguments as in :func:`qp`."""
    Z, y = stacked(X, y, U)
    heading = _heading("qp_dual", ", dual", training, D)
    return _dual_from_factor(Z, y, C, B, training, D, heading, _letters(training, D))


def kernel_dual(
    K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, *,
    training: bool = True, D: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the dual of the QP for a Gram matrix of the n labelled samples, then the k unlabelled ones.

    Arguments as in :func:`qp`; ValueError if K is not positive semidefinite, or has at most n rows.
    """
    y = as_labels(y)
    F = gram_factor(real_array("K", K))
    if len(F) <= len(y):
        raise ValueError(f"K must have more rows than there are labels, {len(y)}, not {len(F)}")
    heading = _heading("kernel_dual", ", kernel dual", training, D)
    return _dual_from_factor(F, y, C, B, training, D, heading, {**_letters(training, D), **IN_FEATURES})


def _letters(training: bool, D: ArrayLike | None) -> dict[str, str]:
    """Return the printed letters of qp and qp_dual with their explanations."""
    cost = {} if D is None else {"Dⱼ": "> 0: the cost of a unit of output beyond $B$ at $zⱼ$"}
    return {**(LETTERS if training else _UNLABELLED_ONLY_LETTERS), **cost}


def recover(
    X: MatrixLike, y: ArrayLike, U: MatrixLike, C: ArrayLike, B: float, dual: Mapping[str, NDArray[Any]], *,
    training: bool = True, D: ArrayLike | None = None,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return primal variables, by name; `dual` maps alpha, lam and lam_star to their values."""
    Z, y = stacked(X, y, U)
    n, count = len(y), Z.shape[0]
    bounded = slice(0 if training else n, None)  # the samples with bounds
    slack_costs = np.full(count, np.inf)
    if D is not None:
        slack_costs[bounded] = D
    # The families are margins, upper bounds and lower bounds; β (count,) are the coefficients in w = Z'β.
    margins_and_bounds = bounded_families(y, C, B, count - n, training=training, D=slack_costs)
    multipliers = margins_and_bounds.of_letters(extend_multipliers(dual, n, count))
    w = Z.T @ margins_and_bounds.beta(margins_and_bounds.stacked(multipliers))
    b = margins_and_bounds.best_intercept(Z @ w)
    xi, tau, tau_star = (np.maximum(0.0, -family.surplus(Z @ w + b)) for family in margins_and_bounds)
    values = {"w": w, "b": np.array(b), "xi": xi[:n]}
    return values if D is None else {**values, "tau": tau[bounded], "tau_star": tau_star[bounded]}


def pairs(seed: int = 0) -> list[Duality]:
    """Return every primal of this module with its dual, on random data."""
    (X, y), (U, _) = two_blobs(seed=seed), two_blobs(n=20, seed=seed + 1)
    C, B, n = 1.0, 1.5, len(y)
    Z = np.vstack([X, U])
    K = (Z @ Z.T + 1.0) ** 2
    F = gram_factor(K)
    dualities = [
        Duality(in_features(qp(F[:n], y, F[n:], C, B)), kernel_dual(K, y, C, B),
                lambda v: recover(F[:n], y, F[n:], C, B, v))
    ]  # fmt: skip
    for training, D in ((True, None), (False, None), (True, 0.2)):
        recover_primal = partial(recover, X, y, U, C, B, training=training, D=D)
        primal, dual = (side(X, y, U, C, B, training=training, D=D) for side in (qp, qp_dual))
        dualities.append(Duality(primal, dual, recover_primal))
    return dualities
