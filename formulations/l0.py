"""The L0 support vector machine: the program of one pattern, the exact integer program, its relaxation.

Problem
-------
Separate two classes by f(x) = Σ_j t_j α_j k(x, t_j) + b with as few centres as can be: each α_j that is not
zero costs 1, each unit of loss costs C,
(1)  S* = min  ‖α‖₀ + C Σ_i w_i ξ_i   s.t.  y_i f(x_i) ≥ 1 − ξ_i,  ξ ≥ 0,  0 ≤ α ≤ C.
The same C caps α and prices the loss. A pattern σ of zeros and ones says which centres may be used. For a
fixed pattern what is left is a linear program of value L(σ), and S* is the least of S(σ) = 1'σ + C L(σ).
Nothing is asked of the kernel: K may be asymmetric, indefinite, or rectangular.

Variables and shapes
--------------------
alpha (p,), b scalar, xi (n,), sigma (p,) of 0 and 1; u (n,) and s (p,) in the duals. K is (n, p), samples
by centres; y (n,) and t (p,) are the labels -1 and +1 of samples and centres; the centres are the samples,
and t is y, unless told otherwise. C is a number, the weights w are (n,), 1 by default.

Programs
--------
pattern is (2), L(σ) = min Σ_i w_i ξ_i over α ≤ C σ; mixed_integer is (3), S* = min 1'σ + C Σ_i w_i ξ_i with σ
of 0 and 1, where C is its own big M; relaxation is (4), with σ in [0, 1], where the best σ is α/C.
pattern_dual is (5) and relaxation_dual (6).

It is K' in (5), the transpose. What u may be does not depend on σ, so any u of any pattern gives a cut, L(σ')
≥ Σ u − C Σ_j σ'_j [t_j (K'Yu)_j]_+ for every σ', tight where u is optimal.

Recovery
--------
alpha are the multipliers of the dual's row alpha, where σ_j = 1; b minimises the loss for them and is the
multiplier of the row b where that is unique; ξ_i = [1 − y_i f_i]_+.

Multipliers
-----------
u_i is the price of sample i's margin: 0 beyond it, between 0 and w_i on it, w_i inside it. s_j is the loss
saved per unit of a larger cap on α_j; for a centre that is off, [t_j (K'Yu)_j]_+ is what switching it on
saves at first.

Infeasible when
---------------
Never: α = 0, ξ = 1 + |b| is feasible. L(0) = 2 min(Σ_pos w, Σ_neg w); L never rises as σ grows; and replacing
σ by the support of its α keeps L, so that S can only fall: score the pruned support.

Reference
---------
Mannor, Peleg & Rubinstein, slides on the cross-entropy method for classification: eq. (1) and (2), as they
are numbered here; eq. (3) to (6) are derived. Their one-norm machine is :mod:`formulations.one_norm`.
Its objective is no bound on the 0-norm, as the slides say it is, for ‖α‖₁ ≤ C‖α‖₀ is all that holds; with
the price 1/C on α it is the relaxation (4). The paper: Mannor, Peleg & Rubinstein, The cross entropy method
for classification (2005).

Example
-------
>>> import numpy as np
>>> from formulations import l0
>>> X, y = np.array([-3.0, -1.0, 1.0, 2.0]), np.array([-1, -1, 1, 1])
>>> K = np.outer(X, X)
>>> [l0.pattern(K, y, sigma, C=2.0).solve().objective for sigma in ([0, 0, 0, 0], [0, 0, 1, 0])]
[4.0, 0.0]
>>> exact = l0.mixed_integer(K, y, C=2.0).solve()
>>> round(exact.objective, 6), int(exact["sigma"].round().sum())
(1.0, 1)
>>> round(l0.relaxation(K, y, C=2.0).solve().objective, 6)  # a bound, from below
0.166667
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import best_intercept
from formulations.l0_data import L0Data, as_l0_data, as_patterns
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import Vector

SAVED = "loss saved per unit of a larger cap on $αⱼ$"


class Unknowns(NamedTuple):
    """The variables of a primal: coefficients (p,), intercept, slacks (n,)."""

    alpha: cp.Variable
    b: cp.Variable
    xi: cp.Variable


class Expansion(NamedTuple):
    """A kernel matrix and its labels, and the rows that they make."""

    K: Vector  # (n, p): ``K[i, j] = k(x_i, c_j)``, of samples x_i and centres c_j
    y: Vector  # (n,): labels -1 and +1 of the samples
    centres: Vector  # (p,): labels -1 and +1 of the centres
    # letter of the labels of the centres: ``"t"``, or ``"y"`` if the centres are the samples
    label: str = "t"

    def unknowns(self) -> Unknowns:
        """Return new variables of a primal."""
        n, p = self.K.shape
        return Unknowns(cp.Variable(p, name="alpha"), cp.Variable(name="b"), cp.Variable(n, name="xi"))

    def multipliers(self) -> tuple[cp.Variable, cp.Variable]:
        """Return new variables of a dual: u (n,) of the margins, s (p,) of the caps."""
        n, p = self.K.shape
        return cp.Variable(n, name="u"), cp.Variable(p, name="s")

    def primal_rows(self, at: Unknowns, price: str) -> tuple[Row, Row, Row]:
        """Return the rows ``margin``, ``slack`` and ``sign``; `price` is the cost of slack as printed."""
        t = self.label
        margin = Row(
            "margin",
            cp.multiply(self.y, self.K @ cp.multiply(self.centres, at.alpha) + at.b) >= 1 - at.xi,
            f"yᵢ(Σⱼ Kᵢⱼ {t}ⱼ αⱼ + b) ≥ 1 − ξᵢ",
            "u",
            f"price of sample i's margin: 0 beyond it, {price} inside it",
        )
        slack = Row("slack", at.xi >= 0, "ξᵢ ≥ 0", "v", f"what $uᵢ$ leaves of {price}")
        worth = "what coefficient j lacks to be worth using"
        return margin, slack, Row("sign", at.alpha >= 0, "αⱼ ≥ 0", "r", worth)

    def rates(self, u: cp.Variable) -> cp.Expression:
        """Return the saving of a unit of each coefficient: t_j Σ_i K_ij y_i u_i, shape (p,)."""
        return cp.multiply(self.centres, self.K.T @ cp.multiply(self.y, u))

    def dual_rows(
        self, u: cp.Variable, s: cp.Variable, used: Row, most: cp.Expression | Vector, most_text: str, cap:
        str,
    ) -> tuple[Row, ...]:  # fmt: skip
        """Return the rows of a dual."""
        return (
            Row("b", self.y @ u == 0, "Σᵢ yᵢ uᵢ = 0", "b", "the intercept $b$, sign included"),
            used,
            Row("cap", s >= 0, "sⱼ ≥ 0", "room", f"room left under the cap: ${cap} − αⱼ$"),
            Row("margin", u >= 0, "uᵢ ≥ 0", "surplus", "how far sample i is beyond its margin row"),
            Row("xi", u <= most, f"uᵢ ≤ {most_text}", "xi", "the slack $ξᵢ$ of sample i"),
        )


def duality(primal: Program, dual: Program, on: Expansion, costs: Vector, used: ArrayLike = 1.0) -> Duality:
    """Return a pair of linear programs; the multipliers of the dual's row ``alpha`` are the coefficients."""
    row = next(row for row in dual.rows if row.name == "alpha")

    def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        alpha = np.array(row.constraint.dual_value, dtype=float) * np.asarray(used)
        outputs = on.K @ (on.centres * alpha)
        b = best_intercept(outputs, on.y, costs)
        return {"alpha": alpha, "b": np.array(b), "xi": slacks(outputs + b, on.y)}

    return Duality(primal, dual, recover)


Given = ArrayLike | None


_SOURCE = "Mannor, Peleg & Rubinstein, slides"
_LETTERS = {
    "Kᵢⱼ": "the kernel of sample $i$ and centre $j$",
    "tⱼ": "the label of centre $j$, +1 or −1",
    "σⱼ": "whether centre $j$ may be used, 1 or 0",
    "wᵢ": "the weight of sample $i$, 1 by default",
    "C": "the price of loss, and the cap on a coefficient",
    "yᵢ": "the label of sample $i$, +1 or −1",
}
_CAP, _CAP_OF_PATTERN = "αⱼ ≤ C", "αⱼ ≤ C σⱼ"  # the row cap, as printed


def pattern(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None
) -> Program:
    """State the linear program of one pattern, eq. (2).

    Parameters
    ----------
    K : array_like of shape (n, p)
        ``K[i, j] = k(x_i, t_j)``; any matrix.
    y : array_like of shape (n,)
        Labels -1 and +1.
    sigma : array_like of shape (p,)
        The pattern, 1 where a centre may be used.
    C : float
        Cap of the coefficients.
    weights : array_like of shape (n,), optional
        What each sample counts in the loss.
    centres : array_like of shape (p,), optional
        Labels of the centres; by default they are the samples.

    Returns
    -------
    Program
        With the parameters C and sigma, so that ``program.set(sigma=...)`` changes the pattern.
    """
    data = as_l0_data(K, y, C, weights, centres)
    price, chosen = _price_of(data), _chosen_of(data, sigma)
    caps = cp.CallbackParam(lambda: price.value * chosen.value, shape=data.centres.shape, nonneg=True)
    at = _rows_of(data).unknowns()
    return Program(
        name="l0.pattern",
        title="L0 support vector machine, the program of one pattern",
        source=f"{_SOURCE}, eq. (2)",
        objective=cp.Minimize(data.weights @ at.xi),
        objective_text="Σᵢ wᵢ ξᵢ",
        variables=at._asdict(),
        rows=_primal_rows(data, at, at.alpha <= caps, _CAP_OF_PATTERN),
        parameters={"C": price, "sigma": chosen},
        letters=_LETTERS,
        data=_numbers_of(data),
    )


def pattern_dual(
    K: ArrayLike, y: ArrayLike, sigma: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None
) -> Program:
    """State the dual of :func:`pattern`, eq. (5), with the same parameters; arguments as in the primal."""
    data = as_l0_data(K, y, C, weights, centres)
    price, chosen, on = _price_of(data), _chosen_of(data, sigma), _rows_of(data)
    u, s = on.multipliers()
    says = "the coefficient $αⱼ$ where $σⱼ = 1$"
    used = Row("alpha", cp.multiply(chosen, on.rates(u)) - s <= 0, "σⱼ tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ ≤ sⱼ", "alpha", says)
    return _dual(
        data, u, s, used, data.weights, "wᵢ", {"C": price, "sigma": chosen}, name="l0.pattern_dual",
        title="L0 support vector machine, the program of one pattern, dual", equation="eq. (5)",
    )  # fmt: skip


def relaxation(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None
) -> Program:
    """State the relaxation of the exact program, eq. (4): its value bounds every score from below.

    Arguments as in :func:`pattern`; C is the price of loss too, besides the cap of the coefficients.
    """
    data, price, at = _opening(as_l0_data(K, y, C, weights, centres))
    return Program(
        name="l0.relaxation",
        title="L0 support vector machine, relaxed",
        source=f"{_SOURCE}, eq. (4) (derived)",
        objective=cp.Minimize(_inverse_of(price) * cp.sum(at.alpha) + price * (data.weights @ at.xi)),
        objective_text="(1/C) Σⱼ αⱼ + C Σᵢ wᵢ ξᵢ",
        variables=at._asdict(),
        rows=_primal_rows(data, at, at.alpha <= price),
        parameters={"C": price},
        letters=_LETTERS,
        data=_numbers_of(data),
    )


def relaxation_dual(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None
) -> Program:
    """State the dual of :func:`relaxation`, eq. (6); arguments as in the primal."""
    data = as_l0_data(K, y, C, weights, centres)
    price, on = _price_of(data), _rows_of(data)
    u, s = on.multipliers()
    says = "the coefficient $αⱼ$"
    used = Row("alpha", on.rates(u) - s <= _inverse_of(price), "tⱼ Σᵢ Kᵢⱼ yᵢ uᵢ − sⱼ ≤ 1/C", "alpha", says)
    return _dual(
        data, u, s, used, price * data.weights, "C wᵢ", {"C": price}, name="l0.relaxation_dual",
        title="L0 support vector machine, relaxed, dual", equation="eq. (6)",
    )  # fmt: skip


def _dual(
    data: L0Data, u: cp.Variable, s: cp.Variable, used: Row, most: cp.Expression | Vector, most_text: str,
    parameters: dict[str, cp.Parameter], *, name: str, title: str, equation: str,
) -> Program:  # fmt: skip
    """State a dual: its row of the coefficients is `used`, and `most` is the price of slack."""
    return Program(
        name=name,
        title=title,
        source=f"{_SOURCE}, {equation} (derived)",
        objective=cp.Maximize(cp.sum(u) - parameters["C"] * cp.sum(s)),
        objective_text="Σᵢ uᵢ − C Σⱼ sⱼ",
        variables={"u": u, "s": s},
        rows=_rows_of(data).dual_rows(u, s, used, most, most_text, "C"),
        parameters=parameters,
        letters=_LETTERS,
        data=_numbers_of(data),
    )


def mixed_integer(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, weights: Given = None, centres: Given = None
) -> Program:
    """State the exact program over all patterns, eq. (3); HiGHS solves it to ``mip_rel_gap`` (1e-4).

    Arguments as in :func:`relaxation`.
    """
    data, price, at = _opening(as_l0_data(K, y, C, weights, centres))
    sigma = cp.Variable(len(data.centres), boolean=True, name="sigma")
    return Program(
        name="l0.mixed_integer",
        title="L0 support vector machine over all patterns",
        source=f"{_SOURCE}, eq. (3) (derived)",
        objective=cp.Minimize(cp.sum(sigma) + price * (data.weights @ at.xi)),
        objective_text="Σⱼ σⱼ + C Σᵢ wᵢ ξᵢ",
        variables={**at._asdict(), "sigma": sigma},
        rows=without_multipliers(_primal_rows(data, at, at.alpha <= price * sigma, _CAP_OF_PATTERN)),
        parameters={"C": price},
        letters=_LETTERS,
        data=_numbers_of(data),
    )


def _price_of(data: L0Data) -> cp.Parameter:
    """C as a parameter."""
    return cp.Parameter(nonneg=True, name="C", value=data.C)


def _inverse_of(price: cp.Parameter) -> cp.Parameter:
    """Return the inverse of a parameter as a parameter."""
    return cp.CallbackParam(lambda: 1.0 / price.value, shape=(), nonneg=True)


def _chosen_of(data: L0Data, sigma: ArrayLike) -> cp.Parameter:
    """Return a pattern as a parameter of shape (p,)."""
    p = len(data.centres)
    return cp.Parameter(p, nonneg=True, name="sigma", value=as_patterns(sigma, p))


def _numbers_of(data: L0Data) -> dict[str, Vector]:
    """Return the letters that are data."""
    return {"K": data.K, "y": data.y, "t": data.centres, "w": data.weights}


def _rows_of(data: L0Data) -> Expansion:
    """Return the kernel matrix with its labels."""
    return Expansion(data.K, data.y, data.centres)


def _primal_rows(data: L0Data, at: Unknowns, cap: cp.Constraint, text: str = _CAP) -> tuple[Row, ...]:
    """Return the rows of a primal, of which `cap` is printed as `text`."""
    return (*_rows_of(data).primal_rows(at, "its price of slack"), Row("cap", cap, text, "s", SAVED))


def _opening(data: L0Data) -> tuple[L0Data, cp.Parameter, Unknowns]:
    """Return the data, the price of loss and the variables of a primal program."""
    return data, _price_of(data), _rows_of(data).unknowns()


def _sample(seed: int, n: int = 40) -> tuple[Vector, Vector, Vector]:
    """Return an asymmetric indefinite kernel matrix (n, n), labels and weights (n,)."""
    X, y = two_blobs(n=n, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(len(y), len(y)))
    return np.tanh(0.5 * X @ X.T - 0.3) + 0.1 * noise, y, np.where(y > 0, 1.0, 0.7)


def pairs(seed: int = 0) -> list[Duality]:
    """Return the linear programs of this module on random data, as primal-dual pairs."""
    K, y, weights = _sample(seed)
    K, centres = K[:, :30], y[:30]
    C, sigma, on = 2.0, np.arange(30) % 3 == 0, Expansion(K, y, centres)
    one = pattern(K, y, sigma, C, weights, centres), pattern_dual(K, y, sigma, C, weights, centres)
    relaxed = relaxation(K, y, C, weights, centres), relaxation_dual(K, y, C, weights, centres)
    return [duality(*one, on, weights, sigma), duality(*relaxed, on, weights)]


def singles(seed: int = 0) -> list[Program]:
    """Return the exact program, which has no dual, on random data."""
    K, y, weights = _sample(seed, n=20)
    return [mixed_integer(K[:, :15], y, 2.0, weights, y[:15])]
