"""Streaming fits of the Convex Polytope Machine: SGD (Algorithm 1) over chunks of samples.

:class:`PolytopeStream` is the state between two calls of the estimator's ``partial_fit``. A machine has one
polytope, or two, one around each class (``inside_label="both"``).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.cpm.sgd import LOSS, MOVED, CpmSgd
from polyopt.estimators.stream import make_arrays_writable
from polyopt.linalg.rows import Rows, as_rows

_MAX_SELECTION_ROWS = 4096  # largest number of rows on which the last iterate and the average are compared


@dataclass
class PolytopeStream:
    """The state between two chunks."""

    learners: list[CpmSgd]  # the SGD of each polytope
    outside_labels: list[float]  # class outside each polytope: +1 for ``classes_[1]``, -1 for ``classes_[0]``
    n_total: int  # number of samples of the whole data set; the objective is ‖W‖² + Σ C_i hinge_i over these
    chunks: int = 0  # number of chunks so far
    history: list[list[dict[str, float]]] = field(init=False)  # for each polytope one record per chunk

    def __post_init__(self) -> None:
        self.history = [[] for _ in self.outside_labels]

    def partial_fit(self, X: Any, codes: NDArray[np.int64], C: Array) -> list[Solution]:
        """Take one SGD step for each sample of a chunk, in random order.

        X (n, m): samples of the chunk.
        codes (n,): 1 for ``classes_[1]``, 0 for ``classes_[0]``.
        C (n,): cost of slack.
        Returns: one solution per polytope, with the better of the last iterate and the average. Its status
            is always CONVERGED, because a stream has no stopping test.
        """
        clock, rows, n = Clock(None), as_rows(X), X.shape[0]
        self.chunks += 1
        # The better iterate is chosen on evenly spaced rows, with costs rescaled to n_total samples.
        subset = np.arange(0, n, -(-n // _MAX_SELECTION_ROWS))
        subset_rows, subset_costs = as_rows(X[subset]), C[subset] * (self.n_total / len(subset))
        solutions = []
        for sgd, label, history in zip(self.learners, self.outside_labels, self.history, strict=True):
            make_arrays_writable(sgd)
            outside = (codes == 1) == (label > 0)
            history.append({"chunk": float(self.chunks), **self._learn_chunk(sgd, rows, outside, C, clock)})
            W, _ = sgd.best_iterate(subset_rows, outside[subset], subset_costs)
            solutions.append(
                Solution(
                    Status.CONVERGED, {"W": W}, {}, history[-1]["estimate"], None, "sgd (streaming)",
                    iterations=self.chunks, history=tuple(history),
                )
            )  # fmt: skip
        return solutions

    def _learn_chunk(
        self, sgd: CpmSgd, rows: Rows, outside: NDArray[np.bool_], C: Array, clock: Clock
    ) -> dict[str, float]:
        """Take the steps for one polytope; return a record for its history."""
        sgd.tally[LOSS] = sgd.tally[MOVED] = 0.0
        faces = np.full(len(C), -1)  # natural faces at the last visit: none, because every sample is new
        order = sgd.rng.permutation(np.flatnonzero(C))
        # The gain of a sample is its weight over λ, ½ n_total C_i (:mod:`polyopt.cpm.sgd`). LOSS is the sum
        # of gain times hinge: twice its mean over the chunk estimates Σ C_i hinge_i over n_total samples.
        arguments = sgd.step_arguments(rows, outside, 0.5 * self.n_total * C, faces, faces.copy())
        sgd.take_steps(arguments, rows, order)
        return {
            "steps": float(sgd.steps[0]),
            "seconds": clock.seconds,
            "estimate": float((sgd.last**2).sum() + 2.0 * sgd.tally[LOSS] / len(C)),
            "occupied": float(len(np.unique(faces[faces >= 0]))),
        }
