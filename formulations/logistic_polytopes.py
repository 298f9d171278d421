"""Logistic polytopes: the log-odds are the largest score of one class's faces less the other's largest score.

Problem
-------
With scores s_k(x) = w_k·x + b_k, the log-odds of class +1 are the largest score of its faces less the largest
score of the faces of class −1: a difference of two convex piecewise linear functions. A class without faces
has a zero face, whose score is 0. One face against none is logistic regression; several against none make a
polytope with their class outside; several faces of both classes make a union of polytopes on either side.

For a fixed assignment of every sample to a face of its class, the penalised negative log-likelihood has a
convex upper bound, attained if each sample has the face of its class with the largest score. The programs are
for a fixed assignment; :func:`formulations.class_faces.value` is the objective at the best assignment.
Alternating between the program and the assignment never increases the objective.

Variables and shapes
--------------------
K faces in all, zero faces included. X is (n, m), y is (n,) of -1 and +1, C is a scalar or (n,).

    w (K, m), b (K,)   weights and biases, 0 for a zero face
    xi (n,)            best score of the other class less that of the assigned face
    t (K, m), h (L,)   bounds on |w|; on the norms of L groups of features over all faces
    v (n, K), p (n,)   in the dual, with u_plus, u_minus, g and delta (K, m)
    Z, O (n, K)        Z_ik = 1 if sample i is assigned to face k, O_ik = 1 if face k is of the other class
    F (K,), S (K, m)   F_k = 0 for a zero face, else 1; S_kj = 1 if the weight may differ from 0
    G (L, m)           G_lj = 1 if feature j is in group l
    σ (K, m)           sign required of a weight, or 0
    ρ, η > 0           ridges on weights and on biases
    λ, τ ≥ 0           penalties on |w| and on groups

The log-odds do not fall with a feature if the faces of class +1 have no negative weight for it, and those of
class −1 no positive one; signs σ can require this.

Programs
--------
fixed_assignment, with the scores s_ik = w_k·x_i + b_k, f_i = Σ_k Z_ik s_ik, and multipliers in brackets,
    min  Σ_i C_i ln(1 + exp ξ_i) + ρ/2 Σ_k ‖w_k‖² + η/2 ‖b‖² + λ Σ_kj t_kj + τ Σ_l h_l
    s.t. ξ_i ≥ s_ik − f_i if O_ik = 1 [α_ik],  w ≤ t [u⁺],  −w ≤ t [u⁻],  sqrt(Σ_kj G_lj w_kj²) ≤ h_l [g],
         σ_kj w_kj ≥ 0 [δ_kj],  w_kj = 0 if S_kj = 0,  b_k = 0 if F_k = 0.
fixed_assignment_dual, with α_ik = C_i v_ik, the entropy H(p) = −p ln p − (1 − p) ln(1 − p),
q_k = Σ_i C_i (Z_ik p_i − v_ik) x_i, and r_k the same with 1 in place of x_i,
    max  Σ_i C_i H(p_i) − 1/(2ρ) Σ_kj S_kj (q_kj − u⁺_kj + u⁻_kj − g_kj + σ_kj δ_kj)² − 1/(2η) Σ_k F_k r_k²
    s.t. Σ_k v_ik = p_i,  v ≥ 0,  v_ik = 0 if O_ik = 0,  u⁺ + u⁻ ≤ λ,  u⁺, u⁻, δ ≥ 0,
         sqrt(Σ_kj G_lj g_kj²) ≤ τ.

Recovery
--------
w_kj = (q_kj − u⁺_kj + u⁻_kj − g_kj + σ_kj δ_kj)/ρ if S_kj = 1, and b_k = r_k/η if F_k = 1. For any v the
optimal u, δ and g soft-threshold q: every entry by λ, with 0 for a forbidden sign, and then each group by τ
(:mod:`formulations.face_penalty`). So any v ≥ 0 with Σ_k v_ik ≤ 1 gives a lower bound.

Multipliers
-----------
α_ik is the derivative of the loss by the score of face k of the other class, and −Σ_k α_ik that by the score
of the assigned face: Σ_k α_ik is near C_i for a sample on the wrong side, near 0 far on the right side. δ_kj
is the rate at which the cost would fall with a weight of the forbidden sign. In a group with nonzero weights,
g is τ times the weights divided by their norm; in a group of zeros its norm is at most τ.

Infeasible when
---------------
Never.

Reference
---------
The hinge loss in place of the logistic one, and faces for the positives alone, give the Convex Polytope
Machine of Kantchelian et al. (2014), eq. (6), with loss="max" (:mod:`formulations.cpm`); the likelihood is
that of SPLA1, Manwani & Sastry (2010). Alternating is a convex-concave procedure, Yuille & Rangarajan (2003).

Example
-------
>>> import numpy as np
>>> from formulations import logistic_polytopes as lp
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])  # class -1 is the middle, without faces
>>> program = lp.fixed_assignment(X, y, lp.Owners(0, 2), [1, 0, 2], C=10.0, ridge=0.1, bias_ridge=0.01)
>>> solution = program.solve()
>>> solution["w"].ravel().round(2) + 0.0
array([ 0.  , -3.57,  3.57])
"""

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from formulations.class_faces import Owners, loss_gradients, scores, shortfall
from formulations.cpm_sparse import by_groups, membership
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import positive
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.statement import index_in, select
from formulations.language.toy_data import two_blobs
from formulations.language.types import Array, MatrixLike
from formulations.svm import cost_parameter

_SOURCE = "after Kantchelian et al. (2014), eq. (6), and Manwani & Sastry (2010) (derived)"
_LETTERS = {  # meaning of the letters in printed formulas
    "H(v)": "= −v ln v − (1 − v) ln(1 − v): it keeps $v$ between 0 and 1",
    "fᵢ": "= Σₖ Zᵢₖ (wₖ·xᵢ + bₖ): the score of the face assigned to sample $i$",
    "Zᵢₖ": "1 if sample $i$ is assigned to face $k$, one of its class, else 0",
    "Oᵢₖ": "1 if face $k$ is of the other class than sample $i$, else 0",
    "Sₖⱼ": "1 if the weight $j$ of face $k$ may differ from 0, else 0",
    "Fₖ": "0 for a zero face, the face of a class without faces, else 1",
    "xᵢ": "sample $i$",
    "σₖⱼ": "+1 if the weight $j$ of face $k$ may not be negative, −1 if not positive, else 0",
    "ρ": "> 0: the ridge on the weights",
    "η": "> 0: the ridge on the biases",
    "λ": "≥ 0: the L1 penalty on the weights",
    "τ": "≥ 0: the penalty on the norms of groups over all faces",
    "Gₗⱼ": "1 if feature $j$ is in group $l$, else 0",
    "Cᵢ": "the weight of sample $i$",
}


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, penalty: FacePenalty | None = None,
    support: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the machine for a fixed assignment.

    Parameters
    ----------
    X, y, C
        Samples (n, m), labels -1 and +1, and the weight of each sample, or of all.
    owners : Owners
        The numbers of faces of the classes.
    assignment : array_like of int, shape (n,)
        The face of each sample, one of its class, in the order of :class:`Owners`.
    ridge, bias_ridge : float
        ρ and η, positive.
    penalty : FacePenalty, optional
        λ, τ and the groups, and signs: +1 if the log-odds may not fall with the feature, -1 if they may not
        rise, else 0.
    support : array_like of bool, shape (K, m), optional
        True for the weights that may differ from 0; by default all.

    Returns
    -------
    Program
        With the parameter C. Its variables w and b include zero faces, which have rows w = 0 and b = 0.
    """
    X, y = as_data(X, y)
    rho, eta = positive("ridge", ridge), positive("bias_ridge", bias_ridge)
    (n, m), K = X.shape, owners.count
    penalty = FacePenalty.of(m) if penalty is None else penalty.checked(m)
    lam = penalty.l1
    is_other, is_free = owners.other_class(y), owners.free
    Z, costs = owners.assignment_matrix(y, assignment), cost_parameter(C, n)
    w, b, t = cp.Variable((K, m), name="w"), cp.Variable(K, name="b"), cp.Variable((K, m), name="t")
    xi = cp.Variable(n, name="xi")
    s = X @ w.T + np.ones((n, 1)) @ cp.reshape(b, (1, K), order="C")
    assigned = cp.sum(cp.multiply(Z, s), axis=1, keepdims=True) @ np.ones((1, K))
    shortfall_of_pairs = cp.reshape(xi, (n, 1), order="C") @ np.ones((1, K))
    by_weight = np.arange(K * m).reshape(K, m).T  # (m, K): index of w_kj, for j and k in alphabetical order
    S = owners.support(m, support)
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier, and `at`, the
    # index in the constraint for each value of the text's indices.
    rows = [
        Row("margin", select(shortfall_of_pairs, is_other) >= select(s - assigned, is_other),
            "ξᵢ ≥ wₖ·xᵢ + bₖ − fᵢ for Oᵢₖ > 0", "alpha",
            "derivative of the loss by the score of face $k$ of the other class", at=index_in(is_other)),
        Row("above", w <= t, "wₖⱼ ≤ tₖⱼ", "u_plus", "part of $λ$ at positive weights", by_weight),
        Row("below", -w <= t, "−wₖⱼ ≤ tₖⱼ", "u_minus", "part of $λ$ at negative weights", by_weight),
    ]  # fmt: skip
    cost = 0.5 * rho * cp.sum_squares(w) + 0.5 * eta * cp.sum_squares(b) + lam * cp.sum(t)
    variables = {"w": w, "b": b, "xi": xi, "t": t}
    group_text, group_data = "", dict[str, Any]()
    if penalty.group:
        h = variables["h"] = cp.Variable(penalty.n_groups, name="h")
        cost += penalty.group * cp.sum(h)
        group_text, group_data = " + τ Σₗ hₗ", {"τ": penalty.group, "G": membership(penalty)[:, :-1]}
        rows.append(
            Row("group", cp.SOC(h, by_groups(penalty, w), axis=0), "sqrt(Σₖⱼ Gₗⱼ wₖⱼ²) ≤ hₗ", "g",
                "$τ$; and under it a subgradient of $τ$ times the group's norm, with its sign changed")
        )  # fmt: skip
    sigma = owners.required_signs(penalty.signs) * S
    if sigma.any():
        rows.append(
            Row("sign", select(cp.multiply(sigma, w), sigma != 0) >= 0, "σₖⱼ wₖⱼ ≥ 0 for σₖⱼ² > 0", "delta",
                "rate of decrease of the cost with a weight of the forbidden sign", index_in(sigma != 0).T)
        )  # fmt: skip
    if not S.all():
        rows.append(
            Row("zero", select(w, ~S) == 0, "wₖⱼ = 0 for Sₖⱼ < 1", "fixed",
                "rate at which the cost would change with this weight", index_in(~S).T)
        )  # fmt: skip
    if not is_free.all():
        rows.append(
            Row("zero_bias", select(b, ~is_free) == 0, "bₖ = 0 for Fₖ < 1", "fixed_bias",
                "rate at which the cost would change with the bias", index_in(~is_free))
        )  # fmt: skip
    return Program(
        name="logistic_polytopes.fixed_assignment",
        title="Logistic polytopes, fixed assignment",
        source=_SOURCE,
        objective=cp.Minimize(costs @ cp.logistic(xi) + cost),
        objective_text=f"Σᵢ Cᵢ ln(1 + exp(ξᵢ)) + ρ/2 Σₖ ‖wₖ‖² + η/2 Σₖ bₖ² + λ Σₖⱼ tₖⱼ{group_text}",
        variables=variables,
        rows=tuple(rows),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "Z": Z, "O": is_other, "S": S, "F": is_free, "σ": sigma, "ρ": rho,
              "η": eta, "λ": lam, **group_data},
    )  # fmt: skip


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, penalty: FacePenalty | None = None,
    support: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the dual of :func:`fixed_assignment`; arguments as in the primal."""
    X, y = as_data(X, y)
    primal = fixed_assignment(
        X, y, owners, assignment, C, ridge=ridge, bias_ridge=bias_ridge, penalty=penalty, support=support
    )
    (n, m), K, costs = X.shape, owners.count, primal.parameters["C"]
    Z, is_other, S, is_free, sigma = (np.asarray(primal.data[letter]) for letter in ("Z", "O", "S", "F", "σ"))
    penalty = penalty or FacePenalty.of(m)
    v = cp.Variable((n, K), name="v")
    u_plus, u_minus = cp.Variable((K, m), name="u_plus"), cp.Variable((K, m), name="u_minus")
    p = cp.Variable(n, name="p")
    brackets = cp.multiply(Z, cp.reshape(p, (n, 1), order="C") @ np.ones((1, K))) - v  # Z_ik p_i − v_ik
    brackets = cp.multiply(cp.reshape(costs, (n, 1), order="C") @ np.ones((1, K)), brackets)  # times C_i
    rho_w = brackets.T @ X - u_plus + u_minus  # ρ w
    optional_terms, optional_rows = "", []
    variables = [v, p, u_plus, u_minus]
    if penalty.group:
        g = cp.Variable((K, m), name="g")
        variables.append(g)
        rho_w -= g
        optional_terms = " − gₖⱼ"
        radii = penalty.group * np.ones(penalty.n_groups)
        optional_rows.append(
            Row("group", cp.SOC(radii, by_groups(penalty, g), axis=0), "sqrt(Σₖⱼ Gₗⱼ gₖⱼ²) ≤ τ", "w",
                "the norm of the group; and under it its weights, with the sign changed")
        )  # fmt: skip
    if sigma.any():
        delta = cp.Variable((K, m), name="delta")
        variables.append(delta)
        rho_w += cp.multiply(sigma, delta)
        optional_terms += " + σₖⱼ δₖⱼ"
        optional_rows.append(
            Row("sign", select(delta, sigma != 0) >= 0, "δₖⱼ ≥ 0 for σₖⱼ² > 0", "signed",
                "the absolute value of a weight with a required sign", index_in(sigma != 0).T)
        )  # fmt: skip
    rho_w = cp.multiply(S.astype(float), rho_w)
    eta_b = cp.multiply(is_free.astype(float), brackets.T @ np.ones(n))  # η b
    by_weight = np.arange(K * m).reshape(K, m).T  # as in the primal
    rows = [
        Row("xi", cp.sum(v, axis=1) == p, "Σₖ vᵢₖ = pᵢ", "xi",
            "best score of the other class less that of sample $i$'s face"),
        Row("margin", select(v, is_other) >= 0, "vᵢₖ ≥ 0 for Oᵢₖ > 0", "surplus",
            "best score of the other class less that of face $k$", index_in(is_other)),
        Row("off", select(v, ~is_other) == 0, "vᵢₖ = 0 for Oᵢₖ < 1", "beyond",
            "none: a face of sample $i$'s class has no row", index_in(~is_other)),
        Row("t", u_plus + u_minus <= penalty.l1, "u⁺ₖⱼ + u⁻ₖⱼ ≤ λ", "t",
            "absolute value of the weight", by_weight),
        Row("above", u_plus >= 0, "u⁺ₖⱼ ≥ 0", "above", "slack of the bound on a positive weight", by_weight),
        Row("below", u_minus >= 0, "u⁻ₖⱼ ≥ 0", "below", "slack of the bound on a negative weight", by_weight),
        *optional_rows,
    ]  # fmt: skip
    entropy = costs @ (cp.entr(p) + cp.entr(1 - p))
    brackets_text = "Σᵢ Cᵢ (Zᵢₖ pᵢ − vᵢₖ)"
    objective = entropy - cp.sum_squares(rho_w) / (2 * ridge) - cp.sum_squares(eta_b) / (2 * bias_ridge)
    text = (
        f"Σᵢ Cᵢ H(pᵢ) − 1/(2ρ) Σₖⱼ Sₖⱼ ({brackets_text} xᵢⱼ − u⁺ₖⱼ + u⁻ₖⱼ{optional_terms})² "
        f"− 1/(2η) Σₖ Fₖ ({brackets_text})²"
    )
    return primal.dual(objective, text, tuple(variables), tuple(rows))


def recover(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, alpha: Array, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, penalty: FacePenalty | None = None,
    support: ArrayLike | None = None,
) -> dict[str, Array]:  # fmt: skip
    """Return the primal variables from the multipliers `alpha` (n, K) of the row margin, α_ik = C_i v_ik."""
    X, y = as_data(X, y)
    q, r = loss_gradients(X, y, owners, assignment, np.where(owners.other_class(y), alpha, 0.0))
    m = X.shape[1]
    penalty = penalty or FacePenalty.of(m)
    classes = owners.classes[:, None]  # a weight times its face's class has the sign required of the log-odds
    gradients = np.column_stack([classes * q * owners.support(m, support), r])
    w, b = classes * penalty.shrunk(gradients)[:, :-1] / ridge, r / bias_ridge
    xi = shortfall(y, scores(X, w, b), owners, np.asarray(assignment))
    norms = {"h": penalty.group_norms(w)} if penalty.group else {}
    return {"w": w, "b": b, "xi": xi, "t": np.abs(w), **norms}


def pairs(seed: int = 0) -> list[Duality]:
    """Return the programs of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C = np.where(y > 0, 1.0, 0.7)

    def pair(owners: Owners, support: ArrayLike | None = None, l1: float = 0.8, **penalties: Any) -> Duality:
        order = np.arange(len(y))[:, None] * np.arange(owners.count) % 3
        z = np.where(owners.other_class(y), -np.inf, order).argmax(axis=1)
        penalty = FacePenalty.of(X.shape[1], l1=l1, **penalties)
        settings: dict[str, Any] = {
            "ridge": 2.0, "bias_ridge": 0.7, "penalty": penalty, "support": support
        }  # fmt: skip
        return Duality(
            fixed_assignment(X, y, owners, z, C, **settings),
            fixed_assignment_dual(X, y, owners, z, C, **settings),
            lambda v: recover(X, y, owners, z, C[:, None] * v["v"], **settings),
        )

    support = np.arange(4 * X.shape[1]).reshape(4, -1) % 3 > 0
    signs = np.append([1, -1], np.zeros(X.shape[1] - 2, dtype=int))
    class_support = support | (np.arange(4)[:, None] > 1)  # restricts class −1 only
    return [
        pair(Owners(2, 2), support=support),
        pair(Owners(0, 3)),
        pair(Owners(2, 1), signs=signs),
        pair(Owners(2, 2), l1=0.2, group=0.4, groups=[[1, 2]], support=class_support),
    ]
