"""The penalty of faces as a parameter: prices of weights, signs to keep, few features, whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from formulations.face_penalty import FacePenalty as FacePenaltyOfFeatures
from formulations.language.arguments import at_least, whole_or_none
from polyopt.estimators.parameters import Settings, ruled


@dataclass(frozen=True, kw_only=True, eq=False)
class FacePenalty(Settings):
    """Penalty and restrictions of the faces of a classifier, for its parameter ``penalty``.

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
    max_features : int, optional
        Features of each face at most, whichever are best for it, the bias apart
        (:class:`~polyopt.ConvexPolytopeMachine`, solvers "exact" and "dual", loss="sum", margin="total";
        with `signs` or without).
        Alternating minimisation from many starts, then branch and bound over the features of each face:
        "exact" to 1e-6 with at most 1,000 nodes a face, "dual" to `tol` with 50. The certificate has the gap
        that is left.
    integers : int, optional
        M: the coefficients of each face are whole numbers from -M to M times a scale of the face, and its
        threshold a number of few digits, so that its rule reads ``2 age + 3 bmi - 1 chol > 41.5``
        (:class:`~polyopt.ConvexPolytopeMachine`, solvers "exact" and "dual", loss="sum", margin="total"; with
        `max_features` and `signs` or without). Real faces are rounded one after the other, and the others are
        refitted to the rounded ones. The loss by rounding is at most ``integer_loss_``, and in the
        certificate. Whole numbers count in the units of X: of standardised features they are multiples of a
        standard deviation; features over round units (age in tens of years) make rules to check by hand.
        Features of very different spreads leave whole numbers little choice.
    margin : {"total", "worst"}, default="total"
        Norm of the faces that is penalised (:class:`~polyopt.ConvexPolytopeMachine`): "total", the sum of the
        squared norms; "worst", the largest of them, which is the face with the least margin (solvers "exact"
        and "global").

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, FacePenalty
    >>> machine = ConvexPolytopeMachine(2, penalty=FacePenalty(l1=0.5, signs={0: +1}))
    >>> machine.set_params(penalty__l1=1.0).get_params()["penalty__l1"]
    1.0
    """

    l1: float = 0.0
    signs: Mapping[str, int] | Mapping[int, int] | ArrayLike | None = None
    group: float = 0.0
    feature_groups: Sequence[object] | None = None
    max_features: int | None = None
    integers: int | None = None
    margin: Literal["total", "worst"] = "total"

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        "l1": ruled("l1", at_least, 0.0),
        "group": ruled("group", at_least, 0.0),
        "max_features": ruled("max_features", whole_or_none),
        "integers": ruled("integers", whole_or_none),
        "margin": [StrOptions({"total", "worst"})],
    }  # signs and groups are checked with the data

    @staticmethod
    def of(n_features: int, **given: Any) -> FacePenaltyOfFeatures:
        """Return the penalty of so many features, as ``certify_cpm`` takes it.

        Parameters
        ----------
        n_features : int
            m.
        **given
            As of :meth:`formulations.face_penalty.FacePenalty.of`.
        """
        return FacePenaltyOfFeatures.of(n_features, **given)

    @property
    def has_signs(self) -> bool:
        """True if some feature has a sign to keep."""
        given = list(self.signs.values()) if isinstance(self.signs, Mapping) else self.signs
        return bool(given is not None and np.asarray(given, dtype=object).any())

    @property
    def has_prices(self) -> bool:
        """True if there is a price or a sign, as far as that can be told without data."""
        return self.has_signs or bool(self.l1) or bool(self.group)

    @property
    def is_restricted(self) -> bool:
        """True if the faces have few features, or whole numbers."""
        return self.max_features is not None or self.integers is not None

    def of_features(self, m: int, names: Sequence[object], side: float = 1.0) -> FacePenaltyOfFeatures:
        """Return the prices and signs of m features, which may be known by name; -1 turns the signs round."""
        numbered = self.numbered(names)
        found = FacePenaltyOfFeatures.of(
            m, l1=self.l1, group=self.group, signs=numbered.signs, groups=numbered.feature_groups  # type: ignore[arg-type]
        )  # fmt: skip
        if side < 0:
            return FacePenaltyOfFeatures(found.l1, found.group, -found.signs, found.groups)
        return found

    def numbered(self, names: Sequence[object]) -> FacePenalty:
        """Return the same with features by number, from their `names`."""
        known = [str(name) for name in names]
        signs: Any = self.signs
        if isinstance(signs, Mapping):
            signs = {_number("signs", each, known): sign for each, sign in signs.items()}
        groups: Any = self.feature_groups
        if groups is not None and any(_is_list(part) for part in groups):
            groups = [
                [_number("feature_groups", each, known) for each in part] if _is_list(part) else part
                for part in groups
            ]
        return FacePenalty(**(self.get_params() | {"signs": signs, "feature_groups": groups}))


def _number(what: str, feature: object, names: list[str]) -> object:
    """Return a feature's number, from its name if it is a text."""
    if not isinstance(feature, str):
        return feature
    if feature in names:
        return names.index(feature)
    if names:
        told = f"the features are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
    else:
        told = (
            "the training data have no names, so name features by their numbers (a pipeline keeps names by "
            "set_output(transform='pandas'))"
        )
    raise ValueError(f"{what} names the feature {feature!r}, but {told}")


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence | np.ndarray) and not isinstance(part, str)
