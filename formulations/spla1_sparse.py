"""SPLA1 with sparse faces: a price on their weights, few features, and signs to keep.

Problem
-------
As in :mod:`formulations.spla1`, for fixed cells, all faces together: the price of groups of features couples
them. Besides, the weights have a price that makes most of them zero, and may be asked to keep a sign, which
makes the probability monotone in a feature. The price and its letters are in
:mod:`formulations.face_penalty`, its rows in :mod:`formulations.face_rows`. Biases pay their ridge alone.

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), the bias last, z (n, K); T (K, m), the sizes of the weights, and s (L,), the lengths
of L groups of features over all faces. v (n, K) in the dual, r and q (K, m), delta with a column for each
feature that has a sign. X is (n, m), y is (n,) of -1 and +1, +1 inside; C is a scalar or (n,). Z (n, K) is 1
where a sample is in a face's program, as :func:`formulations.polyhedral.belonging` gives it. σ (m,) of -1,
0, +1.

Primal
------
     min  Σ_ik C_i Z_ik ln(1 + exp(−z_ik)) + ρ/2 ‖W‖² + λ Σ_kj T_kj + τ Σ_l s_l
     margin:  z_ik ≤ y_i W_k·x̃_i                   [u]
     upper:   W_kj ≤ T_kj                          [r⁺]
     lower:   −W_kj ≤ T_kj                         [r⁻]
     group:   ‖(W_kj : j in group l)‖ ≤ s_l        [q]
     sign:    σ_j W_kj ≥ 0  where σ_j is not 0     [delta]

Dual
----
With u_ik = C_i Z_ik v_ik and N_kj = Σ_i C_i Z_ik v_ik y_i x̃_ij − r_kj − q_kj + σ_j δ_kj, what is left of a
pull,
     max  Σ_ik C_i Z_ik H(v_ik) − 1/(2ρ) ‖N‖²
     upper:   r_kj ≤ λ                             [W⁺]
     lower:   −r_kj ≤ λ                            [W⁻]
     group:   ‖(q_kj : j in group l)‖ ≤ τ          [s_l, and −W]
     sign:    δ_kj ≥ 0                             [σW]

The best r, q and δ are known: N is the pull V, shrunk. So any v from 0 to 1 bounds the optimum.

Recovery
--------
W = shrunk V / ρ; z_ik = y_i W_k·x̃_i; T and s are what W asks for.

Multipliers
-----------
u_ik = C_i Z_ik σ(−z_ik) is what a sample pulls. r_kj is λ or −λ where W_kj is positive or negative; where it
is 0, |r_kj| < λ says by how much the feature falls short of being worth its price; q says the same of groups.
δ_kj is what a weight of the forbidden sign would gain.

Infeasible when
---------------
Never: W = 0 is feasible, and with a price that is high enough it is the optimum but for the biases.

Reference
---------
Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function (2010), reconstructed, for the
machine: the one of PLUME, Shah, Sastry & Manwani (2019), eq. (3), as its gate becomes sharp. Simon et al., A
Sparse-Group Lasso (2013), for the price. The programs are derived.

Example
-------
>>> import numpy as np
>>> from formulations import spla1_sparse
>>> from formulations.face_penalty import FacePenalty
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y, z = np.array([-1, 1, -1]), [0, 0, 1]  # inside is the middle; the second feature is noise
>>> penalty = FacePenalty.of(2, l1=0.2)
>>> program = spla1_sparse.fixed_cells(X, y, 2, z, ridge=0.1, positives="all", penalty=penalty)
>>> program.solve()["W"].round(3) + 0.0
array([[ 1.314,  0.   ,  1.011],
       [-1.314,  0.   ,  1.011]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import positive, whole
from formulations.face_penalty import FacePenalty
from formulations.face_rows import dual_terms, primal_terms, sizes
from formulations.polyhedral import belonging, pull, scores
from formulations.polytope import check_assignment, lift
from formulations.program import Duality, Program, Row
from formulations.recovery import as_data
from formulations.samples import two_blobs
from formulations.spla1 import LETTERS as SPLA1_LETTERS
from formulations.svm import cost_parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike
    from formulations.polyhedral import Positives

__all__ = ["fixed_cells", "fixed_cells_dual", "pairs", "recover"]

_SOURCE = "Manwani & Sastry (2010), reconstructed, with a price on the weights"
_PULLED = "Σᵢ Cᵢ Zᵢₖ vᵢₖ yᵢ x̃ᵢⱼ"
LETTERS = {
    **SPLA1_LETTERS,
    "Cᵢ": "the weight of sample $i$",
    "Zᵢₖ": "1 where sample $i$ is in the program of face $k$, else 0",
}


def _members(y: NDArray[Any], n_faces: int, assignment: ArrayLike, positives: Positives) -> NDArray[Any]:
    whole("n_faces", n_faces)
    z = check_assignment(np.ones(len(y)), n_faces, assignment, "sample")
    return belonging(y, z, n_faces, positives)


def _weights(C: ArrayLike, members: NDArray[Any]) -> tuple[dict[str, cp.Parameter], cp.Parameter]:
    """The parameters C and Z, and their product."""
    per_sample = cost_parameter(C, len(members))
    Z = cp.Parameter(members.shape, nonneg=True, name="Z", value=members)
    weights = cp.CallbackParam(lambda: per_sample.value[:, None] * Z.value, shape=Z.shape, nonneg=True)
    return {"C": per_sample, "Z": Z}, weights


def fixed_cells(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0,
    ridge: float = 1e-3, positives: Positives = "cell", *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """All faces for fixed cells, with priced weights.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside.
    n_faces : int
        K.
    assignment : array_like of int, shape (n,)
        The cell of each sample.
    C : float or array_like of shape (n,)
        Weight of each sample.
    ridge : float
        ρ, positive.
    positives : {"cell", "all"}
        Whether the positives are in the program of their cell, or in those of all faces.
    penalty : FacePenalty
        The price; a part that is 0 has no rows.

    Returns
    -------
    Program
        With the parameters C, Z and, where there are such prices, lam and tau.
    """
    X, y = as_data(X, y)
    (n, m), rho = X.shape, positive("ridge", ridge)
    parameters, weights = _weights(C, _members(y, n_faces, assignment, positives))
    W, z = cp.Variable((n_faces, m + 1), name="W"), cp.Variable((n, n_faces), name="z")
    terms = primal_terms(penalty.checked(m), W)
    margin = Row(
        "margin", z <= cp.multiply(y[:, None], lift(X) @ W.T), "zᵢₖ ≤ yᵢ Wₖ·x̃ᵢ", "u",
        "pull of sample i at face k: near its weight on the wrong side, near 0 well on its own",
    )  # fmt: skip
    paid = cp.sum(cp.multiply(weights, cp.logistic(-z))) + 0.5 * rho * cp.sum_squares(W)
    return Program(
        name="spla1_sparse.fixed_cells",
        title="SPLA1, fixed cells, with a price on the weights",
        source=_SOURCE,
        objective=cp.Minimize(paid + terms.cost),
        objective_text=f"Σᵢₖ Cᵢ Zᵢₖ ln(1 + exp(−zᵢₖ)) + ρ/2 ‖W‖²{terms.text}",
        variables={"W": W, "z": z, **terms.variables},
        rows=(margin, *terms.rows),
        parameters={**parameters, **terms.parameters},
        letters={**LETTERS, **terms.letters},
        data={"x": X, "y": y, "ρ": ridge, **terms.data},
    )


def fixed_cells_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0,
    ridge: float = 1e-3, positives: Positives = "cell", *, penalty: FacePenalty,
) -> Program:  # fmt: skip
    """Dual of :func:`fixed_cells`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    rho = positive("ridge", ridge)
    parameters, weights = _weights(C, _members(y, n_faces, assignment, positives))
    terms = dual_terms(penalty.checked(X.shape[1]), n_faces, _PULLED)
    v = cp.Variable((len(y), n_faces), name="v")
    left = (lift(X).T @ cp.multiply(y[:, None], cp.multiply(weights, v))).T - terms.taken
    entropy = cp.sum(cp.multiply(weights, cp.entr(v) + cp.entr(1 - v)))
    return Program(
        name="spla1_sparse.fixed_cells_dual",
        title="SPLA1, fixed cells, with a price on the weights, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - cp.sum_squares(left) / (2 * rho)),
        objective_text="Σᵢₖ Cᵢ Zᵢₖ H(vᵢₖ) − 1/(2ρ) ‖N‖²",
        variables={"v": v, **terms.variables},
        rows=terms.rows,
        parameters={**parameters, **terms.parameters},
        letters={**LETTERS, **terms.letters},
        data={"x": X, "y": y, "ρ": ridge, **terms.data},
    )


def recover(
    X: MatrixLike, y: ArrayLike, u: NDArray[Any], ridge: float, penalty: FacePenalty
) -> dict[str, NDArray[Any]]:
    """The primal variables from what samples pull.

    Parameters
    ----------
    X, y, ridge, penalty
        As in :func:`fixed_cells`.
    u : ndarray of shape (n, K)
        The pulls, C_i Z_ik v_ik of the dual's v.
    """
    X, y = as_data(X, y)
    W = penalty.shrunk(pull(X, u * y[:, None])) / ridge
    return {"W": W, "z": y[:, None] * scores(X, W), **sizes(penalty, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=4, seed=seed)
    weights, K, cells = np.where(y > 0, 1.0, 0.7), 2, np.arange(len(y)) % 2
    # The sign of feature 0 holds it at 0, that of feature 2 does not: a group that is 0 has no slope.
    X = X * np.where(y @ X < 0, -1.0, 1.0)
    full = FacePenalty.of(4, l1=0.1, group=0.2, signs={0: -1, 2: +1}, groups=[[1, 2]])

    def of(positives: Positives, penalty: FacePenalty) -> Duality:
        given = (X, y, K, cells, weights, 2.0, positives)
        members = weights[:, None] * belonging(y, cells, K, positives)
        return Duality(
            fixed_cells(*given, penalty=penalty),
            fixed_cells_dual(*given, penalty=penalty),
            lambda v: recover(X, y, members * v["v"], 2.0, penalty),
        )

    return [of("all", full), of("cell", FacePenalty.of(4, l1=0.8))]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
