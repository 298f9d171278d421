"""What the folds of a cross-validation say of a machine besides its accuracy: its size, and how it ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.svm import SVC

from benchmarks.helpers.words import word_of
from formulations.solution import Status
from polyopt.estimators.status import FINE, status_of

__all__ = ["end_of", "ends", "size_of"]

_WHOLE, _GROWN = "converged", "grown to its end"  # of a machine, of a tree


def size_of(machine: Any) -> float:
    """Faces that have samples, support vectors, or leaves."""
    if hasattr(machine, "assignment_"):
        return float(len(np.unique(machine.assignment_[machine.assignment_ >= 0])))
    if hasattr(machine, "support_"):
        return float(len(machine.support_))
    return float(machine.get_n_leaves() if hasattr(machine, "get_n_leaves") else machine.n_leaves_)


def end_of(machine: Any) -> str:
    """How its fit ended, in a word: at its own end, or by which limit."""
    if isinstance(machine, SVC):
        status = Status.SOLVED if machine.fit_status_ == 0 else Status.ITERATION_LIMIT
    elif hasattr(machine, "solution_"):
        status = status_of(machine)
    else:
        return _GROWN
    return _WHOLE if status in FINE else word_of(status)


def ends(words: pd.Series) -> str:
    """How the fits of a cell ended: the word of all of them, or each word with its share."""
    shares = words.value_counts(normalize=True)
    if len(shares) == 1:
        return str(shares.index[0])
    return ", ".join(f"{word} {100 * share:.3g} %" for word, share in shares.items())
