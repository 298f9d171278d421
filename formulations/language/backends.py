"""The solvers behind :meth:`formulations.language.program.Program.solve`: how each is set, limited and read.

One :class:`Backend` per solver, and one :func:`attempt`, which runs a solver once and reads what it left.
Which solver follows which, and what becomes of an answer that falls short, is in
:mod:`formulations.language.solving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.language.clock import Clock, interrupted
from formulations.language.highs import quiet_highs, searches_of_cvxpy
from formulations.language.solution import Solution, Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.statement import Statement

__all__ = ["BACKENDS", "PREFERRED", "Backend", "attempt"]

Settings = dict[str, Any]


@dataclass(frozen=True)
class Backend:
    """How a solver is called.

    Attributes
    ----------
    settings : dict
        What it is told at first, in its own words.
    time : str
        Its name for a limit on seconds.
    iterations : tuple of str
        Its names for limits on iterations; all are set.
    by_kind : dict of str to dict
        What it is told besides for a class of programs.
    again : tuple of dict
        What it is told besides when it is asked again, one after the other: it fell short with what is above.
    word : callable
        Takes what the solver returned to its own word for how it ended.
    ends : dict of str to Status
        What its words say that cvxpy's do not tell apart, by a part of the word.
    """

    settings: Settings
    time: str
    iterations: tuple[str, ...]
    word: Callable[[Any], str]
    ends: Mapping[str, Status]
    by_kind: Mapping[str, Settings] = field(default_factory=dict)
    again: tuple[Settings, ...] = ()

    def attempts(self, kind: str) -> Iterator[Settings]:
        """Settings to try for a class of programs, the first ones first."""
        first = {**self.settings, **self.by_kind.get(kind, {})}
        yield first
        for others in self.again:
            yield {**first, **others}


# In order of preference. Clarabel is an interior-point solver: accurate to 1e-9 and above on all
# but the worst scaled data. HiGHS has exact vertices for LPs, but its QP solver gives up on some
# convex programs ("Non-convex"), so it never stands alone.
PREFERRED = {
    "LP": ("HIGHS", "CLARABEL"),
    "QP": ("CLARABEL", "OSQP", "HIGHS"),
    "QCQP": ("CLARABEL", "SCS"),
    "SDP": ("CLARABEL", "SCS"),
    "EXP": ("CLARABEL", "SCS"),
    "MILP": ("HIGHS",),
    "MIQP": ("SCIP",),
}
BACKENDS = {
    "CLARABEL": Backend(
        {
            "tol_gap_abs": 1e-11,
            "tol_gap_rel": 1e-11,
            "tol_feas": 1e-11,
            "max_iter": 200,
            "max_threads": 1,
            # A point short of these tolerances is still a point; its status says so.
            "accept_unknown": True,
        },
        time="time_limit",
        iterations=("max_iter",),
        word=lambda raw: str(raw.status),
        ends={"MaxTime": Status.TIME_LIMIT},
        by_kind={
            # It solves these as cones, and its tolerance is on their gap: a gap of eps leaves a gradient of
            # the program itself of about the square root of eps. Shorter steps stay nearer to the central
            # path, and so come that close in as many iterations; at 0.99 they often end short of it.
            "QCQP": {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "max_step_fraction": 0.9},
            "EXP": {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_step_fraction": 0.9},
            "SDP": {"max_step_fraction": 0.9},
        },
        again=(
            {"equilibrate_enable": False, "max_step_fraction": 0.9},
            {"static_regularization_constant": 1e-12, "max_step_fraction": 0.8},
        ),
    ),
    "HIGHS": Backend(
        # Its QP solver regularises by 1e-7, which is how far stationarity then falls short. With none at all
        # it gives up on every other program of this package; with this little on hardly any.
        # Nor does it always end.
        {"qp_regularization_value": 1e-10, "qp_iteration_limit": 50_000},
        time="time_limit",
        iterations=("simplex_iteration_limit", "ipm_iteration_limit", "qp_iteration_limit"),
        word=lambda raw: str(raw["model_status"]),
        ends={"TimeLimit": Status.TIME_LIMIT},
        again=({"qp_regularization_value": 1e-9}, {"qp_regularization_value": 1e-7}),
    ),
    "OSQP": Backend(
        {
            "eps_abs": 1e-9,
            "eps_rel": 1e-9,
            "max_iter": 20_000,
            "polishing": True,
            # Adapting its step every 50 iterations, its own choice, it can go round in circles for ever.
            "adaptive_rho_interval": 500,
        },
        time="time_limit",
        iterations=("max_iter",),
        word=lambda raw: str(raw.info.status),
        ends={"time limit": Status.TIME_LIMIT},
        again=({"scaling": 0}, {"max_iter": 200_000}),
    ),
    "SCS": Backend(
        {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000},
        time="time_limit_secs",
        iterations=("max_iters",),
        word=lambda raw: str(raw["info"]["status"]),
        ends={"time_limit": Status.TIME_LIMIT, "max_iters": Status.ITERATION_LIMIT},
    ),
    "SCIP": Backend(
        {"limits/gap": 1e-7, "numerics/feastol": 1e-8},
        time="limits/time",
        iterations=("limits/nodes",),
        word=lambda raw: str(raw["model"].getStatus()),
        ends={
            "gaplimit": Status.SOLVED,
            "timelimit": Status.TIME_LIMIT,
            "nodelimit": Status.ITERATION_LIMIT,
        },
    ),
}
_STATUSES = {
    cp.OPTIMAL: Status.SOLVED,
    cp.OPTIMAL_INACCURATE: Status.INACCURATE,
    cp.INFEASIBLE: Status.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: Status.INFEASIBLE,
    cp.UNBOUNDED: Status.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: Status.UNBOUNDED,
    cp.USER_LIMIT: Status.ITERATION_LIMIT,
}
_RULED_OUT = (Status.INFEASIBLE, Status.UNBOUNDED)
_INTERRUPTED = ("interrupted", "userinterrupt")  # words of the solvers that answer Ctrl-C themselves


def attempt(
    program: Statement, solver: str, settings: Settings, *, seconds: float | None = None,
    max_iter: int | None = None, verbose: bool = False, start: Mapping[str, ArrayLike] | None = None,
) -> Solution:  # fmt: skip
    """Run one solver once; the program's variables and rows then hold what it left.

    Parameters
    ----------
    program : Statement
        The program.
    solver : str
        A key of :data:`BACKENDS`.
    settings : dict
        The solver's settings.
    seconds : float, optional
        Time limit, from here on: building the program for the solver counts.
    max_iter : int, optional
        Limit on its iterations.
    verbose : bool
        Let the solver print its log.
    start : mapping of str to array_like, optional
        A value for every variable, from which HiGHS begins an integer program.

    Returns
    -------
    Solution
        With status ``FAILED`` where there is no point and no verdict. Integer programs have no multipliers.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, if there is no point of an integer program to be kept.
    """
    backend, settings = BACKENDS[solver], dict(settings)
    if max_iter is not None:
        settings |= dict.fromkeys(backend.iterations, max_iter)
    clock = Clock(seconds)
    problem, found, was_interrupted = program.problem, None, False
    integer = problem.is_mixed_integer()
    if solver == "HIGHS":
        quiet_highs()
    try:
        data, chain, inverse = problem.get_problem_data(solver, verbose=verbose, solver_opts=settings)
        if clock.left is not None:
            # To some solvers a limit of 0 is no limit; with a nanosecond all of them end at once.
            settings[backend.time] = 1e-9 if clock.is_over else clock.left
        # A warm start is the caller's point: a solver kept from the last solve would keep its limits, too.
        begins = False
        if start is not None and solver == "HIGHS":
            _begin(program, data, start)
            begins = True
        told = {"warm_start": begins, "verbose": verbose, "solver_opts": settings}
        if integer and solver == "HIGHS":
            raw, was_interrupted = _searched(lambda: chain.solve_via_data(problem, data, **told), clock)
        else:
            raw = chain.solve_via_data(problem, data, **told)
            was_interrupted = backend.word(raw).lower() in _INTERRUPTED
        found = chain.invert(raw, inverse)
    except cp.error.SolverError:
        pass
    elapsed = clock.seconds
    if was_interrupted and (found is None or found.status not in _STATUSES or not integer):
        raise KeyboardInterrupt
    if found is None or found.status not in _STATUSES:  # neither a point nor a verdict
        return _empty(Status.FAILED, solver, elapsed, 0.0)
    problem.unpack(found)
    taken = float(found.attr.get("solve_time") or 0.0)
    status = interrupted() if was_interrupted else _status(backend, raw, _STATUSES[found.status])
    if status in _RULED_OUT:
        return _empty(status, solver, elapsed, taken)
    if any(variable.value is None for variable in program.variables.values()):
        if was_interrupted:
            raise KeyboardInterrupt
        return _empty(Status.FAILED, solver, elapsed, taken)
    objective = float(program.objective.value)
    distance, nodes = _tree(solver, raw) if integer else (np.nan, None)
    # cvxpy minimises, up to a constant: the distance to the bound is what can be carried over.
    distance = np.maximum(distance, 0.0) if program.sense == "minimise" else -np.maximum(distance, 0.0)
    return Solution(
        status=status,
        primal={name: np.array(v.value, dtype=float) for name, v in program.variables.items()},
        duals={} if integer else {row.name: row.multipliers for row in program.rows},
        objective=objective,
        bound=float(objective - distance) if np.isfinite(distance) else None,
        solver=solver.lower(),
        iterations=nodes or int(found.attr.get("num_iters") or 0),
        build_time=max(elapsed - taken, 0.0),
        solve_time=taken,
    )


def _begin(program: Statement, data: Any, values: Mapping[str, ArrayLike]) -> None:
    """Put a point where cvxpy looks for HiGHS's last solution, in the order of the columns."""
    columns = data[cp.settings.PARAM_PROB].var_id_to_col
    found = np.zeros(len(data[cp.settings.C]))
    for name, variable in program.variables.items():
        first = columns[variable.id]
        own = np.asarray(values[name], dtype=float).reshape(variable.shape)
        found[first : first + own.size] = own.ravel(order="F")
    point = quiet_highs().HighsSolution()
    point.col_value = found.tolist()
    last = {"model_status": "kOptimal", "solution": point}
    program.problem._solver_cache["HIGHS"] = (None, None, last)


def _searched(solve: Callable[[], Any], clock: Clock) -> tuple[Any, bool]:
    """What HiGHS leaves of an integer program, and True if Ctrl-C ended it."""
    with searches_of_cvxpy(clock) as interruptions:
        raw = solve()
    if raw["model_status"] == "kInterrupt":  # a word that cvxpy takes for an error
        raw["model_status"] = "kTimeLimit"
    return raw, any(interruptions)


def _empty(status: Status, solver: str, elapsed: float, taken: float) -> Solution:
    return Solution(
        status, {}, {}, float("nan"), None, solver.lower(),
        build_time=max(elapsed - taken, 0.0), solve_time=taken,
    )  # fmt: skip


def _status(backend: Backend, raw: Any, status: Status) -> Status:
    """How the solver ended: cvxpy has one word for both limits, or calls them inaccurate."""
    if status not in (Status.INACCURATE, Status.ITERATION_LIMIT):
        return status
    word = backend.word(raw)
    return next((end for part, end in backend.ends.items() if part in word), status)


def _tree(solver: str, raw: Any) -> tuple[float, int | None]:
    """Of an integer program: how far the solver's bound lies from its value, and the nodes of its tree."""
    if solver == "SCIP":
        model = raw["model"]
        return model.getObjVal() - model.getDualbound(), int(model.getNTotalNodes())
    if solver == "HIGHS":
        return raw["info"].objective_function_value - raw["info"].mip_dual_bound, None
    return np.nan, None
