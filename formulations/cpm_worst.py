"""The Convex Polytope Machine with the worst-case margin: the largest face is kept short, not their sum.

Problem
-------
As in :mod:`formulations.cpm`, for a fixed assignment; but where the sum of squared norms makes the faces'
margins large in total, here the smallest margin of them all is made large. The faces share one
multiplier budget, which ties them together.

Variables and shapes
--------------------
As in :mod:`formulations.cpm`: W (K, m+1), xi (n, K) or, with the shared slack of loss="max", one entry
per negative and K per positive; alpha (n, K). t is a scalar, theta (K,), and in the dual s (K,).
v_k = Σ_i α_ik y_i x̃_i.

Programs
--------
fixed_assignment for either loss, and fixed_assignment_dual: minimising the Lagrangian over t asks for Σ θ_k =
1 and over W_k for 2 θ_k W_k = v_k, which leaves Σ α − ¼ Σ_k ‖v_k‖²/θ_k. The best θ for given α is θ_k = ‖v_k‖
/ Σ_l ‖v_l‖, hence the dual's ¼ (Σ_k s_k)² with s_k ≥ ‖v_k‖.

Recovery
--------
W_k = v_k/(2θ_k) = v_k S/(2‖v_k‖) with S = Σ_k ‖v_k‖, t = S²/4, the slacks as in :mod:`formulations.cpm`.
A face with v_k = 0 needs no length to keep its margins free: any W_k with ‖W_k‖² ≤ t that violates none
of its margins beyond its multipliers is optimal. alpha does not give it; the multipliers of the row norm do.

Multipliers
-----------
theta_k is the share of face k in the margin budget: 0 for a face that could be shorter, all of it for a
single one that is the longest. alpha and beta are as in :mod:`formulations.cpm`; radius is the sum of
the s_k over two, the same for all faces: the norm that the longest of them has. The row is a cone, and its
multiplier (m+2, K): radius first, and under it −W, the faces themselves.

Infeasible when
---------------
Never for finite C: W = 0, t = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014),
the worst-case margin beside eq. (6); the dual is derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_worst
>>> X, y = np.array([[-2.0], [0.0], [1.0]]), np.array([1, -1, 1])  # the right face has less room
>>> program = cpm_worst.fixed_assignment(X, y, n_faces=2, assignment=[0, -1, 1], C=10.0)
>>> solution = program.solve()
>>> print((solution["W"] ** 2).sum(axis=1).max().round(6), solution["t"].round(6))
5.0 5.0
>>> solution.duals["norm"].round(4) + 0.0
array([0., 1.])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations import cpm
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.polytope import Loss, lift, shares

_SOURCE = "Kantchelian et al. (2014), worst-case margin beside eq. (6)"


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum"
) -> Program:
    """The machine with the worst-case margin for a fixed assignment.

    Parameters
    ----------
    X, y, n_faces, assignment, C, loss
        As in :func:`formulations.cpm.fixed_assignment`.

    Returns
    -------
    Program
        With the parameters C and Z, as :func:`formulations.cpm.fixed_assignment`, whose rows it has.
    """
    total = cpm.fixed_assignment(X, y, n_faces, assignment, C, loss)
    W, t = total.variables["W"], cp.Variable(name="t")
    norm = Row(
        "norm",
        cp.sum(cp.square(W), axis=1) <= t,
        "‖Wₖ‖² ≤ t",
        "theta",
        "face k's share of the margin budget: 0 where it could be shorter; they add up to 1",
    )
    _, paid = total.objective.args[0].args
    return Program(
        name=total.name.replace("cpm.", "cpm_worst."),
        title=f"{total.title}, worst-case margin",
        source=_SOURCE,
        objective=cp.Minimize(t + paid),
        objective_text=total.objective_text.replace("‖W‖²", "t"),
        variables={**total.variables, "t": t},
        rows=(*total.rows, norm),
        parameters=total.parameters,
        letters=total.letters,
        data=total.data,
    )


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum"
) -> Program:
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    total = cpm.fixed_assignment_dual(X, y, n_faces, assignment, C, loss)
    X, y = as_data(X, y)
    alpha, s = total.variables["alpha"], cp.Variable(n_faces, name="s")
    norm = Row(
        "norm",
        # As a cone: where a face is not needed v is 0, and its norm has no gradient there.
        cp.SOC(s, lift(X).T @ cp.multiply(y[:, None], alpha), axis=0),
        "‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖ ≤ sₖ",
        "radius",
        "the norm of the longest face; and under it, for every k, a face $−Wₖ$ itself",
    )
    return Program(
        name=total.name.replace("cpm.", "cpm_worst."),
        title=f"{total.title}, worst-case margin",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.square(cp.sum(s))),
        objective_text="Σᵢₖ αᵢₖ − ¼ (Σₖ sₖ)²",
        variables={"alpha": alpha, "s": s},
        rows=(*total.rows, norm),
        parameters=total.parameters,
        letters={**total.letters, "Wₖ": "face $k$ of the primal"},
        data=total.data,
    )


def recover(
    X: MatrixLike, y: ArrayLike, alpha: NDArray[Any], loss: Loss = "sum", radius: NDArray[Any] | None = None
) -> dict[str, NDArray[Any]]:
    """Primal variables W, xi and t from the dual's alpha (n, K)."""
    X, y = as_data(X, y)
    if radius is not None:
        W = -radius[1:].T
    else:
        pulls = (lift(X).T @ (alpha * y[:, None])).T
        theta = shares(pulls)
        W = pulls * np.divide(0.5, theta, out=np.zeros_like(theta), where=theta > 0)[:, None]
    return {**cpm.with_slacks(X, y, W, loss), "t": np.array((W**2).sum(axis=1).max())}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    # Negatives between two groups of positives, so that both faces are needed and theta > 0.
    X, y = two_blobs(m=2, seed=seed)
    side = np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    X[:, 0] = np.where(y > 0, 2.5 * side, 0.0) + 0.7 * (X[:, 0] - X[:, 0].mean())
    C, K, assignment = np.where(y > 0, 1.0, 0.7), 2, (side > 0).astype(int)

    def of(loss: Loss) -> Duality:
        arguments = (X, y, K, assignment, C, loss)
        dual = fixed_assignment_dual(*arguments)

        def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return recover(X, y, v["alpha"], loss, dual.rows[-1].multipliers)  # as the last solve left them

        return Duality(fixed_assignment(*arguments), dual, recovered)

    return [of("sum"), of("max")]
