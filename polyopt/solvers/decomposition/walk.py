"""The start of a small machine: pair steps over all samples, with kernel rows computed one at a time.

That and all free variables at once are all that many small machines need, and it leaves them exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.decomposition.subproblem import Computed, solve_pairs
from polyopt.solvers.decomposition.work import pair_work

if TYPE_CHECKING:
    from polyopt.solvers.decomposition.finish import Finish
    from polyopt.solvers.decomposition.history import History
    from polyopt.solvers.decomposition.ledger import Ledger
    from polyopt.solvers.decomposition.point import Point

__all__ = ["FEW", "walk"]

FEW = 2_000  # samples at most of a small machine
# Multiplications of a kernel row at most. The working sets of a machine of a thousand samples cost more in
# dispatch than in arithmetic; 325 small machines took 0.85 of scikit-learn's time with this start.
_WALK_ROW = 128_000
# Kernel rows and pair steps at most: what does not end soon ends sooner with working sets.
_WALK_ROWS, _WALK_STEPS = 128, 1_000
_WALK_TOL = 1e-3  # the violation from which on all free variables at once are exact in less time ...
_EXACT = 1e-8  # ... and so to this one, whatever the tolerance


def walk(point: Point, history: History, ledger: Ledger, finish: Finish, tol: float) -> bool:
    """Begin with pair steps over all samples, where rows are cheap; whether that was done.

    point: the point to go on from.
    history, ledger: where the steps are counted, and what they cost.
    finish: what comes after them.
    tol: the violation asked of the run.
    """
    n = point.gram.n
    is_cheap = n <= FEW and n * point.gram.width <= _WALK_ROW and np.isinf(history.limit)
    aim, violation = max(tol, _WALK_TOL), point.violation()
    factors = point.rows.factors() if is_cheap and point.is_whole and not violation <= tol else None
    if factors is None:
        return False
    history.record(violation)
    beta, g = point.beta.copy(), point.g.copy()
    taken, rows = solve_pairs(
        Computed(*factors), point.diagonal, g, beta, point.dual.phi, aim, _WALK_ROWS, _WALK_STEPS
    )
    if np.isfinite(g).all():  # or else it left the range of numbers
        point.take(beta, g)
    point.rows.computed += rows
    ledger.add_set(pair_work(taken, n))
    history.iteration += 1
    if point.violation() <= aim:
        finish.run(min(tol, _EXACT), hurry=True)
    return True
