"""The Convex Polytope Machine: one class inside a convex polytope, the other outside of it.

Problem
-------
A polytope of K faces separates the classes: f(x) = max_k W_k·x̃ is positive outside it, where the positive
samples belong, and negative inside. A negative must be on the inner side of every face; a positive need only
be on the outer side of one face, its assignment z_i. For a fixed assignment the program is convex; over the
assignments it is not. All programs but mixed_integer are for a fixed assignment; :func:`objective` takes the
best assignment.

There are two choices. The loss of a negative is the sum of its violations over the faces (loss="sum") or the
largest (loss="max"). The regulariser is ‖W‖², the sum of the squared norms of the faces (margin="total"), or
the largest squared norm (margin="worst"), which maximises the smallest margin.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and it is penalised like the others. W (K, m+1), the slacks
xi (n, K); alpha (n, K) in the dual. X is (n, m), y is (n,) of -1 and +1, C is a scalar or (n,), the
assignment is (n,) of 0..K-1, its entries at the negatives ignored. Z (n, K) is 1 if sample i's slack on face
k has a cost, else 0 (its constraint is stated, but its slack is free): a row of ones at a negative, z_i's
unit vector at a positive. With loss="max" the faces share the slack of a negative: xi has one entry per
negative and K per positive, sample by sample, and :func:`slack_index` is the index of each ξ_ik in xi. The
mixed-integer program has the slacks xi (n₋, K) of the negatives, or (n₋,) with loss="max", the slacks
eta (n₊,) of the positives, and z (n₊, K) of 0 and 1, the assignment. With margin="worst" there is a scalar
t ≥ ‖W_k‖² for every k, and s (K,) in the dual.

Programs
--------
A row is a named constraint; its multiplier is in brackets. With the defaults loss="sum" and margin="total":

fixed_assignment        min  ‖W‖² + Σ_ik C_i Z_ik ξ_ik
                        s.t. y_i W_k·x̃_i ≥ 1 − ξ_ik [α_ik],  ξ ≥ 0 [β_ik]
fixed_assignment_dual   max  Σ_ik α_ik − ¼ Σ_k ‖Σ_i α_ik y_i x̃_i‖²   s.t.  0 ≤ α_ik ≤ C_i Z_ik

This is the paper's unconstrained form of its eq. (6), which its Algorithm 1 minimises: K independent
programs, each a :func:`face` (dual: face_dual) with the costs c_i = C_i Z_ik. With loss="max" it is (6) as
printed: ξ_ik is the same for all k at a negative, and counts once. (The paper identifies the two losses, but
they differ for a negative that violates several faces.) margin="worst" minimises t instead of ‖W‖². Either
of loss="max" and margin="worst" couples the faces. mixed_integer is the machine over all assignments, an
independent check of polyopt's branch and bound; it has no dual. As faces may be renumbered, its row
``symmetry`` lets a positive use face k only if an earlier positive uses face k − 1.

The dual of margin="worst": let θ_k be the multiplier of ‖W_k‖² ≤ t and v_k = Σ_i α_ik y_i x̃_i. Minimising
the Lagrangian over t requires Σ θ_k = 1, and over W_k requires 2 θ_k W_k = v_k, which leaves
Σ α − ¼ Σ_k ‖v_k‖²/θ_k. The optimal θ for given α is θ_k = ‖v_k‖ / Σ_l ‖v_l‖, hence Σ α − ¼ (Σ_k s_k)² with
the row ``norm``: s_k ≥ ‖v_k‖ [radius].

The M_i of the mixed-integer program
------------------------------------
The row of a positive is W_k·x̃_i ≥ 1 − η_i − M_i (1 − z_ik). M_i must be so large that the row of a face that
is not chosen (z_ik = 0) never restricts an optimal W. Let U be the cost of any faces W, and let
R(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+ be the cost of a face with the negatives alone. R is 2-strongly convex
with a minimum V₀ at some w₀, so R(w) ≥ V₀ + ‖w − w₀‖². An optimal W has Σ_k R(W_k) ≤ U and every face has
R(W_k) ≥ V₀, hence

    ‖W_k − w₀‖² ≤ U − K V₀ = ρ²   and   ‖W_k‖² ≤ R(W_k) ≤ U − (K−1) V₀,

and by either bound the row of an unassigned face holds at η_i = 0:

    1 − W_k·x̃_i ≤ M_i = min( 1 − w₀·x̃_i + ρ‖x̃_i‖,  1 + ‖x̃_i‖ √(U − (K−1) V₀) ).

V₀ is replaced by a dual value, which is at most V₀. With loss="max" or margin="worst" the costs of the faces
do not add up, so V₀ is no bound for each face, but ‖W_k‖² ≤ U: M_i = 1 + ‖x̃_i‖ √U.

Recovery
--------
W_k = ½ v_k; ξ_ik = [1 − y_i W_k·x̃_i]_+, or for a shared slack the largest of these over k.

With margin="worst", W_k = v_k/(2θ_k) = v_k S/(2‖v_k‖) with S = Σ_k ‖v_k‖, and t = S²/4. If v_k = 0, every W_k
with ‖W_k‖² ≤ t that satisfies complementary slackness is optimal. alpha does not determine it; the
multipliers of the dual's row norm do.

Multipliers
-----------
alpha_ik is the rate at which the optimal cost rises with the margin required of sample i on face k. With
loss="max" a negative's alpha_ik sum to at most C_i over the faces. beta is the cost of slack less alpha.
theta_k is the weight of face k in the worst case: 0 for a face whose norm is below the largest, 1 for a face
that alone has the largest norm. The dual's row norm is a cone, and its multiplier (m+2, K) has for each face
radius, half the sum of the s_k and so the largest norm of a face, and under it −W_k.

Infeasible when
---------------
Never for finite C: W = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014),
eq. (6), the unconstrained form after it, and the worst-case margin beside it; with C for 1/λ. The duals, the
mixed-integer program and its M are derived here. One face is twice the SVM of cost C/2 without intercept on
x̃.

Example
-------
>>> import numpy as np
>>> from formulations import cpm
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])  # inside is the middle
>>> program = cpm.fixed_assignment(X, y, n_faces=2, assignment=[0, -1, 1], C=10.0)
>>> solution = program.solve()
>>> solution["W"].round(6)
array([[-1., -1.],
       [ 1., -1.]])
>>> swapped = program.set(Z=cpm.assignment_matrix(y, 2, [1, -1, 0])).solve()  # re-uses what was built
>>> swapped["W"].round(6)
array([[ 1., -1.],
       [-1., -1.]])
>>> X2 = np.array([[-2.0], [0.0], [1.0]])  # the right face has the smaller margin
>>> worst = cpm.fixed_assignment(X2, y, n_faces=2, assignment=[0, -1, 1], C=10.0, margin="worst").solve()
>>> print((worst["W"] ** 2).sum(axis=1).max().round(6), worst["t"].round(6))
5.0 5.0
>>> worst.duals["norm"].round(4) + 0.0
array([0., 1.])
>>> cpm.big_m(X, y, n_faces=2, C=10.0, upper=4.0).round(3)
array([4.873, 4.873])
>>> program = cpm.mixed_integer(X, y, n_faces=2, C=10.0, upper=4.0)
>>> program.kind, program.solvers
('MIQP', ('SCIP',))
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import one_of, whole
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import as_costs, as_data, slacks
from formulations.language.statement import index_in
from formulations.language.toy_data import two_blobs
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import (
    Loss,
    Margin,
    assignment_matrix,
    check_loss,
    lift,
    margin_weights,
    natural_assignment,
    objective,
    slack_index,
)
from formulations.svm import alpha_rows, cost_parameter, margin_rows, pair_costs

__all__ = [
    "assignment_matrix", "big_m", "face", "face_dual", "fixed_assignment", "fixed_assignment_dual", "lift",
    "natural_assignment", "objective", "pairs", "recover", "singles", "slack_index",
]  # fmt: skip

PAPER = "Kantchelian et al. (2014)"
SOURCE = "unconstrained form of eq. (6)"

LETTERS = {  # meaning of the letters in printed formulas
    "Zᵢₖ": "1 if sample $i$'s slack on face $k$ has a cost, else 0: all for a negative, one for a positive",
    "ξ₍ᵢₖ₎": "$ξᵢ$, shared by the faces, at a negative, and $ξᵢₖ$ at a positive",
    "x̃ᵢ": "= (xᵢ, 1): with it the bias is the last weight",
    "xᵢ": "sample $i$",
    "yᵢ": "+1 outside the polytope, −1 inside",
    "Cᵢ": "the cost of sample $i$'s slack, $C$ times its weight",
}
FACE_LETTERS = {
    **{letter: LETTERS[letter] for letter in ("xᵢ", "yᵢ")},
    "Cᵢ": "the cost of sample $i$'s slack, 0 if it is assigned to another face",
}
_LIFTED_FACE_LETTERS = {"x̃ᵢ": LETTERS["x̃ᵢ"], **FACE_LETTERS}


def face(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State one face of the fixed-assignment program with loss="sum"; C is 0 for positives of other faces.

    Arguments as in :func:`fixed_assignment`.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, xi, costs = cp.Variable(m + 1, name="w"), cp.Variable(n, name="xi"), cost_parameter(C, n)
    return Program(
        name="cpm.face",
        title="Convex polytope machine, one face",
        source=f"{PAPER}, {SOURCE}",
        objective=cp.Minimize(cp.sum_squares(w) + costs @ xi),
        objective_text="‖w‖² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "xi": xi},
        rows=margin_rows(y, lift(X) @ w, xi, "w·x̃ᵢ"),
        parameters={"C": costs},
        letters=_LIFTED_FACE_LETTERS,
        data={"x": X, "y": y},
    )


def face_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the dual of :func:`face`; arguments as in the primal."""
    X, y = as_data(X, y)
    primal, alpha = face(X, y, C), cp.Variable(len(y), name="alpha")
    objective = cp.sum(alpha) - 0.25 * cp.sum_squares(lift(X).T @ cp.multiply(y, alpha))
    rows = alpha_rows(alpha, primal.parameters["C"])
    return primal.dual(objective, "Σᵢ αᵢ − ¼ ‖Σᵢ αᵢ yᵢ x̃ᵢ‖²", (alpha,), rows)


def _slack_costs(y: Vector, parameters: Mapping[str, cp.Parameter], loss: Loss) -> cp.Parameter:
    """Return the cost of each slack, recomputed when C or Z is set."""
    costs = pair_costs(parameters["C"], parameters["Z"])
    if loss == "sum":
        return costs
    # The K pairs of a negative share one slack and have one cost: that of the first is used.
    _, first = np.unique(slack_index(y, costs.shape[1]), return_index=True)
    return cp.CallbackParam(lambda: costs.value.ravel()[first], shape=first.shape, nonneg=True)


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum",
    margin: Margin = "total",
) -> Program:  # fmt: skip
    """State the convex polytope machine for a fixed assignment, eq. (6).

    Parameters
    ----------
    X, y, C
        Samples, labels (-1 inside, +1 outside) and costs of slack, as in :func:`formulations.svm.primal`.
    n_faces : int
        K, at least 1.
    assignment : array_like of int, shape (n,)
        The face of each positive; the entries of negatives are ignored.
    loss : {"sum", "max"}
        The loss of a negative: the sum of its violations over the faces, or the largest.
    margin : {"total", "worst"}
        The regulariser: the sum of the squared norms of the faces, or the largest.

    Returns
    -------
    Program
        With the parameters C and Z; ``program.set(Z=assignment_matrix(y, n_faces, assignment))`` changes the
        assignment.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    one_of("margin", margin, ("total", "worst"))
    whole("n_faces", n_faces)
    n, m = X.shape
    Z = cp.Parameter((n, n_faces), nonneg=True, name="Z", value=assignment_matrix(y, n_faces, assignment))
    parameters = {"C": cost_parameter(C, n), "Z": Z}
    costs = _slack_costs(y, parameters, loss)
    W, xi = cp.Variable((n_faces, m + 1), name="W"), cp.Variable(costs.shape, name="xi")
    variables = {"W": W, "xi": xi}
    slack: cp.Expression = xi
    index, data = None, {"x": X, "y": y}
    slack_text, cost_text = "ξᵢₖ", "Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ"
    if loss == "max":
        index = slack_index(y, n_faces)
        slack = cp.reshape(xi[index.ravel()], (n, n_faces), order="C")
        data |= {"ξ₍ᵢₖ₎": slack, "ξᵢₖ": slack, "ξᵢ": xi[index[:, 0]]}
        slack_text, cost_text = "ξ₍ᵢₖ₎", "Σ_{yᵢ<0} Cᵢ ξᵢ + Σ_{yᵢ>0} Σₖ Cᵢ Zᵢₖ ξᵢₖ"
    margin_text = f"yᵢ Wₖ·x̃ᵢ ≥ 1 − {slack_text}"
    # Fields of a Row: name, constraint, printed text, letter and meaning of its multiplier, and `at`, the
    # flat index of each (i, k) in the constraint; by default the constraint has the shape (n, K).
    rows = [
        Row("margin", cp.multiply(y[:, None], lift(X) @ W.T) >= 1 - slack, margin_text, "alpha",
            "rate at which the cost rises with sample i's margin on face k: 0 beyond it, its cost inside it"),
        Row("slack", xi >= 0, f"{slack_text} ≥ 0", "beta", "cost of slack less alpha", at=index),
    ]  # fmt: skip
    family, title_ending, source = "cpm", "", SOURCE if loss == "sum" else "eq. (6)"
    regulariser, regulariser_text = cp.sum_squares(W), "‖W‖²"
    if margin == "worst":
        family, title_ending, source = "cpm_worst", ", worst-case margin", "worst-case margin beside eq. (6)"
        regulariser = variables["t"] = cp.Variable(name="t")
        regulariser_text = "t"
        says = "weight of face k in the worst case: 0 if it could be shorter; the weights add up to 1"
        rows.append(Row("norm", cp.sum(cp.square(W), axis=1) <= regulariser, "‖Wₖ‖² ≤ t", "theta", says))
    loss_text = f"{'sum' if loss == 'sum' else 'largest'} of a negative's violations"
    return Program(
        name=f"{family}.fixed_assignment_{loss}",
        title=f"Convex polytope machine, fixed assignment, {loss_text}{title_ending}",
        source=f"{PAPER}, {source}",
        objective=cp.Minimize(regulariser + cp.sum(cp.multiply(costs, xi))),
        objective_text=f"{regulariser_text} + {cost_text}",
        variables=variables,
        rows=tuple(rows),
        parameters=parameters,
        letters=LETTERS,
        data=data,
    )


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum",
    margin: Margin = "total",
) -> Program:  # fmt: skip
    """State the dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal.

    Each row is named after the primal's variable or row whose value or slack is its multiplier.
    """
    X, y = as_data(X, y)
    primal = fixed_assignment(X, y, n_faces, assignment, C, loss, margin)
    costs, alpha = _slack_costs(y, primal.parameters, loss), cp.Variable((len(y), n_faces), name="alpha")
    if loss == "sum":
        alpha_sums, text, index = alpha, "αᵢₖ ≤ Cᵢ Zᵢₖ", None
    else:
        index = slack_index(y, n_faces)
        slack = index.ravel()
        sum_by_slack = sp.csr_array((np.ones(len(slack)), (slack, np.arange(len(slack)))))
        alpha_sums = sum_by_slack @ cp.vec(alpha, order="C")
        text = "Σₖ αᵢₖ ≤ Cᵢ for yᵢ < 0,  αᵢₖ ≤ Cᵢ Zᵢₖ for yᵢ > 0"
    rows = [
        Row("margin", alpha >= 0, "αᵢₖ ≥ 0", "surplus", "surplus of sample i over the margin on face k"),
        Row("xi", alpha_sums <= costs, text, "xi", "the slacks $ξ$", at=index),
    ]
    variables, letters, v = [alpha], LETTERS, lift(X).T @ cp.multiply(y[:, None], alpha)
    square, square_text = cp.sum_squares(v), "Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²"
    if margin == "worst":
        s = cp.Variable(n_faces, name="s")
        variables.append(s)
        square, square_text = cp.square(cp.sum(s)), "(Σₖ sₖ)²"
        rows.append(norm_row(s, v, "‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖ ≤ sₖ"))
        letters = {**LETTERS, "Wₖ": "face $k$ of the primal"}
    return primal.dual(
        cp.sum(alpha) - 0.25 * square, f"Σᵢₖ αᵢₖ − ¼ {square_text}", tuple(variables), tuple(rows),
        letters=letters, data={"x": X, "y": y},
    )  # fmt: skip


def norm_row(
    s: cp.Variable, v: cp.Expression, text: str, first_entry: str = "the largest norm of a face"
) -> Row:
    """Return the row ``norm`` of a dual: ‖v_k‖ ≤ s_k, for s (K,) and v (m+1, K), printed as `text`.

    The row is a cone, because the norm has no gradient at v_k = 0. The multiplier of the cone of face k is a
    vector, whose first entry is the cost of s_k.
    """
    says = f"{first_entry}; and under it, for every k, the face with its sign changed, $−Wₖ$"
    return Row("norm", cp.SOC(s, v, axis=0), text, "radius", says)


def recover(
    X: MatrixLike, y: ArrayLike, alpha: NDArray[Any], loss: Loss = "sum", margin: Margin = "total",
    radius: NDArray[Any] | None = None,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return primal variables W, xi, and t of margin="worst", from the dual's alpha (n, K).

    `radius` (m+2, K) are the multipliers of the dual's row norm, which contain the faces. Without `radius`,
    W_k = 0 if v_k = 0, which need not be optimal.
    """
    X, y = as_data(X, y)
    v = (lift(X).T @ (alpha * y[:, None])).T
    if margin == "total":
        return with_slacks(X, y, 0.5 * v, loss)
    if radius is not None:
        W = -radius[1:].T
    else:
        theta = margin_weights(v)
        W = v * np.divide(0.5, theta, out=np.zeros_like(theta), where=theta > 0)[:, None]
    return {**with_slacks(X, y, W, loss), "t": np.array((W**2).sum(axis=1).max())}


def with_slacks(X: MatrixLike, y: ArrayLike, W: NDArray[Any], loss: Loss = "sum") -> dict[str, NDArray[Any]]:
    """Return the primal variables W and xi of (6) at faces W (K, m+1), with the least slacks."""
    X, y = as_data(X, y)
    check_loss(loss)
    hinge = slacks(lift(X) @ W.T, y[:, None])
    if loss == "sum":
        return {"W": W, "xi": hinge}
    index = slack_index(y, len(W))
    xi = np.zeros(index.max() + 1)
    np.maximum.at(xi, index, hinge)
    return {"W": W, "xi": xi}


def big_m(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None,
    loss: Loss = "sum", margin: Margin = "total",
) -> NDArray[np.float64]:  # fmt: skip
    """Return M_i of each positive, shape (n₊,), as derived in the module's docstring.

    `upper` is U, the cost of any faces W; by default the lower cost of two simple choices of W.
    """
    X, y = as_data(X, y)
    costs, lifted = as_costs(C, len(y)), lift(X)
    negative_costs = np.where(y < 0, costs, 0.0)
    if upper is None:
        positive_cost = costs[y > 0].sum()
        n_losses = n_faces if loss == "sum" else 1
        n_norms = n_faces if margin == "total" else 1
        # The costs of W = 0, and of W_k = (0, ..., 0, −1): then every score is −1, the negatives are on their
        # margins, and each positive violates its margin by 2.
        upper = min(n_losses * negative_costs.sum() + positive_cost, n_norms + 2 * positive_cost)
    positives = lifted[y > 0]
    lengths = np.sqrt(np.asarray((positives * positives).sum(axis=1)).ravel())
    if (loss, margin) != ("sum", "total"):
        return np.asarray(1.0 + lengths * np.sqrt(upper))
    w, dual_value, distance = np.zeros(lifted.shape[1]), 0.0, 0.0
    if negative_costs.any():
        solution = face(X, y, negative_costs).solve()
        w = solution["w"]
        alpha = np.clip(solution.duals["margin"], 0.0, negative_costs)
        dual_value = max(0.0, float(alpha.sum() - 0.25 * np.sum((lifted.T @ (alpha * y)) ** 2)))
        # R(w) − V₀ bounds the squared distance of w from w₀.
        gap = float(w @ w + negative_costs @ np.maximum(0.0, 1.0 + lifted @ w)) - dual_value
        distance = np.sqrt(max(gap, 0.0))
    rho = distance + np.sqrt(max(upper - n_faces * dual_value, 0.0))  # ≥ ‖w − w₀‖ + ‖W_k − w₀‖
    largest_norm = np.sqrt(max(upper - (n_faces - 1) * dual_value, 0.0))
    return np.asarray(np.minimum(1.0 - positives @ w + rho * lengths, 1.0 + lengths * largest_norm))


def mixed_integer(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None,
    loss: Loss = "sum", margin: Margin = "total",
) -> Program:  # fmt: skip
    """State the machine over all assignments; arguments as in :func:`fixed_assignment` and :func:`big_m`."""
    X, y = as_data(X, y)
    check_loss(loss)
    one_of("margin", margin, ("total", "worst"))
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes: with one there is nothing to assign")
    costs = as_costs(C, len(y))
    M = big_m(X, y, n_faces, costs, upper, loss, margin)
    variables, rows, data, slack_cost, slack_text = over_assignments(
        lift(X), y, n_faces, costs, M, 1, shares_slack=loss == "max"
    )
    W = variables["W"]
    regulariser, regulariser_text = cp.sum_squares(W), "‖W‖²"
    if margin == "worst":
        variables["t"] = t = cp.Variable(name="t")
        rows.append(Row("norm", cp.sum(cp.square(W), axis=1) <= t, "‖Wₖ‖² ≤ t", "", ""))
        regulariser, regulariser_text = t, "t"
        suffix, title_ending, source = "_worst", ", worst-case margin", "worst-case margin beside eq. (6)"
    else:
        suffix, title_ending, source = "", "", "eq. (6)"
    if loss == "max":
        suffix, title_ending = f"_max{suffix}", f"{title_ending}, largest of a negative's violations"
    else:
        source += ", unconstrained form"
    return Program(
        name=f"cpm.mixed_integer{suffix}",
        title=f"Convex polytope machine over all assignments{title_ending}",
        source=f"{PAPER}, {source}, as a mixed-integer program",
        objective=cp.Minimize(regulariser + slack_cost),
        objective_text=f"{regulariser_text} + {slack_text}",
        variables=variables,
        rows=without_multipliers(rows),
        letters={"Mᵢ": "so large that the row is inactive if $zᵢₖ = 0$ (from the data)", **LETTERS},
        data={"x": X, **data},
    )


def over_assignments(
    lifted: Matrix, y: Vector, n_faces: int, costs: Vector, M: Vector, label: int, *,
    shares_slack: bool = False, padding: float = np.nan,
) -> tuple[dict[str, cp.Variable], list[Row], dict[str, Any], cp.Expression, str]:  # fmt: skip
    """Return variables, rows, data, the cost of slack and its text, for a machine over all assignments.

    A sample of class `label` is assigned to one face: M, one number for each, makes the rows of its other
    faces inactive. A sample of the other class has all faces, and with `shares_slack` one slack for all.
    In the data, `padding` stands for the slacks that a class does not have.
    """
    K, one, every = whole("n_faces", n_faces), y == label, y != label
    of_one, of_every = lifted[one], lifted[every]
    W, eta = cp.Variable((K, lifted.shape[1]), name="W"), cp.Variable(of_one.shape[0], name="eta")
    xi = cp.Variable(of_every.shape[:1] if shares_slack else (of_every.shape[0], K), name="xi")
    z = cp.Variable((of_one.shape[0], K), boolean=True, name="z")
    one_index, every_index = index_in(one), index_in(every)
    faces = np.arange(K)
    every_pair = index_pairs(every_index, faces)
    slack, slack_text, slack_at = xi, "ξᵢₖ", every_pair
    if shares_slack:
        slack, slack_text, slack_at = xi[:, None], "ξᵢ", every_index
    sign, other_sign, (is_one, is_every) = ("", "−", "><") if label > 0 else ("−", "", "<>")
    for_one, for_every = f"for yᵢ {is_one} 0", f"for yᵢ {is_every} 0"
    rows = [
        _row("inside", -label * (of_every @ W.T) >= 1 - slack,
             f"{other_sign}Wₖ·x̃ᵢ ≥ 1 − {slack_text} {for_every}", every_pair),
        _row("outside", label * (of_one @ W.T) >= 1 - eta[:, None] - cp.multiply(M[:, None], 1 - z),
             f"{sign}Wₖ·x̃ᵢ ≥ 1 − ηᵢ − Mᵢ (1 − zᵢₖ) {for_one}", index_pairs(one_index, faces)),
        _row("choice", cp.sum(z, axis=1) == 1, f"Σₖ zᵢₖ = 1 {for_one}", one_index),
        _row("slack", xi >= 0, f"{slack_text} ≥ 0 {for_every}", slack_at),
        _row("excess", eta >= 0, f"ηᵢ ≥ 0 {for_one}", one_index),
    ]  # fmt: skip
    if K > 1:
        earlier = np.tril(np.ones((len(M), len(M))), -1) @ z  # earlier samples of the class on each face
        # The constraint has K − 1 columns: column k − 1 is of face k.
        rows.append(
            _row("symmetry", z[:, 1:] <= earlier[:, : K - 1], f"zᵢₖ ≤ Σ_{{j<i}} z_{{j,k−1}} {for_one}, k > 0",
                 index_pairs(one_index, faces - 1))
        )  # fmt: skip
    # The printed index i runs over all samples: pad the arrays of one class. The values of variables are read
    # after the solve, hence the functions.
    data = {
        "y": y, "C": costs, "M": expand_to_samples(M, one, 1.0), "z": np.eye(len(y))[:, one] @ z,
        "ξ": lambda: expand_to_samples(xi.value, every, padding),
        "η": lambda: expand_to_samples(eta.value, one, padding),
    }  # fmt: skip
    slack_cost = costs[every] @ (xi if shares_slack else cp.sum(xi, axis=1)) + costs[one] @ eta
    sums = "ξᵢ" if shares_slack else "Σₖ ξᵢₖ"
    text = f"Σ_{{yᵢ{is_every}0}} Cᵢ {sums} + Σ_{{yᵢ{is_one}0}} Cᵢ ηᵢ"
    return {"W": W, "xi": xi, "eta": eta, "z": z}, rows, data, slack_cost, text


def _row(name: str, constraint: Any, text: str, index: NDArray[np.int64]) -> Row:
    """Return a row of an integer program, without a multiplier; `index` as :attr:`Row.at`."""
    return Row(name, constraint, text, "", "", at=index)


def expand_to_samples(
    values: NDArray[np.float64], mask: NDArray[np.bool_], elsewhere: float
) -> NDArray[np.float64]:
    """Return an array over all samples: `values` at the samples of the mask, `elsewhere` at the others."""
    result = np.full((len(mask), *values.shape[1:]), elsewhere)
    result[mask] = values
    return result


def index_pairs(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the flat index (n, K) of each pair of a row and a column; -1 if either index is negative."""
    width = int(columns.max(initial=0)) + 1
    is_absent = (rows[:, None] < 0) | (columns < 0)
    return np.where(is_absent, -1, rows[:, None] * width + columns)


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C, K = np.where(y > 0, 1.0, 0.7), 3
    assignment = np.arange(len(y)) % K
    costs = C * assignment_matrix(y, K, assignment)[:, 0]

    def recover_face(alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
        point = recover(X, y, alpha[:, None])
        return {"w": point["W"][0], "xi": point["xi"][:, 0]}

    dualities = [_pair(X, y, K, assignment, C, loss, "total") for loss in ("sum", "max")]
    dualities.append(Duality(face(X, y, costs), face_dual(X, y, costs), lambda v: recover_face(v["alpha"])))
    # Negatives between two groups of positives, so that both faces are needed and theta > 0.
    X2, y2 = two_blobs(m=2, seed=seed)
    side = np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    X2[:, 0] = np.where(y2 > 0, 2.5 * side, 0.0) + 0.7 * (X2[:, 0] - X2[:, 0].mean())
    C2, group = np.where(y2 > 0, 1.0, 0.7), (side > 0).astype(int)
    return [*dualities, *(_pair(X2, y2, 2, group, C2, loss, "worst") for loss in ("sum", "max"))]


def _pair(
    X: Matrix, y: Vector, K: int, assignment: NDArray[np.int64], C: Vector, loss: Loss, margin: Margin
) -> Duality:
    """Return the primal and dual programs for a fixed assignment."""
    dual = fixed_assignment_dual(X, y, K, assignment, C, loss, margin)

    def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        radius = dual.rows[-1].multipliers if margin == "worst" else None  # of the last solve
        return recover(X, y, v["alpha"], loss, margin, radius)

    return Duality(fixed_assignment(X, y, K, assignment, C, loss, margin), dual, recovered)


def singles(seed: int = 0) -> list[Program]:
    """Return the machine over all assignments, which has no dual, on random data."""
    X, y = two_blobs(n=16, m=2, seed=seed)
    C = np.where(y > 0, 1.3, 0.7)
    return [mixed_integer(X, y, 2, C), mixed_integer(X, y, 2, C, loss="max", margin="worst")]
