"""The exact Polyceptron with whole numbers, as a rounding of :mod:`polyopt.outer.whole_faces`.

For given numbers the scale and the bias are a linear program of two variables. They are sought with a very
small price of their squares (:mod:`polyopt.solvers.cpm.integer`): what is printed is a face like any other,
and what it costs is the margin error alone. The bound is that of the linear programs of real faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.polyhedral import belonging
from polyopt.certificates.polyhedral_lp import certify_polyceptron
from polyopt.solvers.cpm.integer import IntegerFace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.outer.polyceptron import ExactPolyceptron
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.whole import Whole

__all__ = ["PolyceptronRounding"]

_PRICE = 1e-7  # of the squares, over all costs


class PolyceptronRounding:
    """The rounding of the exact Polyceptron.

    Parameters
    ----------
    machine : ExactPolyceptron
        The machine, without a price.
    M : int
        The largest number.
    """

    def __init__(self, machine: ExactPolyceptron, M: int):
        self.machine, self.M = machine, M

    def value(self, W: Vector) -> float:
        """The margin error."""
        return self.machine.value(W)

    def rounded(self, W: Vector, k: int, now: Whole | None, clock: Clock) -> Whole:
        """Face k as whole numbers, within the box."""
        on = self.machine
        costs = on.c * belonging(on.y, on.assignment(W), len(W), "all")[:, k]
        face = IntegerFace(on.X, on.y, costs, self.M, square=_PRICE * float(on.c.sum()))
        found = face.round(W[k], *([] if now is None else [now.numbers]))
        largest = float(np.abs(found.w).max())
        if largest <= on.radius:
            return found
        if not found.numbers.any():
            return found._replace(threshold=float(np.clip(found.threshold, -on.radius, on.radius)))
        return found._replace(scale=found.scale * (on.radius / largest))

    def refitted(self, W: Vector, left: list[int], clock: Clock) -> Vector:
        """W with some faces fitted anew."""
        found, _ = self.machine.fitted(W, clock)
        W = W.copy()
        W[left] = found[left]
        return W

    def proven(self, W: Vector, clock: Clock) -> tuple[NDArray[np.int64], dict[str, Vector], float]:
        """All faces, the multipliers of the real ones, and their bound."""
        on = self.machine
        _, u = on.fitted(W, clock)
        certificate = certify_polyceptron(
            on.X, on.y, W, C=on.c, u=u, assignment=on.assignment(W), radius=on.radius
        )
        return np.arange(len(W)), {"margin": u}, certificate.dual_value
