"""Certificates of the Convex Polytope Machine whose samples are in blocks: its faces' put together.

With loss="sum" and a fixed assignment the faces are independent programs, each twice a hinge program without
a free intercept (:mod:`polyopt.certificates.cpm`), and each of these is certified by blocks
(:mod:`polyopt.certificates.hinge_blocks`). What is claimed of all is as in memory: ``stationary`` where the
point is optimal for its assignment and no positive would pay less by another face.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude
from polyopt.certificates.rounding import Ball

__all__ = ["certify_faces"]

_NAME = "the Convex Polytope Machine"


def certify_faces(
    halves: Sequence[Certificate], assignment: Residual, tol: float, notes: Sequence[str] = ()
) -> Certificate:
    """The certificate of all faces for their assignment.

    halves: of half of each face's program, ½ ‖w‖² + Σ (C_i/2) ξ_i.
    assignment: by how much a positive's hinge would fall on another face, at most.
    tol: relative tolerance of the gap and of every residual.
    notes: sentences for the reader.
    """
    # Their values are safe from rounding; what is added here rounds again, and knows it.
    primal = 2.0 * Ball(np.array([half.primal_value for half in halves])).sum()
    dual = 2.0 * Ball(np.array([half.dual_value for half in halves])).sum()
    dual = dual if dual.lower > 0.0 else Ball(0.0)  # no value is below 0
    residuals = [
        replace(
            each,
            row=f"{each.row}(face {k})",
            value=2.0 * each.value,
            worst=each.worst if each.row == "w" else None,  # a number among the samples of the face alone
        )
        for k, half in enumerate(halves)
        for each in half.residuals
    ]
    is_single = len(halves) == 1
    if not is_single:
        residuals.append(assignment)
        notes = [*notes, "Another assignment may have a lower optimum."]
    found = conclude(
        f"{_NAME}, loss='sum'",
        primal,
        dual,
        residuals,
        tol,
        reached=Claim.OPTIMAL if is_single else Claim.STATIONARY,
        scope=_NAME if is_single else "the fixed-assignment program",
        notes=notes,
    )
    return replace(found, rounding=found.rounding + 2.0 * sum(half.rounding for half in halves))
