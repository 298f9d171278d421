"""The L0 support vector machine: the program of one pattern, the exact integer program, its relaxation.

Problem
-------
Separate two classes by f(x) = Σ_j t_j α_j k(x, c_j) + b, with a kernel k and few centres c_j of label t_j:
each nonzero α_j costs 1, and each unit of loss costs C.

(1)  S* = min  ‖α‖₀ + C Σ_i w_i ξ_i   s.t.  y_i f(x_i) ≥ 1 − ξ_i,  ξ ≥ 0,  0 ≤ α ≤ C

C is both the cap on α and the cost of loss. A pattern σ of zeros and ones says which centres may be used. For
a fixed pattern a linear program of value L(σ) remains, and S* is the least of the scores
S(σ) = Σ_j σ_j + C L(σ). The matrix K_ij = k(x_i, c_j) may be asymmetric, indefinite, or rectangular.

Variables and shapes
--------------------
alpha (p,), b scalar, xi (n,), sigma (p,) of 0 and 1; u (n,) and s (p,) in the duals. K is (n, p), samples
by centres; y (n,) and t (p,) are the labels -1 and +1 of samples and centres; by default the centres are the
samples, and t is y. C is a number, the weights w are (n,), 1 by default. In the duals
r_j = t_j Σ_i K_ij y_i u_i, the rate at which the margins y_i f(x_i), weighted by u, rise with α_j.

Programs
--------
The first three have the constraints on margins and slacks of (1), and α ≥ 0. Multipliers are in brackets.

pattern          (2)  L(σ) = min  Σ_i w_i ξ_i                    s.t.  α_j ≤ C σ_j [s_j]
mixed_integer    (3)  S*   = min  Σ_j σ_j + C Σ_i w_i ξ_i        s.t.  α_j ≤ C σ_j, σ_j in {0, 1}
relaxation       (4)         min  (1/C) Σ_j α_j + C Σ_i w_i ξ_i  s.t.  α_j ≤ C [s_j]
pattern_dual     (5)         max  Σ_i u_i − C Σ_j s_j            s.t.  σ_j r_j ≤ s_j, u_i ≤ w_i
relaxation_dual  (6)         max  Σ_i u_i − C Σ_j s_j            s.t.  r_j − s_j ≤ 1/C, u_i ≤ C w_i

In (5) and (6) also u, s ≥ 0 and Σ_i y_i u_i = 0. (4) is (3) with σ in [0, 1], where the best σ is α/C. The
constraints of (5) on u alone do not depend on σ, so any u that satisfies them gives a cut,
L(σ) ≥ Σ_i u_i − C Σ_j σ_j max(r_j, 0) for every pattern σ, tight if u is optimal for σ.

Recovery
--------
alpha are the multipliers of the dual's row ``alpha`` (the constraint on r), times σ in (5); b minimises the
loss for this alpha, and is the multiplier of the row ``b`` if that is unique; ξ_i = [1 − y_i f(x_i)]_+.

Multipliers
-----------
u_i is the rate at which the loss rises with the margin required of sample i: 0 beyond the margin, between 0
and w_i on it, w_i inside it. s_j is the rate at which the loss falls as the cap on α_j rises; for a centre
with σ_j = 0, [r_j]_+ is the initial rate if it is added.

Infeasible when
---------------
Never: α = 0, ξ = 1 + |b| is feasible. L(0) = 2 min(Σ_pos w, Σ_neg w); L does not increase as σ grows.
Replacing σ by the support of its optimal α keeps L and does not increase S, so the score counts the support.

Reference
---------
Mannor, Peleg & Rubinstein, slides on the cross-entropy method for classification: eq. (1) and (2), as they
are numbered here; eq. (3) to (6) are derived. The paper: Mannor, Peleg & Rubinstein, The cross entropy method
for classification (2005). Their one-norm machine (:mod:`formulations.one_norm`) has Σ_j α_j in place of ‖α‖₀.
Against the slides, this does not bound ‖α‖₀: only ‖α‖₁ ≤ C‖α‖₀ is true. With the cost 1/C on α it is (4).

Example
-------
>>> import numpy as np
>>> from formulations import l0
>>> X, y = np.array([-3.0, -1.0, 1.0, 2.0]), np.array([-1, -1, 1, 1])
>>> K = np.outer(X, X)
>>> [l0.pattern(K, y, sigma, C=2.0).solve().objective for sigma in ([0, 0, 0, 0], [0, 0, 1, 0])]
[4.0, 0.0]
>>> exact = l0.mixed_integer(K, y, C=2.0).solve()
>>> round(exact.objective, 6), int(exact["sigma"].round().sum())
(1.0, 1)
>>> round(l0.relaxation(K, y, C=2.0).solve().objective, 6)  # a bound, from below
0.166667
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import best_intercept
from formulations.l0_data import L0Data, as_l0_data, as_patterns
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import Vector

OptionalArray = ArrayLike | None

_SOURCE = "Mannor, Peleg & Rubinstein, slides"
_LETTERS = {  # meaning of the letters in printed formulas
    "Kᵢⱼ": "the kernel of sample $i$ and centre $j$",
    "tⱼ": "the label of centre $j$, +1 or −1",
    "σⱼ": "1 if centre $j$ may be used, else 0",
    "wᵢ": "the weight of sample $i$, 1 by default",
    "C": "the cost of loss, and the cap on a coefficient",
    "yᵢ": "the label of sample $i$, +1 or −1",
}


# -- the machine f(x_i) = Σ_j K_ij t_j α_j + b, shared with formulations.one_norm ----------------------


def primal_variables(data: L0Data) -> tuple[cp.Variable, cp.Variable, cp.Variable]:
    """Return new variables alpha (p,), b and xi (n,)."""
    n, p = data.K.shape
    return cp.Variable(p, name="alpha"), cp.Variable(name="b"), cp.Variable(n, name="xi")


def primal_rows(
    data: L0Data, alpha: cp.Variable, b: cp.Variable, xi: cp.Variable, cap: tuple[cp.Expression, str],
    cost: str = "its cost of slack", label: str = "t", value: str = "loss",
) -> tuple[Row, ...]:  # fmt: skip
    """Return the rows of a primal; `cap` is the cap on alpha and its text, the other texts are printed.

    `cost` is the cost of slack, `label` the letter of the centres' labels, `value` the name of the optimum.
    """
    f = data.K @ cp.multiply(data.centres, alpha) + b
    says = f"rate at which the cost rises with sample i's margin: 0 beyond it, {cost} inside it"
    falls = f"rate at which the {value} falls as the cap on $αⱼ$ rises"
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    return (
        Row("margin", cp.multiply(data.y, f) >= 1 - xi, f"yᵢ(Σⱼ Kᵢⱼ {label}ⱼ αⱼ + b) ≥ 1 − ξᵢ", "u", says),
        Row("slack", xi >= 0, "ξᵢ ≥ 0", "v", f"{cost} less $uᵢ$"),
        Row("sign", alpha >= 0, "αⱼ ≥ 0", "r", "reduced cost of coefficient j, 0 if it is used"),
        Row("cap", alpha <= cap[0], f"αⱼ ≤ {cap[1]}", "s", falls),
    )


def dual_variables(data: L0Data) -> tuple[cp.Variable, cp.Variable, cp.Expression]:
    """Return new variables u (n,) of the margins and s (p,) of the caps, and r_j = t_j Σ_i K_ij y_i u_i."""
    n, p = data.K.shape
    u = cp.Variable(n, name="u")
    return u, cp.Variable(p, name="s"), cp.multiply(data.centres, data.K.T @ cp.multiply(data.y, u))


def dual_rows(
    data: L0Data, u: cp.Variable, s: cp.Variable, alpha: tuple[cp.Constraint, str, str],
    cost: tuple[cp.Expression | Vector, str], cap: str = "C",
) -> tuple[Row, ...]:  # fmt: skip
    """Return the rows of a dual; `alpha` has the constraint on r, its text and the meaning of its multiplier.

    `cost` is the cost of slack (n,) with its text, `cap` the cap on α_j as printed.
    """
    constraint, text, says = alpha
    return (
        Row("b", data.y @ u == 0, "Σᵢ yᵢ uᵢ = 0", "b", "the intercept $b$, sign included"),
        Row("alpha", constraint, text, "alpha", says),
        Row("cap", s >= 0, "sⱼ ≥ 0", "slack", f"slack of the cap: ${cap} − αⱼ$"),
        Row("margin", u >= 0, "uᵢ ≥ 0", "surplus", "surplus of sample i over its margin row"),
        Row("xi", u <= cost[0], f"uᵢ ≤ {cost[1]}", "xi", "the slack $ξᵢ$ of sample i"),
    )


def duality(primal: Program, dual: Program, data: L0Data, costs: Vector, pattern: ArrayLike = 1.0) -> Duality:
    """Pair two linear programs; alpha is `pattern` (p,) times the multiplier of the dual's row ``alpha``."""
    row = next(row for row in dual.rows if row.name == "alpha")

    def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        alpha = np.array(row.constraint.dual_value, dtype=float) * np.asarray(pattern)
        outputs = data.outputs(alpha, 0.0)
        b = best_intercept(outputs, data.y, costs)
        return {"alpha": alpha, "b": np.array(b), "xi": slacks(outputs + b, data.y)}

    return Duality(primal, dual, recover)


# -- the programs -------------------------------------------------------------------------------------


def _program(
    name: str, title: str, equation: str, data: L0Data, objective: cp.Expression, text: str,
    variables: tuple[cp.Variable, ...], rows: tuple[Row, ...], *parameters: cp.Parameter,
) -> Program:  # fmt: skip
    """State the minimum of `objective`, which is printed as `text`."""
    return Program(
        name=f"l0.{name}",
        title=f"L0 support vector machine{title}",
        source=f"{_SOURCE}, {equation}",
        objective=cp.Minimize(objective),
        objective_text=text,
        variables={variable.name(): variable for variable in variables},
        rows=rows,
        parameters={parameter.name(): parameter for parameter in parameters},
        letters=_LETTERS,
        data={"K": data.K, "y": data.y, "t": data.centres, "w": data.weights},
    )


def pattern(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: OptionalArray = None,
    centres: OptionalArray = None,
) -> Program:  # fmt: skip
    """State the linear program of one pattern, eq. (2); ``program.set(sigma=...)`` changes the pattern.

    Parameters
    ----------
    K : array_like of shape (n, p)
        ``K[i, j] = k(x_i, c_j)``; any matrix.
    y : array_like of shape (n,)
        Labels -1 and +1.
    sigma : array_like of shape (p,)
        The pattern, 1 if a centre may be used.
    C : float
        Cap of the coefficients.
    weights : array_like of shape (n,), optional
        Weights of the samples in the loss.
    centres : array_like of shape (p,), optional
        Labels of the centres; by default they are the samples.
    """
    data = as_l0_data(K, y, C, weights, centres)
    p, cost, (alpha, b, xi) = len(data.centres), _cost(data), primal_variables(data)
    chosen = cp.Parameter(p, nonneg=True, name="sigma", value=as_patterns(sigma, p))
    caps = cp.CallbackParam(lambda: cost.value * chosen.value, data.centres.shape, nonneg=True)
    rows = primal_rows(data, alpha, b, xi, (caps, "C σⱼ"))
    return _program(
        "pattern", ", the program of one pattern", "eq. (2)", data, data.weights @ xi,
        "Σᵢ wᵢ ξᵢ", (alpha, b, xi), rows, cost, chosen,
    )  # fmt: skip


def pattern_dual(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: OptionalArray = None,
    centres: OptionalArray = None,
) -> Program:  # fmt: skip
    """State the dual of :func:`pattern`, eq. (5), with the same parameters; arguments as in the primal."""
    data, primal = as_l0_data(K, y, C, weights, centres), pattern(K, y, sigma, C, weights, centres)
    (cost, chosen), (u, s, r) = primal.parameters.values(), dual_variables(data)
    alpha = cp.multiply(chosen, r) - s <= 0, "σⱼ tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ ≤ sⱼ", "the coefficient $αⱼ$ if $σⱼ = 1$"
    rows = dual_rows(data, u, s, alpha, (data.weights, "wᵢ"))
    source = f"{_SOURCE}, eq. (5) (derived)"
    return primal.dual(cp.sum(u) - cost * cp.sum(s), "Σᵢ uᵢ − C Σⱼ sⱼ", (u, s), rows, source=source)


def relaxation(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: OptionalArray = None, centres: OptionalArray = None
) -> Program:
    """State the relaxation of the exact program, eq. (4): its value bounds every score from below.

    Arguments as in :func:`pattern`; C is the cost of loss and the cap of the coefficients.
    """
    data = as_l0_data(K, y, C, weights, centres)
    cost, (alpha, b, xi) = _cost(data), primal_variables(data)
    objective = _inverse(cost) * cp.sum(alpha) + cost * (data.weights @ xi)
    return _program(
        "relaxation", ", relaxed", "eq. (4) (derived)", data, objective, "(1/C) Σⱼ αⱼ + C Σᵢ wᵢ ξᵢ",
        (alpha, b, xi), primal_rows(data, alpha, b, xi, (cost, "C")), cost,
    )  # fmt: skip


def relaxation_dual(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: OptionalArray = None, centres: OptionalArray = None
) -> Program:
    """State the dual of :func:`relaxation`, eq. (6); arguments as in the primal."""
    data, primal = as_l0_data(K, y, C, weights, centres), relaxation(K, y, C, weights, centres)
    cost, (u, s, r) = primal.parameters["C"], dual_variables(data)
    alpha = r - s <= _inverse(cost), "tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ − sⱼ ≤ 1/C", "the coefficient $αⱼ$"
    rows = dual_rows(data, u, s, alpha, (cost * data.weights, "C wᵢ"))
    source = f"{_SOURCE}, eq. (6) (derived)"
    return primal.dual(cp.sum(u) - cost * cp.sum(s), "Σᵢ uᵢ − C Σⱼ sⱼ", (u, s), rows, source=source)


def mixed_integer(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: OptionalArray = None, centres: OptionalArray = None
) -> Program:
    """State the exact program over all patterns, eq. (3); HiGHS solves it to ``mip_rel_gap`` (1e-4).

    Arguments as in :func:`relaxation`.
    """
    data = as_l0_data(K, y, C, weights, centres)
    cost, (alpha, b, xi) = _cost(data), primal_variables(data)
    sigma = cp.Variable(len(data.centres), boolean=True, name="sigma")
    objective = cp.sum(sigma) + cost * (data.weights @ xi)
    rows = primal_rows(data, alpha, b, xi, (cost * sigma, "C σⱼ"))
    return _program(
        "mixed_integer", " over all patterns", "eq. (3) (derived)", data, objective, "Σⱼ σⱼ + C Σᵢ wᵢ ξᵢ",
        (alpha, b, xi, sigma), without_multipliers(rows), cost,
    )  # fmt: skip


def _cost(data: L0Data) -> cp.Parameter:
    """Return C as a parameter."""
    return cp.Parameter(nonneg=True, name="C", value=data.C)


def _inverse(parameter: cp.Parameter) -> cp.Parameter:
    """Return the inverse of a parameter as a parameter."""
    return cp.CallbackParam(lambda: 1.0 / parameter.value, shape=(), nonneg=True)


def _sample(seed: int, n: int = 40) -> tuple[Vector, Vector, Vector]:
    """Return an asymmetric indefinite kernel matrix (n, n), labels and weights (n,)."""
    X, y = two_blobs(n=n, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(len(y), len(y)))
    return np.tanh(0.5 * X @ X.T - 0.3) + 0.1 * noise, y, np.where(y > 0, 1.0, 0.7)


def pairs(seed: int = 0) -> list[Duality]:
    """Return the linear programs of this module on random data, as primal-dual pairs."""
    K, y, weights = _sample(seed)
    K, centres = K[:, :30], y[:30]
    C, sigma, data = 2.0, np.arange(30) % 3 == 0, as_l0_data(K, y, 2.0, weights, centres)
    of_pattern = pattern(K, y, sigma, C, weights, centres), pattern_dual(K, y, sigma, C, weights, centres)
    relaxed = relaxation(K, y, C, weights, centres), relaxation_dual(K, y, C, weights, centres)
    return [duality(*of_pattern, data, weights, sigma), duality(*relaxed, data, weights)]


def singles(seed: int = 0) -> list[Program]:
    """Return the exact program, which has no dual, on random data."""
    K, y, weights = _sample(seed, n=20)
    return [mixed_integer(K[:, :15], y, 2.0, weights, y[:15])]
