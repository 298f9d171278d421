"""Prices of the positives from the faces known so far: a linear program of location, in HiGHS.

A face w costs f(w) by itself, and positive i would pay h_i(w) = C_i [1 − w·x̃_i]_+ on it. The prices λ of the
positives and μ of a face are the multipliers of

    min Σ_t f_t z_t + Σ_ti h_ti x_ti   s.t.   Σ_t x_ti = 1 for each i,   0 ≤ x_ti ≤ z_t,   Σ_t z_t = K.

An interior point method without crossover ends in the middle of the optimal prices, which change little from
one program to the next; a vertex would be at random. Nothing rests on their being exact, as any λ ≥ 0 prove a
bound (:mod:`polyopt.outer.cpm.prices`).

Reference: Gondzio, González-Brevis & Munari, New developments in the primal-dual column generation technique
(2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.highs import quiet_highs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["PriceMaster", "Prices"]

_OPTIONS = {
    "output_flag": False,
    "solver": "ipm",
    "run_crossover": "off",
    "presolve": "off",
    "parallel": "off",
}


class Prices(NamedTuple):
    """λ (npos,), μ, the value of the program, and what share each face has, (faces,)."""

    prices: Vector
    mu: float
    value: float
    shares: Vector


class PriceMaster:
    """The faces known.

    Parameters
    ----------
    n_faces : int
        K.

    Attributes
    ----------
    W : list of ndarray of shape (d,)
        The faces.
    """

    def __init__(self, n_faces: int):
        self.n_faces = n_faces
        self.W: list[Vector] = []
        self._own: list[float] = []
        self._hinges: list[Vector] = []
        self._known: set[bytes] = set()

    def add(self, w: Vector, own: float, hinges: Vector) -> None:
        """Add a face, if it is not there already.

        Parameters
        ----------
        w : ndarray of shape (d,)
            The face.
        own : float
            What it costs by itself.
        hinges : ndarray of shape (npos,)
            What each positive would pay on it.
        """
        key = np.round(w, 9).tobytes()
        if key not in self._known:
            self._known.add(key)
            self.W.append(w.copy())
            self._own.append(own)
            self._hinges.append(hinges.copy())

    def solve(self) -> Prices | None:
        """The prices; None where HiGHS has no answer."""
        highspy = quiet_highs()
        program = self._program(highspy)
        highs = highspy.Highs()
        for name, value in _OPTIONS.items():
            highs.setOptionValue(name, value)
        highs.passModel(program)
        highs.run()
        solution = highs.getSolution()
        duals, values = np.array(solution.row_dual), np.array(solution.col_value)
        if not (solution.dual_valid and len(duals) and np.isfinite(duals).all()):
            return None
        npos = len(self._hinges[0])
        prices, mu = np.maximum(duals[:npos], 0.0), float(duals[npos])
        return Prices(prices, mu, float(prices.sum() + self.n_faces * mu), values[: len(self.W)])

    def _program(self, highspy: Any) -> Any:
        """The program, its columns z before x, its rows those of the positives, of the count, of x ≤ z."""
        count, npos = len(self.W), len(self._hinges[0])
        face, positive = np.divmod(np.arange(count * npos), npos)
        pair = np.arange(count * npos)
        A = sp.csc_matrix(
            (
                np.concatenate([np.ones(count), np.ones(2 * count * npos), -np.ones(count * npos)]),
                (
                    np.concatenate([np.full(count, npos), positive, npos + 1 + pair, npos + 1 + pair]),
                    np.concatenate([np.arange(count), count + pair, count + pair, face]),
                ),
            )
        )
        program = highspy.HighsLp()
        program.num_row_, program.num_col_ = A.shape
        program.col_cost_ = np.concatenate([self._own, np.ravel(self._hinges)])
        program.col_lower_, program.col_upper_ = np.zeros(A.shape[1]), np.full(A.shape[1], np.inf)
        program.row_lower_ = np.concatenate([np.ones(npos), [self.n_faces], np.full(count * npos, -np.inf)])
        program.row_upper_ = np.concatenate([np.ones(npos), [self.n_faces], np.zeros(count * npos)])
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_, program.a_matrix_.index_ = A.indptr, A.indices
        program.a_matrix_.value_ = A.data
        return program
