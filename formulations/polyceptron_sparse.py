"""The exact Polyceptron with sparse faces: a price on their weights, and signs to keep.

Problem
-------
As in :mod:`formulations.polyceptron`, for a fixed assignment and with its margin of 1. Besides, the weights
have a price that makes most of them zero, and may be asked to keep a sign, which makes the decision monotone
in a feature. The price and its letters are in :mod:`formulations.face_penalty`, its rows in
:mod:`formulations.face_rows`. Biases are free of it. There is no squared norm, so that without a price of
groups each face stays a linear program. A price τ of groups of features, over all faces, makes them one
program of second-order cones.

The paper's criterion E_P has no such machine: it is positively homogeneous, so that with any price W = 0 is
its least. The margin is what makes weights worth something.

Variables and shapes
--------------------
As in :mod:`formulations.polyceptron`: x̃ = (x, 1), W (K, m+1), the bias last, ξ (n, K), Z (n, K) of which
samples are in the program of which face, R the radius of the box; besides T (K, m), the sizes of the weights,
and s (L,), the lengths of L groups of features over all faces. In the dual u (n, K), s⁺ and s⁻ (K, m+1), r
and q (K, m), delta with a column for each feature that has a sign.
σ (m,) of -1, 0, +1.

Primal
------
     min  Σ_ik C_i Z_ik ξ_ik + λ Σ_kj T_kj + τ Σ_l s_l
     margin:     y_i W_k·x̃_i ≥ 1 − ξ_ik            [u]
     slack:      ξ_ik ≥ 0                          [v]
     box_upper:  W ≤ R                             [s⁺]
     box_lower:  −W ≤ R                            [s⁻]
     upper:      W_kj ≤ T_kj                       [r⁺]
     lower:      −W_kj ≤ T_kj                      [r⁻]
     group:      ‖(W_kj : j in group l)‖ ≤ s_l     [q]
     sign:       σ_j W_kj ≥ 0  where σ_j is not 0  [delta]

Dual
----
With N_kj = Σ_i u_ik y_i x̃_ij − r_kj − q_kj + σ_j δ_kj, what is left of a pull,
     max  Σ_ik u_ik − R Σ (s⁺ + s⁻)
     balance:    N − s⁺ + s⁻ = 0                   [W]
     margin:     u_ik ≥ 0                          [surplus of the primal row margin]
     xi:         u_ik ≤ C_i Z_ik                   [ξ]
     box_upper:  s⁺ ≥ 0                            [R − W]
     box_lower:  s⁻ ≥ 0                            [R + W]
     upper:      r_kj ≤ λ                          [W⁺]
     lower:      −r_kj ≤ λ                         [W⁻]
     group:      ‖(q_kj : j in group l)‖ ≤ τ       [s_l, and −W]
     sign:       δ_kj ≥ 0                          [σW]

The best r, δ and s are known. Feature j's imbalance V_kj = Σ_i u_ik y_i x̃_ij costs what the allowed weights
can make of it, max V_kj w − λ |w|, which is R (|V_kj| − λ)_+, and nothing on the side that a sign forbids; a
bias costs R |V_k|. With a price of groups any q no longer than τ in each group is taken off first; along what
is left of the group's imbalances it is as good as can be where these are no longer than τ. So any u within
its caps bounds the optimum.

Recovery
--------
W are the multipliers of balance; T and ξ are what W asks for.

Multipliers
-----------
u_ik as without the price. r_kj is λ or −λ where W_kj is positive or negative; where it is 0, |r_kj| < λ says
by how much the feature falls short of being worth its price; q says the same of groups. δ_kj is what a weight
of the forbidden sign would gain. The optimum rises with λ at the rate Σ |W_kj|, and with τ at Σ_l s_l. s⁺ and
s⁻ are what a wider box would save: the box has less to hold than without a price.

Infeasible when
---------------
Never: W = 0, ξ = 1 is feasible. With λ above Σ_i C_i Z_ik |x_ij| for all features no weight is worth its
price.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (4), as amended in
:mod:`formulations.polyceptron`. Zhu, Rosset, Hastie & Tibshirani, 1-norm Support Vector Machines (2003), for
one face. The programs are derived.

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron_sparse
>>> from formulations.face_penalty import FacePenalty
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y, z = np.array([-1, 1, -1]), [0, -1, 1]  # inside is the middle; the second feature is noise
>>> penalty = FacePenalty.of(2, l1=0.5)
>>> program = polyceptron_sparse.fixed_assignment(X, y, 2, z, penalty=penalty)
>>> program.solve()["W"].round(6) + 0.0
array([[ 1.,  0.,  1.],
       [-1.,  0.,  1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations import polyceptron
from formulations.box import box_duals, box_rows
from formulations.face_penalty import FacePenalty
from formulations.face_rows import FaceTerms, dual_terms, primal_terms, sizes
from formulations.polyhedral import scores
from formulations.polytope import lift
from formulations.program import Duality, Program
from formulations.recovery import as_data
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["fixed_assignment", "fixed_assignment_dual", "pairs", "recover"]

_SOURCE = "Manwani & Sastry (2011), eq. (4), with a margin, a box and a price on the weights"
_PULLED = "Σᵢ uᵢₖ yᵢ x̃ᵢⱼ"
_BOX = ("box_upper", "box_lower"), "ⱼ"  # its rows' names, and the index, as l counts groups
_LETTERS = ("Fⱼ", "rₖⱼ", "δₖⱼ", "λ", "σⱼ")  # of a price without groups
_OF_GROUPS = ("Gₗⱼ", "qₖⱼ", "τ")


def _letters(terms: FaceTerms, penalty: FacePenalty) -> dict[str, str]:
    wanted = _LETTERS + (_OF_GROUPS if penalty.group > 0.0 else ())
    return {letter: terms.letters[letter] for letter in wanted}


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0,
    radius: float = 1e4, *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """All faces for a fixed assignment, with priced weights.

    Parameters
    ----------
    X, y, n_faces, assignment, C, radius
        As in :func:`formulations.polyceptron.fixed_assignment`.
    penalty : FacePenalty
        The price; a part that is 0 has no rows.

    Returns
    -------
    Program
        With the parameters C, Z and, where there are such prices, lam and tau.

    Raises
    ------
    ValueError
        A price for other features.
    """
    X, y = as_data(X, y)
    penalty = penalty.checked(X.shape[1])
    # The box's rows get names of their own: upper and lower are the price's.
    plain = polyceptron.fixed_assignment(X, y, n_faces, assignment, C, radius=np.inf)
    W = plain.variables["W"]
    terms = primal_terms(penalty, W)
    terms.rows = (*box_rows(W, radius, "Wₖ", *_BOX), *terms.rows)
    terms.data["R"] = radius
    terms.letters = _letters(terms, penalty)
    return terms.added_to(
        plain, name="polyceptron_sparse.fixed_assignment", source=_SOURCE,
        objective=cp.Minimize(plain.objective.args[0] + terms.cost),
        text=f"{plain.objective_text}{terms.text}",
    )  # fmt: skip


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0,
    radius: float = 1e4, *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    terms, held = dual_terms(penalty.checked(X.shape[1]), n_faces), " − qₖⱼ" if penalty.group > 0.0 else ""
    terms.letters = _letters(terms, penalty)
    terms.letters["Nₖⱼ"] = f"= {_PULLED} − rₖⱼ{held} + σⱼ δₖⱼ: what is left of the pull at a weight"
    plain = polyceptron.fixed_assignment_dual(X, y, n_faces, assignment, C, radius=np.inf)
    u = plain.variables["u"]
    left = cp.multiply(y[:, None], u).T @ lift(X) - terms.taken
    price, price_text, variables, rows = box_duals(left, left.shape, radius, "Nₖ", "W", *_BOX)
    caps = plain.rows[1:]  # whose balance is without the price
    return Program(
        name="polyceptron_sparse.fixed_assignment_dual",
        title=f"{plain.title}, with a price on the weights",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(u) - price),
        objective_text=f"Σᵢₖ uᵢₖ{price_text}",
        variables={"u": u, **variables, **terms.variables},
        rows=(rows[0], *caps, *rows[1:], *terms.rows),
        parameters={**plain.parameters, **terms.parameters},
        letters={**plain.letters, **terms.letters},
        data={**plain.data, **terms.data, "R": radius},
    )


def recover(X: MatrixLike, y: ArrayLike, W: NDArray[Any], penalty: FacePenalty) -> dict[str, NDArray[Any]]:
    """The primal variables from the multipliers of balance.

    Parameters
    ----------
    X, y, penalty
        As in :func:`fixed_assignment`.
    W : ndarray of shape (K, m+1)
        The multipliers.
    """
    X, y = as_data(X, y)
    W = penalty.allowed(W)
    return {"W": W, "xi": np.maximum(0.0, 1.0 - y[:, None] * scores(X, W)), **sizes(penalty, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=4, seed=seed)
    C, K, assignment = np.where(y > 0, 0.7, 1.0), 2, np.arange(len(y)) % 2
    X = X * np.where(y @ X < 0, -1.0, 1.0)  # the sign of feature 0 holds it at 0, that of feature 2 does not

    def of(radius: float, penalty: FacePenalty) -> Duality:
        given = (X, y, K, assignment, C, radius)
        dual = fixed_assignment_dual(*given, penalty=penalty)

        def recovered(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # A linear program's primal is read off the multipliers of its dual, as the last solve left them.
            return recover(X, y, np.asarray(dual.rows[0].constraint.dual_value), penalty)

        return Duality(fixed_assignment(*given, penalty=penalty), dual, recovered)

    return [
        of(1e4, FacePenalty.of(4, l1=0.6, signs={0: -1, 2: +1})),
        of(np.inf, FacePenalty.of(4, l1=1.5)),
        of(1e4, FacePenalty.of(4, l1=0.3, group=0.6, signs={0: -1}, groups=[[1, 2]])),
    ]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
