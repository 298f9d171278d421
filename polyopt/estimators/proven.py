"""What polyopt adds to a classifier of scikit-learn: its certificate, its multipliers and its history."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from polyopt.base.text import visible
from polyopt.certificates.certificate import combine

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from polyopt.certificates.certificate import Certificate

__all__ = ["Proven"]


class Proven(BaseEstimator):
    """Base of the classifiers: what is proven of one that is fitted.

    Attributes
    ----------
    solution_ : Solution or list of Solution
        The solver's answer; one per pair of classes where there are more than two.
    solver_ : str
        The solver that was used (binary problems).
    duals_ : pandas.DataFrame
        One row per constraint, in input order: its name, its sample and its multiplier first, its state last.
    history_ : pandas.DataFrame
        One row per iteration, as many as ``n_iter_`` says, and one numbered 0 for a start that is a point
        itself; empty if the solver records nothing.
    """

    solution_: Any
    classes_: NDArray[Any]
    estimators_: list[Any]
    _asked: dict[str, Any]  # the parameters of the fit: what is set later is for the next one

    @abstractmethod
    def _binary_certificate(self, tol: float) -> Certificate:
        """Certificate of the binary solution."""

    @abstractmethod
    def _binary_duals(self) -> pd.DataFrame:
        """One row per constraint, in input order, with a column ``sample``."""

    def _as_fitted(self) -> Self:
        """The model with the parameters that it was fitted with, whatever ``set_params`` did since."""
        then = getattr(self, "_asked", {})
        if all(_is_same(getattr(self, name), value) for name, value in then.items()):
            return self
        return copy(self).set_params(**then)

    @property
    def _is_binary(self) -> bool:
        return len(self.classes_) == 2

    @property
    def holds_data(self) -> bool:
        """Whether it holds its training data, of which certificates and multipliers are made."""
        return True

    def _need_data(self, what: str) -> None:
        check_is_fitted(self)
        if not self.holds_data:
            raise ValueError(
                f"{what} needs the training data, which this machine does not hold: it was fitted by "
                "partial_fit, is a copy without_data(), or was saved by 'polyopt fit' without --keep-data. "
                "The certify_ functions of polyopt take data and faces."
            )

    def certificate(self, tol: float = 1e-6) -> Certificate:
        """How far the fitted model is from optimal, proven from the training data.

        Parameters
        ----------
        tol : float
            Relative tolerance for the gap and for every residual.

        Returns
        -------
        Certificate
            With more than two classes, of all pairs together: their values are summed and the
            weakest claim stands.
        """
        self._need_data("certificate()")
        if self._is_binary:
            return self._with_names(self._as_fitted()._binary_certificate(tol))
        names = [visible(f"{first} vs {second}") for first, second in self.pairs_]
        found = [e.certificate(tol) for e in self.estimators_]
        whole = [self._of_pair(each, places) for each, places in zip(found, self._pair_places, strict=True)]
        return combine(whole, names)

    def _with_names(self, certificate: Certificate) -> Certificate:
        """The certificate, whose claims know labels and numbers of the samples as ``fit`` had them."""
        side, rows = getattr(self, "_side", 1.0), getattr(self, "_rows", None)
        low, high = (str(label) for label in (self.classes_ if side > 0 else self.classes_[::-1]))
        scale = float(self._asked.get("feature_scale", 1.0)) if hasattr(self, "_asked") else 1.0
        parts = certificate.evidence
        if rows is None:  # the sides of a machine of two know their own
            known = all(p.rows is not None for p in parts)
            return replace(certificate, evidence=parts if known else ())
        named = tuple(p if p.rows is not None else p.of((low, high), rows, scale) for p in parts)
        return replace(certificate, evidence=named)

    def _of_pair(self, certificate: Certificate, places: NDArray[Any]) -> Certificate:
        """The certificate of a pair of classes, which knows these by number and has samples of its own."""
        named = []
        for part in certificate.evidence:
            assert part.rows is not None
            low, high = (str(self.classes_[int(name)]) for name in part.names)
            named.append(part.of((low, high), self._rows[places[part.rows]], part.factor))
        return replace(certificate, evidence=tuple(named))

    @property
    def duals_(self) -> pd.DataFrame:
        """The multipliers: one row per constraint, samples in the order they were given to ``fit``."""
        import pandas as pd

        self._need_data("duals_")
        if self._is_binary:
            return _with_columns_in_order(self._as_fitted()._binary_duals())
        frames = []
        for estimator, pair, places in zip(self.estimators_, self.pairs_, self._pair_places, strict=True):
            frame = estimator.duals_
            own = frame["sample"].to_numpy()  # -1 in rows of no sample
            frame["sample"] = np.where(own >= 0, self._rows[places[own]], -1)
            frame["label"] = _named(frame["label"].to_numpy(), self.classes_)
            frames.append(frame.assign(pair=f"{pair[0]} vs {pair[1]}"))
        return _with_columns_in_order(pd.concat(frames, ignore_index=True))

    @property
    def history_(self) -> pd.DataFrame:
        """What the solver recorded as it went: one row per round; empty where it records nothing."""
        import pandas as pd

        check_is_fitted(self)
        if self._is_binary:
            return self._binary_history()
        frames = [
            e.history_.assign(pair=f"{p[0]} vs {p[1]}")
            for e, p in zip(self.estimators_, self.pairs_, strict=True)
        ]
        return pd.concat(frames, ignore_index=True)

    def _binary_history(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(self.solution_.history))


def _with_columns_in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns, the important ones at both ends: pandas leaves out the middle in a narrow terminal."""
    first = ("row", "sample", "multiplier")
    last = [name for name in ("feature", "piece", "face", "outside", "pair", "state") if name in frame]
    return frame[[*first, *(name for name in frame if name not in (*first, *last)), *last]]


def _named(numbers: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Labels from the numbers by which the pairs told classes apart; None where a sample has none."""
    if numbers.dtype != object:
        return classes[numbers]
    return np.array([None if number is None else classes[number] for number in numbers], dtype=object)


def _is_same(value: Any, other: Any) -> bool:
    """True if two parameters are one object, or equal numbers or strings, which a saved model holds twice."""
    plain = type(value) is type(other) and isinstance(value, (int, float, str))
    return value is other or (plain and value == other)
