"""A start of the exact programs from where dual coordinate ascent ends.

Dual ascent goes through an assignment in a small part of the time that the explicit programs take, and its
starts are loosened (:meth:`polyopt.cpm.dual.DualEngine.loosen`), which ends lower more often than not.
So the exact solver makes one run more than it was asked for: from the best end of half as many dual ascents,
each to a gap of a hundredth. On small data they take up to four tenths of the time of the other runs.

The ascents see equal samples as one, in an order of their own, so that neither repetition in place of weight
nor the order of the samples makes a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.solution import Status
from formulations.language.types import dense, is_sparse
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.optim.rounds import Stage, run_from_many_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector

__all__ = ["best_dual_end"]

_MAX_DENSE_ENTRIES = 5_000_000  # of sparse samples that are made dense to be compared


def best_dual_end(
    X: Matrix, y: Vector, C: Vector, n_faces: int, *,
    n_init: int, max_iter: int, time_limit: float | None, seed: int,
) -> NDArray[np.int64]:  # fmt: skip
    """The assignment (n,), -1 at negatives, at which the best of some dual ascents ends.

    n_init: the exact solver's starts, twice the dual ascents.
    max_iter: rounds at most, of each.
    time_limit: seconds, for all of them; the first round is always made.
    seed: of the starts.
    KeyboardInterrupt: Ctrl-C in one of the ascents: whoever has a point ends with it.
    """
    samples, labels, costs, place = _distinct(X, y, C)
    problem = PolytopeProblem(samples, labels, costs, n_faces, engine="dual", tol=1e-2)
    found = run_from_many_starts(
        [Stage(problem, max_iter)], n_init=max(n_init // 2, 1), time_limit=time_limit, seed=seed, n_jobs=1
    )
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return np.asarray(found["assignment"][place])


def _distinct(X: Matrix, y: Vector, C: Vector) -> tuple[Matrix, Vector, Vector, NDArray[np.int64]]:
    """Each sample once, with the sum of its costs, sorted; and each given sample's place among them."""
    if is_sparse(X) and X.shape[0] * X.shape[1] > _MAX_DENSE_ENTRIES:
        return X, y, C, np.arange(len(y))
    rows = np.column_stack([y, dense(X)])
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    at: NDArray[np.int64] = place.ravel().astype(np.int64)
    costs = np.zeros(len(unique))
    np.add.at(costs, at, C)
    return np.ascontiguousarray(unique[:, 1:]), unique[:, 0].copy(), costs, at
