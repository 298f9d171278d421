"""What a solver found, and how it ended. Light to import: no solver, no modelling language."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Solution", "Status"]


class Status(Enum):
    """How a solve ended; each value is a sentence."""

    OPTIMAL = "The point is optimal, by its solver's word or by its own optimality conditions."
    INACCURATE = "The solver reports a nearly optimal point, short of the tolerance asked."
    STALLED = "The solver can come no closer in double precision; the best point so far is kept."
    CONVERGED = "The run settled: a fixed point, or no change beyond the tolerance."
    INFEASIBLE = "No point satisfies every constraint."
    UNBOUNDED = "The objective is unbounded over the feasible points."
    ITERATION_LIMIT = "The iteration limit was reached; the best point so far is kept."
    TIME_LIMIT = "The time limit was reached; the best point so far is kept."
    INTERRUPTED = "The run was interrupted; the best point so far is kept."
    CUT_OFF = "The optimum is proven to be above the cutoff given; no point is kept."
    FAILED = "The solver failed and left no point."

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Solution:
    """What a solver found: a point, its multipliers, and how it got there.

    Nothing here is proof of anything; a certificate, computed from the data and these vectors, is.

    Attributes
    ----------
    status : Status
        How the solve ended.
    primal : dict of str to ndarray
        The value of each variable, by name. Empty when there is no point.
    duals : dict of str to ndarray
        The multipliers of each row, by the row's name; inequality multipliers are non-negative
        (up to the solver's own accuracy; nothing is rounded here).
    objective : float
        The objective at ``primal``; nan when there is no point.
    bound : float or None
        The bound on the optimal value that the solver claims; None when it claims none.
    solver : str
        Which solver produced the point, and which failed before it.
    iterations : int
        Iterations of the solver (steps, sweeps or rounds: the solver's own unit).
    build_time, solve_time : float
        Seconds spent in building the problem for the solver, and in the solver.
    history : tuple of dict
        One record per stage of the run, where the solver keeps them.
    runs : tuple of Solution
        Every run, in the order of its start, where several were made; each without its multipliers.
    """

    status: Status
    primal: dict[str, NDArray[Any]]
    duals: dict[str, NDArray[Any]]
    objective: float
    bound: float | None
    solver: str
    iterations: int = 0
    build_time: float = 0.0
    solve_time: float = 0.0
    history: tuple[dict[str, float], ...] = ()
    runs: tuple[Solution, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Plain values only, so that formats without enumerations can save it."""
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "status": Status[state["status"]]})

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Value of the variable, or the multipliers of the row, called `name`."""
        if name in self.primal:
            return self.primal[name]
        if name in self.duals:
            return self.duals[name]
        known = ", ".join([*self.primal, *self.duals]) or f"nothing ({self.status})"
        raise KeyError(f"{name!r} is not in this solution, which holds {known}")
