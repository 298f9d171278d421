"""A classifier that leaves its training data behind."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from polyopt.estimators.proven import Proven

__all__ = ["Portable"]


class Portable(Proven):
    """Base of the classifiers: what they are without their training data.

    A subclass says in :meth:`_drop_data` what it answers by; one that does not keeps all it has.
    """

    def without_data(self) -> Self:
        """A copy that predicts, and has its faces or its support vectors, but holds no other training data.

        It cannot be certified and has no ``duals_``. For files, and for machines that only predict.
        """
        check_is_fitted(self)
        light = copy(self)
        if self._is_binary:
            light._drop_data(self)
            return light
        light.estimators_ = [part.without_data() for part in self.estimators_]
        light._drop_data_of_pairs(self)
        light.solution_ = [part.solution_ for part in light.estimators_]
        return light

    def _drop_data(self, whole: Self) -> None:
        """Keep of a binary machine, of which this is a copy, what it answers by."""

    def _drop_data_of_pairs(self, whole: Self) -> None:
        """The same for what a machine of pairs of classes has beside its pairs, which are light already."""

    def _keep_no_solution(self, whole: Self) -> None:
        """Keep of the whole machine's solution how it ended, without its vectors and its history."""
        self.solution_: Any = replace(whole.solution_, primal={}, duals={}, history=(), runs=())
