"""Mixed-integer programs with squares by HiGHS, which takes linear ones: outer approximation.

A square price·v² is at least its tangent price·(2 t v − t²) at any t, and equal to it at v = t. So the
program with a number η ≥ its tangents in the place of each square is a linear one whose optimum is a bound,
and the point at which that is attained is feasible for the program itself: what it costs there is a value. A
tangent more at that point, and again, until bound and value meet (Duran & Grossmann, An outer-approximation
algorithm for a class of mixed-integer nonlinear programs, 1986). It has nothing in common with SCIP, nor with
branch and bound over features or samples, which cross-checks hold against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cvxpy as cp
import numpy as np

from formulations.language.solution import Status
from formulations.language.solving import attempt
from formulations.language.statement import Row, Statement
from formulations.language.types import Vector

_OPTIONS = {
    "mip_rel_gap": 1e-10,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "parallel": "off",
}


def least_by_tangents(program: Statement, prices: Mapping[str, float]) -> tuple[float, float]:
    """The least of a program whose objective is squares of some variables and Σ C_i ξ_i."""
    v = cp.hstack([cp.vec(program.variables[name], order="C") for name in prices])
    price = np.repeat(list(prices.values()), [program.variables[name].size for name in prices])
    C = program.parameters["C"]
    reach = np.sqrt(float(np.sum(C.value)) / price)  # a longer one costs more than 0 does
    paid, eta = C @ program.variables["xi"], cp.Variable(len(price), nonneg=True)

    def tangent(t: Vector) -> cp.Constraint:
        return eta >= cp.multiply(2.0 * price * t, v) - price * t**2

    objective = cp.Minimize(cp.sum(eta) + paid)
    cuts = [tangent(share * reach) for share in np.linspace(-1.0, 1.0, 17)]
    value, bound = np.inf, -np.inf
    for _ in range(100):
        found = attempt(_with(program, objective, cuts), "HIGHS", _OPTIONS)
        bound = bound if found.bound is None else max(bound, found.bound)
        if found.status is not Status.SOLVED:
            break
        at = np.asarray(v.value)
        value = min(value, float(price @ at**2) + float(paid.value))
        cuts.append(tangent(at))
        if value - bound <= 1e-7 * abs(value):
            break
    return bound, value


def _with(program: Statement, objective: cp.Minimize, cuts: Sequence[cp.Constraint]) -> Statement:
    """The program with another objective, and with rows that hold it above tangents."""
    rows = (Row(f"tangent {i}", cut, "", "–", "") for i, cut in enumerate(cuts))
    return Statement(
        program.name, program.title, program.source, objective, "", program.variables, (*program.rows, *rows)
    )
