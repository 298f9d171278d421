"""A start for many samples: cells of near samples, each solved alone, their multipliers side by side.

Where the RBF kernel between samples of different cells is small, the matrix is nearly block diagonal, and
the multipliers of the cells are nearly those of the whole: most of them are at their bounds already, and
stay there. What is left costs a working set of all samples a small part of what it would have to do from
zero. Cells are found by k-means, they are as large as a processor deals with in a moment, and they are
solved on as many threads as there may be. Multipliers of the cells are feasible together.

It helps where many multipliers are at their bounds: the kernel rows of those that are not are wanted again
afterwards. One cell is solved first, to see which they are. And a wide kernel connects the cells: their
machines say the same again and again, and together they say it too often. That is measured on some rows.

Of very many samples the cells are large, and have starts of their own cells.

References
----------
Hsieh, Si & Dhillon, A Divide-and-Conquer Solver for Kernel Support Vector Machines (2014).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import SampleGram, outputs_at
from polyopt.margin.decomposition.dual import Dual

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from formulations.language.types import Vector
    from polyopt.linalg.kernels import Gram

    Samples = NDArray[np.intp]

__all__ = ["beta_of_cells"]

_MIN_SAMPLES = 15_000  # samples from which on cells are worth while
_CELL_SAMPLES, _MAX_CELLS = 4_000, 16  # samples of a cell, about, where that makes no more cells than these
_KMEANS_SAMPLES, _KMEANS_ROUNDS = 20_000, 10  # samples that k-means learns from, and its rounds
_MIN_BOUNDED_SHARE = 0.15  # share of a cell's multipliers that must be at bounds other than 0
_MIN_BOUNDED_PER_FREE = 1.5  # the same, relative to those between bounds


def beta_of_cells(
    gram: Gram, dual: Dual, solve: Callable[[SampleGram, Dual], Vector], clock: Clock
) -> Vector | None:
    """Return β to start from; None if the kernel has no cells, or if their multipliers promise nothing.

    solve: β of one cell, from its matrix and its program; called on threads.
    clock: once its time is over, no cell is begun.
    """
    if not isinstance(gram, SampleGram) or gram.kernel.name != "rbf":
        return None
    if gram.n < _MIN_SAMPLES or not dual.rests_at_zero:
        return None
    beta = np.zeros(gram.n)

    def solve_cell(cell: Samples) -> None:
        if not clock.is_over:
            beta[cell] = solve(gram.part(cell), Dual(dual.rows.part(cell)))

    # Where nothing pulls some outputs up and others down, there is nothing to solve.
    cells = [cell for cell in _cells(gram.X) if dual.rows.part(cell).pulls_both_ways]
    if not cells:
        return None
    first = cells.pop(len(cells) // 2)
    solve_cell(first)
    if not _is_mostly_bounded(dual, beta, first):
        return None
    run_blocks(solve_cell, cells)
    return beta if not clock.is_over and _is_near(gram, dual, beta) else None


def _cells(X: Any) -> list[Samples]:
    """The samples by cells, the largest first."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    n = X.shape[0]
    count = min(-(-n // _CELL_SAMPLES), _MAX_CELLS)
    some = np.linspace(0, n - 1, min(n, _KMEANS_SAMPLES)).astype(np.intp)
    with warnings.catch_warnings(), threadpool_limits(1):  # sums on several threads differ in the last digits
        warnings.simplefilter("ignore")  # fewer cells are as good
        means = KMeans(count, n_init=1, max_iter=_KMEANS_ROUNDS, init="random", random_state=0).fit(X[some])
        label = means.predict(X)
    order, ends = np.argsort(label, kind="stable"), np.cumsum(np.bincount(label, minlength=count))
    cells = [part for cell in np.split(order, ends[:-1]) for part in _pieces(np.sort(cell), n // count)]
    return sorted(cells, key=len, reverse=True)


def _pieces(cell: Samples, size: int) -> list[Samples]:
    """A cell, cut where it is more than twice as large as it should be."""
    return np.array_split(cell, -(-len(cell) // (2 * size))) if len(cell) else []


def _is_mostly_bounded(dual: Dual, beta: Vector, cell: Samples) -> bool:
    """Return True if many samples of a cell are at a bound other than 0, and far fewer between bounds."""
    is_free = dual.is_free(beta)[cell]
    bounded, free = int((~is_free & (beta[cell] != 0.0)).sum()), int(is_free.sum())
    return bounded >= max(_MIN_BOUNDED_SHARE * len(cell), _MIN_BOUNDED_PER_FREE * free)


def _is_near(gram: SampleGram, dual: Dual, beta: Vector) -> bool:
    """Return True if the dual on the line from 0 through β has its maximum at β or not far before."""
    support = np.flatnonzero(beta)
    if not len(support):
        return False
    some = support[np.linspace(0, len(support) - 1, min(len(support), 512)).astype(np.intp)]
    outputs = outputs_at(gram, some, beta)
    energy = float(beta[some] @ outputs) * len(support) / len(some)
    return dual.gain(beta) > 0.75 * energy  # the best multiple of β is above 0.75
