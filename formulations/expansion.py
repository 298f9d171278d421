"""What the programs over expansion coefficients share: the one-norm machine and the L0 machine.

Both look for f(x) = Σ_j t_j α_j k(x, c_j) + b with few coefficients α_j. They have the same rows, but for the
prices, and both duals have the multipliers u of the margins and s of the caps as their variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from formulations.families import best_intercept
from formulations.language.program import Duality, Row
from formulations.language.recovery import slacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.program import Program
    from formulations.language.types import Vector

__all__ = ["SAVED", "Expansion", "Unknowns", "duality"]

SAVED = "loss saved per unit of a larger cap on $αⱼ$"


class Unknowns(NamedTuple):
    """The variables of a primal: coefficients (p,), intercept, slacks (n,)."""

    alpha: cp.Variable
    b: cp.Variable
    xi: cp.Variable


class Expansion(NamedTuple):
    """A kernel matrix and its labels, and the rows that they make.

    Attributes
    ----------
    K : ndarray of shape (n, p)
        ``K[i, j] = k(x_i, c_j)``, of samples x_i and centres c_j.
    y : ndarray of shape (n,)
        Labels -1 and +1 of the samples.
    centres : ndarray of shape (p,)
        Labels -1 and +1 of the centres.
    label : str
        The letter of the labels of the centres: ``"t"``, or ``"y"`` where the centres are the samples.
    """

    K: Vector
    y: Vector
    centres: Vector
    label: str = "t"

    def unknowns(self) -> Unknowns:
        """New variables of a primal."""
        n, p = self.K.shape
        return Unknowns(cp.Variable(p, name="alpha"), cp.Variable(name="b"), cp.Variable(n, name="xi"))

    def multipliers(self) -> tuple[cp.Variable, cp.Variable]:
        """New variables of a dual: u (n,) of the margins, s (p,) of the caps."""
        n, p = self.K.shape
        return cp.Variable(n, name="u"), cp.Variable(p, name="s")

    def primal_rows(self, at: Unknowns, price: str) -> tuple[Row, Row, Row]:
        """The rows ``margin``, ``slack`` and ``sign``; `price` is what a unit of slack costs, as printed."""
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
        """What a unit of each coefficient saves: t_j Σ_i K_ij y_i u_i, shape (p,)."""
        return cp.multiply(self.centres, self.K.T @ cp.multiply(self.y, u))

    def dual_rows(
        self,
        u: cp.Variable,
        s: cp.Variable,
        used: Row,
        most: cp.Expression | Vector,
        most_text: str,
        cap: str,
    ) -> tuple[Row, ...]:
        """The rows of a dual.

        Parameters
        ----------
        u, s : cvxpy.Variable
            Its variables.
        used : Row
            The row ``alpha``, in which the programs differ.
        most : cvxpy.Expression or ndarray of shape (n,)
            What a unit of slack costs, the largest u.
        most_text : str
            That cost as printed.
        cap : str
            The cap of a coefficient as printed.
        """
        return (
            Row("b", self.y @ u == 0, "Σᵢ yᵢ uᵢ = 0", "b", "the intercept $b$, sign included"),
            used,
            Row("cap", s >= 0, "sⱼ ≥ 0", "room", f"room left under the cap: ${cap} − αⱼ$"),
            Row("margin", u >= 0, "uᵢ ≥ 0", "surplus", "how far sample i is beyond its margin row"),
            Row("xi", u <= most, f"uᵢ ≤ {most_text}", "xi", "the slack $ξᵢ$ of sample i"),
        )


def duality(primal: Program, dual: Program, on: Expansion, costs: Vector, used: ArrayLike = 1.0) -> Duality:
    """A pair of linear programs; the coefficients are read off the multipliers of the dual's row ``alpha``.

    Parameters
    ----------
    primal, dual : Program
        The pair.
    on : Expansion
        Their data.
    costs : ndarray of shape (n,)
        What a unit of slack costs, up to a factor.
    used : array_like of shape (p,)
        1 for the centres in use, 0 for the others.
    """
    row = next(row for row in dual.rows if row.name == "alpha")

    def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        alpha = np.array(row.constraint.dual_value, dtype=float) * np.asarray(used)
        outputs = on.K @ (on.centres * alpha)
        b = best_intercept(outputs, on.y, costs)
        return {"alpha": alpha, "b": np.array(b), "xi": slacks(outputs + b, on.y)}

    return Duality(primal, dual, recover)
