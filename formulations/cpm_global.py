"""The Convex Polytope Machine over all assignments: a mixed-integer quadratic program.

Problem
-------
As in :mod:`formulations.cpm` with loss="sum", but the assignment is a variable too. It has no dual of its
own, so it is no member of the families that come in pairs; it is here as the independent check of the
branch and bound that polyopt has for it.

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), xi (n₋, K) for the negatives, eta (n₊,) for the positives, z (n₊, K) of 0 and 1:
z_ik = 1 where face k answers for the positive i. X is (n, m), y is (n,) of -1 and +1, C a scalar or (n,).

Primal
------
     min  ‖W‖² + Σ_neg C_i Σ_k ξ_ik + Σ_pos C_i η_i
     inside:    −W_k·x̃_i ≥ 1 − ξ_ik                         (negatives, all k)
     outside:   W_k·x̃_i ≥ 1 − η_i − M_i (1 − z_ik)          (positives, all k)
     choice:    Σ_k z_ik = 1
     symmetry:  z_ik ≤ Σ_{j<i} z_{j,k−1} for k > 0: face k is opened after face k−1
     slack:     ξ ≥ 0
     excess:    η ≥ 0

A valid M
---------
Let U be the cost of any W at all, w₀ and V₀ the optimum and the value of the face that holds the negatives
alone, R(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+. R is 2-strongly convex with minimum V₀ at w₀, so
R(w) ≥ V₀ + ‖w − w₀‖². An optimal W has Σ_k R(W_k) ≤ U and each other face costs V₀ at least, hence

    ‖W_k − w₀‖² ≤ U − K V₀ = ρ²   and   ‖W_k‖² ≤ R(W_k) ≤ U − (K−1) V₀,

and with either the row of a face that does not answer is slack at η_i = 0:

    1 − W_k·x̃_i ≤ M_i = min( 1 − w₀·x̃_i + ρ‖x̃_i‖,  1 + ‖x̃_i‖ √(U − (K−1) V₀) ).

V₀ is taken as the dual value of w₀, which never is above the optimum.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014),
unconstrained form of eq. (6); the formulation and its M are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_global
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])
>>> cpm_global.big_m(X, y, n_faces=2, C=10.0, upper=4.0).round(3)
array([4.873, 4.873])
>>> program = cpm_global.mixed_integer(X, y, n_faces=2, C=10.0, upper=4.0)
>>> program.kind, program.solvers
('MIQP', ('SCIP',))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from formulations.cpm_face import LETTERS, face
from formulations.polytope import lift
from formulations.program import Program, Row
from formulations.recovery import as_costs, as_data
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["big_m", "mixed_integer"]


def big_m(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None
) -> NDArray[np.float64]:
    """M_i of each positive, shape (n₊,).

    Parameters
    ----------
    X, y, n_faces, C
        As in :func:`formulations.cpm.fixed_assignment`; both classes are needed for a program.
    upper : float, optional
        U, the cost of any point; the lower, the smaller is M. By default that of W = 0 or of all faces
        at (0, ..., 0, -1), whichever is less.
    """
    X, y = as_data(X, y)
    costs, lifted = as_costs(C, len(y)), lift(X)
    inside = np.where(y < 0, costs, 0.0)
    if upper is None:
        outside = costs[y > 0].sum()
        upper = min(n_faces * inside.sum() + outside, n_faces + 2 * outside)
    w, value = np.zeros(lifted.shape[1]), 0.0
    if inside.any():
        found = face(X, y, inside).solve()
        w = found["w"]
        alpha = np.clip(found.duals["margin"], 0.0, inside)
        value = max(0.0, float(alpha.sum() - 0.25 * np.sum((lifted.T @ (alpha * y)) ** 2)))
        # What w costs above V₀ bounds how far it is from w₀.
        excess = float(w @ w + inside @ np.maximum(0.0, 1.0 + lifted @ w)) - value
        off = np.sqrt(max(excess, 0.0))
    else:
        off = 0.0
    points = lifted[y > 0]
    lengths = np.sqrt(np.asarray((points * points).sum(axis=1)).ravel())
    rho = off + np.sqrt(max(upper - n_faces * value, 0.0))
    longest = np.sqrt(max(upper - (n_faces - 1) * value, 0.0))
    return np.asarray(np.minimum(1.0 - points @ w + rho * lengths, 1.0 + lengths * longest))


def mixed_integer(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None
) -> Program:
    """The machine over all assignments, loss="sum".

    Parameters
    ----------
    X, y, n_faces, C
        As in :func:`big_m`.
    upper : float, optional
        The cost of any point, for :func:`big_m`.
    """
    X, y = as_data(X, y)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes: with one there is nothing to assign")
    costs, lifted = as_costs(C, len(y)), lift(X)
    n, K, (inside, outside) = int((y > 0).sum()), n_faces, (lifted[y < 0], lifted[y > 0])
    M = big_m(X, y, K, costs, upper)
    W = cp.Variable((K, lifted.shape[1]), name="W")
    xi, eta = cp.Variable((len(y) - n, K), name="xi"), cp.Variable(n, name="eta")
    z = cp.Variable((n, K), boolean=True, name="z")
    none = "none: an integer program has no multipliers"
    # Where the rows of negatives and of positives stand among those of all samples; -1 where they do not.
    of_inside, of_outside = (np.where(of, np.cumsum(of) - 1, -1) for of in (y < 0, y > 0))
    faces = np.arange(K)
    rows = [
        Row("inside", -(inside @ W.T) >= 1 - xi, "−Wₖ·x̃ᵢ ≥ 1 − ξᵢₖ for yᵢ < 0", "–", none,
            _pairs_at(of_inside, faces)),
        Row("outside", outside @ W.T >= 1 - eta[:, None] - cp.multiply(M[:, None], 1 - z),
            "Wₖ·x̃ᵢ ≥ 1 − ηᵢ − Mᵢ (1 − zᵢₖ) for yᵢ > 0", "–", none, _pairs_at(of_outside, faces)),
        Row("choice", cp.sum(z, axis=1) == 1, "Σₖ zᵢₖ = 1 for yᵢ > 0", "–", none, of_outside),
        Row("slack", xi >= 0, "ξᵢₖ ≥ 0 for yᵢ < 0", "–", none, _pairs_at(of_inside, faces)),
        Row("excess", eta >= 0, "ηᵢ ≥ 0 for yᵢ > 0", "–", none, of_outside),
    ]  # fmt: skip
    if K > 1:
        opened = np.tril(np.ones((n, n)), -1) @ z  # how many before i are on each face
        rows.append(
            Row("symmetry", z[:, 1:] <= opened[:, : K - 1], "zᵢₖ ≤ Σ_{j<i} z_{j,k−1} for yᵢ > 0, k > 0", "–",
                none, _pairs_at(of_outside, faces - 1))
        )  # fmt: skip
    data = {"x": X, "y": y, "C": costs, "M": _at_all(M, y > 0, 1.0), "z": np.eye(len(y))[:, y > 0] @ z}
    data["ξ"] = lambda: _at_all(xi.value, y < 0, np.nan)
    data["η"] = lambda: _at_all(eta.value, y > 0, np.nan)
    paid = cp.sum(cp.multiply(costs[y < 0][:, None], xi)) + costs[y > 0] @ eta
    return Program(
        name="cpm.mixed_integer",
        title="Convex polytope machine over all assignments",
        source="Kantchelian et al. (2014), unconstrained form of eq. (6), as a mixed-integer program",
        objective=cp.Minimize(cp.sum_squares(W) + paid),
        objective_text="‖W‖² + Σ_{yᵢ<0} Cᵢ Σₖ ξᵢₖ + Σ_{yᵢ>0} Cᵢ ηᵢ",
        variables={"W": W, "xi": xi, "eta": eta, "z": z},
        rows=tuple(rows),
        letters={"Mᵢ": "so large that the row holds where $zᵢₖ = 0$ (from the data)", **LETTERS},
        data=data,
    )


def _at_all(values: NDArray[np.float64], samples: NDArray[np.bool_], other: float) -> NDArray[np.float64]:
    """Values of some samples among those of all, the others being `other`."""
    found = np.full((len(samples), *values.shape[1:]), other)
    found[samples] = values
    return found


def _pairs_at(samples: NDArray[np.int64], faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places (n, K) of the pairs of a sample and a face, -1 where one of them has none."""
    width = int(faces.max(initial=0)) + 1
    none = (samples[:, None] < 0) | (faces < 0)
    return np.where(none, -1, samples[:, None] * width + faces)


def _demonstrate() -> None:
    X, y = two_blobs(n=16, m=2)
    program = mixed_integer(X, y, 2)
    print(program, end="\n\n")
    if "SCIP" not in cp.installed_solvers():
        print("To solve it, install SCIP: pip install 'polyopt[mip]'.")
        return
    solution = program.solve()
    print(f"optimal value {solution.objective:.8g}, bound {solution.bound:.8g}, {solution.iterations} nodes")
    print(f"assignment    {solution['z'].argmax(axis=1)}")


if __name__ == "__main__":
    _demonstrate()
