"""The entry to every solver of the Convex Polytope Machine.

:func:`solve_cpm` minimises the objective J(W) over K faces W (K, m+1). The table has the module of
:mod:`polyopt.cpm` for each solver and restriction of the faces ("-": not available):

| solver   | no restriction | penalty       | max_features | integers                            |
|----------|----------------|---------------|--------------|-------------------------------------|
| "sgd"    | sgd            | -             | -            | -                                   |
| "dual"   | dual           | penalised     | few_features | first as without them, then integer |
| "exact"  | alternating    | penalised     | few_features | first as without them, then integer |
| "global" | global_search  | -             | -            | -                                   |

"dual" and "exact" alternate between the faces and the assignment of positives to faces
(:mod:`polyopt.optim.rounds`), from ``n_init`` starts. :func:`solve_cpm_from` does so from one assignment.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector, dense, is_sparse
from formulations.polytope import Loss, Margin
from polyopt.optim.starts import best_of


@dataclass(frozen=True)
class Options:
    """Tolerances and limits besides the estimator's parameters."""

    gap_per_tol: float = 0.1  # ratio of the relative gap to `tol`: residuals fall more slowly than the gap
    max_nodes_dual: int = 50  # largest number of nodes of a face's search for features, solver="dual"
    dual_start_tol: float = 1e-2  # relative gap of the dual ascents that provide a start of solver="exact"
    max_merged_entries: int = 5_000_000  # entries of a sparse X up to which equal samples are merged, dense
    sgd_time_fraction: float = 0.1  # fraction of the time limit for the SGD run before solver="global"
    relaxation_time_fraction: float = 0.6  # fraction of the time limit for real faces, before rounding


OPTIONS = Options()


@dataclass(frozen=True)
class Settings:
    """The parameters of :class:`polyopt.cpm.estimator.ConvexPolytopeMachine`.

    `penalty` and `known` are for the samples times `feature_scale`.
    """

    n_faces: int
    solver: str
    loss: Loss = "sum"
    margin: Margin = "total"
    perplexity: float = 1.0
    average: bool = True
    feature_scale: float = 1.0
    n_init: int = 1
    tol: float = 1e-3
    max_iter: int = 300
    time_limit: float | None = None
    n_jobs: int | None = None
    max_features: int | None = None
    penalty: FacePenalty | None = None
    integers: int | None = None
    known: Vector | None = None  # (K, m+1) faces, a first incumbent of solver="global"

    @property
    def signs(self) -> NDArray[np.int64] | None:
        """Sign constraints (m,) of restricted faces; ValueError if there is another penalty."""
        if self.penalty is not None and (self.penalty.l1 > 0.0 or self.penalty.group > 0.0):
            raise ValueError("max_features and integers can have signs, but no l1 or group penalty")
        return None if self.penalty is None else self.penalty.signs


def solve_cpm(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    """Minimise J(W) by the solver of the settings.

    X (n, m): samples, not yet scaled by ``feature_scale``.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample, positive.
    seed: seed of all random numbers.
    Returns: ``primal`` has ``W`` (K, m+1), bias last, for the scaled samples.
    """
    if settings.integers is not None:
        return _integer(X, y, C, settings, settings.integers, seed)
    if settings.max_features is not None:
        return _few_features(X, y, C, settings, settings.max_features, seed)
    if settings.solver == "sgd":
        return _sgd(X, y, C, settings, seed)
    if settings.solver == "global" and settings.n_faces > 1:  # one face is a convex program
        return _global(X, y, C, settings, seed)
    return _alternate(X, y, C, settings, seed)


def solve_cpm_from(
    X: Matrix, y: Vector, C: Vector, settings: Settings, assignment: NDArray[np.int64], *, hold: bool
) -> Solution:  # fmt: skip
    """Alternate from one assignment (n,), -1 at negatives; with `hold` solve for this assignment only."""
    from polyopt.optim.rounds import FixedAssignmentProblem, run_rounds

    problem = _problem(X, y, C, settings)
    if hold:
        return run_rounds(FixedAssignmentProblem(problem), assignment, time_limit=settings.time_limit)
    return run_rounds(problem, assignment, max_iter=settings.max_iter, time_limit=settings.time_limit)


def as_floats(X: Matrix, scale: float) -> Matrix:
    """Return the samples times `scale`: float32 stays, other numbers become float64; CSR stays CSR."""
    dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if scale == 1.0:
        return X.astype(dtype, copy=False)
    if is_sparse(X):
        return sp.csr_array((X.data.astype(dtype) * dtype.type(scale), X.indices, X.indptr), shape=X.shape)
    return X.astype(dtype) * dtype.type(scale)


# -- the solvers ------------------------------------------------------------------------------


def _sgd(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    from polyopt.cpm.sgd import solve_cpm_sgd

    seeds = np.random.SeedSequence(seed).generate_state(settings.n_init)

    def run(number: int, time_left: float | None) -> Solution:
        return solve_cpm_sgd(
            X, y, C, settings.n_faces, perplexity=settings.perplexity, average=settings.average,
            scale=settings.feature_scale, max_iter=settings.max_iter, tol=settings.tol, time_limit=time_left,
            seed=int(seeds[number]),
        )  # fmt: skip

    return best_of(run, settings.n_init, time_limit=settings.time_limit, n_jobs=settings.n_jobs)


def _global(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    clock = Clock(settings.time_limit)
    program = (as_floats(X, settings.feature_scale), y, C, settings.n_faces)
    if (settings.loss, settings.margin) != ("sum", "total"):
        from polyopt.cpm.global_search.explicit import solve_cpm_explicitly

        return solve_cpm_explicitly(
            *program, settings.loss, settings.margin, time_limit=clock.left, seed=seed
        )
    from polyopt.cpm.global_search.search import solve_cpm_global

    known = [] if settings.known is None else [settings.known]
    sgd_time = None if clock.left is None else OPTIONS.sgd_time_fraction * clock.left
    known.append(_sgd(X, y, C, replace(settings, n_init=1, time_limit=sgd_time), seed)["W"])
    return solve_cpm_global(*program, time_limit=clock.left, seed=seed, known=known)


def _integer(X: Matrix, y: Vector, C: Vector, settings: Settings, M: int, seed: int) -> Solution:
    from polyopt.cpm.integer import round_faces

    clock, limit = Clock(settings.time_limit), settings.time_limit
    relaxation_time = None if limit is None else OPTIONS.relaxation_time_fraction * limit
    relaxation = solve_cpm(X, y, C, replace(settings, integers=None, time_limit=relaxation_time), seed)
    return round_faces(
        as_floats(X, settings.feature_scale), y, C, relaxation, M, max_features=settings.max_features,
        time_limit=clock.left, signs=settings.signs, **_search_limits(settings),
    )  # fmt: skip


def _few_features(X: Matrix, y: Vector, C: Vector, settings: Settings, s: int, seed: int) -> Solution:
    from polyopt.cpm.few_features import solve_cpm_subset

    return solve_cpm_subset(
        as_floats(X, settings.feature_scale), y, C, settings.n_faces, s, large=settings.solver == "dual",
        n_init=settings.n_init, max_iter=settings.max_iter, time_limit=settings.time_limit, seed=seed,
        n_jobs=settings.n_jobs, signs=settings.signs, **_search_limits(settings),
    )  # fmt: skip


def _search_limits(settings: Settings) -> dict[str, Any]:
    """Return the limits of the search for features; solver="exact" has the search's defaults."""
    return {"tol": settings.tol, "max_nodes": OPTIONS.max_nodes_dual} if settings.solver == "dual" else {}


def _alternate(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    """Run alternating minimisation from `n_init` starts; "exact" has one more start, by dual ascents."""
    from polyopt.optim.rounds import Stage, run_from_many_starts

    problem = _problem(X, y, C, settings)  # problem.X is scaled
    n_init = settings.n_init if settings.n_faces > 1 else 1  # one face has one assignment

    def dual_start(time_left: float | None) -> NDArray[np.int64]:
        problem.forget()
        return best_dual_assignment(
            problem.X, y, C, settings.n_faces, n_init=n_init, max_iter=settings.max_iter,
            time_limit=time_left, seed=seed,
        )  # fmt: skip

    has_dual_start = settings.solver == "exact" and settings.penalty is None and n_init > 1
    return run_from_many_starts(
        [Stage(problem, settings.max_iter)],
        n_init=n_init, time_limit=settings.time_limit, seed=seed, n_jobs=settings.n_jobs,
        last=dual_start if has_dual_start else None,  # after the random starts
    )  # fmt: skip


def _problem(X: Matrix, y: Vector, C: Vector, settings: Settings) -> Any:
    """Return the alternating minimisation problem for the settings."""
    K, scale = settings.n_faces, settings.feature_scale
    if settings.penalty is not None:
        from polyopt.cpm.penalised import PenalisedProblem

        return PenalisedProblem(as_floats(X, scale).astype(np.float64), y, C, K, settings.penalty)
    if settings.solver == "dual":
        from polyopt.cpm.dual import DualProblem

        return DualProblem(X, y, C, K, tol=OPTIONS.gap_per_tol * settings.tol, scale=scale)
    from polyopt.cpm.alternating import PolytopeProblem

    return PolytopeProblem(as_floats(X, scale), y, C, K, settings.loss, settings.margin)


def best_dual_assignment(
    X: Matrix, y: Vector, C: Vector, n_faces: int, *,
    n_init: int, max_iter: int, time_limit: float | None, seed: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the final assignment (n,) of the best of `n_init` / 2 runs with solver "dual".

    "exact" makes one run from this assignment, besides its random starts: the improved starts of the dual
    runs (``DualProblem.loosen``) mostly ended at a lower objective. Equal samples are merged and sorted, so
    that the result does not depend on the order of the samples, nor on whether a sample is repeated or has a
    larger weight.

    KeyboardInterrupt: Ctrl-C during the runs.
    """
    from polyopt.cpm.dual import DualProblem
    from polyopt.optim.rounds import Stage, run_from_many_starts

    merged_index = np.arange(len(y))  # the merged sample of each sample
    if not is_sparse(X) or X.shape[0] * X.shape[1] <= OPTIONS.max_merged_entries:
        unique, inverse = np.unique(np.column_stack([y, dense(X)]), axis=0, return_inverse=True)
        merged_index, costs = inverse.ravel().astype(np.int64), np.zeros(len(unique))
        np.add.at(costs, merged_index, C)
        X, y, C = np.ascontiguousarray(unique[:, 1:]), unique[:, 0].copy(), costs
    problem = DualProblem(X, y, C, n_faces, tol=OPTIONS.dual_start_tol)
    solution = run_from_many_starts(
        [Stage(problem, max_iter)], n_init=max(n_init // 2, 1), time_limit=time_limit, seed=seed, n_jobs=1
    )
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return np.asarray(solution["assignment"][merged_index])
