"""Faces of small whole numbers: real faces rounded one after the other, and what that cost at most.

The face that loses least is rounded first (:mod:`polyopt.solvers.whole`), for what the faces fix: cells, or
responsibilities. Those that are still real are refitted to what it leaves, so that they can make
good what rounding lost. Once all are whole, the numbers of one face after the other are searched again, and
no step that raises the machine's objective is taken.

What is proven is for what the faces fix at the end: the real program's bound. The objective less that is no
less than what whole numbers cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from formulations.arguments import whole
from formulations.solution import Solution
from polyopt.outer.cpm.subset import search_subset
from polyopt.outer.whole_steps import carried_out, numbers_of
from polyopt.solvers.clock import Clock
from polyopt.solvers.smooth_whole import SmoothWhole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.outer.few_faces import SmoothParts
    from polyopt.solvers.whole import Whole

    Integers = NDArray[np.int64]

__all__ = ["Rounding", "SmoothRounding", "round_faces", "round_smooth_faces"]

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
    return round_faces(
        SmoothRounding(machine, whole("M", M), max_features, max_nodes, seed), real, time_limit
    )


def round_faces(rounding: Rounding, real: Solution, time_limit: float | None = None) -> Solution:
    """Round the faces of a solution, as a machine does it.

    Parameters
    ----------
    rounding : Rounding
        How one face is rounded, real ones are refitted, and what is then proven.
    real : Solution
        Faces ``W`` (K, m+1).
    time_limit : float, optional
        Seconds. Every face is rounded once whatever the time.

    Returns
    -------
    Solution
        As of :func:`round_smooth_faces`; ``duals`` are those of the rounding's proof.
    """
    clock = Clock(time_limit)
    run = _Run(rounding, np.array(real["W"]), clock)
    status = carried_out(run, real.status, clock)
    kept, duals, bound = rounding.proven(run.W, clock)
    W, wholes = run.W[kept], [run.wholes[int(k)] for k in kept]
    return replace(
        real,
        status=status,
        primal={
            "W": W,
            **numbers_of(wholes),
        },
        duals=duals,
        objective=rounding.value(run.W),
        bound=bound,
        solver=f"{real.solver}; rounded to whole numbers",
        solve_time=real.solve_time + clock.seconds,
    )


class Rounding(Protocol):
    """What the rounding of faces asks of a machine."""

    def value(self, W: Vector) -> float:
        """The machine's objective."""

    def rounded(self, W: Vector, k: int, now: Whole | None, clock: Clock) -> Whole:
        """Face k of W as whole numbers, for what W fixes; no worse there than the numbers it has now."""

    def refitted(self, W: Vector, left: list[int], clock: Clock) -> Vector:
        """W with some faces fitted anew, for what W fixes."""

    def proven(self, W: Vector, clock: Clock) -> tuple[Integers, dict[str, Vector], float]:
        """The faces that have samples, what proves a bound on real ones, and that bound."""


class SmoothRounding:
    """The rounding of a machine with smooth losses.

    Parameters
    ----------
    machine, max_features, max_nodes, seed
        As of :func:`round_smooth_faces`.
    M : int
        The largest number.
    """

    def __init__(
        self, machine: SmoothParts, M: int, max_features: int | None, max_nodes: int = 1000, seed: int = 0
    ):
        self.machine, self.M, self.s, self.max_nodes, self.seed = machine, M, max_features, max_nodes, seed

    def value(self, W: Vector) -> float:
        """The machine's objective."""
        return self.machine.value(W)

    def rounded(self, W: Vector, k: int, now: Whole | None, clock: Clock) -> Whole:
        """Face k as whole numbers."""
        rows, loss = self.machine.scored(W, k)
        face = SmoothWhole(self.machine.X[rows], loss, self.machine.ridge, self.M, self.s)
        return face.round(W[k], *([] if now is None else [now.numbers]))

    def refitted(self, W: Vector, left: list[int], clock: Clock) -> Vector:
        """W with some faces fitted anew, where few features are asked in those they have."""
        W = W.copy()
        for part in self.machine.parts(W, W.shape[1] - 1):
            free = np.isin(part.faces, left)[:, None] & np.ones((1, W.shape[1]), dtype=bool)
            if self.s is not None:
                free[:, :-1] &= W[part.faces, :-1] != 0.0
            W[part.faces] = part.program.refitted(W[part.faces], free)
        return W

    def proven(self, W: Vector, clock: Clock) -> tuple[Integers, dict[str, Vector], float]:
        """The faces that have samples, the best real ones and their trees, and their bound."""
        m, bound = W.shape[1] - 1, 0.0
        duals: dict[str, Vector] = {}
        real, parts = np.zeros(W.shape), self.machine.parts(W, m if self.s is None else self.s)
        for number, part in enumerate(parts):
            program, own = part.program, W[part.faces]
            if self.s is None:
                found = program.fit(np.arange(program.m), tol=_CLOSE, w=program.vector(own))
                w, least = found.w, found.bound
            else:
                left = None if clock.left is None else clock.left / (len(parts) - number)
                search, _ = search_subset(
                    program, max_nodes=self.max_nodes, time_limit=left,
                    features=np.flatnonzero(own[:, :-1]), seed=self.seed,
                )  # fmt: skip
                assert search.best is not None
                w, least = search.best.w, search.bound
                duals[f"tree_{number}"] = search.tree.table()
            real[part.faces], bound = program.faces(w), bound + max(least, 0.0)
        kept = np.sort(np.concatenate([part.faces for part in parts]))
        return kept, {"real": real[kept], **duals}, bound


class _Run:
    """The faces on the way: real ones, and those that are whole already."""

    def __init__(self, rounding: Rounding, W: Vector, clock: Clock):
        self.rounding, self.W, self.clock = rounding, W, clock
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
                found, now = self._rounded(k), self.rounding.value(self.W)
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

    def _rounded(self, k: int) -> Whole:
        return self.rounding.rounded(self.W, k, self.wholes.get(k), self.clock)

    def _with(self, k: int, w: Vector) -> float:
        """The objective with another face k."""
        W = self.W.copy()
        W[k] = w
        return self.rounding.value(W)

    def _take(self, k: int, found: Whole) -> None:
        self.wholes[k], self.W[k] = found, found.w

    def _refit(self, left: list[int]) -> bool:
        """Fit some real faces anew; whether it helps."""
        W, now = self.rounding.refitted(self.W, left, self.clock), self.rounding.value(self.W)
        is_lower = self.rounding.value(W) < now - _GAIN * abs(now)
        self.W = W if is_lower else self.W
        return is_lower
