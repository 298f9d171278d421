"""A Convex Polytope Machine that learns from chunks of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.solution import Solution, Status
from polyopt.estimators.base import checked_weights
from polyopt.rows import as_rows
from polyopt.solvers.clock import Clock
from polyopt.solvers.cpm.kernels import LOSS, MOVED
from polyopt.solvers.cpm.sgd import CpmSgd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["PolytopeStream", "begin_pairs", "show_pairs", "stream_classes"]


def stream_classes(machine: Any, y: Any, classes: ArrayLike | None, first: bool) -> NDArray[Any]:
    """The labels of a stream, and a check that those of this chunk are among them."""
    if first or not hasattr(machine, "classes_"):
        labels = np.unique(y if classes is None else classes)
        if len(labels) < 2:
            raise ValueError(
                "partial_fit needs two classes or more, named by classes= at the first call unless the "
                f"first chunk has them; there is one class: {labels.tolist()}"
            )
    else:
        labels = machine.classes_
        if classes is not None and not np.array_equal(np.unique(classes), labels):
            raise ValueError(f"classes must be those of the first call, {labels.tolist()}, not {classes!r}")
    foreign = set(np.unique(y).tolist()) - set(labels.tolist())
    if foreign:
        raise ValueError(f"y must be of the classes {labels.tolist()}; it has {sorted(foreign)}")
    return labels


def begin_pairs(machine: Any) -> None:
    """One machine for each pair of more than two classes."""
    pairs = list(combinations(machine.classes_, 2))
    machine.estimators_ = [machine._for_pairs(None, np.empty(0)) for _ in pairs]
    machine.pairs_ = pairs
    machine._rows, machine._pair_places = np.empty(0, dtype=int), [np.empty(0, dtype=int)] * len(pairs)


def show_pairs(
    machine: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    settings: Callable[[float], dict[str, Any]] = lambda share: {},
) -> None:
    """Show a chunk of more than two classes to the machines of all pairs.

    `settings` gives further arguments of ``partial_fit`` for the share of all the data that a pair has.
    """
    weights = checked_weights(sample_weight, X)
    for part, pair in zip(machine.estimators_, machine.pairs_, strict=True):
        mine = np.isin(y, pair)
        share = max(mine.mean(), 1.0 / len(y))  # of all the data, as far as the first chunk tells
        if mine.any():
            part.partial_fit(X[mine], y[mine], pair, weights[mine], **settings(share))
    seen = [part for part in machine.estimators_ if hasattr(part, "solution_")]
    machine.solution_, machine.n_iter_ = [part.solution_ for part in seen], max(part.n_iter_ for part in seen)


_JUDGES = 4096  # samples of a chunk, at most, by which its answer is chosen


@dataclass
class PolytopeStream:
    """What is kept between two calls of ``partial_fit``.

    Attributes
    ----------
    sides : list of CpmSgd
        Algorithm 1 for each polytope.
    outer : list of float
        Which class is outside of it: +1 for ``classes_[1]``, -1 for ``classes_[0]``.
    n_total : int
        Size of all the data, which C refers to.
    chunks : int
        Chunks seen.
    """

    sides: list[CpmSgd]
    outer: list[float]
    n_total: int
    chunks: int = 0
    history: list[list[dict[str, float]]] = field(default_factory=list)

    @classmethod
    def begin(cls, machine: Any, X: Any, n_total: int | None) -> PolytopeStream:
        """The stream of a machine that has seen nothing, or whose last fit was on whole data."""
        if n_total is not None and not n_total >= 1:
            raise ValueError(f"n_total must be at least 1, not {n_total!r}")
        outer = [1.0, -1.0] if machine.double_sided else [machine._chosen_side()]
        sides = [
            CpmSgd(
                X.shape[1], machine.n_faces, perplexity=machine.perplexity, average=machine.average,
                scale=machine.feature_scale, seed=machine._seed(),
            )
            for _ in outer
        ]  # fmt: skip
        return cls(sides, outer, X.shape[0] if n_total is None else int(n_total), history=[[] for _ in outer])

    def show(self, machine: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """One step for each sample, in random order; the machine's faces are then those of now."""
        weights = checked_weights(sample_weight, X)
        machine._check_sizes(X, weights, machine.C)
        codes = (y == machine.classes_[1]).astype(int)
        weights = weights * machine._class_weights(codes, weights)[codes]
        clock, rows, n = Clock(None), as_rows(X), X.shape[0]
        self.chunks += 1
        # Some of the chunk stand for all the data, to tell the better of last iterate and average.
        few = np.arange(0, n, -(-n // _JUDGES))
        judges = as_rows(X[few])
        parts = self._machines(machine)
        for part, sgd, outer, history in zip(parts, self.sides, self.outer, self.history, strict=True):
            sgd.tally[LOSS] = sgd.tally[MOVED] = 0.0
            new = np.full(n, -1)
            outside, costs = (codes == 1) == (outer > 0), machine.C * weights
            order = sgd.rng.permutation(np.flatnonzero(weights))
            sgd.show(rows, outside, 0.5 * self.n_total * costs, order, new, new.copy())
            last = sgd.U / (sgd.steps[0] + 1.0)
            estimate = float((last**2).sum() + 2.0 * sgd.tally[LOSS] / n)
            used = new[new >= 0]
            history.append(
                {
                    "chunk": float(self.chunks),
                    "steps": float(sgd.steps[0]),
                    "seconds": clock.seconds,
                    "estimate": estimate,
                    "occupied": float(len(np.unique(used))),
                }
            )
            W, _ = sgd.answer(judges, outside[few], costs[few] * (self.n_total / len(few)))
            part._side, part.solver_, part.n_iter_ = outer, "sgd", self.chunks
            part._show(
                Solution(
                    Status.CONVERGED, {"W": W}, {}, estimate, None, "sgd, a stream",
                    iterations=self.chunks, history=tuple(history),
                )
            )  # fmt: skip
        if machine.double_sided:
            machine.sides_, machine.solver_, machine.n_iter_ = tuple(parts), "sgd", self.chunks
            machine.solution_ = [part.solution_ for part in parts]

    def _machines(self, machine: Any) -> list[Any]:
        """The machines whose faces are learnt, without what an earlier fit on whole data left."""
        if machine.double_sided:
            return [machine._one_sided() for _ in self.sides]
        for name in ("_X", "_y", "_rows", "_costs", "assignment_", "perplexity_"):
            machine.__dict__.pop(name, None)
        return [machine]
