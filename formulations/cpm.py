"""The Convex Polytope Machine: one class inside a convex polytope, the other outside of it.

Problem
-------
A polytope of K faces separates the classes: f(x) = max_k W_k·x̃ is positive outside it, where the
positive samples belong, and negative inside. A negative must be on the inner side of every face; a
positive need only be on the outer side of one, and which one answers for it is its assignment z_i.
For a fixed assignment the program is convex; over the assignments it is not. Everything here is
for a fixed one; :func:`objective` alone takes the best.

Variables and shapes
--------------------
x̃ = (x, 1): the bias is the last coordinate, and it is penalised like the others. W (K, m+1),
xi (n, K); alpha (n, K) in the dual. X is (n, m), y is (n,) of -1 and +1, C is a scalar or (n,), the
assignment is (n,) of 0..K-1, its entries at the negatives ignored. Z (n, K) is the 0/1 matrix of
who answers for whom: a row of ones at a negative, z_i's unit vector at a positive. With the shared
slack of loss="max", xi has one entry per negative and K per positive, sample by sample, and
[ik] is the place of ξ_ik in it (:func:`slack_places`).

Primal
------
loss="sum", the paper's unconstrained form, which its Algorithm 1 minimises; K independent programs
(6)  min  ‖W‖² + Σ_ik C_i Z_ik ξ_ik
     margin:  y_i W_k·x̃_i ≥ 1 − ξ_ik              [alpha]
     slack:   ξ_ik ≥ 0                             [beta]

loss="max", (6) as printed: a negative has one slack for all faces, which ties them together
(6)  min  ‖W‖² + Σ_neg C_i ξ_i + Σ_pos Σ_k C_i Z_ik ξ_ik
     margin:  y_i W_k·x̃_i ≥ 1 − ξ_[ik]            [alpha]
     slack:   ξ ≥ 0                                [beta]

one face of loss="sum", with costs c_i = C_i Z_ik
     min  ‖w‖² + Σ c_i ξ_i
     margin:  y_i w·x̃_i ≥ 1 − ξ_i                 [alpha]
     slack:   ξ_i ≥ 0                              [beta]

The paper takes both losses for one program. They are two: a negative that violates several faces
pays for each of them in the first, for the worst of them in the second. J_max(W) ≤ J_sum(W), equal
for K = 1.

Dual
----
     max  Σ_ik α_ik − ¼ Σ_k ‖Σ_i α_ik y_i x̃_i‖²
     margin:  α_ik ≥ 0                             [surplus of the primal row margin]
     xi:      α_ik ≤ C_i Z_ik                      [xi]    loss="sum", and the positives of "max"
     xi:      Σ_k α_ik ≤ C_i                       [xi]    the negatives of loss="max"

There is no balance row, since the bias is penalised.

Recovery
--------
W_k = ½ Σ_i α_ik y_i x̃_i; ξ_ik = [1 − y_i W_k·x̃_i]_+, and its largest over k where it is shared.

Multipliers
-----------
alpha_ik is the rate at which the optimal cost rises when sample i must reach a margin above 1 on
face k: which samples hold which face, and how hard. With loss="max" the faces share a negative's
C_i between them. beta is the unused price of slack.

Infeasible when
---------------
Never for finite C: W = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope Machine (2014),
eq. (6) and the unconstrained form after it; with C for 1/λ. One face is twice the SVM of cost C/2
without intercept on x̃.

Example
-------
>>> import numpy as np
>>> from formulations import cpm
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([1, -1, 1])  # inside is the middle
>>> program = cpm.fixed_assignment(X, y, n_faces=2, assignment=[0, -1, 1], C=10.0)
>>> solution = program.solve()
>>> solution["W"].round(6)
array([[-1., -1.],
       [ 1., -1.]])
>>> swapped = program.set(Z=cpm.answers(y, 2, [1, -1, 0])).solve()  # re-uses what was built
>>> swapped["W"].round(6)
array([[ 1., -1.],
       [-1., -1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from formulations.cpm_face import LETTERS, PAPER, SOURCE, face, face_dual
from formulations.cpm_global import mixed_integer
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data, slacks
from formulations.language.toy_data import two_blobs
from formulations.polytope import answers, check_loss, lift, natural_assignment, objective, slack_places
from formulations.svm import cost_parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike
    from formulations.polytope import Loss

__all__ = [
    "answers",
    "face",
    "face_dual",
    "fixed_assignment",
    "fixed_assignment_dual",
    "lift",
    "natural_assignment",
    "objective",
    "pairs",
    "recover",
    "singles",
    "slack_places",
]


def _parameters(
    y: NDArray[Any], n_faces: int, assignment: ArrayLike, C: ArrayLike, loss: Loss
) -> tuple[dict[str, cp.Parameter], cp.Parameter]:
    """The parameters C and Z, and the cost of each slack, which follows from both."""
    check_loss(loss)
    whole("n_faces", n_faces)
    n = len(y)
    per_sample = cost_parameter(C, n)
    Z = cp.Parameter((n, n_faces), nonneg=True, name="Z", value=answers(y, n_faces, assignment))
    parameters = {"C": per_sample, "Z": Z}

    def by_pair() -> NDArray[Any]:
        return np.asarray(per_sample.value[:, None] * Z.value)

    if loss == "sum":
        return parameters, cp.CallbackParam(by_pair, shape=(n, n_faces), nonneg=True)
    # The entries of a negative share one place and are equal, so the first of each place will do.
    _, first = np.unique(slack_places(y, n_faces), return_index=True)
    return parameters, cp.CallbackParam(lambda: by_pair().ravel()[first], shape=first.shape, nonneg=True)


def fixed_assignment(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum"
) -> Program:
    """The convex polytope machine for a fixed assignment, eq. (6).

    Parameters
    ----------
    X, y, C
        Samples, labels (-1 inside, +1 outside) and costs, else as in :func:`formulations.svm.primal`.
    n_faces : int
        K, at least 1.
    assignment : array_like of int, shape (n,)
        The face of each positive; the entries of negatives are ignored.
    loss : {"sum", "max"}
        Whether a negative pays for every face it violates, or for the worst.

    Returns
    -------
    Program
        With the parameters C and Z; ``program.set(Z=answers(y, n_faces, assignment))`` changes the
        assignment.
    """
    X, y = as_data(X, y)
    parameters, costs = _parameters(y, n_faces, assignment, C, loss)
    n, m = X.shape
    W, xi = cp.Variable((n_faces, m + 1), name="W"), cp.Variable(costs.shape, name="xi")
    if loss == "sum":
        spread, text, at, data = xi, "ξᵢₖ", None, {}
        objective_text = "‖W‖² + Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ"
    else:
        at = slack_places(y, n_faces)
        spread = cp.reshape(xi[at.ravel()], (n, n_faces), order="C")
        text, data = "ξ₍ᵢₖ₎", {"ξ₍ᵢₖ₎": spread, "ξᵢₖ": spread, "ξᵢ": xi[at[:, 0]]}
        objective_text = "‖W‖² + Σ_{yᵢ<0} Cᵢ ξᵢ + Σ_{yᵢ>0} Σₖ Cᵢ Zᵢₖ ξᵢₖ"
    margin = Row(
        "margin",
        cp.multiply(y[:, None], lift(X) @ W.T) >= 1 - spread,
        f"yᵢ Wₖ·x̃ᵢ ≥ 1 − {text}",
        "alpha",
        "price of sample i's margin on face k: 0 beyond it, up to its cost on it, all of it inside",
    )
    slack = Row("slack", xi >= 0, f"{text} ≥ 0", "beta", "unused price of slack", at)
    return Program(
        name=f"cpm.fixed_assignment_{loss}",
        title=f"Convex polytope machine, fixed assignment, {_PAYS[loss]}",
        source=f"{PAPER}, {_SOURCES[loss]}",
        objective=cp.Minimize(cp.sum_squares(W) + cp.sum(cp.multiply(costs, xi))),
        objective_text=objective_text,
        variables={"W": W, "xi": xi},
        rows=(margin, slack),
        parameters=parameters,
        letters=LETTERS,
        data={"x": X, "y": y, **data},
    )


_PAYS = {"sum": "a negative pays for every face", "max": "a negative pays for its worst face"}
_SOURCES = {"sum": SOURCE, "max": "eq. (6)"}


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike, C: ArrayLike = 1.0, loss: Loss = "sum"
) -> Program:
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    parameters, costs = _parameters(y, n_faces, assignment, C, loss)
    alpha = cp.Variable((len(y), n_faces), name="alpha")
    if loss == "sum":
        used, text, at = alpha, "αᵢₖ ≤ Cᵢ Zᵢₖ", None
    else:
        at = slack_places(y, n_faces)
        places = at.ravel()
        into = sp.csr_array((np.ones(len(places)), (places, np.arange(len(places)))))
        used = into @ cp.vec(alpha, order="C")
        text = "Σₖ αᵢₖ ≤ Cᵢ for yᵢ < 0,  αᵢₖ ≤ Cᵢ Zᵢₖ for yᵢ > 0"
    rows = (
        Row(
            "margin",
            alpha >= 0,
            "αᵢₖ ≥ 0",
            "surplus",
            "how far sample i is beyond face k's margin",
        ),
        Row("xi", used <= costs, text, "xi", "the slacks $ξ$", at),
    )
    return Program(
        name=f"cpm.fixed_assignment_{loss}_dual",
        title=f"Convex polytope machine, fixed assignment, dual, {_PAYS[loss]}",
        source=f"{PAPER}, {_SOURCES[loss]} (derived)",
        objective=cp.Maximize(
            cp.sum(alpha) - 0.25 * cp.sum_squares(lift(X).T @ cp.multiply(y[:, None], alpha))
        ),
        objective_text="Σᵢₖ αᵢₖ − ¼ Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²",
        variables={"alpha": alpha},
        rows=rows,
        parameters=parameters,
        letters=LETTERS,
        data={"x": X, "y": y},
    )


def recover(X: MatrixLike, y: ArrayLike, alpha: NDArray[Any], loss: Loss = "sum") -> dict[str, NDArray[Any]]:
    """Primal variables W and xi of (6) from the dual's alpha (n, K)."""
    X, y = as_data(X, y)
    return with_slacks(X, y, 0.5 * (lift(X).T @ (alpha * y[:, None])).T, loss)


def with_slacks(X: MatrixLike, y: ArrayLike, W: NDArray[Any], loss: Loss = "sum") -> dict[str, NDArray[Any]]:
    """Primal variables W and xi of (6) at the faces W (K, m+1): the least slacks that they need."""
    X, y = as_data(X, y)
    check_loss(loss)
    hinge = slacks(lift(X) @ W.T, y[:, None])
    if loss == "sum":
        return {"W": W, "xi": hinge}
    places = slack_places(y, len(W))
    xi = np.zeros(places.max() + 1)
    np.maximum.at(xi, places, hinge)
    return {"W": W, "xi": xi}


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    C, K = np.where(y > 0, 1.0, 0.7), 3
    assignment = np.arange(len(y)) % K

    def of(loss: Loss) -> Duality:
        arguments = (X, y, K, assignment, C, loss)
        return Duality(
            fixed_assignment(*arguments),
            fixed_assignment_dual(*arguments),
            lambda v: recover(X, y, v["alpha"], loss),
        )

    def recover_face(alpha: NDArray[Any]) -> dict[str, NDArray[Any]]:
        point = recover(X, y, alpha[:, None])
        return {"w": point["W"][0], "xi": point["xi"][:, 0]}

    one = C * answers(y, K, assignment)[:, 0]
    return [
        of("sum"),
        of("max"),
        Duality(face(X, y, one), face_dual(X, y, one), lambda v: recover_face(v["alpha"])),
    ]


def singles(seed: int = 0) -> list[Program]:
    """The machine over all assignments, which has no dual, on random data."""
    X, y = two_blobs(n=16, m=2, seed=seed)
    C = np.where(y > 0, 1.3, 0.7)
    return [mixed_integer(X, y, 2, C), mixed_integer(X, y, 2, C, loss="max", margin="worst")]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
