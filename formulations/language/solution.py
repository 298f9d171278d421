"""Solutions and statuses. The module imports neither a solver nor cvxpy."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray

from formulations.language.display import Shown, Summary, Table


class Status(Enum):
    """End of a solve; each value is a sentence for the user."""

    SOLVED = "The solver finished: the point meets its stopping test."
    INACCURATE = "The solver stopped short of the tolerance asked; its point is kept."
    STALLED = "The solver can come no closer in double precision; the best point so far is kept."
    BOUNDED = "All parts of the search have ended: the optimum is between its bound and the point kept."
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


@dataclass(frozen=True, repr=False)
class Solution(Shown):
    """A point found by a solver, its multipliers, and its history.

    A solution proves nothing; a certificate, computed from the data and these vectors, does.

    Attributes
    ----------
    status : Status
        How the solve ended.
    primal : dict of str to ndarray
        The value of each variable, by name; empty if there is no point.
    duals : dict of str to ndarray
        The multipliers of each row (named family of constraints), by the row's name. Those of inequalities
        are nonnegative up to the solver's accuracy.
    objective : float
        The objective at ``primal``; nan if there is no point.
    bound : float or None
        The solver's bound on the optimal value, if it has one.
    solver : str
        The solver of this point, and the solvers that failed before it.
    iterations : int
        Iterations in the solver's own unit: steps, sweeps or rounds.
    build_time, solve_time : float
        Seconds spent in building the problem for the solver, and in the solver.
    history : tuple of dict
        One record per stage of the run, if the solver keeps them.
    runs : tuple of Solution
        With several starts, the solution of each start, without multipliers; also without its point if sparse
        samples have features without an entry.
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
    runs: "tuple[Solution, ...]" = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields with the status by name, for file formats without enumerations."""
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "status": Status[state["status"]]})

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the value of the variable, or the multipliers of the row, called `name`."""
        if name in self.primal:
            return self.primal[name]
        if name in self.duals:
            return self.duals[name]
        known = ", ".join([*self.primal, *self.duals]) or f"nothing ({self.status})"
        raise KeyError(f"{name!r} is not in this solution, which holds {known}")

    def _summary(self) -> Summary:
        fields = [
            ("status", str(self.status)),
            ("objective", f"{self.objective:.10g}"),
            ("bound", "–" if self.bound is None else f"{self.bound:.10g} (by the solver's word)"),
            ("solver", f"{self.solver}, {self.iterations} iterations"),
            ("seconds", f"{self.build_time:.3g} to build, {self.solve_time:.3g} to solve"),
            ("variables", ", ".join(self.primal) or "none"),
            ("multipliers", ", ".join(self.duals) or "none"),
        ]
        if self.runs:
            fields.append(("runs", str(len(self.runs))))
        columns = ("name", "shape", "not 0", "least", "largest")
        tables = [
            Table(title, columns, tuple(_summarise_array(name, values) for name, values in vectors.items()))
            for title, vectors in (("variables", self.primal), ("multipliers", self.duals))
            if vectors
        ]
        title = f"Solution: {self.status.name.lower().replace('_', ' ')}"
        return Summary(title, tuple(fields), (*tables, *_history_tables(self.history)))


def _summarise_array(name: str, values: NDArray[Any]) -> tuple[str, ...]:
    """Return an array's name, shape, number of nonzeros, least and largest value."""
    import numpy as np

    array = np.asarray(values)
    shape = "×".join(map(str, array.shape)) or "1"
    if not array.size or array.dtype.kind not in "biuf":
        return name, shape, "–", "–", "–"
    return name, shape, str(np.count_nonzero(array)), f"{array.min():.6g}", f"{array.max():.6g}"


def _history_tables(history: tuple[dict[str, float], ...], max_records: int = 50) -> list[Table]:
    """Return a table of the last records; no table for an empty history."""
    if not history:
        return []
    columns = tuple(history[-1])
    rows = tuple(tuple(_cell(record.get(name)) for name in columns) for record in history[-max_records:])
    title = f"history, {len(history)} records"
    if len(rows) < len(history):
        title += f", the last {max_records}"
    return [Table(title, columns, rows)]


def _cell(value: object) -> str:
    """Return a number of a record as text, a dash if the record has none."""
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
