"""Solving a program: the order of solvers, their settings, and the point that is kept.

The status "optimal" of the first attempt is accepted, but for HiGHS on a quadratic program, whose point is
checked. After any other status ("inaccurate", a limit of the solver's own, a failure) the solver runs again
with other settings, and then the next solver that can solve the program. From then on every point is checked
by its optimality conditions (:mod:`formulations.language.optimality`); the best point is kept, and its status
is SOLVED if the conditions are satisfied.

If the caller gives options of a solver, or a limit is reached, the solver's point is returned as it is.

A :class:`Backend` has the settings of a solver and the names of its limits, :func:`attempt` runs one solver
once, and :func:`solve` runs one after the other.
"""

from collections.abc import Callable, Iterator, Mapping
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
    """A solver and its settings."""

    settings: Settings  # of the first attempt, by the solver's own names
    time: str  # the solver's name for a limit on seconds
    iterations: tuple[str, ...]  # the solver's names for limits on iterations; all are set
    word: Callable[[Any], str]  # returns the solver's own status from its result
    ends: Mapping[str, Status]  # statuses that cvxpy does not distinguish
    by_kind: Mapping[str, Settings] = field(default_factory=dict)  # by class of programs
    again: tuple[Settings, ...] = ()  # further settings of the second attempt and after

    def attempts(self, kind: str) -> Iterator[Settings]:
        """Settings to try for a class of programs, the first ones first."""
        first = {**self.settings, **self.by_kind.get(kind, {})}
        yield first
        for others in self.again:
            yield {**first, **others}


# In order of preference. Clarabel is an interior-point solver, accurate to about 1e-9 unless the data are
# badly scaled. HiGHS returns exact vertices of LPs, but its QP solver rejects some convex programs
# ("Non-convex"), so it is never the only solver.
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
        time="time_limit",
        iterations=("max_iter",),
        word=lambda raw: str(raw.status),
        ends={"MaxTime": Status.TIME_LIMIT},
        by_kind={
            # These are solved as cones with a tolerance on their gap; a gap of eps leaves a gradient of about
            # the square root of eps. Shorter steps stay closer to the central path and reach the tolerance in
            # as many iterations; with the default 0.99 they often do not reach it.
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
        # The default regularisation 1e-7 of the QP solver leaves a residual of stationarity of 1e-7. Without
        # regularisation every other program of this package fails, with 1e-10 hardly any. The iteration limit
        # ends runs that do not converge.
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
            # With the default interval of 50 iterations between adaptations of its step it may cycle.
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
        ends={"gaplimit": Status.SOLVED, "timelimit": Status.TIME_LIMIT, "nodelimit": Status.ITERATION_LIMIT},
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
_INTERRUPTED = ("interrupted", "userinterrupt")  # statuses of solvers that handle Ctrl-C themselves


def attempt(
    program: Statement, solver: str, settings: Settings, *, seconds: float | None = None,
    max_iter: int | None = None, verbose: bool = False, start: Mapping[str, ArrayLike] | None = None,
) -> Solution:  # fmt: skip
    """Run one solver once; its point is left in the program's variables and rows.

    `seconds` include building the program for the solver. `start` is a value for every variable, from which
    HiGHS begins an integer program. The status is FAILED if there is neither a point nor a proof that there
    is none; KeyboardInterrupt is raised after Ctrl-C without a point of an integer program.
    """
    backend, settings = BACKENDS[solver], dict(settings)
    if max_iter is not None:
        settings |= dict.fromkeys(backend.iterations, max_iter)
    clock = Clock(seconds)
    problem, result, was_interrupted = program.problem, None, False
    integer = problem.is_mixed_integer()
    if solver == "HIGHS":
        quiet_highs()
    try:
        data, chain, inverse = problem.get_problem_data(solver, verbose=verbose, solver_opts=settings)
        if clock.left is not None:
            # Some solvers take a limit of 0 for no limit.
            settings[backend.time] = 1e-9 if clock.is_over else clock.left
        # Without a start, a warm start would also keep the limits of the last solve.
        is_started = start is not None and solver == "HIGHS"
        if start is not None and is_started:
            _set_start(program, data, start)
        arguments = {"warm_start": is_started, "verbose": verbose, "solver_opts": settings}
        if integer and solver == "HIGHS":
            raw, was_interrupted = _search_by_highs(
                lambda: chain.solve_via_data(problem, data, **arguments), clock
            )
        else:
            raw = chain.solve_via_data(problem, data, **arguments)
            was_interrupted = backend.word(raw).lower() in _INTERRUPTED
        result = chain.invert(raw, inverse)
    except cp.error.SolverError:
        pass
    elapsed = clock.seconds
    if was_interrupted and (result is None or result.status not in _STATUSES or not integer):
        raise KeyboardInterrupt
    if result is None or result.status not in _STATUSES:  # neither a point nor a proof
        return _without_point(Status.FAILED, solver, elapsed, 0.0)
    problem.unpack(result)
    solve_time = float(result.attr.get("solve_time") or 0.0)
    status = interrupted() if was_interrupted else _status(backend, raw, _STATUSES[result.status])
    if status in _RULED_OUT:
        return _without_point(status, solver, elapsed, solve_time)
    if any(variable.value is None for variable in program.variables.values()):
        if was_interrupted:
            raise KeyboardInterrupt
        return _without_point(Status.FAILED, solver, elapsed, solve_time)
    objective = float(program.objective.value)
    distance, nodes = _gap_and_nodes(solver, raw) if integer else (np.nan, None)
    # The solver minimises, up to a constant, so only the distance to its bound is meaningful here.
    distance = np.maximum(distance, 0.0) if program.sense == "minimise" else -np.maximum(distance, 0.0)
    return Solution(
        status=status,
        primal={name: np.array(v.value, dtype=float) for name, v in program.variables.items()},
        duals={} if integer else {row.name: row.multipliers for row in program.rows},
        objective=objective,
        bound=float(objective - distance) if np.isfinite(distance) else None,
        solver=solver.lower(),
        iterations=nodes or int(result.attr.get("num_iters") or 0),
        build_time=max(elapsed - solve_time, 0.0),
        solve_time=solve_time,
    )


def _set_start(program: Statement, data: Any, values: Mapping[str, ArrayLike]) -> None:
    """Store a point as the last solution of HiGHS, where cvxpy looks for it, in the order of the columns."""
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


def _search_by_highs(solve: Callable[[], Any], clock: Clock) -> tuple[Any, bool]:
    """Solve an integer program by HiGHS; return its result, and True if Ctrl-C ended it."""
    with searches_of_cvxpy(clock) as interruptions:
        raw = solve()
    if raw["model_status"] == "kInterrupt":  # cvxpy would treat it as an error
        raw["model_status"] = "kTimeLimit"
    return raw, any(interruptions)


def _without_point(status: Status, solver: str, elapsed: float, solve_time: float) -> Solution:
    return Solution(
        status, {}, {}, float("nan"), None, solver.lower(),
        build_time=max(elapsed - solve_time, 0.0), solve_time=solve_time,
    )  # fmt: skip


def _status(backend: Backend, raw: Any, status: Status) -> Status:
    """Return the status; cvxpy does not distinguish the limits, or reports them as inaccurate."""
    if status not in (Status.INACCURATE, Status.ITERATION_LIMIT):
        return status
    word = backend.word(raw)
    return next((end for part, end in backend.ends.items() if part in word), status)


def _gap_and_nodes(solver: str, raw: Any) -> tuple[float, int | None]:
    """Return the distance of the bound of an integer program from its value, and the nodes of its tree."""
    if solver == "SCIP":
        model = raw["model"]
        return model.getObjVal() - model.getDualbound(), int(model.getNTotalNodes())
    if solver == "HIGHS":
        return raw["info"].objective_function_value - raw["info"].mip_dual_bound, None
    return np.nan, None


# Relative residuals of the worst optimality condition.
_OPTIMAL_RESIDUAL = 1e-6  # status SOLVED, and no other solver runs; the default tolerance of certificates
_SETTLED_RESIDUAL = 1e-7  # the solver does not run again
_DOUBTED = (("HIGHS", "QP"),)  # their "optimal" is checked
_RULED_OUT = (Status.INFEASIBLE, Status.UNBOUNDED)
_LIMITS = (Status.ITERATION_LIMIT, Status.TIME_LIMIT)


def solve(
    program: Statement, solver: str | None, *, time_limit: float | None, max_iter: int | None, verbose: bool,
    start: Mapping[str, ArrayLike] | None, options: dict[str, Any],
) -> Solution:  # fmt: skip
    """Solve a program; arguments and result as in :meth:`formulations.language.program.Program.solve`."""
    if solver is not None and (not isinstance(solver, str) or solver.upper() not in BACKENDS):
        raise ValueError(f"solver must be one of {', '.join(BACKENDS)}, not {solver!r}")
    names = PREFERRED[program.kind] if solver is None else (solver.upper(),)
    time_limit, max_iter = seconds(time_limit), whole_or_none("max_iter", max_iter)
    if "SCIP" in names:
        require_scip()
    run = _Run(program, time_limit, max_iter, verbose, start, options)
    try:
        for name in names:
            if run.ask(name):
                break
    except KeyboardInterrupt:
        if run.best is None:
            raise
        run.best = replace(run.best, status=interrupted())
    return run.answer()


def require_scip() -> None:
    """Raise ModuleNotFoundError with the command that installs SCIP, if it is not there."""
    if "SCIP" not in cp.installed_solvers():
        raise ModuleNotFoundError(
            "this program needs SCIP, which is not installed: pip install 'polyopt[mip]'"
        )


@dataclass
class _Run:
    """One call of :func:`solve`: its arguments, and the best solution so far."""

    program: Statement
    time_limit: float | None
    max_iter: int | None
    verbose: bool
    start: Mapping[str, ArrayLike] | None
    options: dict[str, Any]
    best: Solution | None = None
    residual: float = np.inf  # of the best solution
    verdict: Solution | None = None  # infeasible or unbounded
    tried: dict[str, str] = field(default_factory=dict)  # solvers that failed or fell short
    times: tuple[float, float] = (0.0, 0.0)  # seconds of building and of solving

    def __post_init__(self) -> None:
        self.clock = Clock(self.time_limit)
        # The caller's own settings are run once, unchecked; an integer program has no multipliers to check.
        self.is_unchecked = bool(self.options) or self.program.problem.is_mixed_integer()

    def ask(self, name: str) -> bool:
        """Run a solver until its settings are exhausted; return True if no other solver need run."""
        kind, settled = self.program.kind, False
        for number, settings in enumerate(BACKENDS[name].attempts(kind)):
            if self.clock.is_over and self.times != (0.0, 0.0):
                return True
            solution = attempt(
                self.program, name, {**settings, **self.options},
                seconds=self.clock.left, max_iter=self.max_iter, verbose=self.verbose, start=self.start,
            )  # fmt: skip
            self.times = (self.times[0] + solution.build_time, self.times[1] + solution.solve_time)
            settled = self._record(solution, number)
            if settled or solution.status in _RULED_OUT or self.is_unchecked:
                break
        return settled or self.residual <= _OPTIMAL_RESIDUAL

    def _record(self, solution: Solution, number: int) -> bool:
        """Record the solution of an attempt; return True if no other attempt is needed."""
        name = solution.solver
        if solution.status in _RULED_OUT:
            # May be wrong on badly scaled data: returned only if no other solver finds a point.
            self.verdict = self.verdict or replace(solution, solver=self._named(name, number))
        if not solution.primal:
            self.tried.setdefault(name, "failed")
            return False
        is_limit = solution.status is Status.TIME_LIMIT or (
            solution.status is Status.ITERATION_LIMIT and (self.max_iter is not None or bool(self.options))
        )
        if is_limit and self.verdict is not None:
            return False
        first = not self.tried and number == 0 and solution.status is Status.SOLVED
        doubted = (name.upper(), self.program.kind) in _DOUBTED
        if self.is_unchecked or (first and not doubted):
            self._keep(solution, 0.0, number)
            return True
        residual = conditions(self.program, solution.primal, solution.duals).shortfall
        if first and residual <= _OPTIMAL_RESIDUAL:
            self._keep(solution, residual, number)
            return True
        if self.best is None or residual < self.residual:
            if not is_limit:
                status = Status.INACCURATE if solution.status is Status.SOLVED else solution.status
                is_optimal = residual <= _OPTIMAL_RESIDUAL
                solution = replace(solution, status=Status.SOLVED if is_optimal else status)
            self._keep(solution, residual, number)
        self.tried[name] = "fell short"
        return is_limit or self.residual <= _SETTLED_RESIDUAL

    def _keep(self, solution: Solution, residual: float, number: int) -> None:
        self.best = replace(solution, solver=self._named(solution.solver, number))
        self.residual = residual

    def _named(self, name: str, number: int) -> str:
        """Return the solver's name, the number of the attempt, and the solvers that failed before."""
        again = f", asked {number + 1} times" if number else ""
        before = ", ".join(f"{other} {how}" for other, how in self.tried.items() if other != name)
        return f"{name}{again}" + (f" (after {before})" if before else "")

    def answer(self) -> Solution:
        """Return the best solution, and put it into the program's variables and rows."""
        solution = self.best or self.verdict
        if solution is None:
            names = list(self.tried)
            name = names[-1] + (f" (after {', '.join(names[:-1])} failed)" if names[:-1] else "")
            solution = Solution(Status.FAILED, {}, {}, float("nan"), None, name)
        if solution.primal:
            self.program.assign(solution.primal)
            for row in self.program.rows if solution.duals else ():
                row.keep(solution.duals[row.name])
        return replace(solution, build_time=self.times[0], solve_time=self.times[1])
