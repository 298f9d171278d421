"""Solving a program: the order of the solvers, their settings, and the choice of a point.

An attempt is one run of one solver. If the first attempt ends with "optimal", its point is returned
unchecked, except that of HiGHS on a quadratic program. After any other status ("inaccurate", a limit of the
solver's own, a failure) the solver runs again with other settings, and then the next solver for this class of
programs. From then on the residual of every point is computed: the largest violation of an optimality
condition, relative to the condition's scale (:mod:`formulations.language.optimality`). The point with the
smallest residual is returned, with the status SOLVED if the residual is small.

If the caller sets options of a solver, its point is returned unchecked; so is that of an integer program, as
it has no multipliers. If the caller's limit is reached, the best point so far is returned.

A :class:`Backend` has the settings of a solver and the names of its limits, :func:`attempt` runs one solver
once, and :func:`solve` runs the solvers in turn, with the results in a :class:`_Run`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import seconds, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.highs import quiet_highs, searches_of_cvxpy
from formulations.language.optimality import conditions
from formulations.language.solution import Solution, Status
from formulations.language.statement import Statement

Settings = dict[str, Any]


@dataclass(frozen=True)
class Backend:
    """The settings of a solver, by the solver's own names, and the names of its limits and statuses."""

    settings: Settings  # settings of the first attempt
    iteration_options: tuple[str, ...]  # names of the limits on iterations; all are set
    native_status: Callable[[Any], str]  # returns the solver's own (native) status from its raw result
    statuses: Mapping[str, Status]  # status for a native one that contains the key, if cvxpy's is less exact
    time_option: str = "time_limit"  # name of the limit on seconds
    settings_by_kind: Mapping[str, Settings] = field(default_factory=dict)  # changes, by class of programs
    retries: tuple[Settings, ...] = ()  # for each further attempt, changes of the first attempt's settings

    def attempts(self, kind: str) -> list[Settings]:
        """Return the settings of each attempt at a program of this class."""
        first = {**self.settings, **self.settings_by_kind.get(kind, {})}
        return [first, *({**first, **changes} for changes in self.retries)]


# Solvers by class of programs (``Statement.kind``), in order of preference. Clarabel is an interior-point
# solver, accurate to about 1e-9 unless the data are badly scaled. HiGHS returns exact vertices of LPs, but
# its QP solver rejects some convex programs ("Non-convex"), so it is never the only solver for them.
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
            # Points that miss these tolerances are returned, with their status.
            "accept_unknown": True,
        },
        iteration_options=("max_iter",),
        native_status=lambda raw: str(raw.status),
        statuses={"MaxTime": Status.TIME_LIMIT},
        settings_by_kind={
            # A tolerance eps on the gap of such a cone program leaves a gradient of about sqrt(eps). Shorter
            # steps stay closer to the central path and reach the tolerance in as many iterations; with the
            # default 0.99 they often do not reach it.
            "QCQP": {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "max_step_fraction": 0.9},
            "EXP": {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_step_fraction": 0.9},
            "SDP": {"max_step_fraction": 0.9},
        },
        retries=(
            {"equilibrate_enable": False, "max_step_fraction": 0.9},
            {"static_regularization_constant": 1e-12, "max_step_fraction": 0.8},
        ),
    ),
    "HIGHS": Backend(
        # The default regularisation 1e-7 of the QP solver leaves a residual of stationarity of 1e-7. Without
        # regularisation half of this package's programs fail, with 1e-10 hardly any. The iteration limit ends
        # runs that do not converge.
        {"qp_regularization_value": 1e-10, "qp_iteration_limit": 50_000},
        iteration_options=("simplex_iteration_limit", "ipm_iteration_limit", "qp_iteration_limit"),
        native_status=lambda raw: str(raw["model_status"]),
        statuses={"TimeLimit": Status.TIME_LIMIT},
        retries=({"qp_regularization_value": 1e-9}, {"qp_regularization_value": 1e-7}),
    ),
    "OSQP": Backend(
        {
            "eps_abs": 1e-9,
            "eps_rel": 1e-9,
            "max_iter": 20_000,
            "polishing": True,
            # With the default interval of 50 iterations between adaptations of its step it may cycle.
            "adaptive_rho_interval": 500,
        },
        iteration_options=("max_iter",),
        native_status=lambda raw: str(raw.info.status),
        statuses={"time limit": Status.TIME_LIMIT},
        retries=({"scaling": 0}, {"max_iter": 200_000}),
    ),
    "SCS": Backend(
        {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000},
        time_option="time_limit_secs",
        iteration_options=("max_iters",),
        native_status=lambda raw: str(raw["info"]["status"]),
        statuses={"time_limit": Status.TIME_LIMIT, "max_iters": Status.ITERATION_LIMIT},
    ),
    "SCIP": Backend(
        {"limits/gap": 1e-7, "numerics/feastol": 1e-8},
        time_option="limits/time",
        iteration_options=("limits/nodes",),
        native_status=lambda raw: str(raw["model"].getStatus()),
        statuses={
            "gaplimit": Status.SOLVED,
            "timelimit": Status.TIME_LIMIT,
            "nodelimit": Status.ITERATION_LIMIT,
        },
    ),
}
_STATUSES = {  # by cvxpy's status; a solution with any other status is useless
    cp.OPTIMAL: Status.SOLVED,
    cp.OPTIMAL_INACCURATE: Status.INACCURATE,
    cp.INFEASIBLE: Status.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: Status.INFEASIBLE,
    cp.UNBOUNDED: Status.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: Status.UNBOUNDED,
    cp.USER_LIMIT: Status.ITERATION_LIMIT,
}
_INTERRUPTED = ("interrupted", "userinterrupt")  # statuses of solvers that handle Ctrl-C themselves


def attempt(
    program: Statement, solver: str, settings: Settings, *, seconds: float | None = None,
    max_iter: int | None = None, verbose: bool = False, start: Mapping[str, ArrayLike] | None = None,
) -> Solution:  # fmt: skip
    """Run one solver once, and assign its point to the program's variables and rows.

    `seconds` is the limit for building the program and for the solver together. `start` is a value for every
    variable, from which HiGHS begins an integer program. The result has no point if its status is INFEASIBLE,
    UNBOUNDED or FAILED. Ctrl-C raises KeyboardInterrupt unless an integer program has a point.
    """
    settings = dict(settings)
    if max_iter is not None:
        settings |= dict.fromkeys(BACKENDS[solver].iteration_options, max_iter)
    clock = Clock(seconds)
    raw, result, was_interrupted = _run_backend(program, solver, settings, clock, verbose, start)
    elapsed, is_integer = clock.seconds, program.problem.is_mixed_integer()
    is_useless = result is None or result.status not in _STATUSES
    if was_interrupted and (is_useless or not is_integer):
        raise KeyboardInterrupt
    if is_useless:
        return _without_point(Status.FAILED, solver, elapsed, 0.0)
    program.problem.unpack(result)
    solve_time = float(result.attr.get("solve_time") or 0.0)
    status = interrupted() if was_interrupted else _status(solver, raw, _STATUSES[result.status])
    if status in _NO_POINT_EXISTS:
        return _without_point(status, solver, elapsed, solve_time)
    if any(variable.value is None for variable in program.variables.values()):
        if was_interrupted:
            raise KeyboardInterrupt
        return _without_point(Status.FAILED, solver, elapsed, solve_time)
    objective = float(program.objective.value)
    # The solver's objective differs from the program's by a constant and, for a maximisation, in sign: only
    # the gap between the solver's objective and its bound is used.
    gap, nodes = _gap_and_nodes(solver, raw) if is_integer else (np.nan, None)
    gap = np.maximum(gap, 0.0) if program.sense == "minimise" else -np.maximum(gap, 0.0)
    return Solution(
        status=status,
        primal={name: np.array(v.value, dtype=float) for name, v in program.variables.items()},
        duals={} if is_integer else {row.name: row.multipliers for row in program.rows},
        objective=objective,
        bound=float(objective - gap) if np.isfinite(gap) else None,
        solver=solver.lower(),
        iterations=nodes or int(result.attr.get("num_iters") or 0),
        build_time=max(elapsed - solve_time, 0.0),
        solve_time=solve_time,
    )


def _run_backend(
    program: Statement, solver: str, settings: Settings, clock: Clock, verbose: bool,
    start: Mapping[str, ArrayLike] | None,
) -> tuple[Any, Any, bool]:  # fmt: skip
    """Return the solver's own result, cvxpy's (None if the solver failed), and True if Ctrl-C ended it."""
    backend, problem, was_interrupted = BACKENDS[solver], program.problem, False
    if solver == "HIGHS":
        quiet_highs()
    try:
        data, chain, inverse = problem.get_problem_data(solver, verbose=verbose, solver_opts=settings)
        if clock.left is not None:
            # Some solvers read a limit of 0 as no limit.
            settings[backend.time_option] = 1e-9 if clock.is_over else clock.left
        # Without a start, a warm start would also keep the limits of the last solve.
        has_start = start is not None and solver == "HIGHS"
        if start is not None and has_start:
            _set_start(program, data, start)
        arguments = {"warm_start": has_start, "verbose": verbose, "solver_opts": settings}
        if problem.is_mixed_integer() and solver == "HIGHS":
            with searches_of_cvxpy(clock) as interruptions:
                raw = chain.solve_via_data(problem, data, **arguments)
            was_interrupted = any(interruptions)
            if raw["model_status"] == "kInterrupt":  # cvxpy would treat it as an error
                raw["model_status"] = "kTimeLimit"
        else:
            raw = chain.solve_via_data(problem, data, **arguments)
            was_interrupted = backend.native_status(raw).lower() in _INTERRUPTED
        return raw, chain.invert(raw, inverse), was_interrupted
    except cp.error.SolverError:
        return None, None, was_interrupted


def _set_start(program: Statement, data: Any, values: Mapping[str, ArrayLike]) -> None:
    """Store a point as HiGHS's last solution in cvxpy's cache, from which a warm start begins."""
    columns = data[cp.settings.PARAM_PROB].var_id_to_col
    x = np.zeros(len(data[cp.settings.C]))
    for name, variable in program.variables.items():
        first = columns[variable.id]
        value = np.asarray(values[name], dtype=float).reshape(variable.shape)
        x[first : first + value.size] = value.ravel(order="F")
    point = quiet_highs().HighsSolution()
    point.col_value = x.tolist()
    last = {"model_status": "kOptimal", "solution": point}
    program.problem._solver_cache["HIGHS"] = (None, None, last)


def _without_point(status: Status, solver: str, elapsed: float, solve_time: float) -> Solution:
    """Return a solution with this status and no point."""
    return Solution(
        status, {}, {}, float("nan"), None, solver.lower(),
        build_time=max(elapsed - solve_time, 0.0), solve_time=solve_time,
    )  # fmt: skip


def _status(solver: str, raw: Any, status: Status) -> Status:
    """Return `status` (from cvxpy), or a more exact one that only the solver's own status tells."""
    if status not in (Status.INACCURATE, Status.ITERATION_LIMIT):
        return status
    backend = BACKENDS[solver]
    native = backend.native_status(raw)
    return next((known for part, known in backend.statuses.items() if part in native), status)


def _gap_and_nodes(solver: str, raw: Any) -> tuple[float, int | None]:
    """Return objective − bound of an integer program (nan if unknown), and its number of nodes, if known."""
    if solver == "SCIP":
        model = raw["model"]
        return model.getObjVal() - model.getDualbound(), int(model.getNTotalNodes())
    if solver == "HIGHS":
        return raw["info"].objective_function_value - raw["info"].mip_dual_bound, None
    return np.nan, None


_NO_POINT_EXISTS = (Status.INFEASIBLE, Status.UNBOUNDED)


def solve(
    program: Statement, solver: str | None, *, time_limit: float | None, max_iter: int | None, verbose: bool,
    start: Mapping[str, ArrayLike] | None, options: dict[str, Any],
) -> Solution:  # fmt: skip
    """Solve a program; arguments and result as in :meth:`formulations.language.program.Program.solve`."""
    if solver is not None and (not isinstance(solver, str) or solver.upper() not in BACKENDS):
        raise ValueError(f"solver must be one of {', '.join(BACKENDS)}, not {solver!r}")
    solvers = PREFERRED[program.kind] if solver is None else (solver.upper(),)
    time_limit, max_iter = seconds(time_limit), whole_or_none("max_iter", max_iter)
    if "SCIP" in solvers:
        require_scip()
    run = _Run(program, time_limit, max_iter, verbose, start, options)
    try:
        for name in solvers:
            if run.try_solver(name):
                break
    except KeyboardInterrupt:
        if run.best is None:
            raise
        run.best = replace(run.best, status=interrupted())
    return run.result()


def require_scip() -> None:
    """Raise ModuleNotFoundError, with the command to install it, if SCIP is missing."""
    if "SCIP" not in cp.installed_solvers():
        raise ModuleNotFoundError(
            "this program needs SCIP, which is not installed: pip install 'polyopt[mip]'"
        )


@dataclass
class _Run:
    """One call of :func:`solve`, with its arguments and its results so far."""

    program: Statement
    time_limit: float | None
    max_iter: int | None
    verbose: bool
    start: Mapping[str, ArrayLike] | None
    options: dict[str, Any]
    best: Solution | None = None
    residual: float = np.inf  # residual of `best`
    ruled_out: Solution | None = None  # the first solution with the status INFEASIBLE or UNBOUNDED
    failures: dict[str, str] = field(default_factory=dict)  # by solver: "failed" or "fell short"
    times: tuple[float, float] = (0.0, 0.0)  # seconds of building and of solving, in all attempts
    solved_residual: float = 1e-6  # largest residual of the status SOLVED, and for which no other solver runs
    final_residual: float = 1e-7  # largest residual for which the same solver does not run again

    def __post_init__(self) -> None:
        self.clock = Clock(self.time_limit)
        # A solver runs once, and unchecked, with options of the caller or on an integer program.
        self.is_unchecked = bool(self.options) or self.program.problem.is_mixed_integer()

    def try_solver(self, name: str) -> bool:
        """Run a solver with its settings in turn; return True if no other solver need run."""
        kind, is_final = self.program.kind, False
        for number, settings in enumerate(BACKENDS[name].attempts(kind)):
            if self.clock.is_over and self.times != (0.0, 0.0):  # the first attempt is always made
                return True
            solution = attempt(
                self.program, name, {**settings, **self.options},
                seconds=self.clock.left, max_iter=self.max_iter, verbose=self.verbose, start=self.start,
            )  # fmt: skip
            self.times = (self.times[0] + solution.build_time, self.times[1] + solution.solve_time)
            is_final = self._record(solution, number == 0, self._named(name.lower(), number))
            if is_final or solution.status in _NO_POINT_EXISTS or self.is_unchecked:
                break
        return is_final or self.residual <= self.solved_residual

    def _record(self, solution: Solution, is_first_attempt: bool, named: str) -> bool:
        """Record a solution, with the text `named` as its solver; return True if no attempt need follow.

        1. A solution without a point is a failure. INFEASIBLE or UNBOUNDED may be wrong on badly scaled data,
           and is returned only if no solver finds a point.
        2. A point that need not be checked, or the first attempt's "optimal", is final.
        3. Any other point is kept if its residual is the smallest so far, and is final if the residual is
           small enough or the caller's limit was reached.
        """
        name, solution = solution.solver, replace(solution, solver=named)
        if solution.status in _NO_POINT_EXISTS:
            self.ruled_out = self.ruled_out or solution
        if not solution.primal:
            self.failures.setdefault(name, "failed")
            return False
        # True at a limit of the caller, False at one of `Backend.settings`
        is_limit = solution.status is Status.TIME_LIMIT or (
            solution.status is Status.ITERATION_LIMIT and (self.max_iter is not None or bool(self.options))
        )
        if is_limit and self.ruled_out is not None:  # INFEASIBLE or UNBOUNDED says more than this point
            return False
        is_first = not self.failures and is_first_attempt and solution.status is Status.SOLVED
        is_reliable = (name.upper(), self.program.kind) != ("HIGHS", "QP")
        is_trusted = self.is_unchecked or (is_first and is_reliable)
        residual = 0.0 if is_trusted else conditions(self.program, solution.primal, solution.duals).shortfall
        is_solved = residual <= self.solved_residual
        if is_trusted or (is_first and is_solved):
            self.best, self.residual = solution, residual
            return True
        if self.best is None or residual < self.residual:
            if is_solved and not is_limit:
                solution = replace(solution, status=Status.SOLVED)
            elif solution.status is Status.SOLVED:
                solution = replace(solution, status=Status.INACCURATE)
            self.best, self.residual = solution, residual
        self.failures[name] = "fell short"
        return is_limit or self.residual <= self.final_residual

    def _named(self, name: str, number: int) -> str:
        """Return a text with the solver's name, the number of its attempts, and the solvers that failed."""
        attempts = f", asked {number + 1} times" if number else ""
        earlier = ", ".join(f"{other} {end}" for other, end in self.failures.items() if other != name)
        return f"{name}{attempts}" + (f" (after {earlier})" if earlier else "")

    def result(self) -> Solution:
        """Return the best solution, and assign it to the program's variables and rows."""
        solution = self.best or self.ruled_out
        if solution is None:
            names = list(self.failures)
            name = names[-1] + (f" (after {', '.join(names[:-1])} failed)" if names[:-1] else "")
            solution = Solution(Status.FAILED, {}, {}, float("nan"), None, name)
        if solution.primal:
            self.program.assign(solution.primal)
            for row in self.program.rows if solution.duals else ():
                row.keep(solution.duals[row.name])
        return replace(solution, build_time=self.times[0], solve_time=self.times[1])
