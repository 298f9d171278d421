"""What rounds of local steps know between two of them, and what a checkpoint has of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polyopt.solvers.cpm.local_steps import Point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["State"]


@dataclass
class State:
    """All that a checkpoint has.

    point: where the next round begins.
    best, reached: the best faces that were measured, and their objective.
    rounds, passes, done: rounds; whole passes; and rows of the next one that the longest shard has visited.
    due: passes at which the next measurement is due.
    measured: objectives that were measured when they were due, without the start's.
    history: one record for each round.
    """

    point: Point
    best: Vector
    reached: float = math.inf
    rounds: int = 0
    passes: int = 0
    done: int = 0
    due: float = 0.0
    measured: list[float] = field(default_factory=list)
    history: list[dict[str, float]] = field(default_factory=list)

    def known(self) -> dict[str, Any]:
        """Numbers, arrays and lists by name, as :func:`polyopt.large.checkpoint.save` takes them."""
        return {
            **{name: value for name, value in vars(self).items() if name != "point"},
            **self.point._asdict(),
        }

    @classmethod
    def of(cls, known: dict[str, Any]) -> State:
        """The state of what a checkpoint has."""
        return cls(Point(*(known.pop(name) for name in Point._fields)), **known)
