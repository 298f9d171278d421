"""A price on faces in a program: its terms and rows, and what they become in the dual.

:mod:`formulations.face_penalty` states the price, and the map from the dual's pulls back to the faces.

Primal
------
     … + λ Σ_kj T_kj + τ Σ_l s_l
     upper:   W_kj ≤ T_kj                          [r⁺]
     lower:   −W_kj ≤ T_kj                         [r⁻]
     group:   ‖(W_kj : j in group l)‖ ≤ s_l        [q]
     sign:    σ_j W_kj ≥ 0  where σ_j is not 0     [delta]

Dual
----
What a face is pulled by is V_k (Σ_i α_ik y_i x̃_i of a machine with hinges), less what the rows hold against
it:
     N_kj = V_kj − r_kj − q_kj + σ_j δ_kj          and N stands where V stood
     upper:   r_kj ≤ λ                             [W⁺]
     lower:   −r_kj ≤ λ                            [W⁻]
     group:   ‖(q_kj : j in group l)‖ ≤ τ          [s_l, and −W]
     sign:    δ_kj ≥ 0                             [σW]

r = r⁺ − r⁻ is λ times the sign of W_kj where that is not 0, and what keeps it at 0 elsewhere; so is q, τ
times the direction of the group's weights. δ is what a feature would gain by the sign that it may not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.program import Program, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FaceTerms",
    "by_groups",
    "dual_terms",
    "membership",
    "primal_terms",
    "rows_of_prices",
    "sizes",
]

_LETTERS = {
    "Gₗⱼ": "1 where feature $j$ is in group $l$, else 0, and 0 at the bias",
    "Fⱼ": "1 at a feature, 0 at the bias",
    "rₖⱼ": "what the price $λ$ holds against a pull, 0 at a bias",
    "qₖⱼ": "what the price $τ$ holds against a pull, 0 at a bias",
    "δₖⱼ": "what a sign holds against a pull, 0 where there is none",
    "λ": "≥ 0: the price of a unit of a weight's size",
    "τ": "≥ 0: the price of a unit of a group's length over all faces",
    "σⱼ": "+1 where no face may fall with feature $j$, −1 where none may rise, 0 where it is free",
}


@dataclass
class FaceTerms:
    """What a price on faces adds to a program.

    Attributes
    ----------
    cost : cvxpy.Expression or float
        To be added to the objective, in the primal.
    text : str
        The same, as it is printed, with its first ``+``; empty for nothing.
    taken : cvxpy.Expression or float
        Of shape (K, m+1): to be taken off the pulls, in the dual.
    rows, variables, parameters, letters, data
        As of :class:`formulations.program.Program`.
    """

    cost: Any = 0.0
    text: str = ""
    taken: Any = 0.0
    rows: tuple[Row, ...] = ()
    variables: dict[str, cp.Variable] = field(default_factory=dict)
    parameters: dict[str, cp.Parameter] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=lambda: dict(_LETTERS))
    data: dict[str, Any] = field(default_factory=dict)

    def added_to(
        self, plain: Program, *, name: str, source: str, objective: cp.Minimize | cp.Maximize, text: str
    ) -> Program:
        """The plain program with the rows, the variables and the parameters of the price besides.

        Parameters
        ----------
        plain : Program
            Without a price.
        name, source
            As of :class:`formulations.program.Program`.
        objective : cvxpy.Minimize or cvxpy.Maximize
            The objective with the price.
        text : str
            The same, as it is printed.
        """
        return Program(
            name=name,
            title=f"{plain.title}, with a price on the weights",
            source=source,
            objective=objective,
            objective_text=text,
            variables={**plain.variables, **self.variables},
            rows=(*plain.rows, *self.rows),
            parameters={**plain.parameters, **self.parameters},
            letters={**plain.letters, **self.letters},
            data={**plain.data, **self.data},
        )


def primal_terms(penalty: FacePenalty, W: cp.Variable) -> FaceTerms:
    """The price of the faces W (K, m+1), the bias last, and its rows.

    Parameters
    ----------
    penalty : FacePenalty
        The price; a part that is 0 adds nothing.
    W : cvxpy.Variable of shape (K, m+1)
        The faces.
    """
    K, m = W.shape[0], penalty.n_features
    terms, faces = FaceTerms(), W[:, :-1]
    if penalty.l1 > 0:
        lam = cp.Parameter(nonneg=True, name="lam", value=penalty.l1)
        T = cp.Variable((K, m), name="T")
        terms.cost, terms.text = lam * cp.sum(T), " + λ Σₖⱼ Tₖⱼ"
        saved = "what the price $λ$ holds against the weight from this side; both add up to $λ$"
        terms.rows = (
            Row("upper", faces <= T, "Wₖⱼ ≤ Tₖⱼ for Fⱼ > 0", "r_plus", saved, _inner(K, m)),
            Row("lower", -faces <= T, "−Wₖⱼ ≤ Tₖⱼ for Fⱼ > 0", "r_minus", saved, _inner(K, m)),
        )
        terms.variables["T"], terms.parameters["lam"] = T, lam
        terms.data |= {"Tₖⱼ": _padded(T, K), "F": _features(m)}
    if penalty.group > 0:
        tau = cp.Parameter(nonneg=True, name="tau", value=penalty.group)
        s = cp.Variable(penalty.n_groups, name="s")
        terms.cost, terms.text = terms.cost + tau * cp.sum(s), f"{terms.text} + τ Σₗ sₗ"
        terms.rows += (
            Row("group", cp.SOC(s, by_groups(penalty, faces), axis=0), "sqrt(Σₖⱼ Gₗⱼ Wₖⱼ²) ≤ sₗ", "q",
                "$τ$; and under it what it holds against the group's weights on all faces, with its sign"),
        )  # fmt: skip
        terms.variables["s"], terms.parameters["tau"] = s, tau
        terms.data["G"] = membership(penalty)
    if penalty.signs.any():
        signed = np.flatnonzero(penalty.signs)
        kept = cp.multiply(np.tile(penalty.signs[signed].astype(float), (K, 1)), W[:, signed])
        terms.rows += (
            Row("sign", kept >= 0, "σⱼ Wₖⱼ ≥ 0 for σⱼ² > 0", "delta",
                "what a weight of the sign that is not allowed would gain", _signed_places(penalty, K)),
        )  # fmt: skip
        terms.data["σ"] = np.append(penalty.signs.astype(float), 0.0)
    return terms


def dual_terms(penalty: FacePenalty, K: int) -> FaceTerms:
    """What is taken off the pulls (K, m+1) in the dual, and its rows.

    Parameters
    ----------
    penalty : FacePenalty
        The price.
    K : int
        Faces.
    """
    m, terms = penalty.n_features, FaceTerms()
    left = "what is left of the pull at a weight"
    terms.letters["Nₖⱼ"] = f"= Σᵢ αᵢₖ yᵢ x̃ᵢⱼ − rₖⱼ − qₖⱼ + σⱼ δₖⱼ: {left}"
    zero, signs = np.zeros((K, m + 1)), np.append(penalty.signs.astype(float), 0.0)
    terms.data.update({"rₖⱼ": zero, "qₖⱼ": zero, "δₖⱼ": zero, "σ": signs})
    if penalty.l1 > 0:
        lam, r = cp.Parameter(nonneg=True, name="lam", value=penalty.l1), cp.Variable((K, m), name="r")
        terms.rows += (
            Row("upper", r <= lam, "rₖⱼ ≤ λ for Fⱼ > 0", "W_plus",
                "the positive part of the weight $Wₖⱼ$", _inner(K, m)),
            Row("lower", -r <= lam, "−rₖⱼ ≤ λ for Fⱼ > 0", "W_minus",
                "the negative part of the weight $Wₖⱼ$", _inner(K, m)),
        )  # fmt: skip
        if penalty.group == 0.0:  # whose row names the faces
            terms.letters["Wₖ"] = "face $k$ of the primal"
        terms.variables["r"], terms.parameters["lam"] = r, lam
        terms.data |= {"rₖⱼ": _padded(r, K), "F": _features(m)}
        terms.taken = terms.taken + _padded(r, K)
    if penalty.group > 0:
        tau, q = cp.Parameter(nonneg=True, name="tau", value=penalty.group), cp.Variable((K, m), name="q")
        most = tau * np.ones(penalty.n_groups)
        terms.rows += (
            Row("group", cp.SOC(most, by_groups(penalty, q), axis=0), "sqrt(Σₖⱼ Gₗⱼ qₖⱼ²) ≤ τ", "W",
                "the group's length over all faces; and under it, with the other sign, its weights"),
        )  # fmt: skip
        terms.variables["q"], terms.parameters["tau"] = q, tau
        terms.data |= {"qₖⱼ": _padded(q, K), "G": membership(penalty)}
        terms.taken = terms.taken + _padded(q, K)
    if penalty.signs.any():
        signed = np.flatnonzero(penalty.signs)
        delta = cp.Variable((K, len(signed)), name="delta")
        terms.rows += (
            Row("sign", delta >= 0, "δₖⱼ ≥ 0 for σⱼ² > 0", "sigma W",
                "the size of the weight, where it has a sign to keep", _signed_places(penalty, K)),
        )  # fmt: skip
        spread = delta @ np.eye(m + 1)[signed]
        terms.variables["delta"], terms.data["δₖⱼ"] = delta, spread
        terms.taken = terms.taken - cp.multiply(np.tile(signs, (K, 1)), spread)
    return terms


def rows_of_prices() -> tuple[Row, ...]:
    """The rows that prices and signs have in any program, on one face of one feature."""
    penalty = FacePenalty.of(1, l1=1.0, group=1.0, signs=[1])
    return primal_terms(penalty, cp.Variable((1, 2))).rows


def sizes(penalty: FacePenalty, W: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The variables T and s of :func:`primal_terms` at the faces W (K, m+1)."""
    found: dict[str, NDArray[Any]] = {}
    if penalty.l1 > 0:
        found["T"] = np.abs(W[:, :-1])
    if penalty.group > 0:
        found["s"] = penalty.lengths(W[:, :-1])
    return found


def _padded(part: cp.Expression, K: int) -> cp.Expression:
    """With a column of zeros in the place of the biases."""
    return cp.hstack([part, np.zeros((K, 1))])


def _features(m: int) -> NDArray[np.float64]:
    return np.append(np.ones(m), 0.0)


def _inner(K: int, m: int) -> NDArray[np.int64]:
    """By feature and face, as the formulas' indices go, the place in a row that leaves out the biases."""
    places = np.full((m + 1, K), -1, dtype=np.int64)
    places[:m] = np.arange(K * m).reshape(K, m).T
    return places


def _signed_places(penalty: FacePenalty, K: int) -> NDArray[np.int64]:
    signed = np.flatnonzero(penalty.signs)
    places = np.full((penalty.n_features + 1, K), -1, dtype=np.int64)
    places[signed] = np.arange(K * len(signed)).reshape(K, len(signed)).T
    return places


def membership(penalty: FacePenalty) -> NDArray[np.float64]:
    """Which feature is in which group, (L, m+1), and 0 at the bias."""
    own = penalty.groups == np.arange(penalty.n_groups)[:, None]
    return np.hstack([own.astype(float), np.zeros((penalty.n_groups, 1))])


def by_groups(penalty: FacePenalty, part: cp.Expression) -> cp.Expression:
    """The entries of (K, m) with a column for each group, filled up with zeros to the longest of them."""
    K, m = part.shape
    counts = np.bincount(penalty.groups, minlength=penalty.n_groups)
    most, L = int(counts.max()), penalty.n_groups
    order = np.argsort(penalty.groups, kind="stable")
    rank = np.arange(m) - np.concatenate([[0], np.cumsum(counts)])[penalty.groups[order]]
    # Entry (k, j) of the part stands at k m + j, and goes to row k most + rank of its group's column.
    k = np.repeat(np.arange(K), m)
    to = (k * most + np.tile(rank, K)) * L + np.tile(penalty.groups[order], K)
    come = k * m + np.tile(order, K)
    chosen = sp.csr_array((np.ones(K * m), (to, come)), shape=(K * most * L, K * m))
    return cp.reshape(chosen @ cp.vec(part, order="C"), (K * most, L), order="C")
