"""What the classifiers share whose faces may have a price: few weights, few features, and signs to keep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations.arguments import at_least
from formulations.face_penalty import FacePenalty
from polyopt.estimators.declaration import estimator
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import Ruled

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PRICED", "SIGNED", "PricedFaces", "SparseFaces", "price_rows"]

SIGNED: dict[str, list[Any]] = {
    "l1": [Ruled(lambda value: at_least("l1", value, 0.0))],
    "signs": "no_validation",  # type: ignore[dict-item]
}
"""Constraints of a price of weights and of signs; those that need the features are checked with the data."""

PRICED: dict[str, list[Any]] = {
    **SIGNED,
    "group": [Ruled(lambda value: at_least("group", value, 0.0))],
    "feature_groups": "no_validation",  # type: ignore[dict-item]
}
"""The same with a price of groups."""


@estimator
class SparseFaces(FaceClassifier):
    """Base of the classifiers whose faces may be sparse, and keep signs.

    Parameters
    ----------
    l1 : float, default=0.0
        λ, the price of a unit of a weight's size: it makes weights zero, exactly. Biases are free of it. It
        depends on the units of the features; scale them.
    signs : dict or array_like of shape (m,), optional
        +1 for a feature with which no score of ``classes_[1]`` may fall (of each pair, the later class), -1
        for one with which none may rise, 0 for a free one: by names or numbers, or one for each. Kept
        exactly.

    Attributes
    ----------
    features_ : ndarray of int
        The features in use: those with a weight on some face.
    n_nonzero_ : int
        The weights in use, biases left out, over all faces.
    """

    _: KW_ONLY
    l1: float = 0.0
    signs: Mapping[str, int] | Mapping[int, int] | ArrayLike | None = None

    _prices: ClassVar[tuple[str, ...]] = ("l1",)

    @property
    def _is_priced(self) -> bool:
        """Whether there is a price or a sign, as far as that can be told without data."""
        return self._has_signs or any(getattr(self, name) for name in self._prices)

    @property
    def _has_signs(self) -> bool:
        """Whether some sign is asked."""
        signs = self.signs
        given = list(signs.values()) if isinstance(signs, Mapping) else signs
        return bool(given is not None and np.asarray(given, dtype=object).any())

    def _price(self) -> FacePenalty | None:
        """The price for the polytope at hand, in the signs of its faces; None where there is none."""
        prices = {name: self._asked_now(name) for name in self._prices}
        signs, groups = self._by_number(self._asked_now("signs")), self._groups()
        found = FacePenalty.of(self.n_features_in_, signs=signs, groups=groups, **prices)
        if self._side < 0:
            found = FacePenalty(found.l1, found.group, -found.signs, found.groups)
        return None if found.is_absent else found

    def known_signs(self, m: int) -> NDArray[np.int64] | None:
        """The sign (m,) that the log-odds keep with each feature, or None where none has one.

        Parameters
        ----------
        m : int
            How many features there are.
        """
        if not self._has_signs:
            return None
        return FacePenalty.of(m, signs=self._by_number(self._asked_now("signs"))).signs

    def _asked_now(self, name: str) -> Any:
        """A parameter as it was when the machine was fitted, or is fitted now."""
        asked: Mapping[str, Any] = getattr(self, "_asked", {})
        return asked.get(name, getattr(self, name))

    def _groups(self) -> Any:
        """Features that have one price together, by numbers; None where each is by itself."""
        return None

    def _with_prices(
        self, frame: pd.DataFrame, V: NDArray[Any], q: NDArray[Any] | None = None
    ) -> pd.DataFrame:
        """Rows of ``duals_``, and those of prices and signs for what pulls at the faces, V (K, m+1).

        What the price of groups holds, q (K, m), is the best for the sum of all squares unless it is given.
        """
        penalty = self._price()
        if penalty is None:
            return frame
        import pandas as pd

        names = getattr(self, "feature_names_in_", None)
        rows = price_rows(penalty, V, self.solution_["W"], names, q)
        return pd.concat([frame.astype({"label": object}), rows], ignore_index=True)

    def _by_number(self, signs: Any) -> Any:
        if not isinstance(signs, Mapping):
            return signs
        return {self._number("signs", feature): sign for feature, sign in signs.items()}

    def _number(self, what: str, feature: object) -> object:
        """A feature's number, from its name where it is one."""
        if not isinstance(feature, str):
            return feature
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if feature in names:
            return names.index(feature)
        known = f"the features are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        none = (
            "the training data have no names, so name features by their numbers (a pipeline keeps names by "
            "set_output(transform='pandas'))"
        )
        told = known if names else none
        raise ValueError(f"{what} names the feature {feature!r}, but {told}")

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        # A pair knows the features by their numbers alone.
        return super()._for_pairs(X, weights).set_params(signs=self._by_number(self.signs))

    def _tell_if_empty(self, W: NDArray[Any]) -> None:
        """Warn where the price has taken every feature out of use."""
        if self._is_priced and not W[:, :-1].any():
            at = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._prices)
            warnings.warn(
                f"{type(self).__name__}: every weight is zero, as no feature is worth its price at {at}: one "
                "class is predicted everywhere. Lower the price",
                UserWarning,
                stacklevel=4,
            )

    @property
    def features_(self) -> NDArray[np.int64]:
        """The features in use."""
        used = [np.flatnonzero((machine.W_ != 0).any(axis=0)) for machine in self._polytopes()]
        return np.unique(np.concatenate(used))

    @property
    def n_nonzero_(self) -> int:
        """The weights in use, biases left out."""
        return sum(int(np.count_nonzero(machine.W_)) for machine in self._polytopes())

    def _polytopes(self) -> list[Any]:
        """The machines of one polytope each that it answers by."""
        check_is_fitted(self)
        if not self._is_binary:
            return [each for part in self.estimators_ for each in part._polytopes()]
        return list(getattr(self, "_sides", None) or [self])


@estimator
class PricedFaces(SparseFaces):
    """Base of those that may have a price of whole features as well, or of groups of them.

    Parameters
    ----------
    group : float, default=0.0
        τ, the price of a unit of the length of a feature's weights over all faces: it takes features out of
        use altogether.
    feature_groups : list of lists, or array_like of shape (m,), optional
        Features that come and go together, such as the columns of one category: lists of names or numbers, or
        a label for each feature. By default each is by itself.
    """

    _: KW_ONLY
    group: float = 0.0
    feature_groups: Sequence[object] | None = None

    _prices: ClassVar[tuple[str, ...]] = ("l1", "group")

    def known_groups(self, m: int) -> NDArray[np.int64] | None:
        """The group (m,) of each feature, or None where no group has a price.

        Parameters
        ----------
        m : int
            How many features there are.
        """
        if not self._asked_now("group"):
            return None
        return FacePenalty.of(m, groups=self._groups()).groups

    def _groups(self) -> Any:
        return self._numbered(self._asked_now("feature_groups"))

    def _numbered(self, groups: Any) -> Any:
        if groups is None or not any(_is_list(part) for part in groups):
            return groups
        return [
            [self._number("feature_groups", each) for each in part] if _is_list(part) else part
            for part in groups
        ]

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        numbered = self._numbered(self.feature_groups)
        return super()._for_pairs(X, weights).set_params(feature_groups=numbered)


def price_rows(
    penalty: FacePenalty, V: NDArray[Any], W: NDArray[Any], names: ArrayLike | None = None,
    q: NDArray[Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """The multipliers of prices and signs as a table, a row for each face and feature.

    The columns are those of ``duals_``, with -1 for the sample and the weight for the output, and
    ``feature``.

    Parameters
    ----------
    penalty : FacePenalty
        The price.
    V, W : ndarray of shape (K, m+1)
        What pulls at the faces, and the faces.
    names : array_like of str, optional
        What the features are called; by default their numbers.
    q : ndarray of shape (K, m), optional
        What the price of groups holds; by default what is best for the sum of all squares.
    """
    import pandas as pd

    r, best, delta = penalty.held(V if q is None else V - np.column_stack([q, np.zeros(len(q))]))
    q = best if q is None else q
    face, feature = (each.ravel() for each in np.indices(r.shape))
    known = np.array(range(penalty.n_features) if names is None else names, dtype=object)
    weight = W[:, :-1].ravel()
    signed = penalty.signs[feature] != 0
    parts: list[tuple[str, str, Any, Any]] = []
    if penalty.l1 > 0.0:
        here = np.ones(len(face), dtype=bool)
        parts += [
            ("upper", "r_plus", np.maximum(r, 0.0), here),
            ("lower", "r_minus", np.maximum(-r, 0.0), here),
        ]
    if penalty.group > 0.0:
        parts.append(("group", "q", q, np.ones(len(face), dtype=bool)))
    if signed.any():
        parts.append(("sign", "delta", delta, signed))
    frames = [
        pd.DataFrame(
            {
                "row": row,
                "letter": letter,
                "sample": -1,
                "label": np.full(int(here.sum()), None, dtype=object),
                "face": face[here],
                "feature": known[feature[here]],
                "multiplier": values.ravel()[here],
                "output": weight[here],
                "state": np.where(weight[here] != 0.0, "in use", "held at zero"),
            }
        )
        for row, letter, values, here in parts
    ]
    return pd.concat(frames, ignore_index=True)


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence | np.ndarray) and not isinstance(part, str)
