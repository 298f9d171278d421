"""Local steps of Algorithm 1: several runs from one point, each through samples of its own, and their mean.

A run's state travels with it, from one block of its samples to the next, and is plain arrays. The step is
Algorithm 1's, 1/(λ(t+1)), with t counted by each run for itself; so S runs of H steps each move as far as H
steps of one run do, with a noise that the mean divides by S. The runs begin each round at the same point.

Weighted by the samples that they visit, the mean of the runs' iterates is one sequence. Its average with
weights t⁴ (Stich's theorem has (a + t)²) is the mean of the runs' averages, as these are linear, where all
runs take as many steps. Where they have unequal numbers of samples it is so nearly; no proof rests on it.

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), Algorithm 1.
Stich, Local SGD Converges Fast and Communicates Little (2019): a mean over all runs after every H steps, and
steps like 1/(λ(a + t)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.cpm.sgd import AVERAGE, LOSS, CpmSgd
from polyopt.linalg.rows import in_lanes
from polyopt.margin.interior_point.crew import total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.linalg.rows import Rows

    Vector = NDArray[np.float64]

__all__ = ["Point", "Run", "begin", "mean", "visit"]


class Point(NamedTuple):
    """Where all runs of a round begin.

    W (K, m+1): the faces, bias last.
    A (K, m+1): the average of the iterates; W where none has entered it.
    steps: t: how many steps a run has taken so far, or what the start counts for.
    weight: the weights in the average, over that of the last iterate; 0 where none has entered it.
    """

    W: Vector
    A: Vector
    steps: int
    weight: float = 0.0


class Run(NamedTuple):
    """A run on its way: U and A as of :class:`~polyopt.cpm.sgd.CpmSgd`.

    `loss` is the sum of the hinges as they were met, times the samples' gains.
    """

    U: NDArray[Any]
    A: NDArray[Any]
    steps: int
    weight: float
    loss: float


def begin(point: Point, dtype: type[np.floating[Any]]) -> Run:
    """A run that begins at a point.

    point: the point.
    dtype: of the weights: float32 or float64.
    """
    U, A = (in_lanes(W, dtype) for W in ((point.steps + 1.0) * point.W, point.A))
    return Run(U, A, point.steps, point.weight, 0.0)


def visit(
    run: Run, rows: Rows, outside: NDArray[np.bool_], gains: Vector, order: NDArray[np.int64], n_faces: int,
    scale: float = 1.0,
) -> Run:  # fmt: skip
    """The run after one step of Algorithm 1 for each sample in `order`.

    run: the run, which stays as it is.
    n_faces: K.
    scale: what every entry of the rows counts times.
    """
    sgd = CpmSgd(rows.width, n_faces, scale=scale, dtype=run.U.dtype.type)
    sgd.U, sgd.A, sgd.steps[0] = run.U.copy(), run.A.copy(), run.steps
    sgd.tally[AVERAGE], sgd.tally[LOSS] = run.weight, run.loss
    unseen = np.full(len(gains), -1)
    sgd.show(rows, outside, gains, order, unseen, unseen.copy())
    return Run(sgd.U, sgd.A, int(sgd.steps[0]), float(sgd.tally[AVERAGE]), float(sgd.tally[LOSS]))


def mean(runs: Sequence[Run], counts: Sequence[int], n_faces: int) -> Point:
    """The mean of runs that have ended, each weighted by the samples that it stands for.

    runs: the runs, all from one point, in their order.
    counts: how many samples each has, at least 1 in all.
    n_faces: K.
    """
    shares = [count / sum(counts) for count in counts]
    W, A = (
        total([share * _faces(values, n_faces) for share, values in zip(shares, each, strict=True)])
        for each in ([run.U / (run.steps + 1.0) for run in runs], [run.A for run in runs])
    )
    longest = max(runs, key=lambda run: run.steps)
    return Point(W, A, longest.steps, longest.weight)


def _faces(lanes: NDArray[Any], n_faces: int) -> Vector:
    return np.ascontiguousarray(lanes[:, :n_faces].T, dtype=np.float64)
