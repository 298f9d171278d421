"""The Relative Margin Machine: a large margin relative to the range of the outputs.

Problem
-------
The machine is a support vector machine whose outputs on the training samples are bounded by ±B, so that the
margin is large relative to the range of the outputs along w. For B above the SVM's largest output it is the
SVM. As a single outlier may restrict all outputs, an output may also be allowed to exceed ±B at a cost D per
unit. For D above every multiplier of the hard bounds the optimum stays the same; D = 0 would be the SVM.

Variables and shapes
--------------------
w (m,), b scalar, the slacks xi of the margins and, with D, tau and tau_star of the upper and lower bounds
(n,); in the dual alpha, lam, lam_star (n,), printed α, λ, λ*, and δ_i = α_i y_i − λ_i + λ*_i, printed
δ = α∘y − λ + λ*. X is (n, m), y is (n,) of -1 and +1, C and D are scalars or (n,), B >= 0 a scalar.
Throughout, f_i = w·x_i + b, p* is the optimal cost, and multipliers are in brackets.

Programs
--------
qp (7)        min  ½‖w‖² + Σ C_i ξ_i
              s.t. y_i f_i ≥ 1 − ξ_i [α_i],  ξ ≥ 0,  f_i ≤ B [λ_i],  −f_i ≤ B [λ*_i]
qp_dual (8)   max  −½ δ'Kδ + Σ α_i − B Σ (λ_i + λ*_i)   s.t.  Σ δ_i = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0

In qp_dual K is XX'; kernel_dual is (8) for the kernel matrix K of any kernel. subproblem (9) is (8) over a
working set of samples, with the multipliers of the others fixed; its cross term has the coefficient 1, not
the printed ½. With D, qp, qp_dual and kernel_dual state the programs named soft_rmm: qp has the bounds
f_i ≤ B + τ_i and −f_i ≤ B + τ*_i at the cost Σ D_i (τ_i + τ*_i), and its dual the caps λ_i, λ*_i ≤ D_i.

qcqp (5) is qp with ½ f_i² ≤ ½ B² (the row ``spread``) for both bounds, and has the same optimum. Its dual
qcqp_dual (6) is solved as a semidefinite program,

    max  Σ α_i − ½ t − ½ B² Σ λ_i   s.t.  [M(λ), q; q', t] ⪰ 0,  0 ≤ α ≤ C,  λ ≥ 0,

with M(λ) = [I + X' diag(λ) X, X'λ; λ'X, 1'λ] and q = (X'(α∘y), y'α). The scalar t is an upper bound on
q'M(λ)⁻¹q, attained at the optimum. The paper writes (6)

    max  Σ α_i − ½ c'(I + Σ_λ)^{-1} c − (Σ α_i y_i)² / (2 Σ λ_i) − ½ B² Σ λ_i,   0 ≤ α ≤ C, λ ≥ 0,

with μ_λ = Σ λ_i x_i / Σ λ_i, Σ_λ = Σ λ_i x_i x_i' − (Σ λ_i) μ_λ μ_λ', c = Σ α_i y_i (x_i − μ_λ), but omits
the third term, without which (6) is not a bound.

The metric of a large relative margin
-------------------------------------
At the optimum of (5) its Lagrangian contains, besides the margins,

    ½‖w‖² + ½ Σ λ_i (w·x_i + b)²  =  ½ w'(I + Σ_λ) w + ½ Λ (w·μ_λ + b)²,
    Λ = Σ λ_i,   μ_λ = Σ λ_i x_i / Λ,   Σ_λ = Σ λ_i (x_i − μ_λ)(x_i − μ_λ)',

and its stationarity is (I + Σ_λ) w = Σ α_i y_i (x_i − μ_λ), the inverse matrix of the dual (6). So the RMM is
a support vector machine in the metric I + Σ_λ, that is, on samples whitened by (I + Σ_λ)^{-1/2}, with a
penalty on its mean output at the samples with active bounds. Only these samples, with |f_i| = B, are in Σ_λ;
changes of x along the directions in which they vary have less weight. The Sigma-SVM's metric is a weighted
mean of I and the covariance of all samples, which does not depend on the outputs.
:func:`bounding_spread` returns μ_λ and Σ_λ.

Recovery
--------
From (8): w = Σ δ_i x_i; f(t) = Σ δ_i k(x_i, t) + b; b minimises the cost within the bounds.
From (6): w is the first part of the solution of M(λ)(w, b) = q; b minimises the cost within the bounds.

Multipliers
-----------
alpha_i is the rate at which the optimal cost rises with the margin required of sample i. lam_i (lam_star_i)
is the rate at which it falls as the upper (lower) bound is relaxed at sample i; Σ(λ + λ*) = −dp*/dB. The
QCQP's λ_i is (λ_i + λ*_i)/B. For B > 1 a sample with α_i > 0 can only meet the bound on its wrong side. With
D, lam_i is 0 within the bound, between 0 and D_i at it, and D_i beyond it; Σ(τ + τ*) = dp*/dD for one D of
all samples.

Infeasible when
---------------
B < 0 only: w = 0, b = 0, ξ = 1 is feasible for every B >= 0. For B < 1 no sample can reach its margin and
every α_i is C_i, so the estimator requires B >= 1.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (5)-(9), with three misprints corrected: the sign of
b in the stationarity of (5), the missing term of (6), the factor of the cross term of (9). Section 3.1 for D:
the bound "can be relaxed with slack variables at the expense of one additional parameter", which the paper
does not investigate.

Example
-------
>>> from formulations import rmm
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> qp, qcqp = rmm.qp(X, y, C=1.0, B=1.5).solve(), rmm.qcqp(X, y, C=1.0, B=1.5).solve()
>>> abs(qp.objective - qcqp.objective) < 1e-7
True
>>> lam = (qp.duals["bound_above"] + qp.duals["bound_below"]) / 1.5
>>> bool(abs(lam - qcqp.duals["spread"]).max() < 1e-5)
True
>>> soft = rmm.qp(X, y, C=1.0, B=1.5, D=0.2).solve()
>>> bool(soft.objective <= qp.objective), bool(soft.duals["bound_above"].max() < 0.2 + 1e-6)
(True, True)
>>> mu, Sigma = rmm.bounding_spread(X, qp.duals["bound_above"], qp.duals["bound_below"], B=1.5)
>>> gradient = (X - mu).T @ (qp.duals["margin"] * y)
>>> bool(abs(qp["w"] + Sigma @ qp["w"] - gradient).max() < 1e-6)
True
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations import svm
from formulations.families import best_intercept, hinge_families
from formulations.language.arguments import at_least
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data, gram_factor, moments, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import Matrix, MatrixLike, Vector, dense

PAPER = "Shivaswamy & Jebara (2008)"
_TITLE = "Relative Margin Machine"
_SOFT_TITLE = f"{_TITLE} with slack on its bounds"

BOUND_LETTERS = {  # meaning of the letters in printed formulas
    "B": "≥ 0: the bound on the outputs of the machine",
    "fᵢ": "the output of the machine at sample $i$",
    **svm.LETTERS,
}
QCQP_LETTERS = {
    "M(λ)": "= [I + Σᵢ λᵢ xᵢxᵢ', Σᵢ λᵢ xᵢ; Σᵢ λᵢ xᵢ', Σᵢ λᵢ]",
    "q": "= (Σᵢ αᵢ yᵢ xᵢ, Σᵢ αᵢ yᵢ)",
    "w, b": "the hyperplane of the primal",
    **BOUND_LETTERS,
}
QP_LETTERS = {"δ": "= α∘y − λ + λ*", **BOUND_LETTERS}
KERNEL_QP_LETTERS = {**QP_LETTERS, **svm.KERNEL_LETTERS}
SUBPROBLEM_LETTERS = {
    "δ_f": "= α∘y − λ + λ*: of the working set, as are all letters without a mark",
    "δ_h": "the same of the fixed samples",
    "K_ff, K_fh": "the kernel matrix of the working set, and that between it and the fixed samples",
    **{letter: QP_LETTERS[letter] for letter in ("B", "fᵢ", "yᵢ", "Cᵢ")},
}


def bound_parameter(B: float) -> cp.Parameter:
    """Return the parameter B, finite and at least 0."""
    return cp.Parameter(nonneg=True, name="B", value=at_least("B", B, 0.0))


def _half_square(B: cp.Parameter) -> cp.Parameter:
    """Return ½B² as a parameter, so that the program stays parametrised in B."""
    return cp.CallbackParam(lambda: 0.5 * B.value**2, nonneg=True)


def qcqp(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """State the RMM as a quadratically constrained program, eq. (5).

    Parameters
    ----------
    X, y, C
        Samples (n, m), labels and costs of slack, as in :func:`formulations.svm.primal`.
    B : float
        Bound on the outputs, at least 0.
    """
    X, y = as_data(X, y)
    bound = bound_parameter(B)

    def bound_squares(w: cp.Variable, b: cp.Variable) -> svm.Bounds:
        says = "rate at which the cost falls as $½B²$ rises at sample i; 0 unless its output is $B$ or $−B$"
        is_within = 0.5 * cp.square(X @ w + b) <= _half_square(bound)
        return svm.Bounds(
            (Row("spread", is_within, "½(w·xᵢ + b)² ≤ ½B²", "lam", says),), parameters={"B": bound}
        )

    return svm.soft_margin(
        X, y, C, bound_squares,
        name="rmm.qcqp", title=f"{_TITLE}, QCQP", source=f"{PAPER}, eq. (5)", letters=QCQP_LETTERS,
    )  # fmt: skip


def qcqp_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """State the dual of the QCQP, eq. (6) with its missing term, as a semidefinite program of size m + 2.

    The linear matrix inequality needs no special case at λ = 0, where it forces Σ α_i y_i = 0.
    Arguments as in :func:`qcqp`; X dense.
    """
    X, y = as_data(X, y)
    X = dense(X)
    n, m = X.shape
    alpha, lam, t = cp.Variable(n, name="alpha"), cp.Variable(n, name="lam"), cp.Variable(name="t")
    costs, bound = svm.cost_parameter(C, n), bound_parameter(B)
    lifted = np.column_stack([X, np.ones(n)])
    identity = np.diag(np.append(np.ones(m), 0.0))
    M = identity + lifted.T @ cp.diag(lam) @ lifted
    q = cp.reshape(lifted.T @ cp.multiply(y, alpha), (m + 1, 1), order="C")
    block = cp.bmat([[M, q], [q.T, cp.reshape(t, (1, 1), order="C")]])
    rows = (
        Row("w_b", block >> 0, "[M(λ), q; q', t] ⪰ 0", "Z", "$½vv'$ with $v = (w, b, −1)$"),
        *svm.alpha_rows(alpha, costs),
        Row("spread", lam >= 0, "λᵢ ≥ 0", "slack", "slack of the bound: $½(B² − fᵢ²)$"),
    )
    return Program(
        name="rmm.qcqp_dual",
        title=f"{_TITLE}, dual of the QCQP",
        source=f"{PAPER}, eq. (6), corrected",
        objective=cp.Maximize(cp.sum(alpha) - 0.5 * t - _half_square(bound) * cp.sum(lam)),
        objective_text="Σᵢ αᵢ − ½ t − ½B² Σᵢ λᵢ",
        variables={"alpha": alpha, "lam": lam, "t": t},
        rows=rows,
        parameters={"C": costs, "B": bound},
        letters=QCQP_LETTERS,
        data={"x": X, "y": y},
    )


def recover_qcqp(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, alpha: NDArray[Any], lam: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return primal variables w, b, xi of (5) from the multipliers of (6).

    w is from a solution of M(λ)(w, b) = q; b, not determined by M(0), minimises the cost in the bounds.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    lifted = np.column_stack([X, np.ones(n)])
    M = np.diag(np.append(np.ones(m), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * y)
    w = np.linalg.lstsq(M, q, rcond=1e-10)[0][:m]
    b = best_intercept(X @ w, y, C, B)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y)}


def _heading(kind: str, D: ArrayLike | None) -> dict[str, Any]:
    """Return name, title, source and letters of the QP or of one of its duals."""
    letters = KERNEL_QP_LETTERS if kind == "kernel_dual" else QP_LETTERS
    family, title, source = "rmm", _TITLE, f"eq. ({7 if kind == 'qp' else 8})"
    if D is not None:
        family, title, source = "soft_rmm", _SOFT_TITLE, "section 3.1, not investigated there"
        letters = {**letters, "Dᵢ": "> 0: the cost of a unit of output beyond $B$ at sample $i$"}
    ending = {"qp": "QP with bounding constraints", "qp_dual": "dual of the QP", "kernel_dual": "kernel dual"}
    return {
        "name": f"{family}.{kind}", "title": f"{title}, {ending[kind]}", "source": f"{PAPER}, {source}",
        "letters": letters,
    }  # fmt: skip


def qp(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike | None = None
) -> Program:
    """State the RMM as a quadratic program with bounding constraints, eq. (7); arguments as in :func:`qcqp`.

    D is the cost per unit beyond B, one or (n,); by default outputs beyond B are forbidden.
    """
    X, y = as_data(X, y)
    return svm.soft_margin(X, y, C, lambda w, b: output_bounds(X @ w + b, B, D), **_heading("qp", D))


def output_bounds(
    f: cp.Expression, B: float, D: ArrayLike | None, point: str = "xᵢ", where: str = "sample i"
) -> svm.Bounds:
    """Return the bounds ±B on f, with slacks of the cost D if it is given.

    `point` names a sample in formulas, and ends in its index; `where` names the same sample in phrases.
    """
    i, bound = point[-1], bound_parameter(B)  # i is the index, a subscript
    tau, tau_star = (cp.Variable(f.shape[0], name=name) for name in ("tau", "tau_star"))
    upper, lower, upper_text, lower_text, beyond = bound, bound, "B", "B", ""
    if D is not None:
        upper, lower = bound + tau, bound + tau_star
        upper_text, lower_text, beyond = f"B + τ{i}", f"B + τ*{i}", f": $D{i}$ beyond it"
    says = f"rate at which the cost falls as the {{}} bound is relaxed at {where}{beyond}"
    # Fields of a Row: name, constraint, printed text, letter and meaning of its multiplier.
    above = Row("bound_above", f <= upper, f"w·{point} + b ≤ {upper_text}", "lam", says.format("upper"))
    below = Row("bound_below", -f <= lower, f"−(w·{point} + b) ≤ {lower_text}", "lam_star",
                says.format("lower"))  # fmt: skip
    if D is None:
        return svm.Bounds((above, below), parameters={"B": bound})
    costs = svm.cost_parameter(D, f.shape[0], "D")
    slack_above = Row("slack_above", tau >= 0, f"τ{i} ≥ 0", "rho", f"$D{i}$ less lam")
    slack_below = Row("slack_below", tau_star >= 0, f"τ*{i} ≥ 0", "rho_star", f"$D{i}$ less lam_star")
    return svm.Bounds(
        (above, slack_above, below, slack_below), costs @ (tau + tau_star), f" + Σ{i} D{i} (τ{i} + τ*{i})",
        {"tau": tau, "tau_star": tau_star}, {"B": bound, "D": costs},
    )  # fmt: skip


def bound_multipliers(count: int, B: float, D: ArrayLike | None, i: str = "ᵢ") -> svm.Bounds:
    """Return the multipliers λ, λ* ≥ 0 of `count` bounds ±B in the dual, with caps if D is given."""
    lam, lam_star = cp.Variable(count, name="lam"), cp.Variable(count, name="lam_star")
    bound = bound_parameter(B)
    limit, limit_star = ("B", "B") if D is None else (f"B + τ{i}", f"B + τ*{i}")
    says, says_star = f"slack of the bound: ${limit} − f{i}$", f"slack of the bound: ${limit_star} + f{i}$"
    above = Row("bound_above", lam >= 0, f"λ{i} ≥ 0", "slack", says)
    below = Row("bound_below", lam_star >= 0, f"λ*{i} ≥ 0", "slack_star", says_star)
    variables = {"lam": lam, "lam_star": lam_star}
    cost = bound * cp.sum(lam + lam_star)
    if D is None:
        return svm.Bounds((above, below), cost, variables=variables, parameters={"B": bound})
    costs = svm.cost_parameter(D, count, "D")
    cap = Row("tau", lam <= costs, f"λ{i} ≤ D{i}", "tau", "excess over the upper bound")
    cap_star = Row("tau_star", lam_star <= costs, f"λ*{i} ≤ D{i}", "tau_star", "excess over the lower bound")
    rows = above, below, cap, cap_star
    return svm.Bounds(rows, cost, variables=variables, parameters={"B": bound, "D": costs})


def _dual_from_factor(
    F: Matrix, y: Vector, C: ArrayLike, B: float, D: ArrayLike | None, kind: str, data: dict[str, Any]
) -> Program:
    """State (8) for the kernel K = FF'."""
    alpha, bounds = cp.Variable(len(y), name="alpha"), bound_multipliers(len(y), B, D)
    delta = cp.multiply(y, alpha) - bounds.variables["lam"] + bounds.variables["lam_star"]
    balance = Row("b", cp.sum(delta) == 0, "Σᵢ δᵢ = 0", "b", "the intercept $b$, sign included")
    return svm.soft_margin_dual(
        C, alpha, F.T @ delta, balance, bounds, **_heading(kind, D), data={**data, "y": y},
        objective_text="−½ δ'Kδ + Σᵢ αᵢ − B Σᵢ λᵢ − B Σᵢ λ*ᵢ",
    )  # fmt: skip


def qp_dual(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike | None = None
) -> Program:
    """State the dual of the QP, eq. (8), with the linear kernel K = XX'; arguments as in :func:`qp`."""
    X, y = as_data(X, y)
    return _dual_from_factor(X, y, C, B, D, "qp_dual", {"x": X})


def kernel_dual(
    K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0, D: ArrayLike | None = None
) -> Program:
    """State the dual of the QP, eq. (8), for a Gram matrix K (n, n); arguments as in :func:`qp`."""
    K, y = as_data(K, y)
    return _dual_from_factor(gram_factor(K), y, C, B, D, "kernel_dual", {"K": K})


def subproblem(
    K: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, alpha: NDArray[Any], lam: NDArray[Any],
    lam_star: NDArray[Any], free: ArrayLike,
) -> Program:  # fmt: skip
    """State subproblem (9): dual (8) over a working set, for decomposition (one working set at a time).

    Arguments as in :func:`kernel_dual`; alpha, lam and lam_star (n,) are a feasible point of (8), and `free`
    has the indices of the working set. The objective lacks the terms of the others alone.
    """
    K, y = as_data(K, y)
    free = np.unique(np.asarray(free, dtype=int))
    if len(free) == 0 or free[0] < 0 or free[-1] >= len(y):
        raise ValueError(f"free must hold sample numbers from 0 to {len(y) - 1}, at least one; not {free}")
    fixed = np.setdiff1d(np.arange(len(y)), free)
    delta_fixed = (alpha * y - lam + lam_star)[fixed]
    alpha_free, bounds = cp.Variable(len(free), name="alpha"), bound_multipliers(len(free), B, None)
    delta = cp.multiply(y[free], alpha_free) - bounds.variables["lam"] + bounds.variables["lam_star"]
    costs = svm.cost_parameter(np.broadcast_to(np.asarray(C, dtype=float), y.shape)[free], len(free))
    says = "the intercept $b$ that is optimal for the working set"
    balance = Row("b", cp.sum(delta) == -delta_fixed.sum(), "Σᵢ δ_{f,i} = −Σⱼ δ_{h,j}", "b", says)
    K_ff, K_fh = K[np.ix_(free, free)], K[np.ix_(free, fixed)]
    F = gram_factor(K_ff)
    quadratic = -0.5 * cp.sum_squares(F.T @ delta) - (K_fh @ delta_fixed) @ delta
    return Program(
        name="rmm.subproblem",
        title=f"{_TITLE}, subproblem of the decomposition",
        source=f"{PAPER}, eq. (9), corrected",
        objective=cp.Maximize(quadratic + cp.sum(alpha_free) - bounds.cost),
        objective_text="−½ δ_f'K_ff δ_f − δ_f'K_fh δ_h + Σᵢ αᵢ − B Σᵢ λᵢ − B Σᵢ λ*ᵢ",
        variables={"alpha": alpha_free, **bounds.variables},
        rows=(balance, *svm.alpha_rows(alpha_free, costs), *bounds.rows),
        parameters={"C": costs, **bounds.parameters},
        letters=SUBPROBLEM_LETTERS,
        data={"y": y[free], "K_ff": K_ff, "K_fh": K_fh, "δ_h": delta_fixed},
    )


def recover(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, dual: Mapping[str, NDArray[Any]],
    D: ArrayLike | None = None,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return primal variables of (7), by name; `dual` maps alpha, lam and lam_star to their values."""
    X, y = as_data(X, y)
    families = hinge_families(y, C, B, np.inf if D is None else D)  # the margins, and both bounds
    delta = families.beta(families.stacked(families.of_letters(dual)))  # α∘y − λ + λ*
    w = X.T @ delta
    b = families.best_intercept(X @ w)
    values = {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y)}
    if D is None:
        return values
    _, tau, tau_star = (np.maximum(0.0, -family.surplus(X @ w + b)) for family in families)
    return {**values, "tau": tau, "tau_star": tau_star}


def bounding_spread(X: MatrixLike, lam: ArrayLike, lam_star: ArrayLike, B: float) -> tuple[Vector, Vector]:
    """Return μ_λ (m,) and Σ_λ (m, m); without an active bound, the mean of all samples and zeros."""
    weights = (np.asarray(lam, dtype=float) + np.asarray(lam_star, dtype=float)) / B
    total = float(weights.sum())
    if total == 0.0:
        mean, covariance = moments(X)
        return mean, np.zeros_like(covariance)
    mean, covariance = moments(X, weights)
    return mean, total * covariance


def pairs(seed: int = 0) -> list[Duality]:
    """Return every primal of this module with its dual, on random data."""
    X, y = two_blobs(seed=seed)
    C, B = 1.0, 1.5
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)
    primal, dual = qcqp(X, y, C, B), qcqp_dual(X, y, C, B)
    dualities = [Duality(primal, dual, lambda v: recover_qcqp(X, y, C, B, v["alpha"], v["lam"]))]
    for D in (None, 0.2):
        linear, kernel = partial(recover, X, y, C, B, D=D), partial(recover, F, y, C, B, D=D)
        dualities += [
            Duality(qp(X, y, C, B, D), qp_dual(X, y, C, B, D), linear),
            Duality(svm.in_features(qp(F, y, C, B, D)), kernel_dual(K, y, C, B, D), kernel),
        ]
    return dualities


def singles(seed: int = 0) -> list[Program]:
    """Return the subproblem, which has no dual here, on random data."""
    X, y = two_blobs(seed=seed)
    K = (X @ X.T + 1.0) ** 2
    # A feasible point of (8) that is far from optimal: equal multipliers for both classes.
    alpha, zeros = np.full(len(y), 0.03), np.zeros(len(y))
    return [subproblem(K, y, 1.0, 1.5, alpha, zeros, zeros, np.arange(0, len(y) - 1, 3))]
