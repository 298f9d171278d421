"""The Convex Polytope Machine with sparse faces: a price on their weights, few features, and signs to keep.

Problem
-------
As in :mod:`formulations.cpm`, for a fixed assignment, with any of its losses and margins. Besides, the
weights have a price that makes most of them zero, and may be asked to keep a sign, which makes the decision
monotone in a feature. The price and its letters are in :mod:`formulations.face_penalty`, its rows in
:mod:`formulations.face_rows`. Biases are free of it.

Variables and shapes
--------------------
As in :mod:`formulations.cpm` and, with margin="worst", :mod:`formulations.cpm_worst`; besides T (K, m), the
sizes of the weights, and s (L,), the lengths of L groups of features over all faces. In the dual alpha
(n, K), r and q (K, m), delta with a column for each feature that has a sign. σ (m,) of -1, 0, +1.

Primal
------
     min  ‖W‖² + λ Σ_kj T_kj + τ Σ_l s_l + what (6) pays for slack            margin="total"
     min  t + λ Σ_kj T_kj + τ Σ_l s_l + what (6) pays for slack               margin="worst"
     margin:  y_i W_k·x̃_i ≥ 1 − ξ_[ik]            [alpha]
     slack:   ξ ≥ 0                                [beta]
     norm:    ‖W_k‖² ≤ t                           [theta]    margin="worst"
     upper:   W_kj ≤ T_kj                          [r⁺]
     lower:   −W_kj ≤ T_kj                         [r⁻]
     group:   ‖(W_kj : j in group l)‖ ≤ s_l        [q]
     sign:    σ_j W_kj ≥ 0  where σ_j is not 0     [delta]

Dual
----
With N_kj = Σ_i α_ik y_i x̃_ij − r_kj − q_kj + σ_j δ_kj, what is left of a pull,
     max  Σ_ik α_ik − ¼ ‖N‖²                                                  margin="total"
     max  Σ_ik α_ik − ¼ (Σ_k s_k)²                                            margin="worst"
     margin:  α_ik ≥ 0                             [surplus of the primal row margin]
     xi:      as without the price                 [xi]
     norm:    ‖N_k‖ ≤ s_k                          [radius]    margin="worst"
     upper:   r_kj ≤ λ                             [W⁺]
     lower:   −r_kj ≤ λ                            [W⁻]
     group:   ‖(q_kj : j in group l)‖ ≤ τ          [s_l, and −W]
     sign:    δ_kj ≥ 0                             [σW]

For margin="total" the best r, q and δ are known: N is the pull V, shrunk. So any α within its caps bounds the
optimum by Σ α − ¼ ‖shrunk V‖².

Recovery
--------
margin="total": W = ½ shrunk V. margin="worst": W from the multipliers of the dual's row norm, as in
:mod:`formulations.cpm_worst`. T, s and ξ are what W asks for.

Multipliers
-----------
alpha, beta, theta as without the price. r_kj is λ or −λ where W_kj is positive or negative; where it is 0,
|r_kj| < λ says by how much the feature falls short of being worth its price. q says the same for whole
groups. δ_kj is what a weight of the forbidden sign would gain. The optimum rises with λ at the rate Σ |W_kj|,
and with τ at the rate of the groups' lengths, Σ_l s_l.

Infeasible when
---------------
Never for finite C: W = 0, ξ = 1 is feasible; with a price that is high enough all weights are 0, and that is
the optimum.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), eq. (6), for the machine. Zhu, Rosset, Hastie
& Tibshirani, 1-norm Support Vector Machines (2003), and Wang, Zhu & Zou, The doubly regularized support
vector machine (2006), for one face; Simon et al., A Sparse-Group Lasso (2013), for the price. The programs
are derived.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_sparse
>>> from formulations.face_penalty import FacePenalty
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y, z = np.array([1, -1, 1]), [0, -1, 1]  # inside is the middle; the second feature is noise
>>> program = cpm_sparse.fixed_assignment(X, y, 2, z, C=10.0, penalty=FacePenalty.of(2, l1=0.5))
>>> program.solve()["W"].round(4) + 0.0
array([[-1.,  0., -1.],
       [ 1.,  0., -1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import cvxpy as cp
import numpy as np

from formulations import cpm, cpm_worst
from formulations.arguments import one_of
from formulations.face_penalty import FacePenalty
from formulations.face_rows import dual_terms, primal_terms, sizes
from formulations.polytope import lift
from formulations.program import Duality, Program, Row
from formulations.recovery import as_data
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike
    from formulations.polytope import Loss

    Margin = Literal["total", "worst"]

__all__ = ["fixed_assignment", "fixed_assignment_dual", "pairs", "recover"]

_SOURCE = "Kantchelian et al. (2014), eq. (6), with a price on the weights"


def _of(margin: Margin) -> Any:
    """The programs without a price."""
    one_of("margin", margin, ("total", "worst"))
    return cpm_worst if margin == "worst" else cpm


def _checked(penalty: FacePenalty, X: MatrixLike) -> FacePenalty:
    return penalty.checked(np.shape(X)[1] if not hasattr(X, "shape") else X.shape[1])


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum",
    margin: Margin = "total", *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """The machine with priced weights for a fixed assignment.

    Parameters
    ----------
    X, y, n_faces, assignment, C, loss
        As in :func:`formulations.cpm.fixed_assignment`.
    margin : {"total", "worst"}
        Whether the squared norms of all faces are paid for, or the largest.
    penalty : FacePenalty
        The price; a part that is 0 has no rows.

    Returns
    -------
    Program
        With the parameters C, Z and, where there are such prices, lam and tau.
    """
    plain = _of(margin).fixed_assignment(X, y, n_faces, assignment, C, loss)
    terms = primal_terms(_checked(penalty, X), plain.variables["W"])
    length, paid = plain.objective.args[0].args
    first, rest = plain.objective_text.split(" + ", 1)
    return terms.added_to(
        plain, name=f"cpm_sparse.{loss}_{margin}", source=_SOURCE,
        objective=cp.Minimize(length + terms.cost + paid), text=f"{first}{terms.text} + {rest}",
    )  # fmt: skip


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum",
    margin: Margin = "total", *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    one_of("margin", margin, ("total", "worst"))
    plain = cpm.fixed_assignment_dual(X, y, n_faces, assignment, C, loss)
    terms = dual_terms(_checked(penalty, X), n_faces)
    X, y = as_data(X, y)
    alpha = plain.variables["alpha"]
    left = (lift(X).T @ cp.multiply(y[:, None], alpha)).T - terms.taken
    if margin == "total":
        objective, text = cp.sum(alpha) - 0.25 * cp.sum_squares(left), "Σᵢₖ αᵢₖ − ¼ ‖N‖²"
    else:
        s = cp.Variable(n_faces, name="s")
        objective, text = cp.sum(alpha) - 0.25 * cp.square(cp.sum(s)), "Σᵢₖ αᵢₖ − ¼ (Σₖ sₖ)²"
        says = "the norm of the longest face; and under it, for every k, a face $−Wₖ$ itself"
        terms.rows += (Row("norm", cp.SOC(s, left.T, axis=0), "‖Nₖ‖ ≤ sₖ", "radius", says),)
        terms.variables["s"] = s
    terms.letters["Wₖ"] = "face $k$ of the primal"
    return terms.added_to(
        plain, name=f"cpm_sparse.{loss}_{margin}_dual", source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(objective), text=text,
    )  # fmt: skip


def recover(
    X: MatrixLike, y: ArrayLike, alpha: NDArray[Any], penalty: FacePenalty, loss: Loss = "sum",
    radius: NDArray[Any] | None = None,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """The primal variables from the dual's alpha (n, K).

    Parameters
    ----------
    X, y, penalty, loss
        As in :func:`fixed_assignment`.
    alpha : ndarray of shape (n, K)
        The dual's variable.
    radius : ndarray of shape (m+2, K), optional
        With margin="worst", the multipliers of the dual's row norm, which hold the faces.
    """
    X, y = as_data(X, y)
    if radius is None:
        W = 0.5 * penalty.shrunk((lift(X).T @ (alpha * y[:, None])).T)
        longest = {}
    else:
        W = penalty.allowed(-radius[1:].T)
        longest = {"t": np.array((W**2).sum(axis=1).max())}
    return {**cpm.with_slacks(X, y, W, loss), **longest, **sizes(penalty, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(n=24, m=5, seed=seed)
    side = np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    X[:, 0] = np.where(y > 0, 2.0 * side, 0.0) + 0.7 * (X[:, 0] - X[:, 0].mean())
    C, K, assignment = np.where(y > 0, 1.0, 0.7), 2, (side > 0).astype(int)
    # Features 1 to 3 are one group; in the first price 1 and 2 may not raise a score, 3 may not lower it.
    # That holds feature 1 at 0, and not the others: a group that is 0 has no slope.
    X = X * np.where((y @ X < 0) == np.isin(np.arange(5), (2, 4)), 1.0, -1.0)
    full = FacePenalty.of(5, l1=0.1, group=0.2, signs={1: -1, 2: -1, 3: +1}, groups=[[1, 2, 3]])
    plain = FacePenalty.of(5, l1=0.2, signs={4: -1})

    def of(loss: Loss, margin: Margin, penalty: FacePenalty) -> Duality:
        arguments = (X, y, K, assignment, C, loss, margin)
        dual = fixed_assignment_dual(*arguments, penalty=penalty)

        def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # As the last solve left them.
            radius = dual.rows[-1].multipliers if margin == "worst" else None
            return recover(X, y, v["alpha"], penalty, loss, radius)

        return Duality(fixed_assignment(*arguments, penalty=penalty), dual, recovered)

    return [
        of("sum", "total", plain),
        of("max", "total", full),
        of("sum", "worst", full),
        of("max", "worst", plain),
    ]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
