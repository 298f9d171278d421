"""Our side of the comparison with interpretable models: this one function says what is compared."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from benchmarks.helpers.interpretable_rivals import LIMIT, preparation
from polyopt import LogisticPolytopes, LogisticSearch

__all__ = ["OURS", "ours"]

OURS = ("polytope, 60 numbers", "polytope, any size")
"""The names that are compared, from small to large."""


def ours(name: str, seed: int = 0) -> Any:
    """An estimator that tunes itself on what it is fitted on.

    Parameters
    ----------
    name : str
        One of OURS.
    seed : int, optional
        Of all that is drawn.

    Returns
    -------
    estimator
        Not fitted. It takes an array of numbers, or a frame of numbers and categories with gaps, and labels
        0 and 1, and has ``predict_proba``.
    """
    machine = LogisticPolytopes(n_init=2, random_state=seed, tol=1e-3)
    searches: dict[str, Any] = {
        "polytope, 60 numbers": LogisticSearch(machine, max_faces=4, max_numbers=LIMIT),
        "polytope, any size": LogisticSearch(machine, max_faces=16),
    }
    return make_pipeline(_Columns(), searches[name])


class _Columns(TransformerMixin, BaseEstimator):
    """Standardised columns of an array, or of a frame."""

    def fit(self, X: Any, y: Any = None) -> _Columns:
        self.preparation_ = preparation("mixed" if hasattr(X, "iloc") else "numbers").fit(X)
        return self

    def transform(self, X: Any) -> Any:
        return self.preparation_.transform(X)
