"""The support vector machine: primal, dual and kernel dual.

Problem
-------
Separate two classes by the hyperplane f(x) = w'x + b of largest margin, at a cost C_i for each unit by which
sample i violates y_i f(x_i) >= 1.

Variables and shapes
--------------------
w (m,), b scalar, the slacks xi (n,), printed ξ; alpha (n,), printed α, in the dual. X is (n, m), y is (n,) of
-1 and +1, C is a scalar or (n,).

Programs
--------
primal (1) is min ½‖w‖² + Σ C_i ξ_i subject to y_i f(x_i) ≥ 1 − ξ_i and ξ ≥ 0; soft_margin adds rows on the
outputs f, and soft_margin_dual states its dual. dual (2) is max Σ α_i − ½ Σ α_i α_j y_i y_j K_ij subject to
Σ α_i y_i = 0 and 0 ≤ α_i ≤ C_i, with the linear kernel K = XX'; kernel_dual is (2) for any Mercer kernel k,
and in_features its primal. A row is a named constraint. The rows of a dual are named after the primal's
quantities that are their multipliers: the multiplier of the row ``b`` is b, that of ``xi`` is ξ, that of
``margin`` is the surplus of the primal's row ``margin``.

Recovery
--------
w = Σ α_i y_i x_i, or f(t) = Σ α_i y_i k(x_i, t) + b for a point t. b minimises the cost of the slacks, which
are ξ_i = [1 − y_i f(x_i)]_+; if no 0 < α_i < C_i, it may be any point of an interval.

Multipliers
-----------
alpha_i is the rate at which the optimal cost rises with the margin required of sample i: 0 beyond the margin,
between 0 and C_i on it, C_i inside it. beta_i = C_i − alpha_i is the multiplier of ξ_i ≥ 0.

Infeasible when
---------------
Never for finite C: w = 0, ξ = 1 is feasible. With one class only, w = 0 is optimal at cost 0.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (1), (2).

Example
-------
>>> import numpy as np
>>> from formulations import svm
>>> X, y = np.array([[-2.0], [0.0], [1.0], [3.0]]), np.array([-1, -1, 1, 1])
>>> solution = svm.primal(X, y, C=10.0).solve()
>>> solution["w"].round(6), float(solution["b"].round(6))
(array([2.]), -1.0)
>>> solution.duals["margin"].round(6) + 0.0  # alpha: the two samples on the margin
array([0., 2., 2., 0.])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import best_intercept
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_costs, as_data, gram_factor, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike

_PAPER = "Shivaswamy & Jebara (2008)"

LETTERS = {  # meaning of the letters in printed formulas
    "xᵢ": "sample $i$",
    "Kᵢⱼ": "= xᵢ·xⱼ: the linear kernel",
    "yᵢ": "the label of sample $i$, +1 or −1",
    "Cᵢ": "the cost of sample $i$'s slack, $C$ times its weight",
}
KERNEL_LETTERS = {**LETTERS, "Kᵢⱼ": "the kernel matrix, $k(xᵢ, xⱼ)$"}
IN_FEATURES = {"xᵢ": "the image of sample $i$ in the feature space of the kernel"}


def cost_parameter(C: ArrayLike, n: int, name: str = "C") -> cp.Parameter:
    """Return the costs C_i as a parameter of shape (n,)."""
    return cp.Parameter(n, nonneg=True, name=name, value=as_costs(C, n, name=name))


def pair_costs(C: cp.Parameter, Z: cp.Parameter) -> cp.Parameter:
    """Return the products C_i Z_ik (n, K) as a parameter, recomputed when C or Z is set."""
    return cp.CallbackParam(lambda: C.value[:, None] * Z.value, shape=Z.shape, nonneg=True)


def margin_rows(y: NDArray[Any], f: cp.Expression, xi: cp.Variable, f_text: str) -> tuple[Row, Row]:
    """Return the rows ``margin`` and ``slack`` of a program with hinge losses."""
    says = "rate at which the cost rises with sample i's margin: 0 beyond it, up to $Cᵢ$ on it, $Cᵢ$ inside"
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    margin = Row("margin", cp.multiply(y, f) >= 1 - xi, f"yᵢ({f_text}) ≥ 1 − ξᵢ", "alpha", says)
    slack = Row("slack", xi >= 0, "ξᵢ ≥ 0", "beta", "cost of slack less alpha: $Cᵢ − αᵢ$")
    return margin, slack


def alpha_rows(alpha: cp.Variable, C: cp.Parameter) -> tuple[Row, Row]:
    """Return the rows 0 <= alpha <= C of the dual of a program with hinge losses."""
    sign = Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "surplus of sample i over its margin row")
    cap = Row("xi", alpha <= C, "αᵢ ≤ Cᵢ", "xi", "the slack $ξᵢ$ of sample i")
    return sign, cap


@dataclass(frozen=True)
class Bounds:
    """Constraints on outputs, added to those of (1), and the cost of their slacks; or the same of a dual."""

    rows: tuple[Row, ...] = ()
    cost: cp.Expression | float = 0.0  # term of the objective
    cost_text: str = ""  # `cost` as printed, beginning with `` + ``
    variables: Mapping[str, cp.Variable] = field(default_factory=dict)
    parameters: Mapping[str, cp.Parameter] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)  # values of letters in the rows


def primal(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the SVM primal, eq. (1).

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    """
    title = "Support vector machine, primal"
    return soft_margin(X, y, C, name="svm.primal", title=title, source=f"{_PAPER}, eq. (1)", letters=LETTERS)


def soft_margin(
    X: MatrixLike, y: ArrayLike, C: ArrayLike,
    bounds: Callable[[cp.Variable, cp.Variable], Bounds] = lambda w, b: Bounds(), **heading: Any,
) -> Program:  # fmt: skip
    """State program (1) with `bounds` on outputs, a function of w and b.

    Other arguments as in :func:`primal`; `heading` has the name, title, source and letters of the program.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs, bound = cost_parameter(C, n), bounds(w, b)
    return Program(
        objective=cp.Minimize(0.5 * cp.sum_squares(w) + costs @ xi + bound.cost),
        objective_text=f"½‖w‖² + Σᵢ Cᵢ ξᵢ{bound.cost_text}",
        variables={"w": w, "b": b, "xi": xi, **bound.variables},
        rows=(*margin_rows(y, X @ w + b, xi, "w·xᵢ + b"), *bound.rows),
        parameters={"C": costs, **bound.parameters},
        data={"x": X, "y": y, **bound.data},
        **heading,
    )


def soft_margin_dual(
    C: ArrayLike, alpha: cp.Variable, w: cp.Expression, balance: Row, bounds: Bounds | None = None,
    **fields: Any,
) -> Program:  # fmt: skip
    """State the maximum of Σ α_i − ½‖w‖², less the cost of `bounds`, subject to `balance` and 0 ≤ α ≤ C.

    w is the one of the primal, in terms of the multipliers; `fields` are the other fields of the program.
    Other arguments as in :func:`soft_margin`.
    """
    costs, bounds = cost_parameter(C, alpha.size), bounds or Bounds()
    return Program(
        objective=cp.Maximize(cp.sum(alpha) - 0.5 * cp.sum_squares(w) - bounds.cost),
        variables={"alpha": alpha, **bounds.variables},
        rows=(balance, *alpha_rows(alpha, costs), *bounds.rows),
        parameters={"C": costs, **bounds.parameters},
        **fields,
    )


def _dual_from_factor(
    F: Any, y: NDArray[Any], C: ArrayLike, name: str, title: str, letters: Mapping[str, str], data: Any
) -> Program:
    """State (2) for the kernel K = FF'."""
    alpha, text = cp.Variable(len(y), name="alpha"), "Σᵢ αᵢ − ½ Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ"
    balance = Row("b", y @ alpha == 0, "Σᵢ αᵢ yᵢ = 0", "b", "the intercept $b$, sign included")
    return soft_margin_dual(
        C, alpha, F.T @ cp.multiply(y, alpha), balance, name=name, title=title, source=f"{_PAPER}, eq. (2)",
        objective_text=text, letters=letters, data={**data, "y": y},
    )  # fmt: skip


def dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the SVM dual, eq. (2), with the linear kernel K = XX'; arguments as in :func:`primal`."""
    X, y = as_data(X, y)
    return _dual_from_factor(X, y, C, "svm.dual", "Support vector machine, dual", LETTERS, {"x": X})


def kernel_dual(K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the SVM dual, eq. (2), for a symmetric positive semidefinite Gram matrix K (n, n).

    Arguments as in :func:`primal`; ValueError for any other K.
    """
    K, y = as_data(K, y)
    title = "Support vector machine, kernel dual"
    return _dual_from_factor(gram_factor(K), y, C, "svm.kernel_dual", title, KERNEL_LETTERS, {"K": K})


def recover(X: MatrixLike, y: ArrayLike, C: ArrayLike, alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the variables w, b, xi of (1) from the alpha of (2)."""
    X, y = as_data(X, y)
    w = X.T @ (alpha * y)
    b = best_intercept(X @ w, y, C)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y)}


def in_features(program: Program) -> Program:
    """Rename a primal for samples in the rows of F as the primal of the dual for the kernel K = FF'."""
    return replace(program, name=f"{program.name} (kernel)", letters={**program.letters, **IN_FEATURES})


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C = np.where(y > 0, 1.0, 0.7)
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)

    return [
        Duality(primal(X, y, C), dual(X, y, C), lambda v: recover(X, y, C, v["alpha"])),
        Duality(in_features(primal(F, y, C)), kernel_dual(K, y, C), lambda v: recover(F, y, C, v["alpha"])),
    ]
