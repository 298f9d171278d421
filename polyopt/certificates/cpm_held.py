"""The certificate of a Convex Polytope Machine whose assignment is held: of one convex program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyopt.certificates.certificate import conclude
from polyopt.certificates.cpm import certify_cpm

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike
    from polyopt.certificates.certificate import Certificate

__all__ = ["certify_cpm_held"]

_NAME = "the Convex Polytope Machine for the assignment that is held"
_MOVES = "At these faces a sample outside would pay less at another face, so another assignment costs less."
_STAYS = "No sample outside would pay less at another face, yet another assignment may have a lower optimum."


def certify_cpm_held(X: MatrixLike, y: ArrayLike, C: ArrayLike, **given: Any) -> Certificate:
    """Certify faces for an assignment that somebody holds.

    The program of :mod:`formulations.cpm` for this assignment is convex, so its optimum can be attained,
    whether samples would gain by another face or not: a note says whether any would.

    Returns: ``optimal`` for this assignment where its bound is attained, else ``suboptimal_by``.
    """
    whole = certify_cpm(X, y, C, **given)
    moving = [one for one in whole.residuals if one.row == "assignment"]
    if not moving:  # one face has one assignment
        return whole
    others = [one for one in whole.residuals if one.row != "assignment"]
    held = conclude(
        _NAME, whole.primal_value, whole.dual_value, others, whole.tol,
        notes=[_MOVES if moving[0].relative > whole.tol else _STAYS],
    )  # fmt: skip
    return replace(held, rounding=whole.rounding, evidence=whole.evidence)
