"""PC-SLP: polyhedral separation of two classes by successive linear programs.

Problem
-------
The positives shall be inside a polyhedron of K faces W_k, where W_k·x̃ ≥ 0 for all k, with x̃ = (x, 1): a
positive must satisfy all K margin constraints W_k·x̃_i ≥ 1, a negative at least one constraint W_k·x̃_j ≤ −1.
The error of W is the sum of the weighted mean hinge losses of the classes, with weights a that add up to 1 in
each class,
     z(W) = Σ_pos a_i max_k [1 − W_k·x̃_i]_+ + Σ_neg a_j min_k [1 + W_k·x̃_j]_+.
z(0) = 2, and z(W) = 0 if and only if the K faces W separate the samples with margin 1. (The Polyceptron's
criterion, eq. (3) of Manwani & Sastry, asks for signs without a margin, and is 0 at W = 0.) z is piecewise
linear, and because of the minimum over k neither convex nor concave. With face p_j in place of the minimum
for each negative j, the objective is a convex majorant of z, minimised by a linear program, and equal to z at
any W for which each p_j attains the minimum. Alternating the choice of p and the linear program therefore
decreases z monotonically (majorise-minimise).

This is a reconstruction of the paper's method. The error z is that of Astorino & Gaudioso. Their step
differs: at W they solve a linear program for a direction D, |D| ≤ 1, that minimises the one-sided derivative
of z, one program for each choice of faces for the tied negatives, followed by a line search along D. Here the
linear program minimises the majorant itself, so no line search is needed. The bound |W| ≤ R is added by this
package.

Variables and shapes
--------------------
W (K, m+1), its bias last; the slacks xi (n₊,) of the positives and zeta (n₋,) of the negatives, in the order
of the data; in the dual u (n₊, K), q (n₋,), and s_plus and s_minus (K, m+1). Row j of P (n₋, K) is the unit
vector of p_j. The weights a are the costs divided by the total cost of the class: 1/n₊ and 1/n₋ for equal
costs. R is the bound on |W|, or infinite. Multipliers are in brackets below.

Programs
--------
step        min  Σ_i a_i ξ_i + Σ_j a_j ζ_j
            s.t. W_k·x̃_i ≥ 1 − ξ_i for every k [u_ik],  Σ_k P_jk W_k·x̃_j ≤ −1 + ζ_j [q_j],  ξ, ζ ≥ 0,
                 |W_kl| ≤ R [s⁺_kl, s⁻_kl]
step_dual   max  Σ_ik u_ik + Σ_j q_j − R Σ_kl (s⁺_kl + s⁻_kl)
            s.t. Σ_i u_ik x̃_i − Σ_j P_jk q_j x̃_j − s⁺_k + s⁻_k = 0 [W_k],
                 Σ_k u_ik ≤ a_i [ξ_i],  q_j ≤ a_j [ζ_j],  u, q, s⁺, s⁻ ≥ 0

Eliminating s⁺ and s⁻, the dual objective is Σ u + Σ q − R Σ_k ‖Σ_i u_ik x̃_i − Σ_j P_jk q_j x̃_j‖_1, so any
nonnegative u and q with Σ_k u_ik ≤ a_i and q_j ≤ a_j give a lower bound. If R is infinite, s⁺ and s⁻ are left
out.

Recovery
--------
W are the multipliers of the dual's row ``balance`` (its equation); ξ_i and ζ_j are the hinge losses at W.

Multipliers
-----------
u_ik is the multiplier of positive i's margin at face k; Σ_k u_ik ≤ a_i because one slack ξ_i serves all
faces. q_j is the multiplier of negative j's margin at face p_j. s⁺_kl and s⁻_kl are the multipliers of the
bounds on W_kl: if they are not 0, raise R (the argument `radius`), or scale the features.

Infeasible when
---------------
Never: W = 0, ξ = ζ = 1 is feasible, and with it the optimum lies between 0 and 2.

Reference
---------
Astorino & Gaudioso, Polyhedral Separability Through Successive LP (2002). Manwani & Sastry, Polyceptron: A
Polyhedral Learning Algorithm (2011), which compares the Polyceptron with PC-SLP.

Example
-------
>>> import numpy as np
>>> from formulations import pc_slp
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is the middle
>>> pc_slp.step(X, y, n_faces=2, assignment=[0, -1, 1]).solve().objective
0.0
>>> pc_slp.step(X, y, n_faces=2, assignment=[0, -1, 0]).solve().objective  # one face cannot separate both
2.0
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_costs, as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.polyceptron import BOX_LETTERS, assignment_matrix, box_duals, box_rows
from formulations.polyhedral import class_shares
from formulations.polytope import lift

_PAPER = "Astorino & Gaudioso (2002), reconstructed"

LETTERS = {  # meaning of the letters in printed formulas
    "Pⱼₖ": "1 if negative $j$ is assigned to face $k$, otherwise 0",
    "aᵢ, aⱼ": "the cost of the sample divided by the total cost of its class",
    **BOX_LETTERS,
    "x̃ᵢ, x̃ⱼ": "a sample with a 1 behind it, so that the bias is the last weight",
    "i": "an index of the positives, inside the polytope; $j$ of the negatives, outside",
}


def choice(y: ArrayLike, n_faces: int, assignment: ArrayLike) -> NDArray[np.float64]:
    """Return P (number of negatives, K), the parameter ``P``: 1 if the negative is assigned to the face."""
    return assignment_matrix(y, n_faces, assignment)[np.asarray(y) < 0]


def step(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, radius: float = 1e4
) -> Program:
    """Build the linear program of one step.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside; both classes are needed.
    n_faces : int
        K, at least 1.
    assignment : array_like of int, shape (n,)
        The face p_j of each negative; the entries of positives are ignored.
    C : float or array_like of shape (n,)
        Costs: relative weights of the samples within their class.
    radius : float
        R, the largest absolute value of an entry of W, or inf.

    Returns
    -------
    Program
        With the parameters P, a_pos and a_neg; ``program.set(P=choice(y, n_faces, assignment))`` changes
        the faces of the negatives.

    Raises
    ------
    ValueError
        A class is empty or its total cost is 0, so that z is not defined.
    """
    X, y = as_data(X, y)
    costs, positive, lifted = as_costs(C, len(y)), y > 0, lift(X)
    for sign, members in (("+1", positive), ("-1", ~positive)):
        if not costs[members].any():
            raise ValueError(f"y must hold both classes, each with a positive cost; {sign} has none")
    shares, inside, outside = class_shares(y, costs), lifted[positive], lifted[~positive]
    values = {"P": choice(y, n_faces, assignment), "a_pos": shares[positive], "a_neg": shares[~positive]}
    parameters = {k: cp.Parameter(v.shape, nonneg=True, name=k, value=v) for k, v in values.items()}
    P, a_pos, a_neg = parameters.values()
    W = cp.Variable((n_faces, inside.shape[1]), name="W")
    xi, zeta = cp.Variable(a_pos.shape, name="xi"), cp.Variable(a_neg.shape, name="zeta")
    rows = (  # Row: name, constraint, printed text, letter and meaning of its multiplier
        Row("inside", inside @ W.T >= 1 - xi[:, None], "Wₖ·x̃ᵢ ≥ 1 − ξᵢ", "u",
            "multiplier of positive i's margin at face k: 0 beyond the margin, at most $aᵢ$ over all k"),
        Row("outside", cp.sum(cp.multiply(P, outside @ W.T), axis=1) <= -1 + zeta,
            "Σₖ Pⱼₖ Wₖ·x̃ⱼ ≤ −1 + ζⱼ", "q",
            "multiplier of negative j's margin at its face: 0 beyond the margin, at most $aⱼ$"),
        Row("slack", xi >= 0, "ξᵢ ≥ 0", "v", "multiplier of the slack's sign: $aᵢ − Σₖ uᵢₖ$"),
        Row("excess", zeta >= 0, "ζⱼ ≥ 0", "t", "multiplier of the slack's sign: $aⱼ − qⱼ$"),
        *box_rows(W, radius, "Wₖ"),
    )  # fmt: skip
    return Program(
        name="pc_slp.step",
        title="PC-SLP, the step for a fixed choice of faces",
        source=_PAPER,
        objective=cp.Minimize(a_pos @ xi + a_neg @ zeta),
        objective_text="Σᵢ aᵢ ξᵢ + Σⱼ aⱼ ζⱼ",
        variables={"W": W, "xi": xi, "zeta": zeta},
        rows=rows,
        parameters=parameters,
        letters=LETTERS,
        data={"x̃ᵢ": inside, "x̃ⱼ": outside, "aᵢ": a_pos, "aⱼ": a_neg, "R": radius},
    )


def step_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, radius: float = 1e4
) -> Program:
    """Build the dual of :func:`step`, with the same parameters; arguments as in the primal."""
    primal, (X, y) = step(X, y, n_faces, assignment, C, radius), as_data(X, y)
    P, a_pos, a_neg = primal.parameters.values()
    inside, outside = lift(X)[y > 0], lift(X)[y < 0]
    u, q = cp.Variable((a_pos.size, n_faces), name="u"), cp.Variable(a_neg.shape, name="q")
    imbalance = u.T @ inside - cp.multiply(P, q[:, None]).T @ outside
    box_term, box_text, variables, box = box_duals(imbalance, radius, "Σᵢ uᵢₖ x̃ᵢ − Σⱼ Pⱼₖ qⱼ x̃ⱼ", "W")
    surplus = "excess of the score over its margin"
    rows = (
        *box,
        Row("inside", u >= 0, "uᵢₖ ≥ 0", "surplus", surplus),
        Row("outside", q >= 0, "qⱼ ≥ 0", "surplus", surplus),
        Row("xi", cp.sum(u, axis=1) <= a_pos, "Σₖ uᵢₖ ≤ aᵢ", "xi", "the slacks $ξ$"),
        Row("zeta", q <= a_neg, "qⱼ ≤ aⱼ", "zeta", "the slacks $ζ$"),
    )
    objective = cp.sum(u) + cp.sum(q) - box_term
    return primal.dual(objective, f"Σᵢₖ uᵢₖ + Σⱼ qⱼ{box_text}", (u, q, *variables), rows)


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=2, seed=seed)
    removed = np.flatnonzero(y > 0)[:3]  # for classes of unequal size
    X, y = np.delete(X, removed, axis=0), np.delete(y, removed)
    arguments = (X, y, 2, np.arange(len(y)) % 2, np.where(y > 0, 1.0 + (X[:, 0] > 0), 1.0))
    primal, dual, lifted = step(*arguments), step_dual(*arguments), lift(X)

    def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        # The primal solution of a linear program is the multipliers of its dual.
        W = np.asarray(dual.rows[0].constraint.dual_value)
        scores, P = lifted @ W.T, choice(*arguments[1:4])
        return {
            "W": W,
            "xi": np.maximum(0.0, 1.0 - scores[y > 0].min(axis=1)),
            "zeta": np.maximum(0.0, 1.0 + (P * scores[y < 0]).sum(axis=1)),
        }

    return [Duality(primal, dual, recover)]
