"""FacePenalty, the value of the parameter ``penalty`` of classifiers with faces.

It has the ℓ1 and the group penalty, sign constraints, a limit of the number of features, and integer weights.
The numerical penalty of m features is :class:`formulations.face_penalty.FacePenalty`; here it is
``FacePenaltyOfFeatures``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from formulations.face_penalty import FacePenalty as FacePenaltyOfFeatures
from formulations.language.arguments import at_least, whole_or_none
from polyopt.estimators.parameters import Settings, checked_by


@dataclass(frozen=True, kw_only=True, eq=False)
class FacePenalty(Settings):
    """Penalty and restrictions of the faces of a classifier, for its parameter ``penalty``.

    Parameters
    ----------
    l1 : float, default=0.0
        λ of the penalty λ Σ|w_kj|, without biases, which makes weights exactly zero. Its effect depends on
        the units of the features: scale them.
    signs : dict or array_like of shape (m,), optional
        +1 if the score of ``classes_[1]`` (in each pair, the later class) must not decrease with a feature,
        -1 if it must not increase, 0 for a free feature: a dict by names or numbers of features, or one sign
        for each feature. The constraints are satisfied exactly.
    group : float, default=0.0
        τ of the penalty τ Σ_g ‖W_g‖, where W_g are the weights of a group of features on all faces. It makes
        all weights of a group zero.
    feature_groups : list of lists, or array_like of shape (m,), optional
        Groups for `group`, such as the indicators of one categorical column: lists of names or numbers, or a
        label for each feature. By default each feature is a group.
    max_features : int, optional
        Largest number of features of a face (:class:`~polyopt.ConvexPolytopeMachine`, solvers "exact" and
        "dual", loss="sum", margin="total"; with `signs` or without). The fit is alternating minimisation from
        many starts, then branch and bound over the features of each face: "exact" to 1e-6 with at most 1,000
        nodes a face, "dual" to `tol` with 50. The certificate reports the remaining gap.
    integers : int, optional
        M: the coefficients of each face are integers from -M to M times a scale of the face, and its
        threshold is a number of few digits, so that its rule reads ``2 age + 3 bmi - 1 chol > 41.5``
        (:class:`~polyopt.ConvexPolytopeMachine`, solvers "exact" and "dual", loss="sum", margin="total"; with
        `max_features` and `signs` or without). ``integer_loss_`` bounds the increase of the objective by
        rounding, and the certificate includes it. Integers are in the units of X: for standardised features
        they are multiples of a standard deviation; for features in round units (age in tens of years) the
        rules can be evaluated by hand. A small M is unsuitable for features of very different spreads.
    margin : {"total", "worst"}, default="total"
        Penalised norm of the faces (:class:`~polyopt.ConvexPolytopeMachine`): "total", the sum of the squared
        norms; "worst", the largest of them, that of the face with the smallest margin (solvers "exact"
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
        "l1": checked_by("l1", at_least, 0.0),
        "group": checked_by("group", at_least, 0.0),
        "max_features": checked_by("max_features", whole_or_none),
        "integers": checked_by("integers", whole_or_none),
        "margin": [StrOptions({"total", "worst"})],
    }  # signs and groups are checked with the data

    @property
    def has_penalty_or_signs(self) -> bool:
        """True if there is a penalty, or a feature with a sign constraint."""
        signs = list(self.signs.values()) if isinstance(self.signs, Mapping) else self.signs
        has_signs = signs is not None and np.asarray(signs, dtype=object).any()
        return bool(has_signs or self.l1 or self.group)

    @property
    def is_restricted(self) -> bool:
        """True if the number of features is limited or the weights are integers."""
        return self.max_features is not None or self.integers is not None

    def of_features(self, m: int, names: Sequence[object], side: float = 1.0) -> FacePenaltyOfFeatures:
        """Return the numerical penalty of m features with these names; `side` ±1 multiplies the signs."""
        numbered = self.numbered(names)
        penalty = FacePenaltyOfFeatures.of(
            m, l1=self.l1, group=self.group, signs=numbered.signs, groups=numbered.feature_groups  # type: ignore[arg-type]
        )  # fmt: skip
        if side < 0:
            return FacePenaltyOfFeatures(penalty.l1, penalty.group, -penalty.signs, penalty.groups)
        return penalty

    def numbered(self, names: Sequence[object]) -> "FacePenalty":
        """Return the same penalty with names of features replaced by their numbers."""
        all_names = [str(name) for name in names]
        signs: Any = self.signs
        if isinstance(signs, Mapping):
            signs = {_number("signs", feature, all_names): sign for feature, sign in signs.items()}
        groups: Any = self.feature_groups
        if groups is not None and any(_is_list(part) for part in groups):
            groups = [
                [_number("feature_groups", feature, all_names) for feature in part]
                if _is_list(part)
                else part
                for part in groups
            ]
        return FacePenalty(**(self.get_params() | {"signs": signs, "feature_groups": groups}))


def _number(parameter: str, feature: object, names: list[str]) -> object:
    """Return the number of a feature, looked up in `names` if the feature is given by name."""
    if not isinstance(feature, str):
        return feature
    if feature in names:
        return names.index(feature)
    if names:
        reason = f"the features are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
    else:
        reason = (
            "the training data have no names, so name features by their numbers (a pipeline keeps names by "
            "set_output(transform='pandas'))"
        )
    raise ValueError(f"{parameter} names the feature {feature!r}, but {reason}")


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence | np.ndarray) and not isinstance(part, str)
