"""Every program of the package, solved by every solver that can, checked from its own definition.

What is checked for each primal-dual pair: each solver's point of each program passes the certificate
of the Karush-Kuhn-Tucker conditions; the values agree across solvers and between primal and dual; the
primal point recovered from the dual is feasible and attains the value. A solver that admits that it
gave up is shown and not held against the program, as long as two others (or all there are) do not.
An integer program has no multipliers: the solvers must agree on its value, at points that are feasible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.language.program import Duality, Program
from formulations.language.solution import Solution, Status
from polyopt.certificates import Claim, certify_program
from polyopt.certificates.certificate import relative_gap
from polyopt.methods.registry import BUILT_IN, answering_for, families, family_module, owner_of

if TYPE_CHECKING:
    from rich.table import Table


__all__ = ["TOLERANCE", "Check", "verification_table", "verify"]

TOLERANCE = 1e-6  # relative, of values and rows: what every solver of the list comes to on small data
# HiGHS ends an integer program at 1e-4 unless told otherwise.
_EXACT: dict[str, dict[str, Any]] = {"HIGHS": {"mip_rel_gap": 1e-9}}


@dataclass(frozen=True)
class Check:
    """One program at one point.

    Attributes
    ----------
    family, program : str
        The program.
    solver : str
        The source of the point: a solver, or ``"recovered"`` for the map from the dual.
    value : float
        The objective at the point; nan if there is none.
    difference : float
        Relative difference to the pair's reference value, the primal by its preferred solver.
    residual : float
        The worst relative residual of the certificate (of the recovered point: its violation).
    where : str
        The condition at which it is worst.
    verdict : str
        ``"ok"``, ``"FAILS"``, ``"gave up"`` for a solver that says itself that it has no optimum, or
        ``"not run"`` for one that the program needs and that is not installed, or where there is none.
    """

    family: str
    program: str
    solver: str
    value: float
    difference: float
    residual: float
    where: str
    verdict: str


def verify(seed: int = 0, names: tuple[str, ...] | None = None) -> list[Check]:
    """Check every program of some families on random data.

    Parameters
    ----------
    seed : int
        Seed of the data.
    names : tuple of str, optional
        Families to check; those of all methods by default, other packages' among them.

    Returns
    -------
    list of Check
        :func:`falls_short` tells whether they prove every program. Of a family of another package that
        cannot be read or solved there is one check, which fails and says why.
    """
    checks: list[Check] = []
    for name in families() if names is None else names:
        owner = owner_of(name)
        try:
            with answering_for(owner):
                checks += _check_family(name, family_module(name), seed)
        except RuntimeError as error:
            if owner.name in BUILT_IN:
                raise
            checks.append(Check(name, name, "–", np.nan, np.nan, np.nan, str(error), "FAILS"))
    return checks


def _check_family(name: str, module: ModuleType, seed: int) -> Iterator[Check]:
    for pair in module.pairs(seed):
        yield from _check_pair(name, pair)
    for program in getattr(module, "singles", lambda seed: [])(seed):
        yield from _check_single(name, program)


def falls_short(checks: list[Check]) -> list[str]:
    """Return names of the programs that the checks do not prove.

    A program is proven when nothing fails and two independent solvers (one, where only one can
    solve it) pass.
    """
    short = []
    for name in dict.fromkeys(check.program for check in checks):
        own = [check for check in checks if check.program == name and check.verdict != "not run"]
        solvers = {check.solver for check in own if check.solver != "recovered"}
        passed = {check.solver for check in own if check.solver != "recovered" and check.verdict == "ok"}
        if any(check.verdict == "FAILS" for check in own) or len(passed) < min(2, len(solvers)):
            short.append(name)
    return short


def _solve_all(program: Program) -> dict[str, Solution]:
    found = {}
    for solver in program.solvers:
        found[solver.lower()] = program.solve(solver)
        if found[solver.lower()].status is Status.INTERRUPTED:
            raise KeyboardInterrupt
    return found


def _reference(solutions: dict[str, Solution]) -> float:
    return next((s.objective for s in solutions.values() if s.status is Status.SOLVED), float("nan"))


def _check_single(name: str, program: Program) -> Iterator[Check]:
    if not program.problem.is_mixed_integer():
        solutions = _solve_all(program)
        yield from _check_program(name, program, solutions, _reference(solutions))
        return
    # SCIP is optional, and solves what is linear as well.
    solvers = dict.fromkeys((*program.solvers, "SCIP"))
    here = [solver for solver in solvers if solver in cp.installed_solvers()]
    solutions = {solver.lower(): program.solve(solver, **_EXACT.get(solver, {})) for solver in here}
    for solver in set(program.solvers) - set(here):
        yield Check(name, program.name, solver.lower(), np.nan, np.nan, np.nan, "not installed", "not run")
    reference = _reference(solutions)
    for solver, solution in solutions.items():
        if solution.status is not Status.SOLVED:
            yield Check(name, program.name, solver, np.nan, np.nan, np.nan, "no optimum", "gave up")
            continue
        violations = program.violations(solution.primal)
        row = max(violations, key=lambda key: violations[key])
        difference = relative_gap(program.value(solution.primal), reference)
        verdict = "ok" if max(difference, violations[row]) <= TOLERANCE else "FAILS"
        yield Check(
            name, program.name, solver, solution.objective, difference, violations[row],
            f"primal of {row}", verdict,
        )  # fmt: skip


def _check_pair(name: str, pair: Duality) -> Iterator[Check]:
    primal = _solve_all(pair.primal)
    reference = _reference(primal)
    yield from _check_program(name, pair.primal, primal, reference)
    yield from _check_program(name, pair.dual, _solve_all(pair.dual), reference)
    # Solved anew by the preferred solver: a recovery map may read multipliers off the dual program.
    recovered = pair.recover(pair.dual.solve().primal)
    violations = pair.primal.violations(recovered)
    row = max(violations, key=lambda key: violations[key])
    value = pair.primal.value(recovered)
    difference = relative_gap(value, reference)
    verdict = "ok" if max(difference, violations[row]) <= TOLERANCE else "FAILS"
    yield Check(
        name, pair.primal.name, "recovered", value, difference, violations[row], f"primal of {row}", verdict
    )


def _check_program(
    name: str, program: Program, solutions: dict[str, Solution], reference: float
) -> Iterator[Check]:
    for solver, solution in solutions.items():
        if not solution.primal:
            yield Check(name, program.name, solver, np.nan, np.nan, np.nan, "no point", "gave up")
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


def verification_table(checks: list[Check]) -> Table:
    """Return the checks as a rich table, and under it the programs that fall short."""
    from polyopt.crosschecks.registry import captioned_table

    short = falls_short(checks)
    passed = sum(check.verdict == "ok" for check in checks)
    programs = len({check.program for check in checks})
    caption = f"{passed} of {len(checks)} checks pass at {TOLERANCE:g}; {programs} programs proven"
    if short:
        caption = f"{passed} of {len(checks)} checks pass; NOT proven: {', '.join(short)}"
    table = captioned_table("Programs, verified", caption)
    # Where there is little room it is the last column that is cut, the label of the worst row.
    table.add_column("program", no_wrap=True, min_width=33)
    table.add_column("by", no_wrap=True, min_width=9)
    for header, width in (("value", 11), ("differs", 7), ("residual", 8)):
        table.add_column(header, justify="right", no_wrap=True, min_width=width)
    table.add_column("", no_wrap=True, min_width=7)
    table.add_column("worst at", no_wrap=True, overflow="ellipsis")
    previous = ""
    for check in checks:
        table.add_row(
            "" if check.program == previous else check.program, check.solver, f"{check.value:.8g}",
            f"{check.difference:.1e}", f"{check.residual:.1e}", check.verdict, check.where,
        )  # fmt: skip
        previous = check.program
    return table
