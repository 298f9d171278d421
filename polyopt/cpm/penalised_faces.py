"""What the classifiers share whose faces may have a price: few weights, few features, and signs to keep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import at_least
from polyopt.estimators.declaration import estimator
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import Ruled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PRICED", "PricedFaces"]

PRICED: dict[str, list[Any]] = {
    "l1": [Ruled(lambda value: at_least("l1", value, 0.0))],
    "group": [Ruled(lambda value: at_least("group", value, 0.0))],
    "feature_groups": "no_validation",  # type: ignore[dict-item]
    "signs": "no_validation",  # type: ignore[dict-item]
}
"""Constraints of prices and signs; those that need the features are checked with the data."""


@estimator
class PricedFaces(FaceClassifier):
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
    group : float, default=0.0
        τ, the price of a unit of the length of a feature's weights over all faces: it takes features out of
        use altogether.
    feature_groups : list of lists, or array_like of shape (m,), optional
        Features that come and go together, such as the columns of one category: lists of names or numbers, or
        a label for each feature. By default each is by itself.

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
    group: float = 0.0
    feature_groups: Sequence[object] | None = None

    @property
    def _is_priced(self) -> bool:
        """Whether there is a price or a sign, as far as that can be told without data."""
        return self._has_signs or bool(self.l1) or bool(self.group)

    @property
    def _has_signs(self) -> bool:
        """Whether some sign is asked."""
        signs = self.signs
        given = list(signs.values()) if isinstance(signs, Mapping) else signs
        return bool(given is not None and np.asarray(given, dtype=object).any())

    def _price(self) -> FacePenalty | None:
        """The price for the polytope at hand, in the signs of its faces; None where there is none."""
        found = FacePenalty.of(
            self.n_features_in_, l1=self._asked_now("l1"), group=self._asked_now("group"),
            signs=self._by_number(self._asked_now("signs")), groups=self._groups(),
        )  # fmt: skip
        if self._side < 0:
            found = FacePenalty(found.l1, found.group, -found.signs, found.groups)
        return None if found.is_absent else found

    def known_signs(self, m: int) -> NDArray[np.int64] | None:
        """The sign (m,) that the log-odds keep with each of m features, or None where none has one."""
        if not self._has_signs:
            return None
        return FacePenalty.of(m, signs=self._by_number(self._asked_now("signs"))).signs

    def known_groups(self, m: int) -> NDArray[np.int64] | None:
        """The group (m,) of each of m features, or None where no group has a price."""
        if not self._asked_now("group"):
            return None
        return FacePenalty.of(m, groups=self._groups()).groups

    def _asked_now(self, name: str) -> Any:
        """A parameter as it was when the machine was fitted, or is fitted now."""
        asked: Mapping[str, Any] = getattr(self, "_asked", {})
        return asked.get(name, getattr(self, name))

    def _groups(self) -> Any:
        """Features that have one price together, by numbers; None where each is by itself."""
        return self._numbered(self._asked_now("feature_groups"))

    def _numbered(self, groups: Any) -> Any:
        if groups is None or not any(_is_list(part) for part in groups):
            return groups
        return [
            [self._number("feature_groups", each) for each in part] if _is_list(part) else part
            for part in groups
        ]

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
        signs, groups = self._by_number(self.signs), self._numbered(self.feature_groups)
        return super()._for_pairs(X, weights).set_params(signs=signs, feature_groups=groups)

    def _tell_if_empty(self, W: NDArray[Any]) -> None:
        """Warn where the price has taken every feature out of use."""
        if self._is_priced and not W[:, :-1].any():
            warnings.warn(
                f"{type(self).__name__}: every weight is zero, as no feature is worth its price at "
                f"l1={self.l1!r}, group={self.group!r}: one class is predicted everywhere. Lower the price",
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


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence | np.ndarray) and not isinstance(part, str)
