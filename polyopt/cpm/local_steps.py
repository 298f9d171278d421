"""Local SGD: runs of Algorithm 1 (:mod:`polyopt.cpm.sgd`) from one point on disjoint samples, and their mean.

The state of a run is plain arrays, so that it can move from one block of its samples to the next:
:func:`begin` a run at a :class:`Point`, :func:`visit` the blocks, and take the :func:`mean` of all runs as
the point of the next round. Each run counts its own steps t, so S runs of H steps move as far as one run of H
steps, and the mean divides the variance of their noise by S.

The mean of the runs' averages is the average of the runs' mean if all runs make equally many steps (averages
are linear), and approximately otherwise. No certificate depends on it.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Stich, Local SGD Converges Fast and Communicates Little (2019): a mean of all runs after every H steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Vector
from polyopt.cpm.sgd import AVERAGE, LOSS, CpmSgd, faces_of, iterate, running_sum
from polyopt.linalg.rows import Rows, in_lanes


class Point(NamedTuple):
    """The common start of a round."""

    W: Vector  # faces (K, m+1)
    A: Vector  # average of the iterates (K, m+1); W if it has none yet
    steps: int  # t: steps of each run so far, or as many as the start counts for
    weight: float = 0.0  # sum of the weights in the average, relative to the last iterate's


class Run(NamedTuple):
    """The state of a run, as in :class:`~polyopt.cpm.sgd.CpmSgd`."""

    U: NDArray[Any]  # iterate as a running sum (m+1, L)
    A: NDArray[Any]  # average of the iterates (m+1, L)
    steps: int  # t
    weight: float  # sum of the weights in the average, relative to the last iterate's
    loss: float  # sum of the hinges at the steps, times the gains


def begin(point: Point, dtype: type[np.floating[Any]]) -> Run:
    """Return a run that begins at a point, with weights in float32 or float64."""
    U, A = (in_lanes(W, dtype) for W in (running_sum(point.W, point.steps), point.A))
    return Run(U, A, point.steps, point.weight, 0.0)


def visit(
    run: Run, rows: Rows, outside: NDArray[np.bool_], gains: Vector, order: NDArray[np.int64], n_faces: int,
    scale: float = 1.0,
) -> Run:  # fmt: skip
    """Return the run after one step per sample in `order`; arguments as in :meth:`CpmSgd.prepare_run`."""
    sgd = CpmSgd(rows.width, n_faces, scale=scale, dtype=run.U.dtype.type)
    sgd.U, sgd.A, sgd.steps[0] = run.U.copy(), run.A.copy(), run.steps
    sgd.tally[AVERAGE], sgd.tally[LOSS] = run.weight, run.loss
    not_visited = np.full(len(gains), -1)
    sgd.learn(rows, outside, gains, order, not_visited, not_visited.copy())
    return Run(sgd.U, sgd.A, int(sgd.steps[0]), float(sgd.tally[AVERAGE]), float(sgd.tally[LOSS]))


def mean(runs: Sequence[Run], counts: Sequence[int], n_faces: int) -> Point:
    """Return the mean of a round's runs, weighted by their numbers of samples (`counts`, not all 0)."""
    weights = [count / sum(counts) for count in counts]
    W, A = (
        sum(weight * faces_of(lanes, n_faces) for weight, lanes in zip(weights, arrays, strict=True))
        for arrays in ([iterate(run.U, run.steps) for run in runs], [run.A for run in runs])
    )
    longest = max(runs, key=lambda run: run.steps)
    return Point(np.asarray(W), np.asarray(A), longest.steps, longest.weight)
