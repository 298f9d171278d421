"""Every program of the package, solved by every solver that can, checked from its own definition.

For each primal-dual pair, each solver's point of each program must pass the certificate of the
Karush-Kuhn-Tucker conditions; the values must agree across solvers and between primal and dual; the primal
point recovered from the dual must be feasible and attain the value. A solver that states itself that it gave
up does not count against the program if two others (or all there are) pass. An integer program has no
multipliers: the solvers must agree on its value, at feasible points.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.language.program import Duality, Program
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.base.table import Column, terminal_table
from polyopt.certificates import Claim
from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.kkt import certify_program
from polyopt.crosschecks.registry import VERDICT_COLOURS
from polyopt.methods.programs import pairs_of, singles_of
from polyopt.methods.registry import MethodError, answering_for, families, family_module, owner_of

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["TOLERANCE", "Check", "falls_short", "verify"]

TOLERANCE = 1e-6  # relative, for values and rows: all solvers reach it on small data
# HiGHS stops an integer program at a gap of 1e-4 by default.
_OPTIONS: dict[str, dict[str, Any]] = {"HIGHS": {"mip_rel_gap": 1e-9}}


@dataclass(frozen=True)
class Check:
    """One program at one point."""

    family: str  #: name of the family
    program: str  #: name of the program
    solver: str  #: source of the point: a solver, or ``"recovered"`` for the map from the dual
    value: float = np.nan  #: objective at the point; nan without a point
    difference: float = np.nan  #: relative difference to the primal's value by its preferred solver
    residual: float = np.nan  #: worst relative residual, or worst violation of a recovered point
    where: str = ""  #: the condition of this residual or violation
    #: ``"ok"``, ``"FAILS"``, ``"gave up"`` if the solver states no optimum, ``"not run"`` if not installed.
    verdict: str = "not run"


def verify(seed: int = 0, names: tuple[str, ...] | None = None) -> list[Check]:
    """Check every program of some families on random data.

    Parameters
    ----------
    seed : int
        Seed of the data.
    names : tuple of str, optional
        Families to check; by default those of all methods, other packages' among them.

    Returns
    -------
    list of Check
        :func:`falls_short` says what is not proven. If a family of another package cannot be read or solved,
        its one check fails and says why.
    """
    checks: list[Check] = []
    for name in families() if names is None else names:
        owner = owner_of(name)
        try:
            with answering_for(owner):
                checks += _check_family(name, family_module(name), seed)
        except MethodError as error:
            checks.append(Check(name, name, "–", where=str(error), verdict="FAILS"))
    return checks


def _check_family(name: str, module: ModuleType, seed: int) -> Iterator[Check]:
    for pair in pairs_of(name, module, seed):
        yield from check_pair(name, pair)
    for program in singles_of(name, module, seed):
        yield from check_single(name, program)


def falls_short(checks: list[Check]) -> list[str]:
    """Return names of the programs that the checks do not prove.

    A program is proven if nothing fails and two independent solvers (one, if only one can solve it) pass.
    """
    short = []
    for name in dict.fromkeys(check.program for check in checks):
        run = [check for check in checks if check.program == name and check.verdict != "not run"]
        solvers = {check.solver for check in run if check.solver != "recovered"}
        passed = {check.solver for check in run if check.solver != "recovered" and check.verdict == "ok"}
        if any(check.verdict == "FAILS" for check in run) or len(passed) < min(2, len(solvers)):
            short.append(name)
    return short


def _solve_all(program: Program) -> dict[str, Solution]:
    solutions = {}
    for solver in program.solvers:
        solutions[solver.lower()] = program.solve(solver)
        if solutions[solver.lower()].status is Status.INTERRUPTED:
            raise KeyboardInterrupt
    return solutions


def _reference(solutions: dict[str, Solution]) -> float:
    return next((s.objective for s in solutions.values() if s.status is Status.SOLVED), float("nan"))


def _at_point(
    family: str, program: Program, solver: str, point: dict[str, Vector], reference: float
) -> Check:
    """Check value and feasibility of a point without multipliers."""
    violations = program.violations(point)
    row = max(violations, key=lambda name: violations[name])
    value = program.value(point)
    difference = relative_gap(value, reference)
    verdict = "ok" if max(difference, violations[row]) <= TOLERANCE else "FAILS"
    return Check(
        family, program.name, solver, value, difference, violations[row], f"primal of {row}", verdict
    )


def check_single(name: str, program: Program) -> Iterator[Check]:
    """Check a program without a dual."""
    if not program.problem.is_mixed_integer():
        solutions = _solve_all(program)
        yield from _check_program(name, program, solutions, _reference(solutions))
        return
    solvers = dict.fromkeys((*program.solvers, "SCIP"))  # SCIP solves linear integer programs as well
    installed = [solver for solver in solvers if solver in cp.installed_solvers()]
    solutions = {solver.lower(): program.solve(solver, **_OPTIONS.get(solver, {})) for solver in installed}
    for solver in set(program.solvers) - set(installed):
        yield Check(name, program.name, solver.lower(), where="not installed", verdict="not run")
    reference = _reference(solutions)
    for solver, solution in solutions.items():
        if solution.status is Status.SOLVED:
            yield _at_point(name, program, solver, solution.primal, reference)
        else:
            yield Check(name, program.name, solver, where="no optimum", verdict="gave up")


def check_pair(name: str, pair: Duality) -> Iterator[Check]:
    """Check a program, its dual and the map between their variables."""
    primal = _solve_all(pair.primal)
    reference = _reference(primal)
    yield from _check_program(name, pair.primal, primal, reference)
    yield from _check_program(name, pair.dual, _solve_all(pair.dual), reference)
    # Solved anew by the preferred solver: a recovery map may read multipliers off the dual program.
    yield _at_point(name, pair.primal, "recovered", pair.recover(pair.dual.solve().primal), reference)


def _check_program(
    name: str, program: Program, solutions: dict[str, Solution], reference: float
) -> Iterator[Check]:
    """Check the optimality conditions at the point of each solver."""
    for solver, solution in solutions.items():
        if not solution.primal:
            yield Check(name, program.name, solver, where="no point", verdict="gave up")
            continue
        certificate = certify_program(program, solution.primal, solution.duals, tol=TOLERANCE)
        difference, worst = relative_gap(solution.objective, reference), certificate.worst
        assert worst is not None
        verdict = "FAILS" if solution.status is Status.SOLVED else "gave up"
        if certificate.claim is Claim.CONDITIONS and difference <= TOLERANCE:
            verdict = "ok"
        yield Check(
            name, program.name, solver, solution.objective, difference, worst.relative, worst.label, verdict
        )


def verification_table(checks: list[Check], width: int) -> "Table":
    """Return a rich table of checks for a terminal of `width` columns, and the programs that fall short."""
    short = falls_short(checks)
    passed = sum(check.verdict == "ok" for check in checks)
    programs = len({check.program for check in checks})
    caption = f"{passed} of {len(checks)} checks pass at {TOLERANCE:g}; {programs} programs proven"
    if short:
        caption = f"{passed} of {len(checks)} checks pass; NOT proven: {', '.join(short)}"
    columns: list[Column[Check]] = [
        Column("program", lambda c: c.program, is_text=True),
        Column("by", lambda c: c.solver, is_text=True),
        Column("value", lambda c: f"{c.value:.8g}"),
        Column("differs", lambda c: f"{c.difference:.1e}"),
        Column("residual", lambda c: f"{c.residual:.1e}"),
        Column("", lambda c: c.verdict, is_text=True, colour=lambda c: VERDICT_COLOURS[c.verdict]),
        Column("worst at", lambda c: c.where, is_text=True, overflow="cut"),
    ]
    return terminal_table(
        columns, checks, width, title="Programs, verified", caption=caption,
        group=lambda check: check.program, is_group_named=True,
    )  # fmt: skip
