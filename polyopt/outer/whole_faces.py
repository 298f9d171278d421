"""Smooth faces of small whole numbers: real faces rounded one after the other, and what that cost at most.

The face that loses least is rounded first (:mod:`polyopt.solvers.smooth_whole`), for what the faces fix:
cells, or responsibilities. Those that are still real are refitted to what it leaves, so that they can make
good what rounding lost. Once all are whole, the numbers of one face after the other are searched again, and
no step that raises the machine's objective is taken.

What is proven is for what the faces fix at the end: the real program's bound. The objective less that is no
less than what whole numbers cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import whole
from formulations.solution import Solution, Status
from polyopt.outer.cpm.subset import search_subset
from polyopt.solvers.clock import Clock
from polyopt.solvers.smooth_whole import SmoothWhole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.few_faces import SmoothParts
    from polyopt.solvers.whole import Whole

    Vector = NDArray[np.float64]

__all__ = ["round_smooth_faces"]

_ROUNDS = 20  # of searching the numbers anew at most, once all faces are whole
_REFITS = 3  # of the real faces, after each that is rounded
_GAIN = 1e-9  # relative fall of the objective that counts as one
_CLOSE = 1e-12  # relative gap to which the real program is solved


def round_smooth_faces(
    machine: SmoothParts, real: Solution, M: int, *, max_features: int | None = None, max_nodes: int = 1000,
    time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Round the faces of a solution to whole numbers from −M to M, times a scale for each face.

    Parameters
    ----------
    machine : SmoothParts
        The machine.
    real : Solution
        Faces ``W`` (K, m+1).
    M : int
        The largest number.
    max_features : int, optional
        Numbers other than 0 at most, for each face; the bound is then among faces of so few features.
    max_nodes, seed
        Of the search for that bound, as of :func:`polyopt.outer.cpm.subset.search_subset`.
    time_limit : float, optional
        Seconds. Every face is rounded once whatever the time.

    Returns
    -------
    Solution
        Primal ``integers`` (K, m), ``scales`` (K,), ``thresholds`` (K,) and the faces ``W`` (K, m+1) that
        they make, of those faces that have samples; duals ``real`` (K, m+1), the best real faces for what
        these fix, with trees where `max_features` is given; ``bound``, theirs.
    """
    clock = Clock(time_limit)
    rounding = _Rounding(machine, np.array(real["W"]), whole("M", M), max_features, clock)
    status = real.status
    try:
        rounding.round_all()
        rounding.search_again()
    except KeyboardInterrupt:
        rounding.finish()
        status = Status.INTERRUPTED
    if clock.is_over and status is Status.CONVERGED:
        status = Status.TIME_LIMIT
    kept, duals, bound = rounding.proven(max_nodes, seed)
    W, wholes = rounding.W[kept], [rounding.wholes[int(k)] for k in kept]
    return replace(
        real,
        status=status,
        primal={
            "W": W,
            "integers": np.array([each.numbers for each in wholes]),
            "scales": np.array([each.scale for each in wholes]),
            "thresholds": np.array([each.threshold for each in wholes]),
        },
        duals=duals,
        objective=machine.value(rounding.W),
        bound=bound,
        solver=f"{real.solver}; rounded to whole numbers",
        solve_time=real.solve_time + clock.seconds,
    )


class _Rounding:
    """The faces on the way: real ones, and those that are whole already."""

    def __init__(self, machine: SmoothParts, W: Vector, M: int, s: int | None, clock: Clock):
        self.machine, self.W, self.M, self.s, self.clock = machine, W, M, s, clock
        self.wholes: dict[int, Whole] = {}

    def round_all(self) -> None:
        """Round one face after the other, and refit those that are left."""
        losses = [self._with(k, self._rounded(k).w) for k in range(len(self.W))]
        for k in np.argsort(losses, kind="stable"):
            self._take(int(k), self._rounded(int(k)))
            for _ in range(_REFITS):
                left = [other for other in range(len(self.W)) if other not in self.wholes]
                if self.clock.is_over or not left or not self._refit(left):
                    break

    def search_again(self) -> None:
        """Search the numbers of every face from where they are, until none lowers the objective."""
        for _ in range(_ROUNDS):
            moved = False
            for k in range(len(self.W)):
                if self.clock.is_over:
                    return
                found, now = self._rounded(k), self.machine.value(self.W)
                if self._with(k, found.w) < now - _GAIN * abs(now):
                    self._take(k, found)
                    moved = True
            if not moved:
                return

    def finish(self) -> None:
        """After an interruption: round what is still real."""
        for k in range(len(self.W)):
            if k not in self.wholes:
                self._take(k, self._rounded(k))

    def proven(self, max_nodes: int, seed: int) -> tuple[NDArray[np.int64], dict[str, Vector], float]:
        """The faces that have samples, the best real ones and their trees, and their bound."""
        m, bound = self.W.shape[1] - 1, 0.0
        duals: dict[str, Vector] = {}
        real, parts = np.zeros(self.W.shape), self.machine.parts(self.W, m if self.s is None else self.s)
        for number, part in enumerate(parts):
            program, own = part.program, self.W[part.faces]
            if self.s is None:
                found = program.fit(np.arange(program.m), tol=_CLOSE, w=program.vector(own))
                w, least = found.w, found.bound
            else:
                left = None if self.clock.left is None else self.clock.left / (len(parts) - number)
                search, _ = search_subset(
                    program, max_nodes=max_nodes, time_limit=left, features=np.flatnonzero(own[:, :-1]),
                    seed=seed,
                )  # fmt: skip
                assert search.best is not None
                w, least = search.best.w, search.bound
                duals[f"tree_{number}"] = search.tree.table()
            real[part.faces], bound = program.faces(w), bound + max(least, 0.0)
        kept = np.sort(np.concatenate([part.faces for part in parts]))
        return kept, {"real": real[kept], **duals}, bound

    # -- one face ------------------------------------------------------------------------------

    def _rounded(self, k: int) -> Whole:
        rows, loss = self.machine.scored(self.W, k)
        face = SmoothWhole(self.machine.X[rows], loss, self.machine.ridge, self.M, self.s)
        now = [self.wholes[k].numbers] if k in self.wholes else []
        return face.round(self.W[k], *now)

    def _with(self, k: int, w: Vector) -> float:
        """The objective with another face k."""
        W = self.W.copy()
        W[k] = w
        return self.machine.value(W)

    def _take(self, k: int, found: Whole) -> None:
        self.wholes[k], self.W[k] = found, found.w

    def _refit(self, left: list[int]) -> bool:
        """Fit some real faces anew, where few features are asked in those they have; whether it helps."""
        W = self.W.copy()
        for part in self.machine.parts(W, W.shape[1] - 1):
            free = np.isin(part.faces, left)[:, None] & np.ones((1, W.shape[1]), dtype=bool)
            if self.s is not None:
                free[:, :-1] &= W[part.faces, :-1] != 0.0
            W[part.faces] = part.program.refitted(W[part.faces], free)
        now = self.machine.value(self.W)
        is_lower = self.machine.value(W) < now - _GAIN * abs(now)
        self.W = W if is_lower else self.W
        return is_lower
