"""A point of a hinge program that may break its hard rows, and its value where it keeps them: on its ray.

Outputs are known up to rounding, and so is the factor that makes a point feasible. One factor
certainly is enough, another, nearer to 1, may be; the value stated holds for all factors in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.linalg.rounding import Ball

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.language.types import Vector
    from polyopt.margin.hinge_program import HingeProgram

__all__ = ["to_feasible", "value_between"]


def to_feasible(program: HingeProgram, f: Ball) -> tuple[float, float]:
    """The factor that certainly makes a point of outputs f keep its hard rows, and one that may suffice.

    Up, where a hard margin is short; else down, where an output is beyond its bound. Infinite, if one row
    needs more than another allows: no point on the ray is feasible for certain.
    """
    stretch, enough, some = 1.0, 1.0, False
    for family in program.rows:
        hard = np.isinf(family.cap)
        if not hard.any() or family.kink <= 0.0:
            continue
        some = True
        outputs = (family.side * f.mid)[hard]
        least = float((outputs - f.rad[hard]).min())
        if least <= 0.0:
            return np.inf, np.inf
        if least < family.kink:
            stretch = max(stretch, float(family.kink / least) * (1 + 1e-15))
            most = float((outputs + f.rad[hard]).min())
            enough = max(enough, float(family.kink / most) * (1 - 1e-15))
    if stretch > 1.0:
        keeps = all(stretch * reach * (1 + 1e-15) <= end for end, reach, _ in _bounds(program, f))
        return (stretch, enough) if keeps else (np.inf, np.inf)
    if all(reach <= end for end, reach, _ in _bounds(program, f)):
        return 1.0, 1.0
    if some:
        return np.inf, np.inf
    scale = 1.0
    for end, reach, surely in _bounds(program, f):
        if reach > end:
            scale = min(scale, float(end / reach) * (1 - 1e-15))
        if surely > end:
            enough = min(enough, float(end / surely) * (1 + 1e-15))
    return scale, enough


def _bounds(program: HingeProgram, f: Ball) -> Iterator[tuple[float, float, float]]:
    """For each family of bounds without slack: the bound, and both ends of its largest output."""
    for family in program.rows:
        hard = np.isinf(family.cap)
        if family.kink <= 0.0 and hard.any():
            outward = f[hard].signed(-family.side[hard])
            yield -family.kink, float(outward.upper.max()), float((outward.mid - outward.rad).max())


def value_between(program: HingeProgram, v: Vector, f: Ball, scale: float, least: float) -> Ball:
    """The value of the point v, of outputs f, times the feasible factor between `scale` and `least`.

    Along a ray the objective is convex: it is at no factor above the greater of its values at both ends. Hard
    rows are kept at the first end, and count at that one only. The factors are those of :func:`to_feasible`.
    """
    if np.isinf(scale):
        return Ball(np.inf)
    found = program.value(v, f, scale)
    if least == scale or not np.isfinite(found.upper):
        return found
    other = program.value(v, f, least, soft_only=True)
    return max(found, other, key=lambda value: float(value.upper))
