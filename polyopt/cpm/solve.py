"""One door to every solver of the Convex Polytope Machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.language.clock import Clock
from formulations.language.solution import Solution
from formulations.language.types import is_sparse
from polyopt.optim.starts import best_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.language.types import Matrix
    from formulations.polytope import Loss
    from polyopt.cpm.alternating import PolytopeProblem
    from polyopt.cpm.penalised import PricedProblem
    from polyopt.cpm.point import Margin

    Vector = NDArray[np.float64]

__all__ = ["Settings", "as_floats", "solve_cpm", "solve_cpm_from"]

_GAP_PER_TOL = 0.1  # to which gaps are closed, as single conditions hold less well
_MAX_NODES_DUAL = 50  # of the search for features, with solver="dual"


@dataclass(frozen=True)
class Settings:
    """What a solver is told besides the data; each as the estimator's parameter of the same name."""

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
    penalty: FacePenalty | None = None  # the price of the weights, for the scaled samples
    integers: int | None = None
    known: Vector | None = None  # faces (K, m+1), for the scaled samples, that a global search is to reach


def solve_cpm(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    """Minimise J(W) by the solver that the settings name.

    X (n, m): samples, not yet scaled by ``feature_scale``.
    y (n,): labels: -1 inside, +1 outside.
    C (n,): cost of slack per sample, positive.
    settings: solver and limits.
    seed: of all that is random.
    Returns: ``primal`` has ``W`` (K, m+1), bias last, for the scaled samples.
    """
    if settings.integers is not None:
        return _whole(X, y, C, settings, settings.integers, seed)
    if settings.max_features is not None:
        return _subset(X, y, C, settings, settings.max_features, seed)
    return {"sgd": _sgd, "global": _global}.get(settings.solver, _alternate)(X, y, C, settings, seed)


def solve_cpm_from(
    X: Matrix, y: Vector, C: Vector, settings: Settings, assignment: NDArray[np.int64], *, hold: bool
) -> Solution:  # fmt: skip
    """Alternate from one assignment with the explicit programs, or solve those of this assignment alone.

    assignment (n,): the face of each positive, -1 at negatives.
    hold: whether the assignment stays.
    """
    from polyopt.optim.rounds import HeldProblem, run_rounds

    problem = _problem(X, y, C, settings)
    rounds = 1 if hold else settings.max_iter
    return run_rounds(
        HeldProblem(problem) if hold else problem, assignment, max_iter=rounds, time_limit=settings.time_limit
    )


def _sgd(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    from polyopt.cpm.penalised_sgd import solve_priced_sgd
    from polyopt.cpm.sgd import solve_cpm_sgd

    seeds = np.random.SeedSequence(seed).generate_state(settings.n_init)
    scaled = X if settings.penalty is None else as_floats(X, settings.feature_scale)

    def run(number: int, time_left: float | None) -> Solution:
        if settings.penalty is not None:
            return solve_priced_sgd(
                scaled, y, C, settings.n_faces, settings.penalty, max_iter=settings.max_iter,
                tol=settings.tol, time_limit=time_left, seed=int(seeds[number]),
            )  # fmt: skip
        return solve_cpm_sgd(
            X, y, C, settings.n_faces,
            perplexity=settings.perplexity, average=settings.average, scale=settings.feature_scale,
            max_iter=settings.max_iter, tol=settings.tol, time_limit=time_left, seed=int(seeds[number]),
        )  # fmt: skip

    return best_of(run, settings.n_init, time_limit=settings.time_limit, n_jobs=settings.n_jobs)


def _global(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    if settings.n_faces == 1:  # a convex program
        return _alternate(X, y, C, settings, seed)
    clock, program = (
        Clock(settings.time_limit),
        (as_floats(X, settings.feature_scale), y, C, settings.n_faces),
    )
    if (settings.loss, settings.margin) != ("sum", "total"):
        from polyopt.cpm.global_search.explicit import solve_cpm_explicitly

        return solve_cpm_explicitly(
            *program, settings.loss, settings.margin, time_limit=clock.left, seed=seed
        )
    from polyopt.cpm.global_search.search import solve_cpm_global

    known = [] if settings.known is None else [settings.known]
    fast = None if clock.left is None else 0.1 * clock.left
    known.append(_sgd(X, y, C, replace(settings, n_init=1, time_limit=fast), seed)["W"])
    return solve_cpm_global(
        *program, time_limit=clock.left, seed=seed, n_jobs=settings.n_jobs, known=known,
    )  # fmt: skip


def _whole(X: Matrix, y: Vector, C: Vector, settings: Settings, M: int, seed: int) -> Solution:
    from polyopt.cpm.integer import round_faces

    clock, limit = Clock(settings.time_limit), settings.time_limit
    first = None if limit is None else 0.6 * limit
    real = solve_cpm(X, y, C, replace(settings, integers=None, time_limit=first), seed)
    how: dict[str, Any] = {}
    if settings.solver == "dual":
        how = {"max_nodes": _MAX_NODES_DUAL, "tol": settings.tol}
    return round_faces(
        as_floats(X, settings.feature_scale), y, C, real, M, max_features=settings.max_features,
        time_limit=clock.left, seed=seed, **how,
    )  # fmt: skip


def _subset(X: Matrix, y: Vector, C: Vector, settings: Settings, s: int, seed: int) -> Solution:
    from polyopt.cpm.few_features import solve_cpm_subset

    how: dict[str, Any] = {"engine": "program"}
    if settings.solver == "dual":
        how = {"engine": "dual", "tol": settings.tol, "max_nodes": _MAX_NODES_DUAL}
    return solve_cpm_subset(
        as_floats(X, settings.feature_scale), y, C, settings.n_faces, s, n_init=settings.n_init,
        max_iter=settings.max_iter, time_limit=settings.time_limit, seed=seed, n_jobs=settings.n_jobs, **how,
    )  # fmt: skip


def _alternate(X: Matrix, y: Vector, C: Vector, settings: Settings, seed: int) -> Solution:
    if settings.penalty is None:
        return _from_many_starts(_problem(X, y, C, settings), settings, seed)
    from polyopt.cpm.penalised import PricedProblem

    clock = Clock(settings.time_limit)
    problem = PricedProblem(
        as_floats(X, settings.feature_scale).astype(np.float64), y, C, settings.n_faces, settings.penalty,
        settings.loss, settings.margin,
        engine="dual" if settings.solver == "dual" else "program", tol=_GAP_PER_TOL * settings.tol,
    )  # fmt: skip
    return problem.finish(_from_many_starts(problem, settings, seed), settings.max_iter, clock.left)


def _from_many_starts(problem: PolytopeProblem | PricedProblem, settings: Settings, seed: int) -> Solution:
    from polyopt.optim.rounds import Stage, run_from_many_starts

    n_init = settings.n_init if settings.n_faces > 1 else 1  # one face has one assignment

    def dual_end(time_left: float | None) -> NDArray[np.int64]:
        from polyopt.cpm.dual_ends import best_dual_end

        return best_dual_end(
            problem.X, problem.y, problem.C, settings.n_faces,
            n_init=n_init, max_iter=settings.max_iter, time_limit=time_left, seed=seed,
        )  # fmt: skip

    return run_from_many_starts(
        [Stage(problem, settings.max_iter)],
        n_init=n_init, time_limit=settings.time_limit, seed=seed, n_jobs=settings.n_jobs,
        last=None if settings.solver == "dual" or n_init == 1 else dual_end,
    )  # fmt: skip


def _problem(X: Matrix, y: Vector, C: Vector, settings: Settings) -> PolytopeProblem:
    from polyopt.cpm.alternating import PolytopeProblem

    K, scale = settings.n_faces, settings.feature_scale
    if settings.solver == "dual":
        return PolytopeProblem(X, y, C, K, engine="dual", tol=_GAP_PER_TOL * settings.tol, scale=scale)
    if settings.margin == "worst":
        from polyopt.cpm.alternating import WorstCaseProblem

        return WorstCaseProblem(as_floats(X, scale), y, C, K, settings.loss)
    return PolytopeProblem(as_floats(X, scale), y, C, K, settings.loss)


def as_floats(X: Matrix, scale: float) -> Matrix:
    """The samples times `scale`: float32 stays, other numbers become float64; CSR stays CSR."""
    dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if scale == 1.0:
        return X.astype(dtype, copy=False)
    if is_sparse(X):
        return sp.csr_array((X.data.astype(dtype) * dtype.type(scale), X.indices, X.indptr), shape=X.shape)
    return X.astype(dtype) * dtype.type(scale)
