"""The weights of samples and of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.arguments import as_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix
    from polyopt.base.types import ClassWeight

__all__ = ["MAX_TOTAL", "check_total", "checked_weights", "class_weights"]

MAX_TOTAL = 1e304
"""Largest sum of the samples' weights: their products with outputs stay within double precision."""

MIN_TOTAL = 1e-300
"""Smallest sum of the samples' weights: quotients by them stay within double precision."""


def checked_weights(sample_weight: ArrayLike | None, X: Matrix) -> NDArray[np.float64]:
    """The weights (n,) of the samples, ones by default; those below zero are refused."""
    n = X.shape[0]
    if sample_weight is None:
        return np.ones(n)
    weights = as_weights(sample_weight, n, "sample_weight")
    check_total(weights)
    return weights


def check_total(weights: NDArray[np.float64]) -> None:
    """Refuse weights whose sums, products and quotients may leave double precision."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total > MAX_TOTAL or 0 < total < MIN_TOTAL:
        limit = f"at most {MAX_TOTAL:g}" if total > 1 else f"at least {MIN_TOTAL:g}"
        raise ValueError(
            f"sample_weight, times the class's weight, must add up to {limit}, not {total:.3g}: products "
            "leave double precision. Divide the weights by their mean"
        )


def class_weights(
    class_weight: ClassWeight,
    classes: NDArray[Any],
    codes: NDArray[Any],
    weights: NDArray[Any],
) -> NDArray[Any]:
    """Weight per class; "balanced" gives every class the same total.

    class_weight: weights by class; None for ones.
    classes (n_classes,): the classes.
    codes (n,): the number of each sample's class.
    weights (n,): weights of the samples.
    ValueError: A weight that is no positive number, or a label that is none of the classes'.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):  # "balanced", the only word
        totals = np.bincount(codes, weights)
        return weights.sum() / (len(totals) * totals)
    labels = classes.tolist()
    # scikit-learn looks up the label "1" as the number 1, and 1.5 as 1.
    without = [label for label in labels if label not in class_weight]
    if without and len(labels) - len(without) != len(class_weight):
        raise ValueError(
            f"class_weight has the labels {list(class_weight)}, and none for {without} of {labels}"
        )
    try:
        per_class = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    except (TypeError, ValueError):
        raise ValueError(f"class_weight must be numbers, not {class_weight!r}") from None
    if not (np.isfinite(per_class) & (per_class > 0)).all():
        raise ValueError(f"class_weight must be positive and finite, not {class_weight!r}")
    return per_class
