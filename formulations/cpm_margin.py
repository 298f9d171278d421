"""The margins of a polytope made large: programs (1) and (2) of the Convex Polytope Machine.

Problem
-------
For faces of norm 1 the worst-case margin of f(x) = max_k W_k·x̃ is the least y_i f(x_i); the total margin is
the sum over the faces of the least y_i f(x_i) of the samples that are assigned to them. (1) makes one of them
as large as can be; (2) states it with a number ζ_k for the margin of face k. Everything here is for a fixed
assignment. :mod:`formulations.cpm_hard` has the programs (3) to (5), which the paper derives from these.

- ‖W_k‖ = 1 is relaxed to ‖W_k‖ ≤ 1. Where a face is held by all negatives and its ζ_k is positive, that
  changes nothing: scaling the face up raises its margin. For (2) as printed it may: a face that grows becomes
  the best one of other samples. The value is then a bound on (1), attained where all norms are 1.
- In the worst case a negative's best face has its least y_i W_k·x̃_i, so all faces may hold it; (1), (2), (3)
  and (5) have the same polytopes up to scale, for every assignment and over all.
- The total of (1) and (2) asks a negative of its own face only, (3) and after asks it of every face: with
  unequal ζ_k, dividing by them changes which face is the best, so (2) and (3) are not equivalent, against the
  paper. Holding negatives by every face, as ``total`` does, gives the faces of (3), (4) and (5).
- (1) has no maximum where a face may be left without samples: its margin is the least of none.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and counts in the norm. W (K, m+1); zeta (K,), or a scalar in
the worst case; alpha (n, K) and beta (n, K), 0 where they have no row; s (K,). Z (n, K) is the 0/1 matrix of
who answers for whom: a row of ones at a negative, a unit vector at a positive; in (2) as printed a unit
vector at every sample. v_k = Σ_i α_ik y_i x̃_i.

Programs
--------
total and worst hold a negative to every face; printed is (2) as printed, where a negative is held by its own
face alone, and a sample's own face is its best one. The total margin of a face is the distance from 0 to the
hull of its y_i x̃_i, which v_k is a point of; total_dual and worst_dual find it; in printed_dual v_k = Σ_i
(α_ik y_i + Z_ik Σ_l β_il − β_ik) x̃_i.

Recovery
--------
W_k is minus the multiplier of the dual's cone, v_k/‖v_k‖ where v_k is not 0; ζ_k the least margin that it
has.

Multipliers
-----------
alpha_ik says how much of face k's margin sample i decides; they add up to 1. 2ρ_k is what face k brings of
the value: its margin, and in the worst case 0 for a face that wiggles.

Infeasible when
---------------
Never: W = 0, ζ = 0 is feasible. A face that cannot separate its samples has ζ_k = 0, and its v_k is 0: the
ray that makes :mod:`formulations.cpm_hard` infeasible.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014), section
3.2, eq. (1) and (2); the duals are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_margin
>>> X, y = np.array([[-2.0], [0.0], [1.0]]), np.array([1, -1, 1])  # the right face has less room
>>> cpm_margin.total(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6)
array([0.707107, 0.447214])
>>> print(cpm_margin.worst(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6))
0.447214
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import LETTERS, PAPER
from formulations.cpm_hard import HardRows
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import separated_clusters
from formulations.language.types import MatrixLike
from formulations.polytope import check_assignment, lift

_LETTERS = {name: LETTERS[name] for name in ("Zᵢₖ", "x̃ᵢ", "xᵢ", "yᵢ")}
_PRINTED = {**_LETTERS, "Zᵢₖ": "1 where sample $i$ is on face $k$, else 0: each is on one"}
_TITLES = {
    "total": "total margin",
    "worst": "worst-case margin",
    "printed": "total margin, each sample on its own face",
}
_SOURCES = {
    "total": "eq. (2), negatives on all faces",
    "worst": "worst-case margin in eq. (2)",
    "printed": "eq. (2), norms up to 1",
}


def _program(case: str, rows: HardRows, objective: tuple[cp.Expression, str],
             variables: dict[str, cp.Variable], stated: list[Row]) -> Program:  # fmt: skip
    dual = "s" in variables
    letters = _PRINTED if case == "printed" else _LETTERS
    return Program(
        name=f"cpm_margin.{case}{'_dual' * dual}",
        title=f"Convex polytope machine, {_TITLES[case]}{', dual' * dual}",
        source=f"{PAPER}, {_SOURCES[case]}{' (derived)' * dual}",
        objective=cp.Minimize(objective[0]) if dual else cp.Maximize(objective[0]),
        objective_text=objective[1],
        variables=variables,
        rows=tuple(stated),
        letters={**letters, "Wₖ": "face $k$ of the primal"} if dual else letters,
        data=rows.data,
    )


def _margin(rows: HardRows, W: cp.Variable, zeta: cp.Variable) -> Row:
    n, K = rows.Z.shape
    each = cp.reshape(zeta, (1, zeta.size), order="C")
    least = np.ones((n, 1)) @ (each if zeta.ndim else each @ np.ones((1, K)))
    return Row(
        "margin", rows.chosen(rows.margins(W)) >= rows.chosen(least),
        f"yᵢ Wₖ·x̃ᵢ ≥ {'ζₖ' if zeta.ndim else 'ζ'} for Zᵢₖ > 0", "alpha",
        "how much of its face's margin sample i decides", rows.places(),
    )  # fmt: skip


def _norm(W: cp.Variable) -> Row:
    return Row("norm", cp.sum(cp.square(W), axis=1) <= 1, "‖Wₖ‖² ≤ 1", "rho",
               "half of what face k brings of the value")  # fmt: skip


def total(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """The total margin for a fixed assignment, negatives held by every face.

    Parameters
    ----------
    X, y, n_faces, assignment
        As in :func:`formulations.cpm_hard.total`.
    """
    rows = HardRows.of(X, y, n_faces, assignment)
    W, zeta = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(n_faces, name="zeta")
    stated = [_margin(rows, W, zeta), _norm(W)]
    return _program("total", rows, (cp.sum(zeta), "Σₖ ζₖ"), {"W": W, "zeta": zeta}, stated)


def worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """The worst-case margin for a fixed assignment; arguments as in :func:`total`."""
    rows = HardRows.of(X, y, n_faces, assignment)
    W, zeta = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(name="zeta")
    return _program("worst", rows, (zeta, "ζ"), {"W": W, "zeta": zeta}, [_margin(rows, W, zeta), _norm(W)])


def _own_faces(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> HardRows:
    """Every sample on one face."""
    X, y = as_data(X, y)
    whole("n_faces", n_faces)
    z = check_assignment(np.ones_like(y), n_faces, assignment, "sample")
    empty = np.setdiff1d(np.arange(n_faces), z)
    if len(empty):
        raise ValueError(
            f"assignment must give every face a sample, but face {empty[0]} has none: its margin, the least "
            "of none, has no end"
        )
    return HardRows(X, y, np.eye(n_faces)[z])


def printed(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """(2) as printed for a fixed assignment of all samples, but for norms of up to 1.

    Parameters
    ----------
    X, y, n_faces
        As in :func:`total`.
    assignment : array_like of int, shape (n,)
        The face of each sample, negatives among them; no face without one.
    """
    rows = _own_faces(X, y, n_faces, assignment)
    W, zeta = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(n_faces, name="zeta")
    scores = lift(rows.X) @ W.T
    own = cp.sum(cp.multiply(rows.Z, scores), axis=1, keepdims=True)
    stated = [_margin(rows, W, zeta), _norm(W),
              Row("gain", zeta >= 0, "ζₖ ≥ 0", "gamma", "what face k's margin costs the others")]  # fmt: skip
    if n_faces > 1:
        choice = rows.chosen(own @ np.ones((1, n_faces)), 0.0) >= rows.chosen(scores, 0.0)
        stated.append(
            Row("choice", choice, "Σₗ Zᵢₗ Wₗ·x̃ᵢ ≥ Wₖ·x̃ᵢ for Zᵢₖ < 1", "beta",
                "what it costs that face k may not be the best of sample i", rows.places(0.0))
        )  # fmt: skip
    return _program("printed", rows, (cp.sum(zeta), "Σₖ ζₖ"), {"W": W, "zeta": zeta}, stated)


def _cone(s: cp.Variable, pulls: cp.Expression, text: str) -> Row:
    return Row("norm", cp.SOC(s, pulls, axis=0), f"‖{text}‖ ≤ sₖ", "radius",
               "1; and under it, for every k, a face $−Wₖ$ itself")  # fmt: skip


_PULL = "Σᵢ αᵢₖ yᵢ x̃ᵢ"


def total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`total`; arguments as in the primal."""
    rows = HardRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    zeta = Row("zeta", cp.sum(alpha, axis=0) == 1, "Σᵢ αᵢₖ = 1", "zeta", "minus face k's margin")
    stated = [_cone(s, rows.pulls(alpha), _PULL), *rows.dual_rows(alpha), zeta]
    return _program("total", rows, (cp.sum(s), "Σₖ sₖ"), {"alpha": alpha, "s": s}, stated)


def worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`worst`; arguments as in the primal."""
    rows = HardRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    zeta = Row("zeta", cp.sum(alpha) == 1, "Σᵢₖ αᵢₖ = 1", "zeta", "minus the margin")
    stated = [_cone(s, rows.pulls(alpha), _PULL), *rows.dual_rows(alpha), zeta]
    return _program("worst", rows, (cp.sum(s), "Σₖ sₖ"), {"alpha": alpha, "s": s}, stated)


def printed_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`printed`; arguments as in the primal."""
    rows = _own_faces(X, y, n_faces, assignment)
    alpha, beta = (cp.Variable(rows.Z.shape, name=name) for name in ("alpha", "beta"))
    s = cp.Variable(n_faces, name="s")
    held = cp.multiply(rows.Z, cp.sum(beta, axis=1, keepdims=True) @ np.ones((1, n_faces)))
    pulls = lift(rows.X).T @ (cp.multiply(rows.y[:, None], alpha) + held - beta)
    stated = [
        _cone(s, pulls, "Σᵢ (αᵢₖ yᵢ + Zᵢₖ Σₗ βᵢₗ − βᵢₖ) x̃ᵢ"),
        *rows.dual_rows(alpha),
        Row("zeta", cp.sum(alpha, axis=0) >= 1, "Σᵢ αᵢₖ ≥ 1", "zeta", "face k's margin"),
        Row("own", rows.chosen(beta) == 0, "βᵢₖ = 0 for Zᵢₖ > 0", "none",
            "nothing: a sample's own face has no row", rows.places()),
    ]  # fmt: skip
    if n_faces > 1:
        stated.append(
            Row("choice", rows.chosen(beta, 0.0) >= 0, "βᵢₖ ≥ 0 for Zᵢₖ < 1", "room",
                "by how much sample i's own face is better than face k", rows.places(0.0))
        )  # fmt: skip
    variables = {"alpha": alpha, "beta": beta, "s": s}
    return _program("printed", rows, (cp.sum(s), "Σₖ sₖ"), variables, stated)


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data that can be separated, as primal-dual pairs."""
    X, y, z = separated_clusters(seed=seed)
    # As printed, each negative is on the face that it is nearest to: here the best of three directions.
    nearest = (X @ np.array([X[z == k].mean(axis=0) for k in range(3)]).T).argmax(axis=1)

    def of(
        primal: Callable[..., Program], dual: Callable[..., Program], assignment: NDArray[np.int64]
    ) -> Duality:
        given, implied = (make(X, y, 3, assignment) for make in (primal, dual))

        def recovered(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # As the last solve left them.
            W = -next(row for row in implied.rows if row.name == "norm").multipliers[1:].T
            margins = np.where(given.data["Z"] == 1.0, y[:, None] * (lift(X) @ W.T), np.inf).min(axis=0)
            return {"W": W, "zeta": margins.min() if given.name == "cpm_margin.worst" else margins}

        return Duality(given, implied, recovered)

    return [
        of(total, total_dual, z),
        of(worst, worst_dual, z),
        of(printed, printed_dual, np.where(y > 0, z, nearest)),
    ]
