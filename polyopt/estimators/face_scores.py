"""Scores of samples at faces: in single precision where the data are and that is enough, else in double."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.language.types import Matrix

__all__ = ["scores_at"]

_BLOCK_ROWS = 1 << 9  # dense samples at a time, so that they are still in the cache when they are multiplied


def scores_at(X: Matrix, W: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """``W_k'x + b_k`` for every sample and face.

    Samples of float32 or bytes are scored in single precision. Where a sample's terms are so large that
    rounding them may move a score by more than 1e-4, the sample is scored in double.

    X (t, m): samples: float64, float32 or uint8.
    W (K, m): faces.
    b (K,): their offsets.
    Returns (t, K).
    """
    if X.dtype == np.float64:
        if sp.issparse(X):
            return np.asarray(X @ W.T) + b
        # Face by face in the memory, so that the best of a few faces is found by vector instructions.
        by_face = W @ X.T
        by_face += b[:, None]
        return by_face.T
    scores = np.empty((X.shape[0], len(b)), order="F")
    reach = _reach(W, b)
    with np.errstate(over="ignore"):  # where these overflow, they are not used
        narrow, offsets = W.T.astype(np.float32), b.astype(np.float32)
    for part, rows in _parts(X):
        doubtful = _beyond(rows, reach)
        with np.errstate(over="ignore", invalid="ignore"):
            scores[part] = np.asarray(rows @ narrow) + offsets
        if len(doubtful):
            scores[part.start + doubtful] = rows[doubtful].astype(np.float64) @ W.T + b
    return scores


def _parts(X: Any) -> Iterator[tuple[slice, Any]]:
    """The samples in single precision: sparse ones at once, dense ones some at a time."""
    step = X.shape[0] if sp.issparse(X) else _BLOCK_ROWS
    for first in range(0, X.shape[0], step):
        part = slice(first, first + step)
        yield part, (X if step == X.shape[0] else X[part]).astype(np.float32, copy=False)


def _reach(W: NDArray[Any], b: NDArray[Any]) -> float:
    """The size of entries up to which single precision keeps the scores at these faces."""
    length = float(np.abs(W).sum(axis=1).max())
    room = 1e-4 * 2.0**24 - float(np.abs(b).max())  # rounding to single precision may cost 1e-4 of a score
    if not room > 0.0:
        return -1.0  # no entry is small enough
    # Up to 1e30, what single precision cannot tell from zero in W adds up to none.
    return min(room / length, 1e30) if length > 0.0 else 1e30


def _beyond(rows: Any, reach: float) -> NDArray[np.intp]:
    """Samples with an entry larger than that."""
    entries = rows.data if sp.issparse(rows) else rows
    if max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0))) <= reach:
        return np.zeros(0, dtype=np.intp)
    largest = abs(rows).max(axis=1)
    return np.flatnonzero((largest.toarray() if sp.issparse(rows) else largest).ravel() > reach)
