"""The explicit program of one face, as Clarabel has it.

For a few hundred samples cvxpy takes several times as long to compile a program as Clarabel to solve it. This
one is simple enough to be written down: with A the rows y_i x̃_i of the samples that have a cost,

    min  ‖w‖² + c·ξ    subject to    A w + ξ ≥ 1  [alpha],    ξ ≥ 0  [beta].

The program itself, with its names and its printed form, is :func:`formulations.cpm.face`; a test holds
the two together. Nothing rests on this answer by itself: whoever asks certifies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.solving import BACKENDS

if TYPE_CHECKING:
    from formulations.language.types import Matrix, Vector

__all__ = ["solve_explicit_face"]

_ENDS = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")  # which leave a point


def solve_explicit_face(
    lifted: Matrix, y: Vector, costs: Vector, time_limit: float | None = None
) -> Solution | None:
    """The optimum of one face, to about 1e-11.

    lifted (n, m+1): the rows x̃ = (x, 1).
    y (n,): labels, -1 and +1.
    costs (n,): cost of slack per sample, 0 where another face answers; one at least is more than 0.
    time_limit: seconds.
    Returns: primal ``w`` (m+1,), duals ``margin`` (n,); None where Clarabel left no point, as for data whose
        squares overflow, or where the time was over.
    """
    import clarabel  # type: ignore[import-untyped]

    clock, kept = Clock(time_limit), np.flatnonzero(costs > 0.0)
    count, d = len(kept), lifted.shape[1]
    rows = lifted[kept]
    signed = sp.diags_array(y[kept]) @ rows if sp.issparse(rows) else y[kept, None] * rows
    A, P = _matrices(sp.csc_array(signed, dtype=np.float64))
    c, b = np.concatenate([np.zeros(d), costs[kept]]), np.concatenate([np.full(count, -1.0), np.zeros(count)])
    told = clarabel.DefaultSettings()
    told.verbose = False
    for name, value in BACKENDS["CLARABEL"].settings.items():
        if hasattr(told, name):  # one of them is cvxpy's own
            setattr(told, name, value)
    if clock.is_over:
        return None
    told.time_limit = clock.left if clock.left is not None else np.inf
    found = clarabel.DefaultSolver(P, c, A, b, [clarabel.NonnegativeConeT(2 * count)], told).solve()
    if str(found.status) not in _ENDS:
        return None
    w, alpha = np.asarray(found.x)[:d], np.zeros(len(y))
    alpha[kept] = np.asarray(found.z)[:count]
    if not (np.isfinite(w).all() and np.isfinite(alpha).all()):
        return None
    return Solution(
        status=Status.SOLVED if str(found.status) == "Solved" else Status.INACCURATE,
        primal={"w": w},
        duals={"margin": np.clip(alpha, 0.0, costs)},
        objective=float(found.obj_val),
        bound=None,
        solver="clarabel",
        iterations=int(found.iterations),
        build_time=max(clock.seconds - float(found.solve_time), 0.0),
        solve_time=float(found.solve_time),
    )


def _matrices(rows: sp.csc_array) -> tuple[sp.csc_array, sp.csc_array]:
    """The matrices of the program, put together by hand: scipy's blocks take longer than Clarabel."""
    count, d = rows.shape
    each = np.arange(count)
    slacks = np.column_stack([each, count + each]).ravel()
    values = np.concatenate([-rows.data, np.full(2 * count, -1.0)])
    starts = np.concatenate([rows.indptr, rows.indptr[-1] + 2 * (each + 1)])
    A = sp.csc_array((values, np.concatenate([rows.indices, slacks]), starts), shape=(2 * count, d + count))
    starts = np.minimum(np.arange(d + count + 1), d)
    return A, sp.csc_array((np.full(d, 2.0), np.arange(d), starts), shape=(d + count, d + count))
