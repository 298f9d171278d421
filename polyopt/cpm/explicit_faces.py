"""The program of a face for a fixed assignment, written down for Clarabel without cvxpy.

cvxpy takes several times as long to compile such a program as Clarabel takes to solve it.
"""

import numpy as np
import scipy.sparse as sp

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.solving import BACKENDS
from formulations.language.types import Matrix, Vector


def solve_explicit_face(
    lifted: Matrix, y: Vector, costs: Vector, time_limit: float | None = None
) -> Solution | None:
    """Solve the program of one face by Clarabel, to about 1e-11.

    This is :func:`formulations.cpm.face`. A has a row y_i x̃_i for each sample with a positive cost:

        min  ‖w‖² + c·ξ    subject to    A w + ξ ≥ 1  [alpha],    ξ ≥ 0  [beta].

    lifted (n, m+1): the samples x̃_i = (x_i, 1).
    costs (n,): c, cost of slack per sample, 0 for a positive of another face; at least one is positive.
    Returns: primal ``w`` (m+1,), duals ``margin`` (n,). None if Clarabel returned no point, for example
        because squares of the data overflow, or if the time limit was reached.
    """
    import clarabel  # type: ignore[import-untyped]

    clock, used = Clock(time_limit), np.flatnonzero(costs > 0.0)
    count, d = len(used), lifted.shape[1]
    rows = lifted[used]
    signed = sp.diags_array(y[used]) @ rows if sp.issparse(rows) else y[used, None] * rows
    A, P = _face_matrices(sp.csc_array(signed, dtype=np.float64))
    c, b = np.concatenate([np.zeros(d), costs[used]]), np.concatenate([np.full(count, -1.0), np.zeros(count)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in BACKENDS["CLARABEL"].settings.items():
        if hasattr(settings, name):  # False for a setting that only cvxpy has
            setattr(settings, name, value)
    if clock.is_over:
        return None
    settings.time_limit = clock.left if clock.left is not None else np.inf
    solution = clarabel.DefaultSolver(P, c, A, b, [clarabel.NonnegativeConeT(2 * count)], settings).solve()
    is_point = str(solution.status) in ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
    if not is_point or not np.isfinite([*solution.x, *solution.z]).all():
        return None
    w, alpha = np.asarray(solution.x)[:d], np.zeros(len(y))
    alpha[used] = np.asarray(solution.z)[:count]
    status = Status.SOLVED if str(solution.status) == "Solved" else Status.INACCURATE
    return Solution(
        status, {"w": w}, {"margin": np.clip(alpha, 0.0, costs)}, objective=float(solution.obj_val),
        bound=None, solver="clarabel", iterations=int(solution.iterations),
        build_time=max(clock.seconds - float(solution.solve_time), 0.0),
        solve_time=float(solution.solve_time),
    )  # fmt: skip


def _face_matrices(rows: sp.csc_array) -> tuple[sp.csc_array, sp.csc_array]:
    """Return Clarabel's constraint matrix −[A I; 0 I] and Hessian diag(2, 0) for the rows A of a face.

    They are assembled here because scipy's block functions take longer than Clarabel.
    """
    count, d = rows.shape
    index = np.arange(count)
    slack_indices = np.column_stack([index, count + index]).ravel()
    values = np.concatenate([-rows.data, np.full(2 * count, -1.0)])
    starts = np.concatenate([rows.indptr, rows.indptr[-1] + 2 * (index + 1)])
    indices = np.concatenate([rows.indices, slack_indices])
    A = sp.csc_array((values, indices, starts), shape=(2 * count, d + count))
    starts = np.minimum(np.arange(d + count + 1), d)  # one entry in each of the first d columns
    return A, sp.csc_array((np.full(d, 2.0), np.arange(d), starts), shape=(d + count, d + count))
