"""The Polyceptron: Algorithm 1 (batch) and Algorithm 2 (online) of Manwani & Sastry (2011).

Both move the faces against the gradient of the criterion E_P, which sums over the misclassified samples of
each cell; the batch over all samples at once, online one sample at a time. The faces' size means nothing
to the criterion or the predictions, so any positive multiple of them is the same answer.

The paper's Algorithm 1 cannot be run as printed: its loop goes on *while* the update is smaller than the
threshold, so that it ends at once, and it sums the update over all samples of a cell. ``rule`` says
which reading is meant:

- "corrected": goes on while the update is at least the threshold; update and test are of the
  misclassified samples. The only one with the paper's run time, and the gradient of E_P.
- "cells": goes on while it is at least the threshold; update and test are of all samples of a cell, as
  printed. It never ends by itself.
- "printed": to the letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from formulations.language.arguments import at_least, one_of, positive, whole, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.progress import show, tell
from polyopt.linalg.rows import ROW_TYPES, ROWS, as_rows, in_lanes, stretches
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.linalg.rows import Rows

    Rule = Literal["corrected", "cells", "printed"]

__all__ = ["RULES", "OnlinePolyceptron", "solve_batch", "solve_online"]

RULES = ("corrected", "cells", "printed")


class Sweep(Struct):
    """Samples, faces, and what is counted of a visit, as ``native/polyceptron.inc`` has them.

    Attributes
    ----------
    values, columns, starts, shared
        The samples: :class:`polyopt.linalg.rows.Rows`.
    y, c : ndarray of shape (n,)
        Labels, +1 inside, and weights.
    W : ndarray of shape (m+1, L)
        Faces as lanes.
    tally : ndarray of shape (3,)
        E_P and the weight of the mistakes, as they were met, and the sum of the norms of the faces' updates
        (Algorithm 1); added to.
    sizes : ndarray of shape (K,)
        The samples of each cell, as they were met; added to.
    scores : ndarray of shape (L,)
        Work space.
    """

    signature: ClassVar[str] = (
        ROWS + "y: f8 (n); c: f8 (n); W!: f8 (r, L); tally!: f8 (three); sizes!: i8 (K); scores!: f8 (L)"
    )
    types = ROW_TYPES
    values: NDArray[Any]
    starts: NDArray[np.int64]
    y: Vector
    c: Vector
    W: Vector
    tally: Vector
    sizes: NDArray[np.int64]


# Algorithm 2: every misclassified sample in `order` adds step * c * y * x̃ to the face of its cell.
_pass = kernel("polyceptron_pass", "sweep: Sweep; order: i8 (o); step: f8")

# Visits to samples `first` to `last` - 1 that change no face.
_judge = kernel("polyceptron_judge", "sweep: Sweep; first: i8; last: i8")

# Algorithm 1: an iteration, of samples `first` to `last` - 1. The first call of an iteration moves the faces
# by step times the update (m+1, L) of the one before, and clears it. Then every misclassified sample (with
# `update_all`, every sample) adds c * y * x̃ to the face of its cell there. The last call measures the update.
_iterate = kernel(
    "polyceptron_iterate",
    "sweep: Sweep; first: i8; last: i8; step: f8; update_all: i8; update!: f8 (r, L)",
)


class _Sweeps:
    """Faces as lanes, and sweeps over samples with them."""

    def __init__(self, W: Vector):
        self.n_faces, self.W = len(W), in_lanes(W)

    @property
    def faces(self) -> Vector:
        """The faces (K, m+1)."""
        return self.W[:, : self.n_faces].T.copy()

    def over(self, rows: Rows, y: Vector, c: Vector) -> Sweep:
        """The struct of some samples and the faces."""
        return Sweep(
            rows.values, rows.columns, rows.starts, rows.shared, y, c, self.W, np.zeros(3),
            np.zeros(self.n_faces, dtype=np.int64), np.zeros(self.W.shape[1]),
        )  # fmt: skip


def solve_batch(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 0.1, threshold: float = 0.0,
    rule: Rule = "corrected", pocket: bool = True, patience: int | None = None, max_iter: int = 1000,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Algorithm 1 from the faces W.

    X, y, c: samples (n, m), labels (+1 inside, -1 outside) and weights (n,), positive.
    W (K, m+1): where to begin, bias last.
    step: η, positive.
    threshold: γ, at least 0, to which the sum over the faces of the norms of their updates, before the step,
        is held; 0 goes on until no sample is misclassified.
    rule: which reading of the algorithm, see the module.
    pocket: whether the answer is the iterate with the fewest mistakes (by weight), or the last one.
    patience: iterations in a row without fewer mistakes than ever before, after which the run has settled.
    max_iter: updates at most; 0 judges the start.
    time_limit: seconds.
    Returns: ``primal`` has ``W``, the objective is its E_P, ``iterations`` counts updates. ``history`` has a
        record for the faces after each update, and one numbered 0 for the start: criterion, weight of the
        mistakes, the norm that is held to the threshold, faces in use.
    """
    one_of("rule", rule, RULES)
    at_least("threshold", threshold, 0.0)
    _check(step, patience, max_iter)
    rows, state = as_rows(X), _Sweeps(W)
    sweep, update = state.over(rows, y, c), np.zeros_like(state.W)
    calls = list(stretches(len(y), rows, state.W.shape[1]))

    def visit() -> _Visit:
        _clear(sweep)
        for first, last in calls:
            _iterate(sweep, first, last, step, rule != "corrected", update)
        criterion, mistakes, norm = sweep.tally.tolist()
        goes_on = norm < threshold if rule == "printed" else norm >= threshold and mistakes > 0
        return _Visit(criterion, mistakes, _occupied(sweep), {"norm": norm}, not goes_on)

    kept = _Kept(W, pocket, patience)
    return _run("batch", "iteration", range(max_iter + 1), visit, state, kept, Clock(time_limit))


def solve_online(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 1.0, pocket: bool = True,
    patience: int | None = None, max_iter: int = 300, time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Algorithm 2 from the faces W: passes through the samples, each in a random order.

    Arguments are as in :func:`solve_batch`; `max_iter` counts passes, and `seed` is of their orders.
    ``history`` has a record for each pass: criterion and mistakes of the faces after it. The run has
    settled once a pass makes no mistake.
    """
    _check(step, patience, max_iter)
    rows, machine = as_rows(X), OnlinePolyceptron(W, step, seed)
    state = machine.state
    sweep, weighty = state.over(rows, y, c), np.flatnonzero(c > 0)
    calls = list(stretches(len(y), rows, state.W.shape[1]))

    def visit() -> _Visit:
        made = machine.pass_through(sweep, weighty, rows)
        _clear(sweep)
        for first, last in calls:
            _judge(sweep, first, last)
        criterion, mistakes, _ = sweep.tally.tolist()
        return _Visit(criterion, mistakes, _occupied(sweep), {"made": made}, made == 0)

    kept = _Kept(W, pocket, patience)
    return _run("online", "pass", range(1, max_iter + 1), visit, state, kept, Clock(time_limit))


class OnlinePolyceptron:
    """Algorithm 2 as a state that samples are shown to: what a stream of data needs.

    W (K, m+1): where to begin, bias last.
    step: η, positive.
    seed: of the orders.
    """

    def __init__(self, W: Vector, step: float = 1.0, seed: int = 0):
        self.state, self.step, self.rng = _Sweeps(W), step, np.random.default_rng(seed)

    @property
    def faces(self) -> Vector:
        """The faces (K, m+1) as they are now."""
        return self.state.faces

    def show(self, rows: Rows, y: Vector, c: Vector) -> float:
        """One pass through samples in random order; the weight of the mistakes that were made.

        rows: samples.
        y (n,): labels: +1 inside, -1 outside.
        c (n,): weights, at least 0.
        """
        return self.pass_through(self.state.over(rows, y, c), np.flatnonzero(c > 0), rows)

    def pass_through(self, sweep: Sweep, samples: NDArray[np.int64], rows: Rows) -> float:
        """The same for some of the `rows` that `sweep` has, in a random order."""
        order = self.rng.permutation(samples)
        _clear(sweep)
        for first, last in stretches(len(order), rows, self.state.W.shape[1]):
            _pass(sweep, order[first:last], self.step)
        _, mistakes, _ = sweep.tally.tolist()
        return mistakes


def _clear(sweep: Sweep) -> None:
    """Begin to count anew."""
    sweep.tally.fill(0.0)
    sweep.sizes.fill(0)


def _occupied(sweep: Sweep) -> float:
    """Number of faces in use."""
    return float(np.count_nonzero(sweep.sizes))


def _check(step: float, patience: int | None, max_iter: int) -> None:
    positive("step", step)
    whole_or_none("patience", patience)
    whole("max_iter", max_iter, 0)


class _Visit(NamedTuple):
    """What one visit to all samples found, and whether it was the last."""

    criterion: float
    mistakes: float
    occupied: float
    more: dict[str, float]  # for the record
    is_last: bool


class _Kept:
    """The faces that are the answer so far."""

    def __init__(self, W: Vector, pocket: bool, patience: int | None):
        self.W, self.criterion, self.mistakes = W, np.inf, np.inf
        self.pocket, self.patience, self.waited = pocket, patience, 0

    def offer(self, visit: _Visit, state: _Sweeps) -> None:
        """Take the faces that were visited: the last ones, or those with the fewest mistakes."""
        self.waited = 0 if visit.mistakes < self.mistakes else self.waited + 1
        if not self.pocket or visit.mistakes <= self.mistakes:  # of equals the later
            self.W, self.criterion = state.faces, visit.criterion
        self.mistakes = min(visit.mistakes, self.mistakes)

    @property
    def is_settled(self) -> bool:
        return self.patience is not None and self.waited >= self.patience


def _run(
    name: str, unit: str, numbers: range, visit: Callable[[], _Visit], state: _Sweeps, kept: _Kept,
    clock: Clock,
) -> Solution:  # fmt: skip
    """Visits until the last one, or a limit.

    The loop of :mod:`polyopt.optim.rounds` keeps the least objective; here the fewest mistakes count.
    """
    history: list[dict[str, float]] = []
    status = Status.ITERATION_LIMIT
    try:
        for number in numbers:
            found = visit()
            history.append(
                {
                    unit: float(number),
                    "seconds": clock.seconds,
                    "criterion": found.criterion,
                    "mistakes": found.mistakes,
                    "occupied": found.occupied,
                    **found.more,
                }
            )
            tell(history[-1])
            show(history[-1], lambda: {"W": state.faces})
            kept.offer(found, state)
            if found.is_last or kept.is_settled:
                status = Status.CONVERGED
                break
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = interrupted()
    return Solution(
        status, {"W": kept.W}, {}, kept.criterion, None, f"polyceptron, {name}",
        int(history[-1][unit]) if history else 0,
        solve_time=clock.seconds, history=tuple(history),
    )  # fmt: skip
