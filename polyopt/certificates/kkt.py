"""The optimality conditions of any :class:`~formulations.language.program.Program`, row by row.

Where a family has its own certificate (hinge, one-norm, polytope), that one is stronger: it repairs
the multipliers and so proves a bound. This one checks the Karush-Kuhn-Tucker conditions of the
program as it is written, whatever it is. If they held exactly, a convex program would be solved; as they
hold to a tolerance, the claim is ``conditions`` and no bound is proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, tolerance
from polyopt.certificates.certificate import Certificate, conclude_conditions, residual
from polyopt.certificates.claims.statement import without_form

if TYPE_CHECKING:
    from formulations.language.program import Program

_NO_BOUND = (
    "conditions of optimality that hold to a tolerance prove no bound, and so there is no claim to save"
)


def certify_program(
    program: Program, primal: Mapping[str, ArrayLike], duals: Mapping[str, ArrayLike], *, tol: float = 1e-6
) -> Certificate:
    """Check the Karush-Kuhn-Tucker conditions of a program at a point.

    The conditions themselves, and what each is measured against, are in ``formulations.language.optimality``.

    Parameters
    ----------
    program : Program
        A convex program with differentiable expressions.
    primal : mapping of str to array_like
        A value for every variable.
    duals : mapping of str to array_like
        Multipliers for every row, by row name, in the sign convention of
        :mod:`formulations.language.program`.
    tol : float
        Relative tolerance.

    Returns
    -------
    Certificate
        ``conditions`` or ``none``. The dual value is the Lagrangian at the point, which would bound the
        optimum if the point were stationary to the last digit.

    Raises
    ------
    ValueError
        A variable or a row without values, values of the wrong shape or not finite, or a tolerance out of
        its range.
    """
    from formulations.language.optimality import conditions  # with cvxpy, which no other certificate needs

    tol = tolerance(tol)
    point = _checked("primal", primal, program.variables)
    found = conditions(program, point, _checked("duals", duals, [row.name for row in program.rows]))
    residuals = [residual(part.kind, part.row, part.violation, part.scale) for part in found.parts]
    made = conclude_conditions(program.name, found.value, found.lagrangian, residuals, tol, program.sense)
    return replace(made, evidence=without_form(_NO_BOUND))


def _checked(what: str, given: Mapping[str, ArrayLike], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """A finite array for every name."""
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"{what} must hold {', '.join(missing)}; it has {', '.join(given) or 'nothing'}")
    return {name: real_array(f"{what}[{name!r}]", given[name]) for name in names}
