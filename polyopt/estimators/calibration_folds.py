"""Scores of samples by machines that were not fitted to them: the folds of a calibration."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from formulations.solution import Status
from polyopt.estimators.interruption import Part
from polyopt.estimators.status import solutions_of
from polyopt.jobs import dealt
from polyopt.watch import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.clock import Clock
    from formulations.matrices import Array, Matrix

    Split = tuple[NDArray[np.intp], NDArray[np.intp]]

__all__ = ["FOLDS", "folds_of", "held_out_scores"]

FOLDS = 5  # at most
_ROWS = 4096  # rows at a time, whose copies are looked for


def folds_of(X: Matrix, y: Array) -> list[Split]:
    """Training and held-out samples of each fold, every class in the same proportion in all.

    Which fold a sample is in depends on the set of samples alone, and copies of a sample are in one fold: so
    neither the samples' order nor a seed changes the folds, and a weight does what copies would do.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels of two classes.

    Returns
    -------
    list of (ndarray, ndarray)
        Five, or as many as the smaller class has different samples; none where that is one.
    """
    top = np.uint64(1) << np.uint64(63)  # the label is the highest bit of a sample's key
    digests = _digests(X)
    keys = np.where(y > 0, digests | top, digests & ~top)
    distinct, which = np.unique(keys, return_inverse=True)
    codes = (distinct >= top).astype(int)
    count = min(FOLDS, int(np.bincount(codes, minlength=2).min()))
    if count < 2:
        return []
    found = []
    for _, held in StratifiedKFold(count).split(np.zeros(len(codes)), codes):
        is_held = np.isin(which, held)
        found.append((np.flatnonzero(~is_held), np.flatnonzero(is_held)))
    return found


def _digests(X: Any) -> NDArray[np.uint64]:
    """A number for each row that equal rows share, dense or sparse, and different ones as good as never."""
    found = np.empty(X.shape[0], dtype=np.uint64)
    for first in range(0, X.shape[0], _ROWS):
        rows = sp.csr_array(X[first : first + _ROWS])
        rows.eliminate_zeros()
        rows.sort_indices()
        places, values = rows.indices.astype(np.int64), rows.data.astype(np.float64)
        for i, (start, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
            content = places[start:end].tobytes() + values[start:end].tobytes()
            digest = hashlib.blake2b(content, digest_size=8).digest()
            found[first + i] = int.from_bytes(digest, "little")
    return found


class _Fold(NamedTuple):
    """A machine, and the samples that it is fitted to and that it scores."""

    machine: Any
    X: Any
    y: Array
    weights: Array
    split: Split
    part: Part


def held_out_scores(
    machines: Sequence[Any], X: Matrix, y: Array, weights: Array, splits: Sequence[Split],
    whole: Clock, n_jobs: int | None,
) -> Array | None:  # fmt: skip
    """Scores (n,) of all samples, each by the machine of the fold that held it out.

    Parameters
    ----------
    machines : sequence of estimator
        One for each fold, not fitted, which know their classes.
    X, y, weights : array
        Samples, labels of -1 and +1, and weights, as the whole machine is fitted to them.
    splits : sequence of (ndarray, ndarray)
        As :func:`folds_of` gives them.
    whole : Clock
        The limit for all folds together.
    n_jobs : int, optional
        Folds at once, as joblib counts.

    Returns
    -------
    ndarray or None
        None where the limit or Ctrl-C left a fold without its own end.
    """
    tasks = [
        _Fold(machine, X, y, weights, split, Part("fold", number, len(splits), whole, n_jobs))
        for number, (machine, split) in enumerate(zip(machines, splits, strict=True))
    ]
    done = dict(counted(dealt(_scores_of_fold, tasks, n_jobs), len(tasks), "fold"))
    scores = np.empty(len(y))
    for number, (_, held) in enumerate(splits):
        own = done.get(number)
        if own is None:
            return None
        scores[held] = own
    return scores


def _scores_of_fold(task: _Fold) -> Array | None:
    """Scores of the samples held out; None where time was over before the machine came to its own end."""
    if task.part.whole.is_over:
        return None
    machine, (train, held) = task.machine, task.split
    try:
        # What a fold has to say, the whole machine has said.
        with warnings.catch_warnings(), task.part.of_fit(machine):
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            machine._fit_binary(task.X[train], task.y[train], task.weights[train], np.arange(len(train)))
    except RuntimeError:
        if not task.part.whole.is_over:
            raise
        return None
    cut = (Status.TIME_LIMIT, Status.INTERRUPTED)
    if any(found.status in cut for found in solutions_of(machine)):
        return None
    return np.asarray(machine._binary_scores(task.X[held]))
