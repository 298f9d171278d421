"""The Convex Polytope Machine with a penalty on the weights of its faces, and sign constraints.

Problem
-------
The machine has K faces, the rows of W (K, m+1), the bias last; with x̃ = (x, 1) its score is max_k W_k·x̃. A
positive sample, outside the polytope, is assigned to one face, which must give it a score of at least 1; a
negative must have a score of at most −1 on all faces. The program is that of :mod:`formulations.cpm` for a
fixed assignment. The weights, not the biases, also have a penalty λ ≥ 0 on their absolute values and a
penalty τ ≥ 0 on the norms of groups of features, which make most weights zero. Sign constraints may make the
decision monotone in a feature.

Variables and shapes
--------------------
W and the slacks ξ_ik of sample i on face k; T (K, m), the absolute values of the weights; s (L,), the norms
of L groups of features over all faces. In the dual the margins' multipliers alpha (n, K), printed α; r and q
(K, m), of the penalty; delta, printed δ, of the signs σ_j W_kj ≥ 0 (σ_j is -1, 0 or +1), with a column for
each σ_j ≠ 0.

Programs
--------
A row is a named constraint; its multiplier is in brackets.

fixed_assignment        min  ‖W‖² + λ Σ_kj T_kj + τ Σ_l s_l + Σ_ik C_i ξ_ik
                        s.t. y_i W_k·x̃_i ≥ 1 − ξ_ik [α_ik],  |W_kj| ≤ T_kj [r_kj],
                             ‖(W_kj : j in group l, all k)‖ ≤ s_l [q],  σ_j W_kj ≥ 0 [δ_kj]
fixed_assignment_dual   max  Σ α − ¼ ‖N‖²   with   N_kj = Σ_i α_ik y_i x̃_ij − r_kj − q_kj + σ_j δ_kj
                        s.t. 0 ≤ α_ik ≤ C_i,  |r_kj| ≤ λ,  ‖(q_kj : j in group l, all k)‖ ≤ τ,  δ ≥ 0

The optimal r, q and δ are known: N = shrunk V, the soft-thresholded V_k = Σ_i α_ik y_i x̃_i
(:mod:`formulations.face_penalty`). So any α within its caps gives the lower bound Σ α − ¼ ‖shrunk V‖².

Recovery
--------
W = ½ shrunk V. T, the norms of groups and ξ follow from W.

Multipliers
-----------
alpha_ik is the rate at which the cost rises with the margin required of sample i on face k. r_kj is λ or −λ
if W_kj is positive or negative; if W_kj = 0, the weight stays 0 until λ falls to |r_kj|. For each group,
(q_kj) is τ times the unit vector along the group's weights; if these are all 0, ‖(q_kj)‖ ≤ τ. δ_kj is the
rate at which the cost would fall with a weight of the forbidden sign. The optimum rises with λ at the rate
Σ |W_kj|, and with τ at the rate Σ_l s_l, for the primal's s.

Infeasible when
---------------
Never for finite C: W = 0, ξ = 1 is feasible. All weights are 0 at the optimum if λ or τ is large enough.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), eq. (6), for the machine. Zhu, Rosset, Hastie
& Tibshirani, 1-norm Support Vector Machines (2003), and Wang, Zhu & Zou, The doubly regularized support
vector machine (2006), for one face; Simon et al., A Sparse-Group Lasso (2013), for the penalty. The programs
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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations import cpm
from formulations.face_penalty import FacePenalty
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.polytope import lift

_SOURCE = "Kantchelian et al. (2014), eq. (6), with a penalty on the weights"
_PLAIN_LETTERS = ("Zᵢₖ", "x̃ᵢ", "xᵢ", "yᵢ", "Cᵢ")  # of the program without penalty
_LETTERS = {
    "Gₗⱼ": "1 if feature $j$ is in group $l$, else 0; 0 for the bias",
    "Fⱼ": "1 for a feature, 0 for the bias",
    "rₖⱼ": "in $[−λ, λ]$, 0 for a bias",
    "qₖⱼ": "of norm up to $τ$ in each group, 0 for a bias",
    "δₖⱼ": "≥ 0: the multiplier of the sign constraint, 0 without one",
    "λ": "≥ 0: the L1 penalty on the weights",
    "τ": "≥ 0: the penalty on the norms of groups over all faces",
    "σⱼ": "+1 if weights of feature $j$ may not be negative, −1 if not positive, else 0",
}


@dataclass
class FaceTerms:
    """The terms and rows that a penalty on faces adds to a program."""

    cost: Any = 0.0  # term of the primal's objective
    text: str = ""  # `cost` as printed, beginning with `` + ``; empty without a term
    subtracted: Any = 0.0  # (K, m+1): term subtracted from V in the dual
    # fields of a Program, to be added to those of the program without penalty
    rows: tuple[Row, ...] = ()
    variables: dict[str, cp.Variable] = field(default_factory=dict)
    parameters: dict[str, cp.Parameter] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=lambda: dict(_LETTERS))
    data: dict[str, Any] = field(default_factory=dict)

    def added_to(
        self, plain: Program, *, name: str, source: str, objective: cp.Minimize | cp.Maximize, text: str
    ) -> Program:
        """Add the rows, variables and parameters to a program without penalty.

        `objective` includes the penalty; `text` is the objective as printed.
        """
        return Program(
            name=name,
            title=f"{plain.title}, with a penalty on the weights",
            source=source,
            objective=objective,
            objective_text=text,
            variables={**plain.variables, **self.variables},
            rows=(*plain.rows, *self.rows),
            parameters={**plain.parameters, **self.parameters},
            letters={**{letter: plain.letters[letter] for letter in _PLAIN_LETTERS}, **self.letters},
            data={**plain.data, **self.data},
        )


def primal_terms(penalty: FacePenalty, W: cp.Variable) -> FaceTerms:
    """Return the terms of the primal for faces W (K, m+1), the bias last: the penalty's cost and rows."""
    K, m = W.shape[0], penalty.n_features
    terms, faces = FaceTerms(), W[:, :-1]
    # `at`, the last field of a Row: the position in the constraint's array of each printed index pair (j, k).
    by_weight = _index_of(np.arange(m), m, K)
    if penalty.l1 > 0:
        lam = cp.Parameter(nonneg=True, name="lam", value=penalty.l1)
        T = cp.Variable((K, m), name="T")
        terms.cost, terms.text = lam * cp.sum(T), " + λ Σₖⱼ Tₖⱼ"
        meaning = "part of $λ$ on this side of the weight; both parts add up to $λ$"
        terms.rows = (
            Row("upper", faces <= T, "Wₖⱼ ≤ Tₖⱼ for Fⱼ > 0", "r_plus", meaning, by_weight),
            Row("lower", -faces <= T, "−Wₖⱼ ≤ Tₖⱼ for Fⱼ > 0", "r_minus", meaning, by_weight),
        )
        terms.variables["T"], terms.parameters["lam"] = T, lam
        terms.data |= {"Tₖⱼ": _padded(T, K), "F": _features(m)}
    if penalty.group > 0:
        tau = cp.Parameter(nonneg=True, name="tau", value=penalty.group)
        s = cp.Variable(penalty.n_groups, name="s")
        terms.cost, terms.text = terms.cost + tau * cp.sum(s), f"{terms.text} + τ Σₗ sₗ"
        # A second-order cone's multiplier has one entry for the bound, then one for each entry of the norm.
        terms.rows += (
            Row("group", cp.SOC(s, by_groups(penalty, faces), axis=0), "sqrt(Σₖⱼ Gₗⱼ Wₖⱼ²) ≤ sₗ", "q",
                "first entry: $τ$; other entries: minus $τ$ times a subgradient of the group's norm"),
        )  # fmt: skip
        terms.variables["s"], terms.parameters["tau"] = s, tau
        terms.data["G"] = membership(penalty)
    if penalty.signs.any():
        signed = np.flatnonzero(penalty.signs)
        signed_weights = cp.multiply(np.tile(penalty.signs[signed].astype(float), (K, 1)), W[:, signed])
        terms.rows += (
            Row("sign", signed_weights >= 0, "σⱼ Wₖⱼ ≥ 0 for σⱼ² > 0", "delta",
                "rate of decrease of the cost at weights of the forbidden sign", _index_of(signed, m, K)),
        )  # fmt: skip
        terms.data["σ"] = np.append(penalty.signs.astype(float), 0.0)
    return terms


def dual_terms(penalty: FacePenalty, K: int) -> FaceTerms:
    """Return the terms of the dual for K faces: what is subtracted from V (K, m+1), and the rows."""
    m, terms = penalty.n_features, FaceTerms()
    by_weight = _index_of(np.arange(m), m, K)
    terms.letters["Nₖⱼ"] = "= Σᵢ αᵢₖ yᵢ x̃ᵢⱼ − rₖⱼ − qₖⱼ + σⱼ δₖⱼ: twice the weight"
    zero, signs = np.zeros((K, m + 1)), np.append(penalty.signs.astype(float), 0.0)
    # Printed values of absent parts; those of present parts are set below.
    terms.data.update({"rₖⱼ": zero, "qₖⱼ": zero, "δₖⱼ": zero, "σ": signs})
    if penalty.l1 > 0:
        lam, r = cp.Parameter(nonneg=True, name="lam", value=penalty.l1), cp.Variable((K, m), name="r")
        terms.rows += (
            Row("upper", r <= lam, "rₖⱼ ≤ λ for Fⱼ > 0", "W_plus",
                "the positive part of the weight $Wₖⱼ$", by_weight),
            Row("lower", -r <= lam, "−rₖⱼ ≤ λ for Fⱼ > 0", "W_minus",
                "the negative part of the weight $Wₖⱼ$", by_weight),
        )  # fmt: skip
        terms.variables["r"], terms.parameters["lam"] = r, lam
        terms.data |= {"rₖⱼ": _padded(r, K), "F": _features(m)}
        terms.subtracted = terms.subtracted + _padded(r, K)
    if penalty.group > 0:
        tau, q = cp.Parameter(nonneg=True, name="tau", value=penalty.group), cp.Variable((K, m), name="q")
        radii = tau * np.ones(penalty.n_groups)
        terms.rows += (
            Row("group", cp.SOC(radii, by_groups(penalty, q), axis=0), "sqrt(Σₖⱼ Gₗⱼ qₖⱼ²) ≤ τ", "W",
                "first entry: the norm of the group's weights; other entries: minus these weights"),
        )  # fmt: skip
        terms.variables["q"], terms.parameters["tau"] = q, tau
        terms.data |= {"qₖⱼ": _padded(q, K), "G": membership(penalty)}
        terms.subtracted = terms.subtracted + _padded(q, K)
    if penalty.signs.any():
        signed = np.flatnonzero(penalty.signs)
        delta = cp.Variable((K, len(signed)), name="delta")
        terms.rows += (
            Row("sign", delta >= 0, "δₖⱼ ≥ 0 for σⱼ² > 0", "sigma W",
                "the absolute value of a weight with a required sign", _index_of(signed, m, K)),
        )  # fmt: skip
        padded = delta @ np.eye(m + 1)[signed]  # 0 for features without sign constraint and for biases
        terms.variables["delta"], terms.data["δₖⱼ"] = delta, padded
        terms.subtracted = terms.subtracted - cp.multiply(np.tile(signs, (K, 1)), padded)
    return terms


def penalty_rows() -> tuple[Row, ...]:
    """Return an example of each row, for one face and feature: its multiplier's letter and meaning."""
    penalty = FacePenalty.of(1, l1=1.0, group=1.0, signs=[1])
    return primal_terms(penalty, cp.Variable((1, 2))).rows


def sizes(penalty: FacePenalty, W: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the values of the variables T and s of :func:`primal_terms` at faces W."""
    values: dict[str, NDArray[Any]] = {}
    if penalty.l1 > 0:
        values["T"] = np.abs(W[:, :-1])
    if penalty.group > 0:
        values["s"] = penalty.group_norms(W[:, :-1])
    return values


def _padded(part: cp.Expression, K: int) -> cp.Expression:
    """Append a column of zeros for the biases."""
    return cp.hstack([part, np.zeros((K, 1))])


def _features(m: int) -> NDArray[np.float64]:
    """Return F (m+1,): 1 for features, 0 for the bias."""
    return np.append(np.ones(m), 0.0)


def _index_of(features: NDArray[Any], m: int, K: int) -> NDArray[np.int64]:
    """Return the index (m+1, K) of feature j and face k in a constraint (K, len(features)); -1 if absent."""
    index = np.full((m + 1, K), -1, dtype=np.int64)
    index[features] = np.arange(K * len(features)).reshape(K, len(features)).T
    return index


def membership(penalty: FacePenalty) -> NDArray[np.float64]:
    """Return the matrix (L, m+1): 1 if the feature is in the group, else 0; 0 for the bias."""
    is_in = penalty.groups == np.arange(penalty.n_groups)[:, None]
    return np.hstack([is_in.astype(float), np.zeros((penalty.n_groups, 1))])


def by_groups(penalty: FacePenalty, part: cp.Expression) -> cp.Expression:
    """Return a matrix with a column for each group: its entries (k, j) of `part` (K, m), then zeros."""
    K, m = part.shape
    counts = np.bincount(penalty.groups, minlength=penalty.n_groups)
    longest, L = int(counts.max()), penalty.n_groups
    order = np.argsort(penalty.groups, kind="stable")
    rank = np.arange(m) - np.concatenate([[0], np.cumsum(counts)])[penalty.groups[order]]
    # Entry (k, j) of `part` has flat index k m + j, and goes to row k * longest + (rank of j in its group).
    k = np.repeat(np.arange(K), m)
    target = (k * longest + np.tile(rank, K)) * L + np.tile(penalty.groups[order], K)
    source = k * m + np.tile(order, K)
    permutation = sp.csr_array((np.ones(K * m), (target, source)), shape=(K * longest * L, K * m))
    return cp.reshape(permutation @ cp.vec(part, order="C"), (K * longest, L), order="C")


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    penalty: FacePenalty,
) -> Program:  # fmt: skip
    """State the machine with a penalty for a fixed assignment; a part of the penalty that is 0 has no rows.

    Arguments as in :func:`formulations.cpm.fixed_assignment`. The parameters are C, Z, lam and tau.
    """
    plain = cpm.fixed_assignment(X, y, n_faces, assignment, C)
    W = plain.variables["W"]
    terms = primal_terms(penalty.checked(W.shape[1] - 1), W)
    # Insert the penalty's terms between the two terms of the objective without penalty.
    squared_norm, slack_cost = plain.objective.args[0].args
    norm_text, slack_text = plain.objective_text.split(" + ", 1)
    return terms.added_to(
        plain, name="cpm_sparse.fixed_assignment", source=_SOURCE,
        objective=cp.Minimize(squared_norm + terms.cost + slack_cost),
        text=f"{norm_text}{terms.text} + {slack_text}",
    )  # fmt: skip


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, *,
    penalty: FacePenalty,
) -> Program:  # fmt: skip
    """State the dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    plain = cpm.fixed_assignment_dual(X, y, n_faces, assignment, C)
    X, y = as_data(X, y)
    terms = dual_terms(penalty.checked(X.shape[1]), n_faces)
    alpha = plain.variables["alpha"]
    N = (lift(X).T @ cp.multiply(y[:, None], alpha)).T - terms.subtracted
    terms.letters["Wₖ"] = "face $k$ of the primal"  # for the meanings of the rows' multipliers
    return terms.added_to(
        plain, name="cpm_sparse.fixed_assignment_dual", source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.sum_squares(N)), text="Σᵢₖ αᵢₖ − ¼ ‖N‖²",
    )  # fmt: skip


def recover(
    X: MatrixLike, y: ArrayLike, alpha: NDArray[Any], penalty: FacePenalty
) -> dict[str, NDArray[Any]]:
    """Return the primal variables from the dual's alpha (n, K)."""
    X, y = as_data(X, y)
    W = 0.5 * penalty.shrunk((lift(X).T @ (alpha * y[:, None])).T)
    return {**cpm.with_slacks(X, y, W), **sizes(penalty, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return the program on random data with its dual, as a list of primal-dual pairs."""
    X, y = two_blobs(n=24, m=5, seed=seed)
    side = np.where(np.arange(len(y)) % 2, 1.0, -1.0)  # positives are on both sides along feature 0
    X[:, 0] = np.where(y > 0, 2.0 * side, 0.0) + 0.7 * (X[:, 0] - X[:, 0].mean())
    C, K, assignment = np.where(y > 0, 1.0, 0.7), 2, (side > 0).astype(int)
    # Features are negated such that the sign constraint of feature 1 is active, and no other one: if all
    # weights of a group were 0, the derivative by its penalty would not exist.
    X = X * np.where((y @ X < 0) == np.isin(np.arange(5), (2, 4)), 1.0, -1.0)
    penalty = FacePenalty.of(5, l1=0.1, group=0.2, signs={1: -1, 2: -1, 3: +1}, groups=[[1, 2, 3]])

    def recover_primal(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return recover(X, y, v["alpha"], penalty)

    primal, dual = (
        state(X, y, K, assignment, C, penalty=penalty) for state in (fixed_assignment, fixed_assignment_dual)
    )
    return [Duality(primal, dual, recover_primal)]
