"""The nearest point of a polytope, in a norm that has the features' units: what must change, and by how much.

Problem
-------
Find the point of a polytope {z : W_k·z + b_k ≤ 0 for every k} that is nearest to a sample x outside. Each
feature j has its own unit of length s_j (for example its standard deviation), and v_j = 1/s_j². The features
of a set H are held: they must stay as they are. All features may have bounds. If x is inside and the nearest
point outside is wanted, solve the same program with the single constraint −W_k·z − b_k ≤ 0 for each k, and
take the smallest of the K distances.

Variables and shapes
--------------------
z (m,); W (K, m), b (K,); x, v, a, c (m,); H (m,) is 1 if a feature is held, else 0. In the dual λ (K,),
ρ⁺, ρ⁻, ν and g (m,).

Programs
--------
(1)  primal   min  ½ Σ_j v_j (z_j − x_j)²
              s.t. W z + b ≤ 0 [λ],  z ≤ c [ρ⁺],  z ≥ a [ρ⁻],  z_j = x_j for j in H [ν]
(2)  dual     max  Σ_k λ_k (W_k·x + b_k) + Σ_j ρ⁺_j (x_j − c_j) + Σ_j ρ⁻_j (a_j − x_j) − ½ Σ_j g_j²/v_j
              s.t. λ, ρ⁺, ρ⁻ ≥ 0,  ν_j = 0 for j not in H,  g = W'λ + ρ⁺ − ρ⁻ + ν

Minimising the Lagrangian over z gives v_j (z_j − x_j) = −g_j. Without bounds or held features, their rows and
multipliers are left out.

Recovery
--------
z_j = x_j − g_j/v_j.

Multipliers
-----------
λ_k is the rate at which half the squared distance decreases as the offset b_k decreases; it is 0 unless z is
on face k. ρ⁺_j and ρ⁻_j are the rates at which it decreases as the bound moves outwards, and ν_j the rate at
which it decreases as the value required of the held feature j increases.

Infeasible when
---------------
No point of the polytope has the held features of x and lies within the bounds. Then some λ, ρ⁺, ρ⁻ ≥ 0 and ν
have g = 0 and a positive objective in (2): a ray along which the dual is unbounded. For any multipliers that
satisfy the other constraints of (2), no feasible point is nearer than √(2 × the largest objective on their
ray).

Reference
---------
Goldfarb & Idnani, A numerically stable dual method for solving strictly convex quadratic programs (1983), for
the method. The primal, eq. (1), is a special case of its program; the dual, eq. (2), is derived. Such points
as explanations: Wachter, Mittelstadt & Russell, Counterfactual explanations (2018).

Example
-------
>>> import numpy as np
>>> from formulations import projection
>>> W, b = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-1.0, -1.0])
>>> projection.primal(W, b, x=[1.0, 1.5]).solve()["z"].round(6)
array([0.25, 0.75])
>>> solution = projection.primal(W, b, x=[2.0, 0.0], held=[True, False]).solve()
>>> solution.status.name  # no point with 2 in the first feature is inside both faces
'INFEASIBLE'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array
from formulations.language.program import Duality, Program, Row
from formulations.language.types import Array

LETTERS = {
    "x": "the sample",
    "v": "> 0: the weight of feature $j$, one over the square of its unit of length",
    "W": "the outward normals of the faces",
    "b": "the offsets of the faces",
    "a": "the lower bounds of the features",
    "c": "the upper bounds of the features",
    "H": "1 if the feature is held at $xⱼ$, else 0",
}
_SOURCE = "Goldfarb & Idnani (1983), of the polytope's faces"


@dataclass(frozen=True)
class _Data:
    """Checked data of both programs. low and high are None if there are no bounds."""

    W: Array
    b: Array
    x: Array
    v: Array
    low: Array | None
    high: Array | None
    held: NDArray[np.bool_]

    @classmethod
    def of(
        cls, W: ArrayLike, b: ArrayLike, x: ArrayLike, scale: ArrayLike | None, low: ArrayLike | None,
        high: ArrayLike | None, held: ArrayLike | None,
    ) -> _Data:  # fmt: skip
        faces, point = real_array("W", W), real_array("x", x)
        if faces.ndim != 2 or not faces.shape[1]:
            raise ValueError(f"W must be of shape (K, m), not {faces.shape}")
        K, m = faces.shape
        scale = real_array("spread", np.ones(m) if scale is None else scale, (m,))
        if not (scale > 0.0).all():
            raise ValueError(f"spread must be positive; its least entry is {scale.min()!r}")
        if (low is None) != (high is None):
            raise ValueError("low and high must be given both, or neither")
        bounds = [None if bound is None else real_array("bounds", bound, (m,)) for bound in (low, high)]
        mask = np.zeros(m, dtype=bool) if held is None else np.asarray(held, dtype=bool)
        if point.shape != (m,) or mask.shape != (m,):
            raise ValueError(f"x and held must have shape ({m},), not {point.shape} and {mask.shape}")
        return cls(faces, real_array("b", b, (K,)), point, scale**-2.0, bounds[0], bounds[1], mask)

    @property
    def data(self) -> dict[str, Any]:
        """Values of the letters."""
        bounds = {} if self.low is None or self.high is None else {"a": self.low, "c": self.high}
        return {"W": self.W, "b": self.b, "x": self.x, "v": self.v, "H": self.held * 1.0, **bounds}

    def index_among(self, held: bool) -> NDArray[np.int64]:
        """Return the index of each feature among the held (or free) ones, else -1."""
        members = self.held == held
        return np.where(members, np.cumsum(members) - 1, -1)


def primal(
    W: ArrayLike, b: ArrayLike, x: ArrayLike, *, spread: ArrayLike | None = None,
    low: ArrayLike | None = None, high: ArrayLike | None = None, held: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """Build the program of the nearest point of a polytope, eq. (1).

    Parameters
    ----------
    W : array_like of shape (K, m)
        Normals of the faces, pointing outside.
    b : array_like of shape (K,)
        Offsets.
    x : array_like of shape (m,)
        The sample.
    spread : array_like of shape (m,), optional
        Scale: the unit in which each feature's change is measured, positive; by default 1.
    low, high : array_like of shape (m,), optional
        Bounds on the features; both or none.
    held : array_like of bool, shape (m,), optional
        True for the features that are held at their values in x.

    Raises
    ------
    ValueError
        Arrays that do not fit each other, or numbers that are not finite.
    """
    q = _Data.of(W, b, x, spread, low, high, held)
    z = cp.Variable(len(q.x), name="z")
    meaning = "decrease of half the squared distance, per unit that the face moves outwards"
    rows = [Row("face", q.W @ z + q.b <= 0, "Wₖ·z + bₖ ≤ 0", "lam", meaning)]
    if q.low is not None and q.high is not None:
        meaning = "decrease of half the squared distance, per unit that the bound moves outwards"
        rows.append(Row("above", z <= q.high, "zⱼ ≤ cⱼ", "rho_plus", meaning))
        rows.append(Row("below", z >= q.low, "zⱼ ≥ aⱼ", "rho_minus", meaning))
    if q.held.any():
        meaning = "decrease of half the squared distance, per unit that $xⱼ$ increases in this row"
        rows.append(
            Row(
                "held",
                z[q.held] == q.x[q.held],
                "zⱼ = xⱼ for Hⱼ > 0",
                "nu",
                meaning,
                q.index_among(held=True),
            )
        )
    return Program(
        name="projection.primal",
        title="Nearest point of a polytope",
        source=_SOURCE,
        objective=cp.Minimize(0.5 * (q.v @ cp.square(z - q.x))),
        objective_text="½ Σⱼ vⱼ (zⱼ − xⱼ)²",
        variables={"z": z},
        rows=tuple(rows),
        letters=LETTERS,
        data=q.data,
    )


def dual(
    W: ArrayLike, b: ArrayLike, x: ArrayLike, *, spread: ArrayLike | None = None,
    low: ArrayLike | None = None, high: ArrayLike | None = None, held: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """Build the dual of :func:`primal`, eq. (2); arguments as in the primal."""
    q = _Data.of(W, b, x, spread, low, high, held)
    m = len(q.x)
    lam, g = cp.Variable(len(q.b), name="lam"), cp.Variable(m, name="g")
    variables, value, shift = {"lam": lam, "g": g}, lam @ (q.W @ q.x + q.b), q.W.T @ lam
    texts = ["Σₖ λₖ (Wₖ·x + bₖ)", "Σₖ λₖ Wₖⱼ"]
    rows = [Row("face", lam >= 0, "λₖ ≥ 0", "room", "slack of face $k$")]
    if q.low is not None and q.high is not None:
        up, down = cp.Variable(m, name="rho_plus"), cp.Variable(m, name="rho_minus")
        value, shift = value + up @ (q.x - q.high) + down @ (q.low - q.x), shift + up - down
        texts = [f"{texts[0]} + Σⱼ ρ⁺ⱼ (xⱼ − cⱼ) + Σⱼ ρ⁻ⱼ (aⱼ − xⱼ)", f"{texts[1]} + ρ⁺ⱼ − ρ⁻ⱼ"]
        variables |= {"rho_plus": up, "rho_minus": down}
        rows.append(Row("above", up >= 0, "ρ⁺ⱼ ≥ 0", "c - z", "slack of the upper bound"))
        rows.append(Row("below", down >= 0, "ρ⁻ⱼ ≥ 0", "z - a", "slack of the lower bound"))
    if q.held.any():
        nu = cp.Variable(m, name="nu")
        shift, texts[1] = shift + nu, f"{texts[1]} + νⱼ"
        variables["nu"] = nu
        if not q.held.all():
            change = "the change of feature $j$, sign included"
            rows.append(
                Row("free", nu[~q.held] == 0, "νⱼ = 0 for Hⱼ < 1", "z - x", change, q.index_among(held=False))
            )
    rows.append(
        Row("shift", g - shift == 0, f"gⱼ = {texts[1]}", "z - x", "the change $zⱼ − xⱼ$, sign included")
    )
    return Program(
        name="projection.dual",
        title="Nearest point of a polytope, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(value - 0.5 * ((1.0 / q.v) @ cp.square(g))),
        objective_text=f"{texts[0]} − ½ Σⱼ gⱼ²/vⱼ",
        variables=variables,
        rows=tuple(rows),
        letters={**LETTERS, "zⱼ": "feature $j$ of the nearest point"},
        data=q.data,
    )


def recover(x: ArrayLike, g: NDArray[Any], spread: ArrayLike | None = None) -> dict[str, Array]:
    """Return the nearest point from the dual's g."""
    scale = np.ones(len(g)) if spread is None else np.asarray(spread, dtype=float)
    return {"z": np.asarray(x, dtype=float) - scale**2 * g}


def pairs(seed: int = 0) -> list[Duality]:
    """Return the program and its dual on random data: with all rows, and with those of the faces alone."""
    generator = np.random.default_rng(seed)
    W, b = generator.normal(size=(6, 4)), -1.0 - generator.random(6)
    x = 4.0 * W[0] / (W[0] @ W[0])  # beyond the first face
    spread = np.array([1.0, 2.0, 0.5, 1.0])

    def pair(**given: Any) -> Duality:
        arguments = {"W": W, "b": b, "x": x, "spread": spread, **given}

        def recover_point(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return recover(arguments["x"], v["g"], spread)

        return Duality(primal(**arguments), dual(**arguments), recover_point)

    held = np.array([True, False, False, False])
    start = np.where(held, 0.1, x)
    all_rows = pair(x=start, low=np.minimum(x, 0.0) - 0.2, high=np.maximum(x, 0.0) + 0.2, held=held)
    return [all_rows, pair()]
