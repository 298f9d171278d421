"""Combinatorial Benders' cuts: sets of samples that cannot all be met for less than a value each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Places = NDArray[np.int64]

__all__ = ["Cuts"]


class Cuts:
    """The cuts found so far. The multipliers that prove a value were evaluated from the data before.

    A solution with ½‖w‖² = θ that gives up the samples z has θ ≥ V_j unless it gives up one of S_j:

        θ/V_j + Σ_{i in S_j} z_i ≥ 1,   and   Σ_{i in S_j} z_i ≥ 1   where θ < V_j is known.

    Parameters
    ----------
    n : int
        Samples.

    Attributes
    ----------
    sets : list of ndarray of int
        S_j.
    values : ndarray of shape (number of cuts,)
        V_j, a bound on what it costs to meet all of S_j.
    """

    def __init__(self, n: int):
        self._n = n
        self.sets: list[Places] = []
        self.values = np.empty(0)
        self._known: dict[bytes, int] = {}
        self._matrix: sp.csr_array | None = None

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def matrix(self) -> sp.csr_array:
        """Row j has ones at S_j; shape (number of cuts, n)."""
        if self._matrix is None or self._matrix.shape[0] != len(self.sets):
            starts = np.concatenate([[0], np.cumsum([len(one) for one in self.sets], dtype=np.int64)])
            places = np.concatenate(self.sets) if self.sets else np.empty(0, dtype=np.int64)
            ones = np.ones(len(places))
            self._matrix = sp.csr_array((ones, places, starts), shape=(len(self.sets), self._n))
        return self._matrix

    def add(self, members: Places, value: float) -> int:
        """Add a cut, or raise the value of one that is there; its number.

        Parameters
        ----------
        members : ndarray of int
            S_j, in order.
        value : float
            V_j, positive.
        """
        key = members.tobytes()
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = len(self.sets)
            self.sets.append(members)
            self.values = np.append(self.values, value)
        else:
            self.values[at] = max(self.values[at], value)
        return at

    def broken(self, z: Vector, theta: float, limit: float) -> tuple[Places, Vector]:
        """The cuts that a point of the master program breaks, and by how much.

        Parameters
        ----------
        z : ndarray of shape (n,)
            How much of each sample is given up, from 0 to 1.
        theta : float
            θ.
        limit : float
            What θ is known to be less than.
        """
        if not self.sets:
            return np.empty(0, dtype=np.int64), np.empty(0)
        share = np.where(self.values >= limit, 0.0, theta / self.values)
        short = 1.0 - self.matrix @ z - share
        at = np.flatnonzero(short > 0.0)
        return at, short[at]
