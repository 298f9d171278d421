"""The margins of a polytope: programs (1) to (5) of the Convex Polytope Machine, without slack.

Problem
-------
A polytope has K faces W_k; a sample is outside (y = +1) if f(x) = max_k W_k·x̃ > 0, with x̃ = (x, 1). For
faces of norm 1 the worst-case margin is the least y_i f(x_i); the total margin is the sum over the faces of
the least y_i f(x_i) among the samples assigned to the face. The assignment of samples to faces is fixed here.
The programs of the paper (Kantchelian et al., 2014) are

- (1): maximise one of the two margins over faces of norm 1;
- (2): the same with a variable ζ_k for the margin of face k, or one ζ in the worst case;
- (3): maximise Σ_k 1/‖W_k‖, or min_k 1/‖W_k‖ in the worst case, for faces with a margin of 1;
- (4)-(5), one program: minimise Σ_k ‖W_k‖², or max_k ‖W_k‖² in the worst case, under the
  constraints of (3), which have the numbers (4) for negatives and (5) for positives.

In ``total``, ``worst`` and the ``hard`` programs below a positive has a margin constraint on its assigned
face, and a negative on every face, as in (3) to (5). In the paper's (2) with the total margin a negative has
one on its best face (of largest W_k·x̃_i) only: this is ``printed``, where each sample, of either class, is
assigned to one face.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and counts in the norm. W (K, m+1), or w (m+1,) for one face;
zeta (K,), or a scalar in the worst case; t, the largest squared norm. In the duals alpha (n, K) and beta
(n, K) are 0 for pairs without a constraint, v_k = Σ_i α_ik y_i x̃_i, and s (K,) bounds the norms ‖v_k‖.
Z (n, K) is 1 if sample i has a margin constraint on face k, else 0. The row of a positive is a unit vector,
that of a negative all ones; in ``printed`` both are unit vectors. The printed conditions Z_ik > 0 and
Z_ik < 1 stand for Z_ik = 1 and Z_ik = 0. Multipliers are in brackets below.

Programs
--------
total       (2), but negatives on every face
                     max  Σ_k ζ_k     s.t.  y_i W_k·x̃_i ≥ ζ_k for Z_ik = 1 [α_ik],  ‖W_k‖² ≤ 1 [ρ_k]
worst       (2)      max  ζ           s.t.  the same with ζ for every ζ_k
printed     (2)      as total, but each sample is assigned to one face, which must be its best:
                     Σ_l Z_il W_l·x̃_i ≥ W_k·x̃_i [β_ik] for Z_ik = 0; and ζ ≥ 0
hard_face   (3)      min  ‖w‖         s.t.  y_i w·x̃_i ≥ 1 [α_i], for one face
hard_total  (4)-(5)  min  Σ_k ‖W_k‖²  s.t.  y_i W_k·x̃_i ≥ 1 for Z_ik = 1 [α_ik]
hard_worst  (4)-(5)  min  t           s.t.  the same, and ‖W_k‖² ≤ t [θ_k]

The duals, with α ≥ 0 and the constraint ``norm``, ‖v_k‖ ≤ s_k, are

total_dual        min  Σ_k s_k             s.t.  Σ_i α_ik = 1 [−ζ_k];  worst_dual: Σ_ik α_ik = 1 [−ζ]
hard_face_dual    max  Σ_i α_i             s.t.  ‖v‖ ≤ 1
hard_total_dual   max  Σ_ik α_ik − ¼ Σ_k ‖v_k‖²;  hard_worst_dual: ¼ (Σ_k s_k)² in place of the second term

So ζ_k in ``total`` is the distance from 0 to the convex hull of y_i x̃_i of its positives and all negatives.
printed_dual is total_dual with v_k = Σ_i (α_ik y_i + Z_ik Σ_l β_il − β_ik) x̃_i and Σ_i α_ik ≥ 1.

Relations among (1) to (5)
--------------------------
- Relaxed norms: in (2), the ‖W_k‖ = 1 of (1) is relaxed to ‖W_k‖ ≤ 1. If a face has the constraints of all
  negatives and its ζ_k is positive, the relaxation is exact: scaling the face up raises its margin. For
  ``printed`` it need not be: a face scaled up may become the best one of a sample assigned to another, which
  violates a constraint of β. The value is then an upper bound on (1), equal to it if all norms are 1.
- Worst case: a negative's best face has its least y_i W_k·x̃_i, so constraints on every face change nothing;
  (1), (2), (3) and (4)-(5) have the same polytopes up to scale, for each fixed assignment and also when the
  assignment is optimised.
- Total margin, (2) against (3): the paper calls its (2) equivalent to (3) with faces W_k/ζ_k. It is not: with
  unequal ζ_k this scaling changes the best face. ``total``, with negatives on every face, has the faces of
  (3) and (4)-(5), scaled.
- Empty faces: (1) has no maximum if a face may have no samples: its margin is a minimum over the empty set.
- (3) against (4)-(5): for a fixed assignment they have the same W, as each face has the least norm under its
  constraints. If the assignment is optimised too, they differ: the assignment with the largest Σ 1/‖W_k‖ need
  not have the least Σ ‖W_k‖². In the worst case they agree: min max ‖W_k‖² is (largest worst-case margin)^−2.

Recovery
--------
(2): W_k is minus the multiplier of the dual's cone ‖v_k‖ ≤ s_k: v_k/‖v_k‖ if v_k is not 0; ζ_k is the least
margin on it. (3): w = (Σ_i α_i) v, as ‖v‖ = 1. (4)-(5): W_k = ½ v_k; and in the worst case W_k is, as in (2),
minus the multiplier of the cone.

Multipliers
-----------
In (2) alpha_ik is the weight of sample i in the margin of face k. The weights add up to 1 for each face in
``total``, over all faces in ``worst``, and to at least 1 for each face in ``printed``. 2ρ_k = ‖v_k‖ is the
contribution of face k to the value: ζ_k in ``total``; in ``worst``, the share of face k in ζ, 0 if a smaller
‖W_k‖ would do. In (3) to (5) alpha_ik is the rate at which the cost rises with the margin required of sample
i on face k, and theta_k is the weight of face k in the worst case.

Infeasible when
---------------
(2) never: W = 0, ζ = 0 is feasible. (3) to (5) if a face cannot have its positives on one side and all
negatives on the other. Then there are α ≥ 0, not all 0, with Σ_i α_ik y_i x̃_i = 0: a ray of the dual, and by
Farkas' lemma a proof; in (2) such a face has ζ_k = 0, and its v_k is 0.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014), sections
3.2 and 3.3, eq. (1) to eq. (5); the duals are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_margins
>>> X, y = np.array([[-2.0], [0.0], [1.0]]), np.array([1, -1, 1])  # the right face has the smaller margin
>>> cpm_margins.total(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6)
array([0.707107, 0.447214])
>>> print(cpm_margins.worst(X, y, 2, [0, -1, 1]).solve()["zeta"].round(6))
0.447214
"""

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
from formulations.language.statement import index_in, select
from formulations.language.toy_data import separated_clusters
from formulations.language.types import Matrix, MatrixLike
from formulations.polytope import assignment_matrix, check_assignment, lift

_LETTERS = {name: LETTERS[name] for name in ("Zᵢₖ", "x̃ᵢ", "xᵢ", "yᵢ")}
_ONE_FACE_LETTERS = {name: LETTERS[name] for name in ("x̃ᵢ", "xᵢ", "yᵢ")}
_PRINTED_LETTERS = {**_LETTERS, "Zᵢₖ": "1 if sample $i$ is assigned to face $k$, else 0; each has one face"}
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
    """Samples, labels and Z, and expressions for the rows. A pair (i, k) is constrained if Z_ik = 1."""

    X: Matrix  # (n, m)
    y: NDArray[np.float64]  # (n,)
    Z: NDArray[np.float64]  # (n, K)

    @staticmethod
    def of(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> "MarginRows":
        """Pair each positive with its face, each negative with all faces."""
        X, y = as_data(X, y)
        whole("n_faces", n_faces)
        return MarginRows(X, y, assignment_matrix(y, n_faces, assignment))

    @property
    def data(self) -> dict[str, Any]:
        """The numbers of the letters x, y and Z."""
        return {"x": self.X, "y": self.y, "Z": self.Z}

    def faces(self) -> cp.Variable:
        """Return the variable W (K, m+1)."""
        return cp.Variable((self.Z.shape[1], self.X.shape[1] + 1), name="W")

    def select(self, values: cp.Expression, z: float = 1.0) -> cp.Expression:
        """Return the entries of `values` (n, K) with Z_ik = z, as a vector; by default Z_ik = 1."""
        return select(values, np.equal(self.Z, z))

    def index(self, z: float = 1.0) -> NDArray[np.int64]:
        """Return the index of each (i, k) in the vector of :meth:`select`, -1 if Z_ik is not z; (n, K)."""
        return index_in(np.equal(self.Z, z))

    def margins(self, W: cp.Variable) -> cp.Expression:
        """Return the vector of y_i W_k·x̃_i of the constrained pairs."""
        return self.select(cp.multiply(self.y[:, None], lift(self.X) @ W.T))

    def gradients(self, alpha: cp.Variable) -> cp.Expression:
        """Return the v_k as columns, shape (m+1, K)."""
        return lift(self.X).T @ cp.multiply(self.y[:, None], alpha)

    def dual_rows(self, alpha: cp.Variable) -> list[Row]:
        """Return the rows that make alpha (n, K) nonnegative for constrained pairs, and 0 elsewhere."""
        # Fields of a Row: name, constraint, printed text, letter and meaning of its multiplier, and `at`, the
        # index of each (i, k) in the constraint.
        constraints = [
            Row("margin", self.select(alpha) >= 0, "αᵢₖ ≥ 0 for Zᵢₖ > 0", "surplus",
                "surplus of sample i over the margin of face k", self.index())
        ]  # fmt: skip
        if (self.Z == 0.0).any():
            constraints.append(
                Row("unassigned", self.select(alpha, 0.0) == 0, "αᵢₖ = 0 for Zᵢₖ < 1", "beyond",
                    "surplus of positive i over the margin of face k, to which it is not assigned",
                    self.index(0.0))
            )  # fmt: skip
        return constraints


def _program(
    case: str, objective: tuple[cp.Expression, str], variables: list[cp.Variable], constraints: list[Row],
    data: Mapping[str, Any], letters: Mapping[str, str] = _LETTERS, *, dual: bool = False,
) -> Program:  # fmt: skip
    """State a program of `_CASES`, or its dual; `objective` is an expression and its text."""
    title, source = _CASES[case]
    if dual and letters is not _ONE_FACE_LETTERS:
        letters = {**letters, "Wₖ": "face $k$ of the primal"}
    # (2) is a maximisation and (3) to (5) are minimisations; a dual has the other sense.
    sense = cp.Maximize if case.startswith("cpm_margin") != dual else cp.Minimize
    return Program(
        name=case + "_dual" * dual,
        title=f"Convex polytope machine, {title}{', dual' * dual}",
        source=f"{PAPER}, {source}{' (derived)' * dual}",
        objective=sense(objective[0]),
        objective_text=objective[1],
        variables={variable.name(): variable for variable in variables},
        rows=tuple(constraints),
        letters=letters,
        data=data,
    )


# -- (2): the largest margin of faces of norm up to 1 ------------------------------------------------


def total(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the total margin with negatives on every face; arguments as in :func:`hard_total`."""
    samples, zeta = MarginRows.of(X, y, n_faces, assignment), cp.Variable(n_faces, name="zeta")
    W = samples.faces()
    return _program(
        "cpm_margin.total", (cp.sum(zeta), "Σₖ ζₖ"), [W, zeta], _margin_rows(samples, W, zeta), samples.data
    )


def worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the worst-case margin; arguments as in :func:`hard_total`."""
    samples, zeta = MarginRows.of(X, y, n_faces, assignment), cp.Variable(name="zeta")
    W = samples.faces()
    return _program("cpm_margin.worst", (zeta, "ζ"), [W, zeta], _margin_rows(samples, W, zeta), samples.data)


def _margin_rows(samples: MarginRows, W: cp.Variable, zeta: cp.Variable) -> list[Row]:
    """Return the rows ``margin`` and ``norm``; zeta is (K,), or one number for all faces."""
    n, K = samples.Z.shape
    # `required` (n, K) is the margin required of sample i on face k: ζ_k, or ζ.
    zeta_of_face = cp.reshape(zeta, (1, zeta.size), order="C")
    required = np.ones((n, 1)) @ (zeta_of_face if zeta.ndim else zeta_of_face @ np.ones((1, K)))
    text = f"yᵢ Wₖ·x̃ᵢ ≥ {'ζₖ' if zeta.ndim else 'ζ'} for Zᵢₖ > 0"
    meaning = "weight of sample i in its face's margin"
    return [
        Row("margin", samples.margins(W) >= samples.select(required), text, "alpha", meaning,
            samples.index()),
        Row("norm", cp.sum(cp.square(W), axis=1) <= 1, "‖Wₖ‖² ≤ 1", "rho",
            "half of the contribution of face k to the value"),
    ]  # fmt: skip


def printed(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State (2) as printed for a fixed assignment of all samples, but for norms of up to 1.

    Arguments as in :func:`hard_total`, but negatives are assigned as well, and every face needs a sample.
    """
    samples, zeta = _one_face_each(X, y, n_faces, assignment), cp.Variable(n_faces, name="zeta")
    W = samples.faces()
    scores = lift(samples.X) @ W.T
    assigned = cp.sum(cp.multiply(samples.Z, scores), axis=1, keepdims=True)
    meaning = "rate at which the total margin falls as the lower bound of $ζₖ$ rises from 0"
    constraints = [*_margin_rows(samples, W, zeta), Row("gain", zeta >= 0, "ζₖ ≥ 0", "gamma", meaning)]
    if n_faces > 1:
        choice = samples.select(assigned @ np.ones((1, n_faces)), 0.0) >= samples.select(scores, 0.0)
        constraints.append(
            Row("choice", choice, "Σₗ Zᵢₗ Wₗ·x̃ᵢ ≥ Wₖ·x̃ᵢ for Zᵢₖ < 1", "beta",
                "rate at which the total margin rises if the score of face k at sample i may exceed that of "
                "the assigned face", samples.index(0.0))
        )  # fmt: skip
    objective = (cp.sum(zeta), "Σₖ ζₖ")
    return _program("cpm_margin.printed", objective, [W, zeta], constraints, samples.data, _PRINTED_LETTERS)


def _one_face_each(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> MarginRows:
    """Pair every sample with its assigned face."""
    X, y = as_data(X, y)
    whole("n_faces", n_faces)
    z = check_assignment(np.ones_like(y), n_faces, assignment, "sample")
    empty = np.setdiff1d(np.arange(n_faces), z)
    if len(empty):
        raise ValueError(
            f"assignment must give every face a sample, but face {empty[0]} has none: its margin, a minimum "
            "over no samples, is unbounded"
        )
    return MarginRows(X, y, np.eye(n_faces)[z])


_GRADIENT = "Σᵢ αᵢₖ yᵢ x̃ᵢ"


def total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the dual of :func:`total`; arguments as in the primal."""
    samples = MarginRows.of(X, y, n_faces, assignment)
    alpha = cp.Variable(samples.Z.shape, name="alpha")
    # "minus": cvxpy's multiplier of this equality is −ζ_k; of the inequality in printed_dual, it is ζ_k.
    zeta = Row("zeta", cp.sum(alpha, axis=0) == 1, "Σᵢ αᵢₖ = 1", "zeta", "minus the margin of face k")
    return _least_norms_dual("cpm_margin.total", samples, alpha, zeta)


def worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the dual of :func:`worst`; arguments as in the primal."""
    samples = MarginRows.of(X, y, n_faces, assignment)
    alpha = cp.Variable(samples.Z.shape, name="alpha")
    zeta = Row("zeta", cp.sum(alpha) == 1, "Σᵢₖ αᵢₖ = 1", "zeta", "minus the margin")
    return _least_norms_dual("cpm_margin.worst", samples, alpha, zeta)


def _least_norms_dual(case: str, samples: MarginRows, alpha: cp.Variable, zeta: Row) -> Program:
    """State the minimum of Σ_k ‖v_k‖; the row `zeta` normalises alpha."""
    s = cp.Variable(samples.Z.shape[1], name="s")
    norm = norm_row(s, samples.gradients(alpha), f"‖{_GRADIENT}‖ ≤ sₖ", "1")
    constraints = [norm, *samples.dual_rows(alpha), zeta]
    return _program(case, (cp.sum(s), "Σₖ sₖ"), [alpha, s], constraints, samples.data, dual=True)


def printed_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the dual of :func:`printed`; arguments as in the primal."""
    samples = _one_face_each(X, y, n_faces, assignment)
    alpha, beta = (cp.Variable(samples.Z.shape, name=name) for name in ("alpha", "beta"))
    s = cp.Variable(n_faces, name="s")
    beta_of_assigned = cp.multiply(samples.Z, cp.sum(beta, axis=1, keepdims=True) @ np.ones((1, n_faces)))
    gradients = lift(samples.X).T @ (cp.multiply(samples.y[:, None], alpha) + beta_of_assigned - beta)
    constraints = [
        norm_row(s, gradients, "‖Σᵢ (αᵢₖ yᵢ + Zᵢₖ Σₗ βᵢₗ − βᵢₖ) x̃ᵢ‖ ≤ sₖ", "1"),
        *samples.dual_rows(alpha),
        Row("zeta", cp.sum(alpha, axis=0) >= 1, "Σᵢ αᵢₖ ≥ 1", "zeta", "the margin of face k"),
        Row("assigned", samples.select(beta) == 0, "βᵢₖ = 0 for Zᵢₖ > 0", "none",
            "none: a sample's assigned face has no row", samples.index()),
    ]  # fmt: skip
    if n_faces > 1:
        constraints.append(
            Row("choice", samples.select(beta, 0.0) >= 0, "βᵢₖ ≥ 0 for Zᵢₖ < 1", "lead",
                "score of sample i on its assigned face, less its score on face k", samples.index(0.0))
        )  # fmt: skip
    objective, data = (cp.sum(s), "Σₖ sₖ"), samples.data
    return _program(
        "cpm_margin.printed", objective, [alpha, beta, s], constraints, data, _PRINTED_LETTERS, dual=True
    )


# -- (3) to (5): the shortest faces with a margin of 1 -----------------------------------------------


def hard_face(X: MatrixLike, y: ArrayLike) -> Program:
    """State one face of (3): its margin is the inverse of the value.

    Arguments as in :func:`hard_total`: all negatives, and the positives assigned to the face.
    """
    X, y = as_data(X, y)
    w = cp.Variable(X.shape[1] + 1, name="w")
    meaning = "rate at which the cost rises with the margin required of sample i"
    margin = Row("margin", cp.multiply(y, lift(X) @ w) >= 1, "yᵢ w·x̃ᵢ ≥ 1", "alpha", meaning)
    return _program("cpm_hard.face", (cp.norm(w), "‖w‖"), [w], [margin], {"x": X, "y": y}, _ONE_FACE_LETTERS)


def hard_face_dual(X: MatrixLike, y: ArrayLike) -> Program:
    """State the dual of :func:`hard_face`; arguments as in the primal."""
    X, y = as_data(X, y)
    alpha = cp.Variable(len(y), name="alpha")
    length = cp.norm(lift(X).T @ cp.multiply(y, alpha))
    constraints = [
        Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "surplus of sample i over its margin"),
        Row("norm", length <= 1, "‖Σᵢ αᵢ yᵢ x̃ᵢ‖ ≤ 1", "rho", "the norm of the face"),
    ]
    objective, data = (cp.sum(alpha), "Σᵢ αᵢ"), {"x": X, "y": y}
    return _program("cpm_hard.face", objective, [alpha], constraints, data, _ONE_FACE_LETTERS, dual=True)


def hard_total(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State (4)-(5) for a fixed assignment: the least sum of squared norms.

    Arguments as in :func:`formulations.cpm.fixed_assignment`.
    """
    samples = MarginRows.of(X, y, n_faces, assignment)
    W = samples.faces()
    objective = (cp.sum_squares(W), "‖W‖²")
    return _program("cpm_hard.total", objective, [W], [_hard_margin(samples, W)], samples.data)


def hard_worst(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State (4)-(5) with the worst-case margin, min max ‖W_k‖²; arguments as in :func:`hard_total`."""
    samples, t = MarginRows.of(X, y, n_faces, assignment), cp.Variable(name="t")
    W = samples.faces()
    meaning = "weight of face k in the worst case: 0 if it could be shorter; the weights add up to 1"
    norm = Row("norm", cp.sum(cp.square(W), axis=1) <= t, "‖Wₖ‖² ≤ t", "theta", meaning)
    return _program("cpm_hard.worst", (t, "t"), [W, t], [_hard_margin(samples, W), norm], samples.data)


def _hard_margin(samples: MarginRows, W: cp.Variable) -> Row:
    """Return the row ``margin`` of the constrained pairs, with the margin 1."""
    meaning = "rate at which the cost rises with the margin required of sample i on face k"
    text, index = "yᵢ Wₖ·x̃ᵢ ≥ 1 for Zᵢₖ > 0", samples.index()
    return Row("margin", samples.margins(W) >= 1, text, "alpha", meaning, index)


def hard_total_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the dual of :func:`hard_total`, unbounded if that is infeasible; arguments as in the primal."""
    samples = MarginRows.of(X, y, n_faces, assignment)
    alpha = cp.Variable(samples.Z.shape, name="alpha")
    value = cp.sum(alpha) - 0.25 * cp.sum_squares(samples.gradients(alpha))
    objective = (value, f"Σᵢₖ αᵢₖ − ¼ Σₖ ‖{_GRADIENT}‖²")
    return _program("cpm_hard.total", objective, [alpha], samples.dual_rows(alpha), samples.data, dual=True)


def hard_worst_dual(X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike) -> Program:
    """State the dual of :func:`hard_worst`, unbounded if that is infeasible; arguments as in the primal."""
    samples, s = MarginRows.of(X, y, n_faces, assignment), cp.Variable(n_faces, name="s")
    alpha = cp.Variable(samples.Z.shape, name="alpha")
    objective = (cp.sum(alpha) - 0.25 * cp.square(cp.sum(s)), "Σᵢₖ αᵢₖ − ¼ (Σₖ sₖ)²")
    constraints = [*samples.dual_rows(alpha), norm_row(s, samples.gradients(alpha), f"‖{_GRADIENT}‖ ≤ sₖ")]
    return _program("cpm_hard.worst", objective, [alpha, s], constraints, samples.data, dual=True)


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random separable data, as primal-dual pairs."""
    X, y, z = separated_clusters(seed=seed)
    # For `printed`, each negative is assigned to the best of three directions.
    nearest = (X @ np.array([X[z == k].mean(axis=0) for k in range(3)]).T).argmax(axis=1)
    of_face = (y < 0) | (z == 0)
    data = X[of_face], y[of_face]

    def recover_hard_face(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"w": v["alpha"].sum() * (lift(data[0]).T @ (v["alpha"] * data[1]))}

    def pair(
        primal: Callable[..., Program], dual: Callable[..., Program], assignment: NDArray[np.int64] = z
    ) -> Duality:
        programs = primal(X, y, 3, assignment), dual(X, y, 3, assignment)
        return Duality(*programs, lambda v: _recover(*programs, v))

    return [
        pair(total, total_dual),
        pair(worst, worst_dual),
        pair(printed, printed_dual, np.where(y > 0, z, nearest)),
        Duality(hard_face(*data), hard_face_dual(*data), recover_hard_face),
        pair(hard_total, hard_total_dual),
        pair(hard_worst, hard_worst_dual),
    ]


def _recover(primal: Program, dual: Program, v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the primal's variables from those of the dual, which was solved last."""
    X, y, Z = (np.asarray(primal.data[letter]) for letter in ("x", "y", "Z"))
    if "s" not in v:
        return {"W": 0.5 * (lift(X).T @ (v["alpha"] * y[:, None])).T}
    W = -next(row for row in dual.rows if row.name == "norm").multipliers[1:].T
    if "t" in primal.variables:
        return {"W": W, "t": np.array((W**2).sum(axis=1).max())}
    margins = np.where(Z == 1.0, y[:, None] * (lift(X) @ W.T), np.inf).min(axis=0)
    return {"W": W, "zeta": margins if primal.variables["zeta"].ndim else margins.min()}
