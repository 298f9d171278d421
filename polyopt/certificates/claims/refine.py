"""Claims of the optimum itself: to thirty digits, or in fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Protocol

from polyopt.certificates.claims.active_set import (
    check_vertex_form,
    exactly,
    has_form,
    optimal_vertex,
    optimum,
    to_digits,
)
from polyopt.certificates.claims.file import cells_of, claim_of, feasible_multipliers, feasible_point
from polyopt.certificates.claims.statement import Evidence, Statement
from polyopt.check.check import Cells, Program, number

Vector = list[Fraction]

_MAX_DIGITS = 100
_END_TOL, _REFINED_END_TOL = 1e-6, 1e-24  # how near an end is, to a point of a solver and to a refined one

_FORM = (
    "refined solutions are of programs of |w|² and the sum of hinge losses: an SVM, a Relative Margin "
    "Machine, or the assignment of a Convex Polytope Machine with loss='sum' and margin='total'"
)


@dataclass(frozen=True)
class ExactSolution:
    """The optimum of a program, in fractions.

    title: what the machine is called.
    W: faces; with a kernel, the expansion coefficients.
    b: intercepts; empty where the program has none.
    multipliers: by the names of the rows, for each face n fractions.
    value: the optimum: the value of the point and the bound of the multipliers, which are equal.
    """

    title: str
    W: list[Vector]
    b: Vector
    multipliers: dict[str, list[Vector]]
    value: Fraction


class Evident(Protocol):
    """An object with evidence: a certificate."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """One for each program."""


def exact_solution(certificate: Evident | Statement, rows: list[Cells] | None = None) -> ExactSolution:
    """The rational optimum of a small program, from the states of its rows at a point close to it.

    Parameters
    ----------
    certificate : Certificate or Statement
        Of a point close to the optimum of a program whose optimum is rational: hinge losses, and of the
        weights squares, absolute values and ends. Of an L0 machine it is the linear program of the centres
        that are used.
    rows : list of dict, optional
        Other numbers in the place of the samples', such as the decimals that a table has instead of doubles:
        by column, those that are 0 left out.

    Raises
    ------
    ValueError
        Another program, several (of more than two classes), or rows whose states do not settle.
    """
    if isinstance(certificate, Statement):
        statement = certificate
    elif len(certificate.evidence) == 1:
        evidence = certificate.evidence[0]
        statement = (evidence.fixed or evidence.state)()
    else:
        raise ValueError("an exact solution is of one program of a known form, and this certificate has none")
    if statement.program["features"].get("kernel") == "rbf":
        raise ValueError(
            "the kernel 'rbf' is not rational: certificate.refine() gives as many digits as wanted"
        )
    program = _program(statement, rows)
    W, b, multipliers = _by_rows(statement, rows) if has_form(program) else _by_corners(statement, program)
    value, slopes = program.value({"w": [list(map(str, w)) for w in W], "b": list(map(str, b))})
    gain, price = program.bound(
        {"rows": {n: [list(map(str, p)) for p in m] for n, m in multipliers.items()}}, slopes
    )
    if value != gain - price:
        raise ValueError("the point and the multipliers of these rows do not meet: solve more closely first")
    return ExactSolution(statement.title, W, b, multipliers, value)


def _by_rows(
    statement: Statement, rows: list[Cells] | None
) -> tuple[list[Vector], Vector, dict[str, list[Vector]]]:
    """The optimum from the states of the rows alone or, where these do not settle, of the weights as well."""
    try:
        # With 40 digits the states of a point are those of the optimum.
        program, near, scores = _start(_refined(statement, 40, rows), rows)
        intercepts, multipliers = optimum(program, near, scores, exactly, close=_REFINED_END_TOL)
    except ValueError:
        return _by_corners(statement, _program(statement, rows))
    return _faces_of(program, multipliers), [v[0] for v in intercepts if v], multipliers


def _by_corners(
    statement: Statement, program: Program
) -> tuple[list[Vector], Vector, dict[str, list[Vector]]]:
    check_vertex_form(program)
    faces, b = feasible_point(program, statement)
    return optimal_vertex(program, faces, b, feasible_multipliers(program, statement.multipliers), _END_TOL)


def refined(evidence: Sequence[Evidence], digits: int = 30) -> tuple[tuple[Evidence, ...], float, float]:
    """Refine the points of some evidence until a claim's gap is below ``10**-digits`` of its value.

    Return the evidence of the refined points, and the sums of their values and of their bounds. The states of
    the rows (idle, on the kink, full) are those of the given points. The equations that hold the optimum are
    solved in double precision; the exact residual is then solved for again. The evidence is that of SVMs and
    Relative Margin Machines, linear, polynomial or RBF, or of assignments of Convex Polytope Machines with
    loss="sum" and margin="total". Digits are from 1 to 100; with the kernel "rbf" at most 30, as its values
    are enclosed to 38. Raise ValueError for another program, for rows whose states do not settle, or if fewer
    digits are reached.
    """
    if not 1 <= digits <= _MAX_DIGITS:
        raise ValueError(f"digits must be from 1 to {_MAX_DIGITS}, not {digits!r}")
    if not evidence:
        raise ValueError("this certificate has no statement that can be refined")
    made, values = [], []
    for part in evidence:
        statement = _refined(part.state(), digits)
        claim = claim_of(statement)["claim"]
        value, bound = number(claim["value"]), number(claim["bound"])
        if (value - bound) * 10**digits > abs(value):
            reached = int(-math.log10(float((value - bound) / abs(value)))) if value else 0
            raise ValueError(f"{digits} digits are not reached, only {reached}: the optimum is degenerate")
        made.append(replace(part, state=partial(_same, statement)))
        values.append((value, bound))
    high, low = (float(sum(pair[k] for pair in values)) for k in (0, 1))
    return tuple(made), math.nextafter(high, math.inf), math.nextafter(low, -math.inf)


def _same(statement: Statement) -> Statement:
    return statement


def _refined(statement: Statement, digits: int, rows: list[Cells] | None = None) -> Statement:
    bits = math.ceil(digits / math.log10(2)) + 24  # some for what repairs cost
    program, near, scores = _start(statement, rows)
    b, multipliers = optimum(
        program, near, scores, to_digits(bits + 40), close=_END_TOL, slack=Fraction(1, 1 << bits)
    )
    feasible = feasible_multipliers(program, multipliers, bits)
    W, intercepts = _faces_of(program, feasible), [v[0] for v in b if v]
    return replace(statement, W=W, b=intercepts, multipliers=feasible, bits=bits)


def _program(statement: Statement, rows: list[Cells] | None) -> Program:
    if statement.tree is not None:
        raise ValueError("exact and refined solutions are of convex programs, without cases to go through")
    cells = cells_of(statement.X) if rows is None else rows
    return Program(statement.program, cells, statement.X.shape[1], [int(s) for s in statement.y])


def _start(
    statement: Statement, rows: list[Cells] | None
) -> tuple[Program, dict[str, list[Vector]], list[Vector]]:
    """The program, and multipliers and scores of the statement's point."""
    program = _program(statement, rows)
    if not has_form(program):
        raise ValueError(_FORM)
    faces, b = feasible_point(program, statement)
    near = feasible_multipliers(program, statement.multipliers, statement.bits)
    shifts = b or [Fraction(0)] * len(faces)
    scores = [[v + c for v in program.through(w, True)[0]] for w, c in zip(faces, shifts, strict=True)]
    return program, near, scores


def _faces_of(program: Program, multipliers: dict[str, list[Vector]]) -> list[Vector]:
    """The faces that multipliers imply, v / 2h."""
    found = []
    for k in range(program.faces):
        beta = [Fraction(0)] * program.samples.n
        for row in program.rows:
            parts = zip(beta, row.side, multipliers[row.name][k], strict=True)
            beta = [v + s * m for v, s, m in parts]
        v = beta if program.kind == "kernel" else program.through(beta, False)[0]
        found.append([value / (2 * number(program.size["factor"])) for value in v])
    return found
