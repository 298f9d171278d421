"""How many numbers a reader must read to answer for a sample by hand: one rule for every model.

Counted are numbers that are not zero:

- a linear machine: its weights and its intercept; a level of a category has a weight of its own;
- polytopes: the weights and the offset of every face;
- a tree: a threshold at every inner node, a value at every leaf; trees that are added: all of them, and
  what they start from (a split by categories counts as one number, in favour of the trees);
- an EBM: the score of every bin, of every term, and the intercept (not the bins' ends, in its favour);
- a kernel machine: every support vector with its coefficient, and the intercept.

What scales the columns, and Platt's curve, are not counted: both can be multiplied into the weights, or do
not change which class is answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["final_model", "numbers_of"]

_WRAPPED = ("best_estimator_", "model_", "estimator_")


def final_model(model: Any) -> Any:
    """The model that answers, without the search, the pipeline and the calibration around it."""
    while True:
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        elif hasattr(model, "calibrated_classifiers_"):
            (calibrated,) = model.calibrated_classifiers_
            model = calibrated.estimator
        elif found := [name for name in _WRAPPED if hasattr(model, name)]:
            model = getattr(model, found[0])
        else:
            return model


def numbers_of(model: Any) -> int:
    """The numbers of a fitted model.

    It may be a pipeline, a search or a calibration that ends in a model.
    """
    model = final_model(model)
    if hasattr(model, "n_numbers_"):
        return int(model.n_numbers_)
    if hasattr(model, "term_scores_"):
        return _nonzero([*model.term_scores_, model.intercept_])
    if hasattr(model, "W_"):
        return _nonzero([model.W_, model.b_])
    if hasattr(model, "sides_"):
        return sum(map(numbers_of, model.sides_))
    if hasattr(model, "support_vectors_"):
        return _nonzero([model.support_vectors_, model.dual_coef_, model.intercept_])
    if hasattr(model, "coef_"):
        return _nonzero([model.coef_, model.intercept_])
    if hasattr(model, "get_n_leaves"):
        return 2 * int(model.get_n_leaves()) - 1
    if hasattr(model, "_predictors"):
        return 1 + sum(len(tree.nodes) for trees in model._predictors for tree in trees)
    if hasattr(model, "get_booster"):
        return 1 + len(model.get_booster().trees_to_dataframe())
    raise TypeError(f"how to count the numbers of {type(model).__name__} is not known")


def _nonzero(arrays: Iterable[Any]) -> int:
    return sum(int(np.count_nonzero(array)) for array in arrays)
