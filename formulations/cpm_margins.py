"""The margins of a polytope: programs (1) to (5) of the Convex Polytope Machine, without slack.

Problem
-------
For faces of norm 1 the worst-case margin of f(x) = max_k W_k·x̃ is the least y_i f(x_i); the total margin is
the sum over the faces of the least y_i f(x_i) of the samples that are assigned to them. (1) makes one of them
as large as can be; (2) states it with a number ζ_k for the margin of face k. (3) to (5), which the paper
derives from these, make the faces as short as can be. As in :mod:`formulations.cpm` a positive is held by one
face and a negative by all. Everything here is for a fixed assignment.

- ‖W_k‖ = 1 is relaxed to ‖W_k‖ ≤ 1. Where a face is held by all negatives and its ζ_k is positive, that
  changes nothing: scaling the face up raises its margin. For (2) as printed it may: a face that grows becomes
  the best one of other samples. The value is then a bound on (1), attained where all norms are 1.
- In the worst case a negative's best face has its least y_i W_k·x̃_i, so all faces may hold it; (1), (2), (3)
  and (5) have the same polytopes up to scale, for every assignment and over all.
- The total of (1) and (2) asks a negative of its own face only, (3) and after asks it of every face: with
  unequal ζ_k, dividing by them changes which face is the best, so (2) and (3) are not equivalent, against the
  paper. Holding negatives by every face, as ``total`` does, gives the faces of (3), (4) and (5).
- (1) has no maximum where a face may be left without samples: its margin is the least of none.
- The faces of (3) and of (4)-(5) are independent, and each is the shortest that keeps its samples: both have
  the same W, and the value of (3) is Σ_k 1/‖W_k‖. Over the assignments they differ: one that has the largest
  Σ 1/‖W_k‖ need not have the least Σ ‖W_k‖². The worst case has one answer: min max ‖W_k‖² is the inverse
  square of the largest worst-case margin, for every assignment and over all of them.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and counts in the norm. W (K, m+1); zeta (K,), or a scalar in
the worst case; alpha (n, K) and beta (n, K), 0 where they have no row; t a scalar, s (K,). Z (n, K) is the
0/1 matrix of who answers for whom: a row of ones at a negative, a unit vector at a positive; in (2) as
printed a unit vector at every sample. v_k = Σ_i α_ik y_i x̃_i.

Programs
--------
total and worst are (2), negatives held by every face; printed is (2) as printed, where a negative is held by
its own face alone, and a sample's own face is its best one. The total margin of a face is the distance from 0
to the hull of its y_i x̃_i, which v_k is a point of; total_dual and worst_dual find it; in printed_dual
v_k = Σ_i (α_ik y_i + Z_ik Σ_l β_il − β_ik) x̃_i.

hard_face is one face of (3): the margin 1/‖w‖ is largest where ‖w‖ is least, and (3) is the sum of these over
the faces. hard_total and hard_worst are (4)-(5): the inverse squares of the margins summed, and the largest
of them. Their duals are hard_face_dual, hard_total_dual and hard_worst_dual.

Recovery
--------
(2): W_k is minus the multiplier of the dual's cone, v_k/‖v_k‖ where v_k is not 0; ζ_k the least margin that
it has. (3): w = (Σ α_i) v, as ‖v‖ = 1. (4)-(5): W_k = ½ v_k; and for the worst case from the multipliers of
its row norm, as in :mod:`formulations.cpm`.

Multipliers
-----------
In (2) alpha_ik says how much of face k's margin sample i decides; they add up to 1. 2ρ_k is what face k
brings of the value: its margin, and in the worst case 0 for a face that wiggles. In (3) to (5) alpha_ik is
the rate at which the cost rises as sample i must be farther beyond face k, and theta_k is the share of face k
in the worst case. beyond is how far a positive is beyond a face that does not answer for it.

Infeasible when
---------------
(2) never: W = 0, ζ = 0 is feasible. (3) to (5) if a face cannot have its positives on one side and all
negatives on the other. Then there are α ≥ 0, not all 0, with Σ_i α_ik y_i x̃_i = 0: a ray of the dual, and by
Farkas' lemma a proof; in (2) such a face has ζ_k = 0, and its v_k is 0.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014), section
3.2, eq. (1) to eq. (5); the duals are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_margins
>>> X, y = np.array([[-2.0], [0.0], [1.0]]), np.array([1, -1, 1])  # the right face has less room
>>> cpm_margins.total(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6)
array([0.707107, 0.447214])
>>> W = cpm_margins.hard_total(X, y, n_faces=2, assignment=[0, -1, 1]).solve()["W"]
>>> (1 / np.linalg.norm(W, axis=1)).round(6)
array([0.707107, 0.447214])
>>> print(cpm_margins.worst(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6))
0.447214
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import LETTERS, PAPER, norm_row
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import separated_clusters
from formulations.language.types import Matrix, MatrixLike
from formulations.polytope import assignment_matrix, check_assignment, lift

_LETTERS = {name: LETTERS[name] for name in ("Zᵢₖ", "x̃ᵢ", "xᵢ", "yᵢ")}
_ONE_FACE = {name: LETTERS[name] for name in ("x̃ᵢ", "xᵢ", "yᵢ")}
_PRINTED = {**_LETTERS, "Zᵢₖ": "1 where sample $i$ is on face $k$, else 0: each is on one"}
_CASES = {  # title and source, by the name of the primal
    "cpm_margin.total": ("total margin", "eq. (2), negatives on all faces"),
    "cpm_margin.worst": ("worst-case margin", "worst-case margin in eq. (2)"),
    "cpm_margin.printed": ("total margin, each sample on its own face", "eq. (2), norms up to 1"),
    "cpm_hard.face": ("hard margin, one face", "eq. (3), one face"),
    "cpm_hard.total": ("hard margins, total margin", "eq. (4)-(5), total margin"),
    "cpm_hard.worst": ("hard margins, worst-case margin", "eq. (4)-(5), worst-case margin"),
}


@dataclass(frozen=True)
class MarginRows:
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
    def of(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> MarginRows:
        """Each positive on its face, each negative on all; arguments as in :func:`hard_total`."""
        X, y = as_data(X, y)
        whole("n_faces", n_faces)
        return MarginRows(X, y, assignment_matrix(y, n_faces, assignment))

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


def _program(
    case: str, letters: Mapping[str, str], data: Mapping[str, Any], objective: tuple[cp.Expression, str],
    variables: dict[str, cp.Variable], rows: list[Row], *, dual: bool = False,
) -> Program:  # fmt: skip
    title, source = _CASES[case]
    if dual and letters is not _ONE_FACE:
        letters = {**letters, "Wₖ": "face $k$ of the primal"}
    sense = cp.Maximize if case.startswith("cpm_margin") != dual else cp.Minimize
    return Program(
        name=case + "_dual" * dual,
        title=f"Convex polytope machine, {title}{', dual' * dual}",
        source=f"{PAPER}, {source}{' (derived)' * dual}",
        objective=sense(objective[0]),
        objective_text=objective[1],
        variables=variables,
        rows=tuple(rows),
        letters=letters,
        data=data,
    )


def _margin(rows: MarginRows, W: cp.Variable, zeta: cp.Variable) -> Row:
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

    Arguments as in :func:`hard_total`.
    """
    rows = MarginRows.of(X, y, n_faces, assignment)
    W, zeta = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(n_faces, name="zeta")
    stated = [_margin(rows, W, zeta), _norm(W)]
    return _program(
        "cpm_margin.total", _LETTERS, rows.data, (cp.sum(zeta), "Σₖ ζₖ"), {"W": W, "zeta": zeta}, stated
    )


def worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """The worst-case margin for a fixed assignment; arguments as in :func:`total`."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    W, zeta = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(name="zeta")
    return _program(
        "cpm_margin.worst",
        _LETTERS,
        rows.data,
        (zeta, "ζ"),
        {"W": W, "zeta": zeta},
        [_margin(rows, W, zeta), _norm(W)],
    )


def _own_faces(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> MarginRows:
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
    return MarginRows(X, y, np.eye(n_faces)[z])


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
    return _program(
        "cpm_margin.printed", _PRINTED, rows.data, (cp.sum(zeta), "Σₖ ζₖ"), {"W": W, "zeta": zeta}, stated
    )


def _cone(s: cp.Variable, pulls: cp.Expression, text: str) -> Row:
    return Row("norm", cp.SOC(s, pulls, axis=0), f"‖{text}‖ ≤ sₖ", "radius",
               "1; and under it, for every k, a face $−Wₖ$ itself")  # fmt: skip


_PULL = "Σᵢ αᵢₖ yᵢ x̃ᵢ"


def total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`total`; arguments as in the primal."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    zeta = Row("zeta", cp.sum(alpha, axis=0) == 1, "Σᵢ αᵢₖ = 1", "zeta", "minus face k's margin")
    stated = [_cone(s, rows.pulls(alpha), _PULL), *rows.dual_rows(alpha), zeta]
    return _program(
        "cpm_margin.total",
        _LETTERS,
        rows.data,
        (cp.sum(s), "Σₖ sₖ"),
        {"alpha": alpha, "s": s},
        stated,
        dual=True,
    )


def worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`worst`; arguments as in the primal."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    zeta = Row("zeta", cp.sum(alpha) == 1, "Σᵢₖ αᵢₖ = 1", "zeta", "minus the margin")
    stated = [_cone(s, rows.pulls(alpha), _PULL), *rows.dual_rows(alpha), zeta]
    return _program(
        "cpm_margin.worst",
        _LETTERS,
        rows.data,
        (cp.sum(s), "Σₖ sₖ"),
        {"alpha": alpha, "s": s},
        stated,
        dual=True,
    )


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
    return _program(
        "cpm_margin.printed", _PRINTED, rows.data, (cp.sum(s), "Σₖ sₖ"), variables, stated, dual=True
    )


def hard_face(X: MatrixLike, y: ArrayLike) -> Program:
    """One face of (3): its margin is the inverse of the value.

    Parameters
    ----------
    X, y
        All negatives, and the positives that the face answers for.
    """
    X, y = as_data(X, y)
    w = cp.Variable(X.shape[1] + 1, name="w")
    held, says = cp.multiply(y, lift(X) @ w) >= 1, "price of sample i's margin"
    rows = [Row("margin", held, "yᵢ w·x̃ᵢ ≥ 1", "alpha", says)]
    return _program("cpm_hard.face", _ONE_FACE, {"x": X, "y": y}, (cp.norm(w), "‖w‖"), {"w": w}, rows)


def hard_face_dual(X: MatrixLike, y: ArrayLike) -> Program:
    """Dual of :func:`hard_face`; arguments as in the primal."""
    X, y = as_data(X, y)
    alpha = cp.Variable(len(y), name="alpha")
    pull = cp.norm(lift(X).T @ cp.multiply(y, alpha))
    rows = [
        Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "how far sample i is beyond its margin"),
        Row("norm", pull <= 1, "‖Σᵢ αᵢ yᵢ x̃ᵢ‖ ≤ 1", "rho", "the norm of the face"),
    ]
    objective, data = (cp.sum(alpha), "Σᵢ αᵢ"), {"x": X, "y": y}
    return _program("cpm_hard.face", _ONE_FACE, data, objective, {"alpha": alpha}, rows, dual=True)


def _hard_margin(rows: MarginRows, W: cp.Variable) -> Row:
    says = "price of sample i's margin on face k"
    held = rows.chosen(rows.margins(W)) >= 1
    return Row("margin", held, "yᵢ Wₖ·x̃ᵢ ≥ 1 for Zᵢₖ > 0", "alpha", says, rows.places())


def hard_total(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
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
    rows = MarginRows.of(X, y, n_faces, assignment)
    W = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W")
    objective = (cp.sum_squares(W), "‖W‖²")
    return _program("cpm_hard.total", _LETTERS, rows.data, objective, {"W": W}, [_hard_margin(rows, W)])


def hard_worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """(4)-(5) with the worst-case margin: the least largest norm; arguments as in :func:`hard_total`."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    W, t = cp.Variable((n_faces, rows.X.shape[1] + 1), name="W"), cp.Variable(name="t")
    norm = Row("norm", cp.sum(cp.square(W), axis=1) <= t, "‖Wₖ‖² ≤ t", "theta",
               "face k's share of the worst case: 0 for a face that wiggles; they add up to 1")  # fmt: skip
    stated = [_hard_margin(rows, W), norm]
    return _program("cpm_hard.worst", _LETTERS, rows.data, (t, "t"), {"W": W, "t": t}, stated)


def hard_total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`hard_total`; arguments as in the primal. Unbounded where that is infeasible."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    alpha = cp.Variable(rows.Z.shape, name="alpha")
    value = cp.sum(alpha) - 0.25 * cp.sum_squares(rows.pulls(alpha))
    objective = (value, f"Σᵢₖ αᵢₖ − ¼ Σₖ ‖{_PULL}‖²")
    stated = rows.dual_rows(alpha)
    return _program("cpm_hard.total", _LETTERS, rows.data, objective, {"alpha": alpha}, stated, dual=True)


def hard_worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """Dual of :func:`hard_worst`; arguments as in the primal. Unbounded where that is infeasible."""
    rows = MarginRows.of(X, y, n_faces, assignment)
    alpha, s = cp.Variable(rows.Z.shape, name="alpha"), cp.Variable(n_faces, name="s")
    objective = (cp.sum(alpha) - 0.25 * cp.square(cp.sum(s)), "Σᵢₖ αᵢₖ − ¼ (Σₖ sₖ)²")
    stated = [*rows.dual_rows(alpha), norm_row(s, rows.pulls(alpha), f"‖{_PULL}‖ ≤ sₖ")]
    variables = {"alpha": alpha, "s": s}
    return _program("cpm_hard.worst", _LETTERS, rows.data, objective, variables, stated, dual=True)


def recover_hard_face(X: MatrixLike, y: ArrayLike, alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The face w of :func:`hard_face` from the dual's alpha (n,)."""
    X, y = as_data(X, y)
    return {"w": alpha.sum() * (lift(X).T @ (alpha * y))}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data that can be separated, as primal-dual pairs."""
    X, y, z = separated_clusters(seed=seed)
    # As printed, each negative is on the face that it is nearest to: here the best of three directions.
    nearest = (X @ np.array([X[z == k].mean(axis=0) for k in range(3)]).T).argmax(axis=1)
    own = (y < 0) | (z == 0)
    one = (X[own], y[own])

    def of(
        primal: Callable[..., Program], dual: Callable[..., Program], assignment: NDArray[np.int64] = z
    ) -> Duality:
        given, implied = (make(X, y, 3, assignment) for make in (primal, dual))

        def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            if "s" not in v:
                return {"W": 0.5 * (lift(X).T @ (v["alpha"] * y[:, None])).T}
            # As the last solve left them.
            W = -next(row for row in implied.rows if row.name == "norm").multipliers[1:].T
            if "t" in given.variables:
                return {"W": W, "t": np.array((W**2).sum(axis=1).max())}
            margins = np.where(given.data["Z"] == 1.0, y[:, None] * (lift(X) @ W.T), np.inf).min(axis=0)
            return {"W": W, "zeta": margins if given.variables["zeta"].ndim else margins.min()}

        return Duality(given, implied, recovered)

    return [
        of(total, total_dual),
        of(worst, worst_dual),
        of(printed, printed_dual, np.where(y > 0, z, nearest)),
        Duality(hard_face(*one), hard_face_dual(*one), lambda v: recover_hard_face(*one, v["alpha"])),
        of(hard_total, hard_total_dual),
        of(hard_worst, hard_worst_dual),
    ]
