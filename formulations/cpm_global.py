"""The Convex Polytope Machine over all assignments: a mixed-integer quadratic program.

Problem
-------
As in :mod:`formulations.cpm` and :mod:`formulations.cpm_worst`, but the assignment is a variable too. It has
no dual of its own, so it is no member of the families that come in pairs; it is here as the independent check
of polyopt's branch and bound, and to be solved itself with loss="max" or margin="worst".

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), xi (n₋, K) for the negatives, eta (n₊,) for the positives, z (n₊, K) of 0 and 1:
z_ik = 1 where face k answers for the positive i. X is (n, m), y is (n,) of -1 and +1, C a scalar or (n,).
With loss="max" xi is (n₋,), one slack for all faces; with margin="worst" there is a scalar t.

Primal
------
     min  ‖W‖² + Σ_neg C_i Σ_k ξ_ik + Σ_pos C_i η_i
     inside:    −W_k·x̃_i ≥ 1 − ξ_ik                         (negatives, all k)
     outside:   W_k·x̃_i ≥ 1 − η_i − M_i (1 − z_ik)          (positives, all k)
     choice:    Σ_k z_ik = 1
     symmetry:  z_ik ≤ Σ_{j<i} z_{j,k−1} for k > 0: face k is opened after face k−1
     slack:     ξ ≥ 0
     excess:    η ≥ 0

With loss="max" a negative pays C_i ξ_i, and ξ_i stands for every ξ_ik; with margin="worst" t is paid for in
place of ‖W‖², and
     norm:      ‖W_k‖² ≤ t                              (all k)

A valid M
---------
Let U be the cost of any W at all, w₀ and V₀ the optimum and the value of the face that holds the negatives
alone, R(w) = ‖w‖² + Σ_neg C_i [1 + w·x̃_i]_+. R is 2-strongly convex with minimum V₀ at w₀, so
R(w) ≥ V₀ + ‖w − w₀‖². An optimal W has Σ_k R(W_k) ≤ U and each other face costs V₀ at least, hence

    ‖W_k − w₀‖² ≤ U − K V₀ = ρ²   and   ‖W_k‖² ≤ R(W_k) ≤ U − (K−1) V₀,

and with either the row of a face that does not answer is slack at η_i = 0:

    1 − W_k·x̃_i ≤ M_i = min( 1 − w₀·x̃_i + ρ‖x̃_i‖,  1 + ‖x̃_i‖ √(U − (K−1) V₀) ).

V₀ is taken as the dual value of w₀, which never is above the optimum. With loss="max" or margin="worst" the
faces share what they pay, so V₀ is not each face's, but no ‖W_k‖² is above U: M_i = 1 + ‖x̃_i‖ √U.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014),
unconstrained form of eq. (6), eq. (6), and the worst-case margin beside it; the formulation and its M are
derived here.

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
from formulations.language.arguments import one_of
from formulations.language.program import Program, Row
from formulations.language.recovery import as_costs, as_data
from formulations.language.toy_data import two_blobs
from formulations.polytope import check_loss, lift

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike
    from formulations.polytope import Loss

__all__ = ["big_m", "mixed_integer"]


def big_m(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None,
    loss: Loss = "sum", margin: str = "total",
) -> NDArray[np.float64]:  # fmt: skip
    """M_i of each positive, shape (n₊,).

    Parameters
    ----------
    X, y, n_faces, C
        As in :func:`formulations.cpm.fixed_assignment`; both classes are needed for a program.
    upper : float, optional
        U, the cost of any point; the lower, the smaller is M. By default that of W = 0 or of all faces
        at (0, ..., 0, -1), whichever is less.
    loss, margin
        As in :func:`mixed_integer`.
    """
    X, y = as_data(X, y)
    costs, lifted = as_costs(C, len(y)), lift(X)
    inside = np.where(y < 0, costs, 0.0)
    if upper is None:
        outside, paid = costs[y > 0].sum(), n_faces if loss == "sum" else 1
        long = n_faces if margin == "total" else 1
        upper = min(paid * inside.sum() + outside, long + 2 * outside)
    points = lifted[y > 0]
    lengths = np.sqrt(np.asarray((points * points).sum(axis=1)).ravel())
    if (loss, margin) != ("sum", "total"):
        return np.asarray(1.0 + lengths * np.sqrt(upper))
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
    rho = off + np.sqrt(max(upper - n_faces * value, 0.0))
    longest = np.sqrt(max(upper - (n_faces - 1) * value, 0.0))
    return np.asarray(np.minimum(1.0 - points @ w + rho * lengths, 1.0 + lengths * longest))


def mixed_integer(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, upper: float | None = None,
    loss: Loss = "sum", margin: str = "total",
) -> Program:  # fmt: skip
    """The machine over all assignments.

    Parameters
    ----------
    X, y, n_faces, C
        As in :func:`big_m`.
    upper : float, optional
        The cost of any point, for :func:`big_m`.
    loss : {"sum", "max"}
        Whether a negative pays for every face it violates, or for the worst.
    margin : {"total", "worst"}
        Whether the squared norms of all faces are paid for, or the largest.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    one_of("margin", margin, ("total", "worst"))
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes: with one there is nothing to assign")
    costs, lifted = as_costs(C, len(y)), lift(X)
    n, K, (inside, outside) = int((y > 0).sum()), n_faces, (lifted[y < 0], lifted[y > 0])
    M = big_m(X, y, K, costs, upper, loss, margin)
    W, eta = cp.Variable((K, lifted.shape[1]), name="W"), cp.Variable(n, name="eta")
    xi = cp.Variable((len(y) - n, K) if loss == "sum" else (len(y) - n,), name="xi")
    z = cp.Variable((n, K), boolean=True, name="z")
    none = "none: an integer program has no multipliers"
    # Where the rows of negatives and of positives stand among those of all samples; -1 where they do not.
    of_inside, of_outside = (np.where(of, np.cumsum(of) - 1, -1) for of in (y < 0, y > 0))
    faces = np.arange(K)
    each, slack = (xi, "ξᵢₖ") if loss == "sum" else (xi[:, None], "ξᵢ")
    at_slack = _pairs_at(of_inside, faces) if loss == "sum" else of_inside
    rows = [
        Row("inside", -(inside @ W.T) >= 1 - each, f"−Wₖ·x̃ᵢ ≥ 1 − {slack} for yᵢ < 0", "–", none,
            _pairs_at(of_inside, faces)),
        Row("outside", outside @ W.T >= 1 - eta[:, None] - cp.multiply(M[:, None], 1 - z),
            "Wₖ·x̃ᵢ ≥ 1 − ηᵢ − Mᵢ (1 − zᵢₖ) for yᵢ > 0", "–", none, _pairs_at(of_outside, faces)),
        Row("choice", cp.sum(z, axis=1) == 1, "Σₖ zᵢₖ = 1 for yᵢ > 0", "–", none, of_outside),
        Row("slack", xi >= 0, f"{slack} ≥ 0 for yᵢ < 0", "–", none, at_slack),
        Row("excess", eta >= 0, "ηᵢ ≥ 0 for yᵢ > 0", "–", none, of_outside),
    ]  # fmt: skip
    if K > 1:
        opened = np.tril(np.ones((n, n)), -1) @ z  # how many before i are on each face
        rows.append(
            Row("symmetry", z[:, 1:] <= opened[:, : K - 1], "zᵢₖ ≤ Σ_{j<i} z_{j,k−1} for yᵢ > 0, k > 0", "–",
                none, _pairs_at(of_outside, faces - 1))
        )  # fmt: skip
    variables, size, text = {"W": W, "xi": xi, "eta": eta, "z": z}, cp.sum_squares(W), "‖W‖²"
    if margin == "worst":
        variables["t"] = t = cp.Variable(name="t")
        rows.append(Row("norm", cp.sum(cp.square(W), axis=1) <= t, "‖Wₖ‖² ≤ t", "–", none))
        size, text = t, "t"
    data = {"x": X, "y": y, "C": costs, "M": _at_all(M, y > 0, 1.0), "z": np.eye(len(y))[:, y > 0] @ z}
    data["ξ"] = lambda: _at_all(xi.value, y < 0, np.nan)
    data["η"] = lambda: _at_all(eta.value, y > 0, np.nan)
    paid = costs[y < 0] @ (cp.sum(xi, axis=1) if loss == "sum" else xi) + costs[y > 0] @ eta
    sums = "Σ_{yᵢ<0} Cᵢ Σₖ ξᵢₖ" if loss == "sum" else "Σ_{yᵢ<0} Cᵢ ξᵢ"
    return Program(
        name="cpm.mixed_integer" + _NAMES.get((loss, margin), ""),
        title="Convex polytope machine over all assignments" + _TITLES.get((loss, margin), ""),
        source=f"Kantchelian et al. (2014), {_SOURCES[loss, margin]}, as a mixed-integer program",
        objective=cp.Minimize(size + paid),
        objective_text=f"{text} + {sums} + Σ_{{yᵢ>0}} Cᵢ ηᵢ",
        variables=variables,
        rows=tuple(rows),
        letters={"Mᵢ": "so large that the row holds where $zᵢₖ = 0$ (from the data)", **LETTERS},
        data=data,
    )


_NAMES = {("max", "total"): "_max", ("sum", "worst"): "_worst", ("max", "worst"): "_max_worst"}
_TITLES = {
    ("max", "total"): ", a negative pays for its worst face",
    ("sum", "worst"): ", worst-case margin",
    ("max", "worst"): ", worst-case margin, a negative pays for its worst face",
}
_SOURCES = {
    ("sum", "total"): "unconstrained form of eq. (6)",
    ("max", "total"): "eq. (6)",
    ("sum", "worst"): "worst-case margin beside eq. (6), unconstrained form",
    ("max", "worst"): "worst-case margin beside eq. (6)",
}


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
