"""From one solver's answer to the program's: who is asked next, and which point is kept.

A solver's "optimal" at the first asking is taken, but for HiGHS's of a quadratic program, which is measured.
An answer that falls short ("inaccurate", a limit of the solver's own, a failure) is not the last word: the
solver is asked again with other settings, and then the next one that can solve the program. From there on no
solver's word counts. Every point is measured by its own optimality conditions
(:mod:`formulations.language.optimality`), the best is kept, and it is called optimal where these hold.

A caller who gives options of a solver, or a limit that is reached, gets what that solver left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.language.arguments import seconds, whole_or_none
from formulations.language.backends import BACKENDS, PREFERRED, attempt
from formulations.language.clock import Clock, interrupted
from formulations.language.optimality import conditions
from formulations.language.solution import Solution, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.language.statement import Statement

__all__ = ["require_scip", "solve"]

# Of the worst optimality condition, relative. Up to the first a point is optimal, as certificates hold it to
# by default, and no other solver is asked; up to the second the solver is not asked again.
_OPTIMAL_RESIDUAL, _SETTLED_RESIDUAL = 1e-6, 1e-7
_DOUBTED = (("HIGHS", "QP"),)  # whose "optimal" may be far from that
_RULED_OUT = (Status.INFEASIBLE, Status.UNBOUNDED)
_LIMITS = (Status.ITERATION_LIMIT, Status.TIME_LIMIT)


def solve(
    program: Statement,
    solver: str | None,
    *,
    time_limit: float | None,
    max_iter: int | None,
    verbose: bool,
    start: Mapping[str, ArrayLike] | None,
    options: dict[str, Any],
) -> Solution:
    """Solve a program; arguments and result as in :meth:`formulations.language.program.Program.solve`."""
    names = PREFERRED[program.kind] if solver is None else (_checked_solver(solver),)
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


def _checked_solver(solver: str) -> str:
    if not isinstance(solver, str) or solver.upper() not in BACKENDS:
        raise ValueError(f"solver must be one of {', '.join(BACKENDS)}, not {solver!r}")
    return solver.upper()


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
            settled = self._judge(found, number)
            if settled or found.status in _RULED_OUT or self.as_told:
                break
        return settled or self.shortfall <= _OPTIMAL_RESIDUAL

    def _judge(self, found: Solution, number: int) -> bool:
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
        """Who answered, at which asking, and who did not before."""
        again = f", asked {number + 1} times" if number else ""
        before = ", ".join(f"{other} {how}" for other, how in self.tried.items() if other != name)
        return f"{name}{again}" + (f" (after {before})" if before else "")

    def answer(self) -> Solution:
        """The best of the answers; the program's variables and rows then hold it."""
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
