"""A Gram matrix times a vector, from blocks that are computed, used and forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from polyopt.kernels.panels import SamplePanel
from polyopt.kernels.protocol import CHUNK, TILE, chunks, strips
from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from polyopt.kernels.protocol import Gram, Panel, Samples, Vector

__all__ = ["outputs_at", "square", "stream", "weighted"]


def stream(
    gram: Gram,
    coefficients: Vector,
    dtype: DTypeLike = np.float64,
    tick: Callable[[], None] | None = None,
) -> Vector:
    """``K coefficients`` from blocks, only the columns that count being computed.

    Parameters
    ----------
    gram : Gram
        The matrix.
    coefficients : ndarray of shape (n,)
        The vector.
    dtype : dtype
        Precision of the kernel values.
    tick : callable, optional
        As in :func:`weighted`.
    """
    support = np.flatnonzero(coefficients)
    if not len(support):
        return np.zeros(gram.n)
    return weighted(gram.panel(support, dtype), np.arange(gram.n), coefficients[support], tick)


def weighted(
    panel: Panel, samples: Samples, weights: Vector, tick: Callable[[], None] | None = None
) -> Vector:
    """``K[samples, columns] weights`` by blocks, shape (samples,).

    Parameters
    ----------
    panel : Panel
        A server of these columns.
    samples : ndarray of int
        The rows.
    weights : ndarray of shape (columns,)
        The weights.
    tick : callable, optional
        Called before every block; what it raises ends the work.
    """
    tick = tick or _go_on
    if isinstance(panel, SamplePanel) and panel.is_dense:
        return panel.weighted(samples, weights, tick)
    found = np.empty(len(samples))
    for at in strips(np.arange(len(samples)), len(weights)):
        tick()
        found[at] = panel.rows(samples[at]) @ weights
    return found


def outputs_at(gram: Gram, samples: Samples, coefficients: Vector) -> Vector:
    """``K[samples] coefficients`` for a few samples, in double precision, shape (samples,).

    Parameters
    ----------
    gram : Gram
        The matrix.
    samples : ndarray of int
        The samples.
    coefficients : ndarray of shape (n,)
        The vector.
    """
    support = np.flatnonzero(coefficients)

    def of_some(part: Samples) -> Vector:
        return gram.panel(part, np.float64).rows(samples) @ coefficients[part]

    parts = run_blocks(of_some, chunks(support, 2 * TILE), float(len(samples)) * len(support) * gram.width)
    return np.sum(parts, axis=0) if parts else np.zeros(len(samples))


def _go_on() -> None:
    """Nothing ends the work."""


def square(gram: Gram, samples: Samples) -> Vector:
    """``K[samples, samples]``, each entry computed once and mirrored; arguments as in :func:`outputs_at`."""
    K = np.empty((len(samples), len(samples)))
    for start in range(0, len(samples), CHUNK // 2):
        end = start + CHUNK // 2
        block = gram.panel(samples[start:], np.float64).rows(samples[start:end])
        K[start:end, start:] = block
        K[start:, start:end] = block.T
    return K
