"""Local steps of Algorithm 1: several runs from one point, each through samples of its own, and their mean.

The state of a run is plain arrays, so that it can move from one block of its samples to the next. Each run
counts its steps t by itself, so S runs of H steps move as far as H steps of one run do, with a noise that the
mean divides by S. All runs of a round begin at the same point.

The mean of the runs' averages is the average of the runs' mean, if all runs take as many steps (averages are
linear); with unequal numbers of samples this holds approximately. No certificate depends on it.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Stich, Local SGD Converges Fast and Communicates Little (2019): a mean over all runs after every H steps, and
steps like 1/(λ(a + t)).
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
    A: Vector  # average of the iterates (K, m+1); W if no iterate has entered the average
    steps: int  # t: steps of a run so far, or the number that the start counts for
    weight: float = 0.0  # sum of the weights in the average, relative to the last iterate's


class Run(NamedTuple):
    """The state of a run: U, A, t and the tally's sums as in :class:`~polyopt.cpm.sgd.CpmSgd`."""

    U: NDArray[Any]
    A: NDArray[Any]
    steps: int
    weight: float
    loss: float


def begin(point: Point, dtype: type[np.floating[Any]]) -> Run:
    """Begin a run at a point, with weights in float32 or float64."""
    U, A = (in_lanes(W, dtype) for W in (running_sum(point.W, point.steps), point.A))
    return Run(U, A, point.steps, point.weight, 0.0)


def visit(
    run: Run, rows: Rows, outside: NDArray[np.bool_], gains: Vector, order: NDArray[np.int64], n_faces: int,
    scale: float = 1.0,
) -> Run:  # fmt: skip
    """Return the run after one step of Algorithm 1 for each sample in `order`; `run` is not changed."""
    sgd = CpmSgd(rows.width, n_faces, scale=scale, dtype=run.U.dtype.type)
    sgd.U, sgd.A, sgd.steps[0] = run.U.copy(), run.A.copy(), run.steps
    sgd.tally[AVERAGE], sgd.tally[LOSS] = run.weight, run.loss
    unseen = np.full(len(gains), -1)
    sgd.learn(rows, outside, gains, order, unseen, unseen.copy())
    return Run(sgd.U, sgd.A, int(sgd.steps[0]), float(sgd.tally[AVERAGE]), float(sgd.tally[LOSS]))


def mean(runs: Sequence[Run], counts: Sequence[int], n_faces: int) -> Point:
    """Return the mean of the runs of a round, weighted by their numbers of samples (at least 1 in all)."""
    weights = [count / sum(counts) for count in counts]
    W, A = (
        sum(weight * faces_of(lanes, n_faces) for weight, lanes in zip(weights, arrays, strict=True))
        for arrays in ([iterate(run.U, run.steps) for run in runs], [run.A for run in runs])
    )
    longest = max(runs, key=lambda run: run.steps)
    return Point(np.asarray(W), np.asarray(A), longest.steps, longest.weight)
