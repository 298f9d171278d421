"""Solving a program: the order of solvers, their settings, and the point that is kept.

A solver's "optimal" at the first asking is taken, but for HiGHS's of a quadratic program, which is measured.
An answer that falls short ("inaccurate", a limit of the solver's own, a failure) is not the last word: the
solver is asked again with other settings, and then the next one that can solve the program. From there on no
solver's word counts. Every point is measured by its own optimality conditions
(:mod:`formulations.language.optimality`), the best is kept, and it is called optimal where these hold.

A caller who gives options of a solver, or a limit that is reached, gets what that solver left.

A :class:`Backend` says how a solver is set, limited and read, :func:`attempt` runs one solver once, and
:func:`solve` asks one after the other.
"""

from __future__ import annotations

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
    ends: Mapping[str, Status]  # statuses that cvxpy does not tell apart, by a part of the solver's own
    by_kind: Mapping[str, Settings] = field(default_factory=dict)  # further settings for a class of programs
    again: tuple[Settings, ...] = ()  # further settings of the second attempt and after

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
_INTERRUPTED = ("interrupted", "userinterrupt")  # words of the solvers that answer Ctrl-C themselves


def attempt(
    program: Statement, solver: str, settings: Settings, *, seconds: float | None = None,
    max_iter: int | None = None, verbose: bool = False, start: Mapping[str, ArrayLike] | None = None,
) -> Solution:  # fmt: skip
    """Run one solver once; the program's variables and rows then hold what it left.

    `seconds` count from here on, building the program for the solver included. `start` is a value for every
    variable, from which HiGHS begins an integer program. The status is FAILED without a point or a verdict;
    KeyboardInterrupt is raised after Ctrl-C without a point of an integer program.
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
        begins = start is not None and solver == "HIGHS"
        if start is not None and begins:
            _set_start(program, data, start)
        arguments = {"warm_start": begins, "verbose": verbose, "solver_opts": settings}
        if integer and solver == "HIGHS":
            raw, was_interrupted = _search_by_highs(
                lambda: chain.solve_via_data(problem, data, **arguments), clock
            )
        else:
            raw = chain.solve_via_data(problem, data, **arguments)
            was_interrupted = backend.word(raw).lower() in _INTERRUPTED
        found = chain.invert(raw, inverse)
    except cp.error.SolverError:
        pass
    elapsed = clock.seconds
    if was_interrupted and (found is None or found.status not in _STATUSES or not integer):
        raise KeyboardInterrupt
    if found is None or found.status not in _STATUSES:  # neither a point nor a verdict
        return _without_point(Status.FAILED, solver, elapsed, 0.0)
    problem.unpack(found)
    taken = float(found.attr.get("solve_time") or 0.0)
    status = interrupted() if was_interrupted else _status(backend, raw, _STATUSES[found.status])
    if status in _RULED_OUT:
        return _without_point(status, solver, elapsed, taken)
    if any(variable.value is None for variable in program.variables.values()):
        if was_interrupted:
            raise KeyboardInterrupt
        return _without_point(Status.FAILED, solver, elapsed, taken)
    objective = float(program.objective.value)
    distance, nodes = _gap_and_nodes(solver, raw) if integer else (np.nan, None)
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


def _set_start(program: Statement, data: Any, values: Mapping[str, ArrayLike]) -> None:
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


def _search_by_highs(solve: Callable[[], Any], clock: Clock) -> tuple[Any, bool]:
    """Solve an integer program by HiGHS; return its result, and True if Ctrl-C ended it."""
    with searches_of_cvxpy(clock) as interruptions:
        raw = solve()
    if raw["model_status"] == "kInterrupt":  # a word that cvxpy takes for an error
        raw["model_status"] = "kTimeLimit"
    return raw, any(interruptions)


def _without_point(status: Status, solver: str, elapsed: float, taken: float) -> Solution:
    return Solution(
        status, {}, {}, float("nan"), None, solver.lower(),
        build_time=max(elapsed - taken, 0.0), solve_time=taken,
    )  # fmt: skip


def _status(backend: Backend, raw: Any, status: Status) -> Status:
    """Return the status of the solver: cvxpy has one word for both limits, or calls them inaccurate."""
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


# Of the worst optimality condition, relative. Up to the first a point is optimal, as certificates hold it to
# by default, and no other solver is asked; up to the second the solver is not asked again.
_OPTIMAL_RESIDUAL, _SETTLED_RESIDUAL = 1e-6, 1e-7
_DOUBTED = (("HIGHS", "QP"),)  # whose "optimal" may be far from that
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
    """One call of :func:`solve`: what is asked, and the best that was answered so far."""

    program: Statement
    time_limit: float | None
    max_iter: int | None
    verbose: bool
    start: Mapping[str, ArrayLike] | None
    options: dict[str, Any]
    best: Solution | None = None
    shortfall: float = np.inf
    verdict: Solution | None = None
    tried: dict[str, str] = field(default_factory=dict)
    times: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.clock = Clock(self.time_limit)
        # The caller's own settings are tried once and their answer is taken; an integer program has no
        # multipliers by which to measure a point.
        self.as_told = bool(self.options) or self.program.problem.is_mixed_integer()

    def ask(self, name: str) -> bool:
        """Ask a solver, as often as it takes; whether no other need be asked."""
        kind, settled = self.program.kind, False
        for number, settings in enumerate(BACKENDS[name].attempts(kind)):
            if self.clock.is_over and self.times != (0.0, 0.0):
                return True
            found = attempt(
                self.program, name, {**settings, **self.options},
                seconds=self.clock.left, max_iter=self.max_iter, verbose=self.verbose, start=self.start,
            )  # fmt: skip
            self.times = (self.times[0] + found.build_time, self.times[1] + found.solve_time)
            settled = self._record(found, number)
            if settled or found.status in _RULED_OUT or self.as_told:
                break
        return settled or self.shortfall <= _OPTIMAL_RESIDUAL

    def _record(self, found: Solution, number: int) -> bool:
        """Take note of an answer; whether it is the last."""
        name = found.solver
        if found.status in _RULED_OUT:
            # On badly scaled data this may be wrong: it stands only if no other solver finds a point.
            self.verdict = self.verdict or replace(found, solver=self._named(name, number))
        if not found.primal:
            self.tried.setdefault(name, "failed")
            return False
        asked = found.status is Status.TIME_LIMIT or (
            found.status is Status.ITERATION_LIMIT and (self.max_iter is not None or bool(self.options))
        )
        if asked and self.verdict is not None:
            return False
        first = not self.tried and number == 0 and found.status is Status.SOLVED
        doubted = (name.upper(), self.program.kind) in _DOUBTED
        if self.as_told or (first and not doubted):
            self._keep(found, 0.0, number)
            return True
        shortfall = conditions(self.program, found.primal, found.duals).shortfall
        if first and shortfall <= _OPTIMAL_RESIDUAL:
            self._keep(found, shortfall, number)
            return True
        if self.best is None or shortfall < self.shortfall:
            if not asked:
                ended = Status.INACCURATE if found.status is Status.SOLVED else found.status
                found = replace(found, status=Status.SOLVED if shortfall <= _OPTIMAL_RESIDUAL else ended)
            self._keep(found, shortfall, number)
        self.tried[name] = "fell short"
        return asked or self.shortfall <= _SETTLED_RESIDUAL

    def _keep(self, found: Solution, shortfall: float, number: int) -> None:
        self.best = replace(found, solver=self._named(found.solver, number))
        self.shortfall = shortfall

    def _named(self, name: str, number: int) -> str:
        """Return the solver's name, the number of the attempt, and the solvers that failed before."""
        again = f", asked {number + 1} times" if number else ""
        before = ", ".join(f"{other} {how}" for other, how in self.tried.items() if other != name)
        return f"{name}{again}" + (f" (after {before})" if before else "")

    def answer(self) -> Solution:
        """Return the best of the answers; the program's variables and rows then hold it."""
        found = self.best or self.verdict
        if found is None:
            names = list(self.tried)
            name = names[-1] + (f" (after {', '.join(names[:-1])} failed)" if names[:-1] else "")
            found = Solution(Status.FAILED, {}, {}, float("nan"), None, name)
        if found.primal:
            self.program.assign(found.primal)
            for row in self.program.rows if found.duals else ():
                row.keep(found.duals[row.name])
        return replace(found, build_time=self.times[0], solve_time=self.times[1])
