"""The programs of faces for a fixed assignment, written down for Clarabel without cvxpy.

cvxpy takes several times as long to compile such a program as Clarabel takes to solve it.
:func:`solve_explicit_face` is for one face, :func:`explicit_multipliers` for faces with penalised weights.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.solving import BACKENDS
from formulations.language.types import Matrix, Vector
from formulations.polytope import lift


def _solve(P: Any, c: Vector, A: Any, b: Vector, cones: list[Any], clock: Clock) -> Any:
    """Minimise ½ x'P x + c·x subject to b − A x in the cones; None without a finite point."""
    import clarabel  # type: ignore[import-untyped]

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in BACKENDS["CLARABEL"].settings.items():
        if hasattr(settings, name):  # False for a setting that only cvxpy has
            setattr(settings, name, value)
    if clock.is_over:
        return None
    settings.time_limit = clock.left if clock.left is not None else np.inf
    solution = clarabel.DefaultSolver(P, c, A, b, cones, settings).solve()
    is_point = str(solution.status) in ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
    return solution if is_point and np.isfinite([*solution.x, *solution.z]).all() else None


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
    import clarabel

    clock, used = Clock(time_limit), np.flatnonzero(costs > 0.0)
    count, d = len(used), lifted.shape[1]
    rows = lifted[used]
    signed = sp.diags_array(y[used]) @ rows if sp.issparse(rows) else y[used, None] * rows
    A, P = _face_matrices(sp.csc_array(signed, dtype=np.float64))
    c, b = np.concatenate([np.zeros(d), costs[used]]), np.concatenate([np.full(count, -1.0), np.zeros(count)])
    solution = _solve(P, c, A, b, [clarabel.NonnegativeConeT(2 * count)], clock)
    if solution is None:
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


def explicit_multipliers(
    X: Matrix, y: Vector, caps: Vector, penalty: FacePenalty, time_limit: float | None = None
) -> Vector | None:
    """Solve the program of :mod:`formulations.cpm_sparse` for costs (n, K) of slack, 0 without a constraint.

    The variables are W, upper bounds on |W| and on the norms of the groups, and the slacks.
    Returns: the multipliers (n, K) of the margin constraints; None without a point, or at the time limit.
    """
    import clarabel

    clock, K, m = Clock(time_limit), caps.shape[1], X.shape[1]
    face, sample = np.nonzero(caps.T > 0.0)  # of each margin constraint, face by face
    count, lifted = len(face), sp.csr_array(lift(X))
    margins = sp.diags_array(y[sample]) @ sp.block_diag([lifted[sample[face == k]] for k in range(K)])
    groups, signs = np.tile(penalty.groups, K), np.tile(penalty.signs, K)
    # Indices of the variables: the weights without biases, and the bounds on their absolute values and on
    # the norms of groups. The slacks come last.
    weights = (np.arange(K)[:, None] * (m + 1) + np.arange(m)).ravel()
    penalised = weights if penalty.l1 > 0.0 else weights[:0]
    absolute = K * (m + 1) + np.arange(len(penalised))
    norms = K * (m + 1) + len(penalised) + np.arange(penalty.n_groups if penalty.group > 0.0 else 0)
    n_before = K * (m + 1) + len(absolute) + len(norms)
    variable = sp.eye_array(n_before + count, format="csr")
    members = [weights[groups == group] for group in range(len(norms))]
    rows = [
        sp.hstack([margins, sp.csr_array((count, n_before - K * (m + 1))), sp.eye_array(count)]),
        variable[n_before:],
        variable[absolute] - variable[penalised],
        variable[absolute] + variable[penalised],
        sp.diags_array(1.0 * signs[signs != 0]) @ variable[weights[signs != 0]],
        *(variable[[norm, *indices]] for norm, indices in zip(norms, members, strict=True)),
    ]
    n_linear = sum(part.shape[0] for part in rows[:5])
    A, b = -sp.csc_array(sp.vstack(rows)), np.zeros(n_linear + sum(part.shape[0] for part in rows[5:]))
    b[:count] = -1.0
    cones = [clarabel.NonnegativeConeT(n_linear)]
    cones += [clarabel.SecondOrderConeT(1 + len(indices)) for indices in members]
    c = np.zeros(n_before + count)
    c[absolute], c[norms], c[n_before:] = penalty.l1, penalty.group, caps[sample, face]
    P = sp.csc_array(sp.diags_array(np.where(np.arange(len(c)) < K * (m + 1), 2.0, 0.0)))
    solution = _solve(P, c, A, b, cones, clock)
    if solution is None:
        return None
    alpha = np.zeros(caps.shape)
    alpha[sample, face] = np.asarray(solution.z)[:count]
    return np.clip(alpha, 0.0, caps)
