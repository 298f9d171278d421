"""Logistic polytopes: each class has faces, and the log-odds are the best of the one's less the other's.

Problem
-------
With scores s_k(x) = w_k·x + b_k, the log-odds of class +1 are the largest score of its faces less the largest
of the faces of class −1: a difference of two convex piecewise linear functions. A class without faces has the
one score 0, its face at rest. One face against none is logistic regression; K faces against none have a
polytope, on whose outside their class is; K against L have a union of polytopes on either side.

For a fixed assignment of every sample to a face of its own class the penalised log-likelihood has an upper
bound that is convex, and that it attains where the assignment is the best one. Everything here is for a fixed
assignment; :func:`formulations.class_faces.value` alone takes the best. Solving and assigning in turns never
raises it.

Variables and shapes
--------------------
K faces in all, those at rest among them. w (K, m), b (K,), 0 for a face at rest; xi (n,); t (K, m); h (L,),
the lengths of L groups of features over all faces. v (n, K), p (n,) and g (K, m) in the dual. X is (n, m), y
is (n,) of -1 and +1, C is a scalar or (n,). Z (n, K) is 1 where a face answers for a sample, a face of its
own class; O (n, K) is 1 at the faces of the other class. F_k is 0 for a face at rest, else 1. S_kj is 1 where
a weight may differ from 0: at every one of a face not at rest, or at the few that were chosen. σ_kj is +1 or
−1 where a weight keeps that sign, else 0: log-odds do not fall with a feature where the faces of class +1
have no negative weight for it, and those of class −1 no positive one.

Programs
--------
fixed_assignment with the scores s_ik = w_k·x_i + b_k, and fixed_assignment_dual with alpha_ik = C_i v_ik, the
entropy H(p) = −p ln p − (1 − p) ln(1 − p), and the pulls q_k = Σ_i C_i (Z_ik p_i − v_ik) x_i, r_k the same of
1 in place of x_i.

Recovery
--------
w_kj = (q_kj − u⁺_kj + u⁻_kj − g_kj + σ_kj δ_kj)/ρ where S_kj = 1, and b_k = r_k/η of a face not at rest. For
any v the best u, δ and g shrink q: every entry comes nearer to 0 by λ, and no further, and is 0 where its
sign is not allowed; then each group comes nearer to 0 by τ. So any v ≥ 0 with Σ_k v_ik ≤ 1 gives a bound.

Multipliers
-----------
alpha_ik is what sample i pulls at face k of the other class, and Σ_k alpha_ik what it pulls at its own: near
its weight where it is on the wrong side, near 0 well on its own. δ_kj is what a weight of the forbidden sign
would gain. g is τ times the direction of a group in use, and shorter where a group is not worth its price.

Infeasible when
---------------
Never.

Reference
---------
The hinge loss in place of the logistic one, and faces for the positives alone, give the Convex Polytope
Machine of Kantchelian et al. (2014), eq. (6), with loss="max"; the likelihood is that of SPLA1, Manwani &
Sastry (2010). Its alternation is a convex-concave procedure, Yuille & Rangarajan (2003).

Example
-------
>>> import numpy as np
>>> from formulations import logistic_polytopes as lp
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])  # class -1 is the middle, without faces
>>> program = lp.fixed_assignment(X, y, lp.Owners(0, 2), [1, 0, 2], C=10.0, ridge=0.1, bias_ridge=0.01)
>>> solution = program.solve()
>>> solution["w"].ravel().round(2) + 0.0
array([ 0.  , -3.57,  3.57])

Rows of programs of faces of two classes: some of the pairs alone, prices of groups, and signs to keep.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.class_faces import Owners, pulls, scores, shortfall, shrunk
from formulations.cpm_sparse import by_groups, membership
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import at_least, positive
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import Array, MatrixLike
from formulations.svm import cost_parameter

_SOURCE = "after Kantchelian et al. (2014), eq. (6), and Manwani & Sastry (2010) (derived)"
_LETTERS = {
    "H(v)": "= −v ln v − (1 − v) ln(1 − v): it keeps $v$ between 0 and 1",
    "fᵢ": "= Σₖ Zᵢₖ (wₖ·xᵢ + bₖ): the score of the face that answers for sample $i$",
    "Zᵢₖ": "1 where face $k$ answers for sample $i$, a face of its own class, else 0",
    "Oᵢₖ": "1 where face $k$ is of the class that sample $i$ is not of, else 0",
    "Sₖⱼ": "1 where the weight $j$ of face $k$ may differ from 0, else 0: at a face at rest, or not chosen",
    "Fₖ": "0 where face $k$ is at rest, the one face of a class without faces, else 1",
    "xᵢ": "sample $i$",
    "σₖⱼ": "+1 where the weight $j$ of face $k$ may not be negative, −1 where not positive, else 0",
    "ρ": "> 0: the ridge on the weights",
    "η": "> 0: the ridge on the biases",
    "λ": "≥ 0: the price of a unit of a weight",
    "τ": "≥ 0: the price of a unit of a group's length over all faces",
    "Gₗⱼ": "1 where feature $j$ is in group $l$, else 0",
    "Cᵢ": "the weight of sample $i$",
}


def _places_of(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each pair among those chosen, -1 where it is not."""
    return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)


def _chosen(values: cp.Expression, mask: NDArray[np.bool_]) -> cp.Expression:
    """Return the values of the pairs chosen, row by row."""
    return cp.vec(values, order="C")[np.flatnonzero(mask.ravel())]


def _priced_groups(m: int, group: float, groups: ArrayLike | None) -> tuple[FacePenalty, dict[str, Any]]:
    """Return the price of groups, and the letters of a program for it: none without a price."""
    penalty = FacePenalty.of(m, group=group, groups=groups)
    return penalty, {"τ": penalty.group, "G": membership(penalty)[:, :-1]} if penalty.group else {}


def _checked(ridge: float, bias_ridge: float, l1: float) -> tuple[float, float, float]:
    return positive("ridge", ridge), positive("bias_ridge", bias_ridge), at_least("l1", l1, 0.0)


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, l1: float = 0.0, support: ArrayLike | None = None,
    signs: ArrayLike | None = None, group: float = 0.0, groups: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the machine for a fixed assignment.

    Parameters
    ----------
    X, y, C
        Samples (n, m), labels -1 and +1, and the weight of each sample, or of all.
    owners : Owners
        How many faces each class has.
    assignment : array_like of int, shape (n,)
        The face of each sample, one of its own class (the numbers of :class:`Owners`).
    ridge, bias_ridge, l1 : float
        ρ and η, positive, and λ, at least 0.
    support : array_like of bool, shape (K, m), optional
        Which weights may differ from 0; by default all.
    signs : array_like of int, shape (m,), optional
        +1 for a feature with which the log-odds may not fall, -1 where they may not rise, 0 for a free one.
    group : float
        τ, at least 0.
    groups : array_like of shape (m,), or sequence of sequences of int, optional
        As in :meth:`formulations.face_penalty.FacePenalty.of`; by default each feature is its own.

    Returns
    -------
    Program
        With the parameter C. Its variables w and b have the faces at rest too, which rows hold at 0.
    """
    X, y = as_data(X, y)
    rho, eta, price = _checked(ridge, bias_ridge, l1)
    (n, m), K, others, free = X.shape, owners.count, owners.others(y), owners.free
    Z, costs = owners.assignment_matrix(y, assignment), cost_parameter(C, n)
    w, b, t = cp.Variable((K, m), name="w"), cp.Variable(K, name="b"), cp.Variable((K, m), name="t")
    xi = cp.Variable(n, name="xi")
    s = X @ w.T + np.ones((n, 1)) @ cp.reshape(b, (1, K), order="C")
    own = cp.sum(cp.multiply(Z, s), axis=1, keepdims=True) @ np.ones((1, K))
    short = cp.reshape(xi, (n, 1), order="C") @ np.ones((1, K))
    margin = Row(
        "margin", _chosen(short, others) >= _chosen(s - own, others),
        "ξᵢ ≥ wₖ·xᵢ + bₖ − fᵢ for Oᵢₖ > 0", "alpha",
        "pull of sample $i$ at face $k$ of the other class, and with it at its own", _places_of(others),
    )  # fmt: skip
    by_weight = np.arange(K * m).reshape(K, m).T  # the printed rows count features first
    S = owners.support(m, support)
    rows = [
        margin,
        Row("above", w <= t, "wₖⱼ ≤ tₖⱼ", "u_plus", "price that keeps a weight from growing", by_weight),
        Row("below", -w <= t, "−wₖⱼ ≤ tₖⱼ", "u_minus", "price that keeps a weight from falling", by_weight),
    ]
    cost = 0.5 * rho * cp.sum_squares(w) + 0.5 * eta * cp.sum_squares(b) + price * cp.sum(t)
    variables, more = {"w": w, "b": b, "xi": xi, "t": t}, ""
    group_price, group_data = _priced_groups(m, group, groups)
    if group_data:
        h = variables["h"] = cp.Variable(group_price.n_groups, name="h")
        cost, more = cost + group_price.group * cp.sum(h), " + τ Σₗ hₗ"
        rows.append(
            Row("group", cp.SOC(h, by_groups(group_price, w), axis=0), "sqrt(Σₖⱼ Gₗⱼ wₖⱼ²) ≤ hₗ", "g",
                "$τ$; and under it what it holds against the group's weights on all faces, with its sign")
        )  # fmt: skip
    ways = owners.ways(m, signs) * S
    if ways.any():
        rows.append(
            Row("sign", _chosen(cp.multiply(ways, w), ways != 0) >= 0, "σₖⱼ wₖⱼ ≥ 0 for σₖⱼ² > 0", "delta",
                "what a weight of the sign that is not allowed would gain", _places_of(ways != 0).T)
        )  # fmt: skip
    if not S.all():
        rows.append(
            Row("rest", _chosen(w, ~S) == 0, "wₖⱼ = 0 for Sₖⱼ < 1", "held",
                "pull at a weight that stays 0", _places_of(~S).T)
        )  # fmt: skip
    for k in np.flatnonzero(~free):
        place, says = np.where(free, -1, 0), "pull at its bias"
        rows.append(Row("still", b[k : k + 1] == 0, "bₖ = 0 for Fₖ < 1", "stopped", says, place))
    return Program(
        name="logistic_polytopes.fixed_assignment",
        title="Logistic polytopes, fixed assignment",
        source=_SOURCE,
        objective=cp.Minimize(costs @ cp.logistic(xi) + cost),
        objective_text=f"Σᵢ Cᵢ ln(1 + exp(ξᵢ)) + ρ/2 Σₖ ‖wₖ‖² + η/2 Σₖ bₖ² + λ Σₖⱼ tₖⱼ{more}",
        variables=variables,
        rows=tuple(rows),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "Z": Z, "O": others, "S": S, "F": free, "σ": ways, "ρ": rho,
              "η": eta, "λ": price, **group_data},
    )  # fmt: skip


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, l1: float = 0.0, support: ArrayLike | None = None,
    signs: ArrayLike | None = None, group: float = 0.0, groups: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """State the dual of :func:`fixed_assignment`; arguments as in the primal."""
    X, y = as_data(X, y)
    rho, eta, price = _checked(ridge, bias_ridge, l1)
    (n, m), K, others, free = X.shape, owners.count, owners.others(y), owners.free
    Z, costs = owners.assignment_matrix(y, assignment), cost_parameter(C, n)
    v = cp.Variable((n, K), name="v")
    u_plus, u_minus = cp.Variable((K, m), name="u_plus"), cp.Variable((K, m), name="u_minus")
    p = cp.Variable(n, name="p")
    pull = cp.multiply(Z, cp.reshape(p, (n, 1), order="C") @ np.ones((1, K))) - v
    pull = cp.multiply(cp.reshape(costs, (n, 1), order="C") @ np.ones((1, K)), pull)
    on = free.astype(float)
    S = owners.support(m, support).astype(float)
    left, kept, last = pull.T @ X - u_plus + u_minus, "", []
    variables = {"v": v, "p": p, "u_plus": u_plus, "u_minus": u_minus}
    group_price, group_data = _priced_groups(m, group, groups)
    if group_data:
        g = variables["g"] = cp.Variable((K, m), name="g")
        left, kept = left - g, " − gₖⱼ"
        most = group_price.group * np.ones(group_price.n_groups)
        last.append(
            Row("group", cp.SOC(most, by_groups(group_price, g), axis=0), "sqrt(Σₖⱼ Gₗⱼ gₖⱼ²) ≤ τ", "w",
                "the group's length over all faces; and under it, with the other sign, its weights")
        )  # fmt: skip
    ways = owners.ways(m, signs) * S
    if ways.any():
        delta, kept = cp.Variable((K, m), name="delta"), f"{kept} + σₖⱼ δₖⱼ"
        left, variables["delta"] = left + cp.multiply(ways, delta), delta
        last.append(
            Row("sign", _chosen(delta, ways != 0) >= 0, "δₖⱼ ≥ 0 for σₖⱼ² > 0", "signed",
                "the size of the weight, where it has a sign to keep", _places_of(ways != 0).T)
        )  # fmt: skip
    q = cp.multiply(S, left)
    r = cp.multiply(on, pull.T @ np.ones(n))
    by_weight = np.arange(K * m).reshape(K, m).T
    rows = [
        Row("xi", cp.sum(v, axis=1) == p, "Σₖ vᵢₖ = pᵢ", "xi",
            "by how much sample $i$ falls short: the other class's score less that of its own face"),
        Row("margin", _chosen(v, others) >= 0, "vᵢₖ ≥ 0 for Oᵢₖ > 0", "surplus",
            "how far face $k$ is from being the best of the other class", _places_of(others)),
        Row("off", _chosen(v, ~others) == 0, "vᵢₖ = 0 for Oᵢₖ < 1", "beyond",
            "nothing: a face of sample $i$'s own class has no row", _places_of(~others)),
        Row("t", u_plus + u_minus <= price, "u⁺ₖⱼ + u⁻ₖⱼ ≤ λ", "t", "the size of a weight", by_weight),
        Row("above", u_plus >= 0, "u⁺ₖⱼ ≥ 0", "above", "how far a weight is below its size", by_weight),
        Row("below", u_minus >= 0, "u⁻ₖⱼ ≥ 0", "below", "how far it is above minus its size", by_weight),
        *last,
    ]  # fmt: skip
    entropy = costs @ (cp.entr(p) + cp.entr(1 - p))
    pulled = "Σᵢ Cᵢ (Zᵢₖ pᵢ − vᵢₖ)"
    return Program(
        name="logistic_polytopes.fixed_assignment_dual",
        title="Logistic polytopes, fixed assignment, dual",
        source=_SOURCE,
        objective=cp.Maximize(entropy - cp.sum_squares(q) / (2 * rho) - cp.sum_squares(r) / (2 * eta)),
        objective_text=(
            f"Σᵢ Cᵢ H(pᵢ) − 1/(2ρ) Σₖⱼ Sₖⱼ ({pulled} xᵢⱼ − u⁺ₖⱼ + u⁻ₖⱼ{kept})² − 1/(2η) Σₖ Fₖ ({pulled})²"
        ),
        variables=variables,
        rows=tuple(rows),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "Z": Z, "O": others, "S": S, "F": on, "σ": ways, "ρ": rho,
              "η": eta, "λ": price, **group_data},
    )  # fmt: skip


def recover(
    X: MatrixLike, y: ArrayLike, owners: Owners, assignment: ArrayLike, alpha: Array, *,
    ridge: float = 1e-3, bias_ridge: float = 1e-5, l1: float = 0.0, support: ArrayLike | None = None,
    signs: ArrayLike | None = None, group: float = 0.0, groups: ArrayLike | None = None,
) -> dict[str, Array]:  # fmt: skip
    """Return primal variables from the multipliers alpha (n, K) of the row margin, C_i v_ik."""
    X, y = as_data(X, y)
    q, r = pulls(X, y, owners, assignment, np.where(owners.others(y), alpha, 0.0))
    m = X.shape[1]
    q, ways = q * owners.support(m, support), owners.ways(m, signs)
    w, b = shrunk(q, l1, ways, group, groups) / ridge, r / bias_ridge
    xi = shortfall(y, scores(X, w, b), owners, np.asarray(assignment))
    price, group_data = _priced_groups(m, group, groups)
    return {"w": w, "b": b, "xi": xi, "t": np.abs(w), **({"h": price.lengths(w)} if group_data else {})}


def pairs(seed: int = 0) -> list[Duality]:
    """Return the programs of this module on random data, as primal-dual pairs.

    With faces for both classes, of which some weights are held at 0, with a class at rest, signs, groups.
    """
    X, y = two_blobs(seed=seed)
    C = np.where(y > 0, 1.0, 0.7)

    def of(owners: Owners, **more: Any) -> Duality:
        mine = np.where(owners.others(y), -np.inf, np.arange(len(y))[:, None] * np.arange(owners.count) % 3)
        z = mine.argmax(axis=1)
        settings: dict[str, Any] = {"ridge": 2.0, "bias_ridge": 0.7, "l1": 0.8, **more}
        return Duality(
            fixed_assignment(X, y, owners, z, C, **settings),
            fixed_assignment_dual(X, y, owners, z, C, **settings),
            lambda v: recover(X, y, owners, z, C[:, None] * v["v"], **settings),
        )

    some = np.arange(4 * X.shape[1]).reshape(4, -1) % 3 > 0
    kept = np.append([1, -1], np.zeros(X.shape[1] - 2, dtype=int))
    whole = of(Owners(2, 2), l1=0.2, group=0.4, groups=[[1, 2]], support=some | (np.arange(4)[:, None] > 1))
    return [of(Owners(2, 2), support=some), of(Owners(0, 3)), of(Owners(2, 1), signs=kept), whole]
