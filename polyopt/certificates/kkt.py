"""The Karush-Kuhn-Tucker conditions of any convex :class:`~formulations.language.program.Program`.

The conditions are checked for each row of the program as it is stated. If they held exactly, the point would
be optimal. They are only checked to a tolerance, so the claim is ``conditions`` and no bound is proven.

Hinge programs, the one-norm SVM and the polytope machines have certificates of their own, which are stronger:
they make the multipliers feasible and so prove a bound.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, tolerance
from polyopt.certificates.certificate import Certificate, Claim, relative_gap, residual
from polyopt.certificates.claims.statement import without_form

if TYPE_CHECKING:
    from formulations.language.program import Program


def certify_program(
    program: "Program", primal: Mapping[str, ArrayLike], duals: Mapping[str, ArrayLike], *, tol: float = 1e-6
) -> Certificate:
    """Check the Karush-Kuhn-Tucker conditions of a program at a point.

    The conditions and the scales of their residuals are defined in ``formulations.language.optimality``.

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
        The claim is ``conditions`` or ``none``. The dual value is the Lagrangian at the point, which would be
        a bound on the optimum only if the point were exactly stationary.

    Raises
    ------
    ValueError
        A variable or a row without values, values of the wrong shape or not finite, or a tolerance out of
        its range.
    """
    from formulations.language.optimality import conditions  # with cvxpy, which no other certificate needs

    tol = tolerance(tol)
    point = _checked("primal", primal, program.variables)
    measured = conditions(program, point, _checked("duals", duals, [row.name for row in program.rows]))
    residuals = tuple(residual(part.kind, part.row, part.violation, part.scale) for part in measured.parts)
    value, lagrangian = measured.value, measured.lagrangian
    holds = all(r.relative <= tol for r in residuals) and relative_gap(value, lagrangian) <= tol
    evidence = without_form(
        "conditions of optimality that hold to a tolerance prove no bound, and so there is no claim to save"
    )
    return Certificate(
        program.name, Claim.CONDITIONS if holds else Claim.NONE, value, lagrangian, residuals, tol,
        program.name, sense=program.sense, evidence=evidence,
    )  # fmt: skip


def _checked(label: str, arrays: Mapping[str, ArrayLike], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return a finite array for every name; `label` is the mapping's name in errors."""
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"{label} must hold {', '.join(missing)}; it has {', '.join(arrays) or 'nothing'}")
    return {name: real_array(f"{label}[{name!r}]", arrays[name]) for name in names}
