"""The Convex Polytope Machine with hard margins: programs (3) to (5), total and worst case.

Problem
-------
A polytope of K faces separates the classes without error, and its faces are as short as can be, so that their
margins are large. As in :mod:`formulations.cpm` a positive is held by one face and a negative by all, and the
assignment z of the positives is fixed. The margins themselves are the programs of
:mod:`formulations.cpm_margin`.

For a fixed assignment the faces of (3) and of (4)-(5) are independent, and each is the shortest that keeps
its samples: both have the same W, and the value of (3) is Σ_k 1/‖W_k‖. Over the assignments they differ: one
that has the largest Σ 1/‖W_k‖ need not have the least Σ ‖W_k‖². The worst case has one answer: min max ‖W_k‖²
is the inverse square of the largest worst-case margin, for every assignment and over all of them.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and counts in the norm. W (K, m+1); alpha (n, K), 0 where face k
does not answer for sample i; t a scalar, s (K,). Z (n, K) is the 0/1 matrix of who answers for whom
(:func:`formulations.polytope.answers`), and v_k = Σ_i α_ik y_i x̃_i.

Programs
--------
face is one face of (3): the margin 1/‖w‖ is largest where ‖w‖ is least, and (3) is the sum of these over the
faces. total and worst are (4)-(5): the inverse squares of the margins summed, and the largest of them.
face_dual, total_dual and worst_dual have v_k in the place of the faces.

Recovery
--------
w = (Σ α_i) v, as ‖v‖ = 1; W_k = ½ v_k; and for the worst case from the multipliers of its row norm, as
in :mod:`formulations.cpm_worst`.

Multipliers
-----------
alpha_ik is the rate at which the cost rises as sample i must be farther beyond face k. theta_k is the share
of face k in the worst case: 0 for a face that wiggles. beyond is how far a positive is beyond a face that
does not answer for it.

Infeasible when
---------------
A face cannot have its positives on one side and all negatives on the other. Then there are α ≥ 0, not all 0,
with Σ_i α_ik y_i x̃_i = 0: a ray of the dual, and by Farkas' lemma a proof.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014), eq. (3)
to (5); the duals are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_hard
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])  # inside is the middle
>>> solution = cpm_hard.total(X, y, n_faces=2, assignment=[0, -1, 1]).solve()
>>> solution["W"].round(6)
array([[-1., -1.],
       [ 1., -1.]])
>>> (1 / np.linalg.norm(solution["W"], axis=1)).round(6)  # the margins
array([0.707107, 0.707107])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import LETTERS, PAPER
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import separated_clusters
from formulations.language.types import Matrix, MatrixLike
from formulations.polytope import answers, lift

_OWN = {name: LETTERS[name] for name in ("Zᵢₖ", "x̃ᵢ", "xᵢ", "yᵢ")}
_OF_ONE = {name: _OWN[name] for name in ("x̃ᵢ", "xᵢ", "yᵢ")}


@dataclass(frozen=True)
class HardRows:
    """The pairs of a sample and a face that have a row, and the data of the programs.

    Attributes
    ----------
    X, y
        Samples (n, m) and labels (n,).
    Z : ndarray of shape (n, K)
        1 where face k answers for sample i.
    """

    X: Matrix
    y: NDArray[np.float64]
    Z: NDArray[np.float64]

    @staticmethod
    def of(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> HardRows:
        """Each positive on its face, each negative on all; arguments as in :func:`total`."""
        X, y = as_data(X, y)
        whole("n_faces", n_faces)
        return HardRows(X, y, answers(y, n_faces, assignment))

    @property
    def data(self) -> dict[str, Any]:
        """The numbers of the letters x, y and Z."""
        return {"x": self.X, "y": self.y, "Z": self.Z}

    def chosen(self, values: cp.Expression, on: float = 1.0) -> cp.Expression:
        """Those of values (n, K) whose Z_ik is `on`, as a vector."""
        return cp.vec(values, order="C")[np.flatnonzero(self.Z.ravel() == on)]

    def places(self, on: float = 1.0) -> NDArray[np.int64]:
        """The place (n, K) of each pair among :meth:`chosen`, -1 where it is not there."""
        here = self.Z.ravel() == on
        return np.where(here, np.cumsum(here) - 1, -1).reshape(self.Z.shape)

    def spread(self, multipliers: NDArray[Any]) -> NDArray[np.float64]:
        """The multipliers of the row margin as (n, K), 0 where there is no row."""
        alpha = np.zeros(self.Z.shape)
        alpha[self.Z == 1.0] = multipliers
        return alpha

    def margins(self, W: cp.Expression | NDArray[Any]) -> cp.Expression:
        """y_i W_k·x̃_i, shape (n, K)."""
        return cp.multiply(self.y[:, None], lift(self.X) @ W.T)

    def pulls(self, alpha: cp.Expression) -> cp.Expression:
        """Σ_i α_ik y_i x̃_i as columns, shape (m+1, K)."""
        return lift(self.X).T @ cp.multiply(self.y[:, None], alpha)

    def dual_rows(self, alpha: cp.Expression) -> list[Row]:
        """The rows of alpha (n, K): its sign, and that it is 0 where no face answers."""
        rows = [
            Row("margin", self.chosen(alpha) >= 0, "αᵢₖ ≥ 0 for Zᵢₖ > 0", "surplus",
                "how far sample i is beyond face k's margin", self.places())
        ]  # fmt: skip
        if (self.Z == 0.0).any():
            rows.append(
                Row("off", self.chosen(alpha, 0.0) == 0, "αᵢₖ = 0 for Zᵢₖ < 1", "beyond",
                    "how far positive i is beyond the margin of face k, which does not answer for it",
                    self.places(0.0))
            )  # fmt: skip
        return rows


def face(X: MatrixLike, y: ArrayLike) -> Program:
    """One face of (3): its margin is the inverse of the value.

    Parameters
    ----------
    X, y
        All negatives, and the positives that the face answers for.
    """
    X, y = as_data(X, y)
    w = cp.Variable(X.shape[1] + 1, name="w")
    margin = Row(
        "margin", cp.multiply(y, lift(X) @ w) >= 1, "yᵢ w·x̃ᵢ ≥ 1", "alpha", "price of sample i's margin"
    )
    return Program(
        name="cpm_hard.face",
        title="Convex polytope machine, hard margin, one face",
        source=f"{PAPER}, eq. (3), one face",
        objective=cp.Minimize(cp.norm(w)),
        objective_text="‖w‖",
        variables={"w": w},
        rows=(margin,),
        letters=_OF_ONE,
        data={"x": X, "y": y},
    )


def face_dual(X: MatrixLike, y: ArrayLike) -> Program:
    """Dual of :func:`face`; arguments as in the primal."""
    X, y = as_data(X, y)
    alpha = cp.Variable(len(y), name="alpha")
    rows = (
        Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "how far sample i is beyond its margin"),
        Row("norm", cp.norm(lift(X).T @ cp.multiply(y, alpha)) <= 1, "‖Σᵢ αᵢ yᵢ x̃ᵢ‖ ≤ 1", "rho",
            "the norm of the face"),
    )  # fmt: skip
    return Program(
        name="cpm_hard.face_dual",
        title="Convex polytope machine, hard margin, one face, dual",
        source=f"{PAPER}, eq. (3), one face (derived)",
        objective=cp.Maximize(cp.sum(alpha)),
        objective_text="Σᵢ αᵢ",
        variables={"alpha": alpha},
        rows=rows,
        letters=_OF_ONE,
        data={"x": X, "y": y},
    )


def recover_face(X: MatrixLike, y: ArrayLike, alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The face w of :func:`face` from the dual's alpha (n,)."""
    X, y = as_data(X, y)
    return {"w": alpha.sum() * (lift(X).T @ (alpha * y))}


def _primal(rows: HardRows, case: str, W: cp.Variable, objective: tuple[cp.Expression, str],
            variables: dict[str, cp.Variable], further: tuple[Row, ...] = ()) -> Program:  # fmt: skip
    margin = Row(
        "margin", rows.chosen(rows.margins(W)) >= 1, "yᵢ Wₖ·x̃ᵢ ≥ 1 for Zᵢₖ > 0", "alpha",
        "price of sample i's margin on face k", rows.places(),
    )  # fmt: skip
    return Program(
        name=f"cpm_hard.{case}",
        title=f"Convex polytope machine, hard margins, {_CASES[case]}",
        source=f"{PAPER}, eq. (4)-(5), {_CASES[case]}",
        objective=cp.Minimize(objective[0]),
        objective_text=objective[1],
        variables=variables,
        rows=(margin, *further),
        letters=_OWN,
        data=rows.data,
    )


_CASES = {"total": "total margin", "worst": "worst-case margin"}


def total(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """(4)-(5) for a fixed assignment: the least sum of squared norms.

    Parameters
    ----------
    X, y
        Samples, and labels -1 inside and +1 outside.
    n_faces : int
        K, at least 1.
    assignment : array_like of int, shape (n,)
        The face of each positive; the entries of negatives are ignored.
    """
    rows = HardRows.of(X, y, n_faces, assignment)
    W = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W")
    return _primal(rows, "total", W, (cp.sum_squares(W), "‖W‖²"), {"W": W})


def worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """(4)-(5) with the worst-case margin: the least largest squared norm; arguments as in :func:`total`."""
    rows = HardRows.of(X, y, n_faces, assignment)
    W, t = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(name="t")
    norm = Row("norm", cp.sum(cp.square(W), axis=1) <= t, "‖Wₖ‖² ≤ t", "theta",
               "face k's share of the worst case: 0 for a face that wiggles; they add up to 1")  # fmt: skip
    return _primal(rows, "worst", W, (t, "t"), {"W": W, "t": t}, (norm,))


def _dual(rows: HardRows, case: str, objective: tuple[cp.Expression, str],
          variables: dict[str, cp.Variable], further: tuple[Row, ...] = ()) -> Program:  # fmt: skip
    return Program(
        name=f"cpm_hard.{case}_dual",
        title=f"Convex polytope machine, hard margins, {_CASES[case]}, dual",
        source=f"{PAPER}, eq. (4)-(5), {_CASES[case]} (derived)",
        objective=cp.Maximize(objective[0]),
        objective_text=objective[1],
        variables=variables,
        rows=(*rows.dual_rows(variables["alpha"]), *further),
        letters={**_OWN, "Wₖ": "face $k$ of the primal"},
        data=rows.data,
    )


def total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`total`; arguments as in the primal. Unbounded where that is infeasible."""
    rows = HardRows.of(X, y, n_faces, assignment)
    alpha = cp.Variable(rows.Z.shape, name="alpha")
    value = cp.sum(alpha) - 0.25 * cp.sum_squares(rows.pulls(alpha))
    return _dual(rows, "total", (value, "Σᵢₖ αᵢₖ − ¼ Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²"), {"alpha": alpha})


def worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`worst`; arguments as in the primal. Unbounded where that is infeasible."""
    rows = HardRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    norm = Row("norm", cp.SOC(s, rows.pulls(alpha), axis=0), "‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖ ≤ sₖ", "radius",
               "the norm of the longest face; and under it, for every k, a face $−Wₖ$ itself")  # fmt: skip
    value = cp.sum(alpha) - 0.25 * cp.square(cp.sum(s))
    return _dual(rows, "worst", (value, "Σᵢₖ αᵢₖ − ¼ (Σₖ sₖ)²"), {"alpha": alpha, "s": s}, (norm,))


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data that can be separated, as primal-dual pairs."""
    X, y, assignment = separated_clusters(seed=seed)
    K = 3
    own = (y < 0) | (assignment == 0)
    one = (X[own], y[own])
    worst_of = worst_dual(X, y, K, assignment)

    def from_total(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"W": 0.5 * (lift(X).T @ (v["alpha"] * y[:, None])).T}

    def from_worst(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        W = -worst_of.rows[-1].multipliers[1:].T  # as the last solve left them
        return {"W": W, "t": np.array((W**2).sum(axis=1).max())}

    return [
        Duality(face(*one), face_dual(*one), lambda v: recover_face(*one, v["alpha"])),
        Duality(total(X, y, K, assignment), total_dual(X, y, K, assignment), from_total),
        Duality(worst(X, y, K, assignment), worst_of, from_worst),
    ]
