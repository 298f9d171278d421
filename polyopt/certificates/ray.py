"""A point of a hinge program that may break its hard rows, and its value where it keeps them: on its ray.

Outputs are known to their rounding, and so is the factor that brings a point back to its rows. One factor
does so for certain, another is the least that might do; the value told holds for all in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.rounding import Ball

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.certificates.hinge_program import HingeProgram

    Vector = NDArray[np.float64]

__all__ = ["to_feasible", "value_between"]


def to_feasible(program: HingeProgram, f: Ball) -> tuple[float, float]:
    """What to multiply the point by so that it keeps its hard rows for certain, and what may be enough.

    Up, where a hard margin is short; else down, where an output is beyond its bound. Infinite, where one
    asks for more than the other allows: no point on the ray is feasible for certain.

    Parameters
    ----------
    program : HingeProgram
        The program.
    f : Ball
        Outputs of the point.
    """
    hard = np.isinf(program.C)
    reach = float(f.size.max(initial=0.0))
    margins = program.y * f.mid
    least = float((margins - f.rad)[hard].min(initial=np.inf))
    if least <= 0.0:
        return np.inf, np.inf
    if least < 1.0:
        stretch = float(1.0 / least) * (1 + 1e-15)
        enough = max(float(1.0 / (margins + f.rad)[hard].min()) * (1 - 1e-15), 1.0)
        return (stretch, enough) if stretch * reach * (1 + 1e-15) <= program.B else (np.inf, np.inf)
    if reach <= program.B:
        return 1.0, 1.0
    if hard.any():
        return np.inf, np.inf
    surely = float((np.abs(f.mid) - f.rad).max())
    enough = float(program.B / surely) * (1 + 1e-15) if surely > program.B else 1.0
    return float(program.B / reach) * (1 - 1e-15), min(enough, 1.0)


def value_between(program: HingeProgram, v: Vector, f: Ball, scale: float, least: float) -> Ball:
    """The value of the point times whatever factor in between makes it feasible.

    Along a ray the objective is convex: it is at no factor above the greater of its values at both ends.
    Hard rows are kept at the first end, and count at that one only.

    Parameters
    ----------
    program : HingeProgram
        The program.
    v : ndarray
        The point.
    f : Ball
        Its outputs.
    scale, least : float
        The factors of :func:`to_feasible`.
    """
    if np.isinf(scale):
        return Ball(np.inf)
    found = program.value(v, f, scale)
    if least == scale or not np.isfinite(found.upper):
        return found
    soft = replace(program, C=np.where(np.isfinite(program.C), program.C, 0.0))
    other = soft.value(v, f, least)
    return max(found, other, key=lambda value: float(value.upper))
