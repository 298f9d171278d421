"""The exact program of the L0 support vector machine, by the integer solver of HiGHS.

    min  Σ_j σ_j + C Σ_i w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,
                                           0 ≤ a_j ≤ σ_j,  σ in {0, 1}

is program (3) of :mod:`formulations.l0` in a = α / C: the cap is 1, and the only big M. The model is passed
to HiGHS directly: a modelling language would take longer to build it than HiGHS to solve an easy one.
:mod:`polyopt.sparse.tree` solves the same program, and proves more in the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import best_intercept
from formulations.l0_data import L0Data
from formulations.language.arguments import tolerance
from formulations.language.clock import Clock, interrupted
from formulations.language.highs import quiet_highs, search
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.sparse.point import RECORD_SECONDS, as_start, finished, idle
from polyopt.sparse.tree import QuickPattern

# One thread makes runs reproducible; integers to 1e-9, as C times an integer may be large.
_OPTIONS = {"output_flag": False, "threads": 1, "parallel": "off", "mip_feasibility_tolerance": 1e-9}
_STATUSES = {
    "kOptimal": Status.SOLVED,
    "kTimeLimit": Status.TIME_LIMIT,
    "kInterrupt": Status.TIME_LIMIT,
}


def solve_l0_milp(
    data: L0Data,
    *,
    start: tuple[ArrayLike, float] | None = None,
    time_limit: float | None = None,
    tol: float = 1e-6,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the exact program (3) of :mod:`formulations.l0` with HiGHS, from `start` (alpha, b) if given.

    The time limit is for HiGHS; the best point's pattern is solved again after it.

    Returns: ``primal`` has alpha, b, xi and sigma, the support of alpha; ``duals`` has the multipliers
        "margin" of that pattern's program. ``objective`` is the score, evaluated from the data; ``bound`` is
        HiGHS's. ``iterations`` counts nodes; records of ``history`` have seconds, objective, bound and nodes.
        INACCURATE if HiGHS says optimal and the evaluated score does not confirm it; FAILED, with the best
        known point, if HiGHS fails.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    alpha, b = as_start(data, start if start is not None else (np.zeros(len(data.centres)), idle(data)))
    highs = _model(data, alpha, b)
    for name, value in {"mip_rel_gap": tol, "mip_abs_gap": 0.0, "time_limit": clock.left or np.inf}.items():
        highs.setOptionValue(name, value)
    build_time, run = clock.seconds, _Run(highs)
    status = run.solve(clock, progress)
    info, values = highs.getInfo(), np.array(highs.getSolution().col_value)
    if len(values) and np.isfinite(values).all():
        size = len(data.centres)
        better = np.clip(data.C * values[:size], 0.0, data.C)
        better = np.where(data.support(better), better, 0.0)
        its_b = best_intercept(data.outputs(better, 0.0), data.y, data.weights)
        if data.score(better, its_b) < data.score(alpha, b):
            alpha, b = better, its_b
    return finished(
        data,
        (alpha, b),
        float(info.mip_dual_bound) if status is not Status.FAILED else 0.0,
        status,
        tol=tol,
        left=clock.left,
        model=QuickPattern(data),
        solver="HiGHS, integer program",
        iterations=max(int(info.mip_node_count), 0),
        build_time=build_time,
        solve_time=clock.seconds - build_time,
        history=tuple(run.history),
    )


def _model(data: L0Data, alpha: Vector, b: float) -> Any:
    """The program in HiGHS, columns a, b, ξ, σ, with its start."""
    import scipy.sparse as sp

    highspy = quiet_highs()
    n, p = data.K.shape
    signed = data.y[:, None] * data.K * (data.C * data.centres)
    A = sp.block_array(
        [
            [sp.csc_array(signed), data.y[:, None], sp.eye_array(n), None],
            [sp.eye_array(p), None, None, -sp.eye_array(p)],
        ],
        format="csc",
    )
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = A.shape
    lp.col_cost_ = np.concatenate([np.zeros(p + 1), data.C * data.weights, np.ones(p)])
    lp.col_lower_ = np.concatenate([np.zeros(p), [-np.inf], np.zeros(n + p)])
    lp.col_upper_ = np.concatenate([np.ones(p), np.full(n + 1, np.inf), np.ones(p)])
    lp.row_lower_ = np.concatenate([np.ones(n), np.full(p, -np.inf)])
    lp.row_upper_ = np.concatenate([np.full(n, np.inf), np.zeros(p)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kContinuous] * (p + 1 + n) + [kinds.kInteger] * p
    highs = highspy.Highs()
    for name, value in _OPTIONS.items():
        highs.setOptionValue(name, value)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise ValueError("HiGHS refuses the integer program: scale K, whose entries are too large")
    point = highspy.HighsSolution()
    xi = slacks(data.outputs(alpha, b), data.y)
    point.col_value = np.concatenate([alpha / data.C, [b], xi, data.support(alpha)]).tolist()
    highs.setSolution(point)
    return highs


class _Run:
    """HiGHS, and the history of its search."""

    def __init__(self, highs: Any):
        self.highs = highs
        self.history: list[dict[str, float]] = []
        highs.cbMipInterrupt.subscribe(self._watch)

    def solve(self, clock: Clock, progress: Callable[[dict[str, float]], None] | None) -> Status:
        """Run until it is solved, or to the time limit, or to Ctrl-C."""
        told = 0

        def tell() -> None:
            nonlocal told
            while progress is not None and told < len(self.history):
                told += 1
                progress(self.history[told - 1])

        returned, was_interrupted = search(self.highs, clock, meanwhile=tell)
        if returned.name == "kError":
            return Status.FAILED
        status = _STATUSES.get(self.highs.getModelStatus().name, Status.FAILED)
        return interrupted() if was_interrupted and status is not Status.SOLVED else status

    def _watch(self, event: Any) -> None:
        said = event.data_out
        last = self.history[-1] if self.history else None
        now, best, bound = said.running_time, said.mip_primal_bound, said.mip_dual_bound
        if last is None or (
            now > last["seconds"] + RECORD_SECONDS and (best, bound) != (last["objective"], last["bound"])
        ):
            nodes = float(said.mip_node_count)
            self.history.append({"seconds": now, "objective": best, "bound": bound, "nodes": nodes})
