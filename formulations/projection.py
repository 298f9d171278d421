"""The nearest point of a polytope, in a norm that has the features' units: what must change, and by how much.

Problem
-------
A sample x is outside of a polytope {z : W_k·z + b_k ≤ 0 for every k}. Which point of the polytope is nearest?
Lengths are measured feature by feature in a unit s_j of its own (its standard deviation, say), so that v_j is
1/s_j². Features of the set H may not move, and all may have bounds. From inside to the outside the nearest
point lies behind one face k, and is that of the half-space {z : −W_k·z − b_k ≤ 0}: the same program with one
row, and the least of its K values.

Variables and shapes
--------------------
z (m,); W (K, m), b (K,); x, v, a, c (m,); H (m,) is 1 for a feature that is held, else 0. In the dual λ (K,),
ρ⁺, ρ⁻, ν and g (m,).

Programs
--------
primal (1) and dual (2): minimising the Lagrangian over z gives v_j (z_j − x_j) = −g_j.

Recovery
--------
z_j = x_j − g_j/v_j.

Multipliers
-----------
λ_k says which faces decide: half the square of the distance falls by λ_k for each unit that face k gives way.
ν_j is what it would save, per unit, if the held feature j were larger.

Infeasible when
---------------
No point of the polytope has the held features of x and lies within the bounds. Then some λ, ρ⁺, ρ⁻ ≥ 0 and ν
have g = 0 and a positive value in (2): a ray along which the dual grows without end. Any λ ≥ 0 whose g is
nearly 0 proves that no point is nearer than √(2 × the largest value of (2) on its ray).

Reference
---------
Goldfarb & Idnani, A numerically stable dual method for solving strictly convex quadratic programs (1983), for
the method. The primal, eq. (1) here, is a case of its program; the dual, eq. (2), is derived. As explanations
such points are from Wachter, Mittelstadt & Russell, Counterfactual explanations (2018).

Example
-------
>>> import numpy as np
>>> from formulations import projection
>>> W, b = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-1.0, -1.0])
>>> projection.primal(W, b, x=[1.0, 1.5]).solve()["z"].round(6)
array([0.25, 0.75])
>>> solution = projection.primal(W, b, x=[2.0, 0.0], held=[True, False]).solve()
>>> solution.status.name  # with 2 in the first feature, no second one is inside of both faces
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
    "v": "> 0: the weight of feature $j$, one over the square of the unit that it is measured in",
    "W": "the normals of the faces, which point outside",
    "b": "the offsets of the faces",
    "a": "the least values allowed",
    "c": "the largest values allowed",
    "H": "1 for a feature that may not move, else 0",
}
_SOURCE = "Goldfarb & Idnani (1983), of the polytope's faces"


@dataclass(frozen=True)
class _Question:
    """The numbers of the programs, checked; the bounds are None without bounds."""

    W: Array
    b: Array
    x: Array
    v: Array
    low: Array | None
    high: Array | None
    held: NDArray[np.bool_]

    @classmethod
    def of(
        cls, W: ArrayLike, b: ArrayLike, x: ArrayLike, spread: ArrayLike | None, low: ArrayLike | None,
        high: ArrayLike | None, held: ArrayLike | None,
    ) -> _Question:  # fmt: skip
        faces, point = real_array("W", W), real_array("x", x)
        if faces.ndim != 2 or not faces.shape[1]:
            raise ValueError(f"W must be of shape (K, m), not {faces.shape}")
        K, m = faces.shape
        unit = real_array("spread", np.ones(m) if spread is None else spread, (m,))
        if not (unit > 0.0).all():
            raise ValueError(f"spread must be positive; its least entry is {unit.min()!r}")
        if (low is None) != (high is None):
            raise ValueError("low and high must be given both, or none of them")
        ends = [None if end is None else real_array("bounds", end, (m,)) for end in (low, high)]
        fixed = np.zeros(m, dtype=bool) if held is None else np.asarray(held, dtype=bool)
        if point.shape != (m,) or fixed.shape != (m,):
            raise ValueError(f"x and held must have shape ({m},), not {point.shape} and {fixed.shape}")
        return cls(faces, real_array("b", b, (K,)), point, unit**-2.0, ends[0], ends[1], fixed)

    @property
    def data(self) -> dict[str, Any]:
        """The numbers of the letters."""
        bounds = {} if self.low is None or self.high is None else {"a": self.low, "c": self.high}
        return {"W": self.W, "b": self.b, "x": self.x, "v": self.v, "H": self.held * 1.0, **bounds}

    def at(self, held: bool) -> NDArray[np.int64]:
        """The place of each feature among those that are held, or free; -1 where it is not."""
        here = self.held == held
        return np.where(here, np.cumsum(here) - 1, -1)


def primal(
    W: ArrayLike, b: ArrayLike, x: ArrayLike, *, spread: ArrayLike | None = None,
    low: ArrayLike | None = None, high: ArrayLike | None = None, held: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """The nearest point of a polytope, eq. (1).

    Parameters
    ----------
    W : array_like of shape (K, m)
        Normals of the faces, pointing outside.
    b : array_like of shape (K,)
        Offsets.
    x : array_like of shape (m,)
        The sample.
    spread : array_like of shape (m,), optional
        The unit in which each feature's change is measured, positive; by default 1.
    low, high : array_like of shape (m,), optional
        Bounds on the features; both or none.
    held : array_like of bool, shape (m,), optional
        The features that may not move.

    Raises
    ------
    ValueError
        Arrays that do not fit each other, or numbers that are not finite.
    """
    q = _Question.of(W, b, x, spread, low, high, held)
    z = cp.Variable(len(q.x), name="z")
    saved = "what half the squared distance falls by, per unit that the $bound$ gives way"
    rows = [Row("face", q.W @ z + q.b <= 0, "Wₖ·z + bₖ ≤ 0", "lam", saved.replace("$bound$", "face"))]
    if q.low is not None and q.high is not None:
        text = saved.replace("$bound$", "bound")
        rows.append(Row("above", z <= q.high, "zⱼ ≤ cⱼ", "rho_plus", text))
        rows.append(Row("below", z >= q.low, "zⱼ ≥ aⱼ", "rho_minus", text))
    if q.held.any():
        would = "what half the squared distance would fall by, per unit that feature $j$ were larger"
        rows.append(Row("held", z[q.held] == q.x[q.held], "zⱼ = xⱼ for Hⱼ > 0", "nu", would, q.at(held=True)))
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
    """Dual of :func:`primal`, eq. (2); arguments as in the primal."""
    q = _Question.of(W, b, x, spread, low, high, held)
    m = len(q.x)
    lam, g = cp.Variable(len(q.b), name="lam"), cp.Variable(m, name="g")
    variables, value, shift = {"lam": lam, "g": g}, lam @ (q.W @ q.x + q.b), q.W.T @ lam
    texts = ["Σₖ λₖ (Wₖ·x + bₖ)", "Σₖ λₖ Wₖⱼ"]
    rows = [Row("face", lam >= 0, "λₖ ≥ 0", "room", "room left before face $k$")]
    if q.low is not None and q.high is not None:
        up, down = cp.Variable(m, name="rho_plus"), cp.Variable(m, name="rho_minus")
        value, shift = value + up @ (q.x - q.high) + down @ (q.low - q.x), shift + up - down
        texts = [f"{texts[0]} + Σⱼ ρ⁺ⱼ (xⱼ − cⱼ) + Σⱼ ρ⁻ⱼ (aⱼ − xⱼ)", f"{texts[1]} + ρ⁺ⱼ − ρ⁻ⱼ"]
        variables |= {"rho_plus": up, "rho_minus": down}
        rows.append(Row("above", up >= 0, "ρ⁺ⱼ ≥ 0", "c - z", "room left under the bound"))
        rows.append(Row("below", down >= 0, "ρ⁻ⱼ ≥ 0", "z - a", "room left above the bound"))
    if q.held.any():
        nu = cp.Variable(m, name="nu")
        shift, texts[1] = shift + nu, f"{texts[1]} + νⱼ"
        variables["nu"] = nu
        if not q.held.all():
            moved = "the change of feature $j$, sign included"
            rows.append(Row("free", nu[~q.held] == 0, "νⱼ = 0 for Hⱼ < 1", "z - x", moved, q.at(held=False)))
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
    """The nearest point from the dual's g."""
    unit = np.ones(len(g)) if spread is None else np.asarray(spread, dtype=float)
    return {"z": np.asarray(x, dtype=float) - unit**2 * g}


def pairs(seed: int = 0) -> list[Duality]:
    """The program and its dual on random data: with every row, and with those of the faces alone."""
    generator = np.random.default_rng(seed)
    W, b = generator.normal(size=(6, 4)), -1.0 - generator.random(6)
    x = 4.0 * W[0] / (W[0] @ W[0])  # beyond the first face
    spread = np.array([1.0, 2.0, 0.5, 1.0])

    def of(**given: Any) -> Duality:
        arguments = {"W": W, "b": b, "x": x, "spread": spread, **given}

        def back(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return recover(arguments["x"], v["g"], spread)

        return Duality(primal(**arguments), dual(**arguments), back)

    held = np.array([True, False, False, False])
    near = np.where(held, 0.1, x)
    whole = of(x=near, low=np.minimum(x, 0.0) - 0.2, high=np.maximum(x, 0.0) + 0.2, held=held)
    return [whole, of()]
