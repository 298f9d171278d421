"""A union of polytopes: one class inside of one of several pieces, each a Convex Polytope Machine.

Problem
-------
The inside is P_1 ∪ … ∪ P_D, each piece a polytope with faces of its own: f(x) = min_d max_{k in d} W_k·x̃ is
positive outside of all pieces, where the positive samples belong. A negative must be on the inner side of
every face of one piece; which piece, d(i), is its assignment. A positive must be on the outer side of one
face of every piece; which ones, z_id, is its assignment. For fixed assignments the program is convex, and
falls into one program for each face; over the assignments it is not. Everything here is for fixed ones;
:func:`formulations.union.union_objective` alone takes the best.

Variables and shapes
--------------------
As in :mod:`formulations.cpm`, with the faces of all pieces side by side: W (K, m+1), the bias last and
penalised like the others; xi (n, K); alpha (n, K) in the dual. The piece of each face is ``pieces`` (K,). Z
(n, K) is the 0/1 matrix of who answers for whom: at a negative, ones at the faces of its piece; at a
positive, one 1 in every piece.

Primal
------
     min  ‖W‖² + Σ_ik C_i Z_ik ξ_ik
     margin:  y_i W_k·x̃_i ≥ 1 − ξ_ik              [alpha]
     slack:   ξ_ik ≥ 0                             [beta]

A negative pays for every face of its piece that it violates; a positive pays once for every piece that it is
in, so that one in the overlap of two pieces pays twice. Where the pieces lie apart, it pays for one at most.
With one piece this is formulations.cpm.fixed_assignment with loss="sum".

Dual
----
     max  Σ_ik α_ik − ¼ Σ_k ‖Σ_i α_ik y_i x̃_i‖²
     margin:  α_ik ≥ 0                             [surplus of the primal row margin]
     xi:      α_ik ≤ C_i Z_ik                      [xi]

Recovery
--------
W_k = ½ Σ_i α_ik y_i x̃_i, ξ_ik = [1 − y_i W_k·x̃_i]_+.

Multipliers
-----------
alpha_ik is the rate at which the optimal cost rises when sample i must reach a margin above 1 on face k.
beta is the unused price of slack.

Infeasible when
---------------
Never for finite C: W = 0, ξ = 1 is feasible.

Reference
---------
The program of Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine
(2014), unconstrained form of eq. (6), once for each piece; the union is this package's own.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_union
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is left and right
>>> pieces, faces = [0, 1], [[0, 1], [0, 1], [0, 1]]  # one face each, which answers for the middle
>>> program = cpm_union.fixed_assignment(X, y, pieces, [0, -1, 1], faces, C=10.0)
>>> program.solve()["W"].round(6)
array([[ 1.,  1.],
       [-1.,  1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations import cpm
from formulations.cpm_face import LETTERS as MACHINE
from formulations.cpm_face import PAPER, SOURCE
from formulations.polytope import lift
from formulations.program import Duality, Program, Row
from formulations.recovery import as_data
from formulations.samples import two_blobs
from formulations.svm import cost_parameter
from formulations.union import best_faces, best_pieces, union_answers, union_objective

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = [
    "fixed_assignment",
    "fixed_assignment_dual",
    "pairs",
    "recover",
    "union_answers",
    "union_objective",
]

_SOURCE = f"{PAPER}, {SOURCE}, for each piece"
_LETTERS = {
    **{letter: MACHINE[letter] for letter in ("x̃ᵢ", "xᵢ", "yᵢ", "Cᵢ")},
    "Zᵢₖ": "1 where sample $i$ is on face $k$, else 0: a negative is on all faces of its piece, a positive "
    "on one face of every piece",
    "yᵢ": "+1 outside of every piece, −1 inside of one",
}


def _parameters(
    y: NDArray[Any], pieces: ArrayLike, inside: ArrayLike, outside: ArrayLike, C: ArrayLike
) -> tuple[dict[str, cp.Parameter], cp.Parameter]:
    """The parameters C and Z, and the cost of each slack, which follows from both."""
    answers = union_answers(y, pieces, inside, outside)
    per_sample = cost_parameter(C, len(y))
    Z = cp.Parameter(answers.shape, nonneg=True, name="Z", value=answers)

    def by_pair() -> NDArray[Any]:
        return np.asarray(per_sample.value[:, None] * Z.value)

    costs = cp.CallbackParam(by_pair, shape=answers.shape, nonneg=True)
    return {"C": per_sample, "Z": Z}, costs


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, pieces: ArrayLike, inside: ArrayLike, outside: ArrayLike, C: ArrayLike = 1.0
) -> Program:
    """The union of polytopes for fixed assignments.

    Parameters
    ----------
    X, y, C
        Samples, labels (-1 inside, +1 outside) and costs, else as in :func:`formulations.svm.primal`.
    pieces, inside, outside
        As of :func:`formulations.union.union_answers`: the piece of each face and of each negative, and a
        face of every piece for each positive.

    Returns
    -------
    Program
        With the parameters C and Z; ``program.set(Z=union_answers(y, pieces, inside, outside))`` changes the
        assignments.
    """
    X, y = as_data(X, y)
    parameters, costs = _parameters(y, pieces, inside, outside, C)
    W, xi = cp.Variable((costs.shape[1], X.shape[1] + 1), name="W"), cp.Variable(costs.shape, name="xi")
    margin = Row(
        "margin",
        cp.multiply(y[:, None], lift(X) @ W.T) >= 1 - xi,
        "yᵢ Wₖ·x̃ᵢ ≥ 1 − ξᵢₖ",
        "alpha",
        "price of sample i's margin on face k: 0 beyond it, up to its cost on it, all of it inside",
    )
    return Program(
        name="cpm_union.fixed_assignment",
        title="Union of polytopes, fixed assignments",
        source=_SOURCE,
        objective=cp.Minimize(cp.sum_squares(W) + cp.sum(cp.multiply(costs, xi))),
        objective_text="‖W‖² + Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ",
        variables={"W": W, "xi": xi},
        rows=(margin, Row("slack", xi >= 0, "ξᵢₖ ≥ 0", "beta", "unused price of slack")),
        parameters=parameters,
        letters=_LETTERS,
        data={"x": X, "y": y},
    )


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, pieces: ArrayLike, inside: ArrayLike, outside: ArrayLike, C: ArrayLike = 1.0
) -> Program:
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    parameters, costs = _parameters(y, pieces, inside, outside, C)
    alpha = cp.Variable(costs.shape, name="alpha")
    pull = lift(X).T @ cp.multiply(y[:, None], alpha)
    rows = (
        Row("margin", alpha >= 0, "αᵢₖ ≥ 0", "surplus", "how far sample i is beyond face k's margin"),
        Row("xi", alpha <= costs, "αᵢₖ ≤ Cᵢ Zᵢₖ", "xi", "the slacks $ξ$"),
    )
    return Program(
        name="cpm_union.fixed_assignment_dual",
        title="Union of polytopes, fixed assignments, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.sum_squares(pull)),
        objective_text="Σᵢₖ αᵢₖ − ¼ Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²",
        variables={"alpha": alpha},
        rows=rows,
        parameters=parameters,
        letters=_LETTERS,
        data={"x": X, "y": y},
    )


def recover(X: MatrixLike, y: ArrayLike, alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Primal variables W and xi from the dual's alpha (n, K)."""
    return cpm.recover(X, y, alpha)


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    pieces = np.array([0, 0, 1, 1, 1])
    outputs = lift(X) @ np.random.default_rng(seed).normal(size=(X.shape[1] + 1, len(pieces)))
    C = np.where(y > 0, 1.0, 0.7)
    arguments = (X, y, pieces, best_pieces(outputs, pieces), best_faces(outputs, pieces), C)
    return [
        Duality(
            fixed_assignment(*arguments),
            fixed_assignment_dual(*arguments),
            lambda v: recover(X, y, v["alpha"]),
        )
    ]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
