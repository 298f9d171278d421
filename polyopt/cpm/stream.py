"""The state of a Convex Polytope Machine that learns from chunks of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.cpm.sgd import LOSS, MOVED, CpmSgd
from polyopt.estimators.stream import own_arrays
from polyopt.linalg.rows import Rows, as_rows

_MAX_JUDGES = 4096  # samples of a chunk by which the better of last iterate and average is chosen


@dataclass
class PolytopeStream:
    """The state between two chunks.

    Attributes
    ----------
    sides : list of CpmSgd
        Algorithm 1 for each polytope.
    outer : list of float
        The class outside of it: +1 for ``classes_[1]``, -1 for ``classes_[0]``.
    n_total : int
        Size of all the data, which C refers to.
    chunks : int
        Chunks seen.
    history : list
        Records of each polytope.
    """

    sides: list[CpmSgd]
    outer: list[float]
    n_total: int
    chunks: int = 0
    history: list[list[dict[str, float]]] = field(init=False)

    def __post_init__(self) -> None:
        self.history = [[] for _ in self.outer]

    def show(self, X: Any, codes: NDArray[np.int64], C: Array) -> list[Solution]:
        """Take one step for each sample, in random order; return the faces then, of each polytope.

        `codes` (n,) are 1 for ``classes_[1]``, 0 for ``classes_[0]``; C (n,) is the cost of slack.
        """
        clock, rows, n = Clock(None), as_rows(X), X.shape[0]
        self.chunks += 1
        few = np.arange(0, n, -(-n // _MAX_JUDGES))
        judges, price = as_rows(X[few]), C[few] * (self.n_total / len(few))
        found = []
        for sgd, outer, history in zip(self.sides, self.outer, self.history, strict=True):
            own_arrays(sgd)
            outside = (codes == 1) == (outer > 0)
            history.append({"chunk": float(self.chunks), **self._step(sgd, rows, outside, C, clock)})
            W, _ = sgd.answer(judges, outside[few], price)
            found.append(
                Solution(
                    Status.CONVERGED, {"W": W}, {}, history[-1]["estimate"], None, "sgd, a stream",
                    iterations=self.chunks, history=tuple(history),
                )
            )  # fmt: skip
        return found

    def _step(
        self, sgd: CpmSgd, rows: Rows, outside: NDArray[np.bool_], C: Array, clock: Clock
    ) -> dict[str, float]:
        """Show a chunk to one polytope; return the record for its history."""
        sgd.tally[LOSS] = sgd.tally[MOVED] = 0.0
        faces = np.full(len(C), -1)
        order = sgd.rng.permutation(np.flatnonzero(C))
        sgd.show(rows, outside, 0.5 * self.n_total * C, order, faces, faces.copy())
        last = sgd.U / (sgd.steps[0] + 1.0)
        return {
            "steps": float(sgd.steps[0]),
            "seconds": clock.seconds,
            "estimate": float((last**2).sum() + 2.0 * sgd.tally[LOSS] / len(C)),
            "occupied": float(len(np.unique(faces[faces >= 0]))),
        }
