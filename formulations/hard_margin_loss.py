"""The SVM with the hard-margin loss: each sample meets its margin, or is given up for a price.

Problem
-------
Separate two classes by f(x) = w·x + b with a wide margin, paying C_i for each sample that is misclassified or
inside the margin, however far. The hinge grows with the distance, and a single far outlier can turn the
hyperplane; here no sample costs more than C_i. The 0-1 loss counts the misclassified alone; this one counts
those inside the margin too, without which there would be no scale, and no margin.

Variables and shapes
--------------------
w (m,), b scalar, z (n,) of 0 and 1: z_i = 1 where sample i is given up. X is (n, m), y is (n,) of -1 and +1,
both of them; C is a number or (n,), positive. alpha (n,) and s (n,) in the duals.

Primal
------
(1)  min  ½‖w‖² + Σ_i C_i z_i   over z in {0, 1}
     margin:  y_i (w·x_i + b) ≥ 1 − M_i z_i

(2)  L(z) = min  ½‖w‖²   for fixed z: the hard-margin SVM of the samples kept
     margin:  (1 − z_i) (y_i (w·x_i + b) − 1) ≥ 0   [α]

(4)  min  ½‖w‖² + Σ_i C_i z_i   over the rows of (1), the relaxation
     margin:  as in (1)       [α]
     kept:    z_i ≥ 0         [r]
     lost:    z_i ≤ 1         [s]

Dual
----
(3)  L(z) = max  Σ_i (1 − z_i) α_i − ½‖Σ_i (1 − z_i) α_i y_i x_i‖²
     b:       Σ_i (1 − z_i) α_i y_i = 0   [b]
     margin:  α_i ≥ 0                     [surplus of the primal row margin]

(5)  of (4): max  Σ_i α_i − Σ_i s_i − ½‖Σ_i α_i y_i x_i‖²
     b:       Σ_i α_i y_i = 0             [b]
     z:       M_i α_i − s_i ≤ C_i         [z]
     lost:    s_i ≥ 0                     [1 − z]
     margin:  α_i ≥ 0                     [surplus]

Without the row lost, (4) and (5) are the SVM with the costs C_i/M_i. M_i = max(2, √(2U) max ‖x_i − x_k‖) over
the k of i's class, from any known value U: why that is enough,
:meth:`formulations.hard_margin_loss_data.HardMarginLossData.big_m` says.

A combinatorial Benders' cut needs no M. For balanced multipliers α ≥ 0 of some samples S, by (3), meeting
them all takes ½‖w‖² ≥ (Σ α)² / (2‖Σ α_i y_i x_i‖²) = V_S. So a solution of a value below V_S gives one of
them up, Σ_S z_i ≥ 1, and every solution has ½‖w‖² ≥ V_S unless it does.

Recovery
--------
w = Σ α_i y_i x_i, z and b are the multipliers of the rows z and b of (5); b alone for (3).

Multipliers
-----------
α_i of (2) is the price of sample i's margin: what a margin of 1 + ε instead of 1 would cost, per ε. It has no
upper bound, and says nothing of what giving the sample up would save. Program (1) has no multipliers.

Infeasible when
---------------
(1), (4): never, as w = 0 gives up one class. (2): the samples kept cannot be separated, or are of one class
alone, where w = 0 is optimal.

Reference
---------
Brooks, Support vector machines with the ramp loss and the hard margin loss, Operations Research 59 (2011):
eq. (1) here, with M or
with an indicator in its place. Santana, Serrano, Schiffer & Vidal, Support vector machines
with the hard-margin loss: optimal training via combinatorial Benders' cuts, Journal of Global Optimization
(2025): the cuts, with infeasible S alone. Eq. (2) to (5), the value V_S and M are derived.

Example
-------
>>> import numpy as np
>>> from formulations import hard_margin_loss
>>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0], [9.0]]), np.array([-1, -1, 1, 1, -1])
>>> program = hard_margin_loss.mixed_integer(X, y, C=5.0)
>>> program.kind, program.solvers
('MIQP', ('SCIP',))
>>> hard_margin_loss.pattern(X, y, [0, 0, 0, 0, 1]).solve().objective.__round__(6)
0.5
>>> round(hard_margin_loss.relaxation(X, y, C=5.0).solve().objective, 6)  # a bound, from below
0.630165
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import real_array
from formulations.hard_margin_loss_data import HardMarginLossData, as_hard_margin_loss_data
from formulations.program import Duality, Program, Row, without_multipliers
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

__all__ = [
    "LETTERS", "mixed_integer", "pairs", "pattern", "pattern_dual", "relaxation", "relaxation_dual",
    "singles",
]  # fmt: skip

_BROOKS = "Brooks (2011)"
LETTERS = {
    "xᵢ": "sample $i$",
    "yᵢ": "the label of sample $i$, +1 or −1",
    "Cᵢ": "the price of giving sample $i$ up, $C$ times its weight",
    "Mᵢ": "so large that the row of a sample given up holds (from the data)",
}
_OF_PATTERN = {
    **{letter: LETTERS[letter] for letter in ("xᵢ", "yᵢ")},
    "zᵢ": "whether sample $i$ is given up, 1 or 0",
}
_MARGIN = "yᵢ(w·xᵢ + b) ≥ 1 − Mᵢ zᵢ"


def mixed_integer(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, upper: float | None = None) -> Program:
    """The exact program, eq. (1); SCIP solves it.

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Labels -1 and +1, both of them.
    C : float or array_like of shape (n,)
        What it costs to give a sample up; positive.
    upper : float, optional
        The value of any point, for M: the lower, the smaller is M.
    """
    return _with_m(as_hard_margin_loss_data(X, y, C), upper, whole=True)


def relaxation(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, upper: float | None = None) -> Program:
    """The relaxation of the exact program, eq. (4): its value bounds that of every point from below.

    Arguments as in :func:`mixed_integer`.
    """
    return _with_m(as_hard_margin_loss_data(X, y, C), upper, whole=False)


def _with_m(data: HardMarginLossData, upper: float | None, *, whole: bool) -> Program:
    n, m = data.X.shape
    w, b = cp.Variable(m, name="w"), cp.Variable(name="b")
    z = cp.Variable(n, boolean=True, name="z") if whole else cp.Variable(n, name="z")
    M, costs = data.big_m(upper), cp.Parameter(n, nonneg=True, name="C", value=data.costs)
    margin = Row(
        "margin", cp.multiply(data.y, data.X @ w + b) >= 1 - cp.multiply(M, z), _MARGIN, "alpha",
        "price of sample i's margin: at most $Cᵢ/Mᵢ$ where $zᵢ < 1$",
    )  # fmt: skip
    rows: tuple[Row, ...] = without_multipliers((margin,))
    if not whole:
        kept = Row("kept", z >= 0, "zᵢ ≥ 0", "r", "$Cᵢ$ less $Mᵢ$ times the price of the margin")
        lost = Row("lost", z <= 1, "zᵢ ≤ 1", "s", "what it would save to give sample i up twice")
        rows = (margin, kept, lost)
    return Program(
        name="hard_margin_loss.mixed_integer" if whole else "hard_margin_loss.relaxation",
        title="SVM with the hard-margin loss" + ("" if whole else ", relaxed"),
        source=f"{_BROOKS}, " + ("eq. (1)" if whole else "eq. (4) (derived)"),
        objective=cp.Minimize(0.5 * cp.sum_squares(w) + costs @ z),
        objective_text="½‖w‖² + Σᵢ Cᵢ zᵢ",
        variables={"w": w, "b": b, "z": z},
        rows=rows,
        parameters={"C": costs},
        letters=LETTERS,
        data={"x": data.X, "y": data.y, "M": M},
    )


def relaxation_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, upper: float | None = None) -> Program:
    """Dual of :func:`relaxation`, eq. (5); arguments as in the primal."""
    data = as_hard_margin_loss_data(X, y, C)
    n, M = len(data.y), data.big_m(upper)
    alpha, s = cp.Variable(n, name="alpha"), cp.Variable(n, name="s")
    costs = cp.Parameter(n, nonneg=True, name="C", value=data.costs)
    pull = data.X.T @ cp.multiply(data.y, alpha)
    return Program(
        name="hard_margin_loss.relaxation_dual",
        title="SVM with the hard-margin loss, relaxed, dual",
        source=f"{_BROOKS}, eq. (5) (derived)",
        objective=cp.Maximize(cp.sum(alpha) - cp.sum(s) - 0.5 * cp.sum_squares(pull)),
        objective_text="Σᵢ αᵢ − Σᵢ sᵢ − ½‖Σᵢ αᵢ yᵢ xᵢ‖²",
        variables={"alpha": alpha, "s": s},
        rows=(
            Row("b", data.y @ alpha == 0, "Σᵢ αᵢ yᵢ = 0", "b", "the intercept $b$, sign included"),
            Row("z", cp.multiply(M, alpha) - s <= costs, "Mᵢ αᵢ − sᵢ ≤ Cᵢ", "z",
                "how far sample i is given up, $zᵢ$"),
            Row("lost", s >= 0, "sᵢ ≥ 0", "room", "$1 − zᵢ$"),
            Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "how far sample i is beyond its margin row"),
        ),
        parameters={"C": costs},
        letters=LETTERS,
        data={"x": data.X, "y": data.y, "M": M},
    )  # fmt: skip


def pattern(X: MatrixLike, y: ArrayLike, z: ArrayLike) -> Program:
    """The hard-margin SVM of the samples kept, eq. (2).

    Parameters
    ----------
    X, y
        As in :func:`mixed_integer`.
    z : array_like of shape (n,)
        1 for the samples given up, 0 for those kept.

    Returns
    -------
    Program
        With the parameter z, so that ``program.set(z=...)`` changes the pattern.

    Raises
    ------
    ValueError
        Numbers other than 0 and 1.
    """
    data, given_up = _of_pattern(X, y, z)
    w, b = cp.Variable(data.X.shape[1], name="w"), cp.Variable(name="b")
    beyond = cp.multiply(data.y, data.X @ w + b) - 1
    return Program(
        name="hard_margin_loss.pattern",
        title="SVM with the hard-margin loss, the program of one pattern",
        source=f"{_BROOKS}, eq. (2) (derived)",
        objective=cp.Minimize(0.5 * cp.sum_squares(w)),
        objective_text="½‖w‖²",
        variables={"w": w, "b": b},
        rows=(
            Row("margin", cp.multiply(1 - given_up, beyond) >= 0, "(1 − zᵢ)(yᵢ(w·xᵢ + b) − 1) ≥ 0", "alpha",
                "price of sample i's margin"),
        ),
        parameters={"z": given_up},
        letters=_OF_PATTERN,
        data={"x": data.X, "y": data.y},
    )  # fmt: skip


def pattern_dual(X: MatrixLike, y: ArrayLike, z: ArrayLike) -> Program:
    """Dual of :func:`pattern`, eq. (3), with the same parameter; arguments as in the primal."""
    data, given_up = _of_pattern(X, y, z)
    alpha = cp.Variable(len(data.y), name="alpha")
    counted = cp.multiply(1 - given_up, alpha)
    pull = data.X.T @ cp.multiply(data.y, counted)
    return Program(
        name="hard_margin_loss.pattern_dual",
        title="SVM with the hard-margin loss, the program of one pattern, dual",
        source=f"{_BROOKS}, eq. (3) (derived)",
        objective=cp.Maximize(cp.sum(counted) - 0.5 * cp.sum_squares(pull)),
        objective_text="Σᵢ (1 − zᵢ) αᵢ − ½‖Σᵢ (1 − zᵢ) αᵢ yᵢ xᵢ‖²",
        variables={"alpha": alpha},
        rows=(
            Row("b", data.y @ counted == 0, "Σᵢ (1 − zᵢ) αᵢ yᵢ = 0", "b", "the intercept $b$, sign included"),
            Row("margin", alpha >= 0, "αᵢ ≥ 0", "surplus", "how far sample i is beyond its margin"),
        ),
        parameters={"z": given_up},
        letters=_OF_PATTERN,
        data={"x": data.X, "y": data.y},
    )


def _of_pattern(X: MatrixLike, y: ArrayLike, z: ArrayLike) -> tuple[HardMarginLossData, cp.Parameter]:
    data = as_hard_margin_loss_data(X, y)
    given_up = real_array("z", z, data.y.shape)
    if not np.isin(given_up, (0.0, 1.0)).all():
        raise ValueError("z must hold only 0 and 1")
    return data, cp.Parameter(len(given_up), nonneg=True, name="z", value=given_up)


def _sample(seed: int, n: int = 30) -> tuple[Vector, Vector, Vector]:
    """Two blobs that overlap a little (n, 2), labels and costs (n,)."""
    X, y = two_blobs(n=n, m=2, seed=seed)
    return X, y, np.where(y > 0, 1.0, 0.7)


def pairs(seed: int = 0) -> list[Duality]:
    """The convex programs of this module on random data, as primal-dual pairs."""
    X, y, C = _sample(seed)
    beyond = y * (X @ (X.T @ y)) / len(y) - y * np.median(X @ (X.T @ y)) / len(y)
    z = beyond <= np.sort(beyond)[len(y) // 3]  # those on the wrong side of a plane, and the near ones
    exact = pattern(X, y, z), pattern_dual(X, y, z)
    relaxed = relaxation(X, y, C), relaxation_dual(X, y, C)

    def of_pattern(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        w = X.T @ (np.where(z, 0.0, v["alpha"]) * y)
        lower, upper = (X @ w)[~z & (y > 0)].min(), (X @ w)[~z & (y < 0)].max()
        return {"w": w, "b": np.array(-0.5 * (lower + upper))}

    def of_relaxed(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        duals = {row.name: np.asarray(row.constraint.dual_value) for row in relaxed[1].rows}
        return {"w": X.T @ (v["alpha"] * y), "b": duals["b"], "z": np.clip(duals["z"], 0.0, 1.0)}

    return [Duality(*exact, of_pattern), Duality(*relaxed, of_relaxed)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y, C = _sample(seed, n=16)
    return [mixed_integer(X, y, C)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
    print(singles()[0])
