"""The L0 support vector machine with a price of squares: few coefficients, and none larger than it is worth.

Problem
-------
To the score of :mod:`formulations.l0` the squares of the coefficients are added, at a price λ > 0 (``l2``),
(1)  S* = min  ‖α‖₀ + λ ‖α‖² + C Σ_i w_i ξ_i   s.t.  y_i f(x_i) ≥ 1 − ξ_i,  ξ ≥ 0,  0 ≤ α ≤ C.
For a fixed pattern σ what is left is a convex quadratic program of value L(σ), and S* is the least of
S(σ) = 1'σ + C L(σ), as without: the squares stand in L with the price λ/C.

What a price of squares is good for: where a centre is used in part, α_j² costs more than its share of it. The
rotated cone α_j² ≤ z_j σ_j says that exactly, and the relaxation is tighter by it than without.

Variables and shapes
--------------------
As in :mod:`formulations.l0`; z (p,) stands for the squares, e (p,) for what a coefficient has over κ, and
g (p,) in the duals for the price of a coefficient at the margin.

Primal
------
(2)  L(σ) = min  Σ_i w_i ξ_i + (λ/C) Σ_j α_j²
     margin:  y_i (Σ_j K_ij t_j α_j + b) ≥ 1 − ξ_i   [u]
     slack:   ξ_i ≥ 0                                [v]
     sign:    α_j ≥ 0                                [r]
     cap:     α_j ≤ C σ_j                            [s]

(3)  S* = min  Σ_j σ_j + λ Σ_j z_j + C Σ_i w_i ξ_i   over the rows of (2), σ in {0, 1}, and
     square:  α_j² ≤ z_j σ_j, the cone ‖(2 α_j, z_j − σ_j)‖ ≤ z_j + σ_j

(4)  S* ≥ min  π Σ_j α_j + λ Σ_j e_j² + C Σ_i w_i ξ_i   over the rows of (2) at σ = 1, and
     beyond:  α_j − κ ≤ e_j                          [g]
     the relaxation of (3), with σ in [0, 1]: the least of σ + λ α²/σ over σ from α/C to 1 is the reverse
     Huber function, π α up to κ and 1 + λ α² beyond, with π = 2√λ and κ = 1/√λ. Where that is over C, so for
     λ < 1/C², it is π α all the way, with π = 1/C + λ C and κ = C

Dual
----
(5)  L(σ) = max  Σ_i u_i − C Σ_j s_j − C/(4λ) Σ_j g_j²
     b:       Σ_i y_i u_i = 0                        [b]
     alpha:   σ_j t_j Σ_i K_ij y_i u_i − g_j ≤ s_j   [α]
     cap:     s_j ≥ 0                                [C − α]
     margin:  u_i ≥ 0                                [surplus of the primal row margin]
     xi:      u_i ≤ w_i                              [ξ]

(6)  of (4): max  Σ_i u_i − C Σ_j s_j − Σ_j (κ g_j + g_j²/(4λ))   over the rows of (5) with
     t_j Σ_i K_ij y_i u_i − s_j − g_j ≤ π  in the row alpha,  u_i ≤ C w_i  in the row xi, and
     beyond:  g_j ≥ 0                                [e − α + κ]

For given u the best s and g make of (5) Σ u − Σ_j σ_j q_j with q_j the most that r_j α − (λ/C) α² comes to
for α from 0 to C, r_j = t_j (K'Yu)_j; and of (6), where u is C times as large, Σ u − Σ_j [q_j − 1]_+ with
q_j the most of r_j α − λ α². Any u that the other rows allow proves such a bound, of every pattern.

Recovery
--------
alpha are the multipliers of the dual's row alpha, where σ_j = 1; α_j = (C/(2λ)) g_j in (5), e_j = g_j/(2λ) in
(6); b and ξ as without. In (4) a centre counts σ_j = α_j √λ, at most 1 and at least α_j/C.

Multipliers
-----------
As in :mod:`formulations.l0`. g_j is what the square of α_j costs at the margin: 2 (λ/C) α_j in (5).

Infeasible when
---------------
Never: α = 0, ξ = 1 + |b| is feasible.

Reference
---------
The machine: Mannor, Peleg & Rubinstein, slides on the cross-entropy method for classification, eq. (1) and
(2), and the price of squares added here. Its like for regression: Hazimeh & Mazumder, Fast best subset
selection (2020), L0L2. The cone and the relaxation: Günlük & Linderoth, Perspective reformulations of mixed
integer nonlinear programs (2010); the reverse Huber function: Owen, A robust hybrid of lasso and ridge
regression (2007); Dong, Chen & Linderoth, Regularization vs. relaxation (2015). Eq. (3) to (6) are derived.

Example
-------
>>> import numpy as np
>>> from formulations import l0, l0_ridge
>>> X, y = np.array([-3.0, -1.0, 1.0, 2.0]), np.array([-1, -1, 1, 1])
>>> K = np.outer(X, X)
>>> round(l0_ridge.pattern(K, y, [0, 0, 1, 0], C=2.0, l2=1.0).solve().objective, 6)  # α = 1, at a price of ½
0.5
>>> round(l0_ridge.relaxation(K, y, C=2.0, l2=1.0).solve().objective, 6)
0.666667
>>> l0_ridge.mixed_integer(K, y, C=2.0, l2=1.0).kind
'MIQP'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import positive
from formulations.expansion import Expansion, duality
from formulations.l0_data import L0Data, as_l0_data
from formulations.l0_rows import (
    CAP_OF_PATTERN,
    SOURCE,
    chosen_of,
    numbers_of,
    price_of,
    primal_rows,
    rows_of,
    sample,
)
from formulations.l0_rows import LETTERS as _LETTERS
from formulations.program import Duality, Program, Row, without_multipliers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Vector

    Given = ArrayLike | None

__all__ = [
    "mixed_integer", "pairs", "pattern", "pattern_dual", "price_and_knee", "relaxation", "relaxation_dual",
    "singles",
]  # fmt: skip

_TITLE = "L0 support vector machine with a price of squares"
_SQUARED = {**_LETTERS, "λ": "the price of the square of a coefficient"}
_RELAXED = {
    **_SQUARED,
    "π": "the price of a coefficient up to $κ$: $2 sqrt(λ)$, or $1/C + λ C$ where $λ C² < 1$",
    "κ": "the coefficient from which on a centre counts whole: $1/sqrt(λ)$, or $C$ where $λ C² < 1$",
}


def price_and_knee(C: float, l2: float) -> tuple[float, float]:
    """The prices π and κ of the relaxation.

    Parameters
    ----------
    C : float
        Cap of the coefficients.
    l2 : float
        Price of the square of a coefficient, positive.
    """
    root = float(np.sqrt(l2))
    return (2.0 * root, 1.0 / root) if root * C >= 1.0 else (1.0 / C + l2 * C, C)


def pattern(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: Given = None,
    centres: Given = None, *, l2: float,
) -> Program:  # fmt: skip
    """The quadratic program of one pattern, eq. (2).

    Parameters
    ----------
    K, y, sigma, C, weights, centres
        As of :func:`formulations.l0.pattern`.
    l2 : float
        Price of the square of a coefficient, positive.

    Returns
    -------
    Program
        With the parameters C, l2 and sigma, so that ``program.set(sigma=...)`` changes the pattern.
    """
    data, price, square = _opening(K, y, C, weights, centres, l2)
    chosen = chosen_of(data, sigma)
    caps = cp.CallbackParam(lambda: price.value * chosen.value, shape=data.centres.shape, nonneg=True)
    within = cp.CallbackParam(lambda: square.value / price.value, shape=(), nonneg=True)
    at = rows_of(data).unknowns()
    return Program(
        name="l0_ridge.pattern",
        title=f"{_TITLE}, the program of one pattern",
        source=f"{SOURCE}, eq. (2), with squares",
        objective=cp.Minimize(data.weights @ at.xi + within * cp.sum_squares(at.alpha)),
        objective_text="Σᵢ wᵢ ξᵢ + λ/C ‖α‖²",
        variables=at._asdict(),
        rows=primal_rows(data, at, at.alpha <= caps, CAP_OF_PATTERN),
        parameters={"C": price, "l2": square, "sigma": chosen},
        letters=_SQUARED,
        data={**numbers_of(data), "λ": square},
    )


def pattern_dual(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: Given = None,
    centres: Given = None, *, l2: float,
) -> Program:  # fmt: skip
    """Dual of :func:`pattern`, eq. (5), with the same parameters; arguments as in the primal."""
    data, price, square = _opening(K, y, C, weights, centres, l2)
    chosen, on = chosen_of(data, sigma), rows_of(data)
    (u, s), g = on.multipliers(), cp.Variable(len(data.centres), name="g")
    used = Row(
        "alpha",
        cp.multiply(chosen, on.rates(u)) - g <= s,
        "σⱼ tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ − gⱼ ≤ sⱼ",
        "alpha",
        "the coefficient $αⱼ$ where $σⱼ = 1$",
    )
    within = cp.CallbackParam(lambda: price.value / (4.0 * square.value), shape=(), nonneg=True)
    return Program(
        name="l0_ridge.pattern_dual",
        title=f"{_TITLE}, the program of one pattern, dual",
        source=f"{SOURCE}, with squares, eq. (5) (derived)",
        objective=cp.Maximize(cp.sum(u) - price * cp.sum(s) - within * cp.sum_squares(g)),
        objective_text="Σᵢ uᵢ − C Σⱼ sⱼ − C/(4 λ) ‖g‖²",
        variables={"u": u, "s": s, "g": g},
        rows=on.dual_rows(u, s, used, data.weights, "wᵢ", "C"),
        parameters={"C": price, "l2": square, "sigma": chosen},
        letters=_SQUARED,
        data={**numbers_of(data), "λ": square},
    )


def relaxation(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None, *, l2: float
) -> Program:
    """The relaxation of the exact program, eq. (4): its value bounds every score from below.

    Arguments as in :func:`pattern`; C is the price of loss too, besides the cap.
    It has no parameters: another C or l2 may be of the other case of π and κ.
    """
    data = as_l0_data(K, y, C, weights, centres, positive("l2", l2))
    linear, knee = price_and_knee(data.C, data.l2)
    at, e = rows_of(data).unknowns(), cp.Variable(len(data.centres), name="e")
    beyond = Row("beyond", at.alpha - knee <= e, "αⱼ − κ ≤ eⱼ", "g", "what $eⱼ²$ costs at the margin")
    return Program(
        name="l0_ridge.relaxation",
        title=f"{_TITLE}, relaxed",
        source=f"{SOURCE}, with squares, eq. (4) (derived)",
        objective=cp.Minimize(
            linear * cp.sum(at.alpha) + data.l2 * cp.sum_squares(e) + data.C * (data.weights @ at.xi)
        ),
        objective_text="π Σⱼ αⱼ + λ ‖e‖² + C Σᵢ wᵢ ξᵢ",
        variables={**at._asdict(), "e": e},
        rows=(*primal_rows(data, at, at.alpha <= data.C), beyond),
        parameters={},
        letters=_RELAXED,
        data={**numbers_of(data), "C": data.C, "λ": data.l2, "π": linear, "κ": knee},
    )


def relaxation_dual(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None, *, l2: float
) -> Program:
    """Dual of :func:`relaxation`, eq. (6); arguments as in the primal."""
    data = as_l0_data(K, y, C, weights, centres, positive("l2", l2))
    linear, knee = price_and_knee(data.C, data.l2)
    on = rows_of(data)
    (u, s), g = on.multipliers(), cp.Variable(len(data.centres), name="g")
    used = Row(
        "alpha",
        on.rates(u) - s - g <= linear,
        "tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ − sⱼ − gⱼ ≤ π",
        "alpha",
        "the coefficient $αⱼ$",
    )
    room = Row("beyond", g >= 0, "gⱼ ≥ 0", "under", "what $αⱼ$ lacks of $κ$, plus its part beyond")
    return Program(
        name="l0_ridge.relaxation_dual",
        title=f"{_TITLE}, relaxed, dual",
        source=f"{SOURCE}, with squares, eq. (6) (derived)",
        objective=cp.Maximize(
            cp.sum(u) - data.C * cp.sum(s) - knee * cp.sum(g) - cp.sum_squares(g) / (4.0 * data.l2)
        ),
        objective_text="Σᵢ uᵢ − C Σⱼ sⱼ − κ Σⱼ gⱼ − 1/(4 λ) ‖g‖²",
        variables={"u": u, "s": s, "g": g},
        rows=(*on.dual_rows(u, s, used, data.C * data.weights, "C wᵢ", "C"), room),
        parameters={},
        letters=_RELAXED,
        data={**numbers_of(data), "C": data.C, "λ": data.l2, "π": linear, "κ": knee},
    )


def mixed_integer(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None, *, l2: float
) -> Program:
    """The exact program, eq. (3), over all patterns; SCIP solves it.

    Arguments as in :func:`relaxation`.
    """
    data, price, square = _opening(K, y, C, weights, centres, l2)
    p, at = len(data.centres), rows_of(data).unknowns()
    sigma, z = cp.Variable(p, boolean=True, name="sigma"), cp.Variable(p, name="z")
    # As a cone: α²/σ has no gradient where both are 0.
    cone = cp.SOC(z + sigma, cp.vstack([2.0 * at.alpha, z - sigma]), axis=0)
    squares = Row("square", cone, "‖(2 αⱼ, zⱼ − σⱼ)‖ ≤ zⱼ + σⱼ", "–", "–")
    stated = (*primal_rows(data, at, at.alpha <= price * sigma, CAP_OF_PATTERN), squares)
    return Program(
        name="l0_ridge.mixed_integer",
        title=f"{_TITLE}, over all patterns",
        source=f"{SOURCE}, with squares, eq. (3) (derived)",
        objective=cp.Minimize(cp.sum(sigma) + square * cp.sum(z) + price * (data.weights @ at.xi)),
        objective_text="Σⱼ σⱼ + λ Σⱼ zⱼ + C Σᵢ wᵢ ξᵢ",
        variables={**at._asdict(), "sigma": sigma, "z": z},
        rows=without_multipliers(stated),
        parameters={"C": price, "l2": square},
        letters=_SQUARED,
        data={**numbers_of(data), "λ": square},
    )


def _opening(
    K: ArrayLike, y: ArrayLike, C: float, weights: Given, centres: Given, l2: float
) -> tuple[L0Data, cp.Parameter, cp.Parameter]:
    """The data, and C and l2 as parameters."""
    data = as_l0_data(K, y, C, weights, centres, positive("l2", l2))
    return data, price_of(data), cp.Parameter(nonneg=True, name="l2", value=data.l2)


def _pair_of_relaxations(
    K: Vector, y: Vector, C: float, weights: Vector, centres: Vector, l2: float
) -> Duality:
    """The relaxation and its dual; what each coefficient has over κ comes with the point."""
    primal = relaxation(K, y, C, weights, centres, l2=l2)
    pair = duality(
        primal, relaxation_dual(K, y, C, weights, centres, l2=l2), Expansion(K, y, centres), weights
    )
    knee = price_and_knee(C, l2)[1]

    def recover(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        point = pair.recover(found)
        return {**point, "e": np.maximum(point["alpha"] - knee, 0.0)}

    return Duality(primal, pair.dual, recover)


def pairs(seed: int = 0) -> list[Duality]:
    """The quadratic programs of this module on random data, as primal-dual pairs."""
    K, y, weights = sample(seed)
    K, centres = K[:, :30], y[:30]
    C, sigma, on, l2 = 2.0, np.arange(30) % 3 == 0, Expansion(K, y, centres), 0.7
    given = K, y, sigma, C, weights, centres
    one = pattern(*given, l2=l2), pattern_dual(*given, l2=l2)
    return [duality(*one, on, weights, sigma), _pair_of_relaxations(K, y, C, weights, centres, l2)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    K, y, weights = sample(seed, n=20)
    return [mixed_integer(K[:, :8], y, 2.0, weights, y[:8], l2=0.7)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
