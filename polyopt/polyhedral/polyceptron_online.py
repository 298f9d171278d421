"""The Polyceptron: Algorithm 1 (batch) and Algorithm 2 (online) of Manwani & Sastry (2011).

Both move the faces against the gradient of the criterion E_P, which sums over the misclassified samples of
each cell; the batch over all samples at once, online one sample at a time. Scaling all faces by a positive
factor changes no mistake and no prediction, so any positive multiple of the faces is the same answer.

The paper's Algorithm 1 cannot be run as printed: its loop continues *while* the update is smaller than the
threshold, so that it ends at once, and it sums the update over all samples of a cell. ``rule`` says
which reading is meant:

- "corrected": continues while the update is at least the threshold; update and test are of the
  misclassified samples. The only one with the paper's run time, and the gradient of E_P.
- "cells": continues while it is at least the threshold; update and test are of all samples of a cell, as
  printed. It never ends by itself.
- "printed": to the letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from formulations.language.arguments import at_least, one_of, positive, whole, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.progress import show, tell
from polyopt.linalg.rows import ROW_TYPES, ROWS, Rows, as_rows, in_lanes, stretches
from polyopt.native.library import Struct, kernel

Rule = Literal["corrected", "cells", "printed"]
RULES = ("corrected", "cells", "printed")


class Sweep(Struct):
    """Samples, faces and counts of a visit, as ``native/polyceptron.inc`` has them.

    values, columns, starts, shared: the samples, :class:`polyopt.linalg.rows.Rows`.
    y, c (n,): labels, +1 inside, and weights.
    W (m+1, L): faces as lanes.
    tally (3,): E_P and the weight of the mistakes, as they were met, and the sum of the norms of the faces'
        updates (Algorithm 1); added to.
    sizes (K,): the samples of each cell, as they were met; added to.
    scores (L,): work space.
    """

    signature: ClassVar[str] = (
        ROWS + "y: f8 (n); c: f8 (n); W!: f8 (r, L); tally!: f8 (three); sizes!: i8 (K); scores!: f8 (L)"
    )
    types = ROW_TYPES


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
        """Bind some samples and the faces in a struct."""
        return Sweep(
            rows.values, rows.columns, rows.starts, rows.shared, y, c, self.W, np.zeros(3),
            np.zeros(self.n_faces, dtype=np.int64), np.zeros(self.W.shape[1]),
        )  # fmt: skip


def solve_batch(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 0.1, threshold: float = 0.0,
    rule: Rule = "corrected", pocket: bool = True, patience: int | None = None, max_iter: int = 1000,
    time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Run Algorithm 1 from the faces W.

    X, y, c: samples (n, m), labels (+1 inside, -1 outside) and weights (n,), positive.
    W (K, m+1): where to begin, bias last.
    step: η, positive.
    threshold: γ, at least 0, compared with the sum over the faces of the norms of their updates before the
        step; 0 continues until no sample is misclassified.
    rule: the reading of the algorithm, see the module.
    pocket: True returns the iterate with the fewest mistakes (by weight), False the last one.
    patience: iterations in a row without fewer mistakes than ever before, after which the run has settled.
    max_iter: updates at most; 0 judges the start.
    Returns: ``primal`` has ``W``, the objective is its E_P, ``iterations`` counts updates. ``history`` has a
        record for the faces after each update, and one numbered 0 for the start: criterion, weight of the
        mistakes, the norm that is compared with the threshold, faces in use.
    """
    one_of("rule", rule, RULES)
    at_least("threshold", threshold, 0.0)
    _check(step, patience, max_iter)
    rows, state = as_rows(X), _Sweeps(W)
    sweep, update = state.over(rows, y, c), np.zeros_like(state.W)
    calls = list(stretches(len(y), rows, state.W.shape[1]))

    def visit() -> tuple[dict[str, float], bool]:
        _clear(sweep)
        for first, last in calls:
            _iterate(sweep, first, last, step, rule != "corrected", update)
        _, mistakes, norm = sweep.tally.tolist()
        goes_on = norm < threshold if rule == "printed" else norm >= threshold and mistakes > 0
        return {"norm": norm}, not goes_on

    numbers = range(max_iter + 1)
    return _run("batch", "iteration", numbers, visit, state, sweep, W, pocket, patience, Clock(time_limit))


def solve_online(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 1.0, pocket: bool = True,
    patience: int | None = None, max_iter: int = 300, time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Run Algorithm 2 from the faces W: passes through the samples, each in a random order of the seed.

    Arguments are as in :func:`solve_batch`; `max_iter` counts passes. ``history`` has a record for each pass:
    criterion and mistakes of the faces after it. The run has settled once a pass makes no mistake.
    """
    _check(step, patience, max_iter)
    rows, machine = as_rows(X), OnlinePolyceptron(W, step, seed)
    state = machine.state
    sweep, weighty = state.over(rows, y, c), np.flatnonzero(c > 0)
    calls = list(stretches(len(y), rows, state.W.shape[1]))

    def visit() -> tuple[dict[str, float], bool]:
        made = machine.pass_through(sweep, weighty, rows)
        _clear(sweep)
        for first, last in calls:
            _judge(sweep, first, last)
        return {"made": made}, made == 0

    numbers = range(1, max_iter + 1)
    return _run("online", "pass", numbers, visit, state, sweep, W, pocket, patience, Clock(time_limit))


class OnlinePolyceptron:
    """Algorithm 2 as a state that samples are shown to, for a stream of data.

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
        """Pass once through samples in random order, and return the weight of the mistakes made.

        y, c (n,): labels, +1 inside, -1 outside, and weights, at least 0.
        """
        return self.pass_through(self.state.over(rows, y, c), np.flatnonzero(c > 0), rows)

    def pass_through(self, sweep: Sweep, samples: NDArray[np.int64], rows: Rows) -> float:
        """Pass once through some of the `rows` of a sweep."""
        order = self.rng.permutation(samples)
        _clear(sweep)
        for first, last in stretches(len(order), rows, self.state.W.shape[1]):
            _pass(sweep, order[first:last], self.step)
        _, mistakes, _ = sweep.tally.tolist()
        return mistakes


def _clear(sweep: Sweep) -> None:
    sweep.tally.fill(0.0)
    sweep.sizes.fill(0)


def _check(step: float, patience: int | None, max_iter: int) -> None:
    positive("step", step)
    whole_or_none("patience", patience)
    whole("max_iter", max_iter, 0)


def _run(
    name: str, unit: str, numbers: range, visit: Callable[[], tuple[dict[str, float], bool]], state: _Sweeps,
    sweep: Sweep, W: Vector, pocket: bool, patience: int | None, clock: Clock,
) -> Solution:  # fmt: skip
    """Visit all samples until a limit; keep the last faces, or those with the fewest mistakes.

    `visit` returns entries of the record, and True if no further visit is needed. (The loop of
    :mod:`polyopt.optim.rounds` keeps the least objective instead.)
    """
    criterion, fewest, waited = np.inf, np.inf, 0
    history: list[dict[str, float]] = []
    status = Status.ITERATION_LIMIT
    try:
        for number in numbers:
            more, is_last = visit()
            found, mistakes, _ = sweep.tally.tolist()
            record = {unit: float(number), "seconds": clock.seconds, "criterion": found, "mistakes": mistakes}
            history.append({**record, "occupied": float(np.count_nonzero(sweep.sizes)), **more})
            tell(history[-1])
            show(history[-1], lambda: {"W": state.faces})
            waited = 0 if mistakes < fewest else waited + 1
            if not pocket or mistakes <= fewest:  # of equals the later
                W, criterion = state.faces, found
            fewest = min(mistakes, fewest)
            if is_last or (patience is not None and waited >= patience):
                status = Status.CONVERGED
                break
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = interrupted()
    return Solution(
        status, {"W": W}, {}, criterion, None, f"polyceptron, {name}",
        int(history[-1][unit]) if history else 0,
        solve_time=clock.seconds, history=tuple(history),
    )  # fmt: skip
