"""By how much a point and multipliers of a hinge program miss each condition, for every sample.

What they are relative to depends on all samples together; here each sample stands for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import Residual, residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.language.types import Vector
    from polyopt.linalg.rounding import Ball
    from polyopt.margin.hinge_program import HingeProgram

__all__ = [
    "balance_residual", "complementarity_violations", "primal_violations", "sign_violations", "stationarity",
]  # fmt: skip


def primal_violations(program: HingeProgram, f: Ball) -> Iterator[tuple[str, Vector, float]]:
    """Hard rows only, at what the outputs may be: slacks are recomputed, so rows with slack hold.

    Yields: name of the row, violations (n,), and the size of an output there.
    """
    for family in program.rows:
        hard = np.isinf(family.cap)
        if hard.any():
            short = _certain(-family.room(f.mid), f.rad)
            yield family.name, np.where(hard, short, 0.0), family.unit


def _certain(violation: Vector, rad: Vector) -> Vector:
    """Violations, at their worst where rounding may hide them; rounding alone is no violation."""
    return np.where(rad > 1e-9, violation + rad, violation)


def sign_violations(program: HingeProgram, Z: Vector) -> Iterator[tuple[str, Vector]]:
    """Of signs and caps.

    The multiplier of the sign of a slack is the cap less the row's own, so its sign is the cap.
    """
    for family, mu in zip(program.rows, Z, strict=True):
        yield family.name, -mu
        if family.slack:
            yield family.slack[0], mu - family.cap


def complementarity_violations(
    program: HingeProgram, f: Vector, Z: Vector
) -> Iterator[tuple[str, Vector, float]]:
    """Products of multiplier and slack of each row; together they add up to the gap.

    Yields: name of the row, sizes of the products (n,), and the size of an output there.
    """
    for family, mu in zip(program.rows, Z, strict=True):
        room = family.room(f)
        slack = np.maximum(0.0, -room) if family.slack else np.zeros(len(room))
        yield family.name, np.abs(mu * (room + slack)), family.unit
        if family.slack:
            soft = np.isfinite(family.cap)
            unused = np.where(soft, (np.where(soft, family.cap, 0.0) - mu) * slack, 0.0)
            yield family.slack[0], np.abs(unused), family.unit


def balance_residual(total: float, size: float) -> Residual:
    """Σ β_i = 0: the sum, relative to the sum of the sizes."""
    return Residual("stationarity", "b", abs(total), abs(total) / size if size > 0 else abs(total))


def stationarity(
    gradient: Vector, pulled: Vector, terms: float, unit: float, primal_value: float
) -> list[Residual]:
    """The gradient in w, relative to its own size.

    Where the pulls of the samples cancel, rounding is relative to the size of the `terms` and not to their
    sum `pulled`; and where w is nearly zero, the gradient is compared with a w that would matter to the
    objective: `unit` is the size of the gradient of half the energy where the energy is 1.
    """
    scale = max(
        float(np.abs(gradient).max(initial=0.0)),
        float(np.abs(pulled).max(initial=0.0)),
        1e-8 * terms,
        1e-4 * unit * float(np.sqrt(2.0 * primal_value)),
    )
    return [residual("stationarity", "w", np.abs(gradient - pulled), scale)] if len(gradient) else []
