"""PLUME's M-step with sparse faces: a price on their weights, few features, and signs to keep.

Problem
-------
As in :mod:`formulations.plume`, for fixed responsibilities. Besides, the weights have a price that makes
most of them zero, and may be asked to keep a sign: then no score falls with a feature. The price and its
letters are in :mod:`formulations.face_penalty`, its rows in :mod:`formulations.face_rows`. Biases pay their
ridge alone.

Where no score falls with a feature, the least score does not, and neither does the polytope's decision. The
model's probability may: it is a mean of the experts' by the gate, and where the score of a face that is not
the least rises, the gate leaves that face, whose expert was the surest.

Variables and shapes
--------------------
As in :mod:`formulations.plume`; besides T (K, m), the sizes of the weights, and s (L,), the lengths of L
groups of features over all faces. In the dual r and q (K, m), delta with a column for each feature that has
a sign. σ (m,) of -1, 0, +1.

Primal
------
     min  Σ_i C_i [ ln Σ_k exp(−γ S_ik) + Σ_k R_ik (γ S_ik + ln(1 + exp(−y_i S_ik))) ] + ρ/2 ‖W‖²
          + λ Σ_kj T_kj + τ Σ_l s_l
     score:   S_ik = W_k·x̃_i                       [alpha]
     upper:   W_kj ≤ T_kj                          [r⁺]
     lower:   −W_kj ≤ T_kj                         [r⁻]
     group:   ‖(W_kj : j in group l)‖ ≤ s_l        [q]
     sign:    σ_j W_kj ≥ 0  where σ_j is not 0     [delta]

Dual
----
With α_ik = C_i [ γ (p_ik − R_ik) + R_ik u_ik y_i ] and N_kj = Σ_i α_ik x̃_ij − r_kj − q_kj + σ_j δ_kj, what is
left of a pull,
     max  Σ_i C_i [ Ent(p_i) + Σ_k R_ik ent(u_ik) ] − 1/(2ρ) ‖N‖²
     gate:      Σ_k p_ik = 1                       [C_i (ln Σ_j exp(−γ S_ij) − 1)]
     share:     p_ik ≥ 0                           [0]
     mistake:   u_ik ≥ 0                           [0]
     certainty: u_ik ≤ 1                           [0]
     upper:     r_kj ≤ λ                           [W⁺]
     lower:     −r_kj ≤ λ                          [W⁻]
     group:     ‖(q_kj : j in group l)‖ ≤ τ        [s_l, and −W]
     sign:      δ_kj ≥ 0                           [σW]

The best r, q and δ are known: N is the pull V = Σ_i α_ik x̃_i, shrunk.

Recovery
--------
W = shrunk V / ρ, S_ik = W_k·x̃_i; T and s are what W asks for. Any W has its own p and u, and so a bound.

Multipliers
-----------
alpha_ik is what sample i pulls at face k. r_kj is λ or −λ where W_kj is positive or negative; where it is 0,
|r_kj| < λ says by how much the feature falls short of being worth its price; q says the same of groups. δ_kj
is what a weight of the forbidden sign would gain.

Infeasible when
---------------
Never: W = 0 is feasible.

Reference
---------
Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019), eq. (7), for the machine;
Simon et al., A Sparse-Group Lasso (2013), for the price. The programs are derived.

Example
-------
>>> import numpy as np
>>> from formulations import plume_sparse
>>> from formulations.face_penalty import FacePenalty
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y = np.array([-1, 1, -1])  # inside is the middle; the second feature is noise
>>> R = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
>>> program = plume_sparse.m_step(X, y, R, 1.0, ridge=0.1, penalty=FacePenalty.of(2, l1=0.3))
>>> program.solve()["W"].round(3) + 0.0
array([[ 1.003,  0.   ,  0.382],
       [-1.003,  0.   ,  0.382]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations import plume
from formulations.face_penalty import FacePenalty
from formulations.face_rows import dual_terms, primal_terms, sizes
from formulations.mixture import responsibilities
from formulations.polyhedral import pull, scores
from formulations.polytope import lift
from formulations.program import Duality, Program
from formulations.recovery import as_data
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["m_step", "m_step_dual", "pairs", "recover"]

_SOURCE = "Shah, Sastry & Manwani (2019), eq. (7), with a ridge and a price on the weights"


def m_step(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, C: ArrayLike = 1.0, ridge: float = 1e-3, *,
    penalty: FacePenalty,
) -> Program:  # fmt: skip
    """The M-step with priced weights.

    Parameters
    ----------
    X, y, R, gamma, C, ridge
        As in :func:`formulations.plume.m_step`.
    penalty : FacePenalty
        The price; a part that is 0 has no rows.

    Returns
    -------
    Program
        With the parameters C, R and, where there are such prices, lam and tau.
    """
    plain = plume.m_step(X, y, R, gamma, C, ridge)
    W = plain.variables["W"]
    terms = primal_terms(penalty.checked(W.shape[1] - 1), W)
    return terms.added_to(
        plain, name="plume_sparse.m_step", source=_SOURCE,
        objective=cp.Minimize(plain.objective.args[0] + terms.cost),
        text=f"{plain.objective_text}{terms.text}",
    )  # fmt: skip


def m_step_dual(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, C: ArrayLike = 1.0, ridge: float = 1e-3, *,
    penalty: FacePenalty,
) -> Program:  # fmt: skip
    """Dual of :func:`m_step`, with the same parameters; arguments as in the primal."""
    plain = plume.m_step_dual(X, y, R, gamma, C, ridge)
    X, y = as_data(X, y)
    p, u = plain.variables["p"], plain.variables["u"]
    terms = dual_terms(penalty.checked(X.shape[1]), p.shape[1], "Σᵢ αᵢₖ x̃ᵢⱼ")
    entropy, pulled = plume.entropies_and_pulls(p, u, plain.parameters, y, gamma)
    left = (lift(X).T @ pulled).T - terms.taken
    return terms.added_to(
        plain, name="plume_sparse.m_step_dual", source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - 0.5 / ridge * cp.sum_squares(left)),
        text="Σᵢ Cᵢ [Ent(pᵢ) + Σₖ Rᵢₖ ent(uᵢₖ)] − 1/(2ρ) ‖N‖²",
    )  # fmt: skip


def recover(
    X: MatrixLike, alpha: NDArray[Any], ridge: float, penalty: FacePenalty
) -> dict[str, NDArray[Any]]:
    """The primal variables of the M-step from what samples pull.

    Parameters
    ----------
    X, ridge, penalty
        As in :func:`m_step`.
    alpha : ndarray of shape (n, K)
        The pulls.
    """
    W = penalty.shrunk(pull(np.asarray(X, dtype=float), alpha)) / ridge
    return {"W": W, "S": scores(np.asarray(X, dtype=float), W), **sizes(penalty, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """The M-step on random data, with all prices and with one."""
    X, y = two_blobs(n=24, m=4, seed=seed)
    # Small scores: near 0 and 1 the slope of an entropy is steep, and solvers of cones lose digits there.
    X, C, gamma, ridge = 0.7 * X, np.where(y > 0, 1.0, 0.7), 0.8, 1.2
    R = responsibilities(X, y, 0.3 * np.random.default_rng(seed).normal(size=(2, 5)), gamma)
    # The sign of feature 0 holds it at 0, that of feature 2 does not: a group that is 0 has no slope.
    X = X * np.where(y @ X < 0, -1.0, 1.0)
    full = FacePenalty.of(4, l1=0.05, group=0.1, signs={0: -1, 2: +1}, groups=[[1, 2]])

    def of(penalty: FacePenalty) -> Duality:
        given = (X, y, R, gamma, C, ridge)

        def recovered(v: Any) -> dict[str, NDArray[Any]]:
            alpha = C[:, None] * (gamma * (v["p"] - R) + R * v["u"] * y[:, None])
            return recover(X, alpha, ridge, penalty)

        return Duality(m_step(*given, penalty=penalty), m_step_dual(*given, penalty=penalty), recovered)

    return [of(full), of(FacePenalty.of(4, l1=0.2))]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
