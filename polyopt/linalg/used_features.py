"""Sparse samples restricted to the features in which one of them has an entry.

A feature without an entry changes no output in training, and a penalty on its weight leaves it at 0. Solvers
therefore see the other features alone, and hashed texts in 2^20 columns cost what their words cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.solution import Solution
from formulations.language.types import Matrix, canonical, is_sparse

_BY_FEATURE = ("W", "support")  # parts of a solution with a column per feature, and perhaps one for the bias


def present_features(X: Matrix) -> NDArray[np.bool_]:
    """Return the mask (m,) of the features that are not 0 in all samples."""
    if not is_sparse(X):
        return np.asarray(X.any(axis=0))
    found = np.zeros(X.shape[1], dtype=bool)
    found[canonical(X).indices] = True
    return found


class UsedFeatures(NamedTuple):
    """The features in use: their ascending numbers ``columns``, of ``m`` features in all."""

    columns: NDArray[np.intp]
    m: int

    @classmethod
    def of(cls, X: Matrix, W: NDArray[np.float64] | None = None) -> UsedFeatures:
        """Return the features in use by the samples, or by faces (K, m+1); for dense samples all of them."""
        if not is_sparse(X):
            return cls.all(X)
        found = present_features(X)
        if W is not None:
            found |= W[:, :-1].any(axis=0)
        return cls(np.flatnonzero(found), int(X.shape[1]))

    @classmethod
    def all(cls, X: Matrix) -> UsedFeatures:
        """Return all features, in use or not."""
        return cls(np.arange(X.shape[1]), int(X.shape[1]))

    def samples(self, X: Matrix) -> Matrix:
        """Return the samples in these features; X itself if they are all."""
        if len(self.columns) == self.m or not is_sparse(X):
            return X
        return X[:, self.columns]

    def faces(self, W: NDArray[Any]) -> NDArray[Any]:
        """Return faces (K, m+1), bias last, in these features."""
        return W if len(self.columns) == self.m else W[:, np.append(self.columns, self.m)]

    def solution(self, found: Solution) -> Solution:
        """Return a solution in all features from one in these, with weights 0 at the others.

        Its runs keep no faces, which would take as much memory each.
        """
        if len(self.columns) == self.m:
            return found
        columns, primal = np.append(self.columns, self.m), dict(found.primal)
        for name in _BY_FEATURE:
            if name in primal:
                narrow = primal[name]
                width = narrow.shape[1]
                primal[name] = np.zeros((len(narrow), self.m + width - len(self.columns)), narrow.dtype)
                primal[name][:, columns[:width]] = narrow
        return replace(found, primal=primal, runs=tuple(replace(run, primal={}) for run in found.runs))
