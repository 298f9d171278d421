"""PC-SLP: polyhedral separation of two classes by successive linear programs.

Problem
-------
The positives are to lie inside K faces with a margin of 1 at every one of them, and each negative beyond
one face by a margin of 1. What the faces W fall short of that is
     z(W) = Σ_pos a_i max_k [1 − W_k·x̃_i]_+ + Σ_neg a_j min_k [1 + W_k·x̃_j]_+,
the mean over each class of its misses: 2 at W = 0, and 0 exactly where K faces separate the classes. (The
Polyceptron's criterion, eq. (3) of Manwani & Sastry, asks for signs without a margin, and is 0 at W = 0.)
It is piecewise linear, and the minimum over k makes it neither convex nor concave. With a face p_j chosen for
each negative the minimum goes, and what is left is a linear program. It is at least z everywhere, and
equals z at any W for which p_j is a best face, so its solution is no worse than that W: choose, solve,
choose again, and z descends.

This is a reconstruction. The error z is that of Astorino & Gaudioso. Their step is another: at W they solve
a linear program for a direction D, |D| ≤ 1, that lowers the one-sided derivative of z, one for every choice
of face for the negatives that are tied, and search along D. The program here is the whole piece of z for
one choice, so that its solution is the step, without a search. The box is of this package.

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), its bias last, xi (m₊,) of the positives and zeta (m₋,) of the negatives, in their
order in the data; in the dual u (m₊, K), q (m₋,), and s_plus and s_minus (K, m+1). P (m₋, K) has p_j's
unit vector in row j. The shares a are the costs over those of their class
(:func:`formulations.polyhedral.class_shares`): 1/m₊ and 1/m₋ for equal costs. R is the radius of the box,
or infinite.

Programs
--------
step and step_dual. At the best s the dual's value is Σ u + Σ q − R ‖what lacks in balance‖_1: any u and q
within their caps give a bound.

Recovery
--------
W are the multipliers of balance; ξ_i and ζ_j are the hinges at W.

Multipliers
-----------
u_ik says how hard positive i pushes face k outwards; the faces share its a_i between them, for it pays
for its worst face alone. q_j is how hard negative j pulls face p_j inwards. s⁺ and s⁻ are not zero where
the box holds a face: raise the radius, or scale the features.

Infeasible when
---------------
Never: W = 0, ξ = ζ = 1 is feasible, and with it the optimum lies between 0 and 2.

Reference
---------
Astorino & Gaudioso, Polyhedral Separability Through Successive LP (2002). Manwani & Sastry, Polyceptron: A
Polyhedral Learning Algorithm (2011), which compares with it.

Example
-------
>>> import numpy as np
>>> from formulations import pc_slp
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is the middle
>>> pc_slp.step(X, y, n_faces=2, assignment=[0, -1, 1]).solve().objective
0.0
>>> pc_slp.step(X, y, n_faces=2, assignment=[0, -1, 0]).solve().objective  # one face for both will not do
2.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_costs, as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.polyceptron import BOX_LETTERS, answers, box_duals, box_rows
from formulations.polyhedral import class_shares
from formulations.polytope import lift

_PAPER = "Astorino & Gaudioso (2002), reconstructed"

LETTERS = {
    "Pⱼₖ": "1 where face $k$ answers for negative $j$, otherwise 0",
    "aᵢ, aⱼ": "the sample's share of the cost of its class, the same for all if their costs are",
    **BOX_LETTERS,
    "x̃ᵢ, x̃ⱼ": "a sample with a 1 behind it, so that the bias is the last weight",
    "i": "over the positives, inside the polytope; $j$ over the negatives, outside",
}


def choice(y: ArrayLike, n_faces: int, assignment: ArrayLike) -> NDArray[np.float64]:
    """P (number of negatives, K): which face each negative is beyond, the parameter ``P``."""
    return answers(y, n_faces, assignment)[np.asarray(y) < 0]


def step(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, radius: float = 1e4
) -> Program:
    """The linear program of one step.

    Parameters
    ----------
    X, y, n_faces, assignment
        As in :func:`formulations.polyceptron.fixed_assignment`; both classes are needed.
    C : float or array_like of shape (n,)
        Costs: what each sample counts within its class.
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
        One class is empty, or has no cost: z is not defined.
    """
    inside, outside, parameters = _parts(X, y, n_faces, assignment, C)
    P, a_pos, a_neg = parameters["P"], parameters["a_pos"], parameters["a_neg"]
    W = cp.Variable((n_faces, inside.shape[1]), name="W")
    xi, zeta = cp.Variable(len(a_pos.value), name="xi"), cp.Variable(len(a_neg.value), name="zeta")
    rows = (
        Row(
            "inside",
            inside @ W.T >= 1 - xi[:, None],
            "Wₖ·x̃ᵢ ≥ 1 − ξᵢ",
            "u",
            "how hard positive i pushes face k outwards: 0 beyond the margin; over k, up to $aᵢ$",
        ),
        Row(
            "outside",
            cp.sum(cp.multiply(P, outside @ W.T), axis=1) <= -1 + zeta,
            "Σₖ Pⱼₖ Wₖ·x̃ⱼ ≤ −1 + ζⱼ",
            "q",
            "how hard negative j pulls its face inwards: 0 beyond the margin, up to $aⱼ$",
        ),
        Row("slack", xi >= 0, "ξᵢ ≥ 0", "v", "unused price of slack: $aᵢ − Σₖ uᵢₖ$"),
        Row("excess", zeta >= 0, "ζⱼ ≥ 0", "t", "unused price of slack: $aⱼ − qⱼ$"),
        *box_rows(W, radius, "Wₖ"),
    )
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
    """Dual of :func:`step`, with the same parameters; arguments as in the primal."""
    inside, outside, parameters = _parts(X, y, n_faces, assignment, C)
    P, a_pos, a_neg = parameters["P"], parameters["a_pos"], parameters["a_neg"]
    u, q = cp.Variable((len(a_pos.value), n_faces), name="u"), cp.Variable(len(a_neg.value), name="q")
    off = u.T @ inside - cp.multiply(P, q[:, None]).T @ outside
    price, price_text, variables, box = box_duals(off, radius, "Σᵢ uᵢₖ x̃ᵢ − Σⱼ Pⱼₖ qⱼ x̃ⱼ", "W")
    surplus = "how far the sample is beyond its margin"
    rows = (
        *box,
        Row("inside", u >= 0, "uᵢₖ ≥ 0", "surplus", surplus),
        Row("outside", q >= 0, "qⱼ ≥ 0", "surplus", surplus),
        Row("xi", cp.sum(u, axis=1) <= a_pos, "Σₖ uᵢₖ ≤ aᵢ", "xi", "the slacks $ξ$"),
        Row("zeta", q <= a_neg, "qⱼ ≤ aⱼ", "zeta", "the slacks $ζ$"),
    )
    return Program(
        name="pc_slp.step_dual",
        title="PC-SLP, the step for a fixed choice of faces, dual",
        source=f"{_PAPER} (derived)",
        objective=cp.Maximize(cp.sum(u) + cp.sum(q) - price),
        objective_text=f"Σᵢₖ uᵢₖ + Σⱼ qⱼ{price_text}",
        variables={"u": u, "q": q, **variables},
        rows=rows,
        parameters=parameters,
        letters=LETTERS,
        data={"x̃ᵢ": inside, "x̃ⱼ": outside, "aᵢ": a_pos, "aⱼ": a_neg, "R": radius},
    )


def _parts(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike
) -> tuple[Any, Any, dict[str, cp.Parameter]]:
    """The lifted samples of each class, and the parameters."""
    X, y = as_data(X, y)
    costs, positive = as_costs(C, len(y)), y > 0
    for sign, of in (("+1", positive), ("-1", ~positive)):
        if not costs[of].any():
            raise ValueError(f"y must hold both classes, each with a positive cost; {sign} has none")
    shares, lifted = class_shares(y, costs), lift(X)
    values = {"P": choice(y, n_faces, assignment), "a_pos": shares[positive], "a_neg": shares[~positive]}
    parameters = {k: cp.Parameter(v.shape, nonneg=True, name=k, value=v) for k, v in values.items()}
    return lifted[positive], lifted[~positive], parameters


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=2, seed=seed)
    kept = np.delete(np.arange(len(y)), np.flatnonzero(y > 0)[:3])  # one class larger than the other
    X, y = X[kept], y[kept]
    arguments = (X, y, 2, np.arange(len(y)) % 2, np.where(y > 0, 1.0 + (X[:, 0] > 0), 1.0))
    primal, dual, lifted = step(*arguments), step_dual(*arguments), lift(X)

    def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        # A linear program's primal is read off the multipliers of its dual.
        W = np.asarray(dual.rows[0].constraint.dual_value)
        scores, own = lifted @ W.T, choice(*arguments[1:4])
        return {
            "W": W,
            "xi": np.maximum(0.0, 1.0 - scores[y > 0].min(axis=1)),
            "zeta": np.maximum(0.0, 1.0 + (own * scores[y < 0]).sum(axis=1)),
        }

    return [Duality(primal, dual, recover)]
