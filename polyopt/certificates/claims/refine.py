"""Exact and high-precision optima, from the active set of a nearly optimal point.

``active_set`` identifies the active constraints at a nearly optimal point and solves their KKT equations: in
rational arithmetic for :func:`exact_solution`, or by iterative refinement to a number of digits for
:func:`refined`. The result is verified: the primal value of the new point and the dual bound of its
multipliers are computed from the data. The nearly optimal point and its multipliers are those of a
:class:`Statement`, which the :class:`Evidence` of a certificate makes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from polyopt.certificates.claims.active_set import solve_active_set, solve_refined
from polyopt.certificates.claims.file import cells_of, claim_of, feasible_multipliers, feasible_point
from polyopt.certificates.claims.statement import Evidence, Multipliers, Statement, Vector
from polyopt.check.check import Cells, Program, number

_MAX_DIGITS = 100  # largest number of digits that may be asked for
_ACTIVE_SET_DIGITS = 40  # digits of the refined point that gives the active set of an exact solution
# Distances within which a multiplier counts as at its bound, relative to the largest multiplier:
_ACTIVE_TOL = 1e-6  # for the multipliers of a solver
_REFINED_ACTIVE_TOL = 1e-24  # for multipliers that were refined to _ACTIVE_SET_DIGITS
_GUARD_BITS = 24  # extra bits of the multipliers, as making them feasible loses some
_SOLVER_BITS = 40  # bits of the solution of the KKT equations beyond those of the multipliers


@dataclass(frozen=True)
class ExactSolution:
    """The optimum of a program, in rational numbers.

    title: name of the machine.
    W: faces; with a kernel, the coefficients c_j of f(x) = Σ_j c_j k(x_j, x) + b.
    b: intercepts; empty if the program has none.
    multipliers: for the name of each constraint family, and each face, n fractions.
    value: the optimal value, which both the primal value of W, b and the dual value of the multipliers equal.
    """

    title: str
    W: list[Vector]
    b: Vector
    multipliers: Multipliers
    value: Fraction


def exact_solution(certificate: Any, exact_samples: list[Cells] | None = None) -> ExactSolution:
    """Return the rational optimum of a small program, from the active set at a nearly optimal point.

    Parameters
    ----------
    certificate : Certificate or Statement
        Certificate of a nearly optimal point of a program whose optimum is rational: hinge losses, and
        squares, absolute values or bounds of the weights. For an L0 machine (few kernel centres) the program
        is the linear program in which the centres in use are fixed.
    exact_samples : list of dict, optional
        Sample values to use instead of the doubles, such as the decimals of a table: for each sample a dict
        column -> value, zeros omitted.

    Raises
    ------
    ValueError
        If the program has another form, if there are several programs (more than two classes), or if the
        active set could not be identified.
    """
    if isinstance(certificate, Statement):
        statement = certificate
    elif len(certificate.evidence) == 1:
        evidence = certificate.evidence[0]
        statement = (evidence.fixed or evidence.state)()  # `fixed`: the linear program of an L0 machine
    else:
        raise ValueError("an exact solution needs a certificate of one program of a known form")
    if statement.program["features"]["kind"] == "rbf":
        raise ValueError("the kernel 'rbf' is not rational: certificate.refine() gives up to 30 digits")
    program = _program(statement, exact_samples)
    W, b, multipliers = _solve_exactly(statement, program, exact_samples)
    # Verify the result: the checker reads numbers as text, and value and bound must be equal.
    value = program.value({"w": [list(map(str, w)) for w in W], "b": list(map(str, b))})
    rows = {name: [list(map(str, m)) for m in by_face] for name, by_face in multipliers.items()}
    gain, price = program.bound({"rows": rows})  # the two parts of the dual value, which is their difference
    if value != gain - price:
        raise ValueError(
            "primal value and dual bound differ: the active set is wrong, solve to a smaller gap first"
        )
    stated = {name: multipliers[name] for name in statement.multipliers}
    return ExactSolution(statement.title, W, b, stated, value)


def _solve_exactly(
    statement: Statement, program: Program, exact_samples: list[Cells] | None
) -> tuple[list[Vector], Vector, Multipliers]:
    """Return the faces, intercepts and multipliers of the optimum in fractions.

    The active set is read off a refined point if that succeeds, else off the point of the statement.
    """
    try:
        refined_point = _feasible(program, _refined(statement, _ACTIVE_SET_DIGITS, exact_samples))
        return solve_active_set(program, *refined_point, active_tol=_REFINED_ACTIVE_TOL)
    except ValueError:  # a degenerate optimum
        return solve_active_set(program, *_feasible(program, statement), active_tol=_ACTIVE_TOL)


def _feasible(program: Program, statement: Statement) -> tuple[list[Vector], Vector, Multipliers]:
    """Return the statement's faces, intercepts and multipliers, made feasible."""
    faces, b = feasible_point(program, statement)
    return faces, b, feasible_multipliers(program, statement.multipliers, statement.bits)


def refined(evidence: Sequence[Evidence], digits: int = 30) -> tuple[tuple[Evidence, ...], float, float]:
    """Refine nearly optimal points until the gap is at most ``10**-digits`` of the value.

    The active set is read off the given points: for each constraint, whether its multiplier is 0, at its cap,
    or between. The KKT equations of the active set are solved in double precision, and the solution is
    improved by iterative refinement with exact residuals.

    evidence: evidence of convex programs with hinge losses and squares, absolute values or bounds of weights.
    digits: from 1 to 100; with the kernel "rbf" at most 30, as the enclosures of its values have 38 digits.
    Returns: the evidence of the refined points, the sum of their values, and the sum of their bounds.
    ValueError: a program has another form, its active set could not be identified, or fewer digits are
        reached.
    """
    if not 1 <= digits <= _MAX_DIGITS:
        raise ValueError(f"digits must be from 1 to {_MAX_DIGITS}, not {digits!r}")
    if not evidence:
        raise ValueError("this certificate has no evidence that can be refined")
    refined_parts, values, bounds = [], [], []
    for part in evidence:
        statement = _refined(part.state(), digits)
        claim = claim_of(statement)["claim"]
        value, bound = number(claim["value"]), number(claim["bound"])
        if (value - bound) * 10**digits > abs(value):
            reached = int(-math.log10(float((value - bound) / abs(value)))) if value else 0
            raise ValueError(f"{digits} digits are not reached, only {reached}: the optimum is degenerate")
        refined_parts.append(replace(part, state=partial(replace, statement)))  # unlike a lambda, it pickles
        values.append(value)
        bounds.append(bound)
    total_value, total_bound = float(sum(values)), float(sum(bounds))
    return tuple(refined_parts), math.nextafter(total_value, math.inf), math.nextafter(total_bound, -math.inf)


def _refined(statement: Statement, digits: int, exact_samples: list[Cells] | None = None) -> Statement:
    """Return the statement with its point and multipliers refined to `digits` digits."""
    bits = math.ceil(digits / math.log10(2)) + _GUARD_BITS
    program = _program(statement, exact_samples)
    W, b, multipliers = solve_active_set(
        program, *_feasible(program, statement), active_tol=_ACTIVE_TOL,
        solve=partial(solve_refined, bits=bits + _SOLVER_BITS), sign_tol=Fraction(1, 1 << bits),
    )  # fmt: skip
    stated = {name: multipliers[name] for name in statement.multipliers}
    feasible = feasible_multipliers(program, stated, bits)
    return replace(statement, W=W, b=b, multipliers=feasible, bits=bits)


def _program(statement: Statement, exact_samples: list[Cells] | None) -> Program:
    """Return the statement's program in the checker's form."""
    if statement.tree is not None:
        raise ValueError("exact and refined solutions are of convex programs, without cases to go through")
    cells = cells_of(statement.X) if exact_samples is None else exact_samples
    program = Program(statement.program, cells, statement.X.shape[1], [int(s) for s in statement.y])
    _check_rational_form(program)
    return program


def _check_rational_form(program: Program) -> None:
    """Raise ValueError unless the optimum is rational; a price of nonzero weights (count) is refused too."""
    has_hinges = all(row.loss in ("hinge", "square") and row.pays != "soft" for row in program.rows)
    counts_weights = any(count for penalties in program.prices for _, _, count, *_ in penalties)
    if program.shape == "worst" or any(program.groups) or not has_hinges or counts_weights:
        raise ValueError(
            "exact and refined solutions are of programs whose optimum is rational: hinge losses and, for"
            " single weights, squares, absolute values and bounds; this one has logarithms, norms, or numbers"
            " of weights"
        )
