"""Sparse samples restricted to the features in use, those in which some sample has an entry.

A feature without entries changes no score in training, and with a penalty its optimal weight is 0. So
solvers get the other features only: of hashed texts with 2^20 columns, those of words that occur.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.solution import Solution
from formulations.language.types import Matrix, canonical, is_sparse

_BY_FEATURE = ("W", "support")  # arrays of a solution: a column per feature, and perhaps one for the bias


def present_features(X: Matrix) -> NDArray[np.bool_]:
    """Return the mask (m,) of the features that are not 0 in all samples."""
    if not is_sparse(X):
        return np.asarray(X.any(axis=0))
    is_present = np.zeros(X.shape[1], dtype=bool)
    is_present[canonical(X).indices] = True
    return is_present


class UsedFeatures(NamedTuple):
    """The features in use, and the conversion of samples, faces and solutions to them."""

    columns: NDArray[np.intp]  # the features in use, ascending
    m: int  # number of all features

    @classmethod
    def of(cls, X: Matrix, W: NDArray[np.float64] | None = None) -> "UsedFeatures":
        """Return the features in use in samples X or in faces W (K, m+1); if X is dense, all features."""
        if not is_sparse(X):
            return cls.all(X)
        in_use = present_features(X)
        if W is not None:
            in_use |= W[:, :-1].any(axis=0)
        return cls(np.flatnonzero(in_use), int(X.shape[1]))

    @classmethod
    def all(cls, X: Matrix) -> "UsedFeatures":
        """Return all features of X."""
        return cls(np.arange(X.shape[1]), int(X.shape[1]))

    def samples(self, X: Matrix) -> Matrix:
        """Return samples X (n, m) restricted to the features in use; X itself if these are all."""
        if len(self.columns) == self.m or not is_sparse(X):
            return X
        return X[:, self.columns]

    def faces(self, W: NDArray[Any]) -> NDArray[Any]:
        """Return faces W (K, m+1), bias last, restricted to the features in use."""
        return W if len(self.columns) == self.m else W[:, np.append(self.columns, self.m)]

    def solution(self, solution: Solution) -> Solution:
        """Return the solution in all m features, with weights of 0 for those not in use.

        The faces of its runs (of a multistart) are dropped: each would take as much memory as the solution.
        """
        if len(self.columns) == self.m:
            return solution
        columns, primal = np.append(self.columns, self.m), dict(solution.primal)
        for name in _BY_FEATURE:
            if name in primal:
                narrow = primal[name]
                width = narrow.shape[1]
                primal[name] = np.zeros((len(narrow), self.m + width - len(self.columns)), narrow.dtype)
                primal[name][:, columns[:width]] = narrow
        runs = tuple(replace(run, primal={}) for run in solution.runs)
        return replace(solution, primal=primal, runs=runs)
