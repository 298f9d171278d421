"""Dual coordinate solver of the Convex Polytope Machine with loss="sum" and a fixed assignment.

The K faces are independent (formulations.cpm.face), and share their samples:

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ C_i     for every face k.

A cold start begins with exact coordinate steps (Hsieh et al., 2008) on all faces, in one pass over the
samples. Then two things alternate: a scan of all samples, which measures the gap, and coordinate steps of
each face over the few samples whose multipliers are not at rest at 0
(:class:`polyopt.optim.coordinate_ascent.FaceAscent`).

References
----------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6).
Hsieh et al., A Dual Coordinate Descent Method for Large-scale Linear SVM (2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.recovery import as_costs
from formulations.language.solution import Solution, Status
from formulations.polytope import check_assignment
from polyopt.linalg.rows import Rows, as_rows
from polyopt.optim.coordinate_ascent import FaceAscent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, Vector

    Integers = NDArray[np.int64]

__all__ = ["dual_machine", "solve_cpm_dual"]

_MIN_SINGLE_ENTRIES = 1 << 21  # entries above which scans in single precision are worth their rounding
_MAX_SINGLE_VALUE = 1e4  # largest entry for which they are good to about six digits
_MIN_SINGLE_TOL = 1e-5  # tolerance below which they are not good enough
_MIN_REL_RISE = 1e-13  # of the bound, in a round that makes progress
_MAX_IDLE_ROUNDS = 30  # rounds without progress after which a run has stalled
_START_SWEEPS = 2  # sweeps over all samples from α = 0


def dual_machine(
    X: Matrix, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, seed: int = 0,
) -> FaceAscent:  # fmt: skip
    """The state of the solver before its first step, with single precision where that will do."""
    y = np.asarray(y, dtype=float)
    C = as_costs(C, len(y))
    chosen = check_assignment(y, n_faces, assignment)
    rows = X if isinstance(X, Rows) else as_rows(X)
    largest = abs(scale) * max(map(abs, map(float, (rows.values.min(initial=0), rows.values.max(initial=0)))))
    pays = len(rows.values) * n_faces > _MIN_SINGLE_ENTRIES
    single = pays and largest < _MAX_SINGLE_VALUE and tol >= _MIN_SINGLE_TOL
    caps = np.repeat(C[:, None], n_faces, axis=1)
    return FaceAscent(rows, y, caps, chosen, scale=scale, single=single, seed=seed)


def solve_cpm_dual(
    X: Matrix, y: Vector, C: ArrayLike, n_faces: int, assignment: ArrayLike, *, scale: float = 1.0,
    tol: float = 1e-3, max_iter: int = 1000, time_limit: float | None = None,
    start: ArrayLike | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Solve the fixed-assignment program to a relative gap.

    tol: relative duality gap asked, over all samples and in double precision.
    max_iter: rounds of a climb and a scan at most.
    time_limit: seconds.
    start (n, K): multipliers to begin from; they are clipped to what is feasible.
    seed: of the order of the steps.
    Returns: primal ``W`` (K, m+1), bias last; duals ``margin`` (n, K); ``objective`` at W and the proven
        ``bound``, both in double precision from the multipliers. ``iterations`` counts passes over the data,
        and ``history`` has one record per round: objective, bound, active pairs, passes and seconds. A limit,
        or Ctrl-C, keeps the last point and its bound, which is as proven as another.
    ValueError: an argument does not fit; see the message.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    whole("n_faces", n_faces)
    whole("max_iter", max_iter)
    machine = dual_machine(X, y, C, n_faces, assignment, scale=scale, tol=tol, seed=seed)
    built = clock.seconds
    history: list[dict[str, float]] = []
    status, progress = Status.ITERATION_LIMIT, Progress()
    try:
        if start is None:
            machine.sweep(times=_START_SWEEPS)
        else:
            machine.begin_from(start)
        for _ in range(max_iter):
            machine.scan()
            history.append(_record(machine, clock))
            if not machine.gap > tol or not np.isfinite(machine.gap):
                if machine.check() <= tol:
                    status = Status.SOLVED
                    break
                machine.single = False
            ended = progress.end(machine, clock)
            if ended is not None:
                status = ended
                break
            machine.climb(tol)
    except KeyboardInterrupt:
        status = interrupted()
    if status is not Status.SOLVED:
        machine.check()
    return Solution(
        status=status,
        primal={"W": machine.W},
        duals={"margin": machine.alpha},
        objective=float(machine.primal.sum()),
        bound=float(machine.dual.sum()),
        solver="dual coordinate ascent",
        iterations=int(np.ceil(machine.passes)),
        build_time=built,
        solve_time=clock.seconds - built,
        history=tuple(history),
    )


class Progress:
    """Whether a run still comes closer: its bound rises, or its gap falls, as far as doubles can tell."""

    def __init__(self) -> None:
        self._bound, self._gap, self._idle = -np.inf, np.inf, 0

    def end(self, machine: FaceAscent, clock: Clock) -> Status | None:
        """Return why to end after this round: no progress, or the time; None to go on."""
        bound, gap = float(machine.dual.sum()), machine.gap
        if bound > self._bound + _MIN_REL_RISE * abs(bound) or gap < 0.99 * self._gap:
            self._bound, self._gap, self._idle = max(bound, self._bound), min(gap, self._gap), 0
        else:
            self._idle += 1
        if self._idle >= _MAX_IDLE_ROUNDS:
            return Status.STALLED
        return Status.TIME_LIMIT if clock.is_over else None


def _record(machine: FaceAscent, clock: Clock) -> dict[str, float]:
    return {
        "objective": float(machine.primal.sum()),
        "bound": float(machine.dual.sum()),
        "active": float(machine.active),
        "passes": machine.passes,
        "seconds": clock.seconds,
    }
