"""One door to the solvers of the union of polytopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formulations.solution import Solution, Status
from polyopt.outer.cpm.union_choice import choose
from polyopt.outer.cpm.union_data import Merged
from polyopt.outer.cpm.union_search import UnionSearch
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector
    from polyopt.outer.cpm.union_choice import Choice

__all__ = ["UnionSettings", "solve_cpm_union"]

_CLOSER = 0.1  # share of the tolerance to which gaps are closed, as single conditions hold less well
# As for one polytope: entries of the face programs, of which each counts as some more, the least one costs.
_EXACT_CELLS, _CELLS_PER_FACE = 30_000, 1_500
_BEFORE_EXACT = 100  # rounds of the dual ascent at most where the explicit programs do the rest
_TRIAL_STARTS = 3  # for each side, where the number of pieces is given


@dataclass(frozen=True)
class UnionSettings:
    """What a solver is told besides the data; each as the estimator's parameter of the same name.

    `n_polytopes` is None for a number that the solver chooses; `sides` is what the labels may be multiplied
    with.
    """

    n_polytopes: int | None
    n_faces: int
    sides: tuple[float, ...] = (1.0,)
    solver: str = "auto"
    n_init: int = 5
    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None


def solve_cpm_union(
    X: Matrix, y: Vector, C: Vector, settings: UnionSettings, seed: int
) -> tuple[Solution, float]:
    """A union of polytopes of low objective, and the side that was taken.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: on the side +1, -1 is inside and +1 outside.
    C : ndarray of shape (n,)
        Cost of slack per sample, positive.
    settings : UnionSettings
        Sizes, solver and limits.
    seed : int
        Of all that is random.

    Returns
    -------
    solution : Solution
        ``primal`` has ``W`` (K, m+1), bias last, ``pieces`` (K,), ``inside`` (n,) and ``outside`` (n, D);
        ``duals`` the multipliers ``margin`` (n, K). ``history`` has a record for each point that was refined.
    side : float
        The side.
    """
    clock, merged = Clock(settings.time_limit), Merged.of(X, y, C)
    choice = _choice(merged, settings, clock, seed)
    side = settings.sides[0] if choice is None else choice.side
    search = UnionSearch(merged.X, side * merged.y, merged.C, settings.n_faces, clock)
    first, n_pieces = None, settings.n_polytopes or 1
    if choice is not None:
        found = choice.chosen.point
        first, n_pieces = search.at(found.W, found.pieces), settings.n_polytopes or found.n_pieces
    is_exact = settings.solver == "exact" or (
        settings.solver == "auto" and _is_small(X, n_pieces * settings.n_faces)
    )
    if choice is not None and choice.is_interrupted:
        search.best, status = first, Status.INTERRUPTED
    else:
        rounds = min(settings.max_iter, _BEFORE_EXACT) if is_exact else settings.max_iter
        status = search.run(
            n_pieces,
            n_init=settings.n_init,
            tol=_CLOSER * settings.tol,
            max_rounds=rounds,
            seed=seed,
            first=first,
        )
    point, history = search.best, [*([] if choice is None else choice.history), *search.history]
    assert point is not None
    is_exact &= status in (Status.CONVERGED, Status.ITERATION_LIMIT)
    if is_exact:
        from polyopt.outer.cpm.union_exact import solve_exactly

        point, status, records = solve_exactly(search.engine, point, settings.max_iter, clock.left)
        history += [{"pieces": float(point.n_pieces), **record} for record in records]
    given = merged.given_back(point)
    primal = {"W": given.W, "pieces": given.pieces, "inside": given.inside, "outside": given.outside}
    return Solution(
        status=status,
        primal=primal,
        duals={"margin": given.alpha},
        objective=given.objective,
        bound=given.bound,
        solver=f"alternating, {'explicit programs' if is_exact else 'dual coordinate ascent'}",
        iterations=int(sum(record.get("rounds", 1.0) for record in history)),
        solve_time=clock.seconds,
        history=tuple(history),
    ), side


def _is_small(X: Matrix, n_faces: int) -> bool:
    """Whether the explicit programs take a second or so."""
    n, m = X.shape
    return n_faces * (n * (m + 1) + _CELLS_PER_FACE) <= _EXACT_CELLS


def _choice(merged: Merged, settings: UnionSettings, clock: Clock, seed: int) -> Choice | None:
    """What is chosen by samples that are held out; None where all is given, or where there are too few."""
    if settings.n_polytopes is not None and len(settings.sides) == 1:
        return None
    return choose(
        merged.X, merged.y, merged.C, n_pieces=settings.n_polytopes, n_faces=settings.n_faces,
        n_init=min(settings.n_init, _TRIAL_STARTS), sides=settings.sides, clock=clock, seed=seed,
    )  # fmt: skip
